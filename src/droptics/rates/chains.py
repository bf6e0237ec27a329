r"""Where algebra reaches, no copies: a chain of linear layers, by its exact training loss and the penalty's derivative.

If all that is trained is a chain of linear layers at the end of a module, with squared loss and dropout between them,
then the expected training loss follows from second moments. With S = E[h h^T] of what enters a layer, a mask of rate p
adds p / (1 - p) diag(S), the layer W makes W S W^T of it, and with f the outputs without masks

    F(W, p) = E|y|^2 - 2 E<y, f> + tr S_last.

Biases are the weights of a constant unit that never falls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from droptics.audits.batches import run
from droptics.audits.heads import chain_places
from droptics.losses import Squared
from droptics.models.modes import set_training
from droptics.models.watching import LinearCall, all_off, watched
from droptics.rates.copies import EVALUATED, Problem
from droptics.rates.examples import Examples
from droptics.rates.stationary import Stationary


@dataclass(frozen=True, eq=False)
class ChainScan(Stationary):
    """A chain of linear layers trained to the end, at any rates.

    Attributes:
        shapes: Of the weight and the bias of every layer; None where it has no bias.
        places: The layer before which each site stands.
        moments: E[h h^T], E[y h^T] and E|y|^2, h with a constant unit at its end.
        held: Features and targets of the validation examples.
    """

    shapes: tuple[tuple[torch.Size, torch.Size | None], ...]
    places: Mapping[str, int]
    moments: tuple[Tensor, Tensor, Tensor]
    held: tuple[Tensor, Tensor]

    @property
    def method(self) -> str:
        return "exact training loss of the linear chain"

    def _layers(self, weights: Tensor) -> list[Tensor]:
        """One matrix per layer, with the bias as a last column and, but for the last layer, the constant as a row."""
        found, at = [], 0
        for number, (shape, bias) in enumerate(self.shapes):
            matrix = weights[at : at + shape.numel()].reshape(shape)
            at += shape.numel()
            column = weights.new_zeros(shape[0], 1) if bias is None else weights[at : at + shape[0], None]
            at += 0 if bias is None else shape[0]
            matrix = torch.cat([matrix, column], 1)
            if number < len(self.shapes) - 1:
                matrix = torch.cat([matrix, torch.eye(shape[1] + 1, dtype=torch.float64)[-1:]])
            found.append(matrix)
        return found

    def objective(self, weights: Tensor, strengths: Tensor) -> Tensor:
        second, cross, square = self.moments
        for number, matrix in enumerate(self._layers(weights)):
            falls = torch.ones(len(second), dtype=torch.float64)
            falls[-1] = 0.0
            for site, strength in zip(self.before, strengths, strict=True):
                if self.places[site] == number:
                    second = second + torch.diag(strength * falls * second.diagonal())
            second, cross = matrix @ second @ matrix.mT, cross @ matrix.mT
        return square - 2 * cross.trace() + second.trace()

    def example_losses(self, weights: Tensor) -> Tensor:
        features, targets = self.held
        for matrix in self._layers(weights):
            features = features @ matrix.mT
        return (targets - features).square().sum(1)


def chain_scan(problem: Problem) -> ChainScan | None:
    """The chain that is all that is trained, where the module has that form."""
    module, plain = problem.module, problem.train.joined and problem.validation.joined
    if not (plain and isinstance(problem.loss, Squared) and not problem.train.parts[0].own_loss):
        return None
    set_training(module, False)
    with torch.no_grad():
        batch = next(problem.train.in_order(EVALUATED))
        outputs, trace = watched(module, lambda: run(module, batch), all_off, keep=True)
        first = _first(module, trace.linear)
        if first is None or trace.hand_written or outputs.ndim != 2:
            return None
        linear = trace.linear[first:]
        places = chain_places(replace(trace, linear=linear), outputs)
        if places is None or set(places) != set(problem.before):
            return None
        shapes = tuple((call.weight.shape, None if call.bias is None else call.bias.shape) for call in linear)
        trained = [value for call in linear for value in (call.weight, call.bias) if value is not None]
        start = torch.cat([value.detach().double().cpu().reshape(-1) for value in trained])
        features, targets = _features(problem, problem.train, first)
        moments = features.mT @ features, targets.mT @ features, targets.square().sum()
        second, cross, square = (value / len(features) for value in moments)
        held = _features(problem, problem.validation, first)
        return ChainScan(start, problem.before, shapes, places, (second, cross, square), held)


def _first(module: nn.Module, linear: Sequence[LinearCall]) -> int | None:
    """Number of the first call that is trained, where all that is trained are the calls from there on, each once."""
    wanted = {id(value) for value in module.parameters() if value.requires_grad}
    owned = [{id(value) for value in (call.weight, call.bias) if value is not None} for call in linear]
    first = next((number for number, own in enumerate(owned) if own & wanted), None)
    if first is None or sum(map(len, owned[first:])) != len(wanted) or set().union(*owned[first:]) != wanted:
        return None
    return first


def _features(problem: Problem, examples: Examples, first: int) -> tuple[Tensor, Tensor]:
    """What enters the chain, with a constant at its end, and the targets, in double precision."""
    rows, targets = [], []
    for batch in examples.in_order(EVALUATED):
        _, trace = watched(problem.module, lambda given=batch: run(problem.module, given), all_off, keep=True)  # type: ignore[misc]
        rows.append(trace.linear[first].features.double().cpu())
        wanted = batch.targets.double().cpu()
        targets.append(wanted[:, None] if wanted.ndim == 1 else wanted)
    features = torch.cat(rows)
    return torch.cat([features, torch.ones_like(features[:, :1])], 1), torch.cat(targets)
