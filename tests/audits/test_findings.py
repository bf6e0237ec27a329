"""Every finding is planted once and absent once; kinds are registered under codes; advice has its number."""

import importlib
import math
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cases import normal
from torch import nn
from torch.nn import functional

from droptics.audits import Finding, PlainEstimate, Report, audit
from droptics.audits.findings import KINDS, Kind, Remark, finding, remarks
from droptics.audits.passes import Passes, differs

INPUTS, TARGETS = normal(64, 6, seed=1), normal(64, 2, seed=2)


def seeded(module, seed=0):
    module = module.double()
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=seed + i) / 2)
    return module


def codes(module, data=(INPUTS, TARGETS), **options):
    """Codes of all findings with the places where they were found."""
    found: dict[str, list[str]] = {}
    for item in audit(seeded(module), data, draws=2, rates=(), progress=False, **options).findings:
        found.setdefault(item.code, []).append(item.site)
    return found


class Then(nn.Module):
    """A linear layer, something, a linear layer."""

    def __init__(self, inner):
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(6, 16), inner, nn.Linear(16, 2)

    def forward(self, x):
        return self.last(self.inner(self.first(x)))


class Attention(nn.Module):
    """As timm, GPT-2 and BERT have it: a layer that only holds the rate."""

    def __init__(self, fused=True, other=False):
        super().__init__()
        self.attn_drop, self.fused, self.other = nn.Dropout(0.1), fused, other

    def forward(self, x):
        rows = x.reshape(len(x), 4, 4)
        rate = 0.3 if self.other else self.attn_drop.p
        if self.fused:
            mixed = functional.scaled_dot_product_attention(rows, rows, rows, dropout_p=rate if self.training else 0.0)
        else:
            weights = functional.dropout((rows @ rows.mT).softmax(-1), rate, self.training)
            mixed = weights @ rows
        return mixed.reshape(len(x), 16)


@pytest.mark.parametrize("fused", [True, False])
def test_layers_whose_rate_is_used_by_a_function_are_not_dead(fused):
    assert "DR101" not in codes(Then(Attention(fused)))
    assert codes(Then(Attention(fused, other=True)))["DR101"] == ["inner.attn_drop"]


class Both(nn.Module):
    """A layer that never runs beside a part that calls dropout at some rate itself."""

    def __init__(self, rate):
        super().__init__()
        self.dead, self.other = nn.Dropout(0.1), Functional(rate)

    def forward(self, x):
        return self.other(x)


class Functional(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        return functional.dropout(x, self.rate, self.training)


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_a_call_in_another_part_does_not_excuse_a_layer_that_never_runs(rate):
    assert codes(Then(Both(rate)))["DR101"] == ["inner.dead"]


def spoiled(network, value=math.nan):
    seeded(network)
    with torch.no_grad():
        network.first.weight[0, 0] = value
    return network


@pytest.mark.parametrize("targets", [TARGETS, torch.arange(64) % 2], ids=["numbers", "classes"])
def test_outputs_that_are_not_numbers(targets, tmp_path):
    report = audit(spoiled(Then(nn.Dropout())), (INPUTS, targets), draws=2, rates=(0.3,), progress=False)
    first, second = report.findings[:2]
    assert (first.code, first.text) == ("DR001", "the outputs of 64 of 64 examples are NaN")
    assert (second.code, second.level) == ("DR004", "bug")
    assert Report.from_json(report.to_json()).to_html(tmp_path / "page.html").exists()
    assert not {"DR001", "DR004"} & set(codes(Then(nn.Dropout()), (INPUTS, targets)))


class Tagger(nn.Module):
    """One score per class and token, dropout between."""

    def __init__(self):
        super().__init__()
        self.embed, self.drop, self.head = nn.Embedding(7, 5), nn.Dropout(0.3), nn.Linear(5, 3)

    def forward(self, tokens, attention_mask=None, key_padding_mask=None, labels=None):
        scores = self.head(self.drop(self.embed(tokens)))
        if labels is None:
            return scores
        return {"loss": functional.cross_entropy(scores.flatten(0, 1), labels.flatten()), "logits": scores}


def tagged(*, ignored, mask="attention_mask"):
    generator = torch.Generator().manual_seed(3)
    tokens, labels = (torch.randint(high, (16, 10), generator=generator) for high in (7, 3))
    padded = torch.arange(10) >= torch.randint(3, 11, (16, 1), generator=generator)
    labels = labels.masked_fill(padded, -100 if ignored else 0)
    kept = padded if mask == "key_padding_mask" else (~padded).long()
    return [{"tokens": tokens, mask: kept, "labels": labels}], float(padded.double().mean())


@pytest.mark.parametrize("mask", ["attention_mask", "key_padding_mask"])
@pytest.mark.parametrize("loss", [None, "model"])
def test_padding_that_is_counted(mask, loss):
    data, share = tagged(ignored=False, mask=mask)
    report = audit(seeded(Tagger()), data, loss, draws=2, rates=(), progress=False)
    (found,) = [item for item in report.findings if item.code == "DR002"]
    assert found.text == f"{share:.0%} of the positions that it averages are padding ({mask} says so)"
    data, _ = tagged(ignored=True, mask=mask)
    report = audit(seeded(Tagger()), data, loss, draws=2, rates=(), progress=False)
    assert "DR002" not in {item.code for item in report.findings}


def test_padding_that_the_loss_leaves_out():
    """Labels of padding that the loss ignores by itself, under a number of its own."""
    data, _ = tagged(ignored=False)
    labels = data[0]["labels"]
    labels[data[0]["attention_mask"] == 0] = 2

    def ignoring(outputs, targets):
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=2)

    def counting(outputs, targets):
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    data[0]["labels"] = torch.where((labels == 2) & (data[0]["attention_mask"] == 1), 0, labels)
    for loss, wanted in ((counting, True), (ignoring, False)):
        report = audit(seeded(Tagger()), data, loss, draws=2, rates=(), progress=False)
        assert ("DR002" in {item.code for item in report.findings}) == wanted


