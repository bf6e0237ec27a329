"""What claims on the reports of audits compare: JSON, tables, pictures, pages and logs beside their numbers."""

from __future__ import annotations

import json
import math
import pickle
import re
import tempfile
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from droptics.audits import Report, audit, audit_numbers, huggingface_callback, lightning_callback
from droptics.audits.digest import groups, heat_map, largest
from droptics.audits.drawing import ticks
from droptics.audits.html import pictures
from droptics.audits.labels import compact
from droptics.estimates import PlainEstimate
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import stack
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import sample, tensor


def _narrow() -> Report:
    """The report of a head behind one site."""
    return audit(stack((3, 5, 2), (0.3,), nn.ReLU), sample(5, 24, 3, 2), rates=(0.2, 0.6), uncertainty=True)


def _leaves(value: Any, place: str = "") -> dict[str, Any]:
    """Numbers and words inside of a report, or of what is read from its JSON, by their places."""
    if is_dataclass(value):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, (list, tuple)):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        return {name: leaf for key, one in value.items() for name, leaf in _leaves(one, f"{place}.{key}").items()}
    return {place: value}


def _with_half(number: PlainEstimate) -> str:
    """Four digits of a number, and two of half its interval."""
    half = (number.upper - number.lower) / 2
    return f"{number.value:.4g} \u00b1 {half:.2g}" if half else f"{number.value:.4g}"


def _restored(name: str, one: Report, scale: float) -> list[Comparison]:
    """Every field of a report in its JSON, and in what is restored from it; its losses in words."""
    found: list[Comparison] = []
    own, written = _leaves(one), _leaves(json.loads(one.to_json()))
    schema = written.pop(".schema")
    found.append(same((schema, sorted(written)), (1, sorted(own)), f"every field is written, {name}"))
    again = _leaves(Report.from_json(one.to_json()))
    numbers = [place for place, leaf in own.items() if type(leaf) is float and math.isfinite(leaf)]
    rest = [place for place, leaf in own.items() if type(leaf) is not float]
    for which, told in (("written", written), ("restored", again)):
        mine, theirs = (tensor([leaves[place] for place in numbers]) for leaves in (told, own))
        found.append(compare(mine, "==", scale * theirs, f"{len(numbers)} numbers {which}, {name}", precision=0.0))
        found.append(same([told[k] for k in rest], [own[k] for k in rest], f"words and counts {which}, {name}"))
    lines = [" ".join(line.split()) for line in one.text(400).splitlines()]
    total = f"loss without dropout {one.clean_loss:.6g}, with dropout {_with_half(one.training_loss)}"
    found.append(same(total in lines, True, f"losses on top, {name}"))
    if len(one.sites) == 1:
        (site,) = one.sites
        assert site.penalty is not None
        row = f"2 dropout 0.3 {_with_half(site.penalty)} {site.share:.1%} exact"
        found.append(same(row in lines, True, f"a row of the table: {row}"))
    return found


def _largest(report: Report) -> list[Comparison]:
    """Rows of the five sites of largest penalty, in their order."""
    found: list[Comparison] = []
    rows = [" ".join(line.split()) for line in report.text(400).splitlines()]
    known = [(item.site.name, item.penalty) for item in report.sites if item.penalty is not None]
    below = rows[rows.index("sites of largest penalty:") + 3 :]
    for (name, part), line in zip(sorted(known, key=lambda item: -abs(item[1].value))[:5], below, strict=True):
        rate = 0.2 if name.endswith("b") else 0.1 + 0.01 * int(name.split(".")[1])
        start = f"{name} dropout {rate:g} {_with_half(part)} {part.value / report.training_loss.value:.1%} "
        found.append(same(line[: len(start)], start, f"one of the largest: {start}"))
    return found


