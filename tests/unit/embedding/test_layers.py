"""The mean over the layers: what each block gives for a token, averaged, then pooled."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import embedexp
from embedexp.config.errors import UserError
from embedexp.embedding import load

from .conftest import build


@pytest.mark.parametrize("family", ["tiny", "tiny_llama"])
@pytest.mark.parametrize("pooling", ["mean", "last_token"])
def test_equals_transformers_hidden_states_of_one_text_after_another(family, pooling, texts):
    embedder = build(family, "dense", None, pooling, embedding__layers="all")
    embedder.eval()
    found = embedder.encode(texts)
    for text, vector in zip(texts, found, strict=True):
        tokens = embedder.tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            output = embedder.model(**tokens, output_hidden_states=True)
        states = [state[0].double() for state in output.hidden_states[1:]]
        mean = sum(states) / len(states)
        expected = mean.mean(0) if pooling == "mean" else mean[-1]
        np.testing.assert_allclose(vector, expected / expected.norm(), atol=2e-6)


def test_a_pass_leaves_no_hook_behind_and_copies_compute_the_same(texts):
    embedder = build("tiny", embedding__layers="all")
    last = build("tiny")
    assert not np.allclose(embedder.encode(texts), last.encode(texts), atol=1e-3)
    module = copy.deepcopy(embedder)
    np.testing.assert_array_equal(module.encode(texts), embedder.encode(texts))
    assert not any(layer._forward_hooks for layer in embedder.model.encoder.layer)


def test_it_is_saved_with_the_model(tmp_path, texts):
    embedder = build("tiny", embedding__layers="all", embedding__projection=40)
    embedder.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").encode(texts), embedder.encode(texts))
    module = pytest.importorskip("sentence_transformers")
    theirs = module.SentenceTransformer(
        str(tmp_path / "model"), device="cpu", trust_remote_code=True
    )
    np.testing.assert_allclose(theirs.encode(texts), embedder.encode(texts), atol=1e-6)


def test_blocks_that_are_compiled_cannot_be_watched():
    with pytest.raises(UserError, match=r"compute\.compile=true hides"):
        embedexp.compose(["embedding.layers=all", "compute.compile=true"])
