"""Formulas in prose: what is typeset, and what stays text."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

from typeset import to_tex, typeset

from droptics.evidence.formulas import mathml

pytest.importorskip("docutils", reason="formulas are typeset by docutils, which comes with the extra docs")


@pytest.mark.parametrize(
    ("text", "tex"),
    [
        ("lam sum_i ||u_i||^2", r"\lambda \sum _{i} \Vert u_{i}\Vert ^{2}"),
        ("(lam/r) ||UV^T||_*^2", r"(\lambda /r) \Vert UV^{\top}\Vert _*^{2}"),
        ("2^((1-k)/2)", "2^{(1-k)/2}"),
        ("4 lam^2/(eta T)", r"4 \lambda ^{2}/(\eta T)"),
        ("sqrt(log(2/delta)/2n)", r"\sqrt{\log (2/\delta )/2n}"),
        ("T_tr >= sqrt m", r"T_{\mathrm{tr}} \ge \sqrt{m}"),
        ("C^1/2 e^(s^2 rho^2/2)", r"C^{1/2} e^{s^{2} \rho ^{2}/2}"),
        ("Mbar = Cyx C^-1/2", r"\bar M = C_{yx} C^{-1/2}"),
        ("I{z < 0} <= sum_{i<=j} x_i", r"I\{z < 0\} \le \sum _{i \le j} x_{i}"),
        ("f(UD, VD^-1) = f(U,V)", "f(UD, VD^{-1}) = f(U,V)"),
        ("|x| <= 1e-9", r"\vert x\vert \le 10^{-9}"),
        ("|x| <= 2.5e3", r"\vert x\vert \le 2.5 \cdot 10^{3}"),
    ],
)
def test_plain_text_becomes_tex(text, tex):
    assert to_tex(text) == tex
    assert typeset(text) == f"${tex}$"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("A global optimum is equalized.", "A global optimum is equalized."),
        ("Only if lam > 0, as in Lemma A.2.", r"Only if $\lambda > 0$, as in Lemma A.2."),
        ("The optimal UU^T is S_alpha(M).", r"The optimal $UU^{\top}$ is $S_{\alpha }(M)$."),
        ("rank, A = UV^T X minimizes F", r"rank, $A = UV^{\top} X$ minimizes $F$"),
        ("from 2 to 5", "from 2 to 5"),
        ("all pairs (U, V), x or y", "all pairs $(U, V)$, $x$ or $y$"),
        ("of some (f(U, or V)", "of some (f(U, or V)"),
        ("with train_lazy, at lam", r"with `train_lazy`, at $\lambda$"),
        ("beta_robust_error and eta_tr", r"`beta_robust_error` and $\eta _{\mathrm{tr}}$"),
        ("its weights_ by bounds.lazy(data) are", "its `weights_` by `bounds.lazy(data)` are"),
        ("of schur_horn(values, targets) are", "of `schur_horn`(values, targets) are"),
        ("labels other than ignore_index=-100;", "labels other than `ignore_index=-100`;"),
        ("sigma_max of the end", r"$\sigma _{\max }$ of the end"),
        ("see `x_1`, and a", "see `x_1`, and a"),
        ("see `x_1 and a", r"see \`x\_1 and a"),
    ],
)
def test_words_stay_words(text, shown):
    assert typeset(text) == shown


@pytest.mark.parametrize("tex", [r"\|w\|_*", r"\Vert w\Vert _F^{2}", r"\left\| w \right\|_2"])
def test_the_bars_of_a_norm_stay_on_their_line(tex):
    """Browsers lower a bar that may stretch where it has an index; those around something tall have to stretch."""
    bars = [line for line in mathml(tex).splitlines() if "‖" in line]
    assert [('stretchy="false"' in bar) for bar in bars] == [r"\left" not in tex] * 2


def test_braces_are_as_tall_as_what_they_hold():
    assert [line.strip() for line in mathml(r"\{z < 0\}").splitlines() if "stretchy" in line] == [
        '<mo stretchy="false">{</mo>',
        '<mo stretchy="false">}</mo>',
    ]
