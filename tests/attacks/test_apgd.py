"""Auto-PGD against worst cases that are known exactly, and its schedule against the published one."""

from __future__ import annotations

import pytest
import torch
from attacked import affine_scorer, classifier
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from droptics.attacks import (
    Apgd,
    CrossEntropy,
    Dlr,
    Fgsm,
    LinearExact,
    Logistic,
    Margin,
    Pgd,
    Reflected,
    Threat,
    attack,
    robust_accuracy,
)
from droptics.attacks.apgd import AdaptiveAscent, Record, check_points, sparse_direction
from droptics.attacks.gradients import differentiable
from droptics.attacks.losses import aimed
from droptics.data import Sample

RADII = {"linf": 0.08, "l2": 0.25, "l1": 0.9}


def test_check_points_are_the_published_ones():
    assert list(check_points(100, "linf")) == [22, 41, 57, 70, 80, 87, 93, 99]
    assert sum(check_points(100, "l2").values()) == 99
    assert list(check_points(50, "l1")) == list(range(2, 51, 2))


@pytest.mark.parametrize("norm", RADII)
@pytest.mark.parametrize("box", [None, (0.0, 1.0)])
def test_linear_models_are_attacked_to_the_exact_worst_case(norm, box):
    layer, data = affine_scorer()
    threat = Threat(norm, RADII[norm], box)
    exact = attack(layer, data, threat, LinearExact())
    found = attack(layer, data, threat, Apgd(Logistic(), steps=200))
    # What one misses and the other finds lies within the last step's reach of the boundary.
    assert bool((found.margins >= exact.margins - 1e-12)[~found.success].all()), "no margin below the least one"
    assert int((exact.success & ~found.success).sum()) <= int((exact.margins.abs() < 1e-3).sum())
    held = ~found.success
    if not bool(held.any()):
        return
    assert float((found.margins - exact.margins)[held].max()) < 0.02 * float(layer.weight.detach().norm()) * RADII[norm]


@pytest.mark.parametrize("norm", RADII)
@pytest.mark.parametrize(
    "loss", [CrossEntropy(), Margin(), Margin("every"), Dlr(), Dlr("nearest"), Dlr("every"), Reflected(CrossEntropy())]
)
def test_every_loss_and_norm_stays_inside_and_finds_what_pgd_finds(norm, loss):
    net, data = classifier()
    threat = Threat(norm, RADII[norm], (0, 1))
    found = attack(net, data, threat, Apgd(loss, steps=60))
    assert bool((found.radius <= RADII[norm] * (1 + 1e-9)).all())
    assert float(found.inputs.min()) >= 0
    assert float(found.inputs.max()) <= 1
    plain = attack(net, data, threat, Pgd(CrossEntropy(), steps=10))
    assert int(found.success.sum()) >= int(plain.success.sum()) - 2
    assert list(found.rates) == sorted(found.rates)


@pytest.mark.parametrize("norm", RADII)
def test_it_starts_where_it_is_told_to(norm, monkeypatch):
    net, data = classifier()
    threat = Threat(norm, RADII[norm], (0, 1))
    best = attack(net, data, threat, Apgd(steps=60)).inputs
    wrong = net(best).argmax(1) != data.targets
    assert 0 < int(wrong.sum()) < len(data)
    again = attack(net, data, threat, Apgd(steps=1, start=best))
    torch.testing.assert_close(again.inputs[wrong], best[wrong], rtol=0, atol=1e-13)  # what is wrong there is kept
    far = Apgd(steps=5, start=best.flip(0).float())  # far outside the region
    whole = attack(net, data, threat, far)
    assert not torch.equal(whole.inputs, attack(net, data, threat, Apgd(steps=5)).inputs)
    assert bool((whole.radius <= RADII[norm] * (1 + 1e-9)).all())
    monkeypatch.setattr("droptics.attacks.search._BLOCK", 1)
    assert torch.equal(whole.inputs, attack(net, data, threat, far).inputs)
    torch.testing.assert_close(whole.inputs, attack(net, data, threat, far, batch=7).inputs)


