"""What the claims on audits compare: every number against sums over all masks, written out here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from droptics.audits import audit
from droptics.coadaptation import draw
from droptics.data import Sample
from droptics.estimates import PlainEstimate
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.instances import normal, sample, tensor

Multipliers = Mapping[int, Tensor]


def stack(sizes: tuple[int, ...], rates: tuple[float, ...], gate: type[nn.Module], seed: int = 1) -> nn.Sequential:
    """Linear layers with a gate and dropout after each but the last; dropout of inputs where a rate is left for it."""
    layers: list[nn.Module] = [nn.Dropout(rates[0])] if len(rates) == len(sizes) - 1 else []
    hidden = rates[len(layers) :]
    for number, (before, after) in enumerate(itertools.pairwise(sizes)):
        linear = nn.Linear(before, after).double()
        with torch.no_grad():
            linear.weight.copy_(normal(seed + 2 * number, after, before))
            linear.bias.copy_(normal(seed + 2 * number + 1, after))
        layers += [linear, gate(), nn.Dropout(hidden[number])] if number < len(sizes) - 2 else [linear]
    return nn.Sequential(*layers)


def masked(module: nn.Module, inputs: Tensor, multipliers: Multipliers) -> Tensor:
    """Outputs with given multipliers in the place of dropout."""
    for number, layer in enumerate(module.children()):
        if isinstance(layer, nn.Dropout):
            inputs = inputs * multipliers[number] if number in multipliers else inputs
        else:
            inputs = layer(inputs)
    return inputs


def every_mask(module: nn.Sequential, inputs: Tensor, rates: Mapping[int, float]) -> tuple[Tensor, Tensor]:
    """Outputs (masks, examples, outputs) under every mask of the dropout at these places, and its probability."""
    sizes = {place: masked(module[:place], inputs[:1], {}).shape[-1] for place in rates}
    drops = [rates[place] for place, size in sizes.items() for _ in range(size)]
    kept, chances = every_coin(drops)
    parts = (kept / (1 - tensor(drops)))[:, None, :].split(list(sizes.values()), -1)
    return masked(module, inputs, dict(zip(sizes, parts, strict=True))), chances


def every_coin(drops: Sequence[float]) -> tuple[Tensor, Tensor]:
    """All masks of zeros and ones, (masks, units), with their probabilities."""
    kept = tensor(list(itertools.product((0.0, 1.0), repeat=len(drops))))
    return kept, torch.where(kept > 0, 1 - tensor(drops), tensor(drops)).prod(-1)


def mean_over(masks: tuple[Tensor, Tensor], of: Callable[[Tensor], Tensor]) -> Tensor:
    """E of a function of the outputs that keeps the masks apart."""
    return torch.tensordot(masks[1], of(masks[0]), dims=1)


def squared(targets: Tensor) -> Callable[[Tensor], Tensor]:
    """Mean over examples of the squared error."""
    return lambda outputs: (outputs - targets).square().sum(-1).mean(-1)


def entropic(labels: Tensor) -> Callable[[Tensor], Tensor]:
    """Mean over examples of the cross-entropy."""
    rows = torch.arange(len(labels))
    return lambda outputs: -outputs.log_softmax(-1)[..., rows, labels].mean(-1)


def places(module: nn.Sequential) -> dict[int, float]:
    """Rates of the dropout layers by place."""
    return {number: layer.p for number, layer in enumerate(module) if isinstance(layer, nn.Dropout) and layer.p > 0}


@torch.no_grad()
def audited_head(scale: float) -> list[Comparison]:
    """Everything an audit says of a regression with dropout before its last layer; the last rate cuts the spectrum."""
    return [
        *_audited(stack((3, 5, 2), (0.3,), nn.ReLU), sample(5, 24, 3, 2), 0.3, 7, scale),
        *_audited(stack((4, 6, 1), (0.55,), nn.Tanh, seed=8), sample(9, 15, 4, 1), 0.55, 32, scale),
        *_audited(stack((2, 3, 4), (0.8,), nn.ReLU, seed=3), sample(7, 11, 2, 4), 0.8, 4, scale),
    ]


def _audited(module: nn.Sequential, data: Sample, rate: float, batch: int, scale: float) -> list[Comparison]:
    """One regression, beside all masks; features that no example reaches have no flow."""
    report = audit(module, data, rates=(0.6,), batch_size=batch, uncertainty=True)
    (site,) = report.sites

    loss = squared(data.targets)
    clean = loss(module.eval()(data.inputs))
    costs = {one: mean_over(every_mask(module, data.inputs, {2: one}), loss) - clean for one in (rate, 0.6)}
    features = masked(module[:2], data.inputs, {})
    last = module[3]
    assert isinstance(last, nn.Linear)
    assert site.penalty is not None
    assert site.units is not None
    assert site.spectrum is not None
    assert site.certificate is not None
    assert site.rate_choice is not None
    assert report.uncertainty is not None
    count, width = features.shape
    flows = features.square().mean(0).sqrt() * last.weight.norm(dim=0)
    values = torch.linalg.svdvals(features @ last.weight.mT)[: min(width, len(last.weight))] / count**0.5
    shares = values / values.sum()
    targets = torch.linalg.svdvals(data.targets - last.bias) / count**0.5
    lam = rate / (1 - rate) / width
    # the least over ranks of the cut spectrum is the least over predictions
    # that of rank k takes its share of their sum off the k largest, where these are larger
    cuts = [
        (targets - lam * targets[:k].sum() / (1 + lam * k)).clamp_min(0) for k in range(min(width, len(targets)) + 1)
    ]
    worth = [(targets - cut).square().sum() + lam * cut.sum() ** 2 for cut in cuts]
    best = cuts[int(np.argmin(worth))]
    errors = [left_out_error(features, data.targets, one / (1 - one)) for one in site.rate_choice.rates]
    variance = mean_over(
        every_mask(module, data.inputs, {2: rate}), lambda outputs: (outputs - module(data.inputs)).square()
    )
    return [
        compare(report.clean_loss, "==", clean, "loss without masks"),
        compare(site.penalty.value, "==", scale * costs[rate], "penalty"),
        compare(site.curve[0].penalty.value, "==", scale * costs[0.6], "penalty at another rate"),
        compare(site.curve[0].training_loss, "==", clean + scale * costs[0.6], "training loss at another rate"),
        compare(report.training_loss.value, "==", clean + scale * costs[rate], "training loss"),
        compare(site.certificate.objective, "==", clean + costs[rate], "objective of the certificate"),
        compare(site.certificate.bound, "==", min(worth), "bound of the certificate"),
        compare(site.share or 0.0, "==", costs[rate] / (clean + costs[rate]), "share of the training loss"),
        compare(site.units.flows, "==", flows, "flows"),
        compare(site.units.imbalance, "==", width * flows.square().sum() / flows.sum() ** 2 - 1, "imbalance"),
        compare(site.units.coadaptation, "==", flows.sum() / width**0.5 / flows.norm(), "evenness"),
        compare(site.spectrum.measured, "==", values, "spectrum"),
        compare(site.spectrum.optimal, "==", best[: len(values)], "spectrum of the optimum"),
        compare(site.spectrum.effective_rank, "==", (-shares * shares.log()).sum().exp(), "effective rank"),
        compare(site.rate_choice.errors, "==", errors, "leave-one-out errors", precision=1e-7),
        compare(site.rate_choice.best, "==", site.rate_choice.rates[int(np.argmin(errors))], "best rate"),
        compare(report.uncertainty.variance.value, "==", variance[: report.uncertainty.examples].mean(), "variance"),
        compare(report.uncertainty.shares["2"], "==", 1.0, "share of the head in the variance"),
    ]


def left_out_error(features: Tensor, targets: Tensor, strength: float) -> float:
    """Mean squared error of ridge with the mask's diagonal penalty and an intercept, each example left out once."""
    total = 0.0
    for i in range(len(features)):
        kept = torch.arange(len(features)) != i
        X, Y = features[kept], targets[kept]
        moved = X - X.mean(0)
        # the mask multiplies features, not their distance to the mean
        system = moved.mT @ moved + strength * torch.diag(X.square().sum(0))
        weights = torch.linalg.lstsq(system, moved.mT @ (Y - Y.mean(0)), driver="gelsd").solution
        total += float((Y.mean(0) + (features[i] - X.mean(0)) @ weights - targets[i]).square().mean())
    return total / len(features)


