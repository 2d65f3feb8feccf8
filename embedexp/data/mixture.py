"""`data=mixture`: several sources together, each by a count, by a share of a total, or whole."""

from __future__ import annotations

import hashlib
import logging
import math
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from embedexp.config.errors import UserError
from embedexp.config.mixture_counts import told_of, wanted

from . import describe as described
from . import fingerprint as content_of
from . import load as load_source
from .columns import Example, ExampleStore, batches
from .columns import fingerprint as column_content
from .dataset import COLUMNS, Corpus, Dataset, TextDataset
from .hashing import stable_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from embedexp.config.schema.data import Mixture

log = logging.getLogger(__name__)


def load(option: Mixture, cache_dir: str | Path | None = None) -> Corpus:
    """The chosen examples of every source, and all pairs that the sources hold out.

    Which examples of a source are chosen a hash of their texts decides, and neither the other
    sources nor their order; but a query that one source holds out is trained on in none, for
    sources often share their queries. Datasets are named `source`, or `source/dataset` where a
    source has several.

    Raises:
        UserError: a source is wrong, or has fewer examples than asked for.
    """
    counts = wanted(option)
    train: list[Dataset] = []
    heldout: list[Dataset] = []
    texts: list[TextDataset] = []
    corpora: dict[str, Corpus] = {}
    for name in sorted(option.sources):
        with _told_of(name):
            corpora[name] = load_source(option.sources[name].data, cache_dir)
    held = {name: _held_out(corpus) for name, corpus in corpora.items()}
    for name, corpus in corpora.items():
        part = option.sources[name]
        others = np.concatenate([np.empty(0, np.int64), *(held[n] for n in held if n != name)])
        seen = [_without(dataset, others, name) for dataset in corpus.train]
        chosen = _choose([*seen, *corpus.texts], counts[name], name)
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
                if part.language:  # what the mixture says of a source counts
                    changes["languages"] = None
                train.append(replace(dataset, **changes))
        several = len(corpus.heldout) > 1
        heldout += [
            replace(kept, name=f"{name}/{kept.name}" if several else name)
            for kept in corpus.heldout
        ]
    if option.one_dataset_per_task:
        tasks = sorted({dataset.task for dataset in train})
        train = [
            _joined(task, [data for data in train if data.task == task], cache_dir)
            for task in tasks
        ]
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


def _held_out(corpus: Corpus) -> NDArray[np.int64]:
    """Hashes of the queries that are kept out of training."""
    return np.concatenate([np.empty(0, np.int64), *map(_query_hashes, corpus.heldout)])


def _query_hashes(dataset: Dataset) -> NDArray[np.int64]:
    hashes = (stable_hash("hold out", q) for part in batches(dataset.queries) for q in part)
    return np.fromiter(hashes, np.int64, len(dataset))


def _without(dataset: Dataset, held: NDArray[np.int64], name: str) -> Dataset:
    """The dataset without the examples of the queries `held`, which is told."""
    if not len(held):
        return dataset
    kept = np.flatnonzero(~np.isin(_query_hashes(dataset), held))
    if dropped := len(dataset) - len(kept):
        log.info("%s: %d examples left out, of queries that other sources hold out", name, dropped)
        return dataset.select(kept)
    return dataset


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


def _joined(task: str, parts: Sequence[Dataset], cache_dir: str | Path | None) -> Dataset:
    """Datasets of one task as one, by the name of the task; groups stay those of each."""
    languages = {part.language for part in parts}
    content = hashlib.sha256(b"joined")
    for part in parts:
        content.update(f"{part.name}\0{part.language}\0".encode())
        for name in COLUMNS:
            content.update(column_content(getattr(part, name)).encode())
    return ExampleStore.build(
        name=task,
        task=task,
        rows=_examples(parts),
        cache_dir=cache_dir,
        key=content.hexdigest(),
        weight=sum(part.weight for part in parts),
        language=languages.pop() if len(languages) == 1 else "",
        total=sum(map(len, parts)),
    )


def _examples(parts: Sequence[Dataset]) -> Iterator[Example]:
    """All rows of the parts, with what stands for a column that only other parts have.

    Group names tell the sources apart: `3` of one is not `3` of another.
    """
    scored, taught = (
        any(getattr(part, name) is not None for part in parts)
        for name in ("scores", "teacher_scores")
    )
    spoken = {part.language for part in parts}
    several = len(spoken) > 1 or any(part.languages is not None for part in parts)
    for part in parts:
        rows = zip(*(_filled(getattr(part, name), len(part)) for name in COLUMNS), strict=True)
        for query, positive, negatives, score, group, teacher, language in rows:
            texts = tuple(negatives or ())
            yield Example(
                query,
                positive,
                texts,
                math.nan if score is None and scored else score,
                None if group is None else f"{part.name}\0{group}",
                (math.nan,) * (1 + len(texts)) if teacher is None and taught else teacher,
                (language or part.language or None) if several else None,
            )


def _filled(column: Sequence[Any] | None, count: int) -> Iterable[Any]:
    return repeat(None, count) if column is None else chain.from_iterable(batches(column))
