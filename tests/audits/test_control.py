"""Draws with the gradient control: unbiased, narrower than plain draws, covering, and within the budget."""

import pytest
import torch
from cases import normal
from networks import regression_data, regression_net, seeded
from torch import nn

from droptics.audits import audit, criteria
from droptics.audits.batches import Batch
from droptics.audits.control import Guess, remainder, screen, share_out
from droptics.audits.criteria import Labels, MeanSquared, differentiated, parts
from droptics.audits.runs import Law, Runs, draw
from droptics.audits.tallies import Mean
from droptics.losses import CrossEntropy, Squared


class Layer(nn.Module):
    """A transformer block by hand: attention and two layers, with three places that drop."""

    def __init__(self, width, rate):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, dropout=rate, batch_first=True)
        self.first, self.second = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.after_attention, self.after_layers = nn.Dropout(rate), nn.Dropout(rate)

    def forward(self, x):
        x = self.one(x + self.after_attention(self.attention(x, x, x, need_weights=False)[0]))
        return self.two(x + self.after_layers(self.second(nn.functional.gelu(self.first(x)))))


class Encoder(nn.Module):
    def __init__(self, layers=2, width=16, words=30, rate=0.1):
        super().__init__()
        self.embed, self.drop = nn.Embedding(words, width), nn.Dropout(rate)
        self.layers = nn.ModuleList(Layer(width, rate) for _ in range(layers))
        self.last, self.head = nn.Dropout(rate), nn.Linear(width, 2)

    def forward(self, words):
        x = self.drop(self.embed(words))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.last(x.mean(1)))


def made(layers=2):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Encoder(layers)


def sentences(count=32):
    words = torch.randint(0, 30, (count, 6), generator=torch.Generator().manual_seed(1))
    return words, (words.sum(1) % 2)


def test_remainders_are_unbiased_and_narrow():
    module, (x, y) = made(), sentences(16)
    laws = {name: Law(name, 0.1, "entry") for name in ("drop", "layers.0.after_layers")}
    runs = Runs(module, Batch((x,), {}, y, len(x)), CrossEntropy(), laws, {})
    base, generator = runs.base(), torch.Generator().manual_seed(0)
    assert base.axes == {"drop": 0, "layers.0.after_layers": 0}
    law = laws["layers.0.after_layers"]
    pairs = [remainder(runs, base, [law], generator) for _ in range(60)]
    rest, plain = (torch.stack([pair[k].mean() for pair in pairs]) for k in (0, 1))
    gap = (rest - plain).mean()
    assert abs(float(gap)) <= 5 * float((rest - plain).std()) / 60**0.5
    assert float(plain.var()) > 5 * float(rest.var())


def test_a_look_at_all_sites_leaves_what_no_slope_says():
    """Losses under masks of all sites, less those without, less slopes times changes: the masks are drawn again."""
    module, (x, y) = made(), sentences(16)
    laws = {name: Law(name, 0.1, "entry") for name in ("drop", "layers.0.after_layers")}
    runs = Runs(module, Batch((x,), {}, y, len(x)), CrossEntropy(), laws, {})
    base, again = runs.base(), torch.Generator().manual_seed(3)
    _, rest = screen(runs, base, list(laws.values()), torch.Generator().manual_seed(3))
    masks = {name: draw(law, base, law.rate, again) for name, law in laws.items()}
    wanted = runs.losses(masks, (base.recording, base.recording.places["drop"])) - base.sums
    for name, own in masks.items():
        for slope, mask in zip(base.slopes[name], own, strict=True):
            wanted = wanted - (slope.double() * (mask.double() - 1)).flatten(1).sum(1)
    torch.testing.assert_close(rest, wanted, rtol=0, atol=1e-5)


def test_every_site_is_a_tensor_of_masks_in_training_mode():
    """Fused attention whose rate is zero in evaluation mode is found and measured like the others."""
    report = audit(made(), sentences(), progress=False, rates=())
    names = [item.site.name for item in report.sites]
    assert len(names) == 2 + 2 * 3
    assert "layers.0.attention.attention_dropout" in names
    *others, last = (item.penalty.method for item in report.sites)
    assert all("gradient control" in method for method in others)
    assert last == "certified", "the head of classes"


