"""What a claim compares on forms of the same numbers: strided, in single precision, in other orders and units."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from droptics.attacks import Apgd, Bim, Fab, Fgsm, Margin, Pgd, Square, Threat, attack, margins, smallest_margins
from droptics.data import Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.layers import ExplicitDropout
from droptics.losses import CrossEntropy, Logistic, Squared
from droptics.masks import Bernoulli
from droptics.models import ReLUNet, TwoLayerLinear
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import stack
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.predictions.moment_checks import network
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, uniform
from droptics.predictions import predictive
from droptics.recommenders import (
    AutoencoderCompletion,
    DropoutAutoencoder,
    DropoutCompletion,
    ImplicitDropoutCompletion,
    RidgeCompletion,
)
from droptics.training import Dropout, Plain, train

SINGLE = 2e-5  # relative to the largest entry: some hundred roundings of single precision


def every_form(scale: float) -> list[Comparison]:
    """Searches, trainings, predictions, layers and recommenders on forms of the same numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = (_searched, _trained, _predicted, _layered, _rated)
        return by_parts(parts, scale)


def _strided(value: Tensor) -> Tensor:
    """The same numbers, every second one of a larger tensor in another order of its axes."""
    wide = value.new_zeros(*value.shape[::-1], 2)
    wide[..., 0] = value.permute(*range(value.ndim - 1, -1, -1))
    found = wide[..., 0].permute(*range(value.ndim - 1, -1, -1))
    assert value.numel() < 2 or not found.is_contiguous()
    return found


def _searched(scale: float) -> list[Comparison]:
    """Deterministic searches end at the same points, and order their examples as they came."""
    found: list[Comparison] = []
    net = nn.Sequential(nn.Flatten(), linear_head(1, 8, 6), nn.ReLU(), linear_head(3, 6, 3))
    bent = nn.Sequential(nn.Flatten(), linear_head(1, 8, 6), nn.Tanh(), linear_head(3, 6, 3))
    images = uniform(5, 10, 2, 4)
    order = torch.randperm(10, generator=torch.Generator().manual_seed(2))
    for norm, radius in (("linf", 0.1), ("l2", 0.3), ("l1", 0.6)):
        for model in (net, bent):
            with torch.no_grad():
                labels = model(images).argmax(1)
            labels[0] = (labels[0] + 1) % 3
            threat = Threat(norm, radius, (0, 1))
            for method in (Fgsm(), Bim(steps=3), Pgd(Margin(), steps=4), Apgd(steps=5), Fab(steps=3)):
                whole = attack(model, Sample(images, labels), threat, method)
                name = f"{type(method).__name__}, {norm}, {type(model[2]).__name__}"
                apart = attack(model, Sample(_strided(images), labels), threat, method)
                found.append(compare(apart.inputs, "==", scale * whole.inputs, f"strided, {name}"))
                turned = attack(model, Sample(images[order], labels[order]), threat, method)
                for field in ("inputs", "losses", "margins", "radius"):
                    mine, own = getattr(turned, field), getattr(whole, field)[order]
                    found.append(compare(1 + mine, "==", scale * (1 + own), f"in order, {field}, {name}", 1e-7))
                found.append(compare(turned.gradients, "==", scale * whole.gradients, f"gradients, {name}"))
        affine = linear_head(1, 4, 3)
        points, wanted = uniform(6, 9, 4), torch.arange(9) % 3
        exact = smallest_margins(affine, points, wanted, Threat(norm, radius))
        single = smallest_margins(affine.float(), points.float(), wanted, Threat(norm, radius))
        found.append(compare(single.double(), "==", scale * exact, f"single precision, margins, {norm}", SINGLE))
    outputs, targets = normal(7, 6, 4), torch.arange(6) % 4
    own = outputs[torch.arange(6), targets] - outputs.scatter(1, targets[:, None], -torch.inf).amax(1)
    for form in (outputs, _strided(outputs)):
        found.append(compare(margins(form, targets), "==", scale * own, "margins"))
    small = Square(queries=15)
    both = [
        attack(bent, Sample(form, labels), Threat("linf", 0.02, (0, 1)), small) for form in (images, _strided(images))
    ]
    found.append(compare(both[1].inputs, "==", scale * both[0].inputs, "squares, strided"))
    return found


