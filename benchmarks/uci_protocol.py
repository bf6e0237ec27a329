"""The UCI protocol of MC dropout (Gal and Ghahramani, 2016; one hidden layer of 50 units), predicted without sampling.

    python benchmarks/uci_protocol.py yacht bostonHousing     these sets; those already recorded are skipped
    python benchmarks/uci_protocol.py --table                 the table of what is recorded

Per set: all published splits are trained at once, on a GPU by a kernel that takes epochs of a network. A fifth of the
training rows chooses rate and precision from the published grids by the normal likelihood of the exact moments, after
`--choice` of the epochs; then all training rows are used for the published number of epochs (4000), unless `--epochs`
says otherwise. The record keeps both. RMSE is that of the exact mean over masks, the log-likelihood that of the exact
density. A set's record is replaced as a whole, so that a stopped run loses the set it was at, no more. Data: the folder
named by DROPTICS_DATA, with the published numbers of every split.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import harness  # noqa: F401 - one thread
from droptics.evidence.provenance import commit, here
from droptics.files import write_text
from droptics.masks import Bernoulli, Product
from droptics.models import ReLUNet
from droptics.predictions import predictive
from uci_kernel import Epochs

RESULTS = Path(__file__).parent / "results" / "uci"
SETS = ("yacht", "bostonHousing", "energy", "concrete", "wine-quality-red", "power-plant", "kin8nm")
PUBLISHED = "_100_xepochs_1_hidden_layers"
BATCH, HIDDEN, LENGTH_SCALE, EPOCHS = 128, 50, 1e-2, 4000
# Epochs whose orders of rows are drawn at once.
TOGETHER = 25


@dataclass(frozen=True)
class Settings:
    """How long and where: epochs, the share of them that the choice of rate and precision gets, and the device."""

    epochs: int
    choice: float
    device: str


class Runs:
    """Networks of one hidden layer, one per run, trained together: weights (runs, ...)."""

    def __init__(self, inputs: Tensor, targets: Tensor, rates: Tensor, precisions: Tensor, seed: int) -> None:
        torch.manual_seed(seed)
        self.seed = seed
        runs, _, features = inputs.shape
        self.device = inputs.device
        self.center, self.scale = inputs.mean(1, keepdim=True), inputs.std(1, keepdim=True, correction=0)
        self.scale[self.scale == 0] = 1.0
        self.mean, self.deviation = targets.mean(1, keepdim=True), targets.std(1, keepdim=True, correction=0)
        self.inputs, self.targets = (inputs - self.center) / self.scale, (targets - self.mean) / self.deviation
        self.rates, self.precisions = rates.to(self.device), precisions.to(self.device)
        self.weights = [self._glorot(runs, features, HIDDEN), self._glorot(runs, HIDDEN, 1)]
        self.biases = [torch.zeros(runs, 1, size, device=self.device, requires_grad=True) for size in (HIDDEN, 1)]

    def _glorot(self, runs: int, before: int, after: int) -> Tensor:
        limit = math.sqrt(6 / (before + after))
        return (torch.rand(runs, before, after, device=self.device) * 2 * limit - limit).requires_grad_(True)

    def _mask(self, *shape: int) -> Tensor:
        keep = (1 - self.rates)[:, None, None]
        return (torch.rand(*shape, device=self.device) < keep).float() / keep

    def train(self, epochs: int) -> None:
        """Adam with the defaults of the published code; the weight decay follows from rate and precision."""
        runs, rows, _ = self.inputs.shape
        decay = LENGTH_SCALE**2 * (1 - self.rates) / (2 * rows * self.precisions)
        train = self._kernel(decay) if self.device.type == "cuda" else self._steps(decay)
        for first in range(0, epochs, TOGETHER):
            count = min(TOGETHER, epochs - first)
            train(torch.rand(count, runs, rows, device=self.device).argsort(-1))

    def _kernel(self, decay: Tensor) -> Callable[[Tensor], None]:
        """Epochs on a GPU, in given orders of rows (epochs, runs, rows)."""
        values = [part.detach() for pair in zip(self.weights, self.biases, strict=True) for part in pair]
        epochs = Epochs((self.inputs, self.targets), values, self.rates, decay)
        return lambda orders: epochs.run(orders, BATCH, self.seed)

    def _steps(self, decay: Tensor) -> Callable[[Tensor], None]:
        """The same in torch."""
        optimizer = torch.optim.Adam([*self.weights, *self.biases], lr=1e-3, fused=True)
        which = torch.arange(len(self.inputs), device=self.device)[:, None]

        def train(orders: Tensor) -> None:
            for part in (some for order in orders for some in order.split(BATCH, 1)):
                x, y = self.inputs[which, part], self.targets[which, part]
                hidden = torch.relu((x * self._mask(*x.shape)) @ self.weights[0] + self.biases[0])
                output = (hidden * self._mask(*hidden.shape)) @ self.weights[1] + self.biases[1]
                norms = sum(weight.square().sum((1, 2)) for weight in self.weights)
                loss = (output[..., 0] - y).square().mean(1) + decay * norms
                optimizer.zero_grad()
                loss.sum().backward()
                optimizer.step()

        return train

    def network(self, run: int) -> ReLUNet:
        """A trained network from standardized inputs to targets in their own units, float64."""
        first, last = (weight[run].detach().cpu().double().mT for weight in self.weights)
        offset, end = (bias[run, 0].detach().cpu().double() for bias in self.biases)
        scale, center = float(self.deviation[run]), float(self.mean[run])
        return ReLUNet([first, last * scale], [offset, end * scale + center])

    def prediction(self, run: int, inputs: Tensor):
        rate = float(self.rates[run])
        scaled = ((inputs - self.center[run].cpu()) / self.scale[run].cpu()).double()
        masks = Product([Bernoulli(rate, inputs.shape[1]), Bernoulli(rate, HIDDEN)])
        return predictive(self.network(run), scaled, masks), scaled, masks


def split_rows(table: np.lib.npyio.NpzFile) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Training and test rows of every split."""
    tests = [row[row >= 0] for row in table["test"]]
    everything = np.arange(len(table["targets"]))
    return [np.setdiff1d(everything, test) for test in tests], tests


