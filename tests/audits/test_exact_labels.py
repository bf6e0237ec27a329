"""Where the audit says "exact": modules that look like a linear head after dropout and are none."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.audits import audit

# torch's note on processors without bfloat16
pytestmark = pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
RATE = 0.3


class Base(nn.Module):
    """Two layers with dropout between them; a subclass says what happens on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.h, self.aux = nn.Linear(6, 8), nn.Linear(8, 2), nn.Linear(8, 2)
        self.drop, self.skip = nn.Dropout(RATE), nn.Linear(6, 8)


class Added(Base):
    def forward(self, x: Tensor) -> Tensor:
        o = self.drop(self.a(x))
        o += self.skip(x)
        return self.h(o)


class AddedToItself(Base):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.a(x)
        o = self.drop(hidden)
        o += hidden
        return self.h(o)


class InPlaceElu(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.h(functional.elu_(self.drop(self.a(x))))


class InPlaceHardswish(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.h(functional.hardswish(self.drop(self.a(x)), inplace=True))


class InPlaceRelu(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.h(torch.relu_(self.drop(self.a(x))))


class WrittenThroughAView(Base):
    def forward(self, x: Tensor) -> Tensor:
        o = self.drop(self.a(x))
        o[:, :4].mul_(2.0)
        return self.h(o)


class WrittenBehindTheCounter(Base):
    def forward(self, x: Tensor) -> Tensor:
        o = self.drop(self.a(x))
        o.data.tanh_()
        return self.h(o)


class SideBranch(Base):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.a(x)
        self.aux(self.drop(hidden))
        return self.h(hidden)


class Unused(Base):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.a(x)
        self.drop(hidden)
        return self.h(hidden)


class UsedTwice(Base):
    def forward(self, x: Tensor) -> Tensor:
        o = self.drop(self.a(x))
        return self.aux(o) + self.h(o)


class OutputWritten(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.h(self.drop(self.a(x))).tanh_()


class OutputAdded(Base):
    def forward(self, x: Tensor) -> Tensor:
        o = self.drop(self.a(x))
        result = self.h(o)
        result += self.aux(torch.sigmoid(o))
        return result


class WeightsFromTheMask(Base):
    """The layer after dropout is linear in its input, but its bias looks at the dropped units too."""

    def forward(self, x: Tensor) -> Tensor:
        o = self.drop(self.a(x))
        return functional.linear(o, self.h.weight, o.sum(0)[:2])


TRAPS = [
    Added,
    AddedToItself,
    InPlaceElu,
    InPlaceHardswish,
    InPlaceRelu,
    WrittenThroughAView,
    WrittenBehindTheCounter,
    SideBranch,
    Unused,
    UsedTwice,
    OutputWritten,
    OutputAdded,
    WeightsFromTheMask,
]


def drawn(module: nn.Module, x: Tensor, y: Tensor, count: int) -> tuple[float, float]:
    """Mean and standard error of what dropout adds to the squared loss, by running the module."""
    clean = (module.eval()(x) - y).square().sum(1).mean()
    module.train()
    added = torch.stack([(module(x) - y).square().sum(1).mean() - clean for _ in range(count)])
    return float(added.mean()), float(added.std()) / count**0.5


@pytest.mark.parametrize("trap", TRAPS)
@torch.no_grad()
def test_numbers_called_exact_are_those_of_the_masks(trap: type[Base]) -> None:
    torch.manual_seed(0)
    module = trap()
    x, y = torch.randn(40, 6), torch.randn(40, 2)
    (site,) = audit(module, (x, y), "squared", draws=32, rates=(), confidence=0.9999, progress=False).sites
    mean, error = drawn(module, x, y, 400)
    assert site.penalty is not None
    # six standard errors of the drawn masks, beside the audit's own interval
    assert site.penalty.lower - 6 * error - 1e-6 <= mean <= site.penalty.upper + 6 * error + 1e-6
    assert site.penalty.method != "exact"


class Head(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.h(self.drop(torch.relu(self.a(x))))


class InPlaceBefore(Base):
    def forward(self, x: Tensor) -> Tensor:
        o = self.a(x)
        o += 1
        return self.h(self.drop(o))


class WrittenAfterwards(Base):
    """The features are thrown away after use: the numbers are those of the features that were used."""

    def forward(self, x: Tensor) -> Tensor:
        o = self.drop(torch.relu(self.a(x)))
        result = self.h(o)
        o.zero_()
        return result


class TwoSites(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.h(self.drop(functional.dropout(self.a(x), 0.2, self.training)))


@pytest.mark.parametrize("plain", [Head, InPlaceBefore, WrittenAfterwards, TwoSites])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@torch.no_grad()
def test_true_heads_stay_exact_in_every_precision(plain: type[Base], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    module = plain().to(dtype).requires_grad_(False)
    x, y = torch.randn(40, 6).to(dtype), torch.randn(40, 2).to(dtype)
    sites = audit(module, (x, y), "squared", draws=32, rates=(), confidence=0.9999, progress=False).sites
    report = next(site for site in sites if site.site.name == "drop")
    assert report.penalty is not None
    assert report.penalty.method == "exact"
    hidden = module.a(x)
    if plain in (Head, WrittenAfterwards):
        hidden = torch.relu(hidden)
    features = hidden.double() + (1 if plain is InPlaceBefore else 0)
    wanted = RATE / (1 - RATE) * float((features.square().mean(0) * module.h.weight.double().square().sum(0)).sum())
    # the features are rounded by the module, three operations of each of the 40 x 8 numbers
    assert report.penalty.value == pytest.approx(wanted, rel=16 * torch.finfo(dtype).eps)


@torch.no_grad()
def test_an_audit_under_autocast_is_that_of_the_rounded_module() -> None:
    torch.manual_seed(0)
    module = Head()
    x, y = torch.randn(40, 6), torch.randn(40, 2)
    with torch.autocast("cpu", torch.bfloat16):
        (site,) = audit(module, (x, y), "squared", draws=32, rates=(), confidence=0.9999, progress=False).sites
        mean, error = drawn(module, x, y, 400)
    assert site.penalty is not None
    assert site.penalty.lower * 0.99 - 6 * error <= mean <= site.penalty.upper * 1.01 + 6 * error


@torch.no_grad()
def test_heads_of_two_and_more_classes_are_exact_and_certified() -> None:
    torch.manual_seed(0)
    module, x = Head(), torch.randn(40, 6)
    labels = torch.arange(40) % 2
    found = audit(module, (x, labels), rates=(), progress=False).sites[0].penalty
    assert found is not None
    assert found.method == "certified"
    assert found.lower < found.upper
    signs = nn.Sequential(module.a, nn.ReLU(), module.drop, nn.Linear(8, 1))
    exact = audit(signs, (x, labels.double() * 2 - 1), "logistic", rates=(), progress=False).sites[0].penalty
    assert exact is not None
    assert exact.method == "exact: characteristic function"
    for network, targets, number in ((module, labels, found), (signs, labels * 2.0 - 1, exact)):
        hidden = torch.relu(module.a(x)).double()
        head = (network.h if network is module else network[3]).double()

        def loss(features: Tensor, head: nn.Linear = head, targets: Tensor = targets) -> Tensor:
            outputs = head(features)
            if outputs.shape[1] == 1:
                return functional.softplus(-outputs[:, 0] * targets).mean()
            return functional.cross_entropy(outputs, targets)

        wanted = 0.0
        for kept in itertools.product((0.0, 1.0), repeat=8):
            chance = (1 - RATE) ** sum(kept) * RATE ** (8 - sum(kept))
            wanted += chance * float(loss(hidden * torch.tensor(kept).double() / (1 - RATE)))
        wanted -= float(loss(hidden))
        assert number.lower - 1e-7 <= wanted <= number.upper + 1e-7
