"""The one table: every aim beside what was measured, as text for the terminal and as rows for the documentation.

python benchmarks/standings.py              the record as a table; --readme puts the README's lines in their place
python benchmarks/standings.py OLD NEW      two folders of results, or two result files: which promised ratios of NEW
are more than a tenth below those of OLD, or gone; the exit status says so
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aims import AIMS, Aim

RESULTS = Path(__file__).parent / "results"  # the record, which README and documentation show


@dataclass(frozen=True)
class Standing:
    """An aim beside the row that measures it; `row` is None where nothing was measured."""

    aim: Aim
    row: Mapping[str, Any] | None
    floor: float | None

    @property
    def score(self) -> float | None:
        """The measured number that the moonshot is about."""
        return None if self.row is None else self.aim.score(self.row)

    @property
    def share(self) -> float | None:
        """The floor divided by our time."""
        return self.floor / self.row["ours"] if self.floor and self.row and self.row["ours"] else None

    @property
    def reached(self) -> bool | None:
        """Whether the moonshot is reached; None where either number is missing."""
        if self.score is None or self.aim.moonshot is None:
            return None
        return self.score >= self.aim.moonshot

    @property
    def kept(self) -> bool | None:
        """Whether the promise is kept; None where there is none or nothing was measured."""
        if self.score is None or self.aim.promised is None:
            return None
        return self.score >= self.aim.promised

    @property
    def short(self) -> str:
        """By how much the moonshot is missed, in words; empty where it is not."""
        if self.reached is not False or self.score is None or self.aim.moonshot is None:
            return ""
        found, wanted = (self.aim.show(value) for value in (self.score, self.aim.moonshot))
        return f"{found} of {wanted}"


def standings(results: Path = RESULTS) -> Iterator[Standing]:
    """Every aim beside the row that measures it."""
    ceilings = {"cpu": rates(results / "ceilings.json"), "cuda": rates(results / "ceilings_gpu.json")}
    for aim in AIMS:
        row = aim.find(results) if aim.find else _found(results / f"{aim.file}.json", aim.row)
        floor = aim.work.floor(ceilings[aim.device]) if aim.work else None
        yield Standing(aim, row, row["floor"] if row and row.get("floor") else floor)


def rates(file: Path) -> Mapping[str, float]:
    """What the machine can do at most, as measured; empty where it was not."""
    return json.loads(file.read_text(encoding="utf-8"))["ceilings"] if file.exists() else {}


def _found(file: Path, pattern: str) -> Mapping[str, Any] | None:
    rows = json.loads(file.read_text(encoding="utf-8")).get("rows", []) if file.exists() else []
    return next((row for row in rows if re.search(pattern, row.get("workload", "")) and row.get("ours")), None)


def cells(standing: Standing) -> dict[str, str]:
    """One line of the table; empty cells where there is nothing to say."""
    aim, row = standing.aim, standing.row
    line = {"workload": aim.task, "against": aim.against}
    if row is None:
        return line | {"ratio": "not measured", "moonshot": aim.show(aim.moonshot) if aim.moonshot else ""}
    score, share = standing.score, standing.share
    return line | {
        "droptics": seconds(row["ours"]),
        "alternative": seconds(row["alternative"]) if row["alternative"] else "",
        "ratio": aim.show(score) if score else "",
        "promised": aim.show(aim.promised) + ("" if standing.kept else " (missed)") if aim.promised else "",
        "moonshot": aim.show(aim.moonshot) + (" (reached)" if standing.reached else "") if aim.moonshot else "",
        "floor, our share": f"{seconds(standing.floor)}, {share:.0%}" if standing.floor and share else "",
        "agreement": row["agreement"],
    }


def seconds(value: float) -> str:
    """A time in a unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size or unit == "µs":
            return f"{value / size:,.0f} {unit}" if value >= 1000 else f"{value / size:.3g} {unit}"
    return ""


