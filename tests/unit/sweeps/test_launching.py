"""A sweep runs each cell once, in the order of what reads what, here and on a cluster."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from embedexp.runs import RunDirectory, State
from embedexp.runs.registry import find
from embedexp.sweeps.file import read
from embedexp.sweeps.launching import launch, launcher_of
from embedexp.sweeps.planning import plan

FAKE_SLURM = Path(__file__).parents[1] / "launch" / "fake" / "slurm"
CHAIN = {
    "title": "Pipeline",
    "question": "Does each stage help?",
    "base": ["backbone=tiny", "tracking=none"],
    "stages": {
        "pretrain": ["stage=mlm", "loss=mlm"],
        "finetune": ["backbone.weights=pretrained", "backbone.source={pretrain}"],
    },
    "rows": {"a": ["loss.temperature=0.05"], "b": ["loss.temperature=0.02"]},
    "seeds": [0, 1],
}


def written(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path


def command(folder: Path, *words: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "embedexp", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        **options,
    )


def output(folder: Path, *words: str) -> tuple[int, str]:
    process = command(folder, *words)
    text, _ = process.communicate(timeout=120)
    return process.returncode, text


def by_stage(folder: Path) -> dict[tuple[str, int, float], RunDirectory]:
    found = {}
    for run in find(folder / "runs"):
        config = run.config
        found[config.stage.name, config.seed, getattr(config.loss, "temperature", 0.0)] = run
    return found


def test_a_failing_run_stops_only_what_reads_it_and_a_retry_goes_on(
    stand_in: dict[str, str], tmp_path: Path
) -> None:
    file = written(tmp_path, {**CHAIN, "seeds": [0, 11]})  # 11 fails
    code, text = output(tmp_path, "sweep", str(file))
    assert code == 1, text
    runs = by_stage(tmp_path)
    assert runs["mlm", 0, 0.0].status.state is State.FINISHED
    assert runs["mlm", 11, 0.0].status.state is State.FAILED
    for temperature in (0.05, 0.02):
        assert runs["contrastive", 0, temperature].status.state is State.FINISHED
        skipped = runs["contrastive", 11, temperature].status
        assert skipped.state is State.SKIPPED
        assert skipped.starts == 0
        assert "pretrain · seed 11, which it reads, has not finished (failed)" in skipped.message
    assert "50.00 (1 missing)" in text
    assert "Missing: a · seed 11; b · seed 11. Reason: skipped" in text
    # All of that can be asked for by the file's name, and tried again.
    code, text = output(tmp_path, "status", str(file))
    assert code == 0, text
    assert "6 runs: 3 finished, 2 skipped, 1 failed (NaN)" in text
    assert "a · finetune · seed 11" in text
    code, text = output(tmp_path, "retry", str(file))
    assert code == 1, text
    assert by_stage(tmp_path)["mlm", 11, 0.0].status.starts == 2
    assert by_stage(tmp_path)["contrastive", 11, 0.05].status.state is State.SKIPPED
    assert by_stage(tmp_path)["mlm", 0, 0.0].status.starts == 1


def test_a_sweep_killed_at_any_moment_ends_with_each_cell_run_once(
    stand_in: dict[str, str], tmp_path: Path
) -> None:
    file = written(tmp_path, CHAIN)
    started = command(tmp_path, "sweep", str(file), start_new_session=True)
    time.sleep(random.Random(os.getpid()).uniform(1.0, 4.0))
    os.kill(started.pid, signal.SIGKILL)  # its cells live on, in sessions of their own
    started.wait()
    started.stdout.close()
    code, text = output(tmp_path, "sweep", str(file))
    assert code == 0, text
    runs = by_stage(tmp_path)
    assert len(runs) == 6
    assert {
        key: (run.status.state, run.status.starts) for key, run in runs.items()
    } == dict.fromkeys(runs, (State.FINISHED, 1))
    assert "missing" not in text
    code, again = output(tmp_path, "sweep", str(file))
    assert code == 0, again
    assert "6 finished, 0 to run" in again
    assert all(run.status.starts == 1 for run in by_stage(tmp_path).values())


def test_plan_says_what_would_be_run_and_runs_nothing(tmp_path: Path) -> None:
    code, text = output(tmp_path, "sweep", str(written(tmp_path, CHAIN)), "--plan")
    assert code == 0, text
    assert "2 cells, each with 2 seeds (0, 1): 6 runs, 0 finished, 6 to run" in text
    assert "2 runs shared by several cells, run once" in text
    assert "b · finetune · seed 1   to run" in text
    assert [entry.name for entry in tmp_path.iterdir()] == ["sweep.yaml"]


def test_the_table_is_made_from_finished_runs_alone(
    tmp_path: Path,
    finish: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from embedexp.cli import main

    monkeypatch.chdir(tmp_path)
    file = written(tmp_path, CHAIN)
    assert main(["table", str(file)]) == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) <= 3
    assert "no cell of" in told
    for run in plan(read(file)).runs:
        if run.label.startswith("a"):
            finish(run, {"X": 0.5 + run.config.seed / 100})
    assert main(["table", str(file), "--to", "table.md"]) == 0
    content = (tmp_path / "table.md").read_bytes()
    assert "50.50 ± 6.35".encode() in content
    assert b"| b | missing (not run) |" in content
    assert main(["table", str(file), "--to", "table.md"]) == 0
    assert (tmp_path / "table.md").read_bytes() == content


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["sweep", "missing.yaml"], "no sweep file missing.yaml"),
        (["sweep", "sweep.yaml", "hydra.launcher.proceses=2"], "did you mean processes"),
        (["sweep", "sweep.yaml", "--only", "c"], "no cell has this label"),
        (["sweep", "sweep.yaml", "--seeds", "x"], "whole numbers"),
        (["sweep", "sweep.yaml", "a"], "'a' is no override"),
        (["table", "sweep.yaml", "--format", "pdf"], "no format 'pdf'"),
        (["status", "sweep.yaml"], "has not been launched"),
    ],
)
def test_mistakes_are_told_without_a_traceback(
    tmp_path: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from embedexp.cli import main

    monkeypatch.chdir(tmp_path)
    written(tmp_path, CHAIN)
    assert main(words) == 2
    text = capsys.readouterr().err
    assert told in text
    assert len(text.strip().splitlines()) <= 3


def test_planning_a_sweep_imports_nothing_heavy(tmp_path: Path) -> None:
    file = written(tmp_path, CHAIN)
    code = (
        "import sys; from embedexp.cli import main; "
        f"main(['sweep', {str(file)!r}, '--plan']); "
        "print(sorted({'torch', 'lightning', 'transformers', 'mteb'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert found.stdout.splitlines()[-1] == "[]"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the stand-ins for SLURM's commands write into, with them on the PATH."""
    pytest.importorskip("submitit")
    commands, folder = tmp_path / "bin", tmp_path / "slurm"
    commands.mkdir()
    folder.mkdir()
    for name in ("sbatch", "sinfo", "scontrol", "srun", "squeue", "sacct"):
        (commands / name).symlink_to(FAKE_SLURM)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SLURM", str(folder))
    return folder


