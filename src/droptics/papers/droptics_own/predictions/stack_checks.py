"""What claims on ways of writing and calling modules compare: stacks, sites in place, inputs, runs that differ."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.evidence.claims import Comparison, compare
from droptics.models.watching import all_off, all_on, as_written, only, watched
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.predictions.moment_checks import moments_of
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal
from droptics.penalties import MonteCarlo, SecondOrder
from droptics.predictions import predictive
from droptics.predictions.modules import read_module

RATE, UNITS = 0.3, 4
# Hidden units behind their mask, (masks, examples, units), to outputs.
Rest = Callable[[Tensor], Tensor]


def written_modules(scale: float) -> list[Comparison]:
    """Moments of stacks and of modules in odd forms are those over all masks, or what was read is taken back."""
    return [*_stacks(scale), *_in_place(scale), *_called(scale), *_unsteady(scale), *_known(scale), *_modes(scale)]


class Named(nn.Sequential):
    """A stack that only says how it is made."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__(*parts)


class Halved(nn.Sequential):
    """A stack with a forward pass of its own."""

    def forward(self, inputs: Tensor) -> Tensor:
        for part in self:
            inputs = part(inputs)
        return inputs / 2


class Doubled(nn.Dropout):
    """Dropout with a forward pass of its own."""

    def forward(self, inputs: Tensor) -> Tensor:
        return 2 * super().forward(inputs)


class Squared(nn.Linear):
    """A linear layer with a forward pass of its own."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs).square()


def _hooked(layer: nn.Module, change: Callable[[Tensor], Tensor]) -> nn.Module:
    layer.register_forward_hook(lambda _part, _given, result: change(result))
    return layer


def _squared(seed: int) -> Squared:
    layer, plain = Squared(UNITS, 2).double().requires_grad_(False), linear_head(seed, UNITS, 2)
    layer.load_state_dict(plain.state_dict())
    return layer


def _patched(layer: nn.Linear) -> nn.Linear:
    vars(layer)["forward"] = lambda input: functional.linear(input, layer.weight, layer.bias).abs()
    return layer


def _stacks(scale: float) -> list[Comparison]:
    """Dropout before the last layer of a stack, where one of its parts, or the stack, does more than torch's own."""
    found: list[Comparison] = []
    inputs, first, last = normal(2, 5, 3), linear_head(1, 3, UNITS), linear_head(3, UNITS, 2)
    kept, chances = every_coin([RATE] * UNITS)
    hidden = torch.tanh(inputs @ first.weight.mT + first.bias)

    def head(masked: Tensor) -> Tensor:
        return masked @ last.weight.mT + last.bias

    own = linear_head(3, UNITS, 2)
    cases: tuple[tuple[str, nn.Module, Rest, bool], ...] = (
        ("plain", nn.Sequential(first, nn.Tanh(), nn.Dropout(RATE), last), head, True),
        ("of a class", Named(first, nn.Tanh(), nn.Dropout(RATE), last), head, True),
        ("in place", nn.Sequential(first, nn.Tanh(), nn.Dropout(RATE, inplace=True), last), head, True),
        ("a forward of its own", Halved(first, nn.Tanh(), nn.Dropout(RATE), last), lambda z: head(z) / 2, False),
        (
            "a dropout of its own",
            nn.Sequential(first, nn.Tanh(), Doubled(RATE), last),
            lambda z: head(2 * z),
            False,
        ),
        (
            "a head of its own",
            nn.Sequential(first, nn.Tanh(), nn.Dropout(RATE), _squared(3)),
            lambda z: head(z).square(),
            False,
        ),
        (
            "a hook behind a part",
            nn.Sequential(first, _hooked(nn.Tanh(), lambda value: value + 1), nn.Dropout(RATE), last),
            lambda z: head(z + z / hidden),
            True,
        ),
        (
            "a hook behind the head",
            nn.Sequential(first, nn.Tanh(), nn.Dropout(RATE), _hooked(own, lambda value: value.exp())),
            lambda z: head(z).exp(),
            False,
        ),
        (
            "a head that was patched",
            nn.Sequential(first, nn.Tanh(), nn.Dropout(RATE), _patched(linear_head(3, UNITS, 2))),
            lambda z: head(z).abs(),
            False,
        ),
    )
    for name, module, rest, affine in cases:
        truth = moments_of(rest(hidden * (kept / (1 - RATE))[:, None]), chances)
        for turn in ("first", "again"):  # what was read may be known the second time
            told = predictive(module.train(), inputs)
            for part, wanted in zip((told.mean, told.variance, told.covariance), truth, strict=True):
                found.append(compare(part.value, "==", scale * wanted, f"moments of a stack, {name}, {turn}"))
            found.append(same(read_module(module, inputs).head, affine, f"integrated, {name}, {turn}", scale))
    shared = nn.Dropout(RATE)
    twice = nn.Sequential(shared, first, nn.Tanh(), shared, last)
    coins, odds = every_coin([RATE] * (3 + UNITS))
    before, behind = (coins / (1 - RATE))[:, None].split([3, UNITS], -1)
    truth = moments_of(head(torch.tanh(first(inputs * before)) * behind), odds)
    told = predictive(twice, inputs)
    for part, wanted in zip((told.mean, told.variance, told.covariance), truth, strict=True):
        found.append(compare(part.value, "==", scale * wanted, "a dropout that stands in two places"))
    off = nn.Sequential(first, nn.Tanh(), nn.Dropout(0.0), last)
    found.append(compare(1 + predictive(off, inputs).variance.value, "==", scale, "a rate of 0"))
    return found


