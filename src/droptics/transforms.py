"""torch.func: which numbers can be looked at under it, and the way through sums that leave torch.

Those are computed outside, one member of a batch after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import is_dataclass
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual
from torch.autograd.function import once_differentiable

Function = Callable[..., Tensor]
T = TypeVar("T")


def tensors_of(thing: Any) -> list[Tensor]:
    """All tensors in a model, data, a law, or a tuple of them."""
    if isinstance(thing, Tensor):
        return [thing]
    parts = thing if isinstance(thing, tuple) else vars(thing).values() if is_dataclass(thing) else ()
    return [tensor for part in parts for tensor in tensors_of(part)]


def with_tensors(thing: T, tensors: Iterator[Tensor]) -> T:
    """The same thing with other tensors, which come in the order of `tensors_of` and need no second check."""
    if isinstance(thing, Tensor):
        return next(tensors)  # type: ignore[return-value]
    if isinstance(thing, tuple):
        return tuple(with_tensors(part, tensors) for part in thing)  # type: ignore[return-value]
    if not is_dataclass(thing):
        return thing
    other: T = object.__new__(type(thing))
    vars(other).update({name: with_tensors(part, tensors) for name, part in vars(thing).items()})
    return other


def opaque(function: Function, *tensors: Tensor) -> Tensor:
    """function(*tensors) for a function that reads numbers, under torch.func.grad, jvp and vmap; differentiable once.

    The function sees plain tensors, must be differentiable by autograd and must not close over transformed ones.
    """
    result: Tensor = _Opaque.apply(function, *tensors)  # type: ignore[no-untyped-call]
    return result


def opaque_of(function: Function, *things: Any) -> Tensor:
    """The same for a function of models, data or laws that hold the tensors."""
    return opaque(lambda *tensors: function(*with_tensors(things, iter(tensors))), *tensors_of(things))


def once(function: Callable[..., Any], *tensors: Tensor, advice: str = "") -> Any:
    """function(*tensors), a derivative given with all that it depends on, so that a further one is refused.

    `once_differentiable` forgets what that is, and `torch.autograd.grad` then leaves its part of a sum out in silence.
    """
    return _Refused.apply(function, f"this answer is differentiable once{advice}", *tensors)  # type: ignore[no-untyped-call]


def without_slopes(value: Tensor, reason: str, *tensors: Tensor) -> Tensor:
    """The value, whose derivative in these tensors, which it took for constants, is refused for this reason."""
    if not (tensors and wants_derivative(*tensors)):
        return value
    nothing: Tensor = _Refused.apply(_nothing, reason, *tensors)  # type: ignore[no-untyped-call]
    return value + nothing.to(value)


def as_drawn(masks: Tensor, law: Any) -> Tensor:
    """Masks drawn from a law. A derivative in the law is refused: that of their scale alone would be biased."""
    reason = "random masks have no derivative in their law; use ClosedForm(), or Enumerate() where masks can be listed"
    return without_slopes(masks, reason, *tensors_of(law))


def _nothing(first: Tensor, *_: Tensor) -> Tensor:
    return first.new_zeros(())


class _Refused(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(function: Callable[..., Any], reason: str, *tensors: Tensor) -> Any:
        return function(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.reason = inputs[1]

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> None:
        raise NotImplementedError(ctx.reason)


class _Looped(torch.autograd.Function):
    """What has no rule for batches of its own: one member after the other."""

    @classmethod
    def looped(cls, info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        """The vmap rule."""
        results = []
        for i in range(info.batch_size):
            member = [a if dim is None else a.select(dim, i) for a, dim in zip(arguments, in_dims, strict=True)]
            results.append(cls.apply(*member))  # type: ignore[no-untyped-call]
        if isinstance(results[0], Tensor):
            return torch.stack(results), 0
        return tuple(torch.stack(part) for part in zip(*results, strict=True)), (0,) * len(results[0])


class _Opaque(_Looped):
    @staticmethod
    def forward(function: Function, *tensors: Tensor) -> Tensor:
        with torch.no_grad():
            return function(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.function = inputs[0]
        ctx.save_for_backward(*inputs[1:])
        ctx.save_for_forward(*inputs[1:], output)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        # what nobody asks for may be refused
        function = _held(ctx.function, ctx.needs_input_grad[1:])
        return None, *_Gradient.apply(function, upstream, *ctx.saved_tensors)  # type: ignore[no-untyped-call]

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> Tensor:
        tensors, output = ctx.saved_tensors[:-1], ctx.saved_tensors[-1]
        function, parts = _held(ctx.function, [tangent is not None for tangent in tangents]), []
        # reverse derivatives are all there is: one of them per number
        for one in torch.eye(output.numel(), dtype=output.dtype, device=output.device):
            slopes = _Gradient.apply(function, one.reshape(output.shape), *tensors)  # type: ignore[no-untyped-call]
            products = [(slope * t).sum() for slope, t in zip(slopes, tangents, strict=True) if t is not None]
            parts.append(torch.stack(products).sum())
        return torch.stack(parts).reshape(output.shape)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        return _Opaque.looped(info, in_dims, *arguments)


def _held(function: Function, free: Sequence[bool]) -> Function:
    """The same function, which sees constants in place of what is not free."""
    return lambda *tensors: function(*(t if moves else t.detach() for t, moves in zip(tensors, free, strict=True)))


class _Gradient(_Looped):
    """Upstream times the derivative; itself without a derivative."""

    @staticmethod
    def forward(function: Function, upstream: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            free = [tensor.detach().requires_grad_(tensor.is_floating_point()) for tensor in tensors]
            value = function(*free)
        varying = [tensor for tensor in free if tensor.requires_grad]
        slopes = iter(torch.autograd.grad(value, varying, upstream, materialize_grads=True))
        # whole numbers have no slope; torch wants a tensor in its place
        return tuple(next(slopes) if tensor.requires_grad else upstream.new_zeros(tensor.shape) for tensor in free)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> None:
        raise NotImplementedError("this answer is differentiable once")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        return _Gradient.looped(info, in_dims, *arguments)


def wants_derivative(*tensors: Tensor) -> bool:
    """Whether a derivative is asked for, backward or forward, so that the numbers alone are not enough."""
    return is_transformed() or any(value.requires_grad or unpack_dual(value).tangent is not None for value in tensors)


def is_readable(value: Tensor) -> bool:
    """Whether numbers can be looked at; inside torch.func.vmap they cannot, and checks of values are left out."""
    return not is_transformed() or _peeled(value) is not None


def is_transformed() -> bool:
    """Whether torch.func is at work: tensors may then stand for tangents or batches, without numbers of their own."""
    return bool(torch._C._are_functorch_transforms_active())


def as_array(value: Tensor) -> NDArray[Any]:
    """The numbers of a readable tensor for NumPy, whose calls are cheap where they are few; without derivatives."""
    if not is_transformed():
        fixed = unpack_dual(value.detach()).primal
        return fixed.numpy() if fixed.device.type == "cpu" else fixed.cpu().numpy()
    inner = _peeled(value)
    assert inner is not None
    with torch._C._DisableFuncTorch():
        return inner.detach().cpu().numpy()


def _peeled(value: Tensor) -> Tensor | None:
    """The tensor inside the wrappers of torch.func; None where one of them is a batch."""
    while torch._C._functorch.is_functorch_wrapped_tensor(value):
        if torch._C._functorch.is_batchedtensor(value):
            return None
        value = torch._C._functorch.get_unwrapped(value)
    return value
