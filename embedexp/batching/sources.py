"""What a batch plan needs to know of a tokenised corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .plan import Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from embedexp.data.store import TokenStore
    from embedexp.data.tokenise import TokenisedCorpus, TokenisedDataset


def sources_of(corpus: TokenisedCorpus, option: Any) -> list[Source]:
    """The datasets of a corpus, with their keys and lengths where a `batching` option uses them."""
    return [
        Source(
            data.name,
            data.task,
            len(data),
            data.weight,
            getattr(data, "language", ""),
            _texts(data.query_keys) if option.no_duplicates else None,
            _texts(data.positive_keys) if option.no_duplicates else None,
            _lengths(data, corpus.store) if option.lengths == "bucketed" else None,
        )
        for data in corpus.datasets
    ]


def _texts(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The hashes of the texts, which stand in the first column."""
    return keys[:, 0] if keys.ndim == 2 else keys


def _lengths(data: TokenisedDataset, store: TokenStore) -> NDArray[np.int64]:
    """Tokens of each example: its query, positive and hard negatives together."""

    def tokens(ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return store.offsets[ids + 1] - store.offsets[ids]

    lengths = tokens(data.query_ids) + tokens(data.positive_ids)
    for column in data.negative_ids.T:
        present = column >= 0
        lengths[present] += tokens(column[present])
    return lengths
