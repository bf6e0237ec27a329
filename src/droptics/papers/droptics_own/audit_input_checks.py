"""What claims on the surroundings of audits compare: batches and outputs of every form, rules on traces, pages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from droptics.audits import misuses, surroundings
from droptics.audits.batches import Batch, accepted, adapted, batches, count_batches, output_of, own_loss
from droptics.audits.digest import groups, heat_map, largest
from droptics.audits.findings import KINDS, Remark, finding, remarks
from droptics.audits.html import _cell, breakable, slider
from droptics.audits.layer_drop import held_layers, leaving_out, quiet_parts
from droptics.audits.outcomes import left_out
from droptics.audits.passes import OwnMask, Passes
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.models.watching import Call, Trace
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, tensor

CPU = torch.device("cpu")


def audited_inputs(scale: float) -> list[Comparison]:
    """Batches, outputs, rules, layers that are left out, heat maps."""
    return [
        *_batches(scale),
        *_outputs(scale),
        *_graphs(scale),
        *_rules(scale),
        *_around(scale),
        *_layers(scale),
        *_pages(scale),
        *_registered(scale),
    ]


class Examples(Dataset[Any]):
    """A data set of given items."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> Any:
        return self.items[place]


class Graph:
    """What a graph of PyTorch Geometric shows of itself."""

    def __init__(self, x: Tensor, y: Tensor, train_mask: Tensor | None = None) -> None:
        self.x, self.y, self.edge_index = x, y, torch.tensor([[0, 1], [1, 2]])
        if train_mask is not None:
            self.train_mask = train_mask

    def to(self, device: torch.device) -> Graph:
        return self


def _seen(data: Any, size: int) -> list[Any]:
    """Positional arguments, named ones, targets, count and the key of every batch, as plain lists."""

    def plain(value: Any) -> Any:
        return value.tolist() if isinstance(value, Tensor) else value

    return [
        (
            [plain(value) for value in batch.arguments],
            {name: plain(value) for name, value in batch.options.items()},
            plain(batch.targets),
            batch.count,
            batch.key,
        )
        for batch in batches(data, CPU, size)
    ]


