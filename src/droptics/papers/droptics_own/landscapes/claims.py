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
        "Tied networks on isotropic inputs: at EVERY rate and width and for every symmetric map all local minima are "
        "global, all other critical points have a direction of negative curvature.",
        check=partial(benign_checks.benign, (0.0, 0.05, 1.0, 30.0), BENIGN),
        control=partial(benign_checks.benign, (0.0, 0.05, 1.0, 30.0), ("global minimum",)),
        objects=("landscapes.critical_points", "landscapes.inspect"),
        note=PROVED
        + " The printed threshold is the condition rho = r. On other inputs minima need not be global: one unit, "
        "M = diag(2.1, 1), E x x^T = diag(1, 4).",
    ),
    Claim(
        "droptics-critical-points",
        "droptics, Section 4 of mianjy2018 continued",
        "All critical points of a tied network on isotropic inputs, lam > 0: groups of columns of equal norm n on "
        "disjoint sets E of eigenvectors of (M+M^T)/2, with n = sum_E e / (columns + lam |E|), no more vectors than "
        "columns, squared singular values e - lam n > 0, no n twice, and columns that are zero.",
        check=partial(critical_point_checks.critical_groups, 3),
        control=partial(critical_point_checks.critical_groups, 2),
        objects=("landscapes.critical_points",),
        note=PROVED,
    ),
    Claim(
        "droptics-hessian",
        "droptics",
        "Gradient and Hessian of the dropout criterion in closed form, tied, untied and deep.",
        check=partial(derivative_checks.second_derivative, 1.0),
        control=partial(derivative_checks.second_derivative, 1.1),
        objects=("landscapes.gradient", "landscapes.hessian_action", "landscapes.hessian"),
        note=PROVED,
    ),
    Claim(
        "droptics-deep-induced",
        "droptics, answers the question after thesis-lem7",
        "The least penalty of a deep linear map is min over simplex shares x of sum_s s^2 (prod(1+lam/(d x)) - 1), "
        "s the singular values that are not zero of the map on the inputs, lam, d and x by layer.",
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
        "With dropout in two or more hidden layers a network is equalized only if its map, taken on the inputs, has "
        "rank at most one: for these maps the least penalty is its convex envelope, above rank one it is larger.",
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
        "The lower bound alpha ||X||_{C+} / (2n), alpha = sqrt(d1 r), holds for odd widths d1 too: copies of the best "
        "unit stay in the class H_r.",
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
        "K = 2, drop 1/2, one hidden layer: negative weights win exactly from width 3 on; the global minima at widths "
        "1, 2, 3 are 1/5, 5/28, 111/670.",
        check=partial(derivative_checks.exact_negative_minima, (1 / 5, 5 / 28, 111 / 670), 3),
        control=partial(derivative_checks.exact_negative_minima, (1 / 5, 5 / 28, 1 / 6), 3),
        objects=("penalties.criterion",),
        note="Minima by enumerating all activation types of the units, each a least-squares problem; width 4 by a "
        "network of criterion 29/186, from width 5 on (to 39) by the NOR network.",
    ),
    room_claim(
        "flows-in-full",
        "Flows, their split, slopes of their sum where units are silent, the worst half-space (beyond rank two, one "
        "that no direction of a grid betters) and every sub-network of every family are those of single units.",
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
        "Balance, imbalance, gaps by order and escapes from saddles are their definitions; balanced networks keep "
        "their precision, and equalized ones what they do on inputs without energy, or are refused.",
        (partial(saddle_checks.saddles, 1.0), partial(saddle_checks.saddles, 1.1)),
        (
            "equalization.balance",
            "equalization.imbalance",
            "equalization.order_gaps",
            "equalization.equalize",
            "landscapes.escape",
            "linalg.psd_root",
        ),
        "Written out.",
    ),
    room_claim(
        "maps-in-full",
        "Least penalties and envelopes of maps, also of tied, single-precision, cancelled and silent networks, gap "
        "conditions, inspections, portraits, critical points and heads of repeated units are by definition.",
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
        "By a solver, by automatic derivatives, group by group.",
    ),
    room_claim(
        "offered-options",
        "Options off their defaults do what they say: seeds and orders of a search for sub-networks, tolerances and "
        "memories of searches, steps and starts of the worst half-space, levels, blocks of work, rates, precisions; "
        "sizes, layers, directions, laws and blocks that do not fit are refused, and lists longer than allowed.",
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
        "One by one, by a solver on the definition.",
    ),
    Claim(
        "droptics-subnetworks",
        "droptics, on thesis-fig5-2",
        "A sub-network is the network without the other units' outgoing weights, the kept ones times a factor and the "
        "offset as it is; its accuracy is that of these outputs, by the weights of the examples. The evenness of flows "
        "is their sum by sqrt(units) times their norm.",
        check=partial(subnetwork_checks.subnetworks, 1.7),
        control=partial(subnetwork_checks.subnetworks, 1.6),
        objects=("coadaptation.evaluate", "coadaptation.subnetwork_outputs", "coadaptation.evenness"),
        note="Each sub-network is written out.",
    ),
    Claim(
        "droptics-portrait",
        "droptics, on mianjy2018-fig1",
        "The points of a portrait are those critical for the mean over all masks, each with its kind, and its global "
        "minima have the least value: four of a positive map where both units are dropped at times and independently, "
        "the origin of a negative one.",
        check=partial(portrait_checks.drawn_landscape, 1.0),
        control=partial(portrait_checks.drawn_landscape, 1.1),
        objects=("landscapes.portrait",),
        note="By enumeration, and Newton's steps from a grid. Where nothing is dropped minima fill a circle, which is "
        "left out.",
    ),
    Claim(
        "droptics-units",
        "droptics, on mianjy2018-thm4.3",
        "Minimum, saddle or no critical point at all: the kind of a point does not depend on the units of inputs and "
        "targets.",
        check=partial(unit_checks.own_units, 1.0),
        control=partial(unit_checks.own_units, 1.3),
        objects=(
            "landscapes.inspect",
            "linalg.psd_root",
            "optima.optimum",
        ),
        note="Units are powers of two.",
    ),
)
