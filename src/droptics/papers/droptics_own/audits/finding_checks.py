"""What claims on the findings of audits compare: networks with a planted mistake each, and sound ones."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from droptics.audits import Report, audit
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import stack
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor


class Planted(nn.Module):
    """A small network with dropout of one kind in its middle."""

    def __init__(self, kind: str, part: Any = None) -> None:
        super().__init__()
        self.kind = kind
        self.part: Any = part or nn.Identity()
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
            case "again from within":
                again = checkpoint if hidden.requires_grad else lambda part, value, **_: part(value)
                hidden = again(self.part, hidden, use_reentrant=True, preserve_rng_state=False)
            case "again, then once":
                hidden = checkpoint(self.part[0], hidden, use_reentrant=False, preserve_rng_state=False)
                hidden = self.part[1](hidden)
            case "once, then again":
                hidden = self.part[1](hidden)
                hidden = checkpoint(self.part[0], hidden, use_reentrant=False, preserve_rng_state=False)
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


def inner() -> nn.Sequential:
    """What is computed again."""
    return nn.Sequential(linear_head(5, 6, 6), nn.Tanh(), nn.Dropout(0.4))


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
            Planted("again", inner()).requires_grad_(),
            data,
            [("DR402", "part.2")],
        ),
        (
            "recomputed from within",
            Planted("again from within", inner()).requires_grad_(),
            data,
            [("DR402", "part.2")],
        ),
        *(
            (kind, Planted(kind, nn.ModuleList([inner(), nn.Dropout(0.3)])).requires_grad_(), data, [("DR402", "0.2")])
            for kind in ("again, then once", "once, then again")
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
    share, outer = (float(number) for number in re.findall(r"(?:is|are) ([\d.]+) times", text))
    first = shifted[1]
    assert isinstance(first, nn.Linear)
    clean = (data.inputs @ first.weight.mT).var(0)
    noisy = clean + (data.inputs.square().mean(0) * first.weight.square()).sum(
        1
    )  # rate 1/2: the multiplier has variance 1
    ratio = float((noisy / clean).median())
    # 64 examples: five standard errors of a variance
    found.append(compare(math.log(share), "==", math.log(ratio), "size of the shift", precision=5 * (2 / 64) ** 0.5))
    # both numbers have two decimals
    found.append(compare(outer, "==", scale * share**-0.5, "size of the outputs", precision=0.01, scale=1.0))
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
    return found + _left_as_found(scale, data) + _own_rates(scale, data)


def _own_rates(scale: float, data: Sample) -> list[Comparison]:
    """What is told of masks written by hand: the rate that they say they have, else the one that was seen."""
    found: list[Comparison] = []
    cases: tuple[tuple[str, nn.Module, bool, str | None], ...] = (
        ("part", nn.Dropout(0.3), False, "entry"),
        ("part", Stuck(0.3), True, "entry"),
        ("part", nn.AlphaDropout(0.3), False, None),
        ("part", nn.Dropout1d(0.3), False, None),  # of two dimensions: torch drops examples
        ("flat", nn.Dropout1d(0.3), False, "channel"),
    )
    for kind, layer, late, falls in cases:
        (site,) = audit(Planted(kind, layer), data, rates=(), budget=4).sites
        told_of = (site.site.in_evaluation, site.site.unit)
        found.append(same(told_of, (late, falls), f"in evaluation mode, what falls: {layer}, {kind}", scale))
    always = OwnMask(2.0, True)
    for part, says, kind, unit in (
        (OwnMask(2.0), None, "OwnMask", None),
        (OwnMask(2.0), 0.4, "OwnMask", None),
        (always, None, "written by hand", None),
        (DropPath(0.5, 0.5), 0.5, "DropPath", "example"),
        (DropPath(0.1, 0.6), 0.6, "DropPath", "example"),
    ):
        if says is not None and isinstance(part, OwnMask):
            vars(part)["rate"] = says
        (site,) = audit(Planted("part", part), data, rates=(), budget=4).sites
        told, name = site.site, f"{kind}, says {says}"
        assert told.realized is not None
        found.append(compare(told.rate, "==", scale * (told.realized if says is None else says), f"rate, {name}"))
        # of 64 examples of six units, or of 64 alone: six standard errors of a share
        off = 6 * 0.5 / (64 if unit else 384) ** 0.5
        real = 0.6 if says == 0.6 else 0.5
        found.append(compare(told.realized, "==", real, f"share of zeros, {name}", precision=off, scale=1.0))
        rest = (told.kind, told.unit, told.bypassed, told.in_evaluation, told.reason is None)
        always_on = part is always
        found.append(same(rest, (kind, unit, not always_on, always_on, not always_on), f"what is told, {name}", scale))
        found.append(same(told.name.startswith("part"), True, f"its place, {name}", scale))
    return found


def _left_as_found(scale: float, data: Sample) -> list[Comparison]:
    """Gradients, modes, what is trained, numbers, hooks and random numbers after an audit."""
    found: list[Comparison] = []
    for kind in ("part", "again", "behind"):
        norm = nn.BatchNorm1d(6).double()
        behind = [nn.Dropout(0.4), norm, linear_head(5, 6, 6)] if kind == "behind" else [linear_head(5, 6, 6), norm]
        module = Planted(kind, nn.Sequential(*behind, *([] if kind == "behind" else [nn.Dropout(0.4)])))
        module.requires_grad_().train()
        module.part[1].train(kind == "behind")
        module.last.weight.requires_grad_(False)
        for number, parameter in enumerate(module.first.parameters()):
            parameter.grad = normal(number, *parameter.shape)
        numbers = {name: value.clone() for name, value in module.state_dict().items()}
        modes = [part.training for part in module.modules()]
        state = torch.get_rng_state()
        report = audit(module, data, rates=(0.2,), budget=12, uncertainty=True)
        found.append(same(len(report.sites), 1, f"an audit, {kind}", scale))
        for name, parameter in module.named_parameters():
            own = int(name.rpartition(".")[2] == "bias") if name.startswith("first") else None
            left = parameter.grad
            found.append(same(left is None, own is None, f"whether {name} has a gradient, {kind}", scale))
            if own is not None and left is not None:
                found.append(compare(left, "==", scale * normal(own, *left.shape), f"gradient of {name}, {kind}"))
            found.append(same(parameter.requires_grad, name != "last.weight", f"trained: {name}, {kind}", scale))
        alike = all(torch.equal(value, numbers[name]) for name, value in module.state_dict().items())
        found.append(same(alike, True, f"parameters and buffers, {kind}", scale))
        found.append(same([part.training for part in module.modules()], modes, f"modes, {kind}", scale))
        found.append(same(torch.equal(torch.get_rng_state(), state), True, f"nothing drawn, {kind}", scale))
        hooked = [p for p in module.modules() if p._forward_hooks or p._forward_pre_hooks or "forward" in vars(p)]
        found.append(same(hooked, [], f"hooks and forwards, {kind}", scale))
    return found
