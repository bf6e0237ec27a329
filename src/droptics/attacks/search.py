"""The search itself: from inputs and a method to perturbed inputs, without any check of the result.

`perturb` is what a training loop calls; `search` also says what happened on the way, for `attack` to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from droptics.answers import checked
from droptics.arguments import ClassNumbers, Points
from droptics.attacks.apgd import AdaptiveAscent, check_starts, for_some
from droptics.attacks.ascent import Ascent, Trail, chooses, linearized_order, stuck
from droptics.attacks.asking import AskingAscent
from droptics.attacks.chain import Chain
from droptics.attacks.closed_form import linear_attack
from droptics.attacks.fab import BoundarySearch
from droptics.attacks.gradients import Autograd, Differentiable, Function, differentiable
from droptics.attacks.known import NOTHING, Known
from droptics.attacks.losses import Ends, check_problem, mistaken, value_and_slope
from droptics.attacks.methods import Apgd, Bim, Fab, Fgsm, LinearExact, Method, Pgd, Square, step_sizes
from droptics.attacks.square import SquareSearch
from droptics.attacks.threat import Region, Threat
from droptics.checks import check_size
from droptics.losses import CrossEntropy
from droptics.models import Model

# Numbers per block of examples on the CPU: a block takes all its steps while most of it is in the cache.
_BLOCK = 2**19


@checked
def perturb(
    model: Model | Function,
    inputs: Points,
    targets: ClassNumbers,
    threat: Threat,
    method: Method,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Perturbed inputs, nothing else: for use inside a training loop.

    The model runs in the mode it is in, nothing is verified, no gradient reaches the parameters, and the result is
    detached. An empty batch comes back empty.

    Cost: the passes of the method. Claim: none, nothing is verified here.
    """
    check_size("targets", len(targets), len(inputs), "one per example of inputs")
    return search(model, inputs, targets, threat, method, generator).inputs


def search(  # parameters: a batch, and what its caller knows of it already
    model: Model | Function | Differentiable,
    inputs: Tensor,
    targets: Tensor,
    threat: Threat,
    method: Method,
    generator: torch.Generator | None = None,
    known: Known = NOTHING,
) -> Trail:
    """Run a method on a batch; where it is no closed form the model may come as what differentiates it."""
    centers = inputs.detach()
    if centers.shape[0] == 0 or isinstance(method, LinearExact):
        points = centers.clone()
        if len(centers):
            assert not isinstance(model, Differentiable)
            points = linear_attack(model, centers, targets, threat)
        nothing = torch.zeros(len(points), dtype=torch.bool, device=points.device)
        return Trail(points, nothing, nothing, torch.full((1,), len(points), device=points.device))
    tape = model if isinstance(model, Differentiable) else tape_of(model, method)
    region = threat.around(centers)
    check_starts(method, centers.shape)
    match method:
        case Fgsm():
            return _walk(tape, region, targets, method, [threat.radius], known.ends)
        case Bim():
            sizes = step_sizes(method.step, method.steps, threat.radius, "fixed")
            return _walk(tape, region, targets, method, sizes, known.ends)
        case Pgd() | Apgd() | Fab() | Square():
            return _in_blocks(tape, region, targets, method, generator, known)
    raise ValueError(f"method must be Fgsm, Bim, Pgd, Apgd, Fab, Square or LinearExact, got {type(method).__name__}")


def tape_of(model: Model | Function, method: Method) -> Differentiable:
    """What differentiates a model as the method asks."""
    mixed = isinstance(method, Pgd) and method.precision == "half"
    tape = differentiable(model, faithful=textbook(method), mixed=mixed)
    return (Chain.of(model) or tape) if type(tape) is Autograd else tape


def textbook(method: Method) -> bool:
    """Whether a method is compared with other libraries image by image, so that its rounding must be the module's."""
    return isinstance(method, (Fgsm, Bim))


def _walk(
    tape: Differentiable, region: Region, targets: Tensor, method: Fgsm | Bim, sizes: list[float], ends: Ends
) -> Trail:
    """All examples take all steps and the last iterate counts, which is not looked at here.

    Cross-entropy is taken as it is, saturation included, so that the examples are those of the textbook method.
    """
    loss, start, counts = method.loss, getattr(method, "start", None), []
    points = region.retract(start.to(region.inputs)) if isinstance(start, Tensor) else region.inputs
    aim: Tensor | None = None
    for number, size in enumerate(sizes):
        outputs = tape.forward(points)
        wrong = mistaken(outputs, targets)
        counts.append(wrong.sum())
        if number == 0:
            check_problem(loss, outputs, targets, ends)
            clean = outputs
            if chooses(loss, outputs):
                aim = linearized_order(tape, outputs, targets, loss, region.threat, wrong)[:, 0]
        _, slope = value_and_slope(loss, outputs, targets, aim, scaled=isinstance(loss, CrossEntropy))
        points = region.retract_(points + size * region.threat.steepest(tape.pull(slope), points))
    still = stuck(region.threat, points, region.inputs)
    counts.append(torch.full((), len(sizes) * len(points), device=points.device))
    return Trail(points, wrong & False, still, torch.stack(counts), None if isinstance(start, Tensor) else clean)


def _in_blocks(
    tape: Differentiable,
    region: Region,
    targets: Tensor,
    method: Pgd | Apgd | Fab | Square,
    generator: torch.Generator | None,
    known: Known,
) -> Trail:
    """The whole batch, or block by block where the outputs of a block do not depend on the rest of the batch."""
    if generator is None:
        generator = torch.Generator(region.inputs.device).manual_seed(method.seed)
    ascent = Ascent if region.inputs.device.type == "cpu" else AskingAscent
    classes = {Pgd: ascent, Apgd: AdaptiveAscent, Fab: BoundarySearch, Square: SquareSearch}
    searcher: Any = next(found for kind, found in classes.items() if isinstance(method, kind))
    count = len(targets)
    rows = max(_BLOCK // max(region.inputs[0].numel(), 1), 64)
    if region.inputs.device.type != "cpu" or not tape.separable or count <= rows:
        return searcher(tape, region, targets, method, generator, known).run()
    size = -(-count // -(-count // rows))  # blocks of about equal size
    pairs = ((begin, begin + size) for begin in range(0, count, size))
    parts = [(region.slice(a, b), targets[a:b], for_some(method, a, b), generator, known.slice(a, b)) for a, b in pairs]
    return joined([searcher(tape, *part).run() for part in parts])


def joined(trails: Sequence[Trail]) -> Trail:
    """The trails of several batches as one; a batch that ended early stays at its last rate."""
    if len(trails) == 1:
        return trails[0]
    tallies = [trail.tally.tolist() for trail in trails]
    length = max(len(tally) for tally in tallies)
    tally = [sum(counts[min(i, len(counts) - 2)] for counts in tallies) for i in range(length - 1)]
    clean = [trail.clean for trail in trails if trail.clean is not None]
    assert all(trail.stuck is not None for trail in trails)
    found = zip(*((trail.inputs, trail.fooled, trail.stuck) for trail in trails), strict=True)
    inputs, fooled, still = (torch.cat(part) for part in found)
    total = torch.tensor([*tally, sum(counts[-1] for counts in tallies)])
    outputs = torch.cat(clean) if len(clean) == len(trails) else None
    return Trail(inputs, fooled, still, total, outputs, sum(trail.queries for trail in trails))
