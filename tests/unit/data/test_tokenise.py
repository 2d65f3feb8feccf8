"""Datasets become integer columns that point to the right tokens and mask the right texts."""

import numpy as np

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
    assert (pairs.negative_keys == ABSENT).tolist() == (pairs.negative_ids == ABSENT).tolist()
    assert pairs.negative_ids[0, 1] == pairs.negative_ids[2, 0]
    assert done.store.tokens(pairs.negative_ids[0, 0]).tolist() == [2, 14, 3]
    assert scored.negative_ids.shape == (2, 0)


def test_equal_texts_have_equal_keys_across_sides_and_datasets(tmp_path):
    other = Dataset("more", "classification", ["ccc"], ["a"])
    done = tokenise(Corpus((RETRIEVAL, other)), Words(), options.embedding(), tmp_path)
    pairs, more = done.datasets
    assert pairs.query_keys[0] == pairs.query_keys[2] == more.positive_keys[0]
    assert pairs.positive_keys[0] == more.query_keys[0]
    assert pairs.negative_keys[0, 0] == pairs.positive_keys[1]
    assert len({*pairs.positive_keys.tolist(), *pairs.query_keys.tolist()}) == 5


def test_groups_decide_keys(tmp_path):
    again = Dataset("other", "clustering", ["z"], ["zz"], groups=["one"])
    negatives = [["j"], ["ii i", "new"], []]
    grouped = Dataset(
        "groups",
        "clustering",
        CLUSTERING.queries,
        CLUSTERING.positives,
        negatives=negatives,
        groups=CLUSTERING.groups,
    )
    done = tokenise(Corpus((grouped, again)), Words(), options.embedding(), tmp_path)
    first, second = done.datasets
    one, two, also_one = first.positive_keys.tolist()
    assert one == also_one != two
    assert first.query_keys.tolist() == [one, two, one]
    assert first.negative_keys[0, 0] == two
    assert first.negative_keys[1, 0] == one
    assert first.negative_keys[1, 1] not in (one, two, ABSENT)
    assert second.positive_keys[0] != one  # groups of two datasets have nothing in common


def test_columns_are_arrays_whatever_the_size(tmp_path):
    count = 20_000
    texts = [f"w{n % 700}" for n in range(count)]
    corpus = Corpus((Dataset("big", "retrieval", texts, texts[::-1]),))
    done = tokenise(corpus, Words(), options.embedding(), tmp_path)
    (dataset,) = done.datasets
    assert len(done.store) == 1400
    for name in ("query_ids", "positive_ids", "query_keys", "positive_keys"):
        column = getattr(dataset, name)
        assert (column.shape, column.dtype) == ((count,), np.int64)
    assert (dataset.query_keys >= 0).all()


def test_keys_do_not_depend_on_the_run(tmp_path):
    done = tokenise(Corpus((RETRIEVAL,)), Words(), options.embedding(), tmp_path)
    assert done.datasets[0].query_keys.tolist()[0] == 1277245950803712206
