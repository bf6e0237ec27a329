"""What a sum over mask outcomes takes for constants: the laws of the masks that it goes through."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from droptics.losses import Loss, Squared
from droptics.masks import MaskLaw
from droptics.transforms import tensors_of, without_slopes


def summed_over(value: Tensor, laws: Sequence[MaskLaw], loss: Loss) -> Tensor:
    """The value, whose derivative in laws that were summed over is refused; squared loss has the last one integrated.

    Where one rate is that of every layer, a derivative would lack the part of the earlier ones.
    """
    reason = "the exact sum over masks has no derivative in the laws that it sums over; use Enumerate()"
    listed = laws[:-1] if isinstance(loss, Squared) else laws
    return without_slopes(value, reason, *(tensor for law in listed for tensor in tensors_of(law)))