@pytest.mark.parametrize("budget", [20, 40, 60])
def test_the_budget_is_kept(budget):
    report = audit(made(), sentences(), budget=budget, progress=False)
    assert report.passes <= budget + 1
    single = audit(made(), sentences(), budget=1, progress=False)
    assert all(item.penalty.upper > item.penalty.lower for item in single.sites)
    assert single.passes < 20


def test_later_batches_spend_what_the_first_needs_for_finding_the_sites():
    report = audit(made(), sentences(96), budget=16, batch_size=32, progress=False, rates=())
    alone = audit(made(), sentences(32), budget=16, progress=False, rates=())
    draws = [int(item.penalty.method.split()[-2]) for item in (report.sites[0], alone.sites[0])]
    assert draws[0] > draws[1]
    assert report.passes <= 17


LEAST = {"wide": 2, "quiet": 1}


def test_draws_go_to_sites_that_they_resolve_and_then_to_the_widest():
    guesses = {"near": Guess(1.0, 0.1), "wide": Guess(1.0, 5.0), "quiet": Guess(1.0, 0.0)}
    costs = dict.fromkeys(guesses, 1.0)
    found = share_out(guesses, costs, 12, dict.fromkeys(guesses, 1))
    assert found["quiet"] == 1
    assert found["near"] == 2
    assert found["wide"] == 9
    # the least draws cost 2 x 2 + 3: five are left of twelve, two draws of the site that needs more
    found = share_out({"wide": Guess(1.0, 5.0), "quiet": Guess(1.0, 0.0)}, {"wide": 2.0, "quiet": 3.0}, 12, LEAST)
    assert found == {"wide": 4, "quiet": 1}


@pytest.mark.slow
def test_intervals_cover():
    """99 % intervals of every site over seeds, against many draws; at least 98 % of them cover."""
    module, data = made(1), sentences(24)
    truth = audit(module, data, draws=300, rates=(), progress=False, seed=999)
    covered = []
    for seed in range(20):
        report = audit(module, data, budget=25, rates=(), progress=False, seed=seed)
        for item, known in zip(report.sites, truth.sites, strict=True):
            slack = known.penalty.upper - known.penalty.lower
            covered.append(item.penalty.lower - slack <= known.penalty.value <= item.penalty.upper + slack)
    assert sum(covered) >= 0.98 * len(covered)


@pytest.mark.parametrize("draws", [1, 2, 4])
def test_intervals_of_heavy_tails_cover(draws):
    """Examples of very different spread, as trained networks have them: squares of normal numbers."""
    generator = torch.Generator().manual_seed(1)
    scales = torch.randn(64, generator=generator, dtype=torch.float64).exp()
    hits = 0
    for _ in range(400):
        mean = Mean()
        drawn = torch.randn(draws, 64, generator=generator, dtype=torch.float64).square() * scales
        mean.add_rows(drawn, torch.ones(64, dtype=torch.float64))
        number = mean.number(0.99)
        hits += number.lower <= float(scales.mean()) <= number.upper
    assert hits >= 0.97 * 400


def test_one_number_per_batch_is_still_measured():
    """A loss of one number: draws are the only measurements, and there are enough of them."""

    def loss(outputs, targets):
        return nn.functional.cross_entropy(outputs, targets) ** 2

    report = audit(made(1), sentences(), loss, progress=False, rates=())
    assert all(item.penalty.upper > item.penalty.lower for item in report.sites)


def test_sites_of_sequences_first_find_their_examples():
    module = seeded(
        nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1), nn.LSTM(8, 8, 2, dropout=0.2))
    ).double()

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.head = module, nn.Linear(8, 2).double()

        def forward(self, x):
            return self.head(self.inner(x.transpose(0, 1))[0].mean(0))

    x, y = normal(9, 5, 8, seed=1), normal(9, 2, seed=2)
    report = audit(Whole(), (x, y), draws=4, rates=(), progress=False)
    assert len(report.sites) == 5
    assert all("gradient control" in item.penalty.method for item in report.sites)


@pytest.mark.parametrize("loss", [CrossEntropy(), Squared(), Labels(), MeanSquared()])
def test_the_derivative_of_a_loss_by_large_outputs_is_taken_in_parts(loss, monkeypatch):
    outputs = normal(7, 5, 3).float() if isinstance(loss, Labels) else normal(7, 3).float()
    targets = torch.randint(0, 3, outputs.shape[:-1]) if isinstance(loss, (Labels, CrossEntropy)) else normal(7, 3)
    leaf = outputs.double().requires_grad_()
    sums, weights = parts(loss, leaf, targets)
    (wanted,) = torch.autograd.grad(sums.sum(), leaf)
    monkeypatch.setattr(criteria, "DOUBLE", outputs[:2].numel())  # four parts, the last of one example
    found = differentiated(loss, outputs.requires_grad_(), targets)
    assert torch.equal(found[0], sums.detach())
    assert torch.equal(found[1], weights.detach())
    assert found[2] is not None
    assert torch.equal(found[2], wanted.float())


