"""RidgeCompletion: L2-ALS and ALS-WR, the classical alternatives, on the same kernels."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

from droptics.arguments import Amount, Bytes, Count, Device, Finite, NonNegative, NumberType, Seed, Size, Strength
from droptics.recommenders.alternation import Strengths, Sweep
from droptics.recommenders.completion import Completion
from droptics.recommenders.partitioned import Partitions
from droptics.recommenders.ratings import Observations


class RidgeCompletion(Completion):
    """The classical alternatives on the same kernels: L2-ALS, and ALS-WR, whose ridge is weighted by the counts.

    Minimizes the squared error plus strength (|U|^2 + |V|^2), with `weighted=True` plus
    strength (sum_i n_i |u_i|^2 + sum_j n_j |v_j|^2). The options are those of `DropoutCompletion`.
    """

    def __init__(  # parameters: those of DropoutCompletion
        self,
        width: Count = 30,
        strength: Strength = 0.05,
        weighted: bool = True,
        biases: bool = True,
        *,
        center: bool = True,
        bias_ridge: Amount = 2.0,
        sweeps: Count = 12,
        cg_steps: Count | None = 3,
        tolerance: NonNegative = 1e-5,
        clip: bool | tuple[Finite, Finite] | None = False,
        init_scale: Size = 0.1,
        seed: Seed = 0,
        dtype: NumberType = "float32",
        device: Device | None = None,
        threads: Count | None = None,
        engine: Any = None,
        memory: Bytes = 1 << 32,
        checkpoint: str | PathLike[str] | None = None,
        warm_start: bool = False,
        progress: bool | Callable[[Sweep], None] | None = False,
    ) -> None:
        self._remember(locals())

    def _strengths(self, data: Observations | Partitions) -> Strengths:
        bias = self.bias_ridge if self.biases else None
        if self.weighted:
            return Strengths(self.width, weighted=self.strength, bias=bias)
        return Strengths(self.width, ridge=self.strength, bias=bias)
