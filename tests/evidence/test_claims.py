"""Claims: the tolerance rule, the verdicts, all statements of the works, and proof that a broken formula shows."""

from __future__ import annotations

import ast
import importlib
import itertools
import json
import math
import re
import sys
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import get_args

import pytest
import torch
import typer
from tracing import executed, ran, resolve, unnamed
from typer.testing import CliRunner

import droptics
from droptics import papers
from droptics.cli.verify import verify_command
from droptics.evidence.claims import (
    REFUTED,
    Claim,
    Comparison,
    Erratum,
    Relation,
    Result,
    compare,
    decide,
    nearest,
    select,
)
from droptics.evidence.engines import Done
from droptics.evidence.pages import check_place, claims_page, errata_page, shown_output, write_pages
from droptics.papers import PAPERS, claims, figures, verify
from droptics.progress import shown

SOURCES = Path(droptics.__file__).parent
PATTERN = re.compile(
    r"\b((?:mianjy2018|thesis|pal2020|helmbold2017)-(?:thm|lem|prop|cor|rem|def|alg|eq|fig|tab|sec|asm)[\w.\-]*\w)"
)


@pytest.mark.parametrize(
    ("left", "relation", "right", "holds"),
    [
        (1.0, "==", 1.0 + 1e-10, True),
        (1.0, "==", 1.0 + 1e-8, False),
        (1e6, "==", 1e6 + 1e-4, True),
        (1.0, "<=", 1.0 - 1e-10, True),
        (1.0, "<=", 0.9, False),
        (1.0, "<", 1.0 + 1e-10, False),
        (1.0, "<", 1.1, True),
        (1.0, ">", 1.0 - 1e-10, False),
        (1.1, ">", 1.0, True),
        (1.0, ">=", 1.0 + 1e-10, True),
        (1.0, "!=", 1.0 + 1e-10, False),
        (1.0, "!=", 1.1, True),
        (math.inf, "==", math.inf, True),
        (math.inf, "<=", 1.0, False),
        (1.0, "<", math.inf, True),
        (math.nan, "==", math.nan, False),
        (math.nan, "!=", 1.0, False),
        (math.inf, "!=", math.inf, False),
    ],
)
def test_the_tolerance_rule(left, relation, right, holds):
    assert Comparison(left, relation, right).holds is holds


def test_two_numbers_share_the_scale_of_the_larger_one():
    """A miss of 1e-6 is nothing beside a million, at the default precision of 1e-9, and something beside one."""
    left = torch.tensor([1e6, 1.0], dtype=torch.float64)
    right = torch.tensor([1e6, 1.0 + 1e-6], dtype=torch.float64)
    item = compare(left, "==", right)
    assert (item.left, item.scale, item.holds) == (1.0, 1e6, True)
    assert not compare(left[1], "==", right[1]).holds
    assert not compare(left / 1e6, "==", right / 1e6 + 1e-6).holds


def test_numbers_below_one_have_the_scale_of_one_unless_another_is_asked_for():
    small = torch.tensor([1e-3, 2e-3], dtype=torch.float64)
    for scale, wanted in (({}, 1.0), ({"scale": 0.0}, 2e-3), ({"scale": 0.5}, 0.5)):
        assert compare(small, "==", small, **scale).scale == wanted


def test_comparisons_hold_plain_numbers_whatever_they_are_given():
    found = compare(torch.tensor(2.0), "==", 2.5, "x", torch.tensor(0.1), torch.tensor(8.0))
    assert json.loads(json.dumps(asdict(found))) == asdict(found)
    assert found.holds


def test_compare_keeps_the_worst_entry():
    item = compare(torch.tensor([1.0, 5.0, 2.0]), "<=", torch.tensor([2.0, 3.0, 2.0]), "label")
    assert (item.left, item.right, item.holds) == (5.0, 3.0, False)
    assert not compare(torch.tensor([1.0, math.nan]), "<=", 2.0).holds
    assert "FAILS" in str(item)
    with pytest.raises(ValueError, match="must hold numbers to compare"):
        compare(torch.zeros(0), "==", 0.0)
    with pytest.raises(ValueError, match="relation must be"):
        Comparison(1.0, "~", 1.0)


def good():
    return [compare(1.0, "==", 1.0)]


