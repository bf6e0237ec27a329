"""The groups of pyproject.toml install what the extras of the same name install."""

import re
import tomllib
from pathlib import Path

import pytest

PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PYPROJECT["project"]["optional-dependencies"]


def expanded(name: str) -> set[str]:
    """The requirements of an extra, with those of the extras that it names."""
    found = set()
    for requirement in EXTRAS[name]:
        own = re.fullmatch(r"droptics\[(.*)\]", requirement)
        found |= set().union(*map(expanded, own[1].split(","))) if own else {requirement}
    return found


@pytest.mark.parametrize("name", ["test", "docs"])
def test_group_and_extra_are_the_same(name):
    assert set(PYPROJECT["dependency-groups"][name]) == expanded(name)
