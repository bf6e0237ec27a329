"""What a claim compares on options that are seldom given: each with a value off its default, by its own meaning."""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor, nn
from torch.nn import functional

import droptics.attacks.adapter as adapters
from droptics.attacks import Apgd, Dlr, Fab, Fgsm, Margin, Pgd, Square, Threat, attack, perturb, robustness_curve
from droptics.attacks.methods import Method
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.layers import ExplicitDropout, explicit_consistency
from droptics.losses import CrossEntropy, Logistic, Squared
from droptics.masks import Bernoulli, Product
from droptics.models import ReLUNet, TwoLayerLinear
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.predictions.moment_checks import network
from droptics.papers.droptics_own.recommenders.ranker_checks import interactions, weights_of
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor, uniform
from droptics.penalties import MonteCarlo
from droptics.predictions import predictive
from droptics.recommenders import (
    AutoencoderCompletion,
    DropoutAutoencoder,
    ImplicitDropoutCompletion,
    LocalAutoencoder,
    StackedCompletion,
)
from droptics.training import (
    Adversarial,
    Dropout,
    DropoutClassifier,
    DropoutRegressor,
    Free,
    Recording,
    lazy_start,
    masked_step,
    train,
)


def every_option(scale: float) -> list[Comparison]:
    """Options of attacks, layers, trainings and recommenders."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return by_parts((_searches, _adapted, _seeds, _layers, _steps, _fits, _ranked, _clipped), scale)


def _nearest(point: Tensor, center: Tensor, radius: float) -> Tensor:
    """The nearest point of an l2 ball within [0, 1], by bisection on the multiplier of the ball."""
    low, high = 0.0, 1e6

    def shrunk(t: float) -> Tensor:
        return ((point + t * center) / (1 + t)).clamp(0, 1)

    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if float((shrunk(middle) - center).norm()) > radius else (low, middle)
    return shrunk(high)


def _searches(scale: float) -> list[Comparison]:
    """Projections, precision, given starts, batches, confidences and losses of searches."""
    found: list[Comparison] = []
    net = linear_head(1, 4, 3)
    inputs = 0.1 * uniform(5, 7, 4) + 0.9 * (uniform(6, 7, 4) < 0.5)
    with torch.no_grad():
        labels = net(inputs).argmax(1)
    data, threat = Sample(inputs, labels), Threat("l2", 0.4, (0, 1))
    leaf = inputs.clone().requires_grad_()
    (slope,) = torch.autograd.grad(functional.cross_entropy(net(leaf), labels, reduction="sum"), leaf)
    unit = slope / slope.norm(dim=1, keepdim=True)
    far = inputs + scale * 0.9 * unit
    exact = torch.stack([_nearest(point, center, 0.4) for point, center in zip(far, inputs, strict=True)])
    ball = inputs + (far - inputs) * (0.4 / (far - inputs).norm(dim=1, keepdim=True)).clamp_max(1.0)
    projected: tuple[tuple[Any, Tensor], ...] = (("exact", exact), ("clip", ball.clamp(0, 1)))
    for projection, wanted in projected:
        method = Pgd(steps=1, step=0.9, projection=projection, stop="never")
        found.append(compare(attack(net, data, threat, method).inputs, "==", wanted, f"{projection} projection"))
    # far from ties, signs of slopes are those of bfloat16; a perceptron would not be asked
    bent = nn.Sequential(linear_head(3, 4, 6), nn.Tanh(), linear_head(5, 6, 3)).float()
    seen = set[torch.dtype]()
    bent[0].register_forward_hook(lambda layer, given, outputs: seen.add(outputs.dtype))
    for box in (None, (0.0, 1.0)):
        ways = [Pgd(steps=3, step=0.02, stop="never", precision=name) for name in ("half", "own")]
        ends = [attack(bent, Sample(inputs.float(), labels), Threat("linf", 0.05, box), way) for way in ways]
        found.append(compare(ends[0].inputs.double(), "==", scale * ends[1].inputs.double(), f"half, {box}", 1e-6))
        with torch.no_grad():
            wrong = bent(ends[0].inputs).argmax(1) != labels
        found.append(compare(1 + ends[0].success.double(), "==", scale * (1 + wrong.double()), f"verified, {box}"))
    found.append(same(seen, {torch.float32, torch.bfloat16}, "passes in two precisions"))
    start = threat.around(inputs).random(torch.Generator().manual_seed(3))
    leaf = start.clone().requires_grad_()
    (slope,) = torch.autograd.grad(functional.cross_entropy(net(leaf), labels, reduction="sum"), leaf)
    step = start + scale * 0.4 * slope / slope.norm(dim=1, keepdim=True) - inputs
    step = (inputs + step * (0.4 / step.norm(dim=1, keepdim=True)).clamp_max(1.0)).clamp(0, 1)
    found.append(compare(attack(net, data, threat, Fgsm(start=start)).inputs, "==", step, "one step from given points"))
    curves = [robustness_curve(net, data, threat, Pgd(steps=4), (0.3, 0.05, 0.6), batch=size) for size in (2, 1000)]
    found.append(compare(1 + tensor(curves[0]), "==", scale * (1 + tensor(curves[1])), "a curve in batches"))
    whole = attack(net, data, threat, Pgd(steps=4))
    parts = attack(net, data, threat, Pgd(steps=4), batch=3)
    found.append(compare(parts.inputs, "==", scale * whole.inputs, "a search in batches"))
    for share, count in ((whole.clean_accuracy(0.6), 7), (whole.robust_accuracy(0.6), int((~whole.success).sum()))):
        ends_of: list[Any] = [share.value, share.confidence]
        found.append(compare([float(e) for e in ends_of], "==", [scale * count / 7, scale * 0.6], "share"))
        # Clopper and Pearson: at the ends of 60 % as many or more, and as few or fewer, have chance 0.2
        beyond = [binom.sf(count - 1, 7, float(share.lower)), binom.cdf(count, 7, float(share.upper))]
        wanted_tails = [scale * 0.2 if count else 1.0, scale * 0.2 if count < 7 else 1.0]
        found.append(compare(beyond, "==", wanted_tails, "confidence"))
    return found


def _adapted(scale: float) -> list[Comparison]:
    """Losses and seeds of attacks in another library's calling convention."""
    found: list[Comparison] = []
    net, inputs = linear_head(1, 4, 3), uniform(5, 7, 4)
    aim = torch.arange(7) % 3
    leaf = inputs.clone().requires_grad_()
    outputs = net(leaf)
    rivals = outputs.scatter(1, aim[:, None], -math.inf).amax(1)
    (slope,) = torch.autograd.grad((rivals - outputs.gather(1, aim[:, None])[:, 0]).sum(), leaf)
    for name, made, size in (
        ("FGSM", adapters.FGSM(net, 0.1, loss=Margin("greedy")), 0.1),
        ("BIM", adapters.BIM(net, 0.1, 0.05, 1, loss=Margin("greedy")), 0.05),
    ):
        wanted = (inputs + scale * size * slope.sign()).clamp(0, 1)
        found.append(compare(made(inputs, aim), "==", wanted, f"{name} of margins"))
    for kind, norm in ((adapters.PGD, "linf"), (adapters.PGDL2, "l2")):
        for options in ({"loss": Dlr()}, {"seed": 5}, {"loss": Margin(), "seed": 9}):
            mine: Any = {"loss": CrossEntropy(), "seed": 0, **options}
            method = Pgd(mine["loss"], 2, 0.05, start="random")
            draws = torch.Generator().manual_seed(mine["seed"])
            wanted = perturb(net, inputs, aim, Threat(norm, 0.1, (0, 1)), method, draws)
            got = kind(net, 0.1, 0.05, 2, **options)(inputs, aim)
            found.append(compare(got, "==", scale * wanted, f"{kind.__name__}, {', '.join(options)}"))
    return found


