"""Every step holds each task's own number of examples."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from embedexp import batching
from embedexp.batching.one_task_per_rank import OneTaskPerRankPlan
from embedexp.batching.plan import Source
from embedexp.config import UserError, compose

SOURCES = [
    Source("questions", "retrieval", 300, 2.0),
    Source("similarity", "sts", 90, 1.0),
    Source("definitions", "retrieval", 1000, 4.0),
    Source("classes", "classification", 77, 1.0),
    Source("unused", "clustering", 50, 0.0),
    Source("topics", "classification", 60, 1.0),
]
SIZES = {"retrieval": 4, "sts": 32, "classification": 10, "clustering": None}
RULES = {
    "retrieval": "homogeneous",
    "classification": "heterogeneous",
    "clustering": "heterogeneous",
    "sts": "homogeneous",
}


def test_a_step_has_a_sub_batch_of_each_task_and_tasks_are_consecutive():
    plan = OneTaskPerRankPlan(SOURCES, SIZES, RULES, 0)
    for step in (*range(50), 10**7):
        rows = plan(step)
        counts: Counter[str] = Counter()
        for row in rows:
            counts[row.task] += len(row.examples)
            assert SOURCES[row.dataset].task == row.task
            assert row.examples.max() < SOURCES[row.dataset].size
        assert counts == {"retrieval": 4, "sts": 32, "classification": 10}
        tasks = [row.task for row in rows]
        assert tasks == sorted(tasks)


def test_each_task_follows_its_rule_and_weights():
    rows = [row for step in range(60) for row in OneTaskPerRankPlan(SOURCES, SIZES, RULES, 0)(step)]
    retrieval = Counter(SOURCES[row.dataset].name for row in rows if row.task == "retrieval")
    assert retrieval == {"definitions": 40, "questions": 20}
    labels = [row.dataset for row in rows if row.task == "classification"]
    assert len(labels) == 120
    seen = np.concatenate([row.examples for row in rows if row.task == "sts"])
    assert max(Counter(seen.tolist()).values()) - min(Counter(seen.tolist()).values()) <= 1


def test_a_task_without_a_size_is_refused():
    with pytest.raises(ValueError, match="no size"):
        OneTaskPerRankPlan(SOURCES, SIZES | {"sts": None}, RULES, 0)


CHOSEN = ["batching=one_task_per_rank", "loss=task_aware"]


def test_the_option_composes_to_its_plan():
    config = compose(CHOSEN)
    assert config.batching.size == 4 + 3 * 32
    counts: Counter[str] = Counter()
    sources = [Source(task, task, 500, 1.0) for task in RULES]
    for row in batching.build(config.batching, sources, seed=0)(3):
        counts[row.task] += len(row.examples)
    assert counts == {"retrieval": 4, "classification": 32, "clustering": 32, "sts": 32}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["batching=one_task_per_rank"], "use loss=task_aware"),
        ([*CHOSEN, "batching.sizes.sts=null"], "the data teaches sts, but batching.sizes.sts is"),
        ([*CHOSEN, "data.tasks=[retrieval,sts]"], "set batching.sizes.classification=null batch"),
        ([*CHOSEN, "batching.sizes.sts=20000"], "set batching.sizes.sts=10000 or less"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_with_the_way_out(overrides, message):
    with pytest.raises(UserError) as refusal:
        compose(overrides)
    assert message in str(refusal.value)


def test_bounds_of_scale_keep_the_proportions():
    sizes = compose([*CHOSEN, "scale=demo", "batching.sizes.sts=64"]).batching.sizes
    assert sizes.model_dump() == {"retrieval": 2, "classification": 7, "clustering": 7, "sts": 15}
    small = compose([*CHOSEN, "scale=demo", *(f"batching.sizes.{task}=3" for task in RULES)])
    assert set(small.batching.sizes.model_dump().values()) == {3}
