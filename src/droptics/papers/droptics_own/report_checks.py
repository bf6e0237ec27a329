"""What more claims on audits compare: planted mistakes, data and losses in every form, what a report says of itself."""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from droptics.audits import Report, audit, audit_numbers, huggingface_callback, lightning_callback
from droptics.audits.control import Guess, share_out
from droptics.audits.digest import groups, heat_map, largest, number_text
from droptics.audits.drawing import ticks
from droptics.audits.html import pictures
from droptics.audits.labels import compact
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.audit_checks import every_coin, every_mask, mean_over, squared, stack
from droptics.papers.droptics_own.small_room_checks import linear_head
from droptics.papers.instances import normal, sample, tensor


class Planted(nn.Module):
    """A small network with dropout of one kind in its middle."""

    def __init__(self, kind: str, part: nn.Module | None = None) -> None:
        super().__init__()
        self.kind, self.part = kind, nn.Identity() if part is None else part
        self.first, self.last = linear_head(1, 3, 6), linear_head(3, 6, 2)
        self.p = 0.5

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(inputs))
        match self.kind:
            case "idle":
                pass
            case "always":
                hidden = functional.dropout(hidden, 0.4)
            case "unused":
                self.part(hidden)
            case "flat":
                hidden = self.part(hidden.unsqueeze(0)).squeeze(0)
            case "again":
                hidden = checkpoint(self.part, hidden, use_reentrant=False, preserve_rng_state=False)
            case "nan":
                hidden = self.part(hidden) * float("nan")
            case _:
                hidden = self.part(hidden)
        return self.last(hidden)


class OwnMask(nn.Module):
    """A mask written by hand."""

    def __init__(self, factor: float, always: bool = False) -> None:
        super().__init__()
        self.factor, self.always = factor, always

    def forward(self, value: Tensor) -> Tensor:
        return value * (torch.rand_like(value) > 0.5) * self.factor if self.always or self.training else value


class DropPath(nn.Module):
    """Stochastic depth that forgets to drop, or drops at another rate than it says."""

    def __init__(self, rate: float, real: float = 0.0) -> None:
        super().__init__()
        self.drop_prob, self.real = rate, real

    def forward(self, value: Tensor) -> Tensor:
        if not self.training or self.real == 0:
            return value
        keep = torch.rand(len(value), *(1,) * (value.ndim - 1)) >= self.real
        return value * keep / (1 - self.real)


class Stuck(nn.Dropout):
    """A layer that stays in training mode."""

    def forward(self, value: Tensor) -> Tensor:
        return functional.dropout(value, self.p, True)


class Recurrent(nn.Module):
    """One recurrent layer whose dropout has nothing to act between."""

    def __init__(self) -> None:
        super().__init__()
        with_note: dict[str, Any] = {"num_layers": 2, "dropout": 0.3}
        self.inner = nn.GRU(3, 4, **with_note, batch_first=True).double()
        self.inner.num_layers = 2
        self.head = linear_head(5, 4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.inner(inputs.unsqueeze(1))[0][:, -1])


