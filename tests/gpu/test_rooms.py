"""Every room computes on the GPU what it computes on the CPU, and leaves its results where its inputs are."""

from __future__ import annotations

import copy
import warnings
from dataclasses import fields, is_dataclass

import pytest
import torch
from cases import GAUSSIAN, deep_pairs, laws, linear_pairs, normal, relu_network, sample, small_network
from torch import Tensor, nn

import droptics as dx
from droptics.models import DeepLinear, LastLayer, Model, ReLUNet

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")

# Sums of at most a few thousand float64 products in another order.
TOLERANCE = {"rtol": 1e-10, "atol": 1e-12}


def on_gpu(model: Model) -> Model:
    """The same model with its weights on the GPU."""
    if isinstance(model, LastLayer):
        return LastLayer.of(copy.deepcopy(model.module).cuda())
    if isinstance(model, DeepLinear):
        return DeepLinear([weight.cuda() for weight in model.weights], mask_inputs=model.mask_inputs)
    if isinstance(model, ReLUNet):
        return ReLUNet(
            [weight.cuda() for weight in model.weights],
            [None if bias is None else bias.cuda() for bias in model.biases],
        )
    return type(model)(*(tensor.cuda() for tensor in model.tensors))


def agree(here: Tensor, there: Tensor) -> None:
    assert there.device.type == "cuda"
    torch.testing.assert_close(there.cpu(), here, **TOLERANCE)


RELU_LAW = dx.Product([dx.Bernoulli(0.2, 4), dx.Bernoulli(0.3, 3), dx.Bernoulli(0.5, 2)])
LINEAR = [
    (f"{label}/{name}", model, data, law)
    for label, model, data in linear_pairs()
    for name, law in laws(model.units).items()
]
PAIRS = [
    *LINEAR,
    *deep_pairs(),
    ("relu", relu_network(), sample(), RELU_LAW),
]


@pytest.mark.parametrize(("model", "data", "law"), [pair[1:] for pair in PAIRS], ids=[pair[0] for pair in PAIRS])
@pytest.mark.parametrize("method", [dx.ClosedForm(), dx.Enumerate()], ids=["closed-form", "enumerate"])
def test_penalty(model, data, law, method):
    agree(dx.penalty(model, data, law, method).value, dx.penalty(on_gpu(model), data.to("cuda"), law, method).value)


def huge(size: float = 1e200) -> dx.TwoLayerLinear:
    return dx.TwoLayerLinear(size * normal(3, 5).cuda(), size * normal(4, 5).cuda())


HUGE = {
    "penalty": dx.penalty,
    "enumerated": lambda *case: dx.penalty(*case, dx.Enumerate()),
    "sampled": lambda *case: dx.penalty(*case, dx.MonteCarlo(10)),
    "criterion": dx.criterion,
    "risk": lambda model, data, _: dx.risk(model, data),
    "envelope": dx.envelope,
    "imbalance": dx.imbalance,
    "certify": dx.certify,
}


@pytest.mark.parametrize("ask", HUGE.values(), ids=HUGE.keys())
def test_numbers_too_large_for_an_answer_are_refused_there_too(ask):
    with pytest.raises(ValueError, match=r"^model (holds numbers up to|and data are too large)"):
        ask(huge(), sample().to("cuda"), dx.Bernoulli(0.3, 5))


def test_neither_a_training_step_nor_a_captured_graph_waits_for_a_look_at_its_answer():
    model, data = huge(1.0), sample().to("cuda")
    trained = dx.TwoLayerLinear(*(tensor.requires_grad_() for tensor in huge().tensors))
    assert not dx.risk(trained, data).isfinite()  # and no error
    dx.risk(model, data)  # what is done once is not captured
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = dx.risk(model, data)
    graph.replay()
    agree(dx.risk(dx.TwoLayerLinear(*(tensor.cpu() for tensor in model.tensors)), sample()), captured)