class Writing(nn.Module):
    """Dropout whose input is used behind it, too: written to, or left as it was."""

    def __init__(self, inplace: bool, by_layer: bool) -> None:
        super().__init__()
        self.first, self.last, self.inplace = linear_head(1, 3, UNITS), linear_head(3, UNITS, 2), inplace
        self.drop = nn.Dropout(RATE, inplace) if by_layer else None

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs)
        drop = self.drop or (lambda value: functional.dropout(value, RATE, self.training, self.inplace))
        return self.last((hidden + 2 * drop(hidden)).tanh())


def _in_place(scale: float) -> list[Comparison]:
    """A mask that is written into what it falls on reaches all who read it; others leave it alone."""
    found: list[Comparison] = []
    inputs = normal(2, 5, 3)
    kept, chances = every_coin([RATE] * UNITS)
    for inplace in (False, True):
        for by_layer in (False, True):
            module = Writing(inplace, by_layer)
            hidden = module.first(inputs)
            dropped = hidden * (kept / (1 - RATE))[:, None]
            # the sum reads both terms after the mask has been written, and in place they are one tensor
            truth = moments_of(module.last((3 * dropped if inplace else hidden + 2 * dropped).tanh()), chances)
            told, name = predictive(module, inputs), f"in place {inplace}, by a layer {by_layer}"
            found.append(compare(told.mean.value, "==", scale * truth[0], f"mean, {name}"))
            found.append(compare(told.variance.value, "==", scale * truth[1], f"variance, {name}"))
    return found


class Paired(nn.Module):
    """Takes two tensors, by place or by name, and answers in a pair."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.last = nn.Dropout(RATE), linear_head(3, UNITS, 2)

    def forward(self, left: Tensor, right: Tensor) -> tuple[Tensor, int]:
        return self.last(self.drop(left - right.square())), 0


def _called(scale: float) -> list[Comparison]:
    """Modules that take several tensors, in order or by name, and one example or many."""
    found: list[Comparison] = []
    module = Paired()
    kept, chances = every_coin([RATE] * UNITS)
    for count in (1, 2, 5):
        left, right = normal(4, count, UNITS), normal(5, count, UNITS)
        outputs = module.last((left - right.square()) * (kept / (1 - RATE))[:, None])
        mean, variance, _ = moments_of(outputs, chances)
        given: tuple[tuple[str, Any], ...] = (
            ("a pair", (left, right)),
            ("a list", [left, right]),
            ("names", {"right": right, "left": left}),
        )
        for name, one in given:
            told = predictive(module, one)
            found.append(compare(told.mean.value, "==", scale * mean, f"mean of {count}, {name}"))
            found.append(compare(told.variance.value, "==", scale * variance, f"variance of {count}, {name}"))
    return found


class Changing(nn.Module):
    """Dropout of another rate after some runs, or numbers of Python's own beside it."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.first, self.last, self.kind, self.runs = linear_head(1, 3, UNITS), linear_head(3, UNITS, 2), kind, 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.runs += 1
        hidden = self.first(inputs)
        if self.kind == "seldom":  # a number is drawn, which decides nothing in these runs
            return self.last(functional.dropout(hidden, RATE)) * (2.0 if random.random() < 1e-9 else 1.0)
        if self.kind == "two sites":
            return self.last(functional.dropout(hidden, RATE if self.runs % 2 else 0.5).tanh())
        return self.last(functional.dropout(hidden, RATE if self.runs < 5 else 0.5).tanh())


