"""penalty, criterion, best_method: the one question and the ways to answer it."""

from __future__ import annotations

from droptics.checks import check_size
from droptics.data import Data
from droptics.errors import NoClosedForm
from droptics.estimates import Estimate
from droptics.losses import Loss, Squared
from droptics.masks import MaskLaw
from droptics.models import DeepLinear, Model
from droptics.penalties.closed_form import deep_penalty, layer_laws, linear_penalty, unit_gram
from droptics.penalties.enumeration import enumerated
from droptics.penalties.evaluation import check_shapes, risk
from droptics.penalties.methods import ClosedForm, Enumerate, Method, MonteCarlo
from droptics.penalties.monte_carlo import sampled

_SQUARED = Squared()


def penalty(
    model: Model,
    data: Data,
    masks: MaskLaw,
    method: Method = ClosedForm(),  # noqa: B008 - a frozen value
    loss: Loss = _SQUARED,
) -> Estimate:
    """What the mask law adds to the loss: E_z risk(model under z) - risk(model), with z the mask divided by its mean.

    ClosedForm is exact and differentiable: sum_ij Cbar_ij G_ij for families linear in the mask, second-moment
    propagation for DeepLinear. Enumerate is exact for any model and loss with a short list of masks. MonteCarlo works
    for all and returns an interval.

    Cost: ClosedForm O(n units outputs) for uncorrelated units; Enumerate and MonteCarlo one evaluation per mask.
    Claims: mianjy2018-lemA.1, pal2020-lem2.1, pal2020-lem3.1, thesis-prop8, thesis-prop3, thesis-prop5.

    >>> import torch
    >>> from droptics.data import Moments
    >>> from droptics.masks import Bernoulli
    >>> from droptics.models import TwoLayerLinear
    >>> model = TwoLayerLinear(torch.eye(2).double(), torch.eye(2).double())
    >>> float(penalty(model, Moments.of_map(torch.eye(2).double()), Bernoulli(drop=0.5, size=2)))
    2.0
    """
    check_triple(model, data, masks)
    match method:
        case ClosedForm():
            return _closed_form(model, data, masks, loss)
        case Enumerate():
            return enumerated(model, data, masks, method, loss)
        case MonteCarlo():
            return sampled(model, data, masks, method, loss)
    raise ValueError(f"method must be ClosedForm(), Enumerate() or MonteCarlo(), got {method!r}")


def criterion(
    model: Model,
    data: Data,
    masks: MaskLaw,
    method: Method = ClosedForm(),  # noqa: B008
    loss: Loss = _SQUARED,
) -> Estimate:
    """The expected training loss under dropout: risk + penalty."""
    return penalty(model, data, masks, method, loss).shift(risk(model, data, loss))


def best_method(model: Model, data: Data, masks: MaskLaw, loss: Loss = _SQUARED) -> Method:
    """The most exact method that applies: ClosedForm, else Enumerate within its default limit, else MonteCarlo."""
    check_triple(model, data, masks)
    if has_closed_form(model, masks, loss):
        return ClosedForm()
    count = masks.support_count
    fallback = Enumerate()
    return fallback if count is not None and count <= fallback.limit else MonteCarlo()


def has_closed_form(model: Model, masks: MaskLaw, loss: Loss = _SQUARED) -> bool:
    """Whether ClosedForm covers this family, law and loss."""
    if not isinstance(loss, Squared):
        return False
    if isinstance(model, DeepLinear):
        try:
            layer_laws(model, masks)
        except NoClosedForm:
            return False
        return True
    return unit_gram.dispatch(type(model)) is not unit_gram.dispatch(Model)


def check_triple(model: Model, data: Data, masks: MaskLaw) -> None:
    """Refuse a model, data and mask law that do not belong together."""
    for name, value, kind in (("model", model, Model), ("data", data, Data), ("masks", masks, MaskLaw)):
        if not isinstance(value, kind):
            raise ValueError(f"{name} must be a droptics {kind.__name__}, got {type(value).__name__}")
    check_size("masks", masks.size, model.units, f"{type(model).__name__} has {model.units} maskable units")
    check_shapes(model, data)


def _closed_form(model: Model, data: Data, masks: MaskLaw, loss: Loss) -> Estimate:
    if not isinstance(loss, Squared):
        raise NoClosedForm(
            f"no closed form for {type(loss).__name__}, only for squared loss; use Enumerate() or MonteCarlo()"
        )
    if isinstance(model, DeepLinear):
        return Estimate.exact(deep_penalty(model, data, masks), "closed form (second-moment propagation)")
    return Estimate.exact(linear_penalty(model, data, masks), "closed form")
