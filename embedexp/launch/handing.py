"""Hand a run over to a launcher: on record, and queued, before anything is started."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.runs import State
from embedexp.runs.job import write_job

if TYPE_CHECKING:
    from embedexp.runs import RunDirectory
    from embedexp.runs.job import Job


class Taken(str):
    """Why a run can't be handed over: somebody else has it, or has finished it."""


def hand_over(run: RunDirectory, job: Job) -> str | None:
    """Record that `job` will carry `run` out, and queue it; returns why that is impossible, if so.

    A job without an id says that its submission has begun: should the launcher die now, the run
    does not look as if somebody had it.
    """
    try:
        with run.owned():
            if run.status.state is State.FINISHED:
                return Taken("another process has finished it meanwhile")
            run.forget_cancel()
            previous = run.job
            if job.multirun is None and previous is not None:
                job = dataclasses.replace(job, multirun=previous.multirun)
            write_job(run.job_file, job)
            run.queue()
    except UserError as held:
        return Taken(held)
    except OSError as error:
        return str(error)
    return None


def give_back(run: RunDirectory, message: str) -> None:
    """Say that a run could not be started; its launcher and settings stay on record."""
    try:
        with run.owned():
            run.fail(message)
    except UserError:
        # Somebody else runs it by now: the status is theirs to write.
        return
