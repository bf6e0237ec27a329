"""What claims on the mechanism of evidence compare: verdicts, tables, pages and engines on a toy work."""

from __future__ import annotations

import contextvars
import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_info, threadpool_limits  # type: ignore[import-untyped]

from droptics.evidence.claims import Claim, Comparison, Erratum, Result, compare, decide, nearest, select
from droptics.evidence.controls import run
from droptics.evidence.engines import Local, Task, engine, perform
from droptics.evidence.formulas import mathml
from droptics.evidence.pages import SOURCES, claims_page, errata_page, said
from droptics.evidence.provenance import here, places
from droptics.evidence.rows import as_csv, plain_value
from droptics.papers.columns import column, curve, distinct, mean
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.summaries import summary_pages


def _good() -> list[Comparison]:
    return [compare(1.0, "==", 1.0, "one"), compare(2.0, "<", 3.0, "less")]


def _bad() -> list[Comparison]:
    return [compare(1.0, "==", 1.0, "one"), compare(4.0, "<", 3.0, "less")]


def _crash() -> list[Comparison]:
    raise ArithmeticError("no number")


BASE = Claim("toy-thm1", "Toy, p. 1", "One is one.", check=_good, control=_bad, objects=("compare",), note="Note.")
ERRATUM = Erratum("x = ``two''", "Read so.", "It is one.", "toy-thm1", "print(2)\nprint(1)")
WRONG = replace(BASE, id="toy-thm2", verdict="false", check=_bad, control=_good, erratum=ERRATUM)
SLIP = replace(WRONG, id="toy-thm3", verdict="slip", erratum=replace(ERRATUM, inexact="roots"))
COND = replace(BASE, id="toy-thm4", verdict="holds only if", outside=_bad, note="If | so.")


