"""robust_accuracy and its parts against torchattacks: same networks, same images, same threat.

Networks: a perceptron and a CNN on MNIST and on Fashion-MNIST, and a PreAct ResNet-18 on CIFAR-10, each trained plainly
and against linf perturbations (seed 0). The clock is CPU time, on a GPU wall time.

    python benchmarks/bench_robustness.py ensemble [NETWORK ...]  # ours and AutoAttack, COUNT images once each
    python benchmarks/bench_robustness.py pieces [NETWORK ...]    # APGD, FAB, Square at equal budgets, five seeds
    python benchmarks/bench_robustness.py pgd [NETWORK ...]       # PGD, 40 equal steps
    python benchmarks/bench_robustness.py order [NETWORK ...]     # l1: each attack alone, five seeds
    python benchmarks/bench_robustness.py losses [NETWORK ...]    # PGD by what it climbs, five seeds
    python benchmarks/bench_robustness.py train [NETWORK ...]     # train and keep, nothing else

A NETWORK is SET-KIND-TRAINING: mnist-cnn-hardened, fashion-mlp-plain, cifar-resnet18-hardened. In the agreement column
stand both robust accuracies: ours must not be above. Rows that are recorded already are measured again with --again
alone, and take the places of the old ones. Needs torchattacks, and the data sets in $DROPTICS_DATA.
"""

# ruff: noqa: PLC0415
from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness import RESULTS, Row, absent, clock, interleaved, merge  # first: it sets the number of threads

import torch  # isort: skip
from torch import Tensor, nn

from droptics.attacks import (
    Apgd,
    CrossEntropy,
    Dlr,
    Fab,
    Loss,
    Margin,
    Method,
    Pgd,
    Reflected,
    Square,
    Threat,
    attack,
    perturb,
    robust_accuracy,
)  # fmt: skip
from droptics.data import Sample
from droptics.datasets import cifar10, fashion_mnist, mnist
from droptics.papers.thesis.chapter6_networks import preact_resnet18

# loader, radius by norm, epochs
SETS = {
    "mnist": (mnist, {"linf": 0.2, "l2": 2.0, "l1": 10.0}, 6),
    "fashion": (fashion_mnist, {"linf": 0.08, "l2": 1.0, "l1": 8.0}, 6),
    "cifar": (cifar10, {"linf": 8 / 255, "l2": 0.5, "l1": 8.0}, 12),
}
NETWORKS = [
    f"{name}-{kind}-{how}" for name in ("mnist", "fashion") for kind in ("mlp", "cnn") for how in ("plain", "hardened")
]
NETWORKS += ["cifar-resnet18-plain", "cifar-resnet18-hardened"]
ORDERS = {"linf": "Linf", "l2": "L2"}
SEEDS = range(5)
BRIEF = 5  # seconds; where theirs takes less, both are repeated and the second time counts
THOROUGH: list[Method] = [
    Pgd(Margin()), Apgd(CrossEntropy(), start="random"), Pgd(Margin("every")), Apgd(Dlr("every"), start="random"),
    Fab(candidates=9), Square(),
]  # fmt: skip


def images(name: str, split: str, device: str) -> tuple[Tensor, Tensor]:
    inputs, labels = SETS[name][0](split=split)
    inputs = inputs.to(device).float() / 255
    return (inputs if inputs.ndim == 4 else inputs[:, None]), labels.to(device)


