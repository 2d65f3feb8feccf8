"""`data=mixture`: several sources together, each by a count, by a share of a total, or whole."""

from __future__ import annotations

import hashlib
import math
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from embedexp.config.errors import UserError
from embedexp.config.mixture_counts import told_of, wanted

from . import describe as described
from . import fingerprint as content_of
from . import load as load_source
from .columns import batches
from .dataset import Corpus, Dataset, TextDataset
from .hashing import stable_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from embedexp.config.schema.data import Mixture


def load(option: Mixture, cache_dir: str | Path | None = None) -> Corpus:
    """The chosen examples of every source, and all pairs that the sources hold out.

    Which examples of a source are chosen a hash of their texts decides, and neither the other
    sources nor their order. Datasets are named `source`, or `source/dataset` where a source has
    several.

    Raises:
        UserError: a source is wrong, or has fewer examples than asked for.
    """
    counts = wanted(option)
    train: list[Dataset] = []
    heldout: list[Dataset] = []
    texts: list[TextDataset] = []
    for name in sorted(option.sources):
        part = option.sources[name]
        with _told_of(name):
            corpus = load_source(part.data, cache_dir)
        chosen = _choose([*corpus.train, *corpus.texts], counts[name], name)
        several = len(chosen) > 1
        for dataset in chosen:
            changes: dict[str, Any] = {
                "name": f"{name}/{dataset.name}" if several else name,
                "weight": dataset.weight * part.weight,
                "language": part.language or dataset.language,
            }
            if isinstance(dataset, TextDataset):
                texts.append(replace(dataset, **changes))
            else:
                train.append(replace(dataset, **changes))
        several = len(corpus.heldout) > 1
        heldout += [
            replace(kept, name=f"{name}/{kept.name}" if several else name)
            for kept in corpus.heldout
        ]
    if option.one_dataset_per_task:
        tasks = sorted({dataset.task for dataset in train})
        train = [_joined(task, [data for data in train if data.task == task]) for task in tasks]
    return Corpus(tuple(train), tuple(heldout), fingerprint(option), tuple(texts))


def fingerprint(option: Mixture) -> str:
    """SHA-256 over the content of all sources; their order does not count."""
    digest = hashlib.sha256()
    for name in sorted(option.sources):
        with _told_of(name):
            digest.update(f"{name}\0{content_of(option.sources[name].data)}\n".encode())
    return digest.hexdigest()


def describe(option: Mixture) -> list[tuple[str, str, int | None]]:
    """Name, task and examples of each dataset, the latter where a source is known to the full.

    Raises:
        UserError: a source is wrong, or known to have fewer examples than asked for.
    """
    counts = wanted(option)
    rows: list[tuple[str, str, int | None]] = []
    for name in sorted(option.sources):
        with _told_of(name):
            found = described(option.sources[name].data)
        sizes = [size for _, _, size in found if size is not None]
        count, most = counts[name], getattr(option.sources[name].data, "max_examples", None)
        if len(sizes) == len(found):
            most = sum(sizes)
        elif most is not None:
            most *= len(found)
        if count is not None and most is not None and count > most:
            raise _too_few(name, count, most)
        for dataset, task, size in found:
            title = f"{name}/{dataset}" if len(found) > 1 else name
            of_all = count if len(found) == 1 else None  # a hash decides how many of each
            rows.append((title, task, size if count is None else of_all))
    if not option.one_dataset_per_task:
        return rows
    tasks: dict[str, int | None] = {}
    for _, task, size in rows:
        before = tasks.get(task, 0)
        tasks[task] = None if size is None or before is None else before + size
    return [(task, task, size) for task, size in sorted(tasks.items())]


@contextmanager
def _told_of(name: str) -> Iterator[None]:
    """Let an error of a source speak of its keys by the names that they have in the mixture."""
    try:
        yield
    except UserError as error:
        raise UserError(
            told_of(name, error.what),
            where=told_of(name, error.where or f"in data.sources.{name}"),
            hint=told_of(name, error.hint) if error.hint else None,
        ) from error


def _too_few(name: str, count: int, there: int) -> UserError:
    return UserError(
        f"the source {name} has {there} training examples, {count} of them are asked for",
        where=f"in data.sources.{name}",
        hint=f"set data.sources.{name}.count={there} or less, or give it a smaller share",
    )


def _choose(
    datasets: Sequence[Dataset | TextDataset], count: int | None, name: str
) -> list[Dataset | TextDataset]:
    """The first `count` examples of all datasets by the order of their hashes."""
    there = sum(map(len, datasets))
    if count is None or count == there:
        return list(datasets)
    if count > there:
        raise _too_few(name, count, there)
    hashes = np.concatenate([_hashes(dataset) for dataset in datasets])
    chosen = np.zeros(there, bool)
    chosen[np.argsort(hashes, kind="stable")[:count]] = True
    ends = np.cumsum([len(dataset) for dataset in datasets])[:-1]
    kept: list[Dataset | TextDataset] = []
    for dataset, mask in zip(datasets, np.split(chosen, ends), strict=True):
        rows = np.flatnonzero(mask)
        if isinstance(dataset, TextDataset):
            from .columns import select

            kept.append(replace(dataset, texts=select(dataset.texts, rows)))
        elif len(rows):
            kept.append(dataset.select(rows))
    return [dataset for dataset in kept if len(dataset)]


def _hashes(dataset: Dataset | TextDataset) -> NDArray[np.int64]:
    """A hash `[n]` of the texts of each example."""
    if isinstance(dataset, TextDataset):
        keys = (stable_hash("mixture", text) for part in batches(dataset.texts) for text in part)
    else:
        pairs = zip(batches(dataset.queries), batches(dataset.positives), strict=True)
        keys = (
            stable_hash("mixture", query, positive)
            for queries, positives in pairs
            for query, positive in zip(queries, positives, strict=True)
        )
    return np.fromiter(keys, np.int64, len(dataset))


def _joined(task: str, parts: Sequence[Dataset]) -> Dataset:
    """Datasets of one task as one, by the name of the task; groups stay those of each."""
    languages = {part.language for part in parts}
    return Dataset(
        task,
        task,
        _column(parts, "queries", lambda part: ()),
        _column(parts, "positives", lambda part: ()),
        _optional(parts, "negatives", lambda part: [()] * len(part)),
        _optional(parts, "scores", lambda part: [math.nan] * len(part)),
        _groups(parts),
        sum(part.weight for part in parts),
        _optional(parts, "teacher_scores", _no_scores),
        languages.pop() if len(languages) == 1 else "",
    )


def _column(parts: Sequence[Dataset], name: str, missing: Any) -> list[Any]:
    columns = (getattr(part, name) for part in parts)
    filled = (
        missing(part) if column is None else chain.from_iterable(batches(column))
        for part, column in zip(parts, columns, strict=True)
    )
    return list(chain.from_iterable(filled))


def _optional(parts: Sequence[Dataset], name: str, missing: Any) -> list[Any] | None:
    """A column that some of the parts have, with what stands for it in the others."""
    if all(getattr(part, name) is None for part in parts):
        return None
    return _column(parts, name, missing)


def _no_scores(part: Dataset) -> list[tuple[float, ...]]:
    return [(math.nan,) * (1 + len(texts)) for texts in part.negatives or [()] * len(part)]


def _groups(parts: Sequence[Dataset]) -> list[str | None] | None:
    """Group names that tell the sources apart: `3` of one is not `3` of another."""
    if all(part.groups is None for part in parts):
        return None
    return [
        None if group is None else f"{part.name}\0{group}"
        for part in parts
        for group in (part.groups if part.groups is not None else [None] * len(part))
    ]
