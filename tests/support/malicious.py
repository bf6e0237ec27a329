"""Files made to run code, to write elsewhere or to take all memory; as a program it opens each and says what happened.

Run in a process of its own: `python malicious.py FOLDER` prints the outcome of every case, what was written besides,
and by how much the peak of memory grew. Each payload would leave a file called `sprung` in the folder.
"""

import io
import json
import os
import pickle
import struct
import sys
import tarfile
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from parquet_files import BYTE_ARRAY, GZIP, dictionary_pages, plain_page, write_parquet
from torch import nn

BIG = 3 << 30


class Trap:
    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return (os.system, (f"touch {self.folder}/sprung",))


def code(folder):
    return f"__import__('os').system('touch {folder}/sprung')"


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(3, 2)
        self.constant = torch.ones(2)

    def forward(self, x):
        return self.last(self.drop(self.first(x).relu())) * self.constant


class Writer(nn.Module):
    def forward(self, x):
        return x + torch.from_file("sprung", shared=True, size=4).sum()


def save_program(path):
    program = torch.export.export(Small(), (torch.zeros(2, 4),), dynamic_shapes=({0: torch.export.Dim("n")},))
    torch.export.save(program, path)


def rewrite(source, target, edit=None, extra=(), skip=(), packed=()):
    """Copy an archive; `edit` maps ends of names to functions of their content."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that come twice
        root = old.namelist()[0].split("/")[0]
        for name, content in extra:
            if name.startswith("first:"):
                new.writestr(f"{root}/{name[6:]}", content)
        for name in old.namelist():
            content = old.read(name)
            if any(name.endswith(end) for end in skip):
                continue
            for end, change in (edit or {}).items():
                if name.endswith(end):
                    content = change(content)
            kind = zipfile.ZIP_DEFLATED if any(name.endswith(end) for end in packed) else zipfile.ZIP_STORED
            new.writestr(name, content, kind)
        for name, content in extra:
            if not name.startswith("first:"):
                new.writestr(f"{root}/{name}", content)
    return target


def as_json(change):
    def edit(content):
        value = json.loads(content)
        change(value)
        return json.dumps(value).encode()

    return edit


WEIGHTS, CONSTANTS, GRAPH = "weights_config.json", "constants_config.json", "models/model.json"


def programs(folder, base):
    trap = pickle.dumps(Trap(folder))
    trap += bytes(-len(trap) % 16)  # whole numbers of every width: a reader may take it for a tensor's data first
    saved, clean = io.BytesIO(), io.BytesIO()
    torch.save(Trap(folder), saved)
    torch.save(torch.zeros(3, 4), clean)
    saved, clean = saved.getvalue(), clean.getvalue()

    def weight(**fields):
        return {WEIGHTS: as_json(lambda table: table["config"]["first.weight"].update(fields))}

    def constant(path_name):
        return {
            CONSTANTS: as_json(
                lambda table: table["config"]["constant"].update(path_name=path_name, use_pickle=True, tensor_meta=None)
            )
        }

    def graph(change):
        return {GRAPH: as_json(lambda value: change(value["graph_module"], value))}

    def node(module, **fields):
        module["graph"]["nodes"][0].update(fields)

    def rename(module):
        old, new = module["graph"]["nodes"][0]["name"], f"a = {code(folder)}; b"
        text = json.dumps(module).replace(json.dumps(old), json.dumps(new))
        module.clear()
        module.update(json.loads(text))

    def signature(module, **fields):
        module["module_call_graph"][0]["signature"].update(fields)

    enum = json.dumps({"__enum__": True, "fqn": "sprung_module:E", "name": "A"})
    tree = json.dumps([1, {"type": "builtins.dict", "context": enum, "children_spec": []}])
    shape = {"as_expr": {"expr_str": code(folder), "hint": None}}
    file_call = {
        "target": "torch.ops.aten.from_file.default",
        "inputs": [
            {"name": "filename", "arg": {"as_string": f"{folder}/sprung"}, "kind": 1},
            {"name": "shared", "arg": {"as_bool": True}, "kind": 1},
            {"name": "size", "arg": {"as_int": 4}, "kind": 1},
        ],
    }
    system = {
        "target": "torch.os.system",
        "inputs": [{"name": "x", "arg": {"as_string": f"touch {folder}/sprung"}, "kind": 1}],
    }
    vast = {
        "dtype": 7,
        "sizes": [{"as_int": 10**12}],
        "strides": [{"as_int": 0}],
        "storage_offset": {"as_int": 0},
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "layout": 7,
    }
    sub = "data/weights/sub/weight_0"
    return {
        "pickled weight": {"edit": weight(use_pickle=True) | {"weights/weight_0": lambda _: saved}},
        "weight in a folder": {"edit": weight(use_pickle=True, path_name="sub/weight_0"), "extra": [(sub, saved)]},
        "weight in other case": {
            "edit": weight(use_pickle=True, path_name="WEIGHT_0") | {"weights/weight_0": lambda _: saved}
        },
        "weight that climbs": {
            "edit": weight(use_pickle=True, path_name="../weight_0"),
            "extra": [("data/weights/../weight_0", saved)],
        },
        "member in other case": {"extra": [("data/weights/Weight_0", saved)]},
        "duplicate member": {  # zipfile reads the last, torch the first
            "extra": [("first:data/weights/weight_0", saved)],
            "edit": weight(use_pickle=True) | {"weights/weight_0": lambda _: clean},
        },
        "duplicate table": {
            "extra": [("first:data/weights/model_weights_config.json", json.dumps({"config": {}}).encode())]
        },
        "opaque constant": {"edit": constant("opaque_obj_0"), "extra": [("data/constants/opaque_obj_0", trap)]},
        "opaque constant, not pickled": {
            "edit": {CONSTANTS: as_json(lambda table: table["config"]["constant"].update(path_name="opaque_obj_0"))},
            "extra": [("data/constants/opaque_obj_0", trap)],
        },
        "custom object": {"edit": constant("custom_obj_0"), "extra": [("data/constants/custom_obj_0", trap)]},
        "pickled example inputs": {"edit": {"sample_inputs/model.pt": lambda _: saved}},
        "weights of an older format": {"extra": [("data/weights/model.pt", saved)]},
        "constants of an older format": {"extra": [("data/constants/model.pt", saved)]},
        "program of an older format": {"skip": ["model.json"], "extra": [("serialized_state_dict.pt", saved)]},
        "compiled library": {"extra": [("data/aotinductor/model/x.so", b"\x7fELF")]},
        "second program": {"extra": [("models/other.json", b"{}"), ("data/sample_inputs/other.pt", saved)]},
        "call of the system": {"edit": graph(lambda module, _: node(module, **system))},
        "call that writes a file": {"edit": graph(lambda module, _: node(module, **file_call))},
        "code as a shape": {
            "edit": graph(lambda module, _: module["graph"]["tensor_values"]["x"].update(sizes=[shape, {"as_int": 4}]))
        },
        "code as a guard": {"edit": graph(lambda _, value: value.update(guards_code=[code(folder)]))},
        "code as a name": {"edit": graph(lambda module, _: rename(module))},
        "code as an argument": {
            "edit": graph(lambda module, _: signature(module, forward_arg_names=[f"x={code(folder)}"]))
        },
        "import by a container": {"edit": graph(lambda module, _: signature(module, in_spec=tree))},
        "operator as a value": {
            "edit": graph(
                lambda module, _: module["graph"]["nodes"][0]["inputs"][0].update(
                    arg={"as_operator": "torch.os.system"}
                )
            )
        },
        "weight of absurd shape": {"edit": weight(tensor_meta=vast)},
        "packed weight": {"edit": {"weights/weight_0": lambda _: bytes(1 << 26)}, "packed": ["weights/weight_0"]},
    }


def zeros_packed(count):
    """A raw deflate stream of `count` MB of zeros, made without compressing them all."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * count + b"\x03\x00"