def network(name: str, kind: str) -> nn.Module:
    if name == "cifar":
        return preact_resnet18()
    if kind == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    body = (nn.Conv2d(1, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*body, nn.Linear(64 * 49, 256), nn.ReLU(), nn.Linear(256, 10))


def trained(label: str, device: str, folder: Path) -> nn.Module:
    """The network of this label, from the folder or trained and put there."""
    name, kind, how = label.split("-")
    torch.manual_seed(0)
    net = network(name, kind).to(device)
    color = name == "cifar"
    if color and device == "cuda":
        net = net.to(memory_format=torch.channels_last)
    file = folder / f"{label}.pt"
    if file.exists():
        net.load_state_dict(torch.load(file, map_location=device, weights_only=True))
        return net.eval().requires_grad_(False)

    def outputs(points: Tensor) -> Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=color):
            return net(points).float()

    _, radii, epochs = SETS[name]
    inputs, labels = images(name, "train", device)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    threat = Threat("linf", radii["linf"], (0, 1))
    draws = torch.Generator(device).manual_seed(0)
    method = Pgd(steps=5 if color else 7, step=threat.radius / 4, start="random", stop="never")
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, epochs * -(-len(inputs) // 250))
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs)).to(device).split(250):
            points = inputs[rows]
            if color:
                mirrored = (torch.rand(len(rows), 1, 1, 1) < 0.5).to(device)
                points = torch.where(mirrored, points.flip(3), points)
            if how == "hardened":
                points = perturb(outputs if color else net, points, labels[rows], threat, method, draws)
            optimizer.zero_grad()
            nn.functional.cross_entropy(outputs(points), labels[rows]).backward()
            optimizer.step()
            schedule.step()
    folder.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".tmp")
    torch.save(net.state_dict(), partial)
    partial.replace(file)
    return net.eval().requires_grad_(False)


def survivors(net: nn.Module, points: Tensor, data: Sample) -> float:
    with torch.no_grad():
        return float((net(points).argmax(1) == data.targets).double().mean())


def ensemble(name: str, net: nn.Module, data: Sample, threat: Threat, device: str) -> list[Row]:
    from torchattacks import AutoAttack

    few = Sample(data.inputs[:64], data.targets[:64])
    if device == "cuda":  # kernels are compiled and libraries loaded before the clock starts
        robust_accuracy(net, few, threat)
        survivors(net, data.inputs, data)
    ours, theirs = [], []
    # In turns: on a machine that others use, too, times drift. Libraries prepare once for every size of a batch.
    for turn in range(2):
        begin = clock(device)
        result = robust_accuracy(net, data, threat, batch=len(data))
        ours.append(clock(device) - begin)
        if turn == 0 or theirs[0] < BRIEF:
            begin = clock(device)
            points = AutoAttack(net, norm=ORDERS[threat.norm], eps=threat.radius, seed=0, n_classes=10)(
                data.inputs, data.targets
            )
            theirs.append(clock(device) - begin)
    mine, other = (ours[1], theirs[1]) if len(theirs) > 1 else (max(ours), theirs[0])
    said = f"clean {float(result.clean):.3f}, robust {float(result.robust):.3f} and {survivors(net, points, data):.3f}"
    found = "; ".join(f"{stage.method} {stage.found} in {stage.seconds:.2f} s" for stage in result.stages)
    first = f"; the first time {ours[0]:.3f} and {theirs[0]:.3f} s" if len(theirs) > 1 else ""
    least = f"; one gradient and one pass {least_work(net, data, device):.5f} s"
    return [Row(name, mine, other, other / mine, said, f"found by {found}{first}{least}")]


def least_work(net: nn.Module, data: Sample, device: str) -> float:
    """Seconds of what no search by gradients does without: one gradient of every image, and one pass to verify."""
    times = []
    for _ in range(5):
        begin = clock(device)
        leaf = data.inputs.clone().requires_grad_()
        (slope,) = torch.autograd.grad(nn.functional.cross_entropy(net(leaf), data.targets, reduction="sum"), leaf)
        survivors(net, data.inputs + 0 * slope, data)
        times.append(clock(device) - begin)
    return min(times)


def thorough(name: str, net: nn.Module, data: Sample, threat: Threat, device: str) -> list[Row]:
    """What ten times the gradients and all queries would have found beside the default."""
    begin = clock(device)
    result = robust_accuracy(net, data, threat, batch=len(data))
    ours = clock(device) - begin
    begin = clock(device)
    long = robust_accuracy(net, data, threat, THOROUGH, batch=len(data))
    slow = clock(device) - begin
    found = "; ".join(f"{stage.method} {stage.found} in {stage.seconds:.2f} s" for stage in long.stages)
    said = f"robust {float(result.robust):.3f} and {float(long.robust):.3f}"
    return [Row(f"{name}, thorough", ours, slow, slow / ours, said, f"found by {found}")]


