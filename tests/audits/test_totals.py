"""Sums of an audit in its answers: shifts up and down, heads of which not all examples are kept, layers left out."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from droptics.audits import audit, heads
from droptics.audits.audit import SHIFT, _interaction, _rest, _site_report, _State, _total
from droptics.audits.batches import Batch
from droptics.audits.digest import groups
from droptics.audits.discovery import AuditedSite
from droptics.audits.heads import Head
from droptics.audits.measuring import Plan
from droptics.audits.runs import Law, Runs
from droptics.audits.tallies import Mean, Tally
from droptics.estimates import PlainEstimate
from droptics.losses import CrossEntropy, Squared


def known(value: float) -> Mean:
    return Mean(weight=2.0, total=2 * value, draws=1, batches=1)


@pytest.mark.parametrize("clean", [2.0, -3.0])
@pytest.mark.parametrize("share", [2 * SHIFT, -2 * SHIFT, SHIFT / 2, -SHIFT / 2])
def test_a_shift_beyond_rounding_is_told_whatever_its_sign(clean: float, share: float) -> None:
    shift = share * abs(clean)
    told = _rest(Tally(clean=known(clean), shift=known(shift)), 0.9)
    assert (told is None) == (abs(share) < SHIFT)
    assert told is None or told.value == pytest.approx(shift, rel=1e-15)


def test_bounds_of_a_head_need_all_of_its_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "KEPT_EXAMPLES", 4)
    for count in (3, 4, 5):
        head = Head("h", torch.randn(3, 2).double(), torch.zeros(3).double())
        head.add(torch.randn(count, 2), torch.arange(count) % 3)
        assert (head.entropic(0.3, CrossEntropy()) is not None) == (count <= 4)
        assert len(head.sample().inputs) == min(count, 4)
        assert head.count == count


def test_a_site_that_was_listed_and_drawn_says_what_is_exact() -> None:
    drawn = Mean()
    drawn.add([5.0, 6.0], 2.0)
    state = _State(Tally(listed={"a": known(0.75)}, sites={"a": drawn}))
    options = {"rates": (), "draws": None, "budget": 9.0, "rest": False, "layers": {}, "names": [], "laws": {}}
    plan = Plan(Squared(), [], [], generator=torch.Generator(), confidence=0.9, **options)  # type: ignore[arg-type]
    site = AuditedSite("a", "dropout", 0.2, None, None, False)
    told = _site_report(site, state, plan, 1.0, PlainEstimate.exact(3.0))
    assert told.penalty is not None
    assert (told.penalty.value, told.penalty.lower, told.penalty.upper) == (0.75, 0.75, 0.75)
    assert told.share == 0.75 / 4


def test_the_total_has_the_confidence_that_is_asked_for() -> None:
    drawn = Mean()
    drawn.add([5.0, 6.0, 7.5], 2.0)
    state = _State(Tally(total=drawn))
    told = [_total(state, [], confidence) for confidence in (0.8, 0.9, 0.99)]
    assert told == [drawn.number(confidence) for confidence in (0.8, 0.9, 0.99)]
    assert told[0].upper < told[1].upper < told[2].upper


def test_the_interval_of_an_interaction_is_that_of_total_and_parts_together() -> None:
    """Half widths 2, 3 and 6 of independent numbers: 7; of a total or a part alone their own."""
    total, first, second = (PlainEstimate(value, value - half, value + half, "drawn")
                            for value, half in ((9.0, 6.0), (1.5, 2.0), (4.0, 3.0)))  # fmt: skip
    exact = PlainEstimate.exact(1.0)
    for parts, whole, value, half in (
        ([first, second], total, 3.5, 7.0),
        ([exact], total, 8.0, 6.0),
        ([second, exact], PlainEstimate.exact(9.0), 4.0, 3.0),
        ([exact, exact], PlainEstimate.exact(9.0), 7.0, 0.0),
    ):
        told = _interaction(parts, whole)
        assert told is not None
        assert (told.value, told.lower, told.upper) == pytest.approx((value, value - half, value + half))
        assert (told.method == "exact") == (half == 0)
    assert _interaction([], total) is None


def test_layers_that_are_left_out_have_no_mask_of_their_own() -> None:
    module = nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.4)), nn.Linear(3, 3), nn.Linear(3, 1))
    laws = {"0.1": Law("0.1", 0.4, "entry"), "1": Law("1", 0.2, "layer")}
    x, y = torch.randn(5, 3), torch.randn(5, 1)
    base = Runs(module, Batch((x,), {}, y, 5), Squared(), laws, {}).base()
    assert list(base.leaves) == ["0.1"]
    whole = (module.eval()(x) - y).square().sum(1)
    torch.testing.assert_close(base.sums, whole.detach().double(), rtol=1e-5, atol=1e-6)


class Mixed(nn.Module):
    """Alpha dropout, which multiplies by no mask, beside a mask, and a factor in training mode alone."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.alpha, self.head = nn.Dropout(1e-12), nn.AlphaDropout(1e-12), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.alpha(torch.tanh(self.drop(x * (1.25 if self.training else 1.0)))))


