"""Equal texts are kept apart and like lengths brought together, and nothing else changes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from embedexp.batching.heterogeneous import HeterogeneousPlan
from embedexp.batching.homogeneous import HomogeneousPlan
from embedexp.batching.one_task_per_rank import OneTaskPerRankPlan
from embedexp.batching.plan import Source
from embedexp.batching.sources import sources_of
from embedexp.batching.task_aware import TaskAwarePlan
from embedexp.batching.windows import Windows, batches_per_window

RULES = {
    "retrieval": "homogeneous",
    "classification": "heterogeneous",
    "clustering": "heterogeneous",
    "sts": "homogeneous",
}
SIZE = 64


def source(name, task, size, weight, queries, positives):
    """Examples with so many distinct queries and positives, of random lengths."""
    rng = np.random.default_rng(size)
    return Source(
        name,
        task,
        size,
        weight,
        query_keys=rng.integers(0, queries, size),
        positive_keys=10**6 + rng.integers(0, positives, size),
        lengths=rng.integers(5, 300, size),
    )


SOURCES = [
    source("questions", "retrieval", 20_000, 3.0, 4_000, 10_000),
    source("answers", "retrieval", 5_003, 1.0, 5_000, 700),
    source("classes", "classification", 3_000, 1.0, 2_500, 5),
    source("siblings", "clustering", 2_000, 2.0, 1_500, 1_500),
]


def plans(seed=0, sources=SOURCES, **arranged):
    arrange = partial(Windows, **arranged)
    sizes = {"retrieval": 64, "classification": 32, "clustering": 16, "sts": None}
    return {
        "homogeneous": HomogeneousPlan(sources, SIZE, seed, arrange),
        "heterogeneous": HeterogeneousPlan(sources, SIZE, seed, arrange),
        "task_aware": TaskAwarePlan(sources, SIZE, RULES, seed, arrange),
        "one_task_per_rank": OneTaskPerRankPlan(sources, sizes, RULES, seed, arrange),
    }


EVERY = list(plans())
ARRANGED = {"apart": {"no_duplicates": True}, "by length": {"bucketed": True}}
ARRANGED["both"] = {**ARRANGED["apart"], **ARRANGED["by length"]}


def texts(rows, sources=SOURCES):
    """The texts of a batch, by task: an example alone has each of its own but once."""
    found: dict[str, list[int]] = {}
    for row in rows:
        data = sources[row.dataset]
        for example in row.examples.tolist():
            own = {int(data.query_keys[example])}
            if row.task != "classification":
                own.add(int(data.positive_keys[example]))
            found.setdefault(row.task, []).extend(own)
    return found


def repeated(rows, sources=SOURCES):
    return sum(len(found) - len(set(found)) for found in texts(rows, sources).values())


def composition(rows):
    return [(row.task, row.dataset, len(row.examples)) for row in rows]


def flat(rows):
    return [(row.task, row.dataset, row.examples.tolist()) for row in rows]


@pytest.mark.parametrize("bucketed", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_no_text_stands_twice_in_a_batch(name, bucketed):
    before = plans(bucketed=bucketed)[name]
    after = plans(no_duplicates=True, bucketed=bucketed)[name]
    steps = [*range(200), *range(10**7, 10**7 + 20)]
    assert sum(repeated(before(step)) for step in steps) > 50
    assert sum(repeated(after(step)) for step in steps) == 0


@pytest.mark.parametrize("arranged", ARRANGED.values(), ids=ARRANGED)
@pytest.mark.parametrize("name", EVERY)
def test_the_composition_of_each_batch_stays(name, arranged):
    before, after = plans()[name], plans(**arranged)[name]
    for step in range(150):
        assert composition(before(step)) == composition(after(step))


@pytest.mark.parametrize("arranged", ARRANGED.values(), ids=ARRANGED)
def test_a_window_has_the_examples_that_it_had(arranged):
    window = batches_per_window(SIZE)
    before, after = plans()["heterogeneous"], plans(**arranged)["heterogeneous"]
    for number in (0, 1, 12_345):
        steps = range(number * window, (number + 1) * window)
        there = [
            Counter((row.dataset, example) for step in steps for row in plan(step)
                    for example in row.examples.tolist())
            for plan in (before, after)
        ]  # fmt: skip
        assert there[0] == there[1]
        assert [flat(before(s)) for s in steps] != [flat(after(s)) for s in steps]


@pytest.mark.parametrize("name", EVERY)
def test_steps_do_not_depend_on_what_was_asked_before(name):
    both = ARRANGED["both"]
    plan = plans(**both)[name]
    forwards = {step: flat(plan(step)) for step in (0, 1, 70, 130, 200, 399)}
    for step in (200, 0, 399, 1, 130, 70):
        assert flat(plan(step)) == forwards[step]
    assert flat(plans(**both)[name](399)) == forwards[399]
    assert any(flat(plans(seed=1, **both)[name](step)) != forwards[step] for step in (0, 70))


def test_order_is_the_same_in_another_process_with_another_hash_seed():
    code = (
        "from tests.unit.batching.test_windows import ARRANGED, plans, flat;"
        "print([flat(p(10_000_000)) for p in plans(**ARRANGED['both']).values()])"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert runs == {str([flat(p(10_000_000)) for p in plans(**ARRANGED["both"]).values()])}


def test_what_cannot_be_kept_apart_stays_and_is_told(caplog):
    few = [source("labels", "retrieval", 5_000, 1.0, 5_000, 10)]
    plan = plans(sources=few, no_duplicates=True)["homogeneous"]
    with caplog.at_level("INFO"):
        rows = plan(3)
    assert len(rows[0].examples) == SIZE
    assert repeated(rows, few) == SIZE - 10
    assert "meet a duplicate that no other batch can take" in caplog.text


def test_an_example_alone_is_no_duplicate_of_itself():
    same = np.arange(1000)
    twins = [Source("twins", "sts", 1000, 1.0, "", same, same)]
    plain = HomogeneousPlan(twins, SIZE, 0)
    arranged = HomogeneousPlan(twins, SIZE, 0, partial(Windows, no_duplicates=True))
    assert flat(plain(5)) == flat(arranged(5))


@pytest.mark.parametrize("name", ["homogeneous", "heterogeneous"])
def test_like_lengths_meet_in_bucketed_batches(name):
    def spread(plan):
        of_steps = []
        for step in range(128):
            for row in plan(step):
                lengths = SOURCES[row.dataset].lengths[row.examples]
                of_steps.append(np.ptp(lengths) if len(lengths) > 4 else 0)
        return np.mean(of_steps)

    mixed, bucketed = plans()[name], plans(bucketed=True)[name]
    assert spread(bucketed) < spread(mixed) / 10
    assert spread(plans(**ARRANGED["both"])[name]) < spread(mixed) / 4


def test_a_small_dataset_does_not_meet_itself_in_bucketed_batches():
    small = source("small", "retrieval", 300, 1.0, 10**6, 10**6)
    plan = plans(sources=[small], bucketed=True)["homogeneous"]
    steps = range(2 * batches_per_window(SIZE))
    batches = [plan(step)[0].examples for step in steps]
    # Only a batch between two epochs of a window can hold an example of each.
    assert sum(len(set(batch.tolist())) < SIZE for batch in batches) <= len(steps) * SIZE // 300
    spread = np.mean([np.ptp(small.lengths[batch]) for batch in batches])
    assert spread < 0.5 * np.ptp(small.lengths)


def test_a_batch_that_mixes_datasets_is_short_in_all_of_them():
    plan = plans(bucketed=True)["heterogeneous"]
    means = []
    for step in range(64):
        rows = {
            row.dataset: SOURCES[row.dataset].lengths[row.examples].mean() for row in plan(step)
        }
        means.append([rows[0], rows[3]])
    assert np.corrcoef(np.array(means).T)[0, 1] > 0.95


def test_short_and_long_batches_come_in_random_order():
    plan = plans(bucketed=True)["homogeneous"]
    strand = [plan(step)[0] for step in range(300)]
    means = [SOURCES[0].lengths[row.examples].mean() for row in strand if row.dataset == 0]
    assert abs(np.corrcoef(means[:-1], means[1:])[0, 1]) < 0.3


@pytest.mark.parametrize("size", [1, 16, 64, 2048, 4096, 16_384, 100_000])
def test_a_window_is_neither_small_nor_large(size):
    batches = batches_per_window(size)
    assert batches >= 2
    assert 4096 - size < batches * size <= max(65_536, 2 * size)


@pytest.mark.parametrize("name", EVERY)
def test_a_late_step_costs_as_little_as_an_early_one(name):
    plan = plans(**ARRANGED["both"])[name]
    plan(0)
    for first in (20_000, 10**7):  # processor time, for other work may run beside this
        started = time.process_time()
        for step in range(first, first + 64):
            plan(step)
        assert (time.process_time() - started) / 64 < 0.05


def test_duplicates_stay_apart_to_the_end_of_an_epoch():
    """Putting them off instead, as samplers do, leaves the last batches full of them."""
    data = [source("epoch", "retrieval", 64 * 128, 1.0, 2_000, 8_000)]
    plan = plans(sources=data, no_duplicates=True)["homogeneous"]
    assert [repeated(plan(step), data) for step in range(120, 136)] == [0] * 16


def test_only_what_is_needed_is_read_from_the_corpus():
    from embedexp.data.store import TokenStore

    class Data(SimpleNamespace):
        def __len__(self):
            return 3

    ids = np.array([0, 1, 2])
    data = Data(
        name="pairs", task="retrieval", weight=2.0, language="de",
        query_ids=ids, positive_ids=ids[::-1], negative_ids=np.array([[1, -1], [-1, -1], [0, 1]]),
        query_keys=np.array([[5, -1], [6, -1], [7, 9]]), positive_keys=np.array([[1, -1]] * 3),
    )  # fmt: skip

    store = TokenStore(np.arange(12, dtype=np.int32), np.array([0, 3, 5, 12]))
    corpus = SimpleNamespace(datasets=[data], store=store)
    needs = SimpleNamespace(no_duplicates=True, lengths="bucketed")
    (found,) = sources_of(corpus, needs)
    assert (found.name, found.size, found.weight, found.language) == ("pairs", 3, 2.0, "de")
    assert found.query_keys.tolist() == [5, 6, 7]
    assert found.positive_keys.tolist() == [1, 1, 1]
    assert found.lengths.tolist() == [3 + 7 + 2, 2 + 2, 7 + 3 + 3 + 2]
    (found,) = sources_of(corpus, SimpleNamespace(no_duplicates=False, lengths="mixed"))
    assert found.query_keys is found.positive_keys is found.lengths is None
