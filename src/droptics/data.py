"""The shapes data comes in: examples, second moments, observed matrix entries, linear measurements.

Observations (examples, entries, measurements) offer `inputs`, `targets` and `weights`, so that a method that only
evaluates a model needs no special case: the risk of a model is the (weighted) mean over observations of its loss.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from droptics.annotations import is_dense, is_whole
from droptics.arguments import Count, NonNegative, Positive, Whole, check_fields
from droptics.checks import as_float_tensor, check_same_kind, check_size, check_squares
from droptics.linalg.ranks import check_energies, proved_rank, seems_singular, shared_dependencies
from droptics.linalg.scales import equilibrate
from droptics.linalg.sums import products, summands
from droptics.transforms import is_readable

D = TypeVar("D", bound="Data")


class Data(abc.ABC):
    """What all shapes share: one dtype and device, and conversion to another."""

    @property
    def dtype(self) -> torch.dtype:
        """Floating-point type of the numbers."""
        return self._reference().dtype

    @property
    def device(self) -> torch.device:
        """Where the numbers live."""
        return self._reference().device

    def to(self: D, *args: Any, **kwargs: Any) -> D:
        """Every floating-point tensor converted as by `Tensor.to`; index tensors only change device."""
        if args == (self.dtype,) and not kwargs:
            return self
        changes: dict[str, Tensor] = {}
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                moved = value.to(*args, **kwargs)
                moved = moved if value.is_floating_point() else moved.to(value.dtype)
                if moved is not value:
                    changes[name] = moved
        if not changes:
            return self
        if all(torch.promote_types(new.dtype, getattr(self, name).dtype) == new.dtype for name, new in changes.items()):
            other = object.__new__(type(self))  # the same numbers were checked before
            other.__dict__.update(vars(self), **changes)
            return other
        return replace(self, **changes)  # type: ignore[type-var]

    @abc.abstractmethod
    def _reference(self) -> Tensor:
        """A tensor whose dtype and device are those of the data."""


@dataclass(frozen=True, eq=False)
class Sample(Data):
    """Examples: inputs (n, ...), targets (n, outputs) or class labels (n,), weights (n,) or None.

    The risk is the mean over examples, weighted by `weights / weights.sum()` when they are given. NumPy arrays are
    accepted; a vector of floating-point targets is read as one output column.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor | None = None

    def __post_init__(self) -> None:
        inputs = as_float_tensor(self.inputs, "inputs")
        if inputs.ndim < 2:
            raise ValueError(f"inputs must be (examples, features...), got shape {tuple(inputs.shape)}")
        if inputs.shape[0] == 0:
            raise ValueError("inputs must hold at least one example, got an empty sample")
        check_squares(inputs, "inputs")
        targets = _as_targets(self.targets)
        check_size("targets", targets.shape[0], inputs.shape[0], "one target per example")
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "targets", targets)
        if targets.is_floating_point():
            check_same_kind({"inputs": inputs, "targets": targets})
            check_squares(targets, "targets")
        if self.weights is not None:
            weights = as_float_tensor(self.weights, "weights", 1)
            check_size("weights", weights.shape[0], inputs.shape[0], "one weight per example")
            check_same_kind({"inputs": inputs, "weights": weights})
            if bool((weights < 0).any()) or float(weights.detach().sum()) <= 0:
                raise ValueError("weights must be non-negative and not all zero")
            object.__setattr__(self, "weights", weights)

    @property
    def shares(self) -> Tensor:
        """What every example counts in a mean, (n,): weights / weights.sum(), or 1 / n."""
        count, weights = len(self), self.weights
        return self.inputs.new_full((count,), 1.0 / count) if weights is None else weights / weights.sum()

    def _reference(self) -> Tensor:
        return self.inputs

    def __len__(self) -> int:
        return self.inputs.shape[0]


