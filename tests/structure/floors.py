"""The plan of the house, and a reader of imports that says where it is broken."""

from __future__ import annotations

import ast
from pathlib import Path

# A room imports only from lower floors, or from the left on floors where an arrow stands (ARROWS).
FLOORS = [
    [
        *("errors", "arrays", "checks", "annotations", "arguments", "answers", "files", "clusters", "compiling"),
        *("linalg", "norms", "estimates", "losses", "plots", "progress", "gpu", "terminal", "transforms"),
    ],
    ["data", "masks", "models"],
    ["penalties", "spectra", "datasets"],
    ["envelopes", "equalization", "optima", "landscapes", "bounds", "coadaptation", "heads", "predictions"],
    ["attacks", "training", "layers", "recommenders"],
    ["audits"],
    ["evidence", "rates"],
    ["papers"],
    ["cli"],
    ["__main__"],
]
ARROWS = {
    3: ["envelopes", "equalization", "optima", "landscapes", "bounds"],
    4: ["attacks", "training", "layers"],
    6: ["evidence", "rates"],
}
GROUND_ARROWS = {
    "checks": {"transforms"},
    "arguments": {"annotations", "checks"},
    "answers": {"arguments", "checks", "transforms"},
    "norms": {"answers", "arguments", "checks", "linalg"},
    "linalg": {"arguments", "arrays", "checks", "compiling", "transforms"},
    "losses": {"arguments", "checks"},
    "estimates": {"arguments", "checks"},
    "files": {"arrays"},
}
FLOOR = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
PLOTTING = {"matplotlib"}


def violations(package: Path) -> list[str]:
    """Every import that goes up, sideways without an arrow, through the package root, or hides in a function."""
    found = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        room = parts[0]
        if room == "__init__":
            continue
        if room not in FLOOR:
            found.append(f"{room}: not a room of the house")
            continue
        tree = ast.parse(path.read_text())
        functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        hidden = {id(node) for function in functions for node in ast.walk(function)}
        for node in ast.walk(tree):
            for module in _imported(node, parts):
                found += _judge(path.relative_to(package), room, module, id(node) in hidden)
    return found


def _imported(node: ast.AST, parts: tuple[str, ...]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        if node.level:
            return ["relative import"]
        if node.module == "droptics":
            return [f"droptics.{alias.name}" for alias in node.names]
        return [node.module or ""]
    return []


def _judge(path: Path, room: str, module: str, hidden: bool) -> list[str]:
    if module == "relative import":
        return [f"{path}: relative import"]
    top, _, rest = module.partition(".")
    if top in PLOTTING and room != "plots":
        return [f"{path}: only plots imports {top}"]
    if top != "droptics":
        return []
    if not rest or rest.split(".")[0] not in FLOOR:
        return [f"{path}: imports {module}, which is not a room"]
    target = rest.split(".")[0]
    if target == room:
        return []
    if hidden and room != "cli":
        return [f"{path}: hides the import of {target} in a function"]
    if not _allowed(room, target):
        return [f"{path}: {room} (floor {FLOOR[room]}) must not import {target} (floor {FLOOR[target]})"]
    return []


def _allowed(room: str, target: str) -> bool:
    if FLOOR[target] < FLOOR[room]:
        return True
    if FLOOR[target] > FLOOR[room]:
        return False
    row = ARROWS.get(FLOOR[room], [])
    if room in row and target in row:
        return row.index(target) < row.index(room)
    return target in GROUND_ARROWS.get(room, set())
