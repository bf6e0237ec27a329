"""Deliberate defects of the library: each turns a claim red, so `verify` alone notices it."""

from __future__ import annotations

import importlib
import inspect
import textwrap

import numpy as np
import pytest

from droptics.models import Connections
from droptics.papers import verify
from droptics.penalties.closed_form import unit_gram

DEFECTS = {
    "weights of examples are ignored": (
        "data:average",
        "(per_example * (weights / weights.sum())).sum(-1)",
        "per_example.mean(-1)",
        "droptics-any-law",
    ),
    "excess of correlated deep masks is dropped": (
        "masks.correlations:Correlations.add_noise_",
        "astype(excess.dtype) * (excess + moment)",
        "astype(excess.dtype) * moment",
        "droptics-any-law",
    ),
    "valid edges of sliding blocks are off by one": (
        "masks.coins:SlidingBlock._containing",
        "(0, self.size - self.block)",
        "(0, self.size - self.block + 1)",
        "droptics-laws",
    ),
    "keep and drop are swapped in lazy training": (
        "training.lazy:train_lazy",
        "Bernoulli(rate, width)",
        "Bernoulli(1 - rate, width)",
        "thesis-alg4",
    ),
    "max-norm does nothing": (
        "training.settings:MaxNorm.project",
        "tensor.mul_(self.radius / norms.clamp_min(self.radius))",
        "pass",
        "thesis-alg4",
    ),
    "the attack uses the sigmoid of the wrong sign": (
        "papers.thesis.leaky:reflected_pgd",
        "torch.sigmoid(score)",
        "torch.sigmoid(-score)",
        "thesis-alg5",
    ),
    "retentivity names the other side": (
        "coadaptation.retention:retentivity",
        "worst, value, exact = -(basis @ best)",
        "worst, value, exact = (basis @ best)",
        "thesis-asm1",
    ),
    "alpha of a ReLU network is halved": (
        "bounds.statistical:relu_alpha",
        "(top.abs() * energies.sqrt()).sum()",
        "(top.abs() * energies.sqrt()).sum() / 2",
        "droptics-flows",
    ),
    "multipliers of independent units are bounded wrongly": (
        "masks.coins:CoinLaw.bound",
        "1 / self.mean",
        "2 / (1 + self.mean)",
        "droptics-laws",
    ),
    "a root is lost in the constant of completion": (
        "bounds.statistical:completion_constant",
        "return math.sqrt(2 * ratio) + ratio",
        "return math.sqrt(ratio) + ratio",
        "thesis-thm20",
    ),
    "masks of completion by descent are ones": (
        "recommenders.sgd:step",
        "z = (z >= how.drop).to(left.dtype) / (1 - how.drop)",
        "z = torch.ones_like(z)",
        "droptics-completion",
    ),
    "rows of alternating least squares forget their count": (
        "recommenders.alternation:Strengths.diagonals",
        "into[1, :width] = self.expected",
        "into[2, :width] = self.expected",
        "droptics-completion",
    ),
}


def function_at(place: str):
    module, name = place.split(":")
    found = importlib.import_module(f"droptics.{module}")
    for part in name.split("."):
        found = vars(found)[part]
    found = getattr(found, "fget", found)
    return getattr(found, "__wrapped__", found)


def rewritten(function, old: str, new: str):
    """The code of a function in which one piece of text stands for another."""
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, f"{function.__qualname__} no longer holds {old!r}"
    tree = source.replace(old, new).replace("@property\n", "")
    scope = dict(function.__globals__)
    exec(compile(tree, inspect.getsourcefile(function), "exec"), scope)
    return inspect.unwrap(scope[function.__name__]).__code__


@pytest.mark.parametrize("name", DEFECTS)
def test_a_deliberate_defect_turns_a_claim_red(monkeypatch, name):
    place, old, new, claim = DEFECTS[name]
    function = function_at(place)
    monkeypatch.setattr(function, "__code__", rewritten(function, old, new))
    assert not verify(claim)[0].agrees
    monkeypatch.undo()
    assert verify(claim)[0].agrees


def test_lost_correlations_of_connections_turn_a_claim_red(monkeypatch):
    rule = unit_gram.dispatch(Connections)
    source = textwrap.dedent(inspect.getsource(rule)).replace("@unit_gram.register\n", "")
    whole = "return (outer * weights).flatten(-4, -3).flatten(-2, -1)"
    assert source.count(whole) == 1
    lost = "return torch.diag(torch.diagonal((outer * weights).flatten(-4, -3).flatten(-2, -1)))"
    scope = dict(rule.__globals__)
    exec(source.replace(whole, lost), scope)
    monkeypatch.setattr(rule, "__code__", scope["_"].__code__)
    assert not verify("droptics-any-law")[0].agrees


def test_a_compiled_step_without_its_mask_turns_a_claim_red(monkeypatch):
    """The kernel is compiled, so its masks are replaced where they go in."""
    engines = importlib.import_module("droptics.training.descents")
    true = engines.run_kernel
    monkeypatch.setattr(
        engines, "run_kernel", lambda factors, x, y, z, s, first: true(factors, x, y, np.ones_like(z), s, first=first)
    )
    assert not verify("mianjy2018-alg1")[0].agrees
