"""`droptics verify`: run the statements of the papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from droptics.cli.options import AsJson


def verify_command(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of claims, such as pal2020-thm4.1; else all.")] = None,
    paper: Annotated[str | None, "Only this work: mianjy2018, thesis, pal2020, helmbold2017 or droptics."] = None,
    engine: Annotated[
        str | None,
        "Where claims run: local, processes, processes:N or dask://host:port; without ids processes, else local.",
    ] = None,
    only_list: Annotated[bool, typer.Option("--list", help="Run nothing; list the claims.")] = False,
    as_json: AsJson = False,
    pages: Annotated[Path | None, "Also write claims.md and errata.md into this folder."] = None,
) -> None:
    """Check printed statements numerically: which hold, hold under a condition, are false, or slips of print or proof.

    Every claim has a control that must come out the other way. Exit code 1 when a verdict differs from the recorded
    one.

    Example: droptics verify --paper pal2020
    """
    import json
    from collections import Counter

    from rich.console import Console

    from droptics.cli.tables import listed
    from droptics.evidence.claims import select
    from droptics.evidence.pages import write_pages
    from droptics.files import check_folder
    from droptics.papers import claims, verify

    if only_list:
        chosen = select(claims(), ids or None, paper)
        listed([{"id": item.id, "source": item.source, "statement": item.statement} for item in chosen], as_json)
        return
    if pages is not None:
        check_folder(pages, "--pages")
    results = verify(ids, paper, engine or ("local" if ids else "processes"))
    if pages is not None:
        write_pages(results, pages)
    differing = [result for result in results if not result.agrees]
    if as_json:
        print(json.dumps([result.as_dict() for result in results], indent=1))
    else:
        rows = [(item.claim.id, item.verdict + " (!)" * (not item.agrees), item.claim.statement) for item in results]
        names = ("id", "verdict", "statement")
        listed([dict(zip(names, row, strict=True)) for row in rows], title="claims", whole="verdict")
        console = Console(emoji=False)
        counts = Counter(result.verdict for result in results)
        spent = sum(result.seconds for result in results)
        told = ", ".join(f"{name}: {n}" for name, n in counts.items())
        console.print(f"claims: {len(results)}, in {spent:.1f} s; {told}")
        for result in differing:
            console.print(f"[bold]{result.claim.id}[/bold]: {result.verdict}, on record is {result.claim.verdict}")
            if result.error:
                console.print(f"  {result.error}", markup=False)
            for item in result.comparisons:
                console.print(f"  {item}", markup=False)
    if differing:
        raise typer.Exit(1)
