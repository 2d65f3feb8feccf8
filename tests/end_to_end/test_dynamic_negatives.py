"""negatives=dynamic in whole runs: what is chosen, remembered across a stop, and drawn."""

from __future__ import annotations

import json
import signal

import pytest
import torch

import embedexp
from embedexp import data
from embedexp.training.interrupt import InterruptedRunError

from .conftest import overrides

DATA = ["data.tasks=[retrieval]", "data.max_examples=60"]


@pytest.fixture(scope="module")
def mined(tmp_path_factory):
    """Twelve candidates for each query of the first examples."""
    (dataset,) = data.load(embedexp.compose([*DATA, "batching.size=16"]).data).train
    queries, documents = list(dataset.queries), list(dataset.positives)
    path = tmp_path_factory.mktemp("mined") / "candidates.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for place, query in enumerate(queries):
            chosen = [documents[(place + 7 * k + 3) % len(documents)] for k in range(12)]
            file.write(json.dumps({"query": query, "negatives": chosen}) + "\n")
    return path


def composed(folder, mined, *more):
    """A run whose negatives are replaced as soon as they become easier at all."""
    negatives = ["negatives=dynamic", f"negatives.path={mined}", "negatives.pool=12"]
    rule = ["negatives.count=2", "negatives.factor=1.0", "negatives.ceiling=1.0"]
    tiny = overrides(folder, *DATA, *negatives, *rule, "evaluation=none", *more)
    return embedexp.compose([word for word in tiny if not word.startswith("evaluation.")])


def losses(run):
    return [(line["loss"], line["negatives"]) for line in run.metrics()]


@pytest.fixture(scope="module")
def uninterrupted(mined, tmp_path_factory):
    return embedexp.run(composed(tmp_path_factory.mktemp("whole"), mined), quiet=True)


def test_negatives_are_replaced_logged_and_drawn(uninterrupted):
    lines = [line["negatives"] for line in uninterrupted.metrics()]
    assert all(line["judged"] == 32 for line in lines)  # 16 queries with 2 each
    assert sum(line["replaced"] for line in lines) > 0
    assert all(-1 <= line["hardness"] <= 1 for line in lines)
    assert (uninterrupted.path / "negatives.png").stat().st_size > 10_000


def test_a_stop_between_visits_of_an_example_changes_nothing(
    uninterrupted, mined, tmp_path, monkeypatch
):
    from embedexp.training.saving import Checkpointing

    kept = Checkpointing.on_train_batch_end

    def stopping(self, trainer, *rest):
        if trainer.global_step == 7:  # 60 examples, 16 a step: some have been seen, and come again
            self.stop.signal = signal.SIGTERM
        kept(self, trainer, *rest)

    config = composed(tmp_path, mined)
    monkeypatch.setattr(Checkpointing, "on_train_batch_end", stopping)
    with pytest.raises(InterruptedRunError):
        embedexp.run(config, quiet=True)
    monkeypatch.setattr(Checkpointing, "on_train_batch_end", kept)
    assert losses(embedexp.run(config, quiet=True)) == losses(uninterrupted)


def test_workers_that_fetch_ahead_do_not_see_older_negatives(uninterrupted, mined, tmp_path):
    run = embedexp.run(composed(tmp_path, mined, "compute.workers=1"), quiet=True)
    assert losses(run) == losses(uninterrupted)


def test_a_batch_holds_the_chosen_candidates_of_each_example(uninterrupted, mined):
    from embedexp import negatives
    from embedexp.data.tokenise import tokenise
    from embedexp.training.fit import batch_maker

    config = uninterrupted.config
    corpus = negatives.attach(config.negatives, data.load(config.data))
    embedder = embedexp.build_embedder(config)
    tokenised = tokenise(corpus, embedder.text_tokenizer, config.embedding, config.paths.cache)
    dynamic = negatives.build(config.negatives, tokenised)
    everything = batch_maker(config, tokenised)(0)
    assert everything.negative_slots.shape == (16, 12)
    batch = batch_maker(config, tokenised, choose=dynamic.choose)(0)
    assert torch.equal(batch.negative_keys, everything.negative_keys[:, :2])
    row = int(batch.examples[3, 1])
    dynamic.pools[0].moves[row] = [5, 8]
    moved = batch_maker(config, tokenised, choose=dynamic.choose)(0)
    assert torch.equal(moved.negative_keys[3], everything.negative_keys[3, [5, 9]])
    others = [place for place in range(16) if place != 3]
    assert torch.equal(moved.negative_keys[others], batch.negative_keys[others])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["negatives.pool=7", "negatives.count=7"], "negatives.pool=7 leaves no candidate"),
        (["negatives.path=null"], "negatives=dynamic, but data=builtin has no hard negatives"),
        (["negatives.path=nowhere.jsonl"], "nowhere.jsonl does not exist"),
    ],
)
def test_pools_that_cannot_serve_are_refused_before_anything_starts(mined, tmp_path, more, words):
    with pytest.raises(embedexp.config.UserError, match=words):
        composed(tmp_path, mined, *more)
