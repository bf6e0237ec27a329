from . import bounds, coadaptation, datasets, landscapes, layers, linalg, norms
from .attacks import Attack, Bim, Fgsm, Margin, Pgd, Reflected, Threat, attack
from .audits import Report, audit
from .data import Entries, Measurements, Moments, Sample
from .envelopes import envelope, induced
from .equalization import equalize, imbalance
from .errors import CertificateError, NoClosedForm, NoFiniteSupport
from .estimates import Bound, Estimate
from .layers import DropBlock, DropConnect, ExplicitDropout
from .losses import CrossEntropy, Logistic, Squared
from .masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw, Product, SlidingBlock, drop_for_width
from .models import Autoencoder, Connections, DeepLinear, Factorization, LastLayer, Model, ReLUNet, TwoLayerLinear
from .optima import Certificate, Optimum, certify, optimum
from .optima.ridge import DropoutRidge, DropoutRidgeCV
from .papers import reproduce, verify
from .penalties import (
    ClosedForm,
    Enumerate,
    MonteCarlo,
    SecondOrder,
    best_method,
    criterion,
    effective_strength,
    penalty,
    risk,
    sub_penalties,
)
from .recommenders import DropoutCompletion, DropoutCompletionCV
from .training import Adversarial, Dropout, Penalized, Plain, Run, train

__version__: str
__all__ = [
    "Adversarial",
    "Attack",
    "Autoencoder",
    "Bernoulli",
    "Bim",
    "Block",
    "Bound",
    "Certificate",
    "CertificateError",
    "ClosedForm",
    "Connections",
    "CrossEntropy",
    "DeepLinear",
    "Discrete",
    "DropBlock",
    "DropConnect",
    "Dropout",
    "DropoutCompletion",
    "DropoutCompletionCV",
    "DropoutRidge",
    "DropoutRidgeCV",
    "Entries",
    "Enumerate",
    "Estimate",
    "ExplicitDropout",
    "Factorization",
    "Fgsm",
    "Gaussian",
    "LastLayer",
    "Logistic",
    "Margin",
    "MaskLaw",
    "Measurements",
    "Model",
    "Moments",
    "MonteCarlo",
    "NoClosedForm",
    "NoFiniteSupport",
    "Optimum",
    "Penalized",
    "Pgd",
    "Plain",
    "Product",
    "ReLUNet",
    "Reflected",
    "Report",
    "Run",
    "Sample",
    "SecondOrder",
    "SlidingBlock",
    "Squared",
    "Threat",
    "TwoLayerLinear",
    "__version__",
    "attack",
    "audit",
    "best_method",
    "bounds",
    "certify",
    "coadaptation",
    "criterion",
    "datasets",
    "drop_for_width",
    "effective_strength",
    "envelope",
    "equalize",
    "imbalance",
    "induced",
    "landscapes",
    "layers",
    "linalg",
    "norms",
    "optimum",
    "penalty",
    "reproduce",
    "risk",
    "sub_penalties",
    "train",
    "verify",
]
