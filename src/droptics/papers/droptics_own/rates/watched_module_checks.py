"""What a claim on watched modules and their rates compares: attention written out, replays, names, chains, answers."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from droptics.audits.batches import Batch
from droptics.audits.criteria import Labels
from droptics.evidence.claims import Comparison, compare
from droptics.heads.ridge import DropoutRidge
from droptics.losses import Squared
from droptics.models.modules import evaluating
from droptics.models.replaying import MOST_BYTES, Recording, own_cost
from droptics.models.site import Site
from droptics.models.unfused import attention, multi_head, recurrent
from droptics.models.watching import watched
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.optima.left_out_checks import left_out, refit
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor, uniform
from droptics.rates.chains import ChainScan
from droptics.rates.estimators import _left_out
from droptics.rates.examples import Examples, _column, _join, example_losses, take
from droptics.rates.result import Cost, Gap, Point, Rates, SiteRate, Split


def modules_in_full(scale: float) -> list[Comparison]:
    """Attention and recurrent layers under given masks, replays, names of places, sites, chains, examples, answers."""
    return by_parts((_attention, _recurrent, _replays, _names, _sites, _chains, _examples, _answers), scale)


def _attention(scale: float) -> list[Comparison]:
    """Torch's own attention with the weights passed through, and doubled; heads of keys that queries share."""
    found: list[Comparison] = []
    masks: dict[str, dict[str, Any]] = {
        "plain": {},
        "causal": {"is_causal": True},
        "hidden": {"attn_mask": uniform(9, 3, 5) > 0.4},
        "added": {"attn_mask": normal(8, 3, 5)},
        "scaled": {"scale": 0.3},
    }
    for (name, options), (heads, shared) in itertools.product(masks.items(), ((4, 4), (4, 2), (6, 2))):
        query, key, value = normal(1, 3, heads, 3, 2), normal(2, 3, shared, 5, 2), normal(3, 3, shared, 5, 4)
        if name == "hidden":
            options["attn_mask"][:, 0] = True
        given = {**options, "enable_gqa": heads != shared}
        truth = functional.scaled_dot_product_attention(query, key, value, **given)
        told = attention(query, key, value, **given, masking=lambda weights: weights)
        found.append(compare(told, "==", scale * truth, f"{name}, {heads} on {shared}"))
        kept = uniform(7, 3, heads, 3, 5) * 2
        masked = attention(query, key, value, **given, masking=kept.mul)
        each = [part.repeat_interleave(heads // shared, 1) for part in (key, value)]
        odds = _scores(query, each[0], options).softmax(-1)
        found.append(
            compare(masked, "==", scale * (kept * odds) @ each[1], f"under a mask, {name}, {heads} on {shared}")
        )
    nothing = attention(
        normal(1, 1, 2, 2),
        normal(2, 1, 3, 2),
        normal(3, 1, 3, 2),
        attn_mask=torch.tensor([[True, False, True], [False, False, False]]),
        masking=lambda weights: weights,
    )
    found.append(compare(nothing[0, 1], "==", 0.0, "a row without any key"))
    layer = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True).double().eval()
    for number, part in enumerate(layer.parameters()):
        part.data.copy_(normal(number, *part.shape))
    inputs = normal(5, 2, 3, 4)

    def give(weights: Tensor) -> Tensor:
        return tensor([2.0, 0.0, 1.0]).expand_as(weights)

    for needed in (True, False):

        def attend(needed: bool = needed) -> Tensor:
            return layer(inputs, inputs, inputs, need_weights=needed)[0]

        told, _ = watched(layer, attend, lambda *_: give)
        q, k, v = (inputs @ layer.in_proj_weight.mT + layer.in_proj_bias).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (2, 2)).transpose(1, 2) for part in (q, k, v))
        weights = (q @ k.mT / math.sqrt(2)).softmax(-1) * tensor([2.0, 0.0, 1.0])
        own = (weights @ v).transpose(1, 2).flatten(2) @ layer.out_proj.weight.mT + layer.out_proj.bias
        found.append(compare(told.detach(), "==", scale * own.detach(), f"heads, {needed}"))
    found.append(same(callable(multi_head(give)), True, "a copy of torch's own", scale))
    return found


