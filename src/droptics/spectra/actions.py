"""What a mask law does to a spectrum when the weights are free.

In white coordinates (`coordinates`) the criterion of factors U, H is constant + ||T - U H^T||_F^2 + penalty. The least
penalty over all factors of one matrix is a function of its singular values, so the best matrix has the singular vectors
of T and a shrunk spectrum. What is known of that function is all that tells one kind of law from another: induced
penalties, envelopes, optima, certificates and equalized networks are readings of an `Action`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.errors import NoClosedForm


class Action(abc.ABC):
    """What one kind of law does to a spectrum: its least penalty, the best spectrum, and factors that attain it.

    A law with a closed form of its own is one class, a `MaskLaw` and an `Action`; every question about two-layer
    networks and factorizations is then answered under it. Where something is not known, raise NoClosedForm.

    Attributes:
        claim: Id of the statement that proves it.
        words: How `value` is computed.
    """

    claim: ClassVar[str]
    words: ClassVar[str] = "closed form"

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of units, the width of the factors, and the most values that a spectrum keeps."""

    @abc.abstractmethod
    def value(self, spectrum: Tensor) -> Tensor:
        """The least penalty over all factors of a matrix with these singular values (..., n), descending: (...,)."""

    def envelope(self, spectrum: Tensor) -> Tensor:
        """The largest convex function below `value`, (...,); `value` itself where that is convex."""
        return self.value(spectrum)

    @abc.abstractmethod
    def shrink(self, values: Tensor) -> tuple[Tensor, float]:
        """The minimizer x of ||values - x||^2 + value(x), at most `size` entries, and value(x).

        For descending values (n,) on the CPU in float64. Where `value` is not known, of a function below it: the
        minimum then is a bound.
        """

    @abc.abstractmethod
    def spread(self, left: Tensor, values: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """Factors U (a, size), H (q, size) of left diag(values) right^T whose penalty is value(values).

        left (a, rank) and right (q, rank) have orthonormal columns, the values are positive and descend.
        """

    def shrink_array(self, values: Array) -> tuple[Array, float]:
        """`shrink` for NumPy, whose small calls are cheaper: a law that computes in it need not pass through torch."""
        shrunk, cost = self.shrink(torch.from_numpy(values))
        return shrunk.numpy(), cost

    def spread_arrays(self, left: Array, values: Array, right: Array) -> tuple[Array, Array]:
        """`spread` for NumPy, likewise."""
        U, H = self.spread(*(torch.from_numpy(part.copy()) for part in (left, values, right)))
        return U.numpy(), H.numpy()

    @property
    def tied(self) -> Action:
        """The same for tied networks on isotropic inputs, whose two factors are one: U with a Gram matrix U U^T."""
        raise NoClosedForm(
            f"tied networks have a closed form for independent units only, not for {type(self).__name__}; use "
            "model.untied or TwoLayerLinear, or a law such as Bernoulli"
        )

    def equalize_tied(self, columns: Tensor) -> Tensor:
        """U Q of least penalty, where U U^T stays (mianjy2018-thm2.2)."""
        tied = self.tied
        if columns.ndim != 2:
            raise ValueError("model must be one network for unequal rates, got a batch; equalize its members alone")
        left, values, _ = torch.linalg.svd(columns, full_matrices=False)
        return tied.spread(left, values.square(), left)[0]

    @property
    def one_rate(self) -> float:
        """lambda, the relative variance that every unit has, where all are independent."""
        raise NoClosedForm("this needs independent units with one rate, such as those of Bernoulli(0.5, size)")

    @property
    def least_rate(self) -> float:
        """A rate whose independent units never cost more than these; zero where none is known."""
        return 0.0

    @property
    def cutoff(self) -> Callable[[Tensor, Tensor], float]:
        """Of values and what `shrink` keeps of them: further values below this one change nothing."""
        raise NoClosedForm(
            "a part of the spectrum is enough for independent units only; use optimum, which sees all of it"
        )

    @property
    def nuclear(self) -> Tensor:
        """A number a such that the penalty of factors of A is at least a ||A||_*^2; zero where none is known."""
        return torch.zeros((), dtype=torch.float64)


def harmonic(strengths: Tensor) -> Tensor:
    """1 / sum of 1 / strength, zero when some unit has none: the least of sum strength n^2 over shares n of one.

    Its slopes are the squares of these shares; units without strength share alike, as where all are raised at once.
    """
    positive = strengths > torch.finfo(strengths.dtype).tiny  # whose inverse is a number
    least = torch.where(positive, strengths, torch.inf).amin(-1, keepdim=True).detach()
    least = torch.where(least.isinf(), 1.0, least)  # a unit for the others: squares of tiny strengths are zero
    rest = torch.where(positive, least / torch.where(positive, strengths, 1.0), 0.0).sum(-1)
    whole = least[..., 0] / torch.where(rest > 0, rest, 1.0)
    none = torch.where(positive, 0.0, strengths).sum(-1) / (~positive).sum(-1).clamp_min(1).square()
    return torch.where(positive.all(-1), whole, none / (1 + none * (rest / least[..., 0])))