def bad():
    return [compare(1.0, "==", 2.0)]


def crash():
    raise RuntimeError("no")


BASE = Claim("toy-thm1", "Toy", "One is one.", check=good, control=bad)
ERRATUM = Erratum("1 = 2", "a kind reading", "what is wrong", "toy-thm1", "print(1)\nprint(2)")


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "holds"),
        ({"control": good}, "undecided"),
        ({"check": bad, "control": bad}, "undecided"),
        ({"check": bad, "control": good}, "false"),
        ({"check": list}, "undecided"),
        ({"outside": bad}, "holds only if"),
        ({"outside": good}, "holds"),
        ({"vacuity": good}, "vacuous"),
        ({"vacuity": bad}, "holds"),
        ({"check": crash}, "error"),
        ({"control": crash}, "error"),
    ],
)
def test_verdicts_follow_from_the_evidence(changes, verdict):
    start = time.perf_counter()
    result = decide(replace(BASE, **changes))
    assert 0 <= result.seconds <= time.perf_counter() - start
    assert result.verdict == verdict
    assert result.agrees is (verdict == "holds")


def test_a_claim_must_say_what_shows_it():
    with pytest.raises(ValueError, match="needs a check and a control"):
        Claim("toy-thm1", "Toy", "x")
    with pytest.raises(ValueError, match="without what shows it"):
        replace(BASE, verdict="holds only if")
    with pytest.raises(ValueError, match="says why in its note"):
        Claim("toy-thm1", "Toy", "x", "not checked")
    with pytest.raises(ValueError, match="without what shows it"):
        replace(BASE, verdict="slip")
    with pytest.raises(ValueError, match="has an erratum"):
        replace(BASE, erratum=ERRATUM)
    with pytest.raises(ValueError, match="verdict must be"):
        replace(BASE, verdict="perhaps")


def test_the_kind_of_a_failure_is_on_record_and_that_it_fails_is_computed():
    for kind in REFUTED:
        failing = replace(BASE, check=bad, control=good, verdict=kind, erratum=ERRATUM)
        assert decide(failing).verdict == kind
        assert decide(replace(failing, check=good, control=bad)).verdict == "holds"


@pytest.mark.slow
@pytest.mark.parametrize("paper", [paper.key for paper in PAPERS])
def test_every_claim_has_its_recorded_verdict_and_names_what_it_runs(paper):
    """One run of each claim under a profiler: the verdict, that all it names was executed, and that it names what its
    checks call; of laws, models and data, which these are about, it names the ones that it is about."""
    wrong, idle, silent = {}, {}, {}
    for module in [module for name, module in sys.modules.items() if name.startswith("droptics.papers.")]:
        for kept in [thing for thing in vars(module).values() if hasattr(thing, "cache_clear")]:
            kept.cache_clear()  # what a check before this test trained would not be trained here
    for claim in select(claims(), None, paper):
        found = []
        run = executed(lambda claim=claim, found=found: found.append(decide(claim)))
        if not found[0].agrees:
            wrong[claim.id] = [found[0].verdict, found[0].error, *map(str, found[0].comparisons)]
        if names := [name for name in claim.objects if not ran(name, run)]:
            idle[claim.id] = names
        if names := unnamed(claim.objects, run):
            silent[claim.id] = names
    assert wrong == {}
    assert idle == {}
    assert silent == {}


def test_the_profiler_tells_what_runs():
    run = executed(lambda: verify("pal2020-eq7"))
    assert ran("masks.drop_for_width", run)
    assert not ran("optima.optimum", run)
    # the second one is called through a decorator
    assert unnamed(("masks.drop_for_width", "penalties.criterion"), run) == []
    assert unnamed(("masks.Bernoulli",), run) == ["masks.drop_for_width", "penalties.criterion"]
    assert ran("masks.Bernoulli", executed(lambda: droptics.Bernoulli(0.5, 2)))


# definitions and steps of proofs that no function of the library computes
ALGEBRA = re.compile(r"-(proof|corrected|clipping|walks|slope|norms|gap)$|-(eq|lem|def|asm|rem|sec|alg)[\w.]+$")
# and three theorems and a proposition whose instances are closed forms, checked by enumeration beside them
CLOSED = {
    "mianjy2018-thm2.3",
    "thesis-thm2",
    "pal2020-prop3.3",
    "pal2020-prop3.3-corrected",
    "helmbold2017-thm7",
    "helmbold2017-thm8",
    "droptics-gadget-widths",
}


