"""A model that was read again holds what the saved one holds, bit for bit, and gives the same answers."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
import torch

from droptics.datasets import planted_ratings
from droptics.recommenders import (
    AutoencoderCompletion,
    DropoutAutoencoder,
    DropoutCompletion,
    ImplicitDropoutCompletion,
    RidgeCompletion,
    UnknownIds,
)

MODELS = {
    "completion": lambda: DropoutCompletion(3, 0.3, 0.4, sweeps=3, clip=True),
    "another unit": lambda: DropoutCompletion(2, 0.3, sweeps=3, biases=False, center=False, clip=(2.0, 3.5)),
    "ridge": lambda: RidgeCompletion(2, 0.4, weighted=False, sweeps=3, dtype="float64"),
    "by users": lambda: AutoencoderCompletion("user", 0.4, 0.3, clip=True, bias_ridge=2.0),
    "by items": lambda: AutoencoderCompletion("item", clip=(2.0, 3.5), dtype="float64"),
    "autoencoder": lambda: DropoutAutoencoder(0.3, 2.0, 0.1, feedback="graded", threshold=2.5),
    "chosen": lambda: DropoutAutoencoder(choose="squared", dtype="float64"),
    "low rank": lambda: DropoutAutoencoder(0.3, 2.0, rank=5),
    "all cells": lambda: ImplicitDropoutCompletion(3, unobserved=0.3, sweeps=3),
    "all cells, empirical": lambda: ImplicitDropoutCompletion(3, 0.3, 0.2, "empirical", feedback="graded", sweeps=3),
}
# where ratings lie, and where a model was fitted
ELSEWHERE = {"_data", "device", "engine"}


@pytest.fixture(scope="module")
def table():
    found = planted_ratings((40, 25, 420), rank=2, noise=0.8, seed=3)
    return np.char.add("ü", found.users.astype(str)), found.items, found.values.astype(np.float64)


def alike(one, other, path):
    """Every array, number and word of two objects, and of those that they hold."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        one, other = np.asarray(one), np.asarray(other)
        assert one.dtype.kind == other.dtype.kind, path
        assert np.array_equal(one, other), path
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other), path
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), path
        for k, pair in enumerate(zip(one, other, strict=True)):
            alike(*pair, f"{path}[{k}]")
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), path
        for key in one:
            alike(one[key], other[key], f"{path}[{key}]")
    elif type(one).__module__.startswith("droptics"):
        parts = [
            {field.name: getattr(each, field.name) for field in dataclasses.fields(each)}
            if dataclasses.is_dataclass(each)
            else {name: value for name, value in vars(each).items() if name not in ELSEWHERE}
            for each in (one, other)
        ]
        alike(*parts, f"{path}.")
    elif hasattr(one, "tocsr"):
        assert (one != other).nnz == 0, path
    else:
        assert one == other, path


@pytest.mark.parametrize("name", MODELS)
def test_what_is_read_is_what_was_saved(name, table, tmp_path):
    unit = 4096.0 if name == "another unit" else 1.0  # ratings of many thousands are fitted in another unit
    model = MODELS[name]().fit((*table[:2], unit * table[2]))
    model.save(tmp_path / "model.safetensors")
    again = type(model).load(tmp_path / "model.safetensors")
    alike(model, again, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownIds)
        for user in (table[0][0], "nobody"):
            alike(model.recommend(user, 6), again.recommend(user, 6), f"a list of {name}")
        if hasattr(model, "predict"):
            alike(*(one.predict(*table[:2]) for one in (model, again)), f"predictions of {name}")
        else:
            rows = np.eye(len(model.item_ids_)) + np.eye(len(model.item_ids_), k=3)
            alike(model.scores(rows), again.scores(rows), f"scores of {name}")


def test_options_that_are_numbers_of_numpy_are_saved(table, tmp_path):
    model = ImplicitDropoutCompletion(np.int64(3), np.float32(0.3), sweeps=np.int32(2)).fit(table)
    model.save(tmp_path / "model.safetensors")
    again = ImplicitDropoutCompletion.load(tmp_path / "model.safetensors")
    assert again.get_params() == model.get_params()


def test_options_that_change_after_the_fit_leave_a_saved_model_of_low_rank_as_it_is(table, tmp_path):
    model = DropoutAutoencoder(0.3, 2.0, rank=5).fit(table)
    kept = model.weights()
    for rank in (2, None):
        model.set_params(rank=rank, dtype="float64").save(tmp_path / "model.safetensors")
        assert np.array_equal(DropoutAutoencoder.load(tmp_path / "model.safetensors").weights(), kept)
