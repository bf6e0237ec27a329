"""Copies train as torch trains, alike alone and together, here and elsewhere, interrupted or not."""

import copy
import json
import math
import multiprocessing
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from tuned import RATES, Branching, Everything, data, flipped, perceptron, plain_fit, seeded

from droptics.evidence.engines import Dask, Local, Processes, one_thread
from droptics.losses import CrossEntropy
from droptics.models.watching import Places
from droptics.rates import Fit, copies, tune_rates
from droptics.rates.copies import Problem, same_bits, train_copies
from droptics.rates.examples import Examples
from droptics.rates.masking import SharedMasks
from droptics.rates.randomness import key
from droptics.rates.running import Runner, _trained

FIT = Fit(epochs=3, batch_size=16, step_size=1e-2, looks=4)
OPTIMIZERS = {
    "sgd": (Fit(epochs=2, batch_size=16, optimizer="sgd", step_size=0.05, momentum=0.9, decay=0.01), torch.optim.SGD),
    "adam": (Fit(epochs=2, batch_size=16, step_size=0.01, decay=0.01), torch.optim.Adam),
    "adamw": (Fit(epochs=2, batch_size=16, optimizer="adamw", step_size=0.01, decay=0.1), torch.optim.AdamW),
}


def problem(module: nn.Module, fit: Fit, train=None, validation=None) -> Problem:
    cpu = torch.device("cpu")
    examples = Examples.of(train or data(40, 1), "train", cpu)
    held = Examples.of(validation or data(30, 2), "validation", cpu)
    return Problem(module, examples, examples.some(30, 0), held, CrossEntropy(), fit, {})


def numbers(found) -> list[object]:
    """All that may not depend on how copies ran."""
    return [(point.stage, dict(point.rates), point.loss, point.paired_error, point.steps) for point in found.points]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_copy_trains_as_torch_trains(name):
    """The loop by hand with torch.optim, the same batches and masks: losses agree to the rounding of a few steps."""
    fit, kind = OPTIMIZERS[name]
    module = perceptron().double()
    setting = dict.fromkeys(("0", "3", "6"), 0.3)
    train = tuple(value.double() if value.is_floating_point() else value for value in data(40, 1))
    held = tuple(value.double() if value.is_floating_point() else value for value in data(30, 2))
    ours = problem(module, fit, train, held)
    (row,) = train_copies(ours, [setting], 5, "single")
    own, places = copy.deepcopy(module).train(), None
    options = {"momentum": 0.9} if name == "sgd" else {}
    search = kind(own.parameters(), lr=fit.step_size, weight_decay=fit.decay, **options)
    for step in range(6):
        epoch, place = divmod(step, 3)
        batch = ours.train.batch(ours.train.order(epoch, 5), place, 16)
        search.zero_grad()
        places = Places(own)
        with SharedMasks(_named(places, own), setting, 5, step, []):
            outputs = own(batch.arguments[0])
        nn.functional.cross_entropy(outputs, batch.targets).backward()
        search.step()
    losses = nn.functional.cross_entropy(own.eval()(held[0]), held[1], reduction="none")
    assert row["step"] == 6 or row["looks"][-1][0] == 6
    assert row["looks"][-1][1] == pytest.approx(float(losses.detach().mean()), rel=1e-9)


def _named(places: Places, module: nn.Module) -> Places:
    """Names without hooks: the layers of a sequence run in order."""
    names = iter(name for name, part in module.named_modules() if isinstance(part, nn.Dropout))
    places.name = lambda what: next(names)
    return places


@pytest.mark.parametrize("form", ["single", "population"])
def test_losses_at_the_end_are_the_mean_of_looks(form):
    """120 steps, of which the last 12 are the end: every third of them ends a training of its own."""
    fit = Fit(epochs=40, batch_size=16, step_size=1e-2, stop="last", looks=1, tail=4)
    assert fit.look_steps(120) == fit.tail_steps(120) == [111, 114, 117, 120]
    setting = dict.fromkeys(("0", "3", "6"), 0.3)
    (row,) = train_copies(problem(perceptron(), fit), [setting], 5, form)
    ends = [replace(fit, epochs=epochs, tail=1) for epochs in (37, 38, 39, 40)]
    alone = [train_copies(problem(perceptron(), end), [setting], 5, form)[0] for end in ends]
    wanted = torch.tensor([one["losses"] for one in alone], dtype=torch.float64).mean(0)
    # four sums of double precision in another order
    torch.testing.assert_close(torch.tensor(row["losses"], dtype=torch.float64), wanted, rtol=1e-14, atol=0)
    assert row["training"] == pytest.approx(sum(one["training"] for one in alone) / 4, rel=1e-14)
    assert row["step"] == 120
    assert Fit(stop="best").tail_steps(120) == []