def told_reports(scale: float) -> list[Comparison]:
    """A report is what its JSON restores; its tables show its numbers, and the sums of its groups."""
    found: list[Comparison] = []
    blocks = [nn.ModuleDict({"a": nn.Dropout(0.1 + 0.01 * i), "b": nn.Dropout(0.2)}) for i in range(8)]

    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.ModuleList(blocks)
            self.first, self.last = linear_head(1, 3, 4), linear_head(3, 4, 2)

        def forward(self, inputs: Tensor) -> Tensor:
            hidden = self.first(inputs)
            for block in blocks:
                hidden = block["b"](torch.tanh(block["a"](hidden)))
            return self.last(hidden)

    module, data = Deep(), sample(2, 20, 3, 2)
    report = audit(module, data, rates=(0.3, 0.5), budget=60)
    found += [*_restored("deep", report, scale), *_restored("narrow", _narrow(), scale), *_largest(report)]
    found += [
        refuses(lambda content=content: Report.from_dict(content), f"must be a report of schema 1, got {got}")
        for got, content in (("None", {}), ("2", {"schema": 2}), ("'1'", {"schema": "1"}))
    ]
    bare = {name: value for name, value in report.to_dict().items() if name != "schema"}
    found.append(refuses(lambda: Report.from_dict(bare), "must be a report of schema 1, got None", "no schema"))
    found += _lacking(report)
    content, rows = report.to_dict(), [" ".join(line.split()) for line in report.text(400).splitlines()]
    values = {item.site.name: item.penalty for item in report.sites}
    for group in groups(content):
        parts = [part for name in group.names if (part := values[name]) is not None]
        total = math.fsum(part.value for part in parts)
        half = math.sqrt(math.fsum(((part.upper - part.lower) / 2) ** 2 for part in parts))
        assert group.penalty is not None
        found.append(compare(group.penalty["value"], "==", scale * total, f"sum of {group.place}"))
        found.append(compare(group.penalty["upper"] - group.penalty["lower"], "==", scale * 2 * half, "its width"))
        shares = sum(item.share or 0.0 for item in report.sites if item.site.name in group.names)
        found.append(compare(group.share or 0.0, "==", scale * shares, f"share of {group.place}"))
        tail = group.place[-1]
        line = f"layer.{{0-7}}.{tail} dropout, 8 sites {'0.1 to 0.17' if tail == 'a' else '0.2'} "
        line += f"{total:.4g} \u00b1 {half:.2g} {shares:.1%}"
        found.append(same(any(one.startswith(line) for one in rows), True, f"a row of the table: {line}"))
    heat = heat_map(content)
    assert heat is not None
    found.append(
        compare(heat.most, "==", scale * max(abs(part.value) for part in values.values() if part), "largest cell")
    )
    found.append(compare([len(heat.layers), len(heat.places)], "==", [8 * scale, 2 * scale], "layers and places"))
    for layer, row in zip(heat.layers, heat.cells, strict=True):
        for place, cell in zip(heat.places, row, strict=True):
            assert cell is not None
            number = values[f"layer.{layer}.{place.rpartition('.')[2]}"]
            assert number is not None
            found.append(compare(cell["penalty"]["value"], "==", scale * number.value, f"cell {layer} {place}"))
    sizes = sorted((abs(part.value) for part in values.values() if part), reverse=True)[:5]
    told = [abs(item["penalty"]["value"]) for item in largest(content, 5)]
    found.append(compare(told, "==", [scale * size for size in sizes], "largest sites"))
    return found


def _lacking(report: Report) -> list[Comparison]:
    """Numbers that are not finite are null in JSON, and are read as NaN where a number is needed."""
    number = PlainEstimate(math.inf, -math.inf, math.nan, "x")
    site = replace(report.sites[0], penalty=number, share=None)
    lost = replace(report, clean_loss=math.nan, training_loss=number, accuracy=None, sites=[site])
    again = Report.from_json(lost.to_json())
    (own,) = again.sites
    assert own.penalty is not None
    numbers = [again.clean_loss, *(getattr(again.training_loss, end) for end in ("value", "lower", "upper"))]
    numbers += [own.penalty.value, own.penalty.lower, own.penalty.upper]
    return [
        same([math.isnan(value) for value in numbers], [True] * 7, "what is not finite"),
        same((own.share, again.accuracy, own.penalty.method), (None, None, "x"), "what is not there"),
        same(again.to_dict(), lost.to_dict(), "written again"),
    ]


