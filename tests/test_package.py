"""What users download: the archives hold what the code needs and nothing else, and the installed wheel works."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "droptics"
SHIPPED = ("src", "tests", "examples", "benchmarks", "conda", "docs", "locks", "paper", "results", ".github", ".ci")

pytestmark = pytest.mark.slow


def run(*command: object, folder: Path, **variables: str) -> str:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COVERAGE_PROCESS_START")
    }
    found = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert found.returncode == 0, f"{command} failed:\n{found.stdout}\n{found.stderr}"
    return found.stdout


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """The sdist, and the wheel built from that sdist, made from a copy so that the tree stays clean."""
    folder = tmp_path_factory.mktemp("package")
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, folder / path.name)
    kept = shutil.ignore_patterns("__pycache__", "*.egg-info", "_build", "generated", "auto_examples", "measured")
    for name in SHIPPED:
        shutil.copytree(ROOT / name, folder / name, ignore=kept)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", folder, folder=folder)
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    (wheel,) = (folder / "dist").glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def installed(archives, tmp_path_factory):
    """A folder that holds the wheel alone; every other library comes from this environment."""
    target = tmp_path_factory.mktemp("installed")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target)
    run(*pip, archives[1], folder=target)
    return target


def shipped() -> set[str]:
    """Every file of the package that is not a by-product."""
    files = (path for path in SOURCES.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(SOURCES.parent).as_posix() for path in files}


def test_wheel_holds_every_file_of_the_package_and_no_other(archives):
    with zipfile.ZipFile(archives[1]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("METADATA"))).decode()
    assert names == shipped()
    kinds = {Path(name).suffix for name in names}
    assert kinds == {".py", ".pyi", ".typed", ".j2", ".css"}, "a new kind of file: is it meant to be shipped?"
    assert "License-Expression: MIT" in metadata
    assert "Requires-Python: >=3.11" in metadata


def test_sdist_can_be_built_again(archives):
    """The wheel above comes from the sdist, so what is missing here would be missing there."""
    with tarfile.open(archives[0]) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    assert {"pyproject.toml", "README.md", "LICENSE"} <= names
    assert {f"src/{name}" for name in shipped()} <= names


def test_sdist_holds_every_test_and_what_tests_read(archives):
    """Helpers without the name of a test were missing once, so that no test of the sdist could run."""
    with tarfile.open(archives[0]) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    passing = {"__pycache__", "_build", "generated", "auto_examples", "measured"}
    wanted = {
        path.relative_to(ROOT).as_posix()
        for folder in SHIPPED[1:]
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not passing & set(path.parts) and path.suffix != ".pyc"
    }
    assert sorted(wanted - names) == []
    assert {"Makefile", "constraints.txt", "constraints-minimal.txt", "MANIFEST.in"} <= names


def test_tests_run_from_the_sdist(archives, tmp_path):
    with tarfile.open(archives[0]) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    chosen = (
        "masks/test_laws.py",
        "structure/test_floors.py",
        "support",
        "heads/test_projection.py",
        "benchmarks",
        "docs/test_checklists.py",
    )
    run(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", "--shuffle", "1"),
        *(f"tests/{name}" for name in chosen),
        folder=folder,
        PYTHONPATH=str(folder / "src"),
    )


def test_installed_wheel_computes_a_penalty(installed, tmp_path):
    code = f"""
import pathlib, torch, droptics
assert pathlib.Path(droptics.__file__).is_relative_to({str(installed)!r}), droptics.__file__
model = droptics.TwoLayerLinear(torch.eye(2).double(), torch.eye(2).double())
data = droptics.Moments.of_map(torch.eye(2).double())
print(float(droptics.penalty(model, data, droptics.Bernoulli(drop=0.5, size=2))))
missing = [name for name in droptics._SPELLINGS if not hasattr(droptics, name)]
assert not missing, missing
"""
    penalty = run(sys.executable, "-c", code, folder=tmp_path, PYTHONPATH=str(installed))
    assert float(penalty) == 2.0  # lambda = 1, two units of energy one


def test_installed_commands_answer(installed, tmp_path):
    command = next((installed / "bin").glob("droptics*"))  # on Windows a program, which Python runs all the same
    text = run(sys.executable, command, "--help", folder=tmp_path, PYTHONPATH=str(installed))
    for name in ("demo", "penalty", "optimum", "audit", "verify"):
        assert name in text
    run(sys.executable, command, "penalty", "--help", folder=tmp_path, PYTHONPATH=str(installed))


def test_nothing_leans_on_one_system():
    """Files, worker processes and models once more, in a process that has lost what Windows lacks."""
    chosen = ("files", "evidence/test_engines.py", "hostile/test_state.py")
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "bare_system", "-m", "not slow")
    paths = os.pathsep.join(str(ROOT / name) for name in ("src", "tests/support"))
    said = run(sys.executable, *command, *(f"tests/{name}" for name in chosen), folder=ROOT, PYTHONPATH=paths)
    assert "needs signals" in said, "what needs POSIX is left out, with the reason"
