"""robust_accuracy against torchattacks' AutoAttack: same networks, same images, same threat.

Networks: a perceptron and a CNN on MNIST and on Fashion-MNIST, and with `--cifar` a PreAct ResNet-18 on CIFAR-10, each
trained plainly and against linf perturbations (seed 0). Both sides attack the first COUNT test images once; the clock
is CPU time, on a GPU wall time. The agreement column holds both robust accuracies: ours must not be above.

    python benchmarks/bench_robustness.py [--gpu] [--cifar] [--count 1000] [--only mnist-cnn-hardened]

Needs torchattacks, and the data sets in $DROPTICS_DATA.
"""

# ruff: noqa: PLC0415
from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn

from droptics.attacks import Pgd, Threat, perturb, robust_accuracy
from droptics.data import Sample
from droptics.datasets import cifar10, fashion_mnist, mnist
from droptics.papers.thesis.chapter6_networks import preact_resnet18
from harness import Row, absent, clock, merge  # first: it sets the number of threads

SETS = {"mnist": (mnist, 0.2, 2.0), "fashion": (fashion_mnist, 0.08, 1.0), "cifar": (cifar10, 8 / 255, 0.5)}


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


def trained(name: str, kind: str, hardened: bool, device: str, epochs: int) -> nn.Module:
    torch.manual_seed(0)
    inputs, labels = images(name, "train", device)
    net = network(name, kind).to(device)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    threat = Threat("linf", SETS[name][1], (0, 1))
    method = Pgd(steps=7, step=threat.radius / 4, start="random", stop="never")
    steps = epochs * -(-len(inputs) // 250)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, steps)
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs)).to(device).split(250):
            points = inputs[rows]
            with torch.autocast(device.split(":", maxsplit=1)[0], torch.bfloat16, enabled=name == "cifar"):
                if hardened:
                    points = perturb(net, points, labels[rows], threat, method)
                loss = nn.functional.cross_entropy(net(points).float(), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return net.eval().requires_grad_(False)


def row(name: str, net: nn.Module, data: Sample, threat: Threat, device: str) -> Row:
    try:
        from torchattacks import AutoAttack
    except ImportError:
        return absent(name, "torchattacks")
    begin = clock(device)
    result = robust_accuracy(net, data, threat, batch=len(data))
    ours = clock(device) - begin
    order = {"linf": "Linf", "l2": "L2"}[threat.norm]
    begin = clock(device)
    points = AutoAttack(net, norm=order, eps=threat.radius, seed=0, n_classes=10)(data.inputs, data.targets)
    theirs = clock(device) - begin
    left = float((net(points).argmax(1) == data.targets).double().mean())
    said = f"clean {float(result.clean):.3f}, robust {float(result.robust):.3f} and {left:.3f}"
    found = ", ".join(f"{stage.method.partition('(')[0]} {stage.found}" for stage in result.stages)
    return Row(name, ours, theirs, theirs / ours, said, f"found by {found}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--cifar", action="store_true")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    device = "cuda" if options.gpu else "cpu"
    pairs = [("cifar", "resnet18")] if options.cifar else [(s, k) for s in ("mnist", "fashion") for k in ("mlp", "cnn")]
    for name, kind in pairs:
        inputs, labels = (part[: options.count] for part in images(name, "test", device))
        for hardened in (True, False):
            label = f"{name}-{kind}-{'hardened' if hardened else 'plain'}"
            if options.only and label not in options.only:
                continue
            net = trained(name, kind, hardened, device, options.epochs)
            _, linf, l2 = SETS[name]
            rows = [
                row(f"{label}, {norm} {radius:.3g}", net, Sample(inputs, labels), Threat(norm, radius, (0, 1)), device)
                for norm, radius in (("linf", linf), ("l2", l2))
            ]
            merge("robustness_gpu" if options.gpu else "robustness", rows)


if __name__ == "__main__":
    main()
