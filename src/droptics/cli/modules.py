"""Torch modules from the command line: exported or scripted files, or `package.module:factory` with a state dict."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from droptics.cli.errors import YourError
from droptics.files.limits import check_regular
from droptics.files.modules import is_script, read_program, read_script, read_state


def load_module(source: str, state: Path | None = None) -> nn.Module:
    """A module from a file or an import path.

    `source` is a file written by torch.export.save (.pt2) or torch.jit.save, or `package.module:factory`, a class or
    function that returns the module when called without arguments. `state` is a state dict (.safetensors, or .pt, of
    which no code runs).
    """
    imported = ":" in source and not Path(source).exists()
    module = _from_factory(source) if imported else read_module(Path(source))
    if state is not None:
        weights, own = read_state(state), module.state_dict()
        known = weights.keys() & own.keys()
        if bad := sorted(name for name in known if weights[name].is_complex() and not own[name].is_complex()):
            raise ValueError(
                f"{state}: {bad[0]} is complex and that of the module is real; take its real part yourself"
            )
        try:
            module.load_state_dict(weights)
        except RuntimeError as problem:
            raise ValueError(f"{state} does not fit the module: {problem}") from problem
    return module


def _from_factory(source: str) -> nn.Module:
    package, _, name = source.partition(":")
    if not all(part.isidentifier() for part in package.split(".")):
        raise ValueError(f"{source}: {package!r} is neither a file nor the name of a module")
    sys.path.insert(0, str(Path.cwd()))
    importlib.invalidate_caches()  # the file may be younger than the folder's last listing
    try:
        found = importlib.import_module(package)
    except ModuleNotFoundError as problem:
        if problem.name is not None and (package == problem.name or package.startswith(problem.name + ".")):
            raise ValueError(f"{package} cannot be imported: {problem}; is it in this folder?") from problem
        raise YourError(package, problem) from problem
    except (Exception, SystemExit) as problem:
        raise YourError(package, problem) from problem
    finally:
        sys.path.remove(str(Path.cwd()))
    factory = getattr(found, name, None)
    if not callable(factory):
        raise ValueError(f"{package} has no class or function called {name!r}")
    try:
        module = factory()
    except (Exception, SystemExit) as problem:
        raise YourError(source, problem) from problem
    if not isinstance(module, nn.Module):
        raise ValueError(f"{source} returned {type(module).__name__}, not a torch.nn.Module")
    if bad := [key for key, value in module.state_dict(keep_vars=True).items() if value.is_meta]:
        raise ValueError(f"{source} returned a module whose {bad[0]} is on the device meta and holds no numbers")
    return module


def read_module(path: Path, device: str = "cpu") -> nn.Module:
    """The module of a file of torch.export.save (.pt2) or torch.jit.save."""
    if not os.path.lexists(path):
        raise ValueError(f"{path} does not exist; give a file, or package.module:factory")
    check_regular(path)
    if path.suffix == ".pt2":
        return read_program(path).to(device)
    if is_script(path):
        return read_script(path, device)
    advice = "for a state dict give package.module:factory and --state"
    raise ValueError(f"{path} is not an exported (torch.export.save) or scripted (torch.jit.save) module; {advice}")


def check_device(name: str) -> str:
    """The device, or one clear error where torch cannot use it here."""
    if name.partition(":")[0] == "meta":
        raise ValueError("--device meta holds no numbers; name a device that computes, such as cpu")
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as problem:  # torch built without CUDA fails an assertion
        first = (str(problem).strip().splitlines() or [type(problem).__name__])[0].partition(". ")[0]
        raise ValueError(f"--device {name} cannot be used on this machine: {first}") from problem
    return name


def like_weights(module: nn.Module, value: Tensor) -> Tensor:
    """Floating point data in the precision of the module: NumPy writes float64, networks mostly hold float32."""
    kinds = (weight.dtype for weight in module.parameters() if weight.is_floating_point())
    return value.to(next(kinds, value.dtype)) if value.is_floating_point() else value
