from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import optuna
import pytest
from optuna.trial import TrialState

from embedexp.config import compose
from embedexp.runs import RunDirectory
from embedexp.runs.job import Job, write_job
from embedexp.runs.trial import PRUNED, Trial, open_storage, pruner_of, read_trial
from embedexp.stage.pruning import Reporting, scoring, watched
from embedexp.training.interrupt import StopRequest

optuna.logging.set_verbosity(optuna.logging.ERROR)


class Study:
    """A study in a journal, and runs that are trials of it."""

    def __init__(self, folder, direction="minimize"):
        self.folder, self.journal = folder, str(folder / "journal.log")
        self.study = optuna.create_study(
            study_name="s", storage=open_storage(self.journal), direction=direction
        )

    def reporting(self, steps=8, score=None, **changed):
        asked = self.study.ask()
        run = RunDirectory(self.folder / f"run-{asked.number}")
        run.path.mkdir()
        values = {
            "storage": self.journal,
            "study": "s",
            "number": asked._trial_id,
            "pruner": "asha",
            "by": "loss",
            "every": 2,
            "reduction": 2,
            "objective": "mean",
            "maximize": False,
        }
        Trial(**values | changed).write(run)
        stop = StopRequest()
        return Reporting(read_trial(run), run, stop, steps, 1, score), asked.number

    def trial(self, number):
        study = optuna.load_study(study_name="s", storage=open_storage(self.journal))
        return study.trials[number]


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


def train(reporting, losses):
    """Steps until it stops; returns how many were made."""
    for step, loss in enumerate(losses, 1):
        reporting(loss, step)
        if reporting.stop.requested:
            return step
    return len(losses)


def test_reports_are_means_of_the_losses_since_the_last_one(study):
    reporting, number = study.reporting()
    train(reporting, [4.0, 2.0, 1.0, 0.0, 7.0, 7.0, 7.0, 9.0])
    # Nothing is reported at the end: there the run's own result counts.
    assert study.trial(number).intermediate_values == {2: 3.0, 4: 0.5, 6: 7.0}


def test_losses_are_negated_where_the_objective_is_maximised(tmp_path):
    study = Study(tmp_path, "maximize")
    good, first = study.reporting(maximize=True)
    bad, second = study.reporting(maximize=True)
    assert train(good, [1.0] * 8) == 8
    assert train(bad, [2.0] * 8) == 2  # the larger loss, and not the smaller one
    assert study.trial(first).intermediate_values[2] == -1.0
    assert PRUNED in study.trial(second).user_attrs


def test_a_worse_run_is_stopped_for_good_and_says_at_which_step(study):
    good, _ = study.reporting()
    bad, number = study.reporting()
    assert train(good, [1.0] * 8) == 8
    assert train(bad, [2.0] * 8) == 2
    assert bad.stop.reason == "its search, which pruned it at step 2"
    assert bad.directory.cancel_requested  # so that no scheduler starts it again
    assert study.trial(number).user_attrs == {PRUNED: 2}


def test_a_score_is_reported_as_it_is(tmp_path):
    study = Study(tmp_path, "maximize")
    scores = iter([0.2, 0.3, 0.4])
    reporting, number = study.reporting(
        score=lambda objective: next(scores), by="score", maximize=True
    )
    train(reporting, [1.0] * 8)
    assert study.trial(number).intermediate_values == {2: 0.2, 4: 0.3, 6: 0.4}


def test_a_step_reported_before_a_restart_is_not_measured_again(study):
    reporting, number = study.reporting()
    train(reporting, [1.0, 1.0])
    again = Reporting(reporting.trial, reporting.directory, StopRequest(), 8, 1, None)
    train(again, [5.0] * 8)
    assert study.trial(number).intermediate_values == {2: 1.0, 4: 5.0, 6: 5.0}


def test_a_run_that_goes_on_reports_at_the_steps_of_those_that_were_not_interrupted(study):
    whole, first = study.reporting()
    train(whole, [1.0] * 8)
    reporting, second = study.reporting()
    train(reporting, [1.0, 1.0])
    again = Reporting(reporting.trial, reporting.directory, StopRequest(), 8, 1, None)
    for step in range(4, 9):  # from a checkpoint of step 3
        again(1.0, step)
    assert sorted(study.trial(first).intermediate_values) == [2, 4, 6]
    assert sorted(study.trial(second).intermediate_values) == [2, 4, 6]
    late, third = study.reporting(every=4)
    late = Reporting(late.trial, late.directory, StopRequest(), 12, 3, None)
    for step in (3, 6, 9):  # logged steps that no report falls on: the next ones count
        late(1.0, step)
    assert sorted(study.trial(third).intermediate_values) == [6, 9]


def test_a_run_that_was_pruned_can_be_gone_on_with_by_hand(study):
    good, _ = study.reporting()
    bad, number = study.reporting()
    train(good, [1.0] * 8)
    assert train(bad, [2.0] * 8) == 2
    again = Reporting(bad.trial, bad.directory, StopRequest(), 8, 1, None)
    assert train(again, [2.0] * 8) == 8  # whether or not the search has heard of it
    assert sorted(study.trial(number).intermediate_values) == [2]


def test_a_run_whose_trial_has_ended_trains_on_in_peace(study):
    good, _ = study.reporting()
    bad, number = study.reporting()
    train(good, [1.0] * 8)
    study.study.tell(number, state=TrialState.PRUNED, values=None)
    assert train(bad, [2.0] * 8) == 8
    assert study.trial(number).intermediate_values == {}


