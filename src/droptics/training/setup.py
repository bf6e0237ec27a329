"""What a training needs to know before it starts: checked arguments, one seed and one step size per run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from droptics.checks import check_size
from droptics.data import Data, Moments
from droptics.losses import Squared
from droptics.models import LastLayer, LinearModel, Model
from droptics.penalties import has_closed_form
from droptics.penalties.evaluation import check_shapes
from droptics.training.objectives import Objective, Penalized

Convention = Literal["gradient", "mianjy2018", "pal2020"]


def check_training(model: Model, data: Data, objective: Objective, batch_size: int | None) -> None:
    """Refuse a model, data and objective that cannot be trained together."""
    if len(model.batch_shape) > 1:
        raise ValueError(f"model must have at most one leading dimension of runs, got {tuple(model.batch_shape)}")
    check_shapes(model, data)
    if len(objective.laws) > 1:
        check_size("masks", len(objective.laws), model.batch_shape.numel(), "one mask law per run")
    for law in objective.laws[:1]:
        check_size("masks", law.size, model.units, f"{type(model).__name__} has {model.units} maskable units")
    if isinstance(data, Moments) and not (isinstance(model, LinearModel) and isinstance(objective.loss, Squared)):
        raise ValueError("data must be a Sample: second moments only determine linear models under squared loss")
    if isinstance(objective, Penalized):
        if not has_closed_form(model, objective.laws[0]):
            raise ValueError(f"Penalized needs a closed form, and {type(model).__name__} has none; use Dropout(masks)")
        if batch_size is not None and not isinstance(model, LastLayer):
            raise ValueError("batch_size must be None for Penalized: it is computed exactly from all data")


def run_seeds(seed: int | Sequence[int], runs: int) -> tuple[int, ...]:
    """One seed per run: seed, seed + 1, ... or the sequence as given."""
    if isinstance(seed, (int, np.integer)):
        return tuple(range(seed, seed + runs))
    seeds = tuple(int(value) for value in seed)
    check_size("seed", len(seeds), runs, "one seed per run")
    return seeds


def run_step_sizes(
    step_size: float | Sequence[float] | Tensor, convention: Convention, objective: Objective, runs: int
) -> Tensor:
    """Gradient step size of every run: what the gradient of the objective is multiplied by, (runs,) in float64.

    mianjy2018 prints res x^T V B, which is keep / 2 times the gradient; pal2020 divides that by keep.
    """
    sizes = torch.as_tensor(step_size, dtype=torch.float64)
    if sizes.ndim > 1 or (sizes.ndim == 1 and len(sizes) != runs) or not bool((sizes > 0).all()):
        raise ValueError(f"step_size must be positive, one number or one per run ({runs}), got {sizes.tolist()}")
    factor = torch.full((1,), 1.0 if convention == "gradient" else 0.5, dtype=torch.float64)
    if convention == "mianjy2018" and objective.laws:
        keeps = [law.mean.detach() for law in objective.laws]
        if any(float(keep.max() - keep.min()) > 1e-12 for keep in keeps):
            raise ValueError('convention "mianjy2018" needs one rate for all units; use convention="gradient"')
        factor = factor * torch.stack([keep[0] for keep in keeps]).cpu()
    return (sizes * factor).expand(runs).clone()


def data_tensors(data: Data) -> list[Tensor]:
    """All tensors of the data, for a fingerprint."""
    values = [getattr(data, item.name) for item in fields(data)]  # type: ignore[arg-type]
    return [value for value in values if isinstance(value, Tensor)]