@torch.no_grad()
def audited_sites(scale: float) -> list[Comparison]:
    """Two sites of a linear chain, exact, and of a classifier, drawn; sites inside of rows, or louder."""
    return by_parts((_chain_sites, _classifier_sites, _affine_sites, _louder_sites), scale)


def _classifier_sites(scale: float) -> list[Comparison]:
    """Penalties, what sites do together, the second order and sub-networks of a classifier."""
    labels = (torch.arange(30) % 4).clamp_max(2)  # of the last class more than of the others
    data = Sample(normal(7, 30, 3), labels)
    module = stack((3, 4, 4, 3), (0.2, 0.4), nn.Tanh, seed=9)
    held = Sample(data.inputs[:25], labels[:25])  # in batches of 16 and of 9
    report = audit(module, data, draws=120, rates=(0.5,), batch_size=16, validation=held)

    loss = entropic(labels)
    outputs = module.eval()(data.inputs)
    clean = loss(outputs)
    alone = [
        mean_over(every_mask(module, data.inputs, {place: rate}), loss) - clean for place, rate in ((2, 0.2), (5, 0.4))
    ]
    half = mean_over(every_mask(module, data.inputs, {2: 0.5}), loss) - clean
    both = mean_over(every_mask(module, data.inputs, {2: 0.2, 5: 0.4}), loss)
    first, last = report.sites
    assert first.penalty is not None
    assert last.penalty is not None
    assert last.subnetworks is not None
    assert report.interaction is not None
    features, head = masked(module[:5], data.inputs, {}), module[6]
    assert isinstance(head, nn.Linear)
    chances = outputs.softmax(1)
    spread = chances @ head.weight.square() - (chances @ head.weight).square()
    second = (0.4 / 0.6 * spread * features.square()).sum(1).mean() / 2
    kept = draw(Bernoulli(0.4, 4), 50, torch.Generator().manual_seed(0))
    found = ((features * kept[:, None] / 0.6) @ head.weight.mT + head.bias).argmax(-1)
    shares = (found == labels).double().mean(1)
    band = [float(shares.mean()), *np.quantile(shares.numpy(), [0.05, 0.95])]
    return [
        compare(report.clean_loss, "==", clean, "loss"),
        compare(report.accuracy or 0.0, "==", (outputs.argmax(1) == labels).double().mean(), "accuracy"),
        compare(report.validation_loss or 0.0, "==", entropic(held.targets)(outputs[:25]), "validation"),
        _within(first.penalty, scale * alone[0], "first site"),
        _within(first.curve[0].penalty, scale * half, "first site at another rate"),
        compare(last.penalty.lower, "<=", scale * alone[1], "last site, certified from below"),
        compare(last.penalty.upper, ">=", scale * alone[1], "last site, certified from above"),
        _within(report.training_loss, clean + scale * (both - clean), "training loss"),
        _within(report.interaction, scale * (both - clean - alone[0] - alone[1]), "what the sites do together"),
        compare(last.second_order or 0.0, "==", second, "second order of the last site"),
        compare(
            sum(item.penalty.value for item in report.sites if item.penalty) + report.interaction.value,
            "==",
            report.training_loss.value - report.clean_loss,
            "sites and what they do together add up",
        ),
        compare(last.subnetworks.full, "==", report.accuracy or 0.0, "full network"),
        compare(last.subnetworks.chance, "==", 14 / 30, "most frequent class"),
        compare(last.subnetworks.smallest or 0, "==", _fewest(features, head, labels), "fewest units"),
        compare([getattr(last.subnetworks, end) for end in ("mean", "low", "high")], "==", band, "sub-networks"),
    ]


