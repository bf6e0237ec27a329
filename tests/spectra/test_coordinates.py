"""White coordinates: roots of second moments, and the spectra and decompositions of maps in them."""

from fractions import Fraction

import pytest
import torch
from cases import normal
from compare import close

from droptics.data import Measurements, Moments, Sample
from droptics.errors import NoClosedForm
from droptics.linalg.scales import least_singular
from droptics.masks import Bernoulli
from droptics.models import TwoLayerLinear
from droptics.optima import optimum
from droptics.spectra.coordinates import _qr_slack, check_isotropic, frame, whiten
from droptics.spectra.roots import Root

TALL = Sample(normal(60, 5), normal(60, 3, seed=1))
DATA = {
    "tall": TALL,
    "weighted": Sample(TALL.inputs, TALL.targets, torch.linspace(0.1, 2, 60).double()),
    "few": Sample(normal(3, 5), normal(3, 3, seed=1)),
    "nearly singular": Sample(torch.cat([TALL.inputs, TALL.inputs[:, :1] * (1 + 1e-6)], 1), TALL.targets),
    "moments": Moments.of_sample(TALL),
    "uncorrelated": Moments(
        torch.diag(torch.tensor([4.0, 1, 0, 9]).double()), torch.zeros(2, 4).double(), torch.eye(2).double()
    ),
    "map": Moments.of_map(normal(3, 5)),
    "singular": Moments(torch.ones(2, 2).double(), torch.ones(1, 2).double(), torch.ones(1, 1).double()),
}


@pytest.mark.parametrize("made", [frame, whiten])
@pytest.mark.parametrize("name", DATA)
def test_the_root_of_the_inputs_has_their_second_moment(name, made):
    data = DATA[name]
    moment, right = Moments.of(data).xx, made(data).right
    root, back = right.down(torch.eye(len(moment)).double()), right.up(torch.eye(len(right.energies)).double())
    close(root.mT @ root, moment, 1e-12)
    close(root @ back @ root, root, 1e-9)


@pytest.mark.parametrize(("outputs", "inputs", "width"), [(3, 5, 4), (3, 5, 2), (5, 3, 2), (4, 4, 9), (70, 66, 5)])
def test_spectrum_and_svd_are_those_of_the_map(outputs, inputs, width):
    data = Sample(normal(400, inputs), normal(400, outputs, seed=1))
    U, V = normal(outputs, width), normal(inputs, width, seed=1)
    U[:, 0] *= 2.0**60  # one node with a huge column and a tiny one
    V[:, 0] /= 2.0**60
    white = frame(data)
    root = white.right.down(torch.eye(inputs).double()).mT
    small = torch.tensor([2.0**-60, *[1.0] * (width - 1)]).double()
    image = (U * small) @ (V / small).mT @ root
    left, values, right = white.svd(U, V)
    size = float(torch.linalg.matrix_norm(image))
    close((left * values) @ right.mT, image, 1e-13, size)
    close(left.mT @ left, torch.eye(len(values)))
    close(right.mT @ right, torch.eye(len(values)))
    close(
        white.spectrum(U * small, V / small), torch.linalg.svdvals(image)[: min(outputs, inputs, width)], 1e-13 * size
    )


def in_fractions(model: TwoLayerLinear, data: Sample, strength: Fraction) -> Fraction:
    """Risk + strength sum_j |u_j|^2 E (v_j x)^2 of the numbers as they are."""
    U, V, X, Y = (
        [[Fraction(a) for a in row] for row in part.tolist()] for part in (*model.tensors, data.inputs, data.targets)
    )
    norms, total = [sum(u[j] ** 2 for u in U) for j in range(len(U[0]))], Fraction(0)
    for x, y in zip(X, Y, strict=True):
        hidden = [sum(a * v[j] for a, v in zip(x, V, strict=True)) for j in range(len(norms))]
        outputs = [sum(a * b for a, b in zip(u, hidden, strict=True)) for u in U]
        total += sum((a - b) ** 2 for a, b in zip(y, outputs, strict=True))
        total += strength * sum(a * b**2 for a, b in zip(norms, hidden, strict=True))
    return total / len(X)


