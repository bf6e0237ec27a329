"""How public functions are asked: a problem in, the parts of the answer out, each in a form that can be compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from cases import normal
from torch import Tensor

import droptics as d
from droptics import attacks, bounds, coadaptation, equalization, landscapes, linalg, norms
from droptics.data import Moments, Sample
from droptics.errors import NoClosedForm
from droptics.losses import CrossEntropy
from droptics.models import (
    Model,
    ReLUNet,
)
from droptics.penalties import unit_outputs
from droptics.spectra import OneRate, action
from metamorphic.parts import PATH
from metamorphic.problems import Named, Problem


def outputs(problem: Problem, model: Model) -> Tensor:
    """What a model does to the examples: independent of the units of the inputs and of the order of the units."""
    inputs = problem.inputs.tensor
    return model.outputs(inputs.to(model.dtype) if inputs.is_floating_point() else inputs).detach()


def found(problem: Problem) -> tuple[Any, ...]:
    """Optimum: objective, bound, rank and map; where it is not certified, only the bound speaks."""
    best = d.optimum(problem.family, problem.data, problem.masks)
    return (best.objective, best.bound, best.rank, outputs(problem, best.model)) if best.certified else (best.bound,)


def head(problem: Problem) -> tuple[Any, ...]:
    best = d.optimal_head(problem.model, problem.data, problem.masks)
    return best.objective, best.bound, outputs(problem, best.model)


def certified(problem: Problem) -> tuple[Any, ...]:
    certificate = d.certify(problem.model, problem.data, problem.masks)
    return certificate.objective, certificate.bound


def equalized(problem: Problem) -> tuple[Any, ...]:
    model = d.equalize(problem.model, problem.data, problem.masks)
    return outputs(problem, model), d.penalty(model, problem.data, problem.masks)


def balanced(problem: Problem) -> tuple[Any, ...]:
    model = d.balance(problem.model, problem.data)
    return outputs(problem, model), d.penalty(model, problem.data, problem.masks)


def by_order(problem: Problem) -> tuple[Any, ...]:
    return equalization.order_gaps(problem.model, problem.data, problem.masks).unbind(-1)


def far_apart(problem: Problem) -> tuple[Any, ...]:
    found = equalization.gap_condition(problem.data, problem.masks)
    return found.first, found.second, found.holds


def least_margins(problem: Problem) -> Tensor:
    """The smallest margins within a Euclidean ball, in closed form."""
    data = labelled(problem)
    if problem.targets.tensor.shape[1] < 2:
        raise NoClosedForm("one output has no margin between classes")
    return attacks.smallest_margins(problem.model, data.inputs, data.targets, attacks.Threat("l2", 0.5))


def of_map(problem: Problem) -> tuple[Any, ...]:
    best = d.optimum_of_map(problem.targets.tensor.mT, problem.masks)
    return best.objective, best.bound, best.rank


def ridge(problem: Problem) -> tuple[Any, ...]:
    x, y, weights = _arrays(problem)
    fitted = d.DropoutRidge(0.3).fit(x, y, weights)
    return fitted.objective_, torch.from_numpy(fitted.predict(x).reshape(y.shape))


def ridge_path(problem: Problem) -> tuple[Any, ...]:
    x, y, weights = _arrays(problem)
    fitted = d.DropoutRidgeCV(PATH).fit(x, y, weights)
    return (fitted.drop_, torch.from_numpy(fitted.predict(x).reshape(y.shape)), *fitted.loo_errors_)


def _arrays(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    shares = None if problem.shares is None else problem.shares.tensor.cpu().numpy()
    return problem.inputs.tensor.cpu().numpy(), problem.targets.tensor.cpu().numpy(), shares


def labelled(problem: Problem) -> Sample:
    """The sample with classes instead of targets: they are not measured in any units."""
    targets = problem.targets.tensor
    classes = (targets / targets.abs().amax()).argmax(1)
    return Sample(problem.inputs.tensor, classes, problem.sample.weights)


def joint_moments(problem: Problem) -> Tensor:
    """Second moments of the sample that `Moments.as_sample` makes, each divided by the sizes of its two numbers."""
    moments = Moments.of_sample(problem.sample)
    again = Moments.of_sample(moments.as_sample())
    full = [torch.cat([torch.cat([m.xx, m.yx.mT], 1), torch.cat([m.yx, m.yy], 1)]) for m in (moments, again)]
    sizes = full[0].diagonal().sqrt()
    sizes = torch.where(sizes > 0, sizes, sizes.amax())  # a feature that is zero has no units
    return ((full[1] - full[0]) / torch.outer(sizes, sizes)).abs().amax()


def by_pivots(problem: Problem) -> tuple[Any, ...]:
    return d.sub_penalties(problem.model, problem.data, problem.masks).unbind(-1)


def bounded(problem: Problem) -> tuple[Any, ...]:
    """Both ends and the middle of the certified cross-entropy penalty; labels do not matter, but must be some."""
    found = d.penalty(problem.model, labelled(problem), problem.masks, d.Certified(2), CrossEntropy())
    return found.lower, found.value, found.upper


def relu_cross_entropy(problem: Problem) -> Tensor:
    return d.relu_criterion(problem.model, labelled(problem), problem.masks, loss=CrossEntropy()).mean()


def by_units(problem: Problem) -> Tensor:
    """What the units add to the outputs, added up."""
    parts = unit_outputs(problem.model, problem.inputs.tensor)
    return (parts.features.unsqueeze(-2) * parts.head).sum(-1)


def predicted(problem: Problem) -> tuple[Any, ...]:
    found = d.predictive(problem.model, problem.inputs.tensor, problem.masks)
    return found.mean, found.variance


def explicit(problem: Problem) -> Tensor:
    """The penalty that an ExplicitDropout layer keeps, for the rate of the first unit."""
    model = problem.model
    drop = float(1 - problem.masks.mean[0])
    layer = d.ExplicitDropout(drop, model.head)
    layer(model.features(problem.inputs.tensor))
    return d.explicit_penalty(layer)


def rescaled(problem: Problem) -> tuple[Any, ...]:
    scales = [0.5 + torch.arange(law.size).to(problem.targets.tensor) for _, law in problem.laws]
    model = d.rescale(problem.model, scales)
    return outputs(problem, model), d.penalty(model, problem.data, problem.masks)


def other_factors(problem: Problem) -> tuple[Any, ...]:
    """Optimal factors by another rotation: the same map and the same criterion."""
    best = d.optimum(problem.family, problem.data, problem.masks)
    if not isinstance(action(problem.masks), OneRate):
        raise NoClosedForm("all optimal factors are known for one rate")
    turn = torch.linalg.qr(normal(problem.masks.size, problem.masks.size)).Q.to(best.model.U)
    model = d.optimal_factors(best, turn)
    return outputs(problem, model), d.criterion(model, problem.data, problem.masks)


def spectrum(problem: Problem) -> Tensor:
    """Numbers measured in the units of the outputs: as good a spectrum as any."""
    return problem.targets.tensor.abs().sum(0)


def ladder(problem: Problem, count: int = 3) -> Tensor:
    """Strengths of units."""
    return torch.linspace(0.1, 0.9, count).to(problem.targets.tensor)


def shrunk_unequal(problem: Problem) -> Tensor:
    return linalg.shrink_unequal(spectrum(problem), ladder(problem))[0].sum()


def shared_out(problem: Problem) -> Tensor:
    return linalg.allocate(spectrum(problem), ladder(problem)).max()


def nuclear_norm(problem: Problem) -> Tensor:
    return norms.nuclear(problem.targets.tensor)


def leverages(problem: Problem) -> float:
    """The sum of the leverages: examples times rank where C is their own second moment."""
    return bounds.data_norm(Sample(problem.inputs.tensor, problem.targets.tensor)) ** 2


def shrunk_by_blocks(problem: Problem) -> Tensor:
    return linalg.k_support_shrink(spectrum(problem), 0.4, 2).sum()


def weighted(problem: Problem) -> Tensor:
    values = problem.targets.tensor
    return norms.weighted_trace(values, ladder(problem, len(values)), torch.full_like(values[0], 0.3))


def paths(problem: Problem) -> Tensor:
    return norms.path_norm([value.tensor for _, value in sorted(problem.weights.items())])


def margin(problem: Problem) -> float:
    """The margin of labels that are separable: the signs of the first feature after its mean."""
    x = problem.inputs.tensor
    return bounds.linear_margin(Sample(x, torch.where(x[:, :1] > 0, 1.0, -1.0).to(x)))


def relu_size(problem: Problem) -> float:
    """Of the network without biases and with one output."""
    model = ReLUNet([problem.weights["W0"].tensor, problem.weights["W1"].tensor[:1]])
    return bounds.relu_alpha(model, problem.sample)


def completion_size(problem: Problem) -> float:
    return bounds.completion_alpha(problem.model, problem.data)


def kinds(problem: Problem) -> tuple[Any, ...]:
    """What kind of point the model, the origin and the optimum are."""
    if not problem.masks.independent:
        raise NoClosedForm("the optimum is a search")
    best = d.optimum(problem.family, problem.data, problem.masks)
    if not best.certified:
        raise NoClosedForm("whether it is the global minimum is not known at this precision")
    models = (problem.model, origin(problem), best.model)
    seen = tuple(landscapes.inspect(model, problem.data, problem.masks).kind for model in models)
    if problem.data.dtype == torch.float32 and seen[-1] != "global minimum":
        raise NoClosedForm("the certificate of rounded data is too wide to call it the global minimum")
    return seen


def origin(problem: Problem) -> Model:
    return problem.mapped(lambda named: Named(torch.zeros_like(named.tensor), named.axes)).model


def critical(problem: Problem) -> tuple[Any, ...]:
    points = landscapes.critical_points(problem.family, problem.data, problem.masks)
    return (len(points), [point.kind for point in points], *(point.objective for point in points))


def way_down(problem: Problem) -> tuple[Any, ...]:
    zero = origin(problem)
    below = landscapes.escape(zero, problem.data, problem.masks)
    return (below.objective < float(d.criterion(zero, problem.data, problem.masks)),)


def slope(problem: Problem) -> Tensor:
    """The derivative along the weights themselves: a number, where the gradient depends on all units."""
    slopes = landscapes.gradient(problem.model, problem.data, problem.masks)
    return sum((slope * tensor).sum() for slope, tensor in zip(slopes, problem.model.tensors, strict=True))


def curvature(problem: Problem) -> Tensor:
    tensors = problem.model.tensors
    moved = landscapes.hessian_action(problem.model, problem.data, problem.masks, tensors)
    return sum((part * tensor).sum() for part, tensor in zip(moved, tensors, strict=True))


def curvature_by_matrix(problem: Problem) -> Tensor:
    flat = torch.cat([tensor.flatten() for tensor in problem.model.tensors])
    return flat @ landscapes.hessian(problem.model, problem.data, problem.masks) @ flat


def kept(problem: Problem) -> tuple[Any, ...]:
    """Retentivity of two features: exact there."""
    x = problem.inputs.tensor[:, :2]
    seen = coadaptation.retentivity(Sample(x, problem.targets.tensor, problem.sample.weights))
    return seen.value, seen.rank
