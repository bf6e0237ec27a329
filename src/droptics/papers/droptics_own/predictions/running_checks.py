"""What claims on single runs of modules compare: given masks, what is put back, parts before dropout, code."""

from __future__ import annotations

import functools
import math
import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal
from droptics.predictions.modules import read_module
from droptics.predictions.running import (
    Change,
    Trunk,
    _nameless,
    _tensor,
    as_made,
    count_of,
    drawn,
    dropping,
    eager,
    repeated,
    run,
    taken,
    tensors_of,
)
from droptics.predictions.structures import structure

LIST = [1.0]


NUMBER = 2.0


def _giving(mask: Tensor) -> Change:
    return lambda source: mask


def runs(scale: float) -> list[Comparison]:
    """One pass with given multipliers, quiet or live; modes, buffers, hooks, inputs are as before."""
    found: list[Comparison] = []
    inputs = normal(4, 5, 4)
    module = nn.Sequential(nn.BatchNorm1d(4).double(), nn.Dropout(0.25), nn.Tanh(), nn.Dropout(0.5, inplace=True))
    norm: Any = module[0]
    module.train()
    module[2].training = False
    before = {name: value.clone() for name, value in norm.named_buffers()}
    for live in (False, True):
        torch.manual_seed(3)
        mask = torch.rand(5, 4, dtype=torch.float64)
        given = _giving(mask)
        state = torch.get_rng_state()
        outputs, seen = run(module, inputs, {"1": given, "3": None}, live)
        hidden = norm.weight * inputs / (1 + norm.eps) ** 0.5 + norm.bias  # as in evaluation: mean 0, variance 1
        found.append(compare(outputs, "==", scale * torch.tanh(hidden * mask), f"given, {live}"))
        calls = [(name, rate, kind, shape) for name, rate, kind, shape, _ in seen.calls]
        wanted = [("1", 0.25, "dropout", (5, 4)), ("3", 0.5, "dropout", (5, 4))]
        found.append(same((calls, seen.drawing, seen.linear, seen.told), (wanted, [], None, False), "seen", scale))
        found.append(same(torch.equal(state, torch.get_rng_state()), True, "nothing drawn", scale))
        free, _ = run(module, inputs, {"1": given}, live)
        torch.set_rng_state(state)
        own = torch.tanh(hidden * mask)
        own = functional.dropout(own, 0.5, True) if live else own
        found.append(compare(free, "==", scale * own, f"others draw: {live}"))
    flags = [part.training for part in module.modules()]
    found.append(same(flags, [True, True, True, False, True], "modes are put back", scale))
    after = dict(norm.named_buffers())
    found.append(same(all(torch.equal(before[name], after[name]) for name in before), True, "buffers", scale))
    found.append(same(bool(module._forward_hooks or module[1]._forward_hooks), False, "hooks", scale))
    counter = nn.Module()
    counter.register_buffer("seen", torch.zeros(2))
    with dropping(counter):
        counter.seen.add_(1)  # type: ignore[operator]
    found.append(same(counter.seen.tolist(), [0.0, 0.0], "buffers of others", scale))  # type: ignore[operator]
    frozen = nn.Sequential(nn.Linear(4, 4).double(), nn.Tanh())
    outputs, _ = run(frozen, inputs, frozen=[(frozen[0], inputs)])
    found.append(compare(outputs, "==", scale * torch.tanh(inputs), "a part that returns what is given"))
    found.append(same("forward" in vars(frozen[0]), False, "and runs again", scale))
    result: Any
    for name, result in (
        ("first of several", (inputs, 1)),
        ("first of a list", [inputs]),
        ("logits", {"a": 1, "logits": inputs}),
        ("first of a mapping", {"a": inputs, "b": 2}),
        ("itself", inputs),
    ):
        found.append(same(_tensor(result) is inputs, True, f"outputs: {name}", scale))
    for result in ((), torch.tensor(1.0), "text", None):
        found.append(refuses(lambda result=result: _tensor(result), "a tensor with one row per example"))
    return found + _inputs(scale, inputs)


def _inputs(scale: float, inputs: Tensor) -> list[Comparison]:
    """Inputs of every form, repeated, taken and counted; what holds no examples."""
    found: list[Comparison] = []
    bad: Any
    both = {"a": inputs, "b": inputs[:, 0]}
    for name, many in (("tensor", inputs), ("pair", (inputs, inputs[:, 0])), ("mapping", both)):
        twice, some = tensors_of(repeated(many, 2)), tensors_of(taken(many, [3, 0]))
        for wide, part, own in zip(twice, some, tensors_of(many), strict=True):
            found.append(compare(wide, "==", scale * torch.cat([own, own]), f"repeated {name}"))
            found.append(compare(part, "==", scale * own[[3, 0]], f"some of a {name}"))
        found.append(same(count_of(many), 5, f"count of a {name}", scale))
    for bad in ((), {}, inputs[:0], (inputs, torch.tensor(1.0)), ("a",)):
        found.append(refuses(lambda bad=bad: tensors_of(bad), "inputs must be a tensor (examples, ...)"))
    one = nn.Module()
    one.forward = lambda value: value[:1]
    found.append(refuses(lambda: read_module(one, inputs), "returns 1 rows for 2 examples", "too few rows"))
    return found


