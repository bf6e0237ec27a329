"""Training on a GPU: the captured graph and the persistent kernel against the plain path on the same numbers."""

import math

import pytest
import torch

from droptics.data import Moments, Sample
from droptics.masks import Bernoulli, Block, Gaussian, Product
from droptics.models import Autoencoder, DeepLinear, LastLayer, TwoLayerLinear
from droptics.optima import optimum
from droptics.training import (
    Checkpoint,
    Diverged,
    Dropout,
    Inverse,
    Penalized,
    Plain,
    Recording,
    SmallCnn,
    philox,
    train,
    triton_steps,
)
from droptics.training.descents import PersistentDescent
from droptics.training.draws import Stream
from droptics.training.products import ProductsDescent

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
needs_triton = pytest.mark.skipif(bool(triton_steps.missing()), reason="needs triton")
CUDA = torch.device("cuda")
INPUTS, OUTPUTS, WIDTH, RUNS = 5, 3, 4, 3
LAWS = {
    "bernoulli": Bernoulli(torch.tensor([0.1, 0.5, 0.3, 0.0], dtype=torch.float64), WIDTH),
    "block": Block(0.4, WIDTH, 2),
    "gaussian": Gaussian(0.7, WIDTH),
}


def randn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype).cuda()


def population(dtype=torch.float64):
    mix = randn(INPUTS, INPUTS, seed=1) / 2 + torch.eye(INPUTS, dtype=torch.float64, device=CUDA)
    noise, weights = randn(OUTPUTS, OUTPUTS, seed=2) / 5, randn(OUTPUTS, INPUTS, seed=3)
    xx = mix @ mix.T
    return Moments(xx, weights @ xx, weights @ xx @ weights.T + noise @ noise.T).to(dtype)


def two_layer(runs=RUNS, dtype=torch.float64, seed=7):
    return TwoLayerLinear(
        0.5 * randn(runs, OUTPUTS, WIDTH, seed=seed, dtype=dtype),
        0.5 * randn(runs, INPUTS, WIDTH, seed=seed + 1, dtype=dtype),
    )


def assert_same(left, right, tolerance):
    for a, b in zip(left.tensors, right.tensors, strict=True):
        assert float((a - b).abs().max()) <= tolerance * max(float(b.abs().max()), 1.0)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", ["moments", "sample"])
def test_captured_graph_equals_single_steps_on_the_gpu(law, kind):
    options = {"steps": 200, "step_size": [0.002, 0.001, 0.002], "batch_size": 1, "seed": 3}
    data = population() if kind == "moments" else Sample(randn(7, INPUTS, seed=4), randn(7, OUTPUTS, seed=5))
    left = train(two_layer(), data, Dropout(LAWS[law]), engine="products", **options)
    right = train(two_layer(), data, Dropout(LAWS[law]), engine="torch", **options)
    assert left.engine == "products"
    assert_same(left.model, right.model, 1e-10)
    torch.testing.assert_close(left.history["loss"], right.history["loss"], rtol=1e-9, atol=1e-12)


@needs_triton
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("normal", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 100])
def test_filled_numbers_are_those_of_the_plain_path(dtype, normal, count):
    seeds = torch.tensor([0, 5, 2**40 + 3, 2**63 - 1])
    draw = philox.normals if normal else philox.uniforms
    for first in (0, 1, 2**32 - 3):
        found = draw(seeds.cuda(), 2, first, 9, count, dtype).cpu()
        expected = draw(seeds, 2, first, 9, count, dtype)
        # integers are equal; logarithms and sines of two libraries differ in the last digits
        limit = (64 if normal else 0) * torch.finfo(dtype).eps
        assert float((found - expected).abs().max()) <= limit


def literal(weights, x, y, z, rates):
    """The same steps, written out in torch."""
    weights = [weight.clone() for weight in weights]
    U, V = weights[0], weights[-1]
    losses = []
    for t in range(x.shape[1]):
        mask = 1.0 if z is None else z[:, t]
        hidden = torch.einsum("ri,riw->rw", x[:, t], V) * mask
        residual = torch.einsum("row,rw->ro", U, hidden) - y[:, t]
        back = torch.einsum("row,ro->rw", U, residual) * mask
        rate = rates[:, t, None, None]
        first, second = rate * residual[:, :, None] * hidden[:, None], rate * x[:, t, :, None] * back[:, None]
        U -= first
        V -= second
        losses.append(residual.square().sum(1))
    return weights, torch.stack(losses, 1)


