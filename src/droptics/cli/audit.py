"""`droptics audit`: what is dropout doing to my network?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from droptics.cli.options import Examples, LossName, State

if TYPE_CHECKING:
    from droptics.audits import Report, SiteReport


def audit_command(
    model: Annotated[
        str,
        typer.Argument(
            help="A module: a file of torch.export.save (.pt2) or torch.jit.save, or package.module:factory "
            "(a class or function that returns the module)."
        ),
    ],
    data: Examples,
    loss: LossName = None,
    state: State = None,
    validation: Annotated[Path | None, "Data of the same form: is training above validation, and why?"] = None,
    against: Annotated[Path | None, "A second state dict (or module file): shows what changed between the two."] = None,
    html: Annotated[Path | None, "Write the report as one HTML page."] = None,
    budget: Annotated[float, "Passes over the data that may be spent."] = 60,
    draws: Annotated[int | None, "Masks per batch for every sampled number, whatever they cost."] = None,
    batch_size: Annotated[int, "Examples at a time."] = 256,
    seed: Annotated[int, "Seed of the sampled masks."] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Find all dropout in a torch module and say what it does on this data.

    For every site: its rate, the penalty it adds to the loss (exact where the theory covers it, otherwise with an
    interval), its share of the training loss, what other rates would do; and the silent bugs people publish with:
    dropout that is active in evaluation mode, configured but never applied, applied at another rate, or recomputed
    with other masks. The exit status is 1 where the loss of the network is not a finite number.

    Example: droptics audit nets:classifier --state weights.safetensors --data test.npz --html report.html
    """
    import json
    import math

    from droptics.audits import audit
    from droptics.cli.files import read_examples
    from droptics.cli.modules import like_weights, load_module
    from droptics.files import check_target

    if html is not None:
        check_target(html, name="--html")

    def run(source: str, weights: Path | None) -> Report:
        network = load_module(source, weights)
        seen, held = (
            None if path is None else tuple(like_weights(network, part) for part in read_examples(path))
            for path in (data, validation)
        )
        effort = {"budget": budget, "draws": draws, "batch_size": batch_size, "seed": seed}
        return audit(network, seen, loss, validation=held, **effort)  # type: ignore[arg-type]

    report = run(model, state)
    other = None
    if against is not None:
        other = run(str(against), None) if state is None and ":" not in model else run(model, against)
    if html is not None:
        report.to_html(html)
    if as_json:
        content = report.to_dict()
        print(json.dumps(content if other is None else {"report": content, "against": other.to_dict()}))
    else:
        print(report.text(_width()))
        if other is not None:
            _show_changes(report, other)
        if html is not None:
            print(html.resolve())
    if not math.isfinite(report.clean_loss):
        raise typer.Exit(1)


def _width() -> int:
    """Letters a line: those of the terminal, a wide one for files and pipes."""
    import shutil
    import sys

    return max(30, min(140, shutil.get_terminal_size().columns)) if sys.stdout.isatty() else 110


def _show_changes(report: Report, other: Report) -> None:
    """One row per site: penalty, share and co-adaptation of both."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="this network against the other", title_justify="left")
    for column in ("site", "penalty", "other", "share", "other", "co-adaptation", "other"):
        table.add_column(column, justify="left" if column == "site" else "right")
    before = {item.site.name: item for item in other.sites}
    table.add_row("loss without dropout", f"{report.clean_loss:.4g}", f"{other.clean_loss:.4g}", "", "", "", "")
    for item in report.sites:
        pairs = zip(_cells(item), _cells(before.get(item.site.name)), strict=True)
        table.add_row(item.site.name, *(text for pair in pairs for text in pair))
    Console(markup=False, emoji=False).print(table)


def _cells(item: SiteReport | None) -> tuple[str, str, str]:
    if item is None:
        return "-", "-", "-"
    return (
        "-" if item.penalty is None else f"{item.penalty.value:.4g}",
        "-" if item.share is None else f"{item.share:.1%}",
        "-" if item.units is None or not item.units.flows else f"{item.units.coadaptation:.3f}",
    )
