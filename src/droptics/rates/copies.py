"""Copies of a module trained at different rates: as one population by torch.func, one by one, or by the caller."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from droptics.audits.batches import Batch, output_of, run
from droptics.audits.criteria import LossFunction, mean_loss
from droptics.files.arrays import read_safetensors, write_tensors
from droptics.models.hooks import hooked
from droptics.models.modes import reseed, set_training, undisturbed
from droptics.models.watching import Places
from droptics.predictions.running import eager
from droptics.rates.examples import Examples, example_losses, take
from droptics.rates.fits import Fit, FitFunction, Tensors
from droptics.rates.keeping import unwritten
from droptics.rates.masking import SharedMasks
from droptics.rates.places import set_rates
from droptics.rates.randomness import key

FORMAT = "droptics rates 1"
EVALUATED = 512  # examples at a time without gradients
Form = Literal["population", "single"]
Tick = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Problem:
    """What all copies share.

    Attributes:
        module: The module; its weights are those that every copy starts from.
        train: The training examples.
        probe: Some of them, on which the loss without dropout is taken.
        validation: The validation examples.
        loss: Of outputs and targets.
        fit: How to train.
        before: The rates that the places have in the module.
        data: The training data as the caller gave them, for a `fit` of theirs.
    """

    module: nn.Module
    train: Examples
    probe: Examples
    validation: Examples
    loss: LossFunction
    fit: Fit | FitFunction
    before: Mapping[str, float]
    data: Any = None

    @property
    def devices(self) -> list[int]:
        """The CUDA devices of the module."""
        tensors = (*self.module.parameters(), *self.module.buffers())
        return sorted({tensor.device.index or 0 for tensor in tensors if tensor.device.type == "cuda"})


@dataclass(frozen=True)
class Checkpoint:
    """Where an unfinished population is kept, and a text that is the same only for the same training."""

    path: str
    identity: str


def train_copies(
    problem: Problem,
    rates: Sequence[Mapping[str, float]],
    seed: int,
    form: Form,
    checkpoint: Checkpoint | None = None,
    tick: Tick | None = None,
) -> list[dict[str, Any]]:
    """Train copies at these rates from one seed; a row per copy.

    A row holds the validation losses of the examples at the best look, the loss on training examples without dropout
    there, the step, and what every look saw. The module is left as it was.
    """
    with undisturbed(problem.module, seed), eager(problem.module):
        if not isinstance(problem.fit, Fit):
            return [_foreign(problem, problem.fit, single, seed) for single in rates]
        if form == "single":
            return [
                _Population(problem, [single], seed, form).train(problem.fit, _own(checkpoint, i, rates), tick)[0]
                for i, single in enumerate(rates)
            ]
        return _Population(problem, rates, seed, form).train(problem.fit, checkpoint, tick)


def _own(checkpoint: Checkpoint | None, index: int, rates: Sequence[Any]) -> Checkpoint | None:
    if checkpoint is None or len(rates) == 1:
        return checkpoint
    return Checkpoint(f"{checkpoint.path}.{index}", checkpoint.identity)


def same_bits(problem: Problem, rates: Sequence[Mapping[str, float]], seed: int) -> bool | None:
    """Whether a population gives the very numbers that its copies give alone; None where it cannot be formed.

    Kernels add in an order that depends on shapes and not on numbers. So a step on a batch of every size that occurs,
    and an evaluation of every size, tell for all steps.
    """
    assert isinstance(problem.fit, Fit)
    with undisturbed(problem.module, seed), eager(problem.module):
        try:
            together = _trial(problem, rates, seed)
        except Exception:
            # whatever a module does that vmap refuses: control flow by data, kernels that draw their own masks
            return None
        chosen = sorted({0, len(rates) - 1})
        return all(
            bool(((whole[i : i + 1] == part) | (whole[i : i + 1].isnan() & part.isnan())).all())
            for i in chosen
            for whole, part in zip(together, _trial(problem, [rates[i]], seed), strict=True)
        )


def _trial(problem: Problem, rates: Sequence[Mapping[str, float]], seed: int) -> list[Tensor]:
    """Weights, buffers and losses after one step on a batch of every size."""
    assert isinstance(problem.fit, Fit)
    population, fit = _Population(problem, rates, seed, "population"), problem.fit
    seen = []
    with population.watched():
        for batch in _one_of_each_size(problem.train, fit.batch_size):
            population.advance(batch, fit)
        for examples in (problem.validation, problem.probe):
            for batch in _one_of_each_size(examples, 1 if examples.parts[0].own_loss else EVALUATED):
                seen.append(population.losses(batch))
    return [*population.weights.values(), *population.buffers.values(), *seen]


def _one_of_each_size(examples: Examples, batch_size: int) -> Iterator[Batch]:
    for size in examples.sizes(batch_size):
        if examples.joined:
            yield take(examples.parts[0], slice(0, size))
        else:
            yield next(part for part in examples.parts if part.count == size)


class _Watch(Places):
    """Names of the modules that run; refuses a module that runs again in the backward pass."""

    backward = False

    def enter(self, part: nn.Module, given: object) -> None:
        if self.backward:
            raise ValueError(
                "module recomputes activations in the backward pass, where its masks cannot be shared; switch "
                "checkpointing off for the tuning"
            )
        super().enter(part, given)

    def begin(self) -> None:
        """A new pass: calls are counted from one."""
        self.counts.clear()
        self.stack.clear()


@contextmanager
def _named(places: Places, module: nn.Module) -> Iterator[None]:
    """Hooks that keep the names of the running modules."""
    parts = [part for part in module.modules() if not isinstance(part, torch.jit.ScriptModule)]
    with hooked([(part, places.enter) for part in parts], [(part, places.leave) for part in parts], always=True):
        yield


class _Population:
    """Copies that share everything but their rates; every tensor has the copies as its first dimension."""

    def __init__(self, problem: Problem, rates: Sequence[Mapping[str, float]], seed: int, form: Form) -> None:
        self.problem, self.seed, self.form, self.count, self.step = problem, seed, form, len(rates), 0
        module, count = problem.module, len(rates)

        def stacked(value: Tensor) -> Tensor:
            return value.detach().expand(count, *value.shape).clone()

        parameters = dict(module.named_parameters())
        self.weights: Tensors = {name: stacked(value) for name, value in parameters.items() if value.requires_grad}
        self.fixed: Tensors = {name: value.detach() for name, value in parameters.items() if not value.requires_grad}
        self.buffers: Tensors = {name: stacked(value) for name, value in module.named_buffers()}
        device = next(iter((*parameters.values(), *self.buffers.values()))).device
        self.rates = {
            name: torch.tensor([single[name] for single in rates], dtype=torch.float64, device=device)
            for name in rates[0]
        }
        self.numbers = rates
        assert isinstance(problem.fit, Fit)
        self.moments = problem.fit.moments(self.weights)
        self.places = _Watch(module)
        self.devices = problem.devices

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep the names of the running modules for a while; attributes that the module writes are put back."""
        with unwritten(self.problem.module), _named(self.places, self.problem.module):
            yield

    def outputs(self, batch: Batch, weights: Tensors, step: int | None) -> tuple[Tensor, ...]:
        """The outputs of every copy; `step=None` without dropout and in evaluation mode."""
        set_training(self.problem.module, step is not None)
        self.places.begin()
        if step is not None:
            reseed(key(self.seed, step, "other"), self.devices)

        def forward(own: Tensors, buffers: Tensors, rates: Any, arguments: Any, options: Any) -> Tensor:
            with SharedMasks(self.places, rates, self.seed, step, self.devices):
                state = {**own, **self.fixed, **buffers}
                output = functional_call(self.problem.module, state, tuple(arguments), options)
                self._assigned(state, buffers)  # functional_call tells by `state`
                return output_of(output, batch)

        if self.form == "single":
            only = [{name: value[0] for name, value in values.items()} for values in (weights, self.buffers)]
            return (forward(only[0], only[1], self.numbers[0], batch.arguments, batch.options),)
        # inputs are given to every copy anew: products are then the same whether the copies are one or many
        arguments = [_spread(value, self.count) for value in batch.arguments]
        options = {name: _spread(value, self.count) for name, value in batch.options.items()}
        first = [_dimension(value) for value in batch.arguments]
        second = {name: _dimension(value) for name, value in batch.options.items()}
        many = vmap(forward, in_dims=(0, 0, 0, first, second), randomness="same")
        return tuple(many(weights, self.buffers, self.rates, arguments, options).unbind(0))

    def _assigned(self, state: Tensors, buffers: Tensors) -> None:
        """Keep buffers that the module assigned anew; those that it wrote into have changed by themselves."""
        for name in buffers:
            if state[name] is not buffers[name]:
                if self.form != "single":
                    raise ValueError("module assigns a buffer: its copies run one by one")
                self.buffers[name] = state[name].detach()[None]

    def advance(self, batch: Batch, fit: Fit) -> None:
        """One step of every copy."""
        weights = {name: value.detach().requires_grad_() for name, value in self.weights.items()}
        with torch.enable_grad():
            outputs = self.outputs(batch, weights, self.step)
            losses = [mean_loss(self.problem.loss, output, batch.targets) for output in outputs]
            self.places.backward = True
            try:
                slopes = torch.autograd.grad(
                    sum(losses, start=losses[0].new_zeros(())), list(weights.values()), allow_unused=True
                )
            finally:
                self.places.backward = False
        self.step += 1
        with torch.no_grad():
            self.weights = fit.update(self.weights, dict(zip(weights, slopes, strict=True)), self.moments, self.step)

    def losses(self, batch: Batch) -> Tensor:
        """Losses of the examples without dropout, (copies, examples)."""
        with torch.no_grad():
            outputs = self.outputs(batch, self.weights, None)
            return torch.stack([example_losses(self.problem.loss, output, batch) for output in outputs])

    def evaluated(self, examples: Examples) -> Tensor:
        """The same for all examples; what is not finite counts as infinite."""
        losses = torch.cat([self.losses(batch) for batch in examples.in_order(EVALUATED)], 1)
        return losses.nan_to_num(math.inf, math.inf, math.inf)

    def train(self, fit: Fit, checkpoint: Checkpoint | None, tick: Tick | None) -> list[dict[str, Any]]:
        """Train to the end, from a checkpoint where there is one; a row per copy."""
        train, size = self.problem.train, fit.batch_size
        epoch_steps = train.steps(size)
        total = epoch_steps * fit.epochs
        looks = set(fit.look_steps(total))
        record = _Record(self.count, self.problem.validation.units, fit.tail_steps(total))
        if checkpoint is not None:
            self._resume(checkpoint, record)
        if tick is not None and self.step:
            tick(self.step * self.count)
        order, epoch = torch.empty(0), -1
        with self.watched():
            while self.step < total:
                if self.step // epoch_steps != epoch:
                    epoch = self.step // epoch_steps
                    order = train.order(epoch, self.seed)
                self.advance(train.batch(order, self.step % epoch_steps, size), fit)
                if self.step in looks:
                    probe = self.evaluated(self.problem.probe).mean(1)
                    record.look(self.step, self.evaluated(self.problem.validation), probe)
                    if checkpoint is not None:
                        self._save(checkpoint, record)
                if tick is not None:
                    tick(self.count)
        return record.rows()

    def _save(self, checkpoint: Checkpoint, record: _Record) -> None:
        state = {"identity": checkpoint.identity, "step": self.step, "record": record.state()}
        tensors = {"best": record.best} | {
            f"{group}.{name}": value
            for group in ("weights", "buffers", "moments")
            for name, value in getattr(self, group).items()
        }
        own = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        write_tensors(Path(checkpoint.path), own, {"format": FORMAT, "state": json.dumps(state)})

    def _resume(self, checkpoint: Checkpoint, record: _Record) -> None:
        """Take up a checkpoint of this very training; any other, or one that cannot be read, is left alone."""
        with suppress(OSError, ValueError):
            tensors, texts = read_safetensors(Path(checkpoint.path))
            state = json.loads(texts.get("state", "{}"))
            if texts.get("format") != FORMAT or state.get("identity") != checkpoint.identity:
                return
            for group in ("weights", "buffers", "moments"):
                own: Tensors = getattr(self, group)
                for name, value in own.items():
                    own[name] = tensors[f"{group}.{name}"].to(value.device)
            self.step = state["step"]
            record.restore(tensors["best"], state["record"])


