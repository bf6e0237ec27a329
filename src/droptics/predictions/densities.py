r"""The exact density of one observed output: masked prediction plus normal noise (droptics-predictive-density).

Given the early masks the output is a sum of independent terms, so that its characteristic function is a product; with
noise of standard deviation s the density is

    (1/pi) int_0^inf Re[ e^(-i theta y) sum_a pi_a e^(i theta c_a) prod_j phi_j(theta) ] e^(-theta^2 s^2 / 2) d theta,

by the trapezoid rule, whose error is the mass outside one period: with a period of the whole range plus 18 s it is
below rounding. The same coefficients give the distribution function, hence quantiles and coverage.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.checks import as_float_tensor, check_probability
from droptics.masks import MaskLaw
from droptics.predictions.affine import Affine
from droptics.predictions.mixtures import Outcome
from droptics.predictions.transforms import LISTED, Transform, angle_counts, extent, list_masks, mixed, transform

Outcomes = Callable[[], Iterator[Outcome]]
# Standard deviations of the noise that a period leaves on either side of the range.
MARGIN = 9.0
# Densities below this share of the noise's own peak are computed again, tilted towards the observation.
SMALL = 1e-3
# A sum this far below its terms has lost a fourth of its digits.
KEPT = 1e-4
MOST_ANGLES = 2**16
# Complex numbers in one table.
CHUNK_ELEMENTS = 2**20


@dataclass(frozen=True, eq=False)
class Density:
    """Distribution of y = f(x; z) + noise, for every example and output on its own.

    Attributes:
        coefficients: Fourier coefficients relative to `low`, (examples, outputs, angles).
        low: Left end of a period, (examples, outputs); the density vanishes there.
        width: Length of a period.
        noise: Standard deviation of the noise, (examples, outputs).
    """

    coefficients: Tensor
    low: Tensor
    width: Tensor
    noise: Tensor

    @staticmethod
    def of(outcomes: Outcomes, noise: float | Tensor) -> Density:
        """Coefficients of a mixture of outputs; `noise` is one number, or broadcasts against (examples, outputs)."""
        return Spectrum.of(outcomes, noise, noise).density(noise)

    def pdf(self, values: Tensor) -> Tensor:
        """Density at values (..., examples, outputs); zero outside the period."""
        phases = torch.exp(-1j * self._turns * (values.double() - self.low).unsqueeze(-1))
        terms = (phases * self.coefficients).real
        inside = (values >= self.low) & (values <= self.low + self.width)
        return torch.where(inside, (2 * terms.sum(-1) - terms[..., 0]) / self.width, 0.0)

    def cdf(self, values: Tensor) -> Tensor:
        """Probability of an observation below values (..., examples, outputs)."""
        inside = torch.minimum(torch.maximum(values.double(), self.low), self.low + self.width)
        moved = (inside - self.low).unsqueeze(-1)
        angles = self._turns[..., 1:]
        # integral of the series from the left end
        terms = ((torch.exp(-1j * angles * moved) - 1) / (-1j * angles) * self.coefficients[..., 1:]).real
        return ((moved[..., 0] + 2 * terms.sum(-1)) / self.width).clamp(0, 1)

    def cdf_table(self, least: int = 512) -> tuple[Tensor, Tensor]:
        """Values over the period and the distribution function there, (points, examples, outputs), by one FFT."""
        count = self.coefficients.shape[-1]
        points = max(least, 2 ** math.ceil(math.log2(count + 1)))
        slopes = self.coefficients[..., 1:] / (-1j * self._turns[..., 1:])
        padded = torch.nn.functional.pad(slopes, (1, points - count))
        waves = torch.fft.fft(padded).real - slopes.real.sum(-1, keepdim=True)
        shares = torch.arange(points, device=self.low.device) / points
        table = (shares + 2 * waves / self.width[..., None]).clamp(0, 1)
        values = self.low[..., None] + self.width[..., None] * shares
        return values.movedim(-1, 0), table.movedim(-1, 0)

    def quantile(self, level: float | Tensor) -> Tensor:
        """The value below which an observation falls with probability `level`, (examples, outputs); by bisection."""
        wanted = torch.as_tensor(level, dtype=torch.float64, device=self.low.device).expand(self.low.shape)
        if not bool(((wanted > 0) & (wanted < 1)).all()):
            raise ValueError(f"level must lie strictly between 0 and 1, got {level}")
        low, high = self.low, self.low + self.width
        for _ in range(60):
            middle = (low + high) / 2
            below = self.cdf(middle) < wanted
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return (low + high) / 2

    @property
    def _turns(self) -> Tensor:
        return _angles(self.width, self.coefficients.shape[-1])


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Fourier coefficients without noise, on a period and up to angles that serve every noise between two.

    The expensive part of a density; the noise multiplies it by a Gaussian, so that many can be tried.
    """

    coefficients: Tensor
    low: Tensor
    width: Tensor

    @staticmethod
    def of(outcomes: Outcomes, least: float | Tensor, most: float | Tensor, about: Tensor | None = None) -> Spectrum:
        """Sum over the mixture; cost units angles per early mask, example and output.

        Where the density is wanted `about` one value of every output only, the period starts there and need not hold
        the whole range: nothing may lie one period to either side.
        """
        outcomes = _once(outcomes)
        _, first = next(outcomes())
        shape = first.center.shape[1:]
        narrow, wide = (_noise(value).detach().to(first.center.device).expand(shape) for value in (least, most))
        low, high = _range(outcomes, shape)
        if about is None:
            low = low - MARGIN * wide
            width = high - low + MARGIN * wide
        else:
            # further out the density vanishes
            about = torch.minimum(torch.maximum(about, low - MARGIN * wide), high + MARGIN * wide)
            width = torch.maximum(high - about, about - low) + MARGIN * wide
            low = about
        counts = angle_counts(width / narrow)
        count = int(counts.max())
        if count > MOST_ANGLES:
            raise ValueError(
                f"noise is {float(narrow.min()):.3g}, so small against outputs of range {float(width.max()):.3g} that "
                f"the density needs {count} angles; pass the standard deviation of the observations"
            )
        angles = _angles(width, count)
        total = torch.zeros((), dtype=torch.complex128, device=width.device)
        for chances, outputs in outcomes():
            for weight, some in _pieces(chances, outputs, count):
                total = total + _mixed(weight, some, low, angles, counts)
        return Spectrum(total, low, width)

    def density(self, noise: float | Tensor) -> Density:
        """The density with this noise."""
        spread = _noise(noise).to(self.low.device).expand(self.low.shape)
        angles = _angles(self.width, self.coefficients.shape[-1])
        smooth = torch.exp(-0.5 * (angles * spread[..., None]).square())
        return Density(self.coefficients * smooth, self.low, self.width, spread)


