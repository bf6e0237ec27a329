"""Dropout without noise for cross-entropy: bounds, samples, padding, LoRA and R-Drop against every mask written out."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
from collections.abc import Callable

import pytest
import torch
from cases import normal
from compare import close
from torch import Tensor, nn
from torch.nn import functional

from droptics.data import Sample
from droptics.layers import ExplicitDropout, explicit_consistency, explicit_penalty
from droptics.layers.weights import head_weights
from droptics.losses import CrossEntropy, Logistic, Squared
from droptics.masks import Bernoulli
from droptics.models import LastLayer
from droptics.penalties import Certified, Enumerate, penalty

DROP, FEATURES = 0.4, 5


def head(outputs: int = 3, scale: float = 1.0) -> nn.Linear:
    layer = nn.Linear(FEATURES, outputs).double()
    with torch.no_grad():
        layer.weight.copy_(scale * normal(outputs, FEATURES, seed=1))
        layer.bias.copy_(normal(outputs, seed=2))
    return layer


class Lora(nn.Module):
    """A LoRA layer by the names that peft gives its parts."""

    def __init__(self, drop: float) -> None:
        super().__init__()
        self.base_layer = head()
        self.lora_A = nn.ModuleDict({"default": nn.Linear(FEATURES, 2, bias=False).double()})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(2, 3, bias=False).double()})
        self.lora_dropout = nn.ModuleDict({"default": nn.Dropout(drop)})
        self.scaling, self.active_adapters, self.merged = {"default": 1.5}, ["default"], False
        with torch.no_grad():
            self.lora_A["default"].weight.copy_(normal(2, FEATURES, seed=3))
            self.lora_B["default"].weight.copy_(normal(3, 2, seed=4))

    def forward(self, x: Tensor) -> Tensor:
        branch = self.lora_B["default"](self.lora_A["default"](self.lora_dropout["default"](x)))
        return self.base_layer(x) + self.scaling["default"] * branch


def over_masks(outputs: Callable[[Tensor], Tensor]) -> Tensor:
    """E log sum exp(outputs(z)) - log sum exp(outputs(1)) of every example, all masks written out."""
    total: Tensor | float = 0.0
    for bits in itertools.product((0.0, 1.0), repeat=FEATURES):
        kept = torch.tensor(bits, dtype=torch.float64)
        chance = float((kept * (1 - DROP) + (1 - kept) * DROP).prod())
        total = total + chance * torch.logsumexp(outputs(kept / (1 - DROP)), -1)
    return total - torch.logsumexp(outputs(torch.ones(FEATURES).double()), -1)


def held(layer: ExplicitDropout, features: Tensor) -> Tensor:
    layer(features)
    return layer.penalty


@pytest.mark.parametrize(("loss", "outputs"), [(CrossEntropy(), 4), (Logistic(), 1)])
def test_bound_is_above_the_expectation_and_the_certified_end(loss: CrossEntropy | Logistic, outputs: int) -> None:
    for scale in (0.1, 1.0, 4.0):
        layer, features = head(outputs, scale), normal(6, FEATURES)
        labels = torch.zeros(6, dtype=torch.long) if outputs > 1 else torch.ones(6).double()
        sample, law = Sample(features, labels), Bernoulli(DROP, FEATURES)
        found = float(held(ExplicitDropout(DROP, layer, loss, "bound"), features).detach())
        exact = float(penalty(LastLayer.of(layer), sample, law, Enumerate(), loss))
        assert exact - 1e-13 <= found
        if outputs > 1:
            # the certified end may be narrower, by margins
            assert float(penalty(LastLayer.of(layer), sample, law, Certified(), loss).upper) <= found * (1 + 1e-9)
    assert found > 1.01 * exact  # a bound, not the value


def test_bound_of_single_precision_and_large_logits_stays_finite() -> None:
    layer = head(4, 30.0).float()
    features = normal(6, FEATURES).float().requires_grad_()
    found = held(ExplicitDropout(0.9, layer, CrossEntropy(), "bound"), features)
    slopes = torch.autograd.grad(found, [features, layer.weight])
    assert bool(torch.isfinite(found))
    assert all(bool(torch.isfinite(slope).all()) for slope in slopes)


def test_bound_in_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, features = head(4), normal(9, FEATURES).requires_grad_()
    whole = held(ExplicitDropout(DROP, layer, CrossEntropy(), "bound"), features)
    expected = torch.autograd.grad(whole, [features, layer.weight])
    monkeypatch.setattr("droptics.penalties.certified.ROOM", 1)
    pieces = held(ExplicitDropout(DROP, layer, CrossEntropy(), "bound"), features)
    close(pieces, whole, 1e-14)
    for left, right in zip(torch.autograd.grad(pieces, [features, layer.weight]), expected, strict=True):
        close(left, right, 1e-13)


@pytest.mark.parametrize("form", ["second-order", "bound"])
def test_forms_have_right_gradients(form: str) -> None:
    def value(features: Tensor, weight: Tensor) -> Tensor:
        layer = nn.Linear(FEATURES, 3, bias=False).double()
        del layer.weight
        layer.weight = weight  # a tensor in the graph
        return held(ExplicitDropout(DROP, layer, CrossEntropy(), form), features)  # type: ignore[arg-type]

    assert torch.autograd.gradcheck(value, (normal(4, FEATURES).requires_grad_(), normal(3, FEATURES).requires_grad_()))


def test_sampled_is_unbiased_and_so_is_its_gradient() -> None:
    layer, features = head(), normal(4, FEATURES)
    exact = over_masks(lambda z: layer(features * z)).mean()
    (slope,) = torch.autograd.grad(exact, layer.weight)
    explicit = ExplicitDropout(DROP, layer, CrossEntropy(), "sampled", masks=4)
    torch.manual_seed(0)
    drawn = [held(explicit, features) for _ in range(400)]
    slopes = torch.stack([torch.autograd.grad(value, layer.weight)[0] for value in drawn])
    values = torch.stack(drawn).detach()
    assert abs(float(values.mean() - exact.detach())) < 4 * float(values.std()) / 400**0.5
    error = (slopes.mean(0) - slope).abs() / slopes.std(0) * 400**0.5
    assert float(error.max()) < 4.5  # fifteen numbers


def test_sampled_masks_drop_at_the_rate_and_take_turns() -> None:
    layer = nn.Linear(FEATURES, FEATURES, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(torch.eye(FEATURES))
    explicit = ExplicitDropout(0.25, layer, CrossEntropy(), "sampled", masks=4)
    torch.manual_seed(1)
    explicit(torch.ones(400, FEATURES).double())
    assert explicit.logs is not None
    fallen = explicit.logs < explicit.logs.amax(-1, keepdim=True) - 0.5
    # at a quarter every unit falls in exactly one of four masks, unless a mask lost all units
    whole = explicit.logs.exp().amax(-1) > 1 / FEATURES + 1e-9
    counted = fallen[whole.all(-1)].sum(1)
    assert bool((counted <= 1).all())
    assert float(fallen.double().mean()) == pytest.approx(0.25, abs=0.05)


def test_consistency_is_the_mean_divergence_of_all_pairs() -> None:
    explicit = ExplicitDropout(DROP, head(), CrossEntropy(), "sampled", masks=5)
    net = nn.Sequential(explicit)
    net(normal(3, FEATURES))
    assert explicit.logs is not None
    logs = explicit.logs
    pairs = [(logs[:, k].exp() * (logs[:, k] - logs[:, m])).sum(-1) for k in range(5) for m in range(5) if k != m]
    close(explicit.consistencies, torch.stack(pairs).mean(0), 1e-12)
    close(explicit_consistency(net), explicit.consistencies.mean(), 1e-14)


def test_consistency_is_twice_the_penalty_when_the_noise_is_small() -> None:
    layer = head(3, 1e-3)
    net = nn.Sequential(ExplicitDropout(0.5, layer, CrossEntropy(), "sampled", masks=64))
    torch.manual_seed(0)
    net(normal(400, FEATURES))
    assert float(explicit_consistency(net).detach()) == pytest.approx(
        2 * float(explicit_penalty(net).detach()), rel=0.05
    )


@pytest.mark.parametrize("form", ["second-order", "bound", "sampled"])
def test_padding_adds_nothing(form: str) -> None:
    layer, features = head(), normal(2, 4, FEATURES)
    labels = torch.tensor([[0, 1, -100, -100], [2, -100, 1, 0]])
    net = nn.Sequential(ExplicitDropout(DROP, layer, CrossEntropy(), form))  # type: ignore[arg-type]
    net(features)
    padded = net[0].penalties
    assert padded.shape == (2, 4)
    close(explicit_penalty(net, labels), padded[labels != -100].mean(), 1e-14)
    close(explicit_penalty(net), padded.mean(), 1e-14)
    ahead = torch.tensor([[True, False, False, False], [False, True, True, False]])
    close(explicit_penalty(net, labels, shifted=True), padded[ahead].mean(), 1e-14)
    close(explicit_penalty(net, torch.where(labels == 0, 7, labels), ignore_index=7), padded[labels != 0].mean(), 1e-14)
    assert float(explicit_penalty(net, torch.full((2, 4), -100)).detach()) == 0.0
    if form != "sampled":
        alone = nn.Sequential(ExplicitDropout(DROP, layer, CrossEntropy(), form))  # type: ignore[arg-type]
        alone(features[labels != -100])
        close(explicit_penalty(net, labels), explicit_penalty(alone), 1e-13)
        huge = features.masked_fill((labels == -100).unsqueeze(-1), 1e3)
        net(huge)
        close(explicit_penalty(net, labels), explicit_penalty(alone), 1e-13)


def test_squared_loss_counts_tokens_too() -> None:
    layer, features = head(), normal(2, 4, FEATURES)
    labels = torch.tensor([[0, 1, -100, -100], [2, -100, 1, 0]])
    net = nn.Sequential(ExplicitDropout(DROP, layer))
    net(features)
    counted = features[labels != -100]
    expected = DROP / (1 - DROP) * (counted.square() @ layer.weight.square().sum(0)).mean()
    close(explicit_penalty(net, labels), expected, 1e-13)


def test_layers_at_any_depth_add_up() -> None:
    inner, deepest, features = head(), head(4), normal(6, FEATURES)
    block = nn.Sequential(nn.ModuleDict({"one": nn.ModuleList([nn.Sequential(ExplicitDropout(DROP, deepest))])}))
    net = nn.ModuleList([ExplicitDropout(DROP, inner), block])
    net[0](features)
    block[0]["one"][0][0](features)
    energies = (features.square() @ layer.weight.square().sum(0) for layer in (inner, deepest))
    close(explicit_penalty(net), DROP / (1 - DROP) * sum(one.mean() for one in energies), 1e-13)
    deep = nn.Sequential(nn.Sequential(nn.Sequential(ExplicitDropout(DROP, inner, CrossEntropy(), "sampled"))))
    deep(features)
    close(explicit_consistency(deep), deep[0][0][0].consistencies.mean(), 1e-14)


def test_the_branch_of_a_lora_layer_falls_alone() -> None:
    layer, features = Lora(DROP), normal(4, FEATURES)
    base, change = layer.base_layer, 1.5 * layer.lora_B["default"].weight @ layer.lora_A["default"].weight
    exact = over_masks(lambda z: base(features) + (features * z) @ change.mT)
    explicit = ExplicitDropout.of_lora(layer, CrossEntropy(), "bound")
    plain = layer(features)
    close(plain, base(features) + features @ change.mT, 1e-14)
    assert bool((explicit.penalties >= exact).all())
    close(explicit.penalties, exact, 0.5)
    explicit.form = "sampled"
    torch.manual_seed(0)
    drawn = torch.stack([held(explicit, features) for _ in range(300)]).detach()
    assert abs(float(drawn.mean() - exact.mean().detach())) < 4 * float(drawn.std()) / 300**0.5
    squared = ExplicitDropout.of_lora(Lora(DROP), Squared())
    squared(features)
    close(squared.penalties, DROP / (1 - DROP) * features.square() @ change.square().sum(0), 1e-13)


def test_any_adapter_of_a_lora_layer_can_be_the_branch() -> None:
    layer, features = Lora(DROP), normal(4, FEATURES)
    for parts, outputs, inputs, seed in ((layer.lora_A, 2, FEATURES, 5), (layer.lora_B, 3, 2, 6)):
        parts["other"] = nn.Linear(inputs, outputs, bias=False).double()
        with torch.no_grad():
            parts["other"].weight.copy_(normal(outputs, inputs, seed=seed))
    layer.lora_dropout["other"], layer.scaling["other"] = nn.Dropout(0.2), 0.7
    layer.active_adapters.append("other")
    explicit, first = ExplicitDropout.of_lora(layer, Squared(), adapter="other"), layer.lora_dropout["default"]
    assert layer.lora_dropout["other"] is explicit
    assert isinstance(first, nn.Dropout)
    explicit(features)
    change = 0.7 * layer.lora_B["other"].weight @ layer.lora_A["other"].weight
    close(explicit.penalties, 0.2 / 0.8 * features.square() @ change.square().sum(0), 1e-13)


def test_a_lora_head_may_fall_whole_merged_or_not() -> None:
    layer, features = Lora(0.0), normal(4, FEATURES)
    exact = over_masks(lambda z: layer(features * z))
    explicit = ExplicitDropout(DROP, layer, CrossEntropy(), "bound")
    explicit(features)
    assert bool((explicit.penalties >= exact).all())
    before = explicit.penalties
    with torch.no_grad():
        layer.base_layer.weight += 1.5 * layer.lora_B["default"].weight @ layer.lora_A["default"].weight
    layer.merged = True
    explicit(features)
    close(explicit.penalties, before, 1e-12)


def test_a_lora_layer_without_dropout_has_the_rate_zero() -> None:
    """So peft makes it: what stands there instead of a dropout has no rate."""
    layer, features = Lora(DROP), normal(4, FEATURES)
    layer.lora_dropout["default"] = nn.Identity()
    explicit = ExplicitDropout.of_lora(layer, Squared())
    assert explicit.drop == 0
    explicit(features)
    assert torch.equal(explicit.penalties, torch.zeros(4).double())


def test_offsets_of_lora_adapters_belong_to_the_outputs() -> None:
    layer = Lora(DROP).eval()
    layer.lora_A["default"].bias, layer.lora_B["default"].bias = nn.Parameter(normal(2)), nn.Parameter(normal(3))
    features = normal(4, FEATURES)
    known = head_weights(layer, "default")
    close(functional.linear(features, known.whole, known.bias), layer(features), 1e-13)
    layer.base_layer = nn.Linear(FEATURES, 3, bias=False).double()
    known = head_weights(layer)
    close(functional.linear(features, known.whole, known.bias), layer(features), 1e-13)


def test_check_says_how_good_each_form_is() -> None:
    layer, features = head(), normal(6, FEATURES)
    exact = float(over_masks(lambda z: layer(features * z)).mean().detach())
    for form in ("second-order", "bound", "sampled"):
        found = ExplicitDropout(DROP, layer, CrossEntropy(), form).check(features)  # type: ignore[arg-type]
        assert float(found.lower) <= exact <= float(found.upper)
        way = {"second-order": "second order", "bound": "certified", "sampled": "Monte Carlo"}[form]
        assert str(found.method).startswith(way)


@pytest.mark.parametrize("form", ["bound", "sampled"])
def test_copies_pickles_and_evaluation(form: str) -> None:
    net = nn.Sequential(ExplicitDropout(DROP, head(), CrossEntropy(), form))  # type: ignore[arg-type]
    net(normal(3, FEATURES).requires_grad_())
    for again in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert float(explicit_penalty(again)) == 0.0
        again(normal(3, FEATURES))
        assert float(explicit_penalty(again).detach()) > 0
        assert again[0].form == form
    net.eval()(normal(3, FEATURES))
    assert float(explicit_penalty(net)) == 0.0
    if form == "sampled":
        assert float(explicit_consistency(net)) == 0.0


REFUSED = [
    (lambda: ExplicitDropout(0.5, head(), form="bound"), "is for cross-entropy"),
    (lambda: ExplicitDropout(0.5, head(), CrossEntropy(), "exact"), "form must be"),  # type: ignore[arg-type]
    (lambda: ExplicitDropout(0.5, head(), CrossEntropy(), "sampled", masks=1), "masks must be at least 2"),
    (lambda: ExplicitDropout(0.5, nn.Conv1d(1, 1, 1)), "nn.Linear"),
    (lambda: ExplicitDropout.of_lora(head(), CrossEntropy()), "must be a LoRA layer"),
    (lambda: explicit_consistency(nn.Sequential(ExplicitDropout(0.5, head()))), "form must be 'sampled'"),
    (lambda: explicit_penalty(nn.Sequential(ExplicitDropout(0.5, head())), torch.zeros(3).long()), "shape of the tok"),
]


@pytest.mark.parametrize(("call", "text"), REFUSED, ids=[text for _, text in REFUSED])
def test_refusals(call: Callable[[], object], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        call()


def test_training_with_the_loss_of_tokens_equals_the_mean_over_dropout() -> None:
    """nn.CrossEntropyLoss with padding: clean loss plus what the masks add, in the mean."""
    layer, features = head(), normal(2, 4, FEATURES)
    labels = torch.tensor([[0, 1, -100, -100], [2, -100, 1, 0]])

    def loss(z: Tensor) -> Tensor:
        return functional.cross_entropy(layer(features * z).flatten(0, 1), labels.flatten())

    noisy: Tensor | float = 0.0
    for bits in itertools.product((0.0, 1.0), repeat=FEATURES):
        kept = torch.tensor(bits, dtype=torch.float64)
        noisy = noisy + (kept * (1 - DROP) + (1 - kept) * DROP).prod() * loss(kept / (1 - DROP))
    added = float((noisy - loss(torch.ones(FEATURES).double())).detach())
    net = nn.Sequential(ExplicitDropout(DROP, layer, CrossEntropy(), "sampled", masks=40))
    torch.manual_seed(0)
    draws = torch.tensor([float(explicit_penalty(_ran(net, features), labels).detach()) for _ in range(200)])
    assert abs(float(draws.mean()) - added) < 4 * float(draws.std()) / 200**0.5


def _ran(net: nn.Module, features: Tensor) -> nn.Module:
    net(features)
    return net
