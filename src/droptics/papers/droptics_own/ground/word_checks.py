"""What a claim on the ground floor compares: words of refusals, answers that are no numbers, bars and pictures."""

from __future__ import annotations

import base64
import contextlib
import contextvars
import io
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

from droptics import plots
from droptics.annotations import described
from droptics.answers import checked, checked_rules
from droptics.arguments import (
    Count,
    Ids,
    Positive,
    Vector,
    check_arguments,
    check_fields,
    check_parameters,
    checked_fields,
    renamed,
)
from droptics.checks import as_float_tensor, check_finite, check_size, check_squares, is_finite
from droptics.data import Entries, Sample
from droptics.estimates import Estimate
from droptics.evidence.claims import Comparison, compare
from droptics.models import Model, TwoLayerLinear
from droptics.norms import k_support, path_norm
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor
from droptics.progress import clocked, shown, tracked

Odd = Any  # what is passed on purpose is not what the signatures say
Free = TypeVar("Free")
Bound = TypeVar("Bound", bound=int)


def said(call: Callable[[], object], kind: type[Exception] = ValueError) -> str:
    """The words of the error that a call ends in; empty where it ends well."""
    try:
        call()
    except kind as problem:
        return str(problem)
    return ""


def floor_in_words(scale: float) -> list[Comparison]:
    """Refusals word by word, answers that are judged, old keywords, bars and pictures."""
    return by_parts((_refusals, _numbers, _answers, _old_names, _outside, _drawn), scale)


def _refusals(scale: float) -> list[Comparison]:
    """An error says which argument, what it must be, what came, and what to do."""

    def takes(
        count: Count = 1,
        level: Positive = 1.0,
        ids: Ids = np.zeros(1),  # noqa: B008
        several: Sequence[int] = (),
        model: Model | None = None,
        row: Vector = torch.zeros(1),  # noqa: B008
        *rest: int,
        **more: Any,
    ) -> None:
        check_arguments(takes, locals())

    count, level = "a positive whole number (at most 2^31 - 1)", "a finite number > 0"
    row = "a vector of at least one floating-point number"
    options: Sequence[tuple[dict[str, Odd], str]] = (
        ({"count": 0}, f"count must be {count}, got 0"),
        ({"count": "x" * 90}, f"count must be {count}, got '{'x' * 75}..."),
        ({"count": np.zeros((2, 3), np.int16)}, f"count must be {count}, got ndarray of shape (2, 3) (int16)"),
        ({"count": torch.zeros(2)}, f"count must be {count}, got Tensor of shape (2,) (torch.float32)"),
        ({"count": nn.ReLU()}, f"count must be {count}, got ReLU"),
        ({"level": 2**70}, f"level must be {level}, got {2**70}; write it as a float"),
        ({"level": None}, f"level must be {level}, got None"),
        ({"ids": 3}, "ids must be an array of ids, one per rating, got int"),
        ({"ids": [[1], [2, 3]]}, "ids must be an array of ids, one per rating, got list"),
        ({"several": [1, 2.5]}, "several[1] must be a whole number, got 2.5"),
        ({"several": 3}, "several must be a sequence, each a whole number, got 3"),
        (
            {"model": nn.ReLU()},
            "model must be a droptics Model or None, got ReLU; wrap a torch module with LastLayer.of(module)",
        ),
        ({"row": torch.zeros(0)}, f"row must be {row}, got Tensor of shape (0,) (torch.float32)"),
        (
            {"row": torch.tensor([0.0, math.nan, math.inf])},
            "row must be finite, got 2 NaN or infinite entries, the first at index (1,); remove or impute them",
        ),
    )
    found = [same(said(partial(takes, **given)), text, text, scale) for given, text in options]
    found.append(same(said(takes), "", "what fits passes", scale))
    odd: Odd = "x"
    starred = said(lambda: takes(1, 1.0, np.zeros(1), (), None, torch.zeros(1), 3, odd))
    found.append(same(starred, "rest[1] must be a whole number, got 'x'", "what a star collects", scale))

    @dataclass
    class Fields:
        size: Count = 1
        rate: Positive = 1.0

        def __post_init__(self) -> None:
            check_fields(self, "rate")

    @dataclass
    @checked_fields
    class All:
        size: Count = 1

    class Estimator:
        def __init__(self, size: Count = 1) -> None:
            self.size = size

    found.append(same(said(lambda: Fields(size=0)), "", "fields that are not named", scale))
    found.append(same(said(lambda: Fields(rate=0.0)), f"rate must be {level}, got 0.0", "a named field", scale))
    found.append(same(said(lambda: All(0)), f"size must be {count}, got 0", "all fields", scale))
    bare: Odd = torch.tensor(3)
    text = f"size must be {count}, got a Tensor; pass its .item()"
    found.append(same(said(lambda: check_parameters(Estimator(bare))), text, "a parameter", scale))
    found.append(same(said(lambda: check_parameters(Estimator(0))), f"size must be {count}, got 0", "sizes", scale))
    found.append(same(said(lambda: check_parameters(Estimator(2))), "", "a parameter that fits", scale))
    hints: Sequence[tuple[Odd, str | None]] = (
        (np.ndarray[Any, np.dtype[Any]], "an array"),
        (Any, None),
        (Free, None),
        (Bound, "a whole number"),
        ("unknown", None),
        (int | Any, None),
        (int | str | None, "a whole number or text or None"),
        (Callable[[], int], "a function"),
        (type[TwoLayerLinear], "a class of a droptics TwoLayerLinear"),
        (nn.Linear, "an nn.Linear"),
        (Estimator, "a droptics Estimator"),
        (io.StringIO, "a StringIO"),
        (OSError, "an OSError"),
        (tuple[int, float], "2 values (a whole number, a number)"),
        (list[Any], "a sequence, each anything"),
        (dict[str, int], "a mapping"),
    )
    for hint, words in hints:
        check = described(hint)
        found.append(same(None if check is None else check.text, words, f"in words: {hint}", scale))
    iterator = described(Sequence[int])
    assert iterator is not None
    found.append(same(iterator.accepts(iter([1])), False, "an iterator is no sequence", scale))
    found.append(same(iterator.accepts(range(3)), True, "a range is one", scale))
    return found


