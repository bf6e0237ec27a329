"""What the claims on steps of proofs and on sentences of the thesis compare."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from droptics.attacks import Threat, linear_attack
from droptics.bounds import adversarial
from droptics.data import Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear, ReLUNet
from droptics.norms import nuclear
from droptics.papers.instances import coin_masks, moments, normal, sample, second_moment, subsets, tensor
from droptics.papers.mianjy2018.landscape_checks import rotated_products
from droptics.papers.mianjy2018.proof_checks import strongly_equal
from droptics.papers.thesis import chapter3_checks as deep
from droptics.papers.thesis.leaky import LeakyNet, adversarial_sgd, beta_robust_error
from droptics.penalties import criterion, penalty, sub_penalties


def group_norm(power: float) -> list[Comparison]:
    """||X||_{p,q} entry by entry against norms of columns; ||v||_{2/3} <= count^power ||v||_2, all entries equal too.

    One to nine entries, some of them zero, of sizes that differ much.
    """
    found = []
    for seed, (p, q) in enumerate(((2.0, 1.0), (1.0, 2.0), (3.0, 1.5), (2.0, 2.0), (1.0, 1.0))):
        X = normal(seed, 3 + seed, 5 - seed)
        rows, columns = X.shape
        direct = sum(sum(abs(float(X[i, j])) ** p for i in range(rows)) ** (q / p) for j in range(columns)) ** (1 / q)
        nested = torch.linalg.vector_norm(torch.linalg.vector_norm(X, p, dim=0), q)
        found.append(compare(nested, "==", direct, f"||X||_{{{p},{q}}}, {rows} x {columns}"))
    for count in (1, 2, 4, 9):
        alone = torch.nn.functional.pad(torch.ones(1, dtype=torch.float64), (0, count - 1))
        for v in (torch.ones_like(alone), alone, *(normal(seed, count) ** (2 * seed + 1) for seed in range(4))):
            size = v.abs().pow(2 / 3).sum() ** 1.5
            found.append(compare(size, "<=", count**power * v.norm(), f"||v||_{{2/3}}, {count} entries"))
    return found


def no_rotation(pairs: list[tuple[Tensor, Tensor]]) -> list[Comparison]:
    """Over all angles some product ||u_i|| ||v_i|| stays away from ||UV^T||_*/r."""
    found = []
    for U, V in pairs:
        level = nuclear(U @ V.mT) / 2
        gaps = [float((rotated_products(U, V, math.pi * k / 720) - level).abs().max()) for k in range(720)]
        found.append(compare(min(gaps), ">", 0.0, "least distance from joint equalization", precision=1e-2))
    return found


def unbalanced_pair() -> list[tuple[Tensor, Tensor]]:
    """U = I, V = diag(1, 0)."""
    return [(torch.eye(2, dtype=torch.float64), torch.diag(tensor([1.0, 0.0])))]


def balanced_pair() -> list[tuple[Tensor, Tensor]]:
    """An equalized pair of width two, rotated away."""
    U, V = (factor[:, :2] for factor in strongly_equal()[0])
    P, s, Rh = torch.linalg.svd(U @ V.mT)
    return [(P[:, :2] * s[:2].sqrt(), Rh.mT[:, :2] * s[:2].sqrt())]


def plain_sum(weighted: bool) -> list[Comparison]:
    """R = sum_l R_l, or sum_l lam^l R_l, with R_l the sums over pivots, R over all masks; to three hidden layers."""
    found = []
    for seed, (sizes, drop) in enumerate((((3, 2, 2, 2), 0.3), ((2, 3, 2), 0.6), ((2, 2, 3, 1, 3), 0.4))):
        weights, data = deep.network(seed, sizes), moments(seed, sizes[-1], sizes[0])
        lam = drop / (1 - drop)
        parts = deep.pivot_sums(weights, data.xx)
        total = sum((lam**i if weighted else 1.0) * part for i, part in enumerate(parts, start=1))
        found.append(compare(deep.masked_penalty(weights, data, drop), "==", total, f"all masks, sizes {sizes}"))
        ours = penalty(DeepLinear(weights), data, deep.law(weights, drop))
        found.append(compare(ours, "==", total, f"library, sizes {sizes}"))
    return found


def without_root(scale: float) -> list[Comparison]:
    """(3.14): R_l >= e_l(1/d) ||W||_*^2 without C^1/2, inputs of second moment scale * I, lam = 1."""
    found = []
    for sizes in ((3, 4, 2), (3, 2, 2, 2)):
        weights, widths = deep.network(1, sizes), list(sizes[1:-1])
        W, C = deep.product(weights), scale * torch.eye(3, dtype=torch.float64)
        terms = sub_penalties(DeepLinear(weights), Moments(C, W @ C, W @ C @ W.mT), deep.law(weights, 0.5))
        for level, term in enumerate(terms, start=1):
            e = sum(1 / math.prod(chosen) for chosen in subsets(widths, level))
            found.append(compare(term, ">=", e * nuclear(W) ** 2, f"R_{level}, C = {scale} I"))
    return found


def factors_within(limit: Callable[[float], float]) -> list[Comparison]:
    """Scalar map m = 1/2 as a product of two numbers, each at most `limit(m)` in size."""
    m = 0.5
    return [compare(limit(m) ** 2, ">=", m, "largest product")]


def walk_sum(power: int) -> list[Comparison]:
    """Sums over pairs of walks, listed node by node: into a pivot alpha^power, between two of them beta^power.

    alpha = ||W_{j->1}(i,:)||_C, beta = |W_{q->p+1}(i_q, i_p)|; pivots in every hidden layer, every node of them.
    """
    weights, C = deep.network(2, (3, 2, 3, 2, 2)), second_moment(1, 3)
    found, widths = [], [len(w) for w in weights]

    def walks(first: int, start: int, last: int, end: int) -> list[float]:
        """Products of the weights along every walk from node `start` of layer `first` up to node `end` of `last`."""
        between = itertools.product(*(range(width) for width in widths[first : last - 1]))
        paths = ((start, *nodes, end) for nodes in between)
        return [
            math.prod(float(weights[first + i][b, a]) for i, (a, b) in enumerate(itertools.pairwise(path)))
            for path in paths
        ]

    for j in (1, 2, 3):
        for node in range(widths[j - 1]):
            ways = [walks(0, a, j, node) for a in range(3)]
            total = sum(
                one * float(C[a, b]) * other for a in range(3) for b in range(3) for one in ways[a] for other in ways[b]
            )
            row = deep.product(weights, j)[node]
            found.append(compare(total, "==", float(row @ C @ row) ** (power / 2), f"into node {node} of layer {j}"))
    for p, q in ((1, 2), (2, 3), (1, 3)):
        for a, b in itertools.product(range(widths[p - 1]), range(widths[q - 1])):
            total = sum(one * other for one in walks(p, a, q, b) for other in walks(p, a, q, b))
            beta = deep.product(weights, q, p + 1)[b, a].abs()
            found.append(compare(total, "==", beta**power, f"between layers {p} and {q}, nodes {a} and {b}"))
    return found


def conjugate_pair(factor: float) -> list[Comparison]:
    """f(M) = beta ||M A||_2^2 has f*(Q) = ||Q A^-1||_*^2 / (factor beta): an upper bound, attained."""
    found = []
    for seed, beta in ((1, 0.7), (2, 2.0)):
        A, Q = second_moment(seed, 3) + torch.eye(3, dtype=torch.float64), normal(seed, 2, 3)
        inner = torch.linalg.solve(A, Q.mT).mT
        value = nuclear(inner) ** 2 / (factor * beta)
        P, _, Rh = torch.linalg.svd(inner, full_matrices=False)
        best = nuclear(inner) / (2 * beta) * (P @ Rh) @ torch.linalg.inv(A)
        reached = (best * Q).sum() - beta * torch.linalg.matrix_norm(best @ A, 2) ** 2
        found.append(compare(reached, "==", value, "attained"))
        for other in range(10):
            M = normal(other, 2, 3)
            found.append(
                compare((M * Q).sum() - beta * torch.linalg.matrix_norm(M @ A, 2) ** 2, "<=", value, "never exceeded")
            )
    return found


def two_losses(labels: tuple[float, ...]) -> list[Comparison]:
    """(1 - y f)^2 = (y - f)^2 for predictions clipped to [-1, 1]."""
    f = normal(1, 9).clamp(-1, 1)
    return [compare((1 - y * f).square(), "==", (y - f).square(), f"y={y}") for y in labels]


def mean_gradient(scaled: bool) -> list[Comparison]:
    """Mean over all masks of the dropout gradient = gradient of risk + penalty, both layers of a ReLU network.

    Batches of one to five examples, one and two outputs.
    """
    found = []
    for seed, (drop, examples, outputs, width) in enumerate(((0.4, 5, 2, 4), (0.75, 1, 1, 3), (0.1, 2, 2, 2))):
        data = sample(seed, examples, 3, outputs)
        V, U = (normal(seed + i, *shape).requires_grad_() for i, shape in ((1, (width, 3)), (2, (outputs, width))))
        hidden = torch.relu(data.inputs @ V.mT)
        # the control takes the variance of the mask for that of the multiplier: drop for drop / (1 - drop)
        law = Bernoulli(drop if scaled else drop / (1 + drop), width)
        explicit = criterion(ReLUNet([V, U]), data, Product([Bernoulli(0.0, 3), law])).value
        slopes = torch.autograd.grad(explicit, (V, U), retain_graph=True)
        totals = [torch.zeros_like(V), torch.zeros_like(U)]
        for kept, chance in coin_masks([drop] * width):
            loss = ((hidden * kept / (1 - drop)) @ U.mT - data.targets).square().sum(1).mean()
            drawn = torch.autograd.grad(loss, (V, U), retain_graph=True)
            totals = [total + chance * slope for total, slope in zip(totals, drawn, strict=True)]
        for name, total, slope in zip("VU", totals, slopes, strict=True):
            found.append(compare(total, "==", slope.detach(), f"mean gradient in {name}, {examples} examples"))
    return found


def small_step(share: float) -> list[Comparison]:
    """Some iterate up to T_tr has L_beta <= 2 eps, the training step `share` times the largest: one weight, slope 1."""
    eps, nu = 0.45, 0.1
    stated = adversarial(data_radius=1.0, margin=1.0, radius=nu, error=eps, start_norm=1.0, constants="printed")
    one = torch.ones(1, 1, dtype=torch.float64)
    run = adversarial_sgd(
        LeakyNet(-one, one[0], 1.0),
        lambda t: (one, one[0]),
        radius=nu,
        steps=math.floor(stated.value),
        step=share * stated.terms["training_step_size"],
        attack_steps=math.ceil(8 * nu**2 / eps) + 1,
        every=10,
    )
    errors = [float(beta_robust_error(net, Sample(one, one), nu).value) for net in run.nets]
    return [compare(min(errors), "<=", 2 * eps, "least beta-robust error of the iterates")]


def reflected_slope(constant: float) -> list[Comparison]:
    """|l_-'(z)| = sigmoid(z) <= min{1, constant ln(1 + e^z)}."""
    z = torch.linspace(-20, 20, 401, dtype=torch.float64)
    limit = (constant * nn.functional.softplus(z)).clamp_max(1.0)
    return [compare(torch.sigmoid(z), "<=", limit, "slope of the reflected loss")]


def separable(radius: float) -> list[Comparison]:
    """Margins y v.x >= gamma leave y v.x' >= gamma - radius within the ball, attained by stepping against y v."""
    found = []
    angle = torch.linspace(0.1, 3.0, 15, dtype=torch.float64)
    X = torch.stack([angle.sin() + 0.5, angle.cos()], 1)
    y = tensor([1.0, -1.0, 1.0]).repeat(5)
    X, v = y[:, None] * X, tensor([1.0, 0.0])
    gamma = float((y * (X @ v)).min())
    for seed in range(5):
        step = nn.functional.normalize(normal(seed, 15, 2), dim=1)
        found.append(compare(y * ((X + radius * step) @ v), ">=", gamma - radius, "any step"))
    reached = linear_attack(lambda points: points @ v[:, None], X, y, Threat("l2", radius))
    worst = (y * (reached @ v)).min()
    found.append(compare(worst, "==", gamma - radius, "the worst step, by the library"))
    found.append(compare(worst, ">", 0.0, "still classified right"))
    return found
