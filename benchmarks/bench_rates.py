"""Which rate: a scan of tied rates with common random numbers, and its split, against a search of 25 trials.

    python benchmarks/bench_rates.py mnist movielens          some tasks, data seeds 0 to 4
    python benchmarks/bench_rates.py mnist --seeds 0 1 2      some data seeds
    python benchmarks/bench_rates.py --table                  the table of what has run

Every part of a task is one file in <results>/rates: a killed run goes on where it was, the table says what is there.
The search is optuna's TPE over one rate per site, each trial one training from a seed of its own, best trial by
validation loss. All answers are then retrained four times, from fresh weights, on fresh batches and masks, and compared
by their loss on test data that neither side has seen.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from droptics.audits.criteria import guess_loss
from droptics.datasets import fashion_mnist, mnist, movielens
from droptics.rates import Fit, tune_rates
from droptics.rates.copies import Problem, train_copies
from droptics.rates.examples import Examples
from harness import RESULTS, write

TRIALS, RETRAININGS, HIGHEST = 25, 4, 0.7
SCAN = (0.0, 0.1, 0.2, 0.3, 0.45, 0.6)
Pair = tuple[Any, Tensor]
CELLS = RESULTS / "rates"


@dataclass(frozen=True)
class Task:
    """Data (train, validation, test) by seed, a network by seed, its sites, and how it is trained."""

    data: Callable[[int], tuple[Pair, Pair, Pair]]
    network: Callable[[], nn.Module]
    sites: tuple[str, ...]
    fit: Fit


def perceptron(*widths: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Dropout(0.5), nn.Linear(widths[0], widths[1])]
    for before, after in itertools.pairwise(widths[1:]):
        layers += [nn.ReLU(), nn.Dropout(0.5), nn.Linear(before, after)]
    return nn.Sequential(*layers)


def images(source: Callable[..., Any], train: int, held: int) -> Callable[[int], tuple[Pair, Pair, Pair]]:
    """Images of 14 x 14 (means of four pixels), so many for training and validation, all test images."""

    def small(split: str) -> Pair:
        pixels, labels = source(split=split)
        pixels = pixels.float().reshape(-1, 1, 28, 28)
        if float(pixels.max()) > 1:
            pixels = pixels / 255
        return nn.functional.avg_pool2d(pixels, 2).flatten(1), labels.long()

    def parts(seed: int) -> tuple[Pair, Pair, Pair]:
        inputs, labels = small("train")
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))[: train + held]
        first, second = order[:train], order[train:]
        return (inputs[first], labels[first]), (inputs[second], labels[second]), small("test")

    return parts


class Recommender(nn.Module):
    """Two embeddings and one hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(943, 32), nn.Embedding(1682, 32)
        with torch.no_grad():
            self.users.weight.mul_(0.1)
            self.items.weight.mul_(0.1)
        self.embedded, self.hidden = nn.Dropout(0.5), nn.Dropout(0.5)
        self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 1)

    def forward(self, pairs: Tensor) -> Tensor:
        found = self.embedded(torch.cat([self.users(pairs[:, 0]), self.items(pairs[:, 1])], 1))
        return self.last(self.hidden(self.first(found).relu()))


def ratings(seed: int) -> tuple[Pair, Pair, Pair]:
    """30,000 ratings for training, 3,000 for validation, 20,000 for the test."""
    known = movielens("ml-100k")
    columns = [torch.unique(torch.as_tensor(column), return_inverse=True)[1] for column in (known.users, known.items)]
    pairs, values = torch.stack(columns, 1), torch.as_tensor(known.values).float()[:, None]
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(seed))
    cuts = [order[:30_000], order[30_000:33_000], order[33_000:53_000]]
    mean = values[cuts[0]].mean()
    first, second, third = ((pairs[cut], values[cut] - mean) for cut in cuts)
    return first, second, third


