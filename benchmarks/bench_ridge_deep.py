"""Ridge and deep linear networks: leave-one-out, induced penalty, optimum, derivatives, against doing it by hand."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from sklearn.linear_model import RidgeCV

from droptics.data import Moments
from droptics.envelopes.deep_linear import induced_spectrum
from droptics.heads.ridge import DropoutRidgeCV
from droptics.landscapes import gradient, hessian
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear
from droptics.optima import optimum
from droptics.penalties import criterion, penalty
from harness import Row, compare, report


def leave_one_out(examples: int, features: int, rates: int, repeats: int = 3) -> list[Row]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(examples, features)) @ rng.normal(size=(features, features))
    y = X @ rng.normal(size=features) + 20 * rng.normal(size=examples)
    drops = np.linspace(0.05, 0.95, rates)

    def ours() -> np.ndarray:
        return DropoutRidgeCV(drops).fit(X, y).loo_errors_

    def refits() -> np.ndarray:
        """One linear system per example and rate, from a Gram matrix that is only updated."""
        mean_x, mean_y, n = X.mean(0), y.mean(), examples
        gram, cross = X.T @ X, X.T @ y
        errors = np.zeros(rates)
        for i in range(n):
            mx, my = (n * mean_x - X[i]) / (n - 1), (n * mean_y - y[i]) / (n - 1)
            left = gram - np.outer(X[i], X[i])
            centered = left - (n - 1) * np.outer(mx, mx)
            right = cross - X[i] * y[i] - (n - 1) * mx * my
            for j, drop in enumerate(drops):
                w = np.linalg.solve(centered + np.diag(drop / (1 - drop) * np.diag(left)), right)
                errors[j] += (y[i] - my - w @ (X[i] - mx)) ** 2
        return errors / n

    def ordinary() -> object:
        return RidgeCV(alphas=examples * drops / (1 - drops)).fit(X, y)

    error = np.abs(ours() / refits() - 1).max()
    first = compare(ours, refits, repeats=repeats)
    second = compare(ours, ordinary, repeats=5)
    size = f"{examples} x {features}, {rates} rates"
    return [
        Row(f"leave-one-out, {size}", *first, f"relative error {error:.1e}", "against one solve per example and rate"),
        Row(f"leave-one-out, {size}", *second, "another estimator", "RidgeCV of scikit-learn, penalty held fixed"),
    ]


def induced_penalty() -> Row:
    values = torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64)
    masks = Product([Bernoulli(0.4, 3), Bernoulli(0.4, 3)])
    strengths = torch.full((2,), 0.4 / 0.6 / 3, dtype=torch.float64)
    data = Moments.of_map(torch.diag(values))

    def ours() -> float:
        return float(induced_spectrum(values, strengths))

    def descent(starts: int = 5) -> float:
        """Minimize the penalty over all networks with this product, the last layer eliminated."""
        best = np.inf
        for seed in range(starts):

            def value(vector: np.ndarray) -> tuple[float, np.ndarray]:
                flat = torch.from_numpy(vector).requires_grad_(True)
                first, second = flat.reshape(2, 3, 3)
                last = torch.diag(values) @ torch.linalg.inv(second @ first)
                result = penalty(DeepLinear([first, second, last]), data, masks).value
                return float(result.detach()), torch.autograd.grad(result, flat)[0].numpy()

            start = np.random.default_rng(seed).normal(size=18)
            options = {"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-9}
            best = min(best, minimize(value, start, jac=True, method="L-BFGS-B", options=options).fun)
        return best

    agreement = f"descent ends {descent() / ours() - 1:.1e} above"
    return Row("induced penalty, k = 2, rank 3", *compare(ours, descent, repeats=3), agreement, "5 starts")


def deep_problem() -> tuple[Moments, Product, list[int]]:
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(20, 15, dtype=torch.float64, generator=generator) for _ in range(2))
    masks = Product([Bernoulli(0.3, 20)] * 3)
    return Moments.of_map(left @ right.mT), masks, [20, 20, 20, 20, 20]


def deep_optimum(starts: int = 3) -> Row:
    data, masks, sizes = deep_problem()
    shapes = list(zip(sizes[1:], sizes[:-1], strict=True))

    def ours() -> float:
        return optimum(DeepLinear, data, masks).objective

    def value(vector: np.ndarray) -> tuple[float, np.ndarray]:
        point = DeepLinear([part.reshape(shapes[0]) for part in torch.from_numpy(vector).split(400)])
        slope = torch.cat([part.flatten() for part in gradient(point, data, masks)])
        return float(criterion(point, data, masks)), slope.numpy()

    def descent() -> float:
        ends = []
        for seed in range(starts):
            start = 0.4 * np.random.default_rng(seed).normal(size=1600)
            options = {"maxiter": 2000, "maxcor": 30, "ftol": 1e-13, "gtol": 1e-8}
            ends.append(minimize(value, start, jac=True, method="L-BFGS-B", options=options).fun)
        return min(ends)

    best = optimum(DeepLinear, data, masks)
    agreement = f"descent ends {descent() / best.objective - 1:.1e} above; certified gap {best.gap / best.scale:.0e}"
    return Row("deep optimum, (20,20,20), rank 15", *compare(ours, descent, repeats=1), agreement, f"{starts} starts")


def derivatives() -> list[Row]:
    data, masks, _ = deep_problem()
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(20, 20, dtype=torch.float64, generator=generator) / 5 for _ in range(4)]
    model = DeepLinear(weights)

    def by_autograd() -> tuple[torch.Tensor, ...]:
        layers = [weight.clone().requires_grad_(True) for weight in weights]
        return torch.autograd.grad(criterion(DeepLinear(layers), data, masks).value, layers)

    error = max(
        float((a - b).abs().max() / b.abs().max())
        for a, b in zip(gradient(model, data, masks), by_autograd(), strict=True)
    )
    times = compare(lambda: gradient(model, data, masks), by_autograd, repeats=7, number=20)
    rows = [Row("gradient, (20,20,20)", *times, f"relative error {error:.0e}", "autograd through the criterion")]
    small = Moments.of_map(torch.diag(torch.arange(1.0, 7.0, dtype=torch.float64)))
    laws = Product([Bernoulli(0.3, 6), Bernoulli(0.3, 6)])
    layers = tuple(torch.randn(6, 6, dtype=torch.float64, generator=generator) for _ in range(3))

    def full() -> object:
        return torch.autograd.functional.hessian(lambda *w: criterion(DeepLinear(w), small, laws).value, layers)

    times = compare(lambda: hessian(DeepLinear(layers), small, laws), full, repeats=3)
    return [*rows, Row("Hessian, (6,6), 108 weights", *times, "see tests", "torch.autograd.functional.hessian")]


if __name__ == "__main__":
    torch.set_num_threads(1)
    report(
        "ridge_deep",
        [
            *leave_one_out(500, 50, 19),
            *leave_one_out(400, 150, 5, 1)[:1],
            induced_penalty(),
            deep_optimum(),
            *derivatives(),
        ],
    )