def pieces(name: str, net: nn.Module, data: Sample, threat: Threat, device: str) -> list[Row]:
    """Each attack alone with the budget of theirs: robust accuracy and its deviation over five seeds."""
    import torchattacks

    order, radius = ORDERS[threat.norm], threat.radius
    common = {"norm": order, "eps": radius, "n_restarts": 1}
    pairs = {
        "APGD-CE, 50 steps": (
            Apgd(CrossEntropy(), steps=50, start="random"),
            lambda seed: torchattacks.APGD(net, **common, steps=50, loss="ce", seed=seed),
        ),
        "APGD-DLR on nine targets, 20 steps": (
            Apgd(Dlr("every"), steps=20, start="random"),
            lambda seed: torchattacks.APGDT(net, **common, steps=20, n_classes=10, seed=seed),
        ),
        "FAB, 20 steps": (
            Fab(steps=20),
            lambda seed: torchattacks.FAB(net, **common, steps=20, n_classes=10, seed=seed),
        ),
        "Square, 1000 queries": (
            Square(queries=1000),
            lambda seed: torchattacks.Square(net, **common, n_queries=1000, seed=seed),
        ),
    }
    rows = []
    for title, (method, rival) in pairs.items():
        ours, theirs, times = [], [], []
        for seed in SEEDS:
            begin = clock(device)
            ours.append(float(attack(net, data, threat, replace(method, seed=seed)).robust_accuracy()))
            middle = clock(device)
            theirs.append(survivors(net, rival(seed)(data.inputs, data.targets), data))
            times.append((middle - begin, clock(device) - middle))
        mine, other = (statistics.median(time[i] for time in times) for i in (0, 1))
        said = " and ".join(f"{statistics.mean(part):.4f} +- {statistics.stdev(part):.4f}" for part in (ours, theirs))
        rows.append(Row(f"{name}, {title}", mine, other, other / mine, f"robust {said}", json.dumps([ours, theirs])))
    return rows


def pgd(name: str, net: nn.Module, data: Sample, threat: Threat, device: str) -> list[Row]:
    """40 steps of equal size from the input, in turns; ours with its verification."""
    import torchattacks

    step = threat.radius / 10
    kind = {"linf": torchattacks.PGD, "l2": torchattacks.PGDL2}[threat.norm]
    # theirs for l2 asks for gradients in the order of the images, which a network of channels last does not give
    shape = data.inputs.shape[1:]
    # (in eval mode, into which torchattacks puts its model back, and what is in it)
    plain = net if threat.norm == "linf" else nn.Sequential(nn.Flatten(), nn.Unflatten(1, shape), net).eval()
    rival = kind(plain, eps=threat.radius, alpha=step, steps=40, random_start=False)
    kinds = {"": ("ieee", "own")}
    if device == "cuda":
        other = {", TF32 products on both sides": ("tf32", "own")}
        kinds |= other if "-mlp-" in name else {", our gradients in bfloat16": ("ieee", "half")}
    rows = []
    for said, (products, precision) in kinds.items():
        method = Pgd(steps=40, step=step, precision=precision)
        calls = {
            "ours": partial(lambda by: attack(net, data, threat, by, batch=len(data)).inputs, method),
            "theirs": lambda: rival(data.inputs, data.targets),
        }
        torch.backends.cuda.matmul.fp32_precision = products
        left = [survivors(net, call(), data) for call in calls.values()]
        times = interleaved(calls, 31 if "-mlp-" in name else 9, device)  # short ones scatter by a half
        torch.backends.cuda.matmul.fp32_precision = "ieee"
        ratio = statistics.median(b / a for a, b in zip(times["ours"], times["theirs"], strict=True))
        ours, theirs = (statistics.median(part) for part in times.values())
        title = f"{name}, PGD-40, batch {len(data)}{said}"
        rows.append(Row(title, ours, theirs, ratio, f"robust {left[0]:.3f} and {left[1]:.3f}"))
    return rows


