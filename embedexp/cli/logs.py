"""A run's log on the screen, as it is or as it grows."""

from __future__ import annotations

import sys
import time
from typing import IO

from embedexp.runs import RunDirectory, State
from embedexp.runs.text import plain

POLL_SECONDS = 0.3
# States from which nothing more is written unless someone acts.
_AT_REST = {"finished", "failed", "cancelled", "preempted", "interrupted"}


def follow(run: RunDirectory, *, wait: bool, out: IO[str] | None = None) -> None:
    """Print the log of `run`; with `wait`, go on until the run has ended."""
    out = out if out is not None else sys.stdout
    position = 0
    while True:
        # Asked before reading, so that what was written before the end is printed too.
        resting = not wait or run.status.shown in _AT_REST
        position = _print_from(run, position, out)
        if resting:
            break
        time.sleep(POLL_SECONDS)
    status = run.status
    if position == 0:
        print(f"{run.path} has logged nothing yet; it is {status.shown}", file=out)
    elif wait and status.state is not State.FINISHED:
        print(plain(f"{run.path} is {status.shown}"), file=out)


def _print_from(run: RunDirectory, position: int, out: IO[str]) -> int:
    try:
        with run.log_file.open("rb") as log:
            size = log.seek(0, 2)
            log.seek(position if position <= size else 0)  # a repeated run begins a new log
            content = log.read()
            end = log.tell()
    except FileNotFoundError:
        return 0
    out.write(plain(content.decode("utf-8", errors="replace").replace("\r\n", "\n")))
    out.flush()
    return end
