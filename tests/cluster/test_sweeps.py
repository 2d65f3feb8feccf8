"""A table's cells go over a cluster: what reads another run waits for its job."""

from __future__ import annotations

import yaml

from embedexp.runs import RunDirectory, State

from .slurm import RUN

SWEEP = {
    "title": "Temperatures on mined negatives",
    "question": "Does it matter?",
    "mode": "list",
    "stages": {
        "mine": ["stage=mine", "stage.teachers=[bm25]", "data.max_examples=300"],
        "train": [
            *RUN,
            "negatives=mined_file",
            "negatives.path={mine}",
            "data=builtin",
            "data.tasks=[retrieval]",
            "data.max_examples=300",
            "training.steps=2",
        ],
    },
    "rows": {"cold": ["loss.temperature=0.05"], "warm": ["loss.temperature=0.1"]},
    "seeds": [0],
    "measures": {"all tasks": {}},
}


def test_a_sweeps_second_stage_waits_for_the_job_of_the_first(cluster):
    file = cluster.folder / "sweep.yaml"
    file.write_text(yaml.safe_dump(SWEEP))
    places = [f"paths.runs={cluster.runs_folder}", f"paths.cache={cluster.folder / 'cache'}"]
    launcher = ["hydra/launcher=slurm", "hydra.launcher.wait=true"]
    told = cluster.command("sweep", str(file), *places, *launcher)
    runs = [RunDirectory(path) for path in cluster.runs()]
    assert [run.status.state for run in runs] == [State.FINISHED] * 3, told
    (mined,) = [run for run in runs if run.config.stage.name == "mine"]
    trained = [run for run in runs if run is not mined]
    assert len({cluster.job(run) for run in runs}) == 3
    assert all(run.status.started >= mined.status.finished for run in trained)
    assert "cold" in told
    again = cluster.command("sweep", str(file), *places, *launcher)
    assert "0 to run" in again
