"""The table that `droptics reproduce` prints: a line per figure, with why or where, and what does not hold below."""

import evidence_toys as toys
import pytest
import typer

from droptics.cli.reproduce import print_outcomes, reproduce_command
from droptics.evidence.claims import Comparison
from droptics.evidence.figures import Artifact, Expectation


@pytest.fixture
def printed(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    good, bad = Expectation(Comparison(1.0, "==", 1.0, "same")), Expectation(Comparison(1.0, "==", 2.0, "other"))
    place = tmp_path.relative_to(tmp_path.parent)
    cases = {
        "skipped": Artifact(toys.figure(), "smoke", place, skipped="pass folder=... or pass download=True"),
        "failed": Artifact(toys.figure(), "smoke", place, failures={"a": "ran out", "b": "of memory"}, seconds=1.25),
        "reproduced": Artifact(toys.figure(), "smoke", place, expectations=(good, good), seconds=2.0),
        "reproduced in part": Artifact(toys.figure(), "smoke", place, expectations=(good, bad, good)),
    }
    print_outcomes(list(cases.values()), "smoke")
    lines = capsys.readouterr().out.splitlines()
    return {name: next(line for line in lines if f" {name} " in line) for name in cases}, lines, str(place)


def test_every_figure_says_why_or_where(printed):
    rows, lines, place = printed
    assert "--data or download it with droptics.datasets" in rows["skipped"]
    assert "ran out; of memory" in rows["failed"]
    assert "1.2 " in rows["failed"] or "1.3 " in rows["failed"]
    assert place in rows["reproduced"]
    assert "2 of 2" in rows["reproduced"]
    assert "2.0 " in rows["reproduced"]
    assert "2 of 3" in rows["reproduced in part"]
    below = [line for line in lines if "other" in line]
    assert len(below) == 1
    assert not any("same" in line for line in lines)
    assert any("scale smoke" in line for line in lines)


@pytest.mark.parametrize("places", [[], [0], [1], [0, 1]])
def test_one_figure_against_the_record_is_a_failure(places, tmp_path, monkeypatch):
    good, bad = Expectation(Comparison(1.0, "==", 1.0, "same")), Expectation(Comparison(1.0, "==", 2.0, "other"))
    found = [Artifact(toys.figure(), "smoke", tmp_path, expectations=(bad if i in places else good,)) for i in (0, 1)]
    monkeypatch.setattr("droptics.papers.reproduce", lambda *given: found)
    if places:
        with pytest.raises(typer.Exit) as leaving:
            reproduce_command(["toy-fig1"], out=tmp_path)
        assert leaving.value.exit_code == 1
    else:
        reproduce_command(["toy-fig1"], out=tmp_path)
