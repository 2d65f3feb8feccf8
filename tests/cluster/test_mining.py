"""Mining goes over a cluster as an array: a task for each shard, gathered by the run of all."""

from __future__ import annotations

from embedexp.data.mined import FOLDER
from embedexp.runs import RunDirectory, State

SHARDS = 3
MINING = ["stage=mine", "stage.teachers=[bm25]", "data.max_examples=300", f"stage.shards={SHARDS}"]


def parts(run):
    """The Parquet files of mined negatives, by name."""
    return {path.name: path.read_bytes() for path in (run.path / FOLDER).glob("*.parquet")}


def test_shards_mined_as_one_array_are_those_of_one_run(cluster):
    places = [f"paths.runs={cluster.runs_folder}", f"paths.cache={cluster.folder / 'cache'}"]
    launcher = ["hydra/launcher=slurm", "hydra.launcher.wait=true"]
    every = ",".join(map(str, range(SHARDS)))
    cluster.command("-m", *MINING, *places, *launcher, f"stage.shard={every}")
    runs = [RunDirectory(path) for path in cluster.runs()]
    assert [run.status.state for run in runs] == [State.FINISHED] * SHARDS
    assert len({cluster.job(run).partition("_")[0] for run in runs}) == 1, "one array"
    mined = {name: content for run in runs for name, content in parts(run).items()}

    gathering = cluster.command(*MINING, *places)
    (gathered,) = [each for each in map(RunDirectory, cluster.runs()) if each.job is None]
    assert parts(gathered) == mined
    assert "taken over" in gathered.log_file.read_text(), gathering

    elsewhere = cluster.folder / "alone"
    cluster.command(*MINING, *places, f"paths.runs={elsewhere}")
    (config,) = elsewhere.glob("*/config.yaml")
    assert parts(RunDirectory(config.parent)) == mined
