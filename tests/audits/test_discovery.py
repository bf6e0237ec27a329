"""What is found in modules that others wrote, and that looking changes nothing that is measured."""

import pytest
import torch
from cases import normal
from compare import close
from networks import seeded
from torch import nn

from droptics.audits import audit


def test_the_clean_loss_is_that_of_evaluation_mode_with_batch_norm():
    """Training passes of the discovery would move the running statistics of shifted data."""
    network = seeded(
        nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
    ).double()
    x, y = normal(40, 6, seed=1) + 3, normal(40, 3, seed=2)
    with torch.no_grad():
        wanted = float((network.eval()(x) - y).square().sum(1).mean())
    report = audit(network.train(), (x, y), draws=2, rates=())
    close(report.clean_loss, wanted)


class Path(nn.Module):
    """DropPath; the block adds its input in place, as some networks do."""

    def __init__(self, rate, scale=True):
        super().__init__()
        self.drop_prob, self.scale = rate, scale

    def forward(self, x):
        if not self.training:
            return x
        kept = x.new_empty(len(x), 1).bernoulli_(1 - self.drop_prob)
        return x * kept / (1 - self.drop_prob if self.scale else 1)


class Added(nn.Module):
    def __init__(self, rate, scale=True):
        super().__init__()
        self.linear, self.path, self.head = nn.Linear(6, 6), Path(rate, scale), nn.Linear(6, 3)

    def forward(self, x):
        result = self.path(self.linear(x))
        result += x
        return self.head(result)


def warned(module, count=40):
    report = audit(module, (normal(count, 6, seed=1), normal(count, 3, seed=2)), rates=(), progress=False)
    return report, {found.code for found in report.findings if found.level in ("bug", "warning")}


def test_results_are_copied_before_they_are_written_to():
    report, codes = warned(seeded(Added(0.3)).double())
    (item,) = report.sites
    assert (item.site.name, item.site.rate, item.site.reason, item.site.unit) == ("path", 0.3, None, "example")
    assert not codes & {"DR301", "DR302"}


class Twice(Added):
    """One path on two branches: two coins per example and pass."""

    def forward(self, x):
        return self.head(x + self.path(self.linear(x)) + self.path(x))


def test_only_one_coin_per_example_switches_examples():
    """Two coins of one layer are not one coin that two places share."""
    x, y = normal(40, 6, seed=1), normal(40, 3, seed=2)
    for network, unit in ((Added(0.3), "example"), (Twice(0.3), None)):
        report = audit(seeded(network).double(), (x, y), draws=2, rates=(), progress=False)
        assert [(item.site.name, item.site.rate, item.site.unit) for item in report.sites] == [("path", 0.3, unit)]


def test_rates_are_judged_by_the_number_of_examples():
    """None of 64 examples falls at rate .05 in one pass of 27; that is no finding. Half of 200 at a nominal .1 is."""
    for rate, count in ((0.05, 64), (0.02, 16), (0.5, 6), (0.3, 200)):
        assert not warned(seeded(Added(rate)).double(), count)[1] & {"DR301", "DR302"}
    wrong = seeded(Added(0.5)).double()
    wrong.path.p = 0.1
    assert "DR301" in warned(wrong, 200)[1]
    assert "DR302" in warned(seeded(Added(0.5, scale=False)).double(), 200)[1]


class Spiked(Path):
    """A path that makes a few of its survivors much larger than the others."""

    def forward(self, x):
        found = super().forward(x)
        return torch.cat([found[:, :-1], 100 * found[:, -1:]], 1) if self.training else found


def test_a_few_large_survivors_say_nothing_of_the_factor():
    for scale in (True, False):
        network = seeded(Added(0.5)).double()
        network.path = Spiked(0.5, scale)
        assert ("DR302" in warned(network, 200)[1]) is not scale


class Fused(nn.Module):
    """The rate of an nn.Dropout goes into fused attention, in training mode only."""

    def __init__(self):
        super().__init__()
        self.drop, self.head = nn.Dropout(0.2), nn.Linear(6, 3)

    def forward(self, x):
        rate = self.drop.p if self.training else 0.0
        return self.head(
            nn.functional.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], dropout_p=rate)[:, 0]
        )


def test_a_rate_that_is_used_functionally_and_zero_in_evaluation_mode():
    report, codes = warned(seeded(Fused()).double())
    assert [(item.site.name, item.site.rate) for item in report.sites] == [("attention_dropout", 0.2)]
    assert report.sites[0].penalty.method == "exact: affine tail"
    assert "DR101" not in codes


class Stuck(nn.Dropout):
    """A layer that stays in training mode."""

    def forward(self, x):
        return nn.functional.dropout(x, self.p, True)


@pytest.mark.parametrize(("layer", "late"), [(nn.Dropout, False), (Stuck, True)])
def test_a_site_says_whether_it_drops_in_evaluation_mode(layer, late):
    (site,) = warned(seeded(nn.Sequential(nn.Linear(6, 4), layer(0.3), nn.Linear(4, 3))).double())[0].sites
    assert (site.site.name, site.site.rate, site.site.in_evaluation) == ("1", 0.3, late)


def test_rows_that_fall_as_a_whole_are_no_entries_of_a_head():
    (site,) = warned(seeded(nn.Sequential(nn.Dropout1d(0.3), nn.Linear(6, 3))).double())[0].sites
    assert site.site.unit is None
    assert site.penalty.method.startswith("Monte Carlo")


class DropNoise(nn.Module):
    """Halves its input in training mode, in place or not, or leaves it."""

    def __init__(self, way):
        super().__init__()
        self.p, self.way = 0.2, way

    def forward(self, x):
        if not self.training or self.way == "nothing":
            return x
        return x.mul_(0.5) if self.way == "in place" else x * 0.5


@pytest.mark.parametrize("way", ["nothing", "in place", "a new one"])
def test_a_layer_that_writes_into_its_input_does_something(way):
    network = seeded(nn.Sequential(nn.Linear(6, 6), DropNoise(way), nn.Linear(6, 3))).double()
    assert ("DR103" in warned(network)[1]) is (way == "nothing")


class ByHand(nn.Module):
    """Drops half of its input, and may say that it is another share."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        return x * (torch.rand_like(x) > 0.5) * 2 if self.training else x


@pytest.mark.parametrize("rate", [None, 0.2])
def test_a_mask_by_hand_has_the_rate_that_it_says(rate):
    report, _ = warned(seeded(nn.Sequential(nn.Linear(6, 6), ByHand(rate), nn.Linear(6, 3))).double())
    (item,) = report.sites
    assert 0.3 < item.site.realized < 0.7
    assert item.site.rate == (item.site.realized if rate is None else rate)
