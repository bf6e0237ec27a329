"""Runs shared out over threads: loops that release the interpreter, each on runs of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numpy as np
import torch

# Numbers below which a thread costs more than it gains.
LEAST = 2**15


# Threads that stay: starting one takes as long as a hundred steps. A forked process has none of them.
_pool = cache(ThreadPoolExecutor)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def share_runs(work: Callable[[int, int], object], runs: int, numbers: int) -> None:
    """Call work(start, stop) for stretches of runs, `numbers` a run, on torch's number of threads."""
    workers = min(torch.get_num_threads(), runs)
    if workers == 1 or runs * numbers < LEAST:
        work(0, runs)
        return
    cuts = np.linspace(0, runs, workers + 1).astype(int).tolist()
    others = [_pool(workers - 1).submit(work, start, stop) for start, stop in pairwise(cuts[1:])]
    work(0, cuts[1])  # the calling thread is one of them
    for part in others:
        part.result()
