"""The convolutional network of thesis section 5.5, and several of them trained side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.papers.thesis.capture import captured


class LeNet(nn.Module):
    """Two convolutions with max-pooling and three fully connected layers; `width` units in the last hidden one.

    Weights and biases are uniform within +-gain / sqrt(fan-in): gain 1 is torch's own start, sqrt(6) He's.
    """

    def __init__(self, width: int, seed: int = 0, gain: float = 1.0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):  # the weights are drawn below, from their own generator
            self.first = nn.Conv2d(1, 6, 5, padding=2)
            self.second = nn.Conv2d(6, 16, 5)
            self.lower = nn.Linear(400, 120)
            self.upper = nn.Linear(120, width)
            self.head = nn.Linear(width, 10)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for layer in self.children():
                reach = gain * layer.get_parameter("weight")[0].numel() ** -0.5
                for parameter in layer.parameters():
                    parameter.copy_((2 * torch.rand(parameter.shape, generator=generator) - 1) * reach)

    def features(self, images: Tensor) -> Tensor:
        """Activations (n, width) of the last hidden layer."""
        value = functional.max_pool2d(functional.relu(self.first(images)), 2)
        value = functional.max_pool2d(functional.relu(self.second(value)), 2)
        return functional.relu(self.upper(functional.relu(self.lower(value.flatten(1)))))

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n, 10)."""
        return self.head(self.features(images))


class Runs:
    """Networks of one width trained side by side by SGD, each on batches and masks of its own.

    The weights of all runs lie stacked in one tensor per layer, and the networks given become views of them. On a GPU
    a step is recorded once per batch size and replayed.
    """

    def __init__(self, networks: Sequence[LeNet], images: Tensor, labels: Tensor, rate: float) -> None:
        self.networks, self._images, self._labels, self._rate = list(networks), images, labels, rate
        named = [dict(network.named_parameters()) for network in networks]
        self._weights = {
            name: torch.stack([parameters[name].detach() for parameters in named]).requires_grad_() for name in named[0]
        }
        for i, parameters in enumerate(named):
            for name, parameter in parameters.items():
                parameter.data = self._weights[name].detach()[i]
        self._multipliers = torch.ones(len(networks), named[0]["head.weight"].shape[1], device=images.device)
        self._steps: dict[int, tuple[Tensor, Callable[[], Tensor]]] = {}

    def step(self, chosen: Tensor, multipliers: Tensor) -> Tensor:
        """One step of every run on images `chosen` (runs, batch), top units times `multipliers` (runs, width).

        Returns the losses (runs,) before the step; the tensor is overwritten by later steps.
        """
        size = chosen.shape[1]
        if size not in self._steps:
            index = torch.zeros_like(chosen)
            self._steps[size] = index, captured(partial(self._advance, index), list(self._weights.values()))
        index, advance = self._steps[size]
        index.copy_(chosen)
        self._multipliers.copy_(multipliers)
        return advance()

    def outputs(self, images: Tensor) -> Tensor:
        """Logits (runs, n, 10) of images (runs, n, 1, 28, 28), each run on its own, under the current multipliers."""
        value = images
        for name, padding in (("first", 2), ("second", 0)):
            value = self._pooled(name, value, padding)
        value = value.flatten(2)
        for name in ("lower", "upper"):
            weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
            value = functional.relu(torch.baddbmm(bias[:, None], value, weight.mT))
        # masking the last weights instead of the activations is the same and moves less memory
        top = self._weights["head.weight"] * self._multipliers[:, None]
        return torch.baddbmm(self._weights["head.bias"][:, None], value, top.mT)

    def _pooled(self, name: str, value: Tensor, padding: int) -> Tensor:
        """Convolution of each run by its own filters, relu and max-pooling; (runs, n, channels, rows, columns)."""
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        # one by one: grouped convolutions and products of patches are several times slower on a GPU
        found = [functional.conv2d(x, w, b, padding=padding) for x, w, b in zip(value, weight, bias, strict=True)]
        return functional.max_pool2d(functional.relu(torch.cat(found)), 2).unflatten(0, value.shape[:2])

    def _advance(self, chosen: Tensor) -> Tensor:
        outputs, labels = self.outputs(self._images[chosen]), self._labels[chosen]
        losses = functional.cross_entropy(outputs.flatten(0, 1), labels.flatten(), reduction="none")
        losses = losses.view(labels.shape).mean(1)
        slopes = torch.autograd.grad(losses.sum(), list(self._weights.values()))
        with torch.no_grad():
            for weight, slope in zip(self._weights.values(), slopes, strict=True):
                weight.sub_(slope, alpha=self._rate)
        return losses.detach()