def test_what_a_loss_of_ones_own_reads_from_the_module_is_differentiated_too():
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    seen = {}
    net[1].register_forward_hook(lambda part, given, result: seen.update(a=result))
    batch = Batch((normal(6, 3).float(),), {}, normal(6, 2).float(), 6)

    def loss(outputs, targets):
        return (outputs - targets).square().sum(-1) + seen["a"].double().square().sum(-1)

    found = Runs(net, batch, loss, {"1": Law("1", 0.5, "entry")}, {}).base()
    a = net[0](batch.arguments[0]).detach()
    direct = 2 * (net[2](a) - batch.targets) @ net[2].weight * a
    torch.testing.assert_close(found.slopes["1"][0], (direct + 2 * a.square()).detach(), rtol=1e-5, atol=1e-6)
    assert found.axes == {"1": 0}
    assert found.leaves["1"][0].untyped_storage().nbytes() == 4  # masks of ones are one number


def test_what_is_left_goes_where_the_error_of_the_mean_is_largest():
    """Sites that their first draw resolves: each further draw to the largest of deviation / sqrt(draws), one by one."""
    deviations = {"wide": 3.0, "middle": 2.0, "narrow": 1.0, "still": 0.0}
    costs = {"wide": 1.0, "middle": 0.5, "narrow": 0.25, "still": 1.0}
    guesses = {name: Guess(100.0, value) for name, value in deviations.items()}
    for budget in (2.75, 4.0, 6.0, 9.0, 14.0):
        wanted, left = dict.fromkeys(guesses, 1), budget - sum(costs.values())
        while True:
            name = max(wanted, key=lambda one: deviations[one] ** 2 / wanted[one])
            if left < costs[name] or wanted[name] == 16:
                break
            wanted[name] += 1
            left -= costs[name]
        assert share_out(guesses, costs, budget, dict.fromkeys(guesses, 1)) == wanted


class Noisy(nn.Module):
    """Noise by hand, which no switch reaches, before a network whose dropout draws for itself then."""

    def __init__(self):
        super().__init__()
        self.inner = regression_net()

    def forward(self, inputs):
        return self.inner(inputs + 0.1 * torch.randn_like(inputs) if self.training else inputs)


@pytest.mark.parametrize(("draws", "each"), [(None, 4), (2, 2), (7, 7)])
def test_sites_that_draw_for_themselves_do_so_as_often_as_was_asked(draws, each):
    report = audit(Noisy(), regression_data(), nn.L1Loss(), draws=draws, rates=(0.2,), batch_size=25, progress=False)
    (item,) = (item for item in report.sites if item.penalty is not None)
    numbers = item.penalty, item.curve[0].penalty, report.rest
    assert [number.method for number in numbers] == [f"Monte Carlo, {2 * each} draws"] * 3, "of two batches"


def test_of_a_loss_that_is_linear_in_the_masks_no_draw_is_off():
    """The gradient control takes all of it away, at the rate of the site and at others."""
    module = seeded(nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Dropout(0.3), nn.Linear(9, 2))).double()
    data = normal(8, 6, seed=1), normal(8, 2, seed=2)
    report = audit(module, data, lambda found, wanted: (found * wanted).mean(), draws=2, rates=(0.2, 0.6))
    (site,) = report.sites
    # some tens of terms of order one, each rounded a few times
    assert [number.value for number in (site.penalty, *(point.penalty for point in site.curve))] == pytest.approx(
        [0.0] * 3, abs=1e-13
    )


def test_masks_are_those_of_the_seed():
    module = seeded(nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Dropout(0.3), nn.Linear(9, 2))).double()
    data = normal(8, 6, seed=1), normal(8, 2, seed=2)
    options = {"draws": 2, "rates": (), "progress": False}
    first, again, other = (audit(module, data, nn.L1Loss(), seed=seed, **options) for seed in (1, 1, 2))
    assert first.sites[0].penalty == again.sites[0].penalty != other.sites[0].penalty
