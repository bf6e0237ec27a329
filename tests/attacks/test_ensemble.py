"""Robust accuracy: the worst of all attacks, resumed runs, warnings that are earned, randomness that is averaged."""

from __future__ import annotations

import copy
import itertools
import json
from dataclasses import replace

import pytest
import torch
from attacked import Noisy, Quantized, affine_scorer, classifier
from torch import nn

from droptics.attacks import (
    Apgd,
    Averaged,
    Dlr,
    Fab,
    Fgsm,
    LinearExact,
    Margin,
    Pgd,
    Square,
    Threat,
    attack,
    ensemble,
    robust_accuracy,
    standard_attacks,
)
from droptics.data import Sample
from droptics.losses import CrossEntropy, Logistic
from droptics.masks import Bernoulli, Gaussian, Product
from droptics.models import LastLayer, ReLUNet, TwoLayerLinear

THREAT = Threat("linf", 0.03, (0, 1))
SHORT = [Pgd(Margin(), steps=10), Apgd(steps=10), Fab(steps=5), Square(queries=20)]


def test_it_is_the_worst_case_over_its_attacks():
    net, data = classifier()
    result = robust_accuracy(net, data, THREAT, SHORT)
    single = [attack(net, data, THREAT, method).success for method in SHORT]
    assert int((result.found_by == len(SHORT)).sum()) <= int((~torch.stack(single).any(0)).sum()) + 1
    assert sum(stage.found for stage in result.stages) == int(((result.found_by >= 0) & (result.found_by < 4)).sum())
    assert next(stage.attacked for stage in result.stages) == len(data)
    outputs = net(result.inputs).argmax(1)
    assert torch.equal(outputs != data.targets, result.found_by < len(SHORT)), "found where the point is wrong"
    assert float(result.robust.lower) <= float(result.robust) <= float(result.robust.upper)
    assert result.gradients > 0
    assert result.queries > 0


def test_affine_scorers_end_at_the_exact_answer():
    layer, data = affine_scorer()
    threat = Threat("linf", 0.05, (0, 1))
    exact = attack(layer, data, threat, LinearExact())
    result = robust_accuracy(layer, data, threat)
    assert float(result.robust) == pytest.approx(float(exact.robust_accuracy()), abs=1 / len(data))


def test_examples_wrong_from_the_start_are_counted_apart():
    net, data = classifier()
    targets = data.targets.clone()
    targets[:7] = (targets[:7] + 1) % 5
    result = robust_accuracy(net, Sample(data.inputs, targets), THREAT, SHORT[:1])
    assert int((result.found_by == -1).sum()) == 7
    assert float(result.clean) == pytest.approx(53 / 60)
    held = net(result.inputs).argmax(1) == targets
    assert 0 < int(held.sum()) < 53
    assert float(result.robust) == pytest.approx(int(held.sum()) / 60)
    accuracies = [result.to_dict()[f"{name}_accuracy"]["value"] for name in ("clean", "robust")]
    assert accuracies == pytest.approx([53 / 60, int(held.sum()) / 60])
    assert torch.equal(result.inputs[:7], data.inputs[:7])


def test_who_was_wrong_before_or_is_not_fooled_stays_where_it_was():
    """Also after a step that everybody takes."""
    net, data = classifier()
    targets = data.targets.clone()
    targets[:7] = (targets[:7] + 1) % 5
    result = robust_accuracy(net, Sample(data.inputs, targets), THREAT, [Fgsm(), SHORT[0]])
    stays = (result.found_by == -1) | (result.found_by == 2)
    assert torch.equal(result.found_by == -1, torch.arange(60) < 7)
    assert bool((result.found_by == 0).any())
    assert torch.equal((result.inputs == data.inputs).flatten(1).all(1), stays)


