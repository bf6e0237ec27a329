"""`droptics reproduce`: the figures and tables of the papers, computed again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from droptics.cli.options import AsJson

if TYPE_CHECKING:
    from droptics.evidence.figures import Artifact


def reproduce_command(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of figures and tables, such as mianjy2018-fig1.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them, and the gallery page.")] = False,
    scale: Annotated[str, "smoke (seconds each) or paper (the real thing)."] = "smoke",
    engine: Annotated[str, "Where cells run: local, processes, processes:N or dask://host:port."] = "local",
    out: Annotated[Path, "Folder for tables, pictures, manifests and the gallery."] = Path("droptics-out"),
    data: Annotated[Path | None, "Folder of the data sets; else DROPTICS_DATA or the user's cache."] = None,
    only_list: Annotated[bool, typer.Option("--list", help="Run nothing; list the figures and tables.")] = False,
    standing: Annotated[Path | None, "Run nothing; write README.md of this folder: how each came out."] = None,
    as_json: AsJson = False,
) -> None:
    """Compute figures and tables again and compare each printed number or ordering with ours.

    A run that was killed resumes where it was: every finished cell is one file in the output folder. Figures whose
    data or hardware is absent are skipped with the reason. Exit code 1 when a cell fails or a comparison comes out
    against the record.

    Examples: droptics reproduce mianjy2018-fig1
              droptics reproduce --all --scale smoke --engine processes --out droptics-out
    """
    import json
    import os

    from droptics.cli.tables import listed
    from droptics.datasets import VARIABLE
    from droptics.evidence.figures import SCALES, manifest
    from droptics.evidence.standing import standing_page, standings
    from droptics.files import check_folder, write_text
    from droptics.papers import figures, gallery, reproduce, verify

    if only_list:
        chosen = [item for item in figures() if not ids or item.id in ids]
        listed([{"id": item.id, "source": item.source, "title": item.title} for item in chosen], as_json)
        return
    if standing is not None:
        write_text(standing / "README.md", standing_page(standings(figures(), standing)))
        return
    if scale not in SCALES:
        raise ValueError(f"--scale must be one of {', '.join(SCALES)}, got {scale!r}")
    if bool(ids) == everything:
        known = ", ".join(figure.id for figure in figures())
        raise ValueError(f"name figures or say --all; there are {known}")
    check_folder(out)
    if data is not None:
        os.environ[VARIABLE] = str(data)  # worker processes inherit it
    artifacts = reproduce(ids or None, "smoke" if scale == "smoke" else "paper", out, engine)
    page = gallery(artifacts, verify(run_on=engine), out / "gallery") if everything else None
    if as_json:
        print(json.dumps([manifest(artifact) for artifact in artifacts], indent=1))
    else:
        print_outcomes(artifacts, scale)
        if page is not None:
            print(f"gallery: {page}")
    if not all(artifact.agrees for artifact in artifacts):
        raise typer.Exit(1)


def print_outcomes(artifacts: Sequence[Artifact], scale: str) -> None:
    """A table of the figures, and below it every comparison that does not hold."""
    from rich.console import Console

    from droptics.cli.tables import listed

    names, rows = ("id", "outcome", "compared", "seconds", "folder or reason"), []
    for artifact in artifacts:
        met = sum(item.comparison.holds for item in artifact.expectations)
        reason = artifact.skipped.replace("folder=...", "--data")
        reason = reason.replace("pass download=True", "download it with droptics.datasets")
        where = reason or "; ".join(artifact.failures.values()) or str(artifact.folder)
        counted = f"{met} of {len(artifact.expectations)}" if artifact.expectations else ""
        cells = (artifact.figure.id, artifact.outcome, counted, f"{artifact.seconds:.1f}", where)
        rows.append(dict(zip(names, cells, strict=True)))
    listed(rows, title=f"figures and tables, scale {scale}", whole="")
    console = Console(emoji=False)
    for artifact in artifacts:
        for item in artifact.expectations:
            if not item.comparison.holds:
                console.print(f"{artifact.figure.id}: {item.comparison} ({item.outcome})", markup=False)
