from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from embedexp.cli import main
from embedexp.config.errors import UserError
from embedexp.runs import State
from embedexp.runs.registry import find
from embedexp.sweeps.file import read
from embedexp.sweeps.search.grammar import from_overrides
from embedexp.sweeps.wandb_sweep import (
    chosen_cell,
    config,
    overrides_of_trial,
    search_config,
)

from .search_help import settings

HEAD = {"title": "A table", "question": "Which is better?"}


def sweep(folder, **content):
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump({**HEAD, **content}, sort_keys=False))
    return read(path)


def agent_arguments(made, **values):
    """What W&B's agent starts for these values, by W&B's own code."""
    utils = pytest.importorskip("wandb.sdk.launch.sweeps.utils")
    arguments = {name: {"value": value} for name, value in values.items()}
    filled = utils.create_sweep_command_args({"args": arguments})
    command = []
    for part in utils.create_sweep_command(made["command"]):
        command += filled["args_no_hyphens"] if part == "${args_no_hyphens}" else [part]
    return command[command.index("-m") + 2 :]


def test_axes_of_single_overrides_are_hydras_own(tmp_path):
    table = sweep(
        tmp_path,
        base=["backbone=tiny"],
        rows={"dense": ["routing=dense"], "experts": ["routing=moe"]},
        columns={"16": ["batching.size=16"], "32": ["batching.size=32"]},
        seeds=[0, 1],
    )
    made = config(table, "sweep.yaml", ["training.steps=3"])
    assert made["method"] == "grid"
    assert made["metric"] == {"name": "scores/mean", "goal": "maximize"}
    assert made["parameters"] == {
        "routing": {"values": ["dense", "moe"]},
        "batching.size": {"values": [16, 32]},
        "seed": {"values": [0, 1]},
    }
    started = agent_arguments(made, routing="moe", **{"batching.size": 16}, seed=1)
    assert started == [
        "backbone=tiny",
        "training.steps=3",
        "routing=moe",
        "batching.size=16",
        "seed=1",
    ]
    assert main(["--cfg", "job", "--package", "routing", *started]) == 0  # Hydra takes them


def test_labels_of_several_overrides_are_named_and_mean_the_tables_own_cell(tmp_path):
    table = sweep(
        tmp_path,
        rows={"small": ["routing=moe", "routing.num_experts=2"], "none": ["routing=dense"]},
        columns={"16": ["batching.size=16"], "32": ["batching.size=32"]},
        seeds=[0, 3],
    )
    made = config(table, "sweep.yaml")
    assert made["parameters"] == {
        "row": {"values": ["small", "none"]},
        "column": {"values": ["16", "32"]},
        "seed": {"values": [0, 3]},
    }
    started = agent_arguments(made, row="small", column="16", seed=3)
    assert started == ["cell", "sweep.yaml", "row=small", "column=16", "seed=3"]
    cell = chosen_cell(table, {"row": "small", "column": "16", "seed": "3"})
    assert (cell.row, cell.column, cell.seed) == ("small", "16", 3)


def test_a_base_that_sets_what_an_axis_sets_is_not_given_to_hydra_twice(tmp_path):
    table = sweep(
        tmp_path, base=["routing=moe"], rows={"a": ["routing=dense"], "b": ["routing=moe"]}
    )
    assert config(table, "f")["command"][4] == "cell"


def test_cells_that_are_left_out_are_not_in_the_grid(tmp_path):
    table = sweep(
        tmp_path,
        rows={"a": ["routing=dense"], "b": ["routing=moe"]},
        columns={"16": ["batching.size=16"], "32": ["batching.size=32"]},
        exclude=[{"row": "b", "column": "32"}],
    )
    names = config(table, "f")["parameters"]["cell"]["values"]
    assert len(names) == 3
    assert [chosen_cell(table, {"cell": name}).name for name in names] == names


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"row": "aa", "column": "16"}, "did you mean a"),
        ({"rows": "a", "column": "16"}, "did you mean row"),
        ({"row": "a"}, "2 cells fit"),
        ({"row": "a", "column": "16", "seed": "x"}, "no seed"),
    ],
)
def test_a_cell_that_is_not_there_is_told(tmp_path, given, told):
    table = sweep(
        tmp_path,
        rows={"a": ["routing=dense"], "b": ["routing=moe"]},
        columns={"16": ["batching.size=16"], "32": ["batching.size=32"]},
    )
    with pytest.raises(UserError, match=told):
        chosen_cell(table, given)


def searched(*overrides, when=None, base=(), **changed):
    _, space = from_overrides(overrides, when=when)
    chosen = settings(**changed)
    return space, search_config("A", "B?", base, space, chosen, "f.yaml")


def test_a_search_has_wandbs_distributions():
    _, made = searched(
        "a=interval(0,1)",
        "b=tag(log,interval(0.01,0.1))",
        "c=int(interval(1,4))",
        "d=tag(log,int(interval(1,64)))",
        "e=range(0,5,2)",
        "f=x,y",
        base=["backbone=tiny"],
        trials=7,
    )
    assert made["parameters"] == {
        "a": {"distribution": "uniform", "min": 0.0, "max": 1.0},
        "b": {"distribution": "log_uniform_values", "min": 0.01, "max": 0.1},
        "c": {"distribution": "int_uniform", "min": 1, "max": 4},
        "d": {"distribution": "q_log_uniform_values", "min": 1, "max": 64, "q": 1},
        "e": {"values": [0, 2, 4]},
        "f": {"values": ["x", "y"]},
    }
    assert (made["method"], made["run_cap"]) == ("bayes", 7)
    assert agent_arguments(made, a=0.5, f="x") == ["backbone=tiny", "a=0.5", "f=x"]


