"""Recommend movies: matrix completion with dropout on the factors, no sampling and no learning rate.

Uses MovieLens 100K where it lies in the folder named by DROPTICS_DATA, and planted ratings otherwise;
`droptics complete ml-100k --download` fetches the set.
"""

from droptics import DropoutCompletion, datasets

try:
    ratings, name = datasets.movielens("ml-100k"), "MovieLens 100K"
except datasets.DatasetMissing:
    ratings, name = datasets.planted_ratings((500, 300, 20_000), rank=5), "planted ratings, noise 0.8"
train, test = ratings.split(0.1, seed=0)

model = DropoutCompletion(width=30, clip=True).fit(train)
print(f"{name}: {len(train)} ratings to fit, {len(test)} to test, test RMSE {-model.score(test):.4f}")
user = train.users[0]
for item, rating in zip(*model.recommend(user, count=5), strict=True):
    print(f"user {user} would give item {item} a {rating:.2f}")
