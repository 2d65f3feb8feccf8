"""The search itself: ask for a trial, have it run, tell how it went, until enough are complete."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from embedexp.config.errors import UserError
from embedexp.runs.trial import PRUNED

from .samplers import sampler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna import Study
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial, Trial

    from .settings import SearchSettings
    from .space import Space

OVERRIDES, RUNS, REASON = "overrides", "runs", "reason"
"""Attributes of a trial: what it sets, the names of its runs, and why it failed."""

ABANDONED = "the search was ended while it chose this trial"


@dataclass(frozen=True)
class Result:
    """How a run ended: the objectives' values, or why there are none."""

    values: tuple[float, ...] | None
    reason: str = ""


class Runner(Protocol):
    """Who carries trials out: each is one run or several, by name."""

    @property
    def parallel(self) -> int:
        """Trials at a time."""
        ...

    def prepare(self, overrides: Sequence[str], trial: int) -> list[str]:
        """Make a trial's runs ready; returns their names. `trial` is its number in the storage.

        Raises:
            UserError: the overrides make no valid experiment.
        """
        ...

    def start(self, run: str) -> None:
        """Start a prepared run, unless it has finished, or somebody has it already."""
        ...

    def result(self, run: str) -> Result | None:
        """How the run has ended; None as long as it goes on."""
        ...

    def stop(self) -> None:
        """The search ends before its runs: whatever can go on later is left so."""
        ...


class Listener(Protocol):
    """Who hears what happens."""

    def chosen(self, trial: FrozenTrial, *, again: bool) -> None:
        """A trial has been started, or one of an earlier process is taken up `again`."""
        ...

    def told(self, trial: FrozenTrial) -> None:
        """A trial has ended."""
        ...

    def waiting(self, trials: Sequence[FrozenTrial]) -> None:
        """Those trials run."""
        ...


