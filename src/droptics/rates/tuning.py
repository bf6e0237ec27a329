"""tune_rates: which rate, at each site of a module, by copies that share their randomness."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from droptics.arguments import Count, DropRate, Seed, check_arguments
from droptics.audits.asking import Question, ask
from droptics.audits.batches import Batch, run
from droptics.audits.criteria import LossFunction, OwnLoss, mean_loss
from droptics.evidence.engines import Engine
from droptics.evidence.engines import engine as engine_named
from droptics.files.writing import check_folder
from droptics.losses import Loss
from droptics.models.modes import set_training, undisturbed
from droptics.models.watching import all_off, watched
from droptics.rates.chains import ChainScan, chain_scan
from droptics.rates.copies import Problem
from droptics.rates.designs import MOST_SITES, Effect, effects, two_level
from droptics.rates.estimators import estimator_scan, with_one_rate
from droptics.rates.exact import head_scan
from droptics.rates.examples import Examples, example_losses, take
from droptics.rates.fits import Fit, FitFunction
from droptics.rates.places import Place, chosen, grouped, read_places
from droptics.rates.randomness import key
from droptics.rates.result import Cost, Gap, Point, Rates, SiteRate, Split
from droptics.rates.running import PopulationChoice, Runner, Setting, Trained
from droptics.rates.verdicts import ERRORS, Verdict, alike, compare, judge, standard_error

SCAN = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7)  # the usual defaults are among them
LEVEL = 0.7  # log-odds between the tied rate and the levels of the design
LEAST_EXAMPLES = 8
FEW = 4  # examples on which sites are read
NOTHING_MOVES = "no site has an effect beyond two standard errors"
MOST_TARGETS = 4096  # of which the best constant output is found


def tune_rates(  # parameters: keywords with defaults, each of which an answer can do without
    module: nn.Module | BaseEstimator,
    train: object,
    validation: object | None,
    loss: str | Loss | LossFunction | None = None,
    *,
    fit: Fit | FitFunction | None = None,
    scan: Sequence[DropRate] = SCAN,
    split: Literal["factorial"] | None = None,
    sites: Sequence[str] | None = None,
    groups: Sequence[str] = (),
    repeats: Count = 1,
    guard: Count = 2,
    population: PopulationChoice = "auto",
    engine: str | Engine = "local",
    store: str | Path | None = None,
    seed: Seed = 0,
    progress: bool | None = None,
) -> Rates:
    """Which rate, at each site of this module: a scan of tied rates by copies that differ in nothing but the rate.

    Copies start from the module's own weights, see the same batches in the same order, and drop a unit where one and
    the same uniform number is below their rate (droptics-shared-masks). What is left between two copies is what the
    rate does, and their validation losses are compared example by example. The answer is the best rate that all sites
    share, which rates cannot be told apart from it, and a verdict: "resolved", "flat" (nothing is gained) or "at the
    edge" (of the scan).

    With `split="factorial"` copies at the two levels `log-odds +- 0.7` around the tied answer (4, 8 or 12 for up to
    3, 7 or 11 sites) show the effect of each site; sites beyond two standard errors move, by a Newton step within the
    levels, and the split is kept only if it beats the tied rate on fresh seeds by one standard error.

    The module, its modes, buffers, gradients and all random states are as before, also after an exception.

    Claim: none, rates are chosen on held-out data, and the answer says how sure it is.

    Args:
        module: Any module that `audit` can read; its weights are those that every copy starts from. Or an estimator
            of the library with a parameter `drop`, which is fitted at every rate; one that chooses among `drops` itself
            is asked at those, or at the rates of `scan`.
        train: A Sample, a pair (inputs, targets) or a loader, read once into memory.
        validation: Data of the same form, on which copies are compared; at least 8 examples. None leaves out training
            examples one by one, exactly, where all that is trained is a linear head (or for a `DropoutRidge`).
        loss: As for `audit`; by default squared for floating-point targets and cross-entropy for class labels.
        fit: None takes algebra where it reaches (squared loss, and nothing trained but the last linear layer behind the
            one site, or a chain of linear layers with sites between them: as if trained to the end), else `Fit()`. A
            `Fit` has the options of our loop. Or a function (module, train, seed) that trains a copy in place, or
            returns the trained module: for Lightning, transformers or a loop of your own.
        scan: Tied rates to try; with 0 among them the answer says what dropout is worth at all.
        split: None for one rate, "factorial" for a rate per site where that pays.
        sites: Names or patterns (as in file names) of the sites to tune; all by default, others keep their rate.
        groups: Patterns; the sites that fit one share a rate in the split.
        repeats: Seeds of batches and masks; with two or more, errors count how much the seed matters.
        guard: Fresh seeds on which a split is compared with the tied rate.
        population: "auto" trains copies together where torch.func.vmap gives the very bits that each gives alone,
            "together" also where it rounds otherwise, "apart" never.
        engine: "local", "processes", "processes:N", "dask://host:port" or an engine: the numbers are the same.
        store: Folder for finished copies and unfinished populations; a killed run resumes from it.
        seed: Of batches and masks.
        progress: Show a bar with the time left; by default only on a terminal.

    Cost: len(scan) * repeats trainings; a split adds 4, 8 or 12 times `repeats`, and 2 * guard.
    """
    check_arguments(tune_rates, locals())
    begin, rates = time.perf_counter(), _scan(scan)
    if isinstance(fit, nn.Module):
        raise ValueError(f"fit must be a Fit or a function (module, train, seed), got the module {type(fit).__name__}")
    if not isinstance(module, nn.Module):
        if fit is not None or split is not None or sites is not None or groups or store is not None:
            raise ValueError("module is an estimator with one rate: leave out fit, split, sites, groups and store")
        single, named = with_one_rate(module)
        rates = rates if named is None or scan is not SCAN else _scan(named)
        trained, method = estimator_scan(single, train, validation, rates, progress)
        own = single.get_params()["drop"]
        place = Place("drop", type(module).__name__, float(own) if isinstance(own, (int, float)) else 0.0)
        return _answer([place], rates, trained, None, method).finished(begin)
    where = engine_named(engine) if isinstance(engine, str) else engine
    folder = None if store is None else check_folder(store, "store")
    with undisturbed(module, seed):
        held = train if validation is None else validation
        problem, places, skipped = _problem(module, train, held, loss, fit or Fit(), sites)
        constant = _constant(problem)
        head = None if fit is not None else head_scan(problem, validation is not None)
        chain = None if fit is not None or head is not None or validation is None else chain_scan(problem)
    if head is not None:
        return _answer(places, rates, head.scan(rates), constant, head.method).finished(begin)
    if validation is None:
        raise ValueError("validation must be data: only a linear head, trained alone, is compared without")
    group = grouped(places, groups)
    if chain is not None:
        trained = chain.trained([dict.fromkeys(group, rate) for rate in rates])
        answer = _answer(places, rates, trained, constant, chain.method)
        answer.skipped = skipped
        answer.divide_chain(chain, group, split is not None)
        return answer.finished(begin)
    if split is not None and len(set(group.values())) > MOST_SITES:
        raise ValueError(
            f"groups: a split holds at most {MOST_SITES} rates, these sites would have {len(set(group.values()))}; "
            "put sites that are alike into groups by patterns"
        )
    runner = Runner(problem, population, where, folder, progress)
    seeds = [key(seed, "scan", i) for i in range(repeats)]
    trained = runner.run([dict.fromkeys(group, rate) for rate in rates], seeds, "scan")
    answer = _answer(places, rates, trained, constant, "scan")
    answer.skipped = skipped
    if split is not None:
        fresh = [key(seed, "guard", i) for i in range(guard)]
        answer.divide(runner, group, seeds, fresh)
    return answer.finished(begin, runner)


@dataclass
class _Answer:
    """What is known so far."""

    places: list[Place]
    rates: list[float]
    trained: list[Trained]
    constant: Tensor | None
    method: str
    best: int
    verdict: Verdict
    reason: str
    points: list[Point]
    chosen: dict[str, float]
    group: dict[str, str]
    skipped: dict[str, str] = field(default_factory=dict)
    effects: dict[str, Effect] = field(default_factory=dict)
    split: Split | None = None

    def divide(self, runner: Runner, group: dict[str, str], seeds: Sequence[int], fresh: Sequence[int]) -> None:
        """Look for a rate per site, or say why not."""
        self.group, rate = group, self.rates[self.best]
        why = _no_split(self.verdict, rate, set(group.values()))
        if why:
            self.split = Split(False, why)
            return
        tied = self.trained[self.best].losses
        self.split, self.chosen, self.effects, more = _divide(runner, group, rate, tied, seeds, fresh)
        self.points += more

    def divide_chain(self, chain: ChainScan, group: dict[str, str], split: bool) -> None:
        """The derivative by every site's rate, and the rates that it leads to if a split is asked for."""
        self.group, rate = group, self.rates[self.best]
        tied = dict.fromkeys(group, rate)
        by_group = chain.effects(tied, group) if rate > 0 else {}
        self.effects = {name: by_group[own] for name, own in group.items() if by_group}
        if not split:
            return
        why = _no_split(self.verdict, rate, set(group.values()))
        if why:
            self.split = Split(False, why)
            return
        bend = _curvature(self.rates, [item.losses for item in self.trained], self.best)
        own_rates = _shifted(by_group, group, rate, bend)
        if own_rates == tied:
            self.split = Split(False, NOTHING_MOVES)
            return
        pair = chain.trained([tied, own_rates])
        self.split, self.chosen, more = _guarded(tied, own_rates, pair, "the loss is lower by")
        self.points += more

    def _site(self, place: Place) -> SiteRate:
        """The answer for one site; where a split was looked for, its verdict is that of its own effect."""
        effect, verdict = self.effects.get(place.name), self.verdict
        if effect is not None and self.split is not None and verdict != "flat":
            verdict = "resolved" if abs(effect.value) > ERRORS * effect.error else "flat"
        return SiteRate(
            place.name,
            place.kind,
            place.rate,
            self.chosen[place.name],
            verdict,
            self.group[place.name],
            None if effect is None else effect.value,
            None if effect is None else effect.error,
        )

    def finished(self, begin: float, runner: Runner | None = None) -> Rates:
        """The result."""
        same = alike([item.losses for item in self.trained], self.best)
        seconds = time.perf_counter() - begin
        cost = Cost(0, 0, seconds, False)
        if runner is not None:
            cost = Cost(runner.copies, runner.resumed, seconds, runner.together)
        return Rates(
            rates=self.chosen,
            sites=tuple(self._site(place) for place in self.places),
            points=tuple(self.points),
            cost=cost,
            verdict=self.verdict,
            reason=self.reason,
            best=self.rates[self.best],
            alike=tuple(rate for rate, close in zip(self.rates, same, strict=True) if close),
            gap=_gap(self.trained, self.best),
            constant=None if self.constant is None else float(self.constant.mean()),
            split=self.split,
            skipped=self.skipped,
            method=self.method,
            notes=() if runner is None else tuple(runner.notes),
        )


