"""Silent bugs of the way a module uses dropout, found by watching it in both modes."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.checkpoint import set_checkpoint_early_stop

from droptics.audits.batches import run
from droptics.audits.findings import Remark, finding
from droptics.audits.passes import Passes, differs, zeroed
from droptics.models.dropout_calls import ALPHA, CHANNELWISE, ELEMENTWISE
from droptics.models.modes import set_training
from droptics.models.watching import Call, Trace, watched

CHANNEL_DIMENSIONS = {"dropout1d": 3, "dropout2d": 4, "dropout3d": 5}
FEATURE_MAPS = (nn.Conv2d, nn.ConvTranspose2d, nn.LazyConv2d)


@finding(
    "DR101",
    "bug",
    "dropout that never runs",
    asks=Passes,
    evidence="the layer is part of the module with a rate above zero, was not called in a training pass, and the "
    "module that owns it makes no functional dropout or attention call at its rate",
    mend="call it in forward, or remove it",
)
def never_runs(passes: Passes) -> Iterator[Remark]:
    """A layer is configured but no training pass reaches it: the network trains without it."""
    owners = _owners(passes.module)
    for name, part in passes.module.named_modules():
        if part in passes.training.visited:
            continue
        layer = isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0
        if layer and not _used_functionally(owners[part], part.p, passes.training):
            yield Remark(name, f"{type(part).__name__}(p={part.p:g}) is part of the module but never runs")
        if isinstance(part, nn.MultiheadAttention) and part.dropout > 0:
            text = f"MultiheadAttention(dropout={part.dropout:g}) is part of the module but never runs"
            yield Remark(name, text)


def _owners(module: nn.Module) -> dict[nn.Module, list[nn.Module]]:
    """For every part the modules around it, innermost first, up to the first that is more than a container."""
    paths = dict(module.named_modules())
    found: dict[nn.Module, list[nn.Module]] = {}
    for path, part in paths.items():
        around, rest = [], path
        while rest:
            rest = rest.rpartition(".")[0]
            around.append(paths[rest])
            if not isinstance(paths[rest], (nn.ModuleList, nn.ModuleDict)):
                break
        found[part] = around
    return found


def _used_functionally(owners: list[nn.Module], rate: float, trace: Trace) -> bool:
    """Whether an owner hands a rate like this one to a dropout or attention function: it reads `.p` and calls no layer.

    A compiled or scripted owner does not show its calls; what it draws is seen as random numbers of its own.
    """
    return any(call.rate == rate and call.module in owners for call in trace.calls)


@finding(
    "DR102",
    "bug",
    "recurrent dropout with one layer",
    asks=Passes,
    evidence="a recurrent layer with a rate above zero and num_layers=1",
    mend="torch drops between layers only: add a layer or an nn.Dropout",
)
def single_recurrent_layer(passes: Passes) -> Iterator[Remark]:
    """Torch drops between stacked recurrent layers only, so that a single layer never drops."""
    for name, part in passes.module.named_modules():
        if isinstance(part, nn.RNNBase) and part.dropout > 0 and part.num_layers == 1:
            yield Remark(name, f"{type(part).__name__}(dropout={part.dropout:g}) with one layer never drops")


@finding(
    "DR104",
    "note",
    "rate zero",
    asks=Passes,
    evidence="a dropout call with rate 0 in a training pass",
    mend="remove it or set a rate",
)
def rate_zero(passes: Passes) -> Iterator[Remark]:
    """The layer does nothing."""
    for call in passes.training.calls:
        if call.rate == 0:
            yield Remark(call.site, "dropout with rate 0 does nothing")


@finding(
    "DR201",
    "bug",
    "dropout layer active in evaluation mode",
    asks=Passes,
    evidence="the layer dropped in a pass with every module in evaluation mode",
    mend="call model.eval(), check who calls .train()",
)
def layer_in_evaluation(passes: Passes) -> Iterator[Remark]:
    """Predictions are random, and validation measures the noise too."""
    for call in _in_evaluation(passes):
        if _own_layer(call):
            yield Remark(call.site, "drops in evaluation mode too")


@finding(
    "DR202",
    "bug",
    "functional dropout active in evaluation mode",
    asks=Passes,
    evidence="a functional call dropped in a pass with every module in evaluation mode",
    mend="pass training=self.training",
)
def function_in_evaluation(passes: Passes) -> Iterator[Remark]:
    """`functional.dropout(x, p)` drops unless it is told not to: `training` is True by default."""
    for call in _in_evaluation(passes):
        if not _own_layer(call) and not isinstance(call.module, torch.fx.GraphModule):
            yield Remark(call.site, "the functional call drops always, in evaluation mode too")


@finding(
    "DR203",
    "warning",
    "exported in training mode",
    asks=Passes,
    evidence="an exported module dropped in evaluation mode",
    mend="export it again after model.eval() for use",
)
def exported_in_training(passes: Passes) -> Iterator[Remark]:
    """An exported program keeps the mode that it was exported in."""
    for call in _in_evaluation(passes):
        if not _own_layer(call) and isinstance(call.module, torch.fx.GraphModule):
            yield Remark(call.site, "the module was exported in training mode: it always drops")


def _in_evaluation(passes: Passes) -> Iterator[Call]:
    """Calls of the training pass, with a rate, that dropped in the evaluation pass too."""
    active = {call.site for call in passes.evaluation.calls if call.applied}
    return (call for call in passes.training.calls if call.rate > 0 and call.site in active)


def _own_layer(call: Call) -> bool:
    functions = {*ELEMENTWISE.values(), *CHANNELWISE.values(), *ALPHA.values()}
    return isinstance(call.module, nn.modules.dropout._DropoutNd) or call.kind not in functions


@finding(
    "DR204",
    "bug",
    "own mask drawn in evaluation mode",
    asks=Passes,
    evidence="random numbers were drawn there in a pass with every module in evaluation mode",
    mend="make it depend on self.training",
)
def own_mask_in_evaluation(passes: Passes) -> Iterator[Remark]:
    """A mask written by hand does not follow the mode of the module."""
    for place in passes.own:
        if place.in_evaluation and not place.compiled:
            yield Remark(place.name, "draws random numbers in evaluation mode too")


@finding(
    "DR205",
    "bug",
    "compiled with dropout on",
    asks=Passes,
    evidence="a TorchScript module drew random numbers in evaluation mode",
    mend="trace it after model.eval(), or script it so that it follows the mode",
)
def compiled_with_dropout(passes: Passes) -> Iterator[Remark]:
    """A traced module keeps the mode that it was traced in."""
    for place in passes.own:
        if place.compiled and place.in_evaluation:
            text = "compiled by TorchScript with its dropout on: it draws random numbers in evaluation mode too"
            yield Remark(place.name, text)


@finding(
    "DR206",
    "note",
    "compiled parts hide their dropout",
    asks=Passes,
    evidence="a TorchScript module drew random numbers in training mode",
    mend="audit the Python module that it was compiled from",
)
def hidden_by_compilation(passes: Passes) -> Iterator[Remark]:
    """Rates and sites of compiled parts cannot be seen, only what they do together."""
    for place in passes.own:
        if place.compiled and not place.in_evaluation:
            text = "TorchScript hides the rates and the sites of its dropout, only their sum is measured"
            yield Remark(place.name, text)


@finding(
    "DR301",
    "warning",
    "realized rate is not the nominal one",
    asks=Passes,
    evidence="share of non-zero inputs that were zeroed in one training pass, against the rate that the part names, "
    "by a test over the examples",
    mend="the realized rate is what counts: adjust the nominal one",
)
def realized_rate(passes: Passes) -> Iterator[Remark]:
    """A mask written by hand drops more or less than its name says."""
    for place in passes.own:
        realized, _ = zeroed(place.seen)
        if place.compiled or realized is None or place.nominal is None:
            continue
        off = abs(realized - place.nominal) > 0.25 * place.nominal + 0.01
        if off and place.seen is not None and differs(place.seen, place.nominal):
            text = f"its nominal rate is {place.nominal:g} but {realized:.1%} of its inputs were zeroed"
            yield Remark(place.name, text)


@finding(
    "DR302",
    "warning",
    "survivors are not rescaled",
    asks=Passes,
    evidence="median factor on the survivors of one training pass, against 1 / (1 - share that fell)",
    mend="rescale so that the mean output does not change",
)
def not_rescaled(passes: Passes) -> Iterator[Remark]:
    """Without the factor 1 / (1 - rate) the mean of the outputs differs between the modes."""
    for place in passes.own:
        realized, scale = zeroed(place.seen)
        if place.compiled or not realized or scale is None or realized == 1:
            continue
        if place.nominal is not None and place.seen is not None and not differs(place.seen, place.nominal):
            realized = place.nominal  # a few examples show a rate of their own
        rate = 1 - 1 / scale if scale >= 1 else 0.0  # that the factor would be right for
        if abs(scale * (1 - realized) - 1) > 0.1 and place.seen is not None and differs(place.seen, rate):
            text = f"survivors are multiplied by {scale:.2f} where 1/(1 - rate) is {1 / (1 - realized):.2f}"
            yield Remark(place.name, text)


@finding(
    "DR303",
    "bug",
    "channel dropout without a batch dimension",
    asks=Passes,
    evidence="number of dimensions of the input of Dropout1d, Dropout2d or Dropout3d",
    mend="give it the dimensions (batch, channels, ...) or use nn.Dropout",
)
def wrong_dimensions(passes: Passes) -> Iterator[Remark]:
    """Torch reads an input with one dimension less as a single example: whole examples fall instead of channels."""
    for call in passes.training.calls:
        wanted = CHANNEL_DIMENSIONS.get(call.kind)
        if call.rate > 0 and wanted is not None and call.shape is not None and len(call.shape) != wanted:
            text = f"{call.kind} on an input of shape {call.shape}: torch reads it without a batch dimension"
            advice = f"give it {wanted} dimensions (batch, channels, ...) or use nn.Dropout"
            yield Remark(call.site, text, advice)


@finding(
    "DR304",
    "note",
    "single pixels of feature maps fall",
    asks=Passes,
    evidence="elementwise dropout on (batch, channels, height, width) in a network with convolutions, where rows are "
    "not attention weights",
    mend="Dropout2d or DropBlock drop whole channels or regions",
)
def single_pixels(passes: Passes) -> Iterator[Remark]:
    """Neighboring pixels carry the same information, so that little is lost when single ones fall."""
    if not any(isinstance(part, FEATURE_MAPS) for part in passes.module.modules()):
        return
    for call in passes.training.calls:
        maps = call.kind in ELEMENTWISE.values() and call.shape is not None and len(call.shape) == 4
        if call.rate > 0 and maps and not _attention_weights(call.source):
            text = "single pixels of feature maps fall, their neighbors carry the same information"
            yield Remark(call.site, text)


def _attention_weights(source: torch.Tensor | None) -> bool:
    """Whether rows are probabilities."""
    if source is None or not source.is_floating_point() or bool((source < 0).any()):
        return False
    sums = source.double().sum(-1)
    return bool(((sums - 1).abs() <= source.shape[-1] * torch.finfo(source.dtype).eps * 4).all())


@finding(
    "DR305",
    "bug",
    "everything falls",
    asks=Passes,
    evidence="a dropout call with rate 1 in a training pass",
    mend="rates are probabilities of dropping: where 1 was meant to keep everything, use 0",
)
def everything_falls(passes: Passes) -> Iterator[Remark]:
    """At rate 1 nothing is left: what follows is trained on zeros."""
    for call in passes.training.calls:
        if call.rate >= 1:
            yield Remark(call.site, f"drops everything in training mode: its rate is {call.rate:g}")


@finding(
    "DR402",
    "bug",
    "other masks in the backward pass",
    asks=Passes,
    evidence="masks of the forward pass against those of its recomputation in the backward pass",
    mend="use torch.utils.checkpoint with preserve_rng_state=True",
)
def recomputed(passes: Passes) -> Iterator[Remark]:
    """Activation checkpointing draws the masks again, so that gradients belong to another loss than the one printed."""
    module, batch = passes.module, passes.batch
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not parameters or not passes.recomputes:
        return
    gradients = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None  # the engine adds in place
    forward_calls = 0
    traces: list[Trace] = []

    def lighten(*_: object) -> None:
        """Of what is kept only the masks are asked for."""
        for trace in traces:
            trace.linear.clear()
            for call in trace.calls[-1:]:
                call.source = None

    def forward_and_backward() -> None:
        nonlocal forward_calls
        total = run(module, batch).sum()  # nobody holds the outputs, which may be a vocabulary
        forward_calls = len(traces[0].calls) if traces else -1
        lighten()
        if total.requires_grad:
            # torch's own backward functions step out of the watch for as long as they run, the engine does not
            torch.autograd.Variable._execution_engine.run_backward(
                (total,), (torch.ones_like(total),), False, False, (), True, True
            )

    set_training(module, True)
    try:
        # without early stopping the recomputation runs to the end and every mask is seen
        with torch.enable_grad(), set_checkpoint_early_stop(False):
            _, trace = watched(module, forward_and_backward, keep=True, on_trace=traces.append, on_call=lighten)
    finally:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        set_training(module, False)
    first = {_base(call.site): call for call in reversed(trace.calls[:forward_calls])}
    again = {_base(call.site): call for call in reversed(trace.calls[forward_calls:])}
    for name, call in again.items():
        before = first.get(name)
        if before is None or call.result is None or before.result is None or call.result.shape != before.result.shape:
            continue
        if not torch.equal(call.result == 0, before.result == 0):
            text = "the backward pass recomputes this place with other masks: gradients do not belong to the loss"
            yield Remark(name, text)


def _base(site: str) -> str:
    return site.partition("@")[0]