def _spread(value: Any, count: int) -> Any:
    """A tensor for every copy, without being written down for each."""
    return value.expand(count, *value.shape) if isinstance(value, Tensor) else value


def _dimension(value: Any) -> int | None:
    return 0 if isinstance(value, Tensor) else None


class _Record:
    """What the looks of a population saw, and the losses at the best of them, or their mean over a tail of steps."""

    def __init__(self, copies: int, examples: int, tail: Sequence[int]) -> None:
        self.tail = tail
        self.best = torch.full((copies, examples), math.inf, dtype=torch.float64)
        self.steps = [0] * copies
        self.training = [math.inf] * copies
        self.looks: list[list[list[float]]] = [[] for _ in range(copies)]

    def look(self, step: int, losses: Tensor, training: Tensor) -> None:
        """Keep what is better, or the mean of what is in the tail."""
        losses = losses.cpu()
        for i, (mean, own) in enumerate(zip(losses.mean(1).tolist(), training.tolist(), strict=True)):
            self.looks[i].append([float(step), mean, own])
            if step in self.tail:
                self.steps[i] = step
                self._add(i, self.tail.index(step), losses[i].double(), own)
            elif not self.tail and (mean < float(self.best[i].mean()) or not self.steps[i]):
                self.best[i], self.steps[i], self.training[i] = losses[i], step, own

    def _add(self, i: int, before: int, losses: Tensor, own: float) -> None:
        """Take a look into the means of so many before; written so that what diverged stays infinite."""
        if not before:
            self.best[i], self.training[i] = losses, own
            return
        whole = before + 1
        self.best[i] = self.best[i] * (before / whole) + losses / whole
        self.training[i] = self.training[i] * (before / whole) + own / whole

    def rows(self) -> list[dict[str, Any]]:
        """One per copy."""
        columns = zip(self.best, self.training, self.steps, self.looks, strict=True)
        return [_row(losses, training, step, looks) for losses, training, step, looks in columns]

    def state(self) -> list[Any]:
        return [self.steps, self.training, self.looks]

    def restore(self, best: Tensor, state: list[Any]) -> None:
        self.best, (self.steps, self.training, self.looks) = best, state


