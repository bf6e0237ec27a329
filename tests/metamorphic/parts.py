"""Parts of answers: their axes, their degree in the units of the outputs, and what rounding is measured against."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from droptics.envelopes import envelope
from droptics.models import DeepLinear, Model, ReLUNet
from droptics.penalties import unit_gram
from metamorphic.problems import Named, Problem

# rates of the paths that are asked for
PATH = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Part:
    """One part of an answer. `exact` parts are compared for equality."""

    name: str
    axes: tuple[str, ...] = ()
    degree: int = 0
    amplitude: Callable[[Problem], float] = lambda problem: 1.0
    exact: bool = False


@dataclass(frozen=True)
class Answer:
    """A public function: how it is asked of a problem, and the parts of what it returns.

    `whitened` answers invert the second moment of the inputs and may lose its condition; `unlike` names the changes,
    by their beginnings, after which the question is another one.
    """

    name: str
    ask: Callable[[Problem], Any]
    parts: str = "penalty"
    whitened: bool = False
    families: tuple[type[Model], ...] = ()
    unlike: tuple[str, ...] = ()

    def expected_of(self, change: str) -> bool:
        """Whether the answer must follow a change of this name."""
        return not change.startswith(self.unlike)

    def named_parts(self, count: int) -> list[Part]:
        """The parts of an answer of so many numbers."""
        names = self.parts.split()
        if names[-1].endswith("*"):
            names = [*names[:-1], *[names[-1][:-1]] * (count - len(names) + 1)]
        return [PARTS[name] for name in names]


def energy(problem: Problem) -> float:
    """Mean of (|outputs| + |targets|)^2 if nothing cancelled, with the largest multiplier of the variance."""
    worst = 1 + float(problem.masks.characteristic.abs().sum(1).max())
    layers = max(1, len(problem.weights) - 1) if problem.family in (DeepLinear, ReLUNet) else 1
    return worst**layers * float(problem.amplitude.square().sum(-1).max())


def excess(problem: Problem) -> float:
    """The penalty if nothing cancelled; for ReLU networks its part linear in the errors too."""
    absolute = problem.mapped(lambda named: Named(named.tensor.double().cpu().abs(), named.axes))
    if problem.family is ReLUNet:
        wrong = (problem.model.outputs(problem.inputs.tensor) - problem.targets.tensor).abs().double().cpu()
        inside = absolute.model.outputs(absolute.inputs.tensor)
        return energy(replace(problem, targets=Named(0 * problem.targets.tensor, problem.targets.axes))) + float(
            (2 * wrong * inside).sum(-1).max()
        )
    gram = unit_gram(absolute.model, absolute.data) if problem.family is not DeepLinear else None
    if gram is None:
        return energy(replace(problem, targets=Named(0 * problem.targets.tensor, problem.targets.axes)))
    return float((gram.detach() * problem.masks.characteristic.abs().to(gram)).sum())


def root(size: Callable[[Problem], float]) -> Callable[[Problem], float]:
    """The size of what is not squared."""
    return lambda problem: math.sqrt(size(problem))


def lopsided(problem: Problem) -> float:
    """An imbalance is a quotient: it errs as much as numerator and denominator together."""
    below = float(envelope(problem.model, problem.data, problem.masks))
    return excess(problem) / below * (energy(problem) / below + 1) if below > 0 else 1.0


def shaken(problem: Problem) -> float:
    """How far the largest multipliers can move a log-likelihood: it is rounded relative to that."""
    bound = problem.masks.bound
    assert bound is not None
    return 1 + 2 * float(bound.max()) * float(problem.amplitude.max())


def left_out(problem: Problem) -> float:
    """Errors of examples that were left out: residuals divided by one minus a leverage, which is at least the rate."""
    return energy(problem) / PATH[0] ** 2


PARTS = {
    part.name: part
    for part in (
        Part("penalty", (), 2, excess),
        Part("criterion", (), 2, energy),
        Part("margins", ("examples",), 1, root(energy)),
        Part("criteria", ("examples",), 2, energy),
        Part("energy", (), 2, energy),
        Part("left_out", (), 2, left_out),
        Part("envelope", (), 2, energy),
        Part("bound", (), 2, energy),
        Part("map", ("examples", "outputs"), 0, root(energy)),
        Part("spread", ("examples", "=outputs"), 2, energy),
        Part("size", (), 1, root(energy)),
        Part("rank", exact=True),
        Part("same", exact=True),
        Part("ratio"),
        Part("nats", amplitude=shaken),
        Part("imbalance", amplitude=lopsided),
        Part("count", amplitude=lambda problem: float(problem.inputs.tensor.numel())),
        Part("energies", ("=units",), 2, energy),
        Part("gram", ("=units", "=units"), 2, energy),
        Part("flows", ("=units",), 1, root(energy)),
        Part("shares", ("=units",)),
    )
}
