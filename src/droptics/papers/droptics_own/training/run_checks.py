"""What claims on runs of a batch compare: torch's optimizers, runs alone, runs that did not break off."""

from __future__ import annotations

import contextlib
import math
import tempfile
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

from droptics.attacks import Fgsm, Threat
from droptics.data import Entries, Sample
from droptics.equalization import imbalance
from droptics.evidence.claims import Comparison, compare
from droptics.files.arrays import read_safetensors
from droptics.losses import Logistic
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear, Factorization, LastLayer, ReLUNet, TwoLayerLinear
from droptics.optima import certify
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import moments, normal, simplex, tensor, uniform
from droptics.training import (
    Adversarial,
    Checkpoint,
    Dropout,
    Free,
    MaxNorm,
    Penalized,
    Plain,
    Recording,
    draws,
    train,
)


def _descended(
    leaves: list[Tensor], loss: Any, sizes: list[float], optimizer: Any, decay: float, frozen: tuple[int, ...] = ()
) -> list[Tensor]:
    """Steps of a torch optimizer, one after the other."""
    parts = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    moving = [part for number, part in enumerate(parts) if number not in frozen]
    method = optimizer(moving, lr=sizes[0])
    for size in sizes:
        for group in method.param_groups:
            group["lr"] = size
        method.zero_grad()
        value = loss(*parts) + 0.5 * decay * sum(part.square().sum() for part in moving)
        value.backward()
        method.step()
    return [part.detach() for part in parts]


def _several() -> tuple[Sample, TwoLayerLinear, list[Bernoulli]]:
    """Weighed examples, two networks and a law for each."""
    data = Sample(normal(1, 6, 3), normal(2, 6, 2), weights=simplex(3, 6))
    laws = [Bernoulli(0.2, 4), Bernoulli(tensor([0.1, 0.5, 0.3, 0.6]), 4)]
    return data, TwoLayerLinear(normal(4, 2, 2, 4), normal(5, 2, 3, 4)), laws


def batched_runs(scale: float) -> list[Comparison]:
    """Runs of a batch with steps, seeds and laws of their own are those of torch's optimizers, alone and together."""
    found: list[Comparison] = []
    data, both, laws = _several()
    U, V = both.U, both.V
    sizes, decay = [0.02, 0.05], 0.3

    def clean(u: Tensor, v: Tensor) -> Tensor:
        return (data.inputs @ v @ u.mT - data.targets).square().sum(1) @ data.shares

    optimizers = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "momentum": partial(torch.optim.SGD, momentum=0.9)}
    for name, optimizer in optimizers.items():
        for frozen in ((), (0,), (1,)):
            options: dict[str, Any] = {} if name == "sgd" else {"optimizer": optimizer}
            run = train(
                both,
                data,
                Plain(),
                steps=4,
                step_size=sizes,
                decay=decay,
                schedule=lambda t: 1 / (1 + t),
                frozen=frozen,
                record=Recording(("risk",), at=(0, 3)),
                keep=(1, 2),
                **options,
            )
            assert isinstance(run.model, TwoLayerLinear)
            for i, size in enumerate(sizes):
                steps = [scale * size / (1 + t) for t in range(4)]
                wanted = _descended([U[i], V[i]], clean, steps, optimizer, decay, frozen)
                label = f"{name}, run {i}, frozen {frozen}"
                found.append(compare(run.model.U[i], "==", wanted[0], f"U, {label}"))
                found.append(compare(run.model.V[i], "==", wanted[1], f"V, {label}"))
            last = [clean(run.model.U[i], run.model.V[i]) for i in range(2)]
            found.append(compare(run.final("risk"), "==", torch.stack(last), f"recorded risk, {name}"))
            found.append(
                compare(run.history["loss"][0], "==", torch.stack([clean(U[i], V[i]) for i in range(2)]), "loss")
            )
    found += [*_without_squares(scale, both.U[:, :1], V), *_offsets(scale)]
    exact = train(
        both, data, Penalized(laws), steps=2, step_size=sizes, record=Recording(("objective", "imbalance"), at=(0,))
    )
    assert isinstance(exact.model, TwoLayerLinear)
    for i, law in enumerate(laws):
        strength = law.drop / (1 - law.drop)

        def whole(u: Tensor, v: Tensor, strength: Tensor = strength) -> Tensor:
            energy = u.square().sum(0) * ((data.inputs @ v).square() * data.shares[:, None]).sum(0)
            return clean(u, v) + strength @ energy

        wanted = _descended([U[i], V[i]], whole, [scale * sizes[i]] * 2, torch.optim.SGD, 0.0)
        found.append(compare(exact.model.U[i], "==", wanted[0], f"exact gradient, run {i}"))
        found.append(compare(exact.model.V[i], "==", wanted[1], f"exact gradient of V, run {i}"))
        found.append(compare(exact.history["objective"][0, i], "==", scale * whole(U[i], V[i]), f"objective, run {i}"))
        alone = imbalance(TwoLayerLinear(U[i], V[i]), data, law)
        found.append(compare(exact.history["imbalance"][0, i], "==", scale * alone, f"imbalance, run {i}"))
        bound = certify(TwoLayerLinear(U[i], V[i]), data, law).bound
        told = train(both, data, Penalized(laws), steps=1, step_size=1e-3, bound="certify").history["bound"]
        found.append(compare(told[:, i], "==", bound, f"certified bound, run {i}"))
    return found


