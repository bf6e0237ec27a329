r"""Where algebra reaches, no copies: an affine tail, by its exact training loss and the penalty's derivative.

If no mask is multiplied with another one or bent on its way to the outputs, then f(z) = f(1) + J (z - 1), and with
squared loss and the odds s of the sites the expected training loss is

    F(w, s) = E|y - f(1)|^2 + sum over sites s sum_j E|J_j|^2.

The sum follows from one backward pass per output. That outputs are affine in all masks together, and in every weight
that is trained, is read off the graph (`droptics.audits.tails`): convolutions, means, branches and sums are such tails,
and what comes before may be anything that is not trained.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp, vjp

from droptics.audits.batches import Batch, output_of, run
from droptics.audits.runs import Base, Law, Runs
from droptics.audits.tails import MOST_OUTPUTS, Hidden, affine_sites
from droptics.losses import Squared
from droptics.models.watching import watched
from droptics.rates.copies import Problem
from droptics.rates.examples import take
from droptics.rates.stationary import Stationary

FEW = 16  # examples on which the graph is read
MOST_WORK = 2**22  # examples times outputs times weights, trained or not: all are run at every one of many steps
AGREES = 1e-9  # relative, of outputs in double precision under real masks

Masks = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class TailScan(Stationary):
    """An affine tail trained to the end, at any rates.

    Attributes:
        module: In double precision, on the CPU.
        shapes: Of the weights that are trained, by name.
        train: The training examples.
        held: The validation examples.
        masks: Ones, in the shapes that sites have on the training examples.
    """

    module: nn.Module
    shapes: Mapping[str, torch.Size]
    train: Batch
    held: Batch
    masks: Masks

    @property
    def method(self) -> str:
        return "exact training loss of the affine tail"

    def objective(self, weights: Tensor, strengths: Tensor) -> Tensor:
        found = vjp(lambda masks: self.outputs(weights, self.train, masks), self.masks)
        outputs, back = found[0], found[1]
        total = (self.train.targets - outputs).square().sum()
        for number in range(outputs.shape[1]):
            one = torch.zeros_like(outputs)
            one[:, number] = 1.0
            (slopes,) = back(one)
            total = total + sum(
                strength * slopes[site].square().sum() for site, strength in zip(self.before, strengths, strict=True)
            )
        return total / len(outputs)

    def example_losses(self, weights: Tensor) -> Tensor:
        return (self.held.targets - self.outputs(weights, self.held, {})).square().sum(1)

    def outputs(self, weights: Tensor, batch: Batch, masks: Masks) -> Tensor:
        """Outputs under masks; sites without one are quiet."""
        sizes = [shape.numel() for shape in self.shapes.values()]
        parts = zip(self.shapes.items(), weights.split(sizes), strict=True)
        state = {name: part.reshape(shape) for (name, shape), part in parts}

        def called() -> Tensor:
            return output_of(functional_call(self.module, state, batch.arguments, batch.options), batch)

        found, _ = watched(self.module, called, lambda site, rate: (lambda _: masks[site]) if site in masks else 0.0)
        return found.reshape(len(batch.targets), -1)


def tail_scan(problem: Problem) -> TailScan | None:
    """The affine tail that is all that is trained, where the module has that form."""
    plain = problem.train.joined and problem.validation.joined and not problem.train.parts[0].own_loss
    mixes = any(hasattr(part, "running_mean") for part in problem.module.modules())
    if not (plain and isinstance(problem.loss, Squared)) or mixes:  # normalized by the batch, examples are not alone
        return None
    work = problem.train.count * sum(value.numel() for value in problem.module.parameters())
    if work > MOST_WORK:
        return None
    module = copy.deepcopy(problem.module).double().cpu()
    train, held = (_double(examples.parts[0]) for examples in (problem.train, problem.validation))
    few = take(train, slice(0, FEW))
    if not _one_row_each(module, few):
        return None
    runs = Runs(module, few, problem.loss, {name: Law(name, 0.5, "entry") for name in problem.before}, {})
    base = runs.base()
    trained = {name: value for name, value in module.named_parameters() if value.requires_grad}
    outputs = base.outputs.shape[1:].numel()
    few_outputs = outputs <= MOST_OUTPUTS and outputs * work <= MOST_WORK
    if not (few_outputs and _simple(runs, base) and _affine(module, few, trained, list(problem.before))):
        return None
    start = torch.cat([value.detach().reshape(-1) for value in trained.values()])
    masks = {
        name: torch.ones(train.count, *leaves[0].shape[1:], dtype=torch.float64) for name, leaves in base.leaves.items()
    }
    shapes = {name: value.shape for name, value in trained.items()}
    found = TailScan(start, problem.before, module.requires_grad_(False), shapes, train, held, masks)
    return found if _confirmed(found, few) else None


def _one_row_each(module: nn.Module, batch: Batch) -> bool:
    """Whether the module, which ran in its own precision, has a row of outputs per example in double precision too."""
    try:
        with torch.no_grad():
            outputs = run(module, batch)
    except Exception:  # whatever code that is not ours raises on numbers it does not expect
        return False
    return outputs.ndim == 2 and len(outputs) == batch.count


def _double(batch: Batch) -> Batch:
    """In double precision on the CPU, targets with a column of their own."""

    def plain(value: object) -> object:
        if not isinstance(value, Tensor):
            return value
        return value.double().cpu() if value.is_floating_point() else value.cpu()

    targets = batch.targets.double().cpu().reshape(batch.count, -1)
    options = {name: plain(value) for name, value in batch.options.items()}
    return replace(batch, arguments=tuple(map(plain, batch.arguments)), options=options, targets=targets)


def _simple(runs: Runs, base: Base) -> bool:
    """Whether every site drops single entries, in one call, whose first axis are the examples."""
    _, trace = watched(runs.module, lambda: run(runs.module, runs.batch), lambda site, rate: 0.0)
    single = all(call.kind == "dropout" for call in trace.calls) and len(trace.calls) == len(runs.laws)
    named = {call.site for call in trace.calls} == set(base.leaves) == set(runs.laws)
    return single and named and not trace.hand_written and all(axis == 0 for axis in base.axes.values())


def _affine(module: nn.Module, batch: Batch, trained: Mapping[str, Tensor], sites: list[str]) -> bool:
    """Whether outputs are affine in all masks together and in every trained weight, by the graph of one run."""
    hidden, masks = Hidden(), []

    def mask(source: Tensor) -> Tensor:
        masks.append(torch.ones_like(source, requires_grad=True))
        return masks[-1]

    with torch.enable_grad():
        outputs, _ = watched(
            module, lambda: run(module, batch), lambda site, rate: mask if site in sites else 0.0, on_call=hidden
        )
    leaves = {"masks": masks, **{f"weight {name}": [value] for name, value in trained.items()}}
    none = torch.empty(0)
    return set(affine_sites(Base(none, none, outputs, leaves), hidden)) == set(leaves)


def _confirmed(found: TailScan, batch: Batch) -> bool:
    """Whether real masks do to the outputs what the derivative by the masks says."""
    draw = torch.Generator().manual_seed(0)
    ones = {name: mask[: batch.count] for name, mask in found.masks.items()}
    drawn = {name: (torch.rand(mask.shape, generator=draw) < 0.5).double() * 2 for name, mask in ones.items()}
    steps = {name: drawn[name] - ones[name] for name in ones}
    with torch.no_grad():
        try:
            value, change = jvp(lambda masks: found.outputs(found.start, batch, masks), (ones,), (steps,))[:2]
        except RuntimeError:  # so torch.func refuses what it cannot differentiate
            return False
        seen = found.outputs(found.start, batch, drawn)
    return float((value + change - seen).abs().max()) <= AGREES * float(value.abs().max() + change.abs().max())
