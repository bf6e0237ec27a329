"""Launches by addresses: what was compiled for one kind of arguments is used for no other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from droptics.gpu import launches
from droptics.gpu.launches import launch


class Kernel:
    """Stands in for a kernel `(a_at, count, size, ONE, TWO)`: compiles once per call, and notes every launch."""

    arg_names = ("a_at", "count", "size", "ONE", "TWO")

    def __init__(self) -> None:
        self.compiled = 0
        self.launched: list[tuple[object, ...]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Kernel]:
        def compile_and_run(*given: object, **named: object) -> Kernel:
            self.compiled += 1
            return self

        def run(*given: object) -> None:
            self.launched.append((*grid, *given))

        return run if len(grid) == 3 else compile_and_run  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "_READY", {})
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__="3.6.0"))  # type: ignore[arg-type]


def test_the_second_launch_is_by_addresses_and_in_the_order_of_the_signature() -> None:
    kernel, a = Kernel(), torch.zeros(8)
    for _ in range(2):
        launch(kernel, 7, (a, 3, 0.5), {"TWO": 2, "ONE": 1}, {"num_warps": 4})
    assert kernel.compiled == 1
    assert kernel.launched == [(7, 1, 1, a.data_ptr(), 3, 0.5, 1, 2)]


@pytest.mark.parametrize(
    ("arguments", "constants", "options"),
    [
        ((torch.zeros(8).double(), 3, 0.5), {}, {}),
        ((torch.zeros(9)[1:], 3, 0.5), {}, {}),  # another alignment
        ((None, 3, 0.5), {}, {}),
        ((torch.zeros(8), 1, 0.5), {}, {}),
        ((torch.zeros(8), 32, 0.5), {}, {}),
        ((torch.zeros(8), 2**31 + 3, 0.5), {}, {}),
        ((torch.zeros(8), -(2**31) - 3, 0.5), {}, {}),
        ((torch.zeros(8), 3, 2), {}, {}),
        ((torch.zeros(8), 3, 0.5), {"ONE": 3}, {}),
        ((torch.zeros(8), 3, 0.5), {}, {"num_warps": 8}),
    ],
)
def test_other_kinds_are_compiled_for_themselves(
    arguments: tuple[object, ...], constants: dict[str, int], options: dict[str, int]
) -> None:
    kernel, usual, warps = Kernel(), {"ONE": 1, "TWO": 2}, {"num_warps": 4}
    first = torch.zeros(8)
    launch(kernel, 7, (first, first, 3, 0.5), usual, warps)
    launch(kernel, 7, (first, *arguments), usual | constants, warps | options)
    assert kernel.compiled == 2
    assert not kernel.launched


@pytest.mark.parametrize(("one", "other"), [(3, 2**31 - 1), (-3, 1 - 2**31), (32, -(2**31))])
def test_whole_numbers_of_one_kind_share_what_was_compiled(one: int, other: int) -> None:
    kernel, a = Kernel(), torch.zeros(8)
    for number in (one, other):
        launch(kernel, 7, (a, number, 0.5), {"ONE": 1, "TWO": 2}, {})
    assert kernel.compiled == 1
    assert kernel.launched == [(7, 1, 1, a.data_ptr(), other, 0.5, 1, 2)]


def test_the_first_compiler_that_takes_constants_is_known_by_two_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__="3.3.1+a"))  # type: ignore[arg-type]
    kernel, a = Kernel(), torch.zeros(8)
    for _ in range(2):
        launch(kernel, 7, (a, 3, 0.5), {"ONE": 1, "TWO": 2}, {})
    assert kernel.compiled == 1


def test_old_compilers_and_interpreters_take_their_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__="3.2.0"))  # type: ignore[arg-type]
    kernel, a = Kernel(), torch.zeros(8)
    for _ in range(2):
        launch(kernel, 7, (a, 3, 0.5), {"ONE": 1, "TWO": 2}, {})
    assert kernel.compiled == 2
    assert not launches._READY