def test_conditional_keys_are_dropped_where_their_condition_fails():
    space, made = searched(
        "routing=dense,moe",
        "routing.num_experts=int(interval(2,8))",
        when={"routing.num_experts": {"routing": "moe"}},
    )
    assert made["command"][4:6] == ["cell", "f.yaml"]
    given = {"routing": "dense", "routing.num_experts": "4"}
    assert overrides_of_trial(space, given) == ["routing=dense"]
    given["routing"] = "moe"
    assert overrides_of_trial(space, given) == ["routing=moe", "routing.num_experts=4"]


def test_bad_runs_end_early_by_what_wandb_hears_of_while_they_train():
    changed = {"objective": "loss", "direction": "minimize", "pruner": "asha", "prune_every": 5}
    _, made = searched("a=interval(0,1)", **changed)
    assert made["early_terminate"] == {"type": "hyperband", "min_iter": 5, "eta": 3}
    assert made["metric"] == {"name": "loss", "goal": "minimize"}
    with pytest.raises(UserError, match="only at their end"):
        searched("a=interval(0,1)", pruner="asha")


@pytest.mark.parametrize(
    "changed",
    [
        {"sampler": "nsgaii", "objective": ["a", "b"]},
        {"sampler": "cmaes"},
        {"seeds": [0, 1]},
        {"objective": "seconds", "direction": "minimize"},
    ],
)
def test_what_wandb_has_not_is_refused(changed):
    with pytest.raises(UserError):
        searched("a=interval(0,1)", **changed)


def test_wandb_is_not_asked_to_compare_losses_that_mean_different_things():
    with pytest.raises(UserError, match="can't be compared"):
        searched("loss.temperature=0.1,0.2", objective="loss", direction="minimize")


SEARCH = """
mode: search
title: Temperature and recipe
question: Which?
base: [backbone=tiny]
space:
  loss.temperature: {low: 0.01, high: 0.1, log: true}
  recipe: {choice: {short: [training.steps=8, batching.size=16], long: [training.steps=16]}}
"""


def test_a_sweep_file_is_written_for_wandb(tmp_path, capsys):
    file, target = tmp_path / "s.yaml", tmp_path / "w.yaml"
    file.write_text(SEARCH)
    assert main(["sweep", str(file), "--wandb", "--to", str(target)]) == 0
    made = yaml.safe_load(target.read_text())
    assert made["command"][:6] == ["${env}", "python", "-m", "embedexp", "cell", str(file)]
    assert made["parameters"]["recipe"] == {"values": ["short", "long"]}
    assert f"wandb sweep --project embedexp {target}" in capsys.readouterr().out


def test_arguments_without_effect_are_refused(tmp_path, capsys):
    file = tmp_path / "s.yaml"
    file.write_text(SEARCH)
    for arguments in (["--plan"], ["--only", "x"], ["--seeds", "1"], ["--to", "x.yaml"]):
        assert main(["sweep", str(file), *arguments]) == 2
        assert "no effect" in capsys.readouterr().err


def test_words_that_a_file_has_no_use_for_are_refused(tmp_path, capsys):
    table, searches = tmp_path / "t.yaml", tmp_path / "s.yaml"
    table.write_text(yaml.safe_dump({**HEAD, "rows": {"a": ["seed=1"], "b": ["seed=2"]}}))
    searches.write_text(SEARCH)
    trial = ["cell", str(searches), "recipe=short", "loss.temperature=0.05"]
    for arguments, told in (
        (["sweep", str(table), "--wandb", "hydra.sweeper.trials=5"], "no effect"),
        (["sweep", str(table), "--wandb", "--seeds", "x"], "--seeds x"),
        (["sweep", str(searches), "hydra/sweeper=optuna"], "no effect"),
        (["cell", str(table), "row=a", "hydra/launcher=slurm"], "no effect"),
        ([*trial, "hydra.launcher.processes=2"], "no effect"),
    ):
        assert main(arguments) == 2
        assert told in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"t.yaml", "s.yaml"}


def test_a_cell_runs_in_the_agents_own_process_and_what_it_reads_before(tmp_path, runs, stand_in):
    """The agent's variables are those of this process: a run elsewhere would be no part of it."""
    content = {
        **HEAD,
        "base": ["backbone=tiny", "tracking=none", runs],
        "stages": {
            "pretrain": ["stage=mlm", "loss=mlm"],
            "finetune": ["backbone.weights=pretrained", "backbone.source={pretrain}"],
        },
        "rows": {"a": ["loss.temperature=0.05"], "b": ["loss.temperature=0.02"]},
    }
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    command = [sys.executable, "-m", "embedexp", "cell", str(file), "row=a"]
    subprocess.run(command, check=True, cwd=tmp_path)
    by_stage = {run.config.stage.name: run for run in find(tmp_path / "runs")}
    assert {run.status.state for run in by_stage.values()} == {State.FINISHED}
    assert by_stage["mlm"].job.launcher == "local"
    assert by_stage["contrastive"].job is None


def test_writing_for_wandb_stays_light(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(SEARCH)
    code = (
        "import sys; from embedexp.cli import main;"
        f"main(['sweep', {str(file)!r}, '--wandb', '--to', {str(tmp_path / 'w.yaml')!r}]);"
        "print({'torch', 'wandb', 'optuna'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