class Maps(nn.Module):
    """A convolution with dropout behind it."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.inner, self.part = nn.Conv2d(1, 3, 2).double(), part
        self.head = linear_head(7, 12, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.part(self.inner(inputs)).flatten(1))


class Tokens(nn.Module):
    """Outputs for every position, and a loss of its own."""

    def __init__(self, shift: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.table, self.drop = nn.Embedding(7, 4).double(), nn.Dropout(0.3)
        self.head, self.shift = linear_head(9, 4, 7), shift

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None) -> Any:
        logits = self.head(self.drop(self.table(ids)))
        if labels is None:
            return {"logits": logits}
        scored, wanted = (logits[:, :-1], labels[:, 1:]) if self.shift else (logits, labels)
        return {"loss": functional.cross_entropy(scored.flatten(0, 1), wanted.flatten()), "logits": logits}


def _codes(report: Report) -> list[tuple[str, str]]:
    return [(item.code, item.site) for item in report.findings]


def planted_mistakes(scale: float) -> list[Comparison]:
    """Each planted mistake is found at its place under its code, once, and a sound network has none of them."""
    found: list[Comparison] = []
    data = Sample(normal(1, 64, 3), normal(2, 64, 2))
    images = Sample(normal(3, 32, 1, 3, 3), normal(4, 32, 2))
    ids = torch.arange(40).reshape(8, 5) % 7
    masks = (torch.arange(5) < 3).long().expand(8, 5)
    padded: Any = [{"ids": ids, "attention_mask": masks, "labels": (ids + 1) % 7}]
    masked_labels: Any = [
        {"ids": ids, "attention_mask": masks, "labels": ((ids + 1) % 7).masked_fill(masks == 0, -100)}
    ]
    dead: Any = stack((3, 5, 2), (0.3,), nn.ReLU)
    with torch.no_grad():
        dead[0].weight[1], dead[0].bias[1] = 0.0, -1.0
    shifted = nn.Sequential(nn.Dropout(0.5), linear_head(1, 3, 6), nn.BatchNorm1d(6).double(), linear_head(3, 6, 2))
    none = ("DR003", "the network")
    cases: tuple[tuple[str, nn.Module, Any, Sequence[tuple[str, str]]], ...] = (
        ("sound", Planted("part", nn.Dropout(0.3)), data, ()),
        ("never runs", Planted("idle", nn.Dropout(0.3)), data, [("DR101", "part"), none]),
        ("rate zero", Planted("part", nn.Dropout(0.0)), data, [("DR104", "part"), none]),
        ("stuck", Planted("part", Stuck(0.3)), data, [("DR201", "part")]),
        ("functional", Planted("always"), data, [("DR202", "dropout")]),
        ("own mask", Planted("part", OwnMask(2.0, True)), data, [("DR204", "part")]),
        ("not rescaled", Planted("part", OwnMask(1.0)), data, [("DR302", "part")]),
        ("own is sound", Planted("part", OwnMask(2.0)), data, ()),
        ("other rate", Planted("part", DropPath(0.1, 0.6)), data, [("DR301", "part")]),
        ("forgotten", Planted("part", DropPath(0.2)), data, [("DR103", "part"), none]),
        ("forgotten call", Planted("idle", DropPath(0.2)), data, [("DR103", "part"), none]),
        ("flat", Planted("flat", nn.Dropout1d(0.3)), data, ()),
        ("pixels", Maps(nn.Dropout(0.3)), images, [("DR304", "part")]),
        ("maps", Maps(nn.Dropout2d(0.3)), images, ()),
        ("everything", Planted("part", nn.Dropout(1.0)), data, [("DR305", "part")]),
        (
            "recomputed",
            Planted("again", nn.Sequential(linear_head(5, 6, 6), nn.Tanh(), nn.Dropout(0.4))).requires_grad_(),
            data,
            [("DR402", "part.2")],
        ),
        ("unused", Planted("unused", nn.Dropout(0.4)), data, [("DR105", "part")]),
        ("nan", Planted("nan", nn.Dropout(0.4)), data, [("DR001", "the network")]),
        ("padding", Tokens(), padded, [("DR002", "the loss")]),
        ("padding left out", Tokens(), masked_labels, ()),
        ("shifted", shifted, data, [("DR401", "2")]),
        ("dead", dead, data, [("DR504", "2")]),
    )
    watched = {"DR001", "DR002", "DR003", "DR105", "DR401", "DR504"} | {
        f"DR{k}0{i}" for k in (1, 2, 3) for i in range(1, 6)
    }
    watched |= {"DR402"}
    for name, module, known, wanted in cases:
        report = audit(module, known, rates=(), budget=12)
        told = [(code, site) for code, site in _codes(report) if code in watched]
        hits = sum(any(code == one and place in site for one, site in told) for code, place in wanted)
        found.append(
            compare(len(told), "==", scale * len(wanted) if wanted else len(wanted), f"findings, {name}: {told}")
        )
        found.append(compare(hits, "==", len(wanted), f"the planted ones, {name}: {told}"))
    report = audit(shifted, data, rates=(), budget=12)
    (text,) = [item.text for item in report.findings if item.code == "DR401"]
    share = float(re.findall(r"is ([\d.]+) times", text)[0])
    first = shifted[1]
    assert isinstance(first, nn.Linear)
    clean = (data.inputs @ first.weight.mT).var(0)
    noisy = clean + (data.inputs.square().mean(0) * first.weight.square()).sum(
        1
    )  # rate 1/2: the multiplier has variance 1
    ratio = float((noisy / clean).median())
    # 64 examples: five standard errors of a variance
    found.append(compare(math.log(share), "==", math.log(ratio), "size of the shift", precision=5 * (2 / 64) ** 0.5))
    helped: Any = stack((2, 3, 1), (0.5,), nn.ReLU)
    with torch.no_grad():
        helped[0].weight.copy_(tensor([[1.0, 0], [0, 1.0], [1.0, 1.0]]))
    wary = audit(
        helped, Sample(normal(5, 16, 2), normal(6, 16, 1)), validation=Sample(normal(7, 9, 2), 3 * normal(8, 9, 1))
    )
    codes = {item.code for item in wary.findings}
    with torch.no_grad():
        clean_loss = float((helped.eval()(normal(7, 9, 2)) - 3 * normal(8, 9, 1)).square().sum(1).mean())
    found.append(compare(wary.validation_loss or 0.0, "==", scale * clean_loss, "validation loss"))
    gap = wary.validation_loss is not None and wary.validation_loss > wary.clean_loss
    above = wary.validation_loss is not None and wary.training_loss.lower > wary.validation_loss
    found.append(compare(float("DR502" in codes), "==", float(gap and not above), "a gap is told"))
    found.append(
        compare(float("DR501" in codes), "==", float(above and wary.training_loss.lower > wary.clean_loss), "above")
    )
    return found


def read_data(scale: float) -> list[Comparison]:
    """Losses of data in every form, tokens with shifted, smoothed and left-out labels included, are torch's own."""
    found: list[Comparison] = []
    module, data = stack((3, 4, 2), (0.3,), nn.Tanh), sample(5, 10, 3, 2)
    outputs, chances = every_mask(module, data.inputs, {2: 0.3})
    module.eval()
    with torch.no_grad():
        clean = squared(data.targets)(module(data.inputs))
        whole = mean_over((outputs, chances), squared(data.targets))
    pairs = list(zip(data.inputs, data.targets, strict=True))
    forms: dict[str, Any] = {
        "sample": data,
        "pair": (data.inputs, data.targets),
        "loader": DataLoader(TensorDataset(data.inputs, data.targets), batch_size=4),
        "set": TensorDataset(data.inputs, data.targets),
        "batches": [(data.inputs[:6], data.targets[:6]), (data.inputs[6:], data.targets[6:])],
        "dictionaries": [
            {"inputs": data.inputs[:3], "targets": data.targets[:3]},
            {"input": data.inputs[3:], "y": data.targets[3:]},
        ],
    }
    assert len(pairs) == 10

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = module

        def forward(self, input: Tensor | None = None, inputs: Tensor | None = None) -> Tensor:
            given = input if inputs is None else inputs
            assert given is not None
            return self.body(given)

    for name, form in forms.items():
        report = audit(Named() if name == "dictionaries" else module, form, rates=(), batch_size=4)
        found.append(compare(report.clean_loss, "==", scale * clean, f"loss of a {name}"))
        found.append(compare(report.training_loss.value, "==", scale * whole, f"training loss of a {name}"))
        found.append(compare(report.examples, "==", 10, f"examples of a {name}"))
    labels = torch.arange(10) % 2
    singles = [(row, int(label)) for row, label in zip(data.inputs, labels, strict=True)]
    logits = module(data.inputs).detach()
    signs = torch.where(labels > 0, 1.0, -1.0).double()
    margin = stack((3, 4, 1), (0.3,), nn.Tanh).eval()
    score = margin(data.inputs).detach()
    per_class: dict[str, tuple[nn.Module, Any, Any, Tensor]] = {
        "single examples": (module, singles, None, functional.cross_entropy(logits, labels)),
        "smoothed": (
            module,
            (data.inputs, labels),
            nn.CrossEntropyLoss(label_smoothing=0.2),
            functional.cross_entropy(logits, labels, label_smoothing=0.2),
        ),
        "weighed": (
            module,
            (data.inputs, labels),
            nn.CrossEntropyLoss(weight=tensor([0.3, 0.7])),
            functional.cross_entropy(logits, labels, weight=tensor([0.3, 0.7])),
        ),
        "function": (module, (data.inputs, labels), functional.cross_entropy, functional.cross_entropy(logits, labels)),
        "mean squares": (module, data, nn.MSELoss(), functional.mse_loss(logits, data.targets)),
        "absolute": (module, data, nn.L1Loss(), functional.l1_loss(logits, data.targets)),
        "by name": (margin, (data.inputs, signs), "logistic", functional.softplus(-score[:, 0] * signs).mean()),
        "of one's own": (
            module,
            data,
            lambda out, y: (out - y).abs().pow(1.5).mean(),
            (logits - data.targets).abs().pow(1.5).mean(),
        ),
    }
    for name, (net, known, loss, wanted) in per_class.items():
        report = audit(net, known, loss, rates=(), budget=8)
        found.append(compare(report.clean_loss, "==", scale * wanted, f"loss, {name}"))
    right = (logits.argmax(1) == labels).double().mean()
    told = audit(module, (data.inputs, labels), rates=())
    found.append(compare(told.accuracy or 0.0, "==", scale * right, "accuracy"))
    told = audit(margin, (data.inputs, signs), "logistic", rates=())
    found.append(compare(told.accuracy or 0.0, "==", scale * (score[:, 0].sign() == signs).double().mean(), "of signs"))
    ids = torch.arange(30).reshape(6, 5) % 7
    wanted_ids = ((3 * ids + 1) % 7).clone()
    wanted_ids[2, 3] = wanted_ids[4, 0] = -100
    for shift in (False, True):
        tokens = Tokens(shift).eval()
        with torch.no_grad():
            own = tokens(ids, labels=wanted_ids)["loss"]
            hidden = tokens.table(ids)
            kept, odds = every_coin([0.3] * 4)
            masked = tokens.head(hidden[None] * (kept / 0.7)[:, None, None, :])
            scored, goal = (masked[:, :, :-1], wanted_ids[:, 1:]) if shift else (masked, wanted_ids)
            each = functional.cross_entropy(
                scored.flatten(0, 2), goal.expand(len(kept), *goal.shape).flatten(), reduction="none", ignore_index=-100
            ).reshape(len(kept), -1)
            truth = (odds @ each).sum() / (goal != -100).sum()
        for loss in (None, "model"):
            report = audit(tokens, [{"ids": ids, "labels": wanted_ids}], loss, rates=(), budget=40)
            found.append(compare(report.clean_loss, "==", scale * own, f"own loss of tokens, shift {shift}, {loss}"))
            low, high = report.training_loss.lower, report.training_loss.upper
            spread = 2 * (high - low)  # a 99 % interval, three times as wide
            found.append(compare(low - spread, "<=", truth, f"tokens under masks from below, {shift}, {loss}"))
            found.append(compare(high + spread, ">=", truth, f"tokens under masks from above, {shift}, {loss}"))
    return found


