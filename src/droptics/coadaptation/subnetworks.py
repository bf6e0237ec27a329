"""Sub-networks: draw them, evaluate many at once, find a small good one, and export it as a smaller module."""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from droptics.answers import checked, checked_rules
from droptics.arguments import Count, Finite, Flags, NonNegative, Rows, Seed, Table, Whole, check_arguments
from droptics.checks import check_same_kind, check_size
from droptics.coadaptation.measures import flows, hidden_features
from droptics.data import Sample
from droptics.masks import MaskLaw
from droptics.models import LastLayer, Model, ReLUNet, TwoLayerLinear
from droptics.models.modules import evaluating, linear_layer

# Elements of the largest intermediate tensor: 64 MB in float32.
_CHUNK = 2**24


@dataclass(frozen=True, eq=False)
class Subnetworks:
    """Accuracy of the full network, accuracies (count,) of its sub-networks and the numbers of units that they keep."""

    full: float
    accuracies: Tensor
    widths: Tensor

    @property
    def gap(self) -> float:
        """Accuracy of the full network minus the mean over the sub-networks."""
        return self.full - float(self.accuracies.mean())

    def quantiles(self, levels: tuple[float, ...] = (0.05, 0.5, 0.95)) -> tuple[float, ...]:
        """Quantiles of the accuracies over the sub-networks."""
        return tuple(torch.quantile(self.accuracies, self.accuracies.new_tensor(levels)).tolist())


def draw(masks: MaskLaw, count: Count, generator: torch.Generator) -> Tensor:
    """Sub-networks under a mask law as a boolean table (count, units), True for units that are kept.

    Cost: O(count units). Claim: none, it draws.
    """
    check_arguments(draw, locals())
    return masks.sample(count, generator) != 0


@checked
def subnetwork_outputs(model: Model, inputs: Rows, kept: Table, *, scale: Finite = 1.0) -> Tensor:
    """Outputs (count, examples, outputs) of all sub-networks at once.

    The layers below the masked one run once; only the last layer is masked, as one matrix product over all
    sub-networks. Kept units are multiplied by `scale` (1 / (1 - drop) gives what dropout computes in training).
    Cost: one pass, and O(count n units outputs). Claim: none, it evaluates.
    """
    features, weight, bias = _readout(model, inputs)
    return _masked_outputs(features, scale * weight, bias, _masks(kept, features))


