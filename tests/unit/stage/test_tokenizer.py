"""stage=tokenizer: what is trained loads, measures itself right, and serves a backbone."""

from __future__ import annotations

import json

import pytest
from transformers import AutoTokenizer

import embedexp
from embedexp.config.errors import UserError

ENCODER = [
    "stage.special.cls='[CLS]'", "stage.special.sep='[SEP]'", "stage.special.mask='[MASK]'",
    "stage.special.unk='[UNK]'", "stage.special.eos=null", "stage.around=cls_sep",
]  # fmt: skip


@pytest.fixture
def composed(tmp_path):
    def compose(*more):
        return embedexp.compose(
            [
                "stage=tokenizer", "stage.vocabulary=600", "stage.holdout=50", "tracking=none",
                "data.max_examples=600", "data.tasks=[retrieval]",
                f"paths.runs={tmp_path / 'runs'}", f"paths.cache={tmp_path / 'cache'}", *more,
            ]
        )  # fmt: skip

    return compose


def run(config):
    return embedexp.run(config, quiet=True)


def report(done):
    return json.loads((done.path / "tokenizer" / "report.json").read_text())


@pytest.mark.parametrize("model", ["byte_bpe", "wordpiece", "unigram"])
def test_what_is_trained_loads_and_has_the_size_that_was_asked_for(composed, model):
    done = run(composed(f"stage.model={model}", *ENCODER))
    tokenizer = AutoTokenizer.from_pretrained(done.path / "tokenizer")
    assert len(tokenizer) == 600 == report(done)["vocabulary"]
    ids = tokenizer("a small stone")["input_ids"]
    assert (ids[0], ids[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
    pair = tokenizer("a stone", "a river", return_token_type_ids=True)
    assert set(pair["token_type_ids"]) == {0, 1}
    assert tokenizer.mask_token == "[MASK]"
    assert tokenizer.model_max_length == 32768


def test_bytes_are_never_unknown_and_texts_come_back(composed):
    done = run(composed("stage.normalization=none"))
    tokenizer = AutoTokenizer.from_pretrained(done.path / "tokenizer")
    for text in ("größe 東京 🙂", " two  spaces\n", "def f(x):\treturn 1"):
        ids = tokenizer(text)["input_ids"]
        assert ids[-1] == tokenizer.eos_token_id
        assert tokenizer.decode(ids[:-1]) == text
    (measured,) = report(done)["datasets"]
    assert (measured["unknown"], measured["kept"], measured["texts"]) == (0, 1, 50)
    assert 1 < measured["bytes_per_token"] < 6


def test_the_report_counts_as_a_plain_loop_does(composed):
    config = composed(*ENCODER, "stage.model=wordpiece")
    done = run(config)
    tokenizer = AutoTokenizer.from_pretrained(done.path / "tokenizer")
    from embedexp import data
    from embedexp.data import vocabulary
    from embedexp.data.texts import texts_of

    (texts,) = texts_of(data.load(config.data), config.paths.cache)
    split = vocabulary.split(texts, config.stage)
    assert not set(split.train) & set(split.held)
    assert len(split.train) + len(split.held) == len(texts)
    size = sum(len(text.encode("utf-8")) for text in split.held)
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in split.held]
    (measured,) = report(done)["datasets"]
    assert measured["bytes_per_token"] == pytest.approx(size / sum(map(len, ids)))
    unknown = sum(each.count(tokenizer.unk_token_id) for each in ids)
    assert measured["unknown"] == pytest.approx(unknown / sum(map(len, ids)))


def test_training_again_gives_the_same_tokenizer(composed):
    files = [run(composed(f"name={name}")).path / "tokenizer/tokenizer.json" for name in "ab"]
    assert files[0].read_text() == files[1].read_text()


def test_digits_are_single_tokens_if_asked_for(composed):
    done = run(composed())
    tokenizer = AutoTokenizer.from_pretrained(done.path / "tokenizer")
    assert len(tokenizer("2024", add_special_tokens=False)["input_ids"]) == 4


def test_a_backbone_uses_the_tokenizer_of_a_run(composed, tmp_path):
    done = run(composed())
    path = str(done.path)
    overrides = ["backbone=tiny", "backbone.architecture.vocab_size=600"]
    config = embedexp.compose([*overrides, f"backbone.tokenizer={path}"])
    before = config.signature
    embedder = embedexp.build_embedder(config)
    assert len(embedder.text_tokenizer) == 600
    assert embedder.encode(["a stone"]).shape == (1, 128)
    moved = tmp_path / "elsewhere" / done.path.name
    moved.parent.mkdir()
    done.path.rename(moved)
    again = embedexp.compose([*overrides, f"backbone.tokenizer={moved}"])
    assert again.signature == before != embedexp.compose(overrides).signature


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["stage.around=cls_sep"], "needs stage.special.cls"),
        (["stage.model=unigram"], "stage.special.unk is null"),
        (["stage.model=unigram", "stage.special.unk=U", "stage.min_frequency=3"], "no effect"),
    ],
)
def test_contradictions_are_found_when_composing(composed, overrides, words):
    with pytest.raises(UserError, match=words):
        composed(*overrides)
