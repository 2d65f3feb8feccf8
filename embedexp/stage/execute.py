"""Runs a config: reuses what is finished, resumes what is not, and writes down what happens."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from embedexp.config.options import implementation
from embedexp.config.resources import resources
from embedexp.runs import Run, RunDirectory, State
from embedexp.runs.log import recording
from embedexp.training import tracking
from embedexp.training.interrupt import InterruptedRunError, StopRequest
from embedexp.training.world import World

from . import ranks
from .preflight import preflight
from .screen import Screen
from .telling import telling

if TYPE_CHECKING:
    from embedexp.config import Config

log = logging.getLogger(__name__)


def run(config: Config, *, quiet: bool = False) -> Run:
    """Execute `config`, resume it where it stopped, or reuse its finished run.

    Raises:
        UserError: a mistake in what the config asks for, or another process runs it.
        InterruptedRunError: a signal asked the run to stop; the same call goes on from there.
    """
    world = World.of_environment()
    if not world.first:
        return _follow(config, world)
    directory = RunDirectory.of(config)
    directory.freeze(config)
    screen = Screen(quiet=quiet)
    with directory.owned(), directory.recording():
        if config.rerun and directory.status.state is State.FINISHED:
            directory.clear()
        if directory.status.state is not State.FINISHED:
            _execute(config, directory, screen)
        else:
            if not quiet:
                screen.say(f"{directory.name} is finished; rerun=true repeats it.")
            _tell_sweep(config, directory)
    finished = Run(directory)
    if not quiet:
        _report(finished, screen)
    return finished


def _tell_sweep(config: Config, directory: RunDirectory) -> None:
    """Tell a W&B sweep whose agent has asked for a finished run what it had come to."""
    if config.tracking.name == "none" or not tracking.of_sweep():
        return
    from embedexp.evaluation import ScoreFile

    from .evaluate import summary

    losses = [line["loss"] for line in directory.metrics.read() if "loss" in line]
    values = summary(ScoreFile(directory.evaluation).read("after"))
    tracker = tracking.start(config, directory.path)
    # What a run has logged while it trained counts as well: the sweep may minimise the loss.
    tracker.summary({**values, "loss": losses[-1]} if losses else values)
    tracker.close()


def _execute(config: Config, directory: RunDirectory, screen: Screen) -> None:
    from embedexp.config.show import brief
    from embedexp.config.sign import data_fingerprint

    # Before the heavy imports: a mistake is seen, and can be stopped, in the first second.
    screen.say(brief(config))
    for warning in config.warnings:  # on the screen with the rest of the brief already
        log.warning("%s", warning)
    fingerprint = data_fingerprint(config)
    directory.start(config.stage.name, seed=config.seed)
    stop = StopRequest(config.compute.time_limit)
    directory.when_cancelled(lambda: stop.ask("a request to cancel"))
    try:
        with (
            stop.listening(),
            telling(screen),
            ranks.together(config, directory) as (world, listening),
        ):
            if "training" in config.stage.uses:
                tracking.import_early(config)
            # Imported first: devices and thread counts are known once torch is loaded.
            stage = implementation("stage", config.stage.name)
            stop.check()
            preflight(config, directory)
            directory.record_environment(seed=config.seed, data_fingerprint=fingerprint)
            with world.met(gpu=resources(config.compute).gpu, listening=listening) as met:
                stage.run(config, directory, stop, screen, met)
    except InterruptedRunError as interruption:
        end = directory.cancel if directory.cancel_requested else directory.preempt
        end(f"stopped by {interruption}")
        log.info("stopped by %s", interruption)
        raise
    except BaseException as error:
        cause = ranks.cause(config, directory, error)
        if directory.cancel_requested:  # what breaks on the way out is no failure
            directory.cancel(f"cancelled: {cause}")
        elif isinstance(cause, ranks.RankFailedError):
            directory.fail(str(cause), cause.failure.kind, trace=cause.failure.traceback)
        else:
            directory.fail(cause)
        log.error("failed", exc_info=cause)
        if cause is not error:
            raise cause from error
        raise
    _leave_card(directory)
    directory.finish()


def _leave_card(directory: RunDirectory) -> None:
    from . import card

    card.leave(directory)


def _follow(config: Config, world: World) -> Run:
    """The work of a rank after the first, which alone writes and speaks."""
    directory = ranks.Follower.of(config)
    stop = StopRequest(config.compute.time_limit)
    with recording(directory.log_of(world.rank)), stop.listening():
        stage = implementation("stage", config.stage.name)
        with (
            world.met(gpu=resources(config.compute).gpu) as met,
            ranks.following(directory, world.rank),
        ):
            stage.run(config, directory, stop, Screen(quiet=True), met)
    return Run(directory)


def _report(run: Run, screen: Screen) -> None:
    """Scores, what analyses found, and where everything is."""
    from embedexp.evaluation import ScoreFile, analysis, table

    scores, uses = ScoreFile(run.directory.evaluation), run.config.stage.uses
    before, after = scores.read("before"), scores.read("after")
    if after:
        screen.say()
        screen.show(table(before, after))
    for report in analysis.read(run.directory.analysis):
        screen.say()
        screen.show(analysis.table(report))
        screen.say(f"figures  {run.directory.analysis / report.name}.json, and .png")
    screen.say()
    screen.say(f"run      {run.path}")
    if run.directory.model.is_dir():
        screen.say(f"model    {run.directory.model}  (SentenceTransformer loads it)")
    elif "training" in uses or "merge" in uses:
        screen.say("model    deleted; rerun=true makes it again")
    plot = run.path / "plot.png"
    if plot.is_file():
        screen.say(f"plot     {plot}")
    if "evaluation" in uses:
        screen.say(f"next     python -m embedexp results {run.path}")
    if "evaluation" in uses and "routing" in uses:
        screen.say(f"         python -m embedexp diff {run.path} routing=mote")
