"""What the claims of Pal, Lane, Vidal and Haeffele 2020 (structured dropout) compare.

Letters: theta = 1 - drop keeps a unit, gamma = drop / (1 - drop), r the block size, k the number of blocks.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence

import torch
from scipy.optimize import nnls
from torch import Tensor, nn

from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.linalg import shrink
from droptics.masks import Bernoulli, Block, Discrete, MaskLaw, SlidingBlock, drop_for_width
from droptics.models import LastLayer, Model, TwoLayerLinear
from droptics.papers.instances import coin_masks, descend, normal, sample, simplex, tensor, two_layer
from droptics.penalties import criterion, penalty, risk
from droptics.training import masked_step

Formula = Callable[[TwoLayerLinear, Sample, float, int], Tensor]


def error(outputs: Tensor, data: Sample) -> Tensor:
    """Mean squared error of outputs."""
    return (outputs - data.targets).square().sum(-1).mean()


def enumerated(model: TwoLayerLinear, data: Sample, drop: float, block: int = 1) -> float:
    """E || y - U diag(z) V^T x / theta ||^2 - || y - U V^T x ||^2 over all masks, from the definition."""
    total = 0.0
    for kept, chance in coin_masks([drop] * (model.units // block)):
        multipliers = kept.repeat_interleave(block) / (1 - drop)
        total += chance * float(error((data.inputs @ model.V * multipliers) @ model.U.mT, data))
    return total - float(error(data.inputs @ model.V @ model.U.mT, data))


def blockwise(model: TwoLayerLinear, data: Sample, drop: float, block: int) -> Tensor:
    """Gamma sum over blocks of || U_I V_I^T X ||^2 / n."""
    parts = zip(model.U.split(block, -1), model.V.split(block, -1), strict=True)
    total = torch.stack([(data.inputs @ V @ U.mT).square().sum(-1).mean() for U, V in parts]).sum()
    return drop / (1 - drop) * total


def unitwise(model: TwoLayerLinear, data: Sample, drop: float, block: int) -> Tensor:
    """Gamma sum_i || u_i ||^2 || X^T v_i ||^2 / n, whatever the block."""
    return drop / (1 - drop) * (model.U.square().sum(0) * (data.inputs @ model.V).square().mean(0)).sum()


def library(law: Callable[[float, int, int], MaskLaw]) -> Formula:
    """The library penalty under a law of (drop, size, block)."""
    return lambda model, data, drop, block: penalty(model, data, law(drop, model.units, block)).value


def instances() -> list[tuple[TwoLayerLinear, Sample, float]]:
    """Networks, data and rates, one network dead."""
    data = sample(1, 7, 4, 3)
    dead = TwoLayerLinear(torch.zeros(3, 6, dtype=torch.float64), normal(3, 4, 6))
    return [(two_layer(5, 3, 4, 6), data, 0.35), (two_layer(9, 3, 4, 6), data, 0.9), (dead, data, 0.5)]


def penalty_identity(formula: Formula, blocks: Sequence[int]) -> list[Comparison]:
    """A formula for the penalty against all masks, for several block sizes, and at rate zero."""
    found = [
        compare(formula(model, data, drop, block), "==", enumerated(model, data, drop, block), f"r={block} drop={drop}")
        for model, data, drop in instances()
        for block in blocks
    ]
    model, data, _ = instances()[0]
    return [*found, compare(formula(model, data, 0.0, blocks[0]), "==", 0.0, "drop=0")]


def dropout(model: TwoLayerLinear, data: Sample, drop: float, block: int) -> Tensor:
    """The formula of plain dropout whatever the block."""
    return blockwise(model, data, drop, 1)


def printed_kronecker(drop: float, size: int, block: int) -> MaskLaw:
    """The law with r blocks of size d/r that the printed order means."""
    return Block(drop, size, size // block)


def _listed_and_drawn(law: MaskLaw, stated: dict[tuple[float, ...], float], label: str) -> list[Comparison]:
    """The 0/1 masks that a law lists are the stated ones with their chances, and it draws each as often."""
    drawn = Counter(map(tuple, law.sample(4000, torch.Generator().manual_seed(law.size)).tolist()))
    told: dict[tuple[float, ...], float] = {}
    for multipliers, chance in law.atoms():
        mask = tuple((law.mean * multipliers).round(decimals=9).tolist())
        told[mask] = told.get(mask, 0.0) + chance
    others = (told.keys() | drawn.keys()) - stated.keys()
    found = [compare(len(others), "==", 0, f"masks that are none, {label}")]
    found.append(compare([told.get(mask, 0.0) for mask in stated], "==", list(stated.values()), f"chances, {label}"))
    off = [abs(drawn[mask] / 4000 - chance) for mask, chance in stated.items()]
    noise = [6 * math.sqrt(chance * (1 - chance) / 4000) + 6 / 4000 for chance in stated.values()]
    return [*found, compare(off, "<=", noise, f"how often each mask is drawn, {label}")]


def kronecker_masks(size: Callable[[int, int], int]) -> list[Comparison]:
    """Masks of the library are the diagonals of diag(w) kron I_size(d, r) with the chances of the coins w."""
    found = []
    for width, block, drop in ((6, 2, 0.35), (6, 3, 0.9), (4, 4, 0.5), (3, 1, 0.2)):
        law, label = Block(drop, width, block), f"d={width} r={block}"
        eye = torch.eye(size(width, block), dtype=torch.float64)
        stated = {
            tuple(torch.kron(torch.diag(w), eye).diagonal().tolist()): chance
            for w, chance in coin_masks([drop] * (width // len(eye)))
        }
        found += _listed_and_drawn(law, stated, label)
    for width, block in ((5, 2), (6, 4), (2, 4)):
        try:
            Block(0.5, width, block)
            refused = False
        except ValueError:
            refused = True
        found.append(compare(float(refused), "==", 1.0, f"refused: d={width} r={block}"))
    return found


def order_of_blocks(printed: bool) -> list[Comparison]:
    """Masks and penalties with the blocks of size r or, as `printed`, r blocks of size d/r."""
    formula = library(printed_kronecker if printed else Block)
    masks = kronecker_masks(lambda width, block: width // block if printed else block)
    return [*masks, *penalty_identity(formula, (2, 3))]


def algorithm_1(factor: float) -> list[Comparison]:
    """Mean printed step over masks against `factor` times the gradient of the explicit objective.

    Masks are drawn as often as the coins say, and a step on several examples is the mean of theirs, each under its own.
    The printed step, of one example, for one and for two under one mask.
    """
    found, count = [], 4000
    for seed, examples, block, drop in ((1, 1, 2, 0.4), (4, 2, 1, 0.6)):
        model, data = two_layer(seed, 3, 4, 4), sample(seed, examples, 4, 3)
        theta, law = 1 - drop, Block(drop, 4, block)
        step = torch.zeros_like(model.U), torch.zeros_like(model.V)
        drawn = law.multipliers(count, torch.Generator().manual_seed(seed))
        for kept, chance in coin_masks([drop] * (4 // block)):
            mask = kept.repeat_interleave(block) / theta
            own = printed_step(model, data, mask.expand(examples, -1))
            for total, part in zip(step, own, strict=True):
                total.add_(part, alpha=chance)
            for name, ours, printed in zip("UV", _moved(model, data, mask), own, strict=True):
                found.append(compare(factor * ours, "==", printed, f"step of {name} under one mask", precision=1e-8))
            often = ((drawn - mask).abs() < 1e-9).all(1).double().mean()
            off = 6 * math.sqrt(chance * (1 - chance) / count)
            found.append(compare(often, "==", chance, f"how often it is drawn, r={block}", precision=off))
        several = sample(seed + 5, 3, 4, 3)
        own = printed_step(model, several, drawn[:3])
        for name, ours, printed in zip("UV", _moved(model, several, drawn[:3]), own, strict=True):
            found.append(compare(factor * ours, "==", printed, f"step of {name}, three examples", precision=1e-8))
        U, V = model.U.clone().requires_grad_(True), model.V.clone().requires_grad_(True)
        net = TwoLayerLinear(U, V)
        gradient = torch.autograd.grad(risk(net, data) + penalty(net, data, law).value, (U, V))
        for name, ours, printed in zip("UV", gradient, step, strict=True):
            found.append(compare(factor * ours, "==", printed, f"mean step of {name}, r={block}"))
    return found


def printed_step(model: TwoLayerLinear, data: Sample, masks: Tensor) -> tuple[Tensor, Tensor]:
    """Lines 7 to 9 of Algorithm 1 without the step size, z / theta in the rows of `masks`: the mean over examples."""
    U, V = torch.zeros_like(model.U), torch.zeros_like(model.V)
    for x, y, mask in zip(data.inputs, data.targets, masks, strict=True):
        D = torch.diag(mask)
        residual = model.U @ D @ model.V.mT @ x - y
        U += torch.outer(residual, x) @ model.V @ D / len(masks)
        V += torch.outer(x, residual) @ model.U @ D / len(masks)
    return U, V


def _moved(model: TwoLayerLinear, data: Sample, masks: Tensor) -> list[Tensor]:
    """How far the library's step goes: a difference of weights, divided by the step of 0.1."""
    stepped = masked_step(model, data, masks, 0.1).tensors
    return [(old - new) / 0.1 for old, new in zip(model.tensors, stepped, strict=True)]


