"""What claims compare on lines that few calls take: long sums, derivatives of roots, blocks of examples, ratings."""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.linalg import k_support_shrink, psd_inverse_root, psd_root
from droptics.linalg.scales import powers_of_two
from droptics.masks import Bernoulli, Product
from droptics.models import LastLayer, ReLUNet, TwoLayerLinear
from droptics.norms import k_support
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import moments, normal, sample, tensor, uniform
from droptics.penalties import ClosedForm, MonteCarlo, criterion, penalty
from droptics.penalties.relu.device import split_steps
from droptics.penalties.relu.effort import Place, descend
from droptics.penalties.relu.moments import MomentLeaf
from droptics.penalties.relu.outcomes import Coins, Stage
from droptics.penalties.second_order import second_derivatives
from droptics.predictions import Closure, predictive
from droptics.recommenders import DropoutAutoencoder, DropoutCompletion, DropoutCompletionCV, StackedCompletion
from droptics.recommenders.alternation import Sweep
from droptics.recommenders.device import _direct
from droptics.recommenders.progress import follow
from droptics.recommenders.ratings import DuplicateRatings, triple
from droptics.spectra.roots import Root
from droptics.training import Dropout, Recording, train
from droptics.training.descents import stacked
from droptics.training.threads import share_runs

Odd = Any  # what is passed on purpose is not what the signatures say


def rare_lines(scale: float) -> list[Comparison]:
    """Shrunk spectra, roots and long sums on their rare ways."""
    return by_parts((_algebra, _sums), scale)


def rare_fits(scale: float) -> list[Comparison]:
    """Predictions in blocks, trainings and ratings on their rare ways."""
    return by_parts((_predicted, _trained, _rated, _told), scale)


def _algebra(scale: float) -> list[Comparison]:
    """Shrunk spectra are least; roots have the derivative of their equation; powers and second derivatives."""
    found: list[Comparison] = []
    for seed, count, k, strength in (
        (1, 6, 2, 0.7),
        (2, 5, 5, 1.5),
        (3, 7, 1, 0.2),
        (4, 4, 3, 0.0),
        (5, 3, 9, 2.0),
        (6, 6, 3, 0.4),
    ):
        values = normal(seed, count) * (1 + 4 * (torch.arange(count) == 0))  # some exceed the others by far
        shrunk = k_support_shrink(values, strength, k)
        rate = torch.tensor(strength, dtype=torch.float64, requires_grad=True)
        found.append(compare(shrunk, "==", scale * k_support_shrink(values, rate, k).detach(), f"both ways, {k}"))

        def cost(x: Tensor, values: Tensor = values, strength: float = strength, k: int = k) -> Tensor:
            return (values - x).square().sum() + strength * k_support(x, k) ** 2

        least = cost(shrunk)
        near = torch.stack([cost(shrunk + 1e-3 * normal(seed + 10 * i, count)) for i in range(1, 13)])
        found.append(compare(near.amin(), ">=", scale * least, f"the least cost, {k}"))
        single = k_support_shrink(values.float(), strength, k)
        found.append(compare(single.double(), "==", scale * shrunk, f"single precision, {k}", precision=1e-6))
    found.append(same(tuple(k_support_shrink(torch.zeros(0), 0.5, 2).shape), (0,), "nothing to shrink", scale))
    base = normal(7, 4, 4)
    square, turn = base @ base.mT + torch.eye(4).double(), normal(8, 4, 4)
    for name, root, sign in (("root", psd_root, 1.0), ("inverse root", psd_inverse_root, -1.0)):
        free = square.clone().requires_grad_()
        (slope,) = torch.autograd.grad((root(free) * turn).sum(), free)
        values, vectors = torch.linalg.eigh(square)
        sizes = values.sqrt()
        apart = sizes[:, None] + sizes
        divided = 1 / apart if sign > 0 else -1 / (sizes[:, None] * sizes * apart)
        wanted = vectors @ (divided * (vectors.mT @ ((turn + turn.mT) / 2) @ vectors)) @ vectors.mT
        found.append(compare(slope, "==", scale * wanted, f"slope of the {name}"))
    numbers = tensor([0.0, 0.3, 1.0, 5.0, 1e-300])
    powers = torch.tensor([1.0, 0.5, 2.0, 8.0, 2.0 ** (math.floor(math.log2(1e-300)) + 1)], dtype=torch.float64)
    for name, told in (("alone", powers_of_two(numbers)), ("hidden", torch.func.vmap(powers_of_two)(numbers[None])[0])):
        found.append(compare((told / powers).log2() + 1, "==", scale, f"powers of two, {name}"))
    flat = base[:, :2] @ base[:, :2].mT
    for name, moment in (("full", square), ("flat", flat)):
        free = moment.clone().requires_grad_()
        root_of = Root.of_moment(free)
        found.append(compare((root_of.matrix @ root_of.matrix.mT).detach(), "==", scale * moment, f"{name} root"))
        mapped = (root_of.inverse.mT @ root_of.matrix).detach()
        unit = torch.eye(mapped.shape[0]).double()
        found.append(compare(1 + mapped, "==", scale * (1 + unit), f"its inverse, {name}", precision=1e-9))

    class Line(torch.autograd.Function):
        """Three times a number, backwards only and once."""

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return 3 * x

        @staticmethod
        def backward(ctx: Any, upstream: Tensor) -> Tensor:
            return 3 * upstream

    line: Callable[[Tensor], Tensor] = Line.apply
    curved = second_derivatives(lambda x: torch.stack([line(x).sum(), line(x).sum()]), normal(1, 3), normal(2, 4, 3), 2)
    found.append(same(tuple(curved.shape), (4, 2), "one for every direction and value", scale))
    found.append(compare(1 + curved, "==", scale * torch.ones(4, 2).double(), "a line is not curved"))
    none = second_derivatives(lambda x: x.square(), normal(1, 3), normal(2, 0, 3), 2)
    found.append(same(tuple(none.shape), (0, 3), "no directions", scale))
    return found


