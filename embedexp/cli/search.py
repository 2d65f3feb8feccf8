"""Searches in sweep files, and what W&B's agents ask for."""

from __future__ import annotations

import dataclasses
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError

from . import OK, RUN_FAILED
from .commands import run_parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from embedexp.sweeps.planning import SweepPlan
    from embedexp.sweeps.search.file import SearchFile
    from embedexp.sweeps.search.settings import SearchSettings
    from embedexp.sweeps.search.space import Space

# What W&B's agent tells the process that it starts.
_AGENT = ("WANDB_SWEEP_ID", "WANDB_RUN_ID", "WANDB_SWEEP_PARAM_PATH")
_SWEEPER = "hydra.sweeper."


def elsewhere(given: argparse.Namespace) -> int | None:
    """The exit code of `sweep FILE` where that is a search, or is for W&B; None for a table.

    Raises:
        UserError: an argument has no effect.
    """
    from embedexp.sweeps.file import find
    from embedexp.sweeps.search.file import is_search

    path = find(given.file)
    searches = is_search(path)
    if given.to is not None and not given.wandb:
        raise UserError(
            "--to has no effect without --wandb", hint="tables: python -m embedexp table"
        )
    for flag, value in (("--only", given.only), ("--plan", given.plan)):
        if value and (given.wandb or searches):
            what = "--wandb" if given.wandb else f"{path.name}, which is a search"
            raise UserError(f"{flag} has no effect with {what}", hint="drop it")
    if searches and given.seeds is not None:
        raise UserError(
            "--seeds has no effect on a search", hint="hydra.sweeper.seeds=[0,1,2] takes the mean"
        )
    if given.wandb:
        return write_wandb(path, given)
    return search(path, given) if searches else None


def search(path: Path, given: argparse.Namespace) -> int:
    """Carry out the search in a sweep file; fails if it ends before enough trials are complete."""
    from embedexp.sweeps.launching import launcher_of
    from embedexp.sweeps.search.run import Launcher, run

    name, launcher_settings, typed = launcher_of(given.words)
    file, space, settings, fixed = _read(path, typed, given)
    keys = tuple(
        text.partition("=")[0].removeprefix("hydra.launcher.").partition(".")[0]
        for text in given.words
        if text.startswith("hydra.launcher.")
    )
    print(file.title)
    found = run(
        fixed,
        space,
        settings,
        Launcher(name, launcher_settings, keys),
        given.config_dir,
        source=str(path.resolve()),
    )
    return OK if found.problem is None else RUN_FAILED


def report_search(path: Path, given: argparse.Namespace) -> int:
    """Write the page of the search in a sweep file, as it stands.

    Raises:
        UserError: it has not been started, or an argument has no effect.
    """
    from embedexp.sweeps.launching import launcher_of
    from embedexp.sweeps.report.build import save
    from embedexp.sweeps.report.search import page
    from embedexp.sweeps.search.run import as_it_stands

    for flag, value in (("--wandb", given.wandb), ("--only", given.only), ("--seeds", given.seeds)):
        if value:
            raise UserError(f"{flag} has no effect on the page of a search", hint="drop it")
    _, _, typed = launcher_of(given.words)
    file, space, settings, fixed = _read(path, typed, given)
    found = as_it_stands(fixed, space, settings, given.config_dir)
    target = given.to or Path(f"{path.stem}.html")
    save(page(file, space, settings, fixed, found, target.absolute().parent), target)
    print(f"page     {target}")
    return OK


def _read(
    path: Path, typed: Sequence[str], given: argparse.Namespace
) -> tuple[SearchFile, Space, SearchSettings, list[str]]:
    """The file's content, space and settings, and the overrides that all trials share."""
    from embedexp.sweeps.search.file import read, settings_in

    file, space = read(path)
    about = [text for text in typed if text.startswith(_SWEEPER)]
    own = _own([text for text in typed if text not in about], given)
    return file, space, settings_in(file, about), [*file.base, *own]


def write_wandb(path: Path, given: argparse.Namespace) -> int:
    """Write a sweep file as a configuration of a W&B sweep, and say how it is started."""
    import yaml

    target = given.to or Path(f"{path.stem}.wandb.yaml")
    text = yaml.safe_dump(_wandb(path, given), sort_keys=False, allow_unicode=True, width=100)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{target} can't be written: {error.strerror}") from None
    print(f"sweep    {target}")
    print(f"start    wandb sweep --project embedexp {shlex.quote(str(target))}")
    print("agents   wandb agent ENTITY/embedexp/SWEEP, on as many machines as you like")
    return OK


