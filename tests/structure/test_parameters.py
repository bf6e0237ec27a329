"""No function has more parameters than a caller keeps apart, and the test that says so can fail."""

from pathlib import Path

import pytest

import droptics
from structure.parameters import crowded

PACKAGE = Path(droptics.__file__).parent
SEVEN = "a, b, c, d, e, f, g"
DESCRIBED = "".join(f"        {name}: A number.\n" for name in SEVEN.split(", "))
OPTION_OBJECT = f'class A:\n    """A.\n\n{DESCRIBED}    """\n    def __init__(self, {SEVEN}):\n        pass'
TWENTY_ONE = ", ".join(f"p{i}" for i in range(21))


def test_no_function_is_crowded():
    assert crowded(PACKAGE) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"def long({SEVEN}):\n    pass", "room/file.py:1 long has 7 parameters"),
        (f"class A:\n    def long(self, {SEVEN}):\n        pass", "room/file.py:2 long has 7 parameters"),
        ("def long(a, b, /, c, d, *, e, f, g):\n    pass", "room/file.py:1 long has 7 parameters"),
        (f"class A:\n    def __init__(self, {SEVEN}):\n        pass", "room/file.py:2 __init__ has 7 parameters"),
        (f"@njit(cache=True)\ndef loop({TWENTY_ONE}):\n    pass", "room/file.py:2 loop has 21 parameters"),
        (f"def loop({TWENTY_ONE}):\n    pass\ntriton.jit(loop)", "room/file.py:1 loop has 21 parameters"),
        ("# parameters: none\ndef short(a):\n    pass", "room/file.py:2 short needs no reason for 1 parameters"),
        (f"def cell(*, {SEVEN}):\n    pass", "room/file.py:1 cell has 7 parameters"),
        (f"# parameters:\ndef long({SEVEN}):\n    pass", "room/file.py:2 long has 7 parameters"),
    ],
)
def test_a_planted_violation_is_found(tmp_path, text, found):
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "file.py").write_text(text)
    assert crowded(tmp_path) == [found]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("room", "def six(self, a, b, c, d, e, *rest, f, **more):\n    pass"),
        ("room", f"def long({SEVEN}):  # parameters: those of the theorem\n    pass"),
        ("room", f"# parameters: those of the theorem\ndef long({SEVEN}):\n    pass"),
        ("room", f"@numba.njit\ndef loop({SEVEN}):\n    pass"),
        ("cli", f"def command({SEVEN}):\n    pass"),
        ("room", OPTION_OBJECT),
        ("papers", f"def cell(*, {SEVEN}):\n    pass"),
    ],
)
def test_what_may_have_more_has(tmp_path, place, text):
    (tmp_path / place).mkdir()
    (tmp_path / place / "file.py").write_text(text)
    assert crowded(tmp_path) == []
