"""Affine tails: the training loss against all masks, its derivative against fits beside it, look-alikes refused."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional
from tuned import seeded

from droptics import tune_rates
from droptics.rates import Fit
from droptics.rates.problems import read_problem
from droptics.rates.tails import tail_scan


class Branches(nn.Module):
    """Two branches behind something that is not trained, each with a site of its own, added up."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 3).requires_grad_(False)
        self.first, self.second = nn.Dropout(0.5), nn.Dropout(0.3)
        self.left, self.up, self.right = nn.Linear(3, 2), nn.Linear(3, 3), nn.Linear(3, 2)

    def hidden(self, inputs):
        return self.body(inputs).tanh()

    def forward(self, inputs):
        hidden = self.hidden(inputs)
        return self.left(self.first(hidden)) + self.right(self.up(self.second(hidden)))


class Convolution(nn.Module):
    """A convolution, a mean over places and a layer: affine in the mask of its inputs."""

    def __init__(self):
        super().__init__()
        self.drop, self.slide, self.last = nn.Dropout(0.4), nn.Conv1d(1, 2, 2), nn.Linear(2, 2)

    def forward(self, inputs):
        return self.last(self.slide(self.drop(inputs)[:, None]).mean(-1))


def regression(count, seed):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 4, generator=generator).double()
    return inputs, inputs[:, :2] + 0.5 * inputs[:, 1:3] + torch.randn(count, 2, generator=generator).double()


TRAIN, HELD = regression(12, 1), regression(200, 2)


def scan_of(module):
    return tail_scan(read_problem(module, TRAIN, HELD, None, Fit(), None)[0])


def enumerated(module, sizes, rates):
    """Mean over the training examples and all masks, one example at a time, of the loss in training mode."""
    inputs, targets = TRAIN
    total = 0.0
    for falls in itertools.product((0, 1), repeat=sum(sizes)):
        chance, masks = 1.0, []
        for rate, own in zip(rates, torch.tensor(falls).double().split(sizes), strict=True):
            fallen = int(own.sum())
            chance *= rate**fallen * (1 - rate) ** (len(own) - fallen)
            masks.append((1 - own) / (1 - rate))
        if isinstance(module, Branches):
            hidden = module.hidden(inputs)
            outputs = module.left(hidden * masks[0]) + module.right(module.up(hidden * masks[1]))
        else:
            outputs = module.last(module.slide((inputs * masks[0])[:, None]).mean(-1))
        total += chance * float((targets - outputs).square().sum(1).mean())
    return total


CASES = [(Branches, (3, 3), {"first": 0.2, "second": 0.45}), (Convolution, (4,), {"drop": 0.35})]


@pytest.mark.parametrize(("make", "sizes", "rates"), CASES)
def test_the_training_loss_is_that_over_all_masks(make, sizes, rates):
    module = seeded(make().double())
    scan = scan_of(module)
    strengths = torch.tensor([rate / (1 - rate) for rate in rates.values()], dtype=torch.float64)
    with torch.no_grad():
        wanted = enumerated(module, sizes, list(rates.values()))
    # 64 masks with a few dozen products each, in double precision
    assert float(scan.objective(scan.start, strengths)) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(("make", "sizes", "rates"), CASES)
def test_derivatives_are_those_between_fits_beside_it(make, sizes, rates):
    scan, step = scan_of(seeded(make().double())), 1e-3

    def moved(name, shift):
        odds = {site: torch.tensor(rate).double().logit() + shift * (site == name) for site, rate in rates.items()}
        return float(scan.trained([{site: float(value.sigmoid()) for site, value in odds.items()}])[0].losses.mean())

    found = scan.effects(rates, {name: name for name in rates})
    for name in rates:
        between = (moved(name, step) - moved(name, -step)) / (2 * step)
        assert found[name].value == pytest.approx(between, rel=1e-4, abs=1e-7)  # of third order in the step


def test_no_copy_is_trained():
    module = seeded(Branches().float())
    before = {name: value.clone() for name, value in module.state_dict().items()}
    data = [tuple(value.float() for value in pair) for pair in (TRAIN, HELD)]
    found = tune_rates(module, *data, scan=(0.0, 0.1, 0.3), split="factorial", progress=False)
    assert found.method == "exact training loss of the affine tail"
    assert found.cost.copies == 0
    assert set(found.rates) == {"first", "second"}
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    own = tune_rates(module, *data, scan=(0.0, 0.3), fit=Fit(epochs=1), progress=False)
    assert (own.method, own.cost.copies) == ("scan", 2)


def test_sites_that_keep_their_rate_are_told():
    module = seeded(Branches().double())
    found = tune_rates(module, TRAIN, HELD, scan=(0.0, 0.3), sites=["first"], progress=False)
    assert found.method == "exact training loss of the affine tail"
    assert found.skipped == {"second": "not among `sites`"}


class Same(torch.autograd.Function):
    """The identity in the old form of such functions, which torch.func refuses."""

    @staticmethod
    def forward(context, value):
        return value.clone()

    @staticmethod
    def backward(context, slope):
        return slope


def changed(change):
    module = Branches().double()
    if change == "a body that is trained":
        module.body.requires_grad_(True)
    elif change == "two masks in a row":
        module.up = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).double()
    elif change == "bent in between":
        module.up = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).double()
    elif change == "bent by a comparison":
        module.up.register_forward_hook(lambda part, given, result: result * (result > 0))
    elif change == "a weight twice":
        module.up = nn.Sequential(module.up, module.up)
    elif change == "batches that mix":
        module.up = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).double()
    elif change == "batches that mix in a function":
        module.up.register_forward_hook(
            lambda part, given, result: functional.batch_norm(result, None, None, None, None, True)
        )
    elif change == "a body without forward derivatives":
        module.body.register_forward_hook(lambda part, given, result: Same.apply(result))
    else:
        module.second = nn.AlphaDropout(0.3)
    return seeded(module)


@pytest.mark.parametrize(
    "change",
    [
        "a body that is trained",
        "two masks in a row",
        "bent in between",
        "bent by a comparison",
        "a weight twice",
        "batches that mix",
        "batches that mix in a function",
        "a body without forward derivatives",
        "another dropout",
    ],
)
def test_look_alikes_are_refused(change):
    assert scan_of(changed(change)) is None


def test_outputs_that_are_no_rows_are_trained():
    module = seeded(Convolution().double())
    module.register_forward_hook(lambda part, given, result: result[:, None])
    data = [(inputs, targets[:, None]) for inputs, targets in (TRAIN, HELD)]
    assert tail_scan(read_problem(module, *data, None, Fit(), None)[0]) is None


def only_single(part, given, result):
    if result.dtype == torch.float64:
        raise ArithmeticError("too precise")


@pytest.mark.parametrize("hook", [only_single, lambda part, given, result: result @ torch.eye(3)])
def test_a_body_that_takes_no_doubles_is_trained(hook):
    module = seeded(Branches().float())
    data = [tuple(value.float() for value in pair) for pair in (TRAIN, HELD)]
    assert tail_scan(read_problem(module, *data, None, Fit(), None)[0]) is not None
    module.body.register_forward_hook(hook)
    assert tail_scan(read_problem(module, *data, None, Fit(), None)[0]) is None


@pytest.mark.parametrize(("limit", "reached"), [(515, False), (1031, False), (1032, True)])
def test_what_would_take_long_is_trained(monkeypatch, limit, reached):
    """12 examples of 43 weights, trained or not, and two outputs."""
    monkeypatch.setattr("droptics.rates.tails.MOST_WORK", limit)
    assert (scan_of(seeded(Branches().double())) is not None) == reached
