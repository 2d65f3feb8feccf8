"""A search whose runs are a function: what the search does is the point, not what it trains."""

from __future__ import annotations

from dataclasses import dataclass, field

import optuna
import yaml

from embedexp.config.errors import UserError
from embedexp.config.locations import conf_dir
from embedexp.sweeps.search.loop import Result, Search
from embedexp.sweeps.search.settings import settings_of
from embedexp.sweeps.search.study import open_study, question

optuna.logging.set_verbosity(optuna.logging.ERROR)


def settings(**changed):
    """The defaults of conf/, with changes."""
    text = (conf_dir() / "hydra" / "sweeper" / "optuna.yaml").read_text()
    defaults = yaml.safe_load(text)
    for key in ("_target_", "when", "params"):
        del defaults[key]
    return settings_of({**defaults, **changed})


def numbers(overrides):
    """The overrides as a mapping, numbers where they are."""

    def value(text):
        try:
            return float(text)
        except ValueError:
            return text

    return {key: value(text) for key, _, text in (item.partition("=") for item in overrides)}


@dataclass
class Functions:
    """Runs a function of the overrides at once; the same overrides are the same run."""

    function: object
    parallel: int = 1
    started: list = field(default_factory=list)
    finished: dict = field(default_factory=dict)
    failed: dict = field(default_factory=dict)
    most_at_once: int = 0
    waiting: list = field(default_factory=list)
    seen: dict = field(default_factory=dict)

    def prepare(self, overrides, trial):
        if "invalid=yes" in overrides:
            raise UserError("there is no key invalid", hint="drop it")
        name = " ".join(overrides)
        self.seen[name] = list(overrides)
        return [name]

    def start(self, run):
        if run not in self.finished and run not in self.waiting:
            self.started.append(run)
            self.waiting.append(run)
            self.most_at_once = max(self.most_at_once, len(self.waiting))

    def result(self, run):
        if run in self.waiting:
            self.waiting.remove(run)
            try:
                value = self.function(**numbers(self.seen[run]))
                self.finished[run] = Result(value if isinstance(value, tuple) else (value,))
                self.failed.pop(run, None)
            except RuntimeError as error:
                self.failed[run] = Result(None, str(error))
        return self.failed.get(run) or self.finished[run]

    def stop(self):
        pass


@dataclass
class Heard:
    """Keeps what is told."""

    events: list = field(default_factory=list)

    def chosen(self, trial, *, again):
        self.events.append(("resumed" if again else "started", trial.number))

    def told(self, trial):
        self.events.append((trial.state.name.lower(), trial.number))

    def waiting(self, trials):
        pass


def search(folder, space, runner, name="test", **changed):
    """Search; returns the study, why it ended early, if it did, and what was told.

    `folder` holds a journal; None keeps the study in memory, and a study is gone on with.
    """
    chosen = settings(**changed)
    directions = [direction for _, direction in chosen.objectives]
    if folder is None:
        study = optuna.create_study(directions=directions)
    elif isinstance(folder, optuna.Study):
        study = folder
    else:
        asked = question(chosen, space, [])
        study = open_study(name, str(folder / "journal.log"), asked, directions)
    heard = Heard()
    problem = Search(study, space, chosen, runner, heard, poll_seconds=0.0).run()
    return study, problem, heard.events


def bowl(x, y=0.0, **_):
    """Largest, 0, at x = 0.3, y = -0.2."""
    return -((x - 0.3) ** 2) - (y + 0.2) ** 2
