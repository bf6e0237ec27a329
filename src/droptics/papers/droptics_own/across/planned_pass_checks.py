"""What a claim compares on passes that are planned, strata, rates that are set and weights of many examples."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from droptics.attacks import Apgd, Dlr, Margin, Pgd, standard_attacks
from droptics.audits.uncertainty import ERROR, _drawn, spread_of_predictions
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.linalg.krylov import Krylov, Operator, upper_values
from droptics.losses import CrossEntropy, Logistic
from droptics.masks import Bernoulli
from droptics.models import LastLayer
from droptics.optima.krylov import _estimated, _least
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, uniform
from droptics.penalties import Certified, MonteCarlo, penalty
from droptics.penalties.certified import MANY, REST
from droptics.penalties.relu.moments import _sweep
from droptics.penalties.relu.sweeps import Half
from droptics.predictions.modules import read_module
from droptics.predictions.sampling import _weighed, sampled_outcomes
from droptics.predictions.strata import Strata, allocate
from droptics.rates.places import set_rates
from droptics.recommenders.all_cells import solve_all_cells
from droptics.spectra import action
from droptics.spectra.coordinates import _qr_slack


def missed_before(scale: float) -> list[Comparison]:
    """Planned passes, controls, strata, rates that are set, steps over all cells, weights of many examples."""
    parts = _planned, _controlled, _many, _cells, _chosen, _sorted, _estimates
    return by_parts(parts, scale)


def _planned(scale: float) -> list[Comparison]:
    """As many passes as the kurtosis of drawn outputs asks for; rounding of one factorization more."""
    found: list[Comparison] = []
    torch.manual_seed(5)
    module = nn.Sequential(
        nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.4), nn.Linear(4, 4), nn.Tanh(), nn.Dropout(0.3), nn.Linear(4, 2)
    )
    module = module.double().eval()
    inputs = 1 + uniform(2, 6, 3)
    for samples, seed in ((64, 3), (40, 4)):
        told = spread_of_predictions(module, inputs, samples, seed)
        problem = read_module(module, inputs).conditional()
        with torch.no_grad():
            drawn = [_drawn(part, seed) for _, part in sampled_outcomes(problem, MonteCarlo(samples, seed=seed))]
        rows = torch.cat(drawn).flatten(1).T.tolist()
        shares = []
        for row in rows:
            middle = sum(row) / len(row)
            second, fourth = (sum((one - middle) ** power for one in row) / len(row) for power in (2, 4))
            shares.append(fourth / second**2)
        wanted = max(1, math.ceil((sum(shares) / len(shares) - 1) / ERROR**2))
        found.append(compare(told.passes, "==", scale * wanted, f"passes planned from {samples} masks"))
    target, roots = normal(1, 2, 5), torch.ones(5).double()
    once, more = (_qr_slack(target, 0.0, roots, count, 0.0) for count in (5, 16 * 5))
    found.append(compare(more / once, "==", scale * 3, "four times as many rows are one factorization more"))
    return found


def _controlled(scale: float) -> list[Comparison]:
    """A control that runs against the outputs is taken off with a minus; masks left over go to the largest stratum."""
    along, noise = normal(1, 40, 3, 2), normal(2, 40, 3, 2).square()
    moved, variance = -2 * along + 0.1 * normal(3, 40, 3, 2), normal(4, 3, 2).square()
    control: Any = SimpleNamespace(
        control=lambda draws: along, noise_control=lambda draws: 0 * along, kind="slopes of all masks"
    )
    plain: Any = None
    draws: Any = SimpleNamespace(strata=Strata.none(40))
    told = _weighed(plain, (moved, noise), [control], [variance], draws)
    rows, aim = ((part / variance.sqrt()).flatten() for part in (along, moved))
    weight = (rows @ aim) / (rows @ rows)
    found = [
        compare(told.control, "==", scale * weight * along, "a control with a minus"),
        compare(told.known, "==", scale * weight**2 * variance, "what is known of it"),
        compare(told.noise, "==", scale * noise, "noise that nothing follows"),
        same(told.words, f"control: slopes of all masks x {float(weight):.2f}", "its weight in words", scale),
    ]
    for chances, samples, evenly, sizes in (
        ([0.1, 0.0, 0.7, 0.2], 11, 0.25, (2, 7, 2)),
        ([0.25, 0.75], 9, 0.0, (2, 7)),
        ([0.6, 0.4], 7, 1.0, (4, 3)),
    ):
        found.append(same(allocate(chances, samples, evenly).sizes, sizes, f"masks of strata, {sizes}", scale))
    return found


def _many(scale: float) -> list[Comparison]:
    """Of many examples those that weigh are looked at: of their mean at most a share stays open beside."""
    count, model = MANY + 9, LastLayer.of(linear_head(3, 6, 4))
    inputs, labels = normal(1, count, 6), torch.arange(count) % 4
    inputs[5:] *= 6
    weights = torch.full((count,), 1e-9).double()
    weights[:5] = 1.0
    ask: Any = (Bernoulli(0.4, 6), Certified(), CrossEntropy())
    whole = penalty(model, Sample(inputs, labels, weights), *ask)
    alone = penalty(model, Sample(inputs[:5], labels[:5]), *ask)
    left = float(alone.upper - alone.lower) + REST * float(alone.lower)
    wide = float(whole.upper - whole.lower)
    kept, chances = every_coin([0.4] * 6)
    head: Any = model.head
    plain = -head(inputs).log_softmax(-1)[torch.arange(count), labels].detach()
    masked = torch.zeros(count).double()
    for z, chance in zip(kept / 0.6, chances, strict=True):
        masked -= chance * head(inputs * z).log_softmax(-1)[torch.arange(count), labels].detach()
    truth = float(weights @ (masked - plain) / weights.sum())
    return [
        compare(float(whole.lower), "<=", truth / scale, "below the mean over all masks"),
        compare(float(whole.upper), ">=", truth, "above the mean over all masks"),
        compare(wide, "<=", 1.001 * left, "what stays open of a weighted mean"),
        compare(wide, ">=", scale * float(alone.upper - alone.lower) * 0.99, "not less than of those that weigh"),
    ]


def _cells(scale: float) -> list[Comparison]:
    """Steps over all cells are those of preconditioned conjugate gradients, row by row."""
    found: list[Comparison] = []
    rng = np.random.default_rng(3)
    fixed, start = rng.standard_normal((7, 4)), rng.standard_normal((3, 4))
    starts, columns = np.array([0, 4, 4, 7]), np.array([0, 2, 3, 6, 1, 4, 5], np.int32)
    values, expected = 1 + rng.random(7), 0.1 + rng.random((2, 4))
    shared = 0.3 * fixed.T @ fixed
    for steps in (1, 2, 3, 4, 9):
        told = start.copy()
        solve_all_cells(starts, columns, values, fixed, shared, 0.2, expected, told, steps)
        wanted = start.copy()
        for row in range(3):
            part = slice(starts[row], starts[row + 1])
            own = fixed[columns[part]]
            square = own.T @ own + shared
            diagonal = 0.2 * square.diagonal() + len(own) * expected[0] + expected[1]
            square, scales = square + np.diag(diagonal), square.diagonal() + diagonal
            x = wanted[row]
            residual = own.T @ values[part] - square @ x
            way = residual / scales
            for _ in range(min(steps, 4)):  # exact after as many steps as there are units
                size = (residual**2 / scales).sum() / (way @ square @ way)
                before = (residual**2 / scales).sum()
                x += size * way
                residual = residual - size * square @ way
                way = residual / scales + (residual**2 / scales).sum() / before * way
        found.append(compare(told, "==", scale * wanted, f"{steps} steps over all cells", precision=1e-7))
    return found


def _chosen(scale: float) -> list[Comparison]:
    """Layers that hold their rate are set whatever was seen before; attacks for every number of outputs."""
    attention, memory, drop = nn.MultiheadAttention(4, 2, 0.1), nn.LSTM(3, 4, 2, dropout=0.1), nn.Dropout(0.1)
    module = nn.ModuleDict({"attention": attention, "memory": memory, "drop": drop})
    rates = {"attention.weights": 0.2, "memory.between": 0.3, "drop": 0.4, "drop.inside": 0.4, "nowhere.else": 0.5}
    found = [same(set_rates(module, rates, {}), ["nowhere.else"], "who holds no rate", scale)]
    told = [attention.dropout, memory.dropout, drop.p]
    found.append(compare(told, "==", scale * np.array([0.2, 0.3, 0.4]), "rates that are set"))
    wanted = {
        1: [Logistic(), Margin(), Logistic()],
        2: [Margin(candidates=3), Margin(), CrossEntropy()],
        3: [Margin(candidates=3), Margin(), CrossEntropy(), Dlr("every")],
    }
    for outputs, losses in wanted.items():
        methods = [method.loss for method in standard_attacks(outputs) if isinstance(method, (Apgd, Pgd))]
        found.append(same(methods, losses, f"losses that attack {outputs} outputs", scale))
    return found


def _sorted(scale: float) -> list[Comparison]:
    """Moments and slopes of lists that are split into blocks are sums over all pairs."""
    left, right = 0.5 + normal(1, 2, 8150).numpy(), normal(2, 2, 70).numpy()
    odds = [one.numpy() / float(one.sum()) for one in (uniform(3, 8150), uniform(4, 70))]
    orders = [np.argsort(table, axis=1).astype(np.int32) for table in (left, right)]
    halves = [
        Half(np.take_along_axis(table, places, 1), places, chances)
        for table, places, chances in zip((left, right), orders, odds, strict=True)
    ]
    linear, quadratic = normal(5, 2).numpy(), normal(6, 2, 2).numpy()
    mean, second, slopes = _sweep(halves[0], halves[1], lambda work: None, (linear, quadratic))
    hidden = np.maximum(left[:, :, None] + right[:, None, :], 0.0)
    weighted = hidden * np.outer(*odds)
    pull = linear[:, None, None] + np.einsum("ij,jab->iab", quadratic + quadratic.T, hidden)
    wanted = (np.where(hidden > 0, pull, 0.0) * np.outer(*odds)).sum(2)
    return [
        compare(mean, "==", scale * weighted.sum((1, 2)), "means over blocks"),
        compare(second, "==", scale * np.einsum("iab,jab->ij", weighted, hidden), "second moments over blocks"),
        compare(8150 * slopes, "==", scale * 8150 * wanted, "slopes over blocks"),
    ]


def _estimates(scale: float) -> list[Comparison]:
    """The gap that is foreseen is what the next value of the basis would leave, a margin of some per cent included."""
    left, right = (torch.linalg.qr(normal(seed, size, 60)).Q for seed, size in ((1, 90), (2, 70)))
    spectrum = 4 * 0.8 ** torch.arange(60).double()
    operator = Operator.of((left * spectrum) @ right.mT)
    acting = action(Bernoulli(0.4, 8))
    run = Krylov(operator, 8, 0)
    found: list[Comparison] = []
    for _ in range(5):
        run.grow()
    ritz = run.ritz()
    kept, least = _least(acting, ritz.values, operator.energy)
    count = ritz.found()
    rest = 1.05 * float(ritz.values[count])
    level = acting.cutoff(torch.from_numpy(ritz.values), kept)
    bound = _least(acting, upper_values(ritz, count, rest, level, acting.size), operator.energy)[1]
    told = _estimated(ritz, acting, least, operator.energy)
    size = operator.energy
    found.append(compare(1 + told / size, "==", scale * (1 + (least - bound) / size), "the gap that is foreseen"))
    found.append(compare(told, ">=", 0.0, "no bound lies above"))
    return found
