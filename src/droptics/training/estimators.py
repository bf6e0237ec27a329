"""DropoutRegressor and DropoutClassifier: small ReLU networks that know how sure they are; scikit-learn estimators.

They stand on the floor of training because they train by its loop; what they say comes from `predictions`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from droptics.arguments import Count, DropRate, NonNegative, Positive, Seed, check_parameters
from droptics.arrays import Array
from droptics.checks import check_probability
from droptics.data import Sample
from droptics.losses import CrossEntropy, Loss, Squared
from droptics.masks import Bernoulli, Product
from droptics.models import ReLUNet
from droptics.penalties import ClosedForm, MonteCarlo
from droptics.predictions import Predictive, fit_noise, predictive
from droptics.predictions.predictive import DIRECT_OUTCOMES
from droptics.training.objectives import Dropout
from droptics.training.records import Recording
from droptics.training.train import train


class _DropoutNetwork(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: a network on standardized inputs, trained with masks on inputs and hidden layers."""

    hidden: Sequence[int]
    drop: float
    epochs: int
    batch_size: int
    step_size: float
    decay: float
    samples: int
    seed: int

    def _check(self) -> None:
        check_parameters(self)
        if not len(self.hidden):
            raise ValueError("hidden must name at least one hidden width, got none")

    def _standardize(self, X: Array) -> None:
        self.input_mean_ = X.mean(0)
        deviation = X.std(0) * (np.ptp(X, 0) > 0)  # of equal numbers that round it is some 1e-17
        self.input_scale_ = np.where(deviation > 0, deviation, 1.0)

    def _inputs(self, X: Array) -> Tensor:
        return torch.from_numpy((X - self.input_mean_) / self.input_scale_)

    @property
    def masks_(self) -> Product:
        """The law of the masks: every input and every hidden unit at the same rate."""
        return Product([Bernoulli(self.drop, size) for size in self.network_.layer_units])

    def _train(self, inputs: Tensor, targets: Tensor, outputs: int, loss: Loss) -> None:
        generator = torch.Generator().manual_seed(int(self.seed))
        sizes = [inputs.shape[1], *(int(width) for width in self.hidden), outputs]
        weights = [
            torch.randn(after, before, generator=generator, dtype=torch.float64) * math.sqrt(2 / (before + after))
            for before, after in itertools.pairwise(sizes)
        ]
        self.network_ = ReLUNet(weights, [torch.zeros(size, dtype=torch.float64) for size in sizes[1:]])
        batch = min(int(self.batch_size), len(inputs))
        run = train(
            self.network_,
            Sample(inputs, targets),
            Dropout(self.masks_, loss),
            steps=int(self.epochs) * math.ceil(len(inputs) / batch),
            step_size=float(self.step_size),
            batch_size=batch,
            seed=int(self.seed),
            optimizer=torch.optim.Adam,
            decay=float(self.decay),
            record=Recording(("risk",), at=()),
        )
        assert isinstance(run.model, ReLUNet)
        self.network_ = ReLUNet(
            [weight.detach() for weight in run.model.weights], [bias.detach() for bias in run.model.biases]
        )

    def predictive(self, X: ArrayLike) -> Predictive:
        """Moments of the network's masked outputs: exact while the early masks can be listed, else sampled."""
        check_is_fitted(self)
        inputs = self._inputs(validate_data(self, X, dtype=np.float64, reset=False))
        count = Product(self.masks_.laws[:-1]).support_count
        listed = count is not None and count <= DIRECT_OUTCOMES
        method = ClosedForm() if listed else MonteCarlo(int(self.samples), seed=int(self.seed))
        with torch.no_grad():
            return predictive(self.network_, inputs, self.masks_, method)


