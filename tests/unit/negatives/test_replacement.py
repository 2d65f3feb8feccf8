"""Dynamic replacement: the rules of both Conan papers, against a loop over examples."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from embedexp.negatives.replacement import DynamicNegatives, Rule

V2 = Rule(factor=1.2, ceiling=0.7, floor=0.4, whole_set=False, every=1)
STEPS = count()
V1 = Rule(factor=1.15, ceiling=0.8, floor=None, whole_set=True, every=100)


def pool(lengths: list[int], width: int) -> np.ndarray:
    """Candidates 0, 1, … of examples that have so many."""
    columns = np.arange(width)
    return np.where(columns < np.array(lengths)[:, None], columns, -1).astype(np.int64)


def visit(negatives: DynamicNegatives, row: int, scores: list[float], step: int | None = None):
    """Observe one example of the first dataset, by default in a step of its own."""
    step = next(STEPS) if step is None else step
    scores_qh = np.array([scores], np.float32)
    return negatives.observe(np.array([[0, row]]), scores_qh, np.ones_like(scores_qh, bool), step)


def columns(negatives: DynamicNegatives, row: int) -> list[int]:
    return negatives.choose(0, np.array([row]))[0].tolist()


def test_a_negative_below_the_floor_at_its_first_visit_is_replaced_by_the_next_candidate():
    negatives = DynamicNegatives([pool([5], 5)], V2, count=2, skip=0)
    assert columns(negatives, 0) == [0, 1]
    seen = visit(negatives, 0, [0.39, 0.41])
    assert columns(negatives, 0) == [2, 1]
    assert (seen.judged, seen.replaced, seen.exhausted) == (2, 1, 0)
    assert seen.hardness == pytest.approx(0.40, abs=1e-6)


@pytest.mark.parametrize(
    ("first", "now", "replaced"),
    [
        (0.6, 0.49, True),  # 0.588 < 0.6
        (0.6, 0.51, False),  # 0.612
        (0.95, 0.71, False),  # easier by far, but not below the ceiling
        (0.85, 0.69, True),
        (0.5, -0.65, True),
        (0.5, -0.75, False),  # |S| is what is compared with the ceiling
    ],
)
def test_a_negative_that_became_easier_is_replaced_as_equation_6_says(first, now, replaced):
    negatives = DynamicNegatives([pool([3], 3)], V2, count=1, skip=0)
    visit(negatives, 0, [first])
    assert columns(negatives, 0) == [0]
    visit(negatives, 0, [now])
    assert columns(negatives, 0) == [1 if replaced else 0]


def test_a_replacement_is_compared_with_its_own_first_score():
    negatives = DynamicNegatives([pool([3], 3)], V2, count=1, skip=0)
    visit(negatives, 0, [0.9])
    visit(negatives, 0, [0.6])  # replaced
    visit(negatives, 0, [0.5])  # the new one's first; against 0.9 it would go at once
    assert columns(negatives, 0) == [1]
    visit(negatives, 0, [0.41])
    assert columns(negatives, 0) == [2]


def test_an_example_without_candidates_left_keeps_what_it_has_and_is_counted():
    negatives = DynamicNegatives([pool([3], 3)], V2, count=2, skip=0)
    seen = visit(negatives, 0, [0.1, 0.1])  # one candidate for two
    assert columns(negatives, 0) == [2, 1]
    assert (seen.replaced, seen.exhausted) == (1, 1)
    seen = visit(negatives, 0, [0.1, 0.1])
    assert columns(negatives, 0) == [2, 1]
    assert (seen.replaced, seen.exhausted) == (0, 2)


def test_v1_replaces_whole_sets_of_the_mean_score_and_skips_the_nearest():
    negatives = DynamicNegatives([pool([40], 40)], V1, count=4, skip=10)
    assert columns(negatives, 0) == [10, 11, 12, 13]
    visit(negatives, 0, [0.9, 0.5, 0.7, 0.7], step=0)  # mean 0.7
    visit(negatives, 0, [0.1, 0.1, 0.1, 0.1], step=99)  # not judged before the next hundred
    assert columns(negatives, 0) == [10, 11, 12, 13]
    visit(negatives, 0, [0.9, 0.5, 0.7, 0.35], step=100)  # mean 0.6125: 0.704 is not below 0.7
    assert columns(negatives, 0) == [10, 11, 12, 13]
    visit(negatives, 0, [0.9, 0.5, 0.7, 0.3], step=200)  # mean 0.6: 0.69 < 0.7
    assert columns(negatives, 0) == [14, 15, 16, 17]


def test_v1_keeps_a_set_that_candidates_cannot_replace_whole():
    negatives = DynamicNegatives([pool([17], 17)], V1, count=4, skip=10)
    visit(negatives, 0, [0.7] * 4, step=0)
    seen = visit(negatives, 0, [0.1] * 4, step=100)
    assert columns(negatives, 0) == [10, 11, 12, 13]
    assert (seen.replaced, seen.exhausted) == (0, 4)


@pytest.mark.parametrize("rule", [V2, replace(V1, every=14)])
@pytest.mark.parametrize("skip", [0, 2])
def test_many_examples_at_once_do_what_a_loop_over_them_does(rule, skip):
    rng = np.random.default_rng(7)
    size, width, slots = 30, 11, 3
    lengths = rng.integers(0, width + 1, size).tolist()
    candidates = pool(lengths, width)
    negatives = DynamicNegatives([candidates, candidates], rule, count=slots, skip=skip)
    loop = {(d, r): Loop(rule, lengths[r], slots, skip) for d in (0, 1) for r in range(size)}
    for step in range(0, 400, 7):
        examples = np.stack([rng.integers(0, 2, 12), rng.integers(0, size, 12)], 1)
        examples = np.unique(examples, axis=0)
        rng.shuffle(examples)
        scores = rng.uniform(-1, 1, (len(examples), slots)).astype(np.float32)
        chosen = np.stack([negatives.choose(int(d), np.array([r]))[0] for d, r in examples])
        present = chosen < np.array([lengths[r] for _, r in examples])[:, None]
        negatives.observe(examples, scores, present, step)
        for place, (dataset, row) in enumerate(examples.tolist()):
            expected = loop[dataset, row]
            assert expected.current == chosen[place].tolist()
            expected.visit(scores[place], step)


class Loop:
    """One example's negatives, as the rule is told in words."""

    def __init__(self, rule: Rule, length: int, count: int, skip: int) -> None:
        self.rule, self.length = rule, length
        self.current = list(range(skip, skip + count))
        self.following = skip + count
        self.first: dict[int, float] = {}
        self.period = -1

    def visit(self, scores, step: int) -> None:
        real = [k for k, column in enumerate(self.current) if column < self.length]
        for k in real:
            self.first.setdefault(self.current[k], scores[k])
        if step // self.rule.every == self.period:
            return
        self.period = step // self.rule.every
        if not real:
            return
        if self.rule.whole_set:
            now = np.mean([scores[k] for k in real])
            first = np.mean([self.first[self.current[k]] for k in real])
            if self.goes(now, first) and self.following + len(real) <= self.length:
                for k in real:
                    self.replace(k)
            return
        for k in real:
            if self.goes(scores[k], self.first[self.current[k]]) and self.following < self.length:
                self.replace(k)

    def goes(self, now: float, first: float) -> bool:
        easier = self.rule.factor * now < first and abs(now) < self.rule.ceiling
        return easier or (self.rule.floor is not None and first < self.rule.floor)

    def replace(self, slot: int) -> None:
        self.current[slot] = self.following
        self.following += 1


