"""The paper's comparisons, tested on our runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError, nearest

from .cells import JOIN
from .schema import Comparison
from .statistics import NOISE, Test, Verdict, compare, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .schema import Sweep

    Place = tuple[str, str, str]


@dataclass(frozen=True)
class Compared:
    """A pair of cells, what the paper says of them, and what our runs say.

    `published` is the paper's difference, where both figures are known; `claim` its direction: 1
    the first is higher, -1 lower, 0 nothing is said.
    """

    of: str
    against: str
    where: str
    claim: int
    published: float | None
    test: Test | None
    verdict: Verdict


def compared(
    sweep: Sweep,
    rows: Sequence[str],
    headings: Sequence[tuple[str, str]],
    values: Mapping[Place, Mapping[int, float]],
    published: Mapping[Place, float | None],
) -> Iterator[Compared]:
    """Every comparison of the sweep, in each column and measure in which both cells exist.

    Raises:
        UserError: a comparison names what the table has not.
    """
    wanted = sweep.comparisons
    if wanted is None:
        wanted = [Comparison(of=[row], against=[rows[0]]) for row in rows[1:]]
    columns = list(dict.fromkeys(column for column, _ in headings if column))
    measures = list(dict.fromkeys(measure for _, measure in headings))
    for comparison in wanted:
        for label in comparison.measures or ():
            _require(label, list(sweep.all_measures), "measure")
        one = _cells(comparison.of, sweep, rows, columns)
        two = _cells(comparison.against, sweep, rows, columns)
        # Rows are compared column by column; cells of different columns with each other.
        pairs = [(one[column], two[column]) for column in one if column in two]
        for a, b in pairs or [(a, b) for a in one.values() for b in two.values()]:
            for measure in comparison.measures or measures:
                left, right = (*a, measure), (*b, measure)
                if left in values and right in values:
                    yield _compared(comparison, left, right, values, published, sweep)


def _compared(
    comparison: Comparison,
    left: Place,
    right: Place,
    values: Mapping[Place, Mapping[int, float]],
    published: Mapping[Place, float | None],
    sweep: Sweep,
) -> Compared:
    theirs = _difference(published.get(left), published.get(right), left, right, sweep)
    claim = {"higher": 1, "lower": -1, None: 0}[comparison.claim]
    if comparison.claim is None and theirs:
        claim = 1 if theirs > 0 else -1
    test = compare(values[left], values[right], noise(sweep, left[2]))
    column = left[1] if left[1] == right[1] else ""
    measure = left[2] if len(sweep.all_measures) > 1 else ""
    return Compared(
        of=left[0] if column or not left[1] else JOIN.join(left[:2]),
        against=right[0] if column or not right[1] else JOIN.join(right[:2]),
        where=JOIN.join(part for part in (column, measure) if part),
        claim=claim,
        published=theirs,
        test=test,
        verdict=verdict(test, claim),
    )


def noise(sweep: Sweep, measure: str) -> float:
    """The spread over seeds that is no variation: figures have scales of their own."""
    return NOISE if sweep.all_measures[measure].figure is None else 0.0


def _difference(
    a: float | None, b: float | None, left: Place, right: Place, sweep: Sweep
) -> float | None:
    """The paper's difference; a row to which figures are differences counts as 0."""
    relative = sweep.published.difference_to if sweep.published else None
    a, b = (
        0.0 if figure is None and relative is not None and place[0] == relative else figure
        for figure, place in ((a, left), (b, right))
    )
    return None if a is None or b is None else a - b


def _cells(
    labels: Sequence[str], sweep: Sweep, rows: Sequence[str], columns: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """The cells that a comparison's labels mean, by column: a row of several, or one cell."""
    every = _all_rows(sweep)
    row = next((JOIN.join(labels[:n]) for n in (len(labels), len(labels) - 1) if n
                and JOIN.join(labels[:n]) in every), None)  # fmt: skip
    if row is None:
        _require(labels[0], every, "row")
        raise UserError(
            f"comparisons: {JOIN.join(labels)!r} is no cell of the table",
            hint="name a row, or a row and a column: [ROW, COLUMN]",
        )
    if row != JOIN.join(labels):
        _require(labels[-1], [*sweep.columns], "column")
        return {labels[-1]: (row, labels[-1])}
    return {column: (row, column) for column in columns or [""]}


def _all_rows(sweep: Sweep) -> list[str]:
    from .cells import cells

    every = cells(sweep.model_copy(update={"include": [], "exclude": []}))
    return list(dict.fromkeys(cell.row for cell in every))


def _require(label: str, known: Sequence[str], kind: str) -> None:
    if label not in known:
        best = nearest(label, known)
        raise UserError(
            f"comparisons name the {kind} {label!r}, which the table has not"
            + (f"; did you mean {best!r}?" if best else ""),
            hint=f"{kind}s: {', '.join(known) or 'none'}",
        )
