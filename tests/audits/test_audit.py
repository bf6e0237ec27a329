"""The audit against exact routines, constructed bugs, and the promise to leave everything as it was."""

import itertools
import json
import random
from functools import partial

import numpy as np
import pytest
import torch
from cases import normal
from compare import close
from networks import regression_data, regression_net, seeded
from scipy import stats
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from droptics.audits import audit
from droptics.audits.tallies import Mean
from droptics.data import Moments, Sample
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear, LastLayer
from droptics.optima import certify
from droptics.penalties import MonteCarlo, penalty, risk


class FunctionalDropout(nn.Module):
    def forward(self, x):
        return functional.dropout(x, 0.3, self.training)


class AlwaysOn(nn.Module):
    def forward(self, x):
        return functional.dropout(x, 0.3)


class HandWritten(nn.Module):
    def __init__(self, drop=0.3, scale=True):
        super().__init__()
        self.drop, self.scale = drop, scale

    def forward(self, x):
        if not self.training:
            return x
        kept = x * (torch.rand_like(x) >= self.drop)
        return kept / (1 - self.drop) if self.scale else kept


class Attention(nn.Module):
    def forward(self, x):
        rate = 0.2 if self.training else 0.0
        return functional.scaled_dot_product_attention(x, x, x, dropout_p=rate)


class MultiHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)

    def forward(self, x):
        return self.inner(x, x, x, need_weights=False)[0]


