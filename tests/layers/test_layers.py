"""Layers: their realized rates, their means, and that they behave like the torch layers they replace."""

from __future__ import annotations

import copy
import io
import math

import pytest
import torch
from cases import normal
from compare import close
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from droptics.data import Sample
from droptics.layers import DropBlock, DropConnect, ExplicitDropout, explicit_penalty, realized_rates
from droptics.losses import CrossEntropy, Logistic
from droptics.masks import Bernoulli, SlidingBlock
from droptics.models import LastLayer
from droptics.papers.droptics_own.explicit_training import Race, deterministic, solved_head, stochastic
from droptics.penalties import MonteCarlo, SecondOrder, penalty

EDGES = ["clipped", "valid", "centered"]


def frequencies(layer: DropBlock, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean output on ones, and how often each position was dropped."""
    torch.manual_seed(0)
    output = layer(torch.ones(*shape, dtype=torch.float64))
    return output.mean((0, 1)), (output == 0).double().mean((0, 1))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(EDGES),
    st.floats(1e-6, 0.98),
    st.integers(1, 9),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_the_rate_is_the_one_asked_for(edges: str, drop: float, block: int, height: int, width: int) -> None:
    layer = DropBlock(drop, block, edges=edges)  # type: ignore[arg-type]
    close(layer.realized_rate((height, width)), drop, 1e-9)
    assert 0 < layer.seed_rate((height, width)) < 1


@pytest.mark.parametrize("edges", ["clipped", "valid"])
def test_one_dimensional_rates_are_those_of_the_mask_law(edges: str) -> None:
    law = SlidingBlock.matching(0.3, 9, 4, edges)  # type: ignore[arg-type]
    layer = DropBlock(0.3, 4, spatial=1, edges=edges)  # type: ignore[arg-type]
    close(layer.seed_rate((9,)), float(law.drop), 1e-9)


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("spatial", [1, 2])
@pytest.mark.parametrize("block", [1, 2, 3, 20])
def test_realized_masks(edges: str, spatial: int, block: int) -> None:
    layer = DropBlock(0.3, block, spatial=spatial, edges=edges)  # type: ignore[arg-type]
    size = (6, 5)[:spatial]
    count = 20_000
    mean, dropped = frequencies(layer, count, 1, *size)
    # standard error of a proportion, correlated positions counted as one draw
    assert abs(float(dropped.mean()) - 0.3) < 5 * (0.21 / count) ** 0.5
    # unbiased at every position, also at the borders; survivors are at most 1/keep of a border-covered unit
    assert float((mean - 1).abs().max()) < 6 * (float(layer.realized_rate(size)) * 10 / count) ** 0.5


def test_table_of_realized_rates() -> None:
    known = {(8, 0.1, 3): (0.094, 0.140, 0.080), (8, 0.1, 5): (0.094, 0.250, 0.069), (8, 0.1, 7): (0.1, 0.622, 0.063)}
    known |= {
        (8, 0.5, 5): (0.377, 0.760, 0.307),
        (32, 0.1, 7): (0.093, 0.125, 0.083),
        (32, 0.5, 7): (0.372, 0.487, 0.361),
    }
    found = {(row.size, row.drop, row.block): row for row in realized_rates((8, 32), (0.1, 0.5), (3, 5, 7))}
    for key, rates in known.items():
        row = found[key]
        # measured with the libraries themselves, to about half a percent
        for ours, theirs in zip((row.torchvision, row.timm, row.dropblock), rates, strict=True):
            assert ours == pytest.approx(theirs, abs=0.006)
        close(row.matched, key[1], 1e-12)


@pytest.mark.parametrize("library", ["torchvision", "timm", "dropblock"])
def test_presets_draw_what_they_promise(library: str) -> None:
    layer = DropBlock.like(library, 0.2, 3)  # type: ignore[arg-type]
    torch.manual_seed(0)
    output = layer(torch.ones(4000, 2, 7, 6))
    rate = float((output == 0).double().mean())
    assert rate == pytest.approx(layer.realized_rate((7, 6)), abs=0.01)
    # divided by the share that survived: the mean over the batch is one exactly
    close(float(output.double().mean()), 1.0, 1e-5)
    same = bool(((output[:, 0] == 0) == (output[:, 1] == 0)).all())
    assert same == (library != "torchvision")


@pytest.mark.parametrize("layer", [DropBlock(0.4, 2), DropBlock(0.4, 2, spatial=1), DropConnect(6, 6, 0.4)])
def test_evaluation_mode_is_plain(layer: nn.Module) -> None:
    inputs = torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(0))
    if isinstance(layer, DropBlock) and layer.spatial == 2:
        inputs = inputs[:, None]
    layer.eval()
    expected = nn.functional.linear(inputs, layer.weight, layer.bias) if isinstance(layer, DropConnect) else inputs
    assert torch.equal(layer(inputs), expected)
    layer.train()
    assert not torch.equal(layer(inputs), expected)
    state = torch.get_rng_state()
    layer.eval()
    layer(inputs)
    assert torch.equal(state, torch.get_rng_state())


def test_drop_zero_is_the_identity() -> None:
    inputs = torch.ones(2, 3, 4, 4)
    assert torch.equal(DropBlock(0.0, 3)(inputs), inputs)
    layer = DropConnect(4, 2, 0.0)
    assert torch.equal(layer(inputs), nn.functional.linear(inputs, layer.weight, layer.bias))


@pytest.mark.parametrize("per_example", [False, True])
def test_drop_connect_has_the_penalty_of_dropout_on_the_last_weights(per_example: bool) -> None:
    torch.manual_seed(1)
    layer = DropConnect(4, 3, 0.4, per_example=per_example, dtype=torch.float64)
    data = Sample(normal(5, 4), normal(5, 3))
    exact = float(penalty(LastLayer.of(nn.Sequential(layer)), data, Bernoulli(0.4, 4)).value.detach())
    with torch.no_grad():
        plain = float((layer.eval()(data.inputs) - data.targets).square().sum(-1).mean())
        layer.train()
        drawn = torch.stack([(layer(data.inputs) - data.targets).square().sum(-1).mean() for _ in range(4000)])
    assert float(drawn.mean()) - plain == pytest.approx(exact, abs=4 * float(drawn.std()) / 4000**0.5)


@pytest.mark.parametrize("shape", [(400,), (20, 20)])
@pytest.mark.parametrize("per_example", [False, True])
def test_every_example_has_a_mask_of_its_own_where_it_is_asked_for(per_example: bool, shape: tuple[int, ...]) -> None:
    """Weights 1, 2, 4, ...: the output in binary is the mask of a row, 256 of them that are equally likely."""
    torch.manual_seed(2)
    layer = DropConnect(8, 2, 0.5, bias=False, per_example=per_example, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(2.0 ** torch.arange(8).expand(2, 8))
        rows = (layer(torch.ones(*shape, 8).double()) / 2).reshape(400, 2)
    assert torch.equal(rows, rows.round())
    if not per_example:
        assert len(rows.unique(dim=0)) == 1
        return
    # of 400 draws about 256 (1 - exp(-400 / 256)) = 202 masks are seen, five standard deviations are 35
    assert all(165 <= len(column.unique()) <= 240 for column in rows.mT)
    bits = (rows.long()[..., None] >> torch.arange(8)) & 1
    assert float((bits.double().mean(0) - 0.5).abs().max()) < 5 * 0.5 / 400**0.5
    both = (bits[:, 0] * bits[:, 1]).double().mean(0)  # of the two outputs
    assert float((both - 0.25).abs().max()) < 5 * (3 / 16 / 400) ** 0.5


def test_drop_connect_shares_and_saves_the_parameters_of_a_linear_layer() -> None:
    linear = nn.Linear(4, 3)
    layer = DropConnect.of(linear, 0.3)
    assert layer.per_example is DropConnect(6, 4).per_example is False
    assert layer.weight is linear.weight
    assert layer.p == 0.3
    fresh = DropConnect(4, 3, 0.3)
    fresh.load_state_dict(linear.state_dict())
    assert torch.equal(fresh.eval()(torch.ones(1, 4)), linear(torch.ones(1, 4)))
    without = DropConnect.of(nn.Linear(4, 3, bias=False), 0.3, per_example=True)
    assert without.per_example is True
    assert without(torch.ones(2, 4)).shape == (2, 3)
    assert "drop=0.3" in repr(fresh)


def explicit_net(**options: object) -> tuple[nn.Sequential, ExplicitDropout]:
    torch.manual_seed(2)
    head = nn.Linear(6, 3)
    explicit = ExplicitDropout(0.4, head, **options)  # type: ignore[arg-type]
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), explicit, head).double(), explicit


def test_explicit_dropout_is_the_identity_with_the_exact_penalty() -> None:
    net, explicit = explicit_net()
    data = Sample(normal(7, 4), normal(7, 3))
    plain = nn.Sequential(*(net[i] for i in (0, 1, 3)))
    assert torch.equal(net(data.inputs), plain(data.inputs))
    exact = penalty(LastLayer.of(plain), data, Bernoulli(0.4, 6)).value
    close(explicit.penalty, exact, 1e-13)
    close(explicit_penalty(net), exact, 1e-13)
    ours = torch.autograd.grad(explicit.penalty, [net[0].weight, net[3].weight])
    theirs = torch.autograd.grad(exact, [net[0].weight, net[3].weight])
    for left, right in zip(ours, theirs, strict=True):
        close(left, right, 1e-12)
    net.eval()
    net(data.inputs)
    assert float(explicit.penalty) == 0.0


def test_explicit_dropout_matches_the_mean_of_nn_dropout() -> None:
    net, explicit = explicit_net(over="elements")
    noisy = nn.Sequential(net[0], net[1], nn.Dropout(0.4), net[3])
    inputs, targets = normal(7, 4), normal(7, 3)
    loss = nn.MSELoss()
    with torch.no_grad():
        torch.manual_seed(0)
        drawn = torch.stack([loss(noisy(inputs), targets) for _ in range(6000)])
        explicit_loss = float(loss(net(inputs), targets) + explicit.penalty)
    assert explicit_loss == pytest.approx(float(drawn.mean()), abs=4 * float(drawn.std()) / 6000**0.5)


@pytest.mark.parametrize(("loss", "classes"), [(CrossEntropy(), 3), (Logistic(), 1)])
def test_explicit_dropout_for_classifiers_is_second_order(loss: CrossEntropy | Logistic, classes: int) -> None:
    torch.manual_seed(2)
    head = nn.Linear(6, classes)
    explicit = ExplicitDropout(0.3, head, loss)
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), explicit, head).double()
    targets = torch.arange(7) % 3 if classes == 3 else (torch.arange(7) % 2 * 2 - 1).double()
    data = Sample(normal(7, 4), targets)
    net(data.inputs)
    kept = explicit.penalty
    plain = nn.Sequential(net[0], net[1], head)
    close(kept, penalty(LastLayer.of(plain), data, Bernoulli(0.3, 6), SecondOrder(None), loss).value, 1e-12)


def test_explicit_dropout_copies_and_saves_like_any_layer() -> None:
    net, _ = explicit_net()
    net(normal(7, 4))
    twin = copy.deepcopy(net)
    assert twin[2].head is twin[3]
    assert sorted(net.state_dict()) == ["0.bias", "0.weight", "3.bias", "3.weight"]
    buffer = io.BytesIO()
    torch.save(net.state_dict(), buffer)
    buffer.seek(0)
    twin.load_state_dict(torch.load(buffer, weights_only=True))
    net.to(torch.float32)
    assert net(normal(7, 4).float()).dtype == torch.float32
    assert net[2].penalty.dtype == torch.float32
    assert len(list(net.parameters())) == 4
    assert "drop=0.4" in repr(net)
    assert net[2].p == 0.4


@pytest.mark.slow
def test_training_without_noise_reaches_the_criterion_of_dropout() -> None:
    race = Race(examples=100, inputs=4, width=16, epochs=100, batch=25, passes=80)
    noisy, explicit, solved = (
        stochastic(race, False, 1),
        stochastic(race, True, 1),
        deterministic(race, 1),
    )
    assert noisy.criterion[0] > noisy.criterion[-1]
    # both descend the same expected criterion; what is left is mask noise and the local minimum it led to
    assert explicit.criterion[-1] == pytest.approx(noisy.criterion[-1], rel=0.1)
    assert solved.criterion[-1] <= 1.02 * min(noisy.criterion[-1], explicit.criterion[-1])
    assert solved.epochs_to(noisy.criterion[-1]) < 0.5 * race.epochs
    assert explicit.epochs_to(0.0) == math.inf
    again = stochastic(race, False, 1)
    assert again.criterion == noisy.criterion


def test_the_solved_head_is_the_best_head() -> None:
    features, targets = torch.relu(normal(20, 5)), normal(20, 2)
    features[:, 2] = 0.0  # a dead unit
    weight, bias = solved_head(features, targets, 0.3)
    weight.requires_grad_(True)
    bias.requires_grad_(True)
    energy = features.square().mean(0) @ weight.square().sum(0) * 0.3 / 0.7
    value = (features @ weight.mT + bias - targets).square().sum(-1).mean() + energy
    for slope in torch.autograd.grad(value, [weight, bias]):
        close(slope, torch.zeros_like(slope), 1e-12, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["block", "valid", "connect", "explicit"])
def test_layers_compile_in_one_graph(kind: str) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(4, 5, 6, 6)
    if kind == "connect":
        net: nn.Module = DropConnect(6, 3, 0.4)
    elif kind == "explicit":
        head = nn.Linear(6, 3)
        net = nn.Sequential(ExplicitDropout(0.4, head), head)
    else:
        net = DropBlock(0.3, 3, edges="clipped" if kind == "block" else "valid")
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    # the same seed draws the same mask with and without compilation
    torch.manual_seed(1)
    expected = net(inputs)
    torch.manual_seed(1)
    close(compiled(inputs), expected, 1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DropBlock(1.0, 3), "drop"),
        (lambda: DropBlock(0.1, 0), "block"),
        (lambda: DropBlock(0.1, 3, spatial=3), "spatial"),
        (lambda: DropBlock(0.1, 3, edges="round"), "edges"),  # type: ignore[arg-type]
        (lambda: DropBlock(0.1, 3, rate="high"), "rate"),  # type: ignore[arg-type]
        (lambda: DropBlock(0.1, 3, rescale="no"), "rescale"),  # type: ignore[arg-type]
        (lambda: DropBlock.like("keras"), "library"),  # type: ignore[arg-type]
        (lambda: DropBlock(0.1, 3)(torch.ones(2, 3, 4)), "spatial=1"),
        (lambda: DropConnect(3, 2, -0.1), "drop"),
        (lambda: ExplicitDropout(0.5, nn.Conv2d(1, 1, 1)), "nn.Linear"),  # type: ignore[arg-type]
        (lambda: ExplicitDropout(0.5, nn.Linear(2, 2), over="batch"), "over"),  # type: ignore[arg-type]
        (lambda: ExplicitDropout(0.5, nn.Linear(2, 2), CrossEntropy(), over="elements"), "elements"),
        (lambda: ExplicitDropout(0.5, nn.Linear(2, 2), nn.MSELoss()), "loss"),  # type: ignore[arg-type]
        (lambda: ExplicitDropout(0.5, nn.Linear(2, 2))(torch.ones(1, 3)), "inputs of the head"),
        (lambda: explicit_penalty(nn.Linear(2, 2)), "ExplicitDropout"),
    ],
)
def test_bad_arguments(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=message):
        make()


def test_the_layer_says_what_it_is() -> None:
    layer = DropBlock(0.4, 3, rate="inside")
    assert layer.p == layer.drop == 0.4
    assert "drop=0.4, block=3, spatial=2" in repr(layer)
    assert "rate='inside'" in repr(layer)


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("rate", ["matched", "inside", "area"])
def test_seeds_never_become_certain(edges: str, rate: str) -> None:
    """Gamma stays below one for every drop below one: block (size - block + 1) >= size on every side."""
    for size in ((3,), (4,), (9,)):
        for block in (1, 2, 3, 4, 20):
            layer = DropBlock(0.999, block, spatial=1, edges=edges, rate=rate)
            assert 0 < layer.seed_rate(size) <= 0.999 + 1e-12
            assert 0 < layer.realized_rate(size) <= 1
    nothing = DropBlock(0.0, 3, edges=edges, rate=rate)
    assert nothing.seed_rate((8, 8)) == nothing.realized_rate((8, 8)) == 0.0


@pytest.mark.parametrize(("loss", "outputs"), [(CrossEntropy(), 4), (Logistic(), 1)])
def test_an_explicit_penalty_can_say_when_it_is_off(loss, outputs):
    torch.manual_seed(0)
    head, features = nn.Linear(12, outputs).double(), torch.randn(60, 12, dtype=torch.float64)
    mild = ExplicitDropout(0.05, head, loss)
    mild(features)
    answer = mild.check(features, MonteCarlo(2000, confidence=0.999))
    close(answer.value, mild.penalty.detach(), 1e-12)
    assert float(answer.lower) <= float(answer) <= float(answer.upper)
    with torch.no_grad():
        head.weight.mul_(30)
    confident = ExplicitDropout(0.5, head, loss)
    confident(features)
    answer = confident.check(features, MonteCarlo(2000, confidence=0.999))
    close(answer.value, confident.penalty.detach(), 1e-12)
    assert not float(answer.lower) <= float(answer) <= float(answer.upper)
    assert "so its error is" in answer.method
    half = ExplicitDropout(0.5, nn.Linear(12, outputs).half(), loss).check(features.half())
    assert half.value.dtype == torch.float32
    with pytest.raises(ValueError, match="nothing to check"):
        ExplicitDropout(0.5, head).check(features)


def test_what_large_maps_keep_is_divided_by_its_share() -> None:
    """The mean over a million ones stays one, though only one in ten is kept: all but the rounding of two sums."""
    torch.manual_seed(0)
    output = DropBlock(0.9, 3, rescale="realized")(torch.ones(1, 1, 1000, 1000, dtype=torch.float64))
    assert float((output == 0).double().mean()) > 0.8
    assert abs(float(output.mean()) - 1) < 1e-12
