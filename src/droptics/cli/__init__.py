"""The door: `droptics demo | penalty | optimum | audit | complete | attack | verify | reproduce`."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; a mistake is one clear line on stderr and exit code 2, Ctrl-C 130, a closed pipe 141."""
    try:
        from droptics.cli.app import app  # so that Ctrl-C is answered from the first moment on

        app()
    except KeyboardInterrupt:
        print("droptics: stopped", file=sys.stderr)
        sys.exit(130)
