"""The reference of the command line, written from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from typer.main import get_command

from droptics.cli.app import app

INTRODUCTION = (
    "# Command line\n\n"
    "`droptics COMMAND --help` shows the same text. Anything wrong with the input is one line on stderr and exit "
    "status 2. Files are NumPy archives, safetensors, CSV or Parquet; nothing is unpickled.\n"
)


def command_page() -> str:
    """Every command with its arguments and options, in the order of `droptics --help`."""
    commands = get_command(app).commands  # type: ignore[attr-defined]
    lines = [INTRODUCTION, "| command | does |", "| --- | --- |"]
    lines += [f"| [`droptics {name}`](#{name}) | {_first(command)} |" for name, command in commands.items()]
    for name, command in commands.items():
        lines += ["", f"({name})=", f"## {name}", "", "```text", _usage(name, command), "```", "", *_prose(command)]
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option"]
        for title, found in (("argument", arguments), ("option", options)):
            if found:
                lines += ["", f"| {title} | meaning | default |", "| --- | --- | --- |", *map(_row, found)]
    return "\n".join(lines) + "\n"


def _first(command: Any) -> str:
    return _cell(" ".join(inspect.cleandoc(command.help).split("\n\n")[0].split()))


def _usage(name: str, command: Any) -> str:
    parts = [f"[{p.name.upper()}]" if not p.required else p.name.upper() for p in command.params if _is_argument(p)]
    return " ".join(["droptics", name, *parts, "[OPTIONS]"])


def _is_argument(parameter: Any) -> bool:
    return parameter.param_type_name == "argument"


def _prose(command: Any) -> Sequence[str]:
    """The help text; an example becomes a block."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(command.help.replace("\b", "")).split("\n\n"):
        if paragraph.lstrip().startswith("Example"):
            examples = [part.strip() for part in paragraph.split(":", 1)[1].split("\n") if part.strip()]
            lines += ["```text", *examples, "```", ""]
        else:
            lines += [" ".join(paragraph.split()).replace("<", "\\<"), ""]
    return lines


def _row(parameter: Any) -> str:
    names = parameter.name.upper() if _is_argument(parameter) else ", ".join(parameter.opts + parameter.secondary_opts)
    default = parameter.default
    plain = not callable(default) and default not in (None, False, (), [])
    shown = "required" if parameter.required else default if plain else ""
    return f"| `{names}` | {_cell(getattr(parameter, 'help', '') or '')} | {_cell(str(shown))} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<").replace("*", "\\*").replace("_", "\\_")
