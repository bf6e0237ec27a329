"""How fast the optima and equalizers are against what one would use instead.

Every row is measured in this run: closed form against a conic solver, L-BFGS and dropout SGD; the rotation chain
against the published equalizer (one eigendecomposition per column) and against SVD + Hadamard; a 5000 x 5000 map
against a randomized, a truncated and a full SVD. `--quick` leaves out the rows that take minutes. Parts can be run one
by one by name; their rows then replace those of the same name in the recorded table.
"""

from __future__ import annotations

from harness import Row, compare, in_turn, merge, several  # first: it sets threads before NumPy loads

# isort: split
import contextlib
import sys
import time
import warnings
from functools import partial

import cvxpy
import numpy as np
import torch
from scipy.linalg import hadamard, qr
from scipy.optimize import minimize
from scipy.sparse.linalg import svds
from sklearn.utils.extmath import randomized_svd

from droptics.data import Moments, Sample
from droptics.linalg import equalize_columns, equalize_columns_
from droptics.linalg.leading import leading_eigen
from droptics.linalg.shrinkage import threshold
from droptics.masks import Bernoulli, Gaussian
from droptics.models import TwoLayerLinear
from droptics.optima import optimum, optimum_of_map, optimum_of_maps

torch.set_num_threads(1)
LAMBDA = 0.5


def decaying_map(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """M = Q1 diag(exp(-i / (n / 8))) Q2^T with random orthogonal factors, and its singular values."""
    rng = np.random.default_rng(0)
    size = min(rows, columns)
    left, right = (np.linalg.qr(rng.normal(size=(n, size)))[0] for n in (rows, columns))
    values = np.exp(-np.arange(size) / (size / 8))
    return (left * values) @ right.T, values


def least(values: np.ndarray, width: int) -> float:
    """The optimal value from the known spectrum."""
    rank, level = threshold(values, LAMBDA, width)
    kept = values[:rank] - level
    return float(((values[:rank] - kept) ** 2).sum() + (values[rank:] ** 2).sum() + LAMBDA / width * kept.sum() ** 2)


def conic(M: np.ndarray, width: int, **options: float) -> float:
    A = cvxpy.Variable(M.shape)
    loss = cvxpy.sum_squares(M - A) + LAMBDA / width * cvxpy.square(cvxpy.normNuc(A))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(cvxpy.Problem(cvxpy.Minimize(loss)).solve(solver=cvxpy.SCS, **options))


def lbfgs(M: np.ndarray, width: int, stop: float) -> float:
    """Exact gradient from a 0.1 N / sqrt(width) start, stopped at the wanted value."""
    rows, columns = M.shape
    start = 0.1 * np.random.default_rng(1).normal(size=(rows + columns) * width) / np.sqrt(width)

    class Reached(Exception):
        pass

    best = [np.inf]

    def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        U, V = x[: rows * width].reshape(rows, width), x[rows * width :].reshape(columns, width)
        error = U @ V.T - M
        out, into = (U**2).sum(0), (V**2).sum(0)
        value = (error**2).sum() + LAMBDA * (out * into).sum()
        best[0] = min(best[0], value)
        if value <= stop:
            raise Reached
        gradient = [2 * error @ V + 2 * LAMBDA * U * into, 2 * error.T @ U + 2 * LAMBDA * V * out]
        return value, np.concatenate([part.ravel() for part in gradient])

    with contextlib.suppress(Reached):
        minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options={"maxiter": 20000, "maxfun": 40000})
    return best[0]


def dropout_sgd(M: np.ndarray, width: int, stop: float, limit: float) -> tuple[float, float]:
    """Seconds and value of the published dropout SGD (one example a step, decaying step) to the wanted value."""
    rng = np.random.default_rng(2)
    rows, columns = M.shape
    keep = 1 / (1 + LAMBDA)
    U, V = 0.1 * rng.normal(size=(rows, width)), 0.1 * rng.normal(size=(columns, width))
    start, value, step = time.process_time(), np.inf, 0
    while True:
        rate = 0.01 / (1 + step / 20000)
        for _ in range(1000):
            x = rng.normal(size=columns)
            mask = (rng.random(width) < keep) / keep
            hidden = (x @ V) * mask
            error = U @ hidden - M @ x
            back = (error @ U) * mask
            U -= rate * np.outer(error, hidden)
            V -= rate * np.outer(x, back)
        step += 1000
        spent = time.process_time() - start
        value = float(((U @ V.T - M) ** 2).sum() + LAMBDA * ((U**2).sum(0) * (V**2).sum(0)).sum())
        if value <= stop or spent > limit:
            return spent, value


