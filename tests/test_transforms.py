"""torch.func.grad, jvp and vmap through every exact answer, against autograd and one call after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from cases import normal
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jvp, vmap

from droptics import linalg
from droptics.data import Moments, Sample
from droptics.envelopes import envelope, induced
from droptics.errors import NoClosedForm
from droptics.layers import DropBlock, ExplicitDropout
from droptics.losses import CrossEntropy, Loss, Squared
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, Product, SlidingBlock
from droptics.models import DeepLinear, ReLUNet, TwoLayerLinear
from droptics.penalties import Enumerate, MonteCarlo, SecondOrder, criterion, penalty

SAMPLE = Sample(normal(6, 4), normal(6, 3, seed=1))
MOMENTS = Moments.of_sample(SAMPLE)
SINGULAR = Moments.of_sample(Sample(normal(6, 2) @ normal(2, 4), normal(6, 3, seed=1)))
NOTHING = Sample(0 * SAMPLE.inputs, SAMPLE.targets)
LABELS = Sample(SAMPLE.inputs, SAMPLE.targets.argmax(1))
V, W = normal(4, 5), normal(5, 4)
EVEN, BLOCK, MANY = Bernoulli(0.3, 5), Block(0.3, 5, 5), Block(0.3, 5, 1)
UNEVEN = Bernoulli(torch.linspace(0.1, 0.5, 5).double(), 5)
LAYERS = Product([Bernoulli(0.3, 4), Bernoulli(0.3, 5)])
EVEN_INPUTS = Bernoulli(0.3, 4)
HEAVY, FEW = normal(3, 5), normal(3, 3)
HEAD = nn.Linear(5, 2).double()
VALUES, RATES = normal(5).abs(), torch.tensor([0.0, 0.5, 0.2, 3.0]).double()


def two(U: Tensor) -> TwoLayerLinear:
    return TwoLayerLinear(U, V)


def deep(U: Tensor) -> DeepLinear:
    return DeepLinear([W, U])


def relu(U: Tensor) -> ReLUNet:
    return ReLUNet([W, U])


def top(U: Tensor) -> Bernoulli:
    return Bernoulli(U.sigmoid()[0], 5)


def blocks(U: Tensor) -> Product:
    """Two blocks of one rate: eigenvectors of what coincides have no derivative."""
    return Product([Block(U.sigmoid()[0, 0], 4, 2), Bernoulli(U.sigmoid()[0, 1], 1)])


def explicit(U: Tensor) -> Tensor:
    layer = ExplicitDropout(0.3, HEAD, CrossEntropy())
    functional_call(layer, {}, (U,))
    return layer.penalty


ANSWERS: dict[str, Callable[[Tensor], Tensor]] = {
    "penalty": lambda U: penalty(two(U), SAMPLE, EVEN).value,
    "penalty/moments": lambda U: penalty(two(U), MOMENTS, UNEVEN).value,
    "penalty/block": lambda U: penalty(two(U), MOMENTS, BLOCK).value,
    "penalty/enumerate": lambda U: penalty(two(U), SAMPLE, EVEN, Enumerate()).value,
    "penalty/second-order": lambda U: penalty(two(U), SAMPLE, EVEN, SecondOrder(check=None)).value,
    "criterion": lambda U: criterion(two(U), SAMPLE, EVEN).value,
    "penalty/deep": lambda U: penalty(deep(U), MOMENTS, EVEN).value,
    "penalty/deep/singular": lambda U: penalty(deep(U), SINGULAR, EVEN).value,
    "penalty/deep/sample": lambda U: penalty(deep(U), SAMPLE, EVEN).value,
    "penalty/deep/inputs": lambda U: penalty(deep(HEAVY), Sample(U[:, :4], FEW), EVEN).value,
    "penalty/relu": lambda U: penalty(relu(U), SAMPLE, LAYERS).value,
    "criterion/relu": lambda U: criterion(relu(U), SAMPLE, LAYERS).value,
    "penalty/relu/cross-entropy": lambda U: penalty(relu(U), LABELS, LAYERS, loss=CrossEntropy()).value,
    "penalty/error": lambda U: penalty(two(U), SAMPLE, EVEN).value + 0 * penalty(two(U), SAMPLE, EVEN).lower,
    "induced": lambda U: induced(two(U), SAMPLE, EVEN).value,
    "induced/block": lambda U: induced(two(U), MOMENTS, MANY).value,
    "induced/uneven": lambda U: induced(two(U), MOMENTS, UNEVEN).value,
    "induced/deep": lambda U: induced(deep(U), MOMENTS, EVEN).value,
    "envelope": lambda U: envelope(two(U), MOMENTS, EVEN).value,
    "envelope/block": lambda U: envelope(two(U), MOMENTS, BLOCK).value,
    "envelope/deep": lambda U: envelope(deep(U), MOMENTS, EVEN).value,
    "shrink": lambda U: linalg.shrink(U.square().sum(0).sort(descending=True).values, U.new_tensor(0.3), 5).sum(),
    "k-support-shrink": lambda U: linalg.k_support_shrink(U.square().sum(0), U.new_tensor(0.3), 2).square().sum(),
    "shrink-unequal": lambda U: torch.cat(linalg.shrink_unequal(U.square().sum(0), RATES)).square().sum(),
    "shrink-unequal/rates": lambda U: torch.cat(linalg.shrink_unequal(VALUES, U.square().sum(0))).square().sum(),
    "allocate": lambda U: linalg.allocate(U.square().sum(0), RATES).square().sum(),
    "envelope/deep/nothing": lambda U: envelope(deep(U), NOTHING, EVEN).value + U.sum(),
    "induced/deep/nothing": lambda U: induced(deep(U), NOTHING, EVEN).value + U.sum(),
    "psd-root": lambda U: linalg.psd_root(U @ U.mT).sum(),
    "psd-inverse-root": lambda U: linalg.psd_inverse_root(U @ U.mT).sum(),
    "explicit-dropout": explicit,
    "dropblock": lambda U: DropBlock(0.3, 2, spatial=1).eval()(U[None]).square().sum(),
}
# Every law with every question, on two layers; what has no closed form must say so under torch.func, too.
QUESTIONS = {"penalty": penalty, "criterion": criterion, "induced": induced, "envelope": envelope}
KEPT = torch.tensor([[1.0, 1, 0, 1, 1], [0, 1, 1, 1, 0], [1, 0, 1, 0, 1], [1, 1, 1, 1, 1]]).double()
LAWS = {
    "even": EVEN,
    "uneven": UNEVEN,
    "gaussian": Gaussian(0.4, 5),
    "block": BLOCK,
    "sliding": SlidingBlock(0.2, 5, 2),
    "discrete": Discrete(KEPT, torch.full((4,), 0.25).double()),
    "product": Product([Bernoulli(0.2, 2), Block(0.3, 3, 3)]),
}
NEITHER = {(asked, law) for asked in ("induced", "envelope") for law in ("sliding", "discrete", "product")}
ANSWERS |= {
    f"{asked}/law/{law}": lambda U, question=question, masks=masks: question(two(U), SAMPLE, masks).value
    for asked, question in QUESTIONS.items()
    for law, masks in LAWS.items()
    if (asked, law) not in NEITHER
}
SAMPLED = MonteCarlo(60)
ANSWERS |= {
    "penalty/monte-carlo": lambda U: penalty(two(U), SAMPLE, EVEN, SAMPLED).value,
    "criterion/monte-carlo": lambda U: criterion(two(U), MOMENTS, UNEVEN, SAMPLED).value,
    "penalty/monte-carlo/deep": lambda U: penalty(deep(U), SAMPLE, EVEN, SAMPLED).value,
    "penalty/monte-carlo/relu": lambda U: penalty(relu(U), SAMPLE, LAYERS, SAMPLED).value,
    "penalty/monte-carlo/data": lambda U: penalty(two(HEAVY), Sample(U[:, :4], U[:, 2:]), EVEN, SAMPLED).value,
    "penalty/rates": lambda U: penalty(two(HEAVY), SAMPLE, top(U)).value,
    "induced/rates": lambda U: induced(two(HEAVY), MOMENTS, top(U)).value,
    "envelope/rates": lambda U: envelope(two(HEAVY), MOMENTS, top(U)).value,
    "penalty/relu/rates": lambda U: penalty(relu(HEAVY), SAMPLE, Product([EVEN_INPUTS, top(U)])).value,
    "penalty/second-order/rates": lambda U: penalty(two(HEAVY), SAMPLE, blocks(U), SecondOrder(check=None)).value,
    "penalty/monte-carlo/cross-entropy": lambda U: penalty(two(U), LABELS, EVEN, SAMPLED, CrossEntropy()).value,
    "penalty/second-order/checked": lambda U: penalty(two(U), SAMPLE, EVEN, SecondOrder(check=SAMPLED)).value,
}


def slope(answer: Callable[[Tensor], Tensor], point: Tensor) -> Tensor:
    free = point.clone().requires_grad_()
    (found,) = torch.autograd.grad(answer(free), free)
    return found


@pytest.mark.parametrize("name", list(ANSWERS))
def test_gradients_and_tangents(name: str) -> None:
    answer, point, along = ANSWERS[name], normal(3, 5, seed=2), normal(3, 5, seed=3)
    wanted = slope(answer, point)
    torch.testing.assert_close(grad(answer)(point), wanted, rtol=1e-9, atol=1e-11)
    value, change = jvp(answer, (point,), (along,))
    torch.testing.assert_close(value, answer(point), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(change, (wanted * along).sum(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", list(ANSWERS))
def test_dual_numbers(name: str) -> None:
    """Without torch.func a tangent is seen by nothing but the tensor itself; what has no rule for it says so."""
    answer, point, along = ANSWERS[name], normal(3, 5, seed=2), normal(3, 5, seed=3)
    with forward_ad.dual_level():
        given = forward_ad.make_dual(point, along)
        if name == "penalty/relu/cross-entropy":
            with pytest.raises(NotImplementedError):
                answer(given)
            return
        value, change = forward_ad.unpack_dual(answer(given))
    torch.testing.assert_close(value, answer(point), rtol=1e-12, atol=1e-14)
    assert change is not None
    torch.testing.assert_close(change, (slope(answer, point) * along).sum(), rtol=1e-9, atol=1e-11)


# as many second derivatives as the law has directions, which a batch of laws does not tell
@pytest.mark.parametrize("name", sorted(ANSWERS.keys() - {"penalty/second-order/rates"}))
def test_batches(name: str) -> None:
    answer = ANSWERS[name]
    points = torch.stack([normal(3, 5, seed=2), normal(3, 5, seed=4)])
    torch.testing.assert_close(vmap(answer)(points), torch.stack([answer(p) for p in points]), rtol=1e-10, atol=1e-12)
    wanted = torch.stack([slope(answer, p) for p in points])
    torch.testing.assert_close(vmap(grad(answer))(points), wanted, rtol=1e-9, atol=1e-11)


def test_second_derivatives_through_sums_outside_torch_are_refused() -> None:
    with pytest.raises((NotImplementedError, RuntimeError)):
        grad(lambda U: grad(ANSWERS["penalty/relu"])(U).square().sum())(normal(3, 5))


@pytest.mark.parametrize("randomness", ["error", "same", "different"])
@pytest.mark.parametrize("loss", [Squared(), CrossEntropy()])
def test_sampled_answers_of_a_batch_are_those_of_its_members(randomness: str, loss: Loss) -> None:
    """Seed and interval are those of a loop, where draws are too few (the third member is nearly zero) as elsewhere."""

    def parts(U: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        found = penalty(two(U), Sample(SAMPLE.inputs, targets), EVEN, MonteCarlo(60, 3, 0.95), loss)
        assert found.guaranteed is not None
        return found.value, found.lower, found.upper, found.error, *found.guaranteed

    points = torch.stack([normal(3, 5, seed=2), 9 * normal(3, 5, seed=4), 1e-12 * normal(3, 5)])
    targets = torch.stack([SAMPLE.targets, SAMPLE.targets.flip(0), SAMPLE.targets.roll(1)])
    targets = targets if isinstance(loss, Squared) else targets.argmax(-1)
    together = vmap(parts, randomness=randomness)(points, targets)
    apart = [parts(*member) for member in zip(points, targets, strict=True)]
    for found, wanted in zip(together, zip(*apart, strict=True), strict=True):
        torch.testing.assert_close(found, torch.stack(wanted), rtol=0, atol=0)


@pytest.mark.parametrize(("asked", "law"), sorted(NEITHER))
@pytest.mark.parametrize("transform", [lambda answer: answer, grad])
def test_what_has_no_closed_form_says_so_in_a_transform(asked: str, law: str, transform: Callable[..., Any]) -> None:
    with pytest.raises(NoClosedForm):
        transform(lambda U: QUESTIONS[asked](two(U), SAMPLE, LAWS[law]).value)(normal(3, 5))


@pytest.mark.parametrize("name", ["penalty", "penalty/moments", "criterion", "penalty/deep", "envelope", "induced"])
def test_tangents_have_the_precision_of_the_weights(name: str) -> None:
    """A Python number times a sum has tangents of float64 in torch; ours are multiplied before they are added."""
    bottom, data = V.float(), SAMPLE.to(torch.float32)
    given = Moments.of_sample(data) if name.endswith("moments") else data
    questions = {"penalty": penalty, "criterion": criterion, "envelope": envelope, "induced": induced}
    question = questions[name.partition("/")[0]]

    def answer(U: Tensor) -> Tensor:
        return question(DeepLinear([bottom.mT, U]) if "deep" in name else TwoLayerLinear(U, bottom), given, EVEN).value

    point = normal(3, 5, dtype=torch.float32)
    value, change = jvp(answer, (point,), (point,))
    assert value.dtype == change.dtype == torch.float32


@pytest.mark.parametrize("spatial", [1, 2])
def test_dropblock_draws_for_every_member_of_a_batch(spatial: int) -> None:
    layer, maps = DropBlock(0.3, 2, spatial=spatial), torch.ones(2, 4, 3, *(8,) * spatial)
    drawn = vmap(layer, randomness="different")(maps)
    assert not torch.equal(drawn[0], drawn[1])
    same = vmap(layer, randomness="same")(maps)
    assert torch.equal(same[0], same[1])
    assert bool((drawn == 0).any())
