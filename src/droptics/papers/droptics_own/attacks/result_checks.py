"""What claims on results of attacks compare: dictionaries, JSON, tables and pages beside their numbers."""

from __future__ import annotations

import html
import itertools
import json
import re
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from scipy.stats import binom
from torch import nn

from droptics.attacks import Bim, Fgsm, Margin, Pgd, Robustness, Threat, attack, robustness
from droptics.attacks.robustness import Randomness, Stage
from droptics.data import Sample
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
    """A result that differs in every number, without a box, by another second attack and the first one again."""
    clean, robust = (
        Estimate(tensor(0.7137), tensor(0.4363), tensor(0.7618), "x", 3, confidence=0.99),
        Estimate(tensor(0.1123), tensor(0.0456), tensor(0.4321), "x", 3, confidence=0.99),
    )
    stages = [Stage("A(steps=3)", 7, 3, 41, 1, 2.0), Stage("C", 4, 1, 8, 31, 3.5), Stage("A(steps=3)", 3, 2, 5, 6, 0.7)]
    found_by = torch.tensor([-1, -1, -1, 0, 0, 0, 1, 2, 2, 3])
    return Robustness(clean, robust, normal(2, 10, 2), found_by, stages, Threat("l2", 0.5))


def _rows(text: str) -> list[list[str]]:
    """The cells of every line of a table, empty ones, too."""
    lines = [line.strip().replace("\u2502", "|") for line in text.splitlines()]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines if line.startswith("|")]