def _wandb(path: Path, given: argparse.Namespace) -> dict[str, Any]:
    from embedexp.sweeps import wandb_sweep
    from embedexp.sweeps.search.file import is_search

    if any("hydra.launcher" in text or "hydra/launcher" in text for text in given.words):
        raise UserError(
            "W&B's agents start runs themselves; a launcher has no effect",
            hint="start agents where runs are to be, in SLURM jobs for example",
        )
    if is_search(path):
        file, space, settings, fixed = _read(path, given.words, given)
        own = fixed[len(file.base) :]
        return wandb_sweep.search_config(
            file.title, file.question, file.base, space, settings, given.file, own
        )
    from embedexp.sweeps.file import read as read_table

    from .sweeps import seeds_of

    return wandb_sweep.config(
        read_table(path), given.file, _own(given.words, given), seeds_of(given.seeds)
    )


def cell(arguments: Sequence[str]) -> int:
    """Run one cell of a sweep, or one trial of a search, in this process: for W&B's agents."""
    from embedexp.sweeps.file import find
    from embedexp.sweeps.search.file import is_search

    parser = run_parser("cell")
    parser.add_argument("file")
    parser.add_argument("words", nargs="+")
    parser.add_argument("--config-dir", "-cd", action="append", default=[])
    given = parser.parse_intermixed_args(list(arguments))
    path = find(given.file)
    return _trial(path, given) if is_search(path) else _cell(path, given)


def _trial(path: Path, given: argparse.Namespace) -> int:
    from embedexp.config import compose
    from embedexp.sweeps.search.file import read
    from embedexp.sweeps.search.runs import last_of_each
    from embedexp.sweeps.wandb_sweep import overrides_of_trial

    from .experiments import execute

    file, space = read(path)
    chosen, typed = _split(given.words, space.keys)
    overrides = overrides_of_trial(space, chosen)
    texts = last_of_each([*file.base, *_own(typed, given), *overrides])
    return execute(compose(texts, given.config_dir))


def _cell(path: Path, given: argparse.Namespace) -> int:
    """Run a table's cell: what it reads in processes of their own, then itself, here."""
    from embedexp.sweeps.cells import cells
    from embedexp.sweeps.file import read
    from embedexp.sweeps.planning import plan
    from embedexp.sweeps.wandb_sweep import CELL, SEED, chosen_cell

    from .experiments import execute

    sweep = read(path)
    axes = {axis for one in cells(sweep) for axis, _ in one.labels}
    labels, typed = _split(given.words, [CELL, SEED, *axes])
    wanted = chosen_cell(sweep, labels)
    planned = plan(
        sweep,
        _own(typed, given),
        labels=[label for _, label in wanted.labels],
        seeds=[wanted.seed],
        config_dirs=given.config_dir,
    )
    (shown,) = [run for one, run in planned.cells if one.labels == wanted.labels]
    own = shown.config.signature  # the plan's runs are copies, with labels of their own
    before = tuple(run for run in planned.to_run if run.config.signature != own)
    if before and not _finished(dataclasses.replace(planned, runs=before), path):
        return RUN_FAILED
    return execute(shown.config)


def _finished(planned: SweepPlan, path: Path) -> bool:
    """Whether what the cell reads has been run, which is no part of W&B's sweep."""
    from embedexp.sweeps.launching import launch, launcher_of

    name, settings, _ = launcher_of([])
    hidden = {key: os.environ.pop(key) for key in _AGENT if key in os.environ}
    try:
        outcomes = launch(planned, path, name, settings)
    finally:
        os.environ.update(hidden)
    return all(outcome.state == "finished" for outcome in outcomes)


def _split(words: Sequence[str], names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Words `name=value` for the given names, and the others."""
    chosen: dict[str, str] = {}
    others: list[str] = []
    for word in words:
        name, separator, value = word.partition("=")
        if separator and name in names:
            chosen[name] = value
        else:
            others.append(word)
    return chosen, others


def _own(words: Sequence[str], given: argparse.Namespace) -> list[str]:
    """The overrides `words`, and where runs are to lie; none of them is one of Hydra's own."""
    for word in words:
        if word.lstrip("+~").startswith(("hydra.", "hydra/")):
            raise UserError(f"{word} has no effect here", hint="drop it")
        if "=" not in word and not word.startswith("~"):
            raise UserError(f"{word!r} is no override", hint="key=value")
    return [*words] if given.runs is None else [*words, f"paths.runs={given.runs}"]
