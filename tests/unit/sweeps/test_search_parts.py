from __future__ import annotations

import pytest
from optuna.trial import TrialState

from embedexp.cli import main
from embedexp.config import compose
from embedexp.config.errors import UserError
from embedexp.runs import RunDirectory
from embedexp.runs.trial import Trial, read_trial
from embedexp.sweeps.search import study as studies
from embedexp.sweeps.search.checks import probe, require_comparable, require_prunable
from embedexp.sweeps.search.grammar import from_overrides
from embedexp.sweeps.search.objective import Named, NoValueError, require_measured
from embedexp.sweeps.search.plots import draw, importances
from embedexp.sweeps.search.run import Launcher, launcher_of, run
from embedexp.sweeps.search.runs import LocalPlaces, Runs
from embedexp.sweeps.search.samplers import advice

from .search_help import Functions, bowl, search, settings

PNG = b"\x89PNG\r\n\x1a\n"


def space_of(*overrides, when=None):
    return from_overrides(overrides, when=when)[1]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"trials": 0}, "trials=0, but it takes"),
        ({"sampler": "tpee"}, "sampler=tpee"),
        ({"trails": 3}, "did you mean trials"),
        ({"objective": ["a", "a"]}, "different objectives"),
        ({"objective": ["a", "b"], "direction": ["maximize"] * 3}, "3 directions"),
        ({"objective": ["a", "b"], "sampler": "cmaes"}, "one objective"),
        ({"objective": ["a", "b"], "pruner": "asha"}, "single objective"),
        ({"seeds": [0, 1], "pruner": "asha"}, "one run each"),
        ({"seeds": [0, 0]}, "twice"),
        ({"startup": 3, "sampler": "random"}, "no effect"),
        ({"population": 3}, "no effect"),
        ({"most_trials": 3}, "below trials"),
        ({"prune_by": "loss"}, "prune_by has no effect without"),
        ({"prune_every": 5}, "prune_every has no effect without"),
        ({"reduction": 3}, "reduction has no effect without"),
        ({"reduction": 3, "pruner": "median"}, "reduction has no effect with"),
        ({"study": "a/b"}, "a name of letters"),
    ],
)
def test_settings_that_are_wrong_or_have_no_effect_are_refused(changed, told):
    with pytest.raises(UserError, match=told):
        settings(**changed)


def test_what_a_sampler_draws_at_random_is_said():
    mixed = space_of("a=interval(0,1)", "b=x,y")
    assert "b is drawn at random" in advice(settings(sampler="qmc"), mixed)[0]
    assert len(advice(settings(sampler="cmaes"), mixed)) == 2
    assert "first generation, 50 trials" in advice(settings(sampler="nsgaii"), mixed)[0]
    assert advice(settings(sampler="tpe"), mixed) == []


def test_the_probe_finds_a_misspelt_key_before_anything_starts():
    with pytest.raises(UserError, match="temperature"):
        probe([], space_of("loss.temprature=interval(0.01,0.1)"), settings())
    # One bad value among good ones is found out by the search.
    assert probe([], space_of("loss.temperature=0.1,-1"), settings()).loss.temperature == 0.1


def test_an_objective_that_is_not_measured_is_refused_before():
    config = compose(["evaluation.tasks=[WordNetSimilarity]"])
    require_measured([Named("mean", "maximize"), Named("WordNetSimilarity", "maximize")], config)
    with pytest.raises(UserError, match="did you mean WordNetSimilarity"):
        require_measured([Named("WordNetSimilarty", "maximize")], config)
    with pytest.raises(UserError, match="nothing is scored"):
        require_measured([Named("mean", "maximize")], compose(["evaluation=none"]))
    with pytest.raises(UserError, match="largest loss"):
        probe([], space_of("seed=1", "a=1,2"), settings(objective="loss"))


def test_losses_that_cannot_be_compared_prune_nothing():
    config = compose([])
    chosen = settings(pruner="asha", prune_by="loss")
    require_prunable(chosen, space_of("optimizer.learning_rate=interval(1e-4,1e-3)"), config)
    for text in ("loss.temperature=interval(0.01,0.1)", "batching.size=16,32", "routing=dense,moe"):
        with pytest.raises(UserError, match="can't be compared"):
            require_prunable(chosen, space_of(text), config)
        require_prunable(settings(pruner="asha"), space_of(text), config)
    by_score = settings(pruner="asha", objective="seconds", direction="minimize")
    with pytest.raises(UserError, match="no score"):
        require_prunable(by_score, space_of("a=1,2"), config)
    with pytest.raises(UserError, match="whole model in one process"):
        require_prunable(settings(pruner="asha"), space_of("a=1,2"), compose(["compute=fsdp"]))


