"""Poolings against loops in float64, and against sentence-transformers in exported folders."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from embedexp.embedding import cls, load, weighted_mean

from .conftest import PROMPTS, build
from .test_embedder import batch
from .test_saving import disturbed


def test_the_first_token_by_hand():
    hidden = torch.arange(12.0).view(6, 2)
    assert cls.pool(hidden, torch.tensor([0, 1, 4, 6])).tolist() == [[0, 1], [2, 3], [8, 9]]


def test_the_weighted_mean_is_the_definition():
    hidden, ends = torch.randn(11, 3), [0, 1, 5, 11]
    found = weighted_mean.pool(hidden, torch.tensor(ends))
    for vector, start, end in zip(found, ends, ends[1:], strict=False):
        rows = hidden[start:end].double()
        total = sum(i * row for i, row in enumerate(rows, 1))
        expected = total / sum(range(1, len(rows) + 1))
        torch.testing.assert_close(vector.double(), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("module", [cls, weighted_mean])
def test_gradients(module):
    hidden = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    ends = torch.tensor([0, 1, 4, 6])
    torch.autograd.gradcheck(lambda rows: module.pool(rows, ends), hidden)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("pooling", ["mean", "last_token", "cls", "weighted_mean"])
@pytest.mark.parametrize("family", ["tiny", "tiny_llama"])
def test_padding_on_either_side_gives_the_packed_vectors(family, pooling, side):
    embedder = build(family, "dense", None, pooling).eval()
    tokens = batch()
    ids, mask = tokens.padded()
    places = (mask.cumsum(1) - 1).clamp(min=0)
    if side == "left":
        ids, mask, places = (
            torch.stack([r.roll(len(r) - n) for r, n in zip(t, tokens.lengths.tolist())])  # noqa: B905
            for t in (ids, mask, places)
        )
    embedder.model.set_attn_implementation("sdpa")
    hidden = embedder.model(
        input_ids=ids, attention_mask=mask, position_ids=places
    ).last_hidden_state
    rows = [h[m.bool()].double() for h, m in zip(hidden, mask, strict=True)]
    weights = [torch.arange(1, len(r) + 1, dtype=torch.float64)[:, None] for r in rows]
    by_hand = {
        "mean": lambda r, w: r.mean(0),
        "last_token": lambda r, w: r[-1],
        "cls": lambda r, w: r[0],
        "weighted_mean": lambda r, w: (r * w).sum(0) / w.sum(),
    }[pooling]
    expected = torch.stack([by_hand(r, w) for r, w in zip(rows, weights, strict=True)])
    expected = torch.nn.functional.normalize(expected, dim=-1)
    embedder.model.set_attn_implementation("embedexp_packed")
    found = embedder(tokens).vectors.double()
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("pooling", ["mean", "last_token", "cls", "weighted_mean"])
def test_one_text_at_a_time_or_64_together(pooling, texts):
    embedder = disturbed(build("tiny", "dense", None, pooling, embedding__prompts=PROMPTS))
    many = [f"{text} {i}" for i in range(10) for text in texts][:64]
    together = embedder.encode(many, batch_tokens=10**6)
    alone = embedder.encode(many, batch_tokens=1)
    np.testing.assert_allclose(together, alone, atol=1e-6)


@pytest.mark.parametrize(
    ("family", "pooling"),
    [("tiny", "cls"), ("tiny", "weighted_mean"), ("tiny_llama", "weighted_mean")],
)
def test_exported_folders_are_plain_and_pool_the_same(family, pooling, tmp_path, texts):
    st = pytest.importorskip("sentence_transformers")
    embedder = disturbed(build(family, "dense", None, pooling, embedding__prompts=PROMPTS))
    embedder.save(tmp_path / "model")
    assert "embedexp.embedding" not in (tmp_path / "model" / "modules.json").read_text()
    theirs = st.SentenceTransformer(str(tmp_path / "model"), device="cpu")
    for task in PROMPTS:
        expected = embedder.encode(texts, task=task)
        found = theirs.encode(texts, prompt_name=task)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    (tmp_path / "model" / "embedexp.json").unlink()
    again = load(tmp_path / "model")
    assert again.config.embedding.name == pooling
    np.testing.assert_allclose(again.encode(texts), embedder.encode(texts), atol=1e-6)


def test_widths_are_those_of_sentence_transformers(tmp_path, texts):
    st = pytest.importorskip("sentence_transformers")
    embedder = disturbed(build("tiny"))
    embedder.save(tmp_path / "model")
    whole = embedder.encode(texts).astype(np.float64)
    for width in (1, 16, 128):
        found = embedder.encode(texts, width=width)
        assert found.shape == (len(texts), width)
        by_hand = whole[:, :width] / np.linalg.norm(whole[:, :width], axis=1, keepdims=True)
        np.testing.assert_allclose(found, by_hand, atol=1e-6)
        theirs = st.SentenceTransformer(
            str(tmp_path / "model"), device="cpu", truncate_dim=width
        ).encode(texts, normalize_embeddings=True)
        np.testing.assert_allclose(found, theirs, atol=1e-6)