@dataclass
class Search:
    """One process's part in a search; `run` may be called once."""

    study: Study
    space: Space
    settings: SearchSettings
    runner: Runner
    listener: Listener
    poll_seconds: float = 0.2
    _running: dict[int, tuple[FrozenTrial, list[str]]] = field(default_factory=dict)
    _failed: dict[tuple[str, ...], int] = field(default_factory=dict)
    _in_a_row: int = 0
    _last_reason: str = ""

    def run(self) -> str | None:
        """Search until enough trials are complete; returns why it ended before, if it did.

        Complete ones from before count. Trials that fail or are pruned do not, and stop nothing;
        but `most_failures` of them in a row do, since then the space is wrong.

        Raises:
            KeyboardInterrupt: the search was interrupted; the same search goes on from there.
        """
        try:
            self._take_up()
            while True:
                self._settle()
                problem = self._problem()
                while problem is None and len(self._running) < self._room():
                    self._next()
                    problem = self._problem()
                if not self._running:
                    return problem
                self.listener.waiting([trial for trial, _ in self._running.values()])
                time.sleep(self.poll_seconds)
        except BaseException:
            self.runner.stop()
            raise

    def _complete(self) -> int:
        from optuna.trial import TrialState

        return len(self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))

    def _room(self) -> int:
        """How many trials may run now: no more than are missing."""
        return min(self.runner.parallel, max(0, self.settings.trials - self._complete()))

    def _problem(self) -> str | None:
        """Why no further trial is to be started although some are missing."""
        if self._complete() >= self.settings.trials:
            return None
        if self._in_a_row >= self.settings.most_failures:
            return (
                f"{self._in_a_row} trials in a row have failed, the last one: {self._last_reason}"
            )
        most, trials = self.settings.most_trials, len(self.study.get_trials(deepcopy=False))
        if most is not None and trials >= most:
            return f"{trials} trials of all kinds are there, the most that were allowed"
        return None

    def _take_up(self) -> None:
        """Go on with the trials that an earlier process has left running."""
        from optuna.trial import TrialState

        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            overrides = trial.user_attrs.get(OVERRIDES)
            if overrides is None:
                self._fail(trial, ABANDONED)
            elif (same := self._pruned(overrides)) is not None:
                self._prune(trial, same)  # while nobody was there to hear of it
            else:
                self._start(trial, overrides, again=True)

    def _next(self) -> None:
        """Choose one more trial and start it."""
        number = len(self.study.get_trials(deepcopy=False))
        self.study.sampler = sampler(self.settings, self.space, number)
        asked = self.study.ask()
        overrides = self.space.suggest(asked)
        asked.set_user_attr(OVERRIDES, overrides)
        if not self._known(asked, overrides):
            self._start(self._frozen(asked.number), overrides, again=False)

    def _known(self, asked: Trial, overrides: list[str]) -> bool:
        """Tell what is known of the same trial, where that is an end that a run would repeat."""
        trial = self._frozen(asked.number)
        same, first = self._pruned(overrides), self._failed.get(tuple(overrides))
        if same is not None:
            self.listener.chosen(trial, again=False)
            self._prune(trial, same)
        elif first is not None:
            self.listener.chosen(trial, again=False)
            reason = self._frozen(first).user_attrs[REASON]
            self._fail(trial, f"as trial {first}: {reason}")
        return same is not None or first is not None

    def _pruned(self, overrides: Sequence[str]) -> FrozenTrial | None:
        """A trial with these overrides whose run was pruned, if there is one.

        Of trials that share a run, the run knows and marks only one.
        """
        from optuna.trial import TrialState

        states = (TrialState.RUNNING, TrialState.PRUNED)
        for trial in self.study.get_trials(deepcopy=False, states=states):
            if PRUNED in trial.user_attrs and trial.user_attrs.get(OVERRIDES) == list(overrides):
                return trial
        return None

    def _prune(self, trial: FrozenTrial, same: FrozenTrial) -> None:
        """Tell that `trial` is pruned, with what was reported and kept of the `same` one."""
        from optuna.trial import TrialState

        storage = self._storage()
        for step, value in same.intermediate_values.items():
            storage.set_trial_intermediate_value(trial._trial_id, step, value)
        for key in (PRUNED, RUNS):
            storage.set_trial_user_attr(trial._trial_id, key, same.user_attrs.get(key))
        self._tell(trial.number, state=TrialState.PRUNED)

    def _start(self, trial: FrozenTrial, overrides: Sequence[str], *, again: bool) -> None:
        try:
            runs = self.runner.prepare(overrides, trial._trial_id)
        except UserError as error:
            self.listener.chosen(trial, again=again)
            self._fail(trial, f"invalid: {' | '.join(str(error).splitlines())}")
            return
        # Optuna's storage is where processes meet; a trial is known there before its run starts.
        self._storage().set_trial_user_attr(trial._trial_id, RUNS, runs)
        known = self._frozen(trial.number)
        self._running[trial.number] = (known, runs)
        self.listener.chosen(known, again=again)
        for run in runs:
            self.runner.start(run)

    def _settle(self) -> None:
        """Tell the study of the trials whose runs have all ended."""
        for number, (_, runs) in list(self._running.items()):
            results = [self.runner.result(run) for run in runs]
            ended = [result for result in results if result is not None]
            if len(ended) < len(runs):
                continue
            del self._running[number]
            trial = self._frozen(number)
            bad = [result for result in ended if result.values is None]
            same = self._pruned(trial.user_attrs[OVERRIDES]) if bad else None
            if same is not None:
                self._prune(trial, same)
            elif bad:
                self._fail(trial, bad[0].reason)
            else:
                self._complete_with(trial, [result.values or () for result in ended])

    def _complete_with(self, trial: FrozenTrial, found: Sequence[tuple[float, ...]]) -> None:
        """Tell the mean over the trial's runs of each objective."""
        values = [math.fsum(column) / len(column) for column in zip(*found, strict=True)]
        if all(math.isfinite(value) for value in values):
            self._tell(trial.number, values=values)
        else:
            self._fail(trial, f"its value is {', '.join(map(str, values))}")

    def _fail(self, trial: FrozenTrial, reason: str) -> None:
        from optuna.trial import TrialState

        self._storage().set_trial_user_attr(trial._trial_id, REASON, reason)
        overrides = tuple(trial.user_attrs.get(OVERRIDES, ()))
        if overrides:
            self._failed.setdefault(overrides, trial.number)
        self._last_reason = reason
        self._tell(trial.number, state=TrialState.FAIL)

    def _tell(self, number: int, **ended: object) -> None:
        from optuna.trial import TrialState

        self.study.tell(number, **ended)  # type: ignore[arg-type]
        trial = self._frozen(number)
        if trial.state is TrialState.FAIL:
            self._in_a_row += 1
        elif trial.state is TrialState.COMPLETE:
            self._in_a_row = 0
        self.listener.told(trial)

    def _frozen(self, number: int) -> FrozenTrial:
        return next(
            trial for trial in self.study.get_trials(deepcopy=False) if trial.number == number
        )

    def _storage(self) -> BaseStorage:
        return self.study._storage
