"""Questions that one place answers, and a reader of the source that says where they are asked besides."""

from __future__ import annotations

import ast
from pathlib import Path

# Whether units are independent changes no answer outside of these rooms, nor how it is computed.
INDEPENDENT = {"masks", "spectra"}
# Which kind of closed form a law has is asked of `spectra.action`; of these laws nothing else may be asked there.
KINDS = {"Block", "SlidingBlock", "Gaussian", "Discrete"}
READINGS = {"envelopes", "equalization", "optima", "landscapes"}


# The question itself knows no family: their rules are registered.
FAMILIES = {
    "TwoLayerLinear",
    "Autoencoder",
    "Connections",
    "Factorization",
    "DeepLinear",
    "ReLUNet",
    "LastLayer",
    "Site",
}
OPEN = {"penalties/penalty.py", "penalties/rules.py", "envelopes/envelope.py", "equalization/equalization.py"}
OPEN |= {"optima/optimum.py"}


def switches(package: Path) -> list[str]:
    """Every place that asks for the independence of units, the kind of a law or a family and is not meant to."""
    found = []
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        room = name.parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            free = room in INDEPENDENT | {"papers"}
            if not free and isinstance(node, ast.Attribute) and node.attr == "independent":
                found.append(f"{name}: asks whether units are independent; use law.weigh, noise, hadamard or correlate")
            if name.as_posix() in OPEN and isinstance(node, ast.Name) and node.id in FAMILIES:
                found.append(f"{name}: names {node.id}; register a rule for it")
            if room in READINGS and isinstance(node, ast.Name) and node.id in KINDS:
                found.append(f"{name}: asks for {node.id}; use spectra.action")
    return found