def _answer(
    places: list[Place], rates: list[float], trained: list[Trained], constant: Tensor | None, method: str
) -> _Answer:
    best, verdict, reason = judge(rates, [item.losses for item in trained], constant)
    names = [place.name for place in places]
    points = _points("scan", [dict.fromkeys(names, rate) for rate in rates], trained, best)
    own = {name: name for name in names}
    chosen_rates = dict.fromkeys(names, rates[best])
    return _Answer(places, rates, trained, constant, method, best, verdict, reason, points, chosen_rates, own)


def _scan(scan: Sequence[float]) -> list[float]:
    rates = sorted({float(rate) for rate in scan})
    if len(rates) < 2:
        raise ValueError(f"scan must hold at least two different rates, got {list(scan)}")
    return rates


def _problem(
    module: nn.Module,
    train: object,
    validation: object,
    loss: str | Loss | LossFunction | None,
    fit: Fit | FitFunction,
    sites: Sequence[str] | None,
) -> tuple[Problem, list[Place], dict[str, str]]:
    device = next((value.device for value in (*module.parameters(), *module.buffers())), torch.device("cpu"))
    if not any(value.requires_grad for value in module.parameters()):
        raise ValueError("module has no weights to train; set requires_grad where they are to be trained")
    examples, held = Examples.of(train, "train", device), Examples.of(validation, "validation", device)
    question = _ask(module, _few(examples), loss)
    examples, held = examples.asked(question, module), held.asked(question, module)
    if held.units < LEAST_EXAMPLES:
        raise ValueError(f"validation must hold at least {LEAST_EXAMPLES} examples, got {held.units}")
    places, skipped = read_places(module, _few(examples))
    if not places:
        raise ValueError("module has no dropout whose rate could be tuned; put nn.Dropout layers where it may drop")
    tuned, criterion = chosen(places, sites), question.loss
    _check_loss(module, criterion, _few(examples), "train")
    _check_loss(module, criterion, _few(held), "validation")
    before = {place.name: place.rate for place in places}
    skipped |= {place.name: "not among `sites`" for place in places if place not in tuned}
    probe = examples.some(held.count, 0)
    return Problem(module, examples, probe, held, criterion, fit, before, train), tuned, skipped


