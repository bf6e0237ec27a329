r"""Affine tails: outputs that are affine in the mask of a site, proved from the graph that autograd keeps.

With the masks as the only leaves of the graph, an output is affine in the mask z of a site if on every way from z to it
stand linear operations, or products of which one factor alone depends on z. Then f(z) = f(1) + J (z - 1), and for
squared loss and independent units of rate p

    penalty = p / (1 - p) sum_j |J_j|^2,

with J_j the derivative by one entry of the mask: one backward pass per output. Nodes that are not known refuse. A value
that depends on z without a trace in the graph (a comparison, `detach`, `item`, a block without gradients) refuses too,
so that a ReLU written as x * (x > 0) is no linear map, crossed or not; numbers alone could not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from droptics.audits.runs import Base

MOST_OUTPUTS = 64  # per example: one backward pass each

# fmt: off
# names without the ending "Backward0"
LINEAR = {
    "Add", "Sub", "Rsub", "Neg", "Sum", "Mean", "View", "UnsafeView", "ReshapeAlias", "T", "Transpose", "Permute",
    "Expand", "Unsqueeze", "Squeeze", "Clone", "Alias", "ToCopy", "Select", "Slice", "Cat", "Stack", "Split",
    "SplitWithSizes", "Unbind", "Index", "IndexSelect", "Gather", "Repeat", "Roll", "Flip", "AsStrided",
    "ConstantPadNd", "ReflectionPad1D", "ReflectionPad2D", "ReplicationPad1D", "ReplicationPad2D", "ReplicationPad3D",
    "AvgPool2D", "AvgPool3D", "AdaptiveAvgPool2D", "AdaptiveAvgPool3D", "MkldnnAdaptiveAvgPool2D",
    "UpsampleBilinear2D", "UpsampleLinear1D", "UpsampleTrilinear3D", "UpsampleBicubic2D", "UpsampleNearest1D",
    "UpsampleNearest2D", "UpsampleNearest3D", "Tril", "Triu", "Diagonal", "Unfold", "Im2Col", "Col2Im",
    "PixelShuffle", "PixelUnshuffle", "IndexAdd", "ScatterAdd", "Cumsum", "Where", "MaskedFill",
}
# what a tensor tells without its values
SHAPES = {
    "size", "dim", "__len__", "__get__", "numel", "nelement", "stride", "is_contiguous", "is_floating_point",
    "is_complex", "element_size", "type", "get_device", "storage_offset", "register_hook", "ndimension", "is_signed",
    "__setitem__", "__set__", "is_same_size", "has_names", "requires_grad_", "__hash__",
}
NEW = {
    "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "new_zeros", "new_ones",
    "new_empty", "new_full",
}
# fmt: on
# factors among the inputs, by position; other inputs are added
PRODUCTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Mul", "Mm", "Bmm", "Mv", "Dot", "Matmul"), (0, 1)),
    **dict.fromkeys(("Addmm", "Addbmm", "Baddbmm", "Addmv", "Addr", "Addcmul"), (1, 2)),
    **dict.fromkeys(("Convolution", "MkldnnConvolution", "CudnnConvolution", "Linear"), (0, 1)),
}
NORMS = ("NativeBatchNorm", "CudnnBatchNorm", "MiopenBatchNorm")


class Hidden:
    """Collects values that depend on a mask without a trace in the graph, as the functions are called."""

    def __init__(self) -> None:
        self.sources: list[Tensor] = []

    def __call__(self, func: Any, args: tuple[Any, ...], options: Mapping[str, Any], result: Any) -> None:
        """One call of a torch function."""
        name = getattr(func, "__name__", "")
        if name in NEW:
            return
        plain = all(isinstance(value, (Tensor, int, float, str, type(None))) for value in (*args, *options.values()))
        leaves = (*args, *options.values()) if plain else pytree.tree_leaves((args, dict(options)))
        tracked = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.requires_grad]
        if not tracked:
            return
        tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
        seen = all(leaf.requires_grad for leaf in tensors) if tensors else name in SHAPES
        if not seen:
            self.sources += tracked


def affine_sites(base: Base, hidden: Hidden) -> list[str]:
    """Sites in whose masks the outputs are affine, the other masks being ones."""
    bits = {name: 1 << number for number, name in enumerate(base.leaves)}
    leaves = {id(leaf): bits[name] for name, part in base.leaves.items() for leaf in part}
    roots = [base.outputs, *hidden.sources]
    reach, refused = _walk([root.grad_fn for root in roots if root.grad_fn is not None], leaves)
    outputs = reach.get(base.outputs.grad_fn, 0)
    own = _walk_refused(base.outputs.grad_fn, reach, refused)
    for source in hidden.sources:
        own |= reach.get(source.grad_fn, 0) | leaves.get(id(source), 0)
    return [name for name, bit in bits.items() if bit & outputs and not bit & own]


def _walk(roots: Sequence[Any], leaves: Mapping[int, int]) -> tuple[dict[Any, int], dict[Any, int]]:
    """For every node the masks it depends on, and those in which it is not affine; by bits."""
    reach: dict[Any, int] = {None: 0}
    refused: dict[Any, int] = {None: 0}
    waiting = list(roots)
    while waiting:
        node = waiting[-1]
        if node in reach:
            waiting.pop()
            continue
        edges = [edge for edge, _ in node.next_functions]
        ahead = [edge for edge in edges if edge not in reach]
        if ahead:
            waiting += ahead
            continue
        waiting.pop()
        variable = getattr(node, "variable", None)
        if variable is not None:
            reach[node], refused[node] = leaves.get(id(variable), 0), 0
            continue
        inputs = [reach[edge] for edge in edges]
        reach[node], refused[node] = _union(inputs), _refused(node, inputs)
    return reach, refused


def _walk_refused(root: Any, reach: Mapping[Any, int], refused: Mapping[Any, int]) -> int:
    """What any node on the way to the root refuses."""
    found, seen, waiting = 0, {None}, [root]
    while waiting:
        node = waiting.pop()
        if node in seen or not reach.get(node):
            continue
        seen.add(node)
        found |= refused[node]
        waiting += [edge for edge, _ in node.next_functions]
    return found


def _refused(node: Any, inputs: Sequence[int]) -> int:
    kind = node.name().rpartition("::")[2].rstrip("0123456789").removesuffix("Backward")
    if kind in LINEAR:
        return 0
    if kind == "Div":
        return _union(inputs[1:])
    if kind in NORMS and not getattr(node, "_saved_training", True):
        return inputs[0] & _union(inputs[1:2])
    if kind in PRODUCTS:
        first, second = (inputs[place] if place < len(inputs) else 0 for place in PRODUCTS[kind])
        return first & second
    return _union(inputs)


def _union(inputs: Sequence[int]) -> int:
    found = 0
    for bits in inputs:
        found |= bits
    return found


def energies(
    base: Base, sites: Sequence[str], keep: Callable[[str, int, list[Tensor]], None] | None = None
) -> dict[str, float]:
    """sum_j |J_j|^2 over all outputs and entries of the masks; `keep` sees the slopes of every output.

    Cost: one backward pass per output of an example.
    """
    masks = tuple(leaf for site in sites for leaf in base.leaves[site])
    found: dict[str, list[Tensor]] = {site: [] for site in sites}  # asked of the device at the end
    shape, engine = base.outputs.shape, torch.autograd.Variable._execution_engine
    for number, way in enumerate(torch.eye(shape[1:].numel()).to(base.outputs)):
        # torch.autograd.grad takes no ways without loading symbolic shapes, and sums have nodes of their own
        ways = (way.reshape(shape[1:]).expand(shape),)
        rows = iter(engine.run_backward((base.outputs,), ways, True, False, masks, True, False))
        for site in sites:
            slopes = [torch.zeros_like(leaf) if (row := next(rows)) is None else row for leaf in base.leaves[site]]
            found[site] += [torch.linalg.vector_norm(slope, dtype=torch.float64) for slope in slopes]
            if keep is not None:
                keep(site, number, slopes)
    return {site: float(torch.stack(norms).square().sum()) for site, norms in found.items()}


def confirmed(
    base: Base, slopes: Mapping[int, list[Tensor]], masks: Sequence[Tensor], outputs: Tensor, site: str
) -> bool:
    """Whether outputs under real masks are what the slopes say, example by example, up to rounding."""
    before = base.outputs.detach().double().reshape(len(base.sums), -1)
    change = outputs.double().reshape(len(base.sums), -1) - before
    wanted = torch.zeros_like(change)
    for number, part in slopes.items():
        for slope, mask in zip(part, masks, strict=True):
            wanted[:, number] += base.per_example(slope.double() * (mask.double() - 1), site)
    level = 1e-9 if outputs.dtype == torch.float64 else 64 * torch.finfo(outputs.dtype).eps ** 0.75
    scale = float(change.abs().max()) + float(before.abs().max()) * torch.finfo(outputs.dtype).eps * 64 / level
    return float((change - wanted).abs().max()) <= level * scale