def test_no_control_is_its_check_with_the_relation_turned():
    """Such a control comes out the other way whatever is computed."""
    for claim in claims():
        if isinstance(claim.control, partial):
            check = claim.check if isinstance(claim.check, partial) else partial(claim.check)
            same = check.func is claim.control.func
            asked = [(*side.args, *side.keywords.values()) for side in (check, claim.control)]
            changed = [new for old, new in itertools.zip_longest(*asked) if old is not new and repr(old) != repr(new)]
            assert not same or any(not isinstance(new, str) or new not in get_args(Relation) for new in changed), (
                claim.id
            )


def test_claims_without_an_object_are_steps_of_proofs():
    for claim in claims():
        if claim.verdict != "not checked" and not claim.objects:
            assert ALGEBRA.search(claim.id) or claim.id in CLOSED, claim.id
    acted = {name.split(".")[0] for claim in claims() for name in claim.objects}
    assert {"training", "recommenders", "layers", "attacks", "bounds"} <= acted


def test_the_registry_is_sound():
    table = {claim.id: claim for claim in claims()}
    assert len(table) == len(claims())
    assert not set(table) & {figure.id for figure in figures()} - {"thesis-fig3-1"}
    for claim in table.values():
        if claim.erratum:
            assert table[claim.corrected].verdict in ("holds", "holds only if"), claim.id
        if claim.same_as:
            assert claim.verdict == table[claim.same_as].verdict, claim.id


# the numbered statements of each work; the thesis counts some of them through
NUMBERED = {
    "mianjy2018": {
        "thm": ("2.2", "2.3", "2.4", "3.3", "3.4", "3.6", "4.3"),
        "lem": ("4.1", "A.1", "A.2", "A.3", "D.1", "D.2", "D.3"),
        "rem": ("2.5", "3.1", "3.5", "5.1", "5.2"),
        "def": ("2.1", "3.2", "4.2"),
        "alg": (1, 2, 3),
    },
    "thesis": {
        "thm": (*range(1, 8), *range(9, 23)),
        "lem": range(1, 23),
        "prop": (*range(1, 7), 8),
        "cor": range(1, 6),
        "def": range(1, 8),
        "rem": range(1, 8),
        "alg": range(1, 7),
        "asm": range(1, 4),
    },
    "pal2020": {
        "thm": ("2.3", "2.5", "2.6", "2.7", "4.1"),
        "lem": ("2.1", "2.2", "3.1"),
        "cor": ("2.8", "3.2", "4.2"),
        "prop": ("3.3",),
        "def": ("2.4",),
        "alg": (1,),
    },
    "helmbold2017": {
        "thm": (4, 5, 6, 7, 8, 17, 18, 19, 20),
        "lem": (9, 10, 12, 14, 15, 16, *range(22, 30), 32, 33),
        "def": (1, 2, 3, 11, 13, 21, 30, 31),
    },
}


def test_every_numbered_statement_has_a_claim():
    wanted = {
        f"{paper}-{kind}{number}"
        for paper, kinds in NUMBERED.items()
        for kind, numbers in kinds.items()
        for number in numbers
    }
    assert wanted - {claim.id for claim in claims()} == set()


def test_every_claim_names_public_objects():
    for claim in claims():
        for name in claim.objects:
            assert not any(part.startswith("_") for part in name.split("."))
            assert callable(resolve(name)), claim.id


def test_every_id_in_the_sources_resolves():
    known = {claim.id for claim in claims()} | {figure.id for figure in figures()}
    unknown = {}
    for path in SOURCES.rglob("*.py"):
        for match in PATTERN.finditer(path.read_text()):
            # "thesis-eq1.{number}" and the like are completed at run time
            if match.group(1) not in known and path.read_text()[match.end()] not in "-.{":
                unknown.setdefault(match.group(1), path.name)
    assert unknown == {}


WRONG = [claim for claim in claims() if claim.erratum]


