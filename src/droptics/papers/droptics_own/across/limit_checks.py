"""What a claim compares at the limits of arguments, and on branches of searches and trainings that few calls take."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn

import droptics.attacks.adapter as adapters
from droptics.attacks import (
    Apgd,
    Bim,
    Decay,
    Dlr,
    Fgsm,
    LinearExact,
    Pgd,
    Reflected,
    Square,
    Threat,
    attack,
    robust_accuracy,
)
from droptics.attacks.attack import proportion
from droptics.attacks.averaged import Averaged
from droptics.attacks.gradients import Autograd, PlainMlp, differentiable
from droptics.attacks.square import SquareSearch
from droptics.audits import Report, audit
from droptics.audits.criteria import as_loss
from droptics.data import Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import Logistic, Squared
from droptics.masks import Bernoulli
from droptics.models import LastLayer, ReLUNet, TwoLayerLinear
from droptics.norms import weight_matrices
from droptics.papers.droptics_own.across.neighbor_checks import neighbors
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.predictions.moment_checks import network
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, tensor, uniform
from droptics.predictions import calibration, fit_noise, predictive
from droptics.rates import Fit, tune_rates
from droptics.recommenders import (
    AutoencoderCompletion,
    DropoutAutoencoder,
    DropoutCompletion,
    ImplicitDropoutCompletion,
    LocalAutoencoder,
)
from droptics.training import (
    Dropout,
    DropoutClassifier,
    DropoutRegressor,
    Penalized,
    Plain,
    Recording,
    lazy_start,
    masked_step,
    train,
    train_lazy,
)
from droptics.training.threads import share_runs

Call = tuple[str, Callable[[], Any]]
Odd = Any  # what is passed on purpose is not what the signatures say


def at_the_limits(scale: float) -> list[Comparison]:
    """Refusals with their reasons, neighbors that pass, searches of perceptrons, resumed and batched trainings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = (_side_by_side, _grown, _perceptrons, _passed)
        return [*(one for part in parts for one in part(scale)), *neighbors(), *_refused()]


def _refused() -> list[Comparison]:
    """What is beyond a limit, with the words that say so."""
    calls = [*_attacked(), *_trained(), *_rated(), *_tuned()]
    return [refuses(call, words, f"{words}, {place}") for place, (words, call) in enumerate(calls)]


