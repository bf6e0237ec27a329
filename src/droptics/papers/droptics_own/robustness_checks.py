"""What claims on results of attacks compare: dictionaries, JSON, tables and pages beside their numbers."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from droptics.attacks import Margin, Pgd, Robustness, Threat
from droptics.attacks.robustness import Randomness, Stage
from droptics.estimates import Estimate
from droptics.evidence.claims import Comparison
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor


def _result(found_by: list[int], warnings: tuple[str, ...] = (), randomness: Any = None) -> Robustness:
    stages = [Stage("A(steps=3)", 4, 2, 40, 0, 1.25), Stage("B", 2, 1, 7, 30, 0.5)]
    clean, robust = (
        Estimate(tensor(0.8), tensor(0.5), tensor(0.9), "x", 3),
        Estimate(tensor(0.2), tensor(0.1), tensor(0.6), "x", 3),
    )
    threat = Threat("linf", 8 / 255, (0, 1))
    return Robustness(clean, robust, normal(1, 5, 2), torch.tensor(found_by), stages, threat, warnings, randomness)


def told_robustness(scale: float) -> list[Comparison]:
    """Results of ensembles as dictionaries, JSON, tables and pages hold their numbers."""
    found: list[Comparison] = []
    random = Randomness(16, False, 32, 0.25, 0.04)
    one, other = _result([-1, 0, 0, 1, 2], ("weak",), random), _result([-1, 0, 0, 1, 2])
    found.append(same(one.gradients, 47, "gradients of all stages", scale))
    found.append(same(one.queries, 30, "queries of all stages", scale))
    content = json.loads(one.to_json())
    found.append(same(content, json.loads(json.dumps(one.to_dict())), "JSON", scale))
    wanted = {
        "examples": 5,
        "threat": {"norm": "linf", "radius": 8 / 255, "box": [0.0, 1.0]},
        "clean_accuracy": {"value": 0.8, "lower": 0.5, "upper": 0.9},
        "robust_accuracy": {"value": 0.2, "lower": 0.1, "upper": 0.6},
        "confidence": float(one.robust.confidence),
        "warnings": ["weak"],
        "randomness": {"masks": 16, "exact": False, "fresh": 32, "single": 0.25, "overstated": 0.04},
    }
    found.append(same({key: content[key] for key in wanted}, wanted, "fields", scale))
    stage = {"method": "A(steps=3)", "attacked": 4, "found": 2, "gradients": 40, "queries": 0, "seconds": 1.25}
    found.append(same((content["stages"][0], len(content["stages"])), (stage, 2), "stages", scale))
    found.append(same(other.to_dict()["randomness"], None, "nothing random", scale))
    text = str(one)
    lines = [" ".join(part.strip(" |\u2502") for part in line.split()) for line in text.splitlines()]
    for words in (
        "clean accuracy 80.0 % [50.0, 90.0], robust accuracy 20.0 % [10.0, 60.0]",
        "5 examples, linf of radius 0.0313725",
        "warning: weak",
    ):
        found.append(same(any(words in line for line in lines), True, f"in words: {words}", scale))
    cells = [
        [cell.strip() for cell in line.replace("\u2502", "|").split("|") if cell.strip()] for line in text.splitlines()
    ]
    found.append(same(["A(steps=3)", "4", "2", "40", "0", "1.2"] in cells, True, "a row of the table", scale))
    whole = " ".join(text.split())
    spoken = (
        "the attacks climbed the mean prediction over 16 masks, judged by 32 others. A single random pass gets 25.0 %"
    )
    found.append(
        same(spoken in whole and "robust accuracy by 4.0 points." in whole, True, "randomness in words", scale)
    )
    exact = str(Randomness(16, True, 16, 0.5, 0.0)), str(Randomness(0, True, 16, 0.5, 0.0))
    found.append(
        same(("over all 16 masks" in exact[0], "in closed form" in exact[1]), (True, True), "exact means", scale)
    )
    table = Robustness.side_by_side({"first": one, "second": other})
    rows = [
        [cell.strip() for cell in line.replace("\u2502", "|").split("|") if cell.strip()] for line in table.splitlines()
    ]
    found.append(same(["robust accuracy", *["20.0 % [10.0, 60.0]"] * 2] in rows, True, "side by side", scale))
    found.append(
        same(["found by B", "1", "1"] in rows and ["examples", "5", "5"] in rows, True, "what each found", scale)
    )
    found.append(
        same("warning about first: weak" in table and "about second" not in table, True, "whose warning", scale)
    )
    with tempfile.TemporaryDirectory() as folder:
        page = one.to_html(Path(folder) / "page.html").read_text(encoding="utf-8")
    found.append(same("80.0" in page and "A(steps=3)" in page and "data:image/png" in page, True, "a page", scale))
    curve = Pgd(Margin(), steps=3)
    found.append(same((curve.steps, type(curve.loss).__name__), (3, "Margin"), "a method in words", scale))
    return found
