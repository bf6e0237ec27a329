"""Attention written out beside torch's own, and recurrent layers of packed sequences."""

import pytest
import torch
from cases import normal
from compare import close
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from droptics.models.unfused import attention
from droptics.models.watching import watched


@pytest.mark.parametrize(("heads", "shared"), [(4, 4), (4, 2), (6, 2)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3, 2.0])
def test_queries_share_heads_of_keys(heads, shared, causal, scale):
    query, key, value = normal(3, heads, 3, 2), normal(3, shared, 5, 2), normal(3, shared, 5, 4)
    options = {"is_causal": causal, "scale": scale, "enable_gqa": heads != shared}
    truth = functional.scaled_dot_product_attention(query, key, value, **options)
    close(attention(query, key, value, **options, masking=lambda weights: weights), truth)


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_row_without_any_key_is_zero_and_has_no_gradient(kind):
    seen = torch.tensor([[False, False], [True, False], [True, True]])
    mask = seen if kind == "bool" else torch.zeros(3, 2, dtype=torch.float64).masked_fill(~seen, -torch.inf)
    given = [normal(3, 3, 2).requires_grad_(), *(normal(3, 2, 2).requires_grad_() for _ in range(2))]
    truth = functional.scaled_dot_product_attention(*given, attn_mask=mask)
    told = attention(*given, attn_mask=mask, masking=lambda weights: weights)
    close(told, truth)
    assert float(told[:, 0].detach().abs().max()) == 0
    for own, wanted in zip(*(torch.autograd.grad(one.square().sum(), given) for one in (told, truth)), strict=True):
        close(own, wanted)


def test_a_packed_sequence_has_the_rate_of_its_layer():
    layer = nn.LSTM(2, 3, num_layers=2, dropout=0.25, batch_first=True).double()
    packed = pack_padded_sequence(normal(2, 3, 2), torch.tensor([3, 2]), batch_first=True)
    _, trace = watched(layer, lambda: layer(packed))
    (call,) = trace.calls
    assert (call.rate, call.applied) == (0.25, True)
    assert "packed" in call.kind
    _, whole = watched(layer, lambda: layer(normal(2, 3, 2)))
    assert "packed" not in whole.calls[0].kind
