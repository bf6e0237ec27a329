"""What claims on the pages of audits compare: layers that are left out, heat maps, groups, rules of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn

from droptics.audits.digest import groups, heat_map, largest
from droptics.audits.findings import KINDS, Remark, finding, remarks
from droptics.audits.html import _cell, breakable, slider
from droptics.audits.layer_drop import held_layers, leaving_out, quiet_parts
from droptics.audits.outcomes import left_out
from droptics.evidence.claims import Comparison, compare
from droptics.models.watching import Trace
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import tensor


class Skipping(nn.Module):
    """A stack of layers, each of which is left out with some probability."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.layers, self.layerdrop, self.head = nn.ModuleList([nn.ReLU(), nn.Tanh()]), rate, nn.Identity()


def layers(scale: float) -> list[Comparison]:
    """Layers that are left out as a whole: by which part, at which rate, and what it adds."""
    found: list[Comparison] = []
    whole = nn.ModuleDict({"one": Skipping(0.2), "two": Skipping(0.0), "three": nn.Dropout(0.3)})
    for drawn, wanted in (
        ({"one.rand": [1, 1]}, {"one": 0.2}),
        ({"one.rand": [1, 1], "two.rand": [1]}, {"one": 0.2, "two": 0.0}),
        ({"one.rand": [1, 2]}, {}),
        ({"three.rand": [1]}, {}),
        ({}, {}),
    ):
        found.append(same(leaving_out(whole, Trace(drawn=drawn)), wanted, f"left out: {wanted}", scale))
    found.append(same(leaving_out(Skipping(1.0), Trace(drawn={"rand": [1]})), {}, "no probability", scale))
    found.append(same(leaving_out(Skipping(0.1), Trace(drawn={"rand": [1]})), {"": 0.1}, "the module itself", scale))
    found.append(same(held_layers(whole, "one"), ["one.layers.0", "one.layers.1"], "its layers", scale))
    found.append(same(held_layers(Skipping(0.1), ""), ["layers.0", "layers.1"], "layers of the module", scale))
    found.append(same(quiet_parts(whole, ["one.layers.1"]), ["one", "two"], "parts that decide", scale))

    sums, skipped = tensor([1.0, 2.0]), tensor([3.0, 5.0])
    seen: list[Any] = []

    class Asked:
        def losses(self, masks: Any, start: Any) -> Tensor:
            seen.append((list(masks), [float(value) for value in masks["a"]], start[1]))
            return skipped

    base: Any = SimpleNamespace(recording=SimpleNamespace(places={"a": 7}), sums=sums)
    told = left_out(Asked(), base, SimpleNamespace(name="a", rate=0.2))  # type: ignore[arg-type]
    found.append(compare(told, "==", scale * 0.2 * (skipped - sums), "what leaving out adds"))
    found.append(same(seen, [(["a"], [0.0], 7)], "what is run", scale))
    absent = left_out(Asked(), base, SimpleNamespace(name="b", rate=0.2))  # type: ignore[arg-type]
    found.append(compare(1 + absent, "==", scale * tensor([1.0, 1.0]), "never reached"))
    return found


