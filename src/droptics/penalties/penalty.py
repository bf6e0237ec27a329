"""penalty, criterion, best_method: the one question and the ways to answer it."""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.arguments import check_arguments
from droptics.checks import is_readable, is_transformed
from droptics.data import Data, Sample, average
from droptics.errors import NoClosedForm
from droptics.estimates import Estimate
from droptics.losses import CrossEntropy, Logistic, Loss, Squared, binary_margin, check_labels
from droptics.masks import MaskLaw
from droptics.models import DeepLinear, Factorization, LastLayer, LinearModel, Model, ReLUNet
from droptics.penalties.certified import certified
from droptics.penalties.closed_form import deep_penalty, layer_laws, linear_penalty, unit_gram
from droptics.penalties.enumeration import enumerated
from droptics.penalties.evaluation import check_masks, check_triple, plain_risk
from droptics.penalties.factors import Moves, has_factors
from droptics.penalties.fourier import MOST, logistic_penalties, needed_nodes
from droptics.penalties.methods import Certified, ClosedForm, Enumerate, Method, MonteCarlo, SecondOrder
from droptics.penalties.monte_carlo import sampled
from droptics.penalties.relu.criterion import relu_cost, relu_excess, relu_summable
from droptics.penalties.relu.sampling import sampled_relu, separable
from droptics.penalties.rounding import deferred, excess_scale, in_double, risk_rounding, typical_multipliers
from droptics.penalties.second_order import second_order
from droptics.penalties.unit_outputs import is_linear_in_masks
from droptics.transforms import opaque


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
    works for all and returns an interval. Certified bounds the cross-entropy penalty of families linear in the mask
    from both sides without sampling; of two classes it is exact, by ClosedForm too.

    Cost: ClosedForm O(n units outputs) for uncorrelated units; Enumerate and MonteCarlo one evaluation per mask;
    SecondOrder one Hessian of `units` variables.
    Claims: mianjy2018-lemA.1, pal2020-lem2.1, pal2020-lem3.1, thesis-prop8, thesis-prop3, thesis-prop5,
    droptics-certified, droptics-logistic.

    >>> import torch
    >>> from droptics.data import Moments
    >>> from droptics.masks import Bernoulli
    >>> from droptics.models import TwoLayerLinear
    >>> model = TwoLayerLinear(torch.eye(2).double(), torch.eye(2).double())
    >>> float(penalty(model, Moments.of_map(torch.eye(2).double()), Bernoulli(drop=0.5, size=2)))
    2.0
    """
    check_arguments(penalty, locals())
    check_triple(model, data, masks)
    return _answer(model, data, masks, method, loss)


def _answer(model: Model, data: Data, masks: MaskLaw, method: Method, loss: Loss) -> Estimate:
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
        case Certified():
            return _certified(model, data, masks, method, loss)
    raise ValueError(
        f"method must be ClosedForm(), SecondOrder(), Enumerate(), MonteCarlo() or Certified(), got {method!r}"
    )


def criterion(
    model: Model,
    data: Data,
    masks: MaskLaw,
    method: Method = ClosedForm(),  # noqa: B008
    loss: Loss = Squared(),  # noqa: B008
) -> Estimate:
    """The expected training loss under dropout: risk + penalty.

    Cost: that of `penalty`, and one pass. Claim: helmbold2017-def1.
    """
    check_arguments(criterion, locals())
    check_triple(model, data, masks)
    if isinstance(method, ClosedForm) and isinstance(model, ReLUNet):
        return _relu(model, data, masks, method, loss)[0]
    answer = _answer(model, data, masks, method, loss)
    return answer.shift(plain_risk(model, data, loss), deferred(risk_rounding, model, data, loss))


def best_method(model: Model, data: Data, masks: MaskLaw, loss: Loss = Squared()) -> Method:  # noqa: B008
    """The most exact method that applies: the first of these that does.

    ClosedForm; Enumerate within its default limit; Certified, whose interval is proved; MonteCarlo.

    Cost: nothing is computed, or counted in a ReLU network. Claim: none, a choice of method.
    """
    check_arguments(best_method, locals())
    check_triple(model, data, masks)
    if has_closed_form(model, masks, loss) and _affordable(model, data, masks, loss):
        return ClosedForm()
    count = masks.support_count
    listed = Enumerate()
    if count is not None and count <= listed.limit:
        return listed
    entropic = isinstance(loss, CrossEntropy | Logistic) and isinstance(data, Sample)
    return Certified() if entropic and is_linear_in_masks(model) and has_factors(masks) else MonteCarlo()


def has_closed_form(model: Model, masks: MaskLaw, loss: Loss = Squared()) -> bool:  # noqa: B008
    """Whether ClosedForm covers this family, law and loss.

    Cost: nothing is computed. Claim: none, a reading of the rules.
    """
    check_arguments(has_closed_form, locals())
    check_masks(model, masks)
    if isinstance(model, ReLUNet):
        return relu_summable(model, masks, loss)
    if not isinstance(loss, Squared):
        return _is_binary(model, loss) and is_linear_in_masks(model) and has_factors(masks)
    if isinstance(model, DeepLinear):
        try:
            layer_laws(model, masks)
        except NoClosedForm:
            return False
        return True
    return is_linear_in_masks(model) or unit_gram.dispatch(type(model)) is not unit_gram.dispatch(Model)


def _affordable(model: Model, data: Data, masks: MaskLaw, loss: Loss) -> bool:
    """Whether the exact sum over mask outcomes, or the integral of a margin, stays within its limits."""
    if isinstance(model, ReLUNet):
        return relu_cost(model, _sample(data), masks, loss).seconds <= ClosedForm().seconds
    return isinstance(loss, Squared) or needed_nodes(_margin(_moves(model, data, loss)[0]), masks) <= MOST


def _closed_form(model: Model, data: Data, masks: MaskLaw, method: ClosedForm, loss: Loss) -> Estimate:
    if isinstance(model, ReLUNet):
        return _relu(model, data, masks, method, loss)[1]
    if not isinstance(loss, Squared):
        return _logistic(model, data, masks, loss)
    if isinstance(model, DeepLinear):
        value, error = deep_penalty(model, data, masks)
        return Estimate.exact(value, "closed form (second-moment propagation)", error=error)
    value, error = linear_penalty(model, data, masks)
    return Estimate.exact(value, "closed form", error=error)


def _relu(model: ReLUNet, data: Data, masks: MaskLaw, method: ClosedForm, loss: Loss) -> tuple[Estimate, Estimate]:
    """Criterion and penalty of a ReLU network, from one sum over mask outcomes in float64."""
    sample = _sample(data)
    plain, added, steps = _relu_parts(model, sample, masks, method, loss)
    weights = None if sample.weights is None else sample.weights.double()
    typical, tiny = typical_multipliers(model, masks), torch.finfo(torch.float64).eps

    def exact(per_example: Tensor, whole: bool) -> Estimate:
        value = average(per_example, weights).to(model.dtype)
        fixed = value.detach()

        def rounding(model: Model, data: Data) -> Tensor | float:
            double, known = in_double(model, data)
            error = steps * tiny * excess_scale(double, known, typical, loss)
            error = error + steps * risk_rounding(double, known, loss) if whole else error
            return error + torch.finfo(model.dtype).eps * fixed.abs()

        return Estimate.exact(value, "exact sum over mask outcomes", error=deferred(rounding, model, sample))

    return exact(plain + added, whole=True), exact(added, whole=False)


def _relu_parts(
    model: ReLUNet, sample: Sample, masks: MaskLaw, method: ClosedForm, loss: Loss
) -> tuple[Tensor, Tensor, float]:
    """`relu_excess`, which reads numbers, also where torch.func has hidden them."""
    if not is_transformed():
        return relu_excess(model, sample, masks, method, loss)
    layers, steps = len(model.weights), 0.0

    def parts(inputs: Tensor, targets: Tensor, *weights: Tensor) -> Tensor:
        nonlocal steps
        network = ReLUNet(list(weights[:layers]), list(weights[layers:]))
        *both, steps = relu_excess(network, Sample(inputs, targets), masks, method, loss)
        return torch.stack(both)

    if sample.targets.is_floating_point():
        both = opaque(parts, sample.inputs, sample.targets, *model.weights, *model.biases)
    else:
        labels = sample.targets
        both = opaque(lambda x, *w: parts(x, labels, *w), sample.inputs, *model.weights, *model.biases)
    return both[0], both[1], steps


def _is_binary(model: Model, loss: Loss) -> bool:
    """Whether the loss is that of one margin: the logistic one, or cross-entropy of two classes."""
    match model:
        case LinearModel():
            outputs = model.output_size
        case LastLayer():
            outputs = model.head.out_features
        case _:
            outputs = 1 if isinstance(model, Factorization) else 0
    return (isinstance(loss, Logistic) and outputs == 1) or (isinstance(loss, CrossEntropy) and outputs == 2)


def _moves(model: Model, data: Data, loss: Loss) -> tuple[Moves, Sample]:
    """Outputs and what units add to them in float64, and the examples; labels are checked, and play no other part."""
    if not isinstance(data, Sample):
        raise ValueError(f"data must be a Sample for {type(loss).__name__}, got {type(data).__name__}")
    double, known = in_double(model, data)
    assert isinstance(known, Sample)
    moves = Moves.of(double, known.inputs)
    if isinstance(loss, CrossEntropy):
        check_labels(known.targets, moves.offset.shape[-1])
    else:
        binary_margin(moves.offset, known.targets)
    return moves, known


def _margin(moves: Moves) -> Moves:
    """The margin as the only output; the label does not matter, because the mean does not move."""
    pair = moves.offset.shape[-1] > 1
    return moves.along(moves.head.new_tensor([[1.0, -1.0]])) if pair else moves


def _logistic(model: Model, data: Data, masks: MaskLaw, loss: Loss) -> Estimate:
    """Exact by Fourier for the loss of one margin (droptics-logistic)."""
    if not _is_binary(model, loss) or not is_linear_in_masks(model):
        bounded = "Certified(), " if isinstance(loss, CrossEntropy) and is_linear_in_masks(model) else ""
        raise NoClosedForm(
            f"no closed form for {type(loss).__name__} here, only for squared loss and for two classes whose "
            f"outputs are linear in the mask; use {bounded}SecondOrder(), Enumerate() or MonteCarlo()"
        )
    moves, known = _moves(model, data, loss)
    moves = _margin(moves)
    nodes = needed_nodes(moves, masks)
    if nodes > MOST:
        raise NoClosedForm(
            f"the margins of this model spread so far that their Fourier integral takes {nodes:.3g} nodes, more than "
            f"{MOST}; use Certified(), Enumerate() or MonteCarlo()"
        )
    return _integrated(moves, known, masks, int(nodes), model.dtype)


def _integrated(moves: Moves, sample: Sample, masks: MaskLaw, nodes: int, dtype: torch.dtype) -> Estimate:
    values, errors = logistic_penalties(moves, masks, nodes)
    weights = None if sample.weights is None else sample.weights.double()
    value = average(values, weights)
    # the mean over examples is done in blocks
    steps = (8 + 2 * len(sample) ** 0.5) * torch.finfo(torch.float64).eps + torch.finfo(dtype).eps
    error = average(errors, weights) + steps * value.detach().abs()
    return Estimate.exact(value.to(dtype), f"exact by Fourier, {nodes} nodes", 2, error.to(dtype))


def _certified(model: Model, data: Data, masks: MaskLaw, method: Certified, loss: Loss) -> Estimate:
    if not isinstance(loss, CrossEntropy | Logistic):
        exact = "ClosedForm(), which is exact" if isinstance(loss, Squared) else "Enumerate() or MonteCarlo()"
        raise NoClosedForm(f"Certified() bounds CrossEntropy() and Logistic(), got {type(loss).__name__}; use {exact}")
    moves, known = _moves(model, data, loss)
    if moves.offset.shape[-1] <= 2:
        nodes = needed_nodes(_margin(moves), masks)
        if nodes <= MOST:
            return _integrated(_margin(moves), known, masks, int(nodes), model.dtype)
    if isinstance(loss, Logistic):  # the softmax of (f, 0)
        moves = moves.along(moves.head.new_tensor([[1.0], [0.0]]))
    return certified(moves, known, masks, method.condition, model.dtype)


def _monte_carlo(model: Model, data: Data, masks: MaskLaw, method: MonteCarlo, loss: Loss) -> Estimate:
    if not all(is_readable(part) for part in model.tensors):
        raise ValueError(
            "MonteCarlo() looks at its draws, which torch.func.vmap hides; use ClosedForm() or Enumerate() there, or "
            "give the models as one with leading batch dimensions"
        )
    if isinstance(model, ReLUNet) and isinstance(loss, Squared) and separable(model, masks):
        return sampled_relu(model, _sample(data), masks, method)
    return sampled(model, data, masks, method, loss)


def _sample(data: Data) -> Sample:
    if not isinstance(data, Sample):
        raise ValueError(f"data must be a Sample for ReLUNet, got {type(data).__name__}")
    return data
