r"""Where algebra reaches, no copies: a chain of linear layers, by its exact training loss and the penalty's derivative.

If all that is trained is a chain of linear layers at the end of a module, with squared loss and dropout between them,
then the expected training loss follows from second moments. With S = E[h h^T] of what enters a layer, a mask of rate p
adds p / (1 - p) diag(S), the layer W makes W S W^T of it, and with f the outputs without masks

    F(W, p) = E|y|^2 - 2 E<y, f> + tr S_last.

Biases are the weights of a constant unit that never falls. Weights are followed from those of the module to where F is
stationary; there they answer to the log-odds t of a site by dW/dt = -H^+ d(grad F)/dt, with H the second derivative of
F in the weights, and the loss of a validation example changes by its own derivative along dW/dt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, minres
from torch import Tensor, nn
from torch.func import grad, jvp

from droptics.arrays import Array
from droptics.audits.batches import run
from droptics.audits.heads import chain_places
from droptics.losses import Squared
from droptics.models.modes import set_training
from droptics.models.watching import LinearCall, all_off, watched
from droptics.rates.copies import EVALUATED, Problem
from droptics.rates.designs import Effect
from droptics.rates.examples import Examples
from droptics.rates.running import Setting, Trained

STEPS, GAIN, SLOPE = 5000, 1e-15, 1e-10  # of the search for a stationary point: most steps, least relative gain, slope
SOLVED = 1e-10


@dataclass(frozen=True, eq=False)
class ChainScan:
    """A chain of linear layers trained to the end, at any rates.

    Attributes:
        start: The weights of the module, one vector.
        shapes: Of the weight and the bias of every layer; None where it has no bias.
        places: The layer before which each site stands.
        before: The rates that sites have in the module.
        moments: E[h h^T], E[y h^T] and E|y|^2, h with a constant unit at its end.
        held: Features and targets of the validation examples.
    """

    start: Tensor
    shapes: tuple[tuple[torch.Size, torch.Size | None], ...]
    places: Mapping[str, int]
    before: Mapping[str, float]
    moments: tuple[Tensor, Tensor, Tensor]
    held: tuple[Tensor, Tensor]
    method: str = "exact training loss of the linear chain"

    def scan(self, rates: Sequence[float]) -> list[Trained]:
        """Losses of the validation examples at every tied rate, and that on the training data."""
        return self.trained([dict.fromkeys(self.before, rate) for rate in rates])

    def trained(self, settings: Sequence[Setting]) -> list[Trained]:
        """The same at any rates."""
        found = []
        off = torch.zeros(len(self.before), dtype=torch.float64)
        for setting in settings:
            weights = self.fitted(setting)
            losses = self._example_losses(weights)[None]
            found.append(Trained(losses, (float(self._objective(weights, off)),), (None,)))
        return found

    def fitted(self, setting: Setting) -> Tensor:
        """The weights where the expected training loss is stationary, from those of the module."""
        strengths = self._strengths(setting)

        def both(flat: Array) -> tuple[float, Array]:
            weights = torch.from_numpy(flat).requires_grad_()
            with torch.enable_grad():
                value = self._objective(weights, strengths)
                (slope,) = torch.autograd.grad(value, weights)
            return float(value.detach()), slope.numpy()

        options = {"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": GAIN, "gtol": SLOPE, "maxcor": 50}
        return torch.from_numpy(minimize(both, self.start.numpy(), jac=True, method="L-BFGS-B", options=options).x)

    def effects(self, setting: Setting, groups: Mapping[str, str]) -> dict[str, Effect]:
        """Derivative of the validation loss by the log-odds that the sites of a group share, and its standard error."""
        weights, strengths = self.fitted(setting), self._strengths(setting)
        slope = grad(self._objective, argnums=0)

        def curved(direction: Array) -> Array:
            along = torch.from_numpy(np.array(direction, dtype=np.float64).reshape(-1))
            return jvp(lambda given: slope(given, strengths), (weights,), (along,))[1].numpy()

        size = len(weights)
        hessian = LinearOperator((size, size), matvec=curved, dtype=np.float64)
        found = {}
        for group in dict.fromkeys(groups.values()):
            # d strength / d log-odds is the strength itself
            own = torch.tensor([float(groups.get(site) == group) for site in self.before]) * strengths
            change = jvp(lambda given: slope(weights, given), (strengths,), (own,))[1]
            answer = -torch.from_numpy(minres(hessian, change.numpy(), rtol=SOLVED, maxiter=20 * size)[0])
            slopes = jvp(self._example_losses, (weights,), (answer,))[1]
            found[group] = Effect(float(slopes.mean()), float(slopes.std()) / math.sqrt(len(slopes)))
        return found

    def _strengths(self, setting: Setting) -> Tensor:
        """The odds p / (1 - p) of all sites; those that are not named keep their rate."""
        rates = [setting.get(site, rate) for site, rate in self.before.items()]
        return torch.tensor([rate / (1 - rate) for rate in rates], dtype=torch.float64)

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

    def _objective(self, weights: Tensor, strengths: Tensor) -> Tensor:
        """The expected training loss."""
        second, cross, square = self.moments
        for number, matrix in enumerate(self._layers(weights)):
            falls = torch.ones(len(second), dtype=torch.float64)
            falls[-1] = 0.0
            for site, strength in zip(self.before, strengths, strict=True):
                if self.places[site] == number:
                    second = second + torch.diag(strength * falls * second.diagonal())
            second, cross = matrix @ second @ matrix.mT, cross @ matrix.mT
        return square - 2 * cross.trace() + second.trace()

    def _example_losses(self, weights: Tensor) -> Tensor:
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
        return ChainScan(start, shapes, places, problem.before, (second, cross, square), held)


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
