"""Marks for tests of what only some systems have."""

import os
import sys

import pytest

posix = pytest.mark.skipif(os.name == "nt", reason="needs signals, limits, links, pipes or modes of POSIX")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a device or a file that Linux has")
