"""Epochs of the UCI protocol on a GPU against torch's steps; runs on CUDA, or anywhere in Triton's interpreter.

Without a GPU: TRITON_INTERPRET=1 python -m pytest tests/benchmarks/test_uci_kernel.py
"""

import importlib
import os
import sys
from pathlib import Path

import pytest
import torch

from droptics.gpu.triton import missing

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = [
    pytest.mark.skipif(bool(missing()), reason="needs triton"),
    pytest.mark.skipif(not torch.cuda.is_available() and not INTERPRETED, reason="needs a GPU or TRITON_INTERPRET=1"),
]


@pytest.fixture
def protocol(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    yield importlib.import_module("uci_protocol")
    for name in ("uci_protocol", "uci_kernel", "harness"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("features", [4, 13])
def test_epochs_without_drops_are_those_of_torch(protocol, features):
    """Two epochs of three steps, the last of which has fewer rows: six steps of 1e-3, equal to 1e-3 of one of them."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    inputs = torch.randn(3, 300, features, device=device)
    targets = inputs[..., 0] + torch.randn(3, 300, device=device)
    decay = torch.tensor([1e-3, 1e-2, 0.0], device=device)
    orders = torch.rand(2, 3, 300, device=device).argsort(-1)
    found = []
    for way in ("_kernel", "_steps"):
        runs = protocol.Runs(inputs, targets, torch.zeros(3), torch.ones(3), seed=1)
        getattr(runs, way)(decay)(orders)
        found.append([part.detach() for part in (*runs.weights, *runs.biases)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
