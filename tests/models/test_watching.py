"""What is seen of dropout inside attention and recurrent layers, as they are written and switched."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from droptics.models.watching import all_on, as_written, only, watched


class Attending(nn.Module):
    """One call of attention with dropout."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(x, x, x, dropout_p=self.rate)


def off(site: str, rate: float) -> float:
    return 0.0


PARTS = {
    "attention": (Attending, "attention_dropout", "attention dropout"),
    "heads": (
        lambda rate: nn.MultiheadAttention(4, 2, dropout=rate, batch_first=True),
        "attention_dropout",
        "attention dropout",
    ),
    "lstm": (lambda rate: nn.LSTM(4, 4, 2, dropout=rate, batch_first=True), "LSTM_dropout", "LSTM dropout"),
    "gru": (lambda rate: nn.GRU(4, 4, 2, dropout=rate, batch_first=True), "GRU_dropout", "GRU dropout"),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize(
    ("switch", "applied"),
    [(as_written, True), (all_on, True), (off, False), (only("elsewhere"), False)],
    ids=["written", "on", "off", "elsewhere"],
)
def test_a_call_counts_as_dropping_when_it_drops(name, switch, applied):
    """Two runs differ exactly where a call is said to have dropped."""
    make, site, kind = PARTS[name]
    torch.manual_seed(1)
    part, x = make(0.4).train(), torch.randn(2, 6, 4)

    def run() -> torch.Tensor:
        outputs = part(x, x, x) if name == "heads" else part(x)
        return outputs[0] if isinstance(outputs, tuple) else outputs

    (first, trace), (second, _) = (watched(part, run, switch) for _ in range(2))
    (call,) = trace.calls
    assert (call.site, call.kind, call.rate, call.applied) == (site, kind, 0.4, applied)
    assert torch.equal(first, second) is not applied


@pytest.mark.parametrize("name", ["heads", "lstm", "gru"])
def test_in_evaluation_nothing_drops_unless_it_is_switched_on(name):
    make, site, _ = PARTS[name]
    part, x = make(0.4).eval(), torch.randn(2, 6, 4)

    def run() -> torch.Tensor:
        return part(x, x, x) if name == "heads" else part(x)

    for switch, applied in ((as_written, False), (all_on, True), (only(site), True), (only(site, 0.0), False)):
        _, trace = watched(part, run, switch)
        assert [call.applied for call in trace.calls] == [applied]
    part = make(0.0).train()
    _, trace = watched(part, run)
    assert trace.calls == []
