"""Data, labels and losses in the forms that others' code has them."""

from types import SimpleNamespace

import pytest
import torch
from cases import normal
from compare import close
from networks import regression_data, regression_net, seeded
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from droptics.audits import audit
from droptics.audits.batches import batches
from droptics.audits.criteria import Labels
from droptics.losses import Squared

CPU = torch.device("cpu")
WORDS, LENGTH = 7, 5


class Examples(Dataset):
    """Single examples, the label a plain number."""

    def __init__(self, named=False):
        self.x, self.named = normal(11, 6, seed=1).float(), named

    def __len__(self):
        return len(self.x)

    def __getitem__(self, place):
        if place >= len(self.x):
            raise IndexError
        return {"x": self.x[place], "label": place % 3} if self.named else (self.x[place], place % 3)


class Streamed(IterableDataset):
    def __iter__(self):
        return iter(Examples(named=True)[place] for place in range(11))


@pytest.mark.parametrize(
    "data",
    [
        Examples(),
        Examples(named=True),
        Streamed(),
        TensorDataset(Examples().x, torch.arange(11) % 3),
        [Examples()[place] for place in range(11)],
    ],
    ids=["dataset", "dictionaries", "streamed", "tensors", "list"],
)
def test_single_examples_are_collected(data):
    found = list(batches(data, CPU, 4))
    assert [batch.count for batch in found] == [4, 4, 3]
    close(torch.cat([batch.arguments[0] if batch.arguments else batch.options["x"] for batch in found]), Examples().x)
    assert torch.cat([batch.targets for batch in found]).tolist() == [place % 3 for place in range(11)]


class Graph(SimpleNamespace):
    """What a graph of PyTorch Geometric shows: attributes and `to`."""

    def to(self, device):
        return self


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.second = nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x, edge_index):
        source, target = edge_index
        sums = torch.zeros_like(x).index_add(0, target, x[source])
        return self.second(self.drop(torch.relu(self.first(sums))))


class WholeGraph(GraphNet):
    def forward(self, data):
        return super().forward(data.x, data.edge_index)


def test_graphs_are_taken_by_names_or_whole_and_by_their_training_nodes():
    x, labels = normal(20, 6, seed=1).float(), torch.arange(20) % 3
    edges = torch.stack([torch.arange(20), (torch.arange(20) + 1) % 20])
    rows = torch.arange(20) < 12
    for network, data in (
        (seeded(GraphNet()), Graph(x=x, edge_index=edges, y=labels, train_mask=rows)),
        (seeded(WholeGraph()), [Graph(x=x, edge_index=edges, y=labels, train_mask=rows)]),
    ):
        report = audit(network, data, draws=2, rates=())
        with torch.no_grad():
            outputs = nn.Module.__call__(network.eval(), *((x, edges) if type(network) is GraphNet else data))
        assert report.examples == 12
        close(report.clean_loss, float(functional.cross_entropy(outputs.double()[rows], labels[rows])))
        assert [item.site.name for item in report.sites] == ["drop"]


class Language(nn.Module):
    """Words in, scores of words out; with labels also the loss, as the large libraries write it."""

    def __init__(self, causal, loss=functional.cross_entropy):
        super().__init__()
        self.embed, self.drop, self.head = nn.Embedding(WORDS, 8), nn.Dropout(0.2), nn.Linear(8, WORDS)
        self.causal, self.loss = causal, loss

    def forward(self, input_ids, labels=None):
        scores = self.head(self.drop(self.embed(input_ids).cumsum(1)))
        if labels is None:
            return {"logits": scores}
        ours, theirs = (scores[:, :-1], labels[:, 1:]) if self.causal else (scores, labels)
        return {"loss": self.loss(ours.reshape(-1, WORDS), theirs.reshape(-1)), "logits": scores}


def sentences(count=12):
    words = torch.randint(0, WORDS, (count, LENGTH), generator=torch.Generator().manual_seed(1))
    labels = words.roll(-1, 1) * 3 % WORDS
    labels[torch.arange(count), torch.arange(count) % LENGTH] = -100
    labels[3, 1:] = -100
    return {"input_ids": words, "labels": labels}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("loss", [None, "model"])
def test_token_labels_count_as_in_the_models_own_loss(causal, loss):
    network, data = seeded(Language(causal)).double().eval(), sentences()
    with torch.no_grad():
        own = float(network(**data)["loss"])
    # two batches of unequal numbers of labels: the mean is over labels, not over batches
    split = [{name: value[part] for name, value in data.items()} for part in (slice(0, 5), slice(5, 12))]
    for form in ([data], split):
        close(audit(network, form, loss, draws=2, rates=()).clean_loss, own)


@pytest.mark.parametrize("causal", [False, True])
def test_a_named_loss_stays_where_the_models_own_is_another(causal):
    """Labels that are not shifted for a causal model, and the other way round; smoothed ones for either."""
    network, data = seeded(Language(causal)).double().eval(), sentences()
    with torch.no_grad():
        scores = network(data["input_ids"])["logits"]
    for smoothing in (0.0, 0.2):
        ours, theirs = (scores, data["labels"]) if causal else (scores[:, :-1], data["labels"][:, 1:])
        wanted = functional.cross_entropy(ours.reshape(-1, WORDS), theirs.reshape(-1), label_smoothing=smoothing)
        named = Labels(shift=not causal, smoothing=smoothing)
        close(audit(network, [data], named, draws=2, rates=()).clean_loss, float(wanted))