def order(name: str, net: nn.Module, data: Sample, threat: Threat, device: str) -> list[Row]:
    """Robust accuracy of each attack on the l1 ball; published is that adaptive ascent finds more than plain."""
    methods = {
        "PGD, 100 steps": Pgd(steps=100),
        "Square, 5000 queries": Square(),
        "FAB, 100 steps": Fab(steps=100),
        "APGD-CE, 100 steps": Apgd(CrossEntropy(), start="random"),
        "APGD-DLR on nine targets, 100 steps": Apgd(Dlr("every"), start="random"),
    }
    rows = []
    for title, method in methods.items():
        begin = clock(device)
        found = [float(attack(net, data, threat, replace(method, seed=seed)).robust_accuracy()) for seed in SEEDS]
        seconds = (clock(device) - begin) / len(SEEDS)
        said = f"robust {statistics.mean(found):.4f} +- {statistics.stdev(found):.4f}"
        rows.append(Row(f"{name}, {title}", seconds, None, None, said, json.dumps(found)))
    return rows


def losses(name: str, net: nn.Module, data: Sample, threat: Threat, device: str) -> list[Row]:
    """What PGD of 40 steps from random starts finds by each loss."""
    kinds: dict[str, Loss] = {
        "CrossEntropy()": CrossEntropy(),
        "Margin('greedy')": Margin("greedy"),
        "Margin()": Margin(),
        "Reflected(CrossEntropy())": Reflected(CrossEntropy()),
        "Reflected(CrossEntropy(), 'every')": Reflected(CrossEntropy(), "every"),
        "Margin('every')": Margin("every"),
        "Dlr('every')": Dlr("every"),
    }
    rows = []
    for title, loss in kinds.items():
        begin = clock(device)
        found = [
            float(attack(net, data, threat, Pgd(loss, start="random", seed=seed)).robust_accuracy()) for seed in SEEDS
        ]
        seconds = (clock(device) - begin) / len(SEEDS)
        said = f"robust {statistics.mean(found):.4f} +- {statistics.stdev(found):.4f}"
        rows.append(Row(f"{name}, {title}", seconds, None, None, said, json.dumps(found)))
    return rows


QUESTIONS = {
    "ensemble": ensemble, "thorough": thorough, "pieces": pieces, "pgd": pgd, "order": order, "losses": losses,
}  # fmt: skip


def recorded(file: str) -> list[str]:
    path = RESULTS / f"{file}.json"
    return [row["workload"] for row in json.loads(path.read_text(encoding="utf-8"))["rows"]] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("question", nargs="?", default="ensemble", choices=["train", *QUESTIONS])
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--norms", nargs="*", default=None)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--nets", type=Path, default=RESULTS.parent / "measured" / "nets")
    options = parser.parse_intermixed_args()  # networks may stand behind options, too
    device = "cuda" if torch.cuda.is_available() else "cpu"
    file = (
        "robustness"
        + ("_gpu" if device == "cuda" else "")
        + ("" if options.question == "ensemble" else f"_{options.question}")
    )
    everything = [label for label in NETWORKS if device == "cuda" or not label.startswith("cifar")]
    for label in options.networks or everything:
        net = trained(label, device, options.nets)
        if options.question == "train":
            continue
        name = label.split("-")[0]
        inputs, labels = (part[: options.count] for part in images(name, "test", device))
        for norm in options.norms or (["l1"] if options.question == "order" else ["linf", "l2"]):
            radius = SETS[name][1][norm]
            title = f"{label}, {norm} {radius:.3g}" + (f", {len(labels)} images" if len(labels) != 1000 else "")
            known = [workload for workload in recorded(file) if f"{workload}, ".startswith(f"{title}, ")]
            if known and not options.again:
                continue
            try:
                rows = QUESTIONS[options.question](
                    title, net, Sample(inputs, labels), Threat(norm, radius, (0, 1)), device
                )
            except ImportError:
                rows = [absent(title, "torchattacks")]
            merge(file, rows, device)


if __name__ == "__main__":
    main()
