"""Training against literal algorithms, exact expectations, separate runs and undisturbed runs."""

import math
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from systems import posix

from droptics.data import Entries, Measurements, Moments, Sample
from droptics.losses import Logistic, Squared
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, Product, SlidingBlock
from droptics.models import (
    Autoencoder,
    Connections,
    DeepLinear,
    Factorization,
    ReLUNet,
    TwoLayerLinear,
)
from droptics.penalties import criterion, risk
from droptics.training import (
    Checkpoint,
    Cosine,
    Diverged,
    Dropout,
    Inverse,
    MaxNorm,
    Penalized,
    Plain,
    Recording,
    Staircase,
    log_steps,
    train,
)
from droptics.training.descents import stacked
from droptics.training.exact import arrays, deep_gradients, layer_noise
from droptics.training.guards import Guard
from droptics.training.objectives import StepData, mean_loss
from droptics.training.trainees import Trainee

INPUTS, OUTPUTS, WIDTH, RUNS = 5, 3, 4, 3


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=rng(seed), dtype=dtype)


def population(dtype=torch.float64):
    """Anisotropic inputs, noisy targets: nothing in it is symmetric."""
    mix = randn(INPUTS, INPUTS, seed=1) / 2 + torch.eye(INPUTS).double()
    noise = randn(OUTPUTS, OUTPUTS, seed=2) / 5
    weights = randn(OUTPUTS, INPUTS, seed=3)
    xx = mix @ mix.T
    return Moments(xx, weights @ xx, weights @ xx @ weights.T + noise @ noise.T).to(dtype)


def sample(count=7, outputs=OUTPUTS, weighted=False):
    weights = torch.rand(count, generator=rng(6), dtype=torch.float64) if weighted else None
    return Sample(randn(count, INPUTS, seed=4), randn(count, outputs, seed=5), weights)


def two_layer(runs=None, seed=7, dtype=torch.float64):
    lead = () if runs is None else (runs,)
    return TwoLayerLinear(
        0.5 * randn(*lead, OUTPUTS, WIDTH, seed=seed, dtype=dtype),
        0.5 * randn(*lead, INPUTS, WIDTH, seed=seed + 1, dtype=dtype),
    )


LAWS = {
    "bernoulli": Bernoulli(torch.tensor([0.1, 0.5, 0.3, 0.0], dtype=torch.float64), WIDTH),
    "block": Block(0.4, WIDTH, 2),
    "sliding": SlidingBlock(0.2, WIDTH, 2),
    "gaussian": Gaussian(0.7, WIDTH),
}


def assert_same_model(left, right, tolerance=0.0):
    for a, b in zip(left.tensors, right.tensors, strict=True):
        scale = max(float(b.abs().max()), 1.0)
        assert float((a - b).abs().max()) <= tolerance * scale, (type(left).__name__, (a - b).abs().max())


# --- the printed algorithms, step by step ---------------------------------------------------------------------------


def one_example():
    data = Sample(randn(1, INPUTS, seed=11), randn(1, OUTPUTS, seed=12))
    return data, data.inputs[0], data.targets[0]


@pytest.mark.parametrize("engine", ["kernel", "torch"])
@pytest.mark.parametrize("convention", ["gradient", "mianjy2018", "pal2020"])
def test_step_conventions_are_the_printed_ones(engine, convention):
    keep, eta = 0.6, 0.03
    data, x, y = one_example()
    start = two_layer()
    run = train(
        start,
        data,
        Dropout(Bernoulli(1 - keep, WIDTH)),
        steps=1,
        step_size=eta,
        batch_size=1,
        seed=3,
        convention=convention,
        engine=engine,
        keep=(0,),
    )
    B = (run.iterates[0].multipliers.flatten() > 0).double()
    assert 0 < B.sum() < WIDTH  # both kinds of units are there, so the test can fail
    U, V = start.U, start.V
    res = U @ (B * (V.T @ x)) / keep - y
    factor = {"mianjy2018": 1.0, "pal2020": 1 / keep, "gradient": 2 / keep}[convention]
    expected = TwoLayerLinear(
        U - eta * factor * torch.outer(res, B * (V.T @ x)), V - eta * factor * torch.outer(x, B * (U.T @ res))
    )
    assert run.convention == convention
    assert run.engine == engine
    assert_same_model(run.model, expected, 1e-14)
    assert float(run.history["loss"][0]) == pytest.approx(float(res.square().sum()), rel=1e-13)


@pytest.mark.parametrize("engine", ["kernel", "torch"])
def test_tied_step_is_the_printed_one(engine):
    keep, eta = 0.5, 0.02
    data = Sample(randn(1, INPUTS, seed=11), randn(1, INPUTS, seed=12))
    start = Autoencoder(randn(INPUTS, WIDTH, seed=13))
    objective = Dropout(Bernoulli(1 - keep, WIDTH))
    run = train(
        start,
        data,
        objective,
        steps=1,
        step_size=eta,
        batch_size=1,
        seed=4,
        convention="mianjy2018",
        engine=engine,
        keep=(0,),
    )
    B = (run.iterates[0].multipliers.flatten() > 0).double()
    U, x, y = start.U, data.inputs[0], data.targets[0]
    res = U @ (B * (U.T @ x)) / keep - y
    expected = U - eta * (torch.outer(res, B * (U.T @ x)) + torch.outer(x, B * (U.T @ res)))
    assert_same_model(run.model, Autoencoder(expected), 1e-14)


def test_mianjy_convention_needs_one_rate():
    with pytest.raises(ValueError, match="one rate for all units"):
        train(
            two_layer(),
            population(),
            Dropout(LAWS["bernoulli"]),
            steps=1,
            step_size=0.1,
            batch_size=1,
            convention="mianjy2018",
        )


