"""Claims on landscapes, equalization, envelopes and coadaptation."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.instruments import PROVED, pair, room_claim
from droptics.papers.droptics_own.landscapes import (
    benign_checks,
    critical_point_checks,
    derivative_checks,
    flow_checks,
    map_checks,
    off_default_checks,
    portrait_checks,
    saddle_checks,
    subnetwork_checks,
    unit_checks,
)
from droptics.papers.thesis import chapter4_relu_checks

BENIGN = ("global minimum", "strict saddle", "local maximum")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "droptics-benign-landscape",
        "droptics, sharpens mianjy2018-thm4.3",
        "Tied networks whose units fall independently at one rate, on isotropic inputs, E x x^T = c I with c > 0: at "
        "EVERY rate and width and for every symmetric map M = E y x^T / c all local minima of the criterion are "
        "global, and all other critical points have a direction of negative curvature.",
        check=partial(benign_checks.benign, (0.0, 0.05, 1.0, 30.0), BENIGN),
        control=partial(benign_checks.benign, (0.0, 0.05, 1.0, 30.0), ("global minimum",)),
        objects=("landscapes.critical_points", "landscapes.inspect"),
        note=PROVED
        + " The printed threshold is the condition rho = r. On other inputs minima need not be global, at any rate "
        "below 1: one unit, M = diag(2.1, 1), E x x^T = diag(1, 4).",
    ),
    Claim(
        "droptics-critical-points",
        "droptics, Section 4 of mianjy2018 continued",
        "Tied network, units that fall independently at one rate p > 0, lam = p/(1-p), E x x^T = c I, M = E y x^T / c: "
        "U is critical iff its nonzero columns form groups, r columns of one squared norm n each, on disjoint sets E "
        "of orthonormal eigenvectors of (M+M^T)/2, with 1 <= |E| <= r, n = sum_E e/(r + lam |E|) and squared singular "
        "values e - lam n > 0 for the e of E; no two groups have one n.",
        check=partial(critical_point_checks.critical_groups, 3),
        control=partial(critical_point_checks.critical_groups, 2),
        objects=("landscapes.critical_points",),
        note=PROVED,
    ),
    Claim(
        "droptics-hessian",
        "droptics",
        "By formula, landscapes.gradient, hessian and hessian_action are the first derivatives of the criterion "
        "(squared loss, mean over all masks) in the weights, the second, and their product with a direction: of tied, "
        "two-layer and deep linear networks, inputs masked or not, for every law of masks that are independent between "
        "layers.",
        check=partial(derivative_checks.second_derivative, 1.0),
        control=partial(derivative_checks.second_derivative, 1.1),
        objects=("landscapes.gradient", "landscapes.hessian_action", "landscapes.hessian"),
        note=PROVED,
    ),
    Claim(
        "droptics-deep-induced",
        "droptics, answers the question after thesis-lem7",
        "Deep linear networks, units that fall independently at one rate p_l in hidden layer l, lam_l = p_l/(1-p_l): "
        "the least penalty of all networks of widths d_l with the map M is the minimum over shares x_ls > 0, sum_s "
        "x_ls = 1 for every l, of sum_s sigma_s^2 (prod_l (1 + lam_l/(d_l x_ls)) - 1), sigma_s the singular values "
        "above zero of M (E x x^T)^(1/2). equalization.equalize attains it.",
        check=partial(derivative_checks.deep_induced, 1.0),
        control=partial(derivative_checks.deep_induced, 1.1),
        objects=(
            "envelopes.induced",
            "equalization.equalize",
            "linalg.psd_root",
            "penalties.penalty",
        ),
        note=PROVED,
    ),
    Claim(
        "droptics-rank-one",
        "droptics, answers the question after thesis-lem7",
        "Where two or more hidden layers of a deep linear network drop, independently and each at one rate above 0, "
        "its penalty equals the convex envelope of the least penalty of its map M only if M (E x x^T)^(1/2) has rank "
        "at most one: at rank one the least penalty is its envelope, above it is larger.",
        check=lambda: [*derivative_checks.above_envelope(2, ">"), *derivative_checks.above_envelope(1, "==")],
        control=partial(derivative_checks.above_envelope, 2, "=="),
        objects=(
            "envelopes.induced",
            "envelopes.envelope",
            "equalization.equalize",
            "linalg.psd_root",
        ),
        note=PROVED,
    ),
    Claim(
        "droptics-odd-widths",
        "droptics, on thesis-thm13",
        "thesis-thm13 holds with c = 1/2 for odd widths d1, too: R_S(H_r) >= sqrt(d1 r) ||X||_{C+}/(2n). For d1 copies "
        "of one unit, whose squared flows sum to r, lie in H_r, and reach the sum of flows sqrt(d1 r).",
        check=lambda: [*derivative_checks.odd_widths(0.5), *chapter4_relu_checks.copies_stay_inside(1.0)],
        control=partial(derivative_checks.odd_widths, 1.2),
        objects=(
            "coadaptation.split",
            "bounds.measured_rademacher",
            "bounds.data_norm",
            "coadaptation.symmetrize",
        ),
        note=PROVED,
    ),
    Claim(
        "droptics-negative-weights",
        "droptics, sharpens helmbold2017-thm17",
        "On P_((1,1),1) of helmbold2017-thm17, inputs and units dropped at 1/2, one hidden layer of n ReLU units with "
        "biases: the least criterion is below that of all networks without negative weights exactly from n = 3 on. At "
        "n = 1, 2, 3 it is 1/5, 5/28, 111/670.",
        check=partial(derivative_checks.exact_negative_minima, (1 / 5, 5 / 28, 111 / 670), 3),
        control=partial(derivative_checks.exact_negative_minima, (1 / 5, 5 / 28, 1 / 6), 3),
        objects=("penalties.criterion",),
        note="Minima by enumerating all activation types of the units, each a least-squares problem; n = 4 by a "
        "network of criterion 29/186, from n = 5 on by the network of droptics-nor-network, better by (3 - "
        "13/n)/(64 (3 s - 1)(2.5 s - 1.5625)), s = 1 + 1/n.",
    ),
    room_claim(
        "flows-in-full",
        "Flows of units with features h_k and outgoing weights u_k are ||u_k|| sqrt(E h_k^2), with `symmetrized` over "
        "inputs and their negatives; alpha is their sum, coadaptation that over sqrt(units) times their norm, "
        "importance their shares. alpha^2 has slope 0 in weights of silent units. retentivity is the least E "
        "relu(v.x)^2 / E (v.x)^2 over directions v for inputs of rank two at most; beyond, it is that of its own "
        "direction, and none of a grid has less. evaluate, accuracy_by_width and smallest judge outputs with the other "
        "units at zero.",
        pair(flow_checks.flows_in_full),
        (
            "coadaptation.flows",
            "coadaptation.split",
            "coadaptation.retentivity",
            "coadaptation.evaluate",
            "coadaptation.smallest",
            "coadaptation.accuracy_by_width",
            "coadaptation.draw",
            "coadaptation.evenness",
            "coadaptation.importance",
            "coadaptation.symmetrize",
            "coadaptation.alpha",
            "coadaptation.coadaptation",
            "coadaptation.subnetwork_outputs",
        ),
        "Unit by unit; half-spaces by a grid of directions.",
    ),
    room_claim(
        "saddles",
        "balance keeps the map, gives units that see inputs with energy ||u_k|| = sqrt(v_k^T C v_k), C = E x x^T, and "
        "empties units with one side zero. imbalance is penalty / envelope - 1, order_gaps the same of the terms of "
        "each order of masks. escape gives the least eigenvalue of the Hessian, its eigenvector, and the least "
        "criterion of the steps (1 + ||weights||)/2^k, k < 26, to both sides; curvatures above -1e-9 of the largest "
        "are refused. equalize keeps maps on inputs without energy or refuses them.",
        (partial(saddle_checks.saddles, 1.0), partial(saddle_checks.saddles, 1.1)),
        (
            "equalization.balance",
            "equalization.imbalance",
            "equalization.order_gaps",
            "equalization.equalize",
            "landscapes.escape",
            "linalg.psd_root",
        ),
        "Written out, over all masks.",
    ),
    room_claim(
        "maps-in-full",
        "induced is the least sum of lam_k n_k^2 over units, n majorized by the singular values of M C^(1/2), C = E x "
        "x^T, also of tied networks and at unequal rates, and equalize attains it; envelope is ||M C^(1/2)||_*^2 / sum "
        "1/lam_k; zero maps and inputs have 0. gap_condition holds iff s1 - s2 >= s2 / nu. inspect tells objective, "
        "slope, inertia and kind of automatic derivatives; portrait and critical_points list all points of two units; "
        "top_layer solves the normal equations.",
        pair(map_checks.maps_in_full),
        (
            "envelopes.induced",
            "envelopes.envelope",
            "equalization.equalize",
            "equalization.imbalance",
            "equalization.gap_condition",
            "equalization.order_gaps",
            "landscapes.inspect",
            "landscapes.portrait",
            "landscapes.critical_points",
            "equalization.joint_equalizer",
            "equalization.rescale",
            "equalization.balance",
            "landscapes.gradient",
            "landscapes.hessian",
        ),
        "By a solver, by automatic derivatives, group by group. nu = prod(1 + lam/d) - 1, s the singular values of E y "
        "x^T C^(-1/2).",
    ),
    room_claim(
        "offered-options",
        "Off their defaults: smallest takes the shortest prefix of the orders its seed draws, within its tolerance; "
        "evaluate and accuracy_by_width say the same in blocks of any size; inspect counts curvatures by its "
        "tolerance, portrait steps by its seed and step size, spurious_minimum has the criterion 2 - (1 + lam/2)^-2, "
        "retentivity of few steps tells the share of its own direction, no less than of many; variable_projection "
        "follows SciPy's L-BFGS under the same limits. Lists longer than `limit`, directions, networks, laws and "
        "blocks that do not fit are refused.",
        pair(off_default_checks.options_in_full),
        (
            "coadaptation.smallest",
            "coadaptation.evaluate",
            "coadaptation.retentivity",
            "landscapes.inspect",
            "landscapes.portrait",
            "landscapes.spurious_minimum",
            "landscapes.critical_points",
            "landscapes.hessian_action",
            "heads.ridge.DropoutRidge",
            "optima.optimal_factors",
            "optima.optimum",
            "linalg.hadamard_equalizer",
            "masks.Discrete",
            "coadaptation.accuracy_by_width",
            "penalties.criterion",
        ),
        "Each written out, by a solver on the definition.",
    ),
    Claim(
        "droptics-subnetworks",
        "droptics, on thesis-fig5-2",
        "coadaptation.subnetwork_outputs(model, x, kept, scale=s) is U (s kept * h(x)) + b, h the units of the last "
        "hidden layer, U their outgoing weights, b the offset. evaluate's accuracies are the shares, by the weights of "
        "the examples, whose largest output is that of the label, or whose only output has its sign. evenness of flows "
        "that are not all zero is sum |psi_k| / (sqrt(units) ||psi||).",
        check=partial(subnetwork_checks.subnetworks, 1.7),
        control=partial(subnetwork_checks.subnetworks, 1.6),
        objects=("coadaptation.evaluate", "coadaptation.subnetwork_outputs", "coadaptation.evenness"),
        note="Each sub-network is written out.",
    ),
    Claim(
        "droptics-portrait",
        "droptics, on mianjy2018-fig1",
        "Tied network of one input and two units, E x^2 > 0: the points of landscapes.portrait are all at which the "
        "squared loss, averaged over all masks, has no slope, each once and with its kind, and its values are that "
        "mean on the grid. Global minima are four where E x y > 0 and both units fall at times and independently, two "
        "where one of them never falls, and the origin where E x y < 0.",
        check=partial(portrait_checks.drawn_landscape, 1.0),
        control=partial(portrait_checks.drawn_landscape, 1.1),
        objects=("landscapes.portrait",),
        note="By enumeration, and Newton's steps from a grid; rates 0 or at least 1e-5, below which rounding decides "
        "kinds. Where nothing is dropped, or both units always at once, minima fill a circle, of which the points "
        "on the axes are listed.",
    ),
    Claim(
        "droptics-units",
        "droptics, on mianjy2018-thm4.3",
        "The kind that landscapes.inspect tells of a point, here global minimum, strict saddle or not critical, stays "
        "when every input is measured in a unit of its own and all targets in another, and the weights follow.",
        check=partial(unit_checks.own_units, 1.0),
        control=partial(unit_checks.own_units, 1.3),
        objects=(
            "landscapes.inspect",
            "linalg.psd_root",
            "optima.optimum",
        ),
        note="Two-layer networks, kinds by slopes and curvatures over all masks; units are powers of two from 2^-12 to "
        "2^7.",
    ),
)
