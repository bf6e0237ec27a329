"""The numbers on the page about audits are those on record."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = {
    "encoder of 12 layers": "bert-12_1024",
    "the same, few examples": "bert-12_64",
    "causal decoder of 4 layers": "gpt-4_64",
    "convolutional": "cnn_64",
}


@pytest.mark.parametrize("label", ROWS)
def test_the_table_of_deep_networks_is_the_record(label: str) -> None:
    record = json.loads((ROOT / "benchmarks" / "results" / "x86_64" / "audit_models.json").read_text())
    prefix = f"{ROWS[label]}_"
    known = {key.removeprefix(prefix): value for key, value in record.items() if key.startswith(prefix)}
    page = (ROOT / "docs" / "audit.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {label} |")]
    cells = [cell.strip() for cell in line.strip("|").split("|")][1:]
    assert cells == [
        f"{known['sites']:.0f}",
        f"{known['examples']:,.0f}",
        f"{known['passes']:.0f}",
        f"{known['resolved_median']:g} ({known['resolved_least']:g})",
        f"{known['excluding_zero_median']:g}",
        f"{100 * known['coverage']:.3g} %",
        f"{known['variance_reduction_median']:.0f}",
    ]


def test_the_table_of_certified_widths_is_the_record() -> None:
    record = json.loads((ROOT / "benchmarks" / "results" / "x86_64" / "certified.json").read_text())
    names = {
        "perceptron, CIFAR-10": "cifar10",
        "perceptron, MNIST": "mnist",
        "perceptron, Fashion-MNIST": "fashion_mnist",
        "convolutional, CIFAR-10": "cifar10_cnn",
    }
    page = (ROOT / "docs" / "rooms" / "penalties.md").read_text()
    seen = set()
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in names:
            key = f"{names[cells[0]]}_{cells[1].replace(',', '')}_{cells[2]}"
            none, eight = (record[f"{key}_{units}_width"] for units in (0, 8))
            assert cells[3:] == [f"{100 * none:.3g} %", f"{100 * eight:.2g} %"]
            assert none <= 0.25
            assert eight <= 0.1
            seen.add(key)
    assert seen == {key.removesuffix("_0_width") for key in record if key.endswith("_0_width")}
