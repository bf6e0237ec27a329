"""Build the archives, install the wheel in an environment that holds nothing else, and use it as a stranger would.

    python tests/clean_install.py

Needs an index to install from (torch and the other libraries are fetched), so it is a command of its own, `make
package`, and not a test among the others; test_package.py checks what can be checked without one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
USE = """
import torch
from droptics import Bernoulli, Estimate, Moments, TwoLayerLinear, penalty

network = TwoLayerLinear(torch.eye(2), torch.eye(2))
found: Estimate = penalty(network, Moments.of_map(torch.eye(2)), Bernoulli(drop=0.5, size=2))
assert float(found) == 2.0, found
"""
MISUSE = (
    USE
    + """
wrong: int = penalty(network, Moments.of_map(torch.eye(2)), Bernoulli(drop=0.5, size=2))
"""
)


def run(*command: object, fails: bool = False, folder: Path | None = None) -> str:
    """Output of a command that must succeed, or must fail."""
    print("$", *command, flush=True)
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, cwd=folder)
    if (done.returncode != 0) != fails:
        raise SystemExit(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def main() -> None:
    """Every step in a temporary folder; the working tree is only read."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy = folder / "source"
        run("git", "clone", "--quiet", "--no-hardlinks", ROOT, copy)
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", copy)
        (wheel,) = (folder / "dist").glob("*.whl")
        (sdist,) = (folder / "dist").glob("*.tar.gz")
        for archive in (wheel, sdist):
            home = folder / archive.suffix.strip(".")
            venv.create(home, with_pip=True)
            python, pip = home / "bin" / "python", ("-m", "pip", "install", "--quiet")
            if archive is wheel:
                run(python, *pip, "-c", ROOT / "constraints.txt", "torch==2.13.0", archive)
            else:  # builds a wheel of its own, in isolation
                run(python, *pip, "--no-deps", archive)
                run(python, "-c", "from importlib.metadata import version; version('droptics')")
                continue
            use(home, folder)
    print("the wheel and the sdist install in a clean environment, and the wheel works")


def use(home: Path, folder: Path) -> None:
    """The command line, the ten lines of the first page, and the types as mypy sees them from outside."""
    droptics, python = home / "bin" / "droptics", home / "bin" / "python"
    assert run(droptics, "--version").startswith("droptics ")
    run(droptics, "verify", "pal2020-eq7")
    for text, wrong in ((USE, False), (MISUSE, True)):
        script = folder / f"user_{wrong}.py"
        script.write_text(text)
        if not wrong:
            run(python, script)
        # away from our own settings, which would show it our sources instead of what is installed
        mypy = (sys.executable, "-m", "mypy", "--config-file=", "--strict", "--python-executable", python)
        told = run(*mypy, script, fails=wrong, folder=folder)
        assert wrong == ("Incompatible types in assignment" in told), told


if __name__ == "__main__":
    main()
