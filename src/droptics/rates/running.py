"""Copies on an engine: here, in processes or on a Dask cluster, with the same numbers; what is done stays on disk."""

from __future__ import annotations

import hashlib
import json
import math
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from tqdm.auto import tqdm

from droptics.evidence.engines import Dask, Engine, Local, Processes, Task, one_thread
from droptics.files import write_text
from droptics.rates.copies import Checkpoint, Form, Problem, same_bits, train_copies
from droptics.rates.fits import Fit

Setting = Mapping[str, float]
Row = dict[str, Any]
PopulationChoice = Literal["auto", "together", "apart"]


@dataclass(frozen=True)
class Trained:
    """Copies of one setting, one per seed: losses (seeds, examples), training losses and best steps."""

    losses: Tensor
    training: tuple[float, ...]
    steps: tuple[int | None, ...]


@dataclass
class Runner:
    """Trains copies and remembers them; `folder` keeps finished copies and unfinished populations."""

    problem: Problem
    population: PopulationChoice
    engine: Engine
    folder: Path | None
    progress: bool | None
    identity: str = ""
    copies: int = 0
    resumed: int = 0
    together: bool = False
    rows: dict[str, Row] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.folder is not None:
            self.identity = _identity(self.problem)
        if isinstance(self.engine, Processes):
            try:
                pickle.dumps(self.problem)
            except Exception as problem:
                raise ValueError(
                    f"engine: the module, the loss or fit cannot be sent to another process ({problem}); define them "
                    'at the top of a file, or take engine="local"'
                ) from problem

    def run(self, settings: Sequence[Setting], seeds: Sequence[int], stage: str) -> list[Trained]:
        """Every setting from every seed; populations are made of the copies of one seed."""
        form, at_once = self._form(settings, seeds[0])
        beside = settings if at_once and self.population == "together" else None
        tasks = []
        for seed in seeds:
            keys = [self._key(setting, seed, form, beside) for setting in settings]
            missing = [i for i, key in enumerate(keys) if not self._known(key)]
            self.copies += len(settings)
            self.resumed += len(settings) - len(missing)
            # what is left of a population that was compared with its copies as a whole runs one by one
            whole = at_once and (len(missing) == len(settings) or beside is not None)
            size = len(missing) if whole else 1
            for start in range(0, len(missing), max(size, 1)):
                chosen = missing[start : start + size]
                tasks.append(([keys[i] for i in chosen], [settings[i] for i in chosen], seed))
        self._train(tasks, form, stage)
        return [_trained([self.rows[self._key(setting, seed, form, beside)] for seed in seeds]) for setting in settings]

    def _form(self, settings: Sequence[Setting], seed: int) -> tuple[Form, bool]:
        """How copies run, and whether those of a seed run together."""
        if not isinstance(self.problem.fit, Fit):
            return "single", False
        with one_thread():
            same = same_bits(self.problem, settings, seed)
        if same is None:
            if self.population == "together":
                raise ValueError(
                    'population="together" needs a module that torch.func.vmap can run, and it refuses this one; '
                    'take "auto"'
                )
            return "single", False
        if self.population == "apart" or (not same and self.population == "auto"):
            if not same:
                self.notes["a population would round otherwise than its copies alone: they ran one by one"] = None
            return "population", False
        alone = not isinstance(self.engine, Local) and same  # the same numbers, and workers share the copies
        self.together = self.together or not alone
        return "population", not alone

    def _train(self, tasks: Sequence[tuple[list[str], list[Setting], int]], form: Form, stage: str) -> None:
        fit = self.problem.fit
        local = isinstance(self.engine, Local)
        steps = self.problem.train.steps(fit.batch_size) * fit.epochs if isinstance(fit, Fit) else 1
        total = sum(len(settings) for _, settings, _ in tasks) * (steps if local else 1)
        with _bar(total, f"rates ({stage})", self.progress, "step" if local and steps > 1 else "copy") as bar:
            if local:
                for keys, settings, seed in tasks:
                    tick = bar.update if isinstance(fit, Fit) else None
                    with one_thread():
                        rows = train_copies(self.problem, settings, seed, form, self._checkpoint(keys), tick)
                    self._keep(keys, rows)
                    if tick is None:
                        bar.update(len(keys))
                return
            shared = not isinstance(self.engine, Dask)  # workers elsewhere may not see our folder
            named = {
                str(number): (keys, Task(str(number), train_copies, {
                    "problem": self.problem, "rates": settings, "seed": seed, "form": form,
                    "checkpoint": self._checkpoint(keys) if shared else None,
                }))
                for number, (keys, settings, seed) in enumerate(tasks)
            }  # fmt: skip
            for done in self.engine.run([task for _, task in named.values()]):
                if done.error or done.skipped:
                    raise RuntimeError(f"a copy could not be trained: {done.error or done.skipped}")
                keys = named[done.key][0]
                self._keep(keys, [dict(row) for row in done.rows])
                bar.update(len(keys))

    def _key(self, setting: Setting, seed: int, form: Form, beside: Sequence[Setting] | None) -> str:
        """Names a copy by all that its numbers depend on; in a population that may round otherwise also the others."""
        others = None if beside is None else [dict(other) for other in beside]
        text = json.dumps([self.identity, sorted(setting.items()), seed, form, others])
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def _known(self, key: str) -> bool:
        if key not in self.rows and self.folder is not None:
            try:
                row = json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
            except (OSError, ValueError):
                return False
            if isinstance(row, dict) and {"losses", "training", "step"} <= set(row):
                self.rows[key] = row
        return key in self.rows

    def _keep(self, keys: Sequence[str], rows: Sequence[Row]) -> None:
        for key, row in zip(keys, rows, strict=True):
            self.rows[key] = row
            if self.folder is not None:
                write_text(self.folder / f"{key}.json", json.dumps(row, allow_nan=False))
        checkpoint = self._checkpoint(keys)
        if checkpoint is not None:
            Path(checkpoint.path).unlink(missing_ok=True)

    def _checkpoint(self, keys: Sequence[str]) -> Checkpoint | None:
        """Where an unfinished population is kept: named by its copies."""
        if self.folder is None:
            return None
        name = hashlib.sha256(" ".join(keys).encode()).hexdigest()[:24]
        return Checkpoint(str(self.folder / f"{name}.safetensors"), self.identity)


