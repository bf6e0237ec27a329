"""What the numbers of a report mean for this network, and what to try where a number supports it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from droptics.audits.findings import Remark, finding
from droptics.audits.report import Report

NETWORK = "the network"
CHAIN = "thesis-prop8"  # the claim of sites in a chain of linear layers
TAIL = "exact: affine tail"  # the method of sites in whose masks the outputs are affine


@finding("DR003", "note", "no dropout", asks=Report, evidence="no site in a training pass", mend="nothing to do")
def no_dropout(report: Report) -> Iterator[Remark]:
    """Nothing of the module drops in training mode."""
    if not report.sites:
        yield Remark(NETWORK, "no dropout was found in training mode")


@finding(
    "DR004",
    "bug",
    "loss is not finite",
    asks=Report,
    evidence="the loss without dropout, or the one with dropout",
    mend="look at the outputs and targets first: no number below can be trusted",
)
def not_finite(report: Report) -> Iterator[Remark]:
    """A loss of NaN or infinity makes every number of the report one."""
    for name, value in (("without", report.clean_loss), ("with", report.training_loss.value)):
        if not math.isfinite(value):
            yield Remark(NETWORK, f"the loss {name} dropout is {value}")
            return


@finding(
    "DR105",
    "warning",
    "rate that cannot matter",
    asks=Report,
    evidence="the loss with this site alone on equals the loss without dropout in every draw",
    mend="nothing that the loss sees follows this site: use its result, or remove it",
)
def cannot_matter(report: Report) -> Iterator[Remark]:
    """The site drops, but the loss is the same whatever falls: its result is not used, or is zero before it falls."""
    for item in report.sites:
        number = item.penalty
        if number is not None and item.site.rate > 0 and number.lower == number.value == number.upper == 0:
            text = f"drops at rate {item.site.rate:g}, and no mask changes the loss ({number.method})"
            yield Remark(item.site.name, text)


@finding(
    "DR501",
    "note",
    "training loss above validation loss",
    asks=Report,
    evidence="the lower end of the expected training loss against the loss without dropout and the validation loss",
    mend="compare validation with the loss without dropout",
)
def training_above_validation(report: Report) -> Iterator[Remark]:
    """Dropout is on in the training loss and off in the validation loss: how much of the difference is that?"""
    if not _above_validation(report):
        return
    training, clean, validation = report.training_loss.value, report.clean_loss, report.validation_loss
    assert validation is not None
    added, gap = training - clean, training - validation
    share = min(added / gap, 1.0)
    part = "all of it" if share == 1.0 else f"{share:.0%} of it"
    text = (
        f"training loss {training:.4g} is above validation loss {validation:.4g} by {gap:.4g}: dropout adds "
        f"{added:.4g} and explains {part}; without dropout the training loss is {clean:.4g}"
    )
    yield Remark(NETWORK, text, None if share > 0.5 else "look for another cause")


def _above_validation(report: Report) -> bool:
    """Whether the training loss is above the validation loss, and dropout adds to it, at all ends of its interval."""
    least = report.training_loss.lower
    return report.validation_loss is not None and least > report.validation_loss and least > report.clean_loss


@finding(
    "DR502",
    "note",
    "generalization gap",
    asks=Report,
    evidence="validation loss against the training loss without dropout",
    mend="compare rates by their validation losses, as tune_rates does; the training loss cannot tell which is better",
)
def generalization_gap(report: Report) -> Iterator[Remark]:
    """Dropout in the training loss hides how far the network does better on what it has seen."""
    validation, clean = report.validation_loss, report.clean_loss
    if validation is None or not validation > clean or _above_validation(report):
        return
    text = f"validation loss {validation:.4g} is above the training loss {clean:.4g} without dropout"
    if report.training_loss.lower > clean:
        text += f": a generalization gap of {validation - clean:.4g}, which the dropout in the training loss hides"
    yield Remark(NETWORK, text, f"compare rates with tune_rates: {_method(report)}")


def _method(report: Report) -> str:
    """How tune_rates compares rates of this network, as far as the report can tell."""
    if report.sites and all(item.claim == CHAIN for item in report.sites):
        return "the exact training loss of the linear chain, no copies are trained"
    copies = "copies that share their randomness, on validation data"
    if any(item.rate_choice is not None for item in report.sites):
        return f"exact leave-one-out where the last layer alone is trained, else {copies}"
    if report.sites and all(item.penalty is not None and item.penalty.method == TAIL for item in report.sites):
        return f"the exact training loss where the affine tail alone is trained, else {copies}"
    return copies


@finding(
    "DR503",
    "note",
    "noise that lowers the loss",
    asks=Report,
    evidence="the whole interval of the penalty lies below zero",
    mend="possible for ReLU networks; a lower rate would raise the training loss",
)
def noise_helps(report: Report) -> Iterator[Remark]:
    """The network does better with the noise of this site than without: it has come to rely on it."""
    for item in report.sites:
        if item.penalty is not None and item.penalty.upper < 0:
            text = f"dropout here lowers the loss by {-item.penalty.value:.3g}: the network relies on the noise"
            yield Remark(item.site.name, text)


@finding(
    "DR504",
    "note",
    "dead units",
    asks=Report,
    evidence="units of the site that are zero on all examples",
    mend="a narrower layer does the same",
)
def dead_units(report: Report) -> Iterator[Remark]:
    """Units that never fire cannot be dropped."""
    for item in report.sites:
        if item.units is not None and item.units.dead:
            text = f"{len(item.units.dead)} of {item.units.count} units are zero on all data"
            yield Remark(item.site.name, text)


@finding(
    "DR505",
    "note",
    "a better rate of the last layer",
    asks=Report,
    evidence="exact leave-one-out error of the refitted last layer, features fixed: that at the best rate lies below "
    "that at this rate by more than the interval of their difference over the examples",
    mend="train with the rate of least leave-one-out error and compare validation losses, as tune_rates does",
)
def leave_one_out_rate(report: Report) -> Iterator[Remark]:
    """Errors on examples that the refitted last layer has not seen are least at another rate."""
    for item in report.sites:
        choice = item.rate_choice
        if choice is None or choice.gain is None or choice.gain.lower <= 0:
            continue
        half = choice.gain.upper - choice.gain.value
        text = (
            f"for these features, leave-one-out error is {choice.gain.value:.3g} ± {half:.2g} lower at rate "
            f"{choice.best:g} than at rate {item.site.rate:g}"
        )
        advice = f"rate {choice.best:g}, by exact leave-one-out as in tune_rates; compare validation losses"
        yield Remark(item.site.name, text, advice)


@finding(
    "DR506",
    "note",
    "fewer units suffice",
    asks=Report,
    evidence="accuracy of sub-networks of the last layer, in a network that does better than the most frequent class",
    mend="export the smaller network, and judge it on other data",
)
def fewer_units(report: Report) -> Iterator[Remark]:
    """Some of the units do the work of all of them on this data."""
    for item in report.sites:
        found = item.subnetworks
        if found is None or found.smallest is None or item.units is None:
            continue
        # none at all, or no better than the most frequent class: the accuracy is that of guessing
        if 0 < found.smallest < 0.5 * item.units.count and found.full - found.tolerance > found.chance:
            text = f"{found.smallest} of {item.units.count} units keep the accuracy within {found.tolerance:.0%}"
            yield Remark(item.site.name, text)


@finding(
    "DR507",
    "note",
    "rate that hardly matters",
    asks=Report,
    evidence="penalties at all measured rates of the site, with the upper ends of their intervals",
    mend="leave it as it is: other rates have more to say",
)
def hardly_matters(report: Report) -> Iterator[Remark]:
    """No rate that was measured changes the training loss by as much as one percent."""
    training = report.training_loss.value
    for item in report.sites:
        numbers = [number for number in (item.penalty, *(point.penalty for point in item.curve)) if number is not None]
        if not item.curve or not training > 0 or all(number.value == 0 for number in numbers):
            continue
        most = max(max(abs(number.lower), abs(number.upper)) for number in numbers)
        if most < 0.01 * training:
            last = max(point.rate for point in item.curve)
            methods = ", ".join(dict.fromkeys(number.method for number in numbers))
            text = f"no rate up to {last:g} changes the training loss by more than {most / training:.2%} ({methods})"
            yield Remark(item.site.name, text)
