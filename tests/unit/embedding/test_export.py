from __future__ import annotations

import numpy as np
import pytest
import torch

from embedexp.config.errors import UserError
from embedexp.embedding import load
from embedexp.stage.hand_over import export

from .conftest import PROMPTS, build
from .test_saving import disturbed


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    embedder = disturbed(build("tiny", embedding__prompts=PROMPTS, embedding__query_tokens=16))
    folder = tmp_path_factory.mktemp("dense") / "model"
    embedder.save(folder)
    return embedder, folder


@pytest.mark.parametrize("format", ["sentence_transformers", "huggingface"])
@pytest.mark.parametrize("dtype", [None, "float16"])
def test_round_trips_keep_vectors_prompts_and_lengths(format, dtype, dense, texts, tmp_path):
    embedder, folder = dense
    export(folder, format, tmp_path / "out", dtype)
    again = load(tmp_path / "out")
    assert again.config.embedding == embedder.config.embedding
    for task in PROMPTS:
        np.testing.assert_allclose(
            again.encode(texts, task=task),
            embedder.encode(texts, task=task),
            atol=1e-6 if dtype is None else 1e-3,
        )
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"`{dtype or 'float32'}`" in card


def test_bfloat16_is_the_rounded_model_and_nothing_else(texts, tmp_path):
    embedder = disturbed(build("tiny", "moe"))
    embedder.save(tmp_path / "model")
    export(tmp_path / "model", "sentence_transformers", tmp_path / "out", "bfloat16")
    embedder.model.to(torch.bfloat16).to(torch.float32)
    np.testing.assert_allclose(
        load(tmp_path / "out").encode(texts), embedder.encode(texts), atol=1e-6
    )


def test_transformers_reads_the_hugging_face_folder(dense, tmp_path):
    from transformers import AutoModel, AutoTokenizer

    embedder, folder = dense
    export(folder, "huggingface", tmp_path / "out")
    model = AutoModel.from_pretrained(tmp_path / "out", add_pooling_layer=False).eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    batch = tokenizer(["document: a cat", "document: a large body of water"], padding=True)
    ids, mask = torch.tensor(batch["input_ids"]), torch.tensor(batch["attention_mask"])
    with torch.no_grad():
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
    pooled = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    expected = torch.nn.functional.normalize(pooled, dim=-1).numpy()
    np.testing.assert_allclose(
        embedder.encode(["a cat", "a large body of water"]), expected, atol=1e-6
    )


def test_onnxruntime_computes_the_same_vectors(dense, texts, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from embedexp.embedding.export import onnx

    embedder, folder = dense
    export(folder, "onnx", tmp_path / "out")
    path = tmp_path / "out" / "onnx" / "model.onnx"
    for task in ("search_query", "clustering"):
        np.testing.assert_allclose(
            onnx.run(embedder, path, tuple(texts), task),
            embedder.encode(texts, task=task),
            atol=1e-6,
        )
    np.testing.assert_array_equal(load(tmp_path / "out").encode(texts), embedder.encode(texts))


@pytest.mark.parametrize("name", ["mean", "cls", "last_token", "weighted_mean"])
def test_padded_pooling_is_the_packed_one_on_either_side(name):
    from embedexp.config.options import implementation
    from embedexp.embedding.export.onnx import pool

    hidden = torch.randn(2, 5, 8)
    packed = torch.cat([hidden[0], hidden[1, :3]])
    expected = implementation("embedding", name).pool(packed, torch.tensor([0, 5, 8]))
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    torch.testing.assert_close(pool(name, hidden, mask), expected)
    left = torch.stack([hidden[0], hidden[1].roll(2, 0)])
    moved = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
    torch.testing.assert_close(pool(name, left, moved), expected)


@pytest.mark.parametrize(
    ("names", "format", "reason"),
    [
        (("tiny", "moe"), "huggingface", r"it has experts \(routing=moe\)"),
        (("tiny", "mote"), "onnx", r"it has experts \(routing=mote\)"),
        (("tiny_llama", "dense", "bidirectional"), "huggingface", "its mask is bidirectional"),
        (("tiny_llama", "dense", "linear"), "onnx", r"mask_schedule=linear\), not causal"),
    ],
)
def test_what_a_format_cannot_say_is_refused(names, format, reason, tmp_path):
    build(*names).save(tmp_path / "model")
    with pytest.raises(UserError, match=reason):
        export(tmp_path / "model", format, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_weights_beyond_float16_are_refused(tmp_path):
    embedder = build("tiny")
    with torch.no_grad():
        next(embedder.parameters())[0, 0] = 1e5
    embedder.save(tmp_path / "model")
    with pytest.raises(UserError, match="beyond the range of float16"):
        export(tmp_path / "model", "huggingface", tmp_path / "out", "float16")


@pytest.mark.parametrize(
    ("format", "dtype", "message"),
    [
        ("hugingface", None, "did you mean huggingface"),
        ("nomic", "int8", "choose from: float32"),
        ("onnx", "float16", "written in float32"),
    ],
)
def test_names_are_checked_before_anything_is_loaded(format, dtype, message, tmp_path):
    with pytest.raises(UserError, match=message):
        export(tmp_path / "nowhere", format, tmp_path / "out", dtype)
