"""MNIST, Fashion-MNIST and CIFAR-10 from their original files, as uint8 tensors."""

from __future__ import annotations

import io
import itertools
import math
import os
import pickle
import struct
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from droptics.arguments import check_arguments
from droptics.datasets.files import Remote, data_folder, locate, missing, places
from droptics.datasets.files import download as fetched
from droptics.files.archives import unpack
from droptics.files.arrays import read_npz
from droptics.files.limits import allowance, check_regular, opened
from droptics.files.pickles import check_pickle

Folder = str | os.PathLike[str]
Split = Literal["train", "test"]
Bytes = NDArray[np.uint8]

_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_FASHION = "https://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
_IDX_SHA256 = {
    ("mnist", "train-images-idx3-ubyte.gz"): "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ("mnist", "train-labels-idx1-ubyte.gz"): "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ("mnist", "t10k-images-idx3-ubyte.gz"): "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ("mnist", "t10k-labels-idx1-ubyte.gz"): "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ("fashion-mnist", "train-images-idx3-ubyte.gz"): "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    ("fashion-mnist", "train-labels-idx1-ubyte.gz"): "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    ("fashion-mnist", "t10k-images-idx3-ubyte.gz"): "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    ("fashion-mnist", "t10k-labels-idx1-ubyte.gz"): "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
}
_CIFAR = Remote("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530")


def mnist(folder: Folder | None = None, split: Split = "train", download: bool = False) -> tuple[Tensor, Tensor]:
    """Handwritten digits: images (n, 28, 28) uint8 and labels (n,) int64; 60000 in "train", 10000 in "test".

    Reads the four original IDX files (gzipped or not) from `folder/mnist`, or from `folder` itself.
    Cost: one reading of the files, after a download where one is asked for. Claim: none, it reads.
    """
    check_arguments(mnist, locals())
    return _idx_set("mnist", ("mnist", "MNIST/raw"), _MNIST, folder, split, download)


def fashion_mnist(
    folder: Folder | None = None, split: Split = "train", download: bool = False
) -> tuple[Tensor, Tensor]:
    """Clothing: images (n, 28, 28) uint8 and labels (n,) int64; 60000 in "train", 10000 in "test".

    Cost: one reading of the files, after a download where one is asked for. Claim: none, it reads.
    """
    check_arguments(fashion_mnist, locals())
    subfolders = ("fashion-mnist", "fashion_mnist", "FashionMNIST/raw")
    return _idx_set("fashion-mnist", subfolders, _FASHION, folder, split, download)


def cifar10(folder: Folder | None = None, split: Split = "train", download: bool = False) -> tuple[Tensor, Tensor]:
    """Small photographs: images (n, 3, 32, 32) uint8, channels red, green, blue, and labels (n,) int64.

    Reads, from `folder/cifar10` or from `folder` itself, the first of: the binary batches
    (`cifar-10-batches-bin/data_batch_1.bin`), the python batches (`cifar-10-batches-py/data_batch_1`), or coded npz
    files (`cifar10-train-a.npz`, ...: `labels` (n,) and `coded` (3, n, 32, 32), the planes G, R - G, B - G, each
    differenced along both axes modulo 256). Batches that are absent are left out, so "train" has up to 50000 images.
    Cost: one reading of the files, after a download where one is asked for. Claim: none, it reads.
    """
    check_arguments(cifar10, locals())
    folders = places(folder, ("cifar10", "cifar-10", "CIFAR10"))
    folders = [place / name for place in folders for name in ("", "cifar-10-batches-bin", "cifar-10-batches-py")]
    parts = _cifar_parts(folders, split)
    if not parts and download:
        target = data_folder(folder) / "cifar10"
        unpack(fetched(_CIFAR, target), target, lambda name: name.endswith(".bin"))
        parts = _cifar_parts([target / "cifar-10-batches-bin"], split)
    if not parts:
        raise missing("CIFAR-10", folder, "data_batch_1.bin" if split == "train" else "test_batch.bin")
    images, labels = map(np.concatenate, zip(*parts, strict=True))
    return torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64))


def _idx_set(
    title: str, subfolders: tuple[str, ...], address: str, folder: Folder | None, split: Split, fetch: bool
) -> tuple[Tensor, Tensor]:
    prefix = "train" if split == "train" else "t10k"
    arrays = []
    for name, dimensions in ((f"{prefix}-images-idx3-ubyte", 3), (f"{prefix}-labels-idx1-ubyte", 1)):
        path = locate(places(folder, subfolders), (name + ".gz", name))
        if path is None and fetch:
            remote = Remote(address + name + ".gz", "sha256:" + _IDX_SHA256[title, name + ".gz"])
            path = fetched(remote, data_folder(folder) / title)
        if path is None:
            raise missing(title, folder, name + ".gz")
        arrays.append(_read_idx(path, dimensions))
    images, labels = arrays
    if len(images) != len(labels):
        raise ValueError(f"{title} {split}: {len(images)} images but {len(labels)} labels; the files do not match")
    return torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64))


