"""What a mask law does to a spectrum when weights are free: its least penalty, the best spectrum, the best factors."""

from droptics.spectra.actions import Action as Action
from droptics.spectra.any_law import AnyLaw as AnyLaw
from droptics.spectra.blocks import Blocks as Blocks
from droptics.spectra.kinds import action as action
from droptics.spectra.one_rate import OneRate as OneRate
from droptics.spectra.unequal_rates import UnequalRates as UnequalRates