def doubling(share: float) -> list[Comparison]:
    """[U U]/sqrt 2, [V V]/sqrt 2 computes the same map with `share` of the penalty, up to nine times in a row."""
    found = []
    for (model, data, drop), block in zip(instances(), (2, 3, 6), strict=True):
        net, whole = model, enumerated(model, data, drop, block)
        for times in range(10):
            # three thousand units are not asked for all pairs of them
            if times in (0, 1, 2, 3, 9):
                value = penalty(net, data, Block(drop, net.units, block)).value
                label = f"doubled {times} times, drop={drop}"
                found.append(compare(net.matrix(), "==", model.matrix(), f"same map, {label}"))
                found.append(compare(value, "==", share**times * whole, f"penalty, {label}"))
            if times < 2:  # all masks of at most six blocks
                found.append(compare(value, "==", enumerated(net, data, drop, block), f"over all masks, {label}"))
            net = TwoLayerLinear(torch.cat([net.U, net.U], 1) / 2**0.5, torch.cat([net.V, net.V], 1) / 2**0.5)
    return found


def unreachable() -> list[Comparison]:
    """A map outside the row space of X has no factorization U V^T X at all."""
    X, A = tensor([[1.0, 0.0]]), tensor([[0.0, 1.0]])
    projector = torch.linalg.pinv(X) @ X
    return [compare((A - A @ projector).norm(), "==", 0.0, "distance of A to what the network can express")]


