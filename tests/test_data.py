from fractions import Fraction

import numpy as np
import pytest
import torch
from cases import entries, measurements, normal, sample, singular_moments, weighted_sample
from compare import close
from hypothesis import given, settings
from hypothesis import strategies as st

from droptics.data import Entries, Measurements, Moments, Sample


def test_moments_of_a_weighted_sample():
    data = weighted_sample()
    share = data.weights / data.weights.sum()
    moments = Moments.of_sample(data)
    close(moments.xx, sum(w * torch.outer(x, x) for w, x in zip(share, data.inputs, strict=True)))
    close(moments.yx, sum(w * torch.outer(y, x) for w, x, y in zip(share, data.inputs, data.targets, strict=True)))
    assert moments.weight == float(data.weights.sum())


def test_moments_of_a_map():
    matrix = normal(3, 4)
    moments = Moments.of_map(matrix)
    close(moments.xx, torch.eye(4))
    close(moments.yy, matrix @ matrix.mT)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6))
@settings(deadline=None, max_examples=30)
def test_moments_do_not_depend_on_how_the_data_are_cut(sizes):
    count = sum(sizes)
    inputs, targets = normal(count, 3), normal(count, 2)
    whole = Moments.of_sample(Sample(inputs, targets))
    pieces = list(zip(inputs.split(sizes), targets.split(sizes), strict=True))
    streamed = Moments.of_batches(pieces)
    merged = Moments.merged([Moments.of_batches(pieces[:1]), *(Moments.of_batches([piece]) for piece in pieces[1:])])
    for other in (streamed, merged):
        close(other.xx, whole.xx, 1e-13)
        close(other.yx, whole.yx, 1e-13)
        close(other.yy, whole.yy, 1e-13)
        assert other.weight == count


