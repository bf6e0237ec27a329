"""What the claims on the bounds of chapter 5 compare: the calculators against the lemmas put together again."""

from __future__ import annotations

import math

from droptics.bounds import lazy, lazy_setting, martingale
from droptics.evidence.claims import Comparison, compare
from droptics.papers.instances import tensor
from droptics.papers.thesis.chapter5_checks import loss


def learning_terms(factor: float) -> list[Comparison]:
    """Theorem 14 put together from its lemmas against factor/4 of the calculator with printed constants.

    ||W_1 - U||^2/(eta T) <= lam^2/(eta T) (Lemma 12), twice the loss of the competitor, lam^2/(2 eta T) with
    probability 1 - delta (Lemma 13) and at most 2 c sqrt m always (Lemma 17), delta = 1/(4 eta c sqrt(m) T).
    """
    found = []
    for gamma, steps, rate, lam, c, m in (*_settings(), _setting(0.25, 10**6, 0.05)):
        delta = 1 / (4 * rate * c * math.sqrt(m) * steps)
        whole = lam**2 / (rate * steps) + 2 * (lam**2 / (2 * rate * steps) + delta * 2 * c * math.sqrt(m))
        stated = lazy(margin=gamma, steps=steps, inputs=784, drop=0.5, step_size=rate, printed=True).value
        printed = 4 * lam**2 / (rate * steps)
        found.append(compare(stated, "==", printed, f"the printed bound of the library, margin {gamma}", scale=0.0))
        found.append(compare(whole, "<=", factor / 4 * stated, f"margin {gamma}", precision=1e-12, scale=0.0))
    return found


def order() -> list[Comparison]:
    """Lam^2 at the least width is of the order (ln T)^2 + ln mdT, and not of that of ln T^2 + ln mdT.

    (a + b)^2 <= 2 a^2 + 2 b^2 with lam = 5/gamma ln(2 eta T) + sqrt(44/gamma^2 ln(24 eta c sqrt(m) T^2)), 24 eta c
    sqrt(m) T^2 <= (mdT)^2 and 2 eta <= T^0.4 give the constant 176/gamma^2.
    """
    found = []
    for gamma, exponent in ((0.25, 6), (0.25, 25), (0.1, 90)):
        _, _, rate, lam, _, m = _setting(gamma, 10**exponent)
        log = exponent * math.log(10)
        rest = math.log(m * 784) + log
        limit = 176 / gamma**2 * (log**2 + rest)
        found.append(compare(lam**2, "<=", limit, f"order of lam^2, margin {gamma}, T=10^{exponent}"))
        found.append(compare(2 * rate, "<=", math.exp(0.4 * log), "2 eta against T^0.4"))
    found.append(compare(lam**2, ">", 176 / gamma**2 * (2 * log + rest), "with ln T^2 for (ln T)^2, T=10^90"))
    for gamma, steps, rate, lam, _, m in _settings():
        ours = lazy_setting(gamma, steps, 784, step_size=rate)
        found.append(compare(ours.width, "==", m, f"least width of the library, margin {gamma}"))
        found.append(compare(ours.strength, "==", lam, f"lam of the library, margin {gamma}"))
    # few inputs, where 1 / (14 gamma^2) is the larger term of c, and a width that is given
    for gamma, steps, rate, inputs in ((0.25, 10, 0.2, 3), (0.01, 10**7, 0.6, 1)):
        _, _, _, lam, c, m = _setting(gamma, steps, rate, inputs)
        ours = lazy_setting(gamma, steps, inputs, step_size=rate)
        found.append(compare([ours.width, ours.strength], "==", [m, lam], f"width and lam, margin {gamma}", scale=0.0))
        found.append(compare(ours.radius, "==", c, f"c, margin {gamma}", scale=0.0))
        told = lazy_setting(gamma, steps, inputs, step_size=rate, width=3 * m).strength
        lam, _ = _lam_and_c(gamma, steps, rate, inputs, 3 * m)
        found.append(compare(told, "==", lam, f"lam at three times the least width, margin {gamma}", scale=0.0))
    _, _, _, _, _, least = _setting(0.5, 10, rate, 3)
    for share in (0.99, 1.01):
        width = int(share * least)
        value = lazy(margin=0.5, steps=10, inputs=3, drop=0.0, step_size=rate, width=width, printed=True).value
        lam, _ = _lam_and_c(0.5, 10, rate, 3, width)
        stated = 4 * lam**2 / (rate * 10) if share > 1 else math.inf
        found.append(compare(value, "==", stated, f"bound at {share} of the least width"))
    return found


