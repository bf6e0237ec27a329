"""What the claims on weight decay and aversion compare: Lemmas 22 to 33 at optima that descent finds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from droptics.evidence.claims import Comparison, compare
from droptics.models import ReLUNet
from droptics.papers.helmbold2017 import networks
from droptics.papers.helmbold2017.checks import exact
from droptics.papers.instances import descend, normal, tensor
from droptics.penalties import risk

INPUT = (1.0, -2.0, 0.5)
STRENGTH = 0.3
Net = tuple[Tensor, Tensor, Tensor, Tensor]


def hidden(net: Net, x: Tensor) -> Tensor:
    """Values of the hidden nodes."""
    V, a, _, _ = net
    return torch.relu(V @ x + a)


def output(net: Net, x: Tensor) -> Tensor:
    """Output w . h(x) + b."""
    return net[2] @ hidden(net, x) + net[3]


def squares(net: Net) -> Tensor:
    """Sum of squared weights; biases are free."""
    return net[0].square().sum() + net[2].square().sum()


@cache
def decay_optimum(width: int = 2) -> Net:
    """The network of least risk + lam/2 ||weights||^2 on P_(x,1) that L-BFGS finds from many starts."""
    x, zero = tensor(INPUT), torch.zeros(3, dtype=torch.float64)

    def objective(V: Tensor, a: Tensor, w: Tensor, b: Tensor) -> Tensor:
        net = (V, a, w, b[0])
        error = ((output(net, x) - 1) ** 2 + output(net, zero) ** 2) / 2
        return error + STRENGTH / 2 * squares(net)

    _, (V, a, w, b) = descend(objective, [(width, 3), (width,), (width,), (1,)], starts=12, seed=3)
    return V, a, w, b[0]


def hinges(shift: Callable[[Tensor, Tensor], Tensor]) -> list[Comparison]:
    """Lemma 22: lower the bias of an always active node to its kink and make up for it at the output."""
    x, zero = tensor(INPUT), torch.zeros(3, dtype=torch.float64)
    net: Net = (normal(1, 2, 3), tensor([4.0, 0.3]), tensor([2.0, -0.5]), tensor(0.1))
    least = torch.minimum(hidden(net, x), hidden(net, zero))
    moved: Net = (net[0], net[1] - least, net[2], net[3] + shift(net[2], least).sum())
    found = [compare(output(moved, at), "==", output(net, at), "output") for at in (x, zero)]
    found.append(compare(torch.minimum(hidden(moved, x), hidden(moved, zero)), "==", 0.0, "the kink"))
    return found


def swapped(sign: float) -> list[Comparison]:
    """Lemma 24: a node that fires on 0 only, turned around: negate v and w, drop its bias, add w h(0) to the output."""
    x, zero = tensor(INPUT), torch.zeros(3, dtype=torch.float64)
    v, w, b = -0.4 * x, tensor([1.7]), tensor(0.1)
    net: Net = (v[None], tensor([float(-v @ x)]), w, b)
    other: Net = (-v[None], tensor([0.0]), sign * w, b + (w * hidden(net, zero)).sum())
    found = [compare(output(other, at), "==", output(net, at), "output") for at in (x, zero)]
    return [*found, compare(squares(other), "==", squares(net), "sum of squares")]


def at_optimum(tilt: float = 0.0, share: float = 0.5) -> list[Comparison]:
    """Lemmas 23, 25, 26, 27, 28: active parts, sign, output bias, direction and level of an optimum.

    The weights lie along x, turned by `tilt`, and the output at 0 is `share` times one minus the activation.
    """
    x, zero = tensor(INPUT), torch.zeros(3, dtype=torch.float64)
    net = decay_optimum()
    used = net[2].abs() > 1e-4
    V, top = net[0][used], torch.maximum(hidden(net, x), hidden(net, zero))[used]
    activation = (net[2] * (hidden(net, x) - hidden(net, zero))).sum()
    middle = net[3] + (net[2] * hidden(net, zero)).sum()
    axis = x + tilt * x.roll(1)
    along = (V @ axis / (axis @ axis))[:, None] * axis
    return [
        compare((V @ x).abs(), "==", top - torch.minimum(hidden(net, x), hidden(net, zero))[used], "|v.x|", 1e-4),
        compare(middle, "==", share * (1 - activation), "output at 0", 1e-4),
        compare(V, "==", along, "v along x", 1e-4),
        compare(output(net, x), "<=", 1.0, "output at x", 1e-4),
        compare(output(net, zero), "==", 1 - output(net, x), "output at 0 and at x", 1e-4),
    ]


def budget(share: float) -> list[Comparison]:
    """Lemmas 29, 32, 33: a budget of squared weights B reaches an activation of at most B ||x|| / 2."""
    x = tensor(INPUT)
    norm, net = float(x.norm()), decay_optimum()
    activation = (net[2] * (hidden(net, x) - hidden(net, torch.zeros(3, dtype=torch.float64)))).sum()
    found = [compare(activation, "==", share * squares(net) * norm / 2, "attained by the optimum", 1e-4)]
    for seed in range(20):
        V, w = normal(seed, 2, 3), normal(seed + 50, 2)
        reached = (w * torch.relu(V @ x)).sum()
        found.append(compare(reached, "<=", share * (V.square().sum() + w.square().sum()) * norm / 2, "any network"))
    return found


def one_unit_criterion(v: Tensor, a: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """J_D of one hidden unit on P_(1,1) with two inputs, drop 1/2: four input masks, the unit's mask in closed form."""
    kept = tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    fired, rest = torch.relu(2 * kept @ v + a), torch.relu(a)
    on = ((w * fired + b - 1) ** 2 + (w * fired) ** 2).mean()
    off = (w * rest + b) ** 2 + (w * rest) ** 2
    return (on + off.sum()) / 2


def aversion(power: int) -> list[Comparison]:
    """Definition 2 where the dropout optimum is known (K = 2, n = 1, drop 1/2): its risk beyond the least risk, 0.

    Definition 3: on A o P the optimum has the inverse of A on its first weights and the same aversion.
    """
    data, A = networks.two_points(torch.ones(2)), tensor([3.0, -0.5])
    model = networks.positive_network(2, 1)
    least, _ = descend(one_unit_criterion, [(2,), (1,), (1,), (1,)], starts=12, seed=1)
    moved = ReLUNet([model.weights[0] * A**power, *model.weights[1:]], model.biases)
    return [
        compare(exact(model, data), "==", 0.2, "criterion of the network"),
        compare(least, "==", 0.2, "least criterion that descent finds", precision=1e-6),
        compare(risk(moved, networks.two_points(A)), "==", risk(model, data), "aversion on A o P"),
        compare(risk(model, data), ">", 0.0, "aversion"),
    ]


def witness(factor: float) -> list[Comparison]:
    """Definition 21: the risk of the weight-decay optimum, lam^2/x.x, the same for widths one and two."""
    x, zero = tensor(INPUT), torch.zeros(3, dtype=torch.float64)
    found = []
    for width in (1, 2):
        net = decay_optimum(width)
        error = ((output(net, x) - 1) ** 2 + output(net, zero) ** 2) / 2
        stated = factor * networks.weight_decay_aversion(x, STRENGTH)
        found.append(compare(error, "==", stated, f"risk, width {width}", precision=1e-5))
    return found