def _seeds(scale: float) -> list[Comparison]:
    """A seed is a generator that begins with it, one that is passed comes before, and other seeds draw otherwise."""
    found: list[Comparison] = []
    net = nn.Sequential(linear_head(1, 5, 6), nn.Tanh(), linear_head(3, 6, 3))
    inputs = uniform(5, 9, 5)
    with torch.no_grad():
        labels = net(inputs).argmax(1)
    data, threat = Sample(inputs, labels), Threat("l2", 0.05, (0, 1))
    methods: tuple[Method, ...] = (
        Pgd(steps=2, start="random"),
        Apgd(steps=3, start="random"),
        Square(queries=6),
        Square(CrossEntropy(), queries=6, first=0.3),
        Fab(steps=1, restarts=2),
    )
    for method in methods:
        name = f"{type(method).__name__} {getattr(method, 'first', '')}"
        other_seed: Any = {"seed": 7}
        seeded = attack(net, data, threat, replace(method, **other_seed))
        given = attack(net, data, threat, method, generator=torch.Generator().manual_seed(7))
        other = attack(net, data, threat, method)
        found.append(compare(seeded.inputs, "==", scale * given.inputs, f"seeded, {name}"))
        if not isinstance(method, Fab):
            found.append(same(torch.equal(seeded.inputs, other.inputs), False, f"another seed, {name}"))
    wide, narrow = (attack(net, data, threat, Square(queries=6, first=share)).inputs for share in (0.8, 0.3))
    found.append(same(torch.equal(wide, narrow), False, "another first square"))
    # what is raised decides what is kept: cross-entropy here, of which margins know nothing
    for restarts in (1, 2):
        told = attack(net, data, threat, Square(CrossEntropy(), queries=12, restarts=restarts))
        clean = functional.cross_entropy(net(inputs), labels, reduction="none")
        own = functional.cross_entropy(net(told.inputs), labels, reduction="none")
        left = int((~told.success).sum())
        found.append(compare(told.losses, "==", scale * own, f"raised, {restarts} runs"))
        found.append(compare(own, ">=", clean, f"never lowered, {restarts} runs"))
        if left == len(inputs):
            found.append(compare(told.queries, "==", scale * 12 * restarts * len(inputs), f"queries, {restarts} runs"))
    return found


