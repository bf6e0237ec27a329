"""Run the Python blocks of pages in order, each page in an empty folder, and compare what they print with the page.

`make site-check` does so for the first pages of a newcomer, with nothing installed but the wheel; the tests do for all.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import re
import sys
import tempfile
from itertools import zip_longest
from pathlib import Path

BLOCK = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)


def same(printed: str | None, written: str | None) -> bool:
    """Words as they are; numbers but for the last digits, which processors round differently."""
    try:
        return math.isclose(float(printed or ""), float(written or ""), rel_tol=1e-12)
    except ValueError:
        return printed == written


def differences(page: Path) -> list[str]:
    """Words that the blocks of a page print, or do not print, against the page; a block that fails raises."""
    names: dict[str, object] = {"__name__": "__main__"}
    found = []
    for code, output in BLOCK.findall(page.read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), names)
        if output:
            pairs = zip_longest(printed.getvalue().split(), output.split())
            found += [f"{one} for {other}" for one, other in pairs if not same(one, other)]
    return found


def main() -> None:
    """Say of every page whether it ran as it is written; the exit status says whether one did not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=Path, nargs="+")
    failed = False
    for page in [path.resolve() for path in parser.parse_args().pages]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            found = differences(page)
            os.chdir(page.parent)  # a folder that one stands in cannot be removed everywhere
        print("; ".join([f"differs: {page}", *found]) if found else f"ran {page}", flush=True)
        failed |= bool(found)
    sys.exit(failed)


if __name__ == "__main__":
    main()
