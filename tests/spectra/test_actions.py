"""What laws say of spectra: cutoffs of unequal rates, nuclear bounds, and the best mixture of two bounds."""

from fractions import Fraction

import pytest
import torch
from cases import normal
from compare import close

from droptics.data import Moments
from droptics.errors import NoClosedForm
from droptics.masks import Bernoulli, Block, Discrete
from droptics.models import TwoLayerLinear
from droptics.penalties import penalty
from droptics.spectra import action
from droptics.spectra.actions import harmonic
from droptics.spectra.any_law import AnyLaw, mixed

RATES = Bernoulli(torch.tensor([0.1, 0.3, 0.6], dtype=torch.float64), 3)


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("values", [(5.0, 0.1), (1.0,), (3.0, 2.9, 2.8, 2.7)])
def test_nothing_below_the_cutoff_is_kept(values):
    """Values just below join no support, and the last kept one lies above."""
    acting, spectrum = action(RATES), vector(*values)
    kept = acting.shrink(spectrum)[0]
    kept = kept[kept > 0]
    level = acting.cutoff(spectrum, kept)
    assert level < values[len(kept) - 1]
    below = torch.cat([spectrum[: len(kept)], vector(level * (1 - 1e-6))])
    again = acting.shrink(below)[0]
    assert int((again > 1e-12).sum()) == len(kept)
    assert acting.cutoff(spectrum, vector()) == values[0]


def test_the_best_mixture_need_not_move_the_values_most():
    law = Discrete(torch.eye(3, dtype=torch.float64) + 0.5, vector(0.2, 0.3, 0.5))
    acting, values = AnyLaw(law), vector(0.7, 0.67, 0.18)
    acting.__dict__["_strengths"] = (0.5, 0.2)

    def least(pair):
        kept = torch.cat([pair[0], vector(*[0.0] * (3 - len(pair[0])))])
        return float((values - kept).square().sum()) + pair[1]

    every = [mixed(values, (1 - w / 20) * 0.5, w / 20 * 0.2, 3) for w in range(21)]
    assert least(acting.shrink(values)) == max(map(least, every))
    farthest = max(every, key=lambda pair: least((pair[0], 0.0)))
    assert farthest is not max(every, key=least)


def test_blocks_have_a_closed_form_where_their_rates_are_one_number():
    """A tensor of equal rates is a rate; the penalty of unequal ones is not made up from their harmonic mean."""
    spectrum = torch.tensor([3.0, 1.0]).double()
    known = action(Block(0.3, 8, 2)).value(spectrum)
    assert torch.allclose(
        action(Block(torch.full((4,), 0.3, dtype=torch.float64), 8, 2)).value(spectrum), known, rtol=1e-14, atol=0
    )
    with pytest.raises(NoClosedForm, match="unequal rates"):
        action(Block(torch.tensor([0.3, 0.3, 0.3, 0.5]).double(), 8, 2)).value(spectrum)


@pytest.mark.parametrize(
    ("law", "size"),
    [
        (Block(0.3, 8, 2), 2),
        (Block(0.6, 6, 3), 3),
        (Block(vector(0.3, 0.5, 0.2, 0.6), 8, 2), 2),
        (Block(0.3, 4, 1), 1),
        (Bernoulli(0.3, 5), 1),
        (RATES, 1),
    ],
)
def test_the_nuclear_bound_of_a_law_is_attained_and_no_more(law, size):
    """At shares n_b I of the blocks, in inverse proportion to their strengths; below other factors of any product."""
    strengths = law.relative_variance.reshape(-1, size)[:, 0]
    shares = (1 / strengths / (1 / strengths).sum()).sqrt()
    factor = torch.cat([share * torch.eye(size, dtype=torch.float64) for share in shares], 1)
    known, least = Moments.of_map(torch.zeros(size, size, dtype=torch.float64)), action(law).nuclear
    close(penalty(TwoLayerLinear(factor, factor), known, law), float(least) * size**2, 1e-13)
    close(least, 1 / float(size * (1 / strengths).sum()), 1e-14)
    known = Moments.of_map(torch.zeros(3, 4, dtype=torch.float64))
    for seed in range(20):
        model = TwoLayerLinear(normal(3, law.size, seed=seed), normal(4, law.size, seed=seed + 50))
        norm = float(torch.linalg.svdvals(model.U @ model.V.mT).sum())
        assert float(penalty(model, known, law)) >= float(least) * norm**2


@pytest.mark.parametrize("strengths", [[0.0, 0.3, 0.2], [1e-310, 0.3, 0.2], [1e-200, 0.3, 0.2], [0.1, 1e150, 0.7]])
def test_slopes_of_the_harmonic_sum_are_squared_shares_down_to_no_strength(strengths: list[float]) -> None:
    """h = 1 / sum 1 / strength grows by (h / strength)^2, by one beside which all others are much: a rate of zero."""
    given = torch.tensor(strengths, dtype=torch.float64, requires_grad=True)
    told = harmonic(given)
    (slope,) = torch.autograd.grad(told, given)
    if strengths[0] < 1e-100:
        assert told.item() == strengths[0]
        wanted = [1.0, 0.0, 0.0]
    else:
        whole = 1 / sum(1 / Fraction(one) for one in strengths)
        wanted = [float((whole / Fraction(one)) ** 2) for one in strengths]
        assert told.item() == pytest.approx(float(whole), rel=1e-15)
    assert slope.tolist() == pytest.approx(wanted, rel=1e-14)
    batch = torch.stack([given.detach(), given.detach().flip(0)])
    both = torch.func.vmap(torch.func.grad(harmonic))(batch)
    assert both[1].tolist() == pytest.approx(wanted[::-1], rel=1e-14)


def test_units_without_strength_share_alike() -> None:
    given = torch.tensor([0.0, 0.5, 0.0], dtype=torch.float64, requires_grad=True)
    told = harmonic(given)
    assert torch.autograd.grad(told, given)[0].tolist() == [0.25, 0.0, 0.25]
    assert told.item() == 0.0
