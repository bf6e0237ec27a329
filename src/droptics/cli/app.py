"""The frame of the command line: sub-commands are registered here, their errors become one line (`errors`).

Modules of this room import nothing heavy at the top, so that `droptics --help` answers at once.
"""

from __future__ import annotations

import inspect
from typing import Annotated

import typer

from droptics.cli.attack import attack_command
from droptics.cli.audit import audit_command
from droptics.cli.complete import complete_command
from droptics.cli.demo import demo_command
from droptics.cli.errors import Command, Stated, guarded
from droptics.cli.optimum import optimum_command
from droptics.cli.penalty import penalty_command
from droptics.cli.predict import predict_command
from droptics.cli.rates import rates_command
from droptics.cli.reproduce import reproduce_command
from droptics.cli.verify import verify_command
from droptics.cli.warmup import warmup_command

app = typer.Typer(
    name="droptics",
    epilog="Try first: `droptics demo` (every question on a small problem, and a page with the pictures), then "
    "`droptics audit --help` for a network of your own. `droptics --install-completion` completes commands.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _flowing(text: str) -> str:
    """A docstring whose paragraphs break where the terminal does; examples keep their lines."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(part if part.startswith("Example") else " ".join(part.split()) for part in paragraphs)


_QUESTIONS = (demo_command, penalty_command, optimum_command, audit_command, predict_command, rates_command)
_JOBS = (verify_command, reproduce_command, complete_command, attack_command, warmup_command)
COMMANDS: dict[str, Command] = {each.__name__.removesuffix("_command"): each for each in (*_QUESTIONS, *_JOBS)}
for _name, _command in COMMANDS.items():
    app.command(_name, cls=Stated, help=_flowing(_command.__doc__ or ""))(guarded(_command))


def _show_version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"droptics {version('droptics')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool | None,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave."),
    ] = None,
) -> None:
    """What dropout does to a model, exactly: its penalty, the global optimum, and how far you are from it."""
