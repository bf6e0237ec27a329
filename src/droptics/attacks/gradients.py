"""Outputs and input gradients of a model: by autograd for any callable, by three matrix products for a plain MLP.

The closed form is the same arithmetic as autograd's, without its bookkeeping, and lets the examples that are already
fooled leave between the forward and the backward pass.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.attacks.norms import even_norms
from droptics.checks import check_same_kind
from droptics.models import Model, ReLUNet

Function = Callable[[Tensor], Tensor]

_FEW = 0.5


class Differentiable(abc.ABC):
    """A function whose input gradients can be asked for after a forward pass.

    Attributes:
        capturable: Whether a CUDA graph of a pass does what the pass does: no question to the device on the way.
        separable: Whether the outputs for an input do not depend on the rest of the batch.
        stackable: Whether `pull` takes slopes with one dimension in front, for several gradients of each example,
            which it returns one batch after the other.
        slack: By how much of the largest output `forward` may be off from `scores`.
    """

    capturable = separable = stackable = False
    slack = 0.0

    @abc.abstractmethod
    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs (n, outputs), remembered for `pull`."""

    @abc.abstractmethod
    def pull(self, slopes: Tensor, rows: Tensor | None = None, *, again: bool = False) -> Tensor:
        """Gradients of sum(slopes * outputs) with respect to the last inputs, of the chosen rows only.

        `again` says that the same forward pass will be asked once more.
        """

    @abc.abstractmethod
    def scores(self, inputs: Tensor) -> Tensor:
        """Outputs (n, outputs) alone."""


