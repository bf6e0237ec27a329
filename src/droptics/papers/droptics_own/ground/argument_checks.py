"""What a claim on arguments compares: every kind takes what it says and nothing beside, and bad calls are refused."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, Literal, cast, get_origin

import numpy as np
import torch

from droptics import arguments as kinds
from droptics.annotations import described
from droptics.arguments import check_arguments
from droptics.checks import as_drop, as_number, check_broadcast, check_positive, check_probability, check_same_kind
from droptics.data import Entries, Measurements, Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Logistic, Squared
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, Product, SlidingBlock
from droptics.norms import k_support, path_norm, weighted_trace
from droptics.optima import many
from droptics.papers.instances import tensor
from droptics.recommenders import DropoutAutoencoder
from droptics.recommenders.dropout_completion import Penalty

# what is passed on purpose is not what the signatures say
entries, positive, count_of, rate_of, broadcast = (
    cast(Any, one) for one in (Entries, check_positive, as_number, as_drop, check_broadcast)
)
ABSENT = torch.zeros(2, device="meta")
# a vector that derivatives are taken in, and a duration, which NumPy takes for a whole number
FOLLOWED, DURATION = torch.full((1,), 0.5, requires_grad=True), np.timedelta64(3)
# calls that must fail, each with the argument that is to be named
Bad = Iterator[tuple[str, Callable[[], object]]]
HALF, EIGHTH = torch.zeros(2, dtype=torch.float16), torch.zeros(2).to(torch.float8_e5m2)


def refused(call: Callable[[], object], name: str) -> float:
    """Whether a call ends with an error whose first word names the argument."""
    try:
        call()
    except ValueError as problem:
        return float(str(problem).split()[0].rstrip(":,") == name)
    return 0.0


def _number(place: int) -> float:
    """The non-negative floating-point numbers in their order, from 0 on."""
    return float(struct.unpack("d", struct.pack("Q", place))[0])


def _place(number: float) -> int:
    return int(struct.unpack("Q", struct.pack("d", number))[0])


def _last(accepts: Callable[[int], bool], inside: int, outside: int) -> int:
    """The last that is accepted on the way from one that is to one that may not be."""
    if accepts(outside):
        return outside
    while abs(outside - inside) > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if accepts(middle) else (inside, middle)
    return inside


def _ranges(scale: float) -> list[Comparison]:
    """The first and the last number that every range takes, by bisection over all floating-point numbers."""
    found: list[Comparison] = []
    least, most, below = 5e-324, 1.7976931348623157e308, math.nextafter(1.0, 0.0)
    ends: Sequence[tuple[Any, float, float]] = (
        (kinds.Probability, least, below),
        (kinds.DropRate, 0.0, below),
        (kinds.Share, 0.0, 1.0),
        (kinds.NonNegative, 0.0, most),
        (kinds.Extended, 0.0, math.inf),
        (kinds.Positive, least, most),
        (kinds.Size, 1e-18, 1e18),
        (kinds.ErrorRate, 1e-18, below),
        (kinds.Slope, 1e-18, 1.0),
        (kinds.Amount, 0.0, 1e18),
        (kinds.Strength, 0.0, 1e36),
        (kinds.SizeOrZero, 1e-18, 1e18),
        (kinds.Power, 1 / 64, 64.0),
    )
    for number, (hint, low, high) in enumerate(ends):
        check = described(hint)
        assert check is not None

        def accepts(place: int, take: Callable[[object], bool] = check.accepts) -> bool:
            return take(_number(place))

        down = 1 if hint is kinds.SizeOrZero else 0  # which takes 0 apart from the others
        told = [_number(_last(accepts, _place(0.5), end)) for end in (down, _place(math.inf))]
        found.append(compare(told, "==", tensor([scale * low, scale * high]), f"ends of range {number}", precision=0.0))
        found.append(compare(float(check.accepts(-least)), "==", 0.0, f"nothing below zero, {number}"))
    whole = (
        (kinds.Count, 1, 31),
        (kinds.Whole, 0, 31),
        (kinds.Examples, 1, 63),
        (kinds.Bytes, 1, 63),
        (kinds.Seed, 0, 63),
    )
    for hint, low, power in whole:
        check = described(hint)
        assert check is not None
        tops = [_last(check.accepts, 5, end) for end in (-9, 2**70)]
        found.append(
            compare(tops, "==", tensor([scale * low, scale * (2**power - 1)]), f"ends of {hint}", precision=0.0)
        )
    return found


def kinds_of_arguments(scale: float) -> list[Comparison]:
    """Every kind of argument takes what it says, its ends included or not, and nothing beside."""
    above, below = math.nextafter(1.0, 2.0), math.nextafter(1.0, 0.0)
    least, under = 1e-18, math.nextafter(1e-18, 0.0)
    cases: Sequence[tuple[Any, Sequence[Any], Sequence[Any]]] = (
        (kinds.Count, (1, 2**31 - 1, np.int8(3)), (0, -1, 2**31, 1.0, True, None, "1", np.bool_(True), DURATION)),
        (kinds.Whole, (0, 2**31 - 1), (-1, 2**31, 0.0, False)),
        (kinds.Examples, (1, 2**63 - 1), (0, 2**63)),
        (kinds.Bytes, (1, 2**63 - 1), (0, 2**63)),
        (kinds.Seed, (0, 2**63 - 1), (-1, 2**63)),
        (kinds.Probability, (least, below, np.float32(0.5), tensor(0.5)), (0, 1, 0.0, 1.0, -0.1, math.nan, True)),
        (kinds.Probability, (Fraction(1, 3),), (Fraction(10**400), ABSENT[0], DURATION, {0.5})),
        (kinds.DropRate, (0, 0.0, below), (1.0, -least, above)),
        (kinds.Share, (0.0, 1.0, 1), (above, -least, math.inf)),
        (kinds.Finite, (-1e300, 2**62), (math.inf, -math.inf, math.nan, 2**63, 10**400, tensor(math.nan), 1j)),
        (kinds.NonNegative, (0.0, 1e300), (-least, math.inf)),
        (kinds.Extended, (0.0, math.inf), (-least, math.nan)),
        (kinds.Positive, (5e-324,), (0.0, math.inf)),
        (kinds.Size, (least, 1e18), (under, 1.0000001e18)),
        (kinds.ErrorRate, (least, below), (under, 1.0)),
        (kinds.Slope, (least, 1.0), (under, above)),
        (kinds.Amount, (0.0, 1e18), (-least, 1.0000001e18)),
        (kinds.Strength, (0.0, 1e36), (-least, 1.0000001e36)),
        (kinds.SizeOrZero, (0.0, least, 1e18), (under, 1.0000001e18)),
        (kinds.Power, (1 / 64, 64), (0.0156, 64.1)),
        (kinds.Floats, (HALF, torch.zeros(())), (EIGHTH, torch.zeros(2).long(), torch.zeros(2).to_sparse(), ABSENT)),
        (kinds.PerRun, (torch.zeros(()), torch.zeros(3)), (torch.zeros(0), torch.zeros(1, 1))),
        (kinds.Vector, (torch.zeros(1),), (torch.zeros(()), torch.zeros(0), torch.zeros(1, 1))),
        (kinds.Points, (torch.zeros(0), torch.zeros(2, 2)), (torch.zeros(()), torch.zeros(2, dtype=torch.long))),
        (kinds.Factor, (torch.full((2, 2), math.inf), torch.zeros(2, 3, 1)), (torch.zeros(2), HALF[:, None])),
        (kinds.Spectrum, (torch.zeros(0), torch.zeros(2, 2)), (torch.zeros(()),)),
        (kinds.Rows, (torch.zeros(1), torch.zeros(1, 1)), (torch.zeros(0), torch.zeros(()))),
        (
            kinds.Matrix,
            (torch.zeros(2, 3), torch.zeros(2, 2, 0)),
            (torch.zeros(2), HALF[:, None], HALF[:, None].bfloat16()),
        ),
        (many.Maps, (torch.zeros(1, 2, 3),), (torch.zeros(2, 3), torch.zeros(0, 2, 3), HALF[:, None, None])),
        (kinds.Table, (torch.zeros(2, 2, dtype=torch.bool),), (torch.zeros(2), torch.zeros(1, 1, 1))),
        (kinds.Flags, (torch.ones(2, dtype=torch.long), torch.ones(1, 2)), (torch.ones(1, 1, 1), torch.zeros(()))),
        (kinds.Inputs, (torch.ones(2, dtype=torch.long),), (torch.zeros(2, dtype=torch.complex64), torch.zeros(()))),
        (kinds.Square, (torch.ones(1, 1), torch.ones(3, 2, 2)), (torch.ones(2, 3), torch.zeros(0, 0), torch.ones(2))),
        (
            kinds.ClassNumbers,
            (torch.ones(2), torch.ones(2, 1)),
            (torch.ones(2).bool(), torch.ones(1, 1, 1), 1j * torch.ones(2)),
        ),
        (kinds.ClassNumbers, (torch.ones(2).long(),), (torch.ones(()), [1, 2])),
        (kinds.Computed, (1.0, math.nan, np.float32("nan"), math.inf), ("nan", None)),
        (kinds.Ids, ([1, 2], np.array(["a"]), [1.5]), ([[1]], 3, [True], ([1], [1, 2]), [1j], [FOLLOWED[0]], {1})),
        (kinds.Ids, (np.array(["a", 1], object), [b"a"]), (np.array(["2020-01-01"], "M8[D]"), None, torch.ones(2))),
        (kinds.Scores, ([1.0], np.array([1])), ([math.inf], [-math.inf], [math.nan], ["a"], [[1.0]], 2.0, [ABSENT[0]])),
        (kinds.Rates, (0.0, [0.1, 0.9], np.array([0])), (1.0, -0.1, [], [[0.1]], ["a"], None, [True], FOLLOWED)),
        (kinds.NumberType, ("float32", np.float64), ("float16", None, "text", int)),
        (kinds.Device, ("cpu", torch.device("cpu")), ("meta", "nowhere", "privateuseone", 3)),
        (float, (1.0, 2, np.float32(3)), ("1", True, math.nan, 2**63, tensor(math.nan), torch.tensor(True), ABSENT[0])),
        (int, (1, np.int64(2)), (1.0, True, DURATION)),
        (bool, (True, np.bool_(False)), (1, "True")),
        (str, ("",), (b"", 1)),
        (type(None), (None,), (0,)),
        (int | None, (None, 3), (1.5, "")),
        (Literal["a", 2], ("a", 2), ("b", 3, None, 2.0)),
        (Literal[1, 2], (1, 2), (True, 1.0, np.bool_(True))),
        (Penalty, ("expected", "empirical", 0, 0.5, 1.0), ("mean", "", -0.1, above, None, True)),
        (type[Squared], (Squared,), (CrossEntropy, Squared())),
        (Sequence[int], ([], [1], (1, 2), torch.zeros(0)), ("12", {1: 2}, 3, [1.5], [1, 1.5], torch.zeros(()), {1, 2})),
        (Collection[int], ([1], {1, 2}), ({1: 2}, {1.5})),
        (tuple[int, float], ((1, 2.0), [1, 2]), ((1,), (1, 2, 3), (1.5, 2), "12", {1, 2})),
        (Iterator[int], (iter([1]),), (3, "a")),
        (Mapping[str, int], ({},), ([],)),
        (Callable[[], int], (len,), (3,)),
        (Squared, (Squared(),), (CrossEntropy(), None)),
    )
    found = _ranges(scale)
    named = [value for value in vars(kinds).values() if get_origin(value) is Annotated]
    left = [value for value in named if all(value is not hint for hint, _, _ in cases)]
    found.append(compare(len(left), "==", 0, f"kinds that are not tried: {left}"))
    for number, (hint, inside, outside) in enumerate(cases):
        check = described(hint)
        assert check is not None
        for wanted, values in ((1.0, inside), (0.0, outside)):
            told = [float(check.accepts(value)) for value in values]
            found.append(compare(told, "==", wanted, f"kind {number}, {hint}"))
    for name, call in itertools.chain(_bad_calls(), _bad_numbers(), _bad_moments(), _bad_laws(), _bad_losses()):
        found.append(compare(refused(call, name), "==", 1.0, f"refusal {len(found)} of {name}"))
    sound: Sequence[Callable[[], object]] = (
        lambda: as_drop(0),
        lambda: as_drop(tensor([0.0, below])),
        lambda: positive("n", np.int64(1)),
        lambda: check_probability("p", 0.5),
        lambda: check_broadcast("x", torch.zeros(1, 3), (2, 3), "rows"),
        lambda: check_same_kind({"a": torch.zeros(1), "b": torch.ones(2)}),
        lambda: Sample(torch.full((1, 1), 1e19), torch.zeros(1, 1)),
        lambda: entries([0, 1], [0, 0], tensor([1.0, 2.0]), (2, 1)),
        lambda: Discrete(torch.ones(3, 1), torch.full((3,), 1 / 3)),
        lambda: Moments(torch.eye(2), torch.ones(1, 2), 2 * torch.ones(1, 1), rank=2),
        lambda: SlidingBlock(0.2, 3, 3, "valid"),
        lambda: asked(HALF, torch.full((2, 2), math.inf), None, [1, 2], 0.5, count=3),
    )
    for call in sound:
        call()
    found.append(compare(float(described(int | Any) is None), "==", 1.0, "a number or anything is anything"))
    odd = [count_of(value) for value in (0.3, np.float32(0.5), 0, tensor(0.3))]
    found.append(compare([float(one is None) for one in odd], "==", [0.0, 0.0, 0.0, 1.0], "rates that are numbers"))
    return found


def _asked(
    rows: kinds.Rows,
    factor: kinds.Factor,
    vector: kinds.Vector | None = None,
    several: Sequence[kinds.Count] | None = None,
    *others: kinds.Probability,
    count: kinds.Count = 1,
) -> None:
    """Takes arguments of several kinds, and looks at them."""
    check_arguments(_asked, locals())


asked = cast(Any, _asked)


def _bad_calls() -> Bad:
    """Numbers in tensors, places in sequences, what equals a default and is none, parameters of estimators."""
    ones = torch.ones(2, 2)
    for bad in (math.nan, math.inf, -math.inf):
        yield "rows", partial(asked, tensor([1.0, bad]), ones)
        yield "vector", partial(asked, ones, ones, tensor([1.0, bad]))
    yield "factor", partial(asked, ones, torch.ones(2))
    yield "several[1]", partial(asked, ones, ones, None, [1, 0])
    yield "several", partial(asked, ones, ones, None, 3)
    yield "others[1]", partial(asked, ones, ones, None, [1], 0.5, 1.5)
    yield "count", partial(asked, ones, ones, count=0)
    yield "count", partial(asked, ones, ones, count=True)
    yield "drop", lambda: DropoutAutoencoder(cast(Any, tensor(0.3)), 1.0).fit_gram(np.eye(2))
    yield "ridge", lambda: DropoutAutoencoder(0.3, -1.0).fit_gram(np.eye(2))


def _bad_numbers() -> Bad:
    """Rates, counts and examples."""
    one, two = torch.ones(2, 1), torch.ones(2, 2)
    for bad in (1.0, -1e-9, 1, tensor([0.5, 1.0]), tensor([-1e-9, 0.0]), torch.zeros(0), tensor(math.nan), "half"):
        yield "drop", partial(rate_of, bad)
    yield "rate", lambda: rate_of(1.5, "rate")
    for count in (0, -1, 1.0, True):
        yield "n", partial(positive, "n", count)
    for chance in (0.0, 1.0):
        yield "p", partial(check_probability, "p", chance)
    for shape in ((2,), (3, 1), (1, 1, 2, 3)):
        yield "x", partial(broadcast, "x", torch.zeros(shape), (2, 3), "rows")
    yield "b", lambda: check_same_kind({"a": torch.zeros(1), "b": torch.zeros(1).double()})
    yield "inputs", lambda: Sample(torch.ones(2), torch.ones(2))
    yield "inputs", lambda: Sample(torch.zeros(0, 2), torch.zeros(0, 1))
    yield "inputs", lambda: Sample(torch.full((2, 1), 2e19), one)
    yield "inputs", lambda: Sample(torch.ones(2, 1, dtype=torch.long), one)
    yield "inputs", lambda: Sample(tensor([[math.inf], [0.0]]), one.double())
    yield "targets", lambda: Sample(two, torch.ones(3, 1))
    yield "targets", lambda: Sample(two, torch.full((2, 1), 2e19))
    yield "targets", lambda: Sample(two, one.double())
    yield "targets", lambda: Sample(two, torch.ones(2, dtype=torch.bool))
    yield "targets", lambda: Sample(two, torch.ones(2, 1, dtype=torch.long))
    yield "weights", lambda: Sample(two, one, torch.ones(3))
    yield "weights", lambda: Sample(two, one, torch.ones(2).double())
    yield "weights", lambda: Sample(two, one, torch.tensor([1.0, -0.5]))
    yield "weights", lambda: Sample(two, one, torch.zeros(2))


def _bad_moments() -> Bad:
    """Second moments, entries and measurements."""
    one, two = torch.ones(2, 1), torch.ones(2, 2)
    yield "xx", lambda: Moments(torch.ones(2, 3), two, two)
    yield "xx", lambda: Moments(torch.tensor([[1.0, 0.5], [0.4, 1.0]]), two, two)
    yield "xx", lambda: Moments(torch.tensor([[1.0, 2.0], [2.0, 1.0]]), two, two)
    yield "yy", lambda: Moments(two, two, torch.ones(2, 3))
    yield "yy", lambda: Moments(two, two, -two)
    yield "yx", lambda: Moments(two, torch.ones(2, 3), two)
    yield "yx", lambda: Moments(two, torch.ones(3, 2), two)
    yield "yx", lambda: Moments(torch.zeros(0, 0), torch.zeros(1, 0), torch.ones(1, 1))
    yield "yx", lambda: Moments(two, two.double(), two)
    yield "rank", lambda: Moments(torch.eye(2), two, 2 * two, rank=1)
    yield "weight", lambda: Moments(two, two, two, weight=0.0)
    yield "parts", lambda: Moments.merged([])
    yield "parts", lambda: Moments.merged([Moments(two, two, two), Moments(torch.eye(1), one, torch.eye(2))])
    yield "batches", lambda: Moments.of_batches(iter(()))
    yield "data", lambda: Moments.of(entries([0], [0], tensor([1.0]), (1, 1)))
    yield "sample", lambda: Moments.of_sample(Sample(two, torch.tensor([0, 1])))
    yield "xx", lambda: Moments(torch.eye(2), 3 * two, torch.eye(2)).as_sample()
    yield "rows", lambda: entries([2], [0], tensor([1.0]), (2, 1))
    yield "rows", lambda: entries([-1], [0], tensor([1.0]), (2, 1))
    yield "columns", lambda: entries([0], [1], tensor([1.0]), (2, 1))
    yield "columns", lambda: entries([0], [0, 0], tensor([1.0]), (2, 1))
    yield "columns", lambda: entries([0], [0.5], tensor([1.0]), (2, 1))
    yield "values", lambda: entries([], [], tensor([]), (2, 1))
    yield "values", lambda: Measurements(torch.ones(2, 1, 1), torch.ones(3))
    yield "values", lambda: Measurements(torch.ones(0, 1, 1), torch.ones(0))
    yield "values", lambda: Measurements(torch.ones(2, 1, 1), torch.ones(2).double())
    yield "matrices", lambda: Measurements(torch.ones(2, 2), torch.ones(2))


def _bad_laws() -> Bad:
    """Laws of masks."""
    one = torch.ones(2, 1)
    yield "drop", lambda: Bernoulli(tensor([0.1, 0.2]), 3)
    yield "size", lambda: Bernoulli(0.1, 0)
    yield "block", lambda: Block(0.1, 5, 2)
    yield "drop", lambda: Block(tensor([0.1, 0.2, 0.3]), 4, 2)
    yield "drop", lambda: SlidingBlock(tensor([0.1, 0.2]), 4, 2)
    yield "block", lambda: SlidingBlock(0.1, 2, 3, "valid")
    yield "edges", lambda: SlidingBlock(0.1, 2, 1, "cut")  # type: ignore[arg-type]
    yield "masks", lambda: Discrete(torch.ones(2, 0), torch.full((2,), 0.5))
    yield "masks", lambda: Discrete(tensor([[1.0], [-1.0]]), tensor([0.5, 0.5]))
    yield "probabilities", lambda: Discrete(one, torch.full((3,), 1 / 3))
    yield "probabilities", lambda: Discrete(one, tensor([0.5, 0.5 + 1e-12]))
    yield "probabilities", lambda: Discrete(one, tensor([1.5, -0.5]))
    yield "count", lambda: Discrete.from_samples(lambda count, _: torch.ones(count, 1), 0)
    yield "samples", lambda: Discrete.from_samples(torch.ones(0, 1))
    yield "variance", lambda: Gaussian(-0.1, 2)
    yield "variance", lambda: Gaussian(tensor([0.1, 0.2]), 3)
    yield "laws", lambda: Product([])


def _bad_losses() -> Bad:
    """Losses and norms."""
    one, two = torch.ones(2, 1), torch.ones(2, 2)
    yield "targets", lambda: Squared()(one, torch.tensor([1, 0]))
    yield "targets", lambda: Squared()(one, two)
    yield "targets", lambda: CrossEntropy()(two, torch.tensor([0, 2]))
    yield "targets", lambda: CrossEntropy()(two, torch.tensor([0, -1]))
    yield "targets", lambda: CrossEntropy()(two, torch.ones(2))
    yield "targets", lambda: Logistic()(one, torch.tensor([1.0, 0.0]))
    yield "outputs", lambda: Logistic()(two, torch.tensor([1.0, -1.0]))
    yield "weights", lambda: path_norm([])
    yield "weights[0]", lambda: path_norm([torch.ones(2)])
    yield "weights[1]", lambda: path_norm([two, torch.ones(2, 3)])
    yield "row_weights", lambda: weighted_trace(two, -torch.ones(2), torch.ones(2))
    yield "column_weights", lambda: weighted_trace(two, torch.ones(2), torch.ones(3))
    yield "k", lambda: k_support(torch.ones(2), 0)
    yield "values", lambda: k_support(torch.ones(()), 1)
