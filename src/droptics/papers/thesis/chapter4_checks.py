"""What the claims of chapter 4 (matrix completion, two-layer ReLU networks) compare.

Letters: drop = p, lam = p / (1 - p), width d1, columns u_k and v_k, a_k the activation of unit k, beta the retentivity.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from droptics.bounds import (
    completion,
    completion_constant,
    data_norm,
    measured_rademacher,
    rademacher,
    relu,
)
from droptics.coadaptation import flows, retentivity, split, symmetrize
from droptics.data import Measurements, Moments, Sample
from droptics.evidence.claims import Comparison, Relation, compare
from droptics.linalg import equalizer, psd_root
from droptics.masks import Bernoulli
from droptics.models import DeepLinear, Factorization, LastLayer, ReLUNet
from droptics.norms import nuclear, weighted_trace
from droptics.papers.instances import coin_masks, normal, sample, simplex, tensor
from droptics.penalties import effective_strength, penalty


def sensing(scale: Callable[[float], float]) -> list[Comparison]:
    """Masked columns of a factorization under linear measurements, against all masks."""
    found = []
    for seed, drop in ((1, 0.0), (2, 0.3), (3, 0.9)):
        U, V = normal(seed, 3, 4), normal(seed + 1, 5, 4)
        data = Measurements(normal(seed + 2, 6, 3, 5), normal(seed + 3, 6))
        plain = (data.values - torch.einsum("nij,ij->n", data.matrices, U @ V.mT)).square().mean()
        total = tensor(0.0)
        for kept, chance in coin_masks([drop] * 4):
            W = U @ torch.diag(kept / (1 - drop)) @ V.mT
            total += chance * (data.values - torch.einsum("nij,ij->n", data.matrices, W)).square().mean()
        ours = penalty(Factorization(U, V), data, Bernoulli(drop, 4)).value
        found.append(compare(ours, "==", total - plain, f"library, p={drop}"))
        units = torch.einsum("ik,nij,jk->nk", U, data.matrices, V).square().mean(0).sum()
        found.append(compare(scale(drop) * units, "==", total - plain, f"formula, p={drop}"))
    return found


def expected_regularizer(U: Tensor, V: Tensor, law: Tensor) -> Tensor:
    """sum_k sum_ij Pi_ij U_ik^2 V_jk^2 for entries observed with probabilities Pi."""
    return torch.einsum("ij,ik,jk->", law, U.square(), V.square())


def equalized_factors(M: Tensor, p: Tensor, q: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Factors of M that attain the weighted trace norm."""
    P, s, Rh = torch.linalg.svd(p.sqrt()[:, None] * M * q.sqrt(), full_matrices=False)
    s = s[:width]
    grown = torch.cat([s, s.new_zeros(width - len(s))])
    Q = equalizer(torch.diag(grown))
    pad = (0, width - len(s))
    U = nn.functional.pad(P[:, : len(s)] * s.sqrt(), pad) @ Q / p.sqrt()[:, None]
    V = nn.functional.pad(Rh.mT[:, : len(s)] * s.sqrt(), pad) @ Q / q.sqrt()[:, None]
    return U, V


def induced_completion(squared: bool) -> list[Comparison]:
    """Least expected regularizer = ||diag(sqrt p) M diag(sqrt q)||_*^2 / width; attained, never beaten."""
    found = []
    for seed, width in ((1, 2), (2, 3), (3, 4), (4, 7)):
        M = normal(seed, 4, 2) @ normal(seed + 1, 2, 5)
        p, q = simplex(seed, 4), simplex(seed + 1, 5)
        U, V = equalized_factors(M, p, q, width)
        law, norm = torch.outer(p, q), weighted_trace(M, p, q)
        theta = (norm**2 if squared else norm) / width
        found.append(compare(U @ V.mT, "==", M, f"product, width {width}"))
        found.append(compare(expected_regularizer(U, V, law), "==", theta, f"value, width {width}"))
        mix = torch.eye(width, dtype=torch.float64) + 0.5 * normal(seed + 5, width, width)
        other = expected_regularizer(U @ mix, torch.linalg.solve(mix, V.mT).mT, law)
        found.append(compare(other, ">=", theta, "another factorization"))
    return found


