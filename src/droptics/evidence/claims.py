"""Claims: printed statements that can be run.

A claim holds a `check` (comparisons that the statement asserts) and a `control`, the same comparisons with one thing
changed, which must come out the other way. So no claim can hold vacuously and none can be refuted by a broken check.
"""

from __future__ import annotations

import difflib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from droptics.annotations import is_dense
from droptics.arguments import Computed, Extended, NonNegative, check_arguments, check_fields, checked_fields
from droptics.evidence.controls import compared, run

Relation = Literal["==", "<=", ">=", "<", ">", "!="]
Recorded = Literal["holds", "holds only if", "false", "slip", "constant", "remark", "vacuous", "not checked"]
Verdict = Recorded | Literal["undecided", "error"]
VERDICTS: tuple[Verdict, ...] = get_args(Recorded)
# what the evidence shows of these is one thing, that the print fails; which of them it is, a reader decides
REFUTED: dict[Verdict, str] = {
    "false": "false also in the most charitable reading",
    "slip": "a slip of print or proof: what is meant holds",
    "constant": "right up to a constant",
    "remark": "a remark about a plot, not true in general",
}
PRECISION = 1e-9


@dataclass(frozen=True)
@checked_fields
class Comparison:
    """Two numbers and how they should relate; decided by one tolerance rule.

    The tolerance is precision * max(scale, |left|, |right|). `==`, `<=` and `>=` may miss by it; `<`, `>` and `!=`
    must be clear by more than it. Exact float64 formulas use the default precision; a comparison with an iterative
    solver, a sample or a printed number of few digits names its own.
    """

    left: Computed
    relation: Relation
    right: Computed
    label: str = ""
    precision: NonNegative = PRECISION
    scale: Extended = 1.0

    @property
    def tolerance(self) -> float:
        """How much counts as nothing."""
        return self.precision * max(self.scale, abs(self.left), abs(self.right))

    @property
    def holds(self) -> bool:
        """Whether the relation is true up to (or beyond, for strict ones) the tolerance; NaN never holds."""
        left, right = self.left, self.right
        if math.isnan(left) or math.isnan(right):
            return False
        # inf - inf is not a number, but equal infinities are equal
        gap = 0.0 if left == right else left - right
        slack = self.tolerance if math.isfinite(gap) and math.isfinite(self.tolerance) else 0.0
        return {
            "==": abs(gap) <= slack,
            "<=": gap <= slack,
            ">=": -gap <= slack,
            "<": gap < -slack,
            ">": gap > slack,
            "!=": abs(gap) > slack,
        }[self.relation]

    def __str__(self) -> str:
        mark = "" if self.holds else "   FAILS"
        name = f"{self.label}: " if self.label else ""
        return f"{name}{self.left:.10g} {self.relation} {self.right:.10g}{mark}"


def compare(
    left: object,
    relation: Relation,
    right: object,
    label: str = "",
    precision: NonNegative = PRECISION,
    scale: NonNegative = 1.0,
) -> Comparison:
    """Compare numbers, tensors or Estimates entry by entry (broadcast); the worst entry is what is kept.

    For tensors the scale is at least their largest entry, so that small entries of large matrices are not asked for
    more digits than the arithmetic has.

    >>> compare(torch.tensor([1.0, 2.0]), "<=", 2.0).holds
    True
    >>> compare(torch.tensor([1.0, 3.0]), "<=", 2.0).left
    3.0
    """
    check_arguments(compare, locals())
    a, b = _numbers(left, "left"), _numbers(right, "right")
    try:
        a, b = (side.reshape(-1) for side in np.broadcast_arrays(a, b))
    except ValueError as problem:
        raise ValueError(f"left and right must be numbers of one shape, got {a.shape} and {b.shape}") from problem
    if a.size == 0:
        raise ValueError(f"left and right must hold numbers to compare, got none in {label or relation!r}")
    sizes = np.abs([a, b]) if a.size > 1 else np.zeros(1)
    largest = max(float(scale), float(sizes.max(initial=0.0, where=np.isfinite(sizes))))
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf and what is beyond float64 are judged below
        gap = np.where(a == b, 0.0, a - b)
    badness = (-1 if relation in (">=", ">", "!=") else 1) * (np.abs(gap) if relation in ("==", "!=") else gap)
    worst = int(np.where(np.isnan(badness), math.inf, badness).argmax())
    return compared(Comparison(float(a[worst]), relation, float(b[worst]), label, float(precision), largest))


