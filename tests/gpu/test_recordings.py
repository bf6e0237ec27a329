"""The order of a recording, on a device that only writes down what it is asked for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from droptics.gpu import graphs

CUDA = torch.device("cuda")


class Stream:
    """Stands in for a stream that is called `name`."""

    device_index, cuda_stream, device = 0, 7, torch.device("cpu")

    def __init__(self, name: str, told: list[str]) -> None:
        self.name, self.told = name, told

    def wait_stream(self, other: Stream) -> None:
        self.told.append(f"{self.name} waits for {other.name}")


class Graph:
    """Stands in for a recording."""

    def __init__(self, told: list[str]) -> None:
        self.told = told

    def capture_begin(self, pool: object, capture_error_mode: str) -> None:
        self.told.append("begin")

    def capture_end(self) -> None:
        self.told.append("end")

    def replay(self) -> None:
        self.told.append("replay")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a device with nothing in its memory is asked for, in order."""
    told: list[str] = []

    @contextlib.contextmanager
    def on(stream: Stream) -> Iterator[None]:
        told.append(f"to {stream.name}")
        yield
        told.append("back")

    device = {
        "current_stream": lambda: Stream("here", told),
        "Stream": lambda: Stream("studio", told),
        "CUDAGraph": lambda: Graph(told),
        "graph_pool_handle": object,
        "stream": on,
        "device": lambda device: contextlib.nullcontext(),
        "mem_get_info": lambda: (100, 100),
    }
    for name, stand_in in device.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    monkeypatch.setattr(graphs, "_studios", threading.local())
    return told


def step_on(state: torch.Tensor, told: list[str]) -> Callable[[], object]:
    def step() -> None:
        told.append("step")
        state.add_(1)

    return step


def test_a_step_is_rehearsed_and_recorded_between_what_was_and_what_will_be_under_way(told: list[str]) -> None:
    state = torch.zeros(2)
    graphs.captured(step_on(state, told), CUDA)
    told.clear()
    replay = graphs.captured(step_on(state, told), CUDA, [state], rehearsals=2)
    recorded = ["begin", "step", "end"]
    assert told == ["studio waits for here", "to studio", "step", "step", *recorded, "back", "here waits for studio"]
    assert state.tolist() == [4.0, 4.0], "three rehearsals and a recording before, whose state was nobody's"
    told.clear()
    replay()
    assert told == ["replay"]


def test_what_is_refused_is_the_step_itself_and_leaves_no_studio(told: list[str]) -> None:
    state = torch.zeros(1)

    def refused() -> None:
        state.add_(1)
        raise RuntimeError("operation not permitted when stream is capturing")

    graphs.captured(step_on(state, told), CUDA)
    assert graphs._known()
    assert graphs.captured(refused, CUDA, [state], rehearsals=0) is refused
    assert not graphs._known()
    assert told[-1] == "here waits for studio"
    assert told.count("begin") == told.count("end") == 3
    assert state.tolist() == [4.0]


@pytest.mark.parametrize(("free", "kept"), [(49, False), (50, True), (51, True)])
def test_what_recordings_left_behind_is_given_back_where_more_than_half_of_the_memory_is_in_use(
    free: int, kept: bool, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Stream("here", told)
    known = graphs._studio(here)  # type: ignore[arg-type]
    assert graphs._studio(here) is known  # type: ignore[arg-type]
    emptied: list[bool] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 100))
    assert (graphs._studio(here) is known) == kept  # type: ignore[arg-type]
    assert len(emptied) == (0 if kept else 1)
