"""The page on how the library was tried counts what the records hold."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = {"commit": "abc", "hardware": {"machine": "m"}, "versions": {"python": "3", "torch": "2"}}
FATES = {
    "tests": {"a@0:1:0: 1  ->  2": "noticed by one", "a@0:2:0: 1  ->  2": "lived 3 of 3", "a@0:3:0: b": "not reached"},
    "claims": {"a@0:1:0: 1  ->  2": "lived 1 of 1", "a@0:2:0: 1  ->  2": "noticed by two", "a@0:3:0: b": "not reached"},
}


@pytest.fixture
def mutants_lines(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    monkeypatch.delitem(sys.modules, "tried_page", raising=False)
    from tried_page import mutants_lines

    return mutants_lines


def test_mutants_are_counted_by_room_and_together(mutants_lines, tmp_path):
    """Tests and claims apart, what either notices, and every survivor with the reason that was read, or none."""
    rooms = {"deliberate": {"fates": FATES}, "masks": {"fates": FATES}, "rates": {"fates": {"tests": {}, "claims": {}}}}
    record = tmp_path / "mutations.json"
    checks = {"checks": {"tests": 4, "claims": 2}}
    record.write_text(json.dumps({**HERE, **checks, "seed": 7, "seconds": 1.0, "earlier": [], "rooms": rooms}))
    (tmp_path / "survivors.json").write_text(json.dumps({"speed": {"a@0:2:0: 1  ->  2": "a longer step"}}))
    lines = mutants_lines(record)
    assert "| masks | 3 | 33% (1 not reached) | 33% (1 not reached) | 67% |" in lines
    assert "| all rooms | 3 | 33% (1 not reached) | 33% (1 not reached) | 67% |" in lines
    assert "3 mutants drawn by seed 7; m, Python 3, torch 2, commit abc: 4 tests and 2 claims." in lines
    assert "4 survivors: speed 2, not read yet 2." in lines
    assert lines[-2].endswith("| speed | a longer step |")
