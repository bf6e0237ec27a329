"""Named arrays: .npz and .npy without objects, .safetensors; headers are read and judged before the data."""

from __future__ import annotations

import ast
import json
import math
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file as save_tensors
from torch import Tensor

from droptics.arrays import Array
from droptics.files.archives import zip_members
from droptics.files.limits import check_regular
from droptics.files.writing import replacing

KINDS = "biufcUS"
"""Kinds of NumPy data that are read: booleans, whole and real and complex numbers, text; never objects or records."""
_HEADER = 10_000  # bytes of a .npy header; NumPy's own limit
_DIMENSIONS = 64


def read_npz(path: Path, *needed: str) -> dict[str, Array]:
    """The arrays of a .npz file, each of a listed kind and of the size its header says; some of which it must hold."""
    check_regular(path)
    if not zipfile.is_zipfile(path):  # NumPy would take it for a pickle
        raise ValueError(f"{path} cannot be read: it is not an archive of arrays, such as numpy.savez writes")
    arrays = {}
    with zip_members(path) as (archive, members):
        for name, info in members.items():
            if not name.endswith(".npy"):
                raise ValueError(f"{path} holds the member {name!r}, which is not an array (.npy); it is refused")
            with archive.open(info) as stream:
                arrays[name.removesuffix(".npy")] = _read_npy(stream, info.file_size, f"{path}: array {name[:-4]!r}")
    if absent := [name for name in needed if name not in arrays]:
        raise ValueError(f"{path} has no array {absent[0]!r}; it holds {sorted(arrays)}")
    return arrays


def read_npy(path: Path) -> Array:
    """The array of a .npy file."""
    with check_regular(path).open("rb") as stream:
        return _read_npy(stream, path.stat().st_size, str(path))


def _read_npy(stream: IO[bytes], size: int, name: str) -> Array:
    """One array of the NPY format: magic, version, length of the header, a literal that describes it, the data."""
    start = stream.read(8)
    wide = start[6:8] != b"\x01\x00"
    if start[:6] != b"\x93NUMPY" or start[6:7] not in (b"\x01", b"\x02", b"\x03"):
        raise ValueError(f"{name} is not an array that NumPy wrote without objects")
    length = int.from_bytes(stream.read(4 if wide else 2), "little")
    if length > _HEADER:
        raise ValueError(f"{name} has a header of {length:,} bytes, more than {_HEADER:,}; it is refused")
    dtype, shape, columns_first = _described(stream.read(length), name)
    wanted = math.prod(shape) * dtype.itemsize
    held = size - 8 - (4 if wide else 2) - length
    if wanted != held:
        raise ValueError(f"{name} says shape {shape} of {dtype}, {wanted:,} bytes, where {held:,} follow; refused")
    raw, filled = np.empty(wanted, np.uint8), 0
    while filled < wanted:
        piece = stream.read(min(wanted - filled, 1 << 24))
        if not piece:
            raise ValueError(f"{name} ends after {filled:,} of {wanted:,} bytes")
        raw[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
        filled += len(piece)
    native = raw.view(dtype).astype(dtype.newbyteorder("="), copy=False)
    return native.reshape(shape, order="F" if columns_first else "C")


def _described(header: bytes, name: str) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    try:
        literal = ast.literal_eval(header.decode("latin1").strip())
        kind, shape, columns_first = literal["descr"], literal["shape"], literal["fortran_order"]
        dtype = np.dtype(kind) if isinstance(kind, str) else None
    except (SyntaxError, ValueError, TypeError, KeyError, MemoryError, RecursionError) as error:
        raise ValueError(f"{name} has a header that cannot be read: {error}") from error
    if dtype is None or dtype.kind not in KINDS:
        raise ValueError(f"{name} holds {kind!r}, not numbers or text; objects and records are refused")
    fits = type(shape) is tuple and len(shape) <= _DIMENSIONS and all(type(side) is int and side >= 0 for side in shape)
    # sides beside a 0 count, too, for NumPy
    if not fits or not 0 < math.prod(max(side, 1) for side in shape) * dtype.itemsize < 2**63:
        raise ValueError(f"{name} has the shape {str(shape)[:80]} of {dtype}, which no array has")
    return dtype, shape, columns_first is True


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, on the CPU."""
    tensors: dict[str, Tensor] = _open_safetensors(path, "pt")[0]
    return tensors


def read_safetensors(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The tensors of a .safetensors file and the texts of its header."""
    return _open_safetensors(path, "pt")


def read_numpy_tensors(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays of a .safetensors file and the texts of its header."""
    return _open_safetensors(path, "numpy")


def _open_safetensors(path: Path, framework: str) -> tuple[dict[str, Any], dict[str, str]]:
    check_regular(path)
    try:
        with safe_open(path, framework=framework) as stored:
            names = list(stored.keys())
            return {name: stored.get_tensor(name) for name in names}, dict(stored.metadata() or {})
    except (SafetensorError, OSError, TypeError, KeyError, AttributeError, RuntimeError, MemoryError) as error:
        # the library raises error types of its own, and Python's for types of numbers it does not know
        raise ValueError(f"{path} cannot be read as safetensors: {error}") from error


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], texts: Mapping[str, str] | None = None
) -> None:
    """Replace a .safetensors file; a disk that is full or a folder that is read-only is an OSError as for any file."""
    _write(path, save_tensors, {name: value.detach().cpu().contiguous() for name, value in tensors.items()}, texts)


def write_arrays(
    path: str | os.PathLike[str], arrays: Mapping[str, Array], texts: Mapping[str, str] | None = None
) -> None:
    """Replace a .safetensors file by one of NumPy arrays."""
    _write(path, save_arrays, {name: np.ascontiguousarray(value) for name, value in arrays.items()}, texts)


def _write(
    path: str | os.PathLike[str],
    save: Callable[..., None],
    content: Mapping[str, Any],
    texts: Mapping[str, str] | None,
) -> None:
    with replacing(path) as partial:
        try:
            save(content, partial, dict(texts) if texts else None)
        except SafetensorError as error:
            raise OSError(f"{path} cannot be written: {error}") from error
        if texts and len(texts) > 1:
            _sort_texts(Path(partial))


def _sort_texts(path: Path) -> None:
    """Order the texts of a .safetensors header: the library writes them as its hash falls, every time another way."""
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        file.seek(8)
        file.write(json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode().ljust(length))
