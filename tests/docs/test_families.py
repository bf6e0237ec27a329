"""The table of questions about a family says what is registered: every rule, every family."""

import importlib
import pkgutil
import re
from functools import singledispatch
from pathlib import Path

import pytest

import droptics
from droptics.models import Model

PAGE = Path(__file__).parents[2] / "docs" / "extend.md"
ROW = re.compile(r"^\| [^|]+ \| `droptics\.([\w.]+)` \| ([^|]+) \|$", re.MULTILINE)


def table(text: str) -> dict[str, set[str]]:
    """Families by rule, as the page lists them."""
    return {rule: set(re.findall(r"`(\w+)`", families)) for rule, families in ROW.findall(text)}


def registries() -> dict[str, set[str]]:
    """Families of the package by rule: single-dispatch functions that are registered for a model."""
    found = {}
    for module in pkgutil.walk_packages(droptics.__path__, "droptics."):
        if module.name.startswith(("droptics.papers", "droptics.cli", "droptics.__main__")) or "triton" in module.name:
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if name.startswith("_") or getattr(value, "__module__", None) != module.name:
                continue
            families = {
                key.__name__
                for key in getattr(value, "registry", {})
                if isinstance(key, type) and issubclass(key, Model) and key.__module__.startswith("droptics.")
                if not key.__module__.startswith("droptics.papers.")  # what checks make up is no family of the package
            }
            if families - {"Model"}:
                found[f"{module.name.removeprefix('droptics.')}.{name}"] = families - {"Model"}
    return found


def test_the_table_is_what_is_registered():
    assert table(PAGE.read_text()) == registries()


def test_a_missing_rule_or_family_is_found(monkeypatch):
    text = PAGE.read_text()
    assert table(text.replace("`ReLUNet`", "")) != registries()
    module = importlib.import_module("droptics.optima.optimum")

    @singledispatch
    def new_question(model):
        return None

    new_question.register(droptics.ReLUNet)(lambda model: model)
    new_question.__module__ = module.__name__
    monkeypatch.setattr(module, "new_question", new_question, raising=False)
    assert registries()["optima.optimum.new_question"] == {"ReLUNet"}
    with pytest.raises(AssertionError):
        test_the_table_is_what_is_registered()
