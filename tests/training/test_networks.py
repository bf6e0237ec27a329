"""Training of real networks' last layers, of lazy ReLU networks, and against attacks."""

import math
import os
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional

from droptics.attacks import Fgsm, Pgd, Threat
from droptics.data import Sample
from droptics.losses import Logistic
from droptics.masks import Bernoulli, Block
from droptics.models import DeepLinear, LastLayer, ReLUNet
from droptics.penalties import criterion
from droptics.training import (
    Adversarial,
    Checkpoint,
    Dropout,
    Penalized,
    Plain,
    Recording,
    ResNet,
    SmallCnn,
    lazy_norm,
    lazy_start,
    train,
    train_lazy,
)
from droptics.training.networks import Residual, initialize
from droptics.training.objectives import StepData
from droptics.training.trainees import head_penalty, trainee_rule

WIDTH = 10


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count=12, channels=1, size=8):
    inputs = torch.randn(count, channels, size, size, generator=rng(1))
    labels = torch.arange(count) % 3
    return Sample(inputs, functional.one_hot(labels, 3).float())


def small_net(seed=0, norm=False):
    layers = [nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, WIDTH), nn.Linear(WIDTH, 3, bias=False)]
    if norm:
        layers.insert(2, nn.BatchNorm1d(16))
    net = nn.Sequential(*layers)
    with torch.no_grad():
        for i, parameter in enumerate(net.parameters()):
            if parameter.ndim == 2:
                parameter.copy_(torch.randn(parameter.shape, generator=rng(seed + i)) / math.sqrt(parameter.shape[1]))
            elif not norm or i != 2:  # the scale of the norm layer stays one
                parameter.zero_()
    return net


@pytest.mark.parametrize("make", [SmallCnn, ResNet])
@pytest.mark.parametrize(("channels", "size"), [(1, 28), (3, 32)])
def test_networks_end_with_the_reduced_layer(make, channels, size):
    net = make(channels=channels, outputs=10, width=80, base=4, seed=3)
    images = torch.randn(2, channels, size, size, generator=rng())
    last = LastLayer.of(net, "head")
    assert last.units == 80
    assert last.features(images).shape == (2, 80)
    assert (last.features(images) < 0).any()  # the reduced layer is not rectified
    assert net.head.bias is None
    torch.testing.assert_close(net(images), last.features(images) @ net.head.weight.mT)
    again = make(channels=channels, outputs=10, width=80, base=4, seed=3)
    assert torch.equal(net(images), again(images))
    other = make(channels=channels, outputs=10, width=80, base=4, seed=4)
    assert not torch.equal(net(images), other(images))
    torch.testing.assert_close(net(images)[:1], net(images[:1]))  # examples do not see each other


@pytest.mark.parametrize("law", [Block(0.4, WIDTH, 5), Bernoulli(0.3, WIDTH)])
def test_penalized_last_layer_is_the_criterion_and_the_mean_of_dropout(law):
    data = pictures()
    model = LastLayer.of(small_net())
    trainee = trainee_rule(model)
    batch = StepData(data.inputs, data.targets)
    value = trainee.penalized(Plain().loss, batch, law, None)
    torch.testing.assert_close(value.detach(), criterion(model, data, law).value.detach())
    mean = 0.0
    with torch.no_grad():
        for multipliers, probability in law.atoms():
            drawn = StepData(data.inputs, data.targets, None, multipliers.float())
            mean += probability * float(Dropout(law).value(trainee.forward, drawn))
    assert mean == pytest.approx(float(value.detach()), rel=1e-5)
    assert float(head_penalty(model.head, model.features(data.inputs), law).detach()) > 0


@pytest.mark.parametrize("law", [Block(0.4, WIDTH, 5), Bernoulli(0.3, WIDTH)])
def test_a_penalized_step_of_a_module_weighs_its_examples(law):
    """One step on all examples beside autograd on the weighted mean over all masks, in double precision."""
    shares = torch.tensor([5.0, *[0.1] * 6, *[1.0] * 5], dtype=torch.float64)
    few = pictures()
    data, net = Sample(few.inputs.double(), few.targets.double(), shares), small_net().double()
    run = train(LastLayer.of(net), data, Penalized(law), steps=1, step_size=0.1)
    parameters = list(net.parameters())
    features = net[:-1](data.inputs)
    errors = [
        chance * (net[-1](features * mask) - data.targets).square().sum(1) @ shares / shares.sum()
        for mask, chance in law.atoms()
    ]
    slopes = torch.autograd.grad(sum(errors), parameters)
    for new, old, slope in zip(run.model.module.parameters(), parameters, slopes, strict=True):
        torch.testing.assert_close(new, old - 0.1 * slope, rtol=1e-12, atol=1e-12)  # a thousand masks, sums of ones
    assert float(run.history["loss"][0]) == pytest.approx(float(sum(errors).detach()), rel=1e-12)


