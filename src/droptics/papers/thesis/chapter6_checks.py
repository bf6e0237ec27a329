"""What the claims of chapter 6 (adversarial training with the reflected loss) compare.

Letters: f(x) = a^T s(W x), s(z) = max(alpha z, z), |a_r| = kappa, radius nu, delta a perturbed point, z = y f(delta),
l(z) = ln(1 + e^-z) and its reflection l_-(z) = -l(-z).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from droptics.attacks import (
    Bim,
    Fgsm,
    LinearExact,
    Logistic,
    Method,
    Pgd,
    Reflected,
    Threat,
    attack,
    smallest_margins,
)
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.papers.instances import normal, tensor, uniform
from droptics.papers.thesis.leaky import (
    LeakyNet,
    adversarial_sgd,
    beta_robust_error,
    effective,
    reflected_pgd,
    score_floor,
    smallest_score,
)


def scores(W: Tensor, a: Tensor, x: Tensor, alpha: float) -> Tensor:
    """a^T s(W x) for points x (..., d)."""
    return nn.functional.leaky_relu(x @ W.mT, alpha) @ a


def slopes(values: Tensor, alpha: float) -> Tensor:
    """Derivative of the leaky ReLU."""
    return alpha + (1 - alpha) * (values > 0).double()


def reflected_loss(slope: Callable[[Tensor], Tensor]) -> list[Comparison]:
    """Derivative of l_-, concavity, l_- <= 0-1 loss and 1 + l_-/ln 2 <= 0-1 loss; z = y f for both labels y.

    The values by numpy's logaddexp; raised by one it meets the 0-1 loss at zero and far below, where z is -40.
    """
    found, cut = [], 3e-9  # torch has log(1 + e^z) = z above 20 and so misses by e^-20
    for label in (1.0, -1.0):
        scores = (torch.arange(-1000, 1001, dtype=torch.float64) / 25).requires_grad_(True)
        labels = torch.full((len(scores),), label, dtype=torch.float64)
        value = Reflected(Logistic())(scores[:, None], labels)
        plain = Logistic()(-scores[:, None], labels)
        (derivative,) = torch.autograd.grad(value.sum(), scores)
        z, value = label * scores.detach(), value.detach()
        wrong, raised, name = (z < 0).double(), 1 + value / math.log(2), f"y={label:+.0f}"
        found += [
            compare(value, "==", -np.logaddexp(0.0, z.numpy()), f"-log(1 + e^z), {name}"),
            compare(value, "==", -plain, f"-l(-z), {name}"),
            compare(label * derivative, "==", slope(z), f"derivative, {name}", precision=cut),
            compare(value[2:] - 2 * value[1:-1] + value[:-2], "<=", 0.0, f"concave, {name}", precision=cut),
            compare(value, "<=", wrong, f"below the 0-1 loss, {name}"),
            compare(raised, "<=", wrong, f"below it also when raised by one, {name}"),
            compare(raised[z <= 0].max() - 1, "==", 0.0, f"and not by more, far below zero, {name}"),
            compare(raised[z == 0], "==", 0.0, f"nor at zero, {name}"),
        ]
    return found


def _scorer(seed: int = 0) -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(0.2), nn.Linear(6, 1)).double()
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(normal(seed + i, *parameter.shape))
    return module


def _binary(seed: int = 3, count: int = 12) -> Sample:
    return Sample(normal(seed, count, 4), torch.sign(normal(seed + 1, count, 1)))


def _steepest(module: nn.Module, data: Sample, norm: str, radius: float, step: float, steps: int) -> Tensor:
    """Steps of one length against y f in the sign or the direction of its gradient, pulled back into the ball."""
    points = data.inputs
    for _ in range(steps):
        leaf = points.clone().requires_grad_(True)
        (slope,) = torch.autograd.grad(-(data.targets * module(leaf)).sum(), leaf)
        moved = points + step * (slope.sign() if norm == "linf" else slope / slope.norm(dim=1, keepdim=True))
        moved = moved - data.inputs
        if norm == "linf":
            points = data.inputs + moved.clamp(-radius, radius)
        else:
            points = data.inputs + moved * (radius / moved.norm(dim=1, keepdim=True)).clamp_max(1)
    return points


def same_attacks(steps: int, raw: bool) -> list[Comparison]:
    """Sign and normalized attacks, with and without reflection, are those on y f itself; raw gradients are not.

    The gradient of the reflected loss is e^(y f) times that of the loss. Steps of BIM leave the ball and come back.
    """
    found, losses = [], (Logistic(), Reflected(Logistic()))
    for seed, (norm, radius) in itertools.product((0, 20), (("linf", 0.2), ("l2", 0.5))):
        threat, module, data, short = Threat(norm, radius), _scorer(seed), _binary(seed + 3), 0.4 * radius
        kinds: list[tuple[list[Method], float, int]] = [
            ([Fgsm(loss) for loss in losses], radius, 1),
            ([Bim(loss, steps, short) for loss in losses], short, steps),
        ]
        if raw:
            kinds = [([Pgd(loss, steps=steps, step=0.3, gradient="raw") for loss in losses], 0.3, steps)]
        for methods, step, taken in kinds:
            direct, name = _steepest(module, data, norm, radius, step, taken), type(methods[0]).__name__
            results = [attack(module, data, threat, method).inputs for method in methods]
            found.append(compare(results[1], "==", results[0], f"{name}, {norm}"))
            found.append(compare(results[0], "==", direct, f"{name}, {norm}, written out"))
        leaf = data.inputs.clone().requires_grad_(True)
        output = module(leaf)
        values = [loss(output, data.targets.squeeze(1)).sum() for loss in losses]
        slopes = [torch.autograd.grad(value, leaf, retain_graph=True)[0] for value in values]
        ratio = (data.targets * output).exp().detach()
        found.append(compare(slopes[1], "==", ratio * slopes[0], "one direction, e^(y f) times the length"))
    return found


def _leaky(seed: int, width: int, inputs: int, slope: float) -> LeakyNet:
    return LeakyNet(normal(seed, width, inputs), torch.sign(normal(seed + 1, width)) / width**0.5, slope)


def _attacked(
    weights: tuple[Tensor, Tensor, float], x: Tensor, y: Tensor, radius: float, step: float, steps: int
) -> tuple[Tensor, float]:
    """Algorithm 5 written out for one example: ascent on l_- by automatic differentiation, projection.

    The visited point of largest l_-, and by how much the score y f of the last one is above its.
    """

    def score(point: Tensor) -> Tensor:
        hidden, top, slope = weights
        return scores(hidden, top, point, slope)

    delta, best = x, x
    for _ in range(steps):
        leaf = delta.clone().requires_grad_(True)
        (slope,) = torch.autograd.grad(-nn.functional.softplus(y * score(leaf)), leaf)
        moved = delta + step * slope - x
        delta = x + moved * min(1.0, radius / max(float(moved.norm()), 1e-300))
        if float(y * score(delta)) < float(y * score(best)):
            best = delta
    return best, float(y * (score(delta) - score(best)))


def algorithm_5(share: float) -> list[Comparison]:
    """`reflected_pgd` against the algorithm written out, whose steps are `share` as long.

    Few and many steps, short and long ones, a ball of radius zero; the best point is not always the last one.
    """
    found, earlier = [], 0
    cases = ((0.3, 0.7, 0.4, 5), (0.6, 0.2, 1.5, 3), (1.0, 2.0, 0.1, 8), (0.1, 0.7, 3.0, 6), (0.3, 0.0, 0.4, 2))
    for seed, (slope, radius, step, steps) in enumerate(cases):
        # of unequal sizes: what a network stores is not taken from it
        weights = normal(seed, 5, 3), normal(seed + 1, 5) / 5**0.5, slope
        net, X, y = LeakyNet(*weights), 2 * normal(seed + 2, 6, 3), torch.sign(normal(seed + 3, 6))
        ours = reflected_pgd(net, X, y, radius, step, steps)
        theirs = [_attacked(weights, x, label, radius, share * step, steps) for x, label in zip(X, y, strict=True)]
        found.append(compare(ours, "==", torch.stack([points[0] for points in theirs]), f"attacked, radius {radius}"))
        found.append(compare((ours - X).norm(dim=1), "<=", radius, f"inside the ball of radius {radius}"))
        earlier += sum(above > 1e-6 for _, above in theirs)
    return [*found, compare(earlier, ">", 0, "points that are better than the last one")]


def algorithm_6(radius: float) -> list[Comparison]:
    """`adversarial_sgd` against gradient steps on the logistic loss at the points of Algorithm 5 written out.

    The steps of the attack are the largest admissible, or given, one so long that the last point is not the best; one
    weight a_r differs from the others; one example a
    step, or the mean over two; -l' at the attacked points, and networks after every step or every second. The attack
    written out may move within `radius`: that of the library, or less.
    """
    found = []
    for seed, given, slope, size, every in (
        (0, None, 0.2, 1, 1),
        (1, None, 1.0, 1, 2),
        (2, 0.15, 0.5, 2, 1),
        (12, 8.0, 0.2, 1, 1),
    ):
        W, a = normal(seed, 5, 3), torch.sign(normal(seed + 1, 5)) / 5**0.5 * tensor([1.0, 1.0, 0.4, 1.0, 1.0])
        start = LeakyNet(W, a, slope)
        found.append(compare(start.hidden, "==", W, "weights as given"))
        found.append(compare(start.top, "==", a, "the top layer as given"))
        X, y = normal(seed + 2, 4, 3), torch.sign(normal(seed + 3, 4))
        draws = list(zip(X.split(size), y.split(size), strict=True))
        weights, forces = [W], []
        for inputs, labels in draws:
            net, leaf = (weights[-1], a, slope), weights[-1].clone().requires_grad_(True)
            step = 1 / float(a.square().sum() * net[0].square().sum()) if given is None else given
            points = [_attacked(net, x, label, radius, step, 3)[0] for x, label in zip(inputs, labels, strict=True)]
            margins = labels * scores(leaf, a, torch.stack(points), slope)
            (change,) = torch.autograd.grad(nn.functional.softplus(-margins).mean(), leaf)
            forces.append(float((1 / (1 + margins.detach().exp())).mean()))
            weights.append(weights[-1] - 0.1 * change)
        attack: dict[str, Any] = {"radius": 0.3, "attack_steps": 3, "attack_step": given}
        run = adversarial_sgd(start, draws.__getitem__, steps=len(draws), step=0.1, every=every, **attack)
        wanted, visited = (torch.stack(some) for some in (weights[::every], [net.hidden for net in run.nets]))
        found.append(compare(run.net.hidden, "==", weights[-1], f"weights after all steps, slope {slope}"))
        found.append(compare(visited, "==", wanted, f"weights after every {every} steps, slope {slope}"))
        found.append(compare(run.norms, "==", wanted.square().sum((1, 2)).sqrt(), f"their norms, slope {slope}"))
        found.append(compare(run.forces, "==", forces, f"-l' at the attacked points, slope {slope}"))
        found.append(compare(run.net.top, "==", start.top, "the top layer stays"))
    return found


def linear_robust_margin(scale: float) -> list[Comparison]:
    """Slope 1: min over the ball of y f = y w.x - nu ||w||, w = W^T a; attained and never beaten.

    Both labels, points of the whole ball. L_beta of the library, slope 1 and less, is the share of examples whose least
    score for W/||W||_F, by a grid, is below -beta, an example exactly at -beta left out.
    """
    found = []
    W, a, nu = normal(1, 4, 3), torch.sign(normal(2, 4)), 0.6
    w = W.mT @ a
    for seed, y in enumerate((1.0, -1.0, 1.0)):
        x = normal(seed + 5, 3)
        least = y * (w @ x) - scale * nu * w.norm()
        directions = nn.functional.normalize(normal(seed, 500, 3), dim=1) * uniform(seed, 500, 1) ** (1 / 3)
        best = x - y * nu * w / w.norm()
        found.append(compare(y * scores(W, a, best, 1.0), "==", least, f"attained, y={y}"))
        found.append(compare((y * scores(W, a, x + nu * directions, 1.0)).min(), ">=", least, f"no point below, y={y}"))
    for slope, seed in ((1.0, 1), (0.6, 1)):
        net, data, least = _least_scores(slope, seed)
        for beta in (0.0, 0.05, 0.2):
            clear = float((least + beta).abs().min())
            found.append(compare(clear, ">", 1e-4, "examples away from -beta", precision=0.0))
            told, share = beta_robust_error(net, data, 0.5, beta, steps=60), (least < -beta).double().mean()
            label = f"slope {slope}, beta={beta}"
            found.append(compare([told.value, told.lower], "==", share, f"L_beta, {label}"))
            found.append(compare(told.upper, "==" if slope == 1 else ">=", share, f"its upper end, {label}"))
    exact = LeakyNet(tensor([[2.0]]), tensor([1.0]), 1.0)  # f_Wbar(x) = x, least scores 0, -.5 and -1
    three = Sample(tensor([[1.0], [0.5], [0.0]]), tensor([[1.0], [1.0], [1.0]]))
    told = beta_robust_error(exact, three, 1.0, 0.5)
    found.append(compare(told.value, "==", 1 / 3, "y f_Wbar = -beta does not count"))
    found.append(compare([told.lower, told.upper], "==", [0.0, 2 / 3], "rounding might decide about it"))
    module = nn.Linear(3, 1, bias=False).double()
    with torch.no_grad():
        module.weight.copy_(w[None])
    data = Sample(normal(9, 6, 3), torch.sign(normal(8, 6, 1)))
    spent = attack(module, data, Threat("l1", nu), LinearExact())
    steepest = (data.targets * (data.inputs @ w)[:, None]).squeeze(-1) - scale * nu * w.abs().max()
    found.append(compare(spent.margins, "==", steepest, "library, l1: all on the steepest coordinate"))
    hit = attack(module, data, Threat("l2", nu), LinearExact())
    closed = (data.targets * (data.inputs @ w)[:, None]).squeeze(-1) - scale * nu * w.norm()
    found.append(compare(hit.margins, "==", closed, "library"))
    # several classes with offsets: the least margin over the wrong ones
    several, labels = nn.Linear(3, 4).double(), torch.tensor([0, 3, 1, 2, 1, 0])
    with torch.no_grad():
        several.weight.copy_(normal(11, 4, 3))
        several.bias.copy_(3 * normal(12, 4))
        outputs = several(data.inputs)
    apart = (several.weight[labels][:, None] - several.weight).norm(dim=2).detach()
    gaps = outputs.gather(1, labels[:, None]) - outputs - scale * nu * apart
    gaps[torch.arange(6), labels] = math.inf
    ours = smallest_margins(several, data.inputs, labels, Threat("l2", nu))
    return [*found, compare(ours, "==", gaps.min(1).values, "library, four classes")]


@cache
def _least_scores(slope: float, seed: int) -> tuple[LeakyNet, Sample, Tensor]:
    """A network of four units, 120 points of the plane and the least y f_Wbar of a grid of the disk around each."""
    angles = torch.linspace(0, 2 * math.pi, 721, dtype=torch.float64)
    ring = torch.stack([angles.cos(), angles.sin()], 1)
    disk = torch.cat([0.5 * ring, *(0.5 * part * ring[::30] for part in (0.0, 0.2, 0.4, 0.6, 0.8, 0.9))])
    net, X, y = _leaky(seed, 4, 2, slope), normal(seed + 2, 120, 2), torch.sign(normal(seed + 3, 120))
    W, a = normal(seed, 4, 2), torch.sign(normal(seed + 1, 4)) / 2
    least = (y[:, None] * scores(W / W.norm(), a, X[:, None] + disk, slope)).min(1).values
    return net, Sample(X, y[:, None]), least


def beta_error(factor: float) -> list[Comparison]:
    """L_beta of `beta_robust_error` against the share of points with an attack of y f_Wbar <= -`factor` beta by a grid.

    It never grows with beta, and no example lies within the error of the grid of a threshold. `effective` says of the
    points themselves, one exactly at -beta among them, what their scores say.
    """
    found = []
    for slope, seed in ((1.0, 1), (0.6, 1), (0.3, 4)):
        net, data, least = _least_scores(slope, seed)
        betas = [beta for beta in (0.05, 0.1, 0.2, 0.35) if float((least + beta).abs().min()) > 1e-4]
        errors = [beta_robust_error(net, data, 0.5, beta, steps=60) for beta in betas]
        for beta, error in zip(betas, errors, strict=True):
            found.append(compare(error.value, "==", (least <= -factor * beta).double().mean(), f"grid, slope {slope}"))
        for earlier, later in itertools.pairwise(errors):
            found.append(compare(later.value, "<=", earlier.value, f"larger beta, slope {slope}"))
        found.append(compare(len(betas), ">=", 3, "thresholds"))
        floors = score_floor(net.normalized(), data.inputs, data.targets, 0.5)
        found.append(compare(floors, "<=", least, f"floors that no attack is below, slope {slope}"))
        for beta, error in zip(betas, errors, strict=True):
            share = (torch.minimum(floors, least) < -factor * beta).double().mean()
            found.append(compare(error.upper, "==", share, f"all that may have an attack, slope {slope}"))
        W, a = normal(seed, 4, 2), torch.sign(normal(seed + 1, 4)) / 2
        plain = scores(W, a, data.inputs, slope) / W.norm()
        found.append(compare(net.normalized()(data.inputs), "==", plain, f"f_Wbar, slope {slope}"))
        own, told = data.targets[:, 0] * plain, effective(net, data.inputs, data.targets[:, 0], 0.1)
        found.append(compare(told.double(), "==", (own <= -0.1).double(), f"effective points, slope {slope}"))
    exact = LeakyNet(tensor([[2.0]]), tensor([1.0]), 1.0)  # f_Wbar(x) = x
    told = effective(exact, tensor([[0.5], [0.25], [0.125]]), tensor([-1.0, -1.0, -1.0]), factor * 0.25)
    found.append(compare(told.double(), "==", tensor([1.0, 1.0, 0.0]), "y f = -beta is effective"))
    pair = Sample(tensor([[0.25], [0.5]]), tensor([[-1.0], [-1.0]]))  # the strongest at -1/2 and at -3/4
    for slope in (1.0, 0.5):
        error = beta_robust_error(LeakyNet(tensor([[2.0]]), tensor([1.0]), slope), pair, 0.25, 0.5, steps=60)
        found.append(compare(error.value, "==", 0.5, f"and does not count in L_beta, slope {slope}"))
        if slope < 1:  # neither end of the interval does
            found.append(compare([error.lower, error.upper], "==", 0.5, f"nor in its ends, slope {slope}"))
    return found


def vanishing_beta(rest: float) -> list[Comparison]:
    """L_beta against L_rob by the grid: at most it, and equal to it once beta is below `rest` of every lasting margin.

    A lasting margin is the least score of an example that some attack fools.
    """
    found = []
    for slope, seed in ((1.0, 1), (0.3, 4)):
        net, data, least = _least_scores(slope, seed)
        robust = (least < 0).double().mean()
        found.append(
            compare(beta_robust_error(net, data, 0.5, steps=60).value, "==", robust, f"beta = 0, slope {slope}")
        )
        smallest = float(-least[least < 0].max())
        for beta in (0.3, 0.02):
            value = beta_robust_error(net, data, 0.5, beta, steps=60).value
            found.append(compare(value, "<=", robust, f"L_beta against L_rob, slope {slope}, beta={beta}"))
            counted = (least < -beta).double().mean()
            found.append(compare(value, "==", counted, f"attacks by the margin, slope {slope}, beta={beta}"))
        for share in (0.9, 1e-3):
            value = beta_robust_error(net, data, 0.5, share * rest * smallest, steps=60).value
            found.append(compare(value, "==", robust, f"beta -> 0, slope {slope}"))
    return found


def intermediate_step(beta_factor: float, by_distance: bool = False) -> list[Comparison]:
    """Scores y <grad f(delta_t), delta*> <= y f(delta*)/2 for all pairs of points in the ball, delta* beta-effective.

    By distance: at most (1 - ||delta_t - delta*||/(2 nu)) y f(delta*), which is half of it as far apart as center and
    sphere. beta = factor nu (1-alpha) kappa sqrt m, y f(delta*) <= -beta ||W||_F. One to three inputs, up to five
    units, weights of any size, slopes from .3 to .95; points on and inside the sphere, and its center. One unit of
    slope just below 1/2 whose kink is just inside the ball fails for every factor below 4, or below 2 by distance.
    """
    one = tensor([1.0])
    cases = [
        (one[:, None], one, x * one, -1.0, alpha, 1.0) for x, alpha in ((0.5, 0.3), (0.999, 0.499), (0.999, 0.501))
    ]
    for seed in range(40):
        m, d, alpha = seed % 4 + 2, seed % 3 + 1, (0.5, 0.8, 0.95)[seed % 3]
        W, a = (1 + seed % 5) * normal(seed, m, d), (0.3 + seed % 2) * torch.sign(normal(seed + 1, m))
        cases.append((W, a, 2 * normal(seed + 2, d), 1.0, alpha, 0.8))
    found, sizes = [], set()
    for W, a, x, y, alpha, nu in cases:
        steps = nn.functional.normalize(normal(len(x), 60, len(x)), dim=1)
        points = torch.cat([x[None], *(x + part * nu * steps for part in (0.3, 0.7, 1.0))])
        z = y * scores(W, a, points, alpha)
        strong = z <= -beta_factor * nu * (1 - alpha) * a.abs().max() * math.sqrt(len(a)) * W.norm()
        if not bool(strong.any()):
            continue
        sizes.add(len(x))
        gradients = (a * slopes(points @ W.mT, alpha)) @ W
        linearized = y * gradients @ points[strong].mT
        apart = (points[:, None] - points[strong]).norm(dim=2)
        share = 1 - apart / (2 * nu) if by_distance else 0.5
        label = f"{int(strong.sum())} attacks, {len(x)} inputs, {len(a)} units"
        found.append(compare(linearized, "<=", share * z[strong], label))
    return [*found, compare(len(sizes), "==", 3, "numbers of inputs with attacks")]


def attack_bound(beta_factor: float, share: float) -> list[Comparison]:
    """-l'(z*) <= share (-2 l'(z_atk) + 4 nu^2/(eta T)) wherever an attack is beta-effective, on random networks.

    The weights are large enough for -l' to tell attacks apart, and T for the last term to be small; slopes, widths, top
    weights, radii and shares of the largest step vary. Attacks of full length have come to y f <= 0.
    """
    found = []
    angles = torch.linspace(0, 2 * math.pi, 181, dtype=torch.float64)
    ring = torch.stack([angles.cos(), angles.sin()], 1)
    cases = [(0.8, 0.7, 2, 1.0, 4.0, 1.0, 1000)] * 3
    cases += [(0.6, 0.5, 5, 0.4, 9.0, 0.5, 300), (1.0, 1.2, 1, 2.0, 3.0, 1.0, 300), (0.9, 0.3, 8, 0.5, 20.0, 1.0, 100)]
    for seed, (alpha, nu, m, kappa, size, part, T) in enumerate(cases):
        W, a = normal(seed, m, 2), kappa * torch.sign(normal(seed + 1, m))
        W = size * W / W.norm()
        net, X, y = LeakyNet(W, a, alpha), normal(seed + 2, 60, 2), torch.sign(normal(seed + 3, 60))
        ball = torch.cat([nu * r * ring for r in (0.25, 0.5, 0.75, 1.0)])
        least = (y[:, None] * net((X[:, None] + ball).reshape(-1, 2)).reshape(60, -1)).min(1).values
        eta = part / (kappa**2 * m * size**2)
        found.append(compare(net(X), "==", scores(W, a, X, alpha), f"outputs, m={m}"))
        for times in (1, 40):  # steps that stay inside the ball, and some that do not
            few = reflected_pgd(net, X[:3], y[:3], nu, times * eta, 4)
            stored = net.hidden, net.top, net.slope
            written = [
                _attacked(stored, one, sign, nu, times * eta, 4)[0] for one, sign in zip(X[:3], y[:3], strict=True)
            ]
            found.append(compare(few, "==", torch.stack(written), f"four steps of {times} eta, m={m}"))
        reached = y * net(reflected_pgd(net, X, y, nu, eta, T))
        right = 2 * torch.sigmoid(-reached) + 4 * nu**2 / (eta * T)
        effective = least <= -beta_factor * nu * (1 - alpha) * kappa * math.sqrt(m) * size
        left, label = torch.sigmoid(-least[effective]), f"{int(effective.sum())} points, slope {alpha}, m={m}"
        found.append(compare(left, "<=", share * right[effective], f"the strongest attack on {label}"))
        found.append(compare(reached[effective], "<=", 0.0, f"at rest, {label}", precision=0.0))
    return found


def slow_attack(share: float) -> list[Comparison]:
    """2 s(-a) + 4 s(a) max(0, 2a + h - s(a)) >= share s(h) for a > 0, h >= 0, s the logistic function.

    An attack that stays at scores of at least a comes nearer to a point of score -h by eta s(a) (2a + h - s(a)) a step
    in squared distance, which began with nu^2. Beyond a = 1 the second term alone is above 1.
    """
    a = torch.linspace(0, 2, 401, dtype=torch.float64)[:, None]
    h = torch.cat([torch.linspace(0, 2, 401), torch.linspace(3, 60, 58)]).double()
    left = 2 * torch.sigmoid(-a) + 4 * torch.sigmoid(a) * (2 * a + h - torch.sigmoid(a)).clamp_min(0)
    return [
        compare(left, ">=", (share * torch.sigmoid(h)).expand_as(left), "an attack that finds no point of y f <= 0")
    ]


def effective_means_misclassified(factor: float, slope: float) -> list[Comparison]:
    """For slope below the threshold a beta-effective attack exists only where the clean point is misclassified.

    Attacks are a grid of the disc and the library's search. Points lie where the worst score is near -beta, those of
    one unit so that the bound is attained: y f(x) = -w x for w x > 0, and the worst point is w x + nu.
    """
    found, count = [], 0
    angles, radii = torch.linspace(0, 2 * math.pi, 121).double()[:-1], torch.linspace(0, 1, 11).double()
    disc = (radii[:, None, None] * torch.stack([angles.cos(), angles.sin()], -1)).reshape(-1, 2)
    for seed in range(24):
        m, nu = 1 + seed % 4, 0.3 + 0.5 * (seed % 3)
        W = normal(seed, m, 2)
        W, a = W / W.norm(), torch.ones(m).double() if m < 3 else torch.sign(normal(seed + 1, m))
        if seed % 2:  # all units look one way: the score falls as fast as it can
            W = (W[:1] / W[0].norm()).expand(m, 2) / math.sqrt(m)
            a = torch.ones(m).double()
        way = (a[:, None] * W).sum(0)
        beta = factor * nu * (1 - slope) * math.sqrt(m)
        reach = tensor([-0.06, -0.01, 0.02, 0.12, 0.4, 1.0])
        x = (beta / math.sqrt(m) - nu + reach[:, None] * nu) * way / way.norm()

        def score(points: Tensor, W: Tensor = W, a: Tensor = a) -> Tensor:
            units = points @ W.mT
            return -torch.where(units > 0, units, slope * units) @ a

        least = score(x[:, None] + nu * disc).amin(1)
        net, leaf = LeakyNet(W, a, slope), x.clone().requires_grad_()
        found.append(compare(net(x), "==", -score(x), "outputs"))
        (steepest,) = torch.autograd.grad(score(leaf).sum(), leaf)
        found.append(compare(net.gradient(x), "==", -steepest, "gradients"))
        told = smallest_score(net, x, -torch.ones(6).double(), nu, steps=12)
        found.append(compare(told, "<=", least + 0.05 * nu, "search"))
        # a point of the disc has one of the grid within .06 nu, and no score is steeper than ||a|| ||W|| = sqrt m
        found.append(compare(told, ">=", least - 0.06 * nu * math.sqrt(m), "search from below"))
        if seed % 2:
            found.append(
                compare(told, "==", score(x + nu * way / way.norm()), "least score of units that look one way")
            )
        if bool((effective := least <= -beta).any()):
            count += int(effective.sum())
            found.append(compare(score(x)[effective], "<", 0.0, f"clean scores, {m} units, radius {nu:.1f}"))
    return [*found, compare(float(count), ">=", 30.0, "effective attacks")]
