"""Stratified masks: chances against enumeration, draws against the law, and no bias in what is averaged."""

import math

import pytest
import torch
from compare import close

from droptics.masks import Bernoulli, Product
from droptics.models import ReLUNet
from droptics.penalties import MonteCarlo
from droptics.predictions import predictive
from droptics.predictions.controls import coin_places
from droptics.predictions.strata import EVENLY, Strata, allocate, count_chances, draw_counted

RATES = torch.tensor([0.05, 0.3, 0.0, 0.1, 0.02], dtype=torch.float64)


def atoms(drop):
    masks, chances = (torch.cat(part) for part in zip(*Bernoulli(drop, len(drop)).support_batches(64), strict=True))
    return masks, chances


def test_chances_are_those_of_all_masks():
    masks, chances = atoms(RATES)
    fallen = (1 - masks).sum(1)
    expected = [float(chances[fallen == 0].sum()), float(chances[fallen == 1].sum()), float(chances[fallen > 1].sum())]
    close(torch.tensor(count_chances(RATES)), torch.tensor(expected), 1e-14)
    # a chance of 1e-12 keeps its digits: 10 pairs of units at 1e-6 each squared
    assert count_chances(torch.full((5,), 1e-6).double())[2] == pytest.approx(10e-12, rel=1e-5)


def test_draws_have_the_law_of_their_stratum():
    """Every mask within five deviations of its share of 20,000 draws, and none of another stratum."""
    strata = Strata(tuple(count_chances(RATES)), (20_000,) * 3)
    kept = draw_counted(RATES, strata, torch.Generator().manual_seed(0))
    masks, chances = atoms(RATES)
    fallen = (1 - masks).sum(1).clamp_max(2)
    for stratum, part in enumerate(kept.split(strata.sizes)):
        seen = torch.bincount(coin_places(RATES, part), minlength=len(masks)) / len(part)
        expected = torch.where(fallen == stratum, chances, 0.0) / strata.chances[stratum]
        assert bool(((seen - expected).abs() <= 5 * (expected / len(part)).sqrt()).all())


def test_places_are_those_of_the_list():
    masks, _ = atoms(RATES)
    assert coin_places(RATES, masks).tolist() == list(range(len(masks)))


@pytest.mark.parametrize("evenly", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("rates", [RATES, RATES[:1], torch.tensor([1e-9, 1e-9]).double()], ids=str)
def test_every_mask_is_given_out(evenly, rates):
    strata = allocate(count_chances(rates), 64, evenly)
    assert sum(strata.sizes) == 64
    assert min(strata.sizes) >= 2
    close(strata.shares.sum(), torch.tensor(1.0), 1e-12)
    assert draw_counted(rates, strata, torch.Generator().manual_seed(0)).shape == (64, len(rates))


@pytest.mark.parametrize("rate", [0.001, 0.02, 0.1, 0.4])
def test_no_mean_errs_by_more_than_five_quarters_of_masks_in_proportion(rate):
    """Whatever spread the strata have, chance^2 / masks of each against chance / all masks; sizes are cut by one."""
    chances = count_chances(torch.full((12,), rate).double())
    samples = 64
    strata = allocate(chances, samples, EVENLY)
    for chance, size in zip(strata.chances, strata.sizes, strict=True):
        assert chance**2 / (size + 1) <= 1.25 * chance / samples
    rarest = min(range(3), key=lambda i: chances[i])
    assert strata.sizes[rarest] >= int(samples * EVENLY / 3)


def test_what_is_left_over_goes_to_the_largest_stratum():
    """11 (3/4 chance + 1/4 / 3) masks are 1.74, 6.69 and 2.57: two at least, the whole ones, and one is left."""
    strata = allocate([0.1, 0.0, 0.7, 0.2], 11, 0.25)
    assert strata.chances == (0.1, 0.7, 0.2)
    assert strata.sizes == (2, 7, 2)


def test_means_and_their_errors_are_unbiased():
    """Means, and the variance that is stated for them, over 2000 draws: five deviations of what 2000 can tell."""
    strata = allocate(count_chances(RATES), 32, 0.5)
    masks, chances = atoms(RATES)
    values = torch.randn(len(masks), generator=torch.Generator().manual_seed(1)).double()
    truth = float(chances @ values)
    generator = torch.Generator().manual_seed(2)
    found = []
    for _ in range(2000):
        drawn = values[coin_places(RATES, draw_counted(RATES, strata, generator))]
        found.append((float(strata.mean(drawn)), float(strata.covariance(drawn, drawn))))
    means, errors = torch.tensor(found).double().T
    assert abs(float(means.mean()) - truth) <= 5 * float(means.std()) / math.sqrt(2000)
    assert float(errors.mean()) == pytest.approx(float(means.var()), rel=5 * math.sqrt(2 / 2000))


def test_stratified_moments_err_less_and_not_to_one_side(monkeypatch):
    """Ten inputs at 0.03 without a control that lists them, 150 draws: unbiased, and half the error at most."""
    generator = torch.Generator().manual_seed(5)
    weights = [torch.randn(20, 10, generator=generator).double() / 2, torch.randn(1, 20, generator=generator).double()]
    model, law = ReLUNet(weights), Product([Bernoulli(0.03, 10), Bernoulli(0.03, 20)])
    inputs = torch.randn(4, 10, generator=generator).double()
    truth = predictive(model, inputs, law).variance.value
    errors = []
    for few in (1.0, 0.0):
        monkeypatch.setattr("droptics.predictions.controls.FEW_DROPS", few)
        found = [predictive(model, inputs, law, MonteCarlo(128, seed=seed)).variance for seed in range(150)]
        assert ("stratified" in found[0].method) == (few > 0)
        errors.append(torch.stack([one.value / truth - 1 for one in found]))
    mine, plain = errors
    assert bool((mine.mean(0).abs() <= 5 * mine.std(0) / math.sqrt(150)).all())
    assert float(mine.square().mean()) <= 0.25 * float(plain.square().mean())
