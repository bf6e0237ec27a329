"""What runs on the hosts is what runs here: workflows call the Makefile, and where there is no make, its lines."""

import re
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="comes with the extra dask")

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
JOBS = {
    f"{path.stem}, {name}": job
    for path in FILES
    for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items()
}
QUICK = JOBS["tests, quick"]


def recipe(target):
    """The lines of a target, as a shell that has the environment's Python first would be given them."""
    lines = re.search(rf"^{re.escape(target)}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)[1].splitlines()
    variables = {"$(BIN)/": "", "$(PYTEST)": re.search(r"^PYTEST := (.*)$", MAKEFILE, re.MULTILINE)[1]}
    for name, value in variables.items():
        lines = [line.replace(name, value) for line in lines]
    return [line.strip() for line in lines]


def called(job):
    """Targets of make that a job asks for, by name or by its matrix."""
    run = [step["run"] for step in job["steps"] if "run" in step]
    targets = {name for text in run for name in re.findall(r"\bmake ([a-z-]+)", text)}
    matrix = job.get("strategy", {}).get("matrix", {})
    return targets | {*matrix.get("target", ()), *(row["target"] for row in matrix.get("include", ()))}


@pytest.mark.parametrize("name", JOBS)
def test_jobs_ask_for_targets_that_exist(name):
    targets = set(re.findall(r"^([a-z-]+)(?: [a-z -]+)?:", MAKEFILE, re.MULTILINE))
    assert called(JOBS[name]) <= targets


def test_windows_is_given_the_lines_of_the_makefile():
    (step,) = [step for step in QUICK["steps"] if step.get("if") == "runner.os == 'Windows'"]
    setup = [line for line in recipe("$(READY)") if line.startswith("python -m pip") and "--upgrade pip" not in line]
    assert step["run"].splitlines() == setup + recipe("quick")


def test_every_system_and_python_that_is_promised_is_tried():
    said = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    matrix = QUICK["strategy"]["matrix"]
    promised = {found[1] for line in said if (found := re.search(r":: (3\.\d+)$", line))}
    assert set(matrix["python"]) == promised
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    assert any(name.endswith("-arm") for name in matrix["os"])
    wanted = {"test", "test-rounding", "coverage", "test-minimal", "test-newest"}
    assert called(JOBS["tests, whole"]) == wanted
    assert called(JOBS["packaging, archives"]) == {"package", "release-check", "conda"}
    assert called(JOBS["scheduled, search"]) == {"fuzz", "mutate", "kills"}
