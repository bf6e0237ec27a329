"""What training minimizes: the plain risk, the stochastic dropout loss, or its exact mean; worst cases: `adversarial`.

An objective is a frozen value. `value(forward, batch)` returns one number per run; its gradient is the direction of a
step. Dropout draws masks, `Penalized` is the deterministic function that dropout descends on average.
"""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from droptics.arguments import check_fields, checked_fields
from droptics.data import average
from droptics.losses import Loss, Squared
from droptics.masks import Bernoulli, Gaussian, MaskLaw, Product
from droptics.transforms import as_array

_SQUARED = Squared()
Share = Literal["example", "step"]
# of inputs, multipliers (or None), and, to see one run of a batch alone, `run`
Forward = Callable[..., Tensor]


@dataclass(frozen=True, eq=False)
class StepData:
    """What one step sees: inputs and targets (runs, examples, ...) or shared by all runs, and the masks drawn.

    `generators` are those of the runs; `runs` is their number in a batch of runs, and `shared` says that inputs and
    targets have no dimension of the runs.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor | None = None
    multipliers: Tensor | None = None
    generators: tuple[torch.Generator, ...] = ()
    runs: int | None = None
    shared: bool = False
    moves: Tensor | None = None  # perturbation of the inputs that the next pass differentiates by as well (`Free`)


class CatastrophicOverfitting(UserWarning):
    """Training has learnt to mislead its own attack: a stronger one fools what this one does not."""


class Objective(abc.ABC):
    """A loss, the masks it involves (None when there are none), and how a step evaluates it."""

    loss: Loss
    draws = False  # whether its steps draw numbers of their own, from the generators of the runs

    @property
    def laws(self) -> tuple[MaskLaw, ...]:
        """The mask laws: none, one for all runs, or one per run."""
        return ()

    @property
    def share(self) -> Share | None:
        """Who shares a fresh mask: one mask per example, one per step, or no masks drawn at all."""
        return None

    def value(self, forward: Forward, batch: StepData) -> Tensor:
        """Mean loss of the batch, one number per run."""
        return mean_loss(self.loss, forward(batch.inputs, batch.multipliers), batch)

    @property
    def updates(self) -> int:
        """How many updates a batch makes."""
        return 1

    def begin(self, batch: StepData, moves: Tensor | None) -> StepData:
        """The batch as its first update sees it; `moves` are those that the batch before it ended with."""
        return batch

    def again(self, batch: StepData) -> StepData:
        """The batch after an update."""
        return batch

    def doubt(self, forward: Forward, batch: StepData) -> str:
        """What speaks against the training at hand, in words, or nothing; asked at every record."""
        return ""

    @abc.abstractmethod
    def describe(self) -> str:
        """One line that identifies the objective, for checkpoints."""


@dataclass(frozen=True, eq=False)
@checked_fields
class Plain(Objective):
    """The risk without masks."""

    loss: Loss = _SQUARED

    def describe(self) -> str:
        return f"Plain({type(self.loss).__name__})"


class _Masked(Objective):
    """An objective with masks: one law for all runs, or one per run."""

    masks: MaskLaw | Sequence[MaskLaw]

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.laws:
            raise ValueError("masks must be a mask law, or a sequence with one law per run")
        if len({law.size for law in self.laws}) != 1:
            raise ValueError(f"masks must all cover the same units, got sizes {[law.size for law in self.laws]}")

    @property
    def laws(self) -> tuple[MaskLaw, ...]:
        return (self.masks,) if isinstance(self.masks, MaskLaw) else tuple(self.masks)


@dataclass(frozen=True, eq=False)
class Dropout(_Masked):
    """The loss under fresh random masks (mianjy2018-alg1, pal2020-alg1, thesis-alg4).

    Attributes:
        masks: One law, or a sequence with one law per run.
        loss: The loss, squared unless told otherwise.
        per: "example" draws one mask for every example of a step, as the papers' single-sample algorithms and
            `torch.nn.Dropout` do; "step" shares one mask among the examples of a step.
        scaled: Masks are divided by their mean, so that the network without masks is their average; False leaves
            them raw (thesis-alg4 rescales the weights at the end instead).
    """

    masks: MaskLaw | Sequence[MaskLaw]
    loss: Loss = _SQUARED
    per: Share = "example"
    scaled: bool = True

    @property
    def share(self) -> Share:
        return self.per

    def describe(self) -> str:
        laws = ", ".join(_law_text(law) for law in self.laws)
        return f"Dropout({laws}; {type(self.loss).__name__}, per {self.per}, scaled {self.scaled})"


@dataclass(frozen=True, eq=False)
class Penalized(_Masked):
    """Risk + penalty: the deterministic equivalent of dropout, the mean of its stochastic loss (mianjy2018-lemA.1).

    Needs squared loss and a family with a closed form. `masks` is one law, or one per run.
    """

    masks: MaskLaw | Sequence[MaskLaw]
    loss = _SQUARED  # the closed forms are those of squared loss

    def describe(self) -> str:
        return f"Penalized({', '.join(_law_text(law) for law in self.laws)})"


def mean_loss(loss: Loss, outputs: Tensor, batch: StepData) -> Tensor:
    """(Weighted) mean over the examples of a batch, one number per run; targets may differ between runs."""
    targets = batch.targets
    lead = outputs.shape[:-1]
    if targets.ndim == 1 or (targets.is_floating_point() and targets.ndim == 2):
        return average(loss(outputs, targets), batch.weights)
    flat = targets.flatten(0, 1)
    return average(loss(outputs.flatten(0, -2), flat).reshape(lead), batch.weights)


def _law_text(law: MaskLaw) -> str:
    mean, spread = law.mean.detach(), law.relative_variance.detach()
    ends = [float(v) for v in (mean[0], mean[-1], mean.sum(), spread.sum())]
    text = f"{type(law).__name__} of {law.size} units {ends}"
    if isinstance(law, (Bernoulli, Gaussian)) and bool((spread == spread[0]).all()):
        return text  # of one rate these numbers say all there is
    held = [mean, spread, *(getattr(law, name, None) for name in ("block", "edges", "masks", "probabilities"))]
    own = [as_array(v).tobytes() if isinstance(v, Tensor) else str(v).encode() for v in held if not callable(v)]
    inner = "".join(_law_text(one) for one in (law.laws if isinstance(law, Product) else ()))
    return f"{text} {hashlib.sha256(b' '.join(own) + inner.encode()).hexdigest()[:16]}"
