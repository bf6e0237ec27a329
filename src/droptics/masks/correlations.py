"""What correlations of units do to a layer: its Gram matrices, its vectors and its heads.

A penalty, a prediction or a moment asks a law for one of these. Only this file knows that uncorrelated units need the
diagonal of a matrix, and units that are correlated with their neighbors a band of it.
"""

from __future__ import annotations

import abc
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.linalg import psd_eigen, psd_root
from droptics.linalg.scales import equilibrate
from droptics.transforms import wants_derivative

# Above so many units a law of small reach is asked for its diagonals, never for a matrix over all pairs.
WIDE = 2048
# Units of a law whose covariance is written out: 16 GiB.
LARGEST = 46340


class Gram(Protocol):
    """A Gram matrix of units that is formed only as far as a law asks for it."""

    def energies(self) -> Tensor:
        """Its diagonal, (..., units)."""

    def part(self, rows: slice, columns: slice) -> Tensor:
        """Some of its rows and columns, (..., rows, columns)."""


class Noise(NamedTuple):
    """The covariance N = Cbar o G that masks add to a layer; uncorrelated units keep its diagonal only.

    Attributes:
        entries: N (..., units, units), or its diagonal (..., units).
        diagonal: Which of the two.
    """

    entries: Tensor
    diagonal: bool

    def behind(self, weight: Tensor) -> Tensor:
        """A N A^T for a map A (..., outputs, units)."""
        if self.diagonal:
            return (weight * self.entries.unsqueeze(-2)) @ weight.mT
        return weight @ self.entries @ weight.mT

    def variances_behind(self, weight: Tensor) -> Tensor:
        """The diagonal of `behind` (..., examples, outputs), for one map (..., outputs, units) of all examples."""
        if self.diagonal:
            return self.entries @ weight.square().mT
        shared = weight.unsqueeze(-3)
        return ((shared @ self.entries) * shared).sum(-1)