TASKS = {
    "mnist": Task(
        images(mnist, 500, 500),
        lambda: perceptron(196, 100, 100, 10),
        ("0", "3", "6"),
        Fit(epochs=40, batch_size=50, stop="last", looks=1),
    ),
    "fashion": Task(
        images(fashion_mnist, 1000, 500),
        lambda: perceptron(196, 100, 100, 100, 10),
        ("0", "3", "6", "9"),
        Fit(epochs=20, batch_size=50, stop="last", looks=1),
    ),
    "movielens": Task(
        ratings,
        Recommender,
        ("embedded", "hidden"),
        Fit(epochs=8, batch_size=300, step_size=3e-3, stop="last", looks=1),
    ),
}


def network(task: Task, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return task.network()


def cell(name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A part that is on disk, or is made now and kept."""
    file = CELLS / f"{name}.json"
    if file.exists():
        return json.loads(file.read_text())
    begin = time.process_time()
    content = make()
    content["seconds"] = time.process_time() - begin
    write(f"rates/{name}", content)
    print(name, f"{content['seconds']:.0f} s", flush=True)
    return content


def tuned(task: Task, seed: int) -> dict[str, Any]:
    """Our answer, with the split."""
    train, held, _ = task.data(seed)
    found = tune_rates(
        network(task, seed), train, held, fit=task.fit, scan=SCAN, split="factorial", seed=seed, progress=False
    )
    return found.to_dict()


def problem(task: Task, seed: int, train: Pair, held: Pair) -> Problem:
    cpu = torch.device("cpu")
    examples, others = Examples.of(train, "train", cpu), Examples.of(held, "held", cpu)
    before = dict.fromkeys(task.sites, 0.5)
    return Problem(network(task, seed), examples, examples.some(50, 0), others, guess_loss(train[1]), task.fit, before)


def mean(row: dict[str, Any]) -> float:
    return math.inf if row["losses"] is None else statistics.fmean(row["losses"])


def searched(task: Task, seed: int) -> dict[str, Any]:
    """TPE with 25 trials."""
    import optuna  # noqa: PLC0415 - an alternative, installed for the benchmark only

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    train, held, _ = task.data(seed)
    given = problem(task, seed, train, held)

    def trial(one: Any) -> float:
        rates = {site: one.suggest_float(site, 0.0, HIGHEST) for site in task.sites}
        return mean(train_copies(given, [rates], 10_000 + one.number, "single")[0])

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(trial, n_trials=TRIALS)
    return {"rates": study.best_params, "loss": study.best_value, "trials": TRIALS}


def retrained(task: Task, seed: int, answers: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Test losses of all answers, one list per answer with one number per retraining."""
    train, _, test = task.data(seed)
    found: dict[str, list[float]] = {name: [] for name in answers}
    for turn in range(RETRAININGS):
        given = problem(task, 1000 + turn, train, test)
        rows = train_copies(given, list(answers.values()), 2000 + turn, "population")
        for name, row in zip(answers, rows, strict=True):
            found[name].append(mean(row))
    return {"losses": found, "answers": answers}


def run(name: str, seed: int) -> None:
    task = TASKS[name]
    ours = cell(f"{name}-{seed}-tuned", lambda: tuned(task, seed))
    answers = {f"tied {rate:g}": dict.fromkeys(task.sites, rate) for rate in (*SCAN, 0.5)}
    answers["0.2 input, 0.5 hidden"] = {site: 0.5 if i else 0.2 for i, site in enumerate(task.sites)}
    answers["tune_rates, tied"] = dict.fromkeys(task.sites, ours["best"])
    answers["tune_rates, split"] = dict(ours["rates"])
    if find_spec("optuna") is not None:
        answers["search"] = cell(f"{name}-{seed}-search", lambda: searched(task, seed))["rates"]
    cell(f"{name}-{seed}-retrained", lambda: retrained(task, seed, answers))


def table() -> dict[str, Any]:
    """What has run: per task, means over data seeds, and the differences of our answers from the others."""
    tasks = {}
    for name in TASKS:
        files = sorted(CELLS.glob(f"{name}-*-retrained.json"))
        if files:
            tasks[name] = summary(name, [json.loads(file.read_text()) for file in files], files)
    return {"rows": [shown(name, found) for name, found in tasks.items()], "tasks": tasks}


def shown(name: str, found: dict[str, Any]) -> dict[str, str]:
    """One row of the table in the docs."""
    losses = found["test loss"]
    return {
        "task": name,
        "data seeds": str(len(found["data seeds"])),
        "no dropout": f"{losses['tied 0']:.4f}",
        "0.5 everywhere": f"{losses['tied 0.5']:.4f}",
        "search, 25 trials": f"{losses['search']:.4f}" if "search" in losses else "not measured",
        "tune_rates, tied": f"{losses['tune_rates, tied']:.4f}",
        "split kept": f"{sum(found['split kept'])} of {len(found['split kept'])}",
        "answers": ", ".join(f"{rate:g}" for rate in found["answers"]),
    }


def summary(name: str, cells: list[dict[str, Any]], files: list[Path]) -> dict[str, Any]:
    means = [{key: statistics.fmean(values) for key, values in one["losses"].items()} for one in cells]
    seeds = [file.stem.split("-")[1] for file in files]
    ours = [json.loads((CELLS / f"{name}-{seed}-tuned.json").read_text()) for seed in seeds]

    def against(first: str, second: str) -> dict[str, float] | None:
        if not all(second in one for one in means):
            return None
        gaps = [one[first] - one[second] for one in means]
        error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.nan
        return {"mean": statistics.fmean(gaps), "error": error if math.isfinite(error) else None}

    defaults = ("tied 0.1", "tied 0.5", "0.2 input, 0.5 hidden")
    best = min(defaults, key=lambda key: statistics.fmean(one[key] for one in means))
    searches = [CELLS / f"{name}-{seed}-search.json" for seed in seeds]
    costs = [json.loads(file.read_text())["seconds"] for file in searches if file.exists()]
    return {
        "data seeds": seeds,
        "test loss": {key: statistics.fmean(one[key] for one in means) for key in means[0]},
        "tied minus search": against("tune_rates, tied", "search"),
        "split minus tied": against("tune_rates, split", "tune_rates, tied"),
        "split minus search": against("tune_rates, split", "search"),
        "tied minus best default": {"default": best, **(against("tune_rates, tied", best) or {})},
        "answers": [one["best"] for one in ours],
        "verdicts": [one["verdict"] for one in ours],
        "split kept": [one["split"]["kept"] for one in ours],
        "neighbors better by two errors": [neighbors(one, cell) for one, cell in zip(ours, cells, strict=True)],
        "CPU seconds, ours": statistics.fmean(one["seconds"] for one in ours),
        "CPU seconds, search": statistics.fmean(costs) if costs else None,
        "copies": [one["cost"]["copies"] for one in ours],
    }


def neighbors(ours: dict[str, Any], one: dict[str, Any]) -> list[float]:
    """Rates beside the answer whose retrainings are better by two standard errors, where it says "resolved"."""
    if ours["verdict"] != "resolved":
        return []
    place = SCAN.index(ours["best"])
    own, found = one["losses"][f"tied {ours['best']:g}"], []
    for rate in SCAN[max(place - 1, 0) : place] + SCAN[place + 1 : place + 2]:
        gaps = [b - a for a, b in zip(one["losses"][f"tied {rate:g}"], own, strict=True)]
        if statistics.fmean(gaps) > 2 * statistics.stdev(gaps) / math.sqrt(len(gaps)):
            found.append(rate)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help=f"of {', '.join(TASKS)}; all by default")
    parser.add_argument("--seeds", nargs="*", type=int, default=list(range(5)))
    parser.add_argument("--table", action="store_true", help="only the table of what has run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for data_seed in [] if options.table else options.seeds:
        for one in options.tasks or TASKS:
            run(one, data_seed)
    print(json.dumps(table(), indent=1))
    write("rates", table())
