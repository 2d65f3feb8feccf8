"""A run that is a trial of a search tells it how it does, and stops where the search prunes it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from embedexp.runs.trial import PRUNED, open_storage, pruner_of, read_trial

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from embedexp.config import Config
    from embedexp.data.dataset import Dataset
    from embedexp.embedding import Embedder
    from embedexp.runs import RunDirectory
    from embedexp.runs.trial import Trial
    from embedexp.training.interrupt import StopRequest

    Track = Callable[[dict[str, float], int], None]

log = logging.getLogger(__name__)


def watched(
    config: Config,
    directory: RunDirectory,
    stop: StopRequest,
    track: Track,
    score: Callable[[str], float] | None = None,
) -> Track:
    """`track`, which in a run that a search may prune also reports there.

    `score` measures the model as it is, on the named objective; without it there is only the loss.
    A search that was left may have left its word in the directory of a run that somebody starts by
    hand, and whose end it is not: only the job that the search has asked for reports to it.
    For rank 0 only: the other ranks stop when it does.
    """
    trial, job = read_trial(directory), directory.job
    if trial is None or job is None or job.multirun != trial.study or not job.is_this_process:
        return track
    option = config.training
    reporting = Reporting(trial, directory, stop, option.steps, option.log_every, score)

    def both(values: dict[str, float], step: int) -> None:
        track(values, step)
        reporting(values["loss"], step)

    return both


class Reporting:
    """Reports every so many steps, at the logged step that comes next; never a reason to fail.

    What is reported is the objective's score, or the mean of the losses logged since the report
    before, negated where the objective is maximised.
    """

    def __init__(
        self,
        trial: Trial,
        directory: RunDirectory,
        stop: StopRequest,
        steps: int,
        log_every: int,
        score: Callable[[str], float] | None,
    ) -> None:
        self.trial, self.directory, self.stop, self.steps = trial, directory, stop, steps
        self._log_every, self._score = log_every, score
        self._losses: list[float] = []
        self._off = trial.by == "score" and score is None

    def __call__(self, loss: float, step: int) -> None:
        """Hear of a logged step."""
        self._losses.append(loss)
        # Runs are compared at the same steps, so that these follow from the step alone: a run that
        # goes on from a checkpoint keeps to them.
        due = step // self.trial.every > (step - self._log_every) // self.trial.every
        if self._off or step >= self.steps or not due:
            return
        try:
            self._report(step)
        except Exception as error:
            log.warning("the search can't be told how this run does; going on: %s", error)
            self._off = True
        self._losses.clear()

    def _report(self, step: int) -> None:
        from optuna import load_study
        from optuna.samplers import RandomSampler
        from optuna.trial import TrialState

        trial, storage = self.trial, open_storage(self.trial.storage)
        known = storage.get_trial(trial.number)
        # The search has its answer, or has gone on; what it has pruned goes on by hand.
        if known.state is not TrialState.RUNNING or PRUNED in known.user_attrs:
            self._off = True
            return
        if step not in known.intermediate_values:  # else reported before a restart
            storage.set_trial_intermediate_value(trial.number, step, self._value())
        pruner = pruner_of(trial, self.steps)
        study = load_study(
            study_name=trial.study, storage=storage, sampler=RandomSampler(), pruner=pruner
        )
        if pruner.prune(study, storage.get_trial(trial.number)):
            storage.set_trial_user_attr(trial.number, PRUNED, step)
            self.stop.ask(f"its search, which pruned it at step {step}")
            self.directory.request_cancel()

    def _value(self) -> float:
        if self.trial.by == "score":
            assert self._score is not None
            return self._score(self.trial.objective)
        loss = sum(self._losses) / len(self._losses)
        return -loss if self.trial.maximize else loss


def scoring(
    config: Config, embedder: Embedder, heldout: Sequence[Dataset]
) -> Callable[[str], float]:
    """A function that scores `embedder` on an objective, a task or `mean`, amid its training."""

    def score(objective: str) -> float:
        from embedexp import evaluation
        from embedexp.evaluation.builtin import PREFIX

        option, kept = config.evaluation, list(heldout)
        if objective != "mean" and option.name == "builtin":
            kept = [dataset for dataset in heldout if PREFIX + dataset.name == objective]
            tasks = [task for task in option.tasks if task == objective]
            option = option.model_copy(update={"tasks": tasks})
        elif objective != "mean" and getattr(option, "tasks", None):
            option = option.model_copy(update={"tasks": [objective]})
        training = embedder.training
        embedder.eval()
        try:
            scores = evaluation.evaluate(embedder, option, heldout=kept)
        finally:
            embedder.train(training)
        found = evaluation.mean(item for item in scores if objective in ("mean", item.task))
        if found is None:
            raise ValueError(f"there is no score of {objective}")
        return found

    return score
