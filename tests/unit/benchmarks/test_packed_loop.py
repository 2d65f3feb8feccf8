"""The bare loop that runs are measured against does the same work."""

from __future__ import annotations

import numpy as np

import embedexp


def test_its_vectors_are_those_of_the_model(script, tmp_path):
    from transformers import AutoModel

    embedder = embedexp.build_embedder(embedexp.compose(["backbone=tiny"]))
    embedder.save(tmp_path / "model")
    texts = ["a cat", "cats", "the quick brown fox", "one and two and three", "a dog"]
    ids = embedder.text_tokenizer(texts)["input_ids"]
    model = AutoModel.from_pretrained(tmp_path / "model").eval()
    found = script("packed_loop").embed(model, ids, 0.0, 0.0).detach().numpy()
    np.testing.assert_allclose(found, embedder.encode(texts), atol=1e-6)


def test_groups_hold_every_token_once(script):
    import torch

    lengths = [3, 9, 4, 10, 1]
    kept = [
        index.flatten() if inside is None else index[inside]
        for index, inside in script("packed_loop").groups(lengths)
    ]
    assert len(kept) < len(lengths)
    assert torch.cat(kept).sort().values.tolist() == list(range(sum(lengths)))