def _ask(module: nn.Module, batch: Batch, loss: object) -> Question:
    try:
        return ask(module, batch, loss)
    except ValueError as problem:
        about_data = str(problem).startswith("the forward pass")
        raise ValueError(f"train: {problem}" if about_data else str(problem)) from problem


def _few(examples: Examples) -> Batch:
    return take(examples.parts[0], slice(0, FEW)) if examples.joined else examples.parts[0]


def _check_loss(module: nn.Module, loss: LossFunction, batch: Batch, name: str) -> None:
    """What does not fit fails before anything is trained."""
    set_training(module, False)
    with torch.no_grad():
        try:
            outputs, _ = watched(module, lambda: run(module, batch), all_off)
            mean_loss(loss, outputs, batch.targets)
            example_losses(loss, outputs, batch)
        except (RuntimeError, TypeError, IndexError, AttributeError, ValueError) as problem:
            raise ValueError(f"{name}: module or loss fail on it: {problem}") from problem


def _constant(problem: Problem) -> Tensor | None:
    """Validation losses of the constant output that is best on them, in hindsight; None where it cannot be found.

    A constant that is fitted to few training targets has an error of its own, which a network can beat by saying less.
    """
    if not (problem.train.joined and problem.validation.joined) or isinstance(problem.loss, OwnLoss):
        return None
    batch = _few(problem.train)
    set_training(problem.module, False)
    try:
        with torch.no_grad():
            shape = watched(problem.module, lambda: run(problem.module, batch), all_off)[0].shape[1:]
        targets = problem.validation.some(MOST_TARGETS, 0).parts[0].targets
        with torch.enable_grad():
            value = torch.zeros(shape, dtype=torch.float64, device=targets.device, requires_grad=True)
            search = torch.optim.LBFGS([value], max_iter=100, line_search_fn="strong_wolfe")

            def close() -> Tensor:
                search.zero_grad()
                mean = mean_loss(problem.loss, value.expand(len(targets), *shape), targets)
                mean.backward()
                return mean

            search.step(close)
        held = problem.validation.parts[0]
        with torch.no_grad():
            losses = example_losses(problem.loss, value.detach().expand(held.count, *shape), held).cpu()
    except (RuntimeError, TypeError, IndexError, AttributeError, ValueError):
        return None
    return losses if bool(losses.isfinite().all()) else None


