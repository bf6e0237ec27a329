"""Definitions, lemmas on weight decay and steps of proofs of Helmbold and Long, as claims."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.helmbold2017 import checks, decay_checks, negative_checks
from droptics.papers.helmbold2017.checks import exact
from droptics.papers.helmbold2017.errata import ERRATA
from droptics.penalties import risk

SOURCE = "Helmbold, Long 2017 (JMLR 18, arXiv 1602.04484)"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "helmbold2017-def2",
        f"{SOURCE}, Definition 2",
        "Dropout aversion of P: the largest risk of a minimizer of J_D less the infimum of the risk over all networks "
        "of the same sizes.",
        check=partial(decay_checks.aversion, risk),
        control=partial(decay_checks.aversion, exact),
        objects=("penalties.criterion", "penalties.risk"),
        note="Evaluated where the optimum is known, for one or two inputs and units: 4/25 on P_(1,1) for two inputs, "
        "one unit and drop 1/2, and with noisy labels, whose least risk is not 0. All minimizers found there have one "
        "risk. The definition needs minimizers to exist.",
    ),
    Claim(
        "helmbold2017-def3",
        f"{SOURCE}, Definition 3",
        "A o P, A square, is the law of (Ax, y) for (x, y) drawn from P.",
        check=partial(decay_checks.moved_law, 0.0),
        control=partial(decay_checks.moved_law, 0.2),
        objects=("penalties.criterion", "penalties.risk", "models.ReLUNet"),
        note="Checked as Theorem 4 uses it: where A is diagonal and invertible, networks with W_1 A^-1 have the risk "
        "and criterion on A o P that those with W_1 have on P; where it is a shear, the risk but another criterion.",
    ),
    Claim(
        "helmbold2017-thm5-proof",
        f"{SOURCE}, proof of Theorem 5",
        "With W' the network W scaled as in (3), layer j by any c_j > 0, D(W, x, R) = (prod_j c_j) D(W', x, R).",
        "slip",
        check=partial(checks.rescaled_layers, True, swap=True),
        control=partial(checks.rescaled_layers, True),
        objects=(
            "models.ReLUNet",
            "equalization.rescale",
            "penalties.criterion",
            "penalties.penalty",
            "penalties.risk",
        ),
        erratum=ERRATA["thm5-proof"],
    ),
    Claim(
        "helmbold2017-lem16-proof",
        f"{SOURCE}, proof of Lemma 16",
        "The proof's bound on a step of psi, (1 - sqrt(2/(9K)) - sqrt(1/(18K)))/(K/2 - sqrt(K)/4), exceeds "
        "1/sqrt(9/32K) for K > 18.",
        "slip",
        check=partial(negative_checks.slope_step, True),
        control=partial(negative_checks.slope_step, False),
        erratum=ERRATA["lem16-proof"],
    ),
    Claim(
        "helmbold2017-def21",
        f"{SOURCE}, Definition 21",
        "Aversion witness: a minimizer of J_2 = R + lam/2 ||W||^2 that has the largest risk among them; on P_(x,1), x "
        "!= 0, at depth 2 and lam > 0, its risk is min(1/4, lam^2/x.x).",
        check=partial(decay_checks.witness, 1.0),
        control=partial(decay_checks.witness, 1.2),
        objects=("penalties.risk",),
    ),
    Claim(
        "helmbold2017-lem22",
        f"{SOURCE}, Lemma 22",
        "From every minimizer of J_2 = R + lam/2 ||W||^2 on P_(x,1), depth 2, one gets another, with the same outputs "
        "at 0 and x, of which every hidden node j, of value h_j, has h_j(0) = 0 or h_j(x) = 0.",
        check=partial(decay_checks.hinges, lambda w, least: w * least),
        control=partial(decay_checks.hinges, lambda w, least: least / w),
    ),
    Claim(
        "helmbold2017-lem22-proof",
        f"{SOURCE}, proof of Lemma 22",
        "At depth 2, for a node with output weight w_j != 0 and positive values at 0 and x, subtracting m = "
        "min{h_j(0), h_j(x)} from its bias and adding m/w_j to the output bias b changes no output at 0 and x.",
        "slip",
        check=partial(decay_checks.hinges, lambda w, least: least / w),
        control=partial(decay_checks.hinges, lambda w, least: w * least),
        erratum=ERRATA["lem22-proof"],
    ),
    Claim(
        "helmbold2017-lem23",
        f"{SOURCE}, Lemma 23",
        "From every minimizer of J_2 = R + lam/2 ||W||^2 on P_(x,1), depth 2, one gets another, with the same outputs "
        "at 0 and x, of which every hidden node has |v_j.x| = max{h_j(0), h_j(x)}, v_j the weights into it, and the "
        "other of the two values is zero.",
        check=partial(decay_checks.node_range, 1.0),
        control=partial(decay_checks.node_range, 0.95),
        note="By the step of the proof on any network that Lemma 22 leaves, and at optima that descent finds, on the "
        "difference of the two values, which Lemma 22 does not change; nodes that are not used have no weights.",
    ),
    Claim(
        "helmbold2017-lem24",
        f"{SOURCE}, Lemma 24",
        "From every minimizer of J_2 = R + lam/2 ||W||^2 on P_(x,1), depth 2, one gets another, with the same outputs "
        "at 0 and x, of which every hidden node is zero at 0: of one that is z > 0 there after Lemmas 22 and 23, v "
        "and w are negated, its bias becomes 0, and w z, w as it was, is added to the output bias.",
        check=partial(decay_checks.swapped, -1.0),
        control=partial(decay_checks.swapped, 1.0),
    ),
    Claim(
        "helmbold2017-lem26",
        f"{SOURCE}, Lemma 26, eq. (10)-(11)",
        "At the witness of J_2 = R + lam/2 ||W||^2 on P_(x,1), depth 2, as Lemmas 22 to 25 leave it, the output bias "
        "is (1 - w^T V x)/2, so its outputs at 0 and x sum to 1, and its output at any x~ at which no v_j.x~ is "
        "negative is 1/2 + w^T V (x~ - x/2).",
        check=partial(decay_checks.output_bias, 0.5),
        control=partial(decay_checks.output_bias, 0.51),
        note="So at 0 and x, where alone it is used; printed without that condition. At -x the output is the bias.",
    ),
    Claim(
        "helmbold2017-lem25",
        f"{SOURCE}, Lemma 25",
        "At a minimizer of J_2 = R + lam/2 ||W||^2, lam > 0, on P_(x,1), depth 2, without biases in its hidden nodes, "
        "as Lemmas 22 to 24 leave it, v_j.x >= 0 for every node: otherwise v_j serves nothing at 0 and x, and without "
        "it the L2 penalty is smaller.",
        check=partial(decay_checks.needless_node, -1.0),
        control=partial(decay_checks.needless_node, 1.0),
    ),
    Claim(
        "helmbold2017-lem27",
        f"{SOURCE}, Lemma 27",
        "Every v_j, the weights into hidden node j, of a minimizer of J_2 = R + lam/2 ||W||^2, lam > 0, on P_(x,1), "
        "depth 2, is a multiple of x.",
        check=partial(decay_checks.along_input, 0.0),
        control=partial(decay_checks.along_input, 0.05),
    ),
    Claim(
        "helmbold2017-lem28",
        f"{SOURCE}, Lemma 28",
        "The output at x of the witness of J_2 = R + lam/2 ||W||^2 on P_(x,1), depth 2, as Lemmas 22 to 25 leave it, "
        "is at most 1.",
        check=partial(decay_checks.output_level, 1.0),
        control=partial(decay_checks.output_level, 0.95),
    ),
    Claim(
        "helmbold2017-lem29",
        f"{SOURCE}, Lemma 29",
        "Among networks of one hidden layer whose outputs at 0 and x are those of 1/2 + w^T V(x~ - x/2), V the "
        "weights into the hidden nodes and w those into the output, and whose L2 penalty is that of the witness of "
        "J_2 = R + lam/2 ||W||^2, lam > 0, on P_(x,1), the witness has the largest output at x.",
        check=partial(decay_checks.largest_output, 1.0),
        control=partial(decay_checks.largest_output, 0.9),
    ),
    Claim(
        "helmbold2017-def30",
        f"{SOURCE}, Definition 30",
        "At a minimizer of J_2 = R + lam/2 ||W||^2, lam > 0, on P_(x,1), x != 0, depth 2, whose hidden nodes are zero "
        "at 0, alpha_j is the number with v_j = alpha_j x, so that h_j(x) = alpha_j x.x.",
        check=partial(decay_checks.contributions, 1.0, 1.0),
        control=partial(decay_checks.contributions, 1.01, 1.0),
    ),
    Claim(
        "helmbold2017-def31",
        f"{SOURCE}, Definition 31",
        "With alpha_j of Definition 30 node j contributes w_j h_j(x) = w_j alpha_j x.x to the activation w^T V x at "
        "the output and lam/2 (w_j^2 + alpha_j^2 x.x) to the L2 penalty.",
        check=partial(decay_checks.contributions, 1.0, 1.0),
        control=partial(decay_checks.contributions, 1.0, 0.9),
        note="Checked: they are what activation and penalty lose without the node.",
    ),
    Claim(
        "helmbold2017-lem32",
        f"{SOURCE}, Lemma 32",
        "For x != 0 a node without a bias that has weights alpha_j x into it and w_j out of it, w_j^2 + alpha_j^2 x.x "
        "= B, contributes at most B ||x||/2 to the activation at x, which it does at w_j = sqrt(B/2) and alpha_j = "
        "sqrt(B/(2 x.x)).",
        check=partial(decay_checks.node_budget, 1.0),
        control=partial(decay_checks.node_budget, 0.9),
        note="At x = 0 it contributes nothing, and alpha_j is any number. For B > 0 no other split attains the bound.",
    ),
    Claim(
        "helmbold2017-lem33",
        f"{SOURCE}, Lemma 33",
        "The least sum of squared weights of a network of one hidden layer, of any width, without hidden biases that "
        "has activation w^T h(x) = A >= 0 at its output on x != 0 is 2A/||x||.",
        check=partial(decay_checks.budget, 1.0),
        control=partial(decay_checks.budget, 0.9),
        note="Printed without A >= 0, which its use in the proof of Theorem 7 has: below 0 it is 2|A|/||x||.",
    ),
    Claim(
        "helmbold2017-misprints",
        f"{SOURCE}, misprints",
        "Meant: in Lemma 9 x in {0,1}^K (printed n), before it that the i-th (K-th) input is 1; in Theorem 17 "
        "P_((1,1),1) (P_{(1,1),1}, in Appendix A the single example), in its proof that key nodes send 2 (every node "
        "1), and V_00 (V_0); at Figure 2 Section 6 (Section 3); in Definition 21 the risk R (the letter of patterns); "
        "after Lemma 24 a_n (a_K); before Definition 30 Lemma 24 (Lemma 25) on the biases; in Lemma 32 node j (k).",
        "not checked",
        note="Slips of notation: the checks of these statements use what is meant.",
    ),
)