def _scores(query: Tensor, key: Tensor, options: dict[str, Any]) -> Tensor:
    """What the softmax of attention is taken of."""
    scores = query @ key.mT * options.get("scale", query.shape[-1] ** -0.5)
    if options.get("is_causal"):
        return scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1) > 0, -math.inf)
    mask = options.get("attn_mask")
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask


def _recurrent(scale: float) -> list[Comparison]:
    """Stacked recurrent layers, one and two directions, under given masks between layers; packed sequences named."""
    found: list[Comparison] = []
    inputs = normal(1, 2, 3, 2)
    for family, both in itertools.product((nn.LSTM, nn.GRU), (False, True)):
        layer = family(2, 3, num_layers=3, dropout=0.5, batch_first=True, bidirectional=both).double()
        for number, part in enumerate(layer.parameters()):
            part.data.copy_(0.5 * normal(number, *part.shape))
        layer.eval()
        truth, ends = layer(inputs)
        told, _ = watched(layer, lambda layer=layer: layer(inputs), lambda *_: torch.ones_like)  # type: ignore[misc]
        name = f"{family.__name__}, both ways {both}"
        found.append(compare(told[0].detach(), "==", scale * truth.detach(), f"outputs, {name}"))
        last, wanted = (part[0] if isinstance(part, tuple) else part for part in (told[1], ends))
        found.append(compare(last.detach(), "==", scale * wanted.detach(), f"last state, {name}"))
        muted, _ = watched(layer, lambda layer=layer: layer(inputs), lambda *_: torch.zeros_like)  # type: ignore[misc]
        given = [uniform(20 + k, 2, 3, 6 if both else 3) * 2 for k in range(2)]
        left = iter(given)
        masked, _ = watched(layer, lambda layer=layer: layer(inputs), lambda *_, left=left: lambda source: next(left))  # type: ignore[misc]
        found.append(
            compare(masked[0].detach(), "==", scale * _stacked(layer, inputs, given).detach(), f"given masks, {name}")
        )
        still = muted[0] - muted[0][:1]
        found.append(compare(still.detach().abs().max(), "==", 0.0, f"nothing passes, {name}"))
    found += _started(scale)
    found.append(same(callable(recurrent), True, "written out", scale))
    layer = nn.LSTM(2, 3, num_layers=2, dropout=0.25, batch_first=True).double().train()
    packed = pack_padded_sequence(inputs, torch.tensor([3, 2]), batch_first=True)
    _, trace = watched(layer, lambda: layer(packed))
    call = trace.calls[0]
    found.append(same((call.rate, call.applied, "packed" in call.kind), (0.25, True, True), "a packed sequence", scale))
    _, trace = watched(layer, lambda: layer(inputs), lambda *_: 0.0)
    found.append(same([item.applied for item in trace.calls], [False], "switched off", scale))
    single = nn.LSTM(2, 3, num_layers=1, batch_first=True).double().train()
    _, trace = watched(single, lambda: single(inputs))
    found.append(same(trace.calls, [], "one layer has none", scale))
    return found