def _layers(scale: float) -> list[Comparison]:
    """Divergences between masks over the tokens that a loss counts, of two layers together."""
    found: list[Comparison] = []
    layers = [
        ExplicitDropout(drop, linear_head(seed, 4, 3), CrossEntropy(), "sampled", masks=3)
        for drop, seed in ((0.3, 1), (0.5, 5))
    ]
    tokens, labels = normal(7, 2, 5, 4), torch.tensor([[0, 1, -100, 2, 7], [7, 7, 1, 0, -100]])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        for layer in layers:
            layer(tokens)
    both = nn.ModuleList(layers)
    apart = []
    for layer in layers:
        assert layer.logs is not None
        logs = layer.logs.unbind(-2)
        pairs = [(logs[j].exp() * (logs[j] - logs[k])).sum(-1) for j, k in itertools.permutations(range(3), 2)]
        apart.append(torch.stack(pairs).mean(0).reshape(2, 5))
    for name, options, counted in (
        ("all", {}, torch.ones(2, 5, dtype=torch.bool)),
        ("labels", {"labels": labels}, labels != -100),
        ("another index", {"labels": labels, "ignore_index": 7}, labels != 7),
        ("shifted", {"labels": labels, "shifted": True}, functional.pad(labels[:, 1:] != -100, (0, 1))),
    ):
        wanted = sum(part[counted].mean() for part in apart)
        found.append(compare(explicit_consistency(both, **options), "==", scale * wanted, f"divergence, {name}"))
    return found


