"""What the claims of Pal, Lane, Vidal and Haeffele 2020 (structured dropout) compare.

Letters: theta = 1 - drop keeps a unit, gamma = drop / (1 - drop), r the block size, k the number of blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from scipy.optimize import nnls
from torch import Tensor, nn

from droptics.data import Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.linalg import shrink
from droptics.masks import Bernoulli, Block, Discrete, MaskLaw, SlidingBlock, drop_for_width
from droptics.models import Connections, LastLayer, TwoLayerLinear
from droptics.papers.instances import coin_masks, descend, normal, sample, tensor, two_layer
from droptics.penalties import penalty, risk
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
        told = {tuple(((1 - drop) * mask).tolist()): chance for mask, chance in law.atoms()}
        found.append(compare(len(told), "==", len(stated), f"number of masks, {label}"))
        chances = [told.get(mask, 0.0) for mask in stated]
        found.append(compare(chances, "==", list(stated.values()), f"their chances, {label}"))
        drawn = {tuple(mask.tolist()) for mask in law.sample(40, torch.Generator().manual_seed(width))}
        found.append(compare(len(drawn - set(stated)), "==", 0, f"draws that are none, {label}"))
    return found


def algorithm_1(factor: float) -> list[Comparison]:
    """Mean printed step over masks against `factor` times the gradient of the explicit objective."""
    found = []
    for seed, block, drop in ((1, 2, 0.4), (4, 1, 0.6)):
        model, data = two_layer(seed, 3, 4, 4), sample(seed, 1, 4, 3)
        x, y = data.inputs[0], data.targets[0]
        theta = 1 - drop
        step = torch.zeros_like(model.U), torch.zeros_like(model.V)
        for kept, chance in coin_masks([drop] * (4 // block)):
            D = torch.diag(kept.repeat_interleave(block))
            residual = model.U @ D @ model.V.mT @ x / theta - y
            step[0].add_(torch.outer(residual, x) @ model.V @ D, alpha=chance / theta)
            step[1].add_(torch.outer(x, residual) @ model.U @ D, alpha=chance / theta)
            stepped = masked_step(model, data, D.diagonal() / theta, 0.1).tensors
            moved = [(old - new) / 0.1 for old, new in zip(model.tensors, stepped, strict=True)]
            own = [torch.outer(residual, x) @ model.V @ D / theta, torch.outer(x, residual) @ model.U @ D / theta]
            for name, ours, printed in zip("UV", moved, own, strict=True):
                # a difference of weights, divided by the step of 0.1
                found.append(compare(factor * ours, "==", printed, f"step of {name} under one mask", precision=1e-8))
        U, V = model.U.clone().requires_grad_(True), model.V.clone().requires_grad_(True)
        net = TwoLayerLinear(U, V)
        gradient = torch.autograd.grad(risk(net, data) + penalty(net, data, Block(drop, 4, block)).value, (U, V))
        for name, ours, printed in zip("UV", gradient, step, strict=True):
            found.append(compare(factor * ours, "==", printed, f"mean step of {name}, r={block}"))
    return found


def doubling(share: float) -> list[Comparison]:
    """[U U]/sqrt 2, [V V]/sqrt 2 computes the same map with `share` of the penalty, three times in a row."""
    found = []
    for model, data, drop in instances():
        net, whole = model, enumerated(model, data, drop, 2)
        for times in range(4):
            label, value = f"doubled {times} times, drop={drop}", penalty(net, data, Block(drop, net.units, 2)).value
            found.append(compare(net.matrix(), "==", model.matrix(), f"same map, {label}"))
            found.append(compare(value, "==", share**times * whole, f"penalty, {label}"))
            if times < 2:  # all masks of at most six blocks
                found.append(compare(value, "==", enumerated(net, data, drop, 2), f"over all masks, {label}"))
            net = TwoLayerLinear(torch.cat([net.U, net.U], 1) / 2**0.5, torch.cat([net.V, net.V], 1) / 2**0.5)
    return found


def unreachable() -> list[Comparison]:
    """A map outside the row space of X has no factorization U V^T X at all."""
    X, A = tensor([[1.0, 0.0]]), tensor([[0.0, 1.0]])
    projector = torch.linalg.pinv(X) @ X
    return [compare((A - A @ projector).norm(), "==", 0.0, "distance of A to what the network can express")]


def width_adaptive(factor: Callable[[int, int], float]) -> list[Comparison]:
    """Strength at the width-adaptive rate."""
    found = []
    for drop, width, block in ((0.1, 50, 5), (0.3, 12, 1), (0.2, 10, 2), (0.6, 4, 4), (0.0, 8, 2)):
        rate = drop_for_width(drop, width, block)
        beta = drop / (1 - drop)
        found.append(compare(rate / (1 - rate), "==", factor(width, block) * beta, f"d={width} r={block} drop={drop}"))
    return found


def general_law(characteristic: Callable[[Discrete], Tensor]) -> list[Comparison]:
    """Any law, not only 0/1 masks: penalty = <Cbar, (U^T U) o (H H^T)>."""
    model, data = two_layer(3, 3, 4, 3), sample(6, 7, 4, 3)
    masks = tensor([[0.0, 1.0, -1.0], [2.0, 0.5, 3.0], [1.0, 1.0, 1.0], [0.0, 0.0, 4.0]])
    law = Discrete(masks, tensor([0.2, 0.3, 0.4, 0.1]))
    plain = float(error(model.outputs(data.inputs), data))
    truth = sum(chance * float(error(model.outputs(data.inputs, z), data)) for z, chance in law.atoms()) - plain
    hidden = data.inputs @ model.V
    formula = (characteristic(law) * (model.U.mT @ model.U) * (hidden.mT @ hidden / len(data))).sum()
    return [
        compare(formula, "==", truth, "formula against enumeration"),
        compare(penalty(model, data, law), "==", truth, "library against enumeration"),
    ]


def overlapping_blocks(power: float) -> list[Comparison]:
    """Cbar of dropout, of DropBlock, and of units kept iff all their blocks are: prod of theta_s^-1 there, minus 1."""
    found = []
    for block, drop in ((1, 0.4), (3, 0.4), (2, 0.75)):
        pairs = [(mask.repeat_interleave(block), chance) for mask, chance in coin_masks([drop] * (6 // block))]
        values, weights = torch.stack([mask for mask, _ in pairs]), tensor([chance for _, chance in pairs])
        mean = weights @ values
        spread = (values - mean).mT @ (weights[:, None] * (values - mean))
        ones = torch.block_diag(*[torch.ones(block, block, dtype=torch.float64)] * (6 // block))
        stated, label = ((1 - drop) ** -power - 1) * ones, f"r={block} drop={drop}"
        found.append(compare(spread / torch.outer(mean, mean), "==", stated, f"c_ij/(mu_i mu_j), {label}"))
        found.append(compare(Discrete(values, weights).characteristic, "==", stated, f"listed masks, {label}"))
        found.append(compare(Block(drop, 6, block).characteristic, "==", stated, f"library, {label}"))
    drops = [0.2, 0.5, 0.3]
    members = tensor([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0]])
    masks, chances = [], []
    for kept, chance in coin_masks(drops):
        masks.append(((1 - kept) @ members < 0.5).double())
        chances.append(chance)
    law = Discrete(torch.stack(masks), tensor(chances))
    shared = torch.einsum("si,sj,s->ij", members, members, -power * torch.log(1 - tensor(drops)))
    return [*found, compare(torch.expm1(shared), "==", law.characteristic, "characteristic of overlapping blocks")]


def without_rate(model: TwoLayerLinear, data: Sample, drop: float, block: int) -> Tensor:
    """The dropout formula without the factor gamma."""
    return blockwise(model, data, drop, 1) * (1 - drop) / drop if drop else blockwise(model, data, 0.5, 1)


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
    non-negative singular values. The width is above, or at, the rank of Y.
    """
    found = []
    cases = (tensor([[1.0]]), 0.5, 2), (normal(1, 2, 3), 0.3, 3), (normal(2, 3, 4), 0.6, 4), (normal(3, 2, 3), 0.4, 2)
    for Y, drop, width in cases:
        gamma = drop / (1 - drop)

        def objective(U: Tensor, H: Tensor, Y: Tensor = Y, gamma: float = gamma) -> Tensor:
            return (Y - U @ H).square().sum() + gamma * (U.square().sum(0) * H.square().sum(1)).sum()

        best, (U, H) = descend(objective, [(len(Y), width), (width, Y.shape[1])], starts=2)
        values, beta, label = torch.linalg.svdvals(Y), strength(drop, width), f"{tuple(Y.shape)} drop={drop} d={width}"
        kept = shrink(values, beta * width, width)
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


