"""What an audit of a deep network costs and resolves: a 12-layer encoder with 38 sites, a causal decoder, a CNN.

Resolved is a site whose half width is at most 20 % of its penalty or 1 % of the sum of all. The variance of one draw
with the gradient control is set against that of the plain difference of the same draw. The networks are trained until
they do their task; training and audits run on a GPU where there is one. So many audits run side by side as `WORKERS` in
the environment says.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.audits import Report, audit
from droptics.audits.batches import Batch
from droptics.audits.control import remainder
from droptics.audits.runs import Law, Runs
from droptics.losses import CrossEntropy
from harness import RESULTS, write

WORDS, LENGTH, RATE = 200, 16, 0.1
NEGATIONS = 10  # words that turn the meaning of the next one
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TRUTHS = 4  # audits with many draws that are averaged to know the penalties
Data = Callable[[int, int], tuple[Tensor, Tensor]]


class Layer(nn.Module):
    """A transformer block with three places that drop, as BERT and GPT-2 have them."""

    def __init__(self, width: int, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.after_attention, self.after_layers = nn.Dropout(RATE), nn.Dropout(RATE)

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        rate = RATE if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=self.causal)
        return self.after_attention(self.out(mixed.transpose(1, 2).flatten(2)))

    def forward(self, x: Tensor) -> Tensor:
        if self.causal:
            x = x + self.attend(self.one(x))
            return x + self.after_layers(self.second(functional.gelu(self.first(self.two(x)))))
        x = self.one(x + self.attend(x))
        return self.two(x + self.after_layers(self.second(functional.gelu(self.first(x)))))


class Transformer(nn.Module):
    """Words in, scores of classes out: 2 + 3 layers sites."""

    def __init__(self, layers: int, width: int, causal: bool) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(WORDS, width), nn.Parameter(0.02 * torch.randn(LENGTH, width))
        self.drop, self.last, self.head = nn.Dropout(RATE), nn.Dropout(RATE), nn.Linear(width, 2)
        self.layers = nn.Sequential(*[Layer(width, causal) for _ in range(layers)])

    def forward(self, words: Tensor) -> Tensor:
        x = self.layers(self.drop(self.embed(words) + self.place))
        return self.head(self.last(x[:, -1]))


def cnn() -> nn.Module:
    """Three places that drop, at rates .1, .2 and .3."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Dropout(0.1), nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(), nn.Dropout(0.2), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 64), nn.ReLU(),
        nn.Dropout(0.3), nn.Linear(64, 4),
    )  # fmt: skip


def sentences(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Words that speak for a class or against it, more or less, turned around after a negation: which side is said?"""
    meaning = torch.randn(WORDS, generator=torch.Generator().manual_seed(7))
    meaning[:NEGATIONS] = 0
    words = torch.randint(0, WORDS, (count, LENGTH), generator=torch.Generator().manual_seed(seed))
    turned = functional.pad(words[:, :-1] < NEGATIONS, (1, 0))
    return words, (torch.where(turned, -meaning[words], meaning[words]).sum(1) > 0).long()


def images(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Which quadrant is brightest."""
    x = torch.randn(count, 1, 12, 12, generator=torch.Generator().manual_seed(seed))
    quadrants = x.unfold(2, 6, 6).unfold(3, 6, 6).mean((4, 5)).flatten(1)
    return x, quadrants.argmax(1)


def trained(network: nn.Module, data: Data, steps: int) -> nn.Module:
    """Adam with a warm start and a rate that falls to zero: layers in this number do not train without."""
    network.to(DEVICE).train()
    optimizer = torch.optim.AdamW(network.parameters(), 5e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 150) * (1 - step / steps)
    )
    for step in range(steps):
        x, y = (part.to(DEVICE) for part in data(64, 10_000 + step))
        optimizer.zero_grad()
        functional.cross_entropy(network(x), y).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return network.cpu()


def audited(network: nn.Module, held: tuple[Tensor, Tensor], seed: int, draws: int | None) -> Report:
    torch.set_num_threads(1)
    x, y = (part.to(DEVICE) for part in held)
    return audit(network.to(DEVICE), (x, y), draws=draws, rates=(), progress=False, seed=seed)