def _without_squares(scale: float, U: Tensor, V: Tensor) -> list[Comparison]:
    """Plain steps of linear networks on the logistic loss, whose gradients no formula of squared loss gives."""
    signs = 1 - 2.0 * (torch.arange(6) % 2)[:, None]
    data, sizes = Sample(normal(1, 6, 3), signs.double(), weights=simplex(3, 6)), [0.02, 0.05]
    run = train(TwoLayerLinear(U, V), data, Plain(Logistic()), steps=3, step_size=sizes)

    def loss(u: Tensor, v: Tensor) -> Tensor:
        return nn.functional.softplus(-signs * (data.inputs @ v @ u.mT))[:, 0] @ data.shares

    found: list[Comparison] = []
    assert isinstance(run.model, TwoLayerLinear)
    for i in range(2):
        wanted = _descended([U[i], V[i]], loss, [scale * sizes[i]] * 3, torch.optim.SGD, 0.0)
        found.append(compare(run.model.U[i], "==", wanted[0], f"logistic loss, run {i}"))
        found.append(compare(run.model.V[i], "==", wanted[1], f"V on logistic loss, run {i}"))
    single, only = TwoLayerLinear(U[0], V[0]), Sample(data.inputs[:1], data.targets[:1])
    leaves = [part.clone().requires_grad_() for part in single.tensors]
    value = nn.functional.softplus(-signs[0] * (only.inputs @ leaves[1] @ leaves[0].mT)).sum()
    told = train(single, only, Plain(Logistic()), steps=1, step_size=0.05, batch_size=1)
    for new, old, slope in zip(told.model.tensors, leaves, torch.autograd.grad(value, leaves), strict=True):
        found.append(compare(new, "==", scale * (old - 0.05 * slope).detach(), "one example on logistic loss"))
    return found


