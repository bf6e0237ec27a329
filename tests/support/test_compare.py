import pytest
import torch
from compare import close, covers

from droptics.estimates import Estimate


def test_close_accepts_rounding_and_refuses_more():
    close(torch.tensor(1.0 + 1e-12), torch.tensor(1.0))
    with pytest.raises(AssertionError, match="differs by"):
        close(1.0 + 1e-9, 1.0)
    with pytest.raises(AssertionError, match="shapes differ"):
        close(torch.zeros(2), torch.zeros(3))
    with pytest.raises(AssertionError, match="not finite"):
        close(float("nan"), 1.0)


def test_covers_refuses_an_interval_beside_the_truth():
    one = torch.tensor(1.0)
    covers(Estimate(one, one - 0.1, one + 0.1, "test", 1), one)
    with pytest.raises(AssertionError, match="does not contain"):
        covers(Estimate(one, one + 0.1, one + 0.2, "test", 1), one)