def _fewest(features: Tensor, head: nn.Linear, labels: Tensor) -> int:
    """Fewest units, by flow or in one of four random orders, that keep the accuracy when they carry the flow of all."""
    flows = features.square().mean(0).sqrt() * head.weight.norm(dim=0)
    generator = torch.Generator().manual_seed(0)
    orders = [flows.argsort(descending=True), *(torch.randperm(len(flows), generator=generator) for _ in range(4))]

    def accuracy(kept: Tensor) -> float:
        scale = flows.sum() / flows[kept].sum() if len(kept) else 1.0
        scores = scale * features[:, kept] @ head.weight[:, kept].mT + head.bias
        return float((scores.argmax(1) == labels).double().mean())

    least = accuracy(torch.arange(len(flows))) - 0.01
    return min(count for order in orders for count in range(len(flows) + 1) if accuracy(order[:count]) >= least)


def _chain_sites(scale: float) -> list[Comparison]:
    """The criterion of a linear chain, site by site and with all of them."""
    found: list[Comparison] = []
    chain, wanted = stack((3, 4, 2), (0.2, 0.4), nn.Identity, seed=20), sample(3, 12, 3, 2)
    linear = nn.Sequential(*(layer for layer in chain if not isinstance(layer, nn.Identity)))
    told = audit(linear, wanted, rates=())

    error = squared(wanted.targets)
    base = error(linear.eval()(wanted.inputs))
    for site, (place, rate) in zip(told.sites, places(linear).items(), strict=True):
        value = mean_over(every_mask(linear, wanted.inputs, {place: rate}), error) - base
        assert site.penalty is not None
        found.append(compare(site.penalty.value, "==", scale * value, f"chain, site {place}"))
    whole = mean_over(every_mask(linear, wanted.inputs, places(linear)), error)
    found.append(compare(told.training_loss.value, "==", base + scale * (whole - base), "chain, all sites"))
    return found