def _narrow() -> Report:
    """The report of a head behind one site."""
    return audit(stack((3, 5, 2), (0.3,), nn.ReLU), sample(5, 24, 3, 2), rates=(0.2, 0.6), uncertainty=True)


def told_reports(scale: float) -> list[Comparison]:
    """A report is what its JSON restores; its tables show its numbers, and the sums of its groups."""
    found: list[Comparison] = []
    blocks = [nn.ModuleDict({"a": nn.Dropout(0.1 + 0.01 * i), "b": nn.Dropout(0.2)}) for i in range(8)]

    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.ModuleList(blocks)
            self.first, self.last = linear_head(1, 3, 4), linear_head(3, 4, 2)

        def forward(self, inputs: Tensor) -> Tensor:
            hidden = self.first(inputs)
            for block in blocks:
                hidden = block["b"](torch.tanh(block["a"](hidden)))
            return self.last(hidden)

    module, data = Deep(), sample(2, 20, 3, 2)
    report = audit(module, data, rates=(0.3, 0.5), budget=60)
    for name, one in (("deep", report), ("narrow", _narrow())):
        again = Report.from_json(one.to_json())
        found.append(compare(float(again.to_dict() == json.loads(one.to_json())), "==", scale, f"restored, {name}"))
        for mine, theirs in zip(again.sites, one.sites, strict=True):
            if mine.penalty is not None and theirs.penalty is not None:
                found.append(
                    compare(mine.penalty.value, "==", scale * theirs.penalty.value, f"penalty restored, {name}")
                )
    content = report.to_dict()
    values = {item.site.name: item.penalty for item in report.sites}
    for group in groups(content):
        parts = [part for name in group.names if (part := values[name]) is not None]
        total = math.fsum(part.value for part in parts)
        half = math.sqrt(math.fsum(((part.upper - part.lower) / 2) ** 2 for part in parts))
        assert group.penalty is not None
        found.append(compare(group.penalty["value"], "==", scale * total, f"sum of {group.place}"))
        found.append(compare(group.penalty["upper"] - group.penalty["lower"], "==", scale * 2 * half, "its width"))
        shares = sum(item.share or 0.0 for item in report.sites if item.site.name in group.names)
        found.append(compare(group.share or 0.0, "==", scale * shares, f"share of {group.place}"))
        text = number_text(group.penalty)
        found.append(compare(float(text in re.sub(r"\s+", " ", report.text(400))), "==", scale, f"{text} in the table"))
    heat = heat_map(content)
    assert heat is not None
    found.append(
        compare(heat.most, "==", scale * max(abs(part.value) for part in values.values() if part), "largest cell")
    )
    found.append(compare([len(heat.layers), len(heat.places)], "==", [8 * scale, 2 * scale], "layers and places"))
    for layer, row in zip(heat.layers, heat.cells, strict=True):
        for place, cell in zip(heat.places, row, strict=True):
            assert cell is not None
            number = values[f"layer.{layer}.{place.rpartition('.')[2]}"]
            assert number is not None
            found.append(compare(cell["penalty"]["value"], "==", scale * number.value, f"cell {layer} {place}"))
    sizes = sorted((abs(part.value) for part in values.values() if part), reverse=True)[:5]
    told = [abs(item["penalty"]["value"]) for item in largest(content, 5)]
    found.append(compare(told, "==", [scale * size for size in sizes], "largest sites"))
    return found


