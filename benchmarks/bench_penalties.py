"""Exact deep linear penalty against the sum over pivots as printed, and against Monte Carlo with 10^4 masks."""

from __future__ import annotations

from harness import Row, compare, merge, report, seconds_of  # first: it sets the number of threads before NumPy loads

# isort: split
import itertools
import statistics
import sys
import time

import numpy as np
import torch

from droptics.data import Moments
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear, TwoLayerLinear
from droptics.penalties import penalty, sub_penalties

DROP = 0.2  # lambda = 0.25


def network(depth: int, width: int, dtype: torch.dtype = torch.float64) -> tuple[DeepLinear, Moments, Product]:
    generator = torch.Generator().manual_seed(0)
    weights = [
        (torch.randn(width, width, generator=generator, dtype=torch.float64) / width**0.5).to(dtype)
        for _ in range(depth)
    ]
    law = Product([Bernoulli(DROP, width) for _ in range(depth - 1)])
    return DeepLinear(weights), Moments.of_map(torch.eye(width, dtype=dtype)), law


def printed_sum(weights: list[np.ndarray], strength: float) -> float:
    """The regularizer as printed: a term per choice of pivot layers and of a node in each, vectorized over the last."""
    depth = len(weights) - 1
    between = {}
    for first in range(depth + 1):
        product = weights[first]
        between[first, first] = product
        for last in range(first + 1, depth + 1):
            product = weights[last] @ product
            between[last, first] = product
    total = 0.0
    for count in range(1, depth + 1):
        for layers in itertools.combinations(range(depth), count):
            tail = np.square(between[depth, layers[-1] + 1]).sum(0)
            heads = np.square(between[layers[0], 0]).sum(1)
            for nodes in itertools.product(*(range(weights[layer].shape[0]) for layer in layers[:-1])):
                if not nodes:
                    total += strength**count * float(heads @ tail)
                    continue
                value = heads[nodes[0]]
                for (a, i), (b, j) in itertools.pairwise(zip(layers[:-1], nodes, strict=True)):
                    value *= between[b, a + 1][j, i] ** 2
                last = np.square(between[layers[-1], layers[-2] + 1][:, nodes[-1]])
                total += strength**count * float(value * (last @ tail))
    return total


def monte_carlo(model: DeepLinear, masks: int = 10_000, batch: int = 2_000) -> tuple[float, float]:
    """E ||masked map - map||^2 through torch's own dropout, one random input of unit covariance per mask."""
    width = model.input_size
    torch.manual_seed(0)
    terms = []
    for _ in range(masks // batch):
        inputs = torch.randn(batch, width, dtype=model.dtype, device=model.weights[0].device)
        value = plain = inputs
        for i, weight in enumerate(model.weights):
            value, plain = value @ weight.mT, plain @ weight.mT
            if i < len(model.weights) - 1:
                value = torch.nn.functional.dropout(value, DROP)
        terms.append((value - plain).square().sum(1))
    values = torch.cat(terms)
    return float(values.mean()), float(values.std() / masks**0.5)


def rows() -> list[Row]:
    torch.set_num_threads(1)
    strength = DROP / (1 - DROP)
    found = []
    for label, depth, width in (("depth 9, width 5", 9, 5), ("six layers of width 20", 6, 20)):
        model, moments, law = network(depth, width)
        arrays = [weight.numpy() for weight in model.weights]
        ours = float(penalty(model, moments, law))
        start = time.process_time()
        theirs = printed_sum(arrays, strength)
        seconds = time.process_time() - start
        one, _, _ = compare(lambda m=model, d=moments, w=law: penalty(m, d, w), lambda: None, repeats=7, number=20)
        error = abs(ours / theirs - 1)
        found.append(
            Row(
                f"{label}: sum over pivots",
                one,
                seconds,
                seconds / one,
                f"relative difference {error:.0e}",
                "one run of the sum",
            )
        )
        every, _, _ = compare(
            lambda m=model, d=moments, w=law: sub_penalties(m, d, w), lambda: None, repeats=7, number=20
        )
        found.append(Row(f"{label}: all orders", every, seconds, seconds / every, "sum to the penalty"))
    model, moments, law = network(20, 512)
    exact = float(penalty(model, moments, law))
    single, single_moments, _ = network(20, 512, torch.float32)
    estimate, error = monte_carlo(single)
    for label, ours in (
        ("float64", lambda: penalty(model, moments, law)),
        ("float32", lambda: penalty(single, single_moments, law)),
    ):
        mine, alternative, ratio = compare(ours, lambda: monte_carlo(single), repeats=3)
        accuracy = abs(float(ours()) / exact - 1)
        text = f"ours {accuracy:.0e}, Monte Carlo {abs(estimate / exact - 1):.0e} (standard error {error / exact:.0e})"
        found.append(Row(f"depth 20, width 512, {label}: 10^4 masks", mine, alternative, ratio, text))
    return found


def batch_row(count: int = 1000) -> Row:
    """Many small networks in one call; its floor is half a product of all their columns with E[x x^T], and a look at U.

    E[x x^T] is symmetric, so that v^T E[x x^T] v takes half of the products.
    """
    generator = torch.Generator().manual_seed(0)
    matrix, root, U, V = (
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((120, 80), (80, 100), (count, 120, 20), (count, 80, 20))
    )
    xx = root @ root.mT / 100
    data, law = Moments(xx, matrix @ xx, matrix @ xx @ matrix.mT), Bernoulli(DROP, 20)
    networks, columns = TwoLayerLinear(U, V), V.mT.flatten(0, 1)
    members = [TwoLayerLinear(*pair) for pair in zip(U, V, strict=True)]
    product, look, _ = compare(lambda: columns @ xx, U.sum, repeats=5)
    floor = product / 2 + look
    ours, theirs, ratio = compare(
        lambda: penalty(networks, data, law), lambda: [penalty(model, data, law) for model in members], repeats=5
    )
    single = torch.stack([penalty(model, data, law).value for model in members])
    error = float((penalty(networks, data, law).value / single - 1).abs().max())
    note = f"one product of all columns with E[x x^T] takes {product / ours:.0%} of the time"
    label = f"{count:,} networks 120x80, width 20, in one call: one by one"
    return Row(label, ours, theirs, ratio, f"relative difference {error:.0e}", note, floor)


def gpu_rows() -> list[Row]:
    """Depth 20 on a GPU, wall time: the exact penalty in float64 against 10^4 masks in float32."""
    found = []
    for width in (512, 4096):
        model, moments, law = network(20, width)
        model, moments = DeepLinear([weight.cuda() for weight in model.weights]), moments.to("cuda")
        single = DeepLinear([weight.float() for weight in model.weights])
        exact = float(penalty(model, moments, law))
        estimate, error = monte_carlo(single)
        ours = statistics.median(seconds_of(lambda m=model, d=moments, w=law: penalty(m, d, w), "cuda"))
        theirs = statistics.median(seconds_of(lambda s=single: monte_carlo(s), "cuda"))
        text = f"Monte Carlo {abs(estimate / exact - 1):.0e} off (standard error {error / exact:.0e})"
        found.append(Row(f"depth 20, width {width}, float64, GPU: 10^4 masks", ours, theirs, theirs / ours, text))
    return found


if __name__ == "__main__":
    if "--batch" in sys.argv:  # this row alone, in its place of the table
        merge("penalties", [batch_row()])
    elif "--gpu" not in sys.argv:
        report("penalties", [*rows(), batch_row()])
    if torch.cuda.is_available() and "--batch" not in sys.argv:
        report("penalties_gpu", gpu_rows(), "cuda")
