"""What training refuses, in which words, and the small objects behind batches of laws."""

import pytest
import torch
from cases import normal, sample
from compare import close
from safetensors.torch import save_file
from torch import nn

from droptics.data import Moments, Sample
from droptics.losses import Logistic
from droptics.masks import Bernoulli, Block, Product
from droptics.models import DeepLinear, LastLayer, ReLUNet, TwoLayerLinear
from droptics.training import Dropout, Penalized, Plain, Recording, train
from droptics.training.descents import stacked


def network():
    return TwoLayerLinear(normal(3, 4) / 4, normal(4, 4) / 4)


def run(objective=None, model=None, data=None, **options):
    options = {"steps": 3, "step_size": 0.01, **options}
    return train(model or network(), data or sample(), objective or Dropout(Bernoulli(0.3, 4)), **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: run(record=Recording(at=[-1, 2])), "at must hold steps from 0 on, got -1"),
        (lambda: run(record=("distance",)), "there is no reference matrix; pass reference"),
        (lambda: run(Plain(), record=("penalty",)), "the objective has no masks; pass masks"),
        (lambda: run(Plain(), bound="certify"), "bound needs masks"),
        (lambda: run(bound=[]), "bound must be one number, or one for each run, got none"),
        (lambda: run(bound=()), "bound must be one number, or one for each run, got none"),
        (
            lambda: run(Plain(Logistic()), TwoLayerLinear(normal(1, 4), normal(4, 4)), Moments.of_sample(sample(1))),
            "second moments only determine linear models under squared loss",
        ),
        (lambda: run(Penalized(Bernoulli(0.3, 4)), batch_size=2), "batch_size must be None for Penalized"),
        (
            lambda: run(Penalized(Block(0.5, 8, 2)), model=ReLUNet([normal(4, 4), normal(3, 4)])),
            "Penalized needs a closed form, and ReLUNet has none",
        ),
        (
            lambda: run(Plain(), model=ReLUNet([normal(4, 4), normal(3, 4)]), record=("singular_values",)),
            "singular_values are recorded for linear families and last layers, got ReLUNet",
        ),
        (
            lambda: run(
                Plain(),
                model=ReLUNet([normal(4, 4), normal(3, 4)]),
                record=Recording(("distance",), reference=normal(3, 4)),
            ),
            "distance is recorded for linear families, got ReLUNet",
        ),
        (lambda: run(Dropout([Bernoulli(0.3, 4), Bernoulli(0.2, 4)])), "one mask law per run"),
        (lambda: run(step_size=[0.1, 0.2]), "step_size must be positive, one number or one per run"),
    ],
)
def test_refusals_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_own_functions_are_recorded_by_name():
    found = run(record=Recording({"norm": lambda model: model.U.norm()}, at=[0, 3]))
    close(found.history["norm"][0], network().U.norm())
    assert len(found.history["norm"]) == 2


def test_spectrum_of_the_predictions_of_a_module():
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    before = torch.linalg.svdvals(module(sample().inputs)).detach()
    found = run(
        Dropout(Bernoulli(0.3, 5)), model=LastLayer.of(module), record=Recording(("singular_values",), at=[0, 3])
    )
    close(found.history["singular_values"][0], before, 1e-12)


def test_a_foreign_checkpoint_is_not_continued(tmp_path):
    path = tmp_path / "run.safetensors"
    save_file({"weights": normal(2, 2)}, path)
    with pytest.raises(ValueError, match="was not written by this version of train; remove it to start anew"):
        run(checkpoint=path)
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="cannot be read"):
        run(checkpoint=path)


def test_laws_side_by_side():
    first, second = Bernoulli(0.2, 3), Block(0.4, 3, 3)
    both = stacked((first, second), lead=True)
    assert both.size == 3
    assert not both.independent
    for name in ("mean", "covariance", "characteristic", "relative_variance"):
        close(getattr(both, name), torch.stack([getattr(first, name), getattr(second, name)]))
    with pytest.raises(ValueError, match="each run draws from its own law"):
        both.sample(1, torch.Generator())
    with pytest.raises(ValueError, match="masks holds 2 laws but the model has no leading dimension"):
        stacked((first, second), lead=False)
    layers = [Product([Bernoulli(rate, 2), Bernoulli(2 * rate, 3)]) for rate in (0.1, 0.3)]
    joined = stacked(tuple(layers), lead=True)
    close(joined.mean, torch.stack([law.mean for law in layers]))
    close(joined.relative_variance, torch.stack([law.relative_variance for law in layers]))


def test_deep_networks_under_their_own_laws_equal_separate_runs():
    laws = [Product([Bernoulli(rate, 4), Bernoulli(0.2, 2)]) for rate in (0.1, 0.5)]
    weights = [normal(2, 4, 4) / 3, normal(2, 2, 4) / 3, normal(2, 3, 2) / 3]
    data = Sample(sample().inputs, sample().targets)
    both = train(DeepLinear(weights), data, Penalized(laws), steps=5, step_size=0.01)
    for i, law in enumerate(laws):
        alone = train(DeepLinear([w[i] for w in weights]), data, Penalized(law), steps=5, step_size=0.01)
        for found, wanted in zip(both.model.tensors, alone.model.tensors, strict=True):
            close(found[i], wanted, 1e-12)