def _once(outcomes: Outcomes) -> Outcomes:
    """The mixture, kept where it comes in one part and not computed again."""
    parts = list(itertools.islice(outcomes(), 2))
    return outcomes if len(parts) > 1 else lambda: iter(parts)


def _angles(width: Tensor, count: int) -> Tensor:
    return 2 * math.pi / width[..., None] * torch.arange(count, device=width.device)


def _range(outcomes: Outcomes, shape: torch.Size) -> tuple[Tensor, Tensor]:
    """Smallest and largest output under any mask, (examples, outputs)."""
    lows, highs = [], []
    with torch.no_grad():
        for _, outputs in outcomes():
            below, above = _extent(outputs)
            lows.append(below.amin(0))
            highs.append(above.amax(0))
    return torch.stack(lows).amin(0).expand(shape), torch.stack(highs).amax(0).expand(shape)


def log_density(outcomes: Outcomes, targets: Tensor, noise: float | Tensor) -> Tensor:
    """Log density of every target on its own, (examples, outputs), float64.

    Where the density is so small that rounding reaches it, the distribution is tilted until the target is its mean and
    summed again: the logarithm keeps its digits however far out the target lies. In a gap between outputs that lie many
    deviations of the noise apart no tilt helps: there the normal densities around all outputs are added up in
    logarithms, where masks can be listed (at most 4096 for the last layer); else only the density itself is exact.
    """
    outcomes = _once(outcomes)
    _, first = next(outcomes())
    wanted = as_float_tensor(targets, "targets").double().to(first.center.device)
    if wanted.shape != first.center.shape[1:]:
        raise ValueError(f"targets have shape {tuple(wanted.shape)} but the outputs {tuple(first.center.shape[1:])}")
    density = Spectrum.of(outcomes, noise, noise, wanted).density(noise)
    values = density.pdf(density.low)
    small = values.detach() < SMALL / (math.sqrt(2 * math.pi) * density.noise.detach())
    result = torch.where(small, 1.0, values).log()
    if bool(small.any()):
        rows = small.any(-1).nonzero().squeeze(-1)
        some, known, noise = (lambda: _of_examples(outcomes(), rows)), wanted[rows], density.noise[rows]
        again, kept = _tilted(some, known, noise)
        if not bool((kept | ~small[rows]).all()) and _can_be_listed(some):
            again = torch.where(kept, again, _listed(some, known, noise))
        result = result.index_put((rows,), torch.where(small[rows], again, result[rows]))
    return result


