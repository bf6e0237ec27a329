"""Recommend movies: which ones next, by an autoencoder with dropout on its input, and how many stars each would get.

Uses MovieLens 100K where it lies in the folder named by DROPTICS_DATA, and planted ratings otherwise;
`droptics complete ml-100k --download` fetches the set.
"""

from droptics import DropoutAutoencoder, DropoutCompletion, datasets
from droptics.recommenders import hold_out_users

try:
    ratings, name = datasets.movielens("ml-100k"), "MovieLens 100K"
except datasets.DatasetMissing:
    ratings, name = datasets.planted_ratings((500, 300, 20_000), rank=5), "planted ratings, noise 0.8"

liked = ratings.take((ratings.values >= 4).nonzero()[0])
split = hold_out_users(liked, share=0.1, seed=0)
ranker = DropoutAutoencoder().fit(split.train)
found = ranker.evaluate(split.known, split.hidden, at=(20,), unknown="ignore").ndcg[20]
print(f"{name}: nDCG@20 {found.value:.3f} (standard error {found.error:.3f}) for users the model never saw")

train, test = ratings.split(0.1, seed=0)
model = DropoutCompletion(width=30, clip=True).fit(train)
print(f"{len(train)} ratings to fit, {len(test)} to test, test RMSE {model.evaluate(test, unknown='ignore').rmse:.4f}")
user = ranker.user_ids_[0]
for item in ranker.recommend(user, count=5).items:
    stars = model.predict([user], [item], unknown="ignore")[0]
    because = ranker.explain(user, item, count=2).items
    print(f"user {user}: item {item}, because of {because[0]} and {because[1]}, {stars:.2f} stars")
