"""The names that stay are there, every one resolves, and importing the package imports nothing heavy."""

import subprocess
import sys

import droptics

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
    *("audit", "verify", "reproduce", "predictive", "Predictive"),
}


def test_promised_names_are_public():
    assert set(droptics.__all__) >= PROMISED


def test_every_public_name_resolves():
    for name in droptics.__all__:
        assert getattr(droptics, name) is not None


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