# --- the compiled kernel against the torch program on the same numbers ----------------------------------------------


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", ["moments", "sample", "weighted"])
def test_kernel_equals_torch_on_the_same_numbers(law, kind):
    data = population() if kind == "moments" else sample(weighted=kind == "weighted")
    options = {"steps": 60, "step_size": [0.003, 0.002, 0.001], "batch_size": 1, "seed": 5, "schedule": Inverse(30)}
    start = two_layer(RUNS)
    left = train(start, data, Dropout(LAWS[law]), engine="kernel", **options)
    right = train(start, data, Dropout(LAWS[law]), engine="torch", **options)
    third = train(start, data, Dropout(LAWS[law]), engine="products", **options)
    assert_same_model(third.model, right.model, 1e-12)
    torch.testing.assert_close(third.history["loss"], right.history["loss"], rtol=1e-11, atol=1e-12)
    assert left.engine == "kernel"
    assert right.engine == "torch"
    assert_same_model(left.model, right.model, 1e-12)
    for name in ("loss", "objective"):
        torch.testing.assert_close(left.history[name], right.history[name], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_kernel_equals_torch_at_every_width(width):
    start = TwoLayerLinear(0.5 * randn(2, OUTPUTS, width, seed=1), 0.5 * randn(2, INPUTS, width, seed=2))
    tied = Autoencoder(0.5 * randn(2, INPUTS, width, seed=3))
    for model, data in ((start, population()), (tied, Moments.of_map(randn(INPUTS, INPUTS, seed=4)))):
        for law in (Bernoulli(0.0, width), Bernoulli(0.5, width)):
            options = {"steps": 30, "step_size": 0.002, "batch_size": 1}
            left = train(model, data, Dropout(law), engine="kernel", **options)
            right = train(model, data, Dropout(law), engine="torch", **options)
            third = train(model, data, Dropout(law), engine="products", **options)
            assert_same_model(left.model, right.model, 1e-12)
            assert_same_model(third.model, right.model, 1e-12)


def test_kernel_equals_torch_tied_plain_and_float32():
    tied = Autoencoder(0.5 * randn(RUNS, INPUTS, WIDTH, seed=3))
    data = Moments.of_map(randn(INPUTS, INPUTS, seed=4))
    options = {"steps": 40, "step_size": 0.002, "batch_size": 1}
    for objective in (Dropout(LAWS["bernoulli"]), Plain()):
        left = train(tied, data, objective, engine="kernel", **options)
        right = train(tied, data, objective, engine="torch", **options)
        assert_same_model(left.model, right.model, 1e-12)
    single = two_layer(RUNS, dtype=torch.float32)
    left = train(single, population(torch.float32), Dropout(LAWS["block"]), engine="kernel", **options)
    right = train(single, population(torch.float32), Dropout(LAWS["block"]), engine="torch", **options)
    assert left.model.U.dtype == torch.float32
    assert_same_model(left.model, right.model, 40 * 32 * torch.finfo(torch.float32).eps)


# --- batches equal separate runs ------------------------------------------------------------------------------------


def families():
    deep = DeepLinear([0.6 * randn(RUNS, b, a, seed=20 + i) for i, (a, b) in enumerate([(5, 4), (4, 3), (3, 3)])])
    relu = ReLUNet(
        [randn(RUNS, WIDTH, INPUTS, seed=30), randn(RUNS, 1, WIDTH, seed=31)],
        [randn(RUNS, WIDTH, seed=32), randn(RUNS, 1, seed=33)],
    )
    factors = Factorization(randn(RUNS, 6, WIDTH, seed=34), randn(RUNS, 5, WIDTH, seed=35))
    entries = Entries(torch.tensor([0, 1, 2, 5]), torch.tensor([4, 0, 3, 1]), randn(4, seed=36), (6, 5))
    sensed = Measurements(randn(4, 6, 5, seed=37), randn(4, seed=38))
    rates = (0.2, 0.5, 0.3)
    per_run = [Bernoulli(rate, WIDTH) for rate in rates]
    deep_laws = [Product([Bernoulli(rate, 4), Block(rate, 3, 3)]) for rate in rates]
    relu_laws = [Product([Bernoulli(rate / 2, INPUTS), Bernoulli(rate, WIDTH)]) for rate in rates]
    signs = Sample(randn(7, INPUTS, seed=4), randn(7, 1, seed=5).sign())
    connect = [Bernoulli(rate, INPUTS * WIDTH) for rate in rates]
    return {
        "kernel": (two_layer(RUNS), population(), Dropout(per_run), 1),
        "two layers, batch": (two_layer(RUNS), population(), Dropout(per_run), 4),
        "tied": (Autoencoder(0.5 * randn(RUNS, 5, 4, seed=3)), Moments.of_map(randn(5, 5)), Dropout(per_run), 1),
        "one mask a step": (two_layer(RUNS), sample(), Dropout(per_run, per="step"), None),
        "connections": (Connections(*two_layer(RUNS).tensors), sample(), Dropout(connect), 2),
        "deep": (deep, population(), Dropout(deep_laws), 3),
        "deep, exact": (deep, population(), Penalized(deep_laws), None),
        "two layers, exact": (two_layer(RUNS), sample(), Penalized(per_run), None),
        "connections, exact": (Connections(*two_layer(RUNS).tensors), population(), Penalized(connect), None),
        "relu": (relu, signs, Dropout(relu_laws, Logistic()), 2),
        "completion": (factors, entries, Dropout(per_run), 2),
        "completion, exact": (factors, entries, Penalized(per_run), None),
        "sensing": (factors, sensed, Dropout(per_run), 2),
    }


def one(model, run):
    if isinstance(model, (DeepLinear, ReLUNet)):
        parts = [[tensor[run] for tensor in model.weights]]
        return type(model)(*parts, *([[bias[run] for bias in model.biases]] if isinstance(model, ReLUNet) else []))
    return type(model)(*(tensor[run] for tensor in model.tensors))


@pytest.mark.parametrize("name", families())
def test_a_batch_equals_separate_runs(name):
    model, data, objective, batch_size = families()[name]
    sizes, seeds = (0.002, 0.001, 0.0015), (8, 2, 5)
    options = {"steps": 12, "batch_size": batch_size, "record": ("risk",)}
    together = train(model, data, objective, step_size=sizes, seed=seeds, **options)
    moved = max(float((a - b).abs().max()) for a, b in zip(together.model.tensors, model.tensors, strict=True))
    assert moved > 1e-3
    for run in range(RUNS):
        law = objective.laws[run]
        own = Penalized(law) if isinstance(objective, Penalized) else Dropout(law, objective.loss, objective.per)
        alone = train(one(model, run), data, own, step_size=sizes[run], seed=seeds[run], **options)
        assert_same_model(one(together.model, run), alone.model, 0.0 if name in ("kernel", "tied") else 1e-13)
        torch.testing.assert_close(together.history["risk"][:, run], alone.history["risk"], rtol=1e-12, atol=1e-13)


def test_seed_counts_up_over_the_runs():
    start = two_layer()
    batch = TwoLayerLinear(*(tensor.expand(RUNS, *tensor.shape) for tensor in start.tensors))
    options = {"steps": 5, "step_size": 0.002, "batch_size": 1}
    together = train(batch, population(), Dropout(LAWS["block"]), seed=40, **options)
    assert together.seeds == (40, 41, 42)
    assert_same_model(
        one(together.model, 2), train(start, population(), Dropout(LAWS["block"]), seed=42, **options).model
    )
    assert not torch.equal(together.model.U[0], together.model.U[1])


@pytest.mark.parametrize("runs", [1, INPUTS, OUTPUTS, WIDTH])  # of as many rows as a weight that they share, too
@pytest.mark.parametrize("engine", ["torch", "auto"])
def test_runs_that_begin_with_weights_in_common_are_those_alone(runs, engine):
    U, V, deep = randn(runs, OUTPUTS, WIDTH, seed=1), randn(INPUTS, WIDTH, seed=2), randn(runs, WIDTH, INPUTS, seed=3)
    top, biases = randn(OUTPUTS, WIDTH, seed=4), (randn(WIDTH, seed=5), randn(1, OUTPUTS, seed=6))
    law = Product([Bernoulli(0.1, INPUTS), Bernoulli(0.3, WIDTH)])
    cases = (
        (TwoLayerLinear(U, V), lambda run: TwoLayerLinear(U[run], V), LAWS["block"]),
        (TwoLayerLinear(U, V[None]), lambda run: TwoLayerLinear(U[run], V), LAWS["block"]),
        (TwoLayerLinear(U[0], V.expand(runs, INPUTS, WIDTH)), lambda run: TwoLayerLinear(U[0], V), LAWS["block"]),
        (DeepLinear([V.mT, U]), lambda run: DeepLinear([V.mT, U[run]]), LAWS["block"]),
        (ReLUNet([deep, top], biases), lambda run: ReLUNet([deep[run], top], [biases[0], biases[1][0]]), law),
    )
    options = {"steps": 3, "step_size": 0.005, "batch_size": 1, "engine": engine, "record": ("risk",)}
    for together, alone, masks in cases:
        chosen = options if isinstance(together, TwoLayerLinear) else options | {"engine": "torch"}
        joint = train(together, sample(), Dropout(masks), seed=40, **chosen)
        for run in range(runs):
            single = train(alone(run), sample(), Dropout(masks), seed=40 + run, **chosen)
            assert_same_model(one(joint.model, run), single.model, 1e-13)
    bounds = train(cases[0][0], sample(), Penalized(LAWS["block"]), steps=1, step_size=1e-4, bound="certify").history
    single = train(cases[0][1](0), sample(), Penalized(LAWS["block"]), steps=1, step_size=1e-4, bound="certify").history
    torch.testing.assert_close(bounds["bound"][:, 0], single["bound"], rtol=1e-12, atol=0.0)


def test_records_of_a_single_run_that_diverged_are_infinite():
    names, start = ("risk", "singular_values"), two_layer()
    record = Recording(names, at=(0, 2, 4))
    run = train(start, sample(), Plain(), steps=4, step_size=1e150, diverging="freeze", record=record)
    assert run.diverged
    for name in (*names, "loss"):
        assert run.history[name][0].isfinite().all()
        assert torch.isposinf(run.final(name)).all()
    assert all(bool(tensor.isfinite().all()) for tensor in run.model.tensors)


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, partial(torch.optim.SGD, momentum=0.9), torch.optim.AdamW])
def test_step_sizes_per_run_hold_for_any_optimizer(optimizer):
    start, sizes = two_layer(RUNS), (0.003, 0.001, 0.002)
    options = {"steps": 15, "optimizer": optimizer}
    together = train(start, population(), Penalized(LAWS["block"]), step_size=sizes, **options)
    for run in range(RUNS):
        alone = train(one(start, run), population(), Penalized(LAWS["block"]), step_size=sizes[run], **options)
        assert_same_model(one(together.model, run), alone.model, 1e-12)


