"""The evidence mechanism: claims that run, figures that resume, engines, and the pages that show them."""

from droptics.evidence.claims import Claim, Comparison, Result, compare, decide
from droptics.evidence.engines import Dask, Engine, Local, Processes, engine
from droptics.evidence.figures import Artifact, Cell, Expectation, Figure

__all__ = ["Artifact", "Cell", "Claim", "Comparison", "Dask", "Engine", "Expectation", "Figure", "Local", "Processes"]
__all__ += ["Result", "compare", "decide", "engine"]
