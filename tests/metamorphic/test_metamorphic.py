"""Every exact answer against every change: it does not notice, follows as it should, or says that it does not know."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

import droptics
from droptics.errors import CertificateError, NoClosedForm
from droptics.estimates import Estimate
from metamorphic.answers import ANSWERS, EXEMPT
from metamorphic.changes import CHANGES, Change, Changed, feature_units
from metamorphic.parts import PARTS, Answer, Part
from metamorphic.problems import Named, Problem, problems

PROBLEMS = problems()
# rooms whose own names are public beside those of the package
ROOMS = (
    *("attacks", "bounds", "coadaptation", "envelopes", "equalization", "heads", "landscapes", "layers", "linalg"),
    *("masks", "norms", "optima", "penalties", "predictions", "spectra", "training"),
)
# ten seconds each
LONG = ("optimum", "certify", "landscapes.inspect")
# Roundings on the way to one number: a few in each of the sums over an axis.
ROUNDINGS = 8


def asked(answer: Answer, problem: Problem) -> list[object]:
    got = answer.ask(problem)
    return list(got) if isinstance(got, tuple) else [got]


@cache
def original(answer: Answer, label: str) -> list[object] | None:
    """The answer to the problem as it is; None where there is no closed form."""
    problem = PROBLEMS[label]
    if answer.families and problem.family not in answer.families:
        return None
    try:
        return asked(answer, problem)
    except NoClosedForm:
        return None


def number(value: object, member: bool = False) -> tuple[Tensor, float]:
    """The numbers of a part and the error that it states for itself."""
    error = 0.0
    if isinstance(value, Estimate):
        error = float(torch.as_tensor(getattr(value, "error", 0.0)).max())
        value = value.value
    tensor = torch.as_tensor(value).detach().cpu()
    return (tensor[0] if member else tensor).double(), error


def judge(answer: Answer, label: str, change: Change) -> list[str]:
    """What is wrong, in words."""
    before = original(answer, label)
    changed = None if before is None or not answer.expected_of(change.name) else change.apply(PROBLEMS[label])
    if before is None or changed is None:
        return []
    try:
        after = asked(answer, changed.problem)
    except (NoClosedForm, CertificateError) as error:
        return [] if change.dtype == torch.float32 else [f"refused: {error}"]
    parts = answer.named_parts(len(before))
    if len(before) == len(after) == 1 < len(parts):  # not certified: the bound speaks
        parts = [PARTS["bound"]]
    if len(before) != len(after) or len(before) != len(parts):
        return [] if min(len(before), len(after)) == 1 and change.dtype == torch.float32 else ["certified only once"]
    found = []
    for part, old, new in zip(parts, before, after, strict=True):
        if part.exact:
            found += [] if old == new else [f"{part.name}: {old} became {new}"]
            continue
        value, stated = number(old)
        wanted = changed.expected(Named(value, part.axes), part.degree)
        got, own = number(new, changed.member)
        scale = changed.factor ** (1 if "outputs" in part.axes else part.degree)
        level = scale * (stated + torch.finfo(change.dtype).eps * sensitivity(answer.whitened, part, label)) + own
        if got.shape != wanted.shape:
            found.append(f"{part.name}: shape {tuple(wanted.shape)} became {tuple(got.shape)}")
        elif not bool(((got - wanted).abs() <= level).all() | (got == wanted).all()):
            worst = int((got - wanted).abs().nan_to_num(torch.inf).argmax())
            numbers = f"{wanted.flatten()[worst]:.9g} became {got.flatten()[worst]:.9g}"
            found.append(f"{part.name}: {numbers}, allowed {level:.2g}")
    return found


@cache
def sensitivity(whitened: bool, part: Part, label: str) -> float:
    """By how many units of rounding a part may move: roundings times the size of what is added, times the condition."""
    problem = PROBLEMS[label]
    count = ROUNDINGS * sum(problem.inputs.tensor.shape)
    return count * part.amplitude(problem) * (problem.condition if whitened else 1.0)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(index, id=answer.name, marks=[pytest.mark.slow] if answer.name in LONG else [])
        for index, answer in enumerate(ANSWERS)
    ],
)
def test_answers_follow(answer: int, change: Change) -> None:
    asking = ANSWERS[answer]
    wrong = {label: found for label in PROBLEMS if (found := judge(asking, label, change))}
    assert not wrong, "\n".join(f"{label}: {'; '.join(found)}" for label, found in wrong.items())


@pytest.mark.parametrize("answer", range(len(ANSWERS)), ids=[answer.name for answer in ANSWERS])
def test_every_answer_is_asked(answer: int) -> None:
    assert any(original(ANSWERS[answer], label) is not None for label in PROBLEMS)


def public_functions() -> set[str]:
    """Every function that a user can call by a public name, and the estimators."""
    rooms = {"": droptics, **{name: importlib.import_module(f"droptics.{name}") for name in ROOMS}}
    found = set()
    for room, module in rooms.items():
        listed = [name for name in vars(module) if not name.startswith("_")]
        for name in droptics._SPELLINGS if module is droptics else getattr(module, "__all__", listed):
            value = getattr(module, name)
            if not getattr(value, "__module__", "").startswith(f"droptics.{room}"):
                continue
            estimator = inspect.isclass(value) and hasattr(value, "fit")
            if (callable(value) and not inspect.isclass(value)) or (estimator and "Ridge" in name):
                found.add(name if not room or getattr(droptics, name, None) is value else f"{room}.{name}")
    return found


def test_every_public_function_is_in_a_line_or_says_why_not():
    lines = {answer.name for answer in ANSWERS}
    assert public_functions() - lines - set(EXEMPT) == set(), "add a line to metamorphic.answers, or a reason"
    assert set(EXEMPT) - public_functions() == set(), "exempt, but not public"
    assert not lines & set(EXEMPT)


@pytest.mark.parametrize("room", ROOMS)
def test_a_new_function_of_any_room_is_missed(room: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fresh() -> None: ...

    module = importlib.import_module(f"droptics.{room}")
    fresh.__module__ = f"droptics.{room}.anywhere"
    monkeypatch.setattr(module, "fresh", fresh, raising=False)
    if hasattr(module, "__all__"):
        monkeypatch.setattr(module, "__all__", [*module.__all__, "fresh"])
    assert f"{room}.fresh" in public_functions() - set(EXEMPT)


def test_the_comparison_can_fail():
    """A change of units that forgets the weights is noticed."""

    def forgetful(problem: Problem) -> Changed | None:
        changed = feature_units(1, 3)(problem)
        return changed and replace(changed, problem=replace(changed.problem, weights=problem.weights))

    penalty = ANSWERS[0]
    assert judge(penalty, "two-layer", Change("half", feature_units(1, 3))) == []
    assert judge(penalty, "two-layer", Change("half", forgetful)) != []
