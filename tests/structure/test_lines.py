"""The rooms of the first plan do not grow, and the test that says so can fail."""

from pathlib import Path

import droptics
from structure.lines import GOAL, ROOMS, lines

PACKAGE = Path(droptics.__file__).parent


def test_the_rooms_of_the_first_plan_do_not_grow():
    assert lines(PACKAGE) < GOAL, "delete as much as was added"


def test_a_planted_line_is_counted(tmp_path):
    (tmp_path / "data.py").write_text("a = 1\n\n# why\nb = 2\n")
    (tmp_path / "new.py").write_text("c = 3\n")
    assert "data.py" in ROOMS
    assert lines(tmp_path) == 4


def test_every_listed_file_is_there():
    assert [name for name in ROOMS if not (PACKAGE / name).exists()] == []