@pytest.mark.parametrize("objective", ["loss", ["mean", "loss"]])
def test_losses_that_cannot_be_compared_are_no_objective(objective):
    directions = {"loss": "minimize", "mean": "maximize"}
    names = [objective] if isinstance(objective, str) else objective
    chosen = settings(objective=objective, direction=[directions[name] for name in names])
    require_comparable(chosen, space_of("optimizer.learning_rate=interval(1e-4,1e-3)"))
    for text in ("loss.temperature=interval(0.01,0.1)", "batching.size=16,32"):
        with pytest.raises(UserError, match="can't be compared"):
            require_comparable(chosen, space_of(text))
        with pytest.raises(UserError, match="can't be compared"):
            run([], space_of(text), chosen, Launcher("local", {"processes": 1}))
        require_comparable(settings(), space_of(text))


def finished(folder, scores=(), losses=()):
    run = RunDirectory(folder)
    run.evaluation.mkdir(parents=True)
    import json

    listed = [{"task": task, "type": "STS", "metric": "m", "value": v} for task, v in scores]
    run.scores_file.write_text(json.dumps({"before": [], "after": listed}))
    for step, loss in enumerate(losses, 1):
        run.metrics.append({"step": step, "loss": loss})
    return run


def test_objectives_are_read_from_what_a_run_leaves(tmp_path):
    run = finished(tmp_path, [("A", 0.2), ("B", 0.6)], [9.0] * 5 + [1.0] * 10 + [2.0] * 10)
    assert Named("mean", "maximize").read(run) == pytest.approx(0.4)
    assert Named("B", "maximize").read(run) == 0.6
    assert Named("loss", "minimize").read(run) == 1.5  # of the last 20 steps
    with pytest.raises(NoValueError, match="measured is A, B"):
        Named("C", "maximize").read(run)


def test_a_value_that_is_not_finite_is_no_value(tmp_path):
    run = finished(tmp_path, losses=[1.0, float("nan")])
    with pytest.raises(NoValueError, match="nan"):
        Named("loss", "minimize").read(run)
    with pytest.raises(NoValueError, match="measured is nothing"):
        Named("mean", "maximize").read(run)


def test_sqlite_is_refused_where_it_loses_data(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path / 's.db'}"
    assert studies.storage_of(settings(storage=url), tmp_path) == url
    monkeypatch.setattr(studies, "file_system", lambda folder: "nfs4")
    with pytest.raises(UserError, match="network file system"):
        studies.storage_of(settings(storage=url), tmp_path)
    with pytest.raises(UserError, match="memory of one process"):
        studies.storage_of(settings(storage="sqlite://"), tmp_path)
    assert studies.storage_of(settings(), tmp_path) == str(tmp_path / "journal.log")


@pytest.mark.parametrize(
    "url", ["postgresql://u:secret@host/db", "mysql+pymysql://u@host/db?passwd=secret"]
)
def test_a_password_is_not_left_in_the_directories_of_runs(tmp_path, url):
    with pytest.raises(UserError, match="holds a password") as caught:
        studies.storage_of(settings(storage=url), tmp_path)
    assert "secret" not in str(caught.value)
    without = "postgresql://u@host/db?sslmode=require"
    assert studies.storage_of(settings(storage=without), tmp_path) == without


def test_a_database_holds_a_search_as_a_journal_does(tmp_path):
    asked = studies.question(settings(), space_of("x=interval(-1,1)"), [])
    url = f"sqlite:///{tmp_path / 's.db'}"
    made = studies.open_study("s", url, asked, ["maximize"])
    search(made, space_of("x=interval(-1,1)"), Functions(bowl), trials=2)
    again = studies.open_study("s", url, asked, ["maximize"])
    assert [trial.state for trial in again.trials] == [TrialState.COMPLETE] * 2