def test_what_diverges_in_the_tail_stays_infinite():
    record = copies._Record(1, 2, [1, 2, 3])
    for step, value in ((1, 1.0), (2, math.inf), (3, 1.0)):
        record.look(step, torch.tensor([[value, 1.0]]), torch.tensor([1.0]))
    assert record.rows()[0]["losses"] is None


STAGES = ("scan", "design", "path", "guard")


def all_stages(**options):
    """A network that learns wrong labels by heart: dropout pays, most before its hidden units."""
    layers = [nn.Dropout(0.5), nn.Linear(11, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 2)]
    fit = Fit(epochs=20, batch_size=50, step_size=1e-2, stop="last", looks=1, tail=2)
    given = {"fit": fit, "scan": (0.0, 0.4, 0.95), "split": "factorial", "progress": False} | options
    found = tune_rates(seeded(nn.Sequential(*layers)), flipped(60, 1), flipped(3000, 2), **given)
    assert tuple(dict.fromkeys(point.stage for point in found.points)) == STAGES
    return found


@pytest.fixture(scope="module")
def whole():
    return all_stages()


def test_alone_and_together_are_the_same_bits(whole):
    together, apart = (all_stages(population=choice) for choice in ("together", "apart"))
    assert together.cost.together
    assert not apart.cost.together
    assert numbers(apart) == numbers(whole)
    if whole.cost.together:  # what rounds otherwise in a population ran apart
        assert numbers(together) == numbers(whole)
    assert whole.rates == apart.rates


@pytest.mark.slow
def test_processes_give_the_same_numbers(whole):
    elsewhere = all_stages(engine=Processes(2))
    assert numbers(elsewhere) == numbers(whole)
    assert elsewhere.rates == whole.rates


@pytest.mark.parametrize("stage", STAGES)
def test_a_run_that_stopped_in_any_stage_goes_on(tmp_path, monkeypatch, whole, stage):
    train, advance, at = Runner._train, copies._Population.advance, []

    def noted(self, tasks, form, stage):
        at.append(stage)
        train(self, tasks, form, stage)

    def stopped(self, batch, fit):
        if at and at[-1] == stage and self.step == 9:
            raise KeyboardInterrupt
        advance(self, batch, fit)

    with monkeypatch.context() as patched:
        patched.setattr(Runner, "_train", noted)
        patched.setattr(copies._Population, "advance", stopped)
        with pytest.raises(KeyboardInterrupt):
            all_stages(store=tmp_path)
    found = all_stages(store=tmp_path)
    assert numbers(found) == numbers(whole)
    assert found.rates == whole.rates
    assert found.cost.resumed == (0, 3, 7, 11)[STAGES.index(stage)]


def test_a_population_is_compared_with_its_copies_bit_by_bit(monkeypatch):
    """A kernel that adds in another order in a population is noticed, and copies then run apart."""
    given = problem(perceptron(), FIT)
    settings = [dict.fromkeys(("0", "3", "6"), rate) for rate in RATES]
    with one_thread():
        first = same_bits(given, settings, 0)
    update = Fit.update

    def rounding(self, weights, slopes, moments, step):
        found = update(self, weights, slopes, moments, step)
        return {name: value * (1 + 1e-6 * (len(value) > 1)) for name, value in found.items()}

    monkeypatch.setattr(Fit, "update", rounding)
    with one_thread():
        assert first in (True, False)
        assert same_bits(given, settings, 0) is False


