"""What a claim compares on work that a device or a cluster does: half-sweeps, passes that are paid, who answers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn

from droptics import clusters
from droptics.audits.batches import Batch
from droptics.audits.runs import Law, Runs
from droptics.data import Sample
from droptics.datasets.columns import ROLES, positions
from droptics.evidence.claims import Comparison, compare
from droptics.evidence.figures import Artifact
from droptics.evidence.gallery import _claims_said, _figures_said
from droptics.losses import Squared
from droptics.masks import Bernoulli
from droptics.models import ReLUNet
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.evidence.figure_checks import TOY
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal
from droptics.penalties import MonteCarlo, intervals, penalty
from droptics.recommenders.alternation import Strengths
from droptics.recommenders.device import Table, half_sweep
from droptics.recommenders.ratings import Compressed
from droptics.recommenders.sweepers import Threads

CPU = torch.device("cpu")
SILENT = 1  # the port where nobody speaks


def worked_elsewhere(scale: float) -> list[Comparison]:
    """Row systems of every kind, passes that are paid, clusters by their address, intervals with rounding, words."""
    parts = _half_sweeps, _long_rows, _paid, _answered, _rounded, _counted
    return by_parts(parts, scale)


def _factors(rng: np.random.Generator, count: int, strengths: Strengths) -> Any:
    """Random factors with zeros behind them."""
    used = strengths.width + (strengths.bias is not None)
    return np.pad(rng.normal(size=(count, used)), ((0, 0), (0, strengths.columns - used)))


def solved_rows(rows: Any, fixed: Any, weights: Any, strengths: Strengths) -> tuple[Any, float, float]:
    """Solutions of the normal equations of every row, the penalized sum of squares with the own part, and the plain."""
    width, used = strengths.width, strengths.width + (strengths.bias is not None)
    level = [
        (1 - strengths.smoothing) * (weights @ fixed[:, k] ** 2) / weights.sum()
        + strengths.smoothing * (fixed[:, k] ** 2).mean()
        for k in range(width)
    ]
    per_row = weights.sum() / len(rows)
    wanted, plain = np.zeros((len(rows), strengths.columns)), 0.0
    reached = strengths.ridge * (fixed[:, :width] ** 2).sum()
    reached += strengths.weighted * (weights @ fixed[:, :width] ** 2).sum()
    reached += 0.0 if strengths.bias is None else strengths.bias * (fixed[:, width] ** 2).sum()
    for i, (places, values) in enumerate(rows):
        x, y = fixed[places][:, :used].copy(), values.copy()
        if strengths.bias is not None:
            y = y - x[:, width]
            x[:, width] = 1
        squares, d = (x**2).sum(0), np.zeros(used)
        for k in range(width):
            d[k] = strengths.empirical * squares[k]
            d[k] += len(y) * (strengths.expected * (1 - strengths.smoothing) * level[k] + strengths.weighted)
            d[k] += strengths.expected * strengths.smoothing * per_row * level[k] + strengths.ridge
        if strengths.bias is not None:
            d[width] = strengths.bias
        if len(y):
            wanted[i, :used] = np.linalg.solve(x.T @ x + np.diag(d), x.T @ y)
            rest = float(((y - x @ wanted[i, :used]) ** 2).sum())
            plain += rest
            reached += rest + float(d @ wanted[i, :used] ** 2)
    return wanted, reached, plain


def _half_sweeps(scale: float) -> list[Comparison]:
    """Rows solve their normal equations, at once or by conjugate gradients; the sums of squares that they reach."""
    found: list[Comparison] = []
    rng = np.random.default_rng(2)
    lengths = (3, 0, 7, 1, 5, 2)
    rows = [(rng.permutation(8)[:count], rng.normal(size=count)) for count in lengths]
    weights = np.bincount(np.concatenate([row[0] for row in rows]), minlength=8).astype(float)
    for strengths in (
        Strengths(2, 0.3, 0.2, 0.1, 0.4, smoothing=0.25),
        Strengths(3, expected=0.5, bias=0.7),
        Strengths(2, ridge=0.05),
    ):
        fixed = _factors(rng, 8, strengths)
        wanted, reached, plain = solved_rows(rows, fixed, weights, strengths)
        width, used = strengths.width, strengths.width + (strengths.bias is not None)
        for memory in (2**30, 1):  # all at once; every row a bucket and a group of its own
            table = Table(Compressed.of(rows, np.dtype(np.float64)), CPU, memory).buckets
            for steps in (0, 40):
                free = torch.from_numpy(rng.normal(size=wanted.shape))
                free[:, used:] = 0
                given = torch.from_numpy(fixed)
                sums = half_sweep(table, given, free, strengths, torch.from_numpy(weights), steps)
                label = f"{steps} steps, width {width}, memory {memory}"
                found.append(compare(free.numpy(), "==", scale * wanted, f"rows, {label}", precision=1e-7))
                found.append(compare(float(sums[0]), "==", scale * reached, f"penalized, {label}", 1e-7))
                found.append(compare(float(sums[1]), "==", scale * plain, f"plain, {label}", precision=1e-7))
    return found


def _long_rows(scale: float) -> list[Comparison]:
    """The compiled loops on rows of more ratings than a tile holds, of more factors than one has, with biases."""
    found: list[Comparison] = []
    rng = np.random.default_rng(5)
    rows = [(rng.permutation(90)[:count], rng.normal(size=count)) for count in (70, 33, 0, 5, 41, 90)]
    weights = np.bincount(np.concatenate([row[0] for row in rows]), minlength=90).astype(float)
    for strengths in (Strengths(11, 0.1, 0.2, ridge=0.3, bias=0.7), Strengths(18, 0.2, ridge=0.5)):
        fixed = _factors(rng, 90, strengths)
        wanted, reached, plain = solved_rows(rows, fixed, weights, strengths)
        table, used = Compressed.of(rows, np.dtype(np.float64)), strengths.width + (strengths.bias is not None)
        for steps in (0, 60):
            free = rng.normal(size=wanted.shape)
            free[:, used:] = 0
            told = Threads(1).solve(table, fixed, free, strengths, weights, steps)
            label = f"{steps} steps, {strengths.width} factors"
            found.append(compare(free, "==", scale * wanted, f"long rows, {label}", precision=1e-7))
            sums = scale * np.array([reached, plain])
            found.append(compare(told, "==", sums, f"sums of long rows, {label}", precision=1e-6))
    return found


def _paid(scale: float) -> list[Comparison]:
    """Passes are counted where they are made: one forward, and two more for a gradient."""
    module = nn.Sequential(linear_head(1, 3, 4), nn.Tanh(), nn.Dropout(0.4), linear_head(2, 4, 2))
    batch = Batch((normal(3, 5, 3),), {}, normal(4, 5, 2), 5)
    law = Law("2", 0.4, "entry")
    runs = Runs(module, batch, Squared(), {"2": law}, {})
    mask = torch.ones(5, 4).double()
    spent = []
    runs.losses({"2": [mask]})
    spent.append(runs.spent)
    runs.gradient({"2": [mask.clone().requires_grad_()]})
    spent.append(runs.spent)
    found = [compare(spent, "==", scale * np.array([1.0, 3.0]), "a pass, and one with its gradient")]
    return found


class _Line:
    """A call that somebody takes, who is waited for until he speaks."""

    def __init__(self, place: tuple[str, int], timeout: float) -> None:
        self.place, self.timeout, self.heard = place, timeout, 0

    def __enter__(self) -> _Line:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def recv(self, count: int) -> bytes:
        """One letter, or nobody speaks."""
        self.heard += count
        if self.place[1] == SILENT:
            raise TimeoutError("timed out")
        return b"x"


def _answered(scale: float) -> list[Comparison]:
    """A cluster is asked at its port before Dask is; what is no address, or nobody's, is refused by name."""
    found: list[Comparison] = []
    made: list[tuple[Any, ...]] = []

    def client(address: str, **options: Any) -> str:
        made.append((address, options))
        if address.endswith("/odd"):
            raise OSError("odd")
        return "a client"

    security = SimpleNamespace(get_connection_args=lambda _: {"ssl_context": None})
    fake = SimpleNamespace(Client=client, Security=lambda: security)
    lines: list[_Line] = []

    def dial(place: tuple[str, int], timeout: float) -> _Line:
        lines.append(_Line(place, timeout))
        return lines[-1]

    with mock.patch.dict(sys.modules, {"distributed": fake}), mock.patch("socket.create_connection", dial):
        for prefix in ("tcp://", ""):
            told = clusters.connect(f"{prefix}host:8786")
            wanted = ("tcp://host:8786", {"timeout": clusters.SECONDS, "set_as_default": False})
            found.append(same((told, made[-1]), ("a client", wanted), f"a scheduler, {prefix or 'no scheme'}", scale))
            call = (lines[-1].place, lines[-1].timeout, lines[-1].heard)
            found.append(same(call, (("host", 8786), clusters.SECONDS, 1), "who is called, and speaks first", scale))
        silent = f"tcp://host:{SILENT}"
        words = f"no Dask scheduler answers at {silent} (timed out); check the address"
        found.append(refuses(lambda: clusters.connect(silent), words, "somebody who says nothing"))
        clusters.connect(f"ws://host:{SILENT}")
        told_of = (made[-1][0], lines[-1].heard)
        found.append(same(told_of, (f"ws://host:{SILENT}", 0), "a scheme without a greeting", scale))
        inner = f"inproc://host/{os.getpid()}/1"
        found.append(same((clusters.connect(inner), made[-1][0]), ("a client", inner), "in this process", scale))
        odd = f"inproc://host/{os.getpid()}/odd"
        found.append(refuses(lambda: clusters.connect(odd), "is no Dask scheduler; check the address"))
        for address in ("tcp://host", "ftp://host:1", "tcp://:5", "inproc://x/0/1", "tcp://host:x"):
            text = f"engine: {address!r} is not an address; write tcp://host:port"
            found.append(refuses(lambda address=address: clusters.connect(address), text))
        secret = "tls://host:1"
        found.append(refuses(lambda: clusters.connect(secret), f"{secret} asks for certificates"))
    with mock.patch.dict(sys.modules, {"distributed": None}):
        found.append(refuses(lambda: clusters.connect("x:1"), "a cluster needs the extra droptics[dask]"))
    return found