@pytest.mark.parametrize("end", [2, 5])  # in the first attack, which finds who is wrong as it is, and in the second
def test_a_run_that_broke_off_goes_on_to_the_same_result(tmp_path, monkeypatch, end):
    net, data = classifier()
    data = Sample(data.inputs, torch.where(torch.arange(60) % 9 == 0, (data.targets + 1) % 5, data.targets))
    whole = robust_accuracy(net, data, THREAT, SHORT, batch=25)
    path = tmp_path / "state.safetensors"
    calls, real = [], ensemble.verified

    def fails_late(*arguments, **options):
        calls.append(1)
        if len(calls) == end:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(ensemble, "verified", fails_late)
    with pytest.raises(KeyboardInterrupt):
        robust_accuracy(net, data, THREAT, SHORT, batch=25, checkpoint=path)
    monkeypatch.setattr(ensemble, "verified", real)
    resumed = robust_accuracy(net, data, THREAT, SHORT, batch=25, checkpoint=path)
    assert torch.equal(resumed.inputs, whole.inputs)
    assert torch.equal(resumed.found_by, whole.found_by)
    assert [(s.found, s.gradients, s.queries) for s in resumed.stages] == [
        (s.found, s.gradients, s.queries) for s in whole.stages
    ]
    with pytest.raises(ValueError, match="other data, threat or methods"):
        robust_accuracy(net, data, Threat("linf", 0.04, (0, 1)), SHORT, batch=25, checkpoint=path)
    other = copy.deepcopy(net)
    next(other.parameters()).data.view(-1)[0] += 1e-7  # no prediction differs
    for model in (other, nn.Sequential(net, nn.Softsign())):
        with pytest.raises(ValueError, match="another model"):
            robust_accuracy(model, data, THREAT, SHORT, batch=25, checkpoint=path)
    with pytest.raises(ValueError, match="another model"):
        robust_accuracy(lambda inputs: -net(inputs), data, THREAT, SHORT, batch=25, checkpoint=path)
    assert [item.name for item in tmp_path.iterdir()] == ["state.safetensors"]


