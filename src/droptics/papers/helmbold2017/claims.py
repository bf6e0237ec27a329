"""Statements of Helmbold and Long on dropout in deep ReLU networks, as claims."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.helmbold2017 import checks, negative_checks
from droptics.papers.helmbold2017.proof_claims import CLAIMS as PROOFS
from droptics.papers.instances import tensor

SOURCE = "Helmbold, Long 2017 (JMLR 18, arXiv 1602.04484)"
EXAMPLE = tensor([1.0, -2.0, 0.5])
ALL_BUT_FOUR = tuple(n for n in range(1, 3001) if n not in (5, 7, 16, 18))

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "helmbold2017-eq2",
        f"{SOURCE}, eq. (1)-(2), Figure 1",
        "The network of Figure 1 has criterion 54 and risk 64: the dropout penalty is -10.",
        check=partial(checks.worked_example, 54.0),
        control=partial(checks.worked_example, 64.0),
        objects=("penalties.criterion", "models.ReLUNet"),
    ),
    Claim(
        "helmbold2017-def1",
        f"{SOURCE}, Definition 1",
        "P_(x,y) is half (x,y), half (0,0); the criterion is linear in the distribution.",
        check=partial(checks.mixture, 0.5),
        control=partial(checks.mixture, 1.0),
        objects=("penalties.criterion",),
        note="Appendix A defines P_(x,y) as the single example; the constants differ by a factor of two.",
    ),
    Claim(
        "helmbold2017-thm4",
        f"{SOURCE}, Theorem 4",
        "Rescaling the inputs by a signed diagonal matrix changes neither criterion nor aversion.",
        check=partial(checks.rescaled_inputs, True),
        control=partial(checks.rescaled_inputs, False),
        objects=("penalties.criterion", "models.ReLUNet"),
    ),
    Claim(
        "helmbold2017-sec3",
        f"{SOURCE}, Section 3, after Theorem 4",
        "Centering the inputs is not an invariance of dropout.",
        check=partial(checks.centering, "<"),
        control=partial(checks.centering, "=="),
        objects=("penalties.criterion",),
    ),
    Claim(
        "helmbold2017-thm5",
        f"{SOURCE}, Theorem 5",
        "Scaling layer j by c_j and its bias by the product so far multiplies every masked output by the product.",
        check=partial(checks.rescaled_layers, True),
        control=partial(checks.rescaled_layers, False),
        objects=("models.ReLUNet",),
        note="The proof has W and W' interchanged.",
    ),
    Claim(
        "helmbold2017-thm6",
        f"{SOURCE}, Theorem 6",
        "Labels times c multiply the aversion by c^2.",
        check=partial(checks.rescaled_labels, 2),
        control=partial(checks.rescaled_labels, 1),
        objects=("penalties.criterion",),
    ),
    Claim(
        "helmbold2017-thm7",
        f"{SOURCE}, Theorem 7",
        "Weight-decay aversion on P_(x,1) is min(1/4, lam^2/x.x): it depends on the scale of the inputs.",
        "holds only if",
        check=partial(checks.weight_decay, EXAMPLE),
        control=partial(checks.weight_decay, EXAMPLE, 1.1),
        outside=checks.aversion_without_input,
        objects=("penalties.risk",),
        note="Only if x is not zero. The proof of Lemma 22 should add w_j min to b.",
    ),
    Claim(
        "helmbold2017-lem9",
        f"{SOURCE}, Lemma 9",
        "On a 0/1 input that is not zero exactly one node of a first-one gadget fires.",
        check=partial(checks.first_one, 4, lambda i: i),
        control=partial(checks.first_one, 4, lambda i: 0),
        objects=("models.ReLUNet",),
        note="Inputs live in {0,1}^K (printed: n), and node i looks at the i-th input.",
    ),
    Claim(
        "helmbold2017-lem10",
        f"{SOURCE}, Lemma 10 (main text)",
        "With c = K^2/(2 n^(d-1) (1+K/n)(1+1/n)^(d-2)) the gadget network has the stated criterion.",
        "false as printed",
        check=partial(checks.gadget_value, 2),
        control=partial(checks.gadget_value, 1),
        objects=("penalties.criterion",),
        note="K in place of K^2, as in the appendix; with K^2 the criterion exceeds 1/2 for K > 2.",
        corrected="helmbold2017-lem10-corrected",
        counterexample="""\
