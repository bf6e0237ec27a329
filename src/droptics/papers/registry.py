"""Paper: the claims and figures of one work under its key."""

from __future__ import annotations

from dataclasses import dataclass

from droptics.evidence.claims import Claim
from droptics.evidence.figures import Figure
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
