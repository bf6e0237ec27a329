"""Open and run the notebooks of a built site as they are, each in an empty folder; `make release-check` does."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Run every notebook with the kernel of this environment; the exit status says whether one failed."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    failed = []
    for path in sorted(parser.parse_args().folder.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        with tempfile.TemporaryDirectory() as folder:
            try:
                NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": folder}}).execute()
            except CellExecutionError as error:
                failed.append(path.name)
                print(error)
        print("failed" if path.name in failed else "ran", path.name, flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
