"""Checkpoints: one safetensors file with everything a run needs to go on, replaced atomically."""

from __future__ import annotations

import hashlib
import json
import time
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


def fingerprint(settings: dict[str, Any], tensors: list[Tensor]) -> str:
    """A short text that is the same only for the same settings, data and initial weights."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for tensor in tensors:
        value = tensor.detach().cpu().contiguous()
        digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Iterate:
    """A model on the way: after `step` steps, with the masks (as multiplied) that its next step uses."""

    step: int
    model: Model
    multipliers: Tensor | None


@dataclass(eq=False)
class State:
    """How far a training is: what a checkpoint holds and puts back."""

    descent: Descent
    stream: Stream
    recorder: Recorder
    guard: Guard
    step: int
    iterates: list[Iterate]


class Progress:
    """Writes checkpoints of one training, and resumes from them; does nothing without a path."""

    def __init__(self, where: Checkpoint | str | Path | None, settings: dict[str, Any], tensors: list[Tensor]) -> None:
        self._where = Checkpoint(where) if isinstance(where, (str, Path)) else where
        self._identity = "" if where is None else fingerprint(settings, tensors)
        self._last = time.monotonic()

    def save(self, now: State, *, final: bool) -> None:
        """Write a checkpoint if it is time, the last one always; a reader sees the old file or the new one."""
        if self._where is None or not (final or time.monotonic() - self._last >= self._where.seconds):
            return
        generators, normals = now.stream.state()
        tensors = {f"engine.{name}": value for name, value in now.descent.tensors().items()}
        tensors |= {f"history.{name}": value for name, value in now.recorder.state().items()}
        tensors |= {"generators": generators, "rates": now.guard.sizes}
        for i, kept in enumerate(now.iterates):
            tensors |= {f"iterate.{i}.{j}": tensor for j, tensor in enumerate(kept.model.tensors)}
            if kept.multipliers is not None:
                tensors[f"iterate.{i}.masks"] = kept.multipliers
        state: dict[str, Any] = {"identity": self._identity, "step": now.step, "normals": normals}
        state |= {"frozen": sorted(now.guard.frozen.items()), "iterates": [kept.step for kept in now.iterates]}
        own = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        write_tensors(self._where.path, own, {"format": FORMAT, "state": json.dumps(state)})
        self._last = time.monotonic()

    def resume(self, now: State) -> None:
        """Take up a checkpoint where there is one."""
        if self._where is None or not (path := Path(self._where.path)).exists():
            return
        try:
            tensors, texts = read_safetensors(path)
        except ValueError as error:
            raise ValueError(f"checkpoint {path} cannot be read ({error}); remove it to start anew") from error
        if texts.get("format") != FORMAT:
            raise ValueError(f"checkpoint {path} was not written by this version of train; remove it to start anew")
        state = json.loads(texts["state"])
        if state["identity"] != self._identity:
            raise ValueError(
                f"checkpoint {path} belongs to another training (other weights, data or settings); "
                "remove it or name another file"
            )
        now.descent.load({name[7:]: value for name, value in tensors.items() if name.startswith("engine.")})
        now.recorder.restore({name[8:]: value for name, value in tensors.items() if name.startswith("history.")})
        now.step = int(state["step"])
        now.stream.restore(now.step, tensors["generators"], state["normals"])
        now.guard.restore(tensors["rates"], {int(run): int(at) for run, at in state["frozen"]})
        model = now.descent.model()
        for i, step in enumerate(state["iterates"]):
            kept = [tensors[f"iterate.{i}.{j}"].to(own.device) for j, own in enumerate(model.tensors)]
            masks = tensors.get(f"iterate.{i}.masks")
            masks = None if masks is None else masks.to(kept[0].device)
            now.iterates.append(Iterate(step, rebuild(model, kept), masks))
