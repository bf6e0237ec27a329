"""Controls that end at the first comparison that fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from droptics.evidence.claims import REFUTED, Claim, Comparison, compare, decide
from droptics.evidence.controls import run
from droptics.papers import PAPERS

STATED = Claim("toy-thm1", "Toy", "One is one.", check=lambda: [compare(1.0, "==", 1.0)], control=list)


def listed(calls: list[str]) -> list[Comparison]:
    """Two comparisons, the first of which fails."""
    found = []
    for name, right in (("fails", 2.0), ("holds", 1.0)):
        calls.append(name)
        found.append(compare(1.0, "==", right, name))
    return found


def test_a_control_ends_where_one_fails_and_a_check_does_not():
    calls: list[str] = []
    result = decide(replace(STATED, control=lambda: listed(calls)))
    assert (result.verdict, calls, [item.label for item in result.control]) == ("holds", ["fails"], ["fails"])
    calls.clear()
    result = decide(replace(STATED, check=lambda: listed(calls)))
    assert calls == ["fails", "holds"]
    assert [item.holds for item in result.comparisons] == [False, True]


def test_the_control_of_a_statement_that_fails_is_run_whole():
    calls: list[str] = []
    result = decide(replace(STATED, check=lambda: [compare(1.0, "==", 3.0)], control=lambda: listed(calls)))
    assert (result.verdict, calls) == ("undecided", ["fails", "holds"])


def test_a_check_inside_a_control_is_run_whole():
    calls: list[str] = []
    inner = run(lambda: [compare(float(len(run(lambda: listed(calls)))), "==", 2.0, "outer")], ending=True)
    assert [item.label for item in inner] == ["outer"]
    assert calls == ["fails", "holds"]


def test_comparisons_after_a_control_fail_as_before():
    run(lambda: listed([]), ending=True)
    assert [item.holds for item in listed([])] == [False, True]


def test_what_a_control_raises_is_an_error_and_leaves_comparisons_as_they_were():
    def broken() -> list[Comparison]:
        raise ArithmeticError("no number")

    assert decide(replace(STATED, control=broken)).error == "ArithmeticError: no number"
    with pytest.raises(ArithmeticError):
        run(broken, ending=True)
    assert not compare(1.0, "==", 2.0).holds


# what it compares are comparisons: those that fail by design stand behind one of numbers, where its control ends
ON_COMPARISONS = {"droptics-decided-verdicts"}


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.key)
def test_controls_end_at_comparisons_that_their_checks_list(paper):
    """A toy that fails inside a check would end every control of it, whatever the control changes."""
    for claim in paper.claims:
        if claim.check is not None and claim.verdict not in REFUTED and claim.id not in ON_COMPARISONS:
            assert all(item.holds for item in run(claim.check, ending=True)), claim.id
