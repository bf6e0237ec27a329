"""Findings: what the owner of a network should know, each of a kind with a stable code, found by a rule.

A kind of finding is one function. It takes the evidence that it asks for and yields remarks; the decorator gives it
its code, level, title and texts. The docs page of all codes is made from the same registry:

    >>> from droptics.audits import Report
    >>> from droptics.audits.findings import KINDS, Remark, finding
    >>> @finding("X000", "note", "rate above one half", asks=Report, evidence="the rate itself", mend="ask why")
    ... def high_rate(report):
    ...     '''More units fall than stay.'''
    ...     for item in report.sites:
    ...         if item.site.rate > 0.5:
    ...             yield Remark(item.site.name, f"drops at rate {item.site.rate:g}")
    >>> KINDS.pop("X000").title
    'rate above one half'
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

LEVELS = ("bug", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """Something the owner of the network should know.

    Attributes:
        level: "bug" (almost certainly not intended), "warning" or "note".
        site: Name of the place.
        text: What was seen.
        advice: What to try.
        code: Stable name of its kind; the docs list every code with its meaning, evidence and mend.
    """

    level: str
    site: str
    text: str
    advice: str
    code: str = ""


@dataclass(frozen=True)
class Remark:
    """What a rule yields: the place, what was seen there, and what to try if the kind's own mend does not fit."""

    site: str
    text: str
    advice: str | None = None


@dataclass(frozen=True)
class Kind:
    """A kind of finding.

    Attributes:
        code: Stable; never used again for something else.
        level: "bug", "warning" or "note".
        title: A few words.
        meaning: Why it matters, the docstring of the rule.
        evidence: What must have been seen for it to be said.
        mend: What to do about it.
        asks: Type of the evidence that the rule takes.
        rule: The function that finds it.
    """

    code: str
    level: str
    title: str
    meaning: str
    evidence: str
    mend: str
    asks: type
    rule: Callable[[Any], Iterable[Remark]]


KINDS: dict[str, Kind] = {}
Rule = TypeVar("Rule", bound=Callable[[Any], Iterable[Remark]])


def finding(code: str, level: str, title: str, *, asks: type, evidence: str, mend: str) -> Callable[[Rule], Rule]:
    """Register a rule under a code; every later audit applies it.

    Args:
        code: Stable code, not yet taken.
        level: "bug", "warning" or "note".
        title: The kind in a few words.
        asks: What the rule takes: `Passes` (the module under watch on the first batch) or `Report` (all numbers).
        evidence: What the rule must have seen, for the page of codes.
        mend: What to do; the advice of remarks that bring none of their own.
    """
    if level not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS}, got {level!r}")

    def register(rule: Rule) -> Rule:
        known = KINDS.get(code)
        # the same function again is a notebook cell run twice
        if known is not None and (known.rule.__module__, known.rule.__name__) != (rule.__module__, rule.__name__):
            raise ValueError(f"code {code!r} is taken by {known.title!r}; choose another")
        KINDS[code] = Kind(code, level, title, inspect.getdoc(rule) or "", evidence, mend, asks, rule)
        return rule

    return register


def remarks(evidence: object) -> list[Finding]:
    """What all rules that ask for this type of evidence say, in the order of their codes."""
    return [
        Finding(kind.level, remark.site, remark.text, remark.advice or kind.mend, kind.code)
        for kind in sorted(KINDS.values(), key=lambda kind: kind.code)
        if kind.asks is type(evidence)
        for remark in kind.rule(evidence)
    ]
