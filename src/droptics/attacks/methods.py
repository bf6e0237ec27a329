"""How an attack searches: along gradients, to the nearest boundary, without gradients, or in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from droptics.arguments import Count, Finite, Positive, Probability, Seed, check_fields, checked_fields
from droptics.attacks.losses import Margin
from droptics.checks import check_finite
from droptics.losses import CrossEntropy, Loss


@dataclass(frozen=True)
@checked_fields
class Decay:
    """A step size that is multiplied by `factor` every `every` steps, starting from `first`."""

    first: Positive
    factor: Finite = 0.2
    every: Count = 10

    def __call__(self, step: int) -> float:
        """Size of step number 0, 1, 2, ..."""
        return self.first * self.factor ** (step // self.every)


Step = Positive | Callable[[int], float]


@dataclass(frozen=True)
class Fgsm:
    """One step of the length of the radius along the steepest direction of the loss; last point returned.

    For linf this is the fast gradient sign method, for l2 the normalized gradient; `start` as of `Pgd`, never random.
    """

    loss: Loss = field(default_factory=CrossEntropy)
    start: Literal["input"] | Tensor = "input"

    def __post_init__(self) -> None:
        check_fields(self)
        if isinstance(self.start, Tensor):
            check_finite(self.start, "start")


@dataclass(frozen=True)
@checked_fields
class Bim:
    """Steepest-ascent steps of fixed size, pulled back into the ball and the box; the last iterate is returned.

    All examples take all steps, also those already misclassified, as in the basic iterative method.

    Attributes:
        loss: What to climb.
        steps: Number of steps.
        step: Size of a step in the threat's norm; None is a fifth of the radius.
    """

    loss: Loss = field(default_factory=CrossEntropy)
    steps: Count = 10
    step: Step | None = None


@dataclass(frozen=True)
class Pgd:
    """Projected gradient ascent that keeps the best iterate, restarts, and stops working on what is already fooled.

    Attributes:
        loss: What to climb.
        steps: Steps per restart.
        step: Step size, or a function of the step number (`Decay`). None starts at the whole radius and decays to a
            hundredth of it, which fools most examples of an undefended model in the first steps. With raw gradients a
            step size has to be given.
        restarts: Runs per example; the first starts at the input unless `start` is "random", later ones at random.
        start: "input", "random", or points (n, ...), which are pulled into the region: where the first run starts.
        gradient: "steepest" uses the direction of the gradient only and moves by exactly the step size; "raw"
            multiplies the gradient itself, so that a saturated loss hardly moves (Algorithm 5 of the thesis).
        projection: "clip" projects onto the ball and then onto the box (cheap, always inside); "exact" is the
            Euclidean projection onto their intersection.
        stop: "fooled" lets an example leave as soon as it is misclassified; "never" takes all steps with all
            examples and returns the misclassified iterate of largest loss.
        seed: Of the random starts, when no generator is passed.
        precision: "half" takes gradients from passes in bfloat16 and lets an example leave when it is misclassified by
            more than their rounding; what is found is verified in the model's own precision. A ResNet-18 on a GPU takes
            some four fifths of the time, and some examples in a thousand may be missed; perceptrons are as ever.
    """

    loss: Loss = field(default_factory=CrossEntropy)
    steps: Count = 40
    step: Step | None = None
    restarts: Count = 1
    start: Literal["input", "random"] | Tensor = "input"
    gradient: Literal["steepest", "raw"] = "steepest"
    projection: Literal["clip", "exact"] = "clip"
    stop: Literal["fooled", "never"] = "fooled"
    seed: Seed = 0
    precision: Literal["own", "half"] = "own"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.gradient == "raw" and self.step is None:
            raise ValueError("step must be given for raw gradients, whose length depends on the loss")
        if isinstance(self.start, Tensor):
            check_finite(self.start, "start")


@dataclass(frozen=True)
class LinearExact:
    """The strongest attack on a model that is affine in its input, in closed form.

    For one output the point of the threat set farthest along -y w; for several, the best such point over the wrong
    classes. Refused, with the deviation, for models that are not affine on the data. Cost: one gradient per output.
    Claim: thesis-eq6.3 (slope 1), thesis-rem6.5.3.
    """


@dataclass(frozen=True)
class Apgd:
    """Projected gradient ascent whose step size adapts itself: nothing to choose but the budget.

    Steps begin at twice the radius (the radius for l1) and are halved, example by example, at check points where the
    loss rose too rarely or the best value stands still; a halved example goes on from its best point. A quarter of
    the last move is carried along as momentum. For l1 a step moves a share of the coordinates only, and that share
    follows the number of coordinates that the best point has moved (Croce and Hein 2020, 2021).

    Attributes:
        loss: What to climb: CrossEntropy, Margin, Dlr, Logistic, or one of them Reflected. A loss with a target
            aims as it says; "every" spends a run on each wrong class.
        steps: Steps per run.
        restarts: Runs per example and target.
        start: Where the first run starts: "input", "random", or at given points (n, ...), which are pulled into the
            region; later runs start at random, or all at points of their own (n, restarts, ...).
        seed: Of the random starts, when no generator is passed.
    """

    loss: Loss = field(default_factory=CrossEntropy)
    steps: Count = 100
    restarts: Count = 1
    start: Literal["input", "random"] | Tensor = "input"
    seed: Seed = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if isinstance(self.start, Tensor):
            check_finite(self.start, "start")


@dataclass(frozen=True)
@checked_fields
class Fab:
    """The nearest wrongly classified point: steps onto linearized decision boundaries, drawn back to the input.

    Each step moves to the boundary of the class whose linearization is nearest, inside the box, on a path between
    the projections of the iterate and of the input; a point across the boundary pulls the iterate a tenth of the way
    back to the input (Croce and Hein 2020). It needs no step size, does not depend on the radius or on the scale of
    the outputs, and counts as a success when the distance is within the radius.

    Attributes:
        steps: Steps per run; each takes one gradient per wrong class that is looked at.
        restarts: Runs per example; the first starts at the input, later ones at random.
        candidates: How many wrong classes are looked at, the most likely ones first.
        seed: Of the random starts, when no generator is passed.
    """

    steps: Count = 100
    restarts: Count = 1
    candidates: Count = 9
    seed: Seed = 0


@dataclass(frozen=True)
@checked_fields
class Square:
    """Random search over squares of pixels: no gradients, so nothing that hides them can stop it.

    A query changes one square of every example, as far as the threat allows, and keeps the change where it raises
    the loss; the squares shrink as the queries go (Andriushchenko et al. 2020). Inputs that are no images are
    taken as one line of pixels.

    Attributes:
        loss: What to raise; only its values are used.
        queries: Forward passes per example.
        first: Share of the pixels that the first square covers.
        restarts: Runs per example; with patience a run that fooled less than a hundredth is the last.
        seed: Of the squares, when no generator is passed.
        patience: After this many queries in a row that fooled nobody, only the half of the batch with the largest
            loss goes on, with four times the patience, from the third time on twice; the sixth ends a run. None never.
    """

    loss: Loss = field(default_factory=Margin)
    queries: Count = 5000
    first: Probability = 0.8
    restarts: Count = 1
    seed: Seed = 0
    patience: Count | None = None


Method = Fgsm | Bim | Pgd | LinearExact | Apgd | Fab | Square


def step_sizes(step: Step | None, steps: int, radius: float, default: str) -> list[float]:
    """The size of every step; a default "fixed" is a fifth of the radius, "decaying" runs from it to a hundredth."""
    if step is None and default == "fixed":
        return [0.2 * radius] * steps
    if step is None:
        return [radius * 0.01 ** (i / max(steps - 1, 1)) for i in range(steps)]
    sizes = [float(step(i)) for i in range(steps)] if callable(step) else [float(step)] * steps
    if not all(0 <= size < math.inf for size in {*sizes}):
        raise ValueError(f"step must give finite sizes >= 0, got {sizes}")
    return sizes
