"""The errors a caller may want to catch; each says what blocks the answer and what to do instead."""

from __future__ import annotations


class NoClosedForm(ValueError):
    """No exact formula covers this (model, data, masks) triple; the message names the methods that do apply."""


class NoFiniteSupport(ValueError):
    """The mask law has no finite list of masks, so it cannot be enumerated."""


class CertificateError(ArithmeticError):
    """A lower bound lies above what it bounds by more than rounding: one of the two is wrong, neither is returned."""
