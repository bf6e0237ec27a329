"""The frame of the command line: sub-commands are registered here, errors become one line and exit code 2.

Modules of this room import nothing heavy at the top, so that `droptics --help` answers at once.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from droptics.cli.attack import attack_command
from droptics.cli.audit import audit_command
from droptics.cli.complete import complete_command
from droptics.cli.demo import demo_command
from droptics.cli.errors import Stated, flush, message, place_of, silence
from droptics.cli.optimum import optimum_command
from droptics.cli.penalty import penalty_command
from droptics.cli.predict import predict_command
from droptics.cli.rates import rates_command
from droptics.cli.reproduce import reproduce_command
from droptics.cli.verify import verify_command
from droptics.cli.warmup import warmup_command
from droptics.progress import shown

app = typer.Typer(
    name="droptics",
    help="What dropout does to a model, exactly: its penalty, the global optimum, and how far you are from it.",
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


Command = Callable[..., None]
COMMANDS: dict[str, Command] = {
    "demo": demo_command,
    "penalty": penalty_command,
    "optimum": optimum_command,
    "audit": audit_command,
    "predict": predict_command,
    "rates": rates_command,
    "verify": verify_command,
    "reproduce": reproduce_command,
    "complete": complete_command,
    "attack": attack_command,
    "warmup": warmup_command,
}
DEBUG = inspect.Parameter(
    "debug",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--debug", help="Show where an error arose.")],
)


def _guarded(command: Command) -> Command:
    """The command with --debug; without it every error is one line on stderr and an exit code."""

    def run(debug: bool = False, **options: object) -> None:
        try:
            with shown():
                command(**options)
            flush()
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            print("droptics: stopped", file=sys.stderr)
            raise typer.Exit(130) from None
        except BrokenPipeError:  # whoever read the output has enough
            silence()
            raise typer.Exit(141) from None
        except (Exception, SystemExit) as problem:
            # to leave is not for the user's module to say; rich leaves where whoever read the output has enough
            if debug or (isinstance(problem, SystemExit) and not place_of(problem)):
                raise
            print(f"droptics: {message(problem)}", file=sys.stderr)
            raise typer.Exit(2) from None

    signature = inspect.signature(command, eval_str=True)
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), DEBUG]
    )
    run.__annotations__ = {}
    return run


for _name, _command in COMMANDS.items():
    app.command(_name, cls=Stated, help=_flowing(_command.__doc__ or ""))(_guarded(_command))


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