def _numbers(scale: float) -> list[Comparison]:
    """Arrays, lists, indices and targets become tensors; what cannot is said."""
    found: list[Comparison] = []
    turned = np.arange(6.0).reshape(2, 3).T
    found.append(compare(as_float_tensor(turned, "x"), "==", scale * torch.from_numpy(turned.copy()), "an array"))
    found.append(compare(as_float_tensor([1.0, 2.0], "x", 1), "==", scale * tensor([1.0, 2.0]), "a list"))
    found.append(same(as_float_tensor(0.5, "x").dtype, torch.float64, "a number in double precision", scale))
    odd: Odd = [[1.0], [1.0, 2.0]]
    spread = torch.zeros(2).to_sparse()
    whole, box = torch.ones(2, dtype=torch.int32), torch.zeros(2, 2)
    texts: Sequence[tuple[Callable[[], object], str]] = (
        (lambda: as_float_tensor(odd, "x"), "x must be numbers of one shape, got a list that is not: "),
        (lambda: as_float_tensor("a", "x"), "x must be a tensor or array, got str"),
        (lambda: as_float_tensor(spread, "x"), "x must be a dense tensor that holds numbers, got torch.sparse_coo on"),
        (
            lambda: as_float_tensor(box.to("meta"), "x"),
            "x must be a dense tensor that holds numbers, got torch.strided",
        ),
        (lambda: as_float_tensor(whole, "x"), "x must be floating point, got torch.int32; convert it with .double()"),
        (lambda: as_float_tensor(box, "x", 1), "x must have 1 dimensions, got shape (2, 2)"),
        (lambda: as_float_tensor(box, "x", (0, 1)), "x must have 0 or 1 dimensions, got shape (2, 2)"),
        (lambda: check_size("x", 2, 3, "one per row"), "x has size 2, expected 3: one per row"),
        (lambda: check_squares(torch.full((2,), 2e19), "x"), "x must be so small that torch.float32 holds the sum of"),
        (lambda: k_support(torch.ones(()), 1), "values must be a vector, got a number"),
    )
    for call, words in texts:
        found.append(same(said(call)[: len(words)], words, words, scale))
    found.append(same(said(lambda: check_squares(torch.full((2,), 6e4).half(), "x")), "", "half precision", scale))
    found.append(same(said(lambda: check_squares(torch.full((2,), 1e19), "x")), "", "squares that fit", scale))
    large = torch.full((4,), torch.finfo(torch.float32).max)
    found.append(same(is_finite(large), True, "a sum that overflows of numbers that do not", scale))
    found.append(same(is_finite(tensor([1.0, math.nan])), False, "NaN", scale))
    found.append(same(said(lambda: check_finite(large, "x")), "", "finite", scale))

    def hidden(row: Tensor) -> Tensor:
        check_finite(row, "x")
        return row.sum()

    count = torch.func.vmap(hidden)(tensor([[1.0, 2.0], [3.0, 4.0]]))
    found.append(compare(count, "==", scale * tensor([3.0, 7.0]), "numbers that are hidden"))
    labels = cast(Tensor, np.array([2, 0, 1], np.int32))
    data = Sample(normal(1, 3, 2), labels)
    found.append(compare(data.targets, "==", scale * torch.tensor([2, 0, 1]), "labels as an array"))
    found.append(same(data.targets.dtype, torch.int64, "labels are whole", scale))
    single = Sample(normal(1, 3, 2), normal(2, 3))
    found.append(same(tuple(single.targets.shape), (3, 1), "one target an example", scale))
    rows: Any = np.array([0, 2], np.int16)
    cells = Entries(rows, torch.tensor([1, 1], dtype=torch.uint8), tensor([1.0, 2.0]), (3, 2))
    found.append(compare(cells.rows, "==", scale * torch.tensor([0, 2]), "rows as an array"))
    cells = Entries(rows[::-1], cells.columns, cells.values, (3, 2))
    found.append(compare(cells.rows, "==", scale * torch.tensor([2, 0]), "rows as an array read backwards"))
    model = TwoLayerLinear(normal(3, 2, 4), normal(4, 3, 4))
    paths = sum(float(model.U[o, k] * model.V[i, k]) ** 2 for o in range(2) for k in range(4) for i in range(3))
    for weights in (model, [model.V.mT, model.U]):
        told = path_norm(cast(Any, weights))
        found.append(compare(told, "==", scale * paths**0.5, f"paths of a {type(weights).__name__}"))
    found.append(compare(1 + k_support(torch.zeros(2, 0).double(), 3), "==", scale * torch.ones(2), "an empty vector"))
    many = Estimate.exact(normal(5, 2, 3), "a method")
    found.append(same(repr(many), "Estimate(values of shape (2, 3), a method)", "several values in words", scale))
    return found


