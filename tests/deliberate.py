"""Deliberate mistakes of the kind that people make, over all rooms: `tests/mutations.py --room deliberate` tries them.

`verify` alone is to notice nearly all of them and the tests every one; `tests/evidence/test_defects.py` holds earlier
ones together with the claim that turns red.
"""

from __future__ import annotations

from mutants import Defect


def defect(module: str, name: str, old: str, new: str) -> Defect:
    """A mistake in words, in a module below `droptics`."""
    return Defect(f"droptics.{module}", old, new, name)


DEFECTS = (
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
    defect("data", "merged moments count parts equally", "share = part.weight / weight", "share = 0.5"),
    defect(
        "landscapes.derivatives",
        "a term of the Hessian is lost",
        "moved_suffixes.append(moved_suffixes[-1] @ weight + suffixes[i] @ change)",
        "moved_suffixes.append(moved_suffixes[-1] @ weight + 0 * suffixes[i] @ change)",
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
        "dropout(weight.to(wide), self.drop)",
        "dropout(weight.to(wide), 1 - self.drop)",
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
    defect("recommenders.left_out", "a hidden item is still seen", "left = row - value * own +", "left = row +"),
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
        "attacks.leaky",
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
        "models.connections",
        "masks of connections are laid out the other way",
        "multipliers.unflatten(-1, (self.input_size, self.width)) * V",
        "multipliers.unflatten(-1, (self.width, self.input_size)).mT * V",
    ),
)
