"""What a claim compares on companions, modes, weighed energies and triangles, which few calls ask for."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn
from torch.nn import functional

from droptics.audits.tallies import Mean
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.landscapes.units import in_own_units
from droptics.linalg import equalize_columns
from droptics.linalg.gram import triangular
from droptics.masks import Bernoulli, Block, Product
from droptics.models import DeepLinear, TwoLayerLinear
from droptics.models.modules import evaluating
from droptics.models.unfused import attention
from droptics.models.watching import all_off, all_on, as_written, only, watched
from droptics.optima import certify
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import moments, normal, simplex, tensor
from droptics.penalties import criterion
from droptics.predictions.deep_linear import deep_covariance, deep_variance
from droptics.rates import tune_rates
from droptics.recommenders import DropoutCompletion


def seen_again(scale: float) -> list[Comparison]:
    """Triangles of many rows, companions, modes, weighed energies, units, clipped ratings, heads without a bias."""
    found: list[Comparison] = []
    rows, goals = normal(1, 700, 3), normal(2, 700, 2)
    triangle, loads, beyond = triangular(rows, goals)
    least = (goals - rows @ torch.linalg.lstsq(rows, goals).solution).square().sum()
    found.append(compare(triangle.mT @ triangle, "==", scale * rows.mT @ rows, "a triangle of many rows"))
    found.append(compare(triangle.mT @ loads, "==", scale * rows.mT @ goals, "targets on it"))
    found.append(compare(beyond, "==", scale * least, "what is left of them"))
    factor, other = normal(3, 4, 3).requires_grad_(), normal(4, 2, 3)
    turned, companion = equalize_columns(factor, other)
    found.append(compare(turned.square().sum(0), "==", scale * factor.square().sum() / 3, "equal columns"))
    found.append(compare(turned @ companion.mT, "==", scale * factor @ other.mT, "companions turn with them"))
    for name, lies in (("rows", normal(3, 4, 3)), ("columns", normal(3, 3, 4).mT)):
        given = lies.clone(memory_format=torch.preserve_format)
        alone = equalize_columns(given)[0]
        found.append(compare(alone.square().sum(0), "==", scale * lies.square().sum() / 3, f"alone, by {name}"))
        found.append(same(torch.equal(given, lies), True, f"given by {name} it stays as it is", scale))
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5), nn.BatchNorm1d(2)).train()
    net[2].eval()
    with evaluating(net):
        inside = [float(part.training) for part in net.modules()]
        with evaluating(net):
            pass
    found.append(compare(inside, "==", 0.0, "evaluation for a while"))
    own = [float(part.training) for part in net.modules()]
    found.append(compare(own, "==", tensor([1.0, 1, 1, 0]) * scale, "every part in its own mode again"))
    data = Sample(normal(5, 7, 4), normal(6, 7, 2), simplex(7, 7) * 3)
    model = TwoLayerLinear(normal(8, 2, 3), normal(9, 4, 3))
    size = data.shares @ data.targets.square().sum(1)
    found.append(
        compare(certify(model, data, Bernoulli(0.3, 3)).scale, "==", scale * size, "energy of weighed targets")
    )
    known = moments(10, 2, 4)
    known = type(known)(known.xx, 6 * known.yx, 36 * known.yy)
    law = Product([Bernoulli(0.3, 3), Bernoulli(0.2, 3)])
    for one, masks in (
        (model, Bernoulli(0.3, 3)),
        (DeepLinear([normal(11, 3, 4), normal(12, 3, 3), normal(13, 2, 3)]), law),
    ):
        moved, scaled = in_own_units(one, known)
        unit = math.sqrt(float(known.yy.trace() / scaled.yy.trace()))
        wanted = criterion(one, known, masks).value / unit**2
        found.append(compare(criterion(moved, scaled, masks).value, "==", scale * wanted, "other units, one criterion"))
        found.append(compare(math.log2(unit) % 1, "==", 0.0, "a power of two"))
        found.append(compare(scaled.yy.trace(), "<=", 4.0 / scale, "of ordinary size"))
    return [*found, *_covariances(scale), *_watched(scale), *_fitted(scale), *_tallied(scale)]


def _covariances(scale: float) -> list[Comparison]:
    """Deep covariances over all masks, as many examples as nothing else counts."""
    found: list[Comparison] = []
    model = DeepLinear([normal(1, 4, 3), normal(2, 4, 4), normal(3, 2, 4)])
    inputs = normal(4, 5, 3)
    for name, law in (
        ("independent", Product([Bernoulli(0.3, 4), Bernoulli(tensor([0.1, 0.5, 0.2, 0.4]), 4)])),
        ("blocks", Product([Block(0.3, 4, 2), Block(0.4, 4, 2)])),
    ):
        masks, chances = (torch.cat(part) for part in zip(*law.atom_batches(4096), strict=True))
        outputs = model.outputs(inputs, masks[:, None])
        off = outputs - torch.tensordot(chances, outputs, 1)
        joint = torch.einsum("m,mno,mnp->nop", chances, off, off)
        found.append(compare(deep_covariance(model, inputs, law), "==", scale * joint, f"covariance, {name}"))
        alone = joint.diagonal(dim1=1, dim2=2)
        found.append(compare(deep_variance(model, inputs, law), "==", scale * alone, f"variance, {name}"))
    return found


class _Attending(nn.Module):
    """One call of attention with dropout and a mask that is added."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x, x, x, attn_mask=self.bias, dropout_p=0.4)

    def __init__(self, bias: Tensor) -> None:
        super().__init__()
        self.bias = bias


