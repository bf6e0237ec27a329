"""Our own results on the predictions of masked models, as claims."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own import predictive_checks as checks

PROVED = "Proved."

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "droptics-predictive",
        "droptics, the penalty read for one example",
        "Outputs linear in the mask, f(x; z) = f(x; 0) + sum_j z_j g_j(x), have mean f(x; 1) and covariance "
        "sum_ij Cbar_ij g_i(x) g_j(x)^T under every mask law; the penalty is its trace averaged over examples.",
        check=partial(checks.linear_covariance, 1.0),
        control=partial(checks.linear_covariance, 1.01),
        objects=("predictions.predictive", "layers.VarianceHead", "heads.ridge.DropoutRidge"),
        note=PROVED,
    ),
    Claim(
        "droptics-predictive-deep",
        "droptics, thesis-prop8 read for one example",
        "Deep linear networks, masks of mean one that are independent from layer to layer: a mask adds "
        "Cbar o (E + h h^T) to the covariance E of its layer and every layer maps it; with independent units only "
        "variances are injected, n_l = lambda_l o (h_l^2 + sum_m (A_lm o A_lm) n_m).",
        check=partial(checks.deep_covariance, 1.0),
        control=partial(checks.deep_covariance, 1.01),
        objects=("predictions.predictive",),
        note=PROVED,
    ),
    Claim(
        "droptics-predictive-mixture",
        "droptics",
        "Outputs that are affine in the last mask: with center c and covariance Q given the earlier masks, "
        "mean f = E c and Cov f = E Q + Cov c.",
        check=partial(checks.mixture, True),
        control=partial(checks.mixture, False),
        objects=("predictions.predictive",),
        note=PROVED,
    ),
    Claim(
        "droptics-predictive-relu",
        "droptics, helmbold2017-eq2 read for one example",
        "ReLU networks: with m = E h and S = E h h^T of the last hidden layer the outputs have mean W m + b and "
        "covariance W (S - m m^T + Cbar o S) W^T, Cbar the diagonal covariance of the last layer's coins, which are "
        "independent of the earlier ones; the squared dropout criterion is |mean - y|^2 plus its trace.",
        check=partial(checks.relu_leaf, 1.0),
        control=partial(checks.relu_leaf, 1.01),
        objects=("penalties.relu_criterion",),
        note=PROVED,
    ),
    Claim(
        "droptics-predictive-density",
        "droptics",
        "With normal noise of deviation s the observed output has the density (1/pi) int_0^inf Re[e^(-i theta y) "
        "sum_a pi_a e^(i theta c_a) prod_j phi_j(theta)] e^(-theta^2 s^2/2) d theta; the trapezoid rule of step "
        "2 pi / (range of outputs and y + 18 s) up to 8.5 / s reaches rounding.",
        check=partial(checks.density, 1.0),
        control=partial(checks.density, 1.01),
        objects=("predictions.predictive", "predictions.Density"),
        note=PROVED + " The error of the rule is the mass outside one period, below 1e-18, and beyond the last angle.",
    ),
)
