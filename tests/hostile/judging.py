"""What a call with a hostile value did, in one word."""

from __future__ import annotations

import re
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from droptics.errors import CertificateError, NoClosedForm, NoFiniteSupport
from droptics.training import Diverged
from hostile.calls import Hostile, call, hints_of, hostile, parameters, scaled, unsound, valid_arguments

OURS = (NoClosedForm, NoFiniteSupport, CertificateError, Diverged)
SECONDS = 10
ALARM = getattr(signal, "SIGALRM", None)


class Verdict(NamedTuple):
    """One call: clear, fine, unclear, accepted, nan, inf or slow; and what was said."""

    name: str
    parameter: str
    label: str
    word: str
    said: str

    def __str__(self) -> str:
        return f"{self.name}({self.parameter}={self.label}): {self.word} {self.said}"


def attempts(name: str, function: Callable[..., Any]) -> Iterator[tuple[str, Hostile]]:
    """Every parameter with every hostile value."""
    base, hints = valid_arguments(name, function), hints_of(function)
    for key, parameter in parameters(function).items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        valid = base.get(key, parameter.default)
        for value in hostile(name, key, hints.get(key, Any), valid):
            usual = value.value is parameter.default  # all claims, the whole ensemble: nothing hostile, and minutes
            if value.invalid or not usual:
                yield key, value


def judged(name: str, function: Callable[..., Any], key: str, value: Hostile) -> Verdict:
    """The valid call with one argument replaced."""
    arguments = valid_arguments(name, function)
    if "torch.float32" in value.label:
        arguments = {other: scaled(given, 1.0, torch.float32) for other, given in arguments.items()}
    arguments[key] = value.value
    took, random_state = 0.0, torch.get_rng_state()
    for _ in range(2):  # the first call may have to compile its loops
        begin = time.monotonic()
        try:
            word, said = _word(function, arguments, key, value)
        finally:
            torch.set_rng_state(random_state)
        took = time.monotonic() - begin
        if took <= SECONDS:
            return Verdict(name, key, value.label, word, said)
    return Verdict(name, key, value.label, "slow", f"{took:.0f} s")


def _word(function: Callable[..., Any], arguments: dict[str, Any], key: str, value: Hostile) -> tuple[str, str]:
    try:
        # far beyond what compiling takes: an interrupt inside LLVM may crash
        with warnings.catch_warnings(), deadline(30 * SECONDS):
            warnings.simplefilter("ignore")
            result = call(function, arguments)
            if hasattr(result, "__next__"):
                next(result, None)
    except OURS as problem:
        return "clear", str(problem)
    except (ValueError, TypeError, OverflowError, OSError, ImportError) as problem:
        # two arguments that do not fit each other: either may be named
        named = any(re.search(rf"\b{re.escape(name)}\b", str(problem)) for name in (key, *parameters(function)))
        return ("clear" if named else "unclear"), f"{type(problem).__name__}: {problem}"[:300]
    except Exception as problem:  # whatever else comes is what is being looked for
        return "unclear", f"{type(problem).__name__}: {problem}"[:300]
    if value.invalid:
        return "accepted", ""
    found = unsound(result) if value.finite else ""
    if found and "nan" in (function.__doc__ or ""):
        return "fine", "its documentation says when it is not a number"
    return (found or "fine"), ""


class deadline:
    """TimeoutError after so many seconds, in the main thread; no end where the system has no alarm."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        def stop(*_: object) -> None:
            raise TimeoutError(f"over {self.seconds} s")

        if ALARM:
            self.before = signal.signal(ALARM, stop)
            signal.alarm(self.seconds)

    def __exit__(self, *_: object) -> None:
        if ALARM:
            signal.alarm(0)
            signal.signal(ALARM, self.before)
