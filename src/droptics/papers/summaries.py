"""The works in short, for readers of each: from the registry of claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from droptics.evidence.claims import REFUTED, Claim


def summary_page(claims: Sequence[Claim], titles: Mapping[str, str]) -> str:
    """For readers of each work: what stands, what needs a condition, what is wrong, and what is new."""
    lines = ["# The works in short", "", "From the registry of claims; every line is one that `droptics verify` runs."]
    for paper, title in titles.items():
        mine = [claim for claim in claims if claim.paper == paper and not claim.id.endswith("-corrected")]
        groups = {
            "Stands": [claim for claim in mine if claim.verdict == "holds"],
            "Stands under a condition": [claim for claim in mine if claim.verdict == "holds only if"],
            "True, and says nothing at realistic sizes": [claim for claim in mine if claim.verdict == "vacuous"],
            "False": [claim for claim in mine if claim.verdict == "false"],
            "Slips of print or proof, constants, remarks about plots": [
                claim for claim in mine if claim.verdict in REFUTED and claim.verdict != "false"
            ],
            "New, on this work": [claim for claim in claims if claim.paper == "droptics" and paper in claim.source],
        }
        lines += ["", f"## {title}"]
        for name, group in groups.items():
            if group:
                lines += ["", f"### {name} ({len(group)})", ""]
                lines += [f"- `{claim.id}`: {claim.statement}{_aside(claim)}" for claim in group]
    return "\n".join(lines) + "\n"


def _aside(claim: Claim) -> str:
    if claim.erratum:
        return f" *{claim.erratum.wrong}*"
    return f" *{claim.note}*" if claim.verdict in ("holds only if", "vacuous") else ""
