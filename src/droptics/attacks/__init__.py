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

__all__ = ["Attack", "Threat", "WeakAttackWarning", "attack", "perturb"]  # an attack
__all__ += ["Apgd", "Bim", "Decay", "Fab", "Fgsm", "LinearExact", "Method", "Pgd", "Square"]  # methods
__all__ += ["CrossEntropy", "Dlr", "Logistic", "Loss", "Margin", "Reflected", "margins"]  # losses
__all__ += ["Averaged", "Robustness", "proportion", "robust_accuracy", "robustness_curve", "standard_attacks"]
__all__ += ["affine_map", "linear_attack", "smallest_margins"]  # closed forms