def _trained(scale: float) -> list[Comparison]:
    """Every engine takes strided and single-precision data, and moments for their sample."""
    found: list[Comparison] = []
    pair, deep = TwoLayerLinear(normal(3, 2, 4), normal(4, 3, 4)), network(1, 3, 4, 2)
    inputs, targets = normal(1, 9, 3), normal(2, 9, 2)
    forms = {"strided": Sample(_strided(inputs), _strided(targets)), "as it is": Sample(inputs, targets)}
    options: dict[str, Any] = {"steps": 6, "step_size": 0.02, "seed": 3}
    ways: tuple[tuple[str, Any, Any, dict[str, Any]], ...] = (
        ("one by one", pair, Dropout(Bernoulli(0.3, 4)), {"batch_size": 1}),
        ("products", pair, Dropout(Bernoulli(0.3, 4)), {"batch_size": 1, "engine": "products"}),
        ("torch", pair, Dropout(Bernoulli(0.3, 4)), {"batch_size": 1, "engine": "torch"}),
        ("batches", deep, Dropout(Bernoulli(0.3, 7)), {"batch_size": 4}),
        ("all", deep, Plain(), {"batch_size": None}),
    )
    for name, model, objective, more in ways:
        ends = {form: train(model, data, objective, **options, **more).model for form, data in forms.items()}
        for mine, own in zip(ends["strided"].tensors, ends["as it is"].tensors, strict=True):
            found.append(compare(mine, "==", scale * own, f"strided, {name}"))
    singles = {
        "pair": (TwoLayerLinear(pair.U.float(), pair.V.float()), pair),
        "deep": (ReLUNet([w.float() for w in deep.weights], [b.float() for b in deep.biases]), deep),
    }
    for name, (small, large) in singles.items():
        data = Sample(inputs.float(), targets.float())
        near: Any = train(small, data, Plain(), batch_size=None, **options).model
        exact: Any = train(large, Sample(inputs, targets), Plain(), batch_size=None, **options).model
        for mine, own in zip(near.tensors, exact.tensors, strict=True):
            found.append(same(mine.dtype, torch.float32, f"stays single, {name}", scale))
            found.append(compare(mine.double(), "==", scale * own, f"single precision, {name}", SINGLE))
    moments = Moments.of_sample(Sample(inputs, targets))
    both: list[Any] = [
        train(pair, data, Plain(), batch_size=None, **options).model for data in (moments, Sample(inputs, targets))
    ]
    found.append(compare(both[0].matrix(), "==", scale * both[1].matrix(), "moments for a sample"))
    return found


def _predicted(scale: float) -> list[Comparison]:
    """Means, variances and class probabilities of strided, single and reordered inputs, of models and of modules."""
    found: list[Comparison] = []
    inputs = normal(1, 7, 3)
    order = torch.randperm(7, generator=torch.Generator().manual_seed(2))
    net, law = network(1, 3, 4, 2), Bernoulli(0.3, 7)
    small = ReLUNet([w.float() for w in net.weights], [b.float() for b in net.biases])
    module = stack((3, 5, 2), (0.4,), nn.Tanh)
    single = stack((3, 5, 2), (0.4,), nn.Tanh).float()
    calls: tuple[tuple[str, Callable[[Tensor], Any], Callable[[Tensor], Any]], ...] = (
        ("network", lambda x: predictive(net, x, law), lambda x: predictive(small, x, law)),
        ("module", lambda x: predictive(module, x), lambda x: predictive(single, x)),
    )
    with torch.no_grad():
        for name, exact, near in calls:
            whole, apart, turned, rough = (
                exact(inputs),
                exact(_strided(inputs)),
                exact(inputs[order]),
                near(inputs.float()),
            )
            for field in ("mean", "variance", "covariance"):
                own = getattr(whole, field).value
                found.append(compare(getattr(apart, field).value, "==", scale * own, f"strided {field}, {name}"))
                found.append(
                    compare(getattr(turned, field).value, "==", scale * own[order], f"in order {field}, {name}")
                )
                told = getattr(rough, field).value
                found.append(compare(told.double(), "==", scale * own, f"single {field}, {name}", SINGLE))
            shares = [one.classes(64).probabilities.value for one in (whole, apart, rough)]
            found.append(compare(shares[1], "==", scale * shares[0], f"strided classes, {name}"))
            found.append(compare(shares[2].double(), "==", scale * shares[0], f"single classes, {name}", 1e-4))
    return found


