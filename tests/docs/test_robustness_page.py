"""The page on the strength of attacks says what its records say, also where they speak against us."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setattr(sys, "path", [str(DOCS), str(DOCS.parent / "benchmarks"), *sys.path])
    from robustness_page import robustness_page

    return robustness_page


def write(folder: Path, name: str, rows: list[dict[str, object]]) -> None:
    head = {"machine": "toaster", "cores": 2, "versions": {"torch": "9"}}
    (folder / f"{name}.json").write_text(json.dumps(head | {"rows": rows}))


def test_it_counts_what_is_kept_and_what_is_missed(page, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    rows = [
        {"workload": "a-plain, linf 0.1", "ours": 1.0, "alternative": 9.0, "ratio": 9.0},
        {"workload": "b-plain, l2 1", "ours": 1.0, "alternative": 2.0, "ratio": 2.0},
        {"workload": "c-plain, l2 1", "ours": None, "alternative": None, "ratio": None, "agreement": ""},
    ]
    said = ("clean 0.900, robust 0.300 and 0.300", "clean 0.900, robust 0.310 and 0.300", "")
    rows[0]["note"] = (
        "found by Pgd() 3 in 0.1 s; Square(queries=5000) 0 in 1.20 s; Apgd(Margin('every'), steps=20) 1 in 0.1 s"
    )
    rows[1]["note"] = "found by Apgd(Margin('every'), steps=20) 3 in 0.1 s; Square(queries=5000) 0 in 1.20 s"
    write(tmp_path, "robustness", [row | {"agreement": text} for row, text in zip(rows, said, strict=True)])
    text = page(tmp_path)
    assert "At most AutoAttack's robust accuracy in 1 of 2 rows, five times as fast or more in 1." in text
    assert "1 of them are of an earlier ensemble" in text
    write(tmp_path, "robustness", [rows[0] | {"agreement": said[0]}])
    assert "earlier ensemble" not in page(tmp_path)
    assert "Measured on: toaster, 2 cores, torch 9." in text
    assert "Single attacks" not in text


def test_rows_of_another_beginning_are_of_an_earlier_ensemble(page, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    step, end = "Fgsm(Margin('greedy'), steps=1) 3 in 0.1 s; ", "Square(queries=9) 0 in 1.20 s; Apgd(Margin('every'), s"
    notes = {
        "a-cnn-plain": f"found by {step}{step}Pgd() 0 in 0.00 s; {end}",
        "b-cnn-plain": f"found by {step}Pgd() 0 in 0.00 s; {end}",
        "c-mlp-plain": f"found by Pgd() 0 in 0.00 s; {end}",
    }
    common = {"ours": 1.0, "alternative": 9.0, "ratio": 9.0, "agreement": "clean 0.900, robust 0.300 and 0.300"}
    rows = [common | {"workload": f"{name}, l2 1", "note": note} for name, note in notes.items()]
    write(tmp_path, "robustness_gpu", rows)
    assert " 1 of them are of an earlier ensemble" in page(tmp_path)
    write(tmp_path, "robustness_gpu", [rows[0], rows[2]])
    assert "earlier ensemble" not in page(tmp_path)


def test_the_least_work_is_named_where_five_times_is_not_reached(page, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    common = {"ours": 0.5, "alternative": 2.0, "ratio": 4.0, "agreement": "clean 0.900, robust 0.300 and 0.300"}
    row = common | {"workload": "a-cnn-plain, l2 1", "note": "found by x; one gradient and one pass 0.10000 s"}
    write(tmp_path, "robustness_gpu", [row])
    assert "of a fifth of AutoAttack's time: 25 % (a-cnn-plain, l2)." in page(tmp_path)
    write(tmp_path, "robustness_gpu", [row | {"ratio": 5.0}])
    assert "a fifth of AutoAttack's" not in page(tmp_path)


def test_differences_are_in_standard_errors(page, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    pairs = {
        "worse": ([0.51, 0.52, 0.53, 0.54, 0.55], [0.41, 0.42, 0.43, 0.44, 0.45]),
        "equal": ([0.5, 0.52, 0.5, 0.52, 0.5], [0.52, 0.5, 0.52, 0.5, 0.5]),
        "better without noise": ([0.1] * 5, [0.2] * 5),
    }
    rows = [
        {"workload": f"net, linf 0.1, {name}", "ours": 1.0, "alternative": 2.0, "ratio": 2.0, "note": json.dumps(pair)}
        for name, pair in pairs.items()
    ]
    write(tmp_path, "robustness_pieces", rows)
    text = page(tmp_path)
    assert "Of 3 comparisons ours finds fewer by more than two standard errors in 1, more in 1;" in text
    assert "+0.1000 (+10.0)" in text  # variances 0.00025 each: sqrt(0.0005 / 5) = 0.01


def test_every_recorded_row_is_on_the_page(page) -> None:  # type: ignore[no-untyped-def]
    results = DOCS.parent / "benchmarks" / "results"
    text = page(results)
    for file in results.glob("robustness*.json"):
        for row in json.loads(file.read_text())["rows"]:
            assert row["workload"].split(", ")[0] in text
