"""Factors of small targets in compiled loops against the steps one by one, which other laws take."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from droptics.masks import Bernoulli, Block, Gaussian
from droptics.spectra import OneRate, action
from droptics.spectra.decomposition import shrunk_svd
from droptics.spectra.kinds import many_factors, short_factors

EPS = np.finfo(float).eps


def target(rows: int, columns: int, kind: str) -> np.ndarray:
    rng = np.random.default_rng(rows + columns)
    size = min(rows, columns)
    left, right = (np.linalg.qr(rng.normal(size=(n, size)))[0] for n in (rows, columns))
    values = {
        "decaying": np.exp(-np.arange(size) / (size / 8)),
        "ties": np.ones(size),
        "rank two": np.r_[3.0, 2.0, np.zeros(size - 2)],
        "zero": np.zeros(size),
        "huge": 1e150 * np.exp(-np.arange(size) / size),
        "tiny": 1e-120 * np.exp(-np.arange(size) / size),
    }[kind]
    return (left * values) @ right.T


@pytest.mark.parametrize("kind", ["decaying", "ties", "rank two", "zero", "huge", "tiny"])
@pytest.mark.parametrize("shape", [(3, 2), (12, 9), (9, 12), (70, 40), (40, 70), (300, 270)])
@pytest.mark.parametrize("width", [1, 6, 30])
def test_the_same_matrix_and_values_as_step_by_step(shape, width, kind):
    matrix, masks = target(*shape, kind), Bernoulli(0.3, width)
    found, plain = short_factors(matrix, masks), shrunk_svd(matrix, action(masks))
    energy = float((matrix**2).sum())
    allowed = 8 * (sum(shape) + width) * EPS * energy  # sums of so many numbers, after a rotation for every unit
    assert found is not None
    assert found.rank == len(plain.values)
    assert abs(found.energy - energy) <= allowed
    assert abs(found.least - plain.least) <= allowed
    assert found.U.shape == (shape[0], width)
    assert found.H.shape == (shape[1], width)
    product = found.U @ found.H.T
    if kind != "ties":  # any of tied directions may be kept
        best = (plain.left * plain.values) @ plain.right.T
        # vectors of the Gram matrix turn by rounding over the gap, and values are far apart here
        assert np.linalg.norm(product - best) <= 1e-9 * energy**0.5
    # all columns have one norm
    norms = (found.U**2).sum(0)
    assert np.abs(norms - norms.mean()).max() <= 1e-12 * norms.mean()
    rest = ((matrix - product) ** 2).sum() + 0.3 / 0.7 * (norms * (found.H**2).sum(0)).sum()
    assert abs(found.value - rest) <= allowed
    assert abs(found.value - found.least) <= allowed


def test_arrays_that_a_thread_keeps_mix_nothing_up():
    """Problems of one shape one after the other, of two by turns, and in threads at once, against each in its turn."""
    masks = Bernoulli(0.3, 6)
    targets = [target(*shape, kind) for kind in ("decaying", "rank two", "zero") for shape in ((40, 33), (33, 40))]
    alone = [short_factors(matrix.copy(), masks) for matrix in targets]
    kept = [(one.U.copy(), one.H.copy(), one.value) for one in alone]
    with ThreadPoolExecutor(4) as pool:
        again = list(pool.map(lambda place: short_factors(targets[place % 6], masks), range(240)))
    for place, one in enumerate([*alone, *again]):
        U, H, value = kept[place % 6]
        assert (one.value, np.array_equal(one.U, U), np.array_equal(one.H, H)) == (value, True, True)


def test_several_targets_are_each_alone():
    targets = np.stack([target(40, 33, kind) for kind in ("decaying", "rank two", "zero", "tiny", "decaying")])
    targets[3, 0, 0] = np.inf
    masks = Gaussian(0.5, 7)
    together = many_factors(targets, masks)
    for each, found in zip(targets, together, strict=True):
        alone = short_factors(each, masks)
        assert (alone is None) == (found is None)
        for a, b in zip(alone or (), found or (), strict=True):
            assert np.array_equal(a, b)
    assert [found is None for found in together] == [False, False, False, True, False]


def test_values_too_far_apart_for_a_gram_matrix_are_refused():
    left, right = (np.linalg.qr(np.random.default_rng(n).normal(size=(n, 40)))[0] for n in (50, 40))
    spectrum = np.r_[1.0, 1e-5 * np.ones(39)]
    assert short_factors((left * spectrum) @ right.T, Bernoulli(1e-9, 10)) is None
    assert short_factors((left * spectrum) @ right.T, Bernoulli(0.5, 10)) is not None  # which keeps one value


def test_other_laws_and_tensors_are_left_to_their_steps():
    matrix = target(12, 9, "decaying")
    assert short_factors(torch.from_numpy(matrix), Bernoulli(0.3, 4)) is None
    assert short_factors(matrix, Bernoulli(torch.tensor([0.1, 0.2]).double(), 2)) is None
    assert short_factors(matrix, Block(0.3, 4, 2)) is None
    assert short_factors(matrix, Block(0.3, 4, 1)) is not None
    assert isinstance(action(Block(0.3, 4, 1)), OneRate)
    assert short_factors(matrix[:, :0], Bernoulli(0.3, 4)) is None
    assert short_factors(matrix, Bernoulli(0.3, 5000)) is None  # products of all pairs of units are too many
