"""How a corpus becomes a tokenised store: hash the texts, number them, tokenise, write columns."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from embedexp.files import write_atomically

from .arrays import ROWS, ArrayWriter, load, pieces
from .cache import WORK
from .columns import batches
from .distinct import number
from .hashing import stable_hash, text_digests, text_keys
from .progress import Progress
from .store import Stretch, prompted, write_sequences

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from .dataset import Dataset
    from .store import Tokenizer

ABSENT = -1
"""Where an example has fewer negatives than others, or no group."""

Kind = tuple[str, int]  # prompt, longest text in tokens


@dataclass(frozen=True)
class Source:
    """A dataset, and the kinds of its texts."""

    dataset: Dataset
    query_kind: Kind
    document_kind: Kind

    def sides(self) -> tuple[tuple[Kind, Sequence[Any], bool], ...]:
        """Kind, column, and whether its rows are lists: queries, positives, negatives."""
        data = self.dataset
        return (
            (self.query_kind, data.queries, False),
            (self.document_kind, data.positives, False),
            (self.document_kind, data.negatives or (), True),
        )


def write(folder: Path, sources: Sequence[Source], tokenizer: Tokenizer) -> dict[str, int]:
    """Fill a folder with the store and with the columns of each dataset.

    Texts are counted from the first query of the first dataset to the last negative of the last
    one. Each step is found done when an interrupted call is repeated. Facts: those of the store.
    """
    work = folder / WORK
    stretches = [
        Stretch(rows, prompted(tokenizer, *kind), nested)
        for source in sources
        for kind, rows, nested in source.sides()
    ]
    state = work / "numbered.json"
    if state.exists():
        numbered = json.loads(state.read_text(encoding="utf-8"))
    else:
        starts = _hash(work, stretches)
        salts = [_salt(kind) for source in sources for kind, _, _ in source.sides()]
        digests = load(work / "digests.npy")
        distinct = number(digests, list(zip(starts[:-1], salts, strict=True)), work)
        numbered = {"starts": starts, "distinct": distinct}
        write_atomically(state, json.dumps(numbered))
    ids = load(work / "ids.npy")
    facts = write_sequences(folder, stretches, ids, numbered["distinct"])
    starts, digests = numbered["starts"], load(work / "digests.npy")
    for i, source in enumerate(sources):
        place = folder / str(i)
        place.mkdir(exist_ok=True)
        sides = [slice(*starts[k : k + 2]) for k in range(3 * i, 3 * i + 3)]
        mine = [ids[side] for side in sides], [digests[side] for side in sides]
        _write_columns(place, work, source.dataset, *mine)
        _write_lengths(place, load(folder / "offsets.npy"))
    return facts


def _salt(kind: Kind) -> NDArray[np.uint64]:
    """What tells the hashes of one kind from those of another, `[2]`."""
    digest = hashlib.blake2b(json.dumps(kind).encode(), digest_size=16).digest()
    return np.frombuffer(digest, "<u8").astype(np.uint64)


def _hash(work: Path, stretches: Sequence[Stretch]) -> list[int]:
    """Write the hashes of all texts; the number of each stretch's first text, and of texts."""
    starts = [0]
    total = (
        None if any(s.nested and s.rows for s in stretches) else sum(len(s.rows) for s in stretches)
    )
    with (
        ArrayWriter(work / "digests.npy", np.uint64, (2,)) as digests,
        Progress("compare", total, "texts") as progress,
    ):
        for stretch in stretches:
            for _, texts in stretch.texts():
                digests.append(text_digests(texts))
                progress.add(len(texts))
            starts.append(digests.length)
        digests.flush()
    return starts


def _write_columns(
    folder: Path,
    work: Path,
    dataset: Dataset,
    ids: Sequence[NDArray[np.int64]],
    digests: Sequence[NDArray[np.uint64]],
) -> None:
    """The columns of one dataset, from the ids and hashes of its three sides."""
    groups = None
    if dataset.groups is not None:
        with ArrayWriter(work / "groups.npy", np.int64) as file:
            for batch in batches(dataset.groups):
                file.append(_group_keys(dataset.name, batch))
        groups = load(work / "groups.npy")
    for name, side in (("query", 0), ("positive", 1)):
        with (
            ArrayWriter(folder / f"{name}_ids.npy", np.int64) as places,
            ArrayWriter(folder / f"{name}_keys.npy", np.int64, (2,)) as keys,
        ):
            for piece in pieces(len(dataset)):
                places.append(ids[side][piece])
                keys.append(_keys(digests[side][piece], None if groups is None else groups[piece]))
    with ArrayWriter(work / "counts.npy", np.int64) as counts:
        for texts in batches(dataset.negatives or ()):
            counts.append(np.fromiter(map(len, texts), np.int64, len(texts)))
        for piece in pieces(len(dataset) - counts.length):  # no negatives at all
            counts.append(np.zeros(piece.stop - piece.start, np.int64))
    _write_negatives(folder, work, ids[1:], digests[2], groups)
    _write_scores(folder, work, dataset)


