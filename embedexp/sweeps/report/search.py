"""The page of a search: its trials, how the objective went, and which keys it depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.runs import RunDirectory
from embedexp.runs.text import duration, plain
from embedexp.runs.trial import PRUNED

from ..formats import NONE
from ..search import plots
from ..search.loop import OVERRIDES, REASON, RUNS
from ..search.run import command
from .build import Page, Section, link
from .svg import INK, SERIES, chart
from .tables import Cell, plain_grid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from optuna import Study
    from optuna.trial import FrozenTrial

    from ..search.file import SearchFile
    from ..search.run import Found
    from ..search.settings import SearchSettings
    from ..search.space import Space
    from .svg import Chart
    from .tables import Grid

_COLOURS = plots.Palette(SERIES[0], SERIES[1], SERIES[2], INK)
_IMPORTANCE = (
    "fANOVA is the share of the objective's variance that a key explains, of keys that all trials "
    "have. PED-ANOVA compares the values of the best trials with those of all, conditional keys "
    "among them. With a few dozen trials both are rough, and a sampler that has settled on a value "
    "hides the key's importance."
)


def page(
    file: SearchFile,
    space: Space,
    settings: SearchSettings,
    fixed: Sequence[str],
    found: Found,
    folder: Path,
) -> Page:
    """The sections of a search, links as seen from `folder`."""
    names = [plain(name) for name, _ in settings.objectives]
    runs = found.folder.parents[1]
    sections = [
        Section("trials", "Trials", [file.question], tables=[_trials(found, space, names, folder)]),
        Section("history", "History", charts=_history(found.study, names)),
    ]
    shares = plots.importances(found.study, len(names))
    charts = _importance(shares, names)
    words = _IMPORTANCE if charts else "There are too few complete trials to tell."
    sections.append(Section("importance", "Importance of the keys", [words], charts))
    notes = [f"Sampler: {settings.sampler}, seed {settings.seed}."]
    notes += [f"Best: {command(fixed, trial)}" for trial in found.best]
    notes.append(f"Its study is {found.study.study_name} in {link(found.folder, folder)}.")
    facts = [*((state, f"{count}") for state, count in found.counts.items())]
    facts.append(("of computing", duration(_seconds(found.study, runs))))
    return Page(file.title, "", facts, sections, notes)


def _seconds(study: Study, runs: Path) -> float:
    """Of all runs, each counted once however many trials share it."""
    every = {run for trial in study.get_trials(deepcopy=False) for run in _runs(trial)}
    return sum(RunDirectory(runs / run).status.seconds for run in every)


def _runs(trial: FrozenTrial) -> list[str]:
    return list(trial.user_attrs.get(RUNS, []))


def _trials(found: Found, space: Space, names: Sequence[str], folder: Path) -> Grid:
    """All trials with what they set: the best first, then those without a value."""
    runs, ranked = found.folder.parents[1], found.ranked
    done, best = {trial.number for trial in ranked}, {trial.number for trial in found.best}
    others = [one for one in found.study.get_trials(deepcopy=False) if one.number not in done]
    most = max((len(_runs(trial)) for trial in (*ranked, *others)), default=0)
    columns = ["trial", "state", *names, *space.keys, *["run"] * most]
    grid = plain_grid("Trials", columns, [])
    for trial in (*ranked, *others):
        state, told = _state(trial)
        values = trial.values if trial.number in done else [None] * len(names)
        shown = [NONE if value is None else f"{value:.4f}" for value in values]
        kind = "number changed" if trial.number in best else "number"
        row = [Cell(f"{trial.number}"), Cell(told or state, "missing" if told else "")]
        row += [Cell(text, kind) for text in shown]
        row += [Cell(_value(trial, key), "number") for key in space.keys]
        row += [Cell(name, href=link(runs / name, folder)) for name in _runs(trial)]
        grid.rows.append([*row, *[Cell("")] * (len(columns) - len(row))])
    return grid


def _state(trial: FrozenTrial) -> tuple[str, str]:
    """A trial's state, and what there is to say where it has no value."""
    if trial.state.name == "PRUNED":
        return "pruned", f"pruned at step {trial.user_attrs.get(PRUNED)}"
    if trial.state.name == "FAIL":
        return "failed", f"failed: {trial.user_attrs.get(REASON, '')}"
    return trial.state.name.lower(), ""


def _value(trial: FrozenTrial, key: str) -> str:
    """The chosen value; numbers as the override has them, to the last digit."""
    texts = trial.user_attrs.get(OVERRIDES, [])
    chosen = next((text for text in texts if text.startswith(f"{key}=")), None)
    if chosen is not None:
        return str(chosen).partition("=")[2]
    return str(trial.params.get(key, NONE))


def _history(study: Study, names: Sequence[str]) -> list[Chart]:
    made = []
    for index, name in enumerate(names):
        with chart(f"{name} by trial", 3.6, f"history-{index}") as (figure, one):
            plots.history(figure.subplots(), study, index, name, _COLOURS, columns=2)
            ended = [t for t in study.get_trials(deepcopy=False) if t.state.name == "COMPLETE"]
            values = {trial.number: trial.values[index] for trial in ended}
            one.words = "; ".join(f"trial {number} {value:.4f}" for number, value in values.items())
        made.append(one)
    if len(names) > 1:
        with chart(f"{names[0]} against {names[1]}", 3.6, "front") as (figure, one):
            plots.front(figure.subplots(), study, names, _COLOURS)
            numbers = ", ".join(f"{trial.number}" for trial in study.best_trials)
            one.words = f"No other trial is better in all: {numbers or 'none'}"
        made.append(one)
    return made


def _importance(
    found: Sequence[Mapping[str, Mapping[str, float]]], names: Sequence[str]
) -> list[Chart]:
    made = []
    for index, (shares, name) in enumerate(zip(found, names, strict=True)):
        if not shares:
            continue
        named = {
            evaluator: {" ".join(plain(key).split()): share for key, share in some.items()}
            for evaluator, some in shares.items()
        }
        keys = list(dict.fromkeys(key for one in named.values() for key in one))
        height = 1.4 + 0.55 * len(keys)
        with chart(f"For {name}", height, f"importance-{index}") as (figure, one):
            plots.importance(figure.subplots(), named, keys, _COLOURS)
            one.words = "; ".join(
                f"{evaluator}: " + ", ".join(f"{key} {share:.2f}" for key, share in some.items())
                for evaluator, some in named.items()
            )
        made.append(one)
    return made
