"""What a claim compares of fits by workers: files that they read, ratings sent to them, beside one machine."""

from __future__ import annotations

import math
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from droptics.arrays import Array
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.recommenders.ranker_checks import _rated
from droptics.papers.droptics_own.telling import refuses, same
from droptics.recommenders import DropoutAutoencoder, DropoutCompletion, RidgeCompletion, partitioned
from droptics.recommenders.ids import Lookup


class Done:
    """A result of a task."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def result(self) -> Any:
        return self.value


class Serial:
    """A client of no cluster: tasks run at once, here, as if by two workers."""

    closed = 0

    def submit(self, task: Callable[..., Any], *given: Any, pure: bool = True) -> Done:
        return Done(task(*(one.value if isinstance(one, Done) else one for one in given)))

    def gather(self, futures: Sequence[Done]) -> list[Any]:
        return [future.value for future in futures]

    def scheduler_info(self) -> dict[str, Any]:
        return {"workers": {"a": 1, "b": 2}}

    def set(self, _: Any) -> Any:
        return warnings.catch_warnings()

    def close(self) -> None:
        self.closed += 1


def workers(scale: float) -> list[Comparison]:
    """Completions and autoencoders that workers fit are those of one machine."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), _asked_of_dask():
        warnings.simplefilter("ignore")
        parts = _completions, _autoencoders, _chosen, _several
        return by_parts([lambda factor, part=part: part(factor, Path(folder)) for part in parts], scale)  # type: ignore[misc]


@contextmanager
def _asked_of_dask() -> Iterator[None]:
    """All that a cluster asks of Dask itself; `patch.dict` would forget all modules that are imported meanwhile."""
    before = sys.modules.get("dask")
    sys.modules["dask"] = SimpleNamespace(config=Serial())  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["dask"]
        if before is not None:
            sys.modules["dask"] = before


def _written(path: Path, *columns: Any) -> Path:
    """A file of ratings."""
    text = [f"{u},{i},{v!r}" for u, i, v in zip(*(np.asarray(part).tolist() for part in columns), strict=True)]
    path.write_text("user,item,rating\n" + "\n".join(text), encoding="utf-8")
    return path


def _completions(scale: float, folder: Path) -> list[Comparison]:
    """Predictions, means, objectives and ranges of completions, from a file and from ratings that are sent."""
    found: list[Comparison] = []
    rows, columns, plain = _rated(3, 9, 6)
    strong: dict[str, Any] = {"sweeps": 3, "dtype": "float64", "seed": 4}
    models = (
        RidgeCompletion(2, 0.7, **strong),
        DropoutCompletion(3, 0.4, cg_steps=None, **strong),
        DropoutCompletion(2, 0.3, 0.4, center=False, biases=False, **strong),
        DropoutCompletion(3, 0.3, cg_steps=1, **strong),  # few steps, from where the last sweep ended
    )
    # ratings of many thousands are fitted in another unit
    for number, (model, values) in enumerate(zip(models, (4096 * plain, plain, plain, plain), strict=True)):
        repeated = np.append(rows, rows[:2]), np.append(columns, columns[:2]), np.append(values, values[:2] + 1)
        path = _written(folder / "ratings.csv", *repeated)
        here = type(model)(**model.get_params()).fit(repeated)
        for way, source in (("read", path), ("sent", repeated)):
            client, label = Serial(), f"model {number}, {way}"
            there = type(model)(**{**model.get_params(), "engine": client}).fit(source)
            told = there.predict(rows, columns), there.mean_, there.objective_, there.range_
            known = here.predict(rows, columns), here.mean_, here.objective_, here.range_
            places = ("predictions", "mean", "objective", "range")
            for what, one, other in zip(places, told, known, strict=True):
                wanted = scale * np.asarray(other)
                found.append(compare(one, "==", wanted, f"{what}, {label}", precision=1e-6))
            rmse = math.sqrt(float(np.square(there.predict(rows[2:], columns[2:]) - values[2:]).mean()))
            found.append(compare(rmse, "<=", 2 * there.history_[-1].rmse, f"error, {label}"))
            found.append(same(client.closed, 0, f"a client that was given stays open, {label}"))
    return found


def _weights(model: DropoutAutoencoder, ids: Array) -> Array:
    """Weights between the items of these ids."""
    order = Lookup(model.item_ids_)(ids)
    return model.weights()[np.ix_(order, order)]


