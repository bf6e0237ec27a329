"""One pass of a torch module with given masks at its dropout sites; all else as it is, and put back afterwards.

Attention and recurrent layers are written out for that. What cannot be masked from outside (alpha dropout, packed
sequences) draws for itself where it is asked to.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from droptics.models.buffers import Buffers
from droptics.models.dropout_calls import ALPHA, LINEAR, PLAIN, RECURRENT, DropoutCalls
from droptics.models.modes import reseed, training_without_statistics
from droptics.models.unfused import attention, multi_head, recurrent
from droptics.models.watching import Places

# Where attention takes its rate.
PLAIN_ATTENTION, MULTI_HEAD = 4, 10
COMPILED = "OptimizedModule"  # what `torch.compile` makes of a module
# Layers of torch's own that draw.
DRAWING = (nn.modules.dropout._DropoutNd, nn.RReLU, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)
# Functions that tell Python a number of a tensor.
TELLING = frozenset(getattr(Tensor, name) for name in ("item", "tolist", "numpy", "equal", "allclose", "is_nonzero"))
TELLING |= {Tensor.__bool__, Tensor.__int__, Tensor.__float__, Tensor.__complex__, Tensor.__index__}
TELLING |= {Tensor.__array__, Tensor.__contains__, torch.equal, torch.allclose, torch.is_nonzero}
# Functions that ask for derivatives, which values put in place of a part do not have.
DERIVING = frozenset([torch.autograd.grad, torch.autograd.backward, Tensor.backward, torch._make_dual])
Change = Callable[[Tensor], Tensor]
Inputs = Tensor | Sequence[Tensor] | Mapping[str, Tensor]


@dataclass
class Seen:
    """What one run did: the calls of each site, the functions that draw for themselves, and the last linear layer.

    Attributes:
        told: Whether Python was told a value that masks decide, so that the code may take another way under others.
        derived: Whether the module took a derivative.
    """

    calls: list[tuple[str, float, str, tuple[int, ...], Tensor]] = field(default_factory=list)
    drawing: list[str] = field(default_factory=list)
    linear: tuple[Tensor, Tensor, Tensor | None, Tensor] | None = None
    told: bool = False
    derived: bool = False


class _Masked(DropoutCalls):
    """Runs a module with given multipliers at its sites; None passes the input on.

    What has no multipliers draws for itself where it is `live`, and is switched off else.
    """

    def __init__(self, places: Places, multipliers: Mapping[str, Change | None], live: bool) -> None:
        super().__init__()
        self.places, self.multipliers, self.live, self.seen = places, multipliers, live, Seen()

    def _other(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        result = func(*args, **options)
        if func in LINEAR:
            bias = args[2] if len(args) > 2 else options.get("bias")
            self.seen.linear = (args[0], args[1], bias, result)
        elif func in TELLING and (self.seen.calls or self.seen.drawing):
            self.seen.told = True
        elif func in DERIVING:
            self.seen.derived = True
        return result

    def _plain(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        source: Tensor = args[0] if args else options["input"]
        rate = float(args[1] if len(args) > 1 else options.get("p", 0.5))
        training = bool(args[2] if len(args) > 2 else options.get("training", func not in ALPHA))
        name = self.places.name(PLAIN[func].replace(" ", "_"))
        if rate == 0 or not training:
            return source
        inplace = bool(options.get("inplace", False))  # torch names it, however it was given
        if func in ALPHA:
            return func(source, rate, self._draws(name), inplace)
        return self._site(name, rate, PLAIN[func], lambda: func(source, rate, True), inplace)(source)

    def _attention(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        rate = float(args[PLAIN_ATTENTION] if len(args) > PLAIN_ATTENTION else options.get("dropout_p", 0.0))
        name = self.places.name("attention_dropout")
        if rate == 0:
            return func(*args, **options)
        return attention(*args, **options, masking=self._site(name, rate, "attention dropout"))

    def _multi_head(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        rate = float(args[MULTI_HEAD])
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

    def _site(
        self, name: str, rate: float, kind: str, draw: Callable[[], Tensor] | None = None, inplace: bool = False
    ) -> Change:
        """What a site does to the tensor that it masks; layers stacked in one function are a site each."""
        numbers = itertools.count(1)

        def change(source: Tensor) -> Tensor:
            number = next(numbers)
            own = name if number == 1 else f"{name}#{number}"
            given = self.multipliers.get(own)
            if given is not None:
                result = source.mul_(given(source)) if inplace else source * given(source)
            elif self.live and own not in self.multipliers:
                result = nn.functional.dropout(source, rate, True) if draw is None else draw()
                result = source.copy_(result) if inplace else result
            else:
                result = source if inplace else source.clone()  # its own: what follows a site can be told apart
            self.seen.calls.append((own, rate, kind, tuple(source.shape), result))
            return result

        return change

    def _draws(self, name: str) -> bool:
        """Whether a function that cannot be masked from outside draws for itself now."""
        self.seen.drawing.append(name)
        return self.live


class Trunk:
    """Parts of a module whose call ended before anything random was met, each with what it returned."""

    def __init__(self, module: nn.Module) -> None:
        self.names = {part: name for name, part in module.named_modules() if name}
        self.before = {part: dict(vars(part)) for part in module.modules()}
        self.returned: dict[nn.Module, list[Tensor | None]] = {}
        self.seen = Seen()

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
            fits = result is not None and result.ndim > 0 and len(result) == examples
            if result is not None and fits and not inside and all(map(self._kept, part.modules())):
                found[name] = (part, result)
        return tuple(found.values())

    def _kept(self, part: nn.Module) -> bool:
        """Whether the run left nothing in a part that others may read there."""
        now, before = vars(part), self.before[part]
        return now.keys() == before.keys() and all(now[name] is before[name] for name in now if name != "training")


def as_made(part: nn.Module, kind: type[nn.Module] | None = None) -> bool:
    """Whether a part is a layer of torch's own that nobody changed: its code, of `kind`, is known before it runs."""
    kind = kind or type(part)
    if not kind.__module__.startswith("torch.nn.modules.") or "forward" in vars(part):
        return False
    code = getattr(kind.forward, "__globals__", {})  # a class of torch's may have been given another
    own = str(code.get("__name__")).startswith("torch.nn.modules.")
    return own and not part._forward_hooks and not part._forward_pre_hooks


