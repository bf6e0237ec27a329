"""The variance head against the exact rule, through export and an exchange format."""

import copy

import pytest
import torch
from compare import close
from torch import nn

from droptics.layers import VarianceHead
from droptics.masks import Bernoulli
from droptics.models import LastLayer
from droptics.predictions import predictive


def build(drop=0.3, full=False, dtype=torch.float64):
    torch.manual_seed(0)
    body, head = nn.Sequential(nn.Linear(4, 6), nn.ReLU()), nn.Linear(6, 3)
    return nn.Sequential(body, head).to(dtype), nn.Sequential(body, VarianceHead(head, drop, full=full)).to(dtype)


@pytest.mark.parametrize("drop", [0.3, torch.linspace(0, 0.8, 6).double()])
def test_mean_and_variance_are_those_of_the_masked_head(drop):
    net, sure = build(drop)
    inputs = torch.randn(7, 4, dtype=torch.float64)
    expected = predictive(LastLayer.of(net), inputs, Bernoulli(drop, 6))
    mean, variance = sure(inputs)
    close(mean, expected.mean.value, 1e-14)
    close(variance, expected.variance.value, 1e-13)
    _, covariance = build(drop, full=True)[1](inputs)
    close(covariance, expected.covariance.value, 1e-13)
    assert mean.shape == sure(inputs[0])[0].reshape(1, 3).expand(7, 3).shape


def test_it_follows_its_head_in_training_and_in_copies():
    net, sure = build()
    inputs = torch.randn(5, 4, dtype=torch.float64)
    assert len(list(sure[1].parameters())) == 2
    (sure.train()(inputs)[1].sum()).backward()
    assert net[1].weight.grad is not None
    with torch.no_grad():
        net[1].weight.mul_(2)
    close(sure.eval()(inputs)[1], 4 * copy.deepcopy(build()[1])(inputs)[1], 1e-13)
    other = build(drop=0.7)[1]
    other.load_state_dict(sure.state_dict())
    close(other(inputs)[1], sure(inputs)[1], 1e-15)


def test_export_with_any_number_of_examples(tmp_path):
    _, sure = build(dtype=torch.float32)
    inputs = torch.randn(7, 4)
    batch = torch.export.Dim("batch")
    program = torch.export.export(sure.eval(), (inputs,), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "sure.pt2")
    loaded = torch.export.load(tmp_path / "sure.pt2").module()
    for count in (2, 9):
        some = torch.randn(count, 4)
        for left, right in zip(loaded(some), sure(some), strict=True):
            close(left, right, 1e-6)


@pytest.mark.filterwarnings("ignore")
def test_the_exchange_format_gives_the_same_numbers(tmp_path):
    reason = "needs onnx, onnxscript and onnxruntime: pip install droptics[onnx]"
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason=reason)
    import onnxruntime

    _, sure = build(dtype=torch.float32)
    path = tmp_path / "sure.onnx"
    shapes = ({0: torch.export.Dim("batch")},)
    torch.onnx.export(sure.eval(), (torch.randn(7, 4),), path, dynamo=True, dynamic_shapes=shapes, verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for count in (2, 9):
        some = torch.randn(count, 4)
        found = session.run(None, {session.get_inputs()[0].name: some.numpy()})
        for left, right in zip(found, sure(some), strict=True):
            close(torch.from_numpy(left), right, 1e-5)


def test_refusals():
    with pytest.raises(ValueError, match=r"head must be an nn\.Linear"):
        VarianceHead(nn.ReLU(), 0.5)
    with pytest.raises(ValueError, match="drop has size 2, expected 6"):
        VarianceHead(nn.Linear(6, 3), torch.tensor([0.1, 0.2]))
    with pytest.raises(ValueError, match="must lie in"):
        VarianceHead(nn.Linear(6, 3), 1.0)
    assert "full=True" in repr(VarianceHead(nn.Linear(6, 3), 0.5, full=True))
