"""Compiled loops where nothing may be written."""

import pytest
from numba.core import caching

from droptics.compiling import njit


@pytest.mark.parametrize("places", [None, []])
def test_a_loop_is_compiled_with_and_without_a_place_to_keep_it(monkeypatch, places):
    """Without one numba refuses what it is to keep: a read-only installation of a user without a home."""

    def doubled(number):
        return 2 * number

    if places is not None:
        monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", places)
    loop = njit(nogil=True)(doubled)
    assert loop(3) == 6
    assert type(loop._cache).__name__ == ("FunctionCache" if places is None else "NullCache")
