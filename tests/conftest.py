"""What all tests share: drawn examples that are the same everywhere, an order that can be drawn anew."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import settings

# A change is judged by the examples that judged the one before it; `--hypothesis-profile=default` draws others.
settings.register_profile("same everywhere", derandomize=True)
settings.load_profile("same everywhere")

# Rooms whose tests compare texts, files, names and refusals and no number that a processor rounds: another instruction
# set cannot change their outcome, so `make test-rounding` leaves them out.
UNROUNDED = {"structure", "hostile", "files", "benchmarks", "test_package.py", "test_release.py"}
UNROUNDED |= {"test_broken_lines.py", "test_mistakes.py", "test_newcomer.py", "test_kills.py", "test_warmup.py"}
UNROUNDED |= {"test_engines.py", "test_gallery.py", "test_defects.py"}  # defects are larger than any rounding

TESTS = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--shuffle SEED` runs the tests in an order drawn by that seed, the same in every process.

    `--nudge SEED` moves the starts of SciPy's descents by their last digits. Where a descent ends in a flat valley
    after so many steps, this changes what it finds more than another processor's products do.
    """
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in an order drawn by this seed")
    parser.addoption("--nudge", type=int, metavar="SEED", help="move starts of descents by their last digits")


def pytest_configure(config: pytest.Config) -> None:
    """Replace SciPy's descent before anything imports it."""
    seed = config.getoption("--nudge")
    if seed is not None:
        minimize = scipy.optimize.minimize

        def nudged(fun: Any, x0: Any, *args: Any, **kwargs: Any) -> Any:
            start = np.asarray(x0, dtype=float)
            noise = np.random.default_rng((seed, start.size)).standard_normal(start.shape)
            return minimize(fun, start * (1 + 1e-13 * noise), *args, **kwargs)

        scipy.optimize.minimize = nudged


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """What a test draws without a generator of its own does not hang on the tests before it."""
    torch.manual_seed(0)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what no rounding can change, and draw the order, where one is asked for."""
    for item in items:
        if UNROUNDED & set(item.path.relative_to(TESTS).parts if item.path.is_relative_to(TESTS) else ()):
            item.add_marker("unrounded")
    seed = config.getoption("--shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)
