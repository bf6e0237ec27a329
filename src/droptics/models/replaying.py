"""Parts of a module that finished before a given place return what they returned before: only the rest runs again.

A mask cannot change what was computed before it. So a run that differs from a recorded one from some place on replays
every part that had finished by then, bit by bit.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

MOST_BYTES = 2**30  # of recorded results
PLAIN = (type(None), int, float, bool, str)


@dataclass
class Entry:
    """One call of a part: when it finished, its result and the names given by then, and what it costs on its own."""

    finished: int
    result: Any
    kept: bool
    counts: dict[str, int]
    cost: float


@dataclass
class Recording:
    """Calls of the parts of a module in one run, in order.

    Attributes:
        entries: Calls of each part.
        places: When each place was reached.
        clock: Counts what happens.
        size: Bytes of the results.
        holders: Names of parts inside which places are expected; results of parts that others call are not asked for.
    """

    entries: dict[nn.Module, list[Entry]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    clock: int = 0
    size: int = 0
    holders: frozenset[str] | None = None

    @staticmethod
    def towards(sites: Iterable[str]) -> Recording:
        """One for runs that differ from this one from one of these sites on."""
        parts = [site.split(".") for site in sites]
        return Recording(holders=frozenset(".".join(part[:i]) for part in parts for i in range(len(part) + 1)))

    def before(self, moment: int) -> Recording:
        """What had happened by then: the beginning of another run."""
        entries = {part: calls[: _finished(calls, moment)] for part, calls in self.entries.items()}
        places = {name: when for name, when in self.places.items() if when <= moment}
        return Recording(entries, places, moment, self.size, self.holders)

    def reach(self, name: str) -> None:
        """A place is reached."""
        self.clock += 1
        self.places.setdefault(name, self.clock)

    def finish(self, part: nn.Module, result: Any, counts: dict[str, int], caller: str) -> None:
        """A part has finished, that was called by one of this name."""
        self.clock += 1
        asked = self.holders is None or caller in self.holders
        copied, kept = self._copied(result) if asked else (None, False)
        entry = Entry(self.clock, copied, kept, dict(counts), own_cost(part, result))
        self.entries.setdefault(part, []).append(entry)

    def trim(self) -> None:
        """Let go of results behind the last place: no run begins there, and the outputs may be a vocabulary."""
        last = max(self.places.values(), default=0)
        for calls in self.entries.values():
            for call in calls:
                if call.finished > last:
                    call.result, call.kept = None, False

    def cost(self, since: int = -1) -> float:
        """What the parts that finished after a moment cost on their own."""
        return sum(call.cost for calls in self.entries.values() for call in calls if call.finished > since)

    def left(self, moment: int) -> float:
        """Share of a whole run that is left to do from a moment on."""
        whole = self.cost()
        return self.cost(moment) / whole if whole > 0 else 1.0

    def share(self, place: str) -> float:
        """Share of a whole run that is left to do from a place on."""
        return self.left(self.places[place]) if place in self.places else 1.0

    def _copied(self, result: Any) -> tuple[Any, bool]:
        leaves = _leaves(result)
        if not all(isinstance(leaf, (Tensor, *PLAIN)) for leaf in leaves):
            return None, False
        size = sum(leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, Tensor))
        if self.size + size > MOST_BYTES:
            return None, False
        self.size += size
        return _fresh(result), True


def _leaves(result: Any) -> list[Any]:
    return [result] if type(result) is Tensor else pytree.tree_leaves(result)


def _fresh(result: Any) -> Any:
    with torch._C.DisableTorchFunction():  # our own copies are nothing that the module does
        if type(result) is Tensor:
            return result.detach().clone()
        return pytree.tree_map(lambda leaf: leaf.detach().clone() if isinstance(leaf, Tensor) else leaf, result)


def _finished(calls: list[Entry], moment: int) -> int:
    return bisect_left([call.finished for call in calls], moment + 1)


def own_cost(part: nn.Module, result: Any) -> float:
    """Multiplications of a part's own weights: each is used once per position of the result. Look-ups are free."""
    if not part._parameters or isinstance(part, nn.modules.sparse.Embedding):
        return 0.0
    outputs = next((leaf for leaf in _leaves(result) if isinstance(leaf, Tensor)), None)
    if outputs is None:
        return 0.0
    return sum(
        weight.numel() * max(outputs.numel() / len(weight), 1.0)
        for weight in part.parameters(recurse=False)
        if weight.ndim > 1
    )


@contextmanager
def replayed(old: Recording, moment: int, told: Callable[[nn.Module, dict[str, int]], None]) -> Iterator[None]:
    """For a while, calls of this thread that had finished by `moment` return what they returned then.

    `told` gets the part and the names that were given by the time it had finished.
    """
    thread = threading.get_ident()
    done = {part: _finished(calls, moment) for part, calls in old.entries.items()}
    repeated = [part for part, calls in old.entries.items() if len(calls) > 1]
    next_call = dict.fromkeys(old.entries, 0)
    swapped = [part for part, count in done.items() if count and not isinstance(part, torch.jit.ScriptModule)]

    def swap(part: nn.Module) -> None:
        original = part.forward

        def forward(*arguments: Any, **options: Any) -> Any:
            if threading.get_ident() != thread:
                return original(*arguments, **options)
            number = next_call[part]
            next_call[part] += 1
            if number >= done[part] or not old.entries[part][number].kept:
                return original(*arguments, **options)
            entry = old.entries[part][number]
            told(part, entry.counts)
            for other in repeated:  # calls inside this one are not made
                if other is not part:
                    next_call[other] = max(next_call[other], _finished(old.entries[other], entry.finished))
            return _fresh(entry.result)

        part.__dict__["forward"] = forward

    had = {part: part.__dict__["forward"] for part in swapped if "forward" in part.__dict__}
    try:
        for part in swapped:
            swap(part)
        yield
    finally:
        for part in swapped:
            if part in had:
                part.__dict__["forward"] = had[part]
            else:
                part.__dict__.pop("forward", None)