def _tilted(outcomes: Outcomes, targets: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Log density at the target by the saddle point's contour, K(t) - t y + log of the tilted density at y.

    Also returns where that density is far above the rounding of the sum, as it is outside of the range of the outputs.
    """
    with torch.no_grad():
        tilt = _saddle(outcomes, targets, noise)
        low, high = _range(outcomes, targets.shape)
        # the tilted noise is centered at t s^2; the period covers it and the target
        center = tilt * noise.square()
        left = torch.minimum(low + center, targets) - MARGIN * noise
        width = torch.maximum(high + center, targets) + MARGIN * noise - left
        count = min(int(angle_counts(width / noise).max()), MOST_ANGLES)
        angles = _angles(width, count)
    peak = _cumulant(outcomes, tilt, noise)
    total = torch.zeros((), dtype=torch.complex128, device=noise.device)
    for chances, outputs in outcomes():
        for weight, some in _pieces(chances, outputs, count):
            value, logarithm = _transforms(some, angles, tilt.expand_as(some.center))
            moved = some.center.double()
            share = torch.exp(logarithm + tilt * moved + 0.5 * (tilt * noise).square() - peak)
            phase = torch.exp(1j * angles * (moved + center - targets).unsqueeze(-1))
            total = total + torch.tensordot(weight.to(value), value * phase * share.unsqueeze(-1), dims=1)
    terms = (total * torch.exp(-0.5 * (angles * noise[..., None]).square())).real
    density = (2 * terms.sum(-1) - terms[..., 0]) / width
    kept = density.detach() * width > KEPT * terms.detach().abs().sum(-1)
    kept |= (targets < low) | (targets > high)  # no gap: the tilt reaches the nearest output
    return peak - tilt * targets + density.clamp_min(torch.finfo(torch.float64).tiny).log(), kept


def _can_be_listed(outcomes: Outcomes) -> bool:
    laws = [outputs.law for _, outputs in outcomes() if outputs.units is not None]
    counts = [law.support_count for law in laws if law is not None]
    return all(count is not None and count <= LISTED for count in counts)


def _listed(outcomes: Outcomes, targets: Tensor, noise: Tensor) -> Tensor:
    """Log density at the target as a sum over all masks, in logarithms."""
    parts = []
    for chances, outputs in outcomes():
        for weight, some in _pieces(chances, outputs, LISTED):
            sums, logarithms = some.center.double().unsqueeze(-1), weight.double().log()[:, None, None, None]
            if some.units is not None:
                law, terms = _terms(some)
                multipliers, mass = list_masks(law)
                sums = sums + terms @ (multipliers.to(terms) - 1).mT
                logarithms = logarithms + mass.to(terms).log()
            distances = (targets.unsqueeze(-1) - sums) / noise.unsqueeze(-1)
            parts.append(torch.logsumexp(logarithms - 0.5 * distances.square(), (0, -1)))
    return torch.logsumexp(torch.stack(parts), 0) - noise.log() - 0.5 * math.log(2 * math.pi)


def _cumulant(outcomes: Outcomes, tilt: Tensor, noise: Tensor) -> Tensor:
    """K(t) = log E exp(t y), (examples, outputs)."""
    parts = []
    for chances, outputs in outcomes():
        for weight, some in _pieces(chances, outputs, 1):
            logarithm = _transforms(some, torch.zeros_like(tilt)[..., None], tilt.expand_as(some.center)).logarithm
            shaped = weight.to(logarithm).log()[:, None, None]
            parts.append(torch.logsumexp(shaped + logarithm + tilt * some.center.double(), 0))
    return torch.logsumexp(torch.stack(parts), 0) + 0.5 * (tilt * noise).square()


def _saddle(outcomes: Outcomes, targets: Tensor, noise: Tensor) -> Tensor:
    """The tilt at which the mean of the tilted distribution is the target: a root of K'(t) = y, by Newton steps.

    K is convex with K'' >= s^2, so that steps of (y - K'(t)) / K''(t), cut to stay between the best bounds, converge;
    a rough root is enough, the contour only has to pass near the saddle.
    """
    tilt = torch.zeros_like(targets)
    low, high = torch.full_like(targets, -math.inf), torch.full_like(targets, math.inf)
    for _ in range(40):
        point = tilt.requires_grad_(True)
        with torch.enable_grad():
            slope = torch.autograd.grad(_cumulant(outcomes, point, noise).sum(), point)[0]
        tilt = point.detach()
        gap = targets - slope
        if bool((gap.abs() < noise).all()):
            break
        low, high = torch.where(gap > 0, tilt, low), torch.where(gap > 0, high, tilt)
        # at the largest possible step K' has moved by the whole gap through the noise alone
        step = tilt + gap / noise.square()
        both = torch.isfinite(low) & torch.isfinite(high)
        tilt = torch.where(both, (low + high) / 2, step)
    return tilt


def _pieces(chances: Tensor, outputs: Affine, count: int) -> Iterator[tuple[Tensor, Affine]]:
    """Some early masks at a time, so that the table of angles stays small."""
    step = max(1, CHUNK_ELEMENTS // max(outputs.center[0].numel() * count, 1))
    for start in range(0, len(chances), step):
        part = slice(start, start + step)
        units = outputs.units
        if units is not None:
            head = units.head[part] if units.head.ndim > outputs.center.ndim else units.head
            units = units._replace(features=units.features[part], head=head)
        yield chances[part], Affine(outputs.center[part], units, outputs.law)


def _of_examples(outcomes: Iterator[Outcome], rows: Tensor) -> Iterator[Outcome]:
    """The mixture of some examples."""
    for chances, outputs in outcomes:
        units = outputs.units
        if units is not None:
            head = units.head if units.head.shape[-3] == 1 else units.head[..., rows, :, :]
            units = units._replace(features=units.features[..., rows, :], head=head)
        yield chances, Affine(outputs.center[..., rows, :], units, outputs.law)


def _terms(outputs: Affine) -> tuple[MaskLaw, Tensor]:
    assert outputs.units is not None
    assert outputs.law is not None
    return outputs.law, outputs.units.contributions.double()


def _transforms(outputs: Affine, angles: Tensor, tilt: Tensor) -> Transform:
    if outputs.units is None:
        ones = torch.ones(*outputs.center.shape, angles.shape[-1], dtype=torch.complex128, device=angles.device)
        return Transform(ones, torch.zeros_like(tilt, dtype=torch.float64))
    return transform(*_terms(outputs), angles, tilt.double())


def _mixed(weight: Tensor, outputs: Affine, low: Tensor, angles: Tensor, counts: Tensor) -> Tensor:
    shift = outputs.center.double() - low
    if outputs.units is None:
        phases = torch.exp(1j * angles * shift.unsqueeze(-1))
        return torch.tensordot(weight.to(phases), phases, dims=1)
    law, terms = _terms(outputs)
    return mixed(law, terms, shift, weight, angles, counts)


def _extent(outputs: Affine) -> tuple[Tensor, Tensor]:
    center = outputs.center.double()
    if outputs.units is None:
        return center, center
    below, above = extent(*_terms(outputs))
    return center + below, center + above


def _noise(noise: float | Tensor) -> Tensor:
    value = torch.as_tensor(noise, dtype=torch.float64)
    if not bool((value > 0).all()) or not bool(torch.isfinite(value).all()):
        raise ValueError(
            f"noise is the standard deviation of the observations around the prediction and must be positive, got "
            f"{noise}; the variance of the masks alone says nothing about a target"
        )
    return value


def central_interval(outcomes: Outcomes, level: float, noise: float | Tensor) -> tuple[Tensor, Tensor]:
    """The interval that holds an observation with probability `level`, equal tails."""
    check_probability("level", level)
    density = Density.of(outcomes, noise)
    return density.quantile((1 - level) / 2), density.quantile((1 + level) / 2)
