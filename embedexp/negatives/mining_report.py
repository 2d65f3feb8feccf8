"""The report of a mined set: numbers, a picture and texts by which to judge the negatives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from embedexp.drawing import BLUE, GREY, RED, plain

from .page import Section, figure, histogram, table, write_page
from .rules import RULES
from .writing import read_facts, read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

PAGE, PICTURE = "report.html", "report.png"
SHOWN = 25  # texts in each list of the page
SAID = {
    "rank_min": "passed over as the nearest (rank_min)",
    "margin": "too near to the positive (margins)",
    "max_score": "above max_score",
    "min_score": "below min_score",
}


@dataclass(order=True)
class Suspect:
    """A document near a query, beside the query's positive with the lowest score."""

    excess: float
    query: str = field(compare=False)
    positive: str = field(compare=False)
    positive_score: float = field(compare=False)
    document: str = field(compare=False)
    score: float = field(compare=False)


@dataclass
class Found:
    """What one dataset's shards hold."""

    rows: int = 0
    considered: int = 0
    refused: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))
    lengths: list[int] = field(default_factory=list)
    positives: list[float] = field(default_factory=list)
    negatives: list[float] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    refuted: list[Suspect] = field(default_factory=list)
    """Nearest candidates, not taken, that the teacher prefers to a positive."""
    kept: list[Suspect] = field(default_factory=list)
    """Negatives with the highest score in relation to the positive."""
    above: int = 0
    """Queries whose nearest candidate scores more than a positive."""
    languages: dict[str, Found] = field(default_factory=dict)
    """The same by language, without what shards count as a whole."""


def collect(paths: Sequence[Path]) -> dict[str, Found]:
    """By dataset, from the shards' files."""
    found: dict[str, Found] = {}
    for path in paths:
        dataset = None
        for row in read_rows(path):
            dataset = found.setdefault(row["dataset"], Found())
            _add(dataset, row)
            _add(dataset.languages.setdefault(row.get("language") or "", Found()), row)
        if dataset is not None:
            facts = read_facts(path)
            dataset.considered += facts["considered"]
            for name, count in facts["refused"].items():
                dataset.refused[name] += count
    return found


def _add(found: Found, row: Mapping[str, Any]) -> None:
    found.rows += 1
    found.lengths.append(len(row["negatives"]))
    found.positives += row["positive_scores"]
    found.negatives += row["scores"]
    found.ranks += [rank for rank in row["ranks"] if rank >= 0]
    if not row["positives"]:
        return
    lowest = int(np.argmin(row["positive_scores"]))
    positive, bar = row["positives"][lowest], row["positive_scores"][lowest]
    if row["negatives"]:
        text, score = row["negatives"][0], row["scores"][0]
        _keep(found.kept, Suspect(score - bar, row["query"], positive, bar, text, score))
    nearest = row["nearest"]
    if nearest is not None and row["nearest_score"] > bar:
        found.above += 1
        if nearest not in row["negatives"]:
            suspect = Suspect(
                row["nearest_score"] - bar,
                row["query"],
                positive,
                bar,
                nearest,
                row["nearest_score"],
            )
            _keep(found.refuted, suspect)


def _keep(best: list[Suspect], suspect: Suspect) -> None:
    best.append(suspect)
    if len(best) > 4 * SHOWN:
        best.sort(reverse=True)
        del best[SHOWN:]


def by_language(found: Mapping[str, Found]) -> dict[str, Found]:
    """Each dataset, and where it has several languages each of them below it."""
    rows = {}
    for name, each in found.items():
        rows[name] = each
        if len(each.languages) > 1:
            of = sorted(each.languages.items())
            rows |= {f"{name}, {code or 'no language given'}": part for code, part in of}
    return rows


def words(found: Mapping[str, Found]) -> list[str]:
    """A line about each dataset, and about each of its languages where it has several."""
    return [
        f"{name}: {len(each.negatives):,} negatives for {each.rows:,} queries "
        f"({len(each.negatives) / max(1, each.rows):.2f} each, "
        f"{sum(n == 0 for n in each.lengths):,} without)"
        + (
            f", {_share(sum(each.refused.values()), each.considered)} of the candidates refused"
            if each.considered
            else ""
        )
        for name, each in by_language(found).items()
    ]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "0%"