def _answers(scale: float) -> list[Comparison]:
    """Answers that are not finite name the largest argument; what an argument is too large for is said."""
    calls: list[str] = []

    def product(left: Tensor, right: Tensor, many: list[Any] | None = None) -> Odd:
        calls.append("plain")
        return left * right

    def failing(left: Tensor, right: Tensor) -> Tensor:
        return torch.linalg.cholesky(left) + right

    @dataclass
    class Judged:
        kept: Odd
        other: Odd
        judged = "kept"

    @dataclass
    class Pair:
        first: Odd
        second: Odd

    found: list[Comparison] = []
    times, fails = checked(product), checked(failing)
    big, small = torch.tensor([2.0**100, 1.0]), torch.tensor([2.0**90, -3.0])
    words = f"holds numbers up to {2.0**100:.3g}, too large for this answer: it is made of their products, and "
    words += f"torch.float32 ends at {torch.finfo(torch.float32).max:.3g}; use other units"
    for left, right, name in ((big, small, "left"), (small, big, "right")):
        found.append(same(said(partial(times, left, right)), f"{name} {words}", f"{name} is named", scale))
    found.append(same(said(lambda: times(small, right=big)), f"right {words}", "by keyword", scale))
    odd: Odd = 3
    text = "right must be a Tensor, got int"
    found.append(same(said(lambda: times(small, odd)), text, "checked where it enters", scale))
    found.append(same(said(lambda: times(small, right=odd)), text, "checked by keyword", scale))
    one, nan = torch.eye(2), torch.full((2, 2), math.nan)
    found.append(same(said(lambda: fails(-one, one), RuntimeError) != "", True, "a failure stays", scale))
    told = said(lambda: fails(-(2.0**30) * one, one))
    found.append(same(told.split(" holds")[0], "left", "a failure of large numbers names them", scale))
    for answer, wanted in (
        (nan, False),
        ([one, nan], False),
        ((one, math.inf), True),
        (math.inf, False),
        (1.5, True),
        (Judged(one, nan), True),
        (Judged(nan, one), False),
        (Pair(one, "text"), True),
        (Pair(nan, one), False),
        (Pair(one, [1.5, nan]), False),
        ("text", True),
    ):
        module = nn.Linear(1, 1)
        with torch.no_grad():
            module.weight.fill_(2.0**21)
        both = checked(lambda given, layer, answer=answer: answer)
        told = said(partial(both, None, module))
        found.append(same(told == "", wanted, f"judged: {type(answer).__name__}, {wanted}", scale))
        found.append(same(told.startswith("layer holds numbers up to 2.1e+06"), not wanted, "of a module", scale))
        alone = checked(lambda given, answer=answer: answer)
        found.append(same(alone(None) is answer, True, "where no argument is large it passes", scale))

    scaled = checked(lambda given, factor: given * factor)
    found.append(same(is_finite(scaled(one, 1e39)), False, "a factor that is no tensor is not named", scale))

    broken = nn.Linear(2, 1)
    with torch.no_grad():
        broken.weight[0, 1] = math.nan
    text = "layer must be finite, got 1 NaN or infinite entries, the first at index (0, 1); remove or impute them"
    answering: Odd = lambda left, layer: nan  # noqa: E731 - of no type
    both = checked(answering)
    for given in (broken, Judged(one, broken.weight)):
        lost = said(partial(both, 2.0**30 * one, given))
        found.append(same(lost, text, f"NaN in a {type(given).__name__}", scale))
    told = said(partial(both, one, Pair((2.0**30 * one,), 0)))
    found.append(same(told.split(" holds")[0], "layer", "large numbers in a tuple of a dataclass", scale))

    @checked_rules
    def rule(value: object, factor: Positive = 2.0) -> float:
        return -1.0

    @rule.register
    def _(value: int, factor: Positive = 2.0) -> float:
        return value * factor

    found.append(compare([rule(3), rule(3, 1.5), -rule("a")], "==", scale * tensor([6.0, 4.5, 1.0]), "rules by type"))
    found.append(same(said(lambda: rule(3, 0.0)), "factor must be a finite number > 0, got 0.0", "of rules", scale))
    found.append(same(rule.dispatch(int)(3), 6.0, "the rule of a type", scale))
    found.append(same(sorted(kind.__name__ for kind in rule.registry), ["int", "object"], "all rules", scale))
    return found


