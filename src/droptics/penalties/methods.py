"""Ways to compute a penalty: a short closed list of option objects."""

from __future__ import annotations

from dataclasses import dataclass

from droptics.arguments import Bytes, Count, Probability, Seed, Whole, check_fields, checked_fields


@dataclass(frozen=True)
class ClosedForm:
    """The exact formula; refuses with NoClosedForm where none applies.

    For ReLU networks it is a sum over mask outcomes: `seconds` is the longest estimated time that is accepted, and
    `memory` (bytes) bounds the tables. Other families need neither.
    """

    seconds: float = 120.0
    memory: Bytes = 2**30

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.seconds > 0:
            raise ValueError(f"seconds must be positive, got {self.seconds!r}")


@dataclass(frozen=True)
@checked_fields
class Enumerate:
    """Exact expectation over the list of all masks; refuses beyond `limit` masks."""

    limit: Count = 65_536


@dataclass(frozen=True)
class MonteCarlo:
    """Mean over `samples` random masks with an interval of the given confidence; `seed` fixes the masks."""

    samples: Count = 1_000
    seed: Seed = 0
    confidence: Probability = 0.99

    def __post_init__(self) -> None:
        check_fields(self)
        if self.samples < 4:
            raise ValueError(f"samples must be at least 4 to estimate a variance, got {self.samples}")


@dataclass(frozen=True)
@checked_fields
class SecondOrder:
    """Half the curvature of the loss in the multipliers times their covariance, for any twice differentiable loss.

    An approximation: `check` is the Monte Carlo run that measures its error and gives the interval of the answer;
    None leaves it out, and the answer then claims no coverage.
    """

    check: MonteCarlo | None = MonteCarlo(samples=400)


@dataclass(frozen=True)
class Certified:
    """Proved lower and upper bounds of the cross-entropy penalty, for outputs linear in the mask; nothing is sampled.

    `condition` units that matter most to an example are written out, at up to 2^condition times the cost, which narrows
    the interval; at most 16. The value leaves out errors of integrals, which widen the interval, and so do slopes.
    """

    condition: Whole = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.condition > 16:
            raise ValueError(f"condition must be at most 16, got {self.condition}: its cost doubles with every unit")


Method = ClosedForm | SecondOrder | Enumerate | MonteCarlo | Certified
