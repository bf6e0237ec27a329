"""Deep linear networks: the exact induced penalty as a small geometric program, and its convex envelope.

With s the singular values of W E[x x^T]^(1/2) and a_i = lambda_i / width_i, the least penalty of a map is

    Theta(s) = min over x_1, ..., x_k in the simplex of  sum_j s_j^2 (prod_i (1 + a_i / x_i(j)) - 1).

Proof. Peeling the last hidden layer (k = 1: a ||B||_*^2 = min over K > 0 with trace 1 of a tr(B^T K^-1 B)) again and
again gives Theta(M) + ||M||^2 = min ||T_1 ... T_k M||^2 over T_i = (I + a_i K_i^-1)^(1/2); K_i diagonal in the singular
basis of M give the formula, and no others do better. For all A, B the vector with entries
log sigma_i(A B) - log sigma_i(B), values in descending order, is majorized by log sigma(A) (Gel'fand and Naimark 1950:
scale A to sigma_m(A) = 1 and raise its smaller values to 1; every ratio sigma_i(A B) / sigma_i(B) grows, none is below
1, and all of them multiply to det A = sigma_1(A) ... sigma_m(A), which therefore bounds the product of any m ratios).
One factor after the other, ||T_1 ... T_k M||^2 = sum_j s_j^2 exp(2 sum_i d_i(j)) with d_i majorized by log sigma(T_i),
and since h -> a_i / (exp(2 h) - 1) is convex, x_i(j) = a_i / (exp(2 d_i(j)) - 1) sums to at most tr K_i = 1. Maps
without an inverse are limits of maps with one. The network that `optimum` and `equalize` build attains the value.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from droptics.data import Data, Moments
from droptics.envelopes.envelope import Value, envelope_rule, induced_rule
from droptics.envelopes.rounding import deep_rounding, norm_rounding
from droptics.errors import NoClosedForm
from droptics.linalg import equalizer, psd_eigen
from droptics.masks import MaskLaw
from droptics.models import DeepLinear
from droptics.penalties.closed_form import input_moment
from droptics.penalties.deep_linear import layer_laws
from droptics.penalties.rounding import deferred
from droptics.spectra import action
from droptics.spectra.roots import Root
from droptics.transforms import is_transformed, opaque

MAX_SWEEPS = 20_000


def exact_strengths(laws: tuple[MaskLaw, ...]) -> Tensor:
    """lambda_i / width_i of layers whose units are independent with one rate; refuses other laws."""
    for position, law in enumerate(laws):
        try:
            _ = action(law).one_rate
        except NoClosedForm:
            raise NoClosedForm(
                f"the exact induced penalty of DeepLinear needs independent units with one rate per layer; "
                f"layer {position} has {type(law).__name__} with other rates; use certify for a lower bound"
            ) from None
    return torch.stack([law.relative_variance.mean() / law.size for law in laws])


def allocation(values: Tensor, strengths: Tensor) -> Tensor:
    """The minimizer x (..., k, n) of the geometric program for singular values (..., n) and strengths (k,).

    Block descent, x_i(j) proportional to s_j sqrt(prod_{l != i} (1 + a_l / x_l(j))); convex in log x, so it ends at the
    global minimum. Zeros get no share; each sweep costs O(k^2 n).
    """
    top = values.amax(-1, keepdim=True)
    alive = values > 0
    scaled = torch.where(alive, values / torch.where(top > 0, top, torch.ones_like(top)), torch.zeros_like(values))
    log_scaled = torch.where(alive, scaled, torch.ones_like(scaled)).log()
    share = scaled / scaled.sum(-1, keepdim=True).clamp_min(torch.finfo(values.dtype).tiny)
    x = [share.clone() for _ in strengths]
    log_factors = [_log_factor(part, strength, alive) for part, strength in zip(x, strengths, strict=True)]
    for _ in range(MAX_SWEEPS):
        change = 0.0
        for i, strength in enumerate(strengths):
            log_share = log_scaled + sum(factor for j, factor in enumerate(log_factors) if j != i) / 2
            fresh = torch.where(alive, log_share, torch.full_like(log_share, -torch.inf)).softmax(-1).nan_to_num(0.0)
            change = max(change, float((fresh - x[i]).abs().max()))
            x[i] = fresh
            log_factors[i] = _log_factor(fresh, strength, alive)
        if change <= 1e-13:  # the value errs by the square of this
            break
    return torch.stack(x, dim=-2)


def _log_factor(share: Tensor, strength: Tensor, alive: Tensor) -> Tensor:
    return torch.where(alive, torch.log1p(strength / torch.where(alive, share, torch.ones_like(share))), 0.0)


def induced_spectrum(values: Tensor, strengths: Tensor) -> Tensor:
    """Theta of singular values (..., n), differentiable in the values and the strengths (droptics-deep-induced).

    Special cases: k = 1 gives a (sum s)^2, one value nu s^2, n equal values n s^2 (prod_i (1 + n a_i) - 1). The
    gradient is that of the formula at the fixed minimizer, as for every minimum.

    >>> one = torch.ones(2, dtype=torch.float64)
    >>> round(float(induced_spectrum(one, torch.tensor([0.5, 0.5], dtype=torch.float64))), 9)
    6.0
    """
    if is_transformed():
        return opaque(induced_spectrum, values, strengths)
    with torch.no_grad():
        x = allocation(values, strengths)
    alive = (values > 0).unsqueeze(-2)
    factors = torch.log1p(strengths.unsqueeze(-1) / torch.where(alive, x, torch.ones_like(x)))
    return (values.square() * torch.expm1(factors.sum(-2))).sum(-1)


def split_laws(model: DeepLinear, masks: MaskLaw) -> tuple[tuple[MaskLaw, ...], MaskLaw | None]:
    """The laws of the hidden layers, and that of the inputs when they are masked too."""
    laws = layer_laws(model, masks)
    return (laws[1:], laws[0]) if model.mask_inputs else (laws, None)


def input_root(data: Data, noise: MaskLaw | None = None) -> Root:
    """Root of E x x^T in float64, after masks on the inputs where there are any."""
    moments = Moments.of(data.to(torch.float64))
    second = moments.xx
    if noise is not None:
        second = second + noise.hadamard(second)
    return Root.of_moment(second, moments.rounding)


def spectrum(model: DeepLinear, root: Root) -> Tensor:
    """Singular values of W E[x x^T]^(1/2), those beyond the least width or at rounding level set to zero, float64."""
    wide = model if model.dtype == torch.float64 else DeepLinear([weight.double() for weight in model.weights])
    image = root.down(wide.matrix().mT).mT
    values = torch.linalg.svdvals(image)
    if not values.shape[-1]:  # inputs without energy: a map of nothing has the singular value zero
        values = torch.nn.functional.pad(values, (0, 1))
    kept = torch.arange(values.shape[-1], device=values.device) < min(model.hidden_sizes)
    # rounding of the product as the model's dtype carries it
    level = 4 * max(image.shape[-2:]) * torch.finfo(model.dtype).eps * values.detach().amax(-1, keepdim=True)
    return torch.where(kept & (values > level), values, torch.zeros_like(values))


def least_penalty_network(
    left: Tensor, values: Tensor, right: Tensor, shares: Tensor, laws: Sequence[MaskLaw]
) -> list[Tensor]:
    """Weights that compute left diag(values) right on white inputs, with penalty Theta when the shares are optimal.

    With T_i = (1 + a_i / x_i)^(1/2) on the columns of `left` and S_i the second moment after layer i, start from
    N_1 = T_2 ... T_k M and split N_i S_{i-1}^(1/2) into factors whose units all carry the same product of norms (one
    equalizer per layer); the upper factor divided by T_{i+1} is N_{i+1} (droptics-deep-induced).

    Conditions: left (outputs, n) and right (n, inputs) have orthonormal columns and rows, values (n,) are positive,
    the rows of shares (k, n) lie in the simplex, and each hidden layer has a law of one rate.
    """
    sizes = [law.size for law in laws]
    if not len(values):
        return [left.new_zeros(shape) for shape in zip([*sizes, left.shape[0]], [right.shape[1], *sizes], strict=True)]
    strengths = exact_strengths(tuple(laws)).detach().to(values)
    stretch = (1 + strengths[:, None] / shares).sqrt()
    weights: list[Tensor] = []
    second = torch.eye(right.shape[1], dtype=right.dtype, device=right.device)
    pending = (left * (values * stretch.prod(0))) @ right
    for law, factor in zip(laws, stretch, strict=True):
        pending = (left / factor) @ (left.mT @ pending)
        pending, weight = _balanced(pending, second, len(values), law.size)
        weights.append(weight)
        image = weight @ second @ weight.mT
        second = image + torch.diag(law.relative_variance.detach().to(image) * image.diagonal())
    return [*weights, pending]


def _balanced(matrix: Tensor, second: Tensor, rank: int, width: int) -> tuple[Tensor, Tensor]:
    """Upper and lower factor of a matrix, every unit with the same product of norms in the metric of `second`."""
    moments, basis = psd_eigen(second)
    roots = moments[moments > 0].sqrt()
    basis = basis[:, moments > 0]
    left, values, right = torch.linalg.svd((matrix @ basis) * roots, full_matrices=False)
    left, values, right = left[:, :rank], values[:rank], right[:rank]
    padded = torch.cat([values, values.new_zeros(width - rank)])
    rotation = equalizer(torch.diag(padded))[:rank]
    scaled = values.sqrt()
    return (left * scaled) @ rotation, (rotation.mT * scaled) @ ((right / roots) @ basis.mT)


@induced_rule.register
def _(model: DeepLinear, data: Data, masks: MaskLaw) -> Value:
    """Theta of the map (droptics-deep-induced); for a singular E x x^T an infimum that need not be attained."""
    laws, inputs = split_laws(model, masks)
    strengths = exact_strengths(laws)
    values = spectrum(model, input_root(data, inputs))
    value, noise = induced_spectrum(values, strengths.to(values)), 0.0
    if inputs is not None:  # masks on the inputs alone add tr W (Cbar o E x x^T) W^T
        matrix, noise = model.matrix().double(), float(inputs.relative_variance.detach().max())
        value = value + ((matrix @ inputs.hadamard(input_moment(model, data).double())) * matrix).sum((-2, -1))
    error = deferred(deep_rounding, model, data, values.detach(), value.detach(), noise)
    return value.to(model.dtype), "geometric program (block descent)", error


@envelope_rule.register
def _(model: DeepLinear, data: Data, masks: MaskLaw) -> Value:
    """The deep envelope nu ||W E[x x^T]^(1/2)||_*^2 with nu = prod (1 + lambda_i / width_i) - 1 (thesis-thm9)."""
    laws, inputs = split_laws(model, masks)
    if inputs is not None:
        raise NoClosedForm("the convex envelope of DeepLinear is known without masks on the inputs; use induced")
    strengths = exact_strengths(laws)
    values = spectrum(model, input_root(data))
    strength = torch.expm1(torch.log1p(strengths.to(values)).sum())
    error = deferred(norm_rounding, model, data, values.detach(), strength.detach())
    return (strength * values.sum(-1).square()).to(model.dtype), "closed form", error
