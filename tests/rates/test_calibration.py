"""Verdicts on small tasks of many seeds: "resolved" holds when trained again, "flat" is said where nothing is gained.

benchmarks/bench_rates.py asks the same of five real tasks; limits are those of its protocol.
"""

from dataclasses import replace

import pytest
import torch
from torch import nn

from droptics import tune_rates
from droptics.losses import CrossEntropy
from droptics.rates import Fit
from droptics.rates.copies import Problem, train_copies
from droptics.rates.examples import Examples
from droptics.rates.verdicts import compare

pytestmark = pytest.mark.slow
SCAN = (0.0, 0.2, 0.4, 0.6, 0.8)
SITES = ("0", "3")
FIT = Fit(epochs=60, batch_size=50, step_size=1e-2, stop="last", looks=1)
SEEDS, RETRAININGS, TEST = 12, 4, 4000


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Dropout(0.5), nn.Linear(11, 48), nn.ReLU(), nn.Dropout(0.5), nn.Linear(48, 2))


def examples(count, seed, wrong=0.1):
    """The sign of one of eleven inputs; some labels are wrong."""
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 11, generator=draw)
    return inputs, ((inputs[:, 0] > 0) ^ (torch.rand(count, generator=draw) < wrong)).long()


def scanned(seed, train, held):
    return tune_rates(network(seed), train, held, fit=FIT, scan=SCAN, population="together", seed=seed, progress=False)


def retrained(seed, train, rates):
    """Losses (retrainings, test examples) of every rate at the last step, from fresh weights, batches and masks."""
    cpu, fit = torch.device("cpu"), replace(FIT, tail=1)
    own, test = Examples.of(train, "train", cpu), Examples.of(examples(TEST, 9000 + seed), "test", cpu)
    losses = []
    for turn in range(RETRAININGS):
        given = Problem(network(500 + turn), own, own.some(8, 0), test, CrossEntropy(), fit, dict.fromkeys(SITES, 0.5))
        rows = train_copies(given, [dict.fromkeys(SITES, rate) for rate in rates], 700 + turn, "population")
        losses.append([row["losses"] for row in rows])
    return torch.tensor(losses, dtype=torch.float64).transpose(0, 1)


def test_no_neighbor_of_a_resolved_rate_is_better_when_trained_again():
    resolved, beaten = 0, 0
    for seed in range(SEEDS):
        train = examples(100, seed)
        found = scanned(seed, train, examples(1000, 100 + seed))
        if found.verdict != "resolved":
            continue
        resolved += 1
        place = SCAN.index(found.best)
        best, *beside = retrained(
            seed, train, [found.best, *SCAN[max(place - 1, 0) : place], *SCAN[place + 1 : place + 2]]
        )
        beaten += any(compare(best, other).clear for other in beside)
    assert resolved >= SEEDS / 2  # else nothing is tried
    assert beaten <= 0.1 * resolved


def shuffled(pair, seed):
    return pair[0], pair[1][torch.randperm(len(pair[1]), generator=torch.Generator().manual_seed(seed))]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_gained_on_the_training_data_themselves(seed):
    train = examples(100, seed)
    assert scanned(seed, train, train).verdict == "flat"


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_gained_where_targets_are_shuffled(seed):
    train, held = (shuffled(examples(count, seed + count), seed) for count in (100, 1000))
    assert scanned(seed, train, held).verdict == "flat"


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_gained_from_a_teacher_without_noise(seed):
    """Two thousand examples of a linear function of ten inputs."""
    draw = torch.Generator().manual_seed(seed)
    inputs, teacher = torch.randn(3000, 10, generator=draw), torch.randn(10, 1, generator=draw)
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(10, 48), nn.ReLU(), nn.Dropout(0.5), nn.Linear(48, 1))
    pairs = [(part, part @ teacher) for part in inputs.split([2000, 1000])]
    fit = Fit(epochs=5, batch_size=50, step_size=1e-2, stop="last", looks=1)
    found = tune_rates(module, *pairs, fit=fit, scan=SCAN, population="together", seed=seed, progress=False)
    assert found.verdict == "flat"
