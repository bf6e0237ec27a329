"""Parts of the newest claims of our own, one test each: which one fails says what is wrong."""

import pytest
import torch

from droptics.papers.droptics_own.across import (
    fitted_field_checks,
    form_checks,
    limit_checks,
    option_checks,
    scattered_checks,
    seldom_checks,
    setting_checks,
    standstill_checks,
)
from droptics.papers.droptics_own.attacks import decision_checks
from droptics.papers.droptics_own.evidence import worker_checks
from droptics.papers.droptics_own.landscapes import off_default_checks
from droptics.papers.droptics_own.linalg import quick_way_checks, side_way_checks, spared_checks
from droptics.papers.droptics_own.penalties import certified_checks
from droptics.papers.droptics_own.recommenders import swept_checks

PARTS = [
    *(certified_checks._moments, certified_checks._ranks, certified_checks._written_out),
    *(certified_checks._by_margins, certified_checks._kept, certified_checks._stated),
    *(decision_checks._those, decision_checks._went_on, decision_checks._curves, decision_checks._shared),
    *(decision_checks._elsewhere, worker_checks._left_out, worker_checks._fed, worker_checks._compiled),
    *(seldom_checks._curvatures, seldom_checks._boxes, seldom_checks._chosen, seldom_checks._blocks),
    *(seldom_checks._costs, seldom_checks._single, swept_checks._half_sweeps, swept_checks._long_rows),
    *(swept_checks._paid, swept_checks._rounded, standstill_checks._still, standstill_checks._threads),
    *(standstill_checks._slopes, standstill_checks._told, standstill_checks._unknown, standstill_checks._placed),
    *(option_checks._searches, option_checks._adapted, option_checks._seeds, option_checks._layers),
    *(option_checks._steps, option_checks._fits, option_checks._ranked, option_checks._clipped),
    *(limit_checks._passed, limit_checks._perceptrons, limit_checks._side_by_side, limit_checks._grown),
    *(setting_checks._tuned, setting_checks._completed, setting_checks._shaped, setting_checks._ridges),
    *(setting_checks._trained, setting_checks._judged, scattered_checks._chunks, scattered_checks._outcomes),
    *(scattered_checks._logits, scattered_checks._shards, scattered_checks._losses, scattered_checks._solved),
    *(scattered_checks._told, fitted_field_checks._blended, fitted_field_checks._stacked),
    *(fitted_field_checks._networks, fitted_field_checks._recorded, fitted_field_checks._shared),
    *(form_checks._searched, form_checks._trained, form_checks._predicted, form_checks._layered),
    *(form_checks._rated, off_default_checks._smallest, off_default_checks._blocks, off_default_checks._exported),
    *(off_default_checks._worst, off_default_checks._points, off_default_checks._projected, quick_way_checks._maps),
    *(quick_way_checks._uneven, quick_way_checks._forms, quick_way_checks._in_place, quick_way_checks._reduced),
    *(side_way_checks._tall, side_way_checks._summed, side_way_checks._bounded, side_way_checks._hidden),
    *(side_way_checks._left, side_way_checks._points, spared_checks._batches, spared_checks._masses),
    *(spared_checks._ranks, spared_checks._heads, spared_checks._rounded),
]
# parts that compare words, lists and refusals alone, which have no neighbors
WORDS = [
    *(certified_checks._again, decision_checks._chosen, decision_checks._drawn, worker_checks._served),
    *(worker_checks._outcomes, worker_checks._written, seldom_checks._shares, seldom_checks._streams),
    *(seldom_checks._said, swept_checks._answered, swept_checks._counted, standstill_checks._proofs),
    *(fitted_field_checks._numbers,),
]


def _named(part):
    return f"{part.__module__.rpartition('.')[2]}-{part.__name__}"


@pytest.mark.filterwarnings("ignore::droptics.attacks.WeakAttackWarning")
@pytest.mark.parametrize("part", PARTS, ids=_named)
def test_comparisons_hold_and_another_truth_is_refused(part):
    torch.manual_seed(0)
    assert [str(one) for one in part(1.0) if not one.holds] == []
    assert not all(one.holds for one in part(1.1))


@pytest.mark.parametrize("part", WORDS, ids=_named)
def test_words_are_those_that_are_wanted(part):
    torch.manual_seed(0)
    assert [str(one) for one in part(1.0) if not one.holds] == []


def test_what_is_beyond_a_limit_is_refused_with_its_reason():
    assert [str(one) for one in limit_checks._refused() if not one.holds] == []
