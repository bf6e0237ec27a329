"""Sites as they draw for themselves, at rates at which all units fall or none, so that every draw is known."""

import itertools

import pytest
import torch
from cases import normal
from networks import seeded
from torch import nn

from droptics.audits.batches import Batch
from droptics.audits.measuring import Plan, plain
from droptics.audits.runs import Runs
from droptics.audits.tallies import Tally
from droptics.losses import Squared

NEVER, ALWAYS = 1e-12, 1 - 1e-12


class Off(nn.Module):
    """A mask of one's own that leaves nothing in training mode."""

    def forward(self, x):
        return 0 * x if self.training else x


def test_every_rate_is_drawn_at_itself():
    parts = nn.Dropout(ALWAYS), nn.Linear(3, 4), nn.Dropout(NEVER), nn.Linear(4, 2), Off()
    module = seeded(nn.Sequential(*parts)).double()
    x, y = normal(6, 3, seed=1), normal(6, 2, seed=2)
    runs, tally = Runs(module, Batch((x,), {}, y, 6), Squared(), {}, {}), Tally()
    options = {"budget": 9.0, "layers": {"4": ALWAYS}, "names": [], "laws": {}, "generator": torch.Generator()}
    plan = Plan(Squared(), ["0", "2", "4"], ["0", "2"], (NEVER, ALWAYS), 2, rest=True, confidence=0.9, **options)
    with torch.no_grad():
        plain(runs, plan, tally, 0.5, 6.0)
        loss = {
            (a, b, c): float((c * module[3](b * module[1](a * x)) - y).square().sum(1).mean()) - 0.5
            for a, b, c in itertools.product((0, 1), repeat=3)
        }
    told = {"all": tally.total, "none": tally.rest, **tally.sites, **tally.curves}
    wanted = {"all": (0, 1, 0), "none": (1, 1, 1), "0": (0, 1, 1), "2": (1, 1, 1), "4": (1, 1, 0)}
    wanted |= {("0", NEVER): (1, 1, 1), ("0", ALWAYS): (0, 1, 1), ("2", NEVER): (1, 1, 1), ("2", ALWAYS): (1, 0, 1)}
    assert list(told) == list(wanted)
    for name, mean in told.items():
        assert mean.value == pytest.approx(loss[wanted[name]], rel=1e-9), name
    assert runs.spent == 2 * 9
