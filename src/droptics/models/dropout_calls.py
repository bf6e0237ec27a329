"""Which functions of torch drop, and an interceptor that tells them from all others.

Watching an audit, masking copies and running predictions each do something else with such a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

# exported modules call the operator itself
ELEMENTWISE = {functional.dropout: "dropout", torch.ops.aten.dropout.default: "dropout"}
CHANNELWISE = {functional.dropout1d: "dropout1d", functional.dropout2d: "dropout2d", functional.dropout3d: "dropout3d"}
ALPHA = {functional.alpha_dropout: "alpha dropout", functional.feature_alpha_dropout: "feature alpha dropout"}
LINEAR = (functional.linear, torch.ops.aten.linear.default)
PLAIN = ELEMENTWISE | CHANNELWISE | ALPHA
PACKED = " of packed sequences"
RECURRENT = {
    torch.lstm: "LSTM dropout",
    torch.gru: "GRU dropout",
    torch.rnn_tanh: "RNN dropout",
    torch.rnn_relu: "RNN dropout",
}


class DropoutCalls(TorchFunctionMode):
    """Sees every torch function that is called, and tells calls that drop from all others."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        if func in PLAIN:
            return self._plain(func, args, options)
        if func is functional.scaled_dot_product_attention:
            return self._attention(func, args, options)
        if func is functional.multi_head_attention_forward:
            return self._multi_head(func, args, options)
        if func in RECURRENT:
            return self._recurrent(func, args, options)
        return self._other(func, args, options)

    def _other(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return func(*args, **options)

    _plain = _attention = _multi_head = _recurrent = _other
