"""Checkpoints: one safetensors file with everything a run needs to go on, replaced atomically."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from droptics.files.arrays import read_safetensors, write_tensors
from droptics.models import Model
from droptics.training.descents import Descent
from droptics.training.draws import Stream
from droptics.training.guards import Guard
from droptics.training.records import Recorder
from droptics.training.settings import Checkpoint
from droptics.training.trainees import rebuild

FORMAT = "droptics training 2"


def save(path: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Write tensors and a JSON state into one file; a reader sees the old file or the new one, never a part."""
    metadata = {"format": FORMAT, "state": json.dumps(state)}
    own = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_tensors(path, own, metadata)


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save` wrote."""
    try:
        tensors, texts = read_safetensors(path)
    except ValueError as error:
        raise ValueError(f"checkpoint {path} cannot be read ({error}); remove it to start anew") from error
    if texts.get("format") != FORMAT:
        raise ValueError(f"checkpoint {path} was not written by this version of train; remove it to start anew")
    return tensors, json.loads(texts["state"])


def fingerprint(settings: dict[str, Any], tensors: list[Tensor]) -> str:
    """A short text that is the same only for the same settings, data and initial weights."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for tensor in tensors:
        value = tensor.detach().cpu().contiguous()
        digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
        digest.update(value.view(torch.uint8).numpy().tobytes() if value.ndim else value.numpy().tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Iterate:
    """A model on the way: after `step` steps, with the masks (as multiplied) that its next step uses."""

    step: int
    model: Model
    multipliers: Tensor | None


@dataclass(frozen=True, eq=False)
class State:
    """What a checkpoint holds and puts back: weights, random numbers, records, runs that diverged."""

    descent: Descent
    stream: Stream
    recorder: Recorder
    guard: Guard


class Progress:
    """Writes checkpoints of one training, and resumes from them; does nothing without a path."""

    def __init__(
        self, where: Checkpoint | str | Path | None, settings: dict[str, Any], tensors: list[Tensor], state: State
    ) -> None:
        if where is not None and not isinstance(where, Checkpoint):
            where = Checkpoint(where)
        self._path = None if where is None else Path(where.path)
        self._seconds = 0.0 if where is None else where.seconds
        self._identity = "" if where is None else fingerprint(settings, tensors)
        self._last = time.monotonic()
        self._state = state

    def save(self, step: int, iterates: Sequence[Iterate] = (), *, final: bool) -> None:
        """Write a checkpoint if it is time; the last one always."""
        if self._path is None or not (final or time.monotonic() - self._last >= self._seconds):
            return
        now = self._state
        generators, normals = now.stream.state()
        tensors = {f"engine.{name}": value for name, value in now.descent.tensors().items()}
        tensors |= {f"history.{name}": value for name, value in now.recorder.state().items()}
        tensors |= {"generators": generators, "rates": now.guard.sizes}
        for i, kept in enumerate(iterates):
            tensors |= {f"iterate.{i}.{j}": tensor for j, tensor in enumerate(kept.model.tensors)}
            if kept.multipliers is not None:
                tensors[f"iterate.{i}.masks"] = kept.multipliers
        state = {
            "identity": self._identity,
            "step": step,
            "normals": normals,
            "frozen": sorted(now.guard.frozen.items()),
            "iterates": [kept.step for kept in iterates],
        }
        save(self._path, tensors, state)
        self._last = time.monotonic()

    def resume(self) -> tuple[int, list[Iterate]]:
        """Take up a checkpoint where there is one; returns the number of steps it had done and the models it kept."""
        if self._path is None or not self._path.exists():
            return 0, []
        tensors, state = load(self._path)
        if state["identity"] != self._identity:
            raise ValueError(
                f"checkpoint {self._path} belongs to another training (other weights, data or settings); "
                "remove it or name another file"
            )
        descent, recorder, guard = self._state.descent, self._state.recorder, self._state.guard
        descent.load({name[7:]: value for name, value in tensors.items() if name.startswith("engine.")})
        recorder.restore({name[8:]: value for name, value in tensors.items() if name.startswith("history.")})
        self._state.stream.restore(int(state["step"]), tensors["generators"], state["normals"])
        guard.restore(tensors["rates"], {int(run): int(at) for run, at in state["frozen"]})
        now = descent.model()
        iterates = []
        for i, step in enumerate(state["iterates"]):
            kept = [tensors[f"iterate.{i}.{j}"].to(own.device) for j, own in enumerate(now.tensors)]
            masks = tensors.get(f"iterate.{i}.masks")
            iterates.append(Iterate(step, rebuild(now, kept), None if masks is None else masks.to(kept[0].device)))
        return int(state["step"]), iterates