@pytest.mark.parametrize("claim", WRONG, ids=lambda claim: claim.id)
def test_counterexamples_are_small_run_and_disagree(claim):
    lines = claim.erratum.counterexample.strip().splitlines()
    assert len(lines) <= 7
    assert max(map(len, lines)) <= 80  # what a box of code shows without scrolling
    printed, true = shown_output(claim.erratum.counterexample).splitlines()
    assert printed != true


def decides_exactly(snippet: str) -> bool:
    """Only integers, fractions and words: no float is written, none can arise, and nothing else is imported."""
    tree = ast.parse(snippet)
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names = {name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names}
    floats = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, float)]
    plain = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    found = {}
    exec(compile(tree, "<counterexample>", "exec"), found)
    kept = [value for name, value in found.items() if not name.startswith("__")]
    return not (floats or plain or names - {"Fraction", "product", "comb"}) and (
        modules <= {"fractions", "itertools", "math"} and not any(isinstance(value, float) for value in kept)
    )


def test_which_counterexamples_are_decided_in_exact_arithmetic():
    inexact = {claim.id for claim in WRONG if not decides_exactly(claim.erratum.counterexample)}
    assert inexact == {claim.id for claim in WRONG if claim.erratum.inexact}
    assert inexact == {"thesis-thm11-constant", "thesis-sec5.3", "thesis-lem11", "thesis-thm15-constants"}
    assert not decides_exactly("print(1)\nprint(0.5)")
    assert not decides_exactly("from math import sqrt\nprint(sqrt(2))")


def test_errata_quote_words_and_no_sentences():
    """A formula, and at most a few decisive words in quotation marks; the rest is ours."""
    for claim in WRONG:
        for words in re.findall(r"``(.*?)''", claim.erratum.printed):
            assert len(words.split()) <= 8, claim.id
        assert claim.erratum.reading.endswith("."), claim.id
        assert claim.erratum.wrong.endswith("."), claim.id


BREAKS = [
    ("droptics.penalties.rules.linear_penalty", 1.001, "mianjy2018-lemA.1"),
    ("droptics.penalties.rules.linear_penalty", 1.001, "pal2020-lem2.1"),
    ("droptics.penalties.rules.linear_penalty", 1.001, "pal2020-thm4.1-corrected"),
    ("droptics.penalties.rules.linear_penalty", 1.001, "thesis-prop3"),
    ("droptics.penalties.rules.linear_penalty", 1.001, "thesis-prop5"),
    ("droptics.penalties.deep_linear.deep_penalty", 1.001, "thesis-sec3.1"),
    ("droptics.papers.thesis.chapter3_checks.sub_penalties", 1.001, "thesis-prop8"),
    ("droptics.papers.thesis.chapter3_checks.effective_strength", 1.001, "thesis-def4"),
    ("droptics.papers.pal2020.claims.k_support", 1.001, "pal2020-thm2.3-corrected"),
    ("droptics.papers.mianjy2018.claims.equalizer", 1.001, "mianjy2018-thm2.2"),
    ("droptics.papers.pal2020.checks.drop_for_width", 1.001, "pal2020-eq7"),
    ("droptics.papers.mianjy2018.checks.path_norm", 1.001, "mianjy2018-eq3"),
    ("droptics.papers.thesis.chapter4_checks.weighted_trace", 1.001, "thesis-prop4"),
    ("droptics.papers.thesis.chapter5_checks.initial_norm", 0.5, "thesis-sec5.3-corrected"),
    ("droptics.papers.helmbold2017.checks.networks.gadget_criterion", 1.001, "helmbold2017-lem10-corrected"),
    ("droptics.papers.helmbold2017.decay_checks.exact", 1.001, "helmbold2017-def2"),
    ("droptics.papers.pal2020.norm_checks.k_support", 1.001, "pal2020-thm2.3-cost"),
    ("droptics.papers.thesis.proof_checks.penalty", 2, "thesis-lem7-proof"),
    ("droptics.papers.thesis.appendix_claims.martingale", 0.9, "thesis-thm22"),
    ("droptics.papers.thesis.chapter3_optimum_checks.shrink", 1.001, "thesis-lem9-corrected"),
    ("droptics.papers.mianjy2018.checks.risk", 1.001, "thesis-rem2"),
    ("droptics.papers.mianjy2018.factor_checks.path_norm", 1.001, "mianjy2018-sec1"),
    ("droptics.papers.mianjy2018.factor_checks.nuclear", 1.001, "mianjy2018-thm3.4"),
    ("droptics.papers.helmbold2017.decay_checks.risk", 1.001, "helmbold2017-sec3"),
    ("droptics.papers.pal2020.checks.penalty", 1.001, "pal2020-sec2.2-corrected"),
]


