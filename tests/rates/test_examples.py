"""Examples of every form: what is cut and joined along them, and what is passed on."""

import pytest
import torch
from cases import normal

from droptics.audits.batches import Batch
from droptics.rates.examples import Examples, _column, take
from droptics.rates.randomness import key


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


CPU = torch.device("cpu")


@pytest.mark.parametrize("count", [1, 4, 9])
def test_some_examples_are_the_first_of_an_order(count):
    whole = Examples.of((normal(10, 2), torch.arange(10.0)), "train", CPU)
    some = whole.some(count, 3)
    generator = torch.Generator().manual_seed(key(3, "order", -1))
    wanted = sorted(torch.randperm(10, generator=generator)[:count].tolist())
    assert some.count == count
    assert some.parts[0].targets.tolist() == wanted
    assert whole.some(10, 3) is whole


def test_sizes_and_steps_of_an_epoch():
    whole = Examples.of((normal(10, 2), torch.arange(10.0)), "train", CPU)
    for size, sizes, steps in ((4, [4, 2], 3), (5, [5], 2), (10, [10], 1), (30, [10], 1), (9, [9, 1], 2)):
        assert (whole.sizes(size), whole.steps(size)) == (sizes, steps)
        assert [part.count for part in whole.in_order(size)] == [min(size, 10 - i) for i in range(0, 10, size)]
    apart = Examples(tuple(Batch((normal(n, 2),), {}, torch.zeros(n), n) for n in (3, 5, 3)), joined=False)
    assert (apart.sizes(4), apart.steps(4), apart.units) == ([5, 3], 3, 11)
    order = apart.order(0, 7)
    assert [apart.batch(order, i, 4).count for i in range(3)] == [apart.parts[int(i)].count for i in order]
    assert apart.some(2, 1) is apart


@pytest.mark.parametrize(
    ("joined", "own", "units"), [(True, True, 8), (True, False, 8), (False, False, 8), (False, True, 2)]
)
def test_losses_are_those_of_examples_but_for_batches_whose_module_returns_its_own(joined, own, units):
    batches = [Batch((normal(n, 2),), {}, torch.zeros(n), n, own_loss=own) for n in ((8,) if joined else (3, 5))]
    assert Examples(tuple(batches), joined).units == units
