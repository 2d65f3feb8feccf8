"""The page of a sweep as a report of Weights & Biases: its table, and panels over its runs.

Runs that are tracked have their signature as W&B's run id, by which the report chooses them.
"""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError, shorten
from embedexp.runs.text import plain

from .formats import markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedexp.config import Config

    from .planning import PlannedRun, SweepPlan
    from .table import Table

LONGEST_TITLE = 128  # characters, as W&B has it
STEP = "trainer/global_step"
_COLOURS = ("#1f5fa8", "#b8651b", "#2f7d4f", "#7a4fa3", "#b3402a", "#0f7c86", "#7a5c2e", "#b03a7a")
_CURVES = {
    "Loss": "loss",
    "Gradient norm": "gradient_norm",
    "Busiest expert's share of the tokens": "router/max_load",
    "Idlest expert's share of the tokens": "router/min_load",
    "Hardness of negatives": "negatives/hardness",
}


def specification(plan: SweepPlan, made: Table) -> dict[str, Any]:
    """The report as W&B stores it; made without asking W&B.

    Raises:
        UserError: no run is tracked by W&B, or its package is not installed.
    """
    report = _report(plan, made, online=False)
    found: dict[str, Any] = json.loads(
        report._to_model().model_dump_json(by_alias=True, exclude_none=True)
    )
    return found


def publish(plan: SweepPlan, made: Table) -> str:
    """Save the report as a draft in the project of the sweep's runs; returns its address.

    Raises:
        UserError: no run is tracked by W&B, its package is not installed, or W&B refuses.
    """
    try:
        report = _report(plan, made, online=True)
        report.save(draft=True)
        return str(report.url)
    except UserError:
        raise
    except Exception as error:  # of wandb, requests, and their own subclasses
        told = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"W&B has not taken the report: {shorten(told[0], 200)}",
            hint="log in (wandb login) and send offline runs (wandb sync), or write it: --to FILE",
        ) from None


def tracked(plan: SweepPlan) -> list[PlannedRun]:
    """The shown runs that W&B has, or will have, each once."""
    shown = {run.config.signature: run for _, run in plan.cells}
    return [run for run in shown.values() if run.config.tracking.name == "wandb"]


def _place(runs: Sequence[PlannedRun]) -> tuple[str, str | None]:
    """Project and entity, which all runs of a report share."""
    if not runs:
        raise UserError(
            "no run of this sweep is tracked by W&B, so that a report has nothing to show",
            hint="tracking=wandb",
        )
    places = {(_option(run.config).project, _option(run.config).entity) for run in runs}
    if len(places) > 1:
        raise UserError(
            f"the runs lie in {len(places)} projects of W&B; a report shows those of one",
            hint="set the same tracking.project and tracking.entity for all",
        )
    project, entity = places.pop()
    return str(project), None if entity is None else str(entity)


def _option(config: Config) -> Any:
    return config.tracking


def _report(plan: SweepPlan, made: Table, *, online: bool) -> Any:
    runs = tracked(plan)
    project, entity = _place(runs)
    wr, expr = _package()
    # Without a name given, W&B would be asked who is logged in.
    known = {} if online and entity is None else {"entity": entity or ""}
    report = wr.Report(
        project=project,
        title=plain(made.title)[:LONGEST_TITLE],
        description=plain(made.question),
        width="fluid",
        **known,
    )
    colours = dict(zip(dict.fromkeys(cell.row for cell, _ in plan.cells), _cycled(), strict=False))
    settings = {
        run.config.signature: wr.RunSettings(color=colours[cell.row])
        for cell, run in plan.cells
        if run in runs
    }
    # The runset's own project is looked up, so that it is named only where W&B can be asked.
    where = {"entity": report.entity, "project": project} if online else {}
    chosen = wr.Runset(
        name="Cells of the table",
        filters=expr.And(expr.Metric("ID").isin(list(settings))),
        run_settings=settings,
        **where,
    )
    report.blocks = [
        wr.MarkdownBlock(text=markdown(made)),
        wr.H2(text="Training and scores"),
        wr.PanelGrid(runsets=[chosen], panels=_panels(runs, wr)),
    ]
    return report


def _package() -> tuple[Any, Any]:
    """wandb-workspaces, without the warnings about its own use of pydantic."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            import wandb_workspaces.reports.v2 as wr
            from wandb_workspaces import expr
    except ImportError:
        raise UserError(
            "a W&B report needs the package wandb-workspaces",
            hint="pip install 'embedexp[wandb]'",
        ) from None
    return wr, expr


def _cycled() -> list[str]:
    """Colours for more rows than there are colours."""
    return [*_COLOURS] * 100


def _panels(runs: Sequence[PlannedRun], wr: Any) -> list[Any]:
    """Curves of what the runs record, and bars of their scores."""
    labels = {run.config.signature: plain(run.label) for run in runs}
    kept = [
        (title, metric)
        for title, metric in _CURVES.items()
        if any(_records(run.config, metric) for run in runs)
    ]
    panels: list[Any] = [
        wr.LinePlot(
            title=title,
            x=STEP,
            y=[metric],
            line_titles={f"{run}:{metric}": label for run, label in labels.items()},
            max_runs_to_show=len(runs),
            layout=_layout(position, wr),
        )
        for position, (title, metric) in enumerate(kept)
    ]
    bars = wr.BarPlot(
        title="Mean score after training",
        metrics=["scores/mean"],
        line_titles={f"{run}:scores/mean": label for run, label in labels.items()},
        max_runs_to_show=len(runs),
        max_bars_to_show=len(runs),
        layout=_layout(len(panels), wr),
    )
    return [*panels, bars]


def _layout(position: int, wr: Any) -> Any:
    """Two panels side by side on W&B's 24 columns."""
    return wr.Layout(x=12 * (position % 2), y=8 * (position // 2), w=12, h=8)


def _records(config: Config, metric: str) -> bool:
    """Whether a run's config lets it record this."""
    if "training" not in config.stage.uses:
        return False
    if metric.startswith("router/"):
        return "routing" in config.stage.uses and config.routing.name != "dense"
    if metric.startswith("negatives/"):
        return "negatives" in config.stage.uses and config.negatives.name == "dynamic"
    return True
