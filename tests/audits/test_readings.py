"""What is read off single passes: who fell, at which rate, in which masks outputs are affine, what stands around."""

import math

import pytest
import torch
from cases import normal
from networks import regression_data, seeded
from scipy import stats
from torch import nn

from droptics.audits import audit, misuses, surroundings
from droptics.audits.batches import Batch
from droptics.audits.discovery import _realized
from droptics.audits.passes import Passes, differs, zeroed
from droptics.audits.runs import Law, Runs
from droptics.audits.tails import Hidden, affine_sites
from droptics.audits.uncertainty import spread_of_predictions
from droptics.losses import Squared
from droptics.models.watching import Call, Trace


class Two(nn.Module):
    """Two masks whose results meet in some way."""

    def __init__(self, meet):
        super().__init__()
        self.one, self.two, self.meet = nn.Dropout(0.3), nn.Dropout(0.4), meet

    def forward(self, x):
        return self.meet(self.one(x), self.two(x.square() + 1))


MEETINGS = {
    "sums": lambda a, b: a - 2 * b,
    "a product": lambda a, b: a * b,
    "a square": lambda a, b: a * a + b,
    "by a mask": lambda a, b: a / b,
    "a number by a mask": lambda a, b: a + 2 / b,
    "by a number": lambda a, b: a / 3 + b,
    "bent": lambda a, b: a + torch.tanh(b),
    "normalized": lambda a, b: a.softmax(1) * b,
}


@pytest.mark.parametrize("name", MEETINGS)
def test_outputs_are_affine_in_a_mask_where_second_differences_are_zero(name):
    x, meet = normal(5, 3, seed=7), MEETINGS[name]
    laws = {site: Law(site, 0.3, "entry") for site in ("one", "two")}
    hidden = Hidden()
    base = Runs(Two(meet).eval(), Batch((x,), {}, 0 * x, 5), Squared(), laws, {}).base(None, hidden)
    way, wanted = normal(5, 3, seed=8).clamp(-0.9, 0.9), []
    for site in laws:
        ends = [
            meet(x * (1 + k * way * (site == "one")), (x**2 + 1) * (1 + k * way * (site == "two"))) for k in (-1, 0, 1)
        ]
        # a few products and sums of numbers below 100; what is bent has a second difference above 1e-3
        if float((ends[0] - 2 * ends[1] + ends[2]).abs().max()) < 1e-10:
            wanted.append(site)
    assert affine_sites(base, hidden) == wanted


def test_channels_that_fell_are_counted_among_those_that_were_alive():
    source = torch.ones(4, 5, 3)
    source[0, 0] = source[1, 2, 1:] = 0.0
    result = 2 * source
    result[3, :2] = 0.0
    for kind, share in (("dropout", 6 / 55), ("dropout1d", 2 / 19)):
        assert _realized(Call("a", kind, 0.3, True, (4, 5, 3), None, source, result)) == pytest.approx(share, rel=1e-12)
    assert _realized(Call("a", "dropout", 0.3, False, (4, 5, 3), None, source, result)) is None


class Path(nn.Module):
    """Keeps or drops whole examples, at another rate than it says."""

    def __init__(self, says, does):
        super().__init__()
        self.drop_prob, self.does = says, does

    def forward(self, x):
        if not self.training:
            return x
        return x * torch.bernoulli(torch.full((len(x), 1), 1 - self.does).to(x)) / (1 - self.does)


@pytest.mark.parametrize(("says", "does"), [(0.2, 0.2), (0.2, 0.5)])
def test_the_rate_of_one_coin_an_example_is_that_of_its_factor(says, does):
    layers = nn.Linear(6, 4), nn.Tanh(), Path(says, does), nn.Linear(4, 3)
    network, (x, y) = seeded(nn.Sequential(*layers)).double(), regression_data()
    report = audit(network, (x, y), rates=(), draws=4)
    (item,) = report.sites
    assert item.site.rate == pytest.approx(does, rel=1e-9)
    with torch.no_grad():
        hidden = torch.tanh(network[0](x))
        whole, none, dropped = (
            float((network[3](factor * hidden) - y).square().sum(1).mean()) for factor in (1 / (1 - does), 1.0, 0.0)
        )
    # one coin an example: two outcomes of each
    assert item.penalty.value == pytest.approx((1 - does) * whole + does * dropped - none, rel=1e-9)


