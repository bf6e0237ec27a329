"""Few outcomes: DropPath and small sites are summed over all masks, within their passes."""

import itertools

import pytest
import torch
from cases import normal
from compare import close
from networks import seeded
from torch import nn
from torch.nn import functional

from droptics.audits import audit
from droptics.audits.batches import Batch
from droptics.audits.outcomes import alone, together, tree_cost
from droptics.audits.runs import Law, Runs
from droptics.losses import CrossEntropy

BLOCKS, RATE, WIDTH = 8, 0.2, 32


class DropPath(nn.Module):
    """As the large libraries write it: one coin per example, survivors rescaled."""

    def __init__(self, drop_prob, way="bernoulli"):
        super().__init__()
        self.drop_prob, self.way = drop_prob, way

    def forward(self, x):
        if not self.training:
            return x
        shape, kept = (len(x), *(1,) * (x.ndim - 1)), 1 - self.drop_prob
        if self.way == "rand":
            return x.div(kept) * (kept + torch.rand(shape, dtype=x.dtype)).floor_()
        return x * x.new_empty(shape).bernoulli_(kept).div_(kept)


class Block(nn.Module):
    def __init__(self, way):
        super().__init__()
        self.a, self.b, self.path = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), DropPath(RATE, way)

    def forward(self, x):
        result = self.path(self.b(torch.relu(self.a(x))))
        result += x  # in place, as some do
        return result


def network(way="bernoulli", blocks=BLOCKS):
    return seeded(
        nn.Sequential(nn.Linear(64, WIDTH), *[Block(way) for _ in range(blocks)], nn.Linear(WIDTH, 3))
    ).double()


def brute_force(module, x, loss):
    """What each block adds alone, and all together, by listing all masks; nothing of the library."""
    blocks = list(module)[1:-1]

    def run(factors):
        h = module[0](x)
        for factor, block in zip(factors, blocks, strict=True):
            h = h + factor * block.b(torch.relu(block.a(h)))
        return loss(module[-1](h))

    with torch.no_grad():
        clean = run([1.0] * len(blocks))
        singles = []
        for place in range(len(blocks)):
            ones = [1.0] * len(blocks)
            dropped, kept = [*ones], [*ones]
            dropped[place], kept[place] = 0.0, 1 / (1 - RATE)
            singles.append(float((RATE * run(dropped) + (1 - RATE) * run(kept) - clean).mean()))
        total = -clean
        for choice in itertools.product((0, 1), repeat=len(blocks)):
            chance = (1 - RATE) ** sum(choice) * RATE ** (len(blocks) - sum(choice))
            total = total + chance * run([k / (1 - RATE) for k in choice])
    return singles, float(total.mean()), float(clean.mean())


def data(count=12):
    return normal(count, 64, seed=1), torch.arange(count) % 3


def test_eight_blocks_within_their_passes():
    module, (x, y) = network(), data()
    laws = {f"{k}.path": Law(f"{k}.path", RATE, "example") for k in range(1, BLOCKS + 1)}
    runs = Runs(module, Batch((x,), {}, y, len(x)), CrossEntropy(), laws, dict.fromkeys(laws, RATE))
    base = runs.base()
    singles, total, _ = brute_force(module, x, lambda outputs: functional.cross_entropy(outputs, y, reduction="none"))
    runs.spent = 1.0  # the run that all share
    for wanted, law in zip(singles, laws.values(), strict=True):
        close(float(alone(runs, base, law).mean()), wanted, 1e-12, scale=1)
    assert runs.spent <= 8
    before = runs.spent
    close(float(together(runs, base, list(laws.values())).mean()), total, 1e-12, scale=1)
    assert runs.spent - before <= 32
    close(runs.spent - before, tree_cost(base, list(laws.values())), 0.02)


@pytest.mark.parametrize("way", ["bernoulli", "rand"])
@pytest.mark.parametrize("loss", ["cross-entropy", "squared", "absolute"])
def test_the_audit_lists_all_outcomes_of_any_loss(way, loss):
    module, (x, labels) = network(way, 3), data(40)
    targets = labels if loss == "cross-entropy" else normal(40, 3, seed=3)
    functions = {
        "cross-entropy": lambda outputs: functional.cross_entropy(outputs, labels, reduction="none"),
        "squared": lambda outputs: (outputs - targets).square().sum(1),
        "absolute": lambda outputs: (outputs - targets).abs().mean(1),
    }
    asked = nn.L1Loss() if loss == "absolute" else loss
    report = audit(module, (x, targets), asked, rates=(), batch_size=16, progress=False)
    singles, total, clean = brute_force(module, x, functions[loss])
    assert [item.site.rate for item in report.sites] == [RATE] * 3
    for item, wanted in zip(report.sites, singles, strict=True):
        close(item.penalty.value, wanted, 1e-12, scale=clean)
        assert item.penalty.method.startswith("exact")
    close(report.training_loss.value, clean + total, 1e-12)
    assert report.training_loss.method == "exact: all outcomes of all sites"
    assert not any(found.level in ("bug", "warning") and "path" in found.site for found in report.findings)


def test_small_sites_are_listed_too():
    module = seeded(nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.3), nn.Tanh(), nn.Linear(3, 2))).double()
    x, y = normal(20, 6, seed=1), normal(20, 2, seed=2)
    (item,) = audit(module, (x, y), rates=(), progress=False).sites
    with torch.no_grad():
        hidden, wanted = module[0](x), 0.0
        for kept in itertools.product((0.0, 1.0), repeat=3):
            chance = 0.7 ** sum(kept) * 0.3 ** (3 - sum(kept))
            outputs = module[3](torch.tanh(hidden * torch.tensor(kept).double() / 0.7))
            wanted += chance * float((outputs - y).square().sum(1).mean())
        wanted -= float((module.eval()(x) - y).square().sum(1).mean())
    close(item.penalty.value, wanted, 1e-12, scale=1)


class Mixing(nn.Module):
    """Examples look at each other: one outcome for all would be another question."""

    def forward(self, x):
        return x - x.mean(0)


def test_examples_that_interact_are_not_listed():
    module = seeded(nn.Sequential(nn.Linear(6, 4), DropPath(0.3), Mixing(), nn.Tanh(), nn.Linear(4, 2))).double()
    x, y = normal(6, 6, seed=1), normal(6, 2, seed=2)
    (item,) = audit(module, (x, y), rates=(), draws=120, confidence=0.9999, progress=False).sites
    assert "exact" not in item.penalty.method
    with torch.no_grad():
        hidden, wanted = module[0](x), 0.0
        for kept in itertools.product((0.0, 1.0), repeat=6):
            chance = 0.7 ** sum(kept) * 0.3 ** (6 - sum(kept))
            masked = hidden * torch.tensor(kept).double()[:, None] / 0.7
            wanted += chance * float((module[2:](masked) - y).square().sum(1).mean())
        wanted -= float((module.eval()(x) - y).square().sum(1).mean())
    assert item.penalty.lower <= wanted <= item.penalty.upper
