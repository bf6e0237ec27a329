"""What the claims of chapter 3 (deep linear networks) compare.

Letters: k hidden layers of widths d_1..d_k, lam = drop / (1 - drop), C = E x x^T, W = W_{k+1} ... W_1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from droptics import equalization
from droptics.data import Data, Moments, Sample
from droptics.evidence.claims import Comparison, Relation, compare
from droptics.linalg import psd_root
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear, TwoLayerLinear
from droptics.norms import nuclear, path_norm
from droptics.papers.instances import coin_masks, expected_error, moments, normal, simplex, subsets, tensor
from droptics.penalties import criterion, effective_strength, penalty, sub_penalties
from droptics.training import Penalized, train

Weights = Sequence[Tensor]


def network(seed: int, sizes: Sequence[int]) -> list[Tensor]:
    """Random weights [W_1, ...] for the sizes inputs, hidden..., outputs."""
    return [normal(seed + i, b, a) for i, (a, b) in enumerate(itertools.pairwise(sizes))]


def law(weights: Weights, drop: float) -> Product:
    """One Bernoulli law per hidden layer."""
    return Product([Bernoulli(drop, weight.shape[0]) for weight in weights[:-1]])


def product(weights: Weights, last: int | None = None, first: int = 1) -> Tensor:
    """W_last ... W_first; the identity when last < first."""
    last = len(weights) if last is None else last
    size = weights[first - 1].shape[1] if first <= len(weights) else weights[-1].shape[0]
    result = torch.eye(size, dtype=torch.float64)
    for index in range(first, last + 1):
        result = weights[index - 1] @ result
    return result


INSTANCES = (((4, 3, 2, 3), 0.3), ((3, 2, 2, 2, 2), 0.6), ((2, 5, 3), 0.45), ((3, 1, 2, 1), 0.9))


def masked_maps(weights: Weights, drop: float) -> list[tuple[Tensor, float]]:
    """theta^-k W_{k+1} B_k ... B_1 W_1 for all masks, each with its probability."""
    widths, found = [weight.shape[0] for weight in weights[:-1]], []
    for kept, chance in coin_masks([drop] * sum(widths)):
        result = weights[0]
        for mask, weight in zip(kept.split(widths), weights[1:], strict=True):
            result = weight @ (mask[:, None] / (1 - drop) * result)
        found.append((result, chance))
    return found


def masked_error(weights: Weights, data: Moments, drop: float) -> float:
    """E || y - theta^-k W_{k+1} B_k ... B_1 W_1 x ||^2 over all masks, from the definition."""
    return expected_error(iter(masked_maps(weights, drop)), data)


def masked_penalty(weights: Weights, data: Moments, drop: float) -> float:
    """What the masks add to the error, from the definition."""
    return masked_error(weights, data, drop) - expected_error(iter([(product(weights), 1.0)]), data)


def split(scaled: bool) -> list[Comparison]:
    """Expected masked error = error + E ||W_masked - W||_C^2 over all masks, for any law of (x, y), singular or not.

    The library's penalty is that distance, its criterion the whole, of moments and of examples that count differently
    and whose mean is far from zero, there of weights that are to be differentiated. The control divides masks by theta
    only once.
    """
    found = []
    for seed, (sizes, drop) in enumerate(INSTANCES):
        weights = network(seed, sizes)
        masks, W = law(weights, drop), product(weights)
        leaves = [weight.clone().requires_grad_() for weight in weights]
        count = 2 if seed % 2 else 5  # fewer than the inputs, and more
        X, Y = normal(seed + 20, count, sizes[0]) + 1.5, normal(seed + 30, count, sizes[-1]) - 2
        shares = simplex(seed, count)
        some = Moments(X.mT * shares @ X, Y.mT * shares @ X, Y.mT * shares @ Y)
        given: list[tuple[Data, Moments]] = [(Sample(X, Y, 7 * shares), some)]
        for known in (moments(seed, sizes[-1], sizes[0], rank=2), moments(seed + 7, sizes[-1], sizes[0])):
            given.append((known, known))
        for law_of, data in given:
            model = DeepLinear(leaves if isinstance(law_of, Sample) else weights)
            plain = expected_error(iter([(W, 1.0)]), data)
            whole, apart = masked_error(weights, data, drop), 0.0
            for masked, chance in masked_maps(weights, drop):
                moved = (masked if scaled else (1 - drop) * masked) - W
                apart += chance * float(((moved @ data.xx) * moved).sum())
            found.append(compare(plain + apart, "==", whole, f"loss and distance, sizes {sizes}"))
            found.append(compare(penalty(model, law_of, masks), "==", apart, f"library, sizes {sizes}", scale=whole))
            found.append(compare(criterion(model, law_of, masks), "==", whole, f"criterion, sizes {sizes}"))
    return found


def path_power(weights: Weights, power: float) -> float:
    """psi_p^p: the sum over all paths of |product of the weights along it|^p."""
    sizes = [weights[0].shape[1], *(len(weight) for weight in weights)]
    return sum(
        abs(math.prod(float(w[b, a]) for w, (a, b) in zip(weights, itertools.pairwise(path), strict=True))) ** power
        for path in itertools.product(*map(range, sizes))
    )


def pivot_terms(weights: Weights, C: Tensor) -> list[Tensor]:
    """For every choice of pivot layers |alpha beta_1 ... beta_{l-1} gamma| at all choices of nodes."""
    hidden, found = len(weights) - 1, []
    for count in range(1, hidden + 1):
        for layers in subsets(range(1, hidden + 1), count):
            first = product(weights, layers[0])
            term = (first @ C * first).sum(1).sqrt()
            for lower, upper in itertools.pairwise(layers):
                term = term[..., None] * product(weights, upper, lower + 1).mT.abs()
            found.append(term * product(weights, None, layers[-1] + 1).norm(dim=0))
    return found


def pivot_sums(weights: Weights, C: Tensor) -> list[float]:
    """R_l for l = 1..k as the printed sum over pivot layers and nodes."""
    hidden = len(weights) - 1
    totals = []
    for count in range(1, hidden + 1):
        total = 0.0
        for layers in subsets(range(1, hidden + 1), count):
            first = product(weights, layers[0])
            flow = (first @ C * first).sum(1)
            for lower, upper in itertools.pairwise(layers):
                flow = product(weights, upper, lower + 1).square() @ flow
            last = product(weights, None, layers[-1] + 1)
            total += float(last.square().sum(0) @ flow)
        totals.append(total)
    return totals


def walk_pairs(weights: Weights, start: tuple[int, int | None], end: tuple[int, int | None], C: Tensor) -> float:
    """Sum over pairs of paths from `start` to `end`, each a (layer, node or any), of the products of all their weights.

    Paths of a pair from the inputs begin at nodes a and b with weight C_ab; at any other end they share their node.
    """
    sizes = [weights[0].shape[1], *(len(weight) for weight in weights)]
    layers = range(start[0], end[0] + 1)
    allowed = {i: set(range(sizes[i])) for i in layers}
    for layer, node in (start, end):
        if node is not None:
            allowed[layer] &= {node}
    paths = list(itertools.product(*allowed.values()))
    values = [
        math.prod(float(weights[i][b, a]) for i, (a, b) in zip(layers, itertools.pairwise(path), strict=False))
        for path in paths
    ]
    total = 0.0
    for (one, left), (other, right) in itertools.product(zip(paths, values, strict=True), repeat=2):
        if one[-1] == other[-1]:
            total += left * right * float(C[one[0], other[0]] if start[0] == 0 else one[0] == other[0])
    return total


def walks(step: int) -> list[Comparison]:
    """R_l of the library against products of sums over pairs of paths into, between and out of pivots.

    A path leaves a pivot in layer j from layer j + `step`: zero is meant, the caption prints one.
    """
    found = []
    for seed, sizes in enumerate(((3, 2, 2, 2), (2, 2, 2, 2, 3), (2, 3, 3))):
        weights, data, hidden = network(seed, sizes), moments(seed, sizes[-1], sizes[0]), len(sizes) - 2
        totals = [0.0] * hidden
        for count in range(1, hidden + 1):
            for layers in subsets(range(1, hidden + 1), count):
                for nodes in itertools.product(*(range(sizes[layer]) for layer in layers)):
                    pivots = list(zip(layers, nodes, strict=True))
                    term = walk_pairs(weights, (0, None), pivots[0], data.xx)
                    for (layer, node), upper in itertools.pairwise(pivots):
                        term *= walk_pairs(weights, (layer + step, node), upper, data.xx)
                    totals[count - 1] += term * walk_pairs(weights, pivots[-1], (hidden + 1, None), data.xx)
        ours = sub_penalties(DeepLinear(weights), data, law(weights, 0.5))
        found += [compare(ours[i], "==", total, f"R_{i + 1}, sizes {sizes}") for i, total in enumerate(totals)]
    return found


def sub_regularizers(power: Callable[[float, int], float]) -> list[Comparison]:
    """Library terms against lam^l R_l by the printed sum; their total, and a step of training, against all masks."""
    found = []
    for seed, (sizes, drop) in enumerate(INSTANCES):
        weights, data = network(seed, sizes), moments(seed, sizes[-1], sizes[0])
        lam = drop / (1 - drop)
        printed = tensor([power(lam, level + 1) * value for level, value in enumerate(pivot_sums(weights, data.xx))])
        ours = sub_penalties(DeepLinear(weights), data, law(weights, drop))
        found.append(compare(ours, "==", printed, f"terms, sizes {sizes}"))
        truth = masked_penalty(weights, data, drop)
        found.append(compare(printed.sum(), "==", truth, f"sum, sizes {sizes}", scale=max(1.0, truth)))
    weights, data = network(1, (3, 2, 2, 3)), moments(1, 3, 3)
    leaves = [weight.clone().requires_grad_() for weight in weights]
    # without what no weight changes, E ||y||^2
    errors = [chance * ((W @ data.xx - 2 * data.yx) * W).sum() for W, chance in masked_maps(leaves, 0.4)]
    slopes = torch.autograd.grad(torch.stack(errors).sum(), leaves)
    run = train(DeepLinear(weights), data, Penalized(law(weights, 0.4)), steps=1, step_size=0.01)
    for before, after, slope in zip(weights, run.model.tensors, slopes, strict=True):
        found.append(compare((before - after) / 0.01, "==", slope, "exact step of training", precision=1e-8))
    return found


def shallow_case(rows: bool) -> list[Comparison]:
    """K = 1: lam sum_i ||W_1(i,:)||_C^2 ||W_2(:,i)||^2, rows of W_1 and columns of W_2, against all masks.

    As printed, columns of W_1 and rows of W_2, it has a meaning for as many inputs and outputs as units, and is tried
    for isotropic inputs alone.
    """
    found = []
    for seed, (sizes, drop) in enumerate((((3, 3, 3), 0.5), ((2, 2, 2), 0.2), ((4, 2, 3), 0.7), ((2, 5, 1), 0.4))):
        weights, square = network(seed, sizes), len(set(sizes)) == 1
        isotropic, general = Moments.of_map(product(weights)), moments(seed, sizes[-1], sizes[0])
        for data in (isotropic, general) if rows else (isotropic,) if square else ():
            inner = ((weights[0] @ data.xx) * weights[0]).sum(1) if rows else weights[0].square().sum(0)
            outer = weights[1].square().sum(0) if rows else weights[1].square().sum(1)
            stated, truth = drop / (1 - drop) * (inner * outer).sum(), masked_penalty(weights, data, drop)
            found.append(compare(stated, "==", truth, f"all masks, sizes {sizes}"))
            ours = sub_penalties(DeepLinear(weights), data, law(weights, drop))
            found.append(compare(ours, "==", truth, f"library, sizes {sizes}"))
            shallow = penalty(TwoLayerLinear(weights[1], weights[0].mT), data, Bernoulli(drop, sizes[1]))
            found.append(compare(shallow, "==", truth, f"library, two layers, sizes {sizes}"))
    return found


def mean_of_masked_product(power: Callable[[int, int, int], int]) -> list[Comparison]:
    """Mean over all masks of W_i B_{i-1} ... B_j W_j scaled by theta^-power(i, j, k) against W_{i->j}, all i >= j."""
    found = []
    weights, drop = network(1, (3, 2, 1, 2, 3)), 0.4
    hidden = len(weights) - 1
    for first, last in itertools.combinations_with_replacement(range(1, hidden + 2), 2):
        widths = [len(weight) for weight in weights[first - 1 : last - 1]]
        mean = torch.zeros_like(product(weights, last, first))
        for kept, chance in coin_masks([drop] * sum(widths)):
            masked = weights[first - 1]
            for weight, mask in zip(weights[first:last], kept.split(widths), strict=True):
                masked = weight @ (mask[:, None] * masked)
            mean += chance * masked
        scaled = mean * (1 - drop) ** (-power(last, first, hidden))
        found.append(compare(scaled, "==", product(weights, last, first), f"W_{last}->{first}"))
    return found


def invariances(kind: str) -> list[Comparison]:
    """R_l under node-wise rescaling (or, as a control, a scaling of one layer), and R_k = squared path norm.

    Layers times numbers of product one, too. R_l against sums over pivots, their total against the library's penalty;
    the path norm path by path, and by the library.
    """
    found = []
    for seed, (sizes, drop) in enumerate(INSTANCES):
        weights, data = network(seed, sizes), moments(seed, sizes[-1], sizes[0])
        scales = [tensor([1.0] * sizes[0])] + [0.5 + normal(seed + i, n).abs() for i, n in enumerate(sizes[1:-1])]
        scales = [scales[0]] + [s * torch.where(torch.arange(len(s)) % 2 == 0, 1.0, -1.0) for s in scales[1:]]
        scales.append(tensor([1.0] * sizes[-1]))
        if kind == "nodes":
            other = [b[:, None] * w / a for w, a, b in zip(weights, scales, scales[1:], strict=False)]
            told = equalization.rescale(DeepLinear(weights), scales[1:-1])
            for mine, wanted in zip(told.tensors, other, strict=True):
                found.append(compare(mine, "==", wanted, f"rescaled by the library, sizes {sizes}"))
        else:
            other = [1.1 * weights[0], *weights[1:]]
        numbers = [2.0**i for i in range(len(weights) - 1)]
        layers = [a * w for a, w in zip([*numbers, 1 / math.prod(numbers)], weights, strict=True)]
        lam, masks, label = drop / (1 - drop), law(weights, drop), f"sizes {sizes}"
        ours = sub_penalties(DeepLinear(weights), data, masks)
        sums = tensor([lam**i * part for i, part in enumerate(pivot_sums(weights, data.xx), start=1)])
        found.append(compare(ours, "==", sums, f"terms, {label}"))
        for name, changed in ((kind, other), ("every layer", layers)):
            model = DeepLinear(list(changed))
            theirs = sub_penalties(model, data, masks)
            found.append(compare(theirs, "==", ours, f"terms after rescaling, {name}, {label}"))
            found.append(compare(penalty(model, data, masks), "==", sums.sum(), f"regularizer, {name}, {label}"))
        rooted = [weights[0] @ psd_root(data.xx), *weights[1:]]
        top = ours[-1] / lam ** (len(weights) - 1)
        found.append(compare(top, "==", path_power(rooted, 2.0), "R_k is the squared path norm"))
        found.append(compare(path_norm(rooted) ** 2, "==", top, "the path norm of the library"))
    return found


def compactness() -> list[Comparison]:
    """After rescaling every hidden node to unit C-norm, ||W_{k+1}||_F^2 = R_k: level sets are bounded for C > 0."""
    found = []
    for seed, sizes in enumerate(((3, 2, 2, 2), (2, 4, 3))):
        weights, data = network(seed, sizes), moments(seed, sizes[-1], sizes[0])
        scaled, norms = [], torch.ones(sizes[0], dtype=torch.float64)
        root = psd_root(data.xx)
        for index, weight in enumerate(weights[:-1]):
            moved = weight * norms
            norms = (moved @ root if index == 0 else moved).norm(dim=1)
            scaled.append(moved / norms[:, None])
        scaled.append(weights[-1] * norms)
        top = pivot_sums(scaled, data.xx)[-1]
        found.append(compare(scaled[-1].square().sum(), "==", top, "last layer after rescaling"))
        found.append(compare(product(scaled), "==", product(weights), "same map"))
    return found


def unattained() -> list[Comparison]:
    """C = diag(1,0), M = I_2 = UV^T, two units, lam = 1: every network costs more than 1/2, some hardly more.

    It is sum_i (u_1i v_1i)^2 + (u_2i v_1i)^2 with sum_i u_1i v_1i = 1: 1/2 would take u_21 = u_22 = 0, and U is
    invertible. U = [1 1; e -e] costs (1 + e^2)/2.
    """
    found, C = [], torch.diag(tensor([1.0, 0.0]))

    def cost(U: Tensor) -> Tensor:
        return penalty(TwoLayerLinear(U, torch.linalg.inv(U).mT), Moments(C, C, C), Bernoulli(0.5, 2)).value

    for seed, e in enumerate((1.0, 0.1, 1e-3)):
        found.append(compare(cost(tensor([[1.0, 1.0], [e, -e]])), "==", (1 + e**2) / 2, f"cost of a map, e={e}"))
        found.append(compare(cost(normal(seed, 2, 2)), ">", 0.5, "cost of a map, C singular"))
    return found


def scaled_layers() -> list[Comparison]:
    """R_l({a_i W_i}) = R_l({W_i}) for every l and scalars a_i of either sign whose product is one."""
    found = []
    for seed, (sizes, drop) in enumerate(INSTANCES):
        weights, data = network(seed, sizes), moments(seed, sizes[-1], sizes[0])
        scalars = normal(seed + 7, len(weights))
        scalars[-1] = 1 / scalars[:-1].prod()
        scaled = [a * weight for a, weight in zip(scalars, weights, strict=True)]
        before, after = (sub_penalties(DeepLinear(layers), data, law(weights, drop)) for layers in (weights, scaled))
        stated = [(drop / (1 - drop)) ** count * total for count, total in enumerate(pivot_sums(weights, data.xx), 1)]
        found.append(compare(before, "==", stated, f"lam^l R_l, sizes {sizes}"))
        found.append(compare(after / before, "==", 1.0, f"every R_l, sizes {sizes}"))
    return found


def subset_sum(widths: Sequence[int], lam: float) -> float:
    """Sum over l of lam^l e_l(1/d_1, ..., 1/d_k), subset by subset."""
    return sum(
        lam**count * sum(1.0 / math.prod(chosen) for chosen in subsets(list(widths), count))
        for count in range(1, len(widths) + 1)
    )


def strength(extra: float) -> list[Comparison]:
    """Nu against its definition and the product; its monotonicity in the rate, in depth and in the width of a layer."""
    found = []
    for widths, drop in (((3, 4, 5), 0.3), ((2,), 0.9), ((5, 5, 5, 5, 5), 0.3), ((7, 1), 0.0), ((4, 2, 3), 1e-12)):
        lam = drop / (1 - drop)
        ours = float(effective_strength(widths, drop))
        stated = subset_sum(widths, lam) * (1 + extra)
        found.append(compare(ours, "==", stated, f"widths {widths}", scale=0.0))
        found.append(compare(math.prod(1 + lam / d for d in widths) - 1, "==", ours, f"product, widths {widths}"))
        found.append(compare(effective_strength(widths, drop + 0.01), ">", ours, f"grows with the rate, {widths}"))
        relation: Relation = ">" if drop else "=="
        for layer, width in enumerate(widths):
            wider = (*widths[:layer], width + 1, *widths[layer + 1 :])
            told = float(effective_strength(wider, drop))
            found.append(compare(ours, relation, told, f"falls with width, {wider}", scale=0.0))
            deeper = (*widths[:layer], 90, *widths[layer:])
            told = float(effective_strength(deeper, drop))
            found.append(compare(told, relation, ours, f"grows with depth, {deeper}", scale=0.0))
    return found


def layer_bounds(share: float) -> list[Comparison]:
    """R_l >= share e_l(1/d) ||W C^1/2||_*^2 and R >= nu ||W C^1/2||_*^2."""
    found = []
    for seed, (sizes, drop) in enumerate(INSTANCES * 3):
        weights, data = network(10 * seed, sizes), moments(seed, sizes[-1], sizes[0])
        lam, widths = drop / (1 - drop), sizes[1:-1]
        relation: Relation = ">="
        if seed == 0:  # where the bound is attained
            relation = "=="
            weights = rank_one_network(normal(1, sizes[-1]), normal(2, sizes[0]), widths)
        norm = float(nuclear(product(weights) @ psd_root(data.xx))) ** 2
        terms = sub_penalties(DeepLinear(weights), data, law(weights, drop))
        for level, term in enumerate(terms.tolist(), start=1):
            e = sum(1.0 / math.prod(chosen) for chosen in subsets(list(widths), level))
            found.append(compare(term, relation, share * lam**level * e * norm, f"R_{level}, sizes {sizes}"))
        nu = float(effective_strength(widths, drop))
        found.append(compare(float(terms.sum()), relation, share * nu * norm, "total"))
        # as many examples as features, of the same second moment
        inputs = sizes[0] ** 0.5 * psd_root(data.xx)
        examples = Sample(inputs, torch.zeros(sizes[0], sizes[-1]).double())
        added = penalty(DeepLinear(weights), examples, law(weights, drop))
        found.append(compare(added, relation, share * nu * norm, "total on examples"))
    return found


def rank_one_network(u: Tensor, v: Tensor, widths: Sequence[int]) -> list[Tensor]:
    """The equalized network of a rank-one map, by the library."""
    return list(equalization.rank_one_network(u, v, widths).weights)


def rank_one(scale: float, uneven: float = 0.0) -> list[Comparison]:
    """The printed network computes u v^T and meets every lower bound with equality, for every C.

    `uneven` weighs the units of the first hidden layer by 1 - uneven to 1 + uneven, which keeps the map. The library's
    imbalance, penalty over envelope less one, is zero, and that of a network whose units are weighed by .7 to 1.3 is
    what the summands say.
    """
    found = []
    for seed, widths in enumerate(((3, 2), (2, 4, 3), (5,), (1, 1))):
        u, v, drop = normal(seed, 3), normal(seed + 1, 4), 0.35
        weights = rank_one_network(u, v, widths)
        ends = [1.0, *widths, 1.0]
        sides = [u, *(torch.ones(width, dtype=torch.float64) for width in reversed(widths)), v]
        for k, weight in enumerate(weights):
            printed = torch.outer(sides[-2 - k], sides[-1 - k]) / math.sqrt(ends[k] * ends[k + 1])
            found.append(compare(weight, "==", printed, f"layer {k + 1} of the proof's network, widths {widths}"))
        weights[-1] = scale * weights[-1]
        share = torch.linspace(-1, 1, widths[0], dtype=torch.float64) if widths[0] > 1 else torch.zeros(1)
        weights[0] = (1 + uneven * share)[:, None] * weights[0]
        for data in (moments(seed, 3, 4), moments(seed, 3, 4, rank=2)):
            found.append(compare(product(weights), "==", torch.outer(u, v), f"map, widths {widths}"))
            norm = u.square().sum() * (v @ data.xx @ v)
            for term in pivot_terms(weights, data.xx):
                found.append(compare(term, "==", norm.sqrt() / term.numel(), f"every summand, widths {widths}"))
            value = penalty(DeepLinear(weights), data, law(weights, drop))
            found.append(compare(value, "==", effective_strength(widths, drop) * norm, f"penalty, widths {widths}"))
            above = equalization.imbalance(DeepLinear(weights), data, law(weights, drop))
            found.append(compare(above, "==", 0.0, f"library's imbalance, widths {widths}"))
            if widths[0] > 1:
                other = [torch.diag(1 + 0.3 * share) @ weights[0], *weights[1:]]
                above = equalization.imbalance(DeepLinear(other), data, law(other, drop))
                lam = drop / (1 - drop)
                cost = sum(lam**level * part for level, part in enumerate(pivot_sums(other, data.xx), start=1))
                least = (math.prod(1 + lam / width for width in widths) - 1) * norm
                found.append(compare(above, "==", cost / least - 1, f"imbalance of another, widths {widths}"))
        # as many examples as features, and a rate of its own for each layer
        examples, rates = Sample(normal(seed + 2, 4, 4), normal(seed + 3, 4, 3)), [0.35, 0.6, 0.1][: len(widths)]
        masks = Product([Bernoulli(rate, width) for rate, width in zip(rates, widths, strict=True)])
        nu = math.prod(1 + rate / (1 - rate) / width for rate, width in zip(rates, widths, strict=True)) - 1
        norm = u.square().sum() * (examples.inputs @ v).square().mean()
        value = penalty(DeepLinear(weights), examples, masks)
        found.append(compare(value, "==", nu * norm, f"penalty on examples, widths {widths}"))
        found.append(compare(effective_strength(widths, tensor(rates)), "==", nu, f"strength, widths {widths}"))
    return found
