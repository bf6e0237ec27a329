"""Gradients through batch norms in eval mode: those of autograd, in the layout of the images."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from droptics.attacks import norms
from droptics.attacks.gradients import Mixed, differentiable

SEEN = torch.channels_last


def network() -> nn.Module:
    """Two convolutions with a norm behind each, the second without weights, of statistics that are not the first."""
    layers = [nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3), nn.BatchNorm2d(4, affine=False)]
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 5)).double()
    draws = torch.Generator().manual_seed(0)
    for part in net.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(generator=draws)
            part.running_var.uniform_(0.3, 3.0, generator=draws)
    nn.init.normal_(net[1].weight, generator=draws)
    return net.eval().to(memory_format=SEEN)


def graph(outputs: torch.Tensor) -> str:
    """The names of what computed the outputs, one after the other."""
    names, left = [], [outputs.grad_fn]
    while left:
        node = left.pop()
        if node is not None:
            names.append(type(node).__name__)
            left += [before for before, _ in node.next_functions]
    return " ".join(names)


@pytest.fixture
def everywhere(monkeypatch):
    """Layers are treated as on a GPU, and the layouts of the gradients that they pass on are kept."""
    layouts, real = [], norms._Frozen.backward

    def backward(ctx, gradient):
        found = real(ctx, gradient)
        layouts.append(found[0].is_contiguous(memory_format=SEEN))
        return found

    monkeypatch.setattr(norms, "_pays", lambda inputs: True)
    monkeypatch.setattr(norms._Frozen, "backward", staticmethod(backward))
    return layouts


def test_outputs_and_gradients_are_those_of_autograd(everywhere):
    net, draws = network(), torch.Generator().manual_seed(1)
    inputs = torch.rand(7, 3, 8, 8, generator=draws, dtype=torch.float64)
    slopes = torch.randn(7, 5, generator=draws, dtype=torch.float64)
    leaf = inputs.clone().requires_grad_()
    outputs = net(leaf)
    (expected,) = torch.autograd.grad(outputs, leaf, slopes)
    tape = differentiable(net)
    assert torch.equal(tape.forward(inputs), outputs.detach())
    found = tape.pull(slopes)
    # Ten roundings of numbers that are no larger than the largest gradient, summed over some hundred weights.
    torch.testing.assert_close(found, expected, rtol=0, atol=1e3 * 2**-52 * float(expected.abs().max()))
    assert len(everywhere) == 2
    assert all(everywhere)


def test_half_precision_goes_the_same_way(everywhere):
    net = network().float()
    net[2] = nn.Softplus()  # half precision may take the other side of a kink, and then any gradient
    tape = differentiable(net, mixed=True)
    assert isinstance(tape, Mixed)
    inputs = torch.rand(7, 3, 8, 8)
    exact = differentiable(net)
    exact.forward(inputs)
    tape.forward(inputs)
    slopes = torch.ones(7, 5)
    expected, found = exact.pull(slopes), tape.pull(slopes)
    assert len(everywhere) == 4
    # Six layers there and back and their weights: some sixteen roundings by 2^-9, as if all added up.
    assert float((found - expected).norm()) < 8 * 2**-8 * float(expected.norm())


def test_what_trains_or_was_compiled_or_has_no_norm_is_left_alone(everywhere):
    net = network()
    inputs = torch.rand(7, 3, 8, 8, dtype=torch.float64)
    for left in (net.train(), nn.Sequential(nn.Flatten(), nn.Tanh()), network().forward):
        tape = differentiable(left)
        tape.pull(torch.ones_like(tape.forward(inputs)))
    assert not everywhere
    compiled = network()
    compiled.compile(backend="eager")
    for left in (compiled, nn.Sequential(torch.compile(network(), backend="eager"))):
        assert type(norms.even_norms(left)(inputs)).__name__ == "nullcontext"
    assert type(norms.even_norms(network())(inputs)).__name__ == "_EvenNorms"


@pytest.mark.parametrize("changed", ["no gradient", "channels first", "vectors"])
def test_layers_without_need_are_left_alone(everywhere, changed):
    net = network().to(memory_format=torch.contiguous_format) if changed == "channels first" else network()
    net.requires_grad_(False)
    inputs = torch.rand(7, 3, 8, 8, dtype=torch.float64, requires_grad=changed != "no gradient")
    if changed == "vectors":
        net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(192).requires_grad_(False)).double().eval()
    with norms._EvenNorms():
        outputs = net(inputs)
    assert "_Frozen" not in graph(outputs)
    with norms._EvenNorms():
        assert "_Frozen" in graph(network()(inputs.detach().requires_grad_()))


def test_on_a_cpu_torch_has_its_own_way(monkeypatch):
    monkeypatch.setattr(norms, "_LARGE", 0)
    assert not norms._pays(torch.rand(7, 3, 8, 8))
