"""Co-adaptation: flows, how unequal they are, how much half-spaces of the data keep, and sub-networks."""

from droptics.coadaptation.measures import Split, alpha, coadaptation, evenness, flows, importance, split
from droptics.coadaptation.retention import Retentivity, retentivity, symmetrize
from droptics.coadaptation.subnetworks import (
    Subnetwork,
    Subnetworks,
    accuracy_by_width,
    draw,
    evaluate,
    export,
    smallest,
    subnetwork_outputs,
)

__all__ = ["Retentivity", "Split", "Subnetwork", "Subnetworks", "accuracy_by_width", "alpha", "coadaptation", "draw"]
__all__ += ["evaluate", "evenness", "export", "flows", "importance", "retentivity", "smallest", "split"]
__all__ += ["subnetwork_outputs", "symmetrize"]
