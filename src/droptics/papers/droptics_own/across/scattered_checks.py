"""What a claim compares on ways that only large or scattered problems take, made to take them here."""

from __future__ import annotations

import importlib
import warnings
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.audits import audit, criteria
from droptics.audits.criteria import OwnLoss, as_loss, differentiated, guess_loss, parts
from droptics.evidence import formulas
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Loss, Squared
from droptics.masks import Bernoulli
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import stack
from droptics.papers.droptics_own.predictions.moment_checks import network, network_masks
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, uniform
from droptics.penalties import UnitOutputs
from droptics.predictions import affine, classes, predictive
from droptics.rates import Fit, tune_rates
from droptics.recommenders import elimination
from droptics.recommenders.device import _direct


def taken_here(scale: float) -> list[Comparison]:
    """Chunks of examples, sums over all outcomes, logits of few masks, shards of audits, large losses, few pivots."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = (_chunks, _outcomes, _logits, _shards, _losses, _solved, _told)
        return [one for part in found for one in part(scale)]


def _chunks(scale: float) -> list[Comparison]:
    """Variances and covariances some examples at a time are those at once."""
    found: list[Comparison] = []
    law = Bernoulli(0.1 + 0.6 * uniform(1, 4), 4)
    for shared in (True, False):
        for lead in ((), (2,)):
            features = normal(2, *lead, 7, 4)
            head = normal(3, *lead, 1 if shared else 7, 3, 4)
            told = affine.Affine(normal(4, *lead, 7, 3), UnitOutputs(features, head), law)
            rows = head * features.unsqueeze(-2)
            spread = (law.drop / (1 - law.drop)).double()
            wanted = (rows * spread) @ rows.mT
            for elements in (1, 30, 1 << 20):
                with mock.patch.object(affine, "CHUNK_ELEMENTS", elements):
                    both = told.covariance(), told.variance()
                name = f"{elements} elements, {'one head' if shared else 'own heads'}, {lead}"
                found.append(compare(both[0], "==", scale * wanted, f"covariances, {name}"))
                diagonal = wanted.diagonal(dim1=-2, dim2=-1)
                found.append(compare(both[1], "==", scale * diagonal, f"variances, {name}"))
    return found


def _outcomes(scale: float) -> list[Comparison]:
    """Moments of ReLU networks too wide to list early masks: by sums over the outcomes of each unit."""
    found: list[Comparison] = []
    net, inputs = network(1, 3, 4, 2), normal(5, 4, 3)
    rates = [0.1 + 0.6 * uniform(2, 3), 0.1 + 0.6 * uniform(3, 4)]
    law = Bernoulli(torch.cat(rates), 7)
    values, weights = network_masks(net, inputs, [part.tolist() for part in rates])
    mean = torch.tensordot(weights, values, 1)
    moved = values - mean
    joint = torch.einsum("m,mni,mnj->nij", weights, moved, moved)
    module = importlib.import_module("droptics.predictions.predictive")  # the function has its name
    for most in (1, 1 << 16):
        with mock.patch.object(module, "DIRECT_OUTCOMES", most):
            told = predictive(net, inputs, law)
        found.append(compare(told.mean.value, "==", scale * mean, f"mean, {most}"))
        found.append(compare(told.variance.value, "==", scale * joint.diagonal(dim1=1, dim2=2), f"variance, {most}"))
        found.append(compare(told.covariance.value, "==", scale * joint, f"covariance, {most}"))
        words = "exact sum over mask outcomes, last layer integrated"
        way = (told.mean.confidence, told.samples, told.mean.method == words)
        found.append(same(way, (1.0, None, most == 1), f"nothing drawn, {most}", scale))
    return found


def _logits(scale: float) -> list[Comparison]:
    """Logits under given masks, of many classes and of few; examples whose variance few units carry."""
    found: list[Comparison] = []
    for outputs, shared in ((9, True), (2, True), (9, False)):
        features, head = normal(1, 1, 5, 4), normal(2, 1 if shared else 5, outputs, 4)
        center, moved = normal(3, 1, 5, outputs), normal(4, 3, 4)
        told = classes._logits(center, UnitOutputs(features, head), moved)
        rows = []
        for n in range(5):
            own = head[0 if shared else n]
            rows.append(torch.stack([center[0, n] + own @ (features[0, n] * step) for step in moved], -1))
        found.append(compare(told[0], "==", scale * torch.stack(rows), f"logits, {outputs}, {shared}"))
    energies = uniform(5, 30, 6)
    for weights in (uniform(6, 1, 6), uniform(7, 30, 6)):
        shares = energies * weights
        few = shares.square().sum(1) / shares.sum(1).square()
        count = min(classes.TRIAL_EXAMPLES, 30)
        chosen = classes._least_gaussian(energies, weights)
        found.append(same(set(chosen.tolist()), set(few.argsort(descending=True)[:count].tolist()), "fewest", scale))
    return found


def _shards(scale: float) -> list[Comparison]:
    """Two ranks that audit half of the batches each report what one reports of all."""
    found: list[Comparison] = []
    half = [(normal(1, 12, 3), normal(2, 12, 2)), (normal(3, 8, 3), normal(4, 8, 2))]
    line = nn.Sequential(linear_head(1, 3, 4), nn.Dropout(0.3), linear_head(3, 4, 2))
    both = [("head", stack((3, 5, 2), (0.4,), nn.Tanh)), ("chain", line)]
    for name, module in both:
        seen: list[Any] = []

        def keep(shards: list[Any], own: Any, seen: list[Any] = seen) -> None:
            seen.append(own)
            shards[:] = seen

        ranks = mock.patch("torch.distributed.get_world_size", side_effect=lambda seen=seen: len(seen) + 1)
        there = mock.patch("torch.distributed.is_initialized", return_value=True)
        gather = mock.patch("torch.distributed.all_gather_object", side_effect=keep)
        with ranks, there, gather:
            audit(module, half[:1], distributed=True)
            told = audit(module, half[1:], distributed=True)
        whole = audit(module, half)
        losses = [[one.clean_loss, one.training_loss.value] for one in (told, whole)]
        found.append(compare(losses[0], "==", [scale * loss for loss in losses[1]], f"losses, {name}", 1e-7))
        for mine, wanted in zip(told.sites, whole.sites, strict=True):
            assert mine.penalty is not None
            assert wanted.penalty is not None
            ends = [[part.value, part.lower, part.upper] for part in (mine.penalty, wanted.penalty)]
            found.append(compare(ends[0], "==", [scale * end for end in ends[1]], f"penalty, {name}", 1e-7))
            if wanted.spectrum is not None and mine.spectrum is not None:
                spectra = [tuple(one.measured) for one in (mine.spectrum, wanted.spectrum)]
                found.append(compare(spectra[0], "==", [scale * v for v in spectra[1]], f"spectrum, {name}", 1e-7))
    wide = nn.Sequential(nn.Dropout(0.3), linear_head(1, 3, 5))
    features, targets = normal(5, 30, 3), normal(6, 30, 5)
    report = audit(wide, [(features, targets)])
    spectrum = report.sites[0].spectrum
    assert spectrum is not None
    weight = next(wide.parameters())
    values = torch.linalg.svdvals(features @ weight.mT) / 30**0.5
    found.append(compare(spectrum.measured[:3], "==", scale * values[:3], "more outputs than units", 1e-7))
    return found


def _losses(scale: float) -> list[Comparison]:
    """Losses of large outputs, with and without derivatives, and of functions that return a mean."""
    found: list[Comparison] = []
    outputs, labels, targets = normal(1, 6, 4), torch.arange(6) % 4, normal(2, 6, 4)

    def mean(given: Tensor, wanted: Tensor) -> Tensor:
        return (given - wanted).abs().mean()

    each = {
        "squares": (Squared(), targets, (outputs - targets).square().sum(1)),
        "classes": (CrossEntropy(), labels, functional.cross_entropy(outputs, labels, reduction="none")),
    }
    for most in (5, 1 << 20):
        with mock.patch.object(criteria, "DOUBLE", most):
            for name, (loss, wanted, values) in each.items():
                leaf = outputs.clone().requires_grad_()
                (slope,) = torch.autograd.grad(_value(loss, leaf, wanted), leaf)
                for given in (outputs, leaf):
                    sums, weights = parts(loss, given, wanted)
                    share = sums.detach() / weights
                    found.append(compare(share, "==", scale * values, f"{name}, {most}, {given.requires_grad}"))
                sums, weights, way = differentiated(loss, leaf, wanted)
                assert way is not None
                found.append(compare(way, "==", scale * slope, f"derivative of {name}, {most}"))
                found.append(compare(sums, "==", scale * values * weights, f"sums of {name}, {most}"))
            sums, weights, none = differentiated(mean, outputs, targets)
            total = float(sums.sum() / weights.sum())
            found.append(compare(total, "==", scale * mean(outputs, targets), f"a mean, {most}"))
            found.append(same(none is None, True, f"without derivative, {most}", scale))
    found.append(compare(OwnLoss()(outputs, targets), "==", scale * outputs.mean(), "the module's own"))
    kinds = [type(guess_loss(part)).__name__ for part in (targets, labels, labels.view(2, 3))]
    found.append(same(kinds, ["Squared", "CrossEntropy", "Labels"], "guessed", scale))
    plain = nn.L1Loss(reduction="sum")
    found.append(same(as_loss(plain) is plain, True, "a sum stays as it is", scale))
    return found


def _value(loss: Loss, outputs: Tensor, targets: Tensor) -> Tensor:
    return loss(outputs, targets).sum()


def _solved(scale: float) -> list[Comparison]:
    """Inverses by many small blocks, and systems with directions that nobody rated."""
    found: list[Comparison] = []
    for size, block in ((7, 3), (9, 3), (10, 4)):
        root = normal(size, size, size)
        square = root @ root.mT / size + torch.eye(size, dtype=torch.float64)
        told = square.clone()
        with mock.patch.object(elimination, "_BLOCK", block), mock.patch.object(elimination, "_PART", 2):
            fine = elimination.invert(told)
        found.append(same(bool(fine), True, f"positive definite, {size}", scale))
        found.append(compare(told.tril(), "==", scale * torch.linalg.inv(square).tril(), f"inverse, {size} by {block}"))
    tall = normal(1, 4, 2)
    singular = tall @ tall.mT
    system = torch.stack([singular, singular + torch.eye(4, dtype=torch.float64)])
    right, start = torch.stack([singular @ normal(2, 4), normal(3, 4)]), normal(4, 2, 4)
    moved, gain = _direct(system.clone(), right, start)
    wanted = torch.stack([torch.linalg.pinv(one, hermitian=True) @ r for one, r in zip(system, right, strict=True)])
    found.append(compare(moved - start, "==", scale * wanted, "singular and regular systems", 1e-7))
    found.append(compare(gain, "==", scale * (wanted * right).sum(1), "what they gain", 1e-7))
    return found


class Counting(nn.Module):
    """A network that counts its calls in a buffer which it assigns anew."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.body = stack((3, 4, 1), (0.3,), nn.Tanh)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls = self.calls + 1
        return self.body(inputs) * (1 + 0.01 * self.calls)


