"""Dropout without noise: the identity forwards, and what dropout would add for the loss."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.arguments import Count, DropRate, check_arguments
from droptics.checks import as_drop, check_size
from droptics.data import Sample
from droptics.estimates import Estimate
from droptics.layers import triton_penalty
from droptics.layers.sampled import divergences, drawn_penalties
from droptics.layers.weights import HeadWeights, check_head, head_weights
from droptics.losses import CrossEntropy, Logistic, Loss, Squared
from droptics.masks import Bernoulli
from droptics.models import LastLayer
from droptics.models.modules import linear_layer
from droptics.penalties import Certified, Method, MonteCarlo, SecondOrder, penalty
from droptics.penalties.certified import upper_bounds
from droptics.penalties.factors import Moves

Form = Literal["second-order", "bound", "sampled"]


class ExplicitDropout(nn.Module):
    """Replaces nn.Dropout before a linear layer: passes features on unchanged and keeps the penalty dropout would add.

    For squared loss E_mask ||head(z o a) - y||^2 = ||head(a) - y||^2 + drop / (1 - drop) sum_j a_j^2 ||w_j||^2
    (mianjy2018-lemA.1), so `loss + layer.penalty` has exactly the expectation of the loss under dropout, and no
    variance. For CrossEntropy and Logistic `form` says what stands for the penalty:

    - "second-order": half the curvature of the loss times the variance of the outputs, at the cost of one more product
      of matrices; an approximation whose error `check` measures. It saturates where the head is confident.
    - "bound": the proved upper bound log(1 + M1) (droptics-certified): training minimizes an upper bound of the dropout
      objective. Cost and memory grow with examples x classes x features: for heads of up to some hundred classes.
    - "sampled": the mean over `masks` masks of the head alone, each of which drops at the rate and all together every
      unit equally often; unbiased, and with `explicit_consistency` R-Drop in one pass of the body.

    In evaluation mode the penalty is zero. Leading dimensions are examples; `explicit_penalty` leaves out padding.

        head = nn.Linear(512, 10)
        explicit = ExplicitDropout(0.5, head)
        net = nn.Sequential(body, explicit, head)
        loss = (net(x) - y).square().sum(-1).mean() + explicit.penalty

    Args:
        drop: The rate, the `p` of nn.Dropout.
        head: The linear layer that follows, an nn.Linear or a LoRA layer around one; referred to, not owned.
        loss: Loss of the head's outputs.
        over: "examples" for a loss averaged over examples (the convention of this library), "elements" for one that
            also averages over outputs, as nn.MSELoss() does.
        form: What stands for the penalty of CrossEntropy and Logistic.
        masks: Masks of form "sampled".
    """

    def __init__(
        self,
        drop: DropRate,
        head: nn.Module,
        loss: Loss = Squared(),
        form: Form = "second-order",
        *,
        over: Literal["examples", "elements"] = "examples",
        masks: Count = 8,
    ) -> None:
        check_arguments(ExplicitDropout.__init__, locals())
        super().__init__()
        check_head(head)
        if not isinstance(loss, (Squared, CrossEntropy, Logistic)):
            raise ValueError(f"loss must be Squared(), CrossEntropy() or Logistic(), got {type(loss).__name__}")
        if over == "elements" and not isinstance(loss, Squared):
            raise ValueError("over='elements' is for squared loss; other losses give one number per example")
        if form != "second-order" and isinstance(loss, Squared):
            raise ValueError(f"form={form!r} is for cross-entropy; for squared loss the penalty is exact without it")
        if form == "sampled" and masks < 2:
            raise ValueError(f"masks must be at least 2 for form='sampled', got {masks}")
        self.drop = float(as_drop(drop))
        self.loss, self.over, self.form, self.masks = loss, over, form, int(masks)
        # in a tuple, so that the head is not registered a second time
        self._head = (head,)
        self._branch: str | None = None
        self.penalty: Tensor = torch.zeros(())
        self.penalties: Tensor = torch.zeros(0)
        self.logs: Tensor | None = None

    @staticmethod
    def of_lora(layer: nn.Module, loss: Loss, form: Form = "second-order", adapter: str = "default") -> ExplicitDropout:
        """Take the place of the dropout inside a LoRA layer that ends a network: only its branch falls.

        The outputs are W a + s B A (z o a); what falls is s B A, and the loss is taken at the whole outputs. The rate
        is that of the layer's own dropout, which this replaces.
        """
        check_arguments(ExplicitDropout.of_lora, locals())
        own = getattr(layer, "lora_dropout", None)
        if own is None or adapter not in own:
            raise ValueError(f"layer must be a LoRA layer with an adapter {adapter!r}, got {type(layer).__name__}")
        explicit = ExplicitDropout(float(getattr(own[adapter], "p", 0.0)), layer, loss, form)
        explicit._branch = adapter
        own[adapter] = explicit
        return explicit

    @property
    def p(self) -> float:
        """The rate, under the name nn.Dropout uses."""
        return self.drop

    @property
    def head(self) -> nn.Module:
        """The layer whose dropout penalty is kept."""
        return self._head[0]

    def forward(self, input: Tensor) -> Tensor:
        """Return the input; in training mode `penalty` becomes that of this batch, else zero.

        `penalties` are those of the single examples (or tokens), of the shape of the input without its last dimension.
        """
        weights = head_weights(self.head, self._branch)
        check_size("input (last dimension)", input.shape[-1], weights.whole.shape[-1], "the inputs of the head")
        if self.training and self.drop > 0:
            found, mean = self._penalties(input if input.ndim == 2 else input.reshape(-1, input.shape[-1]), weights)
        else:
            wide = torch.promote_types(input.dtype, torch.float32)
            found, self.logs = input.new_zeros(input.shape[:-1].numel(), dtype=wide), None
            mean = found.mean()
        each = found if input.ndim == 2 else found.reshape(input.shape[:-1])
        self.__dict__["penalties"], self.__dict__["penalty"] = each, mean  # nn.Module would look in its parameters
        return input

    def _penalties(self, features: Tensor, weights: HeadWeights) -> tuple[Tensor, Tensor]:
        """Those of the rows, and their mean."""
        if isinstance(self.loss, Squared) and triton_penalty.applies(features, weights.masked):
            return triton_penalty.penalties(features, weights.masked, self._share(weights))
        found = self._formula(features, weights)
        return found, found.mean()

    def _share(self, weights: HeadWeights) -> float:
        """What the squared contributions of the units are multiplied by."""
        return self.drop / (1 - self.drop) / (len(weights.whole) if self.over == "elements" else 1)

    def _formula(self, features: Tensor, weights: HeadWeights) -> Tensor:
        # squares of half-precision numbers overflow and their sums round, whoever chose that precision
        kind = features.device.type
        if torch.is_autocast_enabled(kind):
            with torch.autocast(kind, enabled=False):
                return self._formula(features, weights)
        if features.dtype != weights.whole.dtype or features.dtype.itemsize < 4:
            wide = torch.promote_types(torch.promote_types(features.dtype, weights.whole.dtype), torch.float32)
            features, weights = features.to(wide), weights.to(wide)
        if isinstance(self.loss, Squared):
            return torch.mv(features * self._share(weights) * features, weights.masked.square().sum(0))
        outputs = functional.linear(features, weights.whole, weights.bias)
        if self.form == "second-order":
            # neither curvature depends on the label
            curvatures = self.loss.curvatures(outputs, outputs.new_zeros(0), weights.masked)
            return 0.5 * self._share(weights) * (features.square() * curvatures).sum(-1)
        masked = weights.masked
        if isinstance(self.loss, Logistic):  # the softmax of (f, 0)
            outputs, masked = functional.pad(outputs, (0, 1)), functional.pad(masked, (0, 0, 0, 1))
        if self.form == "bound":
            moves = Moves(outputs - features @ masked.mT, features, masked.unsqueeze(0))
            return upper_bounds(moves, Bernoulli(self.drop, features.shape[-1]))
        added, self.logs = drawn_penalties(features, outputs, masked, self.drop, self.masks)
        return added

    @property
    def consistencies(self) -> Tensor:
        """Mean Kullback-Leibler divergence between two different masks of an example, in the shape of `penalties`.

        R-Drop's term, over all ordered pairs of the masks of form "sampled" at once: with log-probabilities L_k and
        probabilities p_k it is (K sum_k p_k . L_k - (sum_k p_k) . (sum_k L_k)) / (K (K - 1)). To second order twice the
        penalty, times up to K / (K - 1) because masks drawn together balance each other (droptics-consistency).
        """
        if self.form != "sampled":
            raise ValueError(f"form must be 'sampled' to compare masks, got {self.form!r}")
        if self.logs is None:
            return torch.zeros_like(self.penalties)
        return divergences(self.logs).reshape(self.penalties.shape)

    def check(self, input: Tensor, method: MonteCarlo = MonteCarlo(samples=400)) -> Estimate:
        """The penalty of these features in this form with the interval of the true one beside it.

        The second-order approximation is outside its range where its value lies outside the interval (confident heads
        at large rates); the method text states the measured error. Form "bound" has its certified interval, form
        "sampled" that of Monte Carlo. What masks add needs no labels, because they leave the mean of every output as
        it is. Costs `method.samples` passes through the head.
        """
        if isinstance(self.loss, Squared):
            raise ValueError("loss is Squared(), for which the penalty is exact: there is nothing to check")
        if self._branch is not None:
            raise ValueError("head is a LoRA layer of which only the branch falls; check needs a head that falls whole")
        features = input.detach().reshape(-1, input.shape[-1])
        weights = head_weights(self.head)
        wide = torch.promote_types(torch.promote_types(features.dtype, weights.whole.dtype), torch.float32)
        known = weights.to(wide)
        head = linear_layer(known.whole, known.bias).requires_grad_(False)
        labels = torch.full((len(features),), int(isinstance(self.loss, Logistic)), device=features.device)
        sample = Sample(features.to(wide), labels)
        law = Bernoulli(self.drop, known.whole.shape[-1])
        ways: dict[str, Method] = {"second-order": SecondOrder(check=method), "bound": Certified(), "sampled": method}
        with torch.autocast(features.device.type, enabled=False):
            return penalty(LastLayer.of(head), sample, law, ways[self.form], self.loss)

    def __getstate__(self) -> dict[str, Any]:
        # a penalty belongs to its batch and its graph; neither is copied or saved
        return {**self.__dict__, "penalty": torch.zeros(()), "penalties": torch.zeros(0), "logs": None}

    def extra_repr(self) -> str:
        """The settings, for printing."""
        return f"drop={self.drop}, loss={type(self.loss).__name__}, form={self.form!r}, over={self.over!r}"


def explicit_penalty(
    module: nn.Module, labels: Tensor | None = None, *, ignore_index: int = -100, shifted: bool = False
) -> Tensor:
    """Sum of the penalties that the ExplicitDropout layers of a module hold after a forward pass.

    With `labels` of the shape of the tokens the mean is over those that the loss counts, whose label is not
    `ignore_index`: padding adds nothing, as in nn.CrossEntropyLoss. `shifted` is for causal language models that are
    given unshifted labels: the outputs of token t are compared with the label of token t + 1.

    Cost: a sum over the layers. Claim: none, a sum.
    """
    check_arguments(explicit_penalty, locals())
    return torch.stack([_mean(one.penalties, labels, ignore_index, shifted) for one in _layers(module)]).sum()


def explicit_consistency(
    module: nn.Module, labels: Tensor | None = None, *, ignore_index: int = -100, shifted: bool = False
) -> Tensor:
    """R-Drop's divergence between the masks of layers of form "sampled", in one pass of the body; labels as above.

    Training with clean loss + `explicit_penalty` + alpha `explicit_consistency` is R-Drop of weight alpha with the
    dropout of the head, averaged over `masks` masks instead of two passes.

    Conditions: after a forward pass in training mode. Cost: O(masks classes) per token. Claim: droptics-consistency.
    """
    check_arguments(explicit_consistency, locals())
    return torch.stack([_mean(one.consistencies, labels, ignore_index, shifted) for one in _layers(module)]).sum()


def _layers(module: nn.Module) -> list[ExplicitDropout]:
    layers = [layer for layer in module.modules() if isinstance(layer, ExplicitDropout)]
    if not layers:
        raise ValueError(f"module must hold an ExplicitDropout layer, {type(module).__name__} has none")
    return layers


def _mean(values: Tensor, labels: Tensor | None, ignore_index: int, shifted: bool) -> Tensor:
    if labels is None:
        return values.mean() if values.numel() else values.sum()
    if labels.shape != values.shape:
        raise ValueError(
            f"labels must have the shape of the tokens {tuple(values.shape)}, got {tuple(labels.shape)}; one label each"
        )
    if shifted:
        labels = functional.pad(labels[..., 1:], (0, 1), value=ignore_index)
    counted = (labels != ignore_index).to(values)
    return (values * counted).sum() / counted.sum().clamp_min(1)
