"""The experiments of chapter 6 at small sizes, and the full grid."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch.nn import functional

from droptics.attacks import CrossEntropy, Reflected, Threat
from droptics.attacks.gradients import Autograd
from droptics.data import Sample
from droptics.datasets import cifar10
from droptics.papers.thesis import chapter6_color, chapter6_curves
from droptics.papers.thesis import chapter6_experiments as chapter6
from droptics.papers.thesis.chapter6_color import Frozen, Trained, cifar_run, climbed, hardened, recorded
from droptics.papers.thesis.chapter6_networks import preact_resnet18, small_cnn


def zeros_and_ones() -> tuple[Sample, Sample]:
    """The 0 and 1 of scikit-learn's digits: a stand-in for MNIST that is always here."""
    digits = load_digits()
    chosen = digits.target < 2
    inputs = torch.tensor(digits.data[chosen] / 16, dtype=torch.float32)
    targets = torch.tensor(digits.target[chosen] * 2.0 - 1.0, dtype=torch.float32)
    return Sample(inputs[:240], targets[:240]), Sample(inputs[240:], targets[240:])


SMALL = {"epochs": 6, "width": 30, "train_steps": 8, "test_steps": 15, "linf": 0.1, "l2": 0.8, "rate": 0.2}


def brute_force(points: int, budget: float, counts: tuple[int, ...]) -> dict[str, object]:
    axis = np.linspace(-0.51, 0.51, points)
    delta = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    delta = delta[(delta**2).sum(1) <= budget**2]
    z = delta + np.array([3.0, 2.0, 1.0])
    flips = z[:, 1:].max(1) > z[:, 0]
    total = np.log(np.exp(z).sum(1))
    scores = {
        "cross-entropy": total - z[:, 0],
        "log-likelihood of the best wrong class": z[:, 1:].max(1) - total,
        "-CE(-z)": -(np.log(np.exp(-z).sum(1)) + z[:, 0]),
        "best wrong logit": z[:, 1:].max(1),
        "margin": -np.log1p(np.exp(z[:, 0] - z[:, 1:].max(1))),
    }
    forms = {name: {k: int(flips[np.argsort(-score)[:k]].sum()) for k in counts} for name, score in scores.items()}
    return {"feasible": len(delta), "flipping": int(flips.sum()), "forms": forms}


def test_grid_search_equals_sorting_everything() -> None:
    """Claim: thesis-fig6-2 at 81^3 and a budget with 14 flips, where brute force fits into memory."""
    ours = chapter6.grid_search(81, budget=0.714, counts=(10, 20))
    expected = brute_force(81, 0.714, (10, 20))
    assert ours["flipping"] == 14
    assert abs(ours["feasible"] - expected["feasible"]) <= 48  # points on the sphere itself, decided by rounding
    assert ours["forms"]["margin"] == expected["forms"]["margin"] == {10: 10, 20: 14}
    assert ours["forms"]["cross-entropy"] == expected["forms"]["cross-entropy"]
    assert ours["forms"]["log-likelihood of the best wrong class"][20] == 5
    with pytest.raises(ValueError, match="points must be"):
        chapter6.grid_search(1)


@pytest.mark.slow
def test_full_grid() -> None:
    """800^3 points: only the margin form puts the flipping perturbations first."""
    result = chapter6.grid_search(800)
    assert result["feasible"] == 487_799_080
    assert result["flipping"] == 172
    for form, counts in result["forms"].items():
        assert counts == ({10: 10, 100: 100, 1000: 172} if form == "margin" else {10: 0, 100: 0, 1000: 0})


def test_loss_curves_enclose_the_zero_one_loss() -> None:
    curves = {name: np.array(values) for name, values in chapter6.loss_curves(41).items()}
    assert (curves["logistic, base 2"] >= curves["zero-one"]).all()
    assert (curves["reflected, base 2"] <= curves["zero-one"]).all()
    np.testing.assert_allclose(curves["reflected, base 2"], -curves["logistic, base 2"][::-1])


