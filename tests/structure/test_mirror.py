"""Tests stand where the code stands that they are about, and the test that says so can fail."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PACKAGE = TESTS.parent / "src" / "droptics"
# what is not about one room: all public names at once, the tree itself, helpers, pages, and what others wrote
WIDE = {"benchmarks", "docs", "fuzzing", "hostile", "metamorphic", "structure", "support", "third_party"}
WIDE_FILES = {"test_package.py", "test_release.py"}  # what is shipped


def misplaced(tests: Path, package: Path) -> list[str]:
    """Folders of tests without a room, and files of tests beside no module of the package."""
    found = []
    for path in sorted(tests.rglob("test_*.py")):
        place = path.relative_to(tests)
        if len(place.parts) == 1:
            if place.name not in WIDE_FILES and not (package / place.name.removeprefix("test_")).exists():
                found.append(f"{place}: no such module")
        elif place.parts[0] not in WIDE and not (package / place.parent).is_dir():
            found.append(f"{place}: no such room")
    return found


def test_tests_mirror_the_package():
    assert misplaced(TESTS, PACKAGE) == []


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("test_more.py", "test_more.py: no such module"),
        ("attic/test_things.py", "attic/test_things.py: no such room"),
        ("penalties/tanh/test_sums.py", "penalties/tanh/test_sums.py: no such room"),
        ("test_data.py", None),
        ("penalties/relu/test_sums.py", None),
        ("hostile/test_values.py", None),
    ],
)
def test_a_planted_file_is_found(tmp_path, place, found):
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).touch()
    assert misplaced(tmp_path, PACKAGE) == ([] if found is None else [found])
