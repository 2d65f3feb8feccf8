"""What a person sees of a search: a line for each event and, in a terminal, progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedexp.runs import RunDirectory
from embedexp.runs.tables import console, progress, styled
from embedexp.runs.text import duration, markup
from embedexp.runs.trial import PRUNED

from .loop import OVERRIDES, REASON, RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from optuna import Study
    from optuna.trial import FrozenTrial

_NAMED = 2


class Screen:
    """Tells of trials as they start and end; a context that leaves the terminal as it was."""

    def __init__(self, study: Study, names: Sequence[str], folder: Path, target: int) -> None:
        self._study, self._names, self._folder, self._target = study, names, folder, target
        self._console = console()
        self._status: Any = None

    def __enter__(self) -> Screen:
        if self._console.is_terminal:
            self._status = self._console.status("")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def note(self, text: str = "") -> None:
        """Print one line."""
        self._console.print(markup(text), soft_wrap=True)

    def chosen(self, trial: FrozenTrial, *, again: bool) -> None:
        """A trial has been started, or taken up again."""
        runs = trial.user_attrs.get(RUNS, [])
        where = ", ".join(str(self._folder / name) for name in runs[:_NAMED])
        more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
        told = " ".join(trial.user_attrs.get(OVERRIDES, []))
        word = "resumed" if again else "started"
        self._line(trial, word, f"{told}  ({where}{more})" if where else told)

    def told(self, trial: FrozenTrial) -> None:
        """A trial has ended."""
        from optuna.trial import TrialState

        if trial.state is TrialState.COMPLETE:
            values = shown_values(self._names, trial.values)
            best = "  best so far" if trial.number in self._best() else ""
            self._line(trial, "finished", f"{values}{best}  after {self._time(trial)}")
        elif trial.state is TrialState.PRUNED:
            step = trial.user_attrs.get(PRUNED)
            self._line(trial, "pruned", f"at step {step}")
        else:
            self._line(trial, "failed", str(trial.user_attrs.get(REASON, "")))

    def waiting(self, trials: Sequence[FrozenTrial]) -> None:
        """Show how far the running trials are."""
        if self._status is None:
            return
        parts = []
        for trial in trials:
            for name in trial.user_attrs.get(RUNS, []):
                status = RunDirectory(self._folder / name).status
                left = f", {duration(status.eta_seconds)} left" if status.eta_seconds else ""
                parts.append(f"trial {trial.number} {status.shown} {progress(status)}{left}")
        done = complete(self._study)
        self._status.update(markup(f"{done} of {self._target} complete; {'; '.join(parts)}"))

    def _line(self, trial: FrozenTrial, word: str, text: str) -> None:
        head = f"trial {trial.number:<4} "
        self._console.print(
            f"{markup(head)}{styled(word)}{' ' * max(1, 10 - len(word))}{markup(text)}",
            soft_wrap=True,
        )

    def _best(self) -> set[int]:
        return {trial.number for trial in self._study.best_trials}

    def _time(self, trial: FrozenTrial) -> str:
        runs = trial.user_attrs.get(RUNS, [])
        return duration(sum(RunDirectory(self._folder / name).status.seconds for name in runs))


def complete(study: Study) -> int:
    """How many trials are complete."""
    from optuna.trial import TrialState

    return len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))


def shown_values(names: Sequence[str], values: Sequence[float]) -> str:
    """Objectives with their values, in a few words."""
    return ", ".join(f"{name} {value:.4f}" for name, value in zip(names, values, strict=True))
