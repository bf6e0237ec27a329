"""White coordinates: roots of second moments, and the spectra and decompositions of maps in them."""

import pytest
import torch
from cases import normal
from compare import close

from droptics.data import Moments, Sample
from droptics.spectra.coordinates import frame, whiten

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
