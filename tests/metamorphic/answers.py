"""The registry: every public exact answer in one line, or a reason why it is in none.

A line holds the public name, how it is asked of a problem, the parts of its answer (`parts.PARTS`, a star repeats the
last one), whether it inverts the second moment of the inputs and may lose its condition, the families it is asked of
(all by default), and the changes, by the beginning of their names, after which the question is another one.
"""

from __future__ import annotations

import droptics as d
from droptics import coadaptation, linalg, norms
from droptics.losses import Squared
from droptics.models import Autoencoder, Connections, DeepLinear, LastLayer, ReLUNet, TwoLayerLinear
from droptics.penalties import has_closed_form, is_linear_in_masks, second_order, unit_energies, unit_gram
from metamorphic import asking
from metamorphic.asking import spectrum
from metamorphic.parts import Answer

TWO, RELU, TIED = (TwoLayerLinear,), (ReLUNet,), (Autoencoder,)
CHAINS = (TwoLayerLinear, DeepLinear, Autoencoder)
LINEAR = (*CHAINS, Connections)
# one model at a time
ONE = ("batch",)
TWICE = "examples twice"
# functions of a list of numbers: only units and precision can change
LIST = ("outputs permuted", "outputs turned", "examples", "batch")
# a ball of inputs is measured in their units
SHAPES = ("feature 0", "feature 1", "feature 2", "feature 3", "features x")
LOGITS = ("outputs", TWICE, "batch")

ANSWERS = [
    Answer("penalty", lambda p: d.penalty(p.model, p.data, p.masks)),
    Answer("penalty", lambda p: d.penalty(p.model, p.data, p.masks, d.Enumerate()), families=CHAINS),
    Answer("penalty", asking.bounded, "nats nats nats", families=(TwoLayerLinear, LastLayer), unlike=LOGITS),
    Answer("criterion", lambda p: d.criterion(p.model, p.data, p.masks), "criterion"),
    Answer("risk", lambda p: d.risk(p.model, p.data), "criterion"),
    Answer("sub_penalties", asking.by_pivots, "penalty*", families=(DeepLinear,)),
    Answer("best_method", lambda p: type(d.best_method(p.model, p.data, p.masks)).__name__, "same"),
    Answer("penalties.has_closed_form", lambda p: has_closed_form(p.model, p.masks), "same"),
    Answer("penalties.unit_energies", lambda p: unit_energies(p.model, p.data), "energies", families=TWO),
    Answer("penalties.unit_gram", lambda p: unit_gram(p.model, p.data), "gram", families=TWO),
    Answer("penalties.second_order", lambda p: second_order(p.model, p.data, p.masks, Squared()).value, families=TWO),
    Answer("penalties.unit_outputs", asking.by_units, "map", families=TWO),
    Answer("penalties.is_linear_in_masks", lambda p: is_linear_in_masks(p.model), "same"),
    Answer(
        "attacks.smallest_margins",
        asking.least_margins,
        "margins",
        families=TWO,
        unlike=(*SHAPES, "outputs t", "batch"),
    ),
    Answer("predictive", asking.predicted, "map spread", unlike=("outputs turned", "features turned")),
    Answer("relu_criterion", lambda p: d.relu_criterion(p.model, p.data, p.masks), "criteria", families=RELU),
    Answer("relu_criterion", asking.relu_cross_entropy, "ratio", families=RELU, unlike=LOGITS),
    Answer("explicit_penalty", asking.explicit, families=(LastLayer,), unlike=(TWICE,)),
    Answer("induced", lambda p: d.induced(p.model, p.data, p.masks), "envelope", True),
    Answer("envelope", lambda p: d.envelope(p.model, p.data, p.masks), "envelope", True),
    Answer("imbalance", lambda p: d.imbalance(p.model, p.data, p.masks), "imbalance", True),
    Answer("equalize", asking.equalized, "map envelope", True, unlike=ONE),
    Answer("equalization.order_gaps", asking.by_order, "imbalance*", True, (DeepLinear,), unlike=ONE),
    Answer("equalization.gap_condition", asking.far_apart, "size size same", True, (DeepLinear,), unlike=ONE),
    Answer("balance", asking.balanced, "map penalty", True, TWO, unlike=ONE),
    Answer("rescale", asking.rescaled, "map penalty", families=(TwoLayerLinear, DeepLinear), unlike=ONE),
    Answer("optimum", asking.found, "criterion bound rank map", True, unlike=("batch", "nodes")),
    Answer("optimal_factors", asking.other_factors, "map criterion", True, TWO, unlike=("batch", "nodes")),
    Answer("certify", asking.certified, "criterion bound", True, unlike=ONE),
    Answer("optimal_head", asking.head, "criterion bound map", True, (LastLayer,)),
    Answer("optimum_of_map", asking.of_map, "criterion bound rank", families=TWO, unlike=("batch", TWICE)),
    Answer("DropoutRidge", asking.ridge, "criterion map", True, TWO, unlike=("features turned", "batch")),
    Answer("DropoutRidgeCV", asking.ridge_path, "ratio map left_out*", True, TWO, ("features t", TWICE, "batch")),
    Answer("Moments", asking.joint_moments, "ratio", True, LINEAR, unlike=ONE),
    Answer("coadaptation.flows", lambda p: coadaptation.flows(p.model, p.data), "flows", families=TWO),
    Answer("coadaptation.importance", lambda p: coadaptation.importance(p.model, p.data), "shares", families=TWO),
    Answer("coadaptation.coadaptation", lambda p: coadaptation.coadaptation(p.model, p.data), "ratio"),
    Answer("coadaptation.evenness", lambda p: coadaptation.evenness(coadaptation.flows(p.model, p.data)), "ratio"),
    Answer("coadaptation.alpha", lambda p: coadaptation.alpha(p.model, p.data), "size"),
    Answer(
        "coadaptation.split", lambda p: coadaptation.split(p.model, p.data).regularizer, "energy", unlike=("batch",)
    ),
    Answer(
        "coadaptation.retentivity", asking.kept, "ratio rank", True, TWO, ("batch", "features permuted", "features t")
    ),
    Answer("landscapes.inspect", asking.kinds, "same same same", families=CHAINS, unlike=ONE),
    Answer("landscapes.critical_points", asking.critical, "rank same criterion*", families=TIED, unlike=ONE),
    Answer("landscapes.escape", asking.way_down, "same", families=TIED, unlike=ONE),
    Answer("landscapes.gradient", asking.slope, "criterion", families=CHAINS, unlike=ONE),
    Answer("landscapes.hessian_action", asking.curvature, "criterion", families=CHAINS, unlike=("batch", "nodes")),
    Answer("landscapes.hessian", asking.curvature_by_matrix, "criterion", families=CHAINS, unlike=("batch", "nodes")),
    Answer("linalg.shrink", lambda p: linalg.shrink(spectrum(p), 0.7, 2).sum(), "size", families=TWO, unlike=LIST),
    Answer("linalg.shrink_unequal", asking.shrunk_unequal, "size", families=TWO, unlike=LIST),
    Answer("linalg.allocate", asking.shared_out, "size", families=TWO, unlike=LIST),
    Answer("linalg.k_support_shrink", asking.shrunk_by_blocks, "size", families=TWO, unlike=LIST),
    Answer("norms.k_support", lambda p: norms.k_support(spectrum(p), 2), "size", families=TWO, unlike=LIST),
    Answer(
        "norms.nuclear", lambda p: norms.nuclear(p.targets.tensor), "size", families=TWO, unlike=("examples t", "batch")
    ),
    Answer("norms.weighted_trace", asking.weighted, "size", families=TWO, unlike=("examples", "batch")),
    Answer("norms.path_norm", asking.paths, "size", families=(DeepLinear,), unlike=("feature", "outputs turned")),
    Answer(
        "bounds.linear_margin", asking.margin, "ratio", families=RELU, unlike=("feature", "outputs", "batch", "float32")
    ),
    Answer("bounds.data_norm", asking.leverages, "count", True, TWO, (TWICE, "batch")),
    Answer(
        "bounds.relu_alpha", asking.relu_size, "size", families=RELU, unlike=("outputs permuted", "outputs t", "batch")
    ),
    Answer("bounds.completion_alpha", asking.completion_size, "energy", families=(d.Factorization,), unlike=ONE),
]

