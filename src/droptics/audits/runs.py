"""Runs of a module on one batch with masks from outside, other sites quiet, and what each costs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from droptics.audits.batches import Batch, run
from droptics.audits.criteria import LossFunction, MeanSquared, differentiated, parts
from droptics.losses import Squared
from droptics.models.modes import training_without_statistics
from droptics.models.replaying import Recording
from droptics.models.watching import Mask, OnCall, watched

BACKWARD = 1.0  # passes that a backward pass counts for: only masks ask for gradients, weights do not
AGREES = 1e-3  # relative, of slopes in float32


@dataclass(frozen=True)
class Law:
    """The mask of a site: independent Bernoulli multipliers of mean one, one per entry, channel or example.

    Attributes:
        name: Of the site.
        rate: Probability of dropping.
        unit: "entry", "channel", "example", or "layer" for a part that is left out as a whole.
    """

    name: str
    rate: float
    unit: str

    def shape(self, source: Tensor) -> tuple[int, ...]:
        """Shape of the mask of a tensor."""
        kept = {"entry": source.ndim, "channel": 2, "example": 1}[self.unit]
        return (*source.shape[:kept], *(1,) * (source.ndim - kept))

    def draw(self, like: Tensor, rate: float, generator: torch.Generator) -> Tensor:
        """A mask of this shape."""
        numbers = torch.rand(like.shape, generator=generator, device=like.device, dtype=like.dtype)
        return (numbers >= rate).to(like.dtype) / (1 - rate)


@dataclass
class Base:
    """A run of the batch without masks, and how its loss changes with each.

    Attributes:
        sums: Loss of every example, times its weight; one entry where the loss has one number.
        weights: Weights of the examples.
        outputs: With the graph of all masks where it is still needed.
        leaves: Masks of ones of every site that was reached.
        slopes: Derivatives of the summed loss by them; empty where the module cannot be differentiated.
        axes: Where the examples are in the masks of a site; None where its masks reach other examples too.
        recording: What each part returned.
        usual: What nearly certain masks of some sites do, where they were run.
    """

    sums: Tensor
    weights: Tensor
    outputs: Tensor
    leaves: dict[str, list[Tensor]]
    slopes: dict[str, list[Tensor]] = field(default_factory=dict)
    axes: dict[str, int | None] = field(default_factory=dict)
    recording: Recording = field(default_factory=Recording)
    usual: dict[Hashable, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def per_example(self, values: Tensor, site: str) -> Tensor:
        """Sums of entries of a site's mask that belong to each example; one sum where they do not belong to one."""
        axis = self.axes.get(site)
        if axis is None or len(self.sums) == 1:
            return values.double().sum().reshape(1)
        return values.double().movedim(axis, 0).reshape(len(self.sums), -1).sum(1)


