"""Vectors are found by content, and embedded once."""

import numpy as np
import pytest

from embedexp.negatives.cache import EmbeddingCache

TEXTS = [f"text {i}" for i in range(25)]


class Counting:
    """An encoder that says what it was asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, texts):
        self.asked.append(list(texts))
        return np.array([[len(t), hash(t) % 97, 1.5] for t in texts], np.float64)

    @property
    def texts(self):
        return [text for asked in self.asked for text in asked]


def cache(folder, block=10, **identity):
    return EmbeddingCache(folder, {"model": "m", **identity}, block=block)


def test_vectors_are_in_order_and_of_the_asked_type(tmp_path):
    encode = Counting()
    found = cache(tmp_path).vectors([TEXTS[3], TEXTS[1], TEXTS[3]], encode, "float16")
    assert encode.asked == [[TEXTS[3], TEXTS[1]]]  # each distinct text once
    assert found.shape == (3, 3)
    assert found[:].dtype == np.float16
    np.testing.assert_array_equal(found[:], encode([TEXTS[3], TEXTS[1], TEXTS[3]]))
    np.testing.assert_array_equal(found[np.array([2, 0])], found[:][[2, 0]])


def test_a_changed_text_is_a_miss_and_the_others_hits(tmp_path):
    cache(tmp_path).vectors(TEXTS, Counting())
    encode = Counting()
    changed = [*TEXTS[:7], "another", *TEXTS[8:]]
    found = cache(tmp_path).vectors(changed[::-1], encode)
    assert encode.texts == ["another"]
    np.testing.assert_array_equal(found[:], encode(changed[::-1]))


@pytest.mark.parametrize("other", [{"model": "n"}, {"prompt": "query: "}, {"precision": "float16"}])
def test_another_model_prompt_or_precision_shares_nothing(tmp_path, other):
    cache(tmp_path).vectors(TEXTS, Counting())
    encode = Counting()
    cache(tmp_path, **other).vectors(TEXTS, encode)
    assert encode.texts == TEXTS


def test_a_stopped_run_repeats_one_block(tmp_path):
    class Stop(Exception):
        pass

    def stop_at_20(done, missing):
        assert missing == 25
        if done == 20:
            raise Stop

    first = Counting()
    with pytest.raises(Stop):
        cache(tmp_path).vectors(TEXTS, first, on_block=stop_at_20)
    assert first.texts == TEXTS[:20]
    second = Counting()
    cache(tmp_path).vectors(TEXTS, second)
    assert second.texts == TEXTS[20:]


def test_a_damaged_block_is_embedded_again(tmp_path, caplog):
    kept = cache(tmp_path)
    kept.vectors(TEXTS, Counting())
    damaged = sorted(kept.folder.glob("*.vectors.npy"))[0]
    damaged.write_bytes(damaged.read_bytes()[:100])
    encode = Counting()
    found = cache(tmp_path).vectors(TEXTS, encode)
    assert 0 < len(encode.texts) <= 10
    assert "is damaged" in caplog.text
    np.testing.assert_array_equal(found[:], encode(TEXTS))


def test_vectors_are_mapped_not_loaded(tmp_path):
    found = cache(tmp_path).vectors(TEXTS, Counting())
    assert len(found.blocks) == 3
    assert all(isinstance(block, np.memmap) for block in found.blocks)


def test_an_empty_file_is_a_damaged_block(tmp_path):
    kept = cache(tmp_path)
    kept.vectors(TEXTS, Counting())
    sorted(kept.folder.glob("*.keys.npy"))[0].write_bytes(b"")
    encode = Counting()
    found = cache(tmp_path).vectors(TEXTS, encode)
    assert 0 < len(encode.texts) <= 10
    np.testing.assert_array_equal(found[:], encode(TEXTS))


def test_what_cannot_be_read_for_now_is_not_thrown_away(tmp_path, monkeypatch):
    kept = cache(tmp_path)
    kept.vectors(TEXTS, Counting())
    files = sorted(kept.folder.glob("*.npy"))
    load, failed = np.load, []

    def once(path, **options):
        if not failed:
            failed.append(path)
            raise OSError(12, "Cannot allocate memory")
        return load(path, **options)

    monkeypatch.setattr(np, "load", once)
    blocks, _ = cache(tmp_path)._read()
    assert len(blocks) == 2
    assert sorted(kept.folder.glob("*.npy")) == files
