"""An audit while training: penalty share, imbalance and co-adaptation per epoch, for two common trainers.

Neither trainer is needed to import this module: each callback is a plain object with the methods that its trainer
calls, made to inherit from the trainer's own class when that library is there.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from torch import nn

from droptics.arguments import Count, check_arguments
from droptics.audits.audit import audit
from droptics.audits.report import Report


def audit_numbers(report: Report) -> dict[str, float]:
    """The numbers worth a curve: `dropout/<site>/penalty_share`, `imbalance`, `coadaptation`, and the totals.

    Cost: O(sites). Claim: none, a reading of the report.
    """
    check_arguments(audit_numbers, locals())
    numbers = {
        "dropout/clean_loss": report.clean_loss,
        "dropout/training_loss": report.training_loss.value,
    }
    for item in report.sites:
        name = f"dropout/{item.site.name}"
        if item.share is not None:
            numbers[f"{name}/penalty_share"] = item.share
        if item.units is not None and item.units.flows:
            numbers[f"{name}/imbalance"] = item.units.imbalance
            numbers[f"{name}/coadaptation"] = item.units.coadaptation
    return numbers


def _base(*candidates: tuple[str, str]) -> type:
    """The first class that can be imported, else object."""
    for module, name in candidates:
        try:
            found: type = getattr(importlib.import_module(module), name)
        except ImportError:
            continue
        return found
    return object


def lightning_callback(data: object, loss: Any = None, *, every: Count = 1, **options: Any) -> Any:
    """A PyTorch Lightning callback that audits the module on `data` after every `every`-th training epoch.

    Numbers go to the module's own logger through `log_dict`. `options` are passed to `audit`.

    Cost: an audit each time. Claim: none, it calls `audit`.
    """
    check_arguments(lightning_callback, locals())

    class AuditCallback(_base(("lightning.pytorch", "Callback"), ("pytorch_lightning", "Callback"))):  # type: ignore[misc]
        """Audits at the end of epochs."""

        last: Report | None = None

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            if (trainer.current_epoch + 1) % every == 0:
                self.last = audit(module, data, loss, progress=False, **options)
                module.log_dict(audit_numbers(self.last))

    return AuditCallback()


def huggingface_callback(
    data: object,
    loss: Any = None,
    *,
    every: Count = 1,
    log: Callable[[dict[str, float]], None] | None = None,
    **options: Any,
) -> Any:
    """A callback for the Hugging Face Trainer that audits the model on `data` after every `every`-th epoch.

    Numbers are appended to the trainer's log history and handed to `log` if given. `options` are passed to `audit`.

    Cost: an audit each time. Claim: none, it calls `audit`.
    """
    check_arguments(huggingface_callback, locals())

    class AuditCallback(_base(("transformers", "TrainerCallback"))):  # type: ignore[misc]
        """Audits at the end of epochs."""

        last: Report | None = None

        def on_epoch_end(self, args: Any, state: Any, control: Any, model: nn.Module | None = None, **_: Any) -> None:
            if model is not None and round(state.epoch or 0) % every == 0:
                self.last = audit(model, data, loss, progress=False, **options)
                numbers = audit_numbers(self.last)
                state.log_history.append({"epoch": state.epoch, "step": state.global_step, **numbers})
                if log is not None:
                    log(numbers)

    return AuditCallback()