def test_two_masks_in_one_place_of_a_chain_keep_where_both_do():
    first, last = nn.Linear(6, 4), nn.Linear(4, 3)
    both = seeded(nn.Sequential(first, nn.Dropout(0.3), nn.Dropout(0.2), last)).double()
    one = nn.Sequential(first, nn.Dropout(1 - 0.7 * 0.8), last)
    told, wanted = (audit(net, regression_data(), rates=()) for net in (both, one))
    assert told.training_loss.method == "exact"
    assert told.training_loss.value == pytest.approx(wanted.training_loss.value, rel=1e-12)


def test_an_output_that_never_moves_says_nothing_of_the_passes():
    narrow, wide = nn.Linear(5, 1).double(), nn.Linear(5, 2).double()
    with torch.no_grad():
        narrow.weight.copy_(normal(1, 5, seed=1))
        wide.weight.copy_(torch.cat([narrow.weight, torch.zeros(1, 5)]))
    inputs = (normal(6, 5, seed=2),)
    one, two = (spread_of_predictions(nn.Sequential(nn.Dropout(0.3), head).eval(), inputs) for head in (narrow, wide))
    assert two.passes == one.passes
    assert two.variance.value == pytest.approx(one.variance.value / 2, rel=1e-12)


def passes(module=None, **more):
    given = {
        "training": Trace(),
        "evaluation": Trace(),
        "own": (),
        "batch": None,
        "outputs": torch.zeros(1),
        "loss": None,
    }
    return Passes(module or nn.Identity(), **given | more)


def test_what_drops_in_evaluation_mode_is_a_layer_or_a_function_by_its_kind():
    calls = [
        Call("a", "dropout", 0.3, True, None, nn.Dropout(0.3)),
        Call("b", "dropout", 0.3, True, None, nn.Linear(1, 1)),
    ]
    calls.append(Call("c", "drop path", 0.3, True, None, nn.Linear(1, 1)))
    seen = passes(training=Trace(calls), evaluation=Trace(calls))
    assert [remark.site for remark in misuses.layer_in_evaluation(seen)] == ["a", "c"]
    assert [remark.site for remark in misuses.function_in_evaluation(seen)] == ["b"]


def test_padding_is_told_by_its_share_of_the_labels_that_count():
    kept = (torch.arange(4) < 3).long().expand(6, 4)
    labels = (torch.arange(24).reshape(6, 4) % 5).masked_fill(kept == 0, -100)
    labels[0, 3] = 1
    batch = Batch((), {"attention_mask": kept}, labels, 6)

    def loss(outputs, wanted):
        return nn.functional.cross_entropy(outputs.flatten(0, 1), wanted.flatten())

    (told,) = surroundings.padding_counted(passes(batch=batch, outputs=normal(6, 4, 5), loss=loss))
    assert told.text.startswith("5% of the positions"), "one of nineteen"


def test_channels_whose_variance_overflows_say_nothing_of_its_shift():
    layer, clean = nn.BatchNorm1d(5), torch.tensor([1.0, 2.0, 3.0, 1.0, 4.0])
    noisy = 1.5 * clean
    noisy[:3] = math.inf
    assert surroundings._shift(layer, noisy, 10**6, clean) == pytest.approx(1.5, rel=1e-6)


@pytest.mark.parametrize("level", [0.7e-4, 1.4e-4])
def test_shares_of_examples_are_tested_on_both_sides(level):
    """Rates at which Student's test of both sides says a little less than one in ten thousand, and a little more."""
    source = torch.ones(12, 50).double()
    result = (torch.rand(12, 50, generator=torch.Generator().manual_seed(1)) > 0.3).double()
    shares = (result == 0).double().mean(1).numpy()
    far = stats.t.isf(level / 2, 11) * stats.sem(shares)
    for rate in (shares.mean() - far, shares.mean() + far):
        assert stats.ttest_1samp(shares, rate).pvalue == pytest.approx(level, rel=1e-6)
        assert differs((source, result), float(rate)) is (level < 1e-4)


def test_what_was_zero_before_is_not_counted_as_zeroed() -> None:
    source = torch.tensor([0.0, 0.0, 2.0, 3.0, -4.0, 5.0])
    assert zeroed((source, torch.tensor([0.0, 0.0, 0.0, 6.0, -8.0, 10.0]))) == (0.25, 2.0)
