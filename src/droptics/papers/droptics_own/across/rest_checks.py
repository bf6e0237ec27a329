"""What claims on the rest of several rooms compare: attacks in batches, hits, half-spaces, complexities, refits."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.attacks import Fab, Margin, Pgd, Threat, attack
from droptics.attacks.adapter import PGD, PGDL2
from droptics.attacks.methods import Bim
from droptics.audits.criteria import IGNORED, Entrywise, Labels, MeanSquared, as_loss, fitted, parts
from droptics.audits.discovery import _realized, _unit
from droptics.bounds import measured_rademacher
from droptics.coadaptation import evaluate, flows, retentivity, symmetrize
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.heads.ridge import DropoutRidgeCV
from droptics.losses import CrossEntropy, Squared
from droptics.models import LastLayer, ReLUNet
from droptics.models.watching import Call
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.optima.left_out_checks import left_out
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, tensor, uniform


def rest_in_full(scale: float) -> list[Comparison]:
    """Attacks in batches, accuracies and half-spaces, complexities, left-out rows, losses and calls of audits."""
    return by_parts((_left_out, _batches, _units, _complexities, _criteria, _calls), scale)


def _left_out(scale: float) -> list[Comparison]:
    """Errors of examples that are left out, by refits, for few and for many examples, with and without a bias."""
    found: list[Comparison] = []
    for examples, features, block, bias in ((5, 8, 1, True), (6, 8, 2, False), (3, 9, 3, True), (9, 4, 1, True)):
        X, Y = normal(examples, examples, features).numpy(), normal(features, examples, 2).numpy()
        told = DropoutRidgeCV([0.2, 0.6], block=block, fit_intercept=bias).fit(X, Y)
        wanted = [float(left_out(X, Y, rate, block, bias).mean()) for rate in (0.2, 0.6)]
        name = f"{examples} examples of {features}, blocks of {block}"
        found.append(compare(told.loo_errors_, "==", scale * np.array(wanted), f"left out, {name}", 1e-7))
    return found


def _batches(scale: float) -> list[Comparison]:
    """An attack in batches of any size is the attack at once, in every field."""
    found: list[Comparison] = []
    net = nn.Sequential(linear_head(1, 5, 7), nn.Tanh(), linear_head(3, 7, 3))
    inputs = uniform(5, 20, 5)
    with torch.no_grad():
        labels = net(inputs).argmax(1)
    labels[::6] = (labels[::6] + 1) % 3
    data, threat = Sample(inputs, labels), Threat("linf", 0.1, (0, 1))
    for method in (Bim(CrossEntropy(), 2, 0.03), Pgd(Margin(), steps=3), Fab(steps=3)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole, some = (attack(net, data, threat, method, batch=size) for size in (1000, 7))
        name = type(method).__name__
        for field in ("inputs", "losses", "margins", "radius"):
            found.append(compare(getattr(some, field), "==", scale * getattr(whole, field), f"{field}, {name}", 1e-9))
        found.append(same(some.success.tolist(), whole.success.tolist(), f"success, {name}", scale))
        outputs = net(whole.inputs).detach()
        wrong = outputs.argmax(1) != labels
        found.append(compare(whole.success.double(), "==", scale * wrong.double(), f"evaluated again, {name}"))
        margin = outputs.gather(1, labels[:, None])[:, 0] - outputs.scatter(1, labels[:, None], -math.inf).amax(1)
        found.append(compare(whole.margins, "==", scale * margin, f"margins again, {name}"))
        right = net(inputs).argmax(1) == labels
        found.append(same(whole.clean_correct.tolist(), right.tolist(), f"right before, {name}", scale))
        found.append(compare(whole.rates[-1], "==", scale * wrong.double().mean(), f"rate, {name}"))
    for adapter in (PGD, PGDL2):
        starts = [adapter(net, random_start=random).method.start for random in (True, False)]  # type: ignore[union-attr]
        found.append(same(starts, ["random", "input"], f"starts of {adapter.__name__}", scale))
    return found


def _units(scale: float) -> list[Comparison]:
    """Accuracies of sub-networks by labels, one-hot rows and signs; symmetrized flows; the worst half-space."""
    found: list[Comparison] = []
    net = ReLUNet([normal(1, 6, 3), normal(2, 3, 6)], [normal(3, 6), normal(4, 3)])
    inputs, labels = normal(5, 40, 3), torch.arange(40) % 3
    kept = torch.tensor([[1, 0, 1, 1, 0, 1], [0, 1, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1]])
    hidden = torch.relu(inputs @ net.weights[0].mT + net.biases[0])
    outputs = (hidden * kept[:, None]) @ net.weights[1].mT + net.biases[1]
    wanted = (outputs.argmax(2) == labels).double().mean(1)
    rows = functional.one_hot(labels, 3).double()
    for name, targets in (("labels", labels), ("rows", rows)):
        told = evaluate(net, Sample(inputs, targets), kept)
        found.append(compare(told.accuracies, "==", scale * wanted, f"accuracies by {name}"))
        found.append(compare(told.full, "==", scale * wanted[2], f"of all units by {name}"))
    single = ReLUNet([normal(1, 6, 3), normal(2, 1, 6)], [normal(3, 6), normal(4, 1)])
    signs = torch.where(labels > 0, 1.0, -1.0).double()
    scores = ((hidden * kept[:, None]) @ single.weights[1].mT + single.biases[1])[..., 0]
    told = evaluate(single, Sample(inputs, signs[:, None]), kept)
    found.append(compare(told.accuracies, "==", scale * (scores * signs > 0).double().mean(1), "accuracies by signs"))
    module = nn.Sequential(linear_head(1, 3, 6), nn.ReLU(), linear_head(3, 6, 2))
    last: Any = module[2]
    first: Any = module[0]
    energies = sum(torch.relu(side * inputs @ first.weight.mT + first.bias).square().mean(0) / 2 for side in (1, -1))
    both = (last.weight.square().sum(0) * energies).sqrt()
    told_flows = flows(LastLayer.of(module), Sample(inputs, labels), symmetrized=True)
    found.append(compare(told_flows, "==", scale * both.detach(), "symmetrized flows of a module"))
    for seed in range(6):
        X = normal(seed, 9, 2) + tensor([0.5, -0.3]) * seed
        weights = uniform(seed + 1, 9) + 0.1
        report = retentivity(Sample(X, torch.zeros(9).double(), weights))
        share = weights / weights.sum()
        root = torch.linalg.cholesky(torch.linalg.inv((X * share[:, None]).mT @ X))
        Z = X @ root
        angles = torch.linspace(0, 2 * math.pi, 4001).double()[:-1]
        ways = torch.stack([angles.cos(), angles.sin()])
        values = (share[:, None] * torch.relu(Z @ ways).square()).sum(0)
        found.append(compare(report.value, "==", scale * values.min(), f"least share, {seed}", 1e-4))
        found.append(compare(report.value, "<=", values.min() + 1e-12, f"not above the grid, {seed}"))
    drawn = symmetrize(Sample(inputs, labels), torch.Generator().manual_seed(4))
    flips = torch.randint(0, 2, (40,), generator=torch.Generator().manual_seed(4)) * 2 - 1
    found.append(compare(drawn.inputs, "==", scale * inputs * flips[:, None], "random signs"))
    return found


def _complexities(scale: float) -> list[Comparison]:
    """Complexities of one feature by all signs with their rounding, of many examples with their interval."""
    found: list[Comparison] = []
    x = normal(1, 6, 1)
    signs = tensor(list(itertools.product((1.0, -1.0), repeat=6)))
    up, down = (
        (signs @ torch.relu(side * x[:, 0])).abs() / (torch.relu(side * x[:, 0]).square().mean()).sqrt()
        for side in (1, -1)
    )
    mean = 2.5 * torch.maximum(up, down).mean() / 6
    told = measured_rademacher(Sample(x, torch.zeros(6).double()), 2.5)
    found.append(compare(told.value, "==", scale * mean, "one feature"))
    eps = torch.finfo(torch.float64).eps
    rounding = 2.5 * (16 + 24) * eps + (4 + 2.0**3) * eps * float(mean)
    found.append(compare(told.error, "==", scale * rounding, "its rounding", 1e-9, 1e-300))
    flat = measured_rademacher(Sample(normal(2, 5, 2), torch.zeros(5).double()))
    found.append(same(float(flat.error), math.inf, "two features: not known", scale))
    many = normal(3, 20, 1)
    drawn = measured_rademacher(Sample(many, torch.zeros(20).double()), draws=30, seed=2)
    patterns = (torch.randint(0, 2, (30, 20), generator=torch.Generator().manual_seed(2)) * 2 - 1).double()
    sides = [
        (patterns @ torch.relu(side * many[:, 0])).abs() / torch.relu(side * many[:, 0]).square().mean().sqrt()
        for side in (1, -1)
    ]
    values = torch.maximum(*sides) / 20
    half = 1.959963984540054 * values.std() / 30**0.5
    ends = torch.stack([values.mean(), values.mean() - half, values.mean() + half])
    found.append(compare(torch.stack([drawn.value, drawn.lower, drawn.upper]), "==", scale * ends, "drawn signs"))
    data = Sample(tensor([[1.0, 0.0], [2.0, 0.0]]), torch.zeros(2).double())
    law = Sample(tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.zeros(2).double())
    # mean of |s + 2 t| over two signs, by the half of the energy on either side
    found.append(compare(measured_rademacher(data, population=law).value, "==", scale * 2**0.5, "within the span"))
    beyond = Sample(tensor([[1.0, 1e-6], [2.0, 0.0]]), torch.zeros(2).double())
    found.append(refuses(lambda: measured_rademacher(beyond, population=law), "must span the data"))
    return found


def _criteria(scale: float) -> list[Comparison]:
    """Losses in the form that fits the shapes, and their sums and counts, large outputs included."""
    found: list[Comparison] = []
    images, tokens, flat = torch.zeros(4, 3, 5), torch.zeros(4, 5, 3), torch.zeros(4, 3)
    labels, rows = torch.zeros(4, 5, dtype=torch.long), torch.zeros(4, dtype=torch.long)
    square = torch.zeros(4, 5, 5)
    loss: Any
    wanted: Any
    for name, loss, outputs, targets, wanted in (
        ("classes last", CrossEntropy(), tokens, labels, Labels(-1)),
        ("classes second", CrossEntropy(), images, labels, Labels(1)),
        ("plain labels", CrossEntropy(), flat, rows, CrossEntropy()),
        ("found to be plain", Labels(), flat, rows, CrossEntropy()),
        ("left out", Labels(1), flat, rows - 100, Labels(1)),
        ("smoothed", Labels(1, smoothing=0.1), flat, rows, Labels(1, smoothing=0.1)),
        ("shifted", Labels(1, shift=True), tokens, labels, Labels(-1, shift=True)),
        ("either way, last", Labels(-1), square, labels, Labels(-1)),
        ("either way, second", Labels(1), square, labels, Labels(1)),
        ("one output", MeanSquared(), flat[:, :1], rows.double(), Squared()),
        ("several outputs", MeanSquared(), flat, flat, MeanSquared()),
    ):
        told = fitted(loss, outputs, targets)
        found.append(same((type(told), vars(told)), (type(wanted), vars(wanted)), f"fitted: {name}", scale))
    outputs, targets = normal(1, 6, 4), normal(2, 6, 4)
    for name, loss, each in (
        ("squared", Squared(), (outputs - targets).square().sum(1)),
        ("mean squares", as_loss(nn.MSELoss()), (outputs - targets).square().mean(1)),
        ("absolute", as_loss(nn.L1Loss()), (outputs - targets).abs().mean(1)),
        ("smooth", as_loss(nn.SmoothL1Loss()), functional.smooth_l1_loss(outputs, targets, reduction="none").mean(1)),
    ):
        sums, weights = parts(loss, outputs, targets)
        found.append(compare(sums / weights, "==", scale * each, f"each: {name}"))
    found.append(same(isinstance(as_loss(nn.L1Loss()), Entrywise), True, "entry by entry", scale))
    whole = parts(lambda out, y: (out - y).square().mean(), outputs, targets)
    mean = (outputs - targets).square().mean()
    found.append(compare(torch.cat(whole), "==", scale * torch.stack([6 * mean, tensor(6.0)]), "one number"))
    marks = torch.arange(30).reshape(6, 5) % 4
    marks[1, 2] = marks[3, 0] = IGNORED
    logits = normal(3, 6, 5, 4)
    each = functional.cross_entropy(logits.flatten(0, 1), marks.flatten(), reduction="none", ignore_index=IGNORED)
    for name, loss, out, wanted, count in (
        ("last", Labels(-1), logits, each.reshape(6, 5).sum(1), (marks != IGNORED).sum(1)),
        ("second", Labels(1), logits.movedim(-1, 1), each.reshape(6, 5).sum(1), (marks != IGNORED).sum(1)),
    ):
        sums, weights = parts(loss, out, marks)
        found.append(compare(sums, "==", scale * wanted, f"labels, {name}"))
        found.append(compare(weights, "==", scale * count, f"their counts, {name}"))
    later = functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), marks[:, 1:].flatten(), reduction="none", ignore_index=IGNORED
    ).reshape(6, 4)
    for axis, out in ((-1, logits), (1, logits.movedim(-1, 1))):
        sums, weights = parts(Labels(axis, shift=True), out, marks)
        found.append(compare(sums, "==", scale * later.sum(1), f"next labels, {axis}"))
        found.append(compare(weights, "==", scale * (marks[:, 1:] != IGNORED).sum(1), f"how many, {axis}"))
    for bad in ((outputs, targets[:, :3]), (outputs, targets[:5])):
        found.append(refuses(lambda bad=bad: parts(Squared(), *bad), "targets have shape"))
    found.append(refuses(lambda: parts(lambda out: out, outputs, targets), "must be a function"))  # type: ignore[misc,arg-type]
    found.append(refuses(lambda: parts(lambda *_: 3.0, outputs, targets), "must return a tensor"))  # type: ignore[arg-type]
    return found


def _calls(scale: float) -> list[Comparison]:
    """Realized shares and units of single calls, by counting."""
    found: list[Comparison] = []
    source = 1 + uniform(1, 3, 4, 2, 2)
    source[0, 1] = 0.0
    mask = torch.ones(3, 4, 1, 1).double()
    mask[0, 0], mask[1, 2], mask[2, 3] = 0.0, 0.0, 0.0

    def call(kind: str, given: Tensor | None, left: Tensor | None, applied: bool = True) -> Call:
        shape = None if given is None else tuple(given.shape)
        return Call("a", kind, 0.3, applied, shape, None, source=given, result=left)

    torn = source * mask
    torn[2, 0, 0, 0] = 0.0  # a single pixel is no channel
    for name, kind, given, left, share in (
        ("channels", "dropout2d", source, torn, 3 / 11),
        ("pixels", "dropout", source, torn, 13 / 44),
        ("rows", "dropout1d", source[..., 0, 0], torn[..., 0, 0], 4 / 11),
    ):
        found.append(compare(_realized(call(kind, given, left)) or 0.0, "==", scale * share, f"realized, {name}"))
    none = [
        _realized(one)
        for one in (
            call("dropout", None, None),
            call("dropout", source, None),
            call("dropout", source, torn, False),
            call("alpha dropout", source, torn),
            call("dropout", 0 * source, 0 * source),
        )
    ]
    found.append(same(none, [None] * 5, "nothing realized", scale))
    units = [
        _unit(call(kind, given, None))
        for kind, given in (
            ("dropout", source),
            ("dropout2d", source),
            ("dropout2d", source[0]),
            ("dropout1d", source[..., 0]),
            ("dropout3d", source),
            ("alpha dropout", source),
            ("dropout2d", None),
        )
    ]
    found.append(same(units, ["entry", "channel", None, "channel", None, None, None], "what falls", scale))
    return found
