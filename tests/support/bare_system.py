"""`pytest -p bare_system`: what Windows lacks is taken from this process, so that whoever leans on it is found here."""

import os
import signal
import sys
from importlib import import_module

MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")
NAMES = {
    os: ("fork", "forkpty", "getpgid", "killpg", "mkfifo", "sched_getaffinity", "setsid"),
    signal: ("SIGALRM", "SIGKILL", "SIGPROF", "SIGSTOP", "SIGUSR1", "alarm", "pause", "setitimer"),
}
# these ask for the system by its name and not for what it has
LIBRARIES = (
    "cvxpy",
    "distributed",
    "filelock",
    "matplotlib.pyplot",
    "numba",
    "pandas",
    "pooch",
    "pyarrow",
    "selenium",
    "torch",
)


def take_away() -> None:
    """From here on nothing of POSIX is left for those who come later."""
    for name in LIBRARIES:
        import_module(name)
    sys.modules.update(dict.fromkeys(MODULES))  # None: an import fails
    for module, names in NAMES.items():
        for name in names:
            delattr(module, name)


def pytest_configure() -> None:
    """Called by pytest."""
    take_away()
