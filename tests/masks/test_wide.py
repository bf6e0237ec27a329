"""Laws of many units and small reach: what the dense matrices give, without forming them."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from cases import normal
from compare import close

import droptics.masks.correlations as law_room
from droptics import (
    DeepLinear,
    Enumerate,
    ReLUNet,
    Sample,
    SecondOrder,
    TwoLayerLinear,
    certify,
    equalize,
    landscapes,
    penalty,
    sub_penalties,
)
from droptics.masks import Bernoulli, Block, Product, SlidingBlock
from droptics.predictions import predictive

LAWS = {
    "block": lambda: Block(0.3, 60, 3),
    "unequal blocks": lambda: Block(torch.linspace(0.1, 0.8, 20).double(), 60, 3),
    "sliding": lambda: SlidingBlock(0.1, 61, 3),
    "product": lambda: Product([Block(0.4, 30, 2), SlidingBlock(0.2, 40, 3)]),
    "more than a window": lambda: SlidingBlock(0.05, 301, 7),
    "blocks across windows": lambda: Block(torch.linspace(0.1, 0.8, 60).double(), 300, 5),
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
from droptics import (
    Bernoulli, Block, Moments, Penalized, Sample, SlidingBlock, TwoLayerLinear, criterion, optimum, optimum_of_map,
    penalty, train,
)
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
for law in (Bernoulli(0.5, 100_000), Block(0.5, 100_000, 10)):
    best = optimum(TwoLayerLinear, Moments.of(data), law)
    assert best.certified, best.reason
    predictive(model, data.inputs, law).variance
assert train(model, data, Penalized(Bernoulli(0.5, 100_000)), steps=2, step_size=1e-9, seed=0).model.U.isfinite().all()
assert optimum_of_map(draw(3, 4), Bernoulli(0.5, 100_000)).certified
# not ru_maxrss, which a process inherits from the one that started it
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of the process from Linux")
def test_a_hundred_thousand_units_need_no_matrix_of_all_pairs() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", WIDE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    if not torch.backends.cuda.is_built():  # its libraries alone take more
        assert int(done.stdout) < 1e9


LAW, DATA = Bernoulli(0.5, 100_000), Sample(normal(6, 4), normal(6, 3, seed=1))
TWO = TwoLayerLinear(normal(3, 100_000, seed=2), normal(4, 100_000, seed=3))
DEEP = DeepLinear([normal(100_000, 4, seed=4), normal(5, 100_000, seed=5), normal(3, 5, seed=6)])
RELU = ReLUNet([normal(100_000, 4, seed=7), normal(3, 100_000, seed=8)])
CHAIN = Product([LAW, Bernoulli(0.5, 5)])
REFUSED = {
    "covariance": lambda: LAW.covariance,
    "directions": lambda: LAW.directions,
    "directions of blocks": lambda: Block(0.5, 100_000, 10).directions,
    "all masks": lambda: penalty(TWO, DATA, LAW, Enumerate()),
    "all masks of blocks": lambda: penalty(TWO, DATA, Block(0.5, 100_000, 10), Enumerate()),
    "second order": lambda: penalty(TWO, DATA, LAW, SecondOrder()),
    "Hessian": lambda: landscapes.hessian(TWO, DATA, LAW),
    "gradient by formula": lambda: landscapes.gradient(TWO, DATA, LAW),
    "escape": lambda: landscapes.escape(TWO, DATA, LAW),
    "deep penalty": lambda: penalty(DEEP, DATA, CHAIN),
    "deep penalty of one law": lambda: penalty(DEEP, DATA, Bernoulli(0.5, 100_005)),
    "deep certificate": lambda: certify(DEEP, DATA, CHAIN),
    "deep equalization": lambda: equalize(DEEP, DATA, CHAIN),
    "deep prediction": lambda: predictive(DEEP, DATA.inputs, CHAIN).covariance,
    "orders": lambda: sub_penalties(DEEP, DATA, CHAIN),
    "ReLU": lambda: penalty(RELU, DATA, Product([Bernoulli(0.5, 4), LAW])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_all_pairs_is_refused_with_the_limit(name: str) -> None:
    """One sentence before memory is taken: 80 GB, or a count of thousands of digits."""
    with pytest.raises(ValueError, match=r"use |instead") as refusal:
        REFUSED[name]()
    assert len(str(refusal.value)) < 400
