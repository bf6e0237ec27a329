"""Attacks against foolbox, the Adversarial Robustness Toolbox and torchattacks: same models, radius and steps.

Models: MLP 784-100-10 and a small CNN on scikit-learn's digits enlarged to 28 x 28, trained plainly and against linf
perturbations (seed 0). Every PGD takes at most 40 steps from the input itself, batch 1000, in one process on one
thread. "equal steps" gives ours the step size of the others, "default steps" our decaying ones. The agreement column
holds the robust accuracies: ours must not be above any of the others, since it must find at least as many examples.
Also: FGSM and BIM of ours and of foolbox are the same images.

Needs foolbox, adversarial-robustness-toolbox and torchattacks; those that cannot be imported are left out.
"""

# ruff: noqa: PLC0415
from __future__ import annotations

import sys
from collections.abc import Callable

from harness import Row, compare, report  # first: it sets the number of threads

import numpy as np  # isort: skip
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from droptics.attacks import Bim, CrossEntropy, Fgsm, Pgd, Reflected, Threat, attack, perturb
from droptics.data import Sample

SETTINGS = {"linf": (0.1, 0.01), "l2": (2.0, 0.2)}
STEPS, BATCH = 40, 1000


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
        for rows in torch.randperm(len(inputs)).split(64):
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
        from art.attacks.evasion import ProjectedGradientDescentPyTorch
        from art.estimators.classification import PyTorchClassifier

        classifier = PyTorchClassifier(
            net, nn.CrossEntropyLoss(), (1, 28, 28), 10, clip_values=(0.0, 1.0), device_type="cpu"
        )
        order = np.inf if norm == "linf" else 2
        options = {"eps": radius, "eps_step": step, "max_iter": STEPS, "batch_size": BATCH, "verbose": False}
        toolbox = ProjectedGradientDescentPyTorch(classifier, norm=order, num_random_init=0, **options)
        found["ART"] = lambda x, y: torch.from_numpy(toolbox.generate(x.numpy(), y.numpy()))
    except ImportError as error:
        print(f"ART left out: {error}", file=sys.stderr)
    return found


def accuracy(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    return float((net(images).argmax(1) == labels).float().mean())


def race(name: str, net: nn.Module, inputs: Tensor, labels: Tensor, repeats: int) -> list[Row]:
    rows = []
    for norm, (radius, step) in SETTINGS.items():
        threat = Threat(norm, radius, (0, 1))
        mine = {
            "equal steps": Pgd(steps=STEPS, step=step),
            "default steps": Pgd(steps=STEPS),
            "reflected": Pgd(Reflected(CrossEntropy()), steps=STEPS),
        }
        for rival, theirs in rivals(net, norm).items():
            bar = accuracy(net, theirs(inputs, labels), labels)
            for label, method in mine.items():
                if label == "reflected" and rival != "torchattacks":
                    continue  # which of the others is fastest depends on the network; one comparison is enough here

                def ours(method: Pgd = method, threat: Threat = threat) -> object:
                    return attack(net, Sample(inputs, labels), threat, method)

                reached = accuracy(net, attack(net, Sample(inputs, labels), threat, method).inputs, labels)
                times = compare(ours, lambda theirs=theirs: theirs(inputs, labels), repeats)
                verdict = "not more robust" if reached <= bar else "WEAKER"
                speed = f"{BATCH / times[0]:.0f} img/s"
                agreement = f"robust accuracy {reached:.3f} / {bar:.3f}: {verdict}"
                rows.append(Row(f"{name} PGD-{norm} {label} vs {rival}", *times, agreement, speed))
    return rows


def same_images(net: nn.Module, inputs: Tensor, labels: Tensor, repeats: int) -> list[Row]:
    """FGSM and BIM with equal settings give foolbox's images."""
    try:
        import foolbox
    except ImportError:
        return []
    model = foolbox.PyTorchModel(net, bounds=(0, 1))
    l2 = Threat("l2", 2.0, (0, 1))
    linf = Threat("linf", 0.1, (0, 1))
    kinds = foolbox.attacks
    rows = []
    for label, threat, method, theirs in (
        ("FGSM linf", linf, Fgsm(), kinds.LinfFastGradientAttack()),
        ("FGSM l2", l2, Fgsm(), kinds.L2FastGradientAttack()),
        ("BIM linf", linf, Bim(steps=10, step=0.02), kinds.LinfBasicIterativeAttack(abs_stepsize=0.02, steps=10)),
        ("BIM l2", l2, Bim(steps=10, step=0.4), kinds.L2BasicIterativeAttack(abs_stepsize=0.4, steps=10)),
    ):

        def alternative(theirs: object = theirs, threat: Threat = threat) -> Tensor:
            return theirs(model, inputs, labels, epsilons=threat.radius)[1]  # type: ignore[operator, no-any-return]

        def ours(threat: Threat = threat, method: Fgsm | Bim = method) -> object:
            return attack(net, Sample(inputs, labels), threat, method)

        gap = (attack(net, Sample(inputs, labels), threat, method).inputs - alternative()).abs().max()
        rows.append(Row(f"{label} vs foolbox", *compare(ours, alternative, repeats), f"largest difference {gap:.1e}"))
    return rows


NETWORKS = {
    "standard MLP": (mlp, 30, None, 5),
    "robust MLP": (mlp, 30, Bim(steps=7, step=0.025), 5),
    "standard CNN": (cnn, 10, None, 1),
    "robust CNN": (cnn, 10, Bim(steps=5, step=0.03), 1),
}


def main() -> None:
    """Race on the networks named on the command line, by default on all; the file is written after each of them."""
    torch.set_num_threads(1)
    inputs, labels = digits()
    some, classes = inputs[:BATCH], labels[:BATCH]
    rows: list[Row] = []
    for name in sys.argv[1:] or NETWORKS:
        build, epochs, method, repeats = NETWORKS[name]
        torch.manual_seed(0)
        net = trained(build(), inputs, labels, epochs, method)
        if not rows:
            rows += same_images(net, some, classes, repeats)
        rows += race(name, net, some, classes, repeats)
        report("attacks", rows)


if __name__ == "__main__":
    main()