@dataclass(frozen=True, eq=False)
class Moments(Data):
    """Second moments: xx = E x x^T, yx = E y x^T, yy = E y y^T; `weight` is the number of examples behind them.

    This is all that linear models under squared loss need. Moments of shards merge exactly (`Moments.merged`), and
    `Moments.of_batches` streams over data of any length: running weighted means in float64, so no large sums build
    up and the result does not depend on how the data were cut, up to rounding.

    Every number is rounded relative to its own features, |error_ij| <= rounding sqrt(xx_ii xx_jj): `rounding` is that
    of the dtype, or of a coarser one in which the numbers came (conversion to float64 does not forget it). An answer
    holds for all data whose second moments may have been rounded to these: where a direction of the inputs has so
    little energy that rounding hides it, no optimum is certified, unless `rank` says that there is no such direction.

    `rank` is a number that the rank of E x x^T is known not to exceed, None where nothing is known. `of_sample` and
    `of_batches` prove it on the examples, without rounding: of features that repeat others, one-hot columns beside an
    intercept, examples fewer than features.
    """

    xx: Tensor
    yx: Tensor
    yy: Tensor
    weight: Positive = 1.0
    rounding: NonNegative = 0.0
    rank: Whole | None = None

    def __post_init__(self) -> None:
        check_fields(self, "weight", "rounding", "rank")
        xx, yx, yy = (as_float_tensor(getattr(self, name), name, 2) for name in ("xx", "yx", "yy"))
        check_same_kind({"xx": xx, "yx": yx, "yy": yy})
        check_size("xx (columns)", xx.shape[1], xx.shape[0], "second moments are square")
        check_size("yy (columns)", yy.shape[1], yy.shape[0], "second moments are square")
        check_size("yx (columns)", yx.shape[1], xx.shape[0], "yx is E y x^T, outputs x inputs")
        check_size("yx (rows)", yx.shape[0], yy.shape[0], "yx is E y x^T, outputs x inputs")
        if 0 in yx.shape:
            raise ValueError(f"yx must have at least one input and one output, got shape {tuple(yx.shape)}")
        rounding = max(float(self.rounding), torch.finfo(xx.dtype).eps)
        _check_second_moment(xx, "xx", rounding, self.rank)
        _check_second_moment(yy, "yy", rounding)
        for name, value in (("xx", xx), ("yx", yx), ("yy", yy), ("rounding", rounding)):
            object.__setattr__(self, name, value)

    @staticmethod
    def of_map(matrix: Tensor) -> Moments:
        """The isotropic population y = M x with E x x^T = I."""
        matrix = as_float_tensor(matrix, "matrix", 2)
        identity = torch.eye(matrix.shape[1], dtype=matrix.dtype, device=matrix.device)
        return Moments(identity, matrix, matrix @ matrix.mT)

    @staticmethod
    def of(data: Data) -> Moments:
        """Moments as they are, those of a sample of vectors computed; nothing else has them."""
        if not isinstance(data, (Sample, Moments)):
            raise ValueError(f"data must be Sample or Moments, got {type(data).__name__}")
        return data if isinstance(data, Moments) else Moments.of_sample(data)

    @staticmethod
    def of_sample(sample: Sample) -> Moments:
        """Second moments of a sample of vectors, accumulated in float64; O(n d^2)."""
        if sample.inputs.ndim != 2 or not sample.targets.is_floating_point():
            raise ValueError("sample must hold vectors and floating-point targets to have second moments")
        total = float(len(sample)) if sample.weights is None else float(sample.weights.detach().sum())
        exact = sample.to(torch.float64)
        share = exact.shares[:, None]
        weighted = exact.inputs * share
        xx = products(weighted, exact.inputs)
        yx = products(exact.targets, weighted)
        yy = products(exact.targets * share, exact.targets)
        dtype, off = sample.dtype, torch.finfo(torch.float64).eps / 2 * summands(len(sample), max(yx.shape))
        parts = ((xx + xx.mT) / 2).to(dtype), yx.to(dtype), ((yy + yy.mT) / 2).to(dtype)
        check_energies(parts[0], exact.inputs, exact.weights, "inputs")
        check_energies(parts[2], exact.targets, exact.weights, "targets")
        rank = proved_rank(exact.inputs, exact.weights) if is_readable(xx) and seems_singular(xx) else None
        return Moments(*parts, total, max(torch.finfo(dtype).eps, off), rank)

    @staticmethod
    def merged(parts: Sequence[Moments]) -> Moments:
        """Second moments of all parts together, each counted by its weight; in pairs, so that little is rounded."""
        if not parts:
            raise ValueError("parts must hold at least one Moments, got none")
        while len(parts) > 1:
            last = parts[len(parts) // 2 * 2 :]
            parts = [*map(_joined, parts[:-1:2], parts[1::2]), *last]
        return parts[0]

    @staticmethod
    def of_batches(batches: Iterable[Sample | tuple[Tensor, Tensor]]) -> Moments:
        """Stream second moments over batches (samples or pairs of inputs and targets), accumulated in float64."""
        parts: list[Moments] = []
        held: list[Tensor] | None = None
        for count, batch in enumerate(batches):
            sample = (batch if isinstance(batch, Sample) else Sample(*batch)).to(torch.float64)
            parts.append(Moments.of_sample(sample))
            held = shared_dependencies(held, sample.inputs, sample.weights)
            # in pairs, pairs of pairs, ...: as many parts stay as the number of batches has binary ones
            for _ in range((count ^ (count + 1)).bit_length() - 1):
                parts[-2:] = [_joined(*parts[-2:])]
        if held is None:
            raise ValueError("batches must yield at least one batch, got none")
        total = Moments.merged(parts[::-1])
        known = len(total.xx) - len(held)
        return replace(total, rank=known if total.rank is None else min(known, total.rank)) if held else total

    def as_sample(self) -> Sample:
        """Finitely many examples with exactly these second moments (inputs + outputs of them, signs immaterial).

        Rows of a root of the joint moment matrix, scaled by the square root of their number; every feature and every
        target in its own units, so that none is lost beside larger ones. Only linear models may be evaluated on them:
        a non-linear model also sees the other moments.
        """
        joint = torch.cat([torch.cat([self.xx, self.yx.mT], 1), torch.cat([self.yx, self.yy], 1)], 0).double()
        scaled, units = equilibrate(joint)
        values, vectors = torch.linalg.eigh(scaled)
        count = joint.shape[0]
        if float(values[0].detach()) < -_moment_tolerance(count, self.rounding):
            raise ValueError("xx, yx, yy are not the moments of any data: the joint matrix has a negative eigenvalue")
        rows = (vectors.mT * (values.clamp_min(0) * count).sqrt()[:, None] * units).to(self.dtype)
        inputs = self.xx.shape[0]
        return Sample(rows[:, :inputs], rows[:, inputs:])

    def _reference(self) -> Tensor:
        return self.xx


class _Values(Data):
    """Observations of one number each."""

    values: Tensor

    @property
    def targets(self) -> Tensor:
        """Values as one output column (n, 1)."""
        return self.values[:, None]

    @property
    def weights(self) -> None:
        """Every observation counts the same."""

    def _reference(self) -> Tensor:
        return self.values

    def __len__(self) -> int:
        return self.values.shape[0]


@dataclass(frozen=True, eq=False)
class Entries(_Values):
    """Observed entries of a matrix: value values[t] at (rows[t], columns[t]) of a matrix of the given shape."""

    rows: Tensor
    columns: Tensor
    values: Tensor
    shape: tuple[Count, Count]

    def __post_init__(self) -> None:
        check_fields(self, "shape")
        values = as_float_tensor(self.values, "values", 1)
        if values.numel() == 0:
            raise ValueError("values must hold at least one observed entry, got none")
        for name, limit in (("rows", self.shape[0]), ("columns", self.shape[1])):
            index = _as_index(getattr(self, name), name)
            check_size(name, index.shape[0], values.shape[0], "one index per observed value")
            low, high = int(index.min()), int(index.max())
            if low < 0 or high >= limit:
                raise ValueError(f"{name} must lie in 0..{limit - 1}, got indices from {low} to {high}")
            object.__setattr__(self, name, index.to(values.device))
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "shape", (int(self.shape[0]), int(self.shape[1])))

    @property
    def inputs(self) -> Tensor:
        """Index pairs (n, 2)."""
        return torch.stack([self.rows, self.columns], dim=1)


