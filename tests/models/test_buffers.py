"""Buffers are put back, whether a pass wrote to them or put others in their place."""

import pytest
import torch
from torch import nn

from droptics.audits import audit
from droptics.data import Sample
from droptics.models.buffers import Buffers
from droptics.predictions import predictive


class Counting(nn.Module):
    """Replaces one buffer, writes to another, makes a table anew, and fills one that was empty."""

    def __init__(self):
        super().__init__()
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(3, 2).double()
        self.register_buffer("replaced", torch.zeros(2))
        self.register_buffer("written", torch.zeros(2))
        self.register_buffer("table", torch.zeros(1))
        self.register_buffer("empty", None)

    def forward(self, inputs):
        self.replaced = self.replaced + 1
        self.written += 1
        self.table = torch.zeros(len(inputs) + 1)
        self.empty = inputs.detach().mean()
        return self.head(self.drop(inputs))


@pytest.mark.parametrize("passes", [1, 3])
def test_replaced_and_written_buffers_are_put_back_and_new_tables_stay(passes):
    module, inputs = Counting(), torch.ones(4, 3, dtype=torch.float64)
    own = module.replaced
    buffers = Buffers(module.modules())
    for _ in range(passes):
        module(inputs)
    buffers.put_back()
    assert module.replaced is own
    assert module.replaced.tolist() == module.written.tolist() == [0.0, 0.0]
    assert len(module.table) == 5
    assert module.empty is not None


def test_predictions_and_audits_leave_a_replaced_buffer_as_it_was():
    module, inputs = Counting(), torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    own = module.replaced
    predictive(module, inputs)
    audit(module, Sample(inputs, torch.zeros(4, 2, dtype=torch.float64)))
    assert module.replaced is own
    assert own.tolist() == [0.0, 0.0]
