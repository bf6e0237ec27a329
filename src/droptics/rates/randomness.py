"""Random numbers by name: what is drawn for a step and a place depends on the seed and these names alone."""

from __future__ import annotations

import hashlib

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
