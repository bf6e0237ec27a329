"""predictive: mean, variance and covariance of the predictions of a model under random masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, singledispatch

import torch
from torch import Tensor, nn

from droptics.answers import checked
from droptics.checks import as_float_tensor, check_size
from droptics.errors import NoClosedForm
from droptics.estimates import Estimate
from droptics.masks import MaskLaw
from droptics.models import DeepLinear, Factorization, LinearModel, Model, ReLUNet
from droptics.penalties import (
    ClosedForm,
    Enumerate,
    Method,
    MonteCarlo,
    SecondOrder,
    is_linear_in_masks,
    unit_outputs,
)
from droptics.penalties.deep_linear import layer_laws
from droptics.penalties.evaluation import check_masks
from droptics.penalties.relu.output_moments import relu_output_moments
from droptics.predictions.affine import Affine
from droptics.predictions.approximations import Closure, closure, first_order
from droptics.predictions.controls import ATOMS_PER_SAMPLE
from droptics.predictions.deep_linear import deep_covariance, deep_variance
from droptics.predictions.mixtures import Conditional, MixtureMoments, Outcome, check_listable, conditional
from droptics.predictions.modules import MaskedModule, Unsteady, read_module
from droptics.predictions.results import Predictive
from droptics.predictions.running import Inputs
from droptics.predictions.sampling import sampled_moments, sampled_outcomes
from droptics.transforms import is_readable

# So many early masks are summed one by one, all examples at once; more by the walk of the exact criterion.
DIRECT_OUTCOMES = 2**16
METHODS = "ClosedForm(), Enumerate(), MonteCarlo() or SecondOrder()"


@checked
def predictive(
    model: Model | nn.Module,
    inputs: Inputs,
    masks: MaskLaw | None = None,
    method: Method | Closure = ClosedForm(),
) -> Predictive:
    """Moments of the outputs of every example when the units of the model are masked: what MC dropout converges to.

    For outputs linear in the mask, mean f(x) = f(x; 1) and Cov f(x) = sum_ij Cbar_ij g_i(x) g_j(x)^T
    (droptics-predictive); the penalty is its trace averaged over examples. Deep linear networks carry the noise of
    every layer to the end (droptics-predictive-deep); ReLU networks sum over the masks before the last one, which is
    integrated (droptics-predictive-mixture, droptics-predictive-relu). All are exact and differentiable.

    Args:
        model: Any family, or any torch module, whose own dropout is read while it runs.
        inputs: Examples (n, features); pairs (row, column) or measurement matrices for a Factorization; for a module
            what it is called with, a tensor or a tuple or dictionary of them, one row per example.
        masks: The law of the masks; None for a module, which brings its own.
        method: ClosedForm(), Enumerate() for any model with a short list of masks, or MonteCarlo(), which integrates
            the last site and controls the others; it says so in `method`. SecondOrder() and, for ReLU networks,
            Closure() are approximations that carry the interval of the masks that check them.

    Cost: ClosedForm one more product of matrices for independent units, outputs units^2 per example for any law,
    n depth^2 width^2 for deep linear networks, one evaluation per early mask for ReLU networks.

    >>> from droptics.masks import Bernoulli
    >>> from droptics.models import TwoLayerLinear
    >>> model = TwoLayerLinear(torch.eye(2).double(), torch.eye(2).double())
    >>> found = predictive(model, torch.tensor([[1.0, 3.0]]).double(), Bernoulli(drop=0.5, size=2))
    >>> found.mean.value.tolist(), found.variance.value.tolist()
    ([[1.0, 3.0]], [[1.0, 9.0]])
    """
    if isinstance(model, nn.Module):
        return _of_module(model, inputs, masks, method)
    if not isinstance(masks, MaskLaw):
        raise ValueError(f"masks must be a droptics MaskLaw, got {type(masks).__name__}")
    found = _of_model(model, inputs, masks, method)
    parts = (found.mean.value, found.variance.value)
    if not all(bool(torch.isfinite(part).all()) for part in parts if is_readable(part)):
        raise ValueError(f"model and inputs are too large for {parts[0].dtype}: outputs or their variance overflow")
    return found


def _of_model(model: Model, inputs: Inputs, masks: MaskLaw, method: Method | Closure) -> Predictive:
    examples = _examples(model, inputs, masks)
    match method:
        case ClosedForm():
            return moments_rule(model, examples, masks, method)
        case Enumerate():
            count = check_listable(masks, method.limit)
            problem = conditional.dispatch(Model)(model, examples, masks)
            return summed(problem, f"enumeration of {count} masks", count)
        case MonteCarlo():
            return _monte_carlo(model, examples, masks, method)
        case SecondOrder():
            return first_order(_sampled_problem(model, examples, masks), method.check)
        case Closure():
            return closure(model, examples, masks, method, _sampled_problem(model, examples, masks))
    raise ValueError(f"method must be {METHODS}, got {method!r}")


def _of_module(module: nn.Module, inputs: Inputs, masks: MaskLaw | None, method: Method | Closure) -> Predictive:
    """Moments of a module under its own dropout: exact where nothing but the head is random, or a short list is."""
    if masks is not None:
        raise ValueError(
            "masks must be None for a torch module, which brings its own dropout; to state a law, wrap it with "
            "LastLayer.of(module) or Site.of(module, name, inputs)"
        )
    found = read_module(module, inputs)
    try:
        return _of_masked(found, method)
    except Unsteady:
        return _of_masked(found.left_alone(), method)


def _of_masked(found: MaskedModule, method: Method | Closure) -> Predictive:
    switched = found.certain and not found.drawing
    if switched and not found.early and isinstance(method, (ClosedForm, Enumerate, MonteCarlo, SecondOrder)):
        return exact(found.plain(), _exact_words(found))
    problem = found.conditional(method.seed if isinstance(method, MonteCarlo) else 0)
    match method:
        case MonteCarlo():
            listed = problem.law.support_count if found.early else None
            if switched and listed is not None and listed <= ATOMS_PER_SAMPLE * method.samples:
                # as cheap as the masks that were asked for, and a control by all of them would leave nothing to sample
                return summed(problem, _sum_words(found, listed), listed)
            with torch.no_grad():
                return drawn(problem, method)
        case ClosedForm() | Enumerate():
            limit = DIRECT_OUTCOMES if isinstance(method, ClosedForm) else method.limit
            names = ", ".join([site.name for site in found.early] + list(found.drawing)) or "masks written by hand"
            count = problem.law.support_count if found.early else None
            if not switched or count is None or count > limit:
                raise NoClosedForm(
                    f"besides its head this module is random at {names}, more masks than can be listed; use "
                    "MonteCarlo(), which integrates the head and samples the others"
                )
            return summed(problem, _sum_words(found, count), count)
        case SecondOrder() if switched:
            return first_order(problem, method.check)
        case SecondOrder():
            raise NoClosedForm(
                "something in this module is random that cannot be masked from outside; use MonteCarlo()"
            )
    raise ValueError(f"method must be {METHODS} for a module, got {method!r}")


def _sum_words(found: MaskedModule, count: int) -> str:
    return f"exact sum over {count} early masks" + (", last site integrated" if found.head else "")


def _exact_words(found: MaskedModule) -> str:
    if found.head:
        return f"closed form: only {found.sites[-1].name}, before the last layer, is random"
    return "closed form: nothing is random"


def _examples(model: Model, inputs: Inputs, masks: MaskLaw) -> Tensor:
    check_masks(model, masks)
    if isinstance(model, Factorization) and isinstance(inputs, Tensor) and not inputs.is_floating_point():
        if inputs.ndim != 2 or inputs.shape[1] != 2:
            raise ValueError(f"inputs must be pairs (row, column), (n, 2), got shape {tuple(inputs.shape)}")
        return inputs
    examples = as_float_tensor(inputs, "inputs")
    if examples.ndim < 2 or len(examples) == 0:
        raise ValueError(f"inputs must be (examples, features...), got shape {tuple(examples.shape)}")
    if isinstance(model, (LinearModel, ReLUNet)):
        check_size("inputs (columns)", examples.shape[-1], model.input_size, "the features that the model takes")
    if examples.dtype != model.dtype or examples.device != model.device:
        raise ValueError(
            f"inputs are {examples.dtype} on {examples.device} but the model is {model.dtype} on {model.device}; "
            "convert them with inputs.to(model.device, model.dtype)"
        )
    return examples


@singledispatch
def moments_rule(model: Model, inputs: Tensor, masks: MaskLaw, method: ClosedForm) -> Predictive:
    """Exact moments of the outputs of a family; a family linear in the mask has them by its `unit_outputs`."""
    return exact(affine(model, inputs, masks), "closed form")


@moments_rule.register
def _(model: DeepLinear, inputs: Tensor, masks: MaskLaw, method: ClosedForm) -> Predictive:
    layer_laws(model, masks)  # refuses laws that may correlate layers
    text = "closed form (noise of every layer)"
    return Predictive(
        Estimate.exact(model.outputs(inputs), text),
        Estimate.exact(deep_variance(model, inputs, masks), text),
        _list_of(model, inputs, masks),
        lambda: Estimate.exact(deep_covariance(model, inputs, masks), text),
    )


def affine(model: Model, inputs: Tensor, masks: MaskLaw) -> Affine:
    """The outputs of a family that is linear in the mask."""
    units = unit_outputs(model, inputs)  # says what to do where the family has no rule
    return Affine(model.outputs(inputs), units, masks)


def exact(outputs: Affine, text: str) -> Predictive:
    """Moments of outputs that are affine in all that is random."""

    def whole() -> Iterator[Outcome]:
        units = outputs.units
        lead = None if units is None else units._replace(features=units.features[None])
        yield torch.ones(1, dtype=torch.float64), Affine(outputs.center[None], lead, outputs.law)

    return Predictive(
        Estimate.exact(outputs.center, text),
        Estimate.exact(outputs.variance(), text),
        whole,
        lambda: Estimate.exact(outputs.covariance(), text),
    )


def summed(problem: Conditional, text: str, count: int) -> Predictive:
    """Moments by summing over all early masks, which the law can list."""
    plain = problem.plain().center
    found = problem.moments(plain)

    def joint() -> Estimate:
        both = MixtureMoments.of(problem.outcomes(), plain, joint=True)
        return Estimate.exact(both.centers + both.noise, text, count)

    return Predictive(
        Estimate.exact(plain + found.shift, text, count),
        Estimate.exact(found.centers + found.noise, text, count),
        problem.outcomes,
        joint,
    )


@moments_rule.register
def _(model: ReLUNet, inputs: Tensor, masks: MaskLaw, method: ClosedForm) -> Predictive:
    problem = conditional(model, inputs, masks)
    count = problem.law.support_count
    if count is not None and count <= DIRECT_OUTCOMES:
        return summed(problem, f"exact sum over {count} early masks, last layer integrated", count)
    mean, covariance = relu_output_moments(model, inputs, masks, method)
    text = "exact sum over mask outcomes, last layer integrated"
    variance = torch.diagonal(covariance, dim1=-2, dim2=-1)
    return Predictive(
        Estimate.exact(mean, text), Estimate.exact(variance, text), None, lambda: Estimate.exact(covariance, text)
    )


def _list_of(model: DeepLinear, inputs: Tensor, masks: MaskLaw) -> Callable[[], Iterator[Outcome]] | None:
    """The mixture over the early layers, where it can be listed."""
    problem = conditional(model, inputs, masks)
    count = problem.law.support_count
    return problem.outcomes if count is not None and count <= DIRECT_OUTCOMES else None


def _monte_carlo(model: Model, inputs: Tensor, masks: MaskLaw, method: MonteCarlo) -> Predictive:
    # a family linear in the mask is sampled as it is: its control would be the closed form itself
    return drawn(_sampled_problem(model, inputs, masks), method, controlled=not is_linear_in_masks(model))


def _sampled_problem(model: Model, inputs: Tensor, masks: MaskLaw) -> Conditional:
    if model.batch_shape:
        raise ValueError("masks are drawn for one model at a time, got a batch of them; use ClosedForm() or a loop")
    try:
        return conditional(model, inputs, masks)
    except NoClosedForm:  # a law that may correlate layers is drawn as a whole
        return conditional.dispatch(Model)(model, inputs, masks)


def drawn(problem: Conditional, method: MonteCarlo, controlled: bool = True) -> Predictive:
    """Moments from drawn early masks."""
    mean, variance = sampled_moments(problem, method, controlled)

    def joint() -> Estimate:
        plain = problem.plain().center
        found = MixtureMoments.of(sampled_outcomes(problem, method), plain, joint=True)
        value = found.centers * (method.samples / (method.samples - 1)) + found.noise
        fixed = value.detach()
        text = f"Monte Carlo, {method.samples} masks, without control, error not measured"
        return Estimate(value, fixed, fixed, text, method.samples, confidence=0.0)

    return Predictive(mean, variance, partial(sampled_outcomes, problem, method), joint, method.samples)
