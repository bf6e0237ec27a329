"""Any torch module: moments under its own dropout against enumeration, and against many plain passes."""

import gc
import math

import pytest
import torch
from compare import close, covers
from networks import drawn_inputs as inputs
from networks import drawn_weights as seeded
from torch import nn
from torch.nn import functional

from droptics.errors import NoClosedForm
from droptics.masks import Bernoulli, Product
from droptics.models import LastLayer, ReLUNet
from droptics.penalties import Certified, Enumerate, MonteCarlo
from droptics.predictions import modules, predictive
from droptics.predictions.modules import read_module


def head_only():
    body = [nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3), nn.ReLU(), nn.Flatten()]
    return seeded(nn.Sequential(*body, nn.Dropout(0.4), nn.Linear(9, 2)))


def mlp(rate=0.2):
    layers = [nn.Dropout(rate), nn.Linear(4, 6), nn.ReLU(), nn.Dropout(rate), nn.Linear(6, 5), nn.ReLU()]
    return seeded(nn.Sequential(*layers, nn.Dropout(rate), nn.Linear(5, 2)))


def as_relu(module, rates):
    layers = [layer for layer in module if isinstance(layer, nn.Linear)]
    net = ReLUNet([layer.weight.detach() for layer in layers], [layer.bias.detach() for layer in layers])
    return net, Product([Bernoulli(rate, size) for rate, size in zip(rates, net.layer_units, strict=True)])


def test_only_the_head_is_random_and_one_pass_is_enough():
    module = head_only().train()
    x = inputs(5, 2, 4)
    found = predictive(module, x)
    expected = predictive(LastLayer.of(module.eval()), x, Bernoulli(0.4, 9))
    close(found.mean.value, expected.mean.value, 1e-13)
    close(found.covariance.value, expected.covariance.value, 1e-13)
    assert "only 4" in found.variance.method
    assert predictive(module, x, method=MonteCarlo(50)).variance.confidence == 1.0
    found.classes()
    loss = found.variance.value.sum()
    loss.backward()
    assert module[5].weight.grad is not None


class OwnClass(nn.Sequential):
    """What others wrote, of which nothing is known before it runs."""

    def forward(self, values):
        return super().forward(values)


