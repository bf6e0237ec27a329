"""train: one loop for all families, objectives and optimizers; many runs at once as a leading dimension."""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Unpack

import torch
from torch import Tensor
from tqdm import tqdm

from droptics.arguments import check_arguments
from droptics.data import Data
from droptics.models import LastLayer, Model
from droptics.penalties import risk
from droptics.training.checkpoints import Iterate, Progress, State
from droptics.training.descents import Descent, KernelDescent, PersistentDescent, TorchDescent, single_sample, stacked
from droptics.training.draws import Draws, Stream
from droptics.training.guards import Guard
from droptics.training.objectives import CatastrophicOverfitting, Objective
from droptics.training.products import ProductsDescent
from droptics.training.records import Recorder, Recording, lower_bounds
from droptics.training.schedules import Schedule, constant
from droptics.training.settings import EngineName, Options, Settings, chosen
from droptics.training.setup import Convention, check_training, data_tensors, run_seeds, run_step_sizes

SINGLE: dict[str, Any] = {"kernel": KernelDescent, "persistent": PersistentDescent, "products": ProductsDescent}


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
        """Mean loss of the steps between two recorded ones, in either order; for both 0 that of the first step."""
        first, last = sorted((self.at(begin), self.at(end)))
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
    model: Model, data: Data, objective: Objective, settings: Settings | None = None, **options: Unpack[Options]
) -> Run:
    """Minimize an objective by first-order steps; a leading dimension of the weights is a batch of independent runs.

    A batch equals separate runs up to rounding, if its optimizer does not mix them: run i has its own random streams,
    seeded by seed + i (or seed[i]), and its own step size and mask law where sequences are given. Single-sample steps
    of two-layer linear networks under plain SGD are compiled; all else is torch's. The model passed in is not changed.

    Cost: per step one forward and one backward pass over the batch for all runs together, and what is recorded.

    Args:
        model: Where to start; any family. For a `LastLayer` all trainable parameters of the module are trained.
        data: `Sample`, `Entries` or `Measurements`, a fixed set; or `Moments`, a population of which `batch_size`
            fresh normal examples are drawn per step, or which linear models see as a whole.
        objective: `Plain()`, `Dropout(masks)`, `Penalized(masks)`, `Adversarial(threat, method)` or `Free(threat)`.
        settings: How it goes: steps, their size, batches, schedule, records and so on, listed in `Settings`.
        options: Fields of `Settings` by keyword: all of them, or those that differ from `settings`.

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
    settings = chosen(settings, options)
    check_training(model, data, objective, settings.batch_size)
    training = _prepared(model, data, objective, settings)
    stopped = training.run()
    history = training.recorder.table()
    return Run(
        model=training.descent.snapshot(),
        history=history,
        steps=int(history["step"][-1]),
        convention=settings.convention,
        engine=training.engine,
        seeds=training.seeds,
        stopped=stopped,
        diverged=dict(training.guard.frozen),
        iterates=tuple(training.iterates),
        seconds=time.perf_counter() - started,
    )


def _prepared(model: Model, data: Data, objective: Objective, settings: Settings) -> _Training:
    """Everything a training needs, where it begins or was interrupted."""
    if settings.checkpoint is not None and settings.keep and isinstance(model, LastLayer):
        raise ValueError("keep is not part of a checkpoint for a network's module; leave out keep or checkpoint")
    runs = model.batch_shape.numel()
    seeds = run_seeds(settings.seed, runs)
    sizes = run_step_sizes(settings.step_size, settings.convention, objective, runs)
    masks = stacked(objective.laws, bool(model.batch_shape))
    engine = _chosen(settings.engine, model, single_sample(model, data, objective, settings))
    descent: Descent = SINGLE[engine](model) if engine in SINGLE else TorchDescent(model, data, objective, settings)
    bound = "certify" if settings.stop_gap is not None and settings.bound is None else settings.bound
    lower = lower_bounds(descent.model(), data, objective.laws) if isinstance(bound, str) else bound
    record = settings.record
    recording = record if isinstance(record, Recording) else Recording() if record is None else Recording(record)
    quantities = recording.quantities(model, data, masks, objective.laws, objective.loss)
    recorder = Recorder(quantities, model, recording.steps_of(settings.steps), lower)
    with torch.no_grad():
        guard = Guard(risk(model, data, objective.loss), sizes, settings.diverging)
    stream = Stream(data, objective, seeds, settings.batch_size, model.device)
    options: list[Any] = [settings.decay, repr(settings.max_norm), list(settings.frozen), settings.stop_gap]
    options += [list(recorder.quantities), sorted(settings.keep)]
    options += [] if settings.precision == "full" else [settings.precision]
    identity: dict[str, Any] = {"objective": objective.describe(), "seeds": list(seeds), "rates": sizes.tolist()}
    identity |= {"steps": settings.steps, "batch_size": settings.batch_size, "options": options}
    identity["schedule"] = [settings.schedule(t) for t in recorder.steps]
    identity["engine"] = f"{engine.title()}Engine"  # as checkpoints have always called it
    identity["optimizer"] = re.sub(r" at 0x[0-9a-f]+", "", repr(settings.optimizer))  # functions show their address
    saver = Progress(settings.checkpoint, identity, [*descent.tensors().values(), *data_tensors(data)])
    training = _Training(descent, stream, recorder, guard, 0, [], settings, engine, seeds, saver)
    saver.resume(training)
    return training


@dataclass(eq=False)
class _Training(State):
    """One training on its way, and what it goes by."""

    settings: Settings
    engine: EngineName
    seeds: tuple[int, ...]
    saver: Progress

    def run(self) -> str:
        """Steps in stretches between records; random numbers come in chunks, checkpoints are written between chunks."""
        steps = self.settings.steps
        if self.step == 0:
            self.recorder.record(0, self.descent.model(), self.guard.frozen)
        closed = self._closed()
        shown = self.settings.progress and sys.stderr.isatty()  # else there is not even the bar's own thread
        with tqdm(total=steps, initial=self.step, unit="step") if shown else nullcontext() as bar:
            while self.step < steps and not closed and len(self.guard.frozen) < len(self.seeds):
                begin, end = self.step, min(steps, self.step + self.stream.length)
                draws = self.stream.next(end - begin)
                while self.step < end and not closed:
                    closed = self._stretch(draws, begin, end)
                if bar is not None:
                    gap = self.recorder.gap
                    bar.set_postfix_str(f"gap {gap:.2%}" if gap < float("inf") else "", refresh=False)
                    bar.update(self.step - begin)
                self.saver.save(self, final=self.step == steps or closed)
        if self.step in self.settings.keep:
            self.iterates.append(Iterate(self.step, self.descent.snapshot(), None))
        return "certificate" if closed else "steps"

    def _stretch(self, draws: Draws, begin: int, end: int) -> bool:
        """Steps up to the next record, kept model or end of the draws; whether the certificate has closed."""
        step, keep, descent = self.step, self.settings.keep, self.descent
        if step in keep:
            masks = draws.masks(step - begin, self.recorder.lead)
            self.iterates.append(Iterate(step, descent.snapshot(), masks))
        record = self.recorder.next_after(step)
        until = min([end, record, *(kept for kept in keep if kept > step)])
        place = descent.sizes_on
        sizes = _factors(self.settings.schedule, step, until).to(place)[:, None] * self.guard.sizes.to(place)
        before = self.guard.remember(descent)
        losses = descent.advance(draws, step - begin, sizes)
        self.guard.check(descent, losses, sizes, step, before)
        self.recorder.add(losses)
        self.step = until
        if until < record:
            return False
        self.recorder.record(until, descent.model(), self.guard.frozen)
        said = descent.doubt(draws, until - 1 - begin)
        if said:
            warnings.warn(f"at step {until} {said}", CatastrophicOverfitting, stacklevel=2)
        return self._closed()

    def _closed(self) -> bool:
        return self.settings.stop_gap is not None and self.recorder.gap <= self.settings.stop_gap


def _factors(schedule: Schedule, begin: int, end: int) -> Tensor:
    if schedule is constant:
        return torch.ones(end - begin, dtype=torch.float64)
    return torch.tensor([schedule(step) for step in range(begin, end)], dtype=torch.float64)


def _chosen(engine: EngineName, model: Model, single: bool) -> EngineName:
    """The engine to use; an engine that was asked for and does not cover this training is refused with the reason."""
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
    reason = PersistentDescent.why_not(model)  # type: ignore[arg-type]
    if engine == "persistent" and reason:
        raise ValueError(f"engine='persistent' cannot be used: {reason}; use engine='auto'")
    if engine != "auto":
        return engine
    return "kernel" if cpu else "products" if reason else "persistent"