K, n = 2, 2  # one gadget, p = 1/2: output 2c n/K on each of the 3 of 4 masks with an input kept, noise factor 1 + K/n
J = lambda c: (1 / 4 + 3 / 4 * ((1 + K / n) * (2 * c * n / K) ** 2 - 2 * (2 * c * n / K) + 1)) / 2
print(J(K**2 / (2 * n * (1 + K / n))))
print(J(K / (2 * n * (1 + K / n))))""",
    ),
    Claim(
        "helmbold2017-lem10-corrected",
        f"{SOURCE}, Lemma 10, corrected, for every rate",
        "The gadget network has criterion (1 - (1-q^K)/D)/2, D = (1+qK/(pn))(1+q/(pn))^(d-2).",
        check=partial(checks.gadget_value, 1),
        control=partial(checks.gadget_value, 2),
        objects=("penalties.criterion",),
    ),
    Claim(
        "helmbold2017-def11",
        f"{SOURCE}, Definition 11, Lemma 12",
        "Networks with non-negative weights and convex non-decreasing activations are supermodular.",
        check=partial(checks.supermodular, True),
        control=partial(checks.supermodular, False),
        objects=("models.ReLUNet",),
        note="The definition is stronger than lattice supermodularity: it includes convexity along each direction.",
    ),
    Claim(
        "helmbold2017-lem12",
        f"{SOURCE}, Lemma 12",
        "Non-negative weights make the network supermodular; the gadget network is not.",
        check=partial(checks.supermodular, True),
        control=checks.gadget_is_not_supermodular,
        objects=("models.ReLUNet",),
    ),
    Claim(
        "helmbold2017-def13",
        f"{SOURCE}, Definition 13",
        "psi(l) is the mean dropout output given l kept inputs; that of the gadget network is not convex.",
        check=partial(checks.convex_in_count, True),
        control=checks.gadget_is_concave,
        objects=("models.ReLUNet",),
    ),
    Claim(
        "helmbold2017-lem14",
        f"{SOURCE}, Lemma 14",
        "psi is convex for networks with non-negative weights.",
        check=partial(checks.convex_in_count, True),
        control=partial(checks.convex_in_count, False),
        objects=("models.ReLUNet",),
    ),
    Claim(
        "helmbold2017-lem15",
        f"{SOURCE}, Lemma 15",
        "Pr(Bin(n,1/2) < n/2 - sqrt(n)/4) >= 1/4 for all n.",
        "false as printed",
        check=partial(negative_checks.binomial_tail, (5, 7, 16, 18)),
        control=partial(negative_checks.binomial_tail, ALL_BUT_FOUR),
        objects=("masks.Bernoulli",),
        note="Fails for n = 5, 7, 16, 18 and for no other n up to 3000.",
        corrected="helmbold2017-lem15-corrected",
        counterexample="""\
from math import comb, sqrt
n = 5
print(1 / 4)
print(sum(comb(n, k) for k in range(n + 1) if k < n / 2 - sqrt(n) / 4) / 2**n)""",
    ),
    Claim(
        "helmbold2017-lem15-corrected",
        f"{SOURCE}, Lemma 15, corrected",
        "Pr(Bin(n,1/2) < n/2 - sqrt(n)/4) >= 1/4 for every n <= 3000 except 5, 7, 16, 18.",
        check=partial(negative_checks.binomial_tail, ALL_BUT_FOUR),
        control=partial(negative_checks.binomial_tail, (5, 7, 16, 18)),
        objects=("masks.Bernoulli",),
    ),
    Claim(
        "helmbold2017-lem16",
        f"{SOURCE}, Lemma 16",
        "Networks with non-negative weights have criterion at least 1/(36K) on P_(1,1), K > 18.",
        check=partial(negative_checks.nonnegative_bound, lambda K: 1 / (36 * K)),
        control=partial(negative_checks.nonnegative_bound, lambda K: 1 / (K + 2)),
        objects=("penalties.criterion",),
        note="True, and 9 to 18 times too small: the exact infimum is 1/(2(K+2)) for every K, see "
        "droptics-nonnegative-infimum. The proof has K under a root where it belongs outside.",
    ),
    Claim(
        "helmbold2017-thm8",
        f"{SOURCE}, Theorem 8",
        "For K > 18 and large n every optimum of dropout on P_(1,1) has a negative weight.",
        check=lambda: [
            *negative_checks.gadget_limit_wins("<"),
            *negative_checks.negative_weights_win(((19, 400), (64, 4000))),
        ],
        control=partial(negative_checks.gadget_limit_wins, ">="),
        objects=("penalties.criterion",),
        note="K >= 2 and, at drop 1/2, K >= 3 for every width: see droptics-nor-network.",
    ),
    Claim(
        "helmbold2017-thm17",
        f"{SOURCE}, Theorem 17",
        "For K = 2 and large n every optimum has a negative weight.",
        check=partial(negative_checks.negative_weights_win, ((2, 5), (2, 8), (2, 100))),
        control=partial(negative_checks.negative_weights_win, ((2, 1), (2, 2))),
        objects=("penalties.criterion",),
        note="At drop 1/2: exactly from n = 3 on (n <= 5 by enumeration).",
    ),
    Claim(
        "helmbold2017-thm17-proof",
        f"{SOURCE}, proof of Theorem 17",
        "With bias 1/5 and the weights of Lemma 10 the criterion tends to 1/10.",
        "false as printed",
        check=partial(negative_checks.unscaled_limit, 0.1),
        control=partial(negative_checks.unscaled_limit, 0.115),
        objects=("penalties.criterion",),
        note="The output weights must be scaled by 4/5; as printed the limit is .115, still below 1/8.",
        corrected="helmbold2017-thm17-proof-corrected",
        counterexample="""\
