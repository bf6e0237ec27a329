"""Training at full speed: compiled batches of runs, exact gradients, and the deterministic form against dropout.

bench_training_gpu.py has the rows that need a GPU. Workloads:
- 50 runs of the 120 x 80, width 20 experiment, one fresh sample per step (mianjy2018-alg1), against one-by-one torch
  modules with autograd, a tight NumPy loop, and the batched torch program; seconds are per run-step. Against modules
  once more on two cores, by the wall clock.
- deep linear training, four layers of 20, by exact gradients against sampled masks with batches of 1000; per step.
- steps and seconds until 1 % above the optimum, deterministic form against dropout.

Parts can be run one by one by name; their rows then replace those of the same name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

from harness import Row, compare, in_turn, merge  # isort: skip  (sets the number of threads before torch is loaded)

import numpy as np
import torch

from droptics.data import Moments
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear, TwoLayerLinear
from droptics.optima import optimum
from droptics.papers.mianjy2018.experiments import decaying_map
from droptics.training import Cosine, Dropout, Inverse, Penalized, Recording, train

OUTPUTS, INPUTS, WIDTH, RUNS, LAM, ETA = 120, 80, 20, 50, 0.5, 1e-3
DROP = LAM / (1 + LAM)


def population() -> torch.Tensor:
    return decaying_map(OUTPUTS, INPUTS, 10.0, torch.Generator().manual_seed(0)).float()


def start(runs: int | None) -> TwoLayerLinear:
    generator = torch.Generator().manual_seed(1)
    lead = () if runs is None else (runs,)
    return TwoLayerLinear(
        0.1 * torch.randn(*lead, OUTPUTS, WIDTH, generator=generator),
        0.1 * torch.randn(*lead, INPUTS, WIDTH, generator=generator),
    )


def ours(steps: int, runs: int, engine: str = "auto") -> torch.Tensor:
    return descend(start(runs), Moments.of_map(population()), steps, engine)


def descend(model: TwoLayerLinear, data: Moments, steps: int, engine: str) -> torch.Tensor:
    run = train(
        model,
        data,
        Dropout(Bernoulli(DROP, WIDTH)),
        steps=steps,
        step_size=ETA,
        batch_size=1,
        convention="mianjy2018",
        record=Recording(("objective",), at=()),
        engine=engine,  # type: ignore[arg-type]
    )
    return run.final("objective")


def modules(steps: int) -> None:
    """One run as people write it: nn.Linear, nn.Dropout, autograd, torch SGD."""
    matrix = population()
    generator = torch.Generator().manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(INPUTS, WIDTH, bias=False),
        torch.nn.Dropout(DROP),
        torch.nn.Linear(WIDTH, OUTPUTS, bias=False),
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=ETA * (1 - DROP) / 2)
    for _ in range(steps):
        x = torch.randn(1, INPUTS, generator=generator)
        loss = (net(x) - x @ matrix.T).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def tight_numpy(steps: int) -> float:
    """One run with gradients by hand, float32, everything in place."""
    matrix = population().numpy()
    rng = np.random.default_rng(0)
    first = start(None)
    U, V = first.U.numpy().copy(), first.V.numpy().copy()
    keep = np.float32(1 - DROP)
    for _ in range(steps):
        x = rng.standard_normal(INPUTS, dtype=np.float32)
        mask = (rng.random(WIDTH, dtype=np.float32) < keep).astype(np.float32)
        hidden = mask * (x @ V)
        residual = U @ (hidden / keep) - matrix @ x
        back = mask * (residual @ U)
        U -= np.float32(ETA) * np.outer(residual, hidden)
        V -= np.float32(ETA) * np.outer(x, back)
    error = matrix - U @ V.T
    return float((error**2).sum() + LAM * ((U**2).sum(0) * (V**2).sum(0)).sum())


def single_sample_rows() -> list[Row]:
    steps = 2000
    objectives = ours(steps, RUNS)
    spread = float(objectives.std())
    numpy_value = tight_numpy(steps)
    agreement = f"objective after {steps} steps {float(objectives.mean()):.3f} +- {spread:.3f}, NumPy {numpy_value:.3f}"
    rows = []
    for name, other, other_steps, runs in (
        ("torch modules, autograd", modules, 300, 1),
        ("tight NumPy loop", tight_numpy, 2000, 1),
        ('batched autograd (engine="torch")', partial(ours, runs=RUNS, engine="torch"), 100, RUNS),
    ):
        mine, theirs, ratio = compare(partial(ours, steps, RUNS), partial(other, other_steps), repeats=5)
        scale = (steps * RUNS) / (other_steps * runs)
        rows.append(
            Row(
                f"50 runs x {steps} single-sample steps vs {name}",
                mine / (steps * RUNS),
                theirs / (other_steps * runs),
                ratio * scale,
                agreement,
                "seconds per run-step",
            )
        )
    return rows


def two_core_seconds(steps: int, others: int) -> list[float]:
    """Wall seconds of ours and of modules in turn; runs of ours are shared out, modules take a step after the other."""
    torch.set_num_threads(2)
    seconds = []
    for call in (partial(ours, steps, RUNS), partial(modules, others)) * 6:
        begin = perf_counter()
        call()
        seconds.append(perf_counter() - begin)
    return seconds[2:]


def two_core_rows() -> list[Row]:
    """In a process of its own, whose libraries have two threads from their start.

    As many steps as the experiments of the papers take, so that what is done once a training does not count.
    """
    steps, others = 10_000, 300
    threads = {name: "2" for name in os.environ if name.endswith("_NUM_THREADS")}
    code = f"import json, bench_training; print(json.dumps(bench_training.two_core_seconds({steps}, {others})))"
    place, environment = Path(__file__).parent, os.environ | threads
    done = subprocess.run([sys.executable, "-c", code], cwd=place, env=environment, check=True, capture_output=True)
    seconds = json.loads(done.stdout)
    mine, theirs = [part / (steps * RUNS) for part in seconds[::2]], [part / others for part in seconds[1::2]]
    ratio = median(other / own for own, other in zip(mine, theirs, strict=True))
    workload = f"two cores: 50 runs x {steps} single-sample steps against torch modules"
    return [Row(workload, median(mine), median(theirs), ratio, "", "wall seconds per run-step")]


def deep_start() -> DeepLinear:
    generator = torch.Generator().manual_seed(2)
    return DeepLinear([(torch.rand(20, 20, dtype=torch.float64, generator=generator) - 0.5) / 5 for _ in range(3)])


def deep_exact(data: Moments, law: Product, steps: int) -> torch.Tensor:
    return train(deep_start(), data, Penalized(law), steps=steps, step_size=2e-4, record=("objective",)).final(
        "objective"
    )


def deep_modules(data: Moments, steps: int) -> float:
    """Sampled masks with torch modules and autograd, batches of 1000 fresh inputs."""
    generator = torch.Generator().manual_seed(0)
    layers: list[torch.nn.Module] = []
    for i, weight in enumerate(deep_start().weights):
        layers += [torch.nn.Dropout(0.5)] if i else []
        layers.append(torch.nn.Linear(20, 20, bias=False).double())
        layers[-1].weight.data.copy_(weight)  # type: ignore[operator, union-attr]
    net = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(net.parameters(), lr=2e-4)
    for _ in range(steps):
        x = torch.randn(1000, 20, dtype=torch.float64, generator=generator)
        loss = (net(x) - x @ data.yx.T).square().sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = [layer.weight.detach() for layer in layers if isinstance(layer, torch.nn.Linear)]
    product = weights[2] @ weights[1] @ weights[0]
    return float((product - data.yx).norm())


def deep_rows() -> list[Row]:
    generator = torch.Generator().manual_seed(3)
    matrix = torch.randn(20, 15, dtype=torch.float64, generator=generator)
    data = Moments.of_map(matrix @ torch.randn(15, 20, dtype=torch.float64, generator=generator))
    law = Product([Bernoulli(0.5, 20), Bernoulli(0.5, 20)])
    steps, other_steps = 1000, 100
    mine, theirs, ratio = compare(partial(deep_exact, data, law, steps), partial(deep_modules, data, other_steps))
    scale = steps / other_steps
    sampled = train(
        deep_start(), data, Dropout(law), steps=500, step_size=2e-4, batch_size=1000, record=("objective",)
    ).final("objective")
    exact = deep_exact(data, law, 500)
    agreement = f"objective after 500 steps: exact {float(exact):.1f}, sampled {float(sampled):.1f}"
    return [
        Row(
            "deep linear (20, 20, 20, 20): exact gradient vs sampled masks, batch 1000",
            mine / steps,
            theirs / other_steps,
            ratio * scale,
            agreement,
            "seconds per step",
        )
    ]


def to_one_percent_rows() -> list[Row]:
    matrix = population().double()
    data = Moments.of_map(matrix)
    law = Bernoulli(DROP, WIDTH)
    best = optimum(TwoLayerLinear, data, law)
    begin = TwoLayerLinear(*(tensor.double() for tensor in start(None).tensors))
    taken: dict[str, int] = {}

    def reach(name: str, objective: Penalized | Dropout, steps: int, every: int, **options: object) -> None:
        run = train(
            begin,
            data,
            objective,
            steps=steps,
            record=Recording(("objective",), at=range(0, steps + 1, every)),
            bound=best.bound,
            stop_gap=0.01,
            **options,  # type: ignore[arg-type]
        )
        taken[name] = run.steps if run.stopped == "certificate" else -1

    lbfgs = partial(torch.optim.LBFGS, line_search_fn="strong_wolfe", max_iter=1)
    contenders = {
        "Dropout, batch 128, Adam": partial(
            reach, "adam", Dropout(law), 3000, 20, step_size=0.01, batch_size=128,
            optimizer=torch.optim.Adam, schedule=Cosine(3000),
        ),
        "Dropout, single samples, compiled": partial(
            reach, "single", Dropout(law), 200_000, 2000, step_size=0.01, batch_size=1,
            convention="mianjy2018", schedule=Inverse(10_000.0),
        ),
    }  # fmt: skip
    exact = partial(reach, "exact", Penalized(law), 500, 2, step_size=1.0, optimizer=lbfgs)
    rows = []
    for key, (name, other) in zip(("adam", "single"), contenders.items(), strict=True):
        mine, theirs, ratio = compare(exact, other, repeats=3)
        rows.append(
            Row(
                f"1 % above the optimum, 120 x 80, width 20: Penalized (L-BFGS) vs {name}",
                mine,
                theirs,
                ratio,
                f"steps {taken['exact']} vs {taken[key]}",
            )
        )
    return rows


PARTS = {
    "single-sample": single_sample_rows,
    "two-cores": two_core_rows,
    "deep": deep_rows,
    "one-percent": to_one_percent_rows,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    chosen = [name for name in sys.argv[1:] if name in PARTS]
    for name in chosen:
        merge("training", PARTS[name]())
    if not chosen:
        in_turn("training", PARTS)
