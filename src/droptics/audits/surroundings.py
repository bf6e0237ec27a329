"""Findings about what stands around dropout: the data, the outputs, layers of one's own, statistics behind it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from droptics.audits.batches import Batch, run
from droptics.audits.criteria import IGNORED, mean_loss
from droptics.audits.findings import Remark, finding
from droptics.audits.passes import Passes
from droptics.models.hooks import hooked
from droptics.models.modes import set_training, training_without_statistics, unmoved
from droptics.models.watching import Trace, all_off, as_written, watched

KEPT, PADDED = ("attention_mask",), ("key_padding_mask", "src_key_padding_mask", "padding_mask")
RATES = ("drop_prob", "p", "drop", "drop_rate", "drop_path", "rate", "prob")
FEW = 8  # examples on which it is asked whether padding counts
LEAST_SHIFT = 1.05  # ratio of variances below which a shift is not worth a word


@finding(
    "DR001",
    "bug",
    "outputs are not numbers",
    asks=Passes,
    evidence="NaN in the outputs in evaluation mode, on the first batch",
    mend="find the first layer whose output is NaN (torch.autograd.detect_anomaly, or hooks) before anything else",
)
def not_numbers(passes: Passes) -> Iterator[Remark]:
    """No loss and no penalty can be said of a network whose outputs are NaN."""
    bad = passes.outputs.isnan().flatten(1).any(1) if passes.outputs.ndim > 1 else passes.outputs.isnan()
    if bool(bad.any()):
        yield Remark("the network", f"the outputs of {int(bad.sum())} of {len(bad)} examples are NaN")


@finding(
    "DR002",
    "warning",
    "padding is counted",
    asks=Passes,
    evidence="positions that the padding mask of the batch names, where other outputs give another loss (for the loss "
    "of the model itself: where labels of -100 do)",
    mend="set the targets there to -100, or mask the loss",
)
def padding_counted(passes: Passes) -> Iterator[Remark]:
    """The loss, and every penalty with it, is averaged over positions that hold nothing."""
    found = _padding(passes.batch)
    if found is None or passes.loss is None:
        return
    name, padded = found
    targets = passes.batch.targets
    counted = torch.ones_like(padded) if targets.is_floating_point() else targets != IGNORED
    there = padded & counted
    if bool(there.any()) and _matters(passes, there):
        share = float(there.sum()) / float(counted.sum())
        yield Remark("the loss", f"{share:.0%} of the positions that it averages are padding ({name} says so)")


def _padding(batch: Batch) -> tuple[str, Tensor] | None:
    """Name of the padding mask of a batch, and where it says padding, in the shape of the targets."""
    for name, value in batch.options.items():
        if isinstance(value, Tensor) and value.shape == batch.targets.shape and value.ndim > 1:
            if name in KEPT:
                return name, value == 0
            if name in PADDED and value.dtype == torch.bool:
                return name, value
    return None


def _matters(passes: Passes, there: Tensor) -> bool:
    """Whether the loss depends on what is predicted at these positions."""
    batch, targets = passes.batch, passes.batch.targets
    if batch.own_loss:
        without = replace(batch, options={**batch.options, batch.key or "labels": targets.masked_fill(there, IGNORED)})
        try:
            changed, _ = watched(passes.module, lambda: run(passes.module, without), all_off)
        except (IndexError, RuntimeError):  # the module leaves out another label
            return False
        return bool(changed != passes.outputs)
    assert passes.loss is not None
    some = there.any(1).nonzero()[:FEW, 0]  # a vocabulary is large
    outputs, targets, there = passes.outputs[some], targets[some], there[some]
    moved = outputs.clone()
    axis = -1 if outputs.shape[:2] == targets.shape else 1
    if outputs.shape == targets.shape:
        moved[there] += 1
    elif moved.movedim(axis, -1).shape[:-1] == targets.shape:
        moved.movedim(axis, -1)[..., 0][there] += 1
    return bool(mean_loss(passes.loss, outputs, targets) != mean_loss(passes.loss, moved, targets))


@finding(
    "DR103",
    "bug",
    "a dropout layer of one's own that never drops",
    asks=Passes,
    evidence="a layer without weights whose class is named after dropping (DropPath, StochasticDepth, DropBlock, ...), "
    "with a rate above zero, that was not called in a training pass, or drew nothing there and returned its input",
    mend="call it in forward and let it follow self.training, or remove it",
)
def own_layer_never_drops(passes: Passes) -> Iterator[Remark]:
    """Stochastic depth is configured, but every block stays: the network trains without it."""
    drawing = {place.rpartition(".")[0] for place in passes.training.hand_written}
    asked = []
    for name, part in passes.module.named_modules():
        rate = _rate(part)
        if rate is None or name in drawing or any(call.module is part for call in passes.training.calls):
            continue
        if part in passes.training.visited:
            asked.append((name, part, rate))
        elif name.rpartition(".")[0] not in drawing:  # its owner may draw with this rate
            yield Remark(name, f"{type(part).__name__} at rate {rate:g} is part of the module but never runs")
    if asked:
        same = _identities(passes, [part for _, part, _ in asked])
        for name, part, rate in asked:
            if part in same:
                yield Remark(name, f"{type(part).__name__} at rate {rate:g} runs in training mode but never drops")


def _rate(part: nn.Module) -> float | None:
    """The rate of a layer that is nothing but dropping, by its name; torch's own layers have a code of their own."""
    named = any(word in type(part).__name__.lower() for word in ("drop", "stochasticdepth"))
    own = not isinstance(part, nn.modules.dropout._DropoutNd) and next(part.children(), None) is None
    if not named or not own or next(part.parameters(), None) is not None:
        return None
    values = (getattr(part, name, None) for name in RATES)
    return next((float(value) for value in values if isinstance(value, float) and 0 < value < 1), None)