def resolved(report: Report) -> tuple[int, int]:
    """Sites that are resolved, and those whose interval excludes zero."""
    found = [item.penalty for item in report.sites if item.penalty is not None]
    total = sum(max(number.value, 0.0) for number in found)
    half = [(number.upper - number.lower) / 2 for number in found]
    fine = sum(width <= max(0.2 * abs(number.value), 0.01 * total) for number, width in zip(found, half, strict=True))
    return fine, sum(number.lower > 0 or number.upper < 0 for number in found)


def reductions(network: nn.Module, data: tuple[Tensor, Tensor], report: Report) -> list[float]:
    """Variance of a plain draw over that of a controlled one, site by site; from a dozen draws it is hardly known."""
    (x, y), draws = data, 1000 // len(report.sites)
    laws = {item.site.name: Law(item.site.name, item.site.rate, item.site.unit or "entry") for item in report.sites}
    runs = Runs(network, Batch((x,), {}, y, len(x)), CrossEntropy(), laws, {})
    base, generator, found = runs.base(), torch.Generator().manual_seed(5), []
    for law in laws.values():
        pairs = [remainder(runs, base, [law], generator) for _ in range(draws)]
        rest, plain = (torch.stack([pair[k].mean() for pair in pairs]) for k in (0, 1))
        found.append(float(plain.var() / rest.var()))
    return found


def measured(
    network: nn.Module, held: tuple[Tensor, Tensor], seeds: int, pool: ProcessPoolExecutor
) -> dict[str, float]:
    several = [pool.submit(audited, network, held, seed, None) for seed in range(seeds)]
    many = [pool.submit(audited, network, held, 12_345 + seed, max(16, 4096 // len(held[0]))) for seed in range(TRUTHS)]
    reports, truths = [one.result() for one in several], [one.result() for one in many]
    fine, nonzero = zip(*(resolved(report) for report in reports), strict=True)
    covered = []
    for k in range(len(truths[0].sites)):
        known = [number for truth in truths if (number := truth.sites[k].penalty) is not None]
        value = sum(number.value for number in known) / TRUTHS
        slack = sum(((number.upper - number.lower) / 2) ** 2 for number in known) ** 0.5 / TRUTHS
        for report in reports:
            number = report.sites[k].penalty
            assert number is not None
            covered.append(number.lower - slack <= value <= number.upper + slack)
    gains = reductions(network, (held[0][:64], held[1][:64]), truths[0])
    return {
        "sites": len(truths[0].sites),
        "examples": len(held[0]),
        "clean_loss": truths[0].clean_loss,
        "accuracy": truths[0].accuracy or 0.0,
        "passes": max(report.passes for report in reports),
        "resolved_median": statistics.median(fine),
        "resolved_least": min(fine),
        "excluding_zero_median": statistics.median(nonzero),
        "excluding_zero_least": min(nonzero),
        "coverage": sum(covered) / len(covered),
        "variance_reduction_median": statistics.median(gains),
        "variance_reduction_least": min(gains),
    }


def main() -> None:
    seeds, only = int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:]
    known = RESULTS / "audit_models.json"
    numbers: dict[str, float] = {}
    if only and known.exists():  # rows of the other networks stay
        numbers |= {key: value for key, value in json.loads(known.read_text()).items() if isinstance(value, float)}
    torch.manual_seed(0)
    cases: list[tuple[str, nn.Module, Data, int, tuple[int, ...]]] = [
        ("bert-12", Transformer(12, 32, causal=False), sentences, 1200, (64, 1024)),
        ("gpt-4", Transformer(4, 32, causal=True), sentences, 600, (64,)),
        ("cnn", cnn(), images, 600, (64,)),
    ]
    workers = int(os.environ.get("WORKERS", "2"))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for name, network, data, steps, sizes in cases:
            if only and name not in only:
                continue
            trained(network, data, steps)
            for size in sizes:
                row = measured(network, data(size, 1), seeds, pool)
                print(name, size, {key: round(value, 4) for key, value in row.items()}, flush=True)
                numbers |= {f"{name}_{size}_{key}": float(value) for key, value in row.items()}
                write("audit_models", numbers)


if __name__ == "__main__":
    main()
