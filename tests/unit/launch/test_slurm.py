"""Submitting to SLURM: what is asked of it, within its limits; nothing when something is wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from embedexp.config import UserError
from embedexp.config.locations import conf_dir
from embedexp.launch import slurm
from embedexp.launch.slurm_cluster import minutes, outside_of_jobs
from embedexp.launch.slurm_settings import profiles_folder, settings_of
from embedexp.runs import RunDirectory, State
from embedexp.runs.registry import find

pytest.importorskip("submitit")
FAKE = Path(__file__).parent / "fake" / "slurm"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the stand-ins for SLURM's commands write into, with them on the PATH."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("sbatch", "sinfo", "scontrol", "srun", "squeue", "sacct"):
        (commands / name).symlink_to(FAKE)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    folder = tmp_path / "slurm"
    folder.mkdir()
    monkeypatch.setenv("FAKE_SLURM", str(folder))
    return folder


def defaults(**changed: Any) -> dict[str, Any]:
    """The launcher's settings as its option has them."""
    text = (conf_dir() / "hydra" / "launcher" / "slurm.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    del content["_target_"]
    return content | changed


def cells(base: list[str], *seeds: int, more: tuple[str, ...] = ()) -> list[list[str]]:
    return [[*base, *more, f"seed={seed}"] for seed in seeds]


def scripts(cluster: Path) -> list[str]:
    return [path.read_text() for path in sorted(cluster.glob("*.sh"))]


RANKS = ("compute=ddp", "compute.accelerator=cpu", "compute.nodes=2", "compute.threads=3")


def test_cells_go_out_in_arrays_by_shape_and_within_the_largest_array(
    base: list[str], cluster: Path
) -> None:
    wanted = [*cells(base, 0, 1, 2, 3), *cells(base, 4, 5, more=RANKS)]
    outcomes = slurm.launch(wanted, settings=defaults(time=60, parallelism=2))
    assert [outcome.state for outcome in outcomes] == [State.QUEUED] * 6
    assert not any(outcome.failed for outcome in outcomes)
    one, single, ranks = scripts(cluster)
    assert "#SBATCH --array=0-2%2" in one
    assert "--array" not in single
    assert "#SBATCH --array=0-1%2" in ranks
    assert "#SBATCH --nodes=2" in ranks
    assert "#SBATCH --ntasks-per-node=2" in ranks
    assert "#SBATCH --cpus-per-task=5" in ranks
    assert "--cpus-per-task=5 --kill-on-bad-exit=1" in ranks
    for text in (one, single, ranks):
        assert "#SBATCH --time=60" in text
        assert "#SBATCH --requeue" in text
        assert "#SBATCH --signal=USR2@120" in text
        assert "--gpus" not in text
    ids = [outcome.cell.run.job.id for outcome in outcomes if outcome.cell.run.job]
    assert ids == ["100_0", "100_1", "100_2", "101", "102_0", "102_1"]


def test_run_is_on_record_with_its_job_log_settings_and_multirun(
    base: list[str], cluster: Path
) -> None:
    (outcome,) = slurm.launch(cells(base, 0), settings=defaults(partition="short"))
    run = outcome.cell.run
    assert run.status.state is State.QUEUED
    assert run.job is not None
    assert run.job.id == "100"
    assert run.job.settings["partition"] == "short"
    assert run.job.multirun is not None
    assert run.job.log == str(run.path.parent / ".jobs" / run.job.multirun / "100_0_log.out")
    again = slurm.launch_frozen([run], ["seed=0"], run.job.settings | {"time": 5})
    assert run.job.id == "101"
    assert again[0].cell.run.job.settings["time"] == 5
    assert "--time=5" in scripts(cluster)[1]


def test_array_that_is_refused_hides_no_other_and_says_why(base: list[str], cluster: Path) -> None:
    (cluster / "refuse").write_text("nodes=2")
    wanted = [*cells(base, 0), *cells(base, 4, more=RANKS)]
    good, bad = slurm.launch(wanted, settings=defaults())
    assert good.state == State.QUEUED
    assert bad.failed
    assert "QOSMaxSubmitJobPerUserLimit" in bad.remark
    assert bad.cell.run.status.state is State.FAILED
    assert bad.cell.run.job is not None
    assert bad.cell.run.job.launcher == "slurm"
    assert bad.cell.run.job.id is None


def test_launcher_that_dies_while_it_submits_leaves_runs_that_say_so(
    base: list[str], cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(slurm, "submit", die)
    with pytest.raises(KeyboardInterrupt):
        slurm.launch(cells(base, 0), settings=defaults())
    (run,) = find(base[-1].removeprefix("paths.runs="))
    assert run.job is not None
    assert run.job.id is None


def test_cell_that_waits_in_a_queue_is_left_to_its_job(base: list[str], cluster: Path) -> None:
    slurm.launch(cells(base, 0), settings=defaults())
    (cluster / "queue").write_text("100|PENDING|Priority|\n")
    (outcome,) = slurm.launch(cells(base, 0), settings=defaults())
    assert outcome.cell.todo == "elsewhere"
    assert "slurm 100" in outcome.remark
    assert len(scripts(cluster)) == 1


@pytest.mark.parametrize(
    ("changed", "more", "told"),
    [
        ({"partition": "shrt"}, (), "did you mean short?"),
        ({"partition": "short", "time": 45}, (), "hydra.launcher.time=30"),
        ({"memory": 100.0}, (), "hydra.launcher.memory=62"),
        ({"cpus_per_task": 20}, (), "hydra.launcher.cpus_per_task=16"),
        ({}, ("compute=ddp", "compute.devices=8"), "compute.devices=4"),
        ({"partition": "short"}, ("compute=gpu",), "compute=cpu"),
        ({"gpu_type": "h100"}, ("compute=gpu",), "0 on one"),
        ({}, (*RANKS, "compute.nodes=9"), "compute.nodes=4"),
    ],
)
def test_what_the_cluster_cannot_hold_is_refused_with_what_would_fit(
    base: list[str], cluster: Path, changed: dict[str, Any], more: tuple[str, ...], told: str
) -> None:
    with pytest.raises(UserError) as caught:
        slurm.launch(cells(base, 0, more=more), settings=defaults(**changed))
    assert told in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 3
    assert scripts(cluster) == []
    assert not Path(base[-1].removeprefix("paths.runs=")).exists()


def test_nothing_is_submitted_where_slurm_is_missing(
    base: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"sbatch.*PATH") as caught:
        slurm.launch(cells(base, 0), settings=defaults())
    assert "login node" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 3


def test_gpus_and_further_parameters_reach_sbatch(base: list[str], cluster: Path) -> None:
    settings = defaults(
        gpu_type="a100",
        extra={"exclude": "n7", "exclusive": True},
        dependency="afterok:7",
        memory=1.5,
        requeue=False,
        setup=["module load cuda"],
        srun_args=["--cpu-bind=none"],
    )
    slurm.launch(cells(base, 0, more=("compute=ddp",)), settings=settings)
    (text,) = scripts(cluster)
    for line in (
        "#SBATCH --gpus-per-node=a100:2",
        "#SBATCH --exclude=n7",
        "#SBATCH --exclusive",
        "#SBATCH --dependency=afterok:7",
        "#SBATCH --kill-on-invalid-dep=yes",
        "#SBATCH --mem=1536M",
        "#SBATCH --no-requeue",
        "module load cuda",
    ):
        assert f"{line}\n" in text
    assert "--cpu-bind=none" in text
    assert "wckey" not in text
    assert "--time" not in text


def test_jobs_take_the_code_from_the_copy_unless_told_otherwise(
    base: list[str], cluster: Path
) -> None:
    slurm.launch(cells(base, 0), settings=defaults())
    slurm.launch(cells(base, 1), settings=defaults(snapshot=False))
    copied, own = scripts(cluster)
    (folder,) = (Path(base[-1].removeprefix("paths.runs=")) / ".code").iterdir()
    assert f"export PYTHONPATH={folder}$" in copied
    assert str(folder) not in own


def test_submission_from_inside_a_job_takes_nothing_of_it_along(
    base: list[str], cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CPU_BIND", "cores")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
    monkeypatch.setenv("RANK", "3")
    slurm.launch(cells(base, 0), settings=defaults())
    seen = (cluster / "environment").read_text()
    assert "SLURM_CONF=" in seen
    assert "SLURM_CPU_BIND" not in seen
    assert "\nRANK=" not in seen
    assert os.environ["RANK"] == "3"
    with outside_of_jobs():
        assert "SLURM_CPU_BIND" not in os.environ


def test_profile_gives_what_the_command_line_leaves_open(tmp_path: Path) -> None:
    profile = tmp_path / "mine.yaml"
    profile.write_text("partition: big\ntime: 90\nsignal_delay: 300\n")
    given = defaults(profile=str(profile), time=10)
    assert settings_of(given, {"time", "profile"}).signal_delay == 300
    assert settings_of(given, {"time", "profile"}).time == 10
    assert settings_of(given).partition == "big"
    assert settings_of(settings_of(given, {"time"}).recorded()).time == 10


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("partion: x", "did you mean partition?"),
        ("time: soon", "takes minutes"),
        ("- a", "holds no"),
    ],
)
def test_wrong_profile_is_told_with_its_file(tmp_path: Path, text: str, told: str) -> None:
    profile = tmp_path / "mine.yaml"
    profile.write_text(text)
    with pytest.raises(UserError) as caught:
        settings_of(defaults(profile=str(profile)))
    assert told in str(caught.value)
    assert "mine.yaml" in str(caught.value)


@pytest.mark.parametrize("path", sorted(profiles_folder().glob("*.yaml")), ids=lambda p: p.stem)
def test_profiles_of_the_house_are_valid(path: Path) -> None:
    settings_of(defaults(profile=path.stem))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"time": 1.5}, "whole number"),
        ({"extra": {"mem": 3}}, "mem comes from memory"),
        ({"setup": "module load cuda"}, "a list of shell lines"),
        ({"profile": "a100_9"}, "did you mean a100_8?"),
    ],
)
def test_wrong_setting_is_refused_in_three_lines(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as caught:
        settings_of(defaults(**changed))
    assert told in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 3


def test_waiting_ends_with_the_last_job_and_tells_each_end(
    base: list[str], cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(_: float) -> None:
        for run in find(base[-1].removeprefix("paths.runs=")):
            if run.status.state is State.QUEUED:
                with run.owned():
                    run.start("contrastive")
                    run.finish() if run.config.seed == 0 else run.fail("no luck")

    monkeypatch.setattr(slurm.time, "sleep", end)
    outcomes = slurm.launch(cells(base, 0, 1), settings=defaults(wait=True))
    assert [outcome.state for outcome in outcomes] == [State.FINISHED, State.FAILED]
    assert [outcome.failed for outcome in outcomes] == [False, True]
    assert RunDirectory(outcomes[1].cell.run.path).status.message == "no luck"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30:00", 30), ("1-00:00:00", 1440), ("2:30:00", 150), ("1-12", 2160), ("45", 45)],
)
def test_slurms_times_are_minutes(text: str, expected: float) -> None:
    assert minutes(text) == expected
    assert minutes("infinite") > 1e9
