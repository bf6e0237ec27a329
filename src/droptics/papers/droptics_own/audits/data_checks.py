"""What claims on the data of audits compare: examples in every form, losses of tokens, spread of predictions."""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from droptics.audits import audit, criteria
from droptics.audits.control import Guess, share_out
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Loss, Squared
from droptics.papers.droptics_own.audits.audit_checks import every_coin, every_mask, mean_over, squared, stack
from droptics.papers.droptics_own.audits.finding_checks import Tokens
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, sample, tensor


def read_data(scale: float) -> list[Comparison]:
    """Losses of data in every form, tokens with shifted, smoothed and left-out labels included, are torch's own."""
    found: list[Comparison] = []
    module, data = stack((3, 4, 2), (0.3,), nn.Tanh), sample(5, 10, 3, 2)
    outputs, chances = every_mask(module, data.inputs, {2: 0.3})
    module.eval()
    with torch.no_grad():
        clean = squared(data.targets)(module(data.inputs))
        whole = mean_over((outputs, chances), squared(data.targets))
    forms: dict[str, Any] = {
        "sample": data,
        "pair": (data.inputs, data.targets),
        "loader": DataLoader(TensorDataset(data.inputs, data.targets), batch_size=4),
        "set": TensorDataset(data.inputs, data.targets),
        "batches": [(data.inputs[:6], data.targets[:6]), (data.inputs[6:], data.targets[6:])],
        "dictionaries": [
            {"inputs": data.inputs[:3], "targets": data.targets[:3]},
            {"input": data.inputs[3:], "y": data.targets[3:]},
        ],
    }

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = module

        def forward(self, input: Tensor | None = None, inputs: Tensor | None = None) -> Tensor:
            given = input if inputs is None else inputs
            assert given is not None
            return self.body(given)

    passed: list[int] = []
    hook = module.register_forward_pre_hook(lambda _, given: passed.append(len(given[0])))
    for name, form in forms.items():
        passed.clear()
        report = audit(Named() if name == "dictionaries" else module, form, rates=(), batch_size=4)
        found.append(compare(report.passes, "==", scale * sum(passed) / 10, f"passes over a {name}"))
        found.append(compare(report.clean_loss, "==", scale * clean, f"loss of a {name}"))
        found.append(compare(report.training_loss.value, "==", scale * whole, f"training loss of a {name}"))
        found.append(compare(report.examples, "==", 10, f"examples of a {name}"))
    hook.remove()
    labels = torch.arange(10) % 2
    singles = [(row, int(label)) for row, label in zip(data.inputs, labels, strict=True)]
    logits = module(data.inputs).detach()
    signs = torch.where(labels > 0, 1.0, -1.0).double()
    margin = stack((3, 4, 1), (0.3,), nn.Tanh).eval()
    score = margin(data.inputs).detach()
    per_class: dict[str, tuple[nn.Module, Any, Any, Tensor]] = {
        "single examples": (module, singles, None, functional.cross_entropy(logits, labels)),
        "smoothed": (
            module,
            (data.inputs, labels),
            nn.CrossEntropyLoss(label_smoothing=0.2),
            functional.cross_entropy(logits, labels, label_smoothing=0.2),
        ),
        "weighed": (
            module,
            (data.inputs, labels),
            nn.CrossEntropyLoss(weight=tensor([0.3, 0.7])),
            functional.cross_entropy(logits, labels, weight=tensor([0.3, 0.7])),
        ),
        "function": (module, (data.inputs, labels), functional.cross_entropy, functional.cross_entropy(logits, labels)),
        "mean squares": (module, data, nn.MSELoss(), functional.mse_loss(logits, data.targets)),
        "absolute": (module, data, nn.L1Loss(), functional.l1_loss(logits, data.targets)),
        "by name": (margin, (data.inputs, signs), "logistic", functional.softplus(-score[:, 0] * signs).mean()),
        "of one's own": (
            module,
            data,
            lambda out, y: (out - y).abs().pow(1.5).mean(),
            (logits - data.targets).abs().pow(1.5).mean(),
        ),
    }
    for name, (net, known, loss, wanted) in per_class.items():
        report = audit(net, known, loss, rates=(), budget=8)
        found.append(compare(report.clean_loss, "==", scale * wanted, f"loss, {name}"))
    for name, one in {
        "a number": lambda out, y: (out - y).abs().mean(),
        "one entry": lambda out, y: (out - y).abs().mean().reshape(1),
        "one of every example": lambda out, y: (out - y).abs().mean(1),
        "one of every output": lambda out, y: (out - y).abs(),
    }.items():
        report = audit(module, data, one, rates=(), budget=8, batch_size=4)
        wanted = functional.l1_loss(logits, data.targets)
        found.append(compare(report.clean_loss, "==", scale * wanted, f"batches of 4, 4 and 2, a loss with {name}"))
    for loss in (nn.CrossEntropyLoss(weight=tensor([0.3, 0.7])), nn.CrossEntropyLoss(ignore_index=1)):
        report = audit(module, (data.inputs, labels), loss, rates=(), budget=8, batch_size=6)
        halves = 0.6 * loss(logits[:6], labels[:6]) + 0.4 * loss(logits[6:], labels[6:])
        found.append(compare(report.clean_loss, "==", scale * halves, f"means of batches of 6 and 4, {loss}"))
    right = (logits.argmax(1) == labels).double().mean()
    told = audit(module, (data.inputs, labels), rates=())
    found.append(compare(told.accuracy or 0.0, "==", scale * right, "accuracy"))
    told = audit(margin, (data.inputs, signs), "logistic", rates=())
    found.append(compare(told.accuracy or 0.0, "==", scale * (score[:, 0].sign() == signs).double().mean(), "of signs"))
    return found + _tokens(scale) + _unlabelled(scale) + _smoothed(scale) + _large(scale) + _own_losses(scale)


