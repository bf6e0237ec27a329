"""The least penalty of a map, and its convex envelope."""

from droptics.envelopes import deep_linear as _deep_linear  # noqa: F401 - registers its rules
from droptics.envelopes import two_layer as _two_layer  # noqa: F401 - registers its rules
from droptics.envelopes.envelope import envelope, envelope_rule, induced, induced_rule

__all__ = ["envelope", "envelope_rule", "induced", "induced_rule"]
