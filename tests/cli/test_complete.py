"""`droptics complete` on small tables."""

from __future__ import annotations

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from droptics.cli.complete import _show_sweeps, complete_command
from droptics.cli.errors import guarded
from droptics.datasets import Ratings, planted_ratings
from droptics.recommenders import DropoutAutoencoder, DropoutCompletion, DropoutCompletionCV
from droptics.recommenders.alternation import Sweep
from droptics.recommenders.ratings import triple

app = typer.Typer()
app.command()(guarded(complete_command))


def run(*arguments: object):
    return CliRunner().invoke(app, [*map(str, arguments), "--debug"])


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Models without a name of their own are written to the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    ratings = planted_ratings((60, 40, 900), rank=2, noise=0.3, seed=2)
    path = tmp_path_factory.mktemp("ratings") / "ratings.csv"
    lines = [f"u{u},{i},{v:.3f}" for u, i, v in zip(ratings.users, ratings.items, ratings.values, strict=True)]
    path.write_text("who,what,stars\n" + "\n".join(lines) + "\n")
    return path


def test_prints_errors_and_progress(table):
    found = run(table, "--width", 4, "--drop", 0.7, "--holdout", 0.1)
    assert found.exit_code == 0
    assert "RMSE" in found.stdout
    assert "MAE" in found.stdout
    assert "sweep   1  objective" in found.stderr
    left = [
        float(line.split("at most ")[1].split(" s left")[0]) for line in found.stderr.splitlines() if "left" in line
    ]
    assert left
    assert 0 <= left[-1] <= left[0]


def test_the_time_left_is_that_of_the_sweeps_that_are_left(capsys):
    show = _show_sweeps(5)
    for sweep, left in ((1, "8.0"), (3, "4.0"), (5, "0.0")):
        show(Sweep(sweep, 0.5, 0.7, 2.0 * sweep))
        assert capsys.readouterr().err.endswith(f"  {2.0 * sweep:.1f} s, at most {left} s left\n")


def test_predictions_are_clipped_only_where_it_is_asked_for(table, tmp_path):
    for option, clipped in (("--sweeps=1", False), ("--clip", True)):
        assert run(table, "--width", 2, "--out", tmp_path / "m.safetensors", option).exit_code == 0
        assert DropoutCompletion.load(tmp_path / "m.safetensors").clip is clipped


def test_model_is_written_unless_told_otherwise(table, tmp_path):
    options = ("--width", 3, "--sweeps", 2, "--json")
    assert run(table, *options, "--no-save").exit_code == 0
    assert not list(tmp_path.iterdir())
    found = json.loads(run(table, *options).stdout)
    assert found["model"] == "ratings-model.safetensors"
    assert DropoutCompletion.load(tmp_path / found["model"]).objective_ == pytest.approx(found["objective"])


def test_absent_set_names_the_options(tmp_path):
    found = run("ml-10m", "--folder", tmp_path)
    assert found.exit_code != 0
    assert "--folder" in str(found.exception)
    assert "--download" in str(found.exception)


def test_json_model_and_recommendations(table, tmp_path):
    model = tmp_path / "m.safetensors"
    found = run(
        table, "--width", 3, "--out", model, "--recommend", "u1", "--count", 4, "--json", "--columns", "who,what,stars"
    )
    assert found.exit_code == 0
    result = json.loads(found.stdout)
    assert result["ratings"] == 810
    assert result["held-out_ratings"] == 90
    assert result["MAE"] < result["RMSE"]
    loaded = DropoutCompletion.load(model)
    best = loaded.recommend("u1", 4)
    assert result["for_u1"] == {
        str(item): pytest.approx(score) for item, score in zip(best.items, best.scores, strict=True)
    }
    assert np.isclose(loaded.objective_, result["objective"])


def test_choose_and_fit_to_everything(table):
    options = ("--choose", "--holdout", 0, "--penalty", 0.5, "--clip", "--smoothing", 0.3, "--json")
    result = json.loads(run(table, "--width", 3, *options).stdout)
    assert result["ratings"] == 900
    assert "RMSE" not in result
    assert 0 < result["drop"] < 1
    # the rate that a search over the same ratings finds, and the objective of a model of that rate
    train, model = Ratings(*triple(str(table))), DropoutCompletion(3, penalty=0.5, smoothing=0.3, clip=True)
    best = DropoutCompletionCV(3, estimator=model).fit(train).best_drop_
    assert result["drop"] == best
    assert result["objective"] == pytest.approx(model.set_params(drop=best).fit(train).objective_, rel=1e-9)
    assert result["objective"] != pytest.approx(model.set_params(drop=None).fit(train).objective_, rel=1e-3)
    shown = run(table, "--width", 3, "--recommend", "u1", "--count", 2)
    assert shown.stdout.count("(") >= 2


def test_ranking_is_judged_beside_popularity(table, tmp_path):
    model = tmp_path / "r.safetensors"
    options = (
        "--rank",
        "--threshold",
        3.5,
        "--holdout",
        0.2,
        "--out",
        model,
        "--recommend",
        "u1",
        "--count",
        3,
        "--json",
    )
    done = run(table, *options)
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["held-out_users"] == 12
    assert 0 < found["nDCG@20"] <= 1
    assert 0 < found["nDCG@20_by_popularity"] <= 1
    loaded = DropoutAutoencoder.load(model)
    assert (loaded.drop_, loaded.ridge_) == (found["drop"], found["ridge"])
    assert len(loaded.user_ids_) == found["users"]
    best = loaded.recommend("u1", 3)
    assert found["for_u1"] == {str(i): pytest.approx(s) for i, s in zip(best.items, best.scores, strict=True)}
    everybody = json.loads(run(table, "--rank", "--drop", 0.3, "--holdout", 0, "--no-save", "--json").stdout)
    assert everybody["interactions"] == 900
    assert everybody["drop"] == 0.3
    assert "nDCG@20" not in everybody


def test_duplicates_are_noted(tmp_path):
    (tmp_path / "r.csv").write_text("1,1,3\n1,1,5\n2,1,4\n2,2,1\n")
    result = json.loads(run(tmp_path / "r.csv", "--width", 1, "--holdout", 0, "--json").stdout)
    assert "repeat a (user, item) pair" in result["note"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.csv"], "no file nowhere.csv"),
        (["{table}", "--holdout", "1"], "--holdout must lie in"),
        (["{table}", "--drop", "1.5"], "drop"),
        (["{table}", "--penalty", "much"], "penalty must be"),
        (["{table}", "--columns", "who,what,grade"], "no column 'grade'"),
        (["{table}", "--recommend", "nobody"], "user 'nobody' has no training rating"),
        (["ml-10m", "--folder", "{empty}"], "no file ml-10M100K/ratings.dat"),
        (["jester", "--folder", "{empty}"], "Jester: no file"),
    ],
)
def test_faults_are_value_errors(table, tmp_path, arguments, message):
    found = run(*(argument.format(table=table, empty=tmp_path) for argument in arguments))
    assert isinstance(found.exception, ValueError)
    assert message in str(found.exception)