@pytest.mark.parametrize("loss", [Margin("greedy"), Margin("every")])
@pytest.mark.parametrize("side_by_side", [False, True])
def test_every_restart_may_start_at_a_point_of_its_own(loss, side_by_side, monkeypatch):
    """What several starts find at once is what each of them finds alone."""
    net, data = classifier()
    threat = Threat("linf", 0.02, (0, 1))
    starts = torch.stack([data.inputs.roll(turn, 0) for turn in (3, 11, 20)], 1)
    monkeypatch.setattr("droptics.attacks.apgd._AT_ONCE", 2**30 if side_by_side else 1)
    alone = [attack(net, data, threat, Apgd(loss, steps=6, start=starts[:, turn])) for turn in range(3)]
    method = Apgd(loss, steps=6, restarts=3, start=starts)
    together = attack(net, data, threat, method)
    fooled = torch.stack([one.success for one in alone])
    assert torch.equal(together.success, fooled.any(0))
    torch.testing.assert_close(attack(net, data, threat, method, batch=7).inputs, together.inputs)
    region = threat.around(data.inputs)
    climb = AdaptiveAscent(differentiable(net), region, data.targets, method, torch.Generator())
    climb.counts.append(0)
    now, _ = climb._begin(torch.arange(120), [2, 0], None, starts)
    assert torch.equal(now.points[:60], region.retract(starts[:, 2]))
    assert torch.equal(now.points[60:], region.retract(starts[:, 0]))


def test_classes_that_are_tried_at_once_are_not_put_in_order():
    """As on a GPU: the same runs without the gradients that would tell which of them comes first."""
    net, data = classifier()
    region = Threat("linf", 0.02, (0, 1)).around(data.inputs)
    found = []
    for hurries in (False, True):
        climb = AdaptiveAscent(differentiable(net), region, data.targets, Apgd(Margin("every")), torch.Generator())
        climb.hurries = hurries
        found.append(climb.run())
    slow, fast = found
    assert 0 < int(fast.fooled.sum()) < len(data)
    assert torch.equal(slow.fooled, fast.fooled)
    assert int(slow.tally[-1] - fast.tally[-1]) == 4 * int((net(data.inputs).argmax(1) == data.targets).sum())


@pytest.mark.parametrize("method", [Apgd, Fgsm, Pgd])
def test_starts_that_fit_nothing_are_named(method):
    net, data = classifier()
    threat = Threat("linf", 0.02, (0, 1))
    with pytest.raises(ValueError, match=r"start must hold one point for each of the inputs, of shape \(60, "):
        attack(net, data, threat, method(start=data.inputs[:5]))
    with pytest.raises(ValueError, match="start must be finite"):
        method(start=torch.tensor([0.5, torch.nan]))
    with pytest.raises(ValueError, match="methods must not start at given points"):
        robust_accuracy(net, data, threat, [method(start=data.inputs)])


def test_starts_of_restarts_that_fit_nothing_are_named():
    net, data = classifier()
    with pytest.raises(ValueError, match=r"one for each restart, of shape \(60, 2, "):
        attack(net, data, Threat("linf", 0.02, (0, 1)), Apgd(restarts=2, start=data.inputs[:, None]))


def test_a_seed_gives_the_same_points_and_random_starts_differ():
    net, data = classifier()
    threat = Threat("linf", 0.02, (0, 1))
    runs = [attack(net, data, threat, Apgd(steps=5, start="random", seed=seed)) for seed in (3, 3, 4)]
    assert torch.equal(runs[0].inputs, runs[1].inputs)
    assert not torch.equal(runs[0].inputs, runs[2].inputs)


def test_restarts_and_targets_only_add():
    net, data = classifier()
    threat = Threat("l2", 0.2, (0, 1))
    once = attack(net, data, threat, Apgd(Margin("greedy"), steps=20))
    often = attack(net, data, threat, Apgd(Margin("greedy"), steps=20, restarts=3))
    every = attack(net, data, threat, Apgd(Margin("every"), steps=20))
    assert bool((often.success >= once.success).all())
    assert int(every.success.sum()) >= int(once.success.sum())
    assert once.gradients < often.gradients


