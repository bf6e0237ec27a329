"""The papers' experiments at smoke scale: what must be seen in the figures is seen in the rows."""

import math

import pytest
import torch

from droptics.models import DeepLinear
from droptics.papers.mianjy2018 import experiments as shallow
from droptics.papers.pal2020 import experiments as structured
from droptics.papers.pal2020.image_experiments import prediction_bound
from droptics.papers.thesis import chapter3_experiments as deep
from droptics.penalties import effective_strength, sub_penalties


def cells(function, listing):
    return {name: function(**parameters) for name, parameters in listing("smoke").items()}


def test_rows_are_plain_and_reproducible():
    parameters = shallow.convergence_cells("smoke")["width=5, lam=0.5"] | {"steps": 50, "runs": 2}
    rows = shallow.convergence_cell(**parameters)
    assert rows == shallow.convergence_cell(**parameters)
    assert rows != shallow.convergence_cell(**(parameters | {"seed": 1}))
    assert all(type(value) in (int, float, str, bool) for row in rows for value in row.values())


def test_landscape_has_the_stated_minima_and_saddles():
    for rows in cells(shallow.landscape_cell, shallow.landscape_cells).values():
        lam = rows[0]["lam"]
        least = lam * 4 / (2 + lam)
        for row in rows:
            assert row["optimum"] == pytest.approx(least, abs=1e-12)
            assert row["objective"] >= least - 1e-12
            if row["kind"] == "minimum":
                assert row["objective"] == pytest.approx(least, abs=1e-12)
            if row["kind"] == "saddle":
                assert row["objective"] == pytest.approx(lam * 4 / (1 + lam), abs=1e-12)
                assert row["objective"] > least
            direct = (2 - row["u1"] ** 2 - row["u2"] ** 2) ** 2 + lam * (row["u1"] ** 4 + row["u2"] ** 4)
            assert row["objective"] == pytest.approx(direct, abs=1e-11)


def test_trajectories_end_near_an_equalized_optimum():
    for rows in cells(shallow.trajectory_cell, shallow.trajectory_cells).values():
        assert rows[0]["step"] == 0
        assert rows[0]["distance"] > 0.6
        assert rows[-1]["distance"] < 0.06
        assert abs(abs(rows[-1]["u1"]) - rows[-1]["best"]) < 0.2


def test_dropout_converges_to_the_optimum_and_equalizes():
    found = cells(shallow.convergence_cell, shallow.convergence_cells)
    for rows in found.values():
        assert rows[-1]["ratio"] < min(1.4, rows[0]["ratio"] / 2)
        assert all(row["ratio"] > 1 for row in rows)
        assert rows[-1]["distance"] < rows[0]["distance"]
    for width in (5, 20):  # larger lambda equalizes better
        spreads = [found[f"width={width}, lam={lam:g}"][-1]["spread"] for lam in (0.1, 0.5, 1.0)]
        assert spreads[0] > spreads[1]
        assert spreads[0] > spreads[2]


def test_deep_spectra_shrink_with_the_rate_and_training_stays_above_the_optimum():
    found = cells(deep.spectrum_cell, deep.spectrum_cells)
    ranks = []
    for rows in found.values():
        assert rows[0]["objective_best"] >= rows[0]["objective_optimum"] - 1e-9 * rows[0]["target"] ** 2
        assert all(row["optimum"] <= row["target"] + 1e-9 for row in rows)
        ranks.append(sum(row["trained"] > 0.05 * rows[0]["target"] for row in rows))
    assert ranks[0] > ranks[1] > ranks[2]
    tops = [rows[0]["trained"] for rows in found.values()]
    assert tops[0] > tops[1] > tops[2]


def test_equalization_gaps_vanish_in_order():
    rows = deep.gap_cell(**deep.gap_cells("smoke")["exact"])
    first = {row["order"]: row["gap"] for row in rows if row["step"] == 0}
    last = {row["order"]: row["gap"] for row in rows if row["step"] == 2000}
    assert first[0] > 1
    assert all(-1e-12 < gap < 1e-3 for gap in last.values())
    assert rows[-1]["map_norm"] == pytest.approx(rows[-1]["map_norm_optimum"], rel=1e-4)


