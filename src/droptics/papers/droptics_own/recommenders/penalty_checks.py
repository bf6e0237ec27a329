"""What the claims on recommenders compare: closed forms against all masks, and one penalty against another."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from droptics.evidence.claims import Comparison, compare
from droptics.norms import nuclear
from droptics.papers.instances import normal
from droptics.recommenders import DropoutAutoencoder, ImplicitDropoutCompletion


def input_dropout(wrong: float) -> list[Comparison]:
    """Masked losses, by all masks, as ridges, and their gradients at the closed forms; `wrong` scales the weights.

    Few and many users, no dropout, no ridge, an item of nobody; fitted to the Gram matrix, and to interactions, whose
    scores are X W.
    """
    found = []
    for seed, rows, size, drop, ridge in (
        (3, 11, 6, 0.35, 0.8),
        (7, 4, 5, 0.7, 0.1),
        (1, 9, 4, 0.0, 0.3),
        (5, 3, 4, 0.2, 0),
    ):
        x = normal(seed, rows, size) * (normal(seed + 1, rows, size) > -0.5)
        x[:, 1] *= float(seed != 7)
        gram, any_weights, label = x.mT @ x, normal(seed + 2, size, size), f"{size} items, drop {drop}"
        strengths = drop / (1 - drop) * gram.diagonal() + ridge
        plain = (x - x @ any_weights).square().sum() + (strengths[:, None] * any_weights.square()).sum()
        masked = _masked(x, any_weights, drop, False) + ridge * any_weights.square().sum()
        found.append(compare(masked, "==", plain, f"a ridge on row k, {label}"))
        C = torch.linalg.inv(gram + torch.diag(strengths))
        for diagonal, sigma in (("free", strengths), ("zero", 1 / C.diagonal())):
            model = DropoutAutoencoder(drop, ridge, diagonal, feedback="graded", dtype="float64").fit_gram(gram)  # type: ignore[arg-type]
            weights = wrong * torch.from_numpy(model.weights())
            stated = torch.eye(size).double() - C * sigma
            found.append(compare(weights, "==", stated, f"I - C diag(sigma), {diagonal}, {label}"))
            weights.requires_grad_()
            loss = _masked(x, weights, drop, diagonal == "zero") + ridge * weights.square().sum()
            (gradient,) = torch.autograd.grad(loss, weights)
            if diagonal == "zero":
                found.append(compare(weights.detach().diagonal(), "==", 0.0, f"zero diagonal, {label}"))
            worst = gradient.abs().max() / loss.detach()
            found.append(compare(worst, "<=", torch.tensor(1e-10), f"{diagonal} diagonal, {label}"))
    return [*found, *_interactions(wrong)]


def _interactions(wrong: float) -> list[Comparison]:
    """Weights and scores of models that are fitted to users, items and values of any size."""
    found = []
    x = normal(5, 7, 4) * (normal(6, 7, 4) > -0.3) * 10_000  # ratings of many thousands are read in another unit
    users, items = torch.nonzero(x, as_tuple=True)
    for feedback, counted in (("graded", x), ("implicit", (x != 0).double())):
        gram = counted.mT @ counted
        gamma = 0.25 * gram.diagonal() + 0.7
        C = torch.linalg.inv(gram + torch.diag(gamma))
        for diagonal, sigma in (("free", gamma), ("zero", 1 / C.diagonal())):
            model = DropoutAutoencoder(0.2, 0.7, diagonal, feedback=feedback, dtype="float64")  # type: ignore[arg-type]
            model.fit((users, items, x[users, items]))
            order, stated = torch.from_numpy(model.item_ids_), torch.eye(4).double() - C * sigma
            weights, label = wrong * torch.from_numpy(model.weights()), f"{diagonal}, {feedback}"
            found.append(compare(weights, "==", stated[order][:, order], f"fitted to interactions, {label}"))
            told = wrong * torch.from_numpy(model.scores(counted[:, order].numpy()))
            found.append(compare(told, "==", (counted @ stated)[:, order], f"scores X W, {label}"))
    return found


def frequency_ridge(scale: float) -> list[Comparison]:
    """At minimizers of the expected penalty the ridge scaled by frequency has zero gradient at the matched strength."""
    found = []
    users, items = torch.nonzero(normal(7, 12, 9) > 0.3, as_tuple=True)
    for width, alpha, drop in ((2, 0.2, 0.4), (3, 0.1, 0.25)):
        model = ImplicitDropoutCompletion(width, drop, alpha, sweeps=4000, cg_steps=None, dtype="float64")
        model.fit((users, items, torch.ones(len(users))))
        w, h = (torch.from_numpy(side) for side in (model.user_factors_, model.item_factors_))
        observed = torch.zeros(len(w), len(h), dtype=w.dtype)
        observed[torch.from_numpy(model._users(users)), torch.from_numpy(model._items(items))] = 1
        a, b = (observed + alpha).sum(1), (observed + alpha).sum(0)
        balance = ((b @ h.square()) / (a @ w.square())) ** 0.25  # factors may be rescaled: same product, same penalty
        w, h = (w * balance).requires_grad_(), (h / balance).requires_grad_()
        norm = nuclear(a.sqrt()[:, None] * (w @ h.mT).detach() * b.sqrt())
        lam = scale * drop / (1 - drop) * norm / (width * (observed + alpha).sum())
        loss = (observed * (1 - w @ h.mT).square()).sum() + alpha * (w @ h.mT).square().sum()
        loss = loss + lam * ((a @ w.square()).sum() + (b @ h.square()).sum())
        gradients = torch.autograd.grad(loss, (w, h))
        worst = torch.stack([gradient.abs().max() for gradient in gradients]).max() / loss.detach()
        found.append(compare(worst, "<=", torch.tensor(1e-8), f"width {width}"))
    return found


def _masked(x: Tensor, weights: Tensor, drop: float, dropped_only: bool) -> Tensor:
    """The loss over all masks; of dropped inputs only, the sum of their mean losses where they are dropped."""
    total = torch.zeros((), dtype=x.dtype)
    for bits in itertools.product((0.0, 1.0), repeat=x.shape[1]):
        z = torch.tensor(bits, dtype=x.dtype)
        error = (x - (x * z / (1 - drop)) @ weights).square()
        chances = z * (1 - drop) + (1 - z) * drop
        # of all coins but its own, which fell
        others = chances.expand(len(z), -1).clone().fill_diagonal_(1.0).prod(1)
        total = total + (((1 - z) * others * error) if dropped_only else chances.prod() * error).sum()
    return total
