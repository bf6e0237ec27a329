"""Chapter 1 of the thesis: what can be computed of its introduction, as claims."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from droptics.attacks import CrossEntropy, Fgsm, Logistic, Loss, Margin, Reflected, Threat, attack
from droptics.bounds import surveyed
from droptics.data import Moments, Sample
from droptics.equalization import gap_condition
from droptics.evidence.claims import Claim, Comparison, compare
from droptics.linalg import psd_root
from droptics.masks import Bernoulli
from droptics.models import DeepLinear, TwoLayerLinear
from droptics.norms import path_norm
from droptics.papers.instances import coin_masks, expected_error, moments, normal, second_moment, tensor, two_layer
from droptics.papers.thesis import chapter3_checks, proof_checks
from droptics.papers.thesis import survey_checks as survey
from droptics.papers.thesis.errata import ERRATA
from droptics.penalties import criterion, penalty

SOURCE = "Mianjy thesis (Johns Hopkins), chapter 1"


def all_paths(shift: float = 0.0) -> list[Comparison]:
    """The l_p path norm of the library at p + `shift`, and the product of matrices, against the sum over all paths."""
    found = []
    cases = ((2.0, (3, 2, 4)), (1.0, (2, 3, 2, 2)), (3.0, (3, 2, 4)), (1.5, (2, 1, 3, 1)), (4.0, (5, 2)))
    for seed, (power, sizes) in enumerate(cases):
        weights = chapter3_checks.network(seed, sizes)
        weights[0][0, 0] = 0.0
        paths = chapter3_checks.path_power(weights, power)
        flow = torch.ones(sizes[0], dtype=torch.float64)
        for weight in weights:
            flow = weight.abs() ** power @ flow
        label = f"p={power}, sizes {sizes}"
        found.append(compare(flow.sum(), "==", paths, f"product of matrices, {label}"))
        found.append(compare(path_norm(weights, power + shift), "==", paths ** (1 / power), label))
        gone = [*weights[:-1], 0.0 * weights[-1]]
        found.append(compare(path_norm(gone, power + shift), "==", 0.0, f"a layer of zeros, {label}"))
    # one path, of a small weight beside large ones
    alone = [tensor([[1.0, 0.5], [1e-6, 0.0]]), tensor([[0.0, 3.0]])]
    for power in (1.0, 16.0, 63.5):
        found.append(compare(path_norm(alone, power + shift), "==", 3e-6, f"one small path, p={power}", scale=0.0))
    return found


def unscaled(share: Callable[[float], float]) -> list[Comparison]:
    """Dropout without division by theta at (W_1, W_2), mask by mask, = the library's with it at (W_1, share W_2)."""
    found = []
    for seed, (drop, inputs, width, outputs) in enumerate(
        ((0.3, 4, 4, 3), (0.8, 2, 5, 1), (0.05, 3, 1, 2), (0, 2, 2, 2))
    ):
        U, V, data = normal(seed, outputs, width), normal(seed + 1, inputs, width), moments(seed, outputs, inputs)
        masks = list(coin_masks([drop] * width))
        plain = expected_error(((U @ torch.diag(b) @ V.mT, c) for b, c in masks), data)
        other = TwoLayerLinear(share(1 - drop) * U, V)
        found.append(compare(criterion(other, data, Bernoulli(drop, width)), "==", plain, f"drop={drop}"))
    weights, drop = chapter3_checks.network(5, (3, 2, 3, 2)), 0.4
    data, keep = moments(5, 2, 3), share(1 - drop)
    raw = ((map_ * (1 - drop) ** 2, chance) for map_, chance in chapter3_checks.masked_maps(weights, drop))
    deep = DeepLinear([weights[0], keep * weights[1], keep * weights[2]])
    ours = criterion(deep, data, chapter3_checks.law(weights, drop))
    return [*found, compare(ours, "==", expected_error(raw, data), "two hidden layers, every later layer")]


