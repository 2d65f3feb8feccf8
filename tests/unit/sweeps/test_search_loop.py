from __future__ import annotations

import json

import optuna
import pytest
from optuna.trial import TrialState

from embedexp.config.errors import UserError
from embedexp.runs.trial import PRUNED
from embedexp.sweeps.search.grammar import from_overrides
from embedexp.sweeps.search.loop import OVERRIDES, REASON, Search
from embedexp.sweeps.search.study import open_study, question

from .search_help import Functions, Heard, bowl, numbers, search, settings


def space_of(*overrides, when=None):
    return from_overrides(overrides, when=when)[1]


PLANE = ("x=interval(-1,1)", "y=interval(-1,1)")


def suggested(study):
    return [trial.user_attrs.get(OVERRIDES) for trial in study.trials]


@pytest.mark.parametrize(
    ("sampler", "trials", "limit"),
    [
        ("random", 40, 0.15),
        ("qmc", 40, 0.15),
        ("tpe", 40, 0.05),
        ("gp", 14, 0.01),
        ("cmaes", 40, 0.05),
    ],
)
def test_each_sampler_approaches_the_maximum(sampler, trials, limit):
    study, problem, _ = search(
        None, space_of(*PLANE), Functions(bowl), trials=trials, sampler=sampler
    )
    assert problem is None
    assert len(study.trials) == trials
    # A random point of the square is at -0.8 in the mean.
    assert study.best_value > -limit


def test_several_objectives_give_trials_that_none_beats_in_all():
    def two(x, y):
        return (x, -x - y**2)

    study, _, _ = search(
        None,
        space_of(*PLANE),
        Functions(two),
        trials=60,
        sampler="nsgaii",
        population=10,
        objective=["a", "b"],
        direction=["maximize", "maximize"],
    )
    front = study.best_trials
    assert len(front) > 1
    for trial in study.trials:
        pairs = [list(zip(t.values, trial.values, strict=True)) for t in front]
        assert any(all(a >= b for a, b in pair) for pair in pairs)
    # On the front y is 0, and generations come nearer to it.
    far = [abs(numbers(trial.user_attrs[OVERRIDES])["y"]) for trial in study.trials]
    assert sum(far[-10:]) < 0.7 * sum(far[:10])


@pytest.mark.parametrize("sampler", ["random", "qmc", "tpe", "gp", "cmaes", "nsgaii"])
def test_an_interrupted_search_goes_on_as_if_it_had_not_been(sampler):
    space = space_of(*PLANE, "z=a,b")
    changed = {"startup": 3} if sampler in ("tpe", "gp") else {}
    changed["sampler"] = sampler
    whole, _, _ = search(None, space, Functions(bowl), trials=8, **changed)
    runner = Functions(bowl)
    parts, _, _ = search(None, space, runner, trials=4, **changed)
    search(parts, space, runner, trials=8, **changed)
    assert suggested(parts) == suggested(whole)
    assert len({tuple(texts) for texts in suggested(whole)}) == 8  # none is proposed twice


def test_the_seed_decides_a_sequential_search():
    found = [
        suggested(search(None, space_of(*PLANE), Functions(bowl), trials=6, seed=seed)[0])
        for seed in (1, 1, 2)
    ]
    assert found[0] == found[1] != found[2]


def test_trials_counts_complete_ones_and_those_of_before(tmp_path):
    def moody(x):
        if x < 0:
            raise RuntimeError("killed: the process died")
        return x

    space = space_of("x=interval(-1,1)")
    study, problem, _ = search(tmp_path, space, Functions(moody), trials=5, sampler="random")
    states = [trial.state for trial in study.trials]
    assert problem is None
    assert states.count(TrialState.COMPLETE) == 5
    assert states.count(TrialState.FAIL) == len(states) - 5 > 0
    reasons = {t.user_attrs[REASON] for t in study.trials if t.state is TrialState.FAIL}
    assert reasons == {"killed: the process died"}
    runner = Functions(moody)
    study, _, _ = search(tmp_path, space, runner, trials=7, sampler="random")
    assert [trial.state for trial in study.trials].count(TrialState.COMPLETE) == 7
    search(tmp_path, space, after := Functions(moody), trials=7, sampler="random")
    assert after.started == []  # there is nothing to do


def test_nan_and_invalid_trials_are_recorded_and_stop_nothing():
    def nan(x, invalid):
        return float("nan") if x == 1 else x

    study, problem, _ = search(
        None,
        space_of("x=1,2,3", "invalid=yes,no"),
        Functions(nan),
        trials=8,
        sampler="random",
        most_failures=30,
    )
    assert problem is None
    reasons = {
        t.user_attrs[REASON].partition(": ")[2] for t in study.trials if t.state.name == "FAIL"
    }
    told = {t.user_attrs[REASON] for t in study.trials if t.state.name == "FAIL"}
    assert "its value is nan" in told
    assert any(reason.startswith("there is no key invalid") for reason in reasons)
    assert all(t.value in (2, 3) for t in study.trials if t.state is TrialState.COMPLETE)


def test_a_trial_that_failed_is_not_run_again_in_the_same_search():
    def never(x):
        raise RuntimeError("out of memory")

    runner = Functions(never)
    study, problem, _ = search(None, space_of("x=1,2"), runner, trials=2, most_failures=6)
    assert sorted(runner.started) == ["x=1", "x=2"]
    assert "6 trials in a row have failed" in problem
    assert "out of memory" in problem
    assert len(study.trials) == 6
    assert any(t.user_attrs[REASON].startswith("as trial ") for t in study.trials)


def test_a_repeated_suggestion_takes_the_finished_run():
    runner = Functions(lambda x: x)
    study, _, _ = search(None, space_of("x=1,2"), runner, trials=9)
    assert len(study.trials) == 9
    assert sorted(runner.started) == ["x=1", "x=2"]