def _attacked() -> list[Call]:
    net, scorer = linear_head(1, 4, 3), linear_head(2, 4, 1)
    two, images = linear_head(3, 4, 2), uniform(5, 6, 4)
    data, threat = Sample(images, torch.arange(6) % 3), Threat("l2", 0.3)
    few, signs = Sample(images, torch.arange(6) % 2), Sample(images, tensor([1.0, -1, 1, 1, -1, 1]))
    weighed = Sample(images, data.targets, torch.ones(6).double())
    odd: Odd = "odd"
    several: Odd = lambda x: (net(x),)  # noqa: E731
    mean = Averaged.of(TwoLayerLinear(normal(1, 3, 3), normal(2, 4, 3)), Bernoulli(0.4, 3))
    return [
        ("images must lie in [0, 1], got values from 0.", lambda: adapters.FGSM(net)(images + 0.5, data.targets)),
        ("images must lie in [0, 1], got values from -", lambda: adapters.FGSM(net)(images - 0.5, data.targets)),
        ("of shape (6, 4), got (5, 4)", lambda: attack(net, data, threat, Pgd(start=images[:5]))),
        (
            "of shape (6, 4), or one for each restart, of shape (6, 2, 4), got (6, 3, 4)",
            lambda: attack(net, data, threat, Apgd(start=torch.zeros(6, 3, 4), restarts=2)),
        ),
        ("count must be at most the total 5, got 6", lambda: proportion(6, 5)),
        ("data must be a droptics Sample, got str", lambda: attack(net, odd, threat, Fgsm())),
        ("data must not have weights", lambda: attack(net, weighed, threat, Fgsm())),
        ("methods must name at least one attack", lambda: robust_accuracy(net, data, threat, [])),
        ("must not start at given points", lambda: robust_accuracy(net, data, threat, [Pgd(start=images)])),
        ("add nn.Flatten", lambda: attack(net, Sample(images.view(6, 2, 2), data.targets), threat, Pgd())),
        ("model must be a torch callable", lambda: differentiable(odd)),
        ("got (6, 3, 1) for 6 inputs", lambda: attack(lambda x: net(x)[..., None], data, threat, Pgd())),
        ("got tuple for 6 inputs", lambda: attack(several, data, threat, Pgd())),
        ("to be reflected, got Squared", lambda: Reflected(Squared())),
        ("loss is CrossEntropy but the model has one output", lambda: attack(scorer, signs, threat, Pgd())),
        ("loss is Dlr but the model has one output", lambda: attack(scorer, signs, threat, Pgd(Dlr()))),
        ("but the model has two; use Margin", lambda: attack(two, few, threat, Pgd(Dlr()))),
        ("loss is Logistic but the model has 2 outputs", lambda: attack(two, few, threat, Pgd(Logistic()))),
        ("must lie in 0..1", lambda: attack(two, data, threat, Pgd())),
        ("step must be given for raw gradients", lambda: Pgd(gradient="raw")),
        ("step must give finite sizes >= 0", lambda: attack(net, data, threat, Bim(steps=2, step=Decay(0.1, -1.0, 1)))),
        (
            "masks must be given with a droptics Model",
            lambda: Averaged.of(TwoLayerLinear(normal(1, 2, 2), normal(2, 2, 2))),
        ),
        ("masks go with a droptics Model", lambda: Averaged.of(net, Bernoulli(0.4, 3))),
        ("model must be a module or a droptics Model", lambda: Averaged.of(odd)),
        (
            "checkpoint must end in .safetensors",
            lambda: robust_accuracy(net, data, threat, [Fgsm()], checkpoint="a.pt"),
        ),
        ("model must be affine in its input", lambda: attack(mean, data, threat, LinearExact())),
    ]