class Recurrent(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.inner = nn.LSTM(8, 8, layers, dropout=0.4 if layers > 1 else 0.0, batch_first=True)

    def forward(self, x):
        return self.inner(x)[0]


class Pooled(nn.Module):
    """Anything that maps (batch, 5, 8) to itself, then the mean and a linear layer."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.head = inner, nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.inner(x).mean(1))


SPELLINGS = {
    "module": (nn.Dropout(0.5), "inner", 0.5),
    "functional": (FunctionalDropout(), "inner.dropout", 0.3),
    "always-on": (AlwaysOn(), "inner.dropout", 0.3),
    "channels": (nn.Dropout1d(0.25), "inner", 0.25),
    "alpha": (nn.AlphaDropout(0.1), "inner", 0.1),
    "feature-alpha": (nn.FeatureAlphaDropout(0.1), "inner", 0.1),
    "attention": (Attention(), "inner.attention_dropout", 0.2),
    "multi-head": (MultiHead(), "inner.inner.attention_dropout", 0.1),
    "lstm": (Recurrent(), "inner.inner.LSTM_dropout", 0.4),
    "hand-written": (HandWritten(), "inner", 0.3),
    "transformer": (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True), "inner.dropout", 0.1),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_way_of_writing_dropout_is_found(name):
    inner, site, rate = SPELLINGS[name]
    data = (torch.randn(20, 5, 8, generator=torch.Generator().manual_seed(0)), torch.zeros(20, 2))
    report = audit(seeded(Pooled(inner)), data, draws=2, rates=(0.5,))
    found = {item.site.name: item.site.rate for item in report.sites}
    assert found[site] == rate
    if name == "transformer":
        assert len(found) == 4, "one site in the attention, three in the block"


def test_last_layer_numbers_equal_the_exact_routines():
    network, (x, y) = regression_net(), regression_data()
    report = audit(network, (x, y), batch_size=16)
    (item,) = report.sites
    head, sample, masks = LastLayer.of(network), Sample(x, y), Bernoulli(0.4, 12)
    close(item.penalty.value, float(penalty(head, sample, masks)))
    assert item.penalty.method == "exact"
    close(report.clean_loss, float(risk(head, sample).detach()))
    close(report.training_loss.value, report.clean_loss + item.penalty.value)
    close(item.certificate.objective, report.training_loss.value)
    assert item.certificate.bound <= certify(head, sample, masks).objective
    for point in item.curve:
        close(point.penalty.value, float(penalty(head, sample, Bernoulli(point.rate, 12))))
        close(point.training_loss, report.clean_loss + point.penalty.value)
    flows = (head.head.weight.norm(dim=0) * head.features(x).square().mean(0).sqrt()).detach()
    close(item.units.flows, flows)
    close(item.units.imbalance, float(12 * flows.square().sum() / flows.sum() ** 2 - 1))


def test_units_of_every_site_are_seen():
    """Flows into the linear layer behind a site, dead units, channels of feature maps."""

    class Maps(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.maps, self.fc, self.hidden = (
                nn.Conv2d(1, 4, 3),
                nn.Dropout2d(0.2),
                nn.Linear(4, 6),
                nn.Dropout(),
            )
            self.head = nn.Linear(6, 2)

        def forward(self, x):
            features = self.maps(torch.relu(self.conv(x))).mean((2, 3))
            return torch.tanh(self.head(self.hidden(torch.relu(self.fc(features)))))

    network = seeded(Maps()).double()
    with torch.no_grad():
        network.conv.weight[1] = 0
        network.conv.bias[1] = -1
    x = normal(30, 1, 6, 6, seed=3)
    report = audit(network, (x, normal(30, 2, seed=4)), draws=2, rates=(), batch_size=11)
    maps, hidden = (item.units for item in report.sites)
    assert (maps.count, list(maps.dead), list(maps.flows)) == (4, [1], [])
    with torch.no_grad():
        inner = torch.relu(network.fc(torch.relu(network.conv(x)).mean((2, 3))))
        expected = inner.square().mean(0).sqrt() * network.head.weight.norm(dim=0)
    close(hidden.flows, expected)
    assert any("1 of 4 units are zero" in found.text for found in report.findings)
    assert "nan" not in report.to_json()


@pytest.mark.parametrize("batch_size", [33, 32, 10])
def test_units_of_sequences_whose_examples_come_second_are_those_of_any_batches(batch_size):
    """The last batch, of one example or of three, has as many first entries as the others."""

    class Steps(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.drop, self.last = nn.Linear(3, 6), nn.Dropout(0.3), nn.Linear(6, 2)

        def forward(self, x):
            return self.last(self.drop(torch.relu(self.first(x.transpose(0, 1))))).mean(0)

    network, x = seeded(Steps()).double(), normal(33, 5, 3, seed=3)
    x[30:] *= 30
    (item,) = audit(network, (x, normal(33, 2, seed=4)), draws=2, rates=(), batch_size=batch_size).sites
    inner = torch.relu(network.first(x)).detach()
    close(item.units.flows, inner.square().mean((0, 1)).sqrt() * network.last.weight.detach().norm(dim=0))


def test_linear_networks_are_exact_from_end_to_end():
    network = seeded(
        nn.Sequential(nn.Dropout(0.2), nn.Linear(6, 5), nn.Dropout(0.3), nn.Linear(5, 4, bias=False), nn.Linear(4, 3))
    ).double()
    x, y = regression_data()
    report = audit(network, (x, y), batch_size=7)
    assert {item.penalty.method for item in report.sites} == {"exact"}
    total = report.training_loss.value - report.clean_loss
    close(sum(item.penalty.value for item in report.sites) + report.interaction.value, total)
    assert report.interaction.value > 0
    weights = [layer.weight.detach() for layer in network if isinstance(layer, nn.Linear)]
    without_bias = nn.Sequential(*(layer for layer in network)).double()
    for layer in without_bias:
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            layer.bias.data.zero_()
    plain = audit(without_bias, (x, y))
    masks = Product([Bernoulli(0.2, 6), Bernoulli(0.3, 5), Bernoulli(0.0, 4)])
    exact = penalty(DeepLinear(weights, mask_inputs=True), Moments.of_sample(Sample(x, y)), masks)
    close(plain.training_loss.value - plain.clean_loss, float(exact))


def test_sampled_sites_cover_the_truth_and_the_sum_is_closed():
    network = seeded(
        nn.Sequential(
            nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 12), nn.ReLU(), nn.Dropout(0.5), nn.Linear(12, 3)
        )
    ).double()
    x, y = regression_data(200)
    report = audit(network, (x, y), draws=60, rates=(0.6,), confidence=0.9999)
    first = report.sites[0]
    rest = nn.Sequential(*network[3:]).eval()
    hidden = torch.relu(network[0](x)).detach()

    def truth(rate):
        masks = Bernoulli(rate, 8).multipliers(4000, torch.Generator().manual_seed(5))
        with torch.no_grad():
            losses = torch.stack([(rest(hidden * mask) - y).square().sum(1).mean() for mask in masks])
        return float(losses.mean()) - report.clean_loss, float(losses.std()) / 4000**0.5

    for number, rate in ((first.penalty, 0.3), (first.curve[0].penalty, 0.6)):
        value, error = truth(rate)
        assert number.lower - 4 * error <= value <= number.upper + 4 * error
    parts = sum(item.penalty.value for item in report.sites) + report.interaction.value
    close(report.clean_loss + parts, report.training_loss.value)


class MaskedInside(nn.Module):
    """The mask is drawn in the middle of forward: no switch reaches it."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(12, 3).double()

    def forward(self, x):
        features = torch.tanh(x.repeat(1, 2))
        if self.training:
            features = features * (torch.rand_like(features) >= 0.4) / 0.6
        return self.head(features)


def test_dropout_layers_written_by_hand_are_isolated_and_the_rest_is_measured():
    x, y = regression_data(200)
    own = seeded(nn.Sequential(nn.Linear(6, 12), HandWritten(0.4), nn.Linear(12, 3))).double()
    (item,) = audit(own, (x, y), draws=60, confidence=0.9999).sites
    assert (item.site.name, item.site.kind, item.site.reason) == ("1", "HandWritten", None)
    head = LastLayer.of(nn.Sequential(own[0], own[2]))
    exact = float(penalty(head, Sample(x, y), Bernoulli(0.4, 12)))
    assert item.penalty.lower <= exact <= item.penalty.upper
    assert not item.curve, "the rate of a foreign layer cannot be set"
    inside = seeded(MaskedInside())
    report = audit(inside, (x, y), draws=60, confidence=0.9999)
    (item,) = report.sites
    assert "cannot be switched" in item.site.reason
    features = Sample(torch.tanh(x.repeat(1, 2)), y)
    exact = float(penalty(LastLayer.of(inside.head), features, Bernoulli(0.4, 12)))
    assert report.rest.lower <= exact <= report.rest.upper


def test_training_above_validation_is_explained():
    """Teacher data fitted exactly: the loss without dropout is zero, all of the training loss is dropout."""
    network = regression_net()
    x = normal(80, 6, seed=1)
    y = network.eval()(x).detach()
    report = audit(network.train(), (x[:40], y[:40]), validation=(x[40:], y[40:]))
    assert report.clean_loss < 1e-12
    (found,) = [item for item in report.findings if "above validation" in item.text]
    assert "explains all of it" in found.text


def test_bugs_people_publish_with():
    def findings(module, data=None, **options):
        data = data or (torch.randn(40, 5, 8, generator=torch.Generator().manual_seed(0)), torch.zeros(40, 2))
        report = audit(seeded(module), data, draws=2, rates=(), **options)
        return {(item.level, item.site): item.text for item in report.findings}

    assert "drops always" in findings(Pooled(AlwaysOn()))["bug", "inner.dropout"]
    never = Pooled(nn.Identity())
    never.unused = nn.Dropout(0.5)
    assert "never runs" in findings(never)["bug", "unused"]
    with pytest.warns(UserWarning, match="dropout option adds dropout"):
        single = nn.LSTM(8, 8, 1, dropout=0.3, batch_first=True)
    lonely = Recurrent()
    lonely.inner = single
    assert "one layer never drops" in findings(Pooled(lonely))["bug", "inner.inner"]
    assert "without a batch dimension" in findings(Pooled(Silenced(nn.Dropout2d(0.5))))["bug", "inner.inner"]
    assert "survivors are multiplied by 1.00" in findings(Pooled(HandWritten(scale=False)))["warning", "inner"]
    wrong = HandWritten(0.5)
    wrong.p = 0.1
    wrong.drop = 0.5
    assert "nominal rate is 0.1" in findings(Pooled(wrong))["warning", "inner"]


class Silenced(nn.Module):
    """torch warns about Dropout2d on 3-d inputs; the audit must say so by itself."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.inner(x)


class Checkpointed(nn.Module):
    def __init__(self, preserve, nested, alone):
        super().__init__()
        self.first, self.drop, self.head = nn.Linear(6, 30), nn.Dropout(0.5), nn.Linear(30, 3)
        self.options, self.alone = {"use_reentrant": nested, "preserve_rng_state": preserve}, alone

    def forward(self, x):
        again = partial(checkpoint, **self.options) if self.training else lambda part, value: part(value)
        if self.alone:  # nothing but dropout is computed again
            return self.head(again(self.drop, self.first(x)))
        return self.head(again(lambda value: self.drop(torch.tanh(value)), self.first(x)))


@pytest.mark.filterwarnings("ignore:None of the inputs")  # of torch, in a pass without gradients
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("preserve", [True, False])
def test_other_masks_in_the_recomputed_backward_pass(preserve, nested, alone):
    x, y = regression_data()
    report = audit(seeded(Checkpointed(preserve, nested, alone)), (x.float(), y.float()), draws=2, rates=())
    found = [item for item in report.findings if "backward pass recomputes" in item.text]
    assert bool(found) == (not preserve)


class Counting(nn.Module):
    """Counts how many examples pass, and by what factor training mode changes them."""

    def __init__(self, factor=1.0):
        super().__init__()
        self.first, self.factor, self.examples = nn.Linear(6, 8), factor, 0
        self.slopes = []

    def forward(self, x):
        self.examples += len(x)
        found = torch.tanh(self.first(x)) * (self.factor if self.training else 1.0)
        if found.requires_grad:
            found.register_hook(self.slopes.append)
        return found


class Louder(nn.Module):
    """A factor in training mode alone."""

    def forward(self, x):
        return 1.5 * x if self.training else x


def counted(factor=1.0):
    return seeded(
        nn.Sequential(Counting(factor), nn.Dropout(0.3), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3))
    ).double()


def test_what_is_known_of_a_batch_is_not_computed_again():
    """Before the first site: clean, trained, quiet and base run on the first batch, one on others."""
    x, y = regression_data()
    network = counted()
    audit(network, (x, y), draws=2, rates=(), batch_size=len(x) // 4, progress=False)
    first, others = len(x) // 4, len(x) - len(x) // 4
    assert network[0].examples == 4 * first + others
    assert network[0].slopes == []  # nothing is recomputed in a backward pass, so none is run through it


def test_what_training_mode_changes_is_measured_on_every_batch():
    x, y = regression_data()
    network = counted(1.25)
    report = audit(network, (x, y), draws=2, rates=(), batch_size=len(x) // 4, progress=False)
    network.eval()
    with torch.no_grad():
        clean = (network(x) - y).square().sum(1).mean()
        hidden = network[2](1.25 * network[0](x))
        trained = (network[4](hidden) - y).square().sum(1).mean()
    assert report.rest.value == pytest.approx(float(trained - clean), rel=1e-9)


@pytest.mark.parametrize("kind", ["head", "chain", "classes"])
def test_no_formula_has_features_of_evaluation_mode_where_training_mode_changes_them(kind):
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(12, width, generator=generator, dtype=torch.float64) for width in (6, 3))
    goal = y.argmax(1) if kind == "classes" else y
    gate = nn.Identity() if kind == "chain" else nn.Tanh()
    body = seeded(nn.Sequential(Louder(), nn.Linear(6, 4), gate, nn.Dropout(0.3), nn.Linear(4, 3))).double()
    report = audit(body, (x, goal), budget=30, progress=False)
    with torch.no_grad():
        features = gate(body[1](1.5 * x))
        loss = functional.cross_entropy if kind == "classes" else lambda out, goal: (out - goal).square().sum(1).mean()
        plain, total = loss(body[4](features), goal), 0.0
        for kept in itertools.product((0.0, 1.0), repeat=4):
            chance = 0.7 ** sum(kept) * 0.3 ** (4 - sum(kept))
            total += chance * loss(body[4](features * torch.tensor(kept) / 0.7), goal)
    (site,) = report.sites
    assert report.rest.value == pytest.approx(float(plain) - report.clean_loss, rel=1e-9)
    for number, wanted in ((site.penalty, float(total - plain)), (report.training_loss, float(total))):
        width = 2 * (number.upper - number.lower) + 1e-9
        assert number.lower - width <= wanted <= number.upper + width
        assert kind == "classes" or number.value == pytest.approx(wanted, rel=1e-9)


def test_everything_is_as_before_also_after_an_exception():
    network = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)).double().train()
    network[2].eval()
    network[0].weight.grad = torch.ones_like(network[0].weight)
    state = {name: value.clone() for name, value in network.state_dict().items()}
    flags = [part.training for part in network.modules()]
    generators = torch.random.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    x, y = regression_data()
    audit(network, (x, y), draws=2)
    with pytest.raises(ValueError, match="forward pass of Sequential fails"):
        audit(network, (x[:, :5], y), draws=2)
    assert [part.training for part in network.modules()] == flags
    assert all(torch.equal(value, network.state_dict()[name]) for name, value in state.items())
    assert torch.equal(network[0].weight.grad, torch.ones_like(network[0].weight))
    assert torch.equal(generators[0], torch.random.get_rng_state())
    assert generators[1] == random.getstate()
    assert all(np.array_equal(a, b) for a, b in zip(generators[2][1:2], np.random.get_state()[1:2], strict=True))  # noqa: NPY002
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in network.modules())


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.drop = nn.Linear(6, 4), nn.Linear(2, 4), nn.Dropout(0.5)

    def forward(self, a, b):
        return {"logits": self.drop(self.left(a)) + self.drop(self.right(b)), "extra": a}


class Int8Linear(nn.Module):
    """Weights as whole numbers and one scale, as quantized layers hold them: no parameters, no F.linear."""

    def __init__(self, layer):
        super().__init__()
        scale = layer.weight.detach().abs().max() / 127
        self.register_buffer("scale", scale)
        self.register_buffer("weight", (layer.weight.detach() / scale).round().to(torch.int8))

    def forward(self, x):
        return x @ (self.weight.to(x.dtype) * self.scale).mT


def test_quantized_layers_have_affine_tails():
    x, y = regression_data(200)
    head = nn.Linear(6, 3, bias=False).double()
    network = nn.Sequential(nn.Dropout(0.3), Int8Linear(seeded(head)))
    (item,) = audit(network, (x, y), draws=60, confidence=0.9999).sites
    weight = network[1].weight.double() * network[1].scale
    exact = 0.3 / 0.7 * float((x.square().mean(0) * weight.square().sum(0)).sum())
    close(item.penalty.value, exact)
    assert item.penalty.method == "exact: affine tail"


def test_models_as_people_have_them():
    x, labels = torch.randn(30, 6), torch.arange(30) % 4
    report = audit(TwoInputs(), [(x, torch.randn(30, 2), labels)], draws=2, rates=())
    assert {item.site.name for item in report.sites} == {"drop", "drop@2"}
    assert report.loss == "CrossEntropy"
    named = [{"a": x, "b": torch.randn(30, 2), "labels": labels}]
    assert len(audit(TwoInputs(), named, draws=2, rates=()).sites) == 2
    half = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)).bfloat16()
    assert audit(half, (x.bfloat16(), torch.randn(30, 3).bfloat16()), draws=2).sites[0].penalty.method == "exact"
    frozen = regression_net().requires_grad_(False)
    assert audit(frozen, regression_data(), draws=2).sites
    bare = audit(nn.Linear(6, 3), (x, torch.randn(30, 3)), draws=2)
    assert not bare.sites
    assert "no dropout was found" in str(bare)
    twice = nn.Dropout(0.3)
    shared = nn.Sequential(nn.Linear(6, 6), twice, nn.Linear(6, 6), twice, nn.Linear(6, 3))
    assert {item.site.name for item in audit(shared, (x, torch.randn(30, 3)), draws=2).sites} == {"1", "1@2"}


def test_classification_head_has_sub_networks_and_second_order():
    network = seeded(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.3), nn.Linear(12, 4)))
    x = torch.randn(300, 6, generator=torch.Generator().manual_seed(0))
    labels = network.eval()(x).argmax(1)
    report = audit(network, (x, labels), draws=40, rates=())
    (item,) = report.sites
    assert item.subnetworks.full == 1.0
    assert item.subnetworks.low <= item.subnetworks.mean <= item.subnetworks.high <= 1
    assert 0 < item.subnetworks.smallest <= 12
    features = Sample(torch.relu(network[0](x)).detach().double(), labels)
    head = nn.Linear(12, 4).double()
    head.load_state_dict({name: value.double() for name, value in network[3].state_dict().items()})

    truth = penalty(
        LastLayer.of(head), features, Bernoulli(0.3, 12), MonteCarlo(4000, confidence=0.9999), CrossEntropy()
    )
    assert item.penalty.lower <= float(truth.upper)
    assert item.penalty.upper >= float(truth.lower)
    assert abs(item.second_order - float(truth)) < 0.5 * float(truth)


def test_report_is_valid_json_and_a_page(tmp_path):
    report = audit(regression_net(), regression_data(), draws=2)
    content = json.loads(report.to_json())
    assert content["schema"] == 1
    assert content["sites"][0]["penalty"]["method"] == "exact"
    path = report.to_html(tmp_path / "new" / "report.html")
    text = path.read_text()
    assert "What dropout does to Sequential" in text
    assert "http" not in text.replace("http-equiv", ""), "the page works offline"
    assert [item.name for item in path.parent.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n, d: audit("net", d), "module must be an nn.Module"),
        (lambda n, d: audit(n, d, "hinge"), "loss must be one of"),
        (lambda n, d: audit(n, d, draws=1), "draws must be at least 2"),
        (lambda n, d: audit(n, d, rates=(1.0,)), "probability in \\[0, 1\\)"),
        (lambda n, d: audit(n, []), "at least one batch"),
        (lambda n, d: audit(n, 3), "data must be a Sample"),
        (lambda n, d: audit(n, [d[0]]), "data must yield batches"),
        (lambda n, d: audit(n, (d[0], d[1][:, :2])), "targets have shape"),
        (lambda n, d: audit(n, (d[0] * float("nan"), d[1])), "must be finite"),
        (lambda n, d: audit(n, d, distributed=True), "process group"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(regression_net(), regression_data(20))


def test_one_draw_of_two_examples_has_a_spread():
    mean = Mean()
    mean.add_rows(torch.tensor([[1.0, 3.0]]).double(), torch.ones(2).double())
    assert mean.variance == pytest.approx(4.0)  # (1 - 2)^2 + (3 - 2)^2, times 2 / (2 - 1)


@pytest.mark.parametrize("counts", [(5,), (1, 30), (7.5, 2, 11)])
def test_intervals_of_weighted_means_are_students_after_welch_and_satterthwaite(counts):
    """Of one batch the interval of its draws, whatever its weight; of several by the variances of their means."""
    found, batches = Mean(), [normal(4 + 3 * i, seed=i).numpy() + i for i in range(len(counts))]
    for values, count in zip(batches, counts, strict=True):
        found.add(values.tolist(), count)
    shares = np.array(counts) / sum(counts)
    mean = sum(share * values.mean() for share, values in zip(shares, batches, strict=True))
    parts = [share**2 * stats.sem(values) ** 2 for share, values in zip(shares, batches, strict=True)]
    freedom = sum(parts) ** 2 / sum(part**2 / (len(values) - 1) for part, values in zip(parts, batches, strict=True))
    low, high = stats.t.interval(0.9, freedom, loc=mean, scale=sum(parts) ** 0.5)
    told = found.number(0.9)
    for number, wanted in ((told.value, mean), (told.lower, low), (told.upper, high)):
        assert number == pytest.approx(wanted, rel=1e-9)
