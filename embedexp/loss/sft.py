"""Supervised fine-tuning on pairs: the second text is guessed after the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .causal_lm import NextToken
from .language import IGNORED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedexp.config.schema.language import SFT


class Answers:
    """Labels of packed pairs: the tokens of the second text and the end token, nothing else."""

    def __call__(
        self,
        tokens: NDArray[np.int64],
        cu_seqlens: NDArray[np.int64],
        starts: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Labels `[t]` of `tokens [t]`, -100 where the next token is part of the prompt.

        Sequence i is `tokens[cu_seqlens[i]:cu_seqlens[i + 1]]`, and its second text begins at its
        token `starts[i]`, counted within the sequence and at least 1.
        """
        labels = NextToken()(tokens, cu_seqlens)
        lengths = np.diff(cu_seqlens)
        places = np.arange(len(tokens)) - np.repeat(cu_seqlens[:-1], lengths)
        labels[places + 1 < np.repeat(starts, lengths)] = IGNORED
        return labels


def build(_: SFT) -> Answers:
    """The labels of `loss=sft`."""
    return Answers()
