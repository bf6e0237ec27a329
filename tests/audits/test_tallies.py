"""Sums of two shards: weighted by their examples, and of what both have measured."""

import pytest

from droptics.audits.audit import _State
from droptics.audits.tallies import Mean, Tally


def mean(draws, count):
    found = Mean()
    found.add(draws, count)
    return found


def test_shards_share_what_both_have():
    """A site that one shard alone has met says nothing of the examples of the other."""
    kinds = ("sites", "curves", "energies", "listed")
    one, other = Tally(examples=4, spent=8.0), Tally(examples=12, spent=3.0)
    for kind in kinds:
        getattr(one, kind).update({"both": mean([1.0, 3.0], 4), "first": mean([5.0], 4)})
        getattr(other, kind).update({"both": mean([7.0, 9.0], 12), "second": mean([6.0], 12)})
    for whole in (one.merge(other), other.merge(one)):
        assert (whole.examples, whole.spent) == (16, 11.0)
        for kind in kinds:
            found = getattr(whole, kind)
            assert list(found) == ["both"]
            assert found["both"].value == pytest.approx((4 * 2.0 + 12 * 8.0) / 16, rel=1e-15)
            # each shard is a mean of two draws of variance 2: their sums have variance count^2
            assert found["both"].error == pytest.approx((4**2 + 12**2) ** 0.5 / 16, rel=1e-15)
            assert (found["both"].draws, found["both"].batches) == (4, 2)


def test_single_means_of_shards_are_weighted():
    names = ("clean", "accuracy", "total", "rest", "shift", "listed_total")
    one = Tally(**{name: mean([float(i)], 3) for i, name in enumerate(names)})
    other = Tally(**{name: mean([10.0 * i], 1) for i, name in enumerate(names)})
    whole = one.merge(other)
    for i, name in enumerate(names):
        assert getattr(whole, name).value == pytest.approx((3 * i + 10 * i) / 4, rel=1e-15)


def test_validation_losses_of_shards_are_weighted_and_need_both():
    one, other = (_State(Tally(), validation=mean([value], count)) for value, count in ((1.0, 3), (5.0, 1)))
    assert one.merge(other).validation.value == pytest.approx(2.0, rel=1e-15)
    assert one.merge(_State(Tally())).validation is None
    assert _State(Tally()).merge(other).validation is None