class Named(nn.Sequential):
    """A class that only says how a stack is made."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.note = "made"


class Turned(nn.Sequential):
    """A stack that runs in another order than it shows."""

    def __iter__(self):
        return iter([*list(super().__iter__()), nn.Identity()])


@pytest.fixture
def runs(monkeypatch):
    """One entry for every watched run."""
    seen = []
    monkeypatch.setattr(
        modules, "run", lambda *args, run=modules.run, **options: seen.append(1) or run(*args, **options)
    )
    return seen


def test_a_stack_of_torchs_own_layers_is_not_watched(runs):
    module, x = head_only(), inputs(5, 2, 4)
    found = predictive(module, x)
    assert len(runs) == 0
    named = predictive(Named(*module), x)
    assert len(runs) == 0
    close(found.covariance.value, named.covariance.value, 1e-14)
    twice = predictive(OwnClass(*module), x)
    assert len(runs) == 2
    predictive(Turned(*module), x)
    assert len(runs) > 2
    assert found.variance.method == twice.variance.method
    close(found.mean.value, twice.mean.value, 1e-14)
    close(found.covariance.value, twice.covariance.value, 1e-14)


QUIET, ROLLED = True, torch.Generator()


class Net(nn.Module):
    """A head that drops, on features that several switches change."""

    calm = True

    def __init__(self):
        super().__init__()
        self.body, self.drop, self.head = nn.Linear(4, 9), nn.Dropout(0.4), nn.Linear(9, 2)
        self.noise = 0.0

    def forward(self, x):
        hidden = torch.tanh(self.body(x))
        if self.noise or not self.calm or not QUIET:
            hidden = hidden.cos()
        return self.head(self.drop(hidden))


def turned_round(self, x):
    hidden = torch.tanh(self.body(x))
    return self.head(self.drop(hidden + noise(hidden)))


def noise(hidden):
    return torch.rand(hidden.shape, generator=ROLLED, dtype=hidden.dtype)


def test_a_module_that_gave_the_same_twice_runs_once_from_then_on(runs):
    module = seeded(Net())
    for count, wanted in ((7, 2), (7, 3), (5, 4)):
        x = inputs(count, 4)
        found = predictive(module, x)
        assert len(runs) == wanted
        expected = predictive(LastLayer.of(module.eval()), x, Bernoulli(module.drop.p, 9))
        close(found.mean.value, expected.mean.value, 1e-13)
        close(found.covariance.value, expected.covariance.value, 1e-13)
        with torch.no_grad():  # other weights and another rate are no other module
            module.head.weight.mul_(1.5)
        module.drop.p = 0.7


@pytest.mark.parametrize("way", ["attribute", "class", "global", "hook", "all hooks", "forward", "part"])
def test_a_module_that_changed_runs_twice_again(way, monkeypatch, runs):
    module, x = seeded(Net()), inputs(5, 4)
    assert read_module(module, x).certain
    assert read_module(module, x).certain
    assert len(runs) == 3
    handle = None
    if way == "attribute":
        module.noise = 1.0
    elif way == "class":
        monkeypatch.setattr(Net, "calm", False)
    elif way == "global":
        monkeypatch.setitem(globals(), "QUIET", False)
    elif way == "hook":
        module.body.register_forward_hook(lambda _, __, result: result + noise(result))
    elif way == "all hooks":
        handle = nn.modules.module.register_module_forward_hook(
            lambda part, _, result: result + noise(result) if part is module.body else result
        )
    elif way == "forward":
        monkeypatch.setattr(Net, "forward", turned_round)
    else:
        module.body = nn.Sequential(module.body, Noisy())
    found = read_module(module, x)
    if handle is not None:
        handle.remove()
    assert len(runs) >= 5
    assert found.certain is (way in ("attribute", "class", "global"))


class Noisy(nn.Module):
    def forward(self, x):
        return x + noise(x)


def closed(held):
    return lambda: held


@pytest.mark.parametrize("kept", [[0], torch.Generator(), {"noise": 0}, closed([0]), "hook", "forward"])
def test_a_module_that_keeps_what_may_change_unseen_runs_on_all_examples_twice(kept, runs):
    module = seeded(Net())
    if kept == "hook":
        module.body.register_forward_hook(lambda _, __, result: result * 2)
    elif kept == "forward":
        module.body.forward = torch.nn.Linear.forward.__get__(module.body)
    else:
        module.kept = kept
    for wanted in (3, 6):
        predictive(module, inputs(5, 4))
        assert len(runs) == wanted


def test_a_site_that_appears_later_is_found():
    module, x = seeded(Net()), inputs(5, 4)
    read_module(module, x)
    module.body = nn.Sequential(module.body, nn.Dropout(0.5)).double()
    assert [site.name for site in read_module(module, x).sites] == ["body.1", "drop"]
    module.body = module.body[0]
    assert [site.name for site in read_module(module, x).sites] == ["drop"]
    module.drop.p = 0.0
    assert read_module(module, x).sites == ()


def test_what_is_known_of_a_module_does_not_keep_it():
    module = seeded(Net())
    read_module(module, inputs(5, 4))
    before = len(modules._REPEATED)
    del module
    gc.collect()
    assert len(modules._REPEATED) < before


def test_a_stack_of_rowwise_layers_runs_once_and_says_what_a_watched_one_says(runs):
    """Sites, trunk and moments, also of a stack that does not end with a head; every layer treats rows for itself."""
    kept = [kind(4, 4) if kind is nn.Linear else kind() for kind in sorted(modules.ROWWISE, key=str)]
    wide = seeded(nn.Sequential(*kept, *mlp(), nn.Tanh())).eval()
    rows = inputs(5, 4)
    for layer in kept:
        close(layer.eval()(rows), torch.cat([layer(row[None]) for row in rows]), 1e-14)
    for stack in (mlp(), wide):
        runs.clear()
        one = read_module(stack, rows)
        assert len(runs) == 1
        watched = read_module(OwnClass(*stack), rows)
        assert [vars(site) for site in one.sites] == [vars(site) for site in watched.sites]
        assert (one.head, one.certain, one.drawing) == (watched.head, watched.certain, watched.drawing)
        assert [part for part, _ in one.frozen] == [part for part, _ in watched.frozen]
        left, right = (predictive(part, rows, None, MonteCarlo(16)) for part in (stack, watched.module))
        assert left.variance.method == right.variance.method
        close(left.variance.value, right.variance.value, 1e-12)


@pytest.mark.parametrize("made", [head_only, mlp])
@pytest.mark.parametrize("way", ["hook", "instance"])
def test_noise_from_outside_a_stack_is_noticed(way, made):
    """A hook, or a `forward` of one instance, may draw from a generator that nobody sees."""
    module, own = made(), torch.Generator().manual_seed(0)

    def noisy(result):
        return result + torch.rand(result.shape, generator=own, dtype=result.dtype)

    if way == "hook":
        module[0].register_forward_hook(lambda _, __, result: noisy(result))
    else:
        forward = module[0].forward
        module[0].forward = lambda x: noisy(forward(x))
    assert not read_module(module, inputs(5, *((2, 4) if made is head_only else (4,)))).certain


def test_a_layer_of_torch_that_draws_is_noticed():
    module = head_only()
    module[2] = nn.RReLU()
    assert not read_module(module, inputs(5, 2, 4)).certain


def test_a_dropout_that_stands_in_two_places_is_two_sites():
    drop = nn.Dropout(0.3)
    module = seeded(nn.Sequential(drop, nn.Linear(4, 3), nn.Tanh(), drop, nn.Linear(3, 2)))
    assert len(read_module(module, inputs(5, 4)).sites) == 2


def test_short_lists_of_early_masks_are_summed():
    module, x = mlp(), inputs(5, 4)
    net, law = as_relu(module, [0.2] * 3)
    exact = predictive(net, x, law)
    found = predictive(module, x)
    close(found.mean.value, exact.mean.value, 1e-12)
    close(found.covariance.value, exact.covariance.value, 1e-12)
    close(predictive(module, x, None, Enumerate(2**10)).variance.value, exact.variance.value, 1e-12)
    close(found.log_likelihood(inputs(5, 2), 0.5), exact.log_likelihood(inputs(5, 2), 0.5), 1e-10)


def test_sampled_moments_cover_the_exact_ones_and_say_what_they_did():
    """One draw at 99.9999 % for twenty numbers: fixed seed, one try."""
    module, x = mlp(), inputs(5, 4)
    net, law = as_relu(module, [0.2] * 3)
    exact = predictive(net, x, law)
    found = predictive(module, x, method=MonteCarlo(500, seed=1, confidence=0.999999))
    covers(found.mean, exact.mean.value)
    covers(found.variance, exact.variance.value)
    assert "last site integrated" in found.variance.method
    assert "atoms" in found.variance.method


class Functional(nn.Module):
    """Dropout in every way people write it: modules, functions, channels, tokens first, attention, by hand."""

    def __init__(self, hand=False, attention=True):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, dropout=0.3) if attention else None
        self.channels, self.head, self.hand = nn.Dropout1d(0.5), nn.Linear(4, 3), hand

    def forward(self, x):  # (examples, tokens, 4)
        tokens = functional.dropout(x.transpose(0, 1), 0.2, self.training)
        if self.attention is not None:
            tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        mixed = self.channels(torch.tanh(tokens).transpose(0, 1)).mean(1)
        if self.hand and self.training:
            mixed = mixed * (torch.rand_like(mixed) > 0.1) / 0.9
        return self.head(functional.dropout(torch.tanh(mixed), 0.4, self.training))


@pytest.mark.parametrize("hand", [False, True])
def test_every_way_of_writing_dropout_converges_to_plain_passes(hand):
    """Against 20 000 plain passes: differences within six standard errors of both, for 18 numbers each."""
    module, x = seeded(Functional(hand)), inputs(6, 3, 4)
    found = predictive(module, x, method=MonteCarlo(300 if hand else 3000, seed=4))
    torch.manual_seed(3)
    with torch.no_grad():
        module.train()
        rows = x.repeat(20_000, 1, 1)
        passes = module(rows).reshape(20_000, 6, 3)
        module.eval()
    mean, variance = passes.mean(0), passes.var(0)
    error = passes.std(0) / math.sqrt(20_000)
    sampled = (found.mean.upper - found.mean.lower) / 2 / 2.58
    assert bool(((found.mean.value - mean).abs() <= 6 * (error**2 + sampled**2).sqrt()).all())
    spread = ((passes - mean) ** 2).std(0) / math.sqrt(20_000)
    sampled = (found.variance.upper - found.variance.lower) / 2 / 2.58
    assert bool(((found.variance.value - variance).abs() <= 6 * (spread**2 + sampled**2).sqrt()).all())
    sites = read_module(module, x)
    assert [site.name for site in sites.sites] == ["dropout", "attention.attention_dropout", "channels", "dropout@2"]
    assert sites.sites[0].axis == 1
    assert [site.shape for site in sites.sites[1:3]] == [(2, 3, 3), (3, 1)]
    assert sites.certain is not hand
    assert sites.head
    assert sites.drawing == ()


def test_nothing_of_the_module_changes():
    module, x = head_only(), inputs(5, 2, 4)
    module.train()
    module[3].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    modes = [part.training for part in module.modules()]
    others = [seeded(Functional(hand)) for hand in (False, True)]
    state = torch.get_rng_state()
    predictive(module, x)
    for other in others:
        _ = predictive(other, inputs(6, 3, 4), method=MonteCarlo(8)).covariance
    assert torch.equal(state, torch.get_rng_state())
    assert [part.training for part in module.modules()] == modes
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
    assert not any("forward" in vars(part) for part in module.modules())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


def test_the_trunk_runs_once():
    class Counting(nn.Module):
        calls = 0

        def forward(self, x):
            Counting.calls += 1
            return x.flatten(1)

    module = nn.Sequential(Counting(), nn.Linear(4, 20), nn.Dropout(0.5), nn.ReLU(), nn.Linear(20, 1)).double()
    read_module(module, inputs(5, 4))
    few = Counting.calls
    Counting.calls = 0
    predictive(module, inputs(5, 4), method=MonteCarlo(64))
    assert Counting.calls == few


def test_modules_without_dropout_are_certain():
    found = predictive(seeded(nn.Linear(4, 2)), inputs(5, 4))
    assert float(found.variance.value.abs().max()) == 0.0
    assert "nothing is random" in found.variance.method


def test_a_layer_norm_after_the_last_site_is_sampled():
    module = seeded(nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3), nn.LayerNorm(3)))
    sites = read_module(module, inputs(5, 4))
    assert not sites.head
    values = []
    for z, p in Bernoulli(0.5, 4).atoms():
        values.append((p, module[2](module[1](inputs(5, 4) * z))))
    mean = sum(p * value for p, value in values)
    close(predictive(module, inputs(5, 4)).mean.value, mean, 1e-12)


def test_refusals():
    module, x = mlp(), inputs(5, 4)
    with pytest.raises(ValueError, match="masks must be None for a torch module"):
        predictive(module, x, Bernoulli(0.5, 4))
    wide = seeded(nn.Sequential(nn.Linear(4, 40), nn.Dropout(0.5), nn.ReLU(), nn.Linear(40, 1)))
    with pytest.raises(NoClosedForm, match="besides its head this module is random at 1"):
        predictive(wide, x)
    with pytest.raises(ValueError, match="for a module"):
        predictive(module, x, None, Certified())
    with pytest.raises(ValueError, match="one per example"):
        predictive(seeded(nn.Sequential(nn.Linear(4, 2), nn.Flatten(0))), x)
    with pytest.raises(ValueError, match="inputs must be a tensor"):
        predictive(module, torch.zeros(0, 4).double())


class Stacked(nn.Module):
    """Recurrent dropout between three layers, attention that returns its weights, a private generator by wish."""

    def __init__(self, private=False):
        super().__init__()
        self.recurrent = nn.GRU(4, 4, num_layers=3, dropout=0.3, batch_first=True)
        self.attention = nn.MultiheadAttention(4, 2, dropout=0.3, batch_first=True)
        self.head = nn.Linear(4, 2)
        self.numbers = torch.Generator().manual_seed(0) if private else None

    def forward(self, x):
        hidden = self.recurrent(x)[0]
        mixed = self.attention(hidden, hidden, hidden, need_weights=True)[0].mean(1)
        if self.numbers is not None:
            mixed = mixed * torch.rand(4, generator=self.numbers, dtype=x.dtype)
        return self.head(mixed)


def test_recurrent_and_weighted_attention_are_masked_from_outside():
    """Against 20 000 plain passes, as above."""
    module, x = seeded(Stacked()), inputs(3, 3, 4)
    sites = read_module(module, x)
    assert [site.name for site in sites.sites] == [
        "recurrent.GRU_dropout",
        "recurrent.GRU_dropout#2",
        "attention.attention_dropout",
    ]
    assert [site.shape for site in sites.sites] == [(3, 4), (3, 4), (2, 3, 3)]
    assert sites.drawing == ()
    found = predictive(module, x, method=MonteCarlo(2000, seed=4))
    torch.manual_seed(3)
    with torch.no_grad():
        passes = module.train()(x.repeat(20_000, 1, 1)).reshape(20_000, 3, 2)
    spread = ((passes - passes.mean(0)) ** 2).std(0) / math.sqrt(20_000)
    sampled = (found.variance.upper - found.variance.lower) / 2 / 2.58
    assert bool(((found.variance.value - passes.var(0)).abs() <= 6 * (spread**2 + sampled**2).sqrt()).all())


class Shared(nn.Module):
    """Masks that are not one row per example: of weights or positions, tokens before examples, behind a batch norm."""

    def __init__(self, way):
        super().__init__()
        self.way, self.head = way, nn.Linear(3, 2)
        self.positions = nn.Parameter(torch.zeros(1, 2, 3))
        self.norm = nn.BatchNorm1d(3, affine=False, track_running_stats=False)

    def forward(self, x, drop=functional.dropout):  # (examples, 2, 3)
        if self.way == "weights":
            return functional.linear(x.tanh().mean(1), drop(self.head.weight, 0.3, True), self.head.bias)
        if self.way == "positions":
            return self.head((x + drop(self.positions, 0.3, True)).tanh().mean(1))
        if self.way == "tokens first":
            rows = drop(x.transpose(0, 1).reshape(-1, 3), 0.3, True)
            return self.head(rows.reshape(2, len(x), 3).tanh().mean(0))
        return self.head(self.norm(drop(x.mean(1), 0.3, True)).tanh())


@pytest.mark.parametrize("examples", [2, 3])
@pytest.mark.parametrize("way", ["weights", "positions", "tokens first", "batch"])
def test_masks_that_examples_share_are_drawn_by_torch_itself(way, examples):
    """Against the sum over all masks; one draw at 99.9999 % for 24 numbers: fixed seed, one try."""
    rows = [0, 1, 0][:examples]
    module, x = seeded(Shared(way)), inputs(2, 2, 3)[rows]
    apart = way == "tokens first"  # examples do not meet there, so that two of them are enough to list
    coins = {"tokens first": 12, "batch": 3 * examples}.get(way, 6)
    total, second = 0.0, 0.0
    for z, p in Bernoulli(0.3, coins).atoms():
        value = module(x[:2] if apart else x, lambda source, _, __, z=z: source * z.reshape(source.shape))
        total, second = total + p * value, second + p * value.square()
    if apart:
        total, second = total[rows], second[rows]
    found = predictive(module, x, method=MonteCarlo(400, seed=2, confidence=0.999999))
    covers(found.mean, total)
    covers(found.variance, second - total.square())
    assert read_module(module, x).drawing == ("dropout",)


def test_a_scripted_module_is_read():
    module = seeded(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.3), nn.Linear(6, 2)))
    x = inputs(5, 4)
    exact = predictive(module, x)
    found = predictive(torch.jit.script(module), x, method=MonteCarlo(800, seed=1, confidence=0.999999))
    covers(found.mean, exact.mean.value)
    covers(found.variance, exact.variance.value)


def test_a_private_generator_is_noticed():
    assert read_module(seeded(Stacked()), inputs(3, 3, 4)).certain
    assert not read_module(seeded(Stacked(private=True)), inputs(3, 3, 4)).certain


class Written(nn.Module):
    """A head whose input or output is changed in place, which only a trial can notice."""

    def __init__(self, after):
        super().__init__()
        self.drop, self.head, self.after = nn.Dropout(0.5), nn.Linear(4, 2), after

    def forward(self, x):
        hidden = self.drop(x)
        if self.after:
            return self.head(hidden).square_()
        return self.head(hidden.square_())


@pytest.mark.parametrize("after", [False, True])
def test_what_is_written_in_place_is_no_head(after):
    module, x = seeded(Written(after)), inputs(5, 4)
    assert not read_module(module, x).head
    values = [(p, module.eval()(x * z)) for z, p in Bernoulli(0.5, 4).atoms()]
    close(predictive(module, x).mean.value, sum(p * value for p, value in values), 1e-12)


class Computed(nn.Module):
    """A last layer whose weights are no parameters: what it does to a mask has to be seen."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.drop = nn.Linear(3, 4), nn.Linear(4, 2), nn.Dropout(0.3)

    def forward(self, x):
        return functional.linear(self.drop(torch.tanh(self.first(x))), 2 * self.last.weight, self.last.bias)


