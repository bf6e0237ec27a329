"""Claims on files: what is written beside what is read."""

from __future__ import annotations

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.files import file_checks, module_file_checks, stored_file_checks
from droptics.papers.droptics_own.instruments import READ, pair, room_claim

CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "stored-in-full",
        "Headers and pages of Parquet columns, packed streams, lengths of ids, tables of every kind of id, downloads "
        "and tensors of programs are read as they were written; each of the lies tried is refused alone.",
        pair(stored_file_checks.stored_files),
        (
            "datasets.read_chunks",
            "datasets.movielens",
            "datasets.jester",
            "datasets.cifar10",
            "datasets.mnist",
            "datasets.planted_ratings",
        ),
        "Written byte by byte.",
    ),
    room_claim(
        "written-files",
        "Files are replaced whole or not at all, and keep their mode; pipes are written through; packed files are "
        "read up to what they may unpack to; what writers that are gone left is swept; what may not be written is "
        "refused before.",
        pair(file_checks.written_files),
        ("files.replacing", "files.write_text", "files.check_target", "files.check_folder"),
        "Written out.",
    ),
    room_claim(
        "read-archives",
        "Members of archives come out whole; of a zip file that is read, what climbs, links, overlaps, repeats or is "
        "encrypted is refused; unpacking refuses what climbs or is encrypted, and leaves out links of tar files.",
        pair(file_checks.archives),
        ("files.archives.unpack", "files.archives.zip_members"),
        READ,
    ),
    room_claim(
        "read-arrays",
        "Arrays of numbers, truth values and text, of every order, byte order and version, are read as NumPy reads "
        "them; objects, records, dates, durations and archives with names beyond plain ASCII are refused.",
        pair(file_checks.arrays),
        ("files.arrays.read_npz", "files.arrays.read_npy", "files.arrays.write_arrays"),
        "Beside NumPy.",
    ),
    room_claim(
        "read-networks",
        "Exported, scripted and saved networks compute from their file what they computed before, and operators, "
        "shapes, pickles, tables of tensors and pages that are not listed, or reach too far, are refused.",
        pair(module_file_checks.module_files),
        ("files.modules.read_program", "files.modules.read_script", "files.modules.read_state"),
        READ,
    ),
)
