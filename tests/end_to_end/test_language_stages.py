"""From language to embeddings: masked words, next tokens, answers, then pairs."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

import embedexp
from embedexp.cli import main

from .conftest import overrides


def composed(folder, *more, steps=8):
    """A tiny run without evaluation."""
    kept = [o for o in overrides(folder, *more) if not o.startswith(("evaluation.", "training.s"))]
    return embedexp.compose([*kept, f"training.steps={steps}"])


def trained(folder, *more, steps=8):
    """A finished tiny run."""
    return embedexp.run(composed(folder, *more, steps=steps), quiet=True)


def losses(run):
    """The held-out losses of a run."""
    return {
        k: v["loss"] for k, v in json.loads((run.path / "heldout_loss.json").read_text()).items()
    }


def source(run):
    """Overrides that go on from a run's model."""
    return ["backbone.weights=pretrained", f"backbone.source={run.model}"]


LLAMA = "backbone=tiny_llama"


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    """A run that learned masked words, long enough to show it."""
    return trained(tmp_path_factory.mktemp("mlm"), "stage=mlm", "stage.block_tokens=64", steps=100)


def test_masked_words_are_learned_beyond_guessing_alike(masked):
    found = losses(masked)
    assert found["before"] == pytest.approx(9.01, abs=0.2)  # the logarithm of 8,192 words
    assert found["after"] < found["before"] - 1.2
    first, last = masked.metrics()[0], masked.metrics()[-1]
    assert last["loss"] < first["loss"] - 1.2
    assert last["terms"]["perplexity"] == pytest.approx(
        torch.tensor(last["terms"]["mlm"]).exp().item(), rel=1e-3
    )
    assert 0 < last["terms"]["accuracy"] < 1
    assert last["predictions"] < 0.4 * last["tokens"]


def test_mlm_goes_on_from_its_own_model_and_head(masked, tmp_path):
    again = trained(tmp_path, "stage=mlm", "stage.block_tokens=64", *source(masked), steps=2)
    assert losses(again)["before"] == pytest.approx(losses(masked)["after"], abs=1e-4)


def test_pairs_are_learned_from_a_model_of_masked_words(masked, tmp_path):
    run = trained(tmp_path, *source(masked), "evaluation=none", steps=2)
    assert not (run.model / "head.safetensors").exists()
    before, after = (load_file(r.model / "model.safetensors") for r in (masked, run))
    assert before.keys() == after.keys()
    name = "embeddings.word_embeddings.weight"
    assert 0 < float((before[name] - after[name]).abs().max()) < 0.05


def test_a_checkpoint_becomes_a_model_with_its_head_as_often_as_asked(tmp_path, capsys):
    run = trained(
        tmp_path, "stage=mlm", "stage.block_tokens=32", "evaluation=none",
        "training.keep_best=1", steps=4,
    )  # fmt: skip
    made = tmp_path / "made"
    for _ in range(2):  # the second replaces the first
        assert main(["consolidate", str(run.path), "--to", str(made)]) == 0
    assert (made / "head.safetensors").is_file()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("not a model")
    assert main(["consolidate", str(run.path), "--to", str(tmp_path / "other")]) == 2
    assert "is not a model folder" in capsys.readouterr().err


def test_sentence_transformers_loads_the_model_of_a_language_stage(masked):
    from sentence_transformers import SentenceTransformer

    ours = embedexp.load(masked.model).encode(["a furry animal"])
    theirs = SentenceTransformer(str(masked.model)).encode(["a furry animal"])
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), atol=1e-5, rtol=1e-5)


def test_next_tokens_then_answers_then_pairs(tmp_path):
    first = trained(tmp_path, "stage=causal_lm", LLAMA, "stage.block_tokens=64", steps=30)
    assert losses(first)["after"] < losses(first)["before"] - 0.5
    second = trained(tmp_path, "stage=sft", LLAMA, *source(first), steps=30)
    assert losses(second)["after"] < losses(second)["before"]
    head = "head.safetensors"
    assert load_file(second.model / head)["weight"].shape == (8192, 128)
    third = trained(
        tmp_path, LLAMA, *source(second), "mask_schedule=linear", "evaluation=none", steps=2
    )
    assert len(third.metrics()) == 2


def test_an_interrupted_run_ends_as_an_uninterrupted_one(tmp_path, monkeypatch):
    from embedexp.training.interrupt import InterruptedRunError
    from embedexp.training.language_model import LanguageObjective

    more = ["stage=mlm", "stage.block_tokens=32", "training.chunk_tokens=200"]
    whole = trained(tmp_path / "whole", *more, steps=8)
    kept = LanguageObjective.step

    def stopping(self, batch, step):
        if step.number == 6:
            raise InterruptedRunError("a signal")
        return kept(self, batch, step)

    with monkeypatch.context() as patch:
        patch.setattr(LanguageObjective, "step", stopping)
        with pytest.raises(InterruptedRunError):
            trained(tmp_path / "parts", *more, steps=8)
    resumed = trained(tmp_path / "parts", *more, steps=8)
    assert resumed.path.name == whole.path.name
    for name in ("model.safetensors", "head.safetensors"):
        a, b = load_file(whole.model / name), load_file(resumed.model / name)
        assert all(torch.equal(a[key], b[key]) for key in a), name
    assert losses(whole) == losses(resumed)