def _offsets(scale: float) -> list[Comparison]:
    """Networks with biases, alone and two together: decay acts on their matrices alone."""
    found: list[Comparison] = []
    data = Sample(normal(1, 6, 3), normal(2, 6, 2), weights=simplex(3, 6))
    parts = [normal(4, 2, 4, 3), normal(5, 2, 2, 4), normal(6, 2, 4), normal(7, 2, 2)]
    for optimizer in (None, partial(torch.optim.SGD, momentum=0.9)):
        options: dict[str, Any] = {"steps": 3, "decay": 0.8} | ({} if optimizer is None else {"optimizer": optimizer})
        both = train(ReLUNet(parts[:2], parts[2:]), data, Plain(), step_size=[0.02, 0.05], **options).model.tensors
        for i, size in enumerate((0.02, 0.05)):
            own = [part[i] for part in parts]
            alone = train(ReLUNet(own[:2], own[2:]), data, Plain(), step_size=size, **options).model.tensors

            def decayed(W: Tensor, last: Tensor, b: Tensor, offset: Tensor) -> Tensor:
                outputs = torch.relu(data.inputs @ W.mT + b) @ last.mT + offset
                return (outputs - data.targets).square().sum(1) @ data.shares + 0.4 * sum(
                    weight.square().sum() for weight in (W, last)
                )

            wanted = _descended(own, decayed, [scale * size] * 3, optimizer or torch.optim.SGD, 0.0)
            for number, (first, second, truth) in enumerate(zip(both, alone, wanted, strict=True)):
                for told, label in ((first[i], "together"), (second, "alone")):
                    found.append(compare(told, "==", truth, f"decay, tensor {number}, run {i}, {label}"))
    return found


def guarded_runs(scale: float) -> list[Comparison]:
    """Runs with seeds and laws of their own are those alone; balls hold, and who diverges is taken out."""
    found: list[Comparison] = []
    data, both, laws = _several()
    U, V = both.U, both.V
    seeds = (7, 3)
    options: dict[str, Any] = {"steps": 3, "batch_size": 2, "step_size": 0.02, "keep": range(4)}
    joint = train(both, data, Dropout(laws), seed=seeds, **options)
    for i in range(2):
        one = train(TwoLayerLinear(U[i], V[i]), data, Dropout(laws[i]), seed=seeds[i], **options)
        for together, mine in zip(joint.iterates, one.iterates, strict=True):
            assert isinstance(together.model, TwoLayerLinear)
            assert isinstance(mine.model, TwoLayerLinear)
            found.append(compare(together.model.U[i], "==", mine.model.U, f"run {i} alone"))
            found.append(compare(together.model.V[i], "==", mine.model.V, f"first layer of run {i} alone"))
            if mine.multipliers is not None and together.multipliers is not None:
                found.append(compare(together.multipliers[i], "==", mine.multipliers, f"masks of run {i} alone"))
    ball = train(both, data, Plain(), steps=1, step_size=0.02, max_norm=MaxNorm(0.9, (1,), -2))
    assert isinstance(ball.model, TwoLayerLinear)
    plain = train(both, data, Plain(), steps=1, step_size=0.02)
    assert isinstance(plain.model, TwoLayerLinear)
    norms = plain.model.V.norm(dim=-2, keepdim=True)
    found.append(compare(ball.model.V, "==", plain.model.V * (scale * 0.9 / norms).clamp_max(1.0), "columns in a ball"))
    heavy = partial(torch.optim.SGD, momentum=0.9)
    # what momentum holds of a run that diverged in the first five steps is not finite in those after them
    cases: tuple[tuple[str, int, dict[str, Any]], ...] = (("plain", 6, {}), ("momentum", 10, {"optimizer": heavy}))
    for name, steps, options in cases:
        recording = Recording(("risk",), at=(0, 5, steps))
        with np.errstate(all="ignore"):
            wild = train(
                both,
                data,
                Plain(),
                steps=steps,
                step_size=[0.02, 1e4],
                diverging="freeze",
                record=recording,
                **options,
            )
        calm = train(TwoLayerLinear(U[0], V[0]), data, Plain(), steps=steps, step_size=0.02, **options)
        assert isinstance(wild.model, TwoLayerLinear)
        assert isinstance(calm.model, TwoLayerLinear)
        found.append(compare(wild.model.U[0], "==", calm.model.U, f"beside a run that diverged, {name}"))
        found.append(compare(sorted(wild.diverged), "==", [scale], f"the run that diverged, {name}"))
        found.append(compare(wild.final("risk")[1], "==", math.inf, f"its record, {name}"))
        found.append(compare(wild.model.U[1], "==", scale * U[1], f"its weights stay, {name}"))
    with np.errstate(all="ignore"):
        lost = train(
            TwoLayerLinear(U[1], V[1]),
            data,
            Plain(),
            steps=4,
            step_size=1e4,
            diverging="freeze",
            record=Recording(("risk", "singular_values"), at=(0, 2, 4)),
        )
    found.append(compare(lost.final("singular_values"), "==", math.inf, "records of a run that diverged alone"))
    found.append(compare(lost.history["risk"][[0, 2]], "==", [float(wild.history["risk"][0, 1]), math.inf], "its risk"))
    return found + _begun_together(scale, data)


