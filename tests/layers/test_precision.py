"""Layers in every precision people train in: only results are rounded, never rates, factors or sums."""

from __future__ import annotations

import math

import pytest
import torch
from cases import normal
from torch import nn

from droptics.layers import DropBlock, DropConnect, ExplicitDropout
from droptics.losses import CrossEntropy, Loss, Squared

# torch's note on processors without bfloat16
pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
HALVES = [torch.float16, torch.bfloat16]
PRECISIONS = [*HALVES, torch.float32, torch.float64]


def factor(layer: DropBlock, size: tuple[int, ...]) -> float:
    """1 / survival probability of an inner position, by plain arithmetic."""
    return math.exp(-(layer.block**layer.spatial) * math.log1p(-layer.seed_rate(size)))


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("drop", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("spatial", [1, 2])
def test_survivors_of_dropblock_are_the_exact_products_rounded_once(
    dtype: torch.dtype, drop: float, spatial: int
) -> None:
    layer = DropBlock(drop, 7, spatial=spatial)
    size = (16, 15)[:spatial]
    torch.manual_seed(0)
    inputs = (1 + torch.rand(8, 4, *size)).to(dtype)
    output = layer(inputs)
    assert output.dtype == dtype
    kept = output != 0
    wanted = inputs.double() * factor(layer, size)
    # one rounding of the result; in float32 and float64 the factor, the product and the result are rounded
    level = torch.finfo(dtype).eps * (0.51 if dtype in HALVES else 2.0)
    assert float(((output.double() - wanted).abs() / wanted)[kept].max()) <= level


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("drop", [0.01, 0.1])
def test_dropblock_keeps_the_mean_in_half_precision(dtype: torch.dtype, drop: float) -> None:
    torch.manual_seed(0)
    count = 4096
    inputs = (1 + torch.rand(count, 1, 12, 12)).to(dtype)
    ratio = float(DropBlock(drop, 7)(inputs).double().mean() / inputs.double().mean())
    # a map counts as one draw of a coin: its standard deviation is at most sqrt(drop / (1 - drop))
    assert abs(ratio - 1) < 5 * (drop / (1 - drop) / count) ** 0.5


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("library", ["torchvision", "timm", "dropblock"])
def test_presets_divide_by_the_share_that_survived_in_half_precision(dtype: torch.dtype, library: str) -> None:
    torch.manual_seed(0)
    inputs = torch.ones(64, 8, 16, 16, dtype=dtype)  # 131072 positions: their number is infinite in float16
    output = DropBlock.like(library, 0.2, 3)(inputs)  # type: ignore[arg-type]
    share = float((output != 0).double().mean())
    assert float(output.max()) == pytest.approx(1 / share, rel=torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("per_example", [False, True])
def test_dropconnect_rounds_only_its_weights(dtype: torch.dtype, per_example: bool) -> None:
    torch.manual_seed(0)
    layer = DropConnect(64, 1, 0.01, bias=False, per_example=per_example, dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(1 + torch.rand(1, 64))
    # one feature at a time: every output is a masked weight
    found = layer(torch.eye(64, dtype=dtype))[:, 0].detach().double()
    wanted = layer.weight[0].detach().double() / 0.99
    kept = found != 0
    assert bool(kept.any())
    assert float(((found - wanted).abs() / wanted)[kept].max()) <= torch.finfo(dtype).eps * (
        0.51 if dtype in HALVES else 2.0
    )


@pytest.mark.parametrize("per_example", [False, True])
def test_dropconnect_has_one_dtype_in_both_modes_under_autocast(per_example: bool) -> None:
    layer = DropConnect(6, 3, 0.4, per_example=per_example)
    inputs = normal(5, 6, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        training = layer(inputs)
        plain = layer.eval()(inputs)
    assert training.dtype == plain.dtype == torch.bfloat16
    training.float().sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32


@pytest.mark.parametrize("loss", [Squared(), CrossEntropy()])
@pytest.mark.parametrize("dtype", HALVES)
def test_explicit_penalty_of_half_precision_is_that_of_the_same_numbers(loss: Loss, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    head = nn.Linear(20, 3).to(dtype)
    features = (400 * torch.rand(50, 20)).to(dtype)  # squares overflow in float16
    explicit = ExplicitDropout(0.3, head, loss)
    assert torch.equal(explicit(features), features)
    exact = ExplicitDropout(0.3, nn.Linear(20, 3).double(), loss)
    exact.head.load_state_dict(head.state_dict())
    exact(features.double())
    assert explicit.penalty.dtype == torch.float32
    # float32 sums over 20 units and 50 examples; the softmax of logits near 1e3 amplifies theirs
    found, wanted = float(explicit.penalty.detach()), float(exact.penalty.detach())
    assert found == pytest.approx(wanted, rel=1e-4 if isinstance(loss, Squared) else 1e-2)
    explicit.penalty.backward()
    assert head.weight.grad is not None
    assert bool(torch.isfinite(head.weight.grad).all())
    assert explicit.eval()(features).dtype == dtype
    assert explicit.penalty.dtype == torch.float32


@pytest.mark.parametrize("loss", [Squared(), CrossEntropy()])
def test_autocast_does_not_change_the_explicit_penalty(loss: Loss) -> None:
    torch.manual_seed(0)
    head = nn.Linear(20, 3)
    explicit = ExplicitDropout(0.3, head, loss)
    features = torch.randn(50, 20)
    explicit(features)
    plain = explicit.penalty
    with torch.autocast("cpu", torch.bfloat16):
        explicit(features)
        assert torch.equal(explicit.penalty, plain)
