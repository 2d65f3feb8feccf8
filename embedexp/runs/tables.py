"""Runs in a terminal: the table of many, and one in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .status import FailureKind, State, Status
from .text import duration, markup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.table import Table

    from .directory import RunDirectory

STYLES = {
    "planned": "dim",
    "queued": "cyan",
    "running": "bold cyan",
    "preempted": "yellow",
    "interrupted": "yellow",
    "finished": "green",
    "failed": "bold red",
    "cancelled": "magenta",
}
# Wide enough that nothing is folded where output goes to a file or another program.
_FILE_WIDTH = 200


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or wide enough for whole rows where there is none."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal:
        made.width = _FILE_WIDTH
    return made


def styled(state: str) -> str:
    """The state in its colour."""
    return f"[{STYLES.get(state, '')}]{state}[/]" if state in STYLES else markup(state)


def progress(status: Status) -> str:
    """Steps done of all, "-" before anything is known."""
    if status.total_steps is None:
        return str(status.step) if status.step else "-"
    return f"{status.step}/{status.total_steps}"


def remark(status: Status) -> str:
    """What else there is to know in a few words: the failure, the message, or the silence."""
    if status.failure is not None:
        kind = "" if status.failure is FailureKind.ERROR else status.failure.value
        first = (status.message or "").splitlines()
        return ": ".join(part for part in (kind, first[0] if first else "") if part)
    if status.state is State.RUNNING and status.silence is not None and status.silence > 60:
        return f"no sign of life for {duration(status.silence)}"
    return status.message or ""


def runs_table(runs: Iterable[RunDirectory]) -> Table:
    """One row a run: state, progress, rate, time and what to know about it."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("run", overflow="fold")
    table.add_column("state", no_wrap=True)
    for heading in ("step", "samples/s", "time", "left"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for run in runs:
        status = run.status
        running = status.shown == State.RUNNING
        table.add_row(
            markup(run.name),
            styled(status.shown),
            progress(status),
            f"{status.rate:.1f}" if status.rate is not None else "-",
            duration(status.seconds if status.started else None),
            duration(status.eta_seconds) if running else "-",
            markup(remark(status)),
        )
    return table


def describe(run: RunDirectory) -> str:
    """One run in words, as rich markup: where it stands, where its files are, what to do next."""
    status = run.status
    alive = status.state is State.RUNNING and status.silence is not None
    lines = {
        "run": markup(run.path),
        "state": styled(status.shown),
        "stage": markup(status.stage) if status.stage else "",
        "step": progress(status),
        "rate": f"{status.rate:.1f} samples/s" if status.rate is not None else "",
        "time": duration(status.seconds if status.started else None),
        "left": duration(status.eta_seconds) if status.shown == State.RUNNING else "",
        "process": markup(f"{status.pid} on {status.host}") if status.pid else "",
        "sign of life": f"{duration(status.silence)} ago" if alive else "",
        "started": markup(status.started or ""),
        "ended": markup(status.finished or ""),
        "remark": markup(remark(status)),
        "log": markup(run.log_file) if run.log_file.exists() else "",
        "next": markup(next_command(run, status)),
    }
    shown = {key: value for key, value in lines.items() if value not in ("", "-")}
    width = max(map(len, shown)) + 2
    return "\n".join(f"[dim]{key:<{width}}[/]{value}" for key, value in shown.items())


def next_command(run: RunDirectory, status: Status) -> str:
    """The command that a user most likely wants next."""
    if status.state is State.FINISHED:
        return f"python -m embedexp results {run.path}"
    if status.shown in (State.RUNNING, State.QUEUED):
        return f"python -m embedexp logs {run.path} -f"
    return f"python -m embedexp resume {run.path}"