def _unlabelled(scale: float) -> list[Comparison]:
    """Examples whose label is -100 count nowhere, in whichever batch they stand: losses, accuracies, sub-networks."""
    found: list[Comparison] = []
    module, inputs = stack((3, 4, 3), (0.3,), nn.Tanh).eval(), normal(7, 14, 3)
    with torch.no_grad():
        outputs = module(inputs)
    labels = outputs.argmax(1)
    labels[:4], labels[6], labels[8] = -100, (labels[6] + 1) % 3, -100  # one label is wrong, the first batch has none
    kept = labels != -100
    many, chances = every_mask(module, inputs[kept], {2: 0.3})
    right = (outputs.argmax(1) == labels)[kept].double().mean()
    most = labels[kept].bincount().max().double() / kept.sum()
    wanted = functional.cross_entropy(outputs, labels)
    whole = sum(chance * functional.cross_entropy(one, labels[kept]) for one, chance in zip(many, chances, strict=True))
    for loss, back, size in ((None, False, 4), (nn.CrossEntropyLoss(), True, 9)):
        data = (inputs.flip(0), labels.flip(0)) if back else (inputs, labels)
        report = audit(module, data, loss, rates=(), batch_size=size, validation=data, draws=9, confidence=0.9999)
        (site,), name = report.sites, f"{loss}, batches of {size}, the first {'last' if back else 'first'}"
        assert site.subnetworks is not None
        told = (report.clean_loss, report.validation_loss or 0.0)
        found.append(compare(told, "==", [scale * wanted] * 2, f"loss of what has a label, {name}"))
        accuracies = (report.accuracy or 0.0, site.subnetworks.full, site.subnetworks.chance)
        found.append(compare(accuracies, "==", scale * tensor([right, right, most]), f"accuracies, {name}"))
        found.append(compare(report.training_loss.lower, "<=", whole.detach(), f"under masks from below, {name}"))
        found.append(compare(report.training_loss.upper, ">=", whole.detach(), f"under masks from above, {name}"))
    narrow = stack((3, 3, 3), (0.3,), nn.Tanh).eval()  # of few units: all outcomes are listed
    many, chances = every_mask(narrow, inputs[kept], {2: 0.3})
    mean = sum(chance * functional.cross_entropy(one, labels[kept]) for one, chance in zip(many, chances, strict=True))
    report = audit(narrow, (inputs, labels), rates=(), batch_size=6)
    ends = [getattr(report.training_loss, end) for end in ("value", "lower", "upper")]
    found.append(compare(ends, "==", scale * mean.detach().expand(3), "under all masks"))
    return found


