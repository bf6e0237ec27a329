"""penalty, criterion, best_method: the one question and the ways to answer it."""

from __future__ import annotations

from droptics.answers import checked
from droptics.arguments import check_arguments
from droptics.data import Data, Sample
from droptics.estimates import Estimate
from droptics.losses import CrossEntropy, Logistic, Loss, Squared
from droptics.masks import MaskLaw
from droptics.models import Model
from droptics.penalties.entropy import certified_penalty
from droptics.penalties.evaluation import check_masks, check_triple
from droptics.penalties.expectations import enumerated
from droptics.penalties.factors import has_factors
from droptics.penalties.members import random_masks
from droptics.penalties.methods import Certified, ClosedForm, Enumerate, Method, MonteCarlo, SecondOrder
from droptics.penalties.rules import covered_rule, criterion_rule, penalty_rule, with_risk
from droptics.penalties.second_order import second_order
from droptics.penalties.unit_outputs import is_linear_in_masks


@checked
def penalty(
    model: Model, data: Data, masks: MaskLaw, method: Method = ClosedForm(), loss: Loss = Squared()
) -> Estimate:
    """What the mask law adds to the loss: E_z risk(model under z) - risk(model), with z the mask divided by its mean.

    ClosedForm is exact and differentiable: sum_ij Cbar_ij G_ij for families linear in the mask, second-moment
    propagation for DeepLinear, and for ReLUNet a sum over mask outcomes with the last layer integrated (any loss,
    refused when it would take too long). Enumerate is exact for any model and loss with a short list of masks.
    SecondOrder is the curvature term for any twice differentiable loss, with its error measured by MonteCarlo, which
    works for all and returns an interval. Certified bounds the cross-entropy penalty of families linear in the mask
    from both sides without sampling; of two classes it is exact, by ClosedForm too. All go through torch.func; under
    vmap MonteCarlo, whose draws decide which interval they carry, has the same masks for one member after the other.

    Cost: ClosedForm O(n units outputs) for uncorrelated units; Enumerate and MonteCarlo one evaluation per mask;
    SecondOrder a second derivative per unit, or a formula on the last layer. Claims: mianjy2018-lemA.1, pal2020-lem2.1,
    pal2020-lem3.1, thesis-prop8, thesis-prop3, thesis-prop5, droptics-certified, droptics-logistic.

    >>> import torch
    >>> from droptics.data import Moments
    >>> from droptics.masks import Bernoulli
    >>> from droptics.models import TwoLayerLinear
    >>> model = TwoLayerLinear(torch.eye(2).double(), torch.eye(2).double())
    >>> float(penalty(model, Moments.of_map(torch.eye(2).double()), Bernoulli(drop=0.5, size=2)))
    2.0
    """
    check_triple(model, data, masks)
    return _answer(model, data, masks, method, loss)


def _answer(model: Model, data: Data, masks: MaskLaw, method: Method, loss: Loss) -> Estimate:
    match method:
        case ClosedForm():
            return penalty_rule(model, data, masks, method, loss)
        case Enumerate():
            return enumerated(model, data, masks, method, loss)
        case MonteCarlo():
            return random_masks(model, data, masks, method, loss)
        case SecondOrder():
            approximation = second_order(model, data, masks, loss)
            if method.check is None:
                return approximation.unchecked()
            return approximation.checked(random_masks(model, data, masks, method.check, loss))
        case Certified():
            return certified_penalty(model, data, masks, method, loss)
    raise ValueError(
        f"method must be ClosedForm(), SecondOrder(), Enumerate(), MonteCarlo() or Certified(), got {method!r}"
    )


@checked
def criterion(
    model: Model, data: Data, masks: MaskLaw, method: Method = ClosedForm(), loss: Loss = Squared()
) -> Estimate:
    """The expected training loss under dropout: risk + penalty.

    Cost: that of `penalty`, and one pass. Claim: helmbold2017-def1.
    """
    check_triple(model, data, masks)
    if isinstance(method, ClosedForm):
        return criterion_rule(model, data, masks, method, loss)
    return with_risk(_answer(model, data, masks, method, loss), model, data, loss)


def best_method(model: Model, data: Data, masks: MaskLaw, loss: Loss = Squared()) -> Method:
    """The most exact method that applies: the first of these that does.

    ClosedForm; Enumerate within its default limit; Certified, whose interval is proved; MonteCarlo.

    Cost: nothing is computed, or counted in a ReLU network. Claim: none, a choice of method.
    """
    check_arguments(best_method, locals())
    check_triple(model, data, masks)
    if covered_rule(model, masks, loss, data):
        return ClosedForm()
    count = masks.support_count
    listed = Enumerate()
    if count is not None and count <= listed.limit:
        return listed
    entropic = isinstance(loss, CrossEntropy | Logistic) and isinstance(data, Sample)
    return Certified() if entropic and is_linear_in_masks(model) and has_factors(masks) else MonteCarlo()


def has_closed_form(model: Model, masks: MaskLaw, loss: Loss = Squared()) -> bool:
    """Whether ClosedForm covers this family, law and loss.

    Cost: nothing is computed. Claim: none, a reading of the rules.
    """
    check_arguments(has_closed_form, locals())
    check_masks(model, masks)
    return covered_rule(model, masks, loss)
