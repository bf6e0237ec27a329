"""Landscapes: derivatives against autograd, every critical point of tied networks, kinds, escapes, the picture."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from cases import deep_pairs, laws, normal, sample, weighted_sample
from compare import close
from scipy.optimize import minimize

from droptics import landscapes, plots
from droptics.data import Moments, Sample
from droptics.errors import NoClosedForm
from droptics.landscapes import inspection
from droptics.landscapes.symmetries import symmetry_dimension
from droptics.linalg import equalize_columns
from droptics.masks import Bernoulli, Block, Discrete, Product, SlidingBlock
from droptics.models import Autoencoder, Connections, DeepLinear, LastLayer, ReLUNet, TwoLayerLinear
from droptics.optima import optimum
from droptics.optima.objectives import objective
from droptics.penalties import criterion
from droptics.spectra.coordinates import whiten


def rebuilt(model, tensors):
    return DeepLinear(list(tensors), model.mask_inputs) if isinstance(model, DeepLinear) else type(model)(*tensors)


def chains():
    yield from deep_pairs()
    two_layer = TwoLayerLinear(normal(3, 4), normal(4, 4, seed=2))
    tied = Autoencoder(normal(4, 3))
    for label, law in laws(4).items():
        yield f"two-layer/{label}", two_layer, weighted_sample(), law
    for label, law in laws(3).items():
        yield f"tied/{label}", tied, sample(outputs=4), law


@pytest.mark.parametrize(("name", "model", "data", "masks"), list(chains()), ids=[case[0] for case in chains()])
def test_derivatives_agree_with_autograd(name: str, model, data, masks) -> None:
    def value(*tensors: torch.Tensor) -> torch.Tensor:
        return criterion(rebuilt(model, tensors), data, masks).value

    tensors = tuple(tensor.clone().requires_grad_(True) for tensor in model.tensors)
    expected = torch.autograd.grad(value(*tensors), tensors)
    for found, wanted in zip(landscapes.gradient(model, data, masks), expected, strict=True):
        close(found, wanted, 1e-12)
    direction = tuple(normal(*tensor.shape, seed=9) for tensor in model.tensors)
    _, product = torch.autograd.functional.hvp(value, model.tensors, direction)
    for found, wanted in zip(landscapes.hessian_action(model, data, masks, direction), product, strict=True):
        close(found, wanted, 1e-11)
    matrix = landscapes.hessian(model, data, masks)
    flat = torch.cat([part.flatten() for part in direction])
    close(matrix @ flat, torch.cat([part.flatten() for part in product]), 1e-11)


def test_printed_formulas() -> None:
    """The tied isotropic case as it is written in the literature."""
    M = normal(3, 3) + normal(3, 3).mT
    U, D = normal(3, 4, seed=1), normal(3, 4, seed=2)
    data, masks, strength = Moments.of_map(M), Bernoulli(0.4, 4), 0.4 / 0.6
    n = torch.diag(U.square().sum(0))
    slope = 4 * (U @ U.mT - M) @ U + 4 * strength * U @ n
    close(landscapes.gradient(Autoencoder(U), data, masks)[0], slope, 1e-12)
    action = 4 * (D @ U.mT @ U + U @ D.mT @ U + (U @ U.mT - M) @ D)
    action = action + 4 * strength * (D @ n + 2 * U @ torch.diag((U * D).sum(0)))
    close(landscapes.hessian_action(Autoencoder(U), data, masks, (D,))[0], action, 1e-12)


SPECTRA = {
    "distinct": ([3.0, 2.0, 1.0], 2),
    "ties": ([2.0, 2.0], 3),
    "indefinite": ([3.0, -2.0, 1.0], 2),
    "wide": ([2.0], 4),
    "negative": ([-1.0, -3.0], 2),
    "width-one": ([3.0, 2.0], 1),
}


@pytest.mark.parametrize("label", SPECTRA)
@pytest.mark.parametrize("drop", [0.0, 0.2, 0.5, 0.95])
def test_critical_points_of_tied_networks(label: str, drop: float) -> None:
    spectrum, width = SPECTRA[label]
    rotation = torch.linalg.qr(normal(len(spectrum), len(spectrum), seed=4)).Q
    M = rotation @ torch.diag(torch.tensor(spectrum, dtype=torch.float64)) @ rotation.mT
    skew = normal(len(spectrum), len(spectrum), seed=5)
    data, masks = Moments.of_map(M + (skew - skew.mT)), Bernoulli(drop, width)
    points = landscapes.critical_points(Autoencoder, data, masks)
    best = optimum(Autoencoder, data, masks)
    close(points[0].objective, best.objective, 1e-10, scale=float(M.square().sum()))  # the optimum itself may be zero
    for point in points:
        assert point.inspection.gradient_norm <= 1e-10
        # no spurious minima at any rate (mianjy2018-thm4.3 without its condition)
        assert point.kind in ("global minimum", "strict saddle", "local maximum")
        assert (point.kind == "global minimum") == (point.objective <= best.objective + 1e-9)
        if point.kind != "global minimum":
            way = landscapes.escape(point.model, data, masks)
            assert way.curvature < 0
            assert way.objective < point.objective - 1e-9
            quadratic = landscapes.hessian_action(point.model, data, masks, way.direction)[0]
            close((quadratic * way.direction[0]).sum(), way.curvature, 1e-9)


def test_one_dimension_has_three_to_the_width() -> None:
    """Known list: m non-zero weights of size sqrt(M / (m + lambda)), inertia (width - m, 0, m)."""
    points = landscapes.critical_points(Autoencoder, Moments.of_map(torch.tensor([[2.0]]).double()), Bernoulli(0.5, 3))
    assert [point.inertia for point in points] == [(0, 0, 3), (1, 0, 2), (2, 0, 1), (3, 0, 0)]
    for point, count in zip(points, (3, 2, 1, 0), strict=True):
        expected = (2 / (count + 1.0)) ** 0.5 if count else 0.0
        weights = point.model.U.abs().sort(descending=True).values[0]
        close(weights, [expected] * count + [0.0] * (3 - count), 1e-12, scale=1.0)


@pytest.mark.parametrize("power", [30, 40, 47])
def test_critical_points_are_all_there_at_rates_next_to_one(power: int) -> None:
    """A group of r columns has one eigenvector: r columns of squared norm e / (r + lambda), of 20 choices."""
    drop = 1 - 2.0**-power
    M = torch.diag(torch.tensor([2.0, 1.0, 0.5], dtype=torch.float64))
    points = landscapes.critical_points(Autoencoder, Moments.of_map(M), Bernoulli(drop, 3))
    assert len(points) == 20
    assert [point.kind for point in points] == ["global minimum", *["strict saddle"] * 18, "local maximum"]
    for point in points:
        assert all(len(members) == (1 if members else 0) for _, members in point.groups)
        total = sum(
            columns * float(M[i, i]) / (columns + drop / (1 - drop)) for columns, chosen in point.groups for i in chosen
        )
        close(point.model.U.square().sum(), total, 1e-13, scale=total)


def test_descent_ends_only_at_listed_points() -> None:
    """The list is complete: damped Newton on the gradient finds no critical value that is not on it."""
    data = Moments.of_map(torch.diag(torch.tensor([3.0, 1.0], dtype=torch.float64)))
    masks = Bernoulli(0.4, 2)
    listed = torch.tensor([point.objective for point in landscapes.critical_points(Autoencoder, data, masks)])
    found = set()
    for seed in range(24):
        U = 1.5 * normal(2, 2, seed=seed)
        for _ in range(40):
            model = Autoencoder(U)
            slope = landscapes.gradient(model, data, masks)[0].flatten()
            if float(slope.norm()) < 1e-15:  # arrived; some LAPACKs stop the process at subnormal numbers
                break
            step = torch.linalg.lstsq(landscapes.hessian(model, data, masks), slope, driver="gelsd").solution
            U = U - (step * min(1.0, 1.0 / float(step.norm() + 1e-12))).reshape(2, 2)
        if float(landscapes.gradient(Autoencoder(U), data, masks)[0].norm()) < 1e-9:
            value = float(criterion(Autoencoder(U), data, masks))
            assert float((listed - value).abs().min()) < 1e-7, value
            found.add(round(value, 6))
    assert len(found) >= 3  # saddles are found, not only the minimum


@pytest.mark.parametrize("ask", [landscapes.inspect, landscapes.gradient, landscapes.hessian, landscapes.escape])
def test_other_families_are_refused_by_name(ask) -> None:
    random, last = sample(), LastLayer.of(torch.nn.Linear(4, 3).double())
    for model, masks in (
        (Connections(normal(3, 3), normal(4, 3)), Bernoulli(0.3, 12)),
        (ReLUNet([normal(5, 4), normal(3, 5)]), Product([Bernoulli(0.0, 4), Bernoulli(0.3, 5)])),
        (last, Bernoulli(0.3, 4)),
    ):
        with pytest.raises(NoClosedForm, match=f"not for {type(model).__name__}"):
            ask(model, random, masks)


def test_limits_and_refusals() -> None:
    data = Moments.of_map(torch.diag(torch.arange(6.0, 0.0, -1.0)).double())
    with pytest.raises(ValueError, match="limit must be raised"):
        landscapes.critical_points(Autoencoder, data, Bernoulli(0.1, 6), limit=20)
    with pytest.raises(NoClosedForm, match="isotropic"):
        landscapes.critical_points(Autoencoder, sample(outputs=4), Bernoulli(0.1, 2))
    with pytest.raises(NoClosedForm, match="one rate"):
        landscapes.critical_points(Autoencoder, data, Block(0.1, 2, 2))
    with pytest.raises(NoClosedForm, match="not for TwoLayerLinear"):
        landscapes.critical_points(TwoLayerLinear, data, Bernoulli(0.1, 2))
    with pytest.raises(NoClosedForm, match="autograd"):
        landscapes.gradient(Connections(normal(3, 2), normal(4, 2)), sample(), Bernoulli(0.3, 8))
    with pytest.raises(ValueError, match="shapes"):
        landscapes.hessian_action(Autoencoder(normal(6, 2)), data, Bernoulli(0.1, 2), (normal(2, 6),))
    with pytest.raises(ValueError, match="one input"):
        landscapes.portrait(data, Bernoulli(0.1, 2))


class TestInspect:
    def test_untied_optimum_and_saddles(self) -> None:
        data, masks = sample(), Bernoulli(0.4, 4)
        best = optimum(TwoLayerLinear, data, masks)
        assert landscapes.inspect(best.model, data, masks).kind == "global minimum"
        assert landscapes.inspect(TwoLayerLinear(normal(3, 4), normal(4, 4)), data, masks).kind == "not critical"
        zero = TwoLayerLinear(torch.zeros(3, 4).double(), torch.zeros(4, 4).double())
        found = landscapes.inspect(zero, data, masks)
        assert (found.kind, found.gradient_norm) == ("strict saddle", 0.0)
        way = landscapes.escape(zero, data, masks)
        assert way.objective < found.objective
        with pytest.raises(ValueError, match="no strict saddle"):
            landscapes.escape(best.model, data, masks)

    @pytest.mark.parametrize("drop", [0.1, 0.5, 0.9])
    def test_untied_points_of_every_support_are_strict(self, drop: float) -> None:
        """Equalized factors on any set of singular triples are critical; only the best set is no saddle."""
        M, width, strength = normal(3, 4, seed=3), 3, drop / (1 - drop)
        data, masks = Moments.of_map(M), Bernoulli(drop, width)
        left, values, right = torch.linalg.svd(M, full_matrices=False)
        least = optimum(TwoLayerLinear, data, masks).objective
        kinds = []
        for support in itertools.chain.from_iterable(itertools.combinations(range(3), size) for size in (1, 2, 3)):
            index = list(support)
            kept = values[index] - strength * values[index].sum() / (width + strength * len(index))
            if bool((kept <= 0).any()):
                continue
            padding = torch.zeros(7, width - len(index)).double()
            stacked = torch.cat([left[:, index] * kept.sqrt(), right[index].mT * kept.sqrt()])
            U, V = torch.cat([stacked, padding], 1).split([3, 4])
            U, V = equalize_columns(U, V)
            found = landscapes.inspect(TwoLayerLinear(U, V), data, masks)
            assert found.gradient_norm < 1e-10
            assert (found.kind == "global minimum") == (found.objective <= least + 1e-9)
            kinds.append(found.kind)
        assert kinds.count("global minimum") == 1
        assert set(kinds) == {"global minimum", "strict saddle"}

    def test_one_flat_direction_that_is_no_symmetry_is_degenerate(self) -> None:
        """One unit, M = diag(4, 2), E x x^T = diag(1, 3), rate 1/2: at (0, 1) curvatures 0 and 48, and no minimum.

        With a and b the squares of the weights, (a - 4)^2 + 4 a b + 3 (b - 2)^2 + (a + b)(a + 3 b) is quadratic: along
        b = 1 - 2 a / 3 it falls by 2 a^2 / 3.
        """
        M, C = torch.tensor([4.0, 2.0]).double(), torch.tensor([1.0, 3.0]).double()
        data, masks = Moments(torch.diag(C), torch.diag(M * C), torch.diag(M * C * M)), Bernoulli(0.5, 1)
        found = landscapes.inspect(Autoencoder(torch.tensor([[0.0], [1.0]]).double()), data, masks)
        assert (found.kind, found.inertia, found.symmetries) == ("degenerate", (0, 1, 1), 0)
        assert found.gradient_norm <= 1e-14
        close(found.objective, 16 + 3 + 3, 1e-14)
        for square in (0.3, 0.01):
            beside = torch.tensor([[square], [1 - 2 * square / 3]]).double().sqrt()
            close(found.objective - objective(Autoencoder(beside), data, masks), 2 * square**2 / 3, 1e-7)

    @pytest.mark.parametrize(("share", "strict"), [(0.0, False), (1e-11, False), (5e-10, False), (4e-9, True)])
    def test_a_saddle_is_escaped_where_it_bends_by_more_than_rounding(self, share: float, strict: bool) -> None:
        """The same point, M_1 = 4 (1 + 3 share): the curvature along the first axis is -48 share."""
        M, C = torch.tensor([[4.0 * (1 + 3 * share), 2.0], [1.0, 3.0]], dtype=torch.float64)
        data, masks = Moments(torch.diag(C), torch.diag(M * C), torch.diag(M * C * M)), Bernoulli(0.5, 1)
        model = Autoencoder(torch.tensor([[0.0], [1.0]]).double())
        if not strict:
            with pytest.raises(ValueError, match="no strict saddle"):
                landscapes.escape(model, data, masks)
            return
        way = landscapes.escape(model, data, masks)
        assert way.curvature == pytest.approx(-48 * share, rel=1e-5)
        close(way.direction[0].abs(), [[1.0], [0.0]], 1e-12)

    def test_lanczos_finds_the_same_direction(self, monkeypatch: pytest.MonkeyPatch) -> None:
        zero = TwoLayerLinear(torch.zeros(3, 4).double(), torch.zeros(4, 4).double())
        dense = landscapes.escape(zero, sample(), Bernoulli(0.4, 4))
        monkeypatch.setattr("droptics.landscapes.inspection.DENSE", 5)
        close(landscapes.escape(zero, sample(), Bernoulli(0.4, 4)).curvature, dense.curvature, 1e-6)
        with pytest.raises(ValueError, match="too many"):
            landscapes.inspect(zero, sample(), Bernoulli(0.4, 4))

    def test_deep_optimum(self) -> None:
        masks = Product([Bernoulli(0.2, 3), Bernoulli(0.3, 2)])
        best = optimum(DeepLinear, sample(), masks)
        found = landscapes.inspect(best.model, sample(), masks)
        assert found.kind == "global minimum"
        assert found.inertia[0] == 0
        assert found.inertia[1] >= found.symmetries == 5

    def test_deep_origin_is_degenerate(self) -> None:
        masks = Product([Bernoulli(0.2, 3), Bernoulli(0.3, 2)])
        zero = DeepLinear([torch.zeros(3, 4).double(), torch.zeros(2, 3).double(), torch.zeros(3, 2).double()])
        assert landscapes.inspect(zero, sample(), masks).kind == "degenerate"


@pytest.mark.parametrize("strength", [0.2, 0.5, 1.0])
def test_spurious_minimum_of_a_deep_network(strength: float) -> None:
    model, data, masks = landscapes.spurious_minimum(strength / (1 + strength))
    found = landscapes.inspect(model, data, masks)
    assert found.kind == "local minimum"
    assert found.inertia == (0, found.symmetries, 12 - found.symmetries)
    close(found.objective, 2 - 1 / (1 + strength / 2) ** 2, 1e-13)
    best = optimum(DeepLinear, data, masks)
    close(best.objective, 2 - 2 / (1 + strength) ** 2, 1e-13)
    assert found.objective > best.objective + 1e-3
    # descent from disturbed weights returns to it
    sizes = [weight.numel() for weight in model.weights]

    def evaluate(vector: np.ndarray) -> tuple[float, np.ndarray]:
        point = DeepLinear([part.reshape(2, 2) for part in torch.from_numpy(vector).split(sizes)])
        slope = torch.cat([part.flatten() for part in landscapes.gradient(point, data, masks)])
        return float(criterion(point, data, masks)), slope.numpy()

    start = torch.cat([weight.flatten() for weight in model.weights])
    for seed in range(3):
        disturbed = (start + 0.02 * normal(12, seed=seed)).numpy()
        end = minimize(evaluate, disturbed, jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10})
        close(end.fun, found.objective, 1e-8)


def test_a_step_of_a_portrait_is_the_printed_one():
    """u - size keep (grad of E (y - sum z u^2 x)^2) / 2, with the mask that the seed draws."""
    data, starts = Moments.of_map(torch.tensor([[0.75]]).double()), torch.tensor([[1.2, 0.4], [-0.3, 0.8]]).double()
    rates = torch.tensor([0.5, 0.2]).double()
    masks = Bernoulli(rates, 2)
    path = landscapes.portrait(data, masks, starts, resolution=3, steps=1, step_size=0.05, seed=4).trajectories
    z = masks.multipliers(2, torch.Generator().manual_seed(4))
    leaf = starts.clone().requires_grad_()
    error = ((z * leaf.square()).sum(1) - 0.75).square().sum()
    (slope,) = torch.autograd.grad(error, leaf)
    close(path[:, 0], starts, 1e-15)
    close(path[:, 1], starts - 0.05 * (1 - rates) * slope / 2, 1e-12)


def test_portrait_and_picture() -> None:
    data, masks = Moments.of_map(torch.tensor([[2.0]], dtype=torch.float64)), Bernoulli(1 / 3, 2)
    view = landscapes.portrait(data, masks, resolution=21, steps=600)
    u = (2 / 2.5) ** 0.5
    assert sorted(view.points) == ["global minimum", "local maximum", "strict saddle"]
    assert {tuple(round(abs(x), 6) for x in point) for point in view.points["global minimum"]} == {
        (round(u, 6), round(u, 6))
    }
    assert len(view.points["global minimum"]) == len(view.points["strict saddle"]) == 4
    close(view.values[3, 5], (2 - view.axis[5] ** 2 - view.axis[3] ** 2) ** 2
          + 0.5 * (view.axis[5] ** 4 + view.axis[3] ** 4), 1e-12)  # fmt: skip
    assert view.trajectories.shape == (2, 601, 2)
    assert float((view.trajectories[:, -200:].abs().mean(1) - u).abs().max()) < 0.15
    again = landscapes.portrait(data, masks, resolution=21, steps=600)
    assert torch.equal(view.trajectories, again.trajectories)
    flat = landscapes.portrait(data, Bernoulli(0.0, 2), resolution=5, steps=1)
    assert "global minimum" in flat.points  # points of the circle of minima on the axes
    figure = plots.landscape(view.axis.tolist(), view.values.tolist(), view.points, view.trajectories.tolist())
    assert plots.as_png(figure)[:4] == b"\x89PNG"


def test_samples_and_moments_agree() -> None:
    data = Sample(normal(9, 4), normal(9, 3, seed=1))
    model, masks = TwoLayerLinear(normal(3, 2), normal(4, 2)), Bernoulli(0.3, 2)
    first = landscapes.hessian(model, data, masks)
    close(landscapes.hessian(model, Moments.of_sample(data), masks), first, 1e-12)


def test_batches_and_laws_without_certificate() -> None:
    with pytest.raises(ValueError, match=r"one model, got a batch of shape \(2,\)"):
        landscapes.inspect(TwoLayerLinear(normal(2, 3, 4), normal(4, 4)), sample(), Bernoulli(0.4, 4))
    # correlated masks in a deep network: no known global optimum, so only the Hessian speaks
    zero = DeepLinear([torch.zeros(4, 4).double(), torch.zeros(2, 4).double(), torch.zeros(3, 2).double()])
    masks = Product([Block(0.2, 4, 2), Bernoulli(0.3, 2)])
    assert landscapes.inspect(zero, sample(), masks).kind == "degenerate"


def test_escape_from_a_deep_saddle() -> None:
    """The middle layer is alive, the outer ones are zero: strict, and the way out lowers the criterion."""
    model = DeepLinear([torch.zeros(3, 4).double(), normal(2, 3), torch.zeros(3, 2).double()], mask_inputs=False)
    masks = Product([Bernoulli(0.2, 3), Bernoulli(0.3, 2)])
    found = landscapes.inspect(model, sample(), masks)
    assert found.kind == "strict saddle"
    out = landscapes.escape(model, sample(), masks)
    assert out.curvature < 0
    assert out.objective < found.objective
    close(out.objective, float(criterion(out.model, sample(), masks)))
    assert isinstance(out.model, DeepLinear)


@pytest.mark.parametrize("variance", [0.25, 1.0, 3.0])
def test_points_of_a_portrait_have_no_slope_whatever_the_variance_of_the_input(variance: float) -> None:
    """E x^2 = v, E x y = 2 v: v times the criterion of y = 2 x, so the points are those of v = 1."""
    moments = [torch.tensor([[value]], dtype=torch.float64) for value in (variance, 2 * variance, 4 * variance + 1)]
    rates = torch.tensor([0.5, 0.2], dtype=torch.float64)
    view = landscapes.portrait(Moments(*moments), Bernoulli(rates, 2), resolution=3, steps=1)
    strengths = rates / (1 - rates)

    def value(u: torch.Tensor) -> torch.Tensor:
        squares = u.square()
        return (2 - squares.sum()) ** 2 + strengths @ squares.square()

    found = [torch.tensor(point, dtype=torch.float64) for points in view.points.values() for point in points]
    assert len(found) == 9
    for point in found:
        assert float(torch.func.grad(value)(point).abs().max()) <= 1e-12
    for alone, strength in enumerate(strengths.tolist()):
        sizes = [abs(float(point[alone])) for point in found if point[1 - alone] == 0 != point[alone]]
        assert sizes == pytest.approx([(2 / (1 + strength)) ** 0.5] * 2)


@pytest.mark.parametrize("certain", [0, 1])
def test_a_unit_that_never_falls_does_all_of_a_portrait(certain: int) -> None:
    """Beside it the other is zero at both minima, and not what rounding leaves of zero."""
    data = Moments(*(torch.tensor([[value]], dtype=torch.float64) for value in (1.5, 1.2, 2.0)))
    for rate in (0.11, 0.17, 0.37, 0.5, 0.62, 0.95):
        rates = torch.tensor([rate, 0.0], dtype=torch.float64).roll(1 - certain)
        points = landscapes.portrait(data, Bernoulli(rates, 2), resolution=2, steps=1).points
        ends = [tuple(abs(weight) for weight in point) for point in points["global minimum"]]
        assert [end[1 - certain] for end in ends] == [0.0, 0.0]
        assert [end[certain] for end in ends] == pytest.approx([0.8**0.5] * 2)
        assert {kind: len(places) for kind, places in points.items()} == {
            "local maximum": 1,
            "strict saddle": 2,
            "global minimum": 2,
        }


def test_circles_of_minima_are_shown_by_their_points_on_the_axes() -> None:
    """Where units fall at once the criterion is one of the sum of squares."""
    data = Moments(*(torch.tensor([[value]], dtype=torch.float64) for value in (1.5, 1.2, 2.0)))
    pairs = torch.tensor([[0.0, 0.0], [0.7, 1.4], [1.1, 2.2]], dtype=torch.float64)
    listed = Discrete(pairs, torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64))
    for law in (Bernoulli(0.0, 2), Block(0.3, 2, 2), SlidingBlock(0.3, 2, 2, "valid"), listed):
        points = landscapes.portrait(data, law, resolution=2, steps=1).points
        assert {kind: len(places) for kind, places in points.items()} == {"local maximum": 1, "global minimum": 4}
        size = (0.8 / (1 + float(law.characteristic[0, 0]))) ** 0.5
        assert sorted(points["global minimum"]) == [
            (pytest.approx(x), pytest.approx(y)) for x, y in ((-size, 0.0), (0.0, -size), (0.0, size), (size, 0.0))
        ]


def test_portrait_of_a_map_that_tied_weights_cannot_make() -> None:
    """Y = -2 x: the squares of the weights would have to be negative, so only the origin is critical."""
    data = Moments.of_map(torch.tensor([[-2.0]], dtype=torch.float64))
    view = landscapes.portrait(data, Bernoulli(1 / 3, 2), resolution=5, steps=2)
    assert view.points == {"global minimum": [(0.0, 0.0)]}


def test_rotations_of_wide_data_are_not_counted() -> None:
    """Beyond a bound on their number the rotations of the data are left out; rescalings still count."""
    model, width = TwoLayerLinear(normal(40, 2), normal(40, 2, seed=1)), 2
    data = Moments.of_map(torch.eye(40, dtype=torch.float64))
    assert symmetry_dimension(model, data) == width
    small = TwoLayerLinear(normal(3, 2), normal(3, 2, seed=1))
    # a rotation of inputs and outputs together moves four vectors in three dimensions: all three directions count
    assert symmetry_dimension(small, Moments.of_map(torch.eye(3, dtype=torch.float64))) == width + 3


@pytest.mark.parametrize(
    ("values", "turns"), [((3.0, 2.0, 1.0), 0), ((2.0, 2.0, 1.0), 1), ((2.0, 2.0, 2.0), 3), ((2.0, 0.0, 0.0), 2)]
)
def test_rotations_are_those_that_turn_inside_equal_singular_values(values, turns):
    """A group of m equal values turns in m (m - 1) / 2 planes; where they are 0, inputs and outputs turn apart."""
    left, right = (torch.linalg.qr(normal(3, 3, seed=seed)).Q for seed in (1, 2))
    data = Moments.of_map((left * torch.tensor(values).double()) @ right.mT)
    model = TwoLayerLinear(normal(3, 4, seed=3), normal(3, 4, seed=4))
    assert symmetry_dimension(model, data) == 4 + turns


@pytest.mark.parametrize("size", [0.25, 2.0])
def test_a_point_is_critical_where_its_slope_is_small_beside_curvature_and_weights(size):
    """(1 - u^2)^2 + r u^4: its slope against tolerance times curvature times u, or tolerance where u is below."""
    strength = 1.0
    slope = abs(4 * size * (size**2 * (1 + strength) - 1))
    share = slope / abs(12 * size**2 * (1 + strength) - 4)
    model, data = Autoencoder(torch.full((1, 1), size).double()), Moments.of_map(torch.eye(1).double())
    for factor, critical in ((0.999, False), (1.001, True)):
        tolerance = factor * min(share / size, share**0.5)
        assert (landscapes.inspect(model, data, Bernoulli(0.5, 1), tolerance).kind != "not critical") == critical


@pytest.mark.parametrize("symmetric", [True, False])
def test_tied_networks_turn_as_far_as_the_symmetric_part_of_the_map_lets_them(symmetric):
    """x^T U U^T y sees that part alone: with 2 I + skew all turns keep the criterion, with diag(2, 2, 1) one plane."""
    skew = torch.linalg.cross(torch.eye(3).double(), torch.tensor([[1.0, 2.0, -1.0]]).double().expand(3, 3))
    part = 2 * torch.eye(3).double() if symmetric else torch.diag(torch.tensor([2.0, 2.0, 1.0]).double())
    data, masks = Moments.of_map(part + skew), Bernoulli(0.3, 2)
    model = Autoencoder(normal(3, 2))
    kept = 0
    for plane in itertools.combinations(range(3), 2):
        turn = torch.zeros(3, 3).double()
        turn[plane], turn[plane[::-1]] = 0.7, -0.7
        moved = criterion(Autoencoder(torch.matrix_exp(turn) @ model.U), data, masks)
        kept += abs(float(moved) - float(criterion(model, data, masks))) < 1e-12
    assert kept == (3 if symmetric else 1)
    assert symmetry_dimension(model, data) == kept


@pytest.mark.parametrize("correlation", [0.0, 0.5])
@pytest.mark.parametrize("family", [TwoLayerLinear, Autoencoder])
def test_rotations_of_correlated_inputs_are_no_symmetries(family, correlation: float) -> None:
    """E y x^T = I keeps under all turns of both sides, E x x^T and with it the criterion does not."""
    xx = torch.tensor([[1.0, correlation], [correlation, 1.0]]).double()
    data, masks = Moments(xx, torch.eye(2).double(), 4 * torch.eye(2).double()), Bernoulli(0.3, 3)
    weights = [normal(2, 3), normal(2, 3, seed=1)][: 2 if family is TwoLayerLinear else 1]
    turn = torch.matrix_exp(torch.tensor([[0.0, 0.4], [-0.4, 0.0]]).double())
    before, after = (float(criterion(family(*parts), data, masks)) for parts in (weights, [turn @ w for w in weights]))
    assert (abs(after - before) < 1e-12) == (correlation == 0)
    nodes = 3 if family is TwoLayerLinear else 0
    assert symmetry_dimension(family(*weights), data) == nodes + (correlation == 0)


@pytest.mark.parametrize("shift", [-40, 0, 40])
def test_symmetries_do_not_depend_on_units(shift):
    units = torch.tensor([1.0, 2.0**shift, 2.0**-shift], dtype=torch.float64)
    for size in (units[0], units[1]):
        data = Moments(torch.diag(units.square()), size * torch.diag(units), size**2 * torch.eye(3).to(units))
        model = TwoLayerLinear(size * normal(3, 2), normal(3, 2, seed=1) / units[:, None])
        assert symmetry_dimension(model, data) == 2 + 3  # nodes, and rotations of three inputs and outputs together


@pytest.mark.parametrize("shift", [-40, 40])
def test_the_kind_of_a_point_does_not_depend_on_units(shift):
    data, masks = sample(), Bernoulli(0.3, 3)
    units = torch.tensor([1.0, 2.0**shift, 1.0, 2.0**-shift], dtype=torch.float64)
    moved = Sample(data.inputs * units, data.targets * 2.0**shift)
    best = optimum(TwoLayerLinear, data, masks).model
    points = [
        best,
        TwoLayerLinear(torch.zeros(3, 3).double(), torch.zeros(4, 3).double()),
        TwoLayerLinear(normal(3, 3), normal(4, 3)),
    ]
    for model in points:
        there = TwoLayerLinear(model.U * 2.0**shift, model.V / units[:, None])
        deep = DeepLinear([there.V.mT, there.U])
        first = landscapes.inspect(model, data, masks)
        for given in (moved, Moments.of_sample(moved)):
            for other in (there, deep):
                again = landscapes.inspect(other, given, masks)
                assert (again.kind, again.inertia) == (first.kind, first.inertia)
                close(again.objective, first.objective * 4.0**shift, 1e-10)
    assert landscapes.inspect(best, data, masks).kind == "global minimum"


@pytest.mark.parametrize("family", [TwoLayerLinear, DeepLinear])
@pytest.mark.parametrize("beside", [1.0, 1e-3])
def test_rounded_weights_of_a_minimum_move_it_by_what_is_allowed(family, beside) -> None:
    """An optimum rounded to float32 is a global minimum, and what it may be off is far below the user's tolerance."""
    law = Bernoulli(0.3, 3) if family is TwoLayerLinear else Product([Bernoulli(0.2, 3), Bernoulli(0.3, 4)])
    for seed in range(10):
        inputs = normal(40, 4, seed=seed)
        inputs[:, 3] = inputs[:, 0] + beside * inputs[:, 3]  # large weights that cancel
        data = Sample(inputs, normal(40, 3, seed=seed + 50))
        best = optimum(family, data, law)
        single = rebuilt(best.model, [part.float() for part in best.model.tensors])
        allowed = inspection._rounded(single, data, law) - whiten(data).slack
        assert objective(single, data, law) - best.objective <= allowed + 1e-14 * best.scale
        assert allowed <= 1e-9 * best.scale / beside**2
        if beside == 1.0:
            assert landscapes.inspect(single, data.to(torch.float32), law).kind == "global minimum"


