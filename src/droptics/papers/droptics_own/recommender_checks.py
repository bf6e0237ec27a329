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
    """Masked losses, by all masks, as ridges, and their gradients at the closed forms; `wrong` scales the weights."""
    found = []
    for seed, rows, size, drop, ridge in ((3, 11, 6, 0.35, 0.8), (7, 4, 5, 0.7, 0.1)):
        x = normal(seed, rows, size) * (normal(seed + 1, rows, size) > -0.5)
        gram, any_weights = x.mT @ x, normal(seed + 2, size, size)
        strengths = drop / (1 - drop) * gram.diagonal() + ridge
        plain = (x - x @ any_weights).square().sum() + (strengths[:, None] * any_weights.square()).sum()
        masked = _masked(x, any_weights, drop, False) + ridge * any_weights.square().sum()
        found.append(compare(masked, "==", plain, f"a ridge on row k, {size} items"))
        C = torch.linalg.inv(gram + torch.diag(strengths))
        for diagonal, sigma in (("free", strengths), ("zero", 1 / C.diagonal())):
            model = DropoutAutoencoder(drop, ridge, diagonal, feedback="graded", dtype="float64").fit_gram(gram)  # type: ignore[arg-type]
            weights = wrong * torch.from_numpy(model.weights())
            stated = torch.eye(size).double() - C * sigma
            found.append(compare(weights, "==", stated, f"I - C diag(sigma), {diagonal}, {size} items"))
            weights.requires_grad_()
            loss = _masked(x, weights, drop, diagonal == "zero")
            loss = loss + (drop if diagonal == "zero" else 1.0) * ridge * weights.square().sum()
            (gradient,) = torch.autograd.grad(loss, weights)
            if diagonal == "zero":
                gradient = gradient - torch.diag(gradient.diagonal())
                found.append(compare(weights.detach().diagonal(), "==", 0.0, f"zero diagonal, {size} items"))
            worst = gradient.abs().max() / loss.detach()
            found.append(compare(worst, "<=", torch.tensor(1e-10), f"{diagonal} diagonal, {size} items"))
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
    total = torch.zeros((), dtype=x.dtype)
    for bits in itertools.product((0.0, 1.0), repeat=x.shape[1]):
        z = torch.tensor(bits, dtype=x.dtype)
        error = (x - (x * z / (1 - drop)) @ weights).square()
        kept = sum(bits)
        chance = (1 - drop) ** kept * drop ** (len(bits) - kept)
        total = total + chance * ((1 - z) * error if dropped_only else error).sum()
    return total