def test_a_storage_that_is_gone_ends_no_run(study, caplog):
    reporting, _ = study.reporting()
    (study.folder / "journal.log").unlink()
    assert train(reporting, [1.0] * 8) == 8
    assert [record.message for record in caplog.records if "can't be told" in record.message]
    assert len([r for r in caplog.records if "can't be told" in r.message]) == 1


def test_a_run_that_is_no_trial_tracks_as_before(tmp_path):
    config = compose(["backbone=tiny"])

    def track(values, step):
        pass

    assert watched(config, RunDirectory(tmp_path), StopRequest(), track) is track


def test_a_run_started_by_hand_does_not_report_to_the_search_that_left_it(study):
    """Else a search that nobody leads any more would end it."""
    config = compose(["backbone=tiny"])
    reporting, _ = study.reporting()
    run = reporting.directory

    def track(values, step):
        pass

    def reports():
        return watched(config, run, StopRequest(), track) is not track

    def job(**changed):
        values = {"launcher": "local", "id": str(os.getppid()), "multirun": "s"} | changed
        write_job(run.job_file, Job(**values))

    assert not reports()
    job(multirun="another")
    assert not reports()
    job(id="1")  # the search's own job, of which this process is none
    assert not reports()
    job()
    assert reports()


class Embedder:
    """What scoring looks at in a model."""

    training = True

    def eval(self):
        self.training = False

    def train(self, mode):
        self.training = mode


def test_a_report_measures_the_objective_and_nothing_else(monkeypatch):
    asked = []

    def evaluate(embedder, option, *, heldout):
        assert not embedder.training
        asked.append((option.tasks, [dataset.name for dataset in heldout]))
        names = [*option.tasks, *("Heldout: " + dataset.name for dataset in heldout)]
        return [SimpleNamespace(task=name, value=0.1 * len(name)) for name in names]

    monkeypatch.setattr("embedexp.evaluation.evaluate", evaluate)
    tasks = ["WordNetSimilarity", "WordNetPairs"]
    config = compose([f"evaluation.tasks=[{','.join(tasks)}]"])
    score = scoring(config, Embedder(), [SimpleNamespace(name="a"), SimpleNamespace(name="bc")])
    assert score("WordNetPairs") == pytest.approx(1.2)
    assert score("Heldout: bc") == pytest.approx(1.1)
    assert score("mean") == pytest.approx((1.7 + 1.2 + 1.0 + 1.1) / 4)
    assert asked == [(["WordNetPairs"], []), ([], ["bc"]), (tasks, ["a", "bc"])]
    with pytest.raises(ValueError, match="no score of Heldout: d"):
        score("Heldout: d")


CHILD = """
import sys
from pathlib import Path
from embedexp.runs import RunDirectory
from embedexp.runs.trial import read_trial
from embedexp.stage.pruning import Reporting
from embedexp.training.interrupt import StopRequest
run = RunDirectory(Path(sys.argv[1]))
stop = StopRequest()
reporting = Reporting(read_trial(run), run, stop, 8, 1, None)
for step in range(1, 9):
    reporting(float(sys.argv[2]), step)
    if stop.requested:
        break
print(step, stop.reason)
"""


def test_a_process_of_its_own_prunes_itself_by_what_another_one_has_reported(study):
    told = []
    for loss in ("1.0", "2.0", "0.5"):
        reporting, _ = study.reporting()
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(reporting.directory.path), loss],
            capture_output=True,
            text=True,
            check=True,
        )
        told.append(done.stdout.strip())
    assert told == ["8 None", "2 its search, which pruned it at step 2", "8 None"]


WRITER = """
import sys
from embedexp.runs.trial import open_storage
storage = open_storage(sys.argv[1])
for step in range(15):
    storage.set_trial_intermediate_value(int(sys.argv[2]), step, float(sys.argv[2]))
"""


def test_processes_that_write_one_journal_at_a_time_lose_nothing(study):
    numbers = [study.study.ask()._trial_id for _ in range(2)]
    command = [sys.executable, "-c", WRITER, study.journal]
    processes = [subprocess.Popen([*command, str(number)]) for number in numbers]
    assert [process.wait() for process in processes] == [0, 0]
    for number in numbers:
        values = study.trial(number).intermediate_values
        assert values == {step: float(number) for step in range(15)}


@pytest.mark.parametrize("pruner", ["hyperband", "median"])
def test_hyperband_and_median_stop_what_is_behind(study, pruner):
    steps = []
    for loss in (*[1.0] * 6, *[5.0] * 5):
        reporting, number = study.reporting(pruner=pruner)
        steps.append(train(reporting, [loss] * 8))
        state = TrialState.PRUNED if reporting.stop.requested else TrialState.COMPLETE
        study.study.tell(number, None if reporting.stop.requested else [loss], state=state)
    assert set(steps[:6]) == {8}
    assert min(steps[6:]) < 8  # hyperband spares those of a bracket that begins later


def test_asha_has_its_rungs_at_powers_of_the_reduction():
    trial = Trial("", "", 0, "asha", "loss", 5, 3, "mean", maximize=False)
    pruner = pruner_of(trial, 100)
    study = optuna.create_study(pruner=pruner)
    asked = study.ask()
    for step in range(5, 100, 5):
        asked.report(1.0, step)
        asked.should_prune()
    rungs = [key for key in study.trials[0].system_attrs if key.startswith("completed_rung")]
    assert len(rungs) == 3  # at steps 5, 15 and 45


def test_a_damaged_trial_file_is_no_trial(tmp_path):
    run = RunDirectory(tmp_path)
    (tmp_path / "trial.json").write_text(json.dumps({"storage": "x"}))
    assert read_trial(run) is None