class DropPath(nn.Module):
    def __init__(self, drop_prob, dead=False):
        super().__init__()
        self.drop_prob, self.dead = drop_prob, dead

    def forward(self, x):
        if not self.training or self.dead:
            return x
        return x * (torch.rand(len(x), 1) >= self.drop_prob) / (1 - self.drop_prob)


class PythonDropPath(DropPath):
    """Draws by Python's generator: nothing of it is seen by torch."""

    def forward(self, x):
        return 0 * x if self.training and random.random() < self.drop_prob else x


class Residual(nn.Module):
    def __init__(self, path, call=True):
        super().__init__()
        self.body, self.path, self.call = nn.Linear(16, 16), path, call

    def forward(self, x):
        return x + (self.path(self.body(x)) if self.call else self.body(x))


def test_stochastic_depth_that_never_runs():
    assert codes(Then(Residual(DropPath(0.2), call=False)))["DR103"] == ["inner.path"]
    assert codes(Then(Residual(DropPath(0.2, dead=True))))["DR103"] == ["inner.path"]
    for path in (DropPath(0.2), DropPath(0.0), PythonDropPath(0.3)):
        assert "DR103" not in codes(Then(Residual(path)))


def normalized(*inner, steps=0):
    """A network around BatchNorm, trained a little where asked."""
    network = nn.Sequential(nn.Linear(6, 24), *inner, nn.Linear(24, 2))
    seeded(network)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network.train()
        for _ in range(steps):
            network(normal(256, 6, seed=int(torch.randint(1000, ()))))
    return network


def shift(network):
    report = audit(network, (normal(512, 6, seed=9), normal(512, 2, seed=10)), draws=2, rates=(), progress=False)
    return [(item.site, item.text) for item in report.findings if item.code == "DR401"]


@pytest.mark.parametrize("steps", [0, 60])
def test_variance_shift_of_batch_norm_is_found_with_its_size(steps):
    """Behind dropout the variance of v + m^2 p / (1 - p) is seen for v; behind it nothing is."""
    network = normalized(nn.Dropout(0.5), nn.BatchNorm1d(24), nn.ReLU(), steps=steps)
    ((place, text),) = shift(network)
    assert place == "2"
    values = network[0](normal(512, 6, seed=9)).detach()
    wanted = float(((values.var(0) + values.square().mean(0)) / values.var(0)).median())
    size = float(re.search(r"is ([\d.]+) times as large while", text)[1])
    assert size == pytest.approx(wanted, rel=0.1)
    assert f"its outputs are {size**-0.5:.1f}" in text
    assert not shift(normalized(nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.5), steps=steps))


def test_statistics_that_were_estimated_without_dropout_have_no_shift():
    network = normalized(nn.Dropout(0.5), nn.BatchNorm1d(24), nn.ReLU(), steps=60)
    assert shift(network)
    network[1].eval()
    network[2].momentum = None
    network[2].reset_running_stats()
    network[2].train()
    for i in range(20):
        network(normal(256, 6, seed=i))
    assert not shift(network)


def test_everything_falls_at_rate_one():
    assert codes(Then(nn.Dropout(1.0)))["DR305"] == ["inner"]
    assert "DR305" not in codes(Then(nn.Dropout(0.99)))


