"""The places of a module whose rate can be tuned, and how a rate is set there for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import nn

from droptics.audits.batches import Batch, run
from droptics.models.modes import set_training
from droptics.models.watching import watched
from droptics.rates.masking import place_of


@dataclass(frozen=True)
class Place:
    """Where the module drops: the name and kind that the audit gives it, and the rate it is called with at present."""

    name: str
    kind: str
    rate: float


def read_places(module: nn.Module, batch: Batch) -> tuple[list[Place], dict[str, str]]:
    """The places whose rate can be tuned, and the others with the reason; one pass in training mode under watch."""
    set_training(module, True)
    try:
        with torch.no_grad():
            _, trace = watched(module, lambda: run(module, batch), randomness=True)
    except (RuntimeError, TypeError, IndexError, AttributeError) as problem:
        raise ValueError(f"train: the forward pass of {type(module).__name__} fails on it: {problem}") from problem
    finally:
        set_training(module, False)
    found: dict[str, Place] = {}
    for call in trace.calls:
        name = place_of(call.site)
        if name not in found and (call.applied or call.rate == 0):
            found[name] = Place(name, call.kind, call.rate)
    reason = "its masks are written by hand, so that its rate cannot be seen; it stays as it is"
    return list(found.values()), dict.fromkeys(trace.hand_written, reason)


def grouped(places: Sequence[Place], patterns: Sequence[str]) -> dict[str, str]:
    """Group of every place: the first pattern that fits its name, else a group of its own."""
    for pattern in patterns:
        if not any(fnmatchcase(place.name, pattern) for place in places):
            names = ", ".join(place.name for place in places)
            raise ValueError(f"groups: no site fits the pattern {pattern!r}; the sites are {names}")
    return {
        place.name: next((pattern for pattern in patterns if fnmatchcase(place.name, pattern)), place.name)
        for place in places
    }


def chosen(places: Sequence[Place], patterns: Sequence[str] | None) -> list[Place]:
    """The places to be tuned: all, or those that fit one of the patterns."""
    if patterns is None:
        return list(places)
    for pattern in patterns:
        if not any(fnmatchcase(place.name, pattern) for place in places):
            names = ", ".join(place.name for place in places)
            raise ValueError(f"sites: no site fits {pattern!r}; the sites are {names}")
    return [place for place in places if any(fnmatchcase(place.name, pattern) for pattern in patterns)]


def set_rates(module: nn.Module, rates: Mapping[str, float], before: Mapping[str, float]) -> list[str]:
    """Set the rates for good; returns the names of the places where it is not known how.

    Dropout, attention and recurrent layers hold their rate themselves. A functional call gets it from somewhere: from
    the one attribute of its module that is called something with "drop" and holds the rate seen before. Of two calls
    that share it and want different rates, the second is named.
    """
    parts = dict(module.named_modules())
    # all places are found before one is set: a new rate may be the old one of another call
    found = {name: _place(parts, name, before.get(name)) for name in rates}
    unset: list[str] = []
    taken: dict[tuple[nn.Module, str], float] = {}
    for name, place in found.items():
        if place is None or taken.setdefault(place, rates[name]) != rates[name]:
            unset.append(name)
        else:
            setattr(*place, rates[name])
    return unset


def _place(parts: Mapping[str, nn.Module], name: str, before: float | None) -> tuple[nn.Module, str] | None:
    """The module that holds the rate of a site, and the name it has there."""
    if isinstance(parts.get(name), nn.modules.dropout._DropoutNd):
        return parts[name], "p"
    owner = parts.get(name.rpartition(".")[0])
    if isinstance(owner, nn.modules.dropout._DropoutNd):
        return owner, "p"
    if isinstance(owner, (nn.MultiheadAttention, nn.RNNBase)):
        return owner, "dropout"
    numbers = {
        key: value
        for key, value in (vars(owner) if owner is not None else {}).items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    fits = [key for key, value in numbers.items() if value == before and ("drop" in key or key in ("p", "rate"))]
    return (owner, fits[0]) if owner is not None and len(fits) == 1 else None
