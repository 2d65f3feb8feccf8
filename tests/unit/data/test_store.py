"""The store gives every text its tokens, once, and is never half there."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from embedexp.config.errors import UserError
from embedexp.data import store as module
from embedexp.data import vendored
from embedexp.data.store import Kind, TokenStore, tokenizer_fingerprint


class Words:
    """A tokenizer in miniature: a number for each word's length, between 2 and 3."""

    truncation_side = "right"
    init_kwargs: dict = {}  # noqa: RUF012

    def __init__(self):
        self.calls = 0

    def get_vocab(self):
        return {"[CLS]": 2, "[SEP]": 3}

    def __call__(self, text, *, max_length, **options):
        self.calls += 1
        rows = [[10 + len(word) for word in t.split()][: max_length - 2] for t in text]
        return {"input_ids": [[2, *row, 3] for row in rows]}


KINDS = [Kind("", 5, ["a bb ccc dddd", "", "ff"]), Kind("to: ", 4, ["a bb", "ccc"])]


def listed(store):
    return [store.tokens(i).tolist() for i in range(len(store))]


def test_texts_become_tokens_with_their_prompts_and_lengths(tmp_path):
    store = TokenStore.build(KINDS, Words(), tmp_path)
    rows = [[2, 11, 12, 13, 3], [2, 3], [2, 12, 3], [2, 13, 11, 3], [2, 13, 13, 3]]
    assert listed(store) == rows
    assert store.lengths.tolist() == [5, 2, 3, 4, 4]
    assert (store.flat.dtype, store.offsets.dtype) == (np.int32, np.int64)
    assert isinstance(store.flat, np.memmap)


def test_gathering_equals_one_after_the_other(tmp_path):
    store = TokenStore.build(KINDS, Words(), tmp_path)
    index = np.array([3, 1, 1, 0])
    flat, offsets = store.gather(index)
    assert flat.tolist() == [t for i in index for t in store.tokens(i).tolist()]
    assert offsets.tolist() == [0, 4, 6, 8, 13]
    nothing, zero = store.gather(np.array([], np.int64))
    assert (nothing.tolist(), zero.tolist()) == ([], [0])


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_batches_do_not_show(tmp_path, monkeypatch, batch):
    whole = listed(TokenStore.build(KINDS, Words(), tmp_path / "whole"))
    monkeypatch.setattr(module, "BATCH", batch)
    assert listed(TokenStore.build(KINDS, Words(), tmp_path / "parts")) == whole


def test_second_build_tokenises_nothing(tmp_path):
    first = listed(TokenStore.build(KINDS, Words(), tmp_path))
    again = Words()
    assert listed(TokenStore.build(KINDS, again, tmp_path)) == first
    assert again.calls == 0


@pytest.mark.parametrize(
    "kinds",
    [
        [Kind("", 4, KINDS[0].texts), KINDS[1]],
        [Kind("x", 5, KINDS[0].texts), KINDS[1]],
        [Kind("", 5, ["a bb ccc dddd", "f", "f"]), KINDS[1]],
        [Kind("", 5, KINDS[0].texts[:2]), Kind("to: ", 4, ["ff", *KINDS[1].texts])],
        KINDS[::-1],
    ],
)
def test_other_content_is_another_store(tmp_path, kinds):
    TokenStore.build(KINDS, Words(), tmp_path)
    again = Words()
    TokenStore.build(kinds, again, tmp_path)
    assert again.calls > 0
    assert len(list((tmp_path / "tokens").iterdir())) == 2


@pytest.mark.parametrize("name", ["tokens.npy", "offsets.npy", "store.json"])
def test_damaged_store_is_built_anew(tmp_path, name):
    first = listed(TokenStore.build(KINDS, Words(), tmp_path))
    (folder,) = (tmp_path / "tokens").iterdir()
    (folder / name).write_bytes((folder / name).read_bytes()[:-4])
    assert listed(TokenStore.build(KINDS, Words(), tmp_path)) == first
    assert [path.name for path in (tmp_path / "tokens").iterdir()] == [folder.name]


