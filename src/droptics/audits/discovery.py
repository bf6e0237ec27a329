"""The sites of a module, and the silent bugs of the way it uses dropout."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import set_checkpoint_early_stop

from droptics.audits.batches import Batch, run
from droptics.models.modules import hooked
from droptics.models.watching import ALPHA, CHANNELWISE, ELEMENTWISE, Call, Trace, set_training, watched

CHANNEL_DIMENSIONS = {"dropout1d": 3, "dropout2d": 4, "dropout3d": 5}
COMPILED = "compiled by TorchScript"
NOMINAL_ATTRIBUTES = ("p", "drop", "drop_prob", "drop_rate", "rate", "dropout", "dropout_rate")


@dataclass(frozen=True)
class Finding:
    """Something the owner of the network should know.

    Attributes:
        level: "bug" (almost certainly not intended), "warning" or "note".
        site: Name of the place.
        text: What was seen.
        advice: What to try.
    """

    level: str
    site: str
    text: str
    advice: str


@dataclass(frozen=True)
class Site:
    """A place where the module drops.

    Attributes:
        name: As in the user's model.
        kind: Which operation.
        rate: Probability of dropping that it was called with; 0 when it cannot be seen.
        shape: Shape of its input in the first batch, if it has one.
        realized: Share of the non-zero inputs that were zeroed in one training pass; None when it cannot be seen.
        in_evaluation: Whether it also drops in evaluation mode.
        reason: Why its penalty cannot be isolated; None when it can.
        bypassed: Whether it is switched off by bypassing its layer, which leaves it one rate only.
    """

    name: str
    kind: str
    rate: float
    shape: tuple[int, ...] | None
    realized: float | None
    in_evaluation: bool
    reason: str | None = None
    bypassed: bool = False


def discover(module: nn.Module, batch: Batch) -> tuple[list[Site], list[Finding]]:
    """Run the module in training and in evaluation mode under watch; its modes are left as the last run set them."""
    set_training(module, True)
    _, training = _traced(module, batch)
    set_training(module, False)
    _, evaluation = _traced(module, batch)
    active = {call.site for call in evaluation.calls if call.applied}
    sites, findings = [], []
    for call in training.calls:
        if call.rate == 0:
            findings.append(Finding("note", call.site, "dropout with rate 0 does nothing", "remove it or set a rate"))
            continue
        sites.append(Site(call.site, call.kind, call.rate, call.shape, _realized(call), call.site in active))
        findings += [found for found in (_kind_problem(call), _activity(call, active)) if found]
    written, problems = _hand_written(module, batch, training, evaluation)
    findings += problems + _never_applied(module, training, sites) + _recomputed(module, batch)
    return sites + written, findings


def _traced(module: nn.Module, batch: Batch) -> tuple[Tensor, Trace]:
    with torch.no_grad():
        return watched(module, lambda: run(module, batch), keep=True, randomness=True)


def _realized(call: Call) -> float | None:
    """Share of the non-zero entries (or channels) that fell."""
    if call.source is None or call.result is None or not call.applied or call.kind in ALPHA.values():
        return None
    alive = call.source != 0
    fell = alive & (call.result == 0)
    if call.kind in ELEMENTWISE.values():
        trials, falls = int(alive.sum()), int(fell.sum())
    else:
        dimensions = tuple(range(2, call.source.ndim)) or (1,)
        channels = alive.any(dim=dimensions) if call.source.ndim > 2 else alive
        gone = (~(alive & ~fell)).all(dim=dimensions) & channels if call.source.ndim > 2 else fell
        trials, falls = int(channels.sum()), int(gone.sum())
    return falls / trials if trials else None


def _kind_problem(call: Call) -> Finding | None:
    wanted = CHANNEL_DIMENSIONS.get(call.kind)
    if wanted is not None and call.shape is not None and len(call.shape) != wanted:
        text = f"{call.kind} on an input of shape {call.shape}: torch reads it without a batch dimension"
        advice = f"give it {wanted} dimensions (batch, channels, ...) or use nn.Dropout"
        return Finding("bug", call.site, text, advice)
    if call.kind in ELEMENTWISE.values() and call.shape is not None and len(call.shape) == 4:
        text = "single pixels of feature maps fall, their neighbors carry the same information"
        return Finding("note", call.site, text, "Dropout2d or DropBlock drop whole channels or regions")
    return None


def _activity(call: Call, active: set[str]) -> Finding | None:
    if call.site not in active:
        return None
    own = isinstance(call.module, nn.modules.dropout._DropoutNd) or call.kind not in {
        *ELEMENTWISE.values(),
        *CHANNELWISE.values(),
        *ALPHA.values(),
    }
    if own:
        return Finding("bug", call.site, "drops in evaluation mode too", "call model.eval(), check who calls .train()")
    if isinstance(call.module, torch.fx.GraphModule):
        text = "the module was exported in training mode: it always drops"
        return Finding("warning", call.site, text, "export it again after model.eval() for use")
    text = "the functional call drops always, in evaluation mode too"
    return Finding("bug", call.site, text, "pass training=self.training")


def _hand_written(
    module: nn.Module, batch: Batch, training: Trace, evaluation: Trace
) -> tuple[list[Site], list[Finding]]:
    """Random numbers outside torch's dropout functions.

    A part of the module that draws them and is the identity in evaluation mode is a dropout layer of its own and can
    be bypassed; what else draws them is found and measured, but only as part of the rest.
    """
    sites: list[Site] = []
    findings: list[Finding] = []
    for place in dict.fromkeys(training.hand_written):
        path = place.rpartition(".")[0]
        part = module.get_submodule(path) if path else module
        nominal = next((rate for name in NOMINAL_ATTRIBUTES if (rate := _number(getattr(part, name, None)))), None)
        realized, scale = _zeroed(_seen(module, part, batch, training=True))
        in_evaluation = place in evaluation.hand_written
        whole = part is not module and not in_evaluation and _is_identity(_seen(module, part, batch, training=False))
        name = path if whole else place
        if any(site.name == name for site in sites):
            continue
        compiled = any(isinstance(child, torch.jit.ScriptModule) for child in part.modules())
        kind = type(part).__name__ if whole else COMPILED if compiled else "written by hand"
        reason = None if whole else f"the mask is {kind}, so this place cannot be switched; it is part of the rest"
        rate = nominal or realized or 0.0
        sites.append(Site(name, kind, rate, None, realized, in_evaluation, reason, bypassed=whole))
        if kind == COMPILED:
            findings.append(_compiled_problem(name, in_evaluation))
        else:
            findings += _hand_written_problems(name, nominal, realized, scale, in_evaluation)
    return sites, findings


def _compiled_problem(name: str, in_evaluation: bool) -> Finding:
    if in_evaluation:
        text = "compiled by TorchScript with its dropout on: it draws random numbers in evaluation mode too"
        return Finding("bug", name, text, "trace it after model.eval(), or script it so that it follows the mode")
    text = "TorchScript hides the rates and the sites of its dropout, only their sum is measured"
    return Finding("note", name, text, "audit the Python module that it was compiled from")


def _hand_written_problems(
    name: str, nominal: float | None, realized: float | None, scale: float | None, in_evaluation: bool
) -> list[Finding]:
    found = []
    if in_evaluation:
        text = "draws random numbers in evaluation mode too"
        found.append(Finding("bug", name, text, "make it depend on self.training"))
    if realized is not None and nominal is not None and abs(realized - nominal) > 0.25 * nominal + 0.01:
        text = f"its nominal rate is {nominal:g} but {realized:.1%} of its inputs were zeroed"
        found.append(Finding("warning", name, text, "the realized rate is what counts: adjust the nominal one"))
    if realized is not None and scale is not None and realized > 0 and abs(scale * (1 - realized) - 1) > 0.1:
        text = f"survivors are multiplied by {scale:.2f} where 1/(1 - rate) is {1 / (1 - realized):.2f}"
        found.append(Finding("warning", name, text, "rescale so that the mean output does not change"))
    return found


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, float) and 0 < value < 1 else None


def _seen(module: nn.Module, part: nn.Module, batch: Batch, training: bool) -> tuple[Tensor, Tensor] | None:
    """First input and output of a part in one run of the module, if both are tensors of the same shape."""
    if isinstance(part, torch.jit.ScriptModule):
        return None
    seen: list[tuple[Tensor, Tensor]] = []

    def remember(_: nn.Module, arguments: tuple[object, ...], result: object) -> None:
        if arguments and isinstance(arguments[0], Tensor) and isinstance(result, Tensor):
            seen.append((arguments[0].clone(), result))

    try:
        set_training(module, training)
        with hooked(after=[(part, remember)]), torch.no_grad():
            run(module, batch)
    finally:
        set_training(module, False)
    return seen[0] if seen and seen[0][0].shape == seen[0][1].shape else None


def _zeroed(seen: tuple[Tensor, Tensor] | None) -> tuple[float | None, float | None]:
    """Share of the non-zero inputs that were zeroed, and the factor on the others."""
    if seen is None:
        return None, None
    source, result = seen
    alive = source != 0
    if not bool(alive.any()):
        return None, None
    kept = alive & (result != 0)
    rate = 1 - float(kept.sum()) / float(alive.sum())
    factor = float((result[kept] / source[kept]).median()) if bool(kept.any()) else None
    return rate, factor


def _is_identity(seen: tuple[Tensor, Tensor] | None) -> bool:
    return seen is not None and torch.equal(*seen)


def _never_applied(module: nn.Module, trace: Trace, sites: list[Site]) -> list[Finding]:
    """Dropout that is configured but did not run."""
    found = []
    for name, part in module.named_modules():
        if isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0 and part not in trace.visited:
            text = f"{type(part).__name__}(p={part.p:g}) is part of the module but never runs"
            found.append(Finding("bug", name, text, "call it in forward, or remove it"))
        if isinstance(part, nn.RNNBase) and part.dropout > 0 and part.num_layers == 1:
            text = f"{type(part).__name__}(dropout={part.dropout:g}) with one layer never drops"
            found.append(Finding("bug", name, text, "torch drops between layers only: add a layer or an nn.Dropout"))
        if isinstance(part, nn.MultiheadAttention) and part.dropout > 0 and part not in trace.visited:
            text = f"MultiheadAttention(dropout={part.dropout:g}) is part of the module but never runs"
            found.append(Finding("bug", name, text, "call it in forward, or remove it"))
    return found


def _recomputed(module: nn.Module, batch: Batch) -> list[Finding]:
    """Activation checkpointing that draws other masks in the backward pass than in the forward pass."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not parameters:
        return []
    gradients = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None  # the engine adds in place
    forward_calls = 0
    traces: list[Trace] = []

    def forward_and_backward() -> None:
        nonlocal forward_calls
        outputs = run(module, batch)
        forward_calls = len(traces[0].calls) if traces else -1
        if outputs.requires_grad:
            total = outputs.double().square().sum()
            # torch's own backward functions step out of the watch for as long as they run, the engine does not
            torch.autograd.Variable._execution_engine.run_backward(
                (total,), (torch.ones_like(total),), False, False, (), allow_unreachable=True, accumulate_grad=True
            )

    set_training(module, True)
    try:
        # without early stopping the recomputation runs to the end and every mask is seen
        with torch.enable_grad(), set_checkpoint_early_stop(False):
            _, trace = watched(module, forward_and_backward, keep=True, on_trace=traces.append)
    finally:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        set_training(module, False)
    first = {_base(call.site): call for call in reversed(trace.calls[:forward_calls])}
    again = {_base(call.site): call for call in reversed(trace.calls[forward_calls:])}
    found = []
    for name, call in again.items():
        before = first.get(name)
        if before is None or call.result is None or before.result is None or call.result.shape != before.result.shape:
            continue
        if not torch.equal(call.result == 0, before.result == 0):
            text = "the backward pass recomputes this place with other masks: gradients do not belong to the loss"
            advice = "use torch.utils.checkpoint with preserve_rng_state=True"
            found.append(Finding("bug", name, text, advice))
    return found


def _base(site: str) -> str:
    return site.partition("@")[0]
