"""Every public callable with the hostile values of its parameters: clear errors, nothing invalid accepted, no NaN."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
import torch

import droptics
from droptics import bounds
from droptics.datasets import DatasetMissing
from hostile.calls import call, public, returned, unsound, valid_arguments
from hostile.judging import attempts, judged

PUBLIC = public()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> None:
    """Some hostile values are good names of files."""
    monkeypatch.chdir(tmp_path)


LABELED = droptics.Sample(torch.ones(2, 2), torch.arange(2))
JUDGED = [name for name, function in PUBLIC.items() if function not in returned()]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_valid_call(name: str) -> None:
    """If this fails for a new name: say in tests/hostile/calls.py what a valid call of it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = call(PUBLIC[name], valid_arguments(name, PUBLIC[name]))
        except DatasetMissing as missing:
            pytest.skip(str(missing))
    assert unsound(result) != "nan"


@pytest.mark.parametrize("name", JUDGED)
def test_hostile_arguments_are_answered_clearly(name: str, request: pytest.FixtureRequest) -> None:
    """All of them; a seeded sample where the slow tests are left out."""
    chosen = list(attempts(name, PUBLIC[name]))
    if "not slow" in request.config.option.markexpr:
        chosen = random.Random(0).sample(chosen, min(8, len(chosen)))
    verdicts = [judged(name, PUBLIC[name], key, value) for key, value in chosen]
    assert [str(verdict) for verdict in verdicts if verdict.word not in ("clear", "fine")] == []


@pytest.mark.slow
def test_there_are_thousands_of_hostile_calls() -> None:
    assert sum(1 for name in JUDGED for _ in attempts(name, PUBLIC[name])) > 8000


def test_seeds_of_any_integer_type_are_seeds() -> None:
    model, data = valid_arguments("train", droptics.train)["model"], valid_arguments("train", droptics.train)["data"]
    options = {"steps": 3, "step_size": 1e-3, "batch_size": 2}
    one, other = (droptics.train(model, data, droptics.Plain(), seed=seed, **options) for seed in (3, np.int64(3)))
    assert all(torch.equal(*pair) for pair in zip(one.model.tensors, other.model.tensors, strict=True))


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        (lambda: bounds.uniform(0.1, -5.0, 10), "complexity"),
        (lambda: bounds.squared(0.1, float("nan"), 10), "complexity"),
        (lambda: bounds.rademacher(alpha=1.0, norm=-3, examples=10), "norm"),
        (lambda: bounds.adversarial(data_radius=2, margin=1, radius=0.1, error=0.1, start_norm=-1), "start_norm"),
        (lambda: droptics.linalg.psd_root(torch.full((2, 2), torch.inf)), "matrix"),
        (
            lambda: droptics.attack(torch.nn.Linear(2, 2), droptics.Sample(torch.ones(2, 2), torch.arange(2)), 0.1, 3),
            "threat",
        ),
        (lambda: droptics.balance(torch.nn.Linear(2, 2), None), "model"),
        (lambda: droptics.optimum_of_map(torch.eye(3), 0.5), "masks"),
        (lambda: droptics.Adversarial("l2", "pgd"), "threat"),
        (lambda: droptics.Plain("squared"), "loss"),
        (lambda: droptics.LastLayer("net", torch.nn.Linear(2, 2)), "module"),
    ],
)
def test_what_was_found_wrong_once_is_refused_by_name(wrong, argument) -> None:
    with pytest.raises(ValueError, match=rf"^{argument} must"):
        wrong()
