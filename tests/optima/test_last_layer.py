"""The best head against least squares over the list of all masks: every mask and example is one weighted row."""

import numpy as np
import pytest
import torch
from cases import normal
from compare import close
from torch import nn

from droptics.data import Sample
from droptics.masks import Bernoulli, Block, Discrete
from droptics.models import LastLayer, ReLUNet
from droptics.optima import certify, optimal_head, optimum
from droptics.optima.last_layer import HeadProblem
from droptics.penalties import criterion

LAWS = {
    "dropout": Bernoulli(0.4, 4),
    "unequal": Bernoulli(torch.tensor([0.0, 0.2, 0.5, 0.7], dtype=torch.float64), 4),
    "blocks": Block(0.3, 4, 2),
    "list": Discrete(normal(5, 4).abs() + 0.1, torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25], dtype=torch.float64)),
}
FEATURES, TARGETS = normal(11, 4) + 0.5, normal(11, 2) - 1.0
WEIGHTS = torch.linspace(0.5, 2.0, 11, dtype=torch.float64)


def listed(features, sample, law, bias):
    """Weights, bias and least criterion by one dense least-squares problem over examples times masks."""
    rows, wanted = [], []
    for z, chance in law.atoms():
        root = (sample.shares * chance).sqrt()[:, None]
        columns = [features * z, torch.ones_like(features[:, :1])] if bias else [features * z]
        rows.append(root * torch.cat(columns, 1))
        wanted.append(root * sample.targets)
    A, b = torch.cat(rows).numpy(), torch.cat(wanted).numpy()
    solution = np.linalg.lstsq(A, b, rcond=1e-12)[0]
    weight, offset = solution[:4].T, solution[4] if bias else np.zeros(b.shape[1])
    return weight, offset, float(((A @ solution - b) ** 2).sum())


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_best_head_is_least_squares_over_all_masks(law, bias, weights):
    sample = Sample(FEATURES, TARGETS, weights)
    problem = HeadProblem.of(FEATURES, sample, law, bias)
    weight, offset, _ = problem.solve()
    expected = listed(FEATURES, sample, law, bias)
    close(weight, expected[0], relative=1e-11)
    close(offset, expected[1], relative=1e-11, scale=1.0)
    close(problem.value(weight, offset if bias else None), expected[2], relative=1e-11)


@pytest.mark.parametrize("bias", [True, False])
def test_dead_and_repeated_features_get_the_weights_of_least_norm(bias):
    features = FEATURES.clone()
    features[:, 1] = 0.0
    features[:, 3] = features[:, 2]
    law = Discrete(torch.ones(1, 4, dtype=torch.float64), torch.ones(1, dtype=torch.float64))
    sample = Sample(features, TARGETS)
    problem = HeadProblem.of(features, sample, law, bias)
    weight, offset, _ = problem.solve()
    close(problem.value(weight, offset), listed(features, sample, law, bias)[2], relative=1e-11)
    close(weight[:, 1], [0.0, 0.0], relative=1e-10, scale=1.0)
    close(weight[:, 2], weight[:, 3], relative=1e-10)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_features_that_hardly_vary_count_for_what_they_do(law):
    features = FEATURES * torch.tensor([1.0, 1e-5, 1.0, 1e-2]).double() + torch.tensor([0.0, 3.0, 0.0, -2.0]).double()
    sample = Sample(features, TARGETS, WEIGHTS)
    problem = HeadProblem.of(features, sample, law, True)
    weight, offset, _ = problem.solve()
    close(problem.value(weight, offset), listed(features, sample, law, True)[2], relative=1e-9)