def parts(scale: float) -> list[Comparison]:
    """Parts that run before anything random; layers as torch made them; whether a number was drawn."""
    found: list[Comparison] = []
    inputs = normal(4, 5, 4)
    module = nn.Sequential(
        nn.Sequential(nn.Linear(4, 3).double(), nn.Tanh()), nn.Dropout(0.5), nn.Linear(3, 2).double(), nn.Tanh()
    )
    trunk = Trunk(module)
    run(module, inputs, watch=trunk)
    (only,) = trunk.parts(5)
    found.append(same(only[0] is module[0], True, "the outermost part before", scale))
    found.append(compare(only[1], "==", scale * module[0](inputs), "what it returned"))
    found.append(same(trunk.parts(4), (), "rows of others", scale))
    module[0].note = 3  # type: ignore[assignment]
    inner: Any = module[0]
    found.append(same([part for part, _ in trunk.parts(5)], [*inner], "a part that keeps something", scale))
    later = Trunk(module)
    run(module, inputs, watch=later)
    inner.note = inputs
    found.append(same([part for part, _ in later.parts(5)], [*inner], "a part that keeps another thing", scale))
    twice = nn.Sequential(nn.Tanh(), nn.Dropout(0.5))
    again = Trunk(twice)
    run(twice, inputs, watch=again)
    again.returned[twice[0]] *= 2
    found.append(same(again.parts(5), (), "a part that runs twice", scale))
    hooked, patched = nn.Linear(2, 2), nn.Linear(2, 2)
    hooked.register_forward_hook(lambda *_: None)
    patched.forward = lambda input: input  # type: ignore[method-assign]
    before = nn.Linear(2, 2)
    before.register_forward_pre_hook(lambda *_: None)
    made = [as_made(part) for part in (nn.Linear(2, 2), hooked, before, patched, Coded("a"), nn.Dropout(0.1))]
    found.append(same(made, [True, False, False, False, False, True], "as torch made them", scale))
    silent = [nn.Tanh(), nn.Dropout(0.1), nn.Sequential(), nn.Sequential(nn.Tanh()), nn.GRU(2, 2), nn.RReLU(), hooked]
    told = [_nameless(part) for part in silent]
    found.append(same(told, [True, False, True, False, False, False, False], "nothing to name", scale))
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002 - what modules draw from
    try:
        for name, draw in (
            ("none", lambda: None),
            ("torch", lambda: torch.rand(1)),
            ("random", random.random),
            ("numpy", np.random.random_sample),
        ):
            drawn([])
            draw()
            found.append(same((drawn([]), drawn([])), (name != "none", False), f"drawn by {name}", scale))
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])  # noqa: NPY002 - as before
    with eager(nn.Tanh()) as stance:
        found.append(same(stance, None, "nothing compiled", scale))
    return found


class Coded(nn.Module):
    """Code that reads what may change, or what cannot."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        if kind == "list":
            self.numbers = [1.0]

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * NUMBER


class Listed(Coded):
    """Reads a list of its module."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * LIST[0]


class Hiding(Coded):
    """Reads what no name of its code stands for."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * getattr(self, "scale", 1.0)


class Calling(Coded):
    """Calls what reads a list."""

    def forward(self, inputs: Tensor) -> Tensor:
        return self.inner(inputs)

    def inner(self, inputs: Tensor) -> Tensor:
        return inputs * LIST[0]


@functools.wraps(functional.relu)
def disguised(inputs: Tensor) -> Tensor:
    """Bears the name of a function of torch, and reads a list."""
    return inputs * LIST[0]


class Disguised(Coded):
    """Calls what says that it is torch's."""

    def forward(self, inputs: Tensor) -> Tensor:
        return disguised(inputs)


class Given(Coded):
    """Has numbers for defaults."""

    def forward(self, inputs: Tensor, *, factors: tuple[float, ...] = (1.0, 2.0)) -> Tensor:
        return math.fsum(factors) * torch.relu(inputs)


TABLE = {"scale": 1.0}


class Tools:
    """Others' numbers."""

    scale, numbers = 1.0, (1.0, 2.0)


def counting(inputs: Tensor) -> Tensor:
    """Keeps a number of its own."""
    return inputs * len(vars(counting))


