"""What a claim on heads compares: their systems, certificates by quadratic programs, proximal maps."""

from __future__ import annotations

import numpy as np
import scipy
import torch
from torch import Tensor, nn

from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.linalg import k_support_shrink
from droptics.linalg.leading import leading_eigen
from droptics.masks import Bernoulli, MaskLaw, Product
from droptics.models import Autoencoder, LastLayer, ReLUNet
from droptics.norms import k_support
from droptics.optima import certify, optimal_head
from droptics.optima.last_layer import head_optimum
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.predictions.moment_checks import network
from droptics.papers.instances import moments, normal, simplex, tensor
from droptics.training import Penalized, train


def solved_heads(scale: float) -> list[Comparison]:
    """Heads by their system, bounds by quadratic programs, proximal maps, leading eigenvectors, a tied step."""
    return by_parts((_heads, _certificates, _proximal, _leading), scale)


def _bare(seed: int, units: int, outputs: int) -> nn.Linear:
    """A linear layer without bias."""
    layer = nn.Linear(units, outputs, bias=False).double().requires_grad_(False)
    layer.weight.copy_(normal(seed, outputs, units))
    return layer


def _heads(scale: float) -> list[Comparison]:
    """Weights, bias and criterion by one linear system: weighed examples off center, with and without a bias."""
    found = []
    rates = tensor([0.3, 0.5, 0.1])
    for weights in (None, simplex(3, 12)):
        data, law = Sample(normal(4, 12, 3) + 0.4, normal(5, 12, 2) - 1, weights), Bernoulli(rates, 3)
        shares = torch.full((12,), 1 / 12, dtype=torch.float64) if weights is None else weights
        roots, ones = shares.sqrt()[:, None], torch.ones(12, 1, dtype=torch.float64)
        diagonal = scale * rates / (1 - rates) * (shares @ data.inputs.square())
        with_bias, without = head_optimum(LastLayer, data, law), optimal_head(LastLayer.of(_bare(1, 3, 2)), data, law)
        for name, best, more in (("a bias", with_bias, 1), ("no bias", without, 0)):
            wide = roots * torch.cat([data.inputs, ones], 1)[:, : 3 + more]
            ridge = torch.nn.functional.pad(diagonal, (0, more))
            W = torch.linalg.solve(wide.mT @ wide + torch.diag(ridge), wide.mT @ (roots * data.targets))
            objective = (wide @ W - roots * data.targets).square().sum() + W.square().sum(1) @ ridge
            label = f"{name}, weights {weights is not None}"
            assert isinstance(best.model, LastLayer)
            head = best.model.head
            found.append(compare(best.objective, "==", objective, f"criterion of a head, {label}"))
            found.append(compare(head.weight.mT, "==", W[:3], f"a head, {label}"))
            if more:
                found.append(compare(head.bias, "==", W[3], f"its bias, {label}"))
            found.append(compare(best.bound, "==", objective, f"its bound, {label}"))
    return found


def _certificates(scale: float) -> list[Comparison]:
    """Bounds are the least over all features and heads, and criteria of given heads are written out.

    Features of any size times any head are U V^T, so that of the targets, off center where there is no bias, the
    singular values are all that counts. Of networks the last hidden layer decides.
    """
    found = []
    plain = Sample(normal(4, 12, 3), normal(5, 12, 2))
    several = Sample(normal(8, 12, 3), normal(5, 12, 3) + 1, simplex(3, 12))
    few = Sample(several.inputs[:, :2], several.targets, several.weights)
    rates, deep = tensor([0.3, 0.5, 0.1]), tensor([0.1, 0.7, 0.2, 0.3, 0.2, 0.5, 0.4])
    layers = Product([Bernoulli(0.2, 3), Bernoulli(0.3, 4)])
    cases: tuple[tuple[str, nn.Linear | ReLUNet, Sample, MaskLaw, list[float]], ...] = (
        ("one rate", linear_head(6, 3, 2), plain, Bernoulli(0.3, 3), [0.3] * 3),
        ("no bias", _bare(6, 3, 3), several, Bernoulli(0.3, 3), [0.3] * 3),
        ("rates", linear_head(6, 3, 3), several, Bernoulli(rates, 3), rates.tolist()),
        ("fewer units than outputs", linear_head(6, 2, 3), few, Bernoulli(0.2, 2), [0.2] * 2),
        ("a network", network(7, 3, 4, 2), plain, layers, [0.3] * 4),
        ("rates of a network", network(7, 3, 4, 3), several, Bernoulli(deep, 7), deep[3:].tolist()),
    )
    for name, model, data, law, drops in cases:
        shares, head = data.shares, model if isinstance(model, nn.Linear) else None
        bare = head is not None and head.bias is None
        centered = data.targets - (0 if bare else shares @ data.targets)
        spectrum = torch.linalg.svdvals(shares.sqrt()[:, None] * centered)
        odds = scale * tensor(drops) / (1 - tensor(drops))

        told = certify(LastLayer.of(model) if isinstance(model, nn.Linear) else model, data, law)
        found.append(compare(told.bound, "==", _least(spectrum, odds), f"bound of any features, {name}", 1e-7))
        if head is not None:
            errors = (head(data.inputs) - data.targets).square().sum(1)
            given = shares @ errors + odds @ ((shares @ data.inputs.square()) * head.weight.square().sum(0))
            found.append(compare(told.objective, "==", given, f"criterion of a given head, {name}"))
    return found


