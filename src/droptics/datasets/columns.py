"""Which columns hold the user, the item and the rating: by the names of the header, or as the caller says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

ROLES = {
    "user": (
        "user users userid username uid u useridx userindex customer customerid reviewer reviewerid rater "
        "raterid viewer viewerid who account accountid person personid member memberid profile profileid row "
        "rows"
    ),
    "item": (
        "item items itemid itemname iid i itemidx itemindex movie movieid film filmid product productid asin "
        "parentasin book bookid isbn anime animeid song songid track trackid artist artistid joke jokeid "
        "business businessid game gameid what title article articleid content contentid column columns"
    ),
    "rating": ("rating ratings r rate score scores stars star value values overall mark grade"),
}
"""Names that tell a column's role, written small and without signs."""


def positions(
    names: Sequence[str] | None, columns: Sequence[str | int] | None, path: Path, width: int
) -> tuple[int, int, int]:
    """Positions of user, item and rating among `width` columns called `names` (None where there is no header).

    Named or numbered columns are taken as they are. Otherwise a header is obeyed: each role must be told by exactly
    one name, in any order; a header that names none or several is an error, never a guess. Without a header the first
    three columns are user, item and rating.
    """
    if columns is None:
        found = [0, 1, 2] if names is None else [_told(role, names, path) for role in ROLES]
    else:
        found = [_asked(column, names, path) for column in columns]
    if max(found) >= width or min(found) < 0:
        raise ValueError(f"{path}, line 1: {width} fields, expected at least {max(found) + 1} (user, item, rating)")
    return found[0], found[1], found[2]


def _told(role: str, names: Sequence[str], path: Path) -> int:
    found = [place for place, name in enumerate(names) if _plain(name) in ROLES[role].split()]
    if len(found) != 1:
        several = f"has several columns that may hold the {role}" if found else f"has no column called {role}"
        raise ValueError(
            f"{path} {several}; its header is {list(names)[:12]}: say which are user, item and rating, as in "
            f"--columns {','.join(str(name) for name in list(names)[:3])} or columns=(0, 1, 2)"
        )
    return found[0]


def _asked(column: str | int, names: Sequence[str] | None, path: Path) -> int:
    if not isinstance(column, str):
        return int(column)
    if names is None or column not in names:
        raise ValueError(f"columns: {path} has no column {column!r}; its header is {list(names or [])[:12]}")
    if list(names).count(column) > 1:
        raise ValueError(f"columns: {path} has several columns {column!r}; name them by position")
    return list(names).index(column)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", str(name).lower())
