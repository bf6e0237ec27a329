"""robust_accuracy: several attacks in the order that costs least, each on the examples that all before it left."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from droptics.arguments import Count, check_arguments
from droptics.attacks.attack import Attack, WeakAttackWarning, check_data, proportion, verified
from droptics.attacks.averaged import Averaged
from droptics.attacks.chain import Chain
from droptics.attacks.gradients import Function, PlainMlp, as_columns, differentiable
from droptics.attacks.known import Known
from droptics.attacks.losses import Dlr, Ends, Margin, mistaken
from droptics.attacks.methods import Apgd, Fab, Fgsm, Method, Pgd, Square
from droptics.attacks.robustness import Randomness, Robustness, Stage
from droptics.attacks.threat import Threat
from droptics.data import Sample
from droptics.files.arrays import read_safetensors, write_tensors
from droptics.losses import CrossEntropy, Logistic
from droptics.models import Model
from droptics.models.modules import evaluating

_FRESH = 4  # times as many masks for the evaluation as for the attack
_OTHER_MASKS, _LAST_MASKS = 2**20, 2**21  # where the seeds of the masks begin that judge a point, and the result
_SQUARE = Square(patience=25, restarts=4)
# Gradients are cheap where they are few: a sixteenth of what is left, the nearest to being fooled, begins anew as near
# to other examples as the threat allows. Uniform points of a ball are all alike: they lead to far fewer of these.
# What the others find lay in the nearest 36 % on hardened perceptrons: the nearest half is tried.
_OTHERS = Apgd(Margin("every"), steps=20, restarts=4)
# Those of a perceptron cost next to nothing.
_MORE_OTHERS = replace(_OTHERS, restarts=8)
# On l2 balls the ratio's denominator turns steps away: margins alone find images that it never finds, and the reverse.
_MARGINS = Apgd(Margin("every"), steps=20, start="random")
_PARTS = {
    Apgd(CrossEntropy(), steps=50, start="random"): 2, Apgd(Dlr("every"), steps=20, start="random"): 2,
    Fab(steps=20, candidates=2): 2, _MARGINS: 2, _OTHERS: 16, _MORE_OTHERS: 8,
}  # fmt: skip
# One step of all takes most of an undefended network, then, from where it led them, one more of those that it left,
# where they are many, and the three likeliest classes at once, where they are few: on a GPU these take as long as one.
# A perceptron's gradients cost less than what a stage does besides.
_FIRST, _AGAIN = Fgsm(Margin("greedy")), Fgsm(Margin("greedy"))
_AT_ONCE = Pgd(Margin("every", candidates=3), steps=10)
_MOST = 64  # examples that are few
_FEW = 0.02  # share that a search without gradients may find by luck
_MANY = 0.1  # share of the examples from which an observation is worth a warning


def standard_attacks(outputs: Count) -> list[Method]:
    """The default ensemble for a model with this many outputs, the cheapest attack first.

    Ten steps towards the nearest of three classes, the first of them as far as it goes, which fool an undefended model;
    more of them towards the nearest of nine, steps that adapt from random points, the nine likeliest wrong classes in
    turn by the difference of logits ratio, the nearest boundary, and a search without gradients that turns to the
    nearest examples when it finds nothing, and begins anew when it did.

    Cost: nothing is computed. Claim: none, a choice of methods.
    """
    check_arguments(standard_attacks, locals())
    if outputs == 1:
        loss = Logistic()
        return [Apgd(loss, steps=20), Pgd(Margin()), Apgd(loss, start="random"), Fab(steps=50), _SQUARE]
    ensemble: list[Method] = [
        Pgd(Margin(candidates=3), steps=10), Pgd(Margin()), Apgd(CrossEntropy(), steps=50, start="random")
    ]  # fmt: skip
    if outputs > 2:
        ensemble.append(Apgd(Dlr("every"), steps=20, start="random"))
    return [*ensemble, Fab(steps=20, candidates=2), _SQUARE]


def robust_accuracy(
    model: Model | Function,
    data: Sample,
    threat: Threat,
    methods: Sequence[Method] | None = None,
    *,
    batch: Count = 1000,
    checkpoint: str | PathLike[str] | None = None,
) -> Robustness:
    """Accuracy under an ensemble of attacks: the worst case over all of them, example by example.

    Every attack is tried on the examples that those before it left, and every point that counts as fooled was
    re-evaluated in eval mode, inside ball and box. When the search without gradients fools more than a fiftieth of
    what gradients had left, the result carries a warning.

    A network that is random at test time is attacked through the mean of its predictions over masks (`Averaged`,
    which may also be passed as the model, to choose how many). A point counts as fooled where the mean over other
    masks is wrong, and the accuracy in the end is that over masks which neither saw.

    Cost: that of every attack on the examples that are left to it. Claim: none, every point is re-evaluated.

    Args:
        model: As for `attack`.
        data: Examples with class labels, or with targets -1 and +1 for a scorer.
        threat: Norm, radius and box.
        methods: The attacks, in this order; by default `standard_attacks`, its nine classes and boundaries for the half
            of the examples left whose margins came nearest to zero (on l2 balls its nine classes by margins, too), and
            after the last attack gradients from where other examples lie for the nearest sixteenth, of a perceptron,
            which makes them cheap, for the nearest eighth from more of them. One step of all comes first for what is no
            perceptron, and from where it led one more where it leaves many, the three likeliest classes side by side
            where it leaves few.
        batch: Examples per batch.
        checkpoint: A .safetensors file that holds what was found after every batch; a run that finds one of the same
            model, data, threat and methods goes on where it ended.

    Raises:
        ValueError: For data or methods that do not fit the model, or a checkpoint of another run.
    """
    check_arguments(robust_accuracy, locals())
    batch = int(batch)  # torch splits by whole numbers of Python alone
    ends, span = check_data(data, threat)
    attacked, outputs, doubts = _looked_at(model, data)
    chosen = list(standard_attacks(outputs) if methods is None else methods)
    parts = {}
    if methods is None and outputs > 2:
        with evaluating(attacked):
            tape = differentiable(attacked, faithful=True)
        plain = isinstance(tape, PlainMlp)
        if not plain:
            chosen[:0] = [_FIRST, _AGAIN, _AT_ONCE]
        chosen[-1:] = [*[_MARGINS] * (threat.norm == "l2"), *chosen[-1:], _MORE_OTHERS if plain else _OTHERS]
        parts = {number: _PARTS[method] for number, method in enumerate(chosen) if method in _PARTS}
    if isinstance(attacked, Averaged) and methods is None:
        # A point just across the boundary of the attacked masks is on the right side of others.
        chosen = [Pgd(Margin(), stop="never"), Pgd(Margin("every"), stop="never"), *standard_attacks(outputs)[-1:]]
        parts = {}
    if not chosen:
        raise ValueError("methods must name at least one attack")
    if any(isinstance(getattr(method, "start", None), Tensor) for method in chosen):
        raise ValueError("methods must not start at given points: each is tried on the examples that are left to it")
    state = replace(_Progress.begin(attacked, data), ends=ends, parts=parts)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None:
        if path.suffix != ".safetensors":
            raise ValueError(f"checkpoint must end in .safetensors, got {path}")
        mistakes = _mistakes(attacked, data.inputs, data.targets, batch)
        state.key = _key(attacked, mistakes, data, (threat, chosen, parts, batch))
        state = _read(path, state) if path.exists() else state
    with evaluating(None if state.luck else attacked):  # once: the modules of a large network take as long as a stage
        for number, method in enumerate(chosen):
            _run_stage(attacked, data, threat, (number, method), (state, path), batch)
    found = [*doubts, *dict.fromkeys(state.doubts), *_verdicts(state, span, threat)]
    randomness = None
    if isinstance(attacked, Averaged):
        randomness = _judge_again(attacked, data, threat, chosen, state, batch)
        if randomness.overstated > 1 / len(data):
            found.append(
                f"an attack that does not average over masks would have said {100 * randomness.overstated:.1f} points "
                "more: robustness that is only noise"
            )
    else:
        held = ((state.found_by < 0) | (state.found_by == _LEFT)).nonzero().squeeze(1)
        state.inputs[held] = data.inputs[held]
    total, found_by = len(data), state.found_by
    return Robustness(
        clean=proportion(int((found_by >= 0).sum()), total),
        robust=proportion(int((found_by == _LEFT).sum()), total),
        inputs=state.inputs,
        found_by=torch.where(found_by == _LEFT, len(state.stages), found_by).to(data.inputs.device),
        stages=tuple(state.stages),
        threat=threat,
        warnings=tuple(found),
        randomness=randomness,
    )


_LEFT = 10**6  # in `found_by` while no attack has fooled the example


@dataclass
class _Progress:
    """What is known so far; `stages` are those that ended, `partial` is the one under way.

    Who was found is known to the CPU, whatever device attacks: it is asked for once a stage.
    """

    inputs: Tensor  # the point of least margin of every example
    found_by: Tensor
    margins: Tensor  # the least at any point that an attack returned
    stages: list[Stage] = field(default_factory=list)
    partial: dict[str, float] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    key: str = ""
    luck: bool = False  # whether masks decide: every example is attacked, and the last point tried stands for it
    ends: tuple[float, float] | None = None  # the smallest and the largest label
    parts: dict[int, int] = field(default_factory=dict)  # the nearest half, ... is attacked at these stages
    left: int | None = None  # how many examples the stages that ended left, where it is known
    clean: Tensor | None = None  # outputs at the inputs, as the first stage saw them

    @staticmethod
    def begin(model: Model | Function, data: Sample) -> _Progress:
        found_by = torch.full((len(data),), _LEFT)
        luck = isinstance(model, Averaged)  # masks that it is attacked by may be wrong where others are right
        margins = torch.full_like(found_by, torch.inf, dtype=torch.float64)
        return _Progress(data.inputs.detach().clone(), found_by, margins, luck=luck)

    def take(self, part: Tensor, number: int, result: Attack, won: Tensor) -> tuple[int, int]:
        """Take over what an attack on some examples found; returns how many it won, and how many it was tried on."""
        rows, found_by, least = part.numpy(), self.found_by.numpy(), self.margins.numpy()  # NumPy takes less to begin
        wins, right = won.cpu().numpy(), result.clean_correct.cpu().numpy()
        margins = result.margins.to("cpu", torch.float64).numpy()
        first = number == 0 and not self.luck
        if first:
            found_by[rows[~right]] = -1
            wins = wins & right
        nearer = torch.from_numpy((wins | self.luck | (margins < least[rows])).nonzero()[0])
        self.inputs[part[nearer]] = result.inputs[nearer].to(self.inputs.dtype)
        found_by[rows[wins]] = number
        least[rows] = np.minimum(least[rows], margins)
        self.doubts += [doubt for doubt in result.warnings if doubt not in self.doubts]
        return int(wins.sum()), int(right.sum()) if first else len(part)

    def write(self, path: Path) -> None:
        said = {"stages": [asdict(stage) for stage in self.stages], "partial": self.partial, "doubts": self.doubts}
        arrays = {"inputs": self.inputs, "found_by": self.found_by, "margins": self.margins}
        write_tensors(path, arrays, {"key": self.key, "said": json.dumps(said)})


def _run_stage(
    model: Model | Function,
    data: Sample,
    threat: Threat,
    stage: tuple[int, Method],
    store: tuple[_Progress, Path | None],
    batch: int,
) -> None:
    """One attack on the examples that are left, batch by batch; a stage that has ended is passed over."""
    (number, method), (state, path) = stage, store
    if number < len(state.stages):
        return
    if state.left == 0:  # on a GPU every question to the device takes longer than to know this
        state.stages.append(Stage(_words(method), 0, 0, 0, 0, 0.0))
        return
    rows, left = _those(state, number, method)
    totals = state.partial or dict.fromkeys(("done", "attacked", "found", "gradients", "queries", "seconds"), 0)
    judge = None
    if isinstance(model, Averaged):
        judge = model.again(_FRESH * len(model.chances), _OTHER_MASKS)
        model = model.again(len(model.chances), 1000 * number)  # every attack has its own masks
    parts = rows.split(batch) if len(rows) else ()
    shown = tqdm(parts, desc=_words(method), disable=None, leave=False) if len(parts) > 1 else parts
    outputs: list[Tensor] = []
    for index, part in enumerate(shown):
        if index < totals["done"]:
            continue
        begin = perf_counter()
        there = part.to(data.inputs.device)
        some = data if len(part) == len(data) else _some(data, there)
        # A module that draws was recognized before, and is attacked through its mean.
        known = Known(state.ends, isinstance(model, nn.Module), held=not state.luck)
        known.clean, known.left = None if state.clean is None else state.clean[there], number > 0 and not state.luck
        result = _attacked(model, some, threat, _placed(method, state, data, there), (index, known))
        outputs += [] if known.clean is None else [known.clean]
        won = result.success if judge is None else _mistakes(judge, result.inputs, some.targets, batch)
        found, attacked = state.take(part, number, result, won)
        totals["done"] += 1
        totals["attacked"] += attacked
        totals["found"] += found
        totals["gradients"] += result.gradients
        totals["queries"] += result.queries
        totals["seconds"] += perf_counter() - begin
        state.partial = totals
        if path is not None:
            state.write(path)
    counts = {name: int(totals[name]) for name in ("attacked", "found", "gradients", "queries")}
    state.stages.append(Stage(_words(method), **counts, seconds=float(totals["seconds"])))
    state.partial = {}
    if not state.luck:
        if number == 0 and len(outputs) == len(parts):
            state.clean = torch.cat(outputs)
        state.left = (left if number else counts["attacked"]) - counts["found"]
    if path is not None:
        state.write(path)


def _those(state: _Progress, number: int, method: Method) -> tuple[Tensor, int]:
    """The examples that a stage attacks, and how many are left to it."""
    # The first attack says who is wrong as is.
    rows = (state.found_by >= number).nonzero().squeeze(1) if number else torch.arange(len(state.found_by))
    left = len(rows)
    if (method is _AT_ONCE and left > _MOST) or (method is _AGAIN and left <= _MOST):
        return rows[:0], left
    if number in state.parts:
        # What is fooled meanwhile stays among them, so that a run that goes on finds the same ones.
        near = state.margins[rows].argsort(stable=True)[: -(-left // state.parts[number])]
        rows = rows[near.sort().values]
    return rows, left


def _placed(method: Method, state: _Progress, data: Sample, part: Tensor) -> Method:
    """The method with its starts: the best points so far, or other examples."""
    if method is _AT_ONCE or method is _AGAIN:
        return _begun(method, state.inputs[part])
    if method is _OTHERS or method is _MORE_OTHERS:
        draws = torch.Generator().manual_seed(int(state.partial.get("done", 0)))
        those = torch.randint(len(data), (len(part), method.restarts), generator=draws)
        return _begun(method, data.inputs[those])
    return method


def _begun(method: Method, points: Tensor) -> Method:
    """The method from points that were checked before: a GPU would be asked again."""
    begun = copy(method)
    begun.__dict__["start"] = points
    return begun


def _some(data: Sample, part: Tensor) -> Sample:
    """Some of the examples, whose numbers were checked before, too."""
    some = object.__new__(Sample)
    some.__dict__.update(inputs=data.inputs[part], targets=data.targets[part], weights=None)
    return some


def _attacked(
    model: Model | Function,
    data: Sample,
    threat: Threat,
    method: Method,
    place: tuple[int, Known],
) -> Attack:
    """`place` is the number of the batch and what is known of it."""
    # Every batch has its own random numbers, so that a run that goes on draws what it would have drawn.
    seed = getattr(method, "seed", 0) * 1_000_003 + place[0]
    generator = torch.Generator(data.inputs.device).manual_seed(int(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakAttackWarning)
        return verified(model, data, threat, method, len(data), generator, known=place[1])


def _words(method: Method) -> str:
    """The method with what makes it different from others: its loss and its budget."""
    loss = getattr(method, "loss", None)
    aim = f"({loss.target!r})" if isinstance(loss, (Margin, Dlr)) else "()"
    budget = f"queries={method.queries}" if isinstance(method, Square) else f"steps={getattr(method, 'steps', 1)}"
    parts = [] if loss is None or isinstance(method, Square) else [f"{type(loss).__name__}{aim}"]
    return f"{type(method).__name__}({', '.join([*parts, budget])})"


def _no_draws(inputs: Tensor) -> AbstractContextManager[None]:
    """The global generators end where they are, whatever a random model draws from them."""
    return torch.random.fork_rng(devices=[inputs.device] if inputs.is_cuda else [])


def _looked_at(model: Model | Function, data: Sample) -> tuple[Model | Function, int, list[str]]:
    """The function to attack and how many outputs it has.

    It is the model itself, or its mean over masks where two evaluations differ. A chain need not be evaluated.
    """
    chain = Chain.of(model)
    if chain is not None and chain.width is not None:
        return model, chain.width, []
    call = model.outputs if isinstance(model, Model) else model
    plain = isinstance(model, nn.Module) and not isinstance(model, (Averaged, Model))
    with evaluating(model), _no_draws(data.inputs), torch.no_grad():
        plain = plain and not differentiable(model, faithful=True).capturable  # ordinary layers draw nothing
        some = data.inputs[: 64 if plain else 1]
        first = call(some)
        second = call(some) if plain else first
    outputs = as_columns(first, len(some)).shape[-1]
    if not plain or not isinstance(model, nn.Module) or torch.equal(first, second) or not _differ(first, second):
        return model, outputs, []
    doubt = (
        "the model is random in eval mode: the mean of its predictions over 16 masks was attacked; pass "
        "Averaged.of(model, draws=...) to choose how many"
    )
    return Averaged.of(model), outputs, [doubt]


def _differ(first: Tensor, second: Tensor) -> bool:
    tolerance = 100 * torch.finfo(first.dtype).eps * first.abs().amax().nan_to_num()
    return bool(((first - second).abs() > tolerance).any())


def _mistakes(model: Model | Function, inputs: Tensor, targets: Tensor, batch: int) -> Tensor:
    call = model.outputs if isinstance(model, Model) else model
    with evaluating(model), torch.no_grad():
        parts = zip(inputs.split(batch), targets.split(batch), strict=True)
        return torch.cat([mistaken(as_columns(call(some), len(some)), labels) for some, labels in parts])


def _judge_again(
    model: Averaged, data: Sample, threat: Threat, methods: Sequence[Method], state: _Progress, batch: int
) -> Randomness:
    """Accuracy by masks that nothing was chosen by, ours and at the points of the same attacks without a mean."""
    fresh = model.again(_FRESH * len(model.chances), _LAST_MASKS)
    naive = _Progress.begin(model, data)
    with _no_draws(data.inputs):
        for stage in enumerate(methods):
            _run_stage(model.quiet, data, threat, stage, (naive, None), batch)
    points = (data.inputs, state.inputs, naive.inputs)
    clean, ours, others = (_mistakes(fresh, each, data.targets, batch).cpu() for each in points)
    fooled = torch.where(ours, state.found_by.clamp_max(len(state.stages) - 1), _LEFT)
    state.found_by = torch.where(clean, -1, fooled)
    overstated = int((~others & ~clean).sum()) - int((state.found_by == _LEFT).sum())
    single = fresh.single_accuracy(state.inputs, data.targets)
    masks = 0 if model.closed else len(model.chances)
    return Randomness(masks, model.exact, len(fresh.chances), single, overstated / len(data))


def _hidden(state: _Progress) -> bool:
    """Whether a search without gradients fooled more than a few of the examples that gradients had left."""
    return any(stage.found > _FEW * stage.attacked for stage in state.stages if stage.method.startswith("Square("))


def _verdicts(state: _Progress, span: Ends, threat: Threat) -> list[str]:
    """Reasons to doubt the number that no single attack can see."""
    doubts = []
    if _hidden(state):
        doubts.append(
            "a search without gradients fooled many examples that every gradient had missed: the model hides its "
            "gradients, and the robust accuracy is not to be relied on"
        )
    if threat.box is not None and span is not None:
        (low, high), width = span, threat.box[1] - threat.box[0]
        if high - low < _MANY * width:
            doubts.append(
                f"the inputs lie in [{low:.4g}, {high:.4g}], a small part of the box [{threat.box[0]:g}, "
                f"{threat.box[1]:g}]: check the normalization, the radius is in the units of the inputs"
            )
    return doubts


def _key(model: Model | Function, found_by: Tensor, data: Sample, asked: object) -> str:
    """A fingerprint of the question: data, settings, layers, weights, and which examples the model gets right already.

    A bare function shows no weights; another one is told apart by its mistakes alone.
    """
    inner = model.quiet if isinstance(model, Averaged) else model
    stored = list(inner.state_dict().values()) if isinstance(inner, nn.Module) else []
    weights = [part for part in (inner.tensors if isinstance(inner, Model) else stored) if isinstance(part, Tensor)]
    layers = repr(inner) if isinstance(inner, nn.Module) else type(inner).__qualname__
    digest = hashlib.sha256(repr((asked, tuple(data.inputs.shape), layers)).encode())
    for part in (data.inputs, data.targets, found_by, *weights):
        digest.update(part.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _read(path: Path, begin: _Progress) -> _Progress:
    """The state of a run that broke off."""
    arrays, said = read_safetensors(path)
    if said.get("key") != begin.key:
        raise ValueError(f"checkpoint {path} belongs to another model, other data, threat or methods; remove it")
    rest = json.loads(said["said"])
    stages = [Stage(**stage) for stage in rest["stages"]]
    arrays["inputs"] = arrays["inputs"].to(begin.inputs.device)
    found = {name: arrays[name] for name in ("inputs", "found_by", "margins")}
    return replace(begin, **found, stages=stages, partial=rest["partial"], doubts=rest["doubts"])