@contextmanager
def _bar(total: int, text: str, progress: bool | None, unit: str) -> Iterator[Any]:
    with tqdm(
        total=total, desc=text, unit=unit, disable=None if progress is None else not progress, leave=False
    ) as bar:
        yield bar


def _trained(rows: Sequence[Row]) -> Trained:
    examples = next((len(row["losses"]) for row in rows if row["losses"] is not None), 2)
    losses = [[math.inf] * examples if row["losses"] is None else row["losses"] for row in rows]
    training = tuple(math.inf if row["training"] is None else row["training"] for row in rows)
    return Trained(torch.tensor(losses, dtype=torch.float64), training, tuple(row["step"] for row in rows))


def _identity(problem: Problem) -> str:
    """A text that is the same only for the same layers and weights, data, loss and fit."""
    digest = hashlib.sha256()
    for name, value in problem.module.state_dict().items():
        if isinstance(value, Tensor):
            plain = value.detach().cpu().contiguous()
            digest.update(f"{name}{plain.dtype}{tuple(plain.shape)}".encode())
            digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    fit = problem.fit
    trainable = [name for name, value in problem.module.named_parameters() if value.requires_grad]
    settings = [
        f"{type(problem.module).__qualname__} {problem.module!r}",  # also layers without weights, and their settings
        trainable,
        problem.train.digest(),
        problem.validation.digest(),
        _named(problem.loss),
        repr(fit) if isinstance(fit, Fit) else _named(fit),
        sorted(problem.before.items()),
    ]
    digest.update(json.dumps(settings).encode())
    return digest.hexdigest()


def _named(function: Any) -> str:
    own = getattr(function, "__qualname__", None)
    return repr(function) if own is None else f"{function.__module__}.{own}"