def drop_connect(formula: Callable[[Connections, Sample, float], Tensor], outputs: int = 2) -> list[Comparison]:
    """A formula for the DropConnect penalty against all masks of the weights."""
    found = []
    for seed, drop in ((2, 0.5), (5, 0.3)):
        data = sample(seed, 5, 3, outputs)
        model = Connections(normal(seed, outputs, 2), normal(seed + 1, 3, 2))
        plain, total = float(error(model.outputs(data.inputs), data)), 0.0
        for kept, chance in coin_masks([drop] * 6):
            masked = (kept.reshape(3, 2) / (1 - drop)) * model.V
            total += chance * float(error(data.inputs @ masked @ model.U.mT, data))
        found.append(compare(formula(model, data, drop), "==", total - plain, f"drop={drop}"))
    return found


def by_connections(model: Connections, data: Sample, drop: float) -> Tensor:
    """The corrected formula: gamma sum_k ||u_k||^2 sum_i v_ik^2 ||M_i||^2 / n, M_i the rows of inputs."""
    return drop / (1 - drop) * (model.U.square().sum(0) * (data.inputs.square().mean(0) @ model.V.square())).sum()


def as_dropout(model: Connections, data: Sample, drop: float) -> Tensor:
    """The printed formula: the penalty of dropout."""
    return penalty(TwoLayerLinear(model.U, model.V), data, Bernoulli(drop, model.width)).value