def zip_bomb(path, name, start, size):
    """One member that unpacks to `start` and zeros, `size` bytes in all."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH) + zeros_packed(size >> 20)
    total = len(start) + (size >> 20 << 20)
    raw = name.encode()
    local = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 8, 0, 33, 0, len(body), total, len(raw), 0) + raw
    central = struct.pack(
        "<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, 0, 8, 0, 33, 0, len(body), total, len(raw), 0, 0, 0, 0, 0, 0
    )
    offset = len(local) + len(body)
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, len(central) + len(raw), offset, 0)
    path.write_bytes(local + body + central + raw + end)
    return path


def gz_bomb(path, start, size):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH)
    path.write_bytes(head + zeros_packed(size >> 20) + bytes(8))
    return path


def gz_lines(path, line, copies):
    """Many copies of a megabyte of one line."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(line * ((1 << 20) // len(line))) + packer.flush(zlib.Z_FULL_FLUSH)
    path.write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + block * copies + b"\x03\x00" + bytes(8))
    return path


def npy(descr, shape, length=None):
    text = str({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text) if length is None else length) + text


def npz(path, content):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inputs.npy", content)
    return path


def tar(path, *members, mode="w"):
    with tarfile.open(path, mode) as packed:
        for name, fields in members:
            member = tarfile.TarInfo(name)
            for field, value in fields.items():
                setattr(member, field, value)
            packed.addfile(member, io.BytesIO(b"x" * (member.size if member.isreg() else 0)))
    return path