def _read_idx(path: Path, dimensions: int) -> Bytes:
    """An IDX file of bytes: two zeros, the type 8, the number of dimensions, the sizes (big endian), the data."""
    start = 4 + 4 * dimensions
    with opened(path) as stream:
        head = stream.read(start)
        if len(head) < start or head[:4] != bytes((0, 0, 8, dimensions)):
            raise ValueError(f"{path} is not an IDX file of {dimensions}-dimensional bytes; fetch the file again")
        shape = struct.unpack(f">{dimensions}I", head[4:])
        size = math.prod(shape)
        if size > allowance(path.stat().st_size):
            raise ValueError(f"{path} says shape {shape}, more than its size can hold; fetch the file again")
        content = b"".join(iter(lambda: stream.read(1 << 20), b""))
    if len(content) != size:
        raise ValueError(f"{path} holds {len(content)} bytes where shape {shape} needs {size}")
    return np.frombuffer(content, np.uint8).reshape(shape).copy()


def _cifar_parts(folders: list[Path], split: Split) -> list[tuple[Bytes, Bytes]]:
    stems = [f"data_batch_{i}" for i in range(1, 6)] if split == "train" else ["test_batch"]
    coded = [f"cifar10-train-{part}.npz" for part in "ab"] if split == "train" else ["cifar10-test.npz"]
    binary = [stem + ".bin" for stem in stems]
    readers = (binary, _read_cifar_binary), (stems, _read_cifar_python), (coded, _read_cifar_coded)
    for place, (names, reader) in itertools.product(folders, readers):
        found = [place / name for name in names if (place / name).is_file()]
        if found:
            return [reader(path) for path in found]
    return []


def _read_cifar_binary(path: Path) -> tuple[Bytes, Bytes]:
    """Records of one label byte and 3072 pixel bytes, channel by channel."""
    content = np.fromfile(path, np.uint8)
    if content.size == 0 or content.size % 3073:
        raise ValueError(f"{path} has {content.size} bytes, not a multiple of 3073; fetch the file again")
    records = content.reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32).copy(), records[:, 0].copy()


def _read_cifar_python(path: Path) -> tuple[Bytes, Bytes]:
    content = check_regular(path).read_bytes()
    try:
        check_pickle(content, {}, "its pickle")
        batch = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
        pixels, listed = batch[b"data"], batch[b"labels"]
        if type(pixels) is not np.ndarray or type(listed) is not list or not all(type(one) is int for one in listed):
            raise ValueError("it does not hold an array of pixels and a list of labels")
        labels = np.array(listed)
    except (pickle.PickleError, EOFError, LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} is not a CIFAR-10 python batch: {error}") from error
    if pixels.dtype != np.uint8 or pixels.shape != (len(labels), 3072):
        raise ValueError(f"{path} holds pixels of {pixels.dtype} {pixels.shape} for {len(labels)} labels")
    return pixels.reshape(-1, 3, 32, 32).copy(), labels.astype(np.uint8)


class _ArraysOnly(pickle.Unpickler):
    """Reads the published batches, which are pickles, with every name refused but those of plain arrays.

    Nothing from the file is ever called but the constructors of an array and of its data type.
    """

    def find_class(self, module: str, name: str) -> Any:
        allowed = {
            ("numpy.core.multiarray", "_reconstruct"): _empty_array,
            ("numpy._core.multiarray", "_reconstruct"): _empty_array,
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
            ("_codecs", "encode"): lambda text, _: text.encode("latin1"),
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no batch of images needs")
        return allowed[module, name]


def _empty_array(_kind: object, shape: tuple[int, ...], dtype: object) -> NDArray[Any]:
    if shape != (0,):
        raise pickle.UnpicklingError(f"it starts an array of shape {shape}, which NumPy never does")
    return np.ndarray.__new__(np.ndarray, shape, np.dtype(dtype))  # type: ignore[call-overload]


def _read_cifar_coded(path: Path) -> tuple[Bytes, Bytes]:
    stored = read_npz(path, "coded", "labels")
    coded, labels = stored["coded"], stored["labels"]
    if coded.dtype != np.uint8 or coded.shape != (3, len(labels), 32, 32):
        raise ValueError(f"{path} holds {coded.dtype} {coded.shape} for {len(labels)} labels, expected coded planes")
    planes = np.cumsum(np.cumsum(coded, 2, dtype=np.uint8), 3, dtype=np.uint8)
    green, red, blue = planes[0], planes[0] + planes[1], planes[0] + planes[2]
    return np.stack([red, green, blue], 1), labels