def dependencies(cluster: Path) -> dict[str, str | None]:
    """What each submitted job waits for, by the number of its script."""
    found = {}
    for path in sorted(cluster.glob("*.sh")):
        lines = [line for line in path.read_text().splitlines() if "--dependency=" in line]
        found[path.stem] = lines[0].partition("--dependency=")[2] if lines else None
    return found


def test_on_a_cluster_the_stages_of_a_cell_are_jobs_that_wait_for_each_other(
    cluster: Path, tmp_path: Path
) -> None:
    file = written(tmp_path, CHAIN)
    name, settings, typed = launcher_of(["hydra/launcher=slurm", f"paths.runs={tmp_path / 'runs'}"])
    assert name == "slurm"
    planned = plan(read(file), typed)
    outcomes = launch(planned, file, name, settings)
    assert [one.state for one in outcomes] == ["queued"] * 6
    # Job 100 is the array of both pretraining runs; the cells of each seed wait for their own.
    waits = dependencies(cluster)
    assert waits == {"100": None, "101": "afterok:100_0", "102": "afterok:100_1"}
    jobs = {run.label: run.directory.job.id for run in planned.runs}
    assert jobs["pretrain · seed 1"] == "100_1"
    assert jobs["b · finetune · seed 1"] == "102_1"
    # A retry finds out for itself what to wait for, by then.
    assert planned.runs[-1].directory.job.settings["dependency"] is None


def test_a_finished_predecessor_is_nothing_to_wait_for(
    cluster: Path, finish: Any, tmp_path: Path
) -> None:
    file = written(tmp_path, CHAIN)
    name, settings, typed = launcher_of(["hydra/launcher=slurm", f"paths.runs={tmp_path / 'runs'}"])
    planned = plan(read(file), typed)
    finish(planned.runs[0], {})
    launch(planned, file, name, {**settings, "dependency": "afterok:7"})
    waits = list(dependencies(cluster).values())
    assert waits == ["afterok:7", "afterok:7,afterok:100_1"]
