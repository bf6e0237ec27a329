"""The calling convention of torchattacks, so that a script switches by one import.

    import droptics.attacks.adapter as torchattacks
    attack = torchattacks.PGD(model, eps=8 / 255, alpha=2 / 255, steps=10)
    adversarial = attack(images, labels)

Images lie in [0, 1], labels are classes. The model runs in eval mode during the call and returns to its own mode
afterwards. FGSM and BIM give the same images; PGD stops working on an image as soon as it is misclassified, so it
finds at least as many adversarial images in less time. Any loss of `droptics.attacks` can be given.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from droptics.attacks.gradients import Function, differentiable
from droptics.attacks.losses import mistaken
from droptics.attacks.methods import Bim, Fgsm, Method, Pgd
from droptics.attacks.search import perturb
from droptics.attacks.threat import Threat
from droptics.checks import check_finite
from droptics.losses import CrossEntropy, Loss
from droptics.models.modules import evaluating

_EPS, _ALPHA = 8 / 255, 2 / 255


class Adapter:
    """An attack that is constructed with the model and called with images and labels."""

    def __init__(self, model: Function, threat: Threat, method: Method, seed: int = 0) -> None:
        self.model, self.threat, self.method, self._seed = model, threat, method, seed
        self._generators: dict[torch.device, torch.Generator] = {}

    def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
        """Perturbed images, detached and in [0, 1]; an empty batch comes back empty."""
        images = images.detach()
        check_finite(images, "images")
        if images.numel() and (float(images.min()) < 0 or float(images.max()) > 1):
            raise ValueError(
                f"images must lie in [0, 1], got values from {float(images.min())} to {float(images.max())}; "
                "undo the normalization and put it inside the model"
            )
        generator = self._generators.setdefault(images.device, torch.Generator(images.device).manual_seed(self._seed))
        with evaluating(self.model):
            return perturb(self.model, images, labels, self.threat, self.method, generator)

    def success(self, images: Tensor, labels: Tensor) -> Tensor:
        """Which images the model gets wrong, in eval mode."""
        with evaluating(self.model):
            return mistaken(differentiable(self.model).scores(images), labels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.threat}, {self.method})"


class FGSM(Adapter):
    """Fast gradient sign method in the linf ball."""

    def __init__(self, model: Function, eps: float = _EPS, *, loss: Loss | None = None) -> None:
        super().__init__(model, Threat("linf", eps, (0, 1)), Fgsm(loss or CrossEntropy()))


class BIM(Adapter):
    """Basic iterative method in the linf ball; `steps=0` chooses them from eps as in the original paper."""

    def __init__(
        self, model: Function, eps: float = _EPS, alpha: float = _ALPHA, steps: int = 10, *, loss: Loss | None = None
    ) -> None:
        count = steps if steps else int(min(eps * 255 + 4, 1.25 * eps * 255))
        super().__init__(model, Threat("linf", eps, (0, 1)), Bim(loss or CrossEntropy(), count, alpha))


class PGD(Adapter):
    """Projected gradient ascent in the linf ball."""

    norm = "linf"

    def __init__(  # parameters: those of torchattacks, in its order
        self,
        model: Function,
        eps: float = _EPS,
        alpha: float = _ALPHA,
        steps: int = 10,
        random_start: bool = True,
        *,
        loss: Loss | None = None,
        seed: int = 0,
    ) -> None:
        method = Pgd(loss or CrossEntropy(), steps, alpha, start="random" if random_start else "input")
        super().__init__(model, Threat(self.norm, eps, (0, 1)), method, seed)


class PGDL2(PGD):
    """Projected gradient ascent in the l2 ball; further arguments are those of PGD."""

    norm = "l2"

    def __init__(self, model: Function, eps: float = 1.0, alpha: float = 0.2, *rest: Any, **named: Any) -> None:
        super().__init__(model, eps, alpha, *rest, **named)
