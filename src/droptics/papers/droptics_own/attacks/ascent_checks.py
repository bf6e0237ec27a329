"""What claims on ascents compare: steps with momentum, and algorithms on leaky networks, one step after the other."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from droptics.attacks import Apgd, Threat
from droptics.attacks.apgd import AdaptiveAscent
from droptics.attacks.gradients import differentiable
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, tensor
from droptics.papers.thesis.leaky import LeakyNet, adversarial_sgd, beta_robust_error, reflected_pgd, score_floor


def adaptive_steps(scale: float) -> list[Comparison]:
    """Steps with momentum, halvings of steps, and ascents of leaky networks, one after the other."""
    found: list[Comparison] = []
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    inputs = normal(6, 8, 5)
    labels = net(inputs).argmax(1)
    for norm, radius in (("linf", 0.02), ("l2", 0.05)):
        threat = Threat(norm, radius)
        method = Apgd(CrossEntropy(), steps=4, start="input")
        trail = AdaptiveAscent(differentiable(net), threat.around(inputs), labels, method, torch.Generator()).run()
        now, before, step, best, most = inputs, inputs, 2 * radius, inputs, torch.full((8,), -math.inf).double()
        fooled = torch.zeros(8).bool()
        for number in range(5):
            fooled |= net(now).argmax(1) != labels
            leaf = now.clone().requires_grad_()
            losses = nn.functional.cross_entropy(net(leaf), labels, reduction="none")
            (slope,) = torch.autograd.grad(losses.sum(), leaf)
            better = losses.detach() > most
            best = torch.where(better[:, None], now, best)
            most = torch.maximum(most, losses.detach())
            way = slope.sign() if norm == "linf" else slope / slope.norm(dim=1, keepdim=True)
            ahead = _cut(now + step * way, inputs, norm, radius)
            after = (
                ahead if number == 0 else _cut(now + 0.75 * (ahead - now) + 0.25 * (now - before), inputs, norm, radius)
            )
            now, before = after, now
        found.append(compare(trail.fooled, "==", fooled, f"who is fooled, {norm}"))
        found.append(compare(fooled.sum(), "<", 4, f"most are not, {norm}"))
        kept = ~fooled
        # such small balls hold no corner of the loss: no step is halved within four
        found.append(compare(trail.inputs[kept], "==", scale * best[kept], f"ascent, {norm}", precision=1e-6))
    return found + _leaky_steps(scale)


def _cut(points: Tensor, inputs: Tensor, norm: str, radius: float) -> Tensor:
    moves = points - inputs
    if norm == "linf":
        return inputs + moves.clamp(-radius, radius)
    return inputs + moves * (radius / moves.norm(dim=1, keepdim=True)).clamp_max(1.0)


def _leaky_steps(scale: float) -> list[Comparison]:
    """Algorithms on leaky networks, with their floors and what they keep."""
    found: list[Comparison] = []
    net = LeakyNet(normal(3, 4, 5), 0.5 * tensor([1.0, -1, 1, -1]), 0.3)
    inputs, signs = normal(5, 7, 5), tensor([1.0, -1, 1, 1, -1, -1, 1])
    told = reflected_pgd(net, inputs, signs, 0.4, 0.7, 6)
    points, best, least = inputs, inputs, signs * net(inputs)
    for _ in range(6):
        leaf = points.clone().requires_grad_()
        (slope,) = torch.autograd.grad(net(leaf).sum(), leaf)
        score = (signs * net(points)).detach()
        points = _cut(points - 0.7 * (torch.sigmoid(score) * signs)[:, None] * slope, inputs, "l2", 0.4)
        now = signs * net(points)
        best, least = torch.where((now < least)[:, None], points, best), torch.minimum(now, least)
    found.append(compare(told, "==", scale * best, "the visited point of least score"))
    floor = score_floor(net, inputs, signs, 0.4)
    found.append(compare(floor, "<=", least, "no score below its floor"))
    ways = normal(8, 4000, 7, 5)
    around = inputs + 0.4 * ways / ways.norm(dim=2, keepdim=True)
    lowest = (signs * net(around.reshape(-1, 5)).reshape(4000, 7)).amin(0)
    found.append(compare(floor, "<=", lowest, "floors of random points"))
    lengths, weight = net.hidden.norm(dim=1), signs[:, None] * net.top
    worst = inputs @ net.hidden.mT - 0.4 * lengths * weight.sign()
    units = (weight * torch.where(worst > 0, worst, 0.3 * worst)).sum(1)
    steep = signs * net(inputs) - 0.4 * net.top.norm() * torch.linalg.svdvals(net.hidden)[0]
    part = 0.3 * net.top @ net.hidden
    split = signs * (inputs @ part) - 0.4 * part.norm() + 0.7 * (weight * worst.clamp_min(0)).sum(1)
    found.append(compare(floor, "==", scale * torch.stack([units, steep, split]).amax(0), "three floors"))
    return found + _leaky_runs(net, inputs, signs, scale)


def _leaky_runs(net: LeakyNet, inputs: Tensor, signs: Tensor, scale: float) -> list[Comparison]:
    """Training under attack step by step, and errors with their ends."""
    found: list[Comparison] = []
    run = adversarial_sgd(
        net, lambda t: (inputs[t : t + 1], signs[t : t + 1]), radius=0.3, steps=5, step=0.2, attack_steps=3, every=2
    )
    own, forces, nets = net, [], [net]
    for t in range(5):
        x, y = inputs[t : t + 1], signs[t : t + 1]
        size = 1 / float(own.top.square().sum() * own.hidden.square().sum())
        point = reflected_pgd(own, x, y, 0.3, size, 3)
        forces.append(float(torch.sigmoid(-y * own(point))))
        leaf = own.hidden.clone().requires_grad_()
        loss = nn.functional.softplus(-y * LeakyNet(leaf, own.top, 0.3)(point)).mean()
        own = LeakyNet(own.hidden - 0.2 * torch.autograd.grad(loss, leaf)[0], own.top, 0.3)
        if t in (1, 3):
            nets.append(own)
    found.append(compare(run.forces, "==", scale * tensor(forces), "forces of every step"))
    found.append(compare(run.net.hidden, "==", scale * own.hidden, "the last network"))
    found.append(same((len(run.nets), len(run.norms)), (3, 3), "every second network", scale))
    found.append(compare(run.nets[2].hidden, "==", scale * nets[2].hidden, "the one after four steps"))
    found.append(compare(run.norms, "==", scale * tensor([float(one.hidden.norm()) for one in nets]), "norms"))
    line = LeakyNet(normal(3, 4, 5), 0.5 * tensor([1.0, -1, 1, -1]), 1.0)
    data = Sample(inputs, signs)
    row = line.top @ line.hidden / line.hidden.norm()
    for beta in (0.0, 0.2):
        low = signs * (inputs @ row) - 0.3 * row.norm()
        share = (low < -beta).double().mean()
        found.append(compare(beta_robust_error(line, data, 0.3, beta).value, "==", scale * share, f"slope one, {beta}"))
        unit = net.normalized()
        told_range = beta_robust_error(net, data, 0.3, beta, steps=80, restarts=2)
        upper = (score_floor(unit, inputs, signs, 0.3) < -beta).double().mean()
        found.append(compare(told_range.upper, "==", scale * upper, f"certificate above, {beta}"))
        found.append(compare(told_range.lower, "<=", upper, f"attack below, {beta}"))
    found.append(refuses(lambda: beta_robust_error(net, Sample(inputs, 2 * signs), 0.3), "-1 or +1"))
    found.append(refuses(lambda: beta_robust_error(net, data, -0.3), "must be finite and >= 0"))
    return found
