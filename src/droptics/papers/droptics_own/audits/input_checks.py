"""What claims on the inputs of audits compare: batches and outputs of every form, graphs; rules and pages beside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from droptics.audits.batches import Batch, accepted, adapted, batches, count_batches, output_of, own_loss
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.audits.page_checks import layers, pages, registered
from droptics.papers.droptics_own.audits.rule_checks import around, rules
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, tensor

CPU = torch.device("cpu")


def audited_inputs(scale: float) -> list[Comparison]:
    """Batches, outputs, rules, layers that are left out, heat maps."""
    return [
        *_batches(scale),
        *_outputs(scale),
        *_graphs(scale),
        *rules(scale),
        *around(scale),
        *layers(scale),
        *pages(scale),
        *registered(scale),
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
        found.append(refuses(lambda bad=bad: _seen(bad, 2), words, f"refused, {words}"))
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
        found.append(refuses(lambda result=result: output_of(result, batch), words, f"refused, {words}"))
    for result in ({"logits": out}, (out, one), (), None, SimpleNamespace(loss=3.0)):
        found.append(refuses(lambda result=result: own_loss(result), "returns its loss", "no loss"))
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
