"""The report of a filtered set: kept shares, scores and ranks, and pairs that were dropped."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from embedexp.drawing import BLUE, GREY, RED, plain

from .filtered import dropped_path
from .page import Section, figure, histogram, table, write_page
from .writing import FACTS, read_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PAGE, PICTURE = "report.html", "report.png"
SHOWN = 25


@dataclass
class Side:
    """The scores and ranks of the kept or the dropped pairs, and some of them."""

    scores: list[float] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    examples: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Found:
    """One dataset: what was counted, and its two sides."""

    facts: dict[str, Any]
    kept: Side
    dropped: Side


def collect(paths: Sequence[Path]) -> list[Found]:
    """One per file of kept pairs."""
    import pyarrow.parquet as pq

    found = []
    for path in paths:
        facts = json.loads(pq.read_schema(path).metadata[FACTS])
        found.append(Found(facts, _side(path), _side(dropped_path(path))))
    return found


def _side(path: Path) -> Side:
    side, every = Side(), 1
    for number, row in enumerate(read_rows(path)):
        side.scores.append(row["score"])
        side.ranks.append(row["rank"])
        # Evenly from the whole file: every so many rows, twice as many when the list is full.
        if number % every == 0:
            side.examples.append(row)
        if len(side.examples) > 4 * SHOWN:
            side.examples, every = side.examples[::2], 2 * every
    places = np.linspace(0, len(side.examples) - 1, min(SHOWN, len(side.examples)))
    side.examples = [side.examples[place] for place in places.round().astype(int)]
    return side


def words(found: Sequence[Found]) -> list[str]:
    """A line about each dataset, and one about each language where there are several."""
    lines = [
        f"{f['dataset']}: {f['kept']:,} of {f['pairs']:,} pairs kept ({f['kept'] / f['pairs']:.1%})"
        for f in (each.facts for each in found)
    ]
    shares = by_language(found)
    if len(shares) > 1:
        lines += [
            f"{name or 'no language given'}: {kept / pairs:.1%} kept"
            for name, (pairs, kept) in shares.items()
        ]
    return lines


def by_language(found: Sequence[Found]) -> dict[str, tuple[int, int]]:
    """Pairs and kept pairs of each language."""
    shares: dict[str, tuple[int, int]] = {}
    for part in (part for each in found for part in parts(each.facts)):
        pairs, kept = shares.get(part["language"], (0, 0))
        shares[part["language"]] = (pairs + part["pairs"], kept + part["kept"])
    return shares


def parts(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The counts of each language of a dataset; of a file from before there were several, of it."""
    found: list[dict[str, Any]] = facts.get("parts") or [facts]
    return found


def write(found: Sequence[Found], folder: Path, *, title: str) -> None:
    """Write `report.html` and `report.png` into the run's folder."""
    _draw(found, folder / PICTURE, title)
    rows = [
        (
            f["dataset"],
            f["task"],
            part["language"] or "-",
            f"{part['pairs']:,}",
            f"{part['kept'] / part['pairs']:.1%}",
            f"{part['by_rank'] / part['pairs']:.1%}",
            f"{part['by_score'] / part['pairs']:.1%}",
        )
        for f in (each.facts for each in found)
        for part in parts(f)
    ]
    heads = ("dataset", "task", "language", "pairs", "kept", "dropped by rank", "by score alone")
    languages = [
        (name or "-", f"{pairs:,}", f"{kept / pairs:.1%}")
        for name, (pairs, kept) in by_language(found).items()
    ]
    sections = [
        Section("By dataset and language", table(heads, rows)),
        Section("By language", table(("language", "pairs", "kept"), languages)),
    ]
    for each in found:
        shown = [
            (row["query"], row["positive"], str(row["rank"] + 1), f"{row['score']:.3f}")
            for row in each.dropped.examples
        ]
        sections.append(
            Section(
                f"{each.facts['dataset']}: some of what was dropped",
                table(("query", "document", "place", "score"), shown),
                "The document's place among those of the shard, nearest first.",
            )
        )
    write_page(folder / PAGE, title, PICTURE, sections)


def _draw(found: Sequence[Found], path: Path, title: str) -> None:
    with figure(path, title, max(1, len(found)), 2) as grid:
        for each, (left, right) in zip(found, grid, strict=False):
            sides = {"kept": (each.kept.scores, BLUE), "dropped": (each.dropped.scores, RED)}
            histogram(left, sides)
            left.set(
                title=plain(each.facts["dataset"]), xlabel="cosine of the pair", ylabel="share"
            )
            ranks = np.array([*each.kept.ranks, *each.dropped.ranks]) + 1
            places = np.sort(ranks)
            right.step(places, np.arange(1, len(places) + 1) / max(1, len(places)), color=BLUE)
            if each.facts["top_k"] is not None:
                right.axvline(each.facts["top_k"] + 0.5, color=GREY, linestyle="--", label="top_k")
                right.legend(frameon=False, loc="lower right")
            right.set(
                title="place of the own document", xlabel="place", ylabel="share of pairs, at most",
                xscale="log", ylim=(0, 1.02),
            )  # fmt: skip
