"""Compiled loops: when numba is loaded, where nothing may be written, and where two processes write at once."""

import gc
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Barrier

import numba
import numpy as np
import pytest
from numba.core import caching, config

from droptics.compiling import njit, uncollected


@pytest.mark.parametrize("places", [None, []])
def test_a_loop_is_compiled_with_and_without_a_place_to_keep_it(monkeypatch, places):
    """Without one numba refuses what it is to keep: a read-only installation of a user without a home."""

    def doubled(number):
        return 2 * number

    if places is not None:
        monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", places)
    loop = njit(nogil=True)(doubled)
    assert loop(3) == 6
    assert type(loop.compiled._cache).__name__ == ("FunctionCache" if places is None else "NullCache")


def test_forms_that_two_processes_compile_at_once_are_not_mixed_up(monkeypatch, tmp_path):
    """Both have read the index before either writes it; the first writes its form after the second one's."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    def halved(number):
        return number / 2 if number > 0 else number

    first, second, third = (njit()(halved) for _ in range(3))
    write = first.compiled._cache._cache_file._save_data

    def late(name, content):
        monkeypatch.setattr(second.compiled._cache._cache_file, "_load_index", dict)
        second(3)
        write(name, content)

    monkeypatch.setattr(first.compiled._cache._cache_file, "_save_data", late)
    first(np.float32(3))
    assert third(3) == 1.5
    assert len(list(tmp_path.rglob("*.nbc"))) == 2


def test_numba_is_loaded_by_the_first_call_of_a_loop_and_not_before():
    code = (
        "import sys, torch; from droptics.linalg import equalize_columns; before = 'numba' in sys.modules;"
        "equalize_columns(torch.eye(3)); print(before, 'numba' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("number", [3, "three"])
def test_the_collector_waits_while_a_loop_is_loaded_and_is_then_as_it_was(monkeypatch, collects, number):
    """Also where numba refuses the values: a string cannot be halved."""
    seen = []
    typeof = numba.typeof
    monkeypatch.setattr(numba, "typeof", lambda value: [seen.append(gc.isenabled()), typeof(value)][1])

    def halved(number):
        return number / 2

    (gc.enable if collects else gc.disable)()
    try:
        with nullcontext() if number == 3 else pytest.raises(numba.TypingError):
            njit()(halved)(number)
        after = gc.isenabled()
    finally:
        gc.enable()
    assert seen == [False]
    assert after == collects


@pytest.mark.parametrize("frozen", [False, True])
def test_what_is_loaded_is_old_but_no_less_garbage_than_before(frozen):
    """It is of the oldest generation, where a look at the young finds nothing and a full one finds it."""

    class Node:
        pass

    gc.unfreeze()  # what other tests froze
    gc.collect()
    if frozen:
        gc.freeze()
    try:
        count = gc.get_freeze_count()
        with uncollected():
            node = Node()
            node.itself, gone = node, weakref.ref(node)
            del node
        assert gc.get_freeze_count() == count
        gc.collect(1)
        assert (gone() is None) == frozen
        gc.collect()
        assert gone() is None
    finally:
        gc.unfreeze()


def test_threads_that_call_a_loop_for_the_first_time_share_what_is_compiled():
    started = Barrier(4)

    def squared(number):
        return number * number

    loop = njit(nogil=True)(squared)

    def call(number):
        started.wait()
        return loop(number), id(loop.compiled)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(call, range(4)))
    assert [value for value, _ in found] == [0, 1, 4, 9]
    assert len({which for _, which in found}) == 1
    assert len(loop.compiled.signatures) == 1


def test_a_loop_says_what_the_function_is():
    def quartered(number):
        """A quarter."""
        return number / 4

    loop = njit()(quartered)
    assert (loop.__name__, loop.__doc__, loop.py_func) == ("quartered", "A quarter.", quartered)


def test_a_module_calls_its_loop_itself_once_it_is_compiled():
    names = {"njit": njit, "__name__": __name__}
    exec(compile("@njit()\ndef next_of(number):\n    return number + 1\nold = next_of", __file__, "exec"), names)
    assert names["old"] is names["next_of"]
    assert names["old"](2) == 3
    assert names["next_of"] is names["old"].compiled
    assert (names["next_of"](3), names["old"](4)) == (4, 5)