@pytest.mark.parametrize("which", [0, -1])
def test_the_first_and_the_last_copy_are_compared(monkeypatch, which):
    """One copy alone that rounds otherwise among others is noticed, at either end of the population."""
    given = problem(perceptron(), FIT)
    settings = [dict.fromkeys(("0", "3", "6"), rate) for rate in RATES]
    trial = copies._trial

    def alone(given, rates, seed):
        """Every copy as if it ran alone, then one of several a little off."""
        parts = [trial(given, [rate], seed) for rate in rates]
        whole = [torch.cat(piece) for piece in zip(*parts, strict=True)]
        if len(rates) > 1 and off:
            whole[0][which] *= 1 + 1e-6
        return whole

    monkeypatch.setattr(copies, "_trial", alone)
    for off in (False, True):
        assert same_bits(given, settings, 0) is not off


def test_dask_gives_the_same_numbers(whole):
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**settings) as cluster:
        found = all_stages(engine=Dask(cluster.scheduler_address))
    assert numbers(found) == numbers(whole)


def test_what_vmap_refuses_runs_one_by_one():
    module = Branching()
    found = tune_rates(module, data(40, 1), data(30, 2), fit=FIT, scan=RATES, progress=False)
    assert not found.cost.together
    with pytest.raises(ValueError, match="population"):
        tune_rates(module, data(40, 1), data(30, 2), fit=FIT, scan=RATES, population="together")


def test_every_kind_of_site_is_tuned():
    module = Everything()
    generator = torch.Generator().manual_seed(0)
    train, held = ((torch.randn(n, 5, 4, generator=generator), torch.arange(n) % 3) for n in (20, 12))
    found = tune_rates(module, train, held, fit=Fit(epochs=1, batch_size=10, looks=1), scan=(0.1, 0.4), progress=False)
    kinds = {site.name: site.kind for site in found.sites}
    assert kinds == {
        "lstm.LSTM_dropout": "LSTM dropout",
        "heads.attention_dropout": "attention dropout",
        "attention_dropout": "attention dropout",
        "maps": "dropout1d",
        "alpha": "alpha dropout",
    }
    assert found.points[0].loss != found.points[1].loss
    fresh = Everything()
    assert found.apply(fresh) == []
    rates = {fresh.lstm.dropout, fresh.heads.dropout, fresh.attention_dropout, fresh.maps.p, fresh.alpha.p}
    assert rates == {found.best}


def test_batch_norm_keeps_statistics_per_copy_and_leaves_the_module_alone():
    module = seeded(nn.Sequential(nn.Linear(7, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3)))
    before = copy.deepcopy(module.state_dict())
    found = tune_rates(module, data(40, 1), data(30, 2), fit=FIT, scan=(0.0, 0.4), progress=False)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    alone = [
        train_copies(problem(module, FIT), [{"3": rate}], key(0, "scan", 0), "single")[0]["looks"][-1][1]
        for rate in (0.0, 0.4)
    ]
    # the last look of either form; ten steps of float32 apart
    assert [point.loss for point in found.points] == pytest.approx(alone, rel=0.2)


