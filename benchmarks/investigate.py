"""What figures of the works depend on where the print is silent or ours departs: behind the words of the standing page.

    python benchmarks/investigate.py                 # all, some minutes of one core and one of a GPU where there is one
    python benchmarks/investigate.py mianjy2018-fig3 thesis-tab6-1

Every part leaves its rows in results/investigations.json; `droptics/papers/departures.py` says what they show.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import sys
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from droptics.attacks import Decay, Logistic, Pgd, Reflected, Threat, attack, perturb
from droptics.coadaptation import split
from droptics.data import Moments
from droptics.files import write_text
from droptics.masks import Bernoulli
from droptics.models import ReLUNet, TwoLayerLinear
from droptics.optima import optimum
from droptics.papers.mianjy2018.experiments import convergence_cell, decaying_map, drop_rate
from droptics.papers.thesis import chapter6_experiments
from droptics.papers.thesis.chapter4_experiments import initial_network, random_signs, two_classes
from droptics.papers.thesis.chapter6_color import hardened
from droptics.papers.thesis.chapter6_table_figures import TABLE_6_2, color_cells, color_sample
from droptics.training import Diverged, log_steps

ROOT = Path(__file__).resolve().parent.parent
Row = dict[str, Any]


def rising_variance() -> list[Row]:
    """mianjy2018-fig3: how far does the variance of the scores rise, by deviation of the start, step and rate?

    Width 20, 5 runs, 4,000 steps.
    """
    rows = []
    for spread, step_size, lam in itertools.product((0.03, 0.1, 0.3, 1.0), (0.001, 0.005), (0.1, 0.5, 1.0)):
        row: Row = {"start": spread, "step": step_size, "lam": lam}
        size = {"runs": 5, "steps": 4000, "records": 40}
        try:
            cell = convergence_cell(width=20, lam=lam, step_size=step_size, spread=spread, **size)
        except Diverged:
            rows.append(row | {"largest rise above an earlier value": "diverges"})
            continue
        values = [found["variance"] for found in cell]
        lows = itertools.accumulate(values, min)
        row["largest rise above an earlier value"] = max(value / low for value, low in zip(values, lows, strict=True))
        rows.append(row | {"first": values[0], "highest": max(values), "last": values[-1]})
    return rows


def without_noise() -> list[Row]:
    """mianjy2018-fig3: does the variance rise under exact gradients, too, and what has to be there for it?

    Steps of 0.005 on half of the objective, two runs; 4,000 steps at width 20, 20,000 at width 80. "M fitted" starts at
    the best map of that rank, its factors rotated at random; the flat map has equal singular values and the norm of M.
    """
    rows = []
    for width, lam in itertools.product((20, 80), (0.0, 0.1, 0.5, 1.0)):
        steps = 4_000 if width == 20 else 20_000
        generator = torch.Generator().manual_seed(0)
        decaying = decaying_map(120, 80, 20.0, generator)
        flat = decaying_map(120, 80, math.inf, generator) * (decaying.square().sum() / 80).sqrt()
        left, values, right = torch.linalg.svd(decaying, full_matrices=False)
        turns = torch.linalg.qr(torch.randn(2, width, width, generator=generator, dtype=decaying.dtype)).Q
        fitted = [side[:, :width] * values[:width].sqrt() @ turns for side in (left, right.mT)]
        small = [0.1 * torch.randn(2, size, width, generator=generator, dtype=decaying.dtype) for size in (120, 80)]
        for name, matrix, start in (
            ("small", decaying, small),
            ("small, flat map", flat, small),
            ("M fitted", decaying, fitted),
        ):
            if width == 80 and name != "small":
                continue
            variances, value = _flow(start, matrix, lam, steps)
            lows = itertools.accumulate(variances, min)
            rise = max(value / low for value, low in zip(variances, lows, strict=True))
            row: Row = {"width": width, "lam": lam, "start": name, "largest rise above an earlier value": rise}
            row |= {"first": variances[0], "last": variances[-1]}
            if lam:
                least = optimum(TwoLayerLinear, Moments.of_map(matrix), Bernoulli(drop_rate(lam), width)).objective
                row["objective over optimum"] = value / least
            rows.append(row)
            print(row, flush=True)
    return rows


def _flow(start: list[Tensor], matrix: Tensor, lam: float, steps: int) -> tuple[list[float], float]:
    """Exact steps of 0.005 on half of |M - U V^T|^2 + lam sum |u_i|^2 |v_i|^2: variances of scores, last objective."""
    U, V = (side.clone() for side in start)
    chosen, variances = set(log_steps(steps, 40)), []
    for step in range(steps + 1):
        left, right = (side.square().sum(-2, keepdim=True) for side in (U, V))
        error = U @ V.mT - matrix
        if step in chosen:
            variances.append(float((left * right).sqrt().var(-1, correction=0).mean()))
            value = float((error.square().sum((-2, -1)) + lam * (left * right).sum((-2, -1))).mean())
        U, V = U - 0.005 * (error @ V + lam * U * right), V - 0.005 * (error.mT @ U + lam * V * left)
    return variances, value


def training_accuracy(width: int = 64) -> list[Row]:
    """thesis-fig4-2: what reaches the printed 100 % training accuracy in 30 epochs at rate 1e-3, without dropout."""
    rows = []
    data, _ = two_classes()
    targets = data.targets.reshape(-1)
    for symmetrized, (how, batch, summed) in itertools.product(
        (True, False),
        (("SGD", 64, False), ("SGD", 8, False), ("SGD", 64, True), ("Adam", 64, False)),
    ):
        chance = torch.Generator().manual_seed(0)
        inputs = data.inputs * random_signs(1, len(data), chance)[0][:, None] if symmetrized else data.inputs
        start = initial_network(784, width, chance)
        hidden, top = (weight.clone() for weight in start.weights)
        _descend(hidden, top, inputs, targets, (how, batch, summed))
        sample = type(data)(inputs, data.targets)
        model = ReLUNet([hidden, top])
        outputs = model.outputs(inputs)[:, 0]
        accuracy = float((outputs * targets > 0).double().mean())
        flows = [split(net, sample, symmetrized=symmetrized).coadaptation for net in (start, model)]
        row = {"data": "symmetrized" if symmetrized else "raw", "optimizer": how, "batch": batch}
        row |= {"loss": "sum" if summed else "mean", "training accuracy": accuracy}
        rows.append(row | {"phi at the start": flows[0], "phi at the end": flows[1]})
    return rows


def _descend(hidden: Tensor, top: Tensor, inputs: Tensor, targets: Tensor, how: tuple[str, int, bool]) -> None:
    """30 epochs of squared loss at rate 1e-3, in place; gradients written out."""
    kind, batch, summed = how
    weights = (hidden, top)
    optimizer = torch.optim.Adam(weights, lr=1e-3) if kind == "Adam" else None
    generator = torch.Generator().manual_seed(1)
    for _ in range(30):
        for chosen in torch.randperm(len(inputs), generator=generator).split(batch):
            x = inputs[chosen]
            active = torch.relu(x @ hidden.mT)
            error = 2 * (active @ top.mT - targets[chosen, None]) / (1 if summed else len(chosen))
            slopes = ((error @ top) * (active > 0)).mT @ x, error.mT @ active
            if optimizer is None:
                hidden -= 1e-3 * slopes[0]
                top -= 1e-3 * slopes[1]
            else:
                for weight, slope in zip(weights, slopes, strict=True):
                    weight.grad = slope
                optimizer.step()


def attack_strength() -> list[Row]:
    """thesis-tab6-1: errors of a standard network under raw PGD, by steps and by what the gradient is divided by."""
    train, test = two_classes(classes=(0, 1))
    net = chapter6_experiments._trained(train, "standard", 0, 20, 100, 64, 1.0, 20, 0.1, 2.0)
    rows = []
    for steps, divisor in ((1, 1), (5, 1), (10, 1), (20, 1), (40, 1), (40, 64), (40, 256), (40, 1000), (40, len(test))):
        row: Row = {"steps": steps, "gradient of": "one example" if divisor == 1 else f"a mean over {divisor}"}
        for name, threat in (("PGD-inf", Threat("linf", 0.1)), ("PGD-2", Threat("l2", 2.0))):
            for prefix, loss in (("", Logistic()), ("R-", Reflected(Logistic()))):
                method = Pgd(loss, steps, Decay(10.0 / divisor), gradient="raw")
                row[prefix + name] = _error(net, test, threat, method)
        rows.append(row)
    return [*rows, {"steps": "printed", "PGD-inf": 0.033, "R-PGD-inf": 0.286, "PGD-2": 0.003, "R-PGD-2": 0.256}]


def _error(net: nn.Module, test: Any, threat: Threat, method: Pgd) -> float:
    targets = test.targets.reshape(-1)
    points = perturb(net, test.inputs, targets, threat, method)
    with torch.no_grad():
        return float((net(points).squeeze(1) * targets <= 0).double().mean())


def scatter_of_subnetworks() -> list[Row]:
    """thesis-fig5-2: how far single sub-networks scatter in the recorded runs, beside the distances compared."""
    with (ROOT / "results" / "thesis-fig5-2" / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    found = []
    for width, drop in sorted({(int(row["width"]), float(row["drop"])) for row in rows}):
        mine = [row for row in rows if int(row["width"]) == width and float(row["drop"]) == drop]
        last = [row for row in mine if int(row["step"]) == max(int(row["step"]) for row in mine)]
        full, visited, others, scatter = (
            sum(float(row[name]) for row in last) / len(last)
            for name in ("full", "visited", "unvisited", "unvisited_sd")
        )
        row = {"width": width, "drop": drop, "runs": len(last), "full - one visited": full - visited}
        found.append(row | {"full - mean of 100 others": full - others, "scatter of single ones": scatter})
    return found


def strength_of_tests() -> list[Row]:
    """thesis-tab6-2: accuracies in percent (PGD, 2 steps, radius 16/255), by step and restarts of the test."""
    robust, standard = TABLE_6_2[16, "PGD"][0]
    tests = ((0.4, 2), (2.0, 2), (2.0, 10), (4.0, 10), (8.0, 10))
    return [*_tested({}, tests), {"restarts": "printed", "robust": robust, "standard": standard}]


def full_precision() -> list[Row]:
    """thesis-tab6-2: the same cell with products of training in float32."""
    return _tested({"precision": "float32"}, ((2.0, 2),))


def constant_momentum() -> list[Row]:
    """thesis-tab6-2: the same cell with a momentum of 0.9 at every rate."""
    return _tested({"peak_momentum": 0.9}, ((2.0, 2),))


def _tested(change: Row, tests: Sequence[tuple[float, int]]) -> list[Row]:
    cell = next(cell for cell in color_cells("paper") if cell.name == "PGD steps=2 radius=16/255")
    options = {name: value for name, value in cell.parameters.items() if name in signature(hardened).parameters}
    net = hardened(color_sample("train"), **(options | change)).eval()
    test, rows = color_sample("test", cell.parameters["attacked"]), []
    for step, restarts in tests:
        method = Pgd(steps=50, step=step / 255, restarts=restarts, start="random")
        found = attack(net, test, Threat("linf", 8 / 255, (0.0, 1.0)), method)
        row = {"step of the test": f"{step:g}/255", "restarts": restarts}
        row |= {"robust": 100 * float(found.robust_accuracy()), "standard": 100 * float(found.clean_accuracy())}
        rows.append(row)
        print(row, flush=True)
    return rows


PARTS: dict[str, Callable[[], list[Row]]] = {
    "mianjy2018-fig3": rising_variance,
    "mianjy2018-fig3, exact gradients": without_noise,
    "thesis-fig4-2": training_accuracy,
    "thesis-tab6-1": attack_strength,
    "thesis-fig5-2": scatter_of_subnetworks,
}
if torch.cuda.is_available():
    PARTS |= {"thesis-tab6-2": strength_of_tests, "thesis-tab6-2, float32": full_precision}
    PARTS |= {"thesis-tab6-2, momentum": constant_momentum}


def main() -> None:
    torch.set_num_threads(1)
    path = ROOT / "results" / "investigations.json"
    for name in sys.argv[1:] or PARTS:
        part = PARTS[name]
        found = {"question": " ".join((part.__doc__ or "").partition(": ")[2].split()), "rows": part()}
        # others may have added theirs meanwhile
        known = (json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}) | {name: found}
        write_text(path, json.dumps(known, indent=1) + "\n")
        print(name, *known[name]["rows"], sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
