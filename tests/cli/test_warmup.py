"""First calls: what `droptics warmup` runs ahead, and what the first answer of a process does without."""

import subprocess
import sys

import pytest

from droptics.cli.warmup import FIRST

# each takes longer to load than most first answers take; loops need numba, and numba loads scipy.linalg
SLOW_TO_LOAD = ("torch._dynamo", "sympy", "scipy.stats", "scipy.optimize", "scipy.sparse", "matplotlib", "sklearn")
SLOW_TO_LOAD += ("pandas", "jinja2", "rich")
LOOPS = ("numba", "scipy.linalg")
UNNEEDED = {"audit": LOOPS, "attack": (*LOOPS, "scipy.special")}
QUESTION = """
import sys
from droptics.cli.warmup import FIRST
FIRST[sys.argv[1]]()
print(*[name for name in sys.argv[2:] if name in sys.modules])
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", FIRST)
def test_a_first_answer_loads_nothing_that_it_does_not_need(name):
    unneeded = UNNEEDED.get(name, ("scipy.special",))
    command = [sys.executable, "-c", QUESTION, name, *SLOW_TO_LOAD, *unneeded]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() == []


def test_the_command_line_and_its_help_load_no_library():
    code = "import sys; import droptics.cli.app; print('torch' in sys.modules, 'numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("name", FIRST)
def test_every_question_is_answered(name):
    FIRST[name]()
