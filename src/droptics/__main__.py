"""`python -m droptics` is the command `droptics`."""

from droptics.cli import main

if __name__ == "__main__":
    main()