def compression_terms(factor: float) -> list[Comparison]:
    """Theorem 15 from its lemmas: the fixed point of the martingale inequality against factor/12 of the print.

    At delta = .05, 1e-9 and 1/(2 eta c sqrt(m) T), half of which pays for Lemma 13, by the fixed point written out.
    """
    found = []
    deviation = 0.7 * math.log(1 / 0.05) + (math.e - 2) * 3.0 / 0.7
    found.append(compare(martingale(3.0, 0.7, confidence=0.95), "==", deviation, "Theorem 22 of the library"))
    for gamma, steps, rate, lam, c, m in (*_settings(), _setting(0.5, 1, 0.5, 1)):
        least = 1 / (2 * rate * c * math.sqrt(m) * steps)
        slopes = (2 * lam**2 / rate + math.log(2 / least) / math.log(2)) / (3 - math.e)
        mean = 2 * math.log(2) * slopes / steps
        limit = factor / 12 * (12 * lam**2 / (rate * steps) + 6 * math.log(1 / least) / steps)
        found.append(compare(mean, "<=", limit, f"least delta, margin {gamma}", precision=1e-12, scale=0.0))
    for (gamma, steps, rate, lam, _, _), failure in zip(_settings(), (0.05, 1e-9), strict=True):
        sum_of_slopes = visited_slopes(2 * lam**2 / rate, failure)
        sure = 1 - failure
        stated = lazy(
            margin=gamma, steps=steps, inputs=784, drop=0.5, printed=True, compression=True, confidence=sure
        ).value
        printed = 12 * lam**2 / (rate * steps) + 6 * math.log(1 / failure) / steps
        found.append(compare(stated, "==", printed, f"the printed bound of the library, margin {gamma}", scale=0.0))
        mean = 2 * math.log(2) * sum_of_slopes / steps
        found.append(compare(mean, "<=", factor / 12 * stated, f"margin {gamma}", precision=1e-12, scale=0.0))
    return found


def visited_slopes(losses: float, delta: float, ratio: float = 1.0) -> float:
    """The largest S = sum_t Q(W_t; B_t) with S <= losses + the deviation of Theorem 22, whose variance is S/ln 2.

    R of that theorem is `ratio`/ln 2, at least the largest difference 1/ln 2.
    """
    S = losses
    for _ in range(150):  # each brings it nearer by a factor of at most e-2
        S = losses + martingale(S / math.log(2), ratio / math.log(2), confidence=1 - delta)
    return S


def compression_constants(first: float, second: float, ratio: float = 1.0) -> list[Comparison]:
    """Factors of lam^2/(eta T) and of ln(1/delta)/T that the proof of Theorem 15 needs, from that fixed point.

    S = losses + ratio ln(1/delta)/ln 2 + (e-2) S/ratio for R = ratio/ln 2: they are 4 ln 2/(3-e) and 2/(3-e) for ratio
    1, 8 ln 2 and 8 (e-2) for 2 (e-2), where the second is least.
    """
    found, rest = [], 1 - (math.e - 2) / ratio
    for losses, delta in ((2.0, 0.01), (60.0, 0.3), (0.4, 1e-6)):
        alone, both = (2 * math.log(2) * visited_slopes(part, delta, ratio) for part in (0.0, losses))
        factor, other = 2 * (both - alone) / losses, alone / math.log(1 / delta)
        found.append(compare(factor, "<=", first, "factor of lam^2/(eta T)"))
        found.append(compare(other, "<=", second, "factor of ln(1/delta)/T"))
        found.append(compare(factor, "==", 4 * math.log(2) / rest, "4 ln 2/(1 - (e-2)/ratio)"))
        found.append(compare(other, "==", 2 * ratio / rest, "2 ratio/(1 - (e-2)/ratio)"))
    others = [2 * math.log(2) * visited_slopes(0.0, 0.1, 1 + step / 10) / math.log(10) for step in (0, 2, 4, 6, 12, 40)]
    return [*found, compare(others, ">=", 8 * (math.e - 2), "factor of ln(1/delta)/T for any R")]


def _setting(
    gamma: float, steps: int, rate: float = math.log(2), inputs: int = 784
) -> tuple[float, int, float, float, float, float]:
    """Margin, steps, rate (ln 2 is the largest), and lam, c and m by their own fixed point."""
    m = 1.0
    for _ in range(200):
        lam, c = _lam_and_c(gamma, steps, rate, inputs, m)
        m = 2401 * gamma**-6 * lam**2
    return gamma, steps, rate, lam, c, m


