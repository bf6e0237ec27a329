"""Threads and interrupts: several audits at once are right, and nothing stays behind wherever one is stopped."""

import dis
import linecache
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import droptics
from droptics.attacks import Pgd, Threat, attack
from droptics.audits import audit
from droptics.data import Sample
from droptics.models import LastLayer, Site
from droptics.models.hooks import hooked
from droptics.models.modules import _LOCK, evaluating

PACKAGE = str(Path(droptics.__file__).parent)
INPUTS = torch.randn(24, 4, generator=torch.Generator().manual_seed(1))
LABELS = torch.randint(0, 3, (24,), generator=torch.Generator().manual_seed(2))


def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    return net.train()


def fingerprint(module):
    """Modes, hooks, buffers, all random states, and what torch asks before it runs a function."""
    hooks = [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules()]
    tables = [len(part._forward_hooks_always_called) for part in module.modules()]
    return (
        [part.training for part in module.modules()],
        hooks,
        tables,
        [buffer.tolist() for buffer in module.buffers()],
        random.getstate(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002
        torch.get_rng_state().tolist(),
        torch.is_grad_enabled(),
        torch._C._is_torch_function_enabled(),
        torch._C._len_torch_function_stack(),
    )


def report(module):
    found = audit(module, (INPUTS, LABELS), draws=2, rates=(0.3,), progress=False)
    return [found.clean_loss, found.training_loss.value, *(site.penalty.value for site in found.sites)]


@pytest.mark.parametrize("shared", [True, False], ids=["one module", "a module each"])
def test_audits_of_several_threads_are_those_of_one(shared):
    one = network()
    before, alone = fingerprint(one), report(network())
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(report, [one if shared else network() for _ in range(12)]))
    assert together == [alone] * 12
    assert fingerprint(one) == before


def test_features_and_attacks_of_several_threads_are_those_of_one():
    """Hooks see the calls of their own thread, and the last user of a module puts its mode back."""
    net = network()
    last, site, data = LastLayer(net, net[4]), Site(net, net[2], (8,)), Sample(INPUTS, LABELS)
    masks = torch.rand(24, 8, generator=torch.Generator().manual_seed(3))

    def answer(_):
        found = attack(net, data, Threat("l2", 0.3), Pgd(steps=3))
        return last.features(INPUTS).tolist(), site.outputs(INPUTS, masks).tolist(), found.inputs.tolist()

    before, alone = fingerprint(net), answer(0)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(answer, range(16)))
    finally:
        sys.setswitchinterval(interval)
    assert all(found == alone for found in together)
    assert fingerprint(net) == before


def test_the_last_of_two_threads_restores_the_mode():
    net, inside, leave = network(), threading.Event(), threading.Event()

    def stay():
        with evaluating(net):
            inside.set()
            leave.wait(120)

    other = threading.Thread(target=stay)
    other.start()
    inside.wait(120)
    with evaluating(net):
        assert not net.training
    assert not net.training, "the other thread still evaluates"
    leave.set()
    other.join()
    assert all(part.training for part in net.modules())


def test_hooks_do_not_see_other_threads():
    net, seen = network(), []
    with hooked(after=[(net, lambda *_: seen.append(1))]):
        thread = threading.Thread(target=net, args=(INPUTS,))
        thread.start()
        thread.join()
        assert seen == []
        net(INPUTS)
    assert seen == [1]


class Interrupt:
    """Raises KeyboardInterrupt at the given line of the package that this thread runs."""

    def __init__(self, at: int | None) -> None:
        self.at, self.lines = at, 0

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line" and not _leaving(frame):
            self.lines += 1
            if self.lines == self.at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def _leaving(frame):
    """Whether a `with` block is about to be left: a trace can raise before that, an interrupt comes after it.

    An answer that is returned from inside the block is moved out of the way first.
    """
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
    return line.startswith("with ") and dis.opname[frame.f_code.co_code[frame.f_lasti]] in ("LOAD_CONST", "SWAP")


def interrupted(call, at):
    """Lines that ran, with an interrupt at one of them."""
    trace, before = Interrupt(at), sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return trace.lines


CALLS = {
    "audit": report,
    "features": lambda net: LastLayer(net, net[4]).features(INPUTS),
    "site": lambda net: Site(net, net[2], (8,)).outputs(INPUTS, torch.ones(24, 8)),
    "attack": lambda net: attack(net, Sample(INPUTS, LABELS), Threat("l2", 0.3), Pgd(steps=2)),
}


@pytest.mark.parametrize("name", [pytest.param("audit", marks=pytest.mark.slow), "features", "site", "attack"])
def test_an_interrupt_leaves_nothing_behind(name):
    """At lines drawn at random, and at each of the last ones, where things are put back."""
    net = network()
    before, total = fingerprint(net), interrupted(lambda: CALLS[name](net), None)
    assert fingerprint(net) == before
    places = random.Random(0).sample(range(1, total), min(25, total - 1))
    for at in sorted({*places, *range(max(total - 40, 1), total + 1)}):
        interrupted(lambda: CALLS[name](net), at)
        assert fingerprint(net) == before, f"interrupted at line {at} of {total}"
        with ThreadPoolExecutor(1) as pool:  # nor a lock that another thread would wait for
            assert pool.submit(_LOCK.acquire, timeout=60).result()
            pool.submit(_LOCK.release).result()
