"""What an audit says about unusual networks, and what it prints when there is much or little to say."""

import json
from types import SimpleNamespace

import cvxpy as cp
import pytest
import torch
from cases import normal
from compare import close
from scipy import stats
from torch import nn
from torch.nn import functional

from droptics.audits import audit
from droptics.audits.heads import Chain, Head, chain_places
from droptics.audits.leaving_out import leave_one_out
from droptics.audits.statements import LEVEL, RATES, SUBNETWORKS, _effective_rank, _rate_choice, _subnetworks
from droptics.cli.audit import _cells
from droptics.cli.modules import load_module
from droptics.coadaptation import draw
from droptics.data import Moments, Sample
from droptics.losses import Loss
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear, LastLayer
from droptics.penalties import penalty

INPUTS, TARGETS = normal(40, 6, seed=1), normal(40, 2, seed=2)


def seeded(module, seed=0):
    module = module.double()
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=seed + i) / 2)
    return module


def looked_at(module, data=(INPUTS, TARGETS), **options):
    return audit(seeded(module), data, draws=2, rates=(), progress=False, **options)


def findings(module, data=(INPUTS, TARGETS), **options):
    return {(found.level, found.site): found.text for found in looked_at(module, data, **options).findings}


class Then(nn.Module):
    """A linear layer, something, a linear layer."""

    def __init__(self, inner):
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(6, 16), inner, nn.Linear(16, 2)

    def forward(self, x):
        return self.last(self.inner(self.first(x)))


class Silent(nn.Module):
    """Dropout of zeros: no unit is left that could fall."""

    def forward(self, x):
        return x + functional.dropout(0 * x, 0.5, self.training)


class Overwritten(nn.Module):
    def forward(self, x):
        result = functional.dropout(x, 0.3, self.training)
        return result.zero_() if self.training else result


class Stubborn(nn.Module):
    """A layer that is switched back on by the forward pass itself."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.4)

    def forward(self, x):
        return self.drop.train()(x)


class AlwaysByHand(nn.Module):
    def forward(self, x):
        return 2 * x * (torch.rand_like(x) < 0.5)


class TwiceByHand(nn.Module):
    """Two draws make one mask; it is one site."""

    def __init__(self):
        super().__init__()
        self.p = 0.5

    def forward(self, x):
        return 2 * x * (torch.rand_like(x) + torch.rand_like(x) < 1) if self.training else x


class Erase(nn.Module):
    def forward(self, x):
        return 0 * x


def test_findings_about_layers_that_do_not_do_what_they_say():
    assert findings(Then(nn.Dropout(0.0)))["note", "inner"] == "dropout with rate 0 does nothing"
    assert findings(Then(Stubborn()))["bug", "inner.drop"] == "drops in evaluation mode too"
    assert "evaluation mode too" in findings(Then(AlwaysByHand()))["bug", "inner.rand_like"]
    unused = Then(nn.Dropout(0.5))
    unused.attention = nn.MultiheadAttention(4, 2, dropout=0.2)
    assert (
        findings(unused)["bug", "attention"] == "MultiheadAttention(dropout=0.2) is part of the module but never runs"
    )


def test_what_is_written_over_the_result_is_not_counted_as_dropped():
    (site,) = looked_at(Then(Overwritten())).sites
    # five standard deviations of the share of 640 coins
    assert abs(site.site.realized - 0.3) < 5 * (0.21 / 640) ** 0.5


def test_realized_rates_of_zeros_cannot_be_seen():
    (site,) = looked_at(Then(Silent())).sites
    assert site.site.realized is None
    assert site.site.rate == 0.5
    (by_hand,) = looked_at(Then(nn.Sequential(Erase(), AlwaysByHand()))).sites
    assert by_hand.site.realized is None


def test_two_draws_in_one_layer_are_one_site():
    report = looked_at(Then(TwiceByHand()))
    assert [item.site.name for item in report.sites] == ["inner"]
    assert report.sites[0].site.bypassed


def test_pixels_of_feature_maps_fall_alone():
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Dropout(0.5), nn.Flatten(), nn.Linear(4 * 16, 2))
    text = findings(network, (normal(10, 1, 6, 6), normal(10, 2)))["note", "1"]
    assert text.startswith("single pixels of feature maps fall")
    channels = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Dropout2d(0.5), nn.Flatten(), nn.Linear(4 * 16, 2))
    assert ("note", "1") not in findings(channels, (normal(10, 1, 6, 6), normal(10, 2)))


class Threshold(nn.Module):
    """relu(z - 1): zero without noise, one half on average with it."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return torch.relu(self.drop(x) - 1)