@pytest.mark.parametrize("kind", ["dropout", "penalized", "penalized batches"])
def test_last_layer_training_leaves_the_module_alone_and_descends(kind):
    data, net, law = pictures(), small_net(norm=True), Block(0.4, WIDTH, 5)
    net[4].train(False)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    modes = [part.training for part in net.modules()]
    run = train(
        LastLayer.of(net),
        data,
        Dropout(law) if kind == "dropout" else Penalized(law),
        steps=150,
        step_size=5e-3,
        batch_size=None if kind == "penalized" else 6,
        optimizer=torch.optim.Adam,
        record=Recording(("objective", "singular_values"), at=(0, 75)),
    )
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert [part.training for part in net.modules()] == modes
    assert not any(part._forward_pre_hooks for part in net.modules())
    assert float(run.final("objective")) < 0.6 * float(run.history["objective"][0])
    assert run.history["singular_values"].shape == (3, 3)
    assert run.model.module is not net
    assert all(parameter.grad is None for parameter in run.model.module.parameters())
    assert not torch.equal(run.model.module[2].running_mean, net[2].running_mean)


def test_killed_network_training_resumes_with_its_buffers(tmp_path):
    data, law = pictures(), Block(0.4, WIDTH, 5)

    def go(limit, checkpoint):
        seen = []

        def watch(model):
            seen.append(1)
            if len(seen) > limit:
                raise KeyboardInterrupt
            return model.head.weight.sum()

        return train(
            LastLayer.of(small_net(norm=True)),
            data,
            Dropout(law),
            steps=300,
            step_size=1e-2,
            batch_size=6,
            optimizer=torch.optim.Adam,
            record=Recording({"w": watch}, at=range(0, 301, 20)),
            checkpoint=checkpoint,
        )

    undisturbed = go(99, None)
    file = Checkpoint(tmp_path / "net.safetensors", seconds=0.0)
    with pytest.raises(KeyboardInterrupt):
        go(13, file)
    resumed = go(99, file)
    assert torch.equal(resumed.history["w"], undisturbed.history["w"])
    states = zip(
        resumed.model.module.state_dict().values(), undisturbed.model.module.state_dict().values(), strict=True
    )
    assert all(torch.equal(a, b) for a, b in states)


# --- lazy networks --------------------------------------------------------------------------------------------------


def sphere(count=40, inputs=6):
    points = torch.randn(count, inputs, dtype=torch.float64, generator=rng(5))
    points = points / points.norm(dim=1, keepdim=True)
    return Sample(points, points[:, :1].sign())


@pytest.mark.parametrize(("blocks", "base", "channels"), [((1, 1, 1), 16, [16, 32, 64]), ((2, 1), 4, [4, 4, 8])])
def test_channels_double_from_stage_to_stage_where_the_picture_halves(blocks, base, channels):
    stages = ResNet(blocks=blocks, base=base).stages
    assert [block.second.out_channels for block in stages] == channels
    halved = [2 if after > before else 1 for before, after in pairwise([base, *channels])]
    assert [block.first.stride[0] for block in stages] == halved


