"""How many examples each source of a mixture gives."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from .errors import UserError

if TYPE_CHECKING:
    from .schema.data import Mixture


def wanted(option: Mixture) -> dict[str, int | None]:
    """Examples of each source, None for all that it has.

    What counts leave of the total is split by the shares, by largest remainder: the numbers add up
    to the total, and none is off by one or more.

    Raises:
        UserError: no source, a source with a count and a share, a share without a total or a total
            without shares, or counts above the total.
    """
    if not option.sources:
        raise UserError(
            "data=mixture has no sources",
            hint="add one: '+data.sources.NAME={data: {name: jsonl, path: FILE}}'",
        )
    parts = dict(sorted(option.sources.items()))
    for name, part in parts.items():
        if part.count is not None and part.share is not None:
            raise UserError(
                f"the source {name} has both a count and a share",
                where=f"in data.sources.{name}",
                hint=f"set data.sources.{name}.count=null or data.sources.{name}.share=null",
            )
    shares = {name: part.share for name, part in parts.items() if part.share is not None}
    counts: dict[str, int | None] = {name: part.count for name, part in parts.items()}
    if option.total is None:
        if shares:
            name = next(iter(shares))
            raise UserError(
                f"data.sources.{name}.share={shares[name]:g} is a share of data.total, "
                "which is null",
                hint="set data.total=NUMBER",
            )
        return counts
    open_ended = [name for name in parts if counts[name] is None and name not in shares]
    if open_ended or not shares:
        name = open_ended[0] if open_ended else next(iter(parts))
        raise UserError(
            f"data.total={option.total}, but the source {name} has no share of it",
            hint=f"set data.sources.{name}.share=1, or data.total=null",
        )
    left = option.total - sum(count for count in counts.values() if count is not None)
    if left < len(shares):
        raise UserError(
            f"data.total={option.total} leaves {max(left, 0)} examples to {len(shares)} sources "
            "with a share, after the counts of the others",
            hint="raise data.total",
        )
    return counts | _split(left, shares)


def told_of(source: str, text: str) -> str:
    """A text about `data.KEY`, made one about that key of a source of a mixture."""
    return re.sub(r"\bdata\.(?!sources\.)(?=[a-z_]+)", f"data.sources.{source}.data.", text)


def _split(total: int, shares: dict[str, float]) -> dict[str, int]:
    """Whole numbers in proportion to the shares that add up to the total; ties go by name."""
    whole = sum(Fraction(share) for share in shares.values())
    exact = {name: Fraction(share) * total / whole for name, share in shares.items()}
    counts = {name: int(value) for name, value in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (counts[name] - exact[name], name))
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    return counts
