"""Objectives of adversarial training: their values, what they descend on, and the alarm of single-step attacks."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest
import torch
from torch.nn import functional

from droptics.attacks import Fgsm, Pgd, Reflected, Threat, attack
from droptics.data import Sample
from droptics.losses import CrossEntropy, Logistic
from droptics.masks import Bernoulli
from droptics.models import DeepLinear, ReLUNet
from droptics.penalties import risk
from droptics.training import (
    Adversarial,
    CatastrophicOverfitting,
    Checkpoint,
    Dropout,
    Free,
    Penalized,
    Plain,
    Recording,
    train,
)
from droptics.training.adversarial import _attacked, _misled
from droptics.training.draws import Stream
from droptics.training.objectives import StepData


def rng(seed):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=rng(seed), dtype=torch.float64)


def classes(count=60, seed=0):
    inputs = torch.rand(count, 6, dtype=torch.float64, generator=rng(seed))
    return Sample(inputs, (3 * inputs[:, 0]).long().clamp(0, 2))


def network(*lead):
    shapes = ((12, 6), (3, 12))
    return ReLUNet(
        [torch.randn(*lead, *shape, generator=rng(i), dtype=torch.float64) / 3 for i, shape in enumerate(shapes)]
    )


@pytest.mark.parametrize("weights", [None, torch.arange(60).double() % 7])
def test_consistency_adds_the_divergence_of_the_predictions(weights):
    """Against torch's own cross-entropy and divergence at the points of the attack, by the weights of the examples."""
    net, data, threat = network(), classes(), Threat("linf", 0.1, (0, 1))
    method = Fgsm()
    objective = Adversarial(threat, method, consistency=3.0)
    batch = StepData(data.inputs, data.targets, weights)
    points = attack(net, data, threat, method).inputs
    clean, moved = net.outputs(data.inputs), net.outputs(points)
    apart = functional.kl_div(moved.log_softmax(1), clean.softmax(1), reduction="none").sum(1)
    each = functional.cross_entropy(clean, data.targets, reduction="none") + 3 * apart
    expected = each.mean() if weights is None else each @ weights / weights.sum()
    value = objective.value(lambda x, multipliers=None: net.outputs(x), batch)
    assert float(value) == pytest.approx(float(expected), rel=1e-12)
    assert "consistency 3.0" in objective.describe()


def test_consistency_of_one_output_is_that_of_two_classes():
    weight = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    inputs = torch.tensor([[0.3, 0.1], [-0.2, 0.4]], dtype=torch.float64)
    batch = StepData(inputs, torch.tensor([[1.0], [-1.0]], dtype=torch.float64))
    threat = Threat("linf", 0.05)
    objective = Adversarial(threat, Fgsm(Logistic()), Logistic(), consistency=1.0)
    value = objective.value(lambda x, multipliers=None: x @ weight.mT, batch)
    clean = inputs @ weight.mT
    moved = clean - 0.05 * 3 * batch.targets  # a step of the radius costs radius * ||w||_1 of margin
    p, q = clean.sigmoid(), moved.sigmoid()
    apart = (p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()).mean()
    expected = functional.softplus(-clean * batch.targets).mean() + apart
    assert float(value) == pytest.approx(float(expected), rel=1e-9)


def algorithm1(weight, batches, radius, size, box, step=0.3):  # Shafahi et al. 2019, two replays
    """Free training of a linear scorer by torch's own gradients."""
    move = None
    for inputs, targets in batches:
        move = torch.zeros_like(inputs) if move is None else move
        for _ in range(2):
            weight, move = weight.detach().requires_grad_(), move.detach().requires_grad_()
            points = inputs + move if box is None else torch.clamp(inputs + move, *box)
            functional.softplus(-targets * (points @ weight.mT)).mean().backward()
            weight = weight - size * weight.grad
            climbed = move + step * move.grad.sign()
            move = climbed.clamp(-radius, radius)
    return weight.detach()