def test_the_module_and_the_random_states_are_as_before():
    module = perceptron().train()
    module[3].eval()
    weights, modes = copy.deepcopy(module.state_dict()), [part.training for part in module.modules()]
    module[1].weight.grad = torch.ones_like(module[1].weight)
    state = torch.get_rng_state()
    tune_rates(module, data(40, 1), data(30, 2), fit=FIT, scan=RATES, progress=False)

    def check() -> None:
        assert torch.equal(torch.get_rng_state(), state)
        assert [part.training for part in module.modules()] == modes
        assert all(torch.equal(weights[name], value) for name, value in module.state_dict().items())
        assert bool((module[1].weight.grad == 1).all())
        assert all(not part._forward_hooks and not part._forward_pre_hooks for part in module.modules())
        assert torch.get_num_threads() == threads

    threads = torch.get_num_threads()
    check()

    def failing(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if outputs.requires_grad and len(outputs) == 16:
            raise KeyboardInterrupt
        return nn.functional.cross_entropy(outputs, targets, reduction="none")

    with pytest.raises(KeyboardInterrupt):
        tune_rates(module, data(40, 1), data(30, 2), failing, fit=FIT, scan=RATES, progress=False)
    check()


def test_a_fit_of_your_own_sees_shared_masks():
    module = perceptron()
    found = tune_rates(module, data(40, 1), data(30, 2), fit=plain_fit, scan=RATES, progress=False)
    again = tune_rates(module, data(40, 1), data(30, 2), fit=plain_fit, scan=RATES, progress=False)
    assert numbers(found) == numbers(again)
    assert len({point.loss for point in found.points}) == 3
    seen = []

    def watching(module, data, seed):
        seen.append((module[0].p, seed, module[0](torch.ones(50))))

    tune_rates(module, data(40, 1), data(30, 2), fit=watching, scan=RATES, progress=False)
    assert [item[0] for item in seen] == list(RATES)
    assert len({item[1] for item in seen}) == 1
    fallen = [item[2] == 0 for item in seen]
    assert not bool((fallen[1] & ~fallen[2]).any())
    assert int(fallen[2].sum()) > int(fallen[1].sum()) > 0 == int(fallen[0].sum())


def test_recomputed_activations_are_refused():
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(7, 5), nn.Dropout(0.5), nn.Linear(5, 3))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return torch.utils.checkpoint.checkpoint(self.body, inputs, use_reentrant=False)

    with pytest.raises(ValueError, match="checkpointing"):
        tune_rates(Checkpointed(), data(40, 1), data(30, 2), fit=FIT, scan=RATES, progress=False)


def _until_killed(folder: str) -> None:
    tune_rates(perceptron(), data(40, 1), data(30, 2), fit=SLOW, scan=RATES, store=folder, progress=False)


SLOW = Fit(epochs=60, batch_size=16, looks=60)


@pytest.mark.slow
def test_a_killed_run_resumes(tmp_path):
    whole = tune_rates(perceptron(), data(40, 1), data(30, 2), fit=SLOW, scan=RATES, progress=False)
    process = multiprocessing.get_context("spawn").Process(target=_until_killed, args=(str(tmp_path),))
    process.start()
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("*.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.join()
    assert list(tmp_path.glob("*.safetensors")), "killed before its first checkpoint or after its end"
    found = tune_rates(perceptron(), data(40, 1), data(30, 2), fit=SLOW, scan=RATES, store=tmp_path, progress=False)
    assert numbers(found) == numbers(whole)


def test_what_is_left_of_a_population_is_told_and_its_buffers_go_on(tmp_path):
    """Two copies of five steps each, broken off after three of both; running moments are no weights."""
    module = seeded(nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 3)))
    fit = Fit(epochs=1, batch_size=8, step_size=1e-2, looks=5)
    rates, place = [{"2": 0.2}, {"2": 0.6}], copies.Checkpoint(str(tmp_path / "x.safetensors"), "this")
    whole = train_copies(problem(module, fit), rates, 7, "population")
    ticks = []

    def broken(steps):
        ticks.append(steps)
        if len(ticks) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_copies(problem(module, fit), rates, 7, "population", place, broken)
    later = []
    assert train_copies(problem(module, fit), rates, 7, "population", place, later.append) == whole
    assert (ticks, later) == ([2, 2, 2], [6, 2, 2])


def test_every_unfinished_population_has_a_place_of_its_own(tmp_path):
    runner = Runner(problem(perceptron(), FIT), "auto", Local(), tmp_path, False)
    assert len({runner._checkpoint(names).path for names in (["a"], ["a", "b"], ["a", "c"], ["b", "a"])}) == 4


TAIL = Fit(epochs=20, batch_size=16, step_size=1e-2, stop="last", looks=1, tail=3)


