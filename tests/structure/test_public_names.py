"""The names that stay are there, every one resolves, and importing the package imports nothing heavy."""

import subprocess
import sys

import droptics
from droptics import linalg, norms

PROMISED = {
    *("Sample", "Moments", "Entries", "Measurements"),
    *("Bernoulli", "Block", "SlidingBlock", "Gaussian", "Discrete", "Product", "drop_for_width"),
    *("TwoLayerLinear", "Autoencoder", "DeepLinear", "Connections", "Factorization", "ReLUNet", "LastLayer"),
    *("ClosedForm", "Enumerate", "MonteCarlo", "best_method", "penalty", "criterion", "risk"),
    *("sub_penalties", "effective_strength"),
}


def test_promised_names_are_public():
    assert set(droptics.__all__) >= PROMISED


def test_every_public_name_resolves():
    for name in droptics.__all__:
        assert getattr(droptics, name) is not None


def test_ground_routines():
    assert callable(linalg.psd_root)
    assert callable(norms.path_norm)
    assert callable(norms.k_support)
    assert callable(norms.weighted_trace)


def test_import_is_light():
    code = "import sys, droptics; print(sorted({'torch', 'numpy', 'scipy', 'matplotlib', 'numba'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
