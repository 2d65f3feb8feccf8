"""`trial.json`: of which search a run is a trial, and how it is told there how the run does."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from embedexp.config.errors import UserError
from embedexp.files import write_atomically

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.storages import BaseStorage

    from .directory import RunDirectory

FILE_NAME = "trial.json"
PRUNED = "pruned_at"
"""The attribute of a trial that holds the step at which its run was pruned."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """A run's place in a study: `number` is that of the storage, not the one that people see.

    Every `every` steps the run reports the score `objective`, or its training loss, and `pruner`
    says whether to go on.
    """

    storage: str
    study: str
    number: int
    pruner: Literal["asha", "hyperband", "median"]
    by: Literal["score", "loss"]
    every: int
    reduction: int
    objective: str
    maximize: bool

    def write(self, run: RunDirectory) -> None:
        """Leave it in the run's directory, for the processes that will carry the run out."""
        text = json.dumps(dataclasses.asdict(self), indent=2) + "\n"
        write_atomically(run.path / FILE_NAME, text)


def read_trial(run: RunDirectory) -> Trial | None:
    """The trial that `run` is, or None where there is none that can be read."""
    try:
        content = json.loads((run.path / FILE_NAME).read_bytes())
        return Trial(**content)
    except (OSError, ValueError, TypeError):
        return None


def forget_trial(run: RunDirectory) -> None:
    """Have `run` be no trial, whatever an earlier search has left."""
    (run.path / FILE_NAME).unlink(missing_ok=True)


def open_storage(text: str) -> BaseStorage:
    """Optuna's storage at a database's URL, or in the journal file with that path.

    A journal is locked by a symbolic link, which is exclusive on network file systems too; a lock
    that a killed process has left is broken after half a minute.

    Raises:
        UserError: Optuna is not installed, or the storage can't be opened.
    """
    try:
        import optuna
        from optuna.storages import RDBStorage
        from optuna.storages.journal import (
            JournalFileBackend,
            JournalFileSymlinkLock,
            JournalStorage,
        )
    except ImportError:
        raise UserError(
            "a search needs Optuna, which is not installed", hint="pip install 'embedexp[search]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        if "://" in text:
            return RDBStorage(text)
        # The link holds the file's path, and must lead there from wherever it is read.
        path = str(Path(text).absolute())
        return JournalStorage(JournalFileBackend(path, JournalFileSymlinkLock(path)))
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        shown = text.partition("://")[0] + "://..." if "://" in text else text
        raise UserError(f"the search's storage {shown} can't be opened: {first}") from None


def pruner_of(trial: Trial, steps: int) -> BasePruner:
    """The pruner of a run of `steps` optimizer steps.

    Successive halving keeps the best `1 / reduction` of those that have come as far, at steps
    every, every * reduction, every * reduction², ... (ASHA, arXiv 1810.05934, algorithm 2);
    hyperband does so from several first steps (arXiv 1603.06560); median stops what is worse than
    half of the trials before were at the same step.
    """
    from optuna.pruners import HyperbandPruner, MedianPruner, SuccessiveHalvingPruner

    if trial.pruner == "asha":
        return SuccessiveHalvingPruner(min_resource=trial.every, reduction_factor=trial.reduction)
    if trial.pruner == "hyperband":
        return HyperbandPruner(
            min_resource=trial.every,
            max_resource=max(steps, trial.every),
            reduction_factor=trial.reduction,
        )
    return MedianPruner()
