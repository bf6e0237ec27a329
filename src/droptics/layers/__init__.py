"""Torch modules to put into a network: structured dropout with honest rates, and dropout without noise."""

from droptics.layers.drop_block import DropBlock, realized_rates
from droptics.layers.drop_connect import DropConnect
from droptics.layers.explicit import ExplicitDropout, explicit_consistency, explicit_penalty
from droptics.layers.variance_head import VarianceHead

__all__ = ["DropBlock", "DropConnect", "ExplicitDropout", "VarianceHead"]
__all__ += ["explicit_consistency", "explicit_penalty", "realized_rates"]
