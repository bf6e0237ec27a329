"""inspect and escape: what kind of point a model is, and the way down from a strict saddle."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from droptics.answers import checked
from droptics.arguments import NonNegative
from droptics.data import Data, Moments
from droptics.errors import NoClosedForm
from droptics.landscapes.derivatives import Derivatives, from_chain, gradient, hessian, to_chain, unflatten
from droptics.landscapes.symmetries import symmetry_dimension
from droptics.landscapes.units import in_own_units
from droptics.masks import MaskLaw
from droptics.models import Autoencoder, DeepLinear, Model, TwoLayerLinear
from droptics.optima import certify
from droptics.optima.objectives import objective
from droptics.penalties import criterion
from droptics.spectra.coordinates import whiten

DENSE = 4_000


@dataclass(frozen=True, eq=False)
class Inspection:
    """What kind of point a model is.

    The kinds are "not critical", "global minimum" (no other weights are better: the certificate says so), "local
    minimum" (no negative curvature, and all flat directions are symmetries, but not global), "strict saddle" (a
    direction of negative curvature exists), "local maximum", and "degenerate" (no negative curvature, but flat
    directions that no known symmetry explains: the second derivative does not decide).
    """

    objective: float  #: The criterion.
    gradient_norm: float  #: Euclidean norm of its gradient.
    inertia: tuple[int, int, int]  #: Numbers of (negative, zero, positive) eigenvalues of the Hessian.
    kind: str  #: One of the kinds above.
    curvature: float  #: Least eigenvalue of the Hessian.
    symmetries: int  #: Dimension of the known symmetries at this point (rescaled nodes, rotations of the data).


@dataclass(frozen=True, eq=False)
class Escape:
    """A way down from a saddle."""

    direction: tuple[Tensor, ...]  #: Unit direction of least curvature, with the shapes of the model's tensors.
    curvature: float  #: The second derivative along it.
    model: Model  #: The model after a step along it.
    objective: float  #: The criterion there, less than before.


@checked
def inspect(model: Model, data: Data, masks: MaskLaw, tolerance: NonNegative = 1e-6) -> Inspection:
    """Gradient norm, inertia of the Hessian and kind of a model, by formula (mianjy2018-lem4.1, mianjy2018-thm4.3).

    For TwoLayerLinear, Autoencoder and DeepLinear with at most 4,000 weights; O(weights^3). `tolerance` is relative:
    to the largest curvature for eigenvalues, to the energy of the targets for the gap, beside what rounding of weights
    and data explains. Signs of curvatures are counted, and slopes compared with zero, where inputs and targets are in
    their own units and the layers of every hidden node are alike: neither changes what kind of point it is.
    """
    total = _size(model)
    if total > DENSE:
        raise ValueError(
            f"model has {total} weights, too many (above {DENSE}) for all curvatures; escape needs only one"
        )
    even, moments = in_own_units(model, data)
    eigenvalues = torch.linalg.eigvalsh(hessian(even, moments, masks))
    level = tolerance * float(eigenvalues.abs().max())
    negative, positive = int((eigenvalues < -level).sum()), int((eigenvalues > level).sum())
    inertia = (negative, total - negative - positive, positive)
    symmetries = symmetry_dimension(model, data)
    steepness = _norm(gradient(even, moments, masks))
    kind = "not critical"
    if steepness <= level * max(_norm(even.tensors), tolerance):
        kind = _kind(model, data, masks, inertia, symmetries, tolerance)
    curvature = float(torch.linalg.eigvalsh(hessian(model, data, masks))[0])
    slope = _norm(gradient(model, data, masks))
    return Inspection(objective(model, data, masks), slope, inertia, kind, curvature, symmetries)


def _kind(
    model: Model, data: Data, masks: MaskLaw, inertia: tuple[int, int, int], symmetries: int, tolerance: float
) -> str:
    negative, zero, positive = inertia
    if negative:
        return "local maximum" if not positive and zero <= symmetries else "strict saddle"
    with suppress(NoClosedForm):
        certificate = certify(model, data, masks)
        level = tolerance * max(certificate.scale, abs(certificate.objective)) + _rounded(model, data, masks)
        if certificate.gap <= level:
            return "global minimum"
    return "local minimum" if zero <= symmetries else "degenerate"


def _rounded(model: Model, data: Data, masks: MaskLaw) -> float:
    """How far above the bound rounding leaves a minimum: that of the data in the bound, and that of the weights.

    At a critical point the criterion has no slope, so weights that are rounded by eps / 2 each move it by second order
    only: outputs change by layers eps / 2 of what they are if nothing cancels, f say, in both of their orders, and the
    criterion by at most (layers eps)^2 E (f + |y|)^2. E |x_i x_j| is at most the product of the root mean squares.
    """
    moments = Moments.of(data.to(torch.float64))
    x, y = (matrix.detach().diagonal().clamp_min(0).sqrt() for matrix in (moments.xx, moments.yy))
    most = Moments(torch.outer(x, x), -torch.outer(y, x), torch.outer(y, y))
    layers = len(to_chain(model, model.tensors))
    size = objective(_with(model, [tensor.detach().double().abs() for tensor in model.tensors]), most, masks)
    return whiten(data).slack + (layers * torch.finfo(model.dtype).eps) ** 2 * size


@checked
def escape(model: Model, data: Data, masks: MaskLaw) -> Escape:
    """The direction of least curvature at a strict saddle, and a better model along it (mianjy2018-thm4.3).

    Dense eigenvectors for up to 4,000 weights, Lanczos on the Hessian action beyond. Raises ValueError where no
    direction of negative curvature is found.

    Cost: O(weights^3) dense, Hessian actions beyond; then 52 criteria along the direction.
    """
    vector, curvature, largest = _least(model, data, masks)
    if not curvature < -1e-9 * largest:
        raise ValueError(f"model is no strict saddle: its least curvature is {curvature:.3g}, nothing to escape along")
    direction = unflatten(model, vector)
    sizes = (1.0 + _norm(model.tensors)) * 0.5 ** torch.arange(0, 26, dtype=torch.float64)
    best, objective = model, float(criterion(model, data, masks))
    for step in torch.stack([sizes, -sizes], 1).flatten().tolist():
        tensors = zip(model.tensors, direction, strict=True)
        moved = _with(model, [tensor.detach() + step * part for tensor, part in tensors])
        value = float(criterion(moved, data, masks))
        if value < objective:
            best, objective = moved, value
    return Escape(direction, curvature, best, objective)


def _least(model: Model, data: Data, masks: MaskLaw) -> tuple[Tensor, float, float]:
    """Direction of least curvature, that curvature, and the largest one in absolute value."""
    total = _size(model)
    if total <= DENSE:
        values, vectors = torch.linalg.eigh(hessian(model, data, masks))
        return vectors[:, 0], float(values[0]), float(values.abs().max())
    chain = Derivatives.of(model, data, masks)

    def action(vector: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> object:
        parts = unflatten(model, torch.from_numpy(vector.reshape(-1)).to(model.tensors[0]))
        moved = from_chain(model, chain.hessian_action(to_chain(model, parts)))
        return torch.cat([part.flatten() for part in moved]).double().cpu().numpy()

    operator = LinearOperator((total, total), matvec=action, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(total)
    largest = abs(float(eigsh(operator, k=1, which="LM", v0=start, tol=1e-2, return_eigenvectors=False)[0]))
    lowest, vectors_ = eigsh(operator, k=1, which="SA", v0=start, tol=1e-6)
    return torch.from_numpy(vectors_[:, 0]).to(model.tensors[0]), float(lowest[0]), largest


def _with(model: Model, tensors: list[Tensor]) -> Model:
    """A model of the same family with other weights."""
    if isinstance(model, DeepLinear):
        return DeepLinear(tensors, model.mask_inputs)
    assert isinstance(model, (TwoLayerLinear, Autoencoder))
    return type(model)(*tensors)


def _size(model: Model) -> int:
    if model.batch_shape:
        raise ValueError(f"model must be one model, got a batch of shape {tuple(model.batch_shape)}")
    return sum(tensor.numel() for tensor in model.tensors)


def _norm(tensors: tuple[Tensor, ...]) -> float:
    return float(torch.stack([tensor.detach().square().sum() for tensor in tensors]).sum().sqrt())