@pytest.mark.filterwarnings("ignore::droptics.training.CatastrophicOverfitting")  # three examples say little
@pytest.mark.parametrize("box", [None, (0.0, 1.0)])
@pytest.mark.parametrize("batch_size", [None, 3])
def test_free_training_is_algorithm_1_with_what_batches_hand_on(batch_size, box):
    weight = torch.tensor([[0.5, -1.0, 2.0]], dtype=torch.float64)
    inputs = torch.rand(7, 3, dtype=torch.float64, generator=rng(1))
    data = Sample(inputs, (inputs[:, :1] - 0.5).sign())
    objective = Free(Threat("linf", 0.4, box), replays=2, step=0.3, loss=Logistic())
    options = {"steps": 5, "step_size": 0.5, "frozen": (1,), "record": ("risk",), "batch_size": batch_size}
    run = train(DeepLinear([weight, torch.ones(1, 1).double()]), data, objective, **options)
    if batch_size is None:
        batches = [(data.inputs, data.targets)] * 5
    else:
        draws = Stream(data, objective, (0,), batch_size, torch.device("cpu")).next(5)
        seen = [draws.at(step, None, False) for step in range(5)]
        batches = [(batch.inputs, batch.targets) for batch in seen]
        assert not torch.equal(seen[0].inputs, seen[1].inputs)
    expected = algorithm1(weight, batches, 0.4, 0.5, box)
    torch.testing.assert_close(run.model.weights[0], expected, rtol=1e-12, atol=1e-14)
    start = DeepLinear([weight, torch.ones(1, 1).double()])
    first = Sample(*batches[0])
    options |= {"steps": 1, "record": Recording(("risk",), at=(0, 1))}
    told = train(start, data, objective, **options).history["loss"][-1]
    torch.testing.assert_close(told.double().cpu(), risk(start, first, Logistic()).double(), rtol=1e-12, atol=0)


@pytest.mark.filterwarnings("ignore::droptics.training.CatastrophicOverfitting")
@pytest.mark.parametrize("box", [None, (-0.3, 0.6), (0.2, 3.0)])
def test_free_inputs_climb_by_the_radius_within_any_box(box):
    weight, inputs = torch.tensor([[0.5, -1.0, 2.0]], dtype=torch.float64), 2 * randn(7, 3) - 0.5
    inputs = inputs if box is None else inputs.clamp(*box)
    data = Sample(inputs, (inputs[:, :1] - 0.1).sign())
    objective = Free(Threat("linf", 0.4, box), replays=2, loss=Logistic())
    start = DeepLinear([weight, torch.ones(1, 1).double()])
    run = train(start, data, objective, steps=4, step_size=0.5, frozen=(1,), record=("risk",))
    expected = algorithm1(weight, [(data.inputs, data.targets)] * 4, 0.4, 0.5, box, step=0.4)
    torch.testing.assert_close(run.model.weights[0], expected, rtol=1e-12, atol=1e-14)


def test_killed_free_training_resumes_with_what_the_last_batch_handed_on(tmp_path, monkeypatch):
    monkeypatch.setattr("droptics.training.draws.AHEAD", 100)

    def go(limit, checkpoint):
        seen = []

        def watch(model):
            seen.append(1)
            if len(seen) > limit:
                raise KeyboardInterrupt
            return model.weights[0].sum()

        recording = Recording({"w": watch}, at=range(0, 61, 10))
        objective = Free(Threat("linf", 0.1, (0, 1)), replays=2)
        options = {"steps": 60, "step_size": 0.5, "batch_size": 5, "record": recording, "checkpoint": checkpoint}
        return train(network(), classes(), objective, **options)

    undisturbed = go(99, None)
    file = Checkpoint(tmp_path / "free.safetensors", seconds=0.0)
    with pytest.raises(KeyboardInterrupt):
        go(4, file)
    resumed = go(99, file)
    assert torch.equal(resumed.history["w"], undisturbed.history["w"])


