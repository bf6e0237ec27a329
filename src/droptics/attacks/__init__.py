"""Attacks: the worst case over a threat, with losses that can be changed and results that are verified."""

from droptics.attacks.attack import Attack, WeakAttackWarning, attack, proportion, robustness_curve
from droptics.attacks.averaged import Averaged
from droptics.attacks.closed_form import affine_map, linear_attack, smallest_margins
from droptics.attacks.ensemble import robust_accuracy, standard_attacks
from droptics.attacks.losses import Dlr, Margin, Reflected, margins
from droptics.attacks.methods import Apgd, Bim, Decay, Fab, Fgsm, LinearExact, Method, Pgd, Square
from droptics.attacks.robustness import Robustness
from droptics.attacks.search import perturb
from droptics.attacks.threat import Threat
from droptics.losses import CrossEntropy, Logistic, Loss

__all__ = [
    "Apgd",
    "Attack",
    "Averaged",
    "Bim",
    "CrossEntropy",
    "Decay",
    "Dlr",
    "Fab",
    "Fgsm",
    "LinearExact",
    "Logistic",
    "Loss",
    "Margin",
    "Method",
    "Pgd",
    "Reflected",
    "Robustness",
    "Square",
    "Threat",
    "WeakAttackWarning",
    "affine_map",
    "attack",
    "linear_attack",
    "margins",
    "perturb",
    "proportion",
    "robust_accuracy",
    "robustness_curve",
    "smallest_margins",
    "standard_attacks",
]
