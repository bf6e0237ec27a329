"""The optima of many small maps under one law, in one call."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from droptics.arguments import Numbers, check_arguments
from droptics.masks import MaskLaw
from droptics.optima.krylov import DENSE, dense_optimum, optimum_of_map, short_optimum
from droptics.optima.optimum import Optimum
from droptics.spectra.kinds import many_factors
from droptics.spectra.roots import numbers

Maps = Annotated[Tensor, Numbers("maps (count, outputs, inputs) of float32 or float64", 3, 3, fine=True, full=True)]


def optimum_of_maps(matrices: Maps, masks: MaskLaw) -> list[Optimum]:
    """The optimal two-layer networks for y = M x on isotropic inputs, E x x^T = I, for every M of several.

    What `optimum_of_map` gives for each of them, certificate included, without its checks and conversions: what is
    asked of all is asked once. A map whose squares have no finite sum is named by its place.
    Cost: that of `optimum_of_map` for each, and nothing else that grows. Claim: mianjy2018-thm3.6, for independent
    units.

    >>> import torch
    >>> from droptics.masks import Bernoulli
    >>> maps = torch.stack([torch.eye(2), 2 * torch.eye(2)]).double()
    >>> [round(best.objective, 6) for best in optimum_of_maps(maps, Bernoulli(drop=0.5, size=2))]
    [1.0, 4.0]
    """
    check_arguments(optimum_of_maps, locals())
    if min(matrices.shape[1:]) > DENSE:
        return [optimum_of_map(matrix, masks) for matrix in matrices]
    found = many_factors(numbers(matrices), masks) if matrices.is_cpu and matrices.element_size() == 8 else []
    return [
        dense_optimum(matrix, masks, f"matrices[{place}]")
        if (short := found[place] if found else None) is None
        else short_optimum(short, torch.from_numpy(short.U), torch.from_numpy(short.H))
        for place, matrix in enumerate(matrices)
    ]
