"""Plain texts as tokens: what language models are trained on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from embedexp.config.errors import UserError
from embedexp.config.schema.embedding import PLACEHOLDER

from .columns import ExampleStore, batches, fingerprint
from .hashing import stable_hash
from .prompted import frame
from .store import Kind, TokenStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from .dataset import Corpus, Dataset, TextDataset

WHOLE = 2**30
"""More tokens than any text has: documents are never cut here."""


@dataclass(frozen=True)
class TokenisedTexts:
    """The n texts of a dataset: text i is `flat[offsets[i]:offsets[i + 1]]` of a shared store."""

    name: str
    weight: float
    language: str
    flat: NDArray[np.int32]
    offsets: NDArray[np.int64]


@dataclass(frozen=True)
class TokenisedPairs:
    """The n pairs of a dataset, each as one sequence: prompt, second text, end token.

    `store` holds the n prompts, from `first_prompt` on, and the n second texts, from
    `first_answer` on, with the tokenizer's special tokens, of which `before` stand before a text
    and `after` behind it.
    """

    name: str
    task: str
    weight: float
    language: str
    store: TokenStore
    first_prompt: int
    first_answer: int
    count: int
    before: int
    after: int
    end: int

    def __len__(self) -> int:
        return self.count

    def lengths(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens of the prompts and of whole sequences, both `[m]`, of the pairs `rows [m]`."""
        offsets = self.store.offsets
        prompts, answers = (
            np.asarray(offsets[first + rows + 1] - offsets[first + rows], np.int64)
            for first in (self.first_prompt, self.first_answer)
        )
        prompts = prompts - self.after
        return prompts, prompts + answers - self.before - self.after + 1

    def __getitem__(self, row: int) -> NDArray[np.int64]:
        """The tokens of one pair: its prompt, its second text, and the end token."""
        prompt = self.store.tokens(self.first_prompt + row)
        answer = self.store.tokens(self.first_answer + row)
        inner = answer[self.before : len(answer) - self.after]
        return np.concatenate([prompt[: len(prompt) - self.after], inner, [self.end]]).astype(
            np.int64
        )


def texts_of(corpus: Corpus, cache_dir: str | Path | None = None) -> tuple[TextDataset, ...]:
    """The plain texts of a corpus; where it has pairs only, the distinct texts of each dataset.

    Many are written to the cache and read from there; finding the distinct ones takes the memory
    of an integer for each. Texts are the same if their 63-bit hashes are.
    """
    if corpus.texts:
        return corpus.texts
    return tuple(
        ExampleStore.build_texts(
            name=dataset.name,
            texts=_distinct(dataset),
            cache_dir=cache_dir,
            key="-".join(["texts", fingerprint(dataset.queries), fingerprint(dataset.positives)]),
            weight=dataset.weight,
            language=dataset.language,
        )
        for dataset in corpus.train
    )


def _distinct(dataset: Dataset) -> Iterator[str]:
    seen: set[int] = set()
    for side in (dataset.queries, dataset.positives):
        for text in chain.from_iterable(batches(side)):
            if (key := stable_hash("text", text)) not in seen:
                seen.add(key)
                yield text


def tokenise_texts(
    corpus: Corpus, tokenizer: Any, cache_dir: str | Path, *, ended: bool
) -> list[TokenisedTexts]:
    """Tokenise whole texts, or find them in the cache.

    They have the tokenizer's special tokens; `ended` texts end in the end token also where the
    tokenizer puts none, so that a language model learns where texts end.

    Raises:
        UserError: there are no texts, or there is no end token.
    """
    texts = texts_of(corpus, cache_dir)
    if not any(map(len, texts)):
        raise UserError(
            "the data has no texts to learn language from",
            where="data",
            hint="name a file with texts (data.columns.text) or with pairs",
        )
    prompt = ""
    if ended and not frame(tokenizer, "").after:
        end_token(tokenizer)
        prompt = PLACEHOLDER + tokenizer.eos_token
    kinds = [Kind(prompt, WHOLE, dataset.texts) for dataset in texts]
    store = TokenStore.build(kinds, tokenizer, cache_dir)
    found, start = [], 0
    for dataset in texts:
        offsets = store.offsets[start : start + len(dataset) + 1]
        found.append(
            TokenisedTexts(dataset.name, dataset.weight, dataset.language, store.flat, offsets)
        )
        start += len(dataset)
    return [dataset for dataset in found if dataset.offsets[-1] > dataset.offsets[0]]


def tokenise_pairs(
    corpus: Corpus,
    tokenizer: Any,
    cache_dir: str | Path,
    *,
    prompts: Mapping[str, str],
    input_tokens: int,
    output_tokens: int,
) -> list[TokenisedPairs]:
    """Tokenise pairs as prompts and answers, or find them in the cache.

    `prompts` are templates by training task, with `{text}` where the first text stands; it is cut
    so that a prompt has at most `input_tokens` tokens; the second text to `output_tokens`.

    Raises:
        UserError: the tokenizer has no end token.
    """
    around, end = frame(tokenizer, ""), end_token(tokenizer)
    before, after = len(around.before), len(around.after)
    kinds: list[Kind] = []
    for dataset in corpus.train:
        kinds.append(Kind(prompts[dataset.task], input_tokens + after, dataset.queries))
        # One place of the answer's is the end token's.
        kinds.append(Kind("", output_tokens - 1 + before + after, dataset.positives))
    store = TokenStore.build(kinds, tokenizer, cache_dir)
    found, start = [], 0
    for dataset in corpus.train:
        size = len(dataset)
        found.append(
            TokenisedPairs(
                dataset.name,
                dataset.task,
                dataset.weight,
                dataset.language,
                store,
                start,
                start + size,
                size,
                before,
                after,
                end,
            )
        )
        start += 2 * size
    return found


def end_token(tokenizer: Any) -> int:
    """The token that ends a text: the end token, or BERT's separator.

    Raises:
        UserError: the tokenizer has neither.
    """
    for token in (tokenizer.eos_token_id, tokenizer.sep_token_id):
        if token is not None:
            return int(token)
    raise UserError(
        "the tokenizer has no end token",
        where="backbone.tokenizer",
        hint="name a tokenizer with an eos_token",
    )
