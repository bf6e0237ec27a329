"""The page of measurements: the one table with floors and moonshots, then every result file as it is."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from markup import escape, table

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from standings import Standing, cells, rates, seconds, standings

TITLES = {
    "attacks": "Attacks",
    "attacks_gpu": "Attacks on a GPU",
    "audit_cpu": "Audit",
    "audit_cuda": "Audit on a GPU",
    "coadaptation": "Co-adaptation and sub-networks",
    "cold": "Cold starts: the first answer of a process",
    "heads": "To one percent above the optimum",
    "heads_gpu": "To one percent above the optimum, on a GPU",
    "large": "Large problems: time, memory and growth",
    "layers": "Layers",
    "optima": "Optima and equalization",
    "penalties": "Penalties of deep linear networks",
    "penalties_gpu": "Penalties of deep linear networks, on a GPU",
    "ranking": "Ranking for users a model never saw",
    "recommenders": "Matrix completion: time",
    "recommenders_accuracy": "Matrix completion: accuracy",
    "recommenders_large": "Recommenders beyond one machine's memory",
    "recommenders_gpu": "Matrix completion on a GPU",
    "relu": "ReLU networks",
    "ridge_deep": "Ridge, leave-one-out and deep linear networks",
    "shrinkage": "Shrinkage of spectra",
    "stack": "Ratings by exact autoencoders and their stack",
    "step": "The penalty inside a training step",
    "step_gpu": "The penalty inside a training step, on a GPU",
    "subnetworks_gpu": "Sub-networks of wide networks, on a GPU",
    "tall": "Optima of many examples, for ten kinds of data",
    "training": "Training",
    "training_gpu": "Training on a GPU",
    "versions": "Before and after answers stated their errors",
    "versions_aarch64": "Before and after answers stated their errors, on aarch64",
}
INTRODUCTION = """# Benchmarks

`make bench` installs the alternatives into an environment of its own, runs every script in `benchmarks/` and prints the
table below; this page is made from the files it writes. Times on the CPU are CPU seconds on one thread, both sides
warmed up and run in turns; the ratio is the median of the ratios of the repeats, above 1 where droptics is faster and
below 1 where it is slower. Times on a GPU and on two threads are wall seconds; on a GPU both sides ran in one call,
except where a row names another machine or "such a GPU": there the alternative's time comes from another run.

## The one table

*Promised* is what must hold. A *moonshot* is what we want to see. The *floor* is the least time for the work that our
method cannot avoid, at the speed of large matrix products and copies on the same machine; *our share* is floor over
time, and what is missing to 100 % is overhead. More than 100 % says that the count is too high there: images that leave
an attack early take no further steps, and columns in a cache are not copied at the speed of memory.
"""
SHORT = """
### Short of the moonshot

By how much, and why:
"""
BELOW = """
### Below half of the floor

