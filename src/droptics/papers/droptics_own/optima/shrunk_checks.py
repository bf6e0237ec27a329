"""Shrunk spectra, laws without a closed form and mixtures of their bounds, beside every rank and dense algebra."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from droptics.data import Moments
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Block, Discrete
from droptics.models import TwoLayerLinear
from droptics.optima import optimum
from droptics.optima.stationary import _polished, alternate
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.instances import descend, normal, simplex, tensor
from droptics.spectra import action
from droptics.spectra.any_law import frobenius_strength, interval_weights, mixed, nuclear_strength
from droptics.spectra.decomposition import kept_values, shrunk_svd


def shrunk_in_full(scale: float) -> list[Comparison]:
    """Spectra under one rate, any law, and the best of two bounds."""
    return by_parts((_spectra, _any_law, _best_start, _mixtures, _mixed_bound), scale)


def _least(values: Tensor, odds: float, width: int) -> tuple[Tensor, float]:
    """The best soft threshold by trying every rank."""
    best, kept = float(values.square().sum()), values[:0]
    for rank in range(1, min(width, len(values)) + 1):
        top = values[:rank] - odds * values[:rank].sum() / (width + odds * rank)
        if float(top.min()) <= 0:
            break
        value = float(
            (values[:rank] - top).square().sum() + values[rank:].square().sum() + odds / width * top.sum() ** 2
        )
        if value < best:
            best, kept = value, top
    return kept, best


def _spectra(scale: float) -> list[Comparison]:
    """Shrunk decompositions of small and large targets, tall and wide, also where small values decide."""
    found: list[Comparison] = []
    for rows, columns, ratio in (
        (5, 9, 0.6),
        (9, 5, 0.6),
        (90, 200, 0.8),
        (200, 90, 0.8),
        (80, 70, 1e-3),
        (70, 80, 1e-3),
    ):
        left, right = (torch.linalg.qr(normal(k, size, size)).Q for k, size in ((rows, rows), (columns, columns)))
        short = min(rows, columns)
        values = ratio ** torch.arange(short).double()
        target = (left[:, :short] * values) @ right[:, :short].mT
        for rate, width in ((0.4, 7), (1e-9, 3)):
            acting = action(Bernoulli(rate, width))
            told = shrunk_svd(target, acting)
            kept, least = _least(values, rate / (1 - rate), width)
            name = f"{rows} by {columns}, {rate}"
            found.append(compare(len(told.values), "==", scale * len(kept), f"rank, {name}"))
            found.append(compare(told.values, "==", scale * kept, f"kept, {name}", 1e-9))
            found.append(compare(told.least, "==", scale * least, f"least, {name}", 1e-9))
            found.append(compare(told.left.mT @ told.left, "==", torch.eye(len(kept)), f"left, {name}", 1e-9))
            found.append(compare(told.right.mT @ told.right, "==", torch.eye(len(kept)), f"right, {name}", 1e-9))
            across = (told.left * (target @ told.right)).sum(0)
            found.append(compare(across / values[: len(kept)], "==", 1.0, f"directions, {name}", 1e-6))
    for law in (Bernoulli(tensor([0.2, 0.5, 0.6]), 3), Bernoulli(0.3, 4)):
        acting = action(law)
        values = tensor([2.0, 1.5, 0.3, 0.1])
        kept_array, penalty = kept_values(acting, values.numpy().copy())
        rest = values.clone()
        rest[: len(kept_array)] -= torch.from_numpy(kept_array)
        whole = float(rest.square().sum()) + penalty
        padded = torch.nn.functional.pad(torch.from_numpy(kept_array), (0, 4 - len(kept_array)))
        found.append(compare(penalty, "==", scale * acting.value(padded), f"penalty kept, {law.size}"))
        for j in range(8):
            beside = (padded + 1e-3 * normal(j, 4)).clamp_min(0).sort(descending=True).values
            other = float((values - beside).square().sum() + acting.value(beside))
            found.append(compare(whole, "<=", other / scale, f"best, {law.size}"))
        cut = acting.cutoff(values, torch.from_numpy(kept_array))
        below = torch.cat([values[: len(kept_array)], tensor([0.999 * cut])])
        again, _ = kept_values(acting, below.numpy().copy())
        found.append(compare(len(again), "==", scale * len(kept_array), f"below the cutoff, {law.size}"))
    return found


def _within(matrix: Tensor) -> float:
    """1 / (1^T matrix^+ 1), zero where the vector of ones is not in the range."""
    ones, inverse = torch.ones(len(matrix)).double(), torch.linalg.pinv(matrix, hermitian=True)
    reached = float((matrix @ inverse @ ones - ones).abs().max()) < 1e-9
    return float(1 / (ones @ inverse @ ones)) if reached else 0.0


def _any_law(scale: float) -> list[Comparison]:
    """Bounds of any law by its characteristic matrix, and alternating least squares beside slopes."""
    found: list[Comparison] = []
    for name, law in (
        ("blocks", Block(0.3, 4, 2)),
        ("coins", Bernoulli(tensor([0.1, 0.4, 0.3]), 3)),
        ("listed", Discrete(tensor([[2.0, 0.0, 1.0], [0.0, 2.0, 1.5], [1.0, 1.0, 0.5]]), simplex(1, 3))),
    ):
        C = law.characteristic
        plain = _within(C)
        found.append(compare(frobenius_strength(C), "==", scale * plain, f"by energies, {name}", 1e-8))
        size = len(C)
        padded = torch.zeros(size + 2, size + 2).double()
        padded[1:-1, 1:-1] = C
        weights = torch.zeros(size, size).double()
        for i in range(size):
            for j in range(i, size):
                weights[i, j] = padded[i + 1, j + 1] - padded[i, j + 1] - padded[i + 1, j + 2] + padded[i, j + 2]
        wanted, told = 0.0, interval_weights(C)
        found.append(compare(float(told is None), "==", float((weights.min() < -1e-12).item()), f"intervals, {name}"))
        if told is not None:
            found.append(compare(told, "==", scale * weights.clamp_min(0), f"their weights, {name}"))
            cover = torch.zeros(size, size).double()
            for i in range(size):
                for j in range(i, size):
                    cover[i : j + 1, i : j + 1] += weights[i, j] / (j - i + 1)
            wanted = _within(cover)
        d = C.diagonal()
        if bool((d > 0).all()):
            wanted = max(wanted, float(torch.linalg.eigvalsh(C / (d[:, None] * d).sqrt())[0] / (1 / d).sum()))
        found.append(compare(nuclear_strength(C), "==", scale * wanted, f"by a nuclear norm, {name}", 1e-8))
        T = normal(3, 3, 4)
        U, H, rank, words = alternate(T, C, seed=1)
        U, H = U.clone().requires_grad_(), H.clone().requires_grad_()

        def value(U: Tensor, H: Tensor, C: Tensor = C, T: Tensor = T) -> Tensor:
            return (T - U @ H.mT).square().sum() + (C * (U.mT @ U) * (H.mT @ H)).sum()

        slopes = torch.autograd.grad(value(U, H), (U, H))
        found.append(compare(torch.cat([one.flatten() for one in slopes]), "==", 0.0, f"stationary, {name}", 1e-5))
        found.append(compare(rank, "==", scale * int(torch.linalg.matrix_rank(U @ H.mT, rtol=1e-7)), f"rank, {name}"))
        found.append(compare(float("6 starts" in words), "==", 1.0, f"words, {name}"))
        left, values, outer = torch.linalg.svd(T, full_matrices=False)
        (first, second), _ = _polished(values.numpy()[:, None], normal(5, 3, size).numpy(), (1 + C).numpy())
        ends = left @ torch.from_numpy(first), outer.mT @ torch.from_numpy(second)
        found.append(compare(value(*ends), "==", scale * value(U, H).detach(), f"polished, {name}", 1e-3))
    return found


def _best_start(scale: float) -> list[Comparison]:
    """A law with stationary points of different values, 2.459 and 2.656: the search ends at the least."""
    law, T = Discrete(normal(3, 6, 4).abs(), simplex(1, 6)), normal(2, 4, 4)
    multipliers = law.masks / (law.probabilities @ law.masks)
    second = torch.einsum("m,mi,mj->ij", law.probabilities, multipliers, multipliers)

    def value(U: Tensor, H: Tensor) -> Tensor:
        return T.square().sum() - 2 * (T * (U @ H.mT)).sum() + (second * (U.mT @ U) * (H.mT @ H)).sum()

    least, _ = descend(value, [(4, 4), (4, 4)], starts=1)
    best = optimum(TwoLayerLinear, Moments.of_map(T), law)
    own = value(*best.model.tensors)
    return [
        compare(best.objective, "==", scale * least, "the best of all starts"),
        compare(best.objective, "==", scale * own, "criterion of its network"),
    ]


def _mixed_bound(scale: float) -> list[Comparison]:
    """The best of 21 mixtures of two bounds."""
    found: list[Comparison] = []
    law = Discrete(tensor([[2.0, 0.0, 1.0], [0.0, 2.0, 1.5], [1.0, 1.0, 0.5]]), simplex(1, 3))
    values, best = tensor([2.0, 1.2, 0.4]), -math.inf
    strengths = frobenius_strength(law.characteristic), nuclear_strength(law.characteristic)
    for w in range(21):
        x, more = mixed(values, (1 - w / 20) * strengths[0], w / 20 * strengths[1], 3)
        best = max(best, float((values - x).square().sum()) + more)
        own = (1 - w / 20) * strengths[0] * x.square().sum() + w / 20 * strengths[1] * x.sum() ** 2
        found.append(compare(more, "==", scale * own, f"mixture {w}"))
    kept, penalty = action(law).shrink(values)
    found.append(compare(float((values - kept).square().sum()) + penalty, "==", scale * best, "the best mixture"))
    return found


def _mixtures(scale: float) -> list[Comparison]:
    """Shrinkage by energies and a nuclear norm at once, the best of all ranks."""
    found: list[Comparison] = []
    for j in range(4):
        s, plain, nuclear, width = normal(j, 4).abs().sort(descending=True).values, 0.3, 0.2, 2
        x, _ = mixed(s, plain, nuclear, width)
        best = math.inf
        for rank in range(width + 1):
            y = torch.zeros(4).double()
            top = s[:rank]
            y[:rank] = (top - nuclear * top.sum() / (1 + plain + nuclear * rank)) / (1 + plain)
            if rank == 0 or float(y[:rank].min()) > 0:
                cost = float((s - y).square().sum() + plain * y.square().sum() + nuclear * y.sum() ** 2)
                if cost < best:
                    best, wanted_x = cost, y
        found.append(compare(torch.nn.functional.pad(x, (0, 4 - len(x))), "==", scale * wanted_x, f"mixed, {j}"))
    return found
