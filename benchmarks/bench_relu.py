"""Exact criterion of ReLU networks: against batched enumeration, the largest sizes in ten seconds, gradients."""

from __future__ import annotations

import itertools
import time

import torch
from torch import Tensor

from droptics.data import Sample
from droptics.masks import Bernoulli
from droptics.models import ReLUNet
from droptics.papers.helmbold2017.networks import gadget_criterion, gadget_network, two_points
from droptics.penalties import ClosedForm, MonteCarlo, penalty, relu_criterion
from harness import Row, compare, report

LONG = ClosedForm(seconds=1e6)
DROP = 0.5


def network(*sizes: int) -> ReLUNet:
    generator = torch.Generator().manual_seed(0)
    pairs = list(itertools.pairwise(sizes))
    return ReLUNet(
        [torch.randn(b, a, generator=generator, dtype=torch.float64) for a, b in pairs],
        [torch.randn(b, generator=generator, dtype=torch.float64) for _, b in pairs],
    )


def example(inputs: int) -> Sample:
    generator = torch.Generator().manual_seed(1)
    return Sample(torch.randn(1, inputs, generator=generator, dtype=torch.float64), torch.ones(1, 1).double())


def exact(model: ReLUNet, sample: Sample) -> Tensor:
    return relu_criterion(model, sample, Bernoulli(DROP, model.units), LONG)[0]


def integrated_enumeration(model: ReLUNet, sample: Sample, chunk: int = 2**16) -> Tensor:
    """All input masks in batches, the last layer integrated: the strong plain alternative."""
    first, last = model.weights
    inputs = first.shape[1]
    places = torch.arange(inputs)
    total = torch.zeros((), dtype=torch.float64)
    for start in range(0, 2**inputs, chunk):
        codes = torch.arange(start, min(start + chunk, 2**inputs))
        masks = ((codes[:, None] >> places) & 1).double() / (1 - DROP)
        hidden = torch.relu((masks * sample.inputs[0]) @ first.mT + model.biases[0])
        error = hidden @ last[0] + model.biases[1] - sample.targets[0]
        total += (error.square() + DROP / (1 - DROP) * hidden.square() @ last[0].square()).sum()
    return total / 2**inputs


def full_enumeration(model: ReLUNet, sample: Sample, masks: int, chunk: int = 2**15) -> None:
    """The first `masks` of all masks of inputs and hidden units, in batches; timed to extrapolate."""
    places = torch.arange(model.units)
    for start in range(0, masks, chunk):
        codes = torch.arange(start, start + chunk)
        multipliers = ((codes[:, None] >> places) & 1).double() / (1 - DROP)
        (model.outputs(sample.inputs, multipliers[:, None]) - sample.targets).square().sum()


def difference(left: Tensor, right: Tensor) -> str:
    return f"{abs(float(left - right)) / abs(float(right)):.0e}"


def enumeration_rows() -> list[Row]:
    model, sample = network(18, 10, 1), example(18)
    ours, theirs, ratio = compare(
        lambda: exact(model, sample), lambda: integrated_enumeration(model, sample), repeats=9
    )
    agreement = difference(exact(model, sample), integrated_enumeration(model, sample))
    rows = [Row("K=18 n=10, against batched enumeration, last layer integrated", ours, theirs, ratio, agreement)]
    start = time.process_time()
    full_enumeration(model, sample, 2**19)
    seconds = (time.process_time() - start) * 2 ** (28 - 19)
    rows.append(
        Row(
            "K=18 n=10, against batched enumeration of all 2^28 masks",
            ours,
            seconds,
            seconds / ours,
            agreement,
            "alternative extrapolated from 2^19 masks",
        )
    )
    model, sample = network(22, 10, 1), example(22)
    ours, theirs, ratio = compare(
        lambda: exact(model, sample), lambda: integrated_enumeration(model, sample), repeats=1
    )
    agreement = difference(exact(model, sample), integrated_enumeration(model, sample))
    rows.append(Row("K=22 n=10, against batched enumeration, last layer integrated", ours, theirs, ratio, agreement))
    return rows


def seconds_of(model: ReLUNet, sample: Sample) -> tuple[float, Tensor]:
    start = time.process_time()
    value = exact(model, sample)
    return time.process_time() - start, value


def largest_rows(limit: float = 10.0) -> list[Row]:
    """Largest networks done in ten seconds; the alternative is batched enumeration at its measured rate."""
    rows = []
    start = time.process_time()
    integrated_enumeration(network(20, 10, 1), example(20))
    per_mask = (time.process_time() - start) / 2**20
    best: Row | None = None
    for inputs in range(34, 44, 2):
        ours, value = seconds_of(network(inputs, 10, 1), example(inputs))
        if ours > limit:
            break
        masks = MonteCarlo(samples=5_000, confidence=0.9999)
        answer = penalty(network(inputs, 10, 1), example(inputs), Bernoulli(DROP, inputs + 10), masks)
        plain = (network(inputs, 10, 1).outputs(example(inputs).inputs) - 1).square().sum()
        covered = float(answer.lower) <= float(value - plain) <= float(answer.upper)
        theirs = per_mask * 2.0**inputs
        note = "largest K at depth 2 within 10 s; alternative extrapolated"
        agreement = f"Monte Carlo covers: {covered}"
        best = Row(f"depth 2, K={inputs} n=10 (2^{inputs + 10} masks)", ours, theirs, theirs / ours, agreement, note)
    assert best is not None
    rows.append(best)
    best = None
    for size in range(40, 90, 4):
        model, sample = network(8, size - 8, 10, 1), example(8)
        ours, _ = seconds_of(model, sample)
        if ours > limit:
            break
        theirs = per_mask * 2.0**size
        note = "largest K+n at depth 3 within 10 s (K=8, last layer 10); alternative extrapolated"
        best = Row(f"depth 3, K+n={size} (2^{size + 10} masks)", ours, theirs, theirs / ours, "see tests", note)
    assert best is not None
    rows.append(best)
    return rows


def gradient_row() -> Row:
    model, sample = network(18, 10, 1), example(18)
    free = [weight.requires_grad_(True) for weight in model.weights]

    def ours() -> Tensor:
        return torch.autograd.grad(exact(model, sample), free)[0]

    def theirs() -> Tensor:
        return torch.autograd.grad(integrated_enumeration(model, sample), free)[0]

    seconds, other, ratio = compare(ours, theirs, repeats=3)
    gap = float((ours() - theirs()).abs().max() / theirs().abs().max())
    return Row(
        "K=18 n=10, value and gradient, against autograd through enumeration", seconds, other, ratio, f"{gap:.0e}"
    )


def gadget_row() -> Row:
    inputs, width, depth = 8, 4096, 3
    model, sample = gadget_network(inputs, width, depth), two_points(torch.ones(inputs))
    masks = Bernoulli(DROP, model.units)
    draws = MonteCarlo(samples=200)
    ours, theirs, ratio = compare(
        lambda: relu_criterion(model, sample, masks).mean(), lambda: penalty(model, sample, masks, draws), repeats=1
    )
    value = float(relu_criterion(model, sample, masks).mean())
    gap = abs(value - gadget_criterion(inputs, width, depth))
    note = "exact over 2^8200 masks; the alternative is Monte Carlo with 200 of them"
    return Row("gadget network K=8 n=4096 depth 3", ours, theirs, ratio, f"{gap:.0e} to the formula", note)


if __name__ == "__main__":
    torch.set_num_threads(1)
    report("relu", [*enumeration_rows(), *largest_rows(), gradient_row(), gadget_row()])
