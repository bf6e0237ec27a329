"""Two layers, leaky ReLU, fixed top layer: the setting in which adversarial training with the reflected loss is proved.

f(x) = a^T s(W x) with s(z) = max(alpha z, z), |a_r| = kappa, only W is trained. Robust errors refer to the network
divided by ||W||_F; training and attacks use it as it is. Sources: thesis, section 6.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.checks import as_float_tensor, check_positive, check_same_kind, check_size
from droptics.data import Sample
from droptics.estimates import Estimate


@dataclass(frozen=True, eq=False)
class LeakyNet:
    """x -> top^T max(slope * W x, W x) with W (width, inputs), top (width,) and slope in (0, 1]."""

    hidden: Tensor
    top: Tensor
    slope: float

    def __post_init__(self) -> None:
        hidden = as_float_tensor(self.hidden, "hidden", 2)
        top = as_float_tensor(self.top, "top", 1)
        check_size("top", top.shape[0], hidden.shape[0], "one weight per hidden unit")
        check_same_kind({"hidden": hidden, "top": top})
        if not 0 < self.slope <= 1:
            raise ValueError(f"slope must lie in (0, 1], got {self.slope}; the guarantees need a positive slope")
        object.__setattr__(self, "hidden", hidden)
        object.__setattr__(self, "top", top)
        object.__setattr__(self, "slope", float(self.slope))  # another type would become that of the gradient

    def __call__(self, inputs: Tensor) -> Tensor:
        """Scores (n,)."""
        return self._activate(inputs @ self.hidden.mT) @ self.top

    def gradient(self, inputs: Tensor) -> Tensor:
        """Input gradients (n, inputs) of the scores; O(n width inputs)."""
        return (self._derivative(inputs @ self.hidden.mT) * self.top) @ self.hidden

    @property
    def norm(self) -> float:
        """||W||_F."""
        return float(torch.linalg.matrix_norm(self.hidden))

    def normalized(self) -> LeakyNet:
        """The network with W / ||W||_F, to which robust errors refer; it makes the same predictions."""
        if self.norm == 0:
            raise ValueError("hidden must not be zero to be normalized")
        return LeakyNet(self.hidden / self.norm, self.top, self.slope)

    def update(self, inputs: Tensor, targets: Tensor, step: float) -> LeakyNet:
        """One gradient step on the mean logistic loss: W + step mean sigmoid(-y f) y (a * s'(W x)) x^T."""
        before = inputs @ self.hidden.mT
        force = torch.sigmoid(-targets * (self._activate(before) @ self.top)) * targets / len(targets)
        change = (self._derivative(before) * self.top * force[:, None]).mT @ inputs
        return LeakyNet(self.hidden + step * change, self.top, self.slope)

    def _activate(self, before: Tensor) -> Tensor:
        return torch.maximum(self.slope * before, before)

    def _derivative(self, before: Tensor) -> Tensor:
        # two Python numbers would meet in float32 first
        return torch.where(before >= 0, before.new_ones(()), self.slope)


def reflected_pgd(net: LeakyNet, inputs: Tensor, targets: Tensor, radius: float, step: float, steps: int) -> Tensor:
    """Algorithm 5: gradient ascent on the reflected loss in the l2 ball; the visited point of smallest y f.

    delta <- Proj(delta - step sigmoid(y f(delta)) y grad f(delta)), starting at the input, which counts as visited.
    Cost O(steps n width inputs). Claim: thesis-alg5.
    """
    check_positive("steps", steps)
    if radius < 0:
        raise ValueError(f"radius must be >= 0, got {radius}")
    signs = targets.reshape(-1).to(inputs.dtype)
    points = best = inputs
    score = signs * net(points)
    smallest = score
    for _ in range(steps):
        moved = points - step * (torch.sigmoid(score) * signs)[:, None] * net.gradient(points) - inputs
        norms = torch.linalg.vector_norm(moved, dim=1, keepdim=True)
        points = inputs + moved * (radius / norms.clamp_min(torch.finfo(norms.dtype).tiny)).clamp_max(1.0)
        score = signs * net(points)
        best = torch.where((score < smallest)[:, None], points, best)
        smallest = torch.minimum(smallest, score)
    return best


@dataclass(frozen=True, eq=False)
class LeakyRun:
    """What Algorithm 6 went through.

    Attributes:
        net: The network after the last step.
        nets: Networks after 0, every, 2 every, ... steps.
        norms: ||W_t||_F of each of them.
        forces: sigmoid(-y f) at the attacked example of every step; its running mean is what the proof bounds.
    """

    net: LeakyNet
    nets: tuple[LeakyNet, ...]
    norms: tuple[float, ...]
    forces: tuple[float, ...]


def adversarial_sgd(  # parameters: those of thesis-alg6
    net: LeakyNet,
    draw: Callable[[int], tuple[Tensor, Tensor]],
    *,
    radius: float,
    steps: int,
    step: float,
    attack_steps: int,
    attack_step: float | None = None,
    every: int = 1,
) -> LeakyRun:
    """Algorithm 6: for each fresh example, attack it with Algorithm 5 and take a gradient step on the logistic loss.

    `draw(t)` returns the example (1, inputs), (1,) of step t, or a batch. The attack step defaults to its largest
    admissible value 1 / (||top||^2 ||W_t||^2), which is 1 / (kappa^2 m ||W_t||_F^2) for |top_r| = kappa.
    Claim: thesis-alg6.
    """
    check_positive("steps", steps)
    check_positive("every", every)
    nets, norms, forces = [net], [net.norm], []
    top = float(net.top.square().sum())
    for t in range(steps):
        inputs, targets = draw(t)
        size = attack_step if attack_step is not None else 1.0 / max(top * net.norm**2, 1e-300)
        points = reflected_pgd(net, inputs, targets, radius, size, attack_steps)
        forces.append(float(torch.sigmoid(-targets * net(points)).mean()))
        net = net.update(points, targets, step)
        if (t + 1) % every == 0:
            nets.append(net)
            norms.append(net.norm)
    return LeakyRun(net, tuple(nets), tuple(norms), tuple(forces))


def score_floor(net: LeakyNet, inputs: Tensor, targets: Tensor, radius: float) -> Tensor:
    """A number (n,) that y f cannot be brought below within the l2 ball; equal to the minimum when slope is 1.

    Three valid floors, the largest of which is returned: every unit at its own worst point; the steepest slope
    max(||a||_2 ||W||_2); and, since every slope on the ball is a combination of the rows with weights in [alpha, 1],
    the linear part alpha a^T W exactly plus the rest unit by unit.
    """
    signs = targets.reshape(-1).to(inputs.dtype)
    lengths = torch.linalg.vector_norm(net.hidden, dim=1)
    before = inputs @ net.hidden.mT
    weight = signs[:, None] * net.top
    worst = before - radius * lengths * weight.sign()
    by_unit = (weight * torch.maximum(net.slope * worst, worst)).sum(1)
    steepest = torch.linalg.vector_norm(net.top) * torch.linalg.matrix_norm(net.hidden, ord=2)
    by_slope = signs * net(inputs) - radius * steepest
    # max(alpha z, z) = alpha z + (1 - alpha) max(z, 0)
    linear = net.slope * (net.top @ net.hidden)
    by_part = signs * (inputs @ linear) - radius * torch.linalg.vector_norm(linear)
    by_part = by_part + (1 - net.slope) * (weight * worst.clamp_min(0.0)).sum(1)
    return torch.stack([by_unit, by_slope, by_part]).amax(0)


def beta_robust_error(  # parameters: the statement's, and how hard to search
    net: LeakyNet, data: Sample, radius: float, beta: float = 0.0, *, steps: int = 200, restarts: int = 1, seed: int = 0
) -> Estimate:
    """P(some point within `radius` has y f < -beta), f divided by ||W||_F: exact for slope 1, else an interval.

    For slope 1 the smallest score is y w.x - radius ||w|| with w = W^T a, divided by ||W||_F; examples whose score
    equals -beta up to rounding are the `error`. Otherwise the lower end counts the examples that an attack (normalized
    steps, decaying) brings below -beta, the upper end those that `score_floor` cannot exclude; `value` is the lower end
    and the gap is what is not decided.
    The error never grows with beta. Claims: thesis-eq6.3, thesis-def7.
    """
    if not 0 <= radius < math.inf or not 0 <= beta < math.inf:
        raise ValueError(f"radius and beta must be finite and >= 0, got {radius} and {beta}")
    if data.weights is not None:
        raise ValueError("data must not have weights: the error counts every example once")
    unit = net.normalized()
    inputs, targets = data.inputs, data.targets.reshape(-1).to(data.inputs.dtype)
    if not bool(((targets == 1) | (targets == -1)).all()):
        raise ValueError("targets must be -1 or +1")
    if net.slope == 1.0:
        linear = unit.top @ unit.hidden
        scores = targets * (inputs @ linear) - radius * torch.linalg.vector_norm(linear)
        # scores that rounding may have moved across -beta are not decided
        steps = 16 + 2 * sum(unit.hidden.shape)
        linear = unit.top.abs() @ unit.hidden.abs()
        sizes = inputs.abs() @ linear + radius * torch.linalg.vector_norm(linear) + beta
        unsure = (scores + beta).abs() <= steps * torch.finfo(scores.dtype).eps * sizes
        share = (scores < -beta).double().mean()
        return Estimate.exact(share, "closed form of a linear network", error=unsure.double().mean())
    lowest = smallest_score(unit, inputs, targets, radius, steps=steps, restarts=restarts, seed=seed)
    found = (lowest < -beta).double().mean()
    possible = (score_floor(unit, inputs, targets, radius) < -beta).double().mean()
    return Estimate(found, found, torch.maximum(possible, found), "attack below, certificate above", restarts * steps)


def smallest_score(  # parameters: the statement's, and how hard to search
    net: LeakyNet, inputs: Tensor, targets: Tensor, radius: float, *, steps: int = 200, restarts: int = 1, seed: int = 0
) -> Tensor:
    """The smallest y f (n,) that normalized gradient steps find in the l2 ball; restarts begin at random points."""
    signs = targets.reshape(-1).to(inputs.dtype)
    generator = torch.Generator(inputs.device).manual_seed(seed)
    lowest = signs * net(inputs)
    for restart in range(restarts):
        points = inputs
        if restart:
            noise = torch.randn(inputs.shape, generator=generator, dtype=inputs.dtype, device=inputs.device)
            points = inputs + radius * noise / torch.linalg.vector_norm(noise, dim=1, keepdim=True)
        for number in range(steps):
            slope = signs[:, None] * net.gradient(points)
            length = torch.linalg.vector_norm(slope, dim=1, keepdim=True).clamp_min(torch.finfo(inputs.dtype).tiny)
            moved = points - 2 * radius * 0.005 ** (number / max(steps - 1, 1)) * slope / length - inputs
            norms = torch.linalg.vector_norm(moved, dim=1, keepdim=True).clamp_min(torch.finfo(inputs.dtype).tiny)
            points = inputs + moved * (radius / norms).clamp_max(1.0)
            lowest = torch.minimum(lowest, signs * net(points))
    return lowest


def effective(net: LeakyNet, points: Tensor, targets: Tensor, beta: float) -> Tensor:
    """Which points are beta-effective attacks: y f <= -beta for the network divided by ||W||_F. Claim: thesis-def7."""
    return targets.reshape(-1).to(points.dtype) * net.normalized()(points) <= -beta
