"""Loading or calling a public name changes nothing that the whole process shares."""

import subprocess
import sys
from pathlib import Path

import pytest

CODE = r"""
import contextlib, gc, importlib, locale, os, pkgutil, random, sys, threading, warnings
import numpy as np
import torch
import matplotlib

def prints():
    return {
        "random": hash(random.getstate()),
        "numpy": np.random.get_state()[1].tobytes() + bytes(str(np.random.get_state()[2:]), "ascii"),
        "numpy errors": str(np.geterr()),
        "torch": torch.get_rng_state().numpy().tobytes(),
        "dtype": torch.get_default_dtype(),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "gradients": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "precision": torch.get_float32_matmul_precision(),
        "flush": torch.tensor(1e-310, dtype=torch.float64).mul(1).item(),
        "backend": matplotlib.rcParams._get("backend"),
        "matplotlib": str(sorted((k, str(v)) for k, v in dict.items(matplotlib.rcParams) if k != "backend")),
        "locale": locale.setlocale(locale.LC_ALL),
        "folder": os.getcwd(),
        "environment": {k: v for k, v in os.environ.items() if not k.startswith(("KMP_", "TORCHINDUCTOR_"))},
        "recursion": sys.getrecursionlimit(),
        "collector": gc.isenabled(),
        "hooks": (sys.excepthook, threading.excepthook, sys.displayhook),
    }

filters = list(warnings.filters)

def differences(before):
    # libraries may add filters for warnings of their own; those of the caller stay as they are
    after = prints()
    found = [key for key in before if before[key] != after[key]]
    return found + ["warnings"] * ([item for item in warnings.filters if item in filters] != filters)

changed = []
before = prints()
import droptics

def watch(load, name):
    global before
    loaded = load(name)
    if found := differences(before):
        changed.append(f"loading {name}: {found}")
        before = prints()
    return loaded

for name in droptics._SPELLINGS:
    watch(droptics.__getattr__, name)
for module in pkgutil.walk_packages(droptics.__path__, "droptics."):
    if module.name == "droptics.__main__":  # is the command line itself
        continue
    try:
        loaded = watch(importlib.import_module, module.name)
    except ModuleNotFoundError as missing:
        if missing.name.startswith("droptics"):
            raise
        continue  # of a library that is optional
    for name in getattr(loaded, "__all__", ()):
        watch(lambda name: getattr(loaded, name), name)
"""
CALLS = """
sys.path[:0] = sys.argv[1:]
from hostile.calls import call, public, valid_arguments
for name, function in public().items():
    with warnings.catch_warnings(), contextlib.suppress(Exception):  # that a call is valid is another test
        warnings.simplefilter("ignore")
        arguments = valid_arguments(name, function)
        before = prints()
        call(function, arguments)
    found = differences(before)
    if isinstance(function, type) and issubclass(function, torch.nn.Module):
        found = [key for key in found if key != "torch"]  # a layer draws its weights, as those of torch do
    if found:
        changed.append(f"calling {name}: {found}")
"""
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def changed(tmp_path_factory) -> list[str]:
    """What loading and calling changed, in one process and in a folder where files that a call may write do no harm."""
    code = CODE + CALLS + "print(*changed, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code, str(TESTS / "support"), str(TESTS)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=tmp_path_factory.mktemp("state"),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("what", ["loading", "calling"])
def test_no_public_name_changes_what_the_process_shares(changed: list[str], what: str) -> None:
    assert [line for line in changed if line.startswith(what)] == []