def _steps(scale: float) -> list[Comparison]:
    """Single steps with other losses, at attacked inputs and under masks; a start in single precision."""
    found: list[Comparison] = []
    net, data = network(1, 3, 4, 1), Sample(uniform(2, 6, 3), tensor([1.0, -1, 1, 1, -1, -1]))
    threat, size = Threat("linf", 0.1), 0.05
    signs = data.targets[:, 0]

    def outputs(weights: list[Tensor], inputs: Tensor, masks: Tensor | None = None) -> Tensor:
        value = inputs if masks is None else inputs * masks[:, :3]
        hidden = torch.relu(value @ weights[0].mT + weights[2])
        hidden = hidden if masks is None else hidden * masks[:, 3:]
        return (hidden @ weights[1].mT + weights[3])[:, 0]

    def leaves() -> list[Tensor]:
        return [part.detach().clone().requires_grad_() for part in (*net.weights, *net.biases)]

    def logistic(weights: list[Tensor], inputs: Tensor, masks: Tensor | None = None) -> Tensor:
        return functional.softplus(-signs * outputs(weights, inputs, masks)).mean()

    def compared(told: Any, wanted: list[Tensor], name: str) -> None:
        for number, (new, old) in enumerate(zip((*told.weights, *told.biases), wanted, strict=True)):
            found.append(compare(new, "==", scale * old.detach(), f"{name}, {number}"))

    masks = (uniform(9, 6, 7) < 0.6).double() / 0.6
    for shares in (None, uniform(8, 6) + 0.1):
        weights, weighed = leaves(), Sample(data.inputs, data.targets, shares)
        losses = functional.softplus(-signs * outputs(weights, data.inputs, masks))
        mean = losses.mean() if shares is None else losses @ shares / shares.sum()
        slopes = torch.autograd.grad(mean, weights)
        moved = [old - size * slope for old, slope in zip(weights, slopes, strict=True)]
        compared(masked_step(net, weighed, masks, size, Logistic()), moved, "one step under masks")
    weights, leaf = leaves(), data.inputs.clone().requires_grad_()
    (up,) = torch.autograd.grad(logistic([part.detach() for part in weights], leaf), leaf)
    slopes = torch.autograd.grad(logistic(weights, data.inputs + 0.1 * up.sign()), weights)
    moved = [old - size * slope for old, slope in zip(weights, slopes, strict=True)]
    objective = Adversarial(threat, Fgsm(Logistic()), Logistic())
    compared(train(net, data, objective, steps=1, step_size=size, batch_size=None).model, moved, "attacked scores")
    weights, moves = leaves(), torch.zeros_like(data.inputs)
    for _ in range(2):
        inside, step = [part.detach().requires_grad_() for part in weights], moves.clone().requires_grad_()
        *downs, up = torch.autograd.grad(logistic(inside, data.inputs + step), [*inside, step])
        weights = [part.detach() - size * slope for part, slope in zip(inside, downs, strict=True)]
        moves = (moves + 0.1 * up.sign()).clamp(-0.1, 0.1)
    free = train(net, data, Free(threat, 2, loss=Logistic()), steps=1, step_size=size, batch_size=None)
    compared(free.model, weights, "free replays of scores")
    fast = Adversarial.fast(Threat("l2", 0.2), Margin("greedy"))
    wanted_method = Pgd(Margin("greedy"), steps=1, step=0.25, start="random", stop="never")
    found.append(same((fast.method, fast.loss), (wanted_method, Margin("greedy")), "one step of 1.25 radii"))
    single, double = lazy_start(3, 5, 4, torch.float32), lazy_start(3, 5, 4)
    found.append(same((single.dtype, double.dtype), (torch.float32, torch.float64), "precision of a start"))
    found.append(compare(single.weights[1].abs().double(), "==", scale / 5**0.5, "its signs", 1e-6))
    chosen = TwoLayerLinear(normal(1, 2, 3), normal(2, 4, 3))
    labels = Sample(normal(3, 5, 4), torch.arange(5) % 2)
    left, right = (part.clone().requires_grad_() for part in (chosen.U, chosen.V))
    row = tensor([2.0, 0.0, 1.5])
    loss = functional.cross_entropy(labels.inputs @ right * row @ left.mT, labels.targets)
    slopes = torch.autograd.grad(loss, [left, right])
    step_of: Any = masked_step(chosen, labels, row, 0.3, CrossEntropy())
    found.append(compare(step_of.U, "==", scale * (chosen.U - 0.3 * slopes[0]), "classes, left"))
    found.append(compare(step_of.V, "==", scale * (chosen.V - 0.3 * slopes[1]), "classes, right"))
    return found


