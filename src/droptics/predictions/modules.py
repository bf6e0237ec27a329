"""Any torch module as masked outputs: its dropout sites are read while it runs, their masks come from outside.

Sites whose calls show one row per example get masks of ours, the same law and scale as torch draws, attention and
recurrent layers written out for that; the linear layer that ends the module behind such a site is integrated. What
cannot be masked from outside (alpha dropout, packed sequences, masks written by hand) is left to draw for itself in the
sampled passes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from droptics.masks import Bernoulli
from droptics.models.modes import dice, training_without_statistics, undisturbed
from droptics.models.unfused import attention, multi_head, recurrent
from droptics.models.watching import ALPHA, CHANNELWISE, LINEAR, PLAIN, RECURRENT, DropoutCalls, Places, written
from droptics.penalties import UnitOutputs
from droptics.predictions.affine import Affine
from droptics.predictions.mixtures import Conditional, first

# Where attention takes its rate.
PLAIN_ATTENTION, MULTI_HEAD = 4, 10
# Layers of torch's own that draw.
DRAWING = (nn.modules.dropout._DropoutNd, nn.RReLU, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)
# Examples on which a module is tried; one where there are no more than that.
PROBED = 2
Change = Callable[[Tensor], Tensor]
Inputs = Tensor | Sequence[Tensor] | Mapping[str, Tensor]


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
        """Multipliers (rows, units) in the shape of the tensor that they mask."""
        moved = multipliers.to(like).reshape(len(multipliers), *self.shape).movedim(0, self.axis)
        return moved if moved.ndim == like.ndim else moved.flatten(0, 1)


@dataclass
class _Seen:
    """What one run did: the calls of each site, the functions that draw for themselves, and the last linear layer."""

    calls: list[tuple[str, float, str, tuple[int, ...], Tensor]] = field(default_factory=list)
    drawing: list[str] = field(default_factory=list)
    linear: tuple[Tensor, Tensor, Tensor | None, Tensor] | None = None


class _Masked(DropoutCalls):
    """Runs a module with given multipliers at its sites; sites without any pass their input on.

    Functions named in `own` draw for themselves, all others that could are switched off.
    """

    def __init__(self, places: Places, multipliers: Mapping[str, Change], own: Collection[str]) -> None:
        super().__init__()
        self.places, self.multipliers, self.own, self.seen = places, multipliers, own, _Seen()

    def _other(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        result = func(*args, **options)
        if func in LINEAR:
            bias = args[2] if len(args) > 2 else options.get("bias")
            self.seen.linear = (args[0], args[1], bias, result)
        return result

    def _plain(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        source: Tensor = args[0] if args else options["input"]
        rate = float(args[1] if len(args) > 1 else options.get("p", 0.5))
        training = bool(args[2] if len(args) > 2 else options.get("training", func not in ALPHA))
        name = self.places.name(PLAIN[func].replace(" ", "_"))
        if rate == 0 or not training:
            return source
        if func in ALPHA:
            return func(source, rate, self._draws(name))
        return self._site(name, rate, PLAIN[func], lambda: func(source, rate, True))(source)

    def _attention(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        rate = float(args[PLAIN_ATTENTION] if len(args) > PLAIN_ATTENTION else options.get("dropout_p", 0.0))
        name = self.places.name("attention_dropout")
        if rate == 0:
            return func(*args, **options)
        return attention(*args, **options, masking=self._site(name, rate, "attention dropout"))

    def _multi_head(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        rate = float(args[MULTI_HEAD] if len(args) > MULTI_HEAD else options["dropout_p"])
        name = self.places.name("attention_dropout")
        if rate == 0 or not options.get("training", True):
            return func(*args, **options)
        return multi_head(self._site(name, rate, "attention dropout"))(*args, **options)

    def _recurrent(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        values = list(args)
        start = next(i for i, value in enumerate(values) if isinstance(value, bool))
        rate, training = float(values[start + 2]), bool(values[start + 3])
        name = self.places.name(RECURRENT[func].replace(" ", "_"))
        if rate == 0 or not training or int(values[start + 1]) == 1:
            return func(*values, **options)
        if isinstance(values[1], Tensor) and not values[1].is_floating_point():  # lengths of packed sequences
            values[start + 3] = self._draws(name)
            return func(*values, **options)
        return recurrent(func, [*values, *options.values()], self._site(name, rate, RECURRENT[func]))

    def _site(self, name: str, rate: float, kind: str, draw: Callable[[], Tensor] | None = None) -> Change:
        """What a site does to the tensor that it masks; layers stacked in one function are a site each."""
        numbers = itertools.count(1)

        def change(source: Tensor) -> Tensor:
            number = next(numbers)
            own = name if number == 1 else f"{name}#{number}"
            given = self.multipliers.get(own)
            if given is not None:
                result = source * given(source)
            elif own in self.own:
                result = nn.functional.dropout(source, rate, True) if draw is None else draw()
            else:
                result = source.clone()  # a tensor of its own, so that what follows a site can be told apart
            self.seen.calls.append((own, rate, kind, tuple(source.shape), result))
            return result

        return change

    def _draws(self, name: str) -> bool:
        """Whether a function that cannot be masked from outside draws for itself now."""
        self.seen.drawing.append(name)
        return name in self.own


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
    quiet: tuple[Tensor, _Seen]
    frozen: tuple[tuple[nn.Module, Tensor], ...] = ()

    @property
    def early(self) -> tuple[ModuleSite, ...]:
        """The sites before the one that is integrated."""
        return self.sites[:-1] if self.head else self.sites

    def conditional(self) -> Conditional:
        """The module as outputs given the masks of its early sites."""
        laws = tuple(Bernoulli(site.rate, site.units) for site in self.early)
        size = count_of(self.inputs) * (sum(site.units for site in self.sites) + _numbers(self.inputs))
        if self.certain and not self.drawing:
            return Conditional(laws, self.outputs, size, quiet=self.plain())
        seeds = itertools.count(1)

        def fixed(multipliers: Tensor) -> Affine:
            with undisturbed(self.module, 0):
                return self.outputs(multipliers)

        def fresh(multipliers: Tensor) -> Affine:
            with undisturbed(self.module, next(seeds)):
                return self.outputs(multipliers, self.drawing)

        return Conditional(laws, fixed, size, fresh)

    def plain(self) -> Affine:
        """Outputs with every early multiplier at one, no leading dimension: the run that read the module."""
        return first(self._affine(*self.quiet, 1))

    def outputs(self, multipliers: Tensor, own: Collection[str] = ()) -> Affine:
        """Outputs under early multipliers (m, 1 or examples, units), with m as leading dimension."""
        count, examples = len(multipliers), count_of(self.inputs)
        parts = multipliers.split([site.units for site in self.early], -1) if self.early else ()
        changes = {
            site.name: _spreading(site, part.expand(count, examples, -1).flatten(0, 1))
            for site, part in zip(self.early, parts, strict=True)
        }
        frozen = [(part, _repeated(value, count)) for part, value in self.frozen]
        return self._affine(*_run(self.module, _repeated(self.inputs, count), changes, own, frozen), count)

    def _affine(self, outputs: Tensor, seen: _Seen, count: int) -> Affine:
        examples = len(outputs) // count
        center = outputs.reshape(count, examples, -1)
        if not self.head:
            return Affine(center, None, None)
        assert seen.linear is not None
        source, weight, _, _ = seen.linear
        features = source.reshape(count, examples, -1)
        return Affine(center, UnitOutputs(features, weight[None]), _coins(self.sites[-1].rate, features.shape[-1]))


@lru_cache(64)
def _coins(rate: float, units: int) -> Bernoulli:
    """One law for one rate and width, so that what was drawn from it serves the next call."""
    return Bernoulli(rate, units)


def read_module(module: nn.Module, inputs: Inputs) -> MaskedModule:
    """Find the sites of a module on these inputs, with a handful of runs; nothing of it is changed."""
    _tensors(inputs)  # refuses what holds no examples
    found = _own_stack(module, inputs)
    if found is not None:
        return found
    with undisturbed(module, 0):
        return _read(module, inputs)


def _read(module: nn.Module, inputs: Inputs) -> MaskedModule:
    count = count_of(inputs)
    few = _taken(inputs, [0, 1] if count > PROBED else [0] if count == PROBED else [0, 0])
    before = dice(module)
    outputs, seen = _run(module, few)
    if len(outputs) != count_of(few):
        raise ValueError(
            f"the module returns {len(outputs)} rows for {count_of(few)} examples; it must return one per example"
        )
    head = _is_head(seen, outputs)
    trunk = _Trunk(module) if len(seen.calls) > int(head) else None
    quiet = _run(module, inputs, watch=trunk)
    certain = _alike(outputs, quiet[0]) and dice(module) == before
    if not certain:  # numbers may be drawn and not used, and rows may depend on their neighbors
        certain = torch.equal(quiet[0], _run(module, inputs)[0])
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
    frozen = trunk.parts(count) if trunk is not None and certain else ()
    found = MaskedModule(module, few, tuple(sites), head, tuple(drawing), certain, (outputs, seen))
    if head and not (_proved(found) or _confirmed(found)):
        found = replace(found, head=False)
    return replace(found, inputs=inputs, quiet=quiet, frozen=frozen)


def _own_stack(module: nn.Module, inputs: Inputs) -> MaskedModule | None:
    """A stack of torch's own layers, as they were made, whose only dropout stands before the last; None for others.

    Nothing in it can draw unseen and its parts are in sight, so that one run of what comes before tells all; modules
    that others wrote are watched while they run, twice.
    """
    parts = [part for _, part in module.named_modules(remove_duplicate=False)]  # a layer may stand in two places
    own = all(type(part).__module__.startswith("torch.nn.modules.") and "forward" not in vars(part) for part in parts)
    hooked = any(part._forward_hooks or part._forward_pre_hooks for part in parts)
    if type(module) is not nn.Sequential or not own or hooked or nn.modules.module._has_any_global_hook():
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
    with _dropping(module):
        features = inputs
        for part in list(module)[:-2]:
            features = part(features)
    if features.ndim != 2 or len(features) != len(inputs) or drop.p == 0:
        return None
    outputs = head(features)
    seen = _Seen([], [], (features, head.weight, head.bias, outputs))
    site = ModuleSite(names[-2], drop.p, (features.shape[1],), 0)
    return MaskedModule(module, inputs, (site,), True, (), True, (outputs, seen))


class _Trunk:
    """Parts of a module whose call ended before anything random was met, each with what it returned."""

    def __init__(self, module: nn.Module) -> None:
        self.names = {part: name for name, part in module.named_modules() if name}
        self.returned: dict[nn.Module, list[Tensor | None]] = {}
        self.seen = _Seen()

    def hook(self, part: nn.Module, _: Any, result: Any) -> None:
        """Remember the result of a part, or that it came too late."""
        early = not self.seen.calls and not self.seen.drawing
        self.returned.setdefault(part, []).append(result if early and isinstance(result, Tensor) else None)

    def parts(self, examples: int) -> tuple[tuple[nn.Module, Tensor], ...]:
        """The outermost ones that ran once and returned one row per example."""
        found: dict[str, tuple[nn.Module, Tensor]] = {}
        for part, name in self.names.items():  # parents come before their children
            results = self.returned.get(part, [])
            result = results[0] if len(results) == 1 else None
            inside = any(name.startswith(f"{outer}.") for outer in found)
            if result is not None and not inside and result.ndim > 0 and len(result) == examples:
                found[name] = (part, result)
        return tuple(found.values())


def _is_head(seen: _Seen, outputs: Tensor) -> bool:
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
        masked, _ = _run(found.module, found.inputs, {site.name: _spreading(site, mask)})
    plain = found.plain()
    assert plain.units is not None
    features, head = plain.units.features, plain.units.head.squeeze(-3)
    predicted = plain.center + (features * (mask.to(features) - 1)) @ head.mT
    scale = (features.abs() * mask.to(features).abs()) @ head.abs().mT + plain.center.abs()
    rounding = 8 * math.sqrt(site.units) * torch.finfo(scale.dtype).eps
    return bool(((masked.reshape(predicted.shape) - predicted).abs() <= rounding * scale).all())


@contextmanager
def _dropping(module: nn.Module) -> Iterator[None]:
    """Training mode for dropout alone, statistics as in evaluation; modes and buffers are put back."""
    flags = [(part, part.training) for part in module.modules()]
    own = [part for part in module.modules() if not hasattr(part, "running_mean")]
    buffers = [(buffer, buffer.detach().clone()) for part in own for buffer in part.buffers(recurse=False)]
    training_without_statistics(module)
    try:
        yield
    finally:
        for part, flag in flags:
            part.training = flag
        with torch.no_grad():
            for buffer, value in buffers:
                if not torch.equal(buffer, value):
                    buffer.copy_(value)


def _run(
    module: nn.Module,
    inputs: Inputs,
    multipliers: Mapping[str, Change] | None = None,
    own: Collection[str] = (),
    frozen: Sequence[tuple[nn.Module, Any]] = (),
    watch: _Trunk | None = None,
) -> tuple[Tensor, _Seen]:
    """One pass; hooks, modes and replaced parts are put back, also after an exception."""
    places = Places(module)
    with ExitStack() as stack:
        stack.enter_context(_dropping(module))
        mode = _Masked(places, multipliers or {}, own)
        for part in module.modules():
            if not isinstance(part, torch.jit.ScriptModule):
                stack.callback(part.register_forward_pre_hook(places.enter).remove)
                stack.callback(part.register_forward_hook(places.leave, always_call=True).remove)
                if watch is not None:
                    watch.seen = mode.seen
                    stack.callback(part.register_forward_hook(watch.hook).remove)
        for part, value in frozen:
            part.forward = _returning(value)
            stack.callback(delattr, part, "forward")
        stack.enter_context(mode)
        if isinstance(inputs, Tensor):
            result = module(inputs)
        elif isinstance(inputs, Mapping):
            result = module(**inputs)
        else:
            result = module(*inputs)
    return _tensor(result), mode.seen


def _returning(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def _tensor(result: Any) -> Tensor:
    if isinstance(result, Mapping):
        result = next(iter(result.values())) if "logits" not in result else result["logits"]
    result = getattr(result, "logits", result)
    if isinstance(result, (tuple, list)) and result:
        result = result[0]
    if not isinstance(result, Tensor) or result.ndim == 0:
        raise ValueError(f"the module must return a tensor with one row per example, got {type(result).__name__}")
    return result


def _spreading(site: ModuleSite, multipliers: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda source: site.spread(multipliers, source)


def _axis(narrow: tuple[int, ...], wide: tuple[int, ...], few: int, many: int) -> tuple[int, int] | None:
    """The one dimension that grew with the examples, and how many entries of one example stand there side by side."""
    changed = [i for i, (a, b) in enumerate(zip(narrow, wide, strict=False)) if a != b]
    if len(narrow) != len(wide) or len(changed) != 1:
        return None
    place = changed[0]
    inner = narrow[place] // few
    fits = (narrow[place], wide[place]) == (inner * few, inner * many) and (inner == 1 or place == 0)
    return (place, inner) if fits else None


def _each(inputs: Inputs, change: Callable[[Tensor], Tensor]) -> Inputs:
    if isinstance(inputs, Tensor):
        return change(inputs)
    if isinstance(inputs, Mapping):
        return {name: change(value) for name, value in inputs.items()}
    return tuple(change(value) for value in inputs)


def _repeated(inputs: Inputs, count: int) -> Inputs:
    return _each(inputs, lambda value: value.expand(count, *value.shape).reshape(-1, *value.shape[1:]))


def _taken(inputs: Inputs, rows: list[int]) -> Inputs:
    return _each(inputs, lambda value: value[rows])


def count_of(inputs: Inputs) -> int:
    """Number of examples."""
    return len(_tensors(inputs)[0])


def _numbers(inputs: Inputs) -> int:
    return sum(value[0].numel() for value in _tensors(inputs))


def _tensors(inputs: Inputs) -> list[Tensor]:
    found = [inputs] if isinstance(inputs, Tensor) else list(itertools.chain(_values(inputs)))
    if not found or not all(isinstance(value, Tensor) and value.ndim > 0 and len(value) > 0 for value in found):
        raise ValueError("inputs must be a tensor (examples, ...), or a tuple or dictionary of such tensors")
    return found


def _values(inputs: Sequence[Tensor] | Mapping[str, Tensor]) -> list[Tensor]:
    return list(inputs.values()) if isinstance(inputs, Mapping) else list(inputs)
