"""Deep linear networks, which are not linear in the mask: their penalty by propagating second moments."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from droptics.answers import checked
from droptics.arguments import Count, check_arguments
from droptics.arrays import Array
from droptics.checks import as_drop, check_size
from droptics.data import Data, Sample
from droptics.errors import NoClosedForm
from droptics.estimates import Error, Estimate
from droptics.linalg.sums import products
from droptics.losses import Loss, Squared
from droptics.masks import MaskLaw, Product
from droptics.masks.correlations import LARGEST
from droptics.models import DeepLinear, Model
from droptics.penalties.closed_form import input_moment
from droptics.penalties.methods import ClosedForm
from droptics.penalties.rounding import deferred, input_scale, roundings
from droptics.penalties.rules import covered_rule, penalty_rule
from droptics.progress import tracked
from droptics.transforms import wants_derivative

# Up to this width a layer takes longer to call than to compute.
TINY = 64


@penalty_rule.register
def _(model: DeepLinear, data: Data, masks: MaskLaw, method: ClosedForm, loss: Loss) -> Estimate:
    if not isinstance(loss, Squared):
        return penalty_rule.dispatch(Model)(model, data, masks, method, loss)
    value, error = deep_penalty(model, data, masks)
    return Estimate.exact(value, "closed form (second-moment propagation)", error=error)


@covered_rule.register
def _(model: DeepLinear, masks: MaskLaw, loss: Loss, data: Data | None = None) -> bool:
    if not isinstance(loss, Squared):
        return False
    try:
        layer_laws(model, masks)
    except NoClosedForm:
        return False
    return True


def layer_laws(model: DeepLinear, masks: MaskLaw) -> tuple[MaskLaw, ...]:
    """One independent law per masked layer; refuses laws that may correlate layers."""
    laws = masks.laws if isinstance(masks, Product) else (masks,)
    if max(model.layer_units, default=0) > LARGEST:
        raise NoClosedForm(
            f"second moments of a layer of {max(model.layer_units)} units are too many, the limit is {LARGEST} units; "
            "use MonteCarlo()"
        )
    if len(model.layer_units) == 1 and masks.size == model.units:
        return (masks,)
    if tuple(law.size for law in laws) != model.layer_units:
        count = masks.support_count
        enumerable = "" if count is None or count > 1 << 48 else f"Enumerate(limit={count}) or "
        raise NoClosedForm(
            f"the closed form of DeepLinear needs one independent law per masked layer, "
            f"Product([law of size {', law of size '.join(map(str, model.layer_units))}]); {type(masks).__name__} with "
            f"sizes {tuple(law.size for law in laws)} may correlate layers; use {enumerable}MonteCarlo()"
        )
    return laws


@dataclass(frozen=True, eq=False)
class PivotGram:
    """M o R^T R for a layer with second moment M and the map R to the outputs: what it adds as the last pivot."""

    moment: Tensor
    gain: Tensor

    def energies(self) -> Tensor:
        """Its diagonal, O(outputs units)."""
        return torch.diagonal(self.moment, dim1=-2, dim2=-1) * self.gain.square().sum(-2)

    def part(self, rows: slice, columns: slice) -> Tensor:
        """Some of its rows and columns."""
        return self.moment[..., rows, columns] * (self.gain[..., rows].mT @ self.gain[..., columns])


def deep_penalty(model: DeepLinear, data: Data, masks: MaskLaw) -> tuple[Tensor, Error]:
    """Exact penalty of a deep linear network by propagating second moments (thesis-prop8), and its rounding.

    With M_i the second moment of layer i under the masks before it, M_{i+1} = W ((1 + Cbar_i) o M_i) W^T, and R_i the
    map from layer i to the outputs, the penalty is sum_i <Cbar_i, M_i o R_i^T R_i>. Only non-negative terms are added
    (no difference of large numbers, also for tiny rates). O(depth width^3) instead of a sum over all pivot paths, and
    as much memory as the weights.
    """
    laws = layer_laws(model, masks)
    error = deferred(_deep_rounding, model, data, laws)
    # fewer examples than features: their outer product is never formed, only that of the first hidden layer
    wide = isinstance(data, Sample) and len(data) <= model.input_size and not model.mask_inputs
    moment = _first_moment(model, data) if wide else input_moment(model, data)  # type: ignore[arg-type]
    strengths = [law.relative_variance for law in laws]
    parts = [*model.weights, moment, *strengths]
    tiny = all(part.shape[0] <= TINY and part.ndim < 3 for part in parts)
    if moment.device.type == "cpu" and tiny and not wants_derivative(*parts):
        layers = [part.numpy() for part in model.weights]
        inputs = [np.eye(model.input_size, dtype=layers[0].dtype)] if model.mask_inputs else []
        known = [(law, strength.numpy()) for law, strength in zip(laws, strengths, strict=True)]
        return moment.new_tensor(_tiny_penalty([*inputs, *layers], moment.numpy(), known, moved=wide)), error
    first, between = model.weights[0], model.weights[-len(laws) : -1]
    gains = [model.weights[-1]]
    for weight in reversed(between):
        gains.append(gains[-1] @ weight)
    moment = moment if wide or model.mask_inputs else first @ moment @ first.mT
    value = laws[0].weigh(PivotGram(moment, gains.pop()))
    pairs = list(zip(between, itertools.pairwise(laws), strict=True))
    for weight, (before, law) in tracked(pairs, "exact penalty", "layer"):
        moment = weight @ (moment + before.hadamard(moment)) @ weight.mT
        value = value + law.weigh(PivotGram(moment, gains.pop()))
    return value, error


def _first_moment(model: DeepLinear, sample: Sample) -> Tensor:
    """Second moment of the first hidden layer."""
    hidden = (sample.inputs * sample.shares.sqrt()[:, None]) @ model.weights[0].mT
    return products(hidden, hidden)


def _deep_rounding(model: DeepLinear, data: Data, laws: Sequence[MaskLaw]) -> Tensor:
    """Relative to the penalty of absolute weights, or more: |S_ij| <= p_i p_j and |D_ij| <= q_i q_j in every layer."""
    plain = input_scale(data).unsqueeze(-1)
    noisy = torch.zeros_like(plain)
    rates = [law.relative_variance.detach().to(plain).unsqueeze(-1) for law in laws]
    if model.mask_inputs:
        noisy = rates.pop(0).sqrt() * plain
    for weight, rate in zip(model.weights[:-1], rates, strict=True):
        plain, noisy = weight.abs() @ plain, weight.abs() @ noisy
        noisy = (noisy.square() + rate * (noisy.square() + plain.square())).sqrt()
    scale = (model.weights[-1].abs() @ noisy).square().sum((-2, -1))
    return (roundings(model, data) + 3 * sum(model.layer_units)) * torch.finfo(model.dtype).eps / 2 * scale


def _tiny_penalty(layers: list[Array], second: Array, laws: list[tuple[MaskLaw, Array]], moved: bool) -> float:
    """The propagation of `deep_penalty` in NumPy, whose calls on small arrays are much cheaper.

    One network, every law with its relative variances; `layers` stand between the inputs of the first mask and the
    outputs, and `moved` says that `second` is behind the first of them already.
    """
    excess = np.zeros((len(layers[0][0]),) * 2, second.dtype)
    for weight, (law, strengths) in zip(layers[:-1], laws, strict=True):
        second = second if moved else weight @ second @ weight.T
        moved = False
        excess = weight @ excess @ weight.T
        law.add_noise_(excess, second, strengths)
    return float(np.vdot(layers[-1] @ excess, layers[-1]))


@checked
def sub_penalties(model: DeepLinear, data: Data, masks: MaskLaw) -> Tensor:
    """The terms lambda^l R_l of the penalty by the number l of pivot layers, l = 1, ..., masked layers (thesis-prop8).

    They sum to the penalty. Conditions: squared loss, one independent law per masked layer. Coefficient lists are
    propagated: with S^(l) the part of the second moment with l pivots,
    S_i^(l) = W_i S_{i-1}^(l) W_i^T + Cbar_i o (W_i S_{i-1}^(l-1) W_i^T). O(depth^2 width^3), no cancellation.
    """
    laws = layer_laws(model, masks)
    parts = [input_moment(model, data)]
    if model.mask_inputs:
        parts.append(laws[0].hadamard(parts[0]))
        laws = laws[1:]
    for weight, law in zip(model.weights[:-1], laws, strict=True):
        moved = [weight @ part @ weight.mT for part in parts]
        noise = [law.hadamard(part) for part in moved]
        parts = [moved[0], *(m + n for m, n in zip(moved[1:], noise[:-1], strict=True)), noise[-1]]
    last = model.weights[-1]
    return torch.stack([((last @ part) * last).sum((-2, -1)) for part in parts[1:]], dim=-1)


def effective_strength(widths: tuple[Count, ...] | list[Count], drop: float | Tensor) -> Tensor:
    """Nu = prod_i (1 + lambda_i / width_i) - 1, the strength of the deep envelope nu ||.||_*^2 (thesis-def4).

    `drop` is one rate or one per hidden layer. Computed as expm1(sum log1p), accurate for tiny rates.

    Cost: O(layers).

    >>> round(float(effective_strength((5, 5, 5, 5, 5), 0.3)), 4)
    0.5086
    """
    check_arguments(effective_strength, locals())
    from_rates = _strengths(tuple(widths), drop)
    sizes = torch.tensor(tuple(widths), dtype=from_rates.dtype, device=from_rates.device)
    return torch.expm1(torch.log1p(from_rates / sizes).sum(-1))


def _strengths(widths: tuple[int, ...], drop: float | Tensor) -> Tensor:
    rates = as_drop(drop)
    if not widths:
        raise ValueError("widths must hold at least one hidden width, got none")
    if rates.ndim:
        check_size("drop", rates.shape[-1], len(widths), "one rate per hidden layer")
    return rates / (1 - rates)