@pytest.mark.parametrize(("before", "after", "stride"), [(8, 8, 1), (8, 16, 2)])
def test_a_residual_block_adds_its_shortcut_before_the_last_rectifier(before, after, stride):
    block, value = Residual(before, after, stride), torch.randn(3, before, 6, 6, generator=rng(2))

    def normed(values):  # groups of four channels, at most eight
        parts = values.reshape(3, max(1, min(8, after // 4)), -1)
        parts = (parts - parts.mean(-1, keepdim=True)) / (parts.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
        return parts.reshape(values.shape)

    inner = normed(functional.conv2d(value, block.first.weight, stride=stride, padding=1)).clamp_min(0)
    added = normed(functional.conv2d(inner, block.second.weight, padding=1))
    short = value if stride == 1 else functional.conv2d(value, block.shortcut.weight, stride=stride)
    torch.testing.assert_close(block(value), (short + added).clamp_min(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [(28, 28), (9, 13)])
def test_the_strided_network_is_its_layers_one_after_the_other(size):
    """Single precision sums some hundred products of order one: 1e-5 of the largest output."""
    net, images = SmallCnn(2, 5, 7, 3, seed=4), torch.randn(3, 2, *size, generator=rng(1))
    value = images
    for layer in net.body:
        value = functional.conv2d(value, layer.weight, layer.bias, stride=2, padding=1).clamp_min(0)
    cuts = [(slice((side + 1) // 2), slice(side // 2, side)) for side in value.shape[-2:]]
    quarters = torch.stack([value[..., up, left].mean((-2, -1)) for up in cuts[0] for left in cuts[1]], -1)
    wanted = (quarters.flatten(1) @ net.reduce.weight.mT + net.reduce.bias) @ net.head.weight.mT
    torch.testing.assert_close(net(images), wanted, rtol=1e-5, atol=1e-5)


def test_the_residual_network_is_its_parts_one_after_the_other():
    """As above, beside the blocks themselves, which have a test of their own."""
    net, images = ResNet(2, 5, 7, (2, 1), 4, seed=4), torch.randn(3, 2, 9, 9, generator=rng(1))
    value = functional.conv2d(images, net.stem.weight, padding=1)
    flat = value.flatten(1)  # one group of all channels
    flat = (flat - flat.mean(1, keepdim=True)) / (flat.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    value = flat.reshape(value.shape).clamp_min(0)
    for block in net.stages:
        value = block(value)
    wanted = (value.mean((-2, -1)) @ net.reduce.weight.mT + net.reduce.bias) @ net.head.weight.mT
    torch.testing.assert_close(net(images), wanted, rtol=1e-5, atol=1e-5)
    assert [block.first.stride[0] for block in net.stages] == [1, 1, 2]


@pytest.mark.parametrize(("inputs", "width"), [(3, 700), (40, 9)])
def test_the_top_of_a_lazy_start_has_signs_over_the_root_of_the_width(inputs, width):
    first, top = lazy_start(inputs, width, seed=3).weights
    assert first.shape == (width, inputs)
    torch.testing.assert_close(top.abs(), torch.full((1, width), width**-0.5, dtype=torch.float64), rtol=1e-15, atol=0)
    assert 0 < int((top > 0).sum()) < width


def test_a_lazy_start_is_that_of_its_seed():
    starts = []
    for seed in (2, 2, 3):
        torch.rand(7)
        starts.append(lazy_start(4, 60, seed=seed))
    for one, other, third in zip(*(start.weights for start in starts), strict=True):
        assert torch.equal(one, other)
        assert not torch.equal(one, third)


def test_lazy_training_is_the_printed_algorithm():
    """One example, so that every step sees the same data; masks are read from the kept iterates."""
    width, steps, drop, radius = 12, 25, 0.4, 3.0
    start = lazy_start(6, width, seed=2)
    data = Sample(sphere().inputs[:1], torch.ones(1, 1, dtype=torch.float64))
    result = train_lazy(start, data, drop, steps=steps, step_size=0.9, max_norm=radius, keep=range(steps), seed=7)
    W, a = start.weights[0].clone(), start.weights[1][0] * math.sqrt(width)
    x, y = data.inputs[0], 1.0
    for t in range(steps):
        torch.testing.assert_close(result.run.iterates[t].model.weights[0], W, rtol=1e-12, atol=1e-13)
        farthest = max(math.dist(row, first) for row, first in zip(W.tolist(), start.weights[0].tolist(), strict=True))
        assert float(result.drift[t]) == pytest.approx(farthest, rel=1e-12, abs=1e-13)
        b = result.run.iterates[t].multipliers.flatten()[6:]
        assert set(b.tolist()) <= {0.0, 1.0}
        g = (a * b) @ torch.relu(W @ x) / math.sqrt(width)
        slope = -1 / (1 + torch.exp(y * g))
        W = W - 0.9 * slope * y * torch.outer(a * b * (W @ x >= 0), x) / math.sqrt(width)
        W = W * (radius / W.norm(dim=1, keepdim=True).clamp_min(radius))
    torch.testing.assert_close(result.model.weights[0], (1 - drop) * W, rtol=1e-12, atol=1e-13)
    assert torch.equal(result.model.weights[1], start.weights[1])
    assert float(W.norm(dim=1).max()) <= radius * (1 + 1e-12)
    assert float(start.weights[0].norm(dim=1).max()) > radius  # so the projection had something to do
    kept = result.run.iterates[-1].multipliers.flatten()[6:].sum()
    assert result.subnetworks[-1].weights[0].shape[0] == int(kept)


def test_every_kept_step_of_lazy_training_has_its_sub_network():
    """Also where the mask keeps no unit, which passes on nothing."""
    data, start = sphere(20), lazy_start(6, 2, seed=1)
    result = train_lazy(start, data, 0.8, steps=8, keep=range(8))
    kept = [iterate.multipliers.flatten()[6:] for iterate in result.run.iterates]
    assert any(not mask.any() for mask in kept)
    assert len(result.subnetworks) == len(result.steps) == 8
    for mask, iterate, sub in zip(kept, result.run.iterates, result.subnetworks, strict=True):
        hidden = torch.relu(data.inputs @ iterate.model.weights[0].mT) * mask
        torch.testing.assert_close(sub.outputs(data.inputs), hidden @ start.weights[1].mT, rtol=1e-12, atol=1e-13)
    with pytest.raises(ValueError, match="without biases"):
        train_lazy(ReLUNet(start.weights, [torch.ones(2).double(), None]), data, 0.5, steps=1)


def test_lazy_training_learns_and_rescaling_changes_no_sign():
    data = sphere(400)
    start = lazy_start(6, 200, seed=1)
    result = train_lazy(start, data, 0.5, steps=800, keep=(0, 799, 800))
    margins = result.model.outputs(data.inputs) * data.targets
    assert float((margins < 0).double().mean()) < 0.08
    assert float((start.outputs(data.inputs) * data.targets < 0).double().mean()) > 0.2
    torch.testing.assert_close(result.model.outputs(data.inputs), 0.5 * result.run.model.outputs(data.inputs))
    sub = result.subnetworks[-1]
    assert 70 < sub.weights[0].shape[0] < 130
    assert float((sub.outputs(data.inputs) * data.targets < 0).double().mean()) < 0.12
    assert result.drift[0] == 0
    assert result.drift[-1] > 0
    assert lazy_norm(6, 200) > float(start.weights[0].norm(dim=1).max())
    assert lazy_norm(9, 55) == pytest.approx(4 + 2 * math.sqrt(math.log(55)))
    assert lazy_norm(9, 1) == lazy_norm(9, 2) == pytest.approx(4 + 2 * math.sqrt(math.log(2)))
    with pytest.raises(ValueError, match="two-layer ReLUNet"):
        train_lazy(ReLUNet([torch.ones(2, 3), torch.ones(2, 2), torch.ones(1, 2)]), data, 0.5, steps=1)


def test_a_batch_of_lazy_runs_equals_separate_runs():
    data = sphere(40)
    starts = [lazy_start(6, 30, seed=seed) for seed in (1, 2)]
    both = ReLUNet([torch.stack([start.weights[i] for start in starts]) for i in range(2)])
    options = {"steps": 60, "step_size": 0.5, "keep": (0, 10, 60)}
    together = train_lazy(both, data, 0.4, seed=(7, 3), **options)
    assert together.drift.shape == (3, 2)
    for run, (start, seed) in enumerate(zip(starts, (7, 3), strict=True)):
        alone = train_lazy(start, data, 0.4, seed=seed, **options)
        torch.testing.assert_close(together.model.weights[0][run], alone.model.weights[0], rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(together.drift[:, run], alone.drift, rtol=1e-10, atol=1e-13)
        assert len(together.subnetworks) == len(alone.subnetworks) == 2
        for ours, theirs in zip(together.subnetworks, alone.subnetworks, strict=True):
            single = ReLUNet([weight[run] for weight in ours.weights])
            torch.testing.assert_close(single.outputs(data.inputs), theirs.outputs(data.inputs), rtol=1e-10, atol=1e-12)


# --- adversarial training -------------------------------------------------------------------------------------------


def test_adversarial_loss_of_a_linear_model_is_the_closed_form():
    """For a linear score the worst l_inf perturbation costs radius * ||w||_1 of margin, exactly."""
    data = sphere(30)
    model = DeepLinear(
        [torch.randn(4, 6, dtype=torch.float64, generator=rng(8)), torch.randn(1, 4, generator=rng(9)).double()]
    )
    radius = 0.1
    objective = Adversarial(Threat("linf", radius), Fgsm(Logistic()), Logistic())
    run = train(model, data, objective, steps=1, step_size=1e-3, record=("risk",))
    margin = (model.outputs(data.inputs) * data.targets).squeeze(1) - radius * model.matrix().abs().sum()
    assert float(run.history["loss"][0]) == pytest.approx(float(functional.softplus(-margin).mean()), rel=1e-12)


def test_adversarial_training_raises_robust_accuracy_and_resumes(tmp_path):
    data = sphere(120)
    threat = Threat("l2", 0.15)
    start = ReLUNet([torch.randn(20, 6, generator=rng(1)).double(), torch.randn(1, 20, generator=rng(2)).double() / 5])
    method = Pgd(Logistic(), steps=5, start="random", stop="never")
    options = {"steps": 100, "step_size": 0.3, "batch_size": 30, "record": ("risk",)}
    plain = train(start, data, Plain(Logistic()), **options)
    robust = train(start, data, Adversarial(threat, method, Logistic()), **options)

    def worst(model):
        trainee = trainee_rule(model)
        batch = StepData(data.inputs, data.targets, generators=(rng(3),))
        return float(Adversarial(threat, Pgd(Logistic(), steps=20), Logistic()).value(trainee.forward, batch).detach())

    assert worst(robust.model) < worst(plain.model)
    file = tmp_path / "robust.safetensors"
    saved = train(start, data, Adversarial(threat, method, Logistic()), checkpoint=file, **options)
    assert all(torch.equal(a, b) for a, b in zip(robust.model.tensors, saved.model.tensors, strict=True))


@pytest.mark.parametrize("batch_size", [None, 8])
@pytest.mark.parametrize("stop", ["never", "fooled"])
def test_a_batch_of_adversarial_runs_equals_separate_runs(batch_size, stop):
    data = sphere(20)
    weights = [torch.randn(3, 7, 6, generator=rng(1)).double(), torch.randn(3, 1, 7, generator=rng(2)).double() / 3]
    objective = Adversarial(Threat("l2", 0.15), Pgd(Logistic(), steps=4, start="random", stop=stop), Logistic())
    options = {"steps": 12, "batch_size": batch_size, "record": ("risk",)}
    both = train(ReLUNet(weights), data, objective, step_size=[0.3, 0.1, 0.2], seed=[5, 1, 8], **options)
    for run, (size, seed) in enumerate(((0.3, 5), (0.1, 1), (0.2, 8))):
        alone = ReLUNet([weight[run] for weight in weights])
        single = train(alone, data, objective, step_size=size, seed=seed, **options)
        for ours, theirs in zip(single.model.tensors, both.model.tensors, strict=True):
            torch.testing.assert_close(ours, theirs[run], rtol=1e-11, atol=1e-13)
        torch.testing.assert_close(single.history["loss"], both.history["loss"][:, run], rtol=1e-11, atol=1e-13)


@pytest.mark.skipif(not os.environ.get("DROPTICS_DATA"), reason="needs the image files named by DROPTICS_DATA")
@pytest.mark.parametrize("dataset", ["mnist", "cifar10"])
def test_last_layer_experiment_on_images_stays_above_its_bound(dataset):
    from droptics.papers.pal2020.image_experiments import last_layer_cell, last_layer_cells

    rows = last_layer_cell(**last_layer_cells("smoke")[dataset])
    values = [row["objective"] for row in rows if row["kind"] == "objective"]
    assert values[-1] < values[0]
    assert min(values) > rows[0]["bound"]
    assert len([row for row in rows if row["kind"] == "spectrum"]) == 10


def test_a_network_of_eight_layers_by_default():
    """The stem, two convolutions in each of three blocks, and the reduced layer; the head stands apart."""
    module = ResNet()
    deep = [layer for layer in module.modules() if isinstance(layer, nn.Conv2d) and layer.kernel_size == (3, 3)]
    assert (len(module.stages), len(deep) + 1) == (3, 8)


@pytest.mark.parametrize(("layer", "share"), [(nn.Linear(400, 300), 1.0), (nn.Conv2d(40, 30, 5), 2.0)])
def test_weights_are_drawn_with_a_variance_of_one_or_two_over_the_fan_in(layer, share):
    initialize(layer, 0)
    weight = layer.weight.detach()
    # the mean of n squares of normal numbers is off by five standard deviations, sqrt(2 / n) each, once in a million
    assert abs(float(weight.square().mean()) * weight[0].numel() / share - 1) < 5 * (2 / weight.numel()) ** 0.5
    assert not bool(layer.bias.any())
