"""Ways to take steps: torch for everything, compiled kernels for single-sample two-layer networks on CPU and GPU."""

from __future__ import annotations

import abc

import numpy as np
import torch
from torch import Tensor

from droptics.data import Data, Moments, Sample
from droptics.losses import Squared
from droptics.masks import MaskLaw, Product
from droptics.masks.product import Stacked
from droptics.models import Autoencoder, Model, TwoLayerLinear
from droptics.penalties.evaluation import data_weights, observed
from droptics.training import triton_steps
from droptics.training.draws import Draws
from droptics.training.exact import Gradients, arrays, gradient_rule
from droptics.training.kernels import run_kernel
from droptics.training.objectives import Dropout, Objective, Penalized, Plain, StepData
from droptics.training.passes import FOUR
from droptics.training.settings import Settings
from droptics.training.trainees import rebuild, trainee_rule


class Descent(abc.ABC):
    """Takes steps on all runs at once; step sizes come on `sizes_on`."""

    sizes_on = torch.device("cpu")

    @abc.abstractmethod
    def advance(self, draws: Draws, first: int, sizes: Tensor) -> Tensor:
        """Take len(sizes) steps with draws from `first` on, sizes (steps, runs); returns the losses (steps, runs)."""

    def doubt(self, draws: Draws, step: int) -> str:
        """What the objective says against the training at hand, judged by the data of this step."""
        return ""

    @abc.abstractmethod
    def model(self) -> Model:
        """The current model, for evaluation; it must not outlive the next step."""

    @abc.abstractmethod
    def snapshot(self) -> Model:
        """A copy of the current model."""

    @abc.abstractmethod
    def sound(self) -> Tensor:
        """Which runs have finite weights, (runs,)."""

    @abc.abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Everything a checkpoint has to hold, by name; `load` takes it back."""

    @abc.abstractmethod
    def load(self, saved: dict[str, Tensor]) -> None:
        """Continue from a checkpoint."""


class TwoLayerDescent(Descent):
    """What single-sample engines share: factors (runs, features, columns) of their own, zero beyond the units."""

    def __init__(self, model: TwoLayerLinear | Autoencoder, columns: int) -> None:
        self._template, self._lead, self.sizes_on = model, bool(model.batch_shape), model.device
        self._stored = []
        for tensor in model.tensors:
            padded = tensor.new_zeros(*(model.batch_shape or (1,)), tensor.shape[-2], columns)
            padded[..., : model.units] = tensor.detach()
            self._stored.append(padded)

    def _sample(self, draws: Draws, first: int, steps: int | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Inputs, targets and multipliers of some steps, or of all that were drawn, (runs, steps, ...)."""
        assert draws.inputs is not None
        assert draws.targets is not None
        span = slice(first, None if steps is None else first + steps)
        masks = None if draws.multipliers is None else draws.multipliers[:, span, 0]
        return draws.inputs[:, span, 0], draws.targets[:, span, 0], masks

    def _factors(self) -> list[Tensor]:
        return [stored[..., : self._template.units] for stored in self._stored]

    def model(self) -> Model:
        factors = self._factors()
        return rebuild(self._template, factors if self._lead else [factor[0] for factor in factors])

    def snapshot(self) -> Model:
        model = self.model()
        return rebuild(model, [tensor.clone(memory_format=torch.contiguous_format) for tensor in model.tensors])

    def sound(self) -> Tensor:
        # zero times what is not finite is NaN: a third of the calls of isfinite, after every stretch of steps
        return torch.cat([stored.flatten(1) for stored in self._stored], 1).mul_(0).sum(1) == 0

    def tensors(self) -> dict[str, Tensor]:
        return {f"weights.{i}": stored for i, stored in enumerate(self._stored)}

    def load(self, saved: dict[str, Tensor]) -> None:
        for name, stored in self.tensors().items():
            stored.copy_(saved[name])