def not_a_product() -> list[Comparison]:
    """Entries (1,2) and (2,1) only: the identity costs nothing, the marginal formula says 1/2."""
    law, M = tensor([[0.0, 0.5], [0.5, 0.0]]), torch.eye(2, dtype=torch.float64)
    half = tensor([0.5, 0.5])
    return [compare(expected_regularizer(M, M, law), "==", weighted_trace(M, half, half) ** 2 / 2, "value")]


def gaussian_sensing(width_power: int) -> list[Comparison]:
    """Gaussian measurements: E Rbar = sum ||u||^2 ||v||^2 and its least value ||M||_*^2 / width."""
    found = []
    for seed, width in ((1, 3), (2, 5)):
        M = normal(seed, 3, 4)
        P, s, Rh = torch.linalg.svd(M, full_matrices=False)
        Q = equalizer(torch.diag(torch.cat([s, s.new_zeros(width - 3)])))
        pad = (0, width - 3)
        U, V = (nn.functional.pad(f * s.sqrt(), pad) @ Q for f in (P, Rh.mT))
        value = (U.square().sum(0) * V.square().sum(0)).sum()
        found.append(compare(value, "==", nuclear(M) ** 2 / width**width_power, f"width {width}"))
    return found


def relu_penalty(scale: Callable[[float], float]) -> list[Comparison]:
    """Dropout on the hidden layer of U relu(V^T x), against all masks."""
    found = []
    for seed, drop in ((1, 0.4), (2, 0.8)):
        data = sample(seed, 5, 3, 2)
        V, U = normal(seed, 3, 4), normal(seed + 1, 2, 4)
        module = nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False)).double()
        with torch.no_grad():
            for parameter, value in zip(module.parameters(), (V.mT, U), strict=True):
                parameter.copy_(value)
        hidden = torch.relu(data.inputs @ V)
        plain = (data.targets - hidden @ U.mT).square().sum(1).mean()
        total = tensor(0.0)
        for kept, chance in coin_masks([drop] * 4):
            total += chance * (data.targets - (hidden * kept / (1 - drop)) @ U.mT).square().sum(1).mean()
        formula = scale(drop) * (U.square().sum(0) * hidden.square().mean(0)).sum()
        found.append(compare(formula, "==", total - plain, f"formula, p={drop}"))
        ours = penalty(LastLayer.of(module), data, Bernoulli(drop, 4))
        found.append(compare(ours, "==", total - plain, f"library, p={drop}"))
    return found


def _skewed(axis: Tensor) -> Tensor:
    """Independent coordinates with mean 0 and variance 1 that are 2 with probability 1/5, else -1/2."""
    points = list(itertools.product((2.0, -0.5, -0.5, -0.5, -0.5), repeat=len(axis)))
    return tensor(points)


def isotropic_regularizer(factor: float, symmetric: bool = True) -> list[Comparison]:
    """E relu(v.x)^2 summed with ||u||^2 = factor sum ||u||^2 ||v||^2 for isotropic x."""
    found = []
    for seed in range(2):
        U, V = normal(seed, 2, 4), normal(seed + 1, 3, 4)
        axes = 3**0.5 * torch.eye(3, dtype=torch.float64)
        points = torch.cat([axes, -axes]) if symmetric else _skewed(axes[0])
        found.append(compare(points.mT @ points / len(points), "==", torch.eye(3, dtype=torch.float64), "isotropic"))
        value = (U.square().sum(0) * torch.relu(points @ V).square().mean(0)).sum()
        found.append(compare(value, "==", factor * (U.square().sum(0) * V.square().sum(0)).sum(), "regularizer"))
    return found


