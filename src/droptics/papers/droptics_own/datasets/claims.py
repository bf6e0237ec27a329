"""Claims on data sets: tables of ratings as files hold them."""

from __future__ import annotations

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.datasets import table_checks
from droptics.papers.droptics_own.instruments import READ, pair, room_claim

CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "read-tables",
        "read_chunks splits rows of text at the first of ::, tab, comma, semicolon and blank that the first line "
        "holds; users, items and ratings are those written, without quotes and blanks around fields, with lines that "
        "end in \\n or \\r\\n, columns in every order, by header or by `columns`, and pieces of every size. Users, or "
        "items, are numbers where all of a piece are plain whole numbers of 64 bits, else text. A first line of words "
        "alone is a header; the line at fault is named.",
        pair(table_checks.read_tables),
        ("datasets.read_chunks",),
        READ,
    ),
    room_claim(
        "read-documents",
        "read_chunks reads ratings from JSON as lists of objects or triples, objects of columns, and one object or "
        "triple a line: users, items and ratings are those written, plain whole numbers in quotes the numbers "
        "themselves where all ids of a piece are. A record at fault is named by its number or line, its id or what it "
        "holds.",
        pair(table_checks.read_documents),
        ("datasets.read_chunks",),
        READ,
    ),
    room_claim(
        "stored-sets",
        "mnist and fashion_mnist return images and labels of IDX files, plain or packed; cifar10 of batches in binary, "
        "pickled or .npz; movielens the ratings of u.data, ratings.dat or .npz; jester those of .csv, .xls or .npz, "
        "where 99 is none: numbers as written, from each of their folders below `folder`, and from `folder` itself "
        "where its name or files tell the set. Files whose sizes or counts disagree are refused.",
        pair(table_checks.stored_sets),
        ("datasets.mnist", "datasets.fashion_mnist", "datasets.cifar10", "datasets.movielens", "datasets.jester"),
        READ,
    ),
    room_claim(
        "planted-ratings",
        "planted_ratings stand at distinct pairs and are 3.5 + <a_i, b_j> + noise e_ij in float32: without noise and "
        "3.5 of rank at most `rank`, which large tables have, inner products of variance 1/2, e of variance 1. Where "
        "few cells are filled, expected shares of users and items are in proportion to powers -activity of their "
        "ranks. Ratings.split puts each rating, with its user and item, into one of two parts, in their order, all "
        "equally likely to be held out, and alike for one seed.",
        pair(table_checks.planted),
        ("datasets.planted_ratings", "datasets.Ratings"),
        "By minors, singular values, variances and counts, at fixed seeds.",
    ),
)
