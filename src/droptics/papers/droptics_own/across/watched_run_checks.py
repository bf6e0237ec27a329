"""What a claim on watched runs compares: the same modules at other rates, in other modes, and what is left behind."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.evidence.claims import Comparison, compare
from droptics.models.hooks import hooked
from droptics.models.modes import set_training, training_without_statistics, undisturbed, unmoved
from droptics.models.watching import all_off, all_on, as_written, only, watched
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal

OWN, OTHER = 0.4, 0.7


class _Attending(nn.Module):
    """One call of attention."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        rate = self.rate if self.training else 0.0
        return functional.scaled_dot_product_attention(x, x, x, dropout_p=rate, is_causal=True)


class _Placed(_Attending):
    """The same with its arguments by position."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x, x, x, None, self.rate if self.training else 0.0)


class _Called(nn.Module):
    """One call of a function, with its arguments by name."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(input=x, p=self.rate, training=self.training)


KINDS: dict[str, tuple[Callable[[float], nn.Module], str]] = {
    "dropout": (nn.Dropout, ""),
    "function": (_Called, "dropout"),
    "rows": (nn.Dropout1d, ""),
    "maps": (nn.Dropout2d, ""),
    "volumes": (nn.Dropout3d, ""),
    "alpha": (nn.AlphaDropout, ""),
    "maps of alpha": (nn.FeatureAlphaDropout, ""),
    "attention": (_Attending, "attention_dropout"),
    "attention by position": (_Placed, "attention_dropout"),
    "heads": (lambda rate: nn.MultiheadAttention(4, 2, rate, batch_first=True), "attention_dropout"),
    "lstm": (lambda rate: nn.LSTM(4, 3, 2, dropout=rate, batch_first=True), "LSTM_dropout"),
    "gru": (lambda rate: nn.GRU(4, 3, 3, dropout=rate, batch_first=True), "GRU_dropout"),
    "tanh": (lambda rate: nn.RNN(4, 3, 2, dropout=rate, batch_first=True), "RNN_dropout"),
    "relu": (lambda rate: nn.RNN(4, 3, 2, "relu", dropout=rate, batch_first=True), "RNN_dropout"),
}


def watched_runs(scale: float) -> list[Comparison]:
    """Rates asked for are those of modules made with them; modes, buffers and generators are those before."""
    parts = (_at_rates, _without_any, _in_modes, _left_behind, _left_out, _hooks)
    return [one for part in parts for one in part(scale)]


def _run(part: nn.Module, x: Tensor) -> Tensor:
    """What a part returns first, on the same random numbers every time."""
    torch.manual_seed(5)
    told = part(x, x, x) if isinstance(part, nn.MultiheadAttention) else part(x)
    return told[0] if isinstance(told, tuple) else told


def _at_rates(scale: float) -> list[Comparison]:
    """Every kind of dropout at its own rate, at another and at none, in both modes, beside parts made so."""
    found: list[Comparison] = []
    x = normal(1, 5, 6, 4)
    with torch.random.fork_rng(devices=[]):
        for name, (make, called) in KINDS.items():
            own, other = nn.Sequential(make(OWN)).double(), make(OTHER).double().train()
            inputs = x.reshape(*x.shape, *(1,) * {"maps": 1, "volumes": 2}.get(name, 0))
            for number, (here, there) in enumerate(zip(own.parameters(), other.parameters(), strict=True)):
                here.data.copy_(normal(number, *here.shape))
                there.data.copy_(here)
            site = f"0.{called}" if called else "0"
            dropped, moved = _run(own.train()[0], inputs), _run(other, inputs)
            quiet = _run(own.eval()[0], inputs)
            for training, (switch, wanted) in itertools.product(
                (True, False),
                (
                    (as_written, None),
                    (all_on, dropped),
                    (all_off, quiet),
                    (only(site), dropped),
                    (only(site, OTHER), moved),
                    (only("elsewhere", OTHER), quiet),
                ),
            ):
                own.train(training)
                truth = (dropped if training else quiet) if wanted is None else wanted
                told_rate = training or not isinstance(own[0], _Attending)  # which passes on no rate in evaluation mode
                truth = quiet if truth is dropped and not told_rate else truth
                outputs, trace = watched(own, partial(_run, own[0], inputs), switch)
                label = f"{name}, training {training}, {getattr(switch, '__name__', switch)}"
                found.append(compare(outputs.detach(), "==", scale * truth.detach(), label))
                drops = truth is not quiet
                told = [(call.site, call.rate, call.applied, call.asked, call.module is own[0]) for call in trace.calls]
                if told_rate:
                    found.append(same(told, [(site, OWN, drops, training, True)], f"what is told, {label}", scale))
            found.append(compare((moved - dropped).abs().max(), ">", 0.01, f"another rate is another answer, {name}"))
    return found


