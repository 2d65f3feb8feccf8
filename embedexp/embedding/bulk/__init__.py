"""Vectors of many texts, piece by piece, so that memory is bounded and no work is done twice."""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import TYPE_CHECKING, Any

from embedexp.data.progress import Progress

from .pieces import Pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from embedexp.embedding import Embedder

SHARD_SIZE = 10_000
"""Texts of a piece, unless told otherwise."""


def encode_all(
    texts: Iterable[str],
    load: Callable[[], Embedder],
    to: Path,
    settings: dict[str, Any],
    *,
    format: str | None = None,
    total: int | None = None,
) -> dict[str, Any]:
    """Write the vectors of texts, in their order, to a file or to a folder of pieces.

    `settings` is what the vectors depend on: a hash of the `model`, `task`, `role`, `width`,
    `dtype` and `shard_size`. Pieces that an earlier call has finished are passed over if their
    texts and settings are these. Returns the manifest: settings, and rows and hashes per piece.

    Raises:
        UserError: `to` holds vectors of other texts or settings, or another process writes there.
    """
    pieces = Pieces(to, settings, format)
    with pieces.owned(), Progress("encode", total, "texts") as progress:
        embedder = None
        for number, part in enumerate(parts(texts, int(settings["shard_size"]))):
            digest = digest_of(part)
            if not pieces.has(number, digest, len(part)):
                embedder = embedder or load()
                vectors = embedder.encode(
                    part,
                    task=settings["task"],
                    role=settings["role"],
                    width=settings["width"],
                    on_batch=progress.add,
                )
                pieces.write(number, vectors.astype(settings["dtype"]), digest)
            else:
                progress.skip(len(part))
        return pieces.finish()


def parts(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Lists of `size` texts, the last one shorter."""
    iterator = iter(texts)
    while part := list(islice(iterator, size)):
        yield part


def digest_of(texts: list[str]) -> str:
    """A hash of texts, in their order."""
    result = hashlib.sha256()
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        result.update(len(content).to_bytes(8, "little"))
        result.update(content)
    return result.hexdigest()