@pytest.mark.parametrize(
    ("size", "apart", "safe"), [(4, 1e-3, True), (4, 1e-4, True), (4, 1e-6, False), (20, 5e-5, False)]
)
def test_a_criterion_is_measured_on_the_examples_where_the_rows_do_not_tell(
    size: int, apart: float, safe: bool
) -> None:
    """The third column is the first but for `apart`; the second is but for rounding, which the targets are about.

    Of 20 columns the second counts as the first on few rows, and weights of 1 / apart on both make that an error.
    """
    rows = normal(200, size + 2)
    level = 0.8 * least_singular(size)
    first, second = rows[:, :1], rows[:, :1] + level * rows[:, 2:3]
    inputs = torch.cat([first, second, first + apart * rows[:, 1:2], rows[:, 3:size]], 1)
    seen = (second - first) / level
    data = Sample(inputs, torch.cat([rows[:, 1:2] + seen, 0.1 * seen], 1))
    found = optimum(TwoLayerLinear, data, Bernoulli(0.05, 2))
    truth = in_fractions(found.model, data, Fraction(Bernoulli(0.05, 2).common_strength))
    # products of rows and weights lose size u / apart
    assert abs(Fraction(found.objective) - truth) <= (1e-10 + safe * 2 * level / apart) * found.scale
    assert whiten(data).safe == safe  # where few rows tell, nothing is asked of many


@pytest.mark.parametrize("weights", [None, torch.linspace(0.1, 2, 60).double()])
def test_a_column_that_depends_on_later_ones_plays_no_part(weights):
    """The pivots are those of the later columns, whose energies in units of their own are larger."""
    later = (2.0**20 * TALL.inputs).round() / 2.0**20
    later = 0.875 * later / 2 ** (later.square().mean(0).sqrt().log2().floor() + 1)
    inputs = torch.cat([later[:, :1] + later[:, 1:2], later], 1)
    law = Bernoulli(0.3, 4)
    both = [optimum(TwoLayerLinear, Sample(part, TALL.targets, weights), law) for part in (inputs, later)]
    close(both[0].objective, both[1].objective, 1e-12)
    close(both[0].bound, both[1].objective, 1e-12)
    close(inputs @ both[0].model.matrix().mT, later @ both[1].model.matrix().mT, 1e-9)


def test_four_times_as_many_rows_are_one_factorization_more():
    """Without anything beyond the inputs, rounding is a level times the energy; the level counts factorizations."""
    target, roots = normal(2, 5), torch.ones(5, dtype=torch.float64)
    one, three = (_qr_slack(target, 0.0, roots, count, 0.0) for count in (5, 16 * 5))
    assert three == pytest.approx(3 * one, rel=1e-12, abs=0)


def test_slack_holds_what_a_design_is_off_by():
    """Values along a direction that is longer than the others by far more than sums round, and no noise beside them."""
    design = torch.linalg.qr(normal(20, 6)).Q
    design[:, 0] *= 1 + 2e-14
    matrices = design.reshape(20, 3, 2)
    values = matrices[:, 0, 0]
    white = whiten(Measurements(matrices, values))
    energy = sum(Fraction(float(value)) ** 2 for value in values) / 20
    error = float(abs(Fraction(white.constant) + Fraction(float(white.target.square().sum())) - energy))
    assert 1e-14 * float(energy) < error <= white.slack


def test_features_without_energy_have_no_inverse():
    """The inverse is the pseudo-inverse of the root, whatever is multiplied by it."""
    root = Root.diagonal(torch.tensor([4.0, 0.0, 0.25]).double())
    assert torch.equal(torch.diag(root.inverse), torch.linalg.pinv(torch.diag(root.matrix)))


@pytest.mark.parametrize("made", [frame, whiten])
@pytest.mark.parametrize(
    "data", [Sample(normal(6, 3), torch.arange(6) % 2), Sample(normal(6, 3, 2), normal(6, 1))], ids=["labels", "images"]
)
def test_what_no_linear_network_maps_is_refused(made, data):
    with pytest.raises(ValueError, match="input vectors and floating-point targets for a linear network"):
        made(data)


@pytest.mark.parametrize("off", [-0.2, -1e-9, 1e-9, 0.2])
def test_inputs_are_isotropic_whatever_the_sign_of_their_correlations(off):
    """Rounding of float64 is allowed for, some 1e-13 here, and correlations of 1e-9 are thousands of that."""
    moment = torch.eye(4).double() + off * (1 - torch.eye(4).double())
    population = Moments(moment, torch.zeros(2, 4).double(), torch.eye(2).double())
    with pytest.raises(NoClosedForm, match="only for isotropic inputs"):
        check_isotropic(population)
    check_isotropic(Moments(3 * torch.eye(4).double(), population.yx, population.yy))
