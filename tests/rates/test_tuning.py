"""tune_rates as a whole: answers on problems whose answer is known, arguments, results as data."""

import json
import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from tuned import RATES, Pooled, data, flipped, perceptron, seeded

from droptics import Sample, tune_rates
from droptics.rates import Fit, Rates
from droptics.rates.places import set_rates
from droptics.rates.running import Runner, Trained

FIT = Fit(epochs=3, batch_size=16, step_size=1e-2, looks=4)
QUICK = {"fit": FIT, "scan": RATES, "progress": False}


def noisy(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """One input carries the target, thirty carry nothing: a network that trusts all of them overfits."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 31, generator=generator)
    return inputs, inputs[:, :1] + 0.5 * torch.randn(count, 1, generator=generator)


def wide() -> nn.Module:
    layers = [nn.Dropout(0.5), nn.Linear(31, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 1)]
    return seeded(nn.Sequential(*layers))


def test_dropout_that_pays_is_found():
    """A wide network learns wrong labels by heart and is sure of them; nearly everything dropped, it learns nothing."""
    layers = [nn.Dropout(0.5), nn.Linear(11, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 2)]
    fit = Fit(epochs=40, batch_size=100, step_size=1e-2, stop="last", looks=1)
    scan = (0.0, 0.4, 0.95)
    found = tune_rates(
        seeded(nn.Sequential(*layers)), flipped(100, 1), flipped(400, 2), fit=fit, scan=scan, progress=False
    )
    assert (found.best, found.verdict, found.alike) == (0.4, "resolved", (0.4,))
    assert 0.2 < found.gap.share < 0.8
    assert found.points[0].training_loss < found.points[1].training_loss < found.points[2].training_loss
    assert found.rates == {"0": 0.4, "3": 0.4}


def test_validation_equal_to_training_data_is_flat():
    train = noisy(40, 1)
    fit = Fit(epochs=60, batch_size=40, step_size=5e-3)
    found = tune_rates(wide(), train, train, fit=fit, scan=(0.0, 0.2, 0.5), progress=False)
    assert (found.verdict, found.best) == ("flat", 0.0)


def test_shuffled_targets_are_flat():
    inputs, targets = noisy(40, 1)
    held, others = noisy(400, 2)
    order = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    fit = Fit(epochs=60, batch_size=40, step_size=5e-3)
    found = tune_rates(
        wide(), (inputs, targets[order[order < 40]]), (held, others[order]), fit=fit, scan=(0.0, 0.5), progress=False
    )
    assert found.verdict == "flat"
    assert "constant" in found.reason
    assert found.constant == pytest.approx(float((others - others.mean()).square().mean()), rel=1e-6)


def test_early_stopping_takes_the_best_step():
    """The longer it trains on wrong labels, the surer it is of them."""
    layers = [nn.Dropout(0.5), nn.Linear(11, 64), nn.ReLU(), nn.Linear(64, 2)]
    module, fit = seeded(nn.Sequential(*layers)), Fit(epochs=30, batch_size=100, step_size=1e-2, looks=6)
    options = {"scan": (0.0, 0.1), "progress": False}
    best = tune_rates(module, flipped(100, 1), flipped(200, 2), fit=fit, **options)
    last = tune_rates(module, flipped(100, 1), flipped(200, 2), fit=replace(fit, stop="last"), **options)
    assert best.points[0].loss < last.points[0].loss
    assert best.points[0].steps[0] < last.points[0].steps[0] == 30


class _Planted(Runner):
    """A runner whose losses are a known function of the rates, with noise that examples share between copies."""

    slopes, product = (1.0, -0.5, 0.0), 0.0

    def run(self, settings, seeds, stage):
        examples, generator = torch.Generator().manual_seed(0), torch.Generator().manual_seed(len(stage))
        base = torch.rand(len(seeds), 300, generator=examples, dtype=torch.float64) + 1
        found = []
        for setting in settings:
            odds = [math.log(rate / (1 - rate)) if rate else -4.0 for rate in setting.values()]
            center = math.log(0.2 / 0.8)
            bowl = sum((value - center) ** 2 for value in odds) / 3
            own = sum(slope * (value - center) for slope, value in zip(self.slopes, odds, strict=True))
            own += self.product * (odds[0] - center) * (odds[1] - center)
            noise = 0.01 * torch.randn(len(seeds), 300, generator=generator, dtype=torch.float64)
            found.append(Trained(base + 0.1 * bowl + 0.05 * own + noise, (0.1,) * len(seeds), (5,) * len(seeds)))
            self.copies += len(seeds)
        return found


@pytest.fixture
def planted(monkeypatch):
    monkeypatch.setattr("droptics.rates.tuning.Runner", _Planted)
    monkeypatch.setattr("droptics.rates.tuning.constant_losses", lambda problem: None)
    return _Planted


def test_a_split_moves_the_sites_whose_effect_is_clear(planted, monkeypatch):
    monkeypatch.setattr(planted, "slopes", (0.5, -0.5, 0.0))
    found = tune_rates(perceptron(), data(40, 1), data(30, 2), split="factorial", progress=False)
    assert (found.best, found.verdict) == (0.2, "resolved")
    assert found.split.kept
    first, second, third = found.sites
    assert first.rate < 0.2 < second.rate
    assert third.rate == 0.2
    assert [site.verdict for site in found.sites] == ["resolved", "resolved", "flat"]
    assert first.effect == pytest.approx(0.025, abs=4 * first.error)
    # no corner of the design is better: the path goes half a level
    assert [point.stage for point in found.points] == ["scan"] * 6 + ["design"] * 4 + ["path"] * 4 + ["guard"] * 2
    assert found.cost.copies == 6 + 4 + 4 + 2 * 4


@pytest.mark.parametrize(("slope", "step"), [(0.5, 0.5), (1.0, 1.0), (1.9, 2.0), (3.8, 4.0)])
def test_the_path_is_followed_as_far_as_it_pays(planted, monkeypatch, slope, step):
    """Second derivatives are 0.2 / 3 for each site: slopes of 0.05 * slope ask for steps of 0.75 * slope in log-odds.

    The path has steps of 0.7 times 1 / 2, 1, 2 and 4 for the first site, half of it, upwards, for the others.
    """
    monkeypatch.setattr(planted, "slopes", (slope, -slope / 2, -slope / 2))
    found = tune_rates(perceptron(), data(40, 1), data(30, 2), split="factorial", progress=False)
    shifts = [math.log(rate / (1 - rate)) - math.log(0.2 / 0.8) for rate in found.rates.values()]
    assert found.split.kept
    assert shifts[0] == pytest.approx(-0.7 * step)  # the steepest, whose shares of the step are exact
    # errors: 0.01 / sqrt(300) / 0.7 / 2 for a slope, of 0.0125 at least: 3 %; three of them in all
    assert shifts[1:] == pytest.approx([0.35 * step] * 2, rel=0.1)


def test_a_product_of_sites_turns_the_path_a_little(planted, monkeypatch):
    """Three sites on four copies: a product of the first two looks like the third, which then moves for nothing."""
    monkeypatch.setattr(planted, "slopes", (0.5, -0.5, 0.0))
    monkeypatch.setattr(planted, "product", 0.2)
    found = tune_rates(perceptron(), data(40, 1), data(30, 2), split="factorial", progress=False)
    assert found.split.kept
    assert found.rates["0"] < 0.2 < found.rates["3"]
    assert found.rates["6"] < 0.2


def test_sites_that_matter_through_their_product_alone_are_divided(planted, monkeypatch):
    """No effect shows it, a corner of the design does: one site up and one down is worth 0.05 * 4 * 0.7^2, and the bowl
    takes half of it away. Two groups, the first site and the others, so that all four corners are there.
    """
    monkeypatch.setattr(planted, "slopes", (0.0, 0.0, 0.0))
    monkeypatch.setattr(planted, "product", 4.0)
    found = tune_rates(perceptron(), data(40, 1), data(30, 2), split="factorial", groups=["[36]"], progress=False)
    assert [site.verdict for site in found.sites] == ["flat"] * 3
    assert found.split.kept
    assert (found.rates["0"] - 0.2) * (found.rates["3"] - 0.2) < 0
    assert found.rates["3"] == found.rates["6"]


def test_a_split_that_does_not_pay_on_fresh_seeds_is_declined(planted, monkeypatch):
    run, asked = planted.run, {}

    def deceiving(self, settings, seeds, stage):
        asked[stage] = set(seeds)
        monkeypatch.setattr(planted, "slopes", (0.5, -0.5, 0.0) if stage != "guard" else (0.0, 0.0, 0.0))
        return run(self, settings, seeds, stage)

    monkeypatch.setattr(planted, "run", deceiving)
    found = tune_rates(perceptron(), data(40, 1), data(30, 2), split="factorial", progress=False)
    assert not found.split.kept
    assert set(found.rates.values()) == {0.2}
    assert len(asked["guard"]) == 4
    assert not asked["guard"] & asked["scan"]


def test_sites_of_a_group_share_a_rate(planted, monkeypatch):
    monkeypatch.setattr(planted, "slopes", (0.5, 0.5, -1.0))
    found = tune_rates(perceptron(), data(40, 1), data(30, 2), split="factorial", groups=["[03]"], progress=False)
    assert found.rates["0"] == found.rates["3"] < 0.2 < found.rates["6"]
    assert [site.group for site in found.sites] == ["[03]", "[03]", "6"]


def test_nothing_is_split_where_nothing_is_gained():
    found = tune_rates(perceptron(), data(40, 1), data(40, 1), split="factorial", **QUICK)
    assert found.verdict == "flat"
    assert not found.split.kept
    assert found.cost.copies == 3
    one = seeded(nn.Sequential(nn.Linear(7, 5), nn.Dropout(0.5), nn.Linear(5, 3)))
    assert "one site" in tune_rates(one, data(40, 1), data(30, 2), split="factorial", **QUICK).split.reason


def test_sites_that_are_not_tuned_keep_their_rate():
    found = tune_rates(perceptron(), data(40, 1), data(30, 2), sites=["3"], **QUICK)
    assert list(found.rates) == ["3"]
    assert set(found.skipped) == {"0", "6"}
    module = perceptron()
    assert found.apply(module) == []
    assert (module[0].p, module[3].p, module[6].p) == (0.5, found.best, 0.1)


def test_rates_of_functional_calls_are_set_where_they_are_known():
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.dropout_rate = nn.Linear(7, 3), 0.35

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            hidden = nn.functional.dropout(inputs, self.dropout_rate, self.training)
            return nn.functional.dropout1d(self.linear(hidden)[:, :, None], 0.2, self.training)[:, :, 0]

    module = Functional()
    found = tune_rates(module, data(40, 1), data(30, 2), **QUICK)
    assert set(found.rates) == {"dropout", "dropout1d"}
    assert module.dropout_rate == 0.35
    for best in (0.2, 0.6):  # 0.2 is also the rate of the call that has no attribute
        module.dropout_rate = 0.35
        found = replace(found, rates=dict.fromkeys(found.rates, best))
        assert found.apply(module) == ["dropout1d"]
        assert module.dropout_rate == best


def test_calls_that_share_a_rate_get_the_first():
    module = nn.Linear(2, 2)
    module.drop = 0.3
    assert set_rates(module, {"one": 0.1, "two": 0.1}, {"one": 0.3, "two": 0.3}) == []
    module.drop = 0.3
    assert set_rates(module, {"one": 0.1, "two": 0.2}, {"one": 0.3, "two": 0.3}) == ["two"]
    assert module.drop == 0.1
    assert set_rates(module, {"other.one": 0.1}, {"other.one": 0.1}) == ["other.one"]


def test_of_two_numbers_that_may_be_the_rate_neither_is_set():
    module = nn.Linear(2, 2)
    module.drop, module.attention_drop = 0.3, 0.3
    assert set_rates(module, {"one": 0.1}, {"one": 0.3}) == ["one"]
    assert (module.drop, module.attention_drop) == (0.3, 0.3)
    module.attention_drop = 0.4
    assert set_rates(module, {"one": 0.1}, {"one": 0.3}) == []
    assert (module.drop, module.attention_drop) == (0.1, 0.4)


def test_a_rate_of_zero_may_be_an_integer_and_a_switch_is_no_rate():
    module = nn.Linear(2, 2)
    module.drop, module.drop_first = 0, False
    assert set_rates(module, {"one": 0.1}, {"one": 0.0}) == []
    assert (module.drop, module.drop_first) == (0.1, False)


def test_masks_written_by_hand_are_named_and_left_alone():
    class Written(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return inputs * (torch.rand_like(inputs) > 0.5) if self.training else inputs

    module = seeded(nn.Sequential(Written(), nn.Linear(7, 5), nn.Dropout(0.5), nn.Linear(5, 3)))
    found = tune_rates(module, data(40, 1), data(30, 2), **QUICK)
    assert list(found.rates) == ["2"]
    assert "by hand" in next(iter(found.skipped.values()))


@pytest.mark.parametrize("form", ["sample", "loader", "dictionaries"])
def test_data_in_every_form_give_the_same_answer(form):
    inputs, labels = data(40, 1)
    held = data(30, 2)
    train: object = (inputs, labels)
    if form == "sample":
        train, held = Sample(*train), Sample(*held)
    elif form == "loader":
        train = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, labels), batch_size=7)
    else:
        train = [{"input": inputs[i : i + 8], "labels": labels[i : i + 8]} for i in range(0, 40, 8)]
    found = tune_rates(perceptron(), train, held, **QUICK)
    expected = tune_rates(perceptron(), data(40, 1), data(30, 2), **QUICK)
    assert [point.loss for point in found.points] == [point.loss for point in expected.points]


def test_batches_that_cannot_be_joined_stay_as_they_are():
    inputs, labels = data(40, 1)
    train = [(inputs[i : i + 8, None].expand(8, 2 + i, 7), labels[i : i + 8]) for i in range(0, 40, 8)]
    held = [(value[0][:, None], value[1]) for value in (data(30, 2), data(10, 3))]
    found = tune_rates(Pooled(), train, [(held[0][0], held[0][1]), (held[1][0].expand(10, 3, 7), held[1][1])], **QUICK)
    assert found.constant is None
    assert found.points[0].steps[0] <= 15


def test_repeats_are_seeds():
    one = tune_rates(perceptron(), data(40, 1), data(30, 2), **QUICK)
    two = tune_rates(perceptron(), data(40, 1), data(30, 2), repeats=2, **QUICK)
    assert two.cost.copies == 6
    assert [point.copies for point in two.points] == [2, 2, 2]
    assert [point.loss for point in one.points] != [point.loss for point in two.points]


def test_copies_that_diverge_are_said():
    fit = Fit(epochs=3, batch_size=16, optimizer="sgd", step_size=1e38, stop="last")
    found = tune_rates(perceptron(), data(40, 1), data(30, 2), fit=fit, scan=(0.0, 0.5), progress=False)
    assert found.verdict == "flat"
    assert [point.loss for point in found.points] == [None, None]
    assert "diverged" in str(found)
    assert json.loads(found.to_json())["points"][0]["loss"] is None


def test_results_are_data(tmp_path):
    found = tune_rates(perceptron(), data(40, 1), data(30, 2), split="factorial", **QUICK)
    assert Rates.from_dict(json.loads(found.to_json())).to_dict() == found.to_dict()
    assert Rates.load(found.save(tmp_path / "rates.json")) == Rates.from_dict(found.to_dict())
    text = str(found)
    assert found.verdict in text
    assert all(f"{rate:g}" in text for rate in RATES)
    found.plot().savefig(tmp_path / "rates.png")
    assert (tmp_path / "rates.png").stat().st_size > 1000
    with pytest.raises(ValueError, match="content"):
        Rates.from_dict({"schema": 1, "rates": {}})
    with pytest.raises(ValueError, match="content"):
        Rates.from_dict({})
    (tmp_path / "other.json").write_text("{")
    with pytest.raises(ValueError, match="path"):
        Rates.load(tmp_path / "other.json")
    with pytest.raises(ValueError, match="module must"):
        found.apply("net")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scan": (0.3,)}, "scan must hold at least two"),
        ({"scan": (0.3, 1.0)}, r"scan\[1\] must be a probability"),
        ({"scan": (0.3, math.nan)}, r"scan\[1\] must be a probability"),
        ({"split": "full"}, "split must be"),
        ({"sites": ["nowhere"]}, "sites: no site fits"),
        ({"groups": ["nowhere*"]}, "groups: no site fits"),
        ({"engine": "moon"}, "engine must be"),
        ({"population": "alone"}, "population must be"),
        ({"repeats": 0}, "repeats must be"),
        ({"guard": 0}, "guard must be"),
        ({"guard": 1}, "guard must be at least 2"),
        ({"loss": "hinge"}, "loss must be"),
        ({"fit": "adam"}, "fit must be"),
        ({"store": f"{__file__}/x"}, "store"),
        ({"validation": (torch.ones(3, 7), torch.zeros(3).long())}, "validation must hold at least 8"),
        ({"validation": (torch.ones(9, 6), torch.zeros(9).long())}, "validation: module or loss fail"),
        ({"validation": (torch.ones(9, 7), torch.full((9,), 7))}, "validation: module or loss fail"),
        ({"train": (torch.ones(9, 6), torch.zeros(9).long())}, "train: the forward pass"),
        ({"train": []}, "train: data must yield"),
        ({"train": (torch.full((9, 7), math.nan), torch.zeros(9).long())}, "train: input 0 of a batch must be finite"),
        ({"module": nn.Linear(7, 3)}, "module has no dropout"),
        ({"module": nn.Dropout(0.5)}, "module has no weights"),
        ({"module": "net"}, "module must be"),
    ],
)
def test_what_cannot_be_is_refused_by_name(options, message):
    given = {"module": perceptron(), "train": data(40, 1), "validation": data(30, 2)} | QUICK | options
    with pytest.raises(ValueError, match=message):
        tune_rates(given.pop("module"), given.pop("train"), given.pop("validation"), **given)


def test_too_many_sites_for_a_split_ask_for_groups():
    layers = [layer for _ in range(12) for layer in (nn.Linear(7, 7), nn.Dropout(0.1))]
    module = nn.Sequential(*layers, nn.Linear(7, 3))
    with pytest.raises(ValueError, match="groups: a split holds at most 11"):
        tune_rates(module, data(40, 1), data(30, 2), split="factorial", **QUICK)


def test_functions_that_no_other_process_can_find_are_refused():
    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(outputs, targets)

    with pytest.raises(ValueError, match=r"engine: .* cannot be sent"):
        tune_rates(perceptron(), data(40, 1), data(30, 2), loss, engine="processes:2", **QUICK)


def test_a_loss_that_knows_means_only_is_asked_per_example():
    def mean(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(outputs, targets)

    found = tune_rates(perceptron(), data(40, 1), data(30, 2), mean, **QUICK)
    expected = tune_rates(perceptron(), data(40, 1), data(30, 2), **QUICK)
    for ours, theirs in zip(found.points, expected.points, strict=True):
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-4)
        assert ours.error == pytest.approx(theirs.error, rel=1e-3)


def test_the_best_constant_is_that_of_the_validation_data():
    """Per place the frequencies of its labels, whose loss is their entropy, however few the training targets are."""
    draw = torch.Generator().manual_seed(1)
    inputs, labels = torch.randn(300, 2, 3, generator=draw), torch.randint(5, (300, 2), generator=draw)
    module = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 5))
    pairs = (inputs[:12], labels[:12]), (inputs[12:], labels[12:])
    found = tune_rates(module, *pairs, fit=Fit(epochs=1), scan=(0, 0.5), progress=False)
    shares = nn.functional.one_hot(labels[12:], 5).double().mean(0)
    entropy = -(shares * shares.log()).sum(1).mean()
    assert found.constant == pytest.approx(float(entropy), rel=1e-6)  # a minimum: slopes of 1e-5 leave 1e-10
    assert found.verdict == "flat"