def _exact(left, right, shares):
    """Weighted mean of products of columns, in fractions, rounded once."""
    left, right = ([[Fraction(float(v)) for v in column] for column in part.T] for part in (left, right))
    weights = [Fraction(float(share)) for share in shares]
    sums = [[sum(w * a * b for w, a, b in zip(weights, one, two, strict=True)) for two in right] for one in left]
    return torch.tensor([[float(entry / sum(weights)) for entry in row] for row in sums], dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_what_moments_tell_of_their_rounding_bounds_it(dtype, parts):
    """In units of the features, which differ by eleven orders; of merged parts, each step adds three units at most."""
    inputs = (normal(11, 3) * torch.tensor([1.0, 1e-6, 1e5])).to(dtype)
    targets, weights = (1e3 * normal(11, 2, seed=1)).to(dtype), (0.1 + normal(11, seed=2).abs()).to(dtype)
    pieces = [Sample(inputs[k::parts], targets[k::parts], weights[k::parts]) for k in range(parts)]
    told = Moments.merged([Moments.of_sample(piece) for piece in pieces])
    xx, yy = _exact(inputs, inputs, weights), _exact(targets, targets, weights)
    for name, left, right in (("xx", xx, xx), ("yx", yy, xx), ("yy", yy, yy)):
        columns = {"xx": (inputs, inputs), "yx": (targets, inputs), "yy": (targets, targets)}[name]
        size = torch.outer(left.diagonal().sqrt(), right.diagonal().sqrt())
        off = (getattr(told, name).double() - _exact(*columns, weights)).abs()
        assert (off <= told.rounding * size).all(), name
    steps = {1: 0, 2: 1, 5: 3}[parts]  # pairs of pairs
    assert told.rounding >= (1 + 3 * steps) * torch.finfo(dtype).eps
    assert told.rounding <= (10 + 3 * steps) * torch.finfo(dtype).eps


@pytest.mark.parametrize("light", [0, 3])
def test_a_part_of_little_weight_whose_numbers_decide_keeps_all_its_digits(light):
    inputs, targets, weights = normal(4, 2), normal(4, 1, seed=1), 0.5 + normal(4, seed=2).abs()
    inputs[light], targets[light], weights[light] = 1e9 * inputs[light], 1e9 * targets[light], 3e-13
    pieces = [Sample(inputs[k : k + 1], targets[k : k + 1], weights[k : k + 1]) for k in range(4)]
    told = Moments.of_batches(pieces)
    for name, left, right in (("xx", inputs, inputs), ("yx", targets, inputs), ("yy", targets, targets)):
        exact = _exact(left, right, weights)
        assert ((getattr(told, name) - exact).abs() <= told.rounding * exact.abs()).all(), name


@pytest.mark.parametrize("repeated", [[], [0], [1], [2], [0, 2], [0, 1, 2]])
def test_batches_prove_what_holds_in_all_of_them(repeated):
    parts = [normal(4, 3, seed=k) for k in range(3)]
    for k in repeated:
        parts[k][:, 2] = 2 * parts[k][:, 0]
    rank = Moments.of_batches([(part, part[:, :1]) for part in parts]).rank
    assert rank == 2 if len(repeated) == 3 else rank in (None, 3)


def test_a_rounding_that_is_given_is_at_least_that_of_the_type():
    one = torch.eye(2).double()
    for given_rounding, kept in ((0.0, 2.0**-52), (1e-20, 2.0**-52), (1e-5, 1e-5)):
        assert Moments(one, one, 2 * one, rounding=given_rounding).rounding == kept


def test_ranks_of_parts_add_up_to_the_features_and_no_further():
    inputs, targets = normal(5, 3), normal(5, 2)
    single = [Moments.of_sample(Sample(inputs[k : k + 1], targets[k : k + 1])) for k in range(5)]
    assert [Moments.merged(single[:count]).rank for count in range(1, 6)] == [1, 2, 3, 3, 3]
    unknown = Moments(torch.eye(3).double(), torch.zeros(2, 3).double(), torch.eye(2).double())
    assert Moments.merged([single[0], unknown]).rank is None
    assert Moments.merged([unknown, single[0]]).rank is None


def test_streaming_float32_does_not_lose_digits():
    inputs = 1000 + normal(20_000, 2, dtype=torch.float32)
    streamed = Moments.of_batches((part, part) for part in inputs.split(100))
    exact = inputs.double().mT @ inputs.double() / len(inputs)
    close(streamed.xx, exact, 1e-13)


@pytest.mark.parametrize("moments", [Moments.of_sample(sample()), singular_moments(), Moments.of_map(normal(3, 2))])
def test_pseudo_sample_has_the_same_moments(moments):
    again = Moments.of_sample(moments.as_sample())
    close(again.xx, moments.xx)
    close(again.yx, moments.yx)
    close(again.yy, moments.yy)


def test_numpy_arrays_and_vectors_are_accepted():
    data = Sample(np.ones((3, 2)), np.arange(3.0))
    assert data.targets.shape == (3, 1)
    assert Sample(np.ones((3, 2)), np.array([0, 1, 1])).targets.dtype == torch.int64
    assert len(Entries(np.array([0, 1]), [1, 0], np.ones(2), (2, 2))) == 2


def test_indices_are_read_from_arrays_that_run_backwards():
    backwards = np.array([0, 2, 1])[::-1]
    assert Entries(backwards, [0, 1, 1], np.ones(3), (3, 2)).rows.tolist() == [1, 2, 0]


@pytest.mark.parametrize("values", [[2.0, -3.0], np.array([2.0, -3.0])], ids=["list", "array"])
def test_entries_given_as_lists_and_arrays_are_tensors_afterwards(values):
    """Targets, indices and conversions as those of the same entries given as tensors."""
    data = Entries([0, 1], np.array([1, 0]), values, (2, 2))
    assert torch.equal(data.targets.double(), torch.tensor([[2.0], [-3.0]], dtype=torch.float64))
    assert torch.equal(data.inputs, torch.tensor([[0, 1], [1, 0]]))
    assert data.to(torch.float32).values.tolist() == [2.0, -3.0]


def test_conversion_keeps_indices_whole():
    converted = entries().to(torch.float32)
    assert converted.values.dtype == torch.float32
    assert converted.rows.dtype == torch.int64
    assert weighted_sample().to(torch.float32).weights.dtype == torch.float32


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Sample(normal(3, 2), normal(4, 2)), "targets has size 4, expected 3"),
        (lambda: Sample(torch.zeros(0, 2), torch.zeros(0, 1)), "empty sample"),
        (lambda: Sample(torch.ones(3, 2, dtype=torch.int64), normal(3, 2)), "inputs must be floating point"),
        (lambda: Sample(normal(3, 2), torch.ones(3, 2, dtype=torch.int64)), "targets must be floating point"),
        (lambda: Sample(normal(3, 2) / 0, normal(3, 2)), "inputs must be finite"),
        (lambda: Sample(normal(3, 2), normal(3, 2).float()), "targets is torch.float32"),
        (lambda: Sample(normal(3), normal(3, 2)), "inputs must be"),
        (lambda: Sample(normal(3, 2), normal(3, 2), -torch.ones(3).double()), "weights must be non-negative"),
        (lambda: Sample(normal(3, 2), normal(3, 2), torch.ones(2).double()), "weights has size 2"),
        (lambda: Sample("data", normal(3, 2)), "inputs must be a tensor"),
        (lambda: Moments(torch.eye(2), torch.ones(1, 3), torch.eye(1)), "yx .columns. has size 3"),
        (lambda: Moments(-torch.eye(2), torch.ones(1, 2), torch.eye(1)), "xx must be positive semi-definite"),
        (lambda: Moments(torch.eye(2), torch.ones(1, 2), -torch.eye(1)), "yy must be positive semi-definite"),
        (lambda: Moments(torch.tensor([[1.0, 2], [0, 1]]), torch.ones(1, 2), torch.eye(1)), "xx must be symmetric"),
        (lambda: Moments(torch.eye(2), torch.ones(1, 2).double(), torch.eye(1)), "yx is torch.float64"),
        (lambda: Moments(torch.eye(2), 5 * torch.ones(1, 2), torch.eye(1)).as_sample(), "not the moments of any data"),
        (lambda: Moments.of_batches([]), "batches"),
        (lambda: Entries([0], [3], normal(1), (2, 2)), "columns must lie in 0..1"),
        (lambda: Entries([], [], normal(0), (2, 2)), "at least one"),
        (lambda: Entries([0.5], [0], normal(1), (2, 2)), "rows must be a vector of whole numbers"),
        (lambda: Measurements(normal(2, 3, 3), normal(3)), "values has size 3"),
        (lambda: Sample(1e160 * normal(3, 2), normal(3, 1)), "inputs must be so small that torch.float64"),
        (lambda: Sample(normal(3, 2), 1e160 * normal(3, 1)), "targets must be so small that torch.float64"),
        (
            lambda: Sample(1e20 * normal(3, 2).float(), normal(3, 1).float()),
            "inputs must be so small that torch.float32",
        ),
        (lambda: Sample(torch.ones(3, 2).to(torch.float8_e5m2), normal(3, 1)), "inputs must be floating point"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_finite_numbers_whose_sum_overflows_are_accepted():
    huge = torch.full((4,), 1e308, dtype=torch.float64)
    assert len(Entries([0, 0, 1, 1], [0, 1, 0, 1], huge, (2, 2))) == 4
    large = torch.full((4, 2), 300.0, dtype=torch.float16)  # squares beyond half precision, summed in another one
    assert len(Sample(large, large)) == 4
    with pytest.raises(ValueError, match="2 NaN or infinite entries"):
        Sample(torch.tensor([[float("inf")], [-float("inf")]]), torch.ones(2, 1))


def test_values_are_targets_of_one_column():
    close(entries().targets, entries().values[:, None])
    close(measurements().targets, measurements().values[:, None])


def test_moments_of_anything_that_has_them():
    moments = singular_moments()
    assert Moments.of(moments) is moments
    close(Moments.of(sample()).yx, sample().targets.mT @ sample().inputs / len(sample()))
    with pytest.raises(ValueError, match="data must be Sample or Moments, got Entries"):
        Moments.of(entries())
    empty = torch.zeros(0, 0, dtype=torch.float64)
    with pytest.raises(ValueError, match="at least one input and one output"):
        Moments(empty, torch.zeros(2, 0, dtype=torch.float64), torch.eye(2, dtype=torch.float64))


@pytest.mark.parametrize("scale", [1e-12, 1e6, 1e8, 1e12])
def test_pseudo_sample_of_targets_in_other_units(scale):
    moments = Moments.of_sample(Sample(normal(50, 3), scale * normal(50, 2)))
    again = Moments.of_sample(moments.as_sample())
    for name in ("xx", "yx", "yy"):
        close(getattr(again, name), getattr(moments, name), 1e-13)


def test_float32_moments_are_accumulated_in_float64_and_convert_to_it():
    """Three examples of six features have a singular second moment: rounded to float32 it is slightly indefinite."""
    for seed in range(20):
        rows = Sample(normal(3, 6, seed=seed, dtype=torch.float32), normal(3, 2, seed=seed, dtype=torch.float32))
        moments = Moments.of_sample(rows)
        assert torch.equal(moments.xx, Moments.of_sample(rows.to(torch.float64)).xx.float())
        exact = moments.to(torch.float64)
        assert exact.dtype == torch.float64
        assert exact.rounding == moments.rounding == torch.finfo(torch.float32).eps
        # a weighted mean rounds a little more, and forgets nothing
        assert exact.rounding < Moments.merged([exact, exact]).rounding <= exact.rounding + 2.0**-50


def test_second_moments_are_judged_in_the_units_of_their_features():
    units = torch.tensor([1.0, 1e-9]).double()
    wrong = torch.tensor([[1.0, 2.0], [2.0, 1.0]]).double() * units * units[:, None]
    with pytest.raises(ValueError, match="negative eigenvalue, which shows at index 1"):
        Moments(wrong, torch.zeros(1, 2).double(), torch.ones(1, 1).double())
    skew = torch.tensor([[1.0, 0.5], [0.0, 1.0]]).double() * units * units[:, None]
    with pytest.raises(ValueError, match="xx must be symmetric"):
        Moments(skew, torch.zeros(1, 2).double(), torch.ones(1, 1).double())


def test_conversion_to_the_same_kind_is_free():
    moments = Moments.of_sample(sample())
    assert moments.to(torch.float64) is moments


@pytest.mark.parametrize("data", [sample(), weighted_sample()])
def test_shares_are_what_a_mean_weighs_the_examples_by(data):
    close(data.shares.sum(), 1.0, relative=1e-14)
    close(Moments.of(data).yx, (data.targets * data.shares[:, None]).mT @ data.inputs, relative=1e-13)
    close(Moments.of(data).xx, Moments.of_sample(data).xx, relative=0)


def test_moments_follow_a_change_of_the_weights():
    inputs, targets = normal(5, 2), normal(5, 1)

    def trace(weights):
        return Moments.of_sample(Sample(inputs, targets, weights)).xx.trace()

    weights = torch.tensor([1.0, 2.0, 0.5, 3.0, 1.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(trace, (weights,))


def test_moments_pass_through_and_other_shapes_are_refused():
    moments = Moments.of_map(normal(3, 2))
    assert Moments.of(moments) is moments
    with pytest.raises(ValueError, match="data must be Sample or Moments, got Entries"):
        Moments.of(entries())


def test_moments_without_inputs_or_outputs_are_refused():
    with pytest.raises(ValueError, match="at least one input and one output"):
        Moments(torch.zeros(0, 0), torch.zeros(2, 0), torch.eye(2))


@pytest.mark.parametrize("kind", ["float16", "float64"])
def test_a_conversion_is_checked_where_numbers_may_not_fit(kind):
    sample = Sample(torch.full((2, 1), 1e15), torch.zeros(2, 1))
    if kind == "float16":
        with pytest.raises(ValueError, match="inputs must be finite"):
            sample.to(torch.float16)
    else:
        assert torch.equal(sample.to(torch.float64).inputs, sample.inputs.double())


def test_streamed_moments_go_through_vmap():
    """Numbers that cannot be looked at prove no rank; of repeated features too."""
    inputs, targets = normal(2, 6, 2), normal(6, 1)
    inputs = torch.cat([inputs, inputs[..., :1]], -1)

    def streamed(x):
        return Moments.of_batches([Sample(x[:3], targets[:3]), Sample(x[3:], targets[3:])]).xx

    close(torch.func.vmap(streamed)(inputs), torch.stack([streamed(x) for x in inputs]), 1e-15)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("power", [-40, 0, 40])
def test_a_rank_that_the_numbers_contradict_is_refused(rank, power):
    """Two directions stand far above rounding, in any units; the third is what rounding leaves of none."""
    units = 2.0 ** torch.tensor([power, 0, -power], dtype=torch.float64)
    rows = normal(9, 2) @ normal(2, 3, seed=1) * units
    given = rows.mT @ rows / 9, normal(1, 3, seed=2) * units, 10 * torch.ones(1, 1).double()
    for known in (2, 3, 7):
        assert Moments(*given, rank=known).rank == known
    with pytest.raises(ValueError, match="rank must be at least 2"):
        Moments(*given, rank=rank)


@pytest.mark.parametrize(("dtype", "scale"), [("float32", 1e-21), ("float32", 1e-25), ("float64", 1e-170)])
@pytest.mark.parametrize("what", ["inputs", "targets"])
def test_moments_refuse_what_underflows_in_their_precision(dtype, scale, what):
    """A feature whose energy is lost would count as zero, and a network that uses it lie below the bound."""
    kind = getattr(torch, dtype)
    parts = {"inputs": normal(20, 2).to(kind), "targets": normal(20, 2, seed=1).to(kind)}
    parts[what][:, 1] *= scale
    with pytest.raises(ValueError, match=rf"{what} must have mean squares .* column 1 has less"):
        Moments.of_sample(Sample(**parts))
    parts[what][:, 1] = 0
    assert float(getattr(Moments.of_sample(Sample(**parts)), {"inputs": "xx", "targets": "yy"}[what])[1, 1]) == 0
    weights = torch.ones(20, dtype=kind)
    weights[3], parts[what][3, 1] = 0, scale  # of an example that does not count
    Moments.of_sample(Sample(**parts, weights=weights))
