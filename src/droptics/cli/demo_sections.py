"""What the demo shows: one function per question, each a small problem solved from scratch."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from droptics.attacks import Pgd, Reflected, Threat, robustness_curve
from droptics.audits import audit
from droptics.cli.demo_page import Picture, Section, Slider
from droptics.data import Moments, Sample
from droptics.datasets import planted_ratings
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli, Block
from droptics.models import Connections, TwoLayerLinear
from droptics.optima import certify, optimum
from droptics.papers import claims, gallery, reproduce, verify
from droptics.penalties import ClosedForm, Enumerate, MonteCarlo, penalty, risk
from droptics.plots import as_data_uri, as_png, bars, lines
from droptics.recommenders import DropoutAutoencoder, DropoutCompletion, against_popularity, hold_out_users
from droptics.training import Dropout, Penalized, Recording, train

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


def curves_of(
    caption: str, places: Sequence[float], curves: Mapping[str, Sequence[float]], axes: tuple[str, str], log: str = ""
) -> Picture:
    """A picture of curves with its words: where each begins, is least and ends."""
    told = []
    for name, values in curves.items():
        least = min(range(len(values)), key=values.__getitem__)
        inside = f", least {values[least]:.3g} at {places[least]:g}" if 0 < least < len(values) - 1 else ""
        told.append(f"{name} from {values[0]:.3g} to {values[-1]:.3g}{inside}")
    text = f"{axes[1]} for {axes[0]} {places[0]:g} to {places[-1]:g}: {'; '.join(told)}."
    picture = lines(list(places), dict(curves), xlabel=axes[0], ylabel=axes[1], log=log)
    return Picture(caption, as_data_uri(as_png(picture)), text)


def exact_penalty(out: Path) -> Section:
    """Closed form against all masks against random masks."""
    sample = planted_sample()
    generator = torch.Generator().manual_seed(1)
    U, V = (torch.randn(n, WIDTH, generator=generator, dtype=torch.float64) / WIDTH**0.5 for n in (OUTPUTS, INPUTS))
    network, masks = TwoLayerLinear(U, V), Bernoulli(0.5, WIDTH)
    rows = []
    for name, method in (("closed form", ClosedForm()), ("all masks", Enumerate()), ("random masks", MonteCarlo(1000))):
        start = time.perf_counter()
        estimate = penalty(network, sample, masks, method)
        spent = 1e3 * (time.perf_counter() - start)
        width = float(estimate.upper - estimate.lower) / 2
        value = f"{float(estimate):.4g} ± {width:.2g}" if width else f"{float(estimate):.12g}"
        passes = "1 evaluation" if estimate.cost == 1 else f"{estimate.cost} evaluations"
        rows.append(f"{name:<13} {value}   ({passes}, {spent:.1f} ms)")
    base = float(risk(network, sample))
    added = float(penalty(network, sample, masks)) / base
    rows.append(f"the loss without dropout is {base:.4g}: at rate 0.5 dropout adds {added:.0%} to it")
    rates = [i / 50 for i in range(1, 41)]
    curves = {
        "dropout": [float(penalty(network, sample, Bernoulli(rate, WIDTH))) for rate in rates],
        "DropBlock, blocks of 4": [float(penalty(network, sample, Block(rate, WIDTH, 4))) for rate in rates],
        "DropConnect": [float(penalty(Connections(U, V), sample, Bernoulli(rate, INPUTS * WIDTH))) for rate in rates],
    }
    caption = "The same network under three schemes: what each adds to the squared loss, computed without sampling."
    pairs = zip(rates, curves["dropout"], strict=True)
    notes = [
        f"At rate {p:.2f} dropout adds {more:.4g} to a loss of {base:.4g}: {more / base:.0%}." for p, more in pairs
    ]
    shown = [curves_of(caption, rates, curves, ("drop probability", "exact penalty"), log="y")]
    slider = Slider(rates, curves, notes, start=rates.index(0.5))
    command = "droptics penalty weights.npz --data data.npz --drop 0.5"
    return Section("What does dropout add to my loss?", rows, shown, command=command, slider=slider)


def global_optimum(out: Path) -> Section:
    """The best network of this width at several rates, with its certificate and spectrum."""
    moments = Moments.of_sample(planted_sample())
    rows, spectra, notes = [], {}, []
    rates = [i / 50 for i in range(46)]
    found: dict[float, list[float]] = {}
    for rate in rates:
        best = optimum(TwoLayerLinear, moments, Bernoulli(rate, WIDTH))
        assert isinstance(best.model, TwoLayerLinear)
        values = torch.linalg.svdvals(best.model.matrix())[:OUTPUTS]
        found[rate] = values.where(values > 1e-12 * values[0], 0.0).tolist()
        notes.append(f"At rate {rate:.2f} the best map has rank {best.rank}; least training loss {best.objective:.4f}.")
        if rate in (0.0, 0.2, 0.5, 0.8):
            spectra[f"rate {rate}"] = found[rate]
            proof = f"proved bound {best.bound:.6f}, gap {max(best.gap, 0):.0e}"
            rows.append(f"rate {rate}: least training loss {best.objective:.6f}, {proof}, rank {best.rank}")
    picture = bars(spectra, [str(i) for i in range(1, OUTPUTS + 1)], ylabel="singular value of the optimal map")
    caption = "Dropout shrinks and thresholds the spectrum of the best map: the higher the rate, the lower its rank."
    text = "; ".join(f"{name}: {', '.join(f'{value:.3g}' for value in values)}" for name, values in spectra.items())
    series = {f"singular value {i + 1}": [found[rate][i] for rate in rates] for i in range(OUTPUTS)}
    shown = [Picture(caption, as_data_uri(as_png(picture)), f"Singular values of the best map. {text}.")]
    slider = Slider(rates, series, notes, start=rates.index(0.5))
    command = "droptics optimum --data data.npz --drop 0.5 --width 12"
    return Section("What is the best any network of this width can do?", rows, shown, command=command, slider=slider)


def trained_network(out: Path) -> Section:
    """Dropout training by chance and descent on the exact criterion, both measured against the certificate."""
    sample, masks = planted_sample(), Bernoulli(0.5, WIDTH)
    moments, steps = Moments.of_sample(sample), 1500
    generator = torch.Generator().manual_seed(2)
    U, V = (0.3 * torch.randn(size, WIDTH, generator=generator, dtype=torch.float64) for size in (OUTPUTS, INPUTS))
    ways = {"dropout, random masks": Dropout(masks), "the exact criterion, no randomness": Penalized(masks)}
    places = list(range(0, steps + 1, 50))
    record = Recording({"gap": lambda model: torch.tensor(certify(model, moments, masks).gap)}, at=places)
    curves: dict[str, list[float]] = {}
    rows = []
    for name, objective in ways.items():
        run = train(TwoLayerLinear(U, V), sample, objective, steps=steps, step_size=0.02, record=record)
        curves[name] = run.history["gap"].clamp_min(1e-16).tolist()
        certificate = certify(run.model, moments, masks)
        rows.append(f"{name}: after {steps} steps {certificate.relative_gap:.2%} above the global optimum")
    caption = "The certificate says at every step how much any other weights could still gain."
    shown = [curves_of(caption, places, curves, ("steps", "certified gap to the global optimum"), log="y")]
    command = "droptics optimum --data data.npz --drop 0.5 --width 12 --model weights.npz"
    return Section("How far is a trained network from it?", rows, shown, command=command)


def audited_network(out: Path) -> Section:
    """A small classifier on the digits of scikit-learn, trained for a moment and audited."""
    inputs, labels = digits()
    network, held_out = _trained_classifier(inputs[:1200], labels[:1200]), (inputs[1200:], labels[1200:])
    report = audit(network, (inputs[:1200], labels[:1200]), validation=held_out, progress=False)
    report.to_html(out / "audit.html")
    losses = f"{report.clean_loss:.3f}, with dropout {report.training_loss.value:.3f}"
    rows = [f"loss without dropout {losses}, on other digits {report.validation_loss:.3f}"]
    for item in report.sites:
        assert item.penalty is not None
        rows.append(f"site {item.site.name}, rate {item.site.rate:g}: adds {item.penalty.value:.4f} ({item.share:.0%})")
    rows += [f"{found.code}, {found.site}: {found.text}" for found in report.findings[:3]]
    links, command = [("The whole report", "audit.html")], "droptics audit package.module:factory --data data.npz"
    return Section("What is dropout doing to my network?", rows, links=links, command=command)


def digits() -> tuple[Tensor, Tensor]:
    """The 1797 small digits that come with scikit-learn, in 0..1."""
    from sklearn.datasets import load_digits  # loads rich, which draws from Python's generator

    found = load_digits()
    return torch.tensor(found.data, dtype=torch.float32) / 16, torch.tensor(found.target)


def _trained_classifier(inputs: Tensor, labels: Tensor) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first, second = (nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2)), (nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.5))
        network = nn.Sequential(*first, *second, nn.Linear(32, 10))
        optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
        for _ in range(15):
            for part in torch.randperm(len(inputs)).split(64):
                loss = nn.functional.cross_entropy(network(inputs[part]), labels[part])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return network.eval()


def recommendations(out: Path) -> Section:
    """Planted ratings: what new users will like, against popularity, and the error of predicted ratings by rate."""
    ratings = planted_ratings((600, 400, 30_000), rank=5, noise=0.8, seed=0)
    train, test = ratings.split(0.1, seed=0)
    rates = [0.2, 0.4, 0.6, 0.7, 0.8, 0.9]
    curves = {}
    start = time.perf_counter()
    for width in (10, 40):
        models = [DropoutCompletion(width=width, drop=rate, sweeps=10, progress=False).fit(train) for rate in rates]
        curves[f"width {width}"] = [-model.score(test) for model in models]
    spent = time.perf_counter() - start
    best = DropoutCompletion(width=40, progress=False).fit(train)
    rows = [
        f"{len(train)} ratings, {2 * len(rates)} models in {spent:.1f} s on this machine",
        f"width 40 at its default rate: test error {-best.score(test):.3f} (no predictor gets below 0.8)",
    ]
    tastes = planted_ratings((800, 200, 30_000), rank=4, noise=0.5, seed=0)
    split = hold_out_users(tastes.take((tastes.values >= 4).nonzero()[0]), share=0.2, seed=0)
    ranker = DropoutAutoencoder().fit(split.train)
    shares = against_popularity(ranker, split)
    found = {name: list(values.values()) for name, values in shares.items()}
    mine, theirs = shares["personal"][20], shares["popular"][20]
    rows.append(f"ranking for new users: of their hidden items the first 20 hold {mine:.0%} (popularity {theirs:.0%})")
    ranked = "Dropout on the inputs of an autoencoder, in closed form: what new users like, against what is popular."
    solved = "Dropout on the factors, solved by least squares without sampling: wider models want a higher rate."
    shown = [
        curves_of(ranked, list(shares["personal"]), found, ("length of the list", "share of hidden items found")),
        curves_of(solved, rates, curves, ("drop probability", "test RMSE")),
    ]
    return Section("Which items would they like?", rows, shown, command="droptics complete ratings.csv --rank")


def robustness(out: Path) -> Section:
    """Robust error of the digits classifier, raw gradients with and without the reflected loss."""
    inputs, labels = digits()
    network = _trained_classifier(inputs[:1200], labels[:1200])
    data = Sample(inputs[1200:], labels[1200:])
    radii = [0.1, 0.2, 0.4, 0.6, 0.8]
    curves = {}
    for name, loss in (("cross-entropy", CrossEntropy()), ("reflected", Reflected(CrossEntropy()))):
        method = Pgd(loss, steps=20, step=0.5, gradient="raw")
        curves[name] = robustness_curve(network, data, Threat("l2", radii[0], (0, 1)), method, radii)
    errors = zip(radii, *curves.values(), strict=True)
    rows = [f"radius {r}: error {a:.1%} (cross-entropy), {b:.1%} (reflected)" for r, a, b in errors]
    caption = "Raw gradients of a saturated loss vanish; reflected about the origin the loss keeps its slope."
    shown = [curves_of(caption, radii, curves, ("l2 radius", "robust error"))]
    command = "droptics attack model.pt --data images.npz --threat l2:0.5"
    return Section("How robust is a classifier?", rows, shown, command=command)


def evidence(out: Path) -> Section:
    """Statements of two papers, run on random instances, and some figures at smoke scale, in the gallery."""
    known = claims()
    chosen = [claim.id for claim in known if claim.paper in DEMO_PAPERS or claim.id in DEMO_CLAIMS]
    results = verify(chosen, run_on="processes")
    counts = ", ".join(f"{verdict}: {n}" for verdict, n in Counter(result.verdict for result in results).items())
    rows = [f"{len(results)} of the {len(known)} statements that droptics verify checks, by verdict: {counts}"]
    shown = {result.claim.id: result for result in results}
    rows += [f"{name}: {shown[name].verdict}. {shown[name].claim.statement}" for name in DEMO_CLAIMS]
    artifacts = reproduce(DEMO_FIGURES, scale="smoke", out=out / "figures", run_on="processes")
    page = gallery(artifacts, results, out / "gallery")
    rows.append(f"{len(artifacts)} figures computed again: {', '.join(artifact.figure.id for artifact in artifacts)}")
    links = [("The gallery of figures, claims and errata", page.resolve().relative_to(out.resolve()).as_posix())]
    command = "droptics verify, then droptics reproduce thesis-fig5-1"
    return Section("Are the theorems true, and can I have the figures?", rows, links=links, command=command)


DEMO_PAPERS = ("mianjy2018", "pal2020")
DEMO_CLAIMS = ("thesis-prop8", "mianjy2018-thm3.6", "pal2020-thm4.1", "pal2020-thm2.3")
DEMO_FIGURES = (
    *("mianjy2018-fig1", "mianjy2018-fig2", "thesis-fig3-3", "thesis-fig5-1", "thesis-fig6-1"),
    *("pal2020-fig1", "pal2020-fig5", "helmbold2017-fig2"),
)

# seconds that each takes on two cores, so that the time left is told from the first section on
SECTIONS: dict[str, tuple[Callable[[Path], Section], int]] = {
    "exact penalty": (exact_penalty, 1),
    "global optimum": (global_optimum, 1),
    "certificate of training": (trained_network, 3),
    "audit of a network": (audited_network, 4),
    "matrix completion": (recommendations, 4),
    "robustness": (robustness, 2),
    "claims and figures": (evidence, 50),
}
