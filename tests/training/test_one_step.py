"""One step under a given mask against the derivative written out, and against the steps of a training."""

import pytest
import torch
from cases import normal, relu_network, skewed_inputs, small_network
from compare import close

from droptics.data import Moments, Sample
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli, Discrete
from droptics.models import Autoencoder, LastLayer, TwoLayerLinear
from droptics.penalties import criterion
from droptics.training import Dropout, Penalized, masked_step, train


def test_a_two_layer_step_is_the_derivative_written_out():
    U, V = normal(3, 5, seed=1), normal(4, 5, seed=2)
    x, y = skewed_inputs(), normal(7, 3, seed=7)
    z = torch.tensor([0.0, 2.0, 2.0, 0.0, 1.0]).double()
    moved = masked_step(TwoLayerLinear(U, V), Sample(x, y), z, 0.05)
    hidden = (x @ V) * z
    residual = hidden @ U.mT - y
    close(moved.U, U - 0.1 * residual.mT @ hidden / 7)
    close(moved.V, V - 0.1 * x.mT @ ((residual @ U) * z) / 7)


def test_masks_of_single_examples_and_weights():
    model = relu_network()
    masks = (normal(7, model.units, seed=3) > 0).double() * 1.5
    data = Sample(skewed_inputs(), normal(7, 3, seed=7), torch.linspace(0.1, 2, 7).double())
    moved = masked_step(model, data, masks, 0.01)
    leaves = [tensor.clone().requires_grad_() for tensor in model.tensors]
    remade = type(model)(leaves[:3], leaves[3:])
    losses = torch.stack(
        [(remade.outputs(data.inputs[i : i + 1], masks[i]) - data.targets[i]).square().sum() for i in range(7)]
    )
    slopes = torch.autograd.grad((data.weights * losses).sum() / data.weights.sum(), leaves)
    for before, after, slope in zip(model.tensors, moved.tensors, slopes, strict=True):
        close(after, before - 0.01 * slope)


@pytest.mark.parametrize("weights", [None, torch.linspace(0.1, 2, 7).double()], ids=["alike", "weighted"])
def test_a_step_of_a_training_whose_law_is_one_mask(weights):
    model, data = relu_network(), Sample(skewed_inputs(), normal(7, 3, seed=7), weights)
    mask = normal(model.units, seed=3).abs() + 0.1
    law = Discrete(mask[None], torch.ones(1).double())
    run = train(model, data, Dropout(law, scaled=False, per="step"), steps=1, step_size=0.02)
    for ours, theirs in zip(masked_step(model, data, mask, 0.02).tensors, run.model.tensors, strict=True):
        close(ours, theirs)


def test_modules_with_another_loss_and_the_caller_s_own_stay():
    module = small_network()
    before = [parameter.detach().clone() for parameter in module.parameters()]
    data = Sample(skewed_inputs(), torch.tensor([0, 1, 2, 0, 1, 2, 0]))
    moved = masked_step(LastLayer.of(module.eval()), data, torch.tensor([1, 0, 1, 1, 0]), 0.1, CrossEntropy())
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
    assert not torch.equal(moved.head.weight, module[-1].weight)
    close(moved.head.weight[:, 1], module[-1].weight[:, 1])


def test_refusals():
    model, data = relu_network(), Sample(skewed_inputs(), normal(7, 3, seed=7))
    with pytest.raises(ValueError, match="multipliers"):
        masked_step(model, data, torch.ones(3), 0.1)
    with pytest.raises(ValueError, match="multipliers"):
        masked_step(model, data, "all", 0.1)
    with pytest.raises(ValueError, match="step_size"):
        masked_step(model, data, torch.ones(model.units), float("nan"))


@pytest.mark.parametrize("model", [Autoencoder(normal(3, 4)), TwoLayerLinear(normal(3, 4), normal(3, 4, seed=1))])
def test_penalized_steps_are_descent_of_the_criterion(model):
    """Models of one matrix and of two, with slopes by automatic differentiation."""
    data, law = Moments.of_map(normal(3, 3, seed=2)), Bernoulli(0.3, 4)
    run = train(model, data, Penalized(law), steps=3, step_size=0.01)
    tensors = model.tensors
    for _ in range(3):
        leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
        slopes = torch.autograd.grad(criterion(type(model)(*leaves), data, law).value, leaves)
        tensors = [leaf.detach() - 0.01 * slope for leaf, slope in zip(leaves, slopes, strict=True)]
    for ours, theirs in zip(run.model.tensors, tensors, strict=True):
        close(ours, theirs)
