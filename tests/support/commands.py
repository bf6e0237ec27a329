"""The command line, run in this process: what it printed, and its exit code."""

import contextlib
import io
import os
import sys
from dataclasses import dataclass
from unittest.mock import patch

import pytest

from droptics.cli import main


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@contextlib.contextmanager
def _inside(folder):
    before = os.getcwd()
    os.chdir(folder or before)
    try:
        yield
    finally:
        os.chdir(before)


def droptics(*arguments, cwd=None):
    """Run the command line in this process: what `main` prints and the code it leaves with."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        _inside(cwd),
        patch.object(sys, "argv", ["droptics", *map(str, arguments)]),
        pytest.raises(SystemExit) as leaving,
    ):
        main()
    return Done(int(leaving.value.code or 0), out.getvalue(), err.getvalue())