def _identities(passes: Passes, parts: list[nn.Module]) -> set[nn.Module]:
    """Parts that return their input in a training pass in which nobody draws from Python or NumPy."""
    given: dict[nn.Module, Tensor] = {}
    same: set[nn.Module] = set()

    def before(part: nn.Module, arguments: tuple[object, ...]) -> None:
        if arguments and isinstance(arguments[0], Tensor):
            given[part] = arguments[0].detach().clone()

    def after(part: nn.Module, _: tuple[object, ...], result: object) -> None:
        if part in given and isinstance(result, Tensor) and torch.equal(given[part], result):
            same.add(part)

    states = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index] # noqa: NPY002
    try:
        set_training(passes.module, True)
        hooks = hooked([(part, before) for part in parts], [(part, after) for part in parts])
        with unmoved(passes.module), hooks, torch.no_grad():
            run(passes.module, passes.batch)
    finally:
        set_training(passes.module, False)
    drew = states != (random.getstate(), np.random.get_state()[1].tolist())  # type: ignore[index] # noqa: NPY002
    return set() if drew else same


@finding(
    "DR401",
    "warning",
    "variance shift of BatchNorm",
    asks=Passes,
    evidence="variance of the inputs of the layer with dropout on against that with dropout off, on the same examples, "
    "beyond what their number can tell; running statistics that were estimated without dropout are left alone",
    mend="put dropout behind the last BatchNorm, or estimate the running statistics again with dropout off",
)
def variance_shift(passes: Passes) -> Iterator[Remark]:
    """Dropout raises the variance that BatchNorm learns; in evaluation mode it divides by too much."""
    behind = {part for part, late in passes.training.visited.items() if late or passes.own}
    layers = {
        part: name
        for name, part in passes.module.named_modules()
        if isinstance(part, _BatchNorm) and part.running_var is not None and part in behind
    }
    drops = passes.own or any(call.rate > 0 and call.applied for call in passes.training.calls)
    if not layers or not drops:
        return
    on = _variances(passes, list(layers), training=True)
    off = _variances(passes, list(on), training=False) if on else {}
    for part, name in layers.items():
        if part in on and part in off and (shift := _shift(part, *on[part], off[part][0])) is not None:
            text = (
                f"the variance of its inputs is {shift:.2f} times as large while dropout is on: in evaluation mode "
                f"its outputs are {shift**-0.5:.2f} times as large as the next layers are trained for"
            )
            yield Remark(name, text)


def _variances(passes: Passes, layers: list[nn.Module], training: bool) -> dict[nn.Module, tuple[Tensor, int]]:
    """Variance of every channel of the first input of each layer, and over how many values it was taken.

    In training mode only of layers behind a place that drops.
    """
    found: dict[nn.Module, tuple[Tensor, int]] = {}
    traces: list[Trace] = []

    def before(part: nn.Module, arguments: tuple[object, ...]) -> None:
        noisy = passes.own or not training or any(call.applied for call in traces[0].calls)
        if noisy and part not in found and arguments and isinstance(arguments[0], Tensor) and arguments[0].ndim > 1:
            values = arguments[0].detach()
            values = values if values.dtype in (torch.float32, torch.float64) else values.float()
            rest = [axis for axis in range(values.ndim) if axis != 1]
            found[part] = values.var(rest), values[:, 0].numel()

    module = passes.module
    try:
        if training:
            training_without_statistics(module)
        else:
            set_training(module, False)
        switch = as_written if training else all_off
        with hooked([(part, before) for part in layers]), torch.no_grad():
            watched(module, lambda: run(module, passes.batch), switch, on_trace=traces.append)
    finally:
        set_training(module, False)
    return found


def _shift(part: _BatchNorm, noisy: Tensor, count: int, clean: Tensor) -> float | None:
    """Ratio of the variances, median over channels; None where it is small, not known, or not in the statistics."""
    alive = (clean > 0) & noisy.isfinite()
    if not bool(alive.any()) or count < 2:
        return None
    ratio = float((noisy[alive] / clean[alive]).median())
    # a variance of `count` values has the relative error sqrt(2 / count), the median over channels less
    unsure = 4 * math.sqrt(2 / count / int(alive.sum()))
    if not ratio > LEAST_SHIFT + unsure:
        return None
    if part.num_batches_tracked is not None and int(part.num_batches_tracked) > 0:
        assert part.running_var is not None
        learned = part.running_var.to(clean)[alive].log()
        if (learned - clean[alive].log()).abs().median() < (learned - noisy[alive].log()).abs().median():
            return None
    return ratio
