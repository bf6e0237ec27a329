"""Text is UTF-8 on every system, and the test that says so can fail."""

from pathlib import Path

import pytest

from structure.encodings import readers, unsaid

ROOT = Path(__file__).parents[2]


def test_the_library_names_the_encoding_of_text_files():
    assert readers(ROOT / "src") == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("path.read_text()", [1]),
        ("path.write_text(text)", [1]),
        ("open(path, 'w')", [1]),
        ("path.open('r')", [1]),
        ("path.read_text(encoding='utf-8')", []),
        ("write_text(path, text)", []),
        ("path.open('rb')", []),
        ("open(path, mode='wb')", []),
        ("archive.open(name)", []),
    ],
)
def test_a_planted_line_is_found(line, found):
    assert list(unsaid(line)) == found
