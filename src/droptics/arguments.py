"""What arguments may be, said once in the signature, where `answers.checked`, `check_arguments` and the tests read it.

A parameter annotated `examples: Count` or `confidence: Probability` is an `int` or a `float` for a type checker; the
rest of the annotation is the range that is checked where the argument enters. Plain annotations are checked too: a
`float` is a number and not NaN, a `Literal` one of its values, a class an instance of it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache, wraps
from inspect import Parameter, signature
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, get_type_hints

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from droptics.annotations import Check, container, described, is_beyond, is_dense, is_number, is_whole
from droptics.checks import check_finite

T = TypeVar("T")
P = ParamSpec("P")
# what NumPy raises on lists of unequal lengths, on numbers that it does not know, and on tensors with a gradient
_NO_ARRAY = (ValueError, TypeError, RuntimeError)


@dataclass(frozen=True)
class Range:
    """A number between two ends, which belong to it unless `open` names them; `whole` for integers of any type."""

    low: float = -math.inf
    high: float = math.inf
    open: Literal["", "low", "high", "both"] = ""
    whole: bool = False
    text: str = ""
    infinite: bool = False
    least: float = 0.0  # what is not 0 is at least so large

    def __call__(self, value: Any) -> bool:
        """Whether the value lies in it."""
        if not (is_whole(value) if self.whole else is_number(value)):
            return False
        try:
            number = int(value) if self.whole else float(value)
        except OverflowError:  # a whole number beyond all floats
            return False
        if not (self.whole or self.infinite or math.isfinite(number)):
            return False
        if (not self.whole and is_beyond(value)) or 0 < abs(number) < self.least:
            return False
        above = number > self.low if self.open in ("low", "both") else number >= self.low
        return above and (number < self.high if self.open in ("high", "both") else number <= self.high)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Named:
    """A number in a range, or one of a few words that stand for one."""

    words: tuple[str, ...]
    numbers: Range

    def __call__(self, value: Any) -> bool:
        """Whether the value is one of them."""
        return value in self.words if isinstance(value, str) else self.numbers(value)

    def __str__(self) -> str:
        return " or ".join([*map(repr, self.words), str(self.numbers)])


@dataclass(frozen=True)
class Numbers:
    """A finite floating-point tensor in memory, of so many dimensions at least and at most.

    `fine` asks for single or double precision, which decompositions and compiled loops know alone; `full` for at least
    one number; `square` for matrices of as many rows as columns; `real` lets whole numbers and truth values pass, too.
    With `finite=False` the function finds NaN by itself.
    """

    text: str
    least: int = 0
    most: int = 2**31
    square: bool = False
    fine: bool = False
    full: bool = False
    real: bool = False
    finite: bool = True

    def __call__(self, value: Any) -> bool:
        """Whether the value is one; finiteness is said by `check_finite`."""
        if not is_dense(value) or not (value.is_floating_point() or (self.real and not value.is_complex())):
            return False
        if self.fine and value.dtype not in (torch.float32, torch.float64):
            return False
        if value.is_floating_point() and value.element_size() == 1:  # eight bits, of which torch computes nothing
            return False
        if not self.least <= value.ndim <= self.most or (self.full and value.numel() == 0):
            return False
        return not self.square or value.shape[-1] == value.shape[-2]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Labels:
    """Class numbers, or signs +1 and -1: a vector of whole or floating-point numbers in memory."""

    def __call__(self, value: Any) -> bool:
        """Whether the value is one; which classes there are is known to the function alone."""
        return is_dense(value) and not value.is_complex() and value.dtype != torch.bool and value.ndim in (1, 2)

    def __str__(self) -> str:
        return "a tensor of class numbers or signs, one per example"


@dataclass(frozen=True)
class Column:
    """One entry per row, an array or list: `ids` of whole numbers or text, else finite numbers."""

    ids: bool = False

    def __call__(self, value: Any) -> bool:
        """Whether the value is one."""
        if not isinstance(value, (np.ndarray, list, tuple)):
            return False
        try:
            column = np.asarray(value)
        except _NO_ARRAY:
            return False
        if self.ids:
            return column.ndim == 1 and (column.dtype.kind in "iufUSO")
        return column.ndim == 1 and column.dtype.kind in "iuf" and bool(np.isfinite(column).all())

    def __str__(self) -> str:
        return "an array of ids, one per rating" if self.ids else "an array of finite numbers, one per rating"


@dataclass(frozen=True)
class RateList:
    """One probability of dropping or several, in a list or array."""

    def __call__(self, value: Any) -> bool:
        """Whether the value is one."""
        if not (is_number(value) or isinstance(value, (list, tuple, np.ndarray, Tensor))):
            return False
        try:
            rates = np.atleast_1d(np.asarray(value))
        except _NO_ARRAY:
            return False
        numbers = rates.ndim == 1 and rates.size > 0 and rates.dtype.kind in "iuf"
        return numbers and bool(((rates >= 0) & (rates < 1)).all())

    def __str__(self) -> str:
        return "a list of numbers in [0, 1)"


@dataclass(frozen=True)
class FloatType:
    """What NumPy reads as single or double precision."""

    def __call__(self, value: Any) -> bool:
        """Whether the value is one."""
        try:
            return value is not None and np.dtype(value) in (np.dtype(np.float32), np.dtype(np.float64))
        except (TypeError, ValueError):
            return False

    def __str__(self) -> str:
        return "'float32' or 'float64'"


@dataclass(frozen=True)
class Outcome:
    """A number that was computed, whatever came out: NaN is one of them."""

    def __call__(self, value: Any) -> bool:
        """Whether the value is one."""
        return is_number(value) or (isinstance(value, (float, np.floating)) and bool(np.isnan(value)))

    def __str__(self) -> str:
        return "a number, which may be NaN"


@dataclass(frozen=True)
class Place:
    """A device that torch has on this machine, or its name."""

    def __call__(self, value: Any) -> bool:
        """Whether numbers can be put there."""
        if not isinstance(value, (str, torch.device)):
            return False
        try:
            return torch.empty(0, device=value).device.type != "meta"
        except (RuntimeError, AssertionError, ImportError):  # unknown, absent, or torch was built without it
            return False

    def __str__(self) -> str:
        return "the name of a device that is here, like 'cpu'"


# Sizes and numbers of steps, far beyond what fits in memory or a lifetime; generators and bytes fill 64 bits.
_MOST = 2**31 - 1
Count = Annotated[int, Range(1, _MOST, whole=True, text="a positive whole number (at most 2^31 - 1)")]
Whole = Annotated[int, Range(0, _MOST, whole=True, text="a whole number of at least 0 (at most 2^31 - 1)")]
# A bound may ask for more examples than anybody has, and is asked again with what it said.
Examples = Annotated[int, Range(1, 2**63 - 1, whole=True, text="a positive whole number (at most 2^63 - 1)")]
Bytes = Annotated[int, Range(1, 2**63 - 1, whole=True, text="a positive whole number of bytes")]
Seed = Annotated[int, Range(0, 2**63 - 1, whole=True, text="a seed, a whole number from 0 to 2^63 - 1")]
Probability = Annotated[float, Range(0, 1, "both", text="a number strictly between 0 and 1")]
DropRate = Annotated[float, Range(0, 1, "high", text="a probability in [0, 1)")]
Share = Annotated[float, Range(0, 1, text="a number in [0, 1]")]
Finite = Annotated[float, Range(text="a finite number")]
NonNegative = Annotated[float, Range(0, text="a finite number >= 0")]
Extended = Annotated[float, Range(0, text="a number >= 0", infinite=True)]
Positive = Annotated[float, Range(0, open="low", text="a finite number > 0")]
# Sizes whose powers and products stay far inside what a double holds.
Size = Annotated[float, Range(1e-18, 1e18, text="a number from 1e-18 to 1e18")]
ErrorRate = Annotated[float, Range(1e-18, 1, "high", text="a number from 1e-18 to 1, less than 1")]
Slope = Annotated[float, Range(1e-18, 1, text="a number from 1e-18 to 1")]
Amount = Annotated[float, Range(0, 1e18, text="a number from 0 to 1e18")]
Strength = Annotated[float, Range(0, 1e36, text="a number from 0 to 1e36")]  # in squared units of somebody's ratings
SizeOrZero = Annotated[float, Range(0, 1e18, text="0 or a number from 1e-18 to 1e18", least=1e-18)]
Power = Annotated[float, Range(1 / 64, 64, text="a number from 1/64 to 64")]
Floats = Annotated[Tensor, Numbers("a dense tensor of floating-point numbers")]
PerRun = Annotated[Tensor, Numbers("a tensor of one floating-point number per run", 0, 1, full=True)]
Vector = Annotated[Tensor, Numbers("a vector of at least one floating-point number", 1, 1, full=True)]
Spectrum = Annotated[Tensor, Numbers("a vector (or several) of floating-point numbers", 1)]
Points = Annotated[Tensor, Numbers("examples, a tensor of floating-point numbers", 1)]
Rows = Annotated[Tensor, Numbers("examples, a tensor of floating-point numbers", 1, full=True)]
Matrix = Annotated[Tensor, Numbers("a matrix (or several) of float32 or float64", 2, fine=True)]
Factor = Annotated[Tensor, Numbers("a matrix (or several) of float32 or float64", 2, fine=True, finite=False)]
Table = Annotated[Tensor, Numbers("a table of numbers or truth values", 2, 2, real=True)]
Flags = Annotated[Tensor, Numbers("numbers or truth values, one per unit", 1, 2, real=True)]
Inputs = Annotated[Tensor, Numbers("inputs, a dense tensor of numbers", 1, real=True)]
Square = Annotated[Tensor, Numbers("a square matrix of float32 or float64", 2, square=True, fine=True, full=True)]
ClassNumbers = Annotated[Tensor, Labels()]
Computed = Annotated[float, Outcome()]
Ids = Annotated[NDArray[Any], Column(ids=True)]
Scores = Annotated[NDArray[Any], Column()]
Rates = Annotated[Any, RateList()]
NumberType = Annotated[Any, FloatType()]
Device = Annotated[str | torch.device, Place()]


def check_arguments(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Refuse arguments that are not what the signature of the function says; the first line calls it with `locals()`.

    >>> def area(width: Count, height: Positive) -> float:
    ...     check_arguments(area, locals())
    ...     return width * height
    >>> area(2, -1.0)
    Traceback (most recent call last):
    ValueError: height must be a finite number > 0, got -1.0
    """
    usual = _defaults(function)
    for name, check in checks_of(function):
        if given[name] is not usual[name]:  # what the signature itself says needs no look
            refuse(name, given[name], check)


