"""Claims on files: what is written beside what is read."""

from __future__ import annotations

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.files import file_checks, module_file_checks, stored_file_checks
from droptics.papers.droptics_own.instruments import READ, pair, room_claim

CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "stored-in-full",
        "Page headers and columns of Parquet files that agree with their footer, packed streams up to their limit, "
        "wanted members of archives, ids that are numbers or text, downloaded ratings, and dense tensors of programs "
        "and state dicts are read as they were written. Every lie that was tried about one of these (sizes, counts, "
        "encodings, bombs, shared places, pickles) is refused in words that name it.",
        pair(stored_file_checks.stored_files),
        (
            "datasets.read_chunks",
            "datasets.movielens",
            "datasets.jester",
            "datasets.cifar10",
            "datasets.mnist",
            "datasets.planted_ratings",
        ),
        "Written byte by byte. Strings that Parquet keeps by prefixes or lengths are refused, as are bits and dates; "
        "whole numbers of floating columns are the same ids as integers.",
    ),
    room_claim(
        "written-files",
        "files.replacing and write_text replace a file whole or not at all, follow links, keep its mode, and write "
        "through pipes; they remove partial files of processes that are gone, and those of other machines after a day. "
        "opened unpacks .gz files to 2^25 bytes or 30 times their size, whichever is more, in pieces of 2^24 bytes at "
        "most, and refuses more. check_target and check_folder refuse, before anything is written, folders, files in "
        "place of folders, links in a circle on the way, other suffixes of what is no stream, and what may not be "
        "written.",
        pair(file_checks.written_files),
        ("files.replacing", "files.write_text", "files.check_target", "files.check_folder"),
        "Written out; links, modes and pipes on POSIX.",
    ),
    room_claim(
        "read-archives",
        "archives.zip_members gives the files of a zip archive and refuses names that are not plain ASCII paths below "
        "it, links, members that overlap, names that agree up to case and encrypted members. archives.unpack copies "
        "wanted members of zip and tar archives, the last of one name, refuses what climbs, leads out of the folder or "
        "is encrypted, and leaves out links of tar files.",
        pair(file_checks.archives),
        ("files.archives.unpack", "files.archives.zip_members"),
        READ,
    ),
    room_claim(
        "read-arrays",
        "arrays.read_npy and read_npz give arrays of numbers, truth values and text, of either order of axes, either "
        "byte order and versions 1 to 3 of the format, the shape and entries that NumPy reads, in this machine's byte "
        "order; objects, records, dates, durations, headers that disagree with their data and names beyond plain ASCII "
        "are refused. Safetensors written by write_arrays and write_tensors are read as they were.",
        pair(file_checks.arrays),
        ("files.arrays.read_npz", "files.arrays.read_npy", "files.arrays.write_arrays"),
        "Beside NumPy.",
    ),
    room_claim(
        "read-networks",
        "Networks read by modules.read_program, read_script and read_state have the outputs or weights they were saved "
        "with. Operators that torch does not register on tensors, shape expressions and trees that are not listed, "
        "pickles that bring code, never end or ask for more than their storage, tensors of more entries than places, "
        "tables that name other members, and pages that disagree with their footer are refused.",
        pair(module_file_checks.module_files),
        ("files.modules.read_program", "files.modules.read_script", "files.modules.read_state"),
        READ,
    ),
)
