"""What claims on the findings of audits compare: rules about the use of dropout and what stands around it."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from droptics.audits import misuses, surroundings
from droptics.audits.batches import Batch
from droptics.audits.passes import OwnMask, Passes
from droptics.evidence.claims import Comparison, compare
from droptics.models.watching import Call, Trace
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor


def _passes(module: nn.Module, **more: Any) -> Any:
    """Evidence for rules: a module and what is said to have been seen."""
    given: dict[str, Any] = {
        "training": Trace(),
        "evaluation": Trace(),
        "own": (),
        "batch": None,
        "outputs": tensor([0.0]),
        "loss": None,
    }
    return Passes(module, **(given | more))


def _call(site: str, kind: str, rate: float, module: nn.Module | None = None, **more: Any) -> Call:
    return Call(site, kind, rate, more.pop("applied", True), more.pop("shape", None), module, **more)


def _told(rule: Any, passes: Any) -> list[tuple[str, str]]:
    return [(remark.site, remark.text) for remark in rule(passes)]


def rules(scale: float) -> list[Comparison]:
    """Rules about the use of dropout, each on a trace that shows it once and nearly shows it beside."""
    found: list[Comparison] = []
    layer, idle, alpha = nn.Dropout(0.3), nn.Dropout(0.25), nn.AlphaDropout(0.0)
    attention = nn.MultiheadAttention(4, 2, dropout=0.2)
    held = nn.ModuleList([nn.Dropout(0.4), nn.Dropout(0.0)])
    net = nn.ModuleDict({"a": layer, "b": idle, "c": alpha, "d": attention, "e": held})
    seen = Trace([_call("f", "dropout", 0.4, net)], visited={layer: False})
    found.append(
        same(
            _told(misuses.never_runs, _passes(net, training=seen)),
            [
                ("b", "Dropout(p=0.25) is part of the module but never runs"),
                ("d", "MultiheadAttention(dropout=0.2) is part of the module but never runs"),
            ],
            "never runs",
            scale,
        )
    )
    recurrent: Any = nn.ModuleList([nn.LSTM(2, 2, 2, dropout=0.5), nn.GRU(2, 2), nn.Module()])
    recurrent[1].dropout = 0.25  # torch itself warns of it
    told = _told(misuses.single_recurrent_layer, _passes(recurrent))
    found.append(same(told, [("1", "GRU(dropout=0.25) with one layer never drops")], "one layer", scale))
    exported = torch.fx.symbolic_trace(nn.ReLU())
    calls = [
        _call("zero", "dropout", 0.0, layer),
        _call("layer", "dropout", 0.3, layer),
        _call("function", "dropout", 0.5, net),
        _call("program", "dropout", 0.5, exported),
        _call("quiet", "dropout", 0.5, net),
        _call("path", "drop path", 0.5, net),
        _call("all", "dropout", 1.0, layer),
    ]
    awake = Trace([_call(one.site, one.kind, one.rate, one.module, applied=one.site != "quiet") for one in calls])
    both = _passes(net, training=Trace(calls), evaluation=awake)
    for rule, sites, words in (
        (misuses.rate_zero, ["zero"], "dropout with rate 0 does nothing"),
        (misuses.layer_in_evaluation, ["layer", "path", "all"], "drops in evaluation mode too"),
        (
            misuses.function_in_evaluation,
            ["function"],
            "the functional call drops always, in evaluation mode too",
        ),
        (misuses.exported_in_training, ["program"], "the module was exported in training mode: it always drops"),
        (misuses.everything_falls, ["all"], "drops everything in training mode: its rate is 1"),
    ):
        found.append(same(_told(rule, both), [(site, words) for site in sites], f"{sites[0]} is told", scale))
    source = normal(1, 200, 5)
    kept = (torch.rand(200, 5, generator=torch.Generator().manual_seed(1)) > 0.5).double()
    share = 1 - float(kept.mean())
    once = torch.ones_like(source)
    once[0] = 500.0  # the factor on most survivors counts, not that on a few
    own = [
        OwnMask("sound", 0.5, (source, source * kept * 2), False, False),
        OwnMask("rate", 0.2, (source, source * kept * 2), True, False),
        OwnMask("once", 0.5, (source, source * kept * 2 * once), False, False),
        OwnMask("bare", 0.5, (source, source * kept * once), False, False),
        OwnMask("silent", None, (source, source * kept * 2), False, False),
        OwnMask("traced", 0.2, (source, source * kept), True, True),
        OwnMask("scripted", 0.2, None, False, True),
    ]
    seen_own = _passes(net, own=own)
    hidden = "TorchScript hides the rates and the sites of its dropout, only their sum is measured"
    always = "compiled by TorchScript with its dropout on: it draws random numbers in evaluation mode too"
    bare = "survivors are multiplied by 1.00 where 1/(1 - rate) is 2.00"
    for rule, wanted in (
        (misuses.own_mask_in_evaluation, [("rate", "draws random numbers in evaluation mode too")]),
        (misuses.compiled_with_dropout, [("traced", always)]),
        (misuses.hidden_by_compilation, [("scripted", hidden)]),
        (misuses.realized_rate, [("rate", f"its nominal rate is 0.2 but {share:.1%} of its inputs were zeroed")]),
        (misuses.not_rescaled, [("bare", bare)]),
    ):
        found.append(same(_told(rule, seen_own), wanted, f"own mask: {wanted[0][0]}", scale))
    shapes = [
        _call("good", "dropout2d", 0.3, shape=(2, 3, 4, 4)),
        _call("off", "dropout2d", 0.0, shape=(3, 4, 4)),
        _call("bad", "dropout2d", 0.3, shape=(3, 4, 4)),
        _call("one", "dropout1d", 0.3, shape=(3, 4)),
        _call("three", "dropout3d", 0.3, shape=(2, 3, 4, 4)),
        _call("plain", "dropout", 0.3, shape=(3, 4)),
    ]
    told_shapes = [
        (remark.site, remark.text.split(":")[0], remark.advice)
        for remark in misuses.wrong_dimensions(_passes(net, training=Trace(shapes)))
    ]
    wanted_shapes = [
        (
            site,
            f"{kind} on an input of shape {shape}",
            f"give it {size} dimensions (batch, channels, ...) or use nn.Dropout",
        )
        for site, kind, shape, size in (
            ("bad", "dropout2d", (3, 4, 4), 4),
            ("one", "dropout1d", (3, 4), 3),
            ("three", "dropout3d", (2, 3, 4, 4), 5),
        )
    ]
    found.append(same(told_shapes, wanted_shapes, "dimensions", scale))
    maps = normal(2, 2, 3, 4, 4)
    pixels = [
        _call("maps", "dropout", 0.3, shape=(2, 3, 4, 4), source=maps),
        _call("weights", "dropout", 0.3, shape=(2, 3, 4, 4), source=maps.softmax(-1)),
        _call("nearly", "dropout", 0.3, shape=(2, 3, 4, 4), source=maps.softmax(-1) * (1 + 1e-9)),
        _call("signed", "dropout", 0.3, shape=(2, 3, 4, 4), source=2 * maps.softmax(-1) - maps.roll(1, -1).softmax(-1)),
        _call("off", "dropout", 0.0, shape=(2, 3, 4, 4), source=maps),
        _call("rows", "dropout", 0.3, shape=(2, 3), source=maps[..., 0, 0]),
        _call("channels", "dropout2d", 0.3, shape=(2, 3, 4, 4), source=maps),
        _call("unseen", "dropout", 0.3, shape=(2, 3, 4, 4)),
    ]
    for module, sites in ((nn.Conv2d(1, 1, 1), ["maps", "nearly", "signed", "unseen"]), (nn.Linear(1, 1), [])):
        told_pixels = [site for site, _ in _told(misuses.single_pixels, _passes(module, training=Trace(pixels)))]
        found.append(same(told_pixels, sites, f"pixels of {type(module).__name__}", scale))
    return found


def around(scale: float) -> list[Comparison]:
    """Rules about what stands around dropout: outputs, padding, shifted variances."""
    found: list[Comparison] = []
    net = nn.Linear(2, 2).double()
    outputs = normal(1, 4, 3)
    outputs[1, 2] = outputs[3, 0] = outputs[3, 1] = math.nan
    for given, text in ((outputs, "2 of 4"), (outputs[:, 2], "1 of 4")):
        told = _told(surroundings.not_numbers, _passes(net, outputs=given))
        found.append(same(told, [("the network", f"the outputs of {text} examples are NaN")], "not numbers", scale))
    found.append(same(_told(surroundings.not_numbers, _passes(net, outputs=normal(1, 4))), [], "numbers", scale))

    def squared(out: Tensor, wanted: Tensor) -> Tensor:
        return (out - wanted).square().mean()

    def classes(out: Tensor, wanted: Tensor) -> Tensor:
        last = out.movedim(1, -1) if out.shape[1] == 5 else out
        return nn.functional.cross_entropy(last.flatten(0, 1), wanted.flatten())

    kept = (torch.arange(4) < 3).long().expand(6, 4)
    labels = torch.arange(24).reshape(6, 4) % 5
    left = labels.masked_fill(kept == 0, -100)
    some = left.clone()
    some[0, 3] = 1
    logits = normal(3, 6, 4, 5)
    for name, options, targets, out, loss, share in (
        ("mask", {"attention_mask": kept}, labels, logits, classes, "25%"),
        ("channels first", {"attention_mask": kept}, labels, logits.movedim(-1, 1), classes, "25%"),
        ("padding", {"key_padding_mask": kept == 0}, labels, logits, classes, "25%"),
        ("left out", {"attention_mask": kept}, left, logits, classes, None),
        ("one is counted", {"attention_mask": kept}, some, logits, classes, "5%"),
        ("numbers", {"padding_mask": kept == 0}, normal(4, 6, 4), normal(5, 6, 4), squared, "25%"),
        ("no such mask", {"other": kept}, labels, logits, classes, None),
        ("not flags", {"padding_mask": kept}, labels, logits, classes, None),
        ("no loss", {"attention_mask": kept}, labels, logits, None, None),
    ):
        batch = Batch((), options, targets, 6)
        told = _told(surroundings.padding_counted, _passes(net, batch=batch, outputs=out, loss=loss))
        words = f"{share} of the positions that it averages are padding ({next(iter(options))} says so)"
        found.append(same(told, [] if share is None else [("the loss", words)], f"padding: {name}", scale))

    class Own(nn.Module):
        def forward(self, labels: Tensor, **_: Any) -> Any:
            return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())}

    for targets, told_share in ((labels, True), (left, False)):
        batch = Batch((), {"attention_mask": kept, "labels": targets}, targets, 6, "labels", own_loss=True)
        own = Own()(targets)["loss"].reshape(1)
        told = _told(surroundings.padding_counted, _passes(Own(), batch=batch, outputs=own, loss=classes))
        found.append(same(bool(told), told_share, "padding in the loss of the module", scale))
    norm: Any = nn.BatchNorm1d(400)
    clean = 1 + torch.arange(400) / 400
    for ratio, count, batches_seen, learned, wanted in (
        (1.5, 100, 0, None, 1.5),
        (1.06, 100, 0, None, None),  # within what 100 values of 400 channels can tell
        (1.06, 40_000, 0, None, 1.06),
        (1.04, 40_000_000, 0, None, None),
        (1.5, 1, 0, None, None),
        (1.5, 100, 3, 1.45, 1.5),
        (1.5, 100, 3, 1.05, None),
    ):
        norm.num_batches_tracked.fill_(batches_seen)
        norm.running_var = clean * (learned or 1.0)
        told_shift = surroundings._shift(norm, ratio * clean, count, clean)
        found.append(compare(told_shift or 0.0, "==", scale * (wanted or 0.0), f"shift {ratio}, {count}", 1e-5))
    found.append(same(surroundings._shift(norm, clean, 100, 0 * clean), None, "nothing alive", scale))
    return found + _own_layers(scale)


class DroppingOwn(nn.Module):
    """Named after dropping, does one thing in training mode."""

    def __init__(self, does: str, **attributes: Any) -> None:
        super().__init__()
        self.does = does
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, value: Tensor) -> Any:  # a branch for each  # noqa: PLR0911
        match self.does:
            case "copies":
                return value.clone()
            case "writes":
                return value.mul_(0.5)
            case "adds":
                return value + 1e-9 * value
            case "asks Python":
                return value * (random.random() < 2)
            case "asks NumPy":
                return value * (np.random.random_sample() < 2)  # noqa: NPY002 - what modules draw from
            case "in evaluation":
                return value if self.training else 0 * value
            case _:
                return value


class Keeping(DroppingOwn):
    """Named otherwise."""


def _own_layers(scale: float) -> list[Comparison]:
    """Layers of one's own that never drop: which are asked, and which return their input."""
    found: list[Comparison] = []
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 - put back below
    inputs = normal(1, 4, 2)
    batch = Batch((inputs,), {}, inputs, 4)
    weighty, holding = DroppingOwn("returns", p=0.2, weight=nn.Parameter(torch.ones(1))), DroppingOwn("returns", p=0.2)
    holding.inner = nn.Tanh()
    cases: tuple[tuple[str, nn.Module, bool], ...] = (
        *((does, DroppingOwn(does, p=0.25), True) for does in ("returns", "copies", "in evaluation")),
        *((does, DroppingOwn(does, p=0.25), False) for does in ("writes", "adds", "asks Python", "asks NumPy")),
        *((name, DroppingOwn("returns", **{name: 0.25}), True) for name in surroundings.RATES),
        *((f"rate {rate}", DroppingOwn("returns", p=rate), False) for rate in (0.0, 1.0, 1, "0.2", None)),
        ("the first rate that is one", DroppingOwn("returns", drop=2.0, rate=0.25), True),
        ("of another name", Keeping("returns", p=0.25), False),
        ("with weights", weighty, False),
        ("with parts", holding, False),
        ("torch's own", nn.Dropout(0.25).eval(), False),
    )
    try:
        for name, part, quiet in cases:
            module = nn.Sequential(nn.Tanh(), part).eval()
            for met in (True, False):
                trace = Trace(visited={module: False, part: False} if met else {})
                told = _told(surroundings.own_layer_never_drops, _passes(module, batch=batch, training=trace))
                asked = name not in ("writes", "adds", "asks Python", "asks NumPy")
                ends = "runs in training mode but never drops" if met else "is part of the module but never runs"
                words = [("1", f"DroppingOwn at rate 0.25 {ends}")] if quiet or (not asked and not met) else []
                found.append(same(told, words, f"a layer of one's own: {name}, {'' if met else 'not '}met", scale))
                found.append(
                    same(
                        [part.training for part in module.modules()],
                        [False] * len(list(module.modules())),
                        f"left in evaluation mode: {name}",
                        scale,
                    )
                )
            drawing = Trace(visited={module: False, part: False}, hand_written=["1.rand"])
            told = _told(surroundings.own_layer_never_drops, _passes(module, batch=batch, training=drawing))
            found.append(same(told, [], f"a layer that draws by hand: {name}", scale))
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
    found.append(compare(inputs, "==", normal(1, 4, 2), "the inputs"))
    return found
