"""tune_rates: which rate, at each site of a module, by copies that share their randomness."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from sklearn.base import BaseEstimator
from torch import nn

from droptics.arguments import Count, DropRate, Seed, check_arguments
from droptics.audits.criteria import LossFunction
from droptics.evidence.engines import Engine
from droptics.evidence.engines import engine as engine_named
from droptics.files.writing import check_folder
from droptics.losses import Loss
from droptics.models.modes import undisturbed
from droptics.predictions.running import eager
from droptics.rates.answers import answer_of
from droptics.rates.chains import chain_scan
from droptics.rates.designs import MOST_SITES
from droptics.rates.estimators import estimator_scan, with_one_rate
from droptics.rates.exact import head_scan
from droptics.rates.fits import Fit, FitFunction
from droptics.rates.keeping import unwritten
from droptics.rates.places import Place, grouped
from droptics.rates.problems import constant_losses, read_problem
from droptics.rates.randomness import key
from droptics.rates.result import Rates
from droptics.rates.running import PopulationChoice, Runner
from droptics.rates.tails import tail_scan
from droptics.recommenders.estimator import Estimator

SCAN = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7)  # the usual defaults are among them


def tune_rates(  # parameters: keywords with defaults, each of which an answer can do without
    module: nn.Module | BaseEstimator | Estimator,
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
    guard: Count = 4,
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
    3, 7 or 11 sites) show the effect of each site. Sites beyond two standard errors move in proportion to it: four more
    copies down this path, from half a level to four levels, tell how far. The surest of them, or the best copy of the
    design where it gains one standard error and is surer, is compared with the tied rate on fresh seeds and on the half
    of the validation examples that had no part in the choice. It is kept only if it is better by Student's test of size
    0.05 (examples and seeds counted, degrees of freedom after Satterthwaite): a split that is no better is kept in at
    most about 5 of 100 cases.

    The module, its modes, buffers, gradients and all random states are as before, also after an exception. Losses that
    are not finite stand as nan or inf, and an error whose square is not as inf.

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
            one site, a chain of linear layers with sites between them, or an affine tail: as if trained to the end),
            else `Fit()`. A `Fit` has the options of our loop. Or a function (module, train, seed) that trains a copy in
            place, or returns the trained module: for Lightning, transformers or a loop of your own.
        scan: Tied rates to try; with 0 among them the answer says what dropout is worth at all.
        split: None for one rate, "factorial" for a rate per site where that pays.
        sites: Names or patterns (as in file names) of the sites to tune; all by default, others keep their rate.
        groups: Patterns; the sites that fit one share a rate in the split.
        repeats: Seeds of batches and masks; with two or more, errors count how much the seed matters.
        guard: Fresh seeds on which a split is compared with the tied rate, at least 2: one says nothing of the others.
        population: "auto" trains copies together where torch.func.vmap gives the very bits that each gives alone,
            "together" also where it rounds otherwise, "apart" never.
        engine: "local", "processes", "processes:N", "dask://host:port" or an engine: the numbers are the same.
        store: Folder for finished copies and unfinished populations; a killed run resumes from it.
        seed: Of batches and masks.
        progress: Show a bar with the time left; by default only on a terminal.

    Cost: len(scan) * repeats trainings; a split adds 8, 12 or 16 times `repeats`, and twice `guard`.
    """
    check_arguments(tune_rates, locals())
    begin, rates = time.perf_counter(), _scan(scan)
    if guard < 2:
        raise ValueError(f"guard must be at least 2, got {guard}: one fresh seed says nothing of what another changes")
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
        return answer_of([place], rates, trained, None, method).finished(begin)
    where = engine_named(engine) if isinstance(engine, str) else engine
    folder = None if store is None else check_folder(store, "store")
    with undisturbed(module, seed), eager(module), unwritten(module):
        held = train if validation is None else validation
        problem, places, skipped = read_problem(module, train, held, loss, fit or Fit(), sites)
        constant = constant_losses(problem)
        head = None if fit is not None else head_scan(problem, validation is not None)
        reached = fit is None and head is None and validation is not None
        exact = (chain_scan(problem) or tail_scan(problem)) if reached else None
    if head is not None:
        return answer_of(places, rates, head.scan(rates), constant, head.method).finished(begin)
    if validation is None:
        raise ValueError("validation must be data: only a linear head, trained alone, is compared without")
    group = grouped(places, groups)
    if exact is not None:
        trained = exact.trained([dict.fromkeys(group, rate) for rate in rates])
        answer = answer_of(places, rates, trained, constant, exact.method)
        answer.skipped = skipped
        answer.divide_exactly(exact, group, split is not None)
        return answer.finished(begin)
    if split is not None and len(set(group.values())) > MOST_SITES:
        raise ValueError(
            f"groups: a split holds at most {MOST_SITES} rates, these sites would have {len(set(group.values()))}; "
            "put sites that are alike into groups by patterns"
        )
    runner = Runner(problem, population, where, folder, progress)
    seeds = [key(seed, "scan", i) for i in range(repeats)]
    trained = runner.run([dict.fromkeys(group, rate) for rate in rates], seeds, "scan")
    answer = answer_of(places, rates, trained, constant, "scan")
    answer.skipped = skipped
    if split is not None:
        fresh = [key(seed, "guard", i) for i in range(guard)]
        answer.divide(runner, group, seeds, fresh)
    return answer.finished(begin, runner)


def _scan(scan: Sequence[float]) -> list[float]:
    rates = sorted({float(rate) for rate in scan})
    if len(rates) < 2:
        raise ValueError(f"scan must hold at least two different rates, got {list(scan)}")
    return rates
