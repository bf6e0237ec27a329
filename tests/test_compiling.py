"""Compiled loops where nothing may be written, and where two processes write at once."""

import numpy as np
import pytest
from numba.core import caching, config

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


def test_forms_that_two_processes_compile_at_once_are_not_mixed_up(monkeypatch, tmp_path):
    """Both have read the index before either writes it; the first writes its form after the second one's."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    def halved(number):
        return number / 2 if number > 0 else number

    first, second, third = (njit()(halved) for _ in range(3))
    write = first._cache._cache_file._save_data

    def late(name, content):
        monkeypatch.setattr(second._cache._cache_file, "_load_index", dict)
        second(3)
        write(name, content)

    monkeypatch.setattr(first._cache._cache_file, "_save_data", late)
    first(np.float32(3))
    assert third(3) == 1.5
    assert len(list(tmp_path.rglob("*.nbc"))) == 2
