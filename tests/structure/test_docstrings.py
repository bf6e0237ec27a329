"""Public functions say what they compute, when it holds and what it costs, and the test that says so can fail."""

import inspect

import pytest

from structure.docstrings import public_functions, unsaid

FUNCTIONS = dict(public_functions())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_says_what_it_costs_and_rests_on(name):
    assert unsaid(inspect.getdoc(FUNCTIONS[name])) == []


def test_the_functions_are_those_people_call():
    assert {"penalties.penalty", "optima.optimum", "linalg.shrink", "training.train", "attacks.attack"} <= set(
        FUNCTIONS
    )
    assert len(FUNCTIONS) > 100


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (None, "everything"),
        ("", "everything"),
        ("Trace of a matrix\n\nCost: O(n). Claim: none, a definition.", "a first line that is a sentence"),
        ("tr(M) = sum_i M_ii. Claim: none, a definition.", "Cost: how it grows"),
        ("tr(M) = sum_i M_ii; O(n).", "Claim: an id, or 'Claim: none,' and why"),
        ("tr(M) = sum_i M_ii; O(n). Claim: none.", "Claim: an id, or 'Claim: none,' and why"),
        ("The bound of somebody, if any. Cost: little. Claim: thesis-thm.", "the formula of its claim"),
        ("tr(M) = sum_i M_ii. Cost: O(n). Claim: thesis-thm.", "the conditions of its claim"),
        ("tr(M) = sum_i M_ii. O(n). Claim: thesis-thm.\n\nArgs:\n    M: Where it is.", "the conditions of its claim"),
    ],
)
def test_a_planted_omission_is_found(text, missing):
    assert unsaid(text) == [missing]
    assert unsaid("tr(M) = sum_i M_ii for square M. Cost: O(n). Claim: mianjy2018-thm2.2.") == []
