"""Random and degenerate instances: plain numbers that can be drawn, taken apart and printed as code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import droptics
from droptics import Bernoulli, Block, Discrete, Entries, Moments, Product, Sample

Array = NDArray[Any]
Generator = np.random.Generator
# the numbers of each family and their axes
AXES: dict[str, dict[str, tuple[str, ...]]] = {
    "TwoLayerLinear": {"U": ("outputs", "units"), "V": ("features", "units")},
    "Connections": {"U": ("outputs", "width"), "V": ("features", "width")},
    "Autoencoder": {"U": ("features", "units")},
    "Factorization": {"U": ("rows", "units"), "V": ("columns", "units")},
    "DeepLinear": {"W0": ("units", "features"), "W1": ("second", "units"), "W2": ("outputs", "second")},
    "ReLUNet": {"W0": ("units", "features"), "b0": ("units",), "W1": ("outputs", "units"), "b1": ("outputs",)},
    "Head": {},
}
DATA = {"inputs": ("examples", "features"), "targets": ("examples", "outputs"), "weights": ("examples",)}
RATES = (1e-9, 1e-6, 1e-3, 0.1, 0.5, 0.9, 0.99, 1 - 1e-6)


@dataclass(frozen=True)
class Law:
    """A law as numbers: independent coins, one coin per block, or a list of masks."""

    kind: str
    drop: tuple[float, ...] = ()
    block: int = 1
    masks: tuple[tuple[float, ...], ...] = ()
    chances: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        return len(self.masks[0]) if self.masks else len(self.drop) * self.block

    def build(self) -> droptics.MaskLaw:
        """The law of the library."""
        if self.kind == "Discrete":
            return Discrete(torch.tensor(self.masks, dtype=torch.float64), torch.tensor(self.chances).double())
        drop = torch.tensor(self.drop, dtype=torch.float64)
        return Block(drop, self.size, self.block) if self.kind == "Block" else Bernoulli(drop, self.size)

    def atoms(self) -> tuple[Array, Array]:
        """All multipliers (masks, size) and their probabilities, written out without the library."""
        if self.kind == "Discrete":
            masks, chances = np.array(self.masks, np.longdouble), np.array(self.chances, np.longdouble)
            return masks / (chances @ masks), chances
        drop = np.array(self.drop, np.longdouble)
        bits = (np.arange(2 ** len(drop))[:, None] >> np.arange(len(drop))) & 1
        chances = np.where(bits == 1, drop, 1 - drop).prod(1)
        return np.repeat((1 - bits) / (1 - drop), self.block, axis=1), chances

    @property
    def strengths(self) -> Array:
        """drop / (1 - drop) of every coin."""
        drop = np.array(self.drop, np.longdouble)
        return drop / (1 - drop)

    def without(self, unit: int) -> Law:
        """The law of the other units; of the other blocks where there are blocks."""
        if self.kind == "Discrete":
            return replace(self, masks=tuple(row[:unit] + row[unit + 1 :] for row in self.masks))
        return replace(self, drop=self.drop[:unit] + self.drop[unit + 1 :])

    def code(self) -> str:
        if self.kind == "Discrete":
            return f"Discrete({_tensor(np.array(self.masks))}, {_tensor(np.array(self.chances))})"
        rates = f"torch.tensor({list(self.drop)}, dtype=torch.float64)"
        return (
            f"Block({rates}, {self.size}, {self.block})" if self.kind == "Block" else f"Bernoulli({rates}, {self.size})"
        )


@dataclass(frozen=True)
class Instance:
    """A family, its weights, data and laws as numbers, and the precision and shape they are given in."""

    family: str
    numbers: dict[str, Array]
    laws: tuple[Law, ...]
    single: bool = False
    moments: bool = False
    seed: int = 0
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.single else torch.float64

    def tensor(self, name: str) -> torch.Tensor:
        return torch.from_numpy(self.numbers[name]).to(self.dtype)

    @property
    def parameters(self) -> list[Array]:
        return [self.numbers[name] for name in AXES[self.family]]

    @property
    def model(self) -> Any:
        kind, tensors = getattr(droptics, self.family), [self.tensor(name) for name in AXES[self.family]]
        if self.family == "DeepLinear":
            return kind(tensors)
        return kind(tensors[::2], tensors[1::2]) if self.family == "ReLUNet" else kind(*tensors)

    @property
    def data(self) -> Any:
        if self.family == "Factorization":
            shape = (len(self.numbers["U"]), len(self.numbers["V"]))
            rows, columns = np.divmod(np.arange(len(self.numbers["targets"])) % (shape[0] * shape[1]), shape[1])
            return Entries(torch.from_numpy(rows), torch.from_numpy(columns), self.tensor("targets")[:, 0], shape)
        weights = self.tensor("weights") if "weights" in self.numbers else None
        sample = Sample(self.tensor("inputs"), self.tensor("targets"), weights)
        return Moments.of_sample(sample) if self.moments else sample

    @property
    def masks(self) -> Any:
        laws = [law.build() for law in self.laws]
        return laws[0] if len(laws) == 1 else Product(laws)

    @property
    def shares(self) -> Array:
        """What each example counts."""
        weights = self.numbers.get("weights", np.ones(len(self.numbers["targets"]))).astype(np.longdouble)
        return weights / weights.sum()

    def exact(self, name: str) -> Array:
        """Numbers as the oracles use them."""
        return self.numbers[name].astype(np.longdouble)

    def axes(self, name: str) -> tuple[str, ...]:
        return AXES[self.family].get(name, DATA.get(name, ()))

    def code(self, question: str) -> str:
        """A program that asks the question of this instance."""
        lines = ["import torch", "from droptics import *", ""]
        for name in self.numbers:
            lines.append(f"{name} = {_tensor(self.numbers[name], str(self.dtype))}")
        kind, names = self.family, list(AXES[self.family])
        model = f"{kind}({', '.join(names)})"
        if kind == "DeepLinear":
            model = f"DeepLinear([{', '.join(names)}])"
        elif kind == "ReLUNet":
            model = f"ReLUNet([{', '.join(names[::2])}], [{', '.join(names[1::2])}])"
        if kind == "Factorization":
            shape = (len(self.numbers["U"]), len(self.numbers["V"]))
            lines += [f"place = torch.arange(len(targets)) % {shape[0] * shape[1]}"]
            lines += [f"data = Entries(place // {shape[1]}, place % {shape[1]}, targets[:, 0], {shape})"]
        else:
            sample = "Sample(inputs, targets, weights)" if "weights" in self.numbers else "Sample(inputs, targets)"
            lines += [f"data = Moments.of_sample({sample})" if self.moments else f"data = {sample}"]
        laws = [law.code() for law in self.laws]
        lines += [f"masks = {laws[0]}" if len(laws) == 1 else f"masks = Product([{', '.join(laws)}])"]
        lines += [f"model = {model}"] if names else []
        return "\n".join([*lines, question])


def _tensor(values: Array, dtype: str = "torch.float64") -> str:
    return f"torch.tensor({values.tolist()}, dtype={dtype})"


# -- drawing


def draw_rate(random: Generator) -> float:
    """Never, any, the rates of the list, or close to one."""
    choice = random.integers(4)
    if choice == 0:
        return float(random.choice(RATES))
    return 0.0 if choice == 1 and random.random() < 0.3 else float(random.uniform(0.01, 0.95))


def draw_law(random: Generator, size: int, kinds: str = "one many block list") -> Law:
    """Coins of one rate or many, blocks, or a list of masks of any sign."""
    kind = random.choice(kinds.split())
    if kind == "block" and size % 2 == 0:
        return Law("Block", (draw_rate(random),) * (size // 2), 2)
    if kind == "list":
        masks = random.integers(0, 4, (random.integers(2, 6), size)) / 2 + 0.5 * (random.random() < 0.3)
        masks[0] = np.maximum(masks[0], 0.5)
        parts = random.integers(1, 64, len(masks))
        parts[-1] += 1024 - parts.sum()
        return Law("Discrete", masks=tuple(map(tuple, masks.tolist())), chances=tuple((parts / 1024).tolist()))
    if kind == "many":
        return Law("Bernoulli", tuple(draw_rate(random) for _ in range(size)))
    return Law("Bernoulli", (draw_rate(random),) * size)


def draw_inputs(random: Generator, count: int, features: int) -> Array:
    """Plain, whole numbers, of low rank, with dead, doubled or nearly collinear features, repeated, offset."""
    x = random.normal(size=(count, features))
    kind = random.integers(9)
    if kind == 1:
        x = np.round(2 * x)
    elif kind == 2:
        rank = random.integers(1, features + 1)
        x = np.round(2 * random.normal(size=(count, rank))) @ np.round(2 * random.normal(size=(rank, features)))
    elif kind == 3:
        x[:, random.integers(features)] = 0
    elif kind == 4:
        x[:, random.integers(features)] = 2.0 ** random.integers(-3, 4) * x[:, random.integers(features)]
    elif kind == 5:
        x[:, 0] = x[:, 1:].sum(1) if features > 1 else x[:, 0]
    elif kind == 6:
        x = x[random.integers(count, size=count)]
    elif kind == 7:
        x = x + 2.0 ** random.integers(0, 12)
    if random.random() < 0.4:
        reach = 40 if random.random() < 0.5 else 8
        x = x * 2.0 ** random.integers(-reach, reach + 1, features)
    return x


def draw_targets(random: Generator, x: Array, outputs: int) -> Array:
    """Noise, an exact map, a map with noise, nothing, an offset; in any units."""
    count, features = x.shape
    sizes = np.abs(x).max(0)
    truth = random.normal(size=(features, outputs)) / np.where(sizes > 0, sizes, 1)[:, None]
    kind = random.integers(6)
    y = random.normal(size=(count, outputs)) if kind == 0 else x @ truth
    if kind >= 2:
        y = y + 10.0 ** random.integers(-6, 1) * random.normal(size=y.shape)
    if kind == 3:
        y = y + 2.0 ** random.integers(0, 12)
    if kind == 4 and random.random() < 0.2:
        y = np.zeros_like(y)
    return y * 2.0 ** random.integers(-40, 41) if random.random() < 0.3 else y


def draw(random: Generator, family: str, laws: str = "one many block list", moments: bool = True) -> Instance:
    """An instance of a family; sizes are so small that all masks can be written out."""
    examples, features, outputs, units, second = (int(random.integers(1, top)) for top in (7, 4, 4, 5, 3))
    sizes = {"examples": examples, "features": features, "outputs": outputs, "units": units, "second": second}
    sizes["width"] = int(random.integers(1, 3))
    numbers: dict[str, Array] = {}
    if family == "Factorization":
        sizes |= {"rows": int(random.integers(1, 4)), "columns": features}
        copies = int(random.integers(1, 3))
        values = random.normal(size=(copies * sizes["rows"] * features, 1))
        numbers["targets"] = values * 2.0 ** random.integers(-40, 41) if random.random() < 0.3 else values
    else:
        numbers["inputs"] = draw_inputs(random, examples, features)
        if family == "Autoencoder":
            basis = np.eye(features) * 2.0 ** random.integers(-20, 21)
            numbers["inputs"] = np.concatenate([basis, -basis])
            sizes["outputs"], sizes["examples"] = features, 2 * features
        numbers["targets"] = draw_targets(random, numbers["inputs"], sizes["outputs"])
        if random.random() < 0.25 and family != "Autoencoder":
            numbers["weights"] = random.integers(0, 4, examples) + (np.arange(examples) == 0) * 1.0
    energy = float(np.sqrt(np.square(numbers["targets"]).mean())) or 1.0
    for name, axes in AXES[family].items():
        value = random.normal(size=[sizes[axis] for axis in axes])
        if axes[-1] == "features" or (axes[0] == "features" and family != "Autoencoder"):
            size = np.abs(numbers["inputs"]).max(0)
            inverse = 1 / np.where(size > 0, size, 1)
            value = value * (inverse if axes[-1] == "features" else inverse[:, None])
        if axes[0] in ("outputs", "rows") and random.random() < 0.8:
            value = value * energy
        if random.random() < 0.1:
            value = np.zeros_like(value)
        numbers[name] = value
    single = bool(random.random() < 0.3)
    if single:
        numbers = {name: value.astype(np.float32).astype(np.float64) for name, value in numbers.items()}
    drawn: tuple[Law, ...] = (draw_law(random, units, laws),)
    if family == "DeepLinear":
        drawn = (drawn[0], draw_law(random, second, laws))
    elif family == "ReLUNet":
        drawn = (draw_law(random, features, "one many"), drawn[0])
    elif family == "Connections":
        drawn = (Law("Bernoulli", (draw_rate(random),) * (features * sizes["width"])),)
    elif family == "Head":
        drawn = (draw_law(random, features, laws),)
    as_moments = moments and family not in ("Factorization", "ReLUNet", "Head") and bool(random.random() < 0.3)
    return Instance(family, numbers, drawn, single, as_moments, int(random.integers(2**31)))


# -- taking apart


def smaller(instance: Instance) -> Iterator[Instance]:
    """Simpler instances of the same kind: fewer examples, features, outputs and units; rounder numbers."""
    axes = {axis for name in instance.numbers for axis in instance.axes(name)}
    removable = {"examples", "outputs"} if instance.family != "Factorization" else set()
    removable |= (
        {"units", "second", "features"} if instance.family in ("TwoLayerLinear", "DeepLinear", "Head") else set()
    )
    for axis in sorted(axes & removable):
        size = next(
            value.shape[instance.axes(name).index(axis)]
            for name, value in instance.numbers.items()
            if axis in instance.axes(name)
        )
        place = {"units": 0, "second": 1}.get(axis, 0 if instance.family == "Head" and axis == "features" else None)
        law = None if place is None else instance.laws[place]
        for index in range(size if size > 1 and (law is None or law.block == 1) else 0):
            numbers = {
                name: np.delete(value, index, instance.axes(name).index(axis)) if axis in instance.axes(name) else value
                for name, value in instance.numbers.items()
            }
            laws = list(instance.laws)
            if place is not None and law is not None:
                laws[place] = law.without(index)
            yield replace(instance, numbers=numbers, laws=tuple(laws))
    if instance.moments:
        yield replace(instance, moments=False)
    if instance.single:
        yield replace(instance, single=False)
    if "weights" in instance.numbers:
        yield replace(instance, numbers={k: v for k, v in instance.numbers.items() if k != "weights"})
    for name, value in instance.numbers.items():
        with np.errstate(all="ignore"):
            powers = np.where(
                value == 0, 0, np.sign(value) * 2.0 ** np.round(np.log2(np.abs(np.where(value, value, 1))))
            )
        for rounder in (np.sign(value), powers, np.round(value), np.round(value, 1)):
            # numbers of a single precision instance are those that its tensors hold
            simpler = rounder.astype(np.float32).astype(np.float64) if instance.single else rounder
            if not np.array_equal(simpler, value) and np.abs(simpler).sum() < np.inf:
                yield replace(instance, numbers=instance.numbers | {name: simpler})
    for place, law in enumerate(instance.laws):
        if law.drop and any(rate != 0.5 for rate in law.drop):
            laws = list(instance.laws)
            laws[place] = replace(law, drop=(0.5,) * len(law.drop))
            yield replace(instance, laws=tuple(laws))
