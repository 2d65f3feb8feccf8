"""Ranks get even, consecutive shares."""

from __future__ import annotations

import numpy as np
import pytest

from embedexp.batching.layout import Layout, shares, shares_by_task


@pytest.mark.parametrize("world", [1, 2, 3, 4, 8])
def test_shares_are_consecutive_and_even(world):
    weights = np.random.default_rng(world).integers(10, 200, 256)
    owners = shares(weights, world)
    assert (np.diff(owners) >= 0).all()
    sums = np.bincount(owners, weights, minlength=world)
    assert len(sums) == world
    assert sums.max() - sums.min() <= 2 * weights.max()


def test_there_may_be_fewer_examples_than_ranks():
    owners = shares(np.array([5, 5]), 4)
    assert len(set(owners.tolist())) == 2
    assert owners.max() < 4
    assert shares(np.array([], np.int64), 4).tolist() == []


def test_no_rank_has_two_tasks_where_there_are_ranks_enough():
    weights = np.array([10] * 6 + [10] * 2 + [40] * 2)
    tasks = ["retrieval"] * 6 + ["sts"] * 2 + ["clustering"] * 2
    owners = shares_by_task(weights, tasks, 4)
    by_rank = [{tasks[i] for i in np.flatnonzero(owners == rank)} for rank in range(4)]
    assert all(len(found) <= 1 for found in by_rank)
    assert owners.tolist() == [0] * 6 + [1] * 2 + [2, 3]  # the largest run has two ranks


def test_more_tasks_than_ranks_are_shared_out_as_they_come():
    weights, tasks = np.full(9, 10), ["a", "b", "c"] * 3
    assert shares_by_task(weights, tasks, 3).tolist() == [0] * 3 + [1] * 3 + [2] * 3


def test_members_are_in_the_order_of_the_batch():
    layout = Layout(1, 2, np.array([3, 1, 4, 1]), np.array([0, 1, 0, 1]))
    assert [layout.members(rank).tolist() for rank in range(2)] == [[0, 2], [1, 3]]
    assert layout.tokens == 9
    assert Layout.single(layout.lengths).members(0).tolist() == [0, 1, 2, 3]
