"""What claims on the reading of modules compare: heads, sites, what draws for itself, places of examples."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.predictions.running_checks import parts, runs, structures
from droptics.papers.droptics_own.predictions.stack_checks import written_modules
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, tensor
from droptics.penalties import ClosedForm, MonteCarlo
from droptics.predictions import predictive
from droptics.predictions.modules import ModuleSite, _alike, _axis, read_module


@torch.no_grad()
def modules_read(scale: float) -> list[Comparison]:
    """Heads that are confirmed or not, sites of modules of every kind, runs with given masks, shapes, code."""
    return [
        *_heads(scale),
        *_sites(scale),
        *_layers(scale),
        *_shapes(scale),
        *_put_back(scale),
        *runs(scale),
        *parts(scale),
        *structures(scale),
        *written_modules(scale),
    ]


class Headed(nn.Module):
    """Dropout before a last layer whose weights are computed, or whose outputs are written to."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.first, self.last, self.drop, self.kind = linear_head(1, 3, 4), linear_head(3, 4, 2), nn.Dropout(0.3), kind

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.drop(torch.tanh(self.first(inputs)))
        weight = self.last.weight if self.kind in ("plain", "rectified", "doubled") else self.last.weight * 2
        bias = None if self.kind == "bare" else self.last.bias
        if self.kind == "doubled":
            hidden.mul_(2.0)
        outputs = functional.linear(hidden, weight, bias)
        return outputs.relu_() if self.kind == "rectified" else outputs

    def masked(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Outputs with given multipliers."""
        hidden = torch.tanh(self.first(inputs)) * mask * (2 if self.kind == "doubled" else 1)
        weight = self.last.weight * (2 if self.kind in ("computed", "bare") else 1)
        outputs = hidden @ weight.mT + (0 if self.kind == "bare" else self.last.bias)
        return outputs.relu() if self.kind == "rectified" else outputs


def _heads(scale: float) -> list[Comparison]:
    """A head is integrated where a mask moves the outputs as its weights say, else all masks are summed."""
    found: list[Comparison] = []
    kept, chances = every_coin([0.3] * 4)
    closed = "closed form: only drop, before the last layer, is random"
    summed = "exact sum over 16 early masks"
    for kind, words in (
        ("plain", closed),
        ("computed", closed),
        ("bare", closed),
        ("rectified", summed),
        ("doubled", closed),
    ):
        for count in (1, 2, 5):
            module, inputs = Headed(kind), normal(2, count, 3)
            outputs = torch.stack([module.masked(inputs, mask / 0.7) for mask in kept])
            mean = torch.tensordot(chances, outputs, 1)
            variance = torch.tensordot(chances, (outputs - mean).square(), 1)
            told = predictive(module, inputs)
            name = f"{kind}, {count} examples"
            found.append(compare(told.mean.value, "==", scale * mean, f"mean, {name}"))
            found.append(compare(told.variance.value, "==", scale * variance, f"variance, {name}"))
            found.append(compare(told.std, "==", scale * variance.sqrt(), f"deviation, {name}"))
            found.append(same((told.mean.method, told.variance.method), (words, words), f"words, {name}", scale))
            read = read_module(module, inputs)
            (site,) = read.sites
            named = (site.name, site.rate, site.shape, site.axis, site.units, read.head, read.drawing, read.certain)
            wanted = ("drop", 0.3, (4,), 0, 4, words == closed, (), True)
            found.append(same(named, wanted, f"its site, {name}", scale))
            found.append(same(len(read.early), int(words == summed), f"early sites, {name}", scale))
            quiet = module.masked(inputs, torch.ones(4).double())
            found.append(compare(read.plain().center, "==", scale * quiet, f"without masks, {name}"))
    return found


class Kinds(nn.Module):
    """Modules of many kinds, by name."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.head, self.drop = kind, linear_head(5, 4, 2), nn.Dropout(0.25)
        self.conv, self.maps, self.alpha = nn.Conv1d(1, 2, 3).double(), nn.Dropout1d(0.5), nn.AlphaDropout(0.2)

    def forward(self, inputs: Tensor) -> Any:  # a branch for every kind  # noqa: PLR0911
        kind, hidden = self.kind, torch.tanh(inputs)
        if kind == "channels":
            return self.head(self.maps(self.conv(inputs[:, None, :])).flatten(1))
        if kind == "turned":
            return self.head(self.drop(hidden.mT).mT + hidden)
        if kind == "heads":  # two rows of an example side by side
            return self.head(self.drop(hidden.reshape(-1, 2)).reshape(-1, 4).tanh())
        if kind == "alpha":
            return self.head(self.alpha(hidden))
        if kind == "by hand":
            return self.head(hidden * (torch.rand_like(hidden) > 0.5))
        if kind == "mixing":
            return self.head(self.drop(hidden) - self.drop(hidden).mean(0)).tanh()
        if kind == "telling":
            dropped = self.drop(hidden)
            return self.head(dropped if float(dropped.sum()) > -1e9 else hidden)
        if kind == "telling of many":
            dropped = self.drop(hidden)
            return self.head(dropped if len(inputs) < 4 or float(dropped.sum()) > -1e9 else hidden)
        if kind == "twice":
            return self.head(self.drop(self.drop(hidden).tanh()))
        if kind == "whole":
            return self.head(self.drop(hidden.mean(0)) + hidden)
        if kind == "none":
            return self.head(hidden)
        return {"extra": hidden, "logits": self.head(self.drop(hidden)).tanh()}


def _sites(scale: float) -> list[Comparison]:
    """Where masks can be given, with their shapes and places; what draws for itself; what is left alone."""
    found: list[Comparison] = []
    inputs = normal(4, 5, 4)
    for kind, sites, head, drawing, certain in (
        ("channels", [("maps", 0.5, (2, 1), 0)], False, (), True),
        ("turned", [("drop", 0.25, (4,), 1)], False, (), True),
        ("heads", [("drop", 0.25, (2, 2), 0)], False, (), True),
        ("alpha", [], False, ("alpha",), True),
        ("by hand", [], False, (), False),
        ("mixing", [], False, ("drop", "drop@2"), True),
        ("telling", [], False, ("drop",), True),
        ("telling of many", [], False, ("drop",), True),
        ("twice", [("drop", 0.25, (4,), 0), ("drop@2", 0.25, (4,), 0)], True, (), True),
        ("whole", [], False, ("drop",), True),
        ("none", [], False, (), True),
        ("mapped", [("drop", 0.25, (4,), 0)], False, (), True),
    ):
        read = read_module(Kinds(kind), inputs)
        told = [(site.name, site.rate, site.shape, site.axis) for site in read.sites]
        found.append(same((told, read.head), (sites, head), f"sites, {kind}", scale))
        found.append(same((read.drawing, read.certain), (drawing, certain), f"drawing, {kind}", scale))
        alone = read.left_alone()
        rest = (alone.sites, alone.head, alone.drawing, alone.frozen)
        found.append(same(rest, ((), False, ("dropout",), ()), f"left alone, {kind}", scale))
        few = MonteCarlo(8, seed=3)
        words = predictive(Kinds(kind), inputs, None, few).mean.method
        if kind in ("alpha", "by hand", "mixing", "telling", "telling of many", "whole"):
            found.append(same(words.startswith("Monte Carlo, 8 masks, no control"), True, f"drawn, {kind}", scale))
            text = f"besides its head this module is random at {', '.join(drawing) or 'masks written by hand'}, more"
            found.append(refuses(lambda kind=kind: predictive(Kinds(kind), inputs), text, f"listed, {kind}"))
    found.append(same(predictive(Kinds("none"), inputs).mean.method, "closed form: nothing is random", "none", scale))
    kept, chances = every_coin([0.25] * 8)
    module = Kinds("twice")
    first, second = (kept / 0.75).split(4, 1)
    hidden = torch.tanh(torch.tanh(inputs) * first[:, None]) * second[:, None]
    outputs = module.head(hidden)
    mean = torch.tensordot(chances, outputs, 1)
    answer = predictive(module, inputs)
    found.append(compare(answer.mean.value, "==", scale * mean, "two sites"))
    spread = torch.tensordot(chances, (outputs - mean).square(), 1)
    found.append(compare(answer.variance.value, "==", scale * spread, "their spread"))
    found.append(same(answer.mean.method, "exact sum over 16 early masks, last site integrated", "their words", scale))
    one = read_module(module, inputs).outputs(torch.ones(3, 1, 4).double() * tensor([1.0, 0.5, 2.0])[:, None, None])
    for row, factor in enumerate((1.0, 0.5, 2.0)):
        wanted = module.head(torch.tanh(torch.tanh(inputs) * factor))
        found.append(compare(one.center[row], "==", scale * wanted, f"given multipliers of {factor}"))
    return found


class Within(nn.Module):
    """Sequences of two vectors in a layer that drops inside, on four numbers at a rate of .3."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.head = kind, linear_head(5, 2, 2)
        self.layer = {"recurrent": nn.RNN, "gated": nn.GRU, "long": nn.LSTM}.get(kind, nn.Identity)(
            2, 2, 2, dropout=0.3, batch_first=True
        )
        if kind == "heads":
            self.layer = nn.MultiheadAttention(2, 1, 0.3, batch_first=True)
        self.layer.double()
        for seed, parameter in enumerate(self.layer.parameters()):
            parameter.copy_(normal(seed, *parameter.shape))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.kind == "attention":
            hidden = functional.scaled_dot_product_attention(inputs, inputs, inputs, dropout_p=0.3)
        else:
            hidden = self.layer(*[inputs] * (3 if self.kind == "heads" else 1))[0]
        return self.head(hidden[:, -1]).tanh()

    def masked(self, inputs: Tensor, masks: Tensor) -> Tensor:
        """Outputs with multipliers of the first layer's outputs, or of the weights of attention, mask by mask."""
        masks = masks.reshape(-1, 1, 2, 2)
        if self.kind in ("attention", "heads"):
            q, k, v = inputs, inputs, inputs
            if self.kind == "heads":
                q, k, v = functional.linear(inputs, self.layer.in_proj_weight, self.layer.in_proj_bias).chunk(3, -1)
            hidden = torch.softmax(q @ k.mT / 2**0.5, -1) * masks @ v
            hidden = self.layer.out_proj(hidden) if self.kind == "heads" else hidden
        else:
            first, second = (self._alone(number) for number in range(2))
            hidden = torch.stack([second(first(inputs)[0] * mask)[0] for mask in masks])
        return self.head(hidden[..., -1, :]).tanh()

    def _alone(self, number: int) -> nn.Module:
        """One layer of the stack."""
        layer = type(self.layer)(2, 2, batch_first=True).double()
        for name, parameter in layer.named_parameters():
            parameter.copy_(getattr(self.layer, name.replace("_l0", f"_l{number}")))
        return layer


def _layers(scale: float) -> list[Comparison]:
    """Layers of torch's own that drop inside: recurrent stacks and attention, by all masks."""
    found: list[Comparison] = []
    kept, chances = every_coin([0.3] * 4)
    for kind, name in (
        ("recurrent", "layer.RNN_dropout"),
        ("gated", "layer.GRU_dropout"),
        ("long", "layer.LSTM_dropout"),
        ("heads", "layer.attention_dropout"),
        ("attention", "attention_dropout"),
    ):
        module, inputs = Within(kind), normal(7, 3, 2, 2)
        outputs = module.masked(inputs, kept / 0.7)
        mean = torch.tensordot(chances, outputs, 1)
        variance = torch.tensordot(chances, (outputs - mean).square(), 1)
        told = predictive(module, inputs)
        found.append(compare(told.mean.value, "==", scale * mean, f"mean, {kind}"))
        found.append(compare(told.variance.value, "==", scale * variance, f"variance, {kind}"))
        sites = [(site.name, site.rate, site.units) for site in read_module(module, inputs).sites]
        found.append(same(sites, [(name, 0.3, 4)], f"its site, {kind}", scale))
    return found + _packed(scale)


class Packed(nn.Module):
    """Packed sequences in a recurrent layer."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.head, self.layer = linear_head(5, 2, 2), nn.GRU(2, 2, 2, dropout=rate, batch_first=True).double()
        for seed, parameter in enumerate(self.layer.parameters()):
            parameter.copy_(normal(seed, *parameter.shape))

    def forward(self, inputs: Tensor) -> Tensor:
        lengths = torch.arange(len(inputs)) % 2 + 1
        packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        return self.head(pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0][:, 0]).tanh()


def _packed(scale: float) -> list[Comparison]:
    """Packed sequences cannot be given masks: their layers are known to draw, and are still where nothing drops."""
    found: list[Comparison] = []
    inputs = normal(7, 5, 2, 2)
    for rate in (0.3, 0.0):
        module = Packed(rate).eval()
        read, name = read_module(module, inputs), f"packed, rate {rate}"
        found.append(same((read.sites, read.head), ((), False), f"sites, {name}", scale))
        drawing = ("layer.GRU_dropout",) if rate else ()
        found.append(same((read.drawing, read.certain), (drawing, True), f"drawing, {name}", scale))
        found.append(compare(read.plain().center, "==", scale * module(inputs), f"without masks, {name}"))
        told = predictive(module, inputs, None, MonteCarlo(16, seed=3))
        spread = float(told.variance.value.max())
        found.append(same(spread > 0, rate > 0, f"spread, {name}", scale))
    return found


class Stopping(nn.Module):
    """Batch norm and dropout; answers, or ends in an error after both have run.

    It writes to its inputs, and puts other counts in the place of one that it keeps.
    """

    def __init__(self, stops: bool) -> None:
        super().__init__()
        self.norm, self.drop, self.head = nn.BatchNorm1d(4).double(), nn.Dropout(0.3), linear_head(5, 4, 2)
        self.stops = stops
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, inputs: Tensor) -> Tensor:
        self.seen: Tensor = self.seen + 1
        hidden = self.drop(self.norm(inputs.add_(1)))
        if self.stops:
            raise ValueError("stopped")
        return self.head(hidden)


def _others() -> tuple[object, ...]:
    """Where the generators of Python and NumPy stand."""
    arrays: Any = np.random.get_state()  # noqa: NPY002 - what modules draw from
    return random.getstate(), arrays[1].tolist(), arrays[2]


def _put_back(scale: float) -> list[Comparison]:
    """Modes, parameters, buffers, hooks, forwards, inputs and random numbers after an answer and after an error."""
    found: list[Comparison] = []
    inputs, before_all = normal(4, 5, 4), (random.getstate(), np.random.get_state())  # noqa: NPY002 - put back below
    ways: tuple[ClosedForm | MonteCarlo, ...] = (ClosedForm(), MonteCarlo(8, seed=3))
    for stops, method in itertools.product((False, True), ways):
        module = Stopping(stops).train()
        module.drop.eval()
        before = {name: value.clone() for name, value in module.state_dict().items()}
        random.random(), np.random.random_sample()  # noqa: NPY002 - no state that a seed leaves
        state, others = torch.get_rng_state(), _others()
        told = f"{method}, {'an error' if stops else 'an answer'}"
        try:
            predictive(module, inputs, None, method)
            failed = False
        except ValueError:
            failed = True
        found.append(same(failed, stops, told, scale))
        flags = [part.training for part in module.modules()]
        found.append(same(flags, [True, True, False, True], f"modes, {told}", scale))
        alike = all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
        found.append(same(alike, True, f"parameters and buffers, {told}", scale))
        left = [p for p in module.modules() if p._forward_hooks or p._forward_pre_hooks or "forward" in vars(p)]
        found.append(same(left, [], f"hooks and forwards, {told}", scale))
        found.append(same(torch.equal(state, torch.get_rng_state()), True, f"nothing drawn, {told}", scale))
        found.append(same(_others(), others, f"nor of others, {told}", scale))
        found.append(compare(inputs, "==", normal(4, 5, 4), f"inputs, {told}"))
    random.setstate(before_all[0])
    np.random.set_state(before_all[1])  # noqa: NPY002
    return found


def _shapes(scale: float) -> list[Comparison]:
    """Which dimension holds the examples; multipliers in the shape of what they mask; when two runs agree."""
    found: list[Comparison] = []
    for narrow, wide, few, many, place in (
        ((2, 4), (5, 4), 2, 5, (0, 1)),
        ((4, 2), (4, 5), 2, 5, (1, 1)),
        ((6, 4), (15, 4), 2, 5, (0, 3)),
        ((4, 6), (4, 15), 2, 5, None),
        ((2, 2), (5, 5), 2, 5, None),
        ((2, 4), (2, 4), 2, 5, None),
        ((2, 4), (5, 4, 1), 2, 5, None),
        ((3, 4), (7, 4), 2, 5, None),
        ((2, 4), (6, 4), 2, 5, None),
    ):
        found.append(same(_axis(narrow, wide, few, many), place, f"examples of {narrow} and {wide}", scale))
    for shape, axis, like in (((4,), 0, (3, 4)), ((4,), 1, (4, 3)), ((2, 1), 0, (3, 2, 7)), ((2, 3), 0, (6, 3))):
        site = ModuleSite("a", 0.5, shape, axis)
        rows = normal(1, 3, math.prod(shape))
        told = site.spread(rows, torch.zeros(like))
        wanted = rows.reshape(3, *shape).movedim(0, axis)
        wanted = wanted.reshape(6, 3) if like == (6, 3) else wanted
        found.append(compare(told, "==", scale * wanted, f"spread over {like}"))
        found.append(same((site.units, told.ndim), (math.prod(shape), len(like)), f"units of {shape}", scale))
    values = normal(2, 4, 2)
    top, level = float(values.abs().max()), 0.1 * torch.finfo(torch.float64).eps ** 0.5
    for factor, alike in ((0.9, True), (1.1, False), (-0.9, True), (-1.1, False)):
        moved = values.clone()
        moved[1, 0] += factor * level * top
        found.append(same(_alike(moved, values), alike, f"alike, {factor}", scale))
    found.append(same((_alike(values[:2], values), _alike(values, values[:3])), (True, True), "as far as both", scale))
    large, moved = torch.cat([values[:2], 1e9 * values[2:]]), values[:2].clone()
    moved[1, 0] += 2 * level * float(values[:2].abs().max())
    agreed = [_alike(*pair) for pair in ((values[:2], large), (moved, large), (large, moved))]
    found.append(same(agreed, [True, False, False], "on the scale of what both have", scale))
    return found
