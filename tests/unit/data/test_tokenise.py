"""Datasets become integer columns that point to the right tokens and mask the right texts."""

from dataclasses import fields, replace

import numpy as np
import pytest

from embedexp.data import arrays, columns, distinct, store, training_columns
from embedexp.data.dataset import Corpus, Dataset
from embedexp.data.tokenise import ABSENT, tokenise

from . import options
from .test_store import Words

RETRIEVAL = Dataset(
    "pairs",
    "retrieval",
    ["a", "bb", "a"],
    ["ccc", "dddd", "eeeee"],
    negatives=[["dddd", "x xx"], [], ["x xx"]],
    weight=3.0,
)
CLUSTERING = Dataset(
    "groups", "clustering", ["a", "g", "hh"], ["ii", "j", "ii i"], groups=["one", "two", "one"]
)
SCORED = Dataset("graded", "sts", ["a", "ccc"], ["bb", "a"], scores=[0.5, 1.0])


def test_ids_lead_to_the_tokens_of_the_prompted_texts(tmp_path):
    embedding = options.embedding(
        search_query="search query: ", search_document="document: ", clustering="cluster "
    )
    done = tokenise(Corpus((RETRIEVAL, CLUSTERING, SCORED)), Words(), embedding, tmp_path)
    prompts = {"pairs": ("search query: ", "document: "), "groups": ("cluster ",) * 2}
    for dataset, source in zip(done.datasets, (RETRIEVAL, CLUSTERING, SCORED), strict=True):
        assert (dataset.name, dataset.task) == (source.name, source.task)
        assert (dataset.weight, len(dataset)) == (source.weight, len(source))
        query, document = prompts.get(source.name, ("", ""))
        for ids, texts, prompt in (
            (dataset.query_ids, source.queries, query),
            (dataset.positive_ids, source.positives, document),
        ):
            expected = Words()([prompt + text for text in texts], max_length=99)["input_ids"]
            assert [done.store.tokens(i).tolist() for i in ids] == expected
    assert done.datasets[2].scores.tolist() == [0.5, 1.0]
    assert done.datasets[0].scores is None


def test_lengths_are_the_sides_own(tmp_path):
    long = "word " * 50
    corpus = Corpus((Dataset("d", "retrieval", [long], [long], negatives=[[long]]),))
    done = tokenise(corpus, Words(), options.embedding(6, 20), tmp_path)
    (dataset,) = done.datasets
    lengths = done.store.lengths
    assert lengths[dataset.query_ids].tolist() == [6]
    assert lengths[dataset.positive_ids].tolist() == [20]
    assert lengths[dataset.negative_ids[0]].tolist() == [20]


def test_only_search_queries_have_the_length_of_queries(tmp_path):
    long = "word " * 50
    corpus = Corpus((Dataset("d", "classification", [long], ["label"]),))
    done = tokenise(corpus, Words(), options.embedding(6, 20), tmp_path)
    assert done.store.lengths[done.datasets[0].query_ids].tolist() == [20]


def test_each_distinct_text_is_stored_once(tmp_path):
    done = tokenise(Corpus((RETRIEVAL, CLUSTERING)), Words(), options.embedding(), tmp_path)
    # a, bb as search queries; ccc, dddd, eeeee, x xx, a, g, hh, ii, j, ii i as other texts
    assert len(done.store) == 2 + 10
    same = tokenise(Corpus((RETRIEVAL, CLUSTERING)), Words(), options.embedding(9, 9), tmp_path)
    assert len(same.store) == 11


def test_ragged_negatives_are_filled_up(tmp_path):
    done = tokenise(Corpus((RETRIEVAL, SCORED)), Words(), options.embedding(), tmp_path)
    pairs, scored = done.datasets
    assert (pairs.negative_ids == ABSENT).tolist() == [[False, False], [True, True], [False, True]]
    assert (pairs.negative_keys[..., 0] == ABSENT).tolist() == (
        pairs.negative_ids == ABSENT
    ).tolist()
    assert (pairs.negative_keys[..., 1] == ABSENT).all()
    assert pairs.negative_ids[0, 1] == pairs.negative_ids[2, 0]
    assert done.store.tokens(pairs.negative_ids[0, 0]).tolist() == [2, 14, 3]
    assert scored.negative_ids.shape == (2, 0)
    assert scored.negative_keys.shape == (2, 0, 2)


def test_equal_texts_have_equal_keys_across_sides_and_datasets(tmp_path):
    other = Dataset("more", "classification", ["ccc"], ["a"])
    done = tokenise(Corpus((RETRIEVAL, other)), Words(), options.embedding(), tmp_path)
    pairs, more = done.datasets
    queries, positives = pairs.query_keys[:, 0].tolist(), pairs.positive_keys[:, 0].tolist()
    assert queries[0] == queries[2] == more.positive_keys[0, 0]
    assert positives[0] == more.query_keys[0, 0]
    assert pairs.negative_keys[0, 0, 0] == positives[1]
    assert len({*positives, *queries}) == 5
    for keys in (pairs.query_keys, pairs.positive_keys, more.query_keys):
        assert (keys[:, 1] == ABSENT).all()


