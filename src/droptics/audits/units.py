"""The units of a site: how active each is, what it carries onward, which never fire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.audits.report import Units
from droptics.coadaptation import evenness
from droptics.models.watching import Trace

FEATURE_MAPS = 4  # dimensions from which the second one, the channels, are the units


@dataclass
class UnitTally:
    """Sums over batches for one site."""

    energies: Tensor  # E a_j^2 of every unit (feature, or channel of feature maps) over all examples and positions
    count: int  # how many examples and positions were seen
    norms: Tensor | None  # norms of the outgoing weights, when the site feeds a linear layer

    def merge(self, other: UnitTally) -> UnitTally:
        """The site over both."""
        share = other.count / (self.count + other.count)
        return UnitTally(torch.lerp(self.energies, other.energies, share), self.count + other.count, self.norms)

    def report(self) -> Units:
        """Flows where the outgoing weights are known, and dead units."""
        dead = (self.energies == 0).nonzero().squeeze(-1).tolist()
        if self.norms is None:
            return Units(len(self.energies), dead, (), float("nan"), float("nan"))
        flows = self.norms * self.energies.sqrt()
        sound = bool(torch.isfinite(flows).all()) and bool((flows > 0).any())
        even = float(evenness(flows)) if sound else float("nan")
        # equal flows of the same sum pay (sum)^2 / width; the ratio to what these pay is 1 / evenness^2
        imbalance = even**-2 - 1 if even > 0 else float("nan")
        return Units(len(flows), dead, flows.tolist(), even, imbalance)


def add_units(tallies: dict[str, UnitTally], trace: Trace, sites: Sequence[str]) -> None:
    """Add one run of the module with all switches off."""
    for call in trace.calls:
        if call.site not in sites or call.source is None or call.source.ndim < 2:
            continue
        source = call.source.detach().double()
        axis = 1 if source.ndim >= FEATURE_MAPS else source.ndim - 1
        energies = source.square().mean(dim=[i for i in range(source.ndim) if i != axis]).cpu()
        norms = [linear.weight.detach().double().norm(dim=0) for linear in trace.linear if linear.source is call.result]
        part = UnitTally(energies, source.numel() // max(len(energies), 1), norms[0].cpu() if norms else None)
        before = tallies.get(call.site)
        if before is None or before.energies.shape == part.energies.shape:
            tallies[call.site] = part if before is None else before.merge(part)