def _sums(scale: float) -> list[Comparison]:
    """Sums over 2^23 outcomes of units that are always on are moments of sums; laws may come in one piece."""
    found: list[Comparison] = []
    count, rates = 23, 0.1 + 0.7 * uniform(1, 23)
    weight, bias = 0.2 + uniform(2, 2, count), 0.3 + uniform(3, 2)
    last, offset = normal(4, 1, 2), normal(5, 1)
    x, y = 0.2 + uniform(6, 1, count), normal(7, 1, 1)
    net, data = ReLUNet([weight, last], [bias, offset]), Sample(x, y)
    top = tensor([0.2, 0.5])
    mean = weight @ x[0] + bias
    second = torch.outer(mean, mean) + (weight * (x[0] ** 2 * rates / (1 - rates))) @ weight.mT
    second = second * (1 + torch.diag(top / (1 - top)))
    center = float(offset[0] - y[0, 0])
    wanted = (last @ second @ last.mT + 2 * center * last @ mean[:, None]).squeeze() + center**2
    law = Bernoulli(torch.cat([rates, top]), count + 2)
    found.append(compare(criterion(net, data, law, ClosedForm()).value, "==", scale * wanted, "2^23 outcomes"))
    words = "the exact criterion would sum 8.39e+06 mask outcomes, about "
    found.append(refuses(lambda: criterion(net, data, law, ClosedForm(seconds=1e-12)), words, "too long"))
    small = ReLUNet([normal(8, 3, 4), normal(9, 2, 3)], [normal(10, 3), normal(11, 2)])
    cut, some = [uniform(12, 4), uniform(13, 3)], sample(3, 5, 4, 2)
    pieces = penalty(small, some, Product([Bernoulli(cut[0], 4), Bernoulli(cut[1], 3)]))
    whole = penalty(small, some, Bernoulli(torch.cat(cut), 7))
    found.append(compare(whole.value, "==", scale * pieces.value, "rates in one piece"))
    coins = Coins(np.ones(18, np.int64), np.full(18, 0.5))
    stage = Stage(coins, normal(1, 3, 18), normal(2, 3))
    for memory, length in ((1 << 40, 2**9), (1, 16)):  # half tables that fit, and the shortest ones
        outcomes, work = descend([stage], Place(True, memory), np.random.default_rng(0))
        found.append(compare(outcomes, "==", scale * 2.0**18, "outcomes of 18 coins"))
        steps = 2.0**18 / length**2 * 6 * split_steps(None) * 2 * length * math.log2(2 * length)
        found.append(compare(work, "==", scale * steps, f"their work, {length}"))
    values, chances = normal(5, 6, 2), uniform(6, 6)
    block = MomentLeaf().block_value(values, chances)
    hidden = values.clamp_min(0)
    wanted_block = [sum(chances[i] * hidden[i, a] for i in range(6)) for a in range(2)]
    wanted_block += [
        sum(chances[i] * hidden[i, a] * hidden[i, b] for i in range(6)) for a in range(2) for b in range(2)
    ]
    found.append(compare(block, "==", scale * torch.stack(wanted_block), "moments of a block"))  # type: ignore[arg-type]
    return found