def test_noise_that_lowers_the_loss():
    data = (torch.ones(400, 1).double(), torch.ones(400, 1).double())
    report = audit(Threshold(), data, draws=4, rates=(), progress=False)
    assert report.clean_loss == 1.0
    assert report.sites[0].penalty.value == pytest.approx(-0.5, abs=0.1)
    assert any("the network relies on the noise" in found.text for found in report.findings)


def test_nothing_is_said_about_a_gap_that_is_not_there():
    plain = seeded(nn.Sequential(nn.Linear(6, 2)))
    report = audit(plain, (INPUTS, TARGETS), validation=(INPUTS, TARGETS), progress=False)
    assert [found.text for found in report.findings] == ["no dropout was found in training mode"]


class Parallel(nn.Module):
    """Two linear layers side by side are no chain."""

    def __init__(self):
        super().__init__()
        self.drop, self.left, self.right = nn.Dropout(0.5), nn.Linear(6, 2), nn.Linear(6, 2)

    def forward(self, x):
        self.left(x)
        return self.right(self.drop(x))


def chain(inner):
    return nn.Sequential(nn.Linear(6, 5), inner, nn.Linear(5, 4), nn.Linear(4, 2))


def test_only_chains_of_linear_layers_are_exact_from_end_to_end():
    exact = looked_at(chain(nn.Dropout(0.5))).sites[0].penalty
    assert exact.lower == exact.value == exact.upper
    # a law with another mean, rows of a sequence, and layers beside each other have no such formula
    alpha = looked_at(chain(nn.AlphaDropout(0.5))).sites[0].penalty
    assert alpha.lower < alpha.value < alpha.upper
    sequence = (normal(20, 3, 6, seed=3), normal(20, 3, 2, seed=4))
    rows = looked_at(chain(nn.Dropout(0.5)), sequence).sites[0].penalty
    assert rows.method == "exact: affine tail"
    with torch.no_grad():
        network = seeded(chain(nn.Dropout(0.5))).double()
        hidden = network[0](sequence[0]).square().mean((0, 1))
        wanted = float((hidden * (network[3].weight @ network[2].weight).square().sum(0)).sum())
    close(rows.value, wanted, 1e-10)
    beside = looked_at(Parallel()).sites[0].penalty
    head = seeded(Parallel()).right
    close(beside.value, float((head.weight.detach().square().sum(0) * INPUTS.square().mean(0)).sum()), 1e-10)


def test_chains_of_two_shards_are_the_chain_of_both():
    weights = [(normal(5, 6), normal(5)), (normal(2, 5), normal(2))]

    def over(rows):
        constant = torch.cat([INPUTS[rows], torch.ones(len(INPUTS[rows]), 1).double()], 1)
        return Chain(weights, {"drop": 1}, Moments.of_sample(Sample(constant, TARGETS[rows])))

    both = over(slice(0, 15)).merge(over(slice(15, 40)))
    model = DeepLinear([torch.cat([normal(5, 6), normal(5)[:, None]], 1), normal(2, 5)])
    constant = torch.cat([INPUTS, torch.ones(40, 1).double()], 1)
    wanted = penalty(model, Sample(constant, TARGETS), Product([Bernoulli(0.3, 5)]))
    close(both.penalty({"drop": 0.3}), float(wanted), 1e-11)


class Absolute(Loss):
    def __call__(self, outputs, targets):
        return (outputs - targets).abs().sum(-1)


def test_last_layers_under_other_losses_and_with_few_examples():
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
    (site,) = looked_at(network, loss=Absolute()).sites
    assert site.spectrum is None
    assert site.second_order is None
    (few,) = looked_at(network, (INPUTS[:2], TARGETS[:2])).sites
    assert few.rate_choice is None
    assert few.certificate.gap == pytest.approx(few.certificate.objective - few.certificate.bound)
    assert few.certificate.gap > 0
    assert _effective_rank(torch.zeros(3)) == 0.0
    close(_effective_rank(torch.tensor([2.0, 2.0, 0.0])), 2.0, 1e-6)


def test_signs_have_an_accuracy():
    network = seeded(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1)))
    signs = torch.sign(network.eval()(INPUTS)).detach()
    signs[:10] *= -1
    report = audit(network, (INPUTS, signs.reshape(-1)), loss="logistic", draws=2, rates=(), progress=False)
    assert report.accuracy == pytest.approx(0.75)


class Positional(nn.Module):
    """The rate as the fifth positional argument."""

    def forward(self, x):
        rows = x.reshape(len(x), 4, 4)
        mixed = functional.scaled_dot_product_attention(rows, rows, rows, None, 0.25 if self.training else 0.0)
        return mixed.reshape(len(x), 16)