def _started(scale: float) -> list[Comparison]:
    """Layers that start from given states, time first, without biases, and their last states under given masks."""
    found: list[Comparison] = []
    inputs, kept = normal(1, 4, 2, 2), uniform(30, 4, 2, 6) * 2
    for family, both in itertools.product((nn.LSTM, nn.GRU, nn.RNN), (False, True)):
        ways, name = 2 if both else 1, f"{family.__name__} from given states, both ways {both}"
        whole, *parts = (
            family(size, 3, num_layers=count, dropout=rate, bias=False, bidirectional=both).double().eval()
            for size, count, rate in ((2, 2, 0.5), (2, 1, 0.0), (3 * ways, 1, 0.0))
        )
        for number, (label, weight) in enumerate(whole.named_parameters()):
            weight.data.copy_(0.5 * normal(number, *weight.shape))
            below = "_l0" in label
            getattr(parts[0 if below else 1], label.replace("_l1", "_l0")).data.copy_(weight)
        states = [normal(40 + k, 2 * ways, 2, 3) for k in range(2 if family is nn.LSTM else 1)]
        mask = kept[..., : 3 * ways]

        def given(rows: slice, states: list[Tensor] = states) -> Any:
            own = tuple(part[rows] for part in states)
            return own if len(own) > 1 else own[0]

        every = given(slice(None))

        def run(layer: Any = whole, start: Any = every) -> Any:
            return layer(inputs, start)

        told, _ = watched(whole, run, lambda *_, mask=mask: lambda source: mask)
        first, low = parts[0](inputs, given(slice(0, ways)))
        second, high = parts[1](first * mask, given(slice(ways, None)))
        found.append(compare(told[0].detach(), "==", scale * second.detach(), f"outputs, {name}"))
        ends = zip(*((part if isinstance(part, tuple) else (part,)) for part in (told[1], low, high)), strict=True)
        for last, one, other in ends:
            found.append(compare(last.detach(), "==", scale * torch.cat([one, other]).detach(), f"last states, {name}"))
    return found


def _stacked(layer: Any, inputs: Tensor, masks: list[Tensor]) -> Tensor:
    """Three layers of torch, one after the other, with multipliers between them."""
    hidden = inputs
    for number in range(3):
        single = type(layer)(hidden.shape[-1], 3, batch_first=True, bidirectional=layer.bidirectional).double()
        for name, part in single.named_parameters():
            part.data.copy_(getattr(layer, name.replace("_l0", f"_l{number}")))
        hidden = single(hidden)[0]
        hidden = hidden * masks[number] if number < 2 else hidden
    return hidden


class _Twice(nn.Module):
    """A dropout layer that is called twice, a function of the same kind, and a part that returns an object."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 3).double(), nn.Linear(3, 2).double()
        self.drop, self.odd = nn.Dropout(0.5), _Odd()

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.drop(self.first(inputs))
        hidden = self.drop(torch.tanh(hidden)) + self.odd(hidden).value
        return self.second(functional.dropout(hidden, 0.25, True))


class _Holder:
    def __init__(self, value: Tensor) -> None:
        self.value = value


class _Odd(nn.Module):
    def forward(self, value: Tensor) -> _Holder:
        return _Holder(2 * value)


def _replays(scale: float) -> list[Comparison]:
    """Parts that return what they returned before, up to every moment; what cannot be kept runs again."""
    found: list[Comparison] = []
    module, inputs = _Twice(), normal(1, 4, 2)
    recording = Recording()
    truth, trace = watched(module, lambda: module(inputs), lambda *_: 0.0, recording=recording)
    names = [call.site for call in trace.calls]
    found.append(same(names, ["drop", "drop@2", "dropout"], "names of places", scale))
    found.append(same(list(recording.places), names, "places in order", scale))
    kept = {name: [entry.kept for entry in recording.entries[part]] for name, part in module.named_children()}
    # what lies behind the last place is let go
    wanted = {"first": [True], "second": [False], "drop": [True, True], "odd": [False]}
    found.append(same(kept, wanted, "what is kept", scale))
    costs = {name: recording.entries[part][0].cost for name, part in module.named_children()}
    found.append(same(costs, {"first": 24.0, "second": 24.0, "drop": 0.0, "odd": 0.0}, "what parts cost", scale))
    found.append(compare(recording.share("dropout"), "==", scale * 0.5, "what is left"))
    found.append(compare(recording.share("nowhere"), "==", scale, "of an unknown place all"))
    for place, moment in recording.places.items():
        with torch.no_grad():
            again, replayed_trace = watched(
                module, lambda: module(2 * inputs), lambda *_: 0.0, replay=(recording, moment), recording=Recording()
            )
        if place == "drop":
            changed = module.second(_hidden(module, 1 * module.first(inputs)))
            found.append(compare(again, "==", scale * changed.detach(), "from the first place on"))
        found.append(
            same(
                [c.site for c in replayed_trace.calls],
                names[len(names) - len(replayed_trace.calls) :],
                f"names, {place}",
                scale,
            )
        )
        found.append(compare(again, "==", scale * truth.detach(), f"replayed to {place}"))
    found += _written_over(inputs, scale)
    early = recording.before(recording.places["drop"])
    found.append(same((list(early.places), early.clock), (["drop"], recording.places["drop"]), "the beginning", scale))
    large = Recording(size=MOST_BYTES)
    found.append(same(large._copied(inputs), (None, False), "no more memory", scale))
    copied, ok = Recording()._copied({"a": inputs, "b": (1, None, "x")})
    found.append(
        same((ok, torch.equal(copied["a"], inputs), copied["b"]), (True, True, (1, None, "x")), "copies", scale)
    )
    found.append(same(Recording()._copied([inputs, _Holder(inputs)]), (None, False), "an object", scale))
    found.append(same(own_cost(nn.Embedding(3, 2), inputs), 0.0, "look-ups are free", scale))
    found.append(same(own_cost(nn.Linear(2, 3), "text"), 0.0, "no tensor", scale))
    return found


class _Overwriting(nn.Module):
    """Writes over what its first layer returned, before and behind a place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop = nn.Linear(2, 3).double(), nn.Dropout(0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs)
        hidden += 1
        return self.drop(hidden).mul_(2) + hidden


