"""The page of claims: every function that a claim names is a link, to the API or to its line in the sources."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from droptics.papers import claims

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\[`(\w+)`\]\(\S+?/main/(src/droptics/\S+)#L(\d+)\)")


def test_functions_that_claims_name_are_linked(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), str(ROOT / "benchmarks"), *sys.path])
    from generate import _documented, recorded_page

    page = recorded_page(claims())
    shown = _documented()
    assert {"droptics.penalties.penalty", "droptics.training.train_lazy"} <= shown
    referred = set(re.findall(r"\{py:obj\}`~([\w.]+)`", page))
    assert "droptics.training.train_lazy" in referred
    assert {name for name in referred if name not in shown and name.rpartition(".")[0] not in shown} == set()
    lines = {name: (file, int(number)) for name, file, number in LINK.findall(page)}
    assert "reflected_pgd" in lines
    for name, (file, number) in lines.items():
        begun = (ROOT / file).read_text(encoding="utf-8").splitlines()[number - 1 : number + 3]
        assert any(name in line for line in begun), name
    for claim in claims():
        for name in claim.objects:
            last = name.rpartition(".")[2]
            assert last in lines or any(known.endswith(f".{last}") for known in referred), claim.id
