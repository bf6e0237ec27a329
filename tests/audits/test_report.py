"""The report from its dictionary: there and back, on terminals of every width, and as a page."""

import ast
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cases import normal
from networks import regression_data, regression_net
from torch import nn

import droptics.audits.html
import droptics.audits.summary
from droptics.audits import AuditedSite, Finding, PlainEstimate, Report, SiteReport, audit
from droptics.audits.digest import MANY, grouped, groups, heat_map, largest, number_text
from droptics.audits.drawing import curves
from droptics.audits.html import page, pictures
from droptics.audits.labels import broken, compact, labels
from droptics.audits.report import CurvePoint, Units

LAYERS, PLACES = (
    12,
    ("attention.self.dropout", "attention.output.dropout", "output.activation_dropout", "output.dropout"),
)
REASON = "the mask is written by hand, so this place cannot be switched; it is part of the rest"


def site_report(name: str, value: float | None, *, kind: str = "dropout") -> SiteReport:
    site = AuditedSite(name, kind, 0.1, (32, 8), 0.099, in_evaluation=False, reason=REASON if value is None else None)
    if value is None:
        return SiteReport(site)
    number = PlainEstimate(value, value - 0.001, value + 0.002, "Monte Carlo, 4 draws")
    curve = tuple(CurvePoint(rate, number, 1 + rate) for rate in (0.1, 0.5))
    units = Units(8, (3,), (), math.nan, math.nan)
    return SiteReport(site, number, value / 1.3, None, curve, units)


def fifty() -> Report:
    """As of a transformer of twelve layers, with twelve equal findings."""
    sites = [site_report("embeddings.dropout", 0.2), site_report("classifier.rand", None, kind="written by hand")]
    for layer in range(LAYERS):
        for i, place in enumerate(PLACES):
            sites.append(site_report(f"encoder.layer.{layer}.{place}", (layer - 3) * 0.01 * (i + 1)))
    findings = [
        Finding("bug", f"encoder.layer.{i}.unused", "Dropout(p=0.3) never runs", "call it", "DR101")
        for i in range(LAYERS)
    ]
    findings += [Finding("note", f"encoder.layer.{i}.unused", f"{i} of 8 units", "less", "DR504") for i in (1, 2)]
    return Report(
        network="Encoder",
        examples=32,
        loss="CrossEntropy",
        clean_loss=1.0,
        training_loss=PlainEstimate(1.3, 1.2, 1.4, "Monte Carlo, 4 draws"),
        rest=PlainEstimate(0.1, 0.0, 0.2, "Monte Carlo, 4 draws"),
        interaction=PlainEstimate(0.0, -0.1, 0.1, "difference of the numbers above"),
        validation_loss=None,
        accuracy=None,
        confidence=0.99,
        sites=tuple(sites),
        findings=tuple(findings),
    )


def real() -> Report:
    """One with units, spectrum, certificate, leave-one-out rates and uncertainty."""
    return audit(regression_net(), regression_data(), uncertainty=True, progress=False)


def broken_down() -> Report:
    nan = PlainEstimate(math.nan, math.nan, math.inf, "Monte Carlo, 4 draws")
    whole = fifty()
    first = replace(whole.sites[0], penalty=nan, share=None, curve=(CurvePoint(0.1, nan, math.nan),) * 2)
    return replace(whole, clean_loss=math.nan, training_loss=nan, sites=(first, *whole.sites[1:3]))


@pytest.mark.parametrize("make", [fifty, real, broken_down])
def test_there_and_back(make, tmp_path: Path):
    report = make()
    content = json.loads(report.to_json())
    again = Report.from_dict(content)
    assert again.to_dict() == content == Report.from_json(report.to_json()).to_dict()
    assert type(again.sites[0]) is SiteReport
    report.to_html(tmp_path / "first.html")
    again.to_html(tmp_path / "again.html")
    assert (tmp_path / "first.html").read_bytes() == (tmp_path / "again.html").read_bytes()
    assert page(content) == (tmp_path / "first.html").read_text()
    assert str(again) == str(report)


