"""What is found in modules that others wrote, and that looking changes nothing that is measured."""

import torch
from cases import normal
from compare import close
from networks import seeded
from torch import nn

from droptics.audits import audit


def test_the_clean_loss_is_that_of_evaluation_mode_with_batch_norm():
    """Training passes of the discovery would move the running statistics of shifted data."""
    network = seeded(
        nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
    ).double()
    x, y = normal(40, 6, seed=1) + 3, normal(40, 3, seed=2)
    with torch.no_grad():
        wanted = float((network.eval()(x) - y).square().sum(1).mean())
    report = audit(network.train(), (x, y), draws=2, rates=())
    close(report.clean_loss, wanted)