NO_DATA = "a formula of plain numbers: tried against an independent one in its own tests"
SEARCH = "a search or a draw: its answer is a point that was reached, not an exact number"
PLAN = "chooses or estimates the cost of a method"
BUILD = "builds a model, a law, data or a rotation; what it builds is asked above"
EXPRESSION = "an expression of other answers and constants, each in a line of its own"
COUNTS = "counts observations or right answers, or multiplies once"
OUTSIDE = "reads files, runs papers, trains, audits or reports"
SAME = "what a line above asks, by another name or one rule at a time"
# public functions that are in no line, and why
_REASONS = {
    SEARCH: "attack layers.explicit_consistency perturb robust_accuracy robustness_curve train tune_rates "
    "bounds.gate_margin bounds.measured_rademacher coadaptation.draw coadaptation.smallest coadaptation.symmetrize "
    "predictions.fit_noise",
    OUTSIDE: "audit reproduce verify coadaptation.export training.masked_step training.lazy_start training.train_lazy "
    "training.log_steps training.with_previous",
    NO_DATA: "drop_for_width effective_strength layers.realized_rates bounds.active_units bounds.adversarial "
    "bounds.completion_constant bounds.gaussian_tail bounds.hoeffding bounds.initial_norm bounds.lazy "
    "training.lazy_norm bounds.lazy_setting bounds.martingale bounds.squared bounds.uniform",
    PLAN: "relu_cost attacks.standard_attacks",
    SAME: "attacks.affine_map attacks.linear_attack optima.deep_optimum optima.optimum_of_maps envelopes.envelope_rule "
    "envelopes.induced_rule equalization.equalize_rule",
    BUILD: "rank_one_network joint_equalizer landscapes.portrait landscapes.spurious_minimum linalg.equalize_columns "
    "linalg.equalize_columns_ linalg.equalizer linalg.hadamard_equalizer linalg.schur_horn linalg.psd_eigen "
    "linalg.psd_inverse_root linalg.psd_root norms.weight_matrices spectra.action",
    EXPRESSION: "bounds.completion bounds.rademacher bounds.relu bounds.surveyed",
    COUNTS: "bounds.completion_condition coadaptation.accuracy_by_width coadaptation.evaluate "
    "coadaptation.subnetwork_outputs predictions.calibration predictions.conformal_factor "
    "predictions.expected_calibration_error attacks.margins attacks.proportion",
}
EXEMPT = {name: reason for reason, names in _REASONS.items() for name in names.split()}
