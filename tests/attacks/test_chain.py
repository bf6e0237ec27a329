"""Layers in a row have the outputs and gradients of autograd, to the last bit; nothing else is taken for a chain."""

import pytest
import torch
from torch import nn

from droptics.attacks import Fgsm, Pgd
from droptics.attacks.chain import Chain
from droptics.attacks.gradients import Autograd, Mixed, PlainMlp
from droptics.attacks.search import tape_of


def network(seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inner = nn.Sequential(nn.Conv2d(8, 6, 3, padding=(1, 2), dilation=(1, 2), groups=2), nn.ReLU())
        body = (nn.Conv2d(2, 8, 4, 2, 1, bias=False), nn.ReLU(), inner, nn.Flatten())
        return nn.Sequential(*body, nn.Linear(6 * 49, 20), nn.ReLU(), nn.Linear(20, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_outputs_and_gradients_are_those_of_autograd(dtype):
    net = network().to(dtype)
    draws = torch.Generator().manual_seed(0)
    images = torch.rand(30, 2, 14, 14, generator=draws, dtype=dtype)
    slopes = torch.randn(30, 5, generator=draws, dtype=dtype)
    chain, other = Chain.of(net), Autograd(net)
    assert chain is not None
    assert torch.equal(chain.forward(images), other.forward(images))
    for again in (True, False):
        found = chain.pull(slopes, again=again)
        assert torch.equal(found, other.pull(slopes, again=again))
    assert bool((found.flatten(1).abs().amax(1) > 0).all())
    assert torch.equal(chain.scores(images), other.scores(images))
    assert not found.requires_grad
    assert not chain.forward(images).requires_grad


def test_a_backward_pass_of_some_is_that_of_theirs():
    net = network().double()
    images = torch.rand(30, 2, 14, 14, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    slopes = torch.randn(30, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    chain = Chain.of(net)
    assert chain is not None
    chain.forward(images)
    whole, rows = chain.pull(slopes), torch.tensor([3, 4, 17, 29])
    # Sums of some hundred products, in another order.
    torch.testing.assert_close(chain.pull(slopes[rows], rows), whole[rows], rtol=0, atol=1e-13)


class Doubled(nn.ReLU):
    def forward(self, inputs):
        return 2 * super().forward(inputs)


def hooked() -> nn.Module:
    layer = nn.ReLU()
    layer.register_forward_hook(lambda module, given, found: 2 * found)
    return layer


def replaced() -> nn.Module:
    layer = nn.ReLU()
    layer.forward = lambda inputs: 2 * inputs.relu()
    return layer


@pytest.mark.parametrize(
    "other",
    [
        nn.ReLU(inplace=True),
        Doubled(),
        hooked(),
        replaced(),
        nn.BatchNorm2d(8),
        nn.Dropout(),
        nn.Conv2d(8, 8, 3, padding="same"),
        nn.Conv2d(8, 8, 3, padding=1, padding_mode="reflect"),
        nn.Flatten(2),
    ],
)
def test_what_is_no_chain_is_left_to_autograd(other):
    net = network()
    changed = nn.Sequential(net[0], other, *net[1:])
    assert Chain.of(net) is not None
    assert Chain.of(changed) is None
    assert type(tape_of(changed, Pgd())) is Autograd


def test_chains_are_found():
    net = network()
    for method in (Pgd(), Fgsm()):
        assert isinstance(tape_of(net, method), Chain)
    assert isinstance(tape_of(net, Pgd(precision="half")), Mixed)
    assert isinstance(tape_of(net[4:], Pgd()), PlainMlp)
    assert Chain.of(net.forward) is None
    assert Chain.of(nn.Sequential(nn.Flatten(), nn.ReLU())) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert Chain.of(net) is None
    for part, width in ((net, 5), (net[:3], None), (net[:6], None)):
        chain = Chain.of(part)
        assert chain is not None
        assert chain.width == width


def test_outputs_that_are_no_rows_are_refused():
    chain = Chain.of(network()[:3])
    assert chain is not None
    for call in (chain.forward, chain.scores):
        with pytest.raises(ValueError, match="one row of outputs per input"):
            call(torch.rand(3, 2, 14, 14))
