"""The library's trainers, solvers, laws and layers against steps and sums that are written out here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from droptics.bounds import relu_alpha
from droptics.data import Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.layers import DropConnect
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw, Product, SlidingBlock
from droptics.models import Connections, DeepLinear, Model, ReLUNet, TwoLayerLinear
from droptics.papers.instances import coin_masks, normal, sample, simplex, tensor
from droptics.penalties import Enumerate, penalty, risk
from droptics.recommenders import Completion, DropoutCompletion, RidgeCompletion
from droptics.training import Dropout, train
from droptics.training.lazy import lazy_start, train_lazy
from droptics.training.settings import EngineName


def dropout_steps(scale: Callable[[float], float]) -> list[Comparison]:
    """Every step of `train` under dropout from one kept iterate to the next, with the masks it says it used.

    Each is that of one example, and each example has its turn; masks are coins of their own, anew in every step.
    """
    found, width, steps = [], 50, 20
    engines: tuple[EngineName, ...] = ("kernel", "torch")
    for engine, drop in itertools.product(engines, (0.4, 0.75)):
        X, Y, used = normal(1, 3, 3), normal(2, 3, 4), set()
        start = TwoLayerLinear(normal(3, 4, width) / 5, normal(4, 3, width) / 5)
        run = train(
            start,
            Sample(X, Y),
            Dropout(Bernoulli(drop, width)),
            steps=steps,
            step_size=0.01,
            batch_size=1,
            convention="mianjy2018",
            keep=range(steps + 1),
            engine=engine,
        )
        kept = torch.cat(
            [step.multipliers.reshape(1, -1) for step in run.iterates[:-1] if step.multipliers is not None]
        )
        found.append(compare(kept * (kept - 1 / (1 - drop)), "==", 0.0, "multipliers are 0 or 1/theta"))
        found.append(compare(len(kept.unique(dim=0)), "==", steps, f"no mask recurs, {engine}"))
        coins = (kept > 0).double() - (1 - drop)
        for name, pairs in (("units", coins[:, 1:] * coins[:, :-1]), ("steps", coins[1:] * coins[:-1])):
            error = 5 * drop * (1 - drop) / pairs.numel() ** 0.5
            found.append(compare(pairs.mean(), "==", 0.0, f"coins of neighboring {name}, {engine}", error))
        off = 5 * (drop * (1 - drop) / kept.numel()) ** 0.5
        found.append(compare((kept > 0).double().mean(), "==", 1 - drop, f"how often they are not 0, {engine}", off))
        for before, after in itertools.pairwise(run.iterates):
            assert isinstance(before.model, TwoLayerLinear)
            assert isinstance(after.model, TwoLayerLinear)
            assert before.multipliers is not None
            U, V, B = before.model.U, before.model.V, torch.diag((before.multipliers.reshape(-1) > 0).double())
            eta, ahead = scale(0.01), []
            for x, y in zip(X, Y, strict=True):
                residual = U @ B @ V.mT @ x / (1 - drop) - y
                moved = U - eta * torch.outer(residual, x) @ V @ B, V - eta * torch.outer(x, residual) @ U @ B
                ahead.append(torch.cat(moved))
            reached = torch.cat([after.model.U, after.model.V])
            nearest = int((torch.stack(ahead) - reached).abs().amax((1, 2)).argmin())
            used.add(nearest)
            found.append(compare(reached, "==", ahead[nearest], f"U and V, {engine}"))
        found.append(compare(len(used), "==", len(X), f"examples that had a turn, {engine}"))
    return found


def lazy_steps(base_two: bool) -> list[Comparison]:
    """Algorithm 4 as `train_lazy` runs it: masks of 0 and 1, the printed step, the projection, the last scaling.

    Each step is that of one of the examples, of either label, and over the steps every example has its turn. The start:
    signs over sqrt m on top, standard normal rows, their moments within five standard errors, and their distribution
    within what a sample leaves with a chance of 1e-6 (Dvoretzky, Kiefer and Wolfowitz).
    """
    found = []
    for seed, (drop, width, eta, radius, count) in enumerate(((0.2, 40, 0.8, 1.5, 3), (0.7, 25, 0.3, 2.2, 1))):
        X, y = nn.functional.normalize(normal(seed + 2, count, 3), dim=1), tensor([1.0, -1.0, 1.0])[:count]
        start = lazy_start(3, width, seed=seed + 3)
        data = Sample(X, y[:, None])
        run = train_lazy(start, data, drop, steps=20, step_size=eta, max_norm=radius, keep=range(21), seed=seed)
        top, kept, used = start.weights[1][0], [], set()
        for before, after in itertools.pairwise(run.run.iterates):
            assert isinstance(before.model, ReLUNet)
            assert isinstance(after.model, ReLUNet)
            assert before.multipliers is not None
            W, b = before.model.weights[0], before.multipliers.flatten()[3:]
            kept.append(b)
            steps = []
            for x, label in zip(X, y, strict=True):
                leaf = W.clone().requires_grad_(True)
                loss = nn.functional.softplus(-label * (top * b * torch.relu(leaf @ x)).sum()) / math.log(2)
                (slope,) = torch.autograd.grad(loss, leaf)
                moved = W - eta * (math.log(2) if base_two else 1.0) * slope
                steps.append(moved * (radius / moved.norm(dim=1, keepdim=True)).clamp_max(1))
            reached = after.model.weights[0]
            nearest = int((torch.stack(steps) - reached).abs().amax((1, 2)).argmin())
            used.add(nearest)
            found.append(compare(reached, "==", steps[nearest], "one step"))
            found.append(compare(after.model.weights[1][0], "==", top, "the top layer stays"))
        found.append(compare(len(used), "==", count, "examples that had a turn"))
        coins = torch.cat(kept)
        found.append(compare(coins * (coins - 1), "==", 0.0, "masks are 0 or 1"))
        error = 4.5 * (drop * (1 - drop) / len(coins)) ** 0.5
        found.append(compare(coins.mean(), "==", 1 - drop, "share of kept units", precision=error))
        found.append(compare(len(torch.stack(kept).unique(dim=0)), "==", len(kept), "no mask recurs"))
        for net, iterate in zip(run.subnetworks, run.run.iterates, strict=False):
            assert isinstance(iterate.model, ReLUNet)
            assert iterate.multipliers is not None
            forward = torch.relu(X @ iterate.model.weights[0].mT) * iterate.multipliers.flatten()[3:] @ top
            found.append(compare(net.outputs(X)[:, 0], "==", forward, "forward pass of the sub-network"))
        steps_of = torch.stack(kept) - (1 - drop)
        for name, pairs in (("units", steps_of[:, 1:] * steps_of[:, :-1]), ("steps", steps_of[1:] * steps_of[:-1])):
            error = 5 * drop * (1 - drop) / pairs.numel() ** 0.5
            found.append(compare(pairs.mean(), "==", 0.0, f"coins of neighboring {name}", precision=error))
        last = run.run.iterates[-1].model
        assert isinstance(last, ReLUNet)
        found.append(compare(run.model.weights[0], "==", (1 - drop) * last.weights[0], "scaled at the end"))
    return [*found, *(item for seed in (0, 1) for item in _lazy_rows(seed))]


def _lazy_rows(seed: int) -> list[Comparison]:
    """The start of Algorithm 4: signs that know nothing of one another or the rows, and standard normal rows."""
    found = []
    W, tops = lazy_start(5, 4000, seed=seed).weights
    found.append(compare(tops.abs(), "==", 4000**-0.5, "signs over sqrt m"))
    found.append(compare(tops.sign().mean(), "==", 0.0, "both signs", precision=5 / 4000**0.5))
    following = tops.sign()[0, 1:] * tops.sign()[0, :-1]
    found.append(compare(following.mean(), "==", 0.0, "neighbouring signs", precision=5 / 4000**0.5))
    found.append(compare((W[1:] * W[:-1]).mean(0), "==", 0.0, "neighbouring rows", precision=5 / 4000**0.5))
    below = torch.special.ndtr(W.flatten().sort().values)
    ranks = torch.arange(len(below) + 1).double() / len(below)
    error = (math.log(2e6) / 2 / len(below)) ** 0.5
    found.append(compare(below, "<=", ranks[1:], "normal entries, from above", precision=error))
    found.append(compare(below, ">=", ranks[:-1], "normal entries, from below", precision=error))
    found.append(compare(W.mean(0), "==", 0.0, "mean of the rows", precision=5 / 4000**0.5))
    found.append(compare(tops.sign() @ W / 4000, "==", 0.0, "signs beside the rows", precision=5 / 4000**0.5))
    error = 5 * (2 / 4000) ** 0.5
    found.append(compare(W.mT @ W / 4000, "==", torch.eye(5, dtype=torch.float64), "their spread", precision=error))
    return found


def _ratings(seed: int, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    seen = np.random.default_rng(seed).random(shape) < 0.75
    seen[0], seen[:, 0] = True, True
    rows, columns = np.nonzero(seen)
    exact = normal(seed, shape[0], 2) @ normal(seed + 1, 2, shape[1]) + 0.2 * normal(seed + 2, *shape)
    return rows, columns, exact.numpy()[seen]


def weighted_ridge(scale: float) -> list[Comparison]:
    """Alternating least squares: expected dropout at lam and ALS-WR at mu = lam ||X||_* / d have one solution.

    ||X||_* is the weighted trace norm of the dropout solution, of lower rank than its width or of the same; both fits
    start anew. Each solution is also a point at which its loss, written out, has no slope.
    """
    found = []
    for seed, width, lam in ((5, 4, 0.6), (15, 3, 0.35)):
        rows, columns, values = _ratings(seed, (9, 7))
        values = values - values.mean()
        options = {"biases": False, "sweeps": 1500, "cg_steps": None, "tolerance": 0.0, "dtype": "float64"}
        dropout = DropoutCompletion(width, lam / (1 + lam), smoothing=0.0, **options)  # type: ignore[arg-type]
        X = _completed(dropout.fit((rows, columns, values)))
        n = len(values)
        p, q = np.bincount(rows) / n, np.bincount(columns) / n
        spectrum = np.linalg.svd(np.sqrt(p)[:, None] * X * np.sqrt(q), compute_uv=False)
        size = spectrum.sum()
        rank = (spectrum > 1e-5).sum()
        found.append(compare(rank, "==", 3, f"rank, width {width}"))
        mu = scale * lam * size / width
        ridge = RidgeCompletion(width, mu, **options)  # type: ignore[arg-type]
        maps = torch.from_numpy(_completed(ridge.fit((rows, columns, values))))
        found.append(compare(maps, "==", X, f"maps, width {width}", precision=1e-5))
        shares = torch.from_numpy(p), torch.from_numpy(q)
        for name, model in (("dropout", dropout), ("ridge", ridge)):
            w = torch.from_numpy(model.user_factors_[np.argsort(model.user_ids_)]).requires_grad_()
            h = torch.from_numpy(model.item_factors_[np.argsort(model.item_ids_)]).requires_grad_()
            sizes = shares[0] @ w.square(), shares[1] @ h.square()
            added = lam * (sizes[0] * sizes[1]).sum() if name == "dropout" else mu * (sizes[0] + sizes[1]).sum()
            loss = (torch.from_numpy(values) - (w @ h.mT)[rows, columns]).square().mean() + added
            slopes = torch.cat([slope.flatten() for slope in torch.autograd.grad(loss, (w, h))])
            found.append(compare(slopes, "==", 0.0, f"no slope of {name}, width {width}", precision=1e-7))
    return found


def _completed(model: Completion) -> np.ndarray:
    """The fitted matrix in the order of the ids, without the mean."""
    left, right = model.user_factors_[np.argsort(model.user_ids_)], model.item_factors_[np.argsort(model.item_ids_)]
    return np.asarray(left @ right.T)


def completion_systems(strength: Callable[[float], float]) -> list[Comparison]:
    """At the end of `DropoutCompletion` every row solves its own system, empirical and expected."""
    found = []
    rows, columns, values = _ratings(3, (8, 6))
    width = 3
    for kind, drop in (("empirical", 0.4), ("expected", 0.25)):
        fitted = DropoutCompletion(
            width, drop, kind, biases=False, smoothing=0.0, sweeps=2000, cg_steps=None, tolerance=0.0, dtype="float64"
        ).fit((rows, columns, values))
        V = torch.from_numpy(fitted.item_factors_[np.argsort(fitted.item_ids_)])
        U = torch.from_numpy(fitted.user_factors_[np.argsort(fitted.user_ids_)])
        lam, centered = strength(drop), torch.from_numpy(values - fitted.mean_)
        level = torch.from_numpy(np.bincount(columns)).double() @ V.square() / len(values)
        for i in range(8):
            part = torch.from_numpy(rows == i)
            Vi = V[torch.from_numpy(columns)[part]]
            gram = Vi.mT @ Vi
            own = torch.diagonal(gram) if kind == "empirical" else len(Vi) * level
            solved = torch.linalg.solve(gram + torch.diag(lam * own), Vi.mT @ centered[part])
            found.append(compare(U[i], "==", solved, f"row {i}, {kind}", precision=1e-5))
        level = torch.from_numpy(np.bincount(rows)).double() @ U.square() / len(values)
        for j in range(6):  # and every column
            part = torch.from_numpy(columns == j)
            Uj = U[torch.from_numpy(rows)[part]]
            gram = Uj.mT @ Uj
            own = torch.diagonal(gram) if kind == "empirical" else len(Uj) * level
            solved = torch.linalg.solve(gram + torch.diag(lam * own), Uj.mT @ centered[part])
            found.append(compare(V[j], "==", solved, f"column {j}, {kind}", precision=1e-5))
    return found


def completion_masks(share: float) -> list[Comparison]:
    """One step of dropout SGD on two ratings and two factors: every factor has a mask of its own, 0 or share / theta.

    Rows of users and of items move by that mask. All four pairs of masks occur, and zeros as often as the rate says.
    """
    found = []
    for drop in (0.5, 0.2):
        moved = []
        pairs = [np.array(pair) for pair in itertools.product((0.0, share / (1 - drop)), repeat=2)]
        for seed in range(12):
            options = {"biases": False, "init_scale": 1.0, "seed": seed, "dtype": "float64", "step_size": 0.05}
            model = DropoutCompletion(2, drop, solver="sgd", sweeps=1, **options)  # type: ignore[arg-type]
            model.fit((np.array([0, 1]), np.array([0, 1]), np.array([4.0, -4.0])))
            v = np.random.default_rng(seed).standard_normal((2, 2))
            u = np.random.default_rng([seed, 1]).standard_normal((2, 2))
            for i, y in enumerate((4.0, -4.0)):
                row, column = (int(np.flatnonzero(ids == i)[0]) for ids in (model.user_ids_, model.item_ids_))
                before, item = u[row], v[column]
                after = np.array([model.user_factors_[row], model.item_factors_[column]])
                errors = [(mask * before) @ item - y for mask in pairs]
                ends = [
                    np.array([before - 0.05 * error * mask * item, item - 0.05 * error * mask * before])
                    for error, mask in zip(errors, pairs, strict=True)
                ]
                nearest = min(range(4), key=lambda one: float(np.abs(ends[one] - after).max()))
                moved.append(nearest)
                found.append(compare(after, "==", ends[nearest], f"drop {drop}, seed {seed}, rating {i}"))
        found.append(compare(float(len(set(moved))), "==", 4.0, f"all masks occur, drop {drop}"))
        zeros = np.mean([pairs[one] == 0 for one in moved])
        # five standard deviations of the share of zeros among the masks of all factors
        off = 5 * (drop * (1 - drop) / (2 * len(moved))) ** 0.5
        found.append(compare(abs(zeros - drop), "<=", off, f"how often masks are zero, drop {drop}"))
    return found


def _covering(size: int, block: int, edges: str) -> Iterator[range]:
    """The blocks of `SlidingBlock`, from its definition."""
    for begin in range(size - block + 1) if edges == "valid" else range(1 - block, size):
        yield range(max(begin, 0), min(begin + block, size))


def laws_by_hand() -> list[tuple[MaskLaw, Tensor, Tensor]]:
    """Laws with all their masks and probabilities, listed from the definitions."""
    found: list[tuple[MaskLaw, Tensor, Tensor]] = []
    drops = (0.2, 0.5, 0.35, 0.6)
    listed = list(coin_masks(drops))
    found.append((Bernoulli(tensor(drops), 4), torch.stack([m for m, _ in listed]), tensor([p for _, p in listed])))
    pairs = [(m.repeat_interleave(2), p) for m, p in coin_masks([0.3, 0.3])]
    found.append((Block(0.3, 4, 2), torch.stack([m for m, _ in pairs]), tensor([p for _, p in pairs])))
    kinds: tuple[Literal["clipped", "valid"], ...] = ("clipped", "valid")
    for edges in kinds:
        covers = list(_covering(4, 2, edges))
        kept, chances = [], []
        for alive, chance in coin_masks([0.25] * len(covers)):
            kept.append(tensor([float(all(alive[b] for b, c in enumerate(covers) if i in c)) for i in range(4)]))
            chances.append(chance)
        found.append((SlidingBlock(0.25, 4, 2, edges), torch.stack(kept), tensor(chances)))
    masks = uniform_masks(4)
    found.append((Discrete(masks, simplex(3, len(masks))), masks, simplex(3, len(masks))))
    return found


def uniform_masks(size: int) -> Tensor:
    """A few masks that are not zeros and ones."""
    return normal(9, 5, size).abs() + 0.1


def law_moments(power: float) -> list[Comparison]:
    """Mean, covariance, Cbar and the largest multiplier of every law against its list of masks."""
    found = []
    for law, masks, chances in laws_by_hand():
        name = f"{type(law).__name__} {getattr(law, 'edges', '')}".strip()
        mean = chances @ masks
        covariance = (masks - mean).mT @ ((masks - mean) * chances[:, None])
        largest = (masks / mean).abs().amax(0)
        assert law.bound is not None
        found.append(compare(law.mean, "==", mean, f"mean, {name}"))
        found.append(compare(law.covariance, "==", covariance, f"covariance, {name}"))
        Cbar = covariance / torch.outer(mean, mean) ** power
        found.append(compare(law.characteristic, "==", Cbar, f"Cbar, {name}"))
        found.append(compare(law.bound, "==", largest, f"largest multiplier, {name}"))
        drawn = law.sample(50, torch.Generator().manual_seed(2))
        found.append(compare(torch.cdist(drawn, masks).amin(1), "==", 0.0, f"draws are in the list, {name}", 1e-6))
    noise = tensor([0.2, 0.5, 1.0, 0.05])
    normal_law = Gaussian(noise, 4)
    found.append(compare(normal_law.mean, "==", 1.0, "mean, Gaussian"))
    for name, told in (("covariance", normal_law.covariance), ("Cbar", normal_law.characteristic)):
        found.append(compare(told, "==", torch.diag(noise), f"{name}, Gaussian"))
    found.append(compare(float(normal_law.bound is None), "==", 1.0, "no largest multiplier, Gaussian"))
    for law in (*(law for law, _, _ in laws_by_hand()), normal_law):
        drawn = law.sample(20_000, torch.Generator().manual_seed(1)) / law.mean - 1
        products = drawn[:, :, None] * drawn[:, None, :]
        error = 5 * products.std(0) / 20_000**0.5
        gap = (products.mean(0) - law.characteristic).abs()
        label = f"products of {type(law).__name__} draws within five standard errors"
        found.append(compare(gap, "<=", error, label))
    return found


def masked_outputs(model: Model, inputs: Tensor, z: Tensor) -> Tensor:
    """Outputs (examples, outputs) of a linear family under multipliers, written out."""
    if isinstance(model, Connections):
        return inputs @ (model.V * z.reshape(model.V.shape)) @ model.U.mT
    if isinstance(model, TwoLayerLinear):
        return (inputs @ model.V * z) @ model.U.mT
    assert isinstance(model, DeepLinear)
    hidden = inputs
    for number, weight in enumerate(model.weights):
        if number:
            hidden, z = hidden * z[: hidden.shape[1]], z[hidden.shape[1] :]
        hidden = hidden @ weight.mT
    return hidden


def any_law(scale: float) -> list[Comparison]:
    """Penalties of every family under correlated laws and weighted examples, against the sum over all masks."""
    found = []
    inputs, targets, weights = normal(1, 6, 2), normal(2, 6, 2), uniform_masks(6)[0]
    data, shares = Sample(inputs, targets, weights), weights / weights.sum()
    sizes = ((2, 4), (2, 4)), ((2, 2), (2, 2)), ((4, 2), (4, 4), (2, 4))
    given = [[normal(3 + 2 * i + j, *size) for j, size in enumerate(family)] for i, family in enumerate(sizes)]
    families: Sequence[tuple[Model, int]] = (
        (TwoLayerLinear(*given[0]), 1),
        (Connections(*given[1]), 1),
        (DeepLinear(given[2]), 2),
    )
    for (model, _), layers_of in zip(families, given, strict=True):
        label = f"weights of {type(model).__name__}"
        found += [compare(mine, "==", own, label) for mine, own in zip(model.tensors, layers_of, strict=True)]

    def error(model: Model, z: Tensor) -> float:
        return float(shares @ (targets - masked_outputs(model, inputs, z)).square().sum(1))

    # two masks a unit have the moments of normal noise that a criterion of second degree in each asks for
    noise, signs = tensor([0.2, 0.5, 1.0, 0.05]), tensor(list(itertools.product((-1.0, 1.0), repeat=4)))
    listed = [*laws_by_hand(), (Gaussian(noise, 4), 1 + signs * noise.sqrt(), torch.full((16,), 1 / 16).double())]
    for (model, layers), place in itertools.product(families, range(len(listed))):
        # another law in the second layer
        chosen = [listed[(place + layer) % len(listed)] for layer in range(layers)]
        law, masks_of = chosen[0][0], chosen[0][0] if layers == 1 else Product([one for one, _, _ in chosen])
        outcomes = [zip(masks / (chances @ masks), chances.tolist(), strict=True) for _, masks, chances in chosen]
        total = 0.0
        for drawn in itertools.product(*outcomes):
            chance = math.prod(share for _, share in drawn)
            total += chance * error(model, torch.cat([multipliers for multipliers, _ in drawn]))
        plain = error(model, torch.ones(4 * layers, dtype=torch.float64))
        label = f"{type(model).__name__}, {type(law).__name__}"
        found.append(compare(risk(model, data), "==", plain, f"risk, {label}"))
        found.append(compare(penalty(model, data, masks_of), "==", scale * (total - plain), f"penalty, {label}"))
        if layers == 1:
            parts = [Sample(inputs[part], targets[part], weights[part]) for part in (slice(2), slice(2, None))]
            moments = Moments.merged([Moments.of_sample(part) for part in parts])
            found.append(compare(penalty(model, moments, masks_of), "==", scale * (total - plain), f"moments, {label}"))
    deep, atoms, odds = families[2][0], normal(9, 3, 8).abs() + 0.1, simplex(4, 3)
    total = sum(float(share) * error(deep, z) for z, share in zip(atoms / (odds @ atoms), odds, strict=True))
    plain = error(deep, torch.ones(8, dtype=torch.float64))
    told = penalty(deep, data, Discrete(atoms, odds), Enumerate())
    found.append(compare(told, "==", scale * (total - plain), "layers that fall together"))
    return found


def last_weights(scale: float) -> list[Comparison]:
    """DropConnect on the LAST weights: the sum over all masks, and draws of the layer itself."""
    found = []
    for seed, drop in ((1, 0.3), (2, 0.6)):
        U, V, X, Y = normal(seed, 2, 3), normal(seed + 1, 4, 3), normal(seed + 3, 5, 4), normal(seed + 2, 2, 5)
        H = V.mT @ X.mT
        plain, total = float((Y - U @ H).square().sum()), 0.0
        for kept, chance in coin_masks([drop] * 6):
            total += chance * float((Y - (kept.reshape(2, 3) / (1 - drop) * U) @ H).square().sum())
        formula = scale * drop / (1 - drop) * (U.square().sum(0) * H.square().sum(1)).sum()
        found.append(compare(formula, "==", total - plain, f"drop={drop}"))
        dropout = len(X) * penalty(TwoLayerLinear(U, V), Sample(X, Y.mT), Bernoulli(drop, 3)).value
        found.append(compare(formula, "==", dropout, f"penalty of dropout, drop={drop}"))
        layer = DropConnect(3, 2, drop, bias=False, per_example=True, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(U)
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                outputs = layer(H.mT.expand(20_000, 5, 3))
        drawn = (Y.mT - outputs).square().sum((1, 2))
        allowed = 5 * float(drawn.std()) / len(drawn) ** 0.5
        found.append(compare(abs(float(drawn.mean()) - plain - float(formula)), "<=", allowed, "draws of the layer"))
        # whole units that fall have the same penalty, but their outputs fall together
        moved = outputs - (U @ H).mT
        joint = moved[..., 0] * moved[..., 1]
        error = 5 * joint.std(0) / len(joint) ** 0.5
        found.append(compare(joint.mean(0).abs() / error, "<=", 1.0, "weights of one unit fall apart"))
    return found


def flow_sum(scale: float) -> list[Comparison]:
    """relu_alpha = sum_k |u_k| sqrt(E relu(v_k.x)^2), and for both signs sqrt(v_k^T C v_k / 2).

    Over examples one by one, with and without weights, and over the examples beside their negatives; a unit that no
    example reaches counts for nothing until the signs are doubled, one without an outgoing weight never.
    """
    found = []
    for seed, (examples, inputs, width) in enumerate(((9, 3, 5), (4, 6, 2), (7, 1, 3), (1, 2, 1))):
        X = sample(seed, examples, inputs, 1).inputs
        V, u = normal(seed, width, inputs), normal(seed + 1, 1, width)
        if width == 3:
            V, u, X = V.abs() * tensor([[1.0], [-1.0], [1.0]]), u * tensor([1.0, 1.0, 0.0]), X.abs()
        for weights in (None, simplex(seed, examples)):
            shares = [1 / examples] * examples if weights is None else weights.tolist()
            energies: dict[int, list[float]] = {1: [0.0] * width, -1: [0.0] * width}
            for sign, k in itertools.product((1, -1), range(width)):
                for x, share in zip(X, shares, strict=True):
                    energies[sign][k] += share * max(0.0, sign * float(V[k] @ x)) ** 2
            C = sum(share * torch.outer(x, x) for x, share in zip(X, shares, strict=True))
            sizes = u[0].abs().tolist()
            plain = sum(size * energy**0.5 for size, energy in zip(sizes, energies[1], strict=True))
            doubled = sum(sizes[k] * ((energies[1][k] + energies[-1][k]) / 2) ** 0.5 for k in range(width))
            both = sum(sizes[k] * float(V[k] @ C @ V[k] / 2) ** 0.5 for k in range(width))
            net, data = ReLUNet([V, u]), Sample(X, torch.zeros(examples, 1).double(), weights)
            label = f"{examples} examples, width {width}, {'no weights' if weights is None else 'weights'}"
            found.append(compare(relu_alpha(net, data), "==", scale * plain, f"alpha, {label}"))
            told = relu_alpha(net, data, symmetrized=True)
            found.append(compare(told, "==", scale * both, f"alpha, both signs, {label}"))
            found.append(compare(told, "==", scale * doubled, f"examples and their negatives, {label}"))
    return found
