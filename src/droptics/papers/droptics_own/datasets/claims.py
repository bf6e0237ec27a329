"""Claims on data sets: tables of ratings as files hold them."""

from __future__ import annotations

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.datasets import table_checks
from droptics.papers.droptics_own.instruments import READ, pair, room_claim

CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "read-tables",
        "Ratings delimited by ::, tab, comma, semicolon or blank, the first of these that their first line holds, with "
        "lines that end in \\n or \\r\\n, with or without a header, in every order of columns are read as they were "
        "written but for quotes and blanks around fields, in pieces of every size; a first line of words alone is a "
        "header, and the line at fault is named.",
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
        "Digits, clothes, photographs, films and jokes are those of their makers' files, in every form of these, from "
        "each folder that they may lie in.",
        pair(table_checks.stored_sets),
        ("datasets.mnist", "datasets.fashion_mnist", "datasets.cifar10", "datasets.movielens", "datasets.jester"),
        READ,
    ),
    room_claim(
        "planted-ratings",
        "Planted ratings have the rank, noise and activity that were asked for; splits share all of them out, each as "
        "often, in their order and the same for the same seed.",
        pair(table_checks.planted),
        ("datasets.planted_ratings", "datasets.Ratings"),
        "By minors, variances and counts.",
    ),
)
