"""What stands just inside of the limits of arguments: neighbors of calls that are refused, which pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from droptics.attacks import Bim, Decay, Dlr, Fgsm, LinearExact, Margin, Pgd, Reflected, Threat, attack, robust_accuracy
from droptics.attacks.averaged import Averaged
from droptics.audits import audit
from droptics.audits.criteria import as_loss
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Logistic
from droptics.masks import Bernoulli
from droptics.models import TwoLayerLinear
from droptics.norms import weight_matrices
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.predictions.moment_checks import network
from droptics.papers.droptics_own.telling import fails
from droptics.papers.instances import normal, tensor, uniform
from droptics.predictions import calibration, fit_noise, predictive
from droptics.recommenders import DropoutAutoencoder
from droptics.training import Dropout, Penalized, Plain, Recording, lazy_start, masked_step, train, train_lazy


def _stands(calls: Sequence[tuple[str, Callable[[], Any]]]) -> list[Comparison]:
    """Calls that end well: each is one that is refused, but for the argument that is beyond its limit."""
    return [compare(fails(call, Exception), "==", 0.0, f"passes: {name}") for name, call in calls]


def neighbors() -> list[Comparison]:
    """Neighbors of what is refused."""
    net, scorer, two, images = linear_head(1, 4, 3), linear_head(2, 4, 1), linear_head(3, 4, 2), uniform(5, 6, 4)
    data, threat, classes = Sample(images, torch.arange(6) % 3), Threat("l2", 0.3), torch.arange(6) % 2
    few, signs = Sample(images, classes), Sample(images, tensor([1.0, -1, 1, 1, -1, 1]))
    flat = nn.Sequential(nn.Flatten(), net)
    some, pair = Sample(normal(1, 6, 3), normal(2, 6, 2)), TwoLayerLinear(normal(3, 2, 4), normal(4, 3, 4))
    law, several = Bernoulli(0.3, 4), TwoLayerLinear(normal(3, 2, 2, 4), normal(4, 2, 3, 4))
    options: dict[str, Any] = {"steps": 2, "step_size": 0.1}
    scores = Sample(normal(1, 6, 3), signs.targets)
    rows = (np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 2, 1]), np.array([1.0, 2.0, 3.0, 4.0, 2.0]))
    others = (rows[0], (rows[1] + 1) % 3, rows[2])
    fitted, square = DropoutAutoencoder(0.3, 0.5).fit(rows), np.eye(3)
    head, batches = nn.Sequential(nn.Dropout(0.3), linear_head(1, 3, 1)), [(normal(1, 24, 3), normal(2, 24, 1))]
    noisy = predictive(network(1, 3, 4, 1), normal(1, 5, 3), Bernoulli(0.3, 7))

    def recorded(names: str, **more: Any) -> Any:
        return train(pair, some, Plain(), record=Recording((names,), **more), **options)

    return _stands(
        [
            ("a start for every example", lambda: attack(net, data, threat, Pgd(start=images))),
            ("one attack", lambda: robust_accuracy(net, data, threat, [Fgsm()])),
            ("flattened images", lambda: attack(flat, Sample(images.view(6, 2, 2), data.targets), threat, Pgd())),
            ("a reflected loss", lambda: Reflected(CrossEntropy())),
            ("scores", lambda: attack(scorer, signs, threat, Pgd(Logistic()))),
            ("margins of two", lambda: attack(two, few, threat, Pgd(Margin()))),
            ("ratios of three", lambda: attack(net, data, threat, Pgd(Dlr()))),
            ("two classes", lambda: attack(two, few, threat, Pgd())),
            ("raw gradients with a step", lambda: attack(net, data, threat, Pgd(gradient="raw", step=0.1))),
            ("steps that decay", lambda: attack(net, data, threat, Bim(steps=2, step=Decay(0.1, 0.5, 1)))),
            (
                "a model with masks",
                lambda: Averaged.of(pair, law),
            ),
            ("an affine model", lambda: attack(net, data, threat, LinearExact())),
            ("a step that is kept", lambda: train_lazy(lazy_start(3, 4), scores, 0.3, steps=2, keep=[1])),
            ("a law for each run", lambda: train(several, some, Dropout((law, law)), **options)),
            ("a size for each run", lambda: train(several, some, Dropout(law), steps=2, step_size=[0.1, 0.2])),
            ("small masks", lambda: masked_step(pair, some, torch.ones(4, dtype=torch.float64), 0.1)),
            ("a distance", lambda: recorded("distance", reference=normal(1, 2, 3))),
            ("values of two layers", lambda: recorded("singular_values")),
            ("a bound", lambda: train(pair, some, Penalized(law), bound=1.0, **options)),
            ("all examples", lambda: train(pair, some, Penalized(law), **options)),
            ("one rate", lambda: train(pair, some, Dropout(law), convention="mianjy2018", **options)),
            ("an optimizer", lambda: train(pair, some, Plain(), optimizer=torch.optim.SGD, **options)),
            ("a Gram matrix", lambda: DropoutAutoencoder(0.3, 0.5).fit_gram(square, ["a", "b", "c"])),
            ("known ones", lambda: (fitted.explain(0, 0), fitted.left_out_residuals([0, 1]))),
            ("rows of three", lambda: fitted.scores(np.ones((2, 3)))),
            (
                "words that are known",
                lambda: fitted.evaluate(rows, others, unknown="ignore"),
            ),
            ("two draws", lambda: audit(head, batches, draws=2, rates=())),
            ("a loss by its name", lambda: as_loss("cross-entropy")),
            ("a row", lambda: weight_matrices([torch.zeros(1, 3)])),
            ("targets with noise", lambda: fit_noise(noisy, noisy.mean.value + normal(3, 5, 1))),
            ("as many targets", lambda: calibration(noisy, normal(1, 5, 1), 0.3)),
        ]
    )
