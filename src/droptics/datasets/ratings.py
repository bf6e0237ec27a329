"""Rating sets: MovieLens, Jester, and planted low-rank ratings of the same sizes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from droptics.arguments import Count, Ids, Scores, Seed, SizeOrZero, check_arguments, check_fields
from droptics.arrays import Array
from droptics.checks import check_positive
from droptics.data import Entries
from droptics.datasets.files import Remote, data_folder, download, locate, missing, places
from droptics.datasets.tables import read_chunks
from droptics.files.archives import unpack
from droptics.files.arrays import read_npz
from droptics.files.limits import FREE, check_regular, from_home

Folder = str | os.PathLike[str]

_GROUPLENS = "https://files.grouplens.org/datasets/movielens/"
_TERMS = "MovieLens: research use, no redistribution; cite Harper and Konstan, ACM TiiS 5(4), 2015"
_MOVIELENS = {
    "ml-100k": ("ml-100k/u.data", Remote(_GROUPLENS + "ml-100k.zip", "md5:0e33842e24a9c977be4e0107933c0723", _TERMS)),
    "ml-1m": ("ml-1m/ratings.dat", Remote(_GROUPLENS + "ml-1m.zip", "md5:c4d9eecfca2ab87c1945afe126590906", _TERMS)),
    "ml-10m": (
        "ml-10M100K/ratings.dat",
        Remote(_GROUPLENS + "ml-10m.zip", "md5:ce571fd55effeba0271552578f2648bd", _TERMS),
    ),
}
_JESTER = Remote(
    "https://eigentaste.berkeley.edu/dataset/jester_dataset_1_1.zip",
    "sha256:cb7841756ded125b15f3d95c9f8241224065e96354c132a46ae4214deeab7615",
    "Jester: research use with acknowledgment of Goldberg et al., Information Retrieval 4(2), 2001",
)
_UNRATED = 99.0

PROFILES = {"ml-100k": (943, 1682, 100_000), "ml-1m": (6040, 3706, 1_000_209), "ml-10m": (69_878, 10_677, 10_000_054)}
"""Users, items and ratings of the MovieLens sets, the sizes `planted_ratings` can draw."""


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings as they came: user ids, item ids, values, and times where known; one row per rating.

    Ids are arbitrary (whole numbers or text); `entries()` numbers them in sorted order.
    """

    users: Ids
    items: Ids
    values: Scores
    times: Scores | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("users", "items", "values", "times"):
            if isinstance(getattr(self, name), (list, tuple)):
                object.__setattr__(self, name, np.asarray(getattr(self, name)))
        lengths = len(self.users), len(self.items), len(self.values)
        if len(set(lengths)) != 1:
            came = "{}, {} and {}".format(*lengths)
            raise ValueError(f"users, items and values must have one entry per rating, got {came}")
        if self.times is not None and len(self.times) != len(self.values):
            raise ValueError(f"times must have one entry per rating, got {len(self.times)} for {len(self.values)}")

    def __len__(self) -> int:
        return len(self.values)

    def entries(self, dtype: torch.dtype = torch.float32) -> Entries:
        """The observed entries of the matrix, users as rows and items as columns, both in sorted order of their ids."""
        user_ids, rows = np.unique(self.users, return_inverse=True)
        item_ids, columns = np.unique(self.items, return_inverse=True)
        values = torch.from_numpy(np.asarray(self.values, np.float64)).to(dtype)
        return Entries(torch.from_numpy(rows), torch.from_numpy(columns), values, (len(user_ids), len(item_ids)))

    def split(self, holdout: float, seed: int) -> tuple[Ratings, Ratings]:
        """A random split into (kept, held out), the second with a share `holdout` of the ratings (at least one)."""
        if not 0.0 < holdout < 1.0:
            raise ValueError(f"holdout must lie strictly between 0 and 1, got {holdout!r}")
        if len(self) < 2:
            raise ValueError(f"at least two ratings are needed for a split, got {len(self)}")
        order = np.random.default_rng(seed).permutation(len(self))
        count = min(max(1, round(holdout * len(self))), len(self) - 1)
        return self.take(np.sort(order[count:])), self.take(np.sort(order[:count]))

    def take(self, index: Array) -> Ratings:
        """The ratings at these positions."""
        times = None if self.times is None else self.times[index]
        return Ratings(self.users[index], self.items[index], self.values[index], times)