def drawn(devices: list[int], seed: int = 0) -> bool:
    """Whether a number was drawn since all generators started from `seed`; they start there again.

    Seen by the numbers that come next: NumPy takes longer to say where it stands than to draw.
    """
    now = _numbers(devices)
    reseed(seed, devices)
    first = _numbers(devices)
    reseed(seed, devices)
    return now != first


def _numbers(devices: list[int]) -> tuple[object, ...]:
    states = [torch.get_rng_state(), *(torch.cuda.get_rng_state(index) for index in devices)]
    arrays = float(np.random.random_sample())  # noqa: NPY002 - layers that others wrote draw from it
    return random.random(), arrays, *(state.numpy().tobytes() for state in states)


@contextmanager
def dropping(module: nn.Module) -> Iterator[None]:
    """Training mode for dropout alone, statistics as in evaluation; modes and buffers are put back."""
    parts = list(module.modules())
    flags = [part.training for part in parts]
    own = [part for part in parts if part._buffers and not (hasattr(part, "running_mean") and as_made(part))]
    buffers = Buffers(own)
    training_without_statistics(module)
    try:
        yield
    finally:
        for part, flag in zip(parts, flags, strict=True):
            if part.training != flag:
                part.training = flag
        buffers.put_back()


def eager(module: nn.Module) -> AbstractContextManager[Any]:
    """For a while nothing that `torch.compile` made of parts of the module is used: operators are seen one by one."""
    if any(part._compiled_call_impl is not None or type(part).__name__ == COMPILED for part in module.modules()):
        return torch.compiler.set_stance("force_eager")  # loads the compiler, so only where there is one
    return nullcontext()


def run(
    module: nn.Module,
    inputs: Inputs,
    multipliers: Mapping[str, Change | None] | None = None,
    live: bool = False,
    frozen: Sequence[tuple[nn.Module, Any]] = (),
    watch: Trunk | None = None,
) -> tuple[Tensor, Seen]:
    """One pass; hooks, modes and replaced parts are put back, also after an exception."""
    places = Places(module)
    with ExitStack() as stack:
        stack.enter_context(dropping(module))
        stack.enter_context(eager(module))
        mode = _Masked(places, multipliers or {}, live)
        parts = [part for part in places.names if not isinstance(part, torch.jit.ScriptModule)]
        for part in [part for part in parts if not _nameless(part)]:
            stack.callback(part.register_forward_pre_hook(places.enter).remove)
            stack.callback(part.register_forward_hook(places.leave, always_call=True).remove)
        if watch is not None:
            watch.seen = mode.seen
            for part in parts:
                stack.callback(part.register_forward_hook(watch.hook).remove)
        for part, value in frozen:
            part.forward = _returning(value)
            stack.callback(delattr, part, "forward")
        own = _each(inputs, Tensor.clone)  # a module may write into what it is given
        stack.enter_context(mode)
        if isinstance(own, Tensor):
            result = module(own)
        elif isinstance(own, Mapping):
            result = module(**own)
        else:
            result = module(*own)
    return _tensor(result), mode.seen


def _nameless(part: nn.Module) -> bool:
    """Whether nothing in a part can be called after it: a layer of torch's own, without parts, that never drops."""
    drops = isinstance(part, DRAWING) or "dropout" in vars(part)
    return not part._modules and not drops and as_made(part)


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


def _each(inputs: Inputs, change: Change) -> Inputs:
    if isinstance(inputs, Tensor):
        return change(inputs)
    if isinstance(inputs, Mapping):
        return {name: change(value) for name, value in inputs.items()}
    return tuple(change(value) for value in inputs)


def repeated(inputs: Inputs, count: int) -> Inputs:
    """All examples so many times, one block after the other."""
    return _each(inputs, lambda value: value.expand(count, *value.shape).reshape(-1, *value.shape[1:]))


def taken(inputs: Inputs, rows: list[int]) -> Inputs:
    """Some of the examples."""
    return _each(inputs, lambda value: value[rows])


def count_of(inputs: Inputs) -> int:
    """Number of examples."""
    return len(tensors_of(inputs)[0])


def tensors_of(inputs: Inputs) -> list[Tensor]:
    """The tensors that hold the examples, row by row; refused where there are none."""
    found = [inputs] if isinstance(inputs, Tensor) else list(inputs.values() if isinstance(inputs, Mapping) else inputs)
    if not found or not all(isinstance(value, Tensor) and value.ndim > 0 and len(value) > 0 for value in found):
        raise ValueError("inputs must be a tensor (examples, ...), or a tuple or dictionary of such tensors")
    return found
