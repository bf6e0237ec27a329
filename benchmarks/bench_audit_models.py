"""What an audit of a deep network costs and resolves: a 12-layer encoder with 38 sites, a causal decoder, a CNN.

Resolved is a site whose half width is at most 20 % of its penalty or 1 % of the sum of all. The variance of one draw
with the gradient control is set against that of the plain difference of the same draw.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.audits import Report, audit
from droptics.audits.batches import Batch
from droptics.audits.control import remainder
from droptics.audits.runs import Law, Runs
from droptics.losses import CrossEntropy
from harness import write

WORDS, LENGTH, RATE = 200, 16, 0.1


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
    """Class one where words of the upper half are more frequent than of the lower."""
    words = torch.randint(0, WORDS, (count, LENGTH), generator=torch.Generator().manual_seed(seed))
    return words, ((words >= WORDS // 2).sum(1) > LENGTH // 2).long()


def images(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Which quadrant is brightest."""
    x = torch.randn(count, 1, 12, 12, generator=torch.Generator().manual_seed(seed))
    quadrants = x.unfold(2, 6, 6).unfold(3, 6, 6).mean((4, 5)).flatten(1)
    return x, quadrants.argmax(1)


def trained(network: nn.Module, data: Callable[[int, int], tuple[Tensor, Tensor]], steps: int) -> nn.Module:
    optimizer = torch.optim.AdamW(network.parameters(), 1e-3)
    network.train()
    for step in range(steps):
        x, y = data(32, 10_000 + step)
        optimizer.zero_grad()
        functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    return network


def resolved(report: Report) -> tuple[int, int]:
    """Sites that are resolved, and those whose interval excludes zero."""
    found = [item.penalty for item in report.sites if item.penalty is not None]
    total = sum(max(number.value, 0.0) for number in found)
    half = [(number.upper - number.lower) / 2 for number in found]
    fine = sum(width <= max(0.2 * abs(number.value), 0.01 * total) for number, width in zip(found, half, strict=True))
    return fine, sum(number.lower > 0 or number.upper < 0 for number in found)


def reductions(network: nn.Module, data: tuple[Tensor, Tensor], report: Report, draws: int) -> list[float]:
    """Variance of a plain draw over that of a controlled one, site by site."""
    x, y = data
    laws = {item.site.name: Law(item.site.name, item.site.rate, item.site.unit or "entry") for item in report.sites}
    runs = Runs(network, Batch((x,), {}, y, len(x)), CrossEntropy(), laws, {})
    base, generator, found = runs.base(), torch.Generator().manual_seed(5), []
    for law in laws.values():
        pairs = [remainder(runs, base, [law], generator) for _ in range(draws)]
        rest, plain = (torch.stack([pair[k].mean() for pair in pairs]) for k in (0, 1))
        found.append(float(plain.var() / rest.var()))
    return found


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    numbers: dict[str, float] = {}
    torch.manual_seed(0)
    cases: list[tuple[str, nn.Module, Callable[[int, int], tuple[Tensor, Tensor]], int]] = [
        ("bert-12", Transformer(12, 32, causal=False), sentences, 200),
        ("gpt-4", Transformer(4, 32, causal=True), sentences, 100),
        ("cnn", cnn(), images, 100),
    ]
    for name, network, data, steps in cases:
        trained(network, data, steps)
        held = data(64, 1)
        reports = [audit(network, held, rates=(), progress=False, seed=seed) for seed in range(seeds)]
        fine, nonzero = zip(*(resolved(report) for report in reports), strict=True)
        truth = audit(network, held, draws=200, rates=(), progress=False, seed=12_345)
        covered = [
            number.lower - slack <= known.value <= number.upper + slack
            for report in reports
            for item, other in zip(report.sites, truth.sites, strict=True)
            if (number := item.penalty) is not None and (known := other.penalty) is not None
            for slack in [(known.upper - known.lower) / 2]
        ]
        gains = reductions(network, held, truth, 12)
        row = {
            "sites": len(truth.sites),
            "clean_loss": truth.clean_loss,
            "passes": max(report.passes for report in reports),
            "resolved_median": statistics.median(fine),
            "resolved_least": min(fine),
            "excluding_zero_median": statistics.median(nonzero),
            "coverage": sum(covered) / len(covered),
            "variance_reduction_median": statistics.median(gains),
            "variance_reduction_least": min(gains),
        }
        print(name, {key: round(value, 4) for key, value in row.items()}, flush=True)
        numbers |= {f"{name}_{key}": float(value) for key, value in row.items()}
    write("audit_models", numbers)


if __name__ == "__main__":
    main()
