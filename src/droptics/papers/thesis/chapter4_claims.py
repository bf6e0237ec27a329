"""Chapter 4 of the thesis: dropout and generalization, as claims."""

from __future__ import annotations

from functools import partial

from droptics.bounds import completion_constant
from droptics.evidence.claims import Claim
from droptics.papers.thesis import chapter4_bound_checks as bound_checks
from droptics.papers.thesis import chapter4_checks as checks
from droptics.papers.thesis import chapter4_contraction_checks as contraction_checks
from droptics.papers.thesis import chapter4_relu_checks as relu_checks
from droptics.papers.thesis.errata import ERRATA

SOURCE = "Mianjy thesis (Johns Hopkins), chapter 4"


def _rate(drop: float) -> float:
    return drop / (1 - drop)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "thesis-prop3",
        f"{SOURCE}, eq. (4.1)-(4.2), Proposition 3",
        "Where every u_k v_k^T of UV^T = sum_k u_k v_k^T is multiplied by 0 with probability p < 1 and by 1/(1-p) "
        "otherwise, independently of the others, the mean over j of (y_j - <UV^T, A_j>)^2 grows on average by lam "
        "sum_k mean_j (u_k^T A_j v_k)^2, lam = p/(1-p).",
        check=partial(checks.sensing, _rate),
        control=partial(checks.sensing, lambda drop: drop),
        objects=("penalties.penalty", "models.Factorization", "data.Measurements", "penalties.criterion"),
    ),
    Claim(
        "thesis-sec4.2",
        f"{SOURCE}, Section 4.2",
        "With measurements y = <M*, A>, A standard Gaussian, the expected squared error L(U,V) of UV^T is ||M* - "
        "UV^T||_F^2, and Theta(M), the least expected regularizer E sum_k (u_k^T A v_k)^2 of factors UV^T = M of d1 "
        "columns, is ||M||_*^2/d1.",
        check=partial(checks.gaussian_sensing, 1.0),
        control=partial(checks.gaussian_sensing, 1.05),
        objects=(
            "norms.nuclear",
            "penalties.penalty",
            "penalties.risk",
            "models.Factorization",
            "linalg.equalizer",
        ),
        note="For d1 >= rank M, without which there are no factors; the regularizer without lam, as in (4.2).",
    ),
    Claim(
        "thesis-prop4",
        f"{SOURCE}, Proposition 4",
        "Where A is the indicator of entry (i, k) with probability p(i) q(k), Theta(M), the least expected regularizer "
        "E sum_l (u_l^T A v_l)^2 of factors UV^T = M of d1 columns, is ||diag(sqrt p) M diag(sqrt q)||_*^2 / d1.",
        check=partial(checks.induced_completion, 1.0),
        control=partial(checks.induced_completion, 1.5),
        objects=(
            "norms.weighted_trace",
            "linalg.equalizer",
            "penalties.penalty",
        ),
        note="For p, q > 0 and d1 >= rank M, without which there are no factors; the printed right-hand side has UV^T "
        "for M. Seen only at (1,2) and (2,1), which is no product, the identity costs nothing.",
    ),
    Claim(
        "thesis-prop4-proof",
        f"{SOURCE}, proof of Proposition 4",
        "For every pair (U, V) some rotation Q brings the expected regularizer at (UQ, VQ) to the least of all "
        "factors of UV^T.",
        "slip",
        check=partial(checks.rotation_only, balanced=False),
        control=partial(checks.rotation_only, balanced=True),
        objects=("norms.weighted_trace",),
        erratum=ERRATA["prop4-proof"],
    ),
    Claim(
        "thesis-thm11",
        f"{SOURCE}, Theorem 11",
        "If d2 >= d0, ||M*|| <= 1, and entries (i, k) of M* (d2 x d0) are drawn with probabilities p(i) q(k), none "
        "below log(d2)/(n sqrt(d2 d0)), then with probability 1-delta L(g(UV^T)) <= Lhat(U,V) + 8 sqrt((2 alpha d2 log "
        "d2 + log(2/delta)/4)/n) for all factors with R(U,V) <= alpha/d1, L the expected squared error at a drawn "
        "entry, Lhat its mean over n of them, g clipping to [-1, 1].",
        "vacuous",
        check=lambda: [
            *checks.completion_from_theorems(8.0),
            *checks.completion_terms(True, 8.0),
            *checks.completion_terms(False, 8.0),
            *bound_checks.completion_of_ratings(8.0),
        ],
        control=partial(checks.completion_from_theorems, 7.9),
        vacuity=checks.completion_is_vacuous,
        objects=(
            "bounds.completion",
            "bounds.squared",
            "bounds.completion_constant",
        ),
        note="R is the expected regularizer of thesis-prop4, alpha fixed before the data are seen. Checked is that "
        "Theorem 19 gives it from R_n <= sqrt(alpha d2 log d2/n), as its proof says. That inequality lacks the factor "
        "K of thesis-thm20, without which it fails for small matrices (thesis-thm11-constant), and p(i) q(k) is too "
        "small on real ratings.",
    ),
    Claim(
        "thesis-prop5",
        f"{SOURCE}, eq. (4.3)-(4.4), Proposition 5",
        "Dropout of rate p on the hidden layer of a ReLU network U relu(V^T x) adds on average over the masks lam "
        "sum_k ||u_k||^2 mean_i a_k(x_i)^2, lam = p/(1-p), u_k the columns of U and a(x) = relu(V^T x), to the mean "
        "over i of ||y_i - U a(x_i)||^2.",
        check=partial(relu_checks.relu_penalty, _rate),
        control=partial(relu_checks.relu_penalty, lambda drop: drop),
        objects=("penalties.penalty", "models.LastLayer", "penalties.criterion"),
        note="It holds for any activation and any depth below the dropped layer.",
    ),
    Claim(
        "thesis-sec4.3",
        f"{SOURCE}, Section 4.3",
        "For symmetric isotropic inputs and two-layer ReLU networks the expected regularizer is R(w) = 1/2 "
        "sum_{i0,i1,i2} U(i2,i1)^2 V(i0,i1)^2.",
        "slip",
        check=partial(relu_checks.isotropic_regularizer, True, False),
        control=partial(relu_checks.isotropic_regularizer, True),
        objects=(
            "penalties.penalty",
            "norms.path_norm",
            "linalg.psd_root",
        ),
        erratum=ERRATA["sec4.3"],
    ),
    Claim(
        "thesis-prop6",
        f"{SOURCE}, Proposition 6",
        "For inputs x that have the law of -x, E x x^T = I, and two-layer ReLU networks U relu(V^T x), their hidden "
        "units dropped with probability p, the expected regularizer is R(w) = (lam/2) sum_{i0,i1,i2} U(i2,i1)^2 "
        "V(i0,i1)^2, lam = p/(1-p).",
        check=partial(relu_checks.isotropic_regularizer, True),
        control=partial(relu_checks.isotropic_regularizer, False),
        objects=(
            "norms.path_norm",
            "penalties.penalty",
            "linalg.psd_root",
        ),
        note="Isotropy alone is not enough, as the control shows. The printed (4.8) has the indices of U and V the "
        "other way round than Section 4.3, as its proof has the rows of V and the transpose of U.",
    ),
    Claim(
        "thesis-prop2",
        f"{SOURCE}, Proposition 2",
        "For every C some law on the unit sphere has a unit x -> relu(w.x) with E relu(w.x)^2 <= 1 and ||w|| > C.",
        check=partial(relu_checks.unbounded_norm, lambda C: min(0.3, 0.99 / C**2)),
        control=partial(relu_checks.unbounded_norm, lambda C: min(0.3, 1.1 / C**2)),
        objects=("coadaptation.retentivity",),
        note="The three-point law of the proof, in the plane, with delta below 1/C^2 and 1/2: ||w|| = delta^(-1/2).",
    ),
    Claim(
        "thesis-prop2-proof",
        f"{SOURCE}, proof of Proposition 2",
        "For every C > 0 the choice delta = C^2 makes ||w|| >= C for the unit w = (1/sqrt delta, 0) of the "
        "three-point law, of E relu(w.x)^2 = 1.",
        "slip",
        check=partial(relu_checks.unbounded_norm, lambda C: C**2),
        control=partial(relu_checks.unbounded_norm, lambda C: min(0.3, 0.99 / C**2)),
        objects=("coadaptation.retentivity",),
        erratum=ERRATA["prop2-proof"],
    ),
    Claim(
        "thesis-asm1",
        f"{SOURCE}, Assumption 1",
        "A law is beta-retentive if E relu(v.x)^2 >= beta E (v.x)^2 for every v; the largest such beta, unless x is "
        "always 0, is at most 1/2, and 1/2 for symmetric laws.",
        check=partial(relu_checks.retained, 0.5),
        control=partial(relu_checks.retained, 0.4),
        objects=(
            "coadaptation.retentivity",
            "coadaptation.symmetrize",
        ),
        note="It is 0 for non-negative data, as raw images are, and for linearly independent examples: a sample can "
        "have 0 where the law that it is drawn from has 1/2.",
    ),
    Claim(
        "thesis-sec4.3-symmetrization",
        f"{SOURCE}, Section 4.3, symmetrization",
        "With a fair random sign on x, independent of it, every ReLU activation relu(v.x) has second moment v^T C v / "
        "2, C = E x x^T, and the largest beta of Assumption 1 is 1/2 unless x is always 0.",
        check=partial(relu_checks.symmetrized_moments, 0.5),
        control=partial(relu_checks.symmetrized_moments, 0.55),
        objects=("coadaptation.symmetrize", "coadaptation.flows", "coadaptation.retentivity"),
    ),
    Claim(
        "thesis-sec4.3-cauchy",
        f"{SOURCE}, before Proposition 2",
        "sum_k |u_k| a_k <= sqrt(d1 R(w)) at every rate, R(w) = E Rhat(w) = lam sum_k u_k^2 a_k^2, lam = p/(1-p), for "
        "Rhat as it is displayed before.",
        "slip",
        check=partial(relu_checks.cauchy_schwarz, True),
        control=partial(relu_checks.cauchy_schwarz, False),
        objects=("coadaptation.flows", "penalties.penalty"),
        erratum=ERRATA["sec4.3-cauchy"],
    ),
    Claim(
        "thesis-sec4.3-cauchy-corrected",
        f"{SOURCE}, before Proposition 2, corrected",
        "For one output u^T relu(V^T x) of d1 ReLU units, sum_k |u_k| a_k <= sqrt(d1 Rbar), a_k the root of the mean "
        "squared activation and Rbar = sum_k u_k^2 a_k^2, the penalty of dropout on the units at any one rate p > 0 "
        "over lam = p/(1-p); equal flows |u_k| a_k reach it.",
        check=partial(relu_checks.cauchy_schwarz, False),
        control=partial(relu_checks.cauchy_schwarz, True),
        objects=("coadaptation.flows", "penalties.penalty"),
    ),
    Claim(
        "thesis-thm12",
        f"{SOURCE}, Theorem 12",
        "For inputs of a beta-retentive law, beta > 0, C = E x x^T, every sample S of it has R_S(F_alpha) <= 2 alpha "
        "||X||_{C+}/(n sqrt beta), ||X||_{C+}^2 = sum_i x_i^T C+ x_i, and R_n(F_alpha) <= 2 alpha sqrt(rank C/(beta "
        "n)).",
        check=lambda: [
            *relu_checks.rademacher_upper(2.0),
            *bound_checks.complexity_of_samples(2.0),
            *bound_checks.complexity_of_a_network("upper", 2.0),
        ],
        control=partial(bound_checks.complexity_of_samples, 0.95),
        objects=(
            "bounds.rademacher",
            "bounds.measured_rademacher",
            "bounds.data_norm",
            "coadaptation.retentivity",
            "coadaptation.symmetrize",
        ),
        note="F_alpha holds the networks u^T relu(V^T x) with sum_k |u_k| a_k <= alpha, a_k^2 = E relu(v_k.x)^2. The "
        "proof drops alpha twice. R_S needs 1/sqrt(beta): where P(x = 1) = beta and P(x = -1) = 1 - beta, it "
        "is alpha/sqrt(beta) for the sample {1}. That is half of the bound, and of the cases compared none is nearer: "
        "the control is just below it. For inputs of one dimension R_n needs no beta: it is at most 2 alpha/sqrt n.",
    ),
    Claim(
        "thesis-sec4.3-norm",
        f"{SOURCE}, Section 4.3, before Theorem 12",
        "||X||_{C+} = sqrt(n rank C) when C is the mean of x_i x_i^T over the same n examples, rank C the number of "
        "its eigenvalues above its rounding, each feature in units of its own.",
        check=partial(relu_checks.weighted_norm_is_rank, 1.0),
        control=partial(relu_checks.weighted_norm_is_rank, 1.05),
        objects=("bounds.data_norm",),
        note="Printed is that it can be of the order of ||X||_F, both as sqrt(n d0). Squaring halves the digits: of "
        "two features that agree to half of theirs C tells one.",
    ),
    Claim(
        "thesis-thm13",
        f"{SOURCE}, Theorem 13",
        "There is a constant c with R_S(H_r) >= c sqrt(d1 r) ||X||_{C+} / n for every r > 0; c = 1/2 for even width.",
        check=lambda: [
            *relu_checks.rademacher_of_class(0.5),
            *relu_checks.rademacher_lower(0.5),
            *relu_checks.linear_class_inside(2.0),
            *bound_checks.complexity_of_a_network("lower", 0.5),
        ],
        control=partial(relu_checks.rademacher_of_class, 0.75),
        objects=(
            "bounds.measured_rademacher",
            "bounds.rademacher",
            "bounds.data_norm",
            "coadaptation.symmetrize",
            "penalties.penalty",
        ),
        note="S is any sample of n inputs of a law, ||X||_{C+} that of thesis-thm12, and H_r holds the networks u^T "
        "relu(V^T x) of width d1 with sum_k u_k^2 E relu(v_k.x)^2 <= r. The thesis proves even widths and leaves c "
        "open; c = 1/2 is the Khintchine-Kahane constant over sqrt 2, "
        "and the regularizer the one without lam. c = 1/sqrt 2 is the most there could be: one point, seen twice. Odd "
        "widths: droptics-odd-widths.",
    ),
    Claim(
        "thesis-cor2",
        f"{SOURCE}, Corollary 2",
        "For beta-retentive inputs, labels in [-1, 1] and g_w the network w clipped to [-1, 1], the mean squared "
        "errors of the law and of n examples obey, with probability 1-delta, L(g_w) <= Lhat(g_w) + 16 alpha "
        "||X||_{C+}/(sqrt(beta) n) + 12 sqrt(log(2/delta)/(2n)) for all w in the F_alpha of thesis-thm12.",
        "vacuous",
        check=partial(bound_checks.generalization, False, 16.0),
        control=partial(bound_checks.generalization, False, 15.9),
        vacuity=partial(bound_checks.generalization_is_vacuous, False),
        objects=("bounds.relu",),
        note="Checked is that Theorems 19 and 12, put together, give it. Where ||X||^2 is n rank C, beta = 1/2 and "
        "alpha = 1, its second term is above 1 for n < 512 rank C, as for 60,000 images of rank 561; to predict zero "
        "has loss 1 at labels -1 and +1.",
    ),
    Claim(
        "thesis-cor3",
        f"{SOURCE}, Corollary 3",
        "For labels in [-1, 1] and g_w the network w clipped to [-1, 1], with probability at least 1-delta over n "
        "examples and a fair sign for each, the expected squared error L(g_w) <= 2 Lhat(g_w) + 46 alpha ||X||_{C+}/n + "
        "24 sqrt(log(2/delta)/(2n)) for all w in F'_alpha, Lhat the mean squared error on the inputs with their signs, "
        "F'_alpha the networks u^T relu(V^T x) with sum_k |u_k| a'_k <= alpha, a'_k^2 the second moment of relu(v_k.x) "
        "with a fair sign on x.",
        "vacuous",
        check=partial(bound_checks.generalization, True, 46.0),
        control=partial(bound_checks.generalization, True, 45.0),
        vacuity=partial(bound_checks.generalization_is_vacuous, True),
        objects=(
            "bounds.relu",
            "coadaptation.retentivity",
            "coadaptation.symmetrize",
        ),
        note="Checked as Corollary 2; bounds.relu takes for Lhat its mean over both signs of every input, for which "
        "the same proof holds. The print has 'for any w' before the probability. 46 rounds 32 sqrt 2 = 45.25, with "
        "which the second term is above 1 at alpha = 1 and ||X||^2 = n rank C for n < 2048 rank C.",
    ),
    Claim(
        "thesis-sec4.4a",
        f"{SOURCE}, Section 4.4 (a)",
        "Dropout of rate p on the inputs vec(A) of the unfactored model <M, A> adds on average over the masks lam "
        "sum_ab M_ab^2 E A_ab^2, lam = p/(1-p), to the mean squared error.",
        check=partial(checks.unfactored_inputs, True),
        control=partial(checks.unfactored_inputs, False),
        objects=("penalties.penalty", "data.Measurements"),
        note="The ridge penalty lam ||M||_F^2 for Gaussian measurements, of second moment one.",
    ),
    Claim(
        "thesis-sec4.4b",
        f"{SOURCE}, Section 4.4 (b)",
        "Deep linear networks with one output: all minimizers u of mean_i (y_i - u.x_i)^2 + nu u^T Chat u, Chat = X "
        "X^T/n, to which dropout reduces, satisfy (1 + nu/n) X X^T u = X y.",
        "slip",
        check=partial(checks.normal_equations, lambda nu, n: 1 + nu / n),
        control=partial(checks.normal_equations, lambda nu, n: 1 + nu),
        objects=("penalties.effective_strength", "penalties.criterion"),
        erratum=ERRATA["sec4.4b"],
    ),
    Claim(
        "thesis-sec4.4b-corrected",
        f"{SOURCE}, Section 4.4 (b), corrected",
        "Deep linear networks with one output: all minimizers u of mean_i (y_i - u.x_i)^2 + nu u^T Chat u, Chat = X "
        "X^T/n, to which dropout reduces, satisfy (1 + nu) X X^T u = X y.",
        check=partial(checks.normal_equations, lambda nu, n: 1 + nu),
        control=partial(checks.normal_equations, lambda nu, n: 1 + nu / n),
        objects=("penalties.effective_strength", "penalties.criterion"),
        note="u is the map of the networks of two and three layers at which descent on the error over all masks ends.",
    ),
    Claim(
        "thesis-sec4.4c",
        f"{SOURCE}, Section 4.4 (c)",
        "<UV^T, A> = <vec U^T, (I kron V^T) vec A^T>, vec stacking columns and I of as many rows as U.",
        check=partial(checks.kronecker, True),
        control=partial(checks.kronecker, False),
        objects=("models.Factorization",),
    ),
    Claim(
        "thesis-lem10-clipping",
        f"{SOURCE}, Lemma 10 (1)",
        "Clipping a class of functions f to [-1, 1] does not increase its R_S = E sup_f (1/n) sum_i zeta_i f(x_i), "
        "zeta_i fair signs: R_S(G_alpha) <= R_S(F_alpha).",
        check=partial(contraction_checks.clipping, 1.0),
        control=partial(contraction_checks.clipping, 1.1),
    ),
    Claim(
        "thesis-lem10",
        f"{SOURCE}, Lemma 10 (2)",
        "R_S(L_alpha) <= 2 R_S(G_alpha) for labels -1 and +1, L_alpha the squared losses (y - g(x))^2 of the clipped "
        "networks g in G_alpha.",
        "constant",
        check=partial(contraction_checks.loss_contraction, 2.0),
        control=partial(contraction_checks.loss_contraction, 4.0),
        erratum=ERRATA["lem10"],
        note="Where the law is one point, seen twice with labels 1 and -1, G_1 is all constants in [-1, 1] and this "
        "says 5/4 <= 1.",
    ),
    Claim(
        "thesis-lem10-corrected",
        f"{SOURCE}, Lemma 10 (2), corrected",
        "R_S(L) <= 4 R_S(G) for labels -1 and +1 and any class G of functions with values in [-1, 1], L their squared "
        "losses (y - g(x))^2 and R_S that of thesis-lem10-clipping.",
        check=partial(contraction_checks.loss_contraction, 4.0),
        control=partial(contraction_checks.loss_contraction, 3.9),
    ),
    Claim(
        "thesis-sec4.6",
        f"{SOURCE}, Section 4.6, flows and co-adaptation",
        "phi(w) = ||psi||_1/(sqrt(d1) ||psi||_2) of the flows psi_i = |u_i| a_i of d1 nodes, or |u_i| a'_i of "
        "symmetrized data, is 1/sqrt(d1) when one node has all the flow, 1 when all have the same above zero, "
        "sqrt(k/d1) when k have the same and the others none, and never outside of [1/sqrt(d1), 1].",
        check=partial(relu_checks.flow_split, 2.0),
        control=partial(relu_checks.flow_split, 1.9),
        objects=("coadaptation.split", "penalties.penalty"),
        note="Printed is that phi is about 1/sqrt(d1) when only a few nodes have a high flow and about 1 when all are "
        "equally active. Not all flows are zero. d1 Rbar = (alpha/phi)^2, alpha = ||psi||_1, Rbar the regularizer "
        "without lam, is ours.",
    ),
    Claim(
        "thesis-thm11-constant",
        f"{SOURCE}, proof of Theorem 11",
        "The O(.) of Theorem 20 with constant one: under its condition R_n(M_alpha) <= sqrt(alpha d2 log d2 / n).",
        "constant",
        check=partial(checks.entry_complexity, lambda shape: 1.0),
        control=partial(checks.entry_complexity, completion_constant),
        objects=("bounds.completion_constant",),
        erratum=ERRATA["thm11-constant"],
    ),
    Claim(
        "thesis-thm20",
        "Mianjy thesis (Johns Hopkins), appendix, Theorem 20",
        "If p(i) q(j) >= log d2/(n sqrt(d2 d0)) for all entries, d2 >= d0 and d2 >= 2, the matrices M with "
        "||diag(sqrt p) M diag(sqrt q)||_*^2 <= alpha have R_n <= O(sqrt(alpha d2 log d2 / n)).",
        check=lambda: [
            *checks.entry_complexity(completion_constant),
            *checks.bernstein(),
        ],
        control=partial(checks.entry_complexity, lambda shape: 1.0),
        objects=("bounds.completion_constant",),
        note="Entries are drawn with probability p(i) q(j). With an explicit constant K before the root: K = sqrt(2l) "
        "+ l (d0/d2)^(1/4)/3, l = log(d2+d0)/log d2. M is d2 x d0, and d2 >= d0 is said in Theorem 11. Without the "
        "condition no constant is enough: R_1 = d sqrt(alpha) for uniform entries of a d x d matrix.",
    ),
)
