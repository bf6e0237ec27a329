"""Exact criterion of ReLU networks: against batched enumeration, the largest sizes in ten seconds, gradients.

With a GPU also the largest network there, in wall time; `--gpu` leaves the CPU out.
"""

from __future__ import annotations

import itertools
import math
import sys
import time

import torch
from torch import Tensor

from droptics.data import Sample
from droptics.masks import Bernoulli
from droptics.models import ReLUNet
from droptics.papers.helmbold2017.networks import gadget_criterion, gadget_network, two_points
from droptics.penalties import ClosedForm, MonteCarlo, penalty, relu_criterion
from droptics.penalties.relu import triton_sums
from harness import RESULTS, Row, clock, compare, report
from standings import rates

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


def exact(model: ReLUNet, sample: Sample, method: ClosedForm = LONG) -> Tensor:
    return relu_criterion(model, sample, Bernoulli(DROP, model.units), method)[0]


def to_device(model: ReLUNet, sample: Sample, device: str) -> tuple[ReLUNet, Sample]:
    parts = [[tensor.to(device) for tensor in part] for part in (model.weights, model.biases)]
    return ReLUNet(*parts), Sample(sample.inputs.to(device), sample.targets.to(device))


def integrated_enumeration(model: ReLUNet, sample: Sample, chunk: int = 2**16) -> Tensor:
    """All input masks in batches, the last layer integrated: the strong plain alternative."""
    first, last = model.weights
    inputs = first.shape[1]
    places = torch.arange(inputs, device=first.device)
    total = torch.zeros((), dtype=torch.float64, device=first.device)
    for start in range(0, 2**inputs, chunk):
        codes = torch.arange(start, min(start + chunk, 2**inputs), device=first.device)
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
    rows += [best, two_threads(per_mask, limit)]
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


def two_threads(per_mask: float, limit: float) -> Row:
    """The largest network in ten seconds of wall time on two threads."""
    alone = exact(network(30, 10, 1), example(30))
    torch.set_num_threads(2)
    agreement = difference(exact(network(30, 10, 1), example(30)), alone)
    best: Row | None = None
    for inputs in range(36, 46, 2):
        model, sample = network(inputs, 10, 1), example(inputs)
        begin = time.perf_counter()
        exact(model, sample)
        ours = time.perf_counter() - begin
        if ours > limit:
            break
        theirs = per_mask * 2.0**inputs
        note = "wall time; agreement with one thread at K=30; alternative on one, extrapolated"
        label = f"depth 2, K={inputs} n=10, two threads (2^{inputs + 10} masks)"
        best = Row(label, ours, theirs, theirs / ours, agreement, note)
    torch.set_num_threads(1)
    assert best is not None
    return best


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


def list_bytes(inputs: int, units: int) -> float:
    """Bytes that the lists of all pairs of units must move on a GPU, see droptics.penalties.relu.triton_sums.

    An outcome has 28 bytes. Each pass over two bits reads them for its sums, reads them again and writes them; the
    levels of short blocks together read them once. A pair gathers a rank and a value and writes them; sorting is eight
    passes that read and write 16 bytes, once a unit.
    """
    size = 2 ** (inputs // 2 + 1)
    passes = math.log2(size / triton_sums.tile_of(size)) / 2
    return size * (units * (units - 1) / 2 * (84 * passes + 28 + 36) + units * 8 * 32)


def gpu_rows(limit: float = 10.0) -> list[Row]:
    """The largest network in ten seconds on a GPU; the alternative is batched enumeration there, at its own rate."""
    device = "cuda"
    small = network(30, 10, 1), example(30)
    agreement = difference(exact(*to_device(*small, device)).cpu(), exact(*small))
    seen = to_device(network(26, 10, 1), example(26), device)
    integrated_enumeration(*seen, chunk=2**22)
    begin = clock(device)
    integrated_enumeration(*seen, chunk=2**22)
    per_mask = (clock(device) - begin) / 2**26
    copied = rates(RESULTS / "ceilings_gpu.json").get("bytes")
    method = ClosedForm(seconds=1e6, memory=int(0.85 * torch.cuda.get_device_properties(0).total_memory))
    rows = []
    for inputs in range(50, 64, 2):
        pair = to_device(network(inputs, 10, 1), example(inputs), device)
        begin = clock(device)
        exact(*pair, method)
        ours = clock(device) - begin
        if ours > limit:
            break
        theirs = per_mask * 2.0**inputs
        label = f"depth 2, K={inputs} n=10, GPU (2^{inputs + 10} masks)"
        note = "within 10 s of wall time; agreement with the CPU at K=30; alternative extrapolated"
        floor = list_bytes(inputs, 10) / copied if copied else None
        rows.append(Row(label, ours, theirs, theirs / ours, agreement, note, floor))
        # two more inputs take more than twice as long: what cannot end in time is not begun
        if 2 * ours > limit:
            break
    # the largest first: it is the row that counts
    return rows[::-1]


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "--gpu" not in sys.argv:
        report("relu", [*enumeration_rows(), *largest_rows(), gradient_row(), gadget_row()])
    if torch.cuda.is_available():
        report("relu_gpu", gpu_rows(), "cuda")
