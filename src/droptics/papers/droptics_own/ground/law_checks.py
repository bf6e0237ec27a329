"""What a claim on laws of masks compares: all that a law says and does, from its outcomes written out."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw, Product, SlidingBlock, drop_for_width
from droptics.masks.coins import coin_batches, rarest_side
from droptics.masks.product import Stacked
from droptics.papers.instances import normal, tensor

# the mean of the third unit is negative, and so is the largest multiplier of the fourth
_LISTED = ((1.0, 0.0, -2.0, 1.0), (0.0, 1.0, 1.0, -4.0), (2.0, 1.0, 0.0, 3.0), (1.0, 1.0, -1.0, 1.0))


def _laws() -> dict[str, MaskLaw]:
    return {
        "one rate": Bernoulli(0.3, 4),
        "rates": Bernoulli(tensor([0.0, 0.1, 0.5, 0.9]), 4),
        "blocks": Block(0.4, 4, 2),
        "blocks of rates": Block(tensor([0.3, 0.0]), 4, 2),
        "blocks of one": Block(0.3, 4, 1),
        "clipped": SlidingBlock(0.3, 4, 3),
        "valid": SlidingBlock(0.2, 4, 2, "valid"),
        "clipped to one": SlidingBlock(0.3, 4, 1),
        "listed": Discrete(tensor(_LISTED), tensor([0.1, 0.2, 0.3, 0.4])),
        "layers": Product([Bernoulli(0.2, 1), Block(0.4, 2, 2), Bernoulli(0.5, 1)]),
    }


def laws_in_full(scale: float) -> list[Comparison]:
    """All that a law says of itself, and all that it does to vectors and matrices, from its list of masks."""
    laws = _laws()
    return [
        *(item for name, law in laws.items() for item in _one_law(name, law, scale)),
        *_many_units(scale),
        *_made_laws(laws, scale),
    ]


def _one_law(name: str, law: MaskLaw, scale: float) -> list[Comparison]:
    found: list[Comparison] = []
    matrix, vectors, heads = normal(1, 4, 4), normal(2, 3, 4), normal(3, 2, 4)
    gram, features, own = matrix @ matrix.mT, normal(4, 3, 4), normal(5, 3, 2, 4)
    raw, chances = _written_out(name)
    mean = chances @ raw
    moved = raw / mean - 1
    cbar = (chances[:, None] * moved).mT @ moved
    parts, listed_chances = (torch.cat(part) for part in zip(*law.support_batches(3), strict=True))
    merged: dict[tuple[float, ...], float] = {}
    for row, p in zip(raw.tolist(), chances.tolist(), strict=True):
        merged[tuple(row)] = merged.get(tuple(row), 0.0) + p
    told: dict[tuple[float, ...], float] = {}
    for row, p in zip(parts.tolist(), listed_chances.tolist(), strict=True):
        told[tuple(row)] = told.get(tuple(row), 0.0) + p
    keys = sorted(key for key, p in merged.items() if p > 0)
    found.append(compare(float(sorted(key for key, p in told.items() if p > 0) == keys), "==", 1.0, f"masks, {name}"))
    found.append(compare([told.get(key, 0.0) for key in keys], "==", [merged[key] for key in keys], f"odds, {name}"))
    reach = max((abs(i - j) for i in range(4) for j in range(4) if abs(cbar[i, j]) > 1e-12), default=0)
    diagonal = float((cbar - torch.diag(cbar.diagonal())).abs().max()) < 1e-12
    energies = gram.diagonal()
    weighed = (cbar * gram).sum()
    rows = torch.stack([energies, tensor([1.0, 1.1, 0.9, 1.2])])
    shares, roots = rows * cbar.diagonal(), rows.sqrt()
    # units are correlated with nothing, or at most with all others and with those within reach on both sides
    most = shares.sum(1) if diagonal else torch.minimum(shares.sqrt().sum(1) ** 2, (2 * reach + 1) * shares.sum(1))
    worst = (roots @ cbar.abs() * roots).sum(1)
    products = features[:, None, :] * heads
    joint = torch.einsum("noi,ij,npj->nop", products, cbar, products)
    owned = torch.einsum("noi,ij,npj->nop", features[:, None] * own, cbar, features[:, None] * own)
    excess, moment = gram.clone().numpy(), (matrix.mT @ matrix).numpy()
    law.add_noise_(excess, moment, law.relative_variance.numpy())
    noise, pair = law.noise(_Gram(gram)), torch.stack([gram, matrix.mT @ matrix])
    behind = (heads @ (cbar * pair) @ heads.mT).diagonal(dim1=1, dim2=2)
    found += [
        compare(law.mean, "==", scale * mean, f"mean, {name}"),
        compare(law.covariance, "==", torch.outer(mean, mean) * cbar, f"covariance, {name}"),
        compare(law.characteristic, "==", cbar, f"characteristic, {name}"),
        compare(law.relative_variance, "==", cbar.diagonal(), f"variances, {name}"),
        compare(law.reach, "==", reach, f"reach, {name}"),
        compare(float(law.independent), "==", float(diagonal), f"independent, {name}"),
        compare(law.support_count or 0, "==", len(parts), f"number of masks, {name}"),
        compare(law.weigh(gram), "==", scale * weighed, f"weighed, {name}"),
        compare(law.weigh(_Gram(gram)), "==", weighed, f"weighed in parts, {name}"),
        compare(law.weigh_at_most(rows), "==", scale * most, f"at most, {name}"),
        compare(law.weigh_at_most(rows) * (1 + 1e-12), ">=", worst, f"which nothing exceeds, {name}"),
        compare(law.hadamard(gram), "==", cbar * gram, f"entry by entry, {name}"),
        compare(excess, "==", gram + cbar * (gram + matrix.mT @ matrix), f"added, {name}"),
        compare(law.correlate(vectors), "==", vectors @ cbar, f"correlated, {name}"),
        compare(law.correlate(vectors, heads), "==", vectors @ (cbar * (heads.mT @ heads)), f"with heads, {name}"),
        compare(noise.behind(heads), "==", heads @ (cbar * gram) @ heads.mT, f"behind, {name}"),
        compare(law.noise(_Gram(pair)).variances_behind(heads), "==", scale * behind, f"variances behind, {name}"),
        compare(noise.entries.numel(), "==", law.noise_entries, f"entries of noise, {name}"),
        compare(law.variances(features, heads[None]), "==", joint.diagonal(dim1=1, dim2=2), f"variances, {name}"),
        compare(law.variances(features, own), "==", owned.diagonal(dim1=1, dim2=2), f"of own heads, {name}"),
        compare(law.covariances(features, heads[None]), "==", scale * joint, f"covariances, {name}"),
        compare(law.covariances(features, own), "==", owned, f"of own heads, {name}"),
        compare(law.covariances(features[:1], heads[None]), "==", joint[:1], f"of one example, {name}"),
        compare(law.directions.mT @ law.directions, "==", cbar, f"directions, {name}"),
    ]
    assert law.bound is not None
    found.append(compare(law.bound, "==", (raw[chances > 0] / mean).abs().amax(0), f"bound, {name}"))
    batch = torch.stack([gram, 2 * gram]).reshape(2, 4, 4)
    found.append(compare(law.weigh(batch), "==", torch.stack([weighed, 2 * weighed]), f"batch, {name}"))
    for lag in range(4):
        found.append(compare(law.diagonal(lag), "==", torch.diagonal(cbar, lag), f"band {lag}, {name}"))
    return found


def _many_units(scale: float) -> list[Comparison]:
    """Laws of many units and small reach, whose matrices nobody writes out, by their bands."""
    found: list[Comparison] = []
    size = 2100
    place = torch.arange(size)
    lag = (place[:, None] - place).abs()
    slid = torch.where(lag < 3, 0.8 ** -(3.0 - lag.clamp_max(3)).double() - 1, 0.0)
    blocks = 0.3 / 0.7 * (place[:, None] // 3 == place // 3).double()
    both = torch.block_diag(blocks[:1050, :1050], slid[:1050, :1050])
    laws: tuple[tuple[str, MaskLaw, Tensor], ...] = (
        ("sliding", SlidingBlock(0.2, size, 3), slid),
        ("blocks", Block(0.3, size, 3), blocks),
        ("layers", Product([Block(0.3, 1050, 3), SlidingBlock(0.2, 1050, 3)]), both),
    )
    vectors, heads, root = normal(1, 2, size), normal(2, 3, size), normal(3, size, 2)
    gram = root @ root.mT
    for name, law, cbar in laws:
        found += [
            compare(law.reach, "==", 2, f"reach of many units, {name}"),
            compare(law.characteristic, "==", scale * cbar, f"all pairs of many units, {name}"),
            compare(law.weigh(gram), "==", scale * (cbar * gram).sum(), f"many units, {name}"),
            compare(law.weigh(_Gram(gram)), "==", (cbar * gram).sum(), f"many units in parts, {name}"),
            compare(law.correlate(vectors), "==", vectors @ cbar, f"correlated, many units, {name}"),
            compare(law.correlate(vectors, heads), "==", vectors @ (cbar * (heads.mT @ heads)), f"with heads, {name}"),
        ]
    return found


def _made_laws(laws: dict[str, MaskLaw], scale: float) -> list[Comparison]:
    """Several laws at once, rarest outcomes, rates that match, draws from their uniform and normal numbers."""
    found: list[Comparison] = []
    stacked = Stacked([laws["one rate"], laws["rates"]])
    for part in ("mean", "covariance", "characteristic", "relative_variance"):
        wanted = torch.stack([getattr(laws[name], part) for name in ("one rate", "rates")])
        found.append(compare(getattr(stacked, part), "==", scale * wanted, f"{part} of several"))
    rare = {"rates": 0.1, "blocks": 0.4, "clipped": 0.3, "listed": 0.3, "layers": 0.2, "valid": 0.2, "one rate": 0.3}
    for name, least in rare.items():
        found.append(compare(laws[name].rarest, "==", scale * least, f"rarest, {name}"))
    found.append(compare(SlidingBlock(0.7, 4, 2).rarest, "==", scale * 0.09, "two blocks that stand are rarer"))
    found.append(compare(rarest_side(tensor([0.0, 0.8, 0.3])), "==", scale * 0.2, "the rarer side"))
    found.append(compare(Bernoulli(0.0, 2).rarest, "==", 1.0, "nothing falls"))
    found.append(compare(sum(len(part) for part, _ in coin_batches(tensor([0.0, 0.5, 0.5]), 3)), "==", 4, "coins"))
    edges: tuple[Literal["clipped", "valid"], ...] = ("clipped", "valid")
    for edge in edges:
        for rate, size, block in ((0.3, 5, 2), (0.05, 7, 3), (0.9, 4, 4)):
            matched = SlidingBlock.matching(rate, size, block, edge)
            found.append(compare(1 - matched.mean.mean(), "==", scale * rate, f"matched rate, {edge} {block}"))
    found.append(compare(SlidingBlock.matching(0.0, 4, 2).drop, "==", 0.0, "matched to nothing"))
    for rate, width, block in ((0.1, 50, 5), (0.4, 7, 1)):
        wide = drop_for_width(rate, width, block)
        strength = block / width * wide / (1 - wide)
        found.append(compare(strength, "==", scale * rate / (1 - rate), f"rate for width {width}"))
    drawn = Discrete.from_samples(lambda count, generator: torch.rand(count, 1, generator=generator).round() + 1, 64)
    generator = torch.Generator().manual_seed(0)
    ones = torch.rand(64, 1, generator=generator).round().mean()
    found.append(compare(drawn.probabilities, "==", torch.stack([1 - ones, scale * ones]), "drawn masks"))
    noise_law, spread = Gaussian(tensor([0.25, 0.04]), 2), tensor([0.5, 0.2])
    gram, vectors, heads = tensor([[2.0, 0.7], [0.7, 1.5]]), normal(6, 3, 2), normal(7, 4, 2)
    variances = spread.square()
    found.append(compare(noise_law.mean, "==", scale, "mean of normal noise"))
    found.append(compare(noise_law.covariance, "==", scale * variances.diag(), "covariance of normal noise"))
    found.append(compare(noise_law.characteristic, "==", scale * variances.diag(), "its characteristic"))
    found.append(compare(noise_law.weigh(gram), "==", scale * variances @ gram.diagonal(), "weighed by normal noise"))
    found.append(compare(noise_law.correlate(vectors), "==", scale * vectors * variances, "correlated by normal noise"))
    joint = torch.einsum("ni,oi,i,pi->nop", vectors.square(), heads, variances, heads)
    found.append(compare(noise_law.covariances(vectors, heads[None]), "==", scale * joint, "outputs of normal noise"))
    normal_draws = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    told_draws = noise_law.sample(5, torch.Generator().manual_seed(3))
    found.append(compare(told_draws, "==", 1 + scale * spread * normal_draws, "normal draws"))
    uniforms = torch.rand(50, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    told_coins = laws["rates"].multipliers(50, torch.Generator().manual_seed(4))
    rates = tensor([0.0, 0.1, 0.5, 0.9])
    found.append(compare(told_coins, "==", scale * (uniforms >= rates) / (1 - rates), "coins from uniform numbers"))
    return found


class _Gram:
    """A Gram matrix that is given part by part."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix

    def energies(self) -> Tensor:
        return self.matrix.diagonal(dim1=-2, dim2=-1)

    def part(self, rows: slice, columns: slice) -> Tensor:
        return self.matrix[..., rows, columns]


