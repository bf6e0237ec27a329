"""The sites of a module: where it drops, with which rate, and what no switch reaches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from droptics.audits.batches import Batch, run
from droptics.audits.criteria import LossFunction
from droptics.audits.findings import Finding, remarks
from droptics.audits.layer_drop import LAYER_DROP, held_layers, leaving_out, part_of
from droptics.audits.misuses import CHANNEL_DIMENSIONS
from droptics.audits.passes import OwnMask, Passes, coins, evaluated, trained, zeroed
from droptics.models.dropout_calls import ALPHA, ELEMENTWISE, PACKED
from droptics.models.hooks import hooked
from droptics.models.modes import set_training, unmoved
from droptics.models.watching import Call, Trace

COMPILED = "compiled by TorchScript"
NOMINAL_ATTRIBUTES = ("p", "drop", "drop_prob", "drop_rate", "rate", "dropout", "dropout_rate")


@dataclass(frozen=True)
class AuditedSite:
    """A place where the module drops."""

    name: str  #: As in the user's model.
    kind: str  #: Which operation.
    rate: float  #: Probability of dropping that it was called with; 0 when it cannot be seen.
    shape: tuple[int, ...] | None  #: Shape of its input in the first batch, if it has one.
    realized: float | None  #: Share of the non-zero inputs zeroed in one training pass; None when it cannot be seen.
    in_evaluation: bool  #: Whether it also drops in evaluation mode.
    reason: str | None = None  #: Why its penalty cannot be isolated; None when it can.
    bypassed: bool = False  #: Whether it is switched off by bypassing its layer, which leaves it one rate only.
    unit: str | None = None  #: What falls independently ("entry", "channel", "example"), where masks can be given.


def discover(
    module: nn.Module,
    batch: Batch,
    loss: LossFunction | None = None,
    clean: Sequence[tuple[Tensor, Trace]] = (),
    on_training: Callable[[Tensor, Trace], None] | None = None,
) -> tuple[list[AuditedSite], list[Finding]]:
    """Run the module in training and in evaluation mode under watch; its modes are left as the last run set them."""
    with unmoved(module):
        set_training(module, True)
        training, recomputes = trained(module, batch, on_training)
        leaving = leaving_out(module, training)
        if leaving:  # sites of layers that were left out by chance are sites too
            for name in leaving:
                module.get_submodule(name).training = False
            training, recomputes = trained(module, batch, on_training)
        set_training(module, False)
    # with all dropout switched off it ran in the same way, if it would not have drawn anything that is asked for
    known = clean and not training.hand_written and not any(call.asked for call in clean[0][1].calls)
    outputs, evaluation = clean[0] if known else evaluated(module, batch)
    active = {call.site for call in evaluation.calls if call.applied}
    sites = [
        AuditedSite(call.site, call.kind, call.rate, call.shape, _realized(call), call.site in active, unit=_unit(call))
        for call in training.calls
        if call.rate > 0
    ]
    for call in training.calls:
        call.result = None  # rules ask for what was given at most
    for call in () if known else evaluation.calls:
        call.source = call.result = None
    written, own = _hand_written(module, batch, training, evaluation)
    written += [
        AuditedSite(name, LAYER_DROP, rate, None, None, False, unit="layer")
        for path, rate in leaving.items()
        for name in held_layers(module, path)
        if rate > 0
    ]
    return sites + written, remarks(Passes(module, batch, training, evaluation, outputs, own, loss, recomputes))


def _unit(call: Call) -> str | None:
    if call.kind in ALPHA.values() or call.kind.endswith(PACKED):
        return None  # a law of its own; steps that only torch can take apart
    wanted = CHANNEL_DIMENSIONS.get(call.kind)
    if wanted is None:
        return "entry"
    return "channel" if call.shape is not None and len(call.shape) == wanted else None


def _realized(call: Call) -> float | None:
    """Share of the non-zero entries (or channels) that fell."""
    if call.source is None or call.result is None or not call.applied or call.kind in ALPHA.values():
        return None
    alive = call.source != 0
    kept = alive & (call.result != 0)
    if call.kind not in ELEMENTWISE.values() and call.source.ndim > 2:
        alive, kept = alive.flatten(2).any(2), kept.flatten(2).any(2)
    trials = int(alive.sum())
    return (trials - int(kept.sum())) / trials if trials else None


def _hand_written(
    module: nn.Module, batch: Batch, training: Trace, evaluation: Trace
) -> tuple[list[AuditedSite], list[OwnMask]]:
    """Random numbers outside torch's dropout functions.

    A part of the module that draws them and is the identity in evaluation mode is a dropout layer of its own and can
    be bypassed; what else draws them is found and measured, but only as part of the rest.
    """
    sites: list[AuditedSite] = []
    own: list[OwnMask] = []
    places = {place: part_of(module, place.rpartition(".")[0]) for place in dict.fromkeys(training.hand_written)}
    dropping, passing = (_seen(module, list(places.values()), batch, training=mode) for mode in (True, False))
    for place, part in places.items():
        held = (getattr(part, name, None) for name in NOMINAL_ATTRIBUTES)
        nominal = next((rate for rate in held if isinstance(rate, float) and 0 < rate < 1), None)
        seen, passed = dropping.get(part), passing.get(part)
        realized, _ = zeroed(seen)
        in_evaluation = place in evaluation.hand_written
        whole = part is not module and not in_evaluation and passed is not None and torch.equal(*passed)
        name = place.rpartition(".")[0] if whole else place
        if any(site.name == name for site in sites):
            continue
        compiled = any(isinstance(child, torch.jit.ScriptModule) for child in part.modules())
        kind = type(part).__name__ if whole else COMPILED if compiled else "written by hand"
        reason = None if whole else f"the mask is {kind}, so this place cannot be switched; it is part of the rest"
        rate = nominal or realized or 0.0
        unit = None
        if whole and training.drawn.get(place) == [batch.count]:  # one coin per example
            factor = coins(seen)
            if factor is not None and factor > 1 + 1e-6:
                unit = "example"
                rate = nominal if nominal and abs(factor * (1 - nominal) - 1) < 1e-3 else 1 - 1 / factor
        sites.append(AuditedSite(name, kind, rate, None, realized, in_evaluation, reason, whole, unit))
        own.append(OwnMask(name, nominal, seen, in_evaluation, kind == COMPILED))
    return sites, own


def _seen(
    module: nn.Module, parts: Sequence[nn.Module], batch: Batch, training: bool
) -> dict[nn.Module, tuple[Tensor, Tensor]]:
    """First input and output of parts in one run of the module, where both are tensors of the same shape.

    Both are copied before anything in place can change them.
    """
    given: dict[nn.Module, Tensor] = {}
    found: dict[nn.Module, tuple[Tensor, Tensor]] = {}
    parts = [part for part in dict.fromkeys(parts) if not isinstance(part, torch.jit.ScriptModule)]
    if not parts:
        return found

    def before(part: nn.Module, arguments: tuple[object, ...]) -> None:
        if part not in given and arguments and isinstance(arguments[0], Tensor):
            given[part] = arguments[0].detach().clone()

    def after(part: nn.Module, _: tuple[object, ...], result: object) -> None:
        if part in given and part not in found and isinstance(result, Tensor) and result.shape == given[part].shape:
            found[part] = given[part], result.detach().clone()

    try:
        set_training(module, training)
        hooks = hooked([(part, before) for part in parts], [(part, after) for part in parts])
        with unmoved(module), hooks, torch.no_grad():
            run(module, batch)
    finally:
        set_training(module, False)
    return found
