"""Launch runs that did not finish once more, as they were launched, and only those asked for."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, cast

from embedexp.config.errors import UserError, nearest
from embedexp.runs import FailureKind, State
from embedexp.runs.view import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedexp.runs.view import View

    from .outcome import Outcome

LAUNCHERS = ("local", "slurm")
REASONS: dict[str, State | FailureKind | str] = {
    "failed": State.FAILED,
    "timeout": FailureKind.TIMEOUT,
    "killed": FailureKind.KILLED,
    "out-of-memory": FailureKind.OUT_OF_MEMORY,
    "nan": FailureKind.NAN,
    "error": FailureKind.ERROR,
    "cancelled": State.CANCELLED,
    "interrupted": INTERRUPTED,
    "preempted": State.PREEMPTED,
    "skipped": State.SKIPPED,
}
"""What `--only` may name: states, and for failed runs the kind of failure."""

# What was stopped on purpose is not started again unless asked for.
_UNLESS_TOLD = (State.FAILED, INTERRUPTED, State.PREEMPTED, State.SKIPPED)
_OVERRIDE = re.compile(r"\+{0,2}hydra\.launcher\.([\w.]+)=(.*)", re.S)
_CHOICE = re.compile(r"hydra/launcher=(.*)")


@dataclass(frozen=True)
class Changes:
    """What a retry does otherwise than the launch before: the launcher, and settings of it."""

    launcher: Literal["local", "slurm"] | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Group:
    """Runs that are launched together: by one launcher, with the same settings."""

    launcher: Literal["local", "slurm"]
    settings: dict[str, Any]
    views: list[View]


def reasons(words: Sequence[str]) -> list[str]:
    """The reasons in `words` ("timeout", "failed,cancelled").

    Raises:
        UserError: one of them is none.
    """
    found = [part for word in words for part in re.split(r"[,|]", word) if part]
    for part in found:
        if part not in REASONS:
            best = nearest(part, REASONS)
            raise UserError(
                f"--only {part}: no run ends so" + (f"; did you mean {best}?" if best else ""),
                hint=f"one or more of {','.join(REASONS)}",
            )
    return found


def retryable(views: Sequence[View], only: Sequence[str], *, named: bool) -> list[View]:
    """Those of `views` that ended for one of the reasons `only`, and that nobody runs.

    Without `only`: all that did not finish, but cancelled ones only when `named` alone.
    """
    if only:
        wanted = {REASONS[word] for word in only}
        return [item for item in views if item.state in wanted or item.kind in wanted]
    states = (*_UNLESS_TOLD, State.CANCELLED) if named else _UNLESS_TOLD
    return [item for item in views if item.state in states]


def changes(overrides: Sequence[str]) -> Changes:
    """What `hydra.launcher.KEY=VALUE` and `hydra/launcher=NAME` ask to be done otherwise.

    Raises:
        UserError: an override is of another kind; a run's own config is frozen.
    """
    import yaml

    launcher: Literal["local", "slurm"] | None = None
    settings: dict[str, Any] = {}
    for override in overrides:
        choice, match = _CHOICE.fullmatch(override), _OVERRIDE.fullmatch(override)
        if choice is not None:
            if choice[1] not in LAUNCHERS:
                raise UserError(f"there is no launcher {choice[1]!r}", hint="local or slurm")
            launcher = cast("Literal['local', 'slurm']", choice[1])
            continue
        if match is None:
            raise UserError(
                f"{override} can't change a run that is frozen",
                hint="retry takes hydra.launcher.KEY=VALUE; "
                "other settings make another run: start that",
            )
        *above, key = match[1].split(".")
        place = settings
        for name in above:
            place = place.setdefault(name, {})
        try:
            place[key] = yaml.safe_load(match[2])
        except yaml.YAMLError:
            raise UserError(f"{override}: the value can't be read") from None
    return Changes(launcher, settings)


def groups(views: Sequence[View], changed: Changes) -> list[Group]:
    """`views` by launcher and settings, SLURM's first, since submitting takes no time.

    Raises:
        UserError: a launcher has no such setting.
    """
    found: dict[tuple[str, str], Group] = {}
    for item in views:
        before = item.job.launcher if item.job is not None else "local"
        launcher = changed.launcher or before
        kept = item.job.settings if item.job is not None and before == launcher else {}
        settings = _merged({**_defaults(launcher), **kept}, changed.settings, launcher)
        # A cell belongs to the multirun that it was launched in, and is launched in it again.
        multirun = item.job.multirun if item.job is not None else None
        key = (launcher, json.dumps([multirun, settings], sort_keys=True, default=str))
        found.setdefault(key, Group(launcher, settings, [])).views.append(item)
    return sorted(found.values(), key=lambda group: group.launcher != "slurm")


def launch(group: Group) -> list[Outcome]:
    """Launch the runs of `group`; returns how each stands, in order.

    Raises:
        UserError: the launcher refuses; none of the group was started.
    """
    runs = [item.run for item in group.views]
    labels = [item.label or item.run.name for item in group.views]
    if group.launcher == "slurm":
        from .slurm import launch_frozen as submit

        return submit(runs, labels, group.settings)
    from .local import launch_frozen

    return launch_frozen(runs, labels, group.settings)


def launcher(changed: Changes) -> tuple[Literal["local", "slurm"], dict[str, Any]]:
    """The launcher that `changed` asks for, the local one if none, with all of its settings.

    Raises:
        UserError: it has no such setting.
    """
    name = changed.launcher or "local"
    return name, _merged(_defaults(name), changed.settings, name)


@cache
def _defaults(launcher: str) -> dict[str, Any]:
    import yaml

    from embedexp.config.locations import conf_dir

    file = conf_dir() / "hydra" / "launcher" / f"{launcher}.yaml"
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {key: value for key, value in content.items() if not key.startswith("_")}


def _merged(settings: dict[str, Any], given: dict[str, Any], launcher: str) -> dict[str, Any]:
    known = _defaults(launcher)
    for key in given:
        if key not in known:
            best = nearest(key, known)
            raise UserError(
                f"the launcher {launcher} has no setting {key!r}"
                + (f"; did you mean {best}?" if best else ""),
                hint="leave it out, or change the launcher: hydra/launcher=slurm"
                if launcher == "local"
                else f"see conf/hydra/launcher/{launcher}.yaml",
            )
    merged = dict(settings)
    for key, value in given.items():
        before = merged.get(key)
        both = isinstance(before, dict) and isinstance(value, dict)
        merged[key] = {**cast("dict[str, Any]", before), **value} if both else value
    return merged