@dataclass(frozen=True, eq=False)
class Measurements(_Values):
    """Linear measurements of a matrix: values[t] = <M, matrices[t]>; matrices (n, rows, columns)."""

    matrices: Tensor
    values: Tensor

    def __post_init__(self) -> None:
        matrices = as_float_tensor(self.matrices, "matrices", 3)
        values = as_float_tensor(self.values, "values", 1)
        if values.numel() == 0:
            raise ValueError("values must hold at least one measurement, got none")
        check_size("values", values.shape[0], matrices.shape[0], "one value per measurement matrix")
        check_same_kind({"matrices": matrices, "values": values})
        object.__setattr__(self, "matrices", matrices)
        object.__setattr__(self, "values", values)

    @property
    def inputs(self) -> Tensor:
        """The measurement matrices."""
        return self.matrices


def _joined(first: Moments, second: Moments) -> Moments:
    """Second moments of two parts together; a weighted mean rounds four times, by half a unit of the last place."""
    if first.yx.shape != second.yx.shape:
        raise ValueError(f"parts must agree in shape, got yx of {tuple(second.yx.shape)} and {tuple(first.yx.shape)}")
    weight = first.weight + second.weight
    pairs = (first.xx, second.xx), (first.yx, second.yx), (first.yy, second.yy)
    xx, yx, yy = (one * (first.weight / weight) + other * (second.weight / weight) for one, other in pairs)
    rounding = max(first.rounding, second.rounding) + 3 * torch.finfo(first.dtype).eps
    ranks = None if first.rank is None or second.rank is None else min(first.rank + second.rank, len(first.xx))
    return Moments(xx, yx, yy, weight, rounding, ranks)


