"""stage=zero_shot: the composed model's own scores, which the seed alone decides."""

from __future__ import annotations

import pytest

import embedexp

SMALL = [
    "backbone=tiny", "tracking=none", "evaluation.max_queries=20", "evaluation.max_documents=50",
    "evaluation.tasks=[WordNetSimilarity]", "evaluation.max_examples=60",
]  # fmt: skip


@pytest.fixture
def scored(tmp_path):
    def run(*more, phase="after"):
        folders = [f"paths.runs={tmp_path / 'runs'}", f"paths.cache={tmp_path / 'cache'}"]
        done = embedexp.run(embedexp.compose([*SMALL, *folders, *more]), quiet=True)
        return done, {(s["task"], s["metric"]): s["value"] for s in done.scores[phase]}

    return run


def test_it_scores_what_training_would_start_from(scored):
    run, found = scored("stage=zero_shot", "routing=moe")
    _, before = scored(
        "routing=moe", "training.steps=1", "batching.size=4", "optimizer.warmup_steps=0",
        "data.max_examples=50", "evaluation.before=true", phase="before",
    )  # fmt: skip
    assert found == before
    assert {task for task, _ in found} == {"WordNetSimilarity"}
    assert run.metrics() == [], "nothing is trained"


def test_new_routers_are_the_seeds(scored):
    chosen = ("stage=zero_shot", "routing=moe", "embedding=moee")
    first, one = scored(*chosen)
    assert scored(*chosen, "rerun=true")[1] == one
    second, other = scored(*chosen, "seed=1")
    assert other != one
    assert first.path != second.path