class KernelDescent(TwoLayerDescent):
    """Compiled single-sample steps; see `kernels`."""

    def __init__(self, model: TwoLayerLinear | Autoencoder) -> None:
        # one unit per row, and rows up to a multiple of four for units that are always dropped
        super().__init__(model, model.units + -model.units % FOUR)
        self._stored = [stored.mT.contiguous() for stored in self._stored]

    def _factors(self) -> list[Tensor]:
        # torch copies the other factor instead, run by run, where this one is stored by columns
        return [stored[:, : self._template.units].mT.contiguous() for stored in self._stored]

    def advance(self, draws: Draws, first: int, sizes: Tensor) -> Tensor:
        x, y, z = self._sample(draws, 0, None)
        kept = x.new_ones(1, 1, 1).expand(*x.shape[:2], self._template.units) if z is None else z
        # the kernel moves along half the gradient of the squared error
        given = [part.contiguous().numpy() for part in (x, y, kept, (2 * sizes.mT).to(x.dtype))]
        return torch.from_numpy(run_kernel([part.numpy() for part in self._stored], *given, first=first)).mT

    def sound(self) -> Tensor:
        # not by torch, whose threads would wait for their next call on the processor that the steps need
        return torch.from_numpy(np.all([np.isfinite(stored.numpy()).all((1, 2)) for stored in self._stored], 0))

    def tensors(self) -> dict[str, Tensor]:
        # an even number of rows, which is what checkpoints hold since there are any
        even = self._template.units + self._template.units % 2
        return {name: stored[:, :even] for name, stored in super().tensors().items()}


class PersistentDescent(TwoLayerDescent):
    """The same on a GPU: a launch takes all steps between two records, see `triton_steps`.

    Every run is a program that holds its weights in registers, (runs, features, columns) with zero columns up to a
    power of two. Random numbers are in memory before, so that the plain path can be run on the same ones.
    """

    def __init__(self, model: TwoLayerLinear | Autoencoder) -> None:
        super().__init__(model, triton_steps.power_of_two(model.units))

    @staticmethod
    def why_not(model: TwoLayerLinear | Autoencoder) -> str:
        """Why the kernel does not cover this model; empty when it does."""
        if model.device.type != "cuda":
            return "it runs on a CUDA device"
        rows = sum(triton_steps.power_of_two(tensor.shape[-2]) for tensor in model.tensors)
        if not triton_steps.fits(rows, model.units, model.tensors[0].element_size()):
            return "the weights of a run do not fit into the registers of one program"
        return triton_steps.missing()

    def advance(self, draws: Draws, first: int, sizes: Tensor) -> Tensor:
        x, y, z = self._sample(draws, first, len(sizes))
        # the kernel moves along half the gradient of the squared error
        doubled = (2 * sizes.mT).to(x).contiguous()
        return triton_steps.descend(self._stored, self._template.units, x, y, z, doubled).mT


