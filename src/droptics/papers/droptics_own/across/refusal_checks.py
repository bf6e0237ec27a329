"""What claims on refusals and on parts of solvers compare: wrong arguments, inverses, uniform numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from droptics.attacks import Fab, Fgsm, Pgd, Square, Threat, attack, margins, perturb
from droptics.data import Entries, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.layers import DropBlock, DropConnect, ExplicitDropout, VarianceHead, explicit_consistency
from droptics.losses import CrossEntropy, Squared
from droptics.masks import Bernoulli
from droptics.models import Factorization, TwoLayerLinear
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.telling import refuses
from droptics.papers.instances import normal
from droptics.predictions import expected_calibration_error, predictive
from droptics.rates import Fit, two_level
from droptics.recommenders import DropoutCompletion, LocalAutoencoder, hold_out_users, ranking
from droptics.recommenders.dropout_completion import default_drop
from droptics.recommenders.elimination import invert
from droptics.training import Dropout, DropoutRegressor, train
from droptics.training.philox import normals, uniforms


def refused_arguments(scale: float) -> list[Comparison]:
    """Wrong arguments of every room end in one error that names them."""
    data, net = Sample(normal(1, 6, 3), normal(2, 6, 2)), TwoLayerLinear(normal(3, 2, 4), normal(4, 3, 4))
    law, head = Bernoulli(0.3, 4), linear_head(1, 4, 3)
    rows = (np.array([0, 0, 1, 1]), np.array([0, 1, 0, 2]), np.array([1.0, 2.0, 3.0, 4.0]))
    threat, images, labels = Threat("l2", 0.3), normal(5, 6, 4), torch.arange(6) % 3
    odd: Any = "odd"
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("step_size", lambda: train(net, data, Dropout(law), steps=2, step_size=-1.0)),
        ("step_size", lambda: train(net, data, Dropout(law), steps=2, step_size=[0.1, 0.2])),
        ("steps", lambda: train(net, data, Dropout(law), steps=0, step_size=0.1)),
        ("drop", lambda: ExplicitDropout(1.0, head)),
        ("form", lambda: ExplicitDropout(0.3, head, CrossEntropy(), odd)),
        ("head", lambda: ExplicitDropout(0.3, nn.ReLU())),
        ("module", lambda: explicit_consistency(odd)),
        ("block", lambda: DropBlock(0.3, 0)),
        ("edges", lambda: DropBlock(0.3, 2, edges=odd)),
        ("in_features", lambda: DropConnect(0, 3)),
        ("drop", lambda: VarianceHead(head, torch.full((3,), 0.2))),
        ("targets", lambda: perturb(head, images, labels[:4], threat, Fgsm(CrossEntropy()))),
        ("targets", lambda: margins(head(images).detach(), labels[:4])),
        ("targets", lambda: attack(head, Sample(images, labels + 9), threat, Pgd(steps=2))),
        ("steps", lambda: Pgd(steps=0)),
        ("queries", lambda: Square(queries=0)),
        ("steps", lambda: Fab(steps=0)),
        ("radius", lambda: Threat("l2", -1.0)),
        ("labels", lambda: expected_calibration_error(torch.full((6, 3), 1 / 3), labels[:4])),
        (
            "inputs",
            lambda: predictive(
                Factorization(normal(1, 4, 2), normal(2, 3, 2)), torch.zeros(5, 3).long(), Bernoulli(0.3, 2)
            ),
        ),
        ("inputs", lambda: predictive(net, normal(1, 5, 2), law)),
        ("epochs", lambda: Fit(epochs=0)),
        ("optimizer", lambda: Fit(optimizer=odd)),
        ("sites", lambda: two_level(0)),
        ("width", lambda: DropoutCompletion(width=0).fit(rows)),
        ("drop", lambda: DropoutCompletion(2, 1.0).fit(rows)),
        ("clip", lambda: DropoutCompletion(2, 0.3, clip=(3.0, 1.0)).fit(rows)),
        ("neighbors", lambda: LocalAutoencoder(0).fit(rows)),
        ("share", lambda: hold_out_users(rows, share=2.0)),
        ("at", lambda: ranking(np.ones((2, 3)), None, np.ones((2, 3)), at=())),
        ("ratings", lambda: default_drop(3, 0)),
        ("ratings", lambda: DropoutCompletion(2).fit((rows[0][:0], rows[1][:0], rows[2][:0]))),
        ("fitted", lambda: DropoutRegressor().predict(normal(1, 2, 3).numpy())),
        ("rows", lambda: Entries(torch.tensor([5]), torch.tensor([0]), torch.ones(1), (2, 2))),
    ]
    found = [refuses(call, word, f"refused: {word}, {place}") for place, (word, call) in enumerate(calls)]
    return found + _inverses(scale)


def _inverses(scale: float) -> list[Comparison]:
    """Inverses by blocks, uniform numbers in the middles of their cells, models within thresholds and checkpoints."""
    found: list[Comparison] = []
    for size in (5, 512, 700):
        root = normal(size, size, size)
        square = root @ root.mT / size + torch.eye(size).double()
        told = square.clone()
        found.append(compare(float(invert(told)), "==", 1.0, f"positive definite, {size}"))
        inverse = torch.linalg.inv(square)
        found.append(compare(told.tril(), "==", scale * inverse.tril(), f"inverse, {size}", precision=1e-10))
        found.append(compare(told.triu(1), "==", square.triu(1), f"what lies above, {size}"))
    found.append(compare(float(invert(-torch.eye(600).double())), "==", 0.0, "not positive definite"))
    seeds = torch.tensor([3, 8])
    for dtype, cells in ((torch.float64, 2.0**52), (torch.float32, 2.0**23)):
        drawn = uniforms(seeds, 1, 5, 40, 7, dtype)
        found.append(compare((drawn.double() * cells) % 1, "==", scale * 0.5, f"middles of cells, {dtype}"))
        found.append(compare(drawn.double().mean(), "==", scale * 0.5, f"their mean, {dtype}", precision=0.06))
        normal_ones = normals(seeds, 1, 5, 400, 7, dtype).double()
        found.append(compare(normal_ones.var(), "==", scale, f"variance of normal ones, {dtype}", precision=0.06))
    users, items = np.divmod(np.arange(60), 6)
    values = 1.0 + (users * items) % 5
    liked = values >= 3.0
    some = LocalAutoencoder(5, 0.3, 0.5, threshold=3.0).fit((users, items, values))
    kept = np.unique(items[liked])
    table = np.zeros((10, 6))
    table[users[liked], items[liked]] = 1.0
    gram = (table.T @ table)[np.ix_(kept, kept)]
    system, wanted = gram + np.diag(0.3 / 0.7 * np.diagonal(gram) + 0.5), np.zeros(gram.shape)
    for k in range(len(kept)):  # all others are its neighbors
        rest = np.arange(len(kept)) != k
        wanted[rest, k] = np.linalg.solve(system[np.ix_(rest, rest)], gram[rest, k])
    order = np.argsort(some.item_ids_)
    told_ids = np.asarray(some.item_ids_)[order].astype(int)
    found.append(compare(1 + told_ids, "==", scale * (1 + kept), "items from a threshold on"))
    weights = some.weights().toarray()[np.ix_(order, order)]
    found.append(compare(weights, "==", scale * wanted, "weights from a threshold on"))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "kept.safetensors")
        options: dict[str, Any] = {"drop": 0.3, "sweeps": 2, "checkpoint": path}
        DropoutCompletion(2, **options).fit((users, items, values))
        wider = DropoutCompletion(3, **options)
        found.append(refuses(lambda: wider.fit((users, items, values)), "another width"))
        others = DropoutCompletion(2, **options)
        found.append(refuses(lambda: others.fit((users, items + 1, values)), "of other ratings"))
    found.append(compare(float(Squared() == Squared()), "==", 1.0, "losses are values"))
    return found
