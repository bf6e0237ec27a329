"""A recorded step does what the step does, and elsewhere than on a GPU it is the step."""

from __future__ import annotations

import sys
import threading

import pytest
import torch
from torch import nn

from droptics.gpu import triton as kernels
from droptics.gpu.graphs import captured
from droptics.papers.thesis import capture

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def test_on_the_cpu_it_is_the_step_itself_and_does_not_run():
    number = torch.zeros(1)

    def step():
        return number.add_(1)

    assert captured(step, CPU, [number]) is step
    assert capture.captured(step, [number]) is step
    assert number.item() == 0


@needs_gpu
@pytest.mark.parametrize("rehearsals", [0, 3])
def test_replays_continue_where_the_state_stands(rehearsals):
    number = torch.full((3,), 2.0, device=CUDA)

    def step():
        number.mul_(2).add_(1)

    step()
    replay = captured(step, CUDA, [number], rehearsals=rehearsals)
    assert replay is not step
    assert number.tolist() == [5.0] * 3  # neither the rehearsals nor the recording moved it
    for _ in range(4):
        replay()
    assert number.tolist() == [95.0] * 3


@needs_gpu
def test_results_of_the_thesis_steps_are_those_of_the_present_replay():
    number = torch.zeros(2, device=CUDA)

    def advance():
        number.add_(1)
        return number * 10

    first, second = (capture.captured(advance, [number]) for _ in range(2))
    assert number.tolist() == [0.0, 0.0]
    assert first().tolist() == [10.0, 10.0]
    kept = second()
    assert kept.tolist() == [20.0, 20.0]
    first()
    assert kept.tolist() == [20.0, 20.0]  # recordings share their memory, not their results


@needs_gpu
def test_recordings_that_share_memory_do_not_disturb_each_other():
    generator = torch.Generator(CUDA).manual_seed(0)
    sizes = (300, 70, 1000)
    states = [torch.randn(size, size, device=CUDA, generator=generator) / size**0.5 for size in sizes]
    expected = [state.clone() for state in states]

    def step(state):
        state.copy_(torch.tanh(state @ state.mT) + (state @ state).sin())

    replays = [captured(lambda state=state: step(state), CUDA, [state]) for state in states]
    for _ in range(5):
        for replay, plain in zip(replays, expected, strict=True):
            replay()
            step(plain)
    for state, plain in zip(states, expected, strict=True):
        torch.testing.assert_close(state, plain)


@needs_gpu
def test_recording_again_and_again_takes_no_more_memory():
    net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).cuda().requires_grad_(False)
    inputs = torch.rand(4096, 256, device=CUDA)
    out = torch.empty(4096, 10, device=CUDA)

    def step():
        out.copy_(net(inputs))

    captured(step, CUDA)()
    torch.cuda.synchronize()
    before = torch.cuda.memory_reserved()
    for _ in range(20):
        captured(step, CUDA)()
    torch.cuda.synchronize()
    assert torch.cuda.memory_reserved() <= before + 2**21
    torch.testing.assert_close(out, net(inputs))


@needs_gpu
def test_a_step_that_asks_the_device_runs_as_it_is():
    number = torch.zeros(1, device=CUDA)

    def step():
        number.add_(1 if number.item() < 100 else 2)

    replay = captured(step, CUDA, [number])
    assert replay is step
    replay()
    torch.cuda.synchronize()
    assert number.item() == 1

    def sound():
        number.add_(1)

    good = captured(sound, CUDA, [number])  # the refusal leaves nothing behind
    assert good is not sound
    good()
    assert number.item() == 2


@needs_gpu
def test_threads_and_streams_record_apart():
    found: dict[str, list[float]] = {}

    def work(name, start):
        with torch.cuda.stream(torch.cuda.Stream()):
            state = torch.full((64, 64), start, device=CUDA)
            replay = captured(lambda: state.copy_((state @ torch.eye(64, device=CUDA)) + 1), CUDA, [state])
            for _ in range(50):
                replay()
            found[name] = state[0, :2].tolist()

    threads = [threading.Thread(target=work, args=(f"{i}", float(i))) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {f"{i}": [i + 50.0] * 2 for i in range(3)}


def test_triton_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    namespace = {}
    with pytest.raises(ImportError, match="the row kernel needs triton: pip install triton"):
        kernels.load_triton(namespace, "the row kernel")
    assert namespace == {}
    monkeypatch.setattr(kernels, "find_spec", lambda name: None)
    assert "pip install triton" in kernels.missing()
    monkeypatch.setattr(kernels, "find_spec", lambda name: object())
    assert kernels.missing() == ""


@pytest.mark.skipif(bool(kernels.missing()), reason="needs triton")
def test_the_language_is_put_where_the_kernels_look_for_it():
    namespace = {}
    triton = kernels.load_triton(namespace, "a kernel")
    assert namespace["tl"] is triton.language