def _lam_and_c(gamma: float, steps: int, rate: float, inputs: int, m: float) -> tuple[float, float]:
    """Lam and c as printed, at a width m."""
    c = math.sqrt(inputs) + max(1 / (14 * gamma**2), 2 * math.sqrt(math.log(m))) + 1
    lam = 5 / gamma * math.log(2 * rate * steps)
    return lam + math.sqrt(44 / gamma**2 * (math.log(24 * rate * c * math.sqrt(m)) + 2 * math.log(steps))), c


def _settings() -> list[tuple[float, int, float, float, float, float]]:
    """Two margins with steps enough for a bound below one."""
    return [_setting(gamma, steps) for gamma, steps in ((0.25, 10**6), (0.1, 10**8))]


def lazy_is_vacuous(compression: bool) -> list[Comparison]:
    """At the margin of two MNIST digits one pass over the data and width 10^6 are far from enough."""
    bound = lazy(margin=0.05, steps=12_000, inputs=784, drop=0.5, compression=compression, printed=True)
    return [
        compare(bound.value, ">=", 1.0, "bound after one pass"),
        compare(bound.needed["width"], ">", 1e15, "width the theorem asks for"),
        compare(bound.needed["steps"], ">", 1e7, "steps the theorem asks for"),
    ]


def sharper(share: float) -> list[Comparison]:
    """(lam^2 + 2.45)/(eta T) and 4.93 (lam^2 + 1.45)/(eta T) + .. from the lemmas, the competitor's loss as proved.

    The competitor has score at least ln(2 eta T) in every step, so loss log2(1 + 1/(2 eta T)); the control halves the
    calculator's answer.
    """
    found = []
    others = [_setting(0.25, 10**6, 0.05), _setting(0.4, 10**4, 0.3), _setting(0.01, 10**9, 0.5)]
    for gamma, steps, rate, lam, c, m in (*_settings(), *others):
        competitor, label = float(loss(tensor(math.log(2 * rate * steps)))), f"margin {gamma}, rate {rate:.2g}"
        delta = 1 / (4 * rate * c * math.sqrt(m) * steps)
        whole = lam**2 / (rate * steps) + 2 * (competitor + delta * 2 * c * math.sqrt(m))
        ours = lazy(margin=gamma, steps=steps, inputs=784, drop=0.0, step_size=rate).value
        found.append(compare(whole, "<=", share * ours, f"learning, {label}", precision=1e-12, scale=0.0))
        found.append(compare(ours, "<=", 1.01 * whole, f"and hardly more, {label}", precision=1e-12, scale=0.0))
        stated = share * (lam**2 + 2.45) / (rate * steps)
        found.append(compare(whole, "<=", stated, f"stated, {label}", precision=1e-12, scale=0.0))
        found.append(compare(ours, "<=", stated, f"the calculator as stated, {label}", precision=1e-12, scale=0.0))
        losses, failure = lam**2 / rate + 2 * steps * competitor, 0.05 - delta
        slopes = visited_slopes(losses, failure)
        # S = losses + R ln(1/delta) + (e - 2) (S / ln 2) / R with R = 1 / ln 2
        solved = (losses + math.log(1 / failure) / math.log(2)) / (3 - math.e)
        found.append(compare(slopes, "==", solved, f"the fixed point, {label}"))
        ours = lazy(margin=gamma, steps=steps, inputs=784, drop=0.0, step_size=rate, compression=True).value
        mean = 2 * math.log(2) * solved / steps
        found.append(compare(mean, "<=", share * ours, f"compression, {label}", precision=1e-12, scale=0.0))
        stated = share * (4.93 * (lam**2 + 1.45) / rate + 7.10 * math.log(1 / failure)) / steps
        found.append(compare(mean, "<=", stated, f"stated compression, {label}", precision=1e-12, scale=0.0))
        found.append(compare(ours, "<=", 1.01 * mean, f"and hardly more, {label}", precision=1e-12, scale=0.0))
    for variance, largest, failure in ((3.0, 0.7, 0.05), (0.0, 2.0, 0.3), (1e4, 5.0, 1e-3)):
        told = martingale(variance, largest, confidence=1 - failure)
        wanted = largest * math.log(1 / failure) + (math.e - 2) * variance / largest
        found.append(compare(told, "==", wanted, f"deviation of a martingale, {variance}, {largest}"))
    return found