def decided_verdicts(scale: float) -> list[Comparison]:
    """Comparisons hold by one rule of tolerance, and verdicts follow from check, control and what stands beside."""
    # first, since those below that fail by design would end the control
    found = [compare(compare(1e-12, "==", 0.0, precision=1e-3, scale=7.0).tolerance, "==", scale * 7e-3, "scale")]
    tolerance = 1e-9 * 5.0
    for relation, gaps in {
        "==": {-1.5: False, -0.5: True, 0.5: True, 1.5: False},
        "!=": {-1.5: True, -0.5: False, 0.5: False, 1.5: True},
        "<=": {-1.5: True, 0.5: True, 1.5: False},
        ">=": {1.5: True, -0.5: True, -1.5: False},
        "<": {-1.5: True, -0.5: False, 1.5: False},
        ">": {1.5: True, 0.5: False, -1.5: False},
    }.items():
        for gap, holds in gaps.items():
            one = compare(5.0 + gap * tolerance, relation, 5.0)  # type: ignore[arg-type]
            if one.holds is not holds:  # rules that are wrong must not judge themselves
                raise ArithmeticError(f"{relation} at {gap} tolerances")
            found.append(same(one.holds, holds, f"{relation} at {gap} tolerances", scale))
    for left, relation, right, holds in (
        (math.nan, "==", math.nan, False),
        ([1.0, math.nan], "==", [1.0, 2.0], False),
        (math.inf, "==", math.inf, True),
        (math.inf, "<=", 1.0, False),
        (1.0, "<=", math.inf, True),
        (-math.inf, "<", 0.0, True),
    ):
        one = compare(left, relation, right)  # type: ignore[arg-type]
        found.append(same(one.holds, holds, f"{left} {relation} {right}", scale))
    table = torch.tensor([[1.0, 2.0], [7.0, -4.0]])
    for relation, worst in {"<=": 7.0, ">=": -4.0, "==": -4.0, "!=": 2.0}.items():
        told = compare(table, relation, np.array([2.5, 2.0]), precision=0.0)  # type: ignore[arg-type]
        found.append(same(told.left, worst, f"worst entry for {relation}", scale))
    found.append(compare(compare(table, "==", table).tolerance, "==", scale * 7e-9, "tolerance of a table"))
    for name, one in (
        ("left", compare(-70.0, "==", 2.0)),
        ("right", compare(2.0, "==", -70.0)),
        ("left of tables", compare(10 * table, "<=", torch.ones(2, 2))),
        ("right of tables", compare(torch.ones(2, 2), "<=", 10 * table)),
    ):
        found.append(compare(one.tolerance, "==", scale * 7e-8, f"the larger side counts, {name}", scale=0.0))
    found.append(refuses(lambda: compare(table, "==", torch.ones(3)), "of one shape"))
    found.append(refuses(lambda: compare([], "==", 1.0), "got none"))
    found.append(refuses(lambda: compare("a", "==", 1.0), "left must be a number"))
    found.append(same(str(compare(1.0, "<", 3.0, "less")), "less: 1 < 3", "a comparison in words", scale))
    found.append(same(str(compare(4.0, "<", 3.0)), "4 < 3   FAILS", "one that fails", scale))
    for changes, verdict in (
        ({}, "holds"),
        ({"check": _bad}, "undecided"),
        ({"control": _good}, "undecided"),
        ({"check": _bad, "control": _good}, "false"),
        ({"check": list}, "undecided"),
        ({"control": list}, "undecided"),
        ({"outside": _bad}, "holds only if"),
        ({"outside": _good}, "holds"),
        ({"vacuity": _good}, "vacuous"),
        ({"vacuity": _bad, "outside": _bad}, "holds only if"),
        ({"check": _crash}, "error"),
    ):
        result = decide(replace(BASE, **changes))
        found.append(same((result.verdict, result.agrees), (verdict, verdict == "holds"), f"verdict {verdict}", scale))
    after = contextvars.Context().run(lambda: [len(run(_bad, ending)) for ending in (False, True)] + [len(_bad())])
    found.append(same(after, [2, 1, 2], "controls alone end at the first that fails", scale))
    found.append(
        same((BASE.corrected, WRONG.corrected, SLIP.corrected), (None, *["toy-thm1"] * 2), "corrections", scale)
    )
    found.append(same(decide(WRONG).verdict + decide(SLIP).verdict, "falseslip", "kinds of failure", scale))
    for kind in ("constant", "remark"):
        found.append(same(decide(replace(SLIP, verdict=kind)).verdict, kind, f"{kind}, a kind of failure", scale))
    fine = decide(replace(SLIP, check=_good, control=_bad))
    found.append(same((fine.verdict, fine.agrees), ("holds", False), "a slip that is none", scale))
    idle = decide(replace(BASE, verdict="not checked", check=None, control=None))
    parts_of = (idle.verdict, idle.agrees, idle.comparisons, idle.control)
    found.append(same(parts_of, ("not checked", True, (), ()), "one that is not checked", scale))
    found.append(same(decide(replace(BASE, check=_crash)).error, "ArithmeticError: no number", "an error", scale))
    shown = decide(BASE).as_dict()
    parts = [
        {"label": "one", "left": 1.0, "relation": "==", "right": 1.0, "holds": True},
        {"label": "less", "left": 2.0, "relation": "<", "right": 3.0, "holds": True},
    ]
    found.append(
        same(
            (shown["comparisons"], [item["holds"] for item in shown["control"]]),
            (parts, [False]),
            "as plain values",
            scale,
        )
    )
    found.append(
        same((shown["id"], shown["paper"], shown["agrees"]), ("toy-thm1", "toy", True), "of which claim", scale)
    )
    whole = Result(SLIP, "holds", (), (compare(3.0, ">", 1.0, "more"),), 1.23456, "why").as_dict()
    more = {"label": "more", "left": 3.0, "relation": ">", "right": 1.0, "holds": True}
    wanted: dict[str, Any] = {
        "id": "toy-thm3",
        "paper": "toy",
        "source": "Toy, p. 1",
        "statement": "One is one.",
        "note": "Note.",
    }
    wanted |= {"verdict": "holds", "recorded": "slip", "agrees": False, "corrected": "toy-thm1", "error": "why"}
    found.append(same(whole, wanted | {"seconds": 1.2346, "comparisons": [], "control": [more]}, "all of it", scale))
    infinite = Result(BASE, "holds", (compare(math.inf, ">", 1.0),)).as_dict()["comparisons"][0]
    found.append(same((infinite["left"], infinite["right"]), (None, 1.0), "what JSON lacks", scale))
    given = [BASE, WRONG, replace(BASE, id="other-thm1")]
    found.append(same([item.id for item in select(given, None, "toy")], ["toy-thm1", "toy-thm2"], "of a work", scale))
    found.append(
        same(
            [item.id for item in select(given, ["other-thm1", "toy-thm1"])], ["other-thm1", "toy-thm1"], "by id", scale
        )
    )
    found.append(refuses(lambda: select(given, ["toy-thm9"]), "did you mean toy-thm"))
    found.append(refuses(lambda: select(given, None, "x"), "paper must be one of other, toy"))
    found.append(same(nearest("zzz", ["a", "b"]), "there are 2, such as a", "nothing near", scale))
    for bad, words in (
        ({"verdict": "slip"}, "without what shows it"),
        ({"verdict": "holds only if"}, "without what shows it"),
        ({"verdict": "perhaps"}, "verdict"),
        ({"check": None}, "needs a check and a control"),
        ({"verdict": "not checked"}, "has no check"),
        ({"erratum": ERRATUM}, "has an erratum"),
    ):
        found.append(refuses(lambda bad=bad: replace(BASE, **bad), words))
    return found


