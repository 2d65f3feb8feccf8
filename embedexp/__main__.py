"""`python -m embedexp`, and the console script of the same name."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; returns the exit code."""
    from embedexp.cli import main as command_line

    return command_line(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
