"""Weights and data from files: .npz without pickle, or .safetensors; written atomically."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from droptics.data import Sample
from droptics.files.arrays import read_npz, read_tensors, write_tensors
from droptics.files.limits import check_regular
from droptics.models import Connections, DeepLinear, LinearModel, Model, TwoLayerLinear

INPUTS, TARGETS = ("inputs", "images", "x"), ("targets", "labels", "y")


def read_arrays(path: Path) -> dict[str, Tensor]:
    """Named arrays of real numbers of a .npz or .safetensors file."""
    check_regular(path)
    kind = path.suffix.lower()
    if kind not in (".npz", ".safetensors"):
        raise ValueError(f"{path} must be a .npz or .safetensors file")
    try:
        found: Mapping[str, Any] = read_tensors(path) if kind == ".safetensors" else read_npz(path)
        arrays = {name: torch.as_tensor(array) for name, array in found.items()}
    except TypeError as problem:  # text, and numbers that torch does not know
        raise ValueError(f"{path} holds an array that is no tensor: {problem}") from problem
    if bad := [name for name, value in arrays.items() if value.is_complex()]:
        raise ValueError(f"{path}: the array {bad[0]!r} is complex; give real numbers")
    return arrays


def read_named(path: Path, *wanted: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Tensor]:
    """The wanted arrays, each under any of its names and given under the first, and optional ones; no others."""
    arrays = read_arrays(path)
    found = {name: names[0] for names in wanted for name in [key for key in names if key in arrays][:1]}
    if absent := [names for names in wanted if names[0] not in found.values()]:
        raise ValueError(f"{path} must hold an array named {' or '.join(absent[0])}; it has {sorted(arrays)}")
    if unread := sorted(set(arrays) - {*found, *optional}):
        read = ", ".join([*found, *optional])
        raise ValueError(f"{path} holds the array {unread[0]!r}, and this command reads {read} alone; leave it out")
    return {found.get(name, name): value for name, value in arrays.items()}


def read_sample(path: Path) -> Sample:
    """Inputs, targets and optionally `weights`, whole numbers converted to float64."""
    arrays = read_named(path, INPUTS, TARGETS, optional=("weights",))
    return Sample(**{name: value if value.is_floating_point() else value.double() for name, value in arrays.items()})


def read_examples(path: Path) -> tuple[Tensor, Tensor]:
    """Inputs and targets of a file, or of all files of a folder in the order of their names; classes as int64."""
    kinds = (".npz", ".safetensors")
    files = sorted(item for item in path.iterdir() if item.suffix in kinds) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{path} holds no .npz or .safetensors files")
    parts = [read_named(file, INPUTS, TARGETS) for file in files]
    try:
        inputs, targets = (torch.cat([part[name] for part in parts]) for name in ("inputs", "targets"))
    except RuntimeError as problem:
        raise ValueError(f"{path}: inputs and targets must have one row per example: {problem}") from problem
    return inputs, targets if targets.is_floating_point() else targets.long()


def read_model(path: Path, connect: bool = False) -> LinearModel:
    """Arrays U and V, or W1, W2, ... in order."""
    arrays = read_arrays(path)
    if set(arrays) == {"U", "V"}:
        return (Connections if connect else TwoLayerLinear)(arrays["U"], arrays["V"])
    layers = [f"W{number}" for number in range(1, len(arrays) + 1)]
    if len(layers) >= 2 and set(layers) == set(arrays) and not connect:
        return DeepLinear([arrays[name] for name in layers])
    wanted = "U and V" if connect else "U and V, or W1, W2, ..."
    raise ValueError(f"{path} must hold the arrays {wanted} and no others; it has {sorted(arrays)}")


def write_model(model: Model, path: Path) -> None:
    """Write the weights under the names that `read_model` reads."""
    if isinstance(model, DeepLinear):
        arrays = {f"W{i}": weight for i, weight in enumerate(model.weights, start=1)}
    elif isinstance(model, TwoLayerLinear):
        arrays = {"U": model.U, "V": model.V}
    else:
        raise ValueError(f"weights of {type(model).__name__} cannot be written")
    write_tensors(path, arrays)
