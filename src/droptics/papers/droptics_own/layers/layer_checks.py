"""What more claims on layers compare: blocks placed one by one, LoRA heads written out, settings as they are told."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.evidence.claims import Comparison, compare
from droptics.layers import (
    DropBlock,
    DropConnect,
    ExplicitDropout,
    VarianceHead,
    explicit_consistency,
    explicit_penalty,
    realized_rates,
)
from droptics.layers.weights import head_weights
from droptics.losses import CrossEntropy, Logistic, Squared
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal
from droptics.penalties import MonteCarlo


def _places(length: int, block: int, edges: str) -> list[range]:
    """The positions that each possible block covers along a side."""
    first = {"clipped": 1 - block, "valid": 0, "centered": -(block - 1 - block // 2)}[edges]
    count = {"clipped": length + block - 1, "valid": length - block + 1, "centered": length}[edges]
    starts = range(first, first + count)
    return [range(max(start, 0), min(start + block, length)) for start in starts]


def _covered(size: tuple[int, ...], block: int, edges: str) -> np.ndarray[Any, Any]:
    """How many blocks cover each position, block by block."""
    cut = min(block, *size)
    found = np.zeros(size)
    for sides in itertools.product(*(_places(length, cut, edges) for length in size)):
        found[np.ix_(*sides)] += 1
    return found


def placed_blocks(scale: float) -> list[Comparison]:
    """Seeds, realized rates and outputs of DropBlock in every setting, with blocks placed one by one."""
    found: list[Comparison] = []
    for edges, rate in itertools.product(("clipped", "valid", "centered"), ("matched", "inside", "area")):
        for size, block in (((6, 9), 3), ((7,), 4), ((5, 3), 4)):
            spatial: Any = len(size)
            options: dict[str, Any] = {"spatial": spatial, "edges": edges, "rate": rate}
            layer = DropBlock(0.3, block, **options)
            cut = min(block, *size)
            covers = _covered(size, block, edges)
            gamma = layer.seed_rate(size)
            label = f"{edges}, {rate}, {size}"
            if rate == "area":
                found.append(compare(gamma, "==", scale * 0.3 / cut**spatial, f"gamma: {label}"))
            if rate == "inside":
                inside = math.prod(length - cut + 1 for length in size)
                found.append(compare(gamma, "==", scale * 0.3 * math.prod(size) / (cut**spatial * inside), label))
            lost = 1 - ((1 - gamma) ** covers).mean()
            found.append(compare(layer.realized_rate(size), "==", scale * lost, f"realized: {label}"))
            if rate == "matched":
                found.append(compare(lost, "==", scale * 0.3, f"as asked for: {label}", precision=1e-8))
            for shared, rescale in itertools.product((False, True), ("expected", "realized")):
                more: dict[str, Any] = {"rescale": rescale, "shared": shared}
                layer = DropBlock(0.3, block, **options, **more).train()
                input = normal(3, 2, 3, *size)
                grid = [len(_places(length, cut, edges)) for length in size]
                torch.manual_seed(5)
                told = layer(input)
                torch.manual_seed(5)
                seeds = torch.bernoulli(torch.empty(2, 1 if shared else 3, *grid, dtype=torch.float64), gamma)
                kept = torch.ones(2, seeds.shape[1], *size, dtype=torch.float64)
                for example, channel, *place in seeds.nonzero().tolist():
                    sides = [_places(length, cut, edges)[at] for length, at in zip(size, place, strict=True)]
                    kept[(example, channel, *np.ix_(*sides))] = 0.0
                factor = 1 / kept.mean() if rescale == "realized" else torch.from_numpy((1 - gamma) ** -covers)
                found.append(
                    compare(told, "==", scale * input * kept * factor, f"outputs: {label}, {shared}, {rescale}")
                )
    return found + _told_settings(scale)


def _told_settings(scale: float) -> list[Comparison]:
    """Presets, tables, refusals, and what layers say of themselves."""
    found: list[Comparison] = []
    (row,) = realized_rates((8,), (0.1,), (7,))
    for name, edges, gamma in (
        ("matched", "clipped", 1 - 0.9 ** (1 / 49)),
        ("torchvision", "valid", 0.1 * 64 / (49 * 4)),
        ("timm", "centered", 0.1 * 64 / (49 * 4)),
        ("dropblock", "centered", 0.1 / 49),
    ):
        wanted = 1 - ((1 - gamma) ** _covered((8, 8), 7, edges)).mean()
        found.append(compare(getattr(row, name), "==", scale * wanted, f"realized by {name}"))
    found.append(same((row.size, row.drop, row.block), (8, 0.1, 7), "of which setting", scale))
    found.append(same(len(realized_rates((8, 16), (0.1, 0.2), (3,))), 4, "every setting", scale))
    presets = {name: DropBlock.like(name, 0.2, 5) for name in ("torchvision", "timm", "dropblock")}
    settings = {name: (one.edges, one.rate, one.rescale, one.shared, one.p, one.block) for name, one in presets.items()}
    wanted_settings = {
        "torchvision": ("valid", "inside", "realized", False, 0.2, 5),
        "timm": ("centered", "inside", "realized", True, 0.2, 5),
        "dropblock": ("centered", "area", "realized", True, 0.2, 5),
    }
    found.append(same(settings, wanted_settings, "presets", scale))
    image = normal(1, 2, 3, 5, 5)
    layer = DropBlock(0.4, 2)
    found.append(compare(layer.eval()(image), "==", scale * image, "in evaluation mode"))
    found.append(compare(DropBlock(0.0).train()(image), "==", scale * image, "at rate zero"))
    found.append(same(layer.train()(image[:0]).shape, image[:0].shape, "no examples", scale))
    found.append(
        same((layer.seed_rate((0, 4)), DropBlock(0.0, edges="valid").seed_rate((4, 4))), (0.0, 0.0), "zero", scale)
    )
    found.append(refuses(lambda: layer(image[0]), "input[None], or set spatial=1"))
    found.append(refuses(lambda: layer(image[None, None]), "got shape (1, 1, 2, 3, 5, 5)"))
    words = "drop=0.4, block=2, spatial=2, edges='clipped', rate='matched', rescale='expected', shared=False"
    found.append(same(layer.extra_repr(), words, "settings in words", scale))
    nothing = DropBlock(1 - 1e-9, 5, rescale="realized").train()(image)
    found.append(same(nothing.count_nonzero().item(), 0, "where everything falls", scale))
    half = DropBlock(0.4, 2, rescale="realized").train()
    torch.manual_seed(2)
    rough = half(torch.full((400, 4, 16, 16), 100.0, dtype=torch.float16))
    found.append(compare(rough.double().mean(), "==", scale * 100.0, "a half-precision mean", precision=1e-3))
    connect = DropConnect.of(linear_head(1, 4, 3), 0.3, per_example=True)
    found.append(same((connect.p, connect.in_features, connect.out_features), (0.3, 4, 3), "of a linear layer", scale))
    told = "in_features=4, out_features=3, bias=True, drop=0.3, per_example=True"
    found.append(same(connect.extra_repr(), told, "weights that drop in words", scale))
    rough_layer = DropConnect(4, 3, 0.3, dtype=torch.float16).train()
    inputs = normal(4, 5, 4).half()
    torch.manual_seed(3)
    answer = rough_layer(inputs)
    torch.manual_seed(3)
    weight = functional.dropout(rough_layer.weight.detach().float(), 0.3).half()
    wanted_rows = functional.linear(inputs, weight, rough_layer.bias).double()
    found.append(compare(answer.double(), "==", scale * wanted_rows, "half precision", precision=1e-3))
    found.append(same(VarianceHead(linear_head(1, 4, 3), 0.3, full=True).extra_repr(), "full=True", "a head", scale))
    return found


class _Lora(nn.Module):
    """A LoRA layer by the names of its parts."""

    def __init__(self, merged: bool = False) -> None:
        super().__init__()
        self.base_layer = linear_head(1, 4, 3)
        self.lora_A = nn.ModuleDict({"default": linear_head(2, 4, 2), "other": linear_head(5, 4, 2)})
        self.lora_B = nn.ModuleDict({"default": linear_head(3, 2, 3), "other": linear_head(6, 2, 3)})
        self.lora_dropout = nn.ModuleDict({"default": nn.Dropout(0.3), "other": nn.Dropout(0.2)})
        self.scaling, self.active_adapters, self.merged = {"default": 1.5, "other": 0.5}, ["default", "other"], merged

    def forward(self, input: Tensor) -> Tensor:
        """Outputs without dropout, the offsets of the adapters among them."""
        found: Tensor = self.base_layer(input)
        for name in self.active_adapters:
            found = found + self.scaling[name] * self.lora_B[name](self.lora_A[name](input))
        return found

    def change(self, name: str) -> Tensor:
        """What an adapter adds to the weights."""
        return self.scaling[name] * (self.lora_B[name].weight @ self.lora_A[name].weight).detach()  # type: ignore[operator]


def adapted_heads(scale: float) -> list[Comparison]:
    """Penalties of the branch of a LoRA layer and of the whole of it, in every form, over all masks."""
    found = _in_use(scale)
    inputs = normal(7, 6, 4)
    kept, odds = every_coin([0.3] * 4)
    layer = _Lora()
    part, outputs = layer.change("default"), layer(inputs)
    moves = torch.stack([(inputs * (mask / 0.7 - 1)) @ part.mT for mask in kept])
    drawn = outputs + moves
    entropy = torch.tensordot(odds, torch.logsumexp(drawn, -1), 1) - torch.logsumexp(outputs, -1)
    squares = torch.tensordot(odds, moves.square().sum(-1), 1)
    plain = ExplicitDropout.of_lora(_Lora(), Squared())
    plain(inputs)
    found.append(compare(plain.penalties, "==", scale * squares, "squared loss of a branch"))
    found.append(same((plain.p, plain.form, plain.loss), (0.3, "second-order", Squared()), "its rate and form", scale))
    found += [*_second_order(scale, inputs, outputs, moves, odds), *_other_branch(scale, inputs)]
    bound = ExplicitDropout.of_lora(_Lora(), CrossEntropy(), "bound")
    bound(inputs)
    found.append(compare(bound.penalties, ">=", scale * entropy, "bound of a branch", precision=1e-12))
    found.append(compare(bound.penalties, "<=", scale * 2.5 * entropy, "a narrow one"))
    torch.manual_seed(3)
    sampled = ExplicitDropout.of_lora(_Lora(), CrossEntropy(), "sampled").train()
    many = inputs.repeat(3000, 1, 1)
    sampled(many)
    error = sampled.penalties.detach().std(0) / 3000**0.5
    gap = (sampled.penalties.detach().mean(0) - scale * entropy).abs() / error
    found.append(compare(gap, "<=", 5.0, "draws of a branch, in standard errors"))
    logs = sampled.logs
    assert logs is not None
    chances = logs.exp()
    pairs = [
        (chances[..., i, :] * (logs[..., i, :] - logs[..., j, :])).sum(-1)
        for i, j in itertools.permutations(range(8), 2)
    ]
    wanted = torch.stack(pairs).mean(0).reshape(3000, 6)
    found.append(compare(sampled.consistencies.detach(), "==", scale * wanted.detach(), "divergences of all pairs"))
    holder: Any = nn.Sequential(sampled, ExplicitDropout(0.3, layer.base_layer, CrossEntropy(), "sampled"))
    holder(many)
    total = holder[0].consistencies.mean() + holder[1].consistencies.mean()
    found.append(compare(explicit_consistency(holder).detach(), "==", scale * total.detach(), "of several layers"))
    found.append(refuses(lambda: plain.consistencies, "form must be 'sampled'"))
    found.append(refuses(lambda: ExplicitDropout.of_lora(_Lora(), Squared(), adapter="x"), "an adapter 'x'"))
    found.append(refuses(lambda: ExplicitDropout.of_lora(nn.Linear(2, 2), Squared()), "got Linear"))
    layer.lora_magnitude_vector = nn.ModuleDict({"other": nn.Identity()})
    found.append(refuses(lambda: head_weights(layer), "'other' has DoRA's"))
    return found + _kept_penalties(scale)


def _in_use(scale: float) -> list[Comparison]:
    """Weights and offset of a LoRA layer, merged and not, and which of them fall."""
    found: list[Comparison] = []
    for merged in (False, True):
        layer = _Lora(merged)
        both = layer.change("default") + layer.change("other")
        base = layer.base_layer.weight.detach()
        whole = base if merged else base + both
        weights = head_weights(layer)
        found.append(compare(weights.whole, "==", scale * whole, f"weights in use, merged {merged}"))
        found.append(compare(weights.masked, "==", whole, f"all of them fall, merged {merged}"))
        offset = layer.base_layer.bias.detach() if merged else layer(torch.zeros(4, dtype=torch.float64))
        found.append(compare(weights.bias, "==", scale * offset, f"the offset in use, merged {merged}"))
        branch = head_weights(layer, "default").masked
        found.append(compare(branch, "==", scale * layer.change("default"), f"the branch alone, merged {merged}"))
    return found


def _second_order(scale: float, inputs: Tensor, outputs: Tensor, moves: Tensor, odds: Tensor) -> list[Comparison]:
    """Half the mean over all masks of what the curvature of cross-entropy makes of the moves of its outputs."""
    layer = ExplicitDropout.of_lora(_Lora(), CrossEntropy())
    layer(inputs)
    shares = outputs.softmax(-1)
    curved = (shares * moves.square()).sum(-1) - (shares * moves).sum(-1).square()
    return [compare(layer.penalties, "==", scale * torch.tensordot(odds, curved, 1) / 2, "second order of a branch")]


def _other_branch(scale: float, inputs: Tensor) -> list[Comparison]:
    """The branch of an adapter that is not the first, at its own rate; the dropout of the first stays."""
    layer = _Lora()
    explicit = ExplicitDropout.of_lora(layer, Squared(), adapter="other")
    explicit(inputs)
    kept, odds = every_coin([0.2] * 4)
    moves = torch.stack([(inputs * (mask / 0.8 - 1)) @ layer.change("other").mT for mask in kept])
    squares = torch.tensordot(odds, moves.square().sum(-1), 1)
    places = [layer.lora_dropout[name] is explicit for name in ("default", "other")]
    told = explicit.penalties
    explicit.eval()(inputs)
    return [
        compare(explicit.penalties, "==", scale - 1, "nothing falls in evaluation mode"),
        compare(told, "==", scale * squares, "of another branch"),
        same((explicit.p, places), (0.2, [False, True]), "whose dropout it replaces", scale),
    ]


def _kept_penalties(scale: float) -> list[Comparison]:
    """Labels, shifts, modes, copies and checks of explicit layers."""
    found: list[Comparison] = []
    head, inputs = linear_head(1, 4, 3), normal(7, 2, 5, 4)
    layer = ExplicitDropout(0.3, head).train()
    net = nn.Sequential(nn.Sequential(layer))
    net(inputs)
    each = 0.3 / 0.7 * (inputs.square() @ head.weight.detach().square().sum(0))
    labels = torch.tensor([[0, -100, 2, 1, 0], [1, 1, -100, -100, 2]])
    kept, odds = every_coin([0.3] * 4)
    moves = torch.einsum("mi,nti,oi->mnto", kept / 0.7 - 1, inputs, head.weight.detach())
    found.append(compare(each, "==", torch.tensordot(odds, moves.square().sum(-1), 1), "of all masks"))
    found.append(compare(explicit_penalty(net, labels).detach(), "==", scale * each[labels != -100].mean(), "labels"))
    ahead = torch.tensor([[False, True, True, True, False], [True, False, False, True, False]])
    found.append(compare(explicit_penalty(net, labels, shifted=True), "==", scale * each[ahead].mean(), "shifted"))
    other = explicit_penalty(net, labels, ignore_index=1)
    found.append(compare(other, "==", scale * each[labels != 1].mean(), "another index is ignored"))
    found.append(compare(explicit_penalty(net), "==", scale * each.mean(), "all tokens"))
    twice: Any = nn.Sequential(ExplicitDropout(0.6, head), net).train()
    twice(inputs)
    whole = 0.6 / 0.4 / (0.3 / 0.7) * each + each
    found.append(compare(explicit_penalty(twice, labels), "==", scale * whole[labels != -100].mean(), "two layers"))
    found.append(refuses(lambda: explicit_penalty(net, labels[:1]), "the shape of the tokens (2, 5)"))
    found.append(refuses(lambda: explicit_penalty(nn.Linear(2, 2)), "must hold an ExplicitDropout layer"))
    again = pickle.loads(pickle.dumps(net))
    found.append(same(float(explicit_penalty(again)), 0.0, "a copy holds no penalty", scale))
    found.append(same(float(explicit_penalty(copy.deepcopy(net))), 0.0, "nor does another", scale))
    layer.eval()
    found.append(compare(layer(inputs), "==", scale * inputs, "inputs pass"))
    found.append(same((float(layer.penalty), tuple(layer.penalties.shape)), (0.0, (2, 5)), "evaluation mode", scale))
    words = "drop=0.3, loss=Squared, form='second-order', over='examples'"
    found.append(same(layer.extra_repr(), words, "settings in words", scale))
    rows = inputs.reshape(-1, 4)
    for loss, width in ((CrossEntropy(), 3), (Logistic(), 1)):
        top = linear_head(2, 4, width)
        with torch.no_grad():
            drawn, clean = torch.stack([top(rows * mask / 0.7) for mask in kept]), top(rows)
        value: Any = (lambda z: torch.logsumexp(z, -1)) if width == 3 else (lambda z: functional.softplus(z[..., 0]))
        truth = float((torch.tensordot(odds, value(drawn), 1) - value(clean)).mean())
        for form in ("second-order", "bound", "sampled"):
            explicit: Any = ExplicitDropout(0.3, top, loss, form).train()
            told = explicit.check(inputs, MonteCarlo(4000, seed=1, confidence=0.999999))
            way = {"second-order": "second order", "bound": "certified" if width == 3 else "exact"}.get(form, "Monte")
            found.append(same(told.method.startswith(way), True, f"checked by {way}", scale))
            if form == "second-order":
                explicit(inputs)
                found.append(compare(told, "==", scale * explicit.penalty.detach(), f"its own number, {width}"))
            found.append(compare(float(told.lower), "<=", scale * truth, f"check from below, {form}, {width}"))
            found.append(compare(float(told.upper), ">=", truth, f"check from above, {form}, {width}"))
    found.append(refuses(lambda: layer.check(inputs), "there is nothing to check"))
    for call, words in (
        (lambda: ExplicitDropout(0.3, nn.ReLU()), "head must be the nn.Linear layer"),
        (lambda: ExplicitDropout(0.3, head, CrossEntropy(), over="elements"), "over='elements' is for squared"),
        (lambda: ExplicitDropout(0.3, head, Squared(), "bound"), "is for cross-entropy"),
        (lambda: ExplicitDropout(0.3, head, CrossEntropy(), "sampled", masks=1), "at least 2"),
        (lambda: layer(inputs[..., :3]), "input (last dimension)"),
    ):
        found.append(refuses(call, words))
    return found
