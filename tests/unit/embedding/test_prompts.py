"""Prompts as prefixes and templates, and pooling without their tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from embedexp.batching.token_batch import TokenBatch
from embedexp.config import compose
from embedexp.config.errors import UserError
from embedexp.config.locations import conf_dir
from embedexp.config.schema.embedding import Prompts
from embedexp.config.sources import read_yaml
from embedexp.config.tasks import INSTRUCTIONS
from embedexp.data.prompted import frame, tokenise
from embedexp.embedding import load
from embedexp.embedding.encoding import tokenize
from embedexp.embedding.instructions import Instructions

from .conftest import PROMPTS, build
from .test_saving import disturbed

TEMPLATE = "this sentence: {text} means in one word:"
TEMPLATES = {
    "search_query": "query: ",
    "search_document": "",
    "classification": TEMPLATE,
    "clustering": "Instruct: Find the topic\nQuery: {text}",
}
SETS = sorted(path.stem for path in (conf_dir() / "prompts").glob("*.yaml"))


@pytest.fixture(scope="module")
def tokenizer():
    return build("tiny").tokenizer


def bpe():
    """Byte-level BPE in which a space belongs to the token behind it, and no special tokens."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(letters)}
    merges = [("Ġ", "a"), ("Ġ", "b"), ("Ġ", "c"), ("c", "a"), ("Ġc", "a"), ("Ġca", "t"), ("a", '"')]
    for left, right in merges:
        vocabulary.setdefault(left + right, len(vocabulary))
    inner = Tokenizer(models.BPE(vocabulary, merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return PreTrainedTokenizerFast(tokenizer_object=inner)


@pytest.mark.parametrize("name", SETS)
def test_every_set_composes_and_is_taken_over(name):
    config = compose(["backbone=tiny", f"+prompts={name}"])
    said = read_yaml(conf_dir() / "prompts" / f"{name}.yaml")
    assert config.embedding.prompts.model_dump() == said
    assert set(said) == set(INSTRUCTIONS)
    assert (config.signature == compose(["backbone=tiny"]).signature) is (name == "none")


def test_the_papers_strings():
    def prompts(name):
        return compose(["backbone=tiny", f"+prompts={name}"]).embedding.prompts

    assert prompts("nomic").search_query == "search_query: "
    assert prompts("nomic").search_document == "search_document: "
    assert prompts("e5").search_document == "passage: "
    assert prompts("mote").search_query == "search query: "
    assert prompts("instruct").classification == (
        "Instruct: Retrieve semantically similar text.\nQuery: "
    )
    assert prompts("prompt_eol").clustering == "This sentence: {text} means in one word:"
    as_run = prompts("prompt_eol_as_run")  # MoE-Embedding@f80bebd
    assert set(as_run.model_dump().values()) == {'This sentence : "{text}" means in one word:"'}
    assert set(prompts("quoted").model_dump().values()) == {'"{text}"'}
    assert len([name for name in SETS if name.startswith("moee_")]) == 8


def test_a_template_surrounds_the_text(tokenizer):
    (found,) = tokenise(tokenizer, TEMPLATE, ["a cat"], 64)
    (expected,) = tokenise(tokenizer, "", ["this sentence: a cat means in one word:"], 64)
    assert found == expected


def test_a_prefix_and_a_template_that_ends_with_the_text_are_the_same(tokenizer):
    for text in ("a cat", "", "word " * 50):
        for limit in (4, 16, 64):
            left = tokenise(tokenizer, "query: {text}", [text], limit)
            assert left == tokenise(tokenizer, "query: ", [text], limit)


@pytest.mark.parametrize("limit", [14, 20, 30])
def test_what_is_too_long_loses_the_texts_end_alone(tokenizer, limit):
    words = ["a", "cat", "sat", "on", "the", "mat", "and", "ran", *("far",) * 6, "away"]
    (found,) = tokenise(tokenizer, TEMPLATE, [" ".join(words)], limit)
    candidates = [
        tokenise(tokenizer, TEMPLATE, [" ".join(words[:n])], 99)[0] for n in range(len(words) + 1)
    ]
    assert found in candidates
    assert len(found) <= limit


def test_a_template_that_leaves_no_room_is_an_error(tokenizer):
    around = frame(tokenizer, TEMPLATE)
    size = len(around.before) + len(around.after)
    assert len(tokenise(tokenizer, TEMPLATE, ["a cat"], size + 1)[0]) == size + 1
    with pytest.raises(UserError, match=f"takes {size} tokens, the limit is {size}"):
        tokenise(tokenizer, TEMPLATE, ["a cat"], size)


def test_training_and_encoding_make_the_same_tokens(tmp_path, texts):
    from embedexp.data import Corpus, Dataset
    from embedexp.data.tokenise import tokenise as tokenise_corpus

    embedder = build("tiny", embedding__prompts=TEMPLATES, embedding__document_tokens=16)
    long = ["word " * 40, *texts]
    corpus = Corpus(
        train=(Dataset(name="x", task="sts", weight=1.0, queries=long, positives=long,
                       scores=[0.5] * len(long)),),
        heldout=(),
    )  # fmt: skip
    made = tokenise_corpus(corpus, embedder.tokenizer, embedder.config.embedding, tmp_path)
    stored = [made.store.tokens(int(i)).tolist() for i in made.datasets[0].query_ids]
    assert stored == tokenize(embedder, long, task="classification", role="document")


def test_the_frame_is_what_a_prompt_adds():
    tokenizer = bpe()
    for prompt, before, after in (("q: ", "q:Ġ", ""), ('"{text}" w', '"', '"Ġw'), ("", "", "")):
        around = frame(tokenizer, prompt)
        assert "".join(tokenizer.convert_ids_to_tokens(around.before)) == before
        assert "".join(tokenizer.convert_ids_to_tokens(around.after)) == after


def by_hand(tokenizer, prompts, texts, task):
    """Tokens that are the text's by the characters that they cover, and closing special ones."""
    before, _, after = getattr(prompts, task).partition("{text}")
    kept = []
    for text in texts:
        found = tokenizer(before + text + after, return_offsets_mapping=True)
        end = len(before) + len(text)
        inside = [stop > len(before) and start < end for start, stop in found["offset_mapping"]]
        special = tokenizer.get_special_tokens_mask(
            found["input_ids"], already_has_special_tokens=True
        )
        last = len(special) - 1 - special[::-1].index(0) if 0 in special else -1
        kept.append([i or (bool(s) and place > last) for place, (i, s) in
                     enumerate(zip(inside, special, strict=True))])  # fmt: skip
    return kept


@pytest.mark.parametrize("which", ["wordpiece", "bpe"])
@pytest.mark.parametrize("task", ["search_query", "classification", "clustering"])
def test_the_tokens_of_the_text_are_found(which, task, tokenizer):
    tokenizer = tokenizer if which == "wordpiece" else bpe()
    prompts = Prompts(**TEMPLATES)
    texts = ["a cat", "c", "query: query: b", "means in one word: means", "cat a"]
    sequences = tokenise(tokenizer, getattr(prompts, task), texts, 99)
    tasks = [INSTRUCTIONS.index(task)] * len(texts)
    tokens = TokenBatch.pack(sequences, tasks, [1] * len(texts))
    found = Instructions(tokenizer, prompts).text(tokens)
    for start, end, expected in zip(
        tokens.cu_seqlens, tokens.cu_seqlens[1:], by_hand(tokenizer, prompts, texts, task),
        strict=False,
    ):  # fmt: skip
        assert found[start:end].tolist() == expected


def test_tasks_meet_in_a_batch_and_empty_prompts_leave_nothing_out(tokenizer):
    prompts = Prompts(**TEMPLATES)
    instructions = Instructions(tokenizer, prompts)
    parts, sequences, tasks = [], [], []
    for task in INSTRUCTIONS:
        made = tokenise(tokenizer, getattr(prompts, task), ["a cat", "rain"], 99)
        alone = TokenBatch.pack(made, [INSTRUCTIONS.index(task)] * 2, [1] * 2)
        parts.append(instructions.text(alone))
        sequences += made
        tasks += [INSTRUCTIONS.index(task)] * 2
    together = instructions.text(TokenBatch.pack(sequences, tasks, [1] * len(tasks)))
    assert torch.equal(together, torch.cat(parts))
    assert parts[INSTRUCTIONS.index("search_document")].all()


def test_a_sequence_that_is_all_prompt_keeps_what_it_has():
    tokenizer = bpe()
    prompts = Prompts(search_query="q:", search_document="", classification="", clustering="")
    tokens = TokenBatch.pack(tokenise(tokenizer, "q:", ["", "a"], 9), [0, 0], [0, 0])
    assert Instructions(tokenizer, prompts).text(tokens).tolist() == [
        True,
        True,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("pooling", ["mean", "weighted_mean"])
@pytest.mark.parametrize("routing", ["dense", "mote"])
def test_pooling_leaves_the_instruction_out(pooling, routing, texts):
    options = {"embedding__prompts": TEMPLATES, "embedding__normalize": False}
    embedder = disturbed(
        build("tiny", routing, None, pooling, embedding__exclude_instruction=True, **options)
    ).eval()
    tokens = TokenBatch.pack(
        tokenize(embedder, texts, task="search_query", role="query"), [0] * len(texts),
        [0] * len(texts),
    )  # fmt: skip
    hidden = embedder.model.eval()
    seen = {}
    hook = hidden.register_forward_hook(lambda m, a, o: seen.update(h=o.last_hidden_state[0]))
    found = embedder(tokens).vectors
    hook.remove()
    skip = len(frame(embedder.tokenizer, "query: ").before)
    assert skip == 4  # [CLS] que ##ry :
    for vector, start, end in zip(found, tokens.cu_seqlens, tokens.cu_seqlens[1:], strict=False):
        rows = seen["h"][start + skip : end].double()
        weights = torch.ones(len(rows), 1, dtype=torch.float64)
        if pooling == "weighted_mean":
            weights = torch.arange(1, len(rows) + 1, dtype=torch.float64)[:, None]
        expected = (rows * weights).sum(0) / weights.sum()
        torch.testing.assert_close(vector.double(), expected, atol=1e-5, rtol=0)


def test_it_agrees_with_sentence_transformers_include_prompt(tmp_path, texts):
    st = pytest.importorskip("sentence_transformers")
    plain = disturbed(build("tiny", embedding__prompts=PROMPTS))
    ours = disturbed(build("tiny", embedding__prompts=PROMPTS, embedding__exclude_instruction=True))
    plain.save(tmp_path / "plain")
    theirs = st.SentenceTransformer(str(tmp_path / "plain"), device="cpu")
    theirs[1].include_prompt = False
    for task in PROMPTS:
        expected = theirs.encode(texts, prompt_name=task)
        np.testing.assert_allclose(ours.encode(texts, task=task), expected, atol=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {"embedding__prompts": TEMPLATES},
        {"embedding__prompts": PROMPTS, "embedding__exclude_instruction": True},
    ],
    ids=["templates", "excluded"],
)
def test_saved_models_put_the_text_where_it_belongs(changes, tmp_path, texts):
    st = pytest.importorskip("sentence_transformers")
    embedder = disturbed(build("tiny", **changes))
    embedder.save(tmp_path / "model")
    again = load(tmp_path / "model")
    with pytest.raises(ValueError, match="trust_remote_code"):
        st.SentenceTransformer(str(tmp_path / "model"), device="cpu")
    theirs = st.SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=True)
    for task in PROMPTS:
        expected = embedder.encode(texts, task=task)
        np.testing.assert_array_equal(again.encode(texts, task=task), expected)
        for chosen in ({"task": task}, {"prompt_name": task}):
            np.testing.assert_allclose(theirs.encode(texts, **chosen), expected, atol=1e-6)


def test_a_foreign_prompt_cannot_be_excluded(tmp_path, texts):
    st = pytest.importorskip("sentence_transformers")
    build("tiny", embedding__prompts=PROMPTS, embedding__exclude_instruction=True).save(
        tmp_path / "model"
    )
    theirs = st.SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=True)
    with pytest.raises(UserError, match="'other: ' is not one of the model's"):
        theirs.encode(texts, prompt="other: ")
