"""Paths of other rooms that few questions take: roots with derivatives, silent inputs, stacked laws, plain tapes."""

from __future__ import annotations

import math

import scipy
import torch
from torch import Tensor, nn

from droptics.attacks.gradients import Autograd, PlainMlp, differentiable
from droptics.attacks.threat import Threat
from droptics.bounds import lazy, linear_margin, measured_rademacher
from droptics.data import Entries, Moments, Sample
from droptics.envelopes import envelope
from droptics.equalization import imbalance
from droptics.evidence.claims import Comparison, compare
from droptics.layers import ExplicitDropout
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli, Block, Gaussian, MaskLaw, Product
from droptics.models import DeepLinear, Factorization, ReLUNet, TwoLayerLinear
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, simplex, tensor, uniform
from droptics.penalties import penalty, risk
from droptics.spectra.roots import Root
from droptics.training import Dropout, Recording, train
from droptics.training.adversarial import _divergence

EPS = torch.finfo(torch.float64).eps


class Pairs(MaskLaw):
    """A law from outside that states its mean, its covariance and its draws, and nothing else."""

    size = 4
    mean = tensor([0.5, 0.5, 0.6, 0.6])
    covariance = tensor([[0.25, 0.1, 0.0, 0.0], [0.1, 0.25, 0.0, 0.0], [0.0, 0.0, 0.24, -0.1], [0.0, 0.0, -0.1, 0.24]])

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Coins without the correlation: nothing here draws."""
        return torch.bernoulli(self.mean.expand(count, 4), generator=generator)


def side_rooms(scale: float) -> list[Comparison]:
    """Roots that carry derivatives, laws from outside, silent layers, trainings of several laws, tapes of networks."""
    return by_parts((_roots, _laws, _layers, _trained, _tapes, _bounds), scale)


def _roots(scale: float) -> list[Comparison]:
    found: list[Comparison] = []
    X = normal(1, 20, 3) * tensor([1.0, 1e3, 0.1])
    full, X = X.mT @ X / 20, X.clone()
    X[:, 2] = X[:, 0] + X[:, 1]
    short = X.mT @ X / 20
    for name, moment, rank in (("regular", full, 3), ("singular", short, 2)):
        for varies in (False, True):
            leaf = moment.clone().requires_grad_(varies)
            root = Root.of_moment(leaf, EPS)
            sizes = moment.diagonal().sqrt()
            again = (root.matrix @ root.matrix.mT).detach() / sizes[:, None] / sizes
            label = f"{name}, {varies}"
            wanted = moment / sizes[:, None] / sizes
            found.append(compare(again, "==", scale * wanted, f"root, {label}", 1e-8))
            found.append(compare(len(root.energies), "==", scale * rank, f"directions, {label}"))
            W = normal(2, 2, 3) / sizes
            image = root.down(W.mT).mT
            found.append(compare(image @ image.mT, "==", scale * W @ moment @ W.mT, f"weights, {label}", 1e-8))
            found.append(compare(root.down(root.up(image.mT)), "==", scale * image.mT, f"and back, {label}", 1e-8))
            found.append(compare(root.up_rows(W @ moment), "==", scale * image, f"rows, {label}", 1e-8))
            found.append(same(root.energies.requires_grad, False, f"energies have no slope, {label}", scale))
            if varies and rank == 3:
                (slope,) = torch.autograd.grad(torch.linalg.svdvals(image).sum(), leaf)
                step = 1e-6 * sizes[:, None] * sizes * torch.ones(3, 3).double()
                ends = []
                for sign in (1, -1):
                    moved = torch.linalg.eigh((moment + sign * step) / sizes[:, None] / sizes)
                    part = (W * sizes) @ moved.eigenvectors * moved.eigenvalues.clamp_min(0).sqrt()
                    ends.append(torch.linalg.svdvals(part).sum())
                wanted = (ends[0] - ends[1]) / 2
                found.append(compare((slope * step).sum(), "==", scale * wanted, f"derivative, {label}", 1e-5, 1e-12))
    return [*found, *_inverse_roots(scale)]


def _inverse_roots(scale: float) -> list[Comparison]:
    """Slopes of the inverse, also at equal eigenvalues, and how little energy of a direction still counts."""
    found: list[Comparison] = []
    A, weights = normal(4, 3, 3) + 3 * torch.eye(3).double(), normal(5, 3, 3)
    for name, moment in (("correlated", A @ A.mT), ("uncorrelated", torch.diag(tensor([4.0, 1.0, 9.0])))):
        leaf = moment.clone().requires_grad_()
        inside = Root.of_moment(leaf, EPS).up(torch.eye(3).double())
        inverse = torch.linalg.inv(moment)
        found.append(compare(inside.detach() @ inside.detach().mT, "==", scale * inverse, f"inverse, {name}"))
        (slope,) = torch.autograd.grad((inside @ inside.mT * weights).sum(), leaf)
        wanted = -inverse @ (weights + weights.mT) @ inverse / 2
        found.append(compare(slope, "==", scale * wanted, f"slope of the inverse, {name}"))
    # a direction counts from the energy 24 rounding on, in units in which every feature has energy one
    single = torch.finfo(torch.float32).eps
    for rounding, size, rank in ((EPS, 1e-6, 3), (EPS, 1e-9, 2), (single, 1e-2, 3), (single, 1e-4, 2)):
        X = normal(6, 20, 3)
        X[:, 2] = X[:, 0] - X[:, 1] + size * X[:, 2]
        for varies in (False, True):
            told = len(Root.of_moment((X.mT @ X / 20).requires_grad_(varies), rounding).energies)
            label = f"directions beside one of size {size}, rounding {rounding:.0e}, {varies}"
            found.append(compare(told, "==", scale * rank, label))
    return found


def _laws(scale: float) -> list[Comparison]:
    """What follows from a mean and a covariance alone; how rare the rarest outcome of a law is."""
    found: list[Comparison] = []
    law = Pairs()
    ratio = law.covariance / torch.outer(law.mean, law.mean)
    found.append(compare(law.characteristic, "==", scale * ratio, "characteristic matrix"))
    found.append(compare(law.relative_variance, "==", scale * ratio.diagonal(), "its diagonal"))
    for lag in range(4):
        found.append(compare(law.diagonal(lag), "==", scale * ratio.diagonal(lag), f"diagonal {lag}"))
    model, data = (
        TwoLayerLinear(normal(1, 2, 4), normal(2, 3, 4)),
        Sample(normal(3, 6, 3), normal(4, 6, 2), simplex(5, 6)),
    )
    parts = torch.einsum("nk,ok->nok", data.inputs @ model.V, model.U)
    wanted = torch.einsum("n,noi,noj,ij->", data.shares, parts, parts, ratio)
    found.append(compare(penalty(model, data, law), "==", scale * wanted, "penalty of a law from outside"))
    for name, one, rarest in (
        ("outside", law, 1.0),
        ("noise", Gaussian(0.3, 4), 1.0),
        ("coins", Bernoulli(tensor([0.3, 0.05, 0.9, 0.5]), 4), 0.05),
        ("often dropped", Bernoulli(0.9, 4), 0.1),
        ("never", Bernoulli(0.0, 4), 1.0),
        ("blocks", Block(0.8, 4, 2), 0.2),
        ("both", Product([Bernoulli(0.3, 2), Block(0.1, 4, 2)]), 0.1),
    ):
        found.append(compare(one.rarest, "==", scale * rarest, f"rarest, {name}"))
    return found


def _layers(scale: float) -> list[Comparison]:
    """Envelopes of silent and of observed maps, explicit dropout in evaluation, at half precision and by autocast."""
    found: list[Comparison] = []
    silent = Moments(torch.zeros(3, 3).double(), torch.zeros(2, 3).double(), torch.eye(2).double())
    deep = DeepLinear([normal(6, 4, 3), normal(7, 2, 4)])
    found.append(same(float(envelope(deep, silent, Bernoulli(0.3, 4))), 0.0, "silent inputs have no envelope", scale))
    found.append(same(float(imbalance(deep, silent, Bernoulli(0.3, 4))), 0.0, "and are balanced", scale))
    pair = TwoLayerLinear(normal(6, 2, 4), normal(7, 3, 4))
    for law in (Bernoulli(0.3, 4), Block(0.3, 4, 2), Bernoulli(tensor([0.1, 0.2, 0.5, 0.7]), 4)):
        found.append(same(float(envelope(pair, silent, law)), 0.0, f"nor in two layers under {law}", scale))
    cells = Entries(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1]), normal(1, 4), (2, 2))
    factors = Factorization(normal(2, 2, 3), normal(3, 2, 3))
    told = envelope(factors, cells, Bernoulli(0.3, 3))
    values = torch.linalg.svdvals(factors.matrix()) / 2
    found.append(compare(told, "==", scale * 0.3 / 0.7 / 3 * values.sum() ** 2, "envelope of entries"))
    found.append(same(float(told.error), math.inf, "whose rounding nobody knows", scale))
    head, features = linear_head(1, 5, 3), normal(2, 4, 6, 5)
    layer = ExplicitDropout(0.4, head, CrossEntropy(), "sampled", masks=4).eval()
    same_features = layer(features)
    found.append(compare(same_features, "==", features, "passed on"))
    shapes = tuple(layer.penalties.shape), tuple(layer.consistencies.shape)
    found.append(same(shapes, ((4, 6), (4, 6)), "a number for every token", scale))
    found.append(compare(layer.consistencies, "==", 0.0, "no masks differ in evaluation"))
    found.append(same(float(layer.penalty), 0.0, "nor cost anything", scale))
    layer = ExplicitDropout(0.4, head)
    wanted = 0.4 / 0.6 * (features.square() * head.weight.detach().square().sum(0)).sum(-1)
    layer(features)
    found.append(compare(layer.penalties, "==", scale * wanted, "in training"))
    single = ExplicitDropout(0.4, linear_head(4, 5, 3).float())
    half = 100 * normal(3, 7, 5).to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        single(half)
    wanted = 0.4 / 0.6 * (half.float().square() * single.head.weight.detach().square().sum(0)).sum(-1)  # type: ignore[operator]
    found.append(compare(single.penalties, "==", scale * wanted, "in single precision under autocast", 1e-5))
    found.append(same(single.penalties.dtype, torch.float32, "and no less", scale))
    single.eval()(half)
    found.append(
        same((single.penalties.dtype, float(single.penalty)), (torch.float32, 0.0), "nor in evaluation", scale)
    )
    return [*found, *_autocast(scale)]


def _autocast(scale: float) -> list[Comparison]:
    """Penalties of classifiers of every form under autocast beside those of float32 features outside it."""
    found: list[Comparison] = []
    head, features = linear_head(4, 5, 3).float(), normal(3, 7, 5).to(torch.bfloat16)
    weight = head.weight.detach().double()
    chances = (features.double() @ weight.mT + head.bias.detach()).softmax(-1)
    spread = (chances[:, :, None] * (weight - (chances @ weight)[:, None]).square()).sum(1)
    second = 0.5 * 0.4 / 0.6 * (features.double().square() * spread).sum(-1)
    for form in ("second-order", "bound", "sampled"):
        told = []
        for within in (True, False):
            layer = ExplicitDropout(0.4, head, CrossEntropy(), form)
            with torch.random.fork_rng(devices=[]), torch.autocast("cpu", torch.bfloat16, enabled=within):
                torch.manual_seed(1)
                layer(features if within else features.float())
            told.append(layer.penalties.detach().double())
        wanted = second if form == "second-order" else told[1]
        found.append(compare(told[0], "==", scale * wanted, f"{form} under autocast", 1e-5))
    return found


def _trained(scale: float) -> list[Comparison]:
    """Several laws of several layers in one training, recorded as each alone; quantities of one's own; divergences."""
    found: list[Comparison] = []
    data, sizes = Sample(normal(2, 9, 3), normal(3, 9, 2), 3 * simplex(4, 9)), (0.01, 0.03)
    laws = [Product([Bernoulli(rate, 4), Bernoulli(rate / 2, 3)]) for rate in (0.1, 0.4)]
    weights = [normal(6, 2, 4, 3), normal(7, 2, 3, 4), normal(8, 2, 2, 3)]
    names = ("risk", "penalty", "objective", "imbalance")
    record = Recording(names, at=(0, 3))
    run = train(DeepLinear(weights), data, Dropout(laws), steps=3, step_size=sizes, seed=[5, 6], record=record)
    for k, law in enumerate(laws):
        start = DeepLinear([part[k] for part in weights])
        alone = train(start, data, Dropout(law), steps=3, step_size=sizes[k], seed=5 + k, record=record)
        for one, other in zip(run.model.tensors, alone.model.tensors, strict=True):
            found.append(compare(one[k], "==", scale * other, f"weights of run {k}"))
        for step, model in ((0, start), (1, alone.model)):
            own = [risk(model, data), penalty(model, data, law).value]
            own += [own[0] + own[1], imbalance(model, data, law)]
            for name, number in zip(names, own, strict=True):
                told = run.history[name][step][k]
                found.append(compare(told, "==", scale * number, f"{name} of run {k}, {step}", 1e-8))
    own_record = Recording({"size": lambda model: model.tensors[0].square().sum()}, at=(0, 2))
    idle = train(alone.model, data, Dropout(law), steps=2, step_size=1e-30, seed=1, record=own_record)
    size = alone.model.tensors[0].square().sum()
    found.append(compare(idle.history["size"], "==", scale * torch.stack([size, size]), "a quantity of one's own"))
    clean, moved = normal(1, 5, 1), normal(2, 5, 1)
    p, q = torch.sigmoid(clean[:, 0]), torch.sigmoid(moved[:, 0])
    wanted = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
    found.append(compare(_divergence(clean, moved), "==", scale * wanted, "log odds"))
    many, others = normal(3, 5, 4).softmax(-1), normal(4, 5, 4).softmax(-1)
    wanted = (many * (many / others).log()).sum(-1)
    found.append(compare(_divergence(many.log(), others.log() + 3), "==", scale * wanted, "classes"))
    return found