def _predicted(scale: float) -> list[Comparison]:
    """Variances of examples in blocks are sums over units; an approximation says how far sampled masks put it."""
    found: list[Comparison] = []
    units, outputs, examples = 1500, 40, 90
    head = linear_head(1, units, outputs)
    inputs, rates = normal(2, examples, units), 0.1 + 0.6 * uniform(3, units)
    told = predictive(LastLayer.of(head), inputs, Bernoulli(rates, units))
    spread = (inputs**2 * rates / (1 - rates)) @ head.weight.detach().mT ** 2
    found.append(compare(told.variance.value, "==", scale * spread, "variances of examples in blocks"))
    found.append(compare(told.mean.value, "==", scale * head(inputs).detach(), "their means"))
    net = ReLUNet([normal(4, 5, 3), normal(5, 2, 5)], [normal(6, 5), normal(7, 2)])
    law, rows = Product([Bernoulli(0.2, 3), Bernoulli(0.3, 5)]), normal(8, 4, 3)
    checked = predictive(net, rows, law, Closure("full", MonteCarlo(300, seed=1, confidence=0.9)))
    plain = predictive(net, rows, law, Closure("full", None))
    drawn = predictive(net, rows, law, MonteCarlo(300, seed=1, confidence=0.9))
    for name in ("mean", "variance"):
        mine, bare, theirs = (getattr(one, name) for one in (checked, plain, drawn))
        found.append(compare(mine.value, "==", scale * bare.value, f"{name}, checked or not"))
        found.append(compare(mine.lower, "==", scale * theirs.lower, f"{name}, lower end of its check"))
        found.append(compare(mine.upper, "==", scale * theirs.upper, f"{name}, upper end of its check"))
        found.append(same((mine.cost, mine.confidence), (301, 0.9), f"{name}, its cost", scale))
        found.append(same((bare.cost, bare.confidence), (1, 0.0), f"{name}, unchecked", scale))
    off = float((drawn.variance.value / plain.variance.value).log().mean().exp())
    words = f"300 masks say that the variance is {off:.2f} times this"
    found.append(same(checked.variance.method.endswith(words), True, "how far off", scale))
    found.append(same(plain.mean.method.endswith("error not measured"), True, "nothing measured", scale))
    return found


def _trained(scale: float) -> list[Comparison]:
    """Threads share runs out without gaps; records are what functions say; bars tell the gap to the bound."""
    found: list[Comparison] = []
    before = torch.get_num_threads()
    done: list[tuple[int, int]] = []
    try:
        torch.set_num_threads(3)
        for runs, numbers in ((7, 2**15), (2, 2**15), (7, 10)):
            done.clear()
            share_runs(lambda start, stop: done.append((start, stop)), runs, numbers)
            shares = {(7, 2**15): [(0, 2), (2, 4), (4, 7)], (2, 2**15): [(0, 1), (1, 2)], (7, 10): [(0, 7)]}
            found.append(same(sorted(done), shares[runs, numbers], f"{runs} runs shared out", scale))
    finally:
        torch.set_num_threads(before)
    net, data = TwoLayerLinear(normal(1, 2, 4), normal(2, 3, 4)), moments(3, 2, 3)
    law = Bernoulli(0.3, 4)
    own = Recording({"size": lambda model: model.tensors[0].square().sum()}, at=(0, 2))
    run = train(net, data, Dropout(law), steps=4, step_size=0.01, record=own)
    found.append(same({"loss", "size", "step"} <= set(run.history), True, "quantities of one's own", scale))
    found.append(compare(run.history["size"][0], "==", scale * net.U.square().sum(), "the first record"))
    found.append(compare(run.history["size"][-1], "==", scale * run.model.tensors[0].square().sum(), "the last"))
    other = Recording(("penalty", "imbalance"), at=(0,), masks=Bernoulli(0.6, 4))
    told = train(net, data, Dropout(law), steps=2, step_size=0.01, record=other).history["penalty"][0]
    found.append(compare(told, "==", scale * penalty(net, data, Bernoulli(0.6, 4)).value, "masks of the records"))
    laws = (
        Product([Bernoulli(0.2, 2), Bernoulli(tensor([0.1, 0.2, 0.3]), 3)]),
        Product([Bernoulli(0.5, 2), Bernoulli(tensor([0.4, 0.6, 0.7]), 3)]),
    )
    side = stacked(laws, True)
    assert isinstance(side, Product)
    told_variance = torch.cat([part.relative_variance for part in side.laws], -1)
    wanted = torch.stack([torch.cat([part.relative_variance for part in one.laws]) for one in laws])
    found.append(compare(told_variance, "==", scale * wanted, "laws of runs side by side"))
    found.append(same(stacked((), True), None, "no law", scale))
    found.append(same(stacked(laws[:1], False), laws[0], "one law", scale))
    found.append(refuses(lambda: stacked(laws, False), "masks holds 2 laws but the model has no leading"))
    screen = _Screen()
    with contextlib.redirect_stderr(screen):
        train(net, data, Dropout(law), steps=3, step_size=0.01, progress=True)
    found.append(same("3/3" in screen.getvalue(), True, "a bar of steps", scale))
    return found


