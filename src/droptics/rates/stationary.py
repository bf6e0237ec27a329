"""Trained to the end without masks being drawn: weights where the exact expected training loss is stationary.

The expected training loss F(w, s) of squared loss is known as a function of the weights and of the odds
s = p / (1 - p) of all sites. Weights are followed from those of the module to where F is stationary; there they answer
to the log-odds t of a site by dw/dt = -H^+ d(grad F)/dt, with H the second derivative of F in the weights, and the loss
of a validation example changes by its own derivative along dw/dt.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, minres
from torch import Tensor
from torch.func import grad, jvp

from droptics.arrays import Array
from droptics.rates.designs import Effect
from droptics.rates.running import Setting, Trained

STEPS, GAIN, SLOPE = 5000, 1e-15, 1e-10  # of the search for a stationary point: most steps, least relative gain, slope
SOLVED = 1e-10


@dataclass(frozen=True, eq=False)
class Stationary(ABC):
    """What is trained, at any rates, by its exact expected training loss.

    Attributes:
        start: The weights of the module that are trained, one vector.
        before: The rates that sites have in the module.
    """

    start: Tensor
    before: Mapping[str, float]

    @property
    @abstractmethod
    def method(self) -> str:
        """In words."""

    @abstractmethod
    def objective(self, weights: Tensor, strengths: Tensor) -> Tensor:
        """The expected training loss at the odds of all sites."""

    @abstractmethod
    def example_losses(self, weights: Tensor) -> Tensor:
        """Losses of the validation examples without dropout."""

    def trained(self, settings: Sequence[Setting]) -> list[Trained]:
        """The same at any rates."""
        found = []
        off = torch.zeros(len(self.before), dtype=torch.float64)
        for setting in settings:
            weights = self.fitted(setting)
            losses = self.example_losses(weights)[None]
            found.append(Trained(losses, (float(self.objective(weights, off)),), (None,)))
        return found

    def fitted(self, setting: Setting) -> Tensor:
        """The weights where the expected training loss is stationary, from those of the module."""
        strengths = self._strengths(setting)

        def both(flat: Array) -> tuple[float, Array]:
            weights = torch.from_numpy(flat).requires_grad_()
            with torch.enable_grad():
                value = self.objective(weights, strengths)
                (slope,) = torch.autograd.grad(value, weights)
            return float(value.detach()), slope.numpy()

        options = {"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": GAIN, "gtol": SLOPE, "maxcor": 50}
        return torch.from_numpy(minimize(both, self.start.numpy(), jac=True, method="L-BFGS-B", options=options).x)

    def effects(
        self, setting: Setting, groups: Mapping[str, str], examples: Tensor | slice = slice(None)
    ) -> dict[str, Effect]:
        """Derivative of the validation loss by the log-odds that the sites of a group share, and its standard error.

        `examples` are the numbers of the validation examples that are asked; all by default.
        """
        weights, strengths = self.fitted(setting), self._strengths(setting)
        slope = grad(self.objective, argnums=0)

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
            slopes = jvp(self.example_losses, (weights,), (answer,))[1][examples]
            found[group] = Effect(float(slopes.mean()), float(slopes.std()) / math.sqrt(len(slopes)))
        return found

    def _strengths(self, setting: Setting) -> Tensor:
        """The odds p / (1 - p) of all sites; those that are not named keep their rate."""
        rates = [setting.get(site, rate) for site, rate in self.before.items()]
        return torch.tensor([rate / (1 - rate) for rate in rates], dtype=torch.float64)
