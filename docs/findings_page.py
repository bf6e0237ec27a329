"""The page of all kinds of findings of an audit, from their registry."""

from __future__ import annotations

from markup import escape

import droptics.audits  # noqa: F401 - registers the findings
from droptics.audits.findings import KINDS

INTRODUCTION = """# Findings of an audit

Every finding has a code that stays: a code is never used again for something else. Bugs are almost certainly not
intended, warnings probably not, notes say what a number means. Findings of one kind are one line with their places on
the terminal and one card on the page; in the JSON report each stands for itself, with its code. What is said rests on
the evidence named below; where the evidence is not there, nothing is said. [The audit](../audit.md) says how it is
gathered, and [how to add a kind of your own](../audit.md#a-finding-of-your-own).
"""
SECTIONS = {
    "DR0": "Outputs, data and the whole network",
    "DR1": "Dropout that does nothing",
    "DR2": "Dropout in evaluation mode",
    "DR3": "The law that is applied",
    "DR4": "What other layers do with it",
    "DR5": "What the numbers say",
}


def findings_page() -> str:
    """One section per family of codes, one entry per kind: level, meaning, evidence, mend."""
    lines = [INTRODUCTION]
    for start, title in SECTIONS.items():
        lines += [f"## {title}", ""]
        for code in sorted(code for code in KINDS if code.startswith(start)):
            kind = KINDS[code]
            lines += [
                f"### {code}: {escape(kind.title)}",
                "",
                f"{kind.level.capitalize()}. {escape(' '.join(kind.meaning.split()))}",
                "",
                f"- Evidence: {escape(kind.evidence)}.",
                f"- Mend: {escape(kind.mend)}.",
                "",
            ]
    return "\n".join(lines)
