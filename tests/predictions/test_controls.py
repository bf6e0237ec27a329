"""Controls of sampled moments: their slopes against differences, their variance against enumeration."""

import pytest
import torch
from compare import close
from torch import nn

from droptics.predictions.controls import Draws, Plan, build, draw
from droptics.predictions.modules import read_module
from droptics.predictions.strata import Strata


def problem(rate=0.2):
    torch.manual_seed(0)
    layers = [nn.Dropout(rate), nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.4), nn.Linear(4, 5), nn.Tanh()]
    module = nn.Sequential(*layers, nn.Dropout(0.3), nn.Linear(5, 2)).double()
    return read_module(module, torch.randn(3, 3).double()).conditional()


def outputs(given, multipliers):
    found = given(multipliers.reshape(-1, 1, multipliers.shape[-1]))
    return found.center.detach(), found.variance().detach()


def test_gradients_are_slopes_of_centers_and_variances():
    found = problem()
    (slopes,) = build(found, Plan((), (), gradient=True), found.plain())
    direction = torch.randn(7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    step = 1e-5  # the error of a central difference is of order step^2
    points = torch.stack([1 + step * direction, 1 - step * direction])
    for values, slope in zip(outputs(found.given, points), (slopes.slopes, slopes.noise), strict=True):
        close((values[0] - values[1]) / (2 * step), slope @ direction, 1e-8)


def test_main_effects_are_differences_of_one_unit():
    found = problem()
    (effects,) = build(found, Plan((), (0,), gradient=False), found.plain())
    for unit in range(3):
        masks = torch.ones(2, 7, dtype=torch.float64)
        masks[0, unit], masks[1, unit] = 1 / 0.8, 0.0
        for values, slope in zip(outputs(found.given, masks), (effects.slopes, effects.noise), strict=True):
            close((values[0] - values[1]) * 0.8, slope[..., unit], 1e-12)
    assert float(effects.slopes[..., 3:].abs().max()) == 0.0


@pytest.mark.parametrize("rate", [0.2, 0.02])
@pytest.mark.parametrize("plan", [Plan((), (), True), Plan((), (0,), False), Plan((0,), (), False)], ids=str)
def test_controls_have_mean_zero_and_the_variance_they_state(plan, rate):
    """Over all masks of both early sites, which are listed; at the small rate one is too rare for the control."""
    found = problem(rate)
    (control,) = build(found, plan, found.plain())
    masks, chances = (torch.cat(part) for part in zip(*found.law.atom_batches(4096), strict=True))
    atoms = torch.cat([part for part, _ in found.early[0].atom_batches(4096)])
    places = (masks[:, None, :3] == atoms).all(-1).nonzero()[:, 1]
    draws = Draws(masks, {0: places}, Strata.none(len(masks)))
    for values in (control.control(draws), control.noise_control(draws)):
        mean = torch.tensordot(chances, values, dims=1)
        close(mean, torch.zeros_like(mean), 1e-14, scale=float(values.abs().max()))
    close(torch.tensordot(chances, control.control(draws).square(), dims=1), control.variance(), 1e-12)
    if plan.listed:
        untouched = (control.moved == 0).all(-1).all(-1)
        left = untouched & (control.probabilities < 0.5)  # all but the mask without drops
        assert bool(left.any()) is (rate < 0.1)
        assert float(control.probabilities[left].sum()) < 2.0**-10


@pytest.mark.parametrize("rate", [0.2, 0.6])
def test_listed_masks_are_drawn_as_often_as_they_are_likely(rate):
    """Frequencies within six standard deviations of a binomial count, and every mask is the one its place names."""
    found, samples = problem(rate), 4000
    drawn = draw(found, Plan((0,), (), gradient=False), samples, torch.Generator().manual_seed(0))
    atoms, chances = (torch.cat(part) for part in zip(*found.early[0].atom_batches(4096), strict=True))
    assert torch.equal(drawn.multipliers[:, :3], atoms[drawn.listed[0]])
    counts = torch.bincount(drawn.listed[0], minlength=len(atoms)).double()
    assert bool(((counts - samples * chances).abs() <= 6 * (samples * chances * (1 - chances)).sqrt() + 1).all())