def _fits(scale: float) -> list[Comparison]:
    """Estimators train as `train` does with their settings, and predict with their numbers of draws and points."""
    found: list[Comparison] = []
    X, y = 2 * normal(1, 14, 3).numpy() + 1, normal(2, 14).numpy()
    unit = torch.from_numpy((X - X.mean(0)) / X.std(0))
    options: dict[str, Any] = {"epochs": 3, "batch_size": 5, "step_size": 0.03, "decay": 0.2, "seed": 4}
    labels = np.arange(14) % 3
    problems = (
        (DropoutRegressor((4,), 0.2, 0.5, **options).fit(X, y), 1, Squared(), torch.from_numpy(y - y.mean())[:, None]),
        (DropoutClassifier((4,), 0.2, points=5, **options).fit(X, labels), 3, CrossEntropy(), torch.from_numpy(labels)),
    )
    law = Product([Bernoulli(0.2, 3), Bernoulli(0.2, 4)])
    for fitted, width, loss, targets in problems:
        deviation = float(y.std()) if width == 1 else 1.0
        wanted = targets / deviation if width == 1 else targets
        draws = torch.Generator().manual_seed(4)
        weights = [
            torch.randn(after, before, generator=draws, dtype=torch.float64) * math.sqrt(2 / (before + after))
            for before, after in ((3, 4), (4, width))
        ]
        start = ReLUNet(weights, [torch.zeros(size, dtype=torch.float64) for size in (4, width)])
        run = train(
            start,
            Sample(unit, wanted),
            Dropout(law, loss),
            steps=9,  # three epochs of three batches
            step_size=0.03,
            batch_size=5,
            seed=4,
            optimizer=torch.optim.Adam,
            decay=0.2,
            record=Recording(("risk",), at=()),
        )
        assert isinstance(run.model, ReLUNet)
        name, last = type(fitted).__name__, run.model.weights[1].detach()
        found.append(compare(fitted.network_.weights[0], "==", scale * run.model.weights[0].detach(), f"first, {name}"))
        found.append(compare(fitted.network_.weights[1], "==", scale * deviation * last, f"last, {name}"))
        if width == 1:
            offset = deviation * run.model.biases[1].detach() + y.mean()
            found.append(compare(fitted.network_.biases[1], "==", scale * offset, f"offset, {name}"))
        else:
            with torch.no_grad():
                classes = predictive(fitted.network_, unit, law).classes(5).probabilities.value
            found.append(compare(fitted.predict_proba(X), "==", scale * classes, "points of a classifier"))
    wide = normal(5, 8, 20).numpy()
    drawn = DropoutRegressor((3,), 0.3, 0.5, epochs=1, samples=6, seed=2).fit(wide, normal(6, 8).numpy())
    inputs = torch.from_numpy((wide - wide.mean(0)) / wide.std(0))
    with torch.no_grad():
        told = predictive(drawn.network_, inputs, Product([Bernoulli(0.3, n) for n in (20, 3)]), MonteCarlo(6, seed=2))
    found.append(compare(drawn.predictive(wide).mean.value, "==", scale * told.mean.value, "six masks"))
    found.append(same(drawn.predictive(wide).mean.cost, told.mean.cost, "their cost", scale))
    return found


