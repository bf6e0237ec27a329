"""Deliberate mistakes of the kind that people make, over all rooms: `tests/mutations.py --room deliberate` tries them.

`verify` alone is to notice nearly all of them and the tests every one; `tests/evidence/test_defects.py` holds earlier
ones together with the claim that turns red.
"""

from __future__ import annotations

import ast
import random

from mutants import SOURCES, Defect, room


def defect(module: str, name: str, old: str, new: str) -> Defect:
    """A mistake in words, in a module below `droptics`."""
    return Defect(f"droptics.{module}", old, new, name)


FIRST = (
    defect(
        "masks.gaussian", "noise has the variance for its deviation", "detach().sqrt().to(noise)", "detach().to(noise)"
    ),
    defect(
        "masks.product",
        "masks of two layers are paired with other probabilities",
        "left_masks.repeat_interleave(len(right_masks), dim=0)",
        "left_masks.repeat(len(right_masks), 1)",
    ),
    defect("norms", "columns are weighted by the square", "axis == 0 else value.sqrt())", "axis == 0 else value)"),
    defect("norms", "the index of the k-support norm forgets its room", ">= tails / room).long()", ">= tails).long()"),
    defect(
        "losses",
        "curvature of cross-entropy without its mean",
        "- (chances @ directions).square()",
        "- 0 * (chances @ directions)",
    ),
    defect("data", "merged moments count parts equally", "*pair, second.weight / weight)", "*pair, 0.5)"),
    defect(
        "landscapes.derivatives",
        "a term of the Hessian is lost",
        "end @ weight + suffix @ turn))",
        "suffix @ turn))",
    ),
    defect(
        "landscapes.tied",
        "groups of critical points share as if they had one direction",
        "kept.sum() / (columns + strength * len(index))",
        "kept.sum() / (columns + strength)",
    ),
    defect(
        "layers.drop_connect",
        "keep and drop are swapped",
        "functional.dropout(weight, self.drop)",
        "functional.dropout(weight, 1 - self.drop)",
    ),
    defect(
        "layers.variance_head",
        "variance of the mask for that of the multiplier",
        "(rate / (1 - rate)).expand",
        "(rate * (1 - rate)).expand",
    ),
    defect(
        "layers.drop_block",
        "blocks inside the map cover its far edge too often",
        "min(i + 1, block, length - i, length - block + 1)",
        "min(i + 1, block, length - block + 1)",
    ),
    defect(
        "bounds.measured",
        "units look to one side only",
        "for side in (1, -1):",
        "for side in (1, 1):",
    ),
    defect(
        "bounds.statistical",
        "norm of the data by its dimension, not its rank",
        "math.sqrt(len(data) * int((values > 0).sum()))",
        "math.sqrt(len(data) * len(values))",
    ),
    defect(
        "bounds.lazy_training",
        "half the factor of compression",
        "factor = 2 / (3 - math.e)",
        "factor = 1 / (3 - math.e)",
    ),
    defect(
        "bounds.adversarial",
        "half the error where a quarter is needed",
        '"printed beta" else 4)',
        '"printed beta" else 2)',
    ),
    defect(
        "coadaptation.measures",
        "symmetrized flows count both signs twice",
        "return outgoing * feature_energies(data.inputs @ model.weights[0].mT, data) / 2",
        "return outgoing * feature_energies(data.inputs @ model.weights[0].mT, data)",
    ),
    defect(
        "equalization.orders",
        "the gap condition with the strength on the wrong side",
        "strength * (first - second) >= second)",
        "first - second >= strength * second)",
    ),
    defect(
        "heads.leave_one_out", "left-out errors forget the leverage", "alone, 1.0, slack * left)", "alone, 1.0, left)"
    ),
    defect(
        "heads.ridge",
        "spread of a prediction without its strength",
        "np.sqrt(self._strength * np.square(parts).sum(-1))",
        "np.sqrt(np.square(parts).sum(-1))",
    ),
    defect(
        "training.exact",
        "exact gradients flow back without masks",
        "back = back if noises[i + 1] is None else back * noises[i + 1]",
        "back = back",
    ),
    defect(
        "training.draws",
        "masks are never rescaled",
        "self._scaled = not isinstance(objective, Dropout) or objective.scaled",
        "self._scaled = False",
    ),
    defect(
        "recommenders.implicit",
        "unobserved cells count once, not once an item",
        "self._alpha * len(fixed) * level]",
        "self._alpha * level]",
    ),
    defect(
        "recommenders.left_out",
        "a hidden item is still seen",
        "row[j] - value * np.float64(inverse[pair, j])",
        "row[j]",
    ),
    defect(
        "recommenders.metrics",
        "gains are discounted one rank too late",
        "np.arange(2, max(lengths) + 2)",
        "np.arange(3, max(lengths) + 3)",
    ),
    defect(
        "attacks.threat",
        "the l1 budget is spent before it is given",
        "spent = sorted_room.cumsum(1) - sorted_room",
        "spent = sorted_room.cumsum(1)",
    ),
    defect(
        "papers.thesis.leaky",
        "training descends on clean points",
        "net = net.update(points, targets, step)",
        "net = net.update(inputs, targets, step)",
    ),
    defect(
        "predictions.mixtures",
        "variance of the centers about the wrong mean",
        "second - _square(shift, joint), noise)",
        "second, noise)",
    ),
    defect(
        "envelopes.deep_linear",
        "shares of a deep map without the root",
        "enumerate(log_factors) if j != i) / 2",
        "enumerate(log_factors) if j != i)",
    ),
    defect(
        "spectra.blocks",
        "the tail of a block is shared by one too many",
        "size = block - start",
        "size = block - start + 1",
    ),
    defect(
        "penalties.factors",
        "normal factors without the half",
        "return 0.5 * (self.values.square() * self.variance).sum(-1)",
        "return (self.values.square() * self.variance).sum(-1)",
    ),
    defect(
        "models.two_layer",
        "masks of connections are laid out the other way",
        "multipliers.unflatten(-1, (self.input_size, self.width)) * V",
        "multipliers.unflatten(-1, (self.width, self.input_size)).mT * V",
    ),
)
# written after those above had been mended for, before anything was run on them
SECOND = (
    defect(
        "attacks.attack",
        "the upper end of a share has the shape of the lower one",
        "betaincinv(count + 1, total - count, 1 - tail)",
        "betaincinv(count, total - count + 1, 1 - tail)",
    ),
    defect(
        "attacks.closed_form",
        "offsets of classes with the wrong sign",
        "- (offset[wrong] - offset[targets])",
        "+ (offset[wrong] - offset[targets])",
    ),
    defect("attacks.square", "a window is paid by its power, not its length", "paid ** (1 / order)", "paid"),
    defect(
        "audits.control",
        "slopes act on a mask, not on its change",
        "slope.double() * (mask.double() - 1)",
        "slope.double() * mask.double()",
    ),
    defect(
        "bounds.statistical",
        "each half of a union bound has the whole failure",
        "4 * tail(count, failure / 2)",
        "4 * tail(count, failure)",
    ),
    defect(
        "bounds.adversarial",
        "growing norms are summed without their half",
        "1.5 * step * iterations",
        "3.0 * step * iterations",
    ),
    defect(
        "bounds.margins",
        "gates look at the signed points",
        "(labels[:, None] * (points @ rows.mT) >= 0)",
        "(points @ rows.mT >= 0)",
    ),
    defect(
        "coadaptation.retention",
        "the product in a quadratic form counts once",
        "2 * b * angle.cos() * angle.sin()",
        "b * angle.cos() * angle.sin()",
    ),
    defect(
        "coadaptation.subnetworks", "a sub-network is rescaled as the next smaller one", "* scales[1:]", "* scales[:-1]"
    ),
    defect(
        "envelopes.deep_linear",
        "masked inputs are noise without signal",
        "second = second + noise.hadamard(second)",
        "second = noise.hadamard(second)",
    ),
    defect(
        "envelopes.deep_linear",
        "noise is not passed on to the next layer",
        "second = image + torch.diag(law.relative_variance.detach().to(image) * image.diagonal())",
        "second = image",
    ),
    defect(
        "equalization.joint",
        "norms of the two factors are swapped",
        "a * nb[:, None] + b * na[:, None]",
        "a * na[:, None] + b * nb[:, None]",
    ),
    defect(
        "losses",
        "curvature of the logistic loss is a probability",
        "(chance * (1 - chance)).unsqueeze(-1)",
        "chance.unsqueeze(-1)",
    ),
    defect(
        "estimates",
        "the upper end of a sum is rounded inwards",
        "self.upper + known + rounding()",
        "self.upper + known - rounding()",
    ),
    defect(
        "heads.projection",
        "the factor of a gradient reaches one term",
        "2 * (weighted @ top + spread * share)",
        "(2 * weighted @ top + spread * share)",
    ),
    defect(
        "heads.leave_one_out",
        "the mean of the targets forgets their weights",
        "(weights @ X, weights @ Y) if intercept",
        "(weights @ X, Y.mean(0)) if intercept",
    ),
    defect(
        "landscapes.derivatives",
        "the backward recursion is not transposed",
        "backs.append(factor * (weight.mT @ backs[-1] @ weight))",
        "backs.append(factor * (weight.mT @ backs[-1].mT @ weight.abs()))",
    ),
    defect(
        "landscapes.symmetries",
        "a rescaling moves both layers the same way",
        "= -weights[i + 1][:, node]",
        "= weights[i + 1][:, node]",
    ),
    defect(
        "layers.drop_block",
        "seeds never fall on each other",
        "1 - _mean_survival(math.log1p(-gamma),",
        "1 - _mean_survival(-gamma,",
    ),
    defect("linalg.shrinkage", "a value is full too early", ">= (1.0 + beta) * total:", ">= beta * total:"),
    defect(
        "masks.coins",
        "blocks have their rate for a variance",
        "self._by_block(self.relative_variance[:: self.block])",
        "self._by_block(self.drop)",
    ),
    defect(
        "masks.correlations",
        "noise of correlated masks forgets the noise below",
        "astype(excess.dtype) * (excess + moment)",
        "astype(excess.dtype) * moment",
    ),
    defect("models.relu", "outputs pass a ReLU as well", "if i < len(self.weights) - 1:", "if i < len(self.weights):"),
    defect(
        "optima.last_layer",
        "a mean is not masked",
        "masks.hadamard(quadratic + torch.outer(h_mean, h_mean))",
        "masks.hadamard(quadratic)",
    ),
    defect(
        "optima.connections",
        "every unit carries the whole strength",
        "solution, below = connections_solution(target, correlation, strength / width,",
        "solution, below = connections_solution(target, correlation, strength,",
    ),
    defect("penalties.second_order", "the second order without its half", "0.5 * masks.weigh(", "masks.weigh("),
    defect(
        "predictions.densities",
        "a tilted normal has twice its exponent",
        "0.5 * (tilt * noise).square() - peak",
        "(tilt * noise).square() - peak",
    ),
    defect("rates.exact", "strengths are rates", "[rate / (1 - rate) for rate in rates]", "[rate for rate in rates]"),
    defect(
        "recommenders.item_kernel",
        "a row is left out without its implicit part",
        "(np.outer(y, y) + implicit)",
        "np.outer(y, y)",
    ),
    defect(
        "spectra.one_rate",
        "a sum of squares for the square of a sum",
        "share * spectrum.sum(-1).square()",
        "share * spectrum.square().sum(-1)",
    ),
    defect(
        "training.lazy",
        "a radius for half the deviation",
        "2 * math.sqrt(math.log(max(width, 2)))",
        "math.sqrt(math.log(max(width, 2)))",
    ),
)
# one in each of 31 functions drawn by seed 20261116 from all rooms that compute, written before anything was run on
# them; functions that only refuse, word, convert or allow for rounding were passed over
THIRD = (
    defect(
        "attacks.ensemble",
        "a whole batch counts as found",
        "found_by[rows[wins]] = number",
        "found_by[rows if wins.any() else rows[wins]] = number",
    ),
    defect(
        "bounds.lazy_training",
        "the competitor's loss is not divided by the step",
        '"competitor loss": factor / scale',
        '"competitor loss": factor / steps',
    ),
    defect(
        "coadaptation.subnetworks",
        "a sub-network is rescaled with its offsets",
        "= _masked_outputs(features, scale * weight, bias,",
        "= _masked_outputs(features, scale * weight, scale * bias,",
    ),
    defect(
        "envelopes.deep_linear",
        "layers are stretched without the root",
        "stretch = (1 + strengths[:, None] / shares).sqrt()",
        "stretch = 1 + strengths[:, None] / shares",
    ),
    defect(
        "estimates",
        "the lower end of a sum forgets what was added",
        "self.lower + known - rounding()",
        "self.lower - rounding()",
    ),
    defect(
        "heads.projection",
        "a scaled system is not scaled back",
        "torch.cholesky_solve(right * scale[:, None], lower) * scale[:, None]",
        "torch.cholesky_solve(right * scale[:, None], lower)",
    ),
    defect(
        "landscapes.units",
        "cross moments keep the units of the targets",
        "moments.yx / units / size",
        "moments.yx / units",
    ),
    defect(
        "layers.sampled",
        "rotated draws keep what they should drop",
        "(uniform + turns) % 1 >= drop",
        "(uniform + turns) % 1 < drop",
    ),
    defect("optima.allocations", "values for their squares", "power = values**2", "power = values"),
    defect(
        "predictions.mixtures",
        "the network without coins has no offsets",
        "unmasked = torch.relu(wide @ weights.mT + offset.double())",
        "unmasked = torch.relu(wide @ weights.mT)",
    ),
    defect("rates.splits", "odds for a rate", "return odds / (1 + odds)", "return odds"),
    defect(
        "recommenders.selection",
        "ratings are centered where it was not asked",
        "mean = None if template.center else 0.0",
        "mean = 0.0 if template.center else None",
    ),
    defect(
        "spectra.decomposition",
        "values are cut where they should shrink",
        "    kept, penalty = action.shrink_array(values)\n",
        "    kept, penalty = action.shrink_array(values)\n    kept = values[: len(kept)] * (kept > 0)\n",
    ),
    defect(
        "training.objectives",
        "weights are lost where targets differ between runs",
        "flat).reshape(lead), batch.weights)",
        "flat).reshape(lead), None)",
    ),
    defect("attacks.square", "hills fall with the distance, not its square", "1 / (k + 1) ** 2", "1 / (k + 1)"),
    defect(
        "bounds.lazy_training",
        "a logarithm without its two",
        "5 / margin * math.log(2 * step_size * steps)",
        "5 / margin * math.log(step_size * steps)",
    ),
    defect(
        "coadaptation.retention",
        "the angle of an eigenvector with one product",
        "torch.atan2(2 * b, a - c) / 2",
        "torch.atan2(b, a - c) / 2",
    ),
    defect(
        "heads.leave_one_out",
        "a low-rank inverse adds what it should subtract",
        "(rows @ self.right.T) / -strength",
        "(rows @ self.right.T) / strength",
    ),
    defect(
        "landscapes.portraits",
        "the mean is no part of a mask's second moment",
        "factor = 1 + masks.characteristic",
        "factor = masks.characteristic",
    ),
    defect(
        "layers.variance_head",
        "the root of a covariance is the strength itself",
        "(input * self.strength.sqrt())",
        "(input * self.strength)",
    ),
    defect(
        "linalg.krylov",
        "a new block is taken for orthogonal to the others",
        "cross = (self._images.mT @ images).double()",
        "cross = 0 * (self._images.mT @ images).double()",
    ),
    defect(
        "masks.coins",
        "windows of starts are one off",
        "(fallen[:, self.block :] - fallen",
        "(fallen[:, self.block - 1 : -1] - fallen",
    ),
    defect(
        "optima.objectives", "few rows do not stand for their number", "Sample(rows * len(rows) ** 0.5,", "Sample(rows,"
    ),
    defect("penalties.relu.device", "a product of two sums loses a part", "y * (one - x * none)", "y * one"),
    defect("rates.designs", "noise of the training is left out", "/ len(one) + noise)", "/ len(one))"),
    defect(
        "recommenders.metrics",
        "nothing is hidden of a user with few ratings",
        "1, np.maximum(counts - 1, 1))",
        "1, counts)",
    ),
    defect(
        "spectra.blocks", "the tail of a block is divided by one too many", "/ (block - start - 1)", "/ (block - start)"
    ),
    defect(
        "training.estimators",
        "the offset keeps the scale of the standardized targets",
        "offset * scale + center",
        "offset + center",
    ),
    defect("bounds.adversarial", "one step too many is summed", "max(iterations - 1, 0)", "iterations"),
    defect(
        "coadaptation.measures",
        "a flow is its square",
        "torch.ones_like(energies)).sqrt() * (energies > 0)",
        "torch.ones_like(energies)) * (energies > 0)",
    ),
    defect(
        "envelopes.deep_linear",
        "a map passes its widest layer only",
        "< min(model.hidden_sizes)",
        "< max(model.hidden_sizes)",
    ),
)
# as the third list, by seed 31116, from other functions
FOURTH = (
    defect(
        "attacks.ascent",
        "restarts begin where the first one did",
        'self._climbers(aim, "random" if restart else method.start)',
        "self._climbers(aim, method.start)",
    ),
    defect(
        "bounds.classical",
        "a class counts once",
        "assemble(risk, 2 * complexity, slack",
        "assemble(risk, complexity, slack",
    ),
    defect(
        "coadaptation.subnetworks",
        "sub-networks of a ReLU network have no offset",
        "model.weights[-1], model.biases[-1]",
        "model.weights[-1], 0 * model.biases[-1]",
    ),
    defect(
        "equalization.families",
        "what a map does without energy replaces the rest",
        "V = V + (inverse @ (wanted - U @ V.mT)).mT",
        "V = (inverse @ wanted).mT",
    ),
    defect(
        "heads.leave_one_out",
        "inverse blocks for their roots",
        "1 / np.sqrt(np.where(alive, values, 1.0))",
        "1 / np.where(alive, values, 1.0)",
    ),
    defect(
        "landscapes.spurious",
        "one layer shrinks for two",
        "(1 + rate / (1 - rate) / 2).square()",
        "1 + rate / (1 - rate) / 2",
    ),
    defect(
        "layers.explicit", "the penalty of a batch is a sum", "return found, found.mean()", "return found, found.sum()"
    ),
    defect(
        "linalg.rotations", "the carrier counts itself", "carried * (left - 1) >= others", "carried * left >= others"
    ),
    defect(
        "masks.discrete",
        "masks are bounded before they are rescaled",
        "(possible / self.mean).abs().amax(0)",
        "possible.abs().amax(0)",
    ),
    defect(
        "optima.allocations",
        "water is filled without the level",
        "(roots + strength * (index * roots - sums) > 0)",
        "(strength * (index * roots - sums) > 0)",
    ),
    defect(
        "predictions.sampling",
        "what a control takes off counts once",
        "terms = 2 * found.control * centered",
        "terms = found.control * centered",
    ),
    defect(
        "rates.copies",
        "a mean gives the newest look too much weight",
        "self.best[i] * (before / whole) + losses / whole",
        "self.best[i] * (before / whole) + losses / before",
    ),
    defect(
        "recommenders.all_cells",
        "a row's strength forgets its ratings",
        "(end - begin) * expected[0, k]",
        "expected[0, k]",
    ),
    defect(
        "spectra.any_law",
        "squares are summed for the square of a sum",
        "weights = vectors.sum(0).square()",
        "weights = vectors.square().sum(0)",
    ),
    defect(
        "training.lazy",
        "the trained network is not rescaled",
        "final = ReLUNet([(1 - rate) * first, top])",
        "final = ReLUNet([first, top])",
    ),
    defect(
        "attacks.ensemble",
        "what a naive attack overstates is a share of the right ones",
        "overstated / len(data))",
        "overstated / max(int((~clean).sum()), 1))",
    ),
    defect(
        "bounds.measured",
        "an adjugate with the wrong sign",
        "a * sums[..., 1] - b * sums[..., 0]",
        "a * sums[..., 1] + b * sums[..., 0]",
    ),
    defect(
        "coadaptation.measures",
        "evenness without the root",
        "(values.shape[-1] ** 0.5 * scaled",
        "(values.shape[-1] * scaled",
    ),
    defect(
        "envelopes.deep_linear",
        "a layer's strength does not fall with its width",
        "law.relative_variance.mean() / law.size for",
        "law.relative_variance.mean() for",
    ),
    defect(
        "equalization.families", "inputs are taken for white", "(root.up(first.mT).mT, *others)", "(first, *others)"
    ),
    defect(
        "heads.leave_one_out",
        "singular values for their squares",
        "(self.values / (self.values**2 + strength))",
        "(self.values / (self.values + strength))",
    ),
    defect(
        "landscapes.derivatives",
        "masks on the inputs are ignored",
        "second = second * factors.pop(0)",
        "factors.pop(0)",
    ),
    defect(
        "layers.drop_block", "seeds inside are as many as everywhere", "drop * math.prod(size) / (area", "drop / (area"
    ),
    defect(
        "linalg.roots", "an inverse root grows with its matrix", "slopes = -slopes * ends", "slopes = slopes * ends"
    ),
    defect("masks.product", "units of one layer are independent", "if lag < law.size else", "if lag == 0 else"),
    defect(
        "optima.two_layer",
        "a tied map keeps the units of its inputs",
        "(moments.yx + moments.yx.mT) / (2 * scale)",
        "(moments.yx + moments.yx.mT) / 2",
    ),
    defect(
        "penalties.certified",
        "shares of the wrong classes count the best one",
        "shares = ordered[..., 1:].softmax(-1)",
        "shares = ordered.softmax(-1)[..., 1:]",
    ),
    defect(
        "rates.masking",
        "one coin for all channels of an example",
        "lead = 1 if _SINGLE.get(kind) == len(shape) else 2",
        "lead = 1",
    ),
    defect(
        "recommenders.ratings",
        "a new mean is added in units of the old scale",
        "middle += scale * recentered(",
        "middle += recentered(",
    ),
    defect(
        "attacks.losses",
        "the reflected loss has the slope of the plain one",
        "away * torch.sigmoid(z) if scaled",
        "away * torch.sigmoid(-z) if scaled",
    ),
    defect("bounds.classical", "a tail without its two", "math.exp(-2 * ratio * ratio)", "math.exp(-ratio * ratio)"),
)
# as the third list, by seed 616, after the claims on instruments had been written
FIFTH = (
    defect(
        "attacks.apgd",
        "first steps are long where they should be short",
        '(1.0 if region.threat.norm == "l1" else 2.0)',
        '(2.0 if region.threat.norm == "l1" else 1.0)',
    ),
    defect(
        "bounds.statistical",
        "smoothing is not shared among the rows",
        "counts / len(data) + smoothing / size",
        "counts / len(data) + smoothing",
    ),
    defect(
        "coadaptation.subnetworks",
        "an exported sub-network is not rescaled",
        "weights[-1] = scale * weights[-1][:, index]",
        "weights[-1] = weights[-1][:, index]",
    ),
    defect(
        "estimates",
        "guaranteed ends do not move",
        "(end + offset.detach() for end in self.guaranteed)",
        "(end for end in self.guaranteed)",
    ),
    defect(
        "heads.leave_one_out",
        "an isolated example meets the first target",
        "refit.error(X[i], Y[i], strength)",
        "refit.error(X[i], Y[0], strength)",
    ),
    defect(
        "landscapes.inspection",
        "an escape reports where it began",
        "Escape(direction, curvature, best, objective)",
        "Escape(direction, curvature, best, before)",
    ),
    defect("layers.drop_block", "what is kept is not rescaled", "(kept.to(wide) * factor.to(wide))", "kept.to(wide)"),
    defect(
        "linalg.shrinkage",
        "levels are pooled the wrong way",
        "found[-1][1][0] >= current[0]",
        "found[-1][1][0] <= current[0]",
    ),
    defect(
        "masks.coins",
        "blocks reach one unit further",
        "(right - self.block + 1).clamp_min(first)",
        "(right - self.block).clamp_min(first)",
    ),
    defect(
        "models.two_layer",
        "multipliers act twice",
        "masked(self.unit_outputs(inputs), multipliers, self.units)",
        "masked(masked(self.unit_outputs(inputs), multipliers, self.units), multipliers, self.units)",
    ),
    defect(
        "optima.allocations",
        "the turn lies at twice its place",
        "turn = np.log(a * (k - 1) / 2)",
        "turn = np.log(a * (k - 1))",
    ),
    defect(
        "rates.fits",
        "Adam corrects a square for a root",
        "second.sqrt() / math.sqrt(1 - _DECAYS[1] ** step)",
        "second.sqrt() / (1 - _DECAYS[1] ** step)",
    ),
    defect(
        "recommenders.device",
        "a move forgets its start",
        "return (start + move.to(start.dtype))",
        "return (move.to(start.dtype))",
    ),
    defect(
        "spectra.decomposition",
        "squares for singular values",
        "squares.flip(0).clamp_min(0).sqrt().cpu()",
        "squares.flip(0).clamp_min(0).cpu()",
    ),
    defect("bounds.measured", "coins for signs", "generator=generator) * 2 - 1", "generator=generator)"),
    defect(
        "coadaptation.subnetworks",
        "no accuracy may be lost",
        "(curve >= full - tolerance).nonzero()",
        "(curve >= full).nonzero()",
    ),
    defect(
        "equalization.equalization",
        "a ratio for what exceeds one",
        "torch.ones_like(below), below) - 1",
        "torch.ones_like(below), below)",
    ),
    defect(
        "heads.projection",
        "a solved head forgets the weights of its examples",
        "roots = sample.shares.double().sqrt()[:, None]",
        "roots = torch.full_like(sample.shares, 1 / len(sample)).double().sqrt()[:, None]",
    ),
    defect(
        "landscapes.tied",
        "without masks every factor is listed",
        "whole = strength > 0 or not chosen or left == 0",
        "whole = True",
    ),
    defect(
        "layers.drop_block",
        "blocks of even size lean to the other side",
        "[block // 2, block - 1 - block // 2]",
        "[block - 1 - block // 2, block // 2]",
    ),
    defect(
        "linalg.rotations",
        "a discriminant with the wrong sign",
        "inner * inner - above * below",
        "inner * inner + above * below",
    ),
    defect(
        "masks.coins",
        "coins fall as often as they should stay",
        "torch.where(dropped.bool(), drop[random], 1 - drop[random])",
        "torch.where(dropped.bool(), 1 - drop[random], drop[random])",
    ),
    defect(
        "optima.connections",
        "a step shrinks as if it had length one",
        "shrink(values, step * strength * limit, limit)",
        "shrink(values, strength * limit, limit)",
    ),
    defect(
        "penalties.relu.criterion",
        "what masks add contains the loss without them",
        "torch.cat([plain, result - plain])",
        "torch.cat([plain, result])",
    ),
    defect(
        "predictions.classes",
        "a covariance for its root",
        "lower = torch.linalg.cholesky(covariance + jitter)",
        "lower = covariance + jitter",
    ),
    defect("rates.chains", "weights after a bias begin too early", "at += 0 if bias is None else shape[0]", "at += 0"),
    defect("spectra.any_law", "a diagonal counts twice", "return upper + upper.triu(1).mT", "return upper + upper.mT"),
    defect(
        "papers.thesis.leaky", "the other slope of a leaky unit", "by_part + (1 - net.slope) *", "by_part + net.slope *"
    ),
    defect("bounds.survey", "a power for its dual", "1 - 1 / power", "1 / power"),
    defect(
        "coadaptation.subnetworks",
        "a gap with the wrong sign",
        "return self.full - float(self.accuracies.mean())",
        "return float(self.accuracies.mean()) - self.full",
    ),
    defect("equalization.joint", "units of a rank-one network are too small", "width**-0.5", "width**-1.0"),
)
# as the third list, by seed 1611202625 over the lines of all functions of the rooms that compute, after the claims on
# rooms had been written; functions that save, load, draw pictures, find or word findings were passed over as well. At
# first sight claims noticed 15 (the 20th and the 23rd not tried on all of them), with the claims on edges 12 more
SIXTH = (
    defect(
        "recommenders.rows",
        "the bias of a row is no regressor of its own",
        "regressors[:, strengths.width] = 1\n",
        "regressors[:, strengths.width] = 0\n",
    ),
    defect(
        "landscapes.inspection",
        "only one way along a direction is tried",
        "torch.stack([sizes, -sizes], 1)",
        "torch.stack([sizes, sizes], 1)",
    ),
    defect(
        "predictions.calibration",
        "a rank without the new example",
        "math.ceil((len(scores) + 1) * level)",
        "math.ceil(len(scores) * level)",
    ),
    defect("audits.units", "energies for their mean square", "source.square().mean(dim=[", "source.abs().mean(dim=["),
    defect(
        "papers.thesis.leaky",
        "the attack step forgets a square",
        "1.0 / max(top * net.norm**2, 1e-300)",
        "1.0 / max(top * net.norm, 1e-300)",
    ),
    defect("attacks.square", "squares keep to the near half", "(draw[:, i] * room[i])", "(draw[:, i] * room[i] / 2)"),
    defect(
        "training.train",
        "schedules start anew at every record",
        "sizes = _factors(self.settings.schedule, step, until)",
        "sizes = _factors(self.settings.schedule, 0, until - step)",
    ),
    defect(
        "audits.heads",
        "two sites on one layer add up",
        "layer[:-1] = 1 - (1 - layer[:-1]) * (1 - rate)",
        "layer[:-1] = layer[:-1] + rate",
    ),
    defect(
        "recommenders.partitioned",
        "sums over users forget their counts",
        "return rows, reached, column_sums(rows, np.diff(starts))",
        "return rows, reached, column_sums(rows, np.ones(len(starts) - 1))",
    ),
    defect(
        "predictions.calibration",
        "the ranked score without the length of the period",
        "crps = gaps.mean(0) * density.width + outside",
        "crps = gaps.mean(0) + outside",
    ),
    defect(
        "recommenders.completion",
        "biases in the units of factors",
        "(self.scale_ * side[:, width] for side in (left, right))",
        "(root * side[:, width] for side in (left, right))",
    ),
    defect(
        "penalties.entropy",
        "the other class of a logistic head moves too",
        "moves.head.new_tensor([[1.0], [0.0]])",
        "moves.head.new_tensor([[1.0], [-1.0]])",
    ),
    defect(
        "linalg.rotations",
        "a Gram matrix is not made symmetric by its half",
        "work = ((checked + checked.mT) / 2)",
        "work = (checked + checked.mT - torch.diag_embed(torch.diagonal(checked, dim1=-2, dim2=-1)))",
    ),
    defect(
        "linalg.rotations",
        "columns are equalized over one entry less",
        "equalize_rows_(columns, factor.shape[-2])\n    return factor if",
        "equalize_rows_(columns, factor.shape[-2] - 1)\n    return factor if",
    ),
    defect(
        "audits.statements",
        "sub-networks are not rescaled",
        "SUBNETWORKS, generator), scale=1 / (1 - rate))",
        "SUBNETWORKS, generator), scale=1.0)",
    ),
    defect(
        "models.replaying",
        "a weight counts once whatever its positions",
        "weight.numel() * max(outputs.numel() / len(weight), 1.0)",
        "weight.numel() * 1.0",
    ),
    defect(
        "predictions.predictive",
        "a mixture of one has half its weight",
        "yield torch.ones(1, dtype=torch.float64), Affine(outputs.center[None]",
        "yield torch.full((1,), 0.5, dtype=torch.float64), Affine(outputs.center[None]",
    ),
    defect(
        "penalties.relu.kernels",
        "second moments have the first weight twice",
        "second[i, j] += left_weights[a] * total",
        "second[i, j] += left_weights[a] ** 2 * total",
    ),
    defect(
        "landscapes.symmetries",
        "a rotation moves both sides the same way",
        "moved[0] = moved[0] - weights[0] @ inner",
        "moved[0] = moved[0] + weights[0] @ inner",
    ),
    defect(
        "recommenders.tiles",
        "every second rating has the factors of the one before",
        "places[m] = start + columns[m] * step",
        "places[m] = start + columns[m - m % 2] * step",
    ),
    defect(
        "heads.projection",
        "the top layer of the start is returned",
        "Projection(ReLUNet([rows, top]), value",
        "Projection(ReLUNet([rows, top_layer(torch.relu(data.inputs @ hidden.mT), data, masks)]), value",
    ),
    defect(
        "predictions.transforms",
        "coins are centered without their sum",
        "((shift - chosen.sum(-1)).reshape(rows).numpy()",
        "(shift.reshape(rows).numpy()",
    ),
    defect(
        "bounds.adversarial",
        "a reach by the width, not its root",
        "1.0 if top is None else top * math.sqrt(width)",
        "1.0 if top is None else top * width",
    ),
    defect(
        "linalg.krylov",
        "the energy of a matrix is its norm",
        "dim=1, dtype=torch.float64).square().sum())",
        "dim=1, dtype=torch.float64).sum())",
    ),
    defect(
        "attacks.ensemble",
        "who was wrong as is counts as robust",
        "robust=proportion(int((found_by == _LEFT).sum()), total)",
        "robust=proportion(int(((found_by == _LEFT) | (found_by < 0)).sum()), total)",
    ),
    defect(
        "layers.drop_block",
        "blocks over a place are added, not multiplied",
        "tuple(math.prod(combination) for combination in itertools.product(*sides))",
        "tuple(sum(combination) for combination in itertools.product(*sides))",
    ),
    defect(
        "training.train",
        "the last iterate is kept before its step",
        "if self.step in self.settings.keep:\n            self.iterates.append(Iterate(self.step,",
        "if self.step in self.settings.keep:\n            self.iterates.append(Iterate(self.step - 1,",
    ),
    defect(
        "optima.krylov",
        "layers of a tall map are not swapped back",
        "replace(answer, model=TwoLayerLinear(V, U)) if tall else answer",
        "replace(answer, model=TwoLayerLinear(U, V)) if tall else answer",
    ),
    defect(
        "envelopes.deep_linear",
        "a layer's strength is divided by its root",
        "law.relative_variance.mean() / law.size for",
        "law.relative_variance.mean() / law.size**0.5 for",
    ),
    defect(
        "penalties.factors",
        "listed masks move from zero, not from one",
        "contributions @ (masks - 1).mT.to(contributions)",
        "contributions @ masks.mT.to(contributions)",
    ),
    defect(
        "recommenders.sgd",
        "the objective forgets the biases of the columns",
        "residual = residual - u[:, width] - v[:, width]",
        "residual = residual - u[:, width]",
    ),
)
# as the sixth list, by seed 7251116, after the claims on edges: 14 at first sight, by the claims on the same room and
# with loops as they were compiled before (the first and the 27th are in such)
SEVENTH = (
    defect(
        "recommenders.ratings",
        "repeated ratings are added up",
        "values[write] = total / times",
        "values[write] = total",
    ),
    defect(
        "penalties.deep_linear",
        "laws of layers come in the opposite order",
        "laws = masks.laws if isinstance(masks, Product) else (masks,)\n    if max",
        "laws = masks.laws[::-1] if isinstance(masks, Product) else (masks,)\n    if max",
    ),
    defect(
        "penalties.moment_bounds",
        "moments that leave no second node are used",
        "(m1 * m3 - m2**2 > 1e-12 * m1 * m3)",
        "(m1 * m3 - m2**2 > -1.0)",
    ),
    defect(
        "layers.drop_block",
        "covers of a cut block are those of the whole",
        "_counts(length, min(block, *size), edges)]",
        "_counts(length, block, edges)]",
    ),
    defect("attacks.attack", "who was fooled counts as right", "held, right = ~wrong\n", "right, held = ~wrong\n"),
    defect(
        "spectra.coordinates",
        "what the inputs explain is not taken off",
        "residual = energies - parts.sum(1)\n",
        "residual = energies\n",
    ),
    defect("norms", "factors come in the wrong order", "weights.U).mT, weights.U]", "weights.U), weights.U.mT]"),
    defect(
        "models.unfused",
        "dropout of weights that are asked for is left out",
        '"dropout": lambda weights, p=0.0, training=True: masking(weights)',
        '"dropout": lambda weights, p=0.0, training=True: weights',
    ),
    defect(
        "landscapes.derivatives",
        "a moment does not pass the masks",
        "moments.append(factor * (weight @ moments[-1] @ weight.mT))",
        "moments.append(weight @ moments[-1] @ weight.mT)",
    ),
    defect(
        "spectra.decomposition",
        "the least value leaves out what the width cuts",
        "        return least_value(float(np.trace(gram)), values, kept, penalty)\n    return shrunk_svd",
        "        return least_value(float((values**2).sum()), values, kept, penalty)\n    return shrunk_svd",
    ),
    defect(
        "recommenders.sgd",
        "the penalty is that of single factors",
        "torch.stack([residual @ residual, products.square().sum()])",
        "torch.stack([residual @ residual, u[:, :width].square().sum()])",
    ),
    defect(
        "predictions.calibration",
        "noise is added to a deviation",
        "+ float(noise) ** 2).sqrt()\n    scores",
        "+ float(noise)).sqrt()\n    scores",
    ),
    defect(
        "rates.stationary",
        "the search starts from nothing",
        "minimize(both, self.start.numpy(), jac=True",
        "minimize(both, 0 * self.start.numpy(), jac=True",
    ),
    defect(
        "audits.units",
        "maps have their rows for channels",
        "axis = 1 if source.ndim >= FEATURE_MAPS",
        "axis = 2 if source.ndim >= FEATURE_MAPS",
    ),
    defect(
        "recommenders.autoencoder_completion",
        "errors are divided by rows, not by ratings",
        "np.sqrt(squares / counts[rows].sum())",
        "np.sqrt(squares / len(rows))",
    ),
    defect(
        "layers.drop_block",
        "timm's rate is that of another library",
        '"inside" if library == "timm" else "area"',
        '"area" if library == "timm" else "inside"',
    ),
    defect(
        "rates.tuning",
        "seeds of a scan are those of the guard",
        'seeds = [key(seed, "scan", i) for i in range(repeats)]',
        'seeds = [key(seed, "guard", i) for i in range(repeats)]',
    ),
    defect(
        "spectra.any_law",
        "the nuclear part is not shrunk by the plain one",
        "nuclear * width / (1 + plain), width)",
        "nuclear * width, width)",
    ),
    defect(
        "attacks.losses",
        "the ratio of an aimed loss for one that aims at nothing",
        "/ _spread(outputs, aimed=False)",
        "/ _spread(outputs, aimed=True)",
    ),
    defect(
        "predictions.running",
        "modules in training mode keep their statistics moving",
        "training_without_statistics(module)\n    try",
        "module.train()\n    try",
    ),
    defect(
        "training.products",
        "steps go along half the gradient",
        "doubled = (2 * sizes).to(x)",
        "doubled = sizes.to(x)",
    ),
    defect(
        "models.replaying",
        "look-ups cost as much as products",
        "isinstance(part, nn.modules.sparse.Embedding)",
        "isinstance(part, nn.modules.sparse.EmbeddingBag)",
    ),
    defect(
        "recommenders.local",
        "the least frequent neighbors are taken",
        "np.argsort(-np.abs(together), kind",
        "np.argsort(np.abs(together), kind",
    ),
    defect(
        "optima.allocations",
        "Newton's step goes the other way",
        "y = np.maximum(y - step, turn)",
        "y = np.maximum(y + step, turn)",
    ),
    defect(
        "coadaptation.retention",
        "half circles are quarter circles",
        "first = torch.searchsorted(unrolled, middles - math.pi / 2)",
        "first = torch.searchsorted(unrolled, middles - math.pi / 4)",
    ),
    defect(
        "landscapes.tied",
        "the level of a group forgets its columns",
        "/ (group[0] + strength * len(group[1]))",
        "/ (1 + strength * len(group[1]))",
    ),
    defect(
        "penalties.relu.kernels",
        "means are weighted by the right side alone",
        "mean[i] += left_weights[a] * total",
        "mean[i] += total",
    ),
    defect(
        "penalties.relu.criterion",
        "the cross term counts once",
        "added = 2 * (offset @ (summed @ (mean - hidden)))",
        "added = (offset @ (summed @ (mean - hidden)))",
    ),
    defect(
        "envelopes.two_layer",
        "a tied network has the envelope of an untied one",
        "acting.tied if isinstance(model, Autoencoder) else acting",
        "acting",
    ),
    defect(
        "rates.running",
        "copies of the first seed stand for all",
        "[self.rows[self._key(setting, seed, form, beside)] for seed in seeds]",
        "[self.rows[self._key(setting, seeds[0], form, beside)] for seed in seeds]",
    ),
    defect(
        "predictions.controls",
        "strata are shared out for other coins",
        "strata = allocate(count_chances(drop), samples,",
        "strata = allocate(count_chances(1 - drop), samples,",
    ),
)
# by seed 20261116 over the lines of all functions of the rooms that compute, one mistake in each function drawn and
# decided before any was tried; only what needs a GPU and what words or draws reports was passed over. After the claims
# on branches 12 at first sight, with the two that look again 10 more
_REST = "".join(
    f"\n{line}"
    for line in (
        "        for i in range(units):",
        "            total = 0.0",
        "            for b in range(size):",
        "                weighted",
    )
)
EIGHTH = (
    defect(
        "attacks.apgd",
        "steps that find nothing grow",
        "returns, now.step / 2, now.step)",
        "returns, now.step * 2, now.step)",
    ),
    defect(
        "attacks.apgd",
        "the last step is never taken",
        "left == 0 or number == steps - 1",
        "left == 0 or number == steps - 2",
    ),
    defect(
        "audits.batches",
        "what is no tensor is lost on its way to a device",
        "if isinstance(value, Tensor) else value\n\n\ndef _is_tensors",
        "if isinstance(value, Tensor) else None\n\n\ndef _is_tensors",
    ),
    defect(
        "audits.misuses",
        "any call of the owner counts as use of a layer",
        "call.rate == rate and call.module in owners",
        "call.rate == rate or call.module in owners",
    ),
    defect(
        "audits.tails",
        "energies are sums of absolute values",
        "torch.linalg.vector_norm(slope, dtype=torch.float64)",
        "torch.linalg.vector_norm(slope, 1, dtype=torch.float64)",
    ),
    defect(
        "bounds.classical",
        "bisection goes to the wrong half",
        "(low, middle) if value_at(middle) < trivial",
        "(low, middle) if value_at(middle) > trivial",
    ),
    defect(
        "bounds.lazy_training",
        "the radius holds the inputs without their root",
        "radius = math.sqrt(inputs) + max",
        "radius = inputs + max",
    ),
    defect(
        "bounds.margins",
        "weights of the nearest point do not sum to one",
        "points.T @ weights / max(float(weights.sum()), 1e-300)",
        "points.T @ weights",
    ),
    defect(
        "bounds.margins",
        "the upper end forgets the rate",
        "points.new_tensor(keep * upper)",
        "points.new_tensor(upper)",
    ),
    defect(
        "bounds.statistical",
        "alpha is rounded down to the grid",
        "index = math.ceil(math.log(alpha)",
        "index = math.floor(math.log(alpha)",
    ),
    defect(
        "bounds.statistical",
        "examples needed grow with the bound, not with its square",
        '{"examples": examples * value * value}',
        '{"examples": examples * value}',
    ),
    defect(
        "coadaptation.subnetworks",
        "kept units are left out",
        "masks = kept.to(features)",
        "masks = 1 - kept.to(features)",
    ),
    defect(
        "coadaptation.subnetworks",
        "the sub-network keeps the units of least flow",
        "kept[order[:width]] = True",
        "kept[order[width:]] = True",
    ),
    defect(
        "layers.explicit",
        "layers deeper inside are not found",
        "for layer in module.modules() if isinstance(layer, ExplicitDropout)",
        "for layer in module.children() if isinstance(layer, ExplicitDropout)",
    ),
    defect(
        "models.last_layer",
        "multipliers lose their size",
        "masked(self.features(inputs), multipliers, self.units)",
        "masked(self.features(inputs), None if multipliers is None else (multipliers > 0), self.units)",
    ),
    defect(
        "models.watching",
        "a call counts as dropping whatever was done to it",
        "Call(site, kind, rate, actual > 0, None, self.places.part, asked=applied)",
        "Call(site, kind, rate, rate > 0, None, self.places.part, asked=applied)",
    ),
    defect(
        "optima.last_layer",
        "weights of examples are divided by their number",
        "return targets, weights / weights.sum()",
        "return targets, weights / len(weights)",
    ),
    defect(
        "optima.optimum",
        "an optimum below its bound passes",
        "return check_certified(rule(family, data, masks))",
        "return rule(family, data, masks)",
    ),
    defect(
        "penalties.certified",
        "a binomial coefficient of the fourth moment is wrong",
        "m4 = powers[1] - 4 * m3 - 6 * m2 - 4 * m1",
        "m4 = powers[1] - 4 * m3 - 4 * m2 - 4 * m1",
    ),
    defect(
        "penalties.entropy",
        "weights of examples are ignored",
        "value = average(values, weights)",
        "value = values.mean(-1)",
    ),
    defect(
        "penalties.evaluation",
        "the risk is squared whatever the loss",
        "plain_risk(model, data, Squared() if loss is None else loss)",
        "plain_risk(model, data, Squared())",
    ),
    defect(
        "penalties.intervals",
        "intervals are half as wide",
        "half = spread.student(chosen.used, method.confidence) + rounding",
        "half = spread.student(chosen.used, method.confidence) / 2 + rounding",
    ),
    defect(
        "penalties.relu.effort",
        "pairs of units count twice",
        "repeats * units * (units + 1) / 2 * sweep_work",
        "repeats * units * (units + 1) * sweep_work",
    ),
    defect(
        "penalties.relu.kernels",
        "the left outcome is taken off",
        f"hidden[i, b] = max(right[i, b] + shift, 0.0){_REST}",
        f"hidden[i, b] = max(right[i, b] - shift, 0.0){_REST}",
    ),
    defect(
        "penalties.relu.outcomes",
        "the slope of the bias is lost",
        "            grads[level][1].add_(parts[2])",
        "            grads[level][1].add_(0 * parts[2])",
    ),
    defect(
        "predictions.classes",
        "what is inside the entropy is added",
        "total.log().squeeze(-2) @ weight - inside",
        "total.log().squeeze(-2) @ weight + inside",
    ),
    defect(
        "rates.copies",
        "only the first copy is compared with itself alone",
        "chosen = sorted({0, len(rates) - 1})",
        "chosen = [0]",
    ),
    defect(
        "rates.examples",
        "joined examples are taken for one batch",
        "else Examples((whole,), joined=True)",
        "else Examples((whole,), joined=False)",
    ),
    defect(
        "recommenders.left_out",
        "users with one item lose it",
        "able = np.flatnonzero(counts > 1)",
        "able = np.flatnonzero(counts > 0)",
    ),
    defect(
        "training.adversarial",
        "the box cuts the inputs before they move",
        "points = points.clamp(*self.threat.box)",
        "points = batch.inputs.clamp(*self.threat.box) + batch.moves",
    ),
    defect(
        "training.train",
        "names of records are ignored where they come alone",
        "Recording() if record is None else Recording(record)",
        "Recording() if record is None else Recording()",
    ),
)
# as the eighth list, by seed 9251116 over statements, after the claims that pin formulas down; the
# first 31 functions drawn but for two that need a GPU. 16 at first sight
NINTH = (
    defect(
        "penalties.relu.kernels",
        "a coin of the right half is another one",
        "right[few] = g",
        "right[few] = chosen[few]",
    ),
    defect(
        "rates.stationary",
        "the loss without dropout is that with it",
        "float(self.objective(weights, off))",
        "float(self.objective(weights, self._strengths(setting)))",
    ),
    defect(
        "audits.tallies",
        "standard errors forget the weight",
        "return math.sqrt(self.variance) / self.weight",
        "return math.sqrt(self.variance)",
    ),
    defect(
        "evidence.claims",
        "the check is its own control",
        "control = run(claim.control, ending=",
        "control = run(claim.check, ending=",
    ),
    defect(
        "optima.krylov",
        "a search that goes on has the bound of one that ended",
        "    if ritz.complete:\n        return least\n    width",
        "    if not ritz.complete:\n        return least\n    width",
    ),
    defect(
        "envelopes.deep_linear",
        "noise of the inputs counts twice",
        "second = second + noise.hadamard(second)",
        "second = second + 2 * noise.hadamard(second)",
    ),
    defect(
        "attacks.gradients",
        "hidden layers of the call before are kept",
        "self._hidden = []\n        value",
        'self._hidden = getattr(self, "_hidden", [])\n        value',
    ),
    defect("rates.exact", "inputs of a head are not centered", "(inputs - self.whitened.input_mean) @", "inputs @"),
    defect(
        "models.modules",
        "a part is left in the other mode",
        "                        part.training = mode.own",
        "                        part.training = not mode.own",
    ),
    defect(
        "recommenders.metrics", "items that are known stay in the list", "allowed[out] = False", "allowed[out] = True"
    ),
    defect(
        "penalties.unit_outputs",
        "families without a rule count as linear",
        "is not unit_outputs.dispatch(Model)",
        "is unit_outputs.dispatch(Model)",
    ),
    defect(
        "linalg.rotations",
        "companions are not turned",
        "return tuple(value @ rotation for value in everything)",
        "return (everything[0] @ rotation, *everything[1:])",
    ),
    defect(
        "recommenders.stacked",
        "every model of a blend counts the same",
        "np.linalg.lstsq(design, target, rcond=None)[0]",
        "np.full(design.shape[1], 1 / design.shape[1])",
    ),
    defect(
        "files.modules",
        "members that were read count as left over",
        "return archive.read(inside.pop(name))",
        "return archive.read(inside[name])",
    ),
    defect(
        "audits.units",
        "flows hold energies without their root",
        "flows = self.norms * self.energies.sqrt()",
        "flows = self.norms * self.energies",
    ),
    defect(
        "linalg.gram",
        "what the last round leaves is all",
        "beyond += squares(parts - basis @ loads)",
        "beyond = squares(parts - basis @ loads)",
    ),
    defect(
        "audits.tails",
        "a node depends on the masks of its last input",
        "reach[node], refused[node] = _union(inputs), _refused(node, inputs)",
        "reach[node], refused[node] = (inputs[-1] if inputs else 0), _refused(node, inputs)",
    ),
    defect(
        "recommenders.rating_model",
        "predictions leave the scale of ratings",
        "return self._clipped(self._predicted(left, right))",
        "return self._predicted(left, right)",
    ),
    defect(
        "recommenders.alternation",
        "smoothing forgets the ratings of a row",
        "self.expected * self.smoothing * per_row * level[:width]",
        "self.expected * self.smoothing * level[:width]",
    ),
    defect(
        "attacks.square",
        "those farthest from being fooled go on",
        "now.value[keep].argsort(descending=True, stable=True)",
        "now.value[keep].argsort(descending=False, stable=True)",
    ),
    defect(
        "models.last_layer",
        "the first linear layer is the head",
        "list(linear.values())[-1]",
        "list(linear.values())[0]",
    ),
    defect(
        "rates.exact",
        "heads without a bias have one",
        "intercept = trace.linear[-1].bias is not None",
        "intercept = True",
    ),
    defect(
        "bounds.margins",
        "the hull is that of two points",
        "_nearest_point(points[chosen])",
        "_nearest_point(points[chosen[:2]])",
    ),
    defect(
        "optima.objectives",
        "weights of examples do not count",
        "squares.mean() if data.weights is None else data.weights.double() @ squares / data.weights.double().sum()",
        "squares.mean()",
    ),
    defect(
        "recommenders.estimator",
        "what is not fitted passes",
        "if not self.__sklearn_is_fitted__():",
        "if self.__sklearn_is_fitted__() is None:",
    ),
    defect(
        "predictions.controls",
        "atoms are drawn alike",
        "torch.multinomial(probabilities, samples",
        "torch.multinomial(torch.ones_like(probabilities), samples",
    ),
    defect(
        "recommenders.partitioned",
        "a client is connected to, an address is not",
        "connect(address) if self._own else address",
        "address if self._own else connect(address)",
    ),
    defect(
        "datasets.ratings",
        "a file of the other set is taken",
        "from_home(folder).name not in (name,",
        "from_home(folder).name in (name,",
    ),
    defect(
        "rates.masking",
        "recurrent layers drop at their own rate",
        "values[start + 2] = rate\n",
        "values[start + 2] = own\n",
    ),
    defect(
        "landscapes.units",
        "second moments of targets keep half of their units",
        "moments.yy / size**2",
        "moments.yy / size",
    ),
    defect(
        "predictions.deep_linear",
        "maps of pairs stand in the place of variances",
        "layer_laws(model, masks), _behind, -3)",
        "layer_laws(model, masks), _behind, -2)",
    ),
)
# in places that earlier readings had named as weak, some in each, written before anything ran on them
TENTH = (
    defect(
        "linalg.krylov",
        "the rest is that of one value more",
        "spare = max(self.operator.energy - float((ritz.values[:count] ** 2).sum()), 0.0)",
        "spare = max(self.operator.energy - float((ritz.values[: count + 1] ** 2).sum()), 0.0)",
    ),
    defect(
        "linalg.krylov",
        "test vectors keep what was found",
        "before = before - left @ (left.mT @ before)",
        "before = before - 0 * left @ (left.mT @ before)",
    ),
    defect(
        "linalg.krylov", "the chance of failure is not shared out", "FAILURE / TEST_DEGREE))", "FAILURE * TEST_DEGREE))"
    ),
    defect(
        "linalg.krylov",
        "an edge is read off the other end of the interval",
        "math.sqrt(square * (edge + 1) / 2)",
        "math.sqrt(square * (edge + 1) / 4)",
    ),
    defect(
        "linalg.krylov",
        "errors of values count once",
        "factor = level**2 / (level**2 - rest**2)",
        "factor = 1.0 + 0 * (level**2 - rest**2)",
    ),
    defect(
        "optima.krylov",
        "the best of several bounds is the worst",
        "return max(_least(acting, upper_values(",
        "return min(_least(acting, upper_values(",
    ),
    defect(
        "linalg.jacobi",
        "columns are orthogonal by the larger of them",
        "if abs(c) <= eps * math.sqrt(a) * math.sqrt(b):",
        "if abs(c) <= eps * max(a, b):",
    ),
    defect(
        "linalg.jacobi",
        "the null space is that of the small features",
        "values[: size - int(alive.sum())] = 0",
        "values[: size - int(alive.sum())] *= 1",
    ),
    defect(
        "spectra.coordinates",
        "a typed rank is taken where features are known to be fewer",
        "known = min(int(torch.count_nonzero(data.xx.diagonal())),",
        "known = max(int(torch.count_nonzero(data.xx.diagonal())),",
    ),
    defect(
        "spectra.coordinates",
        "rounding of factorizations is all the slack",
        "slack += _qr_slack(",
        "slack = _qr_slack(",
    ),
    defect(
        "spectra.coordinates",
        "what measurements leave is added, not averaged",
        "constant = float(residual.detach().square().mean())",
        "constant = float(residual.detach().square().sum())",
    ),
    defect(
        "spectra.coordinates",
        "entries that are seen often count often",
        "means = sums / counts.clamp_min(1)",
        "means = sums / counts.amax()",
    ),
    defect(
        "optima.allocations",
        "the last of the candidates is the best",
        "best = max(best, _concave_value(log_b, a, k, steepest))",
        "best = _concave_value(log_b, a, k, steepest)",
    ),
    defect(
        "optima.allocations",
        "weights of layers are those of one layer",
        "p = np.maximum(raw / raw.sum(), 1e-3)",
        "p = np.maximum(raw / raw.max(), 1e-3)",
    ),
    defect(
        "linalg.shrinkage",
        "units without drops take no share",
        "shares = torch.where(free, spectrum, levels / safe)",
        "shares = torch.where(free, 0 * spectrum, levels / safe)",
    ),
    defect(
        "penalties.intervals",
        "a guarantee of half the confidence",
        "log_term, count = math.log(4 / (1 - question.method.confidence))",
        "log_term, count = math.log(2 / (1 - question.method.confidence))",
    ),
    defect(
        "penalties.intervals",
        "the range of losses counts once",
        "width = spread + 7 * top * log_term / (3 * (count - 1))",
        "width = spread + top * log_term / (3 * (count - 1))",
    ),
    defect(
        "penalties.intervals",
        "what is certain is forgotten",
        "below, above = torch.maximum(below, -certain), torch.minimum(above, certain)",
        "below, above = torch.maximum(below, -certain), torch.minimum(above, 2 * certain)",
    ),
    defect(
        "penalties.intervals",
        "slopes of outputs are those of one end",
        "return 2 * loss.slope * average((largest + plain).amax(-1), shares)",
        "return loss.slope * average((largest + plain).amax(-1), shares)",
    ),
    defect(
        "penalties.relu.sweeps",
        "slopes of the second unit are those of the first",
        "target[to, 5] = source[t, 5] - left * (one - x * none)",
        "target[to, 5] = source[t, 5] - left * (two - y * none)",
    ),
    defect(
        "penalties.relu.sweeps",
        "squares of one unit have half of their slope",
        "linear * none + 2.0 * quadratic * (one - value * none)",
        "linear * none + quadratic * (one - value * none)",
    ),
    defect(
        "penalties.relu.effort",
        "units that nobody reads toss coins",
        "alive = (state != 0) & (weight != 0).any(0)",
        "alive = state != 0",
    ),
    defect(
        "penalties.relu.effort",
        "deeper layers cost as much as the first",
        "work += outcomes * _leaf_work(units, bits, place)",
        "work += _leaf_work(units, bits, place)",
    ),
    defect(
        "landscapes.symmetries",
        "inputs turn with the outputs",
        "moved[0] = moved[0] - weights[0] @ inner",
        "moved[0] = moved[0] + weights[0] @ inner",
    ),
    defect(
        "landscapes.symmetries",
        "tied networks see all of the correlation",
        "yx, outer = (yx + yx.mT) / 2, inner",
        "yx, outer = yx, inner",
    ),
    defect(
        "audits.criteria",
        "large outputs with a gradient lose it",
        "return _parts(loss, outputs, targets)\n    return",
        "return _parts(loss, outputs.detach(), targets)\n    return",
    ),
    defect(
        "datasets.tables",
        "two words make a header",
        "return sum(map(bool, fields)) > 2 and not any(map(_is_number, fields))",
        "return sum(map(bool, fields)) > 1 and not any(map(_is_number, fields))",
    ),
    defect(
        "datasets.tables",
        "a first line with numbers is a header where its rating is none",
        "return len(fields) > max(int(column) for column in columns) and not any(map(_is_number, fields))",
        "return len(fields) > max(int(column) for column in columns)",
    ),
    defect(
        "training.draws",
        "counted numbers are drawn by generators",
        "self._generators or Counted(seeds, device)",
        "self._generators or Sequential(seeds, device)",
    ),
    defect(
        "recommenders.device",
        "padding points at the first row",
        "columns = np.where(real, table.columns[place] + 1, 0)",
        "columns = np.where(real, table.columns[place] + 1, 1)",
    ),
    defect(
        "recommenders.device",
        "rows without ratings stay as they were",
        "free.index_fill_(0, table.empty, 0.0)",
        "free.index_fill_(0, table.empty[:0], 0.0)",
    ),
)
# The eleventh list: statements of all rooms but papers, cli and gpu, drawn by the seed 20261117 (`drawn` below); one
# mistake that somebody might make in each of the first 31 functions that hold one, before any claim is looked at.
DRAWN_BY = 20261117