def renamed(**keywords: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let old keywords of a function answer for the new ones, `renamed(old="new")`, with a DeprecationWarning."""

    def wrap(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*given: P.args, **named: P.kwargs) -> T:
            for old, new in keywords.items():
                if old in named and new in named:
                    raise TypeError(f"{function.__qualname__}() got {new} twice: {old} is its old name")
                if old in named:
                    text = f"{old} is called {new} now; write {new}={_shown(named[old], 'number')}"
                    warnings.warn(text, DeprecationWarning, stacklevel=2)
                    named[new] = named.pop(old)
            return function(*given, **named)

        return call

    return wrap


def check_fields(value: Any, *names: str) -> None:
    """The same for the fields of a dataclass, at the beginning of its `__post_init__`; of all, or of those named."""
    for name, check in checks_of(type(value)):  # type: ignore[arg-type]
        if not names or name in names:
            refuse(name, getattr(value, name), check)


def checked_fields(kind: type[T]) -> type[T]:
    """The same below `@dataclass`, where nothing else is to be done when a value is made."""
    kind.__post_init__ = check_fields  # type: ignore[attr-defined]
    return kind


def check_parameters(estimator: Any) -> None:
    """The same for the parameters of an estimator, which scikit-learn's rule has it look at when it is fitted."""
    for name, check in checks_of(type(estimator).__init__):
        value = getattr(estimator, name)
        if isinstance(value, Tensor) and value.ndim == 0:  # NumPy cannot take it
            raise ValueError(f"{name} must be {check.text}, got a Tensor; pass its .item()")
        refuse(name, value, check)


def refuse(name: str, value: Any, check: Check) -> None:
    """One error for an argument that is not what was asked for: its name, what that is, what came, what to do."""
    if isinstance(value, check.kinds):
        return
    if not check.accepts(value):
        if check.element is not None and isinstance(value, (list, tuple)):
            for place, part in enumerate(value):
                refuse(f"{name}[{place}]", part, check.element)
        wrap = "; wrap a torch module with LastLayer.of(module)" if "droptics Model" in check.text else ""
        advice = wrap if isinstance(value, torch.nn.Module) else "; write it as a float" if is_beyond(value) else ""
        raise ValueError(f"{name} must be {check.text}, got {_shown(value, check.text)}{advice}")
    if check.finite and isinstance(value, Tensor):
        check_finite(value, name)


def _shown(value: Any, text: str) -> str:
    """What came: the value where one is asked for, its type where a thing is."""
    if isinstance(value, (Tensor, np.ndarray)):
        return f"{type(value).__name__} of shape {tuple(value.shape)} ({value.dtype})"
    asked = any(word in text for word in ("number", "'", "True", "probability", "seed", "text"))
    plain = isinstance(value, (str, bytes, int, float, complex, np.generic, list, tuple, dict)) or value is None
    if not (asked and plain):
        return type(value).__name__
    return repr(value) if len(repr(value)) < 80 else f"{repr(value)[:76]}..."


@cache
def checks_of(function: Any) -> tuple[tuple[str, Check], ...]:
    """What to check, by parameter; read from the signature once."""
    hints = get_type_hints(function, include_extras=True)
    several: set[str] = set()  # what a star collects
    if isinstance(function, type):
        names = [item.name for item in fields(function) if item.init]
    else:
        known = signature(function).parameters.values()
        names = [item.name for item in known if item.kind is not Parameter.VAR_KEYWORD]
        several = {item.name for item in known if item.kind is Parameter.VAR_POSITIONAL}
    found = [
        (name, container(tuple, (hints[name], ...)) if name in several else described(hints[name]))
        for name in names
        if name in hints
    ]
    return tuple((name, check) for name, check in found if check is not None)


@cache
def _defaults(function: Any) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in signature(function).parameters.items()}
