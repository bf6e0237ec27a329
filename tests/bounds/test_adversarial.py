"""The iteration counts of adversarial training: against the formulas, the lemma they rest on, and simulation."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from droptics.bounds.adversarial import adversarial
from droptics.papers.thesis.leaky import LeakyNet, adversarial_sgd, effective, smallest_score

SETTING = {"data_radius": 2.0, "margin": 1.0, "radius": 0.5, "error": 0.2}


def test_printed_theorem_by_hand() -> None:
    bound = adversarial(**SETTING, slope=0.8, width=4, top=0.3, start_norm=1.5, weight_norm=2.0, constants="printed")
    reach = 0.3 * 2
    assert bound.value == pytest.approx(64 * 2.5**2 * (1 + 1.5 * 0.8 * reach * 0.2) / (0.5 * 0.8 * 0.2) ** 2)
    assert bound.terms["training_step_size"] == pytest.approx(1 / (4 * 0.09 * 2.5**2))
    assert bound.terms["attack_step_size"] == pytest.approx(1 / (0.09 * 4 * 4))
    assert bound.terms["attack_steps"] == pytest.approx(8 * 0.25 * 0.09 * 4 * 4 / 0.2)
    assert bound.terms["beta"] == pytest.approx(2 * 0.5 * 0.2 * reach)
    assert bound.claim == "thesis-thm16"


@given(
    slope=st.floats(0.05, 1), width=st.integers(1, 50), top=st.floats(0.01, 3), start=st.floats(0.0, 10),
    error=st.floats(0.01, 0.9), radius=st.floats(0, 0.95),
)  # fmt: skip
@settings(deadline=None, max_examples=40)
def test_relations_between_the_versions(slope, width, top, start, error, radius) -> None:
    setting = {"data_radius": 3.0, "margin": 1.0, "radius": radius, "error": error, "slope": slope}
    options = {"width": width, "top": top, "start_norm": start}
    corrected = adversarial(**setting, **options)
    printed = adversarial(**setting, **options, constants="printed")
    kept = adversarial(**setting, **options, constants="printed beta")
    # At the largest rate the lemma's count is the printed one with a smaller memory term, so never above it.
    assert corrected.value <= printed.value * (1 + 1e-12)
    assert corrected.value >= printed.value / (1 + start * slope * top * math.sqrt(width) * error) * (1 - 1e-12)
    assert 2 * printed.terms["beta"] == pytest.approx(corrected.terms["beta"])
    assert kept.terms["beta"] == printed.terms["beta"]
    assert 2 * corrected.value * (1 - 1e-12) <= kept.value <= 4 * corrected.value * (1 + 1e-12)
    assert kept.terms["attack_steps"] == pytest.approx(2 * corrected.terms["attack_steps"])
    slower = adversarial(**setting, **options, step_size=corrected.terms["training_step_size"] / 3)
    assert slower.value == pytest.approx(3 * corrected.value)


def test_total_attack_cost_from_a_far_start() -> None:
    """The start counts beside the growth then: |W_0|^2 + 3 step t in step t."""
    far = adversarial("cor4", **SETTING, start_norm=1000.0)
    count, step = far.value, far.terms["training_step_size"]
    starts, growth = count * 1000.0**2, 3 * step * count * (count - 1) / 2
    assert 0.1 < starts / growth < 10
    assert far.terms["total_attack_steps"] == pytest.approx(8 * 0.25 / 0.2 * (starts + growth), rel=1e-9)


def test_a_network_of_zeros_is_left_by_no_step_of_the_attack() -> None:
    """Its gradient vanishes, and the step that the theorem asks for has no end; its start may be anywhere."""
    still = adversarial(**SETTING, start_norm=1.5, weight_norm=0.0)
    assert still.terms["attack_steps"] == 0.0
    assert still.terms["attack_step_size"] == math.inf
    assert still.value == adversarial(**SETTING, start_norm=1.5).value


def test_linear_corollary() -> None:
    bound = adversarial("cor4", **SETTING, width=7)
    printed = adversarial("cor4", **SETTING, width=7, constants="printed")
    assert printed.value == pytest.approx(128 * 2.5**2 / (0.5 * 0.2) ** 2)
    assert bound.value == pytest.approx(64 * 2.5**2 * (1 + 0.2 / 4) / (0.5 * 0.2) ** 2)
    assert bound.value <= printed.value
    assert bound.terms["beta"] == 0.0
    assert not bound.vacuous


def test_total_attack_cost_is_the_sum_over_the_norm_bound() -> None:
    bound = adversarial("cor4", **SETTING, start_norm=math.sqrt(3) / 2.5)
    count = round(bound.value)
    rate = bound.terms["training_step_size"]
    steps = sum(8 * 0.25 * (3 / 2.5**2 + 3 * rate * t) / 0.2 for t in range(count))
    assert bound.terms["total_attack_steps"] == pytest.approx(steps, rel=1e-4)
    # The closed form with T (T + 1), one more than the square that is printed.
    assert steps == pytest.approx(12 * 0.25 * count * (count + 1) / (2.5**2 * 0.2))


def test_corollary_five_is_the_theorem_at_its_kappa() -> None:
    for constants, factor in (("corrected", 4), ("printed beta", 2)):
        bound = adversarial("cor5", **SETTING, slope=0.8, beta=0.05, width=9, weight_norm=2.0, constants=constants)
        top = 0.05 / (factor * 0.5 * 0.2 * 3)
        theorem = adversarial(**SETTING, slope=0.8, top=top, width=9, weight_norm=2.0, constants=constants)
        assert bound.value == pytest.approx(theorem.value)
        assert bound.terms == pytest.approx(dict(theorem.terms))
        assert bound.terms["beta"] == pytest.approx(0.05)
    # The attack steps: printed upside down; with kappa at the printed factor they are 2 beta^2 ||W||^2/((1-a)^2 eps).
    steps = adversarial("cor5", **SETTING, slope=0.8, beta=0.05, weight_norm=2.0, constants="printed")
    assert steps.terms["attack_steps"] == pytest.approx(2 * 0.04 / (0.0025 * 4 * 0.2))
    kept = adversarial("cor5", **SETTING, slope=0.8, beta=0.05, weight_norm=2.0, constants="printed beta")
    assert kept.terms["attack_steps"] == pytest.approx(2 * (2 * 0.0025 * 4 / (0.04 * 0.2)))


@pytest.mark.parametrize(("constants", "limit"), [("corrected", 0.75), ("printed", 0.5)])
def test_small_slopes_are_reported_as_saying_nothing(constants: str, limit: float) -> None:
    assert adversarial(**SETTING, slope=limit - 0.01, constants=constants).vacuous
    assert not adversarial(**SETTING, slope=limit, constants=constants).vacuous


@given(seed=st.integers(0, 10_000), slope=st.floats(0.05, 0.74))
@settings(deadline=None, max_examples=20)
def test_small_slopes_say_nothing_about_robustness(seed: int, slope: float) -> None:
    """A beta-effective attack exists only where the clean point is already wrong."""
    generator = torch.Generator().manual_seed(seed)
    width, inputs, radius = 4, 3, 0.7
    net = LeakyNet(
        torch.randn(width, inputs, generator=generator, dtype=torch.float64),
        torch.randn(width, generator=generator, dtype=torch.float64).sign() * 0.5,
        slope,
    )
    points = torch.randn(40, inputs, generator=generator, dtype=torch.float64)
    signs = torch.randn(40, generator=generator, dtype=torch.float64).sign()
    beta = 4 * radius * (1 - slope) * 0.5 * math.sqrt(width)
    unit = net.normalized()
    lowest = smallest_score(unit, points, signs, radius, steps=40, restarts=1)
    attacked = lowest < -beta
    assert not bool((attacked & (signs * unit(points) > 0)).any())
    assert not bool((effective(net, points, signs, beta) & ~attacked).any())


@pytest.mark.slow
def test_simulation_reaches_the_error_before_the_bound() -> None:
    """Separable data in the plane: the mean force of the proof falls below eps / 4 long before the bound."""
    generator = torch.Generator().manual_seed(3)
    margin, radius, error, slope, width = 1.0, 0.5, 0.8, 0.9, 3

    def draw(_: int) -> tuple[torch.Tensor, torch.Tensor]:
        sign = torch.randn(1, generator=generator, dtype=torch.float64).sign()
        along = margin + torch.rand(1, generator=generator, dtype=torch.float64)
        across = 2 * torch.rand(1, generator=generator, dtype=torch.float64) - 1
        return torch.stack([sign * along, across], 1), sign

    top = torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64) / math.sqrt(width)
    start = torch.randn(width, 2, generator=generator, dtype=torch.float64)
    net = LeakyNet(start / torch.linalg.matrix_norm(start), top, slope)
    bound = adversarial(
        data_radius=math.sqrt(5), margin=margin, radius=radius, error=error, slope=slope, width=width, start_norm=1.0
    )
    rate = bound.terms["training_step_size"]
    run = adversarial_sgd(net, draw, radius=radius, steps=400, step=rate, attack_steps=8, every=100)
    means = torch.tensor(run.forces).cumsum(0) / torch.arange(1, 401)
    reached = int((means <= error / 4).nonzero()[0]) + 1
    assert reached < bound.value
    # The norm grows as the proof says, on every path: ||W_{t+1}||^2 <= ||W_1||^2 + 3 eta t.
    for index, norm in enumerate(run.norms):
        assert norm**2 <= 1.0 + 3 * rate * 100 * index + 1e-9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"statement": "thm17"}, "statement must be"),
        ({"constants": "guessed"}, "constants must be"),
        ({"radius": 1.0}, "smaller than the margin"),
        ({"slope": 0.0}, "slope must be"),
        ({"error": 1.0}, "error must be"),
        ({"margin": 3.0}, "at most data_radius"),
        ({"beta": 0.1}, "only in 'cor5'"),
        ({"statement": "cor4", "slope": 0.5}, "slope must be 1"),
        ({"statement": "cor4", "top": 2.0}, "top must be 1 / sqrt"),
        ({"statement": "cor5", "slope": 0.5}, "beta must be given"),
        ({"statement": "cor5", "beta": 0.1}, "use 'cor4'"),
        ({"statement": "cor5", "beta": 0.1, "slope": 0.5, "top": 1.0}, "top follows"),
        ({"step_size": 5.0}, "step_size must lie"),
        ({"width": 0}, "width must be"),
    ],
)
def test_bad_settings_are_refused(changes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        adversarial(**{**SETTING, **changes})


def test_the_old_name_of_the_step_size_answers_with_a_note():
    largest = adversarial(statement="cor4", data_radius=1.0, margin=0.5, radius=0.1, error=0.1)
    step = largest.terms["training_step_size"] / 2
    new = adversarial(statement="cor4", data_radius=1.0, margin=0.5, radius=0.1, error=0.1, step_size=step)
    with pytest.warns(DeprecationWarning, match=r"rate is called step_size now; write step_size="):
        old = adversarial(statement="cor4", data_radius=1.0, margin=0.5, radius=0.1, error=0.1, rate=step)
    assert old == new != largest
    with pytest.raises(TypeError, match="got step_size twice"):
        adversarial(statement="cor4", data_radius=1.0, margin=0.5, radius=0.1, error=0.1, rate=step, step_size=step)
