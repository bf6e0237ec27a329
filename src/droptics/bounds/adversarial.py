"""Adversarial training of two-layer leaky ReLU networks: how many iterations, how many attack steps, and for what."""

from __future__ import annotations

import math
from typing import Literal

from droptics.arguments import Amount, Count, ErrorRate, Size, SizeOrZero, Slope, check_arguments, renamed
from droptics.estimates import Bound

Statement = Literal["thm16", "cor4", "cor5"]
Constants = Literal["corrected", "printed", "printed beta"]


@renamed(rate="step_size")
def adversarial(  # parameters: the letters of the theorem
    statement: Statement = "thm16",
    *,
    data_radius: Size,
    margin: Size,
    radius: Amount,
    error: ErrorRate,
    slope: Slope = 1.0,
    width: Count = 1,
    top: Size | None = None,
    start_norm: Amount | None = None,
    beta: Size | None = None,
    step_size: Size | None = None,
    weight_norm: SizeOrZero | None = None,
    constants: Constants = "corrected",
) -> Bound:
    r"""Iterations after which adversarial training with the reflected loss has beta-robust error at most 2 error.

    f(x) = a^T s(W x), s(z) = max(alpha z, z), |a_r| = kappa for every r, ||W_1||_F <= omega, ||x|| <= R, the classes
    separated through the origin with margin gamma > nu, the radius of the attack. With step size eta at most
    1 / (m kappa^2 (R + nu)^2), that of the attack s = 1 / (kappa^2 m ||W_t||_F^2) and 8 nu^2 / (s error) attack steps

        T <= 64 (1 + omega gamma alpha kappa sqrt(m) eps / 4) / (eta (gamma - nu)^2 alpha^2 kappa^2 m eps^2)

    for every beta >= 4 nu (1 - alpha) kappa sqrt(m). "cor4" is the linear case alpha = 1, kappa = 1 / sqrt(m),
    omega = 1 / gamma, where beta = 0 is the robust error itself; "cor5" chooses kappa from a wanted beta.

    What was corrected: the printed threshold 2 nu (1 - alpha) kappa sqrt(m) is too small for the printed proof by a
    factor of two, because two points of one ball may be 2 nu apart; constants="printed beta" keeps it and pays with
    four times the iterations and twice the attack steps, more than the proof at thesis-lem18 asks for. The printed
    attack steps of "cor5" are the wrong way up. The printed iteration count holds only at the largest step size.

    What the statement does not say: a network of unit norm changes by at most kappa sqrt(m) nu inside the ball, so for
    slopes below 3/4 (1/2 with the printed threshold) only points that are misclassified without any attack can have
    beta-effective attacks. The guarantee is then one about the clean error alone and the bound reports itself vacuous.
    Cost: O(1).

    Args:
        statement: "thm16", "cor4" or "cor5".
        data_radius: R, the largest norm of an input.
        margin: gamma, the margin of the data.
        radius: nu, the l2 radius of the attack; smaller than the margin.
        error: eps; the guaranteed beta-robust error is 2 eps, in expectation.
        slope: alpha in (0, 1].
        width: m.
        top: kappa; 1 / sqrt(m) when None. Given by beta for "cor5".
        start_norm: omega; 1 / gamma when None.
        beta: The wanted beta, for "cor5" only.
        step_size: Of the training; the largest admissible one when None.
        weight_norm: ||W_t||_F at which step size and number of attack steps are given; omega when None.
        constants: "corrected", "printed", or "printed beta".

    Returns:
        The number of training iterations, with every step size, step count and threshold by name among the terms.
        Claims: thesis-thm16, thesis-cor4, thesis-cor5, thesis-cor5-corrected, thesis-lem18, thesis-lem19, thesis-eq6.7.
    """
    check_arguments(adversarial, locals())
    if not margin <= data_radius:
        raise ValueError(f"margin must be at most data_radius, got {margin} and {data_radius}")
    if not 0 <= radius < margin:
        why = "beyond it no linear classifier is robust and the theorem says nothing"
        raise ValueError(f"radius must be at least 0 and smaller than the margin {margin}, got {radius}: {why}")
    if statement == "cor4" and slope != 1:
        raise ValueError(f"slope must be 1 for 'cor4', the linear case, got {slope}")
    factor = 4.0 if constants == "corrected" else 2.0
    reach = _reach(statement, factor, radius, slope, beta, top, width)
    start = 1.0 / margin if start_norm is None else start_norm
    largest = 1.0 / (reach * (data_radius + radius)) ** 2
    if step_size is not None and not 0 < step_size <= largest * (1 + 1e-12):
        raise ValueError(f"step_size must lie in (0, {largest:.6g}], as the proof allows, got {step_size}")
    step = largest if step_size is None else step_size
    memory, gap = start * margin * slope * reach, (margin - radius) * slope
    if constants == "printed":  # for the largest step size, whatever the one that is taken
        growth = 2.0 if statement == "cor4" else 1 + memory * error
        iterations = 64 * (data_radius + radius) ** 2 * growth / (gap * error) ** 2
    else:  # Lemma 19 at a quarter of the error, or at an eighth with the smaller threshold
        small = error / (8 if constants == "printed beta" else 4)
        iterations = 4 * (1 + memory * small) / (step * (gap * reach * small) ** 2)
    norm = start if weight_norm is None else weight_norm
    speed = (reach * norm) ** 2
    effort = 16.0 if constants == "printed beta" else 8.0
    per_square = effort * (radius * reach) ** 2 / error  # attack steps per ||W_t||^2
    attack_steps = per_square * norm**2
    if statement == "cor5" and constants == "printed":
        attack_steps = 2 * (1 - slope) ** 2 / ((beta or 1.0) ** 2 * norm**2 * error) if norm > 0 else math.inf
    total = per_square * (iterations * start**2 + 1.5 * step * iterations * max(iterations - 1, 0))
    needed_slope = 0.75 if constants == "corrected" else 0.5
    corrected = statement == "cor5" and constants != "printed"
    return Bound(
        value=iterations,
        terms={
            "training_step_size": step,
            "attack_step_size": 1.0 / speed if speed > 0 else math.inf,
            "attack_steps": attack_steps,
            "total_attack_steps": total,
            "beta": factor * radius * (1 - slope) * reach,
            "top": reach / math.sqrt(width),
            "robust_error": 2 * error,
            "informative_slope": needed_slope,
        },
        claim=f"thesis-{statement}" + "-corrected" * corrected,
        trivial=math.inf if slope >= needed_slope else 0.0,
        needed={"slope": needed_slope},
    )


def _reach(  # parameters: the letters of the theorem
    statement: str, factor: float, radius: float, slope: float, beta: float | None, top: float | None, width: int
) -> float:
    """Kappa sqrt(m): by how much the score of a network of unit norm changes per unit of distance."""
    if statement != "cor5":
        if beta is not None:
            raise ValueError("beta is chosen only in 'cor5'; elsewhere it follows from radius, slope, top and width")
        if statement == "cor4" and top is not None and not math.isclose(top, width**-0.5):
            raise ValueError(f"top must be 1 / sqrt(width) = {width**-0.5:.6g} for 'cor4', got {top}")
        return 1.0 if top is None else top * math.sqrt(width)
    if top is not None:
        raise ValueError("top follows from beta in 'cor5'; leave it out")
    if beta is None:
        raise ValueError("beta must be given for 'cor5'")
    if slope == 1 or radius < 1e-18:
        raise ValueError("slope must be below 1 and radius at least 1e-18 for 'cor5'; use 'cor4', which needs no beta")
    return beta / (factor * radius * (1 - slope))
