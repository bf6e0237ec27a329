from . import linalg, norms
from .data import Entries, Measurements, Moments, Sample
from .errors import CertificateError, NoClosedForm, NoFiniteSupport
from .estimates import Bound, Estimate
from .losses import CrossEntropy, Logistic, Squared
from .masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw, Product, SlidingBlock, drop_for_width
from .models import (
    Autoencoder,
    Connections,
    DeepLinear,
    Factorization,
    LastLayer,
    Model,
    ReLUNet,
    TwoLayerLinear,
)
from .penalties import (
    ClosedForm,
    Enumerate,
    MonteCarlo,
    best_method,
    criterion,
    effective_strength,
    penalty,
    risk,
    sub_penalties,
)

__version__: str
__all__ = [
    "Autoencoder",
    "Bernoulli",
    "Block",
    "Bound",
    "CertificateError",
    "ClosedForm",
    "Connections",
    "CrossEntropy",
    "DeepLinear",
    "Discrete",
    "Entries",
    "Enumerate",
    "Estimate",
    "Factorization",
    "Gaussian",
    "LastLayer",
    "Logistic",
    "MaskLaw",
    "Measurements",
    "Model",
    "Moments",
    "MonteCarlo",
    "NoClosedForm",
    "NoFiniteSupport",
    "Product",
    "ReLUNet",
    "Sample",
    "SlidingBlock",
    "Squared",
    "TwoLayerLinear",
    "__version__",
    "best_method",
    "criterion",
    "drop_for_width",
    "effective_strength",
    "linalg",
    "norms",
    "penalty",
    "risk",
    "sub_penalties",
]
