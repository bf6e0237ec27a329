"""Independent answers: every mask written out in extended precision, least squares by orthogonalization, searches.

Nothing of the library is used. `numpy.longdouble` has at least eleven bits more than a float64 on x86 and sixty more on
ARM; what it cannot decide is no disagreement.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzzing.instances import Instance, Law

Array = NDArray[Any]


def outputs(instance: Instance, multipliers: Array, absolute: bool = False) -> Array:
    """Outputs (masks, examples, outputs) of the model under every mask; with `absolute`, as if nothing cancelled."""
    change = np.abs if absolute else (lambda value: value)
    w = [change(value.astype(np.longdouble)) for value in instance.parameters]
    z = change(multipliers)[:, None, :]
    match instance.family:
        case "Factorization":
            rows, columns = np.divmod(np.arange(len(instance.numbers["targets"])) % (len(w[0]) * len(w[1])), len(w[1]))
            return ((w[0][rows] * w[1][columns]) * z).sum(-1, keepdims=True)
    x = change(instance.exact("inputs"))
    match instance.family:
        case "TwoLayerLinear":
            return ((x @ w[1]) * z) @ w[0].T
        case "Autoencoder":
            return ((x @ w[0]) * z) @ w[0].T
        case "Connections":
            masked = w[1] * z.reshape(len(z), *w[1].shape)
            return (x @ masked) @ w[0].T
        case "DeepLinear":
            first, second = np.split(z, [len(w[0])], axis=-1)
            return ((((x @ w[0].T) * first) @ w[1].T) * second) @ w[2].T
        case "ReLUNet":
            first, second = np.split(z, [x.shape[1]], axis=-1)
            return (np.maximum((x * first) @ w[0].T + w[1], 0) * second) @ w[2].T + w[3]
    raise ValueError(instance.family)


def atoms(laws: tuple[Law, ...]) -> tuple[Array, Array]:
    """All combinations of the masks of independent laws."""
    masks, chances = np.ones((1, 0), np.longdouble), np.ones(1, np.longdouble)
    for law in laws:
        more, their = law.atoms()
        masks = np.concatenate([np.repeat(masks, len(more), 0), np.tile(more, (len(masks), 1))], 1)
        chances = np.outer(chances, their).reshape(-1)
    return masks, chances


def penalty(instance: Instance) -> tuple[float, float]:
    """E loss(z) - loss(1) without a difference of large numbers, and what it would be if nothing cancelled."""
    masks, chances = atoms(instance.laws)
    ones = np.ones((1, masks.shape[1]), np.longdouble)
    shares, wrong = instance.shares, outputs(instance, ones)[0] - instance.exact("targets")
    moved = outputs(instance, masks) - outputs(instance, ones)
    weights = chances[:, None] * shares
    value = (weights * (np.square(moved).sum(-1) + 2 * (wrong * moved).sum(-1))).sum()
    if instance.family != "ReLUNet":  # the mean of the outputs does not move
        value = (weights * np.square(moved).sum(-1)).sum()
    spread = np.abs(masks - 1)
    changes = outputs(instance, spread, True)
    if instance.family in ("DeepLinear", "ReLUNet"):
        # products of layers change by products of some z - 1 with ones of the other layers, all of them counted
        inside = outputs(instance, ones, True)
        changes = outputs(instance, 1 + spread, True) - inside
    size = (weights * np.square(changes).sum(-1)).sum()
    if instance.family == "ReLUNet":
        size = size + 2 * (weights * (np.abs(wrong) * (outputs(instance, masks, True) + inside)).sum(-1)).sum()
    return float(value), float(size)


def criterion(instance: Instance) -> tuple[float, float]:
    """E loss(z), and what it would be if nothing cancelled."""
    masks, chances = atoms(instance.laws)
    weights, y = chances[:, None] * instance.shares, instance.exact("targets")
    value = (weights * np.square(outputs(instance, masks) - y).sum(-1)).sum()
    size = (weights * np.square(outputs(instance, masks, True) + np.abs(y)).sum(-1)).sum()
    return float(value), float(size)


def orthonormal(columns: Array) -> Array:
    """A basis of the span: Gram-Schmidt with pivots on columns of unit norm, each direction cleaned twice.

    A column that is a combination of the others up to the rounding of its float64 entries counts as one: no float64
    arithmetic can tell.
    """
    norms = np.sqrt(np.square(columns).sum(0))
    left = columns[:, norms > 0] / norms[norms > 0]
    basis: list[Array] = []
    level = 16 * len(columns) * np.finfo(np.float64).eps
    while left.shape[1]:
        sizes = np.sqrt(np.square(left).sum(0))
        best = int(sizes.argmax())
        if sizes[best] <= level:
            break
        direction = left[:, best] / sizes[best]
        for known in basis:
            direction = direction - known * (known @ direction)
        direction = direction / np.sqrt(direction @ direction)
        basis.append(direction)
        left = np.delete(left, best, 1)
        left = left - np.outer(direction, direction @ left)
    return np.array(basis).T if basis else np.zeros((len(columns), 0), np.longdouble)


def white(instance: Instance) -> tuple[Array, float, float]:
    """The target T in white coordinates (outputs x rank), the risk that no map removes, the energy of the targets."""
    root = np.sqrt(instance.shares)[:, None]
    y = root * instance.exact("targets")
    basis = orthonormal(root * instance.exact("inputs"))
    target = y.T @ basis
    return target, float(np.square(y - basis @ target.T).sum()), float(np.square(y).sum())


def least_spectrum(values: Array, strengths: Array, width: int) -> float:
    """min over x of sum (s - x)^2 plus the least penalty of x for units of these strengths, by trying every support."""
    s = np.sort(np.maximum(values, 0))[::-1][: max(width, 0)].astype(np.longdouble)
    rest = np.square(np.asarray(values, np.longdouble)).sum() - np.square(s).sum()
    s = np.concatenate([s, np.zeros(width - len(s), np.longdouble)])
    rates = np.sort(strengths)
    free = int((rates == 0).sum())
    best = np.square(s[free:]).sum()
    for cuts in range(2 ** max(width - free - 1, 0)):
        edges = [free, *(free + 1 + i for i in range(width - free - 1) if cuts >> i & 1), width]
        value, x, n = np.longdouble(0), s.copy(), s.copy()
        for begin, end in pairwise(edges):
            if begin == end:
                continue
            block, capacity = s[begin:end], (1 / rates[begin:end]).sum()
            levels = [block[:m].sum() / (m + capacity) for m in range(1, len(block) + 1)]
            kept = [m for m, level in enumerate(levels, 1) if block[m - 1] > level]
            level = levels[max(kept) - 1] if kept else np.longdouble(0)
            x[begin:end], n[begin:end] = np.maximum(block - level, 0), level / rates[begin:end]
            value += np.square(block - x[begin:end]).sum() + (rates[begin:end] * np.square(n[begin:end])).sum()
        # factors with shares n exist iff the k smallest shares sum to at least the k smallest values
        if (np.cumsum(np.sort(n)) >= np.cumsum(np.sort(x)) - 1e-15 * s.max()).all():
            best = min(best, value)
    return float(best + rest)


def least_penalty(values: Array, strengths: Array) -> float:
    """The least penalty of a map with these singular values, by trying every way to pool the units."""
    width = len(strengths)
    s = np.sort(values)[::-1][:width].astype(np.longdouble)
    s = np.concatenate([s, np.zeros(width - len(s), np.longdouble)])
    rates = np.sort(strengths)
    free = int((rates == 0).sum())
    best = np.longdouble(np.inf) if width > free else np.longdouble(0)
    for cuts in range(2 ** max(width - free - 1, 0)):
        edges = [free, *(free + 1 + i for i in range(width - free - 1) if cuts >> i & 1), width]
        n = s.copy()
        for begin, end in pairwise(edges):
            n[begin:end] = s[begin:end].sum() / (1 / rates[begin:end]).sum() / rates[begin:end]
        if (np.cumsum(np.sort(n)) >= np.cumsum(np.sort(s)) * (1 - 1e-15)).all():
            best = min(best, (rates * np.square(n)).sum())
    return float(best)


def squared_k_support(values: Array, k: int) -> float:
    """The least of sum a^2 / t over 0 < t <= 1 that sum to k: the largest m have t = 1, the others t in proportion."""
    a = np.sort(np.abs(values))[::-1].astype(np.longdouble)
    if len(a) <= k:
        return float(np.square(a).sum())
    found = []
    for full in range(k):
        tail = a[full:].sum()
        if a[full] * (k - full) <= tail * (1 + 1e-15):
            found.append(np.square(a[:full]).sum() + np.square(tail) / (k - full))
    return float(min(found))


def searched(target: Array, masks: Array, chances: Array, random: np.random.Generator) -> float:
    """The least ||T - U H^T||^2 + sum_m p_m ||U diag(z_m - 1) H^T||^2 met by solving for U and H in turn.

    The normal equations of a solve may be near singular and U and H large: where the search ends is not exact, but the
    value is that of a network, for sums of squares in extended precision lose nothing to U and H that cancel.
    """
    spread = masks - 1
    second, width = 1 + ((spread * chances[:, None]).T @ spread).astype(np.float64), masks.shape[1]
    if not target.size or not target.any():
        return float(np.square(target).sum())
    size = np.abs(target).max()
    exact = target / size
    T = exact.astype(np.float64)
    best = np.square(exact).sum()
    _, values, right = np.linalg.svd(T, full_matrices=False)
    top = np.zeros((T.shape[1], width))
    count = min(width, len(values))
    top[:, :count] = (right[:count].T) * np.sqrt(values[:count])
    for start in range(3):
        H = top.copy() if start == 0 else random.normal(size=(T.shape[1], width))
        for _ in range(12):
            U = _solved((H.T @ H) * second, (T @ H).T).T
            H = _solved((U.T @ U) * second, (T.T @ U).T).T
        left, outer = U.astype(np.longdouble), H.astype(np.longdouble).T
        value = _squares(exact, left, outer)
        for chance, mask in zip(chances, spread, strict=True):
            value += chance * _squares(np.zeros_like(exact), left * mask, outer)
        best = min(best, value)
    return float(best * size**2)


def _squares(target: Array, *factors: Array) -> Any:
    """At least ||target - product||^2: every entry is raised by what rounding of its sums may have taken off."""
    product, absolute = factors[0], np.abs(factors[0])
    for factor in factors[1:]:
        product, absolute = product @ factor, absolute @ np.abs(factor)
    # one rounding per term, and two of each number that is itself a quotient or a root
    level = (8 + sum(len(factor) for factor in factors[1:])) * np.finfo(np.longdouble).eps
    return np.square(np.abs(target - product) + level * (np.abs(target) + absolute)).sum()


def searched_connections(instance: Instance, random: np.random.Generator) -> float:
    """The least criterion of DropConnect met by solving for U and V in turn, features scaled to unit power."""
    root = np.sqrt(instance.shares)[:, None]
    rows, y = root * instance.exact("inputs"), root * instance.exact("targets")
    sizes = np.sqrt(np.square(rows).sum(0))
    rows = rows[:, sizes > 0] / sizes[sizes > 0]
    energy, width = float(np.square(y).sum()), instance.numbers["U"].shape[1]
    if not rows.size or energy == 0:
        return energy
    y = y / np.sqrt(np.square(y).sum())
    strength, x = float(instance.laws[0].strengths[0]), rows.astype(np.float64)
    xx, yx, features = x.T @ x, y.T.astype(np.float64) @ x, x.shape[1]
    best = 1.0
    for _ in range(2):
        V = random.normal(size=(features, width))
        for _ in range(10):
            hidden = V.T @ xx @ V + strength * np.diag(np.square(V).sum(0))
            U = _solved(hidden, (yx @ V).T).T
            gram = U.T @ U
            normal = np.kron(xx, gram) + strength * np.kron(np.eye(features), np.diag(np.diag(gram)))
            V = _solved(normal, (yx.T @ U).reshape(-1)).reshape(features, width)
        # the value of this very network: sums of squares in extended precision, as in `searched`
        left, hidden = V.astype(np.longdouble), U.astype(np.longdouble).T
        noise = instance.laws[0].strengths[0] * (np.square(hidden).sum(1) * np.square(left).sum(0)).sum()
        best = min(best, _squares(y, rows, left, hidden) + noise)
    return float(best * energy)


def _solved(normal: Array, right: Array) -> Array:
    normal = normal + 1e-13 * (np.trace(normal) / len(normal) + 1e-300) * np.eye(len(normal))
    return np.linalg.solve(normal, right)


def deep_gain(values: Array, strengths: list[float], width: int) -> float:
    """A gain that a network with hidden layers reaches: water poured into every set of leading directions in turn."""
    s = np.sort(values)[::-1][:width].astype(np.float64)
    best = 0.0
    for count in range(1, len(s) + 1):
        shares = np.full((len(strengths), count), 1.0 / count)
        for _ in range(30):
            for i, a in enumerate(strengths):
                others = [shares[j] / (shares[j] + b) for j, b in enumerate(strengths) if j != i]
                shares[i] = _poured(np.square(s[:count]) * np.prod(others, axis=0), a)
        gains = np.square(s[:count])
        for i, a in enumerate(strengths):
            gains = gains * shares[i] / (shares[i] + a) if a > 0 else gains
        best = max(best, float(np.nan_to_num(gains).sum()))
    return best


def _poured(gains: Array, strength: float) -> Array:
    """The point of the simplex with the largest sum of gains x / (x + strength)."""
    if strength == 0 or not (gains > 0).any():
        return np.full(len(gains), 1.0 / len(gains))
    roots = np.sqrt(np.maximum(gains, 0))
    order = np.argsort(-roots)
    for count in range(len(gains), 0, -1):
        kept = order[:count]
        x = roots[kept] * (1 + count * strength) / roots[kept].sum() - strength
        if x.min() >= 0:
            shares = np.zeros(len(gains))
            shares[kept] = x
            return shares
    return np.full(len(gains), 1.0 / len(gains))


def regression(x: Array, y: Array, shares: Array, law: Law, bias: bool) -> float:
    """The least mean squared error of a linear map of masked inputs: least squares over all masks and examples."""
    masks, chances = law.atoms()
    root = np.sqrt(np.outer(chances, shares)).reshape(-1, 1)
    rows = (masks[:, None, :] * x).reshape(-1, x.shape[1])
    columns = np.concatenate([rows, np.ones((len(rows), 1), np.longdouble)], 1) if bias else rows
    targets = root * np.tile(y, (len(masks), 1))
    basis = orthonormal(root * columns)
    return float(np.square(targets - basis @ (basis.T @ targets)).sum())
