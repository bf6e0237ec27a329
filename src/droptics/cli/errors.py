"""What the command line says when something goes wrong: one line, and a traceback only with --debug."""

from __future__ import annotations

import errno
import inspect
import os
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Annotated

import typer
import typer.core

from droptics.cli.options import described_option
from droptics.progress import shown

HINT = "this is a fault of droptics, not of your input; --debug shows where"
Command = Callable[..., None]
DEBUG = inspect.Parameter(
    "debug",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--debug", help="Show where an error arose.")],
)


class Stated(typer.core.TyperCommand):
    """A command none of whose arguments is empty: as a path it would be the current folder."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        for before, given in pairwise(["", *args]):
            if given == "" or (given.startswith("--") and given.endswith("=")):
                name = before if before.startswith("-") and given == "" else given.rstrip("=") or "an argument"
                raise typer.BadParameter(f"{name} is empty; give it a value or leave it out", ctx)
        return super().parse_args(ctx, args)


class YourError(Exception):
    """An error that the user's own module raised, to be shown as theirs."""

    def __init__(self, what: str, problem: BaseException) -> None:
        place = place_of(problem)
        super().__init__(f"{what} raised {described(problem)}" + (f" ({place})" if place else ""))


def guarded(command: Command) -> Command:
    """The command with --debug; without it every error is one line on stderr and an exit code."""

    def run(debug: bool = False, **options: object) -> None:
        try:
            here = Path()
            if not (here.exists() and here.stat().st_nlink):  # loading torch there ends the process on some machines
                raise FileNotFoundError("the current folder is gone; change to one that exists")
            with shown():
                command(**options)
            flush()
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except BrokenPipeError:  # whoever read the output has enough
            silence()
            raise typer.Exit(141) from None
        except (Exception, SystemExit, KeyboardInterrupt) as problem:
            # an extension that Ctrl-C stops while it is being loaded raises an ImportError because of it
            if isinstance(problem, KeyboardInterrupt) or isinstance(problem.__cause__, KeyboardInterrupt):
                print("droptics: stopped", file=sys.stderr)
                raise typer.Exit(130) from None
            # to leave is not for the user's module to say; rich leaves where whoever read the output has enough
            if debug or (isinstance(problem, SystemExit) and not place_of(problem)):
                raise
            print(f"droptics: {message(problem)}", file=sys.stderr)
            raise typer.Exit(2) from None

    signature = inspect.signature(command, eval_str=True)
    parameters = [*map(described_option, signature.parameters.values()), DEBUG]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run


def described(problem: BaseException) -> str:
    """Kind and message of an error in one line."""
    text = problem.msg if isinstance(problem, SyntaxError) else " ".join(str(problem).split())
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


def place_of(problem: BaseException) -> str:
    """File and line of the user's own code in which an error arose; empty when there is none."""
    if isinstance(problem, SyntaxError) and problem.filename and _is_users(problem.filename):
        return f"{problem.filename}, line {problem.lineno}"
    own = [frame for frame in traceback.extract_tb(_inside(problem.__traceback__)) if _is_users(frame.filename)]
    if own:
        return f"{own[-1].filename}, line {own[-1].lineno}, in {own[-1].name}"
    return place_of(problem.__cause__) if problem.__cause__ is not None else ""


def message(problem: BaseException) -> str:
    """One line for an error: what is wrong and, where it can be known, whose it is."""
    text = " ".join(str(problem).split()) or type(problem).__name__
    if isinstance(problem, YourError):
        return text
    if _is_memory(problem):
        return "not enough memory for this; take a smaller width, fewer examples or smaller batches"
    if place := place_of(problem):
        return f"your module raised {described(problem)} ({place})"
    if isinstance(problem, RecursionError):
        return "the input nests too deeply"
    if not isinstance(problem, (ValueError, OSError, ArithmeticError)):
        return f"unexpected {described(problem)[:500]}; {HINT}"
    full = isinstance(problem, OSError) and problem.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
    return f"{text}; the old file, if there was one, is still there" if full else text


def _is_memory(problem: BaseException) -> bool:
    words = ("can't allocate memory", "not enough memory", "out of memory", "Unable to allocate")
    return isinstance(problem, MemoryError) or any(word in str(problem) for word in words)


def _inside(trace: TracebackType | None) -> TracebackType | None:
    """The part of a traceback below the last frame of the command line itself."""
    found, here = trace, str(Path(__file__).parent)
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(here):
            found = trace
        trace = trace.tb_next
    return found


def _is_users(filename: str) -> bool:
    """Whether a file belongs neither to droptics nor to Python nor to an installed package."""
    if filename.startswith("<") or not Path(filename).exists():
        return False
    others = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    others += [*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[1])]
    file = os.path.realpath(filename)
    return not any(file.startswith(os.path.realpath(folder) + os.sep) for folder in others if folder)


def flush() -> None:
    """Write out what was printed, so that a full disk or a closed pipe shows here and not after the end."""
    try:
        if sys.stdout is not None:  # closed by whoever started this
            sys.stdout.flush()
    except OSError:
        silence()
        raise


def silence() -> None:
    """Nothing more goes to the closed or full output: Python itself would complain of it when it ends."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), number)