def _smoothed(scale: float) -> list[Comparison]:
    """Smoothed labels of positions, some of which do not count, with the classes in the second place or the last."""
    found: list[Comparison] = []
    labels, logits = torch.arange(24).reshape(6, 4) % 5, normal(9, 6, 4, 5)
    labels[1, 2] = labels[4, 0] = -100
    loss = nn.CrossEntropyLoss(label_smoothing=0.2)
    wanted = loss(logits.movedim(-1, 1), labels)
    for outputs in (logits, logits.movedim(-1, 1)):
        told = criteria.mean_loss(criteria.fitted(criteria.as_loss(loss), outputs, labels), outputs, labels)
        found.append(compare(told, "==", scale * wanted, f"smoothed labels, {tuple(outputs.shape)}"))
    return found


def _large(scale: float) -> list[Comparison]:
    """Large outputs in single precision, a few examples at a time: as precise as in double."""
    found: list[Comparison] = []
    outputs, labels = 40 * normal(6, 7, 3).float(), torch.arange(7) % 3
    pairs: tuple[tuple[Loss, Tensor, Tensor], ...] = (
        (CrossEntropy(), labels, functional.cross_entropy(outputs.double(), labels, reduction="none")),
        (Squared(), 0 * outputs, outputs.double().square().sum(1)),
    )
    for loss, targets, wanted in pairs:
        for most in (1, 7, 10**6):
            with mock.patch.object(criteria, "DOUBLE", most):
                sums, weights = criteria.parts(loss, outputs, targets)
            found.append(compare(sums, "==", scale * wanted, f"large outputs, {loss}, {most}", precision=1e-12))
            found.append(compare(weights, "==", scale, f"their weights, {most}"))
    return found


class Owning(nn.Module):
    """Returns a loss of its own when it is called with labels."""

    def __init__(self, body: nn.Module, loss: Any) -> None:
        super().__init__()
        self.body, self.loss = body, loss

    def forward(self, inputs: Tensor, labels: Tensor | None = None) -> Any:
        outputs = self.body(inputs)
        return {"logits": outputs} if labels is None else {"loss": self.loss(outputs, labels), "logits": outputs}


def _own_losses(scale: float) -> list[Comparison]:
    """Losses of a module are known where they are torch's: then every example has its own, and penalties are exact."""
    found: list[Comparison] = []
    body, inputs = stack((3, 4, 2), (0.3,), nn.Tanh), normal(5, 10, 3)
    outputs, chances = every_mask(body, inputs, {2: 0.3})
    goals, labels = normal(6, 10, 2), torch.arange(10) % 2
    cases: tuple[tuple[str, Any, Tensor], ...] = (
        ("MeanSquared", functional.mse_loss, goals),
        ("Squared", lambda told, goal: (told - goal).square().sum(1).mean(), goals),
        ("CrossEntropy", functional.cross_entropy, labels),
        ("OwnLoss", lambda told, goal: (told - goal).abs().mean(), goals),
        # nearly one of torch's: as good as equal up to one part in 10,000, which rounding does not reach
        ("OwnLoss", lambda told, goal: 1.0002 * (told - goal).square().mean(), goals),
        ("OwnLoss", lambda told, goal: 0.9998 * functional.cross_entropy(told, goal), labels),
        ("MeanSquared", functional.mse_loss, body.eval()(inputs).detach() + 1e-3 * goals),  # however small it is
    )
    for name, loss, targets in cases:
        data = [{"inputs": inputs[part], "labels": targets[part]} for part in (slice(4), slice(4, 10))]
        report = audit(Owning(body, loss), data, "model", rates=(), budget=20)
        found.append(same(report.loss, name, f"a loss of its own: {name}", scale))
        wanted = loss(body.eval()(inputs), targets).detach()
        found.append(compare(report.clean_loss, "==", scale * wanted, f"which is {name}"))
        if name.endswith("Squared"):
            mean = sum(chance * loss(one, targets) for one, chance in zip(outputs, chances, strict=True)).detach()
            ends = [getattr(report.training_loss, end) for end in ("value", "lower", "upper")]
            found.append(compare(ends, "==", scale * mean.expand(3), f"under masks, {name}"))
    return found


