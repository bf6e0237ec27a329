"""What the claim on random numbers compares: known answers of Philox, and frequencies of what is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from droptics.data import Moments
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Block, Gaussian
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import moments, simplex, tensor
from droptics.training.draws import _Population
from droptics.training.philox import bits, normals, rounds, uniforms
from droptics.training.random_numbers import CHOICES, INPUTS, MASKS, NOISE, Counted, Numbers, Sequential

CPU = torch.device("cpu")
# known answers of Philox 4x32-10: counter, key, words
PUBLISHED: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...] = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)


def _philox(counter: Sequence[int], keys: Sequence[int]) -> list[int]:
    """Philox 4x32-10 in whole numbers of any size."""
    (a, b, c, d), (k, q) = counter, keys
    for _ in range(10):
        left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (right >> 32) ^ b ^ k, right % 2**32, (left >> 32) ^ d ^ q, left % 2**32
        k, q = (k + 0x9E3779B9) % 2**32, (q + 0xBB67AE85) % 2**32
    return [a, b, c, d]


def _words(scale: float) -> list[Comparison]:
    """Words of the library, and by hand, are the published ones; runs, streams, steps and groups count as stated."""
    found: list[Comparison] = []
    for counter, keys, published in PUBLISHED:
        told = rounds(tuple(torch.tensor([word]) for word in counter), *(torch.tensor([key]) for key in keys))  # type: ignore[arg-type]
        found.append(same([int(word) for word in told], list(published), f"Philox of {counter[0]:x}", scale))
        found.append(same(_philox(counter, keys), list(published), f"by hand, {counter[0]:x}", scale))
    for seed, stream, step, group in ((3, 0, 0, 0), (2**40 + 7, 2, 2**33 + 5, 4), (2**63 - 1, 3, 17, 1)):
        told = bits(torch.tensor([1, seed]), stream, step - 1 if step else 0, 2, 5)
        mine = [int(word[1, 1 if step else 0, group]) / 2**32 for word in told]
        counter = (group, step % 2**32, stream, step >> 32)
        wanted = [scale * word / 2**32 for word in _philox(counter, (seed % 2**32, seed >> 32))]
        found.append(compare(mine, "==", wanted, f"words of run {seed}, stream {stream}, step {step}", 0.0))
    return found


def random_numbers(scale: float) -> list[Comparison]:
    """Counted random numbers: the published test vector, and means, variances and rates of what is drawn."""
    found = _words(scale)
    seeds = torch.tensor([3, 2**40 + 7])
    for kind in (torch.float32, torch.float64):
        drawn = uniforms(seeds, 1, 5, 2, 3, kind)
        alone = uniforms(seeds[1:], 1, 6, 1, 3, kind)
        found.append(compare(drawn[1, 1], "==", alone[0, 0], "a number depends on run, stream and step alone"))
        many = uniforms(seeds, 2, 0, 100, 200, kind).double()
        # 40,000 numbers: five standard errors
        found.append(compare(many.mean(), "==", 0.5, "mean of uniforms", precision=5 * (1 / 12 / 40000) ** 0.5))
        found.append(compare(many.var(), "==", scale / 12, "their variance", precision=5 * (1 / 180 / 40000) ** 0.5))
        bell = normals(seeds, 3, 0, 100, 200, kind).double()
        found.append(compare(bell.mean(), "==", 0.0, "mean of normals", precision=5 / 200))
        found.append(compare(bell.var(), "==", scale, "their variance", precision=5 * (2 / 40000) ** 0.5))
        found.append(
            compare(bell.pow(4).mean(), "==", 3 * scale, "their fourth moment", precision=5 * (96 / 40000) ** 0.5 / 3)
        )
        found.append(
            compare(
                _made(seeds, 1, range(5, 7), 7, kind, False),
                "==",
                uniforms(seeds, 1, 5, 2, 7, kind),
                "uniforms by hand",
            )
        )
        told = scale * normals(seeds, 1, 5, 2, 7, kind)
        found.append(
            compare(
                _made(seeds, 1, range(5, 7), 7, kind, True), "==", told, "normals by hand", 64 * torch.finfo(kind).eps
            )
        )
    assert len({CHOICES, INPUTS, MASKS, NOISE}) == 4
    for numbers in (Counted([1, 2], CPU), Sequential([1, 2], CPU)):
        found += [*_drawn_masks(scale, numbers), *_choices(scale, numbers), *_normals(scale, numbers)]
    found += [*_of_its_own(scale), *_stretches(scale), *_later(), *_alone(scale), *_of_their_streams(scale)]
    return [*found, *_examples(scale, Counted([5], CPU)), *_examples(scale, Sequential([5], CPU))]


def _made(seeds: Tensor, stream: int, steps: range, count: int, kind: torch.dtype, normal: bool) -> Tensor:
    """Numbers from the words of Philox: middles of equal cells, and Box and Muller's pairs of them."""
    found = []
    for seed in seeds.tolist():
        for step in steps:
            row: list[float] = []
            for group in range(count):  # more than there are
                a, b, c, d = _philox((group, step % 2**32, stream, step >> 32), (seed % 2**32, seed >> 32))
                pairs = [(a, b), (c, d)]
                if kind == torch.float64:
                    cells = [((p >> 6 << 26) + (q >> 6) + 0.5) * 2.0**-52 for p, q in pairs]
                else:
                    cells = [((word >> 9) + 0.5) * 2.0**-23 for word in (a, b, c, d)]
                if normal:
                    polar = [
                        ((-2 * math.log(u)) ** 0.5, math.tau * v) for u, v in zip(cells[::2], cells[1::2], strict=True)
                    ]
                    cells = [r * turn(angle) for r, angle in polar for turn in (math.cos, math.sin)]
                row += cells
            found.append(row[:count])
    return tensor(found).unflatten(0, (len(seeds), len(steps)))


