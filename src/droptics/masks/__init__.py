"""Laws of random masks: a mean, a covariance and a sampler; a finite support where there is one."""

from droptics.masks.coins import Bernoulli, Block, SlidingBlock, drop_for_width
from droptics.masks.discrete import Discrete
from droptics.masks.gaussian import Gaussian
from droptics.masks.law import MaskLaw
from droptics.masks.product import Product

__all__ = ["Bernoulli", "Block", "Discrete", "Gaussian", "MaskLaw", "Product", "SlidingBlock", "drop_for_width"]
