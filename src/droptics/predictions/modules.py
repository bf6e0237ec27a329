"""Any torch module as masked outputs: its dropout sites are read while it runs, their masks come from outside.

Sites whose calls show one row per example get masks of ours, the same law and scale as torch draws; the linear layer
that ends the module behind such a site is integrated. What cannot be masked from outside (alpha dropout, packed
sequences, masks written by hand) is left to draw for itself in the sampled passes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeGuard
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from droptics.errors import NoClosedForm
from droptics.masks import Bernoulli
from droptics.models.dropout_calls import CHANNELWISE
from droptics.models.modes import undisturbed
from droptics.models.watching import written
from droptics.penalties import UnitOutputs
from droptics.penalties.evaluation import CHUNK_ELEMENTS
from droptics.predictions.affine import Affine
from droptics.predictions.mixtures import Conditional, first
from droptics.predictions.running import (
    DRAWING,
    Change,
    Inputs,
    Seen,
    Trunk,
    as_made,
    count_of,
    drawn,
    dropping,
    repeated,
    run,
    taken,
    tensors_of,
)
from droptics.predictions.structures import structure

# Examples on which a module is tried, one more where there are no more than that: another number than all.
PROBED = 2
# Layers that treat every row of a matrix for itself, whatever their settings.
ROWWISE = frozenset([nn.Linear, nn.Dropout, nn.Identity, nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU])
# What a class may say without running when its instances are called.
MADE = frozenset(["__module__", "__qualname__", "__doc__", "__init__", "__annotations__", "__firstlineno__"])
MADE |= {"__static_attributes__", "__annotate__", "__annotate_func__", "__annotations_cache__"}
# Modules that gave the same twice, their heads alone random, with what they were made of: until that changes one run
# tells all.
_REPEATED: WeakKeyDictionary[nn.Module, tuple[Any, ...]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class ModuleSite:
    """A dropout call with one row of units per example.

    Attributes:
        name: As in the audit.
        rate: Probability of dropping.
        shape: Of the mask of one example; channels only for channelwise dropout.
        axis: Where the examples are in the tensor that is masked; heads of attention may follow them there.
    """

    name: str
    rate: float
    shape: tuple[int, ...]
    axis: int

    @property
    def units(self) -> int:
        """Number of units."""
        return math.prod(self.shape)

    def spread(self, multipliers: Tensor, like: Tensor) -> Tensor:
        """Multipliers (..., units), all but the units rows, in the shape of the tensor that they mask."""
        moved = multipliers.reshape(-1, *self.shape).movedim(0, self.axis)
        return moved if moved.ndim == like.ndim else moved.flatten(0, 1)


@dataclass(frozen=True, eq=False)
class MaskedModule:
    """A module on inputs, with the sites that can be masked from outside.

    Attributes:
        sites: Early sites in order, then the head's if there is one.
        head: Whether the last site feeds the linear layer that ends the module.
        drawing: Functions that draw for themselves.
        certain: Whether two runs with everything switched off agree, so that no other randomness is left.
        quiet: The run on all inputs with everything switched off: outputs, and what its last linear layer took.
        frozen: Parts that end before anything is random, with what they return: they run once for all masks.
    """

    module: nn.Module
    inputs: Inputs
    sites: tuple[ModuleSite, ...]
    head: bool
    drawing: tuple[str, ...]
    certain: bool
    quiet: tuple[Tensor, Seen]
    frozen: tuple[tuple[nn.Module, Tensor], ...] = ()

    @property
    def early(self) -> tuple[ModuleSite, ...]:
        """The sites before the one that is integrated."""
        return self.sites[:-1] if self.head else self.sites

    def conditional(self, seed: int = 0) -> Conditional:
        """The module as outputs given the masks of its early sites; what draws for itself starts from a seed."""
        laws = tuple(_coins(site.rate, site.units) for site in self.early)
        own = sum(value[0].numel() for value in tensors_of(self.inputs))
        size = count_of(self.inputs) * (sum(site.units for site in self.sites) + own)
        if self.certain and not self.drawing:
            return Conditional(laws, self.outputs, size, quiet=self.plain())
        size = CHUNK_ELEMENTS  # one mask a pass: what draws for itself may draw once for all rows
        seeds = itertools.count(1 + (seed << 20))

        def fixed(multipliers: Tensor) -> Affine:
            with undisturbed(self.module, 0):
                return self.outputs(multipliers)

        def fresh(multipliers: Tensor) -> Affine:
            with undisturbed(self.module, next(seeds)):
                return self.outputs(multipliers, live=True)

        return Conditional(laws, fixed, size, fresh)

    def plain(self) -> Affine:
        """Outputs with every early multiplier at one, no leading dimension: the run that read the module."""
        return first(self._affine(*self.quiet, 1))

    def outputs(self, multipliers: Tensor, live: bool = False) -> Affine:
        """Outputs under early multipliers (m, 1 or examples, units), with m as leading dimension.

        With `live`, what has no multipliers draws for itself. Refused (Unsteady) where the module does not drop what it
        dropped in the run that read it.
        """
        count, examples = len(multipliers), count_of(self.inputs)
        parts = multipliers.split([site.units for site in self.early], -1) if self.early else ()
        changes: dict[str, Change | None] = {
            site.name: _spreading(site, part, (count, examples)) for site, part in zip(self.early, parts, strict=True)
        }
        if self.head:
            changes[self.sites[-1].name] = None
        frozen = [(part, repeated(value, count)) for part, value in self.frozen]
        outputs, seen = run(self.module, repeated(self.inputs, count), changes, live, frozen)
        self._check(outputs, seen, live)
        return self._affine(outputs, seen, count)

    def _check(self, outputs: Tensor, seen: Seen, live: bool) -> None:
        """Refuse a run whose sites are others than those that were read; what draws for itself may also skip them."""
        known = {name: (name, rate, kind) for name, rate, kind in _names_of(self.quiet[1])}
        named = {site.name for site in self.sites}
        calls = [call for call in _names_of(seen) if call[0] in named]
        steady = all(known[name] == (name, rate, kind) for name, rate, kind in calls)
        if self.sites and not live:
            steady = steady and [name for name, *_ in _names_of(seen)] == list(known)
        if not steady or (self.head and not (_is_head(seen, outputs) and seen.calls[-1][0] == self.sites[-1].name)):
            raise Unsteady("this module drops other units when it is run again; use MonteCarlo()")

    def _affine(self, outputs: Tensor, seen: Seen, count: int) -> Affine:
        examples = len(outputs) // count
        center = outputs.reshape(count, examples, -1)
        if not self.head:
            return Affine(center, None, None)
        assert seen.linear is not None
        source, weight, _, _ = seen.linear
        features = source.reshape(count, examples, -1)
        return Affine(center, UnitOutputs(features, weight[None]), _coins(self.sites[-1].rate, features.shape[-1]))

    def left_alone(self) -> MaskedModule:
        """The same with nothing masked from outside: whole passes, drawn by the module itself."""
        return replace(self, sites=(), head=False, drawing=("dropout",), frozen=())


class Unsteady(NoClosedForm):
    """A module that does not drop in one run what it dropped in another: what was read of it does not hold."""


@lru_cache(64)
def _coins(rate: float, units: int) -> Bernoulli:
    """One law for one rate and width, so that what was drawn from it serves the next call."""
    return Bernoulli(rate, units)


def read_module(module: nn.Module, inputs: Inputs) -> MaskedModule:
    """Find the sites of a module on these inputs, with a handful of runs; nothing of it is changed."""
    tensors_of(inputs)  # refuses what holds no examples
    found = _own_stack(module, inputs) or _own_layers(module, inputs)
    if found is not None:
        return found
    made = structure(module)
    if made is not None and _REPEATED.get(module) == made:
        found = _read_once(module, inputs)
    if found is None:
        with undisturbed(module, 0) as devices:
            found = _read(module, inputs, devices, followed=made is not None)
    _REPEATED.pop(module, None)
    if made is not None and found.certain and found.head and not found.early and not found.drawing:
        _REPEATED[module] = made
    return found


def _read_once(module: nn.Module, inputs: Inputs) -> MaskedModule | None:
    """The one run of a module of which only the head is random, where it still is; else None.

    All that it can reach was looked at, and of all generators only torch's are among that.
    """
    own = dict.fromkeys(parameter.device for parameter in module.parameters())
    devices = [place.index or 0 for place in own if place.type == "cuda"]
    kept = [torch.default_generator, *(torch.cuda.default_generators[index] for index in devices)]
    before = [generator.get_state() for generator in kept]
    outputs, seen = run(module, inputs)
    for generator, state in zip(kept, before, strict=True):
        if not torch.equal(generator.get_state(), state):
            generator.set_state(state)
            return None
    if len(seen.calls) != 1 or seen.drawing or not _is_head(seen, outputs) or len(outputs) != count_of(inputs):
        return None
    name, rate, _, shape, _ = seen.calls[0]
    found = MaskedModule(module, inputs, (ModuleSite(name, rate, shape[1:], 0),), True, (), True, (outputs, seen))
    return found if _proved(found) else None


def _read(module: nn.Module, inputs: Inputs, devices: list[int], followed: bool) -> MaskedModule:
    """What two runs show, one on few examples; a third where the code may do what these cannot show."""
    count = count_of(inputs)
    few = taken(inputs, [0, 1] if count > PROBED else [0, 1, 0] if count == PROBED else [0, 0])
    outputs, seen = run(module, few)
    if len(outputs) != count_of(few):
        raise ValueError(
            f"the module returns {len(outputs)} rows for {count_of(few)} examples; it must return one per example"
        )
    head = _is_head(seen, outputs)
    trunk = Trunk(module) if len(seen.calls) > int(head) else None
    quiet = run(module, inputs, watch=trunk)
    certain = not drawn(devices)
    if certain and not (followed and _alike(outputs, quiet[0])):  # rows may depend on their neighbors, or be noisy
        again = run(module, inputs)
        certain = _alike(again[0], quiet[0])
        seen.told |= _names_of(again[1]) != _names_of(quiet[1])
    every = list(dict.fromkeys([name for name, *_ in seen.calls] + seen.drawing))
    alone = MaskedModule(module, inputs, (), False, tuple(every), certain, quiet)
    if seen.told or quiet[1].told or _names_of(seen) != _names_of(quiet[1]):
        return alone
    sites: list[ModuleSite] = []
    drawing = list(dict.fromkeys(seen.drawing))
    for (name, rate, kind, shape, _), (*_, wide, _) in zip(seen.calls, quiet[1].calls, strict=True):
        place = _axis(shape, wide, count_of(few), count)
        if place is None:
            drawing.append(name)
            continue
        axis, inner = place
        rest = [size for i, size in enumerate(shape) if i != axis]
        if kind in CHANNELWISE.values():
            rest = [rest[0], *(1 for _ in rest[1:])]
        sites.append(ModuleSite(name, rate, tuple(rest if inner == 1 else (inner, *rest)), axis))
    head = head and bool(sites) and sites[-1].name == seen.calls[-1][0]
    frozen = trunk.parts(count) if trunk is not None and certain and not quiet[1].derived else ()
    found = MaskedModule(module, few, tuple(sites), head, tuple(drawing), certain, (outputs, seen))
    if head and not (_proved(found) or _confirmed(found)):
        found = replace(found, head=False)
    if found.early and not _is_apart(found):
        return alone
    return replace(found, inputs=inputs, quiet=quiet, frozen=frozen)


def _names_of(seen: Seen) -> list[tuple[str, float, str]]:
    return [(name, rate, kind) for name, rate, kind, *_ in seen.calls]


def _is_apart(found: MaskedModule) -> bool:
    """Whether masks of the second example leave the others' outputs alone, where all stand there three times.

    Two of the three copies are masked alike and must agree: rows are where they are taken to be then, and do not
    depend on their number, on how many there are, or on an order that masks decide.
    """
    generator = torch.Generator().manual_seed(0)
    changes: dict[str, Change | None] = {}
    count = count_of(found.inputs)
    masked = [1, count + 1]
    for site in found.sites:
        multipliers = torch.ones(3 * count, site.units, dtype=torch.float64)
        multipliers[masked] = torch.rand(site.units, dtype=torch.float64, generator=generator)
        changes[site.name] = _spreading(site, multipliers)
    with undisturbed(found.module, 0):  # what is drawn by hand is drawn as in the run without masks
        outputs, seen = run(found.module, repeated(found.inputs, 3), changes)
    if len(outputs) != 3 * count or _names_of(seen) != _names_of(found.quiet[1]):
        return False
    others = [row for row in range(3 * count) if row not in masked]
    quiet = found.quiet[0].repeat(3, *(1,) * (outputs.ndim - 1))
    return _alike(outputs[others], quiet[others]) and _alike(*outputs[masked].split(1))


def _own_stack(module: nn.Module, inputs: Inputs) -> MaskedModule | None:
    """A stack of torch's own layers, as they were made, whose only dropout stands before the last; None for others.

    Nothing in it can draw unseen and its parts are in sight, so that one run of what comes before tells all; modules
    that others wrote are watched while they run, twice.
    """
    if not _is_stack(module) or nn.modules.module._has_any_global_hook():
        return None
    parts = [part for _, part in module.named_modules(remove_duplicate=False)][1:]  # a layer may stand in two places
    if not all(as_made(part) for part in parts):
        return None
    names = list(module._modules)
    random = [part for part in parts if isinstance(part, DRAWING) or getattr(part, "dropout", False)]
    drop, head = (module[-2], module[-1]) if len(names) > 1 else (module, module)
    if (
        not isinstance(inputs, Tensor)
        or type(drop) is not nn.Dropout
        or type(head) is not nn.Linear
        or random != [drop]
    ):
        return None
    with dropping(module):
        features = inputs.clone()  # a layer may write into what it is given
        for part in list(module)[:-2]:
            features = part(features)
    if features.ndim != 2 or len(features) != len(inputs) or drop.p == 0:
        return None
    outputs = head(features)
    seen = Seen([], [], (features, head.weight, head.bias, outputs))
    site = ModuleSite(names[-2], drop.p, (features.shape[1],), 0)
    return MaskedModule(module, inputs, (site,), True, (), True, (outputs, seen))


def _is_stack(module: nn.Module) -> TypeGuard[nn.Sequential]:
    """Whether a module is nn.Sequential, or of a class that only says how such a one is made."""
    line, end = type(module).__mro__, nn.Sequential.__mro__
    said = {name for one in line[: -len(end)] for name in vars(one)}
    return line[-len(end) :] == end and said <= MADE and as_made(module, nn.Sequential)


def _own_layers(module: nn.Module, inputs: Inputs) -> MaskedModule | None:
    """A stack of torch's own layers, as they were made, none of which looks at more than one row; None for others.

    Nothing in it can draw unseen or mix examples, so that one run tells where it drops.
    """
    rows = isinstance(inputs, Tensor) and inputs.ndim == 2
    if not rows or type(module) is not nn.Sequential or nn.modules.module._has_any_global_hook():
        return None
    if not as_made(module) or not all(type(part) in ROWWISE and as_made(part) for part in module._modules.values()):
        return None
    trunk = Trunk(module)
    outputs, seen = run(module, inputs, watch=trunk)
    sites = tuple(ModuleSite(name, rate, shape[1:], 0) for name, rate, _, shape, _ in seen.calls)
    found = MaskedModule(module, inputs, sites, _is_head(seen, outputs), (), True, (outputs, seen))
    if found.head and not _proved(found):
        return None
    return replace(found, frozen=trunk.parts(len(outputs))) if found.early else found


def _is_head(seen: Seen, outputs: Tensor) -> bool:
    """Whether the last linear layer returns the outputs and takes what the last site gives."""
    if seen.linear is None or not seen.calls or seen.calls[-1][2] != "dropout":
        return False
    source, _, _, result = seen.linear
    return source is seen.calls[-1][-1] and result is outputs and source.ndim == 2


def _alike(few: Tensor, many: Tensor) -> bool:
    """Whether two runs agree on the first examples, as far as sums in another order can differ; masks change more."""
    count = min(len(few), len(many))
    gap, scale = (few[:count] - many[:count]).abs(), many[:count].abs().amax()
    return bool((gap <= 0.1 * torch.finfo(gap.dtype).eps ** 0.5 * scale).all())


def _proved(found: MaskedModule) -> bool:
    """Whether the head's weights are parameters, and nothing was written into what it took and what it returned."""
    outputs, seen = found.quiet
    assert seen.linear is not None
    source, weight, bias, _ = seen.linear
    own = {id(parameter) for parameter in found.module.parameters()}
    fixed = id(weight) in own and (bias is None or id(bias) in own)
    counted = not source.is_inference() and not outputs.is_inference()
    return fixed and counted and written(source) == 0 and written(outputs) == 0


