"""Sites as they draw for themselves, at rates at which all units fall or none, so that every draw is known."""

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


def test_every_rate_is_drawn_at_itself():
    module = seeded(nn.Sequential(nn.Dropout(ALWAYS), nn.Linear(3, 4), nn.Dropout(NEVER), nn.Linear(4, 2))).double()
    x, y = normal(6, 3, seed=1), normal(6, 2, seed=2)
    runs, tally = Runs(module, Batch((x,), {}, y, 6), Squared(), {}, {}), Tally()
    options = {"budget": 9.0, "layers": {}, "names": [], "laws": {}, "generator": torch.Generator()}
    plan = Plan(Squared(), ["0", "2"], ["0", "2"], (NEVER, ALWAYS), 2, rest=True, confidence=0.9, **options)
    with torch.no_grad():
        plain(runs, plan, tally, 0.5, 6.0)
        loss = {
            (a, b): float((module[3](b * module[1](a * x)) - y).square().sum(1).mean()) - 0.5
            for a in (0, 1)
            for b in (0, 1)
        }
    told = {"all": tally.total, "none": tally.rest, **tally.sites, **tally.curves}
    wanted = {"all": (0, 1), "none": (1, 1), "0": (0, 1), "2": (1, 1)}
    wanted |= {("0", NEVER): (1, 1), ("0", ALWAYS): (0, 1), ("2", NEVER): (1, 1), ("2", ALWAYS): (1, 0)}
    assert list(told) == list(wanted)
    for name, mean in told.items():
        assert mean.value == pytest.approx(loss[wanted[name]], rel=1e-9), name
    assert runs.spent == 2 * 8