def _without_any(scale: float) -> list[Comparison]:
    """Recurrent layers alone have nothing between them to drop, whatever their rate; nor has a rate of zero."""
    found: list[Comparison] = []
    x = normal(1, 5, 6, 4)
    for family, site in ((nn.LSTM, "LSTM_dropout"), (nn.GRU, "GRU_dropout"), (nn.RNN, "RNN_dropout")):
        part: Any = family(4, 3, 1, batch_first=True).double().train()
        part.dropout = OWN  # torch warns where it is made so
        outputs, trace = watched(part, partial(_run, part, x))
        told = [(call.site, call.rate, call.applied, call.asked) for call in trace.calls]
        found.append(same(told, [(site, OWN, False, False)], f"one layer, {site}", scale))
        part.dropout = 0.0
        again, trace = watched(part, partial(_run, part, x))
        found.append(compare(again.detach(), "==", scale * outputs.detach(), f"its outputs, {site}"))
        found.append(same(trace.calls, [], f"no rate, {site}", scale))
    return found


class _Counting(nn.Module):
    """A part with a counter, which a pass in training mode raises."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.get_buffer("count").add_(1)
        return x


def _in_modes(scale: float) -> list[Comparison]:
    """Training without statistics: norm layers, and parts that are named, not what they hold, stay in evaluation."""
    found: list[Comparison] = []
    inner = nn.Sequential(nn.Dropout(0.3), nn.BatchNorm1d(3))
    module = nn.Sequential(nn.Linear(3, 3), inner, nn.LayerNorm(3), nn.InstanceNorm1d(3), nn.Dropout(0.2))
    names = [name for name, _ in module.named_modules()]
    for quiet in ((), ("1",), ("1", "4"), ("0", "1.0")):
        for before in (True, False):
            module.train(before)
            training_without_statistics(module, quiet)
            told = {name: part.training for name, part in module.named_modules()}
            wanted = {name: name not in ("1.1", "3", *quiet) for name in names}
            found.append(same(told, wanted, f"training but {quiet}", scale))
        for mode in (True, False):
            set_training(module, mode)
            found.append(same({part.training for part in module.modules()}, {mode}, f"all of them, {mode}", scale))
    return found


def _left_behind(scale: float) -> list[Comparison]:
    """Modes, buffers and three generators after a look are those before; within it they start from the seed."""
    found: list[Comparison] = []
    part = nn.Sequential(_Counting(), nn.BatchNorm1d(3), nn.Dropout(0.3))
    part[1].eval()
    x = normal(1, 5, 3).float()
    drawn: list[list[float]] = []
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    try:
        for seed in (3, 3, 2**32 + 4):
            random.seed(1), np.random.seed(1), torch.manual_seed(1)  # noqa: NPY002
            wanted = [random.random(), float(np.random.rand()), float(torch.rand(()))]  # noqa: NPY002
            random.seed(1), np.random.seed(1), torch.manual_seed(1)  # noqa: NPY002
            with undisturbed(part, seed):
                drawn.append([random.random(), float(np.random.rand()), float(torch.rand(()))])  # noqa: NPY002
                part(x)
                part.eval()
            told = [random.random(), float(np.random.rand()), float(torch.rand(()))]  # noqa: NPY002
            found.append(compare(told, "==", [scale * number for number in wanted], f"numbers afterwards, {seed}", 0.0))
            modes = [layer.training for layer in part.modules()]
            found.append(same(modes, [True, True, False, True], f"modes afterwards, {seed}", scale))
            found.append(compare(part[0].count, "==", 0.0, f"buffers afterwards, {seed}"))
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])
    own = [
        [random.Random(seed).random(), np.random.RandomState(seed % 2**32).rand(), _first_of(seed)]
        for seed in (3, 3, 2**32 + 4)
    ]
    found.append(compare(drawn, "==", scale * np.array(own), "numbers within", 0.0))
    with unmoved(part):
        part(x)
        found.append(compare(part[0].count, "==", scale, "a pass counts"))
    return [*found, compare(part[0].count, "==", 0.0, "and is not counted")]


def _left_out(scale: float) -> list[Comparison]:
    """Parts that drop in a way of their own, off and masked, layers left out by chance, and what came before."""
    found: list[Comparison] = []
    x = normal(1, 5, 3)
    module = nn.Sequential(nn.Tanh(), _Thrice(), nn.Dropout(OWN), nn.Tanh()).double().eval()

    def run() -> Tensor:
        return module(x)

    bent = torch.tanh(x)
    for name, switch, wanted in (
        ("as written", as_written, 3 * bent),
        ("off", all_off, bent),
        ("masked", lambda site, rate: torch.ones_like if site == "1" else 0.0, bent),
        ("halved", lambda site, rate: (lambda value: 0.5 * torch.ones_like(value)) if site == "1" else 0.0, 0.5 * bent),
    ):
        told, trace = watched(module, run, switch, layers={"1": 0.3})
        found.append(compare(told, "==", scale * torch.tanh(wanted), f"a part of its own, {name}"))
        before = [trace.visited[part] for part in module]
        found.append(same(before, [False, False, False, True], f"behind a dropout layer, {name}", scale))
    state = random.getstate()
    try:
        random.seed(7)
        kept = [
            torch.equal(watched(module, run, lambda site, rate: rate if site == "1" else 0.0, skips={"1": 0.3})[0],
                        torch.tanh(3 * bent)) for _ in range(40)]  # fmt: skip
        random.seed(7)
        found.append(same(kept, [random.random() >= 0.3 for _ in range(40)], "left out by chance", scale))
    finally:
        random.setstate(state)
    found.append(same(set(kept), {True, False}, "and not always", scale))
    return found


class _Thrice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 3 * x


def _hooks(scale: float) -> list[Comparison]:
    """Hooks see calls of their own thread alone, when told so also those that fail, and are gone afterwards."""
    found: list[Comparison] = []
    part, seen = nn.Linear(2, 2), list[str]()
    for always in (False, True):
        seen.clear()
        with hooked(
            [(part, lambda *_: seen.append("before"))], [(part, lambda *_: seen.append("after"))], always=always
        ):
            part(torch.ones(1, 2))
            other = threading.Thread(target=part, args=(torch.ones(1, 2),))
            other.start()
            other.join()
            with contextlib.suppress(RuntimeError):
                part(torch.ones(1, 3))
        part(torch.ones(1, 2))
        wanted = ["before", "after", "before", *["after"] * always]
        found.append(same(seen, wanted, f"what hooks see, always {always}", scale))
        left = [len(table) for table in (part._forward_hooks, part._forward_pre_hooks)]
        found.append(same(left, [0, 0], "none is left", scale))
    return found


def _first_of(seed: int) -> float:
    return float(torch.rand((), generator=torch.Generator().manual_seed(seed)))
