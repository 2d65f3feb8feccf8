"""The command line: a bare first word is a command, everything else is Hydra's grammar.

Exit codes: 0 all is well, 1 a run failed, 2 a mistake of the user, 130 interrupted.
"""

from __future__ import annotations

import io
import os
import re
import sys
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

OK, RUN_FAILED, USER_ERROR, INTERRUPTED = 0, 1, 2, 130

_BARE_WORD = re.compile(r"[^-+~=][^=]*")


def main(arguments: Sequence[str]) -> int:
    """Carry out one command line; returns the exit code and raises nothing that a user causes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal or pipe that knows few characters shows the others as escapes.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _dispatch(list(arguments))
        sys.stdout.flush()
        return code
    except UserError as error:
        from embedexp.runs.text import plain

        print(plain(str(error)), file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough; keep Python from failing once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


def _dispatch(arguments: list[str]) -> int:
    if arguments and _BARE_WORD.fullmatch(arguments[0]):
        from .commands import run_command

        return run_command(arguments[0], arguments[1:])
    from .experiments import run_experiments

    return run_experiments(arguments)