def _begun_together(scale: float, data: Sample) -> list[Comparison]:
    """Three runs on three inputs that begin with a matrix, or biases, in common are those alone."""
    found: list[Comparison] = []
    U, V, deep = normal(4, 3, 2, 4), normal(5, 3, 4), normal(6, 3, 4, 3)
    nets = ReLUNet([deep, normal(7, 2, 4)], [normal(8, 4), normal(9, 1, 2)])
    product = Product([Bernoulli(0.1, 3), Bernoulli(0.4, 4)])
    cases: tuple[tuple[str, Any, Any, Any], ...] = (
        ("layers", TwoLayerLinear(U, V), lambda i: TwoLayerLinear(U[i], V), Bernoulli(0.4, 4)),
        ("one layer of them", TwoLayerLinear(U, V[None]), lambda i: TwoLayerLinear(U[i], V), Bernoulli(0.4, 4)),
        ("chains", DeepLinear([V.mT, U]), lambda i: DeepLinear([V.mT, U[i]]), Bernoulli(0.4, 4)),
        (
            "networks",
            nets,
            lambda i: ReLUNet([deep[i], nets.weights[1]], [nets.biases[0], nets.biases[1][0]]),
            product,
        ),
    )
    for name, together, alone, law in cases:
        for objective in (Dropout(law), Penalized(law)) if name != "networks" else (Dropout(law),):
            options: dict[str, Any] = {"steps": 2, "step_size": 0.02, "record": Recording(("risk",))}
            if isinstance(objective, Penalized):
                options["bound"] = "certify"
            joint = train(together, data, objective, seed=5, **options)
            for i in range(3):
                one = train(alone(i), data, objective, seed=5 + i, **options)
                label = f"{name}, run {i}, {type(objective).__name__}"
                for mine, other in zip(joint.model.tensors, one.model.tensors, strict=True):
                    found.append(compare(mine[i], "==", scale * other, label))
                for key in {"risk", "bound"} & set(one.history):
                    found.append(compare(joint.history[key][:, i], "==", scale * one.history[key], f"{key}, {label}"))
    return found


class _Torn:
    """A schedule that breaks off once at each of some steps, and knows which steps were asked for."""

    def __init__(self, *at: int) -> None:
        self.at, self.asked = set(at), list[int]()

    def __call__(self, step: int) -> float:
        self.asked.append(step)
        if step in self.at:
            self.at.remove(step)
            raise InterruptedError
        return 1 / (1 + step / 50)


def _finished(
    scale: float, path: Path, model: Any, data: Any, objective: Any, options: dict[str, Any]
) -> list[Comparison]:
    """The end of a run is written however short the time since the last file, and another call begins there."""
    ends: list[Any] = []
    for schedule in (_Torn(), late := _Torn()):
        ends.append(train(model, data, objective, schedule=schedule, checkpoint=Checkpoint(path, 1e6), **options))
    return [
        same(sorted(set(late.asked)), [0, 10, 20], "of a finished run only the records' steps are asked for"),
        compare(ends[1].model.U, "==", scale * ends[0].model.U, "weights of a finished run"),
    ]