def test_target_counterexample_by_hand() -> None:
    result = chapter6.target_counterexample()
    assert result["margins"]["greedy"] == pytest.approx(0.7)
    assert result["margins"]["nearest"] == pytest.approx(2 - 0.3 * math.sqrt(104))
    assert result["exact"] == pytest.approx(result["margins"]["nearest"])
    assert result["distances"] == pytest.approx({"class 2": 1.0, "class 3": 2 / math.sqrt(104)})


def test_greedy_targets_fail_on_random_linear_models() -> None:
    result = chapter6.target_rules(seed=1)
    assert 0.1 < result["greedy is not nearest"] < 0.4
    assert 0.02 < result["greedy cannot succeed"] < 0.2


def test_binary_table_has_the_equal_columns_of_the_paper() -> None:
    """Claim: thesis-tab6-1. FGSM = R-FGSM and BIM = R-BIM exactly; the reflected raw attack is never the weaker one."""
    train, test = zeros_and_ones()
    rows = chapter6.binary_table(train, test, seeds=(0,), trainings=("standard", "R-PGD-2"), **SMALL)
    for row in rows:
        mean = row["mean"]
        assert mean["FGSM"] == mean["R-FGSM"]
        assert mean["BIM"] == mean["R-BIM"]
        assert mean["R-PGD-2"] >= mean["PGD-2"]
        assert all(mean["clean"] <= mean[name] for name in chapter6.ATTACKS)
        assert mean["clean"] < 0.1
    again = chapter6.binary_run(train, test, "standard", seed=0, **SMALL)
    assert again == chapter6.binary_run(train, test, "standard", seed=0, **SMALL)
    with pytest.raises(ValueError, match="training must be one of"):
        chapter6.binary_run(train, test, "hope", seed=0)


def test_robustness_curves_rise_and_rank_the_attacks() -> None:
    train, test = zeros_and_ones()
    radii = [0.0, 0.4, 0.8, 1.6, 3.0]
    options = {"epochs": 4, "width": 30, "train_steps": 6}
    rows = chapter6.robustness_curves(train, test, radii, seed=0, trainings=("standard",), test_steps=15, **options)
    curves = {row["attack"]: row["errors"] for row in rows}
    assert curves["normalized"][0] == curves["raw"][0]
    assert curves["normalized"][-1] > 0.5
    assert all(a <= b + 0.02 for a, b in zip(curves["normalized"], curves["normalized"][1:], strict=False))
    assert all(weak <= strong + 0.02 for weak, strong in zip(curves["raw"], curves["normalized"], strict=True))


def test_networks_have_the_right_shapes() -> None:
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    thin = preact_resnet18(width=4)
    assert thin(images).shape == (2, 10)
    assert small_cnn()(images).shape == (2, 10)
    # 11 171 146 weights are usually given for this network, without the last normalization of 2 * 512.
    assert sum(p.numel() for p in preact_resnet18().parameters()) == 11_171_146 + 1024
    convolutions = [m for m in thin.modules() if isinstance(m, torch.nn.Conv2d) and m.kernel_size == (3, 3)]
    assert len(convolutions) == 17


