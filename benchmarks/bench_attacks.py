"""Attacks against foolbox, the Adversarial Robustness Toolbox and torchattacks: same models, radius and steps.

Models: MLP 784-100-10 and a small CNN on scikit-learn's digits enlarged to 28 x 28, trained plainly and against linf
perturbations (seed 0). Every PGD takes at most 40 steps from the input itself, batch 1000, in one process on one
thread. "equal steps" gives ours the step size of the others, "default steps" our decaying ones. The agreement column
holds the robust accuracies: ours must not be above any of the others, since it must find at least as many examples.
Also: FGSM and BIM of ours and of foolbox are the same images. With `--gpu` the same on a GPU, where the clock is wall
time and batches of 16384 are added, and rows of what cannot be imported stay as they are.

    python benchmarks/bench_attacks.py [--gpu] [NETWORK ...]

Needs foolbox, adversarial-robustness-toolbox and torchattacks; those that cannot be imported are left out.
"""

# ruff: noqa: PLC0415
from __future__ import annotations

import copy
import statistics
import sys
from collections.abc import Callable

from harness import Row, absent, interleaved, merge  # first: it sets the number of threads

import numpy as np  # isort: skip
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from droptics.attacks import Bim, CrossEntropy, Fgsm, Pgd, Reflected, Threat, attack, perturb
from droptics.data import Sample

SETTINGS = {"linf": (0.1, 0.01), "l2": (2.0, 0.2)}
STEPS = 40
RIVALS = ("torchattacks", "foolbox", "ART")


def digits() -> tuple[Tensor, Tensor]:
    bunch = load_digits()
    small = torch.tensor(bunch.images / 16.0, dtype=torch.float32)[:, None]
    return nn.functional.interpolate(small, size=(28, 28), mode="bilinear"), torch.tensor(bunch.target)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))


def cnn() -> nn.Module:
    convolutions = (nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*convolutions, nn.Linear(32 * 49, 100), nn.ReLU(), nn.Linear(100, 10))


def trained(net: nn.Module, inputs: Tensor, labels: Tensor, epochs: int, method: Bim | None) -> nn.Module:
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs)).to(inputs.device).split(64):
            points = inputs[rows]
            if method is not None:
                points = perturb(net, points, labels[rows], Threat("linf", 0.1, (0, 1)), method)
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(points), labels[rows]).backward()
            optimizer.step()
    return net.eval().requires_grad_(False)


def rivals(net: nn.Module, norm: str) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """The PGD of each library that is here, as a function of images and labels."""
    radius, step = SETTINGS[norm]
    found: dict[str, Callable[[Tensor, Tensor], Tensor]] = {}
    try:
        import torchattacks

        kind = {"linf": torchattacks.PGD, "l2": torchattacks.PGDL2}[norm]
        found["torchattacks"] = kind(net, eps=radius, alpha=step, steps=STEPS, random_start=False)
    except ImportError as error:
        print(f"torchattacks left out: {error}", file=sys.stderr)
    try:
        import foolbox

        model = foolbox.PyTorchModel(net, bounds=(0, 1))
        kind = {"linf": foolbox.attacks.LinfPGD, "l2": foolbox.attacks.L2PGD}[norm]
        method = kind(abs_stepsize=step, steps=STEPS, random_start=False)
        found["foolbox"] = lambda x, y: method(model, x, y, epsilons=radius)[1]
    except ImportError as error:
        print(f"foolbox left out: {error}", file=sys.stderr)
    try:
        found["ART"] = toolbox(net, norm)
    except ImportError as error:
        print(f"ART left out: {error}", file=sys.stderr)
    return found


def toolbox(net: nn.Module, norm: str) -> Callable[[Tensor, Tensor], Tensor]:
    from art.attacks.evasion import ProjectedGradientDescentPyTorch
    from art.estimators.classification import PyTorchClassifier

    radius, step = SETTINGS[norm]
    device = next(net.parameters()).device
    kind = "cpu" if device.type == "cpu" else "gpu"
    loss = nn.CrossEntropyLoss()
    classifier = PyTorchClassifier(net, loss, (1, 28, 28), 10, clip_values=(0.0, 1.0), device_type=kind)
    options = {"eps": radius, "eps_step": step, "max_iter": STEPS, "batch_size": 1000, "verbose": False}
    order = np.inf if norm == "linf" else 2
    method = ProjectedGradientDescentPyTorch(classifier, norm=order, num_random_init=0, **options)
    return lambda x, y: torch.from_numpy(method.generate(x.cpu().numpy(), y.cpu().numpy())).to(x.device)


