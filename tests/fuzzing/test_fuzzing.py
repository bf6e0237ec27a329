"""A seeded portion of `make fuzz`, and the instrument itself: it finds what is wrong, resumes, and prints programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from droptics import Bernoulli, MonteCarlo, penalty
from droptics.optima import Optimum
from fuzzing import checks, oracles, programs
from fuzzing.checks import Check, check_enumerated, check_penalty
from fuzzing.instances import Instance, Law, draw, smaller
from fuzzing.routines import ROUTINES, Routine
from fuzzing.running import Record, instance_of, judged, load, run, shortest, store, tried

# instances a routine in the tests; `make fuzz` tries thousands
PORTION = 30


@pytest.mark.parametrize("name", [name for name, routine in ROUTINES.items() if routine.group is None])
def test_a_portion_agrees(name: str) -> None:
    record = tried(ROUTINES[name], 1, 0, PORTION)
    assert record.failures == [], (
        f"python tests/fuzz.py --routine '{name}' --seed 1 --index {record.failures[0]['index']}"
    )
    assert record.refused < PORTION / 2


@pytest.mark.parametrize("name", [name for name, routine in ROUTINES.items() if routine.group is not None])
def test_intervals_cover(name: str) -> None:
    """Of intervals at 95 % at least 95 % - 4 standard deviations hold the truth, over all rates together."""
    record = tried(ROUTINES[name], 1, 0, 4 * PORTION)
    hits, total = (sum(pair[i] for pair in record.covered.values()) for i in (0, 1))
    assert total == 4 * PORTION
    assert hits >= 0.95 * total - 4 * (0.95 * 0.05 * total) ** 0.5


@pytest.mark.slow
def test_student_intervals_cover_where_pairs_are_rare() -> None:
    """800 networks at rate 0.1 and 100 draws, guaranteed intervals aside: fails by chance in one of 10,000 trials."""
    random, hits, count = np.random.default_rng(7), 0, 0
    for _ in range(800):
        drawn = draw(random, "DeepLinear", "one", moments=False)
        laws = tuple(Law("Bernoulli", (0.1,) * law.size) for law in drawn.laws)
        instance = replace(drawn, laws=laws, single=False)
        method = MonteCarlo(100, seed=instance.seed, confidence=0.95)
        answer = penalty(instance.model, instance.data, instance.masks, method)
        if "guaranteed" not in answer.method:
            hits += float(answer.lower) <= oracles.penalty(instance)[0] <= float(answer.upper)
            count += 1
    assert hits >= binom.ppf(1e-4, count, 0.95)


FOUND = [
    ("penalty, enumerated", 1296),
    ("penalty, enumerated", 1964),
    ("penalty of DeepLinear", 9792),
    ("DropoutRidge", 2036),
    ("DropoutRidge", 4870),
]


@pytest.mark.parametrize(("name", "index"), FOUND)
def test_what_was_found_agrees(name: str, index: int) -> None:
    assert judged(ROUTINES[name], instance_of(ROUTINES[name], 0, index))[1] == ""


def test_rounded_moments_excuse_no_arithmetic_of_their_precision() -> None:
    """Half an eps of the size for the moments and one of the value for the answer; the sum itself is float64."""
    for index in (1296, 1964):
        instance = instance_of(ROUTINES["penalty, enumerated"], 0, index)
        (check,) = check_enumerated(instance)
        value, eps = oracles.penalty(instance)[0], float(np.finfo(np.float32).eps)
        assert instance.single
        assert instance.moments
        assert check.allowed <= 0.51 * eps * check.size + 1.01 * eps * value


@pytest.mark.parametrize("family", ["TwoLayerLinear", "DeepLinear", "ReLUNet"])
def test_no_penalty_exceeds_its_size(family: str) -> None:
    routine = ROUTINES[f"penalty of {family}"]
    for index in (*range(100), 9792):
        value, size = oracles.penalty(instance_of(routine, 0, index))
        assert abs(value) <= size * (1 + 1e-9)


def wrong(instance: Instance) -> list[Check]:
    """A penalty that forgets the second output."""
    check, _ = check_penalty(instance)
    forgotten = np.square(instance.numbers["U"][1:]).sum() * np.square(instance.numbers["V"]).sum()
    return [replace(check, error=float(forgotten))]


def test_a_wrong_routine_is_found_and_its_instance_shortened() -> None:
    broken = Routine(
        "broken", lambda random: draw(random, "TwoLayerLinear", "one"), wrong, "print(penalty(model, data, masks))"
    )
    record = tried(broken, 0, 0, 40)
    assert record.disagreed > 0
    first = instance_of(broken, 0, record.failures[0]["index"])
    short, message = shortest(broken, first)
    assert message.startswith("penalty off")
    assert sum(value.size for value in short.numbers.values()) <= 7
    scope: dict[str, object] = {}
    exec(short.code("answer = float(penalty(model, data, masks))"), scope)
    assert scope["answer"] == float(penalty(short.model, short.data, short.masks))


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    name, path = "penalty of TwoLayerLinear", tmp_path / "state.json"
    whole = tried(ROUTINES[name], 3, 0, 30)
    parts = {name: Record("", seed=3)}
    run(parts, 10, lambda _: store(path, parts))
    again = load(path)
    assert again[name].tried == 10
    run(again, 30, lambda _: store(path, again))
    assert vars(load(path)[name]) == vars(whole)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_workers_leave_the_record_of_one() -> None:
    names, seen = ("interval of TwoLayerLinear", "penalty of ReLUNet"), []
    records = {name: Record("", seed=3) for name in names}
    run(records, 60, seen.append, processes=2)
    for name in names:
        assert vars(records[name]) == vars(tried(ROUTINES[name], 3, 0, 60))
    assert seen == sorted(seen, key=names.index)


def test_time_that_is_up_ends_a_run_after_a_portion() -> None:
    records = {"laws": Record("", seed=3)}
    run(records, 10_000, lambda _: None, seconds=0)
    assert 0 < records["laws"].tried < 10_000


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


def test_smaller_instances_hold_numbers_of_their_precision() -> None:
    instance = instance_of(ROUTINES["penalty, enumerated"], 0, 2692)
    assert instance.single
    for simpler in smaller(instance):
        for name, value in simpler.numbers.items():
            assert np.array_equal(simpler.tensor(name).double().numpy(), value)


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


def test_the_solver_knows_the_textbook() -> None:
    """One number: z = 1 / (1 + lambda); the trace norm of a rotation; the k-support norm of (1, 1, 1)."""
    one = np.ones((1, 1))
    found = programs.nuclear_regression(one, one, 0.25)
    assert found.value == pytest.approx(0.2, abs=1e-7)
    assert found.open < 1e-6
    assert programs.nuclear_norm(np.array([[0.6, 0.8], [-0.8, 0.6]])).value == pytest.approx(2, abs=1e-6)
    # values x / (1 + 1.5) each, (sum x)^2 / 2 being their squared norm: 3 (1 - x)^2 + 4.5 x^2 at x = 0.4
    assert programs.k_support_regression(np.ones(3), 2, 1.0).value == pytest.approx(1.8, abs=1e-6)
    assert programs.regression(np.ones((2, 1)) / 2**0.5, np.array([[1.0], [0.0]])).value == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["convex form of TwoLayerLinear", "convex form of Connections"])
def test_a_bound_that_is_too_high_is_above_the_convex_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = checks.d.optimum

    def raised(*question: object) -> Optimum:
        best = plain(*question)
        return replace(best, bound=best.bound + 1e-5 * best.scale)

    monkeypatch.setattr(checks.d, "optimum", raised)
    assert tried(ROUTINES[name], 1, 0, PORTION).disagreed > 0
