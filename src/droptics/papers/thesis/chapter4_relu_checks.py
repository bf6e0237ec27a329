"""What the claims of chapter 4 on two-layer ReLU networks compare: penalty, retentivity, capacity, flows.

Letters: drop = p, lam = p / (1 - p), width d1, columns u_k and v_k, a_k the activation of unit k, beta the retentivity.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from droptics.bounds import data_norm, measured_rademacher, rademacher
from droptics.coadaptation import flows, retentivity, split, symmetrize
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.linalg import psd_root
from droptics.masks import Bernoulli, Product
from droptics.models import LastLayer, ReLUNet
from droptics.norms import path_norm
from droptics.papers.instances import coin_masks, normal, sample, simplex, tensor, uniform
from droptics.papers.thesis.chapter4_bound_checks import line_complexity, plane_complexity
from droptics.penalties import criterion, penalty


def _filled(seed: int, *layers: nn.Module) -> nn.Sequential:
    """The layers with reproducible normal parameters."""
    module = nn.Sequential(*layers).double()
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(normal(seed + number, *parameter.shape))
    return module


def relu_penalty(scale: Callable[[float], float]) -> list[Comparison]:
    """Dropout on the hidden layer of U relu(V^T x), against all masks; also above tanh and sigmoid with offsets.

    One example, a unit that is never active and a rate of zero are among the instances.
    """
    shallow = [nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False)]
    deep = [nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.Sigmoid(), nn.Linear(4, 2)]
    found = []
    cases: tuple[tuple[list[nn.Module], float, int], ...]
    cases = ((shallow, 0.4, 5), (shallow, 0.8, 1), (deep, 0.3, 6), (deep, 0.0, 4))
    for seed, (layers, drop, examples) in enumerate(cases):
        module, data = _filled(seed + 1, *layers), sample(seed + 1, examples, 3, 2)
        first, top = module[0], module[-1]
        assert isinstance(first, nn.Linear)
        assert isinstance(top, nn.Linear)
        with torch.no_grad():
            if drop == 0.8:
                first.weight[3] = 0.0
            hidden, U = module[:-1](data.inputs), top.weight.clone()
            plain = (data.targets - module(data.inputs)).square().sum(1).mean()
            total = tensor(0.0)
            for kept, chance in coin_masks([drop] * 4):
                total += chance * (data.targets - top(hidden * kept / (1 - drop))).square().sum(1).mean()
        label = f"p={drop}, {len(layers)} layers"
        formula = scale(drop) * (U.square().sum(0) * hidden.square().mean(0)).sum()
        found.append(compare(formula, "==", total - plain, f"formula, {label}"))
        model, masks = LastLayer.of(module), Bernoulli(drop, 4)
        found.append(compare(penalty(model, data, masks), "==", total - plain, f"library, {label}"))
        found.append(compare(criterion(model, data, masks), "==", total, f"library, with the loss, {label}"))
    return found


def _skewed(axis: Tensor) -> Tensor:
    """Independent coordinates with mean 0 and variance 1 that are 2 with probability 1/5, else -1/2."""
    points = list(itertools.product((2.0, -0.5, -0.5, -0.5, -0.5), repeat=len(axis)))
    return tensor(points)


def _isotropic(seed: int, size: int) -> tuple[Tensor, Tensor]:
    """Points of second moment I that come with both signs, and their chances: random ones, whitened."""
    points, chances = normal(seed, size + 3, size), simplex(seed, size + 3)
    points = points @ torch.linalg.inv(psd_root(points.mT * chances @ points))
    return torch.cat([points, -points]), torch.cat([chances, chances]) / 2


def _paths(U: Tensor, V: Tensor) -> float:
    """The sum over i0, i1, i2 of U(i2, i1)^2 V(i0, i1)^2, path by path."""
    sizes = map(range, (len(V), U.shape[1], len(U)))
    return sum(float(U[c, b]) ** 2 * float(V[a, b]) ** 2 for a, b, c in itertools.product(*sizes))


def isotropic_regularizer(symmetric: bool, with_rate: bool = True) -> list[Comparison]:
    """E relu(v.x)^2 summed with ||u||^2, times lam, = lam/2 sum U^2 V^2 for isotropic x, if it is symmetric.

    Path by path; points of a symmetric law count differently, x as much as -x. `with_rate` leaves lam out of what is
    stated.
    """
    found = []
    for seed, (inputs, width, outputs, drop) in enumerate(((3, 4, 2, 0.3), (2, 1, 3, 0.8), (1, 5, 1, 0.1))):
        U, V = normal(seed, outputs, width), normal(seed + 1, inputs, width)
        skewed = _skewed(torch.zeros(inputs))
        equal = torch.full((len(skewed),), 1 / len(skewed), dtype=torch.float64)
        points, chances = _isotropic(seed, inputs) if symmetric else (skewed, equal)
        C, lam = points.mT * chances @ points, drop / (1 - drop)
        found.append(compare(C, "==", torch.eye(inputs, dtype=torch.float64), "isotropic"))
        law = Product([Bernoulli(0.0, inputs), Bernoulli(drop, width)])
        data = Sample(points, normal(seed + 2, len(points), outputs), 3 * chances)
        value = penalty(ReLUNet([V.mT, U]), data, law)
        direct = lam * (U.square().sum(0) * (chances @ torch.relu(points @ V).square())).sum()
        found.append(compare(value, "==", direct, f"Proposition 5, width {width}"))
        stated = 0.5 * (lam if with_rate else 1.0) * _paths(U, V)
        found.append(compare(value, "==", stated, f"regularizer, width {width}"))
        found.append(compare(path_norm([V.mT, U], 2) ** 2, "==", _paths(U, V), f"path norm, width {width}"))
    return found


def unbounded_norm(delta: Callable[[float], float]) -> list[Comparison]:
    """The three-point law: unit norms, mean zero, E relu(w.x)^2 = 1 and ||w|| = delta^-1/2 > C."""
    found = []
    for C in (0.5, 0.8, 1.05, 2.0, 300.0):
        d = delta(C)
        if not 0 < d < 0.5:
            found.append(compare(d, "<", 0.5, f"delta is a probability below 1/2, C={C}"))
            found.append(compare(d**-0.5, ">", C, f"norm of w, C={C}"))
            continue
        height = math.sqrt(1 - 2 * d) / (1 - d)
        points = tensor([[1.0, 0.0], [-d / (1 - d), height], [-d / (1 - d), -height]])
        chances = tensor([d, (1 - d) / 2, (1 - d) / 2])
        w = tensor([d**-0.5, 0.0])
        found.append(compare(points.norm(dim=1), "==", 1.0, "norms"))
        found.append(compare(chances @ points, "==", 0.0, "mean"))
        found.append(compare(chances @ torch.relu(points @ w).square(), "==", 1.0, "second moment of the unit"))
        found.append(compare(w.norm(), ">", C, "norm of w"))
        law = Sample(points, points[:, :1], chances)
        found.append(compare(float(retentivity(law)), "==", d, "retentivity of the law"))
    return found


def retained(limit: float) -> list[Comparison]:
    """Retentivity: at most `limit`; 1/2 with both signs, 0 for non-negative data, and the least of a sweep.

    In the plane and in space, examples of different weights, a plane in space, and on a line the smaller side.
    """
    found = []
    for seed, size in enumerate((2, 2, 3, 3, 5)):
        weights = uniform(seed, 40) + 0.1 if seed % 2 else None
        data = Sample(sample(seed, 40, size, 1).inputs, torch.zeros(40, 1, dtype=torch.float64), weights)
        kept = retentivity(data)
        found.append(compare(float(kept), "<=", limit, f"at most 1/2, {size} inputs"))
        found.append(
            compare(_kept(data, kept.direction[:, None]), "==", float(kept), f"worst direction, {size} inputs")
        )
        found.append(compare(float(retentivity(symmetrize(data))), "==", 0.5, f"both signs, {size} inputs"))
        found.append(
            compare(float(retentivity(symmetrize(data))), "<=", limit, f"both signs, at most 1/2, {size} inputs")
        )
        root = torch.linalg.cholesky((data.inputs.mT * _chances(data)) @ data.inputs)
        tried = _kept(data, torch.linalg.solve(root.mT, _directions(size)))  # of one second moment
        found.append(compare(tried, ">=", float(kept), f"every direction keeps as much, {size} inputs"))
        if size < 4:
            near = 1e-5 if size == 2 else 1e-3
            found.append(compare(tried.min(), "==", float(kept), f"sweep, {size} inputs", precision=near))
        if size == 2:
            flat = Sample(data.inputs @ normal(seed, 2, 3), data.targets, weights)
            found.append(compare(float(retentivity(flat)), "==", float(kept), "a plane in space", precision=1e-8))
    cube = Sample(_skewed(torch.zeros(3)), torch.zeros(125, 1, dtype=torch.float64))
    found.append(compare(_kept(cube, _directions(3)), ">=", float(retentivity(cube)), "every direction, a cube"))
    line = tensor([[2.0], [-1.0], [0.5]])
    found.append(compare(float(retentivity(Sample(line, line))), "==", 1 / 5.25, "a line"))
    positive = Sample(normal(1, 30, 3).abs(), normal(2, 30, 1))
    for examples, size in ((1, 1), (3, 3), (4, 7)):
        few = float(retentivity(normal(3, examples, size)))
        found.append(compare(few, "==", 0.0, f"{examples} linearly independent examples"))
    return [*found, compare(float(retentivity(positive)), "==", 0.0, "non-negative data")]


def _directions(size: int) -> Tensor:
    """Columns of unit norm: a fine circle, a grid of the sphere, or random ones."""
    turn = torch.linspace(0, 2 * math.pi, 20001 if size == 2 else 241, dtype=torch.float64)
    if size == 2:
        return torch.stack([turn.cos(), turn.sin()])
    if size > 3:
        return nn.functional.normalize(normal(7, size, 5000), dim=0)
    around = torch.cartesian_prod(turn, turn[:121])
    flat = around[:, 1].sin()
    return torch.stack([around[:, 0].cos() * flat, around[:, 0].sin() * flat, around[:, 1].cos()])


def _kept(data: Sample, directions: Tensor) -> Tensor:
    """E relu(v.x)^2 / E (v.x)^2 of every column v."""
    along = data.inputs @ directions
    return (_chances(data) @ torch.relu(along).square()) / (_chances(data) @ along.square())


def _chances(data: Sample) -> Tensor:
    weights = torch.ones(len(data), dtype=torch.float64) if data.weights is None else data.weights
    return weights / weights.sum()


def symmetrized_moments(half: float) -> list[Comparison]:
    """E relu(+-v.x)^2 = half v^T C v, both signs listed, and the flows and the retentivity of the library.

    Dependent inputs, one unit, one example and examples of unequal weights among the instances. Signs that are drawn
    move no example but to its negative, by fair coins within five standard errors.
    """
    found = []
    weighed = Sample(normal(8, 7, 3), normal(9, 7, 1), simplex(10, 7))
    flat = Sample(normal(5, 6, 1) @ normal(6, 1, 3), normal(7, 6, 1))
    for seed, (data, width) in enumerate(((sample(3, 9, 4, 1), 5), (sample(5, 1, 2, 1), 1), (flat, 3), (weighed, 4))):
        net = ReLUNet([normal(seed + 1, width, data.inputs.shape[1]), normal(seed + 2, 1, width)])
        C = data.inputs.mT @ (data.shares[:, None] * data.inputs)
        V, u = net.weights[0], net.weights[1][0]
        before = data.inputs @ V.mT
        moment = data.shares @ (torch.relu(before).square() + torch.relu(-before).square()) / 2
        stated = half * torch.einsum("ki,ij,kj->k", V, C, V)
        found.append(compare(stated, "==", moment, f"second moment, width {width}"))
        flow = u.abs() * moment.sqrt()
        found.append(compare(flows(net, symmetrize(data)), "==", flow, f"flows of both signs, width {width}"))
        found.append(compare(flows(net, data, symmetrized=True), "==", flow, f"library, width {width}"))
        found.append(compare(float(retentivity(symmetrize(data))), "==", half, f"beta, {len(data)} examples"))
    many = Sample(normal(11, 400, 3), normal(12, 400, 1), simplex(13, 400))
    drawn = symmetrize(many, torch.Generator().manual_seed(1))
    moved = (drawn.inputs != many.inputs).any(1).double()
    signs = 1 - 2 * moved
    found.append(compare(drawn.inputs, "==", signs[:, None] * many.inputs, "drawn signs, one for every example"))
    found.append(compare(drawn.targets, "==", many.targets, "targets beside drawn signs"))
    found.append(compare(drawn.shares, "==", many.shares, "weights beside drawn signs"))
    error = 5 * (half * (1 - half) / 400) ** 0.5
    return [*found, compare(moved.mean(), "==", half, "share of drawn signs", precision=error)]


def _capacity_data() -> list[Sample]:
    line, plane = normal(1, 8, 1), normal(2, 9, 2)
    skewed = Sample(plane.exp() - 1.2, torch.zeros(9, 1, dtype=torch.float64))
    return [symmetrize(Sample(line, 0 * line)), symmetrize(Sample(plane, plane[:, :1])), skewed]


def rademacher_upper(constant: float) -> list[Comparison]:
    """Measured complexity against constant alpha ||X|| / (n sqrt(beta)), and for one input R_n from its definition.

    R_n is the mean over all samples of n points of a law and all signs, against constant alpha sqrt(rank C/(beta n)).
    """
    found, plane = [], _capacity_data()[-1]
    flat = Sample(plane.inputs @ normal(3, 2, 3), plane.targets)  # C has no inverse
    for data in (*_capacity_data(), flat):
        measured, X, n = measured_rademacher(data, alpha=1.5), data.inputs, len(data)
        beta = float(retentivity(data))
        norm = float(((X @ torch.linalg.pinv(X.mT @ X / n, rtol=1e-9)) * X).sum()) ** 0.5
        share = 1.5 * norm / (n * math.sqrt(beta))
        found.append(compare(measured, "<=", constant * share, f"beta={beta:.3f}, n={n}"))
        bound = rademacher(data=data, alpha=1.5, retentivity=beta).value
        found.append(compare(bound, "==", 2 * share, f"the bound of the library, n={n}"))
    swept, ours = plane_complexity(plane.inputs, plane)[0], measured_rademacher(plane)
    found.append(compare(ours, ">=", swept, "two inputs, every sign pattern, some directions"))
    found.append(compare(ours, "<=", 1.001 * swept, "and all of them"))
    line = normal(6, 5, 1)
    ours = measured_rademacher(Sample(line, line))
    found.append(compare(ours, "==", line_complexity(line, line), "one input, every sign pattern"))
    law = tensor([[-1.0], [-0.4], [2.0]])
    energies = [float(torch.relu(side * law).square().mean()) for side in (1, -1)]
    for n in (1, 2, 3):
        samples = [torch.stack(points) for points in itertools.product(law, repeat=n)]
        values = tensor([1.5 * line_complexity(points, law) for points in samples])
        norms = torch.stack(samples).flatten(1).norm(dim=1) / sum(energies) ** 0.5
        limits = constant * 1.5 * norms / n / (min(energies) / sum(energies)) ** 0.5
        found.append(compare(values, "<=", limits, f"R_S of every sample of the law, n={n}"))
        expected = values.mean()
        found.append(compare(expected, "<=", 3 / math.sqrt(n), f"R_n of one input, n={n}"))
        limit = constant * 1.5 * math.sqrt(sum(energies) / (min(energies) * n))
        found.append(compare(expected, "<=", limit, f"R_n by the rank, n={n}"))
        drawn = samples[1]
        ours = measured_rademacher(Sample(drawn, drawn), alpha=1.5, population=Sample(law, law))
        found.append(compare(ours, "==", 1.5 * line_complexity(drawn, law), f"one sample of the law, n={n}"))
    corners = tensor([[1.0, 0.2], [-0.5, 0.8], [-0.3, -1.0]])
    three = Sample(corners, corners)
    pairs = [(corners[[i, j]], 1.0 if i == j else 2.0) for i in range(3) for j in range(i + 1)]
    total = sum(times * float(measured_rademacher(Sample(x, x), population=three).value) for x, times in pairs)
    limit = constant * math.sqrt(2 / (plane_complexity(corners, three)[1] * 2))
    return [*found, compare(total / 9, "<=", limit, "R_n of two inputs, of rank two, n=2")]


def rademacher_lower(constant: float) -> list[Comparison]:
    """Measured complexity against constant alpha ||X|| / n from below, symmetric data."""
    found = []
    for data in _capacity_data()[:2]:
        measured = measured_rademacher(data, alpha=1.5)
        bound = constant * 1.5 * data_norm(data) / len(data)
        found.append(compare(measured, ">=", bound, f"n={len(data)}"))
    return found


def linear_class_inside(factor: float) -> list[Comparison]:
    """w.x as a ReLU network with units +-w: exact, with Rbar = (2/d1) E (w.x)^2."""
    found = []
    for width in (2, 6):
        data, w = sample(1, 12, 3, 1), normal(2, 3)
        signs = tensor([1.0, -1.0] * (width // 2))
        V, u = signs[:, None] * w, 2 / width * signs
        hidden = torch.relu(data.inputs @ V.mT)
        found.append(compare(hidden @ u, "==", data.inputs @ w, f"outputs, width {width}"))
        value = (u.square() * hidden.square().mean(0)).sum()
        second = (data.inputs @ w).square().mean()
        found.append(compare(value, "==", factor / width * second, f"regularizer, width {width}", precision=1e-9))
    return found


def rademacher_of_class(constant: float) -> list[Comparison]:
    """R_S(H_r) >= constant sqrt(d1 r) ||X||_{C+} / n, C of a law that the examples are drawn from, every sign pattern.

    By the linear networks of H_r alone for even widths; the library's R_S, that of networks of any kind, is no less.
    For one point of the law, seen twice, R_S(H_r) is sqrt(d1 r)/2, or 1/sqrt 2 times sqrt(d1 r) ||X||/n.
    """
    found = []
    point = tensor([[1.0]])
    once = measured_rademacher(Sample(point.repeat(2, 1), point.repeat(2, 1)), population=Sample(point, point))
    found.append(compare(once, "==", 0.5, "one point"))
    found.append(compare(once, ">=", constant * 2**0.5 / 2, "one point, from below"))
    for seed, (n, width, r) in enumerate(((5, 2, 0.01), (4, 6, 1.3), (1, 4, 50.0), (6, 3, 0.7), (6, 1, 2.0))):
        law = sample(seed, 7, 2, 1)
        X = law.inputs[torch.randint(7, (n,), generator=torch.Generator().manual_seed(seed))]
        C = law.inputs.mT @ law.inputs / 7
        stated = constant * math.sqrt(width * r * float((torch.linalg.solve(C, X.mT).mT * X).sum())) / n
        ours = measured_rademacher(Sample(X, X[:, :1]), alpha=math.sqrt(width * r), population=law)
        found.append(compare(ours, ">=", stated, f"library, width {width}, r={r}"))
        if width % 2:
            continue
        masks = Product([Bernoulli(0.0, 2), Bernoulli(0.5, width)])  # lam = 1: the regularizer without it
        sides, total = tensor([1.0, -1.0]).repeat(width // 2), 0.0
        for signs in itertools.product((1.0, -1.0), repeat=n):
            w = torch.linalg.solve(C, tensor(signs) @ X)
            w = w * (width * r / 2 / (w @ C @ w).clamp_min(1e-300)).sqrt()
            net = ReLUNet([torch.outer(sides, w), 2 / width * sides[None]])
            total += float(tensor(signs) @ net.outputs(X)[:, 0]) / n / 2**n
        found.append(compare(penalty(net, law, masks), "==", r, f"regularizer of the last, width {width}"))
        found.append(compare(total, ">=", stated, f"linear networks, width {width}, r={r}"))
        found.append(compare(ours, ">=", total, f"library against linear networks, width {width}"))
    return found


def inside_class(share: float) -> list[Comparison]:
    """H_r lies in F_alpha, alpha = sqrt(d1 r), and R_S(H_r) is at most `share` of the bound of Theorem 12 for it.

    The examples themselves are the law. R_S is measured from below, over every pattern of signs and networks of H_r:
    random ones, of random and of equal flows, and copies of one unit in every direction, which reach more. Networks of
    equal flows reach alpha. The last examples come with both signs: there R_S is .40 of the bound.
    """
    found = []
    signs = tensor(list(itertools.product((1.0, -1.0), repeat=8)))
    angle = torch.linspace(0, 2 * math.pi, 721, dtype=torch.float64)
    for seed, width, r in ((3, 2, 0.5), (5, 4, 1.3), (7, 3, 0.9)):
        inputs = normal(seed, 8, 2) if seed < 7 else torch.cat([normal(seed, 4, 2), -normal(seed, 4, 2)])
        data, alpha = Sample(inputs, normal(seed, 8, 1)), math.sqrt(width * r)
        law = Product([Bernoulli(0.0, 2), Bernoulli(0.5, width)])  # lam = 1: the regularizer without it
        units = normal(seed + 1, 300, width, 2)
        copies = torch.stack([angle.cos(), angle.sin()], 1)[:, None].expand(-1, width, 2)
        measured = []
        for V, tops in ((units, normal(seed + 2, 300, width)), (units, None), (copies, None)):
            hidden = torch.relu(torch.einsum("ni,gki->gnk", data.inputs, V))
            size = hidden.square().mean(1).sqrt()
            u = 1 / size if tops is None else tops
            u = u * (r / (u * size).square().sum(1, keepdim=True)).sqrt()
            measured.append((signs @ torch.einsum("gnk,gk->ng", hidden, u)).abs().max(1).values.mean() / 8)
            net = ReLUNet([V[0], u[:1]])
            found.append(compare(penalty(net, data, law), "==", r, "regularizer"))
            total = flows(net, data).sum()
            found.append(compare(total, "<=" if tops is not None else "==", alpha, f"sum of flows, width {width}"))
        # under the law of the examples sum x^T C^+ x is their number times the rank; beta over every direction
        along = inputs @ copies[:, 0].mT
        beta = (torch.relu(along).square().sum(0) / along.square().sum(0)).min()
        stated = 2 * alpha * math.sqrt(8 * 2) / (8 * beta.sqrt())
        bound = rademacher(alpha=alpha, norm=data_norm(data), examples=8, retentivity=float(retentivity(data))).value
        found.append(compare(bound, "==", stated, f"library's bound, width {width}", precision=2e-4))
        found.append(compare(torch.stack(measured), "<=", share * bound, f"R_S(H_r), width {width}"))
        ours = measured_rademacher(data, alpha=alpha)
        found.append(compare(ours, "==", measured[-1], f"library, width {width}", precision=1e-2))
        found.append(compare(torch.stack(measured), "<=", ours, f"no network is above, width {width}"))
    return found


def cauchy_schwarz(with_rate: bool) -> list[Comparison]:
    """Sum |u_k| a_k <= sqrt(d1 R) with R without (or, as printed, with) the factor lam; an equality for equal flows.

    Flows from the activations, R over all masks; one to five units, one of them switched off, rates from .1 to .8.
    """
    found = []
    for seed, (width, drop) in enumerate(((3, 0.1), (1, 0.3), (5, 0.45), (4, 0.8), (2, 0.5))):
        data, V = sample(seed, 9, 2, 1), normal(seed + 3, width, 2)
        hidden = torch.relu(data.inputs @ V.mT)
        a = hidden.square().mean(0).sqrt()
        mixed = normal(seed + 4, width) * (torch.arange(width) != 3)
        for name, u in (("any", mixed), ("equal", torch.sign(mixed + 1e-9) / a)):
            R = tensor(0.0)
            for kept, chance in coin_masks([drop] * width):
                R += chance * (hidden @ (u * (kept / (1 - drop) - 1))).square().mean()
            net, masks, label = ReLUNet([V, u[None]]), Product([Bernoulli(0.0, 2), Bernoulli(drop, width)]), f"p={drop}"
            found.append(compare(penalty(net, data, masks), "==", R, f"library's regularizer, {name} flows, {label}"))
            found.append(compare(flows(net, data), "==", u.abs() * a, f"library's flows, {label}"))
            root = (width * (R if with_rate else R * (1 - drop) / drop)).sqrt()
            found.append(compare((u.abs() * a).sum(), "<=", root, f"{name} flows, {label}"))
            if name == "equal" and not with_rate:
                found.append(compare((u.abs() * a).sum(), "==", root, f"reached by equal flows, {label}"))
    return found


def flow_split(power: float) -> list[Comparison]:
    """The library's phi = ||psi||_1/(sqrt d1 ||psi||_2), its ends, and d1 Rbar = (alpha/phi)^power.

    Of the data as they are and symmetrized, which has every input with both signs.
    """
    given, found = sample(1, 9, 3, 1), []
    both = Sample(torch.cat([given.inputs, -given.inputs]), given.targets.repeat(2, 1))
    for seed, (data, symmetrized) in enumerate(((given, False), (both, True), (given, False), (both, True))):
        V, u = normal(seed, 6, 3), normal(seed + 1, 1, 6)
        size = torch.relu(data.inputs @ V.mT).square().mean(0).sqrt()
        alone = u * torch.eye(6, dtype=torch.float64)[seed]
        for top, extreme in ((u, None), (alone, 6**-0.5), (2 * u.sign() / size, 1.0)):
            parts, psi = split(ReLUNet([V, top]), given, symmetrized=symmetrized), top[0].abs() * size
            phi = psi.sum() / (6**0.5 * psi.norm())
            found.append(compare(parts.coadaptation, "==", phi, "phi"))
            if extreme is not None:
                found.append(compare(parts.coadaptation, "==", extreme, "phi at its ends"))
            found.append(compare(parts.coadaptation, "<=", 1.0, "phi at most 1"))
            found.append(compare(parts.coadaptation, ">=", 6**-0.5, "phi at least 1/sqrt(d1)"))
            found.append(compare(parts.alpha, "==", psi.sum(), "alpha"))
            found.append(compare(parts.regularizer, "==", psi.square().sum(), "its regularizer"))
            regularizer = penalty(ReLUNet([V, top]), data, Product([Bernoulli(0.0, 3), Bernoulli(0.5, 6)])).value
            found.append(compare(6 * regularizer, "==", (parts.alpha / parts.coadaptation) ** power, "d1 Rbar"))
        for few in range(1, 7):
            parts = split(ReLUNet([V, (torch.arange(6) < few) / size[None]]), given, symmetrized=symmetrized)
            found.append(compare(parts.coadaptation, "==", math.sqrt(few / 6), f"{few} equal flows, the others zero"))
    return found


def weighted_norm_is_rank(factor: float) -> list[Comparison]:
    """||X||_{C+} = sqrt(n rank C) when C is the second moment of the same examples; ranks known from how X is made."""
    found = []
    for seed, (n, size, rank) in enumerate(((9, 3, 3), (8, 4, 1), (7, 5, 2), (2, 4, 2), (1, 3, 1))):
        data = Sample(normal(seed, n, rank) @ normal(seed + 1, rank, size), normal(seed, n, 1))
        C = data.inputs.mT @ data.inputs / n
        direct = torch.einsum("ni,ij,nj->", data.inputs, torch.linalg.pinv(C, rtol=1e-10), data.inputs).sqrt()
        stated = factor * math.sqrt(n * rank)
        found.append(compare(direct, "==", stated, f"rank {rank}, n={n}"))
        found.append(compare(data_norm(data, C), "==", stated, f"under the C given, rank {rank}, n={n}"))
        for units in (1.0, 1e-170):
            ours = data_norm(Sample(units * data.inputs, data.targets))
            found.append(compare(ours, "==", stated, f"library, rank {rank}, n={n}, units {units}"))
    for apart, rank in ((2.0**-30, 1), (2.0**-16, 2)):
        near = tensor([[1.0, 1.0], [1.0, 1.0 + apart], [1.0, 1.0], [1.0, 1.0]])
        ours = data_norm(Sample(near, near))
        found.append(compare(ours, "==", factor * math.sqrt(4 * rank), f"features apart by {apart}"))
    return found


def copies_stay_inside(share: float) -> list[Comparison]:
    """D copies of one unit with the same map have d Rbar = (|u| a)^2 for every width, odd ones included.

    So the class holds every single unit with |u| a = alpha at all widths, and these alone reach the lower bound.
    """
    found = rademacher_lower(0.5)
    data, v, u = sample(2, 8, 3, 1), normal(3, 3), 1.7
    alpha = u * float(torch.relu(data.inputs @ v).square().mean().sqrt())
    for width in (1, 2, 3, 5):
        net = ReLUNet([v.repeat(width, 1), torch.full((1, width), u / width, dtype=torch.float64)])
        parts = split(net, data)
        found.append(compare(parts.alpha, "==", share * alpha, f"alpha, width {width}"))
        found.append(compare(width * parts.regularizer, "==", share * alpha**2, f"regularizer, width {width}"))
    return found
