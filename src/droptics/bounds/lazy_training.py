"""Learning and compression by dropout in the lazy regime: step size, width by its fixed point, iterations."""

from __future__ import annotations

import math
from dataclasses import dataclass

from droptics.arguments import Count, DropRate, Extended, Probability, Size, check_arguments, renamed
from droptics.bounds.classical import crossing
from droptics.bounds.margins import linear_margin
from droptics.checks import as_drop
from droptics.data import Sample
from droptics.estimates import Bound
from droptics.models import ReLUNet

LARGEST_STEP = math.log(2)


@dataclass(frozen=True)
class LazySetting:
    """The quantities of thesis-thm14 at given margin, steps, inputs, step size and width.

    Attributes:
        strength: lambda = (5 / gamma) ln(2 eta T) + sqrt(44 gamma^-2 ln(24 eta c sqrt(m) T^2)).
        radius: The max-norm c = sqrt(d) + max(1 / (14 gamma^2), 2 sqrt(ln m)) + 1 of every row.
        width: The width m.
        needed_width: 2401 gamma^-6 lambda^2; the statements hold for m at least this large.
        drift: 7 lambda / (2 gamma sqrt(m)), how far any row moves from its start (thesis-lem13).
    """

    strength: float
    radius: float
    width: float
    needed_width: float
    drift: float


@renamed(rate="step_size")
def lazy_setting(
    margin: Size, steps: Extended, inputs: Count, *, step_size: Size = LARGEST_STEP, width: Extended | None = None
) -> LazySetting:
    """Evaluate lambda, c and the width condition; without `width`, at the least admissible width (thesis-thm14).

    The width condition m >= 2401 gamma^-6 lambda(m)^2 contains m on both sides: its right-hand side grows like
    ln m, so iterating it from m = 1 climbs to the least solution (fewer than 20 steps to rounding). Cost: O(1).
    """
    check_arguments(lazy_setting, locals())
    if not 0 < margin <= 0.5:
        raise ValueError(f"margin must lie in (0, 1/2], got {margin}")
    if not 0 < step_size <= LARGEST_STEP:
        raise ValueError(f"step_size must lie in (0, ln 2] (base-2 logistic loss), got {step_size}")
    if not 2 * step_size * steps >= 1:
        raise ValueError(f"steps must be at least 1 / (2 step_size) = {1 / (2 * step_size):.4g}, got {steps}")
    if width is not None:
        return _at_width(margin, steps, inputs, step_size, width)
    current = 1.0
    for _ in range(200):
        following = _at_width(margin, steps, inputs, step_size, current).needed_width
        if following <= current * (1 + 1e-14):
            break
        current = following
    return _at_width(margin, steps, inputs, step_size, current)


@renamed(rate="step_size")
def lazy(  # parameters: the letters of the theorem, or data to read them from
    model: ReLUNet | None = None,
    data: Sample | None = None,
    *,
    margin: Size | None = None,
    steps: Count | None = None,
    inputs: Count | None = None,
    width: Count | None = None,
    drop: DropRate = 0.5,
    step_size: Size = LARGEST_STEP,
    compression: bool = False,
    confidence: Probability = 0.95,
    printed: bool = False,
) -> Bound:
    """Mean misclassification over the iterates of dropout training in the lazy regime.

    Two-layer ReLU networks with fixed +-1 top layer, inputs of unit norm, logistic loss in base 2, `step_size`
    eta <= ln 2 (the same algorithm as natural logarithm with eta / ln 2), margin gamma <= (1 - drop) / 2, T = `steps`:

        learning    (full network, expectation over init, samples and masks)   (lambda^2 + 2.45) / (eta T)
        compression (the visited sub-networks, with probability `confidence`)
                    4.93 (lambda^2 + 1.45) / (eta T) + 7.10 ln(1/delta) / T

    thesis-thm14 and thesis-thm15; the printed constants 4 lambda^2 / (eta T) and 12 lambda^2 / (eta T) +
    6 ln(1/delta) / T with `printed=True`. For compression the confidence pays for 1 / (4 eta c sqrt(m) T) as well.
    Without `width` the least admissible one is taken; below it no statement holds and the value is infinite. `needed`
    gives the steps at which the bound falls below 1 and the width these ask for. A model and data (labels +-1) supply
    width, inputs, steps (one pass) and the linear margin times (1 - drop) / 2.
    Cost: O(1) from numbers; from data that of `linear_margin` and one pass.
    """
    check_arguments(lazy, locals())
    keep = 1 - float(as_drop(drop))
    if model is not None and width is None:
        width = model.weights[0].shape[-2]
    if data is not None:
        inputs = data.inputs.shape[1] if inputs is None else inputs
        steps = len(data) if steps is None else steps
        margin = keep * max(linear_margin(data), 0.0) / 2 if margin is None else margin
    if margin is None or steps is None or inputs is None:
        raise ValueError("lazy needs data, or the numbers margin, steps and inputs")
    claim = "thesis-thm15" if compression else "thesis-thm14"
    if margin == 0:  # not separable: the assumption fails and no number of steps or units helps
        return Bound(math.inf, {"margin": 0.0}, claim, 1.0, {"steps": math.inf, "width": math.inf})
    if margin > keep / 2:
        raise ValueError(f"margin cannot exceed (1 - drop) / 2 = {keep / 2}, got {margin}")

    def terms_at(count: float, units: float | None) -> dict[str, float]:
        setting = lazy_setting(margin, count, inputs, step_size=step_size, width=units)
        if setting.width < setting.needed_width * (1 - 1e-9):
            return {"width below the required one": math.inf}
        if not compression:
            return _learning(setting, step_size * count, printed)
        return _compression(setting, step_size * count, count, 1.0 - float(confidence), printed)

    terms = terms_at(steps, width)
    enough = crossing(lambda count: sum(terms_at(count, None).values()), 1.0, 1 / step_size)
    needed = {"steps": enough, "width": lazy_setting(margin, enough, inputs, step_size=step_size).width}
    return Bound(sum(terms.values()), terms, claim, 1.0, needed)


