"""From a corpus of texts to integer arrays: what training reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from embedexp.config.tasks import instruction

from .arrays import load
from .cache import cached
from .columns import fingerprint
from .dataset import COLUMNS
from .store import FORMAT, TokenStore, content_key, tokenizer_fingerprint
from .training_columns import ABSENT, Source, write

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from embedexp.config.schema.embedding import Embedding

    from .dataset import Corpus, Dataset
    from .store import Tokenizer

__all__ = ["ABSENT", "TokenisedCorpus", "TokenisedDataset", "tokenise"]


@dataclass(frozen=True)
class TokenisedDataset:
    """A dataset of N examples, with at most h hard negatives each, as memory-mapped columns.

    Ids are sequences of the store. Keys are for masking false negatives, and have two columns: a
    hash of the text (at least 0), and one of its group (`ABSENT` without). Two texts must never be
    negatives of each other if they agree in any column, absent ones aside; keys are comparable
    across datasets. A negative which is elsewhere a positive of the dataset has that one's group.
    """

    name: str
    task: str
    weight: float
    query_ids: NDArray[np.int64]  # [N]
    positive_ids: NDArray[np.int64]  # [N]
    negative_ids: NDArray[np.int64]  # [N, h], ABSENT where there is none
    query_keys: NDArray[np.int64]  # [N, 2]
    positive_keys: NDArray[np.int64]  # [N, 2]
    negative_keys: NDArray[np.int64]  # [N, h, 2], ABSENT where there is none
    scores: NDArray[np.float32] | None  # [N], for sts
    lengths: NDArray[np.int32]  # [N], tokens of all texts of an example together
    teacher_scores: NDArray[np.float32] | None = None  # [N, 1+h], of the positive first; NaN: none
    language: str = ""

    def __len__(self) -> int:
        return len(self.query_ids)


@dataclass(frozen=True)
class TokenisedCorpus:
    """The training datasets, and the store that their ids point into."""

    store: TokenStore
    datasets: tuple[TokenisedDataset, ...]


def tokenise(
    corpus: Corpus, tokenizer: Tokenizer, embedding: Embedding, cache_dir: str | Path
) -> TokenisedCorpus:
    """Tokenise the training texts, each distinct one once, or find them in the cache.

    A text takes the prompt of its instruction task, and is cut to `query_tokens` (search queries)
    or `document_tokens` (all others), special tokens included. Memory does not grow with the
    number of texts, where these are in a file (`columns.ExampleStore`); an interrupted call is
    continued by the next one.

    Raises:
        UserError: nothing can be written to the cache, or a prompt leaves no room for a text.
    """
    sources = [_source(dataset, embedding) for dataset in corpus.train]
    key = content_key([FORMAT, tokenizer_fingerprint(tokenizer), list(map(_content, sources))])
    build = partial(write, sources=sources, tokenizer=tokenizer)
    folder, _ = cached(cache_dir, "tokens", key, build)
    datasets = (_opened(dataset, folder / str(i)) for i, dataset in enumerate(corpus.train))
    return TokenisedCorpus(TokenStore.load(folder), tuple(datasets))


def _source(dataset: Dataset, embedding: Embedding) -> Source:
    kinds = []
    for is_query in (True, False):
        name = instruction(dataset.task, is_query=is_query)
        # The length goes by the instruction, as it does when a trained model embeds a text.
        queries = name == "search_query"
        tokens = embedding.query_tokens if queries else embedding.document_tokens
        kinds.append((getattr(embedding.prompts, name), tokens))
    return Source(dataset, *kinds)


def _content(source: Source) -> list[object]:
    # The language of an example changes no token.
    names = [name for name in COLUMNS if name != "languages"]
    columns = [fingerprint(getattr(source.dataset, name)) for name in names]
    # Groups are those of the dataset's name.
    return [source.dataset.name, source.query_kind, source.document_kind, columns]


def _opened(dataset: Dataset, folder: Path) -> TokenisedDataset:
    def column(name: str) -> NDArray[np.int64]:
        return load(folder / f"{name}.npy")

    def optional(name: str) -> NDArray[np.float32] | None:
        return None if getattr(dataset, name) is None else load(folder / f"{name}.npy")

    return TokenisedDataset(
        dataset.name,
        dataset.task,
        dataset.weight,
        column("query_ids"),
        column("positive_ids"),
        column("negative_ids"),
        column("query_keys"),
        column("positive_keys"),
        column("negative_keys"),
        optional("scores"),
        load(folder / "lengths.npy"),
        optional("teacher_scores"),
        dataset.language,
    )