def _codes() -> list[tuple[str, dict[str, Any], bool]]:
    """Ways of code to reach a value; whether nothing of it can change unseen."""
    listed, fixed, counting.calls = [1.0], (1.0, "a", (2, None)), 1  # type: ignore[attr-defined]

    def by_closure(self: Any, inputs: Tensor) -> Tensor:
        return inputs * listed[0]

    def by_fixed_closure(self: Any, inputs: Tensor) -> Tensor:
        return inputs * fixed[0]

    def by_default(self: Any, inputs: Tensor, scales: list[float] = [1.0]) -> Tensor:  # noqa: B006 - what is meant
        return inputs * scales[0]

    def by_fixed_default(self: Any, inputs: Tensor, scales: tuple[float, ...] = (1.0,)) -> Tensor:
        return inputs * scales[0]

    def importing(self: Any, inputs: Tensor) -> Tensor:
        import math as library  # noqa: PLC0415 - what is meant

        return inputs * library.pi

    def within(self: Any, inputs: Tensor) -> Tensor:
        return sum((inputs * LIST[0] for _ in range(2)), inputs)

    forwards: tuple[tuple[str, Any, bool], ...] = (
        ("a list in a closure", by_closure, False),
        ("a tuple in a closure", by_fixed_closure, True),
        ("a list for a default", by_default, False),
        ("a tuple for a default", by_fixed_default, True),
        ("an import", importing, False),
        ("a list in a loop within", within, False),
        ("a dictionary", lambda self, inputs: inputs * TABLE["scale"], False),
        ("another class", lambda self, inputs: inputs * Tools.scale, False),
        ("a function with numbers", lambda self, inputs: counting(inputs), False),
        ("random numbers of Python", lambda self, inputs: inputs * random.random(), False),
        ("a generator", lambda self, inputs: inputs * torch.rand((), generator=torch.Generator()), False),
        ("names by text", lambda self, inputs: inputs * eval("NUMBER"), False),
        ("functions of math", lambda self, inputs: inputs * math.pi, True),
    )
    codes: list[tuple[str, dict[str, Any], bool]] = [(name, {"forward": code}, known) for name, code, known in forwards]
    reading = {"forward": lambda self, inputs: inputs * self.scale}
    for name, value, known in (
        ("a number", 2.0, True),
        ("a list", [2.0], False),
        ("a property", property(lambda self: NUMBER), True),
        ("a property that reads a list", property(lambda self: LIST[0]), False),
        ("a static method", staticmethod(lambda: 1.0), True),
        ("a static method that reads a list", staticmethod(lambda: LIST[0]), False),
        ("a class method that reads a list", classmethod(lambda cls: LIST[0]), False),
    ):
        codes.append((f"{name} of the class", reading | {"scale": value}, known))
    for name in ("__call__", "_call_impl", "_wrapped_call_impl", "__getattr__", "__getattribute__"):
        codes.append((f"{name} of its own", {name: getattr(nn.Module, name, object.__getattribute__)}, False))
    return codes


def structures(scale: float) -> list[Comparison]:
    """What a module is made of is known where its code reads fixed values alone; another value is another module."""
    found: list[Comparison] = []
    for name, changes, known in _codes():
        module = type("Other", (Coded,), changes)("a")
        found.append(same(structure(module) is not None, known, f"known: {name}", scale))
    hooked = Coded("a")
    hooked.register_forward_hook(lambda *_: None)
    scripted = torch.jit.script(nn.Sequential(nn.Tanh()))
    for name, module, known in (
        ("torch's", nn.Sequential(nn.Linear(2, 2), nn.Tanh()), True),
        ("a number", Coded("a"), True),
        ("default values", Given("a"), True),
        ("a list of its own", Coded("list"), False),
        ("a global list", Listed("a"), False),
        ("a list of what it calls", Calling("a"), False),
        ("a list of what bears another's name", Disguised("a"), False),
        ("what hides", Hiding("a"), False),
        ("a hook", hooked, False),
        ("a script", scripted, False),
        ("a part", nn.Sequential(nn.Tanh(), Listed("a")), False),
    ):
        found.append(same(structure(module) is not None, known, f"known: {name}", scale))
    alike = structure(Coded("a")) == structure(Coded("a"))
    other = [structure(Coded("a")) == structure(one) for one in (Coded("b"), Given("a"), nn.Sequential(Coded("a")))]
    found.append(same((alike, other), (True, [False] * 3), "the same and others", scale))
    defaults, before = Given.forward.__kwdefaults__, structure(Given("a"))
    try:
        for name, value, known in (("a number", (1.0, 3.0), True), ("a list", [1.0, 2.0], False)):
            Given.forward.__kwdefaults__ = {"factors": value}
            told = structure(Given("a"))
            found.append(same((told is not None, told == before), (known, False), f"default: {name}", scale))
    finally:
        Given.forward.__kwdefaults__ = defaults
    return found