@pytest.mark.parametrize("bias", [True, False])
def test_a_module_gets_the_best_head_and_keeps_its_body(bias):
    body, head = nn.Linear(3, 4).double(), nn.Linear(4, 2, bias=bias).double()
    module = nn.Sequential(body, nn.Tanh(), head)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    data, law = Sample(normal(11, 3), TARGETS, WEIGHTS), Bernoulli(0.4, 4)
    found = optimal_head(LastLayer.of(module), data, law)
    features = torch.tanh(body(data.inputs)).detach()
    weight, offset, least = listed(features, Sample(features, TARGETS, WEIGHTS), law, bias)
    close(found.model.head.weight, weight, relative=1e-10)
    if bias:
        close(found.model.head.bias, offset, relative=1e-10)
    close(found.objective, least, relative=1e-11)
    close(found.bound, least, relative=1e-11)
    close(found.objective, float(criterion(found.model, data, law)), relative=1e-13)
    close(found.scale, float((data.shares @ TARGETS.square()).sum()), relative=1e-13)
    assert (found.rank, found.claim, found.certified) == (2, "droptics-head", True)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert certify(found.model, data, law).bound <= found.objective


def test_features_may_be_given_as_inputs():
    data, law = Sample(FEATURES, TARGETS), Bernoulli(0.4, 4)
    found = optimum(LastLayer, data, law)
    weight, offset, least = listed(FEATURES, data, law, True)
    close(found.model.head.weight, weight, relative=1e-11)
    close(found.model.head.bias, offset, relative=1e-11)
    close(found.objective, least, relative=1e-11)


@pytest.mark.parametrize("bias", [True, False])
def test_no_features_at_all_beat_the_bound_of_the_width(bias):
    # two outputs, width 1: the bound shrinks the singular values of the (centered) targets
    data, law = Sample(FEATURES, TARGETS, WEIGHTS), Bernoulli(0.5, 1)
    head = nn.Linear(1, 2, bias=bias).double()
    centered = TARGETS - (data.shares[:, None] * TARGETS).sum(0) if bias else TARGETS
    values = torch.linalg.svdvals(data.shares.sqrt()[:, None] * centered)
    top = float(values[0])
    expected = float(values.square().sum()) - top**2 + (top / 2) ** 2 + (top / 2) ** 2
    model = LastLayer.of(nn.Sequential(nn.Linear(4, 1).double(), head))
    certificate = certify(model, data, law)
    close(certificate.bound, expected, relative=1e-12)
    assert certificate.claim == "pal2020-prop3.3"
    if bias:
        network = ReLUNet([normal(1, 4), normal(2, 1)])
        masks = Bernoulli(torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5], dtype=torch.float64), 5)
        close(certify(network, data, masks).bound, expected, relative=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: optimum(LastLayer, Sample(normal(3, 2, 2), normal(3, 1)), Bernoulli(0.5, 2)), "feature vectors"),
        (lambda: optimum(LastLayer, Sample(normal(3, 2), torch.tensor([0, 1, 1])), Bernoulli(0.5, 2)), "one-hot"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_value_of_any_head_is_its_criterion_also_after_rounding():
    data, law = Sample(FEATURES, TARGETS, WEIGHTS), Block(0.3, 4, 2)
    head = nn.Linear(4, 2).double()
    problem = HeadProblem.of(FEATURES, data, law, True)
    close(problem.value(head.weight, head.bias), float(criterion(LastLayer(head, head), data, law)), relative=1e-13)
    single = data.to(torch.float32)
    found = optimum(LastLayer, single, law)
    exact = LastLayer.of(found.model.module.double())
    close(found.objective, float(criterion(exact, single.to(torch.float64), law)), relative=1e-12)
    assert 0 <= found.gap <= 1e-12  # squared rounding of float32 weights


@pytest.mark.parametrize(
    ("targets", "rank"),
    [(TARGETS, 2), (TARGETS[:, :1].expand(-1, 3), 1), (torch.zeros_like(TARGETS), 0), (normal(11, 6), 4)],
    ids=["independent", "repeated", "zero", "more than features"],
)
def test_the_rank_of_the_best_head(targets, rank):
    assert optimum(LastLayer, Sample(FEATURES, targets.contiguous()), Bernoulli(0.4, 4)).rank == rank


def test_features_and_masks_must_agree():
    with pytest.raises(ValueError, match="masks has size 3, expected 4"):
        optimum(LastLayer, Sample(FEATURES, TARGETS), Bernoulli(0.4, 3))
