"""Mutants are what they say, and the instrument that tries them sees who notices."""

import ast
import importlib
import inspect
import time

import pytest
import torch
from systems import posix

import deliberate
import mutants
import mutations
from mutations import Limits, Room, Run, Runner, Suite, place, reach

SOURCE = """
LIMIT = 3

@marked(7)
def area(width: int = 2) -> float:
    \"\"\"Doc.\"\"\"
    if width < 1 and LIMIT:
        raise ValueError("a message", 1 + 1)
    print(width)
    return scaled(width, LIMIT) - max(width, LIMIT)
"""
WEIGHTS = [torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]])]


def test_mutants_are_single_changes_of_what_is_computed(monkeypatch):
    """Operators, comparisons, constants, calls, arguments and results; no message, type, decorator or docstring."""
    monkeypatch.setitem(mutants.SOURCES, "toy", SOURCE)
    found = list(mutants.mutants("toy"))
    assert [mutant.name.partition(": ")[2] for mutant in found] == [
        "3  ->  4",
        "2  ->  3",
        "width < 1 and LIMIT  ->  width < 1 or LIMIT",
        "width < 1  ->  width <= 1",
        "width < 1  ->  width >= 1",
        "1  ->  2",
        "print(width)  ->  pass",
        "return ...  ->  return None",
        "scaled(width, LIMIT) - max(width, LIMIT)  ->  scaled(width, LIMIT) + max(width, LIMIT)",
        "scaled(width, LIMIT) - max(width, LIMIT)  ->  scaled(width, LIMIT)",
        "scaled(width, LIMIT) - max(width, LIMIT)  ->  max(width, LIMIT)",
        "scaled(width, LIMIT)  ->  scaled(LIMIT, width)",
    ]
    assert [mutant.lines for mutant in found[:3]] == [None, None, range(7, 8)]
    whole = ast.unparse(ast.parse(SOURCE))
    assert len({ast.unparse(mutant.tree()) for mutant in found} - {whole}) == len(found)


class Toy(Suite):
    """Checks of `droptics.norms`; one fails whatever happens."""

    name = "tests"

    def __init__(self):
        self.checks = {
            "right": lambda norms: float(norms.path_norm(WEIGHTS)) == pytest.approx(45**0.5),
            "ends": lambda norms: norms.weight_matrices(WEIGHTS) != 0,
            "wrong": lambda norms: float(norms.path_norm(WEIGHTS)) == 1.0,
            "hangs": lambda _: time.sleep(60) is None,
        }
        self.names = list(self.checks)

    def passes(self, name):
        return bool(self.checks[name](importlib.import_module("droptics.norms")))

    def again(self, names, begin):
        return all((begin(name), self.passes(name))[1] for name in names)


@pytest.fixture
def suite(monkeypatch):
    """The checks, on a house of one module, with limits of real time that are short."""
    norms = importlib.import_module("droptics.norms")
    found = [inspect.unwrap(value) for value in vars(norms).values() if inspect.isfunction(value)]
    # by name: the garbage collector, which the instrument asks in a process of its own, has seen other tests here
    functions = {"droptics.norms": [one for one in found if one.__module__ == norms.__name__]}
    monkeypatch.setattr(mutations, "live_functions", lambda: functions)
    monkeypatch.setattr(mutations, "live_loops", list)
    monkeypatch.setattr(mutations, "loop_sites", dict)
    monkeypatch.setattr(mutations, "LONGEST", 0.5)
    return Toy()


@posix
def test_who_notices(suite, tmp_path):
    """A check that executes the line, fails with the change and passes without it; what fails anyway is no notice."""
    runs = reach([suite], Limits(2, float("inf"), float("inf")), tmp_path / "reach")
    assert {run.name for run in runs["tests"]} == {"right", "ends"}
    before = (tmp_path / "reach").read_text()
    assert reach([suite], Limits(2, float("inf"), float("inf")), tmp_path / "reach") == runs
    assert (tmp_path / "reach").read_text() == before  # nothing was run once more
    (right,) = [run for run in runs["tests"] if run.name == "right"]
    runner = Runner([suite], {"tests": [Run("wrong", 0.0, right.lines), *runs["tests"]]}, 20.0)
    fates = {
        "layer.ndim < 2 or 0 in layer.shape  ->  layer.ndim < 2 and 0 in layer.shape": "lived 3 of 3",
        "terms / largest[..., None]  ->  terms * largest[..., None]": "noticed by right",
        "2.0  ->  4.0": "noticed by right",  # a default value, which only a new import changes
        "check_positive('k', k)  ->  pass": "not reached",
    }
    for name, fate in fates.items():
        (mutant,) = [mutant for mutant in mutants.mutants("droptics.norms") if mutant.name.endswith(f": {name}")]
        assert runner.fate(mutant, "tests", tmp_path / "fate") == 0
        assert (tmp_path / "fate").read_text() == fate, name


def test_compiled_loops_are_reached_from_where_they_are_called():
    """By their name, by the name of their module, and through other loops."""
    sites = mutants.loop_sites()["droptics.penalties.relu.kernels:_slope_pairs"].sites
    (module,) = sites
    (line,) = sites[module]
    assert module == "droptics.penalties.relu.moments"
    assert "kernels.direct_gradient(" in mutants.SOURCES[module].split("\n")[line - 1]


def test_loops_that_hold_generated_code_are_compiled_anew_with_it():
    """What writes machine code runs while a loop that uses it is compiled: a kept loop would hide a change of it."""
    held = mutants.loop_sites()["droptics.linalg.form_tiles:"]
    assert {"form_tile", "gram_tiles", "forms", "lower_gram"} <= held.holding
    assert "droptics.linalg.forms" in held.sites
    assert held.lines.start == 1


def test_a_report_goes_on_after_the_sources_changed():
    """What was tried of older sources stands for as many mutants of the draw, under the commit where it was tried."""
    drawn = list(mutants.mutants("droptics.norms"))[:5]
    names = [place(mutant) for mutant in drawn]
    fates = {names[0]: "noticed by one", names[1]: "lived 1 of 1", "norms@gone:1:1: 2  ->  3": "lived 1 of 1"}
    both = {"tests": fates | {"norms@half:1:1: 2  ->  3": "not reached"}, "claims": dict(fates)}
    for again, left in ((False, names[2:4]), (True, names[1:4])):
        room = Room("ground floor", 99, drawn)
        room.recall({"fates": both, "commits": {names[0]: "first"}}, "second", again)
        kept = [name for name in fates if name not in left]
        assert room.fates == {suite: {name: fates[name] for name in kept} for suite in ("tests", "claims")}
        assert room.commits == {name: "first" if name == names[0] else "second" for name in kept}
        assert [name for name in map(place, room.chosen) if name not in room.fates["tests"]] == left
    room = Room("deliberate 2", 5, drawn)
    room.recall({"fates": both}, "second", False)
    assert set(room.commits) == set(names[:2])
    assert len(room.chosen) == 5


def test_deliberate_mistakes_are_about_code_that_is_there():
    """A list that names what was rewritten since tries less than it says."""
    gone = [one.name for one in deliberate.DEFECTS if not one.stands]
    assert gone == []