class TorchDescent(Descent):
    """Steps of any torch optimizer on any model; gradients by autograd, or exactly where a formula is cheaper."""

    def __init__(self, model: Model, data: Data, objective: Objective, settings: Settings) -> None:
        batched, optimizer = settings.batch_size is not None, settings.optimizer
        self._trainee = trainee_rule(model, settings.frozen)
        self._objective, self._data, self._settings = objective, data, settings
        self._masks = stacked(objective.laws, self._trainee.lead)
        self._fixed: StepData | None = None
        if not batched:
            whole = data.as_sample() if isinstance(data, Moments) else data  # the examples that have these moments
            self._fixed = StepData(observed(whole).inputs, observed(whole).targets, data_weights(whole))
        self._moves: Tensor | None = None  # what a batch leaves to the next
        full = settings.precision == "full"
        if not full and isinstance(objective, Penalized):
            raise ValueError("precision must be 'full' for Penalized, whose closed forms have no products to round")
        # exact gradients, for linear chains under squared loss
        smooth = isinstance(objective, (Plain, Penalized)) and isinstance(objective.loss, Squared)
        exact = smooth and full and not batched and all(tensor.requires_grad for tensor in self._trainee.tensors)
        self._exact = gradient_rule(self._trainee.view, data, self._masks) if exact else None
        # lr is set at every step; any positive value will do here. Plain SGD is written out below.
        try:
            self._optimizer = None if optimizer is None else optimizer(self._trainee.leaves, lr=1.0)
        except TypeError as problem:
            raise ValueError(
                f"optimizer must be a torch optimizer, called as optimizer(weights, lr=...): {problem}"
            ) from problem

    def advance(self, draws: Draws, first: int, sizes: Tensor) -> Tensor:
        if self._exact is not None and self._settings.plain:
            return self._exact_steps(self._exact, sizes)
        losses = []
        lead, optimizer = self._trainee.lead, self._optimizer
        moved = sizes.to(self._trainee.leaves[0].device) if lead and optimizer is None else sizes
        for offset, size in enumerate(moved):
            batch = self._objective.begin(self._batch(draws, first + offset), self._moves)
            found = []
            for _ in range(self._objective.updates):
                found.append(self._plain_step(batch, size) if optimizer is None else self._step(batch, size))
                if (norm := self._settings.max_norm) is not None:
                    with torch.no_grad():
                        for index in norm.tensors:
                            norm.project(self._trainee.tensors[index])
                batch = self._objective.again(batch)
            self._moves = batch.moves
            losses.append(found[0])
        return torch.stack(losses)

    def doubt(self, draws: Draws, step: int) -> str:
        return self._objective.doubt(self._forward, self._batch(draws, step))

    def _batch(self, draws: Draws, step: int) -> StepData:
        return draws.at(step, self._fixed, self._trainee.lead)

    def _forward(self, inputs: Tensor, multipliers: Tensor | None, run: int | None = None) -> Tensor:
        """Outputs of the model, products in the precision asked for."""
        if self._settings.precision == "full":
            return self._trainee.forward(inputs, multipliers, run)
        with torch.autocast(inputs.device.type, torch.bfloat16):
            return self._trainee.forward(inputs, multipliers, run).to(inputs.dtype)

    def _plain_step(self, batch: StepData, size: Tensor) -> Tensor:
        value = self._evaluate(batch)
        step = None if self._trainee.lead else float(size)
        with torch.no_grad():
            for leaf in self._trainee.leaves:
                if leaf.grad is not None and step is not None:
                    leaf.sub_(leaf.grad, alpha=step)
                elif leaf.grad is not None:
                    leaf.addcmul_(leaf.grad, self._per_run(size, leaf), value=-1)
        return value

    @torch.no_grad()
    def _exact_steps(self, exact: Gradients, sizes: Tensor) -> Tensor:
        """Gradient descent and nothing else, so that a step of a small network takes little more than its products."""
        leaves = self._trainee.leaves
        shapes = [(-1, *(1,) * (leaf.ndim - 1)) for leaf in leaves]
        losses = torch.empty_like(sizes, device=leaves[0].device, dtype=leaves[0].dtype)
        seen, moves, *weights = arrays([losses, sizes.to(losses), *leaves])
        with np.errstate(over="ignore", invalid="ignore"):  # the guard sees what diverges
            for step, size in enumerate(moves):
                seen[step], gradients = exact(weights)
                for i, gradient in enumerate(gradients):
                    weights[i] -= size.reshape(shapes[i]) * gradient
        return losses

    def _step(self, batch: StepData, size: Tensor) -> Tensor:
        assert self._optimizer is not None
        largest = float(size.max())
        for group in self._optimizer.param_groups:
            group["lr"] = largest
        equal = bool((size == size[0]).all())
        before = [] if equal else [leaf.detach().clone() for leaf in self._trainee.leaves]
        seen: list[Tensor] = []

        def closure() -> Tensor:
            seen.append(self._evaluate(batch))
            return seen[-1].sum()

        with torch.enable_grad():
            self._optimizer.step(closure)  # type: ignore[arg-type]
        if not equal:
            # a step is proportional to its size for every torch optimizer, so runs with smaller sizes move less
            share = (size / largest).to(self._trainee.leaves[0].device)
            with torch.no_grad():
                for leaf, old in zip(self._trainee.leaves, before, strict=True):
                    part = self._per_run(share, leaf)
                    leaf.copy_(torch.where(part > 0, torch.lerp(old, leaf, part), old))
        return seen[0]

    def _evaluate(self, batch: StepData) -> Tensor:
        """Fresh gradients of objective + decay in all leaves; returns the objective of every run."""
        for leaf in self._trainee.leaves:
            leaf.grad = None
        with torch.enable_grad():
            value = self._gradients(batch)
        if self._settings.decay:
            for matrix in self._trainee.matrices():
                if matrix.grad is not None:
                    matrix.grad.add_(matrix.detach(), alpha=self._settings.decay)
        return value.detach().reshape(-1)

    @staticmethod
    def _per_run(size: Tensor, leaf: Tensor) -> Tensor:
        return size.to(leaf).reshape(-1, *(1,) * (leaf.ndim - 1))

    def _gradients(self, batch: StepData) -> Tensor:
        if self._exact is not None:
            with np.errstate(over="ignore", invalid="ignore"):  # the guard sees what diverges
                value, gradients = self._exact(arrays(self._trainee.tensors))
            for tensor, gradient in zip(self._trainee.tensors, gradients, strict=True):
                tensor.grad = torch.as_tensor(gradient).contiguous()  # optimizers may flatten gradients by view
            return torch.as_tensor(value)
        if isinstance(self._objective, Penalized):
            assert self._masks is not None
            value = self._trainee.penalized(self._objective.loss, batch, self._masks, self._data)
        else:
            value = self._objective.value(self._forward, batch)
        value.sum().backward()
        return value

    def model(self) -> Model:
        return self._trainee.detached()

    def snapshot(self) -> Model:
        return self._trainee.snapshot()

    def sound(self) -> Tensor:
        leaves, runs = self._trainee.leaves, self._trainee.runs
        return torch.stack([torch.isfinite(leaf.detach()).reshape(runs, -1).all(1) for leaf in leaves]).all(0)

    def tensors(self) -> dict[str, Tensor]:
        found = {f"weights.{i}": tensor.detach() for i, tensor in enumerate(self._trainee.tensors)}
        found |= {f"buffers.{i}": tensor for i, tensor in enumerate(self._trainee.buffers)}
        if self._moves is not None:
            found["moves"] = self._moves.detach()
        for i, leaf in enumerate(self._trainee.leaves):
            state = {} if self._optimizer is None else self._optimizer.state.get(leaf, {})
            for key, value in state.items():
                if value is not None:
                    found[f"optimizer.{i}.{key}"] = torch.as_tensor(value)
        return found

    def load(self, saved: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for kind, tensors in (("weights", self._trainee.tensors), ("buffers", self._trainee.buffers)):
                for i, tensor in enumerate(tensors):
                    tensor.copy_(saved[f"{kind}.{i}"])
        if "moves" in saved:
            self._moves = saved["moves"].to(self._trainee.leaves[0].device)
        for name, value in saved.items():
            if name.startswith("optimizer.") and self._optimizer is not None:
                _, index, key = name.split(".", 2)
                leaf = self._trainee.leaves[int(index)]
                # step counters stay on the CPU, as torch keeps them; what has the shape of a weight goes with it
                self._optimizer.state[leaf][key] = value.to(leaf.device) if value.shape == leaf.shape else value.clone()


def stacked(laws: tuple[MaskLaw, ...], lead: bool) -> MaskLaw | None:
    """The law that penalties of all runs are computed with: the common one, or all of them side by side."""
    if len(laws) < 2:
        return laws[0] if laws else None
    if not lead:
        raise ValueError(f"masks holds {len(laws)} laws but the model has no leading dimension of runs")
    if all(isinstance(law, Product) for law in laws):
        layers = zip(*(law.laws for law in laws if isinstance(law, Product)), strict=True)
        return Product([Stacked(layer) for layer in layers])
    return Stacked(laws)


def single_sample(model: Model, data: Data, objective: Objective, settings: Settings) -> bool:
    """Whether single-sample engines cover this training: one sample a step, two layers, squared loss, plain SGD."""
    two_layers = isinstance(model, (TwoLayerLinear, Autoencoder)) and model.dtype in (torch.float32, torch.float64)
    known = isinstance(data, (Moments, Sample)) and isinstance(objective, (Plain, Dropout))
    return two_layers and known and isinstance(objective.loss, Squared) and settings.batch_size == 1 and settings.plain