def _banded(scale: float) -> list[Comparison]:
    """The band of a curve at other rates is as wide as the intervals of its penalties."""
    points = [
        {
            "rate": rate,
            "training_loss": loss,
            "penalty": {"value": loss - 1, "lower": loss - 1 - a, "upper": loss - 1 + a},
        }
        for rate, loss, a in ((0.1, 1.2, 0.1), (0.3, 1.6, 0.25), (0.7, 2.0, 0.5))
    ]
    item = {"curve": points, "units": None, "spectrum": None, "rate_choice": None}
    ((_, picture),) = pictures(item, {"clean_loss": 1.0})
    (band,) = re.findall(r'polygon points="([^"]*)"', picture)
    heights = [float(pair.split(",")[1]) for pair in band.split()]
    (line, level) = (
        [float(pair.split(",")[1]) for pair in part.split()]
        for part in re.findall(r'polyline points="([^"]*)"', picture)
    )
    unit = (level[0] - line[2]) / 1.0  # from the clean loss of 1 to a loss of 2
    wanted = [
        line[k] + sign * unit * half
        for sign, order in ((1, (0, 1, 2)), (-1, (2, 1, 0)))
        for k, half in ((k, (0.1, 0.25, 0.5)[k]) for k in order)
    ]
    # coordinates have one decimal, of some 170 points
    return [compare(heights, "==", scale * tensor(wanted), "the band of a curve", precision=2e-3)]


def _rows_on_page(report: Report, page: str) -> list[Comparison]:
    """The losses on top, and the rows of sites and of what they do together, cell by cell."""
    found: list[Comparison] = []
    rows = [
        [" ".join(re.sub("<[^>]*>", "", cell).split()) for cell in re.findall(r"<t[hd][ >].*?</t[hd]>", row, re.DOTALL)]
        for row in re.findall(r"<tr.*?</tr>", page.replace("<wbr>", ""), re.DOTALL)
    ]
    for item in report.sites:
        assert item.penalty is not None
        rate, share = f"{item.site.rate:g}", f"{item.share:.1%}"
        wanted = [item.site.name, item.site.kind, rate, _with_half(item.penalty), share, item.penalty.method]
        found.append(same(wanted in rows, True, f"a row of the page: {wanted}"))
    part = report.interaction
    assert part is not None
    wanted = ["interaction", "all sites together", "", _with_half(part), "", part.method]
    found.append(same(wanted in rows, True, f"a row of the page: {wanted}"))
    for number in (f"{report.clean_loss:.4g}", _with_half(report.training_loss)):
        text = re.sub("<[^>]*>", " ", page.replace("<wbr>", ""))
        found.append(same(number in " ".join(text.split()), True, f"a loss on the page: {number}"))
    return found


