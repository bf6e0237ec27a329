"""A seeded portion of `make fuzz`, and the instrument itself: it finds what is wrong, resumes, and prints programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from droptics import Bernoulli, penalty
from fuzzing import oracles
from fuzzing.checks import Check, check_penalty
from fuzzing.instances import Instance, Law, draw, smaller
from fuzzing.routines import ROUTINES, Routine
from fuzzing.running import Record, instance_of, judged, load, run, shortest, store

# instances a routine in the tests; `make fuzz` tries thousands
PORTION = 30


@pytest.mark.parametrize("name", [name for name, routine in ROUTINES.items() if routine.group is None])
def test_a_portion_agrees(name: str) -> None:
    record = Record("", seed=1)
    run(ROUTINES[name], record, PORTION, lambda: None)
    assert record.failures == [], (
        f"python tests/fuzz.py --routine '{name}' --seed 1 --index {record.failures[0]['index']}"
    )
    assert record.refused < PORTION / 2


@pytest.mark.parametrize("name", [name for name, routine in ROUTINES.items() if routine.group is not None])
def test_intervals_cover(name: str) -> None:
    """Of intervals at 95 % at least 95 % - 4 standard deviations hold the truth, over all rates together."""
    record = Record("", seed=1)
    run(ROUTINES[name], record, 4 * PORTION, lambda: None)
    hits, total = (sum(pair[i] for pair in record.covered.values()) for i in (0, 1))
    assert total == 4 * PORTION
    assert hits >= 0.95 * total - 4 * (0.95 * 0.05 * total) ** 0.5


def wrong(instance: Instance) -> list[Check]:
    """A penalty that forgets the second output."""
    check, _ = check_penalty(instance)
    forgotten = np.square(instance.numbers["U"][1:]).sum() * np.square(instance.numbers["V"]).sum()
    return [replace(check, error=float(forgotten))]


def test_a_wrong_routine_is_found_and_its_instance_shortened() -> None:
    broken = Routine(
        "broken", lambda random: draw(random, "TwoLayerLinear", "one"), wrong, "print(penalty(model, data, masks))"
    )
    record = Record("", seed=0)
    run(broken, record, 40, lambda: None)
    assert record.disagreed > 0
    first = instance_of(broken, 0, record.failures[0]["index"])
    short, message = shortest(broken, first)
    assert message.startswith("penalty off")
    assert sum(value.size for value in short.numbers.values()) <= 7
    scope: dict[str, object] = {}
    exec(short.code("answer = float(penalty(model, data, masks))"), scope)
    assert scope["answer"] == float(penalty(short.model, short.data, short.masks))


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    routine, path = ROUTINES["penalty of TwoLayerLinear"], tmp_path / "state.json"
    whole, parts = Record("", seed=3), {"penalty": Record("", seed=3)}
    run(routine, whole, 30, lambda: None)
    run(routine, parts["penalty"], 10, lambda: store(path, parts))
    again = load(path)
    run(routine, again["penalty"], 30, lambda: store(path, again))
    assert vars(load(path)["penalty"]) == vars(whole)
    assert list(tmp_path.iterdir()) == [path]


def test_instances_do_not_depend_on_each_other() -> None:
    routine = ROUTINES["certify DeepLinear"]
    first, second = instance_of(routine, 5, 17), instance_of(routine, 5, 17)
    assert all(np.array_equal(first.numbers[name], second.numbers[name]) for name in first.numbers)
    assert instance_of(routine, 5, 18).seed != first.seed


def test_smaller_instances_fit_together() -> None:
    for index in range(30):
        for name in ("penalty of TwoLayerLinear", "penalty of DeepLinear", "optimal head"):
            for simpler in smaller(instance_of(ROUTINES[name], 0, index)):
                assert not judged(ROUTINES[name], simpler)[1].startswith(("ValueError", "IndexError"))
                break


def test_the_oracles_know_the_textbook() -> None:
    """One unit, one number: lambda u^2 v^2 x^2; ridge; the k-support norm of (1, 1, 1)."""
    one = np.ones((1, 1))
    instance = Instance(
        "TwoLayerLinear", {"inputs": 2 * one, "targets": one, "U": 3 * one, "V": one}, (Law("Bernoulli", (0.2,)),)
    )
    assert oracles.penalty(instance)[0] == pytest.approx(0.25 * 36, rel=1e-15)
    assert float(Bernoulli(0.2, 1).relative_variance[0]) == pytest.approx(0.25)
    assert oracles.squared_k_support(np.ones(3), 2) == pytest.approx(4.5)
    assert oracles.least_spectrum(np.array([2.0]), np.array([0.25]), 1) == pytest.approx(4 - 4 / 1.25)
    assert oracles.least_spectrum(np.array([2.0, 1.0]), np.array([0.5, 0.0]), 2) == pytest.approx(0.5 / 1.5)
    ridge = oracles.regression(
        np.ones((2, 1)), 2 * np.ones((2, 1)), np.array([0.5, 0.5]), Law("Bernoulli", (0.5,)), False
    )
    assert ridge == pytest.approx(2.0)


def test_no_search_goes_below_the_least_value() -> None:
    """Large factors that cancel, from normal equations that are almost singular, are no way below what is possible."""
    # all units dropped at once: ||T - A||^2 + ||A||^2 is at least half the energy of T
    masks, chances = Law("Block", (0.5,), block=2).atoms()
    target = np.array([[1.0, -1.0], [-4.0, 1.0]], np.longdouble)
    # no weight reaches the last of three examples, and large ones the second
    inputs = np.array([[1.0, 1.0], [0.0, 2.0**-12], [0.0, 0.0]])
    numbers = {"inputs": inputs, "targets": np.ones((3, 1)), "U": np.ones((1, 2)), "V": np.ones((2, 2))}
    instance = Instance("Connections", numbers, (Law("Bernoulli", (0.0,) * 4),))
    for seed in range(100):
        random = np.random.default_rng(seed)
        assert oracles.searched(target, masks, chances, random) >= 19 / 2
        assert oracles.searched_connections(instance, random) >= (1 - 2.0**-51) / 3