def _written_over(inputs: Tensor, scale: float) -> list[Comparison]:
    """Neither a recorded run nor a replay changes what is kept by writing over it."""
    found: list[Comparison] = []
    module, recording, mask = _Overwriting(), Recording(), uniform(3, 4, 3)
    with torch.no_grad():
        watched(module, lambda: module(inputs), lambda *_: 0.0, recording=recording)
        hidden = module.first(inputs) + 1
        for turn, given in enumerate((None, None, mask)):
            told, _ = watched(
                module,
                lambda: module(0 * inputs),
                lambda *_, given=given: 0.0 if given is None else lambda _: given,
                replay=(recording, recording.places["drop"]),
            )
            # switched off, the layer returns what it was given: both terms are doubled
            wanted = 4 * hidden if given is None else 2 * given * hidden + hidden
            found.append(compare(told, "==", scale * wanted, f"replay {turn} of results that are written over"))
    return found


def _hidden(module: _Twice, value: Tensor) -> Tensor:
    return torch.tanh(value) + 2 * value


def _names(scale: float) -> list[Comparison]:
    """Every function that runs is told, random numbers are noted with their place, options reach operators."""
    found: list[Comparison] = []
    seen: list[str] = []

    class Noisy(nn.Module):
        def forward(self, value: Tensor) -> tuple[Tensor, Tensor]:
            seeded = torch.Generator().manual_seed(3)
            noise = torch.bernoulli(torch.full((2, 3), 0.5, dtype=torch.float64), generator=seeded)
            return torch.relu(value * noise), torch.zeros(2, 3, dtype=torch.float64)

    module, inputs = nn.Sequential(Noisy()), normal(1, 2, 3)
    (result, zeros), trace = watched(
        module,
        lambda: module(inputs),
        randomness=True,
        on_call=lambda func, args, options, value: seen.append(getattr(func, "__name__", "")),
    )
    found.append(same("relu" in seen, True, "functions are told", scale))
    found.append(same(zeros.dtype, torch.float64, "options reach operators", scale))
    own = torch.bernoulli(tensor([[0.5] * 3] * 2), generator=torch.Generator().manual_seed(3))
    found.append(compare(result, "==", scale * torch.relu(inputs * own), "and generators"))
    found.append(same(list(trace.hand_written), ["0.bernoulli"], "random numbers by place", scale))
    found.append(same(trace.drawn, {"0.bernoulli": [6]}, "how many", scale))
    part = nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.5)).train()
    part[0].eval()
    with evaluating(part):
        inner = [layer.training for layer in part.modules()]
        with evaluating(part):
            pass
        after = [layer.training for layer in part.modules()]
    found.append(same((inner, after), ([False] * 3, [False] * 3), "evaluation mode, twice", scale))
    found.append(same([layer.training for layer in part.modules()], [True, False, True], "modes come back", scale))
    return found


