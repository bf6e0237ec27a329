"""What the demo shows: one function per question, each a small problem solved from scratch."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from droptics.cli.demo_page import Section
from droptics.data import Moments, Sample
from droptics.masks import Bernoulli, Block
from droptics.models import Connections, TwoLayerLinear
from droptics.optima import certify, optimum
from droptics.penalties import ClosedForm, Enumerate, MonteCarlo, criterion, penalty, risk
from droptics.plots import as_data_uri, as_png, bars, lines

INPUTS, OUTPUTS, WIDTH, EXAMPLES = 8, 5, 12, 400


def planted_sample(seed: int = 0) -> Sample:
    """Correlated inputs, a map with a decaying spectrum, a little noise."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    inputs = normal(EXAMPLES, INPUTS) @ (torch.eye(INPUTS).double() + 0.3 * normal(INPUTS, INPUTS))
    left, right = torch.linalg.qr(normal(OUTPUTS, OUTPUTS)).Q, torch.linalg.qr(normal(INPUTS, OUTPUTS)).Q
    spectrum = torch.diag(2.0 ** -torch.arange(OUTPUTS).double())
    return Sample(inputs, inputs @ right @ spectrum @ left.mT + 0.1 * normal(EXAMPLES, OUTPUTS))


def exact_penalty(out: Path) -> Section:
    """Closed form against all masks against random masks."""
    sample = planted_sample()
    generator = torch.Generator().manual_seed(1)
    U = torch.randn(OUTPUTS, WIDTH, generator=generator, dtype=torch.float64) / WIDTH**0.5
    V = torch.randn(INPUTS, WIDTH, generator=generator, dtype=torch.float64) / WIDTH**0.5
    network, masks = TwoLayerLinear(U, V), Bernoulli(0.5, WIDTH)
    rows = []
    for name, method in (("closed form", ClosedForm()), ("all masks", Enumerate()), ("random masks", MonteCarlo(1000))):
        start = time.perf_counter()
        estimate = penalty(network, sample, masks, method)
        spent = 1e3 * (time.perf_counter() - start)
        width = float(estimate.upper - estimate.lower) / 2
        error = f" ± {width:.2g}" if width else ""
        rows.append(f"{name:<13} {float(estimate):.12g}{error}   ({estimate.cost} evaluations, {spent:.1f} ms)")
    base = float(risk(network, sample))
    added = float(penalty(network, sample, masks)) / base
    rows.append(f"the loss without dropout is {base:.4g}: at rate 0.5 dropout adds {added:.0%} to it")
    rates = [i / 50 for i in range(1, 41)]
    curves = {
        "dropout": [float(penalty(network, sample, Bernoulli(rate, WIDTH))) for rate in rates],
        "DropBlock, blocks of 4": [float(penalty(network, sample, Block(rate, WIDTH, 4))) for rate in rates],
        "DropConnect": [float(penalty(Connections(U, V), sample, Bernoulli(rate, INPUTS * WIDTH))) for rate in rates],
    }
    picture = lines(rates, curves, xlabel="drop probability", ylabel="exact penalty", log="y")
    caption = "The same network under three schemes: what each adds to the squared loss, computed without sampling."
    return Section("What does dropout add to my loss?", rows, [(caption, as_data_uri(as_png(picture)))])


def global_optimum(out: Path) -> Section:
    """The best network of this width at several rates, with its certificate and spectrum."""
    moments = Moments.of_sample(planted_sample())
    rows, spectra = [], {}
    for rate in (0.0, 0.2, 0.5, 0.8):
        best = optimum(TwoLayerLinear, moments, Bernoulli(rate, WIDTH))
        assert isinstance(best.model, TwoLayerLinear)
        spectra[f"rate {rate}"] = torch.linalg.svdvals(best.model.matrix())[:OUTPUTS].tolist()
        rows.append(
            f"rate {rate}: least training loss {best.objective:.6f}, proved bound {best.bound:.6f}, "
            f"gap {max(best.gap, 0):.0e}, rank {best.rank}"
        )
    picture = bars(spectra, [str(i) for i in range(1, OUTPUTS + 1)], ylabel="singular value of the optimal map")
    caption = "Dropout shrinks and thresholds the spectrum of the best map: the higher the rate, the lower its rank."
    return Section(
        "What is the best any network of this width can do?", rows, [(caption, as_data_uri(as_png(picture)))]
    )


def trained_network(out: Path) -> Section:
    """Dropout training by chance and descent on the exact criterion, both measured against the certificate."""
    sample = planted_sample()
    moments, masks = Moments.of_sample(sample), Bernoulli(0.5, WIDTH)
    steps, every = 3000, 50
    curves: dict[str, list[float]] = {}
    rows = []
    for name, sampled in (("dropout, one random mask per step", True), ("the exact criterion, no randomness", False)):
        generator = torch.Generator().manual_seed(2)
        leaves = [
            (0.3 * torch.randn(size, WIDTH, generator=generator, dtype=torch.float64)).requires_grad_(True)
            for size in (OUTPUTS, INPUTS)
        ]
        optimizer = torch.optim.SGD(leaves, lr=0.02)
        gaps = []
        for step in range(steps + 1):
            network = TwoLayerLinear(leaves[0], leaves[1])
            if step % every == 0:
                frozen = TwoLayerLinear(leaves[0].detach(), leaves[1].detach())
                gaps.append(max(certify(frozen, moments, masks).gap, 1e-16))
            if sampled:
                errors = network.outputs(sample.inputs, masks.multipliers(1, generator)) - sample.targets
                loss = errors.square().sum(-1).mean()
            else:
                loss = criterion(network, moments, masks).value
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        curves[name] = gaps
        certificate = certify(TwoLayerLinear(leaves[0].detach(), leaves[1].detach()), moments, masks)
        rows.append(f"{name}: after {steps} steps {certificate.relative_gap:.2%} above the global optimum")
    picture = lines(
        [i * every for i in range(steps // every + 1)],
        curves,
        xlabel="steps",
        ylabel="certified gap to the global optimum",
        log="y",
    )
    caption = "The certificate says at every step how much any other weights could still gain."
    return Section("How far is a trained network from it?", rows, [(caption, as_data_uri(as_png(picture)))])


SECTIONS: dict[str, Callable[[Path], Section]] = {
    "exact penalty": exact_penalty,
    "global optimum": global_optimum,
    "certificate of training": trained_network,
}