def test_restored_reports_have_their_types():
    made = real()
    report = Report.from_json(made.to_json())
    (item,) = report.sites
    assert item.penalty == made.sites[0].penalty
    assert item.certificate.gap == pytest.approx(item.certificate.objective - item.certificate.bound)
    assert item.site.shape == (50, 12)
    assert report.uncertainty.variance == made.uncertainty.variance
    with pytest.raises(ValueError, match="report of schema 1, got 7"):
        Report.from_dict({"schema": 7})


@pytest.mark.parametrize("module", [droptics.audits.html, droptics.audits.summary])
def test_what_shows_a_report_knows_only_its_dictionary(module):
    """No import of the report, also not for types, here or in what it imports from this room."""
    folder = Path(module.__file__).parent
    waiting, seen = [Path(module.__file__)], set()
    while waiting:
        path = waiting.pop()
        seen.add(path.stem)
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node, "module", None) if isinstance(node, ast.ImportFrom) else None
            if name and name.startswith("droptics.audits.") and name.rpartition(".")[2] not in seen:
                waiting.append(folder / f"{name.rpartition('.')[2]}.py")
    assert seen >= {"digest", "labels", "findings"}
    assert "report" not in seen


@pytest.mark.parametrize("width", [30, 48, 72, 110, 160])
def test_names_on_the_terminal_never_break_inside_a_word(width):
    report = fifty()
    text = report.text(width)
    assert all(len(line) <= width for line in text.splitlines())
    words = {word for item in report.sites for word in item.site.name.split(".")} | {"{0-11}", "written", "switched;"}
    seen = set(re.findall(r"[\w{}-]+;?", text))
    assert {word for word in words if not word.isdigit()} <= seen


def test_the_largest_penalties_are_so_whatever_their_sign():
    values = (0.2, -0.5, None, 0.4, -0.1)
    sites = [{"name": str(number), "penalty": {"value": value}} for number, value in enumerate(values)]
    sites.append({"name": "none", "penalty": None})
    assert [item["name"] for item in largest({"sites": sites}, 3)] == ["1", "3", "0"]


def test_many_sites_are_rows_of_groups_with_their_sums():
    text = fifty().text(160)
    (line,) = [line for line in text.splitlines() if line.startswith("encoder.layer.{0-11}.output.dropout")]
    total = sum((layer - 3) * 0.04 for layer in range(LAYERS))
    assert f"{total:.4g} ± {0.002 * LAYERS**0.5:.2g}" in line  # the longer side
    assert "12 sites" in line
    assert f"{total / 1.3:.1%}" in line
    assert REASON in " ".join(text.split())
    below = text[text.index("sites of largest penalty") :]
    assert below.index("encoder.layer.11.output.dropout") < below.index("encoder.layer.10.output.dropout")
    small = replace(fifty(), sites=fifty().sites[:3])
    assert "largest" not in small.text()
    assert "encoder.layer.0.attention.self.dropout" in small.text(160)


def test_equal_findings_are_one():
    content = fifty().to_dict()
    bug, note = grouped(content["findings"])
    assert (bug.code, bug.count, bug.sites) == ("DR101", LAYERS, ["encoder.layer.{0-11}.unused"])
    assert (bug.text, bug.details) == ("Dropout(p=0.3) never runs", ())
    assert note.text == "dead units"
    assert note.details == [("encoder.layer.1.unused", "1 of 8 units"), ("encoder.layer.2.unused", "2 of 8 units")]
    strangers = [Finding("note", "a", "one", "x"), Finding("note", "b", "two", "x"), Finding("bug", "c", "one", "x")]
    found = grouped([vars(item) for item in strangers])
    assert [(item.text, item.count) for item in found] == [("one", 2), ("two", 1)]


def test_the_heat_map_has_a_row_per_layer_and_a_column_per_place():
    report = fifty().to_dict()
    heat = heat_map(report)
    assert heat.layers == [str(i) for i in range(LAYERS)]
    assert heat.places == list(PLACES)
    assert heat.cells[11][3]["site"]["name"] == "encoder.layer.11.output.dropout"
    assert heat.most == pytest.approx(0.32)
    assert heat_map({**report, "sites": report["sites"][:MANY]}) is None
    text = page(report)
    assert '<table class="heat">' in text
    assert re.search(r'<td class="n" style="background:rgb\(8,48,107\);color:#fff">0\.32</td>', text)
    assert re.search(r"color:#111\">\(0\)</td>", text), "layer 3 pays nothing that is known"


