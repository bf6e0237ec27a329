"""Progress of a fit: a bar on a terminal, silence elsewhere, or the caller's own function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tqdm.auto import tqdm

from droptics.recommenders.alternation import Sweep


def follow(progress: Any, sweeps: int) -> tuple[Callable[[Sweep], None], Callable[[], None]]:
    """Functions to call after each sweep and at the end.

    `progress` is False (silent), True (a bar), None (a bar where there is a terminal) or a function of a `Sweep`.
    """
    if callable(progress):
        return progress, lambda: None
    if progress is False:
        return lambda line: None, lambda: None
    bar = tqdm(total=sweeps, unit="sweep", disable=None if progress is None else False, leave=False)

    def show(line: Sweep) -> None:
        bar.set_postfix(objective=f"{line.objective:.4f}", rmse=f"{line.rmse:.4f}")
        bar.update()

    return show, bar.close
