"""What leaves is judged by one rule: an answer is finite, or the argument whose numbers are too large is named."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import singledispatch, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor

from droptics.arguments import checks_of, refuse
from droptics.checks import NotFinite, check_finite, is_finite
from droptics.transforms import is_transformed

if TYPE_CHECKING:
    from functools import _SingleDispatchCallable

T = TypeVar("T")
P = ParamSpec("P")

_FAILED = (torch.linalg.LinAlgError, np.linalg.LinAlgError)  # type: ignore[attr-defined]


def checked(function: Callable[P, T], rule: Callable[P, T] | None = None) -> Callable[P, T]:
    """The function with its arguments checked where they enter and its answer where it leaves.

    Numbers that are finite one by one may have squares and products that are not. Whatever comes of them, NaN,
    infinity or a decomposition that fails, is one ValueError that names the argument with the largest numbers. An
    answer on a GPU is looked at, too, unless it has a graph, since a training step should not wait for the device, or
    is being captured: 15 to 20 microseconds on an H200 where the answer is read anyway. `rule` computes in place of
    the function.
    """
    compute, names = function if rule is None else rule, tuple(signature(function).parameters)
    sound: set[tuple[type, ...]] = set()  # types of which every instance is what the signature asks for

    @wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> T:
        if named or (types := tuple(map(type, given))) not in sound:
            arguments = dict(zip(names, given, strict=False)) | named
            checks = {name: check for name, check in checks_of(function) if name in arguments}
            for name, check in checks.items():
                refuse(name, arguments[name], check)
            if not named and all(isinstance(arguments[name], check.kinds) for name, check in checks.items()):
                sound.add(types)
        try:
            answer = compute(*given, **named)
            if _is_sound(answer):
                return answer
            problem = None
        except (NotFinite, OverflowError, *_FAILED) as failed:
            problem = failed
        arguments = dict(zip(names, given, strict=False)) | named
        if problem is not None and getattr(problem, "argument", None) in arguments:
            raise problem
        if (too_large := _too_large(arguments)) is not None:
            raise too_large from problem
        if problem is not None:
            raise problem
        return answer

    return call


def _is_sound(answer: Any) -> bool:
    """Whether all numbers of an answer are finite; of a class with `judged`, those of that field."""
    judged = getattr(answer, "judged", None)
    if judged is not None:
        answer = answer.__dict__.get(judged)
    if isinstance(answer, Tensor):
        on_its_way = answer.is_cuda and (answer.requires_grad or torch.cuda.is_current_stream_capturing())
        return on_its_way or _is_finite(answer)
    if isinstance(answer, (tuple, list)):
        # a float beside a value is its error, infinite where no bound is known
        return all(isinstance(part, float) or _is_sound(part) for part in answer)
    if hasattr(type(answer), "__dataclass_fields__"):
        return all(map(_is_sound, vars(answer).values()))
    return not isinstance(answer, float) or math.isfinite(answer)


def _is_finite(value: Tensor) -> bool:
    try:
        return is_finite(value)
    except RuntimeError:
        if is_transformed():  # torch.func.vmap hides the numbers
            return True
        raise


def _too_large(arguments: Mapping[str, Any]) -> NotFinite | None:
    """An error that names the largest numbers among the arguments; None where they are of ordinary size."""
    tensors = {name: _tensors(value) for name, value in arguments.items()}
    for name, parts in tensors.items():  # a module or a dataclass may hold what was never asked for
        for part in parts:
            check_finite(part, name)
    sizes = {name: max(map(_size, parts)) for name, parts in tensors.items() if parts}
    largest = max(sizes, key=sizes.__getitem__, default=None)
    if largest is None or sizes[largest] < 2**20:
        return None
    dtype = max(tensors[largest], key=_size).dtype
    return NotFinite(
        largest,
        f"holds numbers up to {sizes[largest]:.3g}, too large for this answer: it is made of their products, and "
        f"{dtype} ends at {torch.finfo(dtype).max:.3g}; use other units",
    )


def _size(value: Tensor) -> float:
    return float(value.detach().abs().amax()) if value.numel() else 0.0


def _tensors(value: Any) -> list[Tensor]:
    """The floating-point numbers in an argument."""
    if isinstance(value, torch.nn.Module):
        return _tensors(list(value.parameters()))
    if isinstance(value, (list, tuple)):
        return [part for item in value for part in _tensors(item)]
    if is_dataclass(value):
        return _tensors(list(vars(value).values()))
    return [value] if isinstance(value, Tensor) and value.is_floating_point() else []


def checked_rules(function: Callable[..., T]) -> _SingleDispatchCallable[T]:
    """`functools.singledispatch` under `checked`, so that no rule has to look at its arguments."""
    rules = singledispatch(function)
    chosen = checked(function, rules)
    chosen.register, chosen.dispatch, chosen.registry = rules.register, rules.dispatch, rules.registry  # type: ignore[attr-defined]
    return chosen  # type: ignore[return-value]
