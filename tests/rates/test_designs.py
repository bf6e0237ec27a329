"""Two-level designs: orthogonal, balanced, and effects that are those of a linear loss."""

import math

import pytest
import torch

from droptics.rates.designs import effects, two_level


@pytest.mark.parametrize("sites", range(1, 12))
def test_columns_are_balanced_and_orthogonal(sites):
    signs = two_level(sites)
    copies = len(signs)
    assert copies == (4 if sites <= 3 else 8 if sites <= 7 else 12)
    assert bool((signs.abs() == 1).all())
    assert torch.equal(signs.sum(0), torch.zeros(sites, dtype=torch.float64))
    assert torch.equal(signs.mT @ signs, copies * torch.eye(sites, dtype=torch.float64))
    assert len({tuple(row) for row in signs.tolist()}) == copies or sites < 2


def test_few_sites_share_nothing_with_products_of_two():
    """With four sites on eight copies no product of two sites looks like a site."""
    signs = two_level(4)
    for i in range(4):
        for j in range(i):
            assert torch.equal(signs.mT @ (signs[:, i] * signs[:, j]), torch.zeros(4, dtype=torch.float64))


@pytest.mark.parametrize("sites", [2, 3, 5, 11])
def test_effects_of_a_linear_loss_are_its_slopes(sites):
    generator = torch.Generator().manual_seed(sites)
    signs, slopes = two_level(sites), torch.randn(sites, 40, generator=generator, dtype=torch.float64)
    base = torch.randn(40, generator=generator, dtype=torch.float64)
    found = effects(signs, base + signs @ slopes)
    for effect, slope in zip(found, slopes, strict=True):
        assert effect.value == pytest.approx(float(slope.mean()), abs=1e-12)
        assert effect.error == pytest.approx(float(slope.std()) / math.sqrt(40), rel=1e-6)


def spread(column):
    return column[:, None].expand(len(column), 10)


def test_noise_in_spare_columns_counts():
    """Four sites on eight copies leave three products: all of size one are noise of that size."""
    signs = two_level(4)
    noise = sum(spread(signs[:, 0] * signs[:, i]) for i in (1, 2, 3))
    assert [effect.error for effect in effects(signs, noise)] == [1.0] * 4


def test_a_product_of_sites_that_matters_is_no_noise():
    four, two = two_level(4), two_level(2)
    assert [effect.error for effect in effects(four, spread(four[:, 0] * four[:, 1]))] == [0.0] * 4
    assert [effect.error for effect in effects(two, spread(two[:, 0] * two[:, 1]))] == [0.0] * 2


@pytest.mark.parametrize("sites", [12, 0, -1, 2.5, "3", None])
def test_more_sites_than_a_design_holds_are_refused(sites):
    with pytest.raises(ValueError, match="sites must be"):
        two_level(sites)