def _tapes(scale: float) -> list[Comparison]:
    """Gradients of ReLU networks and of modules that are nothing else, by formula; which modules are not."""
    found: list[Comparison] = []
    net = ReLUNet([normal(1, 5, 4), normal(2, 3, 5)], [normal(3, 5), normal(4, 3)])
    first, last = linear_head(1, 4, 5), linear_head(3, 5, 3)
    idle, doubled, shifted = nn.Dropout(0.5).eval(), nn.Identity(), nn.ReLU()
    own = nn.utils.parametrizations.weight_norm(linear_head(1, 4, 5))  # of a class of its own
    doubled.register_forward_hook(lambda _, given, told: 2 * told)
    shifted.register_forward_pre_hook(lambda _, given: (given[0] + 1,))
    for name, model, plain in (
        ("a ReLU network", net, True),
        ("layers", nn.Sequential(first, nn.ReLU(), last), True),
        ("idle parts", nn.Sequential(nn.Identity(), first, nn.Identity(), nn.ReLU(), idle, last), True),
        ("active dropout", nn.Sequential(first, nn.ReLU(), nn.Dropout(0.5), last), False),
        ("watched outputs", nn.Sequential(doubled, first, nn.ReLU(), last), False),
        ("watched inputs", nn.Sequential(first, shifted, last), False),
        ("two in a row", nn.Sequential(first, last), False),
        ("ends bent", nn.Sequential(first, nn.ReLU()), False),
        ("begins bent", nn.Sequential(nn.ReLU(), first, nn.ReLU(), last), False),
        ("bent twice", nn.Sequential(first, nn.ReLU(), nn.ReLU(), last), False),
        ("a layer of one's own", nn.Sequential(own, nn.ReLU(), last), False),
        ("another bend", nn.Sequential(first, nn.Tanh(), last), False),
        ("a function", nn.Sequential(first, nn.ReLU(), last).forward, False),
        ("pictures", nn.Sequential(nn.Flatten(), first, nn.ReLU(), last), True),
        ("rows and columns", nn.Sequential(nn.Flatten(1, 2), first, nn.ReLU(), last), False),
        ("flat too late", nn.Sequential(first, nn.Flatten(), nn.ReLU(), last), False),
    ):
        tape = differentiable(model)
        found.append(same(isinstance(tape, PlainMlp), plain, f"by formula, {name}", scale))
        found.append(same(isinstance(tape, Autograd), not plain, f"by autograd, {name}", scale))
        if name == "active dropout":
            continue
        inputs = normal(5, 6, 2, 2) if name in ("pictures", "rows and columns") else normal(5, 6, 4)
        leaf = inputs.clone().requires_grad_()
        wanted = model.outputs(leaf) if isinstance(model, ReLUNet) else model(leaf)  # type: ignore[no-untyped-call]
        slopes = normal(6, *wanted.shape)
        (back,) = torch.autograd.grad((wanted * slopes).sum(), leaf)
        found.append(compare(tape.forward(inputs), "==", scale * wanted, f"outputs, {name}"))
        found.append(compare(tape.pull(slopes.clone()), "==", scale * back, f"gradient, {name}"))
        for chosen in ([4, 1], [5, 0, 3, 2]):
            tape.forward(inputs)
            rows = torch.tensor(chosen)
            told = tape.pull(slopes[rows].clone(), rows)
            found.append(compare(told, "==", scale * back[rows], f"of {len(chosen)}, {name}"))
    slope = torch.cat([normal(7, 3, 4), 1e-200 * normal(8, 2, 4), torch.zeros(1, 4).double()])
    told = Threat("l2", 1.0).steepest(slope)
    sizes = (slope / slope.abs().amax(1, keepdim=True).clamp_min(1e-300)).norm(dim=1, keepdim=True)
    unit = slope / slope.abs().amax(1, keepdim=True).clamp_min(1e-300) / sizes.clamp_min(1e-300)
    found.append(compare(told, "==", scale * unit, "steepest, also where squares vanish"))
    return found


