"""The frame of the command line: sub-commands are registered here, errors become one line and exit code 2.

Modules of this room import nothing heavy at the top, so that `droptics --help` answers at once.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

from droptics.cli.attack import attack_command
from droptics.cli.audit import audit_command
from droptics.cli.complete import complete_command
from droptics.cli.demo import demo_command
from droptics.cli.optimum import optimum_command
from droptics.cli.penalty import penalty_command
from droptics.cli.reproduce import reproduce_command
from droptics.cli.verify import verify_command

app = typer.Typer(
    name="droptics",
    help="What dropout does to a model, exactly: its penalty, the global optimum, and how far you are from it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _flowing(text: str) -> str:
    """A docstring whose paragraphs break where the terminal does; examples keep their lines."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(part if part.startswith("Example") else " ".join(part.split()) for part in paragraphs)


COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo_command,
    "penalty": penalty_command,
    "optimum": optimum_command,
    "audit": audit_command,
    "verify": verify_command,
    "reproduce": reproduce_command,
    "complete": complete_command,
    "attack": attack_command,
}
for _name, _command in COMMANDS.items():
    app.command(_name, help=_flowing(_command.__doc__ or ""))(_command)


def _show_version(value: bool) -> None:
    if value:
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


def main() -> None:
    """Run the command line; anything wrong with the input is one clear line on stderr and exit code 2."""
    try:
        app()
    except (ValueError, OSError, ArithmeticError) as problem:
        message = " ".join(str(problem).split()) or type(problem).__name__
        print(f"droptics: {message}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("droptics: stopped", file=sys.stderr)
        sys.exit(130)