def _numbers(value: object, name: str) -> np.ndarray:
    if hasattr(value, "value") and isinstance(value.value, Tensor):  # an Estimate
        value = value.value
    if isinstance(value, Tensor) and is_dense(value) and not value.is_complex():
        return value.detach().to("cpu", torch.float64).resolve_neg().numpy()
    try:
        return np.asarray(value).astype(np.float64, casting="same_kind")  # no text, no complex numbers
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{name} must be a number, a tensor or an Estimate, got {type(value).__name__}") from problem


Check = Callable[[], Sequence[Comparison]]


@dataclass(frozen=True)
class Erratum:
    """A statement that fails as printed, put as fairly as we can.

    Attributes:
        printed: The formula exactly as it stands, in TeX, with every sum, expectation and O(.) of it; words of the
            text only where they decide, a few and in quotation marks.
        reading: The most charitable reading, in our words.
        wrong: Why even that fails; for a slip, where the slip is and that what is meant holds.
        corrected: Id of the claim that states what is right.
        counterexample: The smallest one we know, as a snippet that prints the printed value and then the true one.
        inexact: Why the snippet needs floating point; empty when it decides in exact rational arithmetic.
    """

    printed: str
    reading: str
    wrong: str
    corrected: str
    counterexample: str
    inexact: str = ""


@dataclass(frozen=True)
class Claim:
    """One printed statement, its verdict on record, and what shows it.

    Attributes:
        id: `<key>-<thm|lem|prop|cor|rem|def|alg|eq|asm|sec|...><number>`; `-corrected` marks a repaired statement.
        source: Where it is printed, with the version read.
        statement: The statement in our words.
        verdict: The verdict on record; `verify` says when the computed one differs.
        check: Comparisons that the statement asserts, on random instances without symmetry and on degenerate ones.
        control: The same with one thing changed; must come out the other way, and ends at the first that fails.
        objects: Public objects the claim is about, as dotted names below `droptics`.
        outside: For "holds only if": the statement where its condition is violated; it must fail there.
        vacuity: For "vacuous": the bound says nothing at realistic sizes; these comparisons must hold.
        note: The condition, what was wrong, or why nothing can be checked.
        erratum: For a statement that fails as printed: what is printed, how to read it kindly, what is wrong.
        same_as: Id of the claim in another work that this one repeats; the two have one verdict.
    """

    id: str
    source: str
    statement: str
    verdict: Verdict = "holds"
    check: Check | None = None
    control: Check | None = None
    objects: tuple[str, ...] = ()
    outside: Check | None = None
    vacuity: Check | None = None
    note: str = ""
    erratum: Erratum | None = None
    same_as: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict of {self.id} must be one of {VERDICTS}, got {self.verdict!r}")
        if self.verdict == "not checked":
            if self.check is not None or not self.note:
                raise ValueError(f"{self.id} is not checked: it has no check and says why in its note")
            return
        if self.check is None or self.control is None:
            raise ValueError(f"{self.id} needs a check and a control")
        wants = {"holds only if": self.outside, "vacuous": self.vacuity} | dict.fromkeys(REFUTED, self.erratum)
        if self.verdict in wants and wants[self.verdict] is None:
            raise ValueError(f"{self.id} is recorded as {self.verdict!r} without what shows it")
        if self.erratum is not None and self.verdict not in REFUTED:
            raise ValueError(f"{self.id} has an erratum and is recorded as {self.verdict!r}")

    @property
    def paper(self) -> str:
        """Key of the work it comes from."""
        return self.id.split("-", 1)[0]

    def printed_as(self, id: str, source: str, **changes: Any) -> Claim:
        """The same statement printed elsewhere under another number."""
        return replace(self, id=id, source=source, same_as=self.id, **changes)

    @property
    def corrected(self) -> str | None:
        """Id of the claim that states what is right; None where the print is."""
        return None if self.erratum is None else self.erratum.corrected