def _bounds(scale: float) -> list[Comparison]:
    """Margins of many points, complexities without directions, a confidence that no width reaches."""
    found: list[Comparison] = []
    angles = torch.linspace(-1.1, 1.3, 400).double()
    points = torch.stack([angles.cos(), angles.sin()], 1) * (0.5 + uniform(1, 400, 1))
    signs = torch.where(torch.arange(400) % 2 == 0, 1.0, -1.0).double()
    told = linear_margin(Sample(points * signs[:, None], signs))
    found.append(compare(told, "==", scale * math.cos(1.2), "margin of 400 points", 2e-6))
    for size in (4, 9):
        points, way = normal(size, 900, size), normal(size + 1, size)
        sides = (points @ way / way.norm() / points.norm(dim=1)).abs() > 0.05
        points, signs = points[sides], (points[sides] @ way).sign()
        told = linear_margin(Sample(points, signs))
        ahead = (signs[:, None] * points / points.norm(dim=1, keepdim=True)).numpy()
        # the separator of least norm among those that keep every point at one or more
        best = scipy.optimize.minimize(
            lambda v: v @ v,
            way.numpy() / (ahead @ way.numpy()).min(),
            jac=lambda v: 2 * v,
            method="SLSQP",
            constraints={
                "type": "ineq",
                "fun": lambda v, ahead=ahead: ahead @ v - 1,
                "jac": lambda v, ahead=ahead: ahead,
            },
            options={"ftol": 1e-13, "maxiter": 200},
        )
        found.append(compare(told, "==", scale * best.fun**-0.5, f"margin of {len(points)} points in {size}", 2e-6))
        found.append(
            compare(
                linear_margin(Sample(points, -signs * tensor([1.0, -1.0]).repeat(len(points))[: len(points)])),
                "==",
                0.0,
                "nothing separates",
            )
        )
    nothing = measured_rademacher(Sample(torch.zeros(4, 3).double(), torch.zeros(4, 1).double()))
    found.append(same((float(nothing), "no directions" in nothing.method), (0.0, True), "no directions", scale))
    surely = lazy(margin=0.5, steps=1, inputs=3, drop=0.0, compression=True, confidence=1 - 1e-15)
    words = "confidence not reachable at this width and number of steps"
    found.append(same(dict(surely.terms), {words: math.inf}, "a confidence too high", scale))
    found.append(same(surely.vacuous, True, "says nothing", scale))
    return found
