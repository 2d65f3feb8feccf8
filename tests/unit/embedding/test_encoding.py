from __future__ import annotations

import numpy as np
import pytest
import torch

from embedexp.config.errors import UserError
from embedexp.embedding.encoding import batches

from .conftest import PROMPTS, build


@pytest.fixture(scope="module")
def embedder():
    return build("tiny", embedding__prompts=PROMPTS, embedding__query_tokens=8)


@pytest.mark.parametrize("routing", ["dense", "moe", "mote"])
def test_vectors_do_not_depend_on_their_batch(routing, texts):
    embedder = build("tiny", routing)
    together = embedder.encode(texts)
    assert together.dtype == np.float32
    assert together.shape == (len(texts), 128)
    np.testing.assert_allclose(embedder.encode(texts * 9)[-len(texts) :], together, atol=1e-6)
    np.testing.assert_allclose(embedder.encode(texts, batch_tokens=1), together, atol=1e-6)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(embedder.encode([text])[0], vector, atol=1e-6)


def test_order_is_kept(embedder, texts):
    backwards = embedder.encode(texts[::-1])[::-1]
    np.testing.assert_allclose(backwards, embedder.encode(texts), atol=1e-6)
    assert np.abs(backwards[0] - backwards[1]).max() > 0.01


@pytest.mark.parametrize("task", PROMPTS)
def test_the_task_puts_its_prompt_in_front(embedder, task):
    plain = build("tiny")
    expected = plain.encode([PROMPTS[task] + "a cat"])
    np.testing.assert_allclose(embedder.encode(["a cat"], task=task), expected, atol=1e-6)


def test_the_role_decides_how_long_a_text_may_be(embedder):
    text = "one two three four five six seven eight nine ten"
    query = embedder.encode([text, "query: " + text], task="search_query")
    cut = build("tiny", embedding__document_tokens=8).encode(["query: " + text])
    np.testing.assert_allclose(query[0], cut[0], atol=1e-6)
    whole = embedder.encode([text], task="search_query", role="document")
    assert np.abs(whole - query[:1]).max() > 1e-3


def test_width_truncates_and_normalises_again(embedder, texts):
    whole, cut = embedder.encode(texts), embedder.encode(texts, width=16)
    expected = whole[:, :16] / np.linalg.norm(whole[:, :16], axis=1, keepdims=True)
    np.testing.assert_allclose(cut, expected, atol=1e-6)


def test_encoding_leaves_the_model_as_it_was(embedder, texts):
    embedder.train()
    first, second = embedder.encode(texts), embedder.encode(texts)
    np.testing.assert_array_equal(first, second)  # no dropout
    assert embedder.training
    assert not any(p.grad is not None for p in embedder.parameters())


def test_no_texts_give_no_vectors(embedder):
    assert embedder.encode([]).shape == (0, 128)


def test_progress_is_shown_only_when_asked(embedder, texts, capsys):
    embedder.encode(texts)
    assert capsys.readouterr().err == ""
    embedder.encode(texts, progress=True)
    assert f"{len(texts)}/{len(texts)}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "search_qery"}, "did you mean search_query"),
        ({"role": "doc"}, "choose from: query, document|did you mean document"),
        ({"width": 129}, "from 1 to 128"),
    ],
)
def test_names_that_do_not_exist_are_explained(embedder, arguments, message):
    with pytest.raises(UserError, match=message):
        embedder.encode(["a"], **arguments)


def test_a_single_text_is_not_a_list_of_letters(embedder):
    with pytest.raises(UserError, match=r"\[text\]"):
        embedder.encode("a cat")


def test_an_empty_text_has_a_vector_without_special_tokens_too():
    embedder = build("tiny_llama")
    embedder.tokenizer.backend_tokenizer.post_processor = None
    from tokenizers.processors import TemplateProcessing

    embedder.tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="$A")
    vectors = embedder.encode(["", "a"])
    assert np.isfinite(vectors).all()


def test_batches_hold_their_budget_and_every_text_once():
    lengths = torch.randint(1, 50, (200,), generator=torch.Generator().manual_seed(0)).tolist()
    found = list(batches([*lengths, 500], 120))
    assert sorted(i for batch in found for i in batch) == list(range(201))
    sizes = [sum(([*lengths, 500])[i] for i in batch) for batch in found]
    assert sizes[0] == 500
    assert max(sizes[1:]) <= 120
    assert len(found) < 1.2 * sum(lengths) / 120 + 2