def _watched(scale: float) -> list[Comparison]:
    """Calls of attention and recurrent layers: where, at which rate, and whether they drop, as two runs tell."""
    found: list[Comparison] = []
    x = normal(1, 2, 3, 4)
    parts: dict[str, tuple[nn.Module, str]] = {
        "attention": (_Attending(normal(2, 3, 3)), "attention_dropout"),
        "heads": (nn.MultiheadAttention(4, 2, dropout=0.4, batch_first=True), "attention_dropout"),
        "lstm": (nn.LSTM(4, 4, 2, dropout=0.4, batch_first=True), "LSTM_dropout"),
        "gru": (nn.GRU(4, 4, 2, dropout=0.4, batch_first=True), "GRU_dropout"),
    }
    for name, (part, site) in parts.items():
        part.double().train()

        def run(part: nn.Module = part, name: str = name) -> Any:
            outputs = part(x, x, x) if name == "heads" else part(x)
            return outputs[0] if isinstance(outputs, tuple) else outputs

        cases = ((as_written, 1.0), (all_on, 1.0), (all_off, 0.0), (only("elsewhere"), 0.0), (only(site, 0.7), 1.0))
        for number, (switch, drops) in enumerate(cases):
            torch.manual_seed(5)
            (first, trace), (second, _) = (watched(part, run, switch) for _ in range(2))
            (call,) = trace.calls
            label = f"{name}, switch {number}"
            found.append(compare(float(call.applied), "==", scale * drops, f"applied, {label}"))
            found.append(compare(float(not torch.equal(first, second)), "==", drops, f"two runs, {label}"))
            found.append(compare(call.rate, "==", scale * 0.4, f"rate, {label}"))
            found.append(compare(float(call.site == site), "==", 1.0, f"place, {label}"))
    bias = normal(2, 3, 3)
    for name, mask in (("added", bias), ("allowed", bias > -0.5)):
        wanted = functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)
        told = attention(x, x, x, attn_mask=mask, masking=lambda weights: weights)
        found.append(compare(told, "==", scale * wanted, f"attention written out, {name}"))
    wanted = functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    told = attention(x, x, x, is_causal=True, masking=lambda weights: weights)
    return [*found, compare(told, "==", scale * wanted, "attention written out, causal")]


def _fitted(scale: float) -> list[Comparison]:
    """Ratings stay in their range, what is not fitted is refused, and heads without a bias have none."""
    rows, columns = np.repeat(np.arange(8), 4), np.tile(np.arange(4), 8)
    values = np.where((rows + columns) % 2 == 0, 5.0, 1.0)
    told = {}
    for clip in (False, True, (2.0, 3.0)):
        fit: Any = DropoutCompletion(2, 0.01, seed=1, sweeps=20, dtype="float64", clip=clip)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told[clip] = fit.fit((rows[:-1], columns[:-1], values[:-1])).predict(rows, columns)
    found = [
        compare(told[True], "==", scale * told[False].clip(1.0, 5.0), "in the range of the ratings"),
        compare(told[(2.0, 3.0)], "==", scale * told[False].clip(2.0, 3.0), "in a given range"),
    ]
    try:
        DropoutCompletion(2, 0.3).predict(rows, columns)
        refused = 0.0
    except NotFittedError:
        refused = 1.0
    found.append(compare(refused, "==", 1.0, "what is not fitted"))
    body, head = linear_head(1, 3, 4), nn.Linear(4, 2, bias=False).double()
    module = nn.Sequential(body, nn.Tanh(), nn.Dropout(0.3), head)
    train, held = ((normal(k, n, 3), normal(k + 1, n, 2) + 1) for k, n in ((2, 20), (4, 30)))
    answer = tune_rates(module, train, held, scan=(0.0, 0.4), progress=False)
    with torch.no_grad():
        h, g = (torch.tanh(body(part)) for part in (train[0], held[0]))
    for rate, point in zip((0.0, 0.4), answer.points, strict=True):
        system = h.mT @ h + rate / (1 - rate) * torch.diag(h.square().sum(0))
        W = torch.linalg.solve(system, h.mT @ train[1])
        wanted = (g @ W - held[1]).square().sum(1).mean()
        found.append(compare(point.loss or 0.0, "==", scale * wanted, f"a head without a bias, {rate}", precision=1e-8))
    return found


def _tallied(scale: float) -> list[Comparison]:
    """Means over draws and examples, their standard errors, merged."""
    first, second = Mean(), Mean()
    a, b = normal(1, 6, 4), normal(2, 9, 3)
    first.add_rows(a, torch.ones(4).double())
    second.add_rows(b, tensor([1.0, 2.0, 1.0]))
    both = first.merge(second)
    total = a.mean(0).sum() + b.mean(0).sum()
    spread = (a.var(0) / 6).sum() + (b.var(0) / 9).sum()
    return [
        compare(both.value, "==", scale * total / 8, "a mean of two batches"),
        compare(both.error, "==", scale * spread.sqrt() / 8, "its standard error"),
        compare(first.error, "==", scale * (a.var(0) / 6).sum().sqrt() / 4, "of one of them"),
    ]
