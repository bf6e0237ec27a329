"""The page on the strength of attacks: what `bench_robustness.py` and `bench_defences.py` left in their records."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markup import escape, table

from standings import seconds

Rows = Sequence[Mapping[str, Any]]

INTRODUCTION = """# How strong the attacks are

Measured by `benchmarks/bench_robustness.py` and `benchmarks/bench_defences.py`; this page is made from the files they
wrote. Networks are our own, trained with seed 0: a perceptron (784-128-10) and a CNN on MNIST and Fashion-MNIST, a
PreAct ResNet-18 on CIFAR-10, each plainly and against linf perturbations. Robust accuracies are those of the first
1,000 test images unless a row says otherwise. On a GPU both sides ran in one process on the same tensors.
"""
ENSEMBLE = """
## The ensemble beside AutoAttack

`robust_accuracy` and torchattacks' `AutoAttack(version="standard")`, nothing chosen on either side. The latter takes
10 steps where the published one takes 100, and the same 5,000 queries. Ours ran before and after it, and the slower
run counts. Where AutoAttack takes less than five seconds, because no image is left, both ran twice and the second time
counts: libraries prepare themselves once for every new size of a batch, which takes longer than the attack.
"""
PIECES = """
## Single attacks at equal budgets

Mean and standard deviation of the robust accuracy over five seeds. The last column is the difference of the means, ours
less theirs, in standard errors of such a difference; negative where ours finds more.
"""
ORDER = """
## l1

Mean and standard deviation over five seeds. Published (Croce and Hein 2021) is that ascent with adaptive sparse steps
finds more than plain ascent at the same budget.
"""
LOSSES = """
## By the loss that is climbed

PGD of 40 steps from a random start, mean and standard deviation of the robust accuracy over five seeds. "Every" spends
the steps on each wrong class in turn.
"""
PGD = """
## PGD, 40 equal steps

Both from the input, batch and steps the same, in turns; the median of nine ratios, of 31 for perceptrons. Ours
includes its verification.
"""
DEFENCES = """
## Defences that are none

