"""Statements of Helmbold and Long on dropout in deep ReLU networks, as claims."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.helmbold2017 import checks, count_checks, decay_checks, negative_checks
from droptics.papers.helmbold2017.errata import ERRATA
from droptics.papers.helmbold2017.proof_claims import CLAIMS as PROOFS

SOURCE = "Helmbold, Long 2017 (JMLR 18, arXiv 1602.04484)"
ALL_BUT_FOUR = tuple(n for n in range(1, 3001) if n not in (5, 7, 16, 18))

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "helmbold2017-eq2",
        f"{SOURCE}, eq. (2), Figure 1",
        "The network of Figure 1, two inputs and one hidden layer of two units, all weights one and no biases, has at "
        "x = (1, -1), y = 8 and drop 1/2 the criterion 54 and the risk 64: the dropout penalty, their difference, is "
        "-10.",
        check=partial(checks.worked_example, 54.0),
        control=partial(checks.worked_example, 55.0),
        objects=("penalties.criterion", "models.ReLUNet", "penalties.penalty", "penalties.risk"),
    ),
    Claim(
        "helmbold2017-def1",
        f"{SOURCE}, Definition 1, eq. (1)",
        "P_(x,y) is half (x, y), half (0, 0). The criterion of a network on any distribution is the mean of its "
        "criteria on the single examples: it is linear in the distribution.",
        check=partial(checks.mixture, 0.5),
        control=partial(checks.mixture, 0.6),
        objects=("penalties.criterion",),
        note="P_{x,y}, without brackets, is the single example in Appendix A and Theorem 18: where every masked output "
        "at 0 is 0, its criteria are twice as large.",
    ),
    Claim(
        "helmbold2017-thm4",
        f"{SOURCE}, Theorem 4",
        "For A diagonal and invertible, of any signs, A o P has the dropout aversion of P: with W_1 A^-1 for W_1, the "
        "weights on the inputs, a network has on A o P the criterion and the risk that it had on P.",
        check=partial(checks.rescaled_inputs, 1.0),
        control=partial(checks.rescaled_inputs, 1.1),
        objects=("penalties.criterion", "models.ReLUNet", "penalties.risk"),
    ),
    Claim(
        "helmbold2017-sec3",
        f"{SOURCE}, Section 3, after Theorem 4",
        "Centering the inputs is not an invariance of dropout: on P_(1,1) of one input, at drop 1/2 and one hidden "
        "layer of two units, it takes the least criterion from 1/5 to 3/16 and the aversion from 4/25 to 9/64.",
        check=partial(decay_checks.centering, lambda inputs: inputs - inputs.mean(0)),
        control=partial(decay_checks.centering, lambda inputs: inputs / 2),
        objects=("penalties.criterion", "penalties.risk"),
        note="Printed is that each pattern seems to need a network of its own; the numbers are ours. Rescaling is an "
        "invariance (Theorem 4).",
    ),
    Claim(
        "helmbold2017-thm5",
        f"{SOURCE}, Theorem 5",
        "Multiplying the weights of layer j by c_j > 0 and its biases by c_1 ... c_j, j = 1, ..., d, multiplies every "
        "masked output by c_1 ... c_d. If that is one, criterion, dropout penalty and expected loss stay the same, "
        "for any P.",
        check=partial(checks.rescaled_layers, True),
        control=partial(checks.rescaled_layers, False),
        objects=(
            "models.ReLUNet",
            "equalization.rescale",
            "penalties.criterion",
            "penalties.penalty",
            "penalties.risk",
        ),
        note="With a factor for each hidden node, divided out of the weights that leave it, no masked output changes "
        "either: rescale of the library. One line of the proof has W and W' interchanged, see helmbold2017-thm5-proof.",
    ),
    Claim(
        "helmbold2017-thm6",
        f"{SOURCE}, Theorem 6",
        "Labels times c > 0 multiply the dropout aversion of Definition 2, at any depth and width, by c^2.",
        check=partial(checks.rescaled_labels, 2),
        control=partial(checks.rescaled_labels, 1),
        objects=("penalties.criterion", "penalties.risk"),
        note="So do labels times c < 0. The weight-decay aversion (Theorem 7) does not scale so.",
    ),
    Claim(
        "helmbold2017-thm7",
        f"{SOURCE}, Theorem 7",
        "At depth 2, any width, lam > 0 and x != 0 the weight-decay aversion of P_(x,1), that of J_2 = R + lam/2 "
        "||W||^2 with free biases, is min(1/4, lam^2/x.x): it depends on the scale of the inputs.",
        check=partial(decay_checks.witness, 1.0),
        control=partial(decay_checks.witness, 1.1),
        objects=("penalties.risk",),
        note="Printed without x != 0, where the formula divides by 0: there no network separates the two examples, "
        "and the aversion is 0. The proof of Lemma 22 should add w_j min to b.",
    ),
    Claim(
        "helmbold2017-lem9",
        f"{SOURCE}, Lemma 9",
        "A first-one gadget is K hidden nodes without biases, of which node i has weight 1 on input i, -1 on the "
        "inputs before it and 0 on those after it. On every 0/1 input but zero one node has the value 1 and the "
        "others 0; so the first hidden layer of W_neg, n/K such gadgets, sums to n/K.",
        check=partial(checks.first_one, 0.0),
        control=partial(checks.first_one, -0.1),
        objects=("models.ReLUNet",),
        note="Inputs live in {0,1}^K (printed: n), and node i looks at the i-th input (printed: the K-th).",
    ),
    Claim(
        "helmbold2017-lem10",
        f"{SOURCE}, Lemma 10 (main text)",
        "W_neg has n/K first-one gadgets (helmbold2017-lem9), then d-2 layers of weights one, no biases and all "
        "output weights c. At drop 1/2 its criterion on P_(1,1) is (1 - (1-2^-K)/D)/2, D = (1+K/n)(1+1/n)^(d-2), at c "
        "= K^2/(2 n^(d-1) D), which minimizes it.",
        "slip",
        check=partial(checks.gadget_value, 2),
        control=partial(checks.gadget_value, 1),
        objects=("penalties.criterion",),
        erratum=ERRATA["lem10"],
    ),
    Claim(
        "helmbold2017-lem10-corrected",
        f"{SOURCE}, Lemma 10, corrected, for every rate",
        "W_neg has n/K first-one gadgets (helmbold2017-lem9), then d-2 layers of weights one, no biases and all "
        "output weights c. Its criterion on P_(1,1) is (1 - (1-q^K)/D)/2, D = (1+qK/(pn))(1+q/(pn))^(d-2), at c = "
        "pK/(n^(d-1) D), which minimizes it.",
        check=partial(checks.gadget_value, 1),
        control=partial(checks.gadget_value, 2),
        objects=("penalties.criterion",),
    ),
    Claim(
        "helmbold2017-def11",
        f"{SOURCE}, Definition 11, Lemma 12",
        "phi is supermodular if phi(x) + phi(x+a+b) >= phi(x+a) + phi(x+b) for all x and a, b >= 0. Networks with "
        "non-negative weights, any biases and convex, continuous, non-decreasing activations, differentiable except on "
        "a finite set, are.",
        check=partial(count_checks.supermodular, 1.0),
        control=partial(count_checks.supermodular, -0.1),
        objects=("models.ReLUNet",),
        note="The definition is stronger than lattice supermodularity: it includes midpoint convexity along each "
        "direction v >= 0.",
    ),
    Claim(
        "helmbold2017-lem12",
        f"{SOURCE}, Lemma 12",
        "A network with non-negative weights, any biases and convex, non-decreasing activations computes a "
        "supermodular function of its input; W_neg of Lemma 10 does not, for K >= 2.",
        check=lambda: [*count_checks.supermodular(1.0), *count_checks.gadgets_are_not_supermodular()],
        control=partial(count_checks.supermodular, 1.0, convex=False),
        objects=("models.ReLUNet",),
        note="Printed with activations that are continuous, and differentiable except on a finite set: convexity makes "
        "that needless. The second half is ours.",
    ),
    Claim(
        "helmbold2017-def13",
        f"{SOURCE}, Definition 13",
        "psi(l) is the mean output under dropout on (1, ..., 1) given that l of the K inputs are kept; that of "
        "W_neg of Lemma 10 is not convex for K >= 2.",
        check=partial(count_checks.mean_by_count, 1.0),
        control=partial(count_checks.mean_by_count, 0.8),
        objects=("models.ReLUNet",),
        note="The second half is ours: psi of W_neg is 0 at 0 and one positive number at all other l.",
    ),
    Claim(
        "helmbold2017-lem14",
        f"{SOURCE}, Lemma 14",
        "psi of Definition 13 is convex in l = 0, ..., K for ReLU networks with non-negative weights and any biases.",
        check=partial(count_checks.convex_in_count, True),
        control=partial(count_checks.convex_in_count, False),
        objects=("models.ReLUNet",),
    ),
    Claim(
        "helmbold2017-lem15",
        f"{SOURCE}, Lemma 15",
        "Pr(Bin(n,1/2) < n/2 - sqrt(n)/4) >= 1/4 for every n.",
        "false",
        check=partial(negative_checks.binomial_tail, (5, 7, 16, 18)),
        control=partial(negative_checks.binomial_tail, ALL_BUT_FOUR),
        erratum=ERRATA["lem15"],
    ),
    Claim(
        "helmbold2017-lem15-corrected",
        f"{SOURCE}, Lemma 15, corrected",
        "Pr(Bin(n,1/2) < n/2 - sqrt(n)/4) >= 1/4 for every n >= 1 except 5, 7, 16, 18.",
        check=lambda: [
            *negative_checks.binomial_tail(ALL_BUT_FOUR, (5, 7, 16, 18)),
            *negative_checks.tail_beyond(ALL_BUT_FOUR[-1]),
        ],
        control=partial(negative_checks.binomial_tail, (*ALL_BUT_FOUR, 18), (5, 7, 16)),
        note="Counted up to 3000. Beyond, by Berry and Esseen, it is Phi(-1/2) = .3085 up to C/sqrt(n) with C < .8 "
        "(van Beeck 1972).",
    ),
    Claim(
        "helmbold2017-lem16",
        f"{SOURCE}, Lemma 16",
        "At drop 1/2 every network with non-negative weights and any biases has criterion at least 1/(36K) on "
        "P_(1,1), K > 18.",
        check=partial(negative_checks.nonnegative_bound, 1.0, lambda K: 1 / (36 * K)),
        control=partial(negative_checks.nonnegative_bound, 1.01, lambda K: 1 / (2 * (K + 2))),
        objects=("penalties.criterion",),
        note="The exact infimum is 1/(2(K+2)), 16 to 18 times as much, see droptics-nonnegative-infimum: the control "
        "takes 1.01 times that. The proof has K under a root where it belongs outside, see helmbold2017-lem16-proof.",
    ),
    Claim(
        "helmbold2017-thm8",
        f"{SOURCE}, Theorem 8",
        "Standard architecture of depth d >= 2, drop 1/2: for K > 18 and n large beside K and d every minimizer of "
        "the criterion on P_(1,1) has a negative weight.",
        check=lambda: [
            *negative_checks.gadget_limit_wins((2, 3, 5, 18, 19, 64)),
            *negative_checks.negative_weights_win(((19, 400), (64, 4000))),
            *negative_checks.deep_gadgets_win((19, 64, 256)),
            *negative_checks.nonnegative_bound(1.0, lambda K: 1 / (2 * (K + 2)), ()),
        ],
        control=partial(negative_checks.gadget_limit_wins, (1,)),
        note="K >= 2 is enough: gadgets with the best output bias tend to 2^-K/(2(1+2^-K)), which is less than "
        "1/(2(K+2)). With one hidden layer and K >= 3 every n is large enough, see droptics-nor-network. The print "
        "does not except depth 1, where no weight of the minimizer is negative.",
    ),
    Claim(
        "helmbold2017-thm17",
        f"{SOURCE}, Theorem 17",
        "Standard architecture, drop 1/2: for K = 2, any fixed depth d >= 2 and n large every minimizer of J_D on "
        "P_((1,1),1) has a negative weight.",
        check=lambda: [
            *negative_checks.negative_weights_win(((2, 5), (2, 8), (2, 100))),
            *negative_checks.deep_pairs_win((2, 3, 5)),
        ],
        control=partial(negative_checks.negative_weights_win, ((2, 4),)),
        objects=("penalties.criterion",),
        note="At depth 2 by the network of droptics-nor-network, which takes n >= 5; exactly from n = 3 on, see "
        "droptics-negative-weights. Deeper by gadgets with a bias, n = 10 d, against 1/8, which Lemma 12 gives for "
        "every depth. The standard architecture asks for a perfect square K, which 2 is not; nothing rests on that.",
    ),
    Claim(
        "helmbold2017-thm17-proof",
        f"{SOURCE}, proof of Theorem 17",
        "At drop 1/2, for K = 2 and n -> infinity, W_neg with output bias 1/5, its other parameters those of Lemma 10 "
        "(corrected), has a criterion on P_((1,1),1) that tends to 1/10.",
        "slip",
        check=partial(negative_checks.unscaled_limit, 0.1),
        control=partial(negative_checks.unscaled_limit, 0.115),
        erratum=ERRATA["thm17-proof"],
        objects=("penalties.criterion",),
    ),
    Claim(
        "helmbold2017-thm17-proof-corrected",
        f"{SOURCE}, proof of Theorem 17, corrected",
        "At drop 1/2, with t/2 the criterion on P_(1,1) and c the output weights of W_neg of Lemma 10 (corrected), its "
        "best output bias is b = t/(1+t), with output weights (1-b)c, and its criterion then t/(2(1+t)). For K = 2 and "
        "n -> infinity b tends to 1/5 and the criterion to 1/10.",
        check=partial(checks.gadget_bias, 1.0),
        control=partial(checks.gadget_bias, 0.0),
        objects=("penalties.criterion",),
    ),
    Claim(
        "helmbold2017-thm18",
        f"{SOURCE}, Theorem 18 (b)",
        "On P_{x,y}, x = (1, ..., 1), y >= 0, the network of K inputs and d layers, the hidden ones of width n, that "
        "has all weights (y/(K n^(d-1)))^(1/d) and no biases has risk 0 and, at p = 1/2, criterion at least y^2/(K+1).",
        check=lambda: [*checks.growth(lambda K: 1 / (K + 1)), *checks.growth(lambda K: 1 / K)],
        control=partial(checks.growth, lambda K: 1.1 / K),
        objects=("penalties.criterion", "penalties.risk"),
        note="P_{x,y} is the single example, as in the notation of Appendix A: the criterion is "
        "y^2((1+q/(pK))(1+q/(pn))^(d-1) - 1), at p = 1/2 at least y^2/K. Under P_(x,y) of Definition 1 it would be "
        "half of that.",
    ),
    Claim(
        "helmbold2017-thm18-decay",
        f"{SOURCE}, Theorem 18 (a) and (c)",
        "On P_{x,y}, x = (1, ..., 1), d >= 2, 0 <= y <= K n^(d-1), the network of all weights c = "
        "(y/(K n^(d-1)))^(1/d) and no biases, of risk 0, has c <= 1 and, for lam >= 0, J_2 = R + lam/2 ||W||^2 <= "
        "(lam y^(2/d)/2)(Kn + n^2(d-2) + n).",
        check=partial(checks.growth_decay, 1.0),
        control=partial(checks.growth_decay, 0.9),
        objects=("models.ReLUNet", "penalties.risk"),
        note="Exactly J_2 = lam/2 c^2 (Kn + n^2(d-2) + n).",
    ),
    Claim(
        "helmbold2017-thm19",
        f"{SOURCE}, Theorem 19",
        "The dropout penalty of a ReLU network can be negative, and only where a weight, an input or a bias is.",
        check=lambda: [*checks.negative_penalties(1.0), *checks.output_signs_alone(True)],
        control=partial(checks.output_signs_alone, False),
        objects=("penalties.penalty",),
        note="Sharper: a negative input, hidden weight or hidden bias is needed; output parameters never suffice. "
        "Whatever the distribution: the penalty is its mean over the examples.",
    ),
    Claim(
        "helmbold2017-thm20",
        f"{SOURCE}, Theorem 20",
        "The dropout penalty of some network depends on the labels at every rate q in (0, 1): of two hidden units, all "
        "weights one and no biases, at x = (1, -2), it falls by 4q per unit of y.",
        check=partial(checks.label_dependence, -4.0),
        control=partial(checks.label_dependence, -3.9),
        objects=("penalties.penalty",),
    ),
    Claim(
        "helmbold2017-sec5",
        f"{SOURCE}, Section 1, last of the listed properties (on Section 5)",
        "The dropout penalty is often not monotone in the dropout probability: at a fixed network it may fall and "
        "rise.",
        check=partial(checks.not_monotone, (0.3, 0.5, 0.7)),
        control=partial(checks.not_monotone, (0.6, 0.7, 0.8)),
        objects=("penalties.penalty",),
        note="That of Figure 1 at x = (1, -1), y = 8 does, and those of at least 12 of 60 networks of two inputs and "
        "two hidden units whose weights, biases and examples are drawn from normal laws.",
    ),
    Claim(
        "helmbold2017-sec4.3",
        f"{SOURCE}, Section 4.3, remark on zero embeddings",
        "Weights on inputs that are always zero change no criterion. At drop 1/2, on half (0, 0) and half any mixture "
        "of examples (x, 1), x with two ones and K-2 zeros, one W_neg of Lemma 10 (corrected), given output bias 1/5 "
        "and output weights times 4/5, has a criterion that tends to 1/10 as n/K grows, d fixed. Every network with "
        "non-negative weights has 1/8 or more there, also where further features have one value in all examples.",
        check=partial(count_checks.zero_embeddings, 2),
        control=partial(count_checks.zero_embeddings, 3),
        objects=("penalties.criterion",),
        note="Exactly (b^2 + t(1-b)^2)/2 with t = 1 - (1-q^2)/D, D of Lemma 10 (corrected), output bias b and output "
        "weights times 1 - b. Of W_neg only the bias is printed; with the weights of Lemma 10 the limit is .115, see "
        "helmbold2017-thm17-proof.",
    ),
    *PROOFS,
)
