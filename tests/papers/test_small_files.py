"""Figures that need data sets, run from miniature files of the same formats: they must not need the real ones.

What the papers print about the real sets need not hold on these; that every cell runs, and that the table, the picture
and the manifest are there, must.
"""

import gzip
import json
import struct

import numpy as np
import pytest

from droptics.datasets import planted_ratings
from droptics.papers import figures, reproduce

NEEDY = [figure.id for figure in figures() if figure.needs and "gpu" not in figure.needs]


def write_idx(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(head + array.tobytes(), 1))


def images(count, shape, seed):
    """Ten templates with noise on top, so that there is something to learn."""
    templates = np.random.default_rng(0).integers(0, 160, (10, *shape))
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count).astype(np.uint8)
    return (templates[labels] + rng.integers(0, 96, (count, *shape))).astype(np.uint8), labels


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("sets")
    for split, count in (("train", 1500), ("t10k", 400)):
        pixels, labels = images(count, (28, 28), count)
        write_idx(root / "mnist" / f"{split}-images-idx3-ubyte.gz", pixels)
        write_idx(root / "mnist" / f"{split}-labels-idx1-ubyte.gz", labels)
    batches = root / "cifar10" / "cifar-10-batches-bin"
    batches.mkdir(parents=True)
    for name, count in (("data_batch_1.bin", 600), ("test_batch.bin", 200)):
        pixels, labels = images(count, (3, 32, 32), count)
        np.concatenate([labels[:, None], pixels.reshape(count, -1)], 1).tofile(batches / name)
    ratings = planted_ratings((200, 150, 6000), rank=3, seed=0)
    values = np.clip(np.round(3 + ratings.values), 1, 5).astype(int)
    lines = [f"{u + 1}\t{i + 1}\t{v}\t0\n" for u, i, v in zip(ratings.users, ratings.items, values, strict=True)]
    (root / "movielens" / "ml-100k").mkdir(parents=True)
    (root / "movielens" / "ml-100k" / "u.data").write_text("".join(lines))
    return root


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDY)
def test_figures_run_from_files_of_the_right_format(folder, tmp_path, monkeypatch, name):
    monkeypatch.setenv("DROPTICS_DATA", str(folder))
    (artifact,) = reproduce(name, "smoke", tmp_path)
    assert not artifact.skipped
    assert not artifact.failures
    assert artifact.expectations
    assert artifact.picture.read_bytes().startswith(b"\x89PNG")
    manifest = json.loads(next(iter(tmp_path.rglob("manifest.json"))).read_text())
    assert manifest["scale"] == "smoke"


def test_absent_files_are_said_and_nothing_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("DROPTICS_DATA", str(tmp_path / "empty"))
    for artifact in reproduce(NEEDY, "smoke", tmp_path / "out"):
        assert "DROPTICS_DATA" in artifact.skipped
