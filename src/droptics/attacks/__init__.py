"""Attacks: the worst case over a threat, with losses that can be changed and results that are verified."""

from droptics.attacks.attack import Attack, WeakAttackWarning, attack, proportion, robustness_curve
from droptics.attacks.closed_form import affine_map, linear_attack, smallest_margins
from droptics.attacks.losses import Margin, Reflected, margins
from droptics.attacks.methods import Bim, Decay, Fgsm, LinearExact, Method, Pgd
from droptics.attacks.search import perturb
from droptics.attacks.threat import Threat
from droptics.losses import CrossEntropy, Logistic, Loss

__all__ = [
    "Attack",
    "Bim",
    "CrossEntropy",
    "Decay",
    "Fgsm",
    "LinearExact",
    "Logistic",
    "Loss",
    "Margin",
    "Method",
    "Pgd",
    "Reflected",
    "Threat",
    "WeakAttackWarning",
    "affine_map",
    "attack",
    "linear_attack",
    "margins",
    "perturb",
    "proportion",
    "robustness_curve",
    "smallest_margins",
]