def _confirmed(found: MaskedModule) -> bool:
    """One pass with a mask at the head against what the layer's weights say: rounding of one product is allowed."""
    site = found.sites[-1]
    generator = torch.Generator().manual_seed(0)
    examples = count_of(found.inputs)
    mask = Bernoulli(site.rate, site.units).multipliers(examples, generator)
    with undisturbed(found.module, 0):  # what is drawn by hand is drawn as in the run without masks
        masked, _ = run(found.module, found.inputs, {site.name: _spreading(site, mask)})
    plain = found.plain()
    assert plain.units is not None
    features, head = plain.units.features, plain.units.head.squeeze(-3)
    predicted = plain.center + (features * (mask.to(features) - 1)) @ head.mT
    scale = (features.abs() * mask.to(features).abs()) @ head.abs().mT + plain.center.abs()
    rounding = 8 * math.sqrt(site.units) * torch.finfo(scale.dtype).eps
    return bool(((masked.reshape(predicted.shape) - predicted).abs() <= rounding * scale).all())


def _spreading(site: ModuleSite, multipliers: Tensor, rows: tuple[int, ...] = ()) -> Callable[[Tensor], Tensor]:
    """Multipliers (rows, units) at a site, repeated for `rows` where these are more; converted before that."""
    wide = (*(rows or multipliers.shape[:-1]), multipliers.shape[-1])
    return lambda source: site.spread(multipliers.to(source).expand(wide), source)


def _axis(narrow: tuple[int, ...], wide: tuple[int, ...], few: int, many: int) -> tuple[int, int] | None:
    """The one dimension that grew with the examples, and how many entries of one example stand there side by side."""
    changed = [i for i, (a, b) in enumerate(zip(narrow, wide, strict=False)) if a != b]
    if len(narrow) != len(wide) or len(changed) != 1:
        return None
    place = changed[0]
    inner = narrow[place] // few
    fits = (narrow[place], wide[place]) == (inner * few, inner * many) and (inner == 1 or place == 0)
    return (place, inner) if fits else None