@pytest.mark.parametrize("tied", [False, True])
def test_where_all_inputs_are_zero_every_rotation_of_the_outputs_is_a_symmetry(tied):
    """Counted by the rank of all directions A U with A skew, and of U D with D diagonal unless the layers are tied."""
    U = normal(3, 2)
    directions = [] if tied else [np.outer(U[:, i], np.eye(2)[i]) for i in range(2)]
    for i, j in itertools.combinations(range(3), 2):
        turn = np.zeros((3, 3))
        turn[i, j], turn[j, i] = 1.0, -1.0
        directions.append(turn @ U.numpy())
    model = Autoencoder(U) if tied else TwoLayerLinear(U, normal(3, 2, seed=1))
    data = Moments(torch.zeros(3, 3).double(), torch.zeros(3, 3).double(), torch.eye(3).double())
    expected = np.linalg.matrix_rank(np.stack([direction.ravel() for direction in directions]))
    assert expected == (3 if tied else 5)
    assert symmetry_dimension(model, data) == expected


def test_rows_of_a_portrait_are_the_second_weight() -> None:
    """values[i, j] is the criterion at u = (axis[j], axis[i]), by hand under unequal rates."""
    data, odds = Moments.of_map(torch.full((1, 1), 1.5, dtype=torch.float64)), (1 / 9, 1.0)
    view = landscapes.portrait(data, Bernoulli(torch.tensor([0.1, 0.5], dtype=torch.float64), 2), resolution=4, steps=1)
    for i, second in enumerate(view.axis.tolist()):
        for j, first in enumerate(view.axis.tolist()):
            wanted = (1.5 - first**2 - second**2) ** 2 + odds[0] * first**4 + odds[1] * second**4
            close(view.values[i, j], torch.tensor(wanted, dtype=torch.float64), 1e-13)


@pytest.mark.parametrize("size", [2.0**-40, 1.0, 2.0**40])
def test_outputs_that_see_few_inputs_turn(size: float) -> None:
    """Rotations of five outputs that keep one move two columns: frames in four dimensions, of dimension five.

    However large the weights are, against which the sixth rotation is told to be none of its own.
    """
    data = Moments(torch.eye(1).double(), normal(5, 1), 90 * torch.eye(5).double())
    model = TwoLayerLinear(size * normal(5, 2, seed=1), size * normal(1, 2, seed=2))
    assert symmetry_dimension(model, data) == 5 + 2
