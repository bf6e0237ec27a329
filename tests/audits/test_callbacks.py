"""Callbacks without their trainers: what they log, when, by which loss, and after they were pickled."""

import math
import pickle
import types

import pytest
import torch
from networks import regression_data, regression_net, seeded
from torch import nn

from droptics.audits import audit, audit_numbers, huggingface_callback, lightning_callback

HEARD = []


def hear(numbers):
    HEARD.append(numbers)


def logged_by(callback, epochs, network=None):
    """What either callback logs at the ends of epochs, the first one being 1."""
    network, seen = network or regression_net(), []
    network.log_dict = seen.append
    for epoch in epochs:
        if hasattr(callback, "on_train_epoch_end"):
            callback.on_train_epoch_end(types.SimpleNamespace(current_epoch=epoch - 1), network)
        else:
            state = types.SimpleNamespace(epoch=epoch, global_step=10, log_history=seen)
            callback.on_epoch_end(None, state, None, model=network)
    return seen


@pytest.mark.parametrize("make", [lightning_callback, huggingface_callback])
@pytest.mark.parametrize("loss", [nn.L1Loss(), nn.MSELoss()])
def test_the_loss_and_the_options_that_were_given_are_asked_for(make, loss):
    inputs, targets = regression_data()
    network = regression_net()
    callback = make((inputs, targets), loss, rates=(0.25,), draws=2)
    for again in (callback, pickle.loads(pickle.dumps(callback))):
        (numbers,) = logged_by(again, [1], network)
        with torch.no_grad():
            wanted = float(loss(network.eval()(inputs), targets))
        # fifty sums of three terms, and a mean of them
        assert numbers["dropout/clean_loss"] == pytest.approx(wanted, rel=1e-12)
        assert [point.rate for point in again.last.sites[0].curve] == [0.25]


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("short", [0.0, 0.01, -0.01])
def test_epochs_are_counted_from_one_and_to_the_nearest(every, short):
    """A trainer that counts steps ends its epochs a step early or late."""
    epochs = [epoch for epoch in range(1, 7) if epoch % every == 0]
    face = huggingface_callback(regression_data(), every=every, rates=(), draws=2)
    told = logged_by(face, [epoch - short for epoch in range(1, 7)])
    assert [round(numbers["epoch"]) for numbers in told] == epochs
    light = lightning_callback(regression_data(), every=every, rates=(), draws=2)
    assert len(logged_by(pickle.loads(pickle.dumps(light)), range(1, 7))) == len(epochs)


def test_what_is_read_from_a_pickle_logs_where_it_did():
    HEARD.clear()
    callback = huggingface_callback(regression_data(), every=2, log=hear, rates=(), draws=2)
    told = logged_by(pickle.loads(pickle.dumps(callback)), range(1, 5))
    assert [{"epoch": epoch, "step": 10, **numbers} for epoch, numbers in zip((2, 4), HEARD, strict=True)] == told


def test_numbers_are_those_of_the_report_and_none_is_missing_or_nan():
    """Behind the first site stands no linear layer: nothing is known of what its units carry."""
    layers = nn.Linear(6, 5), nn.Dropout(0.3), nn.Tanh(), nn.Linear(5, 4), nn.Dropout(0.2), nn.Linear(4, 3)
    report = audit(seeded(nn.Sequential(*layers)).double(), regression_data(), rates=(), draws=4)
    numbers = audit_numbers(report)
    first, last = report.sites
    assert first.units is not None
    assert not first.units.flows
    assert numbers == {
        "dropout/clean_loss": report.clean_loss,
        "dropout/training_loss": report.training_loss.value,
        "dropout/1/penalty_share": first.share,
        "dropout/4/penalty_share": last.share,
        "dropout/4/imbalance": last.units.imbalance,
        "dropout/4/coadaptation": last.units.coadaptation,
    }
    assert all(math.isfinite(value) for value in numbers.values())
