"""How a training goes: one option object, whose fields `train` also takes by keyword."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypedDict

import torch
from torch import Tensor

from droptics.arguments import Count, NonNegative, PerRun, Positive, Seed, check_fields, checked_fields
from droptics.training.records import Recording
from droptics.training.schedules import Schedule, constant
from droptics.training.setup import Convention

OptimizerFactory = Callable[..., torch.optim.Optimizer]
EngineName = Literal["auto", "kernel", "persistent", "products", "torch"]
Precision = Literal["full", "bfloat16"]


@dataclass(frozen=True)
@checked_fields
class MaxNorm:
    """Keep the norm of every row (dim -1) or column (dim -2) of the chosen weights at most `radius` (thesis-alg4).

    `tensors` are indices into `model.tensors`; rows of ReLUNet and DeepLinear weights are what a unit takes in.
    """

    radius: Positive
    tensors: tuple[int, ...] = (0,)
    dim: int = -1

    def project(self, tensor: Tensor) -> None:
        """Shrink the vectors that are too long, in place."""
        norms = torch.linalg.vector_norm(tensor, dim=self.dim, keepdim=True)
        tensor.mul_(self.radius / norms.clamp_min(self.radius))


@dataclass(frozen=True)
@checked_fields
class Checkpoint:
    """Where to write progress, and the least number of seconds between two writes."""

    path: str | Path
    seconds: float = 30.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Settings:
    """How a training goes; `train(model, data, objective, Settings(steps=100, step_size=0.1))`, or by keyword.

    Attributes:
        steps: How many steps.
        step_size: Step size, or one per run.
        batch_size: Examples per step, drawn with replacement; None uses all data in every step.
        seed: Seed of the first run, or one per run.
        convention: "gradient", or the step of "mianjy2018" or "pal2020" as printed; see `Run`.
        schedule: A function of the step that multiplies the step size, such as `Inverse(300)`.
        optimizer: A torch optimizer class (or partial), called as optimizer(weights, lr=...); SGD by default. One whose
            step at a number depends on all numbers, as `LBFGS` and `Adafactor` do, mixes the runs of a batch.
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
        precision: "full", or "bfloat16" for the products of float32 models in that format; weights stay as they are.
        checkpoint: File to write progress to and to resume from; the settings must be the same.
        progress: Show a progress bar with the current gap, where there is a terminal.
    """

    steps: Count
    step_size: float | Sequence[float] | PerRun
    batch_size: Count | None = None
    seed: Seed | Sequence[Seed] = 0
    convention: Convention = "gradient"
    schedule: Schedule = field(default_factory=lambda: constant)  # a plain default would be a method of the class
    optimizer: OptimizerFactory | None = None
    decay: NonNegative = 0.0
    max_norm: MaxNorm | None = None
    frozen: Sequence[int] = ()
    record: Recording | Sequence[str] | None = None
    bound: float | Sequence[float] | PerRun | Literal["certify"] | None = None
    stop_gap: NonNegative | None = None
    keep: Sequence[int] = ()
    diverging: Literal["raise", "freeze"] = "raise"
    engine: EngineName = "auto"
    precision: Precision = "full"
    checkpoint: Checkpoint | str | Path | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if isinstance(self.bound, (list, tuple)) and not self.bound:
            raise ValueError("bound must be one number, or one for each run, got none")

    @property
    def plain(self) -> bool:
        """Whether steps are those of SGD on all weights and nothing else."""
        return (
            self.precision == "full"
            and self.optimizer is None
            and not self.decay
            and self.max_norm is None
            and not self.frozen
        )


class Options(TypedDict, total=False):
    """The fields of `Settings` by keyword, for type checkers; a test compares the two."""

    steps: Count
    step_size: float | Sequence[float] | PerRun
    batch_size: Count | None
    seed: Seed | Sequence[Seed]
    convention: Convention
    schedule: Schedule
    optimizer: OptimizerFactory | None
    decay: NonNegative
    max_norm: MaxNorm | None
    frozen: Sequence[int]
    record: Recording | Sequence[str] | None
    bound: float | Sequence[float] | PerRun | Literal["certify"] | None
    stop_gap: NonNegative | None
    keep: Sequence[int]
    diverging: Literal["raise", "freeze"]
    engine: EngineName
    precision: Precision
    checkpoint: Checkpoint | str | Path | None
    progress: bool


def chosen(settings: Settings | None, options: Options) -> Settings:
    """The settings with the options in their place; options alone must name the steps and their size."""
    try:
        return Settings(**options) if settings is None else replace(settings, **options)
    except TypeError as problem:  # a missing or unknown name
        raise TypeError(str(problem).replace("Settings.__init__()", "train()")) from None
