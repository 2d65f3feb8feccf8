"""At demo scale, stages of every paper train two steps, stop, go on, and are evaluated, offline."""

from __future__ import annotations

import math
import signal
from typing import Any

import pytest

import embedexp
from embedexp.training.interrupt import InterruptedRunError
from embedexp.training.saving import Checkpointing

BERT, LLAMA = "backbone=tiny", "backbone=tiny_llama"

TRAINED = {
    "nomic_embed_v2/mlm": [BERT, "backbone.positions={base:10000,max_length:2048}"],
    "nomic_embed_v2/finetune": [BERT, "loss.matryoshka.widths=[128,64]"],
    "mote/mote": [BERT],
    "llama_embed_nemotron/stage1": [LLAMA],
    "conan_v2/sft": [LLAMA],
    "conan_v2/weak": [LLAMA],
    "conan_v1/supervised": [BERT, "embedding.projection=192", "loss.matryoshka.widths=[192,64]"],
}
"""One of each kind, with a smaller backbone than the demo's."""

ONCE = {"moee/sum": [BERT]}
"""Nothing is trained."""


def _overrides(folder: Any, name: str, more: list[str]) -> list[str]:
    return [
        f"+paper={name}",
        "scale=demo",
        *more,
        "tracking=none",
        f"paths.runs={folder / 'runs'}",
        f"paths.cache={folder / 'cache'}",
    ]


SMALL = ["evaluation.max_queries=10", "evaluation.max_documents=20", "evaluation.max_examples=50"]


def _evaluated(config: list[str]) -> list[str]:
    return [*config, *SMALL, "evaluation.tasks=[WordNetSimilarity]", "evaluation.before=false"]


@pytest.mark.parametrize("name", TRAINED)
def test_it_stops_and_goes_on_to_its_scores(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = _overrides(tmp_path, name, TRAINED[name])
    typed += ["training.steps=2", "training.checkpoint_every=1", "data.max_examples=100"]
    if not name.endswith(("/mlm", "/lm_pretrain", "/sft")):
        typed = _evaluated(typed)
    config = embedexp.compose(typed)
    assert config.data.name == "builtin"
    kept = Checkpointing.on_train_batch_end

    def stopping(self: Any, trainer: Any, *rest: Any) -> None:
        self.stop.signal = signal.SIGTERM
        kept(self, trainer, *rest)

    monkeypatch.setattr(Checkpointing, "on_train_batch_end", stopping)
    with pytest.raises(InterruptedRunError):
        embedexp.run(config, quiet=True)
    monkeypatch.setattr(Checkpointing, "on_train_batch_end", kept)
    run = embedexp.run(config, quiet=True)
    assert len(run.metrics()) == 2
    assert all(math.isfinite(line["loss"]) for line in run.metrics())
    if config.evaluation.name != "none":
        assert "WordNetSimilarity" in {score["task"] for score in run.scores["after"]}


@pytest.mark.parametrize("name", ONCE)
def test_a_model_is_scored_as_it_is(name: str, tmp_path: Any) -> None:
    run = embedexp.run(
        embedexp.compose(_evaluated(_overrides(tmp_path, name, ONCE[name]))), quiet=True
    )
    scores = {score["task"]: score["value"] for score in run.scores["after"]}
    assert -1 <= scores["WordNetSimilarity"] <= 1


@pytest.mark.parametrize("name", ["nomic_embed_v2", "llama_embed_nemotron", "conan_v2"])
def test_a_papers_evaluation_needs_no_other_word_than_the_scale(name: str, tmp_path: Any) -> None:
    typed = _evaluated(_overrides(tmp_path, f"{name}/evaluate", []))[:-1]
    (score,) = embedexp.run(embedexp.compose(typed), quiet=True).scores["after"]
    assert score["task"] == "WordNetSimilarity"
    assert score["value"] > 0.3  # of a model that has learned: chance is 0
