"""Paper: the claims and figures of one work under its key, and figures from tables or without cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from droptics.evidence.claims import Claim
from droptics.evidence.figures import SCALES, Cell, Figure, Scale
from droptics.evidence.gallery import Work


@dataclass(frozen=True)
class Paper:
    """One work: key, short name, reference, claims and figures."""

    key: str
    name: str
    citation: str
    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...] = ()

    def __post_init__(self) -> None:
        filed = [(claim.id, claim.paper) for claim in self.claims]
        for name, paper in [*filed, *((figure.id, figure.paper) for figure in self.figures)]:
            if paper != self.key:
                raise ValueError(f"{name} is filed under {self.key}")

    @property
    def work(self) -> Work:
        """What the gallery says about it."""
        return Work(self.key, self.name, self.citation)


def named_cells(table: Mapping[str, Mapping[str, Any]], gpu: bool = False) -> list[Cell]:
    """Cells from a table of parameters by name."""
    return [Cell(name, parameters, gpu) for name, parameters in table.items()]


def unavailable(id: str, source: str, title: str, statement: str, reason: str) -> Figure:
    """A figure that is listed and never run, with the reason."""

    def nothing(*_: Any, **__: Any) -> list[Any]:
        return []

    skip: dict[Scale, str] = dict.fromkeys(SCALES, reason)
    return Figure(id, source, title, statement, nothing, nothing, nothing, lambda rows, path: None, skip=skip)