def _told(scale: float) -> list[Comparison]:
    """Formulas without their library, answers without copies, networks that assign their buffers."""
    found: list[Comparison] = []
    with mock.patch.dict("sys.modules", {"docutils.utils.math.latex2mathml": None}):
        found.append(same(formulas.mathml("a < b"), "<code>a &lt; b</code>", "as code", scale))
    module = nn.Sequential(nn.Dropout(0.3), linear_head(1, 3, 1)).requires_grad_()
    data, held = (normal(1, 24, 3), normal(2, 24, 1)), (normal(3, 16, 3), normal(4, 16, 1))
    told = tune_rates(module, data, held, scan=(0.0, 0.3), progress=False)
    text = str(told).replace("\n", " ")
    found.append(same((told.cost.copies, told.method in text), (0, True), "no copies", scale))
    counting = Counting().requires_grad_()
    found_rates = tune_rates(counting, data, held, fit=Fit(1, 8), scan=(0.0, 0.3), progress=False)
    plain = found_rates.points[0].loss
    assert plain is not None
    again = tune_rates(counting, data, held, fit=Fit(1, 8), scan=(0.0, 0.3), population="apart", progress=False)
    found.append(compare(again.points[0].loss, "==", scale * plain, "buffers that are assigned"))
    found.append(same(float(counting.calls), 0.0, "and given back", scale))
    return found
