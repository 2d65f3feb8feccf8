"""From texts to vectors: prompts, lengths, and batches of equal work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from torch.nn.functional import normalize

from embedexp.batching.token_batch import TokenBatch
from embedexp.config.errors import UserError, nearest
from embedexp.config.tasks import INSTRUCTIONS, POSITIVE, QUERY
from embedexp.data import prompted

from . import moee
from .embedder import Role
from .prepacking import prepacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from .embedder import Embedder

BATCH_TOKENS = {"cpu": 2_048, "gpu": 8_192}
"""Tokens embedded at once unless told otherwise: on a CPU, what its caches hold of a layer."""


def encode(
    embedder: Embedder,
    texts: Sequence[str],
    *,
    task: str,
    role: Role | None,
    width: int | None,
    batch_tokens: int | None,
    progress: bool,
    on_batch: Callable[[int], None] | None = None,
) -> NDArray[np.float32]:
    """See `Embedder.encode`."""
    known("task", task, INSTRUCTIONS)
    if role is not None:
        known("role", role, get_args(Role))
    if width is not None and not 1 <= width <= embedder.width:
        raise UserError(
            f"width={width} asked of vectors with {embedder.width} dimensions",
            hint=f"choose a width from 1 to {embedder.width}",
        )
    if isinstance(texts, str):
        raise UserError("encode takes a list of texts, not one text", hint="write [text]")
    role = role or default_role(task)
    sequences = tokenize(embedder, texts, task=task, role=role)
    vectors = np.empty((len(texts), width or embedder.width), dtype=np.float32)

    lengths = [len(sequence) for sequence in sequences]
    if batch_tokens is None:
        batch_tokens = BATCH_TOKENS["cpu" if embedder.device.type == "cpu" else "gpu"]

    training = embedder.training
    embedder.eval()
    try:
        with (
            torch.inference_mode(),
            prepacked(embedder, sum(lengths)),
            bar(len(texts), progress) as advance,
        ):
            for index in batches(lengths, batch_tokens):
                batch = TokenBatch.pack(
                    [sequences[i] for i in index],
                    [INSTRUCTIONS.index(task)] * len(index),
                    [QUERY if role == "query" else POSITIVE] * len(index),
                )
                found = embedder(batch.to(embedder.device)).vectors
                if width is not None:
                    found = found[:, :width]
                    if embedder.config.embedding.normalize:
                        found = normalize(found, dim=-1)
                vectors[index] = found.cpu().numpy()
                advance.update(len(index))
                if on_batch is not None:
                    on_batch(len(index))
    finally:
        embedder.train(training)
    return vectors


def known(kind: str, word: str, words: Sequence[str]) -> None:
    """Check a name.

    Raises:
        UserError: it is not among the words.
    """
    if word not in words:
        close = nearest(word, words)
        raise UserError(
            f"unknown {kind} {word}",
            hint=f"did you mean {close}?" if close else f"choose from: {', '.join(words)}",
        )


def default_role(task: str) -> Role:
    """The side of a text under an instruction: only search queries are queries."""
    return "query" if task == "search_query" else "document"


def max_tokens(embedder: Embedder, role: Role) -> int:
    """The longest sequence of a role, in tokens with the special ones."""
    option = embedder.config.embedding
    return option.query_tokens if role == "query" else option.document_tokens


def tokenize(
    embedder: Embedder,
    texts: Sequence[str],
    *,
    task: str,
    role: Role,
    prompt: str | None = None,
) -> list[list[int]]:
    """Token ids of each text with its prompt (the task's unless given), cut to length."""
    tokenizer = embedder.text_tokenizer
    if getattr(embedder.config.embedding, "clean", False):
        texts = [moee.cleaned(text) for text in texts]
    if prompt is None:
        prompt = getattr(embedder.config.embedding.prompts, task)
    sequences = prompted.tokenise(tokenizer, prompt, texts, max_tokens(embedder, role))
    # A tokenizer without special tokens gives an empty text no token to pool.
    empty = next(
        token
        for token in (tokenizer.eos_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id, 0)
        if token is not None
    )
    return [list(sequence) or [empty] for sequence in sequences]


def batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Indices, longest sequences first, in batches of at most so many tokens (but at least one)."""
    batch: list[int] = []
    tokens = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and tokens + lengths[i] > batch_tokens:
            yield batch
            batch, tokens = [], 0
        batch.append(i)
        tokens += lengths[i]
    if batch:
        yield batch


def bar(total: int, shown: bool) -> Any:
    """A progress bar over texts: a context manager with `update(count)`."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    return tqdm(total=total, disable=not shown, unit="text", desc="encode")
