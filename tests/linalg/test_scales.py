"""Units taken out of matrices: exact powers of two, and decisions that do not see them."""

import pytest
import torch
from cases import normal

from droptics.linalg.scales import equilibrate, is_diagonal, is_small, powers_of_two


def test_powers_of_two_are_exact_and_next_to_the_values():
    values = torch.cat([torch.tensor([0.0, 1.0, 2.0, 3.0, 1e-300, 1e300], dtype=torch.float64), normal(20).abs()])
    found = powers_of_two(values)
    assert bool((torch.frexp(found)[0] == 0.5).all())
    assert bool((found[1:] > values[1:]).all() and (found[1:] <= 2 * values[1:]).all())
    assert float(found[0]) == 1.0


@pytest.mark.parametrize("place", [(0, 1), (3, 0), (2, 3)])
def test_one_entry_beside_the_diagonal_is_seen(place):
    matrix = torch.diag(torch.tensor([1.0, 0, 2, 3]).double())
    assert is_diagonal(matrix)
    matrix[place] = 1e-300
    assert not is_diagonal(matrix)


def test_what_needs_a_derivative_is_left_to_torch():
    matrix = normal(4, 4)
    assert is_small(matrix)
    assert not is_small(matrix.clone().requires_grad_())
    assert not is_small(matrix.expand(2, 4, 4))
    assert not is_small(normal(4, 100))
    torch.func.jvp(lambda m: (None if is_small(m) else m).sum(), (matrix,), (matrix,))


@pytest.mark.parametrize("shift", [-40, 7, 40])
def test_units_of_a_feature_leave_the_scaled_matrix_as_it_is(shift):
    matrix = normal(5, 4).mT @ normal(5, 4)
    factors = torch.tensor([1.0, 2.0**shift, 1.0, 2.0**-shift]).double()
    scaled, units = equilibrate(matrix)
    again, others = equilibrate(matrix * factors * factors[:, None])
    assert torch.equal(scaled, again)
    assert torch.equal(others, units * factors)
    assert torch.equal(units[:, None] * scaled * units, matrix)
    diagonal = scaled.diagonal()
    assert bool((diagonal >= 0.25).all() and (diagonal <= 1).all())


def test_features_without_energy_stay_zero():
    scaled, units = equilibrate(torch.diag(torch.tensor([4.0, 0.0]).double()))
    assert scaled.tolist() == [[0.25, 0.0], [0.0, 0.0]]
    assert units.tolist() == [4.0, 1.0]
