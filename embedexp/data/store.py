"""Texts, tokenised once and kept as flat memory-mapped arrays."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from embedexp.config.errors import UserError

from .prompted import tokenise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from numpy.typing import NDArray

log = logging.getLogger(__name__)

FORMAT = 1  # raise when the files or their meaning change: older stores are then built anew
BATCH = 4096  # texts tokenised at a time


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
        """Tokens per sequence, `[n]`."""
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
    def build(
        cls, kinds: Sequence[Kind], tokenizer: Tokenizer, cache_dir: str | Path
    ) -> TokenStore:
        """All texts of all kinds, one kind after the other, tokenised or found in the cache.

        The key in the cache is the content: tokenizer, prompts, lengths and texts. A store appears
        there whole or not at all, also when several processes build it at once.

        Raises:
            UserError: nothing can be written there.
        """
        key = _key(kinds, tokenizer)
        final = Path(cache_dir).expanduser() / "tokens" / key
        if (store := cls._open(final)) is not None:
            return store
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            building = Path(tempfile.mkdtemp(prefix=f"{key}.", dir=final.parent))
        except OSError as error:
            raise UserError(
                f"the cache {final.parent} can't be written: {error.strerror}",
                where=f"paths.cache={cache_dir}",
                hint="set paths.cache, or EMBEDEXP_CACHE, to a folder in which you may write",
            ) from None
        try:
            _write(building, kinds, tokenizer)
            if final.exists() and cls._open(final) is None:
                shutil.rmtree(final, ignore_errors=True)  # damaged
            try:
                building.replace(final)
            except OSError:
                if cls._open(final) is None:  # else another process was faster with the same
                    raise
        finally:
            shutil.rmtree(building, ignore_errors=True)
        store = cls._open(final)
        assert store is not None
        log.info("tokenised %d texts, %d tokens", len(store), len(store.flat))
        return store

    @classmethod
    def _open(cls, folder: Path) -> TokenStore | None:
        """The store in a folder, or None if there is none that is whole."""
        try:
            expected = json.loads((folder / "store.json").read_text(encoding="utf-8"))
            offsets = np.load(folder / "offsets.npy", mmap_mode="r", allow_pickle=False)
            flat = np.load(folder / "tokens.npy", mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError):
            return None
        # Read once here: training on a damaged store would be wrong in silence.
        whole = expected == _description(offsets, flat)
        return cls(flat, offsets) if whole and offsets[-1] == len(flat) else None


def _write(folder: Path, kinds: Sequence[Kind], tokenizer: Tokenizer) -> None:
    count = sum(len(kind.texts) for kind in kinds)
    offsets = np.zeros(count + 1, np.int64)
    position = 0
    with (folder / "tokens.npy").open("wb") as file:
        _write_header(file, 0)
        for sequences in _tokenised(kinds, tokenizer):
            lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
            filled = slice(position + 1, position + 1 + len(sequences))
            offsets[filled] = offsets[position] + lengths.cumsum()
            position += len(sequences)
            flat = (token for sequence in sequences for token in sequence)
            file.write(np.fromiter(flat, np.int32, int(lengths.sum())).tobytes())
        file.seek(0)
        _write_header(file, int(offsets[-1]))
    np.save(folder / "offsets.npy", offsets, allow_pickle=False)
    content = _description(offsets, np.load(folder / "tokens.npy", mmap_mode="r"))
    (folder / "store.json").write_text(json.dumps(content), encoding="utf-8")
    for path in folder.iterdir():  # on the disk before the rename makes it visible
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def _description(offsets: NDArray[np.int64], flat: NDArray[np.int32]) -> dict[str, int | str]:
    """Sizes and content of a store, to tell a whole one from a damaged one."""
    digest = hashlib.sha256(np.ascontiguousarray(offsets).data)
    digest.update(flat.data)
    return {"sequences": len(offsets) - 1, "tokens": len(flat), "sha256": digest.hexdigest()}


def _write_header(file: BinaryIO, length: int) -> None:
    """The .npy header; numpy pads it, so that it takes the same room for every length."""
    header = {"descr": "<i4", "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(file, header)


def _tokenised(kinds: Sequence[Kind], tokenizer: Tokenizer) -> Iterator[list[list[int]]]:
    for kind in kinds:
        for start in range(0, len(kind.texts), BATCH):
            texts = kind.texts[start : start + BATCH]
            yield tokenise(tokenizer, kind.prompt, texts, kind.max_tokens)


def _key(kinds: Sequence[Kind], tokenizer: Tokenizer) -> str:
    digest = hashlib.sha256(f"{FORMAT}\0{tokenizer_fingerprint(tokenizer)}".encode())
    for kind in kinds:
        head = json.dumps([kind.prompt, kind.max_tokens, len(kind.texts)])
        digest.update(head.encode() + b"\n")
        for text in kind.texts:
            content = text.encode()
            digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()[:32]


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
