"""The least penalty of a map, and its convex envelope."""

from droptics.envelopes.envelope import envelope, envelope_rule, induced, induced_rule

__all__ = ["envelope", "envelope_rule", "induced", "induced_rule"]
