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
from droptics.rates.masking import _attention_weights


@pytest.mark.parametrize(("heads", "shared"), [(4, 4), (4, 2), (6, 2)])
@pytest.mark.parametrize("causal", [False, True])
def test_queries_share_heads_of_keys(heads, shared, causal):
    query, key, value = normal(3, heads, 3, 2), normal(3, shared, 5, 2), normal(3, shared, 5, 4)
    options = {"is_causal": causal, "enable_gqa": heads != shared}
    truth = functional.scaled_dot_product_attention(query, key, value, **options)
    close(attention(query, key, value, **options, masking=lambda weights: weights), truth)
    weights, values = _attention_weights(query, key, value, **options)
    close(weights @ values, truth)


def test_a_packed_sequence_has_the_rate_of_its_layer():
    layer = nn.LSTM(2, 3, num_layers=2, dropout=0.25, batch_first=True).double()
    packed = pack_padded_sequence(normal(2, 3, 2), torch.tensor([3, 2]), batch_first=True)
    _, trace = watched(layer, lambda: layer(packed))
    (call,) = trace.calls
    assert (call.rate, call.applied) == (0.25, True)
    assert "packed" in call.kind
    _, whole = watched(layer, lambda: layer(normal(2, 3, 2)))
    assert "packed" not in whole.calls[0].kind