def average(per_example: Tensor, weights: Tensor | None) -> Tensor:
    """(Weighted) mean over the last dimension, the examples. Cost: O(n). Claim: none, a definition."""
    return per_example.mean(-1) if weights is None else (per_example * (weights / weights.sum())).sum(-1)


def _as_targets(value: Any) -> Tensor:
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(np.ascontiguousarray(value))
    if isinstance(value, Tensor) and not value.is_floating_point():
        if value.ndim != 1 or value.dtype == torch.bool:
            kinds = "floating point (n, outputs) or integer class labels (n,)"
            raise ValueError(f"targets must be {kinds}, got {value.dtype} of shape {tuple(value.shape)}")
        return value.long()
    targets = as_float_tensor(value, "targets", (1, 2))
    return targets[:, None] if targets.ndim == 1 else targets


def _as_index(value: Any, name: str) -> Tensor:
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(np.ascontiguousarray(value))
    elif isinstance(value, (list, tuple)) and all(map(is_whole, value)):
        value = torch.tensor(value)
    kinds = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
    if not is_dense(value) or value.dtype not in kinds or value.ndim != 1:
        raise ValueError(f"{name} must be a vector of whole numbers (indices from 0)")
    return value.long()


def _moment_tolerance(size: int, rounding: float) -> float:
    """Rounding of a second moment of this size with diagonal below one, as sums of many products carry it."""
    return 8.0 * (size + 8) * rounding


def _check_second_moment(matrix: Tensor, name: str, rounding: float, rank: int | None = None) -> None:
    """Refuse what is no second moment (of this rank) beyond rounding, every feature judged in its own units."""
    if not is_readable(matrix):
        return
    value, _ = equilibrate(matrix.detach().double())
    tolerance = _moment_tolerance(value.shape[0], rounding)
    if float((value - value.mT).abs().max()) > tolerance:
        raise ValueError(f"{name} must be symmetric, it is a second moment")
    shifted = value + tolerance * torch.eye(value.shape[0], dtype=value.dtype, device=value.device)
    failed = int(torch.linalg.cholesky_ex(shifted).info)
    if failed:
        place = f"it has a negative eigenvalue, which shows at index {failed - 1}"
        raise ValueError(f"{name} must be positive semi-definite, it is a second moment; {place}")
    if rank is not None and rank < len(value):
        sure = int((torch.linalg.eigvalsh(value) > tolerance).sum())
        if sure > rank:
            raise ValueError(f"rank must be at least {sure}, {name} has so many directions beyond rounding; got {rank}")
