"""What is asked of a module: its data, loss and sites, read and tried before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from droptics.audits.asking import Question, ask
from droptics.audits.batches import Batch, run
from droptics.audits.criteria import LossFunction, OwnLoss, mean_loss
from droptics.losses import Loss
from droptics.models.modes import set_training
from droptics.models.watching import all_off, watched
from droptics.rates.copies import Problem
from droptics.rates.examples import Examples, example_losses, take
from droptics.rates.fits import Fit, FitFunction
from droptics.rates.places import Place, chosen, read_places

LEAST_EXAMPLES = 8
FEW = 4  # examples on which sites are read
MOST_TARGETS = 4096  # of which the best constant output is found


def read_problem(
    module: nn.Module,
    train: object,
    validation: object,
    loss: str | Loss | LossFunction | None,
    fit: Fit | FitFunction,
    sites: Sequence[str] | None,
) -> tuple[Problem, list[Place], dict[str, str]]:
    """What all copies share, the sites to tune, and those that are not, with the reason."""
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


def constant_losses(problem: Problem) -> Tensor | None:
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
