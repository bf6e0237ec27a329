"""First lines, packed documents, parts of splits and folders of sets, each beside what was written by hand."""

import gzip
import json

import numpy as np
import pytest

from droptics import datasets


def joined(path, **options):
    chunks = ((c.users.tolist(), c.items.tolist(), c.values.tolist()) for c in datasets.read_chunks(path, **options))
    return [row for chunk in chunks for row in zip(*chunk, strict=True)]


@pytest.mark.parametrize(
    ("text", "columns", "rows"),
    [
        ("a,b,4.5\nc,d,2", None, [("a", "b", 4.5), ("c", "d", 2.0)]),
        ("a,b,-3\nc,d,2", None, [("a", "b", -3.0), ("c", "d", 2.0)]),
        ("a,b,1e-2\nc,d,.5", None, [("a", "b", 0.01), ("c", "d", 0.5)]),
        ("7.5,b,1\nc,d,2", None, [("7.5", "b", 1.0), ("c", "d", 2.0)]),
        ("stars,user,item\n2.5,c,d", None, [("c", "d", 2.5)]),
        (",user,item,stars\n0,c,d,2.5", None, [("c", "d", 2.5)]),
        ("who,what,how\nc,d,2.5", (1, 0, 2), [("d", "c", 2.5)]),
        ("a,b,-0.5\nc,d,2.5", (1, 0, 2), [("b", "a", -0.5), ("d", "c", 2.5)]),
    ],
)
def test_a_first_line_of_words_alone_is_a_header_and_no_other(tmp_path, text, columns, rows):
    (tmp_path / "r.csv").write_text(text)
    assert joined(tmp_path / "r.csv", columns=columns) == rows


@pytest.mark.parametrize("text", ["1   2  3\n40  5  6.5\n", "  1 2    3\n40 5  6.5\n"])
def test_columns_may_be_aligned_by_blanks(tmp_path, text):
    (tmp_path / "r.txt").write_text(text)
    assert joined(tmp_path / "r.txt") == [(1, 2, 3.0), (40, 5, 6.5)]


@pytest.mark.parametrize("columns", [None, (0, 1, 2)])
@pytest.mark.parametrize("line", ["a,b,", "a,7,five", "7,b,five"])
def test_a_first_rating_that_is_none_is_named_and_not_passed_over(tmp_path, line, columns):
    (tmp_path / "r.csv").write_text(f"{line}\nc,d,2\n")
    with pytest.raises(ValueError, match=r"line 1: rating '(five)?' is not a number"):
        joined(tmp_path / "r.csv", columns=columns)


@pytest.mark.parametrize("entry", ['["", 2, 3]', '[1, "", 3]', "[true, 2, 3]", "[1, 2.5, 3]", "[1, null, 3]"])
def test_ids_of_documents_are_whole_numbers_or_some_text(tmp_path, entry):
    (tmp_path / "r.json").write_text(f"[[1, 2, 3], {entry}]")
    with pytest.raises(ValueError, match="record 2: ids must be whole numbers or text"):
        joined(tmp_path / "r.json")


