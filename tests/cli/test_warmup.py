"""First calls: what `droptics warmup` runs ahead, and what the first answer of a process does without."""

import subprocess
import sys

import pytest

from droptics.cli.warmup import FIRST

# each takes longer to load than most first answers take
SLOW_TO_LOAD = ("torch._dynamo", "sympy", "scipy.stats", "matplotlib", "sklearn", "pandas")
QUESTION = """
import sys
from droptics.cli.warmup import FIRST
FIRST[sys.argv[1]]()
print(*[name for name in sys.argv[2:] if name in sys.modules])
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["audit", "attack", "train", "optimum", "criterion"])
def test_a_first_answer_loads_nothing_that_it_does_not_need(name):
    command = [sys.executable, "-c", QUESTION, name, *SLOW_TO_LOAD]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() == []


def test_the_command_line_and_its_help_load_no_library():
    code = "import sys; import droptics.cli.app; print('torch' in sys.modules, 'numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("name", FIRST)
def test_every_question_is_answered(name):
    FIRST[name]()
