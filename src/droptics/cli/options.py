"""Options that several commands share; everything else is said where it is used.

What is annotated with a sentence is an option with this help; one that is off by default is a flag that switches it on.
"""

from __future__ import annotations

from inspect import Parameter
from pathlib import Path
from typing import Annotated, get_origin

import typer

Examples = Annotated[Path, "A .npz or .safetensors file of inputs (images) and targets (labels), or a folder of them."]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Numbers = Annotated[Path, "A .npz or .safetensors file with arrays inputs (n x d) and targets (n x k)."]
Rate = Annotated[float, "Probability of dropping a hidden unit, in [0, 1)."]
Together = Annotated[int, "Units that fall together (DropBlock); 1 is dropout."]
State = Annotated[Path | None, "State dict for package.module:factory (.safetensors, or .pt without code)."]
LossName = Annotated[str | None, "squared, cross-entropy or logistic; by default what the targets suggest."]


def described_option(parameter: Parameter) -> Parameter:
    """A parameter of a command as typer reads it."""
    hint = parameter.annotation
    if get_origin(hint) is not Annotated or not isinstance(hint.__metadata__[0], str):
        return parameter
    names = ("--" + parameter.name.replace("_", "-"),) if parameter.default is False else ()
    return parameter.replace(annotation=Annotated[hint.__origin__, typer.Option(*names, help=hint.__metadata__[0])])
