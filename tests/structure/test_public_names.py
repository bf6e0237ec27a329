"""The names that stay are there, every one resolves, and importing the package imports nothing heavy."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import droptics

# What one can take in during the first hour; a name beyond it lives in its room.
FIRST_HOUR = 45
ROOT = Path(__file__).parents[2]
MOVED = (ROOT / "docs" / "api.md").read_text(encoding="utf-8").split("## Names that moved")[1]

PROMISED = {
    *("Sample", "Moments", "Entries", "Measurements"),
    *("Bernoulli", "Block", "SlidingBlock", "Gaussian", "Discrete", "Product", "drop_for_width"),
    *("TwoLayerLinear", "Autoencoder", "DeepLinear", "Connections", "Factorization", "ReLUNet", "LastLayer"),
    *("ClosedForm", "Enumerate", "MonteCarlo", "best_method", "penalty", "criterion", "risk"),
    *("sub_penalties", "effective_strength", "SecondOrder"),
    *("induced", "envelope", "imbalance", "equalize", "optimum", "certify", "Optimum", "Certificate"),
    *("linalg", "norms", "landscapes", "coadaptation", "bounds"),
    *("Threat", "CrossEntropy", "Logistic", "Reflected", "Fgsm", "Bim", "Pgd", "attack"),
    *("Dropout", "Penalized", "Plain", "Adversarial", "train", "DropoutCompletion"),
    *("audit", "verify", "reproduce", "predictive", "Predictive", "tune_rates"),
}


def first_hour() -> set[str]:
    return {name for name in droptics.__all__ if not isinstance(getattr(droptics, name), (ModuleType, str))}


def misplaced(page: str) -> list[str]:
    """Old spellings that the page does not place, and those that are not where it says."""
    places = dict(re.findall(r"^\| `(\w+)` \| `(droptics[\w.]+)` \|$", page, re.MULTILINE))
    moved = set(droptics._SPELLINGS) - set(droptics.__all__)
    found = [f"{name}: not on the page" for name in sorted(moved - set(places))]
    found += [f"{name}: has not moved" for name in sorted(set(places) - moved)]
    for name in sorted(moved & set(places)):
        if getattr(importlib.import_module(places[name]), name, None) is not getattr(droptics, name):
            found.append(f"{name}: not in {places[name]}")
    return found


def test_promised_names_are_public():
    assert set(droptics._SPELLINGS) >= PROMISED


def test_every_public_name_resolves():
    for name in {*droptics.__all__, *droptics._SPELLINGS}:
        assert getattr(droptics, name) is not None


def test_the_top_level_is_what_one_types_in_the_first_hour():
    assert len(first_hour()) <= FIRST_HOUR, "leave the new name in its room"
    assert len(set(droptics.__all__)) == len(droptics.__all__)
    assert sorted(dir(droptics)) == sorted(droptics.__all__)


def test_type_checkers_know_every_spelling():
    stub = ast.parse((ROOT / "src" / "droptics" / "__init__.pyi").read_text(encoding="utf-8"))
    (listed,) = [ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign)]
    assert set(listed) == {"__version__", *droptics._SPELLINGS}


def test_the_page_says_where_the_other_names_live():
    assert misplaced(MOVED) == []


def test_a_missing_a_wrong_and_a_needless_line_of_the_page_are_found():
    line = "| `Discrete` | `droptics.masks` |"
    assert line in MOVED
    assert misplaced(MOVED.replace(line, "")) == ["Discrete: not on the page"]
    assert misplaced(MOVED.replace(line, line.replace("masks", "models"))) == ["Discrete: not in droptics.models"]
    assert misplaced(MOVED + "| `penalty` | `droptics.penalties` |\n") == ["penalty: has not moved"]


def test_names_inside_rooms():
    inside = {
        droptics.linalg: ("equalizer", "shrink", "k_support_shrink", "psd_root"),
        droptics.norms: ("path_norm", "k_support", "weighted_trace"),
        droptics.landscapes: ("critical_points", "inspect"),
        droptics.coadaptation: ("flows", "coadaptation", "retentivity", "symmetrize"),
        droptics.bounds: ("completion", "rademacher", "relu", "lazy", "adversarial"),
    }
    for room, names in inside.items():
        for name in names:
            assert callable(getattr(room, name))


def test_import_is_light():
    code = "import sys, droptics; print(sorted({'torch', 'numpy', 'scipy', 'matplotlib', 'numba'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
