"""All statements of the thesis, chapter by chapter."""

from __future__ import annotations

from droptics.evidence.claims import Claim
from droptics.papers.thesis.appendix_claims import CLAIMS as APPENDIX
from droptics.papers.thesis.chapter1_claims import CLAIMS as CHAPTER_1
from droptics.papers.thesis.chapter2_claims import CLAIMS as CHAPTER_2
from droptics.papers.thesis.chapter3_claims import CLAIMS as CHAPTER_3
from droptics.papers.thesis.chapter4_claims import CLAIMS as CHAPTER_4
from droptics.papers.thesis.chapter5_claims import CLAIMS as CHAPTER_5
from droptics.papers.thesis.chapter6_claims import CLAIMS as CHAPTER_6
from droptics.papers.thesis.proof_claims import CLAIMS as PROOFS

CLAIMS: tuple[Claim, ...] = (
    *CHAPTER_1,
    *CHAPTER_2,
    *CHAPTER_3,
    *CHAPTER_4,
    *CHAPTER_5,
    *CHAPTER_6,
    *APPENDIX,
    *PROOFS,
)
