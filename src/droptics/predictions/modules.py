"""Any torch module as masked outputs: its dropout sites are read while it runs, their masks come from outside.

Sites whose calls show one row per example get masks of ours, the same law and scale as torch draws; the linear layer
that ends the module behind such a site is integrated. What cannot be masked from outside (attention and recurrent
dropout, masks written by hand) is left to draw for itself in the sampled passes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from droptics.masks import Bernoulli
from droptics.models.modes import training_without_statistics, undisturbed
from droptics.models.watching import ALPHA, CHANNELWISE, LINEAR, PLAIN, RECURRENT, Places
from droptics.penalties import UnitOutputs
from droptics.predictions.affine import Affine
from droptics.predictions.mixtures import Conditional

# Where these functions take their rate.
ATTENTION: dict[Any, int] = {
    functional.scaled_dot_product_attention: 4,
    functional.multi_head_attention_forward: 10,
}
# Examples on which the sites are read; all others are seen once the sites are known.
PROBED = 4
Change = Callable[[Tensor], Tensor]
Inputs = Tensor | Sequence[Tensor] | Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class ModuleSite:
    """A dropout call with one row of units per example.

    Attributes:
        name: As in the audit.
        rate: Probability of dropping.
        shape: Of the mask of one example; channels only for channelwise dropout.
        axis: Where the examples are in the tensor that is masked.
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
        return multipliers.to(like).reshape(len(multipliers), *self.shape).movedim(0, self.axis)


@dataclass
class _Seen:
    """What one run did: the calls of each site, the functions that draw for themselves, and the last linear layer."""

    calls: list[tuple[str, float, str, tuple[int, ...], Tensor]] = field(default_factory=list)
    drawing: list[str] = field(default_factory=list)
    linear: tuple[Tensor, Tensor, Tensor | None, Tensor] | None = None


