"""Small figures and cells for the tests of the evidence room; at module level, so that worker processes find them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch

from droptics import plots
from droptics.evidence.claims import compare
from droptics.evidence.figures import Cell, Expectation, Figure
from droptics.evidence.provenance import hardware
from droptics.papers.columns import column

CELLS = 6


def square_cell(*, number: int, seconds: float = 0.0, log: str = "") -> list[dict]:
    """A number, its square, and a sum whose rounding depends on the order of addition."""
    time.sleep(seconds)
    if log:
        with Path(log).open("a") as file:
            file.write(f"{number}\n")
    values = torch.randn(200_000, generator=torch.Generator().manual_seed(number))
    return [{"number": number, "square": number**2, "sum": float(values.sum())}]


def dying_cell(*, number: int, marker: str, always: bool) -> list[dict]:
    """Kills its own process, the first time or every time."""
    path = Path(marker)
    if number == 2 and (always or not path.exists()):
        with path.open("a") as file:
            file.write("died\n")
        os._exit(3)
    return [{"number": number}]


def named_cell(*, number: int) -> list[dict]:
    """The name of the Dask worker it runs on."""
    from distributed import get_worker

    return [{"number": number, "worker": get_worker().name}]


def pretend_gpu() -> None:
    """Make this process believe that it has a GPU."""
    torch.cuda.is_available = lambda: True
    torch.cuda.get_device_name = lambda *_: "pretended"
    hardware.cache_clear()


def failing_cell(*, number: int) -> list[dict]:
    if number == 1:
        raise ValueError("one is a bad number")
    return [{"number": number}]


def expects(rows, scale):
    squares = column(rows, "square")
    return [
        Expectation(compare(max(squares), "==", (CELLS - 1) ** 2, "largest square"), printed="25 in all"),
        Expectation(compare(min(squares), "==", 1, "smallest square"), reproduced=False, note="it is zero"),
    ]


def draw(rows, path):
    series = {"squares": (column(rows, "number"), column(rows, "square"))}
    plots.save(plots.panels([plots.Panel("squares", "number", "square", series)]), path)


def figure(id="toy-fig1", run=square_cell, gpu=False, needs=(), **parameters):
    def cells(scale):
        return [Cell(f"number {i}", {"number": i} | parameters, gpu) for i in range(CELLS)]

    checks = expects if run is square_cell else (lambda rows, scale: [])
    picture = draw if run is square_cell else (lambda rows, path: Path(path).touch())
    return Figure(id, "Toy, Figure 1", "Squares", "Squares grow.", cells, run, checks, picture, needs=needs)
