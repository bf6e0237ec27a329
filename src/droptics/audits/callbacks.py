"""An audit while training: penalty share, imbalance and co-adaptation per epoch, for two common trainers.

Neither trainer is needed to import this module: each callback is a plain object with the methods that its trainer
calls, made to inherit from the trainer's own class when that library is there.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from torch import nn

from droptics.arguments import Count, check_arguments
from droptics.audits.audit import audit
from droptics.audits.report import Report

Log = Callable[[dict[str, float]], None]


def audit_numbers(report: Report) -> dict[str, float]:
    """The numbers worth a curve: `dropout/<site>/penalty_share`, `imbalance`, `coadaptation`, and the totals.

    Cost: O(sites). Claim: none, a reading of the report.
    """
    check_arguments(audit_numbers, locals())
    numbers = {"dropout/clean_loss": report.clean_loss, "dropout/training_loss": report.training_loss.value}
    for item in report.sites:
        name = f"dropout/{item.site.name}"
        if item.share is not None:
            numbers[f"{name}/penalty_share"] = item.share
        if item.units is not None and item.units.flows:
            numbers[f"{name}/imbalance"] = item.units.imbalance
            numbers[f"{name}/coadaptation"] = item.units.coadaptation
    return numbers


@cache
def _made(kind: type, *candidates: tuple[str, str]) -> type:
    """The class of a callback that inherits from its trainer's own class, the first that can be imported."""
    for module, name in candidates:
        try:
            base: type = getattr(importlib.import_module(module), name)
        except ImportError:
            continue
        return type(kind.__name__, (kind, base), {"__doc__": kind.__doc__, "__module__": kind.__module__})
    return kind


class _AuditCallback:
    """What both callbacks share: when to audit, and how they are pickled: by the call that made them."""

    def __init__(self, made: partial[Any], every: int, asked: Callable[[nn.Module], Report]) -> None:
        self._made, self._every, self._asked = made, every, asked
        self.last: Report | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # the class is made when it is asked for, so that no trainer has to be installed: a pickle cannot name it
        return self._made, ()

    def numbers(self, model: nn.Module) -> dict[str, float]:
        """Audit now."""
        self.last = self._asked(model)
        return audit_numbers(self.last)


class LightningAudit(_AuditCallback):
    """Audits at the end of epochs; made by `lightning_callback`."""

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        """Called by the trainer."""
        if (trainer.current_epoch + 1) % self._every == 0:
            module.log_dict(self.numbers(module))


class HuggingFaceAudit(_AuditCallback):
    """Audits at the end of epochs; made by `huggingface_callback`."""

    log: Log | None = None

    def on_epoch_end(self, args: Any, state: Any, control: Any, model: nn.Module | None = None, **_: Any) -> None:
        """Called by the trainer."""
        if model is None or round(state.epoch or 0) % self._every:
            return
        numbers = self.numbers(model)
        state.log_history.append({"epoch": state.epoch, "step": state.global_step, **numbers})
        # A trainer hands its callbacks everything but itself, so what it does to log, telling all of them (reporters to
        # TensorBoard or wandb stand first in its list), is asked of the handler that called.
        frame = inspect.currentframe()
        caller = None if frame is None or frame.f_back is None else frame.f_back.f_locals.get("self")
        if caller is not None and hasattr(caller, "on_log") and hasattr(caller, "callbacks"):
            caller.on_log(args, state, control, {"epoch": state.epoch, **numbers})
        if self.log is not None:
            self.log(numbers)


def lightning_callback(data: object, loss: Any = None, *, every: Count = 1, **options: Any) -> Any:
    """A PyTorch Lightning callback that audits the module on `data` after every `every`-th training epoch.

    Numbers go to the module's own loggers through `log_dict`. `options` are passed to `audit`. It pickles where `data`
    and `loss` do, and a fit ends with the same weights with and without it.

    Cost: an audit each time. Claim: none, it calls `audit`.
    """
    check_arguments(lightning_callback, locals())
    kind = _made(LightningAudit, ("lightning.pytorch", "Callback"), ("pytorch_lightning", "Callback"))
    made = partial(lightning_callback, data, loss, every=every, **options)
    return kind(made, every, lambda model: audit(model, data, loss, progress=False, **options))


def huggingface_callback(
    data: object, loss: Any = None, *, every: Count = 1, log: Log | None = None, **options: Any
) -> Any:
    """A callback for the Hugging Face Trainer that audits the model on `data` after every `every`-th epoch.

    Numbers are logged as the trainer logs its own: appended to its log history and told to `on_log` of every callback,
    so that TensorBoard and wandb see them; and handed to `log` if given. `options` are passed to `audit`. It pickles
    where `data`, `loss` and `log` do, and a fit ends with the same weights with and without it.

    Cost: an audit each time. Claim: none, it calls `audit`.
    """
    check_arguments(huggingface_callback, locals())
    kind = _made(HuggingFaceAudit, ("transformers", "TrainerCallback"))
    made = partial(huggingface_callback, data, loss, every=every, log=log, **options)
    callback = kind(made, every, lambda model: audit(model, data, loss, progress=False, **options))
    callback.log = log
    return callback