@pytest.mark.parametrize(("fit", "last"), [(FIT, 6), (TAIL, 59)], ids=["best", "amid the tail"])
def test_a_population_that_stopped_goes_on_where_it_was(tmp_path, monkeypatch, fit, last):
    options = {"fit": fit, "scan": RATES, "progress": False}
    whole = tune_rates(perceptron(), data(40, 1), data(30, 2), **options)
    advance = copies._Population.advance

    def stopped(self, batch, fit):
        if self.step == last:
            raise KeyboardInterrupt
        advance(self, batch, fit)

    monkeypatch.setattr(copies._Population, "advance", stopped)
    with pytest.raises(KeyboardInterrupt):
        tune_rates(perceptron(), data(40, 1), data(30, 2), store=tmp_path, **options)
    monkeypatch.setattr(copies._Population, "advance", advance)
    (file, *_) = [*tmp_path.glob("*.safetensors"), *tmp_path.glob("*.json")]
    assert file.exists()
    found = tune_rates(perceptron(), data(40, 1), data(30, 2), store=tmp_path, **options)
    assert numbers(found) == numbers(whole)
    again = tune_rates(perceptron(), data(40, 1), data(30, 2), store=tmp_path, **options)
    assert numbers(again) == numbers(whole)
    assert again.cost.resumed == again.cost.copies == 3
    assert not list(tmp_path.glob("*.safetensors"))


@pytest.mark.parametrize("change", ["weights", "frozen", "layers", "data", "held", "labels", "fit", "loss", "seed"])
def test_another_problem_takes_nothing_from_the_store(tmp_path, change):
    def tuned(changed: bool):
        module, train, held, fit, loss, seed = perceptron(), data(40, 1), data(30, 2), FIT, "cross-entropy", 0
        if changed and change == "weights":
            module = seeded(perceptron(), 4)
        if changed and change == "layers":
            module[2] = nn.LeakyReLU()
        module[1].requires_grad_(not changed or change != "frozen")
        train = data(40, 9) if changed and change == "data" else train
        held = data(30, 9) if changed and change == "held" else held
        held = (held[0], held[1].roll(1)) if changed and change == "labels" else held
        fit = Fit(epochs=2, batch_size=16) if changed and change == "fit" else fit
        loss = nn.functional.multi_margin_loss if changed and change == "loss" else loss
        seed = 1 if changed and change == "seed" else seed
        return tune_rates(module, train, held, loss, fit=fit, scan=RATES, store=tmp_path, seed=seed, progress=False)

    assert tuned(False).cost.resumed == 0
    assert tuned(True).cost.resumed == 0
    assert tuned(False).cost.resumed == 3


def test_files_of_the_store_that_cannot_be_read_count_as_absent(tmp_path):
    options = {"fit": FIT, "scan": RATES, "progress": False, "store": tmp_path}
    whole = tune_rates(perceptron(), data(40, 1), data(30, 2), **options)
    for i, file in enumerate(sorted(Path(tmp_path).glob("*.json"))):
        file.write_text(["", "[]", json.dumps({"losses": 1})][i])
    found = tune_rates(perceptron(), data(40, 1), data(30, 2), **options)
    assert found.cost.resumed == 0
    assert numbers(found) == numbers(whole)


@pytest.mark.parametrize(("last", "left"), [(4, [4, *[1] * 14]), (14, [9, 5, *[1] * 4])])
def test_copies_that_run_one_by_one_go_on_each_from_its_own_place(tmp_path, last, left):
    """Two copies of nine steps, the first or the second of them broken off; the other begins anew, or is done."""
    fit, rates = replace(FIT, epochs=3, looks=9), [{"2": 0.2}, {"2": 0.6}]
    module = seeded(nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 3)))
    place = copies.Checkpoint(str(tmp_path / "x.safetensors"), "this")
    whole = train_copies(problem(module, fit), rates, 7, "single")
    ticks = []

    def broken(steps):
        ticks.append(steps)
        if len(ticks) == last:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_copies(problem(module, fit), rates, 7, "single", place, broken)
    later = []
    assert train_copies(problem(module, fit), rates, 7, "single", place, later.append) == whole
    assert later == left


@pytest.mark.parametrize("examples", [1, 3])
def test_copies_that_diverged_have_as_many_infinite_losses_as_others_have_losses(examples):
    lost = {"losses": None, "training": None, "step": 2}
    rows = [lost, {"losses": [1.0, 2.0, 4.0][:examples], "training": 0.5, "step": None}]
    found = _trained(rows)
    assert found.losses.tolist() == [[math.inf] * examples, rows[1]["losses"]]
    assert (found.training, found.steps) == ((math.inf, 0.5), (2, None))