def unbounded_norm(delta: Callable[[float], float]) -> list[Comparison]:
    """The three-point law: unit norms, mean zero, E relu(w.x)^2 = 1 and ||w|| = delta^-1/2 > C."""
    found = []
    for C in (2.0, 5.0):
        d = delta(C)
        if not 0 < d < 0.5:
            found.append(compare(d, "<", 0.5, f"delta is a probability below 1/2, C={C}"))
            continue
        height = math.sqrt(1 - 2 * d) / (1 - d)
        points = tensor([[1.0, 0.0], [-d / (1 - d), height], [-d / (1 - d), -height]])
        chances = tensor([d, (1 - d) / 2, (1 - d) / 2])
        w = tensor([d**-0.5, 0.0])
        found.append(compare(points.norm(dim=1), "==", 1.0, "norms"))
        found.append(compare(chances @ points, "==", 0.0, "mean"))
        found.append(compare(chances @ torch.relu(points @ w).square(), "==", 1.0, "second moment of the unit"))
        found.append(compare(w.norm(), ">", C, "norm of w"))
    return found


def retained(limit: float) -> list[Comparison]:
    """Retentivity: at most `limit`; 1/2 with both signs, 0 for non-negative data, delta for the three-point law."""
    found = []
    for seed in range(3):
        data = sample(seed, 40, 2, 1)
        found.append(compare(float(retentivity(data)), "<=", limit, "at most 1/2"))
        found.append(compare(float(retentivity(symmetrize(data))), "==", 0.5, "both signs"))
        grid = torch.linspace(0, 2 * math.pi, 20001, dtype=torch.float64)
        products = data.inputs @ torch.stack([grid.cos(), grid.sin()])
        swept = (torch.relu(products).square().sum(0) / products.square().sum(0)).min()
        found.append(compare(float(retentivity(data)), "==", swept, "angular sweep", precision=1e-5))
    positive = Sample(normal(1, 30, 3).abs(), normal(2, 30, 1))
    return [*found, compare(float(retentivity(positive)), "==", 0.0, "non-negative data")]


def symmetrized_moments(half: float) -> list[Comparison]:
    """E relu(+-v.x)^2 = v^T C v / 2, without drawing signs."""
    data = sample(3, 9, 4, 1)
    net = ReLUNet([normal(1, 5, 4), normal(2, 1, 5)])
    both = flows(net, symmetrize(data))
    C = data.inputs.mT @ data.inputs / len(data)
    V, u = net.weights[0], net.weights[1][0]
    formula = u.abs() * (half * torch.einsum("ki,ij,kj->k", V, C, V)).sqrt()
    return [
        compare(formula, "==", both, "flows of both signs"),
        compare(flows(net, data, symmetrized=True), "==", both, "library"),
    ]


def _capacity_data() -> list[Sample]:
    line, plane = normal(1, 8, 1), normal(2, 9, 2)
    skewed = Sample(plane.exp() - 1.2, torch.zeros(9, 1, dtype=torch.float64))
    return [symmetrize(Sample(line, 0 * line)), symmetrize(Sample(plane, plane[:, :1])), skewed]


def rademacher_upper(constant: float) -> list[Comparison]:
    """Measured complexity against (constant/2) times 2 alpha ||X|| / (n sqrt(beta))."""
    found = []
    for data in _capacity_data():
        measured = measured_rademacher(data, alpha=1.5)
        beta = float(retentivity(data))
        bound = rademacher(alpha=1.5, norm=data_norm(data), examples=len(data), retentivity=beta)
        found.append(compare(measured, "<=", constant / 2 * bound.value, f"beta={beta:.3f}, n={len(data)}"))
    return found


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


