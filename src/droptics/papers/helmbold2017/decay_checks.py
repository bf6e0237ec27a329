"""What the claims on weight decay and aversion compare: Lemmas 22 to 33 at optima that descent finds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.models import ReLUNet
from droptics.papers.helmbold2017 import networks, unit_types
from droptics.papers.helmbold2017.checks import exact, random_net, shallow_criterion
from droptics.papers.instances import coin_masks, descend, normal, tensor
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


def l2_criterion(net: Net, x: Tensor, strength: float) -> Tensor:
    """J_2 = risk on P_(x,1) + strength/2 ||weights||^2."""
    error = ((output(net, x) - 1) ** 2 + output(net, torch.zeros_like(x)) ** 2) / 2
    return error + strength / 2 * squares(net)


@cache
def decay_optimum(
    width: int = 2, strength: float = STRENGTH, scale: float = 1.0, given: tuple[float, ...] = INPUT
) -> Net:
    """The network of least J_2 for x = scale times an input that L-BFGS finds from many starts."""
    x = scale * tensor(given)

    def objective(V: Tensor, a: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return l2_criterion((V, a, w, b[0]), x, strength)

    _, (V, a, w, b) = descend(objective, [(width, len(x)), (width,), (width,), (1,)], starts=6, seed=3)
    return V, a, w, b[0]


def decay_optima() -> list[tuple[str, Tensor, float, Net]]:
    """Optima of several widths, strengths and inputs, with their label, x and strength."""
    cases = [(1, STRENGTH, 1.0, INPUT), (2, 0.1, 1.0, INPUT), (2, STRENGTH, 1.0, INPUT), (2, STRENGTH, 2.0, INPUT)]
    found = []
    for width, strength, scale, given in [*cases, (3, 0.2, 1.0, (0.8, 1.1))]:
        label = f"width {width}, lam {strength}, ||x||={scale * tensor(given).norm():.2f}"
        found.append((label, scale * tensor(given), strength, decay_optimum(width, strength, scale, given)))
    return found


def turned(net: Net, x: Tensor) -> Net:
    """The same outputs at 0 and x and the same weights up to signs, with every node zero at 0 (Lemmas 22 to 24)."""
    low, rise = hidden(net, torch.zeros_like(x)), hidden(net, x) - hidden(net, torch.zeros_like(x))
    side = torch.where(rise < 0, -1.0, 1.0).double()
    return side[:, None] * net[0], torch.zeros_like(net[1]), side * net[2], net[3] + net[2] @ low


def hinges(shift: Callable[[Tensor, Tensor], Tensor]) -> list[Comparison]:
    """Lemma 22: lower the bias of an always active node to its kink and make up for it at the output."""
    x, zero, found = tensor(INPUT), torch.zeros(3, dtype=torch.float64), []
    nets: list[Net] = [(normal(1, 2, 3), tensor([4.0, 0.3]), tensor([2.0, -0.5]), tensor(0.1))]
    nets += [(normal(seed, 6, 3), 2 * normal(seed + 10, 6), normal(seed + 20, 6), tensor(0.3)) for seed in range(4)]
    for net in nets:
        least = torch.minimum(hidden(net, x), hidden(net, zero))
        moved: Net = (net[0], net[1] - least, net[2], net[3] + shift(net[2], least).sum())
        found += [compare(output(moved, at), "==", output(net, at), "output") for at in (x, zero)]
        found.append(compare(torch.minimum(hidden(moved, x), hidden(moved, zero)), "==", 0.0, "the kink"))
        found.append(compare(squares(moved), "==", squares(net), "squared weights"))
    # a node of output weight 0 goes without its bias and the weights into it
    V, a, w, b = nets[1]
    idle, used = (V, a, w * (least == 0), b), (least == 0).double()
    found.append(compare((1 - used).sum(), ">", 0.0, "nodes that are not used"))
    without: Net = (V * used[:, None], a * used, w * used, b)
    found += [compare(output(without, at), "==", output(idle, at), "output without idle nodes") for at in (x, zero)]
    found.append(compare(squares(without), "<", squares(idle), "squared weights without idle nodes"))
    return found


def swapped(sign: float) -> list[Comparison]:
    """Lemma 24: a node that fires on 0 only, turned around: negate v and w, drop its bias, add w h(0) to the output.

    Any network after Lemmas 22 and 23, which shorten v to the difference of the two values, is turned where it falls.
    """
    x, zero, found = tensor(INPUT), torch.zeros(3, dtype=torch.float64), []
    for rows in (-0.4 * x[None], normal(1, 4, 3), normal(2, 4, 3)):
        V = rows * torch.where(rows @ x > 0, -1.0, 1.0)[:, None]
        w, b = 1.7 * normal(3, len(V)), tensor(0.1)
        net: Net = (V, -V @ x, w, b)
        other: Net = (-V, 0 * w, sign * w, b + (w * hidden(net, zero)).sum())
        found += [compare(output(other, at), "==", output(net, at), "output") for at in (x, zero)]
        found.append(compare(hidden(other, zero), "==", 0.0, "the nodes at 0"))
        found.append(compare(squares(other), "==", squares(net), "sum of squares"))
        net = rows, 2 * normal(4, len(V)), w, b
        rise = hidden(net, x) - hidden(net, zero)
        shortened = (rise.abs() / (rows @ x))[:, None] * rows
        other = (shortened, 0 * w, torch.where(rise < 0, sign, 1.0) * w, b + (w * hidden(net, zero)).sum())
        found += [compare(output(other, at), "==", output(net, at), "output of any network") for at in (x, zero)]
        found.append(compare(hidden(other, zero), "==", 0.0, "any nodes at 0"))
        found.append(compare(squares(other), "<=", squares(net), "sum of squares of any network"))
    return found


def node_range(share: float) -> list[Comparison]:
    """Lemma 23: nodes that are zero at 0 or x, shrunk until |v_j.x| is `share` of their larger value.

    Random networks as Lemma 22 leaves them: outputs at 0 and x stay, squared weights do not grow. At optima that
    descent finds there is nothing to shrink: |v_j.x| is how far a used node rises or falls between 0 and x.
    """
    x, zero, found = tensor(INPUT), torch.zeros(3, dtype=torch.float64), []
    for seed in range(5):
        V, a, w, b = normal(seed, 6, 3), 2 * normal(seed + 10, 6), normal(seed + 20, 6), tensor(0.3)
        a = a - torch.minimum(torch.relu(a), torch.relu(V @ x + a))  # Lemma 22
        net: Net = (V, a, w, b)
        low, high = hidden(net, zero), hidden(net, x)
        top = torch.maximum(low, high)
        found.append(compare(torch.minimum(low, high), "==", 0.0, f"the other value, seed {seed}"))
        shrunk: Net = (V * (share * top / (V @ x).abs())[:, None], low, w, b)
        for name, at in (("0", zero), ("x", x)):
            found.append(compare(hidden(shrunk, at), "==", hidden(net, at), f"nodes at {name}, seed {seed}"))
            found.append(compare(output(shrunk, at), "==", output(net, at), f"output at {name}, seed {seed}"))
        found.append(compare((shrunk[0] @ x).abs(), "==", top, f"|v.x|, seed {seed}"))
        found.append(compare(squares(shrunk), "<=", squares(net), f"squared weights, seed {seed}"))
    for strength in (0.1, STRENGTH):
        net = decay_optimum(2, strength)
        used = net[2].abs() > 1e-4
        rise = (hidden(net, x) - hidden(net, zero)).abs()[used]
        found.append(compare((net[0][used] @ x).abs(), "==", rise, f"|v.x|, strength {strength}", 1e-4))
    return found


def needless_node(side: float) -> list[Comparison]:
    """Lemma 25: a node with v.x < 0 (side -1) is zero at 0 and x, and J_2 falls when its weights become zero.

    At optima turned by Lemmas 22 to 24, and for every node of random networks as Lemma 24 leaves them. At optima as
    descent finds them no node has weights and the same value at 0 and x.
    """
    x, zero, found = tensor(INPUT), torch.zeros(3, dtype=torch.float64), []
    V, a, w, b = turned(decay_optimum(), x)
    for j in range(len(w)):
        if float(w[j].abs()) > 1e-4:
            marked = (torch.arange(len(w)) == j).double()
            other: Net = (V * (1 + (side - 1) * marked)[:, None], a, w, b)
            without: Net = (V * (1 - marked)[:, None], a, w, b)
            values = [l2_criterion(net, x, STRENGTH) for net in (without, other)]
            found.append(compare(values[0], "<", values[1], "J_2 without the node's weights"))
    for seed in range(4):
        V, w = normal(seed, 5, 3), normal(seed + 20, 5)
        V = V * (side * (V @ x).sign())[:, None]
        for j in range(len(w)):
            kept = (torch.arange(len(w)) != j).double()
            given, less = (V, 0 * w, w, tensor(0.3)), (V * kept[:, None], 0 * w, w * kept, tensor(0.3))
            for at in (zero, x):
                found.append(compare(output(less, at), "==", output(given, at), f"output, node {j}, seed {seed}"))
            found.append(compare(squares(less), "<", squares(given), f"squared weights, node {j}, seed {seed}"))
    for strength in (0.1, STRENGTH):
        best = decay_optimum(2, strength)
        weighty = best[0].norm(dim=1) > 1e-4
        rise = (hidden(best, x) - hidden(best, zero)).abs()[weighty]
        found.append(compare(rise, ">", 1e-4, f"rise of nodes with weights, strength {strength}"))
    return found


def output_bias(share: float) -> list[Comparison]:
    """Lemma 26: with every node zero at 0 the bias is `share` times one minus the activation; (10) and (11) follow.

    At optima, without weights too, and for any weights into nodes without bias that x does not turn off: there J_2 is a
    parabola in b, least at that bias. (10) is the output of a network where no node is off; at -x all are.
    """
    found = []
    for label, x, strength, best in [*decay_optima(), ("no weights", tensor(INPUT), 2.0, decay_optimum(2, 2.0))]:
        V, _, w, b = net = turned(best, x)
        found.append(compare(V @ x, ">=", 0.0, f"no node is off, {label}", 1e-6))
        found.append(compare(b, "==", share * (1 - w @ (V @ x)), f"bias, {label}", 1e-4))
        both = output(net, x) + output(net, torch.zeros_like(x))
        found.append(compare(both, "==", 1.0, f"outputs at 0 and x, {label}", 1e-4))
        for along in (0.3, 1.0, 2.5):
            linear = 0.5 + w @ (V @ (along * x - x / 2))
            found.append(compare(output(net, along * x), "==", linear, f"(10) at {along} x, {label}", 1e-4))
        found.append(compare(output(net, -x), "==", b, f"at -x, {label}", 1e-4))
        for seed in range(3):
            V, w = normal(seed, len(x), len(x)), normal(seed + 9, len(x))
            V = V * (V @ x).sign()[:, None]
            low, middle, high = (l2_criterion((V, 0 * w, w, tensor(b)), x, strength) for b in (-1.0, 0.0, 1.0))
            vertex = (low - high) / (2 * (low - 2 * middle + high))
            found.append(compare(vertex, "==", share * (1 - w @ (V @ x)), f"best bias of any weights, {label}", 1e-8))
            at = torch.linalg.solve(V, normal(seed + 5, len(x)).abs())  # turns no node off
            linear = 0.5 + w @ (V @ (at - x / 2))
            found.append(compare(output((V, 0 * w, w, vertex), at), "==", linear, f"(10), {label}", 1e-8))
    return found


def along_input(tilt: float) -> list[Comparison]:
    """Lemma 27: the weights into every node lie along x, or along x turned by `tilt`; unused nodes have none.

    For any weights their projections on x have the same outputs at 0 and x and fewer squares.
    """
    found = []
    for label, x, _, optimum in decay_optima():
        axis = x + tilt * x.roll(1)

        def projected(V: Tensor, axis: Tensor = axis) -> Tensor:
            return (V @ axis / (axis @ axis))[:, None] * axis

        found.append(compare(optimum[0], "==", projected(optimum[0]), f"v along x, {label}", 1e-4))
        V, a = normal(3, *optimum[0].shape), normal(4, len(optimum[1]))
        given, other = (V, a, *optimum[2:]), (projected(V), a, *optimum[2:])
        for at in (x, 0 * x):
            found.append(compare(output(other, at), "==", output(given, at), f"output of any weights, {label}"))
        found.append(compare(squares(other), "<", squares(given), f"their squares, {label}"))
    return found


def output_level(limit: float) -> list[Comparison]:
    """Lemma 28: the output at x is at most `limit`; it is 1 - lam/||x||, and 1/2 where the decay is too strong.

    Networks of the form (10) with more have less risk and fewer squares after their output weights are scaled down.
    """
    found = []
    strong = [
        ("no weights", tensor(INPUT), 2.0, decay_optimum(2, 2.0)),
        ("weak", tensor(INPUT), 0.02, decay_optimum(2, 0.02)),
    ]
    for label, x, strength, net in [*decay_optima(), *strong]:
        reached = output(net, x)
        found.append(compare(reached, "<=", limit, f"output at x, {label}", 1e-6))
        stated = max(0.5, 1 - strength / float(x.norm()))
        found.append(compare(reached, "==", stated, f"its value, {label}", 1e-4))
        V, w = normal(1, 3, len(x)).abs() * x.sign(), 2 / x.norm() * normal(2, 3).abs()
        w = w * max(1.0, 1.5 / float(w @ (V @ x)))  # an output of 1/2 + 3/4 or more at x
        criteria = []
        for size in (w, w / (w @ (V @ x))):
            linear: Net = (V, 0 * w, size, (1 - size @ (V @ x)) / 2)
            criteria.append((output(linear, x), l2_criterion(linear, x, 0.0), squares(linear)))
        found.append(compare(criteria[0][0], ">", 1.0, f"output above one, {label}"))
        for name, more, less in zip(("risk", "squares"), criteria[0][1:], criteria[1][1:], strict=True):
            found.append(compare(less, "<", more, f"{name} after scaling down, {label}"))
    return found


def largest_output(share: float) -> list[Comparison]:
    """Lemma 29: networks of the form (10) with the squared weights of the optimum have no larger output at x.

    Their output less 1/2 is half of the quadratic form w^T V x in all weights, whose largest eigenvalue tells the most
    that these squares allow.
    """
    found = []
    for label, x, _, optimum in decay_optima():
        net = turned(optimum, x)
        size, best, width = squares(net), output(net, x), len(net[2])
        across = torch.kron(torch.eye(width, dtype=torch.float64), x[None])
        form = torch.block_diag(
            torch.zeros(width * len(x), width * len(x)).double(), torch.zeros(width, width).double()
        )
        form[: width * len(x), width * len(x) :] = across.mT / 2
        form[width * len(x) :, : width * len(x)] = across / 2
        most = torch.linalg.eigvalsh(form)[-1] * size / 2
        found.append(compare(0.5 + share * most, "==", best, f"largest output at x, {label}", 1e-4))
        for seed in range(5):
            V, w = normal(seed, width, len(x)), normal(seed + 50, width)
            reached = 0.5 + size / (V.square().sum() + w.square().sum()) * (w @ (V @ x)) / 2
            found.append(compare(reached, "<=", best, f"any weights, {label}", 1e-4))
    return found


def contributions(scale: float, power: float) -> list[Comparison]:
    """Definitions 30 and 31: v_j = alpha_j x, node j is alpha_j x.x at x; what the nodes add to output and J_2.

    Node j adds w_j alpha_j x.x to the activation and lam/2 (w_j^2 + alpha_j^2 (x.x)^power) to the penalty: what both
    lose without it. alpha_j is `scale` times the length of v_j along x over that of x.
    """
    found = []
    for label, x, strength, optimum in decay_optima():
        net = turned(optimum, x)
        V, a, w, b = net
        energy = x @ x
        alphas = scale * V @ x / energy
        found.append(compare(torch.outer(alphas, x), "==", V, f"v_j = alpha_j x, {label}", 1e-4))
        found.append(compare(alphas * energy, "==", hidden(net, x), f"nodes at x, {label}", 1e-5))
        for j in range(len(w)):
            kept = (torch.arange(len(w)) != j).double()
            less: Net = (V * kept[:, None], a, w * kept, b)
            lost = output(net, x) - output(less, x)
            found.append(compare(w[j] * alphas[j] * energy, "==", lost, f"activation without node {j}, {label}", 1e-5))
            saved = strength / 2 * (squares(net) - squares(less))
            stated = strength / 2 * (w[j] ** 2 + alphas[j] ** 2 * energy**power)
            found.append(compare(stated, "==", saved, f"penalty without node {j}, {label}", 1e-4))
    return found


def node_budget(share: float) -> list[Comparison]:
    """Lemma 32: w h(x) under w^2 + alpha^2 x.x = B is at most share B ||x||/2, reached at w^2 = B/2 alone.

    Over the whole circle of w and alpha, whose node sends relu(alpha x.x); at optima every node is there.
    """
    found = []
    angles = torch.linspace(0, 2 * torch.pi, 4001, dtype=torch.float64)
    for B, x in ((0.3, tensor(INPUT)), (2.0, tensor(INPUT)), (1.0, tensor([0.8, 1.1])), (5.0, tensor([-0.1]))):
        norm, label = float(x.norm()), f"B = {B}, ||x||={float(x.norm()):.2f}"
        w, alpha = B**0.5 * angles.cos(), B**0.5 * angles.sin() / norm
        reached = w * torch.relu(alpha * norm**2)
        found.append(compare(reached, "<=", share * B * norm / 2, f"any split, {label}"))
        best = reached.argmax()
        for name, value, wanted in (("w", w[best], (B / 2) ** 0.5), ("alpha", alpha[best], (B / 2) ** 0.5 / norm)):
            found.append(compare(value, "==", wanted, f"{name} of the best split, {label}", 1e-9))
        others = reached[torch.arange(len(reached)) != best]
        found.append(compare(others, "<", share * B * norm / 2, f"any other split, {label}"))
        stated = (B / 2) ** 0.5 * (B / (2 * norm**2)) ** 0.5 * norm**2
        found.append(compare(stated, "==", share * B * norm / 2, f"the stated split, {label}"))
    for label, x, _, optimum in decay_optima():
        V, _, weights, _ = turned(optimum, x)
        stated = share * (weights.square() + V.square().sum(1)) * x.norm() / 2
        found.append(compare(weights * (V @ x), "==", stated, f"nodes of the optimum, {label}", 1e-4))
    return found


def budget(share: float) -> list[Comparison]:
    """Lemma 33: an activation A at x takes squared weights of at least 2A/||x||, which the optimum attains.

    Both are of second degree in the weights: descent of their quotient, at any width, ends at ||x||/2.
    """
    x = tensor(INPUT)
    norm, net = float(x.norm()), decay_optimum()
    activation = (net[2] * (hidden(net, x) - hidden(net, torch.zeros(3, dtype=torch.float64)))).sum()
    found = [compare(activation, "==", share * squares(net) * norm / 2, "attained by the optimum", 1e-4)]
    for seed in range(20):
        V, w = normal(seed, 2, 3), normal(seed + 50, 2)
        reached = (w * torch.relu(V @ x)).sum().abs()
        found.append(compare(reached, "<=", share * (V.square().sum() + w.square().sum()) * norm / 2, "any network"))

    def quotient(V: Tensor, w: Tensor) -> Tensor:
        return -(w * torch.relu(V @ x)).sum() / (V.square().sum() + w.square().sum())

    for width in (1, 3):
        best, _ = descend(quotient, [(width, 3), (width,)], starts=3)
        found.append(compare(-best, "==", share * norm / 2, f"largest activation per squared weight, width {width}"))
    for A in (0.2, 3.0, 0.0, -0.7):
        root = (abs(A) / norm) ** 0.5
        V, w = x[None] / norm * root, tensor([root if A > 0 else -root])
        found.append(compare((w * torch.relu(V @ x)).sum(), "==", A, f"activation of one node, A = {A}"))
        least = share * 2 * abs(A) / norm
        found.append(compare(V.square().sum() + w.square().sum(), "==", least, f"its squared weights, A = {A}"))
    return found


def aversion(measure: Callable[..., Tensor]) -> list[Comparison]:
    """Definition 2 where all minimizers of the criterion are known: their largest risk beyond the least risk.

    Minimizers on P_(1,1), one or two inputs, have slope s and offset b with J = (E (s z + b - 1)^2 + b^2) / 2 for z of
    mean 1 and square c = (1 + q/(pK))(1 + q/(pn)): s = 1/(2c-1), b = (c-1)/(2c-1), and risk b^2; 4/25 for c = 3. They
    are the best of all unit types. Labels of x and 0 that are `noise` and half of it off their means add 5/8 noise^2 to
    everything, the least risk too, which is 0 without. Another `measure` than the risk, the criterion, is J = b/2.
    """
    found = []
    for inputs, width, drop, noise in ((2, 1, 0.5, 0.0), (1, 2, 0.5, 0.0), (1, 1, 0.3, 0.0), (1, 1, 0.4, 0.6)):
        plain, odds = networks.two_points(torch.ones(inputs)), drop / (1 - drop)
        off, floor, label = noise * tensor([[1.0], [0.5]]), 0.625 * noise**2, f"K={inputs} n={width} q={drop}"
        data = Sample(plain.inputs.repeat(2, 1), torch.cat([plain.targets + off, plain.targets - off]))
        square = (1 + odds / inputs) * (1 + odds / width)
        offset = (square - 1) / (2 * square - 1)
        if inputs == 2:
            least, net = unit_types.global_minimum(width)
            nets = [net]
        else:
            least, nets = unit_types.one_input_minima(data, width, drop)
        found.append(compare(least, "==", offset / 2 + floor, f"least criterion, {label}"))
        found += [compare(exact(net, data, drop), "==", least, f"library, {label}") for net in nets]
        equal = [torch.full((width, inputs), 1 / inputs).double(), torch.full((1, width), 1 / width).double()]
        lowest = risk(ReLUNet(equal), data)
        found.append(compare(lowest, "==", floor, f"least risk, {label}"))
        risks = torch.stack([measure(net, data) for net in nets])
        found.append(compare(risks.max() - lowest, "==", offset**2, f"aversion, {label}"))
        known = networks.positive_network(inputs, width, drop)
        found.append(compare(exact(known, data, drop), "==", least, f"criterion of the known one, {label}"))
        found.append(compare(risk(known, data) - lowest, "==", offset**2, f"its aversion, {label}"))
    return found


def centering(moved: Callable[[Tensor], Tensor]) -> list[Comparison]:
    """Least J_D of two units on {(1, 1), (0, 0)} and on moved inputs: centered it falls from 1/5 to 3/16.

    The risk of the minimizers, the aversion, falls from 4/25 to 9/64. Minimizers by all types of units; descent from
    random starts ends nowhere below.
    """
    inputs, targets = tensor([[1.0], [0.0]]), tensor([[1.0], [0.0]])
    found = []
    for name, data, least, gap in (
        ("given", Sample(inputs, targets), 1 / 5, 4 / 25),
        ("moved", Sample(moved(inputs), targets), 3 / 16, 9 / 64),
    ):
        reached, nets = unit_types.one_input_minima(data, 2, 0.5)
        found.append(compare(reached, "==", least, f"least criterion, {name}"))
        for net in nets:
            found.append(compare(exact(net, data), "==", least, f"library, {name}"))
            found.append(compare(risk(net, data), "==", gap, f"risk, {name}"))
        ended, _ = descend(shallow_criterion(data), [(2, 1), (2,), (2,), (1,)], starts=2)
        found.append(compare(ended, ">=", least, f"descent, {name}"))
    return found


def moved_law(shear: float) -> list[Comparison]:
    """Definition 3: (Ax, y) for examples (x, y), and networks with W_1 A^-1 on it, dropout summed over all masks.

    Any invertible A keeps the risk; a diagonal one keeps the criterion too, one with `shear` off the diagonal not.
    On A o P_(1,1) descent finds no criterion of one unit below .2, that of the moved optimum of P_(1,1).
    """
    found = []
    for seed in (1, 2):
        model, sample = random_net(seed, (3, 2, 1)), Sample(normal(seed + 5, 4, 3), normal(seed + 6, 4, 1))
        A = torch.diag(tensor([1.5, -0.7, 1.2])) + shear * tensor([[0.0, 1, 0], [0, 0, -1], [1, 0, 0]])
        inputs = torch.stack([A @ x for x in sample.inputs])
        moved = ReLUNet([model.weights[0] @ torch.linalg.inv(A), *model.weights[1:]], model.biases)
        plain = [
            chance * (model.outputs(sample.inputs, kept / 0.7) - sample.targets).square().mean()
            for kept, chance in coin_masks([0.3] * model.units)
        ]
        there = Sample(inputs, sample.targets)
        plain_risk = (model.outputs(sample.inputs) - sample.targets).square().mean()
        found.append(compare(risk(moved, there), "==", plain_risk, "risk on A o P"))
        found.append(compare(exact(moved, there, 0.3), "==", torch.stack(plain).sum(), "criterion on A o P"))
    A, best = tensor([1.5, -0.7]), networks.positive_network(2, 1)
    least, _ = descend(shallow_criterion(networks.two_points(A)), [(1, 2), (1,), (1,), (1,)], starts=12, seed=1)
    found.append(compare(least, ">=", 0.2, "least criterion on A o P_(1,1)"))
    optimum = ReLUNet([best.weights[0] / A, *best.weights[1:]], best.biases)
    found.append(compare(exact(optimum, networks.two_points(A)), "==", 0.2, "criterion of the moved optimum"))
    return found


def witness(factor: float) -> list[Comparison]:
    """Theorem 7: the risk of weight-decay optima is factor min(1/4, lam^2/x.x), at any width, strength and scale of x.

    The least risk is zero, so this is the aversion. Networks that share the activation among their nodes otherwise have
    the same J_2 and the same risk: it is the largest of the minimizers, too.
    """
    found = []
    for width, strength, scale in ((1, STRENGTH, 1.0), (2, STRENGTH, 1.0), (2, STRENGTH, 2.0), (2, 2.0, 1.0)):
        x, (V, a, w, b) = scale * tensor(INPUT), decay_optimum(width, strength, scale)
        reached = risk(ReLUNet([V, w[None]], [a, b.reshape(1)]), networks.two_points(x))
        stated = factor * min(0.25, strength**2 / float(x @ x))
        found.append(compare(reached, "==", stated, f"width {width}, lam {strength}, {scale} x", precision=1e-5))
    x = tensor(INPUT)
    for strength, shares in (
        (STRENGTH, (1.0, 0.0)),
        (STRENGTH, (0.3, 0.7)),
        (STRENGTH, (0.5, -0.5)),
        (0.1, (0.8, -0.2)),
    ):
        split, least = tensor(shares), l2_criterion(decay_optimum(2, strength), x, strength)
        w = (split.abs() * (1 - 2 * strength / x.norm()) / x.norm()).sqrt()
        # a node of negative share falls from its value at 0 to zero at x, with a negative output weight
        V, w, fall = split.sign()[:, None] * w[:, None] * x / x.norm(), split.sign() * w, (split < 0) * w * x.norm()
        b = strength / x.norm() - w @ fall
        found.append(compare(l2_criterion((V, fall, w, b), x, strength), "==", least, f"J_2 of shares {shares}", 1e-6))
        reached = risk(ReLUNet([V, w[None]], [fall, b.reshape(1)]), networks.two_points(x))
        found.append(compare(reached, "==", factor * strength**2 / (x @ x), f"its risk, shares {shares}"))
    fits = ReLUNet([x[None], tensor([[1.0]]) / (x @ x)])
    return [*found, compare(risk(fits, networks.two_points(x)), "==", 0.0, "least risk")]
