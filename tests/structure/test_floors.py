"""The floors of the house are kept, and the test that says so can fail."""

from pathlib import Path

import pytest

import droptics
from structure.floors import ARROWS, FLOOR, FLOORS, GROUND_ARROWS, violations

PACKAGE = Path(droptics.__file__).parent


def test_no_import_goes_up():
    assert violations(PACKAGE) == []


@pytest.mark.parametrize(
    ("room", "line", "message"),
    [
        ("masks/law.py", "from droptics.penalties import penalty", "must not import penalties"),
        ("masks/law.py", "import droptics.models", "must not import models"),
        ("data.py", "def late():\n    from droptics.checks import check_size", "hides the import"),
        ("penalties/penalty.py", "from droptics import data, cli", "must not import cli"),
        ("penalties/penalty.py", "import droptics", "not a room"),
        ("penalties/penalty.py", "import matplotlib.pyplot", "only plots"),
        ("models/model.py", "from .relu import ReLUNet", "relative import"),
        ("masks/law.py", "from droptics.spectra import action", "must not import spectra"),
        ("spectra/actions.py", "from droptics.penalties import penalty", "must not import penalties"),
        ("spectra/kinds.py", "from droptics.envelopes import induced", "must not import envelopes"),
        ("basement.py", "import torch", "not a room of the house"),
    ],
)
def test_a_planted_violation_is_found(tmp_path, room, line, message):
    copy = tmp_path / "droptics"
    target = copy / room
    target.parent.mkdir(parents=True)
    original = PACKAGE / room
    before = original.read_text() if original.exists() else ""
    target.write_text(before)
    assert original.exists() <= (violations(copy) == []), "the file is sound before"
    target.write_text(before + "\n" + line + "\n")
    assert any(message in found for found in violations(copy))


ABOVE = [(room, target) for room in FLOOR for target in FLOOR if FLOOR[target] == FLOOR[room] + 1]
BESIDE = [(room, target) for rooms in FLOORS for room in rooms for target in rooms if room != target]


def planted(folder, room, target):
    (folder / f"{room}.py").write_text(f"from droptics.{target} import anything\n")
    return violations(folder)


@pytest.mark.parametrize("room", list(FLOOR))
def test_every_room_of_the_plan_exists(room):
    assert (PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").is_file()


@pytest.mark.parametrize(("room", "target"), ABOVE)
def test_no_room_of_any_floor_imports_from_the_floor_above(tmp_path, room, target):
    assert planted(tmp_path, room, target) == [
        f"{room}.py: {room} (floor {FLOOR[room]}) must not import {target} (floor {FLOOR[target]})"
    ]


@pytest.mark.parametrize(("room", "target"), BESIDE)
def test_only_arrows_lead_to_the_side_and_none_leads_back(tmp_path, room, target):
    row = ARROWS.get(FLOOR[room], [])
    arrow = target in GROUND_ARROWS.get(room, set()) or (
        room in row and target in row and row.index(target) < row.index(room)
    )
    assert (planted(tmp_path, room, target) == []) == arrow