SHAPES = {  # runs, steps, inputs, outputs, width
    "ones": (1, 1, 1, 1, 1),
    "one step": (2, 1, 5, 3, 4),
    "full columns": (3, 20, 16, 8, 16),
    "odd": (5, 50, 33, 17, 9),
    "paper": (7, 100, 80, 120, 20),
    "paper, wide": (3, 40, 80, 120, 80),
}


CASES = (  # shape, tied, masked, dtype: every case is compiled anew, so not all of them
    ("ones", False, True, torch.float32),
    ("one step", False, True, torch.float64),
    ("full columns", False, True, torch.float32),
    ("full columns", True, False, torch.float64),
    ("odd", True, True, torch.float32),
    ("odd", False, False, torch.float64),
    ("paper", False, True, torch.float32),
    ("paper", False, True, torch.float64),
    ("paper", True, True, torch.float32),
    ("paper, wide", False, True, torch.float32),
)


@needs_triton
@pytest.mark.parametrize(("shape", "tied", "masked", "dtype"), CASES)
def test_persistent_kernel_equals_literal_steps_on_given_numbers(shape, tied, masked, dtype):
    runs, steps, inputs, outputs, width = SHAPES[shape]
    outputs = inputs if tied else outputs
    columns = triton_steps.power_of_two(width)
    shapes = [(outputs, width)] if tied else [(outputs, width), (inputs, width)]
    weights = [0.3 * randn(runs, *part, seed=i, dtype=dtype) for i, part in enumerate(shapes)]
    # views of longer stretches, as the engine passes them
    x, y = (
        randn(runs, steps + 3, 1, n, seed=i, dtype=dtype)[:, 2 : steps + 2, 0] for i, n in ((5, inputs), (6, outputs))
    )
    z = 2.0 * (randn(runs, steps, width, seed=8) > 0).to(dtype) if masked else None
    rates = 0.5 / (inputs * outputs) * torch.rand(runs, steps, dtype=dtype, device=CUDA)
    expected, losses = literal([weight.double() for weight in weights], x.double(), y.double(),
                               None if z is None else z.double(), rates.double())  # fmt: skip
    padded = [torch.nn.functional.pad(weight, (0, columns - width)) for weight in weights]
    found = triton_steps.descend(padded, width, x, y, z, rates)
    tolerance = 64 * torch.finfo(dtype).eps * math.sqrt(steps * max(inputs, outputs))
    for ours, theirs in zip(padded, expected, strict=True):
        assert float((ours[..., :width].double() - theirs).abs().max()) <= tolerance * max(1, float(theirs.abs().max()))
        assert not bool(ours[..., width:].any())
    torch.testing.assert_close(found.double(), losses, rtol=tolerance, atol=tolerance)


@needs_triton
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", ["moments", "sample", "weighted", "plain", "tied"])
def test_persistent_training_equals_products_and_torch(law, kind):
    weights = torch.rand(7, dtype=torch.float64, device=CUDA) if kind == "weighted" else None
    fixed = Sample(randn(7, INPUTS, seed=4), randn(7, OUTPUTS, seed=5), weights)
    data = fixed if kind in ("sample", "weighted") else population()
    start = two_layer()
    if kind == "tied":
        start, data = (
            Autoencoder(0.5 * randn(RUNS, INPUTS, WIDTH, seed=3)),
            Moments.of_map(randn(INPUTS, INPUTS, seed=4)),
        )
    objective = Plain() if kind == "plain" else Dropout(LAWS[law])
    options = {"steps": 300, "step_size": [0.003, 0.002, 0.001], "batch_size": 1, "seed": 5, "schedule": Inverse(30)}
    found = {
        engine: train(start, data, objective, engine=engine, **options) for engine in ("auto", "products", "torch")
    }
    assert found["auto"].engine == "persistent"
    for other in ("products", "torch"):
        assert_same(found["auto"].model, found[other].model, 1e-11)
        torch.testing.assert_close(found["auto"].history["loss"], found[other].history["loss"], rtol=1e-10, atol=1e-12)


