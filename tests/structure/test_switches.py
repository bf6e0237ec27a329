"""Only a law knows whether its units are independent, and only spectra which kind of closed form a law has."""

from pathlib import Path

import pytest

import droptics
from structure.switches import switches

PACKAGE = Path(droptics.__file__).parent


def test_nobody_else_asks():
    assert switches(PACKAGE) == []


@pytest.mark.parametrize(
    ("place", "line", "message"),
    [
        ("optima/two_layer.py", "faster = masks.independent", "whether units are independent"),
        ("heads/ridge.py", "if law.independent:\n    pass", "whether units are independent"),
        ("equalization/families.py", "blocks = isinstance(masks, Block)", "asks for Block"),
        ("penalties/penalty.py", "relu = isinstance(model, ReLUNet)", "names ReLUNet"),
        ("optima/optimum.py", "known = {TwoLayerLinear: None}", "names TwoLayerLinear"),
        ("envelopes/two_layer.py", "Gaussian(0.5, 3)", "asks for Gaussian"),
    ],
)
def test_a_planted_question_is_found(tmp_path, place, line, message):
    target = tmp_path / place
    target.parent.mkdir(parents=True)
    target.write_text((PACKAGE / place).read_text())
    assert switches(tmp_path) == []
    target.write_text((PACKAGE / place).read_text() + "\n" + line + "\n")
    assert any(message in found for found in switches(tmp_path))
