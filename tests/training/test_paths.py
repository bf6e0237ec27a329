"""Along the path: the stochastic loss has the objective as its mean, and dropout ends at the closed-form optimum."""

import math

import pytest
import torch

from droptics.data import Entries, Moments, Sample
from droptics.masks import Bernoulli, Block, Gaussian, Product, SlidingBlock
from droptics.models import Autoencoder, Connections, DeepLinear, Factorization, TwoLayerLinear
from droptics.optima import optimum
from droptics.training import Dropout, Inverse, Penalized, Recording, train, with_previous

RUNS = 800


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def same(*shape, seed):
    """One start for all runs, so that their spread is that of the masks and samples."""
    return (0.5 * randn(*shape, seed=seed)).expand(RUNS, *shape)


def two_layer():
    return TwoLayerLinear(same(3, 4, seed=1), same(5, 4, seed=2))


POPULATION = Moments.of_map(randn(3, 5, seed=3))
SAMPLE = Sample(randn(12, 5, seed=4), randn(12, 3, seed=5))
CASES = {
    "dropout": (two_layer(), POPULATION, Bernoulli(0.5, 4), 1),
    "dropout, fixed set": (two_layer(), SAMPLE, Bernoulli(0.3, 4), 1),
    "dropblock": (two_layer(), SAMPLE, Block(0.5, 4, 2), 1),
    "sliding dropblock": (two_layer(), SAMPLE, SlidingBlock(0.3, 4, 2), 1),
    "gaussian": (two_layer(), SAMPLE, Gaussian(0.7, 4), 1),
    "tied": (Autoencoder(same(5, 4, seed=6) / 1.3), Moments.of_map(randn(5, 5, seed=7) / 2), Bernoulli(0.5, 4), 1),
    "dropconnect": (Connections(same(3, 4, seed=1), same(5, 4, seed=2)), SAMPLE, Bernoulli(0.4, 20), 3),
    "deep": (
        DeepLinear([same(4, 5, seed=8), same(4, 4, seed=9), same(3, 4, seed=10)]),
        POPULATION,
        Product([Bernoulli(0.3, 4), Bernoulli(0.4, 4)]),
        5,
    ),
    "completion": (
        Factorization(same(6, 4, seed=11), same(5, 4, seed=12)),
        Entries(torch.tensor([0, 1, 2, 5]), torch.tensor([4, 0, 3, 1]), randn(4, seed=13), (6, 5)),
        Bernoulli(0.5, 4),
        2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_mean_loss_of_a_step_is_the_objective_along_the_path(name):
    model, data, law, batch_size = CASES[name]
    steps = (0, 1, 7, 40)
    step_size = 0.003 if name == "tied" else 0.01
    run = train(
        model, data, Dropout(law), steps=40, step_size=step_size, batch_size=batch_size,
        record=Recording(("objective", "risk"), at=with_previous(steps)),
    )  # fmt: skip
    assert float((run.history["objective"][-1] / run.history["objective"][0] - 1).abs().mean()) > 0.1, "it moves"
    for step in steps:
        loss, objective = run.step_loss(step)
        difference = loss - objective
        error = float(difference.std()) / math.sqrt(RUNS)
        assert abs(float(difference.mean())) < 4.5 * error, step
    # without the penalty it is not: the band is narrow enough to see what dropout adds
    before = run.history["risk"][run.at(6)]
    assert float((run.step_loss(7)[0] - before).mean()) > 4.5 * error


def test_mean_path_of_many_runs_follows_the_deterministic_one():
    """The first step on average is the step of the exact gradient; later ones part by what the noise bends."""
    law = Bernoulli(0.5, 4)
    options = {"steps": 30, "step_size": 2e-3, "record": Recording(("objective",), at=range(31))}
    noisy = train(two_layer(), POPULATION, Dropout(law), batch_size=1, **options)
    single = TwoLayerLinear(two_layer().U[0], two_layer().V[0])
    exact = train(single, POPULATION, Penalized(law), **options)
    first = noisy.history["objective"][1]
    assert abs(float(first.mean() - exact.history["objective"][1])) < 0.02 * float(exact.history["objective"][0])
    mean = noisy.history["objective"].mean(1)
    assert float((mean / exact.history["objective"] - 1).abs().max()) < 0.05
    assert float(mean[-1]) < 0.9 * float(mean[0])


def test_losses_between_records():
    model, data, law, batch_size = CASES["dropout"]
    options = {"steps": 20, "step_size": 0.01, "batch_size": batch_size}
    every = train(model, data, Dropout(law), record=Recording(("objective",), at=range(21)), **options)
    few = train(model, data, Dropout(law), record=Recording(("objective",), at=with_previous([0, 3, 20])), **options)
    assert few.history["step"].tolist() == [0, 2, 3, 19, 20]
    torch.testing.assert_close(few.mean_loss(3, 20), every.history["loss"][4:21].mean(0))
    torch.testing.assert_close(few.mean_loss(0, 3), every.history["loss"][1:4].mean(0))
    assert torch.equal(few.mean_loss(0, 0), every.history["loss"][0])
    assert torch.equal(few.step_loss(20)[0], every.history["loss"][20])
    assert torch.equal(few.step_loss(20)[1], every.history["objective"][19])
    assert torch.equal(few.step_loss(0)[0], every.history["loss"][1])
    with pytest.raises(ValueError, match="step 5 was not recorded"):
        few.at(5)


@pytest.mark.parametrize("law", [Bernoulli(0.1, 4), Bernoulli(0.5, 4), Block(0.5, 4, 2), SlidingBlock(0.3, 4, 2)])
def test_dropout_with_a_decaying_step_ends_at_the_closed_form_optimum(law):
    start = TwoLayerLinear(0.5 * randn(20, 3, 4, seed=20), 0.5 * randn(20, 5, 4, seed=21))
    best = optimum(TwoLayerLinear, POPULATION, law)
    run = train(
        start, POPULATION, Dropout(law), steps=30_000, step_size=0.01, batch_size=1, schedule=Inverse(500.0),
        bound=best.bound, record=Recording(("objective", "distance"), at=(), reference=best.model.matrix()),
    )  # fmt: skip
    assert float(run.final("objective").mean()) < 1.01 * best.objective
    assert float(run.final("objective").min()) >= best.bound * (1 - 1e-9)
    assert float(run.final("distance").mean()) < 0.1 * float(torch.linalg.matrix_norm(best.model.matrix()))
