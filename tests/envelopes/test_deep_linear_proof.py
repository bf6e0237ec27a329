"""The steps of the proof that shares on the simplex give the least penalty of a deep linear map, on random matrices."""

import pytest
import torch
from cases import normal

from droptics.envelopes.deep_linear import allocation, induced_spectrum


def random_roots(size, strength, generator):
    """(I + a K^-1)^(1/2) for a random positive definite K of trace one."""
    rotation = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64)).Q
    shares = (torch.randn(size, generator=generator, dtype=torch.float64) * 2).softmax(0)
    return (rotation * (1 + strength / shares).sqrt()) @ rotation.mT


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_logarithmic_ratios_of_singular_values_are_majorized(size):
    generator = torch.Generator().manual_seed(size)
    for spread in (0.1, 1.0, 3.0):
        left, right = torch.randn(2, 200, size, size, generator=generator, dtype=torch.float64).mul(spread).matrix_exp()
        ratios = (torch.linalg.svdvals(left @ right) / torch.linalg.svdvals(right)).log()
        excess = ratios.sort(descending=True).values.cumsum(-1) - torch.linalg.svdvals(left).log().cumsum(-1)
        # singular values are known to rounding of the largest: relative to the smallest, its inverse conditioning
        rounding = 64 * torch.finfo(torch.float64).eps * torch.linalg.cond(left) * torch.linalg.cond(right)
        sound = rounding < 1e-3
        assert bool(sound.any())
        assert bool((excess.amax(-1) <= rounding)[sound].all())
        assert bool((excess[:, -1].abs() <= rounding)[sound].all())


@pytest.mark.parametrize("layers", [1, 2, 3, 5])
def test_no_stretching_of_the_outputs_costs_less_than_the_shares(layers):
    generator = torch.Generator().manual_seed(layers)
    strengths = torch.rand(layers, generator=generator, dtype=torch.float64) * 2 + 0.05
    for _ in range(40):
        matrix = torch.randn(4, 4, generator=generator, dtype=torch.float64)
        image = matrix
        for strength in strengths:
            image = random_roots(4, strength, generator) @ image
        least = induced_spectrum(torch.linalg.svdvals(matrix), strengths)
        assert float(image.square().sum() - matrix.square().sum()) >= float(least) * (1 - 1e-12)


def test_the_bound_on_the_cost_is_attained_by_shares_in_the_singular_basis():
    matrix = normal(3, 3)
    left, values, _ = torch.linalg.svd(matrix)
    strengths = torch.tensor([0.3, 0.8, 1.5], dtype=torch.float64)
    image = matrix
    for share, strength in zip(allocation(values, strengths), strengths, strict=True):
        image = (left * (1 + strength / share).sqrt()) @ left.mT @ image
    found = float(image.square().sum() - matrix.square().sum())
    assert abs(found - float(induced_spectrum(values, strengths))) <= 1e-10 * found
