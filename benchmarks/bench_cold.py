"""Cold starts: CPU seconds of a fresh process until the library, its help or the first answer is there.

What is compiled once is compiled before the clock starts, as `droptics warmup` does: loops, and modules to bytecode,
which Python keeps beside them unless PYTHONDONTWRITEBYTECODE forbids it, as it does in some images and not here. First
answers are counted beyond `import torch`, which every user of a network pays and nothing here can shorten; the notes
name its share, and that of numba where loops run.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

from harness import Row, report

REPEATS = 3
LIMITS = {"import droptics": 0.05, "droptics --help": 0.3, "audit": 1.0, "fit": 1.0, "attack": 1.0, "train": 1.0}
HELP = "import sys; sys.argv = ['droptics', '--help']; from droptics.cli import main; main()"
FIRST = "from droptics.cli.warmup import FIRST; FIRST[{name!r}]()"
# What loops cannot do without: numba, and all that it loads before it reads the first of them.
NUMBA = "from numba.core.registry import cpu_target as cpu; cpu.typing_context.refresh(); cpu.target_context.refresh()"
LOOPS = {"fit", "train"}
KEPT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
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
    return statistics.median(float(run(script)) for _ in range(REPEATS))


def run(script: str) -> str:
    """What a fresh process prints."""
    command = [sys.executable, "-c", script]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=KEPT).stdout


def main() -> None:
    rows = []
    interpreter, torch = seconds("", counted=False), seconds("import torch")
    numba = seconds(NUMBA, "import torch")
    for name, limit in LIMITS.items():
        if name == "import droptics":
            ours, note = seconds(name), f"the interpreter itself takes {interpreter:.2g} s"
        elif name == "droptics --help":
            run(HELP)  # compiles
            ours, note = seconds(HELP, counted=False), "with the interpreter"
        else:
            code = FIRST.format(name=name)
            run(code)  # compiles
            ours, note = seconds(code, "import torch"), f"beyond import torch, {torch:.2g} s"
            if name in LOOPS:
                note += f"; numba alone takes {numba:.2g} s of it"
        rows.append(Row(name, ours, limit, limit / ours, "the limit stands for the alternative", note))
        print(f"{name}: {ours:.3g} s", flush=True)
    report("cold", rows)


if __name__ == "__main__":
    main()
