"""`droptics warmup`: what is compiled once, compiled ahead of time."""

from __future__ import annotations

from collections.abc import Callable


def _audit() -> None:
    import torch
    from torch import nn

    from droptics.audits import audit

    network = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 5)).eval()
    audit(network, (torch.rand(256, 20), torch.arange(256) % 5), progress=False)


def _fit() -> None:
    from droptics.datasets import planted_ratings
    from droptics.recommenders import DropoutCompletion

    DropoutCompletion(width=10, sweeps=2, progress=False).fit(planted_ratings((60, 40, 600), rank=3, seed=0))


def _rank() -> None:
    from droptics.datasets import planted_ratings
    from droptics.recommenders import DropoutAutoencoder

    DropoutAutoencoder().fit(planted_ratings((60, 40, 600), rank=3, seed=0))


def _attack() -> None:
    import torch
    from torch import nn

    from droptics.attacks import Pgd, Threat, attack
    from droptics.data import Sample
    from droptics.losses import CrossEntropy

    network = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 5))
    attack(network, Sample(torch.rand(64, 20), torch.arange(64) % 5), Threat("linf", 0.1, (0, 1)), Pgd(CrossEntropy()))


def _train() -> None:
    import torch

    from droptics.data import Sample
    from droptics.masks import Bernoulli
    from droptics.models import TwoLayerLinear
    from droptics.training import Dropout, train

    inputs, ones = torch.rand(40, 8), torch.ones
    network = TwoLayerLinear(0.1 * ones(5, 12), 0.1 * ones(8, 12))
    objective = Dropout(Bernoulli(0.5, 12))
    train(network, Sample(inputs, inputs[:, :5]), objective, steps=10, step_size=0.01, batch_size=1)


def _optimum() -> None:
    import torch

    from droptics.data import Moments
    from droptics.equalization import equalize
    from droptics.masks import Bernoulli
    from droptics.models import TwoLayerLinear
    from droptics.optima import optimum

    moments, masks = Moments.of_map(torch.eye(5, 8).double()), Bernoulli(0.5, 12)
    equalize(optimum(TwoLayerLinear, moments, masks).model, moments, masks)


def _criterion() -> None:
    import torch

    from droptics.data import Sample
    from droptics.masks import Bernoulli
    from droptics.models import ReLUNet
    from droptics.penalties import criterion

    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(shape, generator=generator).double() for shape in ((6, 4), (2, 6))]
    criterion(ReLUNet(weights), Sample(torch.rand(10, 4).double(), torch.rand(10, 2).double()), Bernoulli(0.5, 10))


# First calls of a user, by the name of the question; benchmarks/bench_cold.py times the same ones in fresh processes.
FIRST: dict[str, Callable[[], None]] = {
    "audit": _audit,
    "fit": _fit,
    "rank": _rank,
    "attack": _attack,
    "train": _train,
    "optimum": _optimum,
    "criterion": _criterion,
}


def warmup_command() -> None:
    """Compile what is compiled once, so that the first question of the day is answered as fast as the second.

    Takes about a minute after an installation, and seconds from then on: what was compiled is kept beside the package,
    or in the folder of NUMBA_CACHE_DIR.
    """
    from tqdm import tqdm

    for call in tqdm(FIRST.values(), desc="warmup", unit="question", disable=None, leave=False):
        call()
