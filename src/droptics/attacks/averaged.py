"""A network that is random at test time, as the one function that its predictions follow: the mean over its masks.

An attack on a single draw climbs noise. The mean of the softmax over masks is what many passes converge to; here it
is a closed form or a sum over all masks where there is one or they can be listed, and otherwise a mean over draws that
are the same at every call and for every example, so that a gradient step is judged by the very function it climbed.
"""

from __future__ import annotations

import abc

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from droptics.attacks.gradients import as_columns
from droptics.checks import check_positive
from droptics.masks import MaskLaw
from droptics.models import LastLayer, Model, TwoLayerLinear

_MOST_ATOMS = 1024  # masks that are listed instead of drawn


class Averaged(nn.Module, abc.ABC):
    """log E softmax of a random network (n, classes); for one output the mean score (n, 1).

    All examples of a call share their masks, so that a prediction does not depend on the rest of the batch. Cost: one
    forward pass a mask.

    Attributes:
        chances: Probability of each mask the mean is over.
        exact: Whether the mean is exact: these are all masks, or it is in closed form.
        closed: Whether the mean is in closed form and the masks are needed for single passes alone.
    """

    chances: Tensor
    exact = closed = False

    @staticmethod
    def of(model: Model | nn.Module, masks: MaskLaw | None = None, draws: int = 16, seed: int = 0) -> Averaged:
        """The mean prediction of a droptics Model under a law, or of a module whose dropout stays active.

        Args:
            model: A droptics Model, or any module that is random in its forward pass.
            masks: The law of a Model's masks; a module brings its own.
            draws: How many masks the mean is over, where they cannot be listed (more than 1024) and the outputs are
                not a single score that is linear in them (`TwoLayerLinear`, `LastLayer`).
            seed: Of the draws.
        """
        check_positive("draws", draws)
        if isinstance(model, Model):
            if masks is None:
                raise ValueError("masks must be given with a droptics Model: the law of its random masks")
            return _OverLaw(model, masks, draws, seed)
        if not isinstance(model, nn.Module):
            raise ValueError(f"model must be a module or a droptics Model, got {type(model).__name__}")
        if masks is not None:
            raise ValueError("masks go with a droptics Model; a module brings its own dropout layers")
        return _OverDraws(model, draws, seed)

    @abc.abstractmethod
    def again(self, draws: int, seed: int) -> Averaged:
        """The same network over other draws, which an attack has not seen; itself where the mean is exact."""

    @abc.abstractmethod
    def passes(self, inputs: Tensor) -> Tensor:
        """Outputs (masks, n, outputs) of one pass a mask."""

    @property
    @abc.abstractmethod
    def quiet(self) -> nn.Module | Model:
        """The network without its masks, as a deterministic attack would see it."""

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.passes(inputs)
        weights = self.chances.to(outputs)[:, None, None]
        if outputs.shape[-1] == 1:
            return (weights * outputs).sum(0)
        return (weights.log() + outputs.log_softmax(-1)).logsumexp(0)

    def single_accuracy(self, inputs: Tensor, targets: Tensor) -> float:
        """Share of right predictions of a single random pass, in the mean over the masks."""
        with torch.no_grad():
            each = self.passes(inputs)
        right = each.squeeze(-1) * targets.reshape(-1) > 0 if each.shape[-1] == 1 else each.argmax(-1) == targets
        return float(self.chances.to(right.device) @ right.to(torch.float64).mean(1))


class _OverLaw(Averaged):
    def __init__(self, model: Model, masks: MaskLaw, draws: int, seed: int) -> None:
        super().__init__()
        self._network, self._law = model, masks
        if masks.support_count is not None and masks.support_count <= _MOST_ATOMS:
            ((self._multipliers, chances),) = masks.atom_batches(masks.support_count)
            self.exact = True
        else:
            self._multipliers = masks.multipliers(draws, torch.Generator().manual_seed(seed))
            chances = torch.full((draws,), 1 / draws, dtype=torch.float64)  # they sum to one
        self.chances = chances.to(torch.float64)
        # A score that is linear in multipliers of mean one has the score without them for its mean.
        two_layers = isinstance(model, TwoLayerLinear) and model.output_size == 1
        self.closed = two_layers or (isinstance(model, LastLayer) and model.head.out_features == 1)
        self.exact = self.exact or self.closed

    def forward(self, inputs: Tensor) -> Tensor:
        if self.closed:
            return as_columns(self._network.outputs(inputs), len(inputs))
        return super().forward(inputs)

    @property
    def quiet(self) -> Model:
        return self._network

    def again(self, draws: int, seed: int) -> Averaged:
        return self if self.exact else _OverLaw(self._network, self._law, draws, seed)

    def passes(self, inputs: Tensor) -> Tensor:
        rows = self._multipliers.to(inputs)
        return torch.stack([as_columns(self._network.outputs(inputs, row), len(inputs)) for row in rows])


class _OverDraws(Averaged):
    def __init__(self, module: nn.Module, draws: int, seed: int) -> None:
        super().__init__()
        self.module, self._seed = module, seed
        self.chances = torch.full((draws,), 1 / draws, dtype=torch.float64)

    @property
    def quiet(self) -> nn.Module:
        return self.module

    def again(self, draws: int, seed: int) -> Averaged:
        return _OverDraws(self.module, draws, seed)

    def passes(self, inputs: Tensor) -> Tensor:
        active = [(part, part.training) for part in self.module.modules() if isinstance(part, _DropoutNd)]
        found = []
        # The draws come from states of their own; the global generators end where they were.
        with torch.random.fork_rng(devices=[inputs.device] if inputs.is_cuda else []):
            try:
                for part, _ in active:
                    part.training = True
                for draw in range(len(self.chances)):
                    torch.manual_seed(self._seed + draw)
                    outputs = torch.func.vmap(lambda one: self.module(one[None]).squeeze(0), randomness="same")(inputs)
                    found.append(as_columns(outputs, len(inputs)))
            finally:
                for part, flag in active:
                    part.training = flag
        return torch.stack(found)