def _item(name: str, value: float | None, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    number = {"value": value, "lower": value if low is None else low, "upper": value if high is None else high}
    site = {"name": name, "kind": "dropout", "rate": 0.1, "reason": None}
    return {"site": site, "penalty": number | {"method": "exact"}, "share": 0.1, "curve": []}


def pages(scale: float) -> list[Comparison]:
    """Heat maps, their cells, and sites in the order in which they run."""
    found: list[Comparison] = []
    for value, low, high, color, ink, text in (
        (4.0, 3.0, 5.0, (8, 48, 107), "#fff", "4"),
        (1.0, -1.0, 3.0, (132, 152, 181), "#fff", "(1)"),
        (-0.04, -0.05, -0.03, (230, 234, 240), "#111", "-0.04"),
        (0.0, None, None, (255, 255, 255), "#111", "0"),
        (16.0, 15.0, 17.0, (8, 48, 107), "#fff", "16"),
        (0.123456, 0.0, 1.0, (212, 219, 229), "#111", "0.12"),
    ):
        cell = f'<td class="n" style="background:rgb({color[0]},{color[1]},{color[2]});color:{ink}">{text}</td>'
        found.append(same(str(_cell(_item("a", value, low, high), 4.0)), cell, f"a cell of {value}", scale))
    none = '<td class="none"><span class="hidden">no site</span></td>'
    found.append(same(str(_cell(None, 4.0)), none, "no site", scale))
    for odd in (_item("a", None), _item("a", 1.0) | {"penalty": None}):
        found.append(same(str(_cell(odd, 4.0)), '<td class="none">?</td>', "no number", scale))
    found.append(same(str(breakable("a.b<c")), "a.<wbr>b&lt;c", "names that break", scale))
    points = [{"rate": 0.1, "training_loss": 2.0}, {"rate": 0.3, "training_loss": 2.5}]
    found.append(same(slider({"curve": points}), "[[0.1, 2.0], [0.3, 2.5]]", "a slider", scale))
    names = [f"net.layers.{layer}.{part}" for layer in range(10, 2, -1) for part in ("z", "a.drop")]
    sites = [_item(name, 0.25 - k) for k, name in enumerate(names) if name != "net.layers.4.z"]
    heat = heat_map({"sites": [*sites, _item("head", 99.0)]})
    assert heat is not None
    found.append(
        same((list(heat.places), list(heat.layers)), (["z", "a.drop"], [*map(str, range(3, 11))]), "axes", scale)
    )
    cells = [[None if cell is None else cell["site"]["name"] for cell in row] for row in heat.cells]
    wanted = [[f"net.layers.{layer}.z" if layer != 4 else None, f"net.layers.{layer}.a.drop"] for layer in range(3, 11)]
    found.append(same(cells, wanted, "cells", scale))
    found.append(compare(heat.most, "==", scale * 14.75, "the largest"))
    two = [_item(f"l.{layer}.{part}", 1.0) for layer in range(2) for part in "abcdef"]
    found.append(same((heat_map({"sites": two}) is None, heat_map({"sites": two[:11]})), (False, None), "few", scale))
    found.append(same(heat_map({"sites": [_item(f"l.0.{part}", 1.0) for part in "abcdefghijklm"]}), None, "one", scale))
    order = [(group.place, list(group.names)) for group in groups({"sites": sites[:4]})]
    found.append(
        same(order, [("net.layers.*.z", names[0:4:2]), ("net.layers.*.a.drop", names[1:4:2])], "groups", scale)
    )
    ranked = [item["site"]["name"] for item in largest({"sites": [*sites[:4], _item("x", None)]}, 3)]
    found.append(same(ranked, [names[3], names[2], names[1]], "largest first", scale))
    return found


def registered(scale: float) -> list[Comparison]:
    """A rule of one's own has its texts and speaks in the order of codes; a code is taken once."""
    found: list[Comparison] = []

    def rule(evidence: Any) -> Iterator[Remark]:
        yield Remark("a", "seen")
        yield Remark("b", "seen too", "do that")

    rule.__doc__ = "What it means."

    def another(evidence: Any) -> Iterator[Remark]:
        yield Remark("c", "first")

    class Evidence:
        pass

    def enter(code: str, level: str, what: Any) -> Any:
        return finding(code, level, "a title", asks=Evidence, evidence="what was seen", mend="mend it")(what)

    try:
        found.append(
            same(enter("XX2", "note", rule) is rule and enter("XX2", "note", rule) is rule, True, "twice", scale)
        )
        enter("XX1", "bug", another)
        kind = KINDS["XX2"]
        texts = (kind.code, kind.level, kind.title, kind.meaning, kind.evidence, kind.mend, kind.asks, kind.rule)
        wanted = ("XX2", "note", "a title", "What it means.", "what was seen", "mend it", Evidence, rule)
        found.append(same(texts, wanted, "a kind of one's own", scale))
        found.append(same(KINDS["XX1"].meaning, "", "no docstring", scale))
        told = [(one.level, one.site, one.text, one.advice, one.code) for one in remarks(Evidence())]
        said = [
            ("bug", "c", "first", "mend it", "XX1"),
            ("note", "a", "seen", "mend it", "XX2"),
            ("note", "b", "seen too", "do that", "XX2"),
        ]
        found.append(same(told, said, "findings by code", scale))
        found.append(refuses(lambda: enter("XX2", "note", another), "is taken by 'a title'"))
        found.append(refuses(lambda: enter("XX3", "hint", another), "level must be one of"))
    finally:
        KINDS.pop("XX1", None)
        KINDS.pop("XX2", None)
    return found
