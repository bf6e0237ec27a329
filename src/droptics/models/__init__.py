"""Model families: weights in, outputs under multipliers out."""

from droptics.models.deep_linear import DeepLinear
from droptics.models.last_layer import LastLayer
from droptics.models.model import LinearModel, Model
from droptics.models.relu import ReLUNet
from droptics.models.site import Site
from droptics.models.two_layer import Autoencoder, Connections, Factorization, TwoLayerLinear

__all__ = ["Autoencoder", "Connections", "DeepLinear", "Factorization", "TwoLayerLinear"]
__all__ += ["LastLayer", "LinearModel", "Model", "ReLUNet", "Site"]
