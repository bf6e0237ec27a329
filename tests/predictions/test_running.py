"""Modules that drop in odd ways: moments against the sum over all masks, or what was read is taken back."""

import random

import numpy as np
import pytest
import torch
from compare import close, covers
from networks import drawn_inputs as inputs
from networks import drawn_weights as seeded
from torch import nn
from torch.nn import functional

from droptics.errors import NoClosedForm
from droptics.masks import Bernoulli
from droptics.models.watching import Places
from droptics.penalties import MonteCarlo
from droptics.predictions import predictive
from droptics.predictions.modules import Unsteady, _alike, read_module
from droptics.predictions.running import _Masked

RATE = 0.3


class Keeping(nn.Module):
    """A part that leaves what it computed for others to read."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        self.kept = self.layer(x)
        return torch.tanh(self.kept)


class Odd(nn.Module):
    """One site of three units, met in a way that its name says; `drop` is what the site calls."""

    def __init__(self, way):
        super().__init__()
        self.way, self.body, self.head = way, Keeping(), nn.Linear(3, 2)

    def forward(self, x, drop=functional.dropout):
        hidden = self.body(x)
        if self.way == "in place":
            drop(hidden, RATE, True, True)
            return self.head(torch.tanh(hidden))
        if self.way == "in place and added":
            return self.head(torch.tanh(hidden + drop(hidden, RATE, True, True)))
        if self.way == "kept":
            return self.head(torch.tanh(drop(hidden, RATE, True, False)) + self.body.kept)
        if self.way == "by place":
            places = torch.arange(len(x), dtype=x.dtype)[:, None]
            return self.head(torch.tanh(drop(hidden + places, RATE, True, False)))
        if self.way == "by count":
            return self.head(torch.tanh(len(x) * drop(hidden, RATE, True, False)))
        dropped = drop(hidden, RATE, True, False)
        if self.way == "scaled":
            return self.head(torch.tanh(dropped / (0.1 + float(dropped.detach().abs().max()))))
        return self.head(dropped) if dropped.sum() > 0 else self.head(torch.tanh(dropped))


def summed(module, x):
    """Mean and variance over all masks of two examples."""
    total, second = 0.0, 0.0
    for z, p in Bernoulli(RATE, 6).atoms():

        def drop(source, _, __, inplace, z=z):
            multipliers = z.reshape(source.shape)
            return source.mul_(multipliers) if inplace else source * multipliers

        with torch.no_grad():
            value = module(x, drop)
        total, second = total + p * value, second + p * value.square()
    return total, second - total.square()


@pytest.mark.parametrize("way", ["in place", "in place and added", "kept"])
def test_masks_written_in_place_and_values_left_in_parts_are_followed(way):
    module, x = seeded(Odd(way)), inputs(2, 4)
    found = predictive(module, x)
    mean, variance = summed(module, x)
    close(found.mean.value, mean, 1e-12)
    close(found.variance.value, variance, 1e-12)


@pytest.mark.parametrize("way", ["by place", "by count", "scaled", "branch"])
def test_modules_whose_rows_are_not_apart_draw_for_themselves(way):
    """Against the sum over all masks; one draw at 99.9999 % for eight numbers: fixed seed, one try."""
    module, x = seeded(Odd(way)), inputs(2, 4)
    found = predictive(module, x, method=MonteCarlo(400, seed=2, confidence=0.999999))
    mean, variance = summed(module, x)
    covers(found.mean, mean)
    covers(found.variance, variance)
    assert read_module(module, x).sites == ()
    other = predictive(module, x, method=MonteCarlo(400, seed=3))
    assert not torch.equal(other.mean.value, found.mean.value)


class Skipping(nn.Module):
    """A site that is met in every second pass, before another of the same name."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        if random.random() < 0.5:
            x = functional.dropout(x, 0.5, self.training)
        return self.head(torch.tanh(functional.dropout(x, RATE, self.training)))