class _Screen(io.StringIO):
    """What bars take for a terminal."""

    def isatty(self) -> bool:
        return True


def _rated(scale: float) -> list[Comparison]:
    """Ratings that are added, read from tables, drawn along a path, solved where systems are singular."""
    found: list[Comparison] = []
    users, items = np.divmod(np.arange(48), 6)
    keep = (users * 5 + items * 3) % 4 > 0
    users, items = users[keep], items[keep]
    values = 1.0 + (users * 2 + items * items) % 5
    first = (users < 5) & (items != 2)  # known users rate again, and an item is new
    some, rest = ([part[which] for part in (users, items, values)] for which in (first, ~first))
    for rank in (None, 3):
        options: dict[str, Any] = {"drop": 0.3, "ridge": 0.5, "rank": rank, "dtype": "float64"}
        whole = DropoutAutoencoder(**options).fit((users, items, values))
        grown = DropoutAutoencoder(**options).partial_fit(tuple(some)).partial_fit(tuple(rest))
        told, wanted = (one.weights()[np.ix_(*[np.argsort(one.item_ids_)] * 2)] for one in (grown, whole))
        found.append(compare(told, "==", scale * wanted, f"ratings that come later, {rank}", precision=1e-7))
        if rank is None:
            table = np.zeros((8, 6))
            table[users, items] = 1.0
            gram = table.T @ table
            inverse = np.linalg.inv(gram + np.diag(0.3 / 0.7 * np.diag(gram) + 0.5))
            wanted = np.eye(6) - inverse / np.diag(inverse)
            found.append(compare(1 + told, "==", scale * (1 + wanted), "weights by their formula", precision=1e-7))
        found.append(same(grown.cut_ > 0, rank is not None, "cut off or not", scale))
    begun = DropoutCompletion(2, 0.3, sweeps=3, dtype="float64")
    found.append(same(begun.partial_fit((users, items, values)) is begun, True, "a first part is a fit", scale))
    plain = DropoutCompletion(2, 0.3, sweeps=3, dtype="float64").fit((users, items, values))
    pairs = (users[:9], items[:9])
    found.append(compare(begun.predict(*pairs), "==", scale * plain.predict(*pairs), "the same fit"))
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        begun.partial_fit(([9, 9, 9], [0, 0, 1], [1.0, 3.0, 5.0]))
        ranker = DropoutAutoencoder(0.3, 0.5).fit((users, items, np.ones(len(users))))
        ranker.evaluate(([0] * 3, [0, 2, 99], [1.0] * 3), ([0, 1, 1, 2], [1, 1, 2, 1], [1.0] * 4), at=(2,))
    kinds = [one.category for one in heard]
    found.append(same(DuplicateRatings in kinds, True, "repeated pairs are said", scale))
    texts = [str(one.message) for one in heard]
    for part in ("1 of 3", "3 of 4"):
        said = f"{part} interactions are with unknown users or items; left out"
        found.append(compare(texts.count(said), "==", scale, f"{part} unknown users and items are said"))

    return [*found, *_read(scale, (users, items, values))]


