"""`droptics complete`: fit a recommender to a table of ratings, test it, save it, recommend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer


def complete_command(
    ratings: Annotated[
        str,
        typer.Argument(
            help="A table of user, item, rating: CSV, TSV, MovieLens' u.data or ratings.dat, JSON, JSONL (gzipped or "
            "not), Parquet; or the name of a set: ml-100k, ml-1m, ml-10m, jester."
        ),
    ],
    width: Annotated[int, "Number of factors."] = 30,
    drop: Annotated[float | None, "Probability of dropping a factor, in [0, 1); by default by the data's size."] = None,
    holdout: Annotated[float, "Share of the ratings to test on; 0 fits to all of them."] = 0.1,
    penalty: Annotated[str, '"expected", "empirical", or the share of the expected penalty in [0, 1].'] = "expected",
    smoothing: Annotated[float, "Mix shares of rows and columns with uniform ones, in [0, 1]; 0 is as ALS-WR."] = 0.5,
    rank: Annotated[bool, "Rank items by an autoencoder with dropout on its input, judged on held-out users."] = False,
    threshold: Annotated[float | None, "With --rank: count ratings of at least this, each as one."] = None,
    choose: Annotated[bool, "Choose the rate on a split of the training part (ignores --drop)."] = False,
    sweeps: Annotated[int, "Passes over users and items."] = 12,
    biases: Annotated[bool, typer.Option("--biases/--no-biases", help="Fit a bias per user and item.")] = True,
    clip: Annotated[bool, "Clip predictions to the range of the ratings."] = False,
    columns: Annotated[str | None, "Names or positions of user, item and rating, with commas: who,what,stars."] = None,
    out: Annotated[Path | None, "File of the model; by default RATINGS-model.safetensors in this folder."] = None,
    save: Annotated[bool, typer.Option("--save/--no-save", help="Write the model.")] = True,
    recommend: Annotated[list[str] | None, "Recommend items to this user; may be repeated."] = None,
    count: Annotated[int, "How many items to recommend."] = 10,
    folder: Annotated[Path | None, "Folder of the named sets; by default DROPTICS_DATA or the cache."] = None,
    download: Annotated[bool, "Download a named set that is absent (checked against its checksum)."] = False,
    device: Annotated[str | None, 'Torch device such as "cuda" for the solver.'] = None,
    engine: Annotated[str | None, "Address of a Dask cluster for the solver."] = None,
    seed: Annotated[int, "Seed of the split and of the start."] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table, and no progress.")] = False,
) -> None:
    """Complete a rating matrix with dropout on its factors, solved exactly by alternating least squares.

    Reads the ratings, holds a share of them out, fits mean + user bias + item bias + <u, v>, and prints the root mean
    square and mean absolute error on the held-out part, which the fit never saw. There is nothing to tune at first:
    the default rate follows the width and the number of ratings. Each sweep shows the objective, which only falls.
    The model is written to a safetensors file, which `DropoutCompletion.load` reads.

    The names of a header say which columns are user, item and rating, in any order; where they do not, say --columns.
    Ids may be numbers or text. A line that cannot be read is named; pairs rated twice are averaged.

    With --rank the question is which items come next, not how many stars: a share --holdout of the users is held out
    whole, a fifth of their items hidden, and nDCG and recall are printed beside those of popularity. The rate (unless
    given) and the ridge are chosen by exact leave-one-out. The model, fitted to everybody, is one that
    `DropoutAutoencoder.load` reads.

    Examples:
      droptics complete ratings.csv --width 70 --drop 0.7 --holdout 0.1
      droptics complete ml-1m --width 70 --download --out model.safetensors
      droptics complete ml-1m --rank --threshold 4 --recommend 1
      droptics complete ratings.csv --choose --recommend alice --recommend bob --count 5
    """
    from droptics.cli.modules import check_device
    from droptics.cli.tables import show
    from droptics.files import check_target
    from droptics.recommenders import DropoutCompletion

    if not 0 <= holdout < 1:
        raise ValueError(f"--holdout must lie in [0, 1), got {holdout}")
    if device is not None:
        check_device(device)
    file = Path(f"{Path(ratings).name.split('.')[0]}-model.safetensors") if out is None else out
    if save:
        check_target(file)
    table = _load(ratings, columns, folder, download)
    if rank:
        from droptics.cli.rank import rank as ranked

        model, rows = ranked(table, drop, threshold, holdout, seed)
        title = "ranking by a dropout autoencoder"
    else:
        what = {"biases": biases, "smoothing": smoothing, "sweeps": sweeps, "clip": clip, "seed": seed}
        where = {"device": device, "engine": engine, "progress": False if as_json else _show_sweeps(sweeps)}
        model = DropoutCompletion(width, drop, _share(penalty), **what, **where)  # type: ignore[arg-type]
        train, test = table.split(holdout, seed) if holdout > 0 else (table, None)
        rows = _completed(model, train, test, choose)
        title = "dropout matrix completion"
    if save:
        model.save(file)
        rows["model"] = str(file)
    for user in recommend or []:
        rows[f"for {user}"] = _recommended(model, user, count, as_json)
    show(f"{ratings}: {title}", rows, as_json)


def _load(ratings: str, columns: str | None, folder: Path | None, download: bool) -> Any:
    from droptics.datasets import DatasetMissing, Ratings, jester, movielens, read_chunks
    from droptics.files.limits import check_regular
    from droptics.recommenders.ratings import triple

    if not Path(ratings).is_file():
        try:
            if ratings in ("ml-100k", "ml-1m", "ml-10m"):
                return movielens(ratings, folder, download)
            if ratings == "jester":
                return jester(folder, download)
        except DatasetMissing as error:
            text = str(error).replace("folder=...", "--folder").replace("pass download=True", "say --download")
            raise ValueError(text) from error
        if Path(ratings).exists():
            check_regular(Path(ratings))
        raise ValueError(f"ratings: no file {ratings}, and no set of that name (ml-100k, ml-1m, ml-10m, jester)")
    if columns is None:
        return Ratings(*triple(ratings))
    names = [int(name) if name.strip().isdecimal() else name.strip() for name in columns.split(",")]
    return Ratings(*triple(list(read_chunks(ratings, names))))


def _completed(model: Any, train: Any, test: Any, choose: bool) -> dict[str, object]:
    """Fit, and say how well."""
    notes = _fit(model, train, choose)
    rows: dict[str, object] = {
        "ratings": len(train),
        "users": len(model.user_ids_),
        "items": len(model.item_ids_),
        "width": model.width,
        "drop": model.drop_,
        "sweeps": len(model.history_),
        "objective": model.objective_,
        "training RMSE": model.history_[-1].rmse,
    }
    if test is not None:
        errors = model.evaluate(test, unknown="ignore")
        rows |= {"held-out ratings": errors.count, "RMSE": errors.rmse}
        rows |= {"MAE": errors.mae, "unknown ids": errors.unknown}
    if notes:
        rows["note"] = "; ".join(notes)
    return rows


def _fit(model: Any, train: Any, choose: bool) -> list[str]:
    """Fit, after choosing the rate if asked to; returns what there is to say about the ratings."""
    import warnings

    from droptics.recommenders import DropoutCompletionCV, DuplicateRatings, UnboundedPredictions

    told = (DuplicateRatings, UnboundedPredictions)
    with warnings.catch_warnings(record=True) as caught:
        for category in told:
            warnings.simplefilter("always", category)
        if choose:
            quiet = type(model)(**{**model.get_params(), "progress": False})
            chooser = DropoutCompletionCV(model.width, estimator=quiet, seed=model.seed).fit(train)
            model.set_params(drop=chooser.best_drop_)
        model.fit(train)
    last = {entry.category: str(entry.message) for entry in caught if issubclass(entry.category, told)}
    return list(last.values())


def _recommended(model: Any, user: str, count: int, as_json: bool) -> object:
    if int(model._users([user])[0]) < 0:
        raise ValueError(f"--recommend: user {user!r} has no training rating")
    best = model.recommend(user, count)
    pairs = list(zip(map(str, best.items), map(float, best.scores), strict=True))
    return dict(pairs) if as_json else "\n".join(f"{item} ({score:.2f})" for item, score in pairs)


def _share(penalty: str) -> str | float:
    try:
        return float(penalty)
    except ValueError:
        return penalty


def _show_sweeps(sweeps: int) -> Callable[[Any], None]:
    """A line per sweep, with the time that all of them would take; they end before when nothing moves any more."""

    def show(line: Any) -> None:
        left = line.seconds / line.sweep * (sweeps - line.sweep)
        text = f"sweep {line.sweep:>3}  objective {line.objective:.5f}  training RMSE {line.rmse:.5f}"
        typer.echo(f"{text}  {line.seconds:.1f} s, at most {left:.1f} s left", err=True)

    return show