def write(
    found: Mapping[str, Found], folder: Path, *, title: str, rules: Mapping[str, object]
) -> None:
    """Write `report.html` and `report.png` into the run's folder."""
    _draw(found, folder / PICTURE, title)
    sections = [
        Section("Rules", table(("rule", "value"), [(k, str(v)) for k, v in rules.items()])),
        Section("What was mined", _counts(found)),
        Section("Candidates refused", _refusals(found)),
    ]
    for name, each in found.items():
        sections += [
            Section(
                f"{name}: suspected false negatives, refused",
                _suspects(each.refuted),
                "The nearest candidate that the teacher prefers to a positive: likely a right "
                f"answer that nobody marked. {each.above:,} of {each.rows:,} queries "
                f"({_share(each.above, each.rows)}) have one.",
            ),
            Section(
                f"{name}: negatives nearest to the positive, taken",
                _suspects(each.kept),
                "If these are right answers, lower percent_of_positive or raise the margin.",
            ),
        ]
    write_page(folder / PAGE, title, PICTURE, sections)


def _counts(found: Mapping[str, Found]) -> str:
    rows = []
    for name, each in by_language(found).items():
        positive, negative = np.array(each.positives), np.array(each.negatives)
        rows.append(
            (
                name,
                f"{each.rows:,}",
                f"{len(each.negatives):,}",
                f"{sum(n == 0 for n in each.lengths):,}",
                f"{sum(0 < n < max(each.lengths) for n in each.lengths):,}",
                _quartiles(positive),
                _quartiles(negative),
                f"{np.median(each.ranks):.0f}" if each.ranks else "-",
            )
        )
    heads = ("dataset", "rows", "negatives", "without", "with fewer", "score of positives")
    return table((*heads, "score of negatives", "median rank"), rows)


def _quartiles(values: NDArray[np.float64]) -> str:
    if not len(values):
        return "-"
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def _refusals(found: Mapping[str, Found]) -> str:
    rows = [
        (name, f"{each.considered:,}", *(_share(each.refused[r], each.considered) for r in RULES))
        for name, each in found.items()
    ]
    return table(("dataset", "candidates", *(SAID[rule] for rule in RULES)), rows)


def _suspects(suspects: list[Suspect]) -> str:
    rows = [
        (
            each.query,
            each.positive,
            f"{each.positive_score:.3f}",
            each.document,
            f"{each.score:.3f}",
        )
        for each in sorted(suspects, reverse=True)[:SHOWN]
    ]
    return table(("query", "positive", "its score", "document", "its score"), rows)


def _draw(found: Mapping[str, Found], path: Path, title: str) -> None:
    """A row per dataset: scores, ranks of the negatives, and what became of the candidates."""
    with figure(path, title, max(1, len(found)), 3) as grid:
        for (name, each), (left, middle, right) in zip(found.items(), grid, strict=False):
            histogram(
                left, {"positives": (each.positives, BLUE), "negatives": (each.negatives, RED)}
            )
            left.set(title=plain(name), xlabel="teacher's score", ylabel="share of the pairs")
            top = max(each.ranks, default=0) + 1
            counts, edges = np.histogram(each.ranks, bins=min(50, top), range=(0, top))
            middle.bar(edges[:-1], counts, np.diff(edges), align="edge", color=RED, alpha=0.7)
            middle.set(
                title="ranks of the negatives", xlabel="rank among candidates", ylabel="count"
            )
            passed = each.considered - sum(each.refused.values())
            taken = min(passed, len(each.negatives))
            bars = {
                "taken": (taken, BLUE),
                "not needed": (passed - taken, GREY),
                **{rule: (each.refused[rule], RED) for rule in RULES[::-1] if each.refused[rule]},
            }
            shares = [value / max(1, each.considered) for value, _ in bars.values()]
            right.barh(list(bars), shares, color=[colour for _, colour in bars.values()])
            for place, share in enumerate(shares):
                right.annotate(
                    f"{share:.1%}", (share, place), xytext=(4, 0), textcoords="offset points",
                    va="center", fontsize=9,
                )  # fmt: skip
            right.set(title="candidates", xlabel="share", xlim=(0, 1.15))
