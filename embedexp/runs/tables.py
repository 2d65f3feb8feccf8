"""Runs in a terminal: the table of many, and one in words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .status import FailureKind, State, Status
from .text import duration, markup, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from .view import View

STYLES = {
    "planned": "dim",
    "queued": "cyan",
    "running": "bold cyan",
    "preempted": "yellow",
    "interrupted": "yellow",
    "finished": "green",
    "failed": "bold red",
    "cancelled": "magenta",
    "skipped": "yellow",
}
# Wide enough that nothing is folded where output goes to a file or another program.
_FILE_WIDTH = 200
_TRACE_LINES = 8


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


def runs_table(views: Sequence[View], width: int | None = None) -> str:
    """One line a run, as rich markup: state, progress, rate, time, job and what to know about it.

    Laid out by hand: a general table takes several milliseconds a row, and there may be thousands.
    `width` cuts long lines; None leaves them whole.
    """
    columns = [("cell", str.ljust)] if any(item.label for item in views) else []
    columns += [("run", str.ljust), ("state", str.ljust)]
    columns += [(heading, str.rjust) for heading in ("step", "samples/s", "time", "left")]
    columns += [("job", str.ljust)] if any(item.job is not None for item in views) else []
    columns += [("", str.ljust)]
    rows = [_row(item) for item in views]
    names = [name for name, _ in columns]
    widths = [max([len(name), *(len(row[name]) for row in rows)]) for name in names]
    header = "  ".join(
        align(name, size) for (name, align), size in zip(columns, widths, strict=True)
    )
    lines = [f"[bold]{header.rstrip()[:width]}[/]"]
    for row in rows:
        cells = [
            align(row[name], size) for (name, align), size in zip(columns, widths, strict=True)
        ]
        line = "  ".join(cells).rstrip()[:width]
        start = line.find(row["state"], sum(widths[: names.index("state")]))
        end = start + len(row["state"])
        parts = (line[:start], styled(line[start:end]), line[end:])
        lines.append(markup(parts[0]) + parts[1] + markup(parts[2]))
    return "\n".join(lines)


def counts(views: Iterable[View]) -> str:
    """How many runs are in which state, in one line; failed ones by kind."""
    kinds = Counter(
        f"{item.state} ({item.kind})" if item.kind not in (None, FailureKind.ERROR) else item.state
        for item in views
    )
    return ", ".join(f"{count} {state}" for state, count in kinds.most_common())


def _row(item: View) -> dict[str, str]:
    status = item.status
    return {
        "cell": plain(item.label),
        "run": plain(item.run.name),
        "state": item.state,
        "step": progress(status),
        "samples/s": f"{status.rate:.1f}" if status.rate is not None else "-",
        "time": duration(status.seconds if status.started else None),
        "left": duration(status.eta_seconds) if item.state == State.RUNNING else "-",
        "job": item.job.shown if item.job is not None else "-",
        "": plain(item.remark),
    }


def describe(item: View) -> str:
    """One run in words, as rich markup: where it stands, where its files are, what to do next."""
    run, status, job = item.run, item.status, item.job
    alive = status.state is State.RUNNING and status.silence is not None
    kind = f" ({item.kind})" if item.kind not in (None, FailureKind.ERROR) else ""
    lines = {
        "run": markup(run.path),
        "cell": markup(item.label),
        "state": styled(item.state) + kind,
        "stage": markup(status.stage) if status.stage else "",
        "step": progress(status),
        "rate": f"{status.rate:.1f} samples/s" if status.rate is not None else "",
        "time": duration(status.seconds if status.started else None),
        "left": duration(status.eta_seconds) if item.state == State.RUNNING else "",
        "job": markup(f"{job.shown}, from {job.host} at {job.submitted}") if job else "",
        "multirun": markup(job.multirun) if job and job.multirun else "",
        "process": markup(f"{status.pid} on {status.host}") if status.pid else "",
        "nodes": markup(status.nodes or ""),
        "restarts": str(status.starts - 1) if status.starts > 1 else "",
        "sign of life": f"{duration(status.silence)} ago" if alive else "",
        "started": markup(status.started or ""),
        "ended": markup(status.finished or ""),
        "remark": markup(item.remark),
    }
    rows = [(key, value) for key, value in lines.items() if value not in ("", "-")]
    rows += [("log", markup(path)) for path in run.logs]
    if job and job.log and job.launcher == "slurm":
        rows.append(("job's log", markup(job.log)))
    trace = [line for line in (status.traceback or "").splitlines() if line.strip()][-_TRACE_LINES:]
    rows += [("traceback" if not row else "", markup(line)) for row, line in enumerate(trace)]
    rows += [("next" if not row else "", markup(line)) for row, line in enumerate(_next(item))]
    width = max(len(key) for key, _ in rows) + 2
    return "\n".join(f"[dim]{key:<{width}}[/]{value}" for key, value in rows)


def _next(item: View) -> list[str]:
    """The commands that a user most likely wants next."""
    path = item.run.path
    if item.state == State.FINISHED:
        return [f"python -m embedexp results {path}"]
    if item.active:
        return [f"python -m embedexp logs {path} -f", f"python -m embedexp cancel {path}"]
    if item.state == State.PLANNED:
        return [f"python -m embedexp resume {path}"]
    commands = [f"python -m embedexp retry {path}"]
    if item.kind is FailureKind.TIMEOUT and item.job is not None and item.job.launcher == "slurm":
        minutes = item.job.settings.get("time")
        longer = minutes * 2 if isinstance(minutes, int) else "MINUTES"
        commands = [f"{commands[0]} hydra.launcher.time={longer}"]
    return [*commands, f"python -m embedexp logs {path}"]