class Correlations(abc.ABC):
    """Units whose multipliers have the covariance Cbar, and what follows from it."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of units."""

    @property
    @abc.abstractmethod
    def characteristic(self) -> Tensor:
        """Covariance of the multipliers: Cov(b_i, b_j) / (mean_i mean_j), (size, size)."""

    @property
    def independent(self) -> bool:
        """True when the units are uncorrelated, so that `relative_variance` says all that a penalty needs."""
        return False

    @property
    def relative_variance(self) -> Tensor:
        """Diagonal of `characteristic`: Var(b_i) / mean_i^2, (size,)."""
        return torch.diagonal(self.characteristic)

    @property
    def common_strength(self) -> float | None:
        """The number that all of `relative_variance` is by construction; None where some may differ or vary."""
        return None

    @property
    def reach(self) -> int:
        """Units further apart than this are uncorrelated, so that `characteristic` is a band of this many diagonals."""
        return 0 if self.independent else self.size - 1

    def diagonal(self, lag: int) -> Tensor:
        """The entries (i, i + lag) of `characteristic`, (size - lag,), which a law of small reach knows without it."""
        return self.relative_variance if lag == 0 else torch.diagonal(self.characteristic, lag)

    def weigh(self, gram: Tensor | Gram) -> Tensor:
        """sum_ij Cbar_ij G_ij of a Gram matrix G of the units, (...,): all that a penalty asks of a law.

        Uncorrelated units ask for the diagonal of G only; a law that knows where Cbar vanishes may ask for the rest of
        G part by part.
        """
        if self.independent:
            energies = torch.diagonal(gram, dim1=-2, dim2=-1) if isinstance(gram, Tensor) else gram.energies()
            if self.common_strength is not None:  # a number times a sum would have tangents of float64
                return (self.common_strength * energies).sum(-1)
            return (energies * self.relative_variance.to(energies)).sum(-1)
        if self._narrow:
            return self._weigh_band(gram)
        whole = slice(None)
        entries = gram if isinstance(gram, Tensor) else gram.part(whole, whole)
        return (entries * self.characteristic.to(entries)).sum((-2, -1))

    def weigh_at_most(self, energies: Tensor) -> Tensor:
        """The most that `weigh` can be for a Gram matrix with this diagonal, (...,).

        |G_ij| <= sqrt(G_ii G_jj), and the same for Cbar; a unit has at most 2 reach + 1 that it is correlated with.
        """
        shares = energies * self.relative_variance.to(energies)
        if self.independent:
            return shares.sum(-1)
        near = (2 * self.reach + 1) * shares.clamp_min(0).sum(-1)
        return torch.minimum(shares.clamp_min(0).sqrt().sum(-1).square(), near)

    def hadamard(self, moment: Tensor) -> Tensor:
        """Cbar o moment, (..., units, units): the second moment that the masks add to a layer."""
        if self.independent:
            return torch.diag_embed(self.relative_variance.to(moment) * torch.diagonal(moment, dim1=-2, dim2=-1))
        return self.characteristic.to(moment) * moment

    def add_noise_(self, excess: Array, moment: Array, strengths: Array) -> None:
        """Make the excess E of a second moment M into E + Cbar o (E + M), in NumPy: cheaper for small matrices.

        strengths are `relative_variance`, which the caller has at hand.
        """
        if self.independent:
            own = strengths.astype(excess.dtype) * (excess.diagonal() + moment.diagonal())
            excess.ravel()[:: len(excess) + 1] += own
        else:
            excess += self.characteristic.numpy().astype(excess.dtype) * (excess + moment)

    def correlate(self, vectors: Tensor, heads: Tensor | None = None) -> Tensor:
        """Vectors (..., units) times Cbar; with heads W (outputs, units), times Cbar o W^T W."""
        if self.independent:
            strengths = self.relative_variance.to(vectors)
            return vectors * (strengths if heads is None else strengths * heads.square().sum(-2).unsqueeze(-2))
        if self._narrow:
            return self._correlate_band(vectors, heads)
        matrix = self.characteristic.to(vectors)
        return vectors @ (matrix if heads is None else matrix * (heads.mT @ heads))

    def noise(self, gram: Gram) -> Noise:
        """Cbar o G, formed only as far as units are correlated."""
        if self.independent:
            energies = gram.energies()
            return Noise(energies * self.relative_variance.to(energies), True)
        entries = gram.part(slice(None), slice(None))
        return Noise(entries * self.characteristic.to(entries), False)

    @property
    def noise_entries(self) -> int:
        """How many numbers `noise` keeps of one matrix."""
        return self.size if self.independent else self.size**2

    def variances(self, features: Tensor, heads: Tensor) -> Tensor:
        """sum_ij Cbar_ij a_i w_i a_j w_j, (..., examples, outputs), for features a (..., examples, units).

        heads w are (..., examples or 1, outputs, units); a head of all examples under uncorrelated units is one more
        product of matrices, (a o a) (lambda o w o w)^T, else it costs outputs units^2 per example.
        """
        if self.independent and heads.shape[-3] == 1:
            return features.square() @ (heads.squeeze(-3).square() * self.relative_variance.to(heads)).mT
        parts = features.unsqueeze(-2) * heads
        return (self.correlate(parts) * parts).sum(-1)

    def covariances(self, features: Tensor, heads: Tensor) -> Tensor:
        """All pairs of outputs where `variances` has the diagonal, (..., examples, outputs, outputs).

        A head of all examples under uncorrelated units is one product of matrices for all pairs, formed where they are
        no more than the contributions of all units to all examples.
        """
        if self.independent and heads.shape[-3] == 1 and heads.shape[-2] <= features.shape[-2]:
            head, outputs = heads.squeeze(-3), heads.shape[-2]
            pairs = head.unsqueeze(-3) * (head * self.relative_variance.to(head)).unsqueeze(-2)
            return (features.square() @ pairs.flatten(-3, -2).mT).unflatten(-1, (outputs, outputs))
        parts = features.unsqueeze(-2) * heads
        return self.correlate(parts) @ parts.mT

    @property
    def _narrow(self) -> bool:
        """Whether pairs of units are so many, and so few of them correlated, that a matrix of all would be waste."""
        return self.size > WIDE and 16 * self.reach < self.size

    def _weigh_band(self, gram: Tensor | Gram) -> Tensor:
        """`weigh` from the entries of G within reach of the diagonal, a window of rows at a time."""
        total: Tensor | None = None
        bands = [self.diagonal(lag) * (1 if lag == 0 else 2) for lag in range(self.reach + 1)]
        window = max(128, self.reach)
        for begin in range(0, self.size, window):
            rows, columns = slice(begin, begin + window), slice(begin, begin + window + self.reach)
            part = gram[..., rows, columns] if isinstance(gram, Tensor) else gram.part(rows, columns)
            for lag, band in enumerate(bands):
                entries = torch.diagonal(part, lag, -2, -1)
                sums = (entries * band[begin : begin + entries.shape[-1]].to(entries)).sum(-1)
                total = sums if total is None else total + sums
        assert total is not None  # a law has at least one unit
        return total

    def _correlate_band(self, vectors: Tensor, heads: Tensor | None) -> Tensor:
        """`correlate` by the diagonals of Cbar within reach."""
        result = torch.zeros_like(vectors)
        for lag in range(self.reach + 1):
            left, right = slice(0, self.size - lag), slice(lag, self.size)
            band = self.diagonal(lag).to(vectors)
            if heads is not None:
                band = band * (heads[..., left] * heads[..., right]).sum(-2).unsqueeze(-2)
            result[..., left] += vectors[..., right] * band
            if lag:
                result[..., right] += vectors[..., left] * band
        return result

    @property
    def directions(self) -> Tensor:
        """Rows v with Cbar = sum of v v^T: scaled unit vectors, or scaled eigenvectors for correlated units."""
        check_dense(self.size, "use ClosedForm() where it applies, or MonteCarlo()")
        if self.independent:
            variance = self.relative_variance
            return torch.diag(variance.clamp_min(0).sqrt())[variance > 0]
        scaled, units = equilibrate(self.characteristic)
        values, vectors = psd_eigen(scaled.detach())
        if not wants_derivative(scaled):
            return (units[:, None] * vectors * values.sqrt()).mT[values > 0]
        # eigenvectors have no derivative where values coincide, as those of blocks do, but the root has
        return vectors.mT[values > 0] @ psd_root(scaled) * units


def check_dense(size: int, instead: str = "use relative_variance, or diagonal(lag) up to reach") -> None:
    """Refuse a matrix over all pairs of units that no ordinary memory holds, before it is taken."""
    if size > LARGEST:
        raise ValueError(
            f"a matrix over all pairs of {size} units takes {8 * size**2 / 2**30:.0f} GiB, the limit is {LARGEST} "
            f"units; {instead}"
        )