def toy_cell(value: float, power: int) -> list[dict[str, Any]]:
    """Two rows of a cell; a negative value fails."""
    if value < 0:
        raise ValueError("negative")
    return [{"value": value, "power": power, "result": torch.tensor(value**power)}, {"value": value, "other": "x,y"}]


def threads_cell() -> list[dict[str, Any]]:
    """How many threads torch and the libraries of linear algebra may use in a cell."""
    blas = [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
    return [{"torch": torch.get_num_threads(), "blas": max(blas, default=1)}]


def written_pages(scale: float) -> list[Comparison]:
    """Tables of rows and pages of claims hold what they are made of; engines give what the function gives."""
    found: list[Comparison] = []
    rows: list[Any] = [{"a": 1, "b": "x"}, {"a": 2, "c": math.nan}, {"a": 1, "c": 3.0}]
    found.append(same(as_csv(rows), "a,b,c\n1,x,\n2,,nan\n1,,3.0\n", "rows as text", scale))
    found.append(
        same(
            (column(rows, "c", a=1), distinct(rows, "a"), curve(rows, "a", "a", a=2)),
            ([3.0], [1, 2], ([2], [2])),
            "columns",
            scale,
        )
    )
    found.append(compare(mean([1.0, math.nan, 4.0, None]), "==", scale * 2.5, "mean of numbers"))  # type: ignore[list-item]
    found.append(same(math.isnan(mean([math.nan])), True, "mean of none", scale))
    values = plain_value([torch.tensor(2.5), np.int64(3), (None, "x", True)])
    found.append(
        same((values, [type(item) for item in values[:2]]), ([2.5, 3, [None, "x", True]], [float, int]), "plain", scale)
    )
    found.append(refuses(lambda: plain_value({}), "got dict"))
    results = [decide(claim) for claim in (BASE, WRONG, SLIP, COND)]
    page = claims_page(results)
    heads = [block for block in page.split("\n\n") if block.startswith("#")]
    papers = list(dict.fromkeys(f"## {result.claim.paper}" for result in results))
    found.append(same(heads, ["# Claims", *papers], "blank lines around headings", scale))
    found.append(same("4 statements; holds: 1, holds only if: 1, false: 1, slip: 1." in page, True, "counted", scale))
    source = f"{SOURCES}/droptics_own/evidence/mechanism_checks.py#L{_good.__code__.co_firstlineno}"
    place = f"[`droptics_own/evidence/mechanism_checks.py: _good`]({source})"
    line = '| <a id="toy-thm1"></a>`toy-thm1`<br>**holds**<br>Toy, p. 1 | One is one. *Note.*<br>'
    line += f"{place}; {{py:obj}}`~droptics.compare` |"
    found.append(same(line in page, True, "a line of the table", scale))
    found.append(
        same("One is one. *If \\| so.*" in page and "*It is one.* Corrected: `toy-thm1`." in page, True, "notes", scale)
    )
    errata = errata_page([result.claim for result in results])
    found.append(same("2 statements; false: 1, slip: 1." in errata, True, "errata counted", scale))
    found.append(
        same("$$x = \u201ctwo\u201d$$" in errata and "prints\n\n```text\n2\n1\n```" in errata, True, "an entry", scale)
    )
    found.append(same("prints (in floating point: roots)" in errata, True, "an inexact entry", scale))
    found.append(same("**Corrected** (`toy-thm1`): One is one." in errata, True, "its correction", scale))
    new = replace(BASE, id="droptics-x", source="droptics, on toy-thm1")
    summary = summary_pages([BASE, WRONG, SLIP, COND, new], {"toy": "Toys"})["toy"]
    heads = [line for line in summary.splitlines() if line.startswith("#")]
    wanted = ["# Toys", "## Stands (1)", "## Stands under a condition (1)", "## False (1)"]
    wanted += ["## Slips of print or proof, constants, remarks about plots (1)", "## New, on this work (1)"]
    found.append(same(heads, wanted, "the works in short", scale))
    rows = [f'- <a href="claims.html#toy-thm{i}">Toy, p. 1</a>: One is one.' for i in (1, 4)]
    said_in_full = (f"{rows[0]}\n" in summary, f"{rows[1]} *If | so.*\n" in summary)
    found.append(same(said_in_full, (True, True), "theorems and conditions in full", scale))
    found.append(same(said(["holds", "odd", "holds"]), "3 statements; holds: 2, odd: 1.", "unknown verdicts", scale))
    found.append(
        same("<mi>x</mi>" in mathml("x + 1") or mathml("x + 1") == "<code>x + 1</code>", True, "a formula", scale)
    )
    return found + _engines(scale)


def _engines(scale: float) -> list[Comparison]:
    """Tasks in order with their errors, engines by name, and places by their cells."""
    found: list[Comparison] = []
    tasks = [Task("a", toy_cell, {"value": 3.0, "power": 3}), Task("b", toy_cell, {"value": -3.0, "power": 3})]
    before = torch.get_num_threads()
    done = list(Local().run(tasks))
    found.append(same([item.key for item in done], ["a", "b"], "tasks in order", scale))
    found.append(same((float(done[0].rows[0]["result"]), done[0].error), (27.0, ""), "a task", scale))
    found.append(
        same((done[1].rows, done[1].error, done[1].place), ((), "ValueError: negative", None), "a failure", scale)
    )
    short = perform(Task("e", toy_cell, {"value": 3.0})).error
    found.append(same(short.partition(":")[0], "TypeError", "a failure of any kind", scale))
    found.append(same((torch.get_num_threads(), done[0].place), (before, here()), "threads and place", scale))
    try:
        torch.set_num_threads(3)
        with threadpool_limits(2, "blas"):
            (inside,) = perform(Task("d", threads_cell, {})).rows
            after = torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
    found.append(same((inside, after), ({"torch": 1, "blas": 1}, 3), "one thread in a cell, three after it", scale))
    if not torch.cuda.is_available():
        skipped = perform(Task("c", toy_cell, {}, gpu=True)).skipped
        found.append(same(skipped.startswith("needs a GPU"), True, "a task for a GPU", scale))
    found.append(same(engine("processes:3").workers, 3, "three processes", scale))  # type: ignore[attr-defined]
    found.append(same(engine("dask://host:1").address, "tcp://host:1", "a cluster", scale))  # type: ignore[attr-defined]
    for bad in ("processes:0", "processes:x", "dask://", "other"):
        found.append(refuses(lambda bad=bad: engine(bad), "positive" if bad[-1] == "0" else "engine must be"))
    one, two = {"versions": {"x": "1"}, "hardware": {}}, {"versions": {"x": "2"}, "hardware": {}}
    counted = [(item["versions"]["x"], item["cells"]) for item in places([one, two, two])]
    found.append(same(counted, [("2", 2), ("1", 1)], "places by their cells", scale))
    found.append(same(here()["hardware"]["gpu"], None, "a GPU that was not used", scale))
    return found