def test_state_that_was_saved_goes_on_as_if_never_stopped():
    rng = np.random.default_rng(3)
    candidates = pool([9] * 20, 9)
    going, stopped = (DynamicNegatives([candidates], V2, count=2, skip=0) for _ in range(2))
    for step in range(30):
        rows = rng.permutation(20)[:6]
        examples = np.stack([np.zeros(6, np.int64), rows], 1)
        scores = rng.uniform(0, 1, (6, 2)).astype(np.float32)
        present = np.ones((6, 2), bool)
        if step == 15:
            saved = stopped.state_dict()
            stopped = DynamicNegatives([candidates], V2, count=2, skip=0)
            stopped.load_state_dict(saved)
        assert going.observe(examples, scores, present, step) == stopped.observe(
            examples, scores, present, step
        )
    every = np.arange(20)
    assert np.array_equal(going.choose(0, every), stopped.choose(0, every))


def test_state_holds_visited_examples_alone():
    negatives = DynamicNegatives([pool([5] * 1000, 5)], V2, count=2, skip=0)
    visit(negatives, 7, [0.5, 0.6])
    (state,) = negatives.state_dict()
    assert state["rows"].tolist() == [7]
    assert state["first"].shape == (1, 2)


def test_an_example_that_stands_twice_in_a_batch_is_judged_once():
    negatives = DynamicNegatives([pool([5], 5)], V2, count=1, skip=0)
    scores = np.array([[0.1], [0.1]], np.float32)
    negatives.observe(np.array([[0, 0], [0, 0]]), scores, np.ones_like(scores, bool), 0)
    assert columns(negatives, 0) == [1]
