"""Laws of many units and small reach: what the dense matrices give, without forming them."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from cases import normal
from compare import close

import droptics.masks.law as law_room
from droptics.masks import Block, Product, SlidingBlock

LAWS = {
    "block": lambda: Block(0.3, 60, 3),
    "unequal blocks": lambda: Block(torch.linspace(0.1, 0.8, 20).double(), 60, 3),
    "sliding": lambda: SlidingBlock(0.1, 61, 3),
    "product": lambda: Product([Block(0.4, 30, 2), SlidingBlock(0.2, 40, 3)]),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_band_gives_what_the_matrix_gives(name: str, monkeypatch) -> None:
    law = LAWS[name]()
    factor = normal(2, law.size, law.size + 2)
    gram, vectors, heads = factor @ factor.mT, normal(4, law.size), normal(3, law.size)
    wanted = law.weigh(gram), law.correlate(vectors), law.correlate(vectors, heads)
    monkeypatch.setattr(law_room, "WIDE", 8)
    assert law._narrow
    for found, dense in zip(
        (law.weigh(gram), law.correlate(vectors), law.correlate(vectors, heads)), wanted, strict=True
    ):
        close(found, dense, 1e-13)
    close(law.weigh(gram), (law.characteristic * gram).sum((-2, -1)), 1e-13)


# 100,000 units: their dense covariance takes 80 GB
WIDE = """
import torch
from droptics import Block, Sample, SlidingBlock, TwoLayerLinear, criterion, penalty
from droptics.predictions import predictive
g = torch.Generator().manual_seed(0)
draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)
model, data = TwoLayerLinear(draw(3, 100_000), draw(4, 100_000)), Sample(draw(20, 4), draw(20, 3))
features, blocks = data.inputs @ model.V, draw(3, 100_000)
# a block of ten units falls as a whole: lambda times the squared norm of what it adds to the outputs
sums = (features[:, None, :] * model.U).unflatten(-1, (10_000, 10)).sum(-1)
wanted = float(sums.square().sum((1, 2)).mean())
found = penalty(model, data, Block(0.5, 100_000, 10))
assert abs(float(found) - wanted) <= 1e-11 * wanted, (float(found), wanted)
assert found.error < 1e-6 * wanted
float(criterion(model, data, Block(0.5, 100_000, 10)))
float(penalty(model, data, SlidingBlock(0.1, 100_000, 10)))
# not ru_maxrss, which a process inherits from the one that started it
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of the process from Linux")
def test_a_hundred_thousand_units_need_no_matrix_of_all_pairs() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", WIDE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    if not torch.backends.cuda.is_built():  # its libraries alone take more
        assert int(done.stdout) < 1e9