def _old_names(scale: float) -> list[Comparison]:
    """Old keywords answer for new ones, with a warning that says what to write."""

    @renamed(p="drop")
    def layer(drop: float = 0.5, size: int = 1) -> tuple[float, int]:
        return drop, size

    found = [same(layer(0.2, size=3), (0.2, 3), "new names", scale)]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        old: Odd = {"p": 0.3}
        found.append(same(layer(**old), (0.3, 1), "old names", scale))
    found.append(same([str(one.message) for one in heard], ["p is called drop now; write drop=0.3"], "words", scale))
    found.append(same(heard[0].category, DeprecationWarning, "the kind of warning", scale))
    told = said(lambda: layer(drop=0.1, **old), TypeError)
    found.append(same(told.split(".")[-1], "layer() got drop twice: p is its old name", "both names", scale))
    return found


class _Screen(io.StringIO):
    """What bars take for a terminal."""

    def isatty(self) -> bool:
        return True


def _outside(scale: float) -> list[Comparison]:
    """What bars do outside of a command, also where a command runs this."""
    return contextvars.Context().run(_bars, scale)


def _bars(scale: float) -> list[Comparison]:
    """Bars show within a command and on a terminal alone, and items pass through them as they are."""
    items = [[1, 2], [3]]
    found = [same(tracked(items, "parts", "part") is items, True, "silent outside of a command", scale)]
    screen = _Screen()
    with contextlib.redirect_stderr(screen):
        with clocked(30.0, "one call"):
            pass
        found.append(same(screen.getvalue(), "", "no clock outside of a command", scale))
        with shown():
            found.append(same(list(tracked(iter(items), "parts", "part", 3, len)), items, "items pass", scale))
            found.append(same(tracked(items[:1], "parts", "part") is not items, True, "a list of one", scale))
            alone = items[:1]
            found.append(same(tracked(alone, "parts", "part") is alone, True, "one alone has no bar", scale))
            found.append(same(tracked(items, "parts", "part") is items, False, "two have one", scale))
            with clocked(0.5, "one call"):
                pass
            found.append(same(screen.getvalue(), "", "nothing for what is over at once", scale))
            with clocked(30.4, "one call"):
                pass
            with mock.patch("tqdm.tqdm") as made:
                bar = made.return_value.__enter__.return_value
                for given, total in ((iter(items), 3), (items, None), (iter(items), None)):
                    found.append(same(list(tracked(given, "parts", "part", total, len)), items, "all items", scale))
            totals = [call.kwargs["total"] for call in made.call_args_list]
            found.append(same(totals, [3, 2, None], "totals of bars", scale))
            steps = [call.args for call in bar.update.call_args_list]
            found.append(same(steps, 3 * [(2,), (1,)], "steps of bars", scale))
        told = screen.getvalue()
        found.append(same("one call:   0%|" in told and "of about 30 s" in told, True, "a clock", scale))
        found.append(same(tracked(items, "parts", "part") is items, True, "silent again", scale))
    return found


