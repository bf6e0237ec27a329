"""The floors of the house are kept, and the test that says so can fail."""

from pathlib import Path

import pytest

import droptics
from structure.floors import violations

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