def _autoencoders(scale: float, folder: Path) -> list[Comparison]:
    """Weights of autoencoders by every feedback, with a threshold and without."""
    found: list[Comparison] = []
    table = _rated(3, 9, 6)
    for unit in (1.0, 4096.0):  # grades of many thousands are read in another unit
        path = _written(folder / "ratings.csv", *table[:2], unit * table[2])
        for feedback in ("implicit", "graded"):
            for threshold in (None, unit * float(np.sort(table[2])[len(table[2]) // 2])):  # one that a rating has
                kind: dict[str, Any] = {"feedback": feedback, "threshold": threshold, "dtype": "float64"}
                ridge = 0.8 if feedback == "implicit" else 0.8 * unit**2
                mine = DropoutAutoencoder(0.3, ridge, **kind).fit(path)
                other = DropoutAutoencoder(0.3, ridge, engine=Serial(), **kind).fit(path)
                label = f"weights, {feedback}, {threshold is None}, {unit}"
                found.append(compare(_weights(other, mine.item_ids_), "==", scale * mine.weights(), label))
    short = DropoutAutoencoder(0.3, 0.8, engine=Serial(), dtype="float64", memory=287).fit
    found.append(refuses(lambda: short(path), "memory: 6 items need 288 bytes"))
    enough = DropoutAutoencoder(0.3, 0.8, engine=Serial(), dtype="float64", memory=288).fit(path)
    found.append(same(len(enough.item_ids_), 6, "within the memory", scale))
    words = "ratings must be a path that the workers"
    found.append(refuses(lambda: DropoutAutoencoder(0.3, 0.8, engine=Serial()).fit(table), words))
    return found


def _chosen(scale: float, folder: Path) -> list[Comparison]:
    """Points of a choice, whose hidden pairs are those that one machine hides."""
    path = _written(folder / "ratings.csv", *_rated(3, 9, 6))
    chosen, alone = (DropoutAutoencoder(dtype="float64", engine=engine).fit(path) for engine in (Serial(), None))
    kinds = [[(point.diagonal, point.left_out.pairs) for point in one.points_] for one in (chosen, alone)]
    points = [
        np.array([(point.drop, point.ridge, *point.left_out.gain, *point.left_out.squared) for point in one.points_])
        for one in (chosen, alone)
    ]
    # items come in another order, and rankings of hidden pairs do not
    found = [compare(points[0], "==", scale * points[1], "points of a choice", precision=1e-7)]
    return [*found, same(kinds[0], kinds[1], "diagonals and pairs of a choice")]


def _several(scale: float, folder: Path) -> list[Comparison]:
    """Three files, the first of ratings far off the mean, with numbers for ids of users; elsewhere they are text."""
    found: list[Comparison] = []
    rows, columns, values = _rated(3, 12, 6)
    values = values + np.where(rows < 7, 4.0, 0.0)
    names = np.array([str(row + 5) if row < 7 else f"u{row}" for row in rows])  # "10" stands before "9" as text
    parts = np.where(rows < 7, 0, 1 + rows % 2)
    files = [
        _written(folder / f"{part}.csv", *(one[parts == part] for one in (names, columns, values))) for part in range(3)
    ]
    options: dict[str, Any] = {"sweeps": 3, "dtype": "float64", "seed": 4, "tolerance": 0.0}
    with mock.patch.object(partitioned, "files", return_value=files):  # as if they were found in a folder
        for penalty, steps in (("expected", None), (0.4, 3)):
            here = DropoutCompletion(2, 0.4, penalty, cg_steps=steps, **options).fit((names, columns, values))
            there = DropoutCompletion(2, 0.4, penalty, cg_steps=steps, engine=Serial(), **options).fit(folder)
            label = f"three files, {penalty}"
            alike = (there.user_ids_.tolist(), there.item_ids_.tolist())
            found.append(same(alike, (here.user_ids_.tolist(), here.item_ids_.tolist()), f"ids, {label}"))
            for name in ("user_factors_", "item_factors_", "user_biases_", "item_biases_", "mean_", "range_"):
                told, own = (np.asarray(getattr(one, name)) for one in (there, here))
                found.append(compare(told, "==", scale * own, f"{name}, {label}", precision=1e-6))
        mine = DropoutAutoencoder(0.3, 0.8, dtype="float64").fit((names, columns, values))
        other = DropoutAutoencoder(0.3, 0.8, dtype="float64", engine=Serial()).fit(folder)
        found.append(compare(_weights(other, mine.item_ids_), "==", scale * mine.weights(), "weights, three files"))
        points = [DropoutAutoencoder(dtype="float64", ridge=0.5, engine=engine) for engine in (Serial(), None)]
        fits = points[0].fit(folder), points[1].fit((names, columns, values))
        told_points, own_points = ([one.left_out.squared.value for one in fit.points_] for fit in fits)
        found.append(compare(told_points, "==", scale * np.array(own_points), "left-out errors, three files", 1e-7))
    _written(files[1], names, columns, values)
    with mock.patch.object(partitioned, "files", return_value=files):
        words = "a user occurs in more than one file"
        found.append(refuses(lambda: DropoutCompletion(2, engine=Serial()).fit(folder), words))
    return found