def width_adaptive(factor: Callable[[int, int], float]) -> list[Comparison]:
    """The width-adaptive rate, its strength, and the objective of DropBlock at that rate."""
    found = []
    for drop, width, block in ((0.1, 50, 5), (0.3, 6, 1), (0.3, 20, 1), (0.2, 10, 2), (0.6, 4, 4), (0.0, 8, 2)):
        rate = drop_for_width(drop, width, block)
        beta = drop / (1 - drop)
        printed = (1 - drop) * block / ((1 - drop) * block + drop * width)
        found.append(compare(1 - rate, "==", printed, f"theta(d), d={width} r={block} drop={drop}"))
        found.append(compare(rate / (1 - rate), "==", factor(width, block) * beta, f"d={width} r={block} drop={drop}"))
        if width > 12:
            continue
        model, data = two_layer(width, 3, 4, width), sample(width, 7, 4, 3)
        blocks = zip(model.U.split(block, -1), model.V.split(block, -1), strict=True)
        added = sum(error(data.inputs @ V @ U.mT, Sample(data.inputs, 0 * data.targets)) for U, V in blocks)
        plain = error(data.inputs @ model.V @ model.U.mT, data)
        stated, label = plain + factor(width, block) * beta * added, f"f(U, V, d), d={width} r={block}"
        found.append(compare(enumerated(model, data, rate, block) + plain, "==", stated, f"all masks, {label}"))
        found.append(compare(criterion(model, data, Block(rate, width, block)), "==", stated, f"library, {label}"))
    return found


