"""Cold starts: CPU seconds of a fresh process until the library, its help or the first answer is there.

What is compiled once is compiled before the clock starts, as `droptics warmup` does. First answers are counted beyond
`import torch`, which every user of a network pays and nothing here can shorten; the notes name its share, and that of
the other library that a question cannot do without.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

from harness import Row, report

REPEATS = 3
LIMITS = {"import droptics": 0.05, "droptics --help": 0.3, "audit": 1.0, "fit": 1.0, "attack": 1.0, "train": 1.0}
HELP = "import sys; sys.argv = ['droptics', '--help']; from droptics.cli import main; main()"
FIRST = "from droptics.cli.warmup import FIRST; FIRST[{name!r}]()"
NEEDED = {"fit": "import sklearn.base"}  # what an estimator cannot do without
CLOCK = """
import atexit, io, sys, time
printed, sys.stdout = sys.stdout, io.StringIO()
{before}
begin = time.process_time() if {counted} else 0.0
atexit.register(lambda: print(time.process_time() - begin, file=printed))
{code}
"""


def seconds(code: str, before: str = "", counted: bool = True) -> float:
    """Median CPU seconds of the code in fresh processes, from their start or, after `before`, from there on."""
    script = CLOCK.format(before=before, code=code, counted=counted)
    found = [
        float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)
        for _ in range(REPEATS)
    ]
    return statistics.median(found)


def main() -> None:
    rows = []
    interpreter, torch = seconds("", counted=False), seconds("import torch")
    for name, limit in LIMITS.items():
        if name == "import droptics":
            ours, note = seconds(name), f"the interpreter itself takes {interpreter:.2g} s"
        elif name == "droptics --help":
            ours, note = seconds(HELP, counted=False), "with the interpreter"
        else:
            code = FIRST.format(name=name)
            subprocess.run([sys.executable, "-c", code], check=True)  # compiles
            ours, note = seconds(code, "import torch"), f"beyond import torch, {torch:.2g} s"
            if name in NEEDED:
                note += f"; {NEEDED[name]} alone takes {seconds(NEEDED[name], 'import torch'):.2g} s of it"
        rows.append(Row(name, ours, limit, limit / ours, "the limit stands for the alternative", note))
        print(f"{name}: {ours:.3g} s", flush=True)
    report("cold", rows)


if __name__ == "__main__":
    main()
