"""What the claim on random numbers compares: known answers of Philox, and frequencies of what is drawn."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Block
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import moments, tensor
from droptics.training.draws import _Population
from droptics.training.philox import bits, normals, rounds, uniforms
from droptics.training.random_numbers import CHOICES, INPUTS, MASKS, Counted, Numbers, Sequential

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
    cpu = torch.device("cpu")
    laws = {
        "coins": (Bernoulli(tensor([0.2, 0.5, 0.7]), 3), tensor([0.2, 0.5, 0.7])),
        "blocks": (Block(tensor([0.3, 0.6]), 4, 2), tensor([0.3, 0.3, 0.6, 0.6])),
    }
    weights = tensor([0.1, 0.2, 0.7])
    for numbers in (Counted([1, 2], cpu), Sequential([1, 2], cpu)):
        name = type(numbers).__name__
        for kind_of, (law, drop) in laws.items():
            one = [law, law]
            kept = numbers.masks(one, 0, 50, 200, True, torch.float64).reshape(-1, len(drop))
            plain = numbers.masks(one, 50, 50, 200, False, torch.float64).reshape(-1, len(drop))
            error = 5 * (1 / 20000) ** 0.5
            found.append(compare(kept.mean(0), "==", 1.0, f"{kind_of}, {name}", precision=error * 2))
            found.append(
                compare(plain.mean(0), "==", (1 - drop) / scale, f"unscaled {kind_of}, {name}", precision=error)
            )
            either = torch.where(kept > 0, 1 / (1 - drop), 0.0)
            found.append(compare(kept, "==", either, f"multipliers of {kind_of}, {name}"))
            # units of one block fall together, all others independently
            together = torch.outer(1 - drop, 1 - drop)
            coins = torch.arange(len(drop)) // (2 if kind_of == "blocks" else 1)
            together = torch.where(coins[:, None] == coins, 1 - drop, together)
            pairs = plain.mT @ plain / len(plain)
            found.append(compare(pairs, "==", together, f"pairs of {kind_of}, {name}", precision=error))
        chosen = numbers.choice(0, 50, 200, 3, weights).flatten()
        share = torch.stack([(chosen == i).double().mean() for i in range(3)])
        found.append(compare(share, "==", weights, f"choice by weight, {name}", precision=5 * (0.25 / 20000) ** 0.5))
        chosen = numbers.choice(0, 50, 200, 3, None).flatten()
        share = torch.stack([(chosen == i).double().mean() for i in range(3)])
        found.append(compare(share, "==", 1 / 3, f"choice, {name}", precision=5 * (0.25 / 20000) ** 0.5))
    assert len({CHOICES, INPUTS, MASKS}) == 3
    return [*found, *_examples(scale, Counted([5], cpu)), *_examples(scale, Sequential([5], cpu))]


def _examples(scale: float, numbers: Numbers) -> list[Comparison]:
    """Second moments of fresh examples."""
    found: list[Comparison] = []
    data = moments(3, 2, 3)
    inputs, targets = _Population(data).draw(numbers, 0, 100, 400)
    x, y = inputs.reshape(-1, 3), targets.reshape(-1, 2)
    # 40,000 normal examples: the error of a product is at most sqrt(2 a b) / 200
    level = 5 * 2**0.5 / 200
    sizes = [part.diagonal().sqrt() for part in (data.xx, data.yy)]
    found.append(
        compare(
            x.mT @ x / 40000 / sizes[0][:, None] / sizes[0],
            "==",
            scale * data.xx / sizes[0][:, None] / sizes[0],
            "inputs",
            precision=level,
        )
    )
    found.append(
        compare(
            y.mT @ x / 40000 / sizes[1][:, None] / sizes[0],
            "==",
            data.yx / sizes[1][:, None] / sizes[0],
            "both",
            precision=level,
        )
    )
    found.append(
        compare(
            y.mT @ y / 40000 / sizes[1][:, None] / sizes[1],
            "==",
            data.yy / sizes[1][:, None] / sizes[1],
            "targets",
            precision=level,
        )
    )
    return found