def closed_form_rows(quick: bool, size: tuple[int, int], width: int) -> list[Row]:
    rows = []
    M, values = decaying_map(*size)
    data, masks = Moments.of_map(torch.from_numpy(M)), Bernoulli(LAMBDA / (1 + LAMBDA), width)
    truth = least(values, width)
    small = size[0] == 120

    calls = 10 if small else 1  # short calls are timed together

    def ours() -> float:
        return max(optimum_of_map(M, masks).objective for _ in range(calls))

    def general() -> float:
        return max(optimum(TwoLayerLinear, data, masks).objective for _ in range(calls))

    gap = max(abs(ours() / truth - 1), abs(general() / truth - 1))
    label = f"optimum {size[0]}x{size[1]} width {width}"
    if small or not quick:
        solved: list[float] = []
        first, second, ratio = compare(ours, lambda: solved.append(conic(M, width)), 5 if small else 1)
        note = f"ours gap {gap:.0e}, solver gap {abs(solved[0] / truth - 1):.0e}"
        parts = least_parts([M] * calls, width) / first
        said = f"eigenvectors, products and criterion take {parts:.0%} of the time"
        rows.append(Row(f"{label} / conic solver (SCS)", first / calls, second, calls * ratio, note, said))
        slower = compare(general, lambda: None, 5)[0] / calls
        rows.append(Row(f"{label} from moments / conic solver (SCS)", slower, second, second / slower, note))
    stop = truth * (1 + 1e-8)
    first, second, ratio = compare(ours, lambda: lbfgs(M, width, stop), 7 if small else 3)
    rows.append(Row(f"{label} / L-BFGS to 1e-8", first / calls, second, calls * ratio, f"ours gap {gap:.0e}"))
    if small and not quick:
        spent, value = dropout_sgd(M, width, truth * (1 + 1e-3), 90.0)
        once = first / calls
        note = f"SGD gap {value / truth - 1:.1e}"
        rows.append(Row(f"{label} / dropout SGD to 1e-3", once, spent, spent / once, note))
    return rows


def least_parts(maps: list[np.ndarray], width: int) -> float:
    """Seconds of what no optimum of these maps does without: eigenvectors, products, the criterion of its factors."""
    grams = [M.T @ M for M in maps]
    vectors = [leading_eigen(gram, width)[1] for gram in grams]
    factors = [(M @ v, v) for M, v in zip(maps, vectors, strict=True)]

    def eigenvectors() -> None:
        for gram in grams:
            leading_eigen(gram, width)

    def products() -> None:
        for M, v in zip(maps, vectors, strict=True):
            _, _ = M.T @ M, M @ v

    def criterion() -> None:
        for M, (U, V) in zip(maps, factors, strict=True):
            pairs = (U.T @ U) * (V.T @ V)
            _ = pairs.sum() + LAMBDA * pairs.trace() - 2 * (U * (M @ V)).sum()

    return sum(compare(part, lambda: None, 7)[0] for part in (eigenvectors, products, criterion))


