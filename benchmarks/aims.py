"""What we aim at and what a machine allows: joined with the measured rows wherever the table is printed.

A floor is the least time for the work that the method cannot avoid: operations of matrix products at the speed of a
large product, or bytes at the speed of a large copy, both measured on the same machine by bench_ceilings.py. It is the
floor of our method, not of the task. A moonshot is the number we want to see; `why` says what stands between. Where a
moonshot is missing, only the promise counts. Times in `why` are of profiles on the machine of the recorded results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Work:
    """Operations in products and bytes moved, or seconds where they were counted otherwise; `text` says of what."""

    text: str
    float64: float = 0.0
    float32: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0

    def floor(self, ceilings: Mapping[str, float]) -> float | None:
        """The least seconds at these rates; None where a rate is needed that was not measured."""
        needed = {name: getattr(self, name) for name in ("float64", "float32", "bytes") if getattr(self, name)}
        if any(name not in ceilings for name in needed):
            return None
        return max([self.seconds, *(amount / ceilings[name] for name, amount in needed.items())])


def times(value: float) -> str:
    """A ratio as people write it."""
    return f"{value:,.0f}x" if value >= 100 else f"{value:.3g}x"


def percent(ratio: float) -> str:
    """The extra time of a step from (plain step) / (step)."""
    return f"{100 * (1 / ratio - 1):+.2f} %"


def masks(exponent: float) -> str:
    """A number of masks from its logarithm."""
    return f"2^{exponent:.0f} masks in 10 s"


PASSES = 10  # of an audit beyond its sampled ones, at most


def passes(ratio: float) -> str:
    """Forward passes from (those promised) / (those taken)."""
    return f"{PASSES / ratio:.1f} passes"


def ratio_of(row: Mapping[str, Any]) -> float | None:
    """The measured ratio."""
    return row["ratio"]


def share_of_floor(row: Mapping[str, Any]) -> float | None:
    """Which part of the time the work takes that a row cannot do without, as its script measured it in the same run."""
    return row["floor"] / row["ours"] if row["floor"] and row["ours"] else None


def share(value: float) -> str:
    """A part of a floor as people write it."""
    return f"{value:.0%} of the floor"


def mask_exponent(row: Mapping[str, Any]) -> float | None:
    """How many masks the largest network of the row has, as a power of two."""
    found = re.search(r"2\^(\d+) masks", row["workload"])
    return float(found[1]) if found else None


def gpu_sweep(results: Path) -> Mapping[str, Any] | None:
    """The sweep on the GPU beside that of cmfrec on a CPU core: two files, two machines."""
    found = []
    for name, label in (("recommenders_gpu", "sweep, ml-10m size, GPU"), ("recommenders", "ml-10m size, 3 CG steps")):
        file = results / f"{name}.json"
        rows = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
        found += [row for row in rows if label in row.get("workload", "")][:1]
    if len(found) < 2:
        return None
    ours, other = found[0]["ours"], found[1]["alternative"]
    return {"ours": ours, "alternative": other, "ratio": other / ours, "agreement": found[0]["agreement"]}


def audit(file: Path) -> Mapping[str, Any] | None:
    """What an audit costs beyond its sampled passes, beside so many forward passes as are promised."""
    if not file.exists():
        return None
    content = json.loads(file.read_text(encoding="utf-8"))
    one, taken = content["forward_seconds"], content["beyond_sampling"]
    agreement = f"{content['images']} images"
    return {"ours": taken * one, "alternative": PASSES * one, "ratio": PASSES / taken, "agreement": agreement}


@dataclass(frozen=True)
class Aim:
    """A workload, the file and a pattern of the label of its row, what is hoped for, and what is in the way.

    `why` says what takes the time, on the machine of the reference record or its GPU; `elsewhere` says it for x86_64.
    """

    task: str
    against: str
    file: str
    row: str
    moonshot: float | None = None
    work: Work | None = None
    why: str = ""
    elsewhere: str = ""
    promised: float | None = None
    score: Callable[[Mapping[str, Any]], float | None] = ratio_of
    show: Callable[[float], str] = times
    device: str = "cpu"
    find: Callable[[Path], Mapping[str, Any] | None] | None = None  # where one row of one file does not do


SMALL = Work("Gram matrix, tridiagonal form and 20 eigenvectors, 2.1 million operations", float64=2.1e6)
MIDDLE = Work("Gram matrix, tridiagonal form and 100 eigenvectors, 0.24 billion operations", float64=2.4e8)
KRYLOV = Work("eight products with blocks of 32 from both sides, 25.6 billion operations", float64=2.56e10)
SHRINK = Work("10,000 numbers read twice and written once", bytes=2.4e5)
DEEP = Work("one second moment through 20 layers, 14.5 billion operations", float32=1.45e10)
STEP = Work("33,100 operations a step of a run, input times map included", float32=33_100)
STEP_ON_TWO = Work("33,100 operations a step of a run, shared by two cores", float32=16_550)
SWEEP_CG = Work("three conjugate-gradient steps a row, 2.07 billion operations", float32=2.07e9)
SWEEP_EXACT = Work("normal matrices and Cholesky factors, 10.1 billion operations", float32=1.01e10)
PGD = Work("40 passes of 1000 images, 12.5 billion operations, less where images leave early", float32=1.25e10)
HEAD = Work("one Gram matrix of 512 features, 2.6 billion operations", float64=2.6e9)
HEAD_GPU = Work("one Gram matrix of 2048 features, 0.21 trillion operations", float64=2.1e11)

CALLS = (
    "Eigenvectors (0.36 ms), products (0.10) and the criterion of the factors (0.06) alone take 0.52 ms, of 0.63 where "
    "nothing else runs and 0.70 beside other work; the rest are a dozen calls of 2 to 15 µs: arguments, tensors of the "
    "weights, the answer."
)
MIDDLE_WHY = (
    "Of 34 ms the tridiagonal form takes 10, the 100 vectors 6, the Gram matrix 5, the way back 3; the form is matrix "
    "times vector, at a third of the speed of a product."
)
LARGE_WHY = (
    "The aims need 1.3, 1.1 and 0.6 s, less than the floor: 29 products with blocks of 16 in float64 take 1.65 of "
    "1.93 s, and float32 would lose the gap of 1e-12."
)
ROTATIONS = "Of 62 µs the rotations take 35 and the copy 6; the calls around them take the rest."
COLUMNS = (
    "Of 9.3 ms at width 2048 the copy takes 2.1; norms and rotations pass the columns at 14 of the 31 GB/s of a copy."
)
SEARCH = (
    "Of 45 to 55 µs the compiled loop takes 29, half of it a search in which every step waits for the one before; the "
    "checks and torch calls around it take the rest."
)
STEP_WHY = (
    "Of 2.5 µs the steps themselves take 1.1, targets 0.6, inputs 0.3, masks 0.1; the rest are records of 50 runs at"
    " the start and the end, and the benchmark's own start. A step is some forty loops of 10 to 15 vectors, each of"
    " which loads as often as it multiplies."
)
SWEEP_EXACT_WHY = (
    "Of 0.53 s, tiles in registers take 0.28 for the normal matrices, the speed of a large product with the zeros that"
    " fill them up, Cholesky factors of 72 x 72 and their solves in float64 0.13, bringing rows together 0.03 and"
    " residuals 0.03; the rest is what a row costs whatever its length."
)
SWEEP_CG_WHY = (
    "A rating takes 62 ns: residuals and R^T t 17.5 at the start, R p and R^T t 13.5 twice, |R p| 8.5, its address and"
    " value 3, and 1.1 µs a row beside them 6. The same sweep in C with products in assembly takes 54.5. From the first"
    " cache each product of a rating takes 4.8 to 5.0 ns, in C as here: 4.5 its loads alone, 3.6 products alone; rows"
    " of factors come from the second and third, asked for ahead. The count has R^T t a fourth time, which the last"
    " step does not need."
)
SWEEP_GPU_WHY = (
    "By half-sweeps of one, three and five steps, a step of all rows takes 0.1 ms: nine tenths of the time are sums of"
    " products and what a row does once. The side of the 70,000 users takes 57 %. Whether products wait for gathers is"
    " not measured."
)
PGD_GPU_WHY = (
    "Of 1.3 ms 0.2 to 0.6 are one launch, where four programs wait for each other in every step, and 0.05 verify the "
    "answer; the rest is the host: modes, reading the layers, arguments and the launch itself."
)
PGD_WHY = "Fooled images leave the batch; what remains is the matrix products that every library needs."
ROBUST_WHY = "Two thirds of the images are never fooled and take every step; the products are then all there is."
HEAD_WHY = (
    "Half a Gram matrix takes 150 of 183 ms, conversion and centering 10, targets 10, Cholesky 5; 100 times needs 31, "
    "a fifth of the floor, because tuned SGD is there after 15 epochs."
)
HEAD_GPU_WHY = (
    "Of 10.4 ms half a Gram matrix takes 4.8, Cholesky factor and solves 2.3, conversion, means and centering 1.2, "
    "targets 0.7; 150 times needs 2.1, less than the floor, because tuned SGD is there after 7 epochs."
)

SMALL_THERE = (
    "Eigenvectors, the products around them and the criterion of the factors take 0.40 of 0.53 ms, three quarters of "
    "it eigenvectors, which take a tenth longer amid the other steps than by themselves; calls of Python before and "
    "after take 0.06 ms, three times what they take by themselves. None of these runs at the speed of large products."
)
MIDDLE_THERE = (
    "Of 20 to 24 ms eigenvectors take two thirds, the products around them a sixth and the criterion a twelfth."
)
LARGE_THERE = (
    "On faster cores 29 products with blocks of 16 took four fifths of the time. At a slow moment of this machine such "
    "blocks reach two thirds of the speed of large products, and 15 % from the other side."
)
STEP_THERE = (
    "Of 1.5 µs on one of two cores at 2.5 GHz, beside other work, the steps themselves take 0.53, targets 0.29, inputs"
    " 0.24, masks 0.08; the rest are checks and records of stretches. The rows were measured there, beside other work"
    " as well, one core more than two."
)
SWEEP_CG_THERE = (
    "At the best moments of a shared Skylake a rating takes 32 ns, 23 where rows are in the first cache: residuals,"
    " R^T t and squares 5, R p and R^T t 4.3 twice, |R p| 2.5, and 1 µs a row beside them 5. Their products alone, of"
    " 80 numbers where 70 count, take 8.4; each has a load of its own, and lanes have to be added. The other 9 are"
    " memory, most of it probably in the first pass. Without gain: asking for the next row's ratings ahead (one"
    " setting), loops once a row as one pass. Products, sums over lanes and R^T t held in an order in which nothing"
    " waits take 3.4 ns where R p and R^T t take 4.0, but 2 % off a sweep. Rows of 32 to 1,024 ratings take 24.4 ns a"
    " rating and 1.05 µs beside: 17 % of a sweep, of which two rows side by side would hide half at most. All this was"
    " measured when rows summed squares of their own for the preconditioner, which they no longer do."
)
SWEEP_EXACT_THERE = (
    "Where rows lie in the first cache of a Skylake a rating takes 72 ns and a row 6.5 µs. The tiles of normal matrices"
    " do 200 products of vectors where 155 count, 52 ns at the speed of a large product; in a row pivots wait for each"
    " other. Blocks of 64 or 80 ratings instead of 128 bring nothing; factors in float32 6 to 9 %, and the seventh"
    " digit of the answer."
)
HEAD_THERE = (
    "Sums of products take two thirds of the time, conversions to float64 a sixth, centering and Cholesky factors a "
    "tenth, as measured on faster cores."
)
RELU_GPU_WHY = (
    "At K = 50 splitting lists takes 51 % of the time, sums along them 15 and their tallies 16, the last sums 8, "
    "sorting and picking 7."
)


def chain(width: int) -> Work:
    """Reading and writing every column, and the copy that is rotated in place."""
    return Work(f"{40 * width**2 / 1e6:.3g} MB moved", bytes=40.0 * width**2)


TALL = (
    "centered", "offset by 100", "correlated", "a zero column", "a repeated column", "one-hot columns", "constant",
    "40 different rows", "powers to degree 49", "300 outputs",
)  # fmt: skip
# fmt: off
AIMS = (
    Aim("optimum 120 x 80, width 20", "cvxpy, SCS", "optima", r"^optimum 120x80 width 20 / conic solver \(SCS\)$",
        1000, SMALL, CALLS, SMALL_THERE, promised=500),
    Aim("optimum 120 x 80, width 20", "cvxpy, SCS to 1e-7", "optima", r"^optimum 120x80 .* conic solver \(SCS, 1e-7\)",
        1500, SMALL, CALLS, SMALL_THERE),
    Aim("optimum 120 x 80, width 20", "L-BFGS to 1e-8", "optima", r"^optimum 120x80 width 20 / L-BFGS",
        50, SMALL, CALLS, SMALL_THERE, promised=16),
    Aim("optimum 120 x 80, width 20", "dropout SGD to 1e-3", "optima", r"^optimum 120x80 width 20 / dropout SGD",
        None, SMALL, CALLS, SMALL_THERE, promised=5000),
    Aim("1,000 optima 120 x 80, width 20, in one call", "their eigenvectors, products and criterion", "optima",
        r"^1,000 optima 120x80 width 20 in one call", promised=0.8, score=share_of_floor, show=share),
    Aim("optimum 500 x 400, width 100", "cvxpy, SCS", "optima", r"^optimum 500x400 width 100 / conic",
        1000, MIDDLE, MIDDLE_WHY, MIDDLE_THERE),
    Aim("optimum 500 x 400, width 100", "L-BFGS to 1e-8", "optima", r"^optimum 500x400 width 100 / L-BFGS",
        50, MIDDLE, MIDDLE_WHY, MIDDLE_THERE),
    Aim("optimum 5000 x 5000, width 100, signal and noise", "full SVD", "optima", r"signal\+noise / full SVD",
        100, KRYLOV, LARGE_WHY, LARGE_THERE, promised=50),
    Aim("optimum 5000 x 5000, width 100, signal and noise", "randomized SVD", "optima", r"signal\+noise / randomized",
        5, KRYLOV, LARGE_WHY, LARGE_THERE, promised=2),
    Aim("optimum 5000 x 5000, width 100, signal and noise", "ARPACK (svds)", "optima", r"signal\+noise / svds",
        25, KRYLOV, LARGE_WHY, LARGE_THERE),
    Aim("optimum 5000 x 5000, width 100, power law", "randomized SVD", "optima", r"power / randomized",
        5, KRYLOV, LARGE_WHY, LARGE_THERE, promised=2),
    Aim("equalizer, width 128", "published: r eigendecompositions", "optima", r"equalizer width 128 / published",
        5000, chain(128), ROTATIONS),
    Aim("equalizer, width 512", "published: r eigendecompositions", "optima", r"equalizer width 512 / published",
        25_000, chain(512), COLUMNS, promised=20_000),
    Aim("equalizer, width 2048", "published: r eigendecompositions", "optima", r"equalizer width 2048 / published",
        400_000, chain(2048), COLUMNS),
    Aim("equalizer, width 512", "SVD + Hadamard", "optima", r"equalizer width 512 / SVD", 400, chain(512), COLUMNS),
    Aim("equalizer, width 2048", "SVD + Hadamard", "optima", r"equalizer width 2048 / SVD", 1500, chain(2048), COLUMNS),
    *(Aim(f"optimum of 20000 x 50 examples, {kind}", "optimum of a map of 20000 x 50", "tall", rf", {kind} /",
          promised=1 / 3) for kind in TALL),
    Aim("k-support shrinkage, d = 1000", "all pairs, NumPy", "shrinkage", r"d=1000 ", promised=9000),
    Aim("k-support shrinkage, d = 10,000", "Argyriou, Foygel, Srebro", "shrinkage", r"d=10000 .*Argyriou",
        500, SHRINK, SEARCH),
    Aim("k-support shrinkage, d = 10,000", "all pairs, compiled", "shrinkage", r"d=10000 .*compiled",
        3000, SHRINK, SEARCH),
    Aim("k-support shrinkage, d = 10,000", "cvxpy, Clarabel", "shrinkage", r"d=10000 .*Clarabel",
        20_000, SHRINK, SEARCH),
    Aim("penalty, depth 9, width 5", "the printed sum", "penalties", r"^depth 9, width 5: sum", 30_000, None,
        "Eight layers of NumPy arithmetic take 0.13 ms, more than the 0.10 that 30,000 times needs; rates of eight "
        "laws take 0.15, reading tensors and checks 0.1."),
    Aim("penalty, six layers of width 20", "the printed sum", "penalties", r"^six layers of width 20: sum",
        promised=1000),
    Aim("penalty, depth 20, width 512, float32", "10^4 masks", "penalties", r"width 512, float32: 10", 25, DEEP,
        "25 times needs 0.31 s, less than the floor of general products; a third of them have symmetric results, but "
        "torch has no product that makes use of it."),
    Aim("penalties of 1,000 networks 120 x 80, width 20, in one call", "half a product with E[x x^T], a look at U",
        "penalties", r"^1,000 networks 120x80", promised=0.8, score=share_of_floor, show=share),
    Aim("exact ReLU criterion", "batched enumeration, extrapolated", "relu", r"^depth 2, K=\d+ n=10 \(",
        promised=46, score=mask_exponent, show=masks),
    Aim("exact ReLU criterion, two threads", "batched enumeration, extrapolated", "relu",
        r"^depth 2, K=\d+ n=10, two threads", 50, None, "Two more inputs take a little more than twice as long.",
        score=mask_exponent, show=masks),
    Aim("exact ReLU criterion, GPU", "batched enumeration, same GPU, extrapolated", "relu_gpu", r"masks", 54,
        None, RELU_GPU_WHY, score=mask_exponent, show=masks, device="cuda"),
    Aim("exact ReLU criterion, K = 18", "batched enumeration", "relu", r"^K=18 n=10, against batched .* integrated",
        promised=9),
    Aim("50 runs of single-sample steps", "torch modules, one by one", "training", r"steps vs torch modules",
        None, STEP, STEP_WHY, STEP_THERE, promised=150),
    Aim("50 runs of single-sample steps, two cores", "torch modules, one by one", "training",
        r"^two cores: .*against torch modules", 400, STEP_ON_TWO, STEP_WHY, STEP_THERE),
    Aim("50 runs of single-sample steps", "tight NumPy loop", "training", r"single-sample steps vs tight NumPy",
        None, STEP, STEP_WHY, STEP_THERE, promised=10),
    Aim("50 runs of single-sample steps, GPU", "torch modules on the same GPU", "training_gpu",
        r"^GPU, 50 runs.*vs torch modules", 50_000, None,
        "A run's steps wait for each other, a microsecond each, on 50 of 132 processors.", device="cuda"),
    Aim("deep linear training by exact gradients", "sampled masks, batch 1000", "training", r"^deep linear",
        10, promised=7),
    Aim("sweep, ml-1m size, width 70, exact", "cmfrec, Cholesky", "recommenders", r"ml-1m size, exact, vs cmfrec",
        10, SWEEP_EXACT, SWEEP_EXACT_WHY, SWEEP_EXACT_THERE),
    Aim("sweep, ml-1m size, width 70", "cmfrec, CG", "recommenders", r"ml-1m size, 3 CG steps, vs cmfrec",
        5, SWEEP_CG, SWEEP_CG_WHY, SWEEP_CG_THERE),
    Aim("sweep, ml-1m size, width 70", "implicit, CG", "recommenders", r"ml-1m size, 3 CG steps, vs implicit",
        5, SWEEP_CG, SWEEP_CG_WHY, SWEEP_CG_THERE),
    Aim("ratings, to the objective of dropout SGD", "dropout SGD, tuned", "recommenders", r"dropout SGD's objective",
        promised=25),
    Aim("sweep, ml-10m size, width 70, GPU", "dropout SGD epoch, same GPU", "recommenders_gpu", r"ml-10m.*SGD",
        600, None, "The aim was set against epochs of 3 to 6 s; ours of dropout SGD takes 1.5 s.", device="cuda"),
    Aim("sweep, ml-10m size, width 70, GPU", "cmfrec, CG, on one core of another machine", "recommenders_gpu", "ml-10m",
        1500, Work("6 GB of gathers from the cache", seconds=8e-4), SWEEP_GPU_WHY, device="cuda", find=gpu_sweep),
    Aim("PGD, 40 steps, perceptron", "torchattacks", "attacks", r"^standard MLP PGD-linf equal steps vs torchattacks",
        3, PGD, PGD_WHY, promised=2.3),
    Aim("PGD, 40 steps, perceptron", "foolbox", "attacks", r"^standard MLP PGD-linf equal steps vs foolbox",
        4, PGD, PGD_WHY, promised=2.3),
    Aim("PGD, 40 steps, perceptron", "ART", "attacks", r"^standard MLP PGD-linf equal steps vs ART",
        7, PGD, PGD_WHY, promised=2.3),
    Aim("PGD, 40 steps, robust perceptron", "torchattacks", "attacks", r"^robust MLP PGD-linf equal .* torchattacks",
        None, PGD, ROBUST_WHY, promised=1.25),
    Aim("PGD, 40 steps, robust perceptron", "foolbox", "attacks", r"^robust MLP PGD-linf equal steps vs foolbox",
        None, PGD, ROBUST_WHY, promised=1.25),
    Aim("PGD, 40 steps, perceptron, GPU", "torchattacks, same GPU", "attacks_gpu", r"MLP PGD-linf.*torchattacks",
        20, Work("weights read again from the cache, 5 microseconds a step", seconds=2e-4), PGD_GPU_WHY, device="cuda"),
    Aim("audit of a network of the size of ResNet-18, beyond sampling", "ten forward passes", "audit_cpu", "",
        promised=1, show=passes, find=lambda results: audit(results / "audit_cpu.json")),
    Aim("audit of a network of the size of ResNet-18, beyond sampling, GPU", "ten forward passes", "audit_cuda", "",
        promised=1, show=passes, device="cuda", find=lambda results: audit(results / "audit_cuda.json")),
    Aim("exact penalty in a ResNet-50 step, GPU", "the plain step", "step_gpu", r"ExplicitDropout / plain",
        1 / 1.001, None,
        "One launch forwards, one backwards and the sums of gradients move 50 MB, 12 microseconds at the speed of a "
        "copy. Measured are 14, between +0.030 and +0.069 %; the plain step recorded a second time lies between -0.009 "
        "and +0.011 %, and nn.Dropout, four launches, takes 27, between +0.087 and +0.112 %. Runs differ by more than "
        "these intervals: in another, one launch forwards took +0.070 % and two took +0.071; in a third it took "
        "+0.101, between +0.088 and +0.114 %, and nn.Dropout +0.046.",
        show=percent, device="cuda"),
    Aim("ExplicitDropout in a step of a small CNN", "nn.Dropout", "layers", r"step of a small CNN, Squared",
        promised=1 / 1.2, show=percent),
    Aim("1 % above the optimum, linear head", "dropout training, tuned", "heads", r"linear head", 100, HEAD, HEAD_WHY,
        HEAD_THERE),
    Aim("1 % above the optimum, linear head, GPU", "dropout training, tuned, on such a GPU", "heads_gpu",
        r"linear head", 150, HEAD_GPU, HEAD_GPU_WHY, device="cuda"),
    Aim("1 % above the optimum, factorization 120 x 80", "dropout training, tuned", "heads", r"factorization 120 x 80",
        800, SMALL, CALLS, SMALL_THERE),
    Aim("100 sub-networks of width 10,000", "masked copies", "coadaptation", r"sub-networks of width 10000",
        promised=20),
    Aim("variable projection to SGD's objective", "dropout SGD", "coadaptation", r"variable projection .*MNIST",
        promised=3),
)
# fmt: on