def _trained() -> list[Call]:
    data, pair = Sample(normal(1, 6, 3), normal(2, 6, 2)), TwoLayerLinear(normal(3, 2, 4), normal(4, 3, 4))
    law, several = Bernoulli(0.3, 4), TwoLayerLinear(normal(3, 2, 2, 4), normal(4, 2, 3, 4))
    deep, uneven = network(1, 3, 4, 2), Bernoulli(tensor([0.1, 0.2, 0.3, 0.4]), 4)
    module = nn.Sequential(linear_head(1, 3, 4), nn.Tanh(), linear_head(2, 4, 2)).requires_grad_()
    head = LastLayer.of(module)
    options: dict[str, Any] = {"steps": 2, "step_size": 0.1}
    odd: Odd = "odd"
    signs = Sample(normal(1, 6, 3), tensor([1.0, -1, 1, 1, -1, 1]))
    moments, single = Moments.of_sample(data), TwoLayerLinear(normal(3, 1, 4), normal(4, 3, 4))
    run = train(pair, data, Dropout(law), record=Recording(("risk",), at=(0, 2)), **options)

    def named(*names: str, **more: Any) -> Callable[[], Any]:
        return lambda: train(pair, data, Plain(), record=Recording(names, **more), **options)

    return [
        ("hidden must name at least one", lambda: DropoutRegressor(()).fit(normal(1, 6, 3), normal(2, 6))),
        ("y must hold at least two classes", lambda: DropoutClassifier((2,)).fit(normal(1, 6, 3), np.zeros(6, int))),
        ("start must be a two-layer ReLUNet", lambda: train_lazy(deep, signs, 0.3, steps=2)),
        ("one output, without biases", lambda: train_lazy(network(1, 3, 4, 1), signs, 0.3, steps=2)),
        ("keep must name at least one step", lambda: train_lazy(lazy_start(3, 4), signs, 0.3, steps=2, keep=[])),
        ("masks must be a mask law", lambda: Dropout(())),
        ("same units, got sizes [4, 3]", lambda: Dropout((law, Bernoulli(0.3, 3)))),
        ("masks has size 2, expected 1", lambda: train(pair, data, Dropout((law, law)), **options)),
        ("leaves the range of", lambda: masked_step(pair, data, torch.full((4,), 1e200, dtype=torch.float64), 1e200)),
        ("names must be some of", named("odd")),
        ("names holds 'penalty' but", named("penalty")),
        ("names holds 'distance' but", named("distance")),
        ("at must hold steps from 0 on, got -1", named("risk", at=(-1, 1))),
        (
            "singular_values are recorded for",
            lambda: train(deep, data, Plain(), record=Recording(("singular_values",)), **options),
        ),
        (
            "distance is recorded for",
            lambda: train(deep, data, Plain(), record=Recording(("distance",), reference=normal(1, 2, 3)), **options),
        ),
        ("bound must be one number", lambda: train(pair, data, Dropout(law), bound=[], **options)),
        (
            "at most one leading dimension",
            lambda: train(TwoLayerLinear(normal(1, 2, 2, 2, 3), normal(2, 2, 2, 3, 3)), data, Plain(), **options),
        ),
        ("data must be a Sample", lambda: train(deep, moments, Plain(), **options)),
        (
            "linear models under squared loss",
            lambda: train(single, Moments.of_sample(signs), Plain(Logistic()), **options),
        ),
        ("batch_size must be None for Penalized", lambda: train(pair, data, Penalized(law), batch_size=2, **options)),
        ("one number or one per run (2)", lambda: train(several, data, Dropout(law), steps=2, step_size=[0.1])),
        (
            "needs one rate for all units",
            lambda: train(pair, data, Dropout(uneven), convention="mianjy2018", **options),
        ),
        ("step 1 was not recorded; recorded are [0, 2]", lambda: run.at(1)),
        ("keep is not part of a checkpoint", lambda: train(head, data, Plain(), keep=(1,), checkpoint="a", **options)),
        ("engine='kernel' covers single-sample", lambda: train(deep, data, Plain(), engine="kernel", **options)),
        ("frozen must be indices of the 2 weights", lambda: train(pair, data, Plain(), frozen=(2,), **options)),
        ("frozen leaves nothing to train", lambda: train(pair, data, Plain(), frozen=(0, 1), **options)),
        (
            "the head is no part of the module",
            lambda: train(LastLayer(module, linear_head(2, 4, 2)), data, Plain(), **options),
        ),
        ("optimizer must be", lambda: train(pair, data, Plain(), optimizer=lambda weights: odd, **options)),
    ]


def _rated() -> list[Call]:
    rows = (np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 2, 1]), np.array([1.0, 2.0, 3.0, 4.0, 2.0]))
    fixed = DropoutAutoencoder(0.3, 0.5)
    square = np.eye(3)
    fitted = DropoutAutoencoder(0.3, 0.5).fit(rows)
    one_each = (np.arange(3), np.arange(3), np.ones(3))
    return [
        ("drop and ridge must be given with a Gram matrix", lambda: DropoutAutoencoder(0.3).fit_gram(square)),
        ("drop and ridge must be given with a Gram matrix", lambda: DropoutAutoencoder(None, 0.3).fit_gram(square)),
        ("rank must be None with a Gram matrix", lambda: DropoutAutoencoder(0.3, 0.5, rank=2).fit_gram(square)),
        ("gram must be a symmetric matrix, got shape (2, 3)", lambda: fixed.fit_gram(np.ones((2, 3)))),
        ("gram must be a symmetric matrix, got shape (3, 3)", lambda: fixed.fit_gram(np.triu(np.ones((3, 3))))),
        ("item_ids must name 3 items, got 2", lambda: fixed.fit_gram(square, ["a", "b"])),
        ("user 9 is unknown", lambda: fitted.explain(9, 0)),
        ("item 9 is unknown", lambda: fitted.explain(0, 9)),
        ("1 of 2 users are unknown", lambda: fitted.left_out_residuals([0, 9])),
        ("3 items need 72 bytes", lambda: DropoutAutoencoder(0.3, 0.5, memory=71, dtype="float64").fit(rows)),
        ("ratings must hold at least one rating", lambda: fitted.partial_fit(tuple(part[:0] for part in rows))),
        ("columns need 216 bytes", lambda: AutoencoderCompletion(memory=215, dtype="float64").fit(rows)),
        ("needs rows with two ratings", lambda: AutoencoderCompletion().fit(one_each)),
        ("users with at least two items", lambda: DropoutAutoencoder().fit(one_each)),
        ("threshold must leave some", lambda: LocalAutoencoder(threshold=9.0).fit(rows)),
        (
            'solver="sgd" takes no engine',
            lambda: DropoutCompletion(2, solver="sgd", checkpoint="a.safetensors").fit(rows),
        ),
        ("engine must be the address", lambda: DropoutCompletion(2, engine=SimpleNamespace(submit=print)).fit(rows)),
        ("rows must have 3 columns", lambda: fitted.scores(np.ones((2, 4)))),
        ('unknown must be "warn" or "ignore"', lambda: fitted.evaluate(rows, rows, unknown="odd")),
        (
            "other must rank the same users",
            lambda: fitted.evaluate(rows, _moved(rows, 3), unknown="ignore").above(_short(fitted, rows), "mrr"),
        ),
    ]


