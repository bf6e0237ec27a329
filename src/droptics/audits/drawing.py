"""Small curves as SVG text, for pages that hold many: no library, sharp at every size, legible without color."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 420, 230
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 14, 44
# told apart by dashes and marks, the colors are for those who have them
STYLES = (("#0072B2", "", "circle"), ("#9A3D00", "6 4", "square"))
LEVEL = ("#555555", "2 3", "none")

Points = Sequence[float]
Scale = Callable[[float], float]


def curves(
    x: Points,
    series: Mapping[str, Points],
    *,
    axes: tuple[str, str],
    alt: str,
    band: tuple[Points, Points] | None = None,
    level: tuple[str, float] | None = None,
) -> str:
    """Lines over a common axis with a text alternative, a band around the first, a horizontal level with its name."""
    drawn = {**series, **({level[0]: [level[1]] * len(x)} if level else {})}
    styles = [*STYLES[: len(series)], LEVEL]
    heights = [value for values in (*drawn.values(), *(band or ())) for value in values if math.isfinite(value)]
    if not heights:
        return ""
    across, up = _scale(min(x), max(x), LEFT, WIDTH - RIGHT), _scale(min(heights), max(heights), HEIGHT - BOTTOM, TOP)
    parts = [*_axes(across, up, (min(x), max(x)), (min(heights), max(heights)), axes)]
    if band is not None:
        outline = [*zip(x, band[0], strict=True), *reversed(list(zip(x, band[1], strict=True)))]
        parts.append(f'<polygon points="{_points(outline, across, up)}" fill="#0072B2" fill-opacity=".2"/>')
    for values, (color, dash, mark) in zip(drawn.values(), styles, strict=False):
        line = list(zip(x, values, strict=True))
        parts.append(
            f'<polyline points="{_points(line, across, up)}" fill="none" stroke="{color}" stroke-width="2" '
            f'stroke-dasharray="{dash}"/>'
        )
        parts += [_mark(across(a), up(b), mark, color) for a, b in line] if len(line) <= 24 else []
    if len(drawn) > 1:
        parts += _legend(list(drawn), styles)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(alt, quote=True)}" '
        f'font-size="11" font-family="system-ui, sans-serif">{"".join(parts)}</svg>'
    )


def _scale(low: float, high: float, start: float, end: float) -> Scale:
    if high == low:  # a single value stands in the middle
        return lambda _: (start + end) / 2
    return lambda value: round(start + (value - low) / (high - low) * (end - start), 1)


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers between two ends.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    raw = (high - low) / count
    size = 10 ** math.floor(math.log10(raw))
    step = next(factor * size for factor in (1, 2, 5, 10) if factor * size >= raw * 0.75)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{i * step:.10g}") for i in range(first, last + 1)]


def _axes(
    across: Scale, up: Scale, xs: tuple[float, float], ys: tuple[float, float], names: tuple[str, str]
) -> list[str]:
    bottom, parts = HEIGHT - BOTTOM, []
    for value in ticks(*xs):
        parts.append(f'<text x="{across(value)}" y="{bottom + 15}" text-anchor="middle">{value:g}</text>')
    for value in ticks(*ys):
        height = up(value)
        parts.append(f'<path d="M{LEFT} {height}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{height + 4}" text-anchor="end">{value:.4g}</text>')
    parts.append(f'<path d="M{LEFT} {TOP}V{bottom}H{WIDTH - RIGHT}" fill="none" stroke="#333"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(names[0])}</text>')
    center = (TOP + bottom) / 2
    turned = f'transform="rotate(-90 12 {center})"'
    parts.append(f'<text x="12" y="{center}" text-anchor="middle" {turned}>{escape(names[1])}</text>')
    return parts


def _points(line: Sequence[tuple[float, float]], across: Scale, up: Scale) -> str:
    return " ".join(f"{across(a)},{up(b)}" for a, b in line if math.isfinite(b))


def _mark(x: float, y: float, mark: str, color: str) -> str:
    if mark == "circle":
        return f'<circle cx="{x}" cy="{y}" r="3" fill="{color}"/>'
    if mark == "square":
        return f'<rect x="{x - 3}" y="{y - 3}" width="6" height="6" fill="#fff" stroke="{color}" stroke-width="1.5"/>'
    return ""


def _legend(names: Sequence[str], styles: Sequence[tuple[str, str, str]]) -> list[str]:
    parts = []
    for i, (name, (color, dash, _)) in enumerate(zip(names, styles, strict=False)):
        y = TOP + 4 + 15 * i
        parts.append(f'<path d="M{LEFT + 10} {y}h26" stroke="{color}" stroke-width="2" stroke-dasharray="{dash}"/>')
        parts.append(f'<text x="{LEFT + 42}" y="{y + 4}">{escape(name)}</text>')
    return parts
