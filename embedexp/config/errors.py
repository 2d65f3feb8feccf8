"""Mistakes of the user, told in one to three lines, and the nearest valid names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def printable(text: str) -> str:
    """The text on one line, with control characters (which could drive a terminal) spelled out."""
    folded = " ".join(text.splitlines())
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in folded
    )


def shorten(text: object, longest: int = 80) -> str:
    """The text, cut in the middle where it is longer than `longest` characters."""
    whole = printable(str(text))
    if len(whole) <= longest:
        return whole
    half = (longest - 3) // 2
    return f"{whole[:half]}...{whole[-half:]}"


class UserError(Exception):
    """A mistake that the user can mend: what is wrong, where, and what to do.

    The command line prints it as it is, without a traceback, and exits with code 2. Each part is
    one line; control characters in them are spelled out.
    """

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = printable(what)
        self.where = printable(where) if where else None
        self.hint = printable(hint) if hint else None
        super().__init__("\n".join(line for line in (self.what, self.where, self.hint) if line))


def closest(word: str, candidates: Iterable[str], cutoff: float = 0.5) -> list[str]:
    """The candidates at the smallest edit distance from `word`; several only where they tie.

    Distance is the Damerau-Levenshtein one: a swap of neighbours counts once. Nothing is close
    when more than `1 - cutoff` of the longer word would have to change.
    """
    from rapidfuzz.distance import DamerauLevenshtein

    best: list[str] = []
    shortest = float("inf")
    for candidate in dict.fromkeys(candidates):
        distance = DamerauLevenshtein.distance(word, candidate)
        if distance > (1 - cutoff) * max(len(word), len(candidate)) or distance > shortest:
            continue
        best = [candidate] if distance < shortest else [*best, candidate]
        shortest = distance
    return best


def nearest(word: str, candidates: Iterable[str], cutoff: float = 0.5) -> str | None:
    """The candidate closest to `word` by edit distance, or None if nothing is close."""
    found = closest(word, candidates, cutoff)
    return found[0] if found else None
