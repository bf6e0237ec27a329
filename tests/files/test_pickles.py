"""Pickles that name nothing foreign and are hostile all the same: storages that lie, keys without end, far places."""

import pickle
import struct
import warnings
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

from droptics.datasets import cifar10
from droptics.files import pickles
from droptics.files.modules import read_script, read_state
from droptics.files.pickles import check_pickle

START = b"\x80\x02"
# a tuple of two of the one before, forty-five times: 2^45 steps to hash
ENDLESS = b"K\x01q\x00" + b"".join(b"h%c\x86q%c" % (k, k + 1) for k in range(45))


def rewritten(source, target, edit):
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, edit(name, old.read(name)))
    return target


@pytest.fixture
def state(tmp_path):
    torch.save({"weight": torch.ones(2, 3)}, tmp_path / "state.pt")
    return tmp_path / "state.pt"


@pytest.fixture
def script(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates scripting
        torch.jit.script(nn.Linear(3, 2, bias=False)).save(tmp_path / "script.pt")
    return tmp_path / "script.pt"


def larger(name, content):
    """A storage of six numbers as one of ten thousand, and the tensor as long."""
    if not name.endswith("data.pkl"):
        return content
    many = b"M" + struct.pack("<H", 10_000)
    changed = content.replace(b"K\x06t", many + b"t")
    assert changed != content
    for row, column, one in ((b"K\x02K\x03\x86", b"K\x03K\x01\x86", b"\x86"), (b"(K\x02K\x03t", b"(K\x03K\x01t", b"t")):
        mark = row[:1] if row.startswith(b"(") else b""
        changed = changed.replace(row, mark + b"K\x01" + many + one).replace(column, mark + many + b"K\x01" + one)
    return changed


@pytest.mark.parametrize("kind", ["state", "script"])
def test_a_storage_larger_than_its_member_is_refused(kind, request, tmp_path):
    file, read = request.getfixturevalue(kind), {"state": read_state, "script": read_script}[kind]
    read(file)
    with pytest.raises(ValueError, match=r"asks for 40,000 bytes of a storage that holds 24; it is refused"):
        read(rewritten(file, tmp_path / "lies.pt", larger))


def test_a_key_that_is_never_hashed_to_its_end_is_refused(state, tmp_path):
    endless = START + b"}" + ENDLESS + b"K\x01s."
    with pytest.raises(ValueError, match="unfolds to millions of values"):
        read_state(
            rewritten(state, tmp_path / "key.pt", lambda name, old: endless if name.endswith("data.pkl") else old)
        )
    (tmp_path / "test_batch").write_bytes(endless)
    with pytest.raises(ValueError, match="unfolds to millions of values"):
        cifar10(tmp_path, split="test")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (START + b"}" + ENDLESS + b"\x85R.", "millions"),
        (START + b"](" + b"(" + b"K\x01" * 400 + b"tq\x00" + b"h\x00" * 20_000 + b"e.", "millions"),
        (START + b"}r\xff\xff\xff\x7f.", "more memory than it has entries"),
        (START + b"00.", "broken pickle"),
        (START + b"h\x07.", "broken pickle"),
        (START + b"}", "^here is a broken pickle"),
        (START + b"\xfe.", "^here is a broken pickle"),
        (START + b"t.", "broken pickle"),
        (START + b"(X\x07\x00\x00\x00storageK\x07X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06tQ.", "broken pickle"),
        (START + b"(X\x07\x00\x00\x00storagectorch\nNoStorage\nX\x01\x00\x00\x000NK\x06tQ.", "broken pickle"),
        (START + b"(X\x07\x00\x00\x00storagectorch\nDoubleStorage\nX\x01\x00\x00\x000NK\x04tQ.", "asks for 32 bytes"),
        (START + b"(X\x07\x00\x00\x00storagectorch\nDoubleStorage\nX\x01\x00\x00\x001NK\x04tQ.", "that holds 0"),
        (
            START + b"(X\x07\x00\x00\x00storagectorch\nByteStorage\nX\x01\x00\x00\x000NJ\xff\xff\xff\xfftQ.",
            "asks for -1",
        ),
    ],
)
def test_what_is_refused(content, reason):
    with pytest.raises(ValueError, match=reason):
        check_pickle(content, {"0": 24}, "here")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_people_save_passes(protocol):
    shared = (0.9, 0.999)
    groups = [{"betas": shared, "params": list(range(2_000))} for _ in range(5)]
    saved = {"groups": groups, "set": {1, 2}, "array": np.ones((30, 40)), "text": "x" * 10**6}
    check_pickle(pickle.dumps(saved, protocol), {}, "here")


def test_a_pickle_may_not_be_longer_than_what_is_remembered_of_it(monkeypatch):
    monkeypatch.setattr(pickles, "_MOST", 1000)
    with pytest.raises(ValueError, match="millions"):
        check_pickle(pickle.dumps(list(range(1000))), {}, "here")


def test_long_pickles_may_unfold_to_more_than_short_ones(monkeypatch):
    monkeypatch.setattr(pickles, "_FREE", 10)
    check_pickle(pickle.dumps(list(range(2_000))), {}, "here")
