"""From outcomes to a file of examples, without duplicates, and what is counted on the way."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from embedexp.data.hashing import stable_hash
from embedexp.files import replacing, write_atomically

from .reading import normal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from .work import Outcome, Work

EXAMPLES, REPORT, PAGE = "examples.jsonl", "report.json", "report.md"
SHOWN = 5


@dataclass
class Counts:
    """What became of the questions of one file."""

    asked: int = 0
    kept: int = 0
    duplicates: int = 0
    dropped: int = 0
    invalid: Counter[str] = field(default_factory=Counter)
    by_generator: dict[str, Counter[str]] = field(default_factory=dict)
    by_language: Counter[str] = field(default_factory=Counter)
    shown: list[dict[str, Any]] = field(default_factory=list)

    def of(self, generator: str) -> Counter[str]:
        """The counts of a generator."""
        return self.by_generator.setdefault(generator, Counter())


def write(
    path: Path, outcomes: Iterable[Outcome], distinct: Sequence[Sequence[str]], **more: Any
) -> Counts:
    """Write the valid examples to `path`, all or nothing, in the order of the questions.

    An example is a duplicate if, for one of the lists of fields in `distinct`, an earlier one has
    the same values but for case and space. `more` are fields of every example.
    """
    counts, seen = Counts(), set[int]()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for outcome in outcomes:
            counts.asked += 1
            generator = outcome.question.generator
            mine = counts.of(generator)
            mine["asked"] += 1
            mine["invalid answers"] += len(outcome.reasons)
            counts.invalid.update(outcome.reasons)
            example = outcome.fields
            if example is None:
                counts.dropped += 1
                mine["dropped"] += 1
                continue
            keys = [
                stable_hash(*names, *(normal(str(example[name])) for name in names))
                for names in distinct
            ]
            if any(key in seen for key in keys):
                counts.duplicates += 1
                mine["duplicates"] += 1
                continue
            seen.update(keys)
            counts.kept += 1
            mine["kept"] += 1
            if "language" in example:
                counts.by_language[example["language"]] += 1
            row = {**example, "generator": generator, **more}
            if len(counts.shown) < SHOWN:
                counts.shown.append(row)
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return counts


def report(
    folder: Path,
    counts: Counts,
    work: Work,
    shares: Mapping[str, float],
    how: Sequence[str],
    title: str,
) -> None:
    """`report.json` and `report.md`: counts, reasons, costs, languages, how to read the file."""
    content = {
        "asked": counts.asked,
        "kept": counts.kept,
        "duplicates": counts.duplicates,
        "dropped": counts.dropped,
        "invalid_answers": dict(counts.invalid.most_common()),
        "by_generator": {name: dict(found) for name, found in counts.by_generator.items()},
        "by_language": dict(counts.by_language),
        "paid": {"answers": work.answers.paid, "tokens": work.answers.tokens},
        "repeated_since_this_start": {
            name: dict(found) for name, found in work.waits().items() if found
        },
    }
    write_atomically(folder / REPORT, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    lines = [f"# {title}", "", *words(counts), ""]
    lines += [f"Paid for: {work.answers.paid:,} answers, {work.answers.tokens:,} tokens.", ""]
    if counts.invalid:
        lines += ["| why an answer was not used | answers |", "| --- | --- |"]
        lines += [f"| {_cell(why)} | {n:,} |" for why, n in counts.invalid.most_common()] + [""]
    names = ("asked", "kept", "duplicates", "dropped", "invalid answers")
    lines += [f"| generator | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
    for name, found in counts.by_generator.items():
        lines.append(f"| {_cell(name)} | {' | '.join(f'{found[each]:,}' for each in names)} |")
    if len(shares) > 1:
        total = sum(shares.values())
        lines += ["", "| language | examples | share | asked for |", "| --- | --- | --- | --- |"]
        for code, share in shares.items():
            size = counts.by_language[code]
            part = size / max(counts.kept, 1)
            lines.append(f"| {_cell(code)} | {size:,} | {part:.1%} | {share / total:.1%} |")
    lines += ["", "## To train on it", "", *(f"    {line}" for line in how)]
    lines += ["", "## The first examples", ""]
    lines += [f"    {json.dumps(row, ensure_ascii=False)[:600]}" for row in counts.shown]
    write_atomically(folder / PAGE, "\n".join(lines) + "\n")


def words(counts: Counts) -> list[str]:
    """The counts in a sentence, and the most frequent reasons."""
    text = (
        f"{counts.kept:,} of {counts.asked:,} examples kept; {counts.duplicates:,} were "
        f"duplicates, {counts.dropped:,} had no valid answer."
    )
    often = [f"{why} ({n:,})" for why, n in counts.invalid.most_common(3)]
    return [text, *([f"Invalid answers, most often: {', '.join(often)}."] if often else [])]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
