"""What modules write on themselves while they run is carried along by each copy, and gone afterwards."""

import pytest
import torch
from torch import nn
from tuned import data, seeded

from droptics.rates import Fit, tune_rates

FIT = Fit(epochs=3, batch_size=16, step_size=1e-2, looks=4)


class Centered(nn.Module):
    """Takes off a running mean: of a buffer that is written into or assigned, or of a plain attribute."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.first, self.drop, self.last = way, nn.Linear(7, 6), nn.Dropout(0.5), nn.Linear(6, 3)
        self.kept: dict[int, torch.Tensor] = {}
        if way == "attribute":
            self.mean = torch.zeros(6)
        else:
            self.register_buffer("mean", torch.zeros(6))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        units = self.first(inputs)
        self.kept[len(inputs)] = self.last_seen = units
        if self.training:
            mean = 0.5 * self.mean + 0.5 * units.detach().mean(0)
            if self.way == "written":
                self.mean.copy_(mean)
            else:
                self.mean = mean
        return self.last(self.drop((units - self.mean).relu()))


def losses(module: nn.Module, **options) -> list[float]:
    found = tune_rates(module, data(40, 1), data(30, 2), fit=FIT, scan=(0.0, 0.4), progress=False, **options)
    return [point.loss for point in found.points]


@pytest.mark.parametrize("way", ["assigned", "attribute"])
@pytest.mark.parametrize("population", ["auto", "apart"])
def test_running_means_are_those_of_a_buffer_that_is_written_into(way, population):
    # one by one a product of one copy may round otherwise than one of a population: 9 steps of float32
    assert losses(seeded(Centered(way)), population=population) == pytest.approx(
        losses(seeded(Centered("written"))), rel=1e-5
    )


@pytest.mark.parametrize("way", ["assigned", "attribute", "written"])
def test_modules_are_left_as_they_were(way):
    module = seeded(Centered(way))
    names, mean = set(vars(module)), module.mean
    first = losses(module)
    assert set(vars(module)) == names
    assert module.mean is mean
    assert not bool(mean.any())
    assert not module.kept
    assert losses(module) == first


class Wrapped(nn.Module):
    """Names its network as torch.compile does: masks go by names."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self._orig_mod = network

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self._orig_mod(inputs)


def test_compiled_modules_are_tuned_as_what_they_were_compiled_from():
    network = seeded(nn.Sequential(nn.Linear(7, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3)))
    assert losses(torch.compile(network, backend="eager")) == losses(Wrapped(network))


def test_networks_that_are_nan_from_the_start_round_like_their_copies():
    class Nothing(nn.Sequential):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return super().forward(inputs) * torch.nan

    module = seeded(Nothing(nn.Linear(7, 6), nn.Dropout(0.5), nn.Linear(6, 3)))
    found = tune_rates(module, data(40, 1), data(30, 2), fit=FIT, scan=(0.0, 0.4), progress=False)
    assert found.reason == "every copy diverged"
    assert not found.notes
