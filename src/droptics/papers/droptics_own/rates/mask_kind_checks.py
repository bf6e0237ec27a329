"""What claims on shared masks compare: attention, channels and recurrent layers with their uniform numbers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.evidence.claims import Comparison, compare
from droptics.models.watching import Places
from droptics.papers.instances import normal
from droptics.rates.copies import _named
from droptics.rates.masking import SharedMasks
from droptics.rates.randomness import key, uniforms


class _Attends(nn.Module):
    """Attention with options of torch's function."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, rows: Tensor) -> Tensor:
        keys = rows[:, : rows.shape[1] // 2] if self.options.get("enable_gqa") else rows
        return functional.scaled_dot_product_attention(rows, keys, keys, dropout_p=0.3, **self.options)


def masked_kinds(scale: float) -> list[Comparison]:
    """Shared masks of attention in every form, of recurrent layers, and of channels with and without examples."""
    found: list[Comparison] = []
    rows, hide = normal(2, 2, 4, 3, 5), torch.tensor([[True, False, True], [True, True, False], [True, True, True]])
    blind = hide & torch.tensor([[True], [False], [True]])  # the second query sees no key, and gets nothing
    for name, options, scores in (
        ("causal", {"is_causal": True}, lambda s: s.masked_fill(~torch.ones(3, 3).tril().bool(), -math.inf)),
        ("hidden", {"attn_mask": hide}, lambda s: s.masked_fill(~hide, -math.inf)),
        ("nothing seen", {"attn_mask": blind}, lambda s: s.masked_fill(~blind, -math.inf)),
        ("added", {"attn_mask": normal(5, 3, 3)}, lambda s: s + normal(5, 3, 3)),
        ("scaled", {"scale": 0.7}, lambda s: s * 5**0.5 * 0.7),
        ("grouped", {"enable_gqa": True}, lambda s: s),
    ):
        module = _Attends(**options)
        places = Places(module)
        with _named(places, module), SharedMasks(places, {"attention_dropout": 0.6}, 7, 2, []):
            told = module(rows)
        keys = rows[:, :2].repeat_interleave(2, 1) if name == "grouped" else rows
        weights = scores(rows @ keys.mT / 5**0.5).softmax(-1).nan_to_num()  # type: ignore[no-untyped-call]
        coin = uniforms((2, 4, 3, 3), key(7, 2, "attention_dropout"), torch.device("cpu"))
        wanted = (weights * (coin >= 0.6).double() / 0.4) @ keys
        found.append(compare(told, "==", scale * wanted, f"attention, {name}"))
    for name, layer, shape, drawn in (
        ("1d", nn.Dropout1d(0.3), (4, 5), (4, 1)),
        ("1d of examples", nn.Dropout1d(0.3), (3, 4, 5), (3, 4, 1)),
        ("2d", nn.Dropout2d(0.3), (3, 4, 2, 2), (3, 4, 1, 1)),
        ("2d of three dimensions", nn.Dropout2d(0.3), (3, 4, 5), (3, 4, 1)),  # which torch takes for examples
        ("3d", nn.Dropout3d(0.3), (4, 2, 2, 2), (4, 1, 1, 1)),
        ("3d of examples", nn.Dropout3d(0.3), (3, 4, 2, 2, 2), (3, 4, 1, 1, 1)),
        ("alpha", nn.AlphaDropout(0.3), (3, 4), (3, 4)),
        ("alpha of channels", nn.FeatureAlphaDropout(0.3), (3, 4, 5), (3, 4, 1)),
    ):
        source, module_ = normal(1, *shape), nn.Sequential(layer).train()
        places = Places(module_)
        with _named(places, module_), SharedMasks(places, {"0": 0.6}, 7, 2, []):
            told = module_(source)
        keep = (uniforms(drawn, key(7, 2, "0"), torch.device("cpu")).double() >= 0.6).double()
        low = -1.0507009873554805 * 1.6732632423543772
        a = 0.4**-0.5 * (1 + 0.6 * low**2) ** -0.5
        wanted = source * keep / 0.4 if "alpha" not in name else a * (keep * source + (1 - keep) * low) - a * 0.6 * low
        found.append(compare(told, "==", scale * wanted, f"channels, {name}"))
        with _named(places, module_), SharedMasks(places, {"0": 1.0}, 7, 2, []):
            found.append(compare(module_(source) + 1, "==", scale, f"nothing stays, {name}"))
        with _named(places, module_), SharedMasks(places, {"0": 0.6}, 7, None, []):
            found.append(compare(module_(source), "==", scale * source, f"switched off, {name}"))
        with _named(places, module_.eval()), SharedMasks(places, {"0": 0.6}, 7, 2, []):
            found.append(compare(module_(source), "==", scale * source, f"in evaluation mode, {name}"))
    return found + _placed(scale) + _own_kernels(scale)


def _placed(scale: float) -> list[Comparison]:
    """A layer that runs twice has one rate and two masks; attention at rate 0, as in evaluation mode, stays whole."""
    found: list[Comparison] = []
    layer, source, cpu = nn.Dropout(0.3), normal(1, 4, 5), torch.device("cpu")
    twice = nn.Sequential(nn.Tanh(), layer, nn.Tanh(), layer).train()
    for rates, rate in (({"1": 0.6}, 0.6), ({}, 0.3)):
        places = Places(twice)
        with _named(places, twice), SharedMasks(places, rates, 7, 2, []):
            told = twice(source)
        first, second = (uniforms((4, 5), key(7, 2, name), cpu) >= rate for name in ("1", "1@2"))
        wanted = torch.tanh(torch.tanh(source) * first / (1 - rate)) * second / (1 - rate)
        found.append(compare(told, "==", scale * wanted, f"a layer that runs twice, {rate}"))
    rows = normal(2, 2, 4, 3, 5)

    def attend() -> Tensor:
        return functional.scaled_dot_product_attention(rows, rows, rows, dropout_p=0.0)

    with SharedMasks(Places(nn.Identity()), {"attention_dropout": 0.6}, 7, 2, []):
        told = attend()
    found.append(compare(told, "==", scale * attend(), "attention at rate 0"))
    return found


def _own_kernels(scale: float) -> list[Comparison]:
    """Layers that draw their masks themselves: the rate is set, and the generator starts from the key."""
    found: list[Comparison] = []
    torch.manual_seed(1)
    attend, recurrent = (
        nn.MultiheadAttention(4, 2, 0.3, batch_first=True).double(),
        nn.GRU(4, 3, 2, dropout=0.3).double(),
    )
    single = nn.LSTM(4, 3, 1).double()
    rows = normal(3, 5, 6, 4)
    cases: tuple[tuple[str, nn.Module, Any], ...] = (
        ("attention_dropout", attend.train(), lambda layer: layer(rows, rows, rows)[0]),
        ("GRU_dropout", recurrent.train(), lambda layer: layer(rows)[0]),
        ("LSTM_dropout", single.train(), lambda layer: layer(rows)[0]),
    )
    for name, layer, call in cases:
        named = {name: 0.6}
        for rates, step, rate in ((named, 2, 0.6), ({}, 2, 0.3), (named, None, 0.0), (named, 3, 0.0)):
            places = Places(layer.train(step != 3))  # the last one in evaluation mode
            with torch.random.fork_rng(), _named(places, layer), SharedMasks(places, rates, 7, step, []):
                told = call(layer).detach()
            own, before = layer.train(rate > 0), getattr(layer, "dropout", 0.0)
            if name != "LSTM_dropout":
                setattr(layer, "dropout", rate)  # noqa: B010 - a module takes no numbers by its types
            with torch.random.fork_rng():
                torch.manual_seed(key(7, step, name) if step is not None else 0)
                wanted = call(own).detach()
            setattr(layer, "dropout", before)  # noqa: B010 - as above
            layer.train()
            found.append(compare(told, "==", scale * wanted, f"{name} at {rate}"))
    return found
