"""Names of sites for people: which part repeats by layer, and many names in one line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_SEPARATORS = re.compile(r"([.@])")


@dataclass(frozen=True)
class Label:
    """One name, read among others: the place that repeats ("layer.*.attention.dropout") and where this one is ("3")."""

    place: str
    index: tuple[int, ...]


def labels(names: Sequence[str]) -> dict[str, Label]:
    """Numbers that vary among names of the same form are indices; all others belong to the place.

    >>> labels(["layer.0.mlp.2", "layer.1.mlp.2", "head"])["layer.1.mlp.2"]
    Label(place='layer.*.mlp.2', index=(1,))
    """
    forms: dict[tuple[str, ...], list[list[str]]] = {}
    for name in names:
        forms.setdefault(_form(name), []).append(_SEPARATORS.split(name))
    indices = {form: _indices(alike) for form, alike in forms.items()}
    found = {}
    for name in names:
        parts, varying = _SEPARATORS.split(name), indices[_form(name)]
        place = "".join("*" if i in varying else part for i, part in enumerate(parts))
        found[name] = Label(place, tuple(int(parts[i]) for i in varying))
    return found


def _indices(alike: Sequence[Sequence[str]]) -> list[int]:
    """Positions of the numbers that vary; in a full grid the last one, if it has fewer values, names the place."""
    values = [{parts[i] for parts in alike} for i in range(len(alike[0]))]
    varying = [i for i, part in enumerate(alike[0]) if part.isdigit() and len(values[i]) > 1]
    grid = len(alike) == math.prod(len(values[i]) for i in varying)
    while grid and len(varying) > 1 and len(values[varying[-1]]) < len(values[varying[0]]):
        varying.pop()
    return varying


def _form(name: str) -> tuple[str, ...]:
    return tuple("0" if part.isdigit() else part for part in _SEPARATORS.split(name))


def index_text(index: Iterable[int]) -> str:
    """An index as it stands in a name."""
    return ".".join(str(number) for number in index)


def compact(names: Iterable[str]) -> list[str]:
    """Names of the same place in one line, in the order in which the places appear.

    >>> compact([f"layer.{i}.dropout" for i in (0, 1, 2, 5)] + ["head"])
    ['layer.{0-2,5}.dropout', 'head']
    """
    names = list(dict.fromkeys(names))
    found: dict[str, list[tuple[int, ...]]] = {}
    for label in labels(names).values():
        found.setdefault(label.place, []).append(label.index)
    lines = []
    for place, indices in found.items():
        if indices == [()]:
            lines.append(place)
        elif place == "*":
            lines.append(", ".join(index_text(index) for index in indices))
        elif all(len(index) == 1 for index in indices):
            lines.append(place.replace("*", "{" + _ranges(sorted(index[0] for index in indices)) + "}"))
        else:
            lines += [_filled(place, index) for index in indices]
    return lines


def _filled(place: str, index: Sequence[int]) -> str:
    for number in index:
        place = place.replace("*", str(number), 1)
    return place


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def broken(name: str, width: int) -> list[str]:
    """A name in lines of at most `width` letters, broken behind separators only: a longer word stays whole.

    >>> broken("encoder.layer.0.attention", 14)
    ['encoder.layer.', '0.attention']
    """
    pieces = [piece for piece in re.split(r"(?<=[.@,/])", name) if piece]
    lines = [""]
    for piece in pieces:
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return lines
