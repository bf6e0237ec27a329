"""Quadratic forms of many columns at once against the definition in exact arithmetic."""

from fractions import Fraction

import pytest
import torch

from droptics.data import Moments
from droptics.linalg import forms
from droptics.linalg.forms import column_forms, column_squares
from droptics.masks import Bernoulli
from droptics.models import TwoLayerLinear
from droptics.penalties import penalty

EPS = torch.finfo(torch.float64).eps


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled loop whatever the number of products."""
    monkeypatch.setattr(forms, "MANY", 0)


@pytest.mark.parametrize("width", [1, 3, 4, 5, 7, 8, 20, 24, 50])
@pytest.mark.parametrize("size", [8, 9, 15, 16, 33])
@pytest.mark.usefixtures("always")
def test_every_size_has_the_form_of_every_column(size, width):
    root, V = normal(size, size), normal(2, 3, size, width, seed=1)
    moment = root @ root.mT
    found = column_forms(V, moment)
    plain = torch.stack([torch.stack([(v * (moment @ v)).sum(0) for v in w]) for w in V])
    # either way a product of three goes through at most 2 n + 2 roundings
    scale = (V.abs() * (moment.abs() @ V.abs())).sum(-2)
    assert found.shape == (2, 3, width)
    assert bool(((found - plain).abs() <= 2 * (size + 1) * EPS * scale).all())
    assert bool(((column_squares(V) / V.square().sum(-2) - 1).abs() <= (size + 1) * EPS).all())
    heads = normal(2, 3, 5, width, seed=2)
    with_heads = column_forms(V, moment, heads)
    assert bool(((with_heads / (found * heads.square().sum(-2)) - 1).abs() <= 8 * EPS).all())
    torch.testing.assert_close(column_forms(V, moment, heads[0]), found * heads[0].square().sum(-2))


@pytest.mark.usefixtures("always")
def test_whole_numbers_are_added_without_rounding_and_both_triangles_count():
    generator = torch.Generator().manual_seed(2)
    moment = torch.randint(-9, 10, (11, 11), generator=generator).double()  # not symmetric
    V = torch.randint(-9, 10, (3, 11, 6), generator=generator).double()
    exact = [[sum(Fraction(float(moment[i, j] * v[i, c] * v[j, c])) for i in range(11) for j in range(11))
              for c in range(6)] for v in V]  # fmt: skip
    assert column_forms(V, moment).tolist() == exact
    assert column_forms(V.mT.contiguous().mT, moment).tolist() == exact  # stored by columns
    assert column_forms(V.expand(2, 3, 11, 6), moment).tolist() == [exact, exact]
    assert column_squares(V).tolist() == [[sum(float(x) ** 2 for x in v[:, c]) for c in range(6)] for v in V]


@pytest.mark.usefixtures("always")
def test_what_the_loop_does_not_know_is_left_to_torch():
    moment = torch.eye(9).double()
    for V in (normal(2, 7, 5), normal(9, 5), normal(0, 9, 5), normal(2, 9, 5).float()):
        n = V.shape[-2]
        expected = V.square().sum(-2)
        torch.testing.assert_close(column_forms(V, moment[:n, :n].to(V)), expected)
        torch.testing.assert_close(column_squares(V), expected)


@pytest.mark.usefixtures("always")
def test_derivatives_go_through():
    root, V = normal(9, 9), normal(2, 9, 5, seed=1).requires_grad_()
    moment = root @ root.mT
    (slope,) = torch.autograd.grad(column_forms(V, moment).sum() + column_squares(V).sum(), V)
    torch.testing.assert_close(slope, 2 * moment @ V.detach() + 2 * V.detach())
    mapped = torch.func.vmap(lambda v: column_forms(v, moment))(V.detach())
    torch.testing.assert_close(mapped, column_forms(V.detach(), moment))


def test_penalties_of_many_networks_are_those_of_each():
    """A thousand networks pass the number of products from which on the loop is taken."""
    root, U, V = normal(12, 20), normal(1000, 5, 6, seed=1), normal(1000, 12, 6, seed=2)
    assert V.numel() * 12 < forms.MANY < U.numel() * 50
    U, V = torch.cat([U] * 2), torch.cat([V] * 2)
    assert V.numel() * 12 >= forms.MANY
    xx, matrix = root @ root.mT / 20, normal(5, 12, seed=3)
    data, law = Moments(xx, matrix @ xx, matrix @ xx @ matrix.mT), Bernoulli(0.3, 6)
    together = penalty(TwoLayerLinear(U, V), data, law)
    for i in range(0, 2000, 97):
        alone = penalty(TwoLayerLinear(U[i], V[i]), data, law)
        assert abs(float(together.value[i]) - float(alone)) <= float(together.error[i]) + float(alone.error)
        assert abs(float(together.value[i]) / float(alone) - 1) <= 1e-14


@pytest.mark.parametrize("rows", [1, 3])
def test_heads_of_any_number_of_rows_multiply(rows, monkeypatch):
    monkeypatch.setattr(forms, "MANY", 1)
    columns, heads, half = normal(2, 9, 5), normal(2, rows, 5, seed=1), normal(9, 9, seed=2)
    wanted = torch.einsum("kiw,ij,kjw,kaw->kw", columns, half @ half.mT, columns, heads.square())
    torch.testing.assert_close(column_forms(columns, half @ half.mT, heads), wanted, rtol=1e-12, atol=0)
