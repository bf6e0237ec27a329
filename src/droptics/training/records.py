"""What is recorded along the way: named quantities of the current models, one number (or row) per run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.arguments import Floats, checked_fields
from droptics.data import Data, Sample
from droptics.equalization import imbalance
from droptics.losses import Loss
from droptics.masks import MaskLaw
from droptics.models import LastLayer, LinearModel, Model, ReLUNet
from droptics.optima import certify
from droptics.penalties import Method, best_method, has_closed_form, penalty, risk, unit_energies
from droptics.training.schedules import log_steps
from droptics.training.trainees import rebuild

Quantity = Callable[[Model], Tensor]
Bound = float | Sequence[float] | Tensor
DEFAULT = ("objective", "risk", "penalty")
NAMES = (*DEFAULT, "imbalance", "importance_variance", "importance_spread", "singular_values", "distance")


@dataclass(frozen=True, eq=False)
@checked_fields
class Recording:
    """What to record, when and on what.

    Attributes:
        names: Names (objective, risk, penalty, imbalance, importance_variance, importance_spread, singular_values,
            distance), or your own functions of the model by name; they see all runs at once. By default objective,
            risk and penalty where the penalty has a cheap closed form, else the risk.
        at: Steps at which to record; log-spaced by default. The last step is always recorded.
        data: Data for the records; the training data by default.
        masks: Mask law for the records when the objective has none.
        method: How penalties are computed; the best method that applies by default.
        reference: Matrix from which "distance" is measured.
    """

    names: Sequence[str] | Mapping[str, Quantity] | None = None
    at: Sequence[int] | None = None
    data: Data | None = None
    masks: MaskLaw | None = None
    method: Method | None = None
    reference: Floats | None = None

    def quantities(
        self, model: Model, data: Data, masks: MaskLaw | None, laws: Sequence[MaskLaw], loss: Loss
    ) -> dict[str, Quantity]:
        """The functions behind the names."""
        if isinstance(self.names, Mapping):
            return dict(self.names)
        if self.masks is not None:
            masks, laws = self.masks, (self.masks,)
        cheap = masks is not None and not isinstance(model, ReLUNet) and has_closed_form(model, masks, loss)
        names = self.names if self.names is not None else DEFAULT if cheap else ("risk",)
        known = _Known(data if self.data is None else self.data, masks, laws, loss, self.method, self.reference)
        for name in names:
            if name not in NAMES:
                raise ValueError(f"names must be some of {sorted(NAMES)} or map names to functions, got {name!r}")
            if name in ("penalty", "imbalance") and masks is None:
                raise ValueError(f"names holds {name!r} but the objective has no masks; pass masks=...")
            if name == "distance" and self.reference is None:
                raise ValueError("names holds 'distance' but there is no reference matrix; pass reference=...")
        return {name: getattr(known, name) for name in names}

    def steps_of(self, steps: int) -> tuple[int, ...]:
        """The steps that are recorded in a training of so many."""
        asked = log_steps(steps) if self.at is None else self.at
        if min(asked, default=0) < 0:
            raise ValueError(f"at must hold steps from 0 on, got {min(asked)}")
        return tuple(sorted({int(step) for step in asked if step <= steps} | {steps}))


class Recorder:
    """Collects the records of one training, and the losses between them."""

    def __init__(
        self, quantities: Mapping[str, Quantity], model: Model, steps: Sequence[int], bound: Bound | None
    ) -> None:
        self.quantities, self.steps, self.lead = quantities, tuple(steps), bool(model.batch_shape)
        self._device, self._runs = model.device, model.batch_shape.numel()
        self._bound = None if bound is None else torch.as_tensor(bound, dtype=torch.float64).expand(self._runs)
        self._done: list[int] = []
        self._rows: dict[str, list[Tensor]] = {name: [] for name in ("loss", *quantities)}
        self._sum, self._count = torch.zeros(self._runs, dtype=torch.float64), 0

    @property
    def gap(self) -> float:
        """Largest relative gap of a run to its bound at the last record; infinite where unknown."""
        if self._bound is None or "objective" not in self._rows:
            return float("inf")
        above = self._rows["objective"][-1].double().cpu().reshape(-1) - self._bound
        # a bound of zero leaves the gap itself as the only measure
        return float((above / torch.where(self._bound > 0, self._bound, torch.ones_like(self._bound))).max())

    def next_after(self, step: int) -> int:
        """The next step to be recorded."""
        return self.steps[bisect_right(self.steps, step)]

    def add(self, losses: Tensor) -> None:
        """Losses (steps, runs) of the steps just taken."""
        self._sum += losses.double().sum(0).cpu()
        self._count += len(losses)
        if len(self._done) == 1 and self._done[0] == 0 and self._count == len(losses):
            self._rows["loss"][0] = losses[0].double().cpu()

    def record(self, step: int, model: Model, frozen: Mapping[int, int]) -> None:
        """Evaluate all quantities; runs that diverged get infinity."""
        with torch.no_grad():
            for name, quantity in self.quantities.items():
                value = torch.as_tensor(quantity(model)).detach().clone()
                if frozen:
                    value[list(frozen) if self.lead else ...] = float("inf")
                self._rows[name].append(value)
        mean = self._sum / max(self._count, 1)
        if frozen:
            mean[list(frozen)] = float("inf")
        self._rows["loss"].append(mean)
        self._done.append(step)
        self._sum, self._count = torch.zeros_like(self._sum), 0

    def table(self) -> dict[str, Tensor]:
        """All series by name."""
        found = {"step": torch.tensor(self._done)} | {name: torch.stack(rows) for name, rows in self._rows.items()}
        found["loss"] = found["loss"] if self.lead else found["loss"][:, 0]
        if self._bound is not None:
            found["bound"] = self._bound.expand(len(self._done), *([self._runs] if self.lead else []))
        return found

    def state(self) -> dict[str, Tensor]:
        """Everything recorded so far, for a checkpoint."""
        found = {name: torch.stack(rows) for name, rows in self._rows.items()}
        return found | {"at": torch.tensor(self._done), "sum": self._sum, "count": torch.tensor(self._count)}

    def restore(self, saved: dict[str, Tensor]) -> None:
        """Take back what a checkpoint holds."""
        self._done = [int(step) for step in saved["at"]]
        self._sum, self._count = saved["sum"].clone(), int(saved["count"])
        places = {name: self._device if name in self.quantities else torch.device("cpu") for name in self._rows}
        self._rows = {name: list(saved[name].to(place).unbind(0)) for name, place in places.items()}


@dataclass(frozen=True, eq=False)
class _Known:
    """The quantities that have names, for all runs at once."""

    data: Data
    masks: MaskLaw | None
    laws: Sequence[MaskLaw]
    loss: Loss
    method: Method | None
    reference: Tensor | None

    def risk(self, model: Model) -> Tensor:
        return risk(model, self.data, self.loss)

    def penalty(self, model: Model) -> Tensor:
        assert self.masks is not None
        method = self.method or best_method(model, self.data, self.masks, self.loss)
        return penalty(model, self.data, self.masks, method, self.loss).value

    def objective(self, model: Model) -> Tensor:
        """Risk + penalty, what training minimizes on average."""
        value = self.risk(model)
        return value if self.masks is None else value + self.penalty(model)

    def imbalance(self, model: Model) -> Tensor:
        """How far the penalty is above its envelope at the same map."""
        if len(self.laws) == 1:
            return imbalance(model, self.data, self.laws[0])
        return torch.stack([imbalance(one_run(model, run), self.data, law) for run, law in enumerate(self.laws)])

    def importance_variance(self, model: Model) -> Tensor:
        """Variance over the units of the importance scores, the root of the energy that a unit passes on."""
        return unit_energies(model, self.data).sqrt().var(-1, correction=0)

    def importance_spread(self, model: Model) -> Tensor:
        """Standard deviation of the importance scores divided by their mean; zero when all units pay the same."""
        scores = unit_energies(model, self.data).sqrt()
        return scores.std(-1, correction=0) / scores.mean(-1).clamp_min(torch.finfo(scores.dtype).tiny)

    def singular_values(self, model: Model) -> Tensor:
        """Singular values of the map, or of the predictions for a last layer."""
        if isinstance(model, LinearModel):
            return torch.linalg.svdvals(model.matrix())
        if isinstance(model, LastLayer) and isinstance(self.data, Sample):
            return torch.linalg.svdvals(model.outputs(self.data.inputs))
        raise ValueError(
            f"singular_values are recorded for linear families and last layers, got {type(model).__name__}"
        )

    def distance(self, model: Model) -> Tensor:
        """Frobenius distance of the map from the reference matrix."""
        if not isinstance(model, LinearModel) or self.reference is None:
            raise ValueError(f"distance is recorded for linear families, got {type(model).__name__}")
        return torch.linalg.matrix_norm(model.matrix() - self.reference.to(model.matrix()))


def one_run(model: Model, run: int) -> Model:
    """One of a batch of models."""
    return rebuild(model, [tensor[run] for tensor in model.tensors]) if model.batch_shape else model


def lower_bounds(model: Model, data: Data, laws: Sequence[MaskLaw]) -> Tensor:
    """A proved lower bound on risk + penalty for every run, (runs,); runs with the same law share the work."""
    each = list(laws) * model.batch_shape.numel() if len(laws) == 1 else list(laws)
    if not each:
        raise ValueError("bound needs masks: the objective has none, so there is nothing to certify")
    found: dict[int, float] = {}
    for run, law in enumerate(each):
        if id(law) not in found:
            found[id(law)] = certify(one_run(model, run), data, law).bound
    return torch.tensor([found[id(law)] for law in each], dtype=torch.float64)