def _group_keys(dataset: str, groups: Sequence[str | None]) -> NDArray[np.int64]:
    keys = {
        group: ABSENT if group is None else stable_hash("group", dataset, group)
        for group in set(groups)
    }
    return np.fromiter((keys[group] for group in groups), np.int64, len(groups))


def _keys(digests: NDArray[np.uint64], groups: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Two-column keys `[n, 2]` of texts and, where there are any, their groups."""
    own = text_keys(digests)
    return np.stack([own, np.full_like(own, ABSENT) if groups is None else groups], axis=1)


def _write_negatives(
    folder: Path,
    work: Path,
    ids: Sequence[NDArray[np.int64]],
    digests: NDArray[np.uint64],
    groups: NDArray[np.int64] | None,
) -> None:
    """`negative_ids [N, h]` and `negative_keys [N, h, 2]`, from ids of positives and negatives."""
    positives, negatives = ids
    counts = load(work / "counts.npy")
    width = int(counts.max(initial=0))
    group_of = None
    if groups is not None and len(negatives):
        size = 1 + max(int(some.max()) for some in ids)
        group_of = np.lib.format.open_memmap(
            work / "group_of.npy", mode="w+", dtype=np.int64, shape=(size,)
        )
        group_of[:] = ABSENT
        for piece in pieces(len(groups)):
            group_of[positives[piece]] = groups[piece]
    start = 0
    with (
        ArrayWriter(folder / "negative_ids.npy", np.int64, (width,)) as places,
        ArrayWriter(folder / "negative_keys.npy", np.int64, (width, 2)) as keys,
    ):
        for piece in pieces(len(counts), 1 + ROWS // (1 + width)):
            there = np.arange(width) < counts[piece, None]
            flat = slice(start, start + int(there.sum()))
            start = flat.stop
            mine = negatives[flat]
            rows = np.full(there.shape, ABSENT, np.int64)
            rows[there] = mine
            places.append(rows)
            pairs = np.full((*there.shape, 2), ABSENT, np.int64)
            pairs[there] = _keys(digests[flat], None if group_of is None else group_of[mine])
            keys.append(pairs)


def _write_scores(folder: Path, work: Path, dataset: Dataset) -> None:
    """`scores [N]`, and `teacher_scores [N, 1+h]` of those negatives which are there."""
    if dataset.scores is not None:
        with ArrayWriter(folder / "scores.npy", np.float32) as scores:
            for batch in batches(dataset.scores):
                scores.append(np.asarray(batch, np.float32))
    if dataset.teacher_scores is not None:
        counts = load(work / "counts.npy")
        width = 1 + int(counts.max(initial=0))
        done = 0
        with ArrayWriter(folder / "teacher_scores.npy", np.float32, (width,)) as teacher:
            for rows in batches(dataset.teacher_scores):
                block = np.full((len(rows), width), np.nan, np.float32)
                for i, row in enumerate(rows):
                    known = row[: 1 + int(counts[done + i])]
                    block[i, : len(known)] = known
                teacher.append(block)
                done += len(rows)


def _write_lengths(folder: Path, offsets: NDArray[np.int64]) -> None:
    """`lengths [N]`: tokens of query, positive and hard negatives together."""
    query, positive, negatives = (
        load(folder / f"{name}_ids.npy") for name in ("query", "positive", "negative")
    )
    with ArrayWriter(folder / "lengths.npy", np.int32) as lengths:
        for piece in pieces(len(query), 1 + ROWS // (2 + negatives.shape[1])):
            ids = np.concatenate([query[piece, None], positive[piece, None], negatives[piece]], 1)
            tokens = offsets[ids + 1] - offsets[ids]
            lengths.append(np.where(ids == ABSENT, 0, tokens).sum(axis=1))
