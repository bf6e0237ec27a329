"""Outputs as a mixture: affine in the last mask once the earlier ones are fixed, summed over those.

With c the mean and Q the covariance of the outputs given the early masks, mean f = E c and Cov f = E Q + Cov c
(droptics-predictive-mixture). The early masks are listed here, all of them; `sampling` draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch

import numpy as np
import torch
from torch import Tensor

from droptics.errors import NoFiniteSupport
from droptics.masks import Bernoulli, MaskLaw, Product
from droptics.models import DeepLinear, Model, ReLUNet
from droptics.penalties import UnitOutputs
from droptics.penalties.deep_linear import layer_laws
from droptics.penalties.evaluation import CHUNK_ELEMENTS
from droptics.penalties.relu.criterion import network_laws
from droptics.predictions.affine import Affine
from droptics.predictions.kernels import add_hidden_moments
from droptics.progress import tracked
from droptics.transforms import wants_derivative

Outcome = tuple[Tensor, Affine]


@dataclass(frozen=True, eq=False)
class Conditional:
    """A model on inputs, with its masks split into early ones and a last one in which the outputs are affine.

    Attributes:
        early: Laws of the early sites, independent of each other, in the order of the multipliers.
        given: Early multipliers (m, 1 or examples, early units) to the outputs, with m as leading dimension.
        size: Elements that one early mask needs for all examples.
        fresh: Like `given`, with what cannot be masked from outside drawing for itself; None where nothing does.
        quiet: The outputs with every early multiplier at one, where they are known already.
        compiled: Sums the moments over all early masks by a loop of its own; None where `given` has to be asked.
    """

    early: tuple[MaskLaw, ...]
    given: Callable[[Tensor], Affine]
    size: int
    fresh: Callable[[Tensor], Affine] | None = None
    quiet: Affine | None = None
    compiled: Callable[[Tensor], MixtureMoments] | None = None

    @property
    def law(self) -> MaskLaw:
        """The early sites together."""
        return self.early[0] if len(self.early) == 1 else Product(self.early)

    @property
    def room(self) -> int:
        """How many early masks are evaluated at once."""
        return max(1, CHUNK_ELEMENTS // max(self.size, 1))

    def plain(self) -> Affine:
        """The outputs with every early multiplier at its mean, one; no leading dimension."""
        if self.quiet is not None:
            return self.quiet
        ones = torch.ones(1, 1, sum(law.size for law in self.early), dtype=torch.float64)
        return first(self.given(ones))

    def moments(self, plain: Tensor) -> MixtureMoments:
        """Variances over all early masks, around the outputs without masks."""
        return self.compiled(plain) if self.compiled else MixtureMoments.of(self.outcomes(), plain, joint=False)

    def outcomes(self) -> Iterator[Outcome]:
        """Probabilities (m,) and outputs for all early masks, some at a time."""
        listed = self.law.atom_batches(self.room)
        count = self.law.support_count
        for multipliers, probabilities in tracked(listed, "all masks", "mask", count, lambda part: len(part[1])):
            possible = probabilities > 0
            if bool(possible.any()):
                yield probabilities[possible], self.given(multipliers[possible][:, None, :])


@dataclass(frozen=True, eq=False)
class MixtureMoments:
    """Moments of a mixture around the outputs without masks: no difference of large numbers is left for small rates.

    Attributes:
        shift: Mean minus the outputs without masks.
        centers: Variance (or covariance) of the centers, Cov c.
        noise: Mean of the variances (covariances) of the last mask, E Q.
    """

    shift: Tensor
    centers: Tensor
    noise: Tensor

    @staticmethod
    def of(outcomes: Iterator[Outcome], plain: Tensor, joint: bool) -> MixtureMoments:
        """Sum over outcomes; covariances with `joint`."""
        shifts, seconds, noises = [], [], []
        for weights, affine in outcomes:
            moved = affine.center - plain
            chances = weights.to(moved)
            shifts.append(torch.tensordot(chances, moved, dims=1))
            seconds.append(torch.tensordot(chances, _square(moved, joint), dims=1))
            noises.append(torch.tensordot(chances, affine.covariance() if joint else affine.variance(), dims=1))
        shift, second, noise = (torch.stack(part).sum(0) for part in (shifts, seconds, noises))
        return MixtureMoments(shift, second - _square(shift, joint), noise)


def _square(moved: Tensor, joint: bool) -> Tensor:
    return moved.unsqueeze(-1) * moved.unsqueeze(-2) if joint else moved.square()


def first(affine: Affine) -> Affine:
    """The first of a batch of outputs."""
    units = affine.units
    if units is not None:
        head = units.head if units.head.ndim < affine.center.ndim + 1 else units.head[0]
        units = UnitOutputs(units.features[0], head)
    return Affine(affine.center[0], units, affine.law)


@singledispatch
def conditional(model: Model, inputs: Tensor, masks: MaskLaw) -> Conditional:
    """All masks are early ones; families whose last site can be integrated say so."""
    batch = model.batch_shape

    def given(multipliers: Tensor) -> Affine:
        return Affine(model.outputs(inputs, _shaped(multipliers, batch, model)), None, None)

    return Conditional((masks,), given, len(inputs) * model.units * max(batch.numel(), 1))


@conditional.register
def _(model: DeepLinear, inputs: Tensor, masks: MaskLaw) -> Conditional:
    laws = layer_laws(model, masks)
    if len(laws) == 1:
        return conditional.dispatch(Model)(model, inputs, masks)
    weights = list(model.weights)
    start = inputs if model.mask_inputs else inputs @ weights.pop(0).mT
    biases = [weight.new_zeros(weight.shape[-2]) for weight in weights]
    return _layered(model, start, (weights, biases), laws, relu=False)


@conditional.register
def _(model: ReLUNet, inputs: Tensor, masks: MaskLaw) -> Conditional:
    return _layered(model, inputs, (list(model.weights), list(model.biases)), network_laws(model, masks), relu=True)


def _layered(
    model: Model, start: Tensor, layers: tuple[list[Tensor], list[Tensor]], laws: Sequence[MaskLaw], relu: bool
) -> Conditional:
    """Layers after `start`, each behind its mask; the last mask stays random."""
    weights, biases = layers
    sizes = [law.size for law in laws[:-1]]
    last = laws[-1]

    def given(multipliers: Tensor) -> Affine:
        masks = _shaped(multipliers, model.batch_shape, model).split(sizes, dim=-1)
        hidden = start
        for weight, bias, mask in zip(weights[:-1], biases[:-1], masks, strict=True):
            hidden = (hidden * mask) @ weight.mT + bias.unsqueeze(-2)
            hidden = torch.relu(hidden) if relu else hidden
        center = hidden @ weights[-1].mT + biases[-1].unsqueeze(-2)
        return Affine(center, UnitOutputs(hidden, weights[-1].unsqueeze(-3)), last)

    size = start.shape[-2] * max(weight.shape[-1] for weight in weights) * max(model.batch_shape.numel(), 1)
    early = tuple(laws[:-1])
    match early, last:
        case ((Bernoulli() as coins,), Bernoulli()) if relu and _is_compiled(start, coins, last, *weights, *biases):
            return Conditional(early, given, size, compiled=partial(_one_hidden, start, layers, coins, last))
    return Conditional(early, given, size)


def _is_compiled(start: Tensor, coins: Bernoulli, last: Bernoulli, *values: Tensor) -> bool:
    """Whether the compiled loop applies: one network on the CPU, numbers only."""
    numbers = all(value.device.type == "cpu" for value in (start, *values)) and values[0].ndim == 2
    return numbers and not wants_derivative(start, coins.drop, last.drop, *values)


def _one_hidden(
    inputs: Tensor, layers: tuple[list[Tensor], list[Tensor]], coins: Bernoulli, last: Bernoulli, plain: Tensor
) -> MixtureMoments:
    """Moments of a network with one hidden layer over all coins of its inputs, in float64 whatever the network is."""
    (first, head), (offset, _) = layers
    drop = coins.drop.double()
    random, fixed = (drop > 0).nonzero().squeeze(-1), (drop == 0).nonzero().squeeze(-1)
    wide, weights = inputs.double(), first.double()
    rest = wide[:, fixed] @ weights[:, fixed].mT + offset.double()
    unmasked = torch.relu(wide @ weights.mT + offset.double()) @ head.double().mT
    total = np.zeros((3, *plain.shape))
    add_hidden_moments(
        wide[:, random].contiguous().numpy(),
        (weights[:, random].contiguous().numpy(), rest.numpy()),
        (head.double().contiguous().numpy(), last.relative_variance.double().numpy()),
        drop[random].numpy(),
        unmasked.contiguous().numpy(),
        total,
    )
    shift, second, noise = torch.from_numpy(total).to(plain)
    return MixtureMoments(shift, second - shift.square(), noise)


def check_listable(masks: MaskLaw, limit: int) -> int:
    """Number of masks, refused where there is no list or it is too long."""
    count = masks.support_count
    if count is None:
        raise NoFiniteSupport(f"{type(masks).__name__} has no finite list of masks; use MonteCarlo() instead")
    if count > limit:
        raise ValueError(
            f"masks has {count} masks, more than the limit {limit} of Enumerate; "
            f"use Enumerate(limit={count}) if you can wait, ClosedForm() where it applies, or MonteCarlo()"
        )
    return count


def _shaped(multipliers: Tensor, batch: torch.Size, model: Model) -> Tensor:
    """Multipliers (m, 1 or examples, units) with room for a batch of models."""
    shaped = multipliers.to(model.device, model.dtype)
    return shaped.reshape(len(shaped), *(1,) * len(batch), *shaped.shape[1:])
