"""Figures: experiments as independent cells with one row file each, so that a killed run resumes where it was.

`reproduce` leaves, per figure, the table, the picture and a manifest (what ran, where, how long, and how each printed
number or ordering compares with ours).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from droptics.evidence.claims import Comparison, comparison_dict
from droptics.evidence.engines import Done, Engine, Function, Local, Row, Task
from droptics.evidence.provenance import commit, places
from droptics.evidence.rows import as_csv, plain_value
from droptics.files import check_folder, replacing, write_text

Scale = Literal["smoke", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "paper")
OWN = "not printed"


@dataclass(frozen=True)
class Cell:
    """One independent part of a figure: a readable name and the parameters (plain values) of the run function."""

    name: str
    parameters: Mapping[str, Any]
    gpu: bool = False


@dataclass(frozen=True)
class Expectation:
    """A printed number or ordering beside ours.

    Attributes:
        comparison: Ours on the left; on the right the printed number, or the other side of a printed ordering.
        reproduced: False records that we know it does not come out.
        note: Why, or what to mind.
        printed: What is printed, in few words, where the right side is not itself printed: "curves coincide"; for a
            comparison of our own it begins with "not printed", and then it does not count.
    """

    comparison: Comparison
    reproduced: bool = True
    note: str = ""
    printed: str = ""

    @property
    def own(self) -> bool:
        """Whether it compares what the paper does not print."""
        return self.printed.startswith(OWN)

    @property
    def outcome(self) -> str:
        """In words: reproduced, or not, and whether that was on record."""
        if self.comparison.holds:
            return "reproduced" if self.reproduced else "reproduced, against the record"
        return "not reproduced" if self.reproduced else "not reproduced, as recorded"


@dataclass(frozen=True)
class Figure:
    """A figure or table of a paper.

    Attributes:
        id: `<key>-fig3` or `<key>-tab4-1`.
        source: Where it is printed.
        title: A few words.
        statement: What the paper says it shows, in our words.
        cells: The independent cells at a scale.
        run: Function of a cell's parameters (module level, so that any engine can find it) that returns rows.
        expects: Comparisons of the rows (as plain dicts, in cell order) with what the paper prints, at a scale.
        draw: Draws the rows into an image file, in the paper's arrangement.
        needs: Names of requirements; `missing(name)` of the registry says why one is absent.
        takes: What each scale takes, in words (minutes, hardware).
        objects: Public objects it exercises, as dotted names below `droptics`.
        skip: For figures that cannot be run at a scale: the reason.
        departures: What paper scale does otherwise than the print, or had to choose because the print is silent.
    """

    id: str
    source: str
    title: str
    statement: str
    cells: Callable[[Scale], Sequence[Cell]]
    run: Function
    expects: Callable[[Sequence[Row], Scale], Sequence[Expectation]]
    draw: Callable[[Sequence[Row], Path], None]
    needs: tuple[str, ...] = ()
    takes: Mapping[Scale, str] = field(default_factory=dict)
    objects: tuple[str, ...] = ()
    skip: Mapping[Scale, str] = field(default_factory=dict)
    departures: tuple[str, ...] = ()

    @property
    def paper(self) -> str:
        """Key of the work it comes from."""
        return self.id.split("-", 1)[0]


@dataclass(frozen=True)
class Artifact:
    """What `reproduce` left for one figure; `skipped` says why there is nothing, `missing` names absent cells."""

    figure: Figure
    scale: Scale
    folder: Path
    rows: tuple[Row, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    seconds: float = 0.0
    computed: int = 0
    resumed: int = 0
    failures: Mapping[str, str] = field(default_factory=dict)
    skipped: str = ""
    missing: tuple[str, ...] = ()
    places: tuple[Mapping[str, Any] | None, ...] = ()

    @property
    def table(self) -> Path:
        """The rows as CSV."""
        return self.folder / "table.csv"

    @property
    def picture(self) -> Path:
        """The drawing."""
        return self.folder / "figure.png"

    @property
    def manifest(self) -> Path:
        """What ran, where, how long, with which outcome."""
        return self.folder / "manifest.json"

    @property
    def outcome(self) -> str:
        """In words."""
        if self.skipped:
            return "skipped"
        if self.failures:
            return "failed"
        counted = [item.comparison.holds for item in self.expectations if not item.own]
        if self.expectations and not counted:
            return "not compared"
        if all(counted) and not self.missing:
            return "reproduced"
        return "reproduced in part" if any(counted) else "not reproduced"

    @property
    def agrees(self) -> bool:
        """Whether nothing failed and every comparison came out as recorded."""
        return not self.failures and all(item.comparison.holds == item.reproduced for item in self.expectations)


def reproduce(
    figures: Sequence[Figure],
    scale: Scale = "smoke",
    out: str | Path = "droptics-out",
    engine: Engine | None = None,
    missing: Callable[[str], str] | None = None,
    command: str = "",
) -> list[Artifact]:
    """Run the cells of all figures that are not yet on disk, then write tables, pictures and manifests.

    Every finished cell is one file, replaced atomically; a run that was killed recomputes none of them and ends with
    the same tables. One progress bar covers the cells of all figures. A cell that fails does not stop the others.
    """
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
    folder = check_folder(out, "out")
    runs = [_Run(figure, scale, folder / figure.id / scale, _why_not(figure, scale, missing)) for figure in figures]
    tasks = {task.key: task for run in runs for task in run.tasks}
    files = {key: folder / "cells" / f"{key}.json" for key in tasks}  # figures that share a cell share its file
    found = {key: _kept(key, record) for key in tasks if (record := read_record(files[key])) is not None}
    resumed, pending = set(found), [task for key, task in tasks.items() if key not in found]
    with tqdm(total=len(pending), unit="cell", desc=f"reproduce ({scale})", disable=None, leave=False) as bar:
        for done in (engine or Local()).run(pending):
            found[done.key] = done if done.error or done.skipped else _keep(tasks[done.key], done, files[done.key])
            bar.set_postfix_str(done.key[:40])
            bar.update()
    return [run.finish(found, resumed, command) for run in runs]


def _why_not(figure: Figure, scale: Scale, missing: Callable[[str], str] | None) -> str:
    if scale in figure.skip:
        return figure.skip[scale]
    reasons = [missing(name) for name in figure.needs] if missing else []
    return "; ".join(reason for reason in reasons if reason)


def _keep(task: Task, done: Done, file: Path) -> Done:
    """Write a finished cell to its file, as it will be read there."""
    rows = [{name: plain_value(value) for name, value in row.items()} for row in done.rows]
    place = dict(done.place) if done.place else None
    record = {"parameters": dict(task.parameters), "rows": rows, "seconds": done.seconds, "place": place}
    write_text(file, json.dumps(record, indent=1))
    return _kept(task.key, record)


def _kept(key: str, record: Mapping[str, Any]) -> Done:
    return Done(key, tuple(record["rows"]), record["seconds"], record.get("place"))


class _Run:
    """One figure being reproduced."""

    def __init__(self, figure: Figure, scale: Scale, folder: Path, skipped: str) -> None:
        self.figure, self.scale, self.folder, self.skipped = figure, scale, folder, skipped
        cells = [] if skipped else list(figure.cells(scale))
        self.tasks = [Task(cell_key(figure, cell), figure.run, dict(cell.parameters), cell.gpu) for cell in cells]
        self.names = {task.key: cell.name for task, cell in zip(self.tasks, cells, strict=True)}
        if len({task.key for task in self.tasks}) != len(self.tasks):
            raise ValueError(f"{figure.id} has two cells of the same name and parameters at scale {scale}")

    def finish(self, found: Mapping[str, Done], resumed: set[str], command: str) -> Artifact:
        artifact = Artifact(self.figure, self.scale, self.folder, skipped=self.skipped)
        if not self.skipped:
            artifact = self._collect(artifact, [found[task.key] for task in self.tasks if task.key in found], resumed)
            write_text(artifact.table, as_csv(artifact.rows))
            if not artifact.failures and not artifact.skipped:
                artifact = self._judge(artifact)
        write_text(artifact.manifest, json.dumps(manifest(artifact, command), indent=1))
        return artifact

    def _collect(self, artifact: Artifact, found: Sequence[Done], resumed: set[str]) -> Artifact:
        cells = [done for done in found if not done.error and not done.skipped]
        rows = tuple(row for done in cells for row in done.rows)
        failures = {done.key: done.error for done in found if done.error}
        skips = {done.key: done.skipped for done in found if done.skipped}
        why = f"{len(skips)} of {len(self.tasks)} cells: {'; '.join(dict.fromkeys(skips.values()))}" if skips else ""
        absent = tuple(self.names[key] for key in skips) if rows else ()
        artifact = replace(artifact, failures=failures, skipped="" if failures or rows else why, missing=absent)
        seconds, known = sum(done.seconds for done in cells), sum(task.key in resumed for task in self.tasks)
        artifact = replace(artifact, rows=rows, seconds=seconds, places=tuple(done.place for done in cells))
        return replace(artifact, computed=len(cells) - known, resumed=known)

    def _judge(self, artifact: Artifact) -> Artifact:
        """Compare and draw; rows of an older version that lack something fail this figure and no other."""
        try:
            artifact = replace(artifact, expectations=tuple(self.figure.expects(artifact.rows, self.scale)))
            with replacing(artifact.picture) as partial:
                self.figure.draw(artifact.rows, partial)
        except Exception as error:
            hint = "rows of an older version? remove its cells and run it again"
            return replace(artifact, failures={"comparison": f"{type(error).__name__}: {error} ({hint})"})
        return artifact


def cell_key(figure: Figure, cell: Cell) -> str:
    """A readable file name that changes with the function and the parameters, so that no stale file is taken."""
    function = f"{figure.run.__module__}.{getattr(figure.run, '__qualname__', 'run')}"
    text = json.dumps([function, dict(cell.parameters)], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    name = re.sub(r"[^\w.=+-]+", "_", f"{function.rpartition('.')[2]}_{cell.name}")
    return f"{name}-{digest}"


def read_record(file: Path) -> dict[str, Any] | None:
    """A finished cell, or None when there is none or it cannot be read."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and {"rows", "seconds"} <= set(record) else None


def manifest(artifact: Artifact, command: str = "") -> dict[str, Any]:
    """What ran, where, how long, with which outcome; plain values.

    `versions` and `hardware` are those most cells were computed with; `places` holds all of them, since the cells of a
    figure may come from several machines or runs. `commit` is that of the tree that wrote the manifest.
    """
    figure = artifact.figure
    where = places(artifact.places or [None])
    return {
        "id": figure.id,
        "source": figure.source,
        "scale": artifact.scale,
        "command": command or f"droptics reproduce {figure.id} --scale {artifact.scale}",
        "outcome": artifact.outcome,
        "skipped": artifact.skipped,
        "missing": list(artifact.missing),
        "departures": list(figure.departures) if artifact.scale == "paper" else [],
        "failures": dict(artifact.failures),
        "comparisons": [
            comparison_dict(item.comparison) | {"outcome": item.outcome, "note": item.note, "printed": item.printed}
            for item in artifact.expectations
        ],
        "cells": artifact.computed + artifact.resumed,
        "seconds": round(artifact.seconds, 3),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": where[0]["versions"],
        "commit": commit(),
        "hardware": where[0]["hardware"],
        "places": where,
    }