@pytest.mark.parametrize("batch_size", [None, 16])
def test_a_batch_of_free_runs_equals_separate_runs(batch_size):
    data, both = classes(), network(2)
    objective = Free(Threat("linf", 0.1, (0, 1)), replays=3)
    options = {"steps": 10, "batch_size": batch_size, "record": ("risk",)}
    together = train(both, data, objective, step_size=[0.3, 0.1], seed=[4, 9], **options)
    for run, (size, seed) in enumerate(((0.3, 4), (0.1, 9))):
        alone = train(ReLUNet([w[run] for w in both.weights]), data, objective, step_size=size, seed=seed, **options)
        for ours, theirs in zip(alone.model.tensors, together.model.tensors, strict=True):
            torch.testing.assert_close(ours, theirs[run], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", ["fast", "free", "consistent"])
def test_each_variant_hardens_and_resumes(kind, tmp_path):
    data, threat = classes(200), Threat("linf", 0.08, (0, 1))
    objective = {
        "fast": Adversarial.fast(threat),
        "free": Free(threat, replays=2),
        "consistent": Adversarial(threat, Pgd(steps=4, stop="never"), consistency=4.0),
    }[kind]
    options = {"steps": 400, "step_size": 0.5, "batch_size": 40, "record": ("risk",)}
    judge = Pgd(steps=20)
    plain, robust = (train(network(), data, goal, **options).model for goal in (Plain(CrossEntropy()), objective))
    fooled = [float(attack(net, data, threat, judge).losses.mean()) for net in (plain, robust)]
    assert fooled[1] < fooled[0]
    file = tmp_path / "run.safetensors"
    short = train(network(), data, objective, checkpoint=file, **options | {"steps": 400})
    assert all(torch.equal(a, b) for a, b in zip(short.model.tensors, robust.tensors, strict=True))
    again = train(network(), data, objective, checkpoint=file, **options)
    assert all(torch.equal(a, b) for a, b in zip(again.model.tensors, robust.tensors, strict=True))


def test_a_model_that_misleads_single_steps_raises_the_alarm():
    inputs = torch.zeros(20, 1, dtype=torch.float64)
    batch = StepData(inputs, torch.ones(20, 1, dtype=torch.float64))

    def bumpy(points, multipliers=None):  # wrong between 0.46 and 0.7 only; one long step passes over it to the far end
        return torch.where(points.abs() < 0.7, 0.45 - (points + 0.01).abs(), 1.0 + 0.0 * points)

    threat = Threat("linf", 1.0)
    method = Pgd(Logistic(), steps=1, step=2.0, start="random", stop="never")
    said = _misled(bumpy, batch, threat, method)
    assert "100% of the batch are wrong under 10 steps" in said
    assert not _misled(lambda x, multipliers=None: 0.5 - x, batch, threat, method)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_one_step_is_one_pass_and_ends_where_it_leads(norm):
    data, net, threat = classes(), network(), Threat(norm, 0.05, (0, 1))
    objective, passes = Adversarial.fast(threat), []

    def forward(points, multipliers=None):
        passes.append(len(points))
        return net.outputs(points)

    batch = StepData(data.inputs, data.targets, generators=(torch.Generator().manual_seed(3),))
    found = _attacked(forward, batch, threat, objective.method, batch.generators)
    assert len(passes) == 1
    start = threat.around(data.inputs).random(torch.Generator().manual_seed(3)).requires_grad_()
    functional.cross_entropy(net.outputs(start), data.targets, reduction="sum").backward()
    move = start.grad.sign() if norm == "linf" else start.grad / start.grad.norm(dim=1, keepdim=True)
    ahead = start.detach() + 1.25 * 0.05 * move - data.inputs
    short = (
        ahead.clamp(-0.05, 0.05) if norm == "linf" else ahead * (0.05 / ahead.norm(dim=1, keepdim=True)).clamp_max(1)
    )
    torch.testing.assert_close(found, (data.inputs + short).clamp(0, 1), rtol=0, atol=1e-12)


def test_a_reflected_loss_is_climbed_and_not_minimized():
    objective = Adversarial.fast(Threat("linf", 0.1), Reflected(CrossEntropy()))
    assert objective.method.loss == Reflected(CrossEntropy())
    assert objective.loss == CrossEntropy()


def test_train_warns_at_a_record(monkeypatch):
    data, threat = classes(), Threat("linf", 0.1, (0, 1))
    monkeypatch.setattr("droptics.training.adversarial._MISLED", -1.0)
    with pytest.warns(CatastrophicOverfitting, match="at step 1 "):
        train(network(), data, Adversarial.fast(threat), steps=1, step_size=0.1, record=("risk",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(network(), data, Adversarial(threat, Pgd(steps=2, stop="never")), steps=5, step_size=0.1)


@pytest.mark.parametrize("lead", [(), (2,)], ids=["a run", "two runs"])
@pytest.mark.parametrize(
    "objective",
    [Adversarial.fast(Threat("linf", 0.05, (0, 1))), Dropout(Bernoulli(0.5, 18), CrossEntropy(), per="step")],
    ids=["attacked", "masked"],
)
def test_half_precision_trains_nearly_the_same_network(objective, lead):
    """bfloat16 keeps eight bits: after a few steps of size s the weights differ by little more than s * 2^-8 each."""
    data = Sample(classes().inputs.float(), classes().targets)
    start = ReLUNet([w.float() for w in network(*lead).weights])
    full, half = (
        train(start, data, objective, steps=5, step_size=0.1, precision=kind).model for kind in ("full", "bfloat16")
    )
    gap = max(float((a - b).abs().max()) for a, b in zip(full.tensors, half.tensors, strict=True))
    moved = max(float((a - b).abs().max()) for a, b in zip(full.tensors, start.tensors, strict=True))
    assert 0 < gap < moved / 4
    assert all(tensor.dtype == torch.float32 for tensor in half.tensors)


def test_half_precision_is_refused_where_nothing_is_rounded():
    data = Sample(torch.rand(8, 2), torch.rand(8, 1))
    model = DeepLinear([torch.rand(3, 2), torch.rand(1, 3)])
    with pytest.raises(ValueError, match="precision"):
        train(model, data, Penalized(Bernoulli(0.5, 3)), steps=1, step_size=0.1, precision="bfloat16")


def test_training_without_attacks_does_not_load_them():
    code = "import sys, droptics.training; print('droptics.attacks' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["False"]
