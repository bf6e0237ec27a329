"""What is seen of dropout inside attention and recurrent layers, as they are written and switched."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from droptics.models.modes import training_without_statistics
from droptics.models.replaying import Recording
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
        return (part(x, x, x) if name == "heads" else part(x))[0]

    for switch, applied in ((as_written, False), (all_on, True), (only(site), True), (only(site, 0.0), False)):
        (first, trace), (second, _) = (watched(part, run, switch) for _ in range(2))
        assert [call.applied for call in trace.calls] == [applied]
        assert torch.equal(first, second) is not applied
    assert not part.training
    part = make(0.0).train()
    _, trace = watched(part, run)
    assert trace.calls == []


@pytest.mark.parametrize("examples", [1, 3, 5])
def test_attention_with_fewer_heads_of_keys_under_given_masks(examples):
    """Head by head by the formula, the weights multiplied by the mask: two heads of queries read one of keys."""
    generator = torch.Generator().manual_seed(2)
    query = torch.randn(examples, 4, 5, 3, generator=generator, dtype=torch.float64)
    keys, values = (torch.randn(examples, 2, 6, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    mask = 2.0 * torch.randint(0, 2, (examples, 4, 5, 6), generator=generator).double()

    def run() -> torch.Tensor:
        return functional.scaled_dot_product_attention(query, keys, values, dropout_p=0.5, enable_gqa=True)

    outputs, _ = watched(nn.Identity(), run, lambda site, rate: lambda source: mask)
    for head in range(4):
        weights = (query[:, head] @ keys[:, head // 2].mT / 3**0.5).softmax(-1) * mask[:, head]
        # sums of 6 products of numbers below 10: some hundred roundings of 1e-15 each
        assert float((outputs[:, head] - weights @ values[:, head // 2]).abs().max()) < 1e-12


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_dropout_between_layers_of_packed_sequences_is_named_so(name):
    """One call, told apart from that of padded sequences, with the numbers of torch's own."""
    torch.manual_seed(0)
    part, inputs = getattr(nn, name)(4, 5, 2, dropout=0.4).train(), torch.randn(6, 3, 4)
    packed = nn.utils.rnn.pack_padded_sequence(inputs, [6, 4, 3])

    def seen(given: object) -> tuple[torch.Tensor, str]:
        torch.manual_seed(1)
        (outputs, _), trace = watched(part, lambda: part(given))
        (call,) = trace.calls
        assert (call.site, call.rate, call.applied) == (f"{name}_dropout", 0.4, True)
        return outputs, call.kind

    outputs, kind = seen(packed)
    torch.manual_seed(1)
    assert torch.equal(outputs.data, part(packed)[0].data)
    assert kind == f"{name} dropout of packed sequences"
    assert seen(inputs)[1] == f"{name} dropout"


def test_a_mask_of_the_second_call_of_a_layer_falls_there_when_the_first_is_replayed():
    """The second call keeps its own name, and its mask is the one that multiplies: by hand, layer by layer."""
    generator = torch.Generator().manual_seed(0)
    drop = nn.Dropout(0.5)
    part = nn.Sequential(nn.Linear(3, 4), drop, nn.Linear(4, 4), drop, nn.Linear(4, 2)).double()
    with torch.no_grad():
        for weight in part.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    x = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    mask = 2.0 * torch.randint(0, 2, (5, 4), generator=generator).double()
    recording = Recording()
    with torch.no_grad():
        watched(part, lambda: part(x), off, recording=recording)
        outputs, _ = watched(
            part,
            lambda: part(x),
            lambda site, rate: (lambda source: mask) if site == "1@2" else 0.0,
            replay=(recording, recording.places["1@2"]),
        )
        expected = part[4](part[2](part[0](x)) * mask)
    # sums of at most 4 products, three times over
    assert float((outputs - expected).abs().max()) <= 1e-12 * float(expected.abs().max())


@pytest.mark.parametrize("inplace", [False, True])
def test_a_given_mask_leaves_what_it_falls_on_alone(inplace):
    """Who reads the input of a site behind it reads what it was; a place without multipliers gives a copy on."""
    x, drop = torch.arange(1.0, 7.0).reshape(2, 3), nn.Dropout(0.5, inplace)
    part, mask = nn.Sequential(drop), torch.tensor([0.0, 2.0, 3.0])
    outputs, _ = watched(part, lambda: part(x) + 10 * x, lambda *_: lambda _: mask)
    assert torch.equal(x, torch.arange(1.0, 7.0).reshape(2, 3))
    assert torch.equal(outputs, x * mask + 10 * x)
    outputs, _ = watched(part, lambda: part(x), lambda *_: lambda _: None)
    assert torch.equal(outputs, x)
    assert outputs.data_ptr() != x.data_ptr()


class Telling(nn.Module):
    """A layer that returns more than its outputs."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, str, int]:
        return 3 * x, "state", 7


def test_a_layer_that_is_left_out_returns_its_inputs_and_all_else():
    part, x = nn.Sequential(Telling()), torch.arange(3.0)
    for left_out, factor in ((True, 1), (False, 3)):
        (outputs, *more), _ = watched(part, lambda: part(x), lambda *_, o=left_out: float(o), skips={"0": 0.5})
        assert torch.equal(outputs, factor * x)
        assert more == ["state", 7]


@pytest.mark.parametrize("family", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_recurrent_layer_alone_has_nothing_to_drop(family):
    part, x = family(4, 3, 1).train(), torch.randn(5, 2, 4)
    part.dropout = 0.4  # torch warns where it is made so
    outputs, trace = watched(part, lambda: part(x)[0])
    assert [(call.rate, call.applied, call.asked) for call in trace.calls] == [(0.4, False, False)]
    part.dropout = 0.0
    assert torch.equal(outputs, part(x)[0])


def test_another_rate_is_that_of_a_layer_made_with_it():
    x = torch.randn(50, 4)
    for family in (nn.Dropout, nn.AlphaDropout):
        part = nn.Sequential(family(0.4)).train()
        torch.manual_seed(3)
        wanted = family(0.7)(x)
        torch.manual_seed(3)
        outputs, trace = watched(part, lambda part=part: part(x), only("0", 0.7))
        assert torch.equal(outputs, wanted)
        assert [(call.rate, call.applied) for call in trace.calls] == [(0.4, True)]


def test_quiet_parts_stay_in_evaluation_but_not_what_they_hold():
    module = nn.Sequential(nn.Sequential(nn.Dropout(), nn.BatchNorm1d(3)), nn.Dropout(), nn.LayerNorm(3)).eval()
    training_without_statistics(module, ["0", "2"])
    told = {name: part.training for name, part in module.named_modules()}
    assert told == {"": True, "0": False, "0.0": True, "0.1": False, "1": True, "2": False}
