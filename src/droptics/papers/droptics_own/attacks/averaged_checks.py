"""What a claim on networks that are random at test time compares: means over all masks, over draws, in closed form."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from droptics.attacks import Averaged
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli
from droptics.models import LastLayer, ReLUNet, TwoLayerLinear
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import coin_masks, normal, tensor


def masked(net: ReLUNet, inputs: Tensor, z: Tensor) -> Tensor:
    """Outputs with multipliers on two inputs and on the hidden units."""
    hidden = torch.relu((inputs * z[:2]) @ net.weights[0].mT + net.biases[0])
    return (hidden * z[2:]) @ net.weights[1].mT + net.biases[1]


def averaged(scale: float) -> list[Comparison]:
    """Means over all masks, over draws, and in closed form; other draws; single passes."""
    found: list[Comparison] = []
    rates = [0.2, 0.4, 0.3, 0.1, 0.5]  # two inputs and three units
    net = ReLUNet([normal(1, 3, 2), normal(2, 4, 3)], [normal(3, 3), normal(4, 4)])
    inputs, labels = normal(5, 7, 2), torch.arange(7) % 4
    listed = [(mask / (1 - tensor(rates)), chance) for mask, chance in coin_masks(rates)]
    each = torch.stack([masked(net, inputs, z) for z, _ in listed])
    chances = tensor([chance for _, chance in listed])
    mean = (chances[:, None, None] * each.softmax(-1)).sum(0).log()
    told = Averaged.of(net, Bernoulli(tensor(rates), 5))
    found.append(compare(told(inputs), "==", scale * mean, "all masks"))
    found.append(same((told.exact, told.closed, len(told.chances)), (True, False, 32), "what it is", scale))
    found.append(same((told.again(5, 1) is told, told.quiet is net), (True, True), "again", scale))
    right = (each.argmax(2) == labels).double().mean(1)
    found.append(compare(told.single_accuracy(inputs, labels), "==", scale * float(chances @ right), "a single pass"))
    order = sorted(range(32), key=lambda k: told.chances.tolist()[k])
    found.append(compare(told.chances[order], "==", scale * chances.sort().values, "chances"))
    wide = Bernoulli(0.4, 13)
    large = ReLUNet([normal(1, 11, 2), normal(2, 4, 11)], [normal(3, 11), normal(4, 4)])
    drawn = Averaged.of(large, wide, draws=5, seed=3)
    z = wide.multipliers(5, torch.Generator().manual_seed(3))
    outputs = torch.stack([masked(large, inputs, row) for row in z])
    found.append(compare(drawn(inputs), "==", scale * outputs.softmax(-1).mean(0).log(), "drawn masks"))
    fresh = drawn.again(9, 4)
    found.append(same((drawn.exact, len(fresh.chances), fresh is drawn), (False, 9, False), "others", scale))
    found += _of_laws(scale)
    module = nn.Sequential(linear_head(1, 2, 4), nn.Dropout(0.5), linear_head(3, 4, 1)).eval()
    mean_score = Averaged.of(module, draws=3, seed=2)
    passes = mean_score.passes(inputs)
    found.append(compare(mean_score(inputs), "==", scale * passes.mean(0), "mean score of a module"))
    found.append(same((mean_score.quiet is module, module[1].training), (True, False), "the module itself", scale))
    torch.manual_seed(2 + 1)
    mask = nn.functional.dropout(torch.ones(1, 4).double(), 0.5)
    own = linear_head(3, 4, 1)(linear_head(1, 2, 4)(inputs) * mask)
    found.append(compare(passes[1], "==", scale * own, "the second draw"))
    for call, words in (
        (lambda: Averaged.of(net), "masks must be given"),
        (lambda: Averaged.of(module, wide), "a module brings its own"),
        (lambda: Averaged.of(inputs.sum), "must be a module or a droptics Model"),  # type: ignore[arg-type]
        (lambda: Averaged.of(module, draws=0), "draws must be"),
    ):
        found.append(refuses(call, words, words))
    return found


def _of_laws(scale: float) -> list[Comparison]:
    """Networks that are linear in their masks: a score has its mean in closed form, the softmax of several has none."""
    found: list[Comparison] = []
    one = LastLayer.of(linear_head(1, 3, 1))
    line = TwoLayerLinear(normal(1, 1, 3), normal(2, 2, 3))
    features, signs, law = normal(6, 5, 3), tensor([1.0, -1, 1, 1, -1]), Bernoulli(tensor([0.3, 0.1, 0.5]), 3)
    for model, points in ((one, features), (line, normal(7, 5, 2))):
        told = Averaged.of(model, law)
        score = one.head(features) if model is one else points @ line.V @ line.U.mT
        found.append(compare(told(points), "==", scale * score.detach().reshape(5, 1), "one score"))
        found.append(same((told.closed, told.exact), (True, True), "in closed form", scale))
        kept, odds = every_coin([0.3, 0.1, 0.5])
        hidden, weight, bias = (
            (features, one.head.weight, one.head.bias) if model is one else (points @ line.V, line.U, 0)
        )
        own = ((hidden * (kept / (1 - law.drop))[:, None]) @ weight.mT + bias)[..., 0]
        share = float(odds @ (own * signs > 0).double().mean(1))
        found.append(compare(told.single_accuracy(points, signs), "==", scale * share, "signs of single passes"))
    # several outputs: the mean of the softmax is no softmax of the mean
    heads = LastLayer.of(linear_head(1, 3, 4)), TwoLayerLinear(normal(1, 4, 3), normal(2, 2, 3))
    for net, points in zip(heads, (features, normal(7, 5, 2)), strict=True):
        told = Averaged.of(net, law)
        kept, odds = every_coin([0.3, 0.1, 0.5])
        each = torch.stack([net.outputs(points, row / (1 - law.drop)) for row in kept])
        wanted = torch.tensordot(odds, each.softmax(-1), 1).log()
        name = f"several outputs of {type(net).__name__}"
        found.append(compare(told(points), "==", scale * wanted, name))
        found.append(same((told.closed, told.exact, len(told.chances)), (False, True, 8), f"what it is, {name}", scale))
    return found
