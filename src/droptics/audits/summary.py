"""A report on the terminal, from its dictionary: a table that fits the width, then the findings, bugs first.

Names break behind their dots only and sentences between words; where a table does not fit, every row becomes a few
lines of its own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from droptics.audits.digest import (
    MANY,
    Content,
    Grouped,
    grouped,
    groups,
    how_text,
    largest,
    number_text,
    rate_text,
    share_text,
    value_text,
)
from droptics.audits.labels import broken

COLUMNS = ("site", "kind", "rate", "penalty", "share", "how")
NUMBERS = ("rate", "penalty", "share")
LEAST_NAME, LEAST_HOW = 24, 20  # letters below which a column of text is no longer worth a table
MOST_FINDINGS = 12
MOST_SITES = 4
MOST_DETAILS = 2
LARGEST = 5


def terminal_text(report: Content, width: int = 110) -> str:
    """The summary: one row per site, or per group of sites where there are many, then the findings."""
    clean, training = value_text(report["clean_loss"], 6), number_text(report["training_loss"])
    lines = [
        *_wrapped(f"{report['network']} on {report['examples']} examples, {report['loss']} loss", width),
        *_wrapped(f"loss without dropout {clean}, with dropout {training}", width),
    ]
    rows = _rows(report)
    if rows:
        lines += ["", *_table(rows, width), ""]
    if len(report["sites"]) > MANY:
        lines += ["sites of largest penalty:", *_table([_site_row(item) for item in largest(report, LARGEST)], width)]
        lines.append("")
    found = grouped(report["findings"])
    for item in found[:MOST_FINDINGS]:
        lines += _finding(item, width)
    if len(found) > MOST_FINDINGS:
        more = f"... and {len(found) - MOST_FINDINGS} more kinds of findings in the JSON and HTML reports"
        lines += _wrapped(more, width, "  ", first="")
    return "\n".join(line.rstrip() for line in lines).rstrip()


def _rows(report: Content) -> list[tuple[str, ...]]:
    if len(report["sites"]) <= MANY:
        rows = [_site_row(item) for item in report["sites"]]
    else:
        rows = [
            (
                group.label,
                group.kind if len(group.items) == 1 else f"{group.kind}, {len(group.items)} sites",
                group.rate,
                number_text(group.penalty),
                share_text(group.share),
                group.how,
            )
            for group in groups(report)
        ]
    if rows and report["rest"] is not None:
        rest = report["rest"]
        rows.append(("rest", "no switch reaches it", "", number_text(rest), "", rest["method"]))
    if report["interaction"] is not None and len(report["sites"]) > 1:
        part = report["interaction"]
        rows.append(("interaction", "all sites together", "", number_text(part), "", part["method"]))
    return rows


def _site_row(item: Content) -> tuple[str, ...]:
    site = item["site"]
    return (
        site["name"],
        site["kind"],
        rate_text(site["rate"]),
        number_text(item["penalty"]),
        share_text(item["share"]),
        how_text(item),
    )


def _table(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Columns side by side where they fit, else rows below each other."""
    natural = [max(len(row[i]) for row in (COLUMNS, *rows)) for i in range(len(COLUMNS))]
    spare = width - sum(natural) - 2 * (len(COLUMNS) - 1)
    for column, least in ((COLUMNS.index("how"), LEAST_HOW), (0, LEAST_NAME), (1, LEAST_NAME // 2)):
        if spare < 0:
            words = [word for row in rows for word in (broken(row[0], 1) if column == 0 else row[column].split())]
            taken = min(-spare, natural[column] - max(least, *(len(word) for word in words), 0))
            natural[column] -= max(taken, 0)
            spare += max(taken, 0)
    if spare < 0:
        return [line for row in rows for line in _stacked(row, width)]
    lines = [_line(COLUMNS, natural), "  ".join("-" * size for size in natural)]
    for row in rows:
        cells = [broken(row[0], natural[0])] + [
            textwrap.wrap(text, size, break_long_words=False, break_on_hyphens=False) or [""]
            for text, size in zip(row[1:], natural[1:], strict=True)
        ]
        for i in range(max(len(cell) for cell in cells)):
            lines.append(_line([cell[i] if i < len(cell) else "" for cell in cells], natural))
    return lines


def _line(cells: Sequence[str], sizes: Sequence[int]) -> str:
    return "  ".join(
        text.rjust(size) if name in NUMBERS else text.ljust(size)
        for name, text, size in zip(COLUMNS, cells, sizes, strict=True)
    )


def _stacked(row: Sequence[str], width: int) -> list[str]:
    parts = [row[1], *(f"{name} {text}" for name, text in zip(COLUMNS[2:5], row[2:5], strict=True) if text), row[5]]
    return [*broken(row[0], width), *_wrapped(", ".join(parts), width, "  ")]


def _finding(item: Grouped, width: int) -> list[str]:
    sites = ", ".join(item.sites[:MOST_SITES])
    if len(item.sites) > MOST_SITES:
        sites += f" and {len(item.sites) - MOST_SITES} more"
    if item.count > 1:
        sites += f" ({item.count} findings)"
    seen = "; ".join([item.text, *(f"at {site}: {text}" for site, text in item.details[:MOST_DETAILS])])
    start = f"{item.level} {item.code}".strip()
    return _wrapped(f"{start} {sites}: {seen}. Try: {item.advice}.", width, "  ", first="")


def _wrapped(text: str, width: int, indent: str = "", first: str | None = None) -> list[str]:
    """Lines of at most `width` letters, broken between words and behind the dots of names."""
    lines, line = [], indent if first is None else first
    for word in text.split():
        gap = " " if line.strip() else ""
        for piece in broken(word, width - len(indent)):
            if line.strip() and len(line) + len(gap) + len(piece) > width:
                lines.append(line)
                line, gap = indent, ""
            line, gap = line + gap + piece, ""
    return [*lines, line]