def drawn_reports(scale: float) -> list[Comparison]:
    """Pictures and pages of a report show its own numbers in their places."""
    found: list[Comparison] = []
    net, data = stack((3, 5, 4, 2), (0.3, 0.2), nn.ReLU), sample(5, 24, 3, 2)
    report = audit(net, data, rates=(0.2, 0.6), uncertainty=True)
    before, site = report.sites
    other, drawn = (dict(pictures(one, report.to_dict())) for one in report.to_dict()["sites"])
    assert site.units is not None
    assert site.rate_choice is not None
    assert site.spectrum is not None
    with tempfile.TemporaryDirectory() as folder:
        page = report.to_html(Path(folder) / "report.html").read_text(encoding="utf-8")
    places_on_page = [page.find(picture) for picture in (*other.values(), *drawn.values())]
    found.append(compare(min(places_on_page), ">=", 0, "every picture on the page"))
    links = re.findall(r'data-name="([^"]*)".*?href="#(site\d+)"', page, re.DOTALL)
    headed = dict(re.findall(r'id="(site\d+)".*?<code>([^<]*)</code>', page, re.DOTALL))
    told_names = [(name, headed.get(place)) for name, place in links]
    found.append(same(told_names, [(item.site.name,) * 2 for item in report.sites], "rows lead to their sites"))
    found += _banded(scale) + _rows_on_page(report, page)
    found.append(same(places_on_page, sorted(places_on_page), "those of the first site before those of the second"))
    curve = ", ".join(f"{point.training_loss:.4g} at {point.rate:g}" for point in before.curve)
    found.append(same(any(curve in one for one in other.values()), True, "curve of the first site"))
    words = {
        "flows": f"in decreasing order, from {max(site.units.flows):.3g} to {min(site.units.flows):.3g}",
        "spectrum": f"this network {site.spectrum.measured[0]:.3g}, dropout optimum {site.spectrum.optimal[0]:.3g}",
        "rates": f"least at rate {site.rate_choice.best:g}",
        "curve": ", ".join(f"{point.training_loss:.4g} at {point.rate:g}" for point in site.curve),
    }
    for name, wanted in words.items():
        found.append(compare(float(any(wanted in one for one in drawn.values())), "==", 1.0, f"{name} drawn"))
        found.append(compare(float(wanted in page), "==", 1.0, f"{name} on the page"))
    flows, both = sorted(site.units.flows, reverse=True), [list(site.spectrum.measured), list(site.spectrum.optimal)]
    losses = [[float(one.training_loss) for one in site.curve], [float(report.clean_loss)] * len(site.curve)]
    shown: dict[str, tuple[list[float], list[list[float]]]] = {
        "Error of": (list(site.rate_choice.rates), [list(site.rate_choice.errors)]),
        "Flows of": ([float(unit) for unit in range(len(flows))], [flows]),
        "Spectrum": ([float(number) for number in range(len(both[0]))], both),
        "Training": ([one.rate for one in site.curve], losses),
    }
    for start, (places, values) in shown.items():
        picture = next(one for caption, one in drawn.items() if caption.startswith(start))
        told = [
            [tuple(map(float, pair.split(","))) for pair in line.split()]
            for line in re.findall(r'polyline points="([^"]*)"', picture)
        ]
        xs, ys = ([point[axis] for line in told for point in line] for axis in (0, 1))
        left, right, bottom, top = min(xs), max(xs), max(ys), min(ys)
        low, high = min(map(min, values)), max(map(max, values))
        across = [[(x - left) / (right - left) for x, _ in line] for line in told]
        up = [[(bottom - y) / (bottom - top) for _, y in line] for line in told]
        # coordinates have one decimal, of some 170 and 350 points
        wanted_across = [[scale * (place - places[0]) / (places[-1] - places[0]) for place in places]] * len(values)
        wanted_up = [[scale * (value - low) / (high - low) for value in line] for line in values]
        found.append(compare(across, "==", wanted_across, f"places of the points, {start}", precision=1e-3))
        found.append(compare(up, "==", wanted_up, f"heights of the points, {start}", precision=1e-3))
    for low, high, expected in (
        (0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (3.0, 47.0, [10, 20, 30, 40]),
        (-0.3, 0.1, [-0.3, -0.2, -0.1, 0, 0.1]),
    ):
        found.append(compare(ticks(low, high), "==", [scale * one for one in expected], f"ticks from {low} to {high}"))
    names = [f"layer.{i}.drop" for i in (0, 1, 2, 5)] + ["head", "a.1.b.2", "a.3.b.4"]
    lines = compact(names)
    spoken = lines == ["layer.{0-2,5}.drop", "head", "a.1.b.2", "a.3.b.4"]
    found.append(compare(float(spoken), "==", 1.0, f"names in few lines: {lines}"))
    return found


def logged_reports(scale: float) -> list[Comparison]:
    """Callbacks log the numbers of an audit at the epochs that were asked for."""
    found: list[Comparison] = []
    narrow = _narrow()
    (site,) = narrow.sites
    assert site.units is not None
    features, units = "dropout/2", site.units
    wanted = {
        "dropout/clean_loss": narrow.clean_loss,
        "dropout/training_loss": narrow.training_loss.value,
        f"{features}/penalty_share": site.share or 0.0,
        f"{features}/imbalance": units.imbalance,
        f"{features}/coadaptation": units.coadaptation,
    }
    found += _numbers_alike(audit_numbers(narrow), wanted, scale, "numbers to log")
    bare = replace(narrow, sites=[replace(site, share=None, units=replace(units, flows=()))])
    few = {name: value for name, value in wanted.items() if features not in name}
    found += _numbers_alike(audit_numbers(bare), few, scale, "numbers without shares and flows")
    net: Any = stack((3, 5, 4, 2), (0.3, 0.2), nn.ReLU)
    head, data, loss = net[6], sample(5, 24, 3, 2), nn.MSELoss()  # half of the loss that is taken when none is given
    logged: list[dict[str, float]] = []
    net.log_dict = logged.append
    seen: list[dict[str, float]] = []
    light = lightning_callback(data, loss, every=2, rates=())
    face = huggingface_callback(data, loss, every=3, log=seen.append, rates=())
    state = SimpleNamespace(epoch=0.0, global_step=0, log_history=[])
    handler, losses = _Handler(), []
    for epoch in range(1, 7):  # a network that changes tells at which epochs it was looked at
        with torch.no_grad():
            head.weight *= 1.1
            losses.append(float((net.eval()(data.inputs) - data.targets).square().mean()))
        if epoch == 4:  # they go on from where they are read
            light, face = pickle.loads(pickle.dumps((light, face)))
            seen = getattr(face.log, "__self__", [])
        light.on_train_epoch_end(SimpleNamespace(current_epoch=epoch - 1), net)
        state.epoch, state.global_step = epoch - 0.1, 10 * epoch  # as after a last batch that is not full
        handler.end(face, state, net)
        face.on_epoch_end(None, state, None)  # without a network there is nothing to look at
    key = "dropout/clean_loss"
    for name, told, epochs in (("lightning", logged, (2, 4, 6)), ("hugging face", seen, (3, 6))):
        told_losses = [numbers[key] for numbers in told]
        found.append(compare(len(told), "==", scale * len(epochs), f"how often, {name}"))
        found.append(compare(told_losses, "==", [scale * losses[epoch - 1] for epoch in epochs], f"epochs, {name}"))
    last = audit(net, data, loss, rates=())
    wanted = {key: last.clean_loss, "dropout/training_loss": last.training_loss.value}
    for name, one in zip(("2", "5"), last.sites, strict=True):
        wanted[f"dropout/{name}/penalty_share"] = one.share or 0.0
        if one.units is not None and one.units.flows:
            wanted[f"dropout/{name}/imbalance"] = one.units.imbalance
            wanted[f"dropout/{name}/coadaptation"] = one.units.coadaptation
    for name, told in (("lightning", logged), ("hugging face", seen)):
        found += _numbers_alike(told[-1], wanted, scale, f"the last epoch, {name}")
    for which, callback in (("lightning", light), ("hugging face", face)):
        found.append(same(callback.last.to_dict(), last.to_dict(), f"the report of the last epoch, {which}"))
    for entry, heard, numbers, epoch in zip(state.log_history, handler.told, seen, (3, 6), strict=True):
        at = {"epoch": epoch - 0.1, **numbers}
        found += _numbers_alike(entry, {**at, "step": 10 * epoch}, scale, f"history, {epoch}")
        found += _numbers_alike(heard, at, scale, f"told to all callbacks, {epoch}")
    return found


class _Handler:
    """What calls the callbacks of a Hugging Face trainer, and tells all of them what is logged."""

    callbacks = ()

    def __init__(self) -> None:
        self.told: list[dict[str, float]] = []

    def end(self, callback: Any, state: Any, model: nn.Module) -> None:
        """The end of an epoch."""
        callback.on_epoch_end(None, state, None, model)

    def on_log(self, _args: Any, _state: Any, _control: Any, numbers: dict[str, float]) -> None:
        """What is logged."""
        self.told.append(numbers)


def _numbers_alike(told: dict[str, float], wanted: dict[str, float], scale: float, label: str) -> list[Comparison]:
    """The same names, and a number under each."""
    names = same(sorted(told), sorted(wanted), f"names, {label}")
    return [
        names,
        compare([told.get(name, 0.0) for name in wanted], "==", scale * tensor(list(wanted.values())), label),
    ]