def movielens(name: str = "ml-100k", folder: Folder | None = None, download: bool = False) -> Ratings:
    """MovieLens ratings by name: "ml-100k", "ml-1m" or "ml-10m".

    Reads the first found of the original files (`ml-100k/u.data`, `ml-1m/ratings.dat`, `ml-10M100K/ratings.dat`) or
    `<name>.npz` with arrays users, items, ratings and timestamps, in `folder/movielens` or in `folder` itself.
    Cost: one reading of the files, after a download where one is asked for. Claim: none, it reads.
    """
    check_arguments(movielens, locals())
    if name not in _MOVIELENS:
        raise ValueError(f"name must be one of {', '.join(_MOVIELENS)}, got {name!r}")
    original, remote = _MOVIELENS[name]
    file = Path(original).name
    folders = [*places(folder, ("movielens", "MovieLens")), data_folder(folder)]
    path = locate(folders, (original, f"{name}/{file}", f"{name}.npz"))
    if path is None and folder is not None:
        path = locate([from_home(folder)], (file,))
        if path is not None and from_home(folder).name not in (name, Path(original).parent.name):
            path = None  # ratings.dat is the name of two sets: only the folder tells which one it is
    if path is None and download:
        path = _unpacked(remote, data_folder(folder) / "movielens", original)
    if path is None:
        raise missing(f"MovieLens {name}", folder, f"{original} or {name}.npz")
    if path.suffix == ".npz":
        return _read_npz(path)
    parts = [(chunk.users, chunk.items, chunk.values) for chunk in read_chunks(path)]
    users, items, values = map(np.concatenate, zip(*parts, strict=True))
    return Ratings(users, items, values.astype(np.float32))


def jester(folder: Folder | None = None, download: bool = False) -> Ratings:
    """Jester, part 1: continuous ratings in [-10, 10] of 100 jokes by 24983 users.

    Reads the first found of `jester-1.npz` (arrays users, items, ratings) and the original table as text or as a
    spreadsheet (`jester-data-1.csv`, `jester-data-1.xls`: a line per user, the number of ratings and then the 100
    ratings, 99 where there is none), in `folder/jester` or in `folder` itself. The spreadsheet needs the
    extra `xls` (xlrd). Cost: one reading of the files, after a download where one is asked for. Claim: none, it reads.
    """
    check_arguments(jester, locals())
    names = ("jester-1.npz", "jester-data-1.csv", "jester-data-1.xls")
    path = locate(places(folder, ("jester", "Jester")), names)
    if path is None and download:
        path = _unpacked(_JESTER, data_folder(folder) / "jester", "jester-data-1.xls")
    if path is None:
        raise missing("Jester", folder, " or ".join(names))
    if path.suffix == ".npz":
        return _read_npz(path)
    table = _read_jester_text(path) if path.suffix == ".csv" else _read_jester_sheet(path)
    counts, matrix = table[:, 0], table[:, 1:]
    rated = matrix != _UNRATED
    wrong = np.flatnonzero(rated.sum(1) != counts)
    if wrong.size:
        line = int(wrong[0])
        told = f"{int(rated[line].sum())} ratings, its first field says {counts[line]:g}"
        raise ValueError(f"{path}, line {line + 1}: {told}")
    users, items = np.nonzero(rated)
    return Ratings(users, items, matrix[rated].astype(np.float32))


