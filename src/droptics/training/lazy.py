"""Dropout for two-layer ReLU networks with a fixed top layer: logistic loss, max-norm, re-scaling at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.answers import checked
from droptics.arguments import Count, DropRate, Positive, Seed, check_arguments
from droptics.checks import as_drop
from droptics.data import Sample
from droptics.losses import Logistic
from droptics.masks import Bernoulli, Product
from droptics.models import ReLUNet
from droptics.training.objectives import Dropout
from droptics.training.records import Recording
from droptics.training.schedules import log_steps
from droptics.training.settings import MaxNorm, Settings
from droptics.training.train import Run, train


@dataclass(frozen=True, eq=False)
class LazyRun:
    """Dropout training of a lazy network.

    Attributes:
        model: The final network with its first layer multiplied by the keep probability.
        run: The training itself, with weights that are not re-scaled.
        subnetworks: For each kept step before the end, the network of the units that its mask keeps, g(W_t; x, B_t).
            Where runs of a batch keep different units, or a mask keeps none, dropped ones stay and pass on zeros.
        steps: The kept steps.
        drift: Largest distance of a unit's weights from where they started, (kept steps,) or (kept steps, runs).
    """

    model: ReLUNet
    run: Run
    subnetworks: tuple[ReLUNet, ...]
    steps: tuple[int, ...]
    drift: Tensor


def lazy_start(inputs: Count, width: Count, seed: Seed = 0, dtype: torch.dtype = torch.float64) -> ReLUNet:
    """f(x) = a^T relu(W x) / sqrt(width), rows of W standard normal, a fixed vector of random signs (thesis-sec5.2).

    Conditions: none, it draws. Cost: O(inputs width).
    """
    check_arguments(lazy_start, locals())
    generator = torch.Generator().manual_seed(int(seed))
    first = torch.randn(width, inputs, dtype=dtype, generator=generator)
    signs = torch.randint(2, (1, width), generator=generator).to(dtype) * 2 - 1
    return ReLUNet([first, signs / math.sqrt(width)])


def lazy_norm(inputs: Count, width: Count) -> float:
    """The max-norm radius sqrt(d) + 2 sqrt(ln width) + 1, which no unit exceeds at the start with high probability.

    Conditions: rows drawn as by `lazy_start`; a width of one counts as two. Cost: O(1). Claim: thesis-sec5.3-corrected.
    """
    check_arguments(lazy_norm, locals())
    return math.sqrt(inputs) + 2 * math.sqrt(math.log(max(width, 2))) + 1


@checked
def train_lazy(  # parameters: those of thesis-alg4
    start: ReLUNet,
    data: Sample,
    drop: DropRate,
    *,
    steps: Count,
    step_size: Positive = 1.0,
    max_norm: Positive | None = None,
    keep: Sequence[int] | None = None,
    seed: Seed | Sequence[Seed] = 0,
) -> LazyRun:
    """Single-sample dropout SGD on the first layer of a two-layer ReLU network (thesis-alg4).

    Masks are raw zeros and ones during training; every row of the first layer is kept within `max_norm` (by default
    `lazy_norm`); at the end the first layer is multiplied by the keep probability. Labels are -1 and +1, the loss is
    the natural-log logistic loss: step_size <= 1 here is step size <= ln 2 for logarithms to base two. A leading
    dimension of the weights is a batch of runs.

    Cost: O(inputs width) per step.
    """
    if len(start.weights) != 2 or start.output_size != 1 or any(bool(bias.any()) for bias in start.biases):
        raise ValueError("start must be a two-layer ReLUNet with one output, without biases; lazy_start makes one")
    if keep is not None and not len(keep):
        raise ValueError("keep must name at least one step, got none")
    rate = float(as_drop(drop))
    width, inputs = start.weights[0].shape[-2:]
    radius = lazy_norm(inputs, width) if max_norm is None else max_norm
    steps_kept = tuple(log_steps(steps, 20)) if keep is None else tuple(sorted(set(keep)))
    objective = Dropout(Product([Bernoulli(0.0, inputs), Bernoulli(rate, width)]), Logistic(), scaled=False)
    settings = Settings(steps=steps, step_size=step_size, batch_size=1, frozen=(1, 2, 3), seed=seed, keep=steps_kept)
    record = Recording(("risk",), at=(0, steps))
    run = train(start, data, objective, settings, max_norm=MaxNorm(radius), record=record)
    subnetworks, drift = [], []
    for iterate in run.iterates:
        assert isinstance(iterate.model, ReLUNet)
        first, top = iterate.model.weights
        drift.append((first - start.weights[0]).norm(dim=-1).amax(-1))
        if iterate.multipliers is not None and start.batch_shape:
            subnetworks.append(ReLUNet([first, top * iterate.multipliers[..., inputs:]]))
        elif iterate.multipliers is not None:
            alive = iterate.multipliers.flatten()[inputs:] > 0
            units = alive if bool(alive.any()) else slice(None)
            subnetworks.append(ReLUNet([first[units], (top * alive)[:, units]]))
    assert isinstance(run.model, ReLUNet)
    first, top = run.model.weights
    return LazyRun(ReLUNet([(1 - rate) * first, top]), run, tuple(subnetworks), steps_kept, torch.stack(drift))