def _sites(scale: float) -> list[Comparison]:
    """Units of an inner layer, entry by entry or by channel, under one mask, a list, and one for every example."""
    found: list[Comparison] = []
    module = nn.Sequential(nn.Conv2d(1, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3)).double().eval()
    for number, part in enumerate(module.parameters()):
        part.data.copy_(normal(number + 1, *part.shape))
    inputs = normal(9, 4, 1, 3, 3)
    for channels, units in ((True, 2), (False, 8)):
        site = Site.of(module, "1", inputs, channels)
        found.append(same((site.units, site.shape), (units, (2, 2, 2)), f"units, {channels}", scale))
        for lead in ((), (5, 1), (4,), (5, 4)):
            masks = uniform(3, *lead, units)
            body = module[:2](inputs)
            shaped = masks.reshape(*lead, 2, 1, 1) if channels else masks.reshape(*lead, 2, 2, 2)
            wanted = (body * shaped).flatten(-3) @ module[3].weight.mT + module[3].bias
            told = site.outputs(inputs, masks)
            found.append(compare(told.detach(), "==", scale * wanted.detach(), f"masks {lead}, {channels}"))
        found.append(compare(site.outputs(inputs).detach(), "==", scale * module(inputs).detach(), "no masks"))
    return found


def _chains(scale: float) -> list[Comparison]:
    """Three linear layers with and without biases: losses over all masks, and by example."""
    found: list[Comparison] = []
    X, Y, held, aims = normal(1, 6, 2), normal(2, 6, 2), normal(3, 4, 2), normal(4, 4, 2)
    for biases in ((True, True, True), (True, False, True), (False, True, False)):
        layers = [nn.Linear(2, 3, biases[0]), nn.Linear(3, 2, biases[1]), nn.Linear(2, 2, biases[2])]
        layers = [layer.double() for layer in layers]
        for number, part in enumerate(value for layer in layers for value in layer.parameters()):
            part.data.copy_(normal(number + 5, *part.shape))
        flat = torch.cat(
            [part.detach().reshape(-1) for layer in layers for part in (layer.weight, layer.bias) if part is not None]
        )
        shapes = tuple((layer.weight.shape, None if layer.bias is None else layer.bias.shape) for layer in layers)
        ones = torch.cat([X, torch.ones(6, 1).double()], 1)
        moments = ones.mT @ ones / 6, Y.mT @ ones / 6, Y.square().sum() / 6
        more = torch.cat([held, torch.ones(4, 1).double()], 1)
        scan = ChainScan(flat, {"a": 0.1, "b": 0.2}, shapes, {"a": 1, "b": 2}, moments, (more, aims))
        rates = (0.3, 0.6)
        total = torch.zeros(()).double()
        for coins in itertools.product((0, 1), repeat=5):
            z = tensor([float(c) for c in coins])
            chance = math.prod((1 - r) if c else r for c, r in zip(coins, [0.3] * 3 + [0.6] * 2, strict=True))
            hidden = layers[1](layers[0](X) * z[:3] / 0.7)
            total = total + chance * (layers[2](hidden * z[3:] / 0.4) - Y).square().sum(1).mean()
        told = scan.objective(flat, tensor([r / (1 - r) for r in rates]))
        found.append(compare(told, "==", scale * total.detach(), f"loss of a chain, {biases}"))
        outputs = layers[2](layers[1](layers[0](held)))
        own = (outputs - aims).square().sum(1).detach()
        found.append(compare(scan.example_losses(flat), "==", scale * own, f"by example, {biases}"))
    features, targets = normal(5, 9, 3).numpy(), normal(6, 9, 2).numpy()
    for trained, rate in zip(_left_out(DropoutRidge(), (features, targets), (0.2, 0.6)), (0.2, 0.6), strict=True):
        each = left_out(features, targets, rate).sum(1)
        found.append(compare(trained.losses[0], "==", scale * each, f"left out, {rate}", 1e-7))
        W, b = refit(features, targets, rate)
        own_loss = float(((targets - features @ W - b) ** 2).sum(1).mean())
        found.append(compare(trained.training[0], "==", scale * own_loss, f"training loss, {rate}"))
    return found