def planted_ratings(
    size: str | tuple[int, int, int],
    rank: Count = 10,
    noise: SizeOrZero = 0.8,
    seed: Seed = 0,
    activity: tuple[float, float] = (0.8, 0.9),
) -> Ratings:
    """Planted ratings 3.5 + <a_i, b_j> + noise e_ij at distinct pairs with power-law activity.

    `size` is (users, items, ratings) or the name of a set whose size it takes (see `PROFILES`). The inner products
    have variance about 0.5 and e_ij is standard normal, so no predictor has a test RMSE below `noise`. Pair (i, j)
    is drawn with probability proportional to the powers -activity[0] and -activity[1] of the (shuffled) ranks of
    user and item, without repetition. Needs about 40 bytes per rating.
    Cost: O(ratings (rank + log ratings) + (users + items) rank). Claim: none, it draws.
    """
    check_arguments(planted_ratings, locals())
    if isinstance(size, str):
        if size not in PROFILES:
            raise ValueError(f"size must be (users, items, ratings) or one of {', '.join(PROFILES)}, got {size!r}")
        size = PROFILES[size]
    users, items, count = size
    for name, number in (("users", users), ("items", items), ("ratings", count), ("rank", rank)):
        check_positive(name, number)
    if count > users * items // 2:
        raise ValueError(f"ratings must be at most half of the {users * items} cells, got {count}")
    generator = np.random.default_rng(seed)
    weights = [_power_law(number, power, generator) for number, power in zip((users, items), activity, strict=True)]
    cells = np.empty(0, np.int64)
    while len(cells) < count:
        # Shares of the rows first: fewer random look-ups, the same law.
        rows = np.repeat(np.arange(users), generator.multinomial(count, weights[0]))
        columns = np.searchsorted(np.cumsum(weights[1]), generator.random(count) * (1 - 1e-12))
        cells = np.unique(np.concatenate([cells, rows * items + np.minimum(columns, items - 1)]))
    surplus = generator.choice(len(cells), len(cells) - count, replace=False, shuffle=False)
    rows, columns = np.divmod(np.delete(cells, surplus), items)
    scale = (0.5 / rank) ** 0.25
    left = (scale * generator.standard_normal((users, rank))).astype(np.float32)
    right = (scale * generator.standard_normal((items, rank))).astype(np.float32)
    values = np.empty(count, np.float32)
    for start in range(0, count, 1 << 20):
        part = slice(start, start + (1 << 20))
        values[part] = np.einsum("nr,nr->n", left[rows[part]], right[columns[part]])
    values += np.float32(3.5) + np.float32(noise) * generator.standard_normal(count, dtype=np.float32)
    return Ratings(rows.astype(np.int32), columns.astype(np.int32), values)


def _power_law(count: int, power: float, generator: np.random.Generator) -> NDArray[np.float64]:
    weights = np.arange(1, count + 1, dtype=np.float64) ** -power
    return generator.permutation(weights / weights.sum())


def _read_npz(path: Path) -> Ratings:
    stored = read_npz(path, "users", "items", "ratings")
    return Ratings(stored["users"], stored["items"], stored["ratings"].astype(np.float32), stored.get("timestamps"))


def _unpacked(remote: Remote, target: Path, member: str) -> Path:
    archive = download(remote, target)
    found = unpack(archive, target, lambda name: name.endswith(member))
    if not found:
        raise ValueError(f"{archive} holds no {member}")
    return found[0]


def _read_jester_text(path: Path) -> NDArray[np.float64]:
    rows = []
    with check_regular(path).open(encoding="utf-8-sig", errors="replace") as stream:
        for number, line in enumerate(stream, 1):
            fields = line.replace('"', "").split(",")
            try:
                rows.append([float(field) for field in fields])
            except ValueError:
                raise ValueError(f"{path}, line {number}: not all of its fields are numbers") from None
            if len(rows[-1]) != len(rows[0]):
                raise ValueError(f"{path}, line {number}: {len(fields)} fields where line 1 has {len(rows[0])}")
    if not rows:
        raise ValueError(f"{path} is empty; expected a line of ratings per user")
    return np.array(rows, np.float64)


def _read_jester_sheet(path: Path) -> NDArray[np.float64]:
    try:
        import xlrd  # type: ignore[import-untyped]  # noqa: PLC0415 - optional
    except ImportError as error:
        advice = "install it with `pip install droptics[xls]`, or save the sheet as csv"
        raise ValueError(f"{path}: reading a spreadsheet needs xlrd; {advice}") from error
    if check_regular(path).stat().st_size > FREE:
        raise ValueError(f"{path} is larger than any sheet of this set; it is refused")
    try:
        sheet = xlrd.open_workbook(path).sheet_by_index(0)
        return np.array([sheet.row_values(row) for row in range(sheet.nrows)], np.float64)
    except Exception as error:  # broken sheets end in many kinds of errors
        raise ValueError(f"{path} cannot be read as a spreadsheet of numbers: {error}") from error
