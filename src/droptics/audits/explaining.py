"""Numbers in plain language: what they mean for this network and what to try."""

from __future__ import annotations

from typing import TYPE_CHECKING

from droptics.audits.discovery import Finding

if TYPE_CHECKING:
    from droptics.audits.report import Report, SiteReport

NETWORK = "the network"


def explain(report: Report) -> list[Finding]:
    """Findings about the whole network first, then about single sites."""
    found = [*_loss_gap(report)]
    if not report.sites:
        found.append(Finding("note", NETWORK, "no dropout was found in training mode", "nothing to do"))
    for site in report.sites:
        found += _site(site)
    return found


def _loss_gap(report: Report) -> list[Finding]:
    """Why is the training loss above the validation loss?"""
    if report.validation_loss is None:
        return []
    training, clean, validation = report.training_loss.value, report.clean_loss, report.validation_loss
    added = training - clean
    gap = training - validation
    if gap > 0 and added > 0:
        share = min(added / gap, 1.0)
        part = "all of it" if share == 1.0 else f"{share:.0%} of it"
        text = (
            f"training loss {training:.4g} is above validation loss {validation:.4g} by {gap:.4g}: dropout adds "
            f"{added:.4g} and explains {part}; without dropout the training loss is {clean:.4g}"
        )
        advice = "compare validation with the loss without dropout" if share > 0.5 else "look for another cause"
        return [Finding("note", NETWORK, text, advice)]
    if validation > clean:
        text = (
            f"validation loss {validation:.4g} is above the training loss without dropout {clean:.4g}: "
            f"a generalization gap of {validation - clean:.4g}, which the dropout in the training loss hides"
            if added > 0
            else f"validation loss {validation:.4g} is above the training loss {clean:.4g}"
        )
        return [Finding("note", NETWORK, text, "more data, a higher rate or a smaller network reduce it")]
    return []


def _site(report: SiteReport) -> list[Finding]:
    found, name = [], report.site.name
    if report.penalty is not None and report.penalty.upper < 0:
        text = f"dropout here lowers the loss by {-report.penalty.value:.3g}: the network relies on the noise"
        found.append(
            Finding("note", name, text, "possible for ReLU networks; a lower rate would raise the training loss")
        )
    if report.share is not None and report.penalty is not None and report.penalty.lower > 0:
        if report.share > 0.5:
            text = f"{report.share:.0%} of the training loss is the penalty of this site"
            found.append(Finding("warning", name, text, "try a lower rate"))
        elif report.share < 0.01:
            text = f"only {report.share:.1%} of the training loss: this site hardly regularizes"
            found.append(Finding("note", name, text, "a higher rate, or leave it out"))
    if report.units is not None and report.units.dead:
        text = f"{len(report.units.dead)} of {report.units.count} units are zero on all data"
        found.append(Finding("note", name, text, "a narrower layer does the same"))
    if report.rate_choice is not None and abs(report.rate_choice.best - report.site.rate) > 0.1:
        best = report.rate_choice.best
        text = f"for these features, leave-one-out error is least at rate {best:g}, not {report.site.rate:g}"
        found.append(Finding("note", name, text, f"rate {best:g}"))
    if report.subnetworks is not None and report.subnetworks.smallest is not None and report.units is not None:
        small, count = report.subnetworks.smallest, report.units.count
        if 0 < small < 0.5 * count:  # none at all: the accuracy is that of guessing
            text = f"{small} of {count} units keep the accuracy within {report.subnetworks.tolerance:.0%}"
            found.append(Finding("note", name, text, "export the smaller network"))
    return found
