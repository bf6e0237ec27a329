"""Marks for tests of what only some systems have."""

import signal
import sys

import pytest

BARE = not hasattr(signal, "SIGKILL")  # Windows, or `pytest -p bare_system`
LINUX = sys.platform.startswith("linux") and not BARE

posix = pytest.mark.skipif(BARE, reason="needs signals, limits, links, pipes or modes of POSIX")
linux = pytest.mark.skipif(not LINUX, reason="needs a device or a file that Linux has")
