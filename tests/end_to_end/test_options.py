"""Every option of every group trains, and does what it says."""

from __future__ import annotations

import json

import pytest

import embedexp

from .conftest import overrides

COMBINATIONS = {
    "moe": ["routing=moe", "routing.num_experts=4"],
    "mote and a soft mask": ["routing=mote", "mask_schedule=linear"],
    "causal, last token": ["mask_schedule=causal", "embedding=last_token"],
    "a causal backbone": ["backbone=tiny_llama", "mask_schedule=linear", "routing=moe"],
    "cosent": ["loss=cosent"],
    "task-aware": ["loss=task_aware", "batching=task_aware", "routing=mote"],
    "heterogeneous": ["batching=heterogeneous"],
    "bf16": ["training.precision=bf16_mixed"],
    "no evaluation": ["evaluation=none"],
    "demo scale": ["scale=demo"],
}


KEPT = ("evaluation.", "paths.", "tracking")
"""The tiny run's overrides that stages without training use too."""


@pytest.mark.parametrize("name", COMBINATIONS)
def test_combinations_train_and_evaluate(name, tmp_path):
    more = [*COMBINATIONS[name], "training.steps=4", "optimizer.warmup_steps=1"]
    if name == "no evaluation":  # its keys are gone with it
        more = [o for o in overrides(tmp_path, *more) if not o.startswith("evaluation.")]
        run = embedexp.run(embedexp.compose(more), quiet=True)
        assert not run.scores["after"]
    else:
        run = embedexp.run(embedexp.compose(overrides(tmp_path, *more)), quiet=True)
        assert all(-1 <= score["value"] <= 1 for score in run.scores["after"])
    lines = run.metrics()
    assert len(lines) == 4
    assert all(line["loss"] == line["loss"] for line in lines)
    if "moe" in " ".join(COMBINATIONS[name]):
        assert all(line["terms"]["balance"] > 0 for line in lines)


def test_the_soft_mask_opens_over_training(tmp_path, monkeypatch):
    from embedexp.embedding import Embedder

    seen, kept = [], Embedder.forward

    def spy(self, batch, alpha=None):
        if self.training:
            seen.append(alpha)
        return kept(self, batch, alpha)

    monkeypatch.setattr(Embedder, "forward", spy)
    more = ["mask_schedule=linear", "evaluation.before=false"]
    embedexp.run(embedexp.compose(overrides(tmp_path, *more)), quiet=True)
    assert seen == [step / 12 for step in range(12)]


def test_hard_negatives_from_the_data_and_from_a_file_reach_the_loss(tmp_path, monkeypatch):
    from embedexp.loss.infonce import InfoNCELoss

    rows = [
        {"query": f"word {i}", "positive": f"meaning {i}", "negatives": [f"wrong {i}"]}
        for i in range(200)
    ]
    data, mined = tmp_path / "pairs.jsonl", tmp_path / "mined.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))
    mined.write_text(
        "\n".join(json.dumps({"query": r["query"], "negatives": ["a b", "c d"]}) for r in rows)
    )
    widths, kept = [], InfoNCELoss.forward

    def spy(self, vectors, batch):
        widths.append(tuple(batch.negative_slots.shape))
        return kept(self, vectors, batch)

    monkeypatch.setattr(InfoNCELoss, "forward", spy)
    common = [o for o in overrides(tmp_path) if not o.startswith(("data.", "training.steps"))] + [
        "data=jsonl",
        f"data.path={data}",
        "data.holdout=20",
        "training.steps=2",
    ]
    own = ["data.columns.negatives=negatives", "negatives=own"]
    file = ["negatives=mined_file", f"negatives.path={mined}", "negatives.count=2"]
    run = embedexp.run(embedexp.compose([*common, *own]), quiet=True)
    assert widths == [(16, 1)] * 2
    assert "Heldout: " in "".join(s["task"] for s in run.scores["after"])
    widths.clear()
    embedexp.run(embedexp.compose([*common, *file]), quiet=True)
    assert widths == [(16, 2)] * 2


def test_merging_runs_gives_their_average(finished, tmp_path):
    import numpy as np
    from safetensors.torch import load_file

    other = embedexp.run(embedexp.compose(overrides(tmp_path, "seed=1")), quiet=True)
    evaluation = [o for o in overrides(tmp_path) if o.startswith(KEPT)]
    inputs = f"merge.inputs=[{finished.path},{other.path}]"
    config = embedexp.compose(["stage=merge", "merge=uniform", inputs, *evaluation])
    merged = embedexp.run(config, quiet=True)
    a, b, m = (load_file(r.model / "model.safetensors") for r in (finished, other, merged))
    for key in m:
        np.testing.assert_allclose(m[key].numpy(), ((a[key] + b[key]) / 2).numpy(), atol=1e-6)
    assert len(merged.scores["after"]) == 2


def test_a_trained_model_can_be_evaluated_alone(finished, tmp_path):
    evaluation = [o for o in overrides(tmp_path) if o.startswith(KEPT)]
    config = embedexp.compose(["stage=evaluate", f"stage.model={finished.path}", *evaluation])
    run = embedexp.run(config, quiet=True)
    assert [s["value"] for s in run.scores["after"]] == pytest.approx(
        [s["value"] for s in finished.scores["after"]]
    )
