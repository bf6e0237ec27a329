"""Matrix factorization, read at observed entries or through linear measurements."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from droptics.models.model import check_multipliers
from droptics.models.two_layer import Factors


@dataclass(frozen=True, eq=False)
class Factorization(Factors):
    """The matrix U diag(z) V^T with U (rows, width) and V (columns, width).

    `outputs` takes index pairs (n, 2) of whole numbers, or measurement matrices (n, rows, columns), and returns one
    output column: the entries, or the inner products with the measurement matrices.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self.output_size, self.input_size

    def unit_outputs(self, inputs: Tensor) -> Tensor:
        """What each unit contributes to each observation, (..., n, width)."""
        if not inputs.is_floating_point():
            return self.U[..., inputs[:, 0], :] * self.V[..., inputs[:, 1], :]
        return ((inputs @ self.V.unsqueeze(-3)) * self.U.unsqueeze(-3)).sum(-2)

    def outputs(self, inputs: Tensor, multipliers: Tensor | None = None) -> Tensor:
        contributions = self.unit_outputs(inputs)
        if multipliers is not None:
            check_multipliers(multipliers, self.units)
            contributions = contributions * multipliers
        return contributions.sum(-1, keepdim=True)