def test_color_images_smoke() -> None:
    """Two classes of colored noise are learned; the same seed gives the same numbers."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(200) % 2
    images = 0.3 * torch.rand(200, 3, 32, 32, generator=generator)
    images[labels == 1, 0] += 0.5
    train, test = Sample(images[:160], labels[:160]), Sample(images[160:], labels[160:])
    options = {"radius": 0.05, "steps": 2, "network": "small", "epochs": 2, "batch": 20, "test_steps": 4, "restarts": 2}
    result = cifar_run(train, test, reflected=True, seed=0, **options)
    assert result["standard accuracy"] > 0.9
    assert 0.8 < result["robust accuracy"] <= result["standard accuracy"]
    assert result == cifar_run(train, test, reflected=True, seed=0, **options)


def test_training_climbs_by_sign_steps_from_a_random_start() -> None:
    """On scores linear in the images: every step adds the sign of the slope, cut to the ball and to the box."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(3, 12, generator=generator)
    images, labels = torch.rand(4, 3, 2, 2, generator=generator), torch.tensor([0, 1, 2, 0])
    region = Threat("linf", 0.1, (0.0, 1.0)).around(images)
    start, passes = region.random(generator), []

    def scores(points: torch.Tensor) -> torch.Tensor:
        passes.append(points)
        return points.flatten(1) @ weights.mT

    for loss in (CrossEntropy(), Reflected(CrossEntropy(), "greedy")):
        passes.clear()
        found = climbed(Autograd(scores), region, start.clone(), labels, loss, [0.07, 0.02])
        assert len(passes) == 2
        for image, point, begin, label in zip(images, found, start, labels, strict=True):
            here = begin.flatten()
            for size in (0.07, 0.02):
                values = weights @ here
                chances = values.softmax(0)
                likely = max((j for j in range(3) if j != label), key=lambda j: values[j])
                slope = (
                    chances @ weights - weights[label] if loss == CrossEntropy() else weights[likely] - weights[label]
                )
                moved = (here + size * slope.sign()).clamp(min=image.flatten() - 0.1, max=image.flatten() + 0.1)
                here = moved.clamp(0, 1)
            torch.testing.assert_close(point.flatten(), here)


def test_the_rate_and_the_momentum_are_those_of_a_cyclic_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside torch's own schedule, to within half a step of it: ours is taken in the middle of a step."""
    seen: list[tuple[float, float]] = []
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.2, momentum=0.9)

    class Watched(torch.optim.SGD):
        def step(self, closure=None):  # type: ignore[no-untyped-def,override]
            seen.append((self.param_groups[0]["lr"], self.param_groups[0]["momentum"]))
            return super().step(closure)

    monkeypatch.setattr(torch.optim, "SGD", Watched)
    data = Sample(torch.rand(40, 3, 32, 32, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 10)
    hardened(data, reflected=False, radius=0.1, steps=1, seed=0, network="small", epochs=10, batch=10)
    schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.0, 0.2, step_size_up=20, step_size_down=20)
    assert len(seen) == 40
    for rate, momentum in seen:
        group = optimizer.param_groups[0]
        assert abs(rate - group["lr"]) <= 0.2 / 40 + 1e-12
        assert abs(momentum - group["momentum"]) <= 0.1 / 40 + 1e-12
        optimizer.step()
        schedule.step()