def _of_others(path: Path) -> list[Comparison]:
    """A file is taken up by the same training alone: not by one that differs in a number of what it is given."""
    data, both, laws = _several()
    U, V = both.U[0], both.V[0]
    options: dict[str, Any] = {"steps": 4, "step_size": 0.02, "batch_size": 2, "record": Recording(("risk",), at=(0,))}

    def again(objective: Any = None, rows: Any = data, start: Any = None, **more: Any) -> Any:
        begin, masked = start or TwoLayerLinear(U, V), objective or Dropout(laws[1])
        return train(begin, rows, masked, checkpoint=path, **{**options, **more})

    inputs, targets, last = data.inputs.clone(), data.targets.clone(), V.clone()
    inputs[-1, -1] += 1e-9
    targets[-1, -1] += 1e-9
    last[-1, -1] += 1e-9
    rates = laws[1].drop.flip(0)
    others: dict[str, dict[str, Any]] = {
        "weights": {"start": TwoLayerLinear(U, last)},
        "inputs": {"rows": Sample(inputs, data.targets, data.weights)},
        "targets": {"rows": Sample(data.inputs, targets, data.weights)},
        "weights of examples": {"rows": Sample(data.inputs, data.targets)},
        "rates": {"objective": Dropout(Bernoulli(rates, 4))},
        "sharing": {"objective": Dropout(laws[1], per="step")},
        "objective": {"objective": Plain()},
        "step size": {"step_size": 0.03},
        "steps": {"steps": 5},
        "seed": {"seed": 1},
        "batches": {"batch_size": 3},
        "schedule": {"schedule": lambda t: 1 / (1 + t)},
        "convention": {"convention": "pal2020"},
        "decay": {"decay": 0.1},
        "balls": {"max_norm": MaxNorm(0.9)},
        "frozen": {"frozen": (1,)},
        "kept": {"keep": (1,)},
        "optimizer": {"optimizer": torch.optim.Adam},
        "gap": {"stop_gap": 0.1, "bound": 0.1},
        "records": {"record": Recording(("risk", "objective"), at=(0,))},
    }
    first = again()
    found = [compare(again().model.U, "==", first.model.U, "the same training")]
    found += [refuses(lambda more=more: again(**more), "another training", name) for name, more in others.items()]
    return found


