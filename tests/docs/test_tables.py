"""What tables of pages name in code exists, and takes its arguments in the order in which they are written."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import droptics

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "coming").glob("*.md")), ROOT / "docs" / "recipes.md"]
SPAN = re.compile(r"`([^`]+)`")
ROOMS = {"attacks", "audits", "bounds", "datasets", "predictions", "rates", "recommenders", "training"}


def faults(text):
    """Calls that name what is not there, or pass under the name of one parameter what another one takes."""
    try:
        tree = ast.parse(text.replace("...", "None"), mode="eval")
    except SyntaxError:
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (target := named(node.func)) is not None:
            found += misplaced(node, target) if callable(target) else [f"{ast.unparse(node.func)}: no such name"]
    return found


def named(node):
    """What a name of ours stands for; None for the names of others, False where a room has no such name."""
    if isinstance(node, ast.Name):
        return getattr(droptics, node.id, None)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ROOMS:
        return getattr(getattr(droptics, node.value.id), node.attr, False)
    return None


def misplaced(call, target):
    taken = inspect.signature(target).parameters
    parameters, told = list(taken), ast.unparse(call)
    more = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
    found = [f"{told}: no {word.arg}" for word in call.keywords if word.arg not in parameters and not more]
    for place, value in enumerate(call.args):
        if place >= len(parameters):
            found.append(f"{told}: takes {len(parameters)} arguments")
        elif isinstance(value, ast.Name) and value.id in parameters and parameters.index(value.id) != place:
            found.append(f"{told}: {value.id} is not argument {place + 1}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_call_what_is_there(page):
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert [fault for line in lines for cell in SPAN.findall(line) for fault in faults(cell)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("attack(net, data, threat, Pgd())", []),
        ("robustness_curve(net, data, radii)", ["robustness_curve(net, data, radii): radii is not argument 3"]),
        ("predictions.nothing(x)", ["predictions.nothing: no such name"]),
        ("Pgd(paces=3)", ["Pgd(paces=3): no paces"]),
        ("nn.Dropout(p)", []),
        ("not code at all", []),
    ],
)
def test_a_planted_fault_is_found(text, found):
    assert faults(text) == found


def test_the_glossary_names_what_is_there():
    """Names of ours, parameters of the theorems, and what every mask law has."""
    glossary = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8").split("## Letter by letter")[1]
    taken = {
        name
        for room in (droptics.bounds.adversarial, droptics.bounds.lazy)
        for name in inspect.signature(room).parameters
    }
    known = taken | {"drop / (1 - drop)", "1 - drop", "1 - confidence"} | set(dir(droptics.MaskLaw))
    rows = [line.split("|")[4] for line in glossary.splitlines() if line.startswith("| ")][2:]
    named = {span for cell in rows for span in SPAN.findall(cell)} - known
    assert len(rows) > 30
    assert [name for name in sorted(named) if not found(name)] == []


def found(name):
    value = droptics
    for part in name.split("."):
        value = getattr(value, part, getattr(value, "__dataclass_fields__", {}).get(part))
    return value is not None