def _examples(scale: float) -> list[Comparison]:
    """Arguments that are cut and joined along the examples, and those that are passed on as they are."""
    found: list[Comparison] = []
    rows, flag = normal(1, 5, 2), torch.tensor(3.0)
    batch = Batch((rows, "text", flag), {"mask": rows[:, 0], "size": 7}, torch.arange(5), 5)
    cut = take(batch, torch.tensor([4, 1]))
    found.append(compare(cut.arguments[0], "==", scale * rows[[4, 1]], "cut"))
    found.append(same((cut.arguments[1], float(cut.arguments[2])), ("text", 3.0), "passed on", scale))
    found.append(same((cut.options["size"], cut.count, cut.targets.tolist()), (7, 2, [4, 1]), "the others", scale))
    found.append(compare(cut.options["mask"], "==", scale * rows[[4, 1], 0], "options too"))
    first, second = Batch((rows, 2), {}, torch.arange(5), 5), Batch((rows[:3], 2), {}, torch.arange(3), 3)
    joined = _join([first, second])
    assert joined is not None
    found.append(compare(joined.arguments[0], "==", scale * torch.cat([rows, rows[:3]]), "joined"))
    found.append(same((joined.arguments[1], joined.count, len(joined.targets)), (2, 8, 8), "with what is alike", scale))
    others = [
        Batch((rows, 3), {}, torch.arange(5), 5),
        Batch((rows, 2), {"x": 1}, torch.arange(5), 5),
        Batch((rows,), {}, torch.arange(5), 5),
        Batch((rows[:, :1], 2), {}, torch.arange(5), 5),
        Batch((rows.float(), 2), {}, torch.arange(5), 5),
        Batch((rows[:4], 2), {}, torch.arange(5), 5),
        Batch((rows, 2), {}, torch.arange(5), 5, graph=object()),
    ]
    for number, other in enumerate(others):
        found.append(same(_join([first, other]), None, f"not joined {number}", scale))
    found.append(same(_column([torch.tensor(1.0), torch.tensor(1.0)], [1, 1]), None, "no dimension", scale))
    found.append(same(_column([4, 4], [1, 2]), (4,), "numbers that agree", scale))
    whole, parts = Examples((joined,), True), Examples((first, others[0]), False)
    found.append(same((whole.count, whole.steps(3), whole.sizes(3)), (8, 3, [3, 2]), "batches of one", scale))
    found.append(same((whole.sizes(4), whole.sizes(20), parts.sizes(2)), ([4], [8], [5]), "their sizes", scale))
    found.append(same((parts.count, parts.steps(3), parts.units), (10, 2, 10), "batches as they came", scale))
    found.append(same([part.count for part in whole.in_order(3)], [3, 3, 2], "in order", scale))
    some = whole.some(4, 1)
    found.append(
        same((some.count, whole.some(8, 1) is whole, parts.some(2, 1) is parts), (4, True, True), "some", scale)
    )
    order = whole.order(2, 5)
    found.append(same(sorted(order.tolist()), list(range(8)), "an order", scale))
    found.append(
        compare(whole.batch(order, 1, 3).arguments[0], "==", scale * joined.arguments[0][order[3:6]], "a batch")
    )
    found += _of_examples(scale)
    digests = {item.digest() for item in (whole, parts, Examples((joined,), False), some)}
    found.append(same((len(digests), whole.digest()), (4, Examples((joined,), True).digest()), "digests", scale))
    return found


