"""Chapter 2 of the thesis shows the figures of Mianjy, Arora and Vidal 2018 again; the cells are shared."""

from __future__ import annotations

from dataclasses import replace

from droptics.evidence.figures import Figure
from droptics.papers.mianjy2018.figures import FIGURES as EARLIER

FIGURES: tuple[Figure, ...] = tuple(
    replace(figure, id=f"thesis-fig2-{number}", source=f"Mianjy thesis, Figure 2-{number}")
    for number, figure in enumerate(EARLIER, 1)
)
