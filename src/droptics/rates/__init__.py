"""Which rate, at each site: copies of a network that share their randomness, designs, verdicts."""

from droptics.rates.designs import two_level
from droptics.rates.fits import Fit
from droptics.rates.result import Cost, Gap, Point, Rates, SiteRate, Split
from droptics.rates.tuning import tune_rates

__all__ = ["Cost", "Fit", "Gap", "Point", "Rates", "SiteRate", "Split", "tune_rates", "two_level"]