def test_attention_called_by_position():
    (site,) = looked_at(Then(Positional())).sites
    assert (site.site.kind, site.site.rate) == ("attention dropout", 0.25)


def test_a_part_no_switch_reaches_is_a_row_of_its_own(tmp_path):
    report = looked_at(Then(AlwaysByHand()))
    assert report.rest is not None
    printed = str(report)
    assert "no switch reaches it" in printed
    report.to_html(tmp_path / "page.html")
    assert "no switch reaches it" in (tmp_path / "page.html").read_text()
    parts = json.loads(report.to_json())
    assert parts["rest"]["value"] == pytest.approx(report.rest.value)


def test_a_report_without_dropout_has_no_picture(tmp_path):
    report = audit(seeded(nn.Sequential(nn.Linear(6, 2))), (INPUTS, TARGETS), progress=False)
    assert not list(report.sites)
    report.to_html(tmp_path / "page.html")
    assert "<svg" not in (tmp_path / "page.html").read_text()


class Crowded(nn.Module):
    def __init__(self):
        super().__init__()
        self.only, self.unused = nn.Linear(6, 2), nn.ModuleList(nn.Dropout(0.5) for _ in range(15))

    def forward(self, x):
        return self.only(x)


def test_findings_of_one_kind_are_one_line_on_the_terminal():
    report = looked_at(Crowded())
    assert len(report.findings) == 16
    lines = [line for line in str(report).splitlines() if line.startswith(("bug", "warning", "note"))]
    assert len(lines) == 2
    assert lines[0].startswith("bug DR101 unused.{0-14} (15 findings): Dropout(p=0.5) is part of the module")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_files_and_files_that_are_none(tmp_path):
    module = seeded(nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 2))).eval()
    torch.jit.save(torch.jit.script(module), tmp_path / "net.pt")
    close(load_module(str(tmp_path / "net.pt")).eval()(INPUTS), module(INPUTS))
    torch.save(module.state_dict(), tmp_path / "state.pt")
    with pytest.raises(ValueError, match=r"or scripted .* module; for a state dict give package\.module:factory"):
        load_module(str(tmp_path / "state.pt"))


@pytest.mark.parametrize("shift", [-40, 40])
def test_the_spectrum_of_a_head_does_not_depend_on_units(shift):
    units = torch.ones(6).double()
    units[2] = 2.0**shift
    head = seeded(nn.Sequential(nn.Dropout(0.3), nn.Linear(6, 2)))
    first = audit(head, (INPUTS, TARGETS), draws=2, rates=(), progress=False)
    with torch.no_grad():
        head[1].weight /= units
    second = audit(head, (INPUTS * units, TARGETS), draws=2, rates=(), progress=False)
    expected = torch.linalg.svdvals((INPUTS / len(INPUTS) ** 0.5) @ (head[1].weight * units).mT)
    for report in (first, second):
        close(torch.tensor(report.sites[0].spectrum.measured, dtype=torch.float64), expected, 1e-12)


def test_dropout_in_place_before_something_else_is_no_chain():
    """The call reads what it returns: it must not be found again while the next layer reads another value."""
    x, hidden, other, outputs = (normal(2, 3, seed=seed) for seed in range(4))
    call = SimpleNamespace(source=hidden, result=hidden, kind="dropout", rate=0.5, site="0")
    layers = [SimpleNamespace(source=x, result=hidden), SimpleNamespace(source=other, result=outputs)]
    trace = SimpleNamespace(calls=[call], linear=layers)
    assert chain_places(trace, outputs) is None
    layers[1].source = hidden = normal(2, 3, seed=4)
    call.result = hidden
    assert chain_places(trace, outputs) == {"0": 1}


def test_a_site_that_the_other_report_lacks_has_dashes():
    report = audit(nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 2)).double(), (INPUTS, TARGETS))
    (item,) = report.sites
    assert _cells(None) == ("-", "-", "-")
    assert _cells(item)[:2] == (f"{float(item.penalty.value):.4g}", f"{item.share:.1%}")


def test_the_band_of_subnetworks_holds_nine_of_ten():
    """Accuracies of the same masks, one after the other: a twentieth of them lies below the band, and one above."""
    layer, sample = nn.Linear(6, 3).double(), Sample(normal(40, 6), torch.arange(40) % 3)
    with torch.no_grad():
        layer.weight.copy_(normal(3, 6)), layer.bias.copy_(normal(3))
    model = LastLayer.of(layer)
    weight, targets = model.head.weight.detach(), [sample.targets]
    head = SimpleNamespace(weight=weight, targets=targets, sample=lambda: sample, model=lambda: model)
    found = _subnetworks(head, 0.4)
    kept = draw(Bernoulli(0.4, 6), SUBNETWORKS, torch.Generator().manual_seed(0)).double()
    guesses = [model.head(sample.inputs * one / 0.6).argmax(1) for one in kept]
    exact = torch.stack([(guess == sample.targets).double().mean() for guess in guesses]).sort().values
    places = [share * (SUBNETWORKS - 1) for share in (0.05, 0.95)]
    wanted = [float(exact[int(at)] + (at % 1) * (exact[int(at) + 1] - exact[int(at)])) for at in places]
    assert [found.low, found.high] == pytest.approx(wanted)


