import pytest
import torch
from cases import INPUTS, OUTPUTS, deep_pairs, linear_pairs, normal, relu_network, sample, small_network
from compare import close
from torch import nn

from droptics.data import Moments
from droptics.models import (
    Autoencoder,
    Connections,
    DeepLinear,
    Factorization,
    LastLayer,
    LinearModel,
    ReLUNet,
    TwoLayerLinear,
)
from droptics.models.site import Site

MODELS = {name: (model, data) for name, model, data in linear_pairs() if not isinstance(data, Moments)}
MODELS |= {name: (model, data) for name, model, data, _ in deep_pairs() if not isinstance(data, Moments)}
MODELS["relu"] = (relu_network(), sample())


@pytest.mark.parametrize("name", MODELS)
def test_unit_multipliers_change_nothing(name):
    model, data = MODELS[name]
    close(model.outputs(data.inputs, torch.ones(model.units).double()), model.outputs(data.inputs), 1e-14)


@pytest.mark.parametrize("name", MODELS)
def test_multipliers_broadcast(name):
    """One mask for all, one per example, many for all: the same numbers."""
    model, data = MODELS[name]
    masks = normal(3, model.units, seed=1)
    many = model.outputs(data.inputs, masks[:, None, :])
    for i in range(3):
        close(many[i], model.outputs(data.inputs, masks[i]), 1e-13)
    per_example = normal(len(data), model.units, seed=2)
    each = model.outputs(data.inputs, per_example)
    for t in range(len(data)):
        close(each[t], model.outputs(data.inputs, per_example[t])[t], 1e-13)


@pytest.mark.parametrize("name", [name for name, (model, _) in MODELS.items() if isinstance(model, LinearModel)])
def test_linear_models_are_their_matrix(name):
    model, data = MODELS[name]
    close(model.outputs(data.inputs), data.inputs @ model.matrix().mT, 1e-13)
    assert model.matrix().shape == (model.output_size, model.input_size)


def test_connections_masks_single_weights():
    U, V = normal(OUTPUTS, 2), normal(INPUTS, 2)
    mask = torch.ones(INPUTS * 2).double()
    mask[3 * 2 + 1] = 0  # input 3, hidden unit 1
    cut = V.clone()
    cut[3, 1] = 0
    close(Connections(U, V).outputs(sample().inputs, mask), sample().inputs @ cut @ U.mT)


def test_factorization_reads_entries_and_measurements():
    U, V = normal(6, 4), normal(5, 4)
    model = Factorization(U, V)
    matrix = U @ V.mT
    indices = torch.tensor([[0, 1], [5, 4]])
    for kind in (torch.int64, torch.int32, torch.int16, torch.uint8):
        close(model.outputs(indices.to(kind)), torch.stack([matrix[0, 1], matrix[5, 4]])[:, None])
    every = torch.cartesian_prod(torch.arange(6), torch.tensor([2])).byte()  # as many pairs as rows: no mask of them
    close(model.outputs(every), matrix[:, 2:3])
    measured = normal(3, 6, 5)
    close(model.outputs(measured), (measured * matrix).sum((1, 2))[:, None])


def test_relu_network_agrees_with_torch_modules():
    network = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1)).double()
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    model = ReLUNet([layer.weight for layer in layers], [layer.bias for layer in layers])
    close(model.outputs(sample().inputs), network(sample().inputs))
    assert model.layer_units == (4, 3, 2)


def test_batches_of_networks():
    U, V = normal(6, OUTPUTS, 5), normal(6, INPUTS, 5)
    batched = TwoLayerLinear(U, V).outputs(sample().inputs)
    for i in range(6):
        close(batched[i], TwoLayerLinear(U[i], V[i]).outputs(sample().inputs))
    assert TwoLayerLinear(U, V).batch_shape == (6,)
    assert Autoencoder(U).batch_shape == (6,)


def test_last_layer_leaves_the_module_as_it_was():
    network = small_network().train()
    network[1].eval()
    model = LastLayer.of(network)
    first = model.outputs(sample().inputs)
    assert torch.equal(first, model.outputs(sample().inputs)), "features must not depend on dropout"
    assert network.training
    assert not network[1].training
    assert not any(part._forward_pre_hooks or part._forward_hooks for part in network.modules())
    assert model.units == 5


def test_last_layer_hook_is_removed_after_an_exception():
    network = small_network()
    with pytest.raises(RuntimeError):
        LastLayer.of(network).outputs(normal(3, INPUTS + 1))
    assert not any(part._forward_pre_hooks or part._forward_hooks for part in network.modules())


def test_what_a_hook_makes_of_the_last_layer_is_noticed():
    """The output of the layer is the output of the module here, but not its weights times its features."""
    network = small_network()
    network[-1].register_forward_hook(lambda _layer, _inputs, output: 2 * output)
    with pytest.raises(ValueError, match="does not end the module"):
        LastLayer.of(network).features(normal(3, INPUTS))


