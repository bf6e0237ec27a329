"""Tensors in files: weights that share places, names with dots, arrays that lie in another order, columns together."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from droptics.files.arrays import read_npy, read_npz, read_numpy_tensors, read_tensors, write_arrays, write_tensors
from droptics.files.modules import read_state
from droptics.files.pages import check_column, check_pages


@pytest.mark.parametrize(
    "shared",
    [
        torch.zeros(1).expand(2),
        torch.zeros(1).double().expand(5),
        torch.zeros(2, 1).expand(2, 3),
        torch.zeros(5).as_strided((3, 3), (1, 1)),
    ],
)
def test_weights_of_more_entries_than_places_are_refused(tmp_path, shared):
    torch.save({"x": shared}, tmp_path / "s.pt")
    with pytest.raises(ValueError, match="more entries than places"):
        read_state(tmp_path / "s.pt")


@pytest.mark.parametrize("name", ["net.pt", "net.v2.pt", "a.b.c.d.pt"])
def test_weights_are_read_whatever_dots_the_name_of_their_file_has(tmp_path, name):
    weights = {"w": torch.arange(12.0).reshape(3, 4), "v": torch.ones(2, dtype=torch.int16)}
    torch.save(weights | {"turned": weights["w"].T[1:]}, tmp_path / name)
    told = read_state(tmp_path / name)
    assert torch.equal(told["w"], weights["w"])
    assert torch.equal(told["v"], weights["v"])
    assert torch.equal(told["turned"], weights["w"].T[1:])


def test_what_is_written_has_its_entries_in_their_places(tmp_path):
    rows = np.arange(24.0).reshape(2, 3, 4)
    views = {"turned": rows.T, "columns": np.asfortranarray(rows), "some": rows[:, ::2, 1:], "back": rows[::-1]}
    write_arrays(tmp_path / "a.safetensors", views)
    for name, told in read_numpy_tensors(tmp_path / "a.safetensors")[0].items():
        assert np.array_equal(told, views[name]), name
    cube = torch.from_numpy(rows)
    parts = {"turned": cube.mT, "some": cube[:, ::2, 1:], "wide": cube[:, :1].expand(2, 3, 4)}
    write_tensors(tmp_path / "t.safetensors", parts)
    for name, tensor in read_tensors(tmp_path / "t.safetensors").items():
        assert torch.equal(tensor, parts[name]), name


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4), (0, 3)])
@pytest.mark.parametrize("kind", ["<f8", ">f4", "<i2", "<U3", "?"])
def test_arrays_of_numpy_are_read_in_the_order_in_which_they_lie(tmp_path, shape, kind):
    rows = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(kind)
    views = {"rows": rows, "columns": np.asfortranarray(rows), "turned": rows.T, "back": rows[::-1] if shape else rows}
    np.savez(tmp_path / "all.npz", **views)
    found = read_npz(tmp_path / "all.npz")
    for name, wanted in views.items():
        np.save(tmp_path / "one.npy", wanted)
        for told in (read_npy(tmp_path / "one.npy"), found[name]):
            assert told.shape == wanted.shape, name
            assert np.array_equal(told, wanted), name


def _column(name, length, size):
    places = {"data_page_offset": 4, "dictionary_page_offset": None, "total_compressed_size": length}
    kind = {"compression": "GZIP", "physical_type": "INT32", "num_values": 2}
    return SimpleNamespace(path_in_schema=name, total_uncompressed_size=size, **places, **kind)


def _page(size):
    """A header in Thrift's compact protocol: kind 0, `size` bytes from none, one value, plain; numbers are folded."""
    number, folded = b"", 2 * size
    while folded > 127:
        number, folded = number + bytes([folded & 127 | 128]), folded >> 7
    return b"\x15\x00\x15" + number + bytes([folded]) + b"\x15\x00\x2c\x15\x02\x15\x00\x00\x00"


def test_columns_and_pages_are_weighed_together(tmp_path):
    """Two of 128 MB and a byte are more than the 256 MB that any file may unpack to; one is not."""
    path = tmp_path / "x.parquet"
    for size, fits in ((2**27, True), (2**27 + 1, False)):
        path.write_bytes(b"PAR1" + 2 * _page(size))
        column = _column("x", path.stat().st_size - 4, 2)
        with path.open("rb") as stream:
            if fits:
                check_column(stream, path, column, 2)
            else:
                with pytest.raises(ValueError, match="refused as a bomb"):
                    check_column(stream, path, column, 2)
    path.write_bytes(b"PAR1" + 2 * _page(8))
    columns = [_column(name, path.stat().st_size - 4, 2**27 + 1) for name in ("x", "y.inner")]
    group = SimpleNamespace(num_rows=2, num_columns=2, column=columns.__getitem__)
    whole = SimpleNamespace(num_row_groups=1, num_rows=2, row_group=lambda _: group)
    check_pages(whole, ("x",), path)
    check_pages(whole, ("y",), path)
    with pytest.raises(ValueError, match="refused as a bomb"):
        check_pages(whole, ("x", "y"), path)