def accuracy(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    return float((net(images).argmax(1) == labels).double().mean())


def race(name: str, net: nn.Module, inputs: Tensor, labels: Tensor, repeats: int) -> list[Row]:
    rows = []
    data, device = Sample(inputs, labels), str(inputs.device)
    for norm, (radius, step) in SETTINGS.items():
        threat = Threat(norm, radius, (0, 1))
        mine = {
            "equal steps": Pgd(steps=STEPS, step=step),
            "default steps": Pgd(steps=STEPS),
            "reflected": Pgd(Reflected(CrossEntropy()), steps=STEPS),
        }
        theirs = rivals(net, norm)
        if len(inputs) > 1000:
            theirs.pop("ART", None)  # minutes, and never close
        calls: dict[str, Callable[[], Tensor]] = {
            label: lambda method=method, threat=threat: attack(net, data, threat, method, batch=len(data)).inputs
            for label, method in mine.items()
        }
        calls |= {rival: lambda method=method: method(inputs, labels) for rival, method in theirs.items()}
        reached = {label: accuracy(net, call(), labels) for label, call in calls.items()}
        times = interleaved(calls, repeats, device)
        for rival in RIVALS if device == "cpu" else theirs:
            for label in mine:
                workload = f"{name} PGD-{norm} {label} vs {rival}"
                if rival not in theirs:
                    rows.append(absent(workload, rival))
                    continue
                verdict = "not more robust" if reached[label] <= reached[rival] else "WEAKER"
                agreement = f"robust accuracy {reached[label]:.3f} / {reached[rival]:.3f}: {verdict}"
                ours, other = times[label], times[rival]
                ratio = statistics.median(b / a for a, b in zip(ours, other, strict=True))
                middle = statistics.median(ours)
                speed = f"{len(inputs) / middle:.0f} img/s"
                rows.append(Row(workload, middle, statistics.median(other), ratio, agreement, speed))
    return rows


def same_images(net: nn.Module, inputs: Tensor, labels: Tensor, repeats: int) -> list[Row]:
    """FGSM and BIM with equal settings give foolbox's images.

    In float32 two orders of summation differ by one rounding, and a step across a kink of the network multiplies that;
    in float64 what is left is far below 1e-6.
    """
    try:
        import foolbox
    except ImportError:
        return [absent("FGSM and BIM vs foolbox", "foolbox")]
    l2, linf = Threat("l2", 2.0, (0, 1)), Threat("linf", 0.1, (0, 1))
    kinds = foolbox.attacks
    rows = []
    for label, threat, method, theirs in (
        ("FGSM linf", linf, Fgsm(), kinds.LinfFastGradientAttack()),
        ("FGSM l2", l2, Fgsm(), kinds.L2FastGradientAttack()),
        ("BIM linf", linf, Bim(steps=10, step=0.02), kinds.LinfBasicIterativeAttack(abs_stepsize=0.02, steps=10)),
        ("BIM l2", l2, Bim(steps=10, step=0.4), kinds.L2BasicIterativeAttack(abs_stepsize=0.4, steps=10)),
    ):
        gaps = []
        for dtype in (torch.float64, torch.float32):
            kin = copy.deepcopy(net).to(dtype)
            model, points = foolbox.PyTorchModel(kin, bounds=(0, 1)), inputs.to(dtype)
            data = Sample(points, labels)

            def ours(kin: nn.Module = kin, data: Sample = data, threat: Threat = threat, method: object = method):  # type: ignore[no-untyped-def]
                return attack(kin, data, threat, method)  # type: ignore[arg-type]

            def other(theirs: object = theirs, model: object = model, points: Tensor = points, threat: Threat = threat):  # type: ignore[no-untyped-def]
                return theirs(model, points, labels, epsilons=threat.radius)[1]  # type: ignore[operator]

            gaps.append((ours().inputs - other()).abs().flatten(1).amax(1))
        times = interleaved({"ours": ours, "foolbox": other}, repeats, str(inputs.device))
        ratio = statistics.median(b / a for a, b in zip(times["ours"], times["foolbox"], strict=True))
        exact, rounded = (float(gap.max()) for gap in gaps)
        beyond = int((gaps[1] > 1e-6).sum())
        note = f"largest difference {exact:.0e} in float64, {rounded:.0e} in float32 ({beyond} images beyond 1e-6)"
        middle = [statistics.median(times[side]) for side in ("ours", "foolbox")]
        rows.append(Row(f"{label} vs foolbox", *middle, ratio, note))
    return rows


NETWORKS = {
    "standard MLP": (mlp, 30, None, 7),
    "robust MLP": (mlp, 30, Bim(steps=7, step=0.025), 7),
    "standard CNN": (cnn, 10, None, 1),
    "robust CNN": (cnn, 10, Bim(steps=5, step=0.03), 1),
}


def main() -> None:
    """Race on the networks named on the command line, by default on all; rows are recorded after each of them."""
    torch.set_num_threads(1)
    names = [word for word in sys.argv[1:] if word != "--gpu"]
    device = "cuda" if "--gpu" in sys.argv else "cpu"
    inputs, labels = (part.to(device) for part in digits())
    some, classes = inputs[:1000], labels[:1000]
    rows: list[Row] = []
    for name in names or NETWORKS:
        build, epochs, method, repeats = NETWORKS[name]
        repeats = repeats if device == "cpu" else 5
        torch.manual_seed(0)
        net = trained(build().to(device), inputs, labels, epochs, method)
        if build is mlp and not method:
            rows += [row for row in same_images(net, some, classes, repeats) if row.ratio or device == "cpu"]
        rows += race(name, net, some, classes, repeats)
        if device == "cuda":
            many = torch.arange(16384, device=device) % len(inputs)
            rows += race(f"{name} B=16384", net, inputs[many], labels[many], repeats)
        merge("attacks_gpu" if device == "cuda" else "attacks", rows, device)


if __name__ == "__main__":
    main()
