"""Cells become runs: shared ones once, predecessors first, all known before anything is run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from embedexp import compose
from embedexp.config import UserError
from embedexp.runs import RunDirectory
from embedexp.sweeps.planning import plan
from embedexp.sweeps.schema import Sweep

BASE = ["backbone=tiny", "tracking=none"]
FROM_RUN = ["backbone.weights=pretrained", "backbone.source={pretrain}"]


def sweep(**content: Any) -> Sweep:
    return Sweep.model_validate({"title": "T", "question": "Q", "base": BASE, **content})


CHAIN = sweep(
    mode="chain",
    stages={
        "pretrain": ["stage=mlm", "loss=mlm"],
        "mine": ["stage=mine", "stage.teachers=[{pretrain}]"],
        "finetune": [
            *FROM_RUN,
            "data.tasks=[retrieval]",
            "negatives=mined_file",
            "negatives.path={mine}",
        ],
        "evaluate": ["stage=evaluate", "stage.model={finetune}"],
    },
)


def test_planning_writes_nothing(runs: str, tmp_path: Path) -> None:
    assert len(plan(CHAIN, [runs]).runs) == 4
    assert list(tmp_path.iterdir()) == []


def test_a_stages_run_reads_those_of_the_stages_before(runs: str) -> None:
    found = {run.stage: run for run in plan(CHAIN, [runs]).runs}
    assert list(found) == ["pretrain", "mine", "finetune", "evaluate"]
    config = found["finetune"].config
    assert config.backbone.source == str(found["pretrain"].directory.path)
    assert config.negatives.path == str(found["mine"].directory.path)
    frozen = plan(CHAIN, [runs]).freeze()
    after = {cell.run.name: [path.name for path in cell.after] for cell in frozen.cells}
    names = {stage: run.config.run_name for stage, run in found.items()}
    assert after == {
        names["pretrain"]: [],
        names["mine"]: [names["pretrain"]],
        names["finetune"]: [names["pretrain"], names["mine"]],
        names["evaluate"]: [names["finetune"]],
    }


def test_what_a_run_is_called_does_not_change_once_its_predecessors_have_run(
    runs: str, tmp_path: Path
) -> None:
    planned = plan(CHAIN, [runs])
    names = [run.config.run_name for run in planned.runs]
    planned.freeze()
    model = planned.runs[0].directory.model
    model.mkdir()
    (model / "model.safetensors").write_bytes(b"weights")
    assert [run.config.run_name for run in plan(CHAIN, [runs]).runs] == names
    # Nor where the runs lie.
    shutil.move(tmp_path / "runs", tmp_path / "elsewhere")
    moved = plan(CHAIN, [f"paths.runs={tmp_path / 'elsewhere'}"])
    assert [run.config.run_name for run in moved.runs] == names


def test_another_predecessor_is_another_experiment(runs: str) -> None:
    one, other = (
        [run.config.signature for run in plan(CHAIN, [runs, f"pretrain:{override}"]).runs]
        for override in ("loss.probability=0.15", "loss.probability=0.3")
    )
    assert not set(one) & set(other)


def test_other_folders_still_count_by_their_content(runs: str, tmp_path: Path) -> None:
    planned = plan(CHAIN, [runs])
    planned.freeze()
    frozen = planned.runs[0].directory.path
    copy = tmp_path / "copy"  # whose name promises nothing
    shutil.copytree(frozen, copy)
    (copy / "model.safetensors").write_bytes(b"weights")

    def signature() -> str:
        return compose(["backbone=tiny", *FROM_RUN[:1], f"backbone.source={copy}", runs]).signature

    before = signature()
    (copy / "model.safetensors").write_bytes(b"others!")
    assert signature() != before


def test_a_predecessor_that_cells_share_is_run_once(runs: str) -> None:
    made = sweep(
        stages={"pretrain": ["stage=mlm", "loss=mlm", "seed=7"], "finetune": FROM_RUN},
        rows={"a": ["loss.temperature=0.05"], "b": ["loss.temperature=0.02"]},
        seeds=[0, 1],
    )
    planned = plan(made, [runs])
    assert [run.label for run in planned.runs] == [
        "pretrain",
        "a · finetune · seed 0",
        "a · finetune · seed 1",
        "b · finetune · seed 0",
        "b · finetune · seed 1",
    ]
    assert [run.label for run in planned.shared] == ["pretrain"]


def test_a_row_may_read_what_another_row_shows(runs: str) -> None:
    made = sweep(
        stages={"train": [], "merge": ["stage=merge", "merge=uniform"]},
        rows={
            "one": {"only": ["train"], "full": ["loss.temperature=0.05"]},
            "two": {"only": ["train"], "full": ["loss.temperature=0.02"]},
            "both": {"only": ["merge"], "full": ["merge.inputs=[{row:one},{row:two}]"]},
        },
    )
    planned = plan(made, [runs])
    merged = planned.runs[-1]
    paths = [Path(path) for path in merged.config.merge.inputs]
    assert paths == [run.directory.path for run in planned.runs[:2]]
    assert set(planned.freeze().cells[-1].after) == {path.resolve() for path in paths}


def test_only_some_cells_need_only_their_runs(runs: str) -> None:
    made = sweep(rows={"a": ["loss.temperature=0.05"], "b": ["loss.temperature=0.02"]})
    assert [run.label for run in plan(made, [runs], labels=["b"], seeds=[3]).runs] == ["b · seed 3"]


def test_base_skips_the_stages_that_have_no_use_for_it_and_no_others(runs: str) -> None:
    mined = plan(CHAIN, [runs, "optimizer.learning_rate=1e-3"]).runs
    assert [run.overrides.count("optimizer.learning_rate=1e-3") for run in mined] == [1, 0, 1, 0]
    made = sweep(mode="chain", stages={"mine": ["stage=mine", "stage.teachers=[bm25]"]}, base=[])
    with pytest.raises(UserError, match="no effect in any stage"):
        plan(made, [runs, "optimizer.learning_rate=1e-3"])


@pytest.mark.parametrize(
    ("stages", "told"),
    [
        ({"pretrain": [], "finetune": ["backbone.source={pretrian}"]}, "did you mean pretrain"),
        ({"a": ["backbone.source={b}"], "b": []}, "comes before b"),
        ({"a": ["backbone.source={row:zz}"]}, "no row 'zz'"),
        (
            {"mine": ["stage=mine", "stage.teachers=[bm25]"], "fine": ["stage=evaluate",
             "stage.model={mine}"]},
            "leaves no model",
        ),
        (
            {"pretrain": [], "fine": ["negatives=mined_file", "negatives.path={pretrain}",
             "data.tasks=[retrieval]"]},
            "mines no negatives",
        ),
        (
            {"pretrain": [], "fine": [*FROM_RUN, "backbone=minilm"]},
            "set backbone=tiny, as in that run",
        ),
        (
            {"pretrain": ["routing=moe"], "fine": [*FROM_RUN, "routing=dense"]},
            "set routing=moe",
        ),
        (
            {"tokenizer": ["stage=tokenizer"], "pretrain": ["backbone.tokenizer={tokenizer}"],
             "fine": FROM_RUN},
            "set backbone.tokenizer=null, which takes the run's",
        ),
    ],
)  # fmt: skip
def test_pipelines_that_can_not_work_are_refused_before_they_start(
    runs: str, stages: dict[str, list[str]], told: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=told):
        plan(sweep(mode="chain", stages=stages), [runs])
    assert list(tmp_path.iterdir()) == []


def test_the_tokenizer_of_the_weights_may_be_named_again(runs: str) -> None:
    stages = {"tokenizer": ["stage=tokenizer"], "pretrain": ["backbone.tokenizer={tokenizer}"]}
    for more in (["backbone.tokenizer=null"], ["backbone.tokenizer={tokenizer}"]):
        made = sweep(mode="chain", stages={**stages, "fine": [*FROM_RUN, *more]})
        assert len(plan(made, [runs]).runs) == 3


def test_cells_that_scale_makes_equal_are_refused(runs: str) -> None:
    rows = {"2048": ["batching.size=2048"], "4096": ["batching.size=4096"]}
    assert len(plan(sweep(rows=rows), [runs]).runs) == 2
    with pytest.raises(UserError, match="are the same experiment at scale=demo"):
        plan(sweep(rows=rows), [runs, "scale=demo"])
    own = {
        label: {"full": overrides, "demo": [f"batching.size={size}"]}
        for (label, overrides), size in zip(rows.items(), (8, 16), strict=True)
    }
    sizes = [run.config.batching.size for run in plan(sweep(rows=own), [runs, "scale=demo"]).runs]
    assert sizes == [8, 16]


def test_all_wrong_cells_are_told_at_once_and_nothing_is_written(runs: str, tmp_path: Path) -> None:
    rows = {"a": ["loss.temperature=hot"], "b": [], "c": ["routing=mot"]}
    with pytest.raises(UserError) as error:
        plan(sweep(rows=rows), [runs])
    assert "2 of 3 cells are wrong; nothing was started" in str(error.value)
    assert "[a" in str(error.value)
    assert "[c" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_runs_are_shared_with_what_was_run_outside_the_sweep(runs: str) -> None:
    made = sweep(rows={"a": ["loss.temperature=0.05"]})
    alone = compose([*BASE, "seed=0", "loss.temperature=0.05", runs])
    assert plan(made, [runs]).runs[0].directory.name == RunDirectory.of(alone).name
