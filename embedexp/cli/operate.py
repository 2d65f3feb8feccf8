"""Operating runs, from any shell, day or node: how they stand, their logs, retry, cancel."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.launch.operate import Overview, look
from embedexp.launch.select import Selection, select, select_all
from embedexp.runs import State
from embedexp.runs.text import markup

from . import OK, RUN_FAILED
from .commands import default_runs, run_parser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from embedexp.runs.view import View


def status(arguments: Sequence[str]) -> int:
    """Show how runs stand: all of a folder or multirun in a table, a single one in words."""
    from embedexp.runs.tables import console

    parser = run_parser("status")
    parser.add_argument("run", nargs="*")
    given = parser.parse_intermixed_args(list(arguments))
    folder = given.runs or default_runs()
    out = console()
    selections = [select(text, folder) for text in given.run] or [select_all([], folder)]
    if not given.run and not selections[0].runs:
        out.print(markup(f"no runs in {folder}; start one: python -m embedexp"))
        return OK
    # Asked once for all, whatever they are asked with.
    overview = look(
        [run for part in selections for run in part.runs],
        {name: label for part in selections for name, label in part.labels.items()},
    )
    views = iter(overview.views)
    for position, part in enumerate(selections):
        if position:
            out.print()
        _show(out, part, [next(views) for _ in part.runs])
    _tell_problem(out, overview)
    return OK


def _show(out: Console, part: Selection, views: list[View]) -> None:
    from embedexp.runs.tables import counts, describe, runs_table

    if part.single:
        out.print(describe(_with_rank_failure(views[0])), soft_wrap=True)
        return
    if part.labels:
        out.print(markup(f"multirun {part.title}"))
    width = out.width if out.is_terminal else None
    out.print(runs_table(views, width), soft_wrap=True)
    if len(views) > 1:
        out.print(markup(f"{len(views)} runs: {counts(views)}"))


def _with_rank_failure(item: View) -> View:
    """`item`, with the traceback of another rank where the first has none."""
    from embedexp.runs.ranks import rank_failures

    if item.state != State.FAILED or item.status.traceback is not None:
        return item
    for failure in rank_failures(item.run.path, item.job.submitted if item.job else None)[:1]:
        return dataclasses.replace(
            item,
            status=dataclasses.replace(item.status, traceback=failure.traceback),
            remark=item.remark or f"rank {failure.rank}: {failure.message}",
        )
    return item


def logs(arguments: Sequence[str]) -> int:
    """Print a run's log, a rank's, or the scheduler's; follow it with -f."""
    from .logs import Source, follow

    parser = run_parser("logs")
    parser.add_argument("run")
    parser.add_argument("-f", "--follow", action="store_true")
    parser.add_argument("--rank", type=int, metavar="K")
    parser.add_argument("--job", action="store_true")
    given = parser.parse_intermixed_args(list(arguments))
    if given.job and given.rank is not None:
        raise UserError("--job and --rank exclude each other", hint="leave one of them out")
    selection = select(given.run, given.runs or default_runs())
    if not selection.single:
        names = ", ".join(run.name for run in selection.runs[:3])
        raise UserError(
            f"{given.run} means {len(selection.runs)} runs: {names}, ...", hint="name one of them"
        )
    run = selection.runs[0]
    follow(run, wait=given.follow, source=Source.of(run, rank=given.rank, job=given.job))
    return OK


def retry(arguments: Sequence[str]) -> int:
    """Launch runs again that did not finish; nothing to do is no failure."""
    from embedexp.launch.retry import changes, groups, launch, reasons, retryable
    from embedexp.runs.tables import console

    parser = run_parser("retry")
    parser.add_argument("--only", action="append", default=[], metavar="REASON")
    parser.add_argument("words", nargs="*")
    given = parser.parse_intermixed_args(list(arguments))
    changed = changes([word for word in given.words if "=" in word])
    only = reasons(given.only)
    texts = [word for word in given.words if "=" not in word]
    selection = select_all(texts, given.runs or default_runs())
    overview = look(selection.runs, selection.labels)
    out = console()
    _tell_problem(out, overview)
    views = retryable(overview.views, only, named=selection.single)
    if not views:
        out.print(markup(_nothing("retry", overview.views, only)), soft_wrap=True)
        return OK
    grouped = groups(views, changed)
    launched = [outcome for group in grouped for outcome in launch(group)]
    ordered = [item for group in grouped for item in group.views]
    after = look([item.run for item in ordered], selection.labels).views
    out.print(_retried(ordered, after))
    return RUN_FAILED if any(outcome.failed for outcome in launched) else OK


def _retried(before: Sequence[View], after: Sequence[View]) -> object:
    from rich.table import Table

    from embedexp.runs.tables import progress, styled

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("run", "was", "from step", "now", "job", ""):
        table.add_column(heading, overflow="fold")
    for old, new in zip(before, after, strict=True):
        kind = f": {old.kind}" if old.kind else ""
        table.add_row(
            markup(old.label or old.run.name),
            styled(old.state) + kind,
            progress(old.status),
            styled(new.state),
            markup(new.job.shown if new.job else "-"),
            markup(new.remark),
        )
    return table


def cancel(arguments: Sequence[str]) -> int:
    """Stop runs for good: waiting ones at once, running ones after they have saved."""
    from embedexp.launch.cancel import cancel as carry_out
    from embedexp.launch.cancel import cancellable
    from embedexp.runs.tables import console

    parser = run_parser("cancel")
    parser.add_argument("run", nargs="+")
    parser.add_argument("-y", "--yes", action="store_true")
    given = parser.parse_intermixed_args(list(arguments))
    selection = select_all(given.run, given.runs or default_runs())
    overview = look(selection.runs, selection.labels)
    out = console()
    _tell_problem(out, overview)
    views = cancellable(overview.views)
    if not views:
        out.print(markup(_nothing("cancel", overview.views, [])), soft_wrap=True)
        return OK
    if len(views) > 1 and not given.yes and sys.stdin.isatty():
        answer = input(f"cancel {len(views)} runs of {selection.title}? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            out.print("nothing was cancelled")
            return OK
    for item, told in zip(views, carry_out(views), strict=True):
        out.print(markup(f"{item.label or item.run.name}: {told}"), soft_wrap=True)
    return OK


def _nothing(verb: str, views: Sequence[View], only: Sequence[str]) -> str:
    from embedexp.runs.tables import counts

    if not views:
        return f"nothing to {verb}: there are no runs"
    reason = f" --only {','.join(only)}" if only else ""
    return f"nothing to {verb}{reason}: {counts(views)}"


def _tell_problem(out: Console, overview: Overview) -> None:
    if overview.problem is not None:
        told = f"SLURM did not answer ({overview.problem}): shown is what the runs have said"
        out.print(markup(told), soft_wrap=True, style="yellow")