def chosen(inputs: Tensor, targets: Tensor, grid: Tensor, settings: Settings) -> tuple[Tensor, Tensor]:
    """Rate and precision of every split, by the exact moments on a held-out fifth of its training rows."""
    splits, rows = targets.shape
    order = torch.stack([torch.randperm(rows, generator=torch.Generator().manual_seed(s)) for s in range(splits)])
    kept, held = order[:, : rows * 4 // 5], order[:, rows * 4 // 5 :]
    which = torch.arange(splits)[:, None]
    both = [part.repeat(len(grid), 1, *(1,) * (part.ndim - 2)) for part in (inputs[which, kept], targets[which, kept])]
    runs = Runs(*(part.to(settings.device) for part in both), *grid.repeat_interleave(splits, 0).mT, seed=1)
    runs.train(max(2, round(settings.choice * settings.epochs)))
    scores = torch.empty(len(grid), splits)
    for run in range(splits * len(grid)):
        pair, split = divmod(run, splits)
        found, _, _ = runs.prediction(run, inputs[split, held[split]])
        gap = (targets[split, held[split]].double()[:, None] - found.mean.value).square()
        total = found.variance.value + 1 / float(grid[pair, 1])
        scores[pair, split] = -0.5 * (gap / total + total.log()).mean()
    rates, precisions = grid[scores.argmax(0)].mT
    return rates, precisions


def run_set(name: str, folder: Path, settings: Settings) -> dict[str, object]:
    """All splits of one set: per-split numbers, ours and the published ones."""
    started, clock = time.time(), time.process_time()
    table = np.load(folder / f"{name}.npz")
    trains, tests = split_rows(table)
    inputs, targets = (torch.from_numpy(table[key]).float() for key in ("inputs", "targets"))
    rows = np.stack(trains)
    grid = torch.cartesian_prod(
        *(torch.from_numpy(table[f"setting_{key}"]).float() for key in ("dropout_rates", "tau_values"))
    )
    rates, precisions = chosen(inputs[rows], targets[rows], grid, settings)
    print(f"{name}: rates and precisions chosen after {time.time() - started:.0f} s", flush=True)
    runs = Runs(*(part[rows].to(settings.device) for part in (inputs, targets)), rates, precisions, seed=0)
    runs.train(settings.epochs)
    print(f"{name}: trained after {time.time() - started:.0f} s", flush=True)
    errors, likelihoods = [], []
    for split, test in enumerate(tests):
        found, _, _ = runs.prediction(split, inputs[test])
        wanted = targets[test].double()[:, None]
        errors.append(float((found.mean.value - wanted).square().mean().sqrt()))
        likelihoods.append(float(found.log_likelihood(wanted, float(precisions[split]) ** -0.5).mean()))
    return {
        "set": name,
        "epochs": settings.epochs,
        "choice": settings.choice,
        "splits": len(tests),
        "rates": rates.tolist(),
        "precisions": precisions.tolist(),
        "rmse": errors,
        "log_likelihood": likelihoods,
        "published_rmse": table[f"published_test_MC_rmse{PUBLISHED}"].tolist(),
        "published_log_likelihood": table[f"published_test_ll{PUBLISHED}"].tolist(),
        "speed": speed(runs, inputs[tests[0]]),
        "device": "cpu" if settings.device == "cpu" else torch.cuda.get_device_name(),
        "cpu_seconds": time.process_time() - clock,
        "seconds": time.time() - started,
        "commit": commit(),
        **here(),
    }


def speed(runs: Runs, inputs: Tensor, passes: int = 300) -> dict[str, float]:
    """Exact moments of a test split against plain passes, medians of five; 10^4 passes are `passes` times 10^4."""
    network, ratios = runs.network(0), []
    for _ in range(5):
        clock = time.process_time()
        _, scaled, _ = runs.prediction(0, inputs)
        exact = time.process_time() - clock
        rate = float(runs.rates[0])
        clock = time.process_time()
        with torch.no_grad():
            for _ in range(passes):
                hidden = torch.relu(torch.dropout(scaled, rate, True) @ network.weights[0].mT + network.biases[0])
                torch.dropout(hidden, rate, True) @ network.weights[1].mT + network.biases[1]
        ratios.append(((time.process_time() - clock) * 1e4 / passes, exact))
    ratios.sort(key=lambda pair: pair[0] / pair[1])
    plain, exact = ratios[2]
    return {"exact_seconds": exact, "ten_thousand_passes_seconds": plain, "ratio": plain / exact}


def line(record: dict[str, object]) -> str:
    """A row of the table: means over splits with standard errors, and the difference in standard errors of the pair."""
    parts = []
    for ours, theirs, sign in (("rmse", "published_rmse", -1), ("log_likelihood", "published_log_likelihood", 1)):
        left, right = np.array(record[ours]), np.array(record[theirs])
        errors = [values.std(ddof=1) / math.sqrt(len(values)) for values in (left, right)]
        gain = sign * (left.mean() - right.mean()) / math.hypot(*errors)
        parts.append(f"{left.mean():.3f} ± {errors[0]:.3f} | {right.mean():.3f} ± {errors[1]:.3f} | {gain:+.1f}")
    ratio = record["speed"]["ratio"]
    return f"| {record['set']} | {record['splits']} | {record['epochs']} | {' | '.join(parts)} | {ratio:.0f} |"


def table() -> str:
    """Everything recorded; gains are in joint standard errors, positive is better than published."""
    head = "| set | splits | epochs | RMSE | published | gain | log-likelihood | published | gain | speed |"
    rows = [line(json.loads(path.read_text(encoding="utf-8"))) for path in sorted(RESULTS.glob("*.json"))]
    return "\n".join([head, "| --- " * 10 + "|", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", help=f"some of {', '.join(SETS)}")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--choice", type=float, default=0.1, help="share of the epochs that the choice gets")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--into", type=Path, default=RESULTS, help="folder of the records")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    folder = Path(os.environ.get("DROPTICS_DATA", "data")) / "uci"
    for name in options.sets:
        path = options.into / f"{name}.json"
        if path.exists() and json.loads(path.read_text(encoding="utf-8"))["epochs"] >= options.epochs:
            continue
        if not (folder / f"{name}.npz").exists():
            print(f"{name}: not measured, {folder / name}.npz is absent")
            continue
        record = run_set(name, folder, Settings(options.epochs, options.choice, options.device))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(record, indent=1))
        print(line(record), flush=True)
    if options.table or not options.sets:
        print(table())


if __name__ == "__main__":
    main()
