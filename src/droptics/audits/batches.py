"""Batches as people have them: tensors, tuples, dictionaries, loaders; outputs as modules return them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from droptics.checks import check_finite
from droptics.data import Sample
from droptics.losses import CrossEntropy, Logistic, Loss, Squared

LOSSES: dict[str, Loss] = {"squared": Squared(), "cross-entropy": CrossEntropy(), "logistic": Logistic()}
OUTPUT_KEYS = ("logits", "out", "output", "prediction", "last_hidden_state")


@dataclass(frozen=True)
class Batch:
    """What the module is called with, what its outputs are compared with, and how many examples there are."""

    arguments: tuple[Any, ...]
    options: dict[str, Any]
    targets: Tensor
    count: int


def batches(data: object, device: torch.device, batch_size: int) -> Iterator[Batch]:
    """Batches of a Sample, of a pair (inputs, targets) of tensors, or of an iterable that yields such pairs."""
    if isinstance(data, Sample):
        data = (data.inputs, data.targets)
    if isinstance(data, tuple) and len(data) == 2 and _is_tensors(data[0]) and isinstance(data[1], Tensor):
        count = len(data[1])
        if count == 0:
            raise ValueError("data must hold at least one example, got none")
        for start in range(0, count, batch_size):
            part = slice(start, start + batch_size)
            yield _batch((_sliced(data[0], part), data[1][part]), device)
        return
    if not isinstance(data, Iterable):
        raise ValueError(f"data must be a Sample, a pair (inputs, targets) or a loader, got {type(data).__name__}")
    empty = True
    for item in data:
        empty = False
        yield _batch(item, device)
    if empty:
        raise ValueError("data must yield at least one batch, got none (a used-up iterator?)")


def _batch(item: Any, device: torch.device) -> Batch:
    if isinstance(item, Mapping):
        rest = dict(item)
        for key in ("targets", "labels", "target", "label", "y"):
            if key in rest:
                targets = rest.pop(key)
                return Batch(
                    (), {name: _to(value, device) for name, value in rest.items()}, _to(targets, device), len(targets)
                )
        raise ValueError(f"a batch that is a dictionary must have the key 'targets' or 'labels', it has {sorted(rest)}")
    if not isinstance(item, (tuple, list)) or len(item) < 2:
        raise ValueError(f"a batch must be (inputs, ..., targets) or a dictionary, got {type(item).__name__}")
    *inputs, targets = item
    if not isinstance(targets, Tensor) or targets.ndim == 0:
        raise ValueError("the last item of a batch must be the tensor of targets, one per example")
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        return Batch(
            (), {name: _to(value, device) for name, value in inputs[0].items()}, _to(targets, device), len(targets)
        )
    if len(inputs) == 1 and isinstance(inputs[0], (tuple, list)):
        inputs = list(inputs[0])
    arguments = tuple(_to(value, device) for value in inputs)
    for position, value in enumerate(arguments):
        if isinstance(value, Tensor) and value.is_floating_point():
            check_finite(value, f"input {position} of a batch")
    return Batch(arguments, {}, _to(targets, device), len(targets))


def _to(value: Any, device: torch.device) -> Any:
    return value.to(device) if isinstance(value, Tensor) else value


def _is_tensors(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(item, Tensor) for item in value.values())
    return isinstance(value, Tensor) or (
        isinstance(value, (tuple, list)) and all(isinstance(item, Tensor) for item in value)
    )


def _sliced(value: Any, part: slice) -> Any:
    if isinstance(value, Tensor):
        return value[part]
    if isinstance(value, Mapping):
        return {name: item[part] for name, item in value.items()}
    return tuple(item[part] for item in value)


def as_loss(loss: str | Loss | Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """A function of (outputs, targets): a droptics loss, its name, or the caller's own (mean or one per example)."""
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ValueError(f"loss must be one of {sorted(LOSSES)} or a function, got {loss!r}")
        return LOSSES[loss]
    if not callable(loss):
        raise ValueError(f"loss must be one of {sorted(LOSSES)} or a function, got {type(loss).__name__}")
    return loss


def guess_loss(targets: Tensor) -> Loss:
    """Squared loss for floating-point targets, cross-entropy for class labels."""
    return Squared() if targets.is_floating_point() else CrossEntropy()


def mean_loss(loss: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean over the batch, in float64; targets follow the outputs' precision and shape where that is harmless."""
    outputs = outputs.double()
    if targets.is_floating_point():
        targets = targets.double()
        if targets.ndim == 1 and outputs.ndim == 2 and outputs.shape[1] == 1:
            targets = targets[:, None]
        if isinstance(loss, Squared) and targets.shape != outputs.shape:
            raise ValueError(f"targets have shape {tuple(targets.shape)} but the outputs {tuple(outputs.shape)}")
    value = loss(outputs, targets)
    if not isinstance(value, Tensor):
        raise ValueError(f"loss must return a tensor, got {type(value).__name__}")
    return value.mean()


def run(module: nn.Module, batch: Batch) -> Tensor:
    """Call the module and find the output tensor in what it returns."""
    result = module(*batch.arguments, **batch.options)
    return _tensor(result)


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
        raise ValueError(
            f"the module returns a dictionary with keys {list(result)} and none of {list(OUTPUT_KEYS)}; "
            "wrap it in a module that returns the output alone"
        )
    if hasattr(result, "logits"):
        return _tensor(result.logits)
    if isinstance(result, (tuple, list)) and result:
        return _tensor(result[0])
    raise ValueError(f"the module must return a tensor, a tuple or a dictionary, it returned {type(result).__name__}")
