"""The works whose statements and experiments droptics runs: `verify` their claims, `reproduce` their figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from tqdm import tqdm

from droptics.arguments import check_arguments
from droptics.compiling import uncollected
from droptics.datasets import DatasetMissing, cifar10, fashion_mnist, mnist, movielens
from droptics.evidence.claims import Claim, Result, decide, nearest, select
from droptics.evidence.engines import Done, Engine, Row, Task, engine
from droptics.evidence.figures import Artifact, Figure, Scale
from droptics.evidence.figures import reproduce as reproduce_figures
from droptics.evidence.gallery import build_gallery

with uncollected():  # they load torch, numba and three hundred modules
    from droptics.papers.droptics_own.claims import CLAIMS as OWN
    from droptics.papers.droptics_own.figures import FIGURES as OWN_FIGURES
    from droptics.papers.helmbold2017.claims import CLAIMS as HELMBOLD
    from droptics.papers.helmbold2017.figures import FIGURES as HELMBOLD_FIGURES
    from droptics.papers.mianjy2018.claims import CLAIMS as MIANJY
    from droptics.papers.mianjy2018.figures import FIGURES as MIANJY_FIGURES
    from droptics.papers.pal2020.claims import CLAIMS as PAL
    from droptics.papers.pal2020.figures import FIGURES as PAL_FIGURES
    from droptics.papers.printed import with_printed
    from droptics.papers.registry import Paper
    from droptics.papers.thesis.claims import CLAIMS as THESIS
    from droptics.papers.thesis.figures import FIGURES as THESIS_FIGURES

PAPERS: tuple[Paper, ...] = (
    Paper(
        "mianjy2018",
        "Implicit bias of dropout",
        "P. Mianjy, R. Arora, R. Vidal: On the Implicit Bias of Dropout. ICML 2018.",
        MIANJY,
        MIANJY_FIGURES,
    ),
    Paper(
        "thesis",
        "Thesis",
        "P. Mianjy: doctoral thesis on the regularization and robustness of deep learning.",
        THESIS,
        THESIS_FIGURES,
    ),
    Paper(
        "pal2020",
        "Structured dropout",
        "A. Pal, C. Lane, R. Vidal, B. D. Haeffele: On the Regularization Properties of Structured Dropout. CVPR 2020.",
        PAL,
        PAL_FIGURES,
    ),
    Paper(
        "helmbold2017",
        "Surprising properties",
        "D. P. Helmbold, P. M. Long: Surprising Properties of Dropout in Deep Networks. COLT 2017, JMLR 18.",
        HELMBOLD,
        HELMBOLD_FIGURES,
    ),
    Paper(
        "droptics",
        "Our own results",
        "Results of this library beyond the papers; each says how far it is proved.",
        OWN,
        OWN_FIGURES,
    ),
)


def claims() -> list[Claim]:
    """Every claim, in the order of the works."""
    return [claim for paper in PAPERS for claim in paper.claims]


def figures() -> list[Figure]:
    """Every figure and table, in the order of the works, each comparison with what is printed."""
    return [with_printed(figure) for paper in PAPERS for figure in paper.figures]


def verify(
    ids: Sequence[str] | str | None = None, paper: str | None = None, run_on: str | Engine = "local"
) -> list[Result]:
    """Run the claims with the given ids, of one paper, or all of them; a progress bar shows on a terminal.

    `run_on` is an engine or its name, as for `reproduce`.

    >>> [result.verdict for result in verify("pal2020-eq7")]
    ['holds']
    """
    check_arguments(verify, locals())
    wanted = [ids] if isinstance(ids, str) else ids
    chosen = {claim.id: claim for claim in select(claims(), wanted, paper)}
    runs = {name: claim.same_as if claim.same_as in chosen else name for name, claim in chosen.items()}
    tasks = [Task(name, decided, {"claim": name}) for name in dict.fromkeys(runs.values())]  # printed twice, run once
    shown = tqdm(_engine(run_on).run(tasks), total=len(tasks), unit="claim", desc="verify", disable=None, leave=False)
    found = {done.key: done for done in shown}
    return [_result(chosen[name], found[run]) for name, run in runs.items()]


def decided(claim: str) -> list[Row]:
    """The result of one claim as a row, without the claim, whose functions cannot leave the process."""
    (chosen,) = select(claims(), [claim], None)
    found = decide(chosen)
    return [{name: getattr(found, name) for name in ("verdict", "comparisons", "control", "seconds", "error")}]


def _result(claim: Claim, done: Done) -> Result:
    seconds = done.seconds if done.key == claim.id else 0.0
    known = {"verdict": "error", "error": done.error} if done.error else done.rows[0]
    return Result(claim, **{**known, "seconds": seconds})


def _engine(run_on: str | Engine) -> Engine:
    try:
        return engine(run_on) if isinstance(run_on, str) else run_on
    except ValueError as problem:
        raise ValueError(f"run_on: {problem}") from None


def reproduce(
    ids: Sequence[str] | str | None = None,
    scale: Scale = "smoke",
    out: str | Path = "droptics-out",
    run_on: str | Engine = "local",
    command: str = "",
) -> list[Artifact]:
    """Reproduce figures by id (all of them when None) into a folder; finished cells are never computed again.

    `run_on` is an engine or its name: local, processes, processes:N or dask://host:port.
    """
    check_arguments(reproduce, locals())
    table = {figure.id: figure for figure in figures()}
    wanted = list(table) if ids is None else [ids] if isinstance(ids, str) else list(ids)
    for name in wanted:
        if name not in table:
            raise ValueError(f"ids: no figure is called {name!r}; {nearest(name, list(table))}")
    return reproduce_figures([table[name] for name in wanted], scale, out, _engine(run_on), missing, command)


def gallery(artifacts: Sequence[Artifact], results: Sequence[Result], out: str | Path) -> Path:
    """Build the static site of figures and claims; returns its first page."""
    return build_gallery(artifacts, results, [paper.work for paper in PAPERS], out)


def missing(requirement: str) -> str:
    """Why a requirement of a figure is absent here; empty when it is there."""
    if requirement == "gpu":
        return "" if torch.cuda.is_available() else "needs a GPU, none is visible to torch here"
    readers: dict[str, Callable[[], object]] = {
        "mnist": lambda: mnist(split="test"),
        "fashion-mnist": lambda: fashion_mnist(split="test"),
        "cifar10": lambda: cifar10(split="test"),
        "ml-100k": lambda: movielens("ml-100k"),
        "ml-1m": lambda: movielens("ml-1m"),
        "ml-10m": lambda: movielens("ml-10m"),
    }
    if requirement not in readers:
        raise ValueError(f"unknown requirement {requirement!r}; known are gpu, {', '.join(readers)}")
    try:
        readers[requirement]()
    except DatasetMissing as absent:
        return str(absent)
    return ""
