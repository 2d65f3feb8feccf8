"""What a step trains on is a function of (seed, step)."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from embedexp.batching.heterogeneous import HeterogeneousPlan
from embedexp.batching.homogeneous import HomogeneousPlan
from embedexp.batching.interleaving import Interleaving
from embedexp.batching.permutation import key_of, permute
from embedexp.batching.plan import Source
from embedexp.batching.task_aware import TaskAwarePlan

SOURCES = [
    Source("definitions", "retrieval", 1000, 4.0),
    Source("questions", "retrieval", 300, 2.0),
    Source("classes", "classification", 77, 1.0),
    Source("siblings", "clustering", 50, 1.0),
]
RULES = {
    "retrieval": "homogeneous",
    "classification": "heterogeneous",
    "clustering": "heterogeneous",
    "sts": "homogeneous",
}


def plans(size=16, seed=0, sources=SOURCES):
    return {
        "homogeneous": HomogeneousPlan(sources, size, seed),
        "heterogeneous": HeterogeneousPlan(sources, size, seed),
        "task_aware": TaskAwarePlan(sources, size, RULES, seed),
    }


def flat(rows):
    return [(r.task, r.dataset, r.examples.tolist()) for r in rows]


@pytest.mark.parametrize("size", [1, 2, 3, 16, 17, 1000, 4097])
def test_a_permutation_visits_everything_once(size):
    image = permute(np.arange(size), size, 42)
    assert sorted(image.tolist()) == list(range(size))
    assert size < 16 or image.tolist() != list(range(size))


@pytest.mark.parametrize("name", plans())
def test_steps_do_not_depend_on_what_was_asked_before(name):
    forwards = {step: flat(plans()[name](step)) for step in range(40)}
    plan = plans()[name]
    assert {step: flat(plan(step)) for step in reversed(range(40))} == forwards


@pytest.mark.parametrize("name", plans())
def test_batches_drawn_together_are_those_drawn_one_by_one(name, monkeypatch):
    plan, steps = plans()[name], (0, 255, 256, 257, 1023, 4095, 4096, 4097, 100_000, 300, 1)
    together = [flat(plan(step)) for step in steps]
    monkeypatch.setattr("embedexp.batching.plan._TOGETHER", 1)
    monkeypatch.setattr(
        "embedexp.batching.interleaving.Interleaving.at",
        lambda self, position: [int(part[0]) for part in self(np.array([position]))],
    )
    alone = plans()[name]
    assert [flat(alone(step)) for step in steps] == together


@pytest.mark.parametrize("name", plans())
def test_every_batch_is_full_and_names_real_examples(name):
    plan = plans()[name]
    for step in range(100):
        rows = plan(step)
        assert sum(len(r.examples) for r in rows) == 16
        for r in rows:
            assert r.task == SOURCES[r.dataset].task
            assert 0 <= r.examples.min() <= r.examples.max() < SOURCES[r.dataset].size


@pytest.mark.parametrize("name", plans())
def test_each_example_comes_once_per_epoch_of_its_dataset(name):
    plan = plans()[name]
    seen: dict[int, Counter[int]] = {i: Counter() for i in range(len(SOURCES))}
    for step in range(400):
        for r in plan(step):
            seen[r.dataset].update(r.examples.tolist())
    for dataset, counts in seen.items():
        spread = max(counts.values()) - min(counts[i] for i in range(SOURCES[dataset].size))
        assert spread <= 1 + (name == "task_aware" or name == "homogeneous")


def test_datasets_are_drawn_exactly_by_weight():
    turns = Counter(HomogeneousPlan(SOURCES, 8, 3)(step)[0].dataset for step in range(80))
    assert turns == {0: 40, 1: 20, 2: 10, 3: 10}
    places: Counter[int] = Counter()
    for step in range(10):
        for r in HeterogeneousPlan(SOURCES, 8, 3)(step):
            places[r.dataset] += len(r.examples)
    assert places == {0: 40, 1: 20, 2: 10, 3: 10}


def test_awkward_weights_keep_their_share():
    weights = np.array([0.3333, 0.1234567, 3.14159])
    sources, _ = Interleaving(weights.tolist(), key=1)(np.arange(50_000))
    shares = np.bincount(sources) / 50_000
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=2e-3)


def test_homogeneous_batches_hold_one_dataset_and_task_aware_ones_one_task():
    one, aware = plans()["homogeneous"], plans()["task_aware"]
    assert all(len(one(step)) == 1 for step in range(50))
    tasks = [{r.task for r in aware(step)} for step in range(80)]
    assert all(len(t) == 1 for t in tasks)
    assert Counter(t for (t,) in tasks) == {"retrieval": 60, "classification": 10, "clustering": 10}


def test_seeds_change_the_order_and_nothing_else_does():
    a, b, c = (plans(seed=s)["homogeneous"] for s in (0, 0, 1))
    assert [flat(a(s)) for s in range(20)] == [flat(b(s)) for s in range(20)]
    assert [flat(a(s)) for s in range(20)] != [flat(c(s)) for s in range(20)]


def test_order_is_the_same_in_another_process_with_another_hash_seed():
    code = (
        "from tests.unit.batching.test_plan import plans, flat;"
        "print([flat(p(123456)) for p in plans().values()])"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert runs[0].strip() == str([flat(p(123456)) for p in plans().values()])


def test_keys_are_stable():
    assert key_of(0, "examples", "definitions", 3) == key_of(0, "examples", "definitions", 3)
    assert key_of("ab", "c") != key_of("a", "bc")
