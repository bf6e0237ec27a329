"""What the claims on steps of proofs and on sentences of the thesis compare."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from droptics.attacks import Logistic, Reflected, Threat, linear_attack
from droptics.bounds import adversarial
from droptics.data import Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear, ReLUNet
from droptics.norms import nuclear
from droptics.papers.instances import coin_masks, moments, normal, sample, second_moment, subsets, tensor
from droptics.papers.mianjy2018.landscape_checks import rotated_products
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
    """Over all angles some product ||u_i|| ||v_i|| stays away from ||UV^T||_*/r.

    Between two angles of the grid a product moves by at most 2 ||U|| ||V|| times half of their distance, in spectral
    norms, so that the least over the grid decides for all. A reflection gives the products of a rotation.
    """
    found, count = [], 720
    for U, V in pairs:
        level = nuclear(U @ V.mT) / 2
        gaps = [float((rotated_products(U, V, math.pi * k / count) - level).abs().max()) for k in range(count)]
        between = torch.linalg.matrix_norm(U, 2) * torch.linalg.matrix_norm(V, 2) * math.pi / count
        label = f"least distance from joint equalization, {len(U)} x {len(V)}"
        found.append(compare(min(gaps), ">", between, label))
        turned = rotated_products(*_by_singular_values(U @ V.mT), math.pi / 4)
        found.append(compare(turned, "==", level, "other factors of the map, turned by 45 degrees"))
    return found


def _by_singular_values(M: Tensor) -> tuple[Tensor, Tensor]:
    P, s, Rh = torch.linalg.svd(M)
    return P[:, :2] * s[:2].sqrt(), Rh.mT[:, :2] * s[:2].sqrt()


def unbalanced_pairs() -> list[tuple[Tensor, Tensor]]:
    """U = I and V = diag(1, 0), and random pairs."""
    pairs = [(torch.eye(2, dtype=torch.float64), torch.diag(tensor([1.0, 0.0])))]
    return [*pairs, *((normal(seed, 3, 2), normal(seed + 1, 4, 2)) for seed in (1, 3))]


def balanced_pairs() -> list[tuple[Tensor, Tensor]]:
    """The factors of the same maps that their singular values give, which some rotation equalizes (Theorem 4)."""
    return [_by_singular_values(U @ V.mT) for U, V in unbalanced_pairs()]


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
    """(3.14): R_l >= e_l(1/d) ||W||_*^2 without C^1/2, inputs of second moment scale * I, lam = 1.

    R_l are the printed sums, the norm is the sum of the roots of the eigenvalues of W W^T.
    """
    found = []
    for sizes in ((3, 4, 2), (3, 2, 2, 2)):
        weights, widths = deep.network(1, sizes), list(sizes[1:-1])
        W, C = deep.product(weights), scale * torch.eye(3, dtype=torch.float64)
        terms = sub_penalties(DeepLinear(weights), Moments(C, W @ C, W @ C @ W.mT), deep.law(weights, 0.5))
        norm = float(torch.linalg.eigvalsh(W @ W.mT).clamp_min(0).sqrt().sum())
        found.append(compare(nuclear(W), "==", norm, f"the norm of the library, sizes {sizes}"))
        found.append(compare(terms, "==", deep.pivot_sums(weights, C), f"R_l of the library, sizes {sizes}"))
        for level, term in enumerate(terms, start=1):
            e = sum(1 / math.prod(chosen) for chosen in subsets(widths, level))
            found.append(compare(term, ">=", e * norm**2, f"R_{level}, C = {scale} I"))
    return found


def factors_within(limit: Callable[[float, int], float]) -> list[Comparison]:
    """The largest ||W_{k+1} ... W_1||_F with every ||W_i||_F <= `limit(m, layers)` against m = ||M||_F = 1/2.

    Norms are submultiplicative, and layers u u^T, u u^T, .. reach the product of their norms; none of random ones does.
    """
    found, m = [], 0.5
    for layers in (2, 3, 4):
        u = nn.functional.normalize(normal(layers, 3), dim=0)
        size = limit(m, layers)
        largest = torch.linalg.matrix_power(size * torch.outer(u, u), layers).norm()
        for seed in range(5):
            drawn = [W / W.norm() for W in (normal(seed + 10 * i, 3, 3) for i in range(layers))]
            found.append(compare(size**layers * deep.product(drawn).norm(), "<=", largest, "random layers"))
        found.append(compare(largest, ">=", m, f"largest product of {layers} layers"))
    return found


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
    """f(M) = beta ||M A||_2^2 and h(Q) = ||Q A^-1||_*^2 / (factor beta): h is the conjugate of f, and f that of h.

    sup_t t <D, Q> - t^2 f(D) = <D, Q>^2/(4 f(D)) for every direction D, never above h(Q) and attained, and so with f
    and h exchanged. Directions are random and near the best; Q wide, tall, square and of low rank.
    """
    found = []
    cases = ((0.7, 2, 3, 2), (2.0, 4, 2, 2), (0.3, 3, 3, 1), (1.2, 5, 4, 4))
    for seed, (beta, rows, columns, rank) in enumerate(cases):
        A = second_moment(seed + 1, columns) + torch.eye(columns, dtype=torch.float64)
        Q = normal(seed, rows, rank) @ normal(seed + 5, rank, columns)

        def spectral(M: Tensor, A: Tensor = A, beta: float = beta) -> Tensor:
            return beta * torch.linalg.matrix_norm(M @ A, 2) ** 2

        def dual(M: Tensor, A: Tensor = A, beta: float = beta) -> Tensor:
            return nuclear(torch.linalg.solve(A, M.mT).mT) ** 2 / (factor * beta)

        P, _, Rh = torch.linalg.svd(torch.linalg.solve(A, Q.mT).mT, full_matrices=False)
        left, _, right = torch.linalg.svd(Q @ A, full_matrices=False)
        best = P @ Rh @ torch.linalg.inv(A), torch.outer(left[:, 0], right[0]) @ A
        for name, value, other, D in (("h", dual, spectral, best[0]), ("f", spectral, dual, best[1])):
            found.append(compare((D * Q).sum() ** 2 / (4 * other(D)), "==", value(Q), f"{name} attained"))
            near = [D + size * normal(k, rows, columns) for k in range(20) for size in (0.01, 0.1, 10.0)]
            reached = torch.stack([(M * Q).sum() ** 2 / (4 * other(M)) for M in near])
            found.append(compare(reached, "<=", value(Q), f"{name} never exceeded"))
    return found


def two_losses(labels: tuple[float, ...]) -> list[Comparison]:
    """(1 - y f)^2 = (y - f)^2 for predictions clipped to [-1, 1], both ends and zero among them."""
    f = torch.cat([2 * normal(1, 9).clamp(-1, 1), tensor([-1.0, 0.0, 1.0])]).clamp(-1, 1)
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
    """|l_-'(z)| <= constant min{1, -l_-(z)}, by the derivative of the library's loss; near 1 at both ends.

    Above 20 softplus is linear in torch, right to 1e-9.
    """
    z = torch.linspace(-30, 20, 501, dtype=torch.float64).requires_grad_()
    labels = torch.where(torch.arange(len(z)) % 2 > 0, 1.0, -1.0)
    value = Reflected(Logistic())((labels * z)[:, None], labels)
    (slope,) = torch.autograd.grad(value.sum(), z)
    value, z = value.detach(), z.detach()
    return [
        compare(slope, "==", -1 / (1 + (-z).exp()), "slope", scale=0.0),
        compare(value, "==", -z.exp().log1p(), "reflected loss", scale=0.0),
        compare(-slope, "<=", constant, "slope against one"),
        compare(slope / value, "<=", constant, "slope over the loss"),
    ]


def separable(share: float) -> list[Comparison]:
    """Margins y v.x >= gamma leave y v.x' >= gamma - nu and ||x'|| <= R + nu in the ball of nu = `share` gamma.

    Both attained: by stepping against y v, as the library does, and outwards. Random unit v, two to five features.
    """
    found = []
    for seed, (features, gamma) in enumerate(((2, 0.6), (3, 0.2), (5, 1.1))):
        v, y = nn.functional.normalize(normal(seed, features), dim=0), torch.sign(normal(seed + 1, 15))
        X, radius = normal(seed + 2, 15, features), share * gamma
        beyond = normal(seed + 3, 15).abs()
        beyond[0] = 0.0  # one example at the margin
        X = X + torch.outer(y * (gamma + beyond) - X @ v, v)
        R = X.norm(dim=1).max()
        found.append(compare((y * (X @ v)).min(), "==", gamma, "margin"))
        for step in (nn.functional.normalize(normal(other, 15, features), dim=1) for other in range(5)):
            moved = X + radius * step
            found.append(compare(y * (moved @ v), ">=", gamma - radius, "any step"))
            found.append(compare(moved.norm(dim=1), "<=", R + radius, "size after any step"))
        found.append(compare((X * (1 + radius / R)).norm(dim=1).max(), "==", R + radius, "size after a step outwards"))
        model = nn.Linear(features, 1, bias=False).double()
        with torch.no_grad():
            model.weight.copy_(v)
        reached = linear_attack(model, X, y, Threat("l2", radius))
        worst = (y * (reached @ v)).min()
        found.append(compare(worst, "==", gamma - radius, "the worst step, by the library"))
        found.append(compare((reached - X).norm(dim=1), "<=", radius, "inside the ball"))
        found.append(compare(worst, ">", 0.0, "still classified right"))
    return found
