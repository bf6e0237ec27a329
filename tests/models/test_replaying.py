"""Runs that begin where an earlier one was: what is kept, what runs again, and the names of what is left out."""

import pytest
import torch
from cases import normal
from compare import close
from torch import nn

from droptics.models import replaying
from droptics.models.replaying import Recording
from droptics.models.watching import watched


class Holder:
    """A result that is no tensor."""

    def __init__(self, value):
        self.value = value


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, value):
        self.calls += 1
        return Holder(2 * value)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 3).double(), nn.Linear(3, 2).double()
        self.drop, self.odd = nn.Dropout(0.5), Odd()

    def forward(self, inputs):
        hidden = self.drop(self.first(inputs))
        return self.second(self.drop(torch.tanh(hidden)) + self.odd(hidden).value)


def test_a_part_that_returns_an_object_runs_again():
    module, inputs, recording = Twice(), normal(4, 2), Recording()
    truth, _ = watched(module, lambda: module(inputs), lambda *_: 0.0, recording=recording)
    assert [entry.kept for entry in recording.entries[module.odd]] == [False]
    again, _ = watched(module, lambda: module(inputs), lambda *_: 0.0, replay=(recording, recording.places["drop@2"]))
    assert torch.equal(truth, again)
    assert module.odd.calls == 2
    assert Recording()._copied([inputs, Holder(inputs)]) == (None, False)


@pytest.mark.parametrize("place", ["drop", "drop@2"])
def test_the_second_call_of_a_layer_has_its_name_in_a_replay(place):
    """The names inside parts that are not run are taken, so that what follows is called as in a whole run."""
    module, inputs, recording = Twice(), normal(4, 2), Recording()
    _, trace = watched(module, lambda: module(inputs), lambda *_: 0.0, recording=recording)
    moment = recording.places[place]
    _, replayed = watched(module, lambda: module(inputs), lambda *_: 0.0, replay=(recording, moment))
    names = [call.site for call in trace.calls]
    assert names == ["drop", "drop@2"]
    assert [call.site for call in replayed.calls] == names[names.index(place) :]


class Thrice(nn.Module):
    """One layer that runs between places, before each of them and behind the last."""

    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Linear(3, 3).double(), nn.Dropout(0.5)

    def forward(self, inputs):
        for _ in range(3):
            inputs = torch.tanh(self.drop(self.layer(inputs)))
        return self.layer(inputs)


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_calls_behind_a_mask_run_again_whatever_they_returned_before(turn):
    """The layer ran behind every place in the recorded run too, where another mask was given: by hand, to the bit."""
    module, inputs, mask, recording = Thrice(), normal(4, 3), normal(4, 3, seed=1), Recording()
    name = ("drop", "drop@2", "drop@3")[turn]

    def switch(site, _):
        return (lambda _: mask) if site == name else 0.0

    with torch.no_grad():
        watched(module, lambda: module(inputs), lambda *_: 0.0, recording=recording)
        found, _ = watched(module, lambda: module(inputs), switch, replay=(recording, recording.places[name]))
        expected = inputs
        for number in range(3):
            expected = module.layer(expected)
            expected = torch.tanh(expected * mask if number == turn else expected)
        assert torch.equal(found, module.layer(expected))


class Pair(nn.Module):
    """A part that returns two tensors, one of them in a dictionary."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2).double()

    def forward(self, inputs):
        result = self.layer(inputs)
        return result, {"half": result / 2}


class Overwriting(nn.Module):
    """Writes over what its parts return, before and behind a place."""

    def __init__(self):
        super().__init__()
        self.first, self.pair, self.drop = nn.Linear(2, 3).double(), Pair(), nn.Dropout(0.5)

    def forward(self, inputs):
        hidden = self.first(inputs)
        hidden += 1
        whole, others = self.pair(hidden)
        others["half"] *= 3
        result = self.drop(whole.mul_(2))
        return result.add_(1) + others["half"].add_(result)


def test_a_module_that_writes_over_results_replays_what_they_were():
    """By hand, three times from one recording: neither the recorded run nor a replay changes what is kept."""
    module, inputs, mask, recording = Overwriting(), normal(4, 2), normal(4, 2, seed=1), Recording()

    def computed(given):
        whole = module.pair.layer(module.first(inputs) + 1)
        result = 2 * whole * given + 1
        return result + 3 * whole / 2 + result

    with torch.no_grad():
        truth, _ = watched(module, lambda: module(inputs), lambda *_: 0.0, recording=recording)
        close(truth, computed(torch.ones(4, 2)), 1e-14)
        replay = recording, recording.places["drop"]
        for _ in range(2):
            again, _ = watched(module, lambda: module(0 * inputs), lambda *_: 0.0, replay=replay)
            assert torch.equal(again, truth)
        found, _ = watched(module, lambda: module(0 * inputs), lambda *_: lambda _: mask, replay=replay)
        close(found, computed(mask), 1e-14)


class Deep(nn.Module):
    """A part with parts of its own before a place, and one around it."""

    def __init__(self):
        super().__init__()
        self.early = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
        self.late = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Linear(3, 2))

    def forward(self, inputs):
        return self.late(self.early(inputs))


def test_only_what_a_run_towards_a_site_asks_for_is_kept():
    module, inputs, calls = Deep().double(), normal(4, 2), []
    recording = Recording.towards(["late.1"])
    truth, _ = watched(module, lambda: module(inputs), lambda *_: 0.0, recording=recording)
    kept = {name for name, part in module.named_modules() if any(call.kept for call in recording.entries[part])}
    assert kept == {"early", "late.0"}
    whole = Recording()
    watched(module, lambda: module(inputs), lambda *_: 0.0, recording=whole)
    assert recording.places == whole.places
    assert recording.share("late.1") == whole.share("late.1")
    for part in (*module.early, *module.late):
        part.register_forward_hook(lambda part, *_: calls.append(part))
    replay = recording, recording.places["late.1"]
    again, _ = watched(module, lambda: module(normal(4, 2, seed=9)), lambda *_: 0.0, replay=replay)
    assert torch.equal(again, truth)
    assert calls == list(module.late)  # hooks of a part that returns an earlier result are called, its parts are not


@pytest.mark.parametrize("spare", [0, -1])
def test_results_are_kept_while_their_bytes_fit(spare, monkeypatch):
    values = normal(5, 3), [normal(4).float(), 2.0]  # 15 numbers of eight bytes, and four of four
    monkeypatch.setattr(replaying, "MOST_BYTES", 7 + 15 * 8 + 4 * 4 + spare)
    recording = Recording(size=7)
    copied, kept = recording._copied(values)
    assert (kept, recording.size) == ((True, 143) if spare == 0 else (False, 7))
    assert (copied is None) == (spare < 0)


def test_what_had_happened_by_a_moment_includes_the_moment():
    module, inputs, recording = Twice(), normal(4, 2), Recording()
    watched(module, lambda: module(inputs), lambda *_: 0.0, recording=recording)
    first, second = recording.places["drop"], recording.places["drop@2"]
    assert recording.before(first).places == {"drop": first}
    assert recording.before(second - 1).places == {"drop": first}
    assert recording.before(second).places == recording.places