def _rounded(scale: float) -> list[Comparison]:
    """Ends of a sampled interval: what the draws tell, what rounding may have done, and the last bit."""
    found: list[Comparison] = []
    model = ReLUNet([normal(1, 4, 3), normal(2, 2, 4)])
    data, law = Sample(normal(3, 6, 3), normal(4, 6, 2)), Bernoulli(0.4, 7)
    plain = penalty(model, data, law, MonteCarlo(64, seed=2))
    for rounding in (1e-4, 1e-3):
        with mock.patch.object(intervals, "_rounding", lambda *_, rounding=rounding: np.array(rounding)):
            told = penalty(model, data, law, MonteCarlo(64, seed=2))
        value = float(told.value)
        found.append(compare(value, "==", scale * float(plain.value), f"the same draws, {rounding}"))
        half = float(plain.upper - plain.lower) / 2
        ends = [float(told.upper) - value, value - float(told.lower)]
        found.append(
            compare(ends, "==", scale * (half + rounding), f"half of the interval, {rounding}", precision=1e-7)
        )
        found.append(compare(float(told.error), "==", scale * rounding, f"its error, {rounding}", precision=1e-7))
    return found


def _counted(scale: float) -> list[Comparison]:
    """Figures by their outcome in words; columns by name and number."""
    found: list[Comparison] = []
    one = Artifact(TOY, "smoke", Path("somewhere"))
    several = [one, Artifact(TOY, "smoke", Path("x"), skipped="no data"), one]
    text = "3 figures and tables: reproduced 2, skipped 1."
    found.append(same((_figures_said(several), _figures_said([]), _claims_said([])), (text, "", ""), "counts", scale))
    names, path = ["User", "movie_id", "rating", "x", "x"], Path("t.csv")
    for columns, wanted in ((None, (0, 1, 2)), (("x0", "User", 2), None), (("rating", "User", 1), (2, 0, 1))):
        if wanted is None:
            words = f"columns: {path} has no column 'x0'; its header is {names}"
            found.append(refuses(lambda c=columns: positions(names, c, path, 5), words))
        else:
            found.append(same(positions(names, columns, path, 5), wanted, f"columns {columns}", scale))
    twice = f"columns: {path} has several columns 'x'; name them by position"
    found.append(refuses(lambda: positions(names, ("x", 0, 1), path, 5), twice))
    short = f"{path}, line 1: 3 fields, expected at least 10 (user, item, rating)"
    found.append(refuses(lambda: positions(names, (0, 9, 2), path, 3), short))
    found.append(same(list(ROLES), ["user", "item", "rating"], "roles", scale))
    return found