@needs_triton
def test_a_batch_on_the_gpu_equals_separate_runs():
    options = {"steps": 200, "batch_size": 1, "convention": "pal2020"}
    laws = [Bernoulli(drop, WIDTH) for drop in (0.0, 0.3, 0.9)]
    start, sizes = two_layer(dtype=torch.float32), [0.001, 0.002, 0.0005]
    data = population(torch.float32)
    both = train(start, data, Dropout(laws), step_size=sizes, seed=[4, 9, 2], **options)
    for run, seed in enumerate((4, 9, 2)):
        alone = TwoLayerLinear(start.U[run], start.V[run])
        single = train(alone, data, Dropout(laws[run]), step_size=sizes[run], seed=seed, **options)
        assert torch.equal(single.model.U, both.model.U[run])
        assert torch.equal(single.model.V, both.model.V[run])


@needs_triton
def test_gpu_and_cpu_agree_in_the_mean_and_end_near_the_optimum():
    """Two streams of random numbers, one law: the mean objective of many runs, and the closed form."""
    matrix = randn(12, 8, seed=1) / 3
    law, runs, steps = Bernoulli(0.4, 6), 200, 4000
    best = optimum(TwoLayerLinear, Moments.of_map(matrix.cpu()), law)
    start = TwoLayerLinear(0.3 * randn(runs, 12, 6, seed=2), 0.3 * randn(runs, 8, 6, seed=3))
    options = {
        "steps": steps, "step_size": 0.005, "batch_size": 1, "schedule": Inverse(2000),
        "record": Recording(("objective",), at=(0, 50, steps)),
    }  # fmt: skip
    device = train(start, Moments.of_map(matrix), Dropout(law), **options)
    host = train(TwoLayerLinear(start.U.cpu(), start.V.cpu()), Moments.of_map(matrix.cpu()), Dropout(law), **options)
    assert (device.engine, host.engine) == ("persistent", "kernel")
    for record in (1, 2):
        ours, theirs = device.history["objective"][record].cpu(), host.history["objective"][record]
        error = ((ours.var() + theirs.var()) / runs).sqrt()
        assert float((ours.mean() - theirs.mean()).abs()) < 4 * float(error)
    assert 1.0 <= float(device.final("objective").mean()) / best.objective < 1.03


@needs_triton
def test_a_gpu_run_resumes_and_ends_with_the_same_numbers(tmp_path):
    class Killed(Exception):
        pass

    def counter(limit):
        seen = []

        def record(model):
            seen.append(1)
            if len(seen) > limit:
                raise Killed
            return model.tensors[0].square().sum((-2, -1))

        return record

    steps, file = 9000, Checkpoint(tmp_path / "run.safetensors", seconds=0.0)
    options = {"steps": steps, "step_size": 1e-3, "batch_size": 1}
    at = range(0, steps + 1, 1000)
    whole = train(
        two_layer(), population(), Dropout(LAWS["block"]), record=Recording({"n": counter(99)}, at=at), **options
    )
    with pytest.raises(Killed):
        train(two_layer(), population(), Dropout(LAWS["block"]),
              record=Recording({"n": counter(6)}, at=at), checkpoint=file, **options)  # fmt: skip
    resumed = train(two_layer(), population(), Dropout(LAWS["block"]),
                    record=Recording({"n": counter(99)}, at=at), checkpoint=file, **options)  # fmt: skip
    assert torch.equal(resumed.model.U, whole.model.U)
    assert torch.equal(resumed.history["n"], whole.history["n"])


@pytest.mark.parametrize("engine", ["auto", "products", "torch"])
def test_divergence_on_the_gpu(engine):
    sizes = [0.001, 5.0, 0.001]
    options = {"steps": 120, "step_size": sizes, "batch_size": 1, "engine": engine}
    with pytest.raises(Diverged) as caught:
        train(two_layer(), population(), Dropout(LAWS["block"]), **options)
    assert caught.value.runs == (1,)
    assert caught.value.step_size == 5.0
    frozen = train(two_layer(), population(), Dropout(LAWS["block"]), diverging="freeze", **options)
    assert set(frozen.diverged) == {1}
    assert bool(torch.isfinite(frozen.model.U).all())
    assert torch.equal(torch.isfinite(frozen.final("objective")).cpu(), torch.tensor([True, False, True]))


