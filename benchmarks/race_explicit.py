"""Cross-entropy training with dropout and without its noise, compared at equal dropout objective over five seeds.

A hidden layer of 256 ReLU units, dropout .5, a head of ten classes, Adam, batches of 100 of 1,000 images. Every 25
steps the true dropout objective (clean training loss plus the penalty, by 16 masks of the head) and the test loss are
taken. Dropout runs 400 steps and the others 300; for those, the first checkpoint at which the objective is no larger
than dropout's at some step says how many steps it took and what its test loss was there. Run it from the root of the
repository: python benchmarks/race_explicit.py; it writes results/explicit_forms.json.
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.datasets import cifar10, mnist
from droptics.files import write_text
from droptics.layers import ExplicitDropout
from droptics.losses import CrossEntropy

DROP, WIDTH, IMAGES, BATCH, STEPS, EVERY = 0.5, 256, 1000, 100, 400, 25
FORMS = ("dropout", "second-order", "bound", "sampled")
LEVELS = (250, 400)
OUT = Path(__file__).parents[1] / "results" / "explicit_forms.json"


@dataclass(frozen=True)
class Point:
    """Where a run is after some steps."""

    steps: int
    clean: float
    penalty: float
    test: float
    accuracy: float

    @property
    def objective(self) -> float:
        return self.clean + self.penalty


def data(name: str, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    read = {"mnist": mnist, "cifar10": cifar10}[name]
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for split, count in (("train", IMAGES), ("test", 2000)):
        images, labels = read(split=split)
        chosen = torch.randperm(len(images), generator=generator)[:count]
        parts += [images[chosen].float().flatten(1), labels[chosen].long()]
    mean, spread = parts[0].mean(), parts[0].std()
    return (parts[0] - mean) / spread, parts[1], (parts[2] - mean) / spread, parts[3]


def true_penalty(features: Tensor, head: nn.Linear, masks: int = 16) -> float:
    """What dropout adds, by masks of the head; the part linear in the mask has mean zero and is taken out."""
    generator = torch.Generator().manual_seed(0)
    outputs = head(features)
    chances, total = outputs.softmax(-1), 0.0
    for _ in range(masks):
        kept = (torch.rand(features.shape, generator=generator) >= DROP) / (1 - DROP)
        moved = head(features * kept)
        added = torch.logsumexp(moved, -1) - torch.logsumexp(outputs, -1) - (chances * (moved - outputs)).sum(-1)
        total += float(added.mean())
    return total / masks


def run(name: str, form: str, seed: int) -> list[Point]:
    images, labels, test_images, test_labels = data(name, seed)
    torch.manual_seed(seed)
    hidden, head = nn.Linear(images.shape[1], WIDTH), nn.Linear(WIDTH, 10)
    noise = nn.Dropout(DROP) if form == "dropout" else ExplicitDropout(DROP, head, CrossEntropy(), form)  # type: ignore[arg-type]
    body = nn.Sequential(hidden, nn.ReLU())
    optimizer = torch.optim.Adam([*hidden.parameters(), *head.parameters()], 1e-3)
    generator = torch.Generator().manual_seed(seed)
    points = []
    for step in range(1, (STEPS if form == "dropout" else 300) + 1):
        batch = torch.randint(0, IMAGES, (BATCH,), generator=generator)
        loss = functional.cross_entropy(head(noise(body(images[batch]))), labels[batch])
        if isinstance(noise, ExplicitDropout):
            loss = loss + noise.penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % EVERY == 0:
            with torch.no_grad():
                features, outputs = body(images), head(body(test_images))
                clean = float(functional.cross_entropy(head(features), labels))
                test = float(functional.cross_entropy(outputs, test_labels))
                accuracy = float((outputs.argmax(1) == test_labels).float().mean())
                points.append(Point(step, clean, true_penalty(features, head), test, accuracy))
    return points


def compared(courses: dict[str, list[Point]]) -> list[dict[str, object]]:
    """At dropout's objective after some steps: what every form took to get there and its test loss then."""
    rows = []
    for level in LEVELS:
        target = next(point for point in courses["dropout"] if point.steps == level)
        for form, points in courses.items():
            there = next((point for point in points if point.objective <= target.objective), None)
            there = target if form == "dropout" else there
            if there is not None:
                kept = {"steps": there.steps, "test": there.test, "accuracy": there.accuracy, "clean": there.clean}
                rows.append({"level": level, "form": form, "objective": there.objective, **kept})
    return rows


def main(names: list[str]) -> None:
    found: dict[str, object] = {"setting": __doc__, "tasks": {}}
    for name in names:
        seeds = []
        for seed in range(5):
            seeds.append(compared({form: run(name, form, seed) for form in FORMS}))
            print(name, "seed", seed, "done", flush=True)
        rows = []
        for level in LEVELS:
            for form in FORMS:
                own = [row for seed in seeds for row in seed if row["level"] == level and row["form"] == form]
                if not own:
                    continue
                mean = {key: statistics.fmean(float(row[key]) for row in own) for key in ("steps", "test", "accuracy")}
                spread = statistics.stdev(float(row["test"]) for row in own) if len(own) > 1 else 0.0
                noisy = [row for seed in seeds for row in seed if row["level"] == level and row["form"] == "dropout"]
                worse = sum(float(row["test"]) > float(other["test"]) for row, other in zip(own, noisy, strict=False))
                most = max(float(row["steps"]) / level for row in own)
                rows.append(
                    {"level": level, "form": form, "seeds": len(own), **mean, "test_sd": spread}
                    | {"seeds_worse_than_dropout": worse, "most_steps_ratio": most}
                )
                print(json.dumps(rows[-1]), flush=True)
        found["tasks"][name] = {"mean": rows, "seeds": seeds}  # type: ignore[index]
    write_text(OUT, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:] or ["mnist"])
