"""Few rows of a table in which every two options still meet."""

from __future__ import annotations

import os
from itertools import combinations, product

import numpy as np


def choose(factors, allowed=lambda row: True):
    """`covering` rows, or all of them where EMBEDEXP_ALL_CASES is set."""
    return (product_of if os.environ.get("EMBEDEXP_ALL_CASES") else covering)(factors, allowed)


def covering(factors, allowed=lambda row: True):
    """Rows `{factor: level}` with every pair of levels that an allowed row has; deterministic.

    Greedy: the row with the most new pairs is next. `factors` maps names to lists of levels.
    """
    names = list(factors)
    table = [
        chosen
        for chosen in product(*(range(len(levels)) for levels in factors.values()))
        if allowed(_row(factors, chosen))
    ]
    pairs = {}
    places = [
        [
            pairs.setdefault((a, chosen[a], b, chosen[b]), len(pairs))
            for a, b in combinations(range(len(names)), 2)
        ]
        for chosen in table
    ]
    has = np.zeros((len(table), len(pairs)), bool)
    np.put_along_axis(has, np.array(places), True, axis=1)
    rows, missing = [], np.ones(len(pairs), bool)
    while missing.any():
        best = int(has[:, missing].sum(1).argmax())
        rows.append(_row(factors, table[best]))
        missing &= ~has[best]
    return rows


def product_of(factors, allowed=lambda row: True):
    """All allowed rows."""
    everything = product(*(range(len(levels)) for levels in factors.values()))
    return [row for chosen in everything if allowed(row := _row(factors, chosen))]


def _row(factors, chosen):
    return {name: factors[name][i] for name, i in zip(factors, chosen, strict=True)}