def _drawn_masks(scale: float, numbers: Numbers) -> list[Comparison]:
    """Rates of two runs of different laws, multipliers, and which coins fall together, within a run and across."""
    found: list[Comparison] = []
    first, second = tensor([0.2, 0.5, 0.7]), tensor([0.6, 0.1, 0.4])
    count = 20000
    for kind, laws, drops in (
        ("coins", [Bernoulli(first, 3), Bernoulli(second, 3)], torch.stack([first, second])),
        ("one law", [Bernoulli(first, 3)] * 2, torch.stack([first, first])),
        ("blocks", [Block(tensor([0.3, 0.6]), 4, 2)] * 2, tensor([[0.3, 0.3, 0.6, 0.6]] * 2)),
    ):
        label = f"{kind}, {type(numbers).__name__}"
        kept = numbers.masks(laws, 0, 100, 200, True, torch.float32).clone().flatten(1, 2).double()
        plain = numbers.masks(laws, 100, 100, 200, False, torch.float64).clone().flatten(1, 2)
        # five standard errors, of a coin at most 1/2 and of a multiplier sqrt(drop / (1 - drop))
        error, wide = 5 * 0.5 / count**0.5, 5 * float((drops / (1 - drops)).max() / count) ** 0.5
        found.append(compare(kept.mean(1), "==", torch.ones(()), label, wide))
        found.append(compare(plain.mean(1), "==", (1 - drops) / scale, f"unscaled {label}", error))
        either = torch.where(kept > 0, 1 / (1 - drops[:, None]), 0.0)
        found.append(compare(kept, "==", either, f"multipliers of {label}", 1e-6))
        # units of one block fall together, all others independently
        together = (1 - drops)[:, :, None] * (1 - drops)[:, None]
        coins = torch.arange(drops.shape[1]) // (2 if kind == "blocks" else 1)
        together = torch.where(coins[:, None] == coins, (1 - drops)[:, None], together)
        found.append(compare(plain.mT @ plain / count, "==", together, f"pairs of {label}", error))
        across = plain[0].mT @ plain[1] / count
        found.append(compare(across, "==", torch.outer(*(1 - drops)), f"pairs across runs of {label}", error))
    return found


def _choices(scale: float, numbers: Numbers) -> list[Comparison]:
    """Shares of what is chosen, by weights of any sum and order and without, in each run and both together."""
    found: list[Comparison] = []
    for weights in (tensor([0.5, 2.0, 0.3, 1.2]), None):
        label = f"choice {'by weight' if weights is not None else 'of all'}, {type(numbers).__name__}"
        chosen = numbers.choice(0, 100, 200, 4, weights).flatten(1)
        shares = torch.full((4,), 0.25).double() if weights is None else weights / weights.sum()
        error = 5 * 0.5 / 20000**0.5
        hits = (chosen[:, :, None] == torch.arange(4)).double()
        found.append(compare(hits.mean(1), "==", scale * shares, label, error))
        found.append(
            compare(hits[0].mT @ hits[1] / 20000, "==", torch.outer(shares, shares), f"both runs, {label}", error)
        )
    return found


