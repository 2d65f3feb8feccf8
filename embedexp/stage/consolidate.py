"""A checkpoint, in however many shards, as one model directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.training import checkpoint
from embedexp.training.language_model import LanguageObjective

from . import building, language_model

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.runs import RunDirectory


def consolidate(
    run: RunDirectory, *, step: int | None = None, best: bool = False, to: Path | None = None
) -> Path:
    """Write the model of a checkpoint of `run` to the folder `to`, complete or not at all.

    `step` says which one, `best` takes the one with the lowest training loss; otherwise it is the
    newest. `to` is by default `model-step-<step>` in the run directory. The run itself may go on.

    Raises:
        UserError: there is no such checkpoint, or it can't be read, or `to` holds something else.
    """
    config, path = run.config, _chosen(run, step, best)
    to = to or run.path / f"model-{path.name}"
    trained = building.trained(config, path)
    if isinstance(trained, LanguageObjective):
        language_model.save(trained, to)
    else:
        trained.embedder.save(to)
    return to


def _chosen(run: RunDirectory, step: int | None, best: bool) -> Path:
    # Damaged ones are not put aside here: that is for whoever owns the run.
    there = [path for path in checkpoint.checkpoints(run.checkpoints) if checkpoint.is_whole(path)]
    if not there:
        finished = run.model.is_dir()
        raise UserError(
            f"{run.path} has no checkpoint",
            hint=f"it is finished: {run.model}" if finished else "it saves them as it trains",
        )
    if step is not None:
        of_step = {checkpoint.step_of(path): path for path in there}
        if step not in of_step:
            raise UserError(
                f"{run.path} has no checkpoint of step {step}",
                hint=f"there are: {', '.join(map(str, of_step))}",
            )
        return of_step[step]
    if not best:
        return there[-1]
    ranked = [path for path in checkpoint.best_of(run.checkpoints, len(there)) if path in there]
    if not ranked:
        raise UserError(
            f"no checkpoint in {run.path} says its loss", hint="take one by its step, or the newest"
        )
    return ranked[0]
