"""What the commands print: every row is the number that its name says, and every option reaches the library."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from cases import normal, sample
from safetensors.torch import save_file

from droptics.cli.audit import _show_changes
from droptics.cli.complete import complete_command
from droptics.cli.laws import law_for, law_for_widths
from droptics.cli.optimum import optimum_command
from droptics.cli.penalty import penalty_command
from droptics.cli.tables import listed, show
from droptics.datasets import Ratings, planted_ratings
from droptics.masks import Bernoulli, Block, Product, SlidingBlock
from droptics.models import DeepLinear, TwoLayerLinear
from droptics.optima import certify, optimum
from droptics.penalties import MonteCarlo, penalty, risk, sub_penalties
from droptics.recommenders import DropoutCompletion
from droptics.recommenders.ratings import triple
from droptics.terminal import new_console, new_table, printed


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = sample()
    np.savez(tmp_path / "data.npz", inputs=data.inputs.numpy(), targets=data.targets.numpy())
    np.savez(tmp_path / "net.npz", U=normal(3, 6).numpy(), V=normal(4, 6).numpy())
    save_file({"W1": normal(6, 4), "W2": normal(9, 6), "W3": normal(3, 9)}, tmp_path / "deep.safetensors")
    return tmp_path


def same(text, wanted):
    found = json.loads(text)
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        assert found[name] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-9, abs=1e-12)), name


def deep():
    return DeepLinear([normal(6, 4), normal(9, 6), normal(3, 9)])


def test_laws_of_every_layer():
    """Widths, blocks and their order: two laws are the same when all they say of two units is."""
    for drop, block in ((0.3, 1), (0.2, 3)):
        each = [Bernoulli(drop, width) if block == 1 else Block(drop, width, block) for width in (6, 9)]
        for found in (law_for_widths((6, 9), drop, block), law_for(deep(), drop, block, sliding=False)):
            assert found.size == 15
            np.testing.assert_allclose(found.covariance, Product(each).covariance, rtol=1e-12)
        single = law_for_widths((6,), drop, block)
        np.testing.assert_allclose(single.covariance, each[0].covariance, rtol=1e-12)
        sliding = Product([SlidingBlock.matching(drop, width, block) for width in (6, 9)])
        np.testing.assert_allclose(
            law_for(deep(), drop, block, sliding=True).covariance, sliding.covariance, rtol=1e-12
        )


@pytest.mark.parametrize("block", [1, 3])
def test_rows_of_the_penalty(folder, capsys, block):
    penalty_command(folder / "deep.safetensors", folder / "data.npz", 0.2, block, samples=50, as_json=True)
    law, data = law_for_widths((6, 9), 0.2, block), sample()
    exact, base = float(penalty(deep(), data, law)), float(risk(deep(), data))
    drawn = penalty(deep(), data, law, MonteCarlo(50))
    first, second = sub_penalties(deep(), data, law).tolist()
    wanted = {
        "risk_without_dropout": base,
        "penalty": exact,
        "expected_training_loss": base + exact,
        "share_of_the_training_loss": exact / (base + exact),
        "method": "closed form (second-moment propagation)",
        "penalty_of_order_1": first,
        "penalty_of_order_2": second,
        "Monte_Carlo": float(drawn),
        "Monte_Carlo_interval": [float(drawn.lower), float(drawn.upper)],
    }
    same(capsys.readouterr().out, wanted)


@pytest.mark.parametrize("drop", [0.1, 0.6])
def test_rows_of_the_optimum(folder, capsys, drop):
    optimum_command(folder / "data.npz", drop, [6], 1, folder / "net.npz", folder / "best.safetensors", as_json=True)
    law, model = Bernoulli(drop, 6), TwoLayerLinear(normal(3, 6), normal(4, 6))
    best, own = optimum(TwoLayerLinear, sample(), law), certify(model, sample(), law)
    wanted = {
        "least_training_loss": best.objective,
        "proved_lower_bound": best.bound,
        "gap": best.gap,
        "certified": True,
        "rank_of_the_map": best.rank,
        "rests_on": best.claim,
        "your_training_loss": own.objective,
        "your_gap": own.gap,
        "your_gap_relative": own.relative_gap,
        "weights": str(folder / "best.safetensors"),
    }
    same(capsys.readouterr().out, wanted)
    assert own.relative_gap > 0.1


@pytest.mark.parametrize(
    "options", [{}, {"biases": False, "smoothing": 0.0, "penalty": "0.3", "clip": True, "seed": 3}]
)
def test_rows_of_a_completion(folder, capsys, options):
    ratings = planted_ratings((40, 30, 500), rank=2, noise=0.3, seed=2)
    rows = zip(ratings.users, ratings.items, ratings.values, strict=True)
    (folder / "table.csv").write_text("user,item,rating\n" + "".join(f"{u},{i},{v:.3f}\n" for u, i, v in rows))
    complete_command("table.csv", 4, 0.4, 0.2, sweeps=5, save=False, as_json=True, **options)
    seed = options.get("seed", 0)
    train, test = Ratings(*triple("table.csv")).split(0.2, seed)
    given = {"smoothing": 0.5} | options
    share = float(given.pop("penalty")) if options else "expected"
    model = DropoutCompletion(4, 0.4, share, sweeps=5, **given).fit(train)
    errors = model.evaluate(test, unknown="ignore")
    wanted = {
        "ratings": len(train),
        "users": len(model.user_ids_),
        "items": len(model.item_ids_),
        "width": 4,
        "drop": 0.4,
        "sweeps": len(model.history_),
        "objective": model.objective_,
        "training_RMSE": model.history_[-1].rmse,
        "held-out_ratings": errors.count,
        "RMSE": errors.rmse,
        "MAE": errors.mae,
        "unknown_ids": errors.unknown,
    }
    same(capsys.readouterr().out, wanted)


def test_brackets_in_tables_are_no_styles(capsys):
    listed([{"id": "a", "statement": "E[x_i^2] > 0, [bold]x[/bold] and [n]"}], title="of [claims]")
    found = capsys.readouterr().out
    assert "E[x_i^2] > 0, [bold]x[/bold] and [n]" in found
    assert "of [claims]" in found
    show("data[x].npz", {"E[x y]": 0.5, "model": "net[a]:bug:0.npz"}, as_json=False)
    listed([{"id": "in[a]:fire:1"}])
    found = capsys.readouterr().out
    assert all(words in found for words in ("data[x].npz", "E[x y]", "0.5", "net[a]:bug:0.npz", "in[a]:fire:1"))


def test_a_terminal_that_keeps_what_is_printed_keeps_brackets():
    console, table = new_console(40), new_table("[n]")
    table.add_row("net[a]:bug:.drop")
    console.print("E[x] is [bold]0[/bold] :fire:")
    console.print(table)
    assert all(words in printed(console) for words in ("E[x] is [bold]0[/bold] :fire:", "[n]", "net[a]:bug:.drop"))


def test_sites_of_two_audits_have_their_names_as_they_stand(capsys):
    site = SimpleNamespace(site=SimpleNamespace(name="a[b]:fire:.drop"), penalty=None, share=None, units=None)
    report = SimpleNamespace(sites=[site], clean_loss=0.5)
    _show_changes(report, report)
    assert "a[b]:fire:.drop" in capsys.readouterr().out