class Rows(nn.Module):
    """Dropout inside each of two or more rows of an example, with what it changes added to the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(2, 2).double(), nn.Dropout(0.3), nn.Linear(2, 3).double()
        with torch.no_grad():
            for number, parameter in enumerate(self.parameters()):
                parameter.copy_(normal(number, *parameter.shape))

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        hidden = torch.tanh(self.first(inputs))
        return self.last(inputs + (self.drop(hidden) if mask is None else hidden * mask))


class Moves(Rows):
    """Nothing but what dropout changes: without it all outputs are zero."""

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        hidden = torch.tanh(self.first(inputs))
        return ((self.drop(hidden) if mask is None else hidden * mask) - hidden) @ self.last.weight.mT


def _affine_sites(scale: float) -> list[Comparison]:
    """A site in which the outputs are affine: exact for every squared loss, on outputs of two and three axes."""
    found: list[Comparison] = []
    module = Rows().eval().requires_grad_(False)
    cases: tuple[tuple[str | nn.Module, tuple[int, ...]], ...] = (
        ("squared", (2,)),
        (nn.MSELoss(), (2,)),
        (nn.MSELoss(), ()),
    )
    for loss, rows in cases:
        inputs, targets = normal(3, 5, *rows, 2), normal(4, 5, *rows, 3)
        divisor = 3 if isinstance(loss, nn.MSELoss) else 1
        units = inputs[0].numel()

        def error(outputs: Tensor, targets: Tensor = targets, divisor: int = divisor) -> Tensor:
            return (outputs - targets).square().sum(-1).flatten(1).mean(1) / divisor

        report = audit(module, (inputs, targets), loss, rates=(0.6,), batch_size=3)
        clean = float(error(module(inputs)[None]))
        name = f"{loss}, rows {rows}"
        found.append(compare(report.clean_loss, "==", scale * clean, f"loss, {name}"))
        (site,) = report.sites
        assert site.penalty is not None
        found.append(compare(float("affine tail" in site.penalty.method), "==", 1.0, f"affine, {name}"))
        for rate, told in ((0.3, site.penalty), (0.6, site.curve[0].penalty)):
            kept, chances = every_coin([rate] * units)
            masks = (kept / (1 - rate)).reshape(-1, 1, *inputs.shape[1:])
            value = float(mean_over((module(inputs, masks), chances), error)) - clean
            ends = [told.value, told.lower, told.upper]
            found.append(compare(ends, "==", [scale * value] * 3, f"rate {rate}, {name}"))
    inputs, targets = normal(3, 5, 2), normal(4, 5, 3)
    for kind, level in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
        for moves in (True, False):
            net = (Moves() if moves else Rows()).eval().requires_grad_(False)
            hidden = torch.tanh(net.first(inputs))
            paid = 0.3 / 0.7 * (hidden.square() @ net.last.weight.square().mT).sum(1).mean()
            (site,) = audit(net.to(kind), (inputs.to(kind), targets.to(kind)), "squared", rates=()).sites
            assert site.penalty is not None
            name = f"{kind}, {'moves alone' if moves else 'rows'}"
            found.append(compare(float("affine tail" in site.penalty.method), "==", 1.0, f"affine, {name}"))
            found.append(compare(site.penalty.value, "==", scale * paid, f"penalty, {name}", precision=level))
    return found


class Louder(nn.Module):
    """A factor in training mode alone."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs, larger in training."""
        return 1.5 * inputs if self.training else inputs


