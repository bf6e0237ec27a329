"""Watching a module run: which dropout it applies where, and a switch for each place.

Two interceptors work together, because neither sees all ways of writing dropout. At function level every call of
torch's dropout functions, attention and recurrent layers shows its rate and can be switched; at dispatch level every
random number is seen, which proves dropout that is active in evaluation mode and masks that are written by hand.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from droptics.models.dropout_calls import ALPHA, LINEAR, PACKED, PLAIN, RECURRENT, DropoutCalls
from droptics.models.hooks import hooked
from droptics.models.replaying import Recording, replayed
from droptics.models.unfused import attention, multi_head, recurrent


@dataclass
class Call:
    """One dropout call that was seen: where, which function, with which rate and flags, on which tensors.

    Tensors of a call that dropped are copies, which later writes leave alone. Those of a call that was switched off are
    the module's own, to be followed by identity; `version` counts the writes to the result by then.
    """

    site: str
    kind: str
    rate: float
    applied: bool
    shape: tuple[int, ...] | None
    module: nn.Module | None
    source: Tensor | None = None
    result: Tensor | None = None
    version: int = 0
    asked: bool = False  # whether the module itself would have dropped, switched off or not


@dataclass
class LinearCall:
    """One call of `F.linear`: the tensors themselves, and how often input and result had been written to by then."""

    source: Tensor
    weight: Tensor
    bias: Tensor | None
    result: Tensor
    features: Tensor  # a copy of the input as it was
    versions: tuple[int, int]


@dataclass
class Trace:
    """What one run of the module did."""

    calls: list[Call] = field(default_factory=list)  # dropout calls in order
    # places (module path) where random numbers were drawn outside torch's dropout functions
    hand_written: list[str] = field(default_factory=list)
    drawn: dict[str, list[int]] = field(default_factory=dict)  # how many numbers each of those drew, call by call
    linear: list[LinearCall] = field(default_factory=list)  # calls of `F.linear`, in order, when they are kept
    functions: list[str] = field(default_factory=list)  # names of all torch functions that were called
    visited: dict[nn.Module, bool] = field(default_factory=dict)  # modules that ran, and whether dropout came before

    def note(self, place: str, count: int) -> None:
        """Random numbers were drawn by hand."""
        self.hand_written.append(place)
        self.drawn.setdefault(place, []).append(count)


# Multipliers for a tensor that a site masks; None leaves it as it is.
Mask = Callable[[Tensor], Tensor | None]
Switch = Callable[[str, float], float | Mask | None]


def masked(mask: Mask) -> Callable[[Tensor], Tensor]:
    """What a site does with a given mask: always a new tensor, as torch's dropout returns one in training mode."""

    def change(source: Tensor) -> Tensor:
        multipliers = mask(source)
        return source.clone() if multipliers is None else source * multipliers

    return change


def as_written(site: str, rate: float) -> float | None:
    """Leave every call as the module makes it."""
    return None


def all_off(site: str, rate: float) -> float | None:
    """Switch all dropout off."""
    return 0.0


def all_on(site: str, rate: float) -> float | None:
    """Apply every site at its own rate."""
    return rate


def only(name: str, rate: float | None = None) -> Switch:
    """Apply one site, at its own or at another rate; all others are off."""

    def switch(site: str, own: float) -> float | None:
        return 0.0 if site != name else own if rate is None else rate

    return switch


class Places:
    """Names of the modules that are running, innermost last."""

    def __init__(self, module: nn.Module) -> None:
        self.names = {part: name for name, part in module.named_modules()}
        self.stack: list[nn.Module] = []
        self.visited: dict[nn.Module, bool] = {}
        self.counts: dict[str, int] = {}
        self.recording: Recording | None = None
        self.replaying: set[nn.Module] = set()
        self.on_dice: Callable[[str], None] | None = None
        self.dice: object = None

    def enter(self, part: nn.Module, _: object) -> None:
        self._look()
        self.stack.append(part)
        self.visited[part] = bool(self.counts)

    def _look(self) -> None:
        """Python's own random numbers, drawn since the last look, belong to the innermost part that is running."""
        if self.on_dice is not None and (state := random.getstate()) != self.dice:
            self.dice = state
            self.on_dice(self.below("random"))

    def leave(self, part: nn.Module, _: object = None, result: object = None) -> None:
        self._look()
        if self.stack:
            self.stack.pop()
        if part in self.replaying:
            self.replaying.discard(part)
        elif self.recording is not None:
            caller = self.names.get(self.part, "") if self.part is not None else ""
            self.recording.finish(part, result, self.counts, caller)

    def replay(self, part: nn.Module, counts: dict[str, int]) -> None:
        """The part returns an earlier result: the names inside it are taken, and it is not recorded again."""
        self.counts.update(counts)
        self.replaying.add(part)

    @property
    def part(self) -> nn.Module | None:
        """The innermost part that is running."""
        return self.stack[-1] if self.stack else None

    def below(self, what: str) -> str:
        """Name of the place where `what` happens."""
        path = self.names.get(self.part, "") if self.part is not None else ""
        return f"{path}.{what}" if path else what

    def name(self, what: str) -> str:
        """The same, counted when it happens there again; a dropout layer goes by its own name."""
        base = self.below(what)
        if isinstance(self.part, nn.modules.dropout._DropoutNd):
            base = self.names.get(self.part) or base
        self.counts[base] = self.counts.get(base, 0) + 1
        name = base if self.counts[base] == 1 else f"{base}@{self.counts[base]}"
        if self.recording is not None:
            self.recording.reach(name)
        return name


