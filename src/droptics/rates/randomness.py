"""Random numbers by name: what is drawn for a step and a place depends on the seed and these names alone."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import torch
from torch import Tensor


def key(seed: int, *names: object) -> int:
    """A seed of 63 bits for a stream of numbers; no two streams share one, whatever was drawn before."""
    text = "/".join(str(name) for name in (int(seed), *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def uniforms(shape: tuple[int, ...], seed: int, device: torch.device) -> Tensor:
    """Numbers in [0, 1) in single precision, whatever the precision of the network: all copies share them."""
    generator = torch.Generator(device).manual_seed(seed)
    return torch.rand(shape, generator=generator, device=device)


def reseed(seed: int, devices: list[int]) -> None:
    """Start the generators that the whole process shares; callers put their states back (`undisturbed`)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - masks written by hand draw from it
    torch.default_generator.manual_seed(seed)
    for index in devices:
        torch.cuda.default_generators[index].manual_seed(seed)