def active_units(
    width: Count, drop: DropRate, steps: Count, *, confidence: Probability = 0.95, printed: bool = False
) -> float:
    """The most active units of any visited sub-network: q m + sqrt(m ln(T/delta) / 2) with q = 1 - drop, at most m.

    Hoeffding and a union bound over the T steps; the thesis prints sqrt(2 m ln(T/delta)), twice as much.
    Cost: O(1). Claim: thesis-sec5.3-active.
    """
    check_arguments(active_units, locals())
    logarithm = math.log(steps / (1.0 - float(confidence)))
    spread = 2 * width * logarithm if printed else width * logarithm / 2
    return min(float(width), (1 - float(as_drop(drop))) * width + math.sqrt(spread))


def initial_norm(width: Count, inputs: Count) -> float:
    """sqrt(d) + 2 sqrt(ln m), which no row of a standard Gaussian start exceeds with probability 1 - 1/m.

    Conditions: width m >= 1, rows independent. Cost: O(1). Claim: thesis-sec5.3-corrected.
    """
    check_arguments(initial_norm, locals())
    return math.sqrt(inputs) + 2 * math.sqrt(math.log(width))


def _learning(setting: LazySetting, scale: float, printed: bool) -> dict[str, float]:
    if printed:
        return {"distance": 4 * setting.strength**2 / scale}
    return {"distance": setting.strength**2 / scale, "competitor loss": (1 / math.log(2) + 1) / scale}


def _compression(setting: LazySetting, scale: float, steps: float, failure: float, printed: bool) -> dict[str, float]:
    if printed:
        return {"distance": 12 * setting.strength**2 / scale, "confidence": 6 * math.log(1 / failure) / steps}
    spent = 1 / (4 * scale * setting.radius * math.sqrt(setting.width))
    if spent >= failure:
        return {"confidence not reachable at this width and number of steps": math.inf}
    factor = 2 / (3 - math.e)
    return {
        "distance": factor * math.log(2) * setting.strength**2 / scale,
        "competitor loss": factor / scale,
        "confidence": factor * math.log(1 / (failure - spent)) / steps,
    }


def _at_width(margin: float, steps: float, inputs: int, step_size: float, width: float) -> LazySetting:
    radius = math.sqrt(inputs) + max(1 / (14 * margin**2), 2 * math.sqrt(math.log(max(width, 1.0)))) + 1
    inner = math.log(24 * step_size * radius) + math.log(max(width, 1.0)) / 2 + 2 * math.log(steps)
    strength = 5 / margin * math.log(2 * step_size * steps) + math.sqrt(44 * max(inner, 0.0)) / margin
    drift = 7 * strength / (2 * margin * math.sqrt(max(width, 1.0)))
    return LazySetting(strength, radius, width, 2401 * margin**-6 * strength**2, drift)