class Runs:
    """Runs of one batch, in training mode but with running statistics as they are."""

    def __init__(
        self,
        module: nn.Module,
        batch: Batch,
        loss: LossFunction,
        laws: Mapping[str, Law],
        layers: Mapping[str, float],
        quiet: Sequence[str] = (),
    ) -> None:
        self.module, self.batch, self.loss, self.laws, self.layers = module, batch, loss, laws, layers
        self.skips = {law.name: law.rate for law in laws.values() if law.unit == "layer"}
        self.spent, self.reuse = 0.0, True
        training_without_statistics(module, quiet)

    def base(
        self,
        axes: Mapping[str, int | None] | None = None,
        on_call: OnCall | None = None,
        clean: Recording | None = None,
    ) -> Base:
        """The run without masks, once, with its slopes; `axes` as found on an earlier batch.

        `clean` is a run in evaluation mode whose parts before the first site return the same in training mode.
        Cost: two passes, and one more where the axes must be found.
        """
        leaves: dict[str, list[Tensor]] = {}
        reached = {} if clean is None else {name: when for name, when in clean.places.items() if name in self.laws}
        first = min(reached.values(), default=0)
        replay = None if clean is None or not reached else (clean, first)
        recording = Recording.towards(self.laws) if replay is None else replay[0].before(first - 1)
        with frozen(self.module), torch.enable_grad():
            ones = {name: _leaf(law, leaves) for name, law in self.laws.items() if name not in self.skips}
            outputs = self._watched(ones, recording, on_call, replay)
            sums, weights, way = differentiated(self.loss, outputs, self.batch.targets)
            affine = isinstance(self.loss, (Squared, MeanSquared))  # else nobody asks for outputs, or their graph
            held = outputs if affine else outputs.new_empty(0)
            base = Base(sums.detach(), weights.detach(), held, leaves, recording=recording)
            self.spent += 1.0 if replay is None else replay[0].left(first)
            if not leaves or not (outputs if way is not None else sums).requires_grad:
                return base
            # the place in the graph is all that is needed of outputs, which may be a vocabulary
            total: Tensor = sums.sum() if way is None else _Along.apply(outputs, way)  # type: ignore[no-untyped-call]
            del outputs, held
            try:
                base.slopes = _slopes(total, leaves, axes is None or affine)
                self.spent += BACKWARD
                if axes is None:
                    chances = torch.rand(len(sums), generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1
                    if way is None:
                        total = (chances.to(sums) * sums).sum()
                    else:
                        way.mul_(chances.to(way).reshape(-1, *(1,) * (way.ndim - 1)))
                    base.axes = _axes(total, base, chances, affine)
                    self.spent += BACKWARD
                else:
                    base.axes = {name: axes.get(name) for name in leaves}
            except RuntimeError:  # a part that cannot be differentiated, or writes over what the gradient needs
                base.slopes, base.axes = {}, {}
        return base

    def losses(
        self,
        masks: Mapping[str, Sequence[Tensor]],
        replay: tuple[Recording, int] | None = None,
        recording: Recording | None = None,
    ) -> Tensor:
        """Losses of all examples under given masks, other sites quiet; parts before `replay`'s moment are not run."""
        return parts(self.loss, self.outputs(masks, replay, recording), self.batch.targets)[0]

    def outputs(
        self,
        masks: Mapping[str, Sequence[Tensor]],
        replay: tuple[Recording, int] | None = None,
        recording: Recording | None = None,
    ) -> Tensor:
        """Outputs under given masks."""
        replay = replay if self.reuse else None
        self.spent += 1.0 if replay is None else replay[0].left(replay[1])
        with torch.no_grad():
            return self._watched({name: _given(part) for name, part in masks.items()}, recording, None, replay)

    def gradient(self, leaves: Mapping[str, Sequence[Tensor]]) -> tuple[Tensor, dict[str, list[Tensor]]]:
        """Losses of all examples under given masks, and the slopes of their sum there."""
        with frozen(self.module), torch.enable_grad():
            outputs = self._watched({name: _given(part) for name, part in leaves.items()}, None, None)
            self.spent += 1 + BACKWARD
            sums, _ = parts(self.loss, outputs, self.batch.targets)
            return sums.detach(), _slopes(sums.sum(), leaves, False)

    def _watched(
        self,
        masks: Mapping[str, Mask],
        recording: Recording | None,
        on_call: OnCall | None,
        replay: tuple[Recording, int] | None = None,
    ) -> Tensor:
        def switch(site: str, rate: float) -> float | Mask | None:
            return masks.get(site, _quiet) if site in self.laws else 0.0

        outputs, _ = watched(
            self.module,
            lambda: run(self.module, self.batch),
            switch,
            layers=self.layers,
            skips=self.skips,
            on_call=on_call,
            recording=recording,
            replay=replay,
        )
        assert isinstance(outputs, Tensor)
        return outputs


def _quiet(source: Tensor) -> None:
    return None


def _given(part: Sequence[Tensor]) -> Mask:
    waiting = iter(part)
    return lambda source: next(waiting)


def _leaf(law: Law, leaves: dict[str, list[Tensor]]) -> Mask:
    def mask(source: Tensor) -> Tensor:
        one = torch.ones((), dtype=source.dtype, device=source.device)
        leaf = one.expand(law.shape(source)).requires_grad_()  # one number of memory
        leaves.setdefault(law.name, []).append(leaf)
        return leaf

    return mask


class _Along(torch.autograd.Function):
    """A number whose derivative by the outputs is `way`, as it is when it is asked for; holds no outputs.

    Given a way, `torch.autograd.grad` loads symbolic shapes to compare two sizes, which takes half a second.
    """

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, way: Tensor) -> Tensor:
        ctx.way = way
        return outputs.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor, None]:
        return ctx.way, None