def resumed_runs(scale: float) -> list[Comparison]:
    """A run that broke off goes on from its checkpoint as if it had not: weights, moments, draws and records."""
    found: list[Comparison] = []
    size = 8
    data = Sample(normal(1, 40, 3), normal(2, 40, 2), weights=simplex(3, 40))
    rows = torch.arange(40) % 5
    cells = Entries(rows, torch.arange(40) // 5, normal(3, 40), (5, 8))
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(3, size), nn.BatchNorm1d(size), nn.Tanh(), nn.Linear(size, 2)).double()
    cases: tuple[tuple[str, Any, Any, Any, dict[str, Any]], ...] = (
        ("adam", TwoLayerLinear(normal(4, 2, size), normal(5, 3, size)), data, Dropout(Bernoulli(0.3, size)), {}),
        (
            "batch",
            TwoLayerLinear(normal(4, 2, 2, size), normal(5, 2, 3, size)),
            moments(6, 2, 3),
            Dropout([Bernoulli(0.3, size), Bernoulli(0.5, size)]),
            {"keep": (0, 5, 13)},
        ),
        ("entries", Factorization(normal(7, 5, size), normal(8, 8, size)), cells, Dropout(Bernoulli(0.4, size)), {}),
        ("module", LastLayer.of(module), data, Dropout(Bernoulli(0.2, size)), {}),
        (
            "attack",
            ReLUNet([normal(1, 4, 3), normal(2, 2, 4)], [normal(3, 4), normal(4, 2)]),
            Sample(uniform(9, 600, 3), torch.arange(600) % 2),
            Adversarial(Threat("linf", 0.05), Fgsm()),
            {},
        ),
        (
            "exact",  # along the gradient of the mean over all masks
            TwoLayerLinear(normal(4, 2, size), normal(5, 3, size)),
            data,
            Penalized(Bernoulli(0.3, size)),
            {"batch_size": None},
        ),
        (
            "single",
            TwoLayerLinear(normal(4, 2, size - 1), normal(5, 3, size - 1)),
            data,
            Dropout(Bernoulli(0.3, size - 1)),
            {"batch_size": 1},
        ),
        (
            "diverging",  # a run that is taken out stays out
            TwoLayerLinear(normal(4, 2, 2, size), normal(5, 2, 3, size)),
            data,
            Dropout(Bernoulli(0.3, size)),
            {"step_size": [0.01, 1e4], "diverging": "freeze"},
        ),
        (
            "free",  # what the inputs have moved by is handed on as well
            ReLUNet([normal(1, 4, 3), normal(2, 2, 4)], [normal(3, 4), normal(4, 2)]),
            Sample(uniform(9, 600, 3), torch.arange(600) % 2),
            Free(Threat("linf", 0.05), 2, 0.02),
            {},
        ),
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, model, known, objective, more in cases if scale == 1 else cases[:2]:
            plain = name in ("batch", "single", "diverging")
            optimizer: dict[str, Any] = {} if plain else {"optimizer": torch.optim.Adam}
            options: dict[str, Any] = {
                "steps": 20,
                "batch_size": 64,
                "step_size": 0.01,
                "seed": 5,
                "record": Recording(("risk",), at=(0, 10, 20)),
                **optimizer,
                **more,
            }
            with mock.patch.object(draws, "LONGEST", 8):  # so that draws come in several chunks
                whole = train(model, known, objective, schedule=_Torn(), **options)
                path = Path(folder) / f"{name}.safetensors"
                where, torn = Checkpoint(path, 0.0), _Torn(13, 18)
                for _ in range(2):
                    with contextlib.suppress(InterruptedError):
                        train(model, known, objective, schedule=torn, checkpoint=where, **options)
                    found.append(compare(float(path.exists()), "==", 1.0, f"a checkpoint, {name}"))
                    torn.asked.clear()
                if name == "single":  # seven units in eight rows, as in every file so far
                    rows = read_safetensors(path)[0]["engine.weights.0"].shape[1]
                    found.append(same(rows, size, "an even number of rows in a checkpoint", scale))
                rest = train(model, known, objective, schedule=torn, checkpoint=where, **options)
            found.append(compare(float(1 in torn.asked), "==", 0.0, f"early steps are not taken again, {name}"))
            if name == "single":
                found += _finished(scale, Path(folder) / "finished.safetensors", model, known, objective, options)
            told, wanted = ((run.steps, run.stopped, run.engine, run.seeds, run.diverged) for run in (rest, whole))
            found.append(same(told, wanted, f"what it says of itself, {name}"))
            found.append(same(len(rest.diverged), int(name == "diverging"), f"runs that diverged, {name}", scale))
            if isinstance(known, Sample):
                outputs = [run.model.outputs(known.inputs) for run in (rest, whole)]
                found.append(compare(outputs[0], "==", scale * outputs[1], f"outputs, {name}"))
            for number, (one, other) in enumerate(zip(rest.model.tensors, whole.model.tensors, strict=True)):
                found.append(compare(one, "==", scale * other, f"tensor {number}, {name}"))
            for key in whole.history:
                found.append(compare(rest.history[key], "==", scale * whole.history[key].double(), f"{key}, {name}"))
            for kept, own in zip(rest.iterates, whole.iterates, strict=True):
                found.append(compare(kept.step, "==", own.step, f"kept step, {name}"))
                if own.multipliers is not None:
                    assert kept.multipliers is not None
                    found.append(compare(kept.multipliers, "==", own.multipliers, f"kept masks, {name}"))
                for mine, theirs in zip(kept.model.tensors, own.model.tensors, strict=True):
                    found.append(compare(mine, "==", theirs, f"kept weights, {name}"))
        found += _of_others(Path(folder) / "other.safetensors")
    steps = whole.history["step"].tolist()
    counts = np.diff(steps)
    weighed = torch.tensordot(torch.from_numpy(counts).double(), whole.history["loss"][1:], 1) / counts.sum()
    found.append(compare(whole.mean_loss(0, steps[-1]), "==", scale * weighed, "mean loss between records"))
    found.append(compare(whole.mean_loss(0, 0), "==", whole.history["loss"][0], "loss of the first step"))
    return found