def general_law(characteristic: Callable[[Tensor, Tensor], Tensor]) -> list[Comparison]:
    """Any law, not only 0/1 masks: penalty = <Cbar, (U^T U) o (H H^T)>, H of linear and of ReLU units.

    `characteristic` makes Cbar of the mean and the covariance of the listed masks. Masks reflected at their mean are
    another law with the same two, and have the same penalty; with another mean it is another one. One mean is negative.
    """
    found = []
    listed = [
        (tensor([[0.0, 1.0, -1.0], [2.0, 0.5, 3.0], [1.0, 1.0, 1.0], [0.0, 0.0, 4.0]]), tensor([0.2, 0.3, 0.4, 0.1])),
        ((normal(1, 5, 4) + 1.5) * tensor([1.0, -1.0, 1.0, 1.0]), simplex(2, 5)),
        (tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), tensor([0.25, 0.25, 0.5])),
    ]
    for seed, (masks, chances) in enumerate(listed):
        width = masks.shape[1]
        data, U = sample(seed, 7, 4, 3), normal(seed, 3, width)
        mean = chances @ masks
        covariance = (masks - mean).mT @ (chances[:, None] * (masks - mean))
        linear, below = normal(seed + 1, 4, width), nn.Linear(4, width).double()
        head = nn.Linear(width, 3, bias=False).double()
        with torch.no_grad():
            below.weight.copy_(normal(seed + 2, width, 4))
            below.bias.copy_(normal(seed + 3, width))
            head.weight.copy_(U)
            rectified = torch.relu(below(data.inputs))
        nets: dict[str, tuple[Model, Tensor]] = {"linear": (TwoLayerLinear(U, linear), data.inputs @ linear)}
        nets["ReLU"] = LastLayer.of(nn.Sequential(below, nn.ReLU(), head)), rectified
        for name, (model, hidden) in nets.items():
            stated = (characteristic(mean, covariance) * (U.mT @ U) * (hidden.mT @ hidden / len(data))).sum()
            for law, moved in (("law", masks), ("reflected", 2 * mean - masks), ("shifted", masks + 0.1)):
                average = chances @ moved
                losses = torch.stack([error(hidden * z / average @ U.mT, data) for z in moved])
                truth = chances @ losses - error(hidden @ U.mT, data)
                label = f"{name}, {width} units, {law}"
                found.append(compare(penalty(model, data, Discrete(moved, chances)), "==", truth, f"library, {label}"))
                found.append(compare(stated, "!=" if law == "shifted" else "==", truth, f"formula, {label}"))
    return found


