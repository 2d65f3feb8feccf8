"""Overrides and Hydra's flags: what runs, what is only shown, and which exit code comes back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import embedexp
from embedexp.cli import main
from embedexp.runs.registry import find

SMALL = ["backbone=tiny", "tracking=none"]


def test_overrides_run_one_experiment(here: Path, stage, capsys) -> None:
    executed = stage(lambda run: None)
    assert main([*SMALL, "routing=moe", "seed=3"]) == 0
    (config,) = executed
    assert (config.routing.name, config.seed) == ("moe", 3)
    assert [entry.name for entry in here.iterdir()] == ["runs"]


def test_mistake_is_told_in_three_lines_without_traceback(here: Path, stage, capsys) -> None:
    executed = stage(lambda run: None)
    assert main(["routing=mot"]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) <= 3
    assert "moe" in error
    assert "Traceback" not in error
    assert executed == []
    assert list(here.iterdir()) == []


def test_failure_is_one_line_and_the_place_of_the_traceback(here: Path, stage, capsys) -> None:
    def explode(run) -> None:
        raise FloatingPointError("the loss is NaN at step 1\nand more")

    stage(explode)
    assert main(SMALL) == 1
    error = capsys.readouterr().err
    assert "failed (NaN): FloatingPointError: the loss is NaN at step 1" in error
    assert "log.txt" in error
    assert len(error.splitlines()) == 2


def test_failure_before_the_run_began_leaves_its_traceback_too(
    here: Path, monkeypatch, capsys
) -> None:
    def broken(config) -> None:
        from embedexp.runs import RunDirectory

        RunDirectory.of(config).freeze(config)
        raise OSError("no space left on device")

    monkeypatch.setattr(embedexp, "run", broken, raising=False)
    assert main(SMALL) == 1
    (run,) = find("runs")
    assert "no space left on device" in run.log_file.read_text()
    assert "Traceback" in run.log_file.read_text()


def test_interrupted_run_has_the_exit_code_of_an_interrupt(here: Path, stage, capsys) -> None:
    from embedexp.training.interrupt import InterruptedRunError

    def stop(run) -> None:
        run.preempt("stopped by SIGINT")
        raise InterruptedRunError("SIGINT")

    stage(stop)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("embedexp.runs.RunDirectory.fail", lambda self, error: None)
        assert main(SMALL) == 130
    assert "goes on" in capsys.readouterr().err


def test_cfg_job_prints_the_composed_yaml_and_runs_nothing(here: Path, stage, capsys) -> None:
    executed = stage(lambda run: None)
    assert main(["--cfg", "job", "seed=7"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["seed"] == 7
    assert "hydra" not in shown
    assert executed == []


def test_cfg_of_a_package_resolved(here: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("EMBEDEXP_CACHE", "/somewhere/else")
    assert main(["-c", "job", "-p", "paths", "--resolve"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("# @package paths\n")
    assert yaml.safe_load(output)["cache"] == "/somewhere/else"


def test_cfg_hydra_and_all_show_hydras_part(here: Path, capsys) -> None:
    assert main(["--cfg", "hydra"]) == 0
    assert set(yaml.safe_load(capsys.readouterr().out)) == {"hydra"}
    assert main(["--cfg", "all"]) == 0
    assert {"hydra", "loss"} <= set(yaml.safe_load(capsys.readouterr().out))


def test_cfg_of_a_wrong_experiment_shows_it_and_says_what_is_wrong(here: Path, capsys) -> None:
    assert main(["--cfg", "job", "loss.temperature=-1"]) == 2
    shown = capsys.readouterr()
    assert yaml.safe_load(shown.out)["loss"]["temperature"] == -1
    assert "loss.temperature" in shown.err


def test_info_names_the_folders_that_options_come_from(here: Path, capsys) -> None:
    own = here / "own"
    own.mkdir()
    assert main(["--info", "searchpath", "--config-dir", str(own)]) == 0
    assert str(own) in capsys.readouterr().out


def test_option_of_the_users_own_folder_runs(here: Path, stage) -> None:
    (here / "own" / "optimizer").mkdir(parents=True)
    from embedexp.config.locations import conf_dir

    text = (conf_dir() / "optimizer" / "adamw.yaml").read_text()
    (here / "own" / "optimizer" / "mine.yaml").write_text(text)
    executed = stage(lambda run: None)
    assert main(["-cd", "own", *SMALL, "optimizer=mine"]) == 0
    assert len(executed) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["hydra.run.dir=elsewhere"], "paths.runs="),
        (["hydra.job_logging=x"], "no effect"),
        (["+hydra.job.chdir=true"], "no effect"),
        (["hydra.laucher.processes=2", "-m"], "hydra.launcher"),
        (["hydra/launcher=local"], "add -m"),
        (["--config-name", "other"], "--config-dir"),
        (["--config-path", "other"], "--config-dir"),
        (["--experimental-rerun", "x.pickle"], "resume"),
        (["--resolve"], "--cfg"),
        (["-m", "--cfg", "job"], "exclude each other"),
        (["--multirn"], "--multirun"),
        (["--cfg", "jib"], "job"),
        (["--shell-completion"], "install=bash"),
        (["--cfg", "job", "-p", "nowhere"], "no part 'nowhere'"),
    ],
)
def test_flag_that_would_do_nothing_is_refused(
    arguments: list[str], words: str, here: Path, capsys
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert words in error
    assert len(error.splitlines()) <= 3


def test_completion_script_is_printed(capsys) -> None:
    assert main(["-sc", "install=bash"]) == 0
    assert "hydra_bash_completion" in capsys.readouterr().out


def test_reader_that_stops_reading_is_no_error(here: Path) -> None:
    command = f"{sys.executable} -m embedexp --cfg job | head -1"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == "backbone:\n"
    assert done.stderr == ""


def test_flags_may_stand_among_overrides(here: Path, stage) -> None:
    executed = stage(lambda run: None)
    assert main([SMALL[0], "-cd", str(here), SMALL[1], "seed=4"]) == 0
    assert executed[0].seed == 4


def test_help_lists_groups_with_their_default_commands_and_examples(here: Path, capsys) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "minilm*" in text
    assert "hydra/launcher" in text
    assert "local*" in text
    for command in ("show", "diff", "status", "logs", "resume", "results"):
        assert f"\n  {command} " in text
    assert max(map(len, text.splitlines())) <= 100


def test_version_is_the_packages(capsys) -> None:
    import tomllib

    assert main(["--version"]) == 0
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert capsys.readouterr().out == f"embedexp {project['version']}\n"


def test_public_names_are_found_without_importing_them_first() -> None:
    assert {"compose", "run", "build_embedder", "load", "parameter_counts"} <= set(embedexp.__all__)
    assert callable(embedexp.compose)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = embedexp.nothing
