"""Optima of large maps in other units: the tolerance is relative, so that the same steps find the same network."""

import numpy as np
import pytest
from cases import normal
from scipy.sparse.linalg import aslinearoperator

from droptics.masks import Bernoulli
from droptics.optima import optimum_of_map


@pytest.mark.parametrize("power", [-30, 30])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-12])
def test_units_of_a_map_change_no_step(tolerance, power):
    """Powers of two round nothing: the objective, its bound and the energy carry the square of the unit."""
    matrix = normal(60, 50).numpy() / np.sqrt(np.arange(1.0, 51))
    law, unit = Bernoulli(0.5, 6), 2.0**power
    plain = optimum_of_map(aslinearoperator(matrix), law, tolerance=tolerance, block=4)
    other = optimum_of_map(aslinearoperator(unit * matrix), law, tolerance=tolerance, block=4)
    assert other.method == plain.method
    assert other.rank == plain.rank
    assert other.objective == pytest.approx(unit**2 * plain.objective, rel=1e-9)
    assert other.bound == pytest.approx(unit**2 * plain.bound, rel=1e-9)
    for found, energy in ((plain, (matrix**2).sum()), (other, unit**2 * (matrix**2).sum())):
        assert found.gap <= max(2 * tolerance, 1e-12) * energy
    known = optimum_of_map(
        aslinearoperator(unit * matrix), law, tolerance, 4, energy=float((unit * matrix**2 * unit).sum())
    )
    assert known.objective == pytest.approx(other.objective, rel=1e-9)