def overlapping_blocks(power: float) -> list[Comparison]:
    """Cbar of dropout, of DropBlock, and of units kept iff all their blocks are: prod of theta_s^-1 there, minus 1."""
    found = []
    for block, drop in ((1, 0.4), (3, 0.4), (2, 0.75), (6, 0.1), (3, 0.0)):
        pairs = [(mask.repeat_interleave(block), chance) for mask, chance in coin_masks([drop] * (6 // block))]
        values, weights = torch.stack([mask for mask, _ in pairs]), tensor([chance for _, chance in pairs])
        mean = weights @ values
        spread = (values - mean).mT @ (weights[:, None] * (values - mean))
        ones = torch.block_diag(*[torch.ones(block, block, dtype=torch.float64)] * (6 // block))
        stated, label = ((1 - drop) ** -power - 1) * ones, f"r={block} drop={drop}"
        found.append(compare(spread / torch.outer(mean, mean), "==", stated, f"c_ij/(mu_i mu_j), {label}"))
        found.append(compare(Discrete(values, weights).characteristic, "==", stated, f"listed masks, {label}"))
        laws = [Block(drop, 6, block), *[Bernoulli(drop, 6)] * (block == 1)]
        found += [compare(law.characteristic, "==", stated, f"library, {type(law).__name__}, {label}") for law in laws]
    drops = [0.2, 0.5, 0.3]
    members = tensor([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0]])
    masks, chances = [], []
    for kept, chance in coin_masks(drops):
        masks.append(((1 - kept) @ members < 0.5).double())
        chances.append(chance)
    law = Discrete(torch.stack(masks), tensor(chances))
    shared = torch.einsum("si,sj,s->ij", members, members, -power * torch.log(1 - tensor(drops)))
    return [*found, compare(torch.expm1(shared), "==", law.characteristic, "characteristic of overlapping blocks")]


def objective(scale: float) -> list[Comparison]:
    """(1) by all masks against (2), as sums over examples, and both against the library; draws are i.i.d. Ber(theta).

    Networks: general, dead, of one unit, wider than inputs and outputs; one output; one example; rates from 0 to 0.9.
    """
    found, count = [], 4000
    more = [(two_layer(3, 1, 5, 1), sample(2, 1, 5, 1), 0.6), (two_layer(7, 2, 3, 5), sample(4, 9, 3, 2), 0.0)]
    for model, data, drop in [*instances(), *more]:
        U, V, X, Y, theta = model.U, model.V, data.inputs.mT, data.targets.mT, 1 - drop
        law, d, n, label = Bernoulli(drop, model.units), model.units, len(data), f"{model.units} units, drop={drop}"
        listed = list(coin_masks([drop] * d))
        expected = sum(chance * (Y - U @ z.diag() @ V.mT @ X / theta).square().sum() for z, chance in listed)
        plain = (Y - U @ V.mT @ X).square().sum()
        added = sum((U[:, i].norm() * (X.mT @ V[:, i]).norm()) ** 2 for i in range(d)) * scale * (1 - theta) / theta
        found.append(compare(plain + added, "==", expected, f"(1) and (2), {label}"))
        found.append(compare(n * criterion(model, data, law).value, "==", expected, f"criterion, {label}"))
        found.append(compare(n * risk(model, data), "==", plain, f"loss, {label}"))
        told = {tuple(mask.gt(0).tolist()): chance for mask, chance in law.atoms()}
        chances = [told.get(tuple(z.gt(0).tolist()), 0.0) for z, _ in listed]
        found.append(compare(chances, "==", [chance for _, chance in listed], f"chances of masks, {label}"))
        drawn = law.multipliers(count, torch.Generator().manual_seed(d))
        kept = drawn.gt(0).double()
        found.append(compare(drawn, "==", kept / theta, f"multipliers are z / theta, {label}"))
        # a unit stays with chance theta and a pair with theta^2: six standard deviations of their shares
        often = torch.where(torch.eye(d).bool(), tensor(theta), tensor(theta**2))
        off = (kept.mT @ kept / count - often).abs() - 6 * (often * (1 - often) / count).sqrt()
        found.append(compare(off, "<=", 0.0, f"how often units and pairs stay, {label}"))
    return found


def last_layer(strength: Callable[[float], float]) -> list[Comparison]:
    """Dropout after hidden ReLUs: strength sum_i ||u_i||^2 ||g^i(X)||^2 / n, and the library, against all masks."""
    found = []
    for seed, drop in ((1, 0.4), (2, 0.75)):
        data, U = sample(seed, 6, 3, 2), normal(seed, 2, 4)
        below = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU()).double()
        head = nn.Linear(4, 2, bias=False).double()
        with torch.no_grad():
            for number, parameter in enumerate(below.parameters()):
                parameter.copy_(normal(seed + number, *parameter.shape))
            head.weight.copy_(U)
            hidden = below(data.inputs)
        plain, total = float(error(hidden @ U.mT, data)), 0.0
        for kept, chance in coin_masks([drop] * 4):
            total += chance * float(error(hidden * kept / (1 - drop) @ U.mT, data))
        stated = strength(drop) * (U.square().sum(0) * hidden.square().mean(0)).sum()
        found.append(compare(stated, "==", total - plain, f"formula, drop={drop}"))
        ours = penalty(LastLayer.of(nn.Sequential(*below, head)), data, Bernoulli(drop, 4))
        found.append(compare(ours, "==", total - plain, f"library, drop={drop}"))
    return found


def fixed_rate_minimum(strength: Callable[[float, int], float]) -> list[Comparison]:
    """Min over U, H of ||Y - U H||^2 + gamma sum ||u||^2 ||h||^2 against min_A ||Y - A||^2 + strength ||A||_*^2.

    The first by descent, which ends where the loss summed over all masks has this value; the second as least squares in
    non-negative singular values, the library's from values in rising order. The width is above, or at, the rank of Y,
    once below both of its sizes; of the last one, of singular values 3 and 1, the second is dropped.
    """
    found = []
    cases = (
        (tensor([[1.0]]), 0.5, 2),
        (normal(1, 2, 3), 0.3, 3),
        (normal(2, 3, 4), 0.6, 4),
        (normal(3, 2, 3), 0.4, 2),
        (normal(4, 3, 2) @ normal(5, 2, 3), 0.3, 2),
        (tensor([[2.0, 1.0], [1.0, 2.0]]), 0.6, 2),
    )
    for Y, drop, width in cases:
        gamma = drop / (1 - drop)

        def objective(U: Tensor, H: Tensor, Y: Tensor = Y, gamma: float = gamma) -> Tensor:
            return (Y - U @ H).square().sum() + gamma * (U.square().sum(0) * H.square().sum(1)).sum()

        best, (U, H) = descend(objective, [(len(Y), width), (width, Y.shape[1])], starts=2)
        values, beta, label = torch.linalg.svdvals(Y), strength(drop, width), f"{tuple(Y.shape)} drop={drop} d={width}"
        kept = shrink(values.flip(0), beta * width, width).flip(0)
        convex = (values - kept).square().sum() + beta * kept.sum() ** 2
        rows = torch.cat([torch.eye(len(values)).double(), tensor([[beta**0.5] * len(values)])])
        solved, distance = nnls(rows.numpy(), torch.cat([values, tensor([0.0])]).numpy())
        found.append(compare(distance**2, "==", best, f"least squares, {label}", precision=1e-7))
        found.append(compare(convex, "==", distance**2, f"library, {label}"))
        found.append(compare(kept, "==", solved, f"singular values of the library, {label}"))
        masked = sum(
            chance * float((Y - U * mask / (1 - drop) @ H).square().sum())
            for mask, chance in coin_masks([drop] * width)
        )
        found.append(compare(masked, "==", best, f"all masks, {label}"))
    return found


def printed_matching(drop: float, cover: int) -> float:
    """The printed keep probability 1 - (1 - theta)^(1 / (2 k - 1)) of each of the 2 k - 1 blocks over a unit."""
    return 1 - drop ** (1 / cover)


def swept_masks(keep: float, size: int, block: int) -> tuple[Tensor, Tensor]:
    """Every mask of blocks that start at -(block - 1), ..., size - 1 and fall one by one; and the chances."""
    starts = torch.arange(1 - block, size)
    over = ((torch.arange(size) >= starts[:, None]) & (torch.arange(size) < starts[:, None] + block)).double()
    listed = list(coin_masks([1 - keep] * len(starts)))
    fallen = 1 - torch.stack([coins for coins, _ in listed])
    return (fallen @ over == 0).double(), tensor([chance for _, chance in listed])


def sliding(keep: Callable[[float, int], float]) -> list[Comparison]:
    """Rate at which each unit falls under blocks that start anywhere, over all of them, and by the library's law.

    A unit lies under as many blocks as one is long: 2 k - 1 with blocks j, |i - j| < k, over unit i.
    """
    found = []
    for drop, size, block in ((0.5, 4, 5), (0.2, 6, 3), (0.4, 4, 1), (0.7, 2, 4)):
        masks, chances = swept_masks(kept := keep(drop, block), size, block)
        found.append(compare(1 - chances @ masks, "==", drop, f"rate of every unit, d={size} r={block}"))
        law = SlidingBlock(1 - kept, size, block)
        found.append(compare(law.mean, "==", chances @ masks, f"library, d={size} r={block}"))
    return found


def sliding_moments(taper: Callable[[Tensor, int], Tensor]) -> list[Comparison]:
    """Clipped blocks that match a rate have Cbar_ij = theta^-(1 - |i-j|/r)_+ - 1: a taper, not block diagonal."""
    found = []
    for drop, size, block in ((0.4, 5, 3), (0.7, 6, 2), (0.2, 3, 5), (0.5, 4, 1)):
        law, label = SlidingBlock.matching(drop, size, block), f"d={size} r={block}"
        distance = (torch.arange(size)[:, None] - torch.arange(size)).abs().double()
        formula = (1 - drop) ** (-taper(distance, block)) - 1
        masks, chances = swept_masks((1 - drop) ** (1 / block), size, block)
        mean = chances @ masks
        spread = (masks - mean).mT @ (chances[:, None] * (masks - mean)) / torch.outer(mean, mean)
        found.append(compare(formula, "==", spread, f"all blocks, {label}"))
        found.append(compare(law.characteristic, "==", spread, f"library, {label}"))
        found.append(compare(law.mean, "==", mean, f"its mean, {label}"))
        stated: dict[tuple[float, ...], float] = {}
        for mask, chance in zip(masks.tolist(), chances.tolist(), strict=True):
            stated[tuple(mask)] = stated.get(tuple(mask), 0.0) + chance
        found += _listed_and_drawn(law, stated, label)
    return found


def positive(shift: float) -> list[Comparison]:
    """The penalty of weights that are not zero is positive, by the library and over all masks.

    Blocks whose products U_I V_I^T X vanish: rows of U and V that do not meet, and V outside the range of X. With
    `shift` on one weight a product is not zero.
    """
    found = []
    meeting = TwoLayerLinear(tensor([[1.0, 0.0]]), tensor([[shift, 1.0]]))
    wide = two_layer(3, 2, 3, 4)
    outside = TwoLayerLinear(wide.U, wide.V * tensor([[0.0], [0.0], [1.0]]) + shift * tensor([[1.0], [0.0], [0.0]]))
    inputs = normal(4, 5, 3) * tensor([1.0, 1.0, 0.0])
    for drop, model, X in ((0.5, meeting, tensor([[1.0], [-2.0]])), (0.3, outside, inputs)):
        data, label = Sample(X, normal(5, len(X), model.output_size)), f"{model.units} units"
        value = penalty(model, data, Block(drop, model.units, 2)).value
        found.append(compare(value, "==", enumerated(model, data, drop, 2), f"all masks, {label}"))
        found.append(compare(value, ">", 0.0, f"penalty of weights that are not zero, {label}"))
    return found


def zero_iff(blockwise: bool) -> list[Comparison]:
    """The penalty, by the library and by all masks, lies between gamma and gamma k times the largest ||U_I V_I^T X||^2.

    So it is zero exactly with all of them; not `blockwise`, the whole product U V^T X stands there. Blocks: in general
    position; zero for three reasons (U_I V_I^T = 0 with weights that are not, weights zero, V_I outside the range of
    X); one that is not zero beside them; two that cancel.
    """
    found, block = [], 2
    data = Sample(torch.cat([normal(1, 6, 3), torch.zeros(6, 1)], 1).double(), normal(2, 6, 3))
    U, V = normal(3, 3, 6), normal(4, 4, 6)
    U[:, 1], V[:, 1] = U[:, 0], -V[:, 0]
    U[:, 2:4], V[:3, 4:] = 0.0, 0.0
    silent = TwoLayerLinear(U, V)
    loud = TwoLayerLinear(U, V + 1e-3 * normal(5, 4, 6) * tensor([0.0, 0, 0, 0, 1, 0]))
    opposite = two_layer(6, 3, 4, 2)
    canceling = TwoLayerLinear(torch.cat([opposite.U, -opposite.U], 1), torch.cat([opposite.V, opposite.V], 1))
    nets = {"general": two_layer(7, 3, 4, 6), "silent": silent, "one speaks": loud, "canceling": canceling}
    for drop, (name, model) in itertools.product((0.3, 0.5), nets.items()):
        parts = zip(model.U.split(block, -1), model.V.split(block, -1), strict=True)
        products = [A @ B.mT for A, B in parts] if blockwise else [model.matrix()]
        sizes = torch.stack([(data.inputs @ product.mT).square().sum(-1).mean() for product in products])
        gamma, label = drop / (1 - drop), f"{name}, drop={drop}"
        value = penalty(model, data, Block(drop, model.units, block)).value
        scale = 1e-6 if name == "one speaks" else 1.0  # the product that is not zero has about this square
        found.append(compare(value, "==", enumerated(model, data, drop, block), f"all masks, {label}"))
        found.append(compare(value, ">=", gamma * sizes.max(), f"from below, {label}", scale=scale))
        top = gamma * model.units / block * sizes.max()
        found.append(compare(value, "<=", top, f"from above, {label}", scale=scale))
        if name == "silent":
            found.append(compare(value, "==", 0.0, f"zero, {label}", precision=1e-15))
        else:
            found.append(compare(value, ">", 0.0, f"not zero, {label}", scale=scale))
    return found