def _normals(scale: float, numbers: Numbers) -> list[Comparison]:
    """Moments of normal numbers in both precisions, and products of neighbors and of runs."""
    found: list[Comparison] = []
    for kind in (torch.float32, torch.float64):
        label = f"{kind}, {type(numbers).__name__}"
        drawn = (
            numbers.normal(INPUTS, 0, 100, (200, 2), torch.zeros((), dtype=kind)).clone().double().reshape(2, 20000, 2)
        )
        error = 5 / 20000**0.5
        rows = drawn.transpose(0, 1).flatten(1)
        rounded = (drawn == drawn.float().double()).double().mean()
        found.append(compare(rounded > 0.5, "==", kind == torch.float32, f"all digits, {label}"))
        found.append(compare(rows.mean(0), "==", 0.0, f"means, {label}", error))
        second = rows.mT @ rows / 20000
        found.append(compare(second, "==", scale * torch.eye(4), f"products, {label}", error * 2**0.5))
        found.append(compare(rows.pow(4).mean(0), "==", 3 * scale, f"fourth moments, {label}", error * 96**0.5 / 3))
    return found


def _alone(scale: float) -> list[Comparison]:
    """What a run of several draws is what it draws alone; its normal numbers in double precision are NumPy's."""
    found: list[Comparison] = []
    wide, laws = torch.ones(()).double(), (Bernoulli(0.4, 3), Block(0.4, 4, 2), Gaussian(0.3, 3))
    own = [tensor(np.random.Generator(np.random.SFC64([run, 1])).standard_normal((2, 4, 5, 3))) for run in (3, 8)]
    numbers = Sequential([3, 8], CPU)
    for stretch in (0, 1):
        told = numbers.normal(INPUTS, 4 * stretch, 4, (5, 3), wide)
        truth = scale * torch.stack([one[stretch] for one in own])
        found.append(compare(told, "==", truth, f"NumPy's normal numbers of two runs, stretch {stretch}", 1e-14))
    single = [np.random.Generator(np.random.SFC64([run, 1])).standard_normal(40001, dtype=np.float32) for run in (3, 8)]
    told = Sequential([3, 8], CPU).normal(INPUTS, 0, 1, (40001, 1), torch.ones(())).flatten(1)
    found.append(compare(told, "==", scale * np.stack(single), "NumPy's numbers in single precision", 1e-6))
    found.append(compare(np.abs(single).max(1), ">", 3.66, "some of which lie in the tails"))
    for kind in (Sequential, Counted):
        both, each = kind([3, 8], CPU), [kind([run], CPU) for run in (3, 8)]
        draws: dict[str, Callable[[Numbers, int], Tensor]] = {
            "normals": lambda one, _: one.normal(NOISE, 2, 4, (5, 3), torch.ones(())).clone(),
            "choices": lambda one, _: one.choice(2, 4, 5, 9, None).double(),
            "weighed choices": lambda one, _: one.choice(2, 4, 5, 9, simplex(3, 9)).double(),
            **{
                f"masks of {type(law).__name__}": lambda one, count, law=law: one.masks(  # type: ignore[misc]
                    [law] * count, 2, 4, 5, True, torch.float64
                ).clone()
                for law in (laws if kind is Sequential else laws[:2])  # only coins are counted
            },
        }
        for name, draw in draws.items():
            together, apart = draw(both, 2), torch.cat([draw(one, 1) for one in each])
            found.append(compare(together, "==", apart, f"{name} of two runs and alone, {kind.__name__}", 0.0))
    return found


class _Turns(Bernoulli):
    """Coins of a kind of their own: units fall in turn."""

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        return (torch.arange(count)[:, None] % self.size != torch.arange(self.size)).double()


def _of_its_own(scale: float) -> list[Comparison]:
    """A law that draws otherwise than the one it is made of is asked for its masks."""
    law = _Turns(tensor([0.2, 0.5, 0.7]), 3)
    told = Sequential([1, 2], CPU).masks([law] * 2, 0, 4, 3, False, torch.float64)
    wanted = (1 - torch.eye(3)).double().expand(2, 4, 3, 3)
    return [compare(told, "==", scale * wanted, "a law of its own", 0.0)]


