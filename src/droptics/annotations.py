"""Annotations as tests: what a hint asks of an argument, in words and as a function."""

from __future__ import annotations

import collections.abc
import math
import numbers
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np
import torch
from torch import Tensor

Test = Callable[[Any], bool]
# what Python or NumPy count as whole numbers: truth values, and durations
_NO_NUMBERS = (bool, np.bool_, np.timedelta64)


@dataclass(frozen=True)
class Check:
    """A kind of argument in words and as a test; of a sequence also that of its elements."""

    text: str
    accepts: Test
    element: Check | None = None
    finite: bool = False  # whether NaN and infinity in a tensor are looked for
    kinds: tuple[type, ...] = ()  # of which every instance is accepted: the quick way


def is_number(value: Any) -> bool:
    """Whether this is one real number: of Python, NumPy, or a tensor without dimensions; NaN is none."""
    if type(value) in (float, int):  # a whole number may be beyond all floats
        return type(value) is int or not math.isnan(value)
    if isinstance(value, (Tensor, np.ndarray)):
        # a tensor on no device has no number
        return value.ndim == 0 and not getattr(value, "is_meta", False) and is_number(value.item())
    if isinstance(value, _NO_NUMBERS) or not isinstance(value, numbers.Real):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:  # a fraction beyond all floats
        return False


def is_whole(value: Any) -> bool:
    """Whether this is an integer of any type, which a truth value is not."""
    if type(value) is int:
        return True
    return isinstance(value, (numbers.Integral, np.integer)) and not isinstance(value, _NO_NUMBERS)


def is_beyond(value: Any) -> bool:
    """Whether this is a whole number that tensors cannot take, though as a float they can."""
    return isinstance(value, int) and abs(value) >= 2**63


def is_dense(value: Any) -> bool:
    """Whether this is a tensor whose numbers are in memory, one by one."""
    return isinstance(value, Tensor) and value.layout == torch.strided and value.device.type != "meta"


def described(hint: Any) -> Check | None:  # noqa: PLR0911 - one line per kind of annotation
    """An annotation in words and as a test; None where anything goes."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in (Any, object):
        return None
    if isinstance(hint, TypeVar):
        return described(hint.__bound__) if hint.__bound__ is not None else None
    if origin is Annotated:
        return Check(str(parts[1]), parts[1], finite=getattr(parts[1], "finite", False))
    if origin is Union or isinstance(hint, types.UnionType):
        return _either(parts)
    if origin is Literal:
        # a truth value is no number, though it equals one
        accepts = lambda value: type(value) is not bool and isinstance(value, str | int) and value in parts  # noqa: E731
        return Check(" or ".join(map(repr, parts)), accepts)
    if origin is type:
        accepts = lambda value: isinstance(value, type) and issubclass(value, parts[0])  # noqa: E731
        return Check(f"a class of {_named(parts[0])}", accepts)
    if np.ndarray in (origin, get_origin(getattr(origin, "__value__", None))):  # NumPy's alias is a type of its own now
        return Check("an array", lambda value: isinstance(value, np.ndarray))
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return container(origin, parts)
    if hint in _PLAIN:
        return _PLAIN[hint]
    kind = origin if origin is not None else hint
    if kind is collections.abc.Callable:
        return Check("a function", callable)
    if not isinstance(kind, type):
        return None
    return Check(_named(kind), lambda value: isinstance(value, kind), kinds=(kind,))


_PLAIN: dict[Any, Check] = {
    float: Check("a number", lambda value: is_number(value) and not is_beyond(value)),
    int: Check("a whole number", is_whole),
    bool: Check("True or False", lambda value: isinstance(value, (bool, np.bool_)), kinds=(bool, np.bool_)),
    str: Check("text", lambda value: isinstance(value, str), kinds=(str,)),
    type(None): Check("None", lambda value: value is None, kinds=(type(None),)),
}


def _either(parts: Sequence[Any]) -> Check | None:
    found = [described(part) for part in parts]
    known = [check for check in found if check is not None]
    if len(known) < len(found):
        return None
    element = next((check.element for check in known if check.element is not None), None)
    text = " or ".join(check.text for check in known)
    finite = any(check.finite for check in known)
    kinds = tuple(kind for check in known for kind in check.kinds)
    return Check(text, lambda value: any(check.accepts(value) for check in known), element, finite, kinds)


def container(origin: Any, parts: tuple[Any, ...]) -> Check:
    """Sequences of checked elements: an array or tensor is one of its rows, text of nothing; a set is none."""
    if issubclass(origin, Mapping):
        return Check("a mapping", lambda value: isinstance(value, Mapping))
    fixed = issubclass(origin, tuple) and bool(parts) and Ellipsis not in parts
    inner = [described(part) for part in parts if part is not Ellipsis]
    tests: list[Test] = [(lambda _: True) if check is None else check.accepts for check in inner]
    listed = issubclass(origin, Collection)
    unordered = Set if issubclass(origin, Sequence) else ()

    def accepts(value: Any) -> bool:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            return False
        if isinstance(value, unordered) or (isinstance(value, (Tensor, np.ndarray)) and value.ndim == 0):
            return False
        if not listed:  # an iterator is read once, by the function
            return True
        if not isinstance(value, (Collection, Tensor)):
            return False
        if fixed:
            return len(value) == len(parts) and all(test(part) for test, part in zip(tests, value, strict=True))
        return not tests or all(tests[0](part) for part in value)

    words = ["anything" if check is None else check.text for check in inner]
    if fixed:
        return Check(f"{len(parts)} values ({', '.join(words)})", accepts)
    return Check(f"a sequence, each {words[0]}" if words else "a sequence", accepts, inner[0] if inner else None)


def _named(kind: Any) -> str:
    name = getattr(kind, "__name__", str(kind))
    home = getattr(kind, "__module__", "")
    place = "droptics " if home.startswith("droptics") else "nn." if home.startswith("torch.nn.modules") else ""
    article = "an" if (place or name)[0].lower() in "aeiou" or place == "nn." else "a"
    return f"{article} {place}{name}"
