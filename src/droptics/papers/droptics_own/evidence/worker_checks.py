"""What a claim compares on workers and loops: examples left out, workers that die, compiled loops, outcomes, pages."""

from __future__ import annotations

import gc
import random
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from droptics import compiling, terminal
from droptics.audits.leaving_out import leave_one_out
from droptics.evidence import engines
from droptics.evidence.claims import Claim, Comparison, Result, compare, decide
from droptics.evidence.engines import Processes, Task
from droptics.evidence.figures import Artifact, Expectation, Figure, cell_key, manifest
from droptics.evidence.figures import Cell as FigureCell
from droptics.evidence.pages import check_place, claims_page, errata_page, write_pages
from droptics.papers.droptics_own.evidence.mechanism_checks import BASE, COND, SLIP, WRONG, toy_cell
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal


def workers_and_loops(scale: float) -> list[Comparison]:
    """Refits, threads in place of processes, loops, words."""
    parts = _left_out, _served, _fed, _compiled, _outcomes, _written
    return by_parts(parts, scale)


def _refitted(features: Tensor, targets: Tensor, strength: float) -> Tensor:
    """Errors at every example of the least E|y - b - W x|^2 + lambda sum_k E x_k^2 W_k^2 over all others."""
    errors = []
    for i in range(len(features)):
        others = torch.arange(len(features)) != i
        x, y = features[others], targets[others]
        d, r = x - x.mean(0), y - y.mean(0)
        matrix = d.mT @ d / len(x) + strength * torch.diag(x.square().mean(0))
        weights = torch.linalg.pinv(matrix, hermitian=True) @ (d.mT @ r) / len(x)
        errors.append(targets[i] - y.mean(0) - (features[i] - x.mean(0)) @ weights)
    return torch.stack(errors)


def _left_out(scale: float) -> list[Comparison]:
    """Leave-one-out errors on the device of the features: few and many examples, units of one example, empty units."""
    found: list[Comparison] = []
    strengths = [0.3, 1.7]
    for examples, units in ((14, 4), (5, 8), (3, 2)):
        features = normal(examples, examples, units) * 0.5 ** torch.arange(units).double() + 0.2
        features[1, 0] = 6.0  # most of the energy of a unit
        features[:, -1] = 0
        if units > 2:
            features[:, 1] = 0
            features[2, 1] = 0.7  # all of it
        targets = normal(units, examples, 2)
        told = leave_one_out(features, targets, strengths)
        wanted = torch.stack([_refitted(features, targets, strength) for strength in strengths])
        found.append(compare(told, "==", scale * wanted, f"{examples} examples of {units} units", precision=1e-7))
    plain = normal(9, 40, 3) + 0.5
    told = leave_one_out(plain, plain[:, :1].square(), [0.8])
    found.append(compare(told[0], "==", scale * _refitted(plain, plain[:, :1].square(), 0.8), "nobody is isolated"))
    return found


def _power(value: float, power: int) -> list[dict[str, Any]]:
    """A row of plain numbers, as cells send them; a negative value fails."""
    if value < 0:
        raise ValueError("negative")
    return [{"result": value**power}]


def _served(scale: float) -> list[Comparison]:
    """Workers of which some die: every task has one outcome, a second death is told, GPU tasks run one at a time."""
    live: list[Any] = []
    busy: list[int] = []
    asked = Counter[str]()

    def start() -> Any:
        """A thread that serves as a process does; a task of the name of a death closes its end of the pipe.

        One of them always, the other when it is asked for the first time.
        """
        ours, theirs = Pipe()
        number = len(live)

        def serve() -> None:
            while True:
                try:
                    task = theirs.recv()
                except EOFError:
                    return
                asked[task.key] += 1
                if task.key == "diesalways" or (task.key == "dies" and asked[task.key] == 1):
                    theirs.close()
                    return
                theirs.send(engines.perform(task))

        thread = threading.Thread(target=serve)
        thread.start()
        process: Any = SimpleNamespace(join=thread.join, exitcode=-9, terminate=lambda: busy.append(number))
        live.append(engines._Worker(process, ours))
        return live[-1]

    tasks = [Task(key, _power, {"value": 2.0, "power": k}) for k, key in enumerate(("a", "dies", "diesalways", "b"))]
    tasks.append(Task("bad", _power, {"value": -1.0, "power": 1}))
    with mock.patch.object(engines, "_start", start):
        done = {one.key: one for one in Processes(2).run(tasks)}
        before, tried = len(live), dict(asked)
        alone = list(Processes(5).run(tasks[:1]))
    found = [same(sorted(done), sorted(task.key for task in tasks), "every task once", scale)]
    for k, key in ((0, "a"), (1, "dies"), (3, "b")):
        result = [row["result"] for row in done[key].rows]
        found.append(same((result, done[key].error), ([2.0**k], ""), f"task {key}", scale))
    error = "its worker process died twice (exit code -9)"
    found.append(same((done["diesalways"].rows, done["diesalways"].error), ((), error), "a second death", scale))
    times = {"a": 1, "dies": 2, "diesalways": 2, "b": 1, "bad": 1}
    found.append(same(tried, times, "a task is tried again once", scale))
    found.append(same(done["bad"].error, "ValueError: negative", "an exception is told at once", scale))
    found.append(same((len(live) - before, len(alone)), (1, 1), "no more workers than tasks", scale))
    found.append(same((busy, all(one.pipe.closed for one in live[-1:])), ([], True), "pipes are closed", scale))
    return found


