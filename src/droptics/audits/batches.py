"""Batches as people have them (tensors, dictionaries, graphs, data sets, loaders), outputs as modules return them."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from droptics.checks import check_finite
from droptics.data import Sample

TARGET_KEYS = ("targets", "labels", "target", "label", "y")
OUTPUT_KEYS = ("logits", "out", "output", "prediction", "last_hidden_state")


@dataclass(frozen=True)
class Batch:
    """What the module is called with, what its outputs are compared with, and how many examples there are."""

    arguments: tuple[Any, ...]
    options: dict[str, Any]
    targets: Tensor
    count: int
    key: str | None = None  # name that the targets had in a dictionary
    own_loss: bool = False  # whether the loss that the module returns is its output
    rows: Tensor | None = None  # outputs that are compared with the targets; all of them where None
    graph: Any = None  # the graph (of PyTorch Geometric) that the batch is

    def with_targets(self, *, own_loss: bool = False) -> Batch:
        """The same batch, with the targets among what the module is called with."""
        return replace(self, options={**self.options, self.key or "labels": self.targets}, own_loss=own_loss)


def batches(data: object, device: torch.device, batch_size: int) -> Iterator[Batch]:
    """Batches of a Sample, a pair (inputs, targets) of tensors, a data set of examples, a graph, or a loader.

    A loader is any iterable of pairs, dictionaries or graphs; one that yields single examples is collected.
    """
    if isinstance(data, Sample):
        if data.weights is not None:
            raise ValueError("data must not have weights: every example counts once")
        data = (data.inputs, data.targets)
    if isinstance(data, tuple) and len(data) == 2 and _is_tensors(data[0]) and isinstance(data[1], Tensor):
        if not len(data[1]):
            raise ValueError("data must hold at least one example, got none")
        for start in range(0, len(data[1]), batch_size):
            part = slice(start, start + batch_size)
            yield _batch((_sliced(data[0], part), data[1][part]), device)
        return
    data = [data] if _is_graph(data) else data
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        data = _loader(data, batch_size)
    if not isinstance(data, Iterable) or isinstance(data, (str, Tensor)):
        raise ValueError(f"data must be a Sample, a pair (inputs, targets) or a loader, got {type(data).__name__}")
    items = iter(data)
    first = next(items, None)
    if first is None:
        raise ValueError("data must yield at least one batch, got none (a used-up iterator?)")
    every = itertools.chain([first], items)
    collected = map(default_collate, iter(lambda: list(itertools.islice(every, batch_size)), []))
    yield from (_batch(item, device) for item in (collected if _is_single(first) else every))


def count_batches(data: object, batch_size: int) -> int | None:
    """How many batches `batches` will yield, where that is known beforehand."""
    examples = data[1] if isinstance(data, tuple) and len(data) == 2 else data
    if isinstance(examples, (Sample, Tensor)):
        return math.ceil(len(examples) / batch_size)
    return len(data) if isinstance(data, DataLoader) and not isinstance(data.dataset, IterableDataset) else None


def _loader(data: Dataset[Any], batch_size: int) -> Iterable[Any]:
    """A data set of single examples in batches; graphs and what else is a batch of its own stay single."""
    size = len(data)  # type: ignore[arg-type]
    if size == 0:
        raise ValueError("data must hold at least one example, got none")
    if _is_graph(data[0]):
        return (data[position] for position in range(size))
    return DataLoader(data, batch_size=batch_size)


def _is_single(item: Any) -> bool:
    """Whether it is an example rather than a batch: its target is one number."""
    if isinstance(item, Mapping):
        target = next((item[key] for key in TARGET_KEYS if key in item), None)
        return isinstance(target, (int, float)) or (isinstance(target, Tensor) and target.ndim == 0)
    return isinstance(item, (tuple, list)) and len(item) > 1 and isinstance(item[-1], (int, float))


def _is_graph(item: object) -> bool:
    return hasattr(item, "edge_index") and hasattr(item, "y") and hasattr(item, "to")


def _batch(item: Any, device: torch.device) -> Batch:
    if _is_graph(item):
        return _graph(item.to(device))
    if isinstance(item, Mapping):
        rest = {name: _to(value, device) for name, value in item.items()}
        for key in TARGET_KEYS:
            if key in rest:
                targets = rest.pop(key)
                return Batch((), rest, targets, len(targets), key)
        raise ValueError(f"a batch that is a dictionary must have the key 'targets' or 'labels', it has {sorted(rest)}")
    if not isinstance(item, (tuple, list)) or len(item) < 2:
        raise ValueError(f"data must yield batches (inputs, ..., targets) or dictionaries, got {type(item).__name__}")
    *inputs, targets = item
    if not isinstance(targets, Tensor) or targets.ndim == 0:
        raise ValueError("data must yield batches whose last item is the tensor of targets, one per example")
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        options = {name: _to(value, device) for name, value in inputs[0].items()}
        return Batch((), options, _to(targets, device), len(targets))
    if len(inputs) == 1 and isinstance(inputs[0], (tuple, list)):
        inputs = list(inputs[0])
    arguments = tuple(_to(value, device) for value in inputs)
    for position, value in enumerate(arguments):
        if isinstance(value, Tensor) and value.is_floating_point():
            check_finite(value, f"input {position} of a batch")
    return Batch(arguments, {}, _to(targets, device), len(targets))


def _graph(item: Any) -> Batch:
    """A graph, or several in one; where it says which nodes are for training, only those are compared."""
    rows, targets = getattr(item, "train_mask", None), item.y
    if not (isinstance(rows, Tensor) and rows.ndim == 1 and len(rows) == len(targets)):
        rows = None
    chosen = targets if rows is None else targets[rows]
    return Batch((item,), {}, chosen, len(chosen), rows=rows, graph=item)


def adapted(module: nn.Module, batch: Batch) -> Batch:
    """The batch in the form in which the module takes it: graphs as such, or by the names of its arguments."""
    if batch.graph is None:
        return batch
    names = accepted(module)
    if "edge_index" not in names:
        return batch
    values = {name: getattr(batch.graph, name, None) for name in names}
    return replace(batch, arguments=(), options={name: value for name, value in values.items() if value is not None})


def accepted(module: nn.Module) -> list[str]:
    """Names of the arguments of `forward`."""
    try:
        return list(inspect.signature(module.forward).parameters)
    except (TypeError, ValueError):  # compiled
        return []


def _to(value: Any, device: torch.device) -> Any:
    return value.to(device) if isinstance(value, Tensor) else value


def _is_tensors(value: object) -> bool:
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, (tuple, list)) else [value]
    return all(isinstance(item, Tensor) for item in items)


def _sliced(value: Any, part: slice) -> Any:
    if isinstance(value, Tensor):
        return value[part]
    if isinstance(value, Mapping):
        return {name: item[part] for name, item in value.items()}
    return tuple(item[part] for item in value)


def run(module: nn.Module, batch: Batch) -> Tensor:
    """Call the module and find the output tensor in what it returns."""
    return output_of(module(*batch.arguments, **batch.options), batch)


def output_of(result: Any, batch: Batch) -> Tensor:
    """The output tensor in what a module returned for this batch."""
    if batch.own_loss:
        return own_loss(result).reshape(1)
    outputs = _tensor(result)
    if outputs.ndim == 0 or outputs.dtype.is_complex:
        got = f"a tensor of shape {tuple(outputs.shape)} ({outputs.dtype})"
        raise ValueError(f"the module must return real numbers with one row per example, it returned {got}")
    return outputs if batch.rows is None else outputs[batch.rows]


def own_loss(result: Any) -> Tensor:
    """The loss that a module returns when it is called with labels."""
    value = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    if value is None and isinstance(result, (tuple, list)) and result:
        value = result[0]
    if not isinstance(value, Tensor) or value.numel() != 1:
        got = f"{type(result).__name__}; name a loss, or return the loss as `loss`"
        raise ValueError(f"loss='model' needs a module that returns its loss, this one returned {got}")
    return value


def _tensor(result: Any) -> Tensor:
    if isinstance(result, Tensor):
        return result
    if isinstance(result, Mapping):
        for key in OUTPUT_KEYS:
            if key in result:
                return _tensor(result[key])
        tensors = [value for value in result.values() if isinstance(value, Tensor)]
        if len(tensors) == 1:
            return tensors[0]
        found = f"a dictionary with keys {list(result)} and none of {list(OUTPUT_KEYS)}"
        raise ValueError(f"the module returns {found}; wrap it in a module that returns the output alone")
    if hasattr(result, "logits"):
        return _tensor(result.logits)
    if isinstance(result, (tuple, list)) and result:
        return _tensor(result[0])
    raise ValueError(f"the module must return a tensor, a tuple or a dictionary, it returned {type(result).__name__}")