@pytest.mark.parametrize(("target", "factor", "id"), BREAKS)
def test_a_broken_formula_turns_its_claim_red(monkeypatch, target, factor, id):
    module, name = target.rsplit(".", 1)
    try:
        owner = importlib.import_module(module)
    except ModuleNotFoundError:
        parent, attribute = module.rsplit(".", 1)
        owner = getattr(importlib.import_module(parent), attribute)
    true = getattr(owner, name)
    assert verify(id)[0].agrees
    monkeypatch.setattr(owner, name, lambda *args, **kwargs: factor * true(*args, **kwargs))
    assert not verify(id)[0].agrees


def test_selection():
    assert [claim.id for claim in select(claims(), ["pal2020-eq7", "thesis-def4"])] == ["pal2020-eq7", "thesis-def4"]
    assert {claim.paper for claim in select(claims(), None, "helmbold2017")} == {"helmbold2017"}
    with pytest.raises(ValueError, match=r"no claim is called 'pal2020-thm41'; did you mean pal2020-thm4.1"):
        select(claims(), ["pal2020-thm41"])
    with pytest.raises(ValueError, match="paper must be one of"):
        select(claims(), None, "nobody")


def test_a_statement_printed_elsewhere_names_the_first_place():
    """The same check under another number; whatever else is said of it takes the place of the old."""
    first = claims()[0]
    again = first.printed_as("elsewhere-thm1", "page 7", statement="in other words")
    assert (again.id, again.source, again.same_as, again.statement) == (
        "elsewhere-thm1",
        "page 7",
        first.id,
        "in other words",
    )
    assert (again.check, again.control) == (first.check, first.control)
    assert again.paper == "elsewhere"
    known = {claim.id: claim for claim in claims()}
    twins = [claim for claim in known.values() if claim.same_as]
    assert twins
    for claim in twins:
        assert claim.same_as != claim.id
        assert claim.check is known[claim.same_as].check


def test_hints_name_up_to_three_names_the_nearest_first():
    known = ["thesis-thm1", "thesis-thm2", "thesis-thm3", "thesis-thm4", "other"]
    assert nearest("thesis-thm4", known[:3]).count(" or ") == 2
    assert nearest("thesis-thm2x", known).startswith("did you mean thesis-thm2 or thesis-thm")
    assert nearest("thesis-thm2x", known).count("thesis-thm") == 3
    assert nearest("othr", known) == "did you mean other?"
    assert nearest("zzz", known) == "there are 5, such as thesis-thm1"


def test_a_statement_that_is_printed_twice_runs_once(monkeypatch):
    ran = []
    monkeypatch.setattr(papers, "decide", lambda claim: ran.append(claim.id) or decide(claim))
    first, again = verify(["mianjy2018-lemA.3", "thesis-lem21"])
    assert ran == ["mianjy2018-lemA.3"]
    assert (again.claim.id, again.verdict, again.seconds) == ("thesis-lem21", first.verdict, 0.0)


@pytest.mark.slow
def test_claims_come_out_the_same_in_worker_processes():
    ids = ["pal2020-eq7", "mianjy2018-misprints", "pal2020-eq3"]
    here, there = verify(ids), verify(ids, run_on="processes:2")
    for one, other in zip(here, there, strict=True):
        assert (one.claim.id, one.verdict, one.comparisons) == (other.claim.id, other.verdict, other.comparisons)
    with pytest.raises(ValueError, match="run_on"):
        verify(ids, run_on="nowhere")


def test_a_claim_that_cannot_run_is_an_error_that_names_itself():
    found = papers._result(claims()[0], Done("x", error="ValueError: broken"))
    assert (found.verdict, found.error, found.agrees) == ("error", "ValueError: broken", False)


