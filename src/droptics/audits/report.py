"""Report: what an audit found, as data; it is shown from its dictionary, which its JSON holds and which restores it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from droptics.audits.discovery import AuditedSite
from droptics.audits.findings import Finding
from droptics.audits.html import page
from droptics.audits.restoring import restored
from droptics.audits.summary import terminal_text
from droptics.audits.uncertainty import Uncertainty
from droptics.estimates import PlainEstimate
from droptics.files import write_text
from droptics.optima import Certificate

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class CurvePoint:
    """Penalty at one rate, without retraining, and the training loss it predicts."""

    rate: float
    penalty: PlainEstimate
    training_loss: float


@dataclass(frozen=True)
class Units:
    """The units of a site: features, or channels of feature maps."""

    count: int  # how many there are
    dead: Sequence[int]  # indices of units that are zero on all data
    flows: Sequence[float]  # |u_k| sqrt(E a_k^2), what each carries into the linear layer behind; empty for another one
    coadaptation: float  # evenness of the flows, 1/sqrt(count) (one unit does everything) to 1 (all carry the same)
    imbalance: float  # penalty / (least penalty of equally strong units) - 1, zero when all units pay the same


@dataclass(frozen=True)
class Spectrum:
    """Singular values of the map that the head computes on this data, beside those of the dropout optimum."""

    measured: Sequence[float]
    optimal: Sequence[float]
    effective_rank: float
    optimal_effective_rank: float


@dataclass(frozen=True)
class RateChoice:
    """Exact leave-one-out error of the refitted head at each rate, features fixed, and the best of them."""

    best: float  # rate of least error
    rates: Sequence[float]  # all rates, the site's own among them
    errors: Sequence[float]  # mean squared error of each
    gain: PlainEstimate | None = None  # of the best rate over the site's own, with an interval over the examples


@dataclass(frozen=True)
class SubnetworkSummary:
    """Accuracy with random units removed, and the fewest units that keep it; `chance` is the most frequent class."""

    full: float
    mean: float
    low: float
    high: float
    smallest: int | None
    tolerance: float
    chance: float = 0.0


@dataclass(frozen=True)
class SiteReport:
    """Everything about one site; None where it cannot be said (`site.reason` says why)."""

    site: AuditedSite
    penalty: PlainEstimate | None = None
    share: float | None = None
    second_order: float | None = None
    curve: Sequence[CurvePoint] = ()
    units: Units | None = None
    spectrum: Spectrum | None = None
    certificate: Certificate | None = None
    rate_choice: RateChoice | None = None
    subnetworks: SubnetworkSummary | None = None
    claim: str | None = None


@dataclass(frozen=True)
class Report:
    """What dropout does to a network on some data.

    training_loss = clean_loss + sum of the sites' penalties + rest + interaction, up to the printed intervals.
    """

    judged: ClassVar = ""  # a loss that is not finite is a finding
    network: str  #: Name of the module's class.
    examples: int  #: How many examples were seen.
    loss: str  #: Name of the loss.
    clean_loss: float  #: Loss without any dropout.
    training_loss: PlainEstimate  #: Expected loss with all dropout on.
    rest: PlainEstimate | None  #: What remains with all switches off (masks written by hand, other train-only parts).
    interaction: PlainEstimate | None  #: What the sites do together beyond their sum.
    validation_loss: float | None  #: Clean loss on the validation data, if given.
    accuracy: float | None  #: Share of right predictions without dropout, for classification.
    confidence: float  #: Coverage of the intervals.
    sites: Sequence[SiteReport]  #: One report per site.
    findings: Sequence[Finding]  #: Bugs first, then warnings, then notes.
    uncertainty: Uncertainty | None = None  #: Spread of the predictions under the module's own dropout, if asked for.
    #: Passes over the data that were spent; parts of one by the weights used, a backward pass by masks alone as one.
    passes: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers; infinities and NaN become None."""
        return {"schema": SCHEMA_VERSION, **{name: _plain(value) for name, value in asdict(self).items()}}

    def to_json(self) -> str:
        """The report as JSON; `docs/audit.md` documents the schema."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Report:
        """The report of a dictionary of `to_dict`; None stands for NaN where a number is needed."""
        if content.get("schema") != SCHEMA_VERSION:
            raise ValueError(f"content must be a report of schema {SCHEMA_VERSION}, got {content.get('schema')!r}")
        return restored(cls, content)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """The report of a text of `to_json`."""
        return cls.from_dict(json.loads(text))

    def to_html(self, path: str | Path) -> Path:
        """Write one self-contained HTML page (replacing an older one atomically) and return its path."""
        write_text(Path(path), page(self.to_dict()))
        return Path(path)

    def text(self, width: int = 110) -> str:
        """The summary for a terminal of this many letters a line."""
        return terminal_text(self.to_dict(), width)

    def __str__(self) -> str:
        return self.text()


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
