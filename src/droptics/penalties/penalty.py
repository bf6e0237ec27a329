"""penalty, criterion, best_method: the one question and the ways to answer it."""

from __future__ import annotations

from droptics.data import Data, Sample, average
from droptics.errors import NoClosedForm
from droptics.estimates import Estimate
from droptics.losses import Loss, Squared
from droptics.masks import MaskLaw
from droptics.models import DeepLinear, Model, ReLUNet
from droptics.penalties.closed_form import deep_penalty, layer_laws, linear_penalty, unit_gram
from droptics.penalties.enumeration import enumerated
from droptics.penalties.evaluation import check_masks, check_triple, risk
from droptics.penalties.methods import ClosedForm, Enumerate, Method, MonteCarlo, SecondOrder
from droptics.penalties.monte_carlo import sampled
from droptics.penalties.relu.criterion import network_laws, relu_cost, relu_criterion
from droptics.penalties.relu.sampling import sampled_relu, separable
from droptics.penalties.second_order import second_order
from droptics.penalties.unit_outputs import is_linear_in_masks


def penalty(
    model: Model,
    data: Data,
    masks: MaskLaw,
    method: Method = ClosedForm(),  # noqa: B008 - a frozen value
    loss: Loss = Squared(),  # noqa: B008
) -> Estimate:
    """What the mask law adds to the loss: E_z risk(model under z) - risk(model), with z the mask divided by its mean.

    ClosedForm is exact and differentiable: sum_ij Cbar_ij G_ij for families linear in the mask, second-moment
    propagation for DeepLinear, and for ReLUNet a sum over mask outcomes with the last layer integrated (any loss,
    refused when it would take too long). Enumerate is exact for any model and loss with a short list of masks.
    SecondOrder is the curvature term for any twice differentiable loss, with its error measured by MonteCarlo, which
    works for all and returns an interval.

    Cost: ClosedForm O(n units outputs) for uncorrelated units; Enumerate and MonteCarlo one evaluation per mask;
    SecondOrder one Hessian of `units` variables.
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
            return _closed_form(model, data, masks, method, loss)
        case Enumerate():
            return enumerated(model, data, masks, method, loss)
        case MonteCarlo():
            return _monte_carlo(model, data, masks, method, loss)
        case SecondOrder():
            approximation = second_order(model, data, masks, loss)
            if method.check is None:
                return approximation.unchecked()
            return approximation.checked(_monte_carlo(model, data, masks, method.check, loss))
    raise ValueError(f"method must be ClosedForm(), SecondOrder(), Enumerate() or MonteCarlo(), got {method!r}")


def criterion(
    model: Model,
    data: Data,
    masks: MaskLaw,
    method: Method = ClosedForm(),  # noqa: B008
    loss: Loss = Squared(),  # noqa: B008
) -> Estimate:
    """The expected training loss under dropout: risk + penalty."""
    return penalty(model, data, masks, method, loss).shift(risk(model, data, loss))


def best_method(model: Model, data: Data, masks: MaskLaw, loss: Loss = Squared()) -> Method:  # noqa: B008
    """The most exact method that applies: ClosedForm, else Enumerate within its default limit, else MonteCarlo."""
    check_triple(model, data, masks)
    if has_closed_form(model, masks, loss) and _affordable(model, data, masks):
        return ClosedForm()
    count = masks.support_count
    fallback = Enumerate()
    return fallback if count is not None and count <= fallback.limit else MonteCarlo()


def has_closed_form(model: Model, masks: MaskLaw, loss: Loss = Squared()) -> bool:  # noqa: B008
    """Whether ClosedForm covers this family, law and loss."""
    check_masks(model, masks)
    if not isinstance(loss, Squared):
        return False
    if isinstance(model, (DeepLinear, ReLUNet)):
        try:
            _ = layer_laws(model, masks) if isinstance(model, DeepLinear) else network_laws(model, masks)
        except NoClosedForm:
            return False
        return True
    return is_linear_in_masks(model) or unit_gram.dispatch(type(model)) is not unit_gram.dispatch(Model)


def _affordable(model: Model, data: Data, masks: MaskLaw) -> bool:
    """Whether the exact sum over mask outcomes of a ReLU network stays within the default time."""
    if not isinstance(model, ReLUNet):
        return True
    try:
        return relu_cost(model, _sample(data), masks).seconds <= ClosedForm().seconds
    except NoClosedForm:
        return False


def _closed_form(model: Model, data: Data, masks: MaskLaw, method: ClosedForm, loss: Loss) -> Estimate:
    if isinstance(model, ReLUNet):
        sample = _sample(data)
        exact = average(relu_criterion(model, sample, masks, method, loss), sample.weights)
        return Estimate.exact(exact - risk(model, sample, loss), "exact sum over mask outcomes")
    if not isinstance(loss, Squared):
        raise NoClosedForm(
            f"no closed form for {type(loss).__name__}, only for squared loss; use SecondOrder(), Enumerate() or "
            "MonteCarlo()"
        )
    if isinstance(model, DeepLinear):
        return Estimate.exact(deep_penalty(model, data, masks), "closed form (second-moment propagation)")
    return Estimate.exact(linear_penalty(model, data, masks), "closed form")


def _monte_carlo(model: Model, data: Data, masks: MaskLaw, method: MonteCarlo, loss: Loss) -> Estimate:
    if isinstance(model, ReLUNet) and isinstance(loss, Squared) and separable(model, masks):
        return sampled_relu(model, _sample(data), masks, method)
    return sampled(model, data, masks, method, loss)


def _sample(data: Data) -> Sample:
    if not isinstance(data, Sample):
        raise ValueError(f"data must be a Sample for ReLUNet, got {type(data).__name__}")
    return data
