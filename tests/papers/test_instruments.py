"""Checks by parts: all of them where the truth is compared, and as many as a control needs."""

from droptics.evidence.claims import compare
from droptics.papers.droptics_own.instruments import by_parts


def counted(label, moves, calls):
    def part(scale):
        calls.append(label)
        return [compare(2.0, "==", 2.0 * scale if moves else 2.0, label)]

    return part


def test_a_check_runs_all_parts_and_its_control_those_up_to_the_first_refuted():
    calls = []
    parts = [counted("words", False, calls), counted("numbers", True, calls), counted("more", True, calls)]
    assert [one.label for one in by_parts(parts, 1.0)] == ["words", "numbers", "more"]
    assert calls == ["words", "numbers", "more"]
    calls.clear()
    assert [one.holds for one in by_parts(parts, 1.1)] == [True, False]
    assert calls == ["words", "numbers"]


def test_a_check_that_fails_tells_all_of_its_parts():
    broken = [lambda scale: [compare(1.0, "==", 3.0, "broken")], lambda scale: [compare(1.0, "==", 1.0, "whole")]]
    assert [one.holds for one in by_parts(broken, 1.0)] == [False, True]
