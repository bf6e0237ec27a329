"""Tests for one system say so, the library imports nothing of one alone, and the tests that say so can fail."""

from pathlib import Path

import pytest

from structure.systems import cases, readers, unmarked

TESTS = Path(__file__).parents[1]
LIBRARY = sorted((TESTS.parent / "src").rglob("*.py"))


def test_tests_say_which_system_they_need():
    assert readers(TESTS) == []


def test_the_library_imports_nothing_of_one_system():
    assert [f"{file.name}: {found}" for file in LIBRARY for found in unmarked(file.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import resource", ["import resource"]),
        ("def test_a():\n    os.kill(1, signal.SIGKILL)", ["test_a: SIGKILL"]),
        ("def test_a():\n    open('/proc/self/status')", ["test_a: /proc/"]),
        ("@posix\ndef test_a():\n    os.kill(1, signal.SIGKILL)", []),
        ("@posix\ndef test_a():\n    open('/dev/full')", ["test_a: /dev/full"]),
        ("@linux\ndef test_a():\n    open('/dev/full')", []),
        ("pytestmark = posix\ndef test_a():\n    os.kill(1, signal.SIGKILL)", []),
        ("def helper():\n    os.fork()", []),
        ("CASES = [('--out', '/dev/full')]", ["('--out', '/dev/full')"]),
        ("CASES = [pytest.param('/dev/full', marks=linux)]", []),
    ],
)
def test_a_planted_need_is_found(text, found):
    assert [*unmarked(text), *cases(text)] == found