def test_the_page_holds_every_site_and_names_what_its_pictures_show():
    report = fifty()
    text = page(report.to_dict())
    assert text.count('<details class="site"') == 50
    assert text.count('<tbody class="group">') == 6
    assert re.sub("<wbr>", "", text).count(REASON) >= 2
    pictures = re.findall(r"<svg [^>]*>", text)
    assert len(pictures) == 49
    assert all('role="img"' in picture and 'aria-label="Predicted training loss' in picture for picture in pictures)
    hostile = replace(report, network="<script>alert(1)</script>", sites=(site_report("<b>.x", 0.1),))
    assert "<script>alert" not in page(hostile.to_dict())
    assert "<b>" not in page(hostile.to_dict())


def test_names_are_read_among_their_neighbors():
    names = ["layer.0.mlp.2", "layer.1.mlp.2", "stages.0.blocks.3", "stages.1.blocks.0", "head", "2", "5"]
    found = labels(names)
    assert found["layer.1.mlp.2"].place == "layer.*.mlp.2"
    assert found["stages.1.blocks.0"].index == (1, 0)
    assert found["head"].index == ()
    assert compact(names) == ["layer.{0-1}.mlp.2", "stages.0.blocks.3", "stages.1.blocks.0", "head", "2, 5"]
    grid = labels([f"{i}.{j}" for i in range(3) for j in (1, 3)])
    assert {label.place for label in grid.values()} == {"*.1", "*.3"}
    assert broken("abc.de", 2) == ["abc.", "de"]


@pytest.mark.parametrize(("lower", "upper"), [(1.5, 2.25), (1.75, 2.5)])
def test_what_stands_behind_plus_and_minus_covers_both_ends(lower, upper):
    assert number_text({"value": 2.0, "lower": lower, "upper": upper}) == "2 ± 0.5"


def test_numbers_that_are_not_finite_are_named():
    assert number_text({"value": None, "lower": None, "upper": None}) == "not finite"
    assert number_text({"value": 2.0, "lower": 2.0, "upper": 2.0}) == "2"
    assert number_text({"value": 2.0, "lower": None, "upper": None}) == "2"
    assert "not finite" in broken_down().text()


def test_a_page_of_a_network_with_everything(tmp_path: Path):
    text = real().to_html(tmp_path / "page.html").read_text()
    for words in ("leave-one-out", "no network of this width gets below", "Flows of 12 units", "dropout optimum"):
        assert words in text
    labeled = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Dropout(), nn.Linear(5, 3)).double()
    classes = audit(labeled, (normal(30, 6), torch.arange(30) % 3), draws=2, progress=False)
    assert "sub-networks" in page(classes.to_dict())


def test_the_line_on_further_findings_fits_the_width():
    findings = [Finding("note", f"site.{i}", f"text {i}", "advice", f"X{i:03}") for i in range(14)]
    report = replace(audit(regression_net(), regression_data()), findings=tuple(findings))
    lines = report.text(40).splitlines()
    assert max(map(len, lines)) <= 40
    assert "... and 2 more kinds of findings in the JSON and HTML reports" in " ".join(" ".join(lines).split())


@pytest.mark.parametrize(("count", "together"), [(MANY - 1, False), (MANY, False), (MANY + 1, True)])
def test_sites_are_grouped_where_they_are_more_than_fit(count, together):
    first = fifty()
    sites = [replace(first.sites[0], site=replace(first.sites[0].site, name=f"a.{i}")) for i in range(count)]
    text = replace(first, sites=sites, findings=()).text(160)
    assert (f"{count} sites" in text) is together
    assert ("largest" in text) is together


@pytest.mark.parametrize("schema", [0, 2, "1", None])
def test_what_has_another_schema_or_none_is_no_report(schema):
    content = fifty().to_dict()
    with pytest.raises(ValueError, match=f"report of schema 1, got {schema!r}"):
        Report.from_dict(content | {"schema": schema})
    del content["schema"]
    with pytest.raises(ValueError, match="report of schema 1, got None"):
        Report.from_dict(content)


