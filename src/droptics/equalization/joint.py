"""Joint equalization of a pair, rescaling of nodes, and the rank-one deep networks that are equalized."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from droptics.answers import checked
from droptics.arguments import Count, Matrix, Seed, Vector, check_arguments
from droptics.checks import as_float_tensor, check_same_kind, check_size
from droptics.data import Data
from droptics.errors import CertificateError
from droptics.models import DeepLinear, Factorization, ReLUNet, TwoLayerLinear
from droptics.spectra.coordinates import frame
from droptics.spectra.roots import EPS, Root

Rescalable = TwoLayerLinear | Factorization | DeepLinear | ReLUNet


def joint_equalizer(U: Matrix, V: Matrix, seed: Seed = 0) -> Tensor:
    """A rotation Q such that the products ||U q_i|| ||V q_i|| are all equal, the weak sense (mianjy2018-def3.2).

    Every pair has one: a continuous function on a sphere is constant on some orthonormal basis (Kakutani, Yamabe and
    Yujobo), contrary to the remark in the paper. It is found by damped Gauss-Newton steps on the rotation group,
    O(width^3) each, from a random rotation drawn with `seed`, and refused where they end without one, as they may if U
    and V are nearly orthogonal. The strong sense (thesis-def2), all products ||U V^T||_* / width, needs `equalize`.
    """
    check_arguments(joint_equalizer, locals())
    U, V = as_float_tensor(U, "U", 2), as_float_tensor(V, "V", 2)
    check_same_kind({"U": U, "V": V})
    check_size("V (columns)", V.shape[1], U.shape[1], "U and V have one column per hidden unit")
    width = U.shape[1]
    if not (bool(U.any()) and bool(V.any())):
        return torch.eye(width, dtype=U.dtype, device=U.device)
    # the size of either factor changes all products alike
    U, V = (factor / factor.abs().max().clamp_min(torch.finfo(factor.dtype).tiny) for factor in (U, V))
    one, other = (torch.linalg.qr(factor, mode="r").R for factor in (U, V))  # small, of the same products
    if float((one @ other.mT).norm()) <= 4 * width * torch.finfo(U.dtype).eps * float(one.norm() * other.norm()):
        return _turned(torch.linalg.svd(one).Vh.mT)  # rows of U and of V are orthogonal: all products are zero
    generator = torch.Generator().manual_seed(int(seed))
    for _ in range(20):
        start = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64)).Q
        rotation, defect = _solve(U, V, start.to(U))
        if defect <= 1e3 * torch.finfo(U.dtype).eps:
            return _turned(rotation)
    raise CertificateError(f"no rotation was found, the products still differ by {defect:.3g} relatively; try a seed")


def _solve(U: Tensor, V: Tensor, rotation: Tensor, steps: int = 200) -> tuple[Tensor, float]:
    width = U.shape[1]
    identity, limits = torch.eye(width, dtype=U.dtype, device=U.device), torch.finfo(U.dtype)
    center, gram_u, gram_v = identity - 1.0 / width, U.mT @ U, V.mT @ V
    damping, best = 1e-3, float("inf")
    for _ in range(steps):
        a, b = rotation.mT @ gram_u @ rotation, rotation.mT @ gram_v @ rotation
        na, nb = torch.diagonal(a), torch.diagonal(b)
        errors = na * nb - (mean := (na * nb).mean())
        defect = float(errors.abs().max() / mean.clamp_min(limits.tiny))
        if defect < best:
            kept, best, damping = rotation, defect, max(damping / 10, 1e-12)
            if best <= 20 * limits.eps:
                break
            # d products_i = sum_j theta_ij slope_ij for an infinitesimal rotation theta (antisymmetric)
            residual, slope = errors, 2 * (a * nb[:, None] + b * na[:, None])
            normal = center @ (torch.diag(slope.square().sum(1)) - slope * slope.mT) @ center
        elif (damping := 10 * damping) > 1e6:
            break
        damped = normal + damping * float(torch.trace(normal)) / width * identity
        y = -center @ torch.linalg.lstsq(damped, residual[:, None]).solution.squeeze(1)
        theta = y[:, None] * slope - (y[:, None] * slope).mT
        rotation = torch.linalg.qr(kept @ torch.linalg.matrix_exp(-theta)).Q
    return kept, best


def _turned(basis: Tensor) -> Tensor:
    return torch.cat([basis[:, :1] * torch.linalg.det(basis).sign(), basis[:, 1:]], 1)


def rescale(model: Rescalable, scales: Tensor | Sequence[Tensor]) -> Rescalable:
    """Multiply what comes into hidden node i by scales_i and divide what goes out: map and penalty stay.

    (U D^-1, V D) for two layers (mianjy2018-rem3.1), W_l -> D_l W_l D_{l-1}^-1 for deep networks (thesis-lem6), b_l ->
    D_l b_l with them for ReLU networks (helmbold2017-thm5), whose masked outputs all stay. The scales are non-zero,
    negative ones allowed where no ReLU stands; one vector, or one per hidden layer.

    Cost: a copy of the weights.
    """
    check_arguments(rescale, locals())
    layers = [scales] if isinstance(scales, Tensor) else list(scales)
    if isinstance(model, (TwoLayerLinear, Factorization)):
        widths = [model.units]
    else:
        widths = [weight.shape[-2] for weight in model.weights[:-1]]
    check_size("scales", len(layers), len(widths), "one vector per hidden layer")
    checked = []
    for i, (layer, width) in enumerate(zip(layers, widths, strict=True)):
        value = as_float_tensor(layer, f"scales[{i}]", 1)
        check_size(f"scales[{i}]", value.shape[0], width, "one factor per hidden node")
        if bool((value == 0).any()):
            raise ValueError(f"scales[{i}] must not contain zeros: a node scaled to zero cannot be scaled back")
        if isinstance(model, ReLUNet) and bool((value < 0).any()):
            raise ValueError(f"scales[{i}] must be positive for ReLUNet: a ReLU does not commute with a change of sign")
        checked.append(value.to(model.tensors[0]))
    if isinstance(model, (TwoLayerLinear, Factorization)):
        return type(model)(model.U / checked[0], model.V * checked[0])
    ones = [torch.ones(1, dtype=model.dtype, device=model.device)]
    incoming, outgoing = [*checked, *ones], [*ones, *checked]
    chain = zip(model.weights, incoming, outgoing, strict=True)
    weights = [into[:, None] * weight / out for weight, into, out in chain]
    if isinstance(model, ReLUNet):
        return ReLUNet(weights, [into * bias for bias, into in zip(model.biases, incoming, strict=True)])
    return DeepLinear(weights, model.mask_inputs)


@checked
def balance(model: TwoLayerLinear | Factorization, data: Data) -> TwoLayerLinear | Factorization:
    """Rescale every hidden node so that both of its layers have the same norm, ||u_i|| = ||E[x x^T]^(1/2) v_i||.

    Map and penalty stay. Nodes with a layer that is zero become zero on both sides; nodes that act on inputs without
    energy only cannot be balanced and stay as they are.

    Cost: a whitening O(n d^2 + d^3), and O(d^2 width). Claim: droptics-balanced.
    """
    white = frame(data)
    U, V = model.U.double(), model.V.double()
    out, into = white.left.down(U).square().sum(-2).sqrt(), white.right.down(V).square().sum(-2).sqrt()
    alive = (out > _unseen(white.left, U)) & (into > _unseen(white.right, V))
    ratio = (torch.where(alive, out, 1.0) / torch.where(alive, into, 1.0)).sqrt().unsqueeze(-2)
    empty = ((U == 0).all(-2) | (V == 0).all(-2)).unsqueeze(-2)
    balanced = torch.where(empty, 0.0, U / ratio), torch.where(empty, 0.0, V * ratio)
    return type(model)(*(part.to(model.dtype) for part in balanced))


def _unseen(root: Root, weights: Tensor) -> Tensor:
    """Norms in white coordinates that are rounding of weights on features without energy."""
    sizes = root.matrix.abs() if root.matrix.ndim == 1 else torch.linalg.vector_norm(root.matrix, dim=1)
    return 8 * len(sizes) * EPS * (sizes[:, None] * weights.abs()).sum(-2)


def rank_one_network(output: Vector, input: Vector, widths: Sequence[Count]) -> DeepLinear:
    """The equalized deep network of the rank-one map output input^T, for every law and every inputs (thesis-prop1).

    W_1 = 1 v^T / sqrt(d_1), W_i = 1 1^T / sqrt(d_i d_{i-1}), W_{k+1} = u 1^T / sqrt(d_k). From two hidden layers on,
    only maps of rank at most one have an equalized network.

    Cost: O(sum of products of neighboring widths).
    """
    check_arguments(rank_one_network, locals())
    u, v = as_float_tensor(output, "output", 1), as_float_tensor(input, "input", 1)
    check_same_kind({"output": u, "input": v})
    if not widths:
        raise ValueError("widths must hold at least one hidden width, got none")
    columns = [torch.full((width, 1), width**-0.5, dtype=u.dtype, device=u.device) for width in widths]
    middle = [after @ before.mT for before, after in pairwise(columns)]
    return DeepLinear([columns[0] * v, *middle, u[:, None] * columns[-1].mT])