def _read(scale: float, table: tuple[Any, Any, Any]) -> list[Comparison]:
    """Tables as pandas has them, errors along a path, singular systems, recommendations of a blend."""
    found: list[Comparison] = []
    users, items, values = table

    class Frame:
        """A table as pandas has them."""

        def __init__(self, columns: list[Any]) -> None:
            self.columns, self.shape = list("abc")[: len(columns)], (len(columns[0]), len(columns))
            self._parts, self.iloc = columns, self

        def __getitem__(self, place: tuple[slice, int]) -> SimpleNamespace:
            return SimpleNamespace(to_numpy=lambda: self._parts[place[1]][place[0]])

    frame: Odd = Frame([users, items, values])
    for name, told_column, column in zip("uiv", triple(frame), (users, items, values), strict=True):
        found.append(compare(1.0 + told_column, "==", scale * (1.0 + column), f"a table, {name}"))
    narrow: Odd = Frame([users, items])
    odd: Odd = 3
    bad = (users[:2], items[:2], [1.0, math.nan])
    found.append(refuses(lambda: triple(narrow), "three columns (user, item, rating), got ['a', 'b']"))
    found.append(refuses(lambda: triple(odd), "three arrays or a path, got int"))
    found.append(refuses(lambda: triple(bad), "got 1 NaN or infinite values, the first at position 1"))
    path = DropoutCompletionCV((1, 2), [0.2, 0.5], holdout=0.3, estimator=DropoutCompletion(sweeps=2), seed=1)
    path.fit((users, items, values))
    axes = path.plot().axes[0]
    for line, (width, kind) in zip(
        axes.lines, ((1, "held out"), (1, "training"), (2, "held out"), (2, "training")), strict=True
    ):
        mine = [point for point in path.points_ if point.width == width]
        errors = [point.holdout_rmse if kind == "held out" else point.train_rmse for point in mine]
        found.append(same(line.get_label(), f"width {width}, {kind}", "name of a curve", scale))
        found.append(compare(line.get_ydata(), "==", scale * np.array(errors), f"errors, {width}, {kind}"))
        found.append(compare(line.get_xdata(), "==", scale * np.array([point.drop for point in mine]), "rates"))
    found.append(same((axes.get_xlabel(), axes.get_ylabel()), ("drop", "RMSE"), "axes of a path", scale))
    best = path.best_points()
    least = [min(point.holdout_rmse for point in path.points_ if point.width == width) for width in (1, 2)]
    found.append(compare([best[1].holdout_rmse, best[2].holdout_rmse], "==", scale * np.array(least), "best points"))
    system = tensor([[[1.0, 1.0], [1.0, 1.0]], [[2.0, 0.0], [0.0, 4.0]], [[0.0, 0.0], [0.0, 3.0]]])
    right, begin = tensor([[2.0, 2.0], [2.0, 2.0], [0.0, 6.0]]), tensor([[1.0, -1.0], [0.0, 0.0], [5.0, 0.0]])
    ends, falls = _direct(system.clone(), right, begin)
    wanted_ends = begin + tensor([[1.0, 1.0], [1.0, 0.5], [0.0, 2.0]])
    found.append(compare(1 + ends, "==", scale * (1 + wanted_ends), "singular systems"))
    found.append(compare(falls, "==", scale * tensor([4.0, 3.0, 12.0]), "what their sums lose"))
    blend = StackedCompletion([DropoutCompletion(2, 0.3, sweeps=2)], holdout=0.3).fit(table)
    seen = set(items[users == 3])
    found.append(same(set(blend.recommend(3, 6).items) & seen, set(), "what is known is not recommended", scale))
    return found


def _told(scale: float) -> list[Comparison]:
    """Fits tell how they go on, to a function, to a terminal, or to nobody."""
    heard: list[Sweep] = []
    line = Sweep(1, 0.123456, 0.654321, 0.1)
    screen = _Screen()
    with contextlib.redirect_stderr(screen):
        for progress in (heard.append, False):
            show, end = follow(progress, 3)
            show(line)
            end()
        found = [same((heard, screen.getvalue()), ([line], ""), "to a function, to nobody", scale)]
        show, end = follow(True, 3)
        show(line)
        end()
    told = screen.getvalue()
    found.append(same("objective=0.1235" in told and "rmse=0.6543" in told, True, "on a terminal", scale))
    return found
