"""Mistakes of the user, told in one to three lines, and the nearest valid name."""

from __future__ import annotations

from collections.abc import Iterable


class UserError(Exception):
    """A mistake that the user can mend: what is wrong, where, and what to do.

    The command line prints it as it is, without a traceback, and exits with code 2.
    """

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what, self.where, self.hint = what, where, hint
        super().__init__("\n".join(line for line in (what, where, hint) if line))


def nearest(word: str, candidates: Iterable[str], cutoff: float = 0.5) -> str | None:
    """The candidate closest to `word` by edit distance, or None if nothing is close."""
    from rapidfuzz.distance import DamerauLevenshtein
    from rapidfuzz.process import extractOne

    match = extractOne(word, list(candidates), scorer=DamerauLevenshtein.normalized_similarity)
    return match[0] if match and match[1] >= cutoff else None