class Rewritten(nn.Module):
    """A head whose input or output is written to when it has run."""

    def __init__(self, what):
        super().__init__()
        self.head, self.what = nn.Linear(INPUTS, 2).double(), what

    def forward(self, x):
        x = x.clone()
        result = self.head(x)
        if self.what != "nothing":
            (x if self.what == "input" else result).mul_(3.0)
        return result


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_what_is_written_into_the_last_layer_is_noticed(mode):
    """The module returns the very tensor that the layer did, with other numbers in it."""
    rectified = nn.Sequential(nn.Linear(INPUTS, 2), nn.ReLU(inplace=True)).double()
    with mode():
        inputs = normal(3, INPUTS)
        for network in (rectified, Rewritten("output"), Rewritten("input")):
            with pytest.raises(ValueError, match="does not end the module"):
                LastLayer.of(network).features(inputs)
        assert torch.equal(LastLayer.of(Rewritten("nothing")).features(inputs), inputs)


def test_last_layer_by_name():
    network = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    assert LastLayer.of(network, "2").units == 3
    with pytest.raises(ValueError, match=r"name must be one of the linear layers \['0', '2'\]"):
        LastLayer.of(network, "1")
    with pytest.raises(ValueError, match="does not end the module"):
        LastLayer.of(network, "0").outputs(sample().inputs)
    with pytest.raises(ValueError, match="does not end the module"):
        LastLayer.of(nn.Sequential(nn.Linear(4, 2), nn.Softmax(-1)).double()).outputs(sample().inputs)
    with pytest.raises(ValueError, match=r"no nn\.Linear layer"):
        LastLayer.of(nn.Sequential(nn.ReLU()))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TwoLayerLinear(normal(3, 2), normal(4, 3)), "V .columns. has size 3, expected 2"),
        (lambda: TwoLayerLinear(normal(3), normal(4, 3)), "U must be a matrix"),
        (lambda: TwoLayerLinear(normal(3, 2), normal(4, 2).float()), "V is torch.float32"),
        (lambda: TwoLayerLinear(normal(3, 2) * float("nan"), normal(4, 2)), "U must be finite"),
        (lambda: Autoencoder(normal(3, 0)), "U must be a matrix"),
        (lambda: DeepLinear([normal(3, 4)]), "at least two layers"),
        (lambda: DeepLinear([normal(3, 4), normal(2, 2)]), r"weights\[1\] .columns. has size 2, expected 3"),
        (lambda: ReLUNet([normal(3, 4), normal(2, 3)], [normal(3)]), "biases has size 1, expected 2"),
        (lambda: ReLUNet([normal(3, 4), normal(2, 3)], [normal(2), None]), r"biases\[0\] has size 2"),
        (lambda: ReLUNet([normal(3, 4), normal(2, 3)], [normal(3), normal(1)[0]]), r"biases\[1\] has size 0"),
        (lambda: TwoLayerLinear(normal(3, 2), normal(4, 2)).outputs(normal(5, 4), normal(3)), "multipliers"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_sizes_and_batches_are_told():
    net = ReLUNet([normal(2, 5, 3), normal(2, 5)])
    assert (net.input_size, net.output_size, net.layer_units) == (3, 2, (3, 5))
    assert net.batch_shape == (2,)
    assert Connections(normal(6, 3, 2), normal(4, 2)).batch_shape == (6,)
    for place in range(3):
        weights = [normal(5, 4), normal(6, 5), normal(2, 6)]
        weights[place] = torch.stack([weights[place]] * 3)
        assert DeepLinear(weights).batch_shape == (3,)
        assert DeepLinear(weights).matrix().shape == (3, 2, 4)
    table = Factorization(normal(7, 3, 2), normal(4, 2))
    assert table.batch_shape == (7,)
    close(table.matrix(), torch.stack([u @ table.V.mT for u in table.U]))


class Repeated(nn.Module):
    def __init__(self, times):
        super().__init__()
        self.layer, self.times = nn.Linear(4, 4).double(), times

    def forward(self, x):
        for _ in range(self.times):
            x = self.layer(x)
        return x


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory = nn.LSTM(4, 3, batch_first=True).double()

    def forward(self, x):
        return self.memory(x[:, None])[0][:, 0]


def test_units_of_a_site_are_entries_unless_channels_are_asked_for():
    layer = nn.Conv2d(1, 2, 1)
    assert Site(layer, layer, (2, 3, 4)).units == 24
    assert Site(layer, layer, (2, 3, 4), channels=True).units == 2


def test_a_site_masks_one_layer_and_leaves_the_module_as_it_was():
    module = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 3)).double().train()
    site = Site.of(module, "1", sample().inputs)
    assert site.units == 6
    masks = normal(5, 1, 6, seed=1)
    hidden = torch.tanh(module[0](sample().inputs))
    close(site.outputs(sample().inputs, masks), torch.stack([module[3](hidden * mask) for mask in masks]), 1e-13)
    close(site.outputs(sample().inputs), module[3](hidden), 1e-14)
    assert module.training
    assert module[2].training
    assert not module[1]._forward_hooks


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        (Repeated(2), "layer", "must run once per call of the module, it ran 2 times"),
        (Repeated(0), "layer", "it ran 0 times"),
        (Recurrent(), "memory", "must return one tensor, got tuple"),
        (nn.Sequential(nn.Linear(4, 2).double()), "", "name must be one of the layers"),
        (nn.Sequential(nn.Flatten(0), nn.Linear(4, 2).double()), "0", r"must be \(examples, features...\)"),
    ],
)
def test_sites_that_cannot_be_masked(module, name, message):
    with pytest.raises(ValueError, match=message):
        Site.of(module, name, sample().inputs)
    for part in module.modules():
        assert not part._forward_hooks
