"""Chunks hold every sequence once and keep to their budget."""

from __future__ import annotations

import numpy as np
import pytest

from embedexp.batching.layout import Layout
from embedexp.training.chunks import chunks, rounds


@pytest.mark.parametrize("budget", [1, 30, 64, 500, 10_000, None])
def test_every_sequence_is_in_one_chunk_of_at_most_the_budget(budget):
    lengths = np.random.default_rng(0).integers(1, 60, 100)
    parts = chunks(lengths, budget)
    assert sorted(np.concatenate(parts).tolist()) == list(range(100))
    for part in parts:
        assert budget is None or lengths[part].sum() <= budget or len(part) == 1
    if budget == 64:  # no chunk could have taken the next sequence as well
        following = [lengths[part[0]] for part in parts[1:]]
        sums = [lengths[part].sum() for part in parts[:-1]]
        assert all(a + b > 64 for a, b in zip(sums, following, strict=True))


def test_long_sequences_come_first():
    parts = chunks(np.array([3, 9, 5, 9]), 14)
    assert [part.tolist() for part in parts] == [[1], [3, 2], [0]]


def test_one_chunk_keeps_the_order():
    assert chunks(np.array([3, 9, 5]), 17)[0].tolist() == [0, 1, 2]
    assert chunks(np.array([], np.int64), 17) == []


def test_all_ranks_go_through_as_many_chunks_as_the_busiest():
    layout = Layout(0, 3, np.full(7, 10), np.array([0, 0, 0, 0, 0, 2, 2]))
    assert rounds(layout, 20) == 3
    assert rounds(layout, None) == 1
    assert rounds(Layout.single(np.array([], np.int64)), 20) == 1