def zipped(path, name, attributes=0):
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = attributes << 16
        archive.writestr(info, "/")
    return path


def packed(path, kind):
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr("inside", bytes(range(256)) * 16)
    return path


def damaged(path):
    """The same file with other bytes where its content begins."""
    content = path.read_bytes()
    return write(path, content[:50] + bytes(byte ^ 255 for byte in content[50:70]) + content[70:])


def sparse_tar(path):
    """A member of a terabyte of holes."""
    member = tarfile.TarInfo("holes.bin")
    member.type, member.size = tarfile.GNUTYPE_SPARSE, 512
    block = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    block[386:398], block[398:410] = b"%011o\0" % 0, b"%011o\0" % 512
    block[483:495] = b"%011o\0" % (1 << 32)
    block[148:156] = b"        "
    block[148:156] = b"%06o\0 " % sum(block[:512])
    path.write_bytes(bytes(block[:512]) + bytes(512) + bytes(1024))
    return path


def cases(folder):
    """Every case: its name, and what opens the file."""
    from droptics import datasets
    from droptics.files.archives import unpack
    from droptics.files.arrays import read_npy
    from droptics.recommenders import DropoutCompletion

    inside = folder / "in"
    inside.mkdir()
    np.savez(folder / "data.npz", inputs=np.ones((4, 4), np.float32), targets=np.zeros(4, np.int64))
    base = folder / "base.pt2"
    save_program(base)
    found = {}

    def command(name, *arguments):
        found[name] = lambda: run(*arguments)

    def model(name, path):
        command(f"audit: {name}", "audit", path, "--data", folder / "data.npz", "--draws", 2)
        command(f"attack: {name}", "attack", path, "--data", folder / "data.npz", "--method", "fgsm")

    for number, (name, how) in enumerate(programs(folder, base).items()):
        model(name, rewrite(base, folder / f"program{number}.pt2", **how))
    model("not a zip", write(folder / "plain.pt2", pickle.dumps(Trap(folder))))

    write(folder / "bare.pt", pickle.dumps(Trap(folder)))
    torch.save({"weight": Trap(folder)}, folder / "state.pt")
    torch.save({"weight": torch.ones(1).as_strided((10**6, 10**6), (0, 0))}, folder / "vast.pt")
    torch.save({"weight": torch.zeros(1 << 22)}, folder / "zeros.pt")
    rewrite(folder / "zeros.pt", folder / "bomb.pt", packed=["data/0"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Writer()).save(folder / "writer.pt")
    for name in ("bare", "state", "vast", "bomb", "writer"):
        command(f"state: {name}", "attack", folder / f"{name}.pt", "--data", folder / "data.npz")

    arrays = {
        "objects": npz(folder / "objects.npz", np_objects(folder)),
        "shape of a trillion": npz(folder / "trillion.npz", npy("<f8", (10**12,))),
        "header of gigabytes": npz(folder / "header.npz", npy("<f8", (1,), length=2**32 - 1)),
        "negative shape": npz(folder / "negative.npz", npy("<f8", (-1,))),
        "records": npz(folder / "records.npz", npy([("a", "O")], (1,))),
        "deep header": npz(folder / "deep.npz", npy("<f8", "(" * 5000)),
        "bomb": zip_bomb(folder / "bomb.npz", "inputs.npy", npy("<f8", (BIG >> 3,)), BIG),
        "climbing member": zipped(folder / "climb.npz", "../inputs.npy"),
        "pickle": write(folder / "pickle.npz", pickle.dumps(Trap(folder))),
    }
    for name, path in arrays.items():
        command(f"array: {name}", "optimum", "--data", path, "--drop", 0.5, "--width", 2)
    write(folder / "o.npy", np_objects(folder))
    found["array: pickled .npy"] = lambda: read_npy(folder / "o.npy")

    tensors = {
        "header of exabytes": struct.pack("<Q", 1 << 60) + b"{}",
        "offsets outside": safetensors({"U": {"dtype": "F64", "shape": [10**9], "data_offsets": [0, 8 * 10**9]}}),
        "overflowing shape": safetensors({"U": {"dtype": "F64", "shape": [2**62, 4], "data_offsets": [0, 8]}}),
    }
    for number, (name, content) in enumerate(tensors.items()):
        path = write(folder / f"tensors{number}.safetensors", content)
        command(f"tensors: {name}", "penalty", path, "--data", folder / "data.npz", "--drop", 0.5)
        found[f"completion: {name}"] = lambda path=path: DropoutCompletion.load(path)

    tables = {
        "line without end": gz_bomb(folder / "line.csv.gz", b"1,", BIG),
        "endless lines": gz_lines(folder / "lines.csv.gz", b"1,1,5\n", 300),
        "long field": write(folder / "field.csv", b'"' + b"x" * 200_000 + b'",1,5\n'),
        "deep JSON": write(folder / "deep.json", b"[" * 10**6),
        "JSON bomb": gz_bomb(folder / "zeros.json.gz", b"[", BIG),
        "sheet": write(folder / "sheet.parquet", b"PAR1" + struct.pack("<I", 2**31) + b"PAR1"),
        "endless rows": rows(folder / "rows.parquet"),
        "page of gigabytes": write_parquet(
            folder / "page.parquet", 5, plain_page(range(5), GZIP, size=2**31 - 1), codec=GZIP
        ),
        "dictionary of billions": write_parquet(
            folder / "words.parquet", 5, dictionary_pages(b"ann", 5, words=2**31 - 1), kind=BYTE_ARRAY
        ),
        "text in every row": write_parquet(
            folder / "text.parquet", 20_000, dictionary_pages(b"x" * 100_000, 20_000), kind=BYTE_ARRAY
        ),
        "one long id": write(folder / "long.csv", b"x" * 100_000 + b",i,1\n" + b"a,i,1\n" * 20_000),
    }
    for name, path in tables.items():
        command(f"table: {name}", "complete", path, "--no-save", "--sweeps", 1, "--width", 1)

    link = {"type": tarfile.SYMTYPE, "linkname": str(folder)}
    hard = {"type": tarfile.LNKTYPE, "linkname": "../data.npz"}
    archives = {
        "tar that climbs": tar(folder / "climb.tar", ("../sprung", {"size": 1})),
        "tar at the root": tar(folder / "root.tar", (f"{folder}/sprung", {"size": 1})),
        "tar through a link": tar(folder / "link.tar", ("door", link), ("door/sprung2", {"size": 1})),
        "tar with a hard link": tar(folder / "hard.tar", ("sprung", hard)),
        "tar with holes": sparse_tar(folder / "holes.tar"),
        "packed tar of zeros": tar_bomb(folder / "zeros.tar.gz"),
        "zip that climbs": zipped(folder / "climb.zip", "../sprung"),
        "zip with a link": zipped(folder / "link.zip", "sprung", 0o120777),
        "zip of zeros": zip_bomb(folder / "zeros.zip", "zeros.bin", b"", BIG),
        "tar with a damaged stream": damaged(tar(folder / "damaged.tar.xz", ("inside", {"size": 4000}), mode="w:xz")),
        **{
            f"zip with a damaged member, packed by {kind}": damaged(packed(folder / f"damaged{kind}.zip", kind))
            for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
        },
    }
    for name, path in archives.items():
        found[f"archive: {name}"] = lambda path=path: unpack(path, inside, lambda _: True)

    (folder / "mnist").mkdir()
    (folder / "cifar").mkdir()
    idx = bytes((0, 0, 8, 3)) + struct.pack(">III", 60000, 2**15, 2**15)
    write(folder / "mnist" / "train-images-idx3-ubyte", idx)
    found["images: billions of pixels"] = lambda: datasets.mnist(folder / "mnist")
    gz_bomb(folder / "mnist" / "t10k-images-idx3-ubyte.gz", bytes((0, 0, 8, 3)) + struct.pack(">III", 1, 28, 28), BIG)
    found["images: packed zeros"] = lambda: datasets.mnist(folder / "mnist", "test")
    write(folder / "cifar" / "data_batch_1", pickle.dumps({b"data": Trap(folder), b"labels": []}, 2))
    found["images: pickled call"] = lambda: datasets.cifar10(folder / "cifar")
    write(folder / "cifar" / "test_batch", b"\x80\x02}r" + struct.pack("<I", 2**31 - 1) + b".")
    found["images: pickle that asks for memory"] = lambda: datasets.cifar10(folder / "cifar", "test")
    return found


def np_objects(folder):
    buffer = io.BytesIO()
    np.save(buffer, np.array([Trap(folder)], object), allow_pickle=True)
    return buffer.getvalue()


def safetensors(header):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(8)


def rows(path):
    import pyarrow as pa
    from pyarrow import parquet

    column = np.zeros(1_000_000, np.int8)
    part = pa.table({"user": column, "item": column, "rating": column})
    with parquet.ParquetWriter(path, part.schema) as writer:
        for _ in range(12):
            writer.write_table(part)
    return path


def tar_bomb(path):
    member = tarfile.TarInfo("zeros.bin")
    member.size = BIG
    return gz_bomb(path, member.tobuf(), BIG)


def write(path, content):
    path.write_bytes(content)
    return path


def run(*arguments):
    """The command line in this process; whatever it prints is kept from the answer."""
    from commands import droptics

    done = droptics(*arguments)
    if "Traceback" in done.stderr or "unexpected" in done.stderr:
        raise RuntimeError(done.stderr)
    if done.returncode:
        raise ValueError(done.stderr)


def outcome(open_file):
    try:
        open_file()
    except ValueError as error:
        return f"refused: {error}"[:300]
    except Exception as error:
        return f"broke: {type(error).__name__}: {error}"[:2000]
    return "read"


def peak():
    """Most kilobytes that this process has held; what getrusage says is inherited from the process that started it."""
    if sys.platform.startswith("linux"):
        return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
    if sys.platform == "win32":
        return 0  # not measured there
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(folder):
    found = cases(folder)
    made = {str(path) for path in folder.parent.rglob("*")}
    results = {}
    before = peak()  # torch alone takes gigabytes where it knows a GPU
    os.chdir(folder)
    for name, open_file in found.items():
        results[name] = outcome(open_file)
        if (folder / "sprung").exists():
            results[name] = "RAN CODE"
            (folder / "sprung").unlink()
    after = {str(path) for path in folder.parent.rglob("*")}
    total = peak()
    memory = {"before": before, "growth": total - before, "total": total}
    print(json.dumps({"results": results, "written": sorted(after - made), **memory}))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(Path(sys.argv[1]).resolve())