def _of_examples(scale: float) -> list[Comparison]:
    """A loss for every example: the mean over its labels that count, none where none does.

    A loss that knows means alone is asked for one example at a time; the number that a module returns stays as it is.
    """
    found: list[Comparison] = []
    logits, labels = normal(6, 4, 3, 2), torch.tensor([[0, 1, 1], [1, -100, -100], [-100] * 3, [0, -100, 1]])
    each = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").reshape(4, 3)
    own = each.sum(1) / tensor([3.0, 1.0, 1.0, 2.0])
    many, rows = Batch((), {}, labels, 4), Batch((), {}, normal(7, 4, 3), 4)
    found.append(compare(example_losses(Labels(), logits, many), "==", scale * own, "means over labels"))
    outputs, wanted = normal(8, 4, 3), normal(7, 4, 3)
    errors = (outputs - wanted).square().sum(1)
    found.append(compare(example_losses(Squared(), outputs, rows), "==", scale * errors, "sums over outputs"))

    def mean(told: Tensor, goal: Tensor) -> Tensor:
        return (told - goal).abs().mean()

    told = example_losses(mean, outputs, rows)
    found.append(compare(told, "==", scale * (outputs - wanted).abs().mean(1), "a loss that knows means alone"))
    single = Batch((), {}, wanted, 4, own_loss=True)
    told = example_losses(mean, tensor([2.5]).float(), single)
    found.append(compare(told, "==", scale * 2.5, "the loss of a module"))
    return found


def _answers(scale: float) -> list[Comparison]:
    """An answer is written, read and drawn: every field, the band two errors wide, the level of a constant."""
    found: list[Comparison] = []
    points = tuple(
        Point("scan", {"a": rate}, loss, 0.1, loss - 1.0, error, loss < 1.2, 0.5 * loss, (3, None), 2)
        for rate, loss, error in ((0.1, 1.4, 0.2), (0.3, 1.0, None), (0.5, 1.1, 0.05))
    )
    points += (
        Point("scan", {"a": 0.7}, None, None, None, None, False, None, (), 2),
        Point("guard", {"a": 0.2}, 1.0, 0.1, 0.0, None, True, 0.4, (1,), 1),
    )
    answer = Rates(
        {"a": 0.3},
        (SiteRate("a", "dropout", 0.5, 0.3, "resolved", "a", -0.1, 0.02),),
        points,
        Cost(8, 2, 1.5, True),
        "resolved",
        "because",
        0.3,
        (0.3, 0.5),
        Gap(0.5, 1.4, 0.25, None),
        1.7,
        Split(False, "no gain", 0.1, 0.2),
        {"b": "not asked"},
        "scan",
        ("a note",),
    )
    for lacks in ({}, {"gap": None}, {"split": None}, {"gap": None, "split": None, "notes": (), "constant": None}):
        less = replace(answer, **lacks)
        found.append(same(Rates.from_dict(less.to_dict()), less, f"written and read without {list(lacks)}", scale))
    figure = answer.plot()
    axes = figure.axes[0]
    edges = axes.collections[0].get_paths()[0].vertices
    for rate, low, high in ((0.1, 1.0, 1.8), (0.3, 1.0, 1.0), (0.5, 1.0, 1.2)):
        heights = [float(y) for x, y in edges if abs(float(x) - rate) < 1e-12]
        found.append(compare([min(heights), max(heights)], "==", [scale * low, scale * high], f"band at {rate}"))
    lines = {str(line.get_label()): [float(y) for y in line.get_ydata()] for line in axes.lines}
    found.append(compare(lines["validation"], "==", [scale * y for y in (1.4, 1.0, 1.1)], "validation"))
    found.append(compare(lines["training, without dropout"], "==", [scale * y for y in (0.7, 0.5, 0.55)], "training"))
    level = next(values for name, values in lines.items() if name.startswith("best constant"))
    found.append(compare(level, "==", scale * 1.7, "best constant"))
    found.append(same(axes.get_title(), "resolved: 0.3", "title", scale))
    return found