def _batches(scale: float) -> list[Comparison]:
    """Every form of data, cut at the batch size where it has none of its own."""
    found: list[Comparison] = []
    x, z = torch.arange(10.0).reshape(5, 2), torch.arange(5.0) - 1
    y = torch.tensor([0, 2, 1, 1, 0])
    X, Z, Y = x.tolist(), z.tolist(), y.tolist()
    parts = [slice(0, 2), slice(2, 4), slice(4, 6)]
    plain: list[Any] = [([X[part]], {}, Y[part], len(Y[part]), None) for part in parts]
    named: list[Any] = [([], {"a": X[part], "b": Z[part]}, Y[part], len(Y[part]), None) for part in parts]
    paired: list[Any] = [([X[part], Z[part]], {}, Y[part], len(Y[part]), None) for part in parts]
    keyed: list[Any] = [([], {"a": X[part]}, Y[part], len(Y[part]), "labels") for part in parts]
    more: list[Any] = [([], {"a": X[part], "n": 3}, Y[part], len(Y[part]), "labels") for part in parts]
    singles = list(zip(x, Y, strict=True))
    cases: tuple[tuple[str, Any, list[Any]], ...] = (
        ("sample", Sample(x, y), plain),
        ("pair", (x, y), plain),
        ("tuple of inputs", ((x, z), y), paired),
        ("list of inputs", ([x, z], y), paired),
        ("named inputs", ({"a": x, "b": z}, y), named),
        ("data set", TensorDataset(x, y), plain),
        ("loader", DataLoader(TensorDataset(x, y), batch_size=2), plain),
        ("single examples", iter(singles), plain),
        ("single dictionaries", [{"a": row, "labels": label} for row, label in singles], keyed),
        ("single targets", [{"a": row, "labels": label} for row, label in zip(x, y, strict=True)], keyed),
        ("set of dictionaries", Examples([{"a": row, "labels": label} for row, label in singles]), keyed),
        ("batches", [(x[part], y[part]) for part in parts], plain),
        ("batches of two inputs", [(x[part], z[part], y[part]) for part in parts], paired),
        ("nested batches", [((x[part], z[part]), y[part]) for part in parts], paired),
        ("named batches", [({"a": x[part], "b": z[part]}, y[part]) for part in parts], named),
        ("dictionaries", [{"a": x[part], "labels": y[part], "n": 3} for part in parts], more),
    )
    for name, data, wanted in cases:
        found.append(same(_seen(data, 2), wanted, f"batches of {name}", scale))
    keys = [
        next(iter(batches([{"a": x, key: y}], CPU, 2))).key for key in ("targets", "labels", "target", "label", "y")
    ]
    found.append(same(keys, ["targets", "labels", "target", "label", "y"], "keys of targets", scale))
    both = next(iter(batches([{"a": x, "y": z, "labels": y}], CPU, 2)))
    found.append(same((both.key, both.targets.tolist(), list(both.options)), ("labels", Y, ["a", "y"]), "both", scale))
    for data, size, count in (
        (Sample(x, y), 2, 3),
        ((x, y), 5, 1),
        ((x, y), 4, 2),
        (((x, z), y), 1, 5),
        (DataLoader(TensorDataset(x, y), batch_size=4), 1, 2),
        (TensorDataset(x, y), 2, None),
        ([(x, y)], 2, None),
    ):
        found.append(same(count_batches(data, size), count, f"how many of {size}", scale))
    added = Batch((x,), {"n": 1}, y, 5).with_targets(own_loss=True)
    found.append(same((list(added.options), added.own_loss), (["n", "labels"], True), "with targets", scale))
    keyed_one = Batch((), {}, y, 5, "target").with_targets()
    found.append(same((list(keyed_one.options), keyed_one.own_loss), (["target"], False), "by their name", scale))
    for bad, words in (
        ((x[:0], y[:0]), "at least one example"),
        (Examples([]), "at least one example"),
        ([], "at least one batch, got none"),
        (x, "must be a Sample, a pair"),
        ("text", "must be a Sample, a pair"),
        (3, "must be a Sample, a pair"),
        ([x], "must yield batches"),
        ([(x,)], "must yield batches"),
        ([{"a": x}], "must have the key 'targets' or 'labels', it has ['a']"),
        ([(x, torch.tensor(1))], "last item is the tensor of targets"),
        ([(x, "no")], "last item is the tensor of targets"),
        ([(x, x * math.nan, y)], "input 1 of a batch"),
    ):
        found.append(refuses(lambda bad=bad: _seen(bad, 2), words, f"refused, {words}", scale))
    return found


def _outputs(scale: float) -> list[Comparison]:
    """The output, or the loss, in what modules return."""
    found: list[Comparison] = []
    out, other, one = normal(1, 3, 2), normal(2, 3, 2), tensor(2.5)
    result: Any
    batch, lossy = Batch((), {}, torch.zeros(3), 3), Batch((), {}, torch.zeros(3), 3, own_loss=True)
    part = Batch((), {}, torch.zeros(2), 2, rows=torch.tensor([True, False, True]))
    for name, result in (
        ("tensor", out),
        ("logits", {"other": other, "logits": out}),
        ("out before prediction", {"prediction": other, "out": out}),
        ("the only tensor", {"words": "x", "any": out}),
        ("nested", {"logits": (out, other)}),
        ("an object", SimpleNamespace(logits=out, other=other)),
        ("first of several", (out, other)),
        ("first of a list", [[out], other]),
    ):
        found.append(compare(output_of(result, batch), "==", scale * out, f"output, {name}"))
        found.append(compare(output_of(result, part), "==", scale * out[[0, 2]], f"rows that count, {name}"))
    for name, result in (
        ("dictionary", {"loss": one, "logits": out}),
        ("object", SimpleNamespace(loss=one)),
        ("first of several", (one, out)),
        ("first of a list", [one]),
    ):
        found.append(compare(own_loss(result), "==", scale * 2.5, f"loss, {name}"))
        found.append(compare(output_of(result, lossy), "==", scale * tensor([2.5]), f"loss as output, {name}"))
    for result, words in (
        (torch.tensor(1.0), "one row per example"),
        (out + 1j, "one row per example"),
        ({"a": out, "b": other}, "none of"),
        ("text", "must return a tensor"),
        ((), "must return a tensor"),
    ):
        found.append(refuses(lambda result=result: output_of(result, batch), words, f"refused, {words}", scale))
    for result in ({"logits": out}, (out, one), (), None, SimpleNamespace(loss=3.0)):
        found.append(refuses(lambda result=result: own_loss(result), "returns its loss", "no loss", scale))
    return found