def test_the_file_system_of_a_folder_is_that_of_its_nearest_mount(tmp_path, monkeypatch):
    class Mount:
        def __init__(self, mountpoint, fstype):
            self.mountpoint, self.fstype = mountpoint, fstype

    mounts = [Mount("/", "ext4"), Mount(str(tmp_path), "NFS4"), Mount("/other", "tmpfs")]
    monkeypatch.setattr("psutil.disk_partitions", lambda all: mounts)
    assert studies.file_system(tmp_path / "deep" / "folder") == "nfs4"


def test_one_process_leads_a_search(tmp_path):
    with (
        studies.led(tmp_path / "s"),
        pytest.raises(UserError, match="going on already"),
        studies.led(tmp_path / "s"),
    ):
        pass


def test_a_run_that_nothing_may_prune_is_no_trial_of_an_earlier_search(tmp_path):
    shared = [f"paths.runs={tmp_path}", "backbone=tiny", "tracking=none"]
    settings = {"processes": 1, "snapshot": False}

    def runs(trial=None):
        places = LocalPlaces(1, "s", settings)
        return Runs(shared, (), "s", [], None, places, ("local", settings), trial)

    told = Trial("j", "s", 4, "asha", "loss", 2, 2, "mean", maximize=False)
    (name,) = runs(lambda number, config: told).prepare(["loss.temperature=0.03"], 4)
    run = RunDirectory(tmp_path / name)
    assert read_trial(run) == told
    assert runs().prepare(["loss.temperature=0.03"], 0) == [name]
    assert read_trial(run) is None


def test_a_launcher_from_elsewhere_is_refused():
    local = {"_target_": "x.LocalLauncher", "processes": 2, "snapshot": True}
    assert launcher_of(local, []).settings == {"processes": 2, "snapshot": True}
    slurm = {"_target_": "x.SlurmLauncher", "time": 5}
    assert launcher_of(slurm, ["hydra.launcher.time=5"]).typed == ("time",)
    with pytest.raises(UserError, match="can't use the launcher"):
        launcher_of({"_target_": "joblib.JoblibLauncher"}, [])


def test_the_key_that_decides_is_the_important_one(tmp_path):
    study, _, _ = search(
        None,
        space_of("x=interval(-1,1)", "y=interval(-1,1)"),
        Functions(lambda x, y: -((x - 0.3) ** 2) + 0.01 * y),
        trials=40,
        sampler="random",
    )
    (found,) = importances(study, 1)
    assert set(found) == {"fANOVA", "PED-ANOVA"}
    for shares in found.values():
        assert shares["x"] > 0.8
        assert sum(shares.values()) == pytest.approx(1.0)
    pictures = draw(study, ["mean"], tmp_path)
    assert [path.name for path in pictures] == ["history.png", "importance.png"]
    assert all(path.read_bytes().startswith(PNG) for path in pictures)


def test_of_conditional_keys_only_one_measure_knows():
    study, _, _ = search(
        None,
        space_of("k=a,b", "x=interval(-1,1)", when={"x": {"k": "a"}}),
        Functions(lambda k, x=0.0: x if k == "a" else -1.0),
        trials=40,
        sampler="random",
    )
    (found,) = importances(study, 1)
    assert "x" in found["PED-ANOVA"]
    assert "x" not in found.get("fANOVA", {})


def test_too_few_trials_say_nothing_of_importance(tmp_path):
    study, _, _ = search(None, space_of("x=interval(-1,1)"), Functions(bowl), trials=2)
    assert importances(study, 1) == [{}]
    assert [path.name for path in draw(study, ["mean"], tmp_path)] == ["history.png"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["seed=1"], "nothing is searched"),
        (["loss.temperature=interval(0.01,0.1)", "hydra.sweeper.trails=3"], "trails"),
        (["loss.temprature=interval(0.01,0.1)"], "temperature"),
        (["loss.temperature=interval(0.01,0.1)", "hydra.sweeper.objective=man"], "mean"),
        (["loss.temperature=interval(0.01"], "loss.temperature"),
    ],
)
def test_mistakes_are_told_on_the_command_line_and_nothing_is_made(tmp_path, capsys, words, told):
    folder = tmp_path / "runs"
    code = main(["-m", "hydra/sweeper=optuna", f"paths.runs={folder}", *words])
    error = capsys.readouterr().err
    assert code == 2
    assert told in error
    assert len(error.strip().splitlines()) <= 3
    assert not folder.exists()
