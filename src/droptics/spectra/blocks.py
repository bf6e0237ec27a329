"""Units that fall in blocks: the squared spectral k-support norm, and balanced factors that attain it.

With blocks of k units, rates lambda_I and beta = 1 / sum_I (1 / lambda_I) (lambda / blocks for one rate), the penalty
of factors of A is at least beta ||A||_(k)^2 (pal2020-thm2.3): sum_I lambda_I ||B_I||_F^2 >= beta (sum_I ||B_I||_F)^2 by
Cauchy-Schwarz, and the least sum of norms of terms of rank at most k is the k-support norm. So every network of this
width has criterion at least constant + min over rank A <= width of ||T - A||_F^2 + beta ||A||_(k)^2 (pal2020-thm2.7,
corrected).

One rate and a number of blocks that is a multiple of the next power of two of the tail of the spectrum: factors that
attain it are constructed. Let A = P diag(a) Q^T, rho the index of the norm with k = block, s = k - rho + 1 and
tau = (sum of the tail) / s. A rank-s projection Pi with diagonal a_i / tau exists (Schur-Horn). With sign vectors e_I
whose products average to zero off the diagonal (rows of a Hadamard matrix), the blocks

    B_I = P [diag(a_1 .. a_{rho-1}) + tau diag(e_I) Pi diag(e_I)] Q^T / blocks

have rank at most k, equal norms, the sum A and blocks sum_I ||B_I||_F^2 = ||A||_(k)^2. At few blocks the bound itself
may not be attained by anything (pal2020-thm2.6 holds with a free width only).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from droptics.errors import NoClosedForm
from droptics.linalg import hadamard_equalizer, k_support_shrink, schur_horn
from droptics.norms import k_support
from droptics.spectra.actions import Action, harmonic
from droptics.transforms import is_readable, opaque


@dataclass(frozen=True, eq=False)
class Blocks(Action):
    """Consecutive blocks of units, each behind one coin.

    Attributes:
        strengths: Relative variance of every block, (blocks,).
        block: Units of a block.
        equal: Whether all blocks have one rate.
    """

    strengths: Tensor
    block: int
    equal: bool
    claim: ClassVar[str] = "pal2020-thm2.6"
    words: ClassVar[str] = "closed form (squared k-support norm)"

    @property
    def size(self) -> int:
        return len(self.strengths) * self.block

    @property
    def nuclear(self) -> Tensor:
        """||B_I||_F^2 >= ||B_I||_*^2 / block: blocks count like independent units of the same rate."""
        return harmonic(self.strengths) / self.block

    def value(self, spectrum: Tensor) -> Tensor:
        """Known for one rate and as many blocks as the tail of the spectrum needs."""
        if not is_readable(spectrum):  # inside vmap: one member after the other, whose numbers can be looked at
            return opaque(lambda values, rates: replace(self, strengths=rates).value(values), spectrum, self.strengths)
        if not self.equal:
            raise NoClosedForm(
                "the induced penalty of blocks of unequal rates has no closed form; use one rate, or optimum and "
                "certify for bounds"
            )
        needed = _most_blocks(spectrum.detach(), self.block)
        if len(self.strengths) < needed:
            raise NoClosedForm(
                f"the induced penalty of DropBlock with {len(self.strengths)} blocks is known when at least {needed} "
                "blocks share this spectrum; use envelope for a lower bound, or more blocks"
            )
        return self.envelope(spectrum)

    def envelope(self, spectrum: Tensor) -> Tensor:
        norm = k_support(spectrum, self.block)
        return harmonic(self.strengths).to(norm) * norm.square()

    def shrink(self, values: Tensor) -> tuple[Tensor, float]:
        strength = float(harmonic(self.strengths))
        shrunk = k_support_shrink(values[: self.size], strength, self.block)
        return shrunk, strength * float(k_support(shrunk, self.block)) ** 2

    def spread(self, left: Tensor, values: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        blocks = len(self.strengths)
        signs = _signs_needed(values, self.block)
        if not self.equal or blocks % signs:
            raise NoClosedForm(
                f"no balanced factors are constructed for rank {len(values)} on {blocks} blocks of {self.block}; use "
                "one rate and a number of blocks that is a power of two and at least the rank, or optimum for the "
                "best found"
            )
        rank, block = len(values), self.block
        U = torch.zeros(left.shape[0], blocks, block, dtype=left.dtype, device=left.device)
        H = torch.zeros(right.shape[0], blocks, block, dtype=left.dtype, device=left.device)
        start = rank if rank <= block else support_start(values, block)
        head = (values[:start] / blocks).sqrt()
        U[:, :, :start] = (left[:, :start] * head)[:, None, :]
        H[:, :, :start] = (right[:, :start] * head)[:, None, :]
        if rank <= block:
            return U.flatten(1), H.flatten(1)
        size = block - start
        tail = values[start:]
        level = tail.sum() / size
        ones = torch.zeros_like(tail)
        ones[:size] = 1.0
        # columns of diag(1^s, 0) Q: the rows of the first s rows of Q span the range of the projection
        basis = schur_horn(ones, (tail / level).clamp_max(1.0))[:size]
        flips = (hadamard_equalizer(signs, left.dtype, left.device) * signs**0.5)[:, : len(tail)]
        root = (level / blocks).sqrt()
        for i in range(blocks):
            signed = (basis * flips[i % signs]).mT * root
            U[:, i, start:] = left[:, start:] @ signed
            H[:, i, start:] = right[:, start:] @ signed
        return U.flatten(1), H.flatten(1)


def support_start(spectrum: Tensor, block: int) -> int:
    """Number of leading values outside the tail of the k-support norm (rho - 1 in pal2020-thm2.3)."""
    ordered = spectrum.detach().to("cpu", torch.float64)
    padded = torch.cat([ordered, ordered.new_zeros(max(0, block - len(ordered)))])
    tails = padded.flip(0).cumsum(0).flip(0)
    start = 0
    while start + 1 < block and float(padded[start]) >= float(tails[start + 1]) / (block - start - 1):
        start += 1
    return start


def _signs_needed(values: Tensor, block: int) -> int:
    """The construction exists for multiples of this many blocks: the next power of two of the tail length."""
    if len(values) <= block:
        return 1
    return 1 << (len(values) - support_start(values, block) - 1).bit_length()


def _most_blocks(spectrum: Tensor, block: int) -> int:
    """`_blocks_needed` by the most demanding member of a batch."""
    rows = spectrum.reshape(spectrum.shape[:-1].numel(), spectrum.shape[-1])
    return max(_blocks_needed(row, block) for row in rows)


def _blocks_needed(spectrum: Tensor, block: int) -> int:
    """How many blocks suffice for the k-support bound to be attained, at least one.

    With rho as in the k-support norm and q the number of non-zero values from rho on, q blocks suffice (pal2020-thm2.6
    at a fixed width): one when the rank is at most the block size.
    """
    rank = int((spectrum > 1e-12 * spectrum[:1]).sum())
    return 1 if rank <= block else rank - support_start(spectrum, block)