def test_what_training_mode_changes_is_counted_once_beside_noise_that_is_no_mask() -> None:
    """At rates so small that no unit falls all sites together add nothing."""
    draws = torch.Generator().manual_seed(0)
    x, y = (torch.randn(shape, generator=draws, dtype=torch.float64) for shape in ((6, 3), (6, 2)))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = Mixed().double()
        report = audit(module, (x, y), Squared(), rates=(), draws=2, progress=False)
    with torch.no_grad():
        trained, clean = ((module.train(mode)(x) - y).square().sum(1).mean() for mode in (True, False))
    assert abs(float(trained - clean)) > 1e-3
    assert report.training_loss.value == pytest.approx(float(trained), rel=1e-9)
    assert report.rest is not None
    assert report.rest.value == pytest.approx(float(trained - clean), rel=1e-9)
    assert [abs(item.penalty.value) < 1e-9 for item in report.sites if item.penalty] == [True, True]


class Louder(nn.Module):
    """A factor in training mode alone."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 1.25 * x if self.training else x


def test_other_rates_and_shares_are_of_a_training_loss_with_what_training_mode_changes() -> None:
    draws = torch.Generator().manual_seed(0)
    x, y = (torch.randn(shape, generator=draws, dtype=torch.float64) for shape in ((6, 5), (6, 2)))
    module = nn.Sequential(Louder(), nn.Dropout(0.3), nn.Tanh(), nn.Linear(5, 2)).double()
    report = audit(module, (x, y), Squared(), rates=(0.3, 0.6), draws=3, progress=False)
    assert report.rest is not None
    assert abs(report.rest.value) > 1e-3
    (site,), paid = report.sites, report.training_loss.value
    assert site.penalty is not None
    assert site.share == pytest.approx(site.penalty.value / paid, rel=1e-9)
    assert [point.rate for point in site.curve] == [0.3, 0.6]
    for point in site.curve:
        assert point.training_loss - point.penalty.value == pytest.approx(paid - site.penalty.value, rel=1e-9)


def test_groups_stand_in_the_order_in_which_sites_run() -> None:
    names = ["z.1.drop", "z.0.drop", "m.drop", "a.1.drop"]
    sites = [{"site": {"name": name, "kind": "dropout", "rate": 0.1}} for name in names]
    assert [list(group.names) for group in groups({"sites": sites})] == [names[:2], names[2:3], names[3:]]


def test_fewer_examples_are_kept_of_a_head_with_many_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "KEPT_OUTPUTS", 60)
    for outputs, units, most in ((10, 3, 6), (100, 2, 1), (7, 50, 8)):
        assert Head("h", torch.zeros(outputs, units), torch.zeros(outputs)).most == most
