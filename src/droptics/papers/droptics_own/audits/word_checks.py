"""What claims on the words of audits compare: names, numbers, groups, tables at every width, and drawn curves."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np

from droptics.audits.digest import Group, grouped, heat_map, how_text, number_text, rate_text, share_text, value_text
from droptics.audits.drawing import curves
from droptics.audits.findings import Finding
from droptics.audits.labels import broken, compact, labels
from droptics.audits.summary import terminal_text
from droptics.estimates import PlainEstimate
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.audits.part_checks import plain_report, plain_site
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import tensor


def worded_reports(scale: float) -> list[Comparison]:
    """Names, numbers, groups and tables of a report in words, at every width; curves in their places."""
    found: list[Comparison] = []
    number = {"value": 1.23456, "lower": 1.2, "upper": 1.3, "method": "x"}
    for told, wanted in (
        (number_text(number), "1.235 \u00b1 0.065"),
        (number_text({**number, "lower": 1.1}), "1.235 \u00b1 0.13"),
        (number_text({**number, "lower": 1.23456, "upper": 1.23456}), "1.235"),
        (number_text({**number, "lower": None}), "1.235"),
        (number_text(None), "-"),
        (value_text(None), "not finite"),
        (value_text(12.3456, 2), "12"),
        (rate_text(0.0), "?"),
        (rate_text(0.25), "0.25"),
        (share_text(0.1234), "12.3%"),
        (share_text(None), "-"),
        (how_text({"penalty": None, "site": {"reason": None}}), "not measured"),
        (how_text({"penalty": None, "site": {"reason": "hidden"}}), "hidden"),
        (how_text({"penalty": number, "site": {"reason": None}}), "x"),
        (", ".join(compact(["a.0.b", "a.1.b", "a.3.b", "c"])), "a.{0-1,3}.b, c"),
        (", ".join(compact(["0", "2", "5"])), "0, 2, 5"),
        ("|".join(broken("encoder.layer.0.attention", 14)), "encoder.layer.|0.attention"),
        ("|".join(broken("a,b/c@d", 1)), "a,|b/|c@|d"),
        ("|".join(broken("a." + "x" * 50, 40)), "a.|" + "x" * 50),
    ):
        found.append(same(told, wanted, f"text {wanted}", scale))
    names = [f"l.{i}.m.{j}" for i in range(3) for j in range(2)]
    read = labels(names)
    found.append(same({read[name].place for name in names}, {"l.*.m.0", "l.*.m.1"}, "places", scale))
    found.append(same(read["l.2.m.1"].index, (2,), "where it is", scale))
    items = [
        {
            "site": {"name": f"l.{i}.drop", "rate": 0.1 * (i + 1), "kind": "dropout", "reason": None},
            "share": 0.1,
            "penalty": {**number, "method": f"way {i % 2}"},
        }
        for i in range(3)
    ]
    group = Group("l.*.drop", "dropout", [item["site"]["name"] for item in items], items)  # type: ignore[index]
    found.append(
        same((group.label, group.rate, group.how), ("l.{0-2}.drop", "0.1 to 0.3", "way 0; way 1"), "a group", scale)
    )
    penalty = group.penalty
    assert penalty is not None
    for name, side in (("lower", 1.2 - 1.23456), ("upper", 1.3 - 1.23456)):
        found.append(compare(penalty[name] - penalty["value"], "==", scale * side * 3**0.5, f"its {name} end"))
    found.append(compare([penalty["value"], group.share or 0.0], "==", scale * tensor([3 * 1.23456, 0.3]), "its sums"))
    lacking = Group("x", "dropout", ["x"], [{**items[0], "penalty": None, "share": None}])
    found.append(same((lacking.penalty, lacking.share), (None, None), "a group without numbers", scale))
    findings = [
        {"code": "DR504", "level": "note", "site": f"l.{i}.drop", "text": f"{i} units", "advice": "x"} for i in range(6)
    ] + [{"code": "", "level": "bug", "site": "y", "text": "odd", "advice": "z"}] * 2
    both = grouped(findings)
    found.append(same([(one.level, one.count) for one in both], [("bug", 2), ("note", 6)], "bugs first", scale))
    found.append(same((both[1].text, both[0].text, len(both[1].details)), ("dead units", "odd", 6), "kinds", scale))
    found.append(same((heat_map({"sites": items}), both[1].sites), (None, ["l.{0-5}.drop"]), "few sites", scale))
    return found + _tables(scale) + _long_words(scale) + _drawn(scale)


def _tables(scale: float) -> list[Comparison]:
    """Every word of a table stands on its lines, none is longer than the width, at every width."""
    found: list[Comparison] = []
    number = PlainEstimate(0.123456, 0.1, 0.15, "sampled, gradient control, 12 draws of masks")
    sites = [plain_site(f"encoder.layer.{i}.attention.output.dropout", number, share=0.05 * i) for i in range(3)]
    findings = [Finding("note", f"site.{i}", f"text {i}", "some advice", f"X{i:03}") for i in range(14)]
    findings += [Finding("bug", f"part.{i}.drop{i}", "the same", "mend it", "Y1") for i in range(6)]
    for count, width in itertools.product((3, 20), (200, 110, 72, 40)):
        more = [plain_site(f"encoder.layer.{i}.attention.output.dropout", number, share=0.01) for i in range(count)]
        report = plain_report(sites if count == 3 else more, interaction=number, rest=number, findings=findings)
        lines = terminal_text(report.to_dict(), width).splitlines()
        found.append(same(report.text(width).splitlines(), lines, f"told by the report: {count}, {width}", scale))
        longest = max(len(line) for line in lines)
        label = f"{count} sites, {width} letters"
        found.append(compare(longest, "<=", width, f"widest line: {label}"))
        whole = re.sub(r"\s+", "", "".join(lines))
        words = ["Neton9examples,Squaredloss", "losswithoutdropout1,withdropout1.5\u00b10.1", "noswitchreachesit"]
        words += ["0.1235\u00b10.027", "interaction", "and3morekindsoffindings", "allsitestogether", "bugY1", "X010"]
        words += ["(6findings)", "and2more"] if width == 200 else []
        words += ["5.0%"] if count == 3 else ["dropout,20sites", "sitesoflargestpenalty:", "20.0%", "{0-19}"]
        for word in words:
            found.append(same(word in whole, True, f"{word}: {label}", scale))
        if width == 200:
            rule = next(place for place, line in enumerate(lines) if set(line) <= {"-", " "} and "-" in line)
            spans = [slice(*span.span()) for span in re.finditer("-+", lines[rule])]
            heads = [lines[rule - 1].ljust(width)[span] for span in spans]
            head_words = ["site", "kind", "rate", "penalty", "share", "how"]
            found.append(same([head.strip() for head in heads], head_words, f"columns: {label}", scale))
            cells = [lines[rule + 1].ljust(width)[span] for span in spans]
            first = sites[0].site.name if count == 3 else "encoder.layer.{0-19}.attention.output.dropout"
            kind = "dropout" if count == 3 else "dropout, 20 sites"
            total = "0.1235 \u00b1 0.027" if count == 3 else f"2.469 \u00b1 {(0.15 - 0.123456) * 20**0.5:.2g}"
            row = [first, kind, "0.3", total, "0.0%" if count == 3 else "20.0%", number.method]
            placed = [
                cell.rjust(len(heads[i])) if i in (2, 3, 4) else cell.ljust(len(heads[i])) for i, cell in enumerate(row)
            ]
            found.append(same(cells, placed, f"cells in their columns: {label}", scale))
    for count in (1, 2, 12, 13):
        text = plain_report([plain_site(f"a.{i}", number) for i in range(count)], interaction=number).text()
        told = [word in text for word in (f"dropout, {count} sites", "sites of largest penalty", "interaction")]
        found.append(same(told, [count > 12, count > 12, count > 1], f"in groups: {count} sites", scale))
        found.append(same(text.count(f"a.{count - 1} "), int(count <= 12), f"one by one: {count} sites", scale))
    return found


def _long_words(scale: float) -> list[Comparison]:
    """A word stays whole and has a longer line than the width only where it is longer itself, and alone there.

    The name of the finding fits 40 letters, but not behind the indent of its line.
    """
    found: list[Comparison] = []
    words = ["s" * 50, "m" * 45, f"{'b' * 20}.", "c" * 18]
    number = PlainEstimate(0.123456, 0.1, 0.15, f"by {words[1]} and more")
    sites = [plain_site(f"net.{words[0]}.drop", number), plain_site("b", number)]
    report = plain_report(sites, findings=[Finding("bug", f"{words[2]}{words[3]}", "some text", "mend it", "Y1")])
    for width in (200, 110, 72, 40):
        lines, label = report.text(width).splitlines(), f"long words, {width} letters"
        more = [line for line in lines if len(line) > width and len(broken(line.strip(), 1)) > 1]
        found.append(same(more, [], f"lines of several words: {label}", scale))
        whole = [any(word in line for line in lines) for word in words]
        found.append(same(whole, [True] * len(words), f"kept whole: {label}", scale))
    return found


def _drawn(scale: float) -> list[Comparison]:
    """Points, bands, levels, ticks and axes of a curve lie where one affine map puts them."""
    found: list[Comparison] = []
    x, y, low, high = [0.1, 0.2, 0.5], [2.0, 4.0, 3.0], [1.5, 3.0, 2.5], [2.5, 5.0, 3.5]
    text = curves(x, {"loss": y}, axes=("rate", "size"), alt="a < b", band=(low, high), level=("none", 1.0))
    lines = [
        [tuple(map(float, p.split(","))) for p in part.split()]
        for part in re.findall(r'poly\w+ points="([^"]*)"', text)
    ]
    band, points, level = lines
    across = np.polyfit(x, [p[0] for p in points], 1)
    up = np.polyfit(y, [p[1] for p in points], 1)
    found.append(compare([p[1] for p in points], "==", scale * np.polyval(up, y), "heights", precision=1e-3))
    wanted = [
        (np.polyval(across, a), np.polyval(up, b))
        for a, b in [*zip(x, low, strict=True), *reversed(list(zip(x, high, strict=True)))]
    ]
    found.append(compare(np.array(band), "==", scale * np.array(wanted), "the band", precision=1e-3))
    found.append(compare([p[1] for p in level], "==", scale * np.polyval(up, [1.0] * 3), "the level", precision=1e-3))
    ticks = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" text-anchor="(middle|end)">([-\d.]+)</text>', text)
    below = [(float(a), float(name)) for a, _, anchor, name in ticks if anchor == "middle"]
    beside = [(float(b), float(name)) for _, b, anchor, name in ticks if anchor == "end"]
    found.append(
        compare([a for a, _ in below], "==", scale * np.polyval(across, [v for _, v in below]), "ticks", precision=1e-3)
    )
    found.append(
        compare(
            [b - 4 for b, _ in beside], "==", scale * np.polyval(up, [v for _, v in beside]), "ticks up", precision=1e-3
        )
    )
    frame = re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)H([\d.]+)", text)[0]
    left, top, bottom, right = map(float, frame)
    edges = [points[0][0], points[-1][0], np.polyval(up, 1.0), np.polyval(up, 5.0)]
    found.append(compare(edges, "==", scale * np.array([left, right, bottom, top]), "ends of the axes", precision=1e-3))
    size = [float(value) for value in re.findall(r'viewBox="0 0 (\d+) (\d+)"', text)[0]]
    inside = 0 < left < right < size[0] and 0 < top < bottom < size[1]
    found.append(
        same((inside, 'aria-label="a &lt; b"' in text, text.count("<circle")), (True, True, 3), "inside", scale)
    )
    found.append(same(curves([1.0], {"a": [math.nan]}, axes=("x", "y"), alt=""), "", "nothing to draw", scale))
    many = curves(list(range(30)), {"a": [1.0] * 30, "b": [2.0] * 30}, axes=("x", "y"), alt="")
    found.append(
        same((many.count("<circle"), many.count("<polyline"), ">b</text>" in many), (0, 2, True), "many", scale)
    )
    return found
