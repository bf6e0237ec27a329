"""Layers that are left out as a whole with some probability (LayerDrop), by a part that throws one number for each."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from droptics.models.watching import Trace

LAYER_DROP = "layer drop"
LEAVING_ATTRIBUTES = ("layerdrop", "layer_drop", "layerdrop_prob", "layer_drop_rate", "layer_dropout")


def leaving_out(module: nn.Module, trace: Trace) -> dict[str, float]:
    """Parts that throw one number per layer to decide whether it runs, with their rate; at rate zero for nothing."""
    found = {}
    for place, drawn in trace.drawn.items():
        path = place.rpartition(".")[0]
        part = part_of(module, path)
        rate = next(
            (value for name in LEAVING_ATTRIBUTES if isinstance(value := getattr(part, name, None), float)), None
        )
        if rate is not None and 0 <= rate < 1 and all(count == 1 for count in drawn) and held_layers(module, path):
            found[path] = rate
    return found


def held_layers(module: nn.Module, path: str) -> list[str]:
    """Names of the layers in the lists that a part holds."""
    held = part_of(module, path).named_children()
    lists = [(name, child) for name, child in held if isinstance(child, nn.ModuleList)]
    start = f"{path}." if path else ""
    return [f"{start}{name}.{number}" for name, child in lists for number in range(len(child))]


def quiet_parts(module: nn.Module, layers: Iterable[str]) -> list[str]:
    """Parts that decide whether layers run: they are kept in evaluation mode while each layer is left out in turn."""
    names = {name.rpartition(".")[0].rpartition(".")[0] for name in layers}
    idle = [
        path
        for path, part in module.named_modules()
        if any(getattr(part, name, None) == 0.0 for name in LEAVING_ATTRIBUTES)
    ]
    return sorted({*names, *idle})


def part_of(module: nn.Module, path: str) -> nn.Module:
    """A part of the module by its path, the module itself where it is empty."""
    return module.get_submodule(path) if path else module  # TorchScript has no parts to get