def test_a_loss_of_the_models_own_is_used_as_it_is():
    network, data = seeded(Language(False, lambda a, b: a[b >= 0].square().mean())).double().eval(), sentences()
    with torch.no_grad():
        own = float(network(**data)["loss"])
    close(audit(network, [data], "model", draws=2, rates=()).clean_loss, own)
    with pytest.raises(ValueError, match="needs a forward that takes 'labels'"):
        audit(regression_net(), regression_data(), "model")


class EncoderDecoder(Language):
    """Makes the decoder's inputs from the labels, and fails without either."""

    def forward(self, input_ids, decoder_input_ids=None, labels=None):
        if decoder_input_ids is None:
            decoder_input_ids = labels.clamp_min(0).roll(1, 1)
        scores = self.head(self.drop(self.embed(decoder_input_ids) + self.embed(input_ids).mean(1, keepdim=True)))
        result = {"logits": scores}
        return result if labels is None else {"loss": self.loss(scores.flatten(0, 1), labels.flatten()), **result}


@pytest.mark.parametrize("loss", [None, "model"])
def test_encoder_decoders_get_their_labels(loss):
    network, data = seeded(EncoderDecoder(False)).double().eval(), sentences()
    with torch.no_grad():
        own = float(network(**data)["loss"])
    report = audit(network, [data], loss, draws=2, rates=())
    close(report.clean_loss, own)
    assert [item.site.name for item in report.sites] == ["drop"]


@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        (nn.MSELoss(), normal(50, 3, seed=2)),
        (functional.mse_loss, normal(50, 3, seed=2)),
        (nn.L1Loss(), normal(50, 3, seed=2)),
        (nn.CrossEntropyLoss(), torch.arange(50) % 3),
        (nn.CrossEntropyLoss(label_smoothing=0.1), torch.arange(50) % 3),
        (nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]).double()), torch.arange(50) % 3),
        (nn.BCEWithLogitsLoss(), (normal(50, 3, seed=2) > 0).double()),
    ],
    ids=["mse", "mse-function", "l1", "cross-entropy", "smoothed", "weighted", "bce"],
)
def test_losses_of_torch_are_what_torch_computes(loss, targets):
    network, x = regression_net().eval(), normal(50, 6, seed=1)
    close(audit(network, (x, targets), loss, draws=2, rates=()).clean_loss, float(loss(network(x), targets).detach()))


class Pixels(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.drop = nn.Conv2d(2, 4, 1), nn.Dropout2d(0.2)

    def forward(self, x):
        return self.drop(self.conv(x))


@pytest.mark.parametrize("loss", [None, nn.CrossEntropyLoss()])
def test_classes_of_pixels_are_in_the_second_place(loss):
    network, x = seeded(Pixels()).double().eval(), normal(6, 2, 3, 5, seed=1)
    labels = torch.randint(0, 4, (6, 3, 5), generator=torch.Generator().manual_seed(1))
    labels[0, 0] = -100
    wanted = float(functional.cross_entropy(network(x), labels).detach())
    close(audit(network, (x, labels), loss, draws=2, rates=()).clean_loss, wanted)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", ["wrapped", "in place", "part"])
def test_compiled_modules_are_audited_as_written(way):
    network = regression_net()
    expected = audit(network, regression_data(), Squared(), progress=False)
    if way == "in place":
        network.compile(backend="eager")
    elif way == "part":
        network[0] = torch.compile(network[0], backend="eager")
    module = torch.compile(network, backend="eager") if way == "wrapped" else network
    report = audit(module, regression_data(), Squared(), progress=False)
    assert [item.site.name for item in report.sites] == ["2"]
    close(report.sites[0].penalty.value, expected.sites[0].penalty.value)


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("MeanSquared", functional.mse_loss),
        ("Squared", lambda outputs, labels: (outputs - labels).square().sum(1).mean()),
        ("OwnLoss", functional.l1_loss),
        # nearly ours: one part in 10,000 is more than rounding, and an audit by our loss would say something else
        ("OwnLoss", lambda outputs, labels: 1.0002 * functional.mse_loss(outputs, labels)),
        ("OwnLoss", lambda outputs, labels: 0.9998 * (outputs - labels).square().sum(1).mean()),
    ],
)
@pytest.mark.parametrize("size", [1.0, 1e-3])
def test_a_loss_of_the_models_own_is_known_where_it_is_one_of_ours(name, loss, size):
    """Then every example has its own loss, and the penalty of the head is exact."""

    class Owning(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = regression_net()

        def forward(self, inputs, labels=None):
            outputs = self.body(inputs)
            return {"logits": outputs} if labels is None else {"loss": loss(outputs, labels), "logits": outputs}

    inputs, labels = regression_data()
    with torch.no_grad():
        near = regression_net().eval()(inputs)
    labels = near + size * (labels - near)
    report = audit(Owning(), [{"inputs": inputs, "labels": labels}], "model", rates=(), draws=2)
    assert report.loss == name
    with torch.no_grad():
        wanted = float(loss(regression_net().eval()(inputs), labels))
    assert report.clean_loss == pytest.approx(wanted, rel=1e-12)
    assert report.sites[0].penalty.method.startswith("exact") is (name != "OwnLoss")
