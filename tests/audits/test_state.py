"""What an audit leaves behind (nothing), and what it says about modules it cannot look into."""

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from droptics.audits import audit
from droptics.models.modes import undisturbed, unmoved

INPUTS = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
LABELS = torch.randint(0, 3, (60,), generator=torch.Generator().manual_seed(2))
VALUES = torch.randn(60, 3, generator=torch.Generator().manual_seed(3))


def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


class Mixed(nn.Module):
    """A part that was compiled inside a module that was not."""

    def __init__(self):
        super().__init__()
        self.body = torch.jit.script(network()[:3])
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.body(x))


@pytest.mark.parametrize("targets", [LABELS, VALUES], ids=["classes", "regression"])
def test_no_random_state_is_touched_by_an_audit_of_a_last_layer(targets):
    module = network()
    torch.manual_seed(5)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    audit(module, (INPUTS, targets), progress=False)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
    assert before[2] == np.random.get_state()[1].tolist()  # noqa: NPY002


def test_only_generators_that_are_put_back_are_seeded(monkeypatch):
    seeded, module = [], network()
    monkeypatch.setattr(torch, "manual_seed", seeded.append)
    with undisturbed(module, 3):
        first = torch.rand(2)
    with undisturbed(module, 3):
        again = torch.rand(2)
    assert seeded == []
    assert torch.equal(first, again)


def test_buffers_that_moved_are_put_back_and_no_others_are_written():
    """Statistics are written where torch does not count it; what did not move may belong to a graph."""
    module = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))
    module.register_buffer("still", torch.arange(3.0))
    module.register_buffer("flags", torch.tensor([True, False]))
    module.register_buffer("none", torch.zeros(0))
    module.register_buffer("unknown", torch.tensor([1.0, float("nan")]))
    before = {name: value.clone() for name, value in module.named_buffers()}
    counts = {name: value._version for name, value in module.named_buffers()}
    with unmoved(module):
        module(INPUTS)
        module.flags.logical_not_()
        assert not torch.equal(module[0].running_mean, before["0.running_mean"])
    for name, value in module.named_buffers():
        torch.testing.assert_close(value, before[name], rtol=0.0, atol=0.0, equal_nan=True)
    assert (module.still._version, module.none._version) == (counts["still"], counts["none"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("whole", [True, False], ids=["module", "part"])
def test_dropout_inside_torchscript_is_measured_and_named(whole):
    with torch.random.fork_rng():
        module = torch.jit.script(network()) if whole else Mixed()
        report = audit(module, (INPUTS, LABELS), progress=False)
    (site,) = report.sites
    assert site.site.kind == "compiled by TorchScript"
    assert report.rest is not None
    assert report.rest.value != 0
    (finding,) = [found for found in report.findings if found.site == site.site.name]
    assert finding.level == "note"
    assert "Python module" in finding.advice
    assert " ? " in str(report)


@pytest.mark.filterwarnings("ignore")
def test_dropout_frozen_by_a_trace_is_a_bug_with_the_right_advice():
    module = torch.jit.trace(network().train(), INPUTS, check_trace=False)
    report = audit(module, (INPUTS, LABELS), progress=False)
    (finding,) = [found for found in report.findings if found.level == "bug"]
    assert "model.eval()" in finding.advice


def test_a_dictionary_without_a_known_key_is_refused_with_a_way_out():
    class Two(nn.Module):
        def forward(self, x):
            return {"left": x, "right": x}

    with pytest.raises(ValueError, match="wrap it in a module that returns the output alone"):
        audit(Two(), (INPUTS, VALUES), progress=False)


@pytest.mark.parametrize("again", [False, True])
def test_gradients_that_were_there_stay(again):
    module = Again() if again else network()
    for number, parameter in enumerate(module.parameters()):
        parameter.grad = None if number == 1 else torch.full_like(parameter, float(number))
    audit(module, (INPUTS, VALUES), draws=2, rates=(), progress=False)
    for number, parameter in enumerate(module.parameters()):
        if number == 1:
            assert parameter.grad is None
        else:
            assert bool((parameter.grad == number).all())


class Again(nn.Module):
    """Computes a block with dropout again in the backward pass, and drops once more before or after it."""

    def __init__(self, order="only"):
        super().__init__()
        self.first, self.block, self.drop = network()[:2], nn.Sequential(nn.Dropout(0.3), nn.Tanh()), nn.Dropout(0.2)
        self.head, self.order = nn.Linear(8, 3), order

    def forward(self, x):
        hidden = self.first(x)
        hidden = self.drop(hidden) if self.order == "after" else hidden
        hidden = checkpoint(self.block, hidden, use_reentrant=False, preserve_rng_state=False)
        return self.head(self.drop(hidden) if self.order == "before" else hidden)


@pytest.mark.parametrize("order", ["only", "before", "after"])
def test_a_block_that_draws_again_is_found_wherever_others_drop(order):
    report = audit(Again(order), (INPUTS, VALUES), draws=2, rates=(), progress=False)
    assert [item.site for item in report.findings if item.code == "DR402"] == ["block.0"]