def _row(losses: Tensor, training: float, step: int | None, looks: list[list[float]]) -> dict[str, Any]:
    """What is kept of a copy, in plain values; a copy that diverged has no losses."""

    def finite(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "losses": losses.tolist() if bool(losses.isfinite().all()) else None,
        "training": finite(training),
        "step": step,
        "looks": [[finite(value) for value in look] for look in looks],
    }


def _foreign(problem: Problem, fit: FitFunction, rates: Mapping[str, float], seed: int) -> dict[str, Any]:
    """A copy trained by the caller's function, under masks that copies at other rates share."""
    module = copy.deepcopy(problem.module)
    set_rates(module, rates, problem.before)
    set_training(module, True)
    places, devices = Places(module), problem.devices
    reseed(key(seed, "fit"), devices)
    with torch.enable_grad(), _named(places, module), SharedMasks(places, rates, seed, 0, devices):
        trained = fit(module, problem.data, seed)
    trained = module if trained is None else trained
    if not isinstance(trained, nn.Module):
        raise ValueError(f"fit must return a module or None, got {type(trained).__name__}")
    with torch.no_grad():
        set_training(trained, False)
        places = Places(trained)

        def losses(examples: Examples) -> Tensor:
            found = []
            for batch in examples.in_order(EVALUATED):
                with _named(places, trained), SharedMasks(places, {}, seed, None, devices):
                    found.append(example_losses(problem.loss, run(trained, batch), batch))
            return torch.cat(found).nan_to_num(math.inf, math.inf, math.inf)

        held, own = losses(problem.validation), float(losses(problem.probe).mean())
    return _row(held, own, None, [])
