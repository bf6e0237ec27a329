"""The pieces that the generic methods share: how many masks fit, what a batch looks like, what is refused."""

import pytest
import torch

from cases import entries, normal, sample, weighted_sample
from compare import close
from droptics.data import Measurements, Moments, Sample
from droptics.losses import CrossEntropy, Squared
from droptics.masks import Bernoulli
from droptics.models import Factorization, LastLayer, ReLUNet, TwoLayerLinear
from droptics.penalties import Enumerate, evaluation, penalty, risk
from droptics.penalties.closed_form import feature_energies, feature_gram, input_moment
from droptics.penalties.evaluation import CHUNK_ELEMENTS, check_inputs, check_shapes, masked_risk


@pytest.mark.parametrize(
    ("model", "data", "elements"),
    [
        (TwoLayerLinear(normal(3, 5), normal(4, 5)), Sample(normal(7, 4), normal(7, 3)), 7 * 5),
        (TwoLayerLinear(normal(9, 5), normal(4, 5)), Sample(normal(7, 4), normal(7, 9)), 7 * 9),
        (TwoLayerLinear(normal(2, 1, 3, 5), normal(6, 4, 5)), Sample(normal(7, 4), normal(7, 3)), 7 * 5 * 12),
        (Factorization(normal(6, 2), normal(5, 2)), entries(), len(entries()) * 2),
    ],
)
def test_as_many_masks_at_a_time_as_fit_into_the_chunk(model, data, elements):
    evaluate, room = masked_risk(model, data, Squared())
    assert room == CHUNK_ELEMENTS // elements
    values = evaluate(torch.ones(3, model.units, dtype=torch.float64))
    assert values.shape == (3, *model.batch_shape)
    close(values[1], risk(model, data), relative=1e-13)


@pytest.mark.parametrize("data", [sample(), weighted_sample()])
@pytest.mark.parametrize("batch", [(), (2, 1)])
def test_second_moments_determine_the_risk_of_linear_networks(data, batch):
    model = TwoLayerLinear(normal(*batch, 3, 5), normal(*batch[:-1], 4, 5))
    errors = (data.inputs @ model.matrix().mT - data.targets).square().sum(-1)
    close(risk(model, data), (errors * data.shares).sum(-1), relative=1e-13)
    close(risk(model, Moments.of_sample(data)), (errors * data.shares).sum(-1), relative=1e-12)


def test_one_mask_at_a_time_when_even_that_is_too_much(monkeypatch):
    model, data = TwoLayerLinear(normal(3, 4), normal(4, 4)), sample()
    together = penalty(model, data, Bernoulli(0.3, 4), Enumerate()).value
    monkeypatch.setattr(evaluation, "CHUNK_ELEMENTS", 1)
    assert masked_risk(model, data, Squared())[1] == 1
    close(penalty(model, data, Bernoulli(0.3, 4), Enumerate()).value, together, relative=1e-13)


def test_moments_are_evaluated_on_examples_that_have_them():
    data = weighted_sample()
    model = TwoLayerLinear(normal(3, 5), normal(4, 5))
    evaluate, room = masked_risk(model, Moments.of_sample(data), Squared())
    assert room == CHUNK_ELEMENTS // ((4 + 3) * 5)
    z = 1 + normal(2, 5)
    expected = (data.shares * (model.outputs(data.inputs, z[:, None, :]) - data.targets).square().sum(-1)).sum(-1)
    close(evaluate(z), expected, relative=1e-11)
    with pytest.raises(ValueError, match="second moments only determine squared loss"):
        masked_risk(model, Moments.of_sample(data), CrossEntropy())


@pytest.mark.parametrize("data", [sample(), weighted_sample()])
def test_means_over_examples_count_each_by_its_share(data):
    features = normal(2, len(data), 3)
    expected = torch.einsum("n,bni,bnj->bij", data.shares, features, features)
    close(feature_gram(features, data), expected, relative=1e-13)
    close(feature_energies(features, data), expected.diagonal(dim1=-2, dim2=-1), relative=1e-13)
    model = TwoLayerLinear(normal(3, 5), normal(4, 5))
    close(input_moment(model, data), Moments.of(data).xx, relative=1e-13)


def test_only_what_is_compared_must_fit():
    network = ReLUNet([normal(3, 4), normal(2, 3)])
    labels = Sample(normal(5, 4), torch.zeros(5, dtype=torch.long))
    other = Sample(normal(5, 4), normal(5, 7))
    check_shapes(network, labels)
    check_inputs(network, other)
    with pytest.raises(ValueError, match="data have 7 outputs but the model has 2"):
        check_shapes(network, other)
    with pytest.raises(ValueError, match=r"data inputs have shape \(5, 2, 4\)"):
        check_inputs(network, Sample(normal(5, 2, 4), normal(5, 2)))
    check_inputs(LastLayer.of(torch.nn.Linear(4, 2).double()), Sample(normal(5, 2, 4), normal(5, 2)))


def test_precision_and_device_must_be_those_of_the_model():
    model = TwoLayerLinear(normal(3, 5), normal(4, 5))
    with pytest.raises(ValueError, match=r"data are torch\.float32 on cpu but the model is torch\.float64 on cpu"):
        check_inputs(model, sample().to(torch.float32))
    object.__setattr__(model, "U", model.U.to("meta"))  # weights without numbers stand for another device
    with pytest.raises(ValueError, match=r"on cpu but the model is torch\.float64 on meta"):
        check_inputs(model, sample())


def test_a_matrix_is_read_at_entries_or_through_measurements_of_its_shape():
    model = Factorization(normal(6, 2), normal(5, 2))
    check_inputs(model, entries())
    check_inputs(model, Measurements(normal(4, 6, 5), normal(4)))
    with pytest.raises(ValueError, match=r"matrix of shape \(5, 6\) but the factors give \(6, 5\)"):
        check_inputs(model, Measurements(normal(4, 5, 6), normal(4)))
    with pytest.raises(ValueError, match="data for Factorization must be Entries or Measurements, got Sample"):
        check_inputs(model, sample())
