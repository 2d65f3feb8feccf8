"""stage=filter: consistency filtering of the training data, and a report about what was dropped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from embedexp import data
from embedexp.config.errors import UserError
from embedexp.data.hashing import stable_hash
from embedexp.negatives import filter_report
from embedexp.negatives.filtered import filtered_name, is_whole, languages, write_filtered
from embedexp.negatives.filtering import consistency_filter
from embedexp.negatives.search import Tile

from .contrastive import device
from .teachers import teacher

if TYPE_CHECKING:
    from collections.abc import Iterable

    from embedexp.config import Config
    from embedexp.data import Dataset
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest
    from embedexp.training.world import World

    from .screen import Screen
    from .teachers import TextTeacher

FOLDER = "filtered"


def run(
    config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen, world: World
) -> None:
    """Filter every dataset of pairs; leave one Parquet file each, and a report.

    Shards are of one language, the dataset's or that of each example. Files that are there whole
    are kept: the same command goes on after a stop.
    """
    corpus = data.load(config.data, config.paths.cache)
    datasets = [dataset for dataset in corpus.train if dataset.task != "sts"]
    if not datasets:
        raise UserError(
            "there is nothing to filter: scored pairs have no nearest document",
            hint="choose data with pairs of queries and documents",
        )
    folder = directory.path / FOLDER
    loaded: TextTeacher | None = None
    paths = []
    for dataset in datasets:
        path = folder / filtered_name(dataset)
        paths.append(path)
        if is_whole(path):
            continue
        assert config.stage.name == "filter"
        if loaded is None:
            loaded = teacher(
                config.stage.teacher,
                config.stage.embeddings,
                Path(config.paths.cache),
                device(config),
            )
        screen.say(f"filtering {dataset.name}: {len(dataset):,} pairs")
        _filter(config, dataset, loaded, path, directory, stop)
    found = filter_report.collect(paths)
    filter_report.write(found, directory.path, title=directory.name)
    for line in filter_report.words(found):
        screen.say(f"  {line}")
    screen.say(f"pairs    {folder}")
    screen.say(f"report   {directory.path / filter_report.PAGE}")


def _filter(
    config: Config,
    dataset: Dataset,
    loaded: TextTeacher,
    path: Path,
    directory: RunDirectory,
    stop: StopRequest,
) -> None:
    option = config.stage
    assert option.name == "filter"

    def on_block(done: int, missing: int) -> None:
        directory.update(message=f"embedding {dataset.name}: {done:,} of {missing:,}")
        stop.check()

    queries, documents = (
        loaded.vectors(texts, dataset.task, is_query=is_query, on_block=on_block)
        for texts, is_query in ((dataset.queries, True), (dataset.positives, False))
    )
    directory.update(message=f"comparing {dataset.name}")
    spoken = languages(dataset)
    result = consistency_filter(
        queries,
        documents,
        top_k=option.top_k,
        shard_size=option.shard_pairs,
        min_score=option.min_score,
        query_keys=_keys(dataset, dataset.queries),
        document_keys=_keys(dataset, dataset.positives),
        parts=None if dataset.languages is None else np.unique(spoken, return_inverse=True)[1],
        seed=config.seed if option.shuffle else None,
        tile=Tile(**option.tile.model_dump()),
    )
    stop.check()
    write_filtered(path, dataset, result, option.top_k, option.min_score)


def _keys(
    dataset: Dataset, texts: Iterable[str]
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Hashes of text and group, -1 for none, `[n, 2]`."""
    keys = np.full((len(dataset), 2), -1, np.int64)
    keys[:, 0] = np.fromiter((stable_hash("text", text) for text in texts), np.int64, len(dataset))
    if dataset.groups is not None:
        for row, group in enumerate(dataset.groups):
            if group is not None:
                keys[row, 1] = stable_hash("group", dataset.name, group)
    return keys