def _graphs(scale: float) -> list[Comparison]:
    """Graphs, one or several, whole or by the names of arguments; only nodes for training are compared."""
    found: list[Comparison] = []
    x, y, mask = normal(1, 3, 2), torch.tensor([0, 1, 1]), torch.tensor([True, False, True])

    class Named(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor | None = None) -> Tensor:
            return x

    class Whole(nn.Module):
        def forward(self, data: Graph) -> Tensor:
            return data.x

    for data in (Graph(x, y, mask), [Graph(x, y, mask)], Examples([Graph(x, y, mask)])):
        (batch,) = batches(data, CPU, 2)
        told = (batch.targets.tolist(), batch.count, batch.rows is mask, len(batch.arguments))
        found.append(same(told, ([0, 1], 2, True, 1), f"nodes for training, {type(data).__name__}", scale))
        taken = adapted(Named(), batch)
        found.append(same((taken.arguments, list(taken.options)), ((), ["x", "edge_index"]), "by name", scale))
        found.append(same(adapted(Whole(), batch) is batch, True, "as a whole", scale))
    for odd in (None, mask[:2], mask[:, None]):
        (batch,) = batches(Graph(x, y, odd), CPU, 2)
        found.append(same((batch.rows, batch.count, batch.targets.tolist()), (None, 3, [0, 1, 1]), "all nodes", scale))
    plain = Batch((x,), {}, y, 3)
    found.append(same(adapted(Named(), plain) is plain, True, "no graph", scale))
    found.append(same(accepted(Named()), ["x", "edge_index", "weight"], "names of arguments", scale))
    return found


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