def uncorrelated_inputs(correlation: float) -> list[Comparison]:
    """Dropout's formula and the library's penalties against all masks of V; rows of X orthogonal but for `correlation`.

    The rows of X differ in length and are correlated in pairs; a single input has none to be correlated with.
    """
    found = []
    for seed, inputs, width, outputs, drop in ((1, 2, 3, 2, 0.4), (4, 3, 2, 1, 0.7), (6, 1, 4, 3, 0.4)):
        rows = torch.linalg.qr(normal(seed, 7, inputs)).Q
        rows = (rows + correlation * rows.roll(1, 1)) * torch.linspace(1.0, 2.0, inputs).double()
        data = Sample(rows, normal(seed + 1, 7, outputs))
        model = Connections(normal(seed + 2, outputs, width), normal(seed + 3, inputs, width))
        plain, total = float(error(model.outputs(data.inputs), data)), 0.0
        for kept, chance in coin_masks([drop] * (inputs * width)):
            masked = (kept.reshape(inputs, width) / (1 - drop)) * model.V
            total += chance * float(error(data.inputs @ masked @ model.U.mT, data))
        label = f"{inputs} inputs, correlation {correlation}"
        units = (model.U.square().sum(0) * (data.inputs @ model.V).square().mean(0)).sum()
        found.append(compare(drop / (1 - drop) * units, "==", total - plain, f"formula of dropout, {label}"))
        dropped = penalty(TwoLayerLinear(model.U, model.V), data, Bernoulli(drop, width))
        found.append(compare(dropped, "==", drop / (1 - drop) * units, f"library, dropout, {label}"))
        ours = penalty(model, data, Bernoulli(drop, inputs * width))
        found.append(compare(ours, "==", total - plain, f"library, connections, {label}"))
    return found