def test_monte_carlo_interval_holds_the_exact_value():
    _, model, data = next(linear_pairs())
    law = dx.Bernoulli(0.3, model.units)
    estimate = dx.penalty(on_gpu(model), data.to("cuda"), law, dx.MonteCarlo(4000, confidence=1 - 1e-6))
    exact = dx.penalty(model, data, law).value
    assert estimate.lower.cpu() <= exact <= estimate.upper.cpu()


def test_second_order():
    network = LastLayer.of(small_network())
    law = dx.Bernoulli(0.4, network.units)
    data = dx.Sample(sample().inputs, torch.arange(7) % 3)
    method, loss = dx.SecondOrder(check=None), dx.CrossEntropy()
    here = dx.penalty(network, data, law, method, loss).value
    agree(here, dx.penalty(on_gpu(network), data.to("cuda"), law, method, loss).value)


OPTIMA = {
    "two-layer": (dx.TwoLayerLinear, dx.Bernoulli(0.3, 5)),
    "wide": (dx.TwoLayerLinear, dx.Bernoulli(0.3, 64)),
    "blocks": (dx.TwoLayerLinear, dx.Block(0.3, 6, 2)),
    "unequal": (dx.TwoLayerLinear, dx.Bernoulli(torch.linspace(0.1, 0.6, 5).double(), 5)),
    "gaussian": (dx.TwoLayerLinear, GAUSSIAN(4)),
    "deep": (dx.DeepLinear, dx.Product([dx.Bernoulli(0.3, 4), dx.Bernoulli(0.3, 4)])),
}


@pytest.mark.parametrize(("family", "law"), OPTIMA.values(), ids=OPTIMA.keys())
def test_optimum(family, law):
    data = dx.Moments.of_sample(sample())
    here, there = dx.optimum(family, data, law), dx.optimum(family, data.to("cuda"), law)
    assert there.model.device.type == "cuda"
    assert there.objective == pytest.approx(here.objective, rel=1e-9)
    # The optimal map is unique, its factors are not.
    torch.testing.assert_close(there.model.matrix().cpu(), here.model.matrix(), rtol=1e-6, atol=1e-7)
    certificate = dx.certify(there.model, data.to("cuda"), law)
    assert certificate.objective == pytest.approx(there.objective, rel=1e-9)


def test_optimum_of_a_large_map_and_of_a_head():
    matrix = normal(300, 200) @ torch.diag(torch.logspace(0, -3, 200).double())
    law = dx.Bernoulli(0.5, 20)
    here, there = dx.optimum_of_map(matrix, law), dx.optimum_of_map(matrix.cuda(), law)
    assert there.objective == pytest.approx(here.objective, rel=1e-9)
    network = LastLayer.of(small_network())
    law = dx.Bernoulli(0.4, network.units)
    best = dx.optimal_head(network, sample(), law)
    assert dx.optimal_head(on_gpu(network), sample().to("cuda"), law).objective == pytest.approx(
        best.objective, rel=1e-9
    )


@pytest.mark.parametrize(
    "law",
    [dx.Bernoulli(0.3, 5), dx.Block(0.3, 5, 5)],
    ids=["bernoulli", "block"],
)
def test_envelopes_and_equalization(law):
    model, data = dx.TwoLayerLinear(normal(3, 5), normal(4, 5)), sample()
    gpu, gpu_data = on_gpu(model), data.to("cuda")
    agree(dx.envelope(model, data, law).value, dx.envelope(gpu, gpu_data, law).value)
    agree(dx.imbalance(model, data, law), dx.imbalance(gpu, gpu_data, law))
    if law.independent:
        equal = dx.equalize(gpu, gpu_data, law)
        assert equal.device.type == "cuda"
        torch.testing.assert_close(equal.matrix().cpu(), model.matrix(), rtol=1e-9, atol=1e-10)
        assert dx.penalty(equal, gpu_data, law).value.item() == pytest.approx(
            dx.penalty(dx.equalize(model, data, law), data, law).value.item(), rel=1e-9
        )