def _tokens(scale: float) -> list[Comparison]:
    """Labels of tokens, shifted or not; of validation data in batches all that count."""
    found: list[Comparison] = []
    ids = torch.arange(30).reshape(6, 5) % 7
    wanted_ids = ((3 * ids + 1) % 7).clone()
    wanted_ids[2, 3] = wanted_ids[4, 0] = -100
    for shift in (False, True):
        tokens = Tokens(shift).eval()
        with torch.no_grad():
            own = tokens(ids, labels=wanted_ids)["loss"]
            hidden = tokens.table(ids)
            kept, odds = every_coin([0.3] * 4)
            masked = tokens.head(hidden[None] * (kept / 0.7)[:, None, None, :])
            scored, goal = (masked[:, :, :-1], wanted_ids[:, 1:]) if shift else (masked, wanted_ids)
            each = functional.cross_entropy(
                scored.flatten(0, 2), goal.expand(len(kept), *goal.shape).flatten(), reduction="none", ignore_index=-100
            ).reshape(len(kept), -1)
            truth = (odds @ each).sum() / (goal != -100).sum()
        for loss in (None, "model"):
            # of ten, four and fourteen labels: these count, not batches or examples
            cuts = [{"ids": ids[part], "labels": wanted_ids[part]} for part in (slice(2), slice(2, 3), slice(3, 6))]
            whole_batch = [{"ids": ids, "labels": wanted_ids}]
            report = audit(tokens, whole_batch, loss, rates=(), budget=40, validation=cuts)
            found.append(compare(report.validation_loss or 0.0, "==", scale * own, f"in batches, {shift}, {loss}"))
            found.append(compare(report.clean_loss, "==", scale * own, f"own loss of tokens, shift {shift}, {loss}"))
            low, high = report.training_loss.lower, report.training_loss.upper
            spread = 2 * (high - low)  # a 99 % interval, three times as wide
            found.append(compare(low - spread, "<=", truth, f"tokens under masks from below, {shift}, {loss}"))
            found.append(compare(high + spread, ">=", truth, f"tokens under masks from above, {shift}, {loss}"))
    return found


def shared_draws(scale: float) -> list[Comparison]:
    """Draws go to sites that cost least to resolve, then to the widest spread; penalties are those of all masks."""
    found: list[Comparison] = []
    guesses = {"wide": Guess(1.0, 2.0), "narrow": Guess(1.0, 0.01), "small": Guess(0.001, 0.02)}
    costs, least = {"wide": 1.0, "narrow": 0.5, "small": 0.25}, {"wide": 1, "narrow": 2, "small": 1}
    # (2.8 deviation / goal)^2 draws resolve a site: 784, 0.0196 and 7.84; the cheapest to resolve is served first
    for budget, wanted in (
        (3.0, (1, 2, 4)),
        (3.99, (1, 2, 7)),
        (7.0, (4, 2, 8)),
        (18.9, (15, 2, 8)),
        (50.0, (16, 2, 8)),
    ):
        draws = share_out(guesses, costs, budget, least)
        told = [draws[name] for name in guesses]
        found.append(compare(told, "==", scale * tensor(wanted), f"draws within {budget}"))
    # (2.8 / 2)^2 and (2.8 / 1)^2: two and eight draws resolve them, and seven more of the second cost less
    unlike = {"few": Guess(10.0, 1.0), "many": Guess(5.0, 1.0)}
    for budget, both in ((1.35, (1, 3)), (2.35, (1, 8)), (2.85, (2, 8))):
        draws = share_out(unlike, {"few": 1.0, "many": 0.1}, budget, dict.fromkeys(unlike, 1))
        told = [draws[name] for name in unlike]
        found.append(compare(told, "==", scale * tensor(both), f"draws by their cost, {budget}"))
    # sites that are resolved by their least draws: the rest goes where deviation / sqrt(draws) is largest
    known = {"first": Guess(100.0, 3.0), "second": Guess(100.0, 2.0), "third": Guess(100.0, 1.0)}
    for budget, wanted in ((4.0, (2, 1, 1)), (6.0, (3, 2, 1)), (14.0, (9, 4, 1)), (15.0, (10, 4, 1))):
        draws = share_out(known, dict.fromkeys(known, 1.0), budget, dict.fromkeys(known, 1))
        told = [draws[name] for name in known]
        found.append(compare(told, "==", scale * tensor(wanted), f"draws by their spread, {budget}"))
    module = stack((3, 3, 3, 3, 2), (0.2, 0.3, 0.1), nn.Tanh)
    labels = torch.arange(12) % 2
    inputs = normal(9, 12, 3)
    rates = {2: 0.2, 5: 0.3, 8: 0.1}
    rows = torch.arange(12)

    def entropy(outputs: Tensor) -> Tensor:
        return -outputs.log_softmax(-1)[..., rows, labels].mean(-1)

    module.eval()
    with torch.no_grad():
        clean = entropy(module(inputs))
        truth = {
            place: mean_over(every_mask(module, inputs, {place: rate}), entropy) - clean
            for place, rate in rates.items()
        }
        whole = mean_over(every_mask(module, inputs, rates), entropy)
    for budget, each in ((3.0, None), (9.0, None), (30.0, 6)):
        report = audit(module, (inputs, labels), rates=(), budget=budget, draws=each, confidence=0.999999)
        found.append(compare(report.clean_loss, "==", scale * clean, f"loss, budget {budget}"))
        for item in report.sites:
            assert item.penalty is not None
            value = truth[int(item.site.name)]
            ends = [item.penalty.lower, item.penalty.value, item.penalty.upper]
            found.append(compare(ends, "==", value, f"site {item.site.name} by all outcomes, {budget}"))
        found.append(compare(report.training_loss.lower, "<=", whole, f"training loss from below, {budget}"))
        found.append(compare(report.training_loss.upper, ">=", whole, f"training loss from above, {budget}"))
        total = report.training_loss.value - report.clean_loss - sum(i.penalty.value for i in report.sites if i.penalty)
        if report.interaction is not None and report.rest is None:
            found.append(compare(report.interaction.value, "==", total, f"interaction, {budget}"))
    return found + _seeded(scale)