def _moved(rows: tuple[np.ndarray, ...], items: int) -> tuple[np.ndarray, ...]:
    return rows[0], (rows[1] + 1) % items, rows[2]


def _short(model: DropoutAutoencoder, rows: tuple[np.ndarray, ...]) -> Any:
    some = rows[0] < 2
    known = tuple(part[some] for part in rows)
    return model.evaluate(known, _moved(known, 3), unknown="ignore")


def _tuned() -> list[Call]:
    head = nn.Sequential(nn.Dropout(0.3), linear_head(1, 3, 1)).requires_grad_()
    body = nn.Sequential(linear_head(1, 3, 4), nn.Tanh(), nn.Dropout(0.3), linear_head(2, 4, 1)).requires_grad_()
    none = nn.Sequential(linear_head(1, 3, 4), nn.Tanh(), linear_head(2, 4, 1)).requires_grad_()
    data = [(normal(1, 24, 3), normal(2, 24, 1))]
    few = [(normal(1, 1, 3), normal(2, 1, 1))]
    odd: Odd = "odd"
    noisy = predictive(network(1, 3, 4, 1), normal(1, 5, 3), Bernoulli(0.3, 7))
    wide = predictive(network(1, 3, 4, 2), normal(1, 5, 3), Bernoulli(0.3, 7))
    return [
        ("guard must be at least 2, got 1", lambda: tune_rates(body, data, data, guard=1)),
        ("fit must be a Fit or a function", lambda: tune_rates(body, data, data, fit=odd_module())),
        ("scan must hold at least two different rates", lambda: tune_rates(body, data, data, scan=(0.1, 0.1))),
        ("module has no weights to train", lambda: tune_rates(copy.deepcopy(body).requires_grad_(False), data, data)),
        ("validation must hold at least", lambda: tune_rates(body, data, few)),
        ("module has no dropout whose rate", lambda: tune_rates(none, data, data)),
        ("validation must be data", lambda: tune_rates(body, data, None, fit=Fit(epochs=1))),
        ("module is an estimator with one rate", lambda: tune_rates(LocalAutoencoder(), data, data, fit=Fit())),
        ("draws must be at least 2", lambda: audit(head, data, draws=1)),
        ("weights: every example counts once", lambda: audit(head, Sample(*data[0], torch.ones(24).double()))),
        ("distributed=True needs an initialized", lambda: audit(head, data, distributed=True)),
        ("must be a matrix (outputs, inputs), got shape (0, 3)", lambda: weight_matrices([torch.zeros(0, 3)])),
        ("loss must be one of", lambda: as_loss("odd")),
        ("or a function, got int", lambda: as_loss(3)),  # type: ignore[arg-type]
        ("loss='model' needs a forward that takes 'labels'", lambda: audit(head, data, loss="model")),
        (
            "the forward pass of Sequential fails on this data",
            lambda: audit(head, [(normal(1, 5, 2), normal(2, 5, 1))]),
        ),
        ("content must be a report of schema", lambda: Report.from_dict({"schema": 0})),
        ("targets equal the predictions", lambda: fit_noise(noisy, noisy.mean.value)),
        ("must be of one output", lambda: calibration(wide, normal(1, 5, 2), 0.3)),
        ("targets have shape (4, 1) but", lambda: calibration(noisy, normal(1, 4, 1), 0.3)),
        ("train: data must be a Sample, a pair", lambda: tune_rates(body, odd, data)),
    ]