def _rules(scale: float) -> list[Comparison]:
    """Rules about the use of dropout, each on a trace that shows it once and nearly shows it beside."""
    found: list[Comparison] = []
    layer, idle, alpha = nn.Dropout(0.3), nn.Dropout(0.25), nn.AlphaDropout(0.0)
    attention = nn.MultiheadAttention(4, 2, dropout=0.2)
    held = nn.ModuleList([nn.Dropout(0.4), nn.Dropout(0.0)])
    net = nn.ModuleDict({"a": layer, "b": idle, "c": alpha, "d": attention, "e": held})
    seen = Trace([_call("f", "dropout", 0.4, net)], visited={layer})
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
    own = [
        OwnMask("sound", 0.5, (source, source * kept * 2), False, False),
        OwnMask("rate", 0.2, (source, source * kept * 2), True, False),
        OwnMask("bare", 0.5, (source, source * kept), False, False),
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


def _around(scale: float) -> list[Comparison]:
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
    return found


class Skipping(nn.Module):
    """A stack of layers, each of which is left out with some probability."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.layers, self.layerdrop, self.head = nn.ModuleList([nn.ReLU(), nn.Tanh()]), rate, nn.Identity()


def _layers(scale: float) -> list[Comparison]:
    """Layers that are left out as a whole: by which part, at which rate, and what it adds."""
    found: list[Comparison] = []
    whole = nn.ModuleDict({"one": Skipping(0.2), "two": Skipping(0.0), "three": nn.Dropout(0.3)})
    for drawn, wanted in (
        ({"one.rand": [1, 1]}, {"one": 0.2}),
        ({"one.rand": [1, 1], "two.rand": [1]}, {"one": 0.2, "two": 0.0}),
        ({"one.rand": [1, 2]}, {}),
        ({"three.rand": [1]}, {}),
        ({}, {}),
    ):
        found.append(same(leaving_out(whole, Trace(drawn=drawn)), wanted, f"left out: {wanted}", scale))
    found.append(same(leaving_out(Skipping(1.0), Trace(drawn={"rand": [1]})), {}, "no probability", scale))
    found.append(same(leaving_out(Skipping(0.1), Trace(drawn={"rand": [1]})), {"": 0.1}, "the module itself", scale))
    found.append(same(held_layers(whole, "one"), ["one.layers.0", "one.layers.1"], "its layers", scale))
    found.append(same(held_layers(Skipping(0.1), ""), ["layers.0", "layers.1"], "layers of the module", scale))
    found.append(same(quiet_parts(whole, ["one.layers.1"]), ["one", "two"], "parts that decide", scale))

    sums, skipped = tensor([1.0, 2.0]), tensor([3.0, 5.0])
    seen: list[Any] = []

    class Asked:
        def losses(self, masks: Any, start: Any) -> Tensor:
            seen.append((list(masks), [float(value) for value in masks["a"]], start[1]))
            return skipped

    base: Any = SimpleNamespace(recording=SimpleNamespace(places={"a": 7}), sums=sums)
    told = left_out(Asked(), base, SimpleNamespace(name="a", rate=0.2))  # type: ignore[arg-type]
    found.append(compare(told, "==", scale * 0.2 * (skipped - sums), "what leaving out adds"))
    found.append(same(seen, [(["a"], [0.0], 7)], "what is run", scale))
    absent = left_out(Asked(), base, SimpleNamespace(name="b", rate=0.2))  # type: ignore[arg-type]
    found.append(compare(1 + absent, "==", scale * tensor([1.0, 1.0]), "never reached"))
    return found


def _item(name: str, value: float | None, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    number = {"value": value, "lower": value if low is None else low, "upper": value if high is None else high}
    site = {"name": name, "kind": "dropout", "rate": 0.1, "reason": None}
    return {"site": site, "penalty": number | {"method": "exact"}, "share": 0.1, "curve": []}


def _pages(scale: float) -> list[Comparison]:
    """Heat maps, their cells, and sites in the order in which they run."""
    found: list[Comparison] = []
    for value, low, high, color, ink, text in (
        (4.0, 3.0, 5.0, (8, 48, 107), "#fff", "4"),
        (1.0, -1.0, 3.0, (132, 152, 181), "#fff", "(1)"),
        (-0.04, -0.05, -0.03, (230, 234, 240), "#111", "-0.04"),
        (0.0, None, None, (255, 255, 255), "#111", "0"),
        (16.0, 15.0, 17.0, (8, 48, 107), "#fff", "16"),
        (0.123456, 0.0, 1.0, (212, 219, 229), "#111", "0.12"),
    ):
        cell = f'<td class="n" style="background:rgb({color[0]},{color[1]},{color[2]});color:{ink}">{text}</td>'
        found.append(same(str(_cell(_item("a", value, low, high), 4.0)), cell, f"a cell of {value}", scale))
    none = '<td class="none"><span class="hidden">no site</span></td>'
    found.append(same(str(_cell(None, 4.0)), none, "no site", scale))
    for odd in (_item("a", None), _item("a", 1.0) | {"penalty": None}):
        found.append(same(str(_cell(odd, 4.0)), '<td class="none">?</td>', "no number", scale))
    found.append(same(str(breakable("a.b<c")), "a.<wbr>b&lt;c", "names that break", scale))
    points = [{"rate": 0.1, "training_loss": 2.0}, {"rate": 0.3, "training_loss": 2.5}]
    found.append(same(slider({"curve": points}), "[[0.1, 2.0], [0.3, 2.5]]", "a slider", scale))
    names = [f"net.layers.{layer}.{part}" for layer in range(10, 2, -1) for part in ("z", "a.drop")]
    sites = [_item(name, 0.25 - k) for k, name in enumerate(names) if name != "net.layers.4.z"]
    heat = heat_map({"sites": [*sites, _item("head", 99.0)]})
    assert heat is not None
    found.append(
        same((list(heat.places), list(heat.layers)), (["z", "a.drop"], [*map(str, range(3, 11))]), "axes", scale)
    )
    cells = [[None if cell is None else cell["site"]["name"] for cell in row] for row in heat.cells]
    wanted = [[f"net.layers.{layer}.z" if layer != 4 else None, f"net.layers.{layer}.a.drop"] for layer in range(3, 11)]
    found.append(same(cells, wanted, "cells", scale))
    found.append(compare(heat.most, "==", scale * 14.75, "the largest"))
    two = [_item(f"l.{layer}.{part}", 1.0) for layer in range(2) for part in "abcdef"]
    found.append(same((heat_map({"sites": two}) is None, heat_map({"sites": two[:11]})), (False, None), "few", scale))
    found.append(same(heat_map({"sites": [_item(f"l.0.{part}", 1.0) for part in "abcdefghijklm"]}), None, "one", scale))
    order = [(group.place, list(group.names)) for group in groups({"sites": sites[:4]})]
    found.append(
        same(order, [("net.layers.*.z", names[0:4:2]), ("net.layers.*.a.drop", names[1:4:2])], "groups", scale)
    )
    ranked = [item["site"]["name"] for item in largest({"sites": [*sites[:4], _item("x", None)]}, 3)]
    found.append(same(ranked, [names[3], names[2], names[1]], "largest first", scale))
    return found


def _registered(scale: float) -> list[Comparison]:
    """A rule of one's own has its texts and speaks in the order of codes; a code is taken once."""
    found: list[Comparison] = []

    def rule(evidence: Any) -> Iterator[Remark]:
        yield Remark("a", "seen")
        yield Remark("b", "seen too", "do that")

    rule.__doc__ = "What it means."

    def another(evidence: Any) -> Iterator[Remark]:
        yield Remark("c", "first")

    class Evidence:
        pass

    def enter(code: str, level: str, what: Any) -> Any:
        return finding(code, level, "a title", asks=Evidence, evidence="what was seen", mend="mend it")(what)

    try:
        found.append(
            same(enter("XX2", "note", rule) is rule and enter("XX2", "note", rule) is rule, True, "twice", scale)
        )
        enter("XX1", "bug", another)
        kind = KINDS["XX2"]
        texts = (kind.code, kind.level, kind.title, kind.meaning, kind.evidence, kind.mend, kind.asks, kind.rule)
        wanted = ("XX2", "note", "a title", "What it means.", "what was seen", "mend it", Evidence, rule)
        found.append(same(texts, wanted, "a kind of one's own", scale))
        found.append(same(KINDS["XX1"].meaning, "", "no docstring", scale))
        told = [(one.level, one.site, one.text, one.advice, one.code) for one in remarks(Evidence())]
        said = [
            ("bug", "c", "first", "mend it", "XX1"),
            ("note", "a", "seen", "mend it", "XX2"),
            ("note", "b", "seen too", "do that", "XX2"),
        ]
        found.append(same(told, said, "findings by code", scale))
        found.append(refuses(lambda: enter("XX2", "note", another), "is taken by 'a title'", "", scale))
        found.append(refuses(lambda: enter("XX3", "hint", another), "level must be one of", "", scale))
    finally:
        KINDS.pop("XX1", None)
        KINDS.pop("XX2", None)
    return found
