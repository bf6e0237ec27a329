"""What can be said exactly: the linear layer that ends a module, and modules that are linear from end to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from droptics.audits.batches import Batch
from droptics.data import Moments, Sample
from droptics.estimates import PlainEstimate
from droptics.losses import CrossEntropy, Logistic
from droptics.masks import Bernoulli, MaskLaw, Product
from droptics.models import DeepLinear, LastLayer
from droptics.models.modules import linear_layer
from droptics.models.watching import Trace, written
from droptics.penalties import Certified, ClosedForm, penalty

# Functions that may stand between the linear layers of a linear chain without changing its map.
HARMLESS = {"linear", "linear.default", "flatten", "view", "reshape", "__get__", "dim", "size"}
FOURIER = "exact: characteristic function"
MOST_WORK = 2e9  # multiplications for the bounds of a cross-entropy head
KEPT_EXAMPLES = 4096  # features kept for statements that need single examples; more are counted but not kept
KEPT_OUTPUTS = 2**22  # outputs of the kept examples


class Seconds(NamedTuple):
    """E x x^T, E y x^T and E y y^T where the module is, taken as they come: `Moments` would prove ranks on the way."""

    xx: Tensor
    yx: Tensor
    yy: Tensor

    def joined(self, other: Seconds, share: float) -> Seconds:
        """Those of both, of which `other` has this share."""
        return Seconds(*(torch.lerp(one, two.to(one.device), share) for one, two in zip(self, other, strict=True)))


@dataclass
class Head:
    """The last linear layer with a dropout site right before it: features in, outputs out."""

    site: str  # name of the site
    weight: Tensor  # (outputs, units), float64; it and the bias on the CPU, because the outputs may be a vocabulary
    bias: Tensor  # (outputs,), float64, zeros when the layer has none
    moments: Seconds | None = None  # of (features, targets - bias), over all batches; None for class labels
    energies: Tensor | None = None  # E a_j^2 over all batches
    count: int = 0
    features: list[Tensor] = field(default_factory=list)  # the first features, for statements about single examples
    targets: list[Tensor] = field(default_factory=list)  # their targets

    def add(self, features: Tensor, targets: Tensor) -> None:
        """Add the features of one batch."""
        kept = sum(len(part) for part in self.features)
        if kept < self.most:
            self.features.append(features[: self.most - kept].detach().clone())
            self.targets.append(targets[: self.most - kept].detach().clone())
        exact = features.detach().double()
        share = len(exact) / max(self.count + len(exact), 1)
        energies = exact.square().sum(0) / max(len(exact), 1)
        self.energies = energies if self.energies is None else torch.lerp(self.energies, energies, share)
        self.count += len(exact)
        if targets.is_floating_point():
            wanted = (targets.double()[:, None] if targets.ndim == 1 else targets.double()) - self.bias.to(exact.device)
            pairs = (exact, exact), (wanted, exact), (wanted, wanted)
            part = Seconds(*(one.mT @ other / len(exact) for one, other in pairs))
            self.moments = part if self.moments is None else self.moments.joined(part, share)

    @property
    def most(self) -> int:
        """Examples that are kept: fewer where the outputs of each are a vocabulary."""
        return max(1, min(KEPT_EXAMPLES, KEPT_OUTPUTS // len(self.weight)))

    def merge(self, other: Head) -> Head:
        """The head over both shards."""
        assert self.energies is not None
        assert other.energies is not None
        share = other.count / (self.count + other.count)
        both = Head(self.site, self.weight, self.bias, count=self.count + other.count)
        place = self.energies.device
        both.energies = torch.lerp(self.energies, other.energies.to(place), share)
        if self.moments is not None and other.moments is not None:
            both.moments = self.moments.joined(other.moments, share)
        both.features = [torch.cat([part.to(place) for part in self.features + other.features])[: self.most]]
        both.targets = [torch.cat([part.to(place) for part in self.targets + other.targets])[: self.most]]
        return both

    def penalty(self, rate: float) -> float:
        """Exact squared-loss penalty at any rate: lambda sum_j ||w_j||^2 E a_j^2 (thesis-prop5)."""
        assert self.energies is not None
        return rate / (1 - rate) * float((self.weight.square().sum(0) * self.energies.cpu()).sum())

    def entropic(self, rate: float, loss: object) -> PlainEstimate | None:
        """Penalty of a cross-entropy or logistic head: proved bounds, or an exact integral; None where neither is had.

        Only where all examples were kept, and within a bound on the work, outputs^2 x units per example.
        """
        outputs, units = self.weight.shape
        if self.count > sum(len(part) for part in self.features) or self.count * outputs**2 * units > MOST_WORK:
            return None
        masks = Bernoulli(rate, units)
        if isinstance(loss, Logistic) and outputs == 1:
            return PlainEstimate.exact(float(penalty(self.model(), self.sample(), masks, ClosedForm(), loss)), FOURIER)
        if isinstance(loss, CrossEntropy):
            found = penalty(self.model(), self.sample(), masks, Certified(), loss)
            return PlainEstimate(float(found), float(found.lower), float(found.upper), "certified")
        return None

    def model(self) -> LastLayer:
        """The head as a model whose inputs are the features."""
        return LastLayer.of(linear_layer(self.weight, self.bias).requires_grad_(False))

    def examples(self) -> tuple[Tensor, Tensor]:
        """The kept features with their targets, in float64 where they are."""
        targets = torch.cat(self.targets)
        return torch.cat(self.features).double(), targets.double() if targets.is_floating_point() else targets

    def sample(self) -> Sample:
        """The same on the CPU."""
        features, targets = self.examples()
        return Sample(features.cpu(), targets.cpu())


def find_head(trace: Trace, outputs: Tensor) -> Head | None:
    """The site right before the linear layer that returns the outputs, in a run with all switches off.

    Only a candidate: `confirmed` tells whether the outputs follow the masks of this site as a linear layer does.
    """
    if not trace.linear:
        return None
    last = trace.linear[-1]
    if last.result is not outputs or last.source.ndim != 2 or written(outputs) != last.versions[1]:
        return None
    for call in reversed(trace.calls):
        if call.result is last.source and call.kind == "dropout" and 0 < call.rate < 1:
            if call.version != last.versions[0]:
                return None  # written to between dropout and the layer
            offset = torch.zeros(last.weight.shape[0]) if last.bias is None else last.bias.detach()
            return Head(call.site, last.weight.detach().cpu().double(), offset.cpu().double())
    return None


def confirmed(head: Head, trace: Trace, outputs: Tensor) -> bool:
    """Whether outputs = weight (z o a) + bias in a run in which the head's site dropped, up to rounding."""
    calls = [call for call in trace.calls if call.site == head.site and call.applied]
    if len(calls) != 1 or calls[0].result is None or outputs.ndim != 2:
        return False
    masked = calls[0].result
    level = (masked.shape[1] + 2) * torch.finfo(outputs.dtype).eps
    masked, step = masked.double(), max(1, KEPT_OUTPUTS // (16 * max(masked.shape)))
    for start in range(0, outputs.shape[1], step):  # a vocabulary of outputs in float64 is checked in parts
        part = slice(start, start + step)
        weight, bias = head.weight[part].to(masked.device), head.bias[part].to(masked.device)
        wanted = masked @ weight.mT + bias
        # every product and every partial sum may be rounded
        scale = masked.abs() @ weight.abs().mT + bias.abs()
        if not bool(((outputs[:, part].double() - wanted).abs() <= level * scale).all()):
            return False
    return True


def head_features(trace: Trace) -> Tensor:
    """Input of the last linear layer."""
    return trace.linear[-1].features


@dataclass
class Chain:
    """A module that is linear from end to end: its layers, the layer of each site, and the moments of the data.

    Biases become the weights of a constant unit that never falls, so the exact formulas of deep linear networks apply.
    """

    layers: list[tuple[Tensor, Tensor]]
    places: dict[str, int]
    moments: Moments | None = None

    def add(self, batch: Batch) -> None:
        """Add the inputs and targets of one batch."""
        inputs = batch.arguments[0].detach().double().flatten(1)
        targets = batch.targets.double()
        part = Moments.of_sample(Sample(_with_constant(inputs), targets[:, None] if targets.ndim == 1 else targets))
        self.moments = part if self.moments is None else Moments.merged([self.moments, part])

    def merge(self, other: Chain) -> Chain:
        """The chain over both shards."""
        assert self.moments is not None
        assert other.moments is not None
        return Chain(self.layers, self.places, Moments.merged([self.moments, other.moments]))

    def penalty(self, rates: dict[str, float]) -> float:
        """Exact squared-loss penalty when the named sites drop at the given rates and all others do not."""
        assert self.moments is not None
        model = self.model()
        drops = [torch.zeros(size, dtype=torch.float64) for size in model.layer_units]
        for site, rate in rates.items():
            layer = drops[self.places[site]]
            layer[:-1] = 1 - (1 - layer[:-1]) * (1 - rate)  # two sites on one layer multiply
        laws: list[MaskLaw] = [Bernoulli(drop, len(drop)) for drop in drops]
        return float(penalty(model, self.moments, Product(laws)))

    def model(self) -> DeepLinear:
        """The module as a deep linear network with a constant unit in every layer but the last."""
        weights = [torch.cat([weight.double(), bias.double()[:, None]], 1).cpu() for weight, bias in self.layers]
        for position, rows in enumerate(weights[:-1]):
            weights[position] = torch.nn.functional.pad(rows, (0, 0, 0, 1))
            weights[position][-1, -1] = 1
        return DeepLinear(weights, mask_inputs=True)


def find_chain(trace: Trace, batch: Batch, outputs: Tensor, sites: Sequence[str]) -> Chain | None:
    """The module as a chain of linear layers with dropout between them, if that is all it is; for squared loss."""
    simple = set(trace.functions) <= HARMLESS and not trace.hand_written and bool(outputs.isfinite().all())
    if not simple or len(trace.linear) < 2 or len(batch.arguments) != 1 or batch.options:
        return None
    places = chain_places(trace, outputs)
    if places is None or set(places) != set(sites):
        return None
    calls = [(call.weight.detach(), call.bias) for call in trace.linear]
    chain = Chain([(w, w.new_zeros(len(w)) if bias is None else bias.detach()) for w, bias in calls], places)
    inputs = _with_constant(batch.arguments[0].detach().double().flatten(1).cpu())
    if inputs.shape[1] != chain.model().input_size:
        return None
    again = chain.model().outputs(inputs)
    rounding = 1e-4 if outputs.dtype != torch.float64 else 1e-10
    return chain if torch.allclose(again, outputs.double().cpu(), rtol=rounding, atol=rounding) else None


def chain_places(trace: Trace, outputs: Tensor) -> dict[str, int] | None:
    """The layer before which each site stands, where every layer reads nothing but what the one before it returns."""
    sources = {id(call.result): call.source for call in trace.calls if call.source is not None}
    value = trace.linear[0].source
    while id(value) in sources:
        value = sources[id(value)]
    places, waiting = {}, list(trace.calls)
    for position, linear in enumerate(trace.linear):
        while value is not linear.source:
            call = next((call for call in waiting if call.source is value), None)
            if call is None or call.result is None or call.kind != "dropout" or call.rate >= 1:
                return None
            waiting.remove(call)
            value = call.result
            places[call.site] = position
        value = linear.result
    return places if value is outputs else None


def _with_constant(inputs: Tensor) -> Tensor:
    return torch.cat([inputs, torch.ones_like(inputs[:, :1])], 1)
