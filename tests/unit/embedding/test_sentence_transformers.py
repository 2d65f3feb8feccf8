"""What we save works in sentence-transformers, and gives the same vectors."""

from __future__ import annotations

import numpy as np
import pytest

from embedexp.config.errors import UserError
from embedexp.embedding import load

from .conftest import PROMPTS, build
from .test_saving import KINDS, disturbed

PLAIN = {
    "dense": KINDS["dense"],
    "causal, last token": KINDS["dense causal"],
    "causal, mean": ("tiny_llama", "dense", "causal", "mean"),
}
OURS = {kind: KINDS[kind] for kind in ("other mask", "moe", "mote")}


@pytest.fixture(scope="module")
def sentence_transformer():
    module = pytest.importorskip("sentence_transformers")
    return lambda path, **kwargs: module.SentenceTransformer(str(path), device="cpu", **kwargs)


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize("width", [None, 48])
def test_plain_folders_need_nothing_of_ours(kind, width, tmp_path, texts, sentence_transformer):
    embedder = disturbed(build(*PLAIN[kind], embedding__prompts=PROMPTS, embedding__width=width))
    embedder.save(tmp_path / "model")
    assert "embedexp.embedding" not in (tmp_path / "model" / "modules.json").read_text()
    theirs = sentence_transformer(tmp_path / "model")
    assert getattr(theirs[0].auto_model, "pooler", None) is None  # else it would be random
    for task in PROMPTS:
        np.testing.assert_allclose(
            theirs.encode(texts, prompt_name=task), embedder.encode(texts, task=task), atol=1e-6
        )
    np.testing.assert_allclose(theirs.encode(texts), embedder.encode(texts), atol=1e-6)


@pytest.mark.parametrize("kind", OURS)
def test_our_module_stands_in_where_theirs_do_not_suffice(
    kind, tmp_path, texts, sentence_transformer
):
    embedder = disturbed(build(*OURS[kind], embedding__prompts=PROMPTS))
    embedder.save(tmp_path / "model")
    theirs = sentence_transformer(tmp_path / "model", trust_remote_code=True)
    for task in PROMPTS:
        expected = embedder.encode(texts, task=task)
        np.testing.assert_allclose(theirs.encode(texts, task=task), expected, atol=1e-6)
        np.testing.assert_allclose(theirs.encode(texts, prompt_name=task), expected, atol=1e-6)
    np.testing.assert_allclose(theirs.encode(texts), embedder.encode(texts), atol=1e-6)
    assert theirs.get_embedding_dimension() == 128
    assert theirs.max_seq_length == 128


def test_our_module_is_only_used_when_it_is_trusted(tmp_path, sentence_transformer):
    build("tiny", "moe").save(tmp_path / "model")
    with pytest.raises(ValueError, match="trust_remote_code"):
        sentence_transformer(tmp_path / "model")


@pytest.mark.parametrize("routing", ["dense", "mote"])
def test_queries_and_documents_are_cut_at_their_own_lengths(
    routing, tmp_path, sentence_transformer
):
    embedder = build("tiny", routing, embedding__query_tokens=8, embedding__document_tokens=16)
    embedder.save(tmp_path / "model")
    theirs = sentence_transformer(tmp_path / "model", trust_remote_code=routing == "mote")
    long = [" ".join(["word"] * 10 + ["other"] * 10)]
    for method, task in (("encode_query", "search_query"), ("encode_document", "search_document")):
        found = getattr(theirs, method)(long)
        np.testing.assert_allclose(found, embedder.encode(long, task=task), atol=1e-6)


def test_a_prompt_that_several_experts_share_must_be_told_apart(
    tmp_path, texts, sentence_transformer
):
    embedder = disturbed(build("tiny", "mote"))  # all prompts are empty
    embedder.save(tmp_path / "model")
    theirs = sentence_transformer(tmp_path / "model", trust_remote_code=True)
    with pytest.raises(UserError, match='task="search_query"'):
        theirs.encode(texts, prompt_name="clustering")
    expected = embedder.encode(texts, task="clustering")
    np.testing.assert_allclose(theirs.encode(texts, task="clustering"), expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["dense", "mote"])
def test_saved_by_sentence_transformers_it_comes_back(kind, tmp_path, texts, sentence_transformer):
    embedder = disturbed(build(*KINDS[kind], embedding__prompts=PROMPTS))
    embedder.save(tmp_path / "ours")
    theirs = sentence_transformer(tmp_path / "ours", trust_remote_code=kind == "mote")
    theirs.save(str(tmp_path / "theirs"), create_model_card=False)
    again = load(tmp_path / "theirs")
    np.testing.assert_allclose(
        again.encode(texts, task="clustering"), embedder.encode(texts, task="clustering"), atol=1e-6
    )