class Breaks(Words):
    """Works for some calls, and then is interrupted."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def __call__(self, text, **options):
        if self.calls == self.after:
            raise KeyboardInterrupt
        return super().__call__(text, **options)


Breaks.__name__ = "Words"  # the same tokenizer, to the key


@pytest.mark.parametrize("after", range(5))
def test_interrupted_build_goes_on_where_it_was(tmp_path, monkeypatch, after):
    monkeypatch.setattr(module, "BATCH", 1)
    monkeypatch.setattr(module, "COMMIT", 1)
    with pytest.raises(KeyboardInterrupt):
        TokenStore.build(KINDS, Breaks(after), tmp_path)
    assert list((tmp_path / "tokens").iterdir()) == []
    rest = Words()
    store = TokenStore.build(KINDS, rest, tmp_path)
    assert rest.calls == 5 - after
    assert listed(store) == listed(TokenStore.build(KINDS, Words(), tmp_path / "at once"))
    assert not [path for path in (tmp_path / "building").iterdir() if path.is_dir()]


def test_tokens_after_the_last_commit_are_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 1)
    monkeypatch.setattr(module, "COMMIT", 7)  # after the second text and the fourth
    with pytest.raises(KeyboardInterrupt):
        TokenStore.build(KINDS, Breaks(3), tmp_path)
    rest = Words()
    store = TokenStore.build(KINDS, rest, tmp_path)
    assert rest.calls == 3
    assert listed(store) == listed(TokenStore.build(KINDS, Words(), tmp_path / "at once"))


@pytest.mark.parametrize("name", ["tokens.npy", "offsets.npy"])
def test_work_that_is_gone_is_not_counted_on(tmp_path, monkeypatch, name):
    monkeypatch.setattr(module, "BATCH", 1)
    monkeypatch.setattr(module, "COMMIT", 1)
    with pytest.raises(KeyboardInterrupt):
        TokenStore.build(KINDS, Breaks(3), tmp_path)
    (file,) = tmp_path.glob(f"building/*/{name}")
    file.write_bytes(file.read_bytes()[:-9])
    store = TokenStore.build(KINDS, Words(), tmp_path)
    assert listed(store) == listed(TokenStore.build(KINDS, Words(), tmp_path / "at once"))


def test_of_two_processes_one_builds_and_the_other_waits(tmp_path):
    program = (
        "import sys, time; from tests.unit.data.test_store import *;"
        "words = Slow(); print('ready', flush=True); sys.stdin.readline();"
        "store = TokenStore.build(KINDS, words, sys.argv[1]); print(words.calls, listed(store))"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    root = Path(__file__).parents[3]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": root}
    with subprocess.Popen(command, **pipes) as one, subprocess.Popen(command, **pipes) as two:
        for process in (one, two):
            assert process.stdout.readline() == "ready\n"
        for process in (one, two):
            process.stdin.write("go\n")
            process.stdin.flush()
        found = [process.communicate(timeout=60)[0].split(maxsplit=1) for process in (one, two)]
    assert sorted(calls for calls, _ in found) == ["0", "2"]
    expected = str(listed(TokenStore.build(KINDS, Words(), tmp_path)))
    assert [rows.strip() for _, rows in found] == [expected] * 2


class Slow(Words):
    """Takes long enough for another process to come along."""

    def __call__(self, text, **options):
        time.sleep(0.5)
        return super().__call__(text, **options)


Slow.__name__ = "Words"


def test_files_are_plain_arrays(tmp_path):
    store = TokenStore.build(KINDS, Words(), tmp_path)
    (folder,) = (tmp_path / "tokens").iterdir()
    tokens = np.load(folder / "tokens.npy", allow_pickle=False)
    assert tokens.tolist() == store.flat.tolist()
    described = json.loads((folder / "store.json").read_text())
    assert described["facts"] == {"sequences": 5, "tokens": 18}


def test_a_store_damaged_in_place_is_made_again(tmp_path):
    right = TokenStore.build(KINDS, Words(), tmp_path).flat.tolist()
    (file,) = (tmp_path / "tokens").glob("*/tokens.npy")
    content = bytearray(file.read_bytes())
    content[-4] ^= 1
    file.write_bytes(content)
    assert TokenStore.build(KINDS, Words(), tmp_path).flat.tolist() == right


def test_long_texts_are_tokenised_few_at_a_time(tmp_path, monkeypatch):
    sizes = []

    class Sizes(Words):
        def __call__(self, text, **options):
            sizes.append([len(t) for t in text])
            return super().__call__(text, **options)

    monkeypatch.setattr(module, "CHARACTERS", 10)
    texts = ["a" * 4, "b" * 4, "c" * 4, "d" * 30, "e"]
    store = TokenStore.build([Kind("", 9, texts)], Sizes(), tmp_path)
    assert sizes == [[4, 4], [4], [30], [1]]
    assert store.flat.tolist()[1::3] == [14, 14, 14, 40, 11]


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(vendored.tokenizer_folder(), local_files_only=True)


def test_real_tokenizer_keeps_special_tokens_when_it_cuts(tokenizer, tmp_path):
    long = "the quick brown fox jumps over the lazy dog " * 20
    store = TokenStore.build([Kind("query: ", 12, [long, "fox"])], tokenizer, tmp_path)
    assert store.lengths[0] == 12
    for i, text in enumerate((long, "fox")):
        tokens = store.tokens(i).tolist()
        assert (tokens[0], tokens[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
        assert tokens == tokenizer("query: " + text, truncation=True, max_length=12)["input_ids"]


def test_fingerprint_is_the_tokenizers_own(tokenizer):
    before = tokenizer_fingerprint(tokenizer)
    tokenizer("text", truncation=True, max_length=8, padding="max_length")  # leaves settings behind
    assert tokenizer_fingerprint(tokenizer) == before
    assert tokenizer_fingerprint(Words()) != before


def test_key_is_the_same_in_another_process():
    program = (
        "from tests.unit.data.test_store import KINDS, Words;"
        "from embedexp.data.store import _key; print(_key(KINDS, Words()))"
    )
    command = [sys.executable, "-c", program]
    root = Path(__file__).parents[3]
    there = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    assert there.stdout.strip() == module._key(KINDS, Words())


def test_a_cache_that_cannot_be_written_is_the_users_to_mend(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UserError, match=r"can't be written.*\npaths\.cache="):
        TokenStore.build(KINDS, Words(), tmp_path / "file")
