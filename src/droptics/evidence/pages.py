"""Pages of the documentation that are generated from the registries: the verdict table and the errata."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from droptics.evidence.claims import REFUTED, VERDICTS, Claim, Result, Verdict
from droptics.files import write_text

SOURCES = "https://github.com/droptics/droptics/blob/main/src/droptics/papers"
COLUMNS = ("id, verdict and place", "statement, check, and what it runs")
KINDS: dict[Verdict, str] = {
    "false": "Statements that are false",
    "slip": "Slips of print or proof",
    "constant": "Constants",
    "remark": "Remarks about plots",
}


def write_pages(results: Sequence[Result], folder: str | Path) -> tuple[Path, Path]:
    """Write claims.md and errata.md (MyST Markdown) into a folder and return their paths."""
    claims, errata = Path(folder) / "claims.md", Path(folder) / "errata.md"
    write_text(claims, claims_page(results))
    write_text(errata, errata_page([result.claim for result in results]))
    return claims, errata


def said(verdicts: Sequence[str]) -> str:
    """How many statements have which verdict, in words."""
    counts = Counter(verdicts)
    order = [*VERDICTS, *sorted(set(counts) - set(VERDICTS))]
    parts = ", ".join(f"{name}: {counts[name]}" for name in order if counts[name])
    return f"{len(verdicts)} statements; {parts}."


def claims_page(results: Sequence[Result]) -> str:
    """The verdict table as Markdown, one section per work."""
    blocks = [
        "# Claims",
        "Each statement of the works that can be checked numerically is a program: `droptics verify` runs them all. "
        "A check passes only together with its control, the same comparison with one thing changed, which must come "
        "out the other way. That a statement fails as printed is computed; what kind of failure it is, a reader of "
        "the source decides:",
        "\n".join(f"- *{kind}*: {words};" for kind, words in REFUTED.items()),
        "Where the place says *instruments*, a statement tells what the library answers on the instances of its check; "
        "the others are meant of all that they name.",
        said([result.verdict for result in results]),
    ]
    for paper in dict.fromkeys(result.claim.paper for result in results):
        blocks += [f"## {paper}", table(COLUMNS, [_row(item) for item in results if item.claim.paper == paper])]
    return "\n\n".join(blocks) + "\n"


def _row(result: Result) -> tuple[str, ...]:
    claim = result.claim
    note = f" *{claim.note}*" if claim.note else ""
    if claim.erratum:
        note = f" *{claim.erratum.wrong}* Corrected: `{claim.corrected}`."
    runs = ", ".join(f"{{py:obj}}`~droptics.{name}`" for name in claim.objects)
    checked = "; ".join(part for part in (check_place(claim), runs) if part)
    named = f'<a id="{claim.id}"></a>`{claim.id}`<br>**{result.verdict}**<br>{claim.source}'
    told = f"{claim.statement}{note}{checked and '<br>'}{checked}"
    return named.replace("|", "\\|"), told.replace("|", "\\|")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(cells).replace("\n", " ") + " |" for cells in (columns, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]])


def check_place(claim: Claim) -> str:
    """Where the check of a claim stands in the sources: file and function, with a link to the line."""
    check: Any = claim.check
    while hasattr(check, "func"):  # functools.partial
        check = check.func
    if check is None:
        return ""
    check = inspect.unwrap(check)  # torch.no_grad() stands around some
    name = check.__name__ if check.__name__ != "<lambda>" else f"line {check.__code__.co_firstlineno}"
    place = Path(check.__code__.co_filename).as_posix().rpartition("/papers/")[2]
    return f"[`{place}: {name}`]({SOURCES}/{place}#L{check.__code__.co_firstlineno})"


def errata_page(claims: Sequence[Claim]) -> str:
    """Statements that fail as printed: the print, a charitable reading, what is wrong, a counterexample, the repair."""
    blocks = [
        "# Errata",
        "Each entry gives the printed formula, the most charitable reading in our words, what is wrong with it, and "
        "the smallest counterexample we know, decided in exact rational arithmetic unless it says otherwise: the "
        "snippet prints the printed value and then the true one. The corrected statement is a claim that holds. "
        "A statement that two works print stands here once for each.",
        said([claim.verdict for claim in claims if claim.verdict in REFUTED]),
    ]
    for kind, title in KINDS.items():
        chosen = [claim for claim in claims if claim.verdict == kind]
        if chosen:
            blocks += [f"## {title}", f"{REFUTED[kind][:1].upper()}{REFUTED[kind][1:]}."]
        for claim in chosen:
            blocks += _entry(claim, {claim.id: claim.statement for claim in claims})
    return "\n\n".join(blocks) + "\n"


def _entry(claim: Claim, statements: dict[str, str]) -> list[str]:
    erratum = claim.erratum
    assert erratum is not None
    exact = f" (in floating point: {erratum.inexact})" if erratum.inexact else ""
    return [
        f"### {claim.id}",
        f"{claim.source}. Printed:",
        "$$" + re.sub(r"``(.*?)''", "\u201c\\1\u201d", erratum.printed) + "$$",
        f"**Read kindly.** {erratum.reading}",
        f"**What is wrong.** {erratum.wrong}",
        f"```python\n{erratum.counterexample.strip()}\n```",
        f"prints{exact}",
        f"```text\n{shown_output(erratum.counterexample)}\n```",
        f"**Corrected** (`{erratum.corrected}`): {statements.get(erratum.corrected, '')}",
    ]


def shown_output(snippet: str) -> str:
    """What a snippet prints when it is run on its own."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(snippet, "<counterexample>", "exec"), {"__name__": "counterexample"})
    return printed.getvalue().strip()
