"""droptics: what dropout does to a model, exactly.

`__all__` holds what one types in the first hour. Everything else lives in its room (`droptics.masks.Discrete`); what
was public here before answers under that spelling too (`droptics.Discrete`), and docs/api.md says where it lives.

All spellings stand in `__init__.pyi` and are loaded when first used, so that `import droptics` and `droptics --help`
answer at once.
"""

import lazy_loader

__getattr__, _, _SPELLINGS = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.1.0"
__all__ = ["__version__"]
__all__ += ["Entries", "Moments", "Sample"]  # data
__all__ += ["Bernoulli", "Block", "Gaussian", "Product"]  # laws
__all__ += ["Autoencoder", "DeepLinear", "Factorization", "LastLayer", "ReLUNet", "TwoLayerLinear"]  # models
__all__ += ["ClosedForm", "Enumerate", "MonteCarlo"]  # methods
__all__ += ["audit", "certify", "criterion", "envelope", "equalize", "optimum", "penalty", "predictive", "risk"]
__all__ += ["CrossEntropy", "Dropout", "Penalized", "Plain", "train"]  # training
__all__ += ["Pgd", "Threat", "attack", "robust_accuracy"]  # attacks
__all__ += ["DropBlock", "ExplicitDropout"]  # layers
__all__ += ["DropoutClassifier", "DropoutRegressor", "DropoutRidgeCV"]  # estimators
__all__ += ["DropoutAutoencoder", "DropoutCompletion", "StackedCompletion"]  # recommenders
__all__ += ["tune_rates"]  # rates
__all__ += ["reproduce", "verify"]  # evidence
__all__ += ["bounds", "coadaptation", "datasets", "landscapes", "layers", "linalg", "norms"]  # rooms


def __dir__() -> list[str]:
    return list(__all__)
