"""Candidates that are no negatives: texts known to answer the query, found by their keys."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

_FEW = 4096
"""Pairs whose comparison costs less than finding out whether it can be saved."""


def repeats(keys: Tensor) -> bool:
    """Whether a key of `keys [n]` stands there twice; negative ones don't count."""
    ordered = keys.sort().values
    return bool(((ordered[1:] == ordered[:-1]) & (ordered[1:] >= 0)).any())


def _unique(values: Tensor, **options: Any) -> tuple[Tensor, ...]:
    """Distinct values in order, the place of each of `values` among them, and any `options`."""
    found: tuple[Tensor, ...] = values.unique(  # type: ignore[no-untyped-call]
        return_inverse=True, **options
    )
    return found


class Exclusion(Protocol):
    """Says which candidates are no negatives of which rows, a slice of rows at a time."""

    def __call__(self, rows: slice) -> Tensor:
        """`[rows, m]` (bool), True where the candidate is no negative."""
        ...

    def own(self, table: Tensor) -> Tensor:
        """`[n, h]` (bool), the same for candidates `table [n, h]` of each row alone."""
        ...


class Reversible(Exclusion, Protocol):
    """One that can also be asked by candidates."""

    def reverse(self, candidates: slice) -> Tensor:
        """`[candidates, n]` (bool), True where the candidate is no negative of the row."""
        ...


class Agreement:
    """Rows and candidates whose keys are equal in at least one column.

    Columns in which nothing can agree are left out beforehand, so that a batch without duplicates
    costs a sort, and no comparison of all pairs.
    """

    def __init__(self, pairs: list[tuple[Tensor, Tensor]]) -> None:
        self._pairs = pairs

    @staticmethod
    def between(rows: Tensor | None, candidates: Tensor | None) -> list[Agreement]:
        """Nothing, or the agreement of `rows [n, c]` with `candidates [m, c]` (-1 never agrees)."""
        if rows is None or candidates is None:
            return []
        pairs = []
        for column in range(rows.shape[1]):
            a, b = rows[:, column], candidates[:, column]
            if len(a) * len(b) <= _FEW:
                may_agree = True
            elif rows is candidates:
                may_agree = repeats(a)
            else:
                may_agree = bool((torch.isin(a, b) & (a >= 0)).any())
            if may_agree:
                pairs.append((a, b.masked_fill(b < 0, -2)))
        return [Agreement(pairs)] if pairs else []

    def __call__(self, rows: slice) -> Tensor:
        """`[rows, m]`, True where keys agree."""
        first, *rest = self._pairs
        found = first[0][rows, None] == first[1]
        for a, b in rest:
            found |= a[rows, None] == b
        return found

    def reverse(self, candidates: slice) -> Tensor:
        """`[candidates, n]`, True where keys agree."""
        return Agreement([(b, a) for a, b in self._pairs])(candidates)

    def own(self, table: Tensor) -> Tensor:
        """`[n, h]`: whether row i agrees with candidate `table[i, k]`."""
        found = torch.zeros_like(table, dtype=torch.bool)
        for a, b in self._pairs:
            found |= a[:, None] == b[table]
        return found


class OtherAnswers:
    """Candidates that are the positive of another row of the same query.

    Rows are of the same query if column `a` of their keys is equal; a candidate is a positive if
    column `b` is. One object for each pair (a, b) in which a query has several positives.
    """

    def __init__(self, group: Tensor, answer: Tensor, candidate: Tensor, answers: int) -> None:
        self._group, self._answer, self._candidate = group, answer, candidate
        self._groups, self._answers = int(group.max()) + 1, answers

    @staticmethod
    def between(
        queries: Tensor | None, positives: Tensor | None, candidates: Tensor | None
    ) -> list[OtherAnswers]:
        """Those of `queries [n, c]` with their `positives [n, c]` among `candidates [m, c]`."""
        found: list[OtherAnswers] = []
        if queries is None or positives is None or candidates is None or len(queries) < 2:
            return found
        for a in range(queries.shape[1]):
            if not repeats(queries[:, a]):
                continue
            _, group, sizes = _unique(queries[:, a], return_counts=True)
            alone = (sizes[group] == 1) | (queries[:, a] < 0)
            for b in range(positives.shape[1]):
                values, answer = _unique(positives[:, b])
                answer = answer.masked_fill(alone | (positives[:, b] < 0), len(values))
                known = _unique(torch.stack([group, answer])[:, answer < len(values)], dim=1)[0]
                partly = bool((~alone & (positives[:, b] < 0)).any())
                if known.shape[1] == len(_unique(known[0])[0]) and not partly:
                    continue  # one answer each, which is the row's own
                if known.shape[1] == 0:
                    continue
                place = torch.searchsorted(values, candidates[:, b].contiguous())
                place = place.clamp_(max=len(values) - 1)
                real = (values[place] == candidates[:, b]) & (candidates[:, b] >= 0)
                candidate = place.masked_fill(~real, len(values))
                found.append(OtherAnswers(group, answer, candidate, len(values)))
        return found

    def __call__(self, rows: slice) -> Tensor:
        """`[rows, m]`, True where the candidate answers the row's query."""
        groups, place = _unique(self._group[rows])
        local = torch.full((self._groups,), -1, dtype=torch.int64, device=groups.device)
        local[groups] = torch.arange(len(groups), device=groups.device)
        here = (local[self._group] >= 0) & (self._answer < self._answers)
        answers = torch.zeros(
            len(groups), self._answers + 1, dtype=torch.bool, device=groups.device
        )
        answers[local[self._group[here]], self._answer[here]] = True
        return answers.index_select(1, self._candidate).index_select(0, place)

    def reverse(self, candidates: slice) -> Tensor:
        """`[candidates, n]`, True where the candidate answers the row's query."""
        texts, place = _unique(self._candidate[candidates])
        local = torch.full((self._answers + 1,), -1, dtype=torch.int64, device=texts.device)
        local[texts] = torch.arange(len(texts), device=texts.device)
        here = (local[self._answer] >= 0) & (self._answer < self._answers)
        answers = torch.zeros(len(texts), self._groups, dtype=torch.bool, device=texts.device)
        answers[local[self._answer[here]], self._group[here]] = True
        return answers.index_select(1, self._group).index_select(0, place)

    def own(self, table: Tensor) -> Tensor:
        """`[n, h]`: whether candidate `table[i, k]` answers the query of row i."""
        width, known = self._answers + 1, self._answer < self._answers
        pairs = (self._group * width + self._answer)[known]
        return torch.isin(self._group[:, None] * width + self._candidate[table], pairs)
