"""Optima of many maps in one call against the same call for each of them."""

import pytest
import torch

from droptics.masks import Bernoulli, Block, Gaussian
from droptics.optima import optimum_of_map, optimum_of_maps

EPS = torch.finfo(torch.float64).eps


def maps(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def hostile(rows: int, columns: int) -> torch.Tensor:
    """Random, degenerate and badly scaled maps of one shape."""
    plain = maps(rows, columns)
    units = 10.0 ** torch.arange(columns).double().sub(columns // 2)
    return torch.stack(
        [plain, 0 * plain, torch.eye(rows, columns).double(), plain[:, :1] * plain[:1], plain * units, 1e150 * plain,
         1e-150 * plain, plain.repeat(1, 2)[:, ::2][:, :columns], torch.full_like(plain, 5e-324)]
    )  # fmt: skip


LAWS = [Bernoulli(0.4, 6), Bernoulli(0.0, 3), Gaussian(2.0, 40), Bernoulli(1e-9, 12)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (45, 40), (40, 45)])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{type(law).__name__} {law.size}")
def test_every_answer_is_that_of_the_map_alone(law, shape, dtype):
    every = hostile(*shape)
    every = every.clamp(-1e15, 1e15).to(dtype) if dtype == torch.float32 else every
    for matrix, found in zip(every, optimum_of_maps(every, law), strict=True):
        alone = optimum_of_map(matrix, law)
        allowed = 8 * sum(shape) * EPS * alone.scale
        assert found.certified == alone.certified
        assert abs(found.objective - alone.objective) <= allowed
        assert abs(found.bound - alone.bound) <= allowed
        assert (found.rank, found.claim, found.method) == (alone.rank, alone.claim, alone.method)
        assert (found.scale, found.tolerance) == (alone.scale, alone.tolerance)
        assert found.model.dtype == dtype
        assert found.model.U.shape == alone.model.U.shape


def test_answers_share_no_numbers():
    first, second = optimum_of_maps(maps(2, 9, 8), Bernoulli(0.3, 4))
    kept = second.model.U.clone()
    first.model.U.zero_()
    assert torch.equal(second.model.U, kept)


def test_laws_of_unequal_rates_are_answered_one_by_one():
    law, every = Bernoulli(torch.tensor([0.1, 0.5, 0.3]).double(), 3), maps(3, 7, 5)
    for matrix, found in zip(every, optimum_of_maps(every, law), strict=True):
        assert found.objective == optimum_of_map(matrix, law).objective


def test_the_map_that_is_wrong_is_named():
    law, every = Bernoulli(0.3, 4), maps(5, 9, 8)
    every[3] *= 1e200
    with pytest.raises(ValueError, match=r"matrices\[3\] must have a finite squared norm"):
        optimum_of_maps(every, law)
    every[3] = 0.0
    every[2, 1, 4] = torch.nan
    with pytest.raises(ValueError, match=r"matrices must be finite, .* first at index \(2, 1, 4\)"):
        optimum_of_maps(every, law)
    for wrong in (maps(9, 8), maps(2, 0, 3), maps(0, 2, 3), maps(2, 3, 4).half(), [[1.0]]):
        with pytest.raises(ValueError, match="matrices must be maps"):
            optimum_of_maps(wrong, law)
    with pytest.raises(ValueError, match="independent units only"):
        optimum_of_maps(maps(2, 9, 8), Block(0.3, 4, 2))


@pytest.mark.slow
def test_large_maps_are_left_to_the_krylov_space():
    every, law = maps(2, 401, 402), Bernoulli(0.5, 3)
    for matrix, found in zip(every, optimum_of_maps(every, law), strict=True):
        assert found.method == optimum_of_map(matrix, law).method != "closed form"