def _louder_sites(scale: float) -> list[Comparison]:
    """Where training mode changes the features, a site before the last layer has the penalty of those in training."""
    found: list[Comparison] = []
    inputs, targets, labels = normal(3, 11, 3), normal(4, 11, 2), torch.arange(11) % 2
    error, entropy = squared(targets), entropic(labels)
    for gate, goal, loss in ((nn.Tanh, targets, error), (nn.Identity, targets, error), (nn.Tanh, labels, entropy)):
        body, name = stack((3, 4, 2), (0.3,), gate), f"{gate.__name__}, {goal.dtype}"
        report = audit(nn.Sequential(Louder(), *body), Sample(inputs, goal), rates=(0.6,), batch_size=7, draws=12)
        clean, louder = (loss(masked(body, factor * inputs, {})) for factor in (1.0, 1.5))
        paid, other = (mean_over(every_mask(body, 1.5 * inputs, {2: rate}), loss) - louder for rate in (0.3, 0.6))
        (site,) = report.sites
        assert site.penalty is not None
        assert report.rest is not None
        found.append(compare(report.rest.value, "==", scale * (louder - clean), f"what training mode changes, {name}"))
        told = (site.penalty, site.curve[0].penalty, report.training_loss)
        for number, value, what in zip(told, (paid, other, louder + paid), ("own", "another", "loss"), strict=True):
            label = f"rate: {what}, {name}"
            if loss is error:  # an affine tail
                found.append(compare(number.value, "==", scale * value, label))
            else:
                found.append(_within(number, scale * value, label))
        moved = site.curve[0].training_loss - site.curve[0].penalty.value
        found.append(compare(moved, "==", report.training_loss.value - site.penalty.value, f"predicted loss, {name}"))
    body = stack((3, 4, 2), (1e-12,), nn.Tanh)
    report = audit(nn.Sequential(Louder(), nn.AlphaDropout(1e-12), *body), (inputs, targets), "squared", rates=())
    clean, louder = (error(masked(body, factor * inputs, {})) for factor in (1.0, 1.5))
    noises = [0.0 if site.penalty is None else site.penalty.value for site in report.sites]
    numbers = (report.clean_loss, report.training_loss.value, *(louder + value for value in noises))
    wanted = (clean, *[clean + scale * (louder - clean)] * 3)
    found.append(compare(numbers, "==", wanted, "noise that is no mask has no part in it", precision=1e-8))
    return found


def _within(number: object, truth: Tensor | float, label: str) -> Comparison:
    """A drawn number with its interval of 99 %: the truth lies in it."""
    value, low, high = (float(getattr(number, name)) for name in ("value", "lower", "upper"))
    off = max(low - float(truth), float(truth) - high, 0.0)
    return compare(value + off, "==", value, f"{label}, in [{low:.4g}, {high:.4g}]", precision=0.0)