def generalization(symmetrized: bool, constant: float) -> list[Comparison]:
    """The calculators add up to the stated terms: 16 (or 32 sqrt 2) alpha ||X|| / (n sqrt beta) + the tail."""
    found = []
    for alpha, norm, n, beta, risk in ((1.0, 30.0, 900, 0.5, 0.1), (2.5, 80.0, 4000, 0.2, 0.0)):
        if symmetrized:
            bound = relu(alpha=alpha, norm=norm, examples=n, risk=risk, symmetrized=True)
            stated = 2 * risk + constant * alpha * norm / n + 24 * math.sqrt(math.log(40) / (2 * n))
        else:
            bound = relu(alpha=alpha, norm=norm, examples=n, retentivity=beta, risk=risk)
            stated = risk + constant * alpha * norm / (math.sqrt(beta) * n) + 12 * math.sqrt(math.log(40) / (2 * n))
        found.append(compare(bound.value, "==", stated, f"n={n}"))
    return found


def generalization_is_vacuous(symmetrized: bool) -> list[Comparison]:
    """60,000 images of rank 561 with alpha = 1, the least a fitted +-1 problem allows: no better than predicting 0."""
    norm = math.sqrt(60_000 * 561)
    beta = None if symmetrized else 0.5
    bound = relu(alpha=1.0, norm=norm, examples=60_000, risk=0.0, retentivity=beta, symmetrized=symmetrized)
    return [compare(bound.value, ">=", 1.0, "bound on a loss that predicting 0 brings to 1")]


def completion_terms(printed: bool, constant: float) -> list[Comparison]:
    """The calculator against the stated expression."""
    found = []
    for alpha, shape, n in ((1.0, (943, 1682), 90_000), (0.1, (6040, 3706), 900_000)):
        long = max(shape)
        bound = completion(alpha=alpha, shape=shape, examples=n, printed=printed)
        if printed:
            stated = constant * math.sqrt((2 * alpha * long * math.log(long) + math.log(40) / 4) / n)
        else:
            K = completion_constant(shape)
            main = constant * K * math.sqrt(alpha * long * math.log(long) / n)
            stated = main + 4 * math.sqrt(math.log(40) / (2 * n))
        found.append(compare(bound.value, "==", stated, f"shape {shape}"))
    return found


def completion_is_vacuous() -> list[Comparison]:
    """MovieLens sizes: the gap exceeds 0.28, the risk of predicting a constant, although the loss is at most 4."""
    found = []
    for shape, n in (((943, 1682), 90_000), ((6040, 3706), 900_000), ((71_567, 10_681), 9_000_000)):
        bound = completion(alpha=1.0, shape=shape, examples=n)
        found.append(compare(bound.value, ">", 0.28, f"gap, shape {shape}, {n} ratings"))
    return found


def exact_entry_complexity(side: int, n: int) -> float:
    """R_n of the unit weighted-trace ball, uniform entries of a side x side matrix: all positions and signs."""
    total, count = 0.0, 0
    cells = list(itertools.product(range(side), repeat=2))
    for chosen in itertools.product(cells, repeat=n):
        for signs in itertools.product((1.0, -1.0), repeat=n - 1):
            matrix = torch.zeros(side, side, dtype=torch.float64)
            for (i, j), sign in zip(chosen, (1.0, *signs), strict=True):
                matrix[i, j] += sign * side
            total += float(torch.linalg.matrix_norm(matrix, 2))
            count += 1
    return total / count / n


def entry_complexity(constant: Callable[[int], float]) -> list[Comparison]:
    """R_n <= K sqrt(alpha d log d / n), exactly for 2 x 2 matrices."""
    return [
        compare(exact_entry_complexity(2, n), "<=", constant(2) * math.sqrt(2 * math.log(2) / n), f"2 x 2, n={n}")
        for n in (2, 3, 4)
    ]


def unfactored_inputs(law_weighted: bool) -> list[Comparison]:
    """Dropout on the inputs of an unfactored model: lam sum M_ab^2 E A_ab^2."""
    drop, M = 0.4, normal(1, 2, 3)
    data = Measurements(normal(2, 4, 2, 3), normal(3, 4))
    plain = (data.values - torch.einsum("nij,ij->n", data.matrices, M)).square().mean()
    total = tensor(0.0)
    for kept, chance in coin_masks([drop] * 6):
        masked = data.matrices * kept.reshape(2, 3) / (1 - drop)
        total += chance * (data.values - torch.einsum("nij,ij->n", masked, M)).square().mean()
    weights = data.matrices.square().mean(0) if law_weighted else torch.ones_like(M)
    return [compare(drop / (1 - drop) * (M.square() * weights).sum(), "==", total - plain, "penalty")]