A perceptron on scikit-learn's digits, hardened against linf 0.1, and the same behind something that hides gradients or
draws at random. PGD alone is cross-entropy as it stands, 40 steps, the last iterate; 300 images.
"""
FOUND = re.compile(r"robust ([\d.]+) and ([\d.]+)")
LEAST = re.compile(r"one gradient and one pass ([\d.]+) s")
STEP = r"Fgsm\(Margin\('greedy'\), steps=1\) \d+ in [\d.]+ s; "
BEGIN = re.compile(f"found by {STEP}{STEP}Pgd")  # how it begins on a GPU, perceptrons apart
LAST = re.compile(r"Square\(queries=\d+\) \d+ in [\d.]+ s; Apgd\(Margin\('every'\)")  # how the ensemble ends
DOUBT = re.compile(r"gradients vanish[^:,]*|a search without gradients[^:]*")


def robustness_page(results: Path) -> str:
    """The records as Markdown; a record that is not there is left out."""
    lines = [INTRODUCTION]
    for title, kind, show in (
        (ENSEMBLE, "", ensemble),
        (PIECES, "_pieces", pieces),
        (ORDER, "_order", order),
        (LOSSES, "_losses", order),
        (PGD, "_pgd", pgd),
    ):
        found = {name: results / f"{name}{kind}.json" for name in ("robustness_gpu", "robustness")}
        parts = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in found.items() if path.exists()}
        lines += [title] if parts else []
        for part in parts.values():
            lines += [*show(part["rows"]), "", f"Measured on: {place(part)}.", ""]
    record = results / "defences.json"
    if record.exists():
        part = json.loads(record.read_text(encoding="utf-8"))
        lines += [DEFENCES, *defences(part["rows"]), "", f"Measured on: {place(part)}."]
    return "\n".join(lines) + "\n"


def place(part: Mapping[str, Any]) -> str:
    """Where a record was made."""
    where = part.get("device") or f"{part['machine']}, {part['cores']} cores"
    known = [f"{name} {part['versions'][name]}" for name in ("torch", "torchattacks") if name in part["versions"]]
    return escape(", ".join([where, *known]))


def ensemble(rows: Rows) -> list[str]:
    """Both robust accuracies and times, and on how many networks ours is at most theirs."""
    measured = [row for row in rows if row["ratio"]]
    begun = {row["workload"] for row in measured if BEGIN.search(row.get("note", ""))}
    whole = [row for row in measured if not begun or "-mlp-" in row["workload"] or row["workload"] in begun]
    before = len(measured) - sum(bool(LAST.search(row.get("note", ""))) for row in whole)
    shown, lower, faster, least = [], 0, 0, []
    for row in measured:
        network, threat = row["workload"].split(", ", 1)
        ours, theirs = map(float, FOUND.search(row["agreement"]).groups())  # type: ignore[union-attr]
        lower, faster = lower + (ours <= theirs), faster + (row["ratio"] >= 5)
        passes = LEAST.search(row.get("note", ""))
        if passes and row["ratio"] < 5:
            share = 500 * float(passes[1]) / row["alternative"]
            least.append(f"{share:.0f} % ({network}, {threat.split()[0]})")
        shown.append(
            {
                "network": network,
                "threat": threat,
                "clean": re.search(r"clean ([\d.]+)", row["agreement"]).group(1),  # type: ignore[union-attr]
                "ours": f"{ours:.3f}",
                "AutoAttack": f"{theirs:.3f}",
                "our time": seconds(row["ours"]),
                "its time": seconds(row["alternative"]),
                "times as fast": f"{row['ratio']:.1f}",
            }
        )
    said = (
        f"At most AutoAttack's robust accuracy in {lower} of {len(shown)} rows, five times as fast or more in {faster}."
        + (f" {before} of them are of an earlier ensemble, of other attacks." if before else "")
        + (
            " Where it is less, one gradient of every image and one pass, without which nothing is found, take so much "
            f"of a fifth of AutoAttack's time: {', '.join(least)}."
            if least
            else ""
        )
    )
    return [*table(shown), "", said]


def pieces(rows: Rows) -> list[str]:
    """Single attacks: both means, and by how much they differ."""
    shown, apart = [], []
    for row in rows:
        ours, theirs = json.loads(row["note"])
        network, threat, *more = row["workload"].split(", ")
        noise = ((statistics.variance(ours) + statistics.variance(theirs)) / len(ours)) ** 0.5
        gap = statistics.mean(ours) - statistics.mean(theirs)
        apart.append(gap / noise if noise else 0.0 if abs(gap) < 1e-9 else float("inf") * gap)
        shown.append(
            {
                "network": network,
                "threat": threat,
                "attack": ", ".join(more),
                "ours": spread(ours),
                "torchattacks": spread(theirs),
                "times as fast": f"{row['ratio']:.1f}",
                "difference": f"{gap:+.4f} ({apart[-1]:+.1f})",
            }
        )
    less, more_found = (sum(sign * value > 2 for value in apart) for sign in (1, -1))
    said = (
        f"Of {len(shown)} comparisons ours finds fewer by more than two standard errors in {less}, more in "
        f"{more_found}; the others are within them."
    )
    return [*table(shown), "", said]


def order(rows: Rows) -> list[str]:
    """Attacks of ours alone, one row each."""
    shown = []
    for row in rows:
        network, threat, *more = row["workload"].split(", ")
        found = json.loads(row["note"])
        cells = {"network": network, "threat": threat, "attack": ", ".join(more), "robust accuracy": spread(found)}
        shown.append(cells | {"time": seconds(row["ours"])})
    return table(shown)


def pgd(rows: Rows) -> list[str]:
    """Times of the same search."""
    shown = []
    for row in rows:
        network, threat, *more = row["workload"].split(", ")
        ours, theirs = FOUND.search(row["agreement"]).groups()  # type: ignore[union-attr]
        shown.append(
            {
                "network": network,
                "threat": threat,
                "what": ", ".join(more),
                "ours": seconds(row["ours"]),
                "torchattacks": seconds(row["alternative"]),
                "times as fast": f"{row['ratio']:.1f}",
                "robust accuracies": f"{ours} and {theirs}",
            }
        )
    return table(shown)


def defences(rows: Rows) -> list[str]:
    """What one attack says, what the ensemble says, and its doubts."""
    shown = []
    for row in rows:
        alone, *others = row["agreement"].split(", ")
        parts = [alone.removeprefix("PGD alone "), others[0].removeprefix("ensemble ")]
        cells = {"defence": row["workload"], "PGD alone says": parts[0], "the ensemble says": parts[1]}
        shown.append(cells | {"and warns": "; ".join([*DOUBT.findall(row["note"]), *others[1:]])})
    return table(shown)


def spread(found: Sequence[float]) -> str:
    """Mean and standard deviation over the seeds."""
    return f"{statistics.mean(found):.4f} ± {statistics.stdev(found):.4f}"
