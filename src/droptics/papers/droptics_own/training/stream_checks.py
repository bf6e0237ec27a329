"""What training draws, and the weights that it reaches with every option, beside the same steps written out."""

from __future__ import annotations

import math
from typing import Any

import torch

from droptics.data import Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear, TwoLayerLinear
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.instances import moments, normal, simplex, tensor
from droptics.training import Dropout, MaxNorm, Plain, train
from droptics.training.draws import Stream
from droptics.training.random_numbers import INPUTS, Counted
from droptics.training.schedules import Cosine, Inverse, Staircase, log_steps, with_previous


def streams_in_full(scale: float) -> list[Comparison]:
    """Draws of every source, and trained weights step by step."""
    return by_parts((_streams, _trained), scale)


def _streams(scale: float) -> list[Comparison]:
    """How far ahead training draws, and populations whose examples have the given moments."""
    found: list[Comparison] = []
    data = Sample(normal(1, 9, 3), normal(2, 9, 2))
    cpu = torch.device("cpu")
    for share, batch, numbers in (
        ("step", 4, 5 + 4 * 5),
        ("example", 4, 4 * 5 + 4 * 5),
        ("step", None, 5),
        ("example", None, 45),
    ):
        objective = Dropout(Bernoulli(0.3, 5), per=share)  # type: ignore[arg-type]
        stream = Stream(data, objective, [1, 2], batch, cpu)
        found.append(
            compare(stream.length, "==", scale * max(1, min(256, 2**16 // numbers)), f"ahead, {share}, {batch}")
        )
        draws = stream.next(3)
        assert draws.multipliers is not None
        rows = 1 if share == "step" else (batch or 9)
        shape = [2, stream.length, rows, 5]
        found.append(
            compare(
                list(draws.multipliers.shape),
                "==",
                tensor([float(one) for one in shape]) * scale,
                f"masks, {share}, {batch}",
            )
        )
        kept = draws.multipliers[draws.multipliers != 0]
        found.append(compare(kept, "==", scale / 0.7, f"rescaled, {share}, {batch}"))
        fallen = (draws.multipliers == 0).double().flatten(0, -2).mean(0)
        error = 6 * math.sqrt(0.3 * 0.7 / (draws.multipliers.numel() / 5))
        found.append(compare((fallen - 0.3).abs(), "<=", error, f"how often a unit falls, {share}, {batch}", 0.0))
    plain = Stream(data, Dropout(Bernoulli(0.3, 5), scaled=False), [1], 2, cpu).next(1)
    assert plain.multipliers is not None
    found.append(compare(plain.multipliers.max(), "==", scale, "not rescaled"))
    for counted in (False, True):
        known = moments(3, 2, 3)
        stream = Stream(known, Plain(), [5], 2000, cpu, counted)
        draws = stream.next(1)
        assert draws.inputs is not None
        assert draws.targets is not None
        x, y = draws.inputs[0].flatten(0, 1), draws.targets[0].flatten(0, 1)
        error = 6 / len(x) ** 0.5
        found.append(
            compare(
                (x.mT @ x / len(x) - scale * known.xx).abs().max(),
                "<=",
                error * known.xx.abs().max(),
                f"inputs, {counted}",
                0.0,
            )
        )
        found.append(
            compare(
                (y.mT @ x / len(x) - scale * known.yx).abs().max(),
                "<=",
                error * float((known.yy.diagonal().max() * known.xx.diagonal().max()).sqrt()),
                f"cross, {counted}",
                0.0,
            )
        )
        found.append(
            compare(
                (y.mT @ y / len(y) - scale * known.yy).abs().max(),
                "<=",
                2 * error * known.yy.abs().max(),
                f"targets, {counted}",
                0.0,
            )
        )
    return [*found, *_in_turn(scale), *_by_weight(scale)]


def _in_turn(scale: float) -> list[Comparison]:
    """Counted draws of a stream in stretches of any length are those of its steps, in order."""
    found: list[Comparison] = []
    law, cpu = Bernoulli(0.3, 5), torch.device("cpu")
    for kind, data in (
        ("examples", Sample(normal(1, 9, 3), normal(2, 9, 2))),
        ("fresh", Moments.of_map(normal(3, 2, 3))),
    ):
        stream = Stream(data, Dropout(law), [4, 7], 2, cpu, True)
        parts = [stream.next(steps) for steps in (4, 2, 1)]
        late = Stream(data, Dropout(law), [4, 7], 2, cpu, True)
        late.restore(4, *stream.state())  # as if it had been written after the first stretch
        again = late.next(2)
        for name in ("inputs", "multipliers"):
            found.append(compare(getattr(again, name), "==", scale * getattr(parts[1], name), f"{name} later, {kind}"))
        numbers = Counted([4, 7], cpu)
        masks = numbers.masks([law, law], 0, 7, 2, True, torch.float64)
        told = torch.cat([part.multipliers for part in parts if part.multipliers is not None], 1)
        found.append(compare(told, "==", scale * masks, f"masks in turn, {kind}"))
        inputs = torch.cat([part.inputs for part in parts if part.inputs is not None], 1)
        if isinstance(data, Sample):
            rows = data.inputs[numbers.choice(0, 7, 2, 9, None)]
        else:
            rows = numbers.normal(INPUTS, 0, 7, (2, 3), data.xx)
        found.append(compare(inputs, "==", scale * rows, f"inputs in turn, {kind}"))
    return found


def _by_weight(scale: float) -> list[Comparison]:
    """Batches of weighed examples draw them by their weights, of any sum, with their own targets."""
    found: list[Comparison] = []
    shares = simplex(3, 6)
    data = Sample(torch.arange(6.0).double()[:, None], 10 * torch.arange(6.0).double()[:, None], 7 * shares)
    for counted in (False, True):
        draws = Stream(data, Plain(), [4, 7], 50, torch.device("cpu"), counted).next(200)
        assert draws.inputs is not None
        assert draws.targets is not None
        chosen = draws.inputs[:, :200].flatten(1)
        hits = (chosen[:, :, None] == torch.arange(6)).double().mean(1)
        error = 5 * 0.5 / 10000**0.5
        found.append(compare(hits, "==", scale * shares, f"examples by weight, counted {counted}", error))
        found.append(compare(draws.targets, "==", 10 * scale * draws.inputs, f"their targets, counted {counted}"))
    return found


def _trained(scale: float) -> list[Comparison]:
    """Weights after some steps with every option, by autograd on the same draws."""
    found: list[Comparison] = []
    data = Sample(normal(1, 9, 3), normal(2, 9, 2), 3 * simplex(3, 9))
    two = TwoLayerLinear(0.5 * normal(4, 2, 5), 0.5 * normal(5, 3, 5))
    deep = DeepLinear([0.5 * normal(6, 5, 3), 0.5 * normal(7, 4, 5), 0.5 * normal(8, 2, 4)])
    pair = Product([Bernoulli(0.3, 5), Bernoulli(0.4, 4)])
    cases: tuple[tuple[str, Any, Any, dict[str, Any]], ...] = (
        ("plain", two, Dropout(Bernoulli(0.3, 5)), {}),
        ("batches", two, Dropout(Bernoulli(0.3, 5), per="step"), {"batch_size": 4}),
        ("masks each", two, Dropout(Bernoulli(0.3, 5), per="example"), {"batch_size": 4, "decay": 0.1}),
        ("frozen", two, Dropout(Bernoulli(0.3, 5)), {"frozen": (1,), "schedule": Inverse(2.0)}),
        ("norms", deep, Dropout(pair), {"max_norm": MaxNorm(0.4, (0, 2)), "schedule": Cosine(8)}),
        (
            "columns",
            deep,
            Dropout(pair, scaled=False),
            {"max_norm": MaxNorm(0.5, (1,), -2), "schedule": Staircase(2, 0.5)},
        ),
        ("adam", two, Dropout(Bernoulli(0.3, 5)), {"optimizer": torch.optim.Adam, "decay": 0.2}),
        ("single", two, Dropout(Bernoulli(0.3, 5)), {"batch_size": 1}),
    )
    for name, model, objective, options in cases:
        steps, size = 5, 0.05
        told = train(model, data, objective, steps=steps, step_size=size, seed=3, **options)
        stream = Stream(data, objective, [3], options.get("batch_size"), torch.device("cpu"))
        draws = stream.next(steps)
        leaves = [
            part.clone().requires_grad_(k not in options.get("frozen", ())) for k, part in enumerate(model.tensors)
        ]
        free = [leaf for leaf in leaves if leaf.requires_grad]
        search = options.get("optimizer", torch.optim.SGD)(free, lr=size)
        schedule = options.get("schedule", lambda step: 1.0)
        for step in range(steps):
            x = data.inputs if draws.inputs is None else draws.inputs[0, step]
            y = data.targets if draws.targets is None else draws.targets[0, step]
            w = data.shares if draws.inputs is None else torch.full((len(x),), 1 / len(x), dtype=torch.float64)
            assert draws.multipliers is not None
            z = draws.multipliers[0, step]
            if isinstance(model, TwoLayerLinear):
                outputs = ((x @ leaves[1]) * z) @ leaves[0].mT
            else:
                hidden = (x @ leaves[0].mT) * z[..., :5]
                outputs = ((hidden @ leaves[1].mT) * z[..., 5:]) @ leaves[2].mT
            value = w @ (y - outputs).square().sum(1)
            value = value + options.get("decay", 0.0) / 2 * sum(leaf.square().sum() for leaf in leaves)
            search.zero_grad()
            value.backward()
            for one in search.param_groups:
                one["lr"] = scale * size * schedule(step)
            search.step()
            if (limit := options.get("max_norm")) is not None:
                with torch.no_grad():
                    for place in limit.tensors:
                        norms = leaves[place].norm(dim=limit.dim, keepdim=True)
                        leaves[place].mul_(torch.where(norms > limit.radius, limit.radius / norms, 1.0))
        for k, (own, other) in enumerate(zip(leaves, told.model.tensors, strict=True)):
            found.append(compare(other, "==", own.detach(), f"weights, {name}, {k}", 1e-9))
    shapes = [
        Inverse(4.0)(2),
        Cosine(4)(1),
        Cosine(4)(9),
        Staircase(3, 0.5)(7),
        *map(float, with_previous([0, 5, 6])),
        *map(float, log_steps(100, 3)),
    ]
    wanted = [2 / 3, 0.5 + 0.5 * math.cos(math.pi / 4), 0.0, 0.25, 0, 4, 5, 6, 0, 1, 10, 100]
    found.append(compare(shapes, "==", scale * tensor(wanted), "schedules and steps"))
    return found