def evaluate(model: Model, data: Sample, kept: Table, *, scale: Finite = 1.0) -> Subnetworks:
    """Accuracy of every sub-network in `kept` (count, units) and of the full network on the data.

    The features are computed once for all sub-networks and no weights are copied beyond one masked last layer per
    sub-network, in chunks: for width m, k outputs and s sub-networks, O(features + s n m k) instead of s evaluations
    of the whole network. Targets are class labels, one-hot rows, or -1 and +1 for one output (labels: 0 or -1, and 1).
    Examples count by their weights where the data have any. Claim: none, each sub-network is evaluated.
    """
    check_arguments(evaluate, locals())
    with torch.no_grad():
        features, weight, bias = _readout(model, data.inputs)
        masks = _masks(kept, features)
        weights = (torch.ones_like(data.shares) if data.weights is None else data.weights).double()
        correct = features.new_zeros(len(masks), dtype=torch.float64)
        outputs = weight.shape[0]
        block = max(1, min(_CHUNK // max(outputs * features.shape[1], 1), _CHUNK // max(outputs * len(features), 1)))
        for start in range(0, len(masks), block):
            values = _masked_outputs(features, scale * weight, bias, masks[start : start + block])
            correct[start : start + block] = _hits(values, data.targets).double() @ weights / weights.sum()
        full = float(_hits(features @ weight.mT + bias, data.targets).double() @ weights / weights.sum())
    return Subnetworks(full, correct, masks.sum(1).round().long())


def accuracy_by_width(model: Model, data: Sample, order: Tensor | None = None) -> Tensor:
    """Accuracy (units + 1,) of the sub-networks that keep the first 0, 1, ..., all units of `order`.

    By default the order of decreasing flow. Kept units are multiplied by total flow / kept flow, so that outputs keep
    their size beside the bias. All widths come from one cumulative sum, O(n units outputs). Examples count by their
    weights where the data have any. Claim: none, each width is evaluated.
    """
    check_arguments(accuracy_by_width, locals())
    with torch.no_grad():
        features, weight, bias = _readout(model, data.inputs)
        values = flows(model, data).detach()
        order = values.argsort(descending=True, stable=True) if order is None else order.to(values.device)
        check_size("order", order.numel(), features.shape[1], "one position per unit")
        scales = _scales(values[order])
        units, outputs = features.shape[1], weight.shape[0]
        weights = (torch.ones_like(data.shares) if data.weights is None else data.weights).double()
        hits = features.new_zeros(units + 1, dtype=torch.float64)
        rows = max(1, _CHUNK // max(units * outputs, 1))
        ordered = weight[:, order]
        for start in range(0, len(features), rows):
            part = features[start : start + rows, order]
            sums = (part[:, None, :] * ordered).cumsum(-1) * scales[1:]
            padded = torch.cat([torch.zeros_like(sums[..., :1]), sums], dim=-1) + bias[:, None]
            right = _hits(padded.movedim(-1, 0), data.targets[start : start + rows]).double()
            hits += right @ weights[start : start + rows]
    return hits / weights.sum()


@dataclass(frozen=True, eq=False)
class Subnetwork:
    """One sub-network: the units it keeps, what they are multiplied by, its accuracy and that of the full network."""

    kept: Tensor
    scale: float
    accuracy: float
    full: float

    @property
    def width(self) -> int:
        """Number of units kept."""
        return int(self.kept.sum())


def smallest(
    model: Model, data: Sample, tolerance: NonNegative = 0.01, *, draws: Whole = 4, seed: Seed = 0
) -> Subnetwork:
    """The smallest sub-network found whose accuracy is within `tolerance` of the full network's.

    Finding the smallest of all 2^units sub-networks is hard. The candidates are all prefixes of the units in
    decreasing order of flow and in `draws` random orders, every one of them evaluated; in wide networks trained with
    dropout random units often do better than those of largest flow. The choice is made on the data given: judge the
    result on other data. O((1 + draws) n units outputs). Claim: none, a search, every candidate of which is evaluated.
    """
    check_arguments(smallest, locals())
    values = flows(model, data).detach()
    generator = torch.Generator().manual_seed(int(seed))
    orders = [values.argsort(descending=True, stable=True).cpu()]
    orders += [torch.randperm(len(values), generator=generator) for _ in range(draws)]
    full = evaluate(model, data, torch.ones(1, len(values), dtype=torch.bool)).full
    best = Subnetwork(torch.ones(len(values), dtype=torch.bool), 1.0, full, full)
    # sums of weights round by the order of their terms, whole numbers do not
    least = full - tolerance - (0.0 if data.weights is None else len(data) * torch.finfo(torch.float64).eps)
    for order in orders:
        curve = accuracy_by_width(model, data, order)
        scales = _scales(values.cpu()[order])
        for width in (curve >= least).nonzero()[:, 0].tolist():
            if width >= best.width:
                break
            kept = torch.zeros(len(values), dtype=torch.bool)
            kept[order[:width]] = True
            # the cumulative sum rounds differently from a matrix product: ties may fall either way
            accuracy = float(evaluate(model, data, kept[None], scale=float(scales[width])).accuracies[0])
            if accuracy >= least:
                best = Subnetwork(kept, float(scales[width]), accuracy, full)
                break
    return best


def _scales(ordered: Tensor) -> Tensor:
    """Total flow / flow of the first 0, 1, ... units; 1 where these carry none."""
    sums = torch.cat([ordered.new_zeros(1), ordered.cumsum(0)])
    return torch.where(sums > 0, sums[-1] / sums.clamp_min(torch.finfo(sums.dtype).tiny), torch.ones_like(sums))


@checked_rules
def export(model: Model, data: Sample, kept: Flags, *, scale: Finite = 1.0, previous: str | None = None) -> nn.Module:
    """The sub-network as a plain torch module with smaller layers.

    Rows of the layer that computes the kept units and columns of the last layer are copied, everything else of the
    module is as before. For a LastLayer, the layer before is `previous` (a name in `named_modules()`; by default the
    last linear layer before the head with as many outputs as there are units); only elementwise functions that map
    each unit alone may stand between the two. The result is compared with the masked network on the data and refused
    if it differs. Cost: a copy of the module. Claim: none, outputs are those of the masked network.
    """
    raise ValueError(f"model must be ReLUNet, TwoLayerLinear or LastLayer to be exported, got {type(model).__name__}")


@export.register
def _(model: ReLUNet, data: Sample, kept: Tensor, *, scale: float = 1.0, previous: str | None = None) -> nn.Module:
    index = _index(kept, model.weights[-1].shape[-1])
    weights, biases = list(model.weights), list(model.biases)
    weights[-2], biases[-2] = weights[-2][index], biases[-2][index]
    weights[-1] = scale * weights[-1][:, index]
    layers: list[nn.Module] = []
    for weight, bias in zip(weights, biases, strict=True):
        layers += [linear_layer(weight, bias if bool((bias != 0).any()) else None), nn.ReLU()]
    return _verified(nn.Sequential(*layers[:-1]), model, data, kept, scale)


@export.register
def _(
    model: TwoLayerLinear, data: Sample, kept: Tensor, *, scale: float = 1.0, previous: str | None = None
) -> nn.Module:
    index = _index(kept, model.units)
    module = nn.Sequential(linear_layer(model.V[:, index].mT), linear_layer(scale * model.U[:, index]))
    return _verified(module, model, data, kept, scale)


@export.register
def _(model: LastLayer, data: Sample, kept: Tensor, *, scale: float = 1.0, previous: str | None = None) -> nn.Module:
    index = _index(kept, model.units)
    names = {layer: name for name, layer in model.module.named_modules()}
    before = _previous(model, previous)
    module = copy.deepcopy(model.module)
    smaller = {
        names[before]: linear_layer(before.weight[index], None if before.bias is None else before.bias[index]),
        names[model.head]: linear_layer(scale * model.head.weight[:, index], model.head.bias),
    }
    for name, layer in smaller.items():
        parent, _, child = name.rpartition(".")
        setattr(module.get_submodule(parent), child, layer)
    return _verified(module, model, data, kept, scale)


def _previous(model: LastLayer, name: str | None) -> nn.Linear:
    layers = {key: layer for key, layer in model.module.named_modules() if isinstance(layer, nn.Linear)}
    if name is not None:
        if name not in layers:
            raise ValueError(f"previous must be one of the linear layers {sorted(layers)}, got {name!r}")
        return layers[name]
    before = itertools.takewhile(lambda layer: layer is not model.head, layers.values())
    fitting = [layer for layer in before if layer.out_features == model.units]
    if not fitting:
        raise ValueError(
            f"no linear layer with {model.units} outputs stands before the head; name it with previous=..."
        )
    return fitting[-1]


def _verified(module: nn.Module, model: Model, data: Sample, kept: Tensor, scale: float) -> nn.Module:
    """Compare the module with the masked network on a few examples, in evaluation mode, flags restored."""
    inputs = data.inputs[:16]
    with evaluating(module), torch.no_grad():
        try:
            got = module(inputs)
        except RuntimeError as error:
            text = f"the smaller module does not run: {error}; name another layer with previous=..."
            raise ValueError(text) from error
        wanted = subnetwork_outputs(model, inputs, kept.reshape(1, -1), scale=scale)[0]
        features, weight, bias = _readout(model, inputs)
        size = (features.abs() @ (scale * weight).abs().mT + bias.abs()).max()  # of the terms that are added up
    limit = 100 * math.sqrt(kept.numel()) * torch.finfo(got.dtype).eps * float(size)
    if got.shape != wanted.shape or float((got - wanted).abs().max()) > limit:
        raise ValueError(
            "the smaller module does not compute the sub-network: something between the two layers mixes units; "
            "name the layer that computes them with previous=..."
        )
    return module


def _readout(model: Model, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Features (examples, units), last weights (outputs, units) and last bias (outputs,)."""
    if not isinstance(model, LastLayer):
        check_same_kind({"model": model.tensors[0], "inputs": inputs})
    match model:
        case ReLUNet():
            if model.batch_shape:
                raise ValueError(f"model must be one network, got a batch of shape {tuple(model.batch_shape)}")
            return hidden_features(model, inputs), model.weights[-1], model.biases[-1]
        case TwoLayerLinear():
            return inputs @ model.V, model.U, model.U.new_zeros(model.U.shape[0])
        case LastLayer():
            weight = model.head.weight
            bias = weight.new_zeros(weight.shape[0]) if model.head.bias is None else model.head.bias
            return model.features(inputs), weight, bias
    raise ValueError(f"model must be ReLUNet, TwoLayerLinear or LastLayer, got {type(model).__name__}")


def _masked_outputs(features: Tensor, weight: Tensor, bias: Tensor, masks: Tensor) -> Tensor:
    """Outputs (count, examples, outputs) of the last layer under every row of masks, as one matrix product."""
    masked = (masks[:, None, :] * weight).reshape(-1, features.shape[1])
    return (features @ masked.mT).reshape(len(features), len(masks), len(weight)).transpose(0, 1) + bias


def _masks(kept: Tensor, features: Tensor) -> Tensor:
    if kept.ndim != 2:
        raise ValueError(f"kept must be a table (sub-networks, units), got shape {tuple(kept.shape)}")
    check_size("kept (columns)", kept.shape[1], features.shape[1], "one entry per unit of the last hidden layer")
    return kept.to(features)


def _index(kept: Tensor, units: int) -> Tensor:
    flat = kept.reshape(-1) != 0
    check_size("kept", flat.numel(), units, "one entry per unit of the last hidden layer")
    if not bool(flat.any()):
        raise ValueError("kept must keep at least one unit")
    return flat.nonzero()[:, 0]


def _hits(outputs: Tensor, targets: Tensor) -> Tensor:
    """Whether each prediction (..., n, outputs) is right, (..., n)."""
    if outputs.shape[-1] == 1:
        sides = targets[:, 0] if targets.is_floating_point() else torch.where(targets > 0, 1, -1)
        return outputs[..., 0] * sides > 0
    return outputs.argmax(-1) == (targets.argmax(-1) if targets.is_floating_point() else targets)
