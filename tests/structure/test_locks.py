"""The lock files hold what our commands install: every library at one version, every file of it by its hash."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from structure.test_groups import PYPROJECT, expanded

ROOT = Path(__file__).parents[2]
GROUPS = PYPROJECT["dependency-groups"]
DIRECT = {
    "dev": {*PYPROJECT["project"]["dependencies"], *expanded("test"), *expanded("docs")},
    "release": set(GROUPS["release"]),
    "site": set(GROUPS["site"]),
}
UNLOCKED = re.compile(r"torch|triton|cuda-.*|nvidia-.*")  # the build of torch, and what it brings along


def locked(name: str) -> dict[str, list[Requirement]]:
    """The requirements of a lock file by name: several where versions differ between Pythons."""
    text = (ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8")
    found: dict[str, list[Requirement]] = {}
    for entry in text.replace("\\\n", "").splitlines():
        requirement, *hashes = entry.split("--hash=sha256:")
        assert [part for part in hashes if re.fullmatch(r"[0-9a-f]{64}", part.strip())] == hashes != [], requirement
        item = Requirement(requirement.strip())
        found.setdefault(canonicalize_name(item.name), []).append(item)
    return found


@pytest.mark.parametrize("name", DIRECT)
def test_what_is_declared_is_locked_at_a_version_that_is_allowed(name):
    found = locked(name)
    for text in DIRECT[name]:
        wanted = Requirement(text)
        if UNLOCKED.fullmatch(canonicalize_name(wanted.name)):
            continue
        for item in found[canonicalize_name(wanted.name)]:
            (pin,) = item.specifier
            assert pin.operator == "==", item
            assert wanted.specifier.contains(pin.version), f"{text}: {item}"


@pytest.mark.parametrize("name", DIRECT)
def test_locks_agree_with_the_constraints_and_leave_torch_to_the_machine(name):
    found = locked(name)
    assert not [item for item in found if UNLOCKED.fullmatch(item)]
    for text in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if text and not text.startswith("#"):
            wanted = Requirement(text)
            for item in found.get(canonicalize_name(wanted.name), ()):
                assert item.specifier == wanted.specifier, f"{item} is not {wanted}: run make lock"


def test_no_lock_names_a_place_to_download_from():
    for path in (ROOT / "locks").iterdir():
        assert "://" not in path.read_text(encoding="utf-8")
