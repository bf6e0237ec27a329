"""Build wheel and sdist twice from clean copies of the last commit and compare them byte for byte.

    python tests/reproducible_build.py dist

The folder then holds the archives, each with the date of the commit: whoever builds the same commit with the same
Python and setuptools gets the same bytes and can see that what is published came from these sources.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(target: Path) -> None:
    """Two builds; the first is kept when the second equals it."""
    log = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, capture_output=True, text=True)
    date = int(log.stdout)
    os.umask(0o022)  # rights of files are part of a wheel
    with tempfile.TemporaryDirectory() as name:
        first, second = (build(Path(name) / part, date) for part in ("first", "second"))
        for file in sorted(first.iterdir()):
            one, other = (digest(folder / file.name) for folder in (first, second))
            if one != other:
                raise SystemExit(f"{file.name} differs between two builds of one commit: {one}, {other}")
            print(f"{one}  {file.name}")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(first, target)


def build(folder: Path, date: int) -> Path:
    """Wheel and sdist of the last commit, the sdist with nothing of the machine that built it."""
    source, archives = folder / "source", folder / "dist"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, source], check=True)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", archives, source]
    done = subprocess.run(
        command,
        env=os.environ | {"SOURCE_DATE_EPOCH": str(date)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}\n{done.stderr}")
    (sdist,) = archives.glob("*.tar.gz")
    sdist.write_bytes(normal(sdist, date))
    return archives


def normal(sdist: Path, date: int) -> bytes:
    """The same files in order of their names, with one date, one owner and no rights but those that matter."""
    packed = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            plain = tarfile.TarInfo(member.name)
            plain.type, plain.size, plain.mtime = member.type, member.size, date
            plain.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(plain, old.extractfile(member) if member.isfile() else None)
    return gzip.compress(packed.getvalue(), mtime=date)


def digest(file: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