def test_groups_are_the_second_column(tmp_path):
    again = Dataset("other", "clustering", ["z", "y"], ["zz", "ii"], groups=["one", None])
    negatives = [["j"], ["ii i", "new"], []]
    grouped = replace(CLUSTERING, negatives=negatives)
    done = tokenise(Corpus((grouped, again)), Words(), options.embedding(), tmp_path)
    first, second = done.datasets
    one, two, also_one = first.positive_keys[:, 1].tolist()
    assert one == also_one != two
    assert min(one, two) >= 0
    assert first.query_keys[:, 1].tolist() == [one, two, one]
    # A negative that is elsewhere a positive has that one's group.
    assert first.negative_keys[..., 1].tolist() == [[two, ABSENT], [one, ABSENT], [ABSENT] * 2]
    assert first.negative_keys[0, 0, 0] == first.positive_keys[1, 0]
    assert first.negative_keys[1, 1, 0] >= 0
    assert second.positive_keys[0, 1] not in (one, two)  # groups of two datasets differ
    assert second.positive_keys[1].tolist() == [first.positive_keys[0, 0], ABSENT]


def test_teacher_scores_are_those_of_the_texts_there(tmp_path):
    scored = replace(RETRIEVAL, teacher_scores=[[0.5, 0.25, 0.125], [], [1.0, 0.75, 9.0]])
    done = tokenise(Corpus((scored,)), Words(), options.embedding(), tmp_path)
    teacher = done.datasets[0].teacher_scores
    assert teacher.dtype == np.float32
    expected = [[0.5, 0.25, 0.125], [np.nan] * 3, [1.0, 0.75, np.nan]]
    np.testing.assert_array_equal(teacher, np.float32(expected))
    alone = replace(scored, negatives=None)
    done = tokenise(Corpus((alone,)), Words(), options.embedding(), tmp_path)
    np.testing.assert_array_equal(done.datasets[0].teacher_scores, [[0.5], [np.nan], [1.0]])
    assert (
        tokenise(Corpus((RETRIEVAL,)), Words(), options.embedding(), tmp_path)
        .datasets[0]
        .teacher_scores
        is None
    )


def test_lengths_count_all_texts_of_an_example(tmp_path):
    corpus = Corpus((replace(RETRIEVAL, language="en"),))
    done = tokenise(corpus, Words(), options.embedding(), tmp_path)
    (dataset,) = done.datasets
    # Each word is a token, and each text has two special ones.
    assert dataset.lengths.tolist() == [3 + 3 + 3 + 4, 3 + 3, 3 + 3 + 4]
    assert dataset.language == "en"


def test_whatever_is_in_memory_at_a_time_the_columns_are_the_same(tmp_path, monkeypatch):
    grouped = replace(
        CLUSTERING,
        negatives=[["j", "k"], ["ii i", "new"], ["ii"]],
        teacher_scores=[[1.0, 2.0, 3.0], [4.0], [5.0, 6.0]],
    )
    corpus = Corpus((RETRIEVAL, grouped, SCORED))
    once = tokenise(corpus, Words(), options.embedding(), tmp_path / "once")
    monkeypatch.setattr(arrays, "ROWS", 1)
    monkeypatch.setattr(training_columns, "ROWS", 1)
    monkeypatch.setattr(distinct, "PART", 2)
    monkeypatch.setattr(columns, "BATCH", 1)
    monkeypatch.setattr(store, "BATCH", 1)
    parts = tokenise(corpus, Words(), options.embedding(), tmp_path / "parts")
    np.testing.assert_array_equal(parts.store.flat, once.store.flat)
    np.testing.assert_array_equal(parts.store.offsets, once.store.offsets)
    for one, other in zip(once.datasets, parts.datasets, strict=True):
        for field in fields(one):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


@pytest.mark.parametrize(
    "change",
    [
        {"queries": ["a", "bb", "b"]},
        {"positives": ["ccc", "dddd", "e"]},
        {"negatives": [["dddd"], ["x xx"], ["x xx"]]},
        {"negatives": None},
        {"groups": ["a", "b", "c"]},
        {"scores": [1.0, 2.0, 3.0]},
        {"teacher_scores": [[1.0]] * 3},
        {"task": "clustering"},
    ],
)
def test_another_column_is_another_store(tmp_path, change):
    tokenise(Corpus((RETRIEVAL,)), Words(), options.embedding(), tmp_path)
    changed = replace(RETRIEVAL, **change)
    tokenise(Corpus((changed,)), Words(), options.embedding(), tmp_path)
    tokenise(
        Corpus((replace(changed, weight=9.0, language="de"),)),
        Words(),
        options.embedding(),
        tmp_path,
    )
    assert len(list((tmp_path / "tokens").iterdir())) == 2


def test_columns_are_arrays_whatever_the_size(tmp_path):
    count = 20_000
    texts = [f"w{n % 700}" for n in range(count)]
    corpus = Corpus((Dataset("big", "retrieval", texts, texts[::-1]),))
    done = tokenise(corpus, Words(), options.embedding(), tmp_path)
    (dataset,) = done.datasets
    assert len(done.store) == 1400
    for side in ("query", "positive"):
        ids, keys = getattr(dataset, f"{side}_ids"), getattr(dataset, f"{side}_keys")
        assert (ids.shape, keys.shape) == ((count,), (count, 2))
        assert ids.dtype == keys.dtype == np.int64
        assert isinstance(ids, np.memmap)
        assert isinstance(keys, np.memmap)
    assert (dataset.query_keys[:, 0] >= 0).all()


def test_keys_do_not_depend_on_the_run(tmp_path):
    done = tokenise(Corpus((RETRIEVAL,)), Words(), options.embedding(), tmp_path)
    assert done.datasets[0].query_keys[0].tolist() == [4594720320860938643, ABSENT]
