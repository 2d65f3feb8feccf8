"""Equal texts get one number, in the order of appearance, whatever is in memory at a time."""

import hashlib

import numpy as np
import pytest

from embedexp.data import arrays, distinct
from embedexp.data.arrays import ArrayWriter, load
from embedexp.data.hashing import stable_hash, text_digests, text_keys


def by_dictionary(rows):
    known = {}
    return [known.setdefault(row, len(known)) for row in rows], len(known)


@pytest.mark.parametrize("part", [1, 7, 1000])
@pytest.mark.parametrize("piece", [3, 1000])
def test_numbers_are_those_of_a_dictionary(tmp_path, monkeypatch, part, piece):
    monkeypatch.setattr(distinct, "PART", part)
    monkeypatch.setattr(arrays, "ROWS", piece)
    chance = np.random.default_rng(0)
    texts = [str(n) for n in chance.integers(0, 40, 200)]
    kinds = np.repeat([0, 1, 0], [90, 60, 50])
    salts = np.array([[0, 0], [5, 9]], np.uint64)
    starts = [(0, salts[0]), (90, salts[1]), (150, salts[0])]
    found = distinct.number(text_digests(texts), starts, tmp_path)
    expected, count = by_dictionary(zip(kinds.tolist(), texts, strict=True))
    assert load(tmp_path / "ids.npy").tolist() == expected
    assert found == count
    assert [path.name for path in tmp_path.iterdir()] == ["ids.npy"]


def test_half_a_hash_in_common_is_not_the_same(tmp_path):
    digests = np.array([[1, 1], [1, 2], [2, 1], [1, 1]], np.uint64)
    assert distinct.number(digests, [(0, np.zeros(2, np.uint64))], tmp_path) == 3
    assert load(tmp_path / "ids.npy").tolist() == [0, 1, 2, 0]


def test_nothing_has_no_numbers(tmp_path):
    assert (
        distinct.number(np.empty((0, 2), np.uint64), [(0, np.zeros(2, np.uint64))], tmp_path) == 0
    )
    assert len(load(tmp_path / "ids.npy")) == 0


def test_first_appearances_are_found_from_any_place_on():
    ids, _ = by_dictionary("abacabdea")
    whole = distinct.first_seen(np.array(ids), 0)
    assert whole.tolist() == [
        c == 0 for c in ("abacabdea"[:i].count(x) for i, x in enumerate("abacabdea"))
    ]
    for start in range(len(ids)):
        rest = distinct.first_seen(np.array(ids[start:]), len(set(ids[:start])))
        assert rest.tolist() == whole[start:].tolist()


def test_hashes_of_texts_are_the_same_everywhere():
    texts = ["a", "", "\N{SNOWMAN}", "a"]
    digests = text_digests(texts)
    assert digests.shape == (4, 2)
    own = hashlib.blake2b("\N{SNOWMAN}".encode(), digest_size=16).digest()
    assert digests[2].tolist() == [
        int.from_bytes(own[:8], "little"),
        int.from_bytes(own[8:], "little"),
    ]
    assert digests[0].tolist() == digests[3].tolist()
    keys = text_keys(digests)
    assert keys[0] == 4594720320860938643
    assert (keys >= 0).all()
    assert len(set(keys.tolist())) == 3
    assert stable_hash("text", "a") not in keys
    assert text_digests([]).shape == (0, 2)


def test_an_array_goes_on_where_it_was_told_to(tmp_path):
    path = tmp_path / "a.npy"
    with ArrayWriter(path, np.int32, (2,)) as file:
        file.append(np.arange(10).reshape(5, 2))
    with ArrayWriter(path, np.int32, (2,), keep=2) as file:
        file.append(np.array([[-1, -2]]))
        assert file.length == 3
    assert np.load(path).tolist() == [[0, 1], [2, 3], [-1, -2]]
    assert isinstance(load(path), np.memmap)
