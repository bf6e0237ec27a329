"""Bars of long loops: on a terminal, within a command, and nowhere else."""

import io
import time
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from tqdm import tqdm

from droptics import progress
from droptics.attacks import Pgd, Threat, attack
from droptics.data import Sample
from droptics.datasets import planted_ratings
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear, TwoLayerLinear
from droptics.penalties import MonteCarlo, evaluation, penalty
from droptics.predictions import mixtures, predictive
from droptics.progress import clocked, shown, tracked
from droptics.recommenders import DropoutAutoencoder, DropoutCompletion, DropoutCompletionCV


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A terminal on which bars show at once."""
    screen = Terminal()
    monkeypatch.setattr("tqdm.tqdm", partial(tqdm, file=screen))
    monkeypatch.setattr(progress, "DELAY", 0.0)
    return screen


def test_a_bar_tells_the_count_and_the_time_left(terminal):
    with shown():
        for item in tracked([1, 2, 3, 4], "things", "thing"):
            time.sleep(0.15)
            if item == 3:
                told = terminal.getvalue()
    last = told.split("\r")[-1]
    assert "things:  50%" in last
    assert "2/4" in last
    assert "<00:00" in last, "0.3 s are left"


def test_sizes_are_counted(terminal):
    with shown():
        assert list(tracked(iter([[1, 2], [3]]), "masks", "mask", 3, len)) == [[1, 2], [3]]
    assert "0/3 [" in terminal.getvalue()


def test_silent_without_a_command_or_a_terminal(terminal, monkeypatch):
    assert list(tracked(range(3), "things", "thing")) == [0, 1, 2]
    with clocked(5.0, "one call"):
        pass
    assert terminal.getvalue() == ""
    plain = io.StringIO()
    monkeypatch.setattr("tqdm.tqdm", partial(tqdm, file=plain))
    with shown():
        assert list(tracked(range(3), "things", "thing")) == [0, 1, 2]
        with clocked(5.0, "one call"):
            pass
    assert plain.getvalue() == ""


def test_one_item_has_no_bar(terminal):
    with shown():
        assert list(tracked([7], "things", "thing")) == [7]
    assert terminal.getvalue() == ""


def test_short_loops_do_not_flicker(terminal, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 1.0)
    with shown():
        assert list(tracked(range(50), "things", "thing")) == list(range(50))
        with clocked(0.5, "one call"):
            pass
    assert "things" not in terminal.getvalue()
    assert "one call" not in terminal.getvalue()


def test_one_call_is_followed_by_the_clock_and_never_beyond_its_estimate(terminal, monkeypatch):
    monkeypatch.setattr(progress, "TICK", 0.02)
    with shown(), clocked(1.0, "one call"):
        time.sleep(1.3)
    lines = [line for line in terminal.getvalue().split("\r") if "one call" in line]
    assert len(lines) > 5
    shares = [int(line.split(":")[1].split("%")[0]) for line in lines]
    assert shares == sorted(shares)
    assert shares[-1] == 100
    assert "of about 1 s" in lines[-1]


def test_an_error_ends_the_bar(terminal):
    with pytest.raises(ZeroDivisionError), shown(), clocked(5.0, "one call"):
        _ = 1 / 0
    with shown():
        assert list(tracked([1, 2], "things", "thing")) == [1, 2]
    assert "things" in terminal.getvalue()


def sampled_penalty():
    network = TwoLayerLinear(torch.ones(2, 3).double(), torch.ones(4, 3).double())
    data = Sample(torch.ones(5, 4).double(), torch.ones(5, 2).double())
    return float(penalty(network, data, Bernoulli(0.5, 3), MonteCarlo(64)))


def deep_penalty():
    network = DeepLinear([torch.eye(3).double() for _ in range(4)])
    data = Sample(torch.eye(3).double(), torch.eye(3).double())
    return float(penalty(network, data, Product([Bernoulli(0.5, 3)] * 3)))


def network(units=6):
    torch.manual_seed(0)
    first, second = (nn.Linear(4, units), nn.ReLU(), nn.Dropout(0.5)), (nn.Linear(units, 6), nn.ReLU(), nn.Dropout(0.5))
    return nn.Sequential(*first, *second, nn.Linear(6, 3))


def all_masks():
    return predictive(network(), torch.ones(2, 4)).variance.value.tolist()


def sampled_passes():
    return predictive(network(units=30), torch.ones(2, 4), None, MonteCarlo(32)).variance.value.tolist()


def attacked():
    data = Sample(torch.full((6, 4), 0.5), torch.tensor([0, 1, 2, 0, 1, 2]))
    return attack(network(), data, Threat("l2", 0.5, (0, 1)), Pgd(steps=5), batch=2).inputs.tolist()


def ranked():
    ratings = planted_ratings((40, 20, 300), rank=2, noise=0.5, seed=0)
    return DropoutAutoencoder().fit(ratings).drop_


def chosen():
    ratings = planted_ratings((40, 20, 300), rank=2, noise=0.5, seed=0)
    model = DropoutCompletion(width=2, sweeps=2, progress=False)
    return DropoutCompletionCV(2, drops=(0.3, 0.6), estimator=model).fit(ratings).best_drop_


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (sampled_penalty, "Monte Carlo: "),
        (deep_penalty, "exact penalty: "),
        (all_masks, "all masks: "),
        (sampled_passes, "sampled passes: "),
        (attacked, "attack: "),
        (attacked, "ascent: "),
        (ranked, "rate and ridge: "),
        (chosen, "rates at width 2: "),
    ],
)
def test_long_questions_are_followed_and_their_answers_stay(terminal, monkeypatch, question, text):
    monkeypatch.setattr(evaluation, "CHUNK_ELEMENTS", 40)
    monkeypatch.setattr(mixtures, "CHUNK_ELEMENTS", 200)
    monkeypatch.setattr("droptics.penalties.deep_linear.TINY", 1)
    silent = question()
    assert terminal.getvalue() == ""
    with shown():
        told = question()
    assert np.array_equal(told, silent)
    assert text in terminal.getvalue()
