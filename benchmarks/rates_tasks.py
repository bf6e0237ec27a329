"""The five tasks of bench_rates.py: data by seed, a network, its sites, and how it is trained."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from droptics.datasets import fashion_mnist, mnist, movielens
from droptics.rates import Fit

Pair = tuple[Any, Tensor]
Parts = tuple[Pair, Pair, Pair]


@dataclass(frozen=True)
class Task:
    """Data (train, validation, test) by seed, a network, its sites from the input on, and how it is trained.

    `gpu` says whether populations of it run on a GPU where there is one.
    """

    data: Callable[[int], Parts]
    network: Callable[[], nn.Module]
    sites: tuple[str, ...]
    fit: Fit
    gpu: bool = False


def drawn(inputs: Tensor, targets: Tensor, counts: tuple[int, ...], seed: int) -> list[Pair]:
    """Disjoint random examples, so many of each part."""
    order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed))[: sum(counts)]
    return [(inputs[part], targets[part]) for part in order.split(list(counts))]


def images(source: Callable[..., Any], train: int, held: int, flat: bool = True) -> Callable[[int], Parts]:
    """Images of 14 x 14 (means of four pixels), so many for training and validation, all test images."""

    def small(split: str) -> Pair:
        pixels, labels = source(split=split)
        pooled = nn.functional.avg_pool2d(pixels.float().reshape(-1, 1, 28, 28) / 255, 2)
        return pooled.flatten(1) if flat else pooled, labels.long()

    def parts(seed: int) -> Parts:
        first, second = drawn(*small("train"), (train, held), seed)
        return first, second, small("test")

    return parts


def perceptron(*widths: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Dropout(0.5), nn.Linear(widths[0], widths[1])]
    for before, after in itertools.pairwise(widths[1:]):
        layers += [nn.ReLU(), nn.Dropout(0.5), nn.Linear(before, after)]
    return nn.Sequential(*layers)


def convolutional() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.5)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.5)),
        *(nn.Linear(288, 100), nn.ReLU(), nn.Dropout(0.5), nn.Linear(100, 10)),
    )


class Recommender(nn.Module):
    """Two wide embeddings and one narrow hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(943, 64), nn.Embedding(1682, 64)
        with torch.no_grad():
            self.users.weight.mul_(0.1)
            self.items.weight.mul_(0.1)
        self.embedded, self.hidden = nn.Dropout(0.5), nn.Dropout(0.5)
        self.first, self.last = nn.Linear(128, 16), nn.Linear(16, 1)

    def forward(self, pairs: Tensor) -> Tensor:
        found = self.embedded(torch.cat([self.users(pairs[:, 0]), self.items(pairs[:, 1])], 1))
        return self.last(self.hidden(self.first(found).relu()))


def ratings(seed: int) -> Parts:
    """30,000 ratings for training, 20,000 for validation, 50,000 for the test; the training mean is taken off."""
    known = movielens("ml-100k")
    columns = [torch.unique(torch.as_tensor(column), return_inverse=True)[1] for column in (known.users, known.items)]
    values = torch.as_tensor(known.values).float()[:, None]
    found = drawn(torch.stack(columns, 1), values, (30_000, 20_000, 50_000), seed)
    mean = found[0][1].mean()
    first, second, third = ((pairs, wanted - mean) for pairs, wanted in found)
    return first, second, third


LENGTH, LETTERS = 32, 64


def text(seed: int) -> Parts:
    """The next character in windows of Python's own reference (`pydoc_data`, which every Python brings along).

    The 63 most frequent characters have numbers of their own. Windows do not overlap: 400 for training, 2,000 for
    validation, 3,000 for the test. The text differs a little between versions of Python, which the record names.
    """
    from pydoc_data.topics import topics  # noqa: PLC0415 - half a megabyte of text

    whole = "\n".join(topics[name] for name in sorted(topics))
    common = sorted(set(whole), key=lambda letter: (-whole.count(letter), letter))[: LETTERS - 1]
    numbers = {letter: number for number, letter in enumerate(common, 1)}
    coded = torch.tensor([numbers.get(letter, 0) for letter in whole])
    rows = coded[: len(coded) // (LENGTH + 1) * (LENGTH + 1)].reshape(-1, LENGTH + 1)
    first, second, third = drawn(rows[:, :-1], rows[:, 1:], (400, 2_000, 3_000), seed)
    return first, second, third


class Block(nn.Module):
    """Attention to what came before, then two layers; dropout on the weights of attention and on the hidden units."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.attention, self.hidden = nn.Dropout(0.5), nn.Dropout(0.5)

    def forward(self, state: Tensor, hides: Tensor) -> Tensor:
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(-3, -2) for part in self.mix(self.before(state)).chunk(3, -1)
        )
        scores = (query @ key.mT) * key.shape[-1] ** -0.5 + hides
        mixed = (self.attention(scores.softmax(-1)) @ value).transpose(-3, -2).flatten(-2)
        state = state + self.out(mixed)
        return state + self.down(self.hidden(self.up(self.between(state)).relu()))


class Transformer(nn.Module):
    """Two blocks of width 64 on characters and their places."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, width), nn.Embedding(LENGTH, width)
        self.embedded = nn.Dropout(0.5)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(2))
        self.last, self.scores = nn.LayerNorm(width), nn.Linear(width, LETTERS)
        self.register_buffer("hides", torch.full((LENGTH, LENGTH), -1e9).triu(1))

    def forward(self, numbers: Tensor) -> Tensor:
        state = self.embedded(self.letters(numbers) + self.places.weight)
        for block in self.blocks:
            state = block(state, self.hides)
        return self.scores(self.last(state))


TASKS = {
    "mnist": Task(
        images(mnist, 500, 2000),
        lambda: perceptron(196, 100, 100, 10),
        ("0", "3", "6"),
        Fit(epochs=40, batch_size=50, stop="last", looks=1),
    ),
    "fashion": Task(
        images(fashion_mnist, 1000, 2000),
        lambda: perceptron(196, 100, 100, 100, 10),
        ("0", "3", "6", "9"),
        Fit(epochs=20, batch_size=50, stop="last", looks=1),
    ),
    "convolutional": Task(
        images(fashion_mnist, 500, 2000, flat=False),
        convolutional,
        ("3", "8", "11"),
        Fit(epochs=40, batch_size=50, step_size=3e-3, stop="last", looks=1),
        gpu=True,
    ),
    "movielens": Task(
        ratings,
        Recommender,
        ("embedded", "hidden"),
        Fit(epochs=8, batch_size=300, step_size=3e-3, stop="last", looks=1),
        gpu=True,
    ),
    "text": Task(
        text,
        Transformer,
        ("embedded", "blocks.0.attention", "blocks.0.hidden", "blocks.1.attention", "blocks.1.hidden"),
        Fit(epochs=75, batch_size=50, step_size=2e-3, stop="last", looks=1),
        gpu=True,
    ),
}
