"""What all tests share: an order that can be drawn anew, so that no test leans on the one before it."""

from __future__ import annotations

import random

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--shuffle SEED` runs the tests in an order drawn by that seed, the same in every process."""
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in an order drawn by this seed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Draw the order, where one is asked for."""
    seed = config.getoption("--shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)
