"""Unit Gram matrices from what every unit adds to the outputs, formed only as far as a law asks for them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from droptics.data import Data, Moments, Sample, average
from droptics.linalg.forms import column_forms
from droptics.linalg.sums import products
from droptics.penalties.unit_outputs import UnitOutputs


@dataclass(frozen=True, eq=False)
class OutputGram:
    """The mean over examples of <g_i, g_j> for given unit outputs, formed as far as a law asks for it.

    Attributes:
        units: What every unit adds to the outputs.
        data: The examples, or the second moments of their inputs; the plain mean over the rows for anything else.
    """

    units: UnitOutputs
    data: Data | None = None

    def energies(self) -> Tensor:
        """The diagonal, (..., units)."""
        features, head = self.units
        if head.shape[-3] == 1:  # the shared head leaves the mean
            return head.squeeze(-3).square().sum(-2) * mean_squares(features, self.data)
        return self._rows().square().sum(-2)

    def part(self, rows: slice, columns: slice) -> Tensor:
        """Some rows and columns, (..., rows, columns)."""
        features, head = self.units
        if head.shape[-3] == 1:
            head = head.squeeze(-3)
            incoming = mean_products(_columns(features, rows), _columns(features, columns), self.data)
            return (_columns(head, rows).mT @ _columns(head, columns)) * incoming
        flat = self._rows()
        return flat[..., rows].mT @ flat[..., columns]

    def _rows(self) -> Tensor:
        """One row per example and output, so that products of columns are means."""
        contributions = self.units.contributions
        count = contributions.shape[-3]
        shares = self.data.shares if isinstance(self.data, Sample) else contributions.new_full((count,), 1 / count)
        return (contributions * shares.sqrt()[:, None, None]).flatten(-3, -2)


def feature_gram(features: Tensor, sample: Sample) -> Tensor:
    """E a a^T for features a (..., n, units) of the examples."""
    return mean_products(features, features, sample)


def feature_energies(features: Tensor, sample: Sample) -> Tensor:
    """E a_j^2 for features a (..., n, units) of the examples."""
    return average(features.square().mT, sample.weights)


def _columns(matrix: Tensor, part: slice) -> Tensor:
    return matrix if part == slice(None) else matrix[..., part]  # a view costs as much as a small product


def mean_products(rows: Tensor, columns: Tensor, data: Data | None) -> Tensor:
    """E a_i b_j for features (..., n, units) on the inputs of the data."""
    match data:
        case Moments():
            return rows.mT @ data.xx @ columns
        case Sample():
            return products(rows * data.shares[:, None], columns)
    return products(rows, columns) / rows.shape[-2]


def mean_squares(features: Tensor, data: Data | None) -> Tensor:
    """E a_j^2 for features (..., n, units) on the inputs of the data."""
    match data:
        case Moments():
            return column_forms(features, data.xx)
        case Sample():
            return feature_energies(features, data)
    return features.square().mean(-2)