def _slopes(total: Tensor, leaves: Mapping[str, Sequence[Tensor]], again: bool) -> dict[str, list[Tensor]]:
    """Derivatives of a number by the masks; `again` where the graph is still needed."""
    flat = [leaf for part in leaves.values() for leaf in part]
    found = iter(torch.autograd.grad(total, flat, retain_graph=again, allow_unused=True))
    return {
        name: [torch.zeros_like(leaf) if (slope := next(found)) is None else slope for leaf in part]
        for name, part in leaves.items()
    }


def _axes(total: Tensor, base: Base, chances: Tensor, again: bool) -> dict[str, int | None]:
    """Where the examples are in the masks of each site: weighing the examples must weigh the slopes in the same way.

    Examples may come first in an axis that holds more (heads, windows). None where no axis fits: a mask reaches several
    examples. Every slope is compared as soon as it is there, and held no longer.
    """
    pairs = [
        (leaf, slope) for name, part in base.leaves.items() for leaf, slope in zip(part, base.slopes[name], strict=True)
    ]
    fits = {leaf: [axis for axis in range(leaf.ndim) if leaf.shape[axis] % len(chances) == 0] for leaf, _ in pairs}

    def compare(leaf: Tensor) -> None:
        assert leaf.grad is not None
        fits[leaf] = [axis for axis in fits[leaf] if _weighed(slopes[leaf], leaf.grad, axis, chances)]
        leaf.grad = None

    slopes = dict(pairs)
    hooks = [leaf.register_post_accumulate_grad_hook(compare) for leaf in fits]
    torch.autograd.backward(total, retain_graph=again, inputs=list(fits))
    for hook in hooks:  # it holds the slopes
        hook.remove()
    every = {name: [fits[leaf] for leaf in part] for name, part in base.leaves.items()}
    return {name: next(iter(sorted(set.intersection(*map(set, part)))), None) for name, part in every.items()}


def _weighed(slope: Tensor, other: Tensor, axis: int, chances: Tensor) -> bool:
    rows = slope.double().movedim(axis, 0).reshape(len(chances), -1) * chances.to(slope.device)[:, None]
    wanted = other.double().movedim(axis, 0).reshape(len(chances), -1)
    return float((rows - wanted).abs().max()) <= AGREES * float(wanted.abs().max())


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """No parameter asks for a gradient for a while: only masks do."""
    asking = [parameter for parameter in module.parameters() if parameter.requires_grad]
    try:
        for parameter in asking:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in asking:
            parameter.requires_grad_(True)


def draw(law: Law, base: Base, rate: float, generator: torch.Generator) -> list[Tensor]:
    """Masks of a site, in the shapes that the base run showed."""
    return [law.draw(leaf.detach(), rate, generator) for leaf in base.leaves[law.name]]


def spread(base: Base, site: str, pattern: Tensor) -> list[Tensor] | None:
    """The same mask for all examples, from the multipliers of one; None where a site's masks are not that simple."""
    leaves, axis = base.leaves[site], base.axes.get(site)
    if len(leaves) != 1 or axis is None or leaves[0].shape[axis] != len(base.sums):
        return None
    mask = torch.empty_like(leaves[0], requires_grad=False)
    rows = mask.movedim(axis, 0)
    rows.copy_(pattern.to(mask).reshape(rows.shape[1:]))
    return [mask]


def units(base: Base, site: str) -> int | None:
    """How many independent coins an example has at a site, if its masks have the examples as one axis."""
    leaves, axis = base.leaves.get(site, []), base.axes.get(site)
    if len(leaves) != 1 or axis is None or leaves[0].shape[axis] != len(base.sums):
        return None
    return math.prod(leaves[0].shape) // len(base.sums)
