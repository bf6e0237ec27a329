"""Masks that copies share: monotone in the rate, of the right mean, the same whatever else was drawn."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from tuned import Everything, data, perceptron

from droptics.models.watching import Places
from droptics.rates.masking import SharedMasks, place_of
from droptics.rates.randomness import key, uniforms

LAYERS = {
    "dropout": (nn.Dropout(0.5), (200, 30)),
    "dropout1d": (nn.Dropout1d(0.5), (200, 30, 4)),
    "dropout2d": (nn.Dropout2d(0.5), (200, 30, 2, 3)),
    "dropout3d": (nn.Dropout3d(0.5), (200, 30, 2, 2, 3)),
    "dropout3d, one example": (nn.Dropout3d(0.5), (6000, 2, 2, 3)),
}


def masked(layer: nn.Module, source: torch.Tensor, rate: float, step: int | None = 0, seed: int = 0) -> torch.Tensor:
    kinds = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout")
    with SharedMasks(Places(layer), dict.fromkeys(kinds, rate), seed, step, []):
        return layer(source)


@pytest.mark.parametrize("kind", LAYERS)
def test_what_falls_at_a_rate_falls_at_every_higher_one(kind):
    layer, shape = LAYERS[kind]
    results = [masked(layer, torch.ones(shape), rate) for rate in (0.0, 0.1, 0.45, 0.8)]
    assert torch.equal(results[0], torch.ones(shape))
    for rate, low, high in zip((0.1, 0.45, 0.8), results, results[1:], strict=False):
        assert not bool(((low == 0) & (high != 0)).any())
        assert torch.equal(high.unique(), torch.tensor([0.0, 1 / (1 - torch.tensor(rate))]))
        coins = high.reshape(6000, -1)
        assert bool((coins == coins[:, :1]).all())  # a channel falls as a whole
        # four standard deviations of a share of 6000 coins; fixed seed, one try
        assert abs(float((coins[:, 0] == 0).float().mean()) - rate) < 4 * (rate * (1 - rate) / 6000) ** 0.5


def test_masks_depend_on_seed_step_and_name_alone():
    layer, source = nn.Dropout(0.5), torch.ones(5, 40)
    one = masked(layer, source, 0.5)
    torch.rand(100)
    assert torch.equal(one, masked(layer, source, 0.5))
    assert not torch.equal(one, masked(layer, source, 0.5, step=1))
    assert not torch.equal(one, masked(layer, source, 0.5, seed=1))
    expected = (uniforms((5, 40), key(0, 0, "dropout"), torch.device("cpu")) >= 0.5) * 2.0
    assert torch.equal(one, expected)


def test_switched_off_and_evaluation_are_the_identity():
    source = torch.randn(5, 4)
    assert masked(nn.Dropout(0.5), source, 0.5, step=None) is source
    assert masked(nn.Dropout(0.5).eval(), source, 0.5) is source


def test_alpha_dropout_keeps_mean_and_variance():
    source = functional.selu(torch.randn(400, 500, generator=torch.Generator().manual_seed(0)))
    result = masked(nn.AlphaDropout(0.3), source, 0.3)
    torch.manual_seed(0)
    own = functional.alpha_dropout(source, 0.3, training=True)
    assert torch.equal(result.unique()[:1].round(decimals=4), own.unique()[:1].round(decimals=4))
    # 200,000 numbers of variance one: mean within 0.01 is four standard deviations, the variance likewise
    assert abs(float(result.mean() - source.mean())) < 0.01
    assert abs(float(result.var() / source.var()) - 1) < 0.03


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"mask": "bool"}, {"mask": "float"}])
def test_attention_in_parts_is_attention(options):
    generator = torch.Generator().manual_seed(1)
    query, keys, values = (torch.randn(2, 3, 5, 4, generator=generator) for _ in range(3))
    mask = torch.rand(5, 5, generator=generator)
    given = {name: value for name, value in options.items() if name != "mask"}
    if "mask" in options:
        given["attn_mask"] = mask > 0.3 if options["mask"] == "bool" else mask
        given["attn_mask"] = given["attn_mask"] | torch.eye(5).bool() if options["mask"] == "bool" else mask
    places = Places(nn.Identity())
    with SharedMasks(places, {"attention_dropout": 0.0}, 0, 0, []):
        ours = functional.scaled_dot_product_attention(query, keys, values, dropout_p=0.5, **given)
    theirs = functional.scaled_dot_product_attention(query, keys, values, **given)
    assert float((ours - theirs).abs().max()) < 1e-6
    with SharedMasks(Places(nn.Identity()), {"attention_dropout": 0.9}, 0, 0, []):
        dropped = functional.scaled_dot_product_attention(query, keys, values, dropout_p=0.5, **given)
    assert float((dropped - theirs).abs().max()) > 0.1


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_attention_that_sees_nothing_is_zero(kind):
    """A sequence that is padded on the left, under a causal mask: its first positions have no key."""
    seen = torch.ones(3, 3).tril().bool() & torch.tensor([False, True, True])
    mask = seen if kind == "bool" else torch.zeros(3, 3).masked_fill(~seen, -torch.inf)
    rows = torch.randn(2, 1, 3, 4, generator=torch.Generator().manual_seed(3)).requires_grad_()
    with SharedMasks(Places(nn.Identity()), {"attention_dropout": 0.5}, 0, 0, []):
        told = functional.scaled_dot_product_attention(rows, rows, rows, attn_mask=mask, dropout_p=0.3)
    assert float(told[:, :, 0].detach().abs().max()) == 0
    (slope,) = torch.autograd.grad(told.square().sum(), rows)
    assert bool(told.isfinite().all())
    assert bool(slope.isfinite().all())


def test_attention_of_grouped_queries():
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(2, 4, 5, 4, generator=generator)
    keys, values = (torch.randn(2, 2, 5, 4, generator=generator) for _ in range(2))
    with SharedMasks(Places(nn.Identity()), {"attention_dropout": 0.0}, 0, 0, []):
        ours = functional.scaled_dot_product_attention(query, keys, values, dropout_p=0.5, enable_gqa=True)
    theirs = functional.scaled_dot_product_attention(query, keys, values, enable_gqa=True)
    assert float((ours - theirs).abs().max()) < 1e-6


@pytest.mark.parametrize("examples", [1, 3, 5])
def test_grouped_queries_of_any_number_of_examples_share_their_keys(examples):
    """Head by head by the formula: two heads of queries, one behind the other, read one head of keys."""
    generator = torch.Generator().manual_seed(2)
    query = torch.randn(examples, 4, 5, 3, generator=generator, dtype=torch.float64)
    keys, values = (torch.randn(examples, 2, 6, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    with SharedMasks(Places(nn.Identity()), {"attention_dropout": 0.0}, 0, 0, []):
        ours = functional.scaled_dot_product_attention(query, keys, values, dropout_p=0.5, enable_gqa=True)
    for head in range(4):
        weights = (query[:, head] @ keys[:, head // 2].mT / 3**0.5).softmax(-1)
        # sums of 6 averages of numbers below 10: some hundred roundings of 1e-15 each
        assert float((ours[:, head] - weights @ values[:, head // 2]).abs().max()) < 1e-12


def test_kernels_that_draw_their_own_masks_follow_the_rate_and_the_seed():
    module, inputs = Everything().train(), torch.randn(6, 5, 4, generator=torch.Generator().manual_seed(0))

    def outputs(rate: float, seed: int = 0) -> torch.Tensor:
        with (
            SharedMasks(Places(module), {"LSTM_dropout": rate, "attention_dropout": rate}, seed, 0, []),
            torch.no_grad(),
        ):
            return module(inputs)

    assert torch.equal(outputs(0.3), outputs(0.3))
    assert not torch.equal(outputs(0.3), outputs(0.3, seed=1))
    assert not torch.equal(outputs(0.3), outputs(0.6))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_are_torchs_own_at_the_rate_of_their_place(kind, packed):
    """Beside a layer that was made with that rate, on the generator of the call; others keep the rate they have."""
    torch.manual_seed(0)
    made = {rate: getattr(nn, kind)(4, 5, 2, dropout=rate, batch_first=True) for rate in (0.5, 0.2)}
    made[0.2].load_state_dict(made[0.5].state_dict())
    inputs = torch.randn(3, 6, 4)
    given = nn.utils.rnn.pack_padded_sequence(inputs, [6, 4, 3], batch_first=True) if packed else inputs
    name = f"{kind}_dropout"

    def output(module: nn.Module) -> torch.Tensor:
        found = module(given)[0]
        return found.data if packed else found

    for rates, same in (({name: 0.2}, 0.2), ({}, 0.5)):
        with SharedMasks(Places(made[0.5]), rates, 3, 1, []):
            ours = output(made[0.5])
        torch.manual_seed(key(3, 1, name))
        assert torch.equal(ours, output(made[same]))


def test_a_layer_that_runs_twice_is_one_place_with_two_masks():
    layer, source = nn.Dropout(0.5), torch.ones(3, 50)
    with SharedMasks(Places(layer), {"dropout": 0.5}, 0, 0, []):
        first, second = layer(source), layer(source)
    assert not torch.equal(first, second)
    assert place_of("a.dropout@2") == place_of("a.dropout") == "a.dropout"


def test_copies_share_masks_inside_vmap():
    module, inputs = perceptron(), data(20, 0)[0]
    rates = torch.tensor([0.1, 0.5], dtype=torch.float64)

    def forward(rate: torch.Tensor) -> torch.Tensor:
        with SharedMasks(Places(module), {"dropout": rate}, 4, 2, []):
            return functional.dropout(inputs, 0.3)

    together = torch.func.vmap(forward, randomness="same")(rates)
    for i, rate in enumerate((0.1, 0.5)):
        with SharedMasks(Places(module), {"dropout": rate}, 4, 2, []):
            assert torch.equal(together[i], functional.dropout(inputs, 0.3))


@pytest.mark.parametrize("named", [0, 1, 7])
def test_attention_of_several_heads_finds_its_rate_by_name_and_by_place(named):
    """Called with so many of its first eleven arguments by name; torch's own attention at that rate and seed."""
    torch.manual_seed(0)
    layer, source = nn.MultiheadAttention(4, 2), torch.randn(3, 5, 4)
    values = [source] * 3 + [4, 2, layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.5]
    names = (
        "query key value embed_dim_to_check num_heads in_proj_weight in_proj_bias bias_k bias_v add_zero_attn dropout_p"
    )
    given = dict(zip(names.split(), values, strict=True))
    place = 11 - named
    options = {name: given[name] for name in names.split()[place:]}
    options |= {"out_proj_weight": layer.out_proj.weight, "out_proj_bias": layer.out_proj.bias}
    with SharedMasks(Places(layer), {"attention_dropout": 0.2}, 3, 1, []):
        ours = functional.multi_head_attention_forward(*values[:place], **options)[0]
    torch.manual_seed(key(3, 1, "attention_dropout"))
    theirs = functional.multi_head_attention_forward(
        *values[:10], 0.2, layer.out_proj.weight, layer.out_proj.bias, training=True
    )[0]
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("rate", [None, 0.6])
def test_a_layer_that_runs_twice_drops_twice_at_the_rate_of_its_place(rate):
    layer, source = nn.Dropout(0.3), torch.ones(40, 30)
    rates, cpu = {} if rate is None else {"dropout": rate}, torch.device("cpu")
    with SharedMasks(Places(layer), rates, 7, 2, []):
        told = layer(layer(source))
    kept = 0.3 if rate is None else rate
    wanted = source
    for name in ("dropout", "dropout@2"):
        wanted = wanted * (uniforms((40, 30), key(7, 2, name), cpu) >= kept) / (1 - kept)
    torch.testing.assert_close(told, wanted)


def test_attention_that_is_called_at_rate_zero_stays_whole():
    """As it is in evaluation mode, where the function is given a rate of zero."""
    rows = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(1))
    with SharedMasks(Places(nn.Identity()), {"attention_dropout": 0.6}, 7, 2, []):
        told = functional.scaled_dot_product_attention(rows, rows, rows, dropout_p=0.0)
    assert torch.equal(told, functional.scaled_dot_product_attention(rows, rows, rows))
