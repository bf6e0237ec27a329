"""Pages of the documentation that are generated from the registries: the verdict table and the errata."""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from droptics.evidence.claims import Claim, Result
from droptics.files import write_text


def write_pages(results: Sequence[Result], folder: str | Path) -> tuple[Path, Path]:
    """Write claims.md and errata.md (MyST Markdown) into a folder and return their paths."""
    claims, errata = Path(folder) / "claims.md", Path(folder) / "errata.md"
    write_text(claims, claims_page(results))
    write_text(errata, errata_page([result.claim for result in results]))
    return claims, errata


def claims_page(results: Sequence[Result]) -> str:
    """The verdict table as Markdown, one section per work."""
    counts = Counter(result.verdict for result in results)
    total = ", ".join(f"{name}: {count}" for name, count in counts.items())
    lines = [
        "# Claims",
        "",
        "Each statement of the works that can be checked numerically is a program: `droptics verify` runs them all. "
        "A check passes only together with its control, the same comparison with one thing changed, which must come "
        "out the other way.",
        "",
        f"{len(results)} statements; {total}.",
    ]
    for paper in dict.fromkeys(result.claim.paper for result in results):
        lines += ["", f"## {paper}", "", "| id | where | verdict | statement |", "|---|---|---|---|"]
        for result in results:
            claim = result.claim
            if claim.paper == paper:
                note = f" *{claim.note}*" if claim.note else ""
                fixed = f" Corrected: `{claim.corrected}`." if claim.corrected else ""
                cells = (f"`{claim.id}`", claim.source, result.verdict, f"{claim.statement}{note}{fixed}")
                lines.append("| " + " | ".join(_cell(text) for text in cells) + " |")
    return "\n".join(lines) + "\n"


def errata_page(claims: Sequence[Claim]) -> str:
    """Statements that are false as printed, with their smallest counterexample and the corrected statement."""
    statements = {claim.id: claim.statement for claim in claims}
    lines = [
        "# Errata",
        "",
        "Statements that are false as printed. Each snippet prints the printed value and then the true one; the "
        "corrected statement is a claim that holds.",
    ]
    for claim in claims:
        if claim.verdict != "false as printed":
            continue
        lines += ["", f"## {claim.id}", "", f"{claim.source}. Printed: {claim.statement}"]
        if claim.note:
            lines += ["", claim.note]
        if claim.counterexample:
            lines += ["", "```python", claim.counterexample.strip(), "```", "", "prints", ""]
            lines += ["```text", shown_output(claim.counterexample), "```"]
        lines += ["", f"Corrected (`{claim.corrected}`): {statements.get(claim.corrected or '', '')}"]
    return "\n".join(lines) + "\n"


def shown_output(snippet: str) -> str:
    """What a snippet prints when it is run on its own."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(snippet, "<counterexample>", "exec"), {"__name__": "counterexample"})
    return printed.getvalue().strip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