def _page(result: Robustness) -> tuple[str, list[float]]:
    """The page of a result, and what its picture draws."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(robustness, "bars", wraps=bars) as drawn:
        page = result.to_html(Path(folder) / "page.html").read_text(encoding="utf-8")
    return html.unescape(page), drawn.call_args.args[0]["accuracy"]


def told_robustness(scale: float) -> list[Comparison]:
    """All fields of an attack; results of ensembles as dictionaries, JSON, tables and pages hold their numbers."""
    random = Randomness(16, False, 32, 0.25, -0.04)
    one, other = _result([-1, 0, 0, 1, 2], ("weak", "odd"), random), _another()
    found = [
        compare([one.gradients, other.gradients], "==", tensor([47.0, 54.0]) * scale, "gradients of all stages"),
        compare([one.queries, other.queries], "==", tensor([30.0, 38.0]) * scale, "queries of all stages"),
    ]
    first = {
        "examples": 5,
        "threat": {"norm": "linf", "radius": 8 / 255, "box": [0.0, 1.0]},
        "clean_accuracy": {"value": 0.8, "lower": 0.5, "upper": 0.9},
        "robust_accuracy": {"value": 0.2, "lower": 0.1, "upper": 0.6},
        "confidence": 0.95,
        "stages": [
            {"method": "A(steps=3)", "attacked": 4, "found": 2, "gradients": 40, "queries": 0, "seconds": 1.25},
            {"method": "B", "attacked": 2, "found": 1, "gradients": 7, "queries": 30, "seconds": 0.5},
        ],
        "warnings": ["weak", "odd"],
        "randomness": {"masks": 16, "exact": False, "fresh": 32, "single": 0.25, "overstated": -0.04},
    }
    second = {
        "examples": 10,
        "threat": {"norm": "l2", "radius": 0.5, "box": None},
        "clean_accuracy": {"value": 0.7137, "lower": 0.4363, "upper": 0.7618},
        "robust_accuracy": {"value": 0.1123, "lower": 0.0456, "upper": 0.4321},
        "confidence": 0.99,
        "stages": [
            {"method": "A(steps=3)", "attacked": 7, "found": 3, "gradients": 41, "queries": 1, "seconds": 2.0},
            {"method": "C", "attacked": 4, "found": 1, "gradients": 8, "queries": 31, "seconds": 3.5},
            {"method": "A(steps=3)", "attacked": 3, "found": 2, "gradients": 5, "queries": 6, "seconds": 0.7},
        ],
        "warnings": [],
        "randomness": None,
    }
    words = {
        "first": ["clean accuracy 80.0 % [50.0, 90.0], robust accuracy 20.0 % [10.0, 60.0]", "warning: weak"],
        "second": ["clean accuracy 71.4 % [43.6, 76.2], robust accuracy 11.2 % [4.6, 43.2]"],
    }
    words["first"] += ["5 examples, linf of radius 0.0313725", "warning: odd"]
    words["second"] += ["10 examples, l2 of radius 0.5"]
    table = {
        "first": [["A(steps=3)", "4", "2", "40", "0", "1.2"], ["B", "2", "1", "7", "30", "0.5"]],
        "second": [
            ["A(steps=3)", "7", "3", "41", "1", "2.0"],
            ["C", "4", "1", "8", "31", "3.5"],
            ["A(steps=3)", "3", "2", "5", "6", "0.7"],
        ],
    }
    spoken = (
        "the attacks climbed the mean prediction over 16 masks, judged by 32 others. A single random pass gets 25.0 % "
        "right at these points. The same attacks without the mean would have overstated the robust accuracy by -4.0"
    )
    written = {
        "first": [
            "Robust accuracy 20.0 %",
            "5 examples under linf attacks of radius 0.0313725 inside [0, 1].",
            "Clean accuracy 80.0 %",
            "[10.0, 60.0] % at 95 %",
            '<div class="card">weak</div> <div class="card">odd</div>',
            spoken,
        ],
        "second": [
            "Robust accuracy 11.2 %",
            "10 examples under l2 attacks of radius 0.5. Clean accuracy 71.4 %",
            "[4.6, 43.2] % at 99 %",
        ],
    }
    left = {"first": [0.8, 0.4, 0.2], "second": [0.7137, 0.4137, 0.3137, 0.1137]}
    for name, result, wanted in (("first", one, first), ("second", other, second)):
        found.append(same(json.loads(json.dumps(result.to_dict())), wanted, f"dictionary of the {name}", scale))
        found.append(same(json.loads(result.to_json()), wanted, f"JSON of the {name}", scale))
        text, (page, drawn) = str(result), _page(result)
        whole, plain = " ".join(text.split()), " ".join(page.split())
        found += [same(part in whole, True, f"in words: {part}", scale) for part in words[name]]
        found.append(same(_rows(text), table[name], f"table of the {name}", scale))
        found.append(same(spoken in whole, name == "first", "randomness in words", scale))
        found += [same(part in plain, True, f"on the page: {part[:40]}", scale) for part in written[name]]
        cells = re.findall(r"<tr><td>(.*?)</td>" + r'<td class="n">(.*?)</td>' * 5, page)
        found.append(same([list(row) for row in cells], table[name], f"rows of the page of the {name}", scale))
        inside = json.loads(page.partition("<pre>")[2].partition("</pre>")[0])
        found.append(same(inside, wanted, f"JSON on the page of the {name}", scale))
        found.append(same("data:image/png" in page, True, "a picture on the page", scale))
        found.append(compare(drawn, "==", tensor(left[name]) * scale, f"accuracy that is left, {name}"))
    exact = str(Randomness(16, True, 16, 0.5, 0.0)), str(Randomness(0, True, 16, 0.5, 0.0))
    found.append(
        same(("over all 16 masks" in exact[0], "in closed form" in exact[1]), (True, True), "exact means", scale)
    )
    beside = Robustness.side_by_side({"first": one, "second": other})
    rows = [
        ["examples", "5", "10"],
        ["clean accuracy", "80.0 % [50.0, 90.0]", "71.4 % [43.6, 76.2]"],
        ["robust accuracy", "20.0 % [10.0, 60.0]", "11.2 % [4.6, 43.2]"],
        ["found by A(steps=3)", "2", "5"],
        ["found by B", "1", ""],
        ["found by C", "", "1"],
    ]
    found.append(same(_rows(beside), rows, "side by side", scale))
    warned = [line.strip() for line in beside.splitlines() if "about" in line]
    found.append(same(warned, ["warning about first: weak", "warning about first: odd"], "whose warnings", scale))
    curve = Pgd(Margin(), steps=3)
    found.append(same((curve.steps, type(curve.loss).__name__), (3, "Margin"), "a method in words", scale))
    return [*found, *_answered(scale)]


def _answered(scale: float) -> list[Comparison]:
    """All that an attack says of two classes on a line: each step of 1/10 brings a point nearer to 0, and across."""
    found: list[Comparison] = []
    line = tensor([[0.15, 0.0], [0.25, 0.0], [0.45, 0.0], [0.85, 0.0], [-0.05, 0.0]])
    head = nn.Linear(2, 2, bias=False).double().requires_grad_(False)
    head.weight.copy_(tensor([[1.0, 0.0], [-1.0, 0.0]]))  # the margin is twice the first coordinate
    data, threat = Sample(line, torch.zeros(5).long()), Threat("linf", 0.3, (-1, 1))
    start = [float(x) for x in line[:, 0]]
    cases: list[tuple[Any, list[float], bool]] = [
        (Fgsm(), [0.3], False),
        (Bim(steps=3, step=0.1), [0.1, 0.2, 0.3], False),
        (Pgd(steps=3, step=0.1), [0.1, 0.2, 0.3], True),
        (Pgd(steps=3, step=0.1, stop="never"), [0.1, 0.2, 0.3], False),
        (Pgd(Margin(), steps=2, step=0.14), [0.14, 0.28], True),
    ]
    for (method, moves, leaves), batch in itertools.product(cases, (1000, 2)):
        told = attack(head, data, threat, method, batch=batch)
        walks = [[x, *(x - move for move in moves)] for x in start]
        # who leaves stays at the first point across, and needs no gradient there
        ends = [next((x for x in walk if x < 0 and leaves), walk[-1]) for walk in walks]
        passes = [sum(not leaves or x >= 0 for x in walk[:-1]) for walk in walks]
        rates = [sum(walk[k] < 0 for walk in walks) / 5 for k in range(len(moves) + 1)]
        name = f"{method}, {batch} at a time"
        margins = 2 * tensor(ends)
        losses = -margins if isinstance(method.loss, Margin) else torch.log1p(torch.exp(-margins))
        found += [
            compare(told.inputs[:, 0], "==", scale * tensor(ends), f"points, {name}"),
            compare(1 + told.inputs[:, 1], "==", scale, f"the other coordinate, {name}"),
            compare(told.margins, "==", scale * margins, f"margins, {name}"),
            compare(told.losses, "==", scale * losses, f"losses, {name}"),
            compare(told.radius, "==", scale * (tensor(start) - tensor(ends)), f"distances, {name}"),
            compare(1.0 + told.success, "==", scale * (1.0 + (tensor(ends) < 0)), f"who is fooled, {name}"),
            compare(1.0 + told.clean_correct, "==", scale * tensor([2.0, 2, 2, 2, 1]), f"right before, {name}"),
            compare(told.gradients, "==", scale * sum(passes), f"gradients, {name}"),
            same((told.method, told.threat, told.queries, told.warnings), (method, threat, 0, ()), "of what", scale),
            same(len(told.rates), len(rates), f"looks, {name}"),
            compare(told.rates, "==", scale * tensor(rates), f"shares after each step, {name}"),
            compare(told.clean_accuracy().value, "==", scale * 0.8, f"accuracy, {name}"),
            compare(told.robust_accuracy().value, "==", scale * (1 - rates[-1]), f"robust accuracy, {name}"),
        ]
        for confidence in (0.95, 0.6):
            for share, count in (
                (told.clean_accuracy(confidence), 4),
                (told.robust_accuracy(confidence), round(5 * (1 - rates[-1]))),
            ):
                # beyond its ends as many or more of five, and as few or fewer, have half of what is left each
                tails = binom.sf(count - 1, 5, float(share.lower)), binom.cdf(count, 5, float(share.upper))
                wanted = scale * (1 - confidence) / 2
                found.append(compare(tails, "==", [wanted] * 2, f"tails of {count} of 5, {confidence}, {name}"))
    return found