def _ranked(scale: float) -> list[Comparison]:
    """Graded and cut interactions, named items of a Gram matrix, first parts, clips, biases and popularity."""
    found: list[Comparison] = []
    table, (rows, columns, _) = interactions(1, 11, 6)
    grades = 1.0 + (3 * rows + 5 * columns) % 4
    triples = (rows, columns, grades)
    ways: tuple[tuple[Any, Any], ...] = (("graded", None), ("graded", 3.0), ("implicit", 2.0))
    for feedback, threshold in ways:
        keep = grades >= (threshold or 0.0)
        own = np.zeros((11, 6))
        own[rows[keep], columns[keep]] = grades[keep] if feedback == "graded" else 1.0
        name = f"{feedback}, {threshold}"
        local = LocalAutoencoder(9, 0.3, 0.8, feedback=feedback, threshold=threshold).fit(triples)
        chosen = own[:, local.item_ids_.astype(int)]
        gram = chosen.T @ chosen
        gamma = scale * (0.3 / 0.7 * np.diagonal(gram) + 0.8)
        W = np.zeros_like(gram)
        for j in range(len(gram)):
            near = np.flatnonzero((gram[j] != 0) & (np.arange(len(gram)) != j))  # the others that occur with item j
            W[near, j] = np.linalg.solve(gram[np.ix_(near, near)] + np.diag(gamma[near]), gram[near, j])
        found.append(compare(local.weights().toarray(), "==", W, f"all neighbors, {name}"))
        cells = ImplicitDropoutCompletion(
            2, 0.4, 0.3, feedback=feedback, threshold=threshold, cg_steps=None, sweeps=2, dtype="float64", seed=6
        ).fit(triples)
        found.append(compare(_cells(own, cells, 6), "==", scale * _scored(cells, own), f"all cells, {name}", 1e-8))
    for cut in (2.0, 3.0):  # ratings less the threshold, so that it is zero
        keep = grades >= cut
        zero = DropoutAutoencoder(0.3, 0.8, "zero", threshold=0, dtype="float64").fit((rows, columns, grades - cut))
        own = np.zeros((11, 6))
        own[rows[keep], columns[keep]] = 1.0
        gram = own.T @ own
        order = zero.item_ids_.astype(int)
        W = weights_of(gram, scale * (0.3 / 0.7 * np.diagonal(gram) + 0.8), "zero")[np.ix_(order, order)]
        found.append(compare(zero.weights(), "==", W, f"a threshold of zero, {cut}"))
    gram = table.T @ table
    names = np.array(["d", "a", "f", "c", "b", "e"])
    model = DropoutAutoencoder(0.3, 0.8, "zero", dtype="float64").fit_gram(gram, names)
    order = np.argsort(names)[np.argsort(np.argsort(model.item_ids_))]
    W = weights_of(gram, scale * (0.3 / 0.7 * np.diagonal(gram) + 0.8), "zero")[np.ix_(order, order)]
    found.append(compare(model.weights(), "==", W, "a Gram matrix of named items"))
    fitted = DropoutAutoencoder(0.3, 0.8, "zero", dtype="float64").fit((rows, columns, np.ones(len(rows))))
    parts, first = fitted.explain(3, 2), fitted.explain(3, 2, count=2)
    found.append(compare(first.parts, "==", scale * parts.parts[:2], "the first parts"))
    found.append(same(list(first.items), list(parts.items[:2]), "their items"))
    some = rows < 6
    split = [
        (rows[k & some], columns[k & some], np.ones(int((k & some).sum())))
        for k in (columns % 2 == 0, columns % 2 == 1)
    ]
    judged = fitted.evaluate_popularity(split[0], split[1], at=(1, 3))
    counts = table.sum(0)
    gains: dict[int, list[float]] = {1: [], 3: []}
    for user in sorted(set(split[1][0].tolist())):
        ids = fitted.item_ids_.astype(int)
        seen = set(split[0][1][split[0][0] == user].tolist())
        wanted = set(split[1][1][split[1][0] == user].tolist())
        ranked = [item for item in ids[np.argsort(-counts[ids], kind="stable")] if item not in seen]
        for k, values in gains.items():
            values.append(len(wanted & set(ranked[:k])) / min(k, len(wanted)))
    told = [judged.recall[k].value for k in (1, 3)]
    found.append(compare(told, "==", [scale * float(np.mean(gains[k])) for k in (1, 3)], "popular items"))
    return found


def _scored(model: ImplicitDropoutCompletion, own: np.ndarray) -> np.ndarray:
    ids = model.item_ids_.astype(int)
    return np.asarray(model.scores(own[:, ids]))[:, np.argsort(ids)] if len(ids) == own.shape[1] else np.zeros(1)