def text(found: list[Standing]) -> str:
    """The table in columns, and below it what falls short, by how much and why."""
    lines = [cells(standing) for standing in found]
    names = list(dict.fromkeys(name for line in lines for name in line))
    widths = {name: max(len(name), *(len(line.get(name, "")) for line in lines)) for name in names}
    rows = [dict(zip(names, names, strict=True)), *lines]
    table = ["  ".join(row.get(name, "").ljust(widths[name]) for name in names).rstrip() for row in rows]
    missed = [
        f"- {standing.aim.task}, against {standing.aim.against}: {standing.short}. {standing.aim.why}"
        for standing in found
        if standing.short
    ]
    return "\n".join([*table, "", "Short of the moonshot:", *missed])


LOSS = 0.1  # of a promised ratio: more than what repeats on one quiet machine scatter


def losses(old: Path, new: Path) -> list[str]:
    """Promised ratios that are more than a tenth lower in `new` than in `old`, and promised rows that are gone.

    A file that `new` lacks was not run and does not count; a row that a file lost does.
    """
    stems = {old.stem} if old.is_file() else None
    folders = [path.parent if path.is_file() else path for path in (old, new)]
    found = []
    for before, after in zip(*map(standings, folders), strict=True):
        aim, show = before.aim, before.aim.show
        if aim.promised is None or before.score is None or (stems is not None and aim.file not in stems):
            continue
        if after.score is None and (folders[1] / f"{aim.file}.json").exists():
            found.append(f"{aim.task}, against {aim.against}: no row where {show(before.score)} stood")
        elif after.score is not None and after.score < (1 - LOSS) * before.score:
            told = f"{show(after.score)} where {show(before.score)} stood ({show(aim.promised)} promised)"
            found.append(f"{aim.task}, against {aim.against}: {told}")
    return found


# what the README shows: one line per kind of work
README = (
    ("global optimum of dropout training, 120 x 80, width 20", "optimum 120 x 80, width 20", "cvxpy, SCS"),
    ("the same for a 500 x 400 map, width 100", "optimum 500 x 400, width 100", "L-BFGS to 1e-8"),
    ("the same for a 5000 x 5000 map", "optimum 5000 x 5000, width 100, signal and noise", "randomized SVD"),
    ("penalty of a linear network, depth 20, width 512", "penalty, depth 20, width 512, float32", "10^4 masks"),
    ("exact criterion of a ReLU network", "exact ReLU criterion, K = 18", "batched enumeration"),
    ("50 dropout runs of single-sample steps", "50 runs of single-sample steps", "torch modules, one by one"),
    ("dropout matrix completion, one sweep", "sweep, ml-1m size, width 70", "cmfrec, CG"),
    ("linear head to 1 % above its optimum", "1 % above the optimum, linear head", "dropout training, tuned"),
    ("PGD attack, 40 steps, perceptron", "PGD, 40 steps, perceptron", "torchattacks"),
    ("accuracies of 100 sub-networks", "100 sub-networks of width 10,000", "masked copies"),
)


def readme_table(results: Path = RESULTS) -> str:
    """The README's table in Markdown, from what is recorded."""
    known = {(standing.aim.task, standing.aim.against): standing for standing in standings(results)}
    lines = ["| task | instead of | droptics | the alternative | ratio |", "| --- | --- | --- | --- | --- |"]
    for label, task, against in README:
        line = cells(known[task, against])
        numbers = (line.get(name, "") for name in ("droptics", "alternative", "ratio"))
        lines.append("| " + " | ".join((label, against, *numbers)) + " |")
    return "\n".join(lines)


def write_readme(file: Path = RESULTS.parents[1] / "README.md") -> None:
    """Put the table of what is recorded in the place of the old one."""
    old = file.read_text(encoding="utf-8")
    head, _, rest = old.partition("| task | instead of |")
    _, _, tail = rest.partition("\n\n")
    file.write_text(head + readme_table() + "\n\n" + tail.lstrip("\n"), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        lost = losses(Path(sys.argv[1]), Path(sys.argv[2]))
        print("\n".join(lost) or "no promised ratio lost more than a tenth")
        sys.exit(bool(lost))
    if "--readme" in sys.argv:
        write_readme()
    print(text(list(standings())))
