"""Masked language modelling: which tokens are hidden, and what stands in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .language import IGNORED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from embedexp.config.schema.language import MLM


class Words:
    """The words of a vocabulary: `ids [w]` without special tokens; `mask_id` hides one."""

    def __init__(self, mask_id: int, ids: Sequence[int]) -> None:
        self.mask_id, self.ids = mask_id, np.asarray(ids, np.int64)
        self._known = np.zeros(int(self.ids.max()) + 1, bool)
        self._known[self.ids] = True

    def contain(self, tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of `tokens` are words."""
        small = tokens < len(self._known)
        return small & self._known[np.where(small, tokens, 0)]


class Masking:
    """Hides words of a text, each with the same probability, independently of each other.

    A pure function of the text and a key; special tokens are neither hidden nor put in.
    """

    def __init__(self, option: MLM) -> None:
        self.probability, self.shares = option.probability, option.replacement

    def hidden(self, tokens: NDArray[np.int64], key: int, words: Words) -> NDArray[np.bool_]:
        """Which of `tokens [t]` are to be guessed, `[t]`."""
        return words.contain(tokens) & (_generator(key).random(len(tokens)) < self.probability)

    def __call__(
        self, tokens: NDArray[np.int64], key: int, words: Words
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What the model reads and what it guesses, both `[t]`; labels are -100 elsewhere.

        A hidden word becomes the mask token, a random word, or stays, by the option's shares.

        Source: BERT (80 %, 10 %, 10 %); Nomic Embed hides 30 %.
        """
        hidden = self.hidden(tokens, key, words)
        generator = _generator(key ^ 1)
        fate = generator.random(len(tokens))
        others = words.ids[generator.integers(0, len(words.ids), len(tokens))]
        masked = hidden & (fate < self.shares.mask)
        swapped = hidden & ~masked & (fate < self.shares.mask + self.shares.random)
        seen = np.where(masked, words.mask_id, np.where(swapped, others, tokens))
        return seen, np.where(hidden, tokens, IGNORED)


def _generator(key: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=key))


def build(option: MLM) -> Masking:
    """The masking of `loss=mlm`."""
    return Masking(option)
