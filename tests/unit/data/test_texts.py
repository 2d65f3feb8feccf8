"""Texts and pairs as tokens for language models."""

from __future__ import annotations

import numpy as np
import pytest

from embedexp.backbone.tokenizers import BUILTIN
from embedexp.data.dataset import Corpus, Dataset, TextDataset
from embedexp.data.texts import TokenisedPairs, texts_of, tokenise_pairs, tokenise_texts

PAIRS = Dataset("pairs", "retrieval", ["a cat", "a dog", "a cat"], ["an animal", "a pet", "a dog"])
PROMPTS = {"retrieval": "Input: {text} Output:"}


@pytest.fixture(scope="module")
def tokenizer():
    """The built-in one: [CLS] text [SEP]."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(BUILTIN)


def test_plain_texts_come_first_and_pairs_give_their_distinct_texts():
    texts = TextDataset("texts", ["x", "x"], language="en")
    assert texts_of(Corpus((PAIRS,), texts=(texts,))) == (texts,)
    (found,) = texts_of(Corpus((PAIRS,)))
    assert list(found.texts) == ["a cat", "a dog", "an animal", "a pet"]


def test_long_texts_are_not_cut_and_datasets_keep_their_own(tokenizer, tmp_path):
    long = " ".join(["animal"] * 3000)
    corpus = Corpus((), texts=(TextDataset("a", ["a cat"]), TextDataset("b", [long, "a dog"])))
    first, second = tokenise_texts(corpus, tokenizer, tmp_path, ended=True)
    assert np.diff(second.offsets).tolist() == [3002, 4]
    tokens = first.flat[first.offsets[0] : first.offsets[1]]
    assert tokenizer.decode(tokens) == "[CLS] a cat [SEP]"


class WithoutEnd:
    """A tokenizer that, like Llama's, puts a token before a text and none behind it."""

    def __init__(self, tokenizer):
        from tokenizers.processors import TemplateProcessing

        self.inner = type(tokenizer).from_pretrained(BUILTIN)
        start = self.inner.cls_token
        self.inner.backend_tokenizer.post_processor = TemplateProcessing(
            single=f"{start} $A", special_tokens=[(start, self.inner.cls_token_id)]
        )
        self.inner.add_special_tokens({"eos_token": "[SEP]"})


def test_texts_end_where_the_tokenizer_does_not_end_them(tokenizer, tmp_path):
    plain = WithoutEnd(tokenizer).inner
    corpus = Corpus((), texts=(TextDataset("a", ["a cat", "a dog"]),))
    (found,) = tokenise_texts(corpus, plain, tmp_path, ended=True)
    assert plain.decode(found.flat) == "[CLS] a cat [SEP] [CLS] a dog [SEP]"
    (found,) = tokenise_texts(corpus, plain, tmp_path, ended=False)
    assert plain.decode(found.flat) == "[CLS] a cat [CLS] a dog"


def pairs(tokenizer, folder, **lengths) -> TokenisedPairs:
    """The one dataset's pairs."""
    limits = {"input_tokens": 20, "output_tokens": 20, **lengths}
    (found,) = tokenise_pairs(Corpus((PAIRS,)), tokenizer, folder, prompts=PROMPTS, **limits)
    return found


@pytest.mark.parametrize("ended", [True, False])
def test_a_pair_is_prompt_answer_and_end(ended, tokenizer, tmp_path):
    own = tokenizer if ended else WithoutEnd(tokenizer).inner
    found = pairs(own, tmp_path)
    assert own.decode(found[1]) == "[CLS] input : a dog output : a pet [SEP]"
    prompts, lengths = found.lengths(np.arange(3))
    assert lengths.tolist() == [len(found[i]) for i in range(3)]
    assert own.decode(found[1][prompts[1] :]) == "a pet [SEP]"


def test_long_pairs_are_cut_inside_so_that_frame_and_end_stay(tokenizer, tmp_path):
    long = " ".join(["animal"] * 100)
    dataset = Dataset("long", "retrieval", [long], [long])
    (found,) = tokenise_pairs(
        Corpus((dataset,)), tokenizer, tmp_path, prompts=PROMPTS, input_tokens=9, output_tokens=5
    )
    prompts, lengths = found.lengths(np.arange(1))
    assert (prompts[0], lengths[0]) == (9, 14)
    assert tokenizer.decode(found[0]).startswith("[CLS] input : animal")
    assert "output :" in tokenizer.decode(found[0][:9])
    assert tokenizer.decode(found[0][9:]) == "animal animal animal animal [SEP]"