def test_a_rate_that_no_output_depends_on_cannot_matter():
    class Unused(nn.Module):
        def __init__(self, used):
            super().__init__()
            self.drop, self.used = nn.Dropout(0.5), used

        def forward(self, x):
            fallen = self.drop(x)
            return fallen if self.used else x

    assert codes(Then(Unused(False)))["DR105"] == ["inner.drop"]
    assert "DR105" not in codes(Then(Unused(True)))


@pytest.mark.parametrize(
    ("layers", "method"),
    [
        (
            [nn.Dropout(0.2), nn.Linear(3, 3), nn.Dropout(0.2), nn.Linear(3, 1)],
            "exact training loss of the linear chain",
        ),
        ([nn.Linear(3, 3), nn.ReLU(), nn.Dropout(0.2), nn.Linear(3, 1)], "exact leave-one-out where the last layer"),
        (
            [nn.Tanh(), nn.Dropout(0.2), nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 2, 2), nn.Flatten(), nn.Linear(4, 1)],
            "exact training loss where the affine tail alone is trained",
        ),
        ([nn.Linear(3, 3), nn.Dropout(0.2), nn.ReLU(), nn.Linear(3, 1)], "copies that share their randomness"),
    ],
)
def test_a_gap_is_told_with_the_method_that_compares_rates(layers, method):
    module, inputs = nn.Sequential(*layers).double(), normal(30, 3, seed=1)
    with torch.no_grad():
        fitted = inputs, module.eval()(inputs)
    far = inputs, fitted[1] + 10
    (gap,) = [f for f in audit(module, fitted, validation=far, rates=(), progress=False).findings if f.code == "DR502"]
    assert gap.advice.startswith("compare rates with tune_rates: ")
    assert method in gap.advice


def test_a_better_rate_is_named_with_the_leave_one_out_error_that_supports_it():
    """Many noisy features of few examples: a high rate is better; where rate and best rate agree nothing is said."""
    inputs = normal(60, 40, seed=1)
    targets = inputs[:, :1] + 3 * normal(60, 1, seed=2)
    low, high = (nn.Sequential(nn.Dropout(rate), nn.Linear(40, 1)).double() for rate in (0.05, 0.9))
    for module in (low, high):
        nn.init.zeros_(module[1].weight)
    (item,) = audit(low, (inputs, targets), rates=(), progress=False).sites
    choice = item.rate_choice
    assert choice.errors[choice.rates.index(0.05)] - min(choice.errors) == pytest.approx(choice.gain.value, rel=1e-10)
    found = [f for f in audit(low, (inputs, targets), rates=(), progress=False).findings if f.code == "DR505"]
    assert choice.gain.lower > 0
    assert f"{choice.gain.value:.3g}" in found[0].text
    assert "leave-one-out" in found[0].text
    assert "by exact leave-one-out as in tune_rates" in found[0].advice
    again = audit(high, (inputs, targets), rates=(), progress=False)
    assert not [f for f in again.findings if f.code == "DR505"]


def test_a_rate_that_hardly_matters_is_measured_up_to_the_highest_rate():
    def found(size):
        network = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Dropout(0.2), nn.Linear(5, 2))
        seeded(network)
        with torch.no_grad():
            network[3].weight *= size
        report = audit(network, (INPUTS, TARGETS), draws=2, rates=(0.1, 0.8), progress=False)
        return [item.text for item in report.findings if item.code == "DR507"]

    assert "no rate up to 0.8" in found(1e-3)[0]
    assert found(1e-3)[0].endswith("(exact)")
    assert not found(1.0)


def test_guessing_needs_no_units():
    """A network that is no better than the most frequent class is not worth a smaller one."""
    labels = torch.zeros(64, dtype=torch.long)
    labels[:20] = 1
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
    seeded(network)
    with torch.no_grad():
        network[3].weight.mul_(1e-3)
        network[3].bias.copy_(torch.tensor([0.0, -1.0]))
    report = audit(network, (INPUTS, labels), draws=2, rates=(), progress=False)
    assert report.accuracy == report.sites[0].subnetworks.chance == 44 / 64
    assert not [found for found in report.findings if found.code == "DR506"]


def test_every_finding_has_a_registered_code():
    crowded = Then(nn.Dropout(0.0))
    crowded.unused = nn.Dropout(0.5)
    report = audit(seeded(crowded), (INPUTS, TARGETS), draws=2, progress=False)
    assert {found.code for found in report.findings} >= {"DR101", "DR104"}
    for found in report.findings:
        assert KINDS[found.code].level == found.level


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind.code[0] == "D"], ids=lambda kind: kind.code)
def test_kinds_say_what_they_mean(kind: Kind):
    assert re.fullmatch(r"DR\d{3}", kind.code)
    assert all((kind.title, kind.meaning, kind.evidence, kind.mend))
    assert kind.asks in (Passes, Report)