@pytest.mark.parametrize("objective", ["plain", "dropout", "penalized"])
def test_training(objective):
    law = dx.Bernoulli(0.3, 5)
    chosen = {"plain": dx.Plain(), "dropout": dx.Dropout(law), "penalized": dx.Penalized(law)}[objective]
    model = dx.TwoLayerLinear(0.3 * normal(4, 3, 5), 0.3 * normal(4, 4, 5))
    run = dx.train(on_gpu(model), sample().to("cuda"), chosen, steps=200, step_size=0.01, seed=range(4))
    assert run.model.device.type == "cuda"
    reference = dx.train(model, sample(), chosen, steps=200, step_size=0.01, seed=range(4))
    if objective != "dropout":  # the two devices draw other masks
        for here, there in zip(reference.model.tensors, run.model.tensors, strict=True):
            torch.testing.assert_close(there.cpu(), here, rtol=1e-8, atol=1e-9)
    else:
        before, after = dx.risk(model, sample()), dx.risk(run.model, sample().to("cuda")).cpu()
        assert (after < before).all()


@pytest.mark.parametrize("norm", ["l2", "linf", "l1"])
@pytest.mark.parametrize(
    "loss", [dx.CrossEntropy(), dx.Reflected(dx.CrossEntropy()), dx.Margin()], ids=["ce", "reflected", "margin"]
)
def test_attack(norm, loss):
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).double().requires_grad_(False)
    with torch.no_grad():
        for number, parameter in enumerate(network.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=number))
    inputs = normal(60, 4)
    data = dx.Sample(inputs, network(inputs).argmax(1))
    threat, method = dx.Threat(norm, 0.3), dx.Pgd(loss, steps=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dx.WeakAttackWarning)
        here = dx.attack(network, data, threat, method)
        there = dx.attack(copy.deepcopy(network).cuda(), data.to("cuda"), threat, method)
    assert there.inputs.device.type == "cuda"
    assert (there.success.cpu() != here.success).sum() <= 1
    torch.testing.assert_close(there.inputs.cpu(), here.inputs, rtol=1e-7, atol=1e-7)


def test_audit():
    network = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3)).double()
    with torch.no_grad():
        for number, parameter in enumerate(network.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=number))
    data = (sample().inputs, torch.arange(7) % 3)
    here = dx.audit(network, data, "cross-entropy", progress=False)
    there = dx.audit(
        copy.deepcopy(network).cuda(), tuple(part.cuda() for part in data), "cross-entropy", progress=False
    )
    assert there.clean_loss == pytest.approx(here.clean_loss, rel=1e-9)
    assert there.sites[0].second_order == pytest.approx(here.sites[0].second_order, rel=1e-9)


@pytest.mark.parametrize(
    "layer", [dx.DropBlock(0.2, 3), dx.DropConnect(6, 4, 0.3, dtype=torch.float64)], ids=["block", "connect"]
)
def test_layers(layer):
    layer = copy.deepcopy(layer).cuda()
    inputs = torch.ones(5, 2, 8, 8, dtype=torch.float64) if isinstance(layer, dx.DropBlock) else normal(5, 6)
    assert layer.train()(inputs.cuda()).device.type == "cuda"
    assert layer.eval()(inputs.cuda()).isfinite().all()


def test_explicit_dropout():
    head = nn.Linear(5, 3).double()
    network = nn.Sequential(nn.Linear(4, 5).double(), dx.ExplicitDropout(0.5, head), head)
    gpu = copy.deepcopy(network).cuda()
    network(sample().inputs), gpu(sample().inputs.cuda())
    agree(dx.explicit_penalty(network).detach(), dx.explicit_penalty(gpu).detach())


def test_results_hold_no_stray_host_tensors():
    estimate = dx.penalty(on_gpu(relu_network()), sample().to("cuda"), RELU_LAW)
    assert is_dataclass(estimate)
    found = [getattr(estimate, item.name) for item in fields(estimate)]
    assert all(value.device.type == "cuda" for value in found if isinstance(value, Tensor))
