"""Weights and data from files: .npz without pickle, or .safetensors; written atomically."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import Tensor

from droptics.data import Sample
from droptics.files.arrays import read_npz, read_tensors, write_tensors
from droptics.files.limits import check_regular
from droptics.models import Connections, DeepLinear, LinearModel, Model, TwoLayerLinear


def read_arrays(path: Path) -> dict[str, Tensor]:
    """Named arrays of real numbers of a .npz or .safetensors file."""
    check_regular(path)
    kind = path.suffix.lower()
    if kind not in (".npz", ".safetensors"):
        raise ValueError(f"{path} must be a .npz or .safetensors file")
    try:
        arrays = (
            read_tensors(path)
            if kind == ".safetensors"
            else {name: torch.from_numpy(array) for name, array in read_npz(path).items()}
        )
    except TypeError as problem:  # text, and numbers that torch does not know
        raise ValueError(f"{path} holds an array that is no tensor: {problem}") from problem
    if bad := [name for name, value in arrays.items() if value.is_complex()]:
        raise ValueError(f"{path}: the array {bad[0]!r} is complex; give real numbers")
    return arrays


def examples_of(arrays: dict[str, Tensor], path: Path) -> tuple[Tensor, Tensor]:
    """The inputs and the targets among the arrays of a file, under any of the names in use."""

    def one_of(*names: str) -> Tensor:
        for name in names:
            if name in arrays:
                return arrays[name]
        raise ValueError(f"{path} must hold an array named {' or '.join(names)}; it has {sorted(arrays)}")

    return one_of("inputs", "images", "x"), one_of("targets", "labels", "y")


def read_sample(path: Path) -> Sample:
    """Inputs, targets and optionally `weights`, whole numbers converted to float64."""
    arrays = read_arrays(path)
    inputs, targets = examples_of(arrays, path)
    wanted = {"inputs": inputs, "targets": targets}
    if "weights" in arrays:
        wanted["weights"] = arrays["weights"]
    return Sample(**{name: value if value.is_floating_point() else value.double() for name, value in wanted.items()})


def read_model(path: Path, connect: bool = False) -> LinearModel:
    """Arrays U and V, or W1, W2, ... in order."""
    arrays = read_arrays(path)
    if {"U", "V"} <= set(arrays):
        return (Connections if connect else TwoLayerLinear)(arrays["U"], arrays["V"])
    layers = sorted((int(name[1:]), name) for name in arrays if re.fullmatch(r"W\d+", name))
    if len(layers) >= 2 and not connect:
        return DeepLinear([arrays[name] for _, name in layers])
    wanted = "U and V" if connect else "U and V, or W1, W2, ..."
    raise ValueError(f"{path} must hold the arrays {wanted}; it has {sorted(arrays)}")


def write_model(model: Model, path: Path) -> None:
    """Write the weights under the names that `read_model` reads."""
    if isinstance(model, DeepLinear):
        arrays = {f"W{i}": weight for i, weight in enumerate(model.weights, start=1)}
    elif isinstance(model, TwoLayerLinear):
        arrays = {"U": model.U, "V": model.V}
    else:
        raise ValueError(f"weights of {type(model).__name__} cannot be written")
    write_tensors(path, arrays)