t, b = 1 / 4, 1 / 5  # K = 2, n -> infinity: output b with probability t, else b + 1
print(1 / 10)
print((b**2 + (1 - t) * b**2 + t * (b - 1) ** 2) / 2)""",
    ),
    Claim(
        "helmbold2017-thm17-proof-corrected",
        f"{SOURCE}, proof of Theorem 17, corrected",
        "With the best bias b = t/(1+t) and output weights (1-b)c the criterion is t/(2(1+t)).",
        check=partial(checks.gadget_bias, 1.0),
        control=partial(checks.gadget_bias, 0.0),
        objects=("penalties.criterion",),
    ),
    Claim(
        "helmbold2017-thm18",
        f"{SOURCE}, Theorem 18 (b)",
        "On P_(x,y) of Definition 1 the equal-weights network has criterion at least y^2/(K+1).",
        "false as printed",
        check=partial(checks.growth, lambda K: 1 / (K + 1), True),
        control=partial(checks.growth, lambda K: 1 / (2 * K), True),
        objects=("penalties.criterion",),
        note="For the single example of the appendix it is at least y^2/K; under Definition 1 half of that.",
        corrected="helmbold2017-thm18-corrected",
        counterexample="""\
K, n, d, y = 4, 12, 2, 1.0
single = y**2 * ((1 + 1 / K) * (1 + 1 / n) ** (d - 1) - 1)
print(y**2 / (K + 1))  # printed lower bound
print(single / 2)  # half weight by Definition 1""",
    ),
    Claim(
        "helmbold2017-thm18-corrected",
        f"{SOURCE}, Theorem 18, corrected",
        "On one example the equal-weights network has criterion y^2((1+q/(pK))(1+q/(pn))^(d-1) - 1) and risk 0.",
        check=partial(checks.growth, lambda K: 1 / K),
        control=partial(checks.growth, lambda K: 4 / K),
        objects=("penalties.criterion",),
    ),
    Claim(
        "helmbold2017-thm18-decay",
        f"{SOURCE}, Theorem 18 (c)",
        "Its weight-decay penalty is lam/2 c^2 (Kn + n^2(d-2) + n), which grows only polynomially.",
        check=partial(checks.growth_decay, 1.0),
        control=partial(checks.growth_decay, 2.0),
        objects=("models.ReLUNet",),
    ),
    Claim(
        "helmbold2017-thm19",
        f"{SOURCE}, Theorem 19",
        "The dropout penalty can be negative.",
        check=lambda: [*checks.negative_penalties(1.0), *checks.output_signs_alone(True)],
        control=partial(checks.output_signs_alone, False),
        objects=("penalties.penalty",),
        note="Sharper: a negative input, hidden weight or hidden bias is needed; output parameters never suffice.",
    ),
    Claim(
        "helmbold2017-thm20",
        f"{SOURCE}, Theorem 20",
        "The dropout penalty depends on the labels: for x = (1,-2) it falls by 4q per unit of y.",
        check=partial(checks.label_dependence, -4.0),
        control=partial(checks.label_dependence, 0.0),
        objects=("penalties.penalty",),
    ),
    Claim(
        "helmbold2017-sec5",
        f"{SOURCE}, Section 5, non-monotone penalties",
        "The penalty need not grow with the dropout rate.",
        check=partial(checks.not_monotone, "<"),
        control=partial(checks.not_monotone, ">"),
        objects=("penalties.penalty",),
    ),
    Claim(
        "helmbold2017-sec4.3",
        f"{SOURCE}, Section 4.3, remark on zero embeddings",
        "Inputs that are zero contribute nothing: the results carry over to larger K.",
        check=partial(negative_checks.best_positive, 1.0),
        control=partial(negative_checks.best_positive, 1.1),
        objects=("penalties.criterion",),
        note="Checked: the best non-negative network of depth 2 attains its stated criterion.",
    ),
    *PROOFS,
)
