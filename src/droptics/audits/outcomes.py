"""Few outcomes: sites whose mask has a handful of values per example (DropPath) are summed over all of them.

Alone a site of rate p costs the rest of the network once per outcome: p l(0) + (1 - p) l(1 / (1 - p)) - l(1). All sites
together are a tree whose runs share their beginnings: in counting order every run repeats the one before up to the
first site that changes. Exact for every network and loss, as long as no example looks at another: then one outcome for
the whole batch serves every example.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from droptics.audits.runs import Base, Law, Runs, spread, units

MOST_OUTCOMES = 8  # of one site


def outcomes(base: Base, law: Law) -> list[tuple[list[Tensor], float]] | None:
    """Masks and their probabilities, where they are few and the same for every example."""
    count = units(base, law.name)
    if count is None or 2**count > MOST_OUTCOMES:
        return None
    found = []
    for pattern in _patterns(count, law.rate):
        masks = spread(base, law.name, pattern[0])
        if masks is None:
            return None
        found.append((masks, pattern[1]))
    return found


def _patterns(count: int, rate: float) -> Iterator[tuple[Tensor, float]]:
    for kept in itertools.product((0.0, 1.0), repeat=count):
        chance = math.prod(1 - rate if unit else rate for unit in kept)
        yield torch.tensor(kept, dtype=torch.float64) / (1 - rate), chance


def alone(runs: Runs, base: Base, law: Law) -> Tensor | None:
    """What the site adds to the loss of every example, exactly; None where it has too many outcomes."""
    listed = outcomes(base, law)
    if listed is None:
        return None
    moment = base.recording.places[law.name]
    added = -base.sums
    for masks, chance in listed:
        added = added + chance * runs.losses({law.name: masks}, (base.recording, moment))
    return added


def left_out(runs: Runs, base: Base, law: Law) -> Tensor:
    """What leaving a layer out with some probability adds to the loss of every example: rate (l(left out) - l)."""
    moment = base.recording.places.get(law.name)
    if moment is None:  # not reached
        return torch.zeros_like(base.sums)
    skipped = {law.name: [torch.zeros(())]}
    return law.rate * (runs.losses(skipped, (base.recording, moment)) - base.sums)


def tree_cost(base: Base, laws: Sequence[Law]) -> float:
    """Passes that all outcomes of all sites together take."""
    order = _in_order(base, laws)
    cost, runs = 0.0, 1.0
    shares = [base.recording.share(law.name) for law in order]
    for law, share, later in zip(order, shares, [*shares[1:], 0.0], strict=True):
        runs *= 2.0 ** (units(base, law.name) or 0)
        cost += runs * (share - later)
    return cost + 1 - shares[0] if shares else 0.0


def together(runs: Runs, base: Base, laws: Sequence[Law]) -> Tensor | None:
    """What all sites add together to the loss of every example; None where one has too many outcomes."""
    order = _in_order(base, laws)
    listed = []
    for law in order:
        found = outcomes(base, law)
        if found is None:
            return None
        listed.append(found)
    added, last = -base.sums, base.recording
    previous: tuple[int, ...] = ()
    for choice in itertools.product(*(range(len(found)) for found in listed)):
        changed = next((k for k, (a, b) in enumerate(zip(choice, previous, strict=False)) if a != b), 0)
        moment = last.places[order[changed].name]
        masks = {law.name: found[k][0] for law, found, k in zip(order, listed, choice, strict=True)}
        chance = math.prod(found[k][1] for found, k in zip(listed, choice, strict=True))
        new = last.before(moment)
        added = added + chance * runs.losses(masks, (last, moment), new)
        last, previous = new, choice
    return added


def _in_order(base: Base, laws: Sequence[Law]) -> list[Law]:
    return sorted(laws, key=lambda law: base.recording.places[law.name])