def _drawn(scale: float) -> list[Comparison]:
    """Pictures hold the numbers, names and scales that they were given."""
    found: list[Comparison] = []
    x, up = [1.0, 2.0, 4.0], [3.0, 1.0, 2.0]
    first = plots.Panel("one", "a", "b", {"up": (x, up), "band": (x, x, up, [9.0] * 3)}, {"level": 0.5}, "y")
    kinds = {"dots": (x, x)} | dict.fromkeys("12345678", (x, up))  # one more than there are markers
    second = plots.Panel("two", "c", "d", {"up": (x, up)}, marks=kinds)
    third = plots.Panel("three", "c", "d", {"up": (x, up)})
    figure = plots.panels([first, second, third], columns=2)
    axes = figure.axes
    found.append(compare(figure.get_size_inches(), "==", scale * np.array([8.8, 6.6]), "size of panels"))
    found.append(same([one.get_visible() for one in axes], [True, True, True, False], "panels that stand empty", scale))
    found.append(same([one.get_title() for one in axes[:3]], ["one", "two", "three"], "titles", scale))
    found.append(same([one.get_xlabel() + one.get_ylabel() for one in axes[:2]], ["ab", "cd"], "axes", scale))
    found.append(same([one.get_yscale() for one in axes[:2]], ["log", "linear"], "scales", scale))
    found.append(same([one.get_xscale() for one in axes[:2]], ["linear", "linear"], "other scales", scale))
    for number, names in enumerate((["up", "band", "level"], ["up", *kinds], None)):
        legend = axes[number].get_legend()
        told = None if legend is None else [text.get_text() for text in legend.get_texts()]
        found.append(same(told, names, f"names of panel {number}", scale))
    for line, wanted in zip(axes[0].lines, (up, x, [0.5, 0.5]), strict=True):
        found.append(compare(np.asarray(line.get_ydata(), float), "==", scale * np.array(wanted), "a curve"))
    found.append(same([line.get_color() for line in axes[0].lines[:2]], list(plots.COLORS[:2]), "colors", scale))
    found.append(same(axes[0].lines[0].get_linestyle() != axes[0].lines[1].get_linestyle(), True, "dashes", scale))
    ends = axes[0].collections[0].get_paths()[0].get_extents().get_points()
    found.append(compare(ends, "==", scale * np.array([[1.0, 1.0], [4.0, 9.0]]), "a band"))
    found.append(same(axes[1].lines[1].get_marker(), "o", "points without a line", scale))
    spots = np.array(axes[1].lines[1].get_data(), float)
    found.append(compare(spots, "==", scale * np.array([x, x]), "where they are"))
    found.append(compare(np.array(axes[1].lines[9].get_data(), float), "==", scale * np.array([x, up]), "of the last"))
    found.append(same(said(lambda: plots.panels([])), "items must hold at least one panel, got none", "none", scale))
    return [*found, *_bars_and_contours(scale)]


