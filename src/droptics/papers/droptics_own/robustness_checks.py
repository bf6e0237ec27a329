"""What claims on results of attacks compare: dictionaries, JSON, tables and pages beside their numbers."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from droptics.attacks import Margin, Pgd, Robustness, Threat, robustness
from droptics.attacks.robustness import Randomness, Stage
from droptics.estimates import Estimate
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor
from droptics.plots import bars


def _result(found_by: list[int], warnings: tuple[str, ...] = (), randomness: Any = None) -> Robustness:
    stages = [Stage("A(steps=3)", 4, 2, 40, 0, 1.25), Stage("B", 2, 1, 7, 30, 0.5)]
    clean, robust = (
        Estimate(tensor(0.8), tensor(0.5), tensor(0.9), "x", 3, confidence=0.95),
        Estimate(tensor(0.2), tensor(0.1), tensor(0.6), "x", 3, confidence=0.95),
    )
    threat = Threat("linf", 8 / 255, (0, 1))
    return Robustness(clean, robust, normal(1, 5, 2), torch.tensor(found_by), stages, threat, warnings, randomness)


def _another() -> Robustness:
    """A result that differs in every number, without a box, by another second attack."""
    clean, robust = (
        Estimate(tensor(0.7), tensor(0.4), tensor(0.75), "x", 3, confidence=0.99),
        Estimate(tensor(0.3), tensor(0.2), tensor(0.4), "x", 3, confidence=0.99),
    )
    stages = [Stage("A(steps=3)", 7, 3, 41, 1, 2.0), Stage("C", 4, 1, 8, 31, 3.5)]
    found_by = torch.tensor([-1, -1, -1, 0, 0, 0, 1, 2, 2, 2])
    return Robustness(clean, robust, normal(2, 10, 2), found_by, stages, Threat("l2", 0.5))


def told_robustness(scale: float) -> list[Comparison]:
    """Results of ensembles as dictionaries, JSON, tables and pages hold their numbers."""
    found: list[Comparison] = []
    random = Randomness(16, False, 32, 0.25, 0.04)
    one, other = _result([-1, 0, 0, 1, 2], ("weak",), random), _another()
    found.append(compare(one.gradients, "==", 47 * scale, "gradients of all stages"))
    found.append(compare(one.queries, "==", 30 * scale, "queries of all stages"))
    content = json.loads(one.to_json())
    found.append(same(content, json.loads(json.dumps(one.to_dict())), "JSON", scale))
    wanted = {
        "examples": 5,
        "threat": {"norm": "linf", "radius": 8 / 255, "box": [0.0, 1.0]},
        "clean_accuracy": {"value": 0.8, "lower": 0.5, "upper": 0.9},
        "robust_accuracy": {"value": 0.2, "lower": 0.1, "upper": 0.6},
        "confidence": 0.95,
        "warnings": ["weak"],
        "randomness": {"masks": 16, "exact": False, "fresh": 32, "single": 0.25, "overstated": 0.04},
    }
    found.append(same({key: content[key] for key in wanted}, wanted, "fields", scale))
    stage = {"method": "A(steps=3)", "attacked": 4, "found": 2, "gradients": 40, "queries": 0, "seconds": 1.25}
    found.append(same((content["stages"][0], len(content["stages"])), (stage, 2), "stages", scale))
    found.append(same(content["stages"][1]["method"], "B", "stages in their order", scale))
    told = other.to_dict()
    found.append(same((told["randomness"], told["warnings"]), (None, []), "nothing random, nothing to warn of", scale))
    threat = {"norm": "l2", "radius": 0.5, "box": None}
    found.append(same((told["threat"], told["confidence"]), (threat, 0.99), "no box, another confidence", scale))
    found.append(same([told["examples"], other.gradients, other.queries], [10, 49, 32], "numbers of another", scale))
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
    wanted_rows = [
        ["examples", "5", "10"],
        ["clean accuracy", "80.0 % [50.0, 90.0]", "70.0 % [40.0, 75.0]"],
        ["robust accuracy", "20.0 % [10.0, 60.0]", "30.0 % [20.0, 40.0]"],
        ["found by A(steps=3)", "2", "3"],
        ["found by B", "1"],
        ["found by C", "1"],
    ]
    for row in wanted_rows:
        found.append(same(row in rows, True, f"side by side: {row[0]}", scale))
    found.append(
        same("warning about first: weak" in table and "about second" not in table, True, "whose warning", scale)
    )
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(robustness, "bars", wraps=bars) as drawn:
        page = one.to_html(Path(folder) / "page.html").read_text(encoding="utf-8")
        left = drawn.call_args.args[0]["accuracy"]
    found.append(compare(left, "==", [scale * share for share in (0.8, 0.4, 0.2)], "accuracy that is left, drawn"))
    cells_of = re.findall(r"<tr><td>(.*?)</td>" + r'<td class="n">(.*?)</td>' * 5, page)
    wanted_cells = [("A(steps=3)", "4", "2", "40", "0", "1.2"), ("B", "2", "1", "7", "30", "0.5")]
    found.append(same(cells_of, wanted_cells, "rows of the page", scale))
    for words in ("Robust accuracy 20.0 %", "Clean accuracy 80.0 %", "[10.0, 60.0] % at 95 %", "inside [0, 1]"):
        found.append(same(words in page, True, f"on the page: {words}", scale))
    for words in ('<div class="card">weak</div>', str(random).replace("'", "&#39;"), "data:image/png"):
        found.append(same(words in page, True, f"on the page: {words[:30]}", scale))
    curve = Pgd(Margin(), steps=3)
    found.append(same((curve.steps, type(curve.loss).__name__), (3, "Margin"), "a method in words", scale))
    return found