def normal_equations(divisor: Callable[[float, int], float]) -> list[Comparison]:
    """One output, deep linear: the stated normal equations at the minimizer u_LS / (1 + nu)."""
    data, widths, drop = sample(4, 12, 3, 1), (2,), 0.4
    X, y = data.inputs.mT, data.targets[:, 0]
    nu = float(effective_strength(widths, drop))
    u = torch.linalg.solve(X @ X.mT, X @ y) / (1 + nu)
    stated = divisor(nu, len(data)) * X @ X.mT @ u
    second = Moments.of_sample(data)
    layers = [
        torch.outer(torch.ones(2, dtype=torch.float64), u) / 2**0.5,
        torch.ones(1, 2, dtype=torch.float64) / 2**0.5,
    ]
    induced = penalty(DeepLinear(layers), second, Bernoulli(drop, 2)).value
    return [
        compare(stated, "==", X @ y, "normal equations"),
        compare(induced, "==", nu * (u @ second.xx @ u), "regularizer of the equalized network"),
    ]


def kronecker(transpose: bool) -> list[Comparison]:
    """<U V^T, A> = <vec U^T, (I kron V^T) vec A^T> with column stacking."""
    U, V, A = normal(1, 3, 2), normal(2, 4, 2), normal(3, 3, 4)

    def vec(matrix: Tensor) -> Tensor:
        return matrix.mT.reshape(-1)

    left = (U @ V.mT * A).sum()
    stacked = torch.kron(torch.eye(3, dtype=torch.float64), V.mT.contiguous())
    right = vec(U.mT) @ stacked @ vec(A.mT if transpose else A)
    return [compare(left, "==", right, "inner product")]


def cauchy_schwarz(with_rate: bool) -> list[Comparison]:
    """Sum |u_k| a_k <= sqrt(d1 R) with R without (or, as printed, with) the factor lam."""
    found = []
    for drop in (0.1, 0.3, 0.8):
        u, a = tensor([1.0, 2.0, 1.5]), tensor([1.0, 0.5, 0.7])
        R = (u.square() * a.square()).sum() * (drop / (1 - drop) if with_rate else 1.0)
        found.append(compare((u * a).sum(), "<=", (3 * R).sqrt(), f"p={drop}"))
    return found


def flow_split(power: float) -> list[Comparison]:
    """d1 Rbar = (alpha / phi)^power and phi between 1/sqrt(d1) and 1."""
    data = sample(1, 9, 3, 1)
    found = []
    for seed in range(3):
        net = ReLUNet([normal(seed, 6, 3), normal(seed + 1, 1, 6)])
        hidden = torch.relu(data.inputs @ net.weights[0].mT)
        psi = net.weights[1][0].abs() * hidden.square().mean(0).sqrt()
        parts = split(net, data)
        found.append(compare(6 * psi.square().sum(), "==", (parts.alpha / parts.coadaptation) ** power, "d1 Rbar"))
        found.append(compare(parts.alpha, "==", psi.sum(), "alpha"))
        found.append(compare(parts.coadaptation, "<=", 1.0, "phi at most 1"))
        found.append(compare(parts.coadaptation, ">=", 6**-0.5, "phi at least 1/sqrt(d1)"))
    return found


def _best_sums(signs: Sequence[float], outputs: Sequence[Sequence[float]]) -> float:
    return max(sum(s * v for s, v in zip(signs, values, strict=True)) for values in outputs)


def _complexity(outputs: Sequence[Sequence[float]]) -> float:
    n = len(outputs[0])
    patterns = list(itertools.product((1.0, -1.0), repeat=n))
    return sum(_best_sums(signs, outputs) for signs in patterns) / len(patterns) / n


