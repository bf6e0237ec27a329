"""Which triples of a Krylov run are found: the leading ones up to the first that is open, whatever comes after it."""

import numpy as np
import pytest
import torch

from droptics.linalg.krylov import CONVERGED, Ritz


@pytest.mark.parametrize(
    ("shares", "found"),
    [
        ([0.1, 0.1, 0.1, 0.1], 4),
        ([0.1, 0.1, 2.0, 2.0], 2),
        ([0.1, 2.0, 0.1, 0.1], 1),
        ([2.0, 0.1, 0.1, 0.1], 0),
        ([0.1, 0.1, 0.1, 2.0], 3),
    ],
)
def test_what_comes_after_an_open_triple_is_not_found(shares, found):
    """Residuals in shares of what counts as converged, which goes with the value of each triple."""
    values = np.array([8.0, 4.0, 2.0, 1.0])
    sizes = CONVERGED * values * np.array(shares)
    assert Ritz(torch.eye(4), torch.eye(4), values, torch.eye(4), np.diag(sizes**2), False).found() == found