def test_the_standard_accuracy_is_that_of_all_images_the_robust_one_of_the_attacked(monkeypatch) -> None:
    """A network that names the first class: of the first images half are right, of all three quarters."""
    labels = torch.tensor([0, 1] * 4 + [0] * 8)
    data = Sample(torch.rand(16, 3, 4, 4, generator=torch.Generator().manual_seed(0)), labels)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 10))
    with torch.no_grad():
        net[1].weight.mul_(1e-6)  # something to climb
        net[1].bias.copy_(torch.arange(10, 0, -1.0))
    monkeypatch.setattr(chapter6_color, "hardened", lambda *given, **named: net)
    result = cifar_run(data, data, radius=0.1, seed=0, test_steps=2, restarts=1, attacked=8)
    assert (result["robust accuracy"], result["standard accuracy"]) == (0.5, 0.75)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_attack_sees_the_network_that_is_trained(dtype: torch.dtype) -> None:
    """Outputs and image gradients are those of autocast, to the last bit, once the weights were rounded again."""
    torch.manual_seed(0)
    net, images = preact_resnet18(width=4), torch.rand(5, 3, 32, 32)
    trained, frozen = Trained(net, dtype), Frozen(net, dtype)

    def passes() -> list[tuple[torch.Tensor, torch.Tensor]]:
        leaves = [images.clone().requires_grad_() for _ in range(2)]
        scores = [function(leaf) for function, leaf in zip((trained, frozen), leaves, strict=True)]
        return [(z.detach(), torch.autograd.grad(z.square().sum(), x)[0]) for z, x in zip(scores, leaves, strict=True)]

    def same() -> bool:
        return all(torch.equal(a, b) for a, b in zip(*passes(), strict=True))

    assert same()
    functional.cross_entropy(trained(images), torch.arange(5)).backward()
    torch.optim.SGD(net.parameters(), lr=0.5).step()
    assert not same()
    frozen.refresh()
    assert same()
    statistics = [part.running_mean.clone() for part in net.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    frozen(images)
    moved = [part.running_mean for part in net.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    assert not any(torch.equal(a, b) for a, b in zip(statistics, moved, strict=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_recorded_passes_are_the_passes_themselves() -> None:
    """Also for gradients, after the weights changed, and for a batch of another size."""
    torch.manual_seed(0)
    net, images = preact_resnet18(width=16).cuda(), torch.rand(8, 3, 32, 32).cuda()
    trained, frozen = Trained(net, torch.float32), Frozen(net, torch.float32)
    descend, climb = recorded(trained, images.clone()), recorded(frozen, images.clone().requires_grad_())
    for count in (8, 8, 5):
        some = torch.rand(count, 3, 32, 32).cuda().requires_grad_()
        frozen.refresh()
        (slope,), (expected,) = (torch.autograd.grad(f(some).square().sum(), some) for f in (climb, frozen))
        torch.testing.assert_close(slope, expected, rtol=1e-2, atol=1e-2 * float(expected.abs().max()))
        found = []
        for function in (trained, descend):
            net.zero_grad()
            function(some.detach()).square().sum().backward()
            found.append([weight.grad.clone() for weight in net.parameters()])
        for ours, theirs in zip(*found, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-2 * float(theirs.abs().max()))
        torch.optim.SGD(net.parameters(), lr=0.01).step()


@pytest.mark.slow
def test_cifar_smoke() -> None:
    folder = os.environ.get("DROPTICS_DATA")
    if not folder or not Path(folder, "cifar10").exists():
        pytest.skip("CIFAR-10 is not here: set DROPTICS_DATA to the folder that holds cifar10/")
    images, labels = cifar10(folder, "test")
    inputs = images[:500].float() / 255
    train, test = Sample(inputs[:400], labels[:400]), Sample(inputs[400:], labels[400:500])
    options = {"radius": 2 / 255, "steps": 2, "network": "small", "epochs": 2, "batch": 50, "test_steps": 5}
    result = cifar_run(train, test, reflected=True, seed=0, restarts=1, **options)
    assert 0 <= result["robust accuracy"] <= result["standard accuracy"]
    assert result["standard accuracy"] > 0.1  # a tenth by chance


def test_robustness_curves_are_a_figure(tmp_path: Path) -> None:
    """Rows of a made-up run: the comparisons see a curve that falls and a weak attack that leads."""
    (figure,) = chapter6_curves.FIGURES
    radii, good = [0.0, 1.0, 2.0], [0.0, 0.2, 0.5]

    def rows(normalized: list[float], raw: list[float]) -> list[dict[str, object]]:
        curves = {"normalized": normalized, "raw": raw, "raw, reflected": normalized}
        return [
            {"training": training, "attack": attack, "radius": radius, "error": error * scale}
            for training, scale in (("standard", 1.0), ("PGD-2", 0.5), ("R-PGD-2", 0.5))
            for attack, errors in curves.items()
            for radius, error in zip(radii, errors, strict=True)
        ]

    assert all(item.comparison.holds for item in figure.expects(rows(good, [0.0, 0.0, 0.02]), "paper"))
    assert not all(item.comparison.holds for item in figure.expects(rows(good, [0.0, 0.4, 0.5]), "paper"))
    assert not all(item.comparison.holds for item in figure.expects(rows([0.0, 0.5, 0.2], good), "paper"))
    figure.draw(rows(good, good), tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 5_000
    assert [cell.parameters["training"] for cell in figure.cells("paper")] == ["standard", "PGD-2", "R-PGD-2"]