def test_pages_are_written(tmp_path):
    results = verify(["pal2020-eq3", "pal2020-eq3-corrected", "mianjy2018-misprints"])
    table, errata = write_pages(results, tmp_path)
    assert f'| <a id="pal2020-eq3"></a>`pal2020-eq3`<br>**slip**<br>{results[0].claim.source} | ' in table.read_text()
    assert "`mianjy2018-misprints`<br>**not checked**<br>" in table.read_text()
    assert (
        "*instruments*, a statement tells what the library answers on the instances of its check" in table.read_text()
    )
    heads = [block for block in table.read_text().split("\n\n") if block.startswith("#")]  # blank lines around them
    assert heads == ["# Claims", *dict.fromkeys(f"## {result.claim.paper}" for result in results)]
    text = errata.read_text()
    assert "```python" in text
    assert "**Corrected** (`pal2020-eq3-corrected`)" in text
    assert "## Slips of print or proof" in text
    assert "$$\\min_{U,V}" in text
    link = re.search(r"\[`pal2020/(\w+\.py): (\w+)`\]\(https://\S+/pal2020/(\w+\.py)#L(\d+)\); ", table.read_text())
    file, name, linked, line = link.groups()
    assert file == linked
    assert (SOURCES / "papers" / "pal2020" / file).read_text().splitlines()[int(line) - 1].startswith(f"def {name}(")
    assert "); {py:obj}`~droptics." in table.read_text()
    assert claims_page(results) == table.read_text()
    assert errata_page([result.claim for result in results]) == text


def run_command(*arguments: str):
    app = typer.Typer()
    app.command()(verify_command)
    return CliRunner().invoke(app, list(arguments))


def test_the_command(monkeypatch):
    result = run_command("pal2020-eq7", "pal2020-eq3", "--json")
    assert result.exit_code == 0
    assert [item["verdict"] for item in json.loads(result.output)] == ["holds", "slip"]
    assert "claims: 2, in" in run_command("pal2020-eq7", "pal2020-eq3").output
    monkeypatch.setattr("droptics.papers.pal2020.checks.drop_for_width", lambda *_: 0.3)
    broken = run_command("pal2020-eq7")
    assert broken.exit_code == 1
    assert "on record is holds" in broken.output


def test_the_command_refuses_unknown_names():
    assert isinstance(run_command("pal2020-nothing").exception, ValueError)
    assert isinstance(run_command("--paper", "nobody").exception, ValueError)


def test_every_claim_links_to_a_line_of_a_file_that_is_there():
    for claim in claims():
        if claim.check is not None:
            place, _, line = check_place(claim).rpartition("/papers/")[2].rstrip(")").partition("#L")
            text = (SOURCES / "papers" / place).read_text(encoding="utf-8").splitlines()
            assert int(line) <= len(text), claim.id


def test_claims_on_bars_hold_within_a_command_too():
    """`droptics verify` shows bars, and runs the claim that a library which is only called shows none."""
    with shown():
        assert verify("droptics-floor-in-words")[0].agrees


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_scale_is_the_largest_magnitude_of_either_side(sign):
    small = torch.tensor([0.0, 1.0, math.inf], dtype=torch.float64)
    large = torch.tensor([sign * 500.0, 1.0, math.inf], dtype=torch.float64)
    for left, right in ((small, large), (large, small), (large, large)):
        assert compare(left, "==", right).scale == 500.0


def test_a_result_in_plain_values_says_all_of_it():
    claim = Claim("toy-thm1", "Toy, p. 1", "One.", check=lambda: [], control=lambda: [], note="Note.")
    less, more = Comparison(1.0, "<", 2.0, "less"), Comparison(3.0, "<", math.inf, "more")
    told = Result(claim, "error", (less,), (more, less), 1.23456, "why").as_dict()
    plain = {"label": "less", "left": 1.0, "relation": "<", "right": 2.0, "holds": True}
    wanted = {"id": "toy-thm1", "paper": "toy", "source": "Toy, p. 1", "statement": "One.", "note": "Note."}
    wanted |= {"verdict": "error", "recorded": "holds", "agrees": False, "corrected": None, "error": "why"}
    open_end = {"label": "more", "left": 3.0, "relation": "<", "right": None, "holds": True}
    assert told == wanted | {"seconds": 1.2346, "comparisons": [plain], "control": [open_end, plain]}
