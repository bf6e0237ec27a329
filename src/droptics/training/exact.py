"""Exact gradients of risk + penalty for linear networks of any depth, by second moments instead of sampled masks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from droptics.data import Moments
from droptics.masks import MaskLaw


class LayerNoise:
    """S -> S o (1 1^T + Cbar) for one masked layer, or the identity for a layer without masks."""

    def __init__(self, law: MaskLaw | None, like: Tensor) -> None:
        self._diagonal: Tensor | None = None
        self._full: Tensor | None = None
        if law is not None and law.independent:
            self._diagonal = law.relative_variance.detach().to(like)
        elif law is not None:
            self._full = 1 + law.characteristic.detach().to(like)

    def __call__(self, moment: Tensor) -> Tensor:
        """The second moment after the mask; a new tensor."""
        if self._full is not None:
            return moment * self._full
        if self._diagonal is not None:
            moment = moment.clone()
            torch.diagonal(moment, dim1=-2, dim2=-1).mul_(1 + self._diagonal)
        return moment


def deep_gradients(
    weights: Sequence[Tensor], moments: Moments, noises: Sequence[LayerNoise]
) -> tuple[Tensor, list[Tensor]]:
    """Risk + penalty and its gradients in all weights; noises[i] acts on what weights[i] takes in (thesis-prop8).

    Forward: A_i = W_i S_{i-1} W_i^T, S_i = A_i o (1 1^T + Cbar_i). Backward: T_k = W_{k+1}^T W_{k+1},
    Abar_i = T_i o (1 1^T + Cbar_i), dW_i = 2 Abar_i W_i S_{i-1} + data term, T_{i-1} = W_i^T Abar_i W_i.
    Gradient descent with it is dropout training without noise. O(depth width^3), no graph; leading dimensions are runs.
    """
    with torch.no_grad():
        seconds = [noises[0](moments.xx)]  # S_{i-1} after its mask
        prefixes: list[Tensor] = []  # products W_{i-1} ... W_1
        halves: list[Tensor] = []  # W_i S_{i-1}
        for i, weight in enumerate(weights):
            halves.append(weight @ seconds[-1])
            if i + 1 < len(weights):
                seconds.append(noises[i + 1](halves[-1] @ weight.mT))
                prefixes.append(weight if not prefixes else weight @ prefixes[-1])
        last = weights[-1]
        cross = moments.yx @ prefixes[-1].mT  # E y h^T for the last hidden layer h
        gradients = [2 * (halves[-1] - cross)]
        value = torch.trace(moments.yy) - 2 * (cross * last).sum((-2, -1)) + (halves[-1] * last).sum((-2, -1))
        suffix = last.mT @ moments.yx
        back = last.mT @ last
        for i in range(len(weights) - 2, -1, -1):
            back = noises[i + 1](back)
            data_term = suffix if i == 0 else suffix @ prefixes[i - 1].mT
            gradients.append(2 * (back @ halves[i] - data_term))
            if i:
                suffix = weights[i].mT @ suffix
                back = weights[i].mT @ back @ weights[i]
        return value, gradients[::-1]
