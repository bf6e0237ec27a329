"""Claims on files, data sets and the mechanism of evidence: what is written beside what is read and told."""

from __future__ import annotations

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own import (
    figure_run_checks,
    file_checks,
    mechanism_checks,
    module_file_checks,
    table_checks,
)
from droptics.papers.droptics_own.room_claims import pair, room_claim

READ = "Files are written here, byte by byte, and read."
TOY = "On a work of four statements and one figure."
CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "read-tables",
        "Ratings delimited by ::, tab, comma, semicolon or blank, the first of these that their first line holds, with "
        "lines that end in \\n or \\r\\n, with or without a header, in every order of columns are read as they were "
        "written but for quotes and blanks around fields, in pieces of every size, and the line at fault is named.",
        pair(table_checks.read_tables),
        ("datasets.read_chunks",),
        READ,
    ),
    room_claim(
        "read-documents",
        "Ratings as JSON objects, triples, columns or lines are read as they were written, whole numbers alike with "
        "quotes and without; a record at fault is named, by its number or line, its id or what it holds.",
        pair(table_checks.read_documents),
        ("datasets.read_chunks",),
        READ,
    ),
    room_claim(
        "stored-sets",
        "Digits, clothes, photographs, films and jokes are those of their makers' files, in every form of these.",
        pair(table_checks.stored_sets),
        ("datasets.mnist", "datasets.fashion_mnist", "datasets.cifar10", "datasets.movielens", "datasets.jester"),
        READ,
    ),
    room_claim(
        "planted-ratings",
        "Planted ratings have the rank, noise and activity that were asked for, and splits share all of them out.",
        pair(table_checks.planted),
        ("datasets.planted_ratings", "datasets.Ratings"),
        "By minors, variances and counts.",
    ),
    room_claim(
        "written-files",
        "Files are replaced whole or not at all, packed ones are read up to what they may unpack to, and what writers "
        "that are gone left is swept.",
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
        "them; objects, records and dates are refused.",
        pair(file_checks.arrays),
        ("files.arrays.read_npz", "files.arrays.read_npy", "files.arrays.write_arrays"),
        "Beside NumPy.",
    ),
    room_claim(
        "read-networks",
        "Exported, scripted and saved networks compute from their file what they computed before, and operators, "
        "shapes, pickles and pages that are not listed are refused.",
        pair(module_file_checks.module_files),
        ("files.modules.read_program", "files.modules.read_script", "files.modules.read_state"),
        READ,
    ),
    room_claim(
        "decided-verdicts",
        "Comparisons hold by one rule of tolerance, and verdicts follow from check, control and what stands beside.",
        pair(mechanism_checks.decided_verdicts),
        ("evidence.compare", "evidence.decide", "evidence.Comparison"),
        TOY,
    ),
    room_claim(
        "reproduced-figures",
        "Cells run once and resume, failures and skips are told; tables, manifests, the standing page and the gallery "
        "hold their numbers.",
        pair(figure_run_checks.reproduced_figures),
        ("evidence.figures.reproduce", "evidence.standing.standings", "evidence.gallery.build_gallery"),
        TOY,
    ),
    room_claim(
        "written-pages",
        "Tables of rows and pages of claims hold what they are made of; the local engine gives what the function "
        "gives, and engines are found by their names.",
        pair(mechanism_checks.written_pages),
        ("evidence.pages.claims_page", "evidence.pages.errata_page", "evidence.Local", "evidence.engine"),
        TOY,
    ),
)
