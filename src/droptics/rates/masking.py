"""Dropout with common random numbers: copies of a network at different rates see masks of the same uniforms.

A unit falls where its uniform is below the rate, so what falls at a low rate also falls at every higher one, and two
copies differ by what the rate does and by nothing else. The uniforms of a place depend on seed, step and name only.
Nothing in the module is rewritten: its calls of torch's dropout functions are answered here, as the audit watches them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from droptics.models.dropout_calls import ALPHA, ELEMENTWISE, PLAIN, RECURRENT, DropoutCalls
from droptics.models.modes import reseed
from droptics.models.unfused import attention
from droptics.models.watching import Places
from droptics.rates.randomness import key, uniforms

# saturation of the SELU, to which alpha dropout sets what falls
_SATURATION = 1.7580993408473766
# dimensions of an input without examples, where torch knows that form
_SINGLE = {"dropout1d": 2, "dropout3d": 4}


def place_of(name: str) -> str:
    """The place of a call: a layer that runs twice is one place, with one rate."""
    return name.partition("@")[0]


class SharedMasks(DropoutCalls):
    """Answers the dropout calls of a module at given rates; `step=None` switches all of them off.

    Args:
        places: Names of the modules that are running, kept by hooks.
        rates: Rate per place, numbers or tensors without dimensions (one per copy inside torch.func.vmap); a place
            that is not named keeps the rate it is called with.
        seed: Seed of the masks.
        step: Number of the step.
        devices: CUDA devices whose own generators the recurrent and attention kernels draw from.
    """

    def __init__(
        self, places: Places, rates: Mapping[str, float | Tensor], seed: int, step: int | None, devices: list[int]
    ) -> None:
        super().__init__()
        self.places, self.rates, self.seed, self.step, self.devices = places, rates, seed, step, devices

    def _plain(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Tensor:
        source: Tensor = args[0] if args else options.pop("input")
        own = float(args[1] if len(args) > 1 else options.get("p", 0.5))
        training = bool(args[2] if len(args) > 2 else options.get("training", func not in ALPHA))
        kind = PLAIN[func]
        name = self.places.name(kind.replace(" ", "_"))
        if self.step is None or not training:
            return source
        keep, rate = self._kept(name, own, _mask_shape(kind, tuple(source.shape)), source)
        if func in ALPHA:
            return _alpha(source, keep, rate)
        return source * (keep / _staying(rate)).to(source.dtype)

    def _kept(self, name: str, own: float, shape: tuple[int, ...], source: Tensor) -> tuple[Tensor, Tensor]:
        """Who stays, as numbers, and the rate; in single precision, or in that of the source where it is finer."""
        precision = torch.promote_types(source.dtype, torch.float32)
        rate = torch.as_tensor(self.rates.get(place_of(name), own), dtype=precision, device=source.device)
        drawn = uniforms(shape, key(self.seed, self.step, name), source.device)
        return (drawn >= rate.float()).to(precision), rate

    def _attention(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = dict(zip(names, args, strict=False)) | options
        own = float(given.pop("dropout_p", 0.0))
        name = self.places.name("attention_dropout")
        if self.step is None or own == 0:
            return func(given.pop("query"), given.pop("key"), given.pop("value"), **given)

        def masking(weights: Tensor) -> Tensor:
            keep, rate = self._kept(name, own, tuple(weights.shape), weights)
            return weights * (keep / _staying(rate)).to(weights.dtype)

        return attention(**given, masking=masking)

    def _multi_head(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        position = 10  # of dropout_p, which torch hands on by place, however it was called
        own = float(args[position])
        rate = self._native("attention dropout", own, bool(options.get("training", True)) and own > 0)
        options["training"] = rate > 0
        return func(*args[:position], rate, *args[position + 1 :], **options)

    def _recurrent(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        values = list(args)
        # (input, hx, params, has_biases, num_layers, dropout, train, ...) or (data, batch_sizes, hx, params, ...)
        start = next(i for i, value in enumerate(values) if isinstance(value, bool))
        own, several = float(values[start + 2]), int(values[start + 1]) > 1
        rate = self._native(RECURRENT[func], own, bool(values[start + 3]) and own > 0 and several)
        values[start + 2] = rate
        values[start + 3] = values[start + 3] and (rate > 0 or self.step is not None)
        return func(*values, **options)

    def _native(self, kind: str, own: float, active: bool) -> float:
        """The rate of a kernel that draws its masks itself; its generator starts from the key of this call.

        The rate is a number there, so that torch.func.vmap is refused and copies run one by one.
        """
        name = self.places.name(kind.replace(" ", "_"))
        if self.step is None or not active:
            return 0.0
        reseed(key(self.seed, self.step, name), self.devices)
        return float(self.rates.get(place_of(name), own))


def _mask_shape(kind: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """One coin per entry, or one per channel of every example."""
    if kind in (ELEMENTWISE | ALPHA).values() and kind != "feature alpha dropout":
        return shape
    lead = 1 if _SINGLE.get(kind) == len(shape) else 2
    return (*shape[:lead], *(1,) * len(shape[lead:]))


def _staying(rate: Tensor) -> Tensor:
    """The share that stays; one where nothing does, so that outputs are 0 there as torch has them, and not 0/0."""
    return torch.where(rate < 1, 1 - rate, 1.0)


def _alpha(source: Tensor, keep: Tensor, rate: Tensor) -> Tensor:
    """What falls is set to the saturation, and mean and variance are put back, as torch does it."""
    scale = 1 / ((_SATURATION**2 * rate + 1) * _staying(rate)).sqrt()
    shift = ((keep - 1) + rate) * (_SATURATION * scale)
    return source * (keep * scale).to(source.dtype) + shift.to(source.dtype)
