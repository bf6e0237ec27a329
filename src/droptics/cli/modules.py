"""Torch modules from the command line: exported or scripted files, or `package.module:factory` with a state dict."""

from __future__ import annotations

import importlib
import io
import json
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn


def load_module(source: str, state: Path | None = None) -> nn.Module:
    """A module from a file or an import path.

    `source` is a file written by torch.export.save (.pt2) or torch.jit.save, or `package.module:factory`, a class or
    function that returns the module when called without arguments. `state` is a state dict (.safetensors, or .pt read
    with weights_only=True, so that no code in it runs).
    """
    imported = ":" in source and not Path(source).exists()
    module = _from_factory(source) if imported else _from_file(Path(source))
    if state is not None:
        try:
            module.load_state_dict(read_state(state))
        except RuntimeError as problem:
            raise ValueError(f"{state} does not fit the module: {problem}") from problem
    return module


def read_state(path: Path) -> dict[str, Tensor]:
    """A state dict, read without running code from the file."""
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    try:
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:  # each format has its own errors; all mean that the file cannot be used
        raise ValueError(f"{path} cannot be read as a state dict: {_first_line(problem)}") from problem
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise ValueError(f"{path} does not hold a state dict (names and tensors)")
    return content


def _from_factory(source: str) -> nn.Module:
    package, _, name = source.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.import_module(package)
    except ImportError as problem:
        raise ValueError(f"{package} cannot be imported: {problem}") from problem
    finally:
        sys.path.pop(0)
    factory = getattr(found, name, None)
    if not callable(factory):
        raise ValueError(f"{package} has no class or function called {name!r}")
    module = factory()
    if not isinstance(module, nn.Module):
        raise ValueError(f"{source} returned {type(module).__name__}, not a torch.nn.Module")
    return module


def _from_file(path: Path) -> nn.Module:
    if not path.exists():
        raise ValueError(f"{path} does not exist; give a file, or package.module:factory")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is not an exported (torch.export.save) or scripted (torch.jit.save) module")
    if path.suffix == ".pt2":
        refuse_code(path)
    try:
        if path.suffix == ".pt2":
            return torch.export.load(path).module(check_guards=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch deprecates scripting; files that exist are still read
            scripted: nn.Module = torch.jit.load(path, map_location="cpu")
            return scripted
    except Exception as problem:
        raise ValueError(
            f"{path} cannot be read as a module: {_first_line(problem)}; "
            "for a state dict give package.module:factory and --state"
        ) from problem


def refuse_code(path: Path) -> None:
    """Refuse an exported program with a part that torch would unpickle and that does not load as plain tensors."""

    def flagged(node: Any) -> set[str]:
        if isinstance(node, dict):
            own = {str(node.get("path_name"))} if node.get("use_pickle") else set()
            return own.union(*map(flagged, node.values()))
        return set().union(*map(flagged, node)) if isinstance(node, list) else set()

    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
            pickled = {"?"}.union(*(flagged(json.loads(archive.read(n))) for n in members if n.endswith(".json")))
            for name in members:
                if name.endswith(".pt") or name.rsplit("/", 1)[-1] in pickled:
                    torch.load(io.BytesIO(archive.read(name)), map_location="cpu", weights_only=True)
    except Exception as problem:
        raise ValueError(f"{path} is not an exported program that loads without running code") from problem


def check_device(name: str) -> str:
    """The device, or one clear error where torch cannot use it here."""
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as problem:  # torch built without CUDA fails an assertion
        raise ValueError(f"--device {name} cannot be used on this machine: {_first_line(problem)}") from problem
    return name


def like_weights(module: nn.Module, value: Tensor) -> Tensor:
    """Floating point data in the precision of the module: NumPy writes float64, networks mostly hold float32."""
    kinds = (weight.dtype for weight in module.parameters() if weight.is_floating_point())
    return value.to(next(kinds, value.dtype)) if value.is_floating_point() else value


def _first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0].partition(". ")[0]