def spectral_never_worse(count_outputs: bool, count_layers: bool = True) -> list[Comparison]:
    """Spectral expression against (k+1)/k times the PAC-Bayes one; d counts the output layer or not.

    For layers that are identities the two are equal, so that the factor (k+1)/k cannot be left out.
    """
    found = []
    nets = [chapter3_checks.network(seed, (4, 3, 2, 9)) for seed in range(4)]
    nets.append([torch.ones(2, 3, dtype=torch.float64), torch.eye(12, 2, dtype=torch.float64) + 1])
    nets += [[torch.eye(3, dtype=torch.float64)] * layers for layers in (2, 3)]
    for weights in nets:
        values = surveyed(weights, examples=100)
        for name, formula in (("spectral", survey.by_spectral), ("PAC-Bayes", survey.by_pac_bayes)):
            found.append(compare(values[name].value, "==", formula(weights) / 10, f"{name}, n=100"))
        hidden = len(weights) - 1
        widest = max(w.shape[0] for w in weights[:-1])
        grown = max(w.shape[0] for w in weights) if count_outputs else widest
        factor = ((hidden + 1) / hidden if count_layers else 1.0) * math.sqrt(grown / widest)
        found.append(
            compare(values["spectral"].value, "<=", factor * values["PAC-Bayes"].value, f"{hidden} hidden layers")
        )
    return found


def row_norms(constant: float) -> list[Comparison]:
    """||W^T||_{2,1}^2 <= (number of rows) ||W||_F^2."""
    found = []
    for W in (normal(1, 3, 5), normal(2, 6, 2), torch.ones(4, 4, dtype=torch.float64)):
        found.append(compare(W.norm(dim=1).sum() ** 2, "<=", constant * len(W) * W.square().sum(), "group norm"))
    return found


def _others(outputs: Tensor, targets: Tensor) -> Tensor:
    """The largest output of a wrong class."""
    wrong = [torch.cat([row[:k], row[k + 1 :]]).max() for row, k in zip(outputs, targets.tolist(), strict=True)]
    return torch.stack(wrong)


def one_infinite_step(share: float) -> list[Comparison]:
    """FGSM against x + nu sgn(gradient) and one projected gradient step, `share` of the least that leaves the ball.

    Gradients by automatic differentiation of losses of the margin m to the most likely wrong class, and of the
    cross-entropy of three classes; inputs are vectors, or matrices with one row. An input that the network does not
    look at has no slope and stays. The step takes the least slope anywhere to the face.
    """
    found = []
    cases: tuple[tuple[Loss, int, float, nn.Module], ...] = (
        (Logistic(), 1, 0.1, nn.Tanh()),
        (CrossEntropy(), 3, 0.3, nn.Tanh()),
        (Logistic(), 1, 2.0, nn.Tanh()),
        (Margin("greedy"), 3, 0.2, nn.ReLU()),
        (Reflected(CrossEntropy(), "greedy"), 3, 0.5, nn.Tanh()),
        (Reflected(Logistic()), 1, 0.4, nn.ReLU()),
    )
    for seed, (loss, outputs, radius, activation) in enumerate(cases):
        bottom = nn.Linear(3, 8)
        module = nn.Sequential(nn.Flatten(), bottom, activation, nn.Linear(8, outputs)).double()
        with torch.no_grad():
            for i, parameter in enumerate(module.parameters()):
                parameter.copy_(normal(seed + i, *parameter.shape))
            bottom.weight[:, 1] *= seed > 0
        x = normal(seed + 9, *((5, 3) if seed < 4 else (5, 1, 3))).requires_grad_(True)
        targets = torch.sign(normal(seed + 8, 5, 1)) if outputs == 1 else torch.tensor([0, 2, 1, 1, 0])
        ours = attack(module, Sample(x.detach(), targets), Threat("linf", radius), Fgsm(loss)).inputs
        z = module(x)
        m = (z * targets)[:, 0] if outputs == 1 else z[range(5), targets] - _others(z, targets)
        each = {
            Logistic: nn.functional.softplus(-m),
            CrossEntropy: -torch.log_softmax(z, 1)[range(5), 0 if outputs == 1 else targets],
            Margin: -m,
            Reflected: -nn.functional.softplus(m),
        }[type(loss)]
        (gradient,) = torch.autograd.grad(each.sum(), x)
        x = x.detach()
        found.append(compare(ours, "==", x + radius * gradient.sign(), f"as printed, {loss}"))
        steep = gradient.abs()[gradient != 0]
        stepped = x + share * radius / steep.min() * gradient
        projected = torch.maximum(torch.minimum(stepped, x + radius), x - radius)
        found.append(compare(projected, "==", ours, f"one projected step, {loss}"))
    return found