def odd_module() -> Any:
    """A module where a recipe is asked for."""
    return nn.Linear(2, 2)


def _passed(scale: float) -> list[Comparison]:
    """What stands just inside of these limits passes."""
    found: list[Comparison] = []
    net, images = linear_head(1, 4, 3), uniform(5, 6, 4)
    images[0, 0], images[1, 1] = 0.0, 1.0
    data = Sample(images, torch.arange(6) % 3)
    found.append(same(adapters.FGSM(net, 0.1)(images, data.targets).shape, images.shape, "images on the box"))
    found.append(compare(proportion(5, 5).value, "==", scale, "all of them"))
    found.append(compare(proportion(5, 5).lower, "==", scale * 0.025 ** (1 / 5), "their lower end"))
    three = attack(
        net, data, Threat("l2", 0.2), Apgd(Dlr(), steps=2, start=images[:, None].expand(6, 2, 4), restarts=2)
    )
    found.append(same(tuple(three.inputs.shape), (6, 4), "a start for each restart, three outputs"))
    pair, some = TwoLayerLinear(normal(3, 2, 4), normal(4, 3, 4)), Sample(normal(1, 6, 3), normal(2, 6, 2))
    run = train(
        pair,
        some,
        Dropout(Bernoulli(0.3, 4)),
        steps=2,
        step_size=0.1,
        frozen=(1,),
        record=Recording(("risk",), at=(0, 2)),
    )
    assert isinstance(run.model, TwoLayerLinear)
    found.append(compare(run.model.V, "==", scale * pair.V, "the second weights are frozen"))
    found.append(same((run.at(0), run.at(2)), (0, 1), "places of steps"))
    rows = (np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 2, 1]), np.array([1.0, 2.0, 3.0, 4.0, 2.0]))
    found.append(
        same(
            len(DropoutAutoencoder(0.3, 0.5, memory=72, dtype="float64").fit(rows).item_ids_), 3, "as many bytes", scale
        )
    )
    found.append(
        same(len(AutoencoderCompletion(memory=216, dtype="float64").fit(rows).user_ids_), 3, "three arrays", scale)
    )
    return found


def _perceptrons(scale: float) -> list[Comparison]:
    """Squares on a perceptron whose first layer is summed up by changes are those of whole passes."""
    found: list[Comparison] = []
    for shape, patience, queries in (((64,), None, 60), ((1, 10, 10), 3, 300), ((2, 8, 8), None, 40)):
        size = int(np.prod(shape))
        net = nn.Sequential(nn.Flatten(), linear_head(1, size, 7), nn.ReLU(), linear_head(3, 7, 3))
        images = 0.2 + 0.6 * uniform(5, 9, *shape)
        with torch.no_grad():
            labels = net(images).argmax(1)
        labels[0] = (labels[0] + 1) % 3
        threat, method = Threat("linf", 0.01, (0, 1)), Square(queries=queries, first=0.05, patience=patience)
        trails = []
        for tape in (differentiable(net), Autograd(net)):
            draws = torch.Generator().manual_seed(4)
            trails.append(SquareSearch(tape, threat.around(images), labels, method, draws).run())
        found.append(same(isinstance(differentiable(net), PlainMlp), True, "a perceptron"))
        for name in ("inputs", "fooled", "queries", "tally"):
            mine, whole = (getattr(trail, name) for trail in trails)
            both = [torch.as_tensor(part).double() for part in (mine, whole)]
            found.append(compare(1 + both[0], "==", scale * (1 + both[1]), f"{name}, {shape}", 1e-9))
    steep = torch.tensor([[1e-30, 2e-30], [3.0, 4.0], [0.0, 0.0]])
    wanted = tensor([[0.2**0.5, 0.8**0.5], [0.6, 0.8], [0.0, 0.0]])
    told = Threat("l2", 1.0).steepest(steep)
    found.append(compare(told.double(), "==", scale * wanted, "steepest of tiny slopes", 1e-6))
    flat = attack(lambda x: x.new_zeros(len(x), 3), Sample(images, labels), threat, Pgd(steps=2))
    found.append(compare(flat.inputs, "==", scale * images, "no slope at all"))
    return found


