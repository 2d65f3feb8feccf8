"""Causal language modelling: each token is guessed from those before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .language import IGNORED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedexp.config.schema.language import CausalLM


class NextToken:
    """Labels of packed sequences: at each token the one after it, in the same sequence."""

    def __call__(
        self, tokens: NDArray[np.int64], cu_seqlens: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Labels `[t]` of `tokens [t]`, -100 at the last token of each sequence.

        Sequence i is `tokens[cu_seqlens[i]:cu_seqlens[i + 1]]`. The first token of a sequence is
        guessed by none: a document says nothing of the next one, unless both are one sequence.
        """
        labels = np.full_like(tokens, IGNORED)
        labels[:-1] = tokens[1:]
        labels[cu_seqlens[1:] - 1] = IGNORED
        return labels


def build(_: CausalLM) -> NextToken:
    """The labels of `loss=causal_lm`."""
    return NextToken()
