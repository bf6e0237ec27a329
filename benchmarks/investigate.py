"""What figures of the works depend on where the print is silent or ours departs: behind the words of the standing page.

    python benchmarks/investigate.py                 # all, some minutes of one core and one of a GPU where there is one
    python benchmarks/investigate.py mianjy2018-fig3 thesis-tab6-1

Every part leaves its rows in results/investigations.json; `droptics/papers/departures.py` says what they show.
"""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from droptics.attacks import Decay, Logistic, Pgd, Reflected, Threat, attack, perturb
from droptics.coadaptation import split
from droptics.files import write_text
from droptics.models import ReLUNet
from droptics.papers.mianjy2018.experiments import convergence_cell
from droptics.papers.thesis import chapter6_experiments
from droptics.papers.thesis.chapter4_experiments import initial_network, random_signs, two_classes
from droptics.papers.thesis.chapter6_color import hardened
from droptics.papers.thesis.chapter6_table_figures import TABLE_6_2, color_cells, color_sample
from droptics.training import Diverged

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
    """thesis-tab6-2: the robust accuracy at 16/255 (PGD, 2 steps), in percent, by momentum in training and by test."""
    cell = next(cell for cell in color_cells("paper") if cell.name == "PGD steps=2 radius=16/255")
    train, test = (color_sample(split) for split in ("train", "test"))
    some = type(test)(test.inputs[:2000], test.targets[:2000])
    options = {name: value for name, value in cell.parameters.items() if name in signature(hardened).parameters}
    threat, rows = Threat("linf", 8 / 255, (0.0, 1.0)), []
    for momentum in (0.9, 0.8):
        net = hardened(train, **(options | {"peak_momentum": momentum})).eval()
        for step, restarts in ((0.4, 2), (2.0, 2), (2.0, 10)):
            found = attack(net, some, threat, Pgd(steps=50, step=step / 255, restarts=restarts, start="random"))
            row = {"momentum at the peak": momentum, "step of the test": f"{step:g}/255", "restarts": restarts}
            row |= {"robust": 100 * float(found.robust_accuracy()), "standard": 100 * float(found.clean_accuracy())}
            rows.append(row)
            print(row, flush=True)
    robust, standard = TABLE_6_2[16, "PGD"][0]
    return [*rows, {"restarts": "printed", "robust": robust, "standard": standard}]


PARTS: dict[str, Callable[[], list[Row]]] = {
    "mianjy2018-fig3": rising_variance,
    "thesis-fig4-2": training_accuracy,
    "thesis-tab6-1": attack_strength,
    "thesis-fig5-2": scatter_of_subnetworks,
} | ({"thesis-tab6-2": strength_of_tests} if torch.cuda.is_available() else {})


def main() -> None:
    torch.set_num_threads(1)
    path = ROOT / "results" / "investigations.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name in sys.argv[1:] or PARTS:
        part = PARTS[name]
        known[name] = {"question": " ".join((part.__doc__ or "").partition(": ")[2].split()), "rows": part()}
        write_text(path, json.dumps(known, indent=1) + "\n")
        print(name, *known[name]["rows"], sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
