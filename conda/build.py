"""Build the conda package of this checkout and run the recipe's tests: `python conda/build.py OUT [CHANNEL ...]`.

OUT is a channel too; beside it conda-forge is used, unless others are named.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rattler_build import Stage0Recipe, ToolConfiguration

if __name__ == "__main__":
    out, *channels = sys.argv[1:]
    recipe = Stage0Recipe.from_file(Path(__file__).with_name("recipe.yaml"))
    built = recipe.run_build(
        tool_config=ToolConfiguration(test_strategy="native"),
        output_dir=Path(out).resolve(),
        channels=channels or ["conda-forge"],
    )
    print(*(package for result in built for package in result.packages), sep="\n")
