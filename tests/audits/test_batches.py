"""Batches, outputs and findings of audits in the less common shapes, and files of the command line."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from cases import normal
from compare import close
from networks import seeded
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from droptics.audits import audit, criteria
from droptics.audits.batches import Batch, batches, count_batches, run
from droptics.audits.criteria import as_loss, fitted, guess_loss, mean_loss, parts
from droptics.cli.files import read_arrays, read_model, read_sample, write_model
from droptics.cli.modules import load_module, read_state
from droptics.cli.tables import show
from droptics.data import Sample
from droptics.losses import CrossEntropy, Logistic, Squared
from droptics.models import Autoencoder, DeepLinear, TwoLayerLinear
from droptics.rates import tune_rates

CPU = torch.device("cpu")


def listed(data, size=4):
    return list(batches(data, CPU, size))


@pytest.mark.parametrize("loss", [CrossEntropy(), Squared()])
@pytest.mark.parametrize("most", [1, 7, 10**6])
def test_large_outputs_have_the_loss_and_the_slope_of_small_ones(monkeypatch, loss, most):
    """A few examples at a time in float64, or as they are where a gradient is asked for: rounding of float32 apart."""
    monkeypatch.setattr(criteria, "DOUBLE", most)
    outputs = normal(9, 4).float().requires_grad_()
    targets = normal(9, 4, seed=1).float() if isinstance(loss, Squared) else torch.arange(9) % 4
    exact = outputs.detach().double().requires_grad_()
    loss(exact, targets.double() if targets.is_floating_point() else targets).mean().backward()
    found = mean_loss(loss, outputs, targets)
    found.backward()
    close(outputs.grad.double(), exact.grad, 1e-6, scale=1.0)
    with torch.no_grad():
        plain = mean_loss(loss, outputs, targets)
        close(plain, loss(exact, targets.double() if targets.is_floating_point() else targets).mean(), 1e-15, scale=9.0)
    assert plain.dtype == torch.float64
    close(found.detach().double(), plain, 1e-6)


@pytest.mark.parametrize("size", [1, 3, 10, 11])
@pytest.mark.parametrize("form", ["sample", "pair", "loader"])
def test_the_number_of_batches_is_known_beforehand(form, size):
    inputs, targets = normal(10, 3), normal(10, 2)
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=size)
    data = {"sample": Sample(inputs, targets), "pair": (inputs, targets), "loader": loader}[form]
    assert count_batches(data, size) == len(listed(data, size))
    assert count_batches(iter(loader), size) is None


@pytest.mark.parametrize(
    "data",
    [
        Sample(normal(10, 3), normal(10, 2)),
        (normal(10, 3), normal(10, 2)),
        ((normal(10, 3),), normal(10, 2)),
        [(normal(10, 3)[i : i + 4], normal(10, 2)[i : i + 4]) for i in (0, 4, 8)],
        [[normal(10, 3)[i : i + 4], normal(10, 2)[i : i + 4]] for i in (0, 4, 8)],
    ],
    ids=["sample", "pair", "tuple-of-inputs", "loader", "loader-of-lists"],
)
def test_every_form_gives_the_same_batches(data):
    found = listed(data)
    assert [batch.count for batch in found] == [4, 4, 2]
    close(torch.cat([batch.arguments[0] for batch in found]), normal(10, 3))
    close(torch.cat([batch.targets for batch in found]), normal(10, 2))


@pytest.mark.parametrize("key", ["targets", "labels", "target", "label", "y"])
def test_dictionaries_become_keyword_arguments(key):
    whole = ({"x": normal(5, 3), "mask": torch.ones(5)}, normal(5))
    (first, second) = listed(whole, 3)
    assert set(first.options) == {"x", "mask"}
    assert (first.count, second.count) == (3, 2)
    (found,) = listed([{"x": normal(5, 3), "note": "text", key: normal(5)}])
    assert found.arguments == ()
    assert found.options["note"] == "text"
    close(found.targets, normal(5))
    (paired,) = listed([({"x": normal(5, 3)}, normal(5))])
    assert set(paired.options) == {"x"}


def test_several_inputs_are_several_arguments():
    (flat,) = listed([(normal(5, 3), normal(5, 2), normal(5))])
    (nested,) = listed([((normal(5, 3), normal(5, 2)), normal(5))])
    assert len(flat.arguments) == len(nested.arguments) == 2
    close(flat.arguments[1], nested.arguments[1])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((normal(0, 3), normal(0)), "at least one example"),
        (3, "a pair .inputs, targets. or a loader, got int"),
        (iter([]), "at least one batch"),
        ([{"x": normal(2, 2)}], "must have the key 'targets' or 'labels', it has .'x'."),
        ([normal(2, 2)], "data must yield batches"),
        ([(normal(2, 2),)], "data must yield batches"),
        ([(normal(2, 2), torch.tensor(1.0))], "one per example"),
        ([(normal(2, 2), "labels")], "whose last item is the tensor of targets"),
        ([(torch.full((2, 2), torch.nan), normal(2))], "input 0 of a batch must be finite"),
    ],
)
def test_bad_data_is_named(data, message):
    with pytest.raises(ValueError, match=message):
        listed(data)


@pytest.mark.parametrize("shape", [(4, 3, 3), (4, 3, 5), (4, 3, 3, 3)], ids=str)
@pytest.mark.parametrize("loss", [nn.functional.cross_entropy, nn.CrossEntropyLoss()], ids=["function", "module"])
def test_torchs_cross_entropy_has_the_classes_second(loss, shape):
    """Also where there are as many places as classes, so that the shapes do not say which is which."""
    outputs, labels = normal(*shape), torch.arange(math.prod(shape) // 3).reshape(4, *shape[2:]) % 3
    sums, weights = parts(fitted(as_loss(loss), outputs, labels), outputs, labels)
    wanted = nn.functional.cross_entropy(outputs, labels, reduction="none").flatten(1)
    close(sums, wanted.sum(1))
    assert weights.tolist() == [wanted.shape[1]] * 4


@pytest.mark.parametrize(
    "loss", [nn.functional.cross_entropy, nn.CrossEntropyLoss(label_smoothing=0.1)], ids=["function", "module"]
)
@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 3), (4, 3, 2, 2)], ids=str)
def test_probabilities_as_targets_are_one_label_a_place(loss, shape):
    outputs, targets = normal(*shape), normal(*shape).softmax(1)
    close(mean_loss(fitted(as_loss(loss), outputs, targets), outputs, targets), loss(outputs, targets))


def test_losses_by_name_object_and_function():
    assert isinstance(as_loss("logistic"), Logistic)
    own = as_loss(nn.functional.mse_loss)
    close(mean_loss(own, normal(4, 2), normal(4, 2)), nn.functional.mse_loss(normal(4, 2), normal(4, 2)))
    assert isinstance(guess_loss(normal(3)), Squared)
    assert isinstance(guess_loss(torch.tensor([0, 1])), CrossEntropy)
    close(mean_loss(Squared(), normal(4, 1), normal(4)), (normal(4, 1)[:, 0] - normal(4)).square().mean())
    for bad in ("hinge", 3):
        with pytest.raises(ValueError, match="loss must be one of"):
            as_loss(bad)
    with pytest.raises(ValueError, match=r"targets have shape \(4, 3\) but the outputs \(4, 2\)"):
        mean_loss(Squared(), normal(4, 2), normal(4, 3))
    with pytest.raises(ValueError, match="loss must return a tensor, got float"):
        mean_loss(lambda outputs, targets: 1.0, normal(4, 2), normal(4, 2))


class Returns(nn.Module):
    def __init__(self, wrap):
        super().__init__()
        self.wrap = wrap

    def forward(self, x):
        return self.wrap(x)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        lambda x: (x, 2 * x),
        lambda x: [x],
        lambda x: {"logits": x, "loss": 2 * x},
        lambda x: {"out": (x, None), "aux": 2 * x},
        lambda x: {"score": x, "name": "net"},
        lambda x: SimpleNamespace(logits=x),
    ],
    ids=["tensor", "tuple", "list", "logits", "out", "only-tensor", "object"],
)
def test_the_output_is_found(wrap):
    close(run(Returns(wrap), Batch((normal(3, 2),), {}, normal(3), 3)), normal(3, 2))


@pytest.mark.parametrize(
    ("wrap", "message"),
    [(lambda x: {"a": x, "b": x}, "keys .'a', 'b'."), (lambda x: "text", "returned str"), (lambda x: (), "tuple")],
)
def test_no_output_is_named(wrap, message):
    with pytest.raises(ValueError, match=message):
        run(Returns(wrap), Batch((normal(3, 2),), {}, normal(3), 3))


def _net(drop=0.5):
    network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(drop), nn.Linear(8, 2)).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return network


def _texts(report):
    return [finding.text for finding in report.findings]


def test_the_gap_between_training_and_validation_is_explained():
    network = _net()
    inputs = normal(40, 3, seed=1)
    fitted = (inputs, network.eval()(inputs).detach())
    # the same examples: all of the gap is the penalty
    report = audit(network, fitted, validation=fitted, progress=False)
    assert any("explains all of it" in text for text in _texts(report))
    # a validation set that is far off: a generalization gap
    far = (inputs, fitted[1] + 1000)
    assert any(
        "a generalization gap of" in text for text in _texts(audit(network, fitted, validation=far, progress=False))
    )
    # without any dropout
    plain = nn.Sequential(nn.Linear(3, 2)).double()
    near, off = (inputs, plain(inputs).detach()), (inputs, plain(inputs).detach() + 5)
    texts = _texts(audit(plain, near, validation=off, progress=False))
    assert any("is above the training loss" in text for text in texts)
    assert any("no dropout was found" in text for text in texts)


def test_a_large_share_is_no_reason_for_another_rate():
    """That most of the training loss is penalty says nothing about errors on other data."""
    inputs = normal(40, 3, seed=1)
    strong = _net(0.9)
    report = audit(strong, (inputs, strong.eval()(inputs).detach()), progress=False)
    assert report.sites[0].share > 0.99
    assert not any("rate" in found.advice and "leave-one-out" not in found.text for found in report.findings)


def test_weights_of_examples_are_refused_and_not_passed_over():
    known = Sample(normal(8, 3), normal(8, 2, seed=1), torch.arange(8).double() + 1)
    for call in (
        lambda: audit(_net(), known, progress=False),
        lambda: audit(_net(), (known.inputs, known.targets), validation=known, progress=False),
        lambda: tune_rates(_net().requires_grad_(), known, known, progress=False),
    ):
        with pytest.raises(ValueError, match="data must not have weights: every example counts once"):
            call()


def test_distributed_needs_a_process_group():
    with pytest.raises(ValueError, match="process group"):
        audit(_net(), (normal(8, 3), normal(8, 2)), distributed=True, progress=False)


def test_weights_and_data_in_files(tmp_path):
    deep = DeepLinear([normal(3, 4), normal(2, 3)])
    write_model(deep, tmp_path / "deep.safetensors")
    assert [p.name for p in tmp_path.iterdir()] == ["deep.safetensors"]
    for a, b in zip(read_model(tmp_path / "deep.safetensors").weights, deep.weights, strict=True):
        close(a, b)
    flat = TwoLayerLinear(normal(3, 2), normal(4, 2))
    write_model(flat, tmp_path / "flat.safetensors")
    close(read_model(tmp_path / "flat.safetensors").V, flat.V)
    np.savez(tmp_path / "data.npz", inputs=np.arange(6).reshape(3, 2), targets=normal(3, 1).numpy(), weights=np.ones(3))
    data = read_sample(tmp_path / "data.npz")
    assert data.inputs.dtype == torch.float64
    close(data.weights, torch.ones(3))
    (tmp_path / "bad.safetensors").write_bytes(b"not tensors")
    (tmp_path / "data.txt").write_text("1 2")
    for call, message in (
        (lambda: read_arrays(tmp_path / "absent.npz"), "does not exist"),
        (lambda: read_arrays(tmp_path / "data.txt"), "must be a .npz or .safetensors"),
        (lambda: read_arrays(tmp_path / "bad.safetensors"), "cannot be read"),
        (lambda: read_model(tmp_path / "deep.safetensors", connect=True), "must hold the arrays U and V and no others"),
        (
            lambda: write_model(Autoencoder(normal(3, 2)), tmp_path / "tied.safetensors"),
            "Autoencoder cannot be written",
        ),
        (lambda: load_module(str(tmp_path / "absent.pt2")), "does not exist"),
        (lambda: load_module(str(tmp_path / "data.txt")), "is not an exported"),
        (lambda: load_module("collections:OrderedDict"), "returned OrderedDict, not a torch.nn.Module"),
        (lambda: read_state(tmp_path / "absent.pt"), "does not exist"),
        (lambda: read_state(tmp_path / "bad.safetensors"), "cannot be read as safetensors"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_state_dicts_of_both_kinds(tmp_path):
    module = nn.Linear(2, 3)
    torch.save(module.state_dict(), tmp_path / "plain.pt")
    torch.save({"state_dict": module.state_dict(), "epoch": 3}, tmp_path / "trained.pt")
    torch.save({"epoch": 3}, tmp_path / "number.pt")
    for name in ("plain.pt", "trained.pt"):
        close(read_state(tmp_path / name)["weight"], module.weight)
    with pytest.raises(ValueError, match="does not hold a state dict"):
        read_state(tmp_path / "number.pt")
    torch.save(nn.Linear(4, 3).state_dict(), tmp_path / "other.pt")
    (tmp_path / "some_nets.py").write_text("from torch import nn\ndef small(): return nn.Linear(2, 3)\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        close(load_module("some_nets:small", tmp_path / "plain.pt").weight, module.weight)
        with pytest.raises(ValueError, match="does not fit the module"):
            load_module("some_nets:small", tmp_path / "other.pt")


def test_tables_for_people_and_programs(capsys):
    rows = {"global optimum": True, "interval, 99%": [1.0, 2.5], "masks": "Bernoulli", "certified": False}
    show("title", rows, as_json=True)
    assert capsys.readouterr().out == (
        '{"global_optimum": true, "interval_99%": [1.0, 2.5], "masks": "Bernoulli", "certified": false}\n'
    )
    show("title", rows, as_json=False)
    text = capsys.readouterr().out
    assert "1 to 2.5" in text
    assert "yes" in text
    assert "no" in text


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_loss_of_a_whole_batch_counts_all_of_its_examples(shape):
    outputs, targets = normal(6, 2), normal(6, 2, seed=1)
    sums, weights = parts(lambda out, y: (out - y).abs().mean().reshape(shape), outputs, targets)
    assert weights.tolist() == [6.0]
    close(sums.sum(), 3 * (outputs - targets).abs().sum() / 6, 1e-12)


@pytest.mark.parametrize("size", [7, 30])
def test_batches_of_the_validation_data_weigh_as_many_labels_as_they_hold(size):
    """Thirty examples, in batches of unequal sizes too; of two labels of each, those of -100 do not count."""
    inputs = normal(30, 3, seed=1)
    labels = torch.randint(0, 2, (30, 2), generator=torch.Generator().manual_seed(2))
    labels[:10, 1] = labels[4, 0] = labels[29, 1] = -100
    layers = nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.3), nn.Linear(4, 4), nn.Unflatten(1, (2, 2))
    net = seeded(nn.Sequential(*layers)).double()
    report = audit(net, (inputs, labels), rates=(), draws=2, batch_size=size, validation=(inputs, labels))
    with torch.no_grad():
        wanted = nn.functional.cross_entropy(net.eval()(inputs).flatten(0, 1), labels.flatten())
    assert report.validation_loss == pytest.approx(float(wanted), rel=1e-12)
    assert report.clean_loss == pytest.approx(float(wanted), rel=1e-12)


@pytest.mark.parametrize(("loss", "size"), [(None, 5), ("cross-entropy", 7), (nn.CrossEntropyLoss(), 5), (None, 40)])
@pytest.mark.parametrize("backward", [True, False])
def test_examples_without_a_label_count_nowhere(loss, size, backward):
    """Neither in losses nor in accuracies; a whole batch may have none, the first or a later one."""
    inputs = normal(40, 3, seed=1)
    net = seeded(nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(6, 3))).double().eval()
    with torch.no_grad():
        outputs = net(inputs)
    labels = outputs.argmax(1)
    labels[:12] = labels[20] = -100
    labels[30] = (labels[30] + 1) % 3
    wanted = float(nn.functional.cross_entropy(outputs, labels))
    data = (inputs.flip(0), labels.flip(0)) if backward else (inputs, labels)
    report = audit(net, data, loss, rates=(), draws=2, batch_size=size, validation=data)
    assert [report.clean_loss, report.validation_loss] == pytest.approx([wanted] * 2, rel=1e-12)
    assert report.examples == 40
    assert report.accuracy == pytest.approx(26 / 27, rel=1e-12)
    (site,) = report.sites
    assert site.subnetworks.full == pytest.approx(26 / 27, rel=1e-12)
    most = int(labels[labels >= 0].bincount().max())
    assert site.subnetworks.chance == pytest.approx(most / 27, rel=1e-12)


def test_a_batch_without_labels_costs_the_pass_that_told_so():
    """Two batches of five; what is spent on them is a mean over the examples."""
    inputs, labels = normal(10, 3, seed=1), torch.arange(10) % 3
    net = seeded(nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(6, 3))).double()
    alone = audit(net, (inputs[:5], labels[:5]), rates=(), draws=2).passes
    assert alone > 2
    labels[5:] = -100
    both = audit(net, (inputs, labels), rates=(), draws=2, batch_size=5).passes
    assert both == pytest.approx((alone + 1) / 2, rel=1e-12)


def test_smoothed_labels_of_positions_stay_smoothed_wherever_the_classes_are():
    labels, logits = torch.arange(24).reshape(6, 4) % 5, normal(6, 4, 5, seed=2)
    loss = nn.CrossEntropyLoss(label_smoothing=0.2)
    wanted = loss(logits.movedim(-1, 1), labels)
    for outputs in (logits, logits.movedim(-1, 1)):
        close(mean_loss(fitted(as_loss(loss), outputs, labels), outputs, labels), wanted, 1e-12)


def test_listed_outcomes_weigh_as_many_labels_as_count():
    inputs, labels = normal(14, 3, seed=1), torch.arange(14) % 3
    labels[:5] = -100
    net = seeded(nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Dropout(0.3), nn.Linear(3, 3))).double().eval()
    report = audit(net, (inputs, labels), rates=(), batch_size=6)
    with torch.no_grad():
        features = torch.tanh(net[0](inputs[5:]))
        total = 0.0
        for kept in itertools.product((0.0, 1.0), repeat=3):
            chance = 0.7 ** sum(kept) * 0.3 ** (3 - sum(kept))
            total += chance * nn.functional.cross_entropy(net[3](features * torch.tensor(kept) / 0.7), labels[5:])
    assert report.training_loss.value == pytest.approx(float(total), rel=1e-9)