def test_what_was_doubted_before_a_run_broke_off_is_told(tmp_path, monkeypatch):
    flat = nn.Linear(3, 2)
    nn.init.zeros_(flat.weight)
    with torch.no_grad():
        flat.bias.copy_(torch.tensor([1.0, 0.0]))
    data, path = Sample(torch.rand(10, 3), torch.zeros(10).long()), tmp_path / "state.safetensors"
    whole = robust_accuracy(flat, data, THREAT, [Pgd(steps=2)], batch=7)
    assert [doubt.split(" attacked")[0] for doubt in whole.warnings[:2]] == [
        "gradients vanish on 7 of 7",
        "gradients vanish on 3 of 3",
    ]
    calls, real = [], ensemble.verified

    def fails_late(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(ensemble, "verified", fails_late)
    with pytest.raises(KeyboardInterrupt):
        robust_accuracy(flat, data, THREAT, [Pgd(steps=2)], batch=7, checkpoint=path)
    monkeypatch.setattr(ensemble, "verified", real)
    assert robust_accuracy(flat, data, THREAT, [Pgd(steps=2)], batch=7, checkpoint=path).warnings == whole.warnings


def test_a_network_in_training_is_attacked_in_eval_mode_and_left_as_it_was(tmp_path):
    net, data = classifier()
    layers = nn.Sequential(net, nn.BatchNorm1d(5), nn.Dropout(0.5)).to(data.inputs)
    training, images = Unchained(layers).train(), data
    wanted = robust_accuracy(Unchained(copy.deepcopy(layers).eval()), images, THREAT, SHORT[:1], batch=25)
    before = copy.deepcopy(training.state_dict())
    for checkpoint in (None, tmp_path / "state.safetensors"):
        result = robust_accuracy(training, images, THREAT, SHORT[:1], batch=25, checkpoint=checkpoint)
        assert torch.equal(result.inputs, wanted.inputs)
        assert result.randomness is None
        assert result.warnings == wanted.warnings
        assert all(part.training for part in training.modules())
        for name, value in training.state_dict().items():
            assert torch.equal(value, before[name]), name


def test_work_and_time_of_a_stage_are_those_of_all_its_batches(monkeypatch):
    net, data = classifier()
    right = int((net(data.inputs).argmax(1) == data.targets).sum())
    monkeypatch.setattr(ensemble, "perf_counter", itertools.count().__next__)
    near = Threat("linf", 1e-7, (0, 1))
    steps, queries = robust_accuracy(net, data, near, [Pgd(steps=3), Square(queries=12)], batch=25).stages
    assert (steps.attacked, steps.gradients, steps.queries, steps.seconds) == (right, 3 * right, 0, 3)
    assert (queries.attacked, queries.gradients, queries.queries) == (right, 0, 12 * right)
    assert queries.seconds == -(-right // 25)


def test_the_default_spends_more_on_those_that_came_nearest(monkeypatch):
    net, data = classifier()
    asked, inner = [], ensemble._attacked

    def attacked(model, some, threat, method, index):
        result = inner(model, some, threat, method, index)
        asked.append((method, some, result))
        return result

    monkeypatch.setattr(ensemble, "_attacked", attacked)
    monkeypatch.setattr(ensemble, "standard_attacks", lambda outputs: [Pgd(steps=3), Fab(steps=2), Square(queries=5)])
    robust_accuracy(net, data, Threat("linf", 0.01, (0, 1)))
    (_, everyone, _), *_, (_, some, _), (_, rest, third), (last, few, _) = asked
    assert replace(last, start="input") == Apgd(Margin("every"), steps=20, restarts=4)
    assert {tuple(one.flatten().tolist()) for one in last.start.flatten(0, 1)} <= {
        tuple(one.flatten().tolist()) for one in data.inputs
    }, "from where other examples lie"
    assert len(everyone) == 60
    assert len(some) > len(few) == -(-int((~third.success).sum()) // 16)
    margins = torch.full((60,), torch.inf, dtype=torch.float64)
    for _, given, found in asked[:-1]:
        places = [int((data.inputs == one).flatten(1).all(1).nonzero()) for one in given.inputs]
        margins[places] = torch.minimum(margins[places], found.margins.double())
    chosen, left = (
        [int((data.inputs == one).flatten(1).all(1).nonzero()) for one in part]
        for part in (few.inputs, rest.inputs[~third.success])
    )
    assert float(margins[chosen].max()) <= min(float(margins[i]) for i in left if i not in chosen)


def test_a_perceptron_is_tried_from_more_points(monkeypatch):
    """Whatever mode it is in: it is attacked in eval mode."""
    _, data = classifier()
    net = nn.Sequential(nn.Flatten(), nn.Linear(98, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 5)).double()
    asked, inner = [], ensemble._run_stage
    monkeypatch.setattr(ensemble, "_run_stage", lambda *given: asked.append(given[3][1]) or inner(*given))
    monkeypatch.setattr(ensemble, "standard_attacks", lambda outputs: [Pgd(steps=3), Square(queries=5)])
    for model, restarts in ((net.train(), 8), (classifier()[0], 4)):
        asked.clear()
        robust_accuracy(model, data, Threat("linf", 0.01, (0, 1)))
        assert asked[-1] == Apgd(Margin("every"), steps=20, restarts=restarts)
    assert net.training


@pytest.mark.parametrize("given", [False, True])
def test_by_default_nine_classes_and_boundaries_are_for_the_nearest_half(given, monkeypatch):
    net, data = classifier()
    chosen = [
        Pgd(steps=3),
        Apgd(Dlr("every"), steps=20, start="random"),
        Fab(steps=20, candidates=2),
        Square(queries=5),
    ]
    asked, inner, stage = [], ensemble._attacked, ensemble._run_stage
    least = torch.full((len(data),), torch.inf, dtype=torch.float64)

    def run_stage(model, some, threat, number, store, batch):
        left, before = store[0].found_by >= number[0], len(asked)
        near = least[left].sort().values.tolist()
        stage(model, some, threat, number, store, batch)
        if len(asked) > before:
            asked[-1] += (int(left.sum()), near)

    def attacked(model, some, threat, method, place):
        rows = [int((data.inputs == one).flatten(1).all(1).nonzero()) for one in some.inputs]
        asked.append((method, rows, least[rows].sort().values.tolist()))
        result = inner(model, some, threat, method, place)
        least[rows] = torch.minimum(least[rows], result.margins.double())
        return result

    monkeypatch.setattr(ensemble, "_attacked", attacked)
    monkeypatch.setattr(ensemble, "_run_stage", run_stage)
    monkeypatch.setattr(ensemble, "standard_attacks", lambda outputs: chosen)
    robust_accuracy(net, data, Threat("linf", 0.01, (0, 1)), chosen if given else None)
    assert len(asked) == len(chosen) + (0 if given else 3), "one step of all, every class at once, and others"
    for method, rows, margins, left, near in asked if given else asked[2:]:
        part = 1 if given or method in (chosen[0], chosen[3]) else 16 if getattr(method, "restarts", 1) == 4 else 2
        assert len(rows) == -(-left // part)
        assert left > 16
        assert margins == near[: len(rows)]
    assert len(asked[0][1]) == len(data)


class Unchained(nn.Module):
    """A network of which only its forward pass is known."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, inputs):
        return self.inner(inputs)


@pytest.mark.parametrize("few", [10, 0])
def test_one_step_comes_first_and_every_class_at_once_where_it_leaves_few(few, monkeypatch):
    chain, data = classifier()
    net = Unchained(chain)
    threat = Threat("linf", 0.06, (0, 1))
    first = attack(net, data, threat, Fgsm(Margin("greedy")))
    left = (~first.success).nonzero().squeeze(1)
    assert 0 < len(left) <= 10
    asked, inner = [], ensemble._attacked

    def attacked(model, some, threat, method, place):
        asked.append((method, some))
        return inner(model, some, threat, method, place)

    monkeypatch.setattr(ensemble, "_attacked", attacked)
    monkeypatch.setattr(ensemble, "_MOST", few)
    result = robust_accuracy(net, data, threat)
    assert asked[0][0] == Fgsm(Margin("greedy"))
    assert torch.equal(asked[1][1].inputs, data.inputs[left])
    if few:
        assert replace(asked[1][0], start="input") == Pgd(Margin("every", 3), steps=10)
        assert torch.equal(asked[1][0].start, first.inputs[left]), "from where the step led"
        assert (result.stages[1].attacked, result.stages[1].seconds) == (0, 0)
    else:
        assert replace(asked[1][0], start="input") == Fgsm(Margin("greedy")), "one more step, where many are left"
        assert torch.equal(asked[1][0].start, first.inputs[left])
        assert (result.stages[2].attacked, result.stages[2].seconds) == (0, 0)
    asked.clear()
    flat = Sample(chain[:-1](data.inputs).detach(), data.targets)
    robust_accuracy(nn.Sequential(chain[-1]), flat, Threat("linf", 0.06))
    assert asked[0][0] == ensemble.standard_attacks(3)[0], "a perceptron has no such beginning"
    held = result.found_by == len(result.stages)
    assert torch.equal(result.inputs[held], data.inputs[held])
    assert bool((net(result.inputs).argmax(1) != data.targets)[~held].all())


def test_an_undefended_network_costs_few_passes():
    """Two to see whether it repeats itself, one with the gradient that leads away, and one to verify."""
    net, data = classifier()
    asked = []
    seen = nn.Sequential(nn.Identity(), net)
    seen[0].register_forward_hook(lambda module, given, found: asked.append(len(found)))
    result = robust_accuracy(seen, data, Threat("linf", 0.5, (0, 1)))
    assert float(result.robust) == 0
    assert result.stages[0].found == len(data)
    assert result.gradients == len(data)
    assert asked == [len(data)] * 4


def test_the_ratio_of_differences_is_tried_where_there_are_three_classes():
    tried = {count: [type(getattr(one, "loss", None)).__name__ for one in standard_attacks(count)] for count in (2, 3)}
    assert tried[3].count("Dlr") == 1
    assert tried[2] == [name for name in tried[3] if name != "Dlr"]


def test_hidden_gradients_are_named_and_broken():
    net, data = classifier()
    defence, threat = Quantized(net), Threat("linf", 0.1, (0, 1))
    methods = [Pgd(Margin(), steps=10), Square(queries=100)]
    result = robust_accuracy(defence, data, threat, methods)
    assert any("hides its gradients" in warning for warning in result.warnings)
    assert float(result.robust) < 0.7
    honest = robust_accuracy(net, data, threat, methods)
    assert not any("hides" in warning for warning in honest.warnings)


@pytest.mark.parametrize(("box", "named"), [((0, 1), True), ((-1, 0.01), True), ((0, 0.01), False)])
def test_a_wrong_normalization_is_named(box, named):
    """By the share of the whole box that the inputs take, wherever it begins."""
    net, data = classifier()
    small = Sample(data.inputs / 255, data.targets)
    result = robust_accuracy(net, small, Threat("linf", 0.001, box), SHORT[:1])
    assert any("normalization" in warning for warning in result.warnings) == named


def test_outputs_that_are_no_numbers_are_named():
    net, data = classifier()

    class Overflowing(nn.Module):
        def forward(self, inputs):
            return net(inputs) / (inputs.flatten(1).amax(1) <= 1.0)[:, None]

    threat = Threat("linf", 0.05)
    result = robust_accuracy(Overflowing(), data, threat, SHORT[:1])
    assert any("because the model returns NaN or infinity there" in warning for warning in result.warnings)
    assert not robust_accuracy(net, data, threat, SHORT[:1]).warnings


def test_random_networks_are_attacked_in_the_mean():
    net, data = classifier()
    before = torch.random.get_rng_state()
    defence = Noisy(net)
    result = robust_accuracy(defence, data, Threat("linf", 0.05, (0, 1)), [Pgd(Margin(), steps=20, stop="never")])
    assert torch.equal(torch.random.get_rng_state(), before), "no global random number is used up"
    assert result.randomness is not None
    assert not result.randomness.exact
    assert "the mean prediction over 16 masks, judged by 64 others." in str(result.randomness)
    assert any("random in eval mode" in warning for warning in result.warnings)
    fresh = Averaged.of(defence, draws=64, seed=2**21)
    wrong = fresh(result.inputs).argmax(1) != data.targets
    held = result.found_by == len(result.stages)
    assert not bool((wrong & held).any()), "what counts as robust is right by masks that nothing was chosen by"


def test_what_the_masks_of_the_attack_get_wrong_is_attacked_too():
    net, data = classifier()
    defence = Averaged.of(Noisy(net, drop=0.6), draws=2)  # two masks are often wrong where eight are right
    right = Averaged.of(defence.quiet, draws=8, seed=2**21)(data.inputs).argmax(1) == data.targets
    assert bool(((defence(data.inputs).argmax(1) != data.targets) & right).any())
    result = robust_accuracy(defence, data, Threat("linf", 0.02, (0, 1)), [Pgd(Margin(), steps=5, stop="never")])
    held = result.found_by == len(result.stages)
    assert bool(held.any())
    assert bool((result.inputs != data.inputs).flatten(1).any(1)[held].all()), "nobody is robust for want of an attack"


def test_an_attack_without_the_mean_is_given_the_same_methods(monkeypatch):
    net, data = classifier()
    asked = []
    inner = ensemble._attacked

    def attacked(model, some, threat, method, index):
        asked.append((isinstance(model, Averaged), method))
        return inner(model, some, threat, method, index)

    monkeypatch.setattr(ensemble, "_attacked", attacked)
    methods = [Pgd(Margin(), steps=2, stop="never"), Square(queries=5)]
    robust_accuracy(Averaged.of(Noisy(net), draws=3), data, Threat("linf", 0.001, (0, 1)), methods)
    assert [method for mean, method in asked if mean] == [method for mean, method in asked if not mean] == methods


def test_noise_that_fools_an_attack_is_not_robustness():
    net, data = classifier()

    class Jittery(nn.Module):
        def forward(self, inputs):
            clean = net(inputs)
            return clean + 3 * clean.std() * torch.randn_like(clean)

    with torch.random.fork_rng():
        torch.manual_seed(0)
        methods = [Pgd(Margin(), steps=20)]  # leaves as soon as an example looks fooled, which one draw does by luck
        result = robust_accuracy(Averaged.of(Jittery(), draws=24), data, Threat("linf", 0.05, (0, 1)), methods)
    assert result.randomness is not None
    assert result.randomness.overstated > 0.1
    assert any("only noise" in warning for warning in result.warnings)


def test_what_is_overstated_are_examples_that_the_mean_over_masks_had_right():
    """The mean is (f(0) + f(2 x)) / 2, f(x) = 2 - x - 6 relu(x - 1.2) + 26 relu(x - 1.9), by hand.

    At 1 it is -0.1, wrong from the start; f falls there, and the mean is 0.85 where an attack on f ends, at 1.05. At
    0.2 both are far from wrong; an attack on f fools it at 1.3 (0.1, and -0.25 at 1.35), where the mean is 5.6.
    """
    net = ReLUNet(
        [torch.ones(3, 1).double(), torch.tensor([[-1.0, -6.0, 26.0]]).double()],
        [-torch.tensor([0.0, 1.2, 1.9]).double(), torch.tensor([2.0]).double()],
    )
    mean = Averaged.of(net, Bernoulli(torch.tensor([0.5, 0.0, 0.0, 0.0]).double(), 4))
    inputs = torch.tensor([[1.0], [0.2], [1.3]]).double()
    assert torch.allclose(mean(inputs)[:, 0], torch.tensor([-0.1, 1.8, 5.6]).double(), atol=1e-6)
    for rows, clean, robust in (([0, 1, 2], 2 / 3, 2 / 3), ([0], 0.0, 0.0), ([0, 0, 1], 1 / 3, 1 / 3)):
        data = Sample(inputs[rows], torch.ones(len(rows)).double())
        result = robust_accuracy(mean, data, Threat("linf", 0.05), [Pgd(Logistic(), steps=5, stop="never")])
        assert (float(result.clean), float(result.robust)) == pytest.approx((clean, robust))
        assert result.found_by.tolist() == [-1 if row == 0 else 1 for row in rows]
        assert result.randomness is not None
        assert result.randomness.overstated == 0.0


def test_few_masks_are_summed_exactly():
    generator = torch.Generator().manual_seed(0)
    net = ReLUNet([torch.randn(4, 3, generator=generator).double(), torch.randn(3, 4, generator=generator).double()])
    masks = Product([Bernoulli(0.0, 3), Bernoulli(0.3, 4)])
    inputs = torch.rand(20, 3, generator=generator).double()
    mean = Averaged.of(net, masks)
    expected = sum(chance * net.outputs(inputs, row).softmax(-1) for row, chance in masks.atoms())
    assert mean.exact
    assert torch.allclose(mean(inputs).exp(), expected, rtol=1e-12)
    single = sum(chance * (net.outputs(inputs, row).argmax(-1) == 0).double().mean() for row, chance in masks.atoms())
    assert mean.single_accuracy(inputs, torch.zeros(20, dtype=torch.long)) == pytest.approx(float(single))
    data = Sample(inputs, mean(inputs).argmax(1).detach())
    result = robust_accuracy(mean, data, Threat("l2", 0.1), [Pgd(Margin(), steps=10)])
    assert result.randomness is not None
    assert "the mean prediction over all 16 masks." in str(result.randomness)
    assert mean.again(100, 5) is mean


def test_the_network_without_masks_is_the_one_that_was_given():
    """Not its mean over masks: after hidden units that are rectified, the outputs of the two differ."""
    generator = torch.Generator().manual_seed(0)
    net = ReLUNet([torch.randn(4, 3, generator=generator).double(), torch.randn(3, 4, generator=generator).double()])
    noisy, inputs = nn.Dropout(0.5), torch.rand(20, 3, generator=generator).double()
    for law in (Bernoulli(0.3, 7), Bernoulli(torch.tensor([0.0] * 3 + [0.4] * 4), 7)):
        mean = Averaged.of(net, law)
        assert mean.quiet is net
        assert not torch.allclose(mean(inputs), net.outputs(inputs).log_softmax(-1), atol=1e-3)
    assert Averaged.of(noisy, draws=2).quiet is noisy


def test_other_masks_say_who_is_fooled():
    """A point just across the boundary of the masks that it was found by may be on the right side of others."""
    torch.manual_seed(0)
    net, law = ReLUNet([torch.randn(11, 2), torch.randn(3, 11)], [torch.randn(11), torch.randn(3)]), Bernoulli(0.4, 13)
    inputs = torch.randn(60, 2)
    data, method = Sample(inputs, net.outputs(inputs).argmax(1)), Pgd(Margin("greedy"), steps=3, stop="never")
    random = Averaged.of(net, law, draws=3, seed=5)
    state = ensemble._Progress.begin(random, data)
    ensemble._run_stage(random, data, Threat("linf", 0.1), (0, method), (state, None), 60)
    own, others = (Averaged.of(net, law, draws=k, seed=seed) for k, seed in ((3, 0), (12, ensemble._OTHER_MASKS)))
    seen, wrong = (each(state.inputs).argmax(1) != data.targets for each in (own, others))
    assert not torch.equal(seen, wrong)
    assert torch.equal(state.found_by == 0, wrong)
    assert state.stages[0].found == int(wrong.sum())


@pytest.mark.parametrize("kind", [TwoLayerLinear, LastLayer])
def test_a_score_that_is_linear_in_its_masks_has_its_mean_in_closed_form(kind):
    generator = torch.Generator().manual_seed(0)
    units, law = 11, Bernoulli(0.4, 11)  # 2048 masks: too many to be listed
    module = nn.Sequential(nn.Linear(3, units), nn.Tanh(), nn.Linear(units, 1)).double()
    parts = [torch.randn(*shape, generator=generator).double() for shape in ((1, units), (3, units))]
    net = TwoLayerLinear(*parts) if kind is TwoLayerLinear else LastLayer.of(module)
    inputs = torch.rand(20, 3, generator=generator).double()
    mean = Averaged.of(net, law, draws=4)
    assert mean.exact
    with torch.no_grad():
        brute = sum(chance * net.outputs(inputs, row) for row, chance in law.atoms())
        torch.testing.assert_close(mean(inputs), brute.view(-1, 1), rtol=1e-11, atol=1e-12)
        assert not torch.allclose(mean.passes(inputs).mean(0), brute.view(-1, 1)), "four draws are not the mean"
    assert not Averaged.of(ReLUNet([torch.ones(11, 3).double(), torch.ones(1, 11).double()]), Bernoulli(0.4, 14)).exact
    data = Sample(inputs, mean(inputs).detach().squeeze(1).sign())
    result = robust_accuracy(mean, data, Threat("l2", 0.05), [Pgd(Margin(), steps=10)])
    assert result.randomness is not None
    assert "the mean prediction in closed form. A single random pass" in str(result).replace("\n", " ")


@pytest.mark.parametrize("kind", [TwoLayerLinear, LastLayer])
def test_several_outputs_have_no_mean_in_closed_form(kind):
    """The mean of the softmax over all masks is not the softmax of the mean."""
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(*shape, generator=generator).double() for shape in ((3, 4), (2, 4))]
    if kind is TwoLayerLinear:
        net = TwoLayerLinear(*parts)
    else:
        net = LastLayer.of(nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3)).double())
        with torch.no_grad():
            net.head.weight.copy_(2 * parts[0])
    law, inputs = Bernoulli(0.4, 4), torch.rand(6, 2, generator=generator).double()
    mean = Averaged.of(net, law)
    with torch.no_grad():
        brute = sum(chance * net.outputs(inputs, row).softmax(-1) for row, chance in law.atoms())
        torch.testing.assert_close(mean(inputs), brute.log(), rtol=0, atol=1e-12)
        assert not torch.allclose(brute, net.outputs(inputs).softmax(-1), atol=1e-3)
    assert mean.exact
    assert not mean.closed


def test_means_over_draws_do_not_depend_on_the_batch_and_follow_their_seed():
    net, data = classifier()
    module = nn.Sequential(*net[:-1], nn.Dropout(0.3), net[-1]).eval()
    mean = Averaged.of(module, draws=8)
    assert torch.allclose(mean(data.inputs)[10:13], mean(data.inputs[10:13]), rtol=1e-12)
    assert not torch.equal(mean(data.inputs), mean.again(8, 100)(data.inputs))
    assert not module[-2].training, "the module's own mode is left alone"
    many = Averaged.of(module, draws=1000)(data.inputs[:5]).exp()
    drawn = nn.functional.dropout(module[:-2](data.inputs[:5]).expand(10000, 5, -1), 0.3, True)
    expected = module[-1](drawn).softmax(-1)
    error = 4 * expected.std(0) / 1000**0.5
    assert bool(((many - expected.mean(0)).abs() <= 1.5 * error).all())
    score = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 1)).double()
    assert Averaged.of(score, draws=3)(torch.ones(4, 3).double()).shape == (4, 1)
    law = Product([Gaussian(0.5, 3), Gaussian(0.5, 2)])
    drawn_law = Averaged.of(ReLUNet([torch.ones(2, 3).double(), torch.ones(2, 2).double()]), law, draws=5)
    assert not drawn_law.exact
    assert drawn_law.again(7, 1)(torch.ones(2, 3).double()).shape == (2, 2)


def test_a_law_is_drawn_again_by_the_new_seed():
    law = Product([Gaussian(0.5, 3), Gaussian(0.5, 2)])
    network, points = ReLUNet([torch.rand(2, 3).double(), torch.eye(2).double()]), torch.ones(4, 3).double()
    again = [Averaged.of(network, law, draws=5).again(7, seed)(points) for seed in (1, 2)]
    for seed, found in zip((1, 2), again, strict=True):
        assert torch.equal(found, Averaged.of(network, law, draws=7, seed=seed)(points))
    assert not torch.equal(*again)


def test_results_are_written_for_people_and_programs(tmp_path):
    net, data = classifier()
    result = robust_accuracy(net, data, THREAT, SHORT)
    said = json.loads(result.to_json())
    assert said["examples"] == 60
    assert len(said["stages"]) == 4
    assert said["threat"]["norm"] == "linf"
    page = result.to_html(tmp_path / "page.html").read_text()
    assert "Pgd(Margin(&#39;nearest&#39;), steps=10)" in page
    assert "data:image/png" in page
    assert "robust accuracy" in str(result)
    assert "Square(queries=20)" in str(result)


def test_the_standard_ensemble_fits_the_outputs():
    assert not any(isinstance(method, Apgd) and isinstance(method.loss, Dlr) for method in standard_attacks(2))
    assert any(isinstance(method, Apgd) and isinstance(method.loss, Dlr) for method in standard_attacks(10))
    assert any(isinstance(method, Square) for method in standard_attacks(1))
    losses = [method.loss for method in standard_attacks(1) if isinstance(method, (Apgd, Pgd))]
    assert losses == [Logistic(), Margin(), Logistic()]
    losses = [method.loss for method in standard_attacks(2) if isinstance(method, (Apgd, Pgd))]
    assert losses == [Margin(candidates=3), Margin(), CrossEntropy()]


def test_bad_input_is_named(tmp_path):
    net, data = classifier()
    with pytest.raises(ValueError, match="methods"):
        robust_accuracy(net, data, THREAT, [])
    with pytest.raises(ValueError, match=r"checkpoint.*safetensors"):
        robust_accuracy(net, data, THREAT, SHORT, checkpoint=tmp_path / "state.bin")
    with pytest.raises(ValueError, match="masks"):
        Averaged.of(ReLUNet([torch.ones(2, 3), torch.ones(2, 2)]))
    with pytest.raises(ValueError, match="masks"):
        Averaged.of(net, Bernoulli(0.5, 3))
    with pytest.raises(ValueError, match="model"):
        Averaged.of(lambda x: x)


def test_outputs_at_the_inputs_and_the_mode_are_settled_once():
    """Two passes tell whether the network draws, one is that of the first attack; later ones know what it saw."""

    class Watched(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.clean, self.modes = inner, 0, 0

        def forward(self, inputs):
            self.clean += bool((inputs.flatten(1)[:, None] == images).all(2).any(1).all())
            return self.inner(inputs)

        def train(self, mode=True):
            self.modes += 1
            return super().train(mode)

    net, data = classifier()
    images = data.inputs.flatten(1)
    watched = Watched(net)
    methods = [Fgsm(), Apgd(CrossEntropy(), steps=2, start="random"), Square(queries=3), Apgd(start="random", steps=2)]
    result = robust_accuracy(watched, data, Threat("linf", 0.01, (0, 1)), methods)
    assert [stage.attacked > 0 for stage in result.stages] == [True] * 4
    assert watched.clean == 3
    assert watched.modes == 2, "while it is looked at, and for all attacks"
    assert watched.training
    again = robust_accuracy(net, data, Threat("linf", 0.01, (0, 1)), methods)
    assert torch.equal(again.found_by, result.found_by)


def test_layers_that_draw_nothing_are_looked_at_once(monkeypatch):
    net, data = classifier()
    seen, inner = [], nn.Tanh.forward

    def forward(self, inputs):
        seen.append(len(inputs))
        return inner(self, inputs)

    monkeypatch.setattr(nn.Tanh, "forward", forward)
    assert ensemble._looked_at(net, data) == (net, 5, [])
    assert seen == [1]
    other = Unchained(net)
    assert ensemble._looked_at(other, data) == (other, 5, [])
    assert seen[1:] == [60, 60]
    chain = nn.Sequential(nn.Flatten(), nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 7))
    monkeypatch.setattr(nn.ReLU, "forward", None)
    assert ensemble._looked_at(chain, data) == (chain, 7, []), "its last layer says how many outputs it has"