def _stretches(scale: float) -> list[Comparison]:
    """Coins that NumPy's generators draw, in one stretch after the other."""
    drop = tensor([0.2, 0.5, 0.7])
    numbers = Sequential([1, 2], CPU)
    drawn = [numbers.masks([Bernoulli(drop, 3)] * 2, first, 4, 5, False, torch.float64) for first in (0, 4)]
    found: list[Comparison] = []
    for run, kept in zip((1, 2), torch.cat(drawn, 1), strict=True):
        own = tensor(np.random.Generator(np.random.SFC64([run, 1])).random((8, 5, 3)))
        fall = (own >= drop * scale).double()
        found.append(compare(kept, "==", fall, f"coins of run {run} in two stretches are NumPy's", 0.0))
    return found


def _of_their_streams(scale: float) -> list[Comparison]:
    """Counted masks, choices and normal numbers from Philox by hand, every kind with a stream of its own."""
    found: list[Comparison] = []
    seeds, steps, weights = torch.tensor([3, 8]), range(5, 7), tensor([0.5, 2.0, 0.3, 1.2])
    drops = torch.stack([tensor([0.2, 0.5, 0.7]), tensor([0.6, 0.1, 0.4])])
    numbers = Counted(seeds.tolist(), CPU)
    coins = _made(seeds, MASKS, steps, 12, torch.float64, False).unflatten(2, (4, 3))
    masks = numbers.masks([Bernoulli(drop, 3) for drop in drops], 5, 2, 4, False, torch.float64)
    found.append(compare(masks, "==", scale * (coins >= drops[:, None, None]), "masks of their stream", 0.0))
    place = _made(seeds, CHOICES, steps, 6, torch.float64, False)
    found.append(compare(numbers.choice(5, 2, 6, 9, None), "==", scale * (9 * place).floor(), "choices", 0.0))
    bins = torch.bucketize(4.0 * place, weights.cumsum(0)).double()
    found.append(compare(numbers.choice(5, 2, 6, 4, weights), "==", scale * bins, "weighed choices", 0.0))
    for name, stream in (("inputs", INPUTS), ("noise", NOISE)):
        drawn = numbers.normal(stream, 5, 2, (2, 3), torch.zeros(()).double()).flatten(2)
        bell = _made(seeds, stream, steps, 6, torch.float64, True)
        found.append(compare(drawn, "==", scale * bell, f"normal numbers of {name}", 1e-13))
    return found


def _later() -> list[Comparison]:
    """Counted numbers of later steps, whether a stretch begins there or before."""
    numbers, law = Counted([1, 2], CPU), Bernoulli(0.4, 3)
    ways: dict[str, Callable[[int, int], Tensor]] = {
        "masks": lambda first, steps: numbers.masks([law, law], first, steps, 5, False, torch.float64),
        "choices": lambda first, steps: numbers.choice(first, steps, 5, 9, None).double(),
        "normals": lambda first, steps: numbers.normal(INPUTS, first, steps, (5, 2), torch.zeros(()).double()),
    }
    return [compare(draw(0, 7)[:, 4:], "==", draw(4, 3), f"{name} of later steps", 0.0) for name, draw in ways.items()]


def _examples(scale: float, numbers: Numbers) -> list[Comparison]:
    """Second moments of fresh examples, of outputs that are mostly explained and of as many that are mostly noise."""
    found: list[Comparison] = []
    noisy = moments(4, 3, 3)
    for name, data in (("explained", moments(3, 2, 3)), ("noisy", Moments(noisy.xx, 0.1 * noisy.yx, noisy.yy))):
        inputs, targets = _Population(data).draw(numbers, 0, 100, 400)
        x = inputs.flatten(0, 2) / data.xx.diagonal().sqrt()
        y = targets.flatten(0, 2) / data.yy.diagonal().sqrt()
        # 40,000 normal examples of energy one: the error of a product is at most sqrt(2) / 200
        level = 5 * 2**0.5 / 200
        for kind, left, right, whole in (
            ("inputs", x, x, data.xx),
            ("both", y, x, data.yx),
            ("targets", y, y, data.yy),
        ):
            rows, columns = (data.xx if part is x else data.yy for part in (left, right))
            wanted = whole / rows.diagonal().sqrt()[:, None] / columns.diagonal().sqrt()
            factor = scale if kind == "inputs" else 1.0
            found.append(compare(left.mT @ right / 40000, "==", factor * wanted, f"{kind}, {name}", level))
    return found
