"""Same map, least penalty."""

from droptics.equalization import families as _families  # noqa: F401 - registers its rules
from droptics.equalization.equalization import equalize, equalize_rule, imbalance
from droptics.equalization.joint import balance, joint_equalizer, rank_one_network, rescale
from droptics.equalization.orders import GapCondition, gap_condition, order_gaps

__all__ = ["GapCondition", "gap_condition", "order_gaps"]
__all__ += ["balance", "equalize", "equalize_rule", "imbalance", "joint_equalizer", "rank_one_network", "rescale"]
