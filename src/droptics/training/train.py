"""train: one loop for all families, objectives and optimizers; many runs at once as a leading dimension."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from tqdm import tqdm

from droptics.arguments import Count, NonNegative, Seed, check_arguments
from droptics.data import Data
from droptics.models import LastLayer, Model
from droptics.penalties import risk
from droptics.training.checkpoints import Checkpoint, Iterate, Progress
from droptics.training.descents import (
    Descent,
    KernelDescent,
    MaxNorm,
    OptimizerFactory,
    TorchDescent,
    single_sample,
    stacked,
)
from droptics.training.draws import Stream
from droptics.training.guards import Diverged, Guard
from droptics.training.objectives import Objective
from droptics.training.persistent import PersistentDescent, why_not
from droptics.training.products import ProductsDescent
from droptics.training.records import Recorder, Recording, lower_bounds
from droptics.training.schedules import Schedule, constant
from droptics.training.setup import Convention, check_training, data_tensors, run_rates, run_seeds

__all__ = ["Diverged", "Iterate", "Run", "train"]

EngineName = Literal["auto", "kernel", "persistent", "products", "torch"]
SINGLE: dict[str, Callable[[Any], Descent]] = {
    "kernel": KernelDescent,
    "persistent": PersistentDescent,
    "products": ProductsDescent,
}


@dataclass(frozen=True, eq=False)
class Run:
    """The result of training.

    Attributes:
        model: The trained model, or the batch of them.
        history: Recorded series by name: "step" (records,), everything else (records, runs, ...) without the second
            dimension when the model was not a batch; "loss" is the mean loss of the steps since the last record,
            "bound" the proved lower bound where one is known.
        steps: Steps taken.
        convention: What a step of size s moves by: "gradient" s times the gradient; "mianjy2018" keep / 2 times that
            and "pal2020" half of it, as these papers print their algorithms.
        engine: "kernel", "persistent", "products" or "torch".
        seeds: One seed per run.
        stopped: Why it ended: "steps" or "certificate".
        diverged: For every run that was frozen because it diverged, the step at which it did.
        iterates: The models asked for by `keep`.
        seconds: Wall time spent in this call.
    """

    model: Model
    history: Mapping[str, Tensor]
    steps: int
    convention: Convention
    engine: str
    seeds: tuple[int, ...]
    stopped: str
    diverged: Mapping[int, int] = field(default_factory=dict)
    iterates: tuple[Iterate, ...] = ()
    seconds: float = 0.0

    def at(self, step: int) -> int:
        """The place of a step among the records."""
        found = (self.history["step"] == step).nonzero()
        if not len(found):
            raise ValueError(f"step {step} was not recorded; recorded are {self.history['step'].tolist()}")
        return int(found[0])

    def mean_loss(self, begin: int, end: int) -> Tensor:
        """Mean loss of the steps between two recorded ones; for both 0 that of the first step."""
        first, last = self.at(begin), self.at(end)
        if first == last:
            return self.history["loss"][last]
        counts = self.history["step"].diff()[first:last].double()
        return torch.tensordot(counts, self.history["loss"][first + 1 : last + 1], 1) / counts.sum()

    def step_loss(self, step: int) -> tuple[Tensor, Tensor]:
        """The loss of the step that ended at `step`, and the objective of the weights it started from: its mean.

        Both steps have to be recorded, see `with_previous`. At 0 it is the step that starts there.
        """
        before = self.at(max(step - 1, 0))
        return self.history["loss"][self.at(step)], self.history["objective"][before].double().cpu()

    def final(self, name: str) -> Tensor:
        """The last recorded value of a series."""
        return self.history[name][-1]


def train(
    model: Model,
    data: Data,
    objective: Objective,
    *,
    steps: Count,
    step_size: float | Sequence[float] | Tensor,
    batch_size: Count | None = None,
    seed: Seed | Sequence[Seed] = 0,
    convention: Convention = "gradient",
    schedule: Schedule = constant,
    optimizer: OptimizerFactory | None = None,
    decay: NonNegative = 0.0,
    max_norm: MaxNorm | None = None,
    frozen: Sequence[int] = (),
    record: Recording | Sequence[str] | None = None,
    bound: float | Sequence[float] | Tensor | Literal["certify"] | None = None,
    stop_gap: NonNegative | None = None,
    keep: Sequence[int] = (),
    diverging: Literal["raise", "freeze"] = "raise",
    engine: EngineName = "auto",
    checkpoint: Checkpoint | str | Path | None = None,
    progress: bool = False,
) -> Run:
    """Minimize an objective by first-order steps; a leading dimension of the weights is a batch of independent runs.

    A batch equals separate runs up to rounding: run i has its own random streams, seeded by seed + i (or seed[i]),
    and its own step size and mask law where sequences are given. Single-sample steps of two-layer linear networks
    under plain SGD are compiled; everything else is a torch program. The model passed in is not changed.

    Args:
        model: Where to start; any family. For a `LastLayer` all trainable parameters of the module are trained.
        data: `Sample`, `Entries` or `Measurements`, a fixed set; or `Moments`, a population of which `batch_size`
            fresh normal examples are drawn per step, or which linear models see as a whole.
        objective: `Plain()`, `Dropout(masks)`, `Penalized(masks)` or `Adversarial(threat, method)`.
        steps: How many steps.
        step_size: Step size, or one per run.
        batch_size: Examples per step, drawn with replacement; None uses all data in every step.
        seed: Seed of the first run, or one per run.
        convention: "gradient", or the step of "mianjy2018" or "pal2020" as printed; see `Run`.
        schedule: A function of the step that multiplies the step size, such as `Inverse(300)`.
        optimizer: A torch optimizer class (or partial), called as optimizer(weights, lr=...); SGD by default.
        decay: Adds decay / 2 times the squared norm of the weight matrices (not the biases) to the objective.
        max_norm: Projection after every step.
        frozen: Indices of `model.tensors` that are not trained.
        record: Names of quantities, or a `Recording`.
        bound: A lower bound on the objective, one per run, or "certify" to prove one.
        stop_gap: Stop when every run is within this relative gap of the bound (proved if none was given).
        keep: Steps whose models are kept in `Run.iterates`, with the masks of their next step.
        diverging: "raise" stops with `Diverged`; "freeze" leaves diverged runs where they were last sound, records
            infinity for them, and goes on with the others.
        engine: "auto", or force one: "kernel" (compiled single-sample steps, CPU), "persistent" (the same as one
            Triton program per run, GPU), "products" (the same as batched products, a captured graph on a GPU), "torch"
            (everything).
        checkpoint: File to write progress to and to resume from; the settings must be the same.
        progress: Show a progress bar with the current gap, where there is a terminal.

    Claims: mianjy2018-alg1, pal2020-alg1, thesis-alg4.

    >>> from droptics.data import Moments
    >>> from droptics.masks import Bernoulli
    >>> from droptics.models import TwoLayerLinear
    >>> from droptics.training import Dropout
    >>> start = TwoLayerLinear(torch.full((1, 2), 0.5).double(), torch.full((1, 2), 0.5).double())
    >>> population = Moments.of_map(torch.ones(1, 1).double())
    >>> run = train(start, population, Dropout(Bernoulli(0.5, 2)), steps=2000, step_size=0.01, batch_size=1)
    >>> bool(abs(run.final("objective") - 1 / 3) < 0.05)
    True
    """
    check_arguments(train, locals())
    started = time.perf_counter()
    check_training(model, data, objective, steps, batch_size)
    lead = bool(model.batch_shape)
    runs = model.batch_shape.numel() if lead else 1
    seeds = run_seeds(seed, runs)
    rates = run_rates(step_size, convention, objective, runs)
    masks = stacked(objective.laws, lead)
    plain = optimizer is None and not decay and max_norm is None and not frozen
    engine = _chosen(engine, model, single_sample(model, data, objective, batch_size, plain))
    stepper: Descent
    if engine in SINGLE:
        stepper = SINGLE[engine](model)
    else:
        stepper = TorchDescent(
            model,
            data,
            objective,
            batched=batch_size is not None,
            optimizer=optimizer,
            decay=decay,
            max_norm=max_norm,
            frozen=frozen,
        )
    if stop_gap is not None and bound is None:
        bound = "certify"
    lower = lower_bounds(model, data, objective.laws) if isinstance(bound, str) else bound
    recording = record if isinstance(record, Recording) else Recording() if record is None else Recording(record)
    recorder = Recorder(
        recording, model, data, masks, objective.laws, objective.loss, steps, lower, runs if lead else None
    )
    with torch.no_grad():
        guard = Guard(risk(model, data, objective.loss), rates, diverging)
    stream = Stream(data, objective, seeds, batch_size, model.device)
    if checkpoint is not None and keep and isinstance(model, LastLayer):
        raise ValueError("keep is not part of a checkpoint for a network's module; leave out keep or checkpoint")
    settings = {
        "objective": objective.describe(),
        "steps": steps,
        "batch_size": batch_size,
        "seeds": list(seeds),
        "rates": rates.tolist(),
        "schedule": [schedule(t) for t in recorder.steps],
        "engine": f"{engine.title()}Engine",  # as checkpoints have always called it
        "optimizer": re.sub(r" at 0x[0-9a-f]+", "", repr(optimizer)),  # functions show their address
        "options": [decay, repr(max_norm), list(frozen), stop_gap, list(recorder.names), sorted(keep)],
    }
    saver = Progress(checkpoint, settings, [*stepper.tensors().values(), *data_tensors(data)])
    done, iterates = saver.resume(stepper, stream, recorder, guard)
    stopped = _loop(
        stepper, stream, recorder, guard, saver, schedule, (done, steps), stop_gap, set(keep), iterates, progress
    )
    return Run(
        model=stepper.snapshot(),
        history=recorder.table(),
        steps=recorder.last,
        convention=convention,
        engine=engine,
        seeds=seeds,
        stopped=stopped,
        diverged=dict(guard.frozen),
        iterates=tuple(iterates),
        seconds=time.perf_counter() - started,
    )


def _loop(
    engine: Descent,
    stream: Stream,
    recorder: Recorder,
    guard: Guard,
    saver: Progress,
    schedule: Schedule,
    span: tuple[int, int],
    stop_gap: float | None,
    keep: set[int],
    iterates: list[Iterate],
    progress: bool,
) -> str:
    """Steps in stretches between records; random numbers come in chunks, checkpoints are written between chunks."""
    step, steps = span
    if step == 0:
        recorder.record(0, engine.model(), guard.frozen)
    stopped = "certificate" if stop_gap is not None and recorder.gap <= stop_gap else "steps"
    with _bar(progress, step, steps) as bar:
        while step < steps and stopped == "steps" and not guard.all_frozen:
            begin, end = step, min(steps, step + stream.length)
            draws = stream.next(end - begin)
            while step < end and stopped == "steps":
                if step in keep:
                    iterates.append(Iterate(step, engine.snapshot(), draws.masks(step - begin, recorder.lead)))
                until = min([end, recorder.next_after(step), *(kept for kept in keep if kept > step)])
                rates = _factors(schedule, step, until).to(engine.rates_on)[:, None] * guard.rates.to(engine.rates_on)
                before = guard.remember(engine)
                losses = engine.advance(draws, step - begin, rates)
                guard.check(engine, losses, rates, step, before)
                recorder.add(losses)
                step = until
                if recorder.due(step):
                    recorder.record(step, engine.model(), guard.frozen)
                    if stop_gap is not None and recorder.gap <= stop_gap:
                        stopped = "certificate"
            if bar is not None:
                bar.set_postfix_str(f"gap {recorder.gap:.2%}" if recorder.has_bound else "", refresh=False)
                bar.update(step - begin)
            ended = step == steps or stopped != "steps"
            saver.save(step, engine, stream, recorder, guard, iterates, final=ended)
    if step in keep:
        iterates.append(Iterate(step, engine.snapshot(), None))
    return stopped


def _factors(schedule: Schedule, begin: int, end: int) -> Tensor:
    if schedule is constant:
        return torch.ones(end - begin, dtype=torch.float64)
    return torch.tensor([schedule(step) for step in range(begin, end)], dtype=torch.float64)


def _chosen(engine: EngineName, model: Model, single: bool) -> EngineName:
    """The engine to use; an engine that was asked for and does not cover this training is refused with the reason."""
    if engine not in ("auto", "torch", *SINGLE):
        raise ValueError(f'engine must be "auto", "torch" or one of {sorted(SINGLE)}, got {engine!r}')
    if not single and engine in SINGLE:
        raise ValueError(
            f"engine='{engine}' covers single-sample SGD of TwoLayerLinear and Autoencoder with squared loss, without "
            "decay, max_norm or frozen weights; use engine='auto'"
        )
    if engine == "torch" or not single:
        return "torch"
    cpu = model.device.type == "cpu"
    if engine == "kernel" and not cpu:
        raise ValueError("engine='kernel' runs on the CPU; use engine='auto'")
    reason = why_not(model)  # type: ignore[arg-type]
    if engine == "persistent" and reason:
        raise ValueError(f"engine='persistent' cannot be used: {reason}; use engine='auto'")
    if engine != "auto":
        return engine
    return "kernel" if cpu else "products" if reason else "persistent"


def _bar(progress: bool, step: int, steps: int) -> AbstractContextManager[Any]:
    """A progress bar where one is wanted and there is a terminal; else nothing, not even the bar's own thread."""
    return tqdm(total=steps, initial=step, unit="step") if progress and sys.stderr.isatty() else nullcontext()