def loss_contraction(factor: float) -> list[Comparison]:
    """R_S of the losses (1 - y g)^2 against factor R_S of g: two equal inputs with labels +1 and -1, g in [-1, 1]."""
    members = [(g, g) for g in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    losses = [((1 - a) ** 2, (1 + b) ** 2) for a, b in members]
    return [compare(_complexity(losses), "<=", factor * _complexity(members), "complexity of the losses")]


def clipping(relation: Relation) -> list[Comparison]:
    """Clipping to [-1, 1] does not increase R_S."""
    found = []
    for seed in range(5):
        outputs = (2 * normal(seed, 6, 4)).tolist()
        outputs += [[-v for v in row] for row in outputs]
        clipped = [[max(-1.0, min(1.0, v)) for v in row] for row in outputs]
        found.append(compare(_complexity(clipped), relation, _complexity(outputs), "complexity after clipping"))
    return found


def rotation_only(relation: Relation) -> list[Comparison]:
    """Best rotation of an arbitrary pair against the weighted trace value: it stays above."""
    U, V = tensor([[1.0, 0.3], [0.2, 1.0]]), tensor([[1.0, -0.5], [0.4, 0.6]])
    p, q = tensor([0.6, 0.4]), tensor([0.3, 0.7])
    theta = float(weighted_trace(U @ V.mT, p, q)) ** 2 / 2
    values = []
    for step in range(400):
        angle = math.pi * step / 400
        Q = tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        values.append(float(expected_regularizer(U @ Q, V @ Q, torch.outer(p, q))))
    return [compare(min(values), relation, theta, "best rotation of the given pair", precision=1e-3)]


def path_expression(scaled: bool) -> list[Comparison]:
    """Expected regularizer (with lam) against 1/2 times the squared path norm, with or without lam."""
    drop, U, V = 0.3, normal(1, 2, 4), normal(2, 3, 4)
    axes = 3**0.5 * torch.eye(3, dtype=torch.float64)
    points = torch.cat([axes, -axes])
    lam = drop / (1 - drop)
    value = lam * (U.square().sum(0) * torch.relu(points @ V).square().mean(0)).sum()
    stated = 0.5 * (U.square().sum(0) * V.square().sum(0)).sum() * (lam if scaled else 1.0)
    return [compare(value, "==", stated, "expected regularizer")]


def weighted_norm_is_rank(factor: float) -> list[Comparison]:
    """||X||_{C+} = sqrt(n rank C) when C is the second moment of the same examples."""
    found = []
    for data in (sample(1, 9, 3, 1), Sample(normal(2, 8, 1) @ normal(3, 1, 4), normal(4, 8, 1))):
        C = data.inputs.mT @ data.inputs / len(data)
        direct = torch.einsum("ni,ij,nj->", data.inputs, torch.linalg.pinv(C, rtol=1e-10), data.inputs).sqrt()
        rank = int(torch.linalg.matrix_rank(C, rtol=1e-10))
        found.append(compare(direct, "==", factor * math.sqrt(len(data) * rank), f"rank {rank}"))
        found.append(compare(data_norm(data), "==", direct, "library"))
        found.append(compare(nuclear(psd_root(C)), ">", 0.0, "C is not zero"))
    return found


def copies_stay_inside(share: float) -> list[Comparison]:
    """D copies of one unit with the same map have d Rbar = (|u| a)^2 for every width, odd ones included."""
    found = []
    data, v, u = sample(2, 8, 3, 1), normal(3, 3), 1.7
    alpha = u * float(torch.relu(data.inputs @ v).square().mean().sqrt())
    for width in (1, 2, 3, 5):
        net = ReLUNet([v.repeat(width, 1), torch.full((1, width), u / width, dtype=torch.float64)])
        parts = split(net, data)
        found.append(compare(parts.alpha, "==", share * alpha, f"alpha, width {width}"))
        found.append(compare(width * parts.regularizer, "==", share * alpha**2, f"regularizer, width {width}"))
    return found