def test_sites_that_are_skipped_at_random_keep_their_rates():
    """Against the sum over all masks with and without the first site."""
    module, x = seeded(Skipping()), inputs(3, 3)
    values = []
    for first, p in Bernoulli(0.5, 3).atoms():
        for second, q in Bernoulli(RATE, 3).atoms():
            values += [(p * q / 2, torch.tanh(x * first * second)), (p * q / 2, torch.tanh(x * second))]
    outputs = [(p, module.head(hidden).detach()) for p, hidden in values]
    mean = sum(p * value for p, value in outputs)
    found = predictive(module, x, method=MonteCarlo(600, seed=1, confidence=0.999999))
    covers(found.mean, mean)
    covers(found.variance, sum(p * value.square() for p, value in outputs) - mean.square())


def test_a_rate_that_changed_since_the_module_was_read_is_noticed():
    module = seeded(nn.Sequential(nn.Dropout(0.3), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)))
    found = read_module(module, inputs(5, 4))
    ones = torch.ones(1, 1, 4, dtype=torch.float64)
    found.outputs(ones)
    module[0].p = 0.6
    with pytest.raises(Unsteady):
        found.outputs(ones)


class LateNoise(nn.Module):
    """Noise of a generator that nobody sees, which spares the first two examples."""

    def __init__(self):
        super().__init__()
        self.drop, self.head, self.own = nn.Dropout(0.3), nn.Linear(3, 2), torch.Generator()

    def forward(self, x):
        noise = torch.rand(x.shape, generator=self.own, dtype=x.dtype)
        noise[:2] = 0
        return self.head(self.drop(x + noise))


def test_noise_of_some_examples_is_noticed():
    assert not read_module(seeded(LateNoise()), inputs(5, 3)).certain


SOURCES = {"torch": lambda: float(torch.rand(())), "Python": random.random, "NumPy": np.random.random_sample}


class Unused(nn.Module):
    """A number is drawn and may decide something in another pass."""

    def __init__(self, share, source):
        super().__init__()
        self.share, self.source, self.drop, self.head = share, source, nn.Dropout(0.3), nn.Linear(3, 2)

    def forward(self, x):
        return self.head(self.drop(x)) * (1 + (SOURCES[self.source]() < self.share))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("share", [0.0, 0.01])
def test_a_module_that_draws_is_never_certain(share, source):
    module = seeded(Unused(share, source))
    assert not read_module(module, inputs(5, 3)).certain
    with pytest.raises(NoClosedForm, match="more masks than can be listed"):
        predictive(module, inputs(5, 3))


def test_masks_written_in_place_leave_no_derivative_and_no_control():
    """The same masks, written in place or not; controls move the estimate within its interval."""
    x, found = inputs(5, 4), []
    for inplace in (True, False):
        drops = [nn.Dropout(0.3, inplace) for _ in range(3)]
        first, second = [nn.Linear(4, 40), nn.Tanh(), drops[0]], [nn.Linear(40, 30), nn.Tanh(), drops[1]]
        module = seeded(nn.Sequential(*first, *second, nn.Linear(30, 20), nn.Tanh(), drops[2], nn.Linear(20, 1)))
        found.append(predictive(module, x, method=MonteCarlo(200, confidence=0.999999)).variance)
    assert "no control" in found[0].method
    assert bool(((found[0].lower <= found[1].upper) & (found[1].lower <= found[0].upper)).all())


@pytest.mark.slow
def test_a_compiled_module_is_read():
    module, x = seeded(Odd("kept")), inputs(5, 4)
    compiled = torch.compile(module, backend="eager")
    close(predictive(compiled, x).variance.value, predictive(module, x).variance.value, 1e-12)


class Strange(nn.Module):
    """Two sites of two units each, met in a way that its name says; `drop` is what they call."""

    def __init__(self, way):
        super().__init__()
        self.way, self.body, self.head = way, nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x, drop=functional.dropout):
        if self.way == "written":
            return self.head(drop(torch.tanh(self.body(drop(x.mul_(0.5).add_(1.0), RATE, True))), RATE, True))
        if self.way == "derived":
            with torch.enable_grad():
                point = x.detach().requires_grad_(True)
                energy = drop(torch.tanh(self.body(point)), RATE, True).square().sum()
                (slope,) = torch.autograd.grad(energy, point, allow_unused=True)
            slope = torch.zeros_like(x) if slope is None else slope
            return self.head(drop(slope, RATE, True)).tanh()
        first = drop(x, RATE, True)
        order = first[:, 0].argsort()
        return torch.tanh(self.head(drop(torch.tanh(self.body(first[order])), RATE, True)))[order.argsort()]


