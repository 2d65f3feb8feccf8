"""Tasks dealt out to shards, so that each has about as much text to encode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mteb.abstasks.aggregated_task import AbsTaskAggregate

if TYPE_CHECKING:
    from collections.abc import Sequence

    import mteb

UNKNOWN_COST = 10_000_000
"""Characters of a task whose size mteb doesn't know: about those of a small retrieval task."""


def cost(task: mteb.AbsTask) -> int:
    """Characters of all texts of a task, in the splits and subsets that count.

    From the statistics that come with mteb, without the data.
    """
    if isinstance(task, AbsTaskAggregate):
        return sum(cost(part) for part in task.metadata.tasks)
    statistics: Any = task.metadata.descriptive_stats or {}
    total = 0
    for split in task.eval_splits:
        found = statistics.get(split, {})
        by_subset = found.get("hf_subset_descriptive_stats") or {}
        parts = [by_subset[subset] for subset in task.hf_subsets if subset in by_subset]
        total += sum(characters(each) for each in parts or [found])
    return total or UNKNOWN_COST


def characters(statistics: Any) -> int:
    """The lengths of all columns of texts together."""
    if not isinstance(statistics, dict):
        return 0
    own = statistics.get("total_text_length")
    if isinstance(own, int):
        return own
    return sum(
        characters(value)
        for key, value in statistics.items()
        if key != "hf_subset_descriptive_stats"
    )


def shares(costs: Sequence[int], shards: int) -> list[list[int]]:
    """The places of the tasks of each shard: the largest first, each to the least burdened."""
    burdens = [0] * shards
    found: list[list[int]] = [[] for _ in range(shards)]
    for place in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        least = min(range(shards), key=lambda shard: (burdens[shard], shard))
        burdens[least] += costs[place]
        found[least].append(place)
    return [sorted(places) for places in found]