# Sees every torch function that is called: the function, its arguments and options, and its result.
OnCall = Callable[[Any, tuple[Any, ...], Mapping[str, Any], Any], None]


class _FunctionWatch(DropoutCalls):
    def __init__(self, trace: Trace, places: Places, switch: Switch, keep: bool, on_call: OnCall | None) -> None:
        super().__init__()
        self.trace, self.places, self.switch, self.keep, self.on_call = trace, places, switch, keep, on_call
        self.inside = 0

    def _other(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if self.keep:
            self.trace.functions.append(getattr(func, "__name__", str(func)))
        result = func(*args, **options)
        if self.on_call is not None:
            self.on_call(func, args, options, result)
        if self.keep and func in LINEAR:
            bias = args[2] if len(args) > 2 else options.get("bias")
            versions = (written(args[0]), written(result))
            self.trace.linear.append(LinearCall(args[0], args[1], bias, result, args[0].detach().clone(), versions))
        return result

    def _plain(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        source = args[0] if args else options.pop("input")
        rate = float(args[1] if len(args) > 1 else options.get("p", 0.5))
        training = bool(args[2] if len(args) > 2 else options.get("training", func not in ALPHA))
        kind = PLAIN[func]
        site = self.places.name(kind.replace(" ", "_"))
        wanted = self.switch(site, rate)
        if callable(wanted):
            return masked(wanted)(source)
        applied = training if wanted is None else wanted > 0
        call = Call(site, kind, rate, applied and rate > 0, tuple(source.shape), self.places.part, asked=training)
        self.trace.calls.append(call)
        if not applied:
            # the same memory under another name: who reads the result can be told from who reads the input
            result = source.view_as(source) if self.keep else source
            if self.keep:
                call.source, call.result, call.version = source, result, written(result)
            return result
        before = source.detach().clone() if self.keep else None
        with self._own_numbers():
            result = func(source, rate if wanted is None else wanted, True)
        if self.keep:
            call.source, call.result = before, result.detach().clone()
        return result

    def _attention(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        rate = float(args[4] if len(args) > 4 else options.get("dropout_p", 0.0))
        wanted = self._record("attention dropout", rate, True)
        if callable(wanted):
            return attention(*args, **options, masking=masked(wanted))
        return self._at_rate(func, args, options, 4, wanted)

    def _multi_head(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        rate = float(args[10])
        wanted = self._record("attention dropout", rate, bool(options.get("training", True)))
        if callable(wanted):
            return multi_head(masked(wanted))(*args, **{**options, "training": True})
        return self._at_rate(func, args, {**options, "training": wanted > 0}, 10, wanted)

    def _at_rate(self, func: Any, args: tuple[Any, ...], options: dict[str, Any], position: int, rate: float) -> Any:
        """Call an attention function with another `dropout_p`, which may stand at this position."""
        if len(args) > position:
            args = (*args[:position], rate, *args[position + 1 :])
        else:
            options["dropout_p"] = rate
        with self._own_numbers():
            return func(*args, **options)

    def _recurrent(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        values = list(args)
        # (input, hx, params, has_biases, num_layers, dropout, train, ...) or (data, batch_sizes, hx, params, ...)
        start = next(i for i, value in enumerate(values) if isinstance(value, bool))
        rate = float(values[start + 2])
        several = int(values[start + 1]) > 1
        packed = isinstance(values[1], Tensor) and not values[1].is_floating_point()
        kind = RECURRENT[func] + (PACKED if packed else "")
        wanted = self._record(kind, rate, bool(values[start + 3]) and several)
        if callable(wanted):
            return recurrent(func, [*values, *list(options.values())], masked(wanted))
        values[start + 2] = wanted
        values[start + 3] = wanted > 0
        with self._own_numbers():
            return func(*values, **options)

    def _record(self, kind: str, rate: float, applied: bool) -> float | Mask:
        site = self.places.name(kind.removesuffix(PACKED).replace(" ", "_"))
        wanted = self.switch(site, rate)
        if callable(wanted):
            return wanted
        actual = (rate if applied else 0.0) if wanted is None else wanted
        if rate > 0:
            self.trace.calls.append(Call(site, kind, rate, actual > 0, None, self.places.part, asked=applied))
        return actual

    @contextmanager
    def _own_numbers(self) -> Iterator[None]:
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1


class _RandomWatch(TorchDispatchMode):
    """Sees random numbers that are not drawn by a known dropout function."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would wrap the method below, and load its compiler for that: two seconds; watched code runs eagerly."""
        return False

    def __init__(self, trace: Trace, places: Places, functions: _FunctionWatch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.trace, self.places, self.functions = trace, places, functions

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if _is_random(func) and not self.functions.inside:
            place = self.places.below(str(func).split(".")[1].rstrip("_"))
            self.trace.note(place, result.numel() if isinstance(result, Tensor) else 0)
        return result


@cache
def _is_random(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags and "attention" not in str(func)


def written(tensor: Tensor) -> int:
    """How often torch wrote to the memory of a tensor in place; inference tensors do not count."""
    return 0 if tensor.is_inference() else tensor._version


def watched(  # parameters: keywords with defaults, one thing to watch each
    module: nn.Module,
    run: Callable[[], Any],
    switch: Switch = as_written,
    *,
    keep: bool = False,
    randomness: bool = False,
    layers: Mapping[str, float] | None = None,
    on_trace: Callable[[Trace], None] | None = None,
    on_call: OnCall | None = None,
    skips: Mapping[str, float] | None = None,
    recording: Recording | None = None,
    replay: tuple[Recording, int] | None = None,
) -> tuple[Any, Trace]:
    """Run `run()` (which calls the module) under watch; hooks are removed afterwards, also after an exception.

    `keep` stores the tensors at dropout sites and linear layers; `randomness` also watches single random operators,
    which costs time on every operator. `layers` names parts of the module that are dropout layers of their own, with
    their rates: switched off, they return their input. `skips` names parts that are left out with some probability.
    `on_trace` gets the trace before the run, for who must read it on the way, `on_call` every torch function.
    `recording` is filled with the results of all parts; `replay` names an earlier one and the moment up to which parts
    return what they returned then.
    """
    trace, places = Trace(), Places(module)
    places.recording = recording
    if on_trace is not None:
        on_trace(trace)
    with ExitStack() as stack:
        parts = [part for part in module.modules() if not isinstance(part, torch.jit.ScriptModule)]
        before, after = ([(part, hook) for part in parts] for hook in (places.enter, places.leave))
        own, left_out, find = layers or {}, skips or {}, module.get_submodule
        reached = [(find(name), _reach(name, recording)) for name in (*own, *left_out)] if recording is not None else []
        bypassed = [(find(name), _bypass(name, rate, switch)) for name, rate in own.items()]
        skipped = [(find(name), _skip(name, rate, switch)) for name, rate in left_out.items()]
        stack.enter_context(hooked(reached, [*bypassed, *skipped]))
        # what a bypass returns is the result of the part: recorded last
        stack.enter_context(hooked(before, after, always=True))
        if replay is not None:
            stack.enter_context(replayed(*replay, places.replay))
        functions = stack.enter_context(_FunctionWatch(trace, places, switch, keep, on_call))
        if randomness:
            places.on_dice, places.dice = (lambda place: trace.note(place, 1)), random.getstate()
            stack.enter_context(_RandomWatch(trace, places, functions))
        result = run()
    if recording is not None:
        recording.trim()
    trace.visited = places.visited
    return result, trace


def _bypass(name: str, rate: float, switch: Switch) -> Callable[[nn.Module, tuple[Any, ...], Any], Any]:
    def bypass(_: nn.Module, arguments: tuple[Any, ...], result: Any) -> Any:
        wanted = switch(name, rate)
        if callable(wanted):
            return masked(wanted)(arguments[0])
        return arguments[0] if wanted == 0 else result

    return bypass


def _skip(name: str, rate: float, switch: Switch) -> Callable[[nn.Module, tuple[Any, ...], Any], Any]:
    """A layer that may be left out: what it was given goes on, whatever else it returned."""

    def skip(_: nn.Module, arguments: tuple[Any, ...], result: Any) -> Any:
        wanted = switch(name, rate)
        if wanted(arguments[0]) is None if callable(wanted) else not wanted or random.random() >= wanted:
            return None
        return (arguments[0], *result[1:]) if isinstance(result, tuple) else arguments[0]

    return skip


def _reach(name: str, recording: Recording) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    return lambda _part, _arguments: recording.reach(name)