@pytest.mark.parametrize("way", ["written", "derived", "ordered"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_inputs_derivatives_and_orders_are_the_modules_own(way, seed):
    """Against the sum over all 256 masks of two examples; what is sampled at 99.9999 %: fixed seed, one try."""
    torch.manual_seed(seed)
    module, x = Strange(way).double(), torch.randn(2, 2, dtype=torch.float64)
    given = x.clone()
    found = predictive(module, given, method=MonteCarlo(200, seed=1, confidence=0.999999))
    assert torch.equal(given, x)
    total, second = 0.0, 0.0
    for z, p in Bernoulli(RATE, 8).atoms():
        parts = iter(z.reshape(2, 2, 2))
        with torch.no_grad():
            value = module(x.clone(), lambda source, _, __, parts=parts: source * next(parts))
        total, second = total + p * value, second + p * value.square()
    for estimate, expected in ((found.mean, total), (found.variance, second - total.square())):
        if way == "ordered":
            assert estimate.confidence < 1
            covers(estimate, expected)
        else:
            close(estimate.value, expected, 1e-12)


@pytest.mark.parametrize("live", [True, False])
def test_functions_that_draw_for_themselves_do_so_where_they_are_live(live):
    source = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    with _Masked(Places(nn.Identity()), {}, live) as mode:
        torch.manual_seed(1)
        ours = functional.alpha_dropout(source, RATE, True)
    torch.manual_seed(1)
    assert torch.equal(ours, functional.alpha_dropout(source, RATE, live))
    assert len(mode.seen.drawing) == 1


class Asking(nn.Module):
    """Three calls of functional dropout, of which the second is off, as its arguments are given."""

    def __init__(self, off) -> None:
        super().__init__()
        self.off, self.body, self.head = off, nn.Linear(3, 3).double(), nn.Linear(3, 2).double()

    def forward(self, x):
        x = self.off(torch.tanh(self.body(functional.dropout(x, 0.2, True))))
        return self.head(torch.tanh(functional.dropout(x, RATE, True)))


OFF = {
    "place": lambda x: functional.dropout(x, 0.9, False),
    "name": lambda x: functional.dropout(x, training=False),
    "in place": lambda x: functional.dropout(x, 0.9, False, True),
    "maps": lambda x: functional.dropout1d(x.T[None], 0.9, training=False)[0].T,
    "alpha": lambda x: functional.alpha_dropout(x, 0.9),
    "zero": lambda x: functional.dropout(x, 0.0, True),
    "nothing": lambda x: x,
}


@pytest.mark.parametrize("way", OFF)
def test_functional_dropout_that_is_told_not_to_train_is_no_site(way):
    """Against the sum over all masks of the other two, which keep their rates."""
    module, x = seeded(Asking(OFF[way])), inputs(2, 3)
    outputs = []
    for first, p in Bernoulli(0.2, 3).atoms():
        hidden = torch.tanh(module.body(x * first))
        for second, q in Bernoulli(RATE, 3).atoms():
            outputs.append((p * q, module.head(torch.tanh(hidden * second)).detach()))
    mean = sum(p * value for p, value in outputs)
    for was in (True, False):
        found = predictive(module.train(was), x)
        close(found.mean.value, mean, 1e-12)
        close(found.variance.value, sum(p * (value - mean).square() for p, value in outputs), 1e-12)


@pytest.mark.parametrize("live", [True, False])
def test_packed_sequences_draw_where_they_are_live(live):
    layer = nn.GRU(2, 3, 2, dropout=RATE)
    packed = nn.utils.rnn.pack_padded_sequence(torch.ones(4, 2, 2), torch.tensor([4, 3]))
    with _Masked(Places(layer), {}, live) as mode:
        found = [layer(packed)[0].data for _ in range(2)]
    quiet = layer.eval()(packed)[0].data
    assert [torch.equal(one, quiet) for one in found] == [not live] * 2
    assert len(mode.seen.drawing) == 2


def test_runs_are_compared_on_the_scale_of_what_both_have():
    few = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    many = torch.cat([few + 1e-6, torch.full((1, 1), 1e9, dtype=torch.float64)])
    assert not _alike(few, many)
    assert _alike(few, torch.cat([few, many[2:]]))