def test_the_fewest_units_are_those_of_the_shortest_prefix_that_keeps_the_accuracy():
    """By flow and in four random orders; the first units carry the flow of all. Four of forty labels are wrong."""
    inputs, weight, bias = normal(40, 6), normal(3, 6, seed=1), normal(3, seed=2)
    labels = (inputs @ weight.mT + bias).argmax(1)
    labels[:4] = (labels[:4] + 1) % 3
    head = Head("h", weight, bias)
    head.add(inputs, labels)
    generator = torch.Generator().manual_seed(0)
    flows = inputs.square().mean(0).sqrt() * weight.norm(dim=0)
    orders = [flows.argsort(descending=True), *(torch.randperm(6, generator=generator) for _ in range(4))]

    def accuracy(kept):
        scale = flows.sum() / flows[kept].sum() if len(kept) else 1.0
        return float(((scale * inputs[:, kept] @ weight[:, kept].mT + bias).argmax(1) == labels).double().mean())

    fewest = min(count for one in orders for count in range(7) if accuracy(one[:count]) >= 0.9 - 0.01)
    found = _subnetworks(head, 0.4)
    assert (found.smallest, found.full) == (fewest, 0.9)
    assert fewest > 1


def test_the_rate_of_least_left_out_error_is_that_of_mean_squares():
    """Two outputs, one twice the other: errors are means over outputs, and their differences are paired."""
    features, targets = normal(30, 3, seed=5) + 0.5, normal(30, 1, seed=6)
    head = Head("drop", normal(2, 3, seed=7), torch.zeros(2, dtype=torch.float64))
    head.features, head.targets = [features], [torch.cat([targets, 2 * targets], 1)]
    told = _rate_choice(head, 0.35)
    errors = leave_one_out(features, head.targets[0], [rate / (1 - rate) for rate in told.rates])
    squares = errors.square().sum(2) / 2
    assert told.rates == sorted({*RATES, 0.35})
    close(torch.tensor(told.errors, dtype=torch.float64), squares.mean(1), 1e-12)
    best = int(squares.mean(1).argmin())
    gains = squares[told.rates.index(0.35)] - squares[best]
    assert told.best == told.rates[best]
    assert told.gain.value == pytest.approx(float(gains.mean()), rel=1e-12)
    half = stats.t.ppf((1 + LEVEL) / 2, 29) * float(gains.std()) / 30**0.5
    assert told.gain.upper - told.gain.value == pytest.approx(half, rel=1e-9)
    head.features, head.targets = [features[:2]], [targets[:2]]
    assert _rate_choice(head, 0.35) is None


@pytest.mark.parametrize("bias", [True, False])
def test_a_head_has_as_many_offsets_as_outputs(bias):
    module = seeded(nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Dropout(0.3), nn.Linear(5, 2, bias=bias)))
    report = audit(module, (INPUTS, TARGETS), draws=2, rates=(), progress=False)
    (site,) = report.sites
    hidden = torch.tanh(module[0](INPUTS)).detach()
    moment = hidden.square().mean(0)
    wanted = 0.3 / 0.7 * float((module[3].weight.detach().square() * moment).sum())
    assert site.penalty.value == pytest.approx(wanted, rel=1e-9)
    assert site.certificate is not None


@pytest.mark.parametrize("width", [2, 5, 30])
def test_the_bound_of_a_head_is_the_least_of_a_convex_program(width):
    """min_A mean ||y - b - A||^2 + (lambda / width) ||A||_*^2, in the two directions of the outputs."""
    module = seeded(nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Dropout(0.6), nn.Linear(width, 2)))
    report = audit(module, (INPUTS, TARGETS), draws=2, rates=(), progress=False)
    root = torch.linalg.qr((TARGETS - module[3].bias.detach()) / 40**0.5).R.numpy()
    A = cp.Variable((2, 2))
    least = cp.Problem(cp.Minimize(cp.sum_squares(root - A) + 0.6 / 0.4 / width * cp.square(cp.norm(A, "nuc")))).solve(
        solver="CLARABEL"
    )
    (site,) = report.sites
    assert site.certificate.bound == pytest.approx(least, rel=1e-6)
