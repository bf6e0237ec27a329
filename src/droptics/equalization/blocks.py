"""Balanced blocks: factors that attain the squared spectral k-support norm, built explicitly.

The paper proves that balanced factors exist when the width is free (pal2020-thm2.5); this is a construction. Let
A = P diag(a) Q^T, rho - 1 the number of leading values outside the tail of the norm with k = block, s = k - rho + 1 and
tau = (sum of the tail) / s. A rank-s projection Pi with diagonal a_i / tau exists (Schur-Horn). With sign vectors e_I
whose products average to zero off the diagonal (rows of a Hadamard matrix), the blocks

    B_I = P [diag(a_1 .. a_{rho-1}) + tau diag(e_I) Pi diag(e_I)] Q^T / blocks

have rank at most k, equal norms, the sum A and blocks sum_I ||B_I||_F^2 = ||A||_(k)^2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.envelopes.two_layer import support_start
from droptics.linalg import hadamard_equalizer, schur_horn


def blocks_available(values: Tensor, block: int, blocks: int) -> bool:
    """Whether the construction exists for this many blocks: a multiple of the next power of two of the tail length."""
    return blocks % _signs_needed(values, block) == 0


def _signs_needed(values: Tensor, block: int) -> int:
    if len(values) <= block:
        return 1
    tail = len(values) - support_start(values, block)
    return 1 << (tail - 1).bit_length()


def balanced_blocks(left: Tensor, values: Tensor, right: Tensor, block: int, blocks: int) -> tuple[Tensor, Tensor]:
    """Factors U (a, width), H (q, width) of left diag(values) right^T, width = blocks * block, with balanced blocks.

    left and right have orthonormal columns, values are positive and descending. O((a + q) width block) plus one
    Schur-Horn rotation.
    """
    rank = len(values)
    U = torch.zeros(left.shape[0], blocks, block, dtype=left.dtype, device=left.device)
    H = torch.zeros(right.shape[0], blocks, block, dtype=left.dtype, device=left.device)
    if rank <= block:
        share = (values / blocks).sqrt()
        U[:, :, :rank] = (left * share)[:, None, :]
        H[:, :, :rank] = (right * share)[:, None, :]
        return U.flatten(1), H.flatten(1)
    start = support_start(values, block)
    size = block - start
    tail = values[start:]
    level = tail.sum() / size
    ones = torch.zeros_like(tail)
    ones[:size] = 1.0
    # columns of diag(1^s, 0) Q: the rows of the first s rows of Q span the range of the projection
    basis = schur_horn(ones, (tail / level).clamp_max(1.0))[:size]
    count = _signs_needed(values, block)
    signs = (hadamard_equalizer(count, left.dtype, left.device) * count**0.5)[:, : len(tail)]
    root = (level / blocks).sqrt()
    for i in range(blocks):
        signed = (basis * signs[i % count]).mT * root
        U[:, i, start:] = left[:, start:] @ signed
        H[:, i, start:] = right[:, start:] @ signed
    head = (values[:start] / blocks).sqrt()
    U[:, :, :start] = (left[:, :start] * head)[:, None, :]
    H[:, :, :start] = (right[:, :start] * head)[:, None, :]
    return U.flatten(1), H.flatten(1)
