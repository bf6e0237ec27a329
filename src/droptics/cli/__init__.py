"""The door: `droptics demo | penalty | optimum | audit | complete | attack | verify | reproduce`."""

from droptics.cli.app import main

__all__ = ["main"]