def _fed(scale: float) -> list[Comparison]:
    """Who gets which task; a worker that died while idle; the life of a worker."""
    found: list[Comparison] = []
    sent: list[str] = []
    pipe: Any = SimpleNamespace(send=lambda task: sent.append(task.key))
    workers = [engines._Worker(SimpleNamespace(), pipe) for _ in range(3)]  # type: ignore[arg-type]
    waiting = deque([Task(key, _power, {}, gpu=key.startswith("gpu")) for key in ("gpu1", "gpu2", "x", "y")])
    Processes(3)._feed(workers, waiting)
    told = (sent, [task.key for task in waiting], [worker.task.key for worker in workers if worker.task])
    wanted = (["gpu1", "x", "y"], ["gpu2"], ["gpu1", "x", "y"])
    found.append(same(told, wanted, "one task for the GPU at a time", scale))

    def gone(task: Task) -> None:
        raise OSError

    dead = engines._Worker(SimpleNamespace(), SimpleNamespace(send=gone))  # type: ignore[arg-type]
    idle = engines._Worker(SimpleNamespace(), pipe)  # type: ignore[arg-type]
    workers = [dead, idle]
    Processes(2)._feed(workers, waiting)
    found.append(same((workers, sent[-1], len(waiting)), ([idle], "gpu2", 0), "a worker that died while idle", scale))
    ours, theirs = Pipe()
    ours.send(Task("z", _power, {"value": 3.0, "power": 2}))
    thread = threading.Thread(target=engines._serve, args=(theirs,))
    thread.start()
    found.append(compare(ours.recv().rows[0]["result"], "==", scale * 9.0, "a worker serves"))
    ours.close()
    thread.join(5)
    found.append(same(thread.is_alive(), False, "until its pipe closes", scale))
    return found


def _twice(value: float) -> float:
    return 2 * value


def _compiled(scale: float) -> list[Comparison]:
    """Loops are compiled once, at the first call, while no garbage is looked for; each form has a file of its own."""
    made: list[tuple[Any, ...]] = []
    collecting: list[bool] = []

    def compiled(function: Any, options: Mapping[str, Any]) -> Any:
        made.append((function, dict(options)))

        class Made:
            _numba_type_ = "a type"

            def compile(self, kinds: Sequence[Any]) -> None:
                collecting.append(gc.isenabled())
                made.append(tuple(str(kind) for kind in kinds))

            def __call__(self, *values: Any) -> Any:
                return function(*values)

        return Made()

    found: list[Comparison] = []
    plain = _twice
    with mock.patch.object(compiling, "_compiled", compiled), mock.patch.dict(globals()):
        loop: Any = compiling.njit(nogil=True)(_twice)
        globals()["_twice"] = loop
        words = (loop.__name__, loop.py_func is plain, loop.targetoptions, len(made))
        found.append(same(words, ("_twice", True, {"nogil": True}, 0), "nothing is compiled before", scale))
        found.append(compare([loop(1.5), loop(2.0)], "==", scale * torch.tensor([3.0, 4.0]), "what a loop returns"))
        wanted = [(plain, {"nogil": True}), ("float64",)]
        found.append(same(made, wanted, "compiled once, for what came", scale))
        found.append(same((collecting, gc.isenabled()), ([False], True), "a pause of the collector", scale))
        found.append(same(globals()["_twice"] is loop.compiled, True, "its module calls what was compiled", scale))
        found.append(same(loop._numba_type_, "a type", "what numba asks", scale))
        gc.disable()
        try:
            other: Any = compiling.njit()(lambda one, two: one)
            other(1, 2)
            found.append(same((gc.isenabled(), made[-1]), (False, ("int64", "int64")), "a collector that rests", scale))
        finally:
            gc.enable()
    file = SimpleNamespace(_data_name=lambda number: f"loop-{number}.nbc")
    compiling._name_apart(SimpleNamespace(_cache=SimpleNamespace(_cache_file=file)))
    names = [file._data_name(3) for _ in range(2)]
    found.append(same([name[16:] for name in names], ["-loop-3.nbc"] * 2, "names of files", scale))
    found.append(same(len({name[:16] for name in names}), 2, "no two alike", scale))
    compiling._name_apart(SimpleNamespace())
    state = random.getstate()
    terminal._rich.cache_clear()
    console, table = terminal.new_console(30), terminal.new_table("one", "two")
    table.add_row("1", "2")
    console.print(table)
    console.print("a line of more than thirty letters, which is broken")
    told = [line.rstrip() for line in terminal.printed(console).splitlines()]
    found.append(same(random.getstate() == state, True, "loading draws nothing", scale))
    found.append(same(told[-2:], ["a line of more than thirty", "letters, which is broken"], "thirty letters", scale))
    found.append(same([word in told[1] for word in ("one", "two")], [True, True], "headings", scale))
    return found


