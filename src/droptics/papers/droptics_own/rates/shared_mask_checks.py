"""What the claim on shared masks compares: the masks of copies at several rates."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.evidence.claims import Comparison, compare
from droptics.models.watching import Places
from droptics.rates.masking import SharedMasks

UNITS, RATES = 40_000, (0.0, 0.05, 0.2, 0.3, 0.6)


class _Attention(nn.Module):
    """The weights of attention that looks everywhere alike, behind its dropout."""

    def forward(self, values: Tensor) -> Tensor:
        rest = torch.zeros_like(values)
        return functional.scaled_dot_product_attention(rest, rest, values, dropout_p=0.5)


# places of every kind: their names, and inputs whose outputs are the same for all units that stay
PLACES: dict[str, tuple[nn.Module, Tensor]] = {
    "dropout": (nn.Dropout(0.5), torch.ones(200, 200)),
    "dropout1d": (nn.Dropout1d(0.5), torch.ones(200, 200, 2)),
    "alpha_dropout": (nn.AlphaDropout(0.5), torch.ones(200, 200)),
    "feature_alpha_dropout": (nn.FeatureAlphaDropout(0.5), torch.ones(200, 200, 2)),
    "attention_dropout": (_Attention(), torch.eye(200)),
}


def _outputs(name: str, rate: float | Tensor, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    layer, source = PLACES[name]
    with SharedMasks(Places(layer), {name: rate}, seed, 0, []):
        told: Tensor = layer(source.to(dtype))
    return told


def _fallen(told: Tensor) -> Tensor:
    """Which units fell; what a channel holds falls together."""
    fell = told < (told.max() + told.min()) / 2
    assert fell.ndim == 2 or bool((fell[..., 0] == fell[..., 1]).all())
    return (fell if fell.ndim == 2 else fell[..., 0]).flatten()


def shared_masks(shared: bool) -> list[Comparison]:
    """Units that fall at the lower rate alone, and the share of units at which two copies differ.

    In every kind of dropout, in single and double precision, and of copies that torch.func.vmap runs together.
    """
    found = []
    for name, dtype in itertools.product(PLACES, (torch.float32, torch.float64)):
        told = [_outputs(name, rate, 0 if shared else place, dtype) for place, rate in enumerate(RATES)]
        found += _nested([_fallen(one) for one in told], f"{name}, {dtype}")
        found.append(compare(_outputs(name, 1.0, 0, dtype), "==", 0.0, f"everything falls at 1, {name}, {dtype}"))
    together = torch.func.vmap(lambda rate: _outputs("dropout", rate, 0), randomness="same")(torch.tensor(RATES))
    return [*found, *_nested([_fallen(one) for one in together], "copies together")]


def _nested(fallen: list[Tensor], kind: str) -> list[Comparison]:
    found = []
    for rate, one in zip(RATES, fallen, strict=True):
        error = math.sqrt(rate * (1 - rate) / UNITS)
        share = abs(float(one.double().mean()) - rate)
        found.append(compare(share, "<=", 5 * error, f"share that falls at {rate}, {kind}"))
        # units of one copy fall independently of their neighbors
        pairs = float((one[1:] & one[:-1]).double().mean())
        found.append(compare(abs(pairs - rate**2), "<=", 5 * rate / math.sqrt(UNITS), f"neighbors at {rate}, {kind}"))
    for (p, low), (q, high) in itertools.combinations(zip(RATES, fallen, strict=True), 2):
        differing, least, label = float((low ^ high).double().mean()), q - p, f"{p} and {q}, {kind}"
        error = math.sqrt(least * (1 - least) / UNITS)
        found.append(compare(float((low & ~high).sum()), "==", 0.0, f"fall at the lower alone, {label}"))
        found.append(compare(abs(differing - least), "<=", 5 * error, f"share that differs, {label}"))
        # masks with these numbers of zeros differ at least where these numbers do
        bound = abs(float(high.double().mean() - low.double().mean()))
        found.append(compare(differing, "==", bound, f"the least that they can, {label}"))
    return found