class Coin(nn.Module):
    """Keeps or drops whole examples."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs, masked in training."""
        if not self.training:
            return inputs
        return inputs * inputs.new_empty(len(inputs), 1).bernoulli_(1 - self.rate).div_(1 - self.rate)


class Path(nn.Module):
    """A residual block that is left out with some probability."""

    def __init__(self, size: int, rate: float, seed: int) -> None:
        super().__init__()
        self.linear, self.coin, self.rate = nn.Linear(size, size).double(), Coin(rate), rate
        with torch.no_grad():
            self.linear.weight.copy_(normal(seed, size, size))
            self.linear.bias.copy_(normal(seed + 7, size))

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs plus the block."""
        return inputs + self.coin(torch.tanh(self.linear(inputs)))


def _passed(hidden: Tensor, blocks: list[Path], loss: Callable[[Tensor], float], factors: tuple[float, float]) -> float:
    """The loss with each block multiplied by its factor."""
    for factor, block in zip(factors, blocks, strict=True):
        hidden = hidden + factor * torch.tanh(block.linear(hidden))
    return loss(hidden)


def _held(told: PlainEstimate, wanted: float, drawn: bool, name: str) -> list[Comparison]:
    """The sum itself where nothing is to be drawn, else an interval that holds it and is not wide."""
    if not drawn:
        return [compare([told.value, told.lower, told.upper], "==", wanted, name)]
    ends = [compare(told.lower, "<=", wanted, f"{name}, from below"), compare(told.upper, ">=", wanted, name)]
    width = told.upper - told.lower
    return [*ends, compare(width, "<=", 6.0, f"{name}, width"), compare(float(width > 0), "==", 1.0, f"{name}, drawn")]


@torch.no_grad()
def audited_paths(scale: float) -> list[Comparison]:
    """Blocks left out with one coin an example: every outcome of every block, alone and together, for many losses."""
    found: list[Comparison] = []
    labels = torch.arange(20) % 3
    losses: tuple[tuple[nn.Module, Tensor], ...] = (
        (nn.L1Loss(), normal(7, 20, 3)),
        (nn.MSELoss(), normal(8, 20, 3)),
        (nn.SmoothL1Loss(beta=0.5), normal(9, 20, 3)),
        (nn.CrossEntropyLoss(), labels),
        (nn.CrossEntropyLoss(), normal(10, 20, 3).softmax(1)),
        (nn.MultiMarginLoss(p=2), labels),  # one number for a batch: drawn
    )
    for seed, (loss, targets) in enumerate(losses):
        width = 3 + seed % 2
        blocks = [Path(width, 0.2, seed + 1), Path(width, 0.35, seed + 2)]
        top = nn.Linear(width, 3).double()
        top.weight.copy_(normal(seed + 3, 3, width))
        top.bias.copy_(normal(seed + 5, 3))
        inputs = sample(seed + 4, 20, width, 2).inputs
        report = audit(nn.Sequential(*blocks, top), Sample(inputs, targets), loss, rates=(), batch_size=8)

        def mean_loss(hidden: Tensor, top: nn.Module = top, loss: nn.Module = loss, targets: Tensor = targets) -> float:
            return float(loss(top(hidden), targets))

        run = partial(_passed, inputs, blocks, mean_loss)
        clean, name, drawn = run((1.0, 1.0)), type(loss).__name__, isinstance(loss, nn.MultiMarginLoss)
        cells = [[(0.0, block.rate), (1 / (1 - block.rate), 1 - block.rate)] for block in blocks]
        for number, item in enumerate(report.sites):
            only = [[(1.0, 1.0)] if i != number else cell for i, cell in enumerate(cells)]
            value = sum(a[1] * b[1] * run((a[0], b[0])) for a, b in itertools.product(*only)) - clean
            assert item.penalty is not None
            found += _held(item.penalty, scale * value, drawn, f"block {number}, {name}")
        total = sum(a[1] * b[1] * run((a[0], b[0])) for a, b in itertools.product(*cells))
        found += _held(report.training_loss, clean + scale * (total - clean), drawn, f"both, {name}")
    return found
