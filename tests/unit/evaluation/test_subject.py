"""A model measured otherwise than it was trained, and left as it was."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from embedexp.config import compose
from embedexp.config.errors import UserError
from embedexp.embedding import Embedder, build_embedder, load
from embedexp.evaluation.engine import content_hash
from embedexp.evaluation.subject import Subject

from .public import option

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ["a small furry animal", "to put money in a bank", "x", "the bank of the river " * 20]


def tiny(*overrides: str) -> Embedder:
    return build_embedder(compose(["backbone=tiny", *overrides])).eval()


def encode(embedder: Embedder, task: str = "classification", prompt: str | None = None, **how: Any):
    return Subject(embedder, option(**how)).encode(TEXTS, task=task, prompt=prompt)


@pytest.mark.parametrize("pooling", ["mean", "last_token", "mean exclude"])
def test_another_prompt_is_as_if_the_model_had_been_built_with_it(pooling: str) -> None:
    how = [f"embedding={pooling.split()[0]}"]
    if "exclude" in pooling:
        how.append("embedding.exclude_instruction=true")
    built = tiny(*how, "embedding.prompts.classification='tell the class: '")
    given = tiny(*how)
    expected = built.encode(TEXTS, task="classification")
    found = encode(given, prompt="tell the class: ")
    np.testing.assert_array_equal(found, expected)
    assert not np.allclose(found, encode(given), atol=1e-3)
    assert given.config.embedding.prompts.classification == ""


def test_lengths_and_width_are_as_if_the_model_had_been_built_with_them() -> None:
    built = tiny("embedding.document_tokens=8", "embedding.width=32")
    found = encode(tiny(), document_tokens=8, width=32)
    np.testing.assert_array_equal(found, built.encode(TEXTS, task="classification"))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    assert found.shape == (4, 32)
    queries = encode(tiny(), task="search_query", query_tokens=6)
    np.testing.assert_array_equal(
        queries, tiny("embedding.query_tokens=6").encode(TEXTS, task="search_query")
    )


@pytest.mark.parametrize("routing", ["dense", "moe"])
@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_half_precision_is_that_of_the_weights_alone(precision: str, routing: str) -> None:
    embedder = tiny(f"routing={routing}", "backbone.dropout=0")
    before = content_hash(embedder)
    found = encode(embedder, precision=precision)
    assert content_hash(embedder) == before
    assert {p.dtype for p in embedder.parameters()} == {torch.float32}
    half = copy.deepcopy(embedder)
    for parameter in half.parameters():
        parameter.data = parameter.data.to(getattr(torch, precision))
    np.testing.assert_array_equal(found, half.encode(TEXTS, task="classification"))
    exact = encode(embedder)
    assert 0 < np.abs(found - exact).max() < 0.05
    np.testing.assert_array_equal(exact, encode(embedder, precision="float32"))


def test_rotary_frequencies_stay_in_full_precision() -> None:
    subject = Subject(tiny_llama(), option(precision="float16"))
    assert isinstance(subject.embedder, Embedder)
    rotary = [b for name, b in subject.embedder.named_buffers() if "inv_freq" in name]
    assert rotary
    assert all(buffer.dtype == torch.float32 for buffer in rotary)


def tiny_llama() -> Embedder:
    return build_embedder(compose(["backbone=tiny_llama"])).eval()


def test_routing_weights_are_recorded_once_in_a_variant() -> None:
    given = tiny("routing=moe", "embedding=moee")
    built = tiny("routing=moe", "embedding=moee", "embedding.prompts.classification='c: '")
    found = encode(given, prompt="c: ", width=100)
    expected = Subject(built, option(width=100)).encode(TEXTS, task="classification")
    np.testing.assert_array_equal(found, expected)


def test_more_than_there_is_is_refused() -> None:
    with pytest.raises(UserError, match=r"evaluation\.width=4096 is more than the 128"):
        Subject(tiny(), option(width=4096))
    with pytest.raises(UserError, match=r"evaluation\.query_tokens=100000, but the model has"):
        Subject(tiny(), option(query_tokens=100_000))
    Subject(tiny_llama(), option(query_tokens=4096))  # nothing learned limits rotary positions


def test_a_model_made_elsewhere_keeps_its_default_prompt(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    tiny().save(tmp_path / "own")
    theirs = SentenceTransformer(str(tmp_path / "own"), device="cpu")
    theirs.prompts = {"query": "ask: ", "document": "tell: ", "STS": "alike: "}
    theirs.default_prompt_name = "document"
    theirs.save(str(tmp_path / "theirs"))
    (tmp_path / "theirs" / "embedexp.json").unlink(missing_ok=True)
    loaded = load(tmp_path / "theirs")
    for task, how in {
        "search_query": {"prompt_name": "query"},
        "search_document": {"prompt_name": "document"},
        "clustering": {},
        "classification": {},
    }.items():
        expected = theirs.encode(TEXTS[:3], **how)
        np.testing.assert_allclose(loaded.encode(TEXTS[:3], task=task), expected, atol=1e-6)


@pytest.mark.parametrize("source", ["routing_weights", "concat"])
def test_routers_of_transformers_own_are_seen_in_another_precision(source: str) -> None:
    sizes = {"num_experts": 4, "num_experts_per_tok": 2, "num_key_value_heads": 2}
    embedder = tiny(
        "backbone=tiny_llama",
        "backbone.architecture.model_type=olmoe",
        *(f"++backbone.architecture.{key}={value}" for key, value in sizes.items()),
        "embedding=moee",
        f"embedding.source={source}",
    )
    exact = encode(embedder)
    found = encode(embedder, precision="bfloat16")
    assert 0 < np.abs(found - exact).max() < 0.05
    np.testing.assert_array_equal(exact, encode(embedder))