def test_large_weights_and_other_settings_fall_back():
    wide = TwoLayerLinear(torch.zeros(2, 512, 200, device=CUDA), torch.zeros(2, 512, 200, device=CUDA))
    assert "registers" in PersistentDescent.why_not(wide)
    options = {"steps": 3, "step_size": 1e-3}
    data = Moments.of_map(torch.eye(512, device=CUDA))
    assert train(wide, data, Dropout(Bernoulli(0.5, 200)), batch_size=1, **options).engine == "products"
    with pytest.raises(ValueError, match="registers"):
        train(wide, data, Dropout(Bernoulli(0.5, 200)), batch_size=1, engine="persistent", **options)
    assert train(two_layer(), population(), Dropout(LAWS["block"]), batch_size=2, **options).engine == "torch"


def test_other_families_train_on_the_gpu_as_on_the_cpu():
    """Deterministic objectives have no random numbers: both devices give the same path."""
    law = Block(0.5, WIDTH, 2)
    on_gpu = train(two_layer(), population(), Penalized(law), steps=200, step_size=0.01, stop_gap=1e-9)
    start = TwoLayerLinear(two_layer().U.cpu(), two_layer().V.cpu())
    on_cpu = train(start, population().to("cpu"), Penalized(law), steps=200, step_size=0.01, stop_gap=1e-9)
    torch.testing.assert_close(on_gpu.model.U.cpu(), on_cpu.model.U, rtol=1e-9, atol=1e-10)
    deep = [0.4 * randn(2, 4, 4, seed=i) for i in range(3)]
    data = Moments.of_map(randn(4, 4, seed=9))
    masks = [Product([Bernoulli(drop, 4), Bernoulli(drop, 4)]) for drop in (0.3, 0.6)]
    for optimizer in (None, torch.optim.Adam):
        options = {"steps": 50, "step_size": [0.01, 0.02], "optimizer": optimizer}
        left = train(DeepLinear(deep), data, Penalized(masks), **options)
        right = train(DeepLinear([weight.cpu() for weight in deep]), data.to("cpu"), Penalized(masks), **options)
        torch.testing.assert_close(left.final("objective").cpu(), right.final("objective"), rtol=1e-9, atol=1e-10)


def test_last_layer_dropout_on_the_gpu():
    net = SmallCnn(width=20, base=4).cuda()
    images, targets = randn(40, 1, 12, 12, dtype=torch.float32), torch.eye(10, device=CUDA).repeat(4, 1)
    record = Recording(("objective", "singular_values"), at=(0, 60))
    run = train(
        LastLayer.of(net, "head"), Sample(images, targets), Dropout(Block(0.5, 20, 5)), steps=60, step_size=2e-3,
        batch_size=20, optimizer=torch.optim.Adam, record=record,
    )  # fmt: skip
    assert float(run.final("objective")) < float(run.history["objective"][0])
    assert run.final("singular_values").shape == (10,)


@needs_triton
def test_engines_agree_on_the_same_draws_at_the_size_of_the_paper():
    law, runs = Bernoulli(1 / 3, 20), 9
    data = Moments.of_map(randn(120, 80, seed=1, dtype=torch.float32) / 10)
    start = TwoLayerLinear(
        0.1 * randn(runs, 120, 20, seed=2, dtype=torch.float32), 0.1 * randn(runs, 80, 20, seed=3, dtype=torch.float32)
    )
    stream = Stream(data, Dropout(law), range(runs), 1, CUDA)
    assert stream.counted
    draws, rates = stream.next(500), torch.full((500, runs), 5e-4, dtype=torch.float64)
    kernel, plain = PersistentDescent(start), ProductsDescent(start)
    losses = kernel.advance(draws, 0, rates), plain.advance(draws, 0, rates)
    assert_same(kernel.model(), plain.model(), 1e-4)
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-3, atol=1e-5)