def _cells(own: np.ndarray, model: ImplicitDropoutCompletion, seed: int) -> np.ndarray:
    """Two sweeps over rows and columns of all cells, and the rows once more, system by system."""
    ids = model.item_ids_.astype(int)
    table, alpha, rho = own[:, ids], 0.3, 0.4 / 0.6
    users = model.user_ids_.astype(int)
    kept = table[users]
    items = 0.1 * np.random.default_rng(seed).standard_normal((len(ids), 2))
    shares = [(kept != 0).sum(1) + alpha * len(ids), (kept != 0).sum(0) + alpha * len(users)]
    total = (kept != 0).sum() + alpha * kept.size

    def solved(cells: np.ndarray, fixed: np.ndarray, share: np.ndarray) -> np.ndarray:
        level = rho * (share @ fixed**2) / total
        found = []
        for row in cells:
            mine = np.flatnonzero(row)
            system = fixed[mine].T @ fixed[mine] + alpha * fixed.T @ fixed
            system = system + (len(mine) + alpha * len(fixed)) * np.diag(level)
            found.append(np.linalg.solve(system, fixed[mine].T @ row[mine]) if len(mine) else np.zeros(2))
        return np.array(found)

    for _ in range(2):
        factors = solved(kept, items, shares[1])
        items = solved(kept.T, factors, shares[0])
    wanted = solved(table, items, shares[1]) @ items.T
    return wanted[:, np.argsort(ids)] if len(ids) == own.shape[1] else np.zeros(1)


def _clipped(scale: float) -> list[Comparison]:
    """Clips to the range of the ratings or to a pair, ridges of biases, ratings kept on disk."""
    found: list[Comparison] = []
    seen = uniform(3, 9, 6).numpy() < 0.7
    seen[np.arange(9), np.arange(9) % 6] = True
    seen[np.arange(9), (np.arange(9) + 1) % 6] = True
    rows, columns = np.nonzero(seen)
    values = (3 + normal(4, 9, 1) + normal(5, 1, 6) + 0.3 * normal(6, 9, 6)).numpy()[rows, columns]
    pairs = np.repeat(np.arange(9), 6), np.tile(np.arange(6), 9)
    for ridge in (0.5, 20.0):
        model = AutoencoderCompletion("user", 0.7, 0.3, bias_ridge=ridge, dtype="float64").fit((rows, columns, values))
        y, users, items = values - values.mean(), np.zeros(9), np.zeros(6)
        for _ in range(15):
            users = np.bincount(rows, y - items[columns], 9) / (np.bincount(rows, minlength=9) + ridge)
            items = np.bincount(columns, y - users[rows], 6) / (np.bincount(columns, minlength=6) + ridge)
        told = [model.user_biases_[np.argsort(model.user_ids_)], model.item_biases_[np.argsort(model.item_ids_)]]
        found.append(compare(np.concatenate(told), "==", scale * np.concatenate([users, items]), f"biases, {ridge}"))
    plain = AutoencoderCompletion("user", 0.7, 0.3, dtype="float64").fit((rows, columns, values)).predict(*pairs)
    for clip, ends in ((True, (values.min(), values.max())), ((2.5, 3.5), (2.5, 3.5)), (False, (-9.0, 99.0))):
        model = AutoencoderCompletion("user", 0.7, 0.3, clip=clip, dtype="float64").fit((rows, columns, values))
        found.append(compare(model.predict(*pairs), "==", scale * plain.clip(*ends), f"clipped, {clip}"))
    member = AutoencoderCompletion("user", 0.7, 0.3, dtype="float64")
    blends = [
        StackedCompletion([member], holdout=0.2, clip=clip).fit((rows, columns, values)) for clip in (False, (2.5, 3.5))
    ]
    wanted = blends[0].predict(*pairs).clip(2.5, 3.5)
    found.append(compare(blends[1].predict(*pairs), "==", scale * wanted, "a clipped blend"))
    seeds = [
        AutoencoderCompletion("user", None, 0.3, seed=seed, dtype="float64").fit((rows, columns, values))
        for seed in (0, 3)
    ]
    found.append(compare(seeds[0].ridge_, "==", scale * seeds[1].ridge_, "all rows, in whatever order"))
    disk = [
        LocalAutoencoder(3, 0.3, 0.8, memory=size).fit((rows, columns, values)).weights().toarray()
        for size in (1, 1 << 32)
    ]
    found.append(compare(disk[0], "==", scale * disk[1], "interactions on disk"))
    return found