def _points(stage: str, settings: Sequence[Setting], trained: Sequence[Trained], best: int) -> list[Point]:
    losses = [item.losses for item in trained]
    same = alike(losses, best)
    found = []
    for setting, item, close in zip(settings, trained, same, strict=True):
        difference = compare(item.losses, losses[best])
        alive = math.isfinite(float(item.losses.mean()))
        training = sum(item.training) / len(item.training)
        found.append(
            Point(
                stage,
                dict(setting),
                float(item.losses.mean()) if alive else None,
                standard_error(item.losses) if alive else None,
                difference.value if alive else None,
                difference.error if alive else None,
                close and alive,
                training if math.isfinite(training) else None,
                item.steps,
                len(item.steps),
            )
        )
    return found


def _gap(trained: Sequence[Trained], best: int) -> Gap | None:
    lowest = trained[0]
    held, own = float(lowest.losses.mean()), sum(lowest.training) / len(lowest.training)
    if not (math.isfinite(held) and math.isfinite(own)):
        return None
    gap = held - own
    if gap <= ERRORS * standard_error(lowest.losses):
        return Gap(own, held, None, None)
    taken = compare(lowest.losses, trained[best].losses)
    return Gap(own, held, taken.value / gap, taken.error / gap)


def _no_split(verdict: str, rate: float, groups: set[str]) -> str:
    """Why no rate per site is looked for; empty where it is."""
    if len(groups) < 2:
        return "there is one site, or one group of them"
    if verdict == "flat":
        return "nothing is gained by dropout here, so that there is nothing to divide"
    return "the tied answer is no dropout" if rate == 0 else ""


