"""Two-layer networks and factorizations: what the action of a law says about the white spectrum of a map."""

from __future__ import annotations

import math
from functools import singledispatch

from torch import Tensor

from droptics.data import Data, Moments, Sample
from droptics.envelopes.envelope import Value, envelope_rule, induced_rule
from droptics.envelopes.rounding import norm_rounding
from droptics.errors import NoClosedForm
from droptics.estimates import Error
from droptics.masks import MaskLaw
from droptics.models import Autoencoder, Connections, Model
from droptics.models.two_layer import Factors
from droptics.penalties.rounding import deferred
from droptics.spectra import Action, OneRate, action
from droptics.spectra.coordinates import Frame, check_isotropic, frame, white_weights


@singledispatch
def white_form(model: Model, data: Data, masks: MaskLaw) -> tuple[Frame, Action]:
    """The coordinates in which the penalty of a family sees norms of columns only, and how its law acts there."""
    raise NoClosedForm(f"{type(model).__name__} is not known to be a product of two factors in white coordinates")


@white_form.register
def _(model: Factors, data: Data, masks: MaskLaw) -> tuple[Frame, Action]:
    return frame(data), action(masks)


@white_form.register
def _(model: Autoencoder, data: Data, masks: MaskLaw) -> tuple[Frame, Action]:
    check_isotropic(data)
    return frame(data), action(masks)


@white_form.register
def _(model: Connections, data: Data, masks: MaskLaw) -> tuple[Frame, Action]:
    """One rate on all weights acts like that rate on the hidden units."""
    rate = action(masks).one_rate
    return white_weights(data), OneRate(masks.relative_variance[:1].expand(model.width), rate)


def _read(model: Model, data: Data, white: Frame, masks: MaskLaw) -> tuple[Tensor, Error]:
    """The spectrum in white coordinates, and how far rounding can have moved a squared norm of it."""
    spectrum = white.spectrum(model.tensors[0], model.tensors[-1])  # a tied network has one for both
    if not isinstance(data, (Sample, Moments)):  # known where inputs have root mean squares
        return spectrum, math.inf
    return spectrum, deferred(norm_rounding, model, data, spectrum.detach(), masks.relative_variance.detach().max())


@induced_rule.register(Factors)
@induced_rule.register(Autoencoder)
def _(model: Factors | Autoencoder, data: Data, masks: MaskLaw) -> Value:
    white, acting = white_form(model, data, masks)
    acting = acting.tied if isinstance(model, Autoencoder) else acting
    spectrum, error = _read(model, data, white, masks)
    return acting.value(spectrum).to(model.dtype), acting.words, error


@envelope_rule.register(Factors)
@envelope_rule.register(Autoencoder)
def _(model: Factors | Autoencoder, data: Data, masks: MaskLaw) -> Value:
    white, acting = white_form(model, data, masks)
    spectrum, error = _read(model, data, white, masks)
    return acting.envelope(spectrum).to(model.dtype), "closed form", error
