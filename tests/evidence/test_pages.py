"""Pages of claims count what they show, and places are counted by their cells."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from droptics.evidence.claims import Claim, Erratum, compare
from droptics.evidence.pages import errata_page
from droptics.evidence.provenance import places
from droptics.evidence.rows import as_csv, plain_value
from droptics.evidence.standing import Standing, standing_page


def right():
    return [compare(1.0, "==", 1.0, "one")]


def wrong():
    return [compare(2.0, "==", 1.0, "two")]


STANDS = Claim("toy-thm1", "Toy, p. 1", "One is one.", check=right, control=wrong, objects=("compare",))
ERRATUM = Erratum("x = 2", "Read so.", "It is one.", "toy-thm1", "print(2)")
FALSE = replace(STANDS, id="toy-thm2", verdict="false", check=wrong, control=right, erratum=ERRATUM)


def test_errata_count_what_fails_and_nothing_else():
    page = errata_page([STANDS, FALSE, replace(FALSE, id="toy-thm3")])
    assert "\n\n2 statements; false: 2.\n\n" in page
    assert page.count("toy-thm1`): One is one.") == 2


def test_places_with_most_cells_come_first():
    few, many = {"versions": {"x": "1"}, "hardware": {}}, {"versions": {"x": "2"}, "hardware": {}}
    assert places([few, many, many, few, many]) == [many | {"cells": 3}, few | {"cells": 2}]


def test_a_claim_that_fails_names_its_correction():
    assert (STANDS.corrected, FALSE.corrected) == (None, "toy-thm1")


def test_lines_with_departures_are_reproduced_with_something_to_add():
    lines = [Standing(f"a{i}", "p", reproduced="yes", departures="other data" * (i == 1)) for i in range(3)]
    page = standing_page([*lines, Standing("b", "p", reproduced="no")])
    assert "4 figures and tables: 3 reproduced (2 of them with nothing to add about the protocol), 0 partly, 1" in page


def test_rows_hold_plain_numbers_in_lists_of_lists_too():
    told = plain_value([torch.tensor(2.5), (np.int64(3), [np.float32(0.5), None]), "x", True])
    assert told == [2.5, [3, [0.5, None]], "x", True]
    assert [type(one) for one in (told[0], told[1][0], told[1][1][0])] == [float, int, float]
    with pytest.raises(ValueError, match="got dict"):
        plain_value([[{}]])


def test_rows_of_different_columns_are_written_under_all_of_them():
    rows = [{"a": 1, "b": None}, {"c": "x,y", "a": 2.5}, {}, {"d": [1, 2], "b": 'say "no"'}]
    assert as_csv(rows).split("\n") == ["a,b,c,d", "1,,,", '2.5,,"x,y",', ",,,", ',"say ""no""",,"[1, 2]"', ""]
    assert as_csv(rows[:1]) == "a,b\n1,\n"
