"""How often a number is rounded on its way into a sum: at least as often as a walk along the sums counts."""

import itertools

import pytest

from droptics.linalg.sums import BLOCK, summands


def longest(count, block):
    """Additions that one number can take part in: a block one after the other, then blocks by halves."""
    if count <= block:
        return count
    half = -(-count // (2 * block)) * block
    return 1 + max(longest(half, block), longest(count - half, block))


@pytest.mark.parametrize("width", [1, BLOCK, 3000])
def test_every_addition_on_the_way_is_counted(width):
    block = max(BLOCK, width)
    for count in [1, 2, 511, 512, 513, 1024, 1025, 4097, 10**5, 10**7]:
        assert longest(count, block) <= summands(count, width) <= 2 * longest(count, block) + 4 * count**0.25


def test_torch_adds_in_four_cascades_whose_length_grows_by_fourth_roots():
    """Each of the four levels adds n^(1/4) numbers one after the other, whatever the blocks of products are."""
    counts = [4**k for k in range(1, 20)]
    assert all(summands(count) >= 4 * count**0.25 for count in counts)
    assert all(summands(a) < summands(b) for a, b in itertools.pairwise(counts))
