"""Real data sets by folder or download with checksum, rating tables, and synthetic draws.

Files are looked for in the `folder` argument, else in the folder named by the environment variable `DROPTICS_DATA`,
else in the user's cache. Nothing is downloaded unless `download=True`.
"""

from droptics.datasets.files import VARIABLE, DatasetMissing
from droptics.datasets.images import cifar10, fashion_mnist, mnist
from droptics.datasets.ratings import PROFILES, Ratings, jester, movielens, planted_ratings
from droptics.datasets.tables import Chunk, read_chunks

__all__ = ["PROFILES", "VARIABLE", "Chunk", "DatasetMissing", "Ratings", "cifar10", "fashion_mnist", "jester", "mnist"]
__all__ += ["movielens", "planted_ratings", "read_chunks"]
