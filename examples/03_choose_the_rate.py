"""Choose the rate: exact leave-one-out error of a linear model under dropout, for a whole path of rates at once."""

from sklearn.datasets import load_diabetes
from sklearn.model_selection import cross_val_score

from droptics import DropoutRidge, DropoutRidgeCV

X, y = (values[:60] for values in load_diabetes(return_X_y=True))  # few examples: there is something to regularize
model = DropoutRidgeCV().fit(X, y)
for drop, error in zip(model.drops_, model.loo_errors_, strict=True):
    print(f"rate {drop:.2f}: leave-one-out error {error:8.1f} {'<- best' if drop == model.drop_ else ''}")
scores = cross_val_score(DropoutRidge(drop=model.drop_), X, y, cv=5)
print(f"R2 in five-fold cross-validation at rate {model.drop_:g}: {scores.mean():.3f}")
