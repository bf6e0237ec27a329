"""All figures and tables of the thesis, chapter by chapter."""

from __future__ import annotations

from droptics.evidence.figures import Figure
from droptics.papers.registry import unavailable
from droptics.papers.thesis.chapter2_figures import FIGURES as CHAPTER_2
from droptics.papers.thesis.chapter3_figures import FIGURES as CHAPTER_3
from droptics.papers.thesis.chapter4_figures import FIGURES as CHAPTER_4
from droptics.papers.thesis.chapter5_figures import FIGURES as CHAPTER_5
from droptics.papers.thesis.chapter6_figures import FIGURES as CHAPTER_6
from droptics.papers.thesis.chapter6_table_figures import FIGURES as CHAPTER_6_TABLES

CHAPTER_1 = unavailable(
    "thesis-fig1-1",
    "Mianjy thesis, Figure 1-1",
    "A pig, a perturbation, a wombat",
    "An imperceptible perturbation changes the prediction of an image classifier.",
    "a photograph with a pre-trained ImageNet model, taken from elsewhere; there is nothing to compute",
)
FIGURES: tuple[Figure, ...] = (CHAPTER_1, *CHAPTER_2, *CHAPTER_3, *CHAPTER_4, *CHAPTER_5, *CHAPTER_6, *CHAPTER_6_TABLES)