def _bars_and_contours(scale: float) -> list[Comparison]:
    """The same of bars, of landscapes and of files."""
    found: list[Comparison] = []
    columns = plots.bars({"left": [1.0, 2.0], "right": [3.0, 4.0]}, ["p", "q"], ylabel="height", title="bars").axes[0]
    boxes: Odd = columns.patches
    told_bars = [(box.get_x() + box.get_width() / 2, box.get_height()) for box in boxes]
    wanted_bars = np.array([[-0.2, 1.0], [0.8, 2.0], [0.2, 3.0], [1.2, 4.0]])
    found.append(compare(1 + np.array(told_bars), "==", scale * (1 + wanted_bars), "bars"))
    found.append(compare([box.get_width() for box in boxes], "==", [scale * 0.4] * 4, "widths of bars"))
    found.append(same([box.get_hatch() or "" for box in boxes], ["", "", "///", "///"], "hatches", scale))
    found.append(same([text.get_text() for text in columns.get_xticklabels()], ["p", "q"], "labels of bars", scale))
    legend = columns.get_legend()
    assert legend is not None
    found.append(same([text.get_text() for text in legend.get_texts()], ["left", "right"], "names of bars", scale))
    alone = plots.bars({"left": [1.0]}, ["p"], ylabel="height").axes[0]
    found.append(same(alone.get_legend(), None, "one name needs no legend", scale))
    axis = [-1.0, 0.0, 1.0]
    heights = [[a * a + b * b for a in axis] for b in axis]
    points = {"global minimum": [(0.0, 0.0)], "odd": [(1.0, -1.0), (0.5, 0.5)]}
    ground = plots.landscape(axis, heights, points, [[(1.0, 0.9), (0.1, 0.2)]], title="ground").axes[0]
    found.append(
        same((ground.get_title(), ground.get_xlabel(), ground.get_ylabel()), ("ground", "$u_1$", "$u_2$"), "", scale)
    )
    path = ground.lines[0]
    found.append(compare(np.array(path.get_data()), "==", scale * np.array([[1.0, 0.1], [0.9, 0.2]]), "a training run"))
    contours, *spots = ground.collections
    levels = np.asarray(cast(Odd, contours).levels)
    found.append(compare(levels, "==", scale * 2 * (np.arange(1, 41) / 40) ** 3, "levels dense at the bottom"))
    offsets: Odd = [np.asarray(spot.get_offsets()) for spot in spots]
    wanted = np.concatenate([np.array(places) for places in points.values()])
    found.append(compare(2 + np.concatenate(offsets), "==", scale * (2 + wanted), "critical points"))
    found.append(
        same(plots.as_data_uri(b"abc"), "data:image/png;base64," + base64.b64encode(b"abc").decode(), "", scale)
    )
    png = plots.as_png(alone.figure, 50)  # type: ignore[arg-type]
    found.append(compare(np.frombuffer(png[16:24], ">i4"), "==", scale * np.array([300, 180]), "dots of a picture"))
    return found