def _side_by_side(scale: float) -> list[Comparison]:
    """Lazy runs side by side are those alone, and workers share all runs."""
    found: list[Comparison] = []
    starts = [lazy_start(3, 4, seed) for seed in (1, 2)]
    signs = Sample(normal(1, 6, 3), tensor([1.0, -1, 1, 1, -1, 1]))
    both = ReLUNet([torch.stack([start.weights[i] for start in starts]) for i in (0, 1)])
    lazy: dict[str, Any] = {"steps": 5, "step_size": 0.3, "keep": (2, 4), "max_norm": 2.0}
    joint = train_lazy(both, signs, 0.4, seed=[5, 6], **lazy)
    for run, start in enumerate(starts):
        alone = train_lazy(start, signs, 0.4, seed=5 + run, **lazy)
        found.append(compare(joint.model.weights[0][run], "==", scale * alone.model.weights[0], f"lazy run {run}"))
        found.append(compare(joint.drift[:, run], "==", scale * alone.drift, f"its drift {run}"))
        for place, (mine, own) in enumerate(zip(joint.subnetworks, alone.subnetworks, strict=True)):
            wanted = own.outputs(signs.inputs)
            told = mine.outputs(signs.inputs)[run]
            found.append(compare(told, "==", scale * wanted, f"sub-network {place} of run {run}"))
    marks = np.zeros((7, 3))

    def work(start: int, stop: int) -> None:
        marks[start:stop] += 1 + np.arange(start, stop)[:, None]

    with mock.patch("torch.get_num_threads", return_value=3):
        share_runs(work, 7, 1 << 40)
    found.append(compare(marks, "==", scale * np.repeat(1.0 + np.arange(7), 3).reshape(7, 3), "every run once"))
    return found


def _grown(scale: float) -> list[Comparison]:
    """Models fitted part by part, from tables with a column of values, and low ranks with their cuts."""
    found: list[Comparison] = []
    users, items = np.divmod(np.arange(48), 6)
    seen = (users * 5 + items * 3) % 4 != 0
    rows = (users[seen], items[seen], 1.0 + (users + items)[seen] % 3)
    pairs = np.column_stack(rows[:2])
    for kind, options in (
        (ImplicitDropoutCompletion, {"width": 2, "drop": 0.3, "sweeps": 2, "dtype": "float64"}),
        (LocalAutoencoder, {"neighbors": 3, "drop": 0.3, "ridge": 0.5}),
        (DropoutAutoencoder, {"drop": 0.3, "ridge": 0.5, "dtype": "float64"}),
    ):
        made: Any = kind
        table, triples = made(**options).fit(pairs, rows[2]), made(**options).fit(rows)
        some = np.eye(6)[:4]
        found.append(
            compare(table.scores(some), "==", scale * triples.scores(some), f"pairs and values, {kind.__name__}")
        )
    first = rows[1] < 4
    for rank in (None, 3, 6):
        grown = DropoutAutoencoder(0.3, 0.5, rank=rank, dtype="float64").partial_fit(
            tuple(part[first] for part in rows)
        )
        grown.partial_fit(tuple(part[~first] for part in rows))
        whole = DropoutAutoencoder(0.3, 0.5, rank=rank, dtype="float64").fit(rows)
        places = [np.argsort(model.item_ids_) for model in (grown, whole)]
        told, wanted = (model.weights()[np.ix_(at, at)] for model, at in zip((grown, whole), places, strict=True))
        found.append(compare(told, "==", scale * wanted, f"grown, rank {rank}", 1e-8))
        found.append(same((grown.cut_ > 1e-9, whole.cut_ > 1e-9), (rank == 3, rank == 3), f"cut, rank {rank}"))
    return found
