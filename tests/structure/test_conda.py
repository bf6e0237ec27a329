"""The conda recipe asks for what pyproject.toml asks for."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from structure.test_groups import PYPROJECT

PROJECT = PYPROJECT["project"]
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}


@pytest.fixture(scope="module")
def recipe():
    """The recipe as YAML reads it; its one template is `version`."""
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((Path(__file__).parents[2] / "conda" / "recipe.yaml").read_text(encoding="utf-8"))


def plain(text: str) -> str:
    """A requirement as the recipe spells it."""
    item = Requirement(text)
    return f"{CONDA_NAMES.get(item.name, item.name)} {item.specifier}"


def test_recipe_runs_with_what_the_package_declares(recipe):
    python = f"python {PROJECT['requires-python']}"
    assert recipe["requirements"]["run"] == [python, *map(plain, PROJECT["dependencies"])]
    assert recipe["requirements"]["host"] == [python, "pip", *map(plain, PYPROJECT["build-system"]["requires"])]


def test_recipe_says_of_the_package_what_the_package_says(recipe):
    assert recipe["context"]["version"] == PROJECT["version"]
    assert recipe["about"]["summary"] == PROJECT["description"]
    assert recipe["about"]["license"] == PROJECT["license"]
    (entry,) = PROJECT["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [" = ".join(entry)]