def _seeded(scale: float) -> list[Comparison]:
    """Masks of an audit are those of its seed: the same once more, others for another."""
    module, data = stack((3, 9, 2), (0.3,), nn.Tanh), sample(5, 8, 3, 2)
    drawn = []
    for seed in (1, 1, 2):
        (site,) = audit(module, data, nn.L1Loss(), rates=(), draws=2, seed=seed).sites
        assert site.penalty is not None
        drawn.append(site.penalty.value)
    return [
        compare(drawn[1], "==", scale * drawn[0], "the same seed"),
        compare(drawn[2], "!=", drawn[0], "another seed"),
    ]


def spread_of_predictions(scale: float) -> list[Comparison]:
    """The spread of predictions under masks, and the shares of the inputs and of the head in it."""
    found: list[Comparison] = []
    for seed, gate, rates in ((1, nn.Identity, (0.4, 0.3)), (2, nn.Identity, (0.1, 0.6)), (3, nn.Tanh, (0.2, 0.5))):
        module, data = stack((3, 4, 2), rates, gate, seed), sample(seed + 2, 9, 3, 2)
        name = f"{gate.__name__}, {rates}"
        told = audit(module, data, rates=(), uncertainty=True).uncertainty
        assert told is not None

        def variance(sites: dict[int, float], module: nn.Sequential = module, data: Sample = data) -> float:
            drawn = every_mask(module, data.inputs, sites)
            mean = mean_over(drawn, lambda out: out)
            return float(mean_over(drawn, lambda out: (out - mean).square()).mean().detach())

        whole = variance({0: rates[0], 3: rates[1]})
        found.append(compare(told.variance.lower, "<=", whole, f"variance from below, {name}"))
        found.append(compare(told.variance.upper, ">=", whole, f"variance from above, {name}"))
        found.append(compare(told.variance.value, "==", scale * whole, f"variance, {name}", precision=0.09))
        parts = {site: share * told.variance.value for site, share in told.shares.items()}
        head = variance({3: rates[1]})
        found.append(compare(parts["3"], "==", scale * head, f"share of the head, {name}", precision=1e-6))
        leaf = torch.ones_like(data.inputs).requires_grad_()
        outputs = module.eval()(data.inputs * leaf)
        slopes = [torch.autograd.grad(one.sum(), leaf, retain_graph=True)[0] for one in outputs.unbind(1)]
        first = rates[0] / (1 - rates[0]) * float(torch.stack(slopes).square().sum(-1).mean())
        found.append(compare(parts["0"], "==", scale * first, f"share of the inputs, {name}", precision=1e-6))
        if gate is nn.Identity:  # where the first order is all
            found.append(compare(parts["0"], "==", scale * variance({0: rates[0]}), f"by masks, {name}", 1e-6))
    return found
