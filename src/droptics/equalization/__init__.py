"""Same map, least penalty."""

from droptics.equalization.equalization import equalize, equalize_rule, imbalance

__all__ = ["equalize", "equalize_rule", "imbalance"]
