"""Texts, tokenised once and kept as flat memory-mapped arrays."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from embedexp.files import replacing, to_disk

from .arrays import ArrayWriter, bytes_written, load, pieces
from .cache import WORK, cached
from .columns import fingerprint
from .distinct import first_seen
from .progress import Progress
from .prompted import tokenise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

log = logging.getLogger(__name__)

FORMAT = 2  # raise when the files or their meaning change: older stores are then built anew
BATCH = 2048  # texts tokenised at a time
CHARACTERS = 1 << 23  # characters tokenised at a time, unless one text has more
READ = 256  # rows read at a time: each may be a book
COMMIT = 1 << 20  # tokens after which an interrupted build need not go back


class Tokenizer(Protocol):
    """What is needed of a transformers tokenizer."""

    def __call__(self, text: list[str], **options: Any) -> Any:
        """Token ids of each text, under the key `input_ids`."""


@dataclass(frozen=True)
class Kind:
    """Texts of one kind: what is put around each, and how many tokens it may have at most."""

    prompt: str
    max_tokens: int  # special tokens included
    texts: Sequence[str]


@dataclass(frozen=True)
class Stretch:
    """Texts that are tokenised alike; rows may be lists of texts, which follow one another."""

    rows: Sequence[Any]
    encode: Callable[[list[str]], list[list[int]]]
    nested: bool = False

    def texts(self, start: int = 0) -> Iterator[tuple[int, list[str]]]:
        """From row `start` on, texts in batches, each with the number of the row after it."""
        batch: list[str] = []
        characters = 0
        for piece in pieces(len(self.rows) - start, min(READ, BATCH)):
            rows = self.rows[start + piece.start : start + piece.stop]
            texts = list(chain.from_iterable(rows) if self.nested else rows)
            batch += texts
            characters += sum(map(len, texts))
            if len(batch) >= BATCH or characters >= CHARACTERS:
                yield start + piece.stop, batch
                batch, characters = [], 0
        if batch:
            yield len(self.rows), batch


@dataclass(frozen=True)
class TokenStore:
    """n token sequences in a row: sequence i is `flat[offsets[i]:offsets[i + 1]]`.

    `flat [t]` int32 and `offsets [n+1]` int64 are memory maps, so that a store may be larger than
    memory and several processes share it.
    """

    flat: NDArray[np.int32]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens per sequence, `[n]`, in memory."""
        return np.diff(self.offsets)

    def tokens(self, index: int) -> NDArray[np.int32]:
        """The tokens of one sequence."""
        return self.flat[self.offsets[index] : self.offsets[index + 1]]

    def gather(self, index: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The sequences `index [m]` in a row: their tokens `[t]`, and offsets `[m+1]`."""
        starts = self.offsets[index]
        lengths = self.offsets[index + 1] - starts
        offsets = np.zeros(len(index) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        positions = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return self.flat[positions], offsets

    @classmethod
    def load(cls, folder: Path) -> TokenStore:
        """The store of a folder."""
        return cls(load(folder / "tokens.npy"), load(folder / "offsets.npy"))

    @classmethod
    def build(
        cls, kinds: Sequence[Kind], tokenizer: Tokenizer, cache_dir: str | Path
    ) -> TokenStore:
        """All texts of all kinds, one kind after the other, tokenised or found in the cache.

        The key in the cache is the content: tokenizer, prompts, lengths and texts. A store appears
        there whole or not at all, also when several processes build it at once; after an
        interruption, building goes on where it was.

        Raises:
            UserError: nothing can be written there.
        """

        def write(folder: Path) -> dict[str, int]:
            stretches = [
                Stretch(kind.texts, prompted(tokenizer, kind.prompt, kind.max_tokens))
                for kind in kinds
            ]
            return write_sequences(folder, stretches)

        return cls.load(cached(cache_dir, "tokens", _key(kinds, tokenizer), write)[0])


def prompted(
    tokenizer: Tokenizer, prompt: str, max_tokens: int
) -> Callable[[list[str]], list[list[int]]]:
    """How texts of a kind are tokenised."""
    return partial(_prompted, tokenizer, prompt, max_tokens)


def _prompted(
    tokenizer: Tokenizer, prompt: str, max_tokens: int, texts: list[str]
) -> list[list[int]]:
    return tokenise(tokenizer, prompt, texts, max_tokens)


def write_sequences(
    folder: Path,
    stretches: Sequence[Stretch],
    ids: NDArray[np.int64] | None = None,
    total: int | None = None,
) -> dict[str, int]:
    """Write `tokens.npy` and `offsets.npy`: the tokens of all texts, or of those with new ids.

    `ids [texts]` numbers the texts by first appearance; each is written once. `total` is the number
    of sequences, for the progress bar. Goes on after what an interrupted call left in the folder.
    Facts: sequences and tokens.
    """
    journal = folder / WORK / "tokens.json"
    at = _read_journal(journal, folder)
    if total is None and ids is None and not any(stretch.nested for stretch in stretches):
        total = sum(len(stretch.rows) for stretch in stretches)
    known = at["sequences"]
    with (
        ArrayWriter(folder / "tokens.npy", np.int32, keep=at["tokens"] if known else None) as flat,
        ArrayWriter(folder / "offsets.npy", np.int64, keep=known + 1 if known else None) as offsets,
        Progress("tokenise", total, "texts", known) as progress,
    ):
        if not known:
            offsets.append(np.zeros(1, np.int64))
        text, committed = at["text"], flat.length
        for number in range(at["stretch"], len(stretches)):
            stretch = stretches[number]
            start = at["row"] if number == at["stretch"] else 0
            for row, texts in stretch.texts(start):
                new = texts
                if ids is not None:
                    seen = first_seen(ids[text : text + len(texts)], offsets.length - 1)
                    new = [texts[i] for i in np.flatnonzero(seen).tolist()]
                text += len(texts)
                for some in _portions(new):
                    _append(stretch.encode(some), flat, offsets)
                progress.add(len(new))
                if flat.length - committed >= COMMIT:
                    committed = flat.length
                    _commit(journal, flat, offsets, stretch=number, row=row, text=text)
        facts = _commit(journal, flat, offsets, stretch=len(stretches), row=0, text=text)
    log.info("tokenised %d texts, %d tokens", facts["sequences"], facts["tokens"])
    return {name: facts[name] for name in ("sequences", "tokens")}


def _append(sequences: list[list[int]], flat: ArrayWriter, offsets: ArrayWriter) -> None:
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    offsets.append(flat.length + lengths.cumsum())
    flat.append(np.fromiter(chain.from_iterable(sequences), np.int32, int(lengths.sum())))


def _portions(texts: list[str]) -> Iterator[list[str]]:
    """Texts in lists of a bounded number of characters."""
    portion: list[str] = []
    characters = 0
    for text in texts:
        if portion and characters + len(text) > CHARACTERS:
            yield portion
            portion, characters = [], 0
        portion.append(text)
        characters += len(text)
    if portion:
        yield portion


def _read_journal(journal: Path, folder: Path) -> dict[str, int]:
    """Where an interrupted build was, if what it says it wrote is there."""
    fresh = dict.fromkeys(("stretch", "row", "text", "sequences", "tokens"), 0)
    try:
        at: dict[str, int] = json.loads(journal.read_text(encoding="utf-8"))
        sizes = [bytes_written(folder / name) for name in ("tokens.npy", "offsets.npy")]
    except (OSError, ValueError):
        return fresh
    whole = sizes[0] >= 4 * at["tokens"] and sizes[1] >= 8 * (at["sequences"] + 1)
    return at if whole else fresh


def _commit(journal: Path, flat: ArrayWriter, offsets: ArrayWriter, **place: int) -> dict[str, int]:
    """Note that everything up to a place is on the disk."""
    flat.flush()
    offsets.flush()
    state = {**place, "sequences": offsets.length - 1, "tokens": flat.length}
    with replacing(journal) as temporary:
        temporary.write_text(json.dumps(state), encoding="utf-8")
        to_disk(temporary)
    return state


def _key(kinds: Sequence[Kind], tokenizer: Tokenizer) -> str:
    parts = [[kind.prompt, kind.max_tokens, fingerprint(kind.texts)] for kind in kinds]
    return content_key([FORMAT, tokenizer_fingerprint(tokenizer), parts])


def content_key(parts: Any) -> str:
    """A name in the cache, from all that decides the content."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def tokenizer_fingerprint(tokenizer: Any) -> str:
    """SHA-256 of what decides a tokenizer's output, wherever it was loaded from."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        definition = json.loads(backend.to_str())
        # Set by the last call, and by every call anew.
        definition |= {"truncation": None, "padding": None}
    else:
        definition = {
            "class": type(tokenizer).__name__,
            "vocabulary": tokenizer.get_vocab(),
            "options": {k: repr(v) for k, v in tokenizer.init_kwargs.items() if "file" not in k},
        }
    sides = [getattr(tokenizer, side, None) for side in ("padding_side", "truncation_side")]
    content = json.dumps([definition, sides[1]], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()
