"""Made-up pairs, for measurements that need tokens and no texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from embedexp.data.store import TokenStore
from embedexp.data.tokenise import TokenisedCorpus, TokenisedDataset

if TYPE_CHECKING:
    from numpy.typing import NDArray


def corpus(lengths: NDArray[np.int64]) -> TokenisedCorpus:
    """Pairs of random words, the first half of the lengths being those of queries."""
    pairs = len(lengths) // 2
    rows, none = np.arange(pairs), np.empty((pairs, 0), np.int64)
    words = np.random.default_rng(1).integers(5, 8192, int(lengths.sum())).astype(np.int32)
    keys = np.stack([np.arange(2 * pairs), np.full(2 * pairs, -1)], 1)
    data = TokenisedDataset(
        name="made up",
        task="retrieval",
        weight=1.0,
        query_ids=rows,
        positive_ids=rows + pairs,
        negative_ids=none,
        query_keys=keys[:pairs],
        positive_keys=keys[pairs:],
        negative_keys=none[..., None].repeat(2, -1),
        scores=None,
        lengths=(lengths[:pairs] + lengths[pairs:]).astype(np.int32),
    )
    return TokenisedCorpus(TokenStore(words, np.r_[0, lengths.cumsum()]), (data,))
