"""From a corpus of texts to integer arrays: what training reads."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from embedexp.config.tasks import instruction

from .hashing import stable_hash
from .store import Kind, TokenStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from embedexp.config.schema.embedding import Embedding

    from .dataset import Corpus, Dataset
    from .store import Tokenizer

ABSENT = -1
"""Where an example has fewer negatives than others."""

_KindKey = tuple[str, int]  # prompt, longest text in tokens


@dataclass(frozen=True)
class TokenisedDataset:
    """A dataset of N examples, with at most h hard negatives each, as columns.

    Ids are sequences of the store. Keys are for masking false negatives: two texts with the same
    key must never be negatives of each other. Keys follow the text, or the group where the dataset
    has groups; they are comparable across datasets.
    """

    name: str
    task: str
    weight: float
    query_ids: NDArray[np.int64]  # [N]
    positive_ids: NDArray[np.int64]  # [N]
    negative_ids: NDArray[np.int64]  # [N, h], ABSENT where there is none
    query_keys: NDArray[np.int64]  # [N]
    positive_keys: NDArray[np.int64]  # [N]
    negative_keys: NDArray[np.int64]  # [N, h], ABSENT where there is none
    scores: NDArray[np.float32] | None  # [N], for sts

    def __len__(self) -> int:
        return len(self.query_ids)


@dataclass(frozen=True)
class TokenisedCorpus:
    """The training datasets, and the store that their ids point into."""

    store: TokenStore
    datasets: tuple[TokenisedDataset, ...]


@dataclass(frozen=True)
class _Column:
    """Texts of one kind, by their number within it."""

    kind: _KindKey
    numbers: NDArray[np.int64]


def tokenise(
    corpus: Corpus, tokenizer: Tokenizer, embedding: Embedding, cache_dir: str | Path
) -> TokenisedCorpus:
    """Tokenise the training texts, each distinct one once, or find them in the cache.

    A text takes the prompt of its instruction task, and is cut to `query_tokens` (search queries)
    or `document_tokens` (all others), special tokens included.
    """
    texts = _Texts(embedding)
    columns = [texts.columns(dataset) for dataset in corpus.train]
    store = TokenStore.build(texts.kinds(), tokenizer, cache_dir)
    datasets = [
        _assemble(dataset, texts, *sides)
        for dataset, sides in zip(corpus.train, columns, strict=True)
    ]
    return TokenisedCorpus(store, tuple(datasets))


class _Texts:
    """The distinct texts of each kind, that is of each prompt and length, as they appear."""

    def __init__(self, embedding: Embedding) -> None:
        self.embedding = embedding
        self.known: dict[_KindKey, dict[str, int]] = {}
        self.hashes: dict[_KindKey, NDArray[np.int64]] = {}

    def columns(self, dataset: Dataset) -> tuple[_Column, _Column, _Column]:
        """Queries, positives, and all negatives in a row."""
        negatives = list(chain.from_iterable(dataset.negatives or ()))
        return (
            self._column(dataset.task, dataset.queries, is_query=True),
            self._column(dataset.task, dataset.positives, is_query=False),
            self._column(dataset.task, negatives, is_query=False),
        )

    def kinds(self) -> list[Kind]:
        """The kinds in the order of the store."""
        return [Kind(prompt, tokens, list(known)) for (prompt, tokens), known in self.known.items()]

    def ids(self, column: _Column) -> NDArray[np.int64]:
        """Places in the store, once all columns are known."""
        start = 0
        for kind, known in self.known.items():
            if kind == column.kind:
                break
            start += len(known)
        return column.numbers + start

    def keys(self, column: _Column) -> NDArray[np.int64]:
        """Hashes of the texts themselves, whatever their kind, once all columns are known."""
        if column.kind not in self.hashes:
            known = self.known[column.kind]
            hashes = (stable_hash("text", text) for text in known)
            self.hashes[column.kind] = np.fromiter(hashes, np.int64, len(known))
        return self.hashes[column.kind][column.numbers]

    def _column(self, task: str, texts: Sequence[str], *, is_query: bool) -> _Column:
        name = instruction(task, is_query=is_query)
        prompt: str = getattr(self.embedding.prompts, name)
        # The length goes by the instruction, as it does when a trained model embeds a text.
        queries = name == "search_query"
        tokens = self.embedding.query_tokens if queries else self.embedding.document_tokens
        known = self.known.setdefault((prompt, tokens), {})
        numbers = (known.setdefault(text, len(known)) for text in texts)
        return _Column((prompt, tokens), np.fromiter(numbers, np.int64, len(texts)))


def _assemble(
    dataset: Dataset, texts: _Texts, queries: _Column, positives: _Column, negatives: _Column
) -> TokenisedDataset:
    query_keys, positive_keys = texts.keys(queries), texts.keys(positives)
    negative_keys = texts.keys(negatives)
    if dataset.groups is not None:
        of_text = positive_keys
        query_keys = positive_keys = _group_keys(dataset)
        # A negative that is elsewhere a positive belongs to that one's group.
        groups = dict(zip(of_text.tolist(), positive_keys.tolist(), strict=True))
        moved = (groups.get(key, key) for key in negative_keys.tolist())
        negative_keys = np.fromiter(moved, np.int64, len(negative_keys))
    counts = np.fromiter(map(len, dataset.negatives or [[]] * len(dataset)), np.int64, len(dataset))
    return TokenisedDataset(
        dataset.name,
        dataset.task,
        dataset.weight,
        texts.ids(queries),
        texts.ids(positives),
        _rows(texts.ids(negatives), counts),
        query_keys,
        positive_keys,
        _rows(negative_keys, counts),
        None if dataset.scores is None else np.asarray(dataset.scores, np.float32),
    )


def _group_keys(dataset: Dataset) -> NDArray[np.int64]:
    groups = dataset.groups or ()
    keys = {group: stable_hash("group", dataset.name, group) for group in set(groups)}
    return np.fromiter((keys[group] for group in groups), np.int64, len(groups))


def _rows(values: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ragged rows, given in one row, as a rectangle `[N, h]`, filled up with ABSENT."""
    width = int(counts.max(initial=0))
    rows = np.full((len(counts), width), ABSENT, np.int64)
    rows[np.arange(width) < counts[:, None]] = values
    return rows