def _layered(scale: float) -> list[Comparison]:
    """Penalties of strided, stacked and half-precision features, and their derivatives."""
    found: list[Comparison] = []
    features = normal(1, 6, 4)
    for loss, outputs in ((Squared(), 3), (CrossEntropy(), 3), (Logistic(), 1)):
        head = linear_head(2, 4, outputs)
        layer = ExplicitDropout(0.3, head, loss)
        leaf = features.clone().requires_grad_()
        layer(leaf)
        whole, (slope,) = layer.penalties.detach(), torch.autograd.grad(layer.penalty, leaf)
        name = type(loss).__name__
        for form, kind in ((_strided(features), "strided"), (features.view(2, 3, 4), "stacked")):
            other = form.detach().requires_grad_()
            layer(other)
            told = layer.penalties.detach()
            found.append(same(tuple(told.shape), tuple(form.shape[:-1]), f"shape, {kind}, {name}", scale))
            found.append(compare(told.flatten(), "==", scale * whole, f"{kind}, {name}"))
            (way,) = torch.autograd.grad(layer.penalty, other)
            found.append(compare(way.reshape(6, 4), "==", scale * slope, f"slope, {kind}, {name}"))
        small = ExplicitDropout(0.3, linear_head(2, 4, outputs).bfloat16(), loss)
        small(features.bfloat16())
        found.append(same(small.penalties.dtype, torch.float32, f"wide sums, {name}", scale))
        found.append(compare(small.penalties.double(), "==", scale * whole, f"half precision, {name}", 0.03))
    return found


def _rated(scale: float) -> list[Comparison]:
    """Recommenders in single precision, of shuffled ratings, of other ids, of ratings in other units."""
    found: list[Comparison] = []
    seen = uniform(3, 12, 7).numpy() < 0.6
    for shift in range(3):
        seen[np.arange(12), (np.arange(12) + shift) % 7] = True
    rows, columns = np.nonzero(seen)
    values = (3 + normal(4, 12, 1) + normal(5, 1, 7) + 0.3 * normal(6, 12, 7)).numpy()[rows, columns]
    turn = np.random.default_rng(1).permutation(len(rows))
    makers: tuple[tuple[str, Callable[[Any], Any], float], ...] = (
        ("completion", lambda kind: DropoutCompletion(2, 0.3, sweeps=3, dtype=kind), 1e-3),
        ("ridge", lambda kind: RidgeCompletion(2, 0.3, sweeps=3, dtype=kind), 1e-3),
        ("kernel", lambda kind: AutoencoderCompletion("user", 0.7, 0.3, dtype=kind), 1e-4),
    )
    for name, make, rough in makers:
        whole = make("float64").fit((rows, columns, values)).predict(rows, columns)
        near = make("float32").fit((rows, columns, values)).predict(rows, columns)
        found.append(compare(near, "==", scale * whole, f"single precision, {name}", rough))
        mixed = make("float64").fit((rows[turn], columns[turn], values[turn])).predict(rows, columns)
        found.append(compare(mixed, "==", scale * whole, f"shuffled, {name}", 1e-6))
        strided = tuple(np.repeat(part, 2)[::2] for part in (rows, columns, values))
        other = make("float64").fit(strided).predict(rows, columns)
        found.append(compare(other, "==", scale * whole, f"strided, {name}"))
        if name != "ridge":  # its strength has the units of the factors
            units = make("float64").fit((rows, columns, 1024 * values)).predict(rows, columns)
            found.append(compare(units, "==", scale * 1024 * whole, f"other units, {name}", 1e-6))
    rankers: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        ("autoencoder", lambda kind: DropoutAutoencoder(0.3, 0.8, dtype=kind)),
        ("low rank", lambda kind: DropoutAutoencoder(0.3, 0.8, rank=7, dtype=kind)),
        ("all cells", lambda kind: ImplicitDropoutCompletion(2, 0.4, 0.3, sweeps=2, cg_steps=None, dtype=kind)),
    )
    for name, make in rankers:
        models = [make(kind).fit((rows, columns, values)) for kind in ("float64", "float32")]
        table = np.eye(7)[:, models[0].item_ids_.astype(int)]
        told = [model.scores(table) for model in models]
        found.append(compare(told[1], "==", scale * told[0], f"single precision, {name}", 1e-3))
        mixed = make("float64").fit((rows[turn], columns[turn], values[turn]))
        places = [np.argsort(model.item_ids_) for model in (models[0], mixed)]
        again = mixed.scores(np.eye(7)[:, mixed.item_ids_.astype(int)])
        found.append(compare(again[:, places[1]], "==", scale * told[0][:, places[0]], f"shuffled, {name}", 1e-6))
        apart = make("float64").fit(strided)
        found.append(compare(apart.scores(table), "==", scale * told[0], f"strided, {name}"))
    return found