class Autograd(Differentiable):
    """Any torch callable."""

    def __init__(self, function: Function) -> None:
        self._function, self._around = function, even_norms(function)
        self.capturable = isinstance(function, nn.Module) and all(_simple(part) for part in parts_of(function))

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.enable_grad(), self._around(inputs):
            self._inputs = inputs.detach().requires_grad_()
            self._outputs = as_columns(self._function(self._inputs), inputs.shape[0])
        return self._outputs.detach()

    def pull(self, slopes: Tensor, rows: Tensor | None = None, *, again: bool = False) -> Tensor:
        if rows is not None and not again and len(rows) < _FEW * len(self._inputs):
            # Most rows left: a new forward pass of the others is cheaper than a backward pass of all.
            self.forward(self._inputs.detach().index_select(0, rows))
            rows = None
        full = slopes if rows is None else slopes.new_zeros(self._outputs.shape).index_copy_(0, rows, slopes)
        if not self._outputs.requires_grad:
            gradient = torch.zeros_like(self._inputs)
        else:
            (gradient,) = torch.autograd.grad(
                self._outputs, self._inputs, full.to(self._outputs.dtype), retain_graph=again, materialize_grads=True
            )
        return gradient if rows is None else gradient[rows]

    def scores(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            return as_columns(self._function(inputs), inputs.shape[0])


class Mixed(Autograd):
    """Any torch callable, its gradients from passes in bfloat16; `scores` has the precision of the model itself."""

    # Four standard deviations of what some twenty roundings add up to; those of a ResNet-18 passed one of them.
    slack = 8 * torch.finfo(torch.bfloat16).eps

    def __init__(self, function: Function) -> None:
        def half(inputs: Tensor) -> Tensor:
            with torch.autocast(inputs.device.type, torch.bfloat16):
                return as_columns(function(inputs), len(inputs)).to(inputs.dtype)

        super().__init__(half)
        self._around = even_norms(function)
        self.scores = Autograd(function).scores  # type: ignore[method-assign]


class PlainMlp(Differentiable):
    """Affine layers with ReLU between them, on vectors or on inputs that are flattened first."""

    capturable = separable = stackable = True

    def __init__(
        self, weights: Sequence[Tensor], biases: Sequence[Tensor | None], flattens: bool = False, faithful: bool = False
    ) -> None:
        self.weights, self.biases, self._flattens = weights, biases, flattens
        # On the CPU products with a contiguous right factor are up to a third faster than with a transposed view.
        turn = not faithful and weights[0].device.type == "cpu"
        self._turned = [w.mT.contiguous() for w in weights] if turn else None

    def takes(self, inputs: Tensor) -> bool:
        """Whether inputs have the shape of vectors, or are made to."""
        return inputs.ndim == 2 or self._flattens

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.takes(inputs):
            raise ValueError(f"model takes vectors, got inputs of shape {tuple(inputs.shape)}; add nn.Flatten")
        check_same_kind({"model": self.weights[0], "inputs": inputs})
        self._shape = inputs.shape
        self._hidden = []
        value = inputs.flatten(1)
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if self._turned is None:
                value = functional.linear(value, weight, bias)
            else:
                turned = self._turned[i]
                value = value @ turned if bias is None else torch.addmm(bias, value, turned)
            if i < len(self.weights) - 1:
                value = value.relu_()
                self._hidden.append(value)
        return value

    def pull(self, slopes: Tensor, rows: Tensor | None = None, *, again: bool = False) -> Tensor:
        value = slopes
        for i in range(len(self.weights) - 1, -1, -1):
            value = value @ self.weights[i]
            if i > 0:
                hidden = self._hidden[i - 1]
                value = value.mul_((hidden if rows is None else hidden.index_select(0, rows)) > 0)
        return value.view(-1, *self._shape[1:])

    def scores(self, inputs: Tensor) -> Tensor:
        return self.forward(inputs)


def differentiable(model: Model | Function, *, faithful: bool = False, mixed: bool = False) -> Differentiable:
    """The cheapest way to the gradients of a model.

    A faithful one rounds like the module itself, to the last bit; a mixed one, of a module or function that is no plain
    perceptron, takes gradients in bfloat16.
    """
    if isinstance(model, ReLUNet) and model.weights[0].ndim == 2:
        weights, biases = [w.detach() for w in model.weights], [b.detach() for b in model.biases]
        return PlainMlp(weights, biases, faithful=faithful)
    if isinstance(model, Model):
        return Autograd(model.outputs)
    if not callable(model):
        raise ValueError(f"model must be a torch callable or a droptics Model, got {type(model).__name__}")
    plain = _plain_mlp(model, faithful) if isinstance(model, nn.Module) else None
    return (Mixed if mixed else Autograd)(model) if plain is None else plain


def _plain_mlp(module: nn.Module, faithful: bool) -> PlainMlp | None:
    """The closed form when the module is nothing but Linear layers with ReLU between them, else None."""
    layers: list[nn.Linear] = []
    flattens = after_linear = False
    for part in parts_of(module):
        if watched(part):
            return None
        # Exact types: a subclass or a parametrized layer may compute anything.
        if type(part) is nn.Identity or (type(part) is nn.Dropout and not part.training):
            continue
        if type(part) is nn.Flatten and part.start_dim == 1 and part.end_dim == -1 and not layers:
            flattens = True
        elif type(part) is nn.Linear and not after_linear:
            layers.append(part)
            after_linear = True
        elif type(part) is nn.ReLU and after_linear:
            after_linear = False
        else:
            return None
    weights = [layer.weight.detach() if layer.weight.requires_grad else layer.weight for layer in layers]
    if not after_linear or any(map(torch.is_autocast_enabled, {weight.device.type for weight in weights})):
        return None
    biases = [x.detach() if x is not None and x.requires_grad else x for x in (layer.bias for layer in layers)]
    return PlainMlp(weights, biases, flattens, faithful)


def parts_of(module: nn.Module) -> Iterator[nn.Module]:
    """The leaves of nested Sequentials in the order they run, repeated ones repeated."""
    if type(module) is nn.Sequential and not watched(module):
        for part in module:
            yield from parts_of(part)
    else:
        yield module


_SIMPLE = (
    nn.Conv1d, nn.Conv2d, nn.Linear, nn.Flatten, nn.Identity, nn.ReLU, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.Tanh,
    nn.Sigmoid, nn.ELU, nn.AvgPool2d, nn.MaxPool2d, nn.AdaptiveAvgPool2d,
)  # fmt: skip
_SIMPLE_IN_EVAL = (nn.BatchNorm1d, nn.BatchNorm2d, nn.Dropout, nn.Dropout2d)


def _simple(module: nn.Module) -> bool:
    """Whether a layer runs the same kernels whatever its input holds; known types only."""
    known = type(module) in _SIMPLE or (type(module) in _SIMPLE_IN_EVAL and not module.training)
    return known and not watched(module)


def watched(module: nn.Module) -> bool:
    """Whether a hook sees what the layer does, and may change it, or a function of its own takes its place."""
    hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    return "forward" in vars(module) or any(hooks)


def as_columns(outputs: Tensor, count: int) -> Tensor:
    """Outputs as (n, outputs); a vector of scores is one column."""
    if not isinstance(outputs, Tensor) or outputs.ndim not in (1, 2) or outputs.shape[0] != count:
        shown = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ValueError(f"model must return one row of outputs per input, got {shown} for {count} inputs")
    return outputs[:, None] if outputs.ndim == 1 else outputs
