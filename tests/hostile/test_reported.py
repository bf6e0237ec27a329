"""Wrong calls that were once reported, each answered by one clear error that names the argument."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from cases import normal
from torch import nn

from droptics import Bernoulli, Block, Dropout, Sample, Threat, TwoLayerLinear, train
from droptics.answers import checked
from droptics.arguments import Floats
from droptics.attacks import attack
from droptics.bounds import adversarial, rademacher, squared, uniform
from droptics.equalization import balance
from droptics.layers import DropBlock
from droptics.linalg import psd_root
from droptics.optima import optimum_of_map
from droptics.penalties import sub_penalties
from droptics.recommenders import DropoutCompletion

NAN = math.nan


def model():
    return TwoLayerLinear(normal(3, 5, seed=1), normal(4, 5, seed=2))


def data():
    return Sample(normal(9, 4, seed=3), normal(9, 3, seed=4))


def trained(**options):
    return train(model(), data(), Dropout(Bernoulli(0.5, 5)), **({"steps": 2, "step_size": 0.01, "seed": 0} | options))


def ratings():
    return tuple(np.array([[u, i, (u + i) % 5] for u in range(6) for i in range(5)]).T)


LINEAR = torch.nn.Linear(4, 3)
WRONG = {
    "train: tolerance that is no number": (lambda: trained(stop_gap=NAN), "stop_gap"),
    "train: bound that is no number": (lambda: trained(bound=NAN), "bound"),
    "attack: threat of another kind": (
        lambda: attack(LINEAR, torch.rand(3, 4), torch.zeros(3, dtype=torch.long), threat=3),
        "threat",
    ),
    "balance: no model": (lambda: balance(3, data()), "model"),
    "optimum_of_map: no law": (lambda: optimum_of_map(normal(3, 4), masks=0.5), "masks"),
    "sub_penalties: no network": (lambda: sub_penalties(3, data(), Bernoulli(0.5, 5)), "model"),
    "bounds.uniform: negative complexity": (lambda: uniform(0.1, -5.0, 10), "complexity"),
    "bounds.squared: complexity that is no number": (lambda: squared(0.1, NAN, 10), "complexity"),
    "bounds.rademacher: negative norm": (lambda: rademacher(alpha=1.0, norm=-3, examples=10, retentivity=0.5), "norm"),
    "bounds.adversarial: negative norm": (
        lambda: adversarial("thm16", data_radius=1.0, margin=0.5, radius=0.1, error=0.1, start_norm=-1.0),
        "start_norm",
    ),
    "psd_root: infinite": (lambda: psd_root(torch.full((2, 2), math.inf, dtype=torch.float64)), "matrix"),
    "DropoutCompletion: clip upside down": (lambda: DropoutCompletion(clip=(5, 1)).fit(ratings()), "clip"),
    "DropoutCompletion: tolerance": (lambda: DropoutCompletion(tolerance=NAN).fit(ratings()), "tolerance"),
    "Threat: norm": (lambda: Threat("l7", 1.0), "norm"),
    "Block: covariance of 100,000 units": (lambda: Block(0.5, 100_000, 10).covariance, "units"),
    "DropBlock: an unbatched map": (lambda: DropBlock(0.5, 2).train()(torch.rand(4, 4)), r"input\[None\]$"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_names_its_argument(name):
    call, named = WRONG[name]
    with pytest.raises((ValueError, TypeError), match=named) as refusal:
        call()
    assert "not iterable" not in str(refusal.value)
    assert "broadcast" not in str(refusal.value)


@pytest.mark.parametrize("seed", [np.int64(3), np.uint8(3), np.int32(3)])
def test_a_seed_may_be_any_whole_number(seed):
    assert torch.equal(trained(seed=seed).model.U, trained(seed=3).model.U)


def test_a_width_set_between_fits_breaks_nothing():
    fitted = DropoutCompletion(width=2, sweeps=1).fit(ratings())
    fitted.set_params(width=3).partial_fit(ratings())
    assert np.isfinite(fitted.predict(np.array([[0, 1], [5, 4]]))).all()


@pytest.mark.parametrize("rate", ["matched", "area", "inside"])
@pytest.mark.parametrize("shape", [(2, 3, 0, 0), (0, 3, 4, 4), (2, 0, 4, 4)])
def test_an_empty_map_passes_through_drop_block(rate, shape):
    layer = DropBlock(0.5, 2, rate=rate).train()
    assert layer(torch.zeros(shape)).shape == shape
    assert 0 <= layer.seed_rate(shape[2:]) < 1


def test_a_model_that_is_no_dataclass_is_told_what_it_needs():
    @dataclass
    class Other:
        U: int = 3

    for wrong in (Other(), object()):
        with pytest.raises((ValueError, TypeError), match="model"):
            train(wrong, data(), Dropout(Bernoulli(0.5, 5)), steps=1, step_size=0.1, seed=0)


class There(torch.Tensor):
    """A tensor that says it lies on a GPU."""

    is_cuda = True


def test_an_answer_on_a_gpu_is_looked_at_unless_it_is_on_its_way_into_a_step_or_a_graph(monkeypatch):
    ask = checked(plain_product)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    with pytest.raises(ValueError, match=r"^weight holds numbers up to 1e"):
        ask(torch.full((2,), 1e200, dtype=torch.float64))
    assert ask(torch.full((2,), 1e200, dtype=torch.float64, requires_grad=True)).isinf().all()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert ask(torch.full((2,), 1e200, dtype=torch.float64)).isinf().all()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_a_module_should_not_hold_are_named_beside_large_ones(value):
    """They are no size: beside them nothing is called the largest number."""
    head = nn.Linear(2, 1, bias=False).double()
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[1.0, value]]))
    with pytest.raises(ValueError, match=r"^head must be finite, got 1 NaN or infinite entries.*index \(0, 1\)"):
        checked(told)(torch.full((2,), 1e30, dtype=torch.float64), head)


def told(inputs: Floats, head: nn.Module) -> torch.Tensor:
    return head(inputs)


def plain_product(weight: Floats) -> torch.Tensor:
    return (weight * weight).as_subclass(There)