def drawn(seed: int, count: int) -> list[tuple[str, int, str]]:
    """Module, line and function of statements that compute, one per function, in the order in which they are drawn."""
    places = set()
    for module, source in SOURCES.items():
        if room(module) not in ("papers", "cli", "gpu"):
            for function in ast.walk(ast.parse(source)):
                if isinstance(function, ast.FunctionDef):
                    inside = (node for node in ast.walk(function) if isinstance(node, COMPUTING))
                    places |= {(module, node.lineno, function.name) for node in inside}
    found: dict[tuple[str, str], tuple[str, int, str]] = {}
    for place in random.Random(seed).sample(sorted(places), len(places)):
        found.setdefault((place[0], place[2]), place)
    return list(found.values())[:count]


COMPUTING = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.If, ast.While, ast.For)
ELEVENTH = (
    defect(
        "envelopes.two_layer",
        "the induced penalty of factors is its envelope",
        "return acting.value(spectrum).to(model.dtype), acting.words, error",
        "return acting.envelope(spectrum).to(model.dtype), acting.words, error",
    ),
    defect(
        "attacks.closed_form",
        "a model that is far from affine passes",
        "if not float(difference) <= allowed:",
        "if not float(difference) <= float(scale):",
    ),
    defect(
        "models.replaying",
        "results with a part that is no tensor are kept",
        "if not all(isinstance(leaf, (Tensor, *PLAIN)) for leaf in leaves):",
        "if not any(isinstance(leaf, (Tensor, *PLAIN)) for leaf in leaves):",
    ),
    defect(
        "linalg.leading",
        "the last entry is not solved for",
        "    size = x.shape[0]\n    pivot, upper",
        "    size = x.shape[0] - 1\n    pivot, upper",
    ),
    defect(
        "linalg.shrinkage",
        "the last block of shares is left out",
        "for begin, (_, count) in found:",
        "for begin, (_, count) in found[:-1]:",
    ),
    defect(
        "predictions.kernels",
        "the sum of the first point counts twice",
        "logs, product = 0.0, 1.0\n        for p in range(points):\n            product *= total[p]",
        "logs, product = 0.0, total[0]\n        for p in range(points):\n            product *= total[p]",
    ),
    defect(
        "penalties.relu.kernels",
        "the first state has no gradient",
        "bias_gradient = np.zeros(len(layer.bias))\n    for s in range(states.shape[0]):",
        "bias_gradient = np.zeros(len(layer.bias))\n    for s in range(1, states.shape[0]):",
    ),
    defect(
        "linalg.shrinkage",
        "a free value is taken off with its sign",
        "total -= abs(values[full])\n            full += 1",
        "total -= values[full]\n            full += 1",
    ),
    defect(
        "predictions.mixtures",
        "shifts, squares and noise share one list",
        "shifts, seconds, noises = [], [], []",
        "shifts = seconds = noises = []",
    ),
    defect(
        "spectra.coordinates",
        "the scale of isotropic inputs is their sum",
        "scale = torch.diagonal(moment).mean()",
        "scale = torch.diagonal(moment).sum()",
    ),
    defect(
        "audits.audit",
        "one site that is listed makes all of them so",
        "if own and site in tally.listed else None",
        "if own and tally.listed else None",
    ),
    defect(
        "attacks.apgd",
        "points that move on stand for those that were caught",
        "now, caught = record.now, record.caught\n        ahead",
        "now, caught = record.now, record.now.points\n        ahead",
    ),
    defect(
        "predictions.predictive",
        "exact outputs have no spread in their distribution",
        "units = outputs.units\n        lead",
        "units = None\n        lead",
    ),
    defect(
        "penalties.relu.criterion",
        "the product of outputs and targets is lost",
        "return torch.stack([(output + offset).square().sum(), added])",
        "return torch.stack([output.square().sum() + offset.square().sum(), added])",
    ),
    defect(
        "penalties.intervals",
        "variances stand for deviations",
        "deviation = masks.relative_variance.detach().clamp_min(0).sqrt()",
        "deviation = masks.relative_variance.detach().clamp_min(0)",
    ),
    defect(
        "training.exact",
        "exact gradients are those of the first weights",
        "return lambda weights: _gradients(weights, xx",
        "return lambda weights: _gradients(weights[:1] * len(weights), xx",
    ),
    defect(
        "checks",
        "a refused rate is shown with its least value twice",
        '{float(value.max())}]"',
        '{float(value.min())}]"',
    ),
    defect(
        "recommenders.alternation",
        "the first sweep is not kept",
        "if effort.keep is not None:",
        "if effort.keep is not None and len(history) > 1:",
    ),
    defect(
        "training.adversarial",
        "every run is attacked at the weights of the first",
        "one = partial(forward, multipliers=None, run=run)",
        "one = partial(forward, multipliers=None, run=0)",
    ),
    defect(
        "files.pages",
        "one of two kinds of levels is not looked at",
        "levels = [found.get(5, -1), found.get(6, -1)] if second else [0]",
        "levels = [found.get(5, -1)] if second else [0]",
    ),
    defect(
        "data",
        "examples of moments forget how many they are",
        "(values.clamp_min(0) * count).sqrt()[:, None] * units",
        "values.clamp_min(0).sqrt()[:, None] * units",
    ),
    defect(
        "penalties.relu.moments",
        "the second moment comes before the mean",
        "return torch.from_numpy(np.concatenate([mean, second.ravel()]))",
        "return torch.from_numpy(np.concatenate([second.ravel(), mean]))",
    ),
    defect(
        "datasets.ratings",
        "a rating is trained and tested on",
        "self.take(np.sort(order[:count]))",
        "self.take(np.sort(order[: count + 1]))",
    ),
    defect(
        "models.replaying",
        "the call after is repeated",
        "number = next_call[part]\n            next_call",
        "number = next_call[part] + 1\n            next_call",
    ),
    defect(
        "files.graphs",
        "custom objects pass",
        'if key == "custom_obj_values" and value:',
        'if key == "custom_obj_values" and not value:',
    ),
    defect(
        "layers.explicit",
        "one layer alone is consistent",
        "layers = _layers(module)\n    return torch.stack([_mean(layer.consistencies",
        "layers = _layers(module)[:1]\n    return torch.stack([_mean(layer.consistencies",
    ),
    defect(
        "audits.summary",
        "words stand where numbers do",
        "text.rjust(size) if name in NUMBERS else text.ljust(size)",
        "text.ljust(size) if name in NUMBERS else text.rjust(size)",
    ),
    defect(
        "compiling",
        "loops are compiled without their options",
        "kept = numba.njit(cache=True, **options)(function)",
        "kept = numba.njit(cache=True)(function)",
    ),
    defect(
        "audits.digest",
        "groups come by name, not as they run",
        'for item in report["sites"]:\n        key = places',
        'for item in sorted(report["sites"], key=lambda item: str(item["site"]["name"])):\n        key = places',
    ),
    defect(
        "audits.heads",
        "the constant of a chain stands in the first place",
        "weights[position][-1, -1] = 1",
        "weights[position][-1, 0] = 1",
    ),
    defect(
        "audits.passes",
        "rows that stay are compared with their inputs",
        "wanted = factor * source[stays]",
        "wanted = source[stays]",
    ),
)
# The twelfth list: drawn alike by the seed 12, which was stated before; one mistake in each of the first 31 functions.
TWELFTH = (
    defect(
        "training.draws",
        "weights of fixed examples are forgotten",
        "StepData(fixed.inputs, fixed.targets, fixed.weights, masks",
        "StepData(fixed.inputs, fixed.targets, None, masks",
    ),
    defect(
        "penalties.deep_linear",
        "strengths of layers come in reverse",
        "for law, strength in zip(laws, strengths, strict=True)]",
        "for law, strength in zip(laws, strengths[::-1], strict=True)]",
    ),
    defect(
        "predictions.modules",
        "a mask is confirmed by itself, not by what it changes",
        "plain.center + (features * (mask.to(features) - 1)) @ head.mT",
        "plain.center + (features * mask.to(features)) @ head.mT",
    ),
    defect(
        "envelopes.deep_linear",
        "stretches of layers are summed",
        "pending = (left * (values * stretch.prod(0))) @ right",
        "pending = (left * (values * stretch.sum(0))) @ right",
    ),
    defect(
        "rates.places",
        "a place has to fit all patterns",
        "return [place for place in places if any(fnmatchcase(",
        "return [place for place in places if all(fnmatchcase(",
    ),
    defect(
        "attacks.apgd",
        "a recorded step writes over what it compares with",
        "ahead = replace(now)\n        fresh",
        "ahead = now\n        fresh",
    ),
    defect(
        "rates.estimators",
        "labels stand for their places",
        "place = np.searchsorted(model.classes_, np.asarray(targets))",
        "place = np.asarray(targets)",
    ),
    defect(
        "training.passes",
        "all of four units take the step of the first",
        "write.chosen(factors, factors, [k] * count)",
        "write.chosen(factors, factors, [0] * count)",
    ),
    defect(
        "penalties.excess",
        "the slope counts once",
        "return (change * (xx @ change + 2 * slope)).sum((-2, -1))",
        "return (change * (xx @ change + slope)).sum((-2, -1))",
    ),
    defect(
        "spectra.coordinates",
        "weak directions of examples are kept",
        "loads, basis = few.loads, inner[:, kept]",
        "loads, basis = few.loads, inner[:, alive]",
    ),
    defect(
        "models.two_layer",
        "batches of masks are squeezed at their front",
        "hidden = inputs @ masked.squeeze(-3)",
        "hidden = inputs @ masked.squeeze(0)",
    ),
    defect(
        "annotations",
        "a text is a sequence of letters",
        "if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):",
        "if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):",
    ),
    defect(
        "equalization.equalization",
        "a map that cancels is balanced",
        "nothing = torch.where(above > 0,",
        "nothing = torch.where(below > 0,",
    ),
    defect(
        "recommenders.rating_model",
        "errors forget the times",
        "self.predict(users, items, unknown, **self._timed(ratings)) - values",
        "self.predict(users, items, unknown) - values",
    ),
    defect(
        "rates.chains",
        "the constant of a chain is its first unit",
        "torch.eye(shape[1] + 1, dtype=torch.float64)[-1:]",
        "torch.eye(shape[1] + 1, dtype=torch.float64)[:1]",
    ),
    defect("files.archives", "only the last member is weighed", "total += member.size", "total = member.size"),
    defect(
        "predictions.kernels",
        "the first unit, not the first mask, begins at zero",
        "low[:, 0] = 0.0\n    chance[0] = 1.0",
        "low[0] = 0.0\n    chance[0] = 1.0",
    ),
    defect(
        "linalg.rotations",
        "an equalizer is turned over",
        "return basis.mT.reshape(work.shape).to(checked)",
        "return basis.reshape(work.shape).to(checked)",
    ),
    defect(
        "audits.audit",
        "a fall of the loss in training mode is no change",
        "abs(tally.shift.value) > SHIFT * abs(tally.clean.value)",
        "tally.shift.value > SHIFT * abs(tally.clean.value)",
    ),
    defect(
        "linalg.krylov",
        "bounds lie below the level",
        "bounds[:shared] = np.maximum(grown[:shared], level**2)",
        "bounds[:shared] = grown[:shared]",
    ),
    defect(
        "audits.heads",
        "some examples stand for all in bounds of a head",
        "sum(len(part) for part in self.features) or self.count * outputs",
        "sum(len(part) for part in self.features) and self.count * outputs",
    ),
    defect(
        "predictions.densities",
        "the tilted noise is centered on the other side",
        "phase = torch.exp(1j * angles * (moved + center - targets).unsqueeze(-1))",
        "phase = torch.exp(1j * angles * (moved - center - targets).unsqueeze(-1))",
    ),
    defect(
        "recommenders.autoencoder_completion",
        "biases are fitted once",
        "for _ in range(15):  # the two ridges contract",
        "for _ in range(1):  # the two ridges contract",
    ),
    defect(
        "audits.restoring",
        "a number that is not known is zero",
        "return math.nan if value is None else float(value)",
        "return 0.0 if value is None else float(value)",
    ),
    defect(
        "attacks.asking",
        "those who left are not counted",
        "counts.append(len(self.targets) - left)",
        "counts.append(len(now.rows) - left)",
    ),
    defect("audits.batches", "a graph counts twice", "data = [data]", "data = [data, data]"),
    defect(
        "masks.correlations",
        "pairs across two windows are lost",
        "slice(begin, begin + window), slice(begin, begin + window + self.reach)",
        "slice(begin, begin + window), slice(begin, begin + window)",
    ),
    defect(
        "audits.runs",
        "layers that are left out have masks, too",
        "for name, law in self.laws.items() if name not in self.skips}\n            outputs = self._watched(ones",
        "for name, law in self.laws.items()}\n            outputs = self._watched(ones",
    ),
    defect(
        "recommenders.least_squares",
        "the new residual has no weights",
        "fresh += weight[k] * r[k] * r[k]",
        "fresh += r[k] * r[k]",
    ),
    defect("recommenders.ratings", "a row keeps one rating", "cursor[rows[k]] = at + 1", "cursor[rows[k]] = at"),
    defect(
        "bounds.statistical",
        "the printed bound is all tail",
        "return 8 * math.sqrt((2 * strength + math.log(2 / failure) / 4) / count), 0.0",
        "return 0.0, 8 * math.sqrt((2 * strength + math.log(2 / failure) / 4) / count)",
    ),
)
# The thirteenth list: drawn alike by the seed 13, which was stated before; one mistake in each of the first 31
# functions. At first sight claims noticed 25 of them.
THIRTEENTH = (
    defect(
        "datasets.images",
        "the folder of torchvision without its last part",
        '"fashion_mnist", "FashionMNIST/raw")',
        '"fashion_mnist", "FashionMNIST")',
    ),
    defect(
        "equalization.joint",
        "what goes out is multiplied, too",
        "into[:, None] * weight / out for",
        "into[:, None] * weight * out for",
    ),
    defect(
        "predictions.modules",
        "the second copy of the masked example is one row off",
        "masked = [1, count + 1]",
        "masked = [1, count]",
    ),
    defect(
        "spectra.coordinates",
        "the slack grows with the size, not with its square",
        "+ 8 / 7 * off) * size**2",
        "+ 8 / 7 * off) * size",
    ),
    defect(
        "predictions.modules",
        "what many examples told is forgotten",
        "if seen.told or quiet[1].told or _names_of(seen)",
        "if seen.told or _names_of(seen)",
    ),
    defect(
        "recommenders.completion",
        "ratings are centered all the same",
        "self._fit(observations(source, dtype, self.memory, mean), engine)",
        "self._fit(observations(source, dtype, self.memory), engine)",
    ),
    defect(
        "recommenders.metrics",
        "the last hit counts for the first",
        '{"mrr": 1.0 / (places[0] + 1)}',
        '{"mrr": 1.0 / (places[-1] + 1)}',
    ),
    defect(
        "recommenders.stacked",
        "days have seen the ratings that were held out",
        "[_days(fits[0], kept, ridge)",
        "[_days(fits[0], table, ridge)",
    ),
    defect(
        "audits.statements",
        "the cross term of a risk counts once",
        "- 2 * float((yx * weight).sum())",
        "- float((yx * weight).sum())",
    ),
    defect(
        "predictions.controls",
        "a control is not centered",
        "return (self.moved - self._mean(self.moved))[draws",
        "return self.moved[draws",
    ),
    defect(
        "checks",
        "too many dimensions pass",
        "if allowed is not None and value.ndim not in allowed:",
        "if allowed is not None and value.ndim < min(allowed):",
    ),
    defect(
        "predictions.densities",
        "a constant has the transform zero",
        "ones = torch.ones(*outputs.center.shape",
        "ones = torch.zeros(*outputs.center.shape",
    ),
    defect(
        "audits.heads",
        "inputs of a head count for its outputs",
        "KEPT_OUTPUTS // len(self.weight)",
        "KEPT_OUTPUTS // self.weight.shape[1]",
    ),
    defect(
        "recommenders.rating_model",
        "the least of the scores are put in order",
        "np.argpartition(-scores[candidates], top)[:top]",
        "np.argpartition(scores[candidates], top)[:top]",
    ),
    defect(
        "bounds.statistical",
        "a grid of alphas does not share the confidence",
        "            alpha, failure = grid_alpha(relu_alpha(",
        "            alpha, _ = grid_alpha(relu_alpha(",
    ),
    defect(
        "predictions.approximations",
        "the deviation for the variance",
        "own = deviation.square() * own.clamp_min(0)",
        "own = deviation * own.clamp_min(0)",
    ),
    defect(
        "rates.copies",
        "what is no tensor has copies, too",
        "return 0 if isinstance(value, Tensor) else None",
        "return 0",
    ),
    defect(
        "audits.statements",
        "a band of nine tenths is wider",
        "torch.tensor([0.05, 0.95], dtype=torch.float64)).tolist()",
        "torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()",
    ),
    defect(
        "audits.control",
        "the first order stays in the rest",
        "    return found, rest",
        "    return found, sums - base.sums",
    ),
    defect(
        "attacks.gradients",
        "a watched part is passed over",
        "        if watched(part):\n            return None",
        "        if watched(part):\n            continue",
    ),
    defect(
        "penalties.deep_linear",
        "terms count from no pivot on",
        "for part in parts[1:]], dim=-1)",
        "for part in parts[:-1]], dim=-1)",
    ),
    defect(
        "recommenders.low_rank",
        "the directions are the trailing ones",
        "block @ turn[:, ::-1][:, : self.rank]",
        "block @ turn[:, : self.rank]",
    ),
    defect(
        "bounds.lazy_training",
        "the half of Hoeffding is forgotten",
        "if printed else width * logarithm / 2",
        "if printed else width * logarithm",
    ),
    defect(
        "rates.examples",
        "a joined batch counts its first part",
        "values[-1], sum(counts), first.key)",
        "values[-1], first.count, first.key)",
    ),
    defect(
        "estimates",
        "rounding takes from the upper end",
        '{"guaranteed": (low - rounding(), high + rounding())}',
        '{"guaranteed": (low - rounding(), high - rounding())}',
    ),
    defect(
        "attacks.ascent",
        "wrong from the start counts where nobody leaves",
        "            if self.leaves:\n                slack = self.tape.slack",
        "            if not self.leaves:\n                slack = self.tape.slack",
    ),
    defect(
        "losses",
        "classes stand on the second axis",
        "functional.log_softmax(outputs, dim=-1)\n        index",
        "functional.log_softmax(outputs, dim=1)\n        index",
    ),
    defect(
        "audits.batches",
        "of several tensors the first is the output",
        "if len(tensors) == 1:",
        "if tensors:",
    ),
    defect(
        "recommenders.least_squares",
        "the ridge does not grow with the ratings of a row",
        "d[k] + count * diagonals[1, k]",
        "d[k] + diagonals[1, k]",
    ),
    defect(
        "penalties.relu.sweeps",
        "the shifted list is not in order",
        "shifted = table[i, order[i, second] + filled]",
        "shifted = table[i, second + filled]",
    ),
    defect(
        "arguments",
        "an array is asked for its size as a tensor is",
        "of shape {tuple(value.shape)} ({value.dtype})",
        "of shape {tuple(value.size())} ({value.dtype})",
    ),
)
# The fourteenth list: drawn alike by the seed 14, which was stated before; the second function of the draw is left out,
# whose statement decides only when a search ends. Its author had written the newest claims, and drew afterwards. At
# first sight claims noticed 22 of them and tests 23.
FOURTEENTH = (
    defect(
        "audits.uncertainty",
        "the kurtosis is that of squares",
        "kurtosis = _kurtosis(outputs)",
        "kurtosis = _kurtosis(outputs.square())",
    ),
    defect(
        "penalties.entropy",
        "inputs of a head count for its outputs",
        "outputs = model.head.out_features",
        "outputs = model.head.in_features",
    ),
    defect(
        "optima.optimum",
        "the reason names the claim for the method",
        'f"found by a search ({self.method}), and',
        'f"found by a search ({self.claim}), and',
    ),
    defect(
        "penalties.relu.criterion",
        "the pass without masks begins with nothing",
        "hidden = torch.ones(stages[0].weight.shape[1], dtype=torch.float64)",
        "hidden = torch.zeros(stages[0].weight.shape[1], dtype=torch.float64)",
    ),
    defect(
        "audits.criteria",
        "only the first position of an example counts",
        "flat = value.flatten(1) if value.ndim > 1",
        "flat = value.flatten(1)[:, :1] if value.ndim > 1",
    ),
    defect(
        "recommenders.stacked",
        "members are weighed in reverse",
        "            self.weights_, self.members_, self._places, strict=False",
        "            self.weights_[::-1], self.members_, self._places, strict=False",
    ),
    defect(
        "penalties.relu.moments",
        "a unit is heard only if all hear it",
        "return Layer(weight, bias, (weight != 0).any(0), coins",
        "return Layer(weight, bias, (weight != 0).all(0), coins",
    ),
    defect(
        "spectra.coordinates",
        "every doubling of the rows is one factorization more",
        "max(target.shape[1], 1), 1)) / 2)",
        "max(target.shape[1], 1), 1)))",
    ),
    defect(
        "recommenders.all_cells",
        "the residual of the first step stays",
        "            p[k] = weight[k] * r[k] + fresh / rho * p[k]\n        rho = fresh",
        "            p[k] = weight[k] * r[k] + fresh / rho * p[k]\n        rho = rho",
    ),
    defect(
        "rates.verdicts",
        "variances of few are biased",
        "float(gaps.mean(1 - i).var(unbiased=True)) / n",
        "float(gaps.mean(1 - i).var(unbiased=False)) / n",
    ),
    defect(
        "bounds.statistical",
        "an alpha of zero pays for a grid",
        "        return alpha, failure\n",
        "        return alpha, failure / 2\n",
    ),
    defect(
        "penalties.certified",
        "outcomes and margins are confused",
        "few, one = outcomes.means.shape[-1] <= FEW, outcomes.means.shape[-2] == 1",
        "few, one = outcomes.means.shape[-2] <= FEW, outcomes.means.shape[-1] == 1",
    ),
    defect(
        "masks.coins",
        "a unit survives one fallen block",
        "fallen[:, : -self.block] < 0.5).to(kept)",
        "fallen[:, : -self.block] < 1.5).to(kept)",
    ),
    defect(
        "penalties.relu.sweeps",
        "the own term of a unit counts twice",
        "_single(i, merged.order[i], lead, linear[i], quadratic[i, i], slopes)",
        "_single(i, merged.order[i], lead, linear[i], 2 * quadratic[i, i], slopes)",
    ),
    defect(
        "predictions.sampling",
        "no control is taken with a minus",
        "shaped = weights.to(moved).reshape(-1, 1, 1)",
        "shaped = weights.abs().to(moved).reshape(-1, 1, 1)",
    ),
    defect(
        "penalties.certified",
        "the mean is asked for without its weights",
        "found = certified_bounds(moves, masks, condition, weights)",
        "found = certified_bounds(moves, masks, condition, None)",
    ),
    defect(
        "predictions.strata",
        "what is left over goes to the first stratum",
        "sizes[sizes.index(max(sizes))] += samples - sum(sizes)",
        "sizes[0] += samples - sum(sizes)",
    ),
    defect(
        "equalization.joint",
        "scales of layers are taken from the end",
        "isinstance(scales, Tensor) else list(scales)\n",
        "isinstance(scales, Tensor) else list(scales)[::-1]\n",
    ),
    defect(
        "evidence.pages",
        "blocks of a page have no lines between them",
        '    return "\\n\\n".join(blocks) + "\\n"\n\n\ndef _row(',
        '    return "\\n".join(blocks) + "\\n"\n\n\ndef _row(',
    ),
    defect(
        "penalties.expectations",
        "the note says what the control takes away",
        "leaves {max(share, 0.0):.0%} of the variance",
        "leaves {max(1 - share, 0.0):.0%} of the variance",
    ),
    defect(
        "files.archives",
        "what bears no mark is taken for gzip",
        "if start.startswith(mark)), None)",
        "if start.startswith(mark)), gzip.open)",
    ),
    defect(
        "attacks.apgd",
        "a recording begins at its second step",
        "place = torch.zeros_like(now.rows[:1])",
        "place = torch.ones_like(now.rows[:1])",
    ),
    defect(
        "audits.control",
        "the least draws cost nothing",
        "left = budget - sum(draws[name] * costs[name] for name in draws)",
        "left = budget - sum(costs[name] for name in draws)",
    ),
    defect(
        "coadaptation.retention",
        "the worst direction is that along the data",
        "worst, value, exact = -separating, 0.0, True",
        "worst, value, exact = separating, 0.0, True",
    ),
    defect(
        "predictions.densities",
        "the tilt is undone with the wrong sign",
        "return peak - tilt * targets + density",
        "return peak + tilt * targets + density",
    ),
    defect(
        "attacks.ensemble",
        "one output is attacked by its margin throughout",
        "        loss = Logistic()\n",
        "        loss = Margin()\n",
    ),
    defect(
        "audits.labels",
        "a grid has as many names as its values together",
        "grid = len(alike) == math.prod(len(values[i]) for i in varying)",
        "grid = len(alike) == sum(len(values[i]) for i in varying)",
    ),
    defect(
        "penalties.expectations",
        "patience is asked of those who cannot have it",
        'if you can wait, " if count < _COUNTABLE else ""',
        'if you can wait, " if count > _COUNTABLE else ""',
    ),
    defect(
        "linalg.leading",
        "the least eigenvalues lead",
        "values = np.ascontiguousarray(every[::-1][:count])",
        "values = np.ascontiguousarray(every[:count])",
    ),
    defect(
        "rates.places",
        "attention holds no rate",
        "if isinstance(owner, (nn.MultiheadAttention, nn.RNNBase)):",
        "if isinstance(owner, nn.RNNBase):",
    ),
    defect(
        "recommenders.autoencoder_completion",
        "a regression is shrunk once more",
        "found = self._kernel[np.ix_(columns, chosen)] @ alpha\n",
        "found = self._kernel[np.ix_(columns, chosen)] @ (self.ridge_ * alpha)\n",
    ),
)
FIFTEENTH = (
    defect(
        "attacks.apgd",
        "fooled examples are overwritten by their best loss",
        "ahead = held & (now.best_value > self.value[now.rows])",
        "ahead = now.best_value > self.value[now.rows]",
    ),
    defect(
        "attacks.gradients",
        "gradients of the first rows for those that were asked for",
        "return gradient if rows is None else gradient[rows]",
        "return gradient if rows is None else gradient[: len(rows)]",
    ),
    defect(
        "evidence.claims",
        "large negative entries do not set the scale",
        "finite = torch.cat([a[a.isfinite()].abs(), b[b.isfinite()].abs()])",
        "finite = torch.cat([a[a.isfinite()], b[b.isfinite()]])",
    ),
    defect(
        "models.replaying",
        "what is done for what is left",
        "return self.left(self.places[place]) if place in self.places else 1.0",
        "return 1.0 - self.left(self.places[place]) if place in self.places else 1.0",
    ),
    defect(
        "attacks.ascent",
        "those who stand still are counted from the last look on",
        "still += right - climbing",
        "still = right - climbing",
    ),
    defect(
        "attacks.threat",
        "a point on the upper face may still leave the box",
        "(points >= self.box[1])",
        "(points > self.box[1])",
    ),
    defect(
        "datasets.tables",
        "records of Parquet are counted as lines after a header",
        "            line = 1\n            for batch in file.iter_batches",
        "            line = 2\n            for batch in file.iter_batches",
    ),
    defect(
        "predictions.strata",
        "drops of the last stratum are written into a copy",
        "several, rates = fallen[one:].numpy(), drop.tolist()",
        "several, rates = fallen[one:].clone().numpy(), drop.tolist()",
    ),
    defect(
        "models.replaying",
        "calls of other threads are replayed, too",
        "if threading.get_ident() != thread:",
        "if thread is None:",
    ),
    defect(
        "bounds.margins",
        "gates look at signed points",
        "gates = (labels[:, None] * (points @ rows.mT) >= 0).to(points)",
        "gates = (points @ rows.mT >= 0).to(points)",
    ),
    defect(
        "predictions.controls",
        "the mean rate for the expected number of drops",
        "0 < float(law.drop.sum()) <= FEW_DROPS",
        "0 < float(law.drop.mean()) <= FEW_DROPS",
    ),
    defect(
        "recommenders.tiles",
        "offsets of the first ratings for those of later ones",
        "into[m] = values[m] - offsets[np.uint32(columns[m])]",
        "into[m] = values[m] - offsets[np.uint32(columns[m % 32])]",
    ),
    defect(
        "predictions.modules",
        "outputs that count no writing are trusted",
        "counted = not source.is_inference() and not outputs.is_inference()",
        "counted = not source.is_inference()",
    ),
    defect(
        "penalties.expectations",
        "the last batch of masks is as large as the others",
        "masks.multipliers(min(batch, method.samples - start), generator).to(model.device)",
        "masks.multipliers(batch, generator).to(model.device)",
    ),
    defect(
        "rates.running",
        "the note on rounding is given to those who round alike",
        "            if not same:\n                self.notes[",
        "            if same:\n                self.notes[",
    ),
    defect(
        "optima.stationary",
        "the slope has the squares of the wrong factor",
        "slope = right @ ((left.T @ left) * second) - values * left",
        "slope = right @ ((right.T @ right) * second) - values * left",
    ),
    defect(
        "masks.coins",
        "a block lies one unit to the left of its start",
        "functional.pad(1 - kept, (outside + 1, outside)).cumsum(1)",
        "functional.pad(1 - kept, (outside, outside + 1)).cumsum(1)",
    ),
    defect(
        "linalg.krylov",
        "a random block is double whatever the map is",
        "return drawn.to(dtype=self.operator.dtype, device=self.operator.device)",
        "return drawn.to(device=self.operator.device)",
    ),
    defect(
        "predictions.modules",
        "a head that is written over is believed",
        "    if found.head and not _proved(found):\n        return None\n    return replace(",
        "    if found.head and seen.linear is None:\n        return None\n    return replace(",
    ),
    defect(
        "penalties.relu.rules",
        "rounding of one step stands for all steps",
        "error = steps * tiny * excess_scale(double, known, typical, loss)",
        "error = tiny * excess_scale(double, known, typical, loss)",
    ),
    defect(
        "linalg.shrinkage",
        "the order is applied, not undone",
        "        out[order] = shrunk\n",
        "        out = shrunk[order]\n",
    ),
    defect(
        "penalties.relu.kernels",
        "seconds of a whole sum for those of a step",
        "return (time.perf_counter() - start) / (4 * 2**12 * (8 * 8 / 2 + 16) * 0.25)",
        "return (time.perf_counter() - start) / 4",
    ),
    defect(
        "training.trainees",
        "dimensions are counted for runs",
        "self.runs = model.batch_shape.numel()",
        "self.runs = max(len(model.batch_shape), 1)",
    ),
    defect(
        "recommenders.elimination",
        "the factor is taken for an upper one",
        "torch.eye(len(factor)).to(factor), upper=False)",
        "torch.eye(len(factor)).to(factor), upper=True)",
    ),
    defect(
        "masks.correlations",
        "the last diagonal within reach is left out",
        "        result = torch.zeros_like(vectors)\n        for lag in range(self.reach + 1):",
        "        result = torch.zeros_like(vectors)\n        for lag in range(self.reach):",
    ),
    defect(
        "recommenders.stacked",
        "the mean of the part that weighed the members stays",
        "self.mean_ = float(table.values.mean())",
        "self.mean_ = middle",
    ),
    defect(
        "recommenders.dropout_completion",
        "a pair is known when one of its ids is",
        "known = (left >= 0) & (right >= 0)",
        "known = (left >= 0) | (right >= 0)",
    ),
    defect(
        "training.draws",
        "units scale the wrong axis of the root",
        "psd_root(second) * units\n        inverse",
        "psd_root(second) * units[:, None]\n        inverse",
    ),
    defect(
        "audits.drawing",
        "the legend has the styles of the series for all lines",
        "enumerate(zip(names, styles, strict=False))",
        "enumerate(zip(names, STYLES, strict=False))",
    ),
    defect(
        "recommenders.vectors",
        "forward substitution adds",
        "write.add_product(builder.fneg(value), write.resized(spread[k], lanes), behind)",
        "write.add_product(value, write.resized(spread[k], lanes), behind)",
    ),
    defect(
        "predictions.running",
        "a fourth argument of dropout is not heard",
        'inplace = bool(args[3] if len(args) > 3 else options.get("inplace", False))',
        'inplace = bool(options.get("inplace", False))',
    ),
)
# The sixteenth list: drawn alike by the seed 16, which was stated before, by somebody who had read neither claims nor
# tests; the nineteenth function of the draw runs on a GPU alone, and the 32nd takes its place.
SIXTEENTH = (
    defect(
        "predictions.modules",
        "what draws for itself does not hear the seed",
        "seeds = itertools.count(1 + (seed << 20))",
        "seeds = itertools.count(1)",
    ),
    defect(
        "recommenders.stacked",
        "an unknown item is the last one",
        "np.where(users >= 0, left[users], -1), np.where(items >= 0, right[items], -1)",
        "np.where(users >= 0, left[users], -1), right[items]",
    ),
    defect(
        "recommenders.vectors",
        "the first of eight rows is copied for all",
        "values = [write.load(there, ir.VectorType(write.number, lanes)) for there in of(row)]",
        "values = [write.load(there, ir.VectorType(write.number, lanes)) for there in of(rows[0])]",
    ),
    defect(
        "penalties.curvature",
        "only the last portion of the examples counts",
        "total = total + left.flatten(0, 1).mT @ right.flatten(0, 1)",
        "total = left.flatten(0, 1).mT @ right.flatten(0, 1)",
    ),
    defect(
        "recommenders.autoencoder",
        "the errors of the two diagonals are exchanged",
        "for kind, one in zip(kinds, found, strict=True)]",
        "for kind, one in zip(kinds[::-1], found, strict=True)]",
    ),
    defect(
        "linalg.shrinkage",
        "values that are cut off count for the level",
        "sums = none.index_add(0, blocks, spectrum * kept)",
        "sums = none.index_add(0, blocks, spectrum)",
    ),
    defect(
        "recommenders.partitioned",
        "whatever takes jobs is a client",
        'if not self._own and not hasattr(address, "scheduler_info"):',
        'if not self._own and not hasattr(address, "submit"):',
    ),
    defect(
        "arguments",
        "what NumPy cannot read is a precision",
        "np.dtype(np.float64))\n        except (TypeError, ValueError):\n            return False",
        "np.dtype(np.float64))\n        except (TypeError, ValueError):\n            return True",
    ),
    defect(
        "rates.tuning",
        "a split is judged on the seeds that chose it",
        'fresh = [key(seed, "guard", i) for i in range(guard)]',
        'fresh = [key(seed, "scan", i) for i in range(guard)]',
    ),
    defect(
        "norms",
        "a layer without entries passes",
        "if layer.ndim < 2 or 0 in layer.shape:",
        "if layer.ndim < 2:",
    ),
    defect(
        "masks.coins",
        "only coins are asked for their rarer side, not units",
        "return min(rarest_side(self.coin_drop), rarest_side(1 - self.mean))",
        "return rarest_side(self.coin_drop)",
    ),
    defect(
        "linalg.rotations",
        "a value is passed over when what remained of a pair is rotated",
        "            if pending < 0:\n                ahead += 1",
        "            if ahead < count:\n                ahead += 1",
    ),
    defect(
        "attacks.apgd",
        "the last step is not taken",
        "if left == 0 or number == steps - 1:",
        "if left == 0 or number == steps - 2:",
    ),
    defect(
        "penalties.fourier",
        "the typical example decides how many nodes are needed",
        "sizes.append(float(_log_sizes(outputs, factors(masks, contributions)).max()))",
        "sizes.append(float(_log_sizes(outputs, factors(masks, contributions)).mean()))",
    ),
    defect(
        "penalties.moment_bounds",
        "where moments have no rule the bound is that of another law",
        "nothing = torch.full_like(value, torch.inf)",
        "nothing = torch.log1p(m1)",
    ),
    defect(
        "penalties.rules",
        "the limits of a closed form are not asked for",
        "return has_margin(model, masks, loss, data)",
        "return has_margin(model, masks, loss, None)",
    ),
    defect(
        "datasets.files",
        "files that lie loose come before those of the subfolders",
        "return inside if folder is None else [*inside, root]",
        "return inside if folder is None else [root, *inside]",
    ),
    defect(
        "penalties.relu.device",
        "only the last level of the list counts",
        "        total = total + part\n",
        "        total = part\n",
    ),
    defect(
        "audits.html",
        "negative numbers stand in parentheses, those of unknown sign do not",
        "open_ = None not in ends and ends[0] < 0 < ends[1]",
        "open_ = None not in ends and ends[0] < 0 and ends[1] < 0",
    ),
    defect(
        "linalg.rotations",
        "the last norm is left out of the rest",
        "for j in range(low, high + 1):\n        change = norms[order[j]] - lost",
        "for j in range(low, high):\n        change = norms[order[j]] - lost",
    ),
    defect(
        "models.unfused",
        "attention that returns its weights is not masked",
        '"dropout": lambda weights, p=0.0, training=True: masking(weights),',
        '"dropout": lambda weights, p=0.0, training=True: weights,',
    ),
    defect(
        "attacks.asking",
        "those who left are not counted as fooled",
        "counts.append(len(self.targets) - left)",
        "counts.append(len(now.rows) - left)",
    ),
    defect(
        "envelopes.envelope",
        "the rounding of a rule is not passed on",
        "return Estimate.exact(value, words, error=error)",
        "return Estimate.exact(value, words)",
    ),
    defect(
        "attacks.averaged",
        "a fresh average has as many draws as the old one",
        "return self if self.exact else _OverLaw(self._network, self._law, draws, seed)",
        "return self if self.exact else _OverLaw(self._network, self._law, len(self.chances), seed)",
    ),
    defect(
        "recommenders.selection",
        "the best model is fitted on along the path",
        "(point, clone(model), model.__dict__.copy())",
        "(point, clone(model), model.__dict__)",
    ),
    defect(
        "recommenders.ranker",
        "interactions of other users are not weighted",
        "table = compressed(rows[known], columns[known], self._weighted(values[known]), len(ids))",
        "table = compressed(rows[known], columns[known], values[known], len(ids))",
    ),
    defect(
        "penalties.fourier",
        "the integral ends at the number of its nodes",
        "end = nodes * width",
        "end = nodes",
    ),
    defect(
        "linalg.rotations",
        "a diagonal with too small a sum passes",
        "(float(slack.min()) < -tolerance or abs(float(slack[-1])) > tolerance):",
        "float(slack.min()) < -tolerance:",
    ),
    defect(
        "penalties.relu.device",
        "sums of outcomes stand in another order than their chances",
        "sums = (sums + steps[:, None]).flatten()",
        "sums = (sums[:, None] + steps).flatten()",
    ),
    defect(
        "models.watching",
        "what else a skipped layer returns is lost",
        "return (arguments[0], *result[1:]) if isinstance(result, tuple) else arguments[0]",
        "return (arguments[0],) if isinstance(result, tuple) else arguments[0]",
    ),
    defect(
        "recommenders.autoencoder_completion",
        "the last of each row is predicted as the next row's first",
        "np.split(both, np.flatnonzero(np.diff(rows[both])) + 1)",
        "np.split(both, np.flatnonzero(np.diff(rows[both])))",
    ),
)
# The seventeenth list: public names drawn by the seed 17, which was stated before; one mistake in what each of the
# first 31 that compute is for, as ordinary calls show it, by somebody who had read neither claims nor tests.
SEVENTEENTH = (
    defect(
        "transforms",
        "the derivative behind opaque_of ignores what comes from above",
        "torch.autograd.grad(value, varying, upstream, materialize_grads=True)",
        "torch.autograd.grad(value, varying, torch.ones_like(value), materialize_grads=True)",
    ),
    defect(
        "norms",
        "path norm keeps the signs of the weights",
        "(layer / size).abs().pow(power)",
        "(layer / size).pow(power)",
    ),
    defect(
        "penalties.unit_outputs",
        "families linear in the mask are a list that lacks two of them",
        "return unit_outputs.dispatch(type(model)) is not unit_outputs.dispatch(Model)",
        "return isinstance(model, (TwoLayerLinear, Factorization, LastLayer))",
    ),
    defect(
        "models.site",
        "only the layer of a site is put into evaluation mode",
        "with hooked(after=[(layer, hook)]), evaluating(module):",
        "with hooked(after=[(layer, hook)]), evaluating(layer):",
    ),
    defect(
        "equalization.joint",
        "middle layers of the rank-one network forget the width before them",
        "[after @ before.mT for before, after in pairwise(columns)]",
        "[after @ torch.ones_like(before).mT for before, after in pairwise(columns)]",
    ),
    defect(
        "masks.product",
        "probabilities of a product law in the order of the other law",
        "torch.outer(left_probabilities, right_probabilities).flatten()",
        "torch.outer(right_probabilities, left_probabilities).flatten()",
    ),
    defect(
        "coadaptation.measures",
        "effective width without the square",
        "return self.width * self.coadaptation**2",
        "return self.width * self.coadaptation",
    ),
    defect(
        "attacks.losses",
        "the right class counts as an output of zero in the margin",
        'return outputs.scatter(-1, index, float("-inf"))',
        "return outputs.scatter(-1, index, 0.0)",
    ),
    defect(
        "linalg.shrinkage",
        "threshold of shrink with the width for the rank",
        "threshold = strength * total / (width + strength * rank)",
        "threshold = strength * total / (width + strength * width)",
    ),
    defect(
        "recommenders.item_kernel",
        "a row's own part of who rated what stays in its kernel",
        "system -= self.row_weights[row] * (np.outer(y, y) + implicit)",
        "system -= self.row_weights[row] * np.outer(y, y)",
    ),
    defect("losses", "slope of the cross-entropy halved", "return 2.0", "return 1.0"),
    defect(
        "training.schedules",
        "logarithmic steps divided by the count, not by the gaps",
        "ratios = (position / max(count - 1, 1) for position in range(count))",
        "ratios = (position / count for position in range(count))",
    ),
    defect(
        "optima.optimum",
        "relative gap of a certificate as a share of the objective",
        "return self.gap / self.bound if self.bound > 0 else math.inf",
        "return self.gap / self.objective if self.bound > 0 else math.inf",
    ),
    defect(
        "rates.result",
        "the tied rate is applied to all sites",
        "return set_rates(module, self.rates, {",
        "return set_rates(module, dict.fromkeys(self.rates, self.best), {",
    ),
    defect(
        "bounds.classical",
        "Hoeffding with the squared sum of the ranges",
        "spread = math.hypot(*ranges)",
        "spread = math.fsum(ranges)",
    ),
    defect(
        "masks.law",
        "characteristic divided by the squared mean of one unit of a pair",
        "return self.covariance / torch.outer(self.mean, self.mean)",
        "return self.covariance / self.mean.square()",
    ),
    defect(
        "attacks.methods",
        "steps of Bim share out the radius",
        "return [0.2 * radius] * steps",
        "return [radius / steps] * steps",
    ),
    defect(
        "training.schedules",
        "inverse decay in whole multiples of the scale",
        "return 1.0 / (1.0 + step / self.scale)",
        "return 1.0 / (1.0 + step // self.scale)",
    ),
    defect(
        "rates.verdicts",
        "errors of a tuning do not count the seeds",
        "for i, n in enumerate(gaps.shape) if n > 1]",
        "for i, n in enumerate(gaps.shape) if i == 1]",
    ),
    defect(
        "bounds.statistical",
        "smoothing inside the root of the completion constant",
        "return math.sqrt(2 * ratio) / (1 - smoothing) + range_term",
        "return math.sqrt(2 * ratio / (1 - smoothing)) + range_term",
    ),
    defect(
        "bounds.classical",
        "empirical complexity without the shared confidence",
        "slack = 3 * tail(examples, failure / 2) if empirical",
        "slack = 3 * tail(examples, failure) if empirical",
    ),
    defect(
        "penalties.second_order",
        "second-order penalty of a last layer without the half",
        "return Approximation(0.5 * masks.weigh(curvature)",
        "return Approximation(masks.weigh(curvature)",
    ),
    defect(
        "masks.coins",
        "characteristic of blocks with rates of the first units",
        "return self._by_block(self.relative_variance[:: self.block])",
        "return self._by_block(self.relative_variance[: len(self.drop)])",
    ),
    defect(
        "models.deep_linear",
        "masks of the inputs of a deep linear network do nothing",
        "masks = [*parts] if self.mask_inputs else [None, *parts]",
        "masks = [None, *parts[-len(self.hidden_sizes) :]]",
    ),
    defect(
        "training.schedules",
        "staircase falls one step early",
        "return float(self.factor ** (step // self.every))",
        "return float(self.factor ** ((step + 1) // self.every))",
    ),
    defect(
        "penalties.intervals",
        "Student's interval with the quantile of one side",
        "quantile = float(scipy.special.stdtrit(freedom, (1 + confidence) / 2))",
        "quantile = float(scipy.special.stdtrit(freedom, confidence))",
    ),
    defect(
        "bounds.statistical",
        "the ReLU bound does not share its confidence over the grid",
        "count, confidence=1 - failure, empirical=True)",
        "count, confidence=confidence, empirical=True)",
    ),
    defect(
        "spectra.unequal_rates",
        "shares of equalized units in the order of the rates",
        "allocate(values, self.strengths.to(values))",
        "allocate(values, self.strengths.sort().values.to(values))",
    ),
    defect(
        "masks.coins",
        "width-adaptive rate without the block",
        "return rate * width / ((1 - rate) * block + rate * width)",
        "return rate * width / ((1 - rate) + rate * width)",
    ),
    defect(
        "audits.digest",
        "a report shows whole intervals as half ones",
        'half = (number["upper"] - number["lower"]) / 2\n',
        'half = number["upper"] - number["lower"]\n',
    ),
    defect(
        "training.networks",
        "residual rectified before the shortcut is added",
        "return functional.relu(self.shortcut(value) + self.second_norm(self.second(inner)))",
        "return self.shortcut(value) + functional.relu(self.second_norm(self.second(inner)))",
    ),
)
LISTS = {"deliberate": FIRST} | {
    f"deliberate {i}": found
    for i, found in enumerate(
        (
            SECOND,
            THIRD,
            FOURTH,
            FIFTH,
            SIXTH,
            SEVENTH,
            EIGHTH,
            NINTH,
            TENTH,
            ELEVENTH,
            TWELFTH,
            THIRTEENTH,
            FOURTEENTH,
            FIFTEENTH,
            SIXTEENTH,
            SEVENTEENTH,
        ),
        2,
    )
}
DEFECTS = tuple(one for mistakes in LISTS.values() for one in mistakes)
