"""Counted random numbers: the published vectors, independence of how they are drawn, and the laws they follow."""

import math

import numpy as np
import pytest
import torch

from droptics.data import Moments, Sample
from droptics.masks import Bernoulli, Block, Gaussian
from droptics.models import TwoLayerLinear
from droptics.training import Dropout, Plain, philox, threads
from droptics.training.descents import TorchDescent
from droptics.training.draws import Stream
from droptics.training.products import ProductsDescent
from droptics.training.random_numbers import Counted, Sequential, countable
from droptics.training.settings import Settings

CPU = torch.device("cpu")


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=rng(seed), dtype=torch.float64)


KNOWN = (  # counter, key, result: the known answers of Philox 4x32-10 in the Random123 distribution
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_philox_gives_the_published_vectors(counter, key, result):
    words = philox.rounds(tuple(torch.tensor([word]) for word in counter), *(torch.tensor([word]) for word in key))
    assert tuple(int(word) for word in words) == result


def test_counter_and_key_are_step_stream_group_and_seed():
    seed, stream, step = 0x299F31D0A4093822, 5, 0x0370734485A308D3
    words = philox.bits(torch.tensor([seed]), stream, step, 1, 3)
    counter = (2, 0x85A308D3, stream, 0x03707344)
    expected = philox.rounds(tuple(torch.tensor([c]) for c in counter), *(torch.tensor([k]) for k in KNOWN[2][1]))
    assert [int(word[0, 0, 2]) for word in words] == [int(word) for word in expected]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_do_not_depend_on_the_runs_and_stretches_they_are_drawn_in(dtype):
    seeds = torch.tensor([3, 2**62 + 1, 0])
    for draw in (philox.uniforms, philox.normals):
        whole = draw(seeds, 1, 0, 7, 5, dtype)
        assert torch.equal(whole[1:2], draw(seeds[1:2], 1, 0, 7, 5, dtype))
        assert torch.equal(whole[:, 2:5], draw(seeds, 1, 2, 3, 5, dtype))
        assert torch.equal(whole[..., :3], draw(seeds, 1, 0, 7, 3, dtype))
        assert not torch.equal(whole, draw(seeds, 2, 0, 7, 5, dtype))
    far = philox.uniforms(seeds, 0, 2**32 - 1, 2, 4, dtype)
    assert not torch.equal(far[:, 0], far[:, 1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_follow_their_laws(dtype):
    seeds = torch.arange(20)
    uniform = philox.uniforms(seeds, 0, 0, 1000, 10, dtype).double().flatten()
    count = uniform.numel()
    assert float(uniform.min()) > 0
    assert float(uniform.max()) < 1
    ordered = uniform.sort().values
    # Kolmogorov's distance; 1.95 / sqrt(n) is passed by chance once in a thousand
    distance = (ordered - (torch.arange(count) + 0.5) / count).abs().max() + 0.5 / count
    assert float(distance) < 1.95 / math.sqrt(count)
    normal = philox.normals(seeds, 0, 0, 1000, 10, dtype).double().flatten().sort().values
    expected = torch.special.ndtr(normal)
    assert float((expected - (torch.arange(count) + 0.5) / count).abs().max()) < 1.95 / math.sqrt(count)
    rows = philox.normals(seeds, 0, 0, 1000, 10, dtype).double().flatten(0, 1)
    covariance = rows.mT @ rows / len(rows)
    assert float((covariance - torch.eye(10)).abs().max()) < 5 * math.sqrt(2 / len(rows))


def two_layer(runs):
    return TwoLayerLinear(0.5 * randn(runs, 3, 4, seed=1), 0.5 * randn(runs, 5, 4, seed=2))


def population():
    mix = randn(5, 5, seed=3) / 2 + torch.eye(5).double()
    weights, noise = randn(3, 5, seed=4), randn(3, 3, seed=5) / 5
    xx = mix @ mix.T
    return Moments(xx, weights @ xx, weights @ xx @ weights.T + noise @ noise.T)


LAWS = {
    "bernoulli": Bernoulli(torch.tensor([0.1, 0.5, 0.3, 0.0], dtype=torch.float64), 4),
    "block": Block(torch.tensor([0.4, 0.7], dtype=torch.float64), 4, 2),
}


@pytest.mark.parametrize("law", LAWS)
def test_counted_draws_have_the_moments_of_data_and_masks(law):
    data = population()
    stream = Stream(data, Dropout(LAWS[law]), range(40), 2, CPU, counted=True)
    assert stream.counted
    draws = stream.next(1000)
    x, y, z = (part.flatten(0, 2) for part in (draws.inputs, draws.targets, draws.multipliers))
    assert x.shape == (80_000, 5)
    together = torch.cat([x, y], 1)
    found = together.mT @ together / len(x)
    truth = torch.cat([torch.cat([data.xx, data.yx.mT], 1), torch.cat([data.yx, data.yy], 1)])
    spread = (truth.diagonal()[:, None] * truth.diagonal() + truth**2).div(len(x)).sqrt()
    assert bool(((found - truth).abs() < 5 * spread).all())
    masks = z - 1
    covariance = masks.mT @ masks / len(z)
    bound = float(LAWS[law].bound.max()) ** 2
    assert float((covariance - LAWS[law].characteristic).abs().max()) < 5 * bound / math.sqrt(len(z))
    assert float(masks.mean(0).abs().max()) < 5 * math.sqrt(bound / len(z))


def test_counted_examples_come_by_weight():
    weights = torch.tensor([0.0, 1.0, 2.0, 0.0, 5.0], dtype=torch.float64)
    inputs = torch.arange(5).double()[:, None]
    for given in (None, weights):
        data = Sample(inputs, inputs, given)
        stream = Stream(data, Plain(), [7], 10, CPU, counted=True)
        drawn = torch.cat([stream.next(1000).inputs.flatten() for _ in range(4)])
        expected = torch.full((5,), 0.2).double() if given is None else weights / weights.sum()
        counts = torch.bincount(drawn.long(), minlength=5) / len(drawn)
        assert bool(((counts - expected).abs() <= 5 * (expected * (1 - expected) / len(drawn)).sqrt()).all())


@pytest.mark.parametrize("counted", [True, False])
def test_masks_do_not_follow_the_examples(counted):
    """A unit falls as often under the one example as under the other: 5 standard errors of shares of some 5,000."""
    inputs = torch.eye(2).double()
    stream = Stream(Sample(inputs, inputs), Dropout(Bernoulli(0.5, 1)), [7], 1, CPU, counted)
    drawn = [stream.next(200) for _ in range(50)]
    first = torch.cat([one.inputs[0, :200, 0, 0] for one in drawn]) > 0
    kept = torch.cat([one.multipliers[0, :200, 0, 0] for one in drawn]) > 0
    shares = [float(kept[side].double().mean()) for side in (first, ~first)]
    assert shares == pytest.approx([0.5, 0.5], abs=5 * 0.5 / 4800**0.5)


def test_counted_streams_are_the_same_alone_in_a_batch_and_after_a_resume():
    data, objective = population(), Dropout([Bernoulli(0.3, 4), Bernoulli(0.6, 4)])
    both = Stream(data, objective, [4, 9], 1, CPU, counted=True)
    alone = Stream(data, Dropout(Bernoulli(0.6, 4)), [9], 1, CPU, counted=True)
    pair, single = both.next(30), alone.next(20)
    assert torch.equal(pair.inputs[1:, :20], single.inputs)
    assert torch.equal(pair.multipliers[1:, :20], single.multipliers)
    resumed = Stream(data, objective, [4, 9], 1, CPU, counted=True)
    resumed.restore(10, *both.state())
    assert torch.equal(resumed.next(20).targets, pair.targets[:, 10:])


def test_laws_that_are_not_coins_keep_their_generators():
    assert not countable([Gaussian(0.5, 4)])
    assert not countable([Bernoulli(0.5, 4), Block(0.5, 4, 2)])
    assert not Stream(population(), Dropout(Gaussian(0.5, 4)), [1], 1, CPU, counted=True).counted
    assert not Stream(population(), Dropout(Bernoulli(0.5, 4)), [1], 1, CPU).counted
    assert Stream(population(), Plain(), [1], 1, CPU, counted=True).counted


def test_raw_masks_are_zeros_and_ones():
    law = Bernoulli(0.75, 6)
    raw = Counted([3], CPU).masks([law], 0, 200, 1, False, torch.float64)
    scaled = Counted([3], CPU).masks([law], 0, 200, 1, True, torch.float64)
    assert set(raw.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(scaled, 4 * raw)


def test_counted_masks_follow_the_laws_that_they_are_asked_for():
    numbers = Counted([3], CPU)
    for law in (Bernoulli(0.75, 6), Bernoulli(0.25, 6), Block(0.5, 6, 2)):
        asked = [law], 0, 50, 1, True, torch.float64
        assert torch.equal(numbers.masks(*asked), Counted([3], CPU).masks(*asked))


def test_steps_on_counted_numbers_are_the_same_in_all_engines():
    data, objective = population(), Dropout(LAWS["bernoulli"])
    draws = Stream(data, objective, [1, 2, 3], 1, CPU, counted=True).next(50)
    rates = torch.full((50, 3), 0.002, dtype=torch.float64)
    models = []
    settings = Settings(steps=50, step_size=0.002, batch_size=1)
    for engine in (ProductsDescent(two_layer(3)), TorchDescent(two_layer(3), data, objective, settings)):
        engine.advance(draws, 0, rates)
        models.append(engine.snapshot())
    torch.testing.assert_close(models[0].U, models[1].U, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(models[0].V, models[1].V, rtol=1e-12, atol=1e-13)


def test_dropout_on_counted_and_on_generated_numbers_agrees_in_the_mean():
    """The mean weights after some steps, over many runs: two streams, one law."""
    data, law = Moments.of_map(randn(3, 5, seed=6)), Bernoulli(0.5, 4)
    runs, steps = 2000, 40
    start = TwoLayerLinear(
        (0.3 * randn(3, 4, seed=7)).expand(runs, 3, 4), (0.3 * randn(5, 4, seed=8)).expand(runs, 5, 4)
    )
    found = []
    for counted in (True, False):
        stream = Stream(data, Dropout(law), range(runs), 1, CPU, counted=counted)
        engine = ProductsDescent(start)
        engine.advance(stream.next(steps), 0, torch.full((steps, runs), 0.005, dtype=torch.float64))
        found.append(engine.model().matrix())
    difference = found[0].mean(0) - found[1].mean(0)
    error = ((found[0].var(0) + found[1].var(0)) / runs).sqrt()
    assert float((difference / error).abs().max()) < 4.5


def test_generators_draw_full_stretches():
    """A short training draws the first numbers of a long one."""
    stream = Stream(population(), Dropout(Gaussian(0.5, 4)), [1], 1, CPU)
    short, again = stream.next(3), Stream(population(), Dropout(Gaussian(0.5, 4)), [1], 1, CPU).next(200)
    assert torch.equal(short.inputs[:, :3], again.inputs[:, :3])


@pytest.mark.parametrize(
    "law", [Bernoulli(torch.tensor([0.0, 0.3, 0.9, 0.5]), 4), Block(0.4, 4, 2)], ids=["units", "blocks"]
)
@pytest.mark.parametrize("scaled", [True, False])
def test_generated_masks_are_those_of_the_law_on_any_number_of_threads(law, scaled, monkeypatch):
    monkeypatch.setattr(threads, "LEAST", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    numbers = Sequential(range(7), CPU)
    stretches = [numbers.masks((law,) * 7, first, 25, 2, scaled, torch.float32) for first in (0, 25)]
    drawn = torch.cat(stretches, 1)
    coins = law.drop.numel()
    for seed, found in enumerate(drawn):
        uniform = torch.from_numpy(np.random.Generator(np.random.SFC64([seed, 1])).random((100, coins)))
        value = 1 / (1 - law.drop) if scaled else torch.ones_like(law.drop)
        alone = torch.where(uniform < law.drop, 0.0, value).repeat_interleave(law.size // coins, -1)
        assert torch.equal(found, alone.float().unflatten(0, (50, 2)))


def test_generated_normal_numbers_of_a_run_are_numpys_own():
    drawn = Sequential([3, 8], CPU).normal(0, 0, 4, (2, 3), torch.zeros(()).double())
    for seed, found in zip((3, 8), drawn, strict=True):
        wanted = np.random.Generator(np.random.SFC64([seed, 1])).standard_normal((4, 2, 3))
        assert torch.equal(found, torch.from_numpy(wanted))


def test_generated_normal_numbers_are_the_same_on_any_number_of_threads(monkeypatch):
    alone = Sequential(range(7), CPU).normal(0, 0, 50, (2, 3), torch.zeros(()))
    monkeypatch.setattr(threads, "LEAST", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert torch.equal(alone, Sequential(range(7), CPU).normal(0, 0, 50, (2, 3), torch.zeros(())))


def test_every_run_is_worked_on_once(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    for runs, numbers in ((1, 10**6), (3, 10**6), (10, 10**6), (10, 1)):
        parts = []
        threads.share_runs(lambda start, stop, parts=parts: parts.append((start, stop)), runs, numbers)
        assert sorted(run for start, stop in parts for run in range(start, stop)) == list(range(runs))
        assert len(parts) == (min(4, runs) if numbers > 1 else 1)
