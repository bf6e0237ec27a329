"""Random search over squares: never worse, always inside, queries counted, blind to gradients."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from attacked import Noisy, Quantized, affine_scorer, classifier
from torch import nn

from droptics.attacks import Pgd, Square, Threat, WeakAttackWarning, attack
from droptics.attacks.first_layer import FirstLayer
from droptics.attacks.gradients import differentiable
from droptics.attacks.square import SquareSearch, bump
from droptics.data import Sample
from droptics.losses import CrossEntropy

RADII = {"linf": 0.08, "l2": 0.6, "l1": 4.0}


@pytest.mark.parametrize("norm", RADII)
def test_it_stays_inside_and_counts_its_queries(norm):
    net, data = classifier()
    found = attack(net, data, Threat(norm, RADII[norm], (0, 1)), Square(queries=60))
    assert bool((found.radius <= RADII[norm] * (1 + 1e-9)).all())
    assert float(found.inputs.min()) >= 0
    assert float(found.inputs.max()) <= 1
    assert bool(found.success.any())
    assert found.gradients == 0
    held = int((~found.success).sum())
    assert 60 * held <= found.queries <= 60 * len(data)


@pytest.mark.parametrize("norm", RADII)
def test_more_queries_never_find_less_and_a_seed_repeats(norm):
    net, data = classifier()
    threat = Threat(norm, RADII[norm] / 2, (0, 1))
    few, many, again = (attack(net, data, threat, Square(queries=count)) for count in (20, 120, 120))
    assert torch.equal(many.inputs, again.inputs)
    assert int(many.success.sum()) > int(few.success.sum()) - 2
    start = attack(net, data, Threat(norm, 0.0), Square(queries=1))
    assert bool((many.margins[~many.success] < start.margins[~many.success]).float().mean() > 0.9)


@pytest.mark.parametrize("norm", RADII)
def test_vectors_are_lines_of_pixels(norm):
    layer, data = affine_scorer(inputs=12)
    found = attack(layer, data, Threat(norm, RADII[norm], (0, 1)), Square(queries=80))
    assert bool((found.radius <= RADII[norm] * (1 + 1e-9)).all())
    assert bool(found.success.any())


def test_zero_gradients_do_not_stop_it():
    net, data = classifier()
    threat = Threat("linf", 0.1, (0, 1))
    defence = Quantized(net)
    with pytest.warns(WeakAttackWarning, match="gradients vanish"):
        blind = attack(defence, data, threat, Pgd(steps=10))
    seen = attack(defence, data, threat, Square(queries=200))
    assert int(seen.success.sum()) > int(blind.success.sum()) + 10


def test_squares_shrink_as_the_queries_go():
    net, data = classifier()
    region = Threat("linf", 0.1).around(data.inputs)
    search = SquareSearch(differentiable(net), region, data.targets, Square(queries=10_000), torch.Generator())
    search.shape = (1, 224, 224)  # of the published schedule: the share is halved nine times in 10,000 queries
    ends = [10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000, 10_000]
    for halvings, (begin, end) in enumerate(pairwise([0, *ends])):
        side = round((0.8 / 2**halvings) ** 0.5 * 224)
        assert {search._side(number) for number in (begin + 2, end + 1)} == {
            (side, side)
        }  # counted after the first move


@pytest.mark.parametrize("shape", [(1, 6, 25), (3, 30, 8), (2, 9, 9), (1, 1, 40), (4, 2, 50)])
@pytest.mark.parametrize("norm", RADII)
def test_a_square_covers_its_share_of_images_that_are_no_squares(norm, shape):
    """As published: the root of the share times height times width, odd and at least three for bumps, no more than fit.

    At halving k of a search of 500 queries, between its ends in twentieths of the published numbers.
    """
    net, data = classifier()
    method = Square(queries=500, first=0.6)
    search = SquareSearch(
        differentiable(net), Threat(norm, 1.0).around(data.inputs), data.targets, method, torch.Generator()
    )
    search.shape = shape
    _, height, width = shape
    ends = [0, 0.5, 2.5, 10, 25, 50, 100, 200, 300, 400, 500]
    for number in range(1, 500):
        share = 0.6 / 2 ** sum(number - 1 > end for end in ends[1:])
        if height == 1:
            wanted = 1, min(max(round(share * width), 1), width)
        else:
            side = round(math.sqrt(share * height * width))
            side = max(side, 1) if norm == "linf" else max(side, 3) + (max(side, 3) % 2 == 0)
            wanted = min(side, height), min(side, width)
        assert search._side(number) == wanted


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("radius", [0.3, 1.0, 2.5])
def test_the_first_bumps_spend_the_whole_radius(norm, radius):
    net, data = classifier()
    region = Threat(norm, radius).around(data.inputs)
    search = SquareSearch(differentiable(net), region, data.targets, Square(), torch.Generator().manual_seed(0))
    lengths = torch.linalg.vector_norm((search._first(region) - data.inputs).flatten(1), ord=int(norm[1]), dim=1)
    assert lengths.tolist() == pytest.approx([radius] * len(data))


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_a_changed_square_spends_what_its_windows_held(norm):
    net, data = classifier()
    region = Threat(norm, RADII[norm]).around(data.inputs)
    search = SquareSearch(differentiable(net), region, data.targets, Square(), torch.Generator().manual_seed(0))
    start = search._first(region) - data.inputs
    for share in (1.0, 0.7):  # what was not spent before is spent, too
        draw = search._draws(len(data))
        move = (search._changed(region, data.inputs + share * start, (3, 3), draw) - data.inputs).flatten(1)
        assert torch.linalg.vector_norm(move, ord=int(norm[1]), dim=1).tolist() == pytest.approx(
            [RADII[norm]] * len(data)
        )
        own, other = (search._pixels((3, 3), part) for part in (draw, draw[:, 2:]))
        moved = move.view(len(data), *own.shape[1:2], -1)
        grown = torch.zeros_like(moved, dtype=torch.bool).scatter_(2, own, True)
        paid = torch.zeros_like(grown).scatter_(2, other, True) & ~grown
        assert bool(paid.flatten(1).any(1).any())
        assert float(moved[paid].abs().max()) <= 4 * torch.finfo(move.dtype).eps, "the other window is flat"


def correct_ones():
    net, data = classifier()
    right = attack(net, data, Threat("linf", 0.0), Pgd(steps=1)).clean_correct
    return net, type(data)(data.inputs[right], data.targets[right])


def test_impatience_turns_to_half_of_the_batch_and_ends():
    net, known = correct_ones()
    idle = attack(net, known, Threat("linf", 0.0), Square(queries=10_000, patience=40, restarts=3))
    sizes = [len(known)]
    while len(sizes) < 6:
        sizes.append((sizes[-1] + 1) // 2)
    # nothing moves at radius zero; the first two stretches have a quarter and a half of the later ones' passes
    most = [40, 4 * 40, 16 * 40, 32 * 40, 64 * 40, 128 * 40]
    assert idle.queries == sum(size * each for size, each in zip(sizes, most, strict=True))


def test_a_patient_run_that_found_much_is_repeated():
    net, known = correct_ones()
    threat = Threat("linf", 0.03, (0, 1))
    once, twice = (attack(net, known, threat, Square(queries=40, patience=40, restarts=runs)) for runs in (1, 2))
    rare = attack(net, known, Threat("linf", 0.0), Square(queries=40, patience=40, restarts=2))
    assert 0 < int(once.success.sum()) < len(known)
    assert once.queries < twice.queries <= once.queries + 40 * int((~once.success).sum())
    assert rare.queries == 40 * len(known)


@pytest.mark.parametrize(("found", "runs"), [((2, 1, 0), [100, 98, 97]), ((1, 0, 0), [100]), ((2, 0, 0), [100, 98])])
def test_a_run_is_repeated_by_what_it_found_of_those_it_began_with(found, runs, monkeypatch):
    """A hundred of four hundred are right as they are; a hundredth of these is one."""
    inputs, labels, begun = torch.zeros(400, 4), torch.ones(400, dtype=torch.long), []
    labels[:100] = 0
    search = SquareSearch(
        differentiable(lambda x: x[:, :2] + torch.tensor([1.0, 0.0])), Threat("linf", 0.1).around(inputs), labels,
        Square(queries=9, patience=2, restarts=3), torch.Generator(),
    )  # fmt: skip

    def pretended(rows):
        some = found[len(begun)]
        begun.append(len(rows))
        search.fooled[rows[:some]] = True
        search.counts.append(search.counts[-1] + some)

    monkeypatch.setattr(search, "_search", pretended)
    search.run()
    assert begun == runs


def test_patience_as_long_as_the_search_changes_nothing():
    net, known = correct_ones()
    threat = Threat("linf", 0.08, (0, 1))
    whole, patient = (attack(net, known, threat, Square(queries=120, patience=most)) for most in (None, 120))
    assert torch.equal(whole.inputs, patient.inputs)
    assert whole.queries == patient.queries


def test_those_who_go_on_are_nearest_and_nobody_loses_what_was_found():
    net, known = correct_ones()
    threat = Threat("linf", 0.01, (0, 1))
    early = attack(net, known, threat, Square(queries=5000, patience=10))
    late = attack(net, known, threat, Square(queries=10, patience=None))
    asked = []
    inner = SquareSearch._store

    def store(self, now):
        asked.append((set(now.rows.tolist()), now.value.clone(), now.fooled.clone(), now.rows.clone()))
        inner(self, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SquareSearch, "_store", store)
        again = attack(net, known, threat, Square(queries=5000, patience=10))
    assert torch.equal(again.inputs, early.inputs)
    assert bool((early.margins <= attack(net, known, Threat("linf", 0.0), Square(queries=1)).margins + 1e-12).all())
    assert late.queries < early.queries
    for (_, value, fooled, rows), (after, *_) in pairwise(asked):
        left = [row in after for row in rows.tolist()]
        stay = torch.tensor(left)
        if bool(fooled.any()):
            assert torch.equal(stay, ~fooled)
        else:
            assert int(stay.sum()) == (len(rows) + 1) // 2
            assert float(value[stay].min()) >= float(value[~stay].max())


@pytest.mark.parametrize("norm", RADII)
def test_a_recorded_look_does_what_its_queries_do_or_is_not_used(norm):
    net, data = classifier()
    region = Threat(norm, RADII[norm] / 4, (0, 1)).around(data.inputs)
    search = SquareSearch(differentiable(net), region, data.targets, Square(), torch.Generator().manual_seed(0))
    rows, look = torch.arange(len(data)), range(10, 20)
    draws = search._draws(3, len(look), len(data))
    one, other = search._seekers(rows), search._seekers(rows)
    replay = search._recorded(one, look, draws[0])
    for draw in draws[1:]:
        replay(draw)
        search._ask(other, look, draw)
        assert bool((one.current != region.inputs).any())
        assert all(torch.equal(*parts) for parts in zip(one.state, other.state, strict=True))
    search.tape = differentiable(Noisy(net).eval())
    before = [part.clone() for part in one.state]
    assert search._recorded(one, look, draws[0]) is None
    assert all(torch.equal(*parts) for parts in zip(one.state, before, strict=True))


@pytest.mark.parametrize("norm", RADII)
def test_the_best_of_several_squares_at_a_time_stays(norm):
    net, data = classifier()
    region = Threat(norm, RADII[norm] / 4, (0, 1)).around(data.inputs)
    search = SquareSearch(differentiable(net), region, data.targets, Square(), torch.Generator().manual_seed(0))
    rows, look, count = torch.arange(len(data)), range(12, 27, 3), len(data)
    now = search._seekers(rows)
    search._ask(now, range(1), search._draws(1, count))
    current, value, fooled = (part.clone() for part in now.state)
    draws = search._draws(len(look), 3 * count)
    search._ask(now, look, draws)
    changed = 0
    for number, draw in zip(look, draws, strict=True):
        for row in range(count):
            one, base = Threat(norm, RADII[norm] / 4, (0, 1)).around(data.inputs[[row]]), current[[row]].clone()
            for tried in range(3 * row, 3 * row + 3):
                point = search._changed(one, base, search._side(number), draw[[tried]])
                outputs = net(point)[0]
                others = outputs.clone()
                others[data.targets[row]] = -torch.inf
                loss = others.max() - outputs[data.targets[row]]
                if not fooled[row] and loss > value[row]:
                    current[row], value[row], changed = point[0], loss.detach(), changed + 1
                if loss > 0:  # the first that fools
                    break
            fooled[row] |= value[row] > 0
    assert changed > count
    torch.testing.assert_close(now.value, value, rtol=0, atol=1e-12)
    torch.testing.assert_close(now.current, current, rtol=0, atol=1e-12)
    assert torch.equal(now.fooled, fooled)


def test_halved_batches_ask_as_many_at_a_time_and_never_more_than_they_may(monkeypatch):
    net, known = correct_ones()
    asked, inner = [], SquareSearch._ask

    def ask(self, now, look, draws):
        asked.append((len(now.rows), look))
        return inner(self, now, look, draws)

    monkeypatch.setattr(SquareSearch, "_ask", ask)
    idle = attack(net, known, Threat("linf", 0.0), Square(queries=355, patience=10))
    assert [look.step for _, look in asked] == sorted(look.step for _, look in asked)
    assert {(count, look.step) for count, look in asked} == {
        (-(-len(known) // 2**halvings), 2**halvings) for halvings in range(4)
    }
    queries = [number for _, look in asked for number in range(look.start, look.stop)]
    assert queries == list(range(len(queries)))
    assert 355 - 8 < len(queries) <= 355
    assert idle.queries == sum(count * len(look) * look.step for count, look in asked)


@pytest.mark.parametrize("shape", [(2, 7, 7), (3, 5, 9), (1, 12, 7)])
def test_squares_lie_where_the_published_ones_do(shape):
    net, data = classifier()
    region = Threat("l2", 1.0).around(data.inputs)
    search = SquareSearch(differentiable(net), region, data.targets, Square(), torch.Generator())
    search.shape = shape
    _, height, width = shape
    draw = torch.rand(2000, 2, generator=torch.Generator().manual_seed(0))
    draw[:2] = torch.tensor([[0.0, 0.0], [1.0, 1.0]])  # a product with a number just below one may round to it
    pixels = search._pixels((3, 5), draw)[:, 0]
    rows, columns = pixels // width, pixels % width
    corners = {(int(row.min()), int(column.min())) for row, column in zip(rows, columns, strict=True)}
    assert corners == {(top, left) for top in range(height - 3) for left in range(width - 5)}
    assert bool((rows.amax(1) - rows.amin(1) == 2).all())
    assert bool((columns.amax(1) - columns.amin(1) == 4).all())
    whole = search._pixels((height, width), draw)[:, 0]
    assert bool((whole == torch.arange(height * width)).all())


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (3, 3), (5, 7), (2, 2)])
def test_bumps_have_two_signs_and_norm_one(shape):
    hill = bump(*shape, torch.float64)
    assert tuple(hill.shape) == shape
    assert float(hill.norm()) == pytest.approx(1.0)
    if hill.numel() > 1:
        assert float(hill.min()) < 0 < float(hill.max())
        assert float(hill.clamp_min(0).norm()) == pytest.approx(float(hill.clamp_max(0).norm()))


def published_hill(tall, broad):
    """Entry (r, s) is the sum of 1 / (k + 1)^2 from its distance to the middle on, the larger of the two, to n."""
    n = max(tall // 2, broad // 2)
    hill = torch.zeros(tall, broad, dtype=torch.float64)
    for r in range(tall):
        for s in range(broad):
            distance = max(abs(r - tall // 2), abs(s - broad // 2))
            hill[r, s] = sum(1 / (k + 1) ** 2 for k in range(distance, n + 1))
    return hill / hill.square().sum().sqrt()


@pytest.mark.parametrize("side", [2, 3, 6, 7])
def test_bumps_are_two_hills_of_the_published_shape(side):
    """Square Attack, the update for l2: the upper half of the square a hill, the lower half another one, turned."""
    half = side // 2
    expected = torch.cat([published_hill(half, side), -published_hill(side - half, side)]) / 2**0.5
    assert torch.allclose(bump(side, side, torch.float64), expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("bad", [{"queries": 0}, {"restarts": 0}, {"first": 1.5}, {"patience": 0}])
def test_bad_options_are_named(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Square(**bad)


def perceptron(depth: int) -> tuple[nn.Sequential, Sample]:
    """Images of two channels, labeled by the network itself, in double precision."""
    draws = torch.Generator().manual_seed(3)
    sizes = [2 * 144, *[9] * (depth - 1), 4]
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(sizes):
        layer = nn.Linear(before, after, dtype=torch.float64)
        nn.init.normal_(layer.weight, std=before**-0.5, generator=draws)
        layers += [layer, nn.ReLU()]
    net = nn.Sequential(*layers[:-1])
    images = torch.rand(25, 2, 12, 12, generator=draws, dtype=torch.float64)
    with torch.no_grad():
        net[-1].bias -= net(images).mean(0)
    return net, Sample(images, net(images).argmax(1))


def test_the_first_layer_is_told_apart_from_the_rest():
    net, data = perceptron(3)
    layer = FirstLayer(differentiable(net))
    sums = layer.sums(data.inputs)
    torch.testing.assert_close(layer.outputs(sums), net(data.inputs).detach(), rtol=0, atol=1e-13)
    places = torch.stack([torch.randperm(288)[:5] for _ in range(25)])
    changed = data.inputs.flatten(1).clone()
    changes = torch.rand(25, 5, dtype=torch.float64)
    changed.scatter_add_(1, places, changes)
    torch.testing.assert_close(sums + layer.added(places, changes), layer.sums(changed), rtol=0, atol=1e-13)
    assert [layer.pays(count) for count in (36, 37)] == [True, False]
    assert FirstLayer.of(differentiable(net), data.inputs) is not None
    assert FirstLayer.of(differentiable(net), data.inputs.half()) is None
    assert FirstLayer.of(differentiable(net.forward), data.inputs) is None


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("patience", [None, 3])
def test_a_first_layer_that_is_updated_finds_what_whole_passes_find(depth, patience, monkeypatch):
    """The same draws: every query changes the same square, and is judged by outputs that differ by rounding."""
    net, data = perceptron(depth)
    threat, method = Threat("linf", 0.03, (0, 1)), Square(queries=300, patience=patience, restarts=2)
    updates, real = [], SquareSearch._ask_by_updates

    def counted(self, layer, now, look, draws):
        updates.append(look)
        real(self, layer, now, look, draws)
        within = self.region.select(now.rows).contains(now.current)
        assert bool(within.all())

    monkeypatch.setattr(SquareSearch, "_ask_by_updates", counted)
    quick = attack(net, data, threat, method)
    assert len(updates) > 5
    assert min(look.start for look in updates) > 0
    assert patience is None or max(look.step for look in updates) > 1
    monkeypatch.setattr(FirstLayer, "of", lambda *given: None)
    whole = attack(net, data, threat, method)
    assert torch.equal(quick.inputs, whole.inputs)
    assert quick.queries == whole.queries
    assert 0 < int(whole.success.sum()) < len(data)
    assert not quick.warnings


def test_a_point_that_fools_is_kept_whatever_the_loss_of_runs_before() -> None:
    """Cross-entropy may have been larger at a point where the prediction is right."""
    inputs, labels = torch.zeros(3, 4), torch.tensor([0, 1, 2])
    region, method = Threat("linf", 0.1).around(inputs), Square(CrossEntropy(), queries=9, restarts=2)
    search = SquareSearch(differentiable(lambda x: x[:, :3]), region, labels, method, torch.Generator())
    search.fooled = torch.zeros(3, dtype=torch.bool)
    search.value.fill_(2.0)
    now = search._seekers(torch.tensor([0, 2]))
    now.current += 0.1
    now.value.fill_(1.0)
    now.fooled[1] = True
    search._store(now)
    assert search.best[:, 0].tolist() == pytest.approx([0.0, 0.0, 0.1])
    assert search.fooled.tolist() == [False, False, True]
    assert search.value.tolist() == [2.0, 2.0, 1.0]


def test_of_several_tries_one_that_fools_is_taken_whatever_its_loss() -> None:
    """Cross-entropy may be larger where the prediction is right."""
    inputs, labels = torch.zeros(2, 4), torch.tensor([0, 1])
    search = SquareSearch(
        differentiable(lambda points: points[:, :3]), Threat("linf", 0.1).around(inputs), labels,
        Square(CrossEntropy(), queries=9), torch.Generator(),
    )  # fmt: skip
    now = search._seekers(torch.arange(2))
    right, wrong, surer = [2.0, 1.99, 1.99], [0.0, 0.1, -9.0], [0.0, 9.0, 0.0]
    outputs = torch.tensor([right, wrong, surer, surer])
    better, chosen = search._judge(now, outputs, labels.repeat_interleave(2))
    assert chosen is not None
    assert chosen.tolist()[0] == 1
    assert better.tolist() == [True, True]
    assert now.fooled.tolist() == [True, False]
