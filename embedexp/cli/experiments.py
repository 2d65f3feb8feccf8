"""Experiments from overrides: one run, a multirun, or a look at what would be run."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError

from . import INTERRUPTED, OK, RUN_FAILED
from .arguments import parse

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from hydra._internal.hydra import Hydra
    from omegaconf import DictConfig

    from embedexp.config import Config
    from embedexp.runs import Run


def run_experiments(arguments: Sequence[str]) -> int:
    """Carry out a command line of overrides and Hydra's flags; returns the exit code."""
    given = parse(arguments)
    if given.help:
        from .help import overview

        print(overview(given.config_dir))
        return OK
    if given.version:
        from embedexp import __version__

        print(f"embedexp {__version__}")
        return OK
    if given.cfg is not None:
        return _print_config(given)
    if given.info is not None or given.hydra_help or given.shell_completion:
        return _hydra_information(given)
    if given.multirun:
        return _multirun(given.overrides, given.config_dir)
    from embedexp.config import compose

    return execute(compose(given.overrides, given.config_dir))


def execute(config: Config) -> int:
    """Run, resume or reuse the experiment; returns the exit code.

    A failure is told in one line with the place of its traceback.
    """
    import embedexp
    from embedexp.runs import FailureKind, RunDirectory, State, failure_kind
    from embedexp.runs.text import plain, redact
    from embedexp.training.interrupt import InterruptedRunError
    from embedexp.training.world import World

    try:
        run: Run = embedexp.run(config)
    except UserError:
        raise
    except InterruptedRunError as error:
        print(f"stopped ({error}); the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        directory = RunDirectory.of(config)
        if directory.path.is_dir() and directory.status.state is not State.FAILED:
            # It failed before or after the run itself, which keeps its own traceback.
            directory.log_traceback(error)
        kind = failure_kind(error)
        label = "failed" if kind is FailureKind.ERROR else f"failed ({kind.value})"
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        summary = redact(f"{directory.path} {label}: {type(error).__name__}: {first}")
        print(plain(summary), file=sys.stderr)
        print(plain(f"traceback: {directory.log_file}"), file=sys.stderr)
        return RUN_FAILED
    # A rank after the first has done its part, whatever the first one still has to do.
    return exit_code(run) if World.of_environment().first else OK


def exit_code(run: Run) -> int:
    """The exit code that the state of `run` stands for."""
    from embedexp.runs import State

    state = run.status.state
    if state is State.FINISHED:
        return OK
    return INTERRUPTED if state in (State.PREEMPTED, State.CANCELLED) else RUN_FAILED


def _print_config(given: argparse.Namespace) -> int:
    """Print the composed config as Hydra does, then say what is wrong with it, if anything."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf, open_dict

    from embedexp.config.compose import compose_raw, from_raw, published_values
    from embedexp.config.explain import presented

    with presented(given.overrides, given.config_dir):
        # Without its own node, Hydra composes in half the time.
        raw = compose_raw(given.overrides, given.config_dir, with_hydra=given.cfg != "job")
        if given.cfg != "job":  # Hydra's own node refers to itself through this.
            HydraConfig.instance().set_config(raw)
        shown = OmegaConf.masked_copy(raw, "hydra") if given.cfg == "hydra" else raw
        text = _as_yaml(shown, given.package, resolve=given.resolve)
    print(text, end="")
    if given.cfg == "hydra":
        return OK
    with presented(given.overrides, given.config_dir), open_dict(raw):
        raw.pop("hydra", None)
        from_raw(raw, given.overrides, published_values(given.overrides, given.config_dir))
    return OK


def _as_yaml(config: DictConfig, package: str | None, *, resolve: bool) -> str:
    from omegaconf import Container, OmegaConf

    part: Any = config
    if package is not None and package != "_global_":
        part = OmegaConf.select(config, package)
        if part is None:
            raise UserError(
                f"the config has no part {package!r}",
                hint="see the whole: python -m embedexp --cfg job",
            )
    if not isinstance(part, Container):
        return f"{part}\n"
    header = "" if part is config else f"# @package {package}\n"
    return header + OmegaConf.to_yaml(part, resolve=resolve)


def _hydra(config_dirs: Sequence[str | Path]) -> Hydra:
    from hydra._internal.hydra import Hydra
    from hydra.core.global_hydra import GlobalHydra

    from embedexp.config.compose import loader

    hydra = Hydra(task_name="embedexp", config_loader=loader(config_dirs))
    GlobalHydra.instance().clear()
    GlobalHydra.instance().initialize(hydra)
    return hydra


def _hydra_information(given: argparse.Namespace) -> int:
    from embedexp.config.compose import PRIMARY
    from embedexp.config.explain import presented

    if given.shell_completion:
        if not any(re.match(r"(install|uninstall|query)=\w+$", item) for item in given.overrides):
            raise UserError(
                "--shell-completion needs install=SHELL or uninstall=SHELL",
                hint='for bash: eval "$(embedexp -sc install=bash)"',
            )
        _hydra(given.config_dir).shell_completion(config_name=PRIMARY, overrides=given.overrides)
        return OK
    if given.hydra_help:
        from hydra._internal.utils import get_args_parser

        hydra, parser = _hydra(given.config_dir), get_args_parser()
        hydra.hydra_help(config_name=PRIMARY, args_parser=parser, args=given)
        return OK
    with presented(given.overrides, given.config_dir):
        hydra = _hydra(given.config_dir)
        hydra.show_info(given.info, config_name=PRIMARY, overrides=given.overrides)
    return OK


def _multirun(overrides: Sequence[str], config_dirs: Sequence[str | Path]) -> int:
    from hydra.core.plugins import Plugins
    from hydra.core.utils import JobStatus
    from hydra.types import HydraContext, RunMode

    from embedexp.config.compose import PRIMARY
    from embedexp.config.explain import presented
    from embedexp.launch.outcome import CellFailedError

    with presented(overrides, config_dirs, sweep=True):
        from hydra._internal.callbacks import Callbacks

        hydra = _hydra(config_dirs)
        config = hydra.compose_config(
            config_name=PRIMARY,
            overrides=[*overrides, "hydra.mode=MULTIRUN"],
            run_mode=RunMode.MULTIRUN,
            with_log_configuration=False,
        )
        context = HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks(config))
        sweeper = Plugins.instance().instantiate_sweeper(
            config=config, hydra_context=context, task_function=_run_composed
        )
        arguments = [str(item) for item in config.hydra.overrides.task]
    try:
        returns = sweeper.sweep(arguments=arguments) or []
    except CellFailedError:
        return RUN_FAILED
    jobs = [job for job in _flat(returns) if hasattr(job, "status")]
    return OK if all(job.status == JobStatus.COMPLETED for job in jobs) else RUN_FAILED


def _run_composed(composed: DictConfig) -> Any:
    """What a launcher from elsewhere calls for each cell, in whatever process it has made."""
    import embedexp
    from embedexp.config.compose import from_raw

    return embedexp.run(from_raw(composed))


def _flat(returns: Any) -> list[Any]:
    if isinstance(returns, list | tuple):
        return [job for item in returns for job in _flat(item)]
    return [returns]