def _curvature(rates: Sequence[float], losses: Sequence[Tensor], best: int) -> float:
    """Second derivative of the loss in the log-odds of the tied rate, by the parabola through the best and beside it.

    0 where it is not positive or a neighbor is missing, has no log-odds or diverged.
    """
    if not 0 < best < len(rates) - 1 or rates[best - 1] == 0:
        return 0.0
    x = [math.log(rate / (1 - rate)) for rate in rates[best - 1 : best + 2]]
    y = [float(item.mean()) for item in losses[best - 1 : best + 2]]
    left, right = (y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1])
    bend = 2 * (right - left) / (x[2] - x[0])
    return bend if math.isfinite(bend) and bend > 0 else 0.0


def _moved(rate: float, shift: float) -> float:
    """The rate whose log-odds are larger by `shift`."""
    odds = rate / (1 - rate) * math.exp(shift)
    return odds / (1 + odds)


def _divide(
    runner: Runner,
    group: dict[str, str],
    rate: float,
    center: Tensor,
    seeds: Sequence[int],
    fresh: Sequence[int],
) -> tuple[Split, dict[str, float], dict[str, Effect], list[Point]]:
    """A rate per group: effects from a two-level design, a step for the clear ones, a comparison with the tied rate.

    `center` has the losses at the tied rate, on the same seeds. The mean loss of the design lies above theirs by half
    the squared level times the sum of the groups' own second derivatives: in a balanced design products cancel.
    """
    groups = list(dict.fromkeys(group.values()))
    signs = two_level(len(groups))
    levels = [dict(zip(groups, (_moved(rate, LEVEL * sign) for sign in row), strict=True)) for row in signs.tolist()]
    settings = [{name: level[own] for name, own in group.items()} for level in levels]
    trained = runner.run(settings, seeds, "design")
    tied = dict.fromkeys(group, rate)
    means = torch.stack([item.losses.mean(0) for item in trained])
    lowest = min(range(len(settings)), key=lambda i: float(trained[i].losses.mean()))
    points = _points("design", settings, trained, lowest)
    if not bool(means.isfinite().all()):
        return Split(False, "copies of the design diverged"), tied, {}, points
    found = [Effect(effect.value / LEVEL, effect.error / LEVEL) for effect in effects(signs, means)]
    by_group = dict(zip(groups, found, strict=True))
    effect = {name: by_group[own] for name, own in group.items()}
    bend = max(2 * float(means.mean() - center.mean()) / LEVEL**2, 0.0)
    own_rates = _shifted(by_group, group, rate, bend)
    if own_rates == tied:
        return Split(False, NOTHING_MOVES), tied, effect, points
    pair = runner.run([tied, own_rates], fresh, "guard")
    kept, answer, more = _guarded(tied, own_rates, pair, f"the loss on {len(fresh)} fresh seeds is lower by")
    return kept, answer, effect, points + more


def _shifted(by_group: Mapping[str, Effect], group: Mapping[str, str], rate: float, bend: float) -> dict[str, float]:
    """The rates after a step of every group whose effect is beyond two standard errors."""
    shifts = {
        own: _shift(one, bend / len(by_group)) if abs(one.value) > ERRORS * one.error else 0.0
        for own, one in by_group.items()
    }
    return {name: _moved(rate, shifts[own]) if shifts[own] else rate for name, own in group.items()}


def _guarded(
    tied: dict[str, float], own_rates: dict[str, float], pair: Sequence[Trained], text: str
) -> tuple[Split, dict[str, float], list[Point]]:
    """The split where it beats the tied rate by one standard error, else the tied rate."""
    gain = compare(pair[0].losses, pair[1].losses)
    points = _points("guard", [tied, own_rates], pair, 1 if gain.value > 0 else 0)
    kept = gain.value > gain.error
    reason = f"{text} {gain.value:.3g} ± {gain.error:.2g}"
    return Split(kept, reason, gain.value, gain.error), own_rates if kept else tied, points


def _shift(effect: Effect, bend: float) -> float:
    """A Newton step in log-odds, within the levels of the design; all the way where the curvature is unknown."""
    step = effect.value / bend if bend > 0 else math.copysign(math.inf, effect.value)
    return -max(-LEVEL, min(LEVEL, step))
