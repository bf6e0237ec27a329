"""A report for people: a table that fits a terminal, and one self-contained HTML page."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader

from droptics.files import write_text
from droptics.plots import as_data_uri, as_png, bars, lines
from droptics.terminal import Console, Table

if TYPE_CHECKING:
    from droptics.audits.measuring import Number
    from droptics.audits.report import Report, SiteReport

MOST_FINDINGS = 12


def terminal_text(report: Report, width: int = 110) -> str:
    """The summary: one row per site, then the findings, bugs first."""
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(f"{report.network} on {report.examples} examples, {report.loss} loss")
    console.print(
        f"loss without dropout {report.clean_loss:.6g}, with dropout {number_text(report.training_loss)}",
        highlight=False,
    )
    table = Table()
    for column in ("site", "kind", "rate", "penalty", "share", "how"):
        table.add_column(column, justify="right" if column in ("rate", "penalty", "share") else "left", overflow="fold")
    for site in report.sites:
        table.add_row(*site_row(site))
    if report.rest is not None:
        table.add_row("rest", "no switch reaches it", "", number_text(report.rest), "", report.rest.method)
    if report.interaction is not None and len(report.sites) > 1:
        table.add_row(
            "interaction", "all sites together", "", number_text(report.interaction), "", report.interaction.method
        )
    if report.sites:
        console.print(table)
    for found in report.findings[:MOST_FINDINGS]:
        console.print(f"{found.level:<8} {found.site}: {found.text}. Try: {found.advice}.", highlight=False)
    if len(report.findings) > MOST_FINDINGS:
        console.print(f"... and {len(report.findings) - MOST_FINDINGS} more findings in the JSON and HTML reports")
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return str(text).rstrip()


def site_row(report: SiteReport) -> tuple[str, str, str, str, str, str]:
    """Cells of the summary table."""
    site = report.site
    rate = rate_text(site.rate)
    if report.penalty is None:
        return site.name, site.kind, rate, "-", "-", site.reason or "not measured"
    share = "-" if report.share is None else f"{report.share:.1%}"
    return site.name, site.kind, rate, number_text(report.penalty), share, report.penalty.method


def rate_text(rate: float) -> str:
    """The rate of a site; what is found does drop, so that zero stands for a rate that cannot be seen."""
    return f"{rate:g}" if rate > 0 else "?"


def number_text(number: Number) -> str:
    """The value, with half the width of its interval where it has one."""
    half = (number.upper - number.lower) / 2
    return f"{number.value:.4g}" if half == 0 else f"{number.value:.4g} ± {half:.2g}"


def write_html(report: Report, path: Path) -> Path:
    """Render the page and put it in place in one step."""
    environment = Environment(loader=PackageLoader("droptics.audits"), autoescape=True, trim_blocks=True)
    environment.filters["number"] = number_text
    environment.filters["rate"] = rate_text
    page = environment.get_template("report.html.j2").render(
        report=report,
        overview=_overview(report),
        pictures={site.site.name: _pictures(site, report) for site in report.sites},
        json=report.to_json(),
    )
    write_text(path, page)
    return path


def _overview(report: Report) -> str | None:
    parts = {"no dropout": report.clean_loss}
    for site in report.sites:
        if site.penalty is not None:
            parts[site.site.name] = site.penalty.value
    if report.rest is not None:
        parts["rest"] = report.rest.value
    if report.interaction is not None and len(report.sites) > 1:
        parts["interaction"] = report.interaction.value
    if len(parts) < 2:
        return None
    picture = bars({"contribution to the training loss": list(parts.values())}, list(parts), ylabel="loss")
    for label in picture.axes[0].get_xticklabels():
        label.set(rotation=20, ha="right")
    return as_data_uri(as_png(picture))


def _pictures(site: SiteReport, report: Report) -> list[tuple[str, str]]:
    found = []
    if site.curve:
        rates = [point.rate for point in site.curve]
        losses = [point.training_loss for point in site.curve]
        half = [(point.penalty.upper - point.penalty.lower) / 2 for point in site.curve]
        band = ([a - b for a, b in zip(losses, half, strict=True)], [a + b for a, b in zip(losses, half, strict=True)])
        picture = lines(
            rates,
            {"predicted training loss": losses},
            xlabel="rate of this site",
            ylabel="training loss",
            bands={"predicted training loss": band},
            levels={"without any dropout": report.clean_loss},
        )
        found.append(("Training loss at other rates of this site, these weights, without retraining.", picture))
    if site.units is not None and site.units.flows:
        ordered = sorted(site.units.flows, reverse=True)
        picture = lines(
            range(1, len(ordered) + 1),
            {"flow": ordered},
            xlabel="unit, by flow",
            ylabel="what it carries to the output",
        )
        found.append(("Flows of the units. Flat: all units carry the same; steep: few carry everything.", picture))
    if site.spectrum is not None:
        labels = [str(i + 1) for i in range(len(site.spectrum.measured))]
        groups = {"this network": site.spectrum.measured, "dropout optimum": site.spectrum.optimal}
        picture = bars(groups, labels, ylabel="singular value of the predictions")
        found.append(("Spectrum of the predictions beside the one that is best for this rate and width.", picture))
    if site.rate_choice is not None:
        picture = lines(
            site.rate_choice.rates,
            {"leave-one-out error": site.rate_choice.errors},
            xlabel="rate",
            ylabel="exact leave-one-out error",
        )
        found.append(("Error of the refitted last layer on examples it has not seen, features fixed.", picture))
    return [(caption, as_data_uri(as_png(figure, 100))) for caption, figure in found]