@pytest.mark.parametrize("level", [None, 9.0, -3.0])
def test_nothing_that_is_drawn_leaves_its_frame(level):
    """Lines, the band around the first, and the level: between the axes, and the most of them at the ends."""
    values, band = {"a": [2.0, 4.0, 3.0], "b": [2.5, 2.0, 3.5]}, ([-1.0, 3.0, 2.5], [2.5, 7.0, 3.5])
    line = None if level is None else ("level", level)
    text = curves([0.1, 0.2, 0.5], values, axes=("rate", "loss"), alt="", band=band, level=line)
    places = [
        tuple(map(float, pair.split(","))) for part in re.findall(r'points="([^"]*)"', text) for pair in part.split()
    ]
    left, top, bottom, right = map(float, re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)H([\d.]+)", text)[0])
    across, up = zip(*places, strict=True)
    assert (min(across), max(across)) == (left, right)
    assert (min(up), max(up)) == (top, bottom)
    ends = [-1.0, 7.0] if level is None else [min(-1.0, level), max(7.0, level)]
    # coordinates have one decimal
    heights = [
        bottom - (value - ends[0]) / (ends[1] - ends[0]) * (bottom - top) for value in (*band[0], *reversed(band[1]))
    ]
    assert up[:6] == pytest.approx([*heights], abs=0.06)


def test_sites_of_a_group_have_its_place_and_its_kind():
    kinds = ["dropout", "drop path", "dropout", "dropout2d"]
    sites = [
        site_report(f"layer.{i}.{end}", 0.1, kind=kind)
        for i in range(3)
        for end, kind in zip("abcc", kinds, strict=True)
    ]
    found = groups(replace(fifty(), sites=sites).to_dict())
    told = [(group.place, group.kind, list(group.names)) for group in found]
    assert told == [
        (f"layer.*.{end}", kind, [f"layer.{i}.{end}" for i in range(3)])
        for end, kind in zip("abcc", kinds, strict=True)
    ]


def test_the_band_of_a_curve_is_as_wide_as_the_intervals_of_its_penalties():
    """Losses of 1.2, 1.6 and 2, of which 0.1, 0.25 and 0.5 are not known, above a loss of 1 without dropout.

    Upwards three fifths of that.
    """
    numbers = [
        PlainEstimate(loss - 1, loss - 1 - half, loss - 1 + 0.6 * half, "x")
        for loss, half in ((1.2, 0.1), (1.6, 0.25), (2.0, 0.5))
    ]
    curve = [CurvePoint(rate, number, 1 + number.value) for rate, number in zip((0.1, 0.3, 0.7), numbers, strict=True)]
    content = replace(fifty(), sites=[replace(fifty().sites[0], curve=curve, units=None)]).to_dict()
    ((_, picture),) = pictures(content["sites"][0], content)
    band, line, level = (
        [float(pair.split(",")[1]) for pair in part.split()]
        for part in re.findall(r'poly\w+ points="([^"]*)"', picture)
    )
    unit = level[0] - line[2]  # from a loss of 1 to a loss of 2
    halves = [unit * half for half in (0.1, 0.25, 0.5)]
    wanted = [height + half for height, half in zip(line, halves, strict=True)]
    wanted += [height - 0.6 * half for height, half in reversed(list(zip(line, halves, strict=True)))]
    assert band == pytest.approx(wanted, abs=0.21)  # coordinates have one decimal, and stand in two of three terms


def test_rows_of_the_page_lead_to_their_sites():
    text = page(fifty().to_dict()).replace("<wbr>", "")
    links = re.findall(r'data-name="([^"]*)".*?href="#(site\d+)"', text, re.DOTALL)
    headed = dict(re.findall(r'id="(site\d+)".*?<code>([^<]*)</code>', text, re.DOTALL))
    assert len(links) == len(headed) == 50
    assert all(headed[place] == name for name, place in links)


@pytest.mark.parametrize("count", [1, 2, MANY + 1])
def test_what_sites_do_together_is_a_row_where_there_are_several(count):
    text = replace(fifty(), sites=fifty().sites[2 : 2 + count], findings=()).text(160)
    assert ("all sites together" in text) is (count > 1)