class _Masked(TorchFunctionMode):
    """Runs a module with given multipliers at its sites; sites without any pass their input on.

    Functions named in `own` draw for themselves, all others that could are switched off.
    """

    def __init__(self, places: Places, multipliers: Mapping[str, Change], own: Collection[str]) -> None:
        super().__init__()
        self.places, self.multipliers, self.own, self.seen = places, multipliers, own, _Seen()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        if func in PLAIN and func not in ALPHA:
            return self._plain(func, args, options)
        if func in ALPHA or func in RECURRENT or func in ATTENTION:
            return func(*self._drawing(func, args, options), **options)
        result = func(*args, **options)
        if func in LINEAR:
            bias = args[2] if len(args) > 2 else options.get("bias")
            self.seen.linear = (args[0], args[1], bias, result)
        return result

    def _drawing(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
        """Arguments of a function that cannot be masked from outside, with its dropout on or off."""
        values = list(args)
        if func in RECURRENT:
            start = next(i for i, value in enumerate(values) if isinstance(value, bool))
            applied = float(values[start + 2]) > 0 and bool(values[start + 3])
            values[start + 3] = self._draws(RECURRENT[func], applied)
            return values
        if func in ALPHA:
            rate = float(values[1] if len(values) > 1 else options.get("p", 0.5))
            applied = rate > 0 and bool(values[2] if len(values) > 2 else options.get("training", False))
            options.pop("p", None)
            options["training"] = self._draws(ALPHA[func], applied)
            return [*values[:1], rate]
        place = ATTENTION[func]
        rate = float(values[place] if len(values) > place else options.get("dropout_p", 0.0))
        applied = rate > 0 and bool(options.get("training", True))
        wanted = rate if self._draws("attention dropout", applied) else 0.0
        if len(values) > place:
            values[place] = wanted
        else:
            options["dropout_p"] = wanted
        return values

    def _plain(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Tensor:
        source: Tensor = args[0] if args else options["input"]
        rate = float(args[1] if len(args) > 1 else options.get("p", 0.5))
        training = bool(args[2] if len(args) > 2 else options.get("training", True))
        name = self.places.name(PLAIN[func])
        if rate == 0 or not training:
            return source
        change = self.multipliers.get(name)
        if change is not None:
            result = source * change(source)
        elif name in self.own:
            result = func(source, rate, True)
        else:
            result = source.clone()  # a tensor of its own, so that what follows a site can be told apart
        self.seen.calls.append((name, rate, PLAIN[func], tuple(source.shape), result))
        return result

    def _draws(self, kind: str, applied: bool) -> bool:
        name = self.places.name(kind.replace(" ", "_"))
        if applied:
            self.seen.drawing.append(name)
        return applied and name in self.own


@dataclass(frozen=True, eq=False)
class MaskedModule:
    """A module on inputs, with the sites that can be masked from outside.

    Attributes:
        sites: Early sites in order, then the head's if there is one.
        head: Whether the last site feeds the linear layer that ends the module.
        drawing: Functions that draw for themselves.
        certain: Whether two runs with everything switched off agree, so that no other randomness is left.
        frozen: Parts that end before anything is random, with what they return: they run once for all masks.
    """

    module: nn.Module
    inputs: Inputs
    sites: tuple[ModuleSite, ...]
    head: bool
    drawing: tuple[str, ...]
    certain: bool
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
            return Conditional(laws, self.outputs, size)
        seeds = itertools.count(1)

        def fixed(multipliers: Tensor) -> Affine:
            with undisturbed(self.module, 0):
                return self.outputs(multipliers)

        def fresh(multipliers: Tensor) -> Affine:
            with undisturbed(self.module, next(seeds)):
                return self.outputs(multipliers, self.drawing)

        return Conditional(laws, fixed, size, fresh)

    def outputs(self, multipliers: Tensor, own: Collection[str] = ()) -> Affine:
        """Outputs under early multipliers (m, 1 or examples, units), with m as leading dimension."""
        count, examples = len(multipliers), count_of(self.inputs)
        parts = multipliers.split([site.units for site in self.early], -1) if self.early else ()
        changes = {
            site.name: _spreading(site, part.expand(count, examples, -1).flatten(0, 1))
            for site, part in zip(self.early, parts, strict=True)
        }
        frozen = [(part, _repeated(value, count)) for part, value in self.frozen]
        outputs, seen = _run(self.module, _repeated(self.inputs, count), changes, own, frozen)
        center = outputs.reshape(count, examples, -1)
        if not self.head:
            return Affine(center, None, None)
        assert seen.linear is not None
        source, weight, _, _ = seen.linear
        features = source.reshape(count, examples, -1)
        return Affine(center, UnitOutputs(features, weight[None]), Bernoulli(self.sites[-1].rate, features.shape[-1]))


def read_module(module: nn.Module, inputs: Inputs) -> MaskedModule:
    """Find the sites of a module on these inputs, with a handful of runs; nothing of it is changed."""
    _tensors(inputs)  # refuses what holds no examples
    with undisturbed(module, 0):
        return _read(module, inputs)


def _read(module: nn.Module, inputs: Inputs) -> MaskedModule:
    _, first = _run(module, _taken(inputs, [0]))
    _, second = _run(module, _taken(inputs, [0, 0]))
    sites: list[ModuleSite] = []
    drawing = list(dict.fromkeys(first.drawing))
    for (name, rate, kind, shape, _), (*_, wide, _) in zip(first.calls, second.calls, strict=True):
        axis = _axis(shape, wide)
        if axis is None:
            drawing.append(name)
            continue
        rest = [size for i, size in enumerate(shape) if i != axis]
        if kind in CHANNELWISE.values():
            rest = [rest[0], *(1 for _ in rest[1:])]
        sites.append(ModuleSite(name, rate, tuple(rest), axis))
    few = _taken(inputs, list(range(min(count_of(inputs), PROBED))))
    outputs, seen = _run(module, few)
    if len(outputs) != count_of(few):
        raise ValueError(
            f"the module returns {len(outputs)} rows for {count_of(few)} examples; it must return one per example"
        )
    again, _ = _run(module, few)
    certain = bool(torch.equal(outputs, again))
    head = bool(sites) and _is_head(seen, outputs, sites[-1].name)
    found = MaskedModule(module, few, tuple(sites), head, tuple(drawing), certain)
    if head and not _confirmed(found):
        found = replace(found, head=False)
    frozen: tuple[tuple[nn.Module, Tensor], ...] = ()
    if certain and found.early:
        trunk = _Trunk(module)
        _run(module, inputs, watch=trunk)
        frozen = trunk.parts(count_of(inputs))
    return replace(found, inputs=inputs, frozen=frozen)


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


def _is_head(seen: _Seen, outputs: Tensor, name: str) -> bool:
    """Whether the last linear layer returns the outputs and takes what the named site gives."""
    if seen.linear is None or not seen.calls or seen.calls[-1][0] != name or seen.calls[-1][2] != "dropout":
        return False
    source, _, _, result = seen.linear
    return source is seen.calls[-1][-1] and result is outputs and source.ndim == 2


def _confirmed(found: MaskedModule) -> bool:
    """One pass with a mask at the head against what the layer's weights say: rounding of one product is allowed."""
    site = found.sites[-1]
    generator = torch.Generator().manual_seed(0)
    examples = count_of(found.inputs)
    mask = Bernoulli(site.rate, site.units).multipliers(examples, generator)
    masked, _ = _run(found.module, found.inputs, {site.name: _spreading(site, mask)})
    plain = found.outputs(torch.ones(1, 1, sum(early.units for early in found.early)))
    assert plain.units is not None
    features, head = plain.units
    predicted = plain.center[0] + (features[0] * (mask.to(features) - 1)) @ head[0].mT
    scale = (features[0].abs() * mask.to(features).abs()) @ head[0].abs().mT + plain.center[0].abs()
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


def _axis(narrow: tuple[int, ...], wide: tuple[int, ...]) -> int | None:
    """The one dimension that grew from one to two with the examples."""
    changed = [i for i, (a, b) in enumerate(zip(narrow, wide, strict=False)) if a != b]
    fits = len(narrow) == len(wide) and len(changed) == 1 and (narrow[changed[0]], wide[changed[0]]) == (1, 2)
    return changed[0] if fits else None


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