RULE = '''
from droptics.audits import Report
from droptics.audits.findings import Remark, finding

@finding("X901", "warning", "rates above one half", asks=Report, evidence="the rate", mend="ask why")
def high(report):
    """More units fall than stay."""
    for item in report.sites:
        if item.site.rate > 0.5:
            yield Remark(item.site.name, f"drops at rate {item.site.rate:g}")
'''


def test_a_finding_of_ones_own_is_one_function_in_one_file(tmp_path: Path, monkeypatch):
    (tmp_path / "house_rules.py").write_text(RULE)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("house_rules")
    try:
        assert codes(Then(nn.Dropout(0.7)))["X901"] == ["inner"]
        assert "X901" not in codes(Then(nn.Dropout(0.4)))
        report = audit(seeded(Then(nn.Dropout(0.7))), (INPUTS, TARGETS), draws=2, rates=(), progress=False)
        (found,) = [item for item in report.findings if item.code == "X901"]
        assert found == Finding("warning", "inner", "drops at rate 0.7", "ask why", "X901")
    finally:
        KINDS.pop("X901", None)


def test_codes_are_taken_once_and_levels_are_known():
    again = finding("DR101", "bug", "again", asks=Passes, evidence="", mend="")
    with pytest.raises(ValueError, match="code 'DR101' is taken"):
        again(lambda passes: [])
    kind = KINDS["DR101"]
    same = finding("DR101", kind.level, kind.title, asks=Passes, evidence=kind.evidence, mend=kind.mend)
    assert same(kind.rule) is kind.rule
    assert KINDS["DR101"] == kind
    with pytest.raises(ValueError, match="level must be one of"):
        finding("X902", "error", "other", asks=Passes, evidence="", mend="")
    assert Remark("here", "seen").advice is None


def test_the_page_of_codes_lists_every_kind(monkeypatch):
    """Generated from the registry, with a section for every family of codes."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs")
    text = importlib.import_module("findings_page").findings_page().replace("\\", "")
    kinds = [kind for code, kind in KINDS.items() if code.startswith("DR")]
    for kind in kinds:
        start = text.index(f"### {kind.code}: {kind.title}\n")
        entry = text[start : text.find("\n#", start + 4)]
        for words in (kind.level.capitalize(), " ".join(kind.meaning.split()), kind.evidence, kind.mend):
            assert words in entry
    assert text.count("\n### ") == len(kinds)


@pytest.mark.parametrize(("count", "found"), [(24, False), (25, True)])
def test_shares_that_are_all_alike_are_no_accident_of_enough_examples(count, found):
    """By Markov's inequality three quarters come of a half with a chance of 2 / 3 each; twice (2 / 3)^25 is 0.8e-4."""
    source = torch.ones(count, 8)
    result = torch.cat([torch.zeros(count, 6), 2 * torch.ones(count, 2)], 1)
    assert differs((source, result), 0.5) is found


@pytest.mark.parametrize(("count", "units", "falls"), [(100, 6, 1), (40, 50, 11), (3, 5, 1)])
def test_shares_that_are_all_alike_are_those_of_their_rate_however_their_mean_is_rounded(count, units, falls):
    """The mean of many equal shares is rounded, and so their spread is not zero; half a unit is no other rate."""
    source = torch.ones(count, units)
    result = torch.cat([torch.zeros(count, falls), torch.ones(count, units - falls)], 1)
    assert not differs((source, result), falls / units)
    assert not differs((source, result), (falls + 0.5) / units)


@pytest.mark.parametrize(("validation", "share"), [(1.2, "all"), (0.9, "83%"), (0.1, "36%")])
def test_what_dropout_explains_is_its_part_of_the_gap(validation, share):
    """Dropout adds 0.5 to a loss of 1; validation lies below 1.5 by 0.3, 0.6 and 1.4."""
    draft = audit(seeded(Then(nn.Dropout(0.3))), (INPUTS, TARGETS), rates=(), draws=2)
    told = PlainEstimate.exact(1.5)
    report = replace(draft, clean_loss=1.0, training_loss=told, validation_loss=validation, findings=())
    (found,) = [item for item in remarks(report) if item.code == "DR501"]
    assert f"adds 0.5 and explains {share} of it" in found.text
    assert (found.advice == "look for another cause") is (share == "36%")