def _written_out(name: str) -> tuple[Tensor, Tensor]:
    """All outcomes of a law by its definition: coins, and which of them cover a unit."""
    covers: dict[str, list[tuple[float, tuple[int, ...]]]] = {
        "one rate": [(0.3, (i,)) for i in range(4)],
        "rates": [(rate, (i,)) for i, rate in enumerate((0.0, 0.1, 0.5, 0.9))],
        "blocks": [(0.4, (0, 1)), (0.4, (2, 3))],
        "blocks of rates": [(0.3, (0, 1)), (0.0, (2, 3))],
        "blocks of one": [(0.3, (i,)) for i in range(4)],
        "clipped": [(0.3, tuple(i for i in range(start, start + 3) if 0 <= i < 4)) for start in range(-2, 4)],
        "clipped to one": [(0.3, (i,)) for i in range(4)],
        "valid": [(0.2, (start, start + 1)) for start in range(3)],
        "layers": [(0.2, (0,)), (0.4, (1, 2)), (0.5, (3,))],
    }
    if name == "listed":
        return tensor(_LISTED), tensor([0.1, 0.2, 0.3, 0.4])
    masks, chances = [], []
    coins = covers[name]
    for code in range(2 ** len(coins)):
        mask, chance = [1.0] * 4, 1.0
        for bit, (rate, units) in enumerate(coins):
            falls = bool(code >> bit & 1)
            chance *= rate if falls else 1 - rate
            for unit in units if falls else ():
                mask[unit] = 0.0
        masks.append(mask)
        chances.append(chance)
    return tensor(masks), tensor(chances)
