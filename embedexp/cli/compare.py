"""`compare`: finished runs side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError
from embedexp.evaluation import comparison
from embedexp.runs.text import markup

from . import OK
from .commands import default_runs, run_parser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from embedexp.evaluation.comparison import Measured, Standing
    from embedexp.evaluation.paired import Paired
    from embedexp.runs import RunDirectory

BREAKDOWNS = (comparison.FAMILY, comparison.RESOURCES)


def compare(arguments: Sequence[str]) -> int:
    """Print ranks, means, differences from the first run, and breakdowns by language."""
    from embedexp.runs.registry import resolve
    from embedexp.runs.tables import console

    parser = run_parser("compare")
    parser.add_argument("run", nargs="+")
    parser.add_argument("--different", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_intermixed_args(list(arguments))
    if given.json is not None and not given.json.absolute().parent.is_dir():
        raise UserError(f"no folder {given.json.parent}", hint="make it, or name another --json")
    runs = [resolve(text, given.runs or default_runs()) for text in given.run]
    models = _measured(runs)
    unlike = comparison.differences(models)
    if not given.different:
        comparison.require_same(models)
    standings = comparison.standings(models)
    pairs = {model.name: comparison.against(models[0], model) for model in models[1:]}
    groups = {by: comparison.breakdowns(models, by) for by in BREAKDOWNS}

    out = console()
    for key, mine, theirs in unlike:
        out.print(markup(f"measured differently: {key} is {mine} and {theirs}"), soft_wrap=True)
    out.print(_standings(models, standings))
    out.print(_paired(models[0].name, pairs))
    for by, found in groups.items():
        if len(found) > 1:
            out.print(_breakdown(by, [model.name for model in models], found))
    if given.json is not None:
        content = {
            "measured_differently": [list(each) for each in unlike],
            "standings": [vars(standing) for standing in standings],
            "reference": models[0].name,
            "differences": {n: [p.to_dict() for p in found] for n, found in pairs.items()},
            "breakdowns": groups,
        }
        given.json.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
        out.print(markup(f"written to {given.json}"), soft_wrap=True)
    return OK


def _measured(runs: Sequence[RunDirectory]) -> list[Measured]:
    """The scores of at least two runs, each named by as much as tells it apart."""
    from embedexp.evaluation.scores import ScoreFile

    if len({run.path.resolve() for run in runs}) < max(2, len(runs)):
        raise UserError("compare needs at least two runs, each once", hint="name another run")
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        names = [str(run.path) for run in runs]
    found = []
    for name, run in zip(names, runs, strict=True):
        file = ScoreFile(run.evaluation)
        scores = file.read("after")
        if not scores:
            raise UserError(
                f"{run.path} has no scores; it is {run.status.state.value}",
                hint=f"measure it: python -m embedexp stage=evaluate stage.model={run.path}",
            )
        found.append(comparison.Measured(name, scores, file.settings))
    return found


def _table(title: str, *headings: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE, title_justify="left")
    for position, heading in enumerate(headings):
        table.add_column(markup(heading), overflow="fold", justify="right" if position else "left")
    return table


def _standings(models: Sequence[Measured], standings: Sequence[Standing]) -> Table:
    tasks = {score.task for model in models for score in model.scores}
    types = list(standings[0].types)
    table = _table(
        f"{len(models)} models on {len(tasks)} tasks (Borda votes hold inside this set)",
        *("model", "rank", "votes", "mean (task)", "mean (type)", *types),
    )
    for found in standings:
        means = (found.mean_task, found.mean_type, *(found.types[kind] for kind in types))
        table.add_row(
            markup(found.model), str(found.rank), f"{found.votes:g}", *map(_figure, means)
        )
    return table


def _paired(reference: str, pairs: dict[str, list[Paired]]) -> Table:
    table = _table(
        f"Difference from {reference}, paired, with 95% intervals over the units",
        *(
            "model",
            "unit",
            "units",
            "difference",
            "Student",
            "p",
            "bootstrap",
            "better/equal/worse",
        ),
    )
    for name, found in pairs.items():
        if not found:
            table.add_row(markup(name), "no task in common", *[""] * 6)
        for each in found:
            table.add_row(
                markup(name),
                each.unit,
                str(each.n),
                f"{each.mean:+.4f}",
                _interval(each.low, each.high),
                "-" if each.p_value is None else f"{each.p_value:.3g}",
                _interval(each.bootstrap_low, each.bootstrap_high),
                f"{each.better}/{each.equal}/{each.worse}",
            )
    return table


def _breakdown(by: str, names: Sequence[str], groups: dict[str, Any]) -> Table:
    table = _table(f"Mean by {by} of the language", by, "languages", *names)
    table.caption = "languages have different tasks: compare models in a row, not rows"
    table.caption_justify = "left"
    for group, (count, means) in groups.items():
        table.add_row(markup(group), str(count), *(_figure(means[name]) for name in names))
    return table


def _interval(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:+.4f} to {high:+.4f}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
