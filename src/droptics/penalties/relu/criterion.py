"""The exact dropout criterion of ReLU networks of any depth.

Squared loss needs only the mean m and the second moment S of the last hidden layer h before its mask:
E ||W diag(z) h + b - y||^2 = ||b - y||^2 + 2 <b - y, W m> + sum_ij (1 + Cbar_ij) <w_i, w_j> S_ij, so the last mask is
integrated analytically and only the earlier ones are summed over, see `outcomes`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from droptics.answers import checked
from droptics.arguments import check_arguments
from droptics.data import Sample
from droptics.errors import NoClosedForm
from droptics.losses import Loss, Squared
from droptics.masks import Bernoulli, MaskLaw, Product
from droptics.models import ReLUNet
from droptics.penalties.evaluation import check_triple
from droptics.penalties.methods import ClosedForm
from droptics.penalties.relu.constants import summed_over
from droptics.penalties.relu.copies import coins_of, label_copies, label_rows, mean_copies, sum_copies
from droptics.penalties.relu.effort import Cost, Place, descend, words
from droptics.penalties.relu.kernels import kernel_seconds
from droptics.penalties.relu.moments import MomentLeaf
from droptics.penalties.relu.outcomes import Advance, Coins, Leaf, LossLeaf, Stage, Walk, silent
from droptics.transforms import once, with_tensors

_PROBES = 64
_MOST_PROBED_EXAMPLES = 16
# So few outcomes are summed in well under a second by any kernel here: no need to estimate.
_SURE_OUTCOMES = 2.0**22
# More states than 2 to this nobody waits for, so no sum is longer.
_MOST_BITS = 36.0


def network_laws(model: ReLUNet, masks: MaskLaw) -> tuple[MaskLaw, ...]:
    """One independent law per masked layer: inputs, then hidden layers; refuses laws that may correlate layers."""
    top = masks.laws if isinstance(masks, Product) else (masks,)
    fits = tuple(law.size for law in top) == model.layer_units
    if fits and all(isinstance(law, Bernoulli) for law in top):
        return top
    if isinstance(masks, Bernoulli):  # parts of checked rates need no second check
        return tuple(with_tensors(masks, iter([part])) for part in masks.drop.split(model.layer_units))
    laws = _flat(masks)
    if all(isinstance(law, Bernoulli) for law in laws):
        drop = torch.cat([law.drop for law in laws if isinstance(law, Bernoulli)])
        return tuple(Bernoulli(part, len(part)) for part in drop.split(model.layer_units))
    if not fits:
        raise NoClosedForm(
            f"the exact criterion of ReLUNet needs one independent law per masked layer, Product([law of size "
            f"{', law of size '.join(map(str, model.layer_units))}]); got {type(masks).__name__} with sizes "
            f"{tuple(law.size for law in top)}; use Enumerate() or MonteCarlo()"
        )
    return top


def relu_summable(model: ReLUNet, masks: MaskLaw, loss: Loss) -> bool:
    """Whether law and loss allow the exact sum: layers independent, and finite lists of masks where they are listed."""
    try:
        _summed_laws(model, masks, loss)
    except NoClosedForm:
        return False
    return True


def _flat(masks: MaskLaw) -> list[MaskLaw]:
    return [part for law in masks.laws for part in _flat(law)] if isinstance(masks, Product) else [masks]


@checked
def relu_criterion(
    model: ReLUNet, sample: Sample, masks: MaskLaw, method: ClosedForm = ClosedForm(), loss: Loss = Squared()
) -> Tensor:
    """Exact expected loss of every example under dropout, (*batch, examples); helmbold2017-eq2.

    The last hidden layer's mask is integrated analytically (squared loss only, any law); the earlier layers need
    independent coins or a finite list of masks. Differentiable once in weights, biases, inputs and the law of that last
    mask, refused in those that are summed over. Depth 2 with K inputs and n units costs O(n^2 2^(K/2) K); every earlier
    layer multiplies by the outcomes of its live units. Refused beforehand when the estimate exceeds `method.seconds`.

    The sums are float64 whatever the network is; long ones use two threads, with the same result. On a GPU the moments
    of the last layer are summed there once outcomes are enough; all else, gradients included, is on the CPU.
    """
    plain, added, _ = relu_excess(model, sample, masks, method, loss)
    return summed_over((plain + added).to(model.dtype), network_laws(model, masks), loss)


def relu_excess(
    model: ReLUNet, sample: Sample, masks: MaskLaw, method: ClosedForm, loss: Loss
) -> tuple[Tensor, Tensor, float]:
    """Losses without masks, what the masks add to each, both (*batch, examples) in float64, and how often it rounds.

    With h the hidden values without masks, E ||W diag(z) h' + b - y||^2 - ||W h + b - y||^2 =
    2 <b - y, W (m - h)> + sum_ij (1 + Cbar_ij) <w_i, w_j> S_ij - ||W h||^2: the square of the targets is never added
    and taken away again. Costs and refusals are those of `relu_criterion`.
    """
    plans = plans_of(model, sample, masks, loss)
    with within(plans, sample, method) as advance:
        values = [plan.example(sample, i, method.memory, advance) for plan in plans for i in range(len(sample))]
    parts = torch.stack(values).reshape(*model.batch_shape, len(sample), 2).to(model.device)
    return parts[..., 0], parts[..., 1], max(plan.roundings() for plan in plans)


@contextmanager
def within(plans: Sequence[Plan], sample: Sample, method: ClosedForm) -> Iterator[Advance]:
    """Where to report progress, for a sum that stays within the allowed time; a longer one is refused beforehand."""
    if sum(plan.most_outcomes() for plan in plans) * len(sample) <= _SURE_OUTCOMES:
        yield silent
        return
    cost = _cost(plans, sample, method.memory)
    if cost.seconds > method.seconds:
        raise NoClosedForm(
            f"the exact criterion would sum {cost.outcomes:.3g} mask outcomes, about {words(cost.seconds)}, more than "
            f"the {method.seconds:g} s allowed; allow it with ClosedForm(seconds={math.ceil(cost.seconds)}) or use "
            "MonteCarlo() (last layer integrated, control variates)"
        )
    # a bar for what is over at once only flickers; None switches it off where there is no terminal
    hidden = True if cost.seconds < 1 else None
    with tqdm(total=cost.seconds, disable=hidden, desc="exact criterion", unit="s", leave=False) as bar:
        speed = kernel_seconds()
        yield lambda work: bar.update(work * speed)


def relu_cost(model: ReLUNet, sample: Sample, masks: MaskLaw, loss: Loss = Squared()) -> Cost:
    """Outcomes and seconds that `relu_criterion` would take.

    Exact for depth 2; deeper networks are counted by random descents (Knuth 1975), unbiased for independent coins.

    Cost: a count for depth 2, random descents beyond. Claim: none, a count, or an unbiased estimate of one.
    """
    check_arguments(relu_cost, locals())
    return _cost(plans_of(model, sample, masks, loss), sample, ClosedForm().memory)


def plans_of(model: ReLUNet, sample: Sample, masks: MaskLaw, loss: Loss) -> list[Plan]:
    """One plan per network of the batch, for data and masks that fit it."""
    check_triple(model, sample, masks)
    laws = _summed_laws(model, masks, loss)
    return [Plan.of(network, laws, loss) for network in _networks(model)]


def _cost(plans: Sequence[Plan], sample: Sample, memory: int) -> Cost:
    parts = [plan.cost(sample, memory) for plan in plans]
    return Cost(sum(part.outcomes for part in parts), sum(part.seconds for part in parts))


def _summed_laws(model: ReLUNet, masks: MaskLaw, loss: Loss) -> tuple[MaskLaw, ...]:
    """`network_laws`, where those that are listed have finite lists: all but the last under squared loss."""
    laws = network_laws(model, masks)
    for law in laws[:-1] if isinstance(loss, Squared) else laws:
        if law.support_count is None:
            raise NoClosedForm(
                f"{type(law).__name__} has no finite list of masks and stands before the last hidden layer, where "
                "masks are enumerated; use MonteCarlo()"
            )
    return laws


def _networks(model: ReLUNet) -> list[ReLUNet]:
    """The members of a batch of networks."""
    shape = model.batch_shape
    if not shape:
        return [model]
    weights = [weight.expand(*shape, *weight.shape[-2:]).flatten(0, len(shape) - 1) for weight in model.weights]
    biases = [bias.expand(*shape, bias.shape[-1]).flatten(0, len(shape) - 1) for bias in model.biases]
    return [ReLUNet([w[i] for w in weights], [b[i] for b in biases]) for i in range(shape.numel())]


@dataclass(frozen=True, eq=False)
class _Heads:
    """W^T W as far as a law asks for it: of many copies under independent masks only the diagonal."""

    weight: Tensor

    def energies(self) -> Tensor:
        return self.weight.square().sum(0)

    def part(self, rows: slice, columns: slice) -> Tensor:
        return self.weight[:, rows].mT @ self.weight[:, columns]


@dataclass(frozen=True, eq=False)
class Plan:
    """A network with copies of hidden units collapsed, ready to be walked for any example."""

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...]
    laws: tuple[Coins | MaskLaw, ...]
    first: MaskLaw
    last_weight: Tensor
    last_law: MaskLaw
    members: Tensor
    loss: Loss
    device: torch.device

    @staticmethod
    def of(model: ReLUNet, laws: Sequence[MaskLaw], loss: Loss) -> Plan:
        weights = [weight.cpu().double() for weight in model.weights]
        biases = [bias.cpu().double() for bias in model.biases]
        groups = [torch.arange(model.input_size)]
        for layer in range(1, len(weights)):
            law = laws[layer]
            drop = law.drop.detach().cpu() if isinstance(law, Bernoulli) else None
            groups.append(label_copies(weights[layer - 1], biases[layer - 1], weights[layer], drop))
        reduced = [mean_copies(mean_copies(w, groups[i], 1), groups[i + 1], 0) for i, w in enumerate(weights[:-1])]
        reduced.append(mean_copies(weights[-1], groups[-1], 1))
        offsets = [mean_copies(b, groups[i + 1], 0) for i, b in enumerate(biases[:-1])] + [biases[-1]]
        coins = [coins_of(law, group) for law, group in zip(laws, groups, strict=True)]
        last = weights[-1], laws[-1], groups[-1]
        return Plan(tuple(reduced), tuple(offsets), tuple(coins), laws[0], *last, loss, model.device)

    def stages(self, inputs: Tensor) -> list[Stage]:
        """The walk for one example: the first weights absorb the inputs, equal columns share one coin."""
        columns = self.weights[0] * inputs.cpu().double()
        first = self.laws[0]
        if isinstance(first, Coins):
            fixed = columns.detach()
            key = torch.cat([fixed, torch.from_numpy(first.drop)[None]]).mT
            # inputs that do nothing need no coin at all, whatever their rate
            key[(fixed == 0).all(0)] = 0.0
            group = label_rows(key)
            first, columns = coins_of(self.first, group), mean_copies(columns, group, 1)
        stages = [Stage(first, columns, self.biases[0])]
        stages += [Stage(*stage) for stage in zip(self.laws[1:], self.weights[1:], self.biases[1:], strict=True)]
        return stages if not isinstance(self.loss, Squared) else stages[:-1]

    def leaf(self, sample: Sample, position: int) -> Leaf:
        target = sample.targets[position : position + 1].cpu()
        if not isinstance(self.loss, Squared):
            return LossLeaf(self.loss, target.double() if target.is_floating_point() else target)
        return MomentLeaf(self.accelerator)

    @property
    def accelerator(self) -> torch.device | None:
        """Where the weights are, if that is not the CPU."""
        return self.device if self.device.type == "cuda" else None

    @property
    def _summed(self) -> tuple[Coins | MaskLaw, ...]:
        """The laws whose outcomes are summed over: without the last one, which algebra integrates."""
        return self.laws[:-1] if isinstance(self.loss, Squared) else self.laws

    def most_outcomes(self) -> float:
        """An upper bound on the outcomes of one example."""
        return 2.0 ** min(sum(_bits(law) for law in self._summed), 1000.0)

    def roundings(self) -> float:
        """The most roundings that an outcome goes through: states one after the other, halves of the last coins."""
        *bits, final = map(_bits, self._summed)
        early = 2.0 ** min(sum(bits), _MOST_BITS)
        last = 2.0 ** min(final / 2 if isinstance(self._summed[-1], Coins) else final, _MOST_BITS)
        return 16.0 + early + 4 * last + 4.0 * sum(sum(weight.shape) for weight in self.weights)

    def example(self, sample: Sample, position: int, memory: int, advance: Advance) -> Tensor:
        """Loss without masks of one example, and what they add: (2,), float64."""
        leaf = self.leaf(sample, position)
        stages = self.stages(sample.inputs[position])
        result = self.walked(stages, leaf, memory, advance)
        hidden = torch.ones(stages[0].weight.shape[1], dtype=torch.float64)
        for stage in stages:
            copies = torch.from_numpy(stage.law.counts) if isinstance(stage.law, Coins) else 1
            value = stage.weight @ (hidden * copies) + stage.bias
            hidden = torch.relu(value)
        if isinstance(leaf, LossLeaf):
            plain = leaf.block_value(value[None], torch.ones(1, dtype=torch.float64))
            return torch.cat([plain, result - plain])
        return self._squared(result, hidden, sample.targets[position].cpu().double())

    def walked(self, stages: list[Stage], leaf: Leaf, memory: int, advance: Advance) -> Tensor:
        """Expected value of a leaf, differentiable in weights and biases."""
        walk = Walk(stages, leaf, memory, advance)
        arguments = [tensor for stage in stages for tensor in (stage.weight, stage.bias)]
        result: Tensor = _Expectation.apply(walk, *arguments)  # type: ignore[no-untyped-call]
        return result

    @cached_property
    def _last(self) -> tuple[Tensor, Tensor]:
        """The last weights without copies, and the quadratic form that the last masks make of them; no example's."""
        units = self.weights[-1].shape[1]
        summed = sum_copies(self.last_weight, self.members, units)
        noise = self.last_law.noise(_Heads(self.last_weight))
        part = sum_copies(noise.entries, self.members, units)
        added = torch.diag(part) if noise.diagonal else sum_copies(part.mT, self.members, units)
        return summed, summed.mT @ summed + added

    def _squared(self, moments: Tensor, hidden: Tensor, target: Tensor) -> Tensor:
        units = self.weights[-1].shape[1]
        mean, second = moments[:units], moments[units:].reshape(units, units)
        offset = self.biases[-1] - target
        summed, quadratic = self._last
        output = summed @ hidden
        added = 2 * (offset @ (summed @ (mean - hidden))) + (quadratic * second).sum() - output.square().sum()
        return torch.stack([(output + offset).square().sum(), added])

    def cost(self, sample: Sample, memory: int) -> Cost:
        """Outcomes and seconds over all examples, probing a few of them."""
        generator = np.random.default_rng(0)
        place = Place(isinstance(self.loss, Squared), memory, self.accelerator)
        probed = np.unique(np.linspace(0, len(sample) - 1, min(len(sample), _MOST_PROBED_EXAMPLES)).astype(int))
        single = len(self.weights) == 2 and place.squared
        probes = 1 if single else -(-_PROBES // len(probed))
        walks = (self.stages(sample.inputs[position].detach()) for position in probed)
        found = [descend(stages, place, generator) for stages in walks for _ in range(probes)]
        outcomes, work = (sum(part) * len(sample) / len(found) for part in zip(*found, strict=True))
        return Cost(outcomes, work * kernel_seconds())


class _Expectation(torch.autograd.Function):
    """Value of a walk as a function of its weights and biases."""

    @staticmethod
    def forward(ctx: Any, walk: Walk, *arguments: Tensor) -> Tensor:
        ctx.walk = walk
        ctx.save_for_backward(*arguments)
        return walk.value(0, *_start(walk))

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        return None, *once(partial(_slopes, ctx.walk), upstream, *ctx.saved_tensors, advice="; use Enumerate()")


def _slopes(walk: Walk, upstream: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
    """Upstream times the derivative in weights and biases, which walks again."""
    grads = [(torch.zeros_like(s.weight), torch.zeros_like(s.bias)) for s in walk.stages]
    walk.gradient(0, *_start(walk), upstream, grads)
    return tuple(tensor for pair in grads for tensor in pair)


def _start(walk: Walk) -> tuple[Tensor, Tensor]:
    columns = walk.stages[0].weight.shape[1]
    return torch.ones(1, columns, dtype=torch.float64), torch.ones(1, dtype=torch.float64)


def _bits(law: Coins | MaskLaw) -> float:
    """log2 of the number of outcomes."""
    return float(np.log2(law.radix).sum()) if isinstance(law, Coins) else math.log2(law.support_count or 1)