def _unsteady(scale: float) -> list[Comparison]:
    """What drops otherwise when it runs again, and what draws beside its dropout, has no closed form and is drawn."""
    found: list[Comparison] = []
    inputs = normal(2, 5, 3)
    state = random.getstate()
    for kind in ("seldom", "two sites", "late"):
        found.append(
            refuses(lambda kind=kind: predictive(Changing(kind), inputs), "use MonteCarlo()", f"listed, {kind}")
        )
        told = predictive(Changing(kind), inputs, None, MonteCarlo(8, seed=3))
        drawn = told.mean.method.startswith("Monte Carlo, 8 masks")
        found.append(same((drawn, told.samples), (True, 8), f"drawn, {kind}", scale))
    words = "random that cannot be masked from outside"
    found.append(refuses(lambda: predictive(Changing("seldom"), inputs, None, SecondOrder()), words, "first order"))
    random.setstate(state)
    return found


class Switched(nn.Module):
    """Dropout before the last layer, and noise before it where a buffer says so."""

    noisy: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.drop = linear_head(1, 3, UNITS), linear_head(3, UNITS, 2), nn.Dropout(RATE)
        self.register_buffer("noisy", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(inputs))
        if self.noisy > 0:
            hidden = hidden + torch.rand_like(hidden)
        return self.last(self.drop(hidden))


def _known(scale: float) -> list[Comparison]:
    """A module that was read before is looked at again: its rate, its weights and what it draws may be others."""
    found: list[Comparison] = []
    module, inputs = Switched(), normal(2, 5, 3)
    hidden = torch.tanh(module.first(inputs))
    for turn, rate in enumerate((RATE, RATE, 0.6, 0.0, RATE)):
        module.drop.p = rate
        if turn == 4:
            module.last.weight.mul_(1.5)
        kept, chances = every_coin([rate] * UNITS)
        truth = moments_of(module.last(hidden * (kept / (1 - rate))[:, None]), chances)
        told = predictive(module, inputs)
        for part, wanted in zip((told.mean, told.variance, told.covariance), truth, strict=True):
            found.append(compare(1 + part.value, "==", scale * (1 + wanted), f"moments, turn {turn}"))
    module.noisy.fill_(1.0)
    state = torch.get_rng_state()
    found.append(refuses(lambda: predictive(module, inputs), "use MonteCarlo()", "noise that came later"))
    found.append(same(torch.equal(torch.get_rng_state(), state), True, "nothing drawn of the caller's", scale))
    module.noisy.fill_(0.0)
    found.append(compare(predictive(module, inputs).variance.value, "==", scale * truth[1], "and is gone"))
    return found


def _modes(scale: float) -> list[Comparison]:
    """Dropout of layers, attention and recurrent layers counts as applied where the mode, or a switch, lets it drop."""
    found: list[Comparison] = []
    inputs = normal(6, 3, 6, 4)
    parts: tuple[tuple[nn.Module, str], ...] = (
        (nn.Dropout(RATE), ""),
        (nn.MultiheadAttention(4, 2, dropout=RATE, batch_first=True), "attention_dropout"),
        (nn.GRU(4, 4, 2, dropout=RATE, batch_first=True), "GRU_dropout"),
    )
    for part, name in parts:
        given = (inputs,) * (3 if isinstance(part, nn.MultiheadAttention) else 1)
        module = nn.Sequential(part).double()
        site = f"0.{name}" if name else "0"

        def run(part: nn.Module = part, given: tuple[Tensor, ...] = given) -> Tensor:
            torch.manual_seed(3)
            result: Tensor | tuple[Tensor, ...] = part(*given)
            return result[0] if isinstance(result, tuple) else result

        with torch.random.fork_rng(devices=[]):
            module.eval()
            quiet = run()
            module.train()
            dropped = run()
            for mode, switch, applied in (
                (False, as_written, False),
                (True, as_written, True),
                (False, all_on, True),
                (True, all_off, False),
                (False, only(site), True),
                (True, only("elsewhere"), False),
            ):
                module.train(mode)
                outputs, trace = watched(module, run, switch)
                (call,) = trace.calls
                label = f"{site}, training {mode}, {applied}"
                told = (call.site, call.rate, call.applied, call.asked)
                found.append(same(told, (site, RATE, applied, mode), f"what is seen, {label}", scale))
                wanted = dropped if applied else quiet
                found.append(compare(outputs, "==", scale * wanted, f"outputs, {label}"))
    return found