@pytest.mark.parametrize("form", ["r.json", "r.jsonl"])
@pytest.mark.parametrize(
    "rating", ["true", "false", '"4"', "null", "[4]", "NaN", "-Infinity", "1e999", "1" + "0" * 400]
)
@pytest.mark.parametrize("named", [True, False])
def test_ratings_of_documents_are_finite_numbers(tmp_path, form, rating, named):
    """True and false are no numbers in JSON, though they are in Python."""
    first, second = (
        f'{{"user": 1, "item": 2, "rating": {value}}}' if named else f"[1, 2, {value}]" for value in ("3", rating)
    )
    (tmp_path / form).write_text(f"{first}\n{second}" if form == "r.jsonl" else f"[{first}, {second}]")
    with pytest.raises(ValueError, match=r"2: rating .* is not a finite number"):
        joined(tmp_path / form)


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz", "r.ndjson", "r.NDJSON.GZ"])
@pytest.mark.parametrize("size", [64, 200, 1 << 20])
def test_documents_of_lines_are_read_line_by_line_packed_or_not(tmp_path, name, size):
    rows = [(f"u{k}", k % 3, k / 4) for k in range(9)]
    raw = "\n\n".join(json.dumps({"item": i, "rating": r, "user": u}) for u, i, r in rows).encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.lower().endswith(".gz") else raw)
    assert joined(tmp_path / name, size=size) == rows
    starts = [chunk.first_line for chunk in datasets.read_chunks(tmp_path / name, size=size)]
    assert starts == list(range(1, 18, 2 * (size // 64)))[: len(starts)], "empty lines are counted"


@pytest.mark.parametrize("share", [0.05, 0.29, 0.3, 0.5, 0.71, 0.99])
@pytest.mark.parametrize("count", [2, 3, 5, 9, 100])
def test_parts_of_a_split_are_whole_in_order_and_of_the_nearest_size(count, share):
    whole = datasets.Ratings(np.arange(count), np.arange(count)[::-1] % 7, np.arange(count) / 2, 10 * np.arange(count))
    kept, held = whole.split(share, seed=3)
    assert abs(len(held) - share * count) <= 0.5 + 1e-9 or len(held) in (1, count - 1)
    assert min(len(kept), len(held)) >= 1
    assert sorted([*kept.users, *held.users]) == list(range(count))
    for part in (kept, held):
        assert (np.diff(part.users) > 0).all()
        assert np.array_equal(part.items, (count - 1 - part.users) % 7)
        assert np.array_equal(part.values, part.users / 2)
        assert np.array_equal(part.times, 10 * part.users)


def test_times_are_one_per_rating_and_may_be_a_list():
    ids, values, times = [1, 2, 1], [3.0, 4.0, 5.0], [7.0, 8.0, 9.0]
    whole = datasets.Ratings(ids, ids, values, times)
    assert whole.take(np.array([2, 0])).times.tolist() == [9.0, 7.0]
    for wrong in (times[:2], [*times, 1.0], []):
        with pytest.raises(ValueError, match=f"times must have one entry per rating, got {len(wrong)} for 3"):
            datasets.Ratings(ids, ids, values, wrong)


def test_every_rating_is_held_out_as_often():
    whole = datasets.Ratings(np.arange(5), np.arange(5), np.arange(5.0))
    often = np.bincount(np.concatenate([whole.split(0.4, seed)[1].users for seed in range(200)]), minlength=5)
    assert np.abs(often - 80).max() < 5 * (200 * 0.4 * 0.6) ** 0.5  # of five standard deviations


def _put(folder, place, number):
    """A test set of three photographs, ratings of a film and of a joke: with a number, so that they are told apart."""
    records = np.zeros((3, 3073), np.uint8)
    records[:, 0] = number, 1, 7
    (folder / place).mkdir(parents=True, exist_ok=True)
    (folder / place / "test_batch.bin").write_bytes(records.tobytes())
    (folder / place / "jester-data-1.csv").write_text(f"1,99,{number}\n")
    (folder / place / "ratings.dat").write_text(f"{number}::1::7::0\n")


@pytest.mark.parametrize("name", ["cifar10", "cifar-10", "CIFAR10", "."])
@pytest.mark.parametrize("inner", ["", "cifar-10-batches-bin", "cifar-10-batches-py"])
def test_photographs_lie_in_any_of_their_folders(tmp_path, name, inner):
    _put(tmp_path / "root", f"{name}/{inner}", 5)
    assert datasets.cifar10(tmp_path / "root", "test")[1].tolist() == [5, 1, 7]


@pytest.mark.parametrize("place", ["jester", "Jester", "."])
def test_jokes_lie_in_any_of_their_folders(tmp_path, place):
    _put(tmp_path / "root", place, 5)
    assert datasets.jester(tmp_path / "root").values.tolist() == [5.0]


@pytest.mark.parametrize("place", ["movielens/ml-10M100K", "MovieLens/ml-10m", "ml-10M100K", "ml-10m"])
def test_films_lie_in_any_of_their_folders(tmp_path, place):
    _put(tmp_path, place, 5)
    assert datasets.movielens("ml-10m", tmp_path).users.tolist() == [5]
    assert datasets.movielens("ml-10m", tmp_path / place).users.tolist() == [5], "asked for by the folder itself"
    with pytest.raises(datasets.DatasetMissing):
        datasets.movielens("ml-1m", tmp_path / place)
