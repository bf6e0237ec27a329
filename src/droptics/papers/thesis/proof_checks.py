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
from droptics.papers.instances import coin_masks, moments, normal, sample, second_moment, simplex, subsets, tensor
from droptics.papers.mianjy2018.landscape_checks import rotated_products
from droptics.papers.thesis import chapter3_checks as deep
from droptics.papers.thesis.leaky import LeakyNet, adversarial_sgd, beta_robust_error
from droptics.penalties import criterion, penalty, sub_penalties
from droptics.training import masked_step


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
    """R = sum_l R_l, or sum_l lam^l R_l, with R_l the sums over pivots, R over all masks; to three hidden layers.

    The penalty of the library of wide layers, too, of which there are too many masks.
    """
    found, wide = [], ((3, 70, 5, 66, 2), 0.7)
    for seed, (sizes, drop) in enumerate((((3, 2, 2, 2), 0.3), ((2, 3, 2), 0.6), ((2, 2, 3, 1, 3), 0.4), wide)):
        weights, data = deep.network(seed, sizes), moments(seed, sizes[-1], sizes[0])
        lam = drop / (1 - drop)
        parts = deep.pivot_sums(weights, data.xx)
        total = sum((lam**i if weighted else 1.0) * part for i, part in enumerate(parts, start=1))
        if max(sizes) < 10:
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

    sup_t t <D, Q> - t^2 f(D) = <D, Q>^2/(4 f(D)) for every direction D, never above h(Q) and attained at the printed
    maximizer, and so with f and h exchanged. Directions are random and near the best; Q wide, tall, square and of low
    rank; A has eigenvalues below and above one. The library's norm of each of several matrices is its own.
    """
    found = []
    cases = ((0.7, 2, 3, 2), (2.0, 4, 2, 2), (0.3, 3, 3, 1), (1.2, 5, 4, 4))
    for seed, (beta, rows, columns, rank) in enumerate(cases):
        A = second_moment(seed + 1, columns) + 0.1 * torch.eye(columns, dtype=torch.float64)
        Q = normal(seed, rows, rank) @ normal(seed + 5, rank, columns)

        def spectral(M: Tensor, A: Tensor = A, beta: float = beta) -> Tensor:
            return beta * torch.linalg.matrix_norm(M @ A, 2) ** 2

        def dual(M: Tensor, A: Tensor = A, beta: float = beta) -> Tensor:
            return nuclear(torch.linalg.solve(A, M.mT).mT) ** 2 / (factor * beta)

        P, _, Rh = torch.linalg.svd(torch.linalg.solve(A, Q.mT).mT, full_matrices=False)
        left, _, right = torch.linalg.svd(Q @ A, full_matrices=False)
        directions = P @ Rh @ torch.linalg.inv(A), torch.outer(left[:, 0], right[0]) @ A
        for name, value, other, D in (("h", dual, spectral, directions[0]), ("f", spectral, dual, directions[1])):
            best = (D * Q).sum() / (2 * other(D)) * D
            found.append(compare((best * Q).sum() - other(best), "==", value(Q), f"{name} attained"))
            near = [D + size * normal(k, rows, columns) for k in range(20) for size in (0.01, 0.1, 10.0)]
            reached = torch.stack([(M * Q).sum() ** 2 / (4 * other(M)) for M in near])
            found.append(compare(reached, "<=", value(Q), f"{name} never exceeded"))
        shrunk = torch.linalg.solve(A, Q.mT).mT
        several = nuclear(torch.stack([shrunk, 2 * shrunk]))
        found.append(compare(several, "==", tensor([1.0, 2.0]) * (P @ Rh * shrunk).sum(), "nuclear norms of two"))
    return found


def two_losses(labels: tuple[float, ...]) -> list[Comparison]:
    """(1 - y g)^2 = (y - g)^2 for ReLU networks clipped to [-1, 1]: outputs inside, on both ends, and zero among them.

    For any label they differ by (1 - y^2)(1 - g^2).
    """
    outputs = [normal(seed, 4) @ torch.relu(normal(seed + 9, 4, 3) @ normal(seed + 18, 3, 9)) for seed in (1, 2)]
    g = torch.cat([*outputs, tensor([-1.0, 0.0, 1.0])]).clamp(-1, 1)
    found = [compare((g.abs() < 1).sum(), ">", 4, "inside")]
    for y in labels:
        defined, of_class = (1 - y * g).square(), (y - g).square()
        found.append(compare(defined - of_class, "==", (1 - y**2) * (1 - g.square()), f"difference, y={y}"))
        found.append(compare(defined, "==", of_class, f"y={y}"))
    return found


def mean_gradient(scaled: bool) -> list[Comparison]:
    """Mean over all masks of the dropout gradient = gradient of loss + penalty, both layers of a ReLU network.

    Batches of one to five examples, one and two outputs, weighted ones, one mask for all and one for each example, sums
    of exactly zero; the dropout gradient as the library steps along it, that of loss and penalty by the library and
    written out.
    """
    found = []
    for seed, (drop, examples, outputs, width, weighted) in enumerate(
        ((0.4, 5, 2, 4, False), (0.75, 1, 1, 3, False), (0.1, 5, 1, 3, True), (0.3, 2, 2, 2, True))
    ):
        plain = sample(seed, examples, 3, outputs)
        weights = simplex(seed, examples) if weighted else None
        data = Sample(plain.inputs, plain.targets, weights)
        V, U = (normal(seed + i, *shape) for i, shape in ((1, (width, 3)), (2, (outputs, width))))
        V[:1] *= float(seed != 2)  # a unit whose relu stands at 0
        V.requires_grad_(), U.requires_grad_()
        # the control takes the variance of the mask for that of the multiplier: drop for drop / (1 - drop)
        law = Bernoulli(drop if scaled else drop / (1 + drop), width)
        explicit = criterion(ReLUNet([V, U]), data, Product([Bernoulli(0.0, 3), law])).value
        slopes = torch.autograd.grad(explicit, (V, U))
        net = ReLUNet([V.detach(), U.detach()])
        rows = examples if examples == 2 else 1  # masks of their own for two examples, of four coins each
        totals = [torch.zeros_like(weight) for weight in net.weights]
        for kept, chance in coin_masks([drop] * (rows * width)):
            masks = torch.cat([torch.ones(rows, 3).double(), kept.reshape(rows, width) / (1 - drop)], 1)
            stepped = masked_step(net, data, masks if rows > 1 else masks[0], 1.0)
            moves = [before - after for before, after in zip(net.weights, stepped.tensors[:2], strict=True)]
            totals = [total + chance * move for total, move in zip(totals, moves, strict=True)]
        written = _explicit_slopes(net, data, drop / (1 - drop))
        for name, total, slope, formula in zip("VU", totals, slopes, written, strict=True):
            found.append(compare(total, "==", slope, f"mean gradient in {name}, {examples} examples"))
            found.append(compare(total, "==", formula, f"mean gradient in {name}, {examples} examples, written out"))
    return found


def _explicit_slopes(net: ReLUNet, data: Sample, lam: float) -> tuple[Tensor, Tensor]:
    """Gradients of mean ||U a - y||^2 + lam sum_k ||u_k||^2 mean a_k^2 in V and U, a = relu(V x), by the chain rule."""
    V, U = net.weights
    shares = tensor([1.0] * len(data.inputs)) / len(data.inputs) if data.weights is None else data.weights
    sums = data.inputs @ V.mT
    active, error = sums.relu(), shares[:, None] * (sums.relu() @ U.mT - data.targets)
    outer = error.mT @ active + lam * U * (shares @ active.square())
    inner = error @ U + lam * shares[:, None] * active * U.square().sum(0)
    return 2 * (inner * (sums > 0)).mT @ data.inputs, 2 * outer


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