def test_the_ratio_sees_neither_scale_nor_offset_and_its_slope_is_its_derivative():
    outputs = torch.randn(7, 6, generator=torch.Generator().manual_seed(1)).double()
    targets = outputs.argsort(-1)[:, 3]
    aims = outputs.argsort(-1)[:, 1]
    for aim in (None, aims):
        value, slope = aimed(Dlr(), outputs, targets, aim)
        other, _ = aimed(Dlr(), 1e6 * outputs + 3, targets, aim)
        assert torch.allclose(value, other, rtol=1e-9)
        step = 1e-6 * torch.randn(outputs.shape, generator=torch.Generator().manual_seed(2)).double()
        ahead, behind = (aimed(Dlr(), outputs + sign * step, targets, aim)[0] for sign in (1, -1))
        assert torch.allclose((ahead - behind) / 2, (slope * step).sum(-1), rtol=1e-5, atol=1e-12)


def test_dlr_needs_three_classes():
    net = nn.Linear(3, 2).double()
    data = Sample(torch.rand(4, 3).double(), torch.zeros(4, dtype=torch.long))
    with pytest.raises(ValueError, match=r"Dlr.*use Margin"):
        attack(net, data, Threat("linf", 0.1), Apgd(Dlr()))


def test_sparse_steps_move_the_steepest_coordinates():
    gradient = torch.tensor([[3.0, -1.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0]])
    step = sparse_direction(gradient, torch.tensor([0.5, 0.5]))
    assert torch.equal(step[0], torch.tensor([0.5, -0.5, 0.0, 0.0]))
    assert torch.equal(step[1], torch.zeros(4)), "no slope, no step"


