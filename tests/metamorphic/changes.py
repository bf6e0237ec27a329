"""Changes that an exact answer must not notice, or follow in a known way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from cases import normal
from torch import Tensor

from droptics.masks import Bernoulli, Discrete, MaskLaw
from droptics.models import Autoencoder, DeepLinear, Factorization, LastLayer, ReLUNet, TwoLayerLinear
from metamorphic.problems import Named, Problem


@dataclass(frozen=True, eq=False)
class Action:
    """What happens to one axis: entries are multiplied by a scale, taken in an order, or turned by a rotation."""

    scale: Tensor | None = None
    order: Tensor | None = None
    turn: Tensor | None = None

    def __call__(self, value: Tensor, position: int, kind: str) -> Tensor:
        if self.order is not None:
            value = value.index_select(position, self.order.to(value.device))
        if self.scale is not None and kind != "=":
            scale = self.scale.to(value).reshape(-1, *(1,) * (-position - 1))
            value = value / scale if kind == "/" else value * scale
        if self.turn is not None:
            value = torch.movedim(torch.movedim(value, position, -1) @ self.turn.to(value).mT, -1, position)
        return value


def acted(named: Named, actions: dict[str, Action]) -> Named:
    """Apply actions to the axes of a tensor; "/name" divides by the scale of name, "=name" ignores it."""
    value = named.tensor
    for position, axis in zip(range(-len(named.axes), 0), named.axes, strict=True):
        kind = axis[:1] if axis[:1] in ("/", "=") else ""
        action = actions.get(axis[len(kind) :])
        if action is not None:
            value = action(value, position, kind)
    return Named(value, named.axes)


@dataclass(frozen=True, eq=False)
class Changed:
    """A changed problem and how answers follow: actions on axes, and the factor of what is measured in outputs."""

    problem: Problem
    actions: dict[str, Action] = field(default_factory=dict)
    factor: float = 1.0
    member: bool = False

    def expected(self, named: Named, degree: int) -> Tensor:
        """What the answer to the original problem should have become."""
        return acted(named, self.actions).tensor * self.factor**degree


@dataclass(frozen=True)
class Change:
    """A change by name; None where it does not apply to a problem. `dtype` is the precision it computes in."""

    name: str
    apply: Callable[[Problem], Changed | None]
    dtype: torch.dtype = torch.float64


def _by(problem: Problem, actions: dict[str, Action], factor: float = 1.0) -> Changed:
    if problem.family is Autoencoder and "features" in actions:  # a tied network returns what it is given
        actions = actions | {"outputs": actions["features"]}
    moved = problem.mapped(lambda named: acted(named, actions))
    laws = tuple((axis, _reordered(law, actions.get(axis))) for axis, law in problem.laws)
    return Changed(replace(moved, laws=laws), actions, factor)


def _reordered(law: MaskLaw, action: Action | None) -> MaskLaw:
    if action is None or action.order is None:
        return law
    if isinstance(law, Bernoulli):
        return Bernoulli(law.drop[action.order], law.size)
    assert isinstance(law, Discrete)
    return Discrete(law.masks[:, action.order], law.probabilities)


def _length(problem: Problem, axis: str) -> int | None:
    for named in (problem.inputs, problem.targets, *problem.weights.values()):
        for size, name in zip(named.tensor.shape, named.axes, strict=True):
            if name.lstrip("/=") == axis:
                return size
    return None


def feature_units(which: int | None, power: int) -> Callable[[Problem], Changed | None]:
    """One feature in units 2^-power times as large, or every feature in units of its own."""

    def apply(problem: Problem) -> Changed | None:
        if problem.family in (Autoencoder, Factorization):
            return None
        count = _length(problem, "features")
        assert count is not None
        powers = torch.zeros(count, dtype=torch.float64)
        if which is None:
            powers = (power * torch.linspace(-1, 1, count, dtype=torch.float64)).round()
        else:
            powers[which % count] = power
        return _by(problem, {"features": Action(scale=2.0**powers)})

    return apply


def output_units(power: int) -> Callable[[Problem], Changed]:
    """All outputs in other units."""

    def apply(problem: Problem) -> Changed:
        axis = "features" if problem.family is Autoencoder else "outputs"
        return _by(problem, {axis: Action(scale=torch.tensor([2.0**power], dtype=torch.float64))}, 2.0**power)

    return apply


def node_units(power: int) -> Callable[[Problem], Changed | None]:
    """Hidden nodes rescaled: what comes in is multiplied, what goes out is divided."""

    def apply(problem: Problem) -> Changed | None:
        if problem.family in (Autoencoder, LastLayer):
            return None
        actions = {}
        for axis in {name.lstrip("/") for value in problem.weights.values() for name in value.axes}:
            if axis == "units" or axis.startswith("layer"):
                count = _length(problem, axis)
                assert count is not None
                actions[axis] = Action(scale=2.0 ** (power * torch.linspace(-1, 1, count).double()).round())
        return _by(problem, actions)

    return apply


def permuted(axis: str) -> Callable[[Problem], Changed | None]:
    """Another order of examples, features, outputs or units; laws follow."""

    def apply(problem: Problem) -> Changed | None:
        count = _length(problem, axis)
        law = dict(problem.laws).get(axis)
        if count is None or (law is not None and not isinstance(law, (Bernoulli, Discrete))):
            return None
        if problem.family is Factorization and axis in ("examples", "outputs"):
            return None  # the positions of the entries are no axis
        if problem.family is Autoencoder and axis == "outputs":
            return None
        return _by(problem, {axis: Action(order=normal(count, seed=60).argsort())})

    return apply


def duplicated(problem: Problem) -> Changed | None:
    """Every example twice with half its weight."""
    if problem.family is Factorization:
        return None
    count = len(problem.sample)
    shares = problem.shares or Named(problem.inputs.tensor.new_ones(count), ("examples",))
    changed = _by(replace(problem, shares=shares), {"examples": Action(order=torch.arange(count).repeat(2))})
    assert changed.problem.shares is not None
    halved = Named(changed.problem.shares.tensor / 2, ("examples",))
    return replace(changed, problem=replace(changed.problem, shares=halved))


def turned(axis: str) -> Callable[[Problem], Changed | None]:
    """Orthogonal change of output coordinates, or of input coordinates where no mask falls on them."""

    def apply(problem: Problem) -> Changed | None:
        count = _length(problem, axis)
        if count is None or problem.family is Factorization or (problem.family is Autoencoder and axis == "outputs"):
            return None
        if axis == "features":
            degenerate = torch.linalg.matrix_rank(problem.inputs.tensor) < count
            if problem.family not in (TwoLayerLinear, DeepLinear, Autoencoder) or bool(degenerate):
                return None
        rotation = torch.linalg.qr(normal(count, count, seed=61)).Q
        return _by(problem, {axis: Action(turn=rotation)})

    return apply


def in_single(problem: Problem) -> Changed:
    """The same numbers in float32."""
    return Changed(problem.to(torch.float32))


def single_moments(problem: Problem) -> Changed | None:
    """The second moments, rounded to float32."""
    changed = as_moments(problem)
    return None if changed is None else Changed(changed.problem.to(torch.float32))


def as_moments(problem: Problem) -> Changed | None:
    """The second moments of the sample instead of the sample."""
    if problem.family in (Factorization, ReLUNet, LastLayer):
        return None
    return Changed(replace(problem, moments=True))


def batched(problem: Problem) -> Changed | None:
    """The model as the first of two."""
    if problem.family is LastLayer:
        return None
    weights = {
        name: Named(torch.stack([value.tensor, 0.5 * value.tensor.flip(-1)]), value.axes)
        for name, value in problem.weights.items()
    }
    return Changed(replace(problem, weights=weights), member=True)


def on_gpu(problem: Problem) -> Changed | None:
    """The same numbers on a GPU."""
    if problem.family is Factorization:
        problem = replace(problem, inputs=Named(problem.inputs.tensor.cuda(), problem.inputs.axes))
    return Changed(problem.to("cuda"))


CHANGES = [
    *(
        Change(f"feature {which} x 2^{k}", feature_units(which, k))
        for which, k in ((0, -40), (1, 40), (2, -23), (3, 13))
    ),
    *(Change(f"features x 2^+-{k}", feature_units(None, k)) for k in (7, 40)),
    *(Change(f"outputs x 2^{k}", output_units(k)) for k in (-40, -9, 40)),
    *(Change(f"nodes x 2^+-{k}", node_units(k)) for k in (3, 40)),
    *(Change(f"{axis} permuted", permuted(axis)) for axis in ("examples", "features", "outputs", "units", "layer0")),
    Change("examples twice", duplicated),
    Change("outputs turned", turned("outputs")),
    Change("features turned", turned("features")),
    Change("float32", in_single, torch.float32),
    Change("moments", as_moments),
    Change("float32 moments", single_moments, torch.float32),
    Change("batch", batched),
]
if torch.cuda.is_available():
    CHANGES.append(Change("GPU", on_gpu))
