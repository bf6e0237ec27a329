"""Series in, pictures out: the only importer of the plotting libraries.

Pictures are static (matplotlib, drawn without a display and without touching the caller's pyplot state) and come as
PNG bytes, so that a page can embed them and a file can hold them.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # half a second, and few calls draw
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# A palette that people with color blindness can tell apart (Okabe and Ito).
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000")
# What tells curves, bars and points apart where there is no color.
_GAPS = ((5, 1.5), (1, 1), (6, 2, 1, 2), (10, 3), (3, 1, 1, 1, 1, 1), (1, 3), (12, 2, 2, 2))
DASHES = ("-", *((0, gaps) for gaps in _GAPS))
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "|||", "ooo", "---")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")


def new_figure(width: float = 6.0, height: float = 3.6, columns: int = 1, rows: int = 1) -> Figure:
    """An empty figure with rows of `columns` axes side by side, not known to pyplot."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - see above

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    figure.subplots(rows, columns)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    return figure


def as_png(figure: Figure, dots: int = 120) -> bytes:
    """The figure as PNG bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dots)
    return buffer.getvalue()


def as_data_uri(png: bytes) -> str:
    """PNG bytes as an address that an HTML page can embed."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


def lines(  # parameters: keywords of one picture
    x: Sequence[float],
    series: Mapping[str, Sequence[float]],
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
    log: str = "",
    bands: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
    levels: Mapping[str, float] | None = None,
) -> Figure:
    """Curves over a common axis; `log` names the logarithmic axes ("x", "y", "xy"), `levels` are horizontal lines."""
    curves = {name: (x, values, *(bands or {}).get(name, ())) for name, values in series.items()}
    figure = new_figure()
    _draw_panel(figure.axes[0], Panel(title, xlabel, ylabel, curves, levels or {}, log))
    return figure


def bars(groups: Mapping[str, Sequence[float]], labels: Sequence[str], *, ylabel: str, title: str = "") -> Figure:
    """Bars side by side: one group of bars per label, one color per name."""
    figure = new_figure()
    axes = figure.axes[0]
    width = 0.8 / len(groups)
    for i, (name, values) in enumerate(groups.items()):
        positions = [k + (i - (len(groups) - 1) / 2) * width for k in range(len(labels))]
        color, hatch = COLORS[i % len(COLORS)], HATCHES[i % len(HATCHES)]
        axes.bar(positions, values, width, color=color, label=name, hatch=hatch, edgecolor="white")
    axes.set_xticks(range(len(labels)), labels)
    axes.set(ylabel=ylabel, title=title)
    if len(groups) > 1:
        axes.legend(frameon=False, fontsize=8)
    return figure


def landscape(
    axis: Sequence[float],
    values: Sequence[Sequence[float]],
    points: Mapping[str, Sequence[tuple[float, float]]],
    trajectories: Sequence[Sequence[tuple[float, float]]] = (),
    *,
    title: str = "",
) -> Figure:
    """Contours of a criterion of two weights, with its critical points by kind and training runs over them."""
    figure = new_figure(4.8, 4.4)
    axes = figure.axes[0]
    low, high = min(map(min, values)), max(map(max, values))
    # dense at the bottom, where the critical points are
    levels = [low + (high - low) * (i / 40) ** 3 for i in range(1, 41) if high > low]
    axes.contour(axis, axis, values, levels=levels, colors="#999999", linewidths=0.5)
    shapes = {"global minimum": ("*", COLORS[2]), "strict saddle": ("X", COLORS[1]), "local maximum": ("^", COLORS[3])}
    for look, run in zip(_curves(len(trajectories)), trajectories, strict=True):
        axes.plot([u for u, _ in run], [v for _, v in run], linewidth=0.8, alpha=0.8, **look)
    for kind, places in points.items():
        marker, color = shapes.get(kind, ("o", COLORS[-1]))
        xs, ys = [u for u, _ in places], [v for _, v in places]
        axes.scatter(xs, ys, marker=marker, s=60, color=color, edgecolor="white", linewidth=0.6, zorder=3, label=kind)
    axes.set(xlabel="$u_1$", ylabel="$u_2$", title=title, aspect="equal")
    axes.legend(loc="upper right", fontsize="small")
    return figure


def _curves(count: int) -> list[dict[str, Any]]:
    """How curves look: no two of the first eight are the same in black and white."""
    return [{"color": COLORS[i % len(COLORS)], "linestyle": DASHES[i % len(DASHES)]} for i in range(count)]


@dataclass(frozen=True)
class Panel:
    """One set of axes: curves by name as (x, y) or (x, y, lower, upper), and horizontal levels by name.

    `log` names the logarithmic axes; `marks` are points without a line, by name as (x, y).
    """

    title: str
    xlabel: str
    ylabel: str
    series: Mapping[str, Sequence[Sequence[float]]]
    levels: Mapping[str, float] = field(default_factory=dict)
    log: str = ""
    marks: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)


def panels(items: Sequence[Panel], columns: int = 3) -> Figure:
    """Several panels in rows of `columns`, in the order given."""
    if not items:
        raise ValueError("items must hold at least one panel, got none")
    columns = min(columns, len(items))
    figure = new_figure(4.4, 3.3, columns, -(-len(items) // columns))
    for axes, panel in zip(figure.axes, items, strict=False):
        _draw_panel(axes, panel)
    for axes in list(figure.axes)[len(items) :]:
        axes.set_visible(False)
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    for look, (name, curve) in zip(_curves(len(panel.series)), panel.series.items(), strict=True):
        axes.plot(curve[0], curve[1], label=name, **look)
        if len(curve) == 4:
            axes.fill_between(curve[0], curve[2], curve[3], color=look["color"], alpha=0.2, linewidth=0)
    for i, (name, points) in enumerate(panel.marks.items()):
        axes.plot(*points[:2], MARKERS[i % len(MARKERS)], color=COLORS[-1 - i % len(COLORS)], label=name, markersize=5)
    for name, level in panel.levels.items():
        axes.axhline(level, color="#555555", linestyle="--", linewidth=1, label=name)
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel, title=panel.title)
    axes.set(**{f"{axis}scale": "log" for axis in panel.log})
    if len(panel.series) + len(panel.levels) + len(panel.marks) > 1:
        axes.legend(frameon=False, fontsize=7)


def save(figure: Figure, path: str | PathLike[str], dots: int = 110) -> None:
    """Write a figure to an image file."""
    figure.savefig(path, dpi=dots)
