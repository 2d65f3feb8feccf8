"""Pairwise covering: what the table leaves out was met pair by pair."""

from __future__ import annotations

from itertools import combinations

import pytest

from .covering import covering, product_of

FACTORS = {"a": [1, 2, 3], "b": ["x", "y"], "c": [True, False], "d": [0, 1, 2, 3]}


def pairs(rows):
    return {
        (one, row[one], other, row[other])
        for row in rows
        for one, other in combinations(FACTORS, 2)
    }


@pytest.mark.parametrize(
    "allowed", [lambda row: True, lambda row: row["a"] != 2 or row["b"] == "x"], ids=["all", "some"]
)
def test_every_pair_that_there_is_is_in_a_row(allowed):
    rows, everything = covering(FACTORS, allowed), product_of(FACTORS, allowed)
    assert pairs(rows) == pairs(everything)
    assert all(row in everything for row in rows)
    assert len(rows) < len(everything) / 2