@dataclass(frozen=True)
class Result:
    """What running one claim showed."""

    claim: Claim
    verdict: Verdict
    comparisons: tuple[Comparison, ...] = ()
    control: tuple[Comparison, ...] = ()
    seconds: float = 0.0
    error: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the computed verdict is the one on record."""
        return self.verdict == self.claim.verdict

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; numbers that JSON lacks become null."""
        return {name: getattr(self.claim, name) for name in ("id", "paper", "source", "statement")} | {
            "verdict": self.verdict,
            "recorded": self.claim.verdict,
            "agrees": self.agrees,
            "note": self.claim.note,
            "corrected": self.claim.corrected,
            "seconds": round(self.seconds, 4),
            "error": self.error,
            "comparisons": [comparison_dict(item) for item in self.comparisons],
            "control": [comparison_dict(item) for item in self.control],
        }


def comparison_dict(item: Comparison) -> dict[str, Any]:
    """A comparison as plain values for JSON."""
    return {
        "label": item.label,
        "left": item.left if math.isfinite(item.left) else None,
        "relation": item.relation,
        "right": item.right if math.isfinite(item.right) else None,
        "holds": item.holds,
    }


def decide(claim: Claim) -> Result:
    """Run one claim and say which verdict its evidence supports; an exception becomes the verdict "error"."""
    check_arguments(decide, locals())
    if claim.check is None or claim.control is None:
        return Result(claim, "not checked")
    start = time.perf_counter()
    try:
        control = run(claim.control, ending=all_hold(main := run(claim.check)))
        verdict = _verdict(claim, main, control)
    except Exception as error:  # a claim that crashes is a finding, not the end of the run
        text = f"{type(error).__name__}: {error}".strip()
        return Result(claim, "error", seconds=time.perf_counter() - start, error=text)
    return Result(claim, verdict, main, control, time.perf_counter() - start)


def _verdict(claim: Claim, main: Sequence[Comparison], control: Sequence[Comparison]) -> Verdict:
    if not main or not control or all_hold(main) == all_hold(control):
        return "undecided"
    if not all_hold(main):
        return claim.verdict if claim.verdict in REFUTED else "false"
    if claim.vacuity is not None and all_hold(run(claim.vacuity)):
        return "vacuous"
    if claim.outside is not None and not all_hold(run(claim.outside)):
        return "holds only if"
    return "holds"


def all_hold(comparisons: Iterable[Comparison]) -> bool:
    """Whether every comparison holds."""
    return all(item.holds for item in comparisons)


def select(claims: Sequence[Claim], ids: Sequence[str] | None = None, paper: str | None = None) -> list[Claim]:
    """The claims with the given ids (in that order), or of one paper; an unknown name is refused with close ones."""
    chosen = list(claims)
    if paper is not None:
        known = sorted({claim.paper for claim in claims})
        if paper not in known:
            raise ValueError(f"paper must be one of {', '.join(known)}, got {paper!r}")
        chosen = [claim for claim in chosen if claim.paper == paper]
    if ids is None:
        return chosen
    table = {claim.id: claim for claim in chosen}
    for name in ids:
        if name not in table:
            raise ValueError(f"ids: no claim is called {name!r}; {nearest(name, list(table))}")
    return [table[name] for name in ids]


def nearest(name: str, known: Sequence[str]) -> str:
    """A hint: the known names closest to a misspelled one."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    return f"did you mean {' or '.join(close)}?" if close else f"there are {len(known)}, such as {known[0]}"