def test_no_more_trials_run_than_may_and_than_are_missing():
    runner = Functions(bowl, parallel=4)
    study, _, _ = search(None, space_of(*PLANE), runner, trials=6)
    assert runner.most_at_once == 4
    assert len(study.trials) == 6  # not 8: the last wave fills what is missing


def test_conditional_keys_are_searched_where_they_count():
    def function(kind, x=None, **_):
        return 0.5 if kind == "flat" else bowl(x)

    space = space_of("kind=flat,bowl", "x=interval(-1,1)", when={"x": {"kind": "bowl"}})
    for sampler in ("tpe", "gp"):
        study, _, _ = search(None, space, Functions(function), trials=13, sampler=sampler)
        for trial in study.trials:
            assert ("x" in trial.params) == (trial.params["kind"] == "bowl")


def killed(tmp_path, space, after):
    """A study whose process died: `after` says what it had done of its last trial."""
    chosen = settings(trials=3)
    study = open_study(
        "test", str(tmp_path / "journal.log"), question(chosen, space, []), ["maximize"]
    )
    trial = study.ask()
    if after == "suggested":
        trial.set_user_attr(OVERRIDES, space.suggest(trial))
    return trial.number


def test_a_trial_that_was_running_when_the_search_was_killed_is_taken_up(tmp_path):
    space = space_of("x=interval(0,1)")
    number = killed(tmp_path, space, "suggested")
    runner = Functions(bowl)
    study, _, events = search(tmp_path, space, runner, trials=3)
    assert events[:2] == [("resumed", number), ("complete", number)]
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * 3


def test_a_trial_pruned_while_nobody_led_the_search_is_not_run_again(tmp_path):
    space = space_of("x=interval(0,1)")
    number = killed(tmp_path, space, "suggested")
    study = open_study(
        "test", str(tmp_path / "journal.log"), question(settings(trials=3), space, []), ["maximize"]
    )
    trial = study.trials[number]
    study._storage.set_trial_user_attr(trial._trial_id, PRUNED, 4)
    runner = Functions(bowl)
    study, _, events = search(tmp_path, space, runner, trials=3)
    assert events[0] == ("pruned", number)
    assert trial.user_attrs[OVERRIDES] not in runner.seen.values()
    assert [trial.state for trial in study.trials].count(TrialState.COMPLETE) == 3


def test_trials_of_one_run_are_all_pruned_with_it():
    """The run knows of one of them, whose mark it leaves; it is no failure of the others."""
    study = optuna.create_study(direction="maximize")

    def pruned(x):
        if x == 1:
            (first, *_) = (t for t in study.trials if t.user_attrs.get(OVERRIDES) == ["x=1"])
            study._storage.set_trial_intermediate_value(first._trial_id, 2, 0.5)
            study._storage.set_trial_user_attr(first._trial_id, PRUNED, 2)
            raise RuntimeError("cancelled: stopped by its search")
        return x

    runner = Functions(pruned, parallel=4)
    _, problem, events = search(study, space_of("x=1,2"), runner, trials=8, sampler="random")
    assert problem is None
    ones = [trial for trial in study.trials if trial.user_attrs[OVERRIDES] == ["x=1"]]
    assert len(ones) > 1
    assert events[:4] == [("started", number) for number in range(4)]
    assert sum(trial.user_attrs[OVERRIDES] == ["x=1"] for trial in study.trials[:4]) > 1
    assert {trial.state for trial in ones} == {TrialState.PRUNED}
    assert all(trial.user_attrs[PRUNED] == 2 for trial in ones)
    assert all(trial.intermediate_values == {2: 0.5} for trial in ones)
    assert runner.started.count("x=1") == 1


def test_a_trial_that_was_being_chosen_then_has_failed(tmp_path):
    space = space_of("x=interval(0,1)")
    number = killed(tmp_path, space, "asked")
    study, _, _ = search(tmp_path, space, Functions(bowl), trials=3)
    assert study.trials[number].state is TrialState.FAIL
    assert "ended while it chose" in study.trials[number].user_attrs[REASON]
    assert len(study.trials) == 4


def test_most_trials_is_a_limit_to_all_kinds():
    def never(x):
        raise RuntimeError("no")

    study, problem, _ = search(
        None, space_of("x=interval(0,1)"), Functions(never), trials=3, most_trials=4
    )
    assert len(study.trials) == 4
    assert "4 trials of all kinds" in problem


def test_a_study_of_that_name_that_asks_something_else_is_not_gone_on_with(tmp_path):
    search(tmp_path, space_of("x=interval(0,1)"), Functions(bowl), trials=1)
    with pytest.raises(UserError, match="its space differ"):
        search(tmp_path, space_of("x=interval(0,2)"), Functions(bowl), trials=2)


def test_an_interrupt_leaves_trials_to_be_taken_up(tmp_path):
    def interrupt(x):
        raise KeyboardInterrupt

    space = space_of("x=interval(0,1)")
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, space, Functions(interrupt), trials=2)
    chosen = settings(trials=2)
    study = open_study(
        "test", str(tmp_path / "journal.log"), question(chosen, space, []), ["maximize"]
    )
    assert [trial.state for trial in study.trials] == [TrialState.RUNNING]
    assert Search(study, space, chosen, Functions(bowl), Heard(), 0.0).run() is None
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * 2


def test_what_a_study_asks_can_be_written_as_json():
    asked = question(settings(), space_of("x=range(0,3)", "y=a,b"), ["seed=1", "paths.runs=a"])
    assert json.loads(json.dumps(asked)) == asked
    assert asked["fixed"] == ["seed=1"]  # where runs lie is no part of the question
