"""Examples of every form: what is cut and joined along them, and what is passed on."""

import pytest
import torch
from cases import normal

from droptics.audits.batches import Batch
from droptics.rates.examples import _column, take


def test_what_has_no_examples_is_passed_on():
    rows = normal(5, 2)
    batch = Batch((rows, "text", torch.tensor(3.0)), {"size": 7}, torch.arange(5), 5)
    cut = take(batch, torch.tensor([4, 1]))
    assert torch.equal(cut.arguments[0], rows[[4, 1]])
    assert (cut.arguments[1], float(cut.arguments[2]), cut.options, cut.count) == ("text", 3.0, {"size": 7}, 2)


@pytest.mark.parametrize(
    ("values", "joined"),
    [
        ([4, 4], (4,)),
        ([4, 5], None),
        ([torch.tensor(1.0), torch.tensor(1.0)], None),
        (["text", torch.ones(1)], None),
    ],
)
def test_columns_without_examples(values, joined):
    assert _column(values, [1, 1]) == joined
