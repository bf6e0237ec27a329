"""What the theory says about a fitted completion: norm, induced penalty, equality of units, generalization bound."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.arguments import Probability, check_arguments
from droptics.bounds.statistical import completion, completion_condition, grid_alpha, marginals
from droptics.coadaptation.measures import evenness
from droptics.estimates import Bound
from droptics.recommenders.completion import Completion


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Numbers of a fitted completion; p and q are the shares of rows and columns, smoothed where the model's are."""

    weighted_trace: float  #: || diag(sqrt p) U V^T diag(sqrt q) ||_*.
    penalty: float  #: Expected dropout penalty lam sum_k (sum_i p_i u_ik^2)(sum_j q_j v_jk^2) of these factors.
    #: Least such penalty over all factors of this width with the same product, lam / width times the squared weighted
    #: trace norm (thesis-prop4).
    induced: float
    imbalance: float  #: penalty / induced - 1; zero when every unit pays the same.
    effective_rank: float  #: (sum of the weighted singular values)^2 / sum of their squares.
    coadaptation: float  #: phi of the units' flows, 1 when equal, 1 / sqrt(width) when one carries all.
    #: thesis-thm11, corrected, for the whole predictor (biases included, clipped to the range of the ratings), in units
    #: of half that range squared; it is vacuous when predicting the mean everywhere has less error.
    bound: Bound
    condition: float  #: min_ij p_i q_j n sqrt(d d') / log d; the printed theorem asks for at least 1.

    @property
    def sampling_condition_holds(self) -> bool:
        """Whether the theorem's sampling condition holds without smoothing the marginals."""
        return self.condition >= 1.0


def diagnose(model: Completion, confidence: Probability = 0.95) -> Diagnosis:
    """Evaluate norms, penalties and the generalization bound on a fitted model; O((rows + columns) width^2).

    Conditions: fitted with its ratings; the bound is for ratings drawn independently, in product proportions.
    Claim: thesis-thm11.
    """
    check_arguments(diagnose, locals())
    entries = model.entries()
    rows, columns = (side.double() for side in marginals(entries, model.strengths_.smoothing))
    left, right = (torch.from_numpy(side).double() for side in (model.user_factors_, model.item_factors_))
    values = product_spectrum(left * rows.sqrt()[:, None], right * columns.sqrt()[:, None])
    units = (rows @ left.square()) * (columns @ right.square())
    lam = model.strengths_.empirical + model.strengths_.expected
    trace = float(values.sum())
    penalty, induced = lam * float(units.sum()), lam * trace**2 / model.strengths_.width
    return Diagnosis(
        weighted_trace=trace,
        penalty=penalty,
        induced=induced,
        imbalance=penalty / induced - 1 if induced > 0 else float("nan"),
        effective_rank=trace**2 / float(values.square().sum()) if trace > 0 else 0.0,
        coadaptation=float(evenness(units.sqrt())),
        bound=_bound(model, confidence),
        condition=completion_condition(entries),
    )


def product_spectrum(left: Tensor, right: Tensor) -> Tensor:
    """Singular values of left right^T from the two thin factors, without forming the product."""
    return torch.linalg.svdvals(torch.linalg.qr(left).R @ torch.linalg.qr(right).R.mT)


def _bound(model: Completion, confidence: float) -> Bound:
    """The bound for the full predictor: mean and biases are two more factors, and the ratings are mapped to [-1, 1]."""
    entries = model.entries()
    rows, columns = (side.double() for side in marginals(entries, 0.5))
    low, high = model.range_
    middle, half = (low + high) / 2, (high - low) / 2 or 1.0
    sides = (model.user_factors_, model.item_factors_, model.user_biases_, model.item_biases_)
    left, right, users, items = (torch.from_numpy(side).double() for side in sides)
    errors = model.entries(biases=True)  # all ratings known by now
    parts = zip(*(part.split(1 << 16) for part in (errors.rows, errors.columns, errors.values)), strict=True)
    total = sum(float((v.double() - (left[i] * right[j]).sum(1)).square().sum()) for i, j, v in parts)
    left = torch.column_stack([left / half, (users + model.mean_ - middle) / half, torch.ones_like(users)])
    right = torch.column_stack([right, torch.ones_like(items), items / half])
    trace = float(product_spectrum(left * rows.sqrt()[:, None], right * columns.sqrt()[:, None]).sum())
    alpha, failure = grid_alpha(trace**2, 1 - confidence)
    return completion(
        alpha=alpha,
        shape=entries.shape,
        examples=len(entries),
        risk=total / len(errors) / half**2,
        confidence=1 - failure,
        smoothing=0.5,
        trivial=float(entries.values.double().square().mean()) / half**2,
    )
