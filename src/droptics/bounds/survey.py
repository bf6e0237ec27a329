"""The norm-based complexity expressions that the thesis surveys, for comparison on the same network."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from droptics.answers import checked
from droptics.arguments import Examples, NonNegative, Power
from droptics.data import Sample
from droptics.estimates import Bound
from droptics.models import Model
from droptics.norms import path_norm, weight_matrices


@checked
def surveyed(
    model: Model | Sequence[Tensor],
    data: Sample | None = None,
    *,
    examples: Examples | None = None,
    power: Power = 1.0,
    input_norm: NonNegative | None = None,
) -> dict[str, Bound]:
    """Four published complexity expressions by name: path norm, spectral, PAC-Bayes, Frobenius (thesis-eq1.1 to 1.4).

    With k hidden layers, widest hidden layer d, d0 inputs (2 for one), psi_p the path norm, p* dual to `power` = p:

        path norm   (2 d^(1/p*))^k psi_p sqrt(log d0) / sqrt(n)
        spectral    prod ||W_i||_2 (sum_i (||W_i^T||_{2,1} / ||W_i||_2)^(2/3))^(3/2) / sqrt(n)
        PAC-Bayes   prod ||W_i||_2 k sqrt(d sum_i ||W_i||_F^2 / ||W_i||_2^2) / sqrt(n)
        Frobenius   sqrt(k) prod ||W_i||_F / sqrt(n)

    These are expressions, not bounds: their sources leave the constants open (taken as 1) and let inputs have norm at
    most 1, and p <= 2. Each is multiplied by `input_norm` (the largest norm of an example when data are given, its
    p*-norm for the path norm, else 1). `vacuous` compares with a loss of at most 1; `needed` says how many examples
    would bring the expression to 1. Terms multiply to the value. Cost: one SVD per layer, and a pass over the inputs.
    """
    layers = [layer.detach() for layer in weight_matrices(model)]
    if len(layers) < 2:
        raise ValueError(f"model must have at least one hidden layer, got {len(layers)} weight matrix")
    if any(layer.ndim != 2 for layer in layers):
        raise ValueError("model must be one network, got a batch; ask for its members one by one")
    if examples is None:
        if data is None:
            raise ValueError("surveyed needs data or the number of examples")
        examples = len(data)
    if not power >= 1:
        raise ValueError(f"power must be at least 1, got {power}")
    result = {}
    expressions = _expressions(layers, power, *_input_sizes(data, input_norm, power))
    for number, (name, terms) in enumerate(expressions.items(), start=1):
        terms["1 / sqrt(examples)"] = 1 / math.sqrt(examples)
        value = math.prod(terms.values())
        result[name] = Bound(value, terms, f"thesis-eq1.{number}", 1.0, {"examples": examples * value * value})
    return result


def _expressions(
    layers: list[Tensor], power: float, largest_norm: float, largest_dual: float
) -> dict[str, dict[str, float]]:
    """The factors of every expression but the number of examples."""
    hidden = len(layers) - 1
    width = max(layer.shape[0] for layer in layers[:-1])
    spectral = [float(torch.linalg.matrix_norm(layer, 2)) for layer in layers]
    frobenius = [float(layer.norm()) for layer in layers]
    paths = (2 * width ** (1 - 1 / power)) ** hidden * math.sqrt(math.log(max(layers[0].shape[1], 2)))
    rows = [float(layer.norm(dim=1).sum()) for layer in layers]
    # a zero layer makes the product of norms zero; its ratio is then immaterial
    spread = sum((a / b if b else 1.0) ** (2 / 3) for a, b in zip(rows, spectral, strict=True))
    energy = hidden * math.sqrt(
        width * sum((a / b if b else 1.0) ** 2 for a, b in zip(frobenius, spectral, strict=True))
    )
    return {
        "path norm": {"path norm": float(path_norm(layers, power)), "architecture": paths, "inputs": largest_dual},
        "spectral": {"product of norms": math.prod(spectral), "architecture": spread**1.5, "inputs": largest_norm},
        "PAC-Bayes": {"product of norms": math.prod(spectral), "architecture": energy, "inputs": largest_norm},
        "Frobenius": {"product of norms": math.prod(frobenius), "architecture": hidden**0.5, "inputs": largest_norm},
    }


def _input_sizes(data: Sample | None, given: float | None, power: float) -> tuple[float, float]:
    if given is not None or data is None:
        size = 1.0 if given is None else float(given)
        return size, size
    flat = data.inputs.flatten(1)
    largest = float(flat.abs().max()) or 1.0  # divided by, so that high powers of entries neither vanish nor overflow
    dual = math.inf if power == 1 else power / (power - 1)
    return float(flat.norm(dim=1).max()), largest * float((flat / largest).norm(dual, dim=1).max())