def drawn_reports(scale: float) -> list[Comparison]:
    """Pictures and pages of a report show its own numbers in their places."""
    found: list[Comparison] = []
    narrow = _narrow()
    (site,) = narrow.sites
    drawn = dict(pictures(narrow.to_dict()["sites"][0], narrow.to_dict()))
    assert site.units is not None
    assert site.rate_choice is not None
    assert site.spectrum is not None
    with tempfile.TemporaryDirectory() as folder:
        page = narrow.to_html(Path(folder) / "narrow.html").read_text(encoding="utf-8")
    words = {
        "flows": f"in decreasing order, from {max(site.units.flows):.3g} to {min(site.units.flows):.3g}",
        "spectrum": f"this network {site.spectrum.measured[0]:.3g}, dropout optimum {site.spectrum.optimal[0]:.3g}",
        "rates": f"least at rate {site.rate_choice.best:g}",
        "curve": ", ".join(f"{point.training_loss:.4g} at {point.rate:g}" for point in site.curve),
    }
    for name, wanted in words.items():
        found.append(compare(float(any(wanted in one for one in drawn.values())), "==", scale, f"{name} drawn"))
        found.append(compare(float(wanted in page), "==", scale, f"{name} on the page"))
    curve = next(one for caption, one in drawn.items() if caption.startswith("Error of"))
    points = [tuple(map(float, pair.split(","))) for pair in re.findall(r'polyline points="([^"]*)"', curve)[0].split()]
    rates, errors = list(site.rate_choice.rates), list(site.rate_choice.errors)
    across = [(x - points[0][0]) / (points[-1][0] - points[0][0]) for x, _ in points]
    wanted_across = [(rate - rates[0]) / (rates[-1] - rates[0]) for rate in rates]
    found.append(compare(across, "==", [scale * one for one in wanted_across], "places of the points", precision=2e-3))
    best, worst = (sorted(range(len(errors)), key=lambda i: errors[i])[k] for k in (0, -1))
    up = [(points[best][1] - y) / (points[best][1] - points[worst][1]) for _, y in points]
    wanted_up = [(error - errors[best]) / (errors[worst] - errors[best]) for error in errors]
    found.append(compare(up, "==", [scale * one for one in wanted_up], "heights of the points", precision=5e-3))
    for low, high, expected in (
        (0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (3.0, 47.0, [10, 20, 30, 40]),
        (-0.3, 0.1, [-0.3, -0.2, -0.1, 0, 0.1]),
    ):
        found.append(compare(ticks(low, high), "==", [scale * one for one in expected], f"ticks from {low} to {high}"))
    names = [f"layer.{i}.drop" for i in (0, 1, 2, 5)] + ["head", "a.1.b.2", "a.3.b.4"]
    lines = compact(names)
    spoken = lines == ["layer.{0-2,5}.drop", "head", "a.1.b.2", "a.3.b.4"]
    found.append(compare(float(spoken), "==", scale, f"names in few lines: {lines}"))
    return found


def logged_reports(scale: float) -> list[Comparison]:
    """Callbacks log the numbers of an audit at the epochs that were asked for."""
    found: list[Comparison] = []
    narrow = _narrow()
    (site,) = narrow.sites
    assert site.units is not None
    numbers = audit_numbers(narrow)
    found.append(compare(numbers["dropout/training_loss"], "==", scale * narrow.training_loss.value, "a number to log"))
    found.append(
        compare(numbers[f"dropout/{site.site.name}/imbalance"], "==", site.units.imbalance, "imbalance to log")
    )
    logged: list[dict[str, float]] = []
    net: Any = stack((3, 5, 2), (0.3,), nn.ReLU)
    light = lightning_callback(sample(5, 24, 3, 2), every=2, rates=())
    net.log_dict = logged.append
    for epoch in range(4):
        light.on_train_epoch_end(SimpleNamespace(current_epoch=epoch), net)
    found.append(compare(len(logged), "==", scale * 2, "every second epoch"))
    seen: list[dict[str, float]] = []
    face = huggingface_callback(sample(5, 24, 3, 2), every=3, log=seen.append, rates=())
    state = SimpleNamespace(epoch=0.0, global_step=7, log_history=[])
    for epoch in range(1, 7):
        state.epoch = float(epoch)
        face.on_epoch_end(None, state, None, net)
    found.append(compare(len(seen), "==", scale * 2, "every third epoch"))
    key = "dropout/clean_loss"
    found.append(
        compare([seen[0][key], state.log_history[1][key]], "==", [scale * narrow.clean_loss] * 2, "what is logged")
    )
    return found


def shared_draws(scale: float) -> list[Comparison]:
    """Draws go where their spread is largest within the budget; intervals cover what all masks give."""
    found: list[Comparison] = []
    guesses = {"wide": Guess(1.0, 2.0), "narrow": Guess(1.0, 0.01), "small": Guess(0.001, 0.02)}
    costs, least = {"wide": 1.0, "narrow": 0.5, "small": 0.25}, {"wide": 1, "narrow": 2, "small": 1}
    for budget in (3.0, 7.0, 50.0):
        draws = share_out(guesses, costs, budget, least)
        spent = sum(draws[name] * costs[name] for name in draws)
        found.append(compare(spent, "<=", scale * budget if budget < 50 else budget, f"spent of {budget}"))
        found.append(compare(min(draws[name] - least[name] for name in draws), ">=", 0, "at least"))
        left = budget - spent
        more = [name for name in draws if draws[name] < 16 and costs[name] <= left]
        found.append(compare(float("wide" in more), "==", 0.0, f"the widest has what is left of {budget}"))
        if budget == 50.0:
            wanted = {"wide": 16, "narrow": 2, "small": 8}
            told = {name: min(draws[name], 16) for name in draws}
            found.append(compare(told["wide"], "==", scale * wanted["wide"], "draws of the widest"))
            found.append(compare(told["narrow"], ">=", 2, "draws of the narrowest"))
    module = stack((3, 3, 3, 3, 2), (0.2, 0.3, 0.1), nn.Tanh)
    labels = torch.arange(12) % 2
    inputs = normal(9, 12, 3)
    rates = {2: 0.2, 5: 0.3, 8: 0.1}
    rows = torch.arange(12)

    def entropy(outputs: Tensor) -> Tensor:
        return -outputs.log_softmax(-1)[..., rows, labels].mean(-1)

    module.eval()
    with torch.no_grad():
        clean = entropy(module(inputs))
        truth = {
            place: mean_over(every_mask(module, inputs, {place: rate}), entropy) - clean
            for place, rate in rates.items()
        }
        whole = mean_over(every_mask(module, inputs, rates), entropy)
    for budget, each in ((3.0, None), (9.0, None), (30.0, 6)):
        report = audit(module, (inputs, labels), rates=(), budget=budget, draws=each, confidence=0.999999)
        found.append(compare(report.clean_loss, "==", scale * clean, f"loss, budget {budget}"))
        for item in report.sites:
            assert item.penalty is not None
            value = truth[int(item.site.name)]
            found.append(compare(item.penalty.lower, "<=", value, f"site {item.site.name} from below, {budget}"))
            found.append(compare(item.penalty.upper, ">=", value, f"site {item.site.name} from above, {budget}"))
            if math.isfinite(item.penalty.upper):
                width = item.penalty.upper - item.penalty.lower
                found.append(compare(width, "<=", 40 * abs(float(value)) + 1.0, f"width at {item.site.name}, {budget}"))
        found.append(compare(report.training_loss.lower, "<=", whole, f"training loss from below, {budget}"))
        found.append(compare(report.training_loss.upper, ">=", whole, f"training loss from above, {budget}"))
        total = report.training_loss.value - report.clean_loss - sum(i.penalty.value for i in report.sites if i.penalty)
        if report.interaction is not None and report.rest is None:
            found.append(compare(report.interaction.value, "==", total, f"interaction, {budget}"))
    return found


def spread_of_predictions(scale: float) -> list[Comparison]:
    """The spread of predictions under masks, and the share of the inputs in it."""
    found: list[Comparison] = []
    linear = stack((3, 4, 2), (0.4, 0.3), nn.Identity)
    told = audit(linear, sample(3, 9, 3, 2), rates=(), uncertainty=True)
    assert told.uncertainty is not None
    outputs, chances = every_mask(linear, sample(3, 9, 3, 2).inputs, {0: 0.4, 3: 0.3})
    mean = mean_over((outputs, chances), lambda out: out)
    variance = mean_over((outputs, chances), lambda out: (out - mean).square()).mean()
    found.append(compare(told.uncertainty.variance.lower, "<=", variance, "variance from below"))
    found.append(compare(told.uncertainty.variance.upper, ">=", variance, "variance from above"))
    first, last = linear[1], linear[4]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    slopes = (last.weight @ first.weight) * sample(3, 9, 3, 2).inputs[:, None, :]
    share = 0.4 / 0.6 * slopes.square().sum(-1).mean()
    place = next(name for name in told.uncertainty.shares if name == "0")
    wanted = share / told.uncertainty.variance.value
    found.append(
        compare(told.uncertainty.shares[place], "==", scale * wanted.detach(), "share of the inputs", precision=1e-6)
    )
    return found
