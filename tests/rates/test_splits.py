"""The guard of a split: how often it keeps one that is no better, how often one that is, and which examples it asks."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from droptics.rates.answers import answer_of
from droptics.rates.designs import Effect
from droptics.rates.places import Place
from droptics.rates.running import Trained
from droptics.rates.splits import LEVEL, divide, guarded, halves
from droptics.rates.verdicts import compare

SITES = ("a", "b", "c", "d")
RATE = 0.2


def log_odds(rate):
    return math.log(rate / (1 - rate))


class Linear:
    """Losses linear in the log-odds of the sites: slopes of examples and of seeds around those of `truth`."""

    def __init__(self, draw, truth, of_examples, of_seeds, examples=100):
        self.base = 1 + torch.rand(examples, generator=draw, dtype=torch.float64)
        noise = torch.randn(examples, len(SITES), generator=draw, dtype=torch.float64)
        self.slopes = torch.tensor(truth, dtype=torch.float64) + of_examples * noise
        self.draw, self.of_seeds, self.seeds, self.asked = draw, of_seeds, {}, {}

    def run(self, settings, seeds, stage):
        self.asked[stage] = list(settings)
        for seed in seeds:
            own = self.of_seeds * torch.randn(len(SITES), generator=self.draw, dtype=torch.float64)
            self.seeds.setdefault(seed, own)
        found = []
        for setting in settings:
            shift = torch.tensor([log_odds(setting[name]) - log_odds(RATE) for name in SITES], dtype=torch.float64)
            rows = [self.base + (self.slopes + self.seeds[seed]) @ shift for seed in seeds]
            found.append(Trained(torch.stack(rows), (0.0,) * len(seeds), (1,) * len(seeds)))
        return found


def divided(runner, fresh=4):
    center = runner.run([dict.fromkeys(SITES, RATE)], [0], "scan")[0]
    return divide(runner, {name: name for name in SITES}, RATE, center, [0], list(range(1, 1 + fresh)))[:2]


@pytest.mark.parametrize(("of_examples", "of_seeds"), [(0.03, 0.0005), (0.03, 0.003), (0.01, 0.004)])
def test_a_split_that_is_no_better_is_seldom_kept(of_examples, of_seeds):
    """No site matters but by chance, of the examples (an error of 0.1 of it) or of the seed: 5 of 100 are the size."""
    problems = 200
    kept = 0
    for seed in range(problems):
        runner = Linear(torch.Generator().manual_seed(seed), [0.0] * 4, of_examples, of_seeds)
        kept += divided(runner)[0].kept
    assert kept <= 0.05 * problems + 3 * math.sqrt(0.05 * 0.95 * problems)


def test_a_split_that_pays_is_kept():
    """The first site gains 0.01 per log-odds, ten errors over half of the examples, and at least half a level."""
    for seed in range(20):
        runner = Linear(torch.Generator().manual_seed(seed), [0.01, 0.0, 0.0, 0.0], 0.007, 0.0005)
        split, rates = divided(runner)
        assert split.kept
        assert log_odds(rates["a"]) < log_odds(RATE) - LEVEL / 4


def test_examples_that_judge_have_no_part_in_the_choice():
    first, second = halves(101)
    assert sorted([*first.tolist(), *second.tolist()]) == list(range(101))
    assert abs(len(first) - len(second)) == 1
    asked = []
    for shift in (0.0, 5.0):
        runner = Linear(torch.Generator().manual_seed(1), [0.01, -0.02, 0.0, 0.0], 0.01, 0.0, 101)
        runner.slopes[second] += shift * torch.tensor([1.0, 1.0, 1.0, -1.0])
        split, _ = divided(runner)
        asked.append(runner.asked["guard"])
        pair = runner.run(runner.asked["guard"], [1, 2, 3, 4], "again")
        gain = (pair[0].losses - pair[1].losses)[:, second].mean()
        assert split.difference == pytest.approx(float(gain), rel=1e-9)
    assert asked[0] == asked[1]


@pytest.mark.parametrize("gain", [0.0, 0.5, 1.5])
@pytest.mark.parametrize("seeds", [2, 4])
def test_the_guard_keeps_as_often_as_student_says(gain, seeds):
    """Noise of seeds alone, of standard deviation 1: its t has a noncentral distribution that is known."""
    draws, draw = 4000, torch.Generator().manual_seed(seeds)
    quantile = stats.t.ppf(0.95, seeds - 1)
    share = 1 - stats.nct.cdf(quantile, seeds - 1, gain * math.sqrt(seeds)) if gain else 0.05
    noise = torch.randn(draws, seeds, 1, generator=draw, dtype=torch.float64) + gain
    kept = sum(compare(one.expand(seeds, 8), torch.zeros(seeds, 8)).sure for one in noise)
    assert abs(kept - share * draws) <= 4 * math.sqrt(share * (1 - share) * draws)


def test_degrees_of_freedom_are_between_those_of_seeds_and_of_examples():
    gaps = np.random.default_rng(0).normal(size=(3, 9)) + np.array([[0.3], [0.0], [-0.2]])
    found = compare(torch.tensor(gaps), torch.zeros(3, 9))
    of_examples, of_seeds = gaps.mean(0).var(ddof=1) / 9, gaps.mean(1).var(ddof=1) / 3
    both = (of_examples + of_seeds) ** 2 / (of_examples**2 / 8 + of_seeds**2 / 2)
    assert found.freedom == pytest.approx(both, rel=1e-12)
    assert 2 < found.freedom < 10
    assert compare(torch.tensor(gaps[:1]), torch.zeros(1, 9)).freedom == pytest.approx(8)
    assert compare(torch.ones(3, 9), torch.zeros(3, 9)).freedom == math.inf  # no error at all


@pytest.mark.parametrize(("factor", "kept"), [(0.99, False), (1.01, True), (-2.0, False)])
def test_the_guard_asks_for_students_quantile(factor, kept):
    """Losses that are known, two seeds without a difference: an error over eight examples, seven degrees of freedom."""
    noise = torch.tensor([0.01, -0.01]).repeat(2, 4).double()
    error = float(noise[0].std()) / math.sqrt(8)
    gain = factor * stats.t.ppf(0.95, 7) * error
    settings = [{"site": rate} for rate in (0.5, 0.3)]
    losses = [torch.ones(2, 8).double(), 1 - gain + noise]
    split, answer, points = guarded(settings, [Trained(part, (0.0, 0.0), (1, 1)) for part in losses], "lower by")
    assert split.kept == kept
    assert answer == settings[int(kept)]
    assert (split.difference, split.error) == (pytest.approx(gain), pytest.approx(error))
    assert [point.rates for point in points] == settings


class Exact(Linear):
    """The same trained by algebra: its effects are the slopes of the examples that are asked."""

    def effects(self, setting, groups, examples):
        own = self.slopes[examples]
        errors = own.std(0) / len(own) ** 0.5
        return {name: Effect(float(own[:, i].mean()), float(errors[i])) for i, name in enumerate(SITES)}

    def trained(self, settings):
        return self.run(settings, [0], "exact")


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("learned", [False, True])
def test_effects_are_asked_of_all_examples_but_for_a_split_and_a_flat_answer_has_flat_sites(split, learned):
    """Sites have clear effects, and one has none; a constant output is better than every rate, or worse."""
    exact = Exact(torch.Generator().manual_seed(3), (1.0, -1.0, 0.5, 0.0), 0.5, 0.0)
    scan = exact.run([dict.fromkeys(SITES, rate) for rate in (0.1, RATE, 0.5)], [0], "scan")
    scan = [replace(one, losses=one.losses + 9.0 * (i != 1)) for i, one in enumerate(scan)]
    places = [Place(name, "dropout", 0.5) for name in SITES]
    answer = answer_of(places, [0.1, RATE, 0.5], scan, torch.full((100,), 50.0 if learned else -50.0).double(), "exact")
    answer.divide_exactly(exact, {name: name for name in SITES}, split)
    told = answer.finished(0.0)
    own = exact.slopes[halves(100)[0]] if split else exact.slopes
    assert [site.effect for site in told.sites] == pytest.approx(own.mean(0).tolist(), rel=1e-12, abs=1e-12)
    assert [site.error for site in told.sites] == pytest.approx((own.std(0) / len(own) ** 0.5).tolist(), rel=1e-12)
    clear = [abs(site.effect) > 2 * site.error for site in told.sites]
    assert any(clear)
    assert not all(clear)
    wanted = ["resolved" if one or not split else "flat" for one in clear] if learned else ["flat"] * 4
    assert [site.verdict for site in told.sites] == wanted