def path_norm_identity(lam_and_square: bool) -> list[Comparison]:
    """Penalty for isotropic inputs, by all masks, = the l2 path norm, or lam times its square, path by path."""
    found = []
    for seed, (outputs, inputs, width, drop) in enumerate(((3, 4, 5, 0.6), (2, 3, 1, 0.5), (1, 2, 3, 0.2))):
        model, data = two_layer(seed, outputs, inputs, width), Moments.of_map(normal(seed + 5, outputs, inputs))
        masked = ((model.U * kept @ model.V.mT / (1 - drop), chance) for kept, chance in coin_masks([drop] * width))
        added = expected_error(masked, data) - expected_error(iter([(model.matrix(), 1.0)]), data)
        size = chapter3_checks.path_power([model.V.mT, model.U], 2.0) ** 0.5
        stated = drop / (1 - drop) * size**2 if lam_and_square else size
        label = f"width {width}, drop {drop}"
        found.append(compare(added, "==", stated, f"all masks, {label}"))
        found.append(compare(path_norm([model.V.mT, model.U]), "==", size, f"the library's path norm, {label}"))
        found.append(compare(penalty(model, data, Bernoulli(drop, width)), "==", added, f"its penalty, {label}"))
    return found


def gap(share: float) -> list[Comparison]:
    """The gap condition s_1 - s_2 >= s_2/nu of one hidden layer, nu = lam/width, where s_2 is `share` of the largest.

    The library knows it a hundredth on either side, for inputs of any second moment C and Cyx = Mbar C^1/2, and that
    one output, of s_2 = 0, always has it.
    """
    found = []
    for seed, (first, width, drop, outputs) in enumerate(((1.0, 2, 0.5, 2), (3.0, 5, 0.8, 3), (0.2, 1, 0.1, 4))):
        nu, C, masks = drop / (1 - drop) / width, second_moment(seed, 4), Bernoulli(drop, width)
        level = nu * first / (1 + nu)
        found.append(compare(first - share * level, ">=", share * level / nu, f"gap at width {width}"))
        left, right = (torch.linalg.qr(normal(seed + size, size, size)).Q for size in (outputs, 4))
        for part in (0.99, 1.01):
            spectrum = tensor([first, part * level, *[0.5 * level] * (outputs - 2)])
            cross = (left * spectrum) @ right[:outputs] @ psd_root(C)
            for yx, expected in ((cross, part <= 1), (cross[:1], True)):
                ours, label = gap_condition(Moments(C, yx, yx @ torch.linalg.solve(C, yx.mT)), masks), f"width {width}"
                found.append(compare(float(ours.holds), "==", float(expected), f"library, {len(yx)} outputs, {label}"))
                top = torch.linalg.svdvals((left * spectrum)[: len(yx)] @ right[:outputs])[:2].tolist()
                wanted = [top[0], top[1] if len(yx) > 1 else 0.0, nu]
                found.append(compare([ours.first, ours.second, ours.strength], "==", wanted, f"its numbers, {label}"))
    return found


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "thesis-sec1.1",
        f"{SOURCE}, Section 1.1.1",
        "The l_p path norm, p >= 1 a number, is the l_p norm of the vector of the products of weights along all paths "
        "from an input to an output, and 1^T |W_{k+1}|^p ... |W_1|^p 1 to the power 1/p, entry by entry |.|^p.",
        check=all_paths,
        control=partial(all_paths, 0.2),
        objects=("norms.path_norm",),
        note="Printed is the definition; the product of matrices is how it is computed.",
    ),
    Claim(
        "thesis-sec1.1-scaling",
        f"{SOURCE}, Section 1.1.1, dropout without the factor 1/theta",
        "For linear networks the mean squared error under dropout that multiplies kept units by one, as here, at (W_1, "
        "W_2) is that under dropout that multiplies them by 1/theta, as in (2.1), at (W_1, theta W_2), theta > 0 the "
        "chance to be kept; and so for more layers, each but the first times theta.",
        check=partial(unscaled, lambda keep: keep),
        control=partial(unscaled, lambda keep: 0.95 * keep),
        objects=("penalties.criterion", "models.TwoLayerLinear", "models.DeepLinear"),
    ),
    Claim(
        "thesis-eq1.3-comparison",
        f"{SOURCE}, after eq. (1.3)",
        "The bound (1.2), the spectral expression of `surveyed`, is never worse than the bound (1.3), its PAC-Bayes "
        "expression, by ||W_i^T||_{2,1}^2 <= d ||W_i||_F^2 for every layer and ||v||_{2/3} <= (k+1) ||v||_2 for the "
        "k + 1 numbers v_i = ||W_i||_F.",
        "holds only if",
        check=lambda: [*spectral_never_worse(True), *row_norms(1.0), *proof_checks.group_norm(1.0)],
        control=partial(spectral_never_worse, True, False),
        outside=partial(spectral_never_worse, False),
        objects=("bounds.surveyed",),
        note="Only if d, printed as the largest of the k hidden widths, counts the output width, too, and up to the "
        "factor (k+1)/k. The control leaves that factor out. What v must hold is ||W_i||_F/||W_i||_2.",
    ),
    Claim(
        "thesis-eq1.3",
        f"{SOURCE}, eq. (1.3)",
        "Generalization gap <= O(prod_i ||W_i||_2 (d k^2 sum_i ||W_i||_F^2/||W_i||_2^2)^(1/2)/sqrt n), by PAC-Bayes: k "
        "hidden layers, d the widest of them, sums and products over all k + 1 weight matrices, n examples.",
        check=partial(survey.expressions, "PAC-Bayes", survey.by_pac_bayes),
        control=partial(survey.expressions, "PAC-Bayes", partial(survey.by_pac_bayes, every=True)),
        objects=("bounds.surveyed",),
        note="Checked is that `surveyed` returns what stands inside O(.); the bound itself is a theorem of the cited "
        "work, for inputs of norm up to 1, with a margin and a logarithm of d k that the print leaves out. The control "
        "counts the outputs in d.",
    ),
    Claim(
        "thesis-eq1.4",
        f"{SOURCE}, eq. (1.4)",
        "Generalization gap <= O(sqrt k prod_i ||W_i||_F/sqrt n): k hidden layers, the product over all k + 1 weight "
        "matrices, n examples.",
        check=partial(survey.expressions, "Frobenius", survey.by_frobenius),
        control=partial(survey.expressions, "Frobenius", partial(survey.by_frobenius, more=1)),
        objects=("bounds.surveyed",),
        note="Checked is that `surveyed` returns what stands inside O(.); the bound itself is a theorem of the cited "
        "work, for inputs of norm up to 1. The control counts all layers in k.",
    ),
    Claim(
        "thesis-sec1.1.3",
        f"{SOURCE}, Section 1.1.3",
        "FGSM, x + nu sgn(gradient of the loss), is one projected gradient step of infinite size from x for the l_inf "
        "ball of radius nu around x: entries of slope zero stay, and under every step that is large enough all others "
        "end at x_i + nu or x_i - nu.",
        check=lambda: [*one_infinite_step(1.0), *one_infinite_step(1e12)],
        control=partial(one_infinite_step, 0.9),
        objects=(
            "attacks.Fgsm",
            "attacks.attack",
        ),
    ),
    Claim(
        "thesis-sec1.3.1",
        f"{SOURCE}, Section 1.3.1",
        "In two-layer linear networks the regularizer due to dropout is equal to the l2 path norm.",
        "slip",
        check=partial(path_norm_identity, False),
        control=partial(path_norm_identity, True),
        objects=("norms.path_norm", "penalties.penalty"),
        erratum=ERRATA["sec1.3.1"],
    ),
    Claim(
        "thesis-sec1.3.1-gap",
        f"{SOURCE}, Section 1.3.1",
        "Two-layer linear networks always satisfy the gap condition of Theorem 10, s_1 - s_2 >= s_2/nu for the "
        "singular values of Mbar.",
        "slip",
        check=partial(gap, 1.01),
        control=partial(gap, 0.99),
        objects=(
            "equalization.gap_condition",
            "linalg.psd_root",
        ),
        erratum=ERRATA["sec1.3.1-gap"],
    ),
)
