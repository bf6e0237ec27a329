"""The demo end to end, with fewer claims and figures than a person would be shown."""

import contextlib
import io
import json
import re
import sys

import numpy as np
import pytest
import torch
from commands import droptics

from droptics.cli import demo_sections, main
from droptics.cli.demo import demo_command
from droptics.cli.demo_page import Section, write_page
from droptics.datasets import planted_ratings
from droptics.papers import claims


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What the demo prints, and the folder it writes."""
    out = tmp_path_factory.mktemp("demo") / "page"
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_sections, "DEMO_PAPERS", ())
        patch.setattr(demo_sections, "DEMO_FIGURES", ("thesis-fig6-1", "helmbold2017-fig1"))
        patch.setattr(sys, "argv", ["droptics", "demo", "--out", str(out)])
        patch.setenv("COLUMNS", "240")
        with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as leaving:
            main()
    assert not leaving.value.code
    return printed.getvalue(), out


def truncated_svd_error() -> float:
    """What the demo has to beat: the table with zeros for what is missing, at its best rank and scale for the test."""
    train, test = planted_ratings((600, 400, 30_000), rank=5, noise=0.8, seed=0).split(0.1, seed=0)
    table = np.zeros((600, 400))
    table[train.users, train.items] = train.values - train.values.mean()
    left, sizes, right = np.linalg.svd(table, full_matrices=False)
    wanted, errors = test.values - train.values.mean(), []
    for rank in range(1, 21):
        found = ((left[:, :rank] * sizes[:rank]) @ right[:rank])[test.users, test.items]
        errors.append(np.mean((found * (found @ wanted) / (found @ found) - wanted) ** 2) ** 0.5)
    return float(min(errors))


@pytest.mark.slow
def test_the_demo_answers_every_question(shown):
    printed, out = shown
    assert printed.strip().splitlines()[-1].strip() == str((out / "index.html").resolve())
    exact, listed = (re.search(rf"{name}\s+([\d.]+)", printed)[1] for name in ("closed form", "all masks"))
    assert float(exact) == pytest.approx(float(listed), rel=1e-10)
    for rate in ("0.0", "0.2", "0.5", "0.8"):
        found = re.search(rf"rate {re.escape(rate)}: least training loss ([\d.]+), proved bound ([\d.]+)", printed)
        assert found[1] == found[2]
    above = [float(share) for share in re.findall(r"after 1500 steps ([\d.]+)% above the global optimum", printed)]
    assert 0 < above[1] < above[0] < 10  # nobody beats the bound, and randomness costs something
    error = float(re.search(r"test error ([\d.]+) \(no predictor gets below 0.8\)", printed)[1])
    assert 0.8 < error < truncated_svd_error()
    assert len(re.findall(r"radius 0\.\d: error", printed)) == 5
    assert f"4 of the {len(claims())} statements" in printed
    assert "2 figures computed again: thesis-fig6-1, helmbold2017-fig1" in printed


@pytest.mark.slow
def test_the_page_holds_the_pictures_and_links_that_exist(shown):
    _, out = shown
    page = (out / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 6
    links = re.findall(r'href="([^"#:]+)"', page)
    assert "audit.html" in links
    for link in links:
        assert (out / link).is_file()
    assert not [item for item in out.iterdir() if item.name.endswith(".partial")]


@pytest.mark.slow
def test_pictures_say_in_words_what_they_show(shown):
    page = (shown[1] / "index.html").read_text()
    words = re.findall(r'<img src="[^"]*" alt="([^"]*)">', page)
    assert len(words) == 6
    assert "exact penalty for drop probability 0.02 to 0.8: dropout from" in words[0]
    assert all(re.search(r"\d.*\d", text) for text in words), "numbers, not only a title"


def test_the_words_of_curves():
    picture = demo_sections.curves_of("c", [0, 1, 2], {"a": [3.0, 1.0, 2.0], "b": [1.0, 2.0, 4.0]}, ("x", "y"))
    assert picture.text == "y for x 0 to 2: a from 3 to 2, least 1 at 1; b from 1 to 4."


@pytest.mark.slow
def test_every_part_of_the_page_shows_the_command_and_the_code_that_made_it(shown):
    page = (shown[1] / "index.html").read_text()
    parts = page.split("<section ")[1:]
    assert len(parts) == len(demo_sections.SECTIONS)
    for part, (build, _) in zip(parts, demo_sections.SECTIONS.values(), strict=True):
        assert f"def {build.__name__}(out: Path) -&gt; Section:" in part
        assert "<code><span>droptics</span> " in part


def test_the_demo_is_refused_a_file_for_its_folder_before_it_begins(tmp_path, monkeypatch):
    (tmp_path / "there").write_text("")
    monkeypatch.setattr(demo_sections, "SECTIONS", {"any": (lambda out: pytest.fail("it has begun"), 1)})
    done = droptics("demo", "--out", "there", cwd=tmp_path)
    assert done.returncode == 2
    assert "there" in done.stderr


def test_the_demo_prints_the_path_of_its_page_as_it_stands(tmp_path, monkeypatch, capsys):
    def any_section(out):
        return Section("any", ["x[0] is :fire: [bold]"])

    out = tmp_path / "of[a]:fire:[b]"
    monkeypatch.setattr(demo_sections, "SECTIONS", {"any": (any_section, 1)})
    demo_command(out)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert str(out / "index.html") in lines
    assert "x[0] is :fire: [bold]" in lines


def test_attacked_digits_stay_digits(tmp_path, monkeypatch):
    """Perturbed pixels remain between black and white, at every radius and for both losses."""
    asked = []
    digits = torch.rand(1300, 64, generator=torch.Generator().manual_seed(0)), torch.zeros(1300, dtype=torch.int64)
    monkeypatch.setattr(demo_sections, "digits", lambda: digits)
    monkeypatch.setattr(demo_sections, "_trained_classifier", lambda *given: None)
    monkeypatch.setattr(demo_sections, "robustness_curve", lambda *given: asked.append(given) or given[-1])
    monkeypatch.setattr(demo_sections, "curves_of", lambda *given: None)
    section = demo_sections.robustness(tmp_path)
    assert [threat.box for _, _, threat, _, _ in asked] == [(0, 1)] * 2
    assert all(torch.equal(data.inputs, digits[0][1200:]) for _, data, *_ in asked)
    assert len(section.lines) == len(asked[0][-1])


def test_sliders_hold_what_the_tables_hold(tmp_path):
    """Without a script the page shows the same values as a table, and no slider."""
    sections = [build(tmp_path) for build in (demo_sections.exact_penalty, demo_sections.global_optimum)]
    page = write_page(sections, tmp_path).read_text()
    assert "<script src" not in page
    assert page.count('type="range"') == page.count(" hidden>") == page.count("<table>") == 2
    loss, added, share = re.search(r"At rate 0.50 dropout adds (\S+) to a loss of (\S+): (\d+%)", page).group(2, 1, 3)
    assert f"the loss without dropout is {loss}: at rate 0.5 dropout adds {share} to it" in sections[0].lines
    assert float(added) / float(loss) == pytest.approx(float(share[:-1]) / 100, abs=0.0051)
    for text, section in zip(re.findall(r"data-slider='(.*?)'", page), sections, strict=True):
        held = json.loads(text)
        assert list(held["series"]) == list(section.slider.series)
        assert held["rates"] == list(section.slider.rates)
        assert len(held["notes"]) == len(held["rates"])
        for name, values in held["series"].items():
            assert f'<th scope="col">{name}</th>' in page
            assert values == pytest.approx(section.slider.series[name], rel=1e-5)
            assert f"<td>{section.slider.series[name][-1]:.5g}</td>" in page
    spectrum = sections[1].slider.series
    assert spectrum["singular value 1"] == sorted(spectrum["singular value 1"], reverse=True)  # dropout shrinks
