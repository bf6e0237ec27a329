"""Results of our own, as claims, room by room; each note says how far the statement is proved."""

from __future__ import annotations

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.across.claims import CLAIMS as ACROSS
from droptics.papers.droptics_own.attacks.claims import CLAIMS as ATTACKS
from droptics.papers.droptics_own.audits.claims import CLAIMS as AUDITS
from droptics.papers.droptics_own.bounds.claims import CLAIMS as BOUNDS
from droptics.papers.droptics_own.datasets.claims import CLAIMS as DATASETS
from droptics.papers.droptics_own.evidence.claims import CLAIMS as EVIDENCE
from droptics.papers.droptics_own.files.claims import CLAIMS as FILES
from droptics.papers.droptics_own.ground.claims import CLAIMS as GROUND
from droptics.papers.droptics_own.landscapes.claims import CLAIMS as LANDSCAPES
from droptics.papers.droptics_own.layers.claims import CLAIMS as LAYERS
from droptics.papers.droptics_own.linalg.claims import CLAIMS as LINALG
from droptics.papers.droptics_own.optima.claims import CLAIMS as OPTIMA
from droptics.papers.droptics_own.penalties.claims import CLAIMS as PENALTIES
from droptics.papers.droptics_own.predictions.claims import CLAIMS as PREDICTIONS
from droptics.papers.droptics_own.rates.claims import CLAIMS as RATES
from droptics.papers.droptics_own.recommenders.claims import CLAIMS as RECOMMENDERS
from droptics.papers.droptics_own.training.claims import CLAIMS as TRAINING

CLAIMS: tuple[Claim, ...] = (
    *ACROSS,
    *ATTACKS,
    *AUDITS,
    *BOUNDS,
    *DATASETS,
    *EVIDENCE,
    *FILES,
    *GROUND,
    *LANDSCAPES,
    *LAYERS,
    *LINALG,
    *OPTIMA,
    *PENALTIES,
    *PREDICTIONS,
    *RATES,
    *RECOMMENDERS,
    *TRAINING,
)