def test_a_head_of_computed_weights_is_confirmed_by_one_mask():
    module, x = seeded(Computed()), inputs(5, 3)
    found = predictive(module, x)
    assert found.mean.method == "closed form: only drop, before the last layer, is random"
    features = torch.tanh(module.first(x))
    close(found.variance.value, (3 / 7 * features.square()) @ (2 * module.last.weight).square().mT)


class Telling(nn.Module):
    """Looks at its masked values where there are many examples: its code may then take another way."""

    def __init__(self):
        super().__init__()
        self.drop, self.head = nn.Dropout(0.25), nn.Linear(4, 2)

    def forward(self, x):
        hidden = self.drop(torch.tanh(x))
        return self.head(hidden if len(x) < 4 or float(hidden.sum()) > -1e9 else x)


def test_what_only_many_examples_tell_is_no_site():
    assert [site.name for site in read_module(seeded(Telling()), inputs(3, 4)).sites] == ["drop"]
    found = read_module(seeded(Telling()), inputs(5, 4))
    assert found.sites == ()
    assert found.drawing == ("drop",)


class Tossing(nn.Module):
    """Outputs are doubled or lost, by coins that are thrown by hand."""

    def forward(self, x):
        return x * (2 * torch.rand(len(x), 1).round() if self.training else 1.0)


def test_what_draws_for_itself_hears_the_seed():
    """Means over seeds differ by the variance of one draw over their number: of 120 degrees, within five deviations."""
    x = torch.ones(40, 1, dtype=torch.float64)
    means = [predictive(Tossing(), x, method=MonteCarlo(16, seed=seed)).mean.value for seed in (0, 1, 2, 3, 3)]
    assert torch.equal(means[3], means[4])
    assert 16 * float(torch.stack(means[:4]).var(0).mean()) == pytest.approx(1, abs=5 * math.sqrt(2 / 120))
