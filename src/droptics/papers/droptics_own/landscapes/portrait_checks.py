"""What the claim on two tied units compares: every critical point and its kind, over all masks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from droptics.data import Moments
from droptics.evidence.claims import Comparison, compare
from droptics.landscapes import portrait
from droptics.masks import Bernoulli, Discrete
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import coin_masks, descend, tensor


def drawn_landscape(shift: float) -> list[Comparison]:
    """Critical points of two tied units: all where slopes of the mean over all masks vanish, kinds by its curvatures.

    Equal and unequal rates, units that fall together more often than alone or never, inputs of any size, a map below
    zero.
    """
    found = []
    together = [
        (tensor(kept), chance) for kept, chance in (((0, 0), 0.2), ((0, 1), 0.1), ((1, 0), 0.15), ((1, 1), 0.55))
    ]
    coupled = Discrete(torch.stack([kept for kept, _ in together]), tensor([chance for _, chance in together]))
    for name, law, outcomes, xx, yx, count in (
        ("equal", Bernoulli(0.3, 2), list(coin_masks([0.3] * 2)), 1.0, 1.5, 4),
        ("often dropped", Bernoulli(0.8, 2), list(coin_masks([0.8] * 2)), 0.6, 1.8, 4),
        ("unequal", Bernoulli(tensor([0.6, 0.2]), 2), list(coin_masks([0.6, 0.2])), 2.5, 1.0, 4),
        ("together", coupled, together, 1.7, 0.9, 4),
        ("negative", Bernoulli(tensor([0.6, 0.2]), 2), list(coin_masks([0.6, 0.2])), 1.5, -1.0, 1),
        ("one kept", Bernoulli(tensor([0.37, 0.0]), 2), list(coin_masks([0.37, 0.0])), 1.5, 1.2, 2),
    ):
        drawn = portrait(Moments(tensor([[xx]]), tensor([[yx]]), tensor([[4.0]])), law, resolution=5, steps=1)
        kept = torch.stack([mask for mask, _ in outcomes])
        chances = tensor([chance for _, chance in outcomes])

        def mean_loss(
            weights: Tensor, kept: Tensor = kept, p: Tensor = chances, a: float = xx, b: float = yx
        ) -> Tensor:
            slopes = weights.square() @ (kept / (p @ kept)).mT
            return (4 - 2 * b * slopes + a * slopes.square()) @ p

        minima = drawn.points["global minimum"]
        reached, kinds = _still_points(mean_loss)
        listed = sorted((*point, kind) for kind, points in drawn.points.items() for point in points)
        found.append(compare(len(listed), "==", len(reached), f"critical points, {name}"))
        for (*point, told), place, kind in zip(listed, reached, kinds, strict=False):
            found.append(compare(shift * tensor(point), "==", place, f"a {kind}, {name}"))
            found.append(same(told, kind, f"told {told} of a {kind}, {name}"))
        least, _ = descend(mean_loss, [(2,)], starts=1)
        found.append(compare(mean_loss(shift * tensor(minima)), "==", least, f"least value, {name}"))
        found.append(compare(len({*minima}), "==", count, f"minima, {name}"))
        axis = drawn.axis
        grid = torch.stack([axis.expand(5, 5), axis[:, None].expand(5, 5)], -1)
        found.append(compare(drawn.values, "==", mean_loss(grid), f"values of the grid, {name}"))
    return found


def _still_points(value: Callable[[Tensor], Tensor]) -> tuple[list[Tensor], list[str]]:
    """Where Newton's steps from a grid and its axes rest, in order, and the kinds that values and curvatures tell."""
    axis = torch.linspace(-1.9, 1.9, 11, dtype=torch.float64)
    places = torch.cartesian_prod(axis, axis)

    def bent(places: Tensor) -> tuple[Tensor, Tensor]:
        places = places.detach().requires_grad_()
        (slopes,) = torch.autograd.grad(value(places).sum(), places, create_graph=True)
        rows = [torch.autograd.grad(slopes[:, i].sum(), places, retain_graph=True)[0] for i in (0, 1)]
        return slopes.detach(), torch.stack(rows, 1)

    for _ in range(12):
        slopes, curvatures = bent(places)
        # beside a unit that is always kept the other is zero and bends by its fourth power: nothing to divide by
        steps = torch.linalg.pinv(curvatures, rtol=1e-9, hermitian=True) @ slopes[..., None]
        places = places - steps[..., 0]
    still = places[bent(places)[0].norm(dim=1) < 1e-12]
    found = torch.unique((still * 1e10).round(), dim=0) / 1e10 + 0.0  # one zero
    low, ends = value(found), torch.linalg.eigvalsh(bent(found)[1])
    kinds = [
        "local maximum" if top < 0 else "strict saddle" if bottom < 0 else "global minimum" if at else "local minimum"
        for (bottom, top), at in zip(ends.tolist(), (low < low.min() + 1e-9).tolist(), strict=True)
    ]
    return list(found), kinds