def _outcomes(scale: float) -> list[Comparison]:
    """What became of a figure follows from what was skipped, failed, counted and missing; claims that are not run."""
    figure = Figure("toy-fig1", "p. 1", "Title", "Statement", lambda _: [], toy_cell, lambda *_: [], lambda *_: None)
    # by hand: one of `compare` that fails would end a control here
    good, bad = Comparison(1.0, "==", 1.0, "one"), Comparison(4.0, "<", 3.0, "less")
    print_good, print_bad = (Expectation(one, printed="3") for one in (good, bad))
    own = Expectation(bad, printed="not printed: 3", reproduced=False)
    whole = Artifact(figure, "smoke", Path("somewhere"))
    found: list[Comparison] = []
    for changes, outcome, agrees in (
        ({"skipped": "no data", "failures": {"a": "b"}}, "skipped", False),
        ({"failures": {"a": "b"}, "expectations": (print_good,)}, "failed", False),
        ({"expectations": (own,)}, "not compared", True),
        ({}, "reproduced", True),
        ({"expectations": (print_good, own)}, "reproduced", True),
        ({"expectations": (print_good,), "missing": ("cell",)}, "reproduced in part", True),
        ({"expectations": (print_good, print_bad)}, "reproduced in part", False),
        ({"expectations": (print_bad, own)}, "not reproduced", False),
    ):
        artifact = replace(whole, **changes)
        found.append(same((artifact.outcome, artifact.agrees), (outcome, agrees), f"outcome {outcome}", scale))
    told = manifest(replace(whole, seconds=1.23456, computed=2, resumed=3, expectations=(print_bad,)))
    part = [told[name] for name in ("id", "source", "scale", "command", "outcome", "cells", "seconds", "departures")]
    command = "droptics reproduce toy-fig1 --scale smoke"
    wanted = ["toy-fig1", "p. 1", "smoke", command, "not reproduced", 5, 1.235, []]
    found.append(same(part, wanted, "what a manifest says", scale))
    entry = {"label": "less", "left": 4.0, "relation": "<", "right": 3.0, "holds": False}
    said = {name: told["comparisons"][0][name] for name in entry}
    found.append(same((said, told["comparisons"][0]["printed"]), (entry, "3"), "a comparison in it", scale))
    names = [cell_key(figure, FigureCell(name, {"x": k})) for name, k in (("a b", 1), ("a b", 2), ("a/b", 1))]
    found.append(same([name.rpartition("-")[0] for name in names], ["toy_cell_a_b"] * 3, "readable names", scale))
    digests = [name.rpartition("-")[2] for name in names]
    alike = (digests[0] == digests[2], digests[0] != digests[1], {len(digest) for digest in digests})
    found.append(same(alike, (True, True, {12}), "names by parameters", scale))
    return found


def _written(scale: float) -> list[Comparison]:
    """Pages that are written are those that are made; statements without a check say so."""
    results = [decide(claim) for claim in (BASE, WRONG, SLIP, COND)]
    with tempfile.TemporaryDirectory() as folder:
        paths = write_pages(results, folder)
        names, texts = [path.name for path in paths], [path.read_text(encoding="utf-8") for path in paths]
    found = [same(names, ["claims.md", "errata.md"], "names of pages", scale)]
    found.append(same(texts, [claims_page(results), errata_page([one.claim for one in results])], "pages", scale))
    silent = Claim("toy-rem1", "Toy, p. 2", "Nobody knows.", "not checked", note="No number.")
    found.append(same(decide(silent), Result(silent, "not checked"), "what is not checked", scale))
    found.append(same(check_place(silent), "", "no place", scale))
    again = BASE.printed_as("toy-cor1", "Toy, p. 3", note="Again.")
    told = (again.id, again.source, again.same_as, again.note, again.check is BASE.check, again.corrected)
    found.append(same(told, ("toy-cor1", "Toy, p. 3", "toy-thm1", "Again.", True, None), "printed twice", scale))
    heads = [block for block in texts[0].split("\n\n") if block.startswith("#")]
    found.append(same(heads, ["# Claims", "## toy"], "headings stand alone", scale))
    return found
