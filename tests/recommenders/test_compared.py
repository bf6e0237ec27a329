"""What the claims on recommenders compare, part by part: which one fails says what is wrong."""

from __future__ import annotations

import pytest

from droptics.papers.droptics_own.recommenders import (
    asked_checks,
    blend_checks,
    cluster_checks,
    continued_checks,
    penalty_checks,
    ranker_checks,
    rating_checks,
)

PARTS = [
    *(continued_checks._later, continued_checks._begun, continued_checks._ridged, continued_checks._wild),
    *(cluster_checks.workers, ranker_checks.autoencoders, ranker_checks.neighbors, ranker_checks.kernel_regressions),
    *(ranker_checks.rows_of_completions, blend_checks.blends, asked_checks._recommended, asked_checks._strangers),
    *(asked_checks._evaluated, asked_checks._completed, asked_checks._chosen, penalty_checks.input_dropout),
    *(rating_checks.saved_models, rating_checks.saved_rankers, rating_checks.bias_steps, rating_checks.new_users),
]


def _named(part):
    return f"{part.__module__.rpartition('.')[2]}-{part.__name__}"


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("part", PARTS, ids=_named)
def test_comparisons_hold_and_another_truth_is_refused(part):
    assert [str(one) for one in part(1.0) if not one.holds] == []
    assert not all(one.holds for one in part(1.05))
