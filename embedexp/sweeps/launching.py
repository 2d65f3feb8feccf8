"""Run what is missing of a sweep, here or on a cluster; what was finished before stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from embedexp.launch.retry import changes, launcher
from embedexp.runs import State
from embedexp.runs.text import duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from embedexp.launch.outcome import Outcome

    from .planning import SweepPlan


def launcher_of(
    typed: Sequence[str],
) -> tuple[Literal["local", "slurm"], dict[str, Any], list[str]]:
    """The launcher that a command line asks for, its settings, and the other overrides.

    Raises:
        UserError: there is no such launcher or setting.
    """
    about = [
        text for text in typed if text.lstrip("+").startswith(("hydra/launcher", "hydra.launcher"))
    ]
    name, settings = launcher(changes(about))
    return name, settings, [text for text in typed if text not in about]


def launch(
    plan: SweepPlan, file: Path, name: Literal["local", "slurm"], settings: dict[str, Any]
) -> list[Outcome]:
    """Launch what has not finished; the outcomes of all runs, in the plan's order.

    Raises:
        UserError: a setting is wrong, or the launcher refuses; nothing was started.
        KeyboardInterrupt: stopped by Ctrl-C or SIGTERM.
    """
    source = str(file.resolve())
    if name == "slurm":
        from embedexp.launch import slurm

        return slurm.launch_plan(plan.freeze(slurm.room_check(settings)), settings, source)
    from embedexp.launch import local

    return local.launch_plan(plan.freeze(), settings, source)


def description(plan: SweepPlan, processes: int) -> list[str]:
    """What the sweep will do, in lines: cells, runs to do, shared ones, and about how long."""
    to_run, places = plan.to_run, {(cell.row, cell.column) for cell, _ in plan.cells}
    seeds = sorted({cell.seed for cell, _ in plan.cells})
    lines = [
        f"{_count(len(places), 'cell')}, each with {_count(len(seeds), 'seed')} "
        f"({', '.join(map(str, seeds))}): {_count(len(plan.runs), 'run')}, "
        f"{len(plan.runs) - len(to_run)} finished, {len(to_run)} to run"
    ]
    if plan.shared:
        lines.append(f"{_count(len(plan.shared), 'run')} shared by several cells, run once")
    seconds = estimated_seconds(plan, processes)
    if to_run:
        known = f"about {duration(seconds)}" if seconds is not None else "unknown before the first"
        lines.append(f"time: {known}, {processes} at a time")
    width = max((len(run.label) for run in plan.runs), default=0)
    for run in plan.runs:
        status = run.directory.status
        state = status.shown if run.directory.config_file.exists() else "to run"
        lines.append(f"  {run.label:<{width}}   {state:<9} {run.config.run_name}")
    return lines


def estimated_seconds(plan: SweepPlan, processes: int) -> float | None:
    """Seconds that the missing runs will take, judged by finished ones of the same stage."""
    by_stage: dict[str, list[float]] = {}
    for run in plan.runs:
        status = run.directory.status
        if status.state is State.FINISHED and status.seconds:
            by_stage.setdefault(run.stage, []).append(status.seconds)
    total = 0.0
    for run in plan.to_run:
        known = by_stage.get(run.stage)
        if known is None:
            return None
        total += sum(known) / len(known)
    return total / max(1, processes)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
