"""Examples in memory, in an order that depends on the seed alone, and their losses one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from droptics.audits.asking import Question
from droptics.audits.batches import Batch, batches
from droptics.audits.criteria import LossFunction, mean_loss, parts
from droptics.rates.randomness import key


@dataclass(frozen=True, eq=False)
class Examples:
    """All examples: as one batch that is cut anew in every epoch, or as batches that cannot be joined.

    Attributes:
        parts: One batch of everything, or the batches as they came.
        joined: Whether it is one.
    """

    parts: tuple[Batch, ...]
    joined: bool

    @staticmethod
    def of(data: object, name: str, device: torch.device) -> Examples:
        """Read a Sample, a pair (inputs, targets) or a loader once; its batches are joined where shapes allow it."""
        try:
            read = list(batches(data, device, 2**31))
        except (ValueError, TypeError) as problem:
            raise ValueError(f"{name}: {problem}") from problem
        whole = _join(read)
        return Examples(tuple(read), joined=False) if whole is None else Examples((whole,), joined=True)

    @property
    def count(self) -> int:
        """How many examples there are."""
        return sum(part.count for part in self.parts)

    def steps(self, batch_size: int) -> int:
        """Batches in an epoch."""
        return -(-self.count // batch_size) if self.joined else len(self.parts)

    @property
    def units(self) -> int:
        """How many losses can be compared: those of examples, or of batches where the module returns its own."""
        return len(self.parts) if self.parts[0].own_loss and not self.joined else self.count

    def sizes(self, batch_size: int) -> list[int]:
        """The different numbers of examples that batches have."""
        if not self.joined:
            return sorted({part.count for part in self.parts}, reverse=True)
        whole, rest = min(batch_size, self.count), self.count % batch_size
        return [whole, rest] if rest and rest != whole else [whole]

    def order(self, epoch: int, seed: int) -> Tensor:
        """The order of the examples (of the batches, where they cannot be joined) in an epoch."""
        generator = torch.Generator().manual_seed(key(seed, "order", epoch))
        return torch.randperm(self.count if self.joined else len(self.parts), generator=generator)

    def batch(self, order: Tensor, place: int, batch_size: int) -> Batch:
        """The batch at a place of an epoch."""
        if not self.joined:
            return self.parts[int(order[place])]
        index = order[place * batch_size : (place + 1) * batch_size]
        return take(self.parts[0], index.to(self.parts[0].targets.device))

    def some(self, count: int, seed: int) -> Examples:
        """So many examples drawn without replacement; all of them where they cannot be joined or are not more."""
        if not self.joined or count >= self.count:
            return self
        index = self.order(-1, seed)[:count].sort().values
        return Examples((take(self.parts[0], index.to(self.parts[0].targets.device)),), joined=True)

    def in_order(self, batch_size: int) -> Iterator[Batch]:
        """All examples once, as they came; one by one where the module returns its own loss."""
        batch_size = 1 if self.parts[0].own_loss else batch_size
        for part in self.parts:
            for start in range(0, part.count, batch_size) if self.joined else (0,):
                yield take(part, slice(start, start + batch_size)) if self.joined else part

    def asked(self, question: Question, module: nn.Module) -> Examples:
        """The same examples in the form in which the module takes them."""
        return Examples(tuple(question.batch(module, part) for part in self.parts), self.joined)

    def digest(self) -> str:
        """A text that is the same only for the same examples."""
        found = hashlib.sha256(str(self.joined).encode())
        for part in self.parts:
            for value in (*part.arguments, *(item for pair in sorted(part.options.items()) for item in pair)):
                _add(found, value)
            _add(found, part.targets)
        return found.hexdigest()


def take(batch: Batch, index: Any) -> Batch:
    """Some examples of a batch; what is no tensor is passed on as it is."""

    def cut(value: Any) -> Any:
        return value[index] if isinstance(value, Tensor) and value.ndim else value

    targets = batch.targets[index]
    options = {name: cut(value) for name, value in batch.options.items()}
    return replace(
        batch, arguments=tuple(map(cut, batch.arguments)), options=options, targets=targets, count=len(targets)
    )


def _add(digest: Any, value: Any) -> None:
    if isinstance(value, Tensor):
        plain = value.detach().cpu().contiguous()
        digest.update(f"{plain.dtype}{tuple(plain.shape)}".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    else:
        digest.update(repr(value).encode())


def _join(read: Sequence[Batch]) -> Batch | None:
    first = read[0]
    if any(part.graph is not None for part in read):
        return None
    if any(set(part.options) != set(first.options) or len(part.arguments) != len(first.arguments) for part in read):
        return None
    columns = [[part.arguments[i] for part in read] for i in range(len(first.arguments))]
    named = {name: [part.options[name] for part in read] for name in first.options}
    counts = [part.count for part in read]
    joined = [_column(column, counts) for column in (*columns, *named.values(), [part.targets for part in read])]
    if any(column is None for column in joined):
        return None
    values = [column[0] for column in joined if column is not None]
    split = len(columns)
    options = dict(zip(named, values[split:-1], strict=True))
    return Batch(tuple(values[:split]), options, values[-1], sum(counts), first.key)


def _column(values: Sequence[Any], counts: Sequence[int]) -> tuple[Any] | None:
    """One argument of all batches, joined along the examples; None where that is not possible."""
    if not all(isinstance(value, Tensor) and value.ndim for value in values):
        same = all(not isinstance(value, Tensor) and value == values[0] for value in values)
        return (values[0],) if same else None
    fits = all(len(value) == count for value, count in zip(values, counts, strict=True))
    alike = all(value.shape[1:] == values[0].shape[1:] and value.dtype == values[0].dtype for value in values)
    if not (fits and alike):
        return None
    return (values[0] if len(values) == 1 else torch.cat(list(values)),)


def example_losses(loss: LossFunction, outputs: Tensor, batch: Batch) -> Tensor:
    """One number per example in double precision; a loss that only knows means is asked for every example alone.

    The loss that a module returns itself is one number for the batch.
    """
    if batch.own_loss:
        return outputs.double()
    sums, weights = parts(loss, outputs, batch.targets)
    if len(sums) == len(batch.targets):
        return sums / weights.clamp_min(1)  # an example none of whose labels counts has no loss
    single = [mean_loss(loss, outputs[i : i + 1], batch.targets[i : i + 1]) for i in range(len(outputs))]
    return torch.stack(single)
