"""Checks of what callers pass in: each raises one ValueError that names the argument, what came and what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from droptics.transforms import is_readable


def as_float_tensor(value: object, name: str, ndim: int | Sequence[int] | None = None) -> Tensor:
    """Return `value` as a finite floating-point tensor of the wanted number of dimensions.

    NumPy arrays and nested lists of floats are accepted; integers are refused rather than rounded or promoted, so
    that the precision of a result is always the caller's choice.
    """
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(np.ascontiguousarray(value))
    elif isinstance(value, (list, tuple, float)):
        try:
            value = torch.tensor(value, dtype=torch.float64)
        except (TypeError, ValueError, RuntimeError) as problem:
            raise ValueError(f"{name} must be numbers of one shape, got a list that is not: {problem}") from problem
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} must be a tensor or array, got {type(value).__name__}")
    if value.layout != torch.strided or value.device.type == "meta":
        raise ValueError(f"{name} must be a dense tensor that holds numbers, got {value.layout} on {value.device}")
    if not value.is_floating_point() or value.element_size() == 1:  # of eight bits nothing is computed
        raise ValueError(f"{name} must be floating point, got {value.dtype}; convert it with .double() or .float()")
    allowed = (ndim,) if isinstance(ndim, int) else ndim
    if allowed is not None and value.ndim not in allowed:
        wanted = " or ".join(map(str, allowed))
        raise ValueError(f"{name} must have {wanted} dimensions, got shape {tuple(value.shape)}")
    check_finite(value, name)
    return value


class NotFinite(ValueError):
    """NaN or infinity in the tensor that `argument` names."""

    def __init__(self, argument: str, text: str) -> None:
        super().__init__(f"{argument} {text}")
        self.argument = argument


def is_finite(value: Tensor) -> bool:
    """Whether there is neither NaN nor infinity."""
    # one pass over what is sound; a sum hides neither
    total = value if value.numel() == 1 else (value.detach() if value.requires_grad else value).sum()
    return math.isfinite(total.item()) or bool(torch.isfinite(value.detach()).all())


def check_finite(value: Tensor, name: str) -> None:
    """Refuse NaN and infinity, saying how many there are and where the first one is."""
    if not is_readable(value) or is_finite(value):
        return
    bad = ~torch.isfinite(value.detach())
    first = tuple(bad.nonzero()[0].tolist())
    text = f"must be finite, got {int(bad.sum())} NaN or infinite entries, the first at index {first}"
    raise NotFinite(name, f"{text}; remove or impute them")


def check_squares(value: Tensor, name: str) -> None:
    """Refuse numbers whose squares have no finite sum in their precision: every answer is made of such sums."""
    if not is_readable(value) or value.element_size() < 4:  # half precision is summed in another one
        return
    numbers = value.detach()
    if not math.isfinite(float(torch.linalg.vector_norm(numbers))):
        raise ValueError(
            f"{name} must be so small that {value.dtype} holds the sum of their squares (less than "
            f"{torch.finfo(value.dtype).max:.3g}), got numbers up to {float(numbers.abs().amax()):.3g}; use other units"
        )


def check_size(name: str, got: int, expected: int, why: str) -> None:
    """Refuse a size that does not match, saying why it has to."""
    if got != expected:
        raise ValueError(f"{name} has size {got}, expected {expected}: {why}")


def check_broadcast(name: str, value: Tensor, shape: Sequence[int], what: str) -> None:
    """Refuse a tensor that does not expand to a shape, saying what it should hold."""
    sizes = zip(reversed(value.shape), reversed(shape), strict=False)
    if value.ndim > len(shape) or any(size not in (1, wanted) for size, wanted in sizes):
        raise ValueError(f"{name} must be {what} (shape {tuple(shape)}), got shape {tuple(value.shape)}")


def check_positive(name: str, value: int) -> None:
    """Refuse counts that are not positive whole numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name} must be a positive whole number, got {value!r}")


def check_probability(name: str, value: float) -> None:
    """Refuse confidences outside the open interval (0, 1)."""
    if not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}")


def as_drop(drop: float | Tensor, name: str = "drop") -> Tensor:
    """Return a drop probability (number or tensor) as a float64 tensor with every entry in [0, 1).

    A tensor keeps its graph and device, so results are differentiable with respect to the rate.
    """
    if isinstance(drop, (int, float, np.floating, np.integer)) and not isinstance(drop, bool):
        value, fits = torch.scalar_tensor(float(drop), dtype=torch.float64), 0 <= drop < 1
    else:
        value = as_float_tensor(drop, name).double()
        fits = value.numel() > 0 and (not is_readable(value) or bool(((value >= 0) & (value < 1)).all()))
    if not fits:
        shown = value.tolist() if value.numel() < 5 else f"values in [{float(value.min())}, {float(value.max())}]"
        raise ValueError(
            f"{name} is the probability of dropping and must lie in [0, 1), got {shown}; "
            "a unit that is always dropped has no scaled mask, remove it instead"
        )
    return value


def as_number(drop: float | Tensor) -> float | None:
    """A rate that was given as a number of Python or NumPy; None for tensors and arrays."""
    return float(drop) if isinstance(drop, (int, float, np.floating, np.integer)) else None


def check_same_kind(tensors: dict[str, Tensor]) -> None:
    """Refuse tensors of different dtype or device, naming the two that disagree."""
    (name0, first), *others = tensors.items()
    for name, other in others:
        if other.dtype != first.dtype or other.device != first.device:
            raise ValueError(
                f"{name} is {other.dtype} on {other.device} but {name0} is {first.dtype} on {first.device}; "
                "convert one of them with .to(dtype, device)"
            )
