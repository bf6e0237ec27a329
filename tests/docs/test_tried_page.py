"""The page on how the library was tried counts what the records hold."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = {"commit": "abc", "hardware": {"machine": "m"}, "versions": {"python": "3", "torch": "2"}}
FATES = {
    "tests": {"a": "noticed by one", "b": "lived 3 of 3", "c": "not reached", "d": "lived 2 of 4"},
    "claims": {"a": "lived 1 of 1", "b": "noticed by two", "c": "not reached", "d": "lived 1 of 1"},
}


@pytest.fixture
def mutants_lines(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    monkeypatch.delitem(sys.modules, "tried_page", raising=False)
    from tried_page import mutants_lines

    return mutants_lines


def test_mutants_are_counted_by_room_and_together(mutants_lines, tmp_path):
    """Tests and claims apart, what either notices, and every survivor with the reason that was read, or none."""
    rooms = {"deliberate": FATES, "masks": FATES, "rates": {"tests": {}, "claims": {}}}
    commits = {"a": "old", "b": "old", "c": "abc", "d": "abc"}
    found = {name: {"mutants": 9, "fates": fates, "commits": commits} for name, fates in rooms.items()}
    record = tmp_path / "mutations.json"
    checks = {"checks": {"tests": 4, "claims": 2}}
    record.write_text(json.dumps({**HERE, **checks, "seed": 7, "count": 6, "earlier": [], "rooms": found}))
    (tmp_path / "survivors.json").write_text(json.dumps({"speed": {"d": "a longer step"}}))
    lines = mutants_lines(record)
    assert "| masks | 4 | 25% (1 not reached) | 25% (1 not reached) | 50% |" in lines
    assert "| all rooms | 4 | 25% (1 not reached) | 25% (1 not reached) | 50% |" in lines
    tried = "4 of 12 mutants drawn by seed 7 were tried (2 at old, 2 at abc; places are named as they stood there); "
    assert f"{tried}m, Python 3, torch 2, commit abc: 4 tests and 2 claims." in lines
    assert "4 survivors: not read yet 2, speed 2." in lines
    assert lines[-2:] == ["| c | not read yet |  |", "| d | speed | a longer step |"]


def test_lists_of_mistakes_stand_as_they_were_met_first(mutants_lines, tmp_path):
    whole = {**HERE, "checks": {"tests": 4, "claims": 2}, "seed": 7, "count": 6, "earlier": []}
    for name, room in (("", "masks"), ("-first-3", "deliberate 3"), ("-first-4", "deliberate 4")):
        rooms = {room: {"mutants": 9, "fates": FATES, "commits": {}}}
        (tmp_path / f"mutations{name}.json").write_text(json.dumps({**whole, "rooms": rooms}))
    text = "\n".join(mutants_lines(tmp_path / "mutations.json"))
    fresh = text.partition("### Fresh lists")[2]
    for number in (3, 4):
        assert fresh.count(f"| deliberate {number} | 4 | 25% (1 not reached) | 25% (1 not reached) | 50% |") == 1


def test_every_survivor_on_record_was_read(mutants_lines):
    """The repository's own record leaves none unexplained, and explains none that is not there."""
    record = ROOT / "results" / "mutations.json"
    assert not any("not read yet" in line for line in mutants_lines(record))
    reasons = json.loads((ROOT / "results" / "survivors.json").read_text())
    survivors = next(line for line in mutants_lines(record) if "survivors:" in line)
    assert survivors.startswith(f"{sum(map(len, reasons.values()))} survivors")
