"""Closed forms say how far rounding can have moved them: more than nothing, and enough."""

import pytest
import torch
from cases import normal

from droptics.data import Entries, Sample
from droptics.masks import Bernoulli, Block
from droptics.models import Autoencoder, Connections, DeepLinear, Factorization, TwoLayerLinear
from droptics.penalties import criterion, penalty

CASES = {
    "two-layer": lambda of: (TwoLayerLinear(of(3, 6), of(4, 6)), Bernoulli(0.3, 6)),
    "blocks": lambda of: (TwoLayerLinear(of(3, 6), of(4, 6)), Block(0.3, 6, 2)),
    "tied": lambda of: (Autoencoder(of(4, 6)), Bernoulli(0.3, 6)),
    "connections": lambda of: (Connections(of(3, 6), of(4, 6)), Bernoulli(0.3, 24)),
    "deep": lambda of: (DeepLinear([of(5, 4), of(3, 5)]), Bernoulli(0.3, 5)),
    "factors": lambda of: (Factorization(of(7, 3), of(6, 3)), Bernoulli(0.3, 3)),
}


def answer(name, question, dtype):
    """On the numbers that float32 holds, computed in the given precision."""

    def of(*shape, seed=0):
        return normal(*shape, seed=seed).float().to(dtype)

    model, law = CASES[name](of)
    data = Sample(of(50, 4, seed=5), of(50, 4 if name == "tied" else 3, seed=6))
    if name == "factors":
        data = Entries(torch.arange(20) % 7, torch.arange(20) % 6, of(20, seed=7), (7, 6))
    return question(model, data, law)


@pytest.mark.parametrize("question", [penalty, criterion])
@pytest.mark.parametrize("name", CASES)
def test_rounding_is_bounded_and_not_denied(name, question):
    single, double = answer(name, question, torch.float32), answer(name, question, torch.float64)
    for found in (single, double):
        assert 0 < float(found.error) < 1e-2 * float(found)
        assert float(found.error) >= torch.finfo(found.value.dtype).eps / 4 * float(found)
    assert abs(float(single) - float(double)) <= float(single.error) + float(double.error)