def many_rows(quick: bool, count: int = 1000) -> list[Row]:
    """Many small maps in one call against one call for each, beside the parts that none of them does without."""
    rng = np.random.default_rng(0)
    values, width = decaying_map(120, 80)[1], 20
    turns = [
        [np.linalg.qr(rng.normal(size=(n, 80)))[0] for n in (120, 80)] for _ in range(count // (10 if quick else 1))
    ]
    maps = [(left * values) @ right.T for left, right in turns]
    masks, together = Bernoulli(LAMBDA / (1 + LAMBDA), width), torch.from_numpy(np.stack(maps))
    found = optimum_of_maps(together, masks)
    gap = max(abs(best.objective / least(values, width) - 1) for best in found)
    floor = least_parts(maps, width)
    first, second, ratio = compare(
        lambda: optimum_of_maps(together, masks), lambda: [optimum_of_map(M, masks) for M in maps], 5
    )
    note = f"eigenvectors, products and criterion take {floor / first:.0%} of the time"
    label = f"{len(maps):,} optima 120x80 width 20 in one call / one by one"
    return [Row(label, first, second, ratio, f"ours gap {gap:.0e}", note, floor)]


def tall_rows(quick: bool) -> list[Row]:
    """Many examples of few inputs cost what their second moments cost: at most three times a map of that size."""
    generator = torch.Generator().manual_seed(0)
    inputs, targets = (torch.randn(20_000, 50, generator=generator, dtype=torch.float64) for _ in range(2))
    data, masks = Sample(inputs, targets), Bernoulli(LAMBDA / (1 + LAMBDA), 20)
    first, second, ratio = compare(
        lambda: optimum(TwoLayerLinear, data, masks), lambda: optimum_of_map(inputs, masks), 3 if quick else 7
    )
    note = f"gap {optimum(TwoLayerLinear, data, masks).gap:.0e}"
    return [Row("optimum of a sample of 20000 x 50 / optimum of a map of 20000 x 50", first, second, ratio, note)]


def tight_rows(quick: bool) -> list[Row]:
    """The conic solver to seven digits instead of its default."""
    if quick:
        return []
    (M, values), width = decaying_map(120, 80), 20
    masks, truth = Bernoulli(LAMBDA / (1 + LAMBDA), width), least(values, width)
    solved: list[float] = []
    ours, theirs = several(lambda: optimum_of_map(M, masks), 10), lambda: solved.append(conic(M, width, eps=1e-7))
    first, second, ratio = compare(ours, theirs, 3)
    gaps = [abs(value / truth - 1) for value in (optimum_of_map(M, masks).objective, solved[0])]
    gap = f"ours gap {gaps[0]:.0e}, solver gap {gaps[1]:.0e}"
    return [Row("optimum 120x80 width 20 / conic solver (SCS, 1e-7)", first / 10, second, 10 * ratio, gap)]


def published_equalizer(U: np.ndarray) -> np.ndarray:
    """The published algorithm: for every column one eigendecomposition and one completion to a basis."""
    width = U.shape[1]
    rotation, gram = np.eye(width), U.T @ U
    for i in range(width - 1):
        block = gram[i:, i:]
        vectors = np.linalg.eigh(block)[1]
        w = vectors.sum(1) / np.sqrt(width - i)
        basis = qr(w[:, None], mode="full")[0]
        step = np.eye(width)
        step[i:, i:] = basis
        rotation = rotation @ step
        gram = step.T @ gram @ step
    return U @ rotation


def svd_hadamard(U: np.ndarray) -> np.ndarray:
    """SVD and a Hadamard matrix: powers of two only."""
    outer = np.linalg.svd(U)[2]
    return U @ outer.T @ hadamard(U.shape[1]) / np.sqrt(U.shape[1])


def equalizer_rows(quick: bool, width: int) -> list[Row]:
    rows = []
    rng = np.random.default_rng(0)
    values = np.sqrt(10 * np.exp(-4 * np.arange(width) / width))
    left, right = (np.linalg.qr(rng.normal(size=(width, width)))[0] for _ in range(2))
    U = (left * values) @ right.T
    tensor = torch.from_numpy(U)
    equal = equalize_columns(tensor)[0]
    norms = equal.square().sum(0)
    error = f"error {float((norms / norms.mean() - 1).abs().max()):.0e}"
    kept = float((equal @ equal.mT - tensor @ tensor.mT).abs().max())
    agreement = f"{error}, UU^T kept to {kept:.0e}"

    stored = tensor.mT.contiguous().mT  # by columns
    work = stored.clone()
    calls = 100 if width == 128 else 10
    ours = several(lambda: equalize_columns_(work.copy_(stored)), calls)

    if width == 128 or (width == 512 and not quick):
        first, second, ratio = compare(ours, lambda: published_equalizer(U), 3 if width == 128 else 1)
        first, ratio = first / calls, calls * ratio
        rows.append(Row(f"equalizer width {width} / published, r eigendecompositions", first, second, ratio, agreement))
    if width < 2048 or not quick:
        first, second, ratio = compare(ours, lambda: svd_hadamard(U), 5 if width < 2048 else 1)
        first, ratio = first / calls, calls * ratio
        rows.append(Row(f"equalizer width {width} / SVD + Hadamard", first, second, ratio, agreement))
    return rows


def wide_equalizer_rows(quick: bool) -> list[Row]:
    """Width 2048, where the published algorithm takes hours: its first column is timed and the others follow.

    Column i has an eigendecomposition and a basis of size (width - i), cubic each, and two products of full size.
    """
    if quick:
        return []
    width = 2048
    U = np.random.default_rng(0).normal(size=(width, width))
    stored = torch.from_numpy(U).mT.contiguous().mT
    work = stored.clone()
    ours = compare(several(lambda: equalize_columns_(work.copy_(stored)), 10), lambda: None, 5)[0] / 10
    start = time.process_time()
    vectors = np.linalg.eigh(U.T @ U)[1]
    basis = qr(vectors.sum(1)[:, None] / np.sqrt(width), mode="full")[0]
    between = time.process_time()
    _ = basis.T @ U @ basis
    cubic, full = between - start, time.process_time() - between
    theirs = width * (cubic / 4 + 1.5 * full)
    return [
        Row(
            f"equalizer width {width} / published, r eigendecompositions",
            ours,
            theirs,
            theirs / ours,
            "see the narrower ones",
            "alternative extrapolated from its first column",
        )
    ]


def large_map(spectrum: torch.Tensor, seed: int = 0) -> torch.Tensor:
    """Dense map with this spectrum; Gaussian starts are rotation invariant, so a few reflections are random enough."""
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.diag(spectrum)
    for _ in range(2):
        for _ in range(6):
            v = torch.randn(len(spectrum), 1, generator=generator, dtype=torch.float64)
            v /= v.norm()
            matrix = matrix - 2 * v @ (v.mT @ matrix)
        matrix = matrix.mT.contiguous()
    return matrix


def large_problem(name: str, quick: bool) -> tuple[str, torch.Tensor, int, float]:
    """Label, map, width and optimal value."""
    size, width = (1500, 60) if quick else (5000, 100)
    i = torch.arange(size, dtype=torch.float64)
    signal = size // 100
    spectrum = {
        "signal+noise": torch.cat([torch.linspace(10, 2, signal), torch.logspace(0, -2, size - signal)]).double(),
        "power": 1 / (i + 1),
        "exponential": torch.exp(-i / (size / 8)),
    }[name]
    return f"{size}x{size} width {width} {name}", large_map(spectrum), width, least(spectrum.numpy(), width)


def randomized_rows(quick: bool, name: str) -> list[Row]:
    label, M, width, truth = large_problem(name, quick)
    masks, array = Gaussian(LAMBDA, width), M.numpy()
    results = {}

    def ours() -> None:
        results["ours"] = optimum_of_map(M, masks)

    def sketch() -> None:
        results["values"] = randomized_svd(array, width, random_state=0)[1]

    first, second, ratio = compare(ours, sketch, 3)
    found, values = results["ours"], results["values"]
    gap = f"gap {abs(found.objective / truth - 1):.0e}, certified {found.gap / truth:.0e}"
    rank, level = threshold(values, LAMBDA, width)
    kept = values[:rank] - level
    loss = float((array**2).sum()) - (values[:rank] ** 2).sum() + rank * level**2 + LAMBDA / width * kept.sum() ** 2
    other = loss / truth - 1
    note = "" if abs(other) < 1e-12 else "the randomized SVD misses the gap of 1e-12: not the same task"
    return [Row(f"{label} / randomized SVD", first, second, ratio, f"{gap}; randomized gap {other:.0e}", note)]


def truncated_rows(quick: bool) -> list[Row]:
    label, M, width, truth = large_problem("signal+noise", quick)
    masks, array = Gaussian(LAMBDA, width), M.numpy()
    first, second, ratio = compare(
        lambda: optimum_of_map(M, masks), lambda: svds(array, width, random_state=0), 1 if quick else 2
    )
    gap = abs(optimum_of_map(M, masks).objective / truth - 1)
    return [Row(f"{label} / svds (ARPACK)", first, second, ratio, f"gap {gap:.0e}")]


def full_svd_rows(quick: bool) -> list[Row]:
    label, M, width, truth = large_problem("signal+noise", quick)
    masks = Gaussian(LAMBDA, width)
    found = optimum_of_map(M, masks)
    times = []
    for work in (*[lambda: optimum_of_map(M, masks)] * 3, lambda: np.linalg.svd(M.numpy(), full_matrices=False)):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    first, spent = sorted(times[:3])[1], times[3]
    return [
        Row(f"{label} / full SVD", first, spent, spent / first, f"gap {abs(found.objective / truth - 1):.0e}", "once")
    ]


PARTS = {
    "small": partial(closed_form_rows, size=(120, 80), width=20),
    "many": many_rows,
    "middle": partial(closed_form_rows, size=(500, 400), width=100),
    "tight": tight_rows,
    "tall": tall_rows,
    "equalizer-128": partial(equalizer_rows, width=128),
    "equalizer-512": partial(equalizer_rows, width=512),
    "equalizer-2048": partial(equalizer_rows, width=2048),
    "wide-equalizer": wide_equalizer_rows,
    "large-signal": partial(randomized_rows, name="signal+noise"),
    "large-power": partial(randomized_rows, name="power"),
    "large-exponential": partial(randomized_rows, name="exponential"),
    "large-svds": truncated_rows,
    "large-full-svd": full_svd_rows,
}


def main() -> None:
    """All parts into optima.json, or the parts named on the command line into their places there."""
    quick = "--quick" in sys.argv
    chosen = [name for name in sys.argv[1:] if name in PARTS]
    for name in chosen:
        merge("optima", PARTS[name](quick))
    if not chosen:
        in_turn("optima-quick" if quick else "optima", {name: partial(PARTS[name], quick) for name in PARTS})


if __name__ == "__main__":
    main()
