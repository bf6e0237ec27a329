"""The page of which statement rests on which: one drawing a work, and what stands on a statement that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape as entity

from markup import table

from droptics.evidence.claims import REFUTED, Claim
from droptics.papers.rests import RESTS, unsettled

INTRODUCTION = """# What rests on what

An arrow runs from a statement to those whose proof calls it by its number; ours are drawn with the work that they
sharpen. Colors and signs are verdicts: green holds, blue (?) holds under a condition, gray (0) says nothing at
realistic sizes, orange (~) is a slip, a constant or a remark, red (x) is false. A box leads to its row of the
[claims](claims.md).
"""
STANDING = """## Statements whose proof leans on one that fails

Each of these was checked on its own, by enumeration, by descent from many starts or against a convex solver, and has
the verdict of that check. What its proof takes from the other is printed with a slip or is false; the corrected
statement carries it, or a weaker constant.
"""
# the sign is for those who see no colors
COLORS = {
    "holds": ("#2e7d32", ""),
    "holds only if": ("#1565c0", " ?"),
    "vacuous": ("#616161", " 0"),
    "false": ("#b71c1c", " x"),
}
OTHER, UNKNOWN = ("#b45309", " ~"), ("#616161", "")
LETTER, HEIGHT, BETWEEN, DOWN = 7, 24, 60, 34
Edges = Mapping[str, Sequence[str]]


def graph_page(claims: Sequence[Claim]) -> str:
    """The page as Markdown with drawings."""
    known = {claim.id: claim for claim in claims}
    lines = [INTRODUCTION]
    for paper in dict.fromkeys(claim.paper for claim in claims):
        mine = {name: others for name, others in RESTS.items() if name.startswith(f"{paper}-")}
        if mine:
            lines += [f"## {paper}", "", drawing(mine, known, paper), ""]
    rows = [
        {"statement": name, "verdict": known[name].verdict, "its proof leans on": ", ".join(others)}
        for name, others in unsettled(claims).items()
    ]
    return "\n".join([*lines, STANDING, *table(rows)]) + "\n"


def families(edges: Edges) -> list[set[str]]:
    """Statements that hang together, the largest family first."""
    found: list[set[str]] = []
    for name, others in edges.items():
        mine = {name, *others}
        touched = [family for family in found if family & mine]
        found = [family for family in found if not family & mine] + [mine.union(*touched)]
    return sorted(found, key=lambda family: (-len(family), min(family)))


def places(edges: Edges) -> dict[str, tuple[int, float]]:
    """Column and row of every statement: to the right of all it rests on, near the middle of them."""
    found: dict[str, tuple[int, float]] = {}
    top = 0
    for family in families(edges):
        columns = ordered(edges, sorted(family))
        tallest = max(map(len, columns))
        for number, inside in enumerate(columns):
            start = top + (tallest - len(inside)) / 2
            found |= {name: (number, start + i) for i, name in enumerate(inside)}
        top += tallest
    return found


def ordered(edges: Edges, names: Sequence[str]) -> list[list[str]]:
    """The columns of a family, each ordered by the middle of its neighbors, again and again."""
    depth: dict[str, int] = {}
    while len(depth) < len(names):
        for name in names:
            if all(other in depth for other in edges.get(name, ())):
                depth[name] = 1 + max((depth[other] for other in edges.get(name, ())), default=-1)
    near = {name: [*edges.get(name, ()), *(other for other in names if name in edges.get(other, ()))] for name in names}
    columns = [[name for name in names if depth[name] == level] for level in range(max(depth.values()) + 1)]
    row = {name: i / len(column) for column in columns for i, name in enumerate(column)}
    for _ in range(12):
        for column in columns:
            middle = {name: sum(row[other] for other in near[name]) / len(near[name]) for name in column}
            column.sort(key=lambda name, middle=middle: (middle[name], name))  # type: ignore[misc]
            row |= {name: (i + 0.5) / len(column) for i, name in enumerate(column)}
    return columns


def drawing(edges: Edges, known: Mapping[str, Claim], paper: str) -> str:
    """One work as a picture, as wide as its letters need: a narrow page scrolls it."""
    at = places(edges)
    texts = {name: name.removeprefix(f"{paper}-") + sign(known[name])[1] for name in at}
    width = LETTER * max(map(len, texts.values())) + 12
    across = width + BETWEEN
    wide = max(x for x, _ in at.values()) * across + width + 4
    tall = max(y for _, y in at.values()) * DOWN + HEIGHT + 4
    parts = [
        f'<div class="drawing"><svg viewBox="0 0 {wide} {tall:g}" width="{wide}" height="{tall:g}" role="img" '
        f'aria-label="which statement of {paper} rests on which, as listed in droptics/papers/rests.py">'
    ]
    for name, others in edges.items():
        for other in others:
            x1, y1 = at[other][0] * across + width + 2, at[other][1] * DOWN + HEIGHT / 2 + 2
            x2, y2 = at[name][0] * across + 2, at[name][1] * DOWN + HEIGHT / 2 + 2
            bend = (x2 - x1) / 2
            curve = f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
            parts.append(f'<path d="{curve}" fill="none" stroke="#8a8a8a"/>')
    for name, (x, y) in at.items():
        left, top = x * across + 2, y * DOWN + 2
        parts.append(
            f'<a href="claims.html#{name}"><title>{entity(name)}: {entity(known[name].verdict)}</title>'
            f'<rect x="{left}" y="{top}" width="{width}" height="{HEIGHT}" rx="4" fill="{sign(known[name])[0]}"/>'
            f'<text x="{left + width / 2}" y="{top + 16}" text-anchor="middle" fill="#fff" font-size="12" '
            f'font-family="sans-serif">{entity(texts[name])}</text></a>'
        )
    return "".join([*parts, "</svg></div>"])


def sign(claim: Claim) -> tuple[str, str]:
    """Color and sign of a verdict."""
    return COLORS.get(claim.verdict, OTHER if claim.verdict in REFUTED else UNKNOWN)
