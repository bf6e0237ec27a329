"""Options that several commands share; everything else is said where it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Numbers = Annotated[
    Path, typer.Option(help="A .npz or .safetensors file with arrays inputs (n x d) and targets (n x k).")
]
Rate = Annotated[float, typer.Option(help="Probability of dropping a hidden unit, in [0, 1).")]
Together = Annotated[int, typer.Option(help="Units that fall together (DropBlock); 1 is dropout.")]
State = Annotated[
    Path | None, typer.Option(help="State dict for package.module:factory (.safetensors, or .pt without code).")
]
LossName = Annotated[
    str | None, typer.Option(help="squared, cross-entropy or logistic; by default what the targets suggest.")
]