def printed_matching(drop: float, block: int) -> float:
    """The printed keep probability 1 - (1 - theta)^(1 / (2 k - 1)) of each block."""
    return 1 - drop ** (1 / (2 * block - 1))


def sliding(keep: Callable[[float, int], float]) -> list[Comparison]:
    """Marginal drop rate of sliding blocks."""
    found = []
    for drop, size, block in ((0.5, 10, 5), (0.2, 7, 3), (0.4, 4, 1)):
        law = SlidingBlock(1 - keep(drop, block), size, block)
        found.append(compare(1 - law.mean, "==", drop, f"marginal drop, d={size} r={block}"))
    return found


def sliding_moments(taper: Callable[[Tensor, int], Tensor]) -> list[Comparison]:
    """The clipped law has Cbar_ij = theta^-(1 - |i-j|/r)_+ - 1: a taper, not block diagonal."""
    drop, size, block = 0.4, 5, 3
    law = SlidingBlock.matching(drop, size, block)
    distance = (torch.arange(size)[:, None] - torch.arange(size)).abs().double()
    formula = (1 - drop) ** (-taper(distance, block)) - 1
    masks = torch.stack([z for z, _ in law.atoms()])
    chances = tensor([chance for _, chance in law.atoms()])
    centered = masks - chances @ masks
    return [
        compare(formula, "==", (centered * chances[:, None]).mT @ centered, "characteristic against enumeration"),
        compare(law.characteristic, "==", formula, "library"),
    ]


def positive(model: TwoLayerLinear, relation: str) -> list[Comparison]:
    """Sign of the penalty."""
    value = penalty(model, Moments.of_map(tensor([[1.0]])), Block(0.5, 2, 2))
    return [compare(value, ">" if relation == ">" else "==", 0.0, "penalty of a network with non-zero weights")]


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


def per_unit_ratio(share: float) -> list[Comparison]:
    """Per unit, dropout over DropConnect penalty = v^T G v / v^T diag(G) v: a Rayleigh quotient of the correlations.

    Both penalties are also averages over all masks of the unit and of its connections.
    """
    found = []
    for seed, drop in ((1, 0.3), (11, 0.6)):
        data = sample(seed, 9, 4, 2)
        G = data.inputs.mT @ data.inputs / len(data)
        scale = torch.diagonal(G).sqrt()
        values, vectors = torch.linalg.eigh(G / torch.outer(scale, scale))
        directions = torch.cat([normal(seed + 2, 4, 6), vectors / scale[:, None]], dim=1)
        for v in directions.mT:
            U, V = normal(seed + 4, 2, 1), v[:, None]
            dropped = penalty(TwoLayerLinear(U, V), data, Bernoulli(drop, 1)).value
            cut = penalty(Connections(U, V), data, Bernoulli(drop, 4)).value
            for mine, coins, name in ((dropped, 1, "dropout"), (cut, 4, "DropConnect")):
                moved = (
                    (data.inputs @ (V * (kept[:, None] / (1 - drop) - 1)), chance)
                    for kept, chance in coin_masks([drop] * coins)
                )
                masked = sum(chance * (move @ U.mT).square().sum(1).mean() for move, chance in moved)
                found.append(compare(mine, "==", masked, f"{name} over all masks"))
            found.append(compare(dropped / cut, "<=", share * values[-1], "at most the largest eigenvalue"))
            found.append(compare(dropped / cut, ">=", values[0] / share, "at least the smallest"))
            if v.equal(directions[:, -1]):
                found.append(compare(dropped / cut, "==", share * values[-1], "the largest is attained"))
            if v.equal(directions[:, 6]):
                found.append(compare(dropped / cut, "==", values[0] / share, "the smallest is attained"))
        found.append(compare(values[0], "<", 1.0, "there DropConnect adds more"))
        found.append(compare(values[-1], ">", 1.0, "there dropout adds more"))
    return found