def _least(spectrum: Tensor, odds: Tensor) -> float:
    """Least ||diag(s) - U V^T||^2 + sum_i odds_i ||u_i||^2 ||v_i||^2, as a quadratic program (droptics-unequal-rates).

    Of U V^T with singular values x that fall the products n of norms, those of least odds first, have no larger sums.
    """
    count = len(odds)
    weights, target = np.sort(odds.numpy()), torch.nn.functional.pad(spectrum, (0, count))[:count].numpy()
    falling = np.hstack([np.eye(count) - np.eye(count, k=1), np.zeros((count, count))])
    below = np.hstack([np.tri(count), -np.tri(count)])
    best = scipy.optimize.minimize(
        lambda z: np.square(target - z[:count]).sum() + weights @ np.square(z[count:]),
        np.full(2 * count, 0.1),
        jac=lambda z: 2 * np.concatenate([z[:count] - target, weights * z[count:]]),
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda z: np.concatenate([falling @ z, (below @ z)[:-1]])},
            {"type": "eq", "fun": lambda z: (below @ z)[-1:]},
        ],
        options={"ftol": 1e-14, "maxiter": 200},
    )
    return float(best.fun + spectrum[count:].square().sum())


def _proximal(scale: float) -> list[Comparison]:
    """Shrinkage by the squared k-support norm: one vector, and several at once with strengths of their own.

    Half a squared norm and half its dual, the k largest, meet at the slope u = (x - v) / strength: no v is better.
    """
    found = []
    x, k, strength = tensor([2.0, -1.5, 0.7, 0.3]), 2, 0.6

    def paid(v: Tensor) -> Tensor:
        return (x - v).square().sum() + scale * strength * k_support(v.abs(), k).square()

    ours = k_support_shrink(x, strength, k)
    for number in range(6):
        beside = ours + 0.01 * normal(20 + number, 4)
        found.append(compare(paid(ours), "<=", paid(beside), "least of its neighbors"))
    tied = tensor([1.0, -1.0, 0.4, 1.0, 0.0, -0.4])
    for y, k, strength in (
        (x, 2, 0.6),
        (normal(21, 6), 3, 0.3),
        (normal(22, 5), 1, 1.5),
        (normal(23, 5), 5, 0.7),
        (tied, 2, 0.25),
        (tied, 4, 4.0),
    ):
        several, strengths = torch.stack([y, 2 * y.flip(0)]), tensor([strength, 2.5 * strength])
        both = k_support_shrink(several, strengths, k)
        parts = ((y, strength, k_support_shrink(y, strength, k)), *zip(several, strengths.tolist(), both, strict=True))
        for number, (given, rate, v) in enumerate(parts):
            u = (given - v) / (scale * rate)
            dual = u.abs().sort(descending=True).values[:k].square().sum()
            label = f"{k} of {len(y)}, {'alone' if number == 0 else 'of several'}"
            found.append(compare(u @ v, "==", dual, f"slope and point, {label}"))
            found.append(compare(u @ v, "==", k_support(v, k).square(), f"norm and its dual, {label}"))
    return found


def _leading(scale: float) -> list[Comparison]:
    """Leading eigenvectors of a matrix, and a step of a tied network along the slope of its criterion."""
    found = []
    matrix = normal(9, 40, 40)
    matrix = matrix + matrix.mT
    top, vectors = leading_eigen(matrix.numpy(), 5)
    found.append(compare(matrix.numpy() @ vectors, "==", scale * vectors * top, "leading eigenvectors"))
    found.append(compare(vectors.T @ vectors, "==", torch.eye(5), "an orthonormal basis"))
    found.append(compare(top, "==", torch.linalg.eigvalsh(matrix).flip(0)[:5], "leading eigenvalues"))
    tied, square = Autoencoder(normal(10, 3, 2)), moments(11, 3, 3)
    run = train(tied, square, Penalized(Bernoulli(0.4, 2)), steps=1, step_size=0.01)
    leaf = tied.tensors[0].clone().requires_grad_()
    W = leaf @ leaf.mT
    loss = square.yy.trace() - 2 * (W * square.yx).sum() + ((W @ square.xx) * W).sum()
    loss = loss + 0.4 / 0.6 * (leaf.square().sum(0) * ((leaf.mT @ square.xx) * leaf.mT).sum(1)).sum()
    (slope,) = torch.autograd.grad(loss, leaf)
    found.append(compare(run.model.tensors[0], "==", leaf.detach() - scale * 0.01 * slope, "a tied step"))
    return found