@pytest.mark.parametrize("share", [0.25, 0.0])
def test_a_sparse_step_along_one_coordinate_alone_has_length_one(share):
    """The steepest coordinate moves by all of the l1 norm, in the direction of its sign."""
    gradient = torch.tensor([[0.1, -3.0, 0.5, 1.0], [0.0, 0.0, 2.0, 0.0]])
    step = sparse_direction(gradient, torch.tensor([share, share]))
    assert torch.equal(step, torch.tensor([[0.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]))


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_first_step_has_no_momentum_and_ends_on_the_sphere(norm):
    """Twice the radius up an affine score, drawn back: a single rounding of each coordinate."""
    layer, data = affine_scorer()
    trail = AdaptiveAscent(
        differentiable(layer), Threat(norm, 1e-3).around(data.inputs), data.targets,
        Apgd(Logistic(), steps=1), torch.Generator(),
    ).run()  # fmt: skip
    way = -data.targets.reshape(-1, 1) * layer.weight.detach()
    step = way.sign() if norm == "linf" else way / way.norm(dim=1, keepdim=True)
    kept = ~trail.fooled
    assert int(kept.sum()) > 30
    torch.testing.assert_close(trail.inputs[kept], (data.inputs + 1e-3 * step)[kept], rtol=0, atol=1e-14)


@pytest.mark.parametrize("target", ["greedy", "nearest", "every"])
def test_gradients_are_those_of_who_is_right_as_it_is(target):
    """One for each class that is put in order, then one for each run that begins; a first step needs no other."""
    net, data = classifier()
    targets = data.targets.clone()
    targets[:7] = (targets[:7] + 1) % 5
    method = Apgd(Margin(target, candidates=3), steps=1)
    trail = AdaptiveAscent(
        differentiable(net), Threat("l2", 1e-6).around(data.inputs), targets, method, torch.Generator()
    ).run()
    ordered, runs = {"greedy": (0, 1), "nearest": (3, 1), "every": (3, 3)}[target]
    assert int(trail.tally[0]) == 7
    assert int(trail.tally[-1]) == 53 * (ordered + runs)


@pytest.mark.parametrize("bad", [{"steps": 0}, {"restarts": 0}, {"start": "middle"}])
def test_bad_options_are_named(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Apgd(**bad)


@pytest.mark.parametrize("loss", [CrossEntropy(), Margin("every"), Dlr("every")])
@pytest.mark.parametrize("norm", RADII)
@pytest.mark.parametrize("steps", [6, 40])  # too few to record a step, and enough to leave on the way
@pytest.mark.parametrize("start", ["input", "random"])
def test_the_search_without_questions_finds_the_same(norm, loss, steps, start):
    net, data = classifier()
    method = Apgd(loss, steps=steps, restarts=2, start=start)
    region = Threat(norm, 0.25 * RADII[norm], (0, 1)).around(data.inputs)
    found = []
    for records in (False, True):
        generator = torch.Generator().manual_seed(5)
        climb = AdaptiveAscent(differentiable(net), region, data.targets, method, generator)
        climb.records = records
        found.append(climb.run())
    here, there = found
    assert 0 < int(here.fooled.sum()) < len(data)
    assert torch.equal(here.fooled, there.fooled)
    assert torch.equal(here.stuck, there.stuck)
    # Products over a batch of another size round differently, and 40 steps of this size add that up.
    torch.testing.assert_close(here.inputs, there.inputs, atol=1e-10, rtol=0)
    assert int(there.tally[-2]) == int(here.tally[-2])
    assert int(there.tally[-1]) >= int(here.tally[-1])


@pytest.mark.parametrize("records", [False, True])
def test_batches_of_sizes_that_recur_find_the_same(records):
    """As on a GPU: fooled examples fill the batch up to whole blocks, four and more."""
    net, data = classifier()
    targets = torch.where(torch.arange(60) % 9 == 0, (data.targets + 1) % 5, data.targets)
    region = Threat("linf", 0.25 * RADII["linf"], (0, 1)).around(data.inputs)
    found, sizes = [], set()
    for block in (0, 8):
        tape = differentiable(net)
        climb = AdaptiveAscent(tape, region, targets, Apgd(steps=30), torch.Generator())
        climb.block, climb.records = block, records
        forward = tape.forward
        tape.forward = lambda points, forward=forward: sizes.add(len(points)) or forward(points)
        sizes.clear()
        found.append(climb.run())
    here, there = found
    assert sizes <= {8, 32, 40, 48, 60}
    assert len(sizes) > 1
    assert 0 < int((~here.fooled).sum()) <= 32
    assert torch.equal(here.fooled, there.fooled)
    torch.testing.assert_close(here.inputs, there.inputs, atol=1e-10, rtol=0)
    assert here.tally[:-1].tolist()[-1] == there.tally[:-1].tolist()[-1]


@pytest.mark.parametrize("loss", [Margin("every"), Dlr("every")])
@pytest.mark.parametrize("norm", RADII)
@pytest.mark.parametrize("records", [False, True])
def test_runs_side_by_side_find_what_they_find_in_turn(norm, loss, records, monkeypatch):
    net, data = classifier()
    region = Threat(norm, 0.25 * RADII[norm], (0, 1)).around(data.inputs)
    found = []
    for most in (1, 2**30):
        monkeypatch.setattr("droptics.attacks.apgd._AT_ONCE", most)
        tape = differentiable(net)
        climb = AdaptiveAscent(tape, region, data.targets, Apgd(loss, steps=30), torch.Generator())
        climb.records = records
        sizes, forward = [], tape.forward
        tape.forward = lambda points, forward=forward, sizes=sizes: sizes.append(len(points)) or forward(points)
        found.append(climb.run())
        assert (max(sizes) > 2 * len(data)) == (most > 1)
        assert len(sizes) < (130 if most == 1 else 35)
    turns, together = found
    held = ~turns.fooled
    assert 0 < int(held.sum()) < len(data)
    assert torch.equal(turns.fooled, together.fooled)
    assert torch.equal(turns.stuck, together.stuck)
    # Those that hold end at the best point of all their runs; batches of another size round differently, and thirty
    # normalized steps multiply that. Where it decides which entries move, one path in twenty may be another one;
    # another run ends a good part of the radius away for nearly all.
    apart = (turns.inputs - together.inputs)[held].flatten(1).abs().amax(1)
    assert int((apart > 1e-8).sum()) <= len(apart) // 20
    assert bool((net(together.inputs).argmax(1) != data.targets)[~held].all())
    rates = together.tally[:-1].tolist()
    assert rates == sorted(rates)
    assert rates[-1] == int(turns.tally[-2]) == int((~held).sum())


def test_all_restarts_from_random_points_are_side_by_side_and_repeat():
    net, data = classifier()
    threat = Threat("linf", 0.02, (0, 1))
    method = Apgd(Dlr("every"), steps=5, restarts=3, start="random", seed=3)
    one, again = (attack(net, data, threat, method) for _ in range(2))
    assert torch.equal(one.inputs, again.inputs)
    few = attack(net, data, threat, Apgd(Dlr("every"), steps=5, start="random", seed=3))
    assert int(one.success.sum()) >= int(few.success.sum())
    assert len(one.rates) == len(few.rates)  # three times the runs, in the same number of steps


def test_a_recording_that_does_not_say_what_the_passes_say_is_not_used(monkeypatch):
    net, data = classifier()
    region = Threat("linf", 0.25 * RADII["linf"], (0, 1)).around(data.inputs)
    plain = AdaptiveAscent(differentiable(net.forward), region, data.targets, Apgd(steps=30), torch.Generator()).run()
    asked = []

    def stale(step, *_, **__):  # as if an output came from another pass
        def replay():
            asked.append(1)
            step()
            step.args[0].now.value.add_(1e-3)

        return replay

    monkeypatch.setattr("droptics.attacks.apgd.captured", stale)
    climb = AdaptiveAscent(differentiable(net.forward), region, data.targets, Apgd(steps=30), torch.Generator())
    climb.records = True
    found = climb.run()
    assert asked == [1]
    assert torch.equal(found.inputs, plain.inputs)
    assert found.tally.tolist() == plain.tally.tolist()


class Questions(TorchDispatchMode):
    """Operations for whose answer a GPU would have to be waited for."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, given=(), named=None):
        if any(word in str(function) for word in ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero")):
            self.names.append(str(function))
        return function(*given, **(named or {}))


@pytest.mark.parametrize("norm", RADII)
def test_a_step_that_is_recorded_asks_nothing_and_writes_in_place(norm):
    net, data = classifier()
    region = Threat(norm, RADII[norm], (0, 1)).around(data.inputs)
    climb = AdaptiveAscent(differentiable(net), region, data.targets, Apgd(Dlr("every")), torch.Generator())
    climb.counts.append(0)
    rows = torch.arange(len(data))
    now, _ = climb._begin(rows, [0], data.targets.roll(1)[:, None], "random")
    record = Record(
        now.select(rows), data.inputs.clone(), torch.zeros(9, dtype=torch.int64), torch.zeros_like(rows[:1])
    )
    climb._blind_step(record, region)
    places = [part.data_ptr() for part in vars(record.now).values()]
    with Questions() as asked:
        climb._blind_step(record, region)
    # Whether an l2 norm underflows is asked on the CPU alone (`Threat.steepest`).
    assert asked.names == (["aten._local_scalar_dense.default"] if norm == "l2" else [])
    assert [part.data_ptr() for part in vars(record.now).values()] == places
    caught = (record.caught != data.inputs).flatten(1).any(1)
    assert int(record.counts.sum()) == int((record.now.fooled & caught).sum())


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_steps_are_halved_by_the_published_rule_and_never_grow(norm):
    """Halved where the loss rose in fewer than 75 % of the steps, or neither step nor best value changed."""
    net, data = classifier()
    threat = Threat(norm, RADII[norm], (0, 1))
    some = Sample(data.inputs[:4], data.targets[:4])
    draws = torch.Generator().manual_seed(0)
    search = AdaptiveAscent(differentiable(net), threat.around(some.inputs), some.targets, Apgd(), draws)
    search.counts.append(0)
    now, region = search._begin(torch.arange(4), [0], None, "input")
    now.points = region.random(draws)
    now.rises = torch.tensor([8, 7, 8, 8])  # of ten steps: enough, too few, enough, enough
    now.last_step = torch.stack([now.step[0], now.step[1], now.step[2], 2 * now.step[3]])  # halved before: the last
    now.last_best = now.best_value - torch.tensor([1.0, 1.0, 0.0, 0.0])  # what stands still: the last two
    now.gradient, now.value = now.gradient + 1, now.value - 1  # those of the points that they left
    before, stood = now.step.clone(), now.points.clone()
    after = search._adapted(now, region, 10, in_place=False)
    halved = torch.tensor([False, True, True, False])
    assert torch.equal(after.step, torch.where(halved, before / 2, before))
    assert torch.equal(after.points[halved], now.best_points[halved])
    assert torch.equal(after.points[~halved], stood[~halved])
    # whoever returns has slope, value and past of the point to which it returns
    for mine, best in ((after.gradient, now.best_gradient), (after.value, now.best_value)):
        assert torch.equal(mine[halved], best[halved])
    assert torch.equal(after.gradient[~halved], now.gradient[~halved])
    assert torch.equal(after.value[~halved], now.value[~halved])
    assert torch.equal(after.before[halved], now.best_points[halved])
    assert torch.equal(after.before[~halved], now.before[~halved])
    assert not bool(after.rises.any())
    assert torch.equal(after.last_step, before)