class DropoutRegressor(RegressorMixin, _DropoutNetwork):  # type: ignore[misc]
    """A ReLU network trained with dropout that predicts with its exact spread (droptics-predictive-mixture).

    Inputs and targets are standardized; every input and hidden unit is dropped at the same rate in training, and the
    prediction is the mean over all masks, not the network without them. With one hidden layer and up to 16 inputs
    nothing is sampled.

    Args:
        hidden: Widths of the hidden layers.
        drop: Probability of dropping an input or a hidden unit.
        noise: Standard deviation of the observations, or "estimate": by maximum likelihood on a held-out tenth.
        epochs: Passes over the data.
        batch_size: Examples per step.
        step_size: Of Adam.
        decay: Of the weights, as in `train`.
        samples: Masks where they cannot be listed.
        seed: Of weights, masks, batches and the held-out part.

    Attributes:
        network_: The network, from standardized inputs to targets in their own units.
        noise_: Standard deviation of the observations around the masked predictions.
    """

    def __init__(
        self,
        hidden: Sequence[Count] = (50,),
        drop: DropRate = 0.05,
        noise: Positive | Literal["estimate"] = "estimate",
        *,
        epochs: Count = 200,
        batch_size: Count = 128,
        step_size: Positive = 1e-2,
        decay: NonNegative = 1e-4,
        samples: Count = 500,
        seed: Seed = 0,
    ) -> None:
        self.hidden, self.drop, self.noise = hidden, drop, noise
        self.epochs, self.batch_size, self.step_size, self.decay = epochs, batch_size, step_size, decay
        self.samples, self.seed = samples, seed

    def fit(self, X: Any, y: Any) -> DropoutRegressor:
        """Fit to examples X (n, features) and targets y (n,)."""
        self._check()
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        targets = np.asarray(y, dtype=np.float64)
        self._standardize(X)
        center, scale = float(targets.mean()), float(targets.std() * (np.ptp(targets) > 0)) or 1.0
        kept = np.arange(len(X))
        held = kept[:0]
        if self.noise == "estimate":
            order = np.random.default_rng(int(self.seed)).permutation(len(X))
            held, kept = np.split(order, [max(1, len(X) // 10)])
        wanted = torch.from_numpy((targets[kept] - center) / scale)[:, None]
        self._train(self._inputs(X[kept]), wanted, 1, Squared())
        *first, last = self.network_.weights
        *offsets, offset = self.network_.biases
        self.network_ = ReLUNet([*first, last * scale], [*offsets, offset * scale + center])
        if self.noise == "estimate":
            found = self.predictive(X[held])
            observed = torch.from_numpy(targets[held])[:, None]
            exact = bool((found.mean.value == observed).all())
            self.noise_ = 1e-6 * scale if exact else fit_noise(found, observed)
        else:
            self.noise_ = float(self.noise)
        return self

    def predict(self, X: ArrayLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Mean over all masks, (n,); with `return_std` also the deviation of an observation, sqrt(V + noise^2)."""
        found = self.predictive(X)
        mean = found.mean.value[:, 0].numpy()
        if not return_std:
            return mean
        return mean, (found.variance.value[:, 0].clamp_min(0) + self.noise_**2).sqrt().numpy()

    def interval(self, X: ArrayLike, level: float = 0.9) -> tuple[Array, Array]:
        """Where an observation falls with probability `level`, exact quantiles with equal tails."""
        check_probability("level", level)
        low, high = self.predictive(X).interval(level, self.noise_)
        return low[:, 0].numpy(), high[:, 0].numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # the score is a log density, not the share of variance explained
        return tags

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Mean log density of the observations, exact where nothing is sampled; more is better."""
        targets = torch.from_numpy(np.asarray(y, dtype=np.float64))[:, None]
        return float(self.predictive(X).log_likelihood(targets, self.noise_).mean())


class DropoutClassifier(ClassifierMixin, _DropoutNetwork):  # type: ignore[misc]
    """A ReLU network trained with dropout whose probabilities are means of the softmax over masks.

    Args:
        hidden: Widths of the hidden layers.
        drop: Probability of dropping an input or a hidden unit.
        epochs: Passes over the data.
        batch_size: Examples per step.
        step_size: Of Adam.
        decay: Of the weights, as in `train`.
        points: Gaussian points (or head masks) per early mask, see `Predictive.classes`.
        samples: Masks where they cannot be listed.
        seed: Of weights, masks and batches.

    Attributes:
        classes_: The labels, in the order of the columns of `predict_proba`.
        network_: The network, from standardized inputs to logits.
    """

    def __init__(
        self,
        hidden: Sequence[Count] = (50,),
        drop: DropRate = 0.1,
        *,
        epochs: Count = 200,
        batch_size: Count = 128,
        step_size: Positive = 1e-2,
        decay: NonNegative = 1e-4,
        points: Count = 64,
        samples: Count = 200,
        seed: Seed = 0,
    ) -> None:
        self.hidden, self.drop = hidden, drop
        self.epochs, self.batch_size, self.step_size, self.decay = epochs, batch_size, step_size, decay
        self.points, self.samples, self.seed = points, samples, seed

    def fit(self, X: Any, y: Any) -> DropoutClassifier:
        """Fit to examples X (n, features) and labels y (n,)."""
        self._check()
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, labels = np.unique(np.asarray(y), return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("y must hold at least two classes, got one class")
        self._standardize(X)
        self._train(self._inputs(X), torch.from_numpy(labels.astype(np.int64)), len(self.classes_), CrossEntropy())
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """E softmax over all masks, (n, classes)."""
        with torch.no_grad():
            return self.predictive(X).classes(self.points).probabilities.value.numpy()

    def predict(self, X: ArrayLike) -> Array:
        """The most probable class."""
        best = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[best])
