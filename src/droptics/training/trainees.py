"""The model while it is being trained: trainable copies of its tensors, and the model that they make up."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import fields
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor, nn

from droptics.data import Data
from droptics.losses import Loss
from droptics.masks import MaskLaw
from droptics.models import Autoencoder, Factorization, LastLayer, Model
from droptics.models.deep_linear import Layered
from droptics.models.hooks import hooked
from droptics.models.two_layer import Factors
from droptics.penalties import UnitOutputs, criterion
from droptics.penalties.grams import OutputGram
from droptics.training.objectives import StepData, mean_loss


def rebuild(model: Model, tensors: Sequence[Tensor]) -> Model:
    """The model with other tensors of the same shapes, in the order of `model.tensors`, without checking them again."""
    rest, changed = list(tensors), copy.copy(model)
    for item in fields(model):  # type: ignore[arg-type]
        value = getattr(model, item.name)
        if isinstance(value, Tensor):
            object.__setattr__(changed, item.name, rest.pop(0))
        elif isinstance(value, tuple) and value and isinstance(value[0], Tensor):
            object.__setattr__(changed, item.name, tuple(rest.pop(0) for _ in value))
    return changed


@singledispatch
def trainee_rule(model: Model, frozen: Sequence[int] = ()) -> Trainee:
    """The model while it is being trained; families whose weights are not just tensors have rules of their own."""
    return Trainee(model, frozen)


class Trainee:
    """Trainable copies of a model's tensors; the caller's model is never touched."""

    def __init__(self, model: Model, frozen: Sequence[int] = ()) -> None:
        self.lead = bool(model.batch_shape)
        self.runs = model.batch_shape.numel()
        self.tensors, trainable = self._own(model)
        if any(not 0 <= index < len(self.tensors) for index in frozen):
            raise ValueError(f"frozen must be indices of the {len(self.tensors)} weights, got {tuple(frozen)}")
        self.leaves = [self.tensors[i] for i in trainable if i not in set(frozen)]
        if not self.leaves:
            raise ValueError("frozen leaves nothing to train")
        for i, tensor in enumerate(self.tensors):
            tensor.requires_grad_(i in set(trainable) - set(frozen))

    def _own(self, model: Model) -> tuple[list[Tensor], list[int]]:
        """Copies of all tensors, each with the leading dimension of the runs, and which of them may be trained.

        Sets `view`, the model that they make up.
        """
        shape, matrices, tensors = model.batch_shape, isinstance(model, (Autoencoder, Factors, Layered)), []
        for tensor in model.tensors:
            lead = len(shape) if tensor.shape[: len(shape)] == shape and tensor.ndim > len(shape) else 0
            own = lead if not matrices else -1 if any(tensor is bias for bias in getattr(model, "biases", ())) else -2
            tensors.append(tensor.new_empty(*shape, *tensor.shape[own:]).copy_(tensor.detach()))
        self.view = rebuild(model, tensors)
        return tensors, list(range(len(tensors)))

    @property
    def buffers(self) -> list[Tensor]:
        """State that is not trained by gradients, such as running means."""
        return []

    def matrices(self) -> list[Tensor]:
        """The trainable weight matrices (not the biases): what weight decay acts on."""
        return [leaf for leaf in self.leaves if leaf.ndim - int(self.lead) >= 2]

    def forward(self, inputs: Tensor, multipliers: Tensor | None, run: int | None = None) -> Tensor:
        """Outputs (runs, examples, outputs) of the current weights, with their graph; of one run where one is named."""
        if run is not None:
            return rebuild(self.view, [tensor[run] for tensor in self.tensors]).outputs(inputs, multipliers)
        return self.view.outputs(inputs, multipliers)

    def penalized(self, loss: Loss, batch: StepData, masks: MaskLaw, data: Data) -> Tensor:
        """Mean loss + penalty of all data; of the batch for a module."""
        return criterion(self.view, data, masks).value

    def snapshot(self) -> Model:
        """The current model, sharing nothing with training."""
        return rebuild(self.view, [tensor.detach().clone() for tensor in self.tensors])

    def detached(self) -> Model:
        """The current model for evaluation; it shares its weights and must not outlive the next step."""
        return rebuild(self.view, [tensor.detach() for tensor in self.tensors])


class EntriesTrainee(Trainee):
    """Factors read at entries (runs, n, 2), which may differ between runs."""

    view: Factorization

    def forward(self, inputs: Tensor, multipliers: Tensor | None, run: int | None = None) -> Tensor:
        if run is not None or inputs.ndim != 3 or inputs.is_floating_point():
            return super().forward(inputs, multipliers, run)
        runs = torch.arange(inputs.shape[0], device=inputs.device)[:, None]
        contributions = self.view.U[runs, inputs[..., 0]] * self.view.V[runs, inputs[..., 1]]
        return (contributions if multipliers is None else contributions * multipliers).sum(-1, keepdim=True)


class ModuleTrainee(Trainee):
    """A torch module with masks on the inputs of its head, in its own mode."""

    view: LastLayer

    def _own(self, model: Model) -> tuple[list[Tensor], list[int]]:
        assert isinstance(model, LastLayer)
        self.view = _copied(model)
        tensors: list[Tensor] = list(self.view.module.parameters())
        return tensors, [i for i, tensor in enumerate(tensors) if tensor.requires_grad]

    @property
    def buffers(self) -> list[Tensor]:
        return list(self.view.module.buffers())

    def forward(self, inputs: Tensor, multipliers: Tensor | None, run: int | None = None) -> Tensor:
        return _module_outputs(self.view, inputs, multipliers)[0]

    def penalized(self, loss: Loss, batch: StepData, masks: MaskLaw, data: Data) -> Tensor:
        outputs, features = _module_outputs(self.view, batch.inputs, None)
        known = None if batch.weights is None else data  # weights come with all the data; a batch is drawn by them
        return mean_loss(loss, outputs, batch) + head_penalty(self.view.head, features, masks, known)

    def snapshot(self) -> Model:
        copied = _copied(self.view)
        copied.module.zero_grad()
        return copied

    def detached(self) -> Model:
        return self.view


trainee_rule.register(Factorization, EntriesTrainee)
trainee_rule.register(LastLayer, ModuleTrainee)


def head_penalty(head: nn.Linear, features: Tensor, masks: MaskLaw, data: Data | None = None) -> Tensor:
    """sum_ij Cbar_ij <w_i, w_j> E a_i a_j for features a, weighed as data are, columns w of a head (pal2020-cor3.2)."""
    return masks.weigh(OutputGram(UnitOutputs(features, head.weight.unsqueeze(-3)), data))


def _copied(model: LastLayer) -> LastLayer:
    names = {layer: name for name, layer in model.module.named_modules()}
    if model.head not in names:
        raise ValueError("model: the head is no part of the module; use LastLayer.of(module, name of the head)")
    module = copy.deepcopy(model.module)
    return LastLayer.of(module, names[model.head]) if model.module is not model.head else LastLayer(module, module)  # type: ignore[arg-type]


def _module_outputs(model: LastLayer, inputs: Tensor, multipliers: Tensor | None) -> tuple[Tensor, Tensor]:
    """Outputs and features of a module with masks on the inputs of its head, in the module's own mode."""
    seen: list[Tensor] = []

    def mask(_: nn.Module, arguments: tuple[Any, ...]) -> tuple[Tensor, ...]:
        seen.append(arguments[0])
        return (arguments[0] if multipliers is None else arguments[0] * multipliers,)

    with hooked(before=[(model.head, mask)]):
        outputs = model.module(inputs)
    return outputs, seen[0]