def test_pivot_floors_are_the_elementary_symmetric_polynomials():
    widths, drop = (5, 3, 4), 0.3
    floors = deep.pivot_floors(widths, drop)
    s = [drop / (1 - drop) / width for width in widths]
    expected = [sum(s), s[0] * s[1] + s[0] * s[2] + s[1] * s[2], s[0] * s[1] * s[2]]
    assert floors.tolist() == pytest.approx(expected, rel=1e-14)
    assert float(floors.sum()) == pytest.approx(float(effective_strength(widths, drop)), rel=1e-13)
    # a rank-one equalized network attains every one of them
    weights = [
        torch.ones(5, 2).double(),
        torch.ones(3, 5).double(),
        torch.ones(4, 3).double(),
        torch.ones(2, 4).double(),
    ]
    net = DeepLinear(weights)
    energy = torch.linalg.svdvals(net.matrix()).sum() ** 2
    from droptics.data import Moments

    parts = sub_penalties(net, Moments.of_map(net.matrix()), deep.layers((2, *widths, 2), drop))
    torch.testing.assert_close(parts, floors * energy, rtol=1e-12, atol=0)


def test_dropblock_reaches_its_global_minimum_and_the_two_curves_agree():
    for rows in cells(structured.dropblock_cell, structured.dropblock_cells).values():
        assert all(row["deterministic"] >= row["bound"] for row in rows)
        assert rows[-1]["ratio"] < 1.15
        late = [row for row in rows if row["step"] > 1000]
        stochastic = sum(row["stochastic"] for row in late) / len(late)
        deterministic = sum(row["deterministic"] for row in late) / len(late)
        assert stochastic == pytest.approx(deterministic, rel=0.06)


def test_dropconnect_equals_dropout_only_on_whitened_inputs():
    found = cells(structured.dropconnect_cell, structured.dropconnect_cells)
    white, correlated = found["correlation=0"], found["correlation=0.9"]
    for rows in (white, correlated):
        assert rows[-1]["deterministic"] == pytest.approx(rows[-1]["stochastic"], rel=0.05)
        assert rows[-1]["deterministic"] == pytest.approx(rows[-1]["optimum_dropconnect"], rel=0.06)
        assert rows[-1]["dropout"] == pytest.approx(rows[-1]["optimum_dropout"], rel=0.06)
    assert white[-1]["printed"] == pytest.approx(white[-1]["deterministic"], rel=0.05)
    assert white[-1]["dropout"] == pytest.approx(white[-1]["deterministic"], rel=0.05)
    assert correlated[-1]["printed"] > 1.5 * correlated[-1]["deterministic"]
    assert correlated[-1]["dropout"] > 1.3 * correlated[-1]["deterministic"]


def test_sliding_dropblock_matches_the_grid_only_with_the_corrected_rate():
    found = cells(structured.sliding_cell, structured.sliding_cells)
    grid, sliding, uncorrected = (found[name][-1] for name in ("grid", "sliding", "uncorrected"))
    assert sliding["keep"] == pytest.approx(grid["keep"], abs=1e-12)
    assert sliding["objective"] == pytest.approx(grid["objective"], rel=0.05)
    assert uncorrected["objective"] > 1.5 * grid["objective"]
    with pytest.raises(ValueError, match="scheme must be one of"):
        structured.sliding_cell(scheme="circular")


def test_prediction_bound_is_a_lower_bound_of_any_features():
    targets = torch.eye(3).double().repeat(4, 1)[:10]
    bound, spectrum = prediction_bound(targets, 0.5, width=6, block=2)
    assert 0 < bound < float(targets.square().sum(1).mean())
    assert all(a >= b - 1e-12 for a, b in zip(torch.linalg.svdvals(targets), spectrum, strict=True))
    generator = torch.Generator().manual_seed(0)
    best = math.inf
    for _ in range(2):  # free features and head, the most that any network can do
        H = torch.randn(10, 6, dtype=torch.float64, generator=generator).requires_grad_()
        W = torch.randn(3, 6, dtype=torch.float64, generator=generator).requires_grad_()
        optimizer = torch.optim.LBFGS([H, W], max_iter=100, line_search_fn="strong_wolfe", tolerance_change=1e-14)

        def closure(H=H, W=W, optimizer=optimizer):
            optimizer.zero_grad()
            blocks = (H.unflatten(1, (3, 2)).transpose(0, 1) @ W.unflatten(1, (3, 2)).permute(1, 2, 0)).square().sum()
            value = ((H @ W.T - targets).square().sum() + blocks) / 10
            value.backward()
            return value

        best = min(best, float(optimizer.step(closure).detach()), float(closure().detach()))
    assert best >= bound - 1e-9
    assert best == pytest.approx(bound, rel=0.05)
