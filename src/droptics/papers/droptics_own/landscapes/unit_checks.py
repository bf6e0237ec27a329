"""What a claim on units compares: what a point is does not depend on those of inputs and targets."""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.data import Moments
from droptics.evidence.claims import Comparison
from droptics.landscapes import inspect
from droptics.linalg import psd_root
from droptics.masks import Bernoulli
from droptics.models import TwoLayerLinear
from droptics.optima import optimum
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import moments, normal, tensor


def own_units(scale: float) -> list[Comparison]:
    """What a point is, as slopes and curvatures over all masks tell, does not depend on units of inputs and targets."""
    population, drop, width = moments(1, 2, 3), 0.4, 2
    law = Bernoulli(drop, width)
    best = optimum(TwoLayerLinear, population, law).model
    assert isinstance(best, TwoLayerLinear)
    kept, chances = every_coin([drop] * width)

    def value(flat: Tensor) -> Tensor:
        maps = (flat[:4].reshape(2, 2) * (kept / (1 - drop))[:, None]) @ flat[4:].reshape(3, 2).mT
        return chances @ ((maps @ population.xx - 2 * population.yx) * maps).sum((1, 2)) + population.yy.trace()

    root = psd_root(population.xx)
    left, values, right = torch.linalg.svd(population.yx @ torch.linalg.inv(root), full_matrices=False)
    size = (values[1] / (1 + drop / (1 - drop))).sqrt() * tensor([1.0, 0.0])
    alone = TwoLayerLinear(torch.outer(left[:, 1], size), torch.outer(torch.linalg.solve(root, right[1]), size))
    points = {
        "optimum": (best, "global minimum"),
        "origin": (TwoLayerLinear(0 * best.U, 0 * best.V), "strict saddle"),
        "second direction": (alone, "strict saddle"),
        "one unit": (TwoLayerLinear(best.U * tensor([1.0, 0.0]), best.V * tensor([1.0, 0.0])), "not critical"),
        "anywhere": (TwoLayerLinear(normal(3, 2, 2), normal(4, 3, 2)), "not critical"),
        "near the optimum": (TwoLayerLinear(1.001 * best.U, best.V), "not critical"),
    }
    found = []
    for name, (model, kind) in points.items():
        flat = torch.cat([part.detach().flatten() for part in model.tensors]).requires_grad_()
        (slope,) = torch.autograd.grad(value(flat), flat)
        curvatures = torch.linalg.eigvalsh(torch.autograd.functional.hessian(value, flat.detach()))
        level = 1e-6 * float(curvatures.abs().max())
        still, bent = float(slope.norm()) <= 1e-6, bool(curvatures[0] < -level)
        seen = "not critical" if not still else "strict saddle" if bent else "global minimum"
        found.append(same(seen, kind, f"{name} by all masks: {seen}"))
        told = inspect(model, population, law)
        found.append(same(told.kind, kind, f"{name}: {told.kind}"))
        if still:
            inertia = [int((curvatures < -level).sum()), 0, int((curvatures > level).sum())]
            inertia[1] = len(curvatures) - sum(inertia)
            found.append(same(list(told.inertia), inertia, f"inertia, {name}: {told.inertia}"))
        for sizes, unit in ((tensor([1.0, 2.0**-9, 2.0**6]), 2.0**7), (tensor([2.0**-12] * 3), 2.0**-9)):
            moved = Moments(
                population.xx * sizes[:, None] * sizes, unit * population.yx * sizes, unit**2 * population.yy
            )
            other = TwoLayerLinear(scale * unit * model.U, model.V / sizes[:, None])
            seen = inspect(other, moved, law).kind
            found.append(same(seen, kind, f"{name} in other units, {unit:g}: {seen}"))
    return found
