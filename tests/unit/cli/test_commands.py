"""Commands: looking at runs, comparing experiments, going on with one."""

from __future__ import annotations

import io
import json
import threading
import time
from pathlib import Path

import pytest

from embedexp.cli import main
from embedexp.cli.commands import COMMANDS
from embedexp.cli.logs import follow
from embedexp.runs.registry import find

SMALL = ["backbone=tiny", "tracking=none"]


@pytest.fixture
def finished(here: Path, stage):
    """A finished run with scores, in runs/."""

    def score(run) -> None:
        run.log_file.write_text("first line\n\x1b[2Jsecond [bold]line\n")
        run.evaluation.mkdir()
        base = {"task": "[red]Toy", "type": "STS", "metric": "cosine_spearman", "seconds": 1.0}
        before, after = ({**base, "value": value, "fingerprint": "x"} for value in (0.25, 0.5))
        content = {"before": [before], "after": [after], "settings": {}}
        run.scores_file.write_text(json.dumps(content))

    stage(score)
    assert main(SMALL) == 0
    (run,) = find("runs")
    return run


def test_unknown_command_is_answered_with_the_nearest(capsys) -> None:
    assert main(["stauts"]) == 2
    error = capsys.readouterr().err
    assert "did you mean status?" in error
    assert len(error.splitlines()) <= 3


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "help"])
def test_every_command_has_its_help(name: str, capsys) -> None:
    assert main(["help", name]) == 0
    first = capsys.readouterr().out
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out == first
    assert first.startswith(f"usage: python -m embedexp {name}")


def test_status_without_runs_says_how_to_start_one(here: Path, capsys) -> None:
    assert main(["status"]) == 0
    assert "python -m embedexp" in capsys.readouterr().out


def test_status_lists_runs_and_describes_one(finished, capsys) -> None:
    capsys.readouterr()
    assert main(["status"]) == 0
    listed = capsys.readouterr().out
    assert finished.name in listed
    assert "finished" in listed
    assert main(["status", finished.signature[:4]]) == 0
    assert "results" in capsys.readouterr().out


def test_status_of_an_unknown_run_is_a_users_mistake(finished, capsys) -> None:
    assert main(["status", "experimnt"]) == 2
    assert "did you mean experiment?" in capsys.readouterr().err


def test_runs_elsewhere_are_found_with_runs(finished, here: Path, capsys, monkeypatch) -> None:
    (here / "empty").mkdir()
    monkeypatch.chdir(here / "empty")
    assert main(["status", "--runs", "../runs", finished.name]) == 0
    assert main(["status", "../runs"]) == 0
    assert finished.name in capsys.readouterr().out


def test_results_show_scores_before_and_after_with_names_taken_literally(finished, capsys) -> None:
    capsys.readouterr()
    assert main(["results", finished.name]) == 0
    output = capsys.readouterr().out
    assert "0.2500" in output
    assert "0.5000" in output
    assert "[red]Toy" in output


def test_results_of_a_run_without_scores_say_so(here: Path, stage, capsys) -> None:
    stage(lambda run: None)
    assert main(SMALL) == 0
    assert main(["results", "experiment"]) == 0
    assert "no scores" in capsys.readouterr().out


def test_logs_print_the_log_without_control_sequences(finished, capsys) -> None:
    capsys.readouterr()
    assert main(["logs", finished.name]) == 0
    assert capsys.readouterr().out == "first line\nsecond [bold]line\n"


def test_followed_log_grows_until_the_run_ends(here: Path, stage) -> None:
    stage(lambda run: None)
    assert main(SMALL) == 0
    (run,) = find("runs")
    with run.owned():
        run.clear()
        run.start("contrastive")
        out = io.StringIO()
        reader = threading.Thread(
            target=follow, args=(type(run)(run.path),), kwargs={"wait": True, "out": out}
        )
        reader.start()
        for line in ("one", "two"):
            with run.log_file.open("a") as log:
                log.write(f"{line}\n")
            time.sleep(0.1)
        assert reader.is_alive()
        run.finish()
        reader.join(timeout=5)
    assert not reader.is_alive()
    assert out.getvalue() == "one\ntwo\n"


def test_resume_goes_on_with_a_planned_run_from_its_frozen_config(
    here: Path, stage, monkeypatch, capsys
) -> None:
    from embedexp.launch.plan import plan

    executed = stage(lambda run: None)
    (cell,) = plan([[*SMALL, "seed=6"]]).cells
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    assert main(["resume", str(here / cell.run.path)]) == 0
    assert executed[0].seed == 6
    assert list((here / "elsewhere").iterdir()) == []
    monkeypatch.chdir(here)
    assert cell.run.status.state.value == "finished"


def test_resume_of_a_finished_run_shows_its_results(finished, stage, capsys) -> None:
    executed = stage(lambda run: None)
    capsys.readouterr()
    assert main(["resume", finished.name]) == 0
    assert "is finished" in capsys.readouterr().out
    assert executed == []


def test_resume_refuses_when_the_experiment_is_another_by_now(here: Path, stage, capsys) -> None:
    from embedexp.launch.plan import plan

    executed = stage(lambda run: None)
    (cell,) = plan([SMALL]).cells
    text = cell.run.config_file.read_text()
    cell.run.config_file.write_text(text.replace("seed: 0", "seed: 9"))
    assert main(["resume", str(cell.run.path)]) == 2
    assert "can't go on" in capsys.readouterr().err
    assert executed == []


def test_diff_compares_runs_files_and_overrides(finished, capsys) -> None:
    assert main(["diff", finished.name, "backbone=tiny tracking=none seed=5"]) == 0
    output = capsys.readouterr().out
    assert "seed" in output
    assert "temperature" not in output
    assert main(["diff", str(finished.config_file), "routing=mot"]) == 2


def test_show_describes_overrides_and_runs_alike(finished, capsys) -> None:
    capsys.readouterr()
    assert main(["show", *SMALL]) == 0
    from_overrides = capsys.readouterr().out
    assert main(["show", finished.name]) == 0
    assert finished.signature in from_overrides
    assert finished.signature in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["logs"], ["resume"], ["diff"], ["results", "a", "b"]])
def test_wrong_arguments_of_a_command_are_told_briefly(arguments: list[str], capsys) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) <= 3
    assert f"help {arguments[0]}" in error


def test_a_terminal_of_few_characters_gets_escapes(here: Path, monkeypatch) -> None:
    bytes_written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(bytes_written, encoding="ascii"))
    assert main(["show", *SMALL, "paths.runs='rüns'"]) == 0
    assert b"r\\xfcns/experiment-" in bytes_written.getvalue()