# --- exact gradients and exact expectations -------------------------------------------------------------------------


@pytest.mark.parametrize("mask_inputs", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_exact_deep_gradients_equal_autograd(depth, mask_inputs):
    sizes = [*[INPUTS, 4, 3, 4, 2][: depth + 1], OUTPUTS]
    weights = [randn(2, b, a, seed=50 + i) for i, (a, b) in enumerate(pairwise(sizes))]
    hidden = [Block(0.3, size, 2) if size == 4 else Bernoulli(0.4, size) for size in sizes[1:-1]]
    laws = [Bernoulli(0.2, INPUTS), *hidden] if mask_inputs else hidden
    leaves = [weight.clone().requires_grad_() for weight in weights]
    value = criterion(DeepLinear(leaves, mask_inputs), population(), Product(laws)).value
    wanted = torch.autograd.grad(value.sum(), leaves)
    noises = [layer_noise(law, weights[0]) for law in ([None, *hidden] if not mask_inputs else laws)]
    found, gradients = deep_gradients(population(), noises)(arrays(weights))
    torch.testing.assert_close(torch.as_tensor(found), value.detach(), rtol=1e-12, atol=1e-11)
    for left, right in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(torch.as_tensor(left), right, rtol=1e-11, atol=1e-11)


def test_linear_networks_descend_any_loss_without_masks():
    """By formula only squared loss; the gradients of others are those of automatic differentiation."""
    signs = torch.where(randn(7, 1, seed=5) > 0, 1.0, -1.0).double()
    data, (U, V) = Sample(randn(7, INPUTS, seed=4), signs), (randn(1, WIDTH, seed=7), randn(INPUTS, WIDTH, seed=8))
    for loss in (Logistic(), Squared()):
        found = train(TwoLayerLinear(U, V), data, Plain(loss), steps=3, step_size=0.1, seed=0).model
        wanted = TwoLayerLinear(U, V)
        for _ in range(3):
            leaves = [part.clone().requires_grad_() for part in wanted.tensors]
            slopes = torch.autograd.grad(risk(TwoLayerLinear(*leaves), data, loss), leaves)
            wanted = TwoLayerLinear(*(part - 0.1 * slope for part, slope in zip(wanted.tensors, slopes, strict=True)))
        assert_same_model(found, wanted, 1e-14)


@pytest.mark.parametrize("name", ["two layers, exact", "deep, exact", "completion, exact", "connections, exact"])
def test_penalized_step_is_the_mean_dropout_step(name):
    """Summed over all masks, the gradient under a mask is the gradient that Penalized steps along."""
    model, data, objective, _ = families()[name]
    if name == "connections, exact":  # few enough weights to list all masks of their connections
        model, data = (
            Connections(randn(RUNS, 2, 2, seed=1), randn(RUNS, 3, 2, seed=2)),
            Sample(randn(4, 3), randn(4, 2)),
        )
        objective = Penalized([Bernoulli(rate, 6) for rate in (0.2, 0.5, 0.3)])
    single, law = one(model, 1), objective.laws[1]
    stepped = train(single, data, Penalized(law), steps=1, step_size=1.0).model
    trainee = Trainee(single)
    whole = data.as_sample() if isinstance(data, Moments) else data
    total = torch.zeros((), dtype=torch.float64)
    for multipliers, probability in law.atoms():
        batch = StepData(whole.inputs, whole.targets, None, multipliers)
        total = total + probability * Dropout(law).value(trainee.forward, batch)
    total.backward()
    expected = [leaf.detach() - leaf.grad for leaf in trainee.leaves]
    for left, right in zip(stepped.tensors, expected, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-11, atol=1e-11)
    assert float(total.detach()) == pytest.approx(float(criterion(single, data, law)), rel=1e-12)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("batch_size", [1, 3])
def test_mean_stochastic_loss_is_the_deterministic_one(law, batch_size):
    """Losses of steps too small to move anything average to risk + penalty, within four standard errors."""
    steps, means = 4000 // batch_size // 100 * 100, 100
    run = train(
        two_layer(),
        sample(weighted=True),
        Dropout(LAWS[law]),
        steps=steps,
        step_size=1e-14,
        batch_size=batch_size,
        record=Recording((), at=range(0, steps + 1, steps // means)),
    )
    losses = run.history["loss"][1:]
    error = float(losses.std()) / math.sqrt(means)
    truth = float(criterion(two_layer(), sample(weighted=True), LAWS[law]))
    assert abs(float(losses.mean()) - truth) < 4 * error
    assert abs(float(risk(two_layer(), sample(weighted=True))) - truth) > 8 * error  # without the penalty it fails


def test_fresh_samples_have_the_moments_of_the_population():
    moments = population()
    steps, means = 4000, 100
    run = train(
        two_layer(),
        moments,
        Plain(),
        steps=steps,
        step_size=1e-14,
        batch_size=1,
        record=Recording((), at=range(0, steps + 1, steps // means)),
    )
    losses = run.history["loss"][1:]
    assert abs(float(losses.mean() - risk(two_layer(), moments))) < 4 * float(losses.std()) / math.sqrt(means)


# --- options --------------------------------------------------------------------------------------------------------


def test_decay_is_the_gradient_of_the_squared_norm_without_biases():
    net = ReLUNet([randn(WIDTH, INPUTS, seed=1), randn(1, WIDTH, seed=2)], [randn(WIDTH, seed=3), randn(1, seed=4)])
    data = sample(outputs=1)
    plain = train(net, data, Plain(), steps=1, step_size=0.1).model
    decayed = train(net, data, Plain(), steps=1, step_size=0.1, decay=0.5).model
    for a, b, start in zip(decayed.weights, plain.weights, net.weights, strict=True):
        torch.testing.assert_close(a, b - 0.1 * 0.5 * start, rtol=1e-13, atol=1e-13)
    for a, b in zip(decayed.biases, plain.biases, strict=True):
        assert torch.equal(a, b)
    pair = ReLUNet(*([torch.stack([part, -part]) for part in parts] for parts in (net.weights, net.biases)))
    both = train(pair, data, Plain(), steps=1, step_size=0.1, decay=0.5).model
    assert_same_model(one(both, 0), decayed, 1e-13)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 3.0), st.sampled_from([-1, -2]))
def test_max_norm_projects_and_leaves_short_vectors_alone(seed, radius, dim):
    before = randn(2, 4, 3, seed=seed)
    after = before.clone()
    MaxNorm(radius, dim=dim).project(after)
    norms = before.norm(dim=dim, keepdim=True)
    expected = torch.where(norms > radius, before * radius / norms, before)
    torch.testing.assert_close(after, expected, rtol=1e-14, atol=0)


def test_max_norm_holds_after_every_step_and_frozen_weights_stay():
    start = two_layer()
    run = train(
        start,
        population(),
        Dropout(LAWS["block"]),
        steps=20,
        step_size=0.05,
        batch_size=2,
        max_norm=MaxNorm(0.3, tensors=(1,), dim=-2),
        frozen=(0,),
        record=Recording({"largest": lambda model: model.V.norm(dim=-2).max()}, at=range(21)),
    )
    assert torch.equal(run.model.U, start.U)
    assert not torch.equal(run.model.V, start.V)
    assert float(run.history["largest"][1:].max()) <= 0.3 * (1 + 1e-12)
    assert run.engine == "torch"


def test_schedules():
    assert [Staircase(10, 0.5)(t) for t in (0, 9, 10, 25)] == [1, 1, 0.5, 0.25]
    assert Inverse(100)(0) == 1
    assert Inverse(100)(100) == 0.5
    assert [Inverse(4)(t) for t in (1, 2, 3, 12)] == [4 / 5, 4 / 6, 4 / 7, 1 / 4]
    assert Cosine(10)(0) == 1
    assert [Cosine(12)(t) for t in (3, 4, 6)] == pytest.approx([(1 + 0.5**0.5) / 2, 0.75, 0.5])
    assert Cosine(10)(10) == Cosine(10)(99) == pytest.approx(0, abs=1e-15)
    assert log_steps(1) == (0, 1)
    assert log_steps(1000, 1) == (0, 1000)
    assert log_steps(1000, 4) == (0, 1, 10, 100, 1000)
    assert log_steps(10**5, 100)[-1] == 10**5
    assert len(log_steps(10**5, 30)) <= 31
    start = two_layer()
    halved = train(start, population(), Penalized(LAWS["block"]), steps=2, step_size=0.02, schedule=Staircase(1, 0.5))
    first = train(start, population(), Penalized(LAWS["block"]), steps=1, step_size=0.02)
    second = train(first.model, population(), Penalized(LAWS["block"]), steps=1, step_size=0.01)
    assert_same_model(halved.model, second.model, 1e-15)


def test_lbfgs_reaches_a_stationary_point():
    run = train(
        two_layer(),
        population(),
        Penalized(LAWS["block"]),
        steps=60,
        step_size=1.0,
        optimizer=partial(torch.optim.LBFGS, line_search_fn="strong_wolfe"),
    )
    leaves = [tensor.clone().requires_grad_() for tensor in run.model.tensors]
    gradients = torch.autograd.grad(criterion(TwoLayerLinear(*leaves), population(), LAWS["block"]).value, leaves)
    assert max(float(g.abs().max()) for g in gradients) < 1e-4


def test_nothing_of_the_caller_changes():
    start = two_layer(RUNS)
    copies = [tensor.clone() for tensor in start.tensors]
    state = torch.get_rng_state()
    for engine in ("kernel", "torch"):
        train(start, population(), Dropout(LAWS["block"]), steps=5, step_size=0.001, batch_size=1, engine=engine)
    train(start, population(), Penalized(LAWS["block"]), steps=2, step_size=0.01)
    transposed = TwoLayerLinear(*(tensor.mT.contiguous().mT for tensor in copies))  # unit rows already in memory
    train(transposed, population(), Dropout(LAWS["block"]), steps=5, step_size=0.001, batch_size=1)
    assert torch.equal(torch.get_rng_state(), state)
    for tensor, moved, copy in zip(start.tensors, transposed.tensors, copies, strict=True):
        assert torch.equal(tensor, copy)
        assert torch.equal(moved, copy)
        assert not tensor.requires_grad


def test_the_first_loss_is_that_of_the_first_step():
    """Also where a kept model parts the steps before the first record after it."""
    start, data = two_layer(), Sample(randn(7, INPUTS, seed=3), randn(7, OUTPUTS, seed=4))
    run = train(start, data, Plain(), steps=3, step_size=0.01, keep=(1, 2), record=Recording(("risk",), at=(0, 3)))
    assert float(run.history["loss"][0]) == pytest.approx(float(risk(start, data)), rel=1e-12)
    assert float(run.history["loss"][1]) < float(run.history["loss"][0])


def test_runs_with_targets_of_their_own_are_weighed():
    outputs, targets, weights = randn(2, 4, 3), randn(2, 4, 3, seed=1), torch.tensor([1.0, 0.0, 5.0, 2.0]).double()
    found = mean_loss(Squared(), outputs, StepData(outputs, targets, weights))
    wanted = (outputs - targets).square().sum(2) @ weights / 8
    torch.testing.assert_close(found, wanted, rtol=1e-14, atol=0)


def test_records():
    start, law = two_layer(RUNS), Bernoulli(0.4, WIDTH)
    target = randn(OUTPUTS, INPUTS, seed=9)
    names = (
        "objective",
        "risk",
        "penalty",
        "imbalance",
        "importance_variance",
        "importance_spread",
        "singular_values",
        "distance",
    )
    run = train(
        start,
        population(),
        Dropout(law),
        steps=30,
        step_size=0.002,
        batch_size=1,
        record=Recording(names, at=(0, 10, 20), reference=target),
        bound=0.125,
    )
    history = run.history
    assert history["step"].tolist() == [0, 10, 20, 30]
    assert history["singular_values"].shape == (4, RUNS, OUTPUTS)
    torch.testing.assert_close(history["objective"], history["risk"] + history["penalty"])
    torch.testing.assert_close(run.final("objective"), criterion(run.model, population(), law).value)
    scores = run.model.U.norm(dim=-2) * (run.model.V * (population().xx @ run.model.V)).sum(-2).sqrt()
    torch.testing.assert_close(run.final("importance_variance"), scores.var(-1, correction=0))
    torch.testing.assert_close(run.final("distance"), (run.model.matrix() - target).flatten(1).norm(dim=1))
    assert history["bound"].shape == (4, RUNS)
    assert history["imbalance"].shape == (4, RUNS)
    assert bool((history["imbalance"] > 0).all())
    laws = [Bernoulli(rate, WIDTH) for rate in (0.2, 0.4, 0.6)]
    each = train(start, population(), Penalized(laws), steps=1, step_size=1e-3, record=("imbalance",))
    torch.testing.assert_close(each.history["imbalance"][0], history["imbalance"][0])  # it does not depend on the rate
    with pytest.raises(ValueError, match="names must be some of"):
        train(start, population(), Dropout(law), steps=1, step_size=0.1, record=("nonsense",))
    with pytest.raises(ValueError, match="reference"):
        train(start, population(), Dropout(law), steps=1, step_size=0.1, record=("distance",))
    with pytest.raises(ValueError, match="no masks"):
        train(start, population(), Plain(), steps=1, step_size=0.1, record=("penalty",))


@pytest.mark.parametrize("frozen", [0, 1])
def test_frozen_weights_stay_in_single_sample_steps_too(frozen):
    start, data = two_layer(), sample()
    for objective in (Plain(), Dropout(LAWS["bernoulli"])):
        run = train(start, data, objective, steps=5, step_size=0.02, batch_size=1, frozen=(frozen,))
        assert torch.equal(run.model.tensors[frozen], start.tensors[frozen])
        assert not torch.equal(run.model.tensors[1 - frozen], start.tensors[1 - frozen])


@pytest.mark.parametrize("per", ["example", "step"])
def test_examples_of_a_step_have_masks_of_their_own_or_share_one(per):
    start, data, law = two_layer(), sample(), Bernoulli(0.5, WIDTH)
    run = train(start, data, Dropout(law, per=per), steps=2, step_size=0.1, keep=(0, 1), seed=3)
    masks = run.iterates[0].multipliers
    drawn = masks.reshape(-1, WIDTH)
    assert len(drawn) == (len(data) if per == "example" else 1)
    assert set(drawn.unique().tolist()) == {0.0, 2.0}
    assert len(drawn.unique(dim=0)) > 1 or per == "step"
    leaves = [tensor.clone().requires_grad_() for tensor in start.tensors]
    hidden = (data.inputs @ leaves[1]) * drawn  # a shared mask is repeated for every example
    loss = (hidden @ leaves[0].T - data.targets).square().sum(1).mean()
    for tensor, slope, after in zip(
        start.tensors, torch.autograd.grad(loss, leaves), run.iterates[1].model.tensors, strict=True
    ):
        torch.testing.assert_close(after, tensor - 0.1 * slope)


def test_records_are_made_on_the_data_that_were_asked_for():
    start, law = two_layer(), LAWS["block"]
    other = Sample(randn(9, INPUTS, seed=4), randn(9, OUTPUTS, seed=5))
    for data in (other, Moments.of(other)):
        record = Recording(("risk", "objective"), at=(0, 3), data=data)
        run = train(start, population(), Dropout(law), steps=3, step_size=0.01, batch_size=1, record=record)
        for place, model in ((0, start), (-1, run.model)):
            errors = other.inputs @ model.matrix().T - other.targets
            torch.testing.assert_close(run.history["risk"][place], errors.square().sum(1).mean())
            torch.testing.assert_close(run.history["objective"][place], criterion(model, other, law).value)


def test_early_stop_on_a_certificate():
    law = Bernoulli(0.4, WIDTH)
    floor = float(
        train(
            two_layer(),
            population(),
            Penalized(law),
            steps=300,
            step_size=1.0,
            optimizer=partial(torch.optim.LBFGS, line_search_fn="strong_wolfe"),
        ).final("objective")
    )
    run = train(two_layer(), population(), Penalized(law), steps=5000, step_size=0.02, bound=floor, stop_gap=0.01)
    assert run.stopped == "certificate"
    assert run.steps < 5000
    assert floor <= float(run.final("objective")) <= floor * 1.01
    proved = train(two_layer(RUNS), population(), Penalized(law), steps=5000, step_size=0.02, stop_gap=0.01)
    assert proved.stopped == "certificate"
    assert proved.history["bound"].shape == proved.history["objective"].shape
    assert float(proved.history["bound"][0, 0]) == pytest.approx(floor, rel=1e-6)
    assert bool((proved.final("objective") <= 1.01 * proved.final("bound")).all())


# --- divergence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["kernel", "torch"])
def test_divergence_is_reported_with_step_and_step_size(engine):
    with pytest.raises(Diverged, match=r"step size 4\b.*smaller step_size") as caught:
        train(two_layer(), population(), Dropout(LAWS["block"]), steps=2000, step_size=4.0, batch_size=1, engine=engine)
    assert 0 < caught.value.step < 50
    assert caught.value.step_size == 4.0


def test_a_divergence_names_the_size_of_its_own_step():
    """All three steps are looked at together."""
    sizes, losses = torch.tensor([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]), torch.ones(3, 2)
    losses[1, 1], losses[2, 0] = math.inf, math.nan
    guard, engine = Guard(torch.ones(2), sizes[0], "raise"), SimpleNamespace(sound=lambda: torch.tensor([True, True]))
    with pytest.raises(Diverged, match=r"step 6 \(run 0, 1\) with gradient step size 0\.4;") as caught:
        guard.check(engine, losses, sizes, 5, None)
    assert caught.value.step_size == pytest.approx(0.4, rel=1e-6)


def test_a_divergence_is_that_of_the_first_bad_step_of_each_run():
    """Of four steps that are looked at together: bad ones follow, or good ones between, and weights are of the last."""
    sizes, losses = torch.arange(1, 17).reshape(4, 4) / 100, torch.ones(4, 4)
    losses[1:, 0], losses[2, 2], losses[3, 2] = math.inf, math.nan, 1e30  # run 1 stays, run 3 has bad weights alone
    sound = torch.tensor([True, True, True, False])
    weights = torch.arange(8.0).reshape(4, 2)
    engine = SimpleNamespace(sound=lambda: sound, tensors=lambda: {"w0": weights})
    with pytest.raises(Diverged) as caught:
        Guard(torch.ones(4), sizes[0], "raise").check(engine, losses, sizes, 10, None)
    assert (caught.value.step, caught.value.runs) == (11, (0, 2, 3))
    assert caught.value.step_size == pytest.approx(0.05, rel=1e-6)
    guard = Guard(torch.ones(4), sizes[0], "freeze")
    before = guard.remember(engine)
    weights += 100
    guard.check(engine, losses, sizes, 10, before)
    assert guard.frozen == {0: 11, 2: 12, 3: 13}
    assert weights.tolist() == [[0.0, 1.0], [102.0, 103.0], [4.0, 5.0], [6.0, 7.0]]
    assert torch.equal(guard.sizes, sizes[0] * torch.tensor([0.0, 1.0, 0.0, 0.0]))
    losses[0] = math.inf  # what is frozen is not looked at again
    losses[:, 1] = torch.tensor([1.0, 1.0, math.inf, 1.0])
    guard.check(engine, losses, sizes, 20, before)
    assert guard.frozen == {0: 11, 1: 22, 2: 12, 3: 13}


@pytest.mark.parametrize(("count", "ends"), [(1, "(run 0)"), (8, "6, 7)"), (9, "6, 7, ...)")])
def test_eight_diverged_runs_are_named(count, ends):
    assert ends in str(Diverged(3, 0.1, tuple(range(count))))


@pytest.mark.parametrize("engine", ["kernel", "torch"])
def test_diverged_runs_are_frozen_and_the_others_go_on(engine):
    start, steps = two_layer(RUNS), 300
    options = {"steps": steps, "batch_size": 1, "engine": engine}
    sizes = (0.002, 5.0, 0.001)
    run = train(start, population(), Dropout(LAWS["block"]), step_size=sizes, diverging="freeze", **options)
    assert set(run.diverged) == {1}
    assert all(not torch.isnan(series.double()).any() for series in run.history.values())
    assert torch.isinf(run.final("objective")[1])
    assert torch.isfinite(run.model.U).all()
    for index in (0, 2):
        alone = train(
            one(start, index), population(), Dropout(LAWS["block"]), step_size=sizes[index], seed=index, **options
        )
        assert_same_model(one(run.model, index), alone.model, 1e-12)


@pytest.mark.parametrize("optimizer", [None, partial(torch.optim.SGD, momentum=0.9), torch.optim.Adam])
def test_a_frozen_run_stays_where_it_was_put_back(optimizer):
    """Whatever its optimizer still holds: the first five steps leave numbers that are not finite."""
    start, options = two_layer(2), {"step_size": (0.001, 1e150), "diverging": "freeze", "optimizer": optimizer}
    run = train(start, population(), Plain(), steps=15, record=Recording(("risk",), at=(0, 5, 15)), **options)
    assert set(run.diverged) == {1}
    assert_same_model(one(run.model, 1), one(start, 1))
    alone = train(one(start, 0), population(), Plain(), steps=15, **options | {"step_size": 0.001})
    assert_same_model(one(run.model, 0), alone.model, 1e-12)


def test_a_resumed_training_knows_who_diverged(tmp_path):
    start, data, limits = two_layer(2), population(), {"step_size": (0.001, 1e150), "diverging": "freeze"}
    whole = train(start, data, Plain(), steps=20, record=Recording(("risk",), at=(0, 5, 20)), **limits)
    path = Checkpoint(tmp_path / "run.safetensors", seconds=0.0)
    options = {"steps": 20, "record": Recording(("risk",), at=(0, 5, 20)), "checkpoint": path, **limits}
    for _ in range(2):  # the second call finds the end of the first
        again = train(start, data, Plain(), **options)
    assert dict(again.diverged) == dict(whole.diverged)
    assert set(again.diverged) == {1}
    assert_same_model(again.model, whole.model)


def test_single_steps_follow_any_loss():
    """One step on one example of logistic loss, which no compiled engine covers, by autograd."""
    start, data = TwoLayerLinear(randn(1, 4, seed=1), randn(3, 4, seed=2)), Sample(randn(1, 3), -torch.ones(1).double())
    run = train(start, data, Plain(Logistic()), steps=1, step_size=0.1, batch_size=1)
    leaves = [part.clone().requires_grad_() for part in start.tensors]
    torch.nn.functional.softplus(data.inputs @ leaves[1] @ leaves[0].mT).sum().backward()
    for new, leaf in zip(run.model.tensors, leaves, strict=True):
        torch.testing.assert_close(new, (leaf - 0.1 * leaf.grad).detach(), rtol=1e-12, atol=1e-13)
    assert run.engine == "torch"


def test_exact_gradients_that_overflow_are_left_to_the_guard():
    """Between two records weights may leave the range of numbers: no warning, the other run as it is alone."""
    start, law, options = two_layer(2), Penalized(LAWS["block"]), {"record": Recording(at=(0, 50)), "steps": 50}
    run = train(start, population(), law, step_size=(0.01, 5.0), diverging="freeze", **options)
    assert set(run.diverged) == {1}
    assert_same_model(one(run.model, 1), one(start, 1), 0)
    alone = train(one(start, 0), population(), law, step_size=0.01, **options)
    assert_same_model(one(run.model, 0), alone.model, 1e-12)


# --- checkpoints ----------------------------------------------------------------------------------------------------


class Killed(Exception):
    pass


def killer(limit):
    """A recorded quantity that stops training after a number of records, as a kill would."""
    seen = []

    def record(model):
        seen.append(1)
        if limit is not None and len(seen) > limit:
            raise Killed
        return model.tensors[0].square().sum((-2, -1))

    return record


CASES = {
    "kernel": (two_layer(RUNS), Dropout(LAWS["bernoulli"]), {"batch_size": 1, "step_size": 0.001}),
    "adam": (
        two_layer(RUNS),
        Dropout(LAWS["block"]),
        {"batch_size": 40, "step_size": 0.01, "optimizer": torch.optim.Adam},
    ),
    "momentum": (
        two_layer(),
        Dropout(LAWS["gaussian"]),
        {"batch_size": 40, "step_size": 0.001, "optimizer": partial(torch.optim.SGD, momentum=0.9)},
    ),
    "exact": (two_layer(), Penalized(LAWS["block"]), {"step_size": [0.01]}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_killed_run_resumes_and_ends_with_the_same_numbers(name, tmp_path):
    start, objective, options = CASES[name]
    options = options | {"keep": (0, 130, 270, 599, 600)}
    steps = 600
    at = range(0, steps + 1, 50)
    data = population()
    undisturbed = train(start, data, objective, steps=steps, record=Recording({"n": killer(None)}, at=at), **options)
    file = Checkpoint(tmp_path / "run.safetensors", seconds=0.0)
    with pytest.raises(Killed):
        train(
            start, data, objective, steps=steps, record=Recording({"n": killer(9)}, at=at), checkpoint=file, **options
        )
    assert file.path.exists()
    again = killer(None)
    resumed = train(
        start, data, objective, steps=steps, record=Recording({"n": again}, at=at), checkpoint=file, **options
    )
    assert_same_model(resumed.model, undisturbed.model)
    assert [kept.step for kept in resumed.iterates] == [0, 130, 270, 599, 600]
    for ours, theirs in zip(resumed.iterates, undisturbed.iterates, strict=True):
        assert_same_model(ours.model, theirs.model)
        assert (ours.multipliers is None) == (theirs.multipliers is None)
        assert ours.multipliers is None or torch.equal(ours.multipliers, theirs.multipliers)
    for series in undisturbed.history:
        assert torch.equal(resumed.history[series], undisturbed.history[series]), series
    assert not list(tmp_path.glob("*.tmp"))
    finished = train(
        start, data, objective, steps=steps, record=Recording({"n": killer(0)}, at=at), checkpoint=file, **options
    )
    assert_same_model(finished.model, undisturbed.model)


def test_checkpoints_of_another_training_are_refused(tmp_path):
    path = tmp_path / "deep" / "run.safetensors"
    options = {"steps": 3, "step_size": 0.1, "checkpoint": path}
    train(two_layer(), population(), Penalized(LAWS["block"]), **options)
    for changed in ({"step_size": 0.2}, {"steps": 4}, {"schedule": Inverse(2)}):
        with pytest.raises(ValueError, match="another training"):
            train(two_layer(), population(), Penalized(LAWS["block"]), **(options | changed))
    with pytest.raises(ValueError, match="another training"):
        train(two_layer(seed=99), population(), Penalized(LAWS["block"]), **options)
    with pytest.raises(ValueError, match="another training"):
        train(two_layer(), population(), Penalized(Block(0.41, WIDTH, 2)), **options)
    again = options | {"checkpoint": path.with_name("plain.safetensors")}
    one = TwoLayerLinear(randn(1, WIDTH, seed=3), randn(INPUTS, WIDTH, seed=4))
    signs = Sample(randn(6, INPUTS, seed=5), randn(6, 1, seed=6).sign())
    train(one, signs, Plain(), **again)
    with pytest.raises(ValueError, match="another training"):
        train(one, signs, Plain(Logistic()), **again)
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="cannot be read"):
        train(two_layer(), population(), Penalized(LAWS["block"]), **options)


def test_checkpoints_hold_an_even_number_of_rows(tmp_path):
    """Files of compiled steps have had them from the first on, so that old ones go on."""
    for units, rows in ((3, 4), (4, 4), (5, 6)):
        path = tmp_path / f"{units}.safetensors"
        start = TwoLayerLinear(randn(2, units, seed=1), randn(3, units, seed=2))
        data = Sample(randn(5, 3, seed=3), randn(5, 2, seed=4))
        run = train(start, data, Dropout(Bernoulli(0.3, units)), steps=3, step_size=0.01, batch_size=1, checkpoint=path)
        held = load_file(path)["engine.weights.0"]
        assert held.shape == (1, rows, 2)
        assert torch.equal(held[0, :units].mT, run.model.U)
        assert not held[0, units:].any()


# --- wrong use ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "steps must be a positive"),
        ({"step_size": -1.0}, "step_size must be positive"),
        ({"step_size": [0.1, 0.1]}, "one per run"),
        ({"seed": [1, 2]}, "seed has size 2"),
        ({"batch_size": 0}, "batch_size must be a positive"),
        ({"convention": "thesis"}, "convention must be 'gradient' or"),
        ({"diverging": "ignore"}, "diverging must be"),
        ({"engine": "kernel", "batch_size": 2}, "engine='kernel' covers"),
        ({"engine": "products", "decay": 0.1}, "engine='products' covers"),
        ({"engine": "jax"}, "engine must be"),
        ({"engine": "persistent"}, "cannot be used: it runs on a CUDA device"),
        ({"engine": "persistent", "batch_size": 2}, "engine='persistent' covers"),
        ({"frozen": (0, 1)}, "nothing to train"),
        ({"frozen": (5,)}, "frozen must be indices"),
        ({"frozen": (2,)}, "frozen must be indices"),
        ({"frozen": (-1,)}, "frozen must be indices"),
        ({"objective": Dropout(Bernoulli(0.5, 9))}, "masks has size 9"),
        ({"objective": Dropout([LAWS["block"], LAWS["block"]])}, "one mask law per run"),
        ({"objective": "dropout"}, "objective must be a droptics Objective"),
        ({"objective": Penalized(LAWS["block"])}, "batch_size must be None"),
    ],
)
def test_wrong_use_says_what_to_do(change, message):
    arguments = {"objective": Dropout(LAWS["block"]), "steps": 2, "step_size": 0.1, "batch_size": 1} | change
    objective = arguments.pop("objective")
    with pytest.raises(ValueError, match=message):
        train(two_layer(), population(), objective, **arguments)


def test_more_wrong_use():
    net = ReLUNet([randn(WIDTH, INPUTS), randn(OUTPUTS, WIDTH)])
    with pytest.raises(ValueError, match="data must be a Sample"):
        train(net, population(), Plain(), steps=1, step_size=0.1)
    with pytest.raises(ValueError, match="per must be"):
        Dropout(LAWS["block"], per="batch")
    with pytest.raises(ValueError, match="same units"):
        Dropout([Bernoulli(0.1, 2), Bernoulli(0.1, 3)])
    with pytest.raises(ValueError, match="mask law"):
        Penalized([])
    with pytest.raises(ValueError, match="leading dimension"):
        stacked((LAWS["block"], LAWS["block"]), lead=False)
    nested = TwoLayerLinear(randn(2, 2, OUTPUTS, WIDTH), randn(2, 2, INPUTS, WIDTH))
    with pytest.raises(ValueError, match="at most one leading dimension"):
        train(nested, population(), Plain(), steps=1, step_size=0.1)
    for wrong in (lambda: Inverse(0), lambda: Staircase(1, -1), lambda: MaxNorm(0)):
        with pytest.raises(ValueError, match="must be a finite number > 0"):
            wrong()


def test_degenerate_sizes():
    tiny = TwoLayerLinear(torch.ones(1, 1).double(), torch.ones(1, 1).double())
    moments = Moments.of_map(torch.zeros(1, 1).double())
    for law in (Bernoulli(0.0, 1), Bernoulli(0.999, 1), Discrete(torch.ones(1, 1).double(), torch.ones(1).double())):
        left = train(tiny, moments, Dropout(law), steps=5, step_size=1e-7, batch_size=1)
        right = train(tiny, moments, Dropout(law), steps=5, step_size=1e-7, batch_size=1, engine="torch")
        assert_same_model(left.model, right.model, 1e-13)
    zero = TwoLayerLinear(torch.zeros(3, 2).double(), torch.zeros(2, 2).double())
    run = train(zero, Moments.of_map(torch.ones(3, 2).double()), Dropout(Bernoulli(0.5, 2)), steps=3, step_size=0.1)
    assert_same_model(run.model, zero)  # the origin is a critical point


PROGRAM = """
import sys, torch
from droptics.data import Moments
from droptics.masks import Bernoulli
from droptics.models import TwoLayerLinear
from droptics.training import Checkpoint, Dropout, train

def go(path, steps=40_000):
    g = torch.Generator().manual_seed(0)
    start = TwoLayerLinear(torch.randn(4, 6, 3, generator=g) / 9, torch.randn(4, 5, 3, generator=g) / 9)
    data = Moments.of_map(torch.randn(6, 5, generator=g))
    where = Checkpoint(path, seconds=0.0) if path else None
    masks = Bernoulli(0.5, 3)
    return train(start, data, Dropout(masks), steps=steps, step_size=1e-3, batch_size=1, checkpoint=where)

if __name__ == "__main__":
    go(sys.argv[1])
"""


@pytest.mark.slow
@posix
def test_a_run_killed_by_the_system_resumes(tmp_path):
    """A real SIGKILL of another process, at whatever step it falls."""
    path = tmp_path / "run.safetensors"
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with subprocess.Popen([sys.executable, str(program), str(path)]) as process:
        while not path.exists() and process.poll() is None:
            time.sleep(0.002)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    names = {"__name__": "program"}
    exec(compile(PROGRAM, str(program), "exec"), names)
    undisturbed, resumed = names["go"](None), names["go"](path)
    assert_same_model(resumed.model, undisturbed.model)
    for series in undisturbed.history:
        assert torch.equal(resumed.history[series], undisturbed.history[series]), series


def test_seconds_are_those_of_the_run():
    start = time.perf_counter()
    run = train(two_layer(), sample(), Plain(), steps=2, step_size=0.01)
    assert 0 < run.seconds <= time.perf_counter() - start


def test_a_second_run_that_diverges_leaves_the_step_of_the_first():
    options = {
        "steps": 40,
        "batch_size": 1,
        "engine": "torch",
        "diverging": "freeze",
        "schedule": lambda step: 1.0 if step < 20 else 1e4,
    }
    record = Recording(at=tuple(range(0, 40, 5)))
    sizes = (1e-8, 5.0, 1e-3)  # the third is too large from step 20 on
    run = train(two_layer(RUNS), population(), Plain(), step_size=sizes, record=record, **options)
    assert set(run.diverged) == {1, 2}
    assert run.diverged[1] < 10
    assert run.diverged[2] >= 20


def test_units_that_pass_on_nothing_have_equal_importance():
    start = TwoLayerLinear(torch.zeros(2, 3).double(), torch.ones(4, 3).double())
    record = Recording(("importance_spread",), at=(0, 1, 3))
    population = Moments.of_map(torch.ones(2, 4).double())
    run = train(start, population, Penalized(Bernoulli(0.4, 3)), steps=3, step_size=0.01, record=record)
    assert float(run.history["importance_spread"][0]) == 0
    assert float(run.mean_loss(3, 1)) == float(run.mean_loss(1, 3))