What takes the time where our share is below 50 %:
"""
COUNTED = """
### What the floors count
"""


def benchmarks_page(results: Path) -> str:
    """The recorded measurements: the joined table first, then one section per file."""
    found = list(standings(results))
    others = {folder.name: list(standings(folder)) for folder in machines(results)}
    rows = [line(standing, {name: list_[k] for name, list_ in others.items()}) for k, standing in enumerate(found)]
    lines = [INTRODUCTION, *table(rows), "", *ceilings(results), *map(kinds, machines(results)), SHORT]
    lines += shortfalls(found)
    lines += [BELOW, *profiles("aarch64", found)]
    lines += [text for name, list_ in others.items() for text in profiles(name, list_)]
    lines += [COUNTED, *counted(found), "", "## Everything measured"]
    for file in sorted(results.glob("*.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        if "ceilings" not in content:
            title = TITLES.get(file.stem, file.stem.replace("_", " ").capitalize())
            lines += ["", f"### {title}", "", *section(content)]
    return "\n".join(lines) + "\n"


def machines(results: Path) -> list[Path]:
    """The records of further kinds of machines: folders with ceilings of their own."""
    return sorted(file.parent for file in results.glob("*/ceilings.json"))


def kinds(folder: Path) -> str:
    """Which machines a column was measured on, and which files on each; floors are those of the ceilings' machine."""
    named: dict[str, list[str]] = defaultdict(list)
    for file in sorted(folder.glob("*.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        where = f"{content.get('cores', '?')} cores" + (f", {it}" if (it := content.get("processor")) else "")
        named[where].append(file.stem)
    parts = [f"{escape(where)}: {escape(', '.join(files))}" for where, files in named.items()]
    return f"\nMeasured on {escape(folder.name)} with {'; '.join(parts)}."


def line(standing: Standing, others: Mapping[str, Standing] | None = None) -> dict[str, str]:
    """One line of the joined table; the workload and what it is measured against share a cell.

    Other kinds of machines have a column each: the ratio there, and our share of the floor there.
    """
    found = cells(standing)
    first = {"workload / against": f"{found.pop('workload')} / {found.pop('against')}"}
    beside = {f"on {name}": there(other) for name, other in (others or {}).items()}
    return first | found | beside


def there(standing: Standing) -> str:
    """Ratio and share of the floor in one cell."""
    score = "" if standing.score is None else standing.aim.show(standing.score)
    share = "" if standing.share is None else f"{standing.share:.0%} of the floor"
    return ", ".join(filter(None, (score, share))) + (" (missed)" if standing.kept is False else "")


def ceilings(results: Path) -> list[str]:
    """The rates that floors are counted from, in a sentence."""
    parts = []
    files = {results / "ceilings.json": "one core", results / "ceilings_gpu.json": "the GPU"}
    files |= {folder / "ceilings.json": f"one core of {escape(folder.name)}" for folder in machines(results)}
    for file, where in files.items():
        found = rates(file)
        if found:
            products = ", ".join(
                f"{found[kind] / 1e9:,.3g} billion {kind} operations" for kind in ("float64", "float32")
            )
            parts.append(f"{where}: {products} and {found['bytes'] / 1e9:,.3g} GB copied per second")
    return [f"Rates measured on {'; on '.join(parts)}."] if parts else []


def shortfalls(found: Sequence[Standing]) -> list[str]:
    """A line for every moonshot that is not reached or not measured."""
    lines = []
    for standing in found:
        aim = standing.aim
        label = f"{escape(aim.task)}, against {escape(aim.against)}"
        if standing.short:
            share = f" Our share of the floor is {standing.share:.0%}." if standing.share else ""
            lines.append(f"- {label}: **{escape(standing.short)}**.{share} {escape(aim.why)}".rstrip())
        elif standing.kept is False:
            missed = f"{aim.show(standing.score)} of the promised {aim.show(aim.promised)}"
            lines.append(f"- {label}: **{escape(missed)}**. {escape(aim.why)}".rstrip())
        elif standing.row is None and aim.moonshot:
            lines.append(f"- {label}: not measured. {escape(aim.why)}".rstrip())
    return lines


def profiles(machine: str, found: Sequence[Standing]) -> list[str]:
    """A line for every workload below half of its floor: our shares, and what takes the time there."""
    shares: dict[tuple[str, str], list[float]] = defaultdict(list)
    for standing in found:
        if standing.share and standing.share < 0.5:
            aim = standing.aim
            label = aim.task if aim.device == "cuda" else f"{aim.task}, {machine}"
            shares[label, aim.why if machine == "aarch64" else aim.elsewhere].append(standing.share)
    lines = []
    for (label, text), values in shares.items():
        ends = dict.fromkeys(f"{value:.0%}" for value in (min(values), max(values)))
        lines.append(f"- {escape(label)}: **{' to '.join(ends)}**. {escape(text or 'Not profiled.')}")
    return lines


def counted(found: Sequence[Standing]) -> list[str]:
    """What each floor consists of, once per workload."""
    seen = {standing.aim.task: standing.aim.work.text for standing in found if standing.aim.work}
    return [f"- {escape(task)}: {escape(text)}." for task, text in seen.items()]


def section(content: Mapping[str, Any]) -> list[str]:
    """One result file as Markdown, whichever of the formats it has."""
    where = [content.get("device") or f"{content.get('machine', '')}, {content.get('cores', '?')} cores"]
    where += [f"{name} {version}" for name, version in content.get("versions", {}).items()]
    measured = ["", f"Measured on: {escape(', '.join(where))}."]
    rows = content.get("rows")
    if "beyond_sampling" in content:
        return [*audit(content), *measured]
    if rows is None:
        return accuracies(content)
    if "experiment" in content:
        return [escape(content["experiment"]), "", *last_steps(rows), "", f"Measured on: {escape(where[0])}."]
    if rows and "question" in rows[0]:
        return [escape(content["about"]), "", *before_and_after(rows), *measured]
    body = comparisons(rows) if rows and "workload" in rows[0] else table(rows)
    return [*body, *measured]


def audit(content: Mapping[str, Any]) -> list[str]:
    """What an audit costs, in forward passes of the same network."""
    return [
        f"An audit of a network of the size of ResNet-18 on {content['images']} images takes "
        f"{content['beyond_sampling']:.2f} times one forward pass beyond its sampled passes (promised: at most 10); "
        f"each sampled pass takes {content['sampled_pass']:.2f}. One pass took {seconds(content['forward_seconds'])}.",
        *(
            f"Peak memory of an audit of one batch of {escape(name.replace('_', ' '))}: {row['ratio']:.2f} times that "
            f"of a training step, {row['audit'] / 2**20:.0f} MiB (promised: at most 1.3)."
            for name, row in content.get("memory", {}).items()
        ),
    ]


def before_and_after(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Small questions to two versions; what lost more than a tenth is marked."""
    return table(
        {
            "question": row["question"],
            "before": seconds(row["old"]),
            "after": seconds(row["new"]),
            "after / before": f"{row['ratio']:.2f}{' (slower)' if row['ratio'] > 1.1 else ''}",
            "quartiles": f"{row['low']:.2f} to {row['high']:.2f}",
        }
        for row in rows
    )


def comparisons(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows of ours against an alternative; numbers are missing where an alternative was absent."""
    return table(
        {
            "workload": row["workload"],
            "droptics": seconds(row["ours"]) if row["ours"] else "",
            "alternative": seconds(row["alternative"]) if row["alternative"] else "",
            "ratio": f"{row['ratio']:.3g}" if row["ratio"] else "",
            "agreement of results": row["agreement"],
            "share of the floor": f"{row['floor'] / row['ours']:.0%}" if row.get("floor") and row["ours"] else "",
            "note": row.get("note", ""),
        }
        for row in rows
    )


def accuracies(content: Mapping[str, Any]) -> list[str]:
    """Entries "data / method / seed" with their errors, averaged over the seeds."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for key, entry in content.items():
        if isinstance(entry, Mapping) and "rmse" in entry and key.count(" / ") == 2:
            data, method, _ = key.split(" / ")
            groups[data, method].append(entry)
    return table(
        {
            "data": data,
            "method": method,
            "test RMSE": f"{mean(entry['rmse'] for entry in entries):.4f}",
            "test MAE": f"{mean(entry['mae'] for entry in entries):.4f}",
            "splits": len(entries),
        }
        for (data, method), entries in groups.items()
    )


def last_steps(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Accuracies of sub-networks at the last recorded step, averaged over the seeds."""
    last: dict[tuple[int, float, int], Mapping[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["step"]):
        last[row["width"], row["drop"], row["seed"]] = row
    groups: dict[tuple[int, float], list[Mapping[str, Any]]] = defaultdict(list)
    for (width, drop, _), row in sorted(last.items()):
        groups[width, drop].append(row)
    names = ("full", "visited", "unvisited")
    return table(
        {"width": width, "drop": drop, "seeds": len(found)}
        | {f"accuracy, {name}": f"{mean(row[name] for row in found):.4f}" for name in names}
        for (width, drop), found in groups.items()
    )
